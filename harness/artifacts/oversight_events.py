"""What the journal says of follow-ups: repairs and their verification, detectors, the stall ladder, reviews, questions, answers, messages."""

from __future__ import annotations

from typing import Literal

from harness.followups import ErrorPacket, Mechanism, Ticket, Verification
from harness.oversight import Rung
from harness.questions import Question
from harness.records import Record
from harness.reviews import Review


class FollowedUp(Record):
    """What is done about a failed trial, by its cause: one of the four mechanisms, or a question. With a `ticket` the next proposal is its repair.

    `answers`: the question whose answer brought the trial back.
    """

    kind: Literal["followed_up"] = "followed_up"
    trial: int
    cause: str
    mechanism: Mechanism
    packet: ErrorPacket | None = None
    ticket: Ticket | None = None
    detail: str = ""
    answers: int | None = None


class Verified(Record):
    """A repair, trial `trial` for the ticket of trial `repairs`, was verified."""

    kind: Literal["verified"] = "verified"
    trial: int
    repairs: int
    verification: Verification


class Detected(Record):
    """A detector fired; `trial` and `proposal` say on what."""

    kind: Literal["detected"] = "detected"
    detector: str
    trial: int | None = None
    proposal: int | None = None
    detail: str


class Climbed(Record):
    """A step on the stall ladder; `rung` is '' when it led down to the ground, `passed_over` when the rung could do nothing here. `told` is what a rung was
    given to tell proposers: a reviewer's words.
    """

    kind: Literal["climbed"] = "climbed"
    rung: Rung | Literal[""]
    why: str
    passed_over: bool = False
    told: str = ""


class Reviewed(Record):
    """An independent review of a would-be keep came back, or did not."""

    kind: Literal["reviewed"] = "reviewed"
    trial: int
    review: Review


class Lapsed(Record):
    """A person approved a blocked keep, and it cannot be carried out any more; `why` in a sentence."""

    kind: Literal["lapsed"] = "lapsed"
    trial: int
    why: str


class Escalated(Record):
    """A question to the person is in the inbox."""

    kind: Literal["escalated"] = "escalated"
    question: Question


class Resolved(Record):
    """A question is settled: by a person, by its deadline, or because what it was about is gone. `at` (UTC): when it was answered."""

    kind: Literal["resolved"] = "resolved"
    question: int
    option: str
    by: Literal["person", "deadline", "moot"]
    note: str = ""
    at: str = ""


class Sending(Record):
    """A message is about to leave through the channels; journalled first, so that a restart never sends it again."""

    kind: Literal["sending"] = "sending"
    message: int
    about: tuple[str, ...]
    channels: tuple[str, ...]


class Sent(Record):
    """How that ended, channel by channel: an empty text is delivered."""

    kind: Literal["sent"] = "sent"
    message: int
    outcomes: dict[str, str]
