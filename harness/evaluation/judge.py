"""The verdict: a pure function of rules, bar, reading, noise and change. No clock, disk, network or randomness.

`debiased`: an incumbent was selected for reading low, so its reading is not what the next candidate should have to beat. After a keep by
D = bar - y the reference is y + min(sigma, D/2); each measured trial without a keep lifts the bar by sigma/20, one sigma at most. More lines cost
`complexity_per_line` each, a net deletion earns half a sigma. `strict`: the lower reading wins. For a metric where higher is better all signs flip.

Where CPU seconds are capped, what would be kept must also leave room to the programs built on it: of an incumbent at the cap every one would be stopped by the
noise of the clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.audited import Rehearsal
from harness.evaluation import auditing
from harness.rules import Rules
from harness.trial import Bar, Change, JobEnd, Noise, Reading, Status, Verdict

RAMP = 0.05
RAMP_CAP = 1.0
DELETION_CREDIT = 0.5
CORRECTED = 1e-6
SAME_SECONDS = 1.02
FAULTS = {**dict.fromkeys(("not_finite", "negative_loss", "short_answer"), Status.INVALID), "missing_ground_truth": Status.BLOCKED}
ENDS = {JobEnd.CRASH: Status.CRASH, JobEnd.TIMEOUT: Status.TIMEOUT, JobEnd.OOM: Status.OOM, JobEnd.INVALID: Status.INVALID}


def unmeasured(rules: Rules, reading: Reading) -> Verdict | None:
    """The verdict on a reading that has no believable value; `None` when it has one."""
    outcome, fault = reading.outcome, reading.fault
    if outcome.end is not JobEnd.OK:
        return _without_value(rules, ENDS.get(outcome.end, Status.CRASH), outcome.reason, outcome.detail)
    if fault is not None:
        status = FAULTS.get(fault.reason, Status.CRASH if fault.candidate_to_blame else Status.INTERRUPTED)
        return _without_value(rules, status, fault.reason, fault.detail)
    if reading.value is None:
        return _without_value(rules, Status.CRASH, "no_result", "the evaluation left no record")
    low, high = rules.metric.plausible
    if not low < reading.value < high:
        return _without_value(
            rules, Status.INVALID, "implausible", f"{reading.value:.6g} is outside the plausible band {low:g} to {high:g}"
        )
    return None


def disbelieved(rules: Rules, reading: Reading, baseline: Reading | None) -> Verdict | None:
    """`unmeasured`, and what the scorer's time or an audit says against a value. `baseline` is its audited reading."""
    bad = unmeasured(rules, reading)
    if bad is not None:
        return bad
    objection = auditing.objection(rules, reading, baseline)
    return None if objection is None else _without_value(rules, Status.INVALID, *objection)


def judge_rehearsal(rules: Rules, rehearsal: Rehearsal, bar: Bar | None) -> Verdict | None:
    """The verdict on a candidate whose untrained model broke the contract; `None` when nothing speaks against it."""
    if not rehearsal.reason:
        return None
    status = Status.CRASH if rehearsal.reason in ("load_failed", "scorer_died") else Status.INVALID
    return _without_value(rules, status, rehearsal.reason, rehearsal.detail).model_copy(update={"next_bar": bar})


def judge_baseline(rules: Rules, readings: Sequence[Reading], noise: Noise | None, paired: bool = False) -> Verdict:
    """Trial 0: kept as the mean of its readings when all of them are believable, else what the first bad one was.

    The first bar is that mean; where readings are `paired` it is the reading with the candidates' seed, or that seed's luck would pass for a gain.
    """
    for reading in readings:
        bad = disbelieved(rules, reading, None)
        if bad is not None:
            return bad
    mean = math.fsum(r.value or 0.0 for r in readings) / len(readings)
    first = readings[0].value
    bar = Bar(ref=first, reading=first, paired=True) if paired and first is not None else Bar(ref=mean, readings=len(readings))
    sigma = noise.sigma if noise else None
    return Verdict(status=Status.KEEP, reason="baseline", rule=rules.keep.rule, value=mean, bar=mean, sigma=sigma, next_bar=bar)


def judge_all(
    rules: Rules, bar: Bar, readings: Sequence[Reading], noise: Noise, change: Change, baseline: Reading | None, cpu_cap: float | None = None,
) -> Verdict:  # fmt: skip
    """The verdict on a candidate with all its readings: a second one was taken because the first looked too good, and must bear it out."""
    verdict = judge(rules, bar, readings[0], noise, change, baseline, cpu_cap)
    if verdict.status is not Status.KEEP or len(readings) == 1:
        return verdict
    second = judge(rules, bar, readings[1], noise, change, baseline, cpu_cap)
    if second.value is None or verdict.gain is None or second.gain is None:
        return second
    if auditing.confirmed(verdict.gain, second.gain):
        return verdict
    return discarded(verdict, bar, "not_confirmed", f"with another seed the gain was {second.gain:.4g}, not {verdict.gain:.4g}")


