"""A look ahead at a night: rules, device, data, who proposes and what it will come to. It reads and asks, takes no lock and changes nothing.

What `ratchet run` would refuse is collected with the same sentences, in the same order; what may disappoint is a finding.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar

from harness.artifacts import snapshot as snapshots
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir, studies
from harness.control import asides, budget, forecast, limits, tariffs
from harness.control.forecast import Forecast, Pace
from harness.control.limits import Limits
from harness.control.preconditions import cage, describe, examine
from harness.control.steering import doubts
from harness.control.tariffs import Aside, Span, Tariff
from harness.control.wishes import Finding
from harness.errors import InfrastructureFault, JournalCorrupt, RulesInvalid, UserFault
from harness.evaluation import noise
from harness.execution import device as devices
from harness.execution.clock import Clock, SystemClock
from harness.execution.device import Device
from harness.execution.workplace import needed_files, resolve_command
from harness.facts import DataFacts
from harness.graph.ratchet import Ratchet
from harness.proposers import account, agents, registry, reviewer
from harness.proposers.prices import Price
from harness.proposers.wire import KEYS
from harness.rules import Rules, contents, load, read
from harness.trial import OFFLINE

T = TypeVar("T")
NO_TAG = "a-plan"  # a name for git's checks; nothing is made under it


@dataclass(frozen=True)
class Paid:
    """Who is paid, and by what: the first agent word and where it was found, the key's variable and whether it is set, prices by model."""

    agent: tuple[str, ...] = ()
    agent_at: str | None = None
    keys: tuple[tuple[str, bool], ...] = ()
    prices: tuple[tuple[str, Price | None], ...] = ()
    as_of: date | None = None
    server: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Outlook:
    """All that was found. `missing` says why there is no device or no data."""

    program: Path
    rules: Rules
    now: datetime
    allowed: Limits
    proposer: str
    shares: Mapping[str, float]
    device: str | None
    data: DataFacts | None
    paid: Paid
    pace: Pace
    wait: Span
    tariffs: tuple[Tariff, ...]
    forecast: Forecast
    readings: int
    missing: Mapping[str, str]
    refusals: tuple[str, ...]
    findings: tuple[str, ...]
    asides: tuple[Aside, ...] = ()
    doubts: tuple[Finding, ...] = ()


@dataclass
class _Notes:
    """What went wrong on the way; the look goes on."""

    refusals: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def keep(self, ask: Callable[[], T], what: str = "") -> T | None:
        """What `ask` brings, or the sentence of its refusal."""
        try:
            return ask()
        except (UserFault, InfrastructureFault) as fault:
            self.missing[what] = str(fault)
            if str(fault) not in self.refusals:
                self.refusals.append(str(fault))
            return None


def look(
    project: Path, program: Path, proposer: str | None, amounts: Mapping[str, Any], offline: bool, clock: Clock | None = None
) -> Outlook:
    """The whole look; only rules that cannot be read end it, with their own `RulesInvalid`."""
    raw = contents(program)
    rules, now, notes = read(raw, program), (clock or SystemClock()).now(), _Notes()
    name = registry.named(rules, proposer)
    shares = {str(one): share for one, share in (rules.proposer.mix or {}).items()} if name == registry.MIX else {name: 1.0}
    allowed = limits.at_start(rules, now, amounts)
    if name != "scripted":  # its list is a flag of `ratchet run`
        notes.keep(lambda: registry.check(name, {}, rules, allowed.given()))
    warned = None if offline or not asides.asks_server(rules, shares) else notes.keep(lambda: registry.preflight(name, rules), "server")
    notes.keep(lambda: resolve_command(rules))
    device = notes.keep(lambda: devices.find(rules.run.device), "device")
    data = notes.keep(lambda: describe(project, rules), "data")
    notes.keep(lambda: cage(project, rules, device, data), "sandbox")
    files = notes.keep(lambda: _baseline(project, rules)) or {}
    earlier = _earlier(project)
    alike = _alike(rules, device, earlier)
    pace = _pace(rules, alike)
    tariff = tuple(_tariffs(rules, shares, program, files, earlier))
    waited = bool(alike) and all(
        study.calls.made for study in alike
    )  # then the seconds of their trials hold the wait for the model already
    wait = Span(low=0, high=0) if waited else forecast.thinking(shares, rules)
    readings = rules.keep.baseline_readings or noise.prior(device.name if device else "cpu", rules.trial.clock, None).baseline_readings
    night = forecast.night(allowed, now, pace, wait, readings, tariffs.demand(shares, tariff), shares, rules.proposer.meanwhile)
    beside = tuple(asides.of(rules, shares, night.trials.high, files))
    night = forecast.with_asides(night, beside, allowed)
    paid = _paid(rules, shares, tuple(warned) if warned is not None else None)
    findings = [
        *_in_use(device),
        *(warned or []),
        *_concerns(rules, shares, allowed, paid, offline),
        *forecast.concerns(allowed, now, pace, readings, tariff),
    ]
    return Outlook(
        program=program, rules=rules, now=now, allowed=allowed, proposer=name, shares=shares, device=device.name if device else None, data=data,
        paid=paid, pace=pace, wait=wait, tariffs=tariff, forecast=night, readings=readings, missing=notes.missing, refusals=tuple(notes.refusals), findings=tuple(findings),
        asides=beside, doubts=doubts(raw, rules, now),
    )  # fmt: skip


