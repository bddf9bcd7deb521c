"""A control group a start, where the unified hierarchy can be written: all of a job ends at one word, its processes and memory have a limit, and the
kernel counts its CPU time.

Only what was read back counts. A hierarchy without controllers still ends everything; limits are then kept by others.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

PREFIX = "ratchet-"
PATIENCE_SECONDS = 1.0


def base() -> str:
    """The folder below which groups can be made, or ''. What a harness that died left there is ended."""
    for folder in _candidates():
        trial = _named(folder)
        try:
            trial.mkdir()
            trial.rmdir()
        except OSError:
            continue
        for old in folder.glob(f"{PREFIX}*"):
            if not Path(f"/proc/{old.name.removeprefix(PREFIX).split('-')[0]}").exists():
                end(str(old))
        return str(folder)
    return ""


def create(folder: str, pids: int, memory_bytes: int | None) -> str:
    """A group for one start with the limits that the hierarchy offers, or '' where none can be made."""
    if not folder:
        return ""
    group = _named(Path(folder))
    try:
        group.mkdir()
    except OSError:
        return ""
    wanted = {"pids.max": pids, "memory.max": memory_bytes, "memory.swap.max": 0 if memory_bytes else None}
    for name, value in wanted.items():
        if value is not None and (group / name).exists():
            (group / name).write_text(str(value))
    return str(group)


def held(group: str) -> list[str]:
    """Which limits are in force, as read back: of `pids`, `memory`, `kill`."""
    read = {"pids": "pids.max", "memory": "memory.max"}
    found = [name for name, file in read.items() if (Path(group) / file).exists() and (Path(group) / file).read_text().strip() != "max"]
    return [*found, *(["kill"] if (Path(group) / "cgroup.kill").exists() else [])]


def cpu_seconds(group: str) -> float:
    """CPU seconds of all that ever ran in it, also of children that nobody waited for; 0 without a group."""
    try:
        lines = (Path(group) / "cpu.stat").read_text().splitlines() if group else []
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1e6 for line in lines if line.startswith("usage_usec ")), 0.0)


def end(group: str) -> None:
    """Kill all that is in it and remove it."""
    if not group:
        return
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):  # kernels before 5.14 have no such file
            (Path(group) / "cgroup.kill").write_text("1")
        try:
            Path(group).rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.005)


def _named(folder: Path) -> Path:
    return folder / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"


def _candidates() -> list[Path]:
    """The root of the unified hierarchy, and this process's own place in it."""
    try:
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup2 " in line]
        own = [line.split("::", 1)[1].lstrip("/") for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    except OSError:
        return []
    return [path for mount in mounts for path in dict.fromkeys([Path(mount), *(Path(mount) / part for part in own)])]
