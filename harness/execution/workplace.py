"""What a job is made of: its specification, its command, and the folder it runs in."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.artifacts.trial_dir import ReadingDir
from harness.conditions import DeviceState
from harness.errors import InfrastructureFault
from harness.execution.process import ProcessTree, clean_environment
from harness.execution.sandbox.box import SCRATCH, Sandbox
from harness.rule_lines import ADDRESS
from harness.rules import Rules

OVERRUN_SHARE = 0.01
OVERRUN_SECONDS = 2.0
REHEARSAL_SECONDS = 60.0


@dataclass(frozen=True)
class JobSpec:
    """What to run: files by name, the pristine prepare.py, the training data, and the seed. `cpu_cap` in CPU seconds, `None` for no cap.

    `rehearsal`: one step without a compiler, to have an untrained model. `began`: the device as the study found it.
    """

    files: Mapping[str, str]
    prepare: Path
    train_data: Path
    folder: ReadingDir
    seed: int
    marker: str
    cpu_cap: float | None = None
    rehearsal: bool = False
    began: DeviceState | None = None


def training_limit(rules: Rules, rehearsal: bool) -> float:
    """Wall seconds from the handover to the checkpoint; of a rehearsal a step's worth, what takes longer is left to the training itself."""
    trial = rules.trial
    if rehearsal:
        return min(REHEARSAL_SECONDS, trial.train_seconds)
    return trial.amount * (1 + OVERRUN_SHARE) + OVERRUN_SECONDS if trial.clock == "wall" else trial.train_seconds


def in_scope(text_at: Callable[[str, str], str], commit: str, rules: Rules) -> dict[str, str]:
    """What a candidate may change, as it is at a commit; `text_at` reads a file there."""
    return {name: text_at(commit, name) for name in rules.scope.editable}


def needed_files(rules: Rules) -> tuple[str, ...]:
    """The files of a candidate: those in scope, and the script that the run command starts, whether it may change or not. Every job has prepare.py anyway."""
    started = [word for word in rules.run.command if word.endswith(".py") and not word.startswith(("/", "-"))] or ["train.py"]
    return tuple(dict.fromkeys((*rules.scope.editable, *(word for word in started if word != "prepare.py"))))


def resolve_command(rules: Rules) -> list[str]:
    """The run command with `{python}` filled in; a launcher that is not there is an `InfrastructureFault`, not a crash."""
    command = [part.replace("{python}", sys.executable) for part in rules.run.command]
    if shutil.which(command[0]) is None:
        plain = command[0].isprintable() and "=" not in command[0] and not ADDRESS.search(command[0])
        shown = repr(command[0]) if plain else "(it is no program, and may be a secret)"
        raise InfrastructureFault(f"the run command's launcher {shown} is not found; correct [run] command in program.md")
    return command


def prepare_folder(folder: Path, files: Mapping[str, str], prepare: Path) -> None:
    """A fresh folder with the files in scope and the pristine prepare.py, nothing else; another user can read it whatever the umask."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    shutil.copyfile(prepare, folder / "prepare.py")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def launch(
    command: Sequence[str], folder: Path, variables: Mapping[str, str], log: Path, rules: Rules, keep: Sequence[int], sandbox: Sandbox
) -> ProcessTree:
    """Start a command in its prepared folder, with a scratch folder, an environment and a sandbox."""
    sandbox.admit(folder)
    return ProcessTree(command, folder, clean_environment(folder / SCRATCH, variables), log, rules.log.train_log_kb * 1024, keep, sandbox)
