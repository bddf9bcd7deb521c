"""Synthetic studies for tests and benchmarks: whole nights of events, a `Study` folded from them, a journal of any length.

Baseline with three readings, keeps that thin out, discards, crashes, timeouts, refusals. The steps of a night are in `synthetic.py`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from harness.artifacts import events as ev
from harness.artifacts.journal import GENESIS, Journal, Position
from harness.artifacts.study import Study
from harness.trial import Stop
from tests.synthetic import Night

__all__ = ["Night", "entries", "fold", "night", "prefixes", "study", "write_journal"]
START = datetime(2026, 3, 8, 21, 30)


def night(trials: int, stop: bool = True, of: Night | None = None) -> Iterator[ev.Event]:
    """All events of a night with `trials` trials after the baseline."""
    of = of or Night()
    yield of.start()
    yield from of.baseline()
    events = of.trials()
    while of.trial < trials:
        for event in events:
            yield event
            if event.kind == "settled":
                break
    if stop:
        yield ev.Stopped(stop=Stop(reason="trials", sentence=f"All {trials} trials are done.", exit_code=0))


def entries(events: Iterable[ev.Event], seconds: float = 6.0) -> Iterator[ev.Entry]:
    """Journal entries without a journal, `seconds` apart."""
    for seq, event in enumerate(events):
        at = (START + timedelta(seconds=seq * seconds)).isoformat()
        yield ev.Entry(seq=seq, prev=GENESIS, at=at, elapsed=seq * seconds, event=event)


def fold(events: Iterable[ev.Event]) -> Study:
    """A study from events."""
    study = Study()
    for entry in entries(events):
        study.apply(entry)
    return study


def study(trials: int, stop: bool = True, of: Night | None = None) -> Study:
    """A study after a night of `trials` trials."""
    return fold(night(trials, stop, of))


def prefixes(events: Iterable[ev.Event]) -> Iterator[Study]:
    """The study after each event; always the same object."""
    study = Study()
    yield study
    for entry in entries(events):
        study.apply(entry)
        yield study


def write_journal(path: Path, trials: int, of: Night | None = None) -> Position:
    """A journal of `trials` trials by the real `Journal`; in memory first where fsync costs nothing, then moved to `path`."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        draft = Path(folder) / "journal.jsonl"
        count = iter(range(1 << 62))
        clock = [0.0]

        def now() -> str:
            clock[0] = next(count) * 6.0
            return (START + timedelta(seconds=clock[0])).isoformat()

        journal = Journal(draft, Position(), now, lambda: clock[0])
        for event in night(trials, of=of):
            journal.append(event)
        journal.close()
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(draft, path)
    return journal.position
