"""A process tree that is ours to watch and to end: its log capped, its memory and CPU time sampled from outside, nothing of it left alive.

The harness makes itself the reaper of orphans (Linux), so that a daemon that detached twice comes back as a child and is ended too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from harness.errors import InfrastructureFault
from harness.execution.sandbox import cgroup
from harness.execution.sandbox.box import OPEN, Sandbox, door
from harness.execution.usage import Usage, descendants, is_over, outlived

LAUNCHER = Path(__file__).with_name("launcher.py")
PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 3.0
SWEEP_SECONDS = 5.0
MOMENT_SECONDS = 0.3
READ_BYTES = 1 << 16
READS_AT_ONCE = 64
MIB = 1024 * 1024
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "VIRTUAL_ENV",
             "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # fmt: skip


def adopt_orphans() -> None:
    """Make this process the reaper of its descendants' orphans, where the system can."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def clean_environment(scratch: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """The few variables a job may see: an allow-list, its own HOME and TMPDIR, and `extra`."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    own = {"HOME": str(scratch), "TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1"}
    return {**kept, **own, **extra}


def boot_id() -> str:
    """Names this boot, so that a pid from before a restart is never mistaken."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return str(int(psutil.boot_time()))


def started_at(pid: int) -> float | None:
    """Start time of a live process, or `None`: on Linux in seconds after boot, which no correction of the wall clock moves."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return None if fields[0] in "ZX" else int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        if sys.platform.startswith("linux"):
            return None
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


class ProcessTree:
    """One started command and everything that comes of it. Start it from the main thread: its life is bound to the starting thread's."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, log_cap: int, keep: Sequence[int],
        sandbox: Sandbox = OPEN,
    ) -> None:  # fmt: skip
        self._others = set(descendants(os.getpid()))
        self._log, self._cap, self._sandbox = log, log_cap, sandbox
        self._file = log.open("ab", buffering=0)
        self._group = sandbox.group()
        self._door, theirs = door(sandbox.plan(folder, keep, self._group))
        number = theirs.fileno() if theirs else 0
        argv = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), str(number), *command]
        reader, writer = os.pipe()
        try:
            self._popen = subprocess.Popen(
                argv, cwd=folder, env=sandbox.environment(folder, environment), stdin=subprocess.DEVNULL, stdout=writer, stderr=writer,
                pass_fds=(*keep, number) if theirs else tuple(keep), start_new_session=True,
            )  # fmt: skip
        except OSError:
            os.close(reader)
            self._close()
            raise
        finally:
            os.close(writer)
            if theirs:
                theirs.close()
        self._entered = self._door is None
        os.set_blocking(reader, False)
        self._output = reader
        self.pid = self._popen.pid
        self.started = started_at(self.pid) or 0.0
        self._usage = Usage(bool(sandbox.means and sandbox.means.namespaces))
        self._drained = False
        self._cpu, self.survivors = 0.0, 0  # survivors: processes of a tree that ended by itself, which did not end with it

    def poll(self) -> int | None:
        """Exit code, negative for a signal; `None` while it runs."""
        return self._popen.poll()

    def sources(self) -> list[int]:
        """Descriptors worth waiting on."""
        return [] if self._drained else [self._output]

    def drain(self) -> None:
        """Move what was printed into the capped log; never blocks, and comes back from a flood that never ends."""
        for _ in range(READS_AT_ONCE):
            try:
                data = b"" if self._drained else os.read(self._output, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._drained = True
                return
            with contextlib.suppress(OSError):  # a full disk costs lines of the log, not the night
                self._file.write(data)
                if self._file.tell() > 2 * self._cap:
                    self._shorten()

    def sample(self) -> float:
        """Note the tree's memory now, and return its CPU seconds so far: by looks, or by the kernel's count where there is a group."""
        self._cpu = max(self._cpu, self._usage.look(self.pid), cgroup.cpu_seconds(self._group))
        return self._cpu

    @property
    def peak_memory_mb(self) -> float | None:
        """The most that was seen of it at one look, or that the kernel noted for one of its processes."""
        return self._usage.peak_memory_mb

    @property
    def inside(self) -> bool:
        """Whether the command was started in its sandbox; until then whatever went wrong is nobody's idea."""
        if self._door is not None and not self._entered:
            with contextlib.suppress(OSError):
                self._entered = bool(self._door.recv(1))
        return self._entered

    def must_be_inside(self) -> None:
        """Raise `InfrastructureFault` when the command ended before its sandbox stood."""
        deadline = time.monotonic() + GRACE_SECONDS
        while not self.inside and self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        if not self.inside:
            self.drain()
            said = self._log.read_bytes()[-300:].decode(errors="replace").strip().splitlines()
            raise InfrastructureFault(
                f"the sandbox could not be set up ({said[-1] if said else 'no word'}); `ratchet doctor` shows what holds"
            )

    def end(self, grace: float = GRACE_SECONDS) -> int:
        """TERM, grace, KILL to the group, then KILL whatever else came of it; returns the exit code. Closes log and pipe."""
        if self.poll() is not None:
            self.survivors = outlived(self._others, MOMENT_SECONDS)
        else:
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + grace
            while self.poll() is None and time.monotonic() < deadline:
                self.drain()
                time.sleep(0.02)
        self._signal(signal.SIGKILL)
        code = self._popen.wait()
        self._sandbox.sweep()
        self._sweep()
        self.drain()
        os.close(self._output)
        self._close()
        return code

    def _close(self) -> None:
        cgroup.end(self._group)
        self._file.close()
        if self._door is not None:
            self._entered = self.inside
            self._door.close()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def _sweep(self) -> None:
        """End every descendant of the harness that was not there before this tree."""
        deadline = time.monotonic() + SWEEP_SECONDS
        while time.monotonic() < deadline:
            strays = [pid for pid in descendants(os.getpid()) if pid not in self._others]
            if not strays:
                return
            for pid in strays:
                kill_and_reap(pid)
            time.sleep(0.01)

    def _shorten(self) -> None:
        self._file.close()
        tail = self._log.read_bytes()[-self._cap :]
        self._log.write_bytes(b"[earlier output dropped]\n" + tail)
        self._file = self._log.open("ab", buffering=0)


def kill_and_reap(pid: int) -> None:
    """KILL one process and, when it is our child, take its exit code so that no zombie stays."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, os.WNOHANG)
    except (ProcessLookupError, ChildProcessError, PermissionError):
        return


def end_orphan(pid: int, started: float, boot: str, marker: str) -> bool:
    """End what a dead harness left: its job if pid, start time and boot id all match, and whatever still carries `marker` in its environment."""
    if boot != boot_id():
        return False
    victims = [p for p in psutil.pids() if p != os.getpid() and _carries(p, marker)]
    if started_at(pid) == started:
        victims += [pid, *descendants(pid)]
    for victim in set(victims):
        kill_and_reap(victim)
    deadline = time.monotonic() + SWEEP_SECONDS
    while any(psutil.pid_exists(v) and not is_over(v) for v in victims) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(victims)


def _carries(pid: int, marker: str) -> bool:
    try:
        return bool(marker) and marker.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
