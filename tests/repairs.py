"""Stub projects whose jobs have a memory of so many rows, for tests of corrections: a pass of `DEVICE_ROWS * DEPTH` rows must fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.artifacts import journal
from harness.artifacts.events import Event
from tests.edits import swap
from tests.projects import folder_of, git

FITS = """    if DEVICE_ROWS * DEPTH > MEMORY_ROWS:
        raise MemoryError(f"out of memory: tried to allocate {DEVICE_ROWS * DEPTH * 4096} bytes at {hex(id(prepare))} for '{prepare.__file__}'")
"""


def with_memory(train: Path, rows: int = 16, batch: int = 64) -> None:
    """The stub's train.py with a micro-batch of 8 rows, a total batch, and a memory of `rows`."""
    text = swap(
        train.read_text(),
        "SEED_NOISE = 0.001\n",
        f"SEED_NOISE = 0.001\nTOTAL_BATCH = {batch}\nDEVICE_ROWS = 8  # most rows of a pass\nMEMORY_ROWS = {rows}\n",
    )
    train.write_text(swap(text, "def before_training():\n", f"def before_training():\n{FITS}"))


def memory_project(make_project: Callable[..., Path], rules: str = "", rows: int = 16) -> Path:
    """A committed project of that kind; its baseline fills the memory."""
    project = make_project(rules=rules)
    with_memory(project / "train.py", rows)
    git(project, "commit", "-qam", "memory")
    return project


def events(project: Path, kind: str) -> list[Event]:
    """All events of one kind, as the journal has them."""
    return [entry.event for entry, _ in journal.read(folder_of(project).journal) if entry.event.kind == kind]
