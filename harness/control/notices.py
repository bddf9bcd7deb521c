"""What the inbox and its messages say, in words: a question's page, a message to a phone. Foreign text in them is one harmless line each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.artifacts.inbox import Closed
from harness.control.telling import News
from harness.moments import moment
from harness.proposers import fence
from harness.questions import Question
from harness.trial import Stop

BLOCKS = {
    "line": "this line of work; everything else goes on",
    "study": "the study: no trial begins until it is answered, or its deadline passes",
    "nothing": "nothing; the study goes on",
}
BY = {"person": "a person", "deadline": "its deadline, as nobody answered", "moot": "itself: what it was about is gone"}
LONGEST_BODY = 3000
FOLDERS = re.compile(r"(?<![\w/:.~])/(?:[^\s/:]+/)+")
MOST_QUESTIONS = 5


def line(text: str, limit: int = 400) -> str:
    """Foreign text as one clean line of at most `limit` bytes."""
    return fence.flat(text, limit)


def harmless(text: str, limit: int = 160) -> str:
    """The same for a chat: nobody is mentioned, no address can be tapped, and of a path of this machine the last part stays."""
    return FOLDERS.sub("", line(text, limit)).replace("@", "(at)").replace("://", ": //")


def kind(question: Question) -> str:
    """`repeated failure`."""
    return question.kind.replace("_", " ")


def options(question: Question) -> str:
    """`retry, skip or stop`."""
    *before, last = [option.id for option in question.options]
    return f"{', '.join(before)} or {last}" if before else last


def otherwise(question: Question) -> str:
    """What happens without an answer, by the local time of that moment."""
    if question.deadline is None:
        return "it waits until somebody answers"
    return f"`{question.default}` at {moment(question.deadline).astimezone():%a %H:%M}"


def command(question: Question, tag: str, option: str = "OPTION") -> str:
    """What is typed to answer."""
    return f"ratchet answer {question.number} {option} --tag {tag}"


def blocked_sentence(question: Question) -> str:
    """Why a study idles."""
    return f"question {question.number} ({kind(question)}) waits for an answer"


def stopped_sentence(closed: Closed) -> str:
    """Why an answer ended a study."""
    said = closed.resolved
    note = f", with the note: {line(said.note, 200)}" if said.note else ""
    who = "a person" if said.by == "person" else "its deadline, as nobody did"
    return (
        f"question {closed.question.number} ({kind(closed.question)}) was answered `{said.option}` by {who}{note}; `ratchet resume` goes on"
    )


def page(question: Question, closed: Closed | None, tag: str, folder: str) -> str:
    """A question as a person reads it. `folder`: the study's, as seen from the project."""
    see = [f"Look at it: `ratchet show {question.trial} --tag {tag}`"] if question.trial is not None else []
    parts = [
        f"# Question {question.number}: {kind(question)}",
        _state(question, closed, tag),
        f"**Goal.** {_md(question.goal)}",
        "\n\n".join([f"**What it is about.** {_md(question.candidate) or 'the study itself'}", *see]),
        "**Evidence**\n\n" + _items(question.evidence),
        "**Repairs tried**\n\n" + (_items(question.repairs) or "- none"),
        f"**Impact.** {_md(question.impact)}",
        f"**It blocks** {BLOCKS[question.blocks]}.",
        "**Options**\n\n" + "\n".join(f"- `{one.id}`: {_md(one.effect)}" for one in question.options),
        f"Without an answer: {otherwise(question)}.",
        f"All files of the study: `{folder}/`. This page is written from the journal; to edit it changes nothing.",
    ]
    return "\n\n".join(parts) + "\n"


def _state(question: Question, closed: Closed | None, tag: str) -> str:
    if closed is not None:
        note = f" Note: {_md(closed.resolved.note)}" if closed.resolved.note else ""
        return f"Settled: `{closed.resolved.option}`, by {BY[closed.resolved.by]}, {closed.resolved.at}.{note}"
    typed = "\n".join(f"    {command(question, tag, one.id)}" for one in question.options)
    return f"Asked {question.at}. To answer, type one of these in the project's folder:\n\n{typed}"


def _items(texts: Sequence[str]) -> str:
    return "\n".join(f"- {_md(text)}" for text in texts)


def _md(text: str) -> str:
    """No markup, so that a candidate's text cannot pose as a part of the page."""
    return "".join(f"\\{one}" if one in "\\`*_[]<>#|~" else one for one in line(text, 800))


def title(news: News, tag: str) -> str:
    """The first line of a message."""
    what = [f"ended ({news.stop.reason})"] if news.stop else []
    fresh = len(news.questions)
    what += [f"{fresh} question{'s' if fresh > 1 else ''}"] if fresh else []
    what += ["program.md is not in force"] if news.complaint else []
    return f"Ratchet {tag}: {', '.join(what)}"


def body(news: News, tag: str, best: str = "", by_default: Sequence[Closed] = ()) -> str:
    """The message. `best` says how the study stands, `by_default` are questions that nobody answered."""
    parts = [_end(news.stop, best)] if news.stop else []
    parts += [f"An edit of program.md is not in force: {harmless(news.complaint, 400)}"] if news.complaint else []
    parts += [_question(one, tag) for one in news.questions[:MOST_QUESTIONS]]
    left = len(news.questions) - MOST_QUESTIONS
    parts += [f"{left} more: ratchet inbox --tag {tag}"] if left > 0 else []
    if news.stop and by_default:
        told = ", ".join(f"{one.question.number} ({kind(one.question)}: {one.resolved.option})" for one in by_default[-MOST_QUESTIONS:])
        parts.append(f"Settled by their deadline, as nobody answered: {told}")
    if news.stop and not news.questions:
        parts.append("No question is open.")
    return fence.cut("\n\n".join(parts), LONGEST_BODY)


def _end(stop: Stop, best: str) -> str:
    return f"It ended: {harmless(stop.sentence, 300)} (exit code {stop.exit_code}).\n{best}".rstrip()


def _question(question: Question, tag: str) -> str:
    about = f"\nAbout: {harmless(question.candidate, 100)}" if question.candidate else ""
    return (
        f"Question {question.number}, {kind(question)}: {harmless(question.impact, 240)}{about}\n"
        f"Answer {options(question)}; without one: {otherwise(question)}\n{command(question, tag)}"
    )
