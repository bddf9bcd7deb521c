"""A program.md is edited in more than twenty ways while a study runs: each next trial is under the right rules, and what was wrong is said once."""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.artifacts import study as fold
from harness.artifacts.events import Decided, Entry, Refused, RulesChanged, Warned
from harness.artifacts.study import Study
from harness.control.opening import Company, Wishes, start
from harness.rules import load, read
from harness.views import status
from harness.views.console import Console
from tests.projects import ROOT, Seen, edits_file, folder_of, make_project, run_study, set_rules, study_of

BLOCK = """[trial]
amount = 100
setup_seconds = 20
train_seconds = 20
evaluate_seconds = 20

[keep]
baseline_readings = 1
prior_sigma = 0.002

[stop]
trials = 60
"""


def program(block: str = BLOCK, prose: str = "Lower `val_bpb`.") -> bytes:
    return f"# A study of the stub\n\n{prose}\n\n```toml rules\n{block}```\n".encode()


FIRST = program()
STRICT = program(BLOCK.replace("[keep]", '[keep]\nrule = "strict"'))
BANNED = program(BLOCK + '\n[ban]\naxes = ["depth"]\n')
HALVED = program(BLOCK.replace("trials = 60", "trials = 30"))
NOTES = program(prose="Lower `val_bpb`.\n\nThink of the schedule; the last night was all about width.")
REVIEWED = program(BLOCK + 'dollars = 1\n\n[review]\nadded_lines = 1000\ncriteria = ["No line is longer than 100."]\n')
CRLF = STRICT.replace(b"\n", b"\r\n")


def put(raw: bytes) -> Callable[[Path], None]:
    """Save these bytes, whatever stands in the file's place."""

    def save(path: Path) -> None:
        clear(path)
        path.write_bytes(raw)

    return save


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)


def folder(path: Path) -> None:
    clear(path)
    path.mkdir()


