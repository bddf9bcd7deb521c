"""What a program's new code does to the evaluator: names of `prepare` set, the harness imported, the module put in another's place. Pure: texts in, words out.

It reads text and can be evaded by text; what holds is that the evaluator runs in a process of its own from a pristine copy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from harness.graph.duplicates import parse

EVALUATOR = "prepare"
OURS = frozenset({"harness"})
SETTERS = frozenset({"setattr", "delattr"})


def touches(text: str, before: str = "") -> tuple[str, ...]:
    """What `text` does and `before` did not, each once, in the order of the file; nothing of a text that does not parse."""
    known = set(_all(before))
    return tuple(dict.fromkeys(said for said in _all(text) if said not in known))


@lru_cache(maxsize=4)
def _all(text: str) -> tuple[str, ...]:
    try:
        tree = parse(text)
    except SyntaxError:
        return ()
    names = _names(tree)
    return tuple(said for node in ast.walk(tree) for said in _said(node, names))


def _names(tree: ast.Module) -> set[str]:
    """What the evaluator's module is called here."""
    aliases = (alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names)
    return {EVALUATOR, *(alias.asname for alias in aliases if alias.name == EVALUATOR and alias.asname)}


def _said(node: ast.AST, names: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (f"imports {alias.name}" for alias in node.names if alias.name.partition(".")[0] in OURS)
    elif isinstance(node, ast.ImportFrom):
        if (node.module or "").partition(".")[0] in OURS and not node.level:
            yield f"imports {node.module}"
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del) and _root(node) in names:
        yield f"sets {EVALUATOR}.{node.attr}"
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in SETTERS
        and node.args
        and _root(node.args[0]) in names
    ):
        yield f"sets a name of {EVALUATOR}"
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        yield from _subscript(node, names)


def _subscript(node: ast.Subscript, names: set[str]) -> Iterator[str]:
    owner = ast.unparse(node.value)
    if owner.endswith("modules") and isinstance(node.slice, ast.Constant) and node.slice.value == EVALUATOR:
        yield f"replaces the module {EVALUATOR}"
    elif owner in {f"vars({name})" for name in names} | {f"{name}.__dict__" for name in names}:
        yield f"sets a name of {EVALUATOR}"


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
