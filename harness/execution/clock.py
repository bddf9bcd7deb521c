"""Time, passed in: monotonic seconds, seconds that include suspend, and wall time for people. Only this file reads a clock for decisions."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Protocol

SUSPEND_SECONDS = 5.0


class Clock(Protocol):
    """What the harness asks of time."""

    def monotonic(self) -> float:
        """Seconds that never jump and stand still while the machine sleeps."""
        ...

    def boottime(self) -> float:
        """Seconds that go on while the machine sleeps."""
        ...

    def now(self) -> datetime:
        """Local wall time with its zone, for deadlines and for people."""
        ...

    def sleep(self, seconds: float) -> None:
        """Let time pass; callers sleep in short pieces, so that a signal is heard."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """`CLOCK_MONOTONIC`."""
        return time.monotonic()

    def boottime(self) -> float:
        """`CLOCK_BOOTTIME` where there is one."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

    def now(self) -> datetime:
        """Local time."""
        return datetime.now().astimezone()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class SuspendWatch:
    """Notices that the machine slept: boot time ran ahead of monotonic time by more than five seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gap = clock.boottime() - clock.monotonic()

    def slept(self) -> bool:
        """Whether it slept since this watch was made."""
        return self._clock.boottime() - self._clock.monotonic() - self._gap > SUSPEND_SECONDS
