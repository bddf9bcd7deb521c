"""The incumbent's gain over the baseline, as people and models are told it. Pure: a fold in, numbers out."""

from __future__ import annotations

import math
from typing import NamedTuple

from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.trial import MEASURED


class Gain(NamedTuple):
    """Positive when better: by the incumbent's reading (selected, so too good), de-biased, and the latter's standard error."""

    reading: float
    estimate: float | None
    standard_error: float | None


def sign(study: Study) -> float:
    """+1 when lower is better: `sign * (old - new)` is a gain."""
    return -1.0 if study.started and study.started.direction == "higher" else 1.0


def believed_value(row: TrialRow) -> float | None:
    """The metric value that the verdict rests on; `None` for a trial whose status is no measurement."""
    if row.verdict is None or row.verdict.status not in MEASURED:
        return None
    return row.verdict.value if row.verdict.value is not None else row.value


def reference(study: Study) -> float | None:
    """What gains are measured against: the baseline's mean, or its reading with the candidates' seed where readings are paired."""
    verdict = study.baseline.verdict if study.baseline else None
    return verdict.next_bar.ref if verdict and verdict.next_bar else None


def baseline_readings(study: Study) -> int:
    """How many readings that reference rests on."""
    verdict = study.baseline.verdict if study.baseline else None
    return verdict.next_bar.readings if verdict and verdict.next_bar else 1


def gain(study: Study) -> Gain | None:
    """`None` without an incumbent but the baseline, or without a believed value."""
    best, bar, before = study.incumbent, study.bar, reference(study)
    after = believed_value(best) if best is not None and best.trial != 0 else None
    if before is None or after is None:
        return None
    reading = sign(study) * (before - after)
    if bar is None:
        return Gain(reading, None, None)
    error = study.noise.sigma * math.sqrt(1 / baseline_readings(study) + 1 / max(1, bar.readings)) if study.noise else None
    return Gain(reading, sign(study) * (before - bar.ref), error)
