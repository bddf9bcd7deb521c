"""Names of files and folders under `runs/`.

runs/<tag>/
    journal.jsonl   the truth          snapshot.json   derived, for quick views      lock   held by the running harness
    program.md      the last valid one, rules/<digest>.md each edit                 prepare.py   pristine copy, hash-checked before every use
    results.tsv  report.md  progress.png  console.log  stop-requested
    inbox/0003.md 0003.json            a question, for people and for programs       0003.answer.json   what was said to it, by whoever was first
    proposals/000012.json              every proposal as it arrived, before anything is done with it
    0007-<slug>/                       one folder a trial: train.py diff.patch proposal.json verdict.json review.json
        r0/                            one folder a reading: train.log curve.jsonl evaluate.log measurement.json claims.bin checkpoint.safetensors work/
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def slug(title: str) -> str:
    """A title as part of a folder name: lower-case ASCII, at most 40 characters."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return words[:40].rstrip("-") or "untitled"


@dataclass(frozen=True)
class ReadingDir:
    """The folder of one reading."""

    path: Path

    @property
    def train_log(self) -> Path:
        """What the job printed, capped."""
        return self.path / "train.log"

    @property
    def curve(self) -> Path:
        """The learning curve, one point a line."""
        return self.path / "curve.jsonl"

    @property
    def evaluate_log(self) -> Path:
        """What evaluator and scorer printed."""
        return self.path / "evaluate.log"

    @property
    def measurement(self) -> Path:
        """The evaluator's record, with nats and bytes per document."""
        return self.path / "measurement.json"

    @property
    def claims(self) -> Path:
        """The scorer's claimed losses, float32, in the evaluator's order: an audit compares them."""
        return self.path / "claims.bin"

    @property
    def checkpoint(self) -> Path:
        """The model, safetensors."""
        return self.path / "checkpoint.safetensors"

    @property
    def work(self) -> Path:
        """The job's own throw-away folder."""
        return self.path / "work"

    def create(self) -> None:
        """Start empty: what an interrupted reading left is removed."""
        remove(self.path)
        self.path.mkdir(parents=True)

    def drop_work(self) -> None:
        """Remove the job's folder, whatever the candidate put there."""
        remove(self.work)


@dataclass(frozen=True)
class TrialDir:
    """The folder of one trial."""

    path: Path

    @property
    def diff(self) -> Path:
        """The change against its parent."""
        return self.path / "diff.patch"

    @property
    def proposal(self) -> Path:
        """The proposal that became this trial."""
        return self.path / "proposal.json"

    @property
    def verdict(self) -> Path:
        """The judge's word with its inputs."""
        return self.path / "verdict.json"

    @property
    def review(self) -> Path:
        """What an independent reviewer was shown and what it answered."""
        return self.path / "review.json"

    def file(self, name: str) -> Path:
        """The candidate's text of a file in scope."""
        return self.path / name

    def reading(self, replicate: int) -> ReadingDir:
        """The folder of reading number `replicate`; a number below 0 is the rehearsal."""
        return ReadingDir(self.path / (f"r{replicate}" if replicate >= 0 else "rehearsal"))

    def drop_checkpoints(self) -> None:
        """Remove the models and claims of all readings; numbers, logs and curves stay."""
        for path in (*self.path.glob("r*/checkpoint.safetensors"), *self.path.glob("r*/claims.bin")):
            path.unlink()


@dataclass(frozen=True)
class StudyDir:
    """`runs/<tag>` of a project."""

    project: Path
    tag: str

    @property
    def path(self) -> Path:
        """The study's folder."""
        return self.project / "runs" / self.tag

    @property
    def journal(self) -> Path:
        """The truth."""
        return self.path / "journal.jsonl"

    @property
    def snapshot(self) -> Path:
        """A derived fold of the journal."""
        return self.path / "snapshot.json"

    @property
    def lock(self) -> Path:
        """Held by the running harness."""
        return self.path / "lock"

    @property
    def prepare(self) -> Path:
        """The pristine prepare.py of this study."""
        return self.path / "prepare.py"

    @property
    def program(self) -> Path:
        """The last valid program.md."""
        return self.path / "program.md"

    def adopted(self, digest: str) -> Path:
        """An edit of program.md by its digest, stored before the journal calls it in force."""
        return self.path / "rules" / f"{digest}.md"

    @property
    def results(self) -> Path:
        """This study's table."""
        return self.path / "results.tsv"

    @property
    def report(self) -> Path:
        """This study's page."""
        return self.path / "report.md"

    @property
    def progress(self) -> Path:
        """This study's picture."""
        return self.path / "progress.png"

    @property
    def console_log(self) -> Path:
        """What was printed, for a night whose terminal went away."""
        return self.path / "console.log"

    @property
    def stop_request(self) -> Path:
        """Exists when somebody asked the study to stop after the current trial."""
        return self.path / "stop-requested"

    @property
    def inbox(self) -> Path:
        """Questions to the person, and her answers."""
        return self.path / "inbox"

    @property
    def index(self) -> Path:
        """The ratchet's private git index."""
        return self.path / "index"

    @property
    def edits(self) -> Path:
        """The list of a scripted study, as it was when the study began."""
        return self.path / "edits.json"

    @property
    def agents(self) -> Path:
        """What an agent was told and what it said, one folder a proposal."""
        return self.path / "agents"

    def bill(self, record: str) -> Path | None:
        """Where the reply to a request is stored, by the request's name in the journal; `None` for a name that leaves the folder of calls."""
        path = (self.path / record).resolve()
        stem = path.name.removesuffix(".request.json")
        return path.with_name(f"{stem}.reply.json") if path.is_relative_to(self.agents.resolve()) and stem != path.name else None

    def proposal(self, number: int) -> Path:
        """A proposal as it arrived."""
        return self.path / "proposals" / f"{number:06d}.json"

    def trial(self, folder: str) -> TrialDir:
        """A trial's folder by the name the journal gave it."""
        return TrialDir(self.path / folder)


def remove(path: Path) -> None:
    """Remove a folder if it is there, also one that a candidate locked or replaced by a link."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except PermissionError:
        _unlock(path)
        shutil.rmtree(path)


def _unlock(path: Path) -> None:
    path.chmod(0o700)
    for folder, names, _ in os.walk(path):
        for inner in (Path(folder, name) for name in names):
            if not inner.is_symlink():
                inner.chmod(0o700)


def studies(project: Path) -> list[str]:
    """Tags of all studies below `project`, oldest journal first."""
    found = [p for p in (project / "runs").glob("*/journal.jsonl")]
    return [p.parent.name for p in sorted(found, key=lambda p: p.stat().st_mtime)]
