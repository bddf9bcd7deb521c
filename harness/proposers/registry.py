"""Proposers by name, as the command line and the journal know them."""

from __future__ import annotations

import difflib
from pathlib import Path

from harness.artifacts import durable
from harness.errors import UserFault
from harness.proposers.protocol import Proposer
from harness.proposers.scripted import Scripted
from harness.proposers.search import Search

NAMES = ("search", "scripted")
USES = {"search": {"seed"}, "scripted": {"edits"}}


def keep(proposer: Proposer, options: dict[str, str], path: Path) -> dict[str, str]:
    """The options to make the same proposer again after a restart: a list of edits is copied to `path`, for the original may change."""
    if not isinstance(proposer, Scripted):
        return options
    durable.replace(path, proposer.as_json().encode())
    return {**options, "edits": str(path)}


def check_options(name: str, options: dict[str, str]) -> None:
    """Refuse a flag that the proposer would ignore."""
    foreign = sorted(set(options) - USES.get(name, set(options)))
    if foreign:
        raise UserFault(f"--{foreign[0]} is not for the proposer {name!r}; name another one with --proposer, or leave it out")


def make(name: str, options: dict[str, str]) -> Proposer:
    """`search` takes `seed`, `scripted` takes `edits` (a file); anything else is a `UserFault` naming the nearest."""
    if name == "search":
        return Search(seed=int(options.get("seed", "0")))
    if name == "scripted":
        if not options.get("edits"):
            raise UserFault("the scripted proposer needs a list of edits; name its file with --edits")
        return Scripted.from_file(Path(options["edits"]))
    near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.0)[0]
    raise UserFault(f"no proposer {name!r}; did you mean {near!r}? There are: {', '.join(NAMES)}")
