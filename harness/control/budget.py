"""What is left, and when to stop. Pure: values in, values out. Every reason to stop is here, with its sentence and its exit code.

Exit codes: 0 ended as planned, 3 too many crashes or refusals in a row, 4 no baseline or no measured trial, 75 infrastructure,
130 and 143 for the signals INT and TERM. Codes of exceptions are in `harness/errors.py`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from harness.artifacts.study import Study
from harness.rules import Rules
from harness.trial import MEASURED, BudgetLeft, Record, Status, Stop

DONE, RULE, NO_RESULT, INFRASTRUCTURE = 0, 3, 4, 75


class Limits(Record):
    """How much, from `program.md` or from flags. `deadline` is an absolute local time, fixed when the study started."""

    trials: int | None = None
    hours: float | None = None
    deadline: datetime | None = None


def limits(rules: Rules, now: datetime, trials: int | None, hours: float | None, deadline: str | None) -> Limits:
    """Flags before rules; a deadline `HH:MM` is the next time the clock shows it."""
    text = deadline or rules.stop.deadline
    return Limits(trials=trials or rules.stop.trials, hours=hours or rules.stop.hours, deadline=_next(text, now) if text else None)


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


def expected_seconds(study: Study) -> float:
    """How long the next trial may take: the mean of those after the baseline, before that one baseline reading, 0 when nothing is known."""
    if study.trials:
        return study.trial_seconds / study.trials
    return study.baseline_seconds / max(1, len(study.baseline.readings)) if study.baseline else 0.0


def stop(study: Study, allowed: Limits, rules: Rules, now: datetime) -> Stop | None:
    """The first reason not to begin another trial, or `None`."""
    if study.crashes_in_a_row >= rules.escalation.consecutive_crashes:
        return _stop("consecutive_crashes", RULE, f"{study.crashes_in_a_row} trials in a row crashed, the limit of [escalation] in program.md")
    if study.refused_in_a_row >= rules.escalation.refused_proposals:
        return _stop("refused_proposals", RULE, f"{study.refused_in_a_row} proposals in a row were refused, the limit of [escalation] in program.md")
    if study.interruptions_in_a_row >= rules.crash.infrastructure_failures:
        return _stop("infrastructure", INFRASTRUCTURE, f"{study.interruptions_in_a_row} interruptions in a row: the machine, not the ideas")
    if target := _target_met(study, rules):
        return _stop("target", DONE, target)
    if allowed.trials is not None and study.trials >= allowed.trials:
        return _planned(study, "trials", f"all {allowed.trials} trials are done")
    counters = left(study, allowed, rules, now)
    if counters.seconds is not None and counters.seconds < expected_seconds(study):
        which = "deadline" if allowed.deadline and (allowed.deadline - now).total_seconds() <= counters.seconds + 1 else "hours"
        return _planned(study, which, f"{counters.seconds:.0f} s are left and a trial takes about {expected_seconds(study):.0f} s")
    if counters.seconds == 0.0:
        return _planned(study, "hours", "the time is used up")
    return None


def no_baseline(study: Study) -> Stop:
    """The unmodified file could not be measured, so nothing can be compared."""
    row = study.rows[-1]
    verdict = row.verdict
    why = f"{verdict.status.value} ({verdict.reason}{': ' + verdict.detail if verdict.detail else ''})" if verdict else "unknown"
    return _stop("no_baseline", NO_RESULT, f"the baseline ended as {why}; look at its log in {row.folder}/r0, mend train.py or the machine, start anew")


def exhausted(study: Study) -> Stop:
    """The proposer has no more ideas."""
    return _planned(study, "proposals", "the proposer has no further proposal")


def _planned(study: Study, reason: str, sentence: str) -> Stop:
    """A planned end is a success only if something was measured."""
    measured = sum(study.counts.get(status.value, 0) for status in MEASURED)
    if study.trials and measured <= 1:
        return _stop(reason, NO_RESULT, f"{sentence}, but no trial after the baseline could be measured")
    return _stop(reason, DONE, sentence)


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
    today = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return today if today > now else today + timedelta(days=1)
