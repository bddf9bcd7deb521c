"""The stall ladder and the reviews: one part of the study's fold."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from harness.artifacts.call_events import Asked
from harness.artifacts.oversight_events import Climbed, Lapsed, Reviewed
from harness.oversight import Rung
from harness.reviews import Review
from harness.trial import Status

REMEMBERED = 100

PROPOSED = "proposed"


class Ladder(BaseModel):
    """The rung in force with its reason, the rungs taken or passed over since the last keep, and how long the drought is.

    `drought` counts measured trials since the last keep and `at` is what it was at the last step up; `kept` is the trial whose keep the next step down
    answers. `told` is what the rung was given to tell proposers, `steps` every step in one line, the latest of them.
    """

    model_config = ConfigDict(extra="forbid")

    rung: Rung | None = None
    told: str = ""
    climbed: list[Rung] = Field(default_factory=list)
    drought: int = 0
    at: int = 0
    kept: int | None = None
    climbs: int = 0
    steps: list[str] = Field(default_factory=list)

    def settled(self, trial: int, status: Status) -> None:
        """A trial is over: a keep ends the drought, a discard lengthens it, what has no measurement says nothing."""
        if status is Status.KEEP:
            self.drought, self.kept = 0, trial if self.climbed else None
        elif status is Status.DISCARD:
            self.drought += 1

    def step(self, event: Climbed) -> None:
        """Up one rung, past one, or down to the ground. Only a keep opens the rungs again."""
        self.steps = [*self.steps, words(event)][-REMEMBERED:]
        if not event.rung:
            self.rung, self.told = None, ""
            if self.kept is not None:
                self.climbed, self.at, self.kept = [], 0, None
            return
        self.climbed = [*self.climbed, event.rung]
        if not event.passed_over:
            self.rung, self.told, self.at, self.climbs = event.rung, event.told, self.drought, self.climbs + 1


def words(event: Climbed) -> str:
    """A step in one line: `combine: 5 measured trials on other_axis brought no keep`."""
    if not event.rung:
        return f"down to the ground: {event.why}"
    return f"{event.rung}{' passed over' if event.passed_over else ''}: {event.why}"


class Reviewing(BaseModel):
    """Reviews of would-be keeps by trial, how often each was asked for, and what became of the blocked ones that a person approved: proposed, or why not."""

    model_config = ConfigDict(extra="forbid")

    asked: dict[int, int] = Field(default_factory=dict)
    reviews: dict[int, Review] = Field(default_factory=dict)
    approved: dict[int, str] = Field(default_factory=dict)

    @property
    def made(self) -> int:
        """Requests for reviews, also those that a kill cut off; extra tries of one request do not count."""
        return sum(self.asked.values())

    def asking(self, event: Asked) -> None:
        """A call is about to be made; it may be a review's."""
        if event.review is not None and not event.retry:
            self.asked = {**self.asked, event.review: self.asked.get(event.review, 0) + 1}

    def reviewed(self, event: Reviewed) -> None:
        """A review came back, or did not."""
        self.reviews = {**self.reviews, event.trial: event.review}

    def proposed(self, approves: int | None) -> None:
        """A proposal is there; it may be the one that a person approved."""
        if approves is not None:
            self.approved = {**self.approved, approves: PROPOSED}

    def interrupted(self, approves: int | None) -> None:
        """What a person approved was not measured: it is still to be carried out."""
        self.approved = {trial: what for trial, what in self.approved.items() if trial != approves}

    def lapsed(self, event: Lapsed) -> None:
        """What a person approved has lost its ground."""
        self.approved = {**self.approved, event.trial: event.why}
