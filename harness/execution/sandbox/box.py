"""One cage, ready for any number of starts: what it is made of, and the plan that a start hands to the launcher."""

from __future__ import annotations

import contextlib
import marshal
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.artifacts.trial_dir import remove
from harness.execution.sandbox import cgroup, filters, inside
from harness.execution.sandbox.view import View

Level = Literal["full", "container", "none"]
MIB = 1024 * 1024
INSIDE = "/job"
SCRATCH = ".scratch"
SHARED = "/dev/shm"
TEMPORARY = ("/tmp", "/var/tmp", SHARED)
FOREIGN_NAME = "job"
CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton", "CUDA_CACHE_PATH": "cuda"}


@dataclass(frozen=True)
class Means:
    """What a cage is made of. `uid` is the candidate's own user, `None` for the harness's; `landlock` and the filter are always there."""

    namespaces: bool
    user_namespace: bool
    uid: int | None

    @property
    def words(self) -> str:
        """For people."""
        parts = [
            "namespaces" if self.namespaces else "",
            f"user {self.uid}" if self.uid is not None else "",
            "Landlock",
            "system call filter",
        ]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Sandbox:
    """How the jobs of a study are caged. `missing` names what the attacks found open, in words of `attacks`."""

    level: Level = "none"
    means: Means | None = None
    view: View | None = None
    scratch_mb: int = 2048
    pids: int = 1024
    gpu: bool = False
    missing: tuple[str, ...] = ()
    groups: str = ""
    memory_mb: float | None = None
    program: bytes = field(default_factory=filters.program)

    def place(self, folder: Path) -> Path:
        """Where a job sees its folder."""
        return Path(INSIDE) if self.means and self.means.namespaces else folder

    def environment(self, folder: Path, given: Mapping[str, str]) -> dict[str, str]:
        """The variables with every path as the job sees it; caches of compiled code lie in its scratch space."""
        if self.means is None:
            return dict(given)
        scratch = self.place(folder) / SCRATCH
        own = {"HOME": str(scratch), "TMPDIR": str(scratch), "USER": FOREIGN_NAME, "LOGNAME": FOREIGN_NAME}
        return {**given, **own, **{name: str(scratch / "cache" / sub) for name, sub in CACHES.items()}}

    def group(self) -> str:
        """A fresh control group, or ''."""
        memory = int((self.memory_mb + self.scratch_mb) * MIB) if self.memory_mb and not self.gpu else None
        return cgroup.create(self.groups, self.pids, memory)

    def plan(self, folder: Path, keep: Sequence[int], group: str) -> bytes:
        """For `inside.enter`; empty when there is no cage."""
        if self.means is None or self.view is None:
            return b""
        place, scratch = str(self.place(folder)), str(self.place(folder) / SCRATCH)
        limits = {inside.FILE_BYTES: self.scratch_mb * MIB}
        if self.means.namespaces or self.means.uid is not None:
            limits[inside.PROCESSES] = self.pids
        elif os.getuid():  # the kernel counts all that this user runs, and never counts root
            limits[inside.PROCESSES] = self.pids + _tasks(os.getuid())
        plan: dict[str, Any] = {
            "namespaces": self.means.namespaces, "user_namespace": self.means.user_namespace, "uid": self.means.uid, "folder": place,
            "scratch_bytes": self.scratch_mb * MIB, "keep": list(keep), "limits": limits, "filter": self.program, "write_proc": self.gpu,
            "grants": self._grants(place, scratch), "cgroup": group, **(self._mounts(str(folder)) if self.means.namespaces else {}),
        }  # fmt: skip
        return marshal.dumps(plan)

    def admit(self, folder: Path) -> None:
        """Make the scratch folder of a job's folder, and give it to the user who is to write there."""
        scratch = folder / SCRATCH
        scratch.mkdir()
        if self.means and self.means.uid is not None and not self.means.namespaces:
            os.chown(scratch, self.means.uid, self.means.uid)

    def sweep(self) -> None:
        """Where no namespaces end everything: kill whatever runs as the candidate's user, at one stroke, and take its shared memory away.

        All jobs of a harness have the same user: at that level no two may run at once.
        """
        if self.means is None or self.means.namespaces or self.means.uid is None:
            return
        code = f"import os; os.setgroups([]); os.setresgid(*[{self.means.uid}] * 3); os.setresuid(*[{self.means.uid}] * 3); os.kill(-1, 9)"
        subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False, stderr=subprocess.DEVNULL)
        for path in Path(SHARED).glob("*"):
            with contextlib.suppress(FileNotFoundError):  # another program's, gone meanwhile
                if path.lstat().st_uid == self.means.uid:
                    remove(path)

    def _grants(self, place: str, scratch: str) -> list[tuple[str, str]]:
        assert self.view is not None, "a cage has a view"
        assert self.means is not None, "a cage is made of something"
        shared = [(path, "w") for path in (TEMPORARY if self.means.namespaces else (SHARED,) if self.means.uid is not None else ())]
        reads = [(path, "r") for path in (*self.view.reads, *(link for link, _ in self.view.links))]
        return [
            *reads,
            (place, "r"),
            (scratch, "w"),
            *shared,
            *((path, "n") for path in self.view.names),
            *((node, "d") for node in self.view.devices),
            ("/proc", "w" if self.gpu else "l"),
        ]

    def _mounts(self, folder: str) -> dict[str, Any]:
        assert self.view is not None, "a cage has a view"
        binds = [(os.path.realpath(path), path, "r") for path in self.view.reads] + [(node, node, "d") for node in self.view.devices]
        links = [*self.view.links, ("/dev/fd", "/proc/self/fd")]
        links += [(f"/dev/{name}", f"/proc/self/fd/{number}") for number, name in enumerate(("stdin", "stdout", "stderr"))]
        return {
            "source": os.path.realpath(folder), "writes": [f"{INSIDE}/{SCRATCH}", *TEMPORARY], "binds": binds, "links": links, "masks": list(self.view.masks),
        }  # fmt: skip


OPEN = Sandbox()


def door(plan: bytes) -> tuple[socket.socket | None, socket.socket | None]:
    """Our end, with the plan sent, and the end for the launcher; none without a plan."""
    if not plan:
        return None, None
    ours, theirs = socket.socketpair()
    ours.sendall(plan)
    ours.shutdown(socket.SHUT_WR)
    ours.setblocking(False)
    return ours, theirs


def _tasks(uid: int) -> int:
    """Processes and threads of a user now."""
    count = 0
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                count += sum(1 for _ in Path(f"/proc/{entry.name}/task").iterdir())
    return count
