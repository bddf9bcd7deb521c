"""What follows a failure, a stall or a doubt, in the words of a person: bans, repairs, the ladder, reviews, questions."""

from __future__ import annotations

from collections.abc import Sequence

from harness.rules import Rules
from harness.views.text import duration, flatten, plural

RUNGS = {
    "other_axis": "another axis", "combine": "near-misses together", "wider_briefing": "a wider briefing", "other_model": "another model", "radical": "a radical move",
    "critic": "a paid critic", "ask": "a question to you",
}  # fmt: skip


def sentences(rules: Rules) -> dict[str, str]:
    """Table by table."""
    return {
        "ban": ban(rules), "correction": _correction(rules), "stall": _stall(rules), "review": _review(rules), "escalation": _escalation(rules),
    }  # fmt: skip


def ban(rules: Rules) -> str:
    """What is refused before any training, or that nothing is."""
    law = rules.ban
    parts = [f"a change of {listed(law.axes)}"] if law.axes else []
    parts += [f"an added line with {listed(law.words)}"] if law.words else []
    parts += [f"an import of {listed(law.imports)}"] if law.imports else []
    return f"refused: {'; '.join(parts)}" if parts else "nothing is banned"


def _correction(rules: Rules) -> str:
    law = rules.correction
    if not (law.attempts and law.in_all):
        return "a failed trial is not repaired"
    crashes = ", a crash by the model" if law.crashes else ""
    return (
        f"a failed trial is repaired {_times(law.attempts)}, {law.in_all:,} repairs in all of at most {plural(law.max_lines, 'line')}: "
        f"out of memory by half of {flatten(law.micro_batch, 40)} with the same {flatten(law.total_batch, 40)}{crashes}"
    )


def _stall(rules: Rules) -> str:
    law = rules.stall
    if law.after is None or not law.rungs:
        return "nothing changes when nothing is kept"
    steps = ", ".join(RUNGS[rung] for rung in law.rungs)
    return f"after {plural(law.after, 'measured trial')} without a keep, and every {law.quota:,} more: {steps}"


def _review(rules: Rules) -> str:
    law = rules.review
    if not law.asked_for:
        return "no keep is reviewed"
    when = [f"adds more than {plural(law.added_lines, 'line')}"] if law.added_lines is not None else []
    when += [f"takes {law.memory_percent:g} % more memory"] if law.memory_percent is not None else []
    when += [f"changes {listed(law.symbols)}"] if law.symbols else []
    when += [f"gains more than {rules.audit.implausible_gain:.0%} of the bar"] if law.implausible else []
    who = flatten(law.model or rules.model.names[0], 60)
    return f"a keep that {' or '.join(when)} is reviewed by {who} ({plural(len(law.criteria), 'criterion', 'criteria')}, {law.in_all:,} reviews in all); no verdict, no keep"


def _escalation(rules: Rules) -> str:
    law = rules.escalation
    ends = f"{law.consecutive_crashes:,} failed trials or {law.refused_proposals:,} refused proposals in a row end the night (exit code 3)"
    return f"{ends}; a question takes its default after {duration(law.answer_minutes * 60)}"


def _times(count: int) -> str:
    return {1: "once", 2: "up to twice"}.get(count, f"up to {count} times")


def listed(names: Sequence[str]) -> str:
    """`DEPTH, Muon or 3 others`, flat."""
    shown = [flatten(name, 40) for name in names[:4]]
    more = len(names) - len(shown)
    shown += [plural(more, "other")] if more else []
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
