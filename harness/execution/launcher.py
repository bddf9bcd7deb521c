"""Runs as `python -I -S launcher.py PARENT DOOR COMMAND…`: binds itself to the harness's life, enters the sandbox, then becomes the candidate.

A script of its own, and not a function run between fork and exec, because that can deadlock in a threaded parent. Standard library only. DOOR is an
inherited socket with the plan of the sandbox, on which a word is said when the job is inside; 0 for a process that needs none.
"""

import ctypes
import os
import resource
import sys

PR_SET_PDEATHSIG, SIGKILL = 1, 9  # the module `signal` would cost a third of this script's start
REFUSED = 126
PLAN_BYTES = 1 << 20


def launch(parent: int, door: int, command: "list[str]") -> None:
    """Die with the parent, dump no core, be the first to go when memory is short, then exec. Exit code 127: no such command."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
        _go_first()
    if os.getppid() != parent:
        sys.exit(137)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if door:
        _enter(parent, door)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)


def _enter(parent: int, door: int) -> None:
    import marshal  # part of the interpreter: the plan costs no import of a parser

    sys.path.insert(0, __file__.rsplit("/", 3)[0])
    from harness.execution.sandbox import inside

    os.set_inheritable(door, False)
    plan = marshal.loads(_all(door))
    try:
        inside.enter({**plan, "parent": parent, "door": door})
    except OSError as error:
        sys.stderr.write(f"sandbox: {error}\n")
        sys.stderr.flush()
        os._exit(REFUSED)
    os.write(door, b"1")


def _all(door: int) -> bytes:
    parts = []
    while part := os.read(door, PLAN_BYTES):
        parts.append(part)
    return b"".join(parts)


def _go_first() -> None:
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(descriptor, b"1000")
        os.close(descriptor)
    except OSError:
        return  # some containers do not allow it; then the kernel chooses


if __name__ == "__main__":
    launch(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
