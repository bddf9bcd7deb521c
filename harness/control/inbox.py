"""Questions to the person: asked once, answered from anywhere, settled by their deadline otherwise; and when she is told of them.

The journal is the truth; the files of the inbox are pages written from it, again at every start. Only an answer is born as a file: whichever is linked into place
first, a person's or the deadline's, is the one that is journalled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Literal

from harness.artifacts import gains
from harness.artifacts.answers import NOTE, InboxFiles
from harness.artifacts.events import Warned
from harness.artifacts.oversight_events import Escalated, Resolved
from harness.artifacts.study import Study
from harness.control import budget, notices, telling
from harness.control.post import Post
from harness.control.recorder import Recorder
from harness.control.telling import News
from harness.errors import StorageFault
from harness.execution.clock import Clock
from harness.moments import utc
from harness.questions import Answer, Kind, Option, Question
from harness.rules import Rules
from harness.trial import Stop

PAUSE_SECONDS = 0.5
AT_THE_END, ON_REQUEST = 10.0, 1.0
MOST_LINES, TRIES = 12, 3


class Inbox:
    """The questions of one study. The addresses of the channels are in `environment`."""

    def __init__(self, recorder: Recorder, clock: Clock, environment: Mapping[str, str] = os.environ) -> None:
        self._recorder, self._clock = recorder, clock
        self._files = InboxFiles(recorder.folder.inbox)
        self._post = Post(recorder, clock, environment)
        self._opened = False

    @property
    def study(self) -> Study:
        """The journal's fold."""
        return self._recorder.study

    def open(self, rules: Rules) -> None:
        """At a start: write the pages that a crash left out, and look at the channels."""
        if not self._opened:
            self._opened = True
            for question, _ in self.study.inbox.questions():
                self._show(question.number)
        self._post.open(rules.escalation)

    def ask(
        self, rules: Rules, kind: Kind, key: str, candidate: str, evidence: Sequence[str], impact: str, options: Sequence[Option], default: str,
        blocks: Literal["line", "study", "nothing"], trial: int | None = None, repairs: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Put a question to the person, unless one is open under `key` or was settled under it. Foreign texts are cleaned and cut."""
        if key in self.study.inbox.settled or any(one.key == key for one in self.study.inbox.open.values()):
            return
        now, number = self._clock.now(), self.study.inbox.asked + 1
        question = Question(
            number=number, kind=kind, key=key, goal=self._goal(), candidate=notices.line(candidate), trial=trial, evidence=_lines(evidence),
            repairs=_lines(repairs), impact=notices.line(impact) or "not known",
            options=tuple(one.model_copy(update={"effect": notices.line(one.effect)}) for one in options), default=default, blocks=blocks,
            at=utc(now), deadline=utc(now + timedelta(minutes=rules.escalation.answer_minutes)),
        )  # fmt: skip
        if os.path.lexists(self._files.answer(number)):  # nobody can have answered what was not asked
            self._set_aside(number, "it was there before its question")
        self._recorder.emit(Escalated(question=question))
        self._show(number)

    def moot(self, key: str, note: str) -> None:
        """Settle the open question under `key` by its default: what it was about is gone."""
        for question in [one for one in self.study.inbox.open.values() if one.key == key]:
            self._settle(question, by="moot", note=note)

    def settle(self, rules: Rules) -> None:
        """Take answers in and let deadlines pass."""
        self.open(rules)
        self._recorder.idle()
        self._post.collect()
        for question in list(self.study.inbox.open.values()):
            if self._files.look(question) is not None:
                self._take(question)
            if question.number in self.study.inbox.open and telling.overdue(question, self._clock.now()):
                self._settle(question, by="deadline")

    def waits(self) -> bool:
        """Whether a question that blocks the study is open; then a moment passes, and nothing else is to be begun."""
        if telling.blocking(self.study.inbox.open.values()) is None:
            return False
        self._clock.sleep(PAUSE_SECONDS)
        return True

    def stop(self, rules: Rules) -> Stop | None:
        """Tell what is new; then whether an answer, or a wait to the end of the night's hours, ends it."""
        if news := telling.news(self.study.inbox):
            self._send(rules, news)
        if self.study.inbox.stopping is not None:
            closed = next(one for one in self.study.inbox.closed if one.question.number == self.study.inbox.stopping)
            return Stop(reason="answered", sentence=notices.stopped_sentence(closed), exit_code=budget.RULE)
        return self._out_of_hours()

    def farewell(self, rules: Rules, stop: Stop) -> None:
        """Tell of the end of the study, and wait some seconds for what is on its way; nothing is left running."""
        news = telling.end(self.study.inbox, stop, self.study.row_count)
        self._post.finish(AT_THE_END if news else ON_REQUEST)
        if news and self._send(rules, news):
            self._post.finish(AT_THE_END)

    def close(self) -> None:
        """Leave no process behind."""
        self._post.close()

    def _send(self, rules: Rules, news: News) -> bool:
        tag = self._recorder.folder.tag
        by_default = [one for one in self.study.inbox.closed if one.resolved.by == "deadline"]
        body = notices.body(news, tag, self._best(), by_default)
        return self._post.tell(rules.escalation, news, notices.title(news, tag), body)

    def _out_of_hours(self) -> Stop | None:
        """The journal's hours stand still while nothing is journalled; the night's do not."""
        blocked, hours = telling.blocking(self.study.inbox.open.values()), self.study.limits.get("hours")
        if blocked is None or hours is None or self._recorder.idle() < float(hours) * 3600:
            return None
        return budget.planned(self.study, "hours", f"the time is used up: {notices.blocked_sentence(blocked)}")

    def _settle(self, question: Question, by: Literal["deadline", "moot"], note: str = "") -> None:
        """The default, unless a person is there first."""
        mine = Answer(number=question.number, option=question.default, note=note, at=utc(self._clock.now()), by=by)
        for _ in range(TRIES):
            with suppress(StorageFault):  # where no file can be made nobody can be first, and the journal says what the disk has to say
                self._files.put(mine)
            if self._take(question, by):
                return
        self._resolve(question.number, mine)  # what stands in the way is no answer and cannot be moved

    def _take(self, question: Question, by: str = "person") -> bool:
        """Journal the answer that is there; what is none is set aside, with one warning."""
        found = self._files.look(question)
        if found is None:
            return False
        answer = found.answer
        late = answer is not None and answer.by == "deadline" and telling.overdue(question, self._clock.now())
        if answer is None or not (late or answer.by in ("person", by)):
            self._set_aside(question.number, found.problem or "it is no person's, and nothing is settled by itself now")
            return False
        self._resolve(question.number, answer)
        return True

    def _resolve(self, number: int, answer: Answer) -> None:
        self._recorder.emit(Resolved(
            question=number, option=answer.option, by=answer.by, note=notices.line(answer.note, NOTE), at=notices.line(answer.at, 40)
        ))  # fmt: skip
        self._show(number)

    def _set_aside(self, number: int, why: str) -> None:
        aside, name = self._files.set_aside(number), self._files.answer(number).name
        if aside is not None:
            self._warn(f"{name} of the inbox was not obeyed ({why}) and is now {aside.name}; `ratchet answer {number} OPTION` answers")
        else:
            self._warn(f"{name} of the inbox was not obeyed ({why}) and cannot be moved; remove it")

    def _show(self, number: int) -> None:
        """The pages of a question, as the journal has it."""
        folder, closed = self._recorder.folder, next((one for one in self.study.inbox.closed if one.question.number == number), None)
        question = closed.question if closed else self.study.inbox.open[number]
        where = folder.path.relative_to(folder.project).as_posix()
        said = closed.resolved.model_dump_json(indent=1) if closed else "null"
        try:
            self._files.view(self._files.page(number), notices.page(question, closed, folder.tag, where))
            self._files.view(self._files.record(number), f'{{"question": {question.model_dump_json(indent=1)},\n"settled": {said}}}\n')
        except StorageFault as fault:  # a full disk ends the night at the journal; a page that cannot be written does not
            self._warn(f"the page of question {number} cannot be written ({str(fault).partition(';')[0]}); `ratchet inbox` has it")

    def _goal(self) -> str:
        """The first heading of program.md, and the metric."""
        started = self.study.started
        assert started is not None, "a study that asks has started"
        program = self._recorder.folder.program
        text = program.read_bytes().decode("utf-8-sig", "replace") if program.exists() else ""
        heading = next((line.lstrip("#") for line in text.splitlines() if line.startswith("#")), "")
        return notices.line(f"{notices.line(heading, 200) or started.tag}: {started.metric}, {started.direction} is better")

    def _best(self) -> str:
        study = self.study
        best, gain = study.incumbent, gains.gain(study)
        value = gains.believed_value(best) if best else None
        if best is None or value is None or study.started is None:
            return "Nothing could be measured."
        better = f", {gain.reading:+.4g} by its reading" if gain and best.trial else ""
        return f"Best {study.started.metric} {value:.6g} (trial {best.trial}{better}; not certified), {study.trials} trials."

    def _warn(self, message: str) -> None:
        if f"inbox: {message}" not in self.study.warnings:
            self._recorder.emit(Warned(code="inbox", message=message))


def _lines(texts: Sequence[str]) -> tuple[str, ...]:
    """Foreign lines, clean and few."""
    cleaned = tuple(notices.line(text) or "(nothing that can be shown)" for text in texts[:MOST_LINES])
    return cleaned if len(texts) <= MOST_LINES else (*cleaned, f"and {len(texts) - MOST_LINES} more")
