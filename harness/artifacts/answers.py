"""The files of the inbox: pages written from the journal, and answers, of which the first one to be there counts.

An answer is linked into place whole, so nobody reads half of one, and of two that come at once exactly one is there. Whatever else stands in its place (a link, a
pipe, a folder, something huge or broken) is only looked at without waiting, and set aside.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness import program_file
from harness.artifacts import durable
from harness.questions import Answer, Question

LONGEST = 64 * 1024
NOTE = 500
NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True)
class Found:
    """What lies where an answer belongs: an answer, or why it is none."""

    answer: Answer | None = None
    problem: str = ""


class InboxFiles:
    """`runs/<tag>/inbox`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def page(self, number: int) -> Path:
        """The question for a person."""
        return self.path / f"{number:04d}.md"

    def record(self, number: int) -> Path:
        """The question for programs."""
        return self.path / f"{number:04d}.json"

    def answer(self, number: int) -> Path:
        """What was said to it."""
        return self.path / f"{number:04d}.answer.json"

    def view(self, path: Path, text: str) -> None:
        """Write a page unless it is there as it should be; raises `StorageFault`."""
        data = text.encode()
        with durable.guarded(path):
            same = not path.is_symlink() and path.is_file() and path.read_bytes() == data
        if not same:
            self._make()
            durable.replace(path, data)

    def put(self, answer: Answer) -> bool:
        """Answer a question; `False` when something stands there already. Raises `StorageFault`."""
        self._make()
        target, temporary = self.answer(answer.number), self.path / f".{secrets.token_hex(8)}.tmp"
        durable.replace(temporary, answer.model_dump_json(indent=1).encode() + b"\n")
        durable.crash_point("answer_written")
        try:
            with durable.guarded(target):
                first = _linked(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        durable.sync_folder(self.path)
        durable.crash_point("answer_linked")
        return first

    def look(self, question: Question) -> Found | None:
        """What stands where the answer to `question` belongs, never waiting for it; `None` when nothing does."""
        try:
            raw = program_file.bounded(self.answer(question.number), LONGEST, os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, program_file.Unfit) as error:
            return Found(problem=error.strerror or "unreadable" if isinstance(error, OSError) else f"it {error}")
        try:
            answer = Answer.model_validate_json(raw, strict=True)
        except ValueError:
            return Found(problem="it is no answer as `ratchet answer` writes it")
        if answer.number != question.number:
            return Found(problem=f"it is an answer to question {answer.number}")
        if answer.option not in {option.id for option in question.options}:
            return Found(problem="its option is none of the question's")
        if answer.by != "person" and answer.option != question.default:
            return Found(problem="only a person may choose another option than the default")
        return Found(answer=answer)

    def given(self, questions: Iterable[Question]) -> dict[int, str]:
        """The options that wait to be taken, by question."""
        found = {one.number: self.look(one) for one in questions}
        return {number: one.answer.option for number, one in found.items() if one and one.answer}

    def set_aside(self, number: int) -> Path | None:
        """Move away what stands where an answer belongs; `None` when it cannot be moved."""
        source = self.answer(number)
        try:
            free = next(path for n in range(1, 1000) if not os.path.lexists(path := source.with_name(f"{source.name}.bad-{n}")))
            source.rename(free)
        except (OSError, StopIteration):
            return None
        return free

    def _make(self) -> None:
        with durable.guarded(self.path):
            self.path.mkdir(parents=True, exist_ok=True)


def _linked(source: Path, target: Path) -> bool:
    """Give a file its second name, unless there is something of that name."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        return created(source.read_bytes(), target)
    return True


def created(data: bytes, target: Path) -> bool:
    """The same where the file system has no second names: exclusive, too, but a crash may leave it empty, which is then set aside."""
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    try:
        durable.append(descriptor, data, target)
    finally:
        os.close(descriptor)
    return True
