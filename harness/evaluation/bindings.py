"""Where a program gives a name a meaning: every assignment, parameter, argument, entry, import, capture and write to a namespace, as the text has it. Pure.

It reads one parsed text and follows no value: a namespace under another name, or a name that is computed, is not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple, cast

from harness.graph.normal import spelling

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
WITH_PARAMETERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
NAMESPACES = frozenset({"globals", "vars", "locals", "__dict__"})
WRITERS = frozenset({"setattr", "delattr", "__setattr__", "__delattr__", "__setitem__", "__delitem__", "update"})
LINKS = 32


class Binding(NamedTuple):
    """A name with dots and the line of its binding; `parts` is the code that says what it comes to mean."""

    name: str
    line: int
    parts: tuple[ast.AST | str | None, ...]

    def code(self, known: dict[int, str]) -> tuple[str, ...]:
        """The code in one spelling; `known` holds what nodes of the same tree were spelled before, since thousands of names can share one statement."""
        return tuple(part if isinstance(part, str) else _spelled(part, known) for part in self.parts if part is not None)


def bindings(tree: ast.Module) -> Iterator[Binding]:
    """All of a text, at any depth. Of a definition at top level the name only: `near.changed_symbols` knows better what is a change of it."""
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS):
            yield Binding(node.name, node.lineno, ("definition", None if id(node) in top else node))
        if isinstance(node, WITH_PARAMETERS):
            yield from _parameters(node.args)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from _imported(node)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            yield from (Binding(name, node.lineno, ("declared",)) for name in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield Binding(node.name, node.lineno, ("except", node.type))
        elif isinstance(node, ast.Match):
            yield from _captured(node)
        elif isinstance(node, (ast.Call, ast.Subscript)):
            yield from _written(node)
        yield from _given(node)
        yield from _assigned(node)


def defined_at(tree: ast.Module, symbol: str) -> int | None:
    """The line of the last definition or assignment of a top-level `name`, or of a method as `Class.name`; `None` when there is none."""
    owner, _, inner = symbol.partition(".")
    body = (
        tree.body
        if not inner
        else [each for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner for each in node.body]
    )
    found = None
    for node in body:
        names = [node.name] if isinstance(node, DEFINITIONS) else [one.name for one in _assigned(node)]
        found = node.lineno if (inner or owner) in names else found
    return found


def _parameters(args: ast.arguments) -> Iterator[Binding]:
    placed = [*args.posonlyargs, *args.args]
    values: list[ast.expr | None] = [*([None] * (len(placed) - len(args.defaults))), *args.defaults, *args.kw_defaults]
    for arg, value in zip([*placed, *args.kwonlyargs], values, strict=True):
        yield Binding(arg.arg, arg.lineno, ("parameter", value))
    yield from (Binding(arg.arg, arg.lineno, ("rest",)) for arg in (args.vararg, args.kwarg) if arg)


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[Binding]:
    source = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    for alias in node.names:
        name = alias.asname or (alias.name if source else alias.name.split(".")[0])
        yield Binding(name, alias.lineno, ("import", f"{source}{alias.name}"))


def _captured(node: ast.Match) -> Iterator[Binding]:
    for case in node.cases:
        for part in ast.walk(case.pattern):
            name = (
                part.rest if isinstance(part, ast.MatchMapping) else part.name if isinstance(part, (ast.MatchAs, ast.MatchStar)) else None
            )
            if name:
                yield Binding(name, case.pattern.lineno, ("case", node.subject, case.pattern))


def _assigned(node: ast.AST) -> Iterator[Binding]:
    """The targets of a statement or expression that has some, each with all of what is assigned."""
    if isinstance(node, (ast.Assign, ast.Delete)):
        targets: list[ast.expr | None] = [*node.targets]
    else:
        targets = [getattr(node, "optional_vars", None) if isinstance(node, ast.withitem) else _target(node)]
    value = next((part for key in ("value", "iter", "context_expr") if (part := getattr(node, key, None)) is not None), None)
    kind, wanted = f"{type(node).__name__} {type(getattr(node, 'op', None)).__name__}", [one for one in targets if one is not None]
    parts = (kind, node) if isinstance(node, (ast.Assign, ast.Delete)) else (kind, *wanted, value)
    while wanted:
        target = wanted.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            wanted += target.elts
        elif isinstance(target, ast.Starred):
            wanted.append(target.value)
        else:
            yield Binding(".".join(_chain(target)), target.lineno, parts)


def _target(node: ast.AST) -> ast.expr | None:
    target = getattr(node, "target", None) or (node.name if type(node).__name__ == "TypeAlias" else None)  # type: ignore[attr-defined]
    return target if isinstance(target, ast.expr) else None


def _written(node: ast.Call | ast.Subscript) -> Iterator[Binding]:
    """Names that are texts or keywords where a namespace is written: `globals()["DEPTH"]`, `setattr(module, "DEPTH", 9)`, `update(DEPTH=9)`."""
    called = isinstance(node, ast.Call)
    links = _chain(node.func if isinstance(node, ast.Call) else node.value)
    if not NAMESPACES & {*links} and not (called and links and links[-1] in WRITERS):
        return
    said = [*node.args, *(word.value for word in node.keywords)] if isinstance(node, ast.Call) else [node.slice]
    inner = [part for one in said for part in ast.walk(one)]
    entries = {id(key): value for part in inner if isinstance(part, ast.Dict) for key, value in zip(part.keys, part.values, strict=True)}
    for part in inner:
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.isidentifier():
            yield Binding(part.value, part.lineno, ("text", entries.get(id(part), node)))


def _given(node: ast.AST) -> Iterator[Binding]:
    """`build(depth=9)` and `{"depth": 9}`; `depth=DEPTH` only hands the name on and gives it no meaning."""
    words: list[tuple[object, int, ast.expr]] = [(word.arg, word.lineno, word.value) for word in getattr(node, "keywords", [])]
    if isinstance(node, ast.Dict):
        words = [(key.value, key.lineno, value) for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)]
    for name, line, value in words:
        if isinstance(name, str) and [name.casefold()] != [one.casefold() for one in _chain(value)[-1:]]:
            yield Binding(name, line, ("given", value))


def _chain(node: ast.AST) -> list[str]:
    """The names of `a.b[0].c()`, first to last; of a longer chain the last ones."""
    found: list[str] = []
    for _ in range(LINKS):
        if isinstance(node, ast.Name):
            found.append(node.id)
            break
        if isinstance(node, ast.Attribute):
            found.append(node.attr)
        elif not isinstance(node, (ast.Subscript, ast.Call)):
            break
        node = node.func if isinstance(node, ast.Call) else node.value
    return found[::-1]


def _spelled(node: ast.AST, known: dict[int, str]) -> str:
    """Not `ast.dump`: that recurses, and what compiles may be nested deeper than that."""
    if id(node) not in known:
        known[id(node)] = " ".join(spelling(ast.Module([cast(ast.stmt, node)], [])))
    return known[id(node)]
