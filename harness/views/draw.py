"""`python -m harness.views.draw PROJECT TAG`: draw a study's picture, and copy it to the project's top. The harness starts this as a process."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.artifacts import snapshot as snapshots
from harness.artifacts.trial_dir import StudyDir
from harness.views import plots


def draw(folder: StudyDir) -> None:
    """Draw from the journal."""
    plots.progress(snapshots.load(folder.journal, folder.snapshot), folder.progress)
    (folder.project / "progress.png").write_bytes(folder.progress.read_bytes())


if __name__ == "__main__":
    draw(StudyDir(Path(sys.argv[1]), sys.argv[2]))
