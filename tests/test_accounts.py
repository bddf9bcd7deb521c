"""The auditor of journals notices each kind of fault it is there for; otherwise a clean audit would prove nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.artifacts import events as ev
from harness.artifacts import oversight_events as ov
from harness.artifacts.call_events import Answered, Asked
from harness.artifacts.events import Entry, Event
from harness.questions import Option, Question
from harness.reviews import Review
from harness.rules import Rules, parse
from harness.trial import Stop
from tests import accounts
from tests import study_factory as make
from tests.synthetic import DIGEST

LAW = (
    '[ban]\naxes = ["DEPTH"]\nwords = ["clock"]\nimports = ["socket"]\n[correction]\nattempts = 1\nin_all = 2\n[escalation]\nmessages = 1\n'
)
RULES = parse(f"```toml rules\n{LAW}[stop]\ntrials = 3\n```\n")
LAWS = {DIGEST: RULES}


def night(**limits: Any) -> list[Event]:
    """Three trials; what rows say was left is said anew for these limits."""
    allowed = {"trials": 3, "hours": None, "deadline": None, **limits}
    events = list(make.night(3, of=make.Night(limits=allowed)))
    left = iter(range(allowed["trials"] or 0, -1, -1))
    told: list[Event] = []
    for event in events:
        if isinstance(event, ev.Decided):
            trials = next(left) if allowed["trials"] else None
            event = event.model_copy(update={"budget_left": event.budget_left.model_copy(update={"trials": trials, "calls": None})})
        told.append(event)
    return told


def booked(events: Sequence[Event]) -> list[Entry]:
    return list(make.entries(events))


def at(events: Sequence[Event], kind: str, which: int = -1) -> int:
    return [n for n, event in enumerate(events) if event.kind == kind][which]


def changed(events: Sequence[Event], kind: str, which: int = -1, **fields: Any) -> list[Entry]:
    """The entries with one event changed."""
    n = at(events, kind, which)
    return booked([*events[:n], events[n].model_copy(update=fields), *events[n + 1 :]])


def put_in(events: Sequence[Event], before: str, *more: Event) -> list[Entry]:
    """The entries with events put in before the last of a kind."""
    n = at(events, before)
    return booked([*events[:n], *more, *events[n:]])


def test_a_clean_night_has_no_fault() -> None:
    entries = booked(night())
    assert accounts.overdrawn(entries, LAWS) == accounts.lawless(entries, LAWS, {}) == accounts.unexplained(entries) == []


def test_a_trial_beyond_the_limit_is_overdrawn_also_when_an_edit_lowered_it() -> None:
    events = night()
    more = dict(events[0].limits, trials=2) if isinstance(events[0], ev.StudyStarted) else {}
    lowered = put_in(events, "proposed", ev.RulesChanged(digest=DIGEST, diff="", limits=more))
    for entries in (changed(events, "study_started", limits=more), lowered):
        assert any("trial 3 began when all 2 were done" in fault for fault in accounts.overdrawn(entries, LAWS))


def test_a_trial_asked_for_when_the_time_was_used_up_is_overdrawn() -> None:
    assert any("time was used up" in fault for fault in accounts.overdrawn(booked(night(hours=0.01)), LAWS))


@pytest.mark.parametrize(("limits", "calls", "said"), [
    ({"calls": 1}, [{}, {}], "all 1 were used"), ({"retries": 0}, [{"retry": True}], "retry too many"), ({"tokens": 10}, [{"tokens": 11}], "more tokens"),
    ({"dollars": 0.1}, [{"dollars": 0.06}, {"dollars": 0.06}], "more dollars"), ({"calls": 2, "tokens": 20, "dollars": 0.2}, [{"tokens": 9, "dollars": 0.1}] * 2, ""),
])  # fmt: skip
def test_a_call_that_no_longer_fits_is_overdrawn(limits: dict[str, Any], calls: list[dict[str, Any]], said: str) -> None:
    made: list[Event] = []
    for number, one in enumerate(calls, 1):
        made += [Asked(call=number, proposal=9, proposer="anthropic", **one), Answered(call=number, outcome="lost")]
    found = [fault for fault in accounts.overdrawn(put_in(night(**limits), "stopped", *made), LAWS) if "call " in fault]
    assert any(said in fault for fault in found) if said else found == []


def test_repairs_and_messages_beyond_their_limits_are_overdrawn() -> None:
    events = night()
    for numbers, said in (((1, 1), "more often than 1 times"), ((1, 2, 3), "more than 2 repairs")):
        begun = [events[at(events, "begun")].model_copy(update={"repairs": number, "trial": 9}) for number in numbers]
        raised = [events[0].model_copy(update={"limits": {"trials": 99}}), *events[1:]]
        assert any(said in fault for fault in accounts.overdrawn(put_in(raised, "stopped", *begun), LAWS))
    sending = [ov.Sending(message=number, about=("1",), channels=("A",)) for number in (1, 2)]
    assert any("more than 1 messages" in fault for fault in accounts.overdrawn(put_in(events, "stopped", *sending), LAWS))


def test_a_row_that_says_another_rest_is_noticed() -> None:
    events = night()
    left = events[at(events, "decided")]
    assert isinstance(left, ev.Decided)
    wrong = left.budget_left.model_copy(update={"trials": 2})
    assert any("says that 2 trials were left" in fault for fault in accounts.overdrawn(changed(events, "decided", budget_left=wrong), LAWS))


def test_a_verdict_by_rules_that_were_not_in_force_is_lawless() -> None:
    events, other = night(), {**LAWS, "f" * 64: RULES}
    assert "not by the rules it began under" in accounts.lawless(changed(events, "decided", rules_digest="f" * 64), other, {})[0]
    late = put_in(events, "decided", ev.RulesChanged(digest="f" * 64, diff=""))
    assert accounts.lawless(late, other, {}) == [], "an edit during a trial does not touch it"
    strict: Rules = parse('```toml rules\n[keep]\nrule = "strict"\n[stop]\ntrials = 3\n```\n')
    assert "the rules say 'strict'" in accounts.lawless(booked(events), {DIGEST: strict}, {})[0]


def test_rules_that_nobody_wrote_are_lawless() -> None:
    forged = put_in(night(), "stopped", ev.RulesChanged(digest="e" * 64, diff=""))
    assert "that nobody wrote" in accounts.lawless(forged, LAWS, {})[0]


@pytest.mark.parametrize(("patch", "said"), [
    ("-DEPTH = 2\n+DEPTH = 3\n", "turns 'DEPTH'"), ("+t = time.CLOCK()\n", "says 'clock'"), ("+import socket\n", "imports 'socket'"),
    ("+    from socket import socket\n", "imports 'socket'"), ("-import socket\n-clock = 1\n+OTHER = 3\n", ""), (" DEPTH = 2\n+WIDTH = 3\n", ""),
    ("-DEPTH = 2\n+DEPTH = 2  # as before\n", ""), ("-DEPTH = 2\n+DEPTH = (\n", "turns 'DEPTH'"),
])  # fmt: skip
def test_a_trial_that_a_ban_in_force_forbids_is_lawless(patch: str, said: str) -> None:
    found = accounts.lawless(booked([event for event in night() if getattr(event, "axis", "") != "DEPTH"]), LAWS, {3: patch})
    assert any(said in fault for fault in found) if said else found == []


def test_a_stop_a_climb_and_a_question_without_a_line_are_unexplained() -> None:
    events = night()
    mute = Stop(reason="trials", sentence="", exit_code=0)
    assert "does not say its sentence" in accounts.unexplained(changed(events, "stopped", stop=mute))[0]
    long = Stop(reason="trials", sentence="one\ntwo", exit_code=0)
    assert "in one line" in accounts.unexplained(changed(events, "stopped", stop=long))[0]
    assert accounts.unexplained(booked(events[:-1])) == ["the journal does not end with a stop"]
    assert "climbed does not say" in accounts.unexplained(put_in(events, "stopped", ov.Climbed(rung="ask", why=" ")))[0]
    early = Stop(reason="trials", sentence="all are done", exit_code=0)
    assert "does not bear that out" in accounts.unexplained(booked([*events[: at(events, "proposed")], ev.Stopped(stop=early)]))[0]


def test_a_question_that_is_settled_twice_or_misnumbered_is_noticed() -> None:
    question = Question(
        number=1, kind="stalled", key="k", goal="lower it", candidate="", evidence=("journal",), impact="none", options=(Option(id="go_on", effect="on"),),
        default="go_on", blocks="nothing",
    )  # fmt: skip
    done = ov.Resolved(question=1, option="go_on", by="person")
    twice = put_in(night(), "stopped", ov.Escalated(question=question), done, done)
    assert accounts.unexplained(twice) == ["question 1 was settled 2 times"]
    third = put_in(night(), "stopped", ov.Escalated(question=question.model_copy(update={"number": 3})))
    assert accounts.unexplained(third) == ["questions are numbered [3]"]


def test_a_review_is_spent_by_asking_and_not_when_a_budget_had_no_room_for_it() -> None:
    law = {DIGEST: parse("```toml rules\n[review]\nin_all = 1\n[stop]\ntrials = 3\n```\n")}
    asked = [
        Asked(call=number, proposal=9, proposer="anthropic", review=9, retry=retry) for number, retry in ((1, False), (2, True), (3, False))
    ]
    unasked = [ov.Reviewed(trial=number, review=Review(asked_by="a rule", model="m", void="dollars")) for number in (7, 8)]
    assert accounts.overdrawn(put_in(night(), "stopped", *unasked, *asked[:2]), law) == []
    assert [fault.split(": ")[1] for fault in accounts.overdrawn(put_in(night(), "stopped", *asked), law)] == ["more than 1 reviews"]
