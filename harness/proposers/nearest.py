"""Where a text that a file does not have nearly is, in one or two sentences, so that who looked for it can correct it. Works on lines."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Sequence

from harness.proposers.fence import clean

LINES = 40  # of the wanted text
PLACES = 200  # of one line in the file
CHARS, SEARCHED = 120, 2000  # of a line, and how many different lines: difflib takes seconds for more
SHOWN_CHARS = 300


def said(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """The nearest place to `wanted` among `lines`, and the first line in which the two differ."""
    wanted = wanted[:LINES]
    begin = _begin(lines, wanted)
    if begin is None:
        return "Nothing there looks like it; view the file."
    for offset, want in enumerate(wanted):
        number = begin + offset
        if number > len(lines):
            return f"The nearest place begins at line {begin}, but the file ends before line {number}."
        if not _fits(lines[number - 1], want, offset == 0, offset == len(wanted) - 1):
            return f"The nearest place begins at line {begin}; line {number} is {_shown(lines[number - 1])} where {_shown(want)} was looked for."
    return f"The nearest place begins at line {begin}; {len(wanted)} lines agree there, so what follows or a line end differs."


def _fits(line: str, want: str, first: bool, last: bool) -> bool:
    """A wanted text may begin and end within a line."""
    line, want = line.removesuffix("\r"), want.removesuffix("\r")
    return line == want or (first and line.endswith(want)) or (last and want != "" and line.startswith(want))


def _shown(line: str) -> str:
    """With its spaces, tabs and hidden characters spelled out."""
    return clean(repr(line[:SHOWN_CHARS])) + (" …" if len(line) > SHOWN_CHARS else "")


def _begin(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The line, from 1, at which `wanted` would begin: by its lines that are there but for spaces at the ends, else by the likest to its longest."""
    where: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines, 1):
        where[line.strip()].append(number)
    scores: Counter[int] = Counter()
    for offset, want in enumerate(one.strip() for one in wanted):
        for number in where.get(want, [])[:PLACES] if want else []:
            scores[max(1, number - offset)] += len(want)
    if scores:
        return max(scores, key=lambda begin: (scores[begin], -begin))
    offset, longest = max(enumerate(one.strip() for one in wanted), key=lambda item: len(item[1]), default=(0, ""))
    known = {one[:CHARS]: one for one in list(where)[:SEARCHED] if one}
    near = difflib.get_close_matches(longest[:CHARS], known, n=1, cutoff=0.5)
    return max(1, where[known[near[0]]][0] - offset) if near else None
