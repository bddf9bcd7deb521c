"""What an event is worth saying, as one line; most are worth nothing. Pure: the event and the study that has it applied, in; text, out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.artifacts import events as ev
from harness.artifacts.call_events import ModelAway, ModelBack
from harness.artifacts.gains import believed_value
from harness.artifacts.oversight_events import Climbed, Detected, Escalated, FollowedUp, Lapsed, Resolved, Reviewed, Verified
from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.control import notices
from harness.views import models, reviewing, stalls, status
from harness.views.results import memory_gb, total
from harness.views.text import duration, flatten, number, plural, signed

TITLE = 44
DETAIL = 160


def line_of(event: ev.Event, study: Study) -> str:
    """The line an event is worth, or nothing."""
    teller = _TELLERS.get(type(event))
    return teller(event, study) if teller else ""


def _started(event: ev.StudyStarted, study: Study) -> str:
    return (
        f"study {event.tag}: {event.metric}, {event.direction} is better; proposer {flatten(event.proposer)}; "
        f"{flatten(event.environment.device)}; {status.budget_sentence(study)}; branch {event.branch}"
    )


def _resumed(event: ev.Resumed, study: Study) -> str:
    return f"resumed after {plural(study.trials, 'trial')}; {status.budget_sentence(study)}"


def _rules(event: ev.RulesChanged, study: Study) -> str:
    if study.edits[-1].back:
        return f"program.md is again what is in force ({event.digest[:12]})"
    return f"program.md changed (now {event.digest[:12]}); in force from now on"


def _warned(event: ev.Warned, study: Study) -> str:
    return f"warning: {flatten(event.message, 500)}"


def _away(event: ModelAway, study: Study) -> str:
    until = models.until_text(event, study.last_at)
    return f"the model is away {until} ({flatten(event.proposer, 40)}, {flatten(event.reason, 40)}: {flatten(event.detail, 300)})"


def _back(event: ModelBack, study: Study) -> str:
    return f"the model is asked again ({flatten(event.proposer, 40)})"


def _refused(event: ev.Refused, study: Study) -> str:
    last = study.refusals[-1] if study.refusals else None
    edit = flatten(last.edit, TITLE) or flatten(last.detail, DETAIL) if last else ""
    earlier = f", like trial {event.earlier}" if event.earlier is not None else ""
    return f"refused: {edit or f'proposal {event.proposal}'} ({flatten(event.reason, 40)}{earlier})"


def _begun(event: ev.Begun, study: Study) -> str:
    return f"baseline: measuring {status.scope_text(study)} as it is" if event.trial == 0 else ""


def _scored(event: ev.Scored, study: Study) -> str:
    """Readings that no verdict line will show one by one: the baseline's, a second one, the incumbent's later ones."""
    current = study.current
    if event.measurement is None:
        return ""
    if current is None or current.trial != event.trial:
        return f"incumbent (trial {event.trial}) measured again: {event.measurement.value:.4f}"
    if event.trial != 0 and event.replicate == 0:
        return ""
    seconds = current.readings[-1].outcome.train_seconds if current.readings else None
    what = "baseline" if event.trial == 0 else f"trial {event.trial}"
    return f"{what}, reading {event.replicate + 1}: {event.measurement.value:.4f}   {duration(seconds, '')}".rstrip()


def _interrupted(event: ev.Interrupted, study: Study) -> str:
    detail = f" ({flatten(event.detail, 300)})" if event.detail else ""
    return f"trial {event.trial} interrupted: {flatten(event.reason, 200)}{detail}"


def _settled(event: ev.Settled, study: Study) -> str:
    return verdict_line(study.rows[-1]) if study.rows else ""


def verdict_line(row: TrialRow) -> str:
    """One settled trial, in columns."""
    verdict = row.verdict
    assert verdict is not None, "settled trials are decided"
    what = "baseline" if row.trial == 0 else f"trial {row.trial}"
    head = f"{what:<9} {flatten(row.title if row.trial else '', TITLE):<{TITLE}} {verdict.status.value:<8}"
    value = believed_value(row)
    if value is None:
        why = f"{head} {flatten(verdict.reason, 40)}: {flatten(verdict.detail, 120)}".rstrip(" :")
        return f"{why}  {models.mark(row)}".rstrip()
    parts = [f"{value:.4f}"]
    if verdict.gain is not None:
        parts.append(f"gain {signed(verdict.gain)} ± {number(verdict.standard_error, 4, '?')}")
    if verdict.p_better is not None:
        parts.append(f"P(better) {verdict.p_better:.2f}")
    parts.append(duration(total(row, "train_seconds"), ""))
    parts += [f"{memory_gb(row)} GB" if memory_gb(row) else "", models.mark(row)]
    if verdict.detail:
        parts.append(f"{flatten(verdict.reason, 40)}: {flatten(verdict.detail, 160)}")
    return f"{head} {'  '.join(part for part in parts if part)}"


def _escalated(event: Escalated, study: Study) -> str:
    one = event.question
    return f"question {one.number} ({notices.kind(one)}): {flatten(one.impact, DETAIL)}; `ratchet answer {one.number} {'|'.join(o.id for o in one.options)}`"


def _resolved(event: Resolved, study: Study) -> str:
    return f"question {event.question} is settled: {event.option}, by {notices.BY[event.by]}"


def _bar_moved(event: ev.BarMoved, study: Study) -> str:
    return f"the bar now rests on {plural(event.bar.readings, 'unselected reading')} of trial {event.trial}: {event.bar.ref:.4f}"


def _stopped(event: ev.Stopped, study: Study) -> str:
    return f"stopped: {flatten(event.stop.sentence, 500)} (exit code {event.stop.exit_code})"


def _followed(event: FollowedUp, study: Study) -> str:
    """What is done about a failure, when it is more than going on."""
    told = event.ticket is not None or event.cause == "lapsed" or event.mechanism.value == "escalation"
    return f"trial {event.trial}: {event.mechanism.value}: {flatten(event.detail, 300)}" if told else ""


def _verified(event: Verified, study: Study) -> str:
    found = event.verification
    return f"trial {event.trial} repairs {event.repairs}: {found.outcome.value}{f' ({flatten(found.detail, 200)})' if found.detail else ''}"


_TELLERS: dict[type, Callable[[Any, Study], str]] = {
    Climbed: stalls.climbed, Detected: stalls.detected,
    Reviewed: reviewing.told, Lapsed: lambda event, _study: flatten(event.why, 300),
    ModelAway: _away, ModelBack: _back, ev.StudyStarted: _started, ev.Resumed: _resumed, ev.RulesChanged: _rules, ev.Warned: _warned, ev.Refused: _refused, ev.Begun: _begun,
    ev.Scored: _scored, ev.Interrupted: _interrupted, ev.Settled: _settled, ev.BarMoved: _bar_moved, ev.Stopped: _stopped, Escalated: _escalated, Resolved: _resolved,
    FollowedUp: _followed, Verified: _verified,
}  # fmt: skip
