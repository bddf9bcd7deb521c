"""The meter that every paid call goes through: an upper estimate before, a bill after. What stands behind it is control's."""

from __future__ import annotations

from typing import Protocol

from harness.artifacts.call_events import Bill, Estimate


class Meter(Protocol):
    """Where every paid call is announced before it is made and settled afterwards."""

    def fits(self, estimate: Estimate) -> bool:
        """Whether the call may be made."""
        ...

    def ask(self, estimate: Estimate) -> int:
        """Announce the call, durably; raises `ModelUnavailable` when a limit of [stop] would be passed. Returns its number."""
        ...

    def settle(self, number: int, bill: Bill) -> None:
        """The call ended."""
        ...

    def seconds_left(self) -> float | None:
        """How long a call may take so that a trial still fits into the night; `None` without a limit."""
        ...
