"""What a process tree uses, sampled from outside: memory and CPU time of everything that came of one process."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

import psutil

MIB = 1024 * 1024


def descendants(pid: int) -> list[int]:
    """All living descendants of `pid`, without it."""
    found: list[int] = []
    queue = [pid]
    while queue:
        children = _children(queue.pop())
        found += children
        queue += children
    return found


def outlived(others: Collection[int], seconds: float) -> int:
    """How many descendants of this process, beside `others`, are still at work `seconds` later: helpers on their way out are none."""
    end = time.monotonic() + seconds
    while left := [pid for pid in descendants(os.getpid()) if pid not in others and not is_over(pid)]:
        if time.monotonic() >= end:
            break
        time.sleep(0.01)
    return len(left)


def is_over(pid: int) -> bool:
    """Whether a process is gone or only waits to be waited for."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for task in os.listdir(f"/proc/{pid}/task") for word in _read(f"/proc/{pid}/task/{task}/children").split()]  # noqa: PTH208
    except OSError:
        if Path("/proc/self/task").exists():
            return []
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


class Usage:
    """Peak memory and CPU seconds of a tree, by looks. `guarded`: two processes of the sandbox stand above the job, and their memory is not the job's."""

    def __init__(self, guarded: bool) -> None:
        self.peak_memory_mb: float | None = None
        self._guarded = guarded
        self._cpu: dict[int, float] = {}
        self._cpu_seconds = 0.0

    def look(self, root: int) -> float:
        """Note memory now; CPU seconds of the living, and of the dead as last seen or as their parents waited for them."""
        resident, waited, living = 0, 0.0, set()
        tree = [root, *descendants(root)]
        guards = set(tree[:2]) if self._guarded else set()
        for pid in tree:
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    resident += 0 if pid in guards else process.memory_info().rss
                    times = process.cpu_times()
            except psutil.Error:
                continue
            living.add(pid)
            self._cpu[pid] = times.user + times.system
            waited += times.children_user + times.children_system
        peak = max(resident / MIB, self.peak_memory_mb or 0.0, *map(_high_water_mb, (living | {root}) - guards), 0.0)
        self.peak_memory_mb = peak or None
        dead = sum(seconds for pid, seconds in self._cpu.items() if pid not in living)
        self._cpu_seconds = max(self._cpu_seconds, sum(self._cpu[pid] for pid in living) + max(dead, waited))
        return self._cpu_seconds


def _high_water_mb(pid: int) -> float:
    try:
        _, found, rest = _read(f"/proc/{pid}/status").partition(b"\nVmHWM:")
    except OSError:
        return 0.0
    return float(rest.split(None, 1)[0]) / 1024 if found else 0.0


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a trial reads hundreds of these, and a path object costs twice as much
        return file.read()
