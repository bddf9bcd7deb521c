"""One harness a study and one a device: held by the kernel, released by death, and never believed from the text alone."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import Locked, StorageFault, StudyUnknown
from harness.execution.device import Lock, lock_folder, read_holder
from harness.execution.process import boot_id, started_at
from tests.nights import LEAN, gate, must_be_whole, started, wait_for
from tests.projects import edits_file, folder_of, git, keeping_the_table, ratchet, resume_study, run_study, study_of


def test_a_second_harness_is_refused_by_name_and_a_third_starts_after_a_kill(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project, other = make_project(rules=LEAN), make_project(rules=LEAN)
    open_gate = gate(project, tmp_path / "gate")
    edits = edits_file(tmp_path, [{"VALUE": 1.2}])
    first = started(project, "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits))
    wait_for(project, '"kind":"launched"')
    second = ratchet(project, "resume", "--tag", "t")
    assert (second.returncode, second.stdout) == (75, "")
    assert f"process {first.pid} " in second.stderr
    with pytest.raises(Locked, match=f"device cpu is in use by process {first.pid} "):
        run_study(other)
    assert not (other / "runs").exists()
    assert git(other, "branch", "--list", "autoresearch/*") == ""
    holder = read_holder(folder_of(project).lock)
    assert holder is not None
    assert holder["pid"] == first.pid
    first.kill()
    first.wait()
    assert read_holder(folder_of(project).lock) is None
    open_gate.touch()
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    must_be_whole(project)


def test_of_many_harnesses_at_once_exactly_one_starts(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=LEAN)
    open_gate = gate(project, tmp_path / "gate")
    edits = edits_file(tmp_path, [{"VALUE": 1.2}])
    crowd = [started(project, "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits)) for _ in range(3)]
    wait_for(project, '"kind":"launched"')
    deadline = time.monotonic() + 20
    while len([p for p in crowd if p.poll() is None]) > 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    open_gate.touch()
    codes = sorted(process.wait() for process in crowd)
    assert codes[0] == 0
    assert set(codes[1:]) <= {2, 75}, codes
    must_be_whole(project)
    assert study_of(project).row_count == 1


def test_a_lock_has_one_holder_in_every_round_of_a_race(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for _ in range(10):
        start_reader, start_writer = os.pipe()
        done_reader, done_writer = os.pipe()
        children = [_contend(path, start_reader, start_writer, done_writer) for _ in range(4)]
        os.close(start_reader)
        os.close(start_writer)
        os.close(done_writer)
        with os.fdopen(done_reader) as done:
            answers = done.read()
        for child in children:
            os.waitpid(child, 0)
        assert sorted(answers) == ["0", "0", "0", "1"]


def _contend(path: Path, start: int, other_end: int, done: int) -> int:
    """A child that waits for the start, tries the lock, says 1 or 0, and holds on until all have said so."""
    child = os.fork()
    if child:
        return child
    os.close(other_end)
    os.read(start, 1)
    try:
        with Lock(path, "a race"):
            os.write(done, b"1")
            time.sleep(0.05)
    except Locked:
        os.write(done, b"0")
    os._exit(0)


def test_a_lock_whose_pid_now_belongs_to_another_program_holds_nobody_up(project: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    path = project / "runs" / "t" / "lock"
    path.parent.mkdir(parents=True)
    mine = {"pid": bystander.pid, "started": started_at(bystander.pid), "boot": boot_id(), "what": "the study t"}
    for lie in ({"started": 1.0}, {"boot": "another"}, {"pid": 2**22 + 1}, {"pid": "x"}):
        path.write_text(json.dumps(mine | lie))
        assert read_holder(path) is None
        with Lock(path, "the study t"):
            holder = read_holder(path)
            assert holder is not None
            assert holder["pid"] == os.getpid()
    path.write_text(json.dumps(mine | {"started": 1.0}))
    path.with_name("journal.jsonl").touch()
    stopped = ratchet(project, "stop", "--now", "--tag", "t")
    assert stopped.returncode == StudyUnknown.exit_code
    assert bystander.poll() is None
    bystander.kill()
    os.waitid(os.P_PID, bystander.pid, os.WEXITED | os.WNOWAIT)
    path.write_text(json.dumps(mine))
    assert read_holder(path) is None, "dead, though nobody has taken its exit code yet"
    bystander.wait()


def test_the_start_of_a_process_is_counted_from_boot_and_not_by_the_wall_clock() -> None:
    begun = started_at(os.getpid())
    assert begun is not None
    assert 0 < begun <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert started_at(2**22 + 1) is None


def test_a_lock_is_given_back_empty_and_can_be_taken_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    for _ in range(2):
        with Lock(path, "it"), pytest.raises(Locked, match=f"it is in use by process {os.getpid()} "):
            Lock(path, "it").__enter__()
        assert path.read_text() == ""


def test_a_folder_that_cannot_be_made_is_a_storage_fault_and_not_a_bug(project: Path) -> None:
    (project / "runs").write_text("a file\n")
    with pytest.raises(StorageFault, match="runs"):
        run_study(project)
    assert git(project, "branch", "--list", "autoresearch/*") == ""
    assert lock_folder().is_dir()
