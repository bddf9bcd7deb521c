"""What models did, cost and may still use, and who is away: in words and as facts, for status, report, console and table. It counts nothing itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from harness.artifacts.call_events import ModelAway
from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.control import money, pace
from harness.control.limits import Limits
from harness.trial import OFFLINE, Status
from harness.views.text import flatten, md, plural

COUNTERS = ("calls", "tokens", "dollars", "retries")
SOON = timedelta(hours=20)


def allowed(study: Study) -> Limits:
    """The limits that are for models."""
    return Limits.model_validate({name: study.limits.get(name) for name in COUNTERS})


def left(study: Study) -> dict[str, Any]:
    """What models may still use; a limit that is not set is `None`."""
    return money.left(study.calls, allowed(study))


def proposer_of(row: TrialRow) -> str:
    """Who proposed a trial: `search for anthropic` where it took a model's place."""
    return f"{row.proposer} for {row.stands_for}" if row.stands_for else row.proposer


def mark(row: TrialRow) -> str:
    """A short remark behind a trial that is not what it seems, or nothing."""
    stands = f"[{flatten(row.proposer, 20)} stands in]" if row.stands_for else ""
    again = f"[replicates {row.replicates}]" if row.replicates is not None else ""
    repair = f"[repairs {row.repairs}]" if row.repairs is not None else ""
    approved = f"[trial {row.approves} approved]" if row.approves is not None else ""
    return " ".join(part for part in (stands, again, repair, approved) if part)


def money_text(dollars: float) -> str:
    """`0.42`, and more digits below ten cents."""
    return f"{dollars:,.2f}" if dollars >= 0.1 or dollars == 0 else f"{dollars:.4f}"


def until_text(event: ModelAway, near: str) -> str:
    """`until 03:10 local`, with the date when that is not within a night of `near`; without a time, a person is waited for."""
    back, seen = pace.moment(event.until or ""), pace.moment(near)
    if back is None:
        return "until a person has looked"
    shown = "%H:%M" if seen is not None and abs(back - seen) < SOON else "%Y-%m-%d %H:%M"
    return f"until {back.astimezone():{shown}} local"


def away_text(event: ModelAway, near: str, most: int = 160) -> str:
    """Who cannot be asked, until when and why."""
    return f"{flatten(event.proposer, 40)} is away {until_text(event, near)} ({flatten(event.reason, 40)}: {flatten(event.detail, most)})"


def budget_parts(study: Study) -> list[str]:
    """What is left of dollars, calls and tokens, of those that are limited."""
    limits, rest = allowed(study), left(study)
    parts = [f"{money_text(rest['dollars'])} of {limits.dollars:g} dollars left"] if limits.dollars is not None else []
    parts += [f"{rest['calls']:,} of {plural(limits.calls, 'call')} left"] if limits.calls is not None else []
    return parts + ([f"{rest['tokens']:,} of {limits.tokens:,} tokens left"] if limits.tokens is not None else [])


def spent(study: Study) -> str:
    """What the calls cost: what is known, and what those without a bill may have cost at most."""
    calls = study.calls
    more = calls.charged_usd - calls.cost_usd
    most = f"at most {money_text(more)} more by upper estimates for {plural(calls.unknown, 'call')} of unknown cost"
    unknown = most if more > 0 else f"{plural(calls.unknown, 'call')} of unknown cost"
    if not calls.unknown:
        return f"{money_text(calls.cost_usd)} dollars"
    return unknown if calls.unknown == calls.made and more <= 0 else f"{money_text(calls.cost_usd)} dollars known, {unknown}"


def facts(study: Study) -> dict[str, Any] | None:
    """All of it, JSON-able; `None` when no model was asked and none is away."""
    calls = study.calls
    if not (calls.made or calls.absences):
        return None
    return {
        "calls": calls.made,
        "retries": calls.retries,
        "open": len(calls.open),
        "tokens": calls.tokens,
        "cost_usd": calls.cost_usd,
        "unknown": calls.unknown,
        "unknown_at_most_usd": max(0.0, calls.charged_usd - calls.cost_usd),
        "held_usd": calls.held_usd,
        "left": left(study),
        "away": [{**event.model_dump(exclude={"kind", "detail"}), "detail": flatten(event.detail, 300)} for event in calls.away.values()],
        "absences": calls.absences,
        "stand_ins": calls.stand_ins,
        "proposals": dict(calls.proposals),
    }


def status_lines(study: Study) -> list[str]:
    """The lines of `ratchet status`, none when no model was asked and none is away."""
    calls, rest = study.calls, left(study)
    if not (calls.made or calls.away):
        return []
    parts = [f"{plural(calls.made, 'call')}{_retries(calls.retries, rest['retries'])}"]
    parts += [spent(study), f"{calls.tokens:,} tokens"] if calls.made else []
    parts += [f"{plural(len(calls.open), 'call')} not answered yet"] if calls.open else []
    parts += [f"{plural(calls.stand_ins, 'trial')} of a stand-in"] if calls.stand_ins else []
    return [f"  models     {'; '.join(parts)}", *(f"             {away_text(event, study.last_at)}" for event in calls.away.values())]


def _retries(count: int, rest: int | None) -> str:
    more = f", {rest:,} more allowed" if rest is not None else ""
    return f", {count:,} of them retries{more}" if count or more else ""


def cost_lines(study: Study) -> list[str]:
    """What models cost, for the report's list."""
    calls, proposer = study.calls, study.started.proposer if study.started else ""
    if not calls.made:
        cost = "none, the proposer is offline" if proposer in OFFLINE else "none, no model was asked"
        return [f"proposer {md(proposer)}; model cost: {cost}", *_absences(study)]
    said = f"{spent(study)}; {plural(calls.made, 'call')}, {calls.retries:,} of them retries; {calls.tokens:,} tokens"
    held = f"; {plural(len(calls.open), 'call')} not answered yet, at most {money_text(calls.held_usd)}" if calls.open else ""
    lines = [f"proposer {md(proposer)}; model cost: {said}{held}"]
    keeps = sum(row.trial > 0 and row.status is Status.KEEP and row.proposer not in OFFLINE for row in study.rows)
    if keeps and not calls.unknown and not calls.open:
        lines.append(
            f"model cost of a trial of theirs that was kept: {money_text(calls.cost_usd / keeps)} dollars ({plural(keeps, 'keep')})"
        )
    return lines + _absences(study)


def _absences(study: Study) -> list[str]:
    calls = study.calls
    if not calls.absences:
        return []
    stood = f"a stand-in proposed {plural(calls.stand_ins, 'trial')} meanwhile" if calls.stand_ins else "no stand-in proposed a trial"
    times = "once" if calls.absences == 1 else f"{calls.absences:,} times"
    return [f"a model was away {times}; {stood}", *(md(away_text(event, study.last_at), 300) for event in calls.away.values())]
