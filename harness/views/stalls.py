"""The stall ladder and the detectors for people and programs: lines of the console, of `status`, and a section of the report."""

from __future__ import annotations

from typing import Any

from harness.artifacts import ladder
from harness.artifacts.oversight_events import Climbed, Detected
from harness.artifacts.study import Study
from harness.evaluation.detectors import ENDS_A_LINE
from harness.views.text import flatten, md, plural

SHOWN, STEPS = 12, 100


def climbed(event: Climbed, study: Study) -> str:
    """`stall ladder: combine: 20 measured trials since the last keep, …`."""
    return f"stall ladder: {flatten(ladder.words(event), 400)}"


def detected(event: Detected, study: Study) -> str:
    """`detected: no progress on trial 12: …; this line is closed`."""
    return f"detected: {_found(event)}{'; this line is closed' if event.detector in ENDS_A_LINE else ''}"


def facts(study: Study) -> dict[str, Any]:
    """For programs: the rung in force, the drought, the steps, and how often each detector fired."""
    now = study.ladder
    return {
        "rung": now.rung, "drought": now.drought, "climbs": now.climbs, "steps": [flatten(step, 400) for step in now.steps],
        "detected": dict(study.watch.detected),
    }  # fmt: skip


def status_lines(study: Study) -> list[str]:
    """One line on the ladder once it was climbed, one on what was detected."""
    lines = []
    if study.ladder.steps:
        where = f"on {study.ladder.rung}" if study.ladder.rung else "on the ground"
        lines.append(f"  stall      {where}; the last step: {flatten(study.ladder.steps[-1], 300)}")
    if study.watch.detected:
        lines.append(f"  detected   {counts(study)}; the last: {_found(study.watch.findings[-1])}")
    return lines


def counts(study: Study) -> str:
    """`oscillation 2, blind retry 1`."""
    order = sorted(study.watch.detected.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{_name(detector)} {count}" for detector, count in order)


def section(study: Study) -> str:
    """The report's section: every step with its reason, and what was detected."""
    parts = []
    if study.ladder.steps:
        steps = "\n".join(f"- {md(step, 400)}" for step in study.ladder.steps[-STEPS:])
        parts.append(
            f"## Stalls\n\nThe stall ladder took {plural(study.ladder.climbs, 'rung')}. Its steps with their reasons, the latest last:\n\n{steps}"
        )
    if study.watch.detected:
        found = "\n".join(f"- {md(_found(one), 400)}" for one in study.watch.findings[-SHOWN:])
        parts.append(f"## Detected\n\nDetected: {counts(study)}. The latest:\n\n{found}")
    return "\n\n".join(parts)


def _found(event: Detected) -> str:
    where = f"trial {event.trial}" if event.trial is not None else f"proposal {event.proposal}"
    return f"{_name(event.detector)} on {where}: {flatten(event.detail, 300)}"


def _name(detector: str) -> str:
    return flatten(detector.replace("_", " "), 40)
