"""A program without its disguise: the same tree for every text that trains the same for reasons a reader can check.

Seen through: docstrings, `pass`, bare constants as statements, `if True:` without `else`, f-strings without fields, arithmetic on
numeric literals, and what `harness.graph.toplevel` and `harness.graph.scopes` say of names, constants and imports. Everything else
counts, above all every order that floating point or random draws can feel. A file that looks at its own names or text (`NAMED`,
`ASKED`, `LOADED`) keeps all of them; one that is no script, or not the only one that may be edited, keeps those of its top level.
In doubt two programs are different. Pure, and no recursion: a deep tree is no trouble.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence

from harness.graph import toplevel
from harness.graph.scopes import Binding, Names

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.If, ast.For, ast.AsyncFor, ast.While)
PUBLIC = frozenset({"load_model"})  # asked for by name from outside, see prepare.py
GROWING = (ast.Mult, ast.Pow, ast.LShift)
LONGEST = 256  # bits of a whole number that folding may make
NAMED = frozenset(["eval", "exec", "globals", "locals", "vars", "dir", "compile", "__import__", "__file__", "__doc__", "__annotations__"])
ASKED = frozenset(
    [
        "__dict__",
        "__globals__",
        "__code__",
        "__name__",
        "__qualname__",
        "__module__",
        "__annotations__",
        "__defaults__",
        "__kwdefaults__",
        "__init_subclass__",
        "__subclasses__",
        "__doc__",
        "f_locals",
        "f_globals",
        "_getframe",
        "_get_name",
        "get_type_hints",
    ]
)
LOADED = frozenset(["*", "inspect", "importlib", "__main__", "pickle", "ast", "dis", "symtable", "linecache", "runpy", "builtins", "train"])
WORD = re.compile(r"\w+")
OPERATORS: dict[type[ast.AST], Callable[..., int | float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def normalise(tree: ast.Module, alone: bool) -> None:
    """Change a fresh tree in place. `alone`: no other file that may be edited can ask for this one's names."""
    _tidy(tree)
    toplevel.split_imports(tree)
    if _looks_at_itself(tree):
        rewrite(tree, fold)
        return
    names = Names(tree)
    closed = alone and _is_script(tree)
    for name, binding in names.module.bound.items():
        binding.fixed |= not closed or name in PUBLIC
    _keep_printed(tree, names)
    constants = toplevel.constants(tree, names, lambda value, rule: rewrite(ast.Expr(value), lambda node: fold(rule(node))))
    rewrite(tree, lambda node: fold(constants(node)))
    toplevel.arrange(tree, names)
    names.write()


def spelling(tree: ast.Module) -> Iterator[str]:
    """The tree as unambiguous tokens. Not `ast.dump`: that recurses, and prints other things in other Pythons."""
    stack: list[object] = [tree]
    numbers: dict[Binding, int] = {}
    while stack:
        item = stack.pop()
        if isinstance(item, _Token):
            yield item
        elif isinstance(item, ast.Constant):
            yield toplevel.literal(item)
        elif isinstance(item, ast.AST):
            yield f"{type(item).__name__}("
            fields = [(getattr(item, name, None), _Token(f"{name}=")) for name in reversed(item._fields) if name != "ctx"]
            stack += (CLOSE, *(part for field in fields if field[0] is not None and field[0] != [] for part in field))
        elif isinstance(item, list):
            stack += (_Token("]"), *reversed(item), _Token("["))
        elif isinstance(item, Binding):
            known = f"@{item.imported}" if item.imported else f"${numbers.setdefault(item, len(numbers))}"
            yield f"{known} {item.name if item.fixed else ''}"
        else:
            yield repr(item)


class _Token(str):
    """Punctuation of the spelling, told apart from names in the tree."""


CLOSE = _Token(")")


def rewrite(tree: ast.AST, rule: Callable[[ast.AST], ast.AST]) -> None:
    """Replace every node below `tree` by what the rule makes of it, the inner ones first."""
    for node in reversed(list(ast.walk(tree))):
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.expr):
                setattr(node, name, rule(value))
            elif isinstance(value, list):
                value[:] = [rule(one) if isinstance(one, ast.expr) else one for one in value]


