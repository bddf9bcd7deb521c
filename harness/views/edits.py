"""Edits of program.md, in force or refused, and refused proposals as they came; and which warnings are past. Text from the journal's fold."""

from __future__ import annotations

from harness.artifacts.study import EDIT_CHARACTERS, PAST, Study
from harness.artifacts.trial_row import Edit
from harness.views.text import clock, flatten

MOST = 12


def log_lines(study: Study) -> list[tuple[int, str, str]]:
    """For `ratchet log`: after which settled trial, when, and what to say of it."""
    told = [(one.after, one.at, [f"refused     {flatten(one.reason, 40)}: {flatten(one.detail)}"]) for one in study.refusals]
    told += [(one.after, one.at, _lines(one)) for one in study.edits]
    return [(after, at, "\n".join([f"  {'-':>5}  {clock(at):12}  {first}", *rest])) for after, at, (first, *rest) in told]


def status_lines(study: Study) -> list[str]:
    """For `ratchet status`: the last refused proposal and the last edit."""
    lines = [f"  refused    proposal {one.proposal}, {flatten(one.reason, 40)}: {flatten(one.detail)}" for one in study.refusals[-1:]]
    for one in study.edits[-1:]:
        first, *rest = _lines(one)
        more = f"; `ratchet log` has all {len(study.edits):,} edits" if len(study.edits) > 1 else ""
        lines += [f"  rules      {clock(one.at)} {first}{more}", *rest]
    return lines


def warning_lines(study: Study) -> list[str]:
    """For `ratchet status`: the last warnings but what the last edit's line says; those that are past give way."""
    others = (one for one in study.warnings if one != f"rules: {study.inbox.complaint}")
    ordered = sorted(others, key=lambda one: not one.startswith(PAST))
    lines = [f"  warning    {flatten(one, 300)}" for one in ordered[-3:]]
    return lines + ([f"             and {len(ordered) - 3} earlier warnings; the report has them"] if len(ordered) > 3 else [])


def _lines(one: Edit) -> list[str]:
    """What became of an edit, and the first lines that came and went."""
    if not one.digest:
        return [f"program.md refused: {flatten(one.said, 500)}"]
    what = "is again what is in force" if one.back else "changed, in force from the next trial on"
    lines = [line for line in one.said.split("\n")[2:] if line.rstrip()[1:] and line[0] in "+-"] or one.said.split("\n")[:1]
    more = ["and more lines, which the journal has"] if len(lines) > MOST or len(one.said) == EDIT_CHARACTERS else []
    return [
        f"program.md {what} ({one.digest[:12]})",
        *(f"{'':23}{said}" for line in (*lines[:MOST], *more) if (said := flatten(line, 160))),
    ]
