"""Which name means which thing? Every occurrence of a name in a tree is bound to one `Binding`, by Python's scoping rules.

What stays a plain text, because something outside the file or at run time may ask for it by that text: attributes, names in a class
body, names with two leading underscores, builtins. A `Binding` that is `fixed` keeps its name as well. Pure, and no recursion.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
CAPTURES = {ast.ExceptHandler: "name", ast.MatchAs: "name", ast.MatchStar: "name", ast.MatchMapping: "rest"}
NAMES = "names"
FORWARDING = frozenset({"partial", "partialmethod", "checkpoint", "vmap", "apply", "map", "submit", "Thread", "Process", "spawn"})


@dataclass(eq=False)
class Binding:
    """One variable, function, class or import. `origins` holds what each import of it names, and "" for every other store."""

    name: str
    fixed: bool = False
    stores: int = 0
    defined: bool = False  # by `def` or `class`
    origins: set[str] = field(default_factory=set)

    @property
    def imported(self) -> str:
        """What it names when it is an import and nothing else; otherwise empty."""
        return next(iter(self.origins)) if len(self.origins) == 1 else ""


@dataclass(eq=False)
class Scope:
    """A module, class, function or comprehension; `deferred` when its code runs later than it is read."""

    parent: Scope | None
    kind: str
    deferred: bool
    bound: dict[str, Binding] = field(default_factory=dict)
    elsewhere: dict[str, bool] = field(default_factory=dict)  # declared `global` (True) or `nonlocal` (False)


@dataclass(frozen=True)
class Site:
    """One occurrence of a name: the node and its field, where it is looked up, and the top-level statement it is in."""

    node: ast.AST
    field: str
    name: str
    scope: Scope
    top: int
    store: bool
    origin: str = ""


class Names:
    """All names of one module. Build it, then ask `of`, `uses`, `calling`; `write` puts the bindings into the tree."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(None, "module", False)
        self.sites: list[Site] = []
        self.calls: list[tuple[ast.Call, Scope]] = []
        self.declared: list[tuple[ast.Global | ast.Nonlocal, Scope]] = []
        self.parameters: list[tuple[Scope, str, bool]] = []
        self.calling: set[int] = set()  # top-level statements that call something while the module is read
        self._top = 0
        for self._top, statement in enumerate(tree.body):
            self._read(statement)
        self._bind()
        self.of = {(id(site.node), site.field): self.resolve(site.scope, site.name) for site in self.sites}
        self._keep_ambiguous()
        self._keep_spoken_parameters()

    def _read(self, statement: ast.stmt) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(statement, self.module)]
        while stack:
            node, scope = stack.pop()
            if isinstance(node, FUNCTIONS):
                stack += self._function(node, scope)
            elif isinstance(node, ast.ClassDef):
                stack += self._class(node, scope)
            elif isinstance(node, COMPREHENSIONS):
                stack += self._comprehension(node, scope)
            elif isinstance(node, ast.NamedExpr):
                self._site(node.target, "id", node.target.id, _statement_scope(scope), True)
                stack.append((node.value, scope))
            else:
                self._plain(node, scope)
                stack += [(child, scope) for child in ast.iter_child_nodes(node)]

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        inner = Scope(scope, "function", True)
        for one in _arguments(node.args):
            self._site(one, "arg", one.arg, inner, True)
            self.parameters.append((inner, one.arg, node.args.kwarg is not None))
            yield from ((note, scope) for note in [one.annotation] if note)
        yield from ((value, scope) for value in (*node.args.defaults, *node.args.kw_defaults) if value)
        if isinstance(node, ast.Lambda):
            yield node.body, inner
            return
        self._site(node, "name", node.name, scope, True)
        self._note_call(scope, bool(node.decorator_list))
        yield from ((part, scope) for part in (*node.decorator_list, node.returns) if part)
        yield from ((part, inner) for part in node.body)

    def _class(self, node: ast.ClassDef, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        self._site(node, "name", node.name, scope, True)
        self._note_call(scope, bool(node.decorator_list or node.keywords))
        yield from ((part, scope) for part in (*node.decorator_list, *node.bases, *node.keywords))
        inner = Scope(scope, "class", scope.deferred)
        yield from ((part, inner) for part in node.body)

    def _comprehension(self, node: ast.expr, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        inner = Scope(scope, "comprehension", scope.deferred)
        first = True
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.comprehension):
                yield child, inner
                continue
            yield child.iter, scope if first else inner
            yield child.target, inner
            yield from ((test, inner) for test in child.ifs)
            first = False

    def _plain(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Name):
            self._site(node, "id", node.id, scope, not isinstance(node.ctx, ast.Load))
        elif isinstance(node, ast.Call):
            self.calls.append((node, scope))
            self._note_call(scope, True)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                self._site(alias, "asname", local_name(node, alias), scope, True, origin(node, alias))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.declared.append((node, scope))
            scope.elsewhere.update(dict.fromkeys(node.names, isinstance(node, ast.Global)))
        elif type(node) in CAPTURES and getattr(node, CAPTURES[type(node)]):
            self._site(node, CAPTURES[type(node)], getattr(node, CAPTURES[type(node)]), scope, True)

    def _note_call(self, scope: Scope, called: bool) -> None:
        if called and not scope.deferred:
            self.calling.add(self._top)

    def _site(self, node: ast.AST, place: str, name: str, scope: Scope, store: bool, came_from: str = "") -> None:
        self.sites.append(Site(node, place, name, scope, self._top, store, came_from))

    def _bind(self) -> None:
        for site in self.sites:
            if site.store and site.scope.elsewhere.get(site.name) is not False:
                holder = self.module if site.scope.elsewhere.get(site.name) else site.scope
                binding = holder.bound.setdefault(site.name, Binding(site.name))
                binding.stores += 1
                binding.defined |= site.field == "name"
                binding.origins.add(site.origin)

    def resolve(self, scope: Scope, name: str) -> Binding | None:
        """What the name means there; nothing for builtins, names in a class body and names that Python may mangle."""
        if name.startswith("__"):
            return None
        if scope.elsewhere.get(name):
            return self.module.bound.get(name)
        if scope.kind == "class" and name in scope.bound:
            return None
        above: Scope | None = scope
        while above is not None:
            if above.kind != "class" and name in above.bound:
                return above.bound[name]
            above = above.parent
        return None

    def _keep_ambiguous(self) -> None:
        """A name that a class body both binds and reads may be the class's or one from outside: all of that name stay."""
        bare = {site.name for site in self.sites if site.scope.kind == "class" and site.name in site.scope.bound and not site.store}
        for site in self.sites:
            binding = self.of[id(site.node), site.field]
            if binding and site.name in bare:
                binding.fixed = True

    def _keep_spoken_parameters(self) -> None:
        spoken = {keyword.arg for call, scope in self.calls if not self._is_foreign(call, scope) for keyword in call.keywords}
        unknown = not spoken.isdisjoint({None, "kwargs"})
        for scope, name, open_ended in self.parameters:
            if open_ended or unknown or name in spoken:
                scope.bound[name].fixed = True

    def _is_foreign(self, call: ast.Call, scope: Scope) -> bool:
        """Whether the keywords of a call can be no parameter of this file: it calls what is imported, or a builtin."""
        root: ast.expr = call.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            return False
        known = self.resolve(scope, root.id)
        tail = call.func.attr if isinstance(call.func, ast.Attribute) else (known.imported if known else root.id).rpartition(".")[2]
        handed = (
            self.resolve(scope, one.id) for one in (*call.args, *(keyword.value for keyword in call.keywords)) if isinstance(one, ast.Name)
        )
        own = any(one.defined for one in handed if one)
        return (known is None or bool(known.imported)) and tail not in FORWARDING and not own

    def write(self) -> None:
        """Put the bindings into the tree in the place of the names."""
        for site in self.sites:
            binding = self.of[id(site.node), site.field]
            if binding is not None:
                setattr(site.node, site.field, binding)
        for node, scope in self.declared:
            setattr(node, NAMES, [self.resolve(scope, name) or name for name in node.names])


def local_name(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    """The name that an import binds."""
    return alias.asname or (alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name)


def origin(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    """What that name stands for, whatever it is called here."""
    if isinstance(node, ast.ImportFrom):
        return f"{'.' * node.level}{node.module or ''}:.{alias.name}"
    return alias.name if alias.asname else alias.name.partition(".")[0]


def _arguments(args: ast.arguments) -> list[ast.arg]:
    extra = [one for one in (args.vararg, args.kwarg) if one]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *extra]


def _statement_scope(scope: Scope) -> Scope:
    while scope.kind == "comprehension" and scope.parent is not None:
        scope = scope.parent
    return scope
