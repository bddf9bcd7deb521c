"""Scripted models for whole studies: what a model answers, step by step, over the real wire (messages_stub.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.messages_stub import Answer, Block, blocks, call, say, tool_use
from tests.projects import make_project

EDITOR = "str_replace_based_edit_tool"
Step = Answer | Callable[[dict[str, Any]], Answer]
SUBMISSION = {
    "hypothesis": "less is more",
    "axis": "VALUE",
    "expected_effect": "0.01",
    "refuted_if": "it reads worse",
    "replication_of": None,
}
SHOWN = re.compile(r"^VALUE = ([\d.]+)$", re.MULTILINE)


class Script:
    """A function of requests: one step each, in order. A step is an answer, or makes one of the request."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.left = list(steps)

    def __call__(self, body: dict[str, Any]) -> Answer:
        step = self.left.pop(0)
        return step(body) if callable(step) else step


def value_in(body: dict[str, Any]) -> float:
    """VALUE of the incumbent, from the page that the model was given: the file stands last."""
    return float(shown(body))


def shown(body: dict[str, Any]) -> str:
    """The same as it is written."""
    return str(SHOWN.findall(body["messages"][0]["content"][0]["text"])[-1])


def _lowered(body: dict[str, Any]) -> Block:
    return replace(f"\nVALUE = {shown(body)}", f"\nVALUE = {round(value_in(body) - 0.02, 4)}")


def results_in(body: dict[str, Any]) -> list[Block]:
    """The tool results of the last message."""
    return [block for block in body["messages"][-1]["content"] if block["type"] == "tool_result"]


def replace(old: str, new: str, path: str = "train.py") -> Block:
    """An edit."""
    return call(EDITOR, {"command": "str_replace", "path": path, "old_str": old, "new_str": new})


def lower(body: dict[str, Any]) -> Answer:
    """VALUE a little lower than the incumbent's: an edit alone."""
    return blocks(_lowered(body))


def submit(title: str = "a lower value", **changes: Any) -> Answer:
    """Hand it in."""
    return tool_use("submit", {"title": title, **SUBMISSION, **changes})


def lower_and_submit(body: dict[str, Any]) -> Answer:
    """Both in one answer."""
    return blocks(say("A lower value."), _lowered(body), call("submit", {"title": "a lower value", **SUBMISSION}))


def project_of(folder: Path, url: str, rules: str = "", **options: Any) -> Path:
    """A stub project whose models answer at `url`."""
    law = f'[proposer]\nkind = "anthropic"\n[model]\nbase_url = "{url}"\nsilence_seconds = 2\n[stop]\ndollars = 50'
    return make_project(folder, rules=f"{law}\n{rules}", **options)


def stored(project: Path, kind: str, tag: str = "t") -> list[dict[str, Any]]:
    """All request or reply records of a study, in order."""
    return [json.loads(path.read_bytes()) for path in sorted((project / "runs" / tag / "agents").glob(f"*/*.{kind}.json"))]
