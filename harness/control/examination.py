"""What `ratchet doctor` looks at: the rules if there are any, the device, the data, and the sandbox that jobs would get here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.control.preconditions import describe, strongest_cage
from harness.errors import DataMissing, InfrastructureFault, RulesInvalid, UserFault
from harness.execution import device as devices
from harness.execution.sandbox import cgroup, levels
from harness.execution.sandbox.levels import Found
from harness.rules import Rules, load
from harness.sections import StopAt


@dataclass(frozen=True)
class Examination:
    """What was found. `notes` say what could not be looked at; `limits` are those of a control group."""

    found: Found
    wanted: str
    accepted: bool
    limits: tuple[str, ...]
    notes: tuple[str, ...]


def examine(project: Path) -> Examination:
    """Attack the sandbox of this project; a broken project only costs notes."""
    notes: list[str] = []
    rules, device, data = Rules(stop=StopAt(trials=1)), None, None
    try:
        rules = load(project / "program.md")
        device = devices.find(rules.run.device)
        data = describe(project, rules)
    except (RulesInvalid, InfrastructureFault, DataMissing, UserFault) as fault:
        notes.append(str(fault))
    found = strongest_cage(project, rules, device, data)
    wanted = rules.sandbox.level
    accepted = levels.RANK[found.level] >= levels.RANK[wanted] and (wanted != "auto" or found.level != "none")
    return Examination(found, wanted, accepted, tuple(_limits(found)), tuple(notes))


def _limits(found: Found) -> list[str]:
    """What a control group of a job really limits, read back from one."""
    group = found.sandbox.group()
    try:
        return cgroup.held(group) if group else []
    finally:
        cgroup.end(group)
