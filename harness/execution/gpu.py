"""One CUDA device, asked from outside through NVML: what a process tree holds of it, who else is on it, how fast it runs, whether it is there.

`nvml` is the pynvml module or a fake with its names. What the driver does not tell is `None`; a device that is gone raises `DeviceLost`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from harness.conditions import DeviceState, Occupant
from harness.errors import DeviceLost
from harness.execution import claims
from harness.execution.process import started_at

MIB = 1024 * 1024
FIRST_PID_NAMESPACE = "pid:[4026531836]"  # a constant of the kernel: in here process numbers are the machine's own
PROBE_SECONDS, DEATH_SECONDS = 30.0, 1.0
PROBE = (
    "import ctypes, sys\ntry:\n    cuda = ctypes.CDLL('libcuda.so.1')\nexcept OSError:\n    sys.exit()\n"
    "code = cuda.cuInit(0)\nprint(f'cuInit says {code}' if code else '')"
)
FIRST = (  # the first version's answer is the card, also where CUDA sees a part of it
    "import ctypes, sys, uuid\ntry:\n    cuda = ctypes.CDLL('libcuda.so.1')\nexcept OSError:\n    sys.exit()\n"
    "device, name = ctypes.c_int(), (ctypes.c_ubyte * 16)()\n"
    "if not (cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0) or cuda.cuDeviceGetUuid(name, device)):\n"
    "    print(f'GPU-{uuid.UUID(bytes=bytes(name))}')"
)
LOST = (  # not "unknown error": virtual devices answer that to questions they do not know; CUDA itself is asked when a job fails
    "NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED", "NVML_ERROR_GPU_NOT_FOUND", "NVML_ERROR_DRIVER_NOT_LOADED", "NVML_ERROR_UNINITIALIZED",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
)  # fmt: skip
REASONS = {  # idle is no reason
    "ApplicationsClocksSetting": "set clocks", "SwPowerCap": "power cap", "HwSlowdown": "hardware slowdown", "SyncBoost": "sync boost",
    "SwThermalSlowdown": "software thermal slowdown", "HwThermalSlowdown": "hardware thermal slowdown", "HwPowerBrakeSlowdown": "power brake",
    "DisplayClockSetting": "display clocks",
}  # fmt: skip


def cuda_starts(variables: Mapping[str, str] | None = None) -> str:
    """Ask CUDA itself, in a process of its own: "" when it starts (or is not installed), else what it says."""
    said = _asked(PROBE, variables or {})
    return f"cuInit does not come back in {PROBE_SECONDS:.0f} s" if said is None else said


def first_device() -> str:
    """`GPU-…`: what CUDA calls its device 0 in the environment as it is; "" where it has none, does not start or does not come back."""
    return _asked(FIRST, {}) or ""


def _asked(program: str, variables: Mapping[str, str]) -> str | None:
    """What it prints; `None` when it does not come back. One that hangs in the driver cannot be killed and is not waited for."""
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True,
        env={**os.environ, **variables},
    )  # fmt: skip
    try:
        return child.communicate(timeout=PROBE_SECONDS)[0].strip()
    except subprocess.TimeoutExpired:
        child.kill()
    with suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=DEATH_SECONDS)
    return None


class Gpu:
    """One device by its UUID, `GPU-…` or `MIG-…`, or by its number in the driver's order, which is also that of `nvidia-smi`, not of CUDA."""

    def __init__(self, nvml: Any, which: int | str = 0, probe: Callable[[], str] | None = None) -> None:
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByUUID(which) if isinstance(which, str) else nvml.nvmlDeviceGetHandleByIndex(which)
        self.name = f"cuda: {_text(nvml.nvmlDeviceGetName(self._handle))}"
        uuid = which if isinstance(which, str) else _text(nvml.nvmlDeviceGetUUID(self._handle))
        self.lock_name = f"cuda-{uuid.replace('/', '-')}"
        self.variables: Mapping[str, str] = {"CUDA_VISIBLE_DEVICES": uuid}
        self._probe = probe or (lambda: cuda_starts(self.variables))
        self._errors = (nvml.NVMLError, getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError))  # the second is none of the first
        self._lost = {getattr(nvml, name) for name in LOST if hasattr(nvml, name)}  # the module is older here and newer there
        self._comparable = self._numbered_here = _first_namespace()

    def memory_mb(self, pids: Collection[int]) -> float | None:
        """Sum over the driver's list of compute processes; `None` when the driver does not say."""
        try:
            running = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except self._errors:
            return None
        used = [p.usedGpuMemory for p in running if p.pid in set(pids)]
        if not used or any(value is None for value in used):
            return None
        return float(sum(used)) / MIB or None

    def look(self, ours: Callable[[], Collection[int]], clocks: bool = True) -> DeviceState | None:
        """Processes and, with `clocks`, memory, clocks, temperature and power limit. `ours` is asked after the driver, or a child that was
        born in between would be a stranger. Raises `DeviceLost`.
        """
        listed, drawing, computing = self._listed()
        others = tuple(self._others(ours, listed or {}, drawing, computing))
        if not clocks:
            return DeviceState(occupants=others, comparable=self._comparable)
        known = [
            process for pid, process in (listed or {}).items() if not (self._numbered_here and started_at(pid) is None and not _hidden(pid))
        ]
        memory, power, nvml = self._ask("nvmlDeviceGetMemoryInfo"), self._ask("nvmlDeviceGetEnforcedPowerLimit"), self._nvml
        return DeviceState(
            occupants=others, comparable=self._comparable,
            listed_mb=round(sum(one.usedGpuMemory or 0 for one in known) / MIB, 1),
            all_listed=listed is not None and all(one.usedGpuMemory is not None for one in known),
            memory_used_mb=None if memory is None else round(memory.used / MIB, 1),
            memory_total_mb=None if memory is None else round(memory.total / MIB, 1),
            sm_clock_mhz=self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            sm_clock_max_mhz=self._ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
            slowed_by=self._slowed_by(), temperature_c=self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            power_limit_w=None if power is None else power / 1000,
        )  # fmt: skip

    def failure(self) -> str:
        """Why nothing can run here any more: the driver's word, or that of CUDA, started anew outside of any sandbox."""
        try:
            self.look(tuple)
        except DeviceLost as lost:
            return str(lost)
        return self._probe()

    def _listed(self) -> tuple[dict[int, Any] | None, set[int], set[int]]:
        """The driver's list by number, who on it draws, and who computes; `None` when it does not say who computes."""
        computing = self._ask("nvmlDeviceGetComputeRunningProcesses")
        served = self._ask("nvmlDeviceGetMPSComputeRunningProcesses") or ()
        drawing = self._ask("nvmlDeviceGetGraphicsRunningProcesses") or ()
        found = {p.pid: p for p in (*drawing, *(computing or ()), *served)}
        return (
            (None if computing is None and not found else found),
            {p.pid for p in drawing},
            {p.pid for p in (*(computing or ()), *served)},
        )

    def _others(
        self, ours: Callable[[], Collection[int]], found: dict[int, Any], draws: set[int], computes: set[int]
    ) -> Iterator[Occupant]:
        """Living processes on the device that are not ours. One that is not in sight has just died, or is numbered by a host that we do not see."""
        mine = set(ours())
        self._comparable = self._comparable or bool(mine & found.keys())
        for pid, process in found.items():
            started = started_at(pid)
            if pid in mine or (started is None and not _hidden(pid)):
                continue
            used = process.usedGpuMemory
            yield Occupant(
                pid=pid,
                started=started,
                name=_name(pid),
                memory_mb=None if used is None else round(used / MIB, 1),
                draws=pid in draws,
                computes=pid in computes,
            )

    def _slowed_by(self) -> tuple[str, ...]:
        for word in ("Event", "Throttle"):  # the second for drivers and modules before the name changed
            mask = self._ask(f"nvmlDeviceGetCurrentClocks{word}Reasons")
            if mask is not None:
                return tuple(said for name, said in REASONS.items() if mask & getattr(self._nvml, f"nvmlClocks{word}Reason{name}", 0))
        return ()

    def _ask(self, name: str, *rest: Any) -> Any:
        """What the driver answers; `None` when it cannot, may not or does not know how."""
        function = getattr(self._nvml, name, None)
        if function is None:
            return None
        try:
            return function(self._handle, *rest)
        except self._errors as error:
            if getattr(error, "value", None) in self._lost:
                raise DeviceLost(
                    f"the driver says of {self.name}: {error}; check `nvidia-smi` and `dmesg`, then `ratchet resume`"
                ) from None
            return None


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _first_namespace() -> bool:
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == FIRST_PID_NAMESPACE
    except OSError:
        return False


def _hidden(pid: int) -> bool:
    """Whether it lives and /proc hides it from us, as `hidepid` does with other users' processes."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return False


def _name(pid: int) -> str:
    try:
        return claims.text(psutil.Process(pid).name(), 40)
    except psutil.Error:
        return "?"
