"""Questions, answers and messages: one part of the study's fold."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from harness.artifacts.oversight_events import Escalated, Resolved, Sending, Sent
from harness.questions import Question


class Inbox(BaseModel):
    """What was asked, what is open, what was answered by key, and what was sent."""

    model_config = ConfigDict(extra="forbid")

    asked: int = 0
    open: dict[int, Question] = Field(default_factory=dict)
    settled: dict[str, Resolved] = Field(default_factory=dict)
    messages: int = 0
    in_flight: Sending | None = None
    told: list[str] = Field(default_factory=list)

    def escalated(self, event: Escalated) -> None:
        """A question is open."""
        self.asked, self.open = event.question.number, {**self.open, event.question.number: event.question}

    def resolved(self, event: Resolved) -> None:
        """It is settled; of one key the latest answer counts."""
        question = self.open[event.question]
        self.open = {number: one for number, one in self.open.items() if number != event.question}
        self.settled = {**self.settled, question.key: event}

    def sending(self, event: Sending) -> None:
        """A message counts from here, delivered or not."""
        self.messages, self.in_flight, self.told = event.message, event, [*self.told, *event.about]

    def sent(self, _event: Sent) -> None:
        """It is known how it ended."""
        self.in_flight = None

    def answer(self, key: str) -> str | None:
        """The option taken for what was asked under `key`, or `None`."""
        settled = self.settled.get(key)
        return settled.option if settled else None
