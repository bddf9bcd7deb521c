"""What a night will come to: trials, hours, dollars from-to, and which limit ends it when. Pure: values in, values out.

Four nights are thought through, quick and slow trials with cheap and dear proposals; the forecast is what they span. A limit that cannot be
compared with anything known decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from harness.control.limits import Limits
from harness.control.tariffs import Aside, Demand, Span, Tariff
from harness.rules import Rules
from harness.trial import OFFLINE, Record

CALENDAR = 6e7  # hours, some 6,800 years: no later moment has a date
AROUND = 0.1  # of a trial, for set-up and evaluation at best
SCATTER, FEW, MANY = 0.1, 0.3, 10  # of an earlier study's mean; of one of fewer trials, which have seen few audits and repeats
ANSWER_SECONDS = (10.0, 30.0)
AGENT_SECONDS = 30.0
WALL_SHARE, WALL_SECONDS = 0.01, 2.0  # by which a job may pass its wall clock before it is ended
ENDS = frozenset({"stop", "wait"})  # what ends the night, or leaves the device idle, when models have used up their limits


class Pace(Record):
    """Seconds of one trial, and where they are from."""

    seconds: Span
    said: str


class Forecast(Record):
    """The night from-to. `ends` names the limits that may end it, `used_up` those of the models that come before, `after` how many trials."""

    trials: Span
    hours: Span
    dollars: Span
    calls: Span
    ends: tuple[str, ...]
    earliest: datetime | None = None
    latest: datetime | None = None
    used_up: tuple[str, ...] = ()
    after: Span = Span()


class _Case(NamedTuple):
    trials: int | None
    seconds: float | None
    end: str
    modelled: float | None
    used_up: str
    dear: bool


def pace_of_rules(rules: Rules) -> Pace:
    """From the rules alone, without any trial seen."""
    trial = rules.trial
    limit = trial.amount * (1 + WALL_SHARE) + WALL_SECONDS if trial.clock == "wall" else trial.train_seconds
    most = trial.setup_seconds + limit + trial.evaluate_seconds
    if trial.clock == "tokens":
        said = "no earlier study tells how long so many tokens take: unknown until the baseline; the upper end is all limits used up, once each"
        return Pace(seconds=Span(high=most), said=said)
    least = trial.amount / (rules.run.threads if trial.clock == "cpu" else 1) * (1 + AROUND)
    said = f"the {trial.clock} clock and {AROUND:.0%} around it, up to all limits used up, once each"
    return Pace(seconds=Span(low=min(least, most), high=most), said=said)


def pace_of_studies(means: Sequence[tuple[float, int]]) -> Pace:
    """From the mean seconds of a trial, and the number of trials, of earlier studies."""
    seconds, trials = [mean for mean, _ in means], sum(count for _, count in means)
    scatter = SCATTER if trials >= MANY else FEW
    span = Span(low=min(seconds) * (1 - scatter), high=max(seconds) * (1 + scatter))
    studies = "1 earlier study" if len(means) == 1 else f"{len(means)} earlier studies"
    seen = f"{trials:,} trial{'s' * (trials != 1)} of {studies}" if trials else f"the baseline of {studies}"
    return Pace(seconds=span, said=f"{seen} with this profile, clock and amount on this device, give or take {scatter:.0%}")


def thinking(shares: Mapping[str, float], rules: Rules) -> Span:
    """Seconds that the device waits for an average proposal."""
    whole = sum(shares.values())
    model, agent = shares.get("anthropic", 0.0) / whole, shares.get("command", 0.0) / whole
    low = model * min(3, rules.model.turns) * ANSWER_SECONDS[0] + agent * min(AGENT_SECONDS, rules.proposer.wall_seconds)
    return Span(low=low, high=model * rules.model.turns * ANSWER_SECONDS[1] + agent * rules.proposer.wall_seconds)


def available(allowed: Limits, now: datetime) -> tuple[float | None, str]:
    """Seconds of the night, and which limit says so."""
    until = max(0.0, (allowed.deadline - now).total_seconds()) if allowed.deadline else None
    if allowed.hours is not None and (until is None or allowed.hours * 3600 <= until):
        return allowed.hours * 3600, "hours"
    return until, "deadline" if until is not None else ""


def night(
    allowed: Limits, now: datetime, pace: Pace, wait: Span, readings: int, demanded: Demand, shares: Mapping[str, float], meanwhile: str
) -> Forecast:
    """The night as these limits, this pace and this demand leave it."""
    ends, cases, whole = meanwhile in ENDS and not set(shares) & OFFLINE, [], available(allowed, now)
    for seconds, waited in ((pace.seconds.low, wait.low), (pace.seconds.high, wait.high)):
        for dear in (False, True):
            each = None if seconds is None else seconds + (waited or 0.0)
            cases.append(_case(allowed, whole, (seconds, each, readings), demanded, dear, ends))
    spent = [*(case.seconds for case in cases), *(whole[0] for case in cases if case.end == whole[1])]  # to the last second
    hours = _span([None if seconds is None else seconds / 3600 for seconds in spent], "low")
    after = [math.floor(case.modelled) for case in cases if case.used_up and case.modelled is not None]
    return Forecast(
        trials=_span([case.trials for case in cases], "high"), hours=hours, dollars=_taken(cases, demanded, "dollars", allowed.dollars),
        calls=_taken(cases, demanded, "calls", allowed.calls), ends=tuple(dict.fromkeys(case.end for case in cases if case.end)),
        earliest=None if hours.low is None else now + timedelta(hours=min(hours.low, CALENDAR)),
        latest=None if hours.high is None else now + timedelta(hours=min(hours.high, CALENDAR)),
        used_up=tuple(dict.fromkeys(case.used_up for case in cases if case.used_up)), after=_span(after, "high"),
    )  # fmt: skip


def _case(
    allowed: Limits, time: tuple[float | None, str], paced: tuple[float | None, float | None, int], demanded: Demand, dear: bool, ends: bool
) -> _Case:
    (whole, clock), (reading, each, readings) = time, paced
    bounds = [(float(allowed.trials), "trials")] if allowed.trials is not None else []
    if whole is not None and reading is not None and each:
        bounds.append((max(0.0, math.floor((whole - readings * reading) / each)), clock))
    affordable = _affordable(allowed, demanded, dear)
    if ends and affordable:
        bounds.append((float(math.floor(affordable[0])), affordable[1]))
    trials, end = min(bounds, key=lambda bound: bound[0]) if bounds else (None, clock)
    seconds = None if trials is None or reading is None or each is None else readings * reading + trials * each
    if whole is not None and end == clock:
        seconds = whole if seconds is None else min(whole, max(seconds, whole - (each or 0.0)))
    modelled, used_up = trials, ""
    if affordable and (trials is None or math.floor(affordable[0]) <= trials):
        modelled, used_up = affordable
    return _Case(None if trials is None else int(trials), seconds, end, modelled, used_up, dear)


def _affordable(allowed: Limits, demanded: Demand, dear: bool) -> tuple[float, str] | None:
    """How many trials, parts included, the limits of the models pay for, and which of them is the first to be used up."""
    found = []
    for name in ("calls", "tokens", "dollars"):
        limit, span = getattr(allowed, name), getattr(demanded, name)
        one = span.high if dear else span.low
        if limit is not None and one:
            found.append((limit / one, name))
    return min(found, key=lambda bound: bound[0]) if found else None


def _span(values: Sequence[float | None], unknown: str) -> Span:
    """What values span; `unknown` names the end that a case without a value makes unknown."""
    known = [value for value in values if value is not None]
    span = Span(low=min(known), high=max(known)) if known else Span()
    return span if len(known) == len(values) else span.model_copy(update={unknown: None})


def _taken(cases: Sequence[_Case], demanded: Demand, name: str, limit: float | None) -> Span:
    """What the models take of calls or dollars, never above the limit."""
    one: Span = getattr(demanded, name)
    taken = [_taken_in(case, one, name, limit) for case in cases]
    known = [value for value in taken if value is not None]
    high = max(known) if len(known) == len(taken) else limit
    return Span(low=min(known) if len(known) == len(taken) else None, high=high)


def _taken_in(case: _Case, one: Span, name: str, limit: float | None) -> float | None:
    if case.used_up == name:
        return limit
    each = one.high if case.dear else one.low
    if each is None or case.modelled is None:
        return 0.0 if each == 0 else None
    return min(case.modelled * each, math.inf if limit is None else limit)


def with_asides(night: Forecast, asides: Sequence[Aside], allowed: Limits) -> Forecast:
    """The night with what is asked beside the proposals: at best nothing, at worst all of it, never above the limits."""
    return night.model_copy(update={
        "dollars": _raised(night.dollars, [one.dollars for one in asides], allowed.dollars),
        "calls": _raised(night.calls, [None if one.calls is None else float(one.calls) for one in asides], allowed.calls),
    }) if asides else night  # fmt: skip


def _raised(span: Span, more: Sequence[float | None], limit: float | None) -> Span:
    known = [one for one in (span.high, *more) if one is not None]
    high = sum(known) if len(known) == len(more) + 1 else limit
    return span.model_copy(update={"high": high if high is None or limit is None else min(high, limit)})


def concerns(allowed: Limits, now: datetime, pace: Pace, readings: int, tariffs: Sequence[Tariff]) -> list[str]:
    """What contradicts itself or may disappoint, one sentence each."""
    found = []
    for tariff in tariffs:
        found += [said for name in ("dollars", "tokens") if (said := _too_small(tariff, name, getattr(allowed, name)))]
        if allowed.calls is not None and tariff.calls.low is not None and allowed.calls < tariff.calls.low:
            found.append(f"{allowed.calls} calls ([stop] calls) are fewer than one proposal of {tariff.model or tariff.kind} takes")
    whole, which = available(allowed, now)
    first = (pace.seconds.low if pace.seconds.low is not None else pace.seconds.high or 0.0) * (readings + 1)
    if whole is not None and whole < first:
        sure = pace.seconds.low is not None
        start = f"the deadline {allowed.deadline:%H:%M} is" if which == "deadline" and allowed.deadline else f"{allowed.hours:g} h is"
        word = "early" if which == "deadline" else "short"
        need = f"{first:,.0f} s" if sure else f"up to {first:,.0f} s"
        found.append(f"{start} {'too' if sure else 'perhaps too'} {word} for the baseline and one trial, which take {need}")
    return found


def _too_small(tariff: Tariff, name: str, limit: float | None) -> str:
    """Whether one call fits into the limit by its upper estimate."""
    most: Span = getattr(tariff, f"most_{name}")
    if limit is None or most.low is None or most.high is None or limit >= most.high:
        return ""
    who, digits = tariff.model or tariff.kind, 2 if name == "dollars" else 0
    if limit < most.low:
        return f"{who} gets no call: {limit:g} {name} are less than the upper estimate of one ({most.low:,.{digits}f} {name}); raise [stop] {name}"
    return (
        f"{limit:g} {name} may not pay for one call of {who} when the page is long: it is admitted by up to {most.high:,.{digits}f} {name}"
    )
