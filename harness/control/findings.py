"""Failed checks of a task at work in a study: a ticket for each, the next proposal as its repair, its verification, and questions where nothing tells what is right.

A task without checks never comes here. Each step asks the journal's fold whether it is done already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.artifacts.oversight_events import FollowedUp, Verified
from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.checks import Check
from harness.control.inbox import Inbox
from harness.control.recorder import Recorder
from harness.evaluation import approval, causes, findings
from harness.followups import ErrorPacket, Mechanism, Ticket, Verification
from harness.questions import Option
from harness.rules import Rules
from harness.trial import MEASURED, Proposal, Reading, Status, Verdict

Texts = Callable[[str], Mapping[str, str]]
LEAVE = Option(id="leave", effect="it stays as it is, and the study goes on with what can be repaired")
STOP = Option(id="stop", effect="the study ends; put what is right into the source and start a new one")


def as_repair(study: Study, proposal: Proposal) -> Proposal:
    """While a failed check of the incumbent has a ticket, a proposal on the incumbent is its repair."""
    order, best = study.repairs.ticket, study.incumbent
    ours = order is not None and best is not None and order.trial == best.trial and proposal.parent == best.commit
    if not ours or order is None or any(one is not None for one in (proposal.repairs, proposal.replicates, proposal.approves)):
        return proposal
    return proposal.model_copy(update={"repairs": order.trial})


def measured(study: Study, order: Ticket) -> bool:
    """Whether an order is for a failed check of a measured trial, and not for a trial that failed."""
    return study.row(order.trial).status in MEASURED


def lapsed(order: Ticket, why: str) -> FollowedUp:
    """The journal's word for an order that is not carried out any more."""
    said = f"the ticket of trial {order.trial} lapses: {why}"[:500]
    return FollowedUp(trial=order.trial, cause="lapsed", mechanism=Mechanism.REPLAN, detail=said)


