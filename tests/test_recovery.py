"""The harness dies at every point where it writes, and in between; a restart ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.artifacts import journal
from harness.artifacts.events import Committed, Settled
from harness.control.verification import check
from harness.errors import BranchMoved
from harness.trial import Status
from tests.projects import (
    ROOT,
    Seen,
    edits_file,
    folder_of,
    git,
    keeping_the_table,
    ratchet,
    resume_study,
    run_study,
    set_rules,
    study_of,
)

LEAN = "[keep]\nbaseline_readings = 1"
REMEASURING = f"{LEAN}\nremeasure_incumbent_after = 1"
EDITS: list[dict[str, object]] = [{"VALUE": 1.1}, {"VALUE": 1.1}, {"VALUE": 1.3}, {"VALUE": 1.05}]
WHOLE_LIFE = [
    "journal:study_started", "journal:resumed", "journal:begun", "journal:committed", "journal:launched", "journal:interrupted", "journal:trained",
    "journal:scored", "journal:decided", "journal:settled",  # the baseline
    "proposal_stored", "journal:proposed", "journal:begun", "commit_written", "ref_written", "journal:committed", "journal:launched",
    "journal:interrupted", "journal:resumed", "journal:trained", "journal:scored", "journal:decided", "branch_moved", "journal:settled",  # a keep
    "journal:refused", "journal:decided", "journal:settled", "journal:launched", "journal:trained", "journal:bar_moved",  # a duplicate, a discard, and the incumbent once more
    "journal:stopped",
]  # fmt: skip
COMPARED = ("val_bpb", "status", "description", "trial", "reason", "gain", "bar", "sigma", "readings", "net_lines", "rule", "axis", "folder")


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
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    return subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def crash_at(project: Path, point: str, edits: Path | None = None) -> None:
    """A harness that dies at `point`: a copy of this process, which is cheaper than a new one. It starts the study when `edits` are given."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.environ["RATCHET_CRASH_AT"] = point
            seen = keeping_the_table(project)
            run_study(project, edits, seen=seen) if edits else resume_study(project, seen=seen)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 137, f"{point} was never reached"


def uninterrupted(make_project: Callable[..., Path], edits: Path, rules: str) -> list[dict[str, str]]:
    """The table that a study without any fault ends with."""
    project = make_project(rules=rules)
    run_study(project, edits, seen=keeping_the_table(project))
    return table(project)


def test_a_study_that_dies_at_every_point_in_turn_ends_as_one_that_never_died(make_project: Callable[..., Path], tmp_path: Path) -> None:
    edits = edits_file(tmp_path, EDITS)
    expected = uninterrupted(make_project, edits, REMEASURING)
    project = make_project(rules=REMEASURING)
    crash_at(project, WHOLE_LIFE[0], edits)
    for point in WHOLE_LIFE[1:]:
        crash_at(project, point)
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    assert [row["status"] for row in expected] == ["keep", "keep", "discard", "keep"]
    assert table(project) == expected
    must_be_whole(project)
    assert study_of(project).refused == 1
    assert len(study_of(project).rereadings[1]) == 2


