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

LAUNCHER = Path(__file__).with_name("launcher.py")
PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 3.0
SWEEP_SECONDS = 5.0
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


def descendants(pid: int) -> list[int]:
    """All living descendants of `pid`, without it."""
    found: list[int] = []
    queue = [pid]
    while queue:
        children = _children(queue.pop())
        found += children
        queue += children
    return found


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for task in Path(f"/proc/{pid}/task").iterdir() for word in (task / "children").read_text().split()]
    except OSError:
        if Path("/proc/self/task").exists():
            return []
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


class ProcessTree:
    """One started command and everything that comes of it. Start it from the main thread: its life is bound to the starting thread's."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, log_cap: int, keep: Sequence[int]
    ) -> None:
        self._others = set(descendants(os.getpid()))
        self._log, self._cap = log, log_cap
        argv = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), *command]
        self._file = log.open("ab", buffering=0)
        reader, writer = os.pipe()
        try:
            self._popen = subprocess.Popen(
                argv, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, pass_fds=tuple(keep),
                start_new_session=True,
            )  # fmt: skip
        except OSError:
            os.close(reader)
            self._file.close()
            raise
        finally:
            os.close(writer)
        os.set_blocking(reader, False)
        self._output = reader
        self.pid = self._popen.pid
        self.started = started_at(self.pid) or 0.0
        self.peak_memory_mb: float | None = None
        self._cpu: dict[int, float] = {}
        self._cpu_seconds = 0.0
        self._drained = False

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
        """Note the tree's memory now, and return its CPU seconds so far: of the living, and of the dead as last seen or as their parents waited for them."""
        resident, waited, living = 0, 0.0, set()
        for pid in [self.pid, *descendants(self.pid)]:
            try:
                process = psutil.Process(pid)
                with process.oneshot():
                    resident += process.memory_info().rss
                    times = process.cpu_times()
            except psutil.Error:
                continue
            living.add(pid)
            self._cpu[pid] = times.user + times.system
            waited += times.children_user + times.children_system
        peak = max(resident / MIB, self.peak_memory_mb or 0.0, *map(_high_water_mb, living | {self.pid}))
        self.peak_memory_mb = peak or None
        dead = sum(seconds for pid, seconds in self._cpu.items() if pid not in living)
        self._cpu_seconds = max(self._cpu_seconds, sum(self._cpu[pid] for pid in living) + max(dead, waited))
        return self._cpu_seconds

    def end(self, grace: float = GRACE_SECONDS) -> int:
        """TERM, grace, KILL to the group, then KILL whatever else came of it; returns the exit code. Closes log and pipe."""
        if self.poll() is None:
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + grace
            while self.poll() is None and time.monotonic() < deadline:
                self.drain()
                time.sleep(0.02)
        self._signal(signal.SIGKILL)
        code = self._popen.wait()
        self._sweep()
        self.drain()
        self._file.close()
        os.close(self._output)
        return code

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
    while any(psutil.pid_exists(v) and not _is_zombie(v) for v in victims) and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(victims)


def _carries(pid: int, marker: str) -> bool:
    try:
        return bool(marker) and marker.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def _high_water_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) / 1024
    return 0.0
