"""The driver as a test wants it, behind pynvml's own names, errors and constants. Processes on it may be real ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml

MIB = 1024 * 1024
UUID = "GPU-5a1c3e0b-0000-4000-8000-000000000000"
MIG = "MIG-5a1c3e0b-0000-4000-8000-00000000000a"


@dataclass
class Held:
    """One line of the driver's process list."""

    pid: int
    usedGpuMemory: int | None


@dataclass
class Memory:
    """What `nvmlDeviceGetMemoryInfo` answers, in bytes."""

    total: int
    used: int

    @property
    def free(self) -> int:
        return self.total - self.used


def stranger(mib: int | None = 8000, pid: int | None = None) -> Held:
    """A living process that did not come of this one: the parent of the tests."""
    return Held(os.getppid() if pid is None else pid, None if mib is None else mib * MIB)


@dataclass
class FakeNvml:
    """NVML with one device. `error` is raised by every question, those of `missing` are not supported; `on_question` hears each question's name."""

    name: str | bytes = "NVIDIA H200"
    processes: list[Held] = field(default_factory=list)
    drawing: list[Held] = field(default_factory=list)
    used_mb: float = 600.0
    clock: int = 1980
    reasons: int = 1
    error: int | None = None
    missing: set[str] = field(default_factory=set)
    mismatched: set[str] = field(default_factory=set)
    on_question: Callable[[str], None] | None = None
    asked: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("NVML", "nvmlClocks")):
            return getattr(pynvml, name)
        raise AttributeError(name)

    def _hear(self, name: str) -> None:
        if self.on_question:
            self.on_question(name)
        if self.error is not None:
            raise pynvml.NVMLError(self.error)
        if name in self.mismatched:
            raise self.NVMLLibraryMismatchError("Unversioned function called and the pyNVML version does not match the NVML lib version.")
        if name in self.missing:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        self.asked.append(index)
        return f"device {index}"

    def nvmlInit(self) -> None:
        self._hear("init")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        known = {UUID[:-1] + str(index): f"device {index}" for index in range(4)} | {MIG: "part 0"}
        if uuid not in known:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return known[uuid]

    def nvmlDeviceGetName(self, handle: str) -> str | bytes:
        return self.name

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return UUID[:-1] + handle[-1]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Held]:
        self._hear("processes")
        return list(self.processes)

    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: str) -> list[Held]:
        return []

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[Held]:
        self._hear("drawing")
        return list(self.drawing)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Memory:
        self._hear("memory")
        return Memory(143_771 * MIB, int(self.used_mb * MIB))

    def nvmlDeviceGetClockInfo(self, handle: str, type: int) -> int:
        self._hear("clock")
        assert type == pynvml.NVML_CLOCK_SM
        return self.clock

    def nvmlDeviceGetMaxClockInfo(self, handle: str, type: int) -> int:
        self._hear("max_clock")
        assert type == pynvml.NVML_CLOCK_SM
        return 1980

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        self._hear("reasons")
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        self._hear("old_reasons")
        return self.reasons

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        self._hear("temperature")
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return 41

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        self._hear("power")
        return 700_000
