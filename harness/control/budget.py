"""What is left, and when to stop. Pure: values in, values out. Every reason to stop is here, with its sentence and its exit code.

Exit codes: 0 ended as planned, 3 too many crashes or refusals in a row (or nobody left to propose, turns.py), 4 no baseline or no measured trial, 75 infrastructure,
130 and 143 for the signals INT and TERM. Codes of exceptions are in `harness/errors.py`.
"""

from __future__ import annotations

from datetime import datetime

from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.control import money
from harness.control.limits import Limits
from harness.rules import Rules
from harness.trial import MEASURED, BudgetLeft, Status, Stop

CPU_TOLERANCE = 1.0
DONE, RULE, NO_RESULT, INFRASTRUCTURE = 0, 3, 4, 75


def left(study: Study, allowed: Limits, rules: Rules, now: datetime) -> BudgetLeft:
    """Every counter now."""
    seconds = [allowed.hours * 3600 - study.elapsed] if allowed.hours else []
    if allowed.deadline:
        seconds.append((allowed.deadline - now).total_seconds())
    return BudgetLeft(
        trials=max(0, allowed.trials - study.trials) if allowed.trials else None,
        seconds=round(max(0.0, min(seconds)), 1) if seconds else None,
        crashes=max(0, rules.escalation.consecutive_crashes - study.crashes_in_a_row),
        repairs=max(0, rules.correction.in_all - study.repairs.made) if rules.correction.attempts else None,
        reviews=max(0, rules.review.in_all - study.reviewing.made) if rules.review.asked_for else None,
        **money.left(study.calls, allowed),
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
    if target := _target_met(study, rules):
        return _stop("target", DONE, target)
    if rules.stop.plateau is not None and study.incumbent and study.row_count - 1 - study.incumbent.trial >= rules.stop.plateau:
        return planned(study, "plateau", f"nothing was kept in {rules.stop.plateau} trials in a row, the plateau of [stop] in program.md")
    if allowed.trials is not None and study.trials >= allowed.trials:
        return planned(study, "trials", f"all {allowed.trials} trials are done")
    return _out_of_time(study, allowed, left(study, allowed, rules, now).seconds, now)


def _out_of_time(study: Study, allowed: Limits, seconds: float | None, now: datetime) -> Stop | None:
    if seconds is None or seconds >= max(0.1, expected_seconds(study)):
        return None
    which = "deadline" if allowed.deadline and (allowed.deadline - now).total_seconds() <= seconds + 1 else "hours"
    if seconds == 0.0:
        return planned(study, which, "the time is used up")
    return planned(study, which, f"{seconds:.0f} s are left and a trial takes about {expected_seconds(study):.0f} s")


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
        f"the baseline ended as {why}; look at {row.folder} in the study's folder, mend the candidate's files or the machine, start anew",
    )


def exhausted(study: Study) -> Stop:
    """The proposer has no more ideas."""
    return planned(study, "proposals", "the proposer has no further proposal")


def planned(study: Study, reason: str, sentence: str) -> Stop:
    """A planned end is a success only if something was measured."""
    if study.baseline is None:
        return _stop(reason, NO_RESULT, f"{sentence}, but the baseline was not measured yet")
    measured = sum(study.counts.get(status.value, 0) for status in (*MEASURED, Status.BLOCKED))
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
