"""An error as evidence: what was checked, expected and found, where it can be read, and a fingerprint that is equal for two errors of one kind. Pure.

A finding that nobody can name (`causes.of` has no row) makes no packet, and what was printed or raised while a trained model was scored is never part of one:
that process had validation text in hand. Reading the end of the log is the caller's business.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping
from typing import NamedTuple

from harness.artifacts import printed
from harness.artifacts.trial_row import TrialRow
from harness.evaluation import causes
from harness.followups import ErrorPacket
from harness.graph import duplicates
from harness.rules import Rules
from harness.trial import JobEnd, Status

ACTUAL_CHARS = 300
FRAME = re.compile(r'^\s*File "([^"\n]{1,4096})", line (\d{1,9}), in (<module>|<lambda>|[A-Za-z_]\w{0,79})', re.MULTILINE)
TRACEBACK = "Traceback (most recent call last)"
CLASS = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w{0,59})")
QUOTED = re.compile(r"(?<!\w)[bru]{0,2}'[^']*'|\"[^\"]*\"|`[^`]*`", re.IGNORECASE)  # the mark of can't opens nothing
LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3")
PATHS = re.compile(r"[\w.~-]*(?:/[\w.~+-]+)+/?")
NUMBERS = re.compile(r"\d+(?:[xX]\d+)+\b|0[xX][0-9a-fA-F]+|[-+]?\d+(?:[.,_]\d+)*(?:[eE][-+]?\d+)?(?:[kKMGT]i?B\b)?")
CODE = "a job that trains to the end of its budget, exits with 0 and leaves a checkpoint that load_model accepts"


class Frame(NamedTuple):
    """The innermost frame of the candidate's own code: file, 1-based line, name of the function."""

    path: str
    line: int
    function: str


def packet(row: TrialRow, rules: Rules, log: bytes) -> ErrorPacket | None:
    """The packet of a settled trial that failed, `None` for an uncertain finding. `log`: the end of what its last job printed."""
    verdict = row.verdict
    cause = causes.of(verdict.reason) if verdict else None
    if verdict is None or cause is None or verdict.status is None:
        return None
    log = b"" if in_scoring(row) else log
    return ErrorPacket(
        failed_check=f"{verdict.status.value}: {verdict.reason}", expected=expected(row.status, rules), actual=_actual(row), evidence=evidence(row),
        error_type=cause.error_type, fingerprint=fingerprint(row, log, rules),
    )  # fmt: skip


def in_scoring(row: TrialRow) -> bool:
    """Whether a model of this trial was trained and its scoring brought no number."""
    return any(one.outcome.end is JobEnd.OK and one.measurement is None for one in row.readings)


def expected(status: Status | None, rules: Rules) -> str:
    """What a trial owed that ended like this, in words."""
    limits = rules.trial
    if status is Status.TIMEOUT:
        cap = f", {limits.compute_cap:g} times the slowest baseline's CPU time" if limits.clock == "tokens" else ""
        return f"at most {limits.setup_seconds:g} s of set-up, {limits.train_seconds:g} s of training, {limits.evaluate_seconds:g} s of evaluation{cap}"
    if status is Status.OOM:
        return f"at most {limits.memory_mb:g} MiB" if limits.memory_mb else "to fit into the device's memory"
    if status is Status.INVALID:
        return f"a finite {rules.metric.name} between {rules.metric.plausible[0]:g} and {rules.metric.plausible[1]:g}, by the rules"
    return CODE


def evidence(row: TrialRow) -> str:
    """The file of the trial that shows the failure, by its path below the study's folder."""
    last = row.readings[-1] if row.readings else None
    if last is None:
        return f"{row.folder}/verdict.json" if row.rehearsal is None else f"{row.folder}/rehearsal/evaluate.log"
    return f"{row.folder}/r{last.replicate}/{'evaluate' if in_scoring(row) else 'train'}.log"


def _actual(row: TrialRow) -> str:
    verdict = row.verdict
    assert verdict is not None, "a settled trial was judged"
    if in_scoring(row):
        return f"the trained model could not be scored: {verdict.reason}"
    outcome = row.readings[-1].outcome if row.readings else None
    return _flat(verdict.detail or (outcome.detail if outcome else "") or verdict.reason) or verdict.reason


def _flat(text: str) -> str:
    """One line of plain characters."""
    return " ".join(printed.clean_tail(text.encode("utf-8", "replace"), 20, ACTUAL_CHARS).split())


def fingerprint(row: TrialRow, log: bytes, rules: Rules) -> str:
    """`oom/out_of_memory/MemoryError/train.py:forward/3fa2b1c0d9e8`: class, place, and a digest of the words without numbers, paths and quoted names."""
    verdict = row.verdict
    assert verdict is not None, "a settled trial was judged"
    frame = own_frame(log, rules.scope.editable)
    place = f"{frame.path}:{frame.function}" if frame else "-"
    line = printed.error_line(log)
    told = line if frame or ":" in line else ""
    named = CLASS.match(told)
    words = hashlib.sha256(plain(told).encode()).hexdigest()[:12] if told else "-"
    return "/".join((verdict.status.value, verdict.reason[:40], named.group(1) if named else "-", place, words))


def plain(message: str) -> str:
    """A message without what differs between two errors of one kind: quoted text, paths, addresses, numbers."""
    for pattern, stands_for in ((QUOTED, "§"), (PATHS, "/"), (NUMBERS, "#")):
        message = pattern.sub(stands_for, message)
    return " ".join(message.split())[:200]


def own_frame(log: bytes, own: tuple[str, ...]) -> Frame | None:
    """The innermost frame, in the last traceback of a log, of a file in scope; the log is the candidate's word."""
    text = printed.clean_tail(log, 400, 60_000)
    last = text[text.rfind(TRACEBACK) :] if TRACEBACK in text else ""
    frames = [Frame(name, int(line), function) for path, line, function in FRAME.findall(last) if (name := _own(path, own))]
    return frames[-1] if frames else None


def _own(path: str, own: tuple[str, ...]) -> str:
    """The file in scope that a path of a traceback means; a library's file may have the same name."""
    return "" if LIBRARY.search(path) else next((name for name in own if path == name or path.endswith(f"/{name}")), "")


def symbol_at(text: str, line: int) -> str:
    """The top-level name whose code stands at a 1-based line, methods as `Class.method`; empty when there is none."""
    try:
        body = duplicates.parse(text).body
    except SyntaxError:
        return ""
    top = _at(body, line)
    if isinstance(top, ast.ClassDef):
        inner = _at(top.body, line)
        return f"{top.name}.{inner.name}" if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) else top.name
    if isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef):
        return top.name
    named = [name for name, _ in duplicates.assignments(ast.Module([top], []))] if top else []
    return named[0] if named else ("<module>" if top else "")


def _at(body: list[ast.stmt], line: int) -> ast.stmt | None:
    return next((one for one in body if one.lineno <= line <= (one.end_lineno or one.lineno)), None)


def symbols(texts: Mapping[str, str], frame: Frame | None) -> frozenset[str]:
    """`path:symbol` of the frame, none when the text has no such line."""
    found = symbol_at(texts.get(frame.path, ""), frame.line) if frame else ""
    return frozenset({f"{frame.path}:{found}"}) if frame and found else frozenset()
