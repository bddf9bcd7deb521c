"""A meter without limits for tests of one proposer: it counts and remembers, and says so."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.artifacts.call_events import Bill, Estimate


@dataclass
class FreeMeter:
    """A `Meter` that lets every call through."""

    asked: list[Estimate] = field(default_factory=list)
    bills: list[Bill] = field(default_factory=list)
    left: float | None = None

    def fits(self, estimate: Estimate) -> bool:
        """Always."""
        return True

    def ask(self, estimate: Estimate) -> int:
        """Remember."""
        self.asked.append(estimate)
        return len(self.asked)

    def settle(self, number: int, bill: Bill) -> None:
        """In order."""
        assert number == len(self.bills) + 1 == len(self.asked)
        self.bills.append(bill)

    def seconds_left(self) -> float | None:
        """As it was set."""
        return self.left
