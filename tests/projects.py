"""Real projects for tests: a git repository made from the stub project, edits of its constants, and studies run in this process."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.artifacts import study as fold
from harness.artifacts.events import Entry, Event
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.control.opening import Company, Wishes, resume, start
from harness.trial import Stop
from harness.views.results import Results

STUB = Path(__file__).parent / "fixtures" / "stub_project"
ROOT = Path(__file__).parent.parent


def git(folder: Path, *arguments: str) -> str:
    """Run git as a user would, with a fixed identity."""
    command = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.invalid", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def make_project(folder: Path, train: dict[str, object] | None = None, rules: str = "") -> Path:
    """A committed stub project with prepared data; `train` sets constants, `rules` replaces or adds lines of the rules block."""
    shutil.copytree(STUB, folder, ignore=shutil.ignore_patterns("__pycache__", "data.bin"))
    text = (folder / "train.py").read_text()
    (folder / "train.py").write_text(with_constants(text, **(train or {})))
    if rules:
        set_rules(folder, rules)
    (folder / "data.bin").write_bytes(b"words")
    (folder / ".gitignore").write_text("/runs/\n/results.tsv*\n/progress.png\n/data.bin\n__pycache__/\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "base")
    return folder


def set_rules(folder: Path, lines: str) -> None:
    """Set keys of the rules block from text like `[stop]\\ntrials = 9`: a key that is there is replaced, a new one added to its table."""
    path = folder / "program.md"
    text, section = path.read_text(), ""
    for line in lines.strip().splitlines():
        if line.startswith("["):
            section = line
            continue
        key = line.split("=")[0].strip()
        if section not in text:
            text = re.sub(r"\n```\s*$", f"\n\n{section}\n```\n", text)
        head, tail = text.split(section, 1)
        block, rest = (*re.split(r"(?=\n\[|\n```)", tail, maxsplit=1), "")[:2]
        block = re.sub(rf"\n{key} *=.*", "", block) + f"\n{line}"
        text = f"{head}{section}{block}{rest}"
    path.write_text(text)


def with_constants(text: str, **values: object) -> str:
    """The stub's train.py with top-level constants set."""
    for name, value in values.items():
        text, count = re.subn(rf"^{name} = .*$", f"{name} = {value!r}", text, flags=re.MULTILINE)
        assert count == 1, name
    return text


@dataclass
class Seen:
    """An observer that remembers."""

    events: list[Event] = field(default_factory=list)
    points: list[dict[str, Any]] = field(default_factory=list)
    on_event: Callable[[Entry, Study], None] | None = None

    def observe(self, entry: Entry, study: Study) -> None:
        """Remember, then pass on."""
        self.events.append(entry.event)
        if self.on_event:
            self.on_event(entry, study)

    def kinds(self) -> list[str]:
        """The kinds of all events."""
        return [event.kind for event in self.events]


def keeping_the_table(project: Path, tag: str = "t") -> Seen:
    """An observer that also keeps results.tsv, as the command line's does, but draws no picture."""
    results = Results(StudyDir(project, tag), project / "results.tsv")

    def sync(entry: Entry, study: Study) -> None:
        if entry.event.kind in ("study_started", "resumed", "settled", "stopped"):
            results.sync(study)

    return Seen(on_event=sync)


def ratchet(project: Path, *arguments: str, env: dict[str, str] | None = None, check: bool = False) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=check,
        timeout=100,
    )


def edits_file(folder: Path, edits: list[dict[str, object]]) -> Path:
    """A list for the scripted proposer that sets constants."""
    lines = []
    for number, edit in enumerate(edits, 1):
        values = ", ".join(f"{name} = {_toml(value)}" for name, value in edit.items())
        lines.append(f'[[proposals]]\ntitle = "edit {number}"\nset = {{ {values} }}\n')
    path = folder / "edits.toml"
    path.write_text("\n".join(lines))
    return path


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)


def run_study(project: Path, edits: Path | None = None, tag: str = "t", seen: Seen | None = None, **wishes: Any) -> Stop:
    """A new study in this process, with the scripted proposer when `edits` are given, else the search."""
    seen = seen or Seen()
    chosen = {"proposer": "scripted", "options": {"edits": str(edits)}} if edits else {}
    company = Company(observe=seen.observe, on_point=seen.points.append)
    return start(Wishes(project=project, tag=tag, **{"program": project / "program.md", **chosen, **wishes}), company)


def resume_study(project: Path, tag: str = "t", seen: Seen | None = None, **amounts: Any) -> Stop:
    """Resume in this process."""
    seen = seen or Seen()
    return resume(project, tag, Company(observe=seen.observe, on_point=seen.points.append), **amounts)


def study_of(project: Path, tag: str = "t") -> Study:
    """The fold of the whole journal."""
    return fold.replay(StudyDir(project, tag).journal)[0]


def folder_of(project: Path, tag: str = "t") -> StudyDir:
    """The study's folder."""
    return StudyDir(project, tag)
