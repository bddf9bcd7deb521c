"""Status on every prefix of a night, for programs and for people."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from harness.artifacts.events import BarMoved, Warned
from harness.artifacts.study import Study
from harness.trial import Bar
from harness.views import status
from tests import study_factory as make


@pytest.mark.parametrize("alive", [None, True, False])
def test_every_prefix_of_a_night_has_a_status(alive: bool | None) -> None:
    for study in make.prefixes(make.night(12)):
        json.dumps(status.as_dict(study, alive), allow_nan=False)
        text = status.as_text(study, alive)
        assert text and all(line.isprintable() for line in text.splitlines())


def test_nothing_at_all_is_a_sentence() -> None:
    assert status.as_text(Study()) == "Nothing is recorded yet."
    assert status.as_dict(Study())["state"] == "empty"


def test_the_numbers_are_the_journals() -> None:
    study = make.study(20)
    facts = status.as_dict(study)
    assert study.baseline and study.incumbent and study.bar and study.noise
    assert facts["trials"] == 20 and facts["keeps"] == study.counts["keep"] - 1
    assert facts["judged"] == facts["keeps"] + study.counts["discard"]
    assert facts["gain"]["reading"] == pytest.approx((study.baseline.value or 0) - (study.incumbent.value or 0))
    assert facts["gain"]["estimate"] == pytest.approx((study.baseline.value or 0) - study.bar.ref)
    assert facts["gain"]["standard_error"] == pytest.approx(study.noise.sigma * (1 / 3 + 1) ** 0.5)
    assert facts["budget_left"]["trials"] == 80
    assert facts["budget_left"]["seconds"] == pytest.approx(8 * 3600 - study.elapsed)
    assert [row["trial"] for row in facts["last"]] == [16, 17, 18, 19, 20]


def test_a_summary_fold_says_the_same_as_the_whole() -> None:
    whole = make.study(40)
    summary = whole.model_copy(update={"rows": whole.rows[-12:]})
    assert status.as_dict(summary) == status.as_dict(whole)
    assert status.as_text(summary) == status.as_text(whole)


def test_where_higher_is_better_a_gain_is_still_positive() -> None:
    study = make.study(40, of=make.Night(direction="higher", seed=3))
    assert status.keeps(study) > 0
    assert (status.gain(study) or {})["reading"] > 0


def test_a_failed_baseline_is_said_and_no_gain_is_made_up() -> None:
    night = make.Night()
    study = make.fold([night.start(), *night.baseline(fails=True)])
    assert status.gain(study) is None and status.keeps(study) == 0
    assert "no gain can be stated" in status.as_text(study)


def test_a_measured_trial_that_was_not_kept_for_its_seconds_says_so() -> None:
    night = make.Night()
    row = make.fold([night.start(), *night.baseline(), *night.slow(0.02)]).rows[1]
    line = status.row_text(row)
    assert line.startswith("   1  discard   1.5") and line.endswith("twice as wide (no_headroom)")


def test_the_state_depends_on_stop_and_on_who_holds_the_lock() -> None:
    running, stopped = make.study(3, stop=False), make.study(3)
    assert [status.state(running, alive) for alive in (None, True, False)] == ["running", "running", "interrupted"]
    assert [status.state(stopped, alive) for alive in (None, True, False)] == ["stopped", "running", "stopped"]
    assert "All 3 trials are done. (exit code 0)" in status.as_text(stopped)
    assert "`ratchet resume`" in status.as_text(running, False)


def test_a_trial_in_progress_is_named() -> None:
    night = make.Night()
    study = make.fold([night.start(), *night.baseline(), *islice(night.candidate(title="wider"), 4)])
    assert "trial 1 (wider), reading 1" in status.as_text(study)
    assert status.as_dict(study)["current"]["title"] == "wider"


def test_limits_that_are_not_set_are_none_and_deadlines_are_shown() -> None:
    night = make.Night(limits={"trials": None, "hours": None, "deadline": "07:30"})
    study = make.study(2, of=night)
    unset = dict.fromkeys(("trials", "seconds", "calls", "tokens", "dollars", "retries", "repairs", "reviews"))
    assert status.budget_left(study) == {**unset, "deadline": "07:30"}
    assert status.budget_sentence(study) == "until 07:30"
    assert status.budget_sentence(Study()) == "no limit"


def test_the_last_warnings_are_shown_flat_and_the_rest_counted() -> None:
    night = make.Night()
    warnings = [Warned(code="rules", message=f"line\n{n} \x1b[31m") for n in range(5)]
    text = status.as_text(make.fold([night.start(), *warnings]))
    assert "rules: line 4" in text and "2 earlier warnings" in text and "\x1b" not in text


def test_a_bar_on_more_readings_has_a_smaller_error() -> None:
    study = make.study(20, stop=False)
    before = (status.gain(study) or {})["standard_error"]
    entry = next(make.entries([BarMoved(trial=4, bar=Bar(ref=1.53, readings=3), value=1.53)]))
    study.apply(entry)
    after = status.gain(study) or {}
    assert after["standard_error"] < before and after["estimate"] != after["reading"]
