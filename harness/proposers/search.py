"""Coordinate descent on the constants of train.py: the offline control that an LLM has to beat. Needs no model and no state.

One upper-case number or flag is turned a trial: rates x or / 2^0.6, powers of two x or / 2, other integers +-1 (640 by
128), fractions +-0.15, small decays as rates, flags flipped. After a failure the other way is tried, after two the step is halved; constants that paid are
chosen more often; one whose move had no effect at all belongs to code that is not reached, and rests until a keep may have changed what is reached. Weights, ways
and steps are replayed from `briefing.past`; `random.Random(f"{seed}:{number}")` only chooses among the constants. So a proposal
is a pure function of seed, past and incumbent, and a restart changes nothing. Seeds are never touched, nor what `[ban]` names.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from harness.graph import duplicates
from harness.proposers.constants import Constant, Number, find_constants
from harness.proposers.protocol import Briefing, Past
from harness.trial import FAILED, Proposal, Status

EDIT = re.compile(r"([A-Z][A-Z0-9_]*): (\S+) -> (\S+)")
FRACTIONS = re.compile(r"(?:.*_)?(?:FRACTION|FRAC|RATIO|SHARE|BETA\d*|MOMENTUM|DECAY|WARMUP|WARMDOWN|COOLDOWN|DROPOUT|FINAL)(?:_.*)?")
COUNTS = re.compile(r"(?:.*_)?(?:DEPTH|LAYERS?|BLOCKS|ITERATIONS)(?:_.*)?")  # doubling these seldom fits the budget: +-1
RATE_OCTAVES = 0.6
FRACTION_STEP = 0.15
DECAYS = re.compile(r"(?:.*_)?DECAY(?:_.*)?")
FIRST_DECAY, SMALL_DECAY = 0.001, 0.05  # a small decay is a rate
SHAPES = 64  # whole numbers from here on keep the power of two that divides them, if it is 8 or more
PAID, UNPAID = 1.5, 0.75
WEIGHT_FLOOR, WEIGHT_CAP = 0.25, 3.0
STEP_FLOOR = 0.125  # a rate then moves by 5 %, below the noise of one reading


@dataclass
class Axis:
    """What the past says of one constant. `tried` and `barred` hold (value before, value after) and (value before, way). `idle`: the ways in which turning it
    does nothing; a value that something else caps may well be turned the other way.
    """

    weight: float = 1.0
    way: int = 1
    step: float = 1.0
    failures: int = 0
    idle: set[int] = field(default_factory=set)
    tried: set[tuple[float, float]] = field(default_factory=set)
    barred: set[tuple[float, int]] = field(default_factory=set)

    def take(self, past: Past, old: float, new: float) -> None:
        """Learn from one earlier proposal."""
        way = 1 if abs(new) > abs(old) else -1
        self.idle |= {way} if past.no_effect else set()
        self.tried.add((old, new))
        if past.status is Status.KEEP:
            self.tried.add((new, old))
            self.weight = min(self.weight * PAID, WEIGHT_CAP)
            self.way, self.failures = way, 0
        elif past.refused:
            self.way = -way
        elif past.status not in (None, Status.INTERRUPTED, Status.BLOCKED):
            self._fail(way)
            if past.status in FAILED:
                self.barred.add((old, way))

    def _fail(self, way: int) -> None:
        self.weight = max(self.weight * UNPAID, WEIGHT_FLOOR)
        self.way = -way
        self.failures += 1
        if self.failures % 2 == 0:
            self.step = max(self.step / 2, STEP_FLOOR)


class Search:
    """The proposer; `seed` makes studies differ."""

    name = "search"
    reads = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def propose(self, briefing: Briefing, among: Collection[str] | None = None) -> Proposal | None:
        """One untried change of one constant, of those `among` these names; `None` when there is no constant or none has an untried move left."""
        path = "train.py" if "train.py" in briefing.files else min(briefing.files, default="")
        text = briefing.files.get(path, "")
        constants = [one for one in find_constants(text, briefing.ban) if among is None or one.name in among]
        axes = replay(briefing.past, constants)
        moves = _moves(constants, axes)
        if not moves:
            return None
        weights = [axes[constant.name].weight for constant, _ in moves]
        rng = random.Random(f"{self.seed}:{briefing.number}")
        constant, new = rng.choices(moves, weights)[0]
        changed = duplicates.respell(text, constant.node, repr(new))
        return _proposal(briefing, constant, new, {path: changed})


def replay(past: Iterable[Past], constants: Iterable[Constant]) -> dict[str, Axis]:
    """An `Axis` for each constant, taught by every earlier edit that reads `NAME: old -> new`, whoever proposed it.

    A keep makes a new incumbent, on which the other constants' moves are worth another try; what failed outright stays barred, and what had no effect rests
    unless the keep may have changed which code is reached: a count, a flag, a number that was or became 0, or anything but a constant.
    """
    axes = {constant.name: Axis() for constant in constants}
    for one in past:
        edit = EDIT.fullmatch(one.edit)
        if edit and edit.group(1) == one.axis and one.axis in axes:
            old, new = _number(edit.group(2)), _number(edit.group(3))
            if old is not None and new is not None:
                axes[one.axis].take(one, old, new)
            for name in axes.keys() - {one.axis} if one.status is Status.KEEP else ():
                axes[name].tried.clear()
        if one.status is Status.KEEP and (edit is None or any(map(_switches, edit.group(2, 3)))):
            for axis in axes.values():
                axis.idle.clear()
    return axes


def _switches(said: str) -> bool:
    """Whether code may be reached or not for a value like this one: a whole number, a flag, or nought."""
    value = _number(said)
    return said in ("True", "False") or (value is not None and (value == 0.0 or ("." not in said and value.is_integer())))


def _number(said: str) -> float | None:
    if said in ("True", "False"):
        return float(said == "True")
    try:
        return float(said)
    except ValueError:
        return None


def _moves(constants: Sequence[Constant], axes: dict[str, Axis]) -> list[tuple[Constant, Number]]:
    """One move for each constant that has an untried one; when none has, the same with steps halved, down to the floor."""
    halving = 1.0
    while halving >= STEP_FLOOR:
        moves = [(constant, _move(constant, axes[constant.name], halving)) for constant in constants]
        open_moves = [(constant, new) for constant, new in moves if new is not None]
        if open_moves:
            return open_moves
        halving /= 2
    return []


def _move(constant: Constant, axis: Axis, halving: float) -> Number | None:
    """The new value: the axis' own way first, then the other one; `None` when both are tried, barred or do nothing."""
    step = max(axis.step * halving, STEP_FLOOR)
    old = constant.value
    for way in (way for way in (axis.way, -axis.way) if way not in axis.idle):
        new = turned(constant.name, old, way, step)
        if new is not None and (old, new) not in axis.tried and (old, way) not in axis.barred:
            return new
    return None


