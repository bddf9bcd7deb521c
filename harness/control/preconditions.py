"""What must hold before a study may begin. Each check raises one sentence and changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from harness.artifacts import study as fold
from harness.artifacts.trial_dir import TAG, StudyDir
from harness.control.limits import Limits
from harness.errors import DataMissing, ProposalRefused, StudyExists, UserFault
from harness.evaluation import guard
from harness.execution.device import Device
from harness.execution.sandbox import levels
from harness.execution.sandbox.levels import Found, Request
from harness.execution.workplace import resolve_command
from harness.facts import DataFacts
from harness.rules import Rules


def check_tag(tag: str) -> None:
    """A tag is part of a branch and of a folder's name."""
    if not TAG.fullmatch(tag):
        raise UserFault(f"--tag {tag!r}: use letters, digits, '.', '_' and '-', at most 64")


def must_be_new(folder: StudyDir) -> None:
    """A journal without a whole first event is what a killed start leaves: no study yet."""
    if folder.journal.exists() and fold.replay(folder.journal)[0].started is not None:
        raise StudyExists(
            f"a study {folder.tag!r} exists in {folder.path}; `ratchet resume --tag {folder.tag}` goes on, or choose another --tag"
        )


def check_deadline(limits: Limits, now: datetime, new: str | None) -> None:
    """A deadline that has passed needs a new one: tomorrow's is not what anyone asked for."""
    old = limits.deadline
    if new is None and old is not None and old <= now:
        raise UserFault(f"the deadline {old:%Y-%m-%d %H:%M} has passed; say until when with --deadline HH:MM, or edit [stop] in program.md")


def examine(texts: Mapping[str, str], rules: Rules) -> None:
    """The baseline must pass what every proposal has to, or no proposal ever could."""
    for name in rules.scope.editable:
        try:
            guard.examine(name, texts[name], rules.scope)
        except ProposalRefused as problem:
            raise UserFault(f"{name} cannot be a baseline: {problem}") from None


def cage(project: Path, rules: Rules, device: Device | None, data: DataFacts | None) -> Found:
    """The sandbox of a study; raises `UserFault` when the rules ask for a stronger one than this machine holds."""
    found = strongest_cage(project, rules, device, data)
    levels.require(found, rules.sandbox.level)
    return found


def strongest_cage(project: Path, rules: Rules, device: Device | None, data: DataFacts | None) -> Found:
    """The strongest sandbox that this machine holds, found by attacking it."""
    wanted = rules.sandbox
    files = tuple(sorted({Path(data.train), *(Path(str(file["path"])) for file in data.files)})) if data else ()
    return levels.find(Request(
        project=project.resolve(), accepted=wanted.level, data=files, launchers=tuple(resolve_command(rules)[:1]),
        gpu=device is not None and device.name.startswith("cuda"), scratch_mb=wanted.scratch_mb, pids=wanted.pids, memory_mb=rules.trial.memory_mb,
    ))  # fmt: skip


def describe(project: Path, rules: Rules) -> DataFacts:
    """Ask prepare.py what data there is; raises `DataMissing` with its own sentence."""
    command = [sys.executable, "prepare.py", "describe", "--profile", rules.trial.profile]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, env=environment, start_new_session=True)
    said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
    if done.returncode != 0:
        raise DataMissing(said)
    try:
        facts = DataFacts.model_validate_json(done.stdout)
    except ValidationError as error:
        raise DataMissing(f"`prepare.py describe` printed no usable description: {error.errors()[0]['msg']}") from None
    if facts.metric != rules.metric.name:
        raise UserFault(f"[metric] name is {rules.metric.name!r}, but prepare.py measures {facts.metric!r}; correct program.md")
    return facts
