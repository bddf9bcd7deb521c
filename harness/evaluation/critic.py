"""When a keep needs an independent review, what the reviewer is shown, and what a review leaves of the keep. Pure: values in, values out.

The reviewer is defined by what it is not given: `build` is an allow-list. It takes a diff without comments, the closing criteria and the rules in words;
hypothesis, title, expectation, trial number, verdict and every measured number have no way in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.artifacts.trial_row import TrialRow
from harness.evaluation import auditing, bindings
from harness.graph import bare, duplicates, near
from harness.records import Record
from harness.reviews import Review
from harness.rules import Rules
from harness.trial import Bar, Status, Verdict

HEADER = re.compile(r"^--- a/.*\n\+\+\+ b/.*\n(?=@@)", re.MULTILINE)  # all three lines: one of code may look like one of them
LINE = 100  # characters of a statement that count as one line
CLOCKS = {"tokens": "training tokens", "wall": "seconds of training", "cpu": "CPU seconds of training"}


class Input(Record):
    """All that a reviewer is shown."""

    diff: str
    criteria: tuple[str, ...]
    floor: tuple[str, ...]


def build(diff: str, criteria: Sequence[str], floor: Sequence[str]) -> Input:
    """The input of a review, of these three and nothing else."""
    return Input(diff=diff, criteria=tuple(criteria), floor=tuple(floor))


def floor(rules: Rules) -> tuple[str, ...]:
    """The rules that a change must keep, in words and without any metric value."""
    scope, ban, trial = rules.scope, rules.ban, rules.trial
    memory = f", in {trial.memory_mb:,.0f} MiB of memory" if trial.memory_mb else ""
    said = [
        f"Only {', '.join(scope.editable)} may change; these are protected: {', '.join(scope.protected)}.",
        f"A file has at most {scope.max_file_kb:,} KiB, one expression at most {scope.max_literal_bytes:,} bytes of literals.",
        f"A candidate trains for {trial.amount:,.0f} {CLOCKS[trial.clock]}{memory}.",
        f"{rules.metric.name} ({rules.metric.direction} is better) is measured afterwards, by code that the change cannot touch; how it came out is not your question.",
    ]
    said += [f"Nobody may turn: {', '.join(ban.axes)}."] if ban.axes else []
    said += [f"No added line may contain: {', '.join(ban.words)}."] if ban.words else []
    said += [f"No import of: {', '.join(ban.imports)}."] if ban.imports else []
    return tuple(said)


class Read(NamedTuple):
    """A change without its comments, in one layout: the unified diff, its lines with their sign, the names that it changes or binds anew."""

    diff: str
    lines: tuple[str, ...]
    touched: frozenset[str]


def due(rules: Rules, row: TrialRow, verdict: Verdict, incumbent: TrialRow | None, change: Read | None) -> str:
    """The rule that asks for a review of this keep, with what met it; '' when none does. What cannot be told counts as met.

    `change` is `None` when a text cannot be read. A keep that a person approved after a review is not reviewed again.
    """
    law = rules.review
    if row.trial == 0 or row.approves is not None or verdict.status is not Status.KEEP:
        return ""
    if change is None and (law.symbols or law.added_lines is not None):
        return "[review]: the change cannot be shown (a text is no code, or code reads its own text), so what it touches cannot be told"
    if law.added_lines is not None and change and (grown := _grown(law.added_lines, row, change)):
        return f"[review] added_lines = {law.added_lines}: {grown}"
    if law.memory_percent is not None and (grown := _memory(law.memory_percent, row, incumbent)):
        return f"[review] memory_percent = {law.memory_percent:g}: {grown}"
    if law.symbols and change and (named := _named(law.symbols, change)):
        return f"[review] symbols: {named}"
    if law.implausible and (wonder := _wonder(rules, verdict)):
        return f"[review] implausible: {wonder}"
    return ""


def read(before: Mapping[str, str], after: Mapping[str, str]) -> Read | None:
    """The change of all files; `None` when one of them cannot be read as code, or not without its comments."""
    try:
        diff = bare.change(before, after)
        pairs = [(before.get(name, ""), text) for name, text in after.items()]
    except SyntaxError:
        return None
    lines = tuple(line for line in HEADER.sub("", diff).split("\n") if line[:1] in ("+", "-"))
    return Read(diff, lines, frozenset[str]().union(*(near.changed_symbols(*pair) | _rebound(*pair) for pair in pairs)))


def passes(review: Review | None) -> bool:
    """Whether a review speaks for the keep: only a verdict that is there, and is `pass`."""
    return review is not None and review.result is not None and not review.void and review.result.verdict == "pass"


def ruling(review: Review | None, asked_by: str) -> tuple[str, str]:
    """Why a keep is not kept, as reason and sentence, when its review does not pass."""
    if review is None:
        return "review_missing", f"{asked_by}; no review was made"
    if review.result is None or review.void:
        return "review_missing", f"{review.asked_by}; no verdict ({review.void or 'void'}): {review.detail or review.void}"
    found = "; ".join(f"{one.code} in {one.target.kind} {one.target.id}: {one.message}" for one in review.result.findings)
    if review.result.verdict == "fail":
        return "review_failed", f"{review.asked_by}; {review.model} found {found}"
    return "review_uncertain", f"{review.asked_by}; {review.model} is uncertain{f': {found}' if found else ''}"


def blocked(verdict: Verdict, reason: str, detail: str, bar: Bar | None) -> Verdict:
    """A keep that waits for a person: its numbers stay, and the next candidate must beat what this one had to (`bar`)."""
    return verdict.model_copy(update={"status": Status.BLOCKED, "reason": reason, "detail": detail, "next_bar": bar})


def _memory(percent: float, row: TrialRow, incumbent: TrialRow | None) -> str:
    here, before = _peak(row), _peak(incumbent) if incumbent else None
    if here is None or before is None:
        return "a peak of memory is not known, so its growth cannot be told"
    grown = 100.0 * (here - before) / before
    return f"peak memory grows by {grown:.1f} %" if grown > percent else ""


def _peak(row: TrialRow) -> float | None:
    return max((reading.outcome.peak_memory_mb for reading in row.readings if reading.outcome.peak_memory_mb), default=None)


def _rebound(old: str, text: str) -> frozenset[str]:
    """The names that the two do not bind in the same ways, wherever that is."""
    found = []
    for tree in (duplicates.parse(old), duplicates.parse(text)):
        known: dict[int, str] = {}
        found.append(Counter((one.name, one.code(known)) for one in bindings.bindings(tree)))
    return frozenset(name for name, _ in (found[0] - found[1]) + (found[1] - found[0]))


def _grown(most: int, row: TrialRow, change: Read) -> str:
    """By the lines as they are written or in one layout, whichever are more: many statements fit into one line."""
    sizes = [(line[0], 1 + len(line) // LINE) for line in change.lines if line[1:].strip() not in ("", "...")]
    lines = max(row.change.net_lines, sum(size if sign == "+" else -size for sign, size in sizes))
    return f"this adds {lines} net lines" if lines > most else ""


def _named(symbols: Sequence[str], change: Read) -> str:
    """A named symbol that is changed, has a changed part, or stands in a changed line: code elsewhere may put another in its place."""
    for symbol in symbols:
        if any(f".{symbol}." in f".{one}." for one in change.touched):
            return f"{symbol} is changed"
        last = symbol.rpartition(".")[2]
        if last in change.touched and not any(one.endswith(f".{last}") and one[0] != "<" for one in change.touched):
            return f"{last} is changed, and of which class cannot be told"
        word = re.compile(rf"(?<![\w]){re.escape(last)}(?![\w])")
        if any(word.search(line[1:]) for line in change.lines):
            return f"a changed line names {symbol}"
    return ""


def _wonder(rules: Rules, verdict: Verdict) -> str:
    if verdict.gain is None or verdict.value is None or verdict.sigma is None:
        return "the gain cannot be told"
    sign = 1.0 if rules.metric.direction == "lower" else -1.0
    if auditing.implausible(rules, verdict.gain, verdict.value + sign * verdict.gain, verdict.sigma):
        return f"a gain of {verdict.gain:.4g} is implausibly large"
    return ""
