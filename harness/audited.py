"""What audits and rehearsals found: claims against losses that the trusted side computed itself, and the contract tried before a training."""

from __future__ import annotations

from harness.records import Record


class Audit(Record):
    """One audit of one reading. Differences are claim less audited loss, in nats; `correction` is their mean in the metric's unit.

    `off` counts positions further off than `tolerance`; `worst` and `p999` are the largest difference and the 99.9th percentile, without sign.
    `load_seconds` and `scorer_seconds` are what the second scorer used, as in a measurement. `fault` says why the audit could not be made, or ''.
    """

    positions: int
    mean: float = 0.0
    standard_error: float = 0.0
    worst: float = 0.0
    p999: float = 0.0
    off: int = 0
    tolerance: float = 0.0
    correction: float = 0.0
    load_seconds: float | None = None
    scorer_seconds: float | None = None
    seconds: float = 0.0
    fault: str = ""
    detail: str = ""


class Rehearsal(Record):
    """The contract tried with an untrained model: how far a loss moved, in nats, when only later ids changed (`None`: it could not be told).

    `reason` and `detail` say what speaks against the candidate, or ''.
    """

    moved: float | None = None
    reason: str = ""
    detail: str = ""
    seconds: float = 0.0
