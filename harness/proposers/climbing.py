"""The offline search on the stall ladder: the axes that rested longest, near misses in one edit, or a step beyond the usual. On the ground it is `Search`.

A pure function of the seed and the briefing, as the search is. A rung that has nothing untried, or whose latest proposals were refused, leaves the turn to
the plain search, so that no rung makes it run dry. Edits of a rung are spelled so that `search.replay` takes no lesson on one axis from them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

from harness.evaluation import bans
from harness.graph import duplicates, merging
from harness.proposers.constants import Constant, Number, find_constants
from harness.proposers.protocol import Briefing, NearMiss
from harness.proposers.search import Search, turned
from harness.trial import Proposal

RECENT = 10  # proposals
REFUSED = 3  # in a row, from which a rung rests
SEVERAL = 3
LARGE = 3.0  # times the usual step
DRAWS = 24
EDIT_CHARS = 300  # of an edit, in the journal


class Climbing:
    """The proposer `search`; `seed` makes studies differ."""

    name = Search.name
    reads = False

    def __init__(self, seed: int = 0) -> None:
        self._search = Search(seed)

    def propose(self, briefing: Briefing) -> Proposal | None:
        """What the rung asks for where there is such a thing, else one untried change of one constant; `None` when there is none of these."""
        ways = {"other_axis": self._rested, "combine": self._combined, "radical": self._radical}
        latest = briefing.past[-REFUSED:]
        hampered = len(latest) == REFUSED and all(one.refused for one in latest)
        way = None if hampered else ways.get(briefing.rung)
        return (way(briefing) if way else None) or self._search.propose(briefing)

    def _rested(self, briefing: Briefing) -> Proposal | None:
        """An axis that the latest proposals did not turn; where all were turned, one of the half that rested longest."""
        last = {one.axis: number for number, one in enumerate(briefing.past)}
        names = [constant.name for constant in find_constants(_text(briefing)[1], briefing.ban)]
        lately = {one.axis for one in briefing.past[-RECENT:]}
        rested = [name for name in names if name not in lately]
        by_rest = sorted(names, key=lambda name: last.get(name, -1))
        return self._search.propose(briefing, rested or by_rest[: (len(names) + 1) // 2])

    def _combined(self, briefing: Briefing) -> Proposal | None:
        """The first pair or three of the near misses, the best first, that was not tried together and goes into one edit."""
        known = {one.edit for one in briefing.past}
        near = [one for one in briefing.near if not bans.axis_named(briefing.ban, one.axis)]
        for several in _groups(near):
            edit = _short("combined: " + "; ".join(f"trial {one.trial} ({one.edit or one.axis})" for one in several))
            files = None if edit in known else _merged(briefing, several)
            if files:
                trials = " and ".join(str(one.trial) for one in several)
                title = f"near misses {trials} combined"
                said = f"Trials {trials} came close one by one and change different parts; together they may be worth a keep."
                return _proposal(briefing, title, said, " + ".join(one.axis for one in several), edit, files)
        return None

    def _radical(self, briefing: Briefing) -> Proposal | None:
        """By turns a step of one constant beyond the usual, and several constants at once."""
        path, text = _text(briefing)
        constants, known = find_constants(text, briefing.ban), {one.edit for one in briefing.past}
        rng = random.Random(f"{self._search.seed}:{briefing.number}:radical")
        for _ in range(DRAWS if constants else 0):
            together = SEVERAL if briefing.number % 2 and len(constants) >= SEVERAL else 1
            chosen = rng.sample(constants, together)
            moves = [(one, _leap(one, rng.choice((1, -1)), LARGE if together == 1 else 1.0)) for one in chosen]
            told = "; ".join(f"{one.name}: {one.value!r} -> {new!r}" for one, new in moves)
            edit = _short(f"radical: {told}")
            if edit in known or any(new is None for _, new in moves):
                continue
            files: dict[str, str | None] = {path: _respelled(text, [(one, new) for one, new in moves if new is not None])}
            said = "Nothing was kept for a while; a step beyond the usual may leave the plain."
            return _proposal(briefing, f"a radical step: {told}", said, " + ".join(one.name for one in chosen), edit, files)
        return None


def _groups(near: Sequence[NearMiss]) -> Iterator[tuple[NearMiss, ...]]:
    yield from combinations(near, 2)
    yield from combinations(near, 3)


def _merged(briefing: Briefing, several: Sequence[NearMiss]) -> dict[str, str | None]:
    """The files with every near miss in them; empty when two get in each other's way."""
    files: dict[str, str | None] = {}
    for path, text in briefing.files.items():
        edits = [one.files[path] for one in several if one.files.get(path, text) != text]
        whole = merging.merged(text, edits) if edits else text
        if whole is None:
            return {}
        if whole != text:
            files[path] = whole
    return files


def _leap(constant: Constant, way: int, step: float) -> Number | None:
    """The constant turned `step` times as far as usual; whole numbers, which know no larger step, are turned as often. `None`: no such value."""
    value: Number | None = constant.value
    whole = isinstance(value, int)
    for _ in range(round(step) if whole and not isinstance(value, bool) else 1):
        value = turned(constant.name, value, way, 1.0 if whole else step) if value is not None else None
    return value


def _respelled(text: str, moves: Sequence[tuple[Constant, Number]]) -> str:
    """From the last place to the first, so that the places before stay where they are."""
    for constant, new in sorted(moves, key=lambda move: (move[0].node.lineno, move[0].node.col_offset), reverse=True):
        text = duplicates.respell(text, constant.node, repr(new))
    return text


def _text(briefing: Briefing) -> tuple[str, str]:
    path = "train.py" if "train.py" in briefing.files else min(briefing.files, default="")
    return path, briefing.files.get(path, "")


def _short(edit: str) -> str:
    return edit[:EDIT_CHARS]


def _proposal(briefing: Briefing, title: str, said: str, axis: str, edit: str, files: dict[str, str | None]) -> Proposal:
    return Proposal(
        id=briefing.number, parent=briefing.incumbent, title=title[:200], hypothesis=said, expected_effect="A gain of unknown size, or none.",
        refuted_if="The trial is not kept.", axis=axis[:80], edit=edit, files=files, proposer=Search.name,
    )  # fmt: skip
