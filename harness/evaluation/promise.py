"""Did a trial do what it promised? Facts from the promise, the change and the numbers, for people to read. Pure: values in, values out.

Nothing is decided by it: a predicted gain is a proposer's own word and routes nothing, however it is calibrated. What cannot be told is `None`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.records import Record

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*\w)(?! ?%)")
TO = re.compile(r"\s*(?:to|-|–|\.\.|and)\s*", re.IGNORECASE)
WORD = re.compile(r"[^\W\d_]\w{2,}")
CONSTANT = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")
ERRORS = 2.0
BINS = (0.0, 1.0, 3.0)  # in standard errors of the measured gain


class Kept(Record):
    """What became of a promise: whether the axis it named is in the change, what gain it expected, and what the measured one says of that."""

    axis_in_change: bool | None
    says_what_refutes: bool
    expected: float | None
    better: bool | None
    expectation_refuted: bool | None


class Bin(Record):
    """Trials whose predicted gain lay between two multiples of the measured gain's standard error."""

    low: float | None
    high: float | None
    trials: int
    predicted: float
    measured: float
    better: int
    reached: int


def expected(text: str) -> float | None:
    """The one number of a promised effect, of a range its middle; `None` where it names none, several, or a percentage."""
    found = list(NUMBER.finditer(text[:200]))
    if "%" in text or not found or len(found) > 2:
        return None
    values = [float(one.group()) for one in found]
    if len(found) == 1:
        return values[0]
    return sum(values) / 2 if TO.fullmatch(text[found[0].end() : found[1].start()]) else None


def verify(axis: str, refuted_if: str, expectation: str, changed_lines: Sequence[str], gain: float | None, error: float | None) -> Kept:
    """The facts of one trial. `changed_lines` are the lines that the change adds or removes and the names of what it touches."""
    hoped = expected(expectation)
    return Kept(
        axis_in_change=_named(axis, changed_lines), says_what_refutes=bool(refuted_if.strip()), expected=hoped,
        better=None if gain is None else gain > 0,
        expectation_refuted=None if hoped is None or gain is None or error is None else gain < hoped - ERRORS * error,
    )  # fmt: skip


def calibration(promises: Sequence[tuple[float, float, float]]) -> list[Bin]:
    """Predicted gain, measured gain and its standard error of many trials, in bins; empty bins are left out."""
    bins: list[Bin] = []
    for low, high in zip((None, *BINS), (*BINS, None), strict=True):
        inside = [
            one for one in promises if one[2] > 0 and (low is None or one[0] / one[2] > low) and (high is None or one[0] / one[2] <= high)
        ]
        if inside:
            bins.append(Bin(
                low=low, high=high, trials=len(inside), predicted=sum(one[0] for one in inside) / len(inside),
                measured=sum(one[1] for one in inside) / len(inside), better=sum(one[1] > 0 for one in inside),
                reached=sum(one[1] >= one[0] for one in inside),
            ))  # fmt: skip
    return bins


def _named(axis: str, changed_lines: Sequence[str]) -> bool | None:
    """A constant that the axis names must stand in the change; of other words one must, as a word or a part of a name."""
    constants, words = CONSTANT.findall(axis), [word.casefold() for word in WORD.findall(axis)]
    if not words:
        return None
    text = "\n".join(changed_lines)
    if constants:
        return any(re.search(rf"(?<!\w){name}(?!\w)", text) for name in constants)
    return any(word in text.casefold() for word in words)
