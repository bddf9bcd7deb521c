"""The constants of a program that an offline search may turn. Pure: text in, names, values and places out."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from harness.evaluation import bans
from harness.graph import duplicates
from harness.oversight import NO_BAN, Ban

Number = bool | int | float
NAME = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True)
class Constant:
    """A top-level number of train.py and where it stands."""

    name: str
    value: Number
    node: ast.expr


def find_constants(text: str, ban: Ban = NO_BAN) -> list[Constant]:
    """The upper-case numbers and flags that the text assigns once, at top level, as a literal; seeds are left out, and what a ban names."""
    try:
        tree = duplicates.parse(text)
    except SyntaxError:
        return []
    assigned = list(duplicates.assignments(tree))
    names, lines = [name for name, _ in assigned], text.split("\n")
    found = []
    for name, node in assigned:
        value = _literal(node)
        if (
            value is not None
            and NAME.fullmatch(name)
            and names.count(name) == 1
            and not duplicates.is_seed(name)
            and not bans.turns(ban, name, lines[node.lineno - 1])
        ):
            found.append(Constant(name, value, node))
    return found


def _literal(node: ast.expr) -> Number | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _literal(node.operand)
        if inner is None or isinstance(inner, bool):
            return None
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        return node.value
    return None
