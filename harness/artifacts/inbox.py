"""Questions, answers and messages: one part of the study's fold."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from harness.artifacts.oversight_events import Escalated, Resolved, Sending, Sent
from harness.questions import Question

STOP, ASK_AGAIN = "stop", "ask_again"
RULES, CAP = "rules", "messages"


class Closed(BaseModel):
    """A question with what was said to it."""

    model_config = ConfigDict(extra="forbid")

    question: Question
    resolved: Resolved


class Inbox(BaseModel):
    """What was asked, what is open, what was answered by key, and what was sent.

    `stopping`: the question whose answer ends the study, until it has ended. `resumed_at`: when a person last took the study up again.
    `complaint`: the last word on an edit of program.md that is not in force. `failing`: channels whose last message did not arrive, and why.
    """

    model_config = ConfigDict(extra="forbid")

    asked: int = 0
    open: dict[int, Question] = Field(default_factory=dict)
    closed: list[Closed] = Field(default_factory=list)
    stopping: int | None = None
    resumed_at: str = ""
    complaint: str = ""
    capped: bool = False
    messages: int = 0
    in_flight: Sending | None = None
    told: list[str] = Field(default_factory=list)
    failing: dict[str, str] = Field(default_factory=dict)

    @property
    def settled(self) -> dict[str, Resolved]:
        """What was said, by key; of one key the latest counts."""
        return {one.question.key: one.resolved for one in self.closed}

    def escalated(self, event: Escalated) -> None:
        """A question is open."""
        self.asked, self.open = event.question.number, {**self.open, event.question.number: event.question}

    def resolved(self, event: Resolved) -> Question:
        """It is settled. Returns the question."""
        question = self.open[event.question]
        self.open = {number: one for number, one in self.open.items() if number != event.question}
        self.closed = [*self.closed, Closed(question=question, resolved=event)]
        # what passed before a person resumed is hers to decide
        overruled = event.by == "deadline" and (question.deadline or "") <= self.resumed_at
        if event.option == STOP and event.by != "moot" and not overruled:
            self.stopping = question.number
        return question

    def warned(self, code: str, message: str) -> bool:
        """A warning that is told, or that is said once; whether it is a new one of an edit that is not in force."""
        refused, known = code == RULES and "stay in force" in message, self.complaint
        self.complaint = message if refused else known
        self.capped = self.capped or code == CAP
        return refused and message != known

    def sending(self, event: Sending) -> None:
        """A message counts from here, delivered or not."""
        self.messages, self.in_flight, self.told, self.capped = event.message, event, [*self.told, *event.about], False

    def sent(self, event: Sent) -> None:
        """It is known how it ended."""
        self.in_flight = None
        self.failing = {**{name: why for name, why in self.failing.items() if name not in event.outcomes},
                        **{name: why for name, why in event.outcomes.items() if why}}  # fmt: skip

    def answer(self, key: str) -> str | None:
        """The option taken for what was asked under `key`, or `None`."""
        settled = self.settled.get(key)
        return settled.option if settled else None

    def times(self, key: str, option: str, but: int = -1) -> int:
        """How often `option` was taken for what was asked under `key` and a number, about another trial than `but`."""
        asked = [one for one in self.closed if one.question.key.startswith(f"{key}:") and one.question.trial != but]
        return sum(one.resolved.option == option for one in asked)

    def questions(self) -> list[tuple[Question, Resolved | None]]:
        """All of them by number, with what was said."""
        both = [*((one, None) for one in self.open.values()), *((one.question, one.resolved) for one in self.closed)]
        return sorted(both, key=lambda pair: pair[0].number)
