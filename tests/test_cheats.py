"""Every cheat of tests/cheats as a trial of a real study: the real train.py, edited, in the real sandbox, judged by a rule that keeps every lower reading.

Each either ends without a number or is scored no better than the honest program; the few that are open are bounded, and say by what.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

import pytest

import prepare
from harness.artifacts import journal
from harness.artifacts import study as fold
from harness.artifacts.events import Event, Launched, Refused, Scored, Warned
from harness.artifacts.trial_dir import ReadingDir, StudyDir
from harness.artifacts.trial_row import TrialRow
from harness.control import budget
from harness.execution.sandbox import cgroup
from harness.proposers import evidence
from harness.rules import load
from harness.trial import FAILED, JobOutcome, Measurement, Status
from tests.edits import swap
from tests.nights import NO_PICTURES
from tests.projects import ROOT, git

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]  # the first test waits for the studies: minutes on two idle cores
CHEATS = {path.stem: importlib.import_module(f"tests.cheats.{path.stem}") for path in sorted((ROOT / "tests" / "cheats").glob("[a-z]*.py"))}
ROWS = range(1, 31)
ENDED = (budget.DONE, budget.NO_RESULT)  # all its trials are done; of one study none has a number
AS_WELL = 1e-6  # bits per byte: what the order of a sum may change
RULES = """# Program of the cheats

```toml rules
[trial]
clock = "{clock}"
amount = {amount}
compute_cap = 1.5
evaluate_seconds = 60

[run]
device = "cpu"

[keep]
rule = "strict"
complexity_per_line = 0.0
baseline_readings = 1

[log]
checkpoints = "all"

[escalation]
consecutive_crashes = 1000
refused_proposals = 1000

[stop]
hours = 2
```
"""
STUDIES = {"first": ("tokens", 40_960), "second": ("tokens", 40_960), "timed": ("wall", 2)}  # two of one kind: there are two cores


@dataclass(frozen=True)
class Seen:
    """What became of one cheat's trial. `refused` is the guard's reason where there was none."""

    row: TrialRow | None
    refused: str
    baseline: Measurement
    claim: float | None
    warnings: tuple[str, ...]
    folder: StudyDir
    key: str

    @property
    def honest(self) -> float:
        """The honest program's value, measured in the same study with the same seed."""
        return self.baseline.value

    @property
    def value(self) -> float | None:
        """What the cheat is believed to be worth."""
        return self.row.verdict.value if self.row and self.row.verdict else None

    @property
    def status(self) -> Status | None:
        """Of its trial."""
        return self.row.status if self.row else None

    @property
    def reason(self) -> str:
        """Why it ended so."""
        return self.row.verdict.reason if self.row and self.row.verdict else ""

    @property
    def outcome(self) -> JobOutcome | None:
        """Of its job."""
        return self.row.readings[0].outcome if self.row and self.row.readings else None

    @property
    def _reading(self) -> ReadingDir:
        assert self.row is not None, "it had no trial"
        return self.folder.trial(self.row.folder).reading(0)

    @cached_property
    def train_log(self) -> str:
        """What its job printed."""
        return self._reading.train_log.read_text(errors="replace")

    @cached_property
    def evaluate_log(self) -> str:
        """What evaluator and scorers printed."""
        return self._reading.evaluate_log.read_text(errors="replace")

    @cached_property
    def page(self) -> str:
        """What an agent is shown of its failure."""
        assert self.row is not None, "it had no trial"
        study, rules = fold.replay(self.folder.journal)[0], load(self.folder.project / "program.md")
        return evidence.packet("the last failure", self.row, study, self.folder, rules).text


def in_order() -> list[str]:
    """The honest ends first: what is open might be kept and would lower the bar for those behind it."""
    return sorted(CHEATS, key=lambda name: (CHEATS[name].ENDS == "bounded", name))


def parts() -> dict[str, list[str]]:
    """Which study runs which cheats; those on a budget of tokens in turn."""
    timed = [name for name in in_order() if getattr(CHEATS[name], "CLOCK", "tokens") == "wall"]
    rest = [name for name in in_order() if name not in timed]
    return {"first": rest[::2], "second": rest[1::2], "timed": timed}


