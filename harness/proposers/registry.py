"""Proposers by name, as the command line, program.md and the journal know them."""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts import durable
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.errors import UserFault
from harness.execution.clock import Clock
from harness.proposers import account, agents, own, reviewer
from harness.proposers.anthropic import Anthropic
from harness.proposers.climbing import Climbing
from harness.proposers.command import Command
from harness.proposers.metering import Meter
from harness.proposers.protocol import Proposer
from harness.proposers.scripted import Scripted
from harness.rules import Rules
from harness.trial import Change, Proposal

NAMES = ("search", "scripted", "command", "anthropic")
MIX = "mix"
USES: dict[str, set[str]] = {"search": {"seed"}, "scripted": {"edits"}, "command": set(), "anthropic": set()}
STANDS_IN = {"seed"}  # for `search`, which also takes the place of a model that is away


@dataclass(frozen=True)
class Setting:
    """What a proposer may need of the study it works for. `check` says whether a proposal would be admitted."""

    rules: Rules
    folder: StudyDir
    interrupted: Callable[[], str]
    meter: Meter
    study: Callable[[], Study]
    check: Callable[[Proposal], Change]
    clock: Clock


def named(rules: Rules, wished: str | None = None) -> str:
    """The proposer that the command line names, one of the person's own with the whole path of its file; else program.md's."""
    if wished == MIX and not rules.proposer.mix:
        raise UserFault("--proposer mix needs [proposer] mix in program.md, such as mix = { search = 0.7, anthropic = 0.3 }")
    if wished in (None, MIX):
        return MIX if rules.proposer.mix else rules.proposer.kind
    path, _, attribute = str(wished).rpartition(":")
    return f"{Path(path).resolve()}:{attribute}" if own.NAME.search(str(wished)) else str(wished)


def keep(name: str, options: Mapping[str, str], path: Path) -> dict[str, str]:
    """The options to make the same proposer again after a restart: a list of edits is copied to `path`, for the original may change."""
    if name != "scripted":
        return dict(options)
    durable.replace(path, _scripted(options).as_json().encode())
    return {**options, "edits": str(path)}


def check(name: str, options: Mapping[str, str], rules: Rules, limited: Collection[str]) -> None:
    """Refuse, before anything is spent, a name that is none, a flag that would be ignored, and settings that cannot work: a `UserFault`. `limited` names
    the limits of [stop] that are set. Also when a rule asks for reviews and none could be made.
    """
    _check(name, options, rules, limited)
    check_reviews(rules, limited)


def check_reviews(rules: Rules, limited: Collection[str]) -> None:
    """A `UserFault` when a rule asks for reviews and none could be made: no limit of [stop] is in `limited`, a key or a price is missing."""
    if rules.review.asked_for:
        with _for_reviews():
            account.check(reviewer.law(rules), limited)


def _check(name: str, options: Mapping[str, str], rules: Rules, limited: Collection[str]) -> None:
    if own.NAME.search(name):
        own.load(name)
    elif name != MIX and name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.0)[0]
        raise UserFault(f"no proposer {name!r}; did you mean {near!r}? There are: {', '.join(NAMES)}, or FILE.py:CLASS of your own")
    foreign = sorted(set(options) - USES.get(name, set()) - (set() if name == "scripted" else STANDS_IN))
    if foreign:
        raise UserFault(f"--{foreign[0]} is not for the proposer {name!r}; name another one with --proposer, or leave it out")
    for one in dict(rules.proposer.mix or {}) if name == MIX else (name,):
        if one == "scripted":
            _scripted(options)
        elif one == "command":
            _template(rules, limited)
            _keys(rules.proposer.keys, "[proposer] keys")
        elif one == "anthropic":
            account.check(rules.model, limited)


def preflight(name: str, rules: Rules, interrupted: Callable[[], str] = str) -> list[str]:
    """Warnings of what a model's server says before the night, at no cost; a `UserFault` for what cannot work."""
    asked = set(rules.proposer.mix or {}) if name == MIX else {name}
    warnings = account.preflight(rules.model, interrupted) if "anthropic" in asked else []
    law = reviewer.law(rules)
    if rules.review.asked_for and not ("anthropic" in asked and law.names[0] in rules.model.names):
        with _for_reviews():
            warnings += account.preflight(law, interrupted)
    return warnings


@contextmanager
def _for_reviews() -> Iterator[None]:
    """A fault of the model is said to be the reviewer's."""
    try:
        yield
    except UserFault as fault:
        raise UserFault(f"[review] asks for reviews by a model, and they cannot be made: {fault}") from None


def make(name: str, options: Mapping[str, str], setting: Setting) -> Proposer:
    """One proposer by its own name; raises as `check` does of its own settings."""
    limited = [key for key, value in setting.study().limits.items() if value is not None]
    _check(name, {key: value for key, value in options.items() if key in USES.get(name, set())}, setting.rules, limited)
    if name == "search":
        return Climbing(seed=int(options.get("seed", "0")))
    if name == "scripted":
        return _scripted(options)
    if own.NAME.search(name):
        return own.load(name)(setting)
    if name == "anthropic":
        return Anthropic(setting.rules, setting.folder, setting.meter, setting.study, setting.check, setting.interrupted, setting.clock)
    law = setting.rules.proposer
    return Command(
        template=_template(setting.rules, limited), adapter=law.adapter, folder=setting.folder.agents, wall_seconds=law.wall_seconds,
        silence_seconds=law.silence_seconds, output_cap_kb=law.output_kb, environment=_keys(law.keys, "[proposer] keys"),
        interrupted=setting.interrupted, meter=setting.meter, call_dollars=law.call_dollars, clock=setting.clock,
    )  # fmt: skip


def _scripted(options: Mapping[str, str]) -> Scripted:
    if not options.get("edits"):
        raise UserFault("the scripted proposer needs a list of edits; name its file with --edits")
    return Scripted.from_file(Path(options["edits"]))


def _template(rules: Rules, limited: Collection[str]) -> tuple[str, ...]:
    law = rules.proposer
    template = law.command or agents.default_template(law.adapter, rules.scope.editable)
    if not template:
        raise UserFault("the command proposer needs [proposer] command or a known adapter in program.md; docs/proposers.md shows both")
    if shutil.which(template[0]) is None:
        raise UserFault(f"the agent {template[0]!r} is not found; install it, or correct [proposer] command in program.md")
    if "tokens" in limited:
        raise UserFault(
            "[stop] tokens cannot hold an agent, of whom nobody knows before a call what it uses; use calls, or dollars with call_dollars"
        )
    if "dollars" in limited and law.call_dollars is None:
        raise UserFault(
            "[stop] dollars needs [proposer] call_dollars with the command proposer: what one call of the agent may cost at most"
        )
    return template


def _keys(names: tuple[str, ...], where: str) -> dict[str, str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise UserFault(f"{where} names {missing[0]}, which is not in the environment; export it or take it out of the list")
    return {name: os.environ[name] for name in names}
