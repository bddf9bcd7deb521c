"""docs/program.md and the code say the same: every key with its default, every fixed key, every exit code."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import tomli
from pydantic import BaseModel

from harness import cli, errors
from harness.control import budget, steering
from harness.rules import Rules, parse
from tests.projects import ROOT

PAGE = (ROOT / "docs" / "program.md").read_text(encoding="utf-8")
SECTIONS: dict[str, type[BaseModel]] = {
    name: type(getattr(Rules(stop=parse("```toml rules\n[stop]\ntrials = 1\n```\n").stop), name)) for name in Rules.model_fields if name != "digest"
}  # fmt: skip
KEYS = [(section, key) for section, model in SECTIONS.items() for key in model.model_fields]


def table(section: str) -> dict[str, list[str]]:
    """The rows of a section's table by key: unit, default, meaning, example."""
    found = re.search(rf"^### `\[{section}\]`.*?(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/program.md has no heading for [{section}]"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found.group().splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row[1:] for row in rows}


def value(cell: str) -> Any:
    """What a cell such as `[0.3, 20.0]` means in TOML; `none` is `None`."""
    text = cell.strip("`")
    return None if text == "none" else tomli.loads(f"x = {text}")["x"]


def test_every_section_is_there_and_no_other() -> None:
    assert re.findall(r"^### `\[(\w+)\]`", PAGE, re.MULTILINE) == list(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_of_a_section_is_there_and_no_other(section: str) -> None:
    assert list(table(section)) == list(SECTIONS[section].model_fields)


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_a_keys_default_and_example_are_those_of_the_code(section: str, key: str) -> None:
    unit, default, meaning, example = table(section)[key]
    code = SECTIONS[section].model_fields[key].get_default(call_default_factory=True)
    assert value(default) == (list(code) if isinstance(code, tuple) else code)
    assert unit and len(meaning) > 10
    lines = (
        {"trials": "trials = 1"} | {key: f"{key} = {example.strip('`')}"} if section == "stop" else {key: f"{key} = {example.strip('`')}"}
    )
    stop = "" if section == "stop" else "[stop]\ntrials = 1\n"
    extra = 'clock = "wall"\n' if key == "amount" else ""
    more = (
        "amount = 300\n"
        if key == "clock"
        else "criteria = ['It can be taken out again.']\n"
        if section == "review" and key != "criteria"
        else ""
    )
    rules = parse("```toml rules\n" + stop + f"[{section}]\n{extra}{more}" + "\n".join(lines.values()) + "\n```\n")
    assert getattr(getattr(rules, section), key) is not None


def test_the_shortest_block_shown_is_valid() -> None:
    shown = re.search(r"^    ```toml rules\n.*?```$", PAGE, re.MULTILINE | re.DOTALL)
    assert shown
    assert parse(shown.group().replace("\n    ", "\n").strip()).stop.trials == 100


def test_the_page_itself_cannot_be_taken_for_a_program() -> None:
    with pytest.raises(errors.RulesInvalid, match="no block"):
        parse(PAGE)


def test_every_key_that_cannot_change_is_named() -> None:
    fixed = re.findall(r'\("\[(\w+)\] (\w+)",', inspect.getsource(steering))
    assert len(fixed) >= 7
    for section, key in fixed:
        assert f"`{section}.{key}`" in PAGE


def test_every_exit_code_is_there() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    leaves = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.RatchetError)]
    used = {error.exit_code for error in leaves} | {budget.DONE, budget.RULE, budget.NO_RESULT, budget.INFRASTRUCTURE, 130, 143}
    assert documented == used
    said = re.search(r"Exit codes:(.*?)\"\"\"|Exit codes:(.*)", cli.__doc__ or "", re.DOTALL)
    assert said
    assert {int(code) for code in re.findall(r"\b(\d+)\b", said.group())} == documented


def test_every_test_that_the_acceptance_page_names_exists() -> None:
    page = (ROOT / "docs" / "acceptance.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page)) - {"test_docs"}
    there = {name for path in (ROOT / "tests").glob("test_*.py") for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}
    assert len(named) > 40
    assert named <= there, named - there
