"""Waits for the dead that nobody waits for: a harness in a worker of pytest adopts orphans and is meant to end, the worker lives on. Ends nothing that lives."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess

from harness.execution.usage import descendants, is_over


def buried() -> list[int]:
    """Children that have ended and belong to no `Popen` object, whose exit code is for its owner; each is waited for."""
    dead = {pid for pid in descendants(os.getpid()) if is_over(pid)}
    if not dead:
        return []
    awaited = {one.pid for one in gc.get_objects() if issubclass(type(one), subprocess.Popen) and one.returncode is None}
    found = []
    for pid in sorted(dead - awaited):
        with contextlib.suppress(ChildProcessError):  # a child of a child
            found += [pid] if os.waitpid(pid, os.WNOHANG)[0] else []
    return found