def entries(names: list[str]) -> list[dict[str, str]]:
    """One proposal a cheat, each of the honest text; a second one where it wants the first one's leftovers."""
    honest, found = (ROOT / "train.py").read_text(), []
    for name in names:
        text = CHEATS[name].cheat(honest)
        found.append({"title": name, "text": text})
        if getattr(CHEATS[name], "TWICE", False):
            again = swap(text, "    setup = prepare.setup()\n", "    setup = prepare.setup()\n    print('again', flush=True)\n")
            found.append({"title": f"{name} again", "text": again})
    return found


def started(project: Path, name: str, key: str) -> subprocess.Popen[bytes]:
    """The study in a process of its own, with locks of its own, so that two run at once."""
    project.mkdir(parents=True)
    for file in ("train.py", "prepare.py"):
        shutil.copy(ROOT / file, project)
    clock, amount = STUDIES[name]
    (project / "program.md").write_text(RULES.format(clock=clock, amount=amount))
    (project / ".gitignore").write_text("/runs/\n/results.tsv*\n/progress.png\n__pycache__/\n")
    git(project, "init", "-q", "-b", "main")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "honest")
    edits = project.with_suffix(".json")
    edits.write_text(json.dumps({"proposals": entries(parts()[name])}))
    command = [sys.executable, "-m", "harness", "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits)]
    own = {"RATCHET_LOCKS": str(project.with_suffix(".locks")), "ANTHROPIC_API_KEY": key}
    with project.with_suffix(".out").open("wb") as out:
        return subprocess.Popen(command, cwd=project, env={**os.environ, **NO_PICTURES, **own}, stdout=out, stderr=out)


def run_all(folder: Path) -> None:
    """Two studies at once, then the short one, which is on a clock and wants a core of its own."""
    key = f"sk-{secrets.token_hex(16)}"
    (folder / "key").write_text(key)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for names in (("first", "second"), ("timed",)):
            running = [started(folder / name, name, key) for name in names]
            for name, process in zip(names, running, strict=True):
                assert process.wait() in ENDED, (folder / f"{name}.out").read_text()[-2000:]
    finally:
        for process in running:
            process.terminate()  # if it still runs; its jobs end with it
            process.wait()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One worker at a time."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session", autouse=True)
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Path]:
    """A folder of all workers, and this machine's data, or data of our own in it: one cheat has read them."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "cheats"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        if "RATCHET_DATA" not in os.environ:
            patch.setenv("RATCHET_DATA", str(folder / "data"))
        with alone(folder):
            prepare.prepare("cpu")
        yield folder


@pytest.fixture(scope="session")
def studies(shared: Path) -> Path:
    """The folder of the studies, run once however many workers there are."""
    with alone(shared):
        if not (shared / "done").exists():
            run_all(shared)
            (shared / "done").touch()
    return shared


def trial(studies: Path, name: str, title: str) -> Seen:
    """One trial as its study's journal tells it."""
    where = next(part for part, names in parts().items() if name in names)
    folder = StudyDir(studies / where, "t")
    events = [entry.event for entry, _ in journal.read(folder.journal)]
    levels = {event.sandbox for event in events if isinstance(event, Launched)}
    if levels == {"none"}:
        pytest.skip("no sandbox on this machine")
    study = fold.replay(folder.journal)[0]
    row = next((row for row in study.rows if row.title == title), None)
    number = [entry["title"] for entry in entries(parts()[where])].index(title) + 1
    refused = next((event.reason for event in events if isinstance(event, Refused) and event.proposal == number), "")
    measured = {event.trial: event.measurement for event in events if isinstance(event, Scored) and event.measurement}
    claim = claimed(events, row.trial) if row else None
    said = tuple(event.message for event in events if isinstance(event, Warned) and row and f"trial {row.trial} " in event.message)
    return Seen(row, refused, measured[0], claim, said, folder, (studies / "key").read_text())


def claimed(events: Sequence[Event], number: int) -> float | None:
    """What the scorer's own losses add up to, audited or not."""
    return next((e.measurement.value for e in events if isinstance(e, Scored) and e.trial == number and e.measurement), None)


@pytest.fixture
def seen(studies: Path, request: pytest.FixtureRequest) -> Iterator[Seen]:
    """The trial of the cheat that a test is about."""
    yield trial(studies, request.param, request.param)


def no_better(seen: Seen) -> bool:
    """Measured, and neither kept nor better than the honest program."""
    return seen.status is Status.DISCARD and seen.value is not None and seen.value >= seen.honest - AS_WELL


