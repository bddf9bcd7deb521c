"""What a study trains on, asked of the driver from outside, and the locks that keep two harnesses apart.

NVML is loaded only when a CUDA device is wanted; without it the device is the CPU. No number from here decides a verdict but `memory_mb`.
One lock a device and user: two studies on two GPUs may run. Whoever holds no lock of ours (another user, another program) is seen by `look`.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from harness.artifacts import durable
from harness.conditions import DeviceState
from harness.errors import InfrastructureFault, Locked
from harness.execution.gpu import Gpu, first_device
from harness.execution.process import boot_id, started_at


class Device(Protocol):
    """Where jobs run. `variables` of a job's environment make it see this device and no other."""

    name: str
    lock_name: str
    variables: Mapping[str, str]

    def memory_mb(self, pids: Collection[int]) -> float | None:
        """Device memory held by these processes in MiB; `None` where it is host memory or cannot be asked."""
        ...

    def look(self, ours: Callable[[], Collection[int]], clocks: bool = True) -> DeviceState | None:
        """The device and who is on it but for `ours`, asked after the driver; `None` for a CPU. Raises `DeviceLost`."""
        ...

    def failure(self) -> str:
        """Asked after a job failed: why nothing can run on this device any more, or ""."""
        ...


class Cpu:
    """Host memory only."""

    lock_name = "cpu"
    variables: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.name = f"cpu: {_processor()}"

    def memory_mb(self, pids: Collection[int]) -> float | None:
        """Nothing of its own: the process tree's resident memory is what counts."""
        return None

    def look(self, ours: Callable[[], Collection[int]], clocks: bool = True) -> DeviceState | None:
        """A CPU is shared by nature; what others took of it is counted by `hygiene.Watch`."""
        return None

    def failure(self) -> str:
        """Never: without it nobody would ask."""
        return ""


def find(wanted: str) -> Device:
    """The device for `auto`, `cpu` or `cuda`; `cuda` without one is an `InfrastructureFault`."""
    if wanted == "cpu":
        return Cpu()
    gpu = _gpu()
    if gpu is None and wanted == "cuda":
        raise InfrastructureFault(
            "the rules ask for a CUDA device and the driver shows none; check `nvidia-smi`, or set [run] device = 'cpu'"
        )
    return gpu or Cpu()


def must_be_like(device: Device, name: str) -> None:
    """Raise `InfrastructureFault` when a study of one kind of device would go on with the other, as `auto` does when the driver lost the GPU."""
    if device.name.split(":")[0] != name.split(":")[0]:
        raise InfrastructureFault(
            f"the study was measured on {name!r}, and here is {device.name!r}: no number could be compared; check `nvidia-smi`"
        )


def _gpu() -> Gpu | None:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if (visible is not None and visible.split(",")[0].strip() in ("", "-1")) or not Path("/dev/nvidiactl").exists():
        return None
    import pynvml

    return chosen(pynvml, visible, first_device)


def chosen(nvml: Any, visible: str | None, first: Callable[[], str]) -> Gpu | None:
    """The device that CUDA itself takes for its first: its order is not the driver's. `visible`: the person's CUDA_VISIBLE_DEVICES.

    Raises `InfrastructureFault` when that names a device that is not there: a study that trained elsewhere instead would surprise.
    """
    wish = (visible or "").split(",")[0].strip()
    try:
        nvml.nvmlInit()
        uuid = wish if wish.startswith("MIG-") else first()
        if uuid or visible is None:
            return Gpu(nvml, uuid or 0)
    except nvml.NVMLError as error:
        if visible is None:
            return None
        raise InfrastructureFault(f"CUDA_VISIBLE_DEVICES is {visible!r}, and the driver says: {error}; check `nvidia-smi -L`") from None
    raise InfrastructureFault(f"CUDA_VISIBLE_DEVICES is {visible!r}, and CUDA finds no device by that; check `nvidia-smi -L`, or unset it")


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def lock_folder() -> Path:
    """Where device locks lie: one folder for all studies and checkouts of this user. `RATCHET_LOCKS` moves it."""
    return Path(os.environ.get("RATCHET_LOCKS") or Path(tempfile.gettempdir()) / f"ratchet-{os.getuid()}")


def lock_path(device: Device) -> Path:
    """The file that a study on this device holds locked."""
    return lock_folder() / f"{device.lock_name}.lock"


class Lock:
    """`flock` on a file: held by the kernel, released by death. The text inside names the holder for whoever is refused."""

    def __init__(self, path: Path, what: str) -> None:
        self.path, self._what = path, what
        self._descriptor: int | None = None

    def __enter__(self) -> Lock:
        with durable.guarded(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = read_holder(self.path)
            os.close(descriptor)
            who = f"process {holder['pid']}" if holder else "another process"
            raise Locked(f"{self._what} is in use by {who} ({self.path}); wait for it or stop it with `ratchet stop`") from None
        text = json.dumps({"pid": os.getpid(), "started": started_at(os.getpid()), "boot": boot_id(), "what": self._what})
        self._descriptor = descriptor
        with durable.guarded(self.path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode(), 0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


def read_holder(path: Path) -> dict[str, Any] | None:
    """Who holds a lock, by its text, if that very process still lives."""
    try:
        holder = json.loads(path.read_text())
        alive = holder["boot"] == boot_id() and started_at(int(holder["pid"])) == holder["started"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return holder if alive else None
