"""Whose turn it is, and when an absence ends the night: a table of cases."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.artifacts.call_events import ModelAway
from harness.artifacts.calls import Calls
from harness.artifacts.study import Study
from harness.control import turns
from harness.control.turns import Turn
from harness.rules import Rules
from harness.sections import Proposer, StopAt
from tests import study_factory as make

NOW = datetime(2026, 11, 30, 23, 0, tzinfo=timezone.utc)


def rules(**proposer: Any) -> Rules:
    return Rules(proposer=Proposer(**proposer), stop=StopAt(trials=9))


def away(name: str = "anthropic", reason: str = "overloaded", minutes: float | None = 5.0) -> ModelAway:
    return turns.absence(name, reason, "why", NOW + timedelta(minutes=minutes) if minutes is not None else None)


def study(*events: ModelAway, made: dict[str, int] | None = None) -> Study:
    calls = Calls(proposals=made or {})
    for event in events:
        calls.left(event)
    return make.study(1).model_copy(update={"calls": calls, "stop": None})


def test_shares_are_those_of_the_command_line_or_of_program_md_as_it_is_now() -> None:
    started = make.study(1).started
    assert started is not None
    named, by_rules = (started.model_copy(update={"proposer": "scripted", "proposer_by_rules": value}) for value in (False, True))
    assert turns.shares(Study(started=named), rules(kind="anthropic")) == {"scripted": 1.0}
    assert turns.shares(Study(started=by_rules), rules(kind="anthropic")) == {"anthropic": 1.0}
    assert turns.shares(Study(started=by_rules), rules(mix={"search": 7, "anthropic": 3})) == {"search": 7.0, "anthropic": 3.0}


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 20), min_size=2, max_size=2), st.integers(1, 60))
def test_a_mix_is_never_more_than_one_proposal_off_its_shares(weights: list[int], count: int) -> None:
    shared = dict(zip(("search", "anthropic"), map(float, weights), strict=True))
    made: dict[str, int] = {}
    law, night = rules(), study()
    for _ in range(count):
        night.calls = Calls(proposals=made)
        turn = turns.turn(night, law, shared)
        assert turn is not None and not turn.stands_for
        made[turn.name] = made.get(turn.name, 0) + 1
    for name, share in shared.items():
        assert abs(made.get(name, 0) - count * share / sum(weights)) <= 1.0


@pytest.mark.parametrize(("meanwhile", "expected"), [
    ("search", Turn("search", "anthropic")), ("replicate", Turn("search", "anthropic")), ("wait", None), ("stop", None),
])  # fmt: skip
def test_while_the_model_is_away_program_md_says_what_goes_on(meanwhile: str, expected: Turn | None) -> None:
    law = rules(kind="anthropic", meanwhile=meanwhile)
    assert turns.turn(study(away()), law, {"anthropic": 1.0}) == expected
    assert turns.turn(study(), law, {"anthropic": 1.0}) == Turn("anthropic")
    assert turns.turn(study(away()), law, {"anthropic": 0.3, "search": 0.7}) == Turn("search"), "one of a mix needs no stand-in"


@pytest.mark.parametrize(("meanwhile", "event", "left", "reason", "code"), [
    ("search", away(), None, None, None),
    ("stop", away(), None, "overloaded", 3),
    ("stop", away(reason="dollars", minutes=None), None, "dollars", 0),
    ("wait", away(), None, None, None),
    ("wait", away(), 3600.0, None, None),
    ("wait", away(minutes=61), 3600.0, "model_away", 3),
    ("wait", away(reason="auth", minutes=None), 3600.0, "auth", 3),
    ("wait", away(reason="calls", minutes=None), None, "calls", 0),
])  # fmt: skip
def test_an_absence_ends_the_night_only_when_nobody_is_left_to_wait_for(
    meanwhile: str, event: ModelAway, left: float | None, reason: str | None, code: int | None
) -> None:
    law = rules(kind="anthropic", meanwhile=meanwhile)
    stop = turns.stop(study(event), law, {"anthropic": 1.0}, left, NOW)
    assert (stop.reason if stop else None, stop.exit_code if stop else None) == (reason, code)
    assert turns.stop(study(), law, {"anthropic": 1.0}, left, NOW) is None


def test_outages_without_an_end_are_waited_for_twice_as_long_each_time_and_an_hour_at_most() -> None:
    calls = Calls()
    minutes = []
    for _ in range(6):
        until = turns.backoff(calls, "anthropic", NOW)
        minutes.append((until - NOW) / timedelta(minutes=1))
        calls.left(turns.absence("anthropic", "overloaded", "", until))
        calls.back("anthropic")
    assert minutes == [5, 10, 20, 40, 60, 60]
    calls.brought("anthropic")
    assert turns.backoff(calls, "anthropic", NOW) == NOW + timedelta(minutes=5), "a proposal says that it is over"


def test_who_is_due_back_is_told_by_the_clock_and_a_person_calls_everybody_back() -> None:
    calls = Calls()
    for event in (away("a", minutes=5), away("b", minutes=None), away("c", minutes=500)):
        calls.left(event)
    assert turns.due_back(calls, NOW + timedelta(minutes=5)) == [], "not a moment before the stated second"
    assert turns.due_back(calls, NOW + timedelta(minutes=5, seconds=1)) == ["a"]
    calls.reopen()
    assert calls.away == {}


@pytest.mark.parametrize(("outages", "stated", "passes", "seconds"), [
    (0, None, True, 300.0), (0, None, False, None), (2, None, True, 1200.0),
    (0, 600.0, True, 600.0), (0, 0.0, True, 1.0), (0, -50.0, True, 1.0), (1, 0.0, True, 600.0), (1, 7200.0, True, 7200.0), (9, 0.0, False, 3600.0),
])  # fmt: skip
def test_a_stated_time_is_kept_and_one_that_is_over_is_no_invitation(
    outages: int, stated: float | None, passes: bool, seconds: float | None
) -> None:
    calls = Calls(outages={"m": outages} if outages else {})
    found = turns.back_at(calls, "m", None if stated is None else NOW + timedelta(seconds=stated), passes, NOW)
    assert (None if found is None else (found - NOW).total_seconds()) == seconds


def test_who_has_no_more_ideas_is_left_out_and_the_night_ends_when_nobody_is_left() -> None:
    mix = {"search": 0.5, "anthropic": 0.5}
    law = rules(kind="anthropic")
    assert turns.turn(study(), law, mix, {"search"}) == Turn("anthropic")
    assert turns.stop(study(), law, mix, None, NOW, {"search"}) is None
    ended = turns.stop(study(), law, {"search": 1.0}, None, NOW, {"search"})
    assert ended is not None and ended.reason == "proposals"
    gone = study(away(reason="auth", minutes=None))
    assert turns.turn(gone, law, {"anthropic": 1.0}, {"search"}) is None
    stop = turns.stop(gone, law, {"anthropic": 1.0}, None, NOW, {"search"})
    assert stop is not None and (stop.reason, stop.exit_code) == ("auth", 3), "a stand-in without ideas does not hang the night"
    assert turns.stop(study(away()), law, {"anthropic": 1.0}, None, NOW, {"search"}) is None, "it is waited for, for it comes back"


def test_the_end_of_a_night_names_the_model_that_comes_back_and_not_the_one_that_needs_a_person() -> None:
    both = study(away(minutes=61), away("own", "auth", None))
    stop = turns.stop(both, rules(meanwhile="wait"), {"anthropic": 0.5, "own": 0.5}, 3600.0, NOW)
    assert stop is not None and stop.sentence.startswith("the model is away until 2026-12-01T00:01:01Z and")
