"""The end of a test: the dead it left are waited for, what lives or has an owner is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.execution.process import adopt_orphans
from harness.execution.usage import descendants, is_over
from tests.orphans import buried

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs PR_SET_CHILD_SUBREAPER")
left: list[int] = []


def orphan(seconds: str) -> int:
    """A process whose parent has ended, adopted by this one."""
    adopt_orphans()
    done = subprocess.run(["sh", "-c", f"sleep {seconds} >/dev/null 2>&1 & echo $!"], capture_output=True, text=True, check=True)
    return int(done.stdout)


def until_over(pid: int) -> None:
    deadline = time.monotonic() + 20
    while not is_over(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_dead_orphan_is_waited_for_a_living_one_and_an_owned_exit_code_are_not() -> None:
    dead, alive = orphan("0.1"), orphan("600")
    owned = subprocess.Popen(["sh", "-c", "exit 3"])
    try:
        until_over(dead)
        until_over(owned.pid)
        assert dead in descendants(os.getpid())
        assert buried() == [dead]
        assert dead not in descendants(os.getpid())
        assert psutil.Process(alive).ppid() == os.getpid()
        assert owned.wait() == 3
    finally:
        os.kill(alive, 9)
        until_over(alive)


def test_an_exit_code_that_fork_gave_is_still_there_inside_its_test() -> None:
    child = os.fork()
    if child == 0:
        os._exit(7)
    until_over(child)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("turn", ["leaves", "finds none"])
def test_no_test_finds_the_dead_of_the_one_before_it(turn: str, tmp_path: Path) -> None:
    if turn == "leaves":
        left.append(orphan("0.05"))
        until_over(left[0])
        assert left[0] in descendants(os.getpid())
    elif left:
        assert left[0] not in descendants(os.getpid())
