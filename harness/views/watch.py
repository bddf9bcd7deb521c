"""The observer of a running study: console lines as they come, the table after every settled trial, report and picture at the end.

The picture is drawn by a process of its own: a plotting library would triple the harness's memory, and its troubles are not the study's.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from harness.artifacts.events import Entry, Launched, Resumed, Settled, Stopped, StudyStarted, Trained
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.views import report
from harness.views.console import Console
from harness.views.results import Results

PHASES: dict[type, str] = {Launched: "training", Trained: "evaluating", Settled: "proposing"}
DRAW_SECONDS = 120


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
            self._write_page(study)
        elif type(entry.event) in PHASES:
            self._console.phase(PHASES[type(entry.event)])
        self._console.event(entry, study)

    def point(self, point: dict[str, Any]) -> None:
        """A point of the running job's learning curve."""
        self._console.point(point)

    def close(self) -> None:
        """Take the live board down."""
        self._console.close()

    def _write_page(self, study: Study) -> None:
        folder = self._folder
        folder.report.write_text(report.render(study, folder), encoding="utf-8")
        package = Path(__file__).parent.parent.parent
        command = [sys.executable, "-m", "harness.views.draw", str(folder.project), folder.tag]
        try:
            done = subprocess.run(command, cwd=package, capture_output=True, text=True, timeout=DRAW_SECONDS, check=False)
            problem = done.stderr.strip().splitlines()[-1:] if done.returncode else []
        except subprocess.TimeoutExpired:
            problem = [f"not done after {DRAW_SECONDS} s"]
        if problem:
            self._console.note(f"no picture: {problem[0]}; `ratchet report` tries again")


def write_page(study: Study, folder: StudyDir) -> tuple[Path, Path]:
    """Write report and picture into the study's folder, in this process; returns both paths."""
    from harness.views import plots

    folder.report.write_text(report.render(study, folder), encoding="utf-8")
    plots.progress(study, folder.progress)
    return folder.report, folder.progress
