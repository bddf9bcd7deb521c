"""Whole nights for tests: harnesses in processes of their own, dying or held at a gate, and the checker that every one must pass afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from harness.artifacts import journal
from harness.artifacts.events import Committed, Settled
from harness.control.verification import check
from tests.projects import ROOT, folder_of, git, keeping_the_table, resume_study, run_study, set_rules, study_of

NO_PICTURES = {"PYTHONPATH": f"{ROOT / 'tests' / 'fixtures' / 'no_pictures'}:{ROOT}"}
LEAN = "[keep]\nbaseline_readings = 1"
COMPARED = (
    "val_bpb",
    "status",
    "description",
    "trial",
    "reason",
    "gain",
    "bar",
    "sigma",
    "readings",
    "net_lines",
    "rule",
    "axis",
    "folder",
)


def table(project: Path) -> list[dict[str, str]]:
    """results.tsv without what differs between any two studies: commits, seconds, memory, budget."""
    own = folder_of(project).results.read_bytes()
    assert own == (project / "results.tsv").read_bytes()
    header, *lines = [line.split("\t") for line in own.decode().splitlines()]
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    return [{name: row[name] for name in COMPARED} for row in rows]


def must_be_whole(project: Path) -> None:
    """The checker: everything once, everything derived agrees with the journal, nothing of ours is alive."""
    study = study_of(project)
    entries = [entry for entry, _ in journal.read(folder_of(project).journal)]
    numbers = [row.trial for row in study.rows]
    assert numbers == list(range(len(numbers)))
    for kind in (Committed, Settled):
        times = Counter(entry.event.trial for entry in entries if isinstance(entry.event, kind))
        assert set(times.values()) == {1}, times
    commits = [row.commit for row in study.rows]
    assert len(set(commits)) == len(commits)
    lines = folder_of(project).results.read_text().splitlines()
    assert [line.split("\t")[5] for line in lines[1:]] == [str(n) for n in numbers]
    assert [finding for finding in check(folder_of(project)) if not finding.ok] == []
    for row in study.rows:
        files = {path.name for path in folder_of(project).trial(row.folder).path.iterdir()}
        assert {"train.py", "verdict.json"} <= files, (row.trial, files)
    tree = {line.split()[1] for line in git(project, "for-each-ref", "refs/autoresearch", "--format=%(refname) %(objectname)").splitlines()}
    assert tree == {commit for commit in commits if commit}
    assert no_job_of(project) == []


def no_job_of(project: Path) -> list[int]:
    """Processes that still carry the marker of a job and live below the project's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"RATCHET_JOB=" in (path / "environ").read_bytes() and str((path / "cwd").readlink()).startswith(str(project)):
                found.append(int(path.name))
        except OSError:
            continue
    return found


def wait_for(project: Path, text: str, seconds: float = 20.0) -> None:
    """Until the journal holds `text`."""
    path, deadline = folder_of(project).journal, time.monotonic() + seconds
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline, f"{text} did not come"
        time.sleep(0.01)


def started(project: Path, *arguments: str, **env: str) -> subprocess.Popen[bytes]:
    """The command line in the background."""
    command = [sys.executable, "-m", "harness", *arguments]
    environment = {**os.environ, **NO_PICTURES, **env}
    return subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def crash_at(project: Path, point: str, edits: Path | None = None, trials: int | None = None, tag: str = "t") -> None:
    """A harness that dies at `point`: a copy of this process, which is cheaper than a new one. It starts the study when `edits` are given."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.environ["RATCHET_CRASH_AT"] = point
            seen = keeping_the_table(project, tag)
            run_study(project, edits, tag=tag, seen=seen) if edits else resume_study(project, tag=tag, seen=seen, trials=trials)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 137, f"{point} was never reached"


def gate(project: Path, path: Path) -> Path:
    """Make every training of the project wait until `path` exists; committed. A job in a sandbox would never see it."""
    set_rules(project, '[sandbox]\nlevel = "none"')
    train = project / "train.py"
    wait = f"    while not os.path.exists({str(path)!r}):\n        time.sleep(0.02)\n"
    train.write_text(train.read_text().replace("def train(value):\n", f"def train(value):\n{wait}"))
    git(project, "commit", "-qam", "gate")
    return path