@pytest.mark.parametrize("point", ["journal:committed", "journal:launched", "journal:trained", "journal:decided", "branch_moved", "journal:settled"])
def test_the_command_line_dies_once_and_resumes_to_the_same_table(make_project: Callable[..., Path], tmp_path: Path, point: str) -> None:
    edits = edits_file(tmp_path, EDITS[:1])
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    died = ratchet(project, "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits), env={"RATCHET_CRASH_AT": point})
    assert died.returncode == 137
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    assert [row["status"] for row in table(project)] == ["keep", "keep"]
    assert [row["val_bpb"] for row in table(project)] == ["1.199000", "1.099000"]
    must_be_whole(project)


@pytest.mark.parametrize("point", ["study", "branch", "torn"])
def test_a_start_that_dies_before_its_first_event_is_started_again(make_project: Callable[..., Path], tmp_path: Path, point: str) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    folder = folder_of(project)
    folder.path.mkdir(parents=True)
    if point != "study":
        git(project, "branch", "autoresearch/t")
    if point == "torn":
        folder.journal.write_bytes(b'0123abcd {"seq":0,"prev"')
    run_study(project, edits_file(tmp_path, EDITS[:1]), seen=keeping_the_table(project))
    must_be_whole(project)


def test_a_killed_harness_leaves_no_trainer_behind_and_its_trial_runs_once_more(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f'{LEAN}\n[stop]\ntrials = 2\n[trial]\nclock = "wall"\namount = 15')
    slow = {"MODE": "stubborn", "SECONDS": 0.8}
    edits = edits_file(tmp_path, [{"VALUE": 1.1} | slow, {"VALUE": 1.05, "MODE": "ok"}])
    harness = started(project, "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits))
    wait_for(project, '"kind":"launched","trial":1')
    time.sleep(0.3)
    harness.kill()
    harness.wait()
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    must_be_whole(project)
    study = study_of(project)
    assert [row.status for row in study.rows] == [Status.KEEP] * 3
    assert [row.interruptions for row in study.rows] == [0, 1, 0]


def test_a_trained_model_is_scored_after_a_kill_without_training_again(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    crash_at(project, "journal:trained", edits_file(tmp_path, EDITS[:1]))
    seen = keeping_the_table(project)
    resume_study(project, seen=seen)
    assert seen.kinds()[:2] == ["resumed", "scored"]
    assert seen.kinds().count("launched") == 1, "only the trial after the baseline"
    must_be_whole(project)


def test_a_changed_checkpoint_is_never_scored_but_trained_anew(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    crash_at(project, "journal:trained", edits_file(tmp_path, EDITS[:1]))
    checkpoint = folder_of(project).trial("0000-baseline").reading(0).checkpoint
    checkpoint.write_bytes(checkpoint.read_bytes().replace(b"1.199", b"0.199"))
    seen = keeping_the_table(project)
    resume_study(project, seen=seen)
    assert seen.kinds()[:4] == ["resumed", "interrupted", "launched", "trained"]
    assert table(project)[0]["val_bpb"] == "1.199000"
    must_be_whole(project)


def test_a_trial_that_the_machine_ends_twice_is_interrupted_and_no_crash(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 3\n[escalation]\nconsecutive_crashes = 1")
    edits = edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.05}, {"VALUE": 1.05}])
    run_study(project, edits, trials=1)
    crash_at(project, "proposal_stored")
    set_rules(project, "[stop]\ntrials = 4")
    for _ in range(2):
        child = started(project, "resume", "--trials", "3", RATCHET_CRASH_AT="journal:launched")
        assert child.wait() == 137
    seen = keeping_the_table(project)
    resume_study(project, seen=seen, trials=3)
    study = study_of(project)
    assert [row.status for row in study.rows] == [Status.KEEP, Status.KEEP, Status.INTERRUPTED, Status.KEEP]
    assert study.crashes_in_a_row == 0
    assert study.refused == 0, "the machine ended it, so the idea may come again"
    assert table(project)[2]["val_bpb"] == ""
    must_be_whole(project)


def test_a_job_that_outlived_its_harness_is_never_believed(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    crash_at(project, "journal:launched", edits_file(tmp_path, EDITS[:1]))
    reading = folder_of(project).trial("0000-baseline").reading(0)
    reading.checkpoint.write_text(json.dumps({"value": 0.5}))
    resume_study(project, seen=keeping_the_table(project))
    assert study_of(project).rows[0].value == pytest.approx(1.199)
    must_be_whole(project)


def test_an_orphan_is_ended_only_when_pid_start_time_and_boot_agree(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    bystander = subprocess.Popen(["sleep", "60"])
    crash_at(project, "journal:launched", edits_file(tmp_path, EDITS[:1]))
    path = folder_of(project).journal
    *before, last = path.read_bytes().splitlines(keepends=True)
    launched = json.loads(last[9:])
    assert launched["event"]["kind"] == "launched"
    launched["event"]["pid"] = bystander.pid
    path.write_bytes(b"".join(before))
    rewrite(path, launched)
    resume_study(project, seen=keeping_the_table(project))
    assert bystander.poll() is None, "its pid was reused, its start time is another"
    bystander.kill()
    bystander.wait()


def rewrite(path: Path, entry: dict[str, object]) -> None:
    """Append an entry as the journal would."""
    import zlib

    body = json.dumps(entry, separators=(",", ":")).encode()
    with path.open("ab") as file:
        file.write(b"%08x %s\n" % (zlib.crc32(body), body))


@pytest.mark.parametrize(
    ("damage", "aside"),
    [
        (lambda data: None, 0),
        (lambda data: data.replace(b"1.199", b"0.199"), 1),
        (lambda data: data.replace(b"\n", b"\r\n"), 1),
        (lambda data: data[:-20], 1),
        (lambda data: data + data.splitlines(keepends=True)[-1], 1),
        (lambda data: b"\0" * len(data), 1),
    ],
    ids=["deleted", "edited", "spreadsheet", "torn", "doubled", "zeroed"],
)
def test_a_damaged_table_is_rebuilt_and_the_old_one_kept(project: Path, tmp_path: Path, damage: Callable[[bytes], bytes | None], aside: int) -> None:
    global _table_study
    if _table_study is None:
        set_rules(project, LEAN)
        run_study(project, edits_file(tmp_path, EDITS[:1]), seen=keeping_the_table(project))
        _table_study = project
    project = _table_study
    own, before = folder_of(project).results, folder_of(project).results.read_bytes()
    for old in [*own.parent.glob("results.tsv.bad-*"), *project.glob("results.tsv.bad-*")]:
        old.unlink()
    after = damage(before)
    for path in (own, project / "results.tsv"):
        path.unlink() if after is None else path.write_bytes(after)
    resume_study(project, seen=keeping_the_table(project))
    assert own.read_bytes() == before == (project / "results.tsv").read_bytes()
    kept = [path.read_bytes() for path in own.parent.glob("results.tsv.bad-*")]
    assert kept == [after] * aside


_table_study: Path | None = None


def test_a_branch_that_moved_while_nobody_ran_stops_the_resume(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    crash_at(project, "journal:decided", edits_file(tmp_path, EDITS[:1]))
    base = git(project, "rev-parse", "HEAD")
    theirs = git(project, "commit-tree", f"{base}^{{tree}}", "-p", base, "-m", "theirs")
    git(project, "update-ref", "refs/heads/autoresearch/t", theirs)
    before = folder_of(project).journal.read_bytes()
    with pytest.raises(BranchMoved) as caught:
        resume_study(project)
    assert base[:12] in str(caught.value)
    assert theirs[:12] in str(caught.value)
    assert folder_of(project).journal.read_bytes() == before
    assert git(project, "rev-parse", "autoresearch/t") == theirs
    git(project, *str(caught.value).split("`")[1].split()[1:])
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    must_be_whole(project)


def test_a_branch_that_is_moved_during_the_night_stops_it_and_nothing_is_forced(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=LEAN)
    seen = Seen()
    theirs = git(project, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "theirs")

    def move(entry: object, study: object) -> None:
        if seen.kinds()[-1] == "decided" and seen.kinds().count("decided") == 2:
            git(project, "update-ref", "refs/heads/autoresearch/t", theirs)

    seen.on_event = move
    with pytest.raises(BranchMoved):
        run_study(project, edits_file(tmp_path, EDITS[:1]), seen=seen)
    assert git(project, "rev-parse", "autoresearch/t") == theirs
    git(project, "update-ref", "refs/heads/autoresearch/t", "HEAD")
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    must_be_whole(project)


def test_stale_locks_of_a_killed_git_do_not_stop_a_resume(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    crash_at(project, "journal:settled", edits_file(tmp_path, EDITS[:1]))
    lock = project / ".git" / "refs" / "autoresearch" / "t" / "trials" / "000001.lock"
    lock.write_text("")
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    assert any(str(lock) in warning for warning in study_of(project).warnings)
    must_be_whole(project)