def turned(name: str, old: Number, way: int, step: float) -> Number | None:
    """`old` turned up (`way` 1: away from zero) or down (-1) by `step` (1 is the full step), or `None` when there is no such value."""
    if isinstance(old, bool):
        return (not old) if old == (way < 0) else None
    if isinstance(old, int):
        return _turned_integer(name, old, way)
    if old == 0.0 and DECAYS.fullmatch(name):
        return FIRST_DECAY if way > 0 else None
    if 0 <= old <= 1 and FRACTIONS.fullmatch(name) and not (DECAYS.fullmatch(name) and old < SMALL_DECAY):
        edge = 1.0 if way > 0 else 0.0
        distance = min(FRACTION_STEP * step, abs(edge - old) / 2)  # near an edge half the way to it: 0.95, 0.975
        return _short(old, old + way * distance, way)
    return _short(old, old * 2 ** (RATE_OCTAVES * step * way), way)


def _turned_integer(name: str, old: int, way: int) -> int | None:
    size = abs(old)
    if old >= 2 and size & (size - 1) == 0 and not COUNTS.fullmatch(name):
        return old * 2 if way > 0 else old // 2
    shape = size & -size if size >= SHAPES else 1
    size += way * (shape if shape >= 8 else 1)  # 640 is 5 x 128: its neighbours are 512 and 768
    lowest = 1 if old > 0 else 0
    if size < lowest:
        return None
    return -size if old < 0 else size


def _short(old: float, new: float, way: int) -> float | None:
    """`new` in three digits, or in four when three would lose the move; fractions stay inside (0, 1)."""
    for digits in (3, 4):
        value = float(f"{new:.{digits}g}")
        inside = not 0 < old < 1 or 0 < abs(value) < 1 or abs(new) >= 1
        if inside and (abs(value) - abs(old)) * way > 0 and abs(value) != float("inf"):
            return value
    return None


def _proposal(briefing: Briefing, constant: Constant, new: Number, files: dict[str, str | None]) -> Proposal:
    name, old = constant.name, constant.value
    kind = "flipped" if isinstance(old, bool) else "larger" if abs(new) > abs(old) else "smaller"
    return Proposal(
        id=briefing.number,
        parent=briefing.incumbent,
        title=f"{name} {old!r} → {new!r}",
        hypothesis=f"{name} may not be at its best value; nothing but coordinate descent speaks for a {kind} one.",
        expected_effect="A small gain of unknown size, or none.",
        refuted_if=f"The trial with {name} = {new!r} is not kept.",
        axis=name,
        edit=f"{name}: {old!r} -> {new!r}",
        files=files,
        proposer=Search.name,
    )
