"""The stored fold of a study: derived, quick to read, and never believed when it does not fit its journal."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter

from harness.artifacts import durable, journal
from harness.artifacts.journal import Position
from harness.artifacts.study import Study, replay
from harness.artifacts.trial_row import TrialRow

LAST = 12
POSITION: TypeAdapter[Position] = TypeAdapter(Position)
ROWS: TypeAdapter[list[TrialRow]] = TypeAdapter(list[TrialRow])


def load(journal_path: Path, snapshot: Path, *, summary: bool = False) -> Study:
    """The study from the snapshot and the journal's tail; from the whole journal when there is no usable snapshot.

    With `summary`, `rows` holds only the last few trials; every counter is exact.
    """
    try:
        with snapshot.open("rb") as file:
            position = POSITION.validate_json(file.readline())
            study = Study.model_validate_json(file.readline())
            recent = file.readline()
            study.rows = ROWS.validate_json(recent if summary else file.readline())
        if not journal.ends_at(journal_path, position):
            raise ValueError("the snapshot is of another journal")
    except (OSError, ValueError):
        return replay(journal_path)[0]
    for entry, _ in journal.read(journal_path, position):
        study.apply(entry)
    return study


def write(study: Study, end: Position, path: Path) -> None:
    """Store a full fold (not a summary) as four lines: position, counters, the last few rows, all rows."""
    parts = (POSITION.dump_json(end), study.model_dump_json().encode(), ROWS.dump_json(study.rows[-LAST:]), ROWS.dump_json(study.rows))
    durable.replace(path, b"\n".join(parts) + b"\n")
