"""Follow-ups of failed trials, open tickets and what became of repairs: one part of the study's fold."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from harness.artifacts.oversight_events import Detected, FollowedUp, Verified
from harness.followups import Outcome, Ticket


class Repairs(BaseModel):
    """What was done about failures. `ticket` is the order that the next proposal carries out."""

    model_config = ConfigDict(extra="forbid")

    followed: int = -1
    ticket: Ticket | None = None
    attempts: dict[int, int] = Field(default_factory=dict)
    made: int = 0
    fingerprints: dict[str, list[int]] = Field(default_factory=dict)
    outcomes: dict[int, Outcome] = Field(default_factory=dict)
    detected: dict[str, int] = Field(default_factory=dict)

    def followed_up(self, event: FollowedUp) -> None:
        """A failed trial has its follow-up."""
        self.followed, self.ticket = event.trial, event.ticket
        if event.packet is not None:
            known = self.fingerprints.get(event.packet.fingerprint, [])
            self.fingerprints = {**self.fingerprints, event.packet.fingerprint: [*known, event.trial]}

    def begun(self, repairs: int | None) -> None:
        """A trial began; `repairs` is the trial it repairs."""
        if repairs is None:
            return
        self.ticket, self.made = None, self.made + 1
        self.attempts = {**self.attempts, repairs: self.attempts.get(repairs, 0) + 1}

    def verified(self, event: Verified) -> None:
        """A repair was verified."""
        self.outcomes = {**self.outcomes, event.trial: event.verification.outcome}

    def seen(self, event: Detected) -> None:
        """A detector fired."""
        self.detected = {**self.detected, event.detector: self.detected.get(event.detector, 0) + 1}
