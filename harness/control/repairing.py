"""What follows a failed trial, by its cause; tickets, repairs, and their verification.

The decisions are in evaluation/: which act (causes.py), the error as evidence (packets.py), the order (tickets.py), the closing questions (closing.py). Here each
becomes one event, after everything that belongs to it, so that a restart does it once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from harness.artifacts.oversight_events import FollowedUp, Verified
from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.control import turns
from harness.control.findings import lapsed, measured
from harness.control.inbox import Inbox
from harness.control.recorder import Recorder
from harness.evaluation import causes, closing, findings, packets, tickets
from harness.evaluation.tickets import Hopeless
from harness.execution.workplace import in_scope
from harness.followups import ErrorPacket, Mechanism, Outcome, Ticket
from harness.proposers import evidence
from harness.questions import Option
from harness.rules import Rules
from harness.trial import CORRECTION, FAILED, OFFLINE, Proposal, Reading, Status, Verdict

FOLLOWED = FAILED | {Status.INTERRUPTED, Status.BLOCKED}
TITLE_CHARS = 120
MOST_ALIKE = 20  # earlier failures of one kind that are looked at
DONE = {
    Mechanism.RETRY: "the machine is to blame; the same program may come again",
    Mechanism.REPLAN: "this path is given up; the next proposal starts from the incumbent",
    Mechanism.REFLECTION: "the finding goes to the next proposer",
}
LEAVE = Option(id="leave", effect="this line is left; the night goes on with others")
AGAIN = Option(id="try_again", effect="the last candidate that failed so is repaired once more")
STOP = Option(id="stop", effect="the study ends; mend the data, then `ratchet resume`")
GO_ON = Option(id="go_on", effect="the study goes on as it is")


class Act(NamedTuple):
    """What is done about one failure, why, and the order when it is repaired."""

    mechanism: Mechanism
    detail: str
    ticket: Ticket | None = None


class Repairing:
    """The follow-ups of one study. `text_at` gives the text of a file at a commit."""

    def __init__(self, recorder: Recorder, inbox: Inbox, text_at: Callable[[str, str], str]) -> None:
        self._recorder, self._inbox, self._text_at = recorder, inbox, text_at

    @property
    def _study(self) -> Study:
        return self._recorder.study

    def follow_up(self, rules: Rules) -> None:
        """Journal what is done about the last settled trial, if it failed; let tickets lapse whose time is over; take answers up."""
        row = self._study.rows[-1] if self._study.rows else None
        if row is not None and 0 < row.trial > self._study.repairs.followed and _failed(row):
            if (waiting := self._study.repairs.ticket) is not None:
                self._recorder.emit(lapsed(waiting, f"trial {row.trial} failed before it was carried out"))
            self._follow(row, rules)
        ticket = self._study.repairs.ticket
        if ticket is not None and not measured(self._study, ticket) and (why := self._over(ticket, rules)):
            self._recorder.emit(lapsed(ticket, why))
        self._reopen(rules)

    def proposal(self, number: int, tip: str, rules: Rules) -> Proposal | None:
        """The repair that the harness itself makes for the open ticket."""
        ticket = self._study.repairs.ticket
        if ticket is None or not tickets.is_memory(ticket) or self._study.repairs.declined:
            return None
        row = self._study.row(ticket.trial)
        texts, parents = self._texts(row.commit or "", rules), self._texts(tip, rules)
        one = tickets.halved(texts, ticket.scope[0].rpartition(":")[2])
        files: dict[str, str | None] = {path: text for path, text in {**texts, one.path: one.text}.items() if text != parents[path]}
        return Proposal(
            id=number, parent=tip, title=f"{row.title[:TITLE_CHARS]} (repair of {row.trial}: {one.name} {one.new})", repairs=row.trial, files=files,
            hypothesis=f"Trial {row.trial} ran out of memory; with {one.name} {one.new} and the same total batch it is the same experiment.",
            refuted_if="it runs out of memory again", axis=row.axis, edit=f"{row.edit}; {one.words}".strip("; "), proposer=CORRECTION,
        )  # fmt: skip

    def base(self, tip: str, reads: bool) -> str:
        """The commit whose files a proposer starts from: the incumbent's, or those of the failed candidate that a model is asked to repair."""
        ticket = self._study.repairs.ticket
        return (self._study.row(ticket.trial).commit or tip) if reads and ticket is not None and not tickets.is_memory(ticket) else tip

    def verified(
        self, row: TrialRow, readings: Sequence[Reading], verdict: Verdict, rules: Rules, texts: Callable[[str], Mapping[str, str]],
    ) -> Verdict:  # fmt: skip
        """The verdict on a repair after its verification; of any other trial the verdict as it is."""
        ticket = self._study.repairs.orders.get(row.trial)
        if row.repairs is None or ticket is None or verdict.status is Status.INTERRUPTED:
            return verdict
        failed, judged = self._study.row(row.repairs), row.model_copy(update={"verdict": verdict})
        again = packets.fingerprint(judged, self._log(judged), rules) if _failed(judged) else ""
        usual = next((one.outcome.tokens for one in self._study.baseline.readings), None) if self._study.baseline else None
        found = closing.verify(ticket, failed, verdict, readings, texts(failed.commit or ""), texts(row.commit or ""), again, usual, rules)
        if row.trial not in self._study.repairs.outcomes:
            self._recorder.emit(Verified(trial=row.trial, repairs=row.repairs, verification=found))
        return closing.closed(verdict, found, self._study.bar)

    def _follow(self, row: TrialRow, rules: Rules) -> None:
        verdict = row.verdict
        assert verdict is not None, "a settled trial was judged"
        packet = packets.packet(row, rules, self._log(row))
        act, order = self._act(row, packet, rules), self._study.repairs.orders.get(row.trial)
        if order is not None and row.status is Status.INTERRUPTED:
            act = Act(act.mechanism, f"{act.detail}; the repair of trial {row.repairs} was not measured, so its order stays open", order)
        self._recorder.emit(FollowedUp(
            trial=row.trial, cause=verdict.reason, mechanism=act.mechanism, packet=packet, ticket=act.ticket, detail=act.detail[:500]
        ))  # fmt: skip

    def _act(self, row: TrialRow, packet: ErrorPacket | None, rules: Rules) -> Act:
        reason = row.verdict.reason if row.verdict else ""
        cause = causes.of(reason)
        if cause is None and row.status is Status.BLOCKED:
            return Act(Mechanism.REPLAN, "it waits for a person, who was asked whether it is kept; there is nothing to repair")
        if cause is None or packet is None:
            return Act(Mechanism.REPLAN, f"nobody knows what {reason!r} means, so nothing is repaired")
        if cause.mechanism is Mechanism.ESCALATION:
            return self._escalated(row, packet, rules)
        if cause.mechanism is not Mechanism.CORRECTION:
            return Act(cause.mechanism, DONE[cause.mechanism])
        if not rules.correction.attempts:
            return Act(Mechanism.REPLAN, "the rules allow no repair ([correction] attempts)")
        if (earlier := self._like(row, packet, rules)) is not None:
            return self._stuck(row, packet, earlier, rules)
        return self._corrected(row, packet, rules)

    def _corrected(self, row: TrialRow, packet: ErrorPacket, rules: Rules, asked: bool = False) -> Act:
        """A ticket, or why there is none. `asked`: a person wants it, so earlier attempts do not count."""
        law, used = rules.correction, len(self._chain(row)) - 1
        if used >= law.attempts and not asked:
            return Act(Mechanism.REPLAN, f"it is repair {used} of its line, and [correction] attempts allows {law.attempts}")
        texts, parents = self._texts(row.commit or "", rules), self._texts(row.parent, rules)
        try:
            if row.replicates is not None:
                raise Hopeless("a replication is the same program or nothing")
            first, repaired = self._study.repairs.orders.get(row.trial), self._study.row(row.trial if row.repairs is None else row.repairs)
            if packet.error_type == "resource":
                ticket = tickets.for_memory(row.trial, packet, texts, parents, law)
            else:
                log = b"" if packets.in_scoring(row) else self._log(row)
                own = packets.symbols(texts, packets.own_frame(log, rules.scope.editable))
                ticket = tickets.for_crash(row.trial, packet, texts, parents, own, row.change, law)
            ticket = tickets.within(ticket, first, self._texts(repaired.commit or "", rules), texts)
        except Hopeless as why:
            return Act(Mechanism.REPLAN, f"no repair: {why}")
        if why_not := self._over(ticket, rules):
            return Act(Mechanism.REPLAN, f"no repair: {why_not}")
        return Act(Mechanism.CORRECTION, ticket.repair, ticket)

    def _over(self, ticket: Ticket, rules: Rules) -> str:
        """Why a ticket cannot be carried out now, as a clause; empty when it can."""
        law, study = rules.correction, self._study
        if not law.attempts or study.repairs.made >= law.in_all:
            return f"{study.repairs.made} repairs were made, and [correction] allows no more"
        if study.incumbent is None or study.row(ticket.trial).parent != study.incumbent.commit:
            return "the incumbent is another one now"
        if tickets.is_memory(ticket):
            return f"its repair was refused ({study.repairs.declined})" if study.repairs.declined else ""
        if not law.crashes:
            return "the rules ask no model to repair a crash ([correction] crashes)"
        if not set(turns.shares(study, rules)) - OFFLINE:
            return "nobody here can read a ticket: search and scripted lists repair no crash"
        return f"{study.repairs.refusals} proposals in its turn did not carry it out" if study.repairs.refusals > law.attempts else ""

    def _like(self, row: TrialRow, packet: ErrorPacket, rules: Rules) -> int | None:
        """The latest earlier trial with the same error and almost the same change, unless it was mended: one that this repairs, or that changed the same parts."""
        chain, study = self._chain(row), self._study
        mended = {one.repairs for one in study.rows if study.repairs.outcomes.get(one.trial) is Outcome.ACCEPTED}
        for trial in reversed(study.repairs.fingerprints.get(packet.fingerprint, [])[-MOST_ALIKE:]):
            if trial in (row.trial, *mended):
                continue
            if trial in chain or tickets.akin(*self._edit(row, rules), *self._edit(study.row(trial), rules)):
                return trial
        return None

    def _stuck(self, row: TrialRow, packet: ErrorPacket, earlier: int, rules: Rules) -> Act:
        """No progress: the line stops and a person is asked; the night goes on."""
        said = f"trials {earlier} and {row.trial} failed in the same way ({packet.failed_check}) with almost the same change"
        key = f"line:{packet.fingerprint}"
        if past := self._study.inbox.settled.get(key):
            why = f"question {past.question} about it was answered `{past.option}`, so nobody is asked again"
            return Act(Mechanism.ESCALATION, f"no progress: {said}; {why}")
        self._inbox.ask(
            rules, "repeated_failure", key, candidate=row.commit or "", trial=row.trial,
            repairs=[f"trial {one}" for one in self._chain(row) if self._study.row(one).repairs is not None],
            evidence=[packet.evidence, packets.evidence(self._study.row(earlier))], options=[LEAVE, AGAIN], default=LEAVE.id, blocks="line",
            impact=f"{said}; this line is parked, other proposals go on",
        )  # fmt: skip
        return Act(Mechanism.ESCALATION, f"no progress: {said}; the line is parked and a person is asked")

    def _escalated(self, row: TrialRow, packet: ErrorPacket, rules: Rules) -> Act:
        truth = packet.error_type == causes.NO_TRUTH
        if truth and findings.untold(findings.of(row.readings) or ()):
            return Act(Mechanism.ESCALATION, "a person is asked about the check that has no ground truth; nothing is repaired without it")
        key = f"{packet.error_type}:{packet.fingerprint}"
        past = self._study.inbox.times(key, STOP.id, but=row.trial)  # who stopped to mend it is asked again when it was not mended
        self._inbox.ask(
            rules, "missing_ground_truth" if truth else "policy_conflict", f"{key}:{past}", candidate=row.commit or "",
            trial=row.trial, evidence=[packet.evidence], options=[STOP, GO_ON], default=STOP.id, blocks="study",
            impact=f"trial {row.trial}: {packet.actual}; no candidate can be judged before that is settled",
        )  # fmt: skip
        return Act(Mechanism.ESCALATION, "a person is asked; nothing is repaired without ground truth")

    def _reopen(self, rules: Rules) -> None:
        """A person wants a parked line tried again: its last candidate gets a ticket, whatever was attempted before."""
        study = self._study
        wanted = [(key, one) for key, one in study.inbox.settled.items() if one.option == AGAIN.id and one.by != "moot"]
        for key, answer in wanted:
            known = study.repairs.fingerprints.get(key.removeprefix("line:"), [])
            if not known or answer.question in study.repairs.reopened or study.repairs.ticket is not None:
                continue
            row = study.row(known[-1])
            packet = packets.packet(row, rules, self._log(row))
            act = self._corrected(row, packet, rules, asked=True) if packet else Act(Mechanism.REPLAN, "its evidence is gone")
            self._recorder.emit(FollowedUp(
                trial=row.trial, cause=row.verdict.reason if row.verdict else "", mechanism=act.mechanism, ticket=act.ticket,
                detail=f"a person asked for it: {act.detail}"[:500], answers=answer.question,
            ))  # fmt: skip

    def _chain(self, row: TrialRow) -> list[int]:
        """The trial and those that it repairs, the latest first."""
        chain = [row.trial]
        while row.repairs is not None and row.repairs not in chain:
            row = self._study.row(row.repairs)
            chain.append(row.trial)
        return chain

    def _edit(self, row: TrialRow, rules: Rules) -> tuple[Mapping[str, str], Mapping[str, str]]:
        return self._texts(row.parent, rules), self._texts(row.commit or row.parent, rules)

    def _texts(self, commit: str, rules: Rules) -> dict[str, str]:
        return in_scope(self._text_at, commit, rules)

    def _log(self, row: TrialRow) -> bytes:
        """The end of what the trial's last job printed."""
        return evidence.end(evidence.reading(row, self._recorder.folder, last=True).train_log)


def _failed(row: TrialRow) -> bool:
    """Whether a follow-up is due: it failed, or was measured and a finding speaks against it."""
    cause = causes.of(row.verdict.reason) if row.verdict else None
    return row.status in FOLLOWED or (row.status is Status.DISCARD and cause is not None and cause.mechanism is Mechanism.REFLECTION)
