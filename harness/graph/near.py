"""Is a text nearly the experiment that another one was, both being edits of one parent? Pure: texts in, facts out.

Two edits are near when they touch the same symbols and what they leave differs in numbers only, by so little that one night cannot tell.
Comments, docstrings, layout and names of locals do not count; a different name, operator, text or order does, however similar the rest. A share
of equal tokens decides nothing, since one flipped sign in a function of `train.py` leaves 99 % of them. In doubt two edits are different.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from functools import lru_cache
from typing import NamedTuple

from harness.graph.duplicates import fresh, parse
from harness.graph.normal import normalise, spelling

CLOSE = 0.02  # largest relative difference of two numbers that are near
CLOSE_TO_1 = 0.05  # and of their distances from 1, where one of them is at most 1
LARGE = 1000  # whole numbers below are counts
TOLD = 3  # pairs of numbers that are named
LONGEST = 200  # characters of what is told
SHORT = 128  # bits of a whole number that is told in full
MODULE = "<module>"
NUMBER = re.compile(r"(int|float) (.*)")  # as `toplevel.literal` spells it; no other token of a spelling begins so

Outline = tuple[tuple[str, str], ...]
Spelled = dict[str, tuple[str, ...]]
Pair = tuple[str, str, str]


class Near(NamedTuple):
    """What both edits change, 1 minus the largest relative difference of two numbers, and the numbers: `WARMDOWN 0.7 against 0.705`."""

    symbols: tuple[str, ...]
    similarity: float
    words: str


def near(parent: str, earlier: str, text: str) -> Near | None:
    """What makes `text` nearly the same edit of `parent` as `earlier` was; `None` when it is another one or does not parse.

    Symmetric in the two but for the order in the words: the earlier number comes first.
    """
    if parent in (earlier, text):
        return None
    try:
        pairs = _pairs(earlier, text)
        if pairs is None:
            return None
        symbols = _changed(parent, text)
        if not symbols or symbols != _changed(parent, earlier):
            return None
    except SyntaxError:
        return None
    return Near(tuple(sorted(symbols)), 1 - max((_distance(old, new) for _, old, new in pairs), default=0.0), _words(pairs))


def changed_symbols(parent: str, text: str) -> frozenset[str]:
    """The top-level names, methods as `Class.method`, whose code differs, is new or is gone; other statements are `<module>`.

    Comments, docstrings, layout, names of locals and the order of definitions are no change. Empty when a text does not parse.
    """
    try:
        return _changed(parent, text)
    except SyntaxError:
        return frozenset()


def _pairs(earlier: str, text: str) -> list[Pair] | None:
    """Symbol and both numbers wherever the texts differ; nothing when they differ in more than near numbers."""
    outlines = _outline(earlier), _outline(text)
    if len(outlines[0]) != len(outlines[1]):
        return None
    pairs: list[Pair] = []
    for (old_name, old_code), (new_name, new_code) in zip(*outlines, strict=True):
        if old_name != new_name:
            return None
        if old_code != new_code:
            found = _differing(_symbols(old_name, old_code), _symbols(new_name, new_code))
            if found is None:
                return None
            pairs += found
    return pairs


def _differing(old: Spelled, new: Spelled) -> list[Pair] | None:
    if list(old) != list(new) or any(len(old[symbol]) != len(new[symbol]) for symbol in old):
        return None
    pairs = [(symbol, one, other) for symbol in old for one, other in zip(old[symbol], new[symbol], strict=True) if one != other]
    return pairs if all(_distance(one, other) <= CLOSE for _, one, other in pairs) else None


def _distance(one: str, other: str) -> float:
    """Relative difference of two numbers of a spelling; infinite where no small number can say how different they are."""
    old, new = NUMBER.fullmatch(one), NUMBER.fullmatch(other)
    if not old or not new or old[1] != new[1]:
        return math.inf
    return _apart_whole(int(old[2], 16), int(new[2], 16)) if old[1] == "int" else _apart_floats(float(old[2]), float(new[2]))


def _apart_whole(one: int, other: int) -> float:
    """Small counts mean what they say, and so do multiples of 8, 64 or 128, which decide how fast a shape is."""
    same_shape = one & -one == other & -other and min(abs(one), abs(other)) >= LARGE
    return _apart(one, other) if same_shape or one == other else math.inf


def _apart_floats(one: float, other: float) -> float:
    """Decays, momenta and shares act through their distance from 1 too: 0.99 and 0.999 are a hundred steps of memory and a thousand."""
    shares = 0 < min(one, other) <= 1
    return math.inf if shares and _apart(1 - one, 1 - other) > CLOSE_TO_1 else _apart(one, other)


def _apart(one: float, other: float) -> float:
    if one == other:
        return 0.0
    if (one > 0) != (other > 0) or math.inf in (abs(one), abs(other)):
        return math.inf
    return abs(one - other) / max(abs(one), abs(other))


def _words(pairs: list[Pair]) -> str:
    if not pairs:
        return "the same code"
    told = [f"{symbol} {_told(one)} against {_told(other)}" for symbol, one, other in pairs[:TOLD]]
    more = len(pairs) - TOLD
    return ", ".join(told)[:LONGEST] + (f" and {more} more" if more > 0 else "")


def _told(token: str) -> str:
    kind, _, value = token.partition(" ")
    if kind != "int":
        return value
    number = int(value, 16)
    return str(number) if number.bit_length() <= SHORT else f"{value[:20]}..."


def _changed(parent: str, text: str) -> frozenset[str]:
    before, after = _by_name(parent), _by_name(text)
    touched = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    changed: set[str] = set()
    for name in touched:
        old, new = _joined(name, before.get(name, ())), _joined(name, after.get(name, ()))
        changed |= {symbol for symbol in old.keys() | new.keys() if old.get(symbol) != new.get(symbol)}
    return frozenset(changed)


def _joined(name: str, codes: tuple[str, ...]) -> Spelled:
    joined: Spelled = {}
    for code in codes:
        for symbol, spelled in _symbols(name, code).items():
            joined[symbol] = (*joined[symbol], *spelled) if symbol in joined else spelled
    return joined


@lru_cache(maxsize=512)
def _by_name(text: str) -> dict[str, tuple[str, ...]]:
    """The code of every top-level name, all its statements in their order."""
    found: dict[str, list[str]] = {}
    for name, code in _outline(text):
        found.setdefault(name, []).append(code)
    return {name: tuple(codes) for name, codes in found.items()}


@lru_cache(maxsize=512)
def _outline(text: str) -> Outline:
    """Name and source of every top-level statement in the order of the file; one that binds two names is there twice."""
    if "\r" in text or text.startswith("\ufeff"):  # the columns of the tree would count other bytes than ours
        raise SyntaxError("line ends or a byte-order mark of another system")
    tree = parse(text)
    lines = text.encode().split(b"\n")
    # Most statements are those of the parent: interned, a night of texts takes the memory of its edits.
    return tuple((name, sys.intern(_source(lines, one))) for one in tree.body if not _is_idle(one) for name in _names(one))


def _is_idle(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        targets = [statement.target]
    else:
        return [MODULE]
    parts = [part for target in targets for part in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    return list(dict.fromkeys(names)) if names and len(names) == len(parts) else [MODULE]


def _source(lines: list[bytes], statement: ast.stmt) -> str:
    decorators = getattr(statement, "decorator_list", [])
    start, column = (decorators[0].lineno - 1, 0) if decorators else (statement.lineno - 1, statement.col_offset)
    end = (statement.end_lineno or statement.lineno) - 1
    taken = lines[start : end + 1]
    taken[-1] = taken[-1][: statement.end_col_offset]
    taken[0] = taken[0][column:]
    return b"\n".join(taken).decode()


def _symbols(name: str, code: str) -> Spelled:
    """The tokens of one top-level statement that binds `name`; of a class those of each method apart. To be read only."""
    whole, *methods = _spelled(code).items()
    return {name: whole[1], **{f"{name}.{method}": tokens for method, tokens in methods}}


@lru_cache(maxsize=2048)
def _spelled(code: str) -> Spelled:
    """The tokens of one top-level statement under '', read once whatever number of names it binds; of a class those of each method apart, by its name."""
    tree = fresh(code)
    normalise(tree, alone=False)  # not alone: the names of the top level stay
    owner = tree.body[0] if tree.body else None
    if not isinstance(owner, ast.ClassDef):
        return {"": _tokens(tree)}
    rest: list[ast.stmt] = []
    spelled: Spelled = {"": ()}
    for one in owner.body:
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            spelled[one.name] = (*spelled.get(one.name, ()), *_tokens(ast.Module([one], [])))
            one = ast.Pass()  # so that a statement's place before or after the methods counts, but not their number
        if not (rest and isinstance(one, ast.Pass) and isinstance(rest[-1], ast.Pass)):
            rest.append(one)
    owner.body = rest
    return {**spelled, "": _tokens(tree)}


def _tokens(tree: ast.Module) -> tuple[str, ...]:
    return tuple(sys.intern(str(token)) for token in spelling(tree))
