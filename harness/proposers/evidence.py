"""What a trial left behind, for a prompt: the last failure as an error packet, learning curves in a few points.

The only part of the prompt that reads files. Each is read with a cap, never followed as a link, and may be missing or broken.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from harness.artifacts import printed
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import ReadingDir, StudyDir
from harness.artifacts.trial_row import TrialRow
from harness.evaluation import packets
from harness.execution import claims
from harness.proposers.fence import Data, clean, cut_front, flat, quoted
from harness.rules import Rules
from harness.trial import FAILED, JobEnd

READ_BYTES = 64 * 1024
POINTS = 12
LOG_LINES = 20
LOG_BYTES = 2000
DETAIL_BYTES = 400
FAILURE_BYTES = 4 * 1024
CURVES_BYTES = 2 * 1024

AT_THE_END = (
    ("step", "steps"), ("tokens_per_second", "tokens/s"), ("ema_loss", "smoothed loss"), ("grad_norm", "gradient norm"), ("peak_memory_mb", "MB peak"),
)  # fmt: skip

Point = dict[str, int | float]


def failure(study: Study, folder: StudyDir, rules: Rules) -> list[str | Data]:
    """The latest trial that failed by its own fault: what was checked, expected and found, and the end of its log."""
    row = next((row for row in reversed(study.rows) if row.status in FAILED), None)
    if row is None or row.verdict is None:
        return ["No trial has failed so far."]
    return [packet("the last failure", row, study, folder, rules)]


def packet(label: str, row: TrialRow, study: Study, folder: StudyDir, rules: Rules) -> Data:
    """One trial that failed by its own fault. Nothing that was printed or raised while its model was scored is in it."""
    assert row.verdict is not None, "a failed trial was judged"
    age = study.row_count - 1 - row.trial
    trained = bool(row.readings) and row.readings[-1].outcome.end is JobEnd.OK
    if any(one.outcome.end is JobEnd.OK and one.measurement is None for one in row.readings):
        return _in_scoring(label, row, age)
    where = reading(row, folder, last=True).train_log
    log = b"" if trained else end(where)
    facts = [
        f"trial: {row.trial} ({f'trials since: {age}' if age else 'the latest'}): {flat(row.title, 100)}",
        f"failed check: {flat(row.verdict.reason, 60)}",
        f"expected: {packets.expected(row.status, rules)}",
        f"actual: {flat(_actual(row), DETAIL_BYTES)}",
        f"type: {row.verdict.status.value}; {flat(printed.error_line(log), DETAIL_BYTES) or 'no error line in the log'}",
        f"evidence: {where.relative_to(folder.project).as_posix()}",
    ]
    tail = cut_front(clean(printed.clean_tail(log, LOG_LINES, LOG_BYTES)), LOG_BYTES)
    facts += ["end of the log:", *tail.split("\n")] if tail else ["the log is empty or missing"]
    return quoted(label, facts, FAILURE_BYTES)


def _in_scoring(label: str, row: TrialRow, age: int) -> Data:
    """A model that trained but could not be scored: our own words only. While it was scored it had validation text in hand, and whatever it printed or
    raised then could carry that text to the next candidate.
    """
    assert row.verdict is not None, "a failed trial was judged"
    facts = [
        f"trial: {row.trial} ({f'trials since: {age}' if age else 'the latest'}): {flat(row.title, 100)}",
        f"failed check: {flat(row.verdict.reason, 60)}, when the trained model was scored",
        "expected: `load_model(state, device)` gives a model with finite, normal logits (B, T, V) for ids (B, T), within the limit",
        f"type: {row.verdict.status.value}; what it printed or raised while it was scored is not shown",
    ]
    return quoted(label, facts, FAILURE_BYTES)


def reading(row: TrialRow, folder: StudyDir, last: bool) -> ReadingDir:
    """The folder of a trial's first or last reading."""
    replicate = row.readings[-1 if last else 0].replicate if row.readings else 0
    return folder.trial(row.folder).reading(replicate)


def _actual(row: TrialRow) -> str:
    assert row.verdict is not None, "a failed trial was judged"
    outcome = row.readings[-1].outcome if row.readings else None
    return row.verdict.detail or (outcome.detail if outcome else "") or row.verdict.reason


def curves(study: Study, folder: StudyDir) -> list[str | Data]:
    """Training loss at a few points of the budget, as the jobs told it: the incumbent's and that of the last two trials."""
    best = study.incumbent
    rows = [("incumbent", best)] if best else []
    latest = [row for row in reversed(study.rows[-3:]) if best is None or row.trial != best.trial][:2]
    rows += [("latest" if n == 0 else "before it", row) for n, row in enumerate(latest)]
    lines = [curve(f"trial {row.trial} ({name})", thinned(reading(row, folder, last=False).curve)) for name, row in rows]
    if not lines:
        return ["There is no learning curve yet."]
    return [quoted("learning curves, progress:loss in nats", lines, CURVES_BYTES)]


def curve(name: str, points: Sequence[Point]) -> str:
    """A curve in one line: `trial 17: 0.00:5.5 … 1.00:4.5 (499 steps, 12345.6 tokens/s, 4.61 smoothed loss)`, of its end what the job told."""
    if not points:
        return f"{name}: no curve"
    shown = " ".join(f"{point.get('progress', 0.0):.2f}:{point['loss']:.4g}" for point in points)
    end = points[-1]
    facts = [f"{end[key]:.6g} {word}" for key, word in AT_THE_END if key in end]
    return f"{name}: {shown}" + (f" ({', '.join(facts)})" if facts else "")


def thinned(path: Path) -> list[Point]:
    """At most `POINTS` of a curve, evenly spaced, the first and the last among them."""
    found = [point for line in _ends(path).split(b"\n") if (point := _point(line)) and "loss" in point]
    if len(found) <= POINTS:
        return found
    return [found[round(n * (len(found) - 1) / (POINTS - 1))] for n in range(POINTS)]


def _point(line: bytes) -> Point:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return claims.point(value) if isinstance(value, dict) else {}


def start(path: Path, cap: int) -> bytes:
    """At most the first `cap` bytes of a file; nothing when it cannot be read."""
    return _slices(path, cap, 0)[:cap]


def end(path: Path) -> bytes:
    """At most the last `READ_BYTES` of a file; nothing when it cannot be read."""
    return _slices(path, 0, READ_BYTES)


def _ends(path: Path) -> bytes:
    """A short file whole; of a long one the first and the last half of what may be read."""
    return _slices(path, READ_BYTES // 2, READ_BYTES // 2)


def _slices(path: Path, head: int, tail: int) -> bytes:
    """The first `head` and the last `tail` bytes of a regular file; nothing when it is missing, a link, or anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode):
                return b""
            first = file.read(head)
            file.seek(max(len(first), state.st_size - tail))
            return first + (b"\n" if state.st_size > head + tail and head else b"") + file.read(tail)
    except OSError:
        return b""
