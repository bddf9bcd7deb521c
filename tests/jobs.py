"""One job or one evaluation without a study: a specification in the test's folder, rules with short limits, and clocks that run as a test wants."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.artifacts.trial_dir import ReadingDir
from harness.conditions import DeviceState
from harness.execution.clock import Clock, SystemClock
from harness.execution.job import Job
from harness.execution.process import adopt_orphans
from harness.execution.sandbox.box import OPEN as OUTSIDE
from harness.execution.sandbox.box import Sandbox
from harness.execution.workplace import JobSpec
from harness.rules import Rules
from harness.trial import JobOutcome
from tests.projects import STUB, with_constants

SETUP = "import json, os, socket, sys, time\nimport prepare\nhello = prepare.setup()\n"
OPEN = "data = prepare.open_training()\n"
SAVE = "prepare.save_checkpoint(1.2)\n"
LOAD = "def load_model(state, device):\n    return state['value']\n"


@dataclass
class Skewed:
    """The machine's clock, `speed` times as fast, with a sleep of the machine that a test adds to `slept`."""

    speed: float = 1.0
    slept: float = 0.0
    ahead: float = 0.0

    def monotonic(self) -> float:
        return time.monotonic() * self.speed + self.ahead

    def boottime(self) -> float:
        return self.monotonic() + self.slept

    def now(self) -> datetime:
        return datetime.now().astimezone()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / self.speed)


@dataclass
class Bench:
    """A device, a clock and ears for one job."""

    name: str = "cpu: test"
    lock_name: str = "test"
    held: list[float | None] = field(default_factory=list)
    clock: Clock = field(default_factory=SystemClock)
    points: list[dict[str, Any]] = field(default_factory=list)
    on_point: Callable[[dict[str, Any]], None] | None = None
    interrupted: Callable[[], str] = str
    sandbox: Sandbox = OUTSIDE
    variables: Mapping[str, str] = field(default_factory=dict)

    def look(self, ours: Callable[[], Collection[int]], clocks: bool = True) -> DeviceState | None:
        """As a device of which nothing more is known."""
        return None

    def failure(self) -> str:
        """It works."""
        return ""

    def memory_mb(self, pids: Collection[int]) -> float | None:
        """As a device: the next prepared answer, the last one for ever."""
        return (self.held.pop(0) if len(self.held) > 1 else self.held[0]) if self.held else None

    def hear(self, point: dict[str, Any]) -> None:
        self.points.append(point)
        if self.on_point:
            self.on_point(point)

    def run(self, spec: JobSpec, rules: Rules) -> JobOutcome:
        """The job from start to end."""
        adopt_orphans()
        spec.folder.create()
        job = Job(spec, rules, self, self.clock, self.hear, self.interrupted, self.sandbox)
        job.start()
        return job.watch()


def stub(**constants: object) -> str:
    """The stub's train.py."""
    return with_constants((STUB / "train.py").read_text(), **constants)


def spec(folder: Path, text: str, cpu_cap: float | None = None, prepare: str | None = None, number: int = 0) -> JobSpec:
    """A job of `text` with the stub's prepare.py, or with another one."""
    pristine, data = folder / "prepare.py", folder / "data.bin"
    pristine.write_text(prepare or (STUB / "prepare.py").read_text())
    data.write_bytes(b"words")
    return JobSpec(
        files={"train.py": text}, prepare=pristine, train_data=data, folder=ReadingDir(folder / f"trial{number}" / "r0"), seed=1,
        marker=secrets.token_hex(16), cpu_cap=cpu_cap,
    )  # fmt: skip


def rules(**sections: dict[str, Any]) -> Rules:
    """Rules of the stub with generous limits, and changes by section."""
    trial = {"clock": "tokens", "amount": 100, "setup_seconds": 30.0, "train_seconds": 30.0, "evaluate_seconds": 30.0}
    return Rules(**{**sections, "trial": {**trial, **sections.get("trial", {})}, "stop": {"trials": 1}})  # type: ignore[arg-type]
