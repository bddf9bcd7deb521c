"""What `[ban]` of program.md forbids a proposal: to turn an axis, to add a word, to import a module. Pure; raises `ProposalRefused` with reason `banned`.

It compares a proposal with its parent: what the parent has already may stay, and may be taken out. It reads text, so it holds a proposer to the
person's word: an axis' definition and every binding of its name are held, how it is used is not. Code that hides its names is contained by the sandbox.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from harness.errors import ProposalRefused
from harness.evaluation import bindings
from harness.graph import duplicates, near
from harness.oversight import Ban
from harness.trial import Proposal

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
    return next((entry for entry in ban.axes if _named(entry, axis)), None)


def word_in(ban: Ban, line: str) -> str | None:
    """The first banned word of a line, whatever its case; the parts of a name such as `use_dropout`, `dropoutRate` or `Dropout2d` are words."""
    plain = unicodedata.normalize("NFKC", line)
    said = f"{plain}\n{_apart(plain)}".casefold()
    return next((entry for entry in ban.words if re.search(_pattern(entry), said)), None)


def turns(ban: Ban, name: str, line: str) -> bool:
    """Whether an edit of the constant `name`, which is set in `line`, meets a ban."""
    return axis_named(ban, name) is not None or word_in(ban, line) is not None


def _check_axes(ban: Ban, path: str, before: str, text: str) -> None:
    if not ban.axes:
        return
    new = _tree(text)
    bound = [*bindings.bindings(_tree(before))], [*bindings.bindings(new)]
    changed = near.changed_symbols(before.removeprefix("\ufeff"), text.removeprefix("\ufeff")) - {"<module>"}
    for entry in ban.axes:
        symbols = [one for one in sorted(changed) if _named(entry, one)]
        had, has = ([one for one in places if _named(entry, one.name)] for places in bound)
        spelled: dict[int, str] = {}
        old_codes, codes = ([(one.name, one.code(spelled)) for one in places] for places in (had, has))
        known, now = Counter(old_codes), Counter(codes)
        more = now - known
        fresh = sorted((one for one, code in zip(has, codes, strict=True) if code in more), key=lambda one: one.line)
        if symbols or known != now:
            what = symbols[0] if symbols else (fresh[-1] if fresh else had[0]).name
            line = bindings.defined_at(new, what) if symbols else fresh[-1].line if fresh else None
            raise _refused("axes", entry, f"{path}{f':{line}' if line else ''} changes {what[:80]}")


def _check_words(ban: Ban, path: str, before: str, text: str) -> None:
    if not ban.words:
        return
    known = Counter(line.strip() for line in before.split("\n"))
    for number, line in enumerate(text.split("\n"), start=1):
        known[line.strip()] -= 1
        if known[line.strip()] < 0 and (found := word_in(ban, line)):
            raise _refused("words", found, f"{path}:{number} adds it")


def _check_imports(ban: Ban, parents: Mapping[str, str], after: Mapping[str, str]) -> None:
    for entry in ban.imports:
        had = [one for path in sorted(parents) for one in _met(entry, path, parents[path])]
        has = [one for path in sorted(after) for one in _met(entry, path, after[path])]
        more = Counter(one.name for one in has) - Counter(one.name for one in had)
        if more:
            lines, new = {one.text for one in had}, [one for one in has if one.name in more]
            met = next((one for one in new if one.text not in lines), new[-1])
            raise _refused("imports", entry, f"{met.place} {met.how} it")


class _Met(NamedTuple):
    """A module that a line imports or names where a name imports."""

    name: str
    how: str
    place: str
    text: str


def _met(entry: str, path: str, text: str) -> list[_Met]:
    """Where a text imports the module `entry` or one below it, in the order of its lines."""
    lines = text.split("\n")
    found = [(node.lineno, name, how) for node in ast.walk(_tree(text)) if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call, ast.Subscript))
             for name, how in _modules(node) if name == entry or name.startswith((f"{entry}.", f"{entry}:"))]  # fmt: skip
    return [_Met(name, how, f"{path}:{number}", lines[number - 1].strip()) for number, name, how in sorted(found)]


def _modules(node: ast.Import | ast.ImportFrom | ast.Call | ast.Subscript) -> Iterator[tuple[str, str]]:
    """What one statement imports, as dotted names, and every text that a call or a subscript is given: `sys.modules["os"]` needs no import."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, "imports") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from ((f"{node.module}.{alias.name}", "imports") for alias in node.names)
    else:
        called = node.func if isinstance(node, ast.Call) else None
        how = "imports" if getattr(called, "attr", getattr(called, "id", "")) in IMPORTERS else "names"
        said = [*node.args, *(word.value for word in node.keywords)] if isinstance(node, ast.Call) else [node.slice]
        yield from ((one.value, how) for one in said if isinstance(one, ast.Constant) and isinstance(one.value, str))


@lru_cache(maxsize=16)
def _tree(text: str) -> ast.Module:
    """To be read only."""
    try:
        return duplicates.parse(text.removeprefix("\ufeff"))
    except SyntaxError:
        return ast.Module([], [])


def _named(entry: str, name: str) -> bool:
    """Whether a name is the banned one or has it among its words, humps apart or not: of a symbol, a binding, a proposal's axis."""
    return any(one in other for one, other in zip(_words(entry), _words(name), strict=True))


@lru_cache(maxsize=16_384)
def _words(text: str) -> tuple[str, str]:
    """Letters and digits in one spelling, humps together and apart: `Weight-Decay`, `WEIGHT_DECAY` and `weight decay` are the same."""
    plain = unicodedata.normalize("NFKC", text)
    together, apart = (" ".join(re.findall(r"[^\W_]+", one.casefold())) for one in (plain, _apart(plain)))
    return f" {together} ", f" {apart} "


def _apart(text: str) -> str:
    """Names taken apart at the humps of their letters and where digits begin and end: `AlphaDropout2d` is `Alpha_Dropout_2_d`."""
    found = []
    for before, char, after in zip(f" {text}", text, f"{text[1:]} ", strict=False):
        hump = char.isupper() and (before.islower() or (before.isupper() and after.islower()))
        border = before.isalnum() and char.isalnum() and before.isdigit() != char.isdigit()
        found.append(f"_{char}" if hump or border else char)
    return "".join(found)


@lru_cache(maxsize=256)
def _pattern(entry: str) -> str:
    """An entry of several words is found in every spelling: `label smoothing` in `label_smoothing`, `label-smoothing` and `LabelSmoothing`.

    What stands before the first and after the last word belongs to it: `__import__` is not `import`.
    """
    head, body, tail = re.split(r"^([_-]*)(.*?)([_-]*)$", unicodedata.normalize("NFKC", entry.strip()), flags=re.DOTALL)[1:4]
    spelled = ("_?".join(map(re.escape, _apart(part).casefold().split("_"))) for part in re.split(r"[\s_-]+", body))
    return r"(?<![^\W_])" + re.escape(head) + r"(?:\s+|[_-])?".join(spelled) + re.escape(tail) + r"(?![^\W_])"


def _refused(key: str, entry: str, said: str) -> ProposalRefused:
    return ProposalRefused("banned", f"{said}, and [ban] {key} of program.md has {entry[:80]!r}; propose something else")
