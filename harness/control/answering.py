"""What `ratchet answer` does, from any process: one file, linked into the inbox once. The harness journals it at the next trial boundary."""

from __future__ import annotations

from datetime import datetime

from harness.artifacts.answers import NOTE, InboxFiles
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.control import notices
from harness.errors import UserFault
from harness.moments import utc
from harness.questions import Answer, Question


def answer(folder: StudyDir, study: Study, number: int, option: str, note: str, now: datetime) -> Question:
    """Answer question `number`. Raises `UserFault` when it is settled, unknown, has no such option, or somebody was faster."""
    question = _open(study, number)
    known = [one.id for one in question.options]
    if option not in known:
        raise UserFault(f"question {number} has no option {notices.line(option, 60)!r}; choose {notices.options(question)}")
    if len(note.encode("utf-8", "replace")) > NOTE:
        raise UserFault(f"the note is longer than {NOTE} bytes; say it shorter")
    files = InboxFiles(folder.inbox)
    if not files.put(Answer(number=number, option=option, note=notices.line(note, NOTE), at=utc(now))):
        raise UserFault(_taken(files, question))
    return question


def _open(study: Study, number: int) -> Question:
    inbox = study.inbox
    if number in inbox.open:
        return inbox.open[number]
    settled = next((one.resolved for one in inbox.closed if one.question.number == number), None)
    if settled is not None:
        raise UserFault(
            f"question {number} is settled already: `{settled.option}`, by {notices.BY[settled.by]}; an answer cannot be taken back"
        )
    there = ", ".join(map(str, sorted(inbox.open)))
    raise UserFault(f"there is no question {number}; {f'open: {there}' if there else 'none is open'} (`ratchet inbox --all` shows all)")


def _taken(files: InboxFiles, question: Question) -> str:
    found = files.look(question)
    if found is None:
        return f"question {question.number} was answered and settled this very moment; `ratchet inbox --all` shows how"
    if found.answer is None:
        return f"{files.answer(question.number)} stands in the way and is no answer ({found.problem}); remove it, then answer again"
    said, path = found.answer, files.answer(question.number)
    return f"question {question.number} was answered already: `{said.option}`, by {notices.BY[said.by]}; to change your mind before the harness takes it, remove {path}"
