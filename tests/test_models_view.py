"""What is said of models in status, report and console: known and unknown cost apart, what is left, who is away."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from harness.artifacts.call_events import Answered, Asked, ModelAway
from harness.artifacts.events import Event
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.moments import utc
from harness.views import models, report, status
from tests import study_factory as make

LIMITS: dict[str, str | int | float | None] = {"trials": 100, "calls": 20, "tokens": 50_000, "dollars": 5.0, "retries": 3}
BACK = utc(make.START + timedelta(hours=6))


def called(*events: Event, limits: dict[str, str | int | float | None] | None = None, stand_ins: int = 0) -> Study:
    """A study with a keep, after these events of models."""
    night = make.Night(proposer="anthropic", limits={"trials": 100} if limits is None else limits)
    trials: list[Event] = [night.start(), *night.baseline(), *night.candidate(effect=0.1)]
    for _ in range(stand_ins):
        trials += [
            event.model_copy(update={"stands_for": "anthropic"}) if event.kind == "begun" else event
            for event in night.candidate(effect=-0.1)
        ]
    return make.fold([*trials, *events])


def call(number: int, cost: float | None, retry: bool = False, upper: float | None = 0.5) -> list[Event]:
    """A call with its bill."""
    return [
        Asked(call=number, proposal=number, proposer="anthropic", model="m", retry=retry, dollars=upper, tokens=9000),
        Answered(call=number, outcome="end_turn", tokens=None if cost is None else 4000, cost_usd=cost),
    ]


def away(until: str | None = BACK, detail: str = "too many") -> ModelAway:
    """The model is away."""
    return ModelAway(proposer="anthropic", reason="rate_limited", detail=detail, until=until)


def line(study: Study) -> str:
    """The line of `ratchet status`."""
    return "\n".join(models.status_lines(study))


def test_a_study_that_asked_nobody_has_no_word_of_models() -> None:
    study = called()
    assert models.facts(study) is None and status.as_dict(study)["models"] is None
    assert "models" not in status.as_text(study)
    assert status.budget_sentence(study) == "99 of 100 trials left"


def test_known_and_unknown_cost_are_told_apart() -> None:
    known = called(*call(1, 0.25), *call(2, 0.17, retry=True))
    assert line(known) == "  models     2 calls, 1 of them retries; 0.42 dollars; 8,000 tokens"
    some = called(*call(1, 0.25), *call(2, None))
    assert "0.25 dollars known, at most 0.50 more by upper estimates for 1 call of unknown cost; 13,000 tokens" in line(some)
    none = called(*call(1, None, upper=None))
    assert line(none) == "  models     1 call; 1 call of unknown cost; 9,000 tokens"


def test_what_is_left_counts_open_calls_by_their_upper_estimates() -> None:
    study = called(*call(1, 0.25), *call(2, None)[:1], limits=LIMITS)
    facts = status.as_dict(study)
    assert facts["models"]["left"] == {"calls": 18, "tokens": 37_000, "dollars": 4.25, "retries": 3}
    assert facts["budget_left"]["dollars"] == 4.25 and facts["budget_left"]["trials"] == 99
    assert (facts["models"]["open"], facts["models"]["held_usd"]) == (1, 0.5)
    assert (
        status.budget_sentence(study) == "99 of 100 trials left, 4.25 of 5 dollars left, 18 of 20 calls left, 37,000 of 50,000 tokens left"
    )
    assert "2 calls, 0 of them retries, 3 more allowed" in line(study) and "1 call not answered yet" in line(study)


def test_who_is_away_is_named_with_the_local_time_of_the_return_and_the_stand_ins() -> None:
    study = called(*call(1, 0.1), away(), stand_ins=2)
    assert "; 2 trials of a stand-in\n             anthropic is away until 03:30 local (rate_limited: too many)" in line(study)
    assert line(study) in status.as_text(study)
    assert "is away until a person has looked (" in line(called(away(None)))
    assert "until 2026-03-11 21:30 local" in line(called(away(utc(make.START + timedelta(days=3)))))
    (found,) = status.as_dict(study)["models"]["away"]
    assert (found["proposer"], found["until"]) == ("anthropic", BACK)


def test_the_report_tells_absences_and_what_a_kept_trial_cost() -> None:
    def cost(study: Study) -> str:
        return report.render(study, StudyDir(Path("/project"), "mar8")).split("## What it cost")[1]

    text = cost(called(*call(1, 0.25), *call(2, 0.17), away(), stand_ins=1))
    assert "- proposer anthropic; model cost: 0.42 dollars; 2 calls, 0 of them retries; 8,000 tokens\n" in text
    assert "- model cost of a trial of theirs that was kept: 0.42 dollars (1 keep)\n" in text
    assert (
        "- a model was away once; a stand-in proposed 1 trial meanwhile\n- anthropic is away until 03:30 local (rate_limited: too many)"
        in text
    )
    unknown = cost(called(*call(1, 0.25), *call(2, None), away()))
    assert "kept trial" not in unknown and "a model was away once; no stand-in proposed a trial" in unknown
    assert "model cost: none, no model was asked" in cost(called())


def test_foreign_words_about_an_absence_are_flat_and_no_markup() -> None:
    study = called(away(detail="a|b\n# c \x1b[2J <script>"))
    assert all(part.isprintable() for part in line(study).split("\n"))
    assert "a\\|b # c &lt;script>" in "\n".join(models.cost_lines(study))
    json.dumps(status.as_dict(study), allow_nan=False)


@pytest.mark.parametrize(("dollars", "text"), [(0.0, "0.00"), (0.0123, "0.0123"), (0.1, "0.10"), (1234.5, "1,234.50")])
def test_less_than_a_dime_is_shown_with_more_digits(dollars: float, text: str) -> None:
    assert models.money_text(dollars) == text
