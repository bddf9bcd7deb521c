"""Candidates that fill their space, flood their log, hog memory or cling to life: it costs them their own trial, and the next one starts clean."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.control.verification import check
from harness.execution.sandbox.box import Sandbox
from harness.trial import JobEnd, Status
from tests import cages
from tests.jobs import OPEN, SAVE, SETUP, Bench, rules, spec
from tests.nights import must_be_whole
from tests.projects import folder_of, keeping_the_table, make_project, run_study, study_of

MIB = 1 << 20
LATE = {(Status.TIMEOUT, "training"), (Status.TIMEOUT, "compute_cap")}  # a chain of forks may use up the CPU time first
FILL = """    import itertools
    for number in itertools.count():
        with open(f"{os.environ['TMPDIR']}/{number}", "wb", buffering=0) as file:
            for _ in range(8):
                file.write(b"x" * (1 << 20))
"""
FLOOD = """    block = b"x" * (1 << 20)
    for _ in range(8):
        os.write(1, block)
    os.close(1)
    os.close(2)
    train(value)
"""
HOG = """    hold = []
    while True:
        hold.append(bytearray(os.urandom(1) * (8 << 20)))
        time.sleep(0.01)
"""
CLING = """    import signal
    for number in (1, 2, 15):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(600)
        end = time.monotonic() + 600
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
            os.setsid()
            time.sleep(0.002)
        os._exit(0)
    time.sleep(600)
"""


def edits(folder: Path, *bodies: str) -> Path:
    """Each replaces the training of the stub by some lines; the last proposal is an honest one."""
    proposals: list[dict[str, Any]] = [
        {"title": f"greedy {n}", "find": "    train(value)\n", "replace": body} for n, body in enumerate(bodies, 1)
    ]
    proposals.append({"title": "honest", "set": {"VALUE": 1.1}})
    path = folder / "greedy.json"
    path.write_text(json.dumps({"proposals": proposals}))
    return path


@pytest.mark.slow
def test_a_night_of_greedy_candidates_ends_each_by_its_name_and_judges_the_honest_one(box: Sandbox, tmp_path: Path) -> None:
    """In whatever sandbox this machine has. The harness's own memory, record and folder are as after a quiet night."""
    limits = "[trial]\ntrain_seconds = 6\nmemory_mb = 300\n[sandbox]\nscratch_mb = 32\n[log]\ntrain_log_kb = 64\n[stop]\ntrials = 5\n[escalation]\nconsecutive_crashes = 9"
    project = make_project(tmp_path / "p", rules=f"[keep]\nbaseline_readings = 1\n{limits}")
    before = psutil.Process().memory_info().rss
    run_study(project, edits(tmp_path, FILL, FLOOD, HOG, CLING), seen=keeping_the_table(project))
    assert psutil.Process().memory_info().rss - before < 64 * MIB
    rows = study_of(project).rows
    reasons = [(row.status, row.verdict.reason if row.verdict else "") for row in rows]
    full = {(Status.CRASH, "exit_code"), (Status.OOM, "memory_limit"), (Status.OOM, "killed"), (Status.OOM, "out_of_memory")}
    if box.level != "full":  # many files are not limited there: then the clock ends it
        full |= LATE
    assert reasons[1] in full, reasons
    assert rows[2].status in (Status.KEEP, Status.DISCARD), "to flood is no crime"
    assert rows[3].status is Status.OOM, reasons
    assert reasons[4] in LATE, reasons
    assert rows[5].status is Status.KEEP and rows[5].value == pytest.approx(1.099)
    for row in rows:
        files = list(folder_of(project).trial(row.folder).path.rglob("*"))
        assert not [path for path in files if path.name in ("work", ".scratch")]
        assert sum(path.stat().st_size for path in files if path.is_file()) < MIB
    assert [finding for finding in check(folder_of(project)) if not finding.ok] == []
    must_be_whole(project)


def test_space_that_a_candidate_fills_is_its_own(box: Sandbox, tmp_path: Path) -> None:
    if box.level != "full":
        pytest.skip("space in many files is limited at the full level only")
    fill = "os.makedirs(os.environ['TMPDIR'], exist_ok=True)\n" + "\n".join(line[4:] for line in FILL.splitlines())
    outcome = Bench(sandbox=box).run(spec(tmp_path, SETUP + OPEN + fill), rules(trial={"train_seconds": 60.0}))
    assert (outcome.end, outcome.reason) == (JobEnd.CRASH, "exit_code")
    assert "No space left on device" in outcome.detail
    assert Bench(sandbox=box).run(spec(tmp_path, SETUP + OPEN + SAVE, number=1), rules()).end is JobEnd.OK


@pytest.mark.slow
def test_a_gigabyte_without_an_end_of_line_costs_neither_memory_nor_disk_nor_the_result(tmp_path: Path) -> None:
    """Five of them do not either, and take 17 seconds of CPU time."""
    flood = "block = b'x' * (1 << 20)\nfor _ in range(1 << 10): os.write(1, block)\n"
    job_spec, before = spec(tmp_path, SETUP + OPEN + flood + SAVE), psutil.Process().memory_info().rss
    outcome = Bench().run(job_spec, rules(trial={"train_seconds": 110.0}))
    assert (outcome.end, outcome.reason) == (JobEnd.OK, "")
    assert psutil.Process().memory_info().rss - before < 32 * MIB
    assert job_spec.folder.train_log.stat().st_size <= 3 * MIB


def test_nothing_of_a_clinging_candidate_is_alive_when_the_next_one_starts(box: Sandbox, tmp_path: Path) -> None:
    first = spec(tmp_path, SETUP + OPEN + "\n".join(line[4:] for line in CLING.splitlines()))
    outcome = Bench(sandbox=box).run(first, rules(trial={"train_seconds": 0.5}))
    assert (outcome.end, outcome.reason) == (JobEnd.TIMEOUT, "training")
    ended = time.monotonic()
    assert cages.carriers(first.marker) == []
    look = "names = [open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit() and int(pid) != os.getpid()]\n"
    assert time.monotonic() - ended < 30
    clean = f"found = [name for name in names if {str(first.folder.work)!r} in name]\nassert not found, found\n"
    second = spec(tmp_path, SETUP + look + clean + OPEN + SAVE, number=1)
    if box.level == "full":  # elsewhere the processes of others may not be read
        assert Bench(sandbox=box).run(second, rules()).end is JobEnd.OK


def test_memory_that_a_candidate_hogs_ends_it_and_not_the_harness(box: Sandbox, tmp_path: Path) -> None:
    hog = "\n".join(line[4:] for line in HOG.splitlines())
    outcome = Bench(sandbox=box).run(spec(tmp_path, SETUP + OPEN + hog), rules(trial={"memory_mb": 300.0}))
    assert outcome.end is JobEnd.OOM
    assert outcome.peak_memory_mb is None or outcome.peak_memory_mb < 2000