def _baseline(project: Path, rules: Rules) -> dict[str, str]:
    """The committed texts of the files in scope, when they can be a baseline."""
    ratchet = Ratchet(project, NO_TAG, StudyDir(project, NO_TAG).index)
    needed = [*needed_files(rules), "prepare.py"]
    head = ratchet.baseline(needed)
    texts = {name: ratchet.text_at(head, name) for name in needed}
    examine(texts, rules)
    return {name: texts[name] for name in rules.scope.editable}


def _in_use(device: Device | None) -> list[str]:
    """Who holds the device now: nothing is wrong with the rules, so this refuses nothing."""
    holder = devices.read_holder(path := devices.lock_path(device)) if device else None
    if device is None or holder is None:
        return []
    return [f"the device {device.lock_name} is in use by process {holder['pid']} ({path}): another night has to wait until it is free"]


def _earlier(project: Path) -> list[tuple[Rules, Study]]:
    """Every study of this project that can be read, with its rules."""
    found = []
    for tag in studies(project):
        folder = StudyDir(project, tag)
        try:
            found.append((load(folder.program), snapshots.load(folder.journal, folder.snapshot, summary=True)))
        except (RulesInvalid, JournalCorrupt, OSError):  # a damaged or foreign study is no evidence; `ratchet verify` says what is wrong
            continue
    return found


def _alike(rules: Rules, device: Device | None, earlier: Sequence[tuple[Rules, Study]]) -> list[Study]:
    """Those that measured something with the same budget of a trial on this device."""
    same = ("profile", "clock", "amount")
    return [
        study for old, study in earlier
        if study.started is not None and (device is None or study.started.environment.device == device.name)
        and all(getattr(old.trial, name) == getattr(rules.trial, name) for name in same) and budget.expected_seconds(study) > 0
    ]  # fmt: skip


def _pace(rules: Rules, alike: Sequence[Study]) -> Pace:
    means = [(budget.expected_seconds(study), study.trials) for study in alike]
    return forecast.pace_of_studies(means) if means else forecast.pace_of_rules(rules)


def _tariffs(
    rules: Rules, shares: Mapping[str, float], program: Path, files: Mapping[str, str], earlier: Sequence[tuple[Rules, Study]]
) -> list[Tariff]:
    found = []
    if "anthropic" in shares:
        first = rules.model.names[0]
        size = sum(len(text.encode()) for text in files.values())
        page = tariffs.by_page(rules.model, account.price_list(rules.model).of(first), program.stat().st_size, size)
        found.append(
            tariffs.by_earlier(page, [study.calls for old, study in earlier if old.model.names[0] == first and _alone(study, "anthropic")])
        )
    if "command" in shares:
        law = rules.proposer
        alike = [study.calls for old, study in earlier if old.proposer.adapter == law.adapter and old.proposer.command == law.command
                 and _alone(study, "command")]  # fmt: skip
        found.append(tariffs.by_earlier(tariffs.by_command(law.call_dollars), alike))
    others = sorted(set(shares) - OFFLINE - {"anthropic", "command"})
    return found + [Tariff(kind=name, said=f"what {name} takes is unknown") for name in others]


def _alone(study: Study, kind: str) -> bool:
    """Whether no other model's calls are in the study's sums."""
    return not set(study.calls.proposals) - OFFLINE - {kind}


def _paid(rules: Rules, shares: Mapping[str, float], server: tuple[str, ...] | None) -> Paid:
    law = rules.model
    agent = (rules.proposer.command or agents.default_template(rules.proposer.adapter, rules.scope.editable)) if "command" in shares else ()
    names = list(rules.proposer.keys) if "command" in shares else []
    asked = list(law.names) if "anthropic" in shares else []
    asked += [name for name in reviewer.law(rules).names if rules.review.asked_for and name not in asked]
    if asked:
        names += [law.key] if law.key is not None else list(KEYS) if law.base_url is None else []
    listed = account.price_list(law)
    return Paid(
        agent=agent, agent_at=shutil.which(agent[0]) if agent else None, keys=tuple((name, bool(os.environ.get(name))) for name in names),
        prices=tuple((name, listed.of(name)) for name in asked), as_of=listed.as_of, server=server,
    )  # fmt: skip


def _concerns(rules: Rules, shares: Mapping[str, float], allowed: Limits, paid: Paid, offline: bool) -> list[str]:
    """What the settings of the proposers promise and cannot keep."""
    found = []
    if (
        offline
        and asides.asks_server(rules, shares)
        and rules.model.base_url is None
        and rules.model.key is None
        and not any(there for _, there in paid.keys)
    ):
        found.append(f"no key is set ({' or '.join(KEYS)}); the model's server was not asked")
    unpriced = [name for name, price in paid.prices[1:] if price is None]
    if unpriced and allowed.dollars is not None:
        found.append(f"the price of {unpriced[0]} is unknown: what it costs, should it be asked, is counted against [stop] tokens only")
    useless = [name for name in ("calls", "tokens", "dollars", "retries") if getattr(allowed, name) is not None]
    if useless and not set(shares) - OFFLINE and not rules.review.asked_for:
        found.append(f"[stop] {useless[0]} limits nothing: no model proposes")
    return found
