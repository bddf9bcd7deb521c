"""The ratchet: baseline, then propose, apply, evaluate, and keep or revert, until a rule says stop.

Every port writes to the journal what it did before the next one begins, and asks the journal's fold what is done already. A restart therefore
takes the same path as a first run: it finds the trial where the journal says it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from harness.trial import Reading, Status, Stop, Verdict


class Ports(Protocol):
    """The eight seams of the loop. `harness/control/night.py` has the real ones."""

    def baseline(self) -> bool:
        """Whether the unmodified file has been measured; when not, that is this turn's work."""
        ...

    def inspect(self) -> Stop | None:
        """Signals, rules and budget as they are now: a reason to stop, or `None`."""
        ...

    def propose(self) -> bool:
        """Whether there is a trial to run: one found open, or a proposal just admitted."""
        ...

    def apply(self) -> None:
        """The proposal as a commit under its own ref."""
        ...

    def evaluate(self) -> Sequence[Reading]:
        """Train and measure; empty when interrupted."""
        ...

    def better(self, readings: Sequence[Reading]) -> Verdict:
        """The judge's word, durable."""
        ...

    def keep(self) -> None:
        """Move the branch."""
        ...

    def revert(self) -> None:
        """Stay at the incumbent."""
        ...


def run_study(ports: Ports) -> Stop:
    """One night. Returns why it ended; infrastructure faults and our own bugs are raised."""
    while (stop := ports.inspect()) is None:
        if ports.baseline():
            run_trial(ports)
    return stop


def run_trial(ports: Ports) -> None:
    """One trial, or one refused proposal, or the rest of a trial that a restart found open."""
    if not ports.propose():
        return
    ports.apply()
    readings = ports.evaluate()
    if not readings:
        return
    verdict = ports.better(readings)
    if verdict.status is Status.KEEP:
        ports.keep()
    else:
        ports.revert()
