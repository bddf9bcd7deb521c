"""A measured trial repeated on purpose: once, on the same incumbent, and only where that says something. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Mapping

from harness.artifacts.trial_row import TrialRow
from harness.errors import ProposalRefused
from harness.evaluation import causes
from harness.graph import duplicates
from harness.trial import MEASURED, Change, Proposal


def check(proposal: Proposal, parents: Mapping[str, str], row: TrialRow | None, repeated: bool, paired: bool) -> Change:
    """The change of the trial `row` once more; `ProposalRefused` when that would say nothing or was done. `repeated`: it was replicated before."""
    number = proposal.replicates
    if row is not None and row.trial == 0:
        raise ProposalRefused("replication", "the baseline is measured again by the harness where that says something; propose a change")
    if row is None or row.status not in MEASURED:
        raise ProposalRefused(
            "replication", f"trial {number} was not measured, so there is nothing to repeat; propose a change of your own"
        )
    if row.verdict and row.verdict.reason in (causes.NOT_VERIFIED, causes.OUT_OF_SCOPE):
        told = f"trial {number} is a repair that was rolled back, so its number counts for nothing; propose a change of your own"
        raise ProposalRefused("replication", told, number)
    if paired:
        told = f"this machine repeats itself bit for bit, so trial {number} would read the same again: {result(row)}"
        raise ProposalRefused("replication", told, number)
    if repeated or row.replicates is not None:
        raise ProposalRefused("replication", f"trial {number} was repeated already, and once is all; propose something else", number)
    if row.parent != proposal.parent:
        told = f"trial {number} stood on an older incumbent; make its change again on this one instead"
        raise ProposalRefused("replication", told, number)
    after = {**parents, **{path: text for path, text in proposal.files.items() if text is not None}}
    change = duplicates.change_all(parents, after)
    if change.ast_sha256 != row.change.ast_sha256:
        raise ProposalRefused("replication", f"the program is not that of trial {number}; leave out replication_of for a new idea", number)
    return change


def result(row: TrialRow) -> str:
    """Status, value and gain ± error in a few words."""
    verdict = row.verdict
    if verdict is None or verdict.value is None:
        return f"{row.status.value if row.status else 'open'}, not measured"
    gain = "" if verdict.gain is None else f", gain {verdict.gain:+.4f}"
    error = "" if verdict.standard_error is None else f" ± {verdict.standard_error:.4f}"
    return f"{verdict.status.value}, {verdict.value:.6f}{gain}{error}"
