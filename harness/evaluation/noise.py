"""The standard deviation of one reading: pooled from re-runs of identical code, shrunk to what is known of the device. Pure.

The spread across different edits is never used: it measures effects, not noise.
Priors: 204 exact duplicates on one H200 (3.2e-4), two re-run pairs on an RTX 2060 (1.2e-3, 1.5e-3), five seeds each on a CPU at a fixed number of
tokens (upstream's recipe 0.0027 at 676 k; the shipped train.py 0.0030 at 82 k, 0.0013 at 328 k, 0.0010 at 2.1 M, docs/training.md: the prior is right for the shortest and
wide for the longer ones, where three baseline readings narrow it); without a fixed amount of work a CPU scatters by half a per cent of the reading.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from harness.trial import Noise, Record

DATA_CENTRE = re.compile(r"\b(A100|A800|H20|H100|H200|H800|GH200|B100|B200|GB200|B300|MI3\d\dX?)\b", re.IGNORECASE)


class Prior(Record):
    """A belief about sigma before any re-run, worth `weight` degrees of freedom, and how many baseline readings it asks for."""

    sigma: float
    weight: float
    baseline_readings: int


def prior(device: str, clock: str, reading: float | None, known: float | None = None) -> Prior:
    """Prior for a device name such as `cuda: NVIDIA H200` or `cpu`; `known` (from the rules) replaces the sigma, `reading` scales a CPU's."""
    if DATA_CENTRE.search(device):
        guess = Prior(sigma=3e-4, weight=6, baseline_readings=2)
    elif device.startswith("cuda"):
        guess = Prior(sigma=1.5e-3, weight=2, baseline_readings=3)
    elif clock == "tokens" or reading is None:
        guess = Prior(sigma=0.0027, weight=1, baseline_readings=3)
    else:
        guess = Prior(sigma=abs(reading) * 0.005 or 0.0027, weight=1, baseline_readings=3)
    return guess.model_copy(update={"sigma": known}) if known else guess


def paired(device: str, clock: str, threads: int) -> bool:
    """Whether the same seed gives the same reading again: a CPU, one thread, a number of tokens."""
    return device.startswith("cpu") and clock == "tokens" and threads == 1


def estimate(believed: Prior, groups: Iterable[Sequence[float]]) -> Noise:
    """Sigma from groups of readings; each group is one file measured several times."""
    deviations = [math.sqrt(believed.weight) * believed.sigma]
    degrees = 0
    for group in groups:
        if len(group) > 1:
            mean = math.fsum(group) / len(group)
            deviations += [value - mean for value in group]
            degrees += len(group) - 1
    sigma = math.hypot(*deviations) / math.sqrt(believed.weight + degrees)
    return Noise(sigma=sigma, prior_sigma=believed.sigma, prior_weight=believed.weight, degrees=degrees)
