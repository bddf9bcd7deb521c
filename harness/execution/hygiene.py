"""Keeps a reading's device to itself: waits until it is as the study found it, and watches during the job who else is on it and how fast it runs.

The rules are in `harness/conditions.py`. A reading that shared its device, or lost it, is interrupted by name of that reason and judged by nobody.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import psutil

from harness import conditions
from harness.conditions import SHARED, SLOW, Conditions, DeviceState, Occupant, strangers, unreturned_mb
from harness.errors import DeviceLost, InfrastructureFault
from harness.execution.clock import Clock
from harness.execution.device import Device
from harness.execution.usage import descendants

LOST = "device_lost"
OF_THE_DEVICE = frozenset({SHARED, LOST})
WAIT_SECONDS = 60.0
UNSURE_SECONDS = 5.0
PAUSE_SECONDS = 0.5
GUARD_SECONDS = 0.25
LOOKS_A_CLOCK = 4  # clocks are asked at every fourth look at the processes: once a second

Fault = tuple[str, str]


def ours() -> list[int]:
    """Every process of this harness: itself and all that came of it, orphans included, for it is their reaper."""
    return [os.getpid(), *descendants(os.getpid())]


def wait_until_free(
    device: Device, began: DeviceState | None, clock: Clock, interrupted: Callable[[], str],
    tell: Callable[[str], None] = lambda said: None, patience: float | None = 0.0,
) -> bool:  # fmt: skip
    """Whether the device is as the study found it; `False` when interrupted. Memory is waited for up to a minute, a stranger for as long as
    `patience` seconds allow, without end where it is `None`; `tell` hears once of one that is waited for.

    Raises `InfrastructureFault` when somebody else still computes on it then, or memory of an earlier job has not come back; `DeviceLost`.
    Where not every process tells its memory, or they cannot be told apart, memory is waited for briefly, and only a warning is given.
    """
    start, told = clock.monotonic(), False
    while (now := device.look(ours)) is not None:
        others, held, waited = strangers(began, now), unreturned_mb(began, now), clock.monotonic() - start
        if not others and not held:
            return True
        if not others and waited >= min(UNSURE_SECONDS, WAIT_SECONDS) and not (began and began.accounted and now.accounted):
            tell(
                f"memory of {device.name} beyond that at the start of the study is in use, and whose it is cannot be told; the study goes on"
            )
            return True
        if waited >= WAIT_SECONDS and not (others and (patience is None or waited < patience)):
            raise InfrastructureFault(_not_free(device, others, held))
        if interrupted():
            return False
        if others and not told:
            told = True
            tell(f"{_named(others)} computes on {device.name}; the next job waits for its end")
        clock.sleep(PAUSE_SECONDS)
    return True


def taken_up(device: Device, began: DeviceState | None, clock: Clock, interrupted: Callable[[], str]) -> DeviceState | None:
    """What a study that goes on compares with, after a moment for the memory of what a dead harness left. `began` only of the same device."""
    deadline = clock.monotonic() + min(UNSURE_SECONDS, WAIT_SECONDS)
    now = device.look(ours)
    while now is not None and unreturned_mb(began, now) and clock.monotonic() < deadline and not interrupted():
        clock.sleep(PAUSE_SECONDS)
        now = device.look(ours)
    return conditions.taken_up(began, now)


def _named(others: list[Occupant]) -> str:
    return ", ".join(one.words for one in others[:3])


def _not_free(device: Device, others: list[Occupant], held: float) -> str:
    if others:
        return f"{_named(others)} computes on {device.name}; no trial may share it: wait for its end, then `ratchet resume`"
    return (
        f"{held:.0f} MiB of {device.name} more than at the start of the study are in use {WAIT_SECONDS:.0f} s after the last job ended, "
        "and no living process has them; check `nvidia-smi`, then `ratchet resume`"
    )


def trouble(device: Device, began: DeviceState | None, failed: bool = True) -> Fault | None:
    """Asked when something of a candidate has ended, with nothing of it alive: what the device can be blamed for, as reason and detail.

    Only when it `failed`, CUDA itself is asked whether it still starts.
    """
    return _blame(device, began, failed)[1]


def _blame(device: Device, began: DeviceState | None, failed: bool) -> tuple[DeviceState | None, Fault | None]:
    try:
        now = device.look(ours)
    except DeviceLost as lost:
        return None, (LOST, str(lost))
    if now is not None and (others := strangers(began, now)):
        return now, (SHARED, _shared(others))
    why = device.failure() if failed else ""
    return now, (LOST, why) if why else None


class Suspicion:
    """A stranger counts when it is seen at two looks in a row: our own short-lived children come and go between two."""

    def __init__(self, began: DeviceState | None) -> None:
        self._began = began
        self._suspects: set[int] = set()

    def confirmed(self, now: DeviceState) -> Fault | None:
        """Whoever was there at the look before, too, as reason and detail."""
        others = strangers(self._began, now)
        again = [one for one in others if one.pid in self._suspects]
        self._suspects = {one.pid for one in others}
        return (SHARED, _shared(again)) if again else None


class Guard:
    """The device while a scorer works on it, looked at four times a second; its wall time is judged, so nobody may slow it down."""

    def __init__(self, device: Device, began: DeviceState | None, clock: Clock) -> None:
        self._device, self._suspicion, self._clock = device, Suspicion(began), clock
        self._next = clock.monotonic()

    def look(self) -> Fault | None:
        """What voids the answer, as reason and detail; `None` between two looks."""
        if self._clock.monotonic() < self._next:
            return None
        self._next = self._clock.monotonic() + GUARD_SECONDS
        try:
            now = self._device.look(ours, clocks=False)
        except DeviceLost as lost:
            return LOST, str(lost)
        return self._suspicion.confirmed(now) if now is not None else None


class Watch:
    """The device during one job: its strangers, memory and clocks."""

    def __init__(self, device: Device, began: DeviceState | None) -> None:
        self._device, self._began = device, began
        self.peak_mb: float | None = None
        self._before = device.look(ours)
        self._after: DeviceState | None = None
        self._suspicion = Suspicion(began)
        self._looks = self._asked = self._slow = 0
        self._clocks: list[float] = []
        self._reasons: set[str] = set()
        self._machine, self._harness = _machine_seconds(), _harness_seconds()

    def sample(self, root: int, training: bool) -> Fault | None:
        """One look: memory of the job's tree, strangers, and in training the clocks. What ends the job, as reason and detail."""
        held = self._device.memory_mb([root, *descendants(root)])
        if held is not None:
            self.peak_mb = max(held, self.peak_mb or 0.0)
        clocks = training and self._looks % LOOKS_A_CLOCK == 0
        self._looks += int(training)
        try:
            now = self._device.look(ours, clocks)
        except DeviceLost as lost:
            return LOST, str(lost)
        if now is None:
            return None
        if clocks:
            self._note(now)
        return self._suspicion.confirmed(now)

    def last_look(self, failed: bool) -> Fault | None:
        """After the job's tree is dead: whoever is there now is a stranger at once, and a failed job's device is asked whether it still works."""
        self._after, fault = _blame(self._device, self._began, failed)
        return fault

    def conditions(self, our_cpu_seconds: float) -> Conditions:
        """What was seen, for the record. CPU seconds of the job's tree; the harness adds its own."""
        return Conditions(
            before=self._before, after=self._after,
            sm_clock_mhz=round(sum(self._clocks) / len(self._clocks), 1) if self._clocks else None,
            slowed_share=round(self._slow / self._asked, 3) if self._asked else None,
            slowed_by=tuple(sorted(self._reasons)), other_cpu_share=self._other_share(our_cpu_seconds),
        )  # fmt: skip

    def _note(self, now: DeviceState) -> None:
        self._asked += 1
        self._slow += int(not SLOW.isdisjoint(now.slowed_by))
        self._reasons |= set(now.slowed_by)
        if now.sm_clock_mhz is not None:
            self._clocks.append(now.sm_clock_mhz)

    def _other_share(self, tree_seconds: float) -> float | None:
        busy, all_of_it = (now - then for now, then in zip(_machine_seconds(), self._machine, strict=True))
        if all_of_it <= 0:
            return None
        others = busy - tree_seconds - (_harness_seconds() - self._harness)
        return round(min(1.0, max(0.0, others / all_of_it)), 3)


def _shared(others: list[Occupant]) -> str:
    return f"{_named(others)} computed on the device during the job"


def _machine_seconds() -> tuple[float, float]:
    """CPU seconds of the whole machine since it started: busy, and all. Time stolen by a hypervisor is busy."""
    times = psutil.cpu_times()
    busy = sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))
    return busy, busy + times.idle + getattr(times, "iowait", 0.0)


def _harness_seconds() -> float:
    own = os.times()
    return own.user + own.system