def judge(
    rules: Rules, bar: Bar, reading: Reading, noise: Noise, change: Change, baseline: Reading | None = None, cpu_cap: float | None = None,
) -> Verdict:  # fmt: skip
    """Keep, discard, or the reason why there is nothing to compare. `cpu_cap`: the CPU seconds at which a job is stopped, `None` where none is."""
    verdict = _compare(rules, bar, reading, noise, change, baseline)
    used = reading.outcome.cpu_seconds
    if verdict.status is not Status.KEEP or cpu_cap is None or used is None or used <= (most := _room(rules, bar, cpu_cap)):
        return verdict
    detail = f"it took {used:.1f} CPU seconds; to be kept it may take {most:.1f}, so that what is built on it has room below the cap of {cpu_cap:.1f}"
    return discarded(verdict, bar, "no_headroom", detail)


def _room(rules: Rules, bar: Bar, cpu_cap: float) -> float:
    """What is to be kept may take this long: with room below the cap, or as long as the incumbent did, but for the noise of the clock."""
    return max(cpu_cap / rules.trial.headroom, SAME_SECONDS * (bar.cpu_seconds or 0.0))


def discarded(verdict: Verdict, bar: Bar | None, reason: str, detail: str) -> Verdict:
    """The verdict on what is measured and still not kept, for another reason than its number."""
    later = bar.model_copy(update={"since": bar.since + 1}) if bar else None
    return verdict.model_copy(update={"status": Status.DISCARD, "reason": reason, "detail": detail, "next_bar": later})


def _compare(rules: Rules, bar: Bar, reading: Reading, noise: Noise, change: Change, baseline: Reading | None) -> Verdict:
    bad = disbelieved(rules, reading, baseline)
    if bad is not None:
        return bad.model_copy(update={"sigma": noise.sigma, "next_bar": bar})
    assert reading.value is not None, "unmeasured() has seen to it"
    sign = 1.0 if rules.metric.direction == "lower" else -1.0
    y, ref, sigma = sign * reading.value, sign * bar.ref, noise.sigma
    debiased = rules.keep.rule == "debiased"
    threshold = ref + min(RAMP * bar.since, RAMP_CAP) * sigma if debiased else ref
    cost = _complexity(change, rules.keep.complexity_per_line, sigma) if debiased else 0.0
    if bar.paired and bar.reading is not None and abs(reading.value - bar.reading) <= _rounding(reading):
        return _without_effect(rules, bar, reading.value, noise, change)
    keep = y < threshold - cost
    gain, error = ref - y, sigma * math.sqrt(1.0 + 1.0 / bar.readings)
    return Verdict(
        status=Status.KEEP if keep else Status.DISCARD,
        reason=_reason(keep, y, threshold, cost),
        rule=rules.keep.rule,
        value=reading.value,
        bar=sign * threshold,
        complexity=cost,
        gain=gain,
        standard_error=error,
        p_better=0.5 * (1.0 + math.erf(gain / (error * math.sqrt(2.0)))),
        sigma=sigma,
        next_bar=_after_keep(bar, reading, y, threshold, sigma, debiased) if keep else bar.model_copy(update={"since": bar.since + 1}),
    )


def _rounding(reading: Reading) -> float:
    """How far two readings of the same program are apart: not at all, or by what float32 claims leave of a correction."""
    return CORRECTED if reading.audit is not None and reading.audit.correction else 0.0


def _without_effect(rules: Rules, bar: Bar, value: float, noise: Noise, change: Change) -> Verdict:
    """The same reading to the last bit: the change does nothing, and only less code is a reason to keep it."""
    shorter = rules.keep.rule == "debiased" and change.net_lines < 0 and rules.keep.complexity_per_line > 0
    return Verdict(
        status=Status.KEEP if shorter else Status.DISCARD, reason="equal_and_shorter" if shorter else "no_effect", rule=rules.keep.rule,
        value=value, bar=bar.ref, gain=0.0, standard_error=0.0, p_better=0.5, sigma=noise.sigma,
        next_bar=bar.model_copy(update={"since": 0 if shorter else bar.since + 1}),
    )  # fmt: skip


def _after_keep(old: Bar, reading: Reading, y: float, threshold: float, sigma: float, debiased: bool) -> Bar:
    pull, sign = min(sigma, 0.5 * (threshold - y)) if debiased else 0.0, 1.0 if y == reading.value else -1.0
    return Bar(ref=sign * (y + pull), reading=sign * y, paired=old.paired, cpu_seconds=reading.outcome.cpu_seconds)


def _complexity(change: Change, per_line: float, sigma: float) -> float:
    if per_line == 0:
        return 0.0
    if change.net_lines < 0:
        return -DELETION_CREDIT * sigma
    return per_line * change.net_lines


def _reason(keep: bool, y: float, threshold: float, cost: float) -> str:
    if keep:
        return "better" if y < threshold else "equal_and_shorter"
    return "not_worth_its_lines" if y < threshold else "not_better"


def _without_value(rules: Rules, status: Status, reason: str, detail: str) -> Verdict:
    return Verdict(status=status, reason=reason, detail=detail, rule=rules.keep.rule)