def must_end(ends: tuple[str, ...] | str, seen: Seen) -> None:
    """What the cheat's file says must become of it."""
    if ends == "no gain":
        assert no_better(seen), (seen.status, seen.reason, seen.value, seen.honest)
    elif ends == "never kept":
        assert seen.status in FAILED | {Status.INTERRUPTED} or no_better(seen), (seen.status, seen.value)
    elif ends == "bounded":
        assert seen.status in FAILED | {Status.KEEP, Status.DISCARD}
    elif ends[0] == "refused":
        assert (seen.row, seen.refused) == (None, ends[1])
    else:
        assert seen.status is not None
        assert seen.status.value == ends[0] and seen.reason in ends[1:], (seen.status, seen.reason, seen.value, seen.honest)
        assert seen.value is None, "what is rejected has no value"


@pytest.mark.parametrize(("name", "seen"), [(name, name) for name in CHEATS], indirect=["seen"])
def test_a_cheat_gains_nothing(name: str, seen: Seen) -> None:
    uncounted = None if cgroup.base() else getattr(CHEATS[name], "WITHOUT_GROUP", None)
    must_end(uncounted or CHEATS[name].ENDS, seen)
    if also := getattr(CHEATS[name], "also", None):
        also(seen)


TEMPTING = [name for name, cheat in CHEATS.items() if getattr(cheat, "TEMPTING", False)]


@pytest.mark.parametrize(("name", "seen"), [(name, name) for name in TEMPTING], indirect=["seen"])
def test_an_evaluation_that_believed_its_claim_would_have_kept_it(name: str, seen: Seen) -> None:
    """Otherwise the test above proved nothing."""
    assert seen.claim is not None, f"{name} made no claim"
    assert seen.claim < seen.honest


@pytest.mark.parametrize("name", [name for name, cheat in CHEATS.items() if getattr(cheat, "TWICE", False)])
def test_a_second_trial_finds_nothing_of_the_first(studies: Path, name: str) -> None:
    second = trial(studies, name, f"{name} again")
    must_end(CHEATS[name].ENDS, second)
    CHEATS[name].also(second)


def test_the_machine_was_never_to_blame(studies: Path) -> None:
    """A cheat that looks like the machine's fault would be tried again and again."""
    for name in CHEATS:
        found = trial(studies, name, name)
        assert found.status is not Status.INTERRUPTED or CHEATS[name].ENDS == "never kept", name


def row_of(cheat: ModuleType) -> str:
    """The row of the list, or `own`."""
    found = re.match(r"(\d+|own): ", cheat.__doc__ or "")
    assert found, f"{cheat.__name__}: the docstring begins with a row or with `own`"
    return found.group(1)


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_says_what_it_is_and_what_must_become_of_it(name: str) -> None:
    cheat = CHEATS[name]
    row_of(cheat)
    text = cheat.__doc__ or ""
    assert re.search(r"Naive gain:\s", text) and re.search(r"Stopped|[Bb]ounded", text)
    assert cheat.ENDS in ("no gain", "never kept", "bounded") or (
        cheat.ENDS[0] in {"refused", *(s.value for s in FAILED)} and len(cheat.ENDS) > 1
    )
    assert cheat.ENDS != "bounded" or hasattr(cheat, "also"), "an open one says by what it is bounded"
    honest = (ROOT / "train.py").read_text()
    assert cheat.cheat(honest) != honest
    compile(cheat.cheat(honest), name, "exec")


def test_every_row_of_the_list_has_its_cheat_and_there_are_as_many_of_our_own() -> None:
    rows = [row_of(cheat) for cheat in CHEATS.values()]
    assert sorted(int(row) for row in rows if row != "own") == list(ROWS)
    assert rows.count("own") >= 20


def line(name: str) -> str:
    """Of the table in docs/cheats.md."""
    cheat = CHEATS[name]
    first = (cheat.__doc__ or "").splitlines()[0].split(": ", 1)[1].rstrip(".")
    ends = cheat.ENDS if isinstance(cheat.ENDS, str) else f"{cheat.ENDS[0]}: {' or '.join(cheat.ENDS[1:])}"
    return f"| `{name}` | {row_of(cheat)} | {first} | {ends} |"


def test_the_page_of_the_cheats_has_every_one_and_what_becomes_of_it() -> None:
    page = (ROOT / "docs" / "cheats.md").read_text(encoding="utf-8").splitlines()
    assert [text for text in page if text.startswith("| `")] == [line(name) for name in CHEATS]
