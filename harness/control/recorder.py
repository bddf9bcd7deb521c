"""Journal, fold and observers as one: `emit` makes an event durable, applies it, and shows it. Nothing else appends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from harness.artifacts import durable
from harness.artifacts import snapshot as snapshots
from harness.artifacts.events import Entry, Event
from harness.artifacts.journal import Journal
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.errors import StorageFault

Observer = Callable[[Entry, Study], None]
SNAPSHOT_EVERY = 200
BEAT, BEAT_SECONDS = "elapsed", 15.0


class Recorder:
    """The writing side of a study."""

    def __init__(self, folder: StudyDir, journal: Journal, study: Study, observe: Observer) -> None:
        self.folder, self.study = folder, study
        self._journal, self._observe = journal, observe
        self._since_snapshot, self._beat = 0, 0.0

    def emit(self, event: Event) -> None:
        """Durable first, then visible."""
        entry = self._journal.append(event)
        self.study.apply(entry)
        self._since_snapshot += 1
        if self._since_snapshot >= max(SNAPSHOT_EVERY, self.study.row_count // 4):
            self.snapshot()
        self._observe(entry, self.study)

    def idle(self) -> float:
        """How long the study has run, in seconds. While nothing happens its file `elapsed` says so: a kill loses at most `BEAT_SECONDS` of a wait."""
        now = self._journal.elapsed()
        if now - max(self.study.elapsed, self._beat) >= BEAT_SECONDS:
            self._beat = now
            with suppress(StorageFault):  # only a hint; a full disk ends the night at the journal
                durable.replace(self.folder.path / BEAT, f"{now:.1f}\n".encode())
        return now

    def snapshot(self) -> None:
        """Refresh the derived snapshot."""
        snapshots.write(self.study, self._journal.position, self.folder.snapshot)
        self._since_snapshot = 0

    def close(self) -> None:
        """Leave a fresh snapshot and give the journal back."""
        try:
            self.snapshot()
        finally:
            self._journal.close()
