"""A change of files said in one line, in the form that the offline proposers use and read."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.proposers.fence import flat

CONSTANT = re.compile(r"([A-Z][A-Z0-9_]*) *= *([^#]*[^# ]) *(?:#.*)?")


def in_a_line(before: Mapping[str, str], after: Mapping[str, str | None]) -> str:
    """The change in one line: the lines themselves when one was exchanged, else how many in which files."""
    parts = []
    for name, text in sorted(after.items()):
        old, new = before.get(name, "").split("\n"), (text or "").split("\n")
        gone, come = sorted(set(old) - set(new)), sorted(set(new) - set(old))
        if name in before and len(gone) == len(come) == 1:
            parts.append(_exchange(gone[0].strip(), come[0].strip()))
        else:
            parts.append(f"{name}: +{len(come)} -{len(gone)} lines")
    return flat(", ".join(parts), 300)


def _exchange(gone: str, come: str) -> str:
    """One line for another; for a constant in the form of the offline proposers: `NAME: old -> new`."""
    old, new = CONSTANT.fullmatch(gone), CONSTANT.fullmatch(come)
    if old and new and old.group(1) == new.group(1):
        return f"{old.group(1)}: {old.group(2)} -> {new.group(2)}"
    return f"{gone} -> {come}"
