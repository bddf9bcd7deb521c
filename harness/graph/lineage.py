"""The trials as a graph: who came from whom. Read from the journal's fold; git holds the same commits under `refs/autoresearch`."""

from __future__ import annotations

from harness.artifacts.study import Study
from harness.trial import Record, Status


class LogEntry(Record):
    """One trial in `ratchet log`. `on_path` marks the chain from the baseline to the incumbent."""

    trial: int
    commit: str | None
    parent: str
    status: Status | None
    value: float | None
    gain: float | None
    title: str
    reason: str
    on_path: bool


def log(study: Study) -> list[LogEntry]:
    """Every trial, newest first."""
    path = incumbents(study)
    rows = [*study.rows, *([study.current] if study.current else [])]
    return [
        LogEntry(
            trial=row.trial, commit=row.commit, parent=row.parent, status=row.status, value=row.value,
            gain=row.verdict.gain if row.verdict else None, title=row.title, reason=row.verdict.reason if row.verdict else "running",
            on_path=row.trial in path,
        )
        for row in reversed(rows)
    ]  # fmt: skip


def incumbents(study: Study) -> set[int]:
    """Trials on the chain of commits from the incumbent back to the baseline."""
    by_commit = {row.commit: row for row in study.rows}
    row, path = study.incumbent, set()
    while row is not None and row.trial not in path:
        path.add(row.trial)
        row = by_commit.get(row.parent) if row.parent != row.commit else None
    return path
