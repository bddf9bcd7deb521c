"""Which audit a claim needs, and what an audit says of it. Pure.

Positions: 1,024, and 4,096 for every tenth new best, as `[audit]` has them. A claim is rejected when the mean difference is more than four standard
errors and 0.001 nats, or one position is off by more than the tolerance: ten times the 99.9th percentile of the baseline's own audit, between 0.02 and
0.5 nats. A scorer may use `scorer_factor` times what the baseline's used, to load as in all, and a second that is no idea's fault.
"""

from __future__ import annotations

from harness.audited import Rehearsal
from harness.rules import Rules
from harness.trial import EvaluationFault, Reading

ERRORS = 4.0
MEAN_NATS = 1e-3
LEAST_TOLERANCE, MOST_TOLERANCE = 0.02, 0.5
TOLERANCE_FACTOR = 10.0
DEEP_EVERY, DEEP_FACTOR = 10, 4
SLACK_SECONDS = 1.0
WONDER_SIGMAS = 10.0
MOVED_NATS = 1e-3
BAD_CONTRACT = frozenset({"load_failed", "short_answer", "scorer_died"})
REHEARSED_POSITIONS = 32


def positions(rules: Rules, kept: int) -> int:
    """How many positions of a would-be keep are audited when `kept` candidates have been kept already."""
    return rules.audit.positions * (DEEP_FACTOR if (kept + 1) % DEEP_EVERY == 0 else 1)


def tolerance(baseline: Reading | None) -> float:
    """How far one position may be off, in nats; the widest for the baseline itself."""
    if baseline is None or baseline.audit is None:
        return MOST_TOLERANCE
    return min(MOST_TOLERANCE, max(LEAST_TOLERANCE, TOLERANCE_FACTOR * baseline.audit.p999))


def objection(rules: Rules, reading: Reading, baseline: Reading | None) -> tuple[str, str] | None:
    """Why a measured claim is not believed, as reason and sentence; `None` when nothing speaks against it. `baseline` is its audited reading."""
    audit = reading.audit
    if reading.measurement is None:
        return None
    if (slow := _too_long(rules, reading, baseline)) is not None:
        return "scorer_time", slow
    if audit is None:
        return None
    if audit.fault:
        return "audit", f"the audit could not be made: {audit.fault}, {audit.detail}"
    if audit.off:
        return "audit", (
            f"{audit.off} of {audit.positions} audited positions are off by more than {audit.tolerance:.3g} nats (at most {audit.worst:.3g}): "
            "the claimed losses are not what the model gives when it sees only what comes before"
        )
    if abs(audit.mean) > max(MEAN_NATS, ERRORS * audit.standard_error):
        return "audit", f"the claimed losses are off by {audit.mean:.4g} ± {audit.standard_error:.2g} nats on average"
    return None


def _too_long(rules: Rules, reading: Reading, baseline: Reading | None) -> str | None:
    """Both scorers, to load and in all, against the baseline's; of a deeper audit the part after loading may be that much longer."""
    here, known = reading.measurement, baseline.measurement if baseline else None
    if here is None or known is None:
        return None
    pairs = [("to load the model", here.load_seconds, known.load_seconds), ("to score", here.scorer_seconds, known.scorer_seconds)]
    audit, usual = reading.audit, baseline.audit if baseline else None
    if audit is not None:
        pairs.append(("to load the model again", audit.load_seconds, known.load_seconds))
        if usual is not None and usual.scorer_seconds is not None and usual.load_seconds is not None and not usual.fault:
            deeper = (usual.scorer_seconds - usual.load_seconds) * max(1.0, audit.positions / max(1, usual.positions))
            pairs.append(("to be audited", audit.scorer_seconds, usual.load_seconds + deeper))
    for what, used, allowed in pairs:
        if used is not None and allowed is not None and used > rules.audit.scorer_factor * allowed + SLACK_SECONDS:
            return f"{used:.1f} s {what}, the baseline takes {allowed:.1f}; [audit] scorer_factor allows {rules.audit.scorer_factor:g} times that"
    return None


def rehearsal_due(rules: Rules, baseline: Reading | None, model_changed: bool) -> bool:
    """Whether an untrained model is tried first: code changed, not a constant alone, and a training is long enough to be worth it."""
    spent = baseline.outcome.train_seconds if baseline else None
    return model_changed and spent is not None and spent >= rules.audit.rehearse_from_seconds


def rehearsal(result: float | EvaluationFault | None) -> Rehearsal:
    """What a rehearsal says: a loss must not depend on later ids, and the model must load and answer in shape. `None`: it says nothing."""
    if isinstance(result, EvaluationFault):
        bad = result.reason in BAD_CONTRACT
        return Rehearsal(reason=result.reason if bad else "", detail=f"untrained: {result.detail}" if bad else "")
    if result is None or result <= MOVED_NATS:
        return Rehearsal(moved=result)
    said = f"untrained, its loss at a position moved by {result:.3g} nats when only later ids changed: the model looks ahead"
    return Rehearsal(moved=result, reason="looks_ahead", detail=said)


def implausible(rules: Rules, gain: float, bar: float, sigma: float) -> bool:
    """Whether a gain is so large that it is measured again, with another seed, before it is believed: by the bar, and far beyond the noise."""
    return gain > max(rules.audit.implausible_gain * abs(bar), WONDER_SIGMAS * sigma)


def confirmed(gain: float, again: float) -> bool:
    """Whether a second reading bears a gain out: it shows at least half of it."""
    return again >= 0.5 * gain
