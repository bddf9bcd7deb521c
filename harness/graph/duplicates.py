"""When are two files the same idea? A text is parsed, normalised and hashed, so that spelling alone never buys a second run.

Comments, layout, redundant parentheses and the values of seeds do not count, nor does what `harness.graph.normal` sees through.
Pure: texts in, facts out. What follows from a duplicate is the guard's business; the parts the proposers share (`parse`,
`assignments`, `respell`) are here because the guard reads a file the same way.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import io
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache

from harness.graph.normal import DOCUMENTED, normalise, spelling
from harness.graph.scopes import Binding
from harness.trial import Change

SEED_CALLS = frozenset({"manual_seed", "manual_seed_all", "seed", "default_rng", "Random"})


def change(parent_text: str, new_text: str, alone: bool = True) -> Change:
    """Lines of code added and removed, the SHA-256 of the new text's UTF-8 bytes and that of its normalised program. Never raises.

    Blank lines, comments and docstrings are no code: a shorter file must not be had by deleting what explains it.
    """
    added, removed = _changed_lines(_code_lines(parent_text), _code_lines(new_text))
    return Change(
        added_lines=added,
        removed_lines=removed,
        file_sha256=hashlib.sha256(_bytes(new_text)).hexdigest(),
        ast_sha256=fingerprint(new_text, True, alone),
    )


def change_all(parents: Mapping[str, str], texts: Mapping[str, str]) -> Change:
    """One `Change` for the whole scope: `texts` holds every editable file after the edit, `parents` those before it.

    With one file it is exactly `change`; with several the lines add up and the hashes are those of the list of paths and hashes.
    """
    changes = {path: change(parents.get(path, ""), texts[path], len(texts) == 1) for path in sorted(texts)}
    if len(changes) == 1:
        return next(iter(changes.values()))
    return Change(
        added_lines=sum(one.added_lines for one in changes.values()),
        removed_lines=sum(one.removed_lines for one in changes.values()),
        file_sha256=_listing({path: one.file_sha256 for path, one in changes.items()}),
        ast_sha256=_listing({path: one.ast_sha256 for path, one in changes.items()}),
    )


@lru_cache(maxsize=32)
def fingerprint(text: str, ignore_seeds: bool = True, alone: bool = True, /) -> str:
    """SHA-256 (hex) of the normalised program, or of the prefixed bytes of a text that does not parse.

    `alone`: no other file may be edited, so none can ask for this one's names. Given by place, so that its cache knows one call from another.
    """
    try:
        parse(text)
    except SyntaxError:
        return hashlib.sha256(b"unparsed\0" + _bytes(text)).hexdigest()
    tree = fresh(text)  # it is changed below
    if ignore_seeds:
        _blank_seeds(tree)
        _drop_seed_calls(tree)
    normalise(tree, alone)
    if ignore_seeds:
        _blank_seed_calls(tree)
    return hashlib.sha256(_bytes("\0".join(spelling(tree)))).hexdigest()


@lru_cache(maxsize=16)
def parse(text: str, name: str = "train.py") -> ast.Module:
    """The tree of a text that compiles, to be read only; `SyntaxError` for every reason why it does not, nesting too deep included."""
    try:
        tree = fresh(text, name)
        _compile(text, name)
    except (RecursionError, MemoryError):
        raise SyntaxError("nested too deeply to be parsed") from None
    except (ValueError, OverflowError) as error:
        raise SyntaxError(str(error)) from None
    return tree


def _compile(text: str, name: str) -> None:
    """Finds what the grammar allows, such as `return` outside a function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(text, name, "exec", dont_inherit=True)


