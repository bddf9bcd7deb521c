"""A list of edits from a TOML or JSON file, proposed one after the other: for rehearsals, tests and ideas prepared by hand.

    [[proposals]]
    title = "a smaller rate"
    set = { MATRIX_LR = 0.03 }          # or: find + replace, text, path, files

Proposal k takes entry k, so a restart needs no state. It never looks at outcomes.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli
from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticSerializationError

from harness.errors import ProposalRefused, UserFault
from harness.graph import duplicates
from harness.proposers.protocol import Briefing
from harness.trial import Proposal, Record

Literal = bool | int | float | str
FORMS = "find with replace, set, text, path, files"
EDIT_CHARS = 60


class Entry(Record):
    """One edit of the list, in exactly one of the five forms. In `files`, `None` deletes a file (JSON only)."""

    title: str = Field(min_length=1)
    hypothesis: str = ""
    expected_effect: str = ""
    refuted_if: str = ""
    axis: str = ""
    find: str | None = Field(default=None, min_length=1)
    replace: str | None = None
    set: dict[str, Literal] | None = Field(default=None, min_length=1)
    text: str | None = None
    path: str | None = None
    files: dict[str, str | None] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_form(self) -> Entry:
        if (self.find is None) != (self.replace is None):
            raise ValueError("find and replace need each other")
        given = [name for name in ("find", "set", "text", "path", "files") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"needs exactly one of {FORMS}, but has {' and '.join(given) or 'none'}")
        return self


class Scripted:
    """The proposer of a list of entries; `None` when it is used up."""

    name = "scripted"
    reads = False

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries

    @classmethod
    def from_file(cls, path: Path) -> Scripted:
        """Read a list `proposals` from a .toml or .json file; raises `UserFault` naming the file and the entry."""
        table = _load(path)
        rows = table.get("proposals") if isinstance(table, dict) and set(table) == {"proposals"} else table
        if not isinstance(rows, list) or not rows:
            raise UserFault(f"{path}: needs a list named proposals with at least one entry, and nothing else")
        return cls(tuple(_entry(path, number, row) for number, row in enumerate(rows, start=1)))

    def as_json(self) -> str:
        """The list as a file that `from_file` reads back, with the text of every `path` in it."""
        return json.dumps([entry.model_dump(exclude_none=True) for entry in self.entries], indent=1) + "\n"

    def propose(self, briefing: Briefing) -> Proposal | None:
        """Entry `briefing.number`, repairs not counted, applied to the incumbent; raises `ProposalRefused("edit_failed")` when it does not fit."""
        number = briefing.number - briefing.owed
        if not 1 <= number <= len(self.entries):
            return None
        entry = self.entries[number - 1]
        try:
            files = _files(entry, briefing.files)
        except LookupError as error:
            said = f"entry {number} ({entry.title!r}): {error.args[0]}; nothing was changed"
            raise ProposalRefused("edit_failed", said) from None
        return Proposal(
            id=briefing.number,
            parent=briefing.incumbent,
            title=entry.title,
            hypothesis=entry.hypothesis,
            expected_effect=entry.expected_effect,
            refuted_if=entry.refuted_if,
            axis=entry.axis or _axis(entry),
            edit=_edit(entry, briefing.files),
            files=files,
            proposer=self.name,
        )


def _load(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserFault(f"{path}: cannot be read as UTF-8 text: {error}") from None
    if path.suffix not in (".toml", ".json"):
        raise UserFault(f"{path}: a list of proposals is a .toml or a .json file; rename it")
    try:
        return tomli.loads(text) if path.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise UserFault(f"{path}: is not valid {path.suffix[1:].upper()}: {error}") from None


def _entry(path: Path, number: int, row: object) -> Entry:
    """The validated entry, with the text of its `path` read now, so that proposing touches no disk."""
    where = f"{path}: entry {number}"
    if isinstance(row, dict) and isinstance(row.get("title"), str):
        where += f" ({row['title']!r})"
    try:
        entry = Entry.model_validate(row)
        entry.model_dump_json()
    except ValidationError as error:
        raise UserFault(f"{where}: {_sentence(error)}") from None
    except PydanticSerializationError:
        raise UserFault(f"{where}: holds a lone surrogate, which UTF-8 cannot store; take it out") from None
    if entry.path is None:
        return entry
    try:
        text = (path.parent / entry.path).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UserFault(f"{where}: {path.parent / entry.path} cannot be read as UTF-8 text: {error}") from None
    return entry.model_copy(update={"path": None, "text": text})


def _sentence(error: ValidationError) -> str:
    problem = error.errors()[0]
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    place = ".".join(str(part) for part in problem["loc"][:2])
    if problem["type"] == "extra_forbidden":
        return f"unknown key {place!r}; the known ones are {', '.join(Entry.model_fields)}"
    return f"{place}: {problem['msg'].lower()}" if place else "must be a table"


def _files(entry: Entry, files: Mapping[str, str]) -> dict[str, str | None]:
    """The new texts; `LookupError` when the entry does not fit the incumbent."""
    if entry.files is not None:
        return dict(entry.files)
    path = _target(files)
    if entry.text is not None:
        return {path: entry.text}
    if entry.set is not None:
        return {path: _set(path, files[path], entry.set)}
    return {path: _replaced(path, files[path], entry.find or "", entry.replace or "")}


def _target(files: Mapping[str, str]) -> str:
    if "train.py" in files or not files:
        return "train.py"
    return min(files)


def _replaced(path: str, text: str, find: str, replace: str) -> str:
    first = text.find(find)
    if first < 0:
        raise LookupError(f"the text to find is not in {path}")
    if text.find(find, first + 1) >= 0:
        raise LookupError(f"the text to find is in {path} more than once")
    return text[:first] + replace + text[first + len(find) :]


def _set(path: str, text: str, values: Mapping[str, Literal]) -> str:
    for name, value in values.items():
        text = duplicates.respell(text, _value(path, text, name), repr(value))
    return text


def _value(path: str, text: str, name: str) -> ast.expr:
    """The node that is assigned to the constant, once and at top level."""
    try:
        found = [value for known, value in duplicates.assignments(duplicates.parse(text, path)) if known == name]
    except SyntaxError:
        raise LookupError(f"{path} does not compile, so {name} cannot be set") from None
    if len(found) != 1:
        raise LookupError(f"{path} assigns {name} {len(found)} times at top level, not once")
    return found[0]


def _axis(entry: Entry) -> str:
    return next(iter(entry.set)) if entry.set and len(entry.set) == 1 else ""


def _edit(entry: Entry, files: Mapping[str, str]) -> str:
    """The change in one line; for constants in the form that the search reads back: `NAME: old -> new`."""
    if entry.set is not None:
        text = files[_target(files)]
        values = {name: _value(_target(files), text, name) for name in entry.set}
        return ", ".join(f"{name}: {_source(text, values[name])} -> {new!r}" for name, new in entry.set.items())
    if entry.find is not None:
        return f"{_short(entry.find)} -> {_short(entry.replace or '')}"
    return "whole file" if entry.files is None else f"files: {', '.join(sorted(entry.files))}"


def _source(text: str, node: ast.expr) -> str:
    return _short(ast.get_source_segment(text, node) or "")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= EDIT_CHARS else line[: EDIT_CHARS - 1] + "…"
