"""Signals and terminals: once ends the trial cleanly, twice everything at once, and a terminal that goes away changes nothing."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.artifacts import journal
from harness.artifacts.events import Event, Interrupted, Stopped
from harness.errors import StudyUnknown
from harness.trial import Status
from tests.nights import LEAN, NO_PICTURES, gate, must_be_whole, no_job_of, started, wait_for
from tests.projects import edits_file, folder_of, keeping_the_table, ratchet, resume_study, study_of

ONE = f"{LEAN}\n[stop]\ntrials = 1"
LAUNCHED = '"kind":"launched"'


def held(project: Path, tmp_path: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """A harness whose first training waits at a gate; returns it and the gate."""
    open_gate = gate(project, tmp_path / "gate")
    edits = edits_file(tmp_path, [{"VALUE": 1.2}])
    harness = started(project, "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits))
    wait_for(project, LAUNCHED)
    return harness, open_gate


def events(project: Path) -> list[Event]:
    """All events of the journal."""
    return [entry.event for entry, _ in journal.read(folder_of(project).journal)]


def goes_on(project: Path, open_gate: Path) -> None:
    """A resume ends the study as if nothing had been."""
    open_gate.touch()
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    assert all(row.status is Status.KEEP for row in study_of(project).rows)
    assert study_of(project).rows[0].interruptions == 0, "what a person ends is not charged"
    must_be_whole(project)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.slow
def test_one_signal_ends_the_trial_cleanly_and_the_study_can_go_on(
    make_project: Callable[..., Path], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    project = make_project(rules=ONE)
    harness, open_gate = held(project, tmp_path)
    harness.send_signal(number)
    assert harness.wait(timeout=10) == code
    *_, cut, end = events(project)
    assert isinstance(cut, Interrupted)
    assert not cut.charged
    assert isinstance(end, Stopped)
    assert (end.stop.reason, end.stop.exit_code) == (number.name.lower(), code)
    assert no_job_of(project) == []
    if number == signal.SIGINT:
        goes_on(project, open_gate)


def test_two_interrupts_end_everything_at_once(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f'{ONE}\n[sandbox]\nlevel = "none"', train={"MODE": "stubborn", "SECONDS": 60.0})
    harness = started(project, "run", "--tag", "t")
    wait_for(project, LAUNCHED)
    deadline = time.monotonic() + 10
    while len(no_job_of(project)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(no_job_of(project)) == 2, "a trainer and its helper, both deaf to TERM"
    harness.send_signal(signal.SIGINT)
    time.sleep(0.3)
    began = time.monotonic()
    harness.send_signal(signal.SIGINT)
    assert harness.wait(timeout=5) == 130
    assert time.monotonic() - began < 2
    assert no_job_of(project) == []


def test_ctrl_c_in_the_middle_of_a_git_command_does_not_break_it(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE)
    shim = tmp_path / "bin" / "git"
    shim.parent.mkdir()
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    shim.write_text(f'#!/bin/sh\ncase "$*" in *commit-tree*) kill -INT "-$PPID"; sleep 0.1;; esac\nexec {real} "$@"\n')
    shim.chmod(0o755)
    edits = edits_file(tmp_path, [{"VALUE": 1.1}])
    harness = subprocess.Popen(
        [sys.executable, "-m", "harness", "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits)],
        cwd=project,
        env={**os.environ, **NO_PICTURES, "PATH": f"{shim.parent}:{os.environ['PATH']}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    _, said = harness.communicate(timeout=30)
    assert harness.returncode == 130, said
    assert study_of(project).current is not None
    goes_on(project, tmp_path / "gate")


@pytest.mark.slow
def test_ratchet_stop_waits_for_the_trial_and_now_does_not(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE)
    harness, open_gate = held(project, tmp_path)
    asked = ratchet(project, "stop")
    assert (asked.returncode, f"process {harness.pid}" in asked.stdout) == (0, True)
    now = ratchet(project, "stop", "--now")
    assert (now.returncode, "now" in now.stdout) == (0, True)
    assert harness.wait(timeout=10) == 130
    stop = study_of(project).stop
    assert stop is not None and (stop.reason, stop.sentence) == ("asked", "`ratchet stop --now` asked for it; `ratchet resume` goes on")
    assert "running" not in ratchet(project, "log").stdout
    none = ratchet(project, "stop")
    assert none.returncode == StudyUnknown.exit_code
    assert "no harness" in none.stderr
    assert folder_of(project).stop_request.exists(), "asked for, but the interrupt came first"
    goes_on(project, open_gate)


def test_a_stop_that_was_asked_for_comes_after_the_trial(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE)
    harness, open_gate = held(project, tmp_path)
    folder_of(project).stop_request.touch()
    open_gate.touch()
    assert harness.wait(timeout=20) == 0
    study = study_of(project)
    assert study.stop is not None
    assert (study.stop.reason, study.row_count) == ("asked", 1)
    must_be_whole(project)


def test_a_closed_terminal_leaves_the_study_running_to_its_end(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE)
    open_gate = gate(project, tmp_path / "gate")
    edits = edits_file(tmp_path, [{"VALUE": 1.2}])
    child, master = pty.fork()
    if child == 0:
        os.chdir(project)
        environment = {**os.environ, **NO_PICTURES, "TERM": "xterm"}
        command = [sys.executable, "-m", "harness", "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits)]
        os.execve(sys.executable, command, environment)
    wait_for(project, LAUNCHED)
    os.close(master)
    time.sleep(0.1)
    open_gate.touch()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    must_be_whole(project)
    log = folder_of(project).console_log.read_text().splitlines()
    assert "exit code 0" in log[-1]
    assert any("baseline" in line for line in log)


def test_a_reader_of_the_output_that_goes_away_changes_no_exit_code(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE, train={"MODE": "crash"})
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "harness", "run", "--tag", "t"]
    done = subprocess.run(command, cwd=project, env={**os.environ, **NO_PICTURES}, stdout=writer, stderr=writer, check=False)
    os.close(writer)
    assert done.returncode == 4
    assert "exit code 4" in folder_of(project).console_log.read_text()
