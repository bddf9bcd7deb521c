"""The top level of a program: constants stand where they are used, unused helpers and imports go, and free orders are settled.

A constant is a name bound once, at the top level, to a literal number, text, truth value or a tuple of them (arithmetic included),
before anything can read it. Functions, classes and all that is run stay where they are; only imports and assignments of values that
are merely written down are sorted, and only within a run of such statements.
"""

from __future__ import annotations

import ast
import heapq
import itertools
import sys
from collections.abc import Callable, Iterator

from harness.graph.scopes import Binding, Names, origin

Rule = Callable[[ast.AST], ast.AST]
HARMLESS = (sys.stdlib_module_names | {"torch", "numpy", "prepare"}) - {"__future__", "this", "antigravity", "readline", "sitecustomize"}
LONGEST = 64  # parts of a tuple that stands where its name is used
WRITTEN = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Name, ast.Attribute, ast.expr_context)


def literal(node: ast.Constant) -> str:
    """Type and value; whole numbers in base 16, since Python refuses to print long ones in base 10."""
    return f"{type(node.value).__name__} {hex(node.value) if isinstance(node.value, int) else repr(node.value)}"


def split_imports(tree: ast.Module) -> None:
    """One statement for each imported name, at the top level."""
    body: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            body += [ast.Import([alias]) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            body += [ast.ImportFrom(statement.module, [alias], statement.level) for alias in statement.names]
        else:
            body.append(statement)
    tree.body = body


def constants(tree: ast.Module, names: Names, rewrite: Callable[[ast.expr, Rule], None]) -> Rule:
    """The rule that puts a constant's value in the place of its name; `rewrite` applies a rule to everything inside an expression."""
    first_read = _first_reads(tree, names)
    values: dict[Binding, ast.expr] = {}

    def rule(node: ast.AST) -> ast.AST:
        binding = names.of.get((id(node), "id")) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else None
        return values.get(binding, node) if binding else node

    for place, statement in enumerate(tree.body):
        target, value = assigned(statement)
        binding = names.of.get((id(target), "id")) if target else None
        if binding is None or value is None or binding.stores != 1 or place >= first_read.get(binding, len(tree.body)):
            continue
        holder = ast.Tuple([value], ast.Load())
        rewrite(holder, rule)
        if _is_literal(holder.elts[0]):
            values[binding] = holder.elts[0]
    return rule


def assigned(statement: ast.stmt) -> tuple[ast.Name | None, ast.expr | None]:
    """Name and value of `NAME = value`, also with a type that is merely written down."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0], statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and _calls_nothing(statement.annotation):
        return statement.target, statement.value
    return None, None


def _first_reads(tree: ast.Module, names: Names) -> dict[Binding, int]:
    """For every name of the module the first statement that may read it: one that does so at once, or one that runs the file's code."""
    own: dict[Binding, int] = {}
    plain = set(_plain(tree, names))
    running = len(tree.body)
    for site in names.sites:
        binding = names.of[id(site.node), site.field]
        if site.store or site.scope.deferred or binding is None or binding is not names.module.bound.get(binding.name):
            continue
        own[binding] = min(site.top, own.get(binding, site.top))
        if site.top in names.calling and not binding.imported and binding not in plain:
            running = min(running, site.top)
    return {binding: min(running, own.get(binding, running)) for binding in names.module.bound.values()}


def _plain(tree: ast.Module, names: Names) -> Iterator[Binding]:
    """The names that are bound once, to something that is merely written down, so that reading them runs nothing."""
    for target, value in map(assigned, tree.body):
        binding = names.of.get((id(target), "id")) if target else None
        if binding and value and binding.stores == 1 and _is_literal(value):
            yield binding


def _is_literal(value: ast.expr) -> bool:
    """A constant or a short tuple: a tuple of tuples of tuples may grow beyond all bounds where its names are replaced."""
    parts = list(itertools.islice(ast.walk(value), LONGEST + 1))
    return len(parts) <= LONGEST and all(isinstance(one, (ast.Constant, ast.Tuple, ast.expr_context)) for one in parts)


def _calls_nothing(node: ast.AST) -> bool:
    return not any(isinstance(one, (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for one in ast.walk(node))


def arrange(tree: ast.Module, names: Names) -> None:
    """Drop what is not used, settle the order of what has none."""
    kept = _kept(tree, names)
    body: list[ast.stmt] = []
    run: list[ast.stmt] = []
    for place, statement in enumerate(tree.body):
        if place not in kept:
            continue
        if _is_movable(statement, names):
            run.append(statement)
        else:
            body += [*_settled(run, names), statement]
            run = []
    tree.body = [*body, *_settled(run, names)]


def _kept(tree: ast.Module, names: Names) -> set[int]:
    """The places of the statements that run, or that bind a name which one of the kept uses; constants in their places are no use."""
    uses: dict[int, set[Binding]] = {}
    binds: dict[Binding, list[int]] = {}
    live = {id(node) for node in ast.walk(tree)}
    for site in names.sites:
        binding = names.of[id(site.node), site.field]
        if binding is None or id(site.node) not in live:
            continue
        if site.store and binding is names.module.bound.get(binding.name):
            binds.setdefault(binding, []).append(site.top)
        if not site.store:
            uses.setdefault(site.top, set()).add(binding)
    kept: set[int] = set()
    todo = [place for place, statement in enumerate(tree.body) if not _is_droppable(statement, names)]
    while todo:
        place = todo.pop()
        if place not in kept:
            kept.add(place)
            todo += [one for binding in uses.get(place, ()) for one in binds.get(binding, ())]
    return kept


def _is_droppable(statement: ast.stmt, names: Names) -> bool:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        module = statement.names[0].name if isinstance(statement, ast.Import) else statement.module or "."
        return _is_movable(statement, names) and module.partition(".")[0] in HARMLESS and not _binding(statement, names).fixed
    if isinstance(statement, ast.FunctionDef):
        binding = _binding(statement, names)
        return binding.stores == 1 and not binding.fixed and _defines_only(statement)
    return _is_movable(statement, names) and not _binding(statement, names).fixed


def _defines_only(function: ast.FunctionDef) -> bool:
    parts: list[ast.AST] = [function.args, *([function.returns] if function.returns else [])]
    return not function.decorator_list and all(map(_calls_nothing, parts))


def _binding(statement: ast.stmt, names: Names) -> Binding:
    """What a movable statement or a function binds; a fixed one where that is nothing that can be renamed."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        found = names.of[id(statement.names[0]), "asname"]
    elif isinstance(statement, ast.FunctionDef):
        found = names.of[id(statement), "name"]
    else:
        found = names.of[id(assigned(statement)[0]), "id"]
    return found or Binding("", fixed=True)


def _is_movable(statement: ast.stmt, names: Names) -> bool:
    """Whether nothing but the binding of a name comes of the statement: an import, or a value that is merely written down."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return bool(_binding(statement, names).imported) and getattr(statement, "module", "") != "__future__"
    target, value = assigned(statement)
    if target is None or value is None or _binding(statement, names).stores != 1:
        return False
    return all(isinstance(one, WRITTEN) and _is_still(one, names) for one in ast.walk(value))


def _is_still(node: ast.AST, names: Names) -> bool:
    """Whether reading it runs nothing of this file: an attribute counts as that only when it is an import's."""
    if not isinstance(node, ast.Attribute):
        return True
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    binding = names.of.get((id(root), "id"))
    return bool(binding and binding.imported)


def _settled(run: list[ast.stmt], names: Names) -> list[ast.stmt]:
    """Imports first, each once, by what they import; then assignments by what is assigned, each after those it needs."""
    imports = {_key(one, {}, names): one for one in run if isinstance(one, (ast.Import, ast.ImportFrom))}
    waiting = {_binding(one, names): one for one in run if not isinstance(one, (ast.Import, ast.ImportFrom))}
    settled: list[ast.stmt] = [imports[key] for key in sorted(imports)]
    needs = {binding: {one for one in _needs(statement, names) if one in waiting} for binding, statement in waiting.items()}
    needed_by: dict[Binding, list[Binding]] = {}
    for binding, others in needs.items():
        for other in others:
            needed_by.setdefault(other, []).append(binding)
    placed: dict[Binding, int] = {}
    places = {binding: place for place, binding in enumerate(waiting)}
    ready = [(_key(waiting[one], placed, names), places[one], one) for one in waiting if not needs[one]]
    heapq.heapify(ready)
    while ready:
        binding = heapq.heappop(ready)[2]
        placed[binding] = len(placed)
        for one in needed_by.get(binding, ()):
            needs[one].discard(binding)
            if not needs[one]:
                heapq.heappush(ready, (_key(waiting[one], placed, names), places[one], one))
    return settled + [waiting[one] for one in (*placed, *(one for one in waiting if one not in placed))]


def _needs(statement: ast.stmt, names: Names) -> Iterator[Binding]:
    value = assigned(statement)[1]
    found = (names.of.get((id(one), "id")) for one in ast.walk(value or ast.Pass()) if isinstance(one, ast.Name))
    return (one for one in found if one)


def _key(statement: ast.stmt, placed: dict[Binding, int], names: Names) -> str:
    """What a statement says, without names that may be exchanged; a fixed name first."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        alias, binding = statement.names[0], _binding(statement, names)
        return f"{origin(statement, alias)} {alias.name} {binding.name if binding.fixed else ''}"
    parts = []
    for one in ast.walk(assigned(statement)[1] or ast.Pass()):
        binding_of = names.of.get((id(one), "id")) if isinstance(one, ast.Name) else None
        said = (binding_of.imported or placed.get(binding_of, binding_of.name if binding_of.fixed else "")) if binding_of else ""
        value = literal(one) if isinstance(one, ast.Constant) else getattr(one, "attr", "")
        parts.append(f"{type(one).__name__} {said} {value}")
    binding = _binding(statement, names)
    return f"{binding.name if binding.fixed else ''} {parts}"
