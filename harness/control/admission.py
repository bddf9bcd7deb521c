"""What the guard is told of earlier trials, so that it can refuse what was measured before; nothing here decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.artifacts.study import Study
from harness.control import findings
from harness.errors import ProposalRefused
from harness.evaluation import again, approval, guard, replication, tickets
from harness.evaluation.again import Sibling
from harness.execution.workplace import in_scope
from harness.followups import Ticket
from harness.graph import duplicates
from harness.graph.ratchet import Ratchet
from harness.rules import Rules
from harness.trial import FAILED, MEASURED, OFFLINE, Change, Proposal, Status

TITLE_CHARS = 120


class Admission:
    """The guard of one study."""

    def __init__(self, study: Callable[[], Study], ratchet: Ratchet) -> None:
        self._study, self._ratchet = study, ratchet
        self._siblings: dict[int, Sibling] = {}

    def completed(self, proposal: Proposal, rules: Rules, reads: bool = False) -> Proposal:
        """A declared replication without files gets those of its original; what a proposer that `reads` hands in while a ticket is open is the repair asked for."""
        ticket, proposal = self._study().repairs.ticket, findings.as_repair(self._study(), proposal)
        if reads and ticket is not None and not tickets.is_memory(ticket) and proposal.replicates is None:
            proposal = self._as_repair(proposal, ticket, rules)
        row = next((row for row in self._study().rows if row.trial == proposal.replicates and row.commit), None)
        if proposal.files or row is None:
            return proposal
        return proposal.model_copy(update={"files": dict(self._texts(row.commit or "", rules))})

    def check(self, proposal: Proposal, rules: Rules) -> Change:
        """What the proposal changes, if it may run; otherwise `ProposalRefused`."""
        proposal = self.completed(proposal, rules)
        parents = self._texts(proposal.parent, rules)
        if proposal.repairs is not None:
            self._check_repair(proposal, rules)
        if proposal.replicates is not None:
            return self._check_replication(proposal, rules, parents)
        try:
            change = guard.check(proposal, rules, parents, self._known(proposal.approves))
        except ProposalRefused as refusal:
            if refusal.reason != "duplicate" or refusal.earlier is None:
                raise
            row = self._study().row(refusal.earlier)
            said = f"trial {row.trial}: {replication.result(row)} ({rules.metric.name})"
            raise ProposalRefused("duplicate", f"the same program was tried already, {said}; propose something else", row.trial) from None
        if proposal.approves is not None:
            approval.check(proposal, change, self._study())
        elif proposal.proposer not in OFFLINE:  # a person's list and a search mean their small steps
            again.check_near(proposal, parents, self._measured_on(proposal.parent, rules))
        return change

    def _check_replication(self, proposal: Proposal, rules: Rules, parents: Mapping[str, str]) -> Change:
        study = self._study()
        row = next((row for row in study.rows if row.trial == proposal.replicates), None)
        repeated = any(other.replicates == proposal.replicates and other.status is not Status.INTERRUPTED for other in study.rows)
        if not proposal.files:
            raise ProposalRefused("replication", f"there is no trial {proposal.replicates} to repeat; look at the list of trials")
        change = replication.check(proposal, parents, row, repeated, study.bar is not None and study.bar.paired)
        guard.check(proposal, rules, parents, {})
        return change

    def _as_repair(self, proposal: Proposal, ticket: Ticket, rules: Rules) -> Proposal:
        """On the files of the failed candidate, whose other changes belong to it."""
        if proposal.repairs == ticket.trial:
            return proposal
        failed = self._texts(self._study().row(ticket.trial).commit or "", rules)
        parents = self._texts(proposal.parent, rules)
        files = {path: text for path, text in failed.items() if text != parents[path]}
        marked = f"{proposal.title[:TITLE_CHARS]} (repair of {ticket.trial})"
        return proposal.model_copy(update={"repairs": ticket.trial, "title": marked, "files": {**files, **proposal.files}})

    def _check_repair(self, proposal: Proposal, rules: Rules) -> None:
        """Only what a ticket asks for, on the failed candidate, inside its scope; never the same bytes again."""
        ticket = self._study().repairs.ticket
        if ticket is None or ticket.trial != proposal.repairs:
            raise ProposalRefused("no_ticket", f"no repair of trial {proposal.repairs} is asked for; propose a change of your own")
        row = self._study().row(ticket.trial)
        failed = self._texts(row.commit or "", rules)
        files = {path: text for path, text in proposal.files.items() if path in failed and text is not None}
        after = {**self._texts(proposal.parent, rules), **files}
        stray = tickets.outside(ticket, failed, after, row.change, rules.correction)
        if duplicates.change_all(failed, after).ast_sha256 == row.change.ast_sha256:
            raise ProposalRefused(
                "blind_retry", f"it is the program of trial {row.trial} again; mend what failed: {ticket.failed_check}", row.trial
            )
        if stray and (
            row.status in FAILED or proposal.proposer not in OFFLINE
        ):  # a person's list on a failed check runs, and is rolled back
            raise ProposalRefused("over_correction", f"the repair of trial {row.trial} goes too far: {stray}", row.trial)

    def _known(self, approved: int | None) -> dict[str, int]:
        """What may not come again: the programs that were measured, and the very bytes of those that failed (a repair may look much like them).

        What the machine interrupted may, and the trial that a person `approved`.
        """
        ran = [row for row in self._study().rows if row.status is not Status.INTERRUPTED and row.trial != approved]
        return {row.change.file_sha256 if row.status in FAILED else row.change.ast_sha256: row.trial for row in ran}

    def _measured_on(self, parent: str, rules: Rules) -> list[Sibling]:
        """The trials that were measured on the same incumbent, also those that no review let pass: no step aside gets a second opinion."""
        rows = [row for row in self._study().rows
                if row.parent == parent and row.trial and row.commit and (row.status in MEASURED or approval.held(row))]  # fmt: skip
        for row in rows:
            if row.trial not in self._siblings:
                gain, held = row.verdict.gain if row.verdict else None, approval.held(row)
                texts = self._texts(row.commit or "", rules)
                self._siblings[row.trial] = Sibling(trial=row.trial, title=row.title, axis=row.axis, gain=gain, held=held, files=texts)
        self._siblings = {row.trial: self._siblings[row.trial] for row in rows}
        return list(self._siblings.values())

    def _texts(self, commit: str, rules: Rules) -> Mapping[str, str]:
        return in_scope(self._ratchet.text_at, commit, rules)
