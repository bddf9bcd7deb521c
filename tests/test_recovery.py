"""The harness dies at every point where it writes, and in between; a restart ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from harness.errors import BranchMoved
from harness.trial import Status
from tests.nights import LEAN, NO_PICTURES, crash_at, must_be_whole, started, table, wait_for
from tests.projects import (
    Seen,
    edits_file,
    folder_of,
    git,
    keeping_the_table,
    make_project,
    ratchet,
    resume_study,
    run_study,
    set_rules,
    study_of,
)

NO_IDEA: list[dict[str, object]] = [{"VALUE": 1.2}]  # no change: refused, so that the baseline is all there is to train
REMEASURING = f"{LEAN}\nremeasure_incumbent_after = 1\n[run]\nthreads = 2"
EDITS: list[dict[str, object]] = [{"VALUE": 1.1}, {"VALUE": 1.1}, {"VALUE": 1.3}, {"VALUE": 1.05}]
WHOLE_LIFE = [
    "journal:study_started", "journal:resumed", "journal:begun", "journal:committed", "journal:launched", "journal:interrupted", "journal:trained",
    "journal:scored", "journal:decided", "journal:settled",  # the baseline
    "proposal_stored", "journal:proposed", "journal:begun", "commit_written", "ref_written", "journal:committed", "journal:launched",
    "journal:interrupted", "journal:resumed", "journal:trained", "journal:scored", "journal:decided", "branch_moved", "journal:settled",  # a keep
    "journal:refused", "journal:decided", "journal:settled", "journal:launched", "journal:trained", "journal:scored", "journal:bar_moved",  # a duplicate, a discard, and the incumbent once more
    "journal:stopped",
]  # fmt: skip


def uninterrupted(make_project: Callable[..., Path], edits: Path, rules: str) -> list[dict[str, str]]:
    """The table that a study without any fault ends with."""
    project = make_project(rules=rules)
    run_study(project, edits, seen=keeping_the_table(project))
    return table(project)


@pytest.mark.slow
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


@pytest.mark.parametrize("point", ["journal:launched", "branch_moved"])
@pytest.mark.slow
def test_the_command_line_dies_once_and_resumes_to_the_same_table(make_project: Callable[..., Path], tmp_path: Path, point: str) -> None:
    edits = edits_file(tmp_path, EDITS[:1])
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    died = ratchet(project, "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits), env={"RATCHET_CRASH_AT": point})
    assert died.returncode == 137
    again = ratchet(project, "resume", env=NO_PICTURES)
    assert (again.returncode, again.stderr) == (0, "")
    assert [row["status"] for row in table(project)] == ["keep", "keep"]
    assert [row["val_bpb"] for row in table(project)] == ["1.199000", "1.099000"]
    must_be_whole(project)


@pytest.mark.parametrize("point", ["branch", "torn"])
def test_a_start_that_dies_before_its_first_event_is_started_again(make_project: Callable[..., Path], tmp_path: Path, point: str) -> None:
    project = make_project(rules=LEAN)
    folder = folder_of(project)
    folder.path.mkdir(parents=True)
    git(project, "branch", "autoresearch/t")
    if point == "torn":
        folder.journal.write_bytes(b'0123abcd {"seq":0,"prev"')
    run_study(project, edits_file(tmp_path, NO_IDEA), seen=keeping_the_table(project))
    must_be_whole(project)


@pytest.mark.slow
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
    project = make_project(rules=LEAN)
    crash_at(project, "journal:trained", edits_file(tmp_path, NO_IDEA))
    seen = keeping_the_table(project)
    resume_study(project, seen=seen)
    assert seen.kinds()[:2] == ["resumed", "scored"]
    assert "launched" not in seen.kinds()
    must_be_whole(project)


def test_a_changed_checkpoint_is_never_scored_but_trained_anew(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=LEAN)
    crash_at(project, "journal:trained", edits_file(tmp_path, NO_IDEA))
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
    for _ in range(2):
        crash_at(project, "journal:launched", trials=3)
    seen = keeping_the_table(project)
    resume_study(project, seen=seen, trials=3)
    study = study_of(project)
    assert [row.status for row in study.rows] == [Status.KEEP, Status.KEEP, Status.INTERRUPTED, Status.KEEP]
    assert study.crashes_in_a_row == 0
    assert study.refused == 0, "the machine ended it, so the idea may come again"
    assert table(project)[2]["val_bpb"] == ""
    must_be_whole(project)


def test_a_machine_that_ends_the_baseline_again_and_again_pauses_the_study_and_does_not_end_it(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(rules=LEAN)
    crash_at(project, "journal:launched", edits_file(tmp_path, NO_IDEA))
    for _ in range(2):
        crash_at(project, "journal:launched")
    paused = resume_study(project, seen=keeping_the_table(project))
    assert (paused.reason, paused.exit_code) == ("infrastructure", 75)
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    assert study_of(project).rows[0].status is Status.KEEP
    must_be_whole(project)


def test_a_proposal_that_could_not_be_made_is_refused_in_one_event_and_resumes(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    edits = tmp_path / "edits.toml"
    edits.write_text(
        '[[proposals]]\ntitle = "misses"\nfind = "nowhere"\nreplace = "x"\n[[proposals]]\ntitle = "hits"\nset = { VALUE = 1.1 }\n'
    )
    crash_at(project, "journal:refused", edits)
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    study = study_of(project)
    assert [(one.proposal, one.reason) for one in study.refusals] == [(1, "edit_failed")]
    assert [row.title for row in study.rows] == ["baseline", "hits"]
    must_be_whole(project)


def test_a_job_that_outlived_its_harness_is_never_believed(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=LEAN)
    crash_at(project, "journal:launched", edits_file(tmp_path, NO_IDEA))
    reading = folder_of(project).trial("0000-baseline").reading(0)
    reading.checkpoint.write_text(json.dumps({"value": 0.5}))
    resume_study(project, seen=keeping_the_table(project))
    assert study_of(project).rows[0].value == pytest.approx(1.199)
    must_be_whole(project)


def test_an_orphan_is_ended_only_when_pid_start_time_and_boot_agree(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=LEAN)
    bystander = subprocess.Popen(["sleep", "60"])
    crash_at(project, "journal:launched", edits_file(tmp_path, NO_IDEA))
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
    body = json.dumps(entry, separators=(",", ":")).encode()
    with path.open("ab") as file:
        file.write(b"%08x %s\n" % (zlib.crc32(body), body))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A study of one trial that has ended."""
    top = tmp_path_factory.mktemp("finished")
    project = make_project(top / "project", rules=LEAN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RATCHET_LOCKS", str(top / "locks"))
        run_study(project, edits_file(top, EDITS[:1]), seen=keeping_the_table(project))
    yield project


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
def test_a_damaged_table_is_rebuilt_and_the_old_one_kept(finished: Path, damage: Callable[[bytes], bytes | None], aside: int) -> None:
    project = finished
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


def test_a_branch_that_moved_while_nobody_ran_stops_the_resume(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=LEAN)
    crash_at(project, "journal:decided", edits_file(tmp_path, NO_IDEA))
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
    project = make_project(rules=LEAN)
    crash_at(project, "journal:settled", edits_file(tmp_path, NO_IDEA))
    lock = project / ".git" / "refs" / "autoresearch" / "t" / "trials" / "000001.lock"
    lock.write_text("")
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    assert any(str(lock) in warning for warning in study_of(project).warnings)
    must_be_whole(project)


def test_a_flag_of_resume_outlives_an_edit_made_before_it_even_with_a_trial_open(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    crash_at(project, "journal:committed", edits_file(tmp_path, [{"VALUE": 1.3 + n / 100} for n in range(9)]))
    set_rules(project, "[stop]\ntrials = 2")
    resume_study(project, trials=3)
    assert study_of(project).trials == 3


def test_time_that_a_killed_harness_worked_is_counted(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=LEAN)
    crash_at(project, "journal:launched", edits_file(tmp_path, NO_IDEA))
    reading = folder_of(project).trial("0000-baseline").reading(0)
    before = study_of(project)
    last = datetime.strptime(before.last_at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
    os.utime(reading.train_log, (last + 40, last + 40))
    (reading.path / "dangling").symlink_to("nowhere")
    seen = keeping_the_table(project)
    resume_study(project, seen=seen)
    assert 40 <= study_of(project).elapsed < 60


def test_a_fault_of_ours_on_the_baseline_is_tried_again_and_never_ends_the_study_for_good(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    good = (project / "prepare.py").read_text()
    (project / "prepare.py").write_text(good.replace("def evaluate() -> None:\n", "def evaluate() -> None:\n    raise SystemExit(1)\n"))
    git(project, "commit", "-qam", "a broken evaluator")
    stop = run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]))
    assert (stop.reason, stop.exit_code) == ("infrastructure", 75)
    study = study_of(project)
    assert study.current is not None
    assert (study.current.trial, study.baseline) == (0, None)
