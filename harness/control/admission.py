"""What the guard is told of earlier trials, so that it can refuse what was measured before; nothing here decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.artifacts.study import Study
from harness.errors import ProposalRefused
from harness.evaluation import again, guard, replication
from harness.evaluation.again import Sibling
from harness.graph.ratchet import Ratchet
from harness.rules import Rules
from harness.trial import FAILED, MEASURED, OFFLINE, Change, Proposal, Status


class Admission:
    """The guard of one study."""

    def __init__(self, study: Callable[[], Study], ratchet: Ratchet) -> None:
        self._study, self._ratchet = study, ratchet
        self._siblings: dict[int, Sibling] = {}

    def completed(self, proposal: Proposal, rules: Rules) -> Proposal:
        """A declared replication without files gets those of its original."""
        row = next((row for row in self._study().rows if row.trial == proposal.replicates and row.commit), None)
        if proposal.files or row is None:
            return proposal
        return proposal.model_copy(update={"files": dict(self._texts(row.commit or "", rules))})

    def check(self, proposal: Proposal, rules: Rules) -> Change:
        """What the proposal changes, if it may run; otherwise `ProposalRefused`."""
        proposal = self.completed(proposal, rules)
        parents = self._texts(proposal.parent, rules)
        if proposal.replicates is not None:
            return self._check_replication(proposal, rules, parents)
        try:
            change = guard.check(proposal, rules, parents, self._known())
        except ProposalRefused as refusal:
            if refusal.reason != "duplicate" or refusal.earlier is None:
                raise
            row = self._study().row(refusal.earlier)
            said = f"trial {row.trial}: {replication.result(row)} ({rules.metric.name})"
            raise ProposalRefused("duplicate", f"the same program was tried already, {said}; propose something else", row.trial) from None
        if proposal.proposer not in OFFLINE:  # a person's list and a search mean their small steps
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

    def _known(self) -> dict[str, int]:
        """What may not come again: the programs that were measured, and the very bytes of those that failed (a repair may look much like them).

        What the machine interrupted may.
        """
        ran = [row for row in self._study().rows if row.status is not Status.INTERRUPTED]
        return {row.change.file_sha256 if row.status in FAILED else row.change.ast_sha256: row.trial for row in ran}

    def _measured_on(self, parent: str, rules: Rules) -> list[Sibling]:
        """The measured trials that stood on the same incumbent."""
        rows = [row for row in self._study().rows if row.parent == parent and row.trial and row.status in MEASURED and row.commit]
        for row in rows:
            if row.trial not in self._siblings:
                gain = row.verdict.gain if row.verdict else None
                texts = self._texts(row.commit or "", rules)
                self._siblings[row.trial] = Sibling(trial=row.trial, title=row.title, axis=row.axis, gain=gain, files=texts)
        self._siblings = {row.trial: self._siblings[row.trial] for row in rows}
        return list(self._siblings.values())

    def _texts(self, commit: str, rules: Rules) -> Mapping[str, str]:
        return {name: self._ratchet.text_at(commit, name) for name in rules.scope.editable}
