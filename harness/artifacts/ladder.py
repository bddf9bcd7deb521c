"""The stall ladder and the reviews: one part of the study's fold."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from harness.artifacts.oversight_events import Climbed, Reviewed
from harness.oversight import Rung
from harness.reviews import Review
from harness.trial import Status

REMEMBERED = 40


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
    """Reviews of would-be keeps by trial, and what they cost."""

    model_config = ConfigDict(extra="forbid")

    made: int = 0
    reviews: dict[int, Review] = Field(default_factory=dict)

    def reviewed(self, event: Reviewed) -> None:
        """A review came back, or did not."""
        self.made, self.reviews = self.made + 1, {**self.reviews, event.trial: event.review}
