"""Runs as `python -I -S launcher.py PARENT COMMAND…`: binds itself to the harness's life, then becomes the candidate.

A script of its own, and not a function run between fork and exec, because that can deadlock in a threaded parent. Standard library only.
"""

import ctypes
import os
import resource
import sys

PR_SET_PDEATHSIG, SIGKILL = 1, 9  # the module `signal` would cost a third of this script's start


def launch(parent: int, command: list[str]) -> None:
    """Die with the parent, dump no core, be the first to go when memory is short, then exec. Exit code 127: no such command."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
        _go_first()
    if os.getppid() != parent:
        sys.exit(137)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)


def _go_first() -> None:
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(descriptor, b"1000")
        os.close(descriptor)
    except OSError:
        return  # some containers do not allow it; then the kernel chooses


if __name__ == "__main__":
    launch(int(sys.argv[1]), sys.argv[2:])
