"""Proposers by name, as the command line and the journal know them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts import durable
from harness.artifacts.trial_dir import StudyDir
from harness.errors import UserFault
from harness.proposers import agents
from harness.proposers.command import Command
from harness.proposers.protocol import Proposer
from harness.proposers.scripted import Scripted
from harness.proposers.search import Search
from harness.rules import Rules

NAMES = ("search", "scripted", "command")
USES: dict[str, set[str]] = {"search": {"seed"}, "scripted": {"edits"}, "command": set()}


@dataclass(frozen=True)
class Setting:
    """What a proposer may need of the study it works for."""

    rules: Rules
    folder: StudyDir
    interrupted: Callable[[], str]


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


def make(name: str, options: dict[str, str], setting: Setting) -> Proposer:
    """`search` takes `seed`, `scripted` takes `edits` (a file), `command` is set up by the rules; anything else is a `UserFault` naming the nearest."""
    if name == "search":
        return Search(seed=int(options.get("seed", "0")))
    if name == "scripted":
        if not options.get("edits"):
            raise UserFault("the scripted proposer needs a list of edits; name its file with --edits")
        return Scripted.from_file(Path(options["edits"]))
    if name == "command":
        return _command(setting)
    near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.0)[0]
    raise UserFault(f"no proposer {name!r}; did you mean {near!r}? There are: {', '.join(NAMES)}")


def _command(setting: Setting) -> Command:
    law = setting.rules.proposer
    template = law.command or agents.default_template(law.adapter, setting.rules.scope.editable)
    if not template:
        raise UserFault("the command proposer needs [proposer] command or a known adapter in program.md; docs/proposers.md shows both")
    missing = [name for name in law.keys if name not in os.environ]
    if missing:
        raise UserFault(f"[proposer] keys names {missing[0]}, which is not in the environment; export it or take it out of the list")
    return Command(
        template=tuple(template), adapter=law.adapter, folder=setting.folder.agents, wall_seconds=law.wall_seconds,
        silence_seconds=law.silence_seconds, output_cap_kb=law.output_kb, environment={name: os.environ[name] for name in law.keys},
        interrupted=setting.interrupted, prompt=lambda briefing: briefing.prompt,
    )  # fmt: skip
