"""Ratchet: an autoresearch harness that measures instead of believing. Start reading at `harness/control/loop.py`."""

import os
import resource
import sys

__version__ = "0.1.0"

BYTECODE_ROOM = 64 << 20  # bytes: more than all modules that a start can compile


def _room(folder: str) -> int:
    """How large a new file may become here, in bytes: what the disk has free, or less by `ulimit -f`."""
    disk, limit = os.statvfs(folder), resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    free = disk.f_bavail * disk.f_frsize
    return free if limit == resource.RLIM_INFINITY else min(free, limit)


if _room(__path__[0]) < BYTECODE_ROOM:
    sys.dont_write_bytecode = (
        True  # of a compiled module that does not fit, Python keeps the part that does, and every later start breaks on it
    )
