"""Bounded orders to repair a failed candidate, and whether a repair stayed inside one. Pure: texts in, tickets out.

Out of memory: the one constant that says how many rows are in memory at once is halved, in its literal alone; the rest of the file stays byte for byte, so the
candidate is the same experiment. A crash: what the candidate changed, and the function in which it broke, may be touched. A ticket that cannot be written down
is a `Hopeless` with the reason; then another path is taken.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NamedTuple

from harness.errors import RatchetError
from harness.followups import ErrorPacket, Ticket
from harness.graph import duplicates, near
from harness.oversight import Correction
from harness.trial import Change

MOST_SYMBOLS, MOST_CHARS = 40, 4000
Texts = Mapping[str, str]


class Hopeless(RatchetError):
    """No repair can be ordered; the message says why, in a clause."""


class Halving(NamedTuple):
    """A constant, where it stands, and its value before and after."""

    path: str
    name: str
    old: int
    new: int
    text: str

    @property
    def words(self) -> str:
        """`halve DEVICE_ROWS from 8 to 4`."""
        return f"halve {self.name} from {self.old} to {self.new}"


def halved(texts: Texts, name: str) -> Halving:
    """The repair of a lack of memory: the file that sets `name`, with half its value. Raises `Hopeless`."""
    found = [(path, node) for path in sorted(texts) for node in _stores(texts[path], path, name)]
    if not found:
        raise Hopeless(f"no file in scope sets the constant {name} ([correction] micro_batch)")
    if len(found) > 1 or found[0][1] is None:
        raise Hopeless(f"{name} is set more than once, or not at the top level, so that its literal does not decide")
    path, node = found[0]
    value = node.value if isinstance(node, ast.Constant) else None
    if node is None or type(value) is not int or value < 1:
        raise Hopeless(f"{name} is no plain positive whole number")
    if value == 1:
        raise Hopeless(f"{name} is 1 already")
    return Halving(path, name, value, value // 2, duplicates.respell(texts[path], node, str(value // 2)))


def _stores(text: str, path: str, name: str) -> list[ast.expr | None]:
    """The value of each place that binds a name; `None` for one that is no plain assignment at the top level."""
    try:
        tree = duplicates.parse(text, path)
    except SyntaxError:
        return []
    plain = [value for target, value in duplicates.assignments(tree) if target == name]
    bound = sum(_binds(node, name) for node in ast.walk(tree))
    return [*plain, *([None] * (bound - len(plain)))]


def _binds(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Global):
        return name in node.names
    said = (getattr(node, field, None) for field in ("arg", "name", "asname"))
    return isinstance(node, (ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.alias, ast.ExceptHandler)) and name in said


def constant(texts: Texts, name: str) -> int | None:
    """The plain whole number to which a name is bound, once and at top level; `None` otherwise."""
    found = [node for path in sorted(texts) for node in _stores(texts[path], path, name)]
    value = found[0].value if len(found) == 1 and isinstance(found[0], ast.Constant) else None
    return value if type(value) is int else None


def for_memory(trial: int, packet: ErrorPacket, texts: Texts, parents: Texts, law: Correction) -> Ticket:
    """The order for a candidate that ran out of memory; raises `Hopeless`."""
    one = halved(texts, law.micro_batch)
    _must_keep_the_batch(texts, one, law.total_batch)
    if {**texts, one.path: one.text} == {**texts, **parents}:
        raise Hopeless(f"to {one.words} only takes the candidate's own change back")
    return Ticket(
        trial=trial, failed_check=packet.failed_check, evidence=packet.evidence, scope=(f"{one.path}:{one.name}",), repair=one.words,
        postcondition="the job ends with a checkpoint within the memory, and is measured", packet=packet,
        unchanged=(f"the constant {law.total_batch}", f"every byte of the files but the literal of {one.name}", "the tokens trained"),
    )  # fmt: skip


def _must_keep_the_batch(texts: Texts, one: Halving, name: str) -> None:
    """Half as much in twice as many passes is the same batch only when nothing is left over and nothing else is computed from it; else `Hopeless`."""
    total = constant(texts, name)
    if total is None or total < 1:
        raise Hopeless(f"{name} ([correction] total_batch) is no plain positive whole number, so nobody can say that it stays")
    if one.old % 2 or total % one.old:
        raise Hopeless(f"{name} {total} is no multiple of {one.name} {one.old}, or that has no exact half, so the batch would change")
    for path in sorted(texts):
        for target, value in duplicates.assignments(duplicates.parse(texts[path], path)):
            if any(isinstance(node, ast.Name) and node.id == one.name for node in ast.walk(value)):
                raise Hopeless(f"{target} is computed from {one.name}, so more than the size of a pass would change")


def for_crash(
    trial: int, packet: ErrorPacket, texts: Texts, parents: Texts, own: frozenset[str], change: Change, law: Correction
) -> Ticket:
    """The order for a candidate that crashed: `own` is where its error arose. Raises `Hopeless`."""
    touched = {f"{path}:{name}" for path in texts for name in near.changed_symbols(parents.get(path, ""), texts[path])}
    scope = sorted(touched | own)
    if not scope:
        raise Hopeless("nothing tells which part of the candidate its error belongs to")
    if len(scope) > MOST_SYMBOLS or sum(map(len, scope)) > MOST_CHARS:
        raise Hopeless(f"the candidate changes {len(touched)} parts, too many to say which one is at fault")
    lines = change.added_lines + change.removed_lines
    structural = f"the candidate itself changes {lines} lines, so its repair may change as many" if lines > law.max_lines else ""
    return Ticket(
        trial=trial, failed_check=packet.failed_check, evidence=packet.evidence, scope=tuple(scope),
        repair=f"the smallest edit that removes the error, at most {max(law.max_lines, lines if structural else 0)} lines",
        postcondition="the error does not come again, and the trial ends with a measurement", packet=packet, structural_reason=structural,
        unchanged=("everything outside the scope, as the candidate has it", "load_model", "the tokens trained"),
    )  # fmt: skip


def within(ticket: Ticket, first: Ticket | None, before: Texts, texts: Texts) -> Ticket:
    """The order for a repair that failed, cut to the scope of the order that it carried out; `before`: the files that it repaired. Raises `Hopeless`."""
    if first is None:
        return ticket
    scope = tuple(symbol for symbol in ticket.scope if symbol in first.scope)
    if not scope or not _touched(before, texts) <= set(first.scope):
        raise Hopeless(f"a repair of a repair stays inside the scope of the first ({', '.join(first.scope[:6])}), and this one would not")
    return ticket.model_copy(update={"scope": scope})


def is_memory(ticket: Ticket) -> bool:
    """Whether the harness itself carries the order out."""
    return ticket.packet.error_type == "resource"


def outside(ticket: Ticket, failed: Texts, repaired: Texts, change: Change, law: Correction) -> str:
    """How a repair leaves its ticket's scope, as a clause; empty when it does not. `change`: what the failed candidate changed."""
    if dict(failed) == dict(repaired):
        return "it is the failed candidate again, byte for byte"
    if is_memory(ticket):
        return _outside_literal(failed, repaired, ticket.scope[0].rpartition(":")[2])
    stray = sorted(
        symbol for path in sorted({*failed, *repaired}) for symbol in _symbols(path, failed.get(path, ""), repaired.get(path, "")) if symbol not in ticket.scope
    )  # fmt: skip
    if stray:
        return f"it touches {', '.join(stray[:3])}, and the ticket allows {', '.join(ticket.scope[:6])}"
    size = duplicates.change_all(failed, repaired)
    lines = size.added_lines + size.removed_lines
    most = max(law.max_lines, change.added_lines + change.removed_lines) if ticket.structural_reason else law.max_lines
    return f"it changes {lines} lines, and the ticket allows {most} ([correction] max_lines)" if lines > most else ""


def _symbols(path: str, old: str, new: str) -> list[str]:
    if old == new:
        return []
    return [f"{path}:{name}" for name in near.changed_symbols(old, new)]


def _outside_literal(failed: Texts, repaired: Texts, name: str) -> str:
    try:
        one = halved(failed, name)
    except Hopeless as why:
        return str(why)
    return "" if dict(repaired) == {**failed, one.path: one.text} else f"it changes more than the literal of {one.name}"


def akin(parents: Texts, texts: Texts, other_parents: Texts, other: Texts) -> bool:
    """Whether two candidates changed the same parts: then the same error again says that this line does not get on."""
    return _touched(parents, texts) == _touched(other_parents, other)


def _touched(parents: Texts, texts: Texts) -> set[str]:
    return {symbol for path in texts for symbol in _symbols(path, parents.get(path, ""), texts[path])}
