"""program.md -> `Rules`: the ten things a person sets, parsed by tomli and validated by pydantic with line numbers.

Exactly one fenced block with the info string `toml rules` holds them. Unknown keys, wrong types and contradictions are errors that name
the lines of program.md and the nearest known key. Pure but for `load`, which reads the file. The digest is the SHA-256 of the file's bytes.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from pathlib import Path

import tomli
from pydantic import ValidationError

from harness import contradictions, program_file, rule_lines
from harness.errors import RulesInvalid
from harness.tables import Tables


class Rules(Tables):
    """All tables, with the digest of the program.md they came from."""

    digest: str = ""


def load(path: Path) -> Rules:
    """Read and validate the rules of `path`; raises `RulesInvalid` with a sentence that names the file and the line."""
    return read(contents(path), path)


def contents(path: Path) -> bytes:
    """The bytes of the program.md at `path`; raises `RulesInvalid`, also when it is missing."""
    try:
        return program_file.contents(path)
    except FileNotFoundError:
        raise RulesInvalid(f"{path}: not found; write one (docs/program.md shows how) or name it with --program") from None
    except OSError as error:
        raise RulesInvalid(f"{path}: cannot be read: {error.strerror}") from None


def read(raw: bytes, path: Path) -> Rules:
    """Rules from the bytes of a program.md; `path` is for the sentence of a `RulesInvalid`."""
    body = raw.removeprefix(codecs.BOM_UTF8)
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise _at(path, body[: error.start], "is not UTF-8 text; save it as UTF-8") from None
    if b"\0" in body:
        raise _at(path, body[: body.index(b"\0")], "has a NUL byte, as a write that was cut off leaves it; save it again")
    try:
        return parse(text).model_copy(update={"digest": hashlib.sha256(raw).hexdigest()})
    except RulesInvalid as error:
        where = f"{path}:{error.line}" if error.line else str(path)
        raise RulesInvalid(f"{where}: {error}", error.line) from None


def parse(text: str) -> Rules:
    """Rules from the whole text of a program.md; raises `RulesInvalid` whose `line` is 1-based in that text."""
    first, block = rule_lines.find_block(rule_lines.split(text))
    try:
        table = tomli.loads("\n".join(block) + "\n")
    except (ValueError, RecursionError) as error:
        place = re.search(r"at line (\d+)", str(error))
        line = first + int(place.group(1)) - 1 if place else first + len(block)
        said = re.sub(r" \(at [^)]*\)$", "", str(error))
        raise RulesInvalid(f"the rules block is not valid TOML: {said[:1].lower()}{said[1:]}", line) from None
    if "digest" in table:
        raise RulesInvalid("unknown key 'digest'", first + rule_lines.line_in(block, ("digest",)))
    try:
        rules = Rules(**table, digest=hashlib.sha256(text.encode()).hexdigest())
    except ValidationError as error:
        problem = error.errors()[0]
        path = tuple(str(part) for part in problem["loc"])
        raise RulesInvalid(rule_lines.fault(problem, path), first + rule_lines.line_in(block, path)) from None
    for found in contradictions.find(rules):
        line, said = rule_lines.sentence(found, table, rules, first, block)
        raise RulesInvalid(said, line)
    return rules


def _at(path: Path, before: bytes, said: str) -> RulesInvalid:
    """A fault of the bytes, with the line that `before` ends in."""
    line = len(rule_lines.split(before.decode()))
    return RulesInvalid(f"{path}:{line}: {said}", line)
