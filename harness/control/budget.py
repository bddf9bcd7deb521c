"""What is left, and when to stop. Pure: values in, values out. Every reason to stop is here, with its sentence and its exit code.

Exit codes: 0 ended as planned, 3 too many crashes or refusals in a row, 4 no baseline or no measured trial, 75 infrastructure,
130 and 143 for the signals INT and TERM. Codes of exceptions are in `harness/errors.py`.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.errors import UserFault
from harness.rules import Rules
from harness.sections import StopAt
from harness.trial import MEASURED, BudgetLeft, Record, Status, Stop

CPU_TOLERANCE = 1.0
DONE, RULE, NO_RESULT, INFRASTRUCTURE = 0, 3, 4, 75


class Limits(Record):
    """How much, from `program.md` or from flags. `deadline` is an absolute local time, fixed when the study started."""

    trials: int | None = None
    hours: float | None = None
    deadline: datetime | None = None


def checked(amounts: dict[str, Any]) -> dict[str, Any]:
    """Amounts from flags, when the deadline is a time of day and the hours are a number; else a `UserFault`."""
    deadline, hours = amounts.get("deadline"), amounts.get("hours")
    try:
        StopAt(deadline=deadline)
    except ValueError:
        raise UserFault(f"--deadline {deadline!r}: write it as HH:MM, from 00:00 to 23:59") from None
    if hours is not None and not math.isfinite(hours):
        raise UserFault(f"--hours {hours}: write a number such as 8 or 0.5")
    return amounts


def limits(rules: Rules, now: datetime, trials: int | None, hours: float | None, deadline: str | None) -> Limits:
    """Flags before rules; a deadline `HH:MM` is the next time the clock shows it."""
    text = deadline or rules.stop.deadline
    return Limits(trials=trials or rules.stop.trials, hours=hours or rules.stop.hours, deadline=_next(text, now) if text else None)


def amended(allowed: Limits, before: StopAt, after: StopAt, now: datetime) -> Limits:
    """The limits after an edit of `[stop]`: what was edited is the person's latest word, flags of the start included; the rest stays."""
    return Limits(
        trials=allowed.trials if after.trials == before.trials else after.trials,
        hours=allowed.hours if after.hours == before.hours else after.hours,
        deadline=allowed.deadline if after.deadline == before.deadline else _next(after.deadline, now) if after.deadline else None,
    )


def left(study: Study, allowed: Limits, rules: Rules, now: datetime) -> BudgetLeft:
    """Every counter now."""
    seconds = [allowed.hours * 3600 - study.elapsed] if allowed.hours else []
    if allowed.deadline:
        seconds.append((allowed.deadline - now).total_seconds())
    return BudgetLeft(
        trials=max(0, allowed.trials - study.trials) if allowed.trials else None,
        seconds=round(max(0.0, min(seconds)), 1) if seconds else None,
        crashes=max(0, rules.escalation.consecutive_crashes - study.crashes_in_a_row),
    )


def cpu_cap(rules: Rules, baseline: TrialRow | None) -> float | None:
    """CPU seconds a job may use with the `tokens` clock: a factor of the slowest baseline's, and at least a second more than it used.

    The second is for jobs of milliseconds, where the kernel's ticks of 10 ms would decide.
    """
    if rules.trial.clock != "tokens" or baseline is None:
        return None
    used = [r.outcome.cpu_seconds for r in baseline.readings if r.outcome.cpu_seconds is not None]
    return max(rules.trial.compute_cap * max(used), max(used) + CPU_TOLERANCE) if used else None


def expected_seconds(study: Study) -> float:
    """How long the next trial may take: the mean of those after the baseline, before that one baseline reading, 0 when nothing is known."""
    if study.trials:
        return study.trial_seconds / study.trials
    return study.baseline_seconds / max(1, len(study.baseline.readings)) if study.baseline else 0.0


