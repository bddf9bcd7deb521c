"""What `[ban]` of program.md forbids a proposal: to turn an axis, to add a word, to import a module. Pure; raises `ProposalRefused` with reason `banned`.

It compares a proposal with its parent: what the parent has already may stay, and may be taken out. It reads text, so it holds a proposer to the
person's word; what code does that hides its names is contained by the sandbox.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import cast

from harness.errors import ProposalRefused
from harness.graph import duplicates, near
from harness.graph.normal import spelling
from harness.oversight import Ban
from harness.trial import Proposal

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTERS = ("__import__", "import_module")


def check(proposal: Proposal, ban: Ban, parents: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse what meets an entry; `parents` and `after` are the texts of all editable files. Every text of `after` compiles."""
    for path in sorted(after):
        before, text = parents.get(path, ""), after[path]
        if before != text:
            _check_axes(ban, path, before, text)
            _check_words(ban, path, before, text)
    _check_imports(ban, parents, after)
    if found := axis_named(ban, proposal.axis):
        raise _refused("axes", found, f"the proposal calls its axis {proposal.axis[:80]!r}")


def axis_named(ban: Ban, axis: str) -> str | None:
    """The banned axis that an axis' name is, or has among its words; `None` when there is none."""
    said = f" {_words(axis)} "
    return next((entry for entry in ban.axes if f" {_words(entry)} " in said), None)


def word_in(ban: Ban, line: str) -> str | None:
    """The first banned word of a line, whatever its case; the parts of a name such as `use_dropout` are words."""
    said = unicodedata.normalize("NFKC", line).casefold()
    return next((entry for entry in ban.words if re.search(_pattern(entry), said)), None)


def turns(ban: Ban, name: str, line: str) -> bool:
    """Whether an edit of the constant `name`, which is set in `line`, meets a ban."""
    return axis_named(ban, name) is not None or word_in(ban, line) is not None


def _check_axes(ban: Ban, path: str, before: str, text: str) -> None:
    if not ban.axes:
        return
    old, new = _tree(before), _tree(text)
    changed = near.changed_symbols(before.removeprefix("\ufeff"), text.removeprefix("\ufeff"))
    for entry in (one.strip() for one in ban.axes):
        banned = entry.casefold()
        symbols = [one for one in sorted(changed) if one.casefold() == banned or one.casefold().startswith(f"{banned}.")]
        bound = [Counter(code for _, code in _bindings(tree, entry)) for tree in (old, new)]
        hidden = bound[0] != bound[1] or _spelled(new, entry) > _spelled(old, entry)
        if symbols or hidden:
            what = symbols[0] if symbols else entry
            places = _bindings(new, what.split(".")[0])
            line = next((number for number, code in places if code not in bound[0]), places[0][0] if places else None)
            raise _refused("axes", entry, f"{path}{f':{line}' if line else ''} changes {what}")


def _check_words(ban: Ban, path: str, before: str, text: str) -> None:
    if not ban.words:
        return
    known = Counter(before.split("\n"))
    for number, line in enumerate(text.split("\n"), start=1):
        known[line] -= 1
        if known[line] < 0 and (found := word_in(ban, line)):
            raise _refused("words", found, f"{path}:{number} adds it")


def _check_imports(ban: Ban, parents: Mapping[str, str], after: Mapping[str, str]) -> None:
    for entry in ban.imports:
        had = [line for text in parents.values() for _, line in _met(entry, text)]
        has = [(f"{path}:{number}", line) for path in sorted(after) for number, line in _met(entry, after[path])]
        if len(has) > len(had):
            place = next((place for place, line in has if line not in had), has[-1][0])
            raise _refused("imports", entry, f"{place} imports it")


def _met(entry: str, text: str) -> list[tuple[int, str]]:
    """The lines on which a text imports the module `entry` or one below it, with their numbers."""
    lines = text.split("\n")
    found = [node.lineno for node in ast.walk(_tree(text)) if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call))
             and any(name == entry or name.startswith(f"{entry}.") for name in _modules(node))]  # fmt: skip
    return [(number, lines[number - 1].strip()) for number in sorted(found)]


def _modules(node: ast.Import | ast.ImportFrom | ast.Call) -> Iterator[str]:
    """What one statement or call imports, as dotted names; of a name that is computed nothing is known."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (part for alias in node.names for part in (node.module or "", f"{node.module}.{alias.name}"))
    elif getattr(node.func, "attr", getattr(node.func, "id", "")) in IMPORTERS:
        said = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "name")]
        yield from (one.value for one in said if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _bindings(tree: ast.Module, name: str) -> list[tuple[int, str]]:
    """Wherever a statement gives `name` a meaning, at any depth: its line, and the code that does; of a top-level definition `near` knows better."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        own = [child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.expr, ast.withitem, ast.alias))]
        if isinstance(node, DEFINITIONS) and node.name == name:
            found.append((node.lineno, "" if node in tree.body else _code(node)))
        elif name in {*_stored(own), *(getattr(node, "names", ()) if isinstance(node, (ast.Global, ast.Nonlocal)) else ())}:
            found.append((node.lineno, f"{type(node).__name__} {[_code(part) for part in own]}"))
    return sorted(found)


def _code(node: ast.AST) -> str:
    """The code of a node in one spelling; `ast.dump` would recurse, and what compiles may be nested deeper than that."""
    return " ".join(spelling(ast.Module([cast(ast.stmt, node)], [])))


def _stored(own: Sequence[ast.AST]) -> Iterator[str]:
    for part in (inner for one in own for inner in ast.walk(one)):
        if isinstance(part, ast.alias):
            yield part.asname or part.name
        elif isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            yield part.id


def _spelled(tree: ast.Module, name: str) -> int:
    """How often a text is just that name, as in `globals()["DEPTH"]`."""
    return sum(isinstance(node, ast.Constant) and node.value == name for node in ast.walk(tree))


@lru_cache(maxsize=16)
def _tree(text: str) -> ast.Module:
    """To be read only."""
    try:
        return duplicates.parse(text.removeprefix("\ufeff"))
    except SyntaxError:
        return ast.Module([], [])


def _words(text: str) -> str:
    """Letters and digits in one spelling: `Weight-Decay`, `WEIGHT_DECAY` and `weight decay` are the same."""
    return " ".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold()))


def _pattern(entry: str) -> str:
    return rf"(?<![^\W_]){re.escape(unicodedata.normalize('NFKC', entry.strip()).casefold())}(?![^\W_])"


def _refused(key: str, entry: str, said: str) -> ProposalRefused:
    return ProposalRefused("banned", f"{said}, and [ban] {key} of program.md has {entry[:80]!r}; propose something else")
