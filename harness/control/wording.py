"""A candidate in words: its commit message, its diff, and where it printed another number than was measured."""

from __future__ import annotations

import difflib
import io

from harness.trial import Proposal, Reading


def diff(before: dict[str, str], after: dict[str, str]) -> str:
    """A unified diff that `git apply` takes."""
    parts = []
    for name, text in after.items():
        old, new = (io.StringIO(side).readlines() for side in (before.get(name, ""), text))
        lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
        parts += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
    return "".join(parts)


def message(trial: int, proposal: Proposal) -> str:
    """Number, title, hypothesis and proposer, as UTF-8 text."""
    lines = [f"trial {trial}: {' '.join(proposal.title.split())[:100]}", "", proposal.hypothesis, "", f"Proposer: {proposal.proposer}"]
    return "\n".join(lines).replace("\0", "").encode("utf-8", "replace").decode() + "\n"


def printed_otherwise(metric: str, tolerance: float, reading: Reading) -> str:
    """A sentence when a script printed another value than was measured, else nothing."""
    printed, value = reading.outcome.printed_metric, reading.value
    if printed is None or (value is not None and abs(printed - value) <= tolerance):
        return ""
    measured = "nothing" if value is None else format(value, ".6g")
    return f"trial {reading.trial} printed {metric} {printed:g} but was measured at {measured}; only the measurement counts"
