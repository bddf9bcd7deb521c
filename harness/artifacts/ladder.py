"""The stall ladder and the reviews: one part of the study's fold."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from harness.artifacts.oversight_events import Climbed, Reviewed
from harness.oversight import Rung
from harness.reviews import Review


class Ladder(BaseModel):
    """The rung in force, which were climbed or passed over since the last keep, and at how many settled trials the last step was."""

    model_config = ConfigDict(extra="forbid")

    rung: Rung | None = None
    climbed: list[Rung] = Field(default_factory=list)
    at_row: int = 0
    climbs: int = 0

    def step(self, event: Climbed, rows: int) -> None:
        """Up one rung, past one, or down to the ground."""
        if not event.rung:
            self.rung, self.climbed, self.at_row = None, [], rows
            return
        self.climbed, self.at_row, self.climbs = [*self.climbed, event.rung], rows, self.climbs + 1
        self.rung = self.rung if event.passed_over else event.rung


class Reviewing(BaseModel):
    """Reviews of would-be keeps by trial, and what they cost."""

    model_config = ConfigDict(extra="forbid")

    made: int = 0
    reviews: dict[int, Review] = Field(default_factory=dict)

    def reviewed(self, event: Reviewed) -> None:
        """A review came back, or did not."""
        self.made, self.reviews = self.made + 1, {**self.reviews, event.trial: event.review}
