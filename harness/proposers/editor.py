"""The text editor tool of the Messages API (`text_editor_20250728`), executed in memory on the files in scope. It reads and writes no disk.

Its input is untrusted JSON: what is wrong with it is answered in one sentence and leaves every file as it was. There is no undo_edit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.proposers import nearest
from harness.proposers.fence import clean, cut, flat

COMMANDS = ("view", "str_replace", "create", "insert")
KEYS = ("command", "path", "view_range", "old_str", "new_str", "file_text", "insert_line", "insert_text")
FOLDERS = ("", ".", "/", "./")
MAX_BYTES = 1024 * 1024  # of one file
VIEW_BYTES = 100_000
LINE_CHARS = 20_000
AROUND, AROUND_BYTES = 3, 4000  # lines shown around an edit
SURROGATE = re.compile("[\ud800-\udfff]")
BARE = re.compile(r"(?<!\r)\n")


@dataclass(frozen=True)
class Answer:
    """What a tool answers to the model."""

    text: str
    is_error: bool = False


class Wrong(Exception):
    """What is wrong with a tool's input, as a sentence for the model that sent it."""


def arguments(tool_input: object, known: Sequence[str]) -> dict[str, object]:
    """The keys that are given; a null is as good as none. An unknown key is wrong, for it would be ignored."""
    if not isinstance(tool_input, dict):
        raise Wrong("the input must be a JSON object")
    for key in tool_input:
        if key not in known:
            named = flat(key, 40) if isinstance(key, str) else "a key that is no text"
            raise Wrong(f"this tool does not take {named!r}; it takes: {', '.join(known)}")
    return {key: value for key, value in tool_input.items() if value is not None}


def text(given: Mapping[str, object], key: str, default: str | None = None) -> str:
    """A text that can be stored as UTF-8."""
    value = given.get(key, default)
    if value is None:
        raise Wrong(f"{key} is missing")
    if not isinstance(value, str):
        raise Wrong(f"{key} must be a text")
    if SURROGATE.search(value):
        raise Wrong(f"{key} has half of a surrogate pair, which no UTF-8 file can hold")
    return value


def whole(given: Mapping[str, object], key: str, low: int, high: int, default: int | None = None) -> int:
    """A whole number within limits."""
    value = given.get(key, default)
    if value is None:
        raise Wrong(f"{key} is missing")
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Wrong(f"{key} must be a whole number from {low} to {high}")
    return value


