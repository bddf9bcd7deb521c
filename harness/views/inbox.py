"""Questions and messages for people and programs: `ratchet inbox`, and their part of status, report and plan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from harness.artifacts.oversight_events import Resolved
from harness.artifacts.study import Study
from harness.control import notices
from harness.oversight import Escalation
from harness.questions import Question
from harness.views.text import flatten, md, plural

EFFECT = 120


def as_dict(study: Study, everything: bool, given: Mapping[int, str]) -> dict[str, Any]:
    """Open questions, with `everything` the settled ones, too, each with how it was settled or `None`, and the answer that waits (`given`); and what became of messages."""
    return {
        "tag": study.started.tag if study.started else None,
        "questions": [
            {**question.model_dump(mode="json"), "settled": said and said.model_dump(mode="json"), "answered": given.get(question.number)}
            for question, said in study.inbox.questions()
            if everything or said is None
        ],
        "messages": {"sent": study.inbox.messages, "failing": dict(study.inbox.failing)},
    }


def as_text(study: Study, everything: bool, where: str, given: Mapping[int, str]) -> str:
    """The same for people. `where`: the folder with a page for each."""
    told = [_long(one, said, study, given.get(one.number)) for one, said in study.inbox.questions() if everything or said is None]
    if told:
        return "\n\n".join([*told, f"A page for each: {where}/"])
    settled = len(study.inbox.closed)
    return "no question is open" + (f"; {plural(settled, 'settled one')}: `ratchet inbox --all`" if settled else "")


def _long(question: Question, said: Resolved | None, study: Study, given: str | None) -> str:
    lines = [f"question {question.number}, {notices.kind(question)}: {flatten(question.impact, 300)}"]
    lines += [f"  about     {flatten(question.candidate, 200)}"] if question.candidate else []
    lines += [f"  {'evidence' if n == 0 else '':<9} {flatten(text, 200)}" for n, text in enumerate(question.evidence[:4])]
    if said is not None:
        return "\n".join([*lines, f"  settled   {flatten(_settled(said), 700)}"])
    if given is not None:
        return "\n".join([*lines, f"  answered  `{given}`; the harness takes it between trials, or at `ratchet resume`"])
    lines += [f"  blocks    {notices.BLOCKS[question.blocks]}"]
    lines += [f"  {'options' if n == 0 else '':<9} {one.id}: {flatten(one.effect, EFFECT)}" for n, one in enumerate(question.options)]
    tag = study.started.tag if study.started else ""
    return "\n".join([*lines, f"  default   {_otherwise(question)}", f"  answer    {notices.command(question, tag)}"])


def _settled(said: Resolved) -> str:
    return f"`{said.option}`, by {notices.BY[said.by]}, {said.at}" + (f": {said.note}" if said.note else "")


def _otherwise(question: Question) -> str:
    return notices.otherwise(question).replace("`", "")


def open_facts(study: Study) -> list[dict[str, Any]]:
    """What status tells programs of each open question."""
    names = ("number", "kind", "trial", "candidate", "impact", "blocks", "default", "deadline")
    return [
        {**{name: getattr(one, name) for name in names}, "options": [option.id for option in one.options]}
        for one in study.inbox.open.values()
    ]


def status_lines(study: Study) -> list[str]:
    """A line for each open question, and one for messages that did not arrive."""
    lines = [
        f"  question {one.number}: {notices.kind(one)}, blocks {_blocks(one)}; {notices.options(one)}, else {_otherwise(one)}: {flatten(one.impact, 120)}"
        for one in study.inbox.open.values()
    ]
    lines += [
        f"  messages   {study.inbox.messages} sent; {flatten(name, 60)}: {flatten(why, 120)}" for name, why in study.inbox.failing.items()
    ]
    return lines


def _blocks(question: Question) -> str:
    return {"line": "this line", "study": "the study", "nothing": "nothing"}[question.blocks]


def report_section(study: Study) -> str:
    """What needs a decision, and what was decided without the person."""
    waiting = [
        f"- **{one.number}**, {notices.kind(one)}: {md(one.impact, 300)} Blocks {_blocks(one)}. Options: {md(notices.options(one))}; else {md(_otherwise(one))}. `{notices.command(one, study.started.tag if study.started else '')}`"
        for one in study.inbox.open.values()
    ]
    settled = [f"- {one.question.number}, {notices.kind(one.question)}: {md(_settled(one.resolved), 400)}" for one in study.inbox.closed]
    parts = ["## What needs a decision\n\n" + "\n".join(waiting)] if waiting else []
    parts += ["## What was decided\n\n" + "\n".join(settled)] if settled else []
    return "\n\n".join(parts)


def channels_sentence(law: Escalation, environment: Mapping[str, str] = os.environ) -> str:
    """Where messages would go, for `ratchet plan`: names of variables, and whether they are set; never what they hold."""
    if not law.channels or not law.messages:
        return f"in `ratchet inbox`; no message is sent anywhere ([escalation] {'channels' if not law.channels else 'messages'})"
    names = ", ".join(
        f"{flatten(name, 60)} ({'set' if environment.get(name, '').strip() else 'not set: nothing goes there'})" for name in law.channels
    )
    hours = f", none between {law.quiet[0]} and {law.quiet[1]}" if law.quiet else ""
    return f"in `ratchet inbox`; {plural(law.messages, 'message')} at most{hours}, to {names}"
