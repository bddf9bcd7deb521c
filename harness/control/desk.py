"""Where proposals come in: asked for, stored before anything is done with them, then admitted by the guard or refused. No device time is spent here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from pydantic_core import PydanticSerializationError

from harness.artifacts import durable
from harness.artifacts.call_events import ModelBack
from harness.artifacts.events import Begun, Proposed, Refused, Warned
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import slug
from harness.control import turns
from harness.control.admission import Admission
from harness.control.overseer import Overseer
from harness.control.recorder import Recorder
from harness.control.rota import Rota
from harness.control.staff import Staff
from harness.control.steering import Steering
from harness.control.turns import Turn
from harness.errors import ModelUnavailable, ProposalRefused
from harness.execution.clock import Clock
from harness.execution.workplace import in_scope
from harness.graph.ratchet import Ratchet
from harness.proposers import briefing, prompt, registry
from harness.proposers.metering import Meter
from harness.proposers.protocol import Briefing, Proposer
from harness.proposers.registry import Setting
from harness.rules import Rules
from harness.trial import Change, Proposal

INTERRUPTED = "interrupted"
PAUSE_SECONDS = 0.5


class Desk:
    """The proposals of one study."""

    def __init__(
        self, recorder: Recorder, ratchet: Ratchet, steering: Steering, admission: Admission, overseer: Overseer, clock: Clock,
        interrupted: Callable[[], str], meter: Meter,
    ) -> None:  # fmt: skip
        self._recorder, self._ratchet, self._steering, self._admission, self._overseer = recorder, ratchet, steering, admission, overseer
        self._clock, self._interrupted, self._meter = clock, interrupted, meter
        self._staff = Staff(self._make, lambda message: recorder.emit(Warned(code="proposer", message=message)))
        self.rota = Rota(lambda: recorder.study, clock)

    @property
    def _study(self) -> Study:
        return self._recorder.study

    def admit(self, rules: Rules, tip: str) -> bool:
        """Take one proposal on the commit `tip`; `True` when it became a trial."""
        pending = self._study.pending
        proposal = self.load(pending.proposal) if pending else self._ask(rules, tip)
        if proposal is None:
            return False
        try:
            change = self._admission.check(proposal, rules)
        except ProposalRefused as refusal:
            self._recorder.emit(Refused(
                proposal=proposal.id, reason=refusal.reason, detail=str(refusal)[:500], earlier=refusal.earlier, proposer=proposal.proposer
            ))  # fmt: skip
            return False
        self._begin(proposal, change)
        return True

    def load(self, number: int) -> Proposal:
        """A stored proposal."""
        return Proposal.model_validate_json(self._recorder.folder.proposal(number).read_bytes())

    def _make(self, name: str, rules: Rules) -> Proposer:
        started = self._study.started
        assert started is not None, "a study that proposes has started"
        return registry.make(name, started.proposer_options, Setting(
            rules=rules, folder=self._recorder.folder, interrupted=self._interrupted, meter=self._meter, study=lambda: self._study,
            check=lambda proposal: self._admission.check(self._admission.completed(proposal, self._steering.rules, True), self._steering.rules), clock=self._clock,
        ))  # fmt: skip

    def _begin(self, proposal: Proposal, change: Change) -> None:
        trial = self._study.row_count
        stands_for = self._study.pending.stands_for if self._study.pending else ""
        self._recorder.emit(Begun(
            trial=trial, proposal=proposal.id, parent=proposal.parent, change=change, title=proposal.title[:300], axis=proposal.axis[:80],
            edit=proposal.edit[:300], proposer=proposal.proposer, folder=f"{trial:04d}-{slug(proposal.title)}", stands_for=stands_for,
            replicates=proposal.replicates, repairs=proposal.repairs, rung=self._study.ladder.rung or "", approves=proposal.approves, expected=proposal.expected_effect[:200],
        ))  # fmt: skip

    def _ask(self, rules: Rules, tip: str) -> Proposal | None:
        """Ask whose turn it is, unless a crash left an answer stored but not yet in the journal."""
        for name in self.rota.due_back():
            self._recorder.emit(ModelBack(proposer=name))
        number = self._study.proposals + 1
        path = self._recorder.folder.proposal(number)
        owed = None if path.exists() else self._overseer.owed(number, tip, rules)
        turn = Turn(owed.proposer) if owed else self.rota.turn(rules)
        if turn is None:
            self._clock.sleep(PAUSE_SECONDS)
            return None
        proposal = self.load(number) if path.exists() else owed or self._call(turn, rules, number, tip)
        if proposal is None:
            return None
        try:
            data = proposal.model_dump_json().encode()
        except PydanticSerializationError:
            unread = ProposalRefused("characters", "the proposal has text that is no Unicode; send plain UTF-8")
            self._refuse_unread(turn, number, unread, reads=True)
            return None
        path.parent.mkdir(exist_ok=True)
        durable.replace(path, data)
        durable.crash_point("proposal_stored")
        self._recorder.emit(Proposed(
            proposal=number, stored_sha256=hashlib.sha256(data).hexdigest(), title=proposal.title[:300], axis=proposal.axis[:80], edit=proposal.edit[:300],
            proposer=proposal.proposer, model=proposal.model, cost_usd=proposal.cost_usd,
            stands_for=turn.stands_for if turn.name == proposal.proposer else "", turn=turn.name, approves=proposal.approves,
        ))  # fmt: skip
        return proposal

    def _call(self, turn: Turn, rules: Rules, number: int, tip: str) -> Proposal | None:
        reads = False
        try:
            proposer = self._staff.get(turn.name, rules)
            reads = proposer.reads
            proposal = proposer.propose(self._briefing(proposer, rules, number, tip))
        except ProposalRefused as refusal:
            if refusal.reason != INTERRUPTED:
                self._refuse_unread(turn, number, refusal, reads)
                if reads:
                    self._give_a_rest(turn, rules)
            return None
        except ModelUnavailable as fault:
            until = turns.back_at(self._study.calls, turn.name, fault.until, fault.backoff, self._clock.now())
            self._recorder.emit(turns.absence(turn.name, fault.reason, str(fault), until))
            return None
        if proposal is None:
            self.rota.dry_on[turn.name] = tip, rules.digest
            return None
        return self._admission.completed(proposal, rules, reads)

    def _give_a_rest(self, turn: Turn, rules: Rules) -> None:
        """Calls in a row that brought nothing: the model is away for a while."""
        count = self._study.unread_in_a_row
        if count < rules.proposer.failed_calls:
            return
        said = f"{count} calls of {turn.name} in a row brought no edit; the last: {self._study.refusals[-1].detail}"
        until = turns.backoff(self._study.calls, turn.name, self._clock.now())
        self._recorder.emit(turns.absence(turn.name, "failed_calls", said, until))

    def _briefing(self, proposer: Proposer, rules: Rules, number: int, tip: str) -> Briefing:
        study, started, base = self._study, self._study.started, self._overseer.repairing.base(tip, proposer.reads)
        files = in_scope(self._ratchet.text_at, base, rules)
        assert started is not None, "a study that proposes has started"
        told = briefing.build(
            study, number, tip, files, f"{rules.metric.name}, {rules.metric.direction} is better", rules.ban, self._recorder.folder
        )
        if not proposer.reads:
            return told
        program = self._recorder.folder.program.read_bytes().decode("utf-8-sig")
        page = prompt.render(
            study, self._recorder.folder, program, files, in_scope(self._ratchet.text_at, started.baseline_commit, rules), rules
        )
        return told.model_copy(update={"page": page})

    def _refuse_unread(self, turn: Turn, number: int, refusal: ProposalRefused, reads: bool) -> None:
        """The proposer itself could not make an edit of its idea."""
        self._recorder.emit(Refused(
            proposal=number, reason=refusal.reason, detail=str(refusal)[:500], earlier=refusal.earlier, cost_usd=refusal.cost_usd,
            proposer=turn.name, unread=reads,
        ))  # fmt: skip