class Editor:
    """The files in scope as one proposal changes them."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._given = dict(files)
        self._files = dict(files)

    @property
    def files(self) -> dict[str, str]:
        """The current texts, as a copy."""
        return dict(self._files)

    def changed(self) -> dict[str, str]:
        """Only the files whose text differs from the given one."""
        return {name: body for name, body in self._files.items() if body != self._given[name]}

    def run(self, tool_input: object) -> Answer:
        """Execute one command; never raises for what the input says."""
        acts = {"view": self._view, "str_replace": self._replace, "create": self._create, "insert": self._insert}
        try:
            given = arguments(tool_input, KEYS)
            command = text(given, "command")
            if command not in acts:
                undo = " and no undo_edit: edit once more, or create the file anew" if command == "undo_edit" else ""
                raise Wrong(f"there is no such command{undo}; there are: {', '.join(COMMANDS)}")
            return Answer(acts[command](given))
        except Wrong as wrong:
            return Answer(str(wrong), is_error=True)

    def _view(self, given: Mapping[str, object]) -> str:
        if given.get("path") in FOLDERS:
            listed = [f"{name} ({len(_lines(body)):,} lines, {_size(body):,} bytes)" for name, body in sorted(self._files.items())]
            return "\n".join(["The files in scope:", *listed])
        name = self._name(given)
        body = self._files[name]
        lines = _lines(body)
        first, last = _range(given.get("view_range"), len(lines))
        if not lines:
            return f"{name} is empty."
        shown, notes = _numbered(body, lines, first, last, VIEW_BYTES)
        if last == len(lines) and not body.endswith("\n"):
            notes.append("The last line does not end with a line feed.")
        return "\n".join([shown, *notes])

    def _replace(self, given: Mapping[str, object]) -> str:
        name = self._name(given)
        body = self._files[name]
        old, new = _native(body, text(given, "old_str")), _native(body, text(given, "new_str", ""))
        if not old:
            raise Wrong("old_str is empty; give the text to replace, or use insert or create")
        place = body.find(old)
        if place < 0:
            raise Wrong(f"old_str has no match in {name}, so nothing was changed. {nearest.said(_lines(body), _lines(old))}")
        if body.find(old, place + 1) >= 0:
            raise Wrong(_many(name, body, old))
        if old == new:
            raise Wrong("old_str and new_str are the same, so nothing was changed")
        self._put(name, body[:place] + new + body[place + len(old) :])
        return self._around(name, body.count("\n", 0, place) + 1, new.count("\n"))

    def _create(self, given: Mapping[str, object]) -> str:
        name = self._name(given)
        body = text(given, "file_text")
        self._put(name, body)
        return f"{name} now has {len(_lines(body)):,} lines, {_size(body):,} bytes."

    def _insert(self, given: Mapping[str, object]) -> str:
        name = self._name(given)
        body = self._files[name]
        lines = _lines(body)
        line = whole(given, "insert_line", 0, len(lines))
        part = _native(body, text(given, "insert_text" if "insert_text" in given or "new_str" not in given else "new_str"))
        end = _native(body, "\n")
        offset = sum(len(one) + 1 for one in lines[:line])
        head, tail = body[:offset], body[offset:]
        if head and not head.endswith("\n"):
            head += end
        if not part.endswith("\n") and (tail or body.endswith("\n")):
            part += end
        self._put(name, head + part + tail)
        return self._around(name, line + 1, max(0, len(_lines(part)) - 1))

    def _name(self, given: Mapping[str, object]) -> str:
        path = text(given, "path")
        name = path.removeprefix("./") if path.startswith("./") else path.removeprefix("/")
        if name not in self._files:
            raise Wrong(f"{flat(path, 100)!r} is not in scope; the files that may be edited: {', '.join(sorted(self._files))}")
        return name

    def _put(self, name: str, body: str) -> None:
        size = _size(body)
        if size > MAX_BYTES:
            raise Wrong(f"{name} would have {size:,} bytes; {MAX_BYTES:,} are allowed, so nothing was changed")
        self._files[name] = body

    def _around(self, name: str, first: int, more: int) -> str:
        body = self._files[name]
        lines = _lines(body)
        if not lines:
            return f"{name} is now empty."
        shown, notes = _numbered(body, lines, max(1, first - AROUND), min(len(lines), first + more + AROUND), AROUND_BYTES)
        return "\n".join([f"{name} was edited and now reads there:", shown, *notes])


def _size(body: str) -> int:
    return len(body.encode("utf-8", "surrogatepass"))


def _lines(body: str) -> list[str]:
    """The lines without their line feeds; a line feed at the very end begins no line."""
    lines = body.split("\n")
    return lines if lines[-1] else lines[:-1]


def _native(body: str, part: str) -> str:
    """In a file whose every line ends with CRLF a bare line feed means CRLF: a model sees and writes line feeds."""
    return BARE.sub("\r\n", part) if "\r\n" in body and not BARE.search(body) else part


def _range(value: object, count: int) -> tuple[int, int]:
    """First and last line to show, from 1; an end beyond the file is its end."""
    if value is None:
        return 1, count
    if not isinstance(value, list) or len(value) != 2 or any(isinstance(one, bool) or not isinstance(one, int) for one in value):
        raise Wrong("view_range must be two whole numbers, the first and the last line; -1 is the end")
    first, last = value[0], count if value[1] == -1 else min(value[1], count)
    if count and not 1 <= first <= last:
        raise Wrong(f"view_range must go from a first line to a last one, within 1 to {count}; -1 is the end")
    return first, last


def _numbered(body: str, lines: Sequence[str], first: int, last: int, limit: int) -> tuple[str, list[str]]:
    """Lines behind their numbers within `limit` bytes, and what has to be said of them: what is not shown cannot be matched by what was read here."""
    windows = _native(body, "\n") == "\r\n"
    shown: list[str] = []
    hidden = size = 0
    for number in range(first, last + 1):
        line = lines[number - 1].removesuffix("\r") if windows else lines[number - 1]
        seen = clean(line[:LINE_CHARS].replace("\r", "␍"))
        hidden += len(line[:LINE_CHARS]) - len(seen)
        said = f"{number:6}\t{cut(seen, limit - 100)}" + (" … [cut]" if len(line) > LINE_CHARS else "")
        size += len(said.encode()) + 1
        if size > limit and shown:
            break
        shown.append(said)
    notes = [f"{hidden:,} characters that cannot be seen are left out here."] if hidden else []
    notes += ["Every line ends with CRLF; a line feed that you write becomes one."] if windows else []
    notes += ["␍ stands for a carriage return."] if not windows and any("\r" in one for one in lines[first - 1 : last]) else []
    end = first + len(shown) - 1
    notes += [f"Lines {end + 1} to {last} are not shown; ask for them with view_range."] if end < last else []
    return "\n".join(shown), notes


def _many(name: str, body: str, old: str) -> str:
    places: list[int] = []
    place = body.find(old)
    while place >= 0 and len(places) < 10:
        places.append(body.count("\n", 0, place) + 1)
        place = body.find(old, place + 1)
    where = ", ".join(map(str, places)) + (" …" if place >= 0 else "")
    return f"old_str has {max(len(places), body.count(old)):,} matches in {name}, at lines {where}; give more of the lines around the one you mean"
