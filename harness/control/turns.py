"""Whose turn it is to propose: shares of a mix, stand-ins while a model is away, and when an absence ends the study. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from harness.artifacts.call_events import ModelAway
from harness.artifacts.calls import Calls
from harness.artifacts.study import Study
from harness.control import budget
from harness.moments import moment, utc
from harness.rules import Rules
from harness.trial import Stop

SHORTEST_ABSENCE, FIRST_ABSENCE, LONGEST_ABSENCE = 1.0, 300.0, 3600.0
SPENT = frozenset({"calls", "tokens", "dollars", "retries", "limit"})
STAND_IN = "search"


class Turn(NamedTuple):
    """A proposer by name; `stands_for` is the one that is away."""

    name: str
    stands_for: str = ""


def shares(study: Study, rules: Rules) -> Mapping[str, float]:
    """Who proposes, by share: the one that was named on the command line, else what program.md says now."""
    started = study.started
    assert started is not None, "a study that proposes has started"
    if not started.proposer_by_rules:
        return {started.proposer: 1.0}
    return {str(name): share for name, share in (rules.proposer.mix or {rules.proposer.kind: 1.0}).items()}


def turn(study: Study, rules: Rules, shared: Mapping[str, float], dry: Collection[str] = ()) -> Turn | None:
    """The one that is furthest behind its share, of those that can be asked; the stand-in when none can; `None`: wait. `dry` have no more ideas."""
    present = {name: share for name, share in shared.items() if name not in study.calls.away and name not in dry}
    if not present:
        away = next((name for name in shared if name not in dry), None)
        stands_in = rules.proposer.meanwhile in ("search", "replicate") and STAND_IN not in dry
        return Turn(STAND_IN, away) if away and stands_in else None
    made = sum(study.calls.proposals.get(name, 0) for name in shared) + 1
    whole = sum(shared.values())
    return Turn(max(present, key=lambda name: present[name] / whole * made - study.calls.proposals.get(name, 0)))


def due_back(calls: Calls, now: datetime) -> list[str]:
    """Those whose stated return has come."""
    return [name for name, event in calls.away.items() if event.until is not None and moment(event.until) <= now]


def absence(proposer: str, reason: str, detail: str, until: datetime | None) -> ModelAway:
    """The journal's word for it; a second is rounded up, so that nobody is back before the time."""
    text = utc(until + timedelta(seconds=1)) if until else None
    return ModelAway(proposer=proposer, reason=reason, detail=detail[:500], until=text)


def back_at(calls: Calls, proposer: str, stated: datetime | None, passes: bool, now: datetime) -> datetime | None:
    """When to ask again: at the stated time, but never at once and, after a second outage in a row, no sooner than by `backoff`; `None`: not by itself."""
    if stated is None:
        return backoff(calls, proposer, now) if passes else None
    soonest = backoff(calls, proposer, now) if calls.outages.get(proposer) else now + timedelta(seconds=SHORTEST_ABSENCE)
    return max(stated, soonest)


def backoff(calls: Calls, proposer: str, now: datetime) -> datetime:
    """After an outage that nobody gave an end: twice as long after each in a row, an hour at most."""
    return now + timedelta(seconds=min(LONGEST_ABSENCE, FIRST_ABSENCE * 2 ** min(10, calls.outages.get(proposer, 0))))


def stop(
    study: Study, rules: Rules, shared: Mapping[str, float], seconds: float | None, now: datetime, dry: Collection[str] = ()
) -> Stop | None:
    """Whether the study ends because nobody is left to propose: `seconds` are what is left of the night."""
    if all(name in dry for name in shared):
        return budget.exhausted(study)
    away = study.calls.away
    if not away or turn(study, rules, shared, dry) is not None:
        return None
    returns = [(moment(event.until), event) for name, event in away.items() if name in shared and event.until]
    last = list(away.values())[-1]
    if rules.proposer.meanwhile != "stop" and returns:
        at, first = min(returns, key=lambda one: one[0])
        if seconds is None or (at - now).total_seconds() < seconds:
            return None
        late = f"the model is away until {first.until} and the night ends before: {first.detail}"
        return Stop(reason="model_away", sentence=late, exit_code=budget.RULE)
    if last.reason in SPENT:
        return budget.planned(study, last.reason, last.detail)
    return Stop(reason=last.reason, sentence=f"the model is away: {last.detail}", exit_code=budget.RULE)
