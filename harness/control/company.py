"""What the command line asks of a study, and who watches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.control.recorder import Observer
from harness.execution.clock import Clock, SystemClock
from harness.execution.signals import Interrupts


@dataclass(frozen=True)
class Wishes:
    """What the command line says: where and how much, never what counts as better. Without a `proposer` it is program.md's."""

    project: Path
    tag: str
    program: Path
    proposer: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    trials: int | None = None
    hours: float | None = None
    deadline: str | None = None
    dollars: float | None = None
    commit: bool = False


@dataclass
class Company:
    """Who watches and who may interrupt; a test brings its own."""

    observe: Observer
    on_point: Callable[[dict[str, Any]], None]
    interrupts: Interrupts = field(default_factory=Interrupts)
    clock: Clock = field(default_factory=SystemClock)