def link(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        clear(path)
        path.symlink_to(target)

    return make


def pipe(path: Path) -> None:
    clear(path)
    other = path.with_name("pipe")
    if not other.exists():
        os.mkfifo(other)
    path.symlink_to(other)


def line(block: str, text: str) -> int:
    """The line of `program(block)` that begins with a text."""
    return program(block).decode().split("\n").index(text) + 1


TARGET = BLOCK.replace("trials = 60", "trials = 60\ntarget = 0.1")

# what is done after a trial; the bytes in force for the next one (None: as before); the words of its warning
EDITS: list[tuple[str, Callable[[Path], None], bytes | None, str]] = [
    ("valid", put(STRICT), STRICT, ""),
    ("broken TOML", put(program(BLOCK + "[stop\n")), None, "not valid TOML"),
    ("half-written", put(BANNED[:150]), None, "never closed"),
    ("cut to nothing", put(b""), None, "no block fenced"),
    ("cut UTF-8", put("größer\n".encode()[:3] + b"\n" + BANNED), None, "program.md:1: is not UTF-8 text"),
    ("missing", clear, None, "No such file"),
    ("a folder in its place", folder, None, "Is a directory"),
    ("back to what is in force", put(STRICT), None, ""),
    ("contradictory", put(program(TARGET)), None, f"program.md:{line(TARGET, 'target = 0.1')}: [stop] target (line {line(TARGET, 'target = 0.1')}) lies outside [metric] plausible ([0.3, 20.0] by default)"),
    ("unknown key", put(program(BLOCK.replace("[keep]", "[keep]\nruel = 1"))), None, "unknown key 'ruel' in [keep]; did you mean 'rule'?"),
    ("unknown table", put(program(BLOCK + "[bans]\n")), None, "unknown table 'bans'; did you mean 'ban'?"),
    ("wrong type", put(program(BLOCK.replace("trials = 60", 'trials = "60"'))), None, "[stop] trials: input should be a valid integer, but it is '60'"),
    ("a second block", put(FIRST + b"\n" + HALVED), None, "a second rules block; the first is at line 5"),
    ("NUL bytes", put(HALVED + b"\0" * 64), None, "has a NUL byte"),
    ("huge", put(FIRST + b"x" * (3 * 1024 * 1024)), None, "larger than 1,024 KiB"),
    ("a pipe", pipe, None, "is a pipe, no regular file"),
    ("a device without end", link("/dev/zero"), None, "is a device, no regular file"),
    ("a link to itself", link("program.md"), None, "symbolic links"),
    ("a value thousands of brackets deep", put(program(BLOCK + f"plateau = {'[' * 5000}\n")), None, "not valid TOML"),
    ("a forbidden change", put(program(BLOCK.replace("amount = 100", "amount = 200"))), None, "[trial] amount cannot change within a study (100.0 to 200.0)"),
    ("a launcher that is not there", put(program(BLOCK + '[run]\ncommand = ["no-such-launcher"]\n')), None, "'no-such-launcher' is not found"),
    ("a ban", put(BANNED), BANNED, ""),
    ("a budget halved", put(HALVED), HALVED, ""),
    ("a review asked for", put(REVIEWED), REVIEWED, "no key for a model is set"),
    ("a link to a good file", lambda path: (put(NOTES)(path.with_name("other.md")), link("other.md")(path))[0], NOTES, ""),
    ("from Windows", put(CRLF), CRLF, ""),
    ("a number of four hundred digits", put(program(BLOCK.replace("trials = 60", f"trials = 1{'0' * 400}"))), None, "[stop] trials: input should be less than or equal to"),
    ("the old bytes", put(FIRST), FIRST, ""),
    ("a limit that is reached", put(program(BLOCK.replace("trials = 60", "trials = 30"))), program(BLOCK.replace("trials = 60", "trials = 30")), ""),
]  # fmt: skip


@dataclass
class Watch:
    """Edits the file after each trial, and remembers what was said until the next verdict."""

    path: Path
    console: Console
    stream: io.StringIO
    said: list[list[Warned | RulesChanged]] = field(default_factory=lambda: [[]])
    decided: list[Decided] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    limits: list[object] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def observe(self, entry: Entry, study: Study) -> None:
        event = entry.event
        before = len(self.stream.getvalue())
        self.console.event(entry, study)
        self.lines.append(self.stream.getvalue()[before:])
        if isinstance(event, Warned | RulesChanged):
            self.said[-1].append(event)
        if isinstance(event, Refused):
            self.refused.append(event)
        if isinstance(event, Decided):
            self.decided.append(event)
            self.limits.append(study.limits["trials"])
            self.shown.append(status.as_text(study))
        if event.kind == "settled" and event.trial < len(EDITS):
            self.said.append([])
            EDITS[event.trial][1](self.path)


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Watch:
    root = tmp_path_factory.mktemp("edits")
    project = make_project(root / "project")
    path = project / "program.md"
    path.write_bytes(FIRST)
    stream = io.StringIO()
    seen = Watch(path, Console(stream), stream)
    edits: list[dict[str, object]] = [{"VALUE": 1.3 + n / 100} for n in range(40)]
    edits[21] = {"DEPTH": 3}
    wishes = Wishes(project=project, tag="t", program=path, proposer="scripted", options={"edits": str(edits_file(root, edits))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RATCHET_LOCKS", str(root / "locks"))
        patch.delenv("ANTHROPIC_API_KEY", raising=False)
        patch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
        stop = start(wishes, Company(observe=seen.observe, on_point=lambda point: None))
    assert stop.reason == "trials", stop
    return seen


def in_force(number: int) -> bytes:
    """The bytes whose rules trial `number` is to run under."""
    return next((raw for _, _, raw, _ in reversed(EDITS[:number]) if raw is not None), FIRST)


def test_there_are_at_least_twenty_ways_and_each_next_trial_was_run(watch: Watch) -> None:
    assert len(EDITS) >= 20
    assert [event.trial for event in watch.decided] == list(range(len(EDITS) + 2))


@pytest.mark.parametrize("number", range(1, len(EDITS) + 1), ids=[name.replace(" ", "_") for name, *_ in EDITS])
def test_after_each_edit_the_right_rules_are_in_force_and_it_is_said_once(watch: Watch, number: int) -> None:
    name, _, raw, words = EDITS[number - 1]
    rules = in_force(number)
    decided, said = watch.decided[number], watch.said[number]
    assert decided.rules_digest == hashlib.sha256(rules).hexdigest(), name
    assert watch.limits[number] == read(rules, Path("program.md")).stop.trials
    assert decided.verdict.rule == read(rules, Path("program.md")).keep.rule
    changes = [event for event in said if isinstance(event, RulesChanged)]
    warnings = [event for event in said if isinstance(event, Warned)]
    back = name == "back to what is in force"
    assert len(changes) == int(raw is not None or back)
    assert len(warnings) == int(bool(words)), warnings
    for change in changes:
        assert change.digest == hashlib.sha256(rules).hexdigest()
        assert change.diff.startswith("--- before\n+++ after\n") or name == "from Windows" or (back and not change.diff)
    for warning in warnings:
        assert words in warning.message and warning.code == ("rules" if raw is None else "lint")
        assert raw is not None or warning.message.endswith(("; the last valid rules stay in force", words if "again" in words else ";"))
        shown = [line for line in watch.lines if warning.message[:200] in line]
        assert len(shown) == 1 and "warning: " in shown[0], "the console says it once"
        assert watch.shown[number].count(warning.message[:100]) == 1, "and so does the status"


def test_the_diffs_say_what_was_edited(watch: Watch) -> None:
    diffs = {
        EDITS[number - 1][0]: event.diff for number, said in enumerate(watch.said) for event in said if isinstance(event, RulesChanged)
    }
    assert '+rule = "strict"' in diffs["valid"] and '+axes = ["depth"]' in diffs["a ban"] and "+trials = 30" in diffs["a budget halved"]
    assert (
        "+added_lines = 1000" in diffs["a review asked for"]
        and "+Think of the schedule; the last night was all about width." in diffs["a link to a good file"]
    )


def test_the_ban_refused_one_proposal_while_it_was_in_force(watch: Watch) -> None:
    assert [(event.proposal, event.reason) for event in watch.refused] == [(22, "banned")]
    assert "changes DEPTH, and [ban] axes of program.md has 'depth'" in watch.refused[0].detail


def test_the_journal_tells_the_same_and_the_study_has_the_last_bytes(watch: Watch) -> None:
    folder = folder_of(watch.path.parent)
    study = fold.replay(folder.journal)[0]
    assert [row.rules_digest for row in study.rows] == [event.rules_digest for event in watch.decided]
    assert folder.program.read_bytes() == EDITS[-1][2]


def test_the_three_recipes_of_the_docs_steer_a_night_as_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word for word from docs/program.md: ban an axis, halve the budget, ask for a review."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
    page = (ROOT / "docs" / "program.md").read_text()
    recipes = re.findall(r"```toml\n(.*?)```", page[page.index("### Three recipes") :], re.DOTALL)
    assert len(recipes) == 3
    project = make_project(tmp_path / "project", rules="[stop]\ntrials = 100\ndollars = 10")
    folder = folder_of(project)
    seen = Seen(on_event=_steering(project, recipes, folder.stop_request))
    run_study(project, seen=seen)
    study = study_of(project)
    rules = load(folder.program)
    assert (rules.ban.axes, rules.stop.trials, rules.stop.dollars, rules.review.added_lines) == (("DEPTH",), 50, 5.0, 10)
    assert [event.kind for event in seen.events if isinstance(event, RulesChanged | Warned)] == ["rules_changed"] * 3
    assert (study.limits["trials"], study.limits["dollars"], study.trials, study.refused) == (50, 5.0, 5, 0)
    assert "DEPTH" not in {row.axis for row in study.rows if row.trial > 1}
    assert [row.budget_left.reviews if row.budget_left else None for row in study.rows[-2:]] == [20, 20]


def _steering(project: Path, recipes: list[str], stop: Path) -> Callable[[Entry, Study], None]:
    def act(entry: Entry, study: Study) -> None:
        if entry.event.kind == "settled" and entry.event.trial < len(recipes):
            set_rules(project, recipes[entry.event.trial])
        elif entry.event.kind == "settled" and study.trials == 5:
            stop.touch()

    return act