def fold(node: ast.AST) -> ast.AST:
    """A literal for arithmetic on numeric literals, as Python itself works it out, and for an f-string without fields."""
    if isinstance(node, ast.JoinedStr):
        texts = [part.value for part in node.values if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        return ast.Constant("".join(texts)) if len(texts) == len(node.values) else node
    if isinstance(node, ast.UnaryOp):
        return _worked_out(node, node.op, node.operand)
    if isinstance(node, ast.BinOp):
        return _worked_out(node, node.op, node.left, node.right)
    return node


def _worked_out(node: ast.expr, kind: ast.AST, *parts: ast.expr) -> ast.expr:
    values = [part.value for part in parts if isinstance(part, ast.Constant) and type(part.value) in (int, float)]
    if len(values) < len(parts) or type(kind) not in OPERATORS or (isinstance(kind, GROWING) and not _is_small(kind, values)):
        return node
    try:
        result = OPERATORS[type(kind)](*values)
    except (ArithmeticError, ValueError, TypeError):
        return node
    return ast.Constant(result) if type(result) is int or (type(result) is float and math.isfinite(result)) else node


def _is_small(kind: ast.AST, values: Sequence[object]) -> bool:
    """Whether a product, power or shift of two whole numbers stays short; floats do by themselves."""
    left, right = values
    if not isinstance(left, int) or not isinstance(right, int):
        return not isinstance(left, int) or left.bit_length() <= LONGEST
    if isinstance(kind, ast.Mult):
        return left.bit_length() + right.bit_length() <= LONGEST
    return abs(right) <= LONGEST and left.bit_length() * max(abs(right), 1) <= LONGEST


def _tidy(tree: ast.Module) -> None:
    """Docstrings, statements that do nothing and wrappers that decide nothing leave every body."""
    for node in reversed(list(ast.walk(tree))):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                optional = name == "orelse" and isinstance(node, LOOPS)
                block[:] = _statements(block) or ([] if optional or isinstance(node, ast.Module) else [ast.Pass()])
        if isinstance(node, DOCUMENTED) and not node.body and not isinstance(node, ast.Module):
            node.body = [ast.Pass()]


def _statements(block: list[ast.stmt]) -> list[ast.stmt]:
    kept: list[ast.stmt] = []
    for statement in block:
        if isinstance(statement, ast.If) and not statement.orelse and _is_true(statement.test):
            kept += [one for one in statement.body if not isinstance(one, ast.Pass)]
        elif not isinstance(statement, ast.Pass) and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            kept.append(statement)
    return kept


def _is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and test.value is True


def _looks_at_itself(tree: ast.Module) -> bool:
    """Whether names or text of the file may matter to it as such, or bind in ways that are not followed here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in NAMED:
            return True
        if isinstance(node, ast.Attribute) and (node.attr in ASKED or _is_modules(node)):
            return True
        if isinstance(node, ast.Import) and any(
            alias.name.partition(".")[0] in LOADED or (alias.name == "sys" and alias.asname) for alias in node.names
        ):
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ".py" in node.value:
            return True
        if isinstance(node, ast.ImportFrom) and _is_telling(node):
            return True
        if getattr(node, "name", None) in ASKED or getattr(node, "type_params", None) or type(node).__name__ == "TypeAlias":
            return True
    return False


def _is_modules(node: ast.Attribute) -> bool:
    """`sys.modules`, and not the method of a model."""
    return node.attr == "modules" and isinstance(node.value, ast.Name) and node.value.id in ("sys", "_sys")


def _is_telling(node: ast.ImportFrom) -> bool:
    module = (node.module or "").partition(".")[0]
    return module in LOADED or any(alias.name in LOADED | ASKED or (module, alias.name) == ("sys", "modules") for alias in node.names)


def _keep_printed(tree: ast.Module, names: Names) -> None:
    """A class keeps its name where a text of the file speaks of it, and everywhere when types may be printed."""
    nodes = list(ast.walk(tree))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    words = {word for text in texts for word in WORD.findall(text)}
    printed = any(getattr(node, "id", "") in ("type", "repr") or _is_class_bound(getattr(node, "attr", "")) for node in nodes)
    for node in nodes:
        binding = names.of.get((id(node), "name")) if isinstance(node, ast.ClassDef) else None
        if binding and (printed or binding.name in words):
            binding.fixed = True


def _is_class_bound(attribute: str) -> bool:
    """`__class__`, and what Python puts the name of the class before."""
    return attribute == "__class__" or (attribute.startswith("__") and not attribute.endswith("__"))


def _is_script(tree: ast.Module) -> bool:
    """Whether the file has `if __name__ == "__main__":`, so that it is started and its names are its own."""
    tests = [statement.test for statement in tree.body if isinstance(statement, ast.If)]
    return any(isinstance(name, ast.Name) and name.id == "__name__" for test in tests for name in ast.walk(test))
