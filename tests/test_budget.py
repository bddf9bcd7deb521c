"""Every reason to stop, with its exit code and its sentence."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from harness.artifacts.study import Study
from harness.control import budget, limits
from harness.control.limits import Limits
from harness.oversight import Correction, Escalation, Review
from harness.rules import Rules
from harness.sections import Crash, Metric, StopAt
from harness.trial import Stop
from tests import study_factory as make

NOW = datetime(2026, 3, 8, 22, 0, tzinfo=timezone.utc)


def rules(stop: dict[str, Any] | None = None, direction: str = "lower", crashes: int = 5, refused: int = 50, machine: int = 3) -> Rules:
    return Rules(
        stop=StopAt.model_validate(stop or {"trials": 100}),
        metric=Metric.model_validate({"direction": direction}),
        escalation=Escalation(consecutive_crashes=crashes, refused_proposals=refused),
        crash=Crash(infrastructure_failures=machine),
    )


def night(*effects: float | None, baseline: bool = True, refused: int = 0, **options: Any) -> Study:
    """A study with one trial per effect; `None` is a crash."""
    of = make.Night(sigma=1e-9, **options)
    events = [of.start(), *(of.baseline() if baseline else ())]
    for effect in effects:
        events += of.candidate(effect, failure=0 if effect is None else None)
    for _ in range(refused):
        events += of.refuse()
    return make.fold(events)


def asked(study: Study, allowed: Limits, law: Rules | None = None, now: datetime = NOW) -> Stop | None:
    return budget.stop(study, allowed, law or rules(), now)


def test_nothing_stops_a_study_that_has_budget_left() -> None:
    assert asked(Study(), Limits(trials=1)) is None
    assert asked(night(), Limits(trials=1)) is None
    assert asked(night(-0.1, None, 0.1), Limits(trials=4, hours=8, deadline=NOW + timedelta(hours=8))) is None


@pytest.mark.parametrize(("study", "law", "allowed", "reason", "code", "sentence"), [
    (night(None, None, None), rules(crashes=3), Limits(trials=9), "consecutive_crashes", 3, "3 trials in a row crashed, the limit of [escalation]"),
    (night(-0.1, refused=2), rules(refused=2), Limits(trials=9), "refused_proposals", 3, "2 proposals in a row were refused"),
    (night(0.1), rules({"trials": 9, "target": 1.5}), Limits(trials=9), "target", 0, "the incumbent's 1.4401 meets the target 1.5"),
    (night(-0.1, 0.1), rules(), Limits(trials=2), "trials", 0, "all 2 trials are done"),
    (night(None, None), rules(), Limits(trials=2), "trials", 4, "all 2 trials are done, but no trial after the baseline could be measured"),
    (night(-0.1), rules(), Limits(hours=0.0001), "hours", 0, "the time is used up"),
    (night(None), rules(), Limits(hours=0.0001), "hours", 4, "could be measured"),
    (night(-0.1), rules(), Limits(deadline=NOW), "deadline", 0, "the time is used up"),
    (Study(), rules(), Limits(deadline=NOW - timedelta(hours=3)), "deadline", 4, "the baseline was not measured yet"),
    (night(-0.1), rules(), Limits(deadline=NOW + timedelta(seconds=30)), "deadline", 0, "30 s are left and a trial takes about 48 s"),
    (night(-0.1), rules(), Limits(hours=0.05, deadline=NOW + timedelta(hours=9)), "hours", 0, "6 s are left and a trial takes about 48 s"),
])  # fmt: skip
def test_each_reason_has_its_exit_code_and_its_sentence(
    study: Study, law: Rules, allowed: Limits, reason: str, code: int, sentence: str
) -> None:
    if allowed.hours == 0.05:
        study = study.model_copy(update={"elapsed": 174.0})
    stop = asked(study, allowed, law)
    assert stop is not None
    assert (stop.reason, stop.exit_code) == (reason, code)
    assert sentence in stop.sentence


def test_a_person_is_called_before_a_plan_is_fulfilled() -> None:
    stop = asked(night(None, None), Limits(trials=2, hours=0.001), rules(crashes=2))
    assert stop is not None and stop.reason == "consecutive_crashes"


def test_one_below_a_limit_is_no_reason() -> None:
    assert asked(night(None, None), Limits(trials=3), rules(crashes=3)) is None
    assert asked(night(refused=1), Limits(trials=3), rules(refused=2)) is None


def test_crashes_that_a_measured_trial_followed_do_not_stop_the_night() -> None:
    assert asked(night(None, None, -0.1, None, None), Limits(trials=9), rules(crashes=3)) is None


@pytest.mark.parametrize(("direction", "effect", "target", "met"), [
    ("lower", 0.1, 1.4402, True), ("lower", 0.1, 1.44, False), ("lower", -0.1, 1.5, False), ("lower", -0.1, 1.55, True),
    ("higher", 0.1, 1.64, True), ("higher", 0.1, 1.6402, False), ("higher", -0.1, 1.6, False), ("higher", -0.1, 1.5, True),
])  # fmt: skip
def test_the_target_is_met_by_the_incumbent_and_in_the_metrics_direction(direction: str, effect: float, target: float, met: bool) -> None:
    study = night(effect, direction=direction)
    stop = asked(study, Limits(trials=9), rules({"trials": 9, "target": target}, direction))
    assert (stop is not None and stop.reason == "target") is met


def test_a_target_needs_a_measured_incumbent() -> None:
    assert asked(night(baseline=False), Limits(trials=9), rules({"trials": 9, "target": 9.0})) is None


def test_without_a_baseline_the_sentence_says_what_happened_and_where_to_look() -> None:
    of = make.Night()
    stop = budget.no_baseline(make.fold([of.start(), *of.baseline(1, fails=True)]))
    assert (stop.reason, stop.exit_code) == ("no_baseline", 4)
    assert "the baseline ended as crash (exit_code)" in stop.sentence
    assert "0000-baseline" in stop.sentence


def test_a_proposer_without_ideas_ends_the_study_as_planned_if_anything_was_measured() -> None:
    assert (budget.exhausted(night(-0.1)).reason, budget.exhausted(night(-0.1)).exit_code) == ("proposals", 0)
    assert budget.exhausted(night(None)).exit_code == 4
    assert budget.exhausted(night()).exit_code == 0


def test_every_counter_is_what_is_left() -> None:
    study = night(-0.1, None, None)
    left = budget.left(study, Limits(trials=10, hours=1, deadline=NOW + timedelta(minutes=90)), rules(), NOW)
    assert (left.trials, left.crashes) == (7, 3)
    assert left.seconds == pytest.approx(3600 - study.elapsed, abs=0.1)
    left = budget.left(study, Limits(trials=10, hours=9, deadline=NOW + timedelta(minutes=90)), rules(), NOW)
    assert left.seconds == 5400
    left = budget.left(study, Limits(trials=2, deadline=NOW - timedelta(minutes=1)), rules(crashes=1), NOW)
    assert (left.trials, left.seconds, left.crashes) == (0, 0, 0), "never less than nothing"
    left = budget.left(study, Limits(), rules(), NOW)
    assert (left.trials, left.seconds) == (None, None), "no limit is None"


def test_hours_count_time_at_work_and_not_the_clock_on_the_wall() -> None:
    study = night(-0.1)
    for now in (NOW, NOW + timedelta(days=3), NOW - timedelta(hours=1)):
        assert asked(study, Limits(hours=1), now=now) is None
    stop = asked(study.model_copy(update={"elapsed": 3600.0}), Limits(hours=1))
    assert stop is not None and stop.reason == "hours"


def test_a_trial_is_expected_to_take_what_the_others_took() -> None:
    assert budget.expected_seconds(Study()) == 0.0
    study = night()
    assert budget.expected_seconds(study) == study.baseline_seconds / 3
    study = night(-0.1, None)
    assert budget.expected_seconds(study) == study.trial_seconds / 2
    takes = budget.expected_seconds(study)
    for spare, stops in ((takes + 1, False), (takes - 1, True)):
        assert (asked(study, Limits(deadline=NOW + timedelta(seconds=spare))) is not None) is stops


def test_flags_come_before_rules() -> None:
    law = rules({"trials": 10, "hours": 2, "deadline": "07:00"})
    assert limits.at_start(law, NOW, {}) == Limits(trials=10, hours=2, deadline=NOW + timedelta(hours=9))
    assert limits.at_start(law, NOW, {"trials": 3, "hours": 0.5, "deadline": "23:00"}) == Limits(
        trials=3, hours=0.5, deadline=NOW + timedelta(hours=1)
    )
    assert limits.at_start(rules({"trials": 10}), NOW, {}) == Limits(trials=10)


@pytest.mark.parametrize(("text", "expected"), [
    ("22:01", "2026-03-08T22:01"), ("23:59", "2026-03-08T23:59"), ("00:00", "2026-03-09T00:00"), ("07:30", "2026-03-09T07:30"),
    ("22:00", "2026-03-09T22:00"), ("21:59", "2026-03-09T21:59"),
])  # fmt: skip
def test_a_deadline_is_the_next_time_the_clock_shows_it(text: str, expected: str) -> None:
    for zone in (timezone.utc, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))):
        now = NOW.replace(tzinfo=zone)
        found = limits.at_start(rules(), now, {"deadline": text}).deadline
        assert found is not None
        assert found == datetime.fromisoformat(expected).replace(tzinfo=zone)
    later = limits.at_start(rules(), NOW.replace(second=30), {"deadline": "22:00"}).deadline
    assert later == NOW + timedelta(days=1)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("month", "day", "hours"), [(3, 28, 8.0), (10, 24, 10.0), (6, 1, 9.0)])
def test_the_clock_on_the_wall_counts_in_the_night_it_is_put_forward_or_back(berlin: None, month: int, day: int, hours: float) -> None:
    assert os.environ["TZ"].startswith("CET")
    evening = datetime(2026, month, day, 22, 0).astimezone()
    found = limits.at_start(rules(), evening, {"deadline": "07:00"}).deadline
    assert found is not None
    assert (found - evening).total_seconds() / 3600 == hours
    assert found.astimezone().strftime("%H:%M") == "07:00"


def test_an_edit_of_the_stop_section_replaces_what_it_edits_and_leaves_the_rest() -> None:
    allowed = Limits(trials=5, hours=2, deadline=NOW + timedelta(hours=1))
    before = StopAt(trials=100, hours=10)
    assert limits.amended(allowed, before, before, NOW) == allowed
    assert limits.amended(allowed, before, StopAt(trials=7, hours=10), NOW) == allowed.model_copy(update={"trials": 7})
    assert limits.amended(allowed, before, StopAt(trials=100), NOW) == allowed.model_copy(update={"hours": None})
    later = limits.amended(allowed, before, StopAt(trials=100, hours=10, deadline="07:00"), NOW)
    assert later == allowed.model_copy(update={"deadline": NOW + timedelta(hours=9)})
    assert limits.amended(later, StopAt(trials=1, deadline="07:00"), StopAt(trials=1), NOW).deadline is None


def test_the_baseline_alone_is_no_success_of_a_trial() -> None:
    """Exit code 4 says that no trial after the baseline was measured, whatever the plan was."""
    assert night().counts == {"keep": 1}
    for study, code in ((night(None), 4), (night(None, -0.1), 0), (night(0.1), 0)):
        stop = asked(study, Limits(trials=study.trials))
        assert stop is not None and stop.exit_code == code


def test_three_interruptions_in_a_row_are_the_machines_trouble_even_in_an_open_trial() -> None:
    assert budget.machine(night().model_copy(update={"interruptions_in_a_row": 2}), rules()) is None
    stop = budget.machine(night().model_copy(update={"interruptions_in_a_row": 3}), rules())
    assert stop is not None
    assert (stop.reason, stop.exit_code) == ("infrastructure", 75)
    assert "3 interruptions in a row: the machine" in stop.sentence


@pytest.mark.parametrize(
    ("used", "cap"), [((4.0, 8.0, 6.0), 10.0), ((0.01, 0.02), 1.02), ((3.0, 3.9), 4.9), ((4.0, None), 5.0), ((None,), None)]
)
def test_the_compute_cap_is_a_quarter_above_the_slowest_baseline_and_a_second_at_least(
    used: tuple[float | None, ...], cap: float | None
) -> None:
    base = night().baseline
    assert base is not None
    readings = tuple(
        base.readings[0].model_copy(update={"outcome": base.readings[0].outcome.model_copy(update={"cpu_seconds": seconds})})
        for seconds in used
    )
    slow = base.model_copy(update={"readings": readings})
    assert budget.cpu_cap(rules(), slow) == (None if cap is None else pytest.approx(cap))
    assert budget.cpu_cap(rules(), None) is None
    wall = rules().model_copy(update={"trial": rules().trial.model_copy(update={"clock": "wall"})})
    assert budget.cpu_cap(wall, slow) is None


def test_repairs_and_reviews_are_counted_where_a_rule_has_them() -> None:
    study = night(-0.1)
    study.repairs.made, study.reviewing.asked = 3, {4: 1, 7: 1}
    asked_for = Review(added_lines=3, criteria=("One line.",), in_all=5)
    for law, expected in (
        (rules(), (17, None)), (rules().model_copy(update={"review": asked_for}), (17, 3)), (rules().model_copy(update={"correction": Correction(in_all=2)}), (0, None)),
        (rules().model_copy(update={"correction": Correction(attempts=0), "review": asked_for.model_copy(update={"in_all": 1})}), (None, 0)),
    ):  # fmt: skip
        left = budget.left(study, Limits(trials=9), law, NOW)
        assert (left.repairs, left.reviews) == expected
