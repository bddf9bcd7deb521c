"""What `ratchet doctor` looks at: the rules if there are any, the device, the data, and the sandbox that jobs would get here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.conditions import DeviceState
from harness.control.preconditions import describe, strongest_cage
from harness.errors import DataMissing, InfrastructureFault, RulesInvalid, UserFault
from harness.execution import device as devices
from harness.execution.hygiene import ours
from harness.execution.sandbox import cgroup, levels
from harness.execution.sandbox.levels import Found
from harness.rules import Rules, load
from harness.sections import StopAt


@dataclass(frozen=True)
class Examination:
    """What was found. `notes` say what could not be looked at; `limits` are those of a control group; `holder` is the process that has the device's
    lock. A device that could not be found is "".
    """

    found: Found
    wanted: str
    accepted: bool
    limits: tuple[str, ...]
    notes: tuple[str, ...]
    device: str = ""
    holder: int | None = None
    state: DeviceState | None = None


def examine(project: Path) -> Examination:
    """Attack the sandbox of this project; a broken project only costs notes."""
    notes: list[str] = []
    rules, device, data, state = Rules(stop=StopAt(trials=1)), None, None, None
    try:
        rules = load(project / "program.md")
        device = devices.find(rules.run.device)
        state = device.look(ours)
        data = describe(project, rules)
    except (RulesInvalid, InfrastructureFault, DataMissing, UserFault) as fault:
        notes.append(str(fault))
    found = strongest_cage(project, rules, device, data)
    wanted = rules.sandbox.level
    accepted = levels.RANK[found.level] >= levels.RANK[wanted] and (wanted != "auto" or found.level != "none")
    held = devices.read_holder(devices.lock_path(device)) if device else None
    return Examination(
        found,
        wanted,
        accepted,
        tuple(_limits(found)),
        tuple(notes),
        device.name if device else "",
        int(held["pid"]) if held else None,
        state,
    )


def _limits(found: Found) -> list[str]:
    """What a control group of a job really limits, read back from one."""
    group = found.sandbox.group()
    try:
        return cgroup.held(group) if group else []
    finally:
        cgroup.end(group)