def stop(study: Study, allowed: Limits, rules: Rules, now: datetime) -> Stop | None:
    """The first reason not to begin another trial, or `None`."""
    if study.crashes_in_a_row >= rules.escalation.consecutive_crashes:
        return _stop(
            "consecutive_crashes", RULE, f"{study.crashes_in_a_row} trials in a row crashed, the limit of [escalation] in program.md"
        )
    if study.refused_in_a_row >= rules.escalation.refused_proposals:
        return _stop(
            "refused_proposals", RULE, f"{study.refused_in_a_row} proposals in a row were refused, the limit of [escalation] in program.md"
        )
    if study.started and study.started.proposer == "command" and study.unread_in_a_row >= rules.proposer.failed_calls:
        return _stop(
            "failed_calls", RULE, f"{study.unread_in_a_row} calls of the agent in a row brought no edit; the last: {_last_refusal(study)}"
        )
    if target := _target_met(study, rules):
        return _stop("target", DONE, target)
    if allowed.trials is not None and study.trials >= allowed.trials:
        return _planned(study, "trials", f"all {allowed.trials} trials are done")
    return _out_of_time(study, allowed, left(study, allowed, rules, now).seconds, now)


def _out_of_time(study: Study, allowed: Limits, seconds: float | None, now: datetime) -> Stop | None:
    if seconds is None or seconds >= max(0.1, expected_seconds(study)):
        return None
    which = "deadline" if allowed.deadline and (allowed.deadline - now).total_seconds() <= seconds + 1 else "hours"
    if seconds == 0.0:
        return _planned(study, which, "the time is used up")
    return _planned(study, which, f"{seconds:.0f} s are left and a trial takes about {expected_seconds(study):.0f} s")


def machine(study: Study, rules: Rules) -> Stop | None:
    """Asked before an open trial goes on, too: a job that is cut off again and again is the machine's trouble."""
    if study.interruptions_in_a_row < rules.crash.infrastructure_failures:
        return None
    said = f"{study.interruptions_in_a_row} interruptions in a row: the machine, not the ideas; `ratchet resume` goes on"
    return _stop("infrastructure", INFRASTRUCTURE, said)


def no_baseline(study: Study) -> Stop:
    """The unmodified file could not be measured, so nothing can be compared."""
    row = study.rows[-1]
    verdict = row.verdict
    why = f"{verdict.status.value} ({verdict.reason}{': ' + verdict.detail if verdict.detail else ''})" if verdict else "unknown"
    return _stop(
        "no_baseline",
        NO_RESULT,
        f"the baseline ended as {why}; look at {row.folder} in the study's folder, mend train.py or the machine, start anew",
    )


def exhausted(study: Study) -> Stop:
    """The proposer has no more ideas."""
    return _planned(study, "proposals", "the proposer has no further proposal")


def _planned(study: Study, reason: str, sentence: str) -> Stop:
    """A planned end is a success only if something was measured."""
    if study.baseline is None:
        return _stop(reason, NO_RESULT, f"{sentence}, but the baseline was not measured yet")
    measured = sum(study.counts.get(status.value, 0) for status in MEASURED)
    if study.trials and measured <= 1:
        return _stop(reason, NO_RESULT, f"{sentence}, but no trial after the baseline could be measured")
    return _stop(reason, DONE, sentence)


def _last_refusal(study: Study) -> str:
    return study.refusals[-1].detail if study.refusals else "unknown"


def _target_met(study: Study, rules: Rules) -> str | None:
    target, best = rules.stop.target, study.incumbent
    if target is None or best is None or best.value is None or best.status is not Status.KEEP:
        return None
    met = best.value <= target if rules.metric.direction == "lower" else best.value >= target
    return f"the incumbent's {best.value:.6g} meets the target {target:g}" if met else None


def _stop(reason: str, code: int, sentence: str) -> Stop:
    return Stop(reason=reason, sentence=sentence, exit_code=code)


def _next(text: str, now: datetime) -> datetime:
    hour, minute = (int(part) for part in text.split(":"))
    then = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if then <= now:
        then += timedelta(days=1)
    local = then.replace(tzinfo=None).astimezone()
    same_zone = now.utcoffset() == now.astimezone().utcoffset()
    return local if same_zone and now.tzinfo else then
