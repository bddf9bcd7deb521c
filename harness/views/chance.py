"""What a night shows by chance alone: keeps and gain of a night in which no candidate differs from the incumbent.

Pure and deterministic (a fixed seed, bounded work). It mirrors `evaluation/judge.py` in units of sigma, lower is better, without complexity.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import lru_cache
from statistics import fmean

STEPS = 150_000
MAX_NIGHTS, MIN_NIGHTS = 4_000, 20
RAMP, RAMP_CAP, PULL, PULL_CAP = 0.05, 1.0, 0.5, 1.0
REMEASURE_AFTER, MOST_READINGS = 20, 4
EULER = 0.5772156649015329
Night = tuple[int, float]


def expected_chance_keeps(judged: int, rule: str = "debiased", baseline_readings: int = 3, remeasured: bool = True) -> float:
    """Expected keeps among `judged` measured candidates, all truly equal to the incumbent; `rule` is `debiased` or `strict`."""
    if judged <= 0:
        return 0.0
    return strict_records(judged) if rule == "strict" else fmean(keeps for keeps, _ in nights(judged, rule, baseline_readings, remeasured))


def chance_gain(judged: int, rule: str = "debiased", baseline_readings: int = 3, remeasured: bool = True) -> float:
    """Gain of the incumbent's reading over the baseline, in sigma, that 19 of 20 such nights stay below."""
    if judged <= 0:
        return 0.0
    gains = sorted(gain for _, gain in nights(judged, rule, baseline_readings, remeasured))
    return gains[min(len(gains) - 1, math.ceil(0.95 * len(gains)))]


def strict_records(judged: int) -> float:
    """H(judged + 1) - 1: how often the lowest reading falls again when all are alike."""
    n = judged + 1
    if n <= 1_000:
        return math.fsum(1.0 / k for k in range(2, n + 1))
    return math.log(n) + EULER + 1 / (2 * n) - 1.0


@lru_cache(maxsize=64)
def nights(judged: int, rule: str, baseline_readings: int, remeasured: bool) -> tuple[Night, ...]:
    """Simulated null nights: keeps and final gain of each."""
    count = max(MIN_NIGHTS, min(MAX_NIGHTS, STEPS // judged))
    gauss = random.Random(20_260_308).gauss
    most = MOST_READINGS if remeasured else 0
    if rule == "strict":
        return tuple(strict_night(judged, max(1, baseline_readings), lambda: gauss(0.0, 1.0)) for _ in range(count))
    return tuple(debiased_night(judged, max(1, baseline_readings), lambda: gauss(0.0, 1.0), most) for _ in range(count))


def strict_night(judged: int, baseline_readings: int, reading: Callable[[], float]) -> Night:
    """One null night in which the lower reading wins."""
    baseline = best = fmean(reading() for _ in range(baseline_readings))
    keeps = 0
    for _ in range(judged):
        y = reading()
        if y < best:
            keeps, best = keeps + 1, y
    return keeps, baseline - best


def debiased_night(judged: int, baseline_readings: int, reading: Callable[[], float], most_readings: int = MOST_READINGS) -> Night:
    """One null night under the de-biased rule.

    `unselected` are the incumbent's readings that nobody selected: all of a baseline's, only the re-measured ones of a keep. How often an
    incumbent is measured again counts its selected reading too, as the study's groups of re-readings do.
    """
    unselected = [reading() for _ in range(baseline_readings)]
    baseline = best = ref = fmean(unselected)
    since = keeps = 0
    for _ in range(judged):
        y = reading()
        bar = ref + min(RAMP * since, RAMP_CAP)
        if y < bar:
            keeps, since, best = keeps + 1, 0, y
            ref, unselected = y + min(PULL_CAP, PULL * (bar - y)), []
            continue
        since += 1
        group = len(unselected) + int(keeps > 0 and bool(unselected))
        if since >= REMEASURE_AFTER and group < most_readings:
            unselected.append(reading())
            ref, since = fmean(unselected), 0
    return keeps, baseline - best
