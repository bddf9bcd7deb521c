"""Follow-ups of failed trials, open tickets and what became of repairs: one part of the study's fold."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from harness.artifacts.oversight_events import FollowedUp, Verified
from harness.followups import Outcome, Ticket
from harness.trial import CORRECTION, OFFLINE


class Repairs(BaseModel):
    """What was done about failures. `ticket` is the order that waits to be carried out, `orders` by trial the one that it carried out.

    `refusals`: proposals that were refused while the ticket waited, `refused`: such proposals in all, by failed check; `declined`: why the harness's own repair was. `fingerprints`: by fingerprint the trials that failed so. `reopened`: questions whose answer
    brought a line back.
    """

    model_config = ConfigDict(extra="forbid")

    followed: int = -1
    ticket: Ticket | None = None
    orders: dict[int, Ticket] = Field(default_factory=dict)
    refusals: int = 0
    refused: dict[str, int] = Field(default_factory=dict)
    declined: str = ""
    made: int = 0
    fingerprints: dict[str, list[int]] = Field(default_factory=dict)
    reopened: list[int] = Field(default_factory=list)
    outcomes: dict[int, Outcome] = Field(default_factory=dict)

    def followed_up(self, event: FollowedUp) -> None:
        """A failed trial has its follow-up."""
        self.followed, self.ticket, self.refusals, self.declined = max(self.followed, event.trial), event.ticket, 0, ""
        if event.answers is not None:
            self.reopened = [*self.reopened, event.answers]
        if event.packet is not None:
            known = self.fingerprints.get(event.packet.fingerprint, [])
            self.fingerprints = {**self.fingerprints, event.packet.fingerprint: [*known, event.trial]}

    def refuse(self, proposer: str, why: str) -> None:
        """A proposal was refused: the harness's own repair is not made twice, a model's may be."""
        if proposer == CORRECTION:
            self.declined = why if self.ticket is not None else ""
        elif proposer not in OFFLINE and self.ticket is not None:
            check = self.ticket.failed_check
            self.refusals, self.refused = self.refusals + 1, {**self.refused, check: self.refused.get(check, 0) + 1}

    def begun(self, trial: int, repairs: int | None) -> None:
        """A trial began; `repairs` is the trial it repairs."""
        if repairs is None:
            return
        self.orders = {**self.orders, trial: self.ticket} if self.ticket is not None else self.orders
        self.ticket, self.refusals, self.declined, self.made = None, 0, "", self.made + 1

    def verified(self, event: Verified) -> None:
        """A repair was verified."""
        self.outcomes = {**self.outcomes, event.trial: event.verification.outcome}
