"""What a person's `keep` allows: the same change once more, on the same incumbent, without a review. Pure: values in, values out."""

from __future__ import annotations

from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.errors import ProposalRefused
from harness.trial import Change, Proposal, Status

KEEP = "keep"
PREFIX = "review:"


def key(trial: int) -> str:
    """Under what the person is asked about a trial's review."""
    return f"{PREFIX}{trial}"


def held(row: TrialRow) -> bool:
    """Whether a trial was better and no review let it pass."""
    return row.status is Status.BLOCKED and row.verdict is not None and row.verdict.reason.startswith("review_")


def waiting(study: Study) -> list[int]:
    """Blocked trials that a person wants kept and with which nothing was done yet, oldest first."""
    blocked = [row.trial for row in study.rows if row.status is Status.BLOCKED and row.trial not in study.reviewing.approved]
    return [trial for trial in blocked if study.inbox.answer(key(trial)) == KEEP]


def check(proposal: Proposal, change: Change, study: Study) -> None:
    """`ProposalRefused` unless a person approved exactly this, once: the program of a blocked trial on its own parent."""
    number = proposal.approves
    row = next((row for row in study.rows if row.trial == number), None)
    if row is None or row.status is not Status.BLOCKED or study.inbox.answer(key(row.trial)) != KEEP:
        raise ProposalRefused("approval", f"nobody approved trial {number}; propose a change of your own")
    if any(other.approves == number and other.status is not Status.INTERRUPTED for other in study.rows):
        raise ProposalRefused("approval", f"trial {number} was carried out once more already, and once is all", number)
    if row.parent != proposal.parent or row.change.ast_sha256 != change.ast_sha256:
        raise ProposalRefused("approval", f"this is not the change of trial {number} on its incumbent, which is what was approved")
