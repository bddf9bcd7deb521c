"""Promises that no single part makes alone: the layout, the loop's order, what moves the branch, what a row says, who may write, who decides."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import tomli

from harness.artifacts import journal
from harness.artifacts.events import Begun, Decided, Entry, Launched, RulesChanged, StudyStarted
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.control.loop import run_study as loop
from harness.evaluation import judge
from harness.proposers.editor import Editor
from harness.proposers.lookups import NAMES, Lookups
from harness.proposers.toolbox import EDITOR, MESSAGES_TOOL_NAMES, SUBMIT, Toolbox, submission
from harness.trial import MEASURED, Bar, Reading, Status, Stop, Verdict
from harness.views import results
from tests import study_factory
from tests.projects import ROOT, Seen, edits_file, folder_of, git, make_project, run_study, study_of
from tests.test_imports import imported
from tests.test_judge import NOISE, change, judged, reading
from tests.test_judge import rules as judge_rules
from tests.test_toolbox import GOOD, RULES

EDITS: list[dict[str, object]] = [{"VALUE": 1.1}, {"VALUE": 1.3}, {"MODE": "crash", "VALUE": 1.0}, {"VALUE": 1.31}, {"VALUE": 1.05}]


LIFE = ("begun", "committed", "launched", "trained", "scored", "decided", "settled")


@dataclass(frozen=True)
class Lived:
    """A night that has ended: its project, its events, and where the branch was after each of them."""

    project: Path
    events: list[tuple[str, int | None]]
    tips: list[str]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """A keep, a regression, a crash, a regression, a keep."""
    top = tmp_path_factory.mktemp("night")
    project = make_project(top / "project", rules="[stop]\ntrials = 5")
    events: list[tuple[str, int | None]] = []
    tips: list[str] = []

    def look(entry: Entry, _study: Study) -> None:
        events.append((entry.event.kind, getattr(entry.event, "trial", None)))
        tips.append(git(project, "rev-parse", "autoresearch/t"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RATCHET_LOCKS", str(top / "locks"))
        run_study(project, edits_file(top, EDITS), seen=Seen(on_event=look))
    return Lived(project, events, tips)


# ------------------------------------------------------------------------------------------------------ layout and loop
def test_the_packages_it_is_built_on_are_dependencies() -> None:
    wanted = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {"torch", "numpy", "gitpython", "anthropic", "tomli", "matplotlib"} <= {re.split(r"[<>=~! ]", one)[0] for one in wanted}


def test_the_seven_names_at_the_top_are_there_and_a_study_adds_its_two(night: Lived) -> None:
    assert [name for name in ("prepare.py", "train.py", "program.md", "harness", "pyproject.toml") if not (ROOT / name).exists()] == []
    assert (night.project / "results.tsv").parent == (night.project / "runs").parent
    assert (night.project / "runs" / "t" / "journal.jsonl").is_file()


@dataclass
class Said:
    """Ports that remember who was called: a fake night of three trials, one of which a restart interrupts."""

    verdicts: list[Status]
    calls: list[str] = field(default_factory=list)
    interrupt: bool = False

    def baseline(self) -> bool:
        self.calls.append("baseline")
        return self.calls.count("baseline") > 1

    def inspect(self) -> Stop | None:
        self.calls.append("inspect")
        return None if self.verdicts or "baseline" not in self.calls else Stop(reason="trials", sentence="all are done", exit_code=0)

    def propose(self) -> bool:
        self.calls.append("propose")
        return True

    def apply(self) -> None:
        self.calls.append("apply")

    def evaluate(self) -> Sequence[Reading]:
        self.calls.append("evaluate")
        self.interrupt = not self.interrupt
        return () if self.interrupt else (reading(1.0),)

    def better(self, readings: Sequence[Reading]) -> Verdict:
        self.calls.append("better")
        return Verdict(status=self.verdicts.pop(0), reason="said", rule="debiased")

    def keep(self) -> None:
        self.calls.append("keep")

    def revert(self) -> None:
        self.calls.append("revert")


def test_the_loop_proposes_applies_evaluates_and_then_keeps_or_reverts() -> None:
    ports = Said([Status.KEEP, Status.DISCARD])
    assert loop(ports).reason == "trials"
    cut, whole = ["propose", "apply", "evaluate"], ["propose", "apply", "evaluate", "better"]
    turns = " ".join(ports.calls).replace("inspect baseline", "|").split("|")
    assert [turn.split() for turn in turns] == [[], [], cut, [*whole, "keep"], cut, [*whole, "revert", "inspect"]]


# ------------------------------------------------------------------------------------------------------ what moves the branch
def test_only_a_keep_of_the_judge_moves_the_branch_and_a_crash_or_a_regression_leaves_it(night: Lived) -> None:
    study, tips = study_of(night.project), night.tips
    moved = [n for n in range(1, len(tips)) if tips[n] != tips[n - 1]]
    assert [night.events[n] for n in moved] == [("settled", 1), ("settled", 5)]
    assert [night.events[n - 1] for n in moved] == [("decided", 1), ("decided", 5)], "the decision is on disk before the branch moves"
    assert [study.rows[night.events[n][1] or 0].commit for n in moved] == [tips[n] for n in moved]
    ends = {row.trial: row.status for row in study.rows}
    assert ends == {0: Status.KEEP, 1: Status.KEEP, 2: Status.DISCARD, 3: Status.CRASH, 4: Status.DISCARD, 5: Status.KEEP}


def test_what_was_rolled_back_is_the_parent_of_nothing(night: Lived) -> None:
    tip = None
    for row in study_of(night.project).rows:
        assert tip is None or row.parent == tip, row.trial
        tip = row.commit if row.status is Status.KEEP else tip
    assert git(night.project, "rev-parse", "autoresearch/t") == tip


def test_every_row_names_the_rule_that_judged_it_and_what_was_left_of_the_budget(night: Lived) -> None:
    header, *lines = [line.split("\t") for line in folder_table(night).splitlines()]
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    assert [row["rule"] for row in rows] == ["debiased"] * 6
    assert [re.findall(r"trials=(\d+)", row["budget_left"]) for row in rows] == [["5"], ["4"], ["3"], ["2"], ["1"], ["0"]]
    assert all(re.search(r"crashes=\d", row["budget_left"]) and row["reason"] for row in rows)


def folder_table(night: Lived) -> str:
    """The table as the views make it from the journal."""
    study = study_of(night.project)
    return "\n".join([results.header("val_bpb"), *(results.row_line(row) for row in study.rows)])


def test_every_decision_carries_the_digest_of_the_rules_in_force_when_its_trial_began(night: Lived) -> None:
    in_force, began = "", {}
    for entry, _ in journal.read(folder_of(night.project).journal):
        event = entry.event
        if isinstance(event, StudyStarted):
            in_force = event.rules_digest
        elif isinstance(event, RulesChanged):
            in_force = event.digest
        elif isinstance(event, Begun):
            began[event.trial] = in_force
        elif isinstance(event, Decided):
            assert event.rules_digest == began[event.trial] != ""


def test_a_trial_is_begun_committed_launched_trained_scored_decided_and_settled_each_once_and_in_this_order(night: Lived) -> None:
    """Admitted in its scope, stored as a commit, trained, measured, decided, settled: in this order and each once."""
    for trial in (1, 2, 3, 4, 5):
        kinds = [kind for kind, of in night.events if of == trial and kind in LIFE]
        crashed = trial == 3
        assert kinds == ["begun", "committed", "launched", "trained", *([] if crashed else ["scored"]), "decided", "settled"]


def test_a_row_has_a_word_for_people_and_the_journal_also_the_reason(night: Lived) -> None:
    words = {row.split("\t")[3] for row in folder_table(night).splitlines()[1:]}
    assert words == {"keep", "discard", "crash"} <= {status.value for status in Status}
    for row in study_of(night.project).rows:
        assert row.verdict is not None and row.verdict.reason and row.verdict.reason != row.verdict.status.value


# ------------------------------------------------------------------------------------------------------ who decides
def test_who_proposes_has_no_part_in_the_verdict() -> None:
    """The judge is given neither the proposal nor its words, and knows no proposer, model or network."""
    given = {name for one in (judge.judge, judge.judge_all, judge.judge_baseline) for name in inspect.signature(one).parameters}
    assert given == {"rules", "bar", "reading", "readings", "noise", "change", "baseline", "cpu_cap", "paired"}
    source = inspect.getsource(judge)
    assert not re.search(r"proposers|confidence|expected_effect|hypothesis", source)
    assert not imported("harness.evaluation.judge")["harness.evaluation.judge"] & {"socket", "ssl", "http", "anthropic"}


def test_readings_that_disagree_are_neither_averaged_nor_outvoted() -> None:
    good, bad = reading(1.0), reading(1.49).model_copy(update={"replicate": 1, "seed": 1})
    for readings in ([good, bad], [good, bad, good], [good, bad, good, good]):
        verdict = judge.judge_all(judge_rules(), Bar(ref=1.5), readings, NOISE, change(), None)
        assert (verdict.status, verdict.reason) == (Status.DISCARD, "not_confirmed")
        assert verdict.value == 1.0, "the value told is one that was read, not a mean"


def test_an_equal_reading_is_kept_only_when_the_change_takes_lines_away() -> None:
    assert [judged(1.5, net=net).status for net in (-1, 0, 1)] == [Status.KEEP, Status.DISCARD, Status.DISCARD]
    assert judged(1.5, net=-1).reason == "equal_and_shorter"


# ------------------------------------------------------------------------------------------------------ who may write
def test_of_a_models_tools_one_writes_and_none_is_a_shell(tmp_path: Path) -> None:
    assert set(MESSAGES_TOOL_NAMES) == {EDITOR, SUBMIT, *NAMES}
    editor, study = Editor({"train.py": "A = 1\n"}), study_factory.study(3)
    made = Toolbox(editor, Lookups(lambda: study, StudyDir(tmp_path, "mar8"), RULES))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for name in NAMES:
        for given in ({"number": 1}, {"words": "rate"}, {}, {"command": "create", "path": "train.py", "file_text": "B = 2\n"}):
            made.run(name, given)
    for name in ("bash", "shell", "python", "web_search"):
        assert made.run(name, {"command": "echo B > train.py"}).is_error
    assert editor.files == {"train.py": "A = 1\n"} and {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    made.run(EDITOR, {"command": "str_replace", "path": "train.py", "old_str": "1", "new_str": "2"})
    assert editor.files == {"train.py": "A = 2\n"}


@pytest.mark.parametrize("empty", ["", "   ", None])
def test_a_proposal_that_does_not_say_what_would_refute_it_is_not_taken(empty: str | None) -> None:
    left_out = {name: value for name, value in GOOD.items() if name != "refuted_if"}
    for given in (left_out, {**left_out, "refuted_if": empty}):
        found = submission(given)
        assert isinstance(found, str) and "refuted_if" in found


def test_what_failed_is_still_told_to_the_next_proposer(night: Lived) -> None:
    study, folder = study_of(night.project), folder_of(night.project)
    asked = Lookups(lambda: study, folder, RULES)
    told = asked.run("trial", {"number": 3})
    assert not told.is_error and "boom" in told.text
    assert git(night.project, "cat-file", "-t", study.rows[3].commit or "") == "commit", "a dead end stays readable"
    launched = [entry.event for entry, _ in journal.read(folder.journal) if isinstance(entry.event, Launched)]
    assert len(launched) == study.row_count and {row.status for row in study.rows} >= MEASURED