class Findings:
    """The failed checks of one study."""

    def __init__(self, recorder: Recorder, inbox: Inbox) -> None:
        self._recorder, self._inbox = recorder, inbox

    def follow_up(self, rules: Rules) -> None:
        """Between two trials: ask about what has no ground truth, then write the next ticket."""
        study = self._recorder.study
        best, order = study.incumbent, study.repairs.ticket
        if best is None or (order is not None and not measured(study, order)):
            return
        if order is not None:
            if not (why := self._over(order, best, rules)):
                return
            self._recorder.emit(lapsed(order, why))
        checks = findings.of(best.readings) or ()
        open_ones = findings.repairable(checks)
        last = study.rows[-1]
        for row in (best, last) if last.status is Status.BLOCKED else (best,):
            for check in findings.untold(findings.of(row.readings) or ()):
                self._ask_for_truth(rules, row, check, alone=not open_ones)
        for check in open_ones:
            if not self._in_review(check) and self._ordered(rules, best, check, checks):
                return

    def _over(self, order: Ticket, best: TrialRow, rules: Rules) -> str:
        """Why an order cannot be carried out any more, as a clause; empty when it can."""
        law, repairs = rules.correction, self._recorder.study.repairs
        if not law.attempts or repairs.made >= law.in_all:
            return "[correction] allows no more repairs"
        if order.trial != best.trial:
            return "the incumbent is another one now"
        return f"{repairs.refusals} proposals in its turn did not carry it out" if repairs.refusals > law.attempts else ""

    def _in_review(self, check: Check) -> bool:
        """Whether a review did not pass a repair of this check and a person has a say in it, or had and it is not carried out yet: one question is enough."""
        study = self._recorder.study
        asked = {one.trial for one in study.inbox.open.values() if one.kind == "review" and one.trial is not None}
        return any(self._root(trial) == check.key for trial in asked.union(approval.waiting(study)))

    def _root(self, trial: int) -> str:
        """The failed check that a trial repairs, itself or by the repair of a failed repair; '' when it repairs none."""
        order = self._recorder.study.repairs.orders.get(trial)
        if order is None or measured(self._recorder.study, order):
            return order.failed_check if order else ""
        return self._root(order.trial)

    def owns(self, row: TrialRow) -> bool:
        """Whether a trial repairs a failed check, and not a failed trial."""
        order = self._recorder.study.repairs.orders.get(row.trial)
        return row.repairs is not None and order is not None and measured(self._recorder.study, order)

    def closed(self, row: TrialRow, readings: Sequence[Reading], verdict: Verdict, texts: Texts) -> Verdict:
        """The verdict once what the candidate touches was held against its ticket and against what nobody knows; a verification is journalled once."""
        found, left = self._found(row, readings, verdict, texts)
        if found is not None and row.repairs is not None and row.trial not in self._recorder.study.repairs.outcomes:
            self._recorder.emit(Verified(trial=row.trial, repairs=row.repairs, verification=found))
        return left

    def foreseen(self, row: TrialRow, readings: Sequence[Reading], verdict: Verdict, texts: Texts) -> Verdict:
        """The same, before anybody is paid to look at it."""
        return self._found(row, readings, verdict, texts)[1]

    def _found(self, row: TrialRow, readings: Sequence[Reading], verdict: Verdict, texts: Texts) -> tuple[Verification | None, Verdict]:
        study, checks = self._recorder.study, findings.of(readings)
        if row.trial == 0 or row.commit is None or verdict.status is Status.INTERRUPTED or not (checks or self.owns(row)):
            return None, verdict
        touched = findings.changed(texts(row.parent), texts(row.commit))
        order = study.repairs.orders.get(row.trial)
        if row.repairs is None or order is None or not self.owns(row):
            parent = next((one for one in reversed(study.rows) if one.commit == row.parent), None)
            known = findings.of(parent.readings) if parent else None
            if hidden := findings.blocked(known, checks, touched):
                return None, findings.without_truth(verdict, findings.unknown(hidden).rstrip("; "), study.bar)
            return None, findings.held(verdict, known, checks, study.bar)
        before = findings.of(study.row(row.repairs).readings)
        found = findings.verify(order, before or (), readings, touched, verdict)
        return found, findings.closed(verdict, found, study.bar)

    def _ordered(self, rules: Rules, best: TrialRow, check: Check, checks: Sequence[Check]) -> bool:
        """Whether a ticket was written; when its repairs are used up, a person is told instead."""
        repairs, law, evidence = self._recorder.study.repairs, rules.correction, findings.packet(check)
        made = sum(order.failed_check == check.key and trial in repairs.outcomes for trial, order in repairs.orders.items())
        refused = repairs.refused.get(check.key, 0)
        spent = made + refused // (law.attempts + 1)  # an order lapses after so many
        if spent < law.attempts and repairs.made < law.in_all:
            self._recorder.emit(FollowedUp(
                trial=best.trial, cause="failed_check", mechanism=Mechanism.CORRECTION, packet=evidence, ticket=findings.ticket(best.trial, check, checks),
                detail=f"{check.key}: expected {check.expected}, found {check.actual} (attempt {spent + 1} of {law.attempts})",
            ))  # fmt: skip
            return True
        if not law.attempts:
            return False
        unheeded = f" and {refused} refused proposals" if refused else ""
        said = f"{check.key} still fails after {made} of {law.attempts} repairs{unheeded} ({repairs.made} of {law.in_all} in all); it is left as it is"
        self._inbox.ask(
            rules, "repeated_failure", f"repairs of {check.key}", check.key, _evidence(check), said, (LEAVE, STOP), LEAVE.id, "line", best.trial,
        )  # fmt: skip
        self._told(best, "repairs_used_up", findings.given_up(check, law.attempts), said)
        return False

    def _ask_for_truth(self, rules: Rules, best: TrialRow, check: Check, alone: bool) -> None:
        said = f"{check.key}: {check.actual}. Nothing tells what is right, so nothing that changes {', '.join(check.scope)} is kept"
        self._inbox.ask(
            rules, "missing_ground_truth", f"ground truth of {check.where}", check.key, _evidence(check), said, (LEAVE, STOP), LEAVE.id,
            "study" if alone else "line", best.trial,
        )  # fmt: skip
        self._told(best, causes.NO_TRUTH, findings.packet(check), said)

    def _told(self, best: TrialRow, cause: str, evidence: ErrorPacket, said: str) -> None:
        if evidence.fingerprint not in self._recorder.study.repairs.fingerprints:
            self._recorder.emit(FollowedUp(trial=best.trial, cause=cause, mechanism=Mechanism.ESCALATION, packet=evidence, detail=said))


def _evidence(check: Check) -> tuple[str, ...]:
    return (check.evidence, f"expected {check.expected}, found {check.actual}")
