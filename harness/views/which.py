"""Which study is meant on the command line: the named one, else the newest."""

from __future__ import annotations

from pathlib import Path

from harness.artifacts import snapshot as snapshots
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir, studies
from harness.errors import StudyUnknown


def folder_of(project: Path, tag: str | None) -> StudyDir:
    """Its folder; raises `StudyUnknown`."""
    known = studies(project.resolve())
    if tag is None and not known:
        raise StudyUnknown(f"no study in {project.resolve() / 'runs'}; `ratchet run --tag NAME` starts one")
    folder = StudyDir(project.resolve(), tag or known[-1])
    if not folder.journal.exists():
        raise StudyUnknown(f"no study {tag!r} in {project.resolve() / 'runs'}; there are: {', '.join(known) or 'none'}")
    return folder


def loaded(project: Path, tag: str | None) -> tuple[StudyDir, Study]:
    """Its folder and its fold, all rows included."""
    folder = folder_of(project, tag)
    return folder, snapshots.load(folder.journal, folder.snapshot)
