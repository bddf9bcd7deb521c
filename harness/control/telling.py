"""Which question is overdue, which one the study waits for, and what a message would tell now. Pure: values in, values out."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from harness.artifacts.inbox import Inbox
from harness.moments import moment
from harness.oversight import Escalation
from harness.questions import Question
from harness.trial import Stop

BY_HERSELF = ("sigint", "asked")  # who ended it at the keyboard need not be told


@dataclass(frozen=True)
class News:
    """What one message tells: questions, a complaint about program.md, the end. `keys` name it, so that nothing is told twice."""

    keys: tuple[str, ...]
    questions: tuple[Question, ...] = ()
    complaint: str = ""
    stop: Stop | None = None


def overdue(question: Question, now: datetime) -> bool:
    """Whether its default is due, by wall time: a machine that slept wakes up to it."""
    return question.deadline is not None and moment(question.deadline) <= now


def blocking(open_ones: Collection[Question]) -> Question | None:
    """The first question that the study waits for."""
    return next((one for one in open_ones if one.blocks == "study"), None)


def quiet(law: Escalation, now: datetime) -> bool:
    """Whether local time is within the quiet hours; they may pass midnight, and two equal times are none."""
    if law.quiet is None:
        return False
    begin, end, time = *law.quiet, f"{now:%H:%M}"
    return begin <= time < end if begin <= end else time >= begin or time < end


def room(inbox: Inbox, law: Escalation, at_the_end: bool) -> bool:
    """Whether one more message may go; the last of several is kept for the end of the study."""
    left = law.messages - inbox.messages
    return left > 0 if at_the_end or law.messages == 1 else left > 1


def news(inbox: Inbox) -> News | None:
    """What nobody has been told of yet, or `None`."""
    questions = tuple(one for one in inbox.open.values() if _key(one) not in inbox.told)
    broken = complaint_key(inbox.complaint) if inbox.complaint else ""
    fresh = broken if broken not in inbox.told else ""
    keys = (*map(_key, questions), *([fresh] if fresh else []))
    return News(keys=keys, questions=questions, complaint=inbox.complaint if fresh else "") if keys else None


def end(inbox: Inbox, stop: Stop, rows: int) -> News | None:
    """The end of the study with what waits for a decision; `None` when she ended it herself, or was told of this very end."""
    key = f"end:{rows}:{stop.reason}"
    if stop.reason in BY_HERSELF or key in inbox.told:
        return None
    more = news(inbox)
    return News(
        keys=(key, *(more.keys if more else ())), questions=tuple(inbox.open.values()), complaint=more.complaint if more else "", stop=stop
    )


def complaint_key(message: str) -> str:
    """One broken edit has one key, however often a restart meets it."""
    return f"rules:{hashlib.sha256(message.encode()).hexdigest()[:16]}"


def _key(question: Question) -> str:
    return f"question:{question.number}"
