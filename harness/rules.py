"""program.md -> `Rules`: the ten things a person sets, parsed by tomli and validated by pydantic with line numbers.

Exactly one fenced block with the info string `toml rules` holds them. Unknown keys, wrong types and contradictions are errors that name
the line of program.md and the nearest known key. Pure but for `load`, which reads the file. The digest is the SHA-256 of the file's bytes.
"""

from __future__ import annotations

import codecs
import difflib
import hashlib
import re
from pathlib import Path, PurePosixPath
from typing import Any

import tomli
from pydantic import ValidationError, model_validator

from harness import oversight, sections
from harness.errors import RulesInvalid

OPENING = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*toml[ \t]+rules[ \t]*$")
LINE_END = re.compile(r"\r\n|\r|\n")
NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
HEADER = re.compile(rf"\s*\[\[?\s*({NAME}(?:\s*\.\s*{NAME})*)\s*\]")
PLAINLY = {"string_pattern_mismatch": 'write a local time of day as "HH:MM"', "model_type": "must be a table of keys"}
KEY = re.compile(rf"\s*({NAME}(?:\s*\.\s*{NAME})*)\s*=")


class Rules(sections.Section):
    """All ten, and how an agent is run, with the digest of the program.md they came from."""

    scope: sections.Scope = sections.Scope()
    metric: sections.Metric = sections.Metric()
    trial: sections.Trial = sections.Trial()
    run: sections.Run = sections.Run()
    sandbox: sections.SandboxRules = sections.SandboxRules()
    audit: sections.AuditRules = sections.AuditRules()
    result: sections.Result = sections.Result()
    crash: sections.Crash = sections.Crash()
    keep: sections.Keep = sections.Keep()
    log: sections.Log = sections.Log()
    ban: oversight.Ban = oversight.Ban()
    correction: oversight.Correction = oversight.Correction()
    stall: oversight.Stall = oversight.Stall()
    review: oversight.Review = oversight.Review()
    escalation: oversight.Escalation = oversight.Escalation()
    proposer: sections.Proposer = sections.Proposer()
    model: sections.Model = sections.Model()
    stop: sections.StopAt = sections.StopAt()
    digest: str = ""

    @model_validator(mode="after")
    def _no_contradictions(self) -> Rules:
        for path in self.scope.editable:
            if path.startswith("/") or ".." in path.split("/") or PurePosixPath(path).as_posix() != path or path == ".":
                raise ValueError(f"[scope] editable path {path!r} must be a file below the project's folder, plainly written")
            if any(path == p or (p.endswith("/") and path.startswith(p)) for p in self.scope.protected):
                raise ValueError(f"[scope] {path!r} is both editable and protected; take it out of one list")
            if path == "prepare.py":
                raise ValueError("[scope] editable must not name prepare.py: it measures, and every job gets the study's own copy")
        if self.metric.plausible[0] >= self.metric.plausible[1]:
            raise ValueError("[metric] plausible must be [low, high] with low < high")
        if self.trial.clock != "tokens" and self.trial.train_seconds < self.trial.amount:
            raise ValueError("[trial] train_seconds is shorter than amount: every trial would time out")
        if self.trial.clock == "tokens" and self.trial.amount != int(self.trial.amount):
            raise ValueError("[trial] amount must be a whole number of tokens")
        if not (self.stop.trials or self.stop.hours or self.stop.deadline):
            raise ValueError("[stop] needs at least one of trials, hours, deadline: a study must end by itself")
        return self


def load(path: Path) -> Rules:
    """Read and validate the rules of `path`; raises `RulesInvalid` with a sentence that names the file and the line."""
    try:
        return read(path.read_bytes(), path)
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
        line = len(LINE_END.split(body[: error.start].decode()))
        raise RulesInvalid(f"{path}:{line}: is not UTF-8 text; save it as UTF-8", line) from None
    try:
        return parse(text).model_copy(update={"digest": hashlib.sha256(raw).hexdigest()})
    except RulesInvalid as error:
        where = f"{path}:{error.line}" if error.line else str(path)
        raise RulesInvalid(f"{where}: {error}", error.line) from None


def parse(text: str) -> Rules:
    """Rules from the whole text of a program.md; raises `RulesInvalid` whose `line` is 1-based in that text."""
    first, block = _find_block(LINE_END.split(text))
    try:
        table = tomli.loads("\n".join(block) + "\n")
    except (ValueError, RecursionError) as error:
        place = re.search(r"at line (\d+)", str(error))
        line = first + int(place.group(1)) - 1 if place else first + len(block)
        said = re.sub(r" \(at [^)]*\)$", "", str(error))
        raise RulesInvalid(f"the rules block is not valid TOML: {said[:1].lower()}{said[1:]}", line) from None
    if "digest" in table:
        raise RulesInvalid("unknown key 'digest'", first + _line_in(block, ("digest",)))
    try:
        return Rules(**table, digest=hashlib.sha256(text.encode()).hexdigest())
    except ValidationError as error:
        problem = error.errors()[0]
        path = tuple(str(part) for part in problem["loc"])
        raise RulesInvalid(_sentence(problem, path), first + _line_in(block, path or _named_key(problem["msg"]))) from None


def _find_block(lines: list[str]) -> tuple[int, list[str]]:
    """1-based line of the block's first line, and its lines; the block must be there once and be closed."""
    openings = [(n, m.group(1)) for n, line in enumerate(lines) if (m := OPENING.match(line))]
    if not openings:
        raise RulesInvalid("no block fenced with ```toml rules; add one (docs/program.md shows the shortest)", 0)
    if len(openings) > 1:
        raise RulesInvalid(f"a second rules block; the first is at line {openings[0][0] + 1}; keep one", openings[1][0] + 1)
    start, fence = openings[0]
    for end in range(start + 1, len(lines)):
        if lines[end].strip().startswith(fence) and not lines[end].strip().strip(fence[0]):
            return start + 2, lines[start + 1 : end]
    raise RulesInvalid("the rules block is never closed; add a line with ``` after it", start + 1)


def _line_in(block: list[str], path: tuple[str, ...]) -> int:
    """0-based line inside the block of the key `path`, or of its table, or 0."""
    table: tuple[str, ...] = ()
    near: int | None = None
    for n, line in enumerate(block):
        header, key = HEADER.match(line), KEY.match(line)
        table = _names(header) if header else table
        here = table if header else (*table, *_names(key)) if key else ()
        if here and here[:2] == path[:2]:
            return n
        if here and near is None and here[:1] == path[:1]:
            near = n
    return near or 0


def _names(found: re.Match[str]) -> tuple[str, ...]:
    return tuple(part.strip(" \t\"'") for part in found.group(1).split("."))


def _named_key(message: str) -> tuple[str, ...]:
    return next(iter(re.findall(r"\[(\w+)\] (\w*)", message)), ())


def _sentence(problem: Any, path: tuple[str, ...]) -> str:
    """One sentence for one pydantic error."""
    name = f"[{path[0]}] {'.'.join(path[1:])}".strip() if path else ""
    if problem["type"] == "extra_forbidden":
        owner: Any = Rules.model_fields[path[0]].annotation if len(path) > 1 else Rules
        known = [field for field in owner.model_fields if field != "digest"]
        near = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.0)
        what = f"key {path[-1]!r} in [{path[0]}]" if len(path) > 1 else f"table {path[0]!r}"
        return f"unknown {what}; did you mean {near[0]!r}?"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    return f"{name}: {PLAINLY.get(problem['type'], problem['msg'].lower())}, but it is {repr(problem['input'])[:80]}"
