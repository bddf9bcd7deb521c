"""What was tried, for a prompt: a few lines that matter, the rest as counts per axis, what was refused, and what nobody has turned yet.

As long after a thousand trials as after thirty: near misses, keeps, the latest and the best of each axis have a fixed number of lines.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from harness.artifacts.study import Study
from harness.artifacts.trial_row import Refusal, TrialRow
from harness.graph import duplicates
from harness.proposers.fence import Data, flat, quoted
from harness.trial import FAILED, MEASURED, Status

NEAR = 0.2  # P(better) from which a discarded idea is a near miss
NEAR_LINES, KEPT_LINES, LATEST_LINES, AXIS_LINES = 7, 5, 7, 5
COUNT_LINES = 10
REFUSED_LINES = 4
LINE_BYTES = 160
AXIS_BYTES = 40
TRIED_BYTES = 6 * 1024
REFUSED_BYTES = 1024
UNTRIED_BYTES = 1024
CONSTANT = re.compile(r"\b[A-Z][A-Z0-9_]*\b")


def tried(study: Study) -> list[str | Data]:
    """The trials that say most, one line each, then every axis in numbers."""
    rows = [row for row in study.rows if row.trial != 0]
    if not rows:
        return ["Nothing has been tried yet."]
    lines: list[str] = []
    shown: set[int] = set()
    for title, chosen in _groups(rows, study):
        fresh = [row for row in chosen if row.trial not in shown]
        shown.update(row.trial for row in fresh)
        lines += [title, *map(line, fresh)] if fresh else []
    lines += [f"all {len(rows):,} trials by axis:", *_counts(rows)]
    said = (
        "Gains are positive when better, against the incumbent of that moment, each with its standard error; P is the probability that the change is "
        "better at all. A near miss may pay when it is combined with another one, taken further or taken back a little."
    )
    return [said, quoted("what was tried", lines, TRIED_BYTES)]


def _groups(rows: Sequence[TrialRow], study: Study) -> Iterable[tuple[str, list[TrialRow]]]:
    judged = [row for row in rows if row.verdict and row.verdict.gain is not None]
    near = sorted((r for r in judged if r.status is Status.DISCARD and _chance(r) >= NEAR), key=lambda r: (-_chance(r), -r.trial))
    yield f"near misses (discarded, P at least {NEAR}):", near[:NEAR_LINES]
    best = study.incumbent.trial if study.incumbent else None
    kept = sorted((r for r in judged if r.status is Status.KEEP), key=lambda r: (r.trial != best, -_gain(r), -r.trial))
    yield "kept (the incumbent, then the largest gains):", kept[:KEPT_LINES]
    yield "the latest:", list(rows[: -LATEST_LINES - 1 : -1])
    by_axis: dict[str, TrialRow] = {}
    for row in sorted(judged, key=lambda r: (-_chance(r), -r.trial)):
        by_axis.setdefault(_axis(row), row)
    yield "the best of other axes:", list(by_axis.values())[:AXIS_LINES]


def _gain(row: TrialRow) -> float:
    return row.verdict.gain if row.verdict and row.verdict.gain is not None else 0.0


def _chance(row: TrialRow) -> float:
    return row.verdict.p_better if row.verdict and row.verdict.p_better is not None else 0.0


def _axis(row: TrialRow) -> str:
    return flat(row.axis, AXIS_BYTES) or "(no axis)"


def line(row: TrialRow) -> str:
    """`17 discard MATRIX_LR -0.0012 ± 0.0038 P 0.38: a smaller rate`."""
    verdict = row.verdict
    facts = f"{row.trial} {verdict.status.value if verdict else 'open'} {_axis(row)}"
    if verdict and verdict.gain is not None:
        error = f" ± {verdict.standard_error:.4f}" if verdict.standard_error is not None else ""
        facts += f" {verdict.gain:+.4f}{error}" + (f" P {verdict.p_better:.2f}" if verdict.p_better is not None else "")
    if verdict and (verdict.gain is None or (verdict.detail and verdict.status in MEASURED)):
        facts += f" {flat(verdict.reason, 30)}"
    title, edit = flat(row.title, LINE_BYTES), flat(row.edit, LINE_BYTES)
    return flat(f"{facts}: {title}" + (f" [{edit}]" if edit not in title else ""), LINE_BYTES)


def _counts(rows: Sequence[TrialRow]) -> list[str]:
    """Every axis in one line, the most tried first; rare ones are summed up."""
    totals = Counter(map(_axis, rows))
    kept = Counter(_axis(row) for row in rows if row.status is Status.KEEP)
    failed = Counter(_axis(row) for row in rows if row.status in FAILED)
    order = sorted(totals, key=lambda axis: (-totals[axis], axis))
    lines = [f"{axis}: {totals[axis]} tried, {kept[axis]} kept, {failed[axis]} failed" for axis in order[:COUNT_LINES]]
    rest = order[COUNT_LINES:]
    if rest:
        lines.append(f"{len(rest):,} other axes: {sum(totals[a] for a in rest):,} tried, {sum(kept[a] for a in rest):,} kept")
    return lines


def refused(study: Study) -> list[str | Data]:
    """The latest proposals that did not run, newest first, with the reasons."""
    if not study.refusals:
        return ["No proposal was refused so far."]
    reasons = Counter(flat(one.reason, 30) for one in study.refusals)
    said = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:6])
    lines = [f"of the last {len(study.refusals):,}: {said}"]
    lines += map(refusal, study.refusals[: -REFUSED_LINES - 1 : -1])
    return [f"{study.refused:,} refused so far, before any device time.", quoted("refused proposals", lines, REFUSED_BYTES)]


def refusal(one: Refusal) -> str:
    """`proposal 30: duplicate: the same program was already measured [MATRIX_LR: 0.04 -> 0.04]`."""
    return flat(f"proposal {one.proposal}: {flat(one.reason, 30)}: {flat(one.detail, 110)} [{flat(one.edit or one.axis, 60)}]", 220)


def untried(study: Study, files: Mapping[str, str]) -> list[str | Data]:
    """The constants of the files in scope that no trial's axis, edit or title names."""
    constants = [name for path in sorted(files) for name in _constants(files[path], path)]
    named = {name for row in study.rows for text in (row.axis, row.edit, row.title) for name in CONSTANT.findall(text[:300])}
    left = [name for name in dict.fromkeys(constants) if name not in named]
    if not constants:
        return []
    if not left:
        return ["Every constant was turned at least once."]
    return [quoted("constants that no trial has turned", [", ".join(left)], UNTRIED_BYTES)]


def _constants(text: str, path: str) -> list[str]:
    """Upper-case names that a file sets to a number or a flag at its top level, seeds apart."""
    try:
        found = list(duplicates.assignments(duplicates.parse(text, path)))
    except SyntaxError:
        return []
    return [name for name, value in found if CONSTANT.fullmatch(name) and not duplicates.is_seed(name) and _literal(value)]


def _literal(value: ast.expr) -> bool:
    inner = value.operand if isinstance(value, ast.UnaryOp) else value
    return isinstance(inner, ast.Constant) and isinstance(inner.value, bool | int | float)
