"""Several edits of one text as one: line by line, only where none touches what another touches, and never by guessing. Pure: texts in, text out."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from harness.graph.duplicates import parse
from harness.graph.near import changed_symbols

LONGEST = 4000  # lines; difflib takes seconds for more


class _Hunk(NamedTuple):
    """Lines `begin` to `end` of the base, and what stands there instead."""

    begin: int
    end: int
    lines: tuple[str, ...]


def merged(base: str, edits: Sequence[str]) -> str | None:
    """The base with every edit in it; `None` when two touch the same lines, or the result is no program with exactly the symbols changed that they change."""
    old = base.splitlines(keepends=True)
    if len(old) > LONGEST or any(text.count("\n") > LONGEST for text in edits):
        return None
    hunks = [_hunks(old, text.splitlines(keepends=True)) for text in edits]
    if any(_touch(one, other) for first, second in combinations(hunks, 2) for one in first for other in second):
        return None
    lines = list(old)
    for hunk in sorted((hunk for of_one in hunks for hunk in of_one), reverse=True):
        lines[hunk.begin : hunk.end] = hunk.lines
    text = "".join(lines)
    try:
        parse(text)
    except SyntaxError:
        return None
    wanted = frozenset[str]().union(*(changed_symbols(base, edit) for edit in edits))
    return text if changed_symbols(base, text) == wanted else None


def _hunks(old: list[str], new: list[str]) -> list[_Hunk]:
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [_Hunk(a, b, tuple(new[c:d])) for tag, a, b, c, d in codes if tag != "equal"]


def _touch(one: _Hunk, other: _Hunk) -> bool:
    """Whether both change a line, or one puts lines where the other begins or ends."""
    if one.begin == one.end or other.begin == other.end:
        return one.begin <= other.end and other.begin <= one.end
    return one.begin < other.end and other.begin < one.end
