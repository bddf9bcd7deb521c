"""Several edits of one text as one: line by line, only where none touches what another touches, and never by guessing. Pure: texts in, text out."""

from __future__ import annotations

import difflib
import symtable
import warnings
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
    """The base with every edit in it; `None` when two touch the same lines, one takes a name away that another reads, or the result is no
    program with exactly the symbols changed that they change."""
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
    if changed_symbols(base, text) != wanted or _unbound(text).difference(*map(_unbound, (base, *edits))):
        return None
    return text


def _unbound(text: str) -> set[tuple[str, str]]:
    """The names that nothing in a text binds where it reads them, builtins too, each with the name of its block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blocks = [symtable.symtable(text, "train.py", "exec")]
    for block in blocks:
        blocks += block.get_children()
    found = [(block, one) for block in blocks for one in block.get_symbols()]
    stored = [(block, one) for block, one in found if one.is_assigned() or one.is_imported()]
    bound = {one.get_name() for block, one in stored if block is blocks[0] or one.is_declared_global()}
    read = ((block.get_name(), one.get_name()) for block, one in found if one.is_referenced() and one.is_global())
    return {(place, name) for place, name in read if name not in bound}


def _hunks(old: list[str], new: list[str]) -> list[_Hunk]:
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [_Hunk(a, b, tuple(new[c:d])) for tag, a, b, c, d in codes if tag != "equal"]


def _touch(one: _Hunk, other: _Hunk) -> bool:
    """Whether both change a line, or one puts lines where the other begins or ends."""
    if one.begin == one.end or other.begin == other.end:
        return one.begin <= other.end and other.begin <= one.end
    return one.begin < other.end and other.begin < one.end
