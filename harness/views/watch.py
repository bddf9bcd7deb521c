"""The observer of a running study: console lines as they come, the table after every settled trial, report and picture at the end."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from harness.artifacts.events import Entry, Resumed, Settled, Stopped, StudyStarted
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.views import plots, report
from harness.views.console import Console
from harness.views.results import Results


class Watch:
    """Give `observe` and `point` to the study; `close` when it is over."""

    def __init__(self, folder: StudyDir, stream: IO[str], live: bool) -> None:
        self._folder = folder
        self._console = Console(stream, folder.console_log, live)
        self._results = Results(folder, folder.project / "results.tsv")

    def observe(self, entry: Entry, study: Study) -> None:
        """Show one event; what it changes in the views is written at once."""
        if isinstance(entry.event, StudyStarted | Resumed | Settled | Stopped):
            for warning in self._results.sync(study):
                self._console.note(warning)
        if isinstance(entry.event, Stopped):
            self._console.phase("writing the report")
            write_page(study, self._folder, self._folder.project)
        self._console.event(entry, study)

    def point(self, point: dict[str, Any]) -> None:
        """A point of the running job's learning curve."""
        self._console.point(point)

    def close(self) -> None:
        """Take the live board down."""
        self._console.close()


def write_page(study: Study, folder: StudyDir, top: Path | None) -> tuple[Path, Path]:
    """Write report and picture into the study's folder, and the picture to `top`; returns both paths."""
    folder.report.write_text(report.render(study, folder), encoding="utf-8")
    plots.progress(study, folder.progress)
    if top is not None:
        (top / "progress.png").write_bytes(folder.progress.read_bytes())
    return folder.report, folder.progress
