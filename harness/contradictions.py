"""Which two keys of the rules block cannot both hold, though each is valid alone. Pure: tables in, contradictions out; a rule with one is refused.

What is possible but hardly meant is a warning, and `control/lint.py` has those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from harness.tables import Tables

MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
ASKING = ("added_lines", "memory_percent", "symbols", "implausible")


class Contradiction(NamedTuple):
    """`said` is a sentence in which `{0}` and `{1}` stand for the keys, each a table and a name."""

    said: str
    keys: tuple[tuple[str, str], ...]


def find(tables: Tables) -> Iterator[Contradiction]:
    """All of them, in the order of the tables."""
    for part in (_scope, _metric, _trial, _ban, _correction, _stall, _review, _escalation, _money, _stop):
        yield from part(tables)


def asking(tables: Tables) -> str:
    """The first key of [review] that asks for reviews, or ''."""
    law = tables.review
    set_by = {name: getattr(law, name) for name in ASKING}
    return next((name for name, value in set_by.items() if value is not None and value is not False and value != ()), "")


def _scope(tables: Tables) -> Iterator[Contradiction]:
    editable, protected = ("scope", "editable"), ("scope", "protected")
    for path in tables.scope.editable:
        if path.startswith("/") or ".." in path.split("/") or PurePosixPath(path).as_posix() != path or path == ".":
            yield Contradiction(f"{{0}}: {_quoted(path)} must be a file below the project's folder, plainly written", (editable,))
        if any(path == one or (one.endswith("/") and path.startswith(one)) for one in tables.scope.protected):
            yield Contradiction(f"{_quoted(path)} is both in {{0}} and in {{1}}; take it out of one list", (editable, protected))
        if path == "prepare.py":
            yield Contradiction("{0} must not name prepare.py: it measures, and every job gets the study's own copy", (editable,))


def _metric(tables: Tables) -> Iterator[Contradiction]:
    band = ("metric", "plausible")
    low, high = tables.metric.plausible
    if low >= high:
        yield Contradiction("{0} must be [low, high] with low < high", (band,))
    if tables.stop.target is not None and low < high and not low < tables.stop.target < high:
        yield Contradiction("{0} lies outside {1}: a value that good is never believed", (("stop", "target"), band))


def _trial(tables: Tables) -> Iterator[Contradiction]:
    law, amount = tables.trial, ("trial", "amount")
    if law.clock != "tokens" and law.train_seconds < law.amount:
        yield Contradiction("{0} is shorter than {1}: every trial would time out", (("trial", "train_seconds"), amount))
    if law.clock == "tokens" and law.amount != int(law.amount):
        yield Contradiction("{0} must be a whole number of tokens, which {1} counts", (amount, ("trial", "clock")))


def _ban(tables: Tables) -> Iterator[Contradiction]:
    for name in ("axes", "words"):
        for entry in getattr(tables.ban, name):
            if not re.search(r"[^\W_]", entry):
                yield Contradiction(f"{{0}}: {_quoted(entry)} has no letter and no digit; name something", (("ban", name),))
    for entry in tables.ban.imports:
        if not MODULE.fullmatch(entry):
            yield Contradiction(
                f"{{0}}: {_quoted(entry)} is no name of a module; write it as in `ctypes` or `os.path`", (("ban", "imports"),)
            )


def _correction(tables: Tables) -> Iterator[Contradiction]:
    law = tables.correction
    if law.attempts and law.micro_batch == law.total_batch:
        keys = (("correction", "micro_batch"), ("correction", "total_batch"))
        yield Contradiction("{0} and {1} are the same constant: the first is halved in a repair, the second must stay", keys)


def _stall(tables: Tables) -> Iterator[Contradiction]:
    rungs = tables.stall.rungs
    if twice := next((rung for rung in rungs if rungs.count(rung) > 1), None):
        yield Contradiction(f"{{0}} names {_quoted(twice)} twice; each rung is climbed once", (("stall", "rungs"),))


def _review(tables: Tables) -> Iterator[Contradiction]:
    criteria = ("review", "criteria")
    asks = asking(tables)
    if asks and not tables.review.criteria:
        yield Contradiction("{0} asks for reviews, but {1} is empty: a reviewer needs something to judge by", (("review", asks), criteria))
    if any(not re.search(r"\w", one) for one in tables.review.criteria):
        yield Contradiction("{0} has an entry without a word; write what must hold, or take it out", (criteria,))


def _escalation(tables: Tables) -> Iterator[Contradiction]:
    quiet = tables.escalation.quiet
    if quiet is not None and quiet[0] == quiet[1]:
        yield Contradiction(f"{{0}} begins and ends at {quiet[0]}; write two different times, or leave it out", (("escalation", "quiet"),))


def _money(tables: Tables) -> Iterator[Contradiction]:
    call, whole = tables.proposer.call_dollars, tables.stop.dollars
    if call is not None and whole is not None and call > whole:
        said = "{0} is more than {1}, which is for the whole study: no call would ever be made"
        yield Contradiction(said, (("proposer", "call_dollars"), ("stop", "dollars")))


def _stop(tables: Tables) -> Iterator[Contradiction]:
    if not (tables.stop.trials or tables.stop.hours or tables.stop.deadline):
        yield Contradiction("[stop] needs at least one of trials, hours, deadline: a study must end by itself", (("stop", "trials"),))


def _quoted(text: str) -> str:
    """Foreign text inside a sentence that is a template."""
    return repr(text[:80]).replace("{", "{{").replace("}", "}}")
