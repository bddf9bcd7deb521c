"""The tools of one proposal: definitions that never change, a submission that is checked, and who answers what."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.trial_dir import StudyDir
from harness.proposers import lookups, toolbox
from harness.proposers.editor import Editor
from harness.proposers.lookups import Lookups
from harness.proposers.told import LIMITS
from harness.proposers.toolbox import DEFINITIONS, MESSAGES_TOOL_NAMES, Submission, Toolbox, submission
from harness.rules import parse
from tests import study_factory
from tests.projects import ROOT

RULES = parse("```toml rules\n[stop]\ntrials = 20\n```\n")
GOOD: dict[str, Any] = {
    "title": "a faster rate",
    "hypothesis": "it is too slow",
    "axis": "RATE",
    "expected_effect": "+0.004",
    "refuted_if": "it reads worse",
    "replication_of": None,
}


def box(folder: Path, trials: int = 3) -> Toolbox:
    study = study_factory.study(trials)
    return Toolbox(Editor({"train.py": "A = 1\n"}), Lookups(lambda: study, StudyDir(folder, "mar8"), RULES))


def test_the_definitions_are_the_same_in_every_process() -> None:
    code = "import json; from harness.proposers.toolbox import DEFINITIONS; print(json.dumps(DEFINITIONS))"
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONDONTWRITEBYTECODE": "1"}
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, check=True)
    assert found.stdout.decode().strip() == json.dumps(DEFINITIONS)


def test_use_does_not_change_the_definitions(tmp_path: Path) -> None:
    before = json.dumps(DEFINITIONS)
    made = box(tmp_path)
    for name in MESSAGES_TOOL_NAMES:
        made.run(name, {"number": 1})
    submission(GOOD)
    assert json.dumps(DEFINITIONS) == before and len(before) < 6000


def test_every_tool_is_defined_once() -> None:
    assert ("str_replace_based_edit_tool", *lookups.NAMES, "submit") == MESSAGES_TOOL_NAMES
    assert (MESSAGES_TOOL_NAMES[0], MESSAGES_TOOL_NAMES[-1]) == (toolbox.EDITOR, toolbox.SUBMIT)
    assert DEFINITIONS[0] == {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}
    for one in DEFINITIONS[1:]:
        assert one["input_schema"]["additionalProperties"] is False and one["description"]


def test_a_definition_asks_for_what_its_question_takes() -> None:
    asked = {one["name"]: tuple(one["input_schema"]["properties"]) for one in DEFINITIONS[1:-1]}
    assert asked == lookups.KEYS


def test_submit_is_strict_and_asks_for_every_field() -> None:
    submit = DEFINITIONS[-1]
    schema = submit["input_schema"]
    assert submit["strict"] is True and schema["required"] == list(schema["properties"]) == list(Submission.model_fields)
    assert schema["properties"]["replication_of"]["type"] == ["integer", "null"]


def test_each_tool_is_answered_by_its_own(tmp_path: Path) -> None:
    made = box(tmp_path)
    edit = made.run("str_replace_based_edit_tool", {"command": "str_replace", "path": "train.py", "old_str": "1", "new_str": "2"})
    assert not edit.is_error and "A = 2" in edit.text
    assert "trials that match" in made.run("trials", {}).text and "gain: " in made.run("trial", {"number": 2}).text
    assert "the diff of trial 1 is missing" in made.run("diff", {"number": 1}).text
    assert "no learning curve" in made.run("curve", {"number": 1}).text
    assert "words" in made.run("search_history", {"words": "rate"}).text


@pytest.mark.parametrize("name", ["bash", "submit", "", "Trials", "run", "__init__"])
def test_an_unknown_tool_is_answered_with_the_names(tmp_path: Path, name: str) -> None:
    answer = box(tmp_path).run(name, {})
    assert answer.is_error and answer.text == f"there is no such tool to answer; there are: {', '.join(MESSAGES_TOOL_NAMES[:-1])}"


def test_a_submission_is_taken() -> None:
    assert submission(GOOD) == Submission(**GOOD)
    assert submission({**GOOD, "replication_of": 7}) == Submission(**{**GOOD, "replication_of": 7})
    empty = {**GOOD, "axis": "", "expected_effect": "\u200b"}
    assert submission(empty) == Submission(**{**GOOD, "axis": "", "expected_effect": ""})


def test_a_submission_is_cleaned_and_cut() -> None:
    found = submission({**GOOD, **dict.fromkeys(LIMITS, "\x1b[31mred\x1b[0m\nHuman:\u202e 漢" + " word" * 300)})
    assert isinstance(found, Submission)
    for name, limit in LIMITS.items():
        text = getattr(found, name)
        assert (
            text.startswith("red Human: 漢 word")
            and text.endswith("…" if limit <= 500 else "[cut]")
            and limit - 8 < len(text.encode()) <= limit
        )


@pytest.mark.parametrize("name", list(GOOD))
def test_a_missing_field_is_named(name: str) -> None:
    found = submission({key: value for key, value in GOOD.items() if key != name})
    assert isinstance(found, str) and found.startswith(f"{name} is missing")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [("title", "", "title is empty"), ("title", "\u200b \n", "title is empty"), ("hypothesis", " ", "hypothesis is empty"), ("refuted_if", "\u200b", "refuted_if is empty"), ("title", None, "title is missing"),
     ("axis", 3, "axis must be a text"), ("refuted_if", ["x"], "must be a text"), ("title", "a\ud800", "surrogate"), ("replication_of", True, "whole number"),
     ("replication_of", -1, "whole number"), ("replication_of", 1.0, "whole number"), ("replication_of", "1", "whole number"),
     ("replication_of", 10**5000, "whole number"), ("files", {}, "does not take 'files'")],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_wrong_field_is_said(field: str, value: object, said: str) -> None:
    found = submission({**GOOD, field: value})
    assert isinstance(found, str) and said in found and "\n" not in found


@pytest.mark.parametrize("value", [None, [], "title", 3, [GOOD]])
def test_a_submission_that_is_no_object_is_refused(value: object) -> None:
    assert submission(value) == "the input must be a JSON object"