def fresh(text: str, name: str = "<text>") -> ast.Module:
    """A tree to be changed, of a text or a part of one; raises as `ast.parse`, but `SyntaxError` for what is nested too deeply."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, name)
    except (RecursionError, MemoryError):
        raise SyntaxError("nested too deeply to be parsed") from None


def assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Name and value of every top-level `NAME = value` and `NAME: type = value`, in the order of the file."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            yield from ((target.id, statement.value) for target in statement.targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            yield statement.target.id, statement.value


def respell(text: str, node: ast.expr, spelling: str) -> str:
    """The text with exactly the source of `node` replaced; `node` comes from `parse(text)`, whose columns count UTF-8 bytes."""
    lines = [line.encode() for line in io.StringIO(text, newline="\n")]
    start, end = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head, tail = lines[start][: node.col_offset], lines[end][node.end_col_offset :]
    return b"".join([*lines[:start], head + spelling.encode() + tail, *lines[end + 1 :]]).decode()


def is_seed(name: str) -> bool:
    """Whether a name speaks of a seed, word by word: `SEED`, `data_seed`, not `SEEDLING_RATE`."""
    return not {"seed", "seeds"}.isdisjoint(re.split(r"[_\d]+", name.lower()))


def _code_lines(text: str) -> list[str]:
    told = _docstring_lines(text)
    lines = enumerate((line.strip("\n") for line in io.StringIO(text, newline="\n")), start=1)
    return [line for number, line in lines if line.strip() and not line.lstrip().startswith("#") and number not in told]


def _docstring_lines(text: str) -> set[int]:
    try:
        tree = parse(text)
    except SyntaxError:
        return set()
    documented = (node for node in ast.walk(tree) if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None)
    return {number for node in documented for number in range(node.body[0].lineno, (node.body[0].end_lineno or node.body[0].lineno) + 1)}


def _changed_lines(old: list[str], new: list[str]) -> tuple[int, int]:
    # Equal ends are cut off first: it is fast, and difflib ignores lines that are frequent in a long file.
    shared = min(len(old), len(new))
    head = next((i for i in range(shared) if old[i] != new[i]), shared)
    tail = next((i for i in range(shared - head) if old[-1 - i] != new[-1 - i]), shared - head)
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    kept = sum(block.size for block in difflib.SequenceMatcher(None, old, new).get_matching_blocks())
    return len(new) - kept, len(old) - kept


def _blank_seeds(tree: ast.Module) -> None:
    for statement in tree.body:
        named = [name for name, _ in assignments(ast.Module([statement], []))]
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and named and all(map(is_seed, named)):
            statement.value = ast.Constant(0)


def _blank_seed_calls(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in SEED_CALLS:
            node.args = [_blank(argument) for argument in node.args]
            for keyword in node.keywords:
                keyword.value = _blank(keyword.value)


def _drop_seed_calls(tree: ast.Module) -> None:
    """A statement that does nothing but seed a generator says nothing of the program, wherever it stands."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [one for one in body if not (isinstance(one, ast.Expr) and _seeds(one.value))]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]


def _seeds(value: ast.expr) -> bool:
    """`torch.manual_seed(…)`, `random.seed(…)`; not a function of the file's own that is called seed."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    owner = ast.unparse(value.func.value)
    return value.func.attr in ("manual_seed", "manual_seed_all") or (
        value.func.attr == "seed" and owner in ("random", "np.random", "numpy.random", "torch")
    )


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    name: object = call.func.id if isinstance(call.func, ast.Name) else ""
    return (name.imported.rpartition(".")[2] or name.name) if isinstance(name, Binding) else str(name)


def _blank(value: ast.expr) -> ast.expr:
    """The value with integer literals set to 0, in sums such as `setup.seed + 1` too."""
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return ast.Constant(0)
    if isinstance(value, ast.UnaryOp):
        inner = _blank(value.operand)
        return inner if isinstance(inner, ast.Constant) else ast.UnaryOp(value.op, inner)
    if isinstance(value, ast.BinOp):
        return ast.BinOp(_blank(value.left), value.op, _blank(value.right))
    return value


def _listing(hashes: Mapping[str, str]) -> str:
    return hashlib.sha256("".join(f"{path}\0{digest}\n" for path, digest in hashes.items()).encode()).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
