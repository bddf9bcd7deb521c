"""The doctor's report: the level, one line a property, and what no level holds."""

from __future__ import annotations

from typing import Any

from harness.control.examination import Examination
from harness.execution.sandbox.properties import Finding
from harness.views.device import state_text

ALWAYS = ("memory and load of the GPU, and what can be told by timing, are not separated at any level",)
BEYOND = {
    "full": ALWAYS,
    "container": ("what a job started may outlive a harness that is killed, until the next start of Ratchet", *ALWAYS),
    "none": ("candidate code can read and change whatever you can, and use the network", *ALWAYS),
}


def as_dict(seen: Examination) -> dict[str, Any]:
    """For programs."""
    box = seen.found.sandbox
    return {
        "level": seen.found.level,
        "wanted": seen.wanted,
        "accepted": seen.accepted,
        "made_of": box.means.words if box.means else None,
        "properties": [{"name": one.name, "title": one.title, "holds": one.holds, "by": one.by, "got": one.got, "advice": one.advice or None}
                       for one in seen.found.findings],
        "stronger_refused": list(seen.found.refused),
        "control_group": list(seen.limits),
        "never_held": list(BEYOND[seen.found.level]),
        "device": {"name": seen.device or None, "held_by": seen.holder, "state": seen.state.model_dump() if seen.state else None},
        "notes": list(seen.notes),
    }  # fmt: skip


def as_text(seen: Examination) -> str:
    """For people."""
    box = seen.found.sandbox
    lines = [f"sandbox level {seen.found.level}{f' ({box.means.words})' if box.means else ''}; the rules accept {seen.wanted!r}"]
    lines += [f"  not had  {reason}" for reason in seen.found.refused]
    lines += [_line(one) for one in seen.found.findings]
    lines += [
        f"  group    a control group {'limits: ' + ', '.join(seen.limits) if seen.limits else 'is not to be had here'}; {_memory(seen)}"
    ]
    if seen.device:
        lock = f"a study of process {seen.holder} runs on it" if seen.holder else "no study of yours runs on it"
        lines.append(f"  device   {seen.device}: {'; '.join([lock, *([state_text(seen.state)] if seen.state else [])])}")
    lines += [f"  never    {sentence}" for sentence in BEYOND[seen.found.level]]
    lines += [f"  note     {note}" for note in seen.notes]
    verdict = "as the rules ask" if seen.accepted else "NOT what the rules accept; see above, and docs/security.md"
    return "\n".join([*lines, verdict])


def _line(one: Finding) -> str:
    if one.holds:
        return f"  ok       {one.title}: {one.by} ({one.got})"
    return f"  OPEN     {one.title}: nothing stops it ({one.got}); {one.advice}"


def _memory(seen: Examination) -> str:
    return "memory is limited by it" if "memory" in seen.limits else "memory is watched four times a second where [trial] memory_mb is set"
