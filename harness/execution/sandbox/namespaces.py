"""A world of its own for one job: its processes, its mounts, no network. Two small processes stay around it, and neither ever runs the candidate's code.

The outer one is the harness's child and lends it the candidate's exit code; the inner one is process 1 of the job. When either dies, the kernel ends everything in the job at once.
"""

import _signal  # type: ignore[import-not-found]  # the module `signal` costs a third of the launcher's start
import os

from harness.execution.sandbox import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module `typing` costs more than everything else here
    from typing import Any, NoReturn

EVERYTHING = kernel.NEW_NS | kernel.NEW_PID | kernel.NEW_NET | kernel.NEW_IPC | kernel.NEW_UTS | kernel.NEW_CGROUP
QUIET = kernel.MS_NOSUID | kernel.MS_NODEV
OLD, SPACE = "/.old", "/.space"
SIGHUP, SIGINT, SIGKILL, SIGTERM = 1, 2, 9, 15


def separate(plan: "dict[str, Any]") -> "tuple[int, int]":
    """Leave the harness's namespaces. Returns in process 1 of the new ones: descriptors to tell the candidate's wait status to, and of nothing."""
    nothing = os.open("/dev/null", os.O_RDWR)  # before the root changes, which it does for both processes
    told, tell = os.pipe()
    alive, living = os.pipe()
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(EVERYTHING | (kernel.NEW_USER if plan["user_namespace"] else 0))
    if plan["user_namespace"]:
        for file, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            _write(f"/proc/self/{file}", text)
    init = os.fork()
    if init:
        _forget([*plan["keep"], plan["door"], tell, alive], nothing)
        _lend(init, told)
    os.close(told)
    os.close(living)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, SIGKILL)
    os.set_blocking(alive, False)
    try:
        if not os.read(alive, 1):
            os._exit(137)  # the outer process is gone already
    except BlockingIOError:
        os.close(alive)
    return tell, nothing


def build(plan: "dict[str, Any]") -> None:
    """Make the new root from the plan's mounts and leave the old one."""
    os.umask(0o022)
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", "/tmp", "tmpfs", QUIET, "size=1m,mode=755")
    os.mkdir("/tmp" + OLD, 0o700)
    kernel.syscall("pivot_root", b"/tmp", b"/tmp" + OLD.encode())
    os.chdir("/")
    _bind(OLD + plan["source"], plan["folder"], "r")
    _scratch(plan)
    for source, target, kind in plan["binds"]:
        _bind(OLD + source, target, kind)
    for target in plan["masks"]:
        if os.path.isdir(target):
            kernel.mount("tmpfs", target, "tmpfs", QUIET | kernel.MS_RDONLY, "size=4k,mode=755")
        else:
            kernel.mount(OLD + "/dev/null", target, "", kernel.MS_BIND)
    for link, target in plan["links"]:
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(target, link)
    os.mkdir("/proc")
    kernel.mount("proc", "/proc", "proc", QUIET | kernel.MS_NOEXEC | (0 if plan["write_proc"] else kernel.MS_RDONLY))
    kernel.detach(OLD)
    os.rmdir(OLD)
    kernel.restrict_mount("/", kernel.ATTR_RDONLY, recursive=False)


def _scratch(plan: "dict[str, Any]") -> None:
    """One sized space for everything that can be written: the job's scratch folder, the temporary folders, shared memory."""
    os.mkdir(SPACE)
    kernel.mount("tmpfs", SPACE, "tmpfs", QUIET, f"size={plan['scratch_bytes']},mode=755")
    for number, target in enumerate(plan["writes"]):
        folder = f"{SPACE}/{number}"
        os.mkdir(folder, 0o700)
        if plan["uid"] is not None:
            os.chown(folder, plan["uid"], plan["uid"])
        _bind(folder, target, "w")


def stand_in(plan: "dict[str, Any]", tell: int, nothing: int) -> None:
    """Stay as process 1, reap what ends, and tell how the candidate ended. Returns in the candidate's process."""
    candidate = os.fork()
    if not candidate:
        os.close(tell)
        os.close(nothing)
        return
    _forget([*plan["keep"], plan["door"]], nothing)
    while True:
        pid, status = os.wait()
        if pid == candidate:
            os.write(tell, status.to_bytes(4, "little"))
            os._exit(0)  # the kernel ends whatever else is left


def _bind(source: str, target: str, kind: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.lexists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    kernel.mount(source, target, "", kernel.MS_BIND | kernel.MS_REC)
    if kind == "r":
        kernel.restrict_mount(target, kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NODEV, recursive=True)


def _lend(init: int, told: int) -> "NoReturn":
    """Wait for process 1, and end as the candidate ended."""
    for number in (SIGHUP, SIGINT, SIGTERM):
        _signal.signal(number, _signal.SIG_IGN)
    _, waited = os.waitpid(init, 0)
    words = os.read(told, 4)
    status = int.from_bytes(words, "little") if words else waited
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != SIGKILL:
            _signal.signal(number, _signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _forget(descriptors: "list[int]", nothing: int) -> None:
    """Hold nothing of the job's open: whoever waits for its end must not wait for us."""
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    for number in {*descriptors, nothing} - {0, 1, 2}:
        os.close(number)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
