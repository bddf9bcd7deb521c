"""Scripted reviewers over the real wire, and studies in which a rule asks for them."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.artifacts import journal
from harness.artifacts import study as fold
from harness.artifacts.journal import Journal
from harness.artifacts.oversight_events import Resolved
from tests.messages_stub import Answer, tool_use
from tests.projects import edits_file, folder_of, make_project

CRITERIA = ("The change keeps the contract of the file.", "Nothing reads the held-out text.")
DIGEST = re.compile(r"The digest of this input: ([0-9a-f]{64})$")
LAW = '[review]\nsymbols = ["VALUE"]\ncriteria = ["{}", "{}"]'.format(*CRITERIA)
BETTER = 1.1


def shown(body: dict[str, Any]) -> str:
    """What the reviewer was shown."""
    return str(body["messages"][0]["content"][0]["text"])


def digest_in(body: dict[str, Any]) -> str:
    """The digest that it must give back."""
    found = DIGEST.search(shown(body))
    assert found, shown(body)
    return found.group(1)


def finding(**changes: Any) -> dict[str, Any]:
    """A fault that counts: it quotes the change of VALUE."""
    return {
        "code": "unexplained_constant", "target": {"kind": "symbol", "id": "VALUE"}, "evidence": [f"VALUE = {BETTER}"],
        "message": "the constant is set below what the contract allows", "action": "regenerate", "passes_when": "VALUE is at least 1.15 again", **changes,
    }  # fmt: skip


def said(body: dict[str, Any], word: str = "pass", **changes: Any) -> dict[str, Any]:
    """The input of a verdict that is valid unless `changes` spoil it; a change to `None` leaves the field out."""
    found = [finding()] if word == "fail" else []
    whole = {
        "verdict": word, "findings": found, "checked_criteria": [1, 2], "what_can_be_cut": "nothing", "answers_owner_words": "yes",
        "because": "it keeps the contract", "refuted_if": "VALUE is outside the contract when load_model reads the checkpoint", "input_sha256": digest_in(body), **changes,
    }  # fmt: skip
    return {name: value for name, value in whole.items() if value is not None}


def verdict(word: str = "pass", **changes: Any) -> Any:
    """A step of a script: a verdict on whatever is shown."""
    return lambda body: tool_use("verdict", said(body, word, **changes))


def project_with(folder: Path, url: str, rules: str = LAW, **options: Any) -> Path:
    """A stub project with reviews; models answer at `url`."""
    law = f'[model]\nbase_url = "{url}"\nsilence_seconds = 2\n[stop]\ndollars = 50'
    return make_project(folder, rules=f"{law}\n{rules}", **options)


def one_better(folder: Path, *more: dict[str, object]) -> Path:
    """Edits of which the first is better."""
    return edits_file(folder, [{"VALUE": BETTER}, *more])


def answer(project: Path, number: int, option: str, tag: str = "t") -> None:
    """A person's answer, as the journal has it."""
    path = folder_of(project, tag).journal
    study, end = fold.replay(path)
    log = Journal(path, end, now=lambda: datetime(2026, 3, 9, 7).strftime("%Y-%m-%dT%H:%M:%SZ"), elapsed=lambda: study.elapsed)
    log.append(Resolved(question=number, option=option, by="person"))
    log.close()


def events(project: Path, *kinds: type, tag: str = "t") -> list[Any]:
    """Events of these kinds, in order."""
    return [entry.event for entry, _ in journal.read(folder_of(project, tag).journal) if isinstance(entry.event, kinds)]


def request_text(body: dict[str, Any]) -> str:
    """Everything of a request, as one text."""
    return json.dumps(body, ensure_ascii=False)


__all__ = [
    "BETTER",
    "CRITERIA",
    "LAW",
    "Answer",
    "answer",
    "digest_in",
    "events",
    "finding",
    "one_better",
    "project_with",
    "request_text",
    "said",
    "shown",
    "verdict",
]
