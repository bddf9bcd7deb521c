"""At this pace: what a night comes to, by the journal alone. What is not known is said, and is never 0."""

from __future__ import annotations

import io
import json
from typing import Any

from rich.console import Console as Rich

from harness.artifacts.calls import Calls
from harness.artifacts.study import Study
from harness.control.pace import at_this_pace
from harness.trial import BudgetLeft
from harness.views import left, pace_text, status
from harness.views.console import board
from tests import study_factory as make


def study(used: Calls | None = None, at: str = "2026-03-08T22:00:00Z", **limits: Any) -> Study:
    """A study of ten trials in an hour, with limits."""
    made = make.study(10, stop=False, of=make.Night(limits=limits))
    made.trial_seconds, made.elapsed, made.last_at = 3600.0, 4200.0, at
    made.calls = used or made.calls
    return made


def reached(of: Study) -> dict[str, tuple[int, str]]:
    found = at_this_pace(of)
    assert found is not None
    return {one.limit: (one.trials, one.at) for one in found.reached}


def test_trials_hours_and_deadline_are_reached_in_the_order_of_time() -> None:
    of = study(trials=100, hours=8, deadline="2026-03-09T01:00:00+00:00")
    found = at_this_pace(of)
    assert found is not None and found.seconds_a_trial == 360.0
    assert [one.limit for one in found.reached] == ["deadline", "hours", "trials"] and all(one.ends for one in found.reached)
    assert reached(of) == {
        "deadline": (30, "2026-03-09T01:00:00+00:00"), "hours": (68, "2026-03-09T04:50:00+00:00"), "trials": (90, "2026-03-09T07:00:00+00:00"),
    }  # fmt: skip
    assert found.trials == 40 and found.first == found.end == found.reached[0]


def test_what_models_may_use_is_used_up_by_what_a_trial_took_so_far() -> None:
    calls = Calls(made=20, tokens=50_000, cost_usd=1.0, charged_usd=2.0)
    of = study(calls, trials=100, tokens=1_000_000, dollars=10.0, retries=5)
    assert reached(of) == {
        "dollars": (40, "2026-03-09T02:00:00+00:00"),
        "trials": (90, "2026-03-09T07:00:00+00:00"),
        "tokens": (190, "2026-03-09T17:00:00+00:00"),
    }
    found = at_this_pace(of)
    assert found is not None and found.first is not None and found.first.limit == "dollars" and not found.first.ends
    assert found.trials == 100 and found.end is not None and found.end.limit == "trials"
    said = pace_text.sentence(of)
    assert (
        said.startswith("at this pace 100 trials by the end, about ")
        and "; dollars used up after 40 more trials, about " in said
        and said.endswith("; dollars come first")
    )
    assert "retries" not in said, "no retry was needed, so their end is not known"


def test_a_limit_that_is_passed_is_reached_now() -> None:
    of = study(Calls(made=9, charged_usd=3.0), trials=5, dollars=2.0)
    assert reached(of) == {"trials": (0, "2026-03-08T22:00:00+00:00"), "dollars": (0, "2026-03-08T22:00:00+00:00")}


def test_before_a_trial_is_done_the_pace_is_unknown_and_never_nought() -> None:
    of = make.study(0, stop=False, of=make.Night(limits={"trials": 9}))
    assert at_this_pace(of) is None and status.as_dict(of)["at_this_pace"] is None
    assert "  forecast   unknown until a trial after the baseline is done" in status.as_text(of)
    assert "at this pace" not in status.as_text(Study())


def test_a_study_that_is_over_has_no_pace() -> None:
    of = make.study(4)
    assert at_this_pace(of) is None and "at this pace" not in status.as_text(of)


def test_without_a_limit_nothing_ends_it_and_times_without_a_zone_or_sense_do_no_harm() -> None:
    of = study()
    assert pace_text.sentence(of) == "at this pace no limit of trials or time ends it; 6 min a trial"
    assert status.as_dict(of)["at_this_pace"]["trials_by_the_end"] is None
    assert reached(study(deadline="2026-03-08T23:00:00", at="2026-03-08T22:00:00")) == {"deadline": (10, "2026-03-08T23:00:00+00:00")}
    assert reached(study(deadline="07:30")) == {}
    assert at_this_pace(study(at="soon", trials=20)) is None
    assert reached(study(hours=1e9))["hours"][0] > 0


def test_status_and_board_show_it_and_programs_get_it() -> None:
    of = study(trials=100, hours=8)
    facts = json.loads(json.dumps(status.as_dict(of), allow_nan=False))["at_this_pace"]
    assert (facts["trials_by_the_end"], facts["first"], facts["seconds_a_trial"]) == (78, "hours", 360.0)
    assert "  forecast   at this pace 78 trials by the end, about " in status.as_text(of)
    stream = io.StringIO()
    Rich(file=stream, width=300).print(board(of, "training", {}))
    assert "then  at this pace 78 trials by the end" in stream.getvalue()


def test_repairs_and_reviews_left_are_those_of_the_last_decision_less_what_was_made_since() -> None:
    of = study(trials=100)
    assert left.oversight(of) == {"repairs": None, "reviews": None} and left.parts(of) == []
    told = BudgetLeft(trials=90, seconds=None, crashes=5, repairs=4, reviews=0)
    of.rows[-1] = of.rows[-1].model_copy(update={"budget_left": told})
    assert left.parts(of) == ["4 repairs left", "0 reviews left"]
    of.current = of.rows[-1].model_copy(update={"trial": 11, "budget_left": None, "verdict": None, "repairs": 10})
    assert left.oversight(of) == {"repairs": 3, "reviews": 0}
    assert status.budget_left(of)["repairs"] == 3 and "3 repairs left" in status.budget_sentence(of)
