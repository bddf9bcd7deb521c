"""Where proposals come in: asked for, stored before anything is done with them, then admitted by the guard or refused. No device time is spent here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from pydantic_core import PydanticSerializationError

from harness.artifacts import durable
from harness.artifacts.events import Begun, Proposed, Refused, Warned
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import slug
from harness.control.recorder import Recorder
from harness.errors import ProposalRefused, UserFault
from harness.evaluation import guard
from harness.graph.ratchet import Ratchet
from harness.proposers import briefing, prompt
from harness.proposers.protocol import Briefing, Proposer
from harness.rules import Rules
from harness.sections import Section
from harness.trial import FAILED, Change, Proposal, Status

INTERRUPTED = "interrupted"


class Desk:
    """One proposer's proposals. `exhausted` is set when it has no more."""

    def __init__(self, recorder: Recorder, ratchet: Ratchet, proposer: Proposer, law: Section, remake: Callable[[Rules], Proposer]) -> None:
        self._recorder, self._ratchet, self._proposer = recorder, ratchet, proposer
        self._law, self._remake = law, remake
        self.exhausted = False

    @property
    def _study(self) -> Study:
        return self._recorder.study

    def admit(self, rules: Rules, tip: str) -> bool:
        """Take one proposal on the commit `tip`; `True` when it became a trial."""
        proposal = self.load(self._study.pending.proposal) if self._study.pending else self._ask(rules, tip)
        if proposal is None:
            return False
        try:
            change = guard.check(proposal, rules, self._texts(proposal.parent, rules), self._known())
        except ProposalRefused as refusal:
            self._recorder.emit(Refused(proposal=proposal.id, reason=refusal.reason, detail=str(refusal)[:500], earlier=refusal.earlier))
            return False
        self._begin(proposal, change)
        return True

    def load(self, number: int) -> Proposal:
        """A stored proposal."""
        return Proposal.model_validate_json(self._recorder.folder.proposal(number).read_bytes())

    def _begin(self, proposal: Proposal, change: Change) -> None:
        trial = self._study.row_count
        self._recorder.emit(Begun(
            trial=trial, proposal=proposal.id, parent=proposal.parent, change=change, title=proposal.title[:300], axis=proposal.axis[:80],
            edit=proposal.edit[:300], proposer=proposal.proposer, folder=f"{trial:04d}-{slug(proposal.title)}",
        ))  # fmt: skip

    def _ask(self, rules: Rules, tip: str) -> Proposal | None:
        """Ask the proposer, unless a crash left its answer stored but not yet in the journal."""
        if rules.proposer != self._law:
            self._renew(rules)
        number = self._study.proposals + 1
        path = self._recorder.folder.proposal(number)
        if path.exists():
            proposal: Proposal | None = self.load(number)
        else:
            try:
                proposal = self._proposer.propose(self._briefing(rules, number, tip))
            except ProposalRefused as refusal:
                if refusal.reason != INTERRUPTED:
                    self._refuse_unread(number, refusal)
                return None
        if proposal is None:
            self.exhausted = True
            return None
        try:
            data = proposal.model_dump_json().encode()
        except PydanticSerializationError:
            self._refuse_unread(number, ProposalRefused("characters", "the proposal has text that is no Unicode; send plain UTF-8"))
            return None
        path.parent.mkdir(exist_ok=True)
        durable.replace(path, data)
        durable.crash_point("proposal_stored")
        self._recorder.emit(Proposed(
            proposal=number, stored_sha256=hashlib.sha256(data).hexdigest(), title=proposal.title[:300], axis=proposal.axis[:80], edit=proposal.edit[:300],
            proposer=proposal.proposer, model=proposal.model, cost_usd=proposal.cost_usd,
        ))  # fmt: skip
        return proposal

    def _renew(self, rules: Rules) -> None:
        """An edit of [proposer] takes effect with the next call; one that cannot leaves the proposer as it is, and is said."""
        self._law = rules.proposer
        try:
            self._proposer = self._remake(rules)
        except UserFault as fault:
            self._recorder.emit(Warned(code="proposer", message=f"{fault}; the agent is run as before"))

    def _briefing(self, rules: Rules, number: int, tip: str) -> Briefing:
        study, started, files = self._study, self._study.started, self._texts(tip, rules)
        assert started is not None, "a study that proposes has started"
        told = briefing.build(study, number, tip, files, f"{rules.metric.name}, {rules.metric.direction} is better")
        if not self._proposer.reads:
            return told
        program = self._recorder.folder.program.read_bytes().decode("utf-8-sig")
        words = prompt.render(study, self._recorder.folder, program, files, self._texts(started.baseline_commit, rules), rules)
        return told.model_copy(update={"prompt": words.text()})

    def _refuse_unread(self, number: int, refusal: ProposalRefused) -> None:
        """The proposer itself could not make an edit of its idea."""
        self._recorder.emit(Refused(proposal=number, reason=refusal.reason, detail=str(refusal)[:500], cost_usd=refusal.cost_usd))

    def _texts(self, commit: str, rules: Rules) -> dict[str, str]:
        return {name: self._ratchet.text_at(commit, name) for name in rules.scope.editable}

    def _known(self) -> dict[str, int]:
        """What may not come again: the programs that were measured, and the very bytes of those that failed (a repair may look much like them).

        What the machine interrupted may.
        """
        ran = [row for row in self._study.rows if row.status is not Status.INTERRUPTED]
        return {row.change.file_sha256 if row.status in FAILED else row.change.ast_sha256: row.trial for row in ran}
