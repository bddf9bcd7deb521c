"""Where something stands in a program.md, and what is wrong there in one sentence. Pure: text and tables in, line numbers and sentences out."""

from __future__ import annotations

import difflib
import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from harness.contradictions import Contradiction
from harness.errors import RulesInvalid
from harness.tables import Tables

OPENING = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*toml[ \t]+rules[ \t]*$")
NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
HEADER = re.compile(rf"\s*\[\[?\s*({NAME}(?:\s*\.\s*{NAME})*)\s*\]")
KEY = re.compile(rf"\s*({NAME}(?:\s*\.\s*{NAME})*)\s*=")
NUL = re.compile(r"\\u0{4}|\\U0{8}")  # what starts a process takes none
LONG_TEXT = re.compile(r"#[^\n]*|\"{3}.*?\"{3}|'{3}.*?'{3}", re.DOTALL)
PLAINLY = {
    "string_pattern_mismatch": 'write a local time of day as "HH:MM"',
    "model_type": "must be a table of keys",
    "tuple_type": "must be a list in [brackets]",
}
NAMED = "must name an environment variable; put the address or key into one, and its name here"
PATTERNS = {
    **dict.fromkeys(("channels", "keys", "key"), NAMED),
    "base_url": "must begin with http:// or https://",
    "name": "must be a word of small letters, digits and _",
}
SECRETIVE = frozenset({"channels", "keys", "key", "base_url", "command"})  # a person may have put the secret itself there
ADDRESS = re.compile(r"\S*(?:://|@)\S*")
MOST_BYTES = 64 * 1024  # of the block; a person's has some two thousand


def split(text: str) -> list[str]:
    """The lines of a text as an editor numbers them, the first at 0."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def find_block(lines: Sequence[str]) -> tuple[int, list[str]]:
    """1-based line of the block's first line, and its lines; the block must be there once, be closed, and be no longer than `MOST_BYTES`."""
    openings = [(n, m.group(1)) for n, line in enumerate(lines) if "rules" in line and (m := OPENING.match(line))]
    if not openings:
        raise RulesInvalid("no block fenced with ```toml rules; add one (docs/program.md shows the shortest)", 0)
    if len(openings) > 1:
        raise RulesInvalid(f"a second rules block; the first is at line {openings[0][0] + 1}; keep one", openings[1][0] + 1)
    start, fence = openings[0]
    for end in range(start + 1, len(lines)):
        if lines[end].strip().startswith(fence) and not lines[end].strip().strip(fence[0]):
            block = list(lines[start + 1 : end])
            if sum(map(len, block)) > MOST_BYTES:
                raise RulesInvalid(f"the rules block is longer than {MOST_BYTES // 1024} KiB; prose belongs outside of it", start + 1)
            if nul := next((n for n, line in enumerate(block, start + 2) if NUL.search(line)), 0):
                raise RulesInvalid("has a NUL character, written as an escape; no name or text may hold one", nul)
            return start + 2, block
    raise RulesInvalid("the rules block is never closed; add a line with ``` after it", start + 1)


def line_in(block: Sequence[str], path: Sequence[str]) -> int:
    """0-based line inside the block of the key `path`, or of as much of it as stands there, or 0; the lines of a long text are no keys."""
    table: tuple[str, ...] = ()
    at, most = 0, 0
    for n, line in enumerate(LONG_TEXT.sub(lambda found: "\n" * found.group().count("\n"), "\n".join(block)).split("\n")):
        header, key = HEADER.match(line), KEY.match(line)
        table = _names(header) if header else table
        here = table if header else (*table, *_names(key)) if key else ()
        shared = next((deep for deep, (one, other) in enumerate(zip(here, path, strict=False)) if one != other), min(len(here), len(path)))
        at, most = (n, shared) if shared > most else (at, most)
    return at


def _names(found: re.Match[str]) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(NAME, found.group(1)))


def fault(problem: Any, path: Sequence[str]) -> str:
    """One sentence for one pydantic error; what may be a secret is not repeated in it."""
    path = tuple(ADDRESS.sub("(an address)", part)[:80] for part in path)
    name = f"[{path[0]}] {'.'.join(path[1:])}".strip() if path else ""
    if problem["type"] == "extra_forbidden":
        owner: Any = Tables.model_fields[path[0]].annotation if len(path) > 1 else Tables
        near = difflib.get_close_matches(path[-1], list(getattr(owner, "model_fields", {})) or list(Tables.model_fields), n=1, cutoff=0.0)
        what = f"key {path[-1]!r} in [{path[0]}]" if len(path) > 1 else f"table {path[0]!r}"
        return f"unknown {what}; did you mean {near[0]!r}?"
    if problem["type"] == "value_error":  # said by a rule of the table itself, which may hold a secret
        return str(problem["ctx"]["error"])
    plain = PATTERNS.get(path[1]) if path[1:] and problem["type"] == "string_pattern_mismatch" else None
    said = plain or PLAINLY.get(problem["type"], problem["msg"].lower())
    return f"{name[:120]}: {said}, but it is {_shown(problem['input'], path)}"


def _shown(value: Any, path: Sequence[str]) -> str:
    """A wrong value, or only what kind of value it is where it may hold a secret."""
    plain = isinstance(value, bool | int | float) or (isinstance(value, str) and not ADDRESS.search(value))
    if plain and not SECRETIVE & set(path) and (len(path) > 1 or not isinstance(value, str)):
        return reprlib.repr(value)[:80]
    return "a text that is not repeated here" if isinstance(value, str) else "a table" if isinstance(value, dict) else "no single value"


def sentence(found: Contradiction, written: Mapping[str, Any], tables: Tables, first: int, block: Sequence[str]) -> tuple[int, str]:
    """The line of the first of its keys that is written, and the sentence with the line of each key, or that a key is a default.

    `written` is the block as tomli reads it, `first` the line of the block's first line.
    """
    there = [key for key in found.keys if is_written(written, key)]
    line = first + line_in(block, (there or found.keys)[0])
    return line, found.said.format(*_told(found.keys, written, tables, first, block))


def is_written(written: Mapping[str, Any], key: tuple[str, str]) -> bool:
    """Whether a key stands in the block; the others have their defaults."""
    return key[1] in written.get(key[0], {})


def _told(keys: Sequence[tuple[str, str]], written: Mapping[str, Any], tables: Tables, first: int, block: Sequence[str]) -> list[str]:
    """`[trial] train_seconds (line 31)`, then `amount (line 29)` of the same table, or `amount (675,840 by default)`."""
    told, last = [], ""
    for key in keys:
        table, name = key
        at = f"line {first + line_in(block, key)}" if is_written(written, key) else f"{_default(tables, table, name)} by default"
        told.append(f"{'' if table == last else f'[{table}] '}{name} ({at})")
        last = table
    return told


def _default(tables: Tables, table: str, name: str) -> str:
    value = getattr(getattr(tables, table), name)
    if value is None:
        return "not set"
    if isinstance(value, tuple):
        return json.dumps(list(value), ensure_ascii=False)
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else json.dumps(value)
