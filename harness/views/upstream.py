"""What somebody else's `results.tsv` shows: baseline, best kept row, each keep with its gain, keeps expected by chance, bad lines.

Lower is better, as upstream has it; the first row is the baseline. It reads through `foreign.py` and certifies nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.trial import Status
from harness.views.chance import strict_records
from harness.views.foreign import FAILED_WORDS, MEASURED_WORDS, Row, Table, read_table
from harness.views.text import flatten, plural, signed

__all__ = ["Table", "as_dict", "read_table", "summary"]
MOST_NAMED = 20


def as_dict(table: Table) -> dict[str, Any]:
    """The same for programs."""
    best = _best(table)
    return {
        "path": str(table.path), "metric": table.metric, "rows": len(table.rows), "judged": table.judged,
        "counts": dict(Counter(row.status for row in table.rows)),
        "baseline": table.baseline.value if table.baseline else None,
        "best": {"line": best.line, "commit": best.commit, "value": best.value, "description": best.description} if best else None,
        "keeps": len(table.kept), "expected_chance_keeps": strict_records(table.judged),
        "bad": [{"line": c.line, "why": c.why, "skipped": c.skipped} for c in table.bad],
    }  # fmt: skip


def _best(table: Table) -> Row | None:
    """The lowest value among the kept rows; the earliest of equals."""
    return min(table.kept, key=lambda row: row.value or 0.0, default=None)


def summary(table: Table) -> str:
    """A readable report, lower is better."""
    lines = [f"{table.path}: {plural(len(table.rows), 'trial')}, metric {table.metric} (lower is better)"]
    if not table.rows:
        return "\n".join([*lines, "There is no trial in it, so there is nothing to believe.", *_bad_lines(table)])
    counts = Counter(row.status for row in table.rows)
    lines.append("status: " + ", ".join(f"{count} {flatten(word, 30)}" for word, count in counts.most_common()))
    unknown = sorted(set(counts) - MEASURED_WORDS - FAILED_WORDS - {status.value for status in Status})
    if unknown:
        lines.append(f"status words not known here, counted as neither kept nor measured: {flatten(', '.join(unknown))}")
    return "\n".join([*lines, *_gain_lines(table), "", *_keep_lines(table), *_bad_lines(table)]).rstrip()


def _gain_lines(table: Table) -> list[str]:
    base, best = table.baseline, _best(table)
    lines = [_baseline_line(base)]
    if best is None:
        return [*lines, "best: no row was kept"]
    commit = best.commit or "no commit to go back to"
    lines.append(f"best: {best.value:.6f} (line {best.line}, {commit}): {flatten(best.description, 80)}")
    if base is not None and base.value is not None and best.value is not None:
        lines.append(f"gain: {signed(base.value - best.value, 6)}, picked as the lowest of many readings, hence biased; not certified")
    after = len([row for row in table.kept if row is not base])
    chance = strict_records(table.judged)
    lines.append(
        f"keeps after it: {after} of {table.judged} measured; if no idea helped, the strict rule would keep about {chance:.1f} by chance"
    )
    return lines


def _baseline_line(base: Row | None) -> str:
    if base is None:
        return "baseline: the first row cannot be used (below), so no gain against it can be stated"
    if base.value is None:
        return f"baseline: the first row (line {base.line}, {flatten(base.status, 30)}) has no value, so no gain against it can be stated"
    return f"baseline: {base.value:.6f} (line {base.line})"


def _keep_lines(table: Table) -> list[str]:
    """Each keep with its gain over the best keep before it."""
    lines, best = [], None
    for row in table.kept:
        assert row.value is not None, "kept rows have a value"
        gain = "" if best is None else signed(best - row.value, 6)
        worse = "  worse than the best before it" if best is not None and row.value > best else ""
        lines.append(f"  line {row.line:>4}  {row.commit or '-':<9.9}  {row.value:.6f}  {gain:>10}  {flatten(row.description, 70)}{worse}")
        best = row.value if best is None else min(best, row.value)
    return lines


def _bad_lines(table: Table) -> list[str]:
    if not table.bad:
        return []
    skipped = len([c for c in table.bad if c.skipped])
    lines = ["", f"{plural(skipped, 'line')} skipped, {plural(len(table.bad) - skipped, 'cell')} not used:"]
    groups: dict[tuple[bool, str], list[int]] = {}
    for c in table.bad:
        groups.setdefault((c.skipped, c.why), []).append(c.line)
    for (gone, why), numbers in list(groups.items())[:MOST_NAMED]:
        lines.append(f"  {'line' if len(numbers) == 1 else 'lines'} {ranges(numbers)}: {why}{'; skipped' if gone else ''}")
    return [*lines, *([f"  and {len(groups) - MOST_NAMED} more kinds"] if len(groups) > MOST_NAMED else [])]


def ranges(numbers: list[int]) -> str:
    """`3-25, 27`, cut when there are many."""
    spans: list[list[int]] = []
    for n in numbers:
        if spans and n == spans[-1][1] + 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    shown = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans[:MOST_NAMED])
    return f"{shown} and {len(spans) - MOST_NAMED} more places" if len(spans) > MOST_NAMED else shown
