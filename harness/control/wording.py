"""A candidate in words: its commit message, its diff, where it printed another number than was measured, and time that its clock does not count."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterable

from harness.trial import JobOutcome, Proposal, Reading

UNCOUNTED_SHARE, UNCOUNTED_SECONDS = 0.1, 10.0


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


def uncounted(outcome: JobOutcome, baseline: Iterable[JobOutcome]) -> str:
    """A sentence when the part of a job before its clock starts is much larger than any baseline's: by a tenth of the job and ten seconds."""
    before = [(one.setup_seconds, one.train_seconds) for one in baseline if one.setup_seconds is not None and one.train_seconds is not None]
    setup, train = outcome.setup_seconds, outcome.train_seconds
    if setup is None or train is None or not before:
        return ""
    usual, trained = max(before)
    if setup < usual + UNCOUNTED_SECONDS or setup / (setup + train) < usual / (usual + trained) + UNCOUNTED_SHARE:
        return ""
    return (
        f"set-up, which no clock counts, took {setup:.0f} of {setup + train:.0f} s; the baseline's took {usual:.0f} of {usual + trained:.0f}: "
        "look at what it does there"
    )
