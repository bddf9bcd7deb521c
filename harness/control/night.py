"""The real ports of the loop: each asks the journal's fold what is done, does its step, and makes it durable with one event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.artifacts.events import Begun, Committed, Decided, Settled, Warned
from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.control import budget, remeasuring, scatter, wording
from harness.control.desk import Desk
from harness.control.overseer import Overseer
from harness.control.proof import Proof
from harness.control.readings import Bench
from harness.control.recorder import Recorder
from harness.control.steering import Steering
from harness.evaluation import judge
from harness.execution.clock import Clock
from harness.execution.signals import Interrupts
from harness.execution.workplace import needed_files
from harness.graph import duplicates
from harness.graph.ratchet import Ratchet
from harness.trial import JobEnd, JobOutcome, Reading, Status, Stop, Verdict


@dataclass
class Night:
    """One harness at work on one study."""

    recorder: Recorder
    steering: Steering
    ratchet: Ratchet
    bench: Bench
    desk: Desk
    overseer: Overseer
    clock: Clock
    interrupts: Interrupts

    def __post_init__(self) -> None:
        """The proof rests on the same bench."""
        self.proof = Proof(self.bench)

    @property
    def study(self) -> Study:
        """The journal's fold."""
        return self.recorder.study

    def inspect(self) -> Stop | None:
        """What ends the night comes first; then an open trial is finished before any budget is asked."""
        if reason := self.interrupts.reason():
            return Stop(reason=reason.lower(), sentence=self.interrupts.sentence, exit_code=self.interrupts.exit_code)
        if self.study.current is None:
            self.steering.reread(self.clock.now())
        request = self.recorder.folder.stop_request  # who asks to stop need not wait for the device of an open trial
        if (trouble := budget.machine(self.study, self.steering.rules)) or (self.study.current is not None and not request.exists()):
            return trouble
        if self.study.rows and self.study.baseline is not None and self.study.baseline.status is not Status.KEEP:
            return budget.no_baseline(self.study)
        if request.exists():
            request.unlink()
            return Stop(reason="asked", sentence="`ratchet stop` asked for it; `ratchet resume` goes on", exit_code=budget.DONE)
        rules, limits, now = self.steering.rules, self.steering.limits, self.clock.now()
        if self.study.baseline is not None and (word := self.overseer.heed(rules, self.desk.rota.absent())):
            return word
        if stop := budget.stop(self.study, limits, rules, now):
            return stop
        return self.desk.rota.stop(rules, budget.left(self.study, limits, rules, now).seconds)

    def baseline(self) -> bool:
        """Trial 0: HEAD's files, measured with seeds 0, 1, 2 (two readings on a known GPU)."""
        if self.study.baseline is not None:
            return True
        started = self.study.started
        assert started is not None, "a night begins with study_started"
        if self.study.current is None:
            scope = {name: self.ratchet.text_at(started.baseline_commit, name) for name in self.steering.rules.scope.editable}
            self.recorder.emit(Begun(
                trial=0, proposal=None, parent=started.baseline_commit, change=duplicates.change_all(scope, scope), title="baseline",
                axis="", edit="", proposer="", folder="0000-baseline",
            ))  # fmt: skip
        self.apply()
        readings = self.evaluate()
        if readings:
            verdict = self.better(readings)
            (self.keep if verdict.status is Status.KEEP else self.revert)()
        return False

    def propose(self) -> bool:
        """An admitted proposal, unless a restart found a trial open; before one is asked for, the incumbent is measured again when that is due."""
        if self.study.current is not None:
            return True
        return not self.overseer.inbox.waits() and not self._remeasured() and self.desk.admit(self.steering.rules, self._tip())

    def apply(self) -> None:
        """The candidate as a commit under its own ref, and its folder."""
        row = self._current()
        if row.commit is not None:
            return
        folder = self.recorder.folder.trial(row.folder)
        folder.path.mkdir(exist_ok=True)
        if row.proposal is None:
            event = Committed(trial=row.trial, commit=row.parent, tree="", ref=self.ratchet.mark(row.trial, row.parent))
        else:
            proposal = self.desk.load(row.proposal)
            files = {name: text for name, text in proposal.files.items() if text is not None}
            candidate = self.ratchet.apply(row.trial, row.parent, files, wording.message(row.trial, proposal))
            folder.diff.write_text(wording.diff(self._texts(row.parent), files))
            folder.proposal.write_text(proposal.model_dump_json(indent=1) + "\n")
            event = Committed(trial=row.trial, commit=candidate.commit, tree=candidate.tree, ref=candidate.ref)
        for name, text in self._texts(event.commit).items():
            folder.file(name).parent.mkdir(parents=True, exist_ok=True)
            folder.file(name).write_bytes(text.encode())
        self.recorder.emit(event)

    def evaluate(self) -> Sequence[Reading]:
        """All readings of the current trial; those the journal has are not taken again."""
        row = self._current()
        if row.verdict is not None or self._given_up(row):
            return row.readings or (_never_ran(row),)
        files = self._texts(self._commit())
        if not self.proof.rehearsed(self.steering.rules, self._texts(row.parent), files):
            return ()
        if (tried := self._current().rehearsal) is not None and tried.reason:
            return (_never_ran(row),)
        for replicate in self._replicates(row):
            done = next((r for r in self._current().readings if r.replicate == replicate), None)
            reading = done if done and (done.measurement or done.fault) else self.bench.take(
                self._current(), replicate, files, self.steering.rules, self._cpu_cap()
            )  # fmt: skip
            if reading is None or self.bench.void(reading):
                return ()
            if reading.value is None:
                break
        complete = self.proof.complete(self.steering.rules, scatter.sigma(self.study, self.steering.rules), files, self._cpu_cap())
        if not complete:
            return ()
        row, rules = self._current(), self.steering.rules
        seen = self.overseer.reviewed(row, row.readings, self._judged(row, row.readings), rules, self._texts)
        return row.readings if seen else ()

    def better(self, readings: Sequence[Reading]) -> Verdict:
        """Decide, flag what was printed but not measured, and make both durable."""
        row = self._current()
        verdict = row.verdict or self._decide(row, readings)
        self.recorder.folder.trial(row.folder).verdict.write_text(verdict.model_dump_json(indent=1) + "\n")
        return verdict

    def _decide(self, row: TrialRow, readings: Sequence[Reading]) -> Verdict:
        rules, sigma = self.steering.rules, scatter.sigma(self.study, self.steering.rules)
        verdict = self.overseer.closed(row, readings, self._judged(row, readings), rules, self._texts)
        for reading in readings:
            if said := wording.printed_otherwise(rules.metric.name, rules.result.printed_tolerance, reading):
                self.recorder.emit(Warned(code="printed", message=said))
        left = budget.left(self.study, self.steering.limits, rules, self.clock.now())
        after = left if left.trials is None or row.trial == 0 else left.model_copy(update={"trials": max(0, left.trials - 1)})
        self.recorder.emit(Decided(
            trial=row.trial, verdict=verdict, previous=self._tip(), noise=sigma, budget_left=after, rules_digest=rules.digest
        ))  # fmt: skip
        return verdict

    def _judged(self, row: TrialRow, readings: Sequence[Reading]) -> Verdict:
        rules, sigma = self.steering.rules, scatter.sigma(self.study, self.steering.rules)
        if self._given_up(row):
            why = f"interrupted {row.interruptions} times"
            return Verdict(status=Status.INTERRUPTED, reason="infrastructure", detail=why, rule=rules.keep.rule, next_bar=self.study.bar)
        if row.trial == 0:
            return judge.judge_baseline(rules, readings, sigma, scatter.paired(self.study, rules))
        assert self.study.bar is not None, "candidates come after the baseline"
        tried = judge.judge_rehearsal(rules, row.rehearsal, self.study.bar) if row.rehearsal else None
        return tried or judge.judge_all(rules, self.study.bar, readings, sigma, row.change, self.proof.baseline, self._cpu_cap())

    def keep(self) -> None:
        """The branch moves after the decision is on disk."""
        row = self._current()
        self.ratchet.keep(self._commit(), row.previous or self._commit())
        self.recorder.emit(Settled(trial=row.trial))

    def revert(self) -> None:
        """Nothing moves; what was not kept leaves its evidence but no model, unless it was ours to measure and we could not."""
        row = self._current()
        if self.study.incumbent is not None:
            self.ratchet.revert(self._tip())
        unmeasured = any(r.fault and (not r.fault.candidate_to_blame or r.fault.reason == "evaluation") for r in row.readings)
        if self.steering.rules.log.checkpoints == "kept" and not unmeasured:
            self.recorder.folder.trial(row.folder).drop_checkpoints()
        self.recorder.emit(Settled(trial=row.trial))

    def _replicates(self, row: TrialRow) -> Sequence[int]:
        """The numbers of its readings: the baseline has several, a declared replication has the one after its original's."""
        if row.trial == 0:
            return range(scatter.baseline_readings(self.study, self.steering.rules))
        return (0,) if row.replicates is None else (1,)

    def _given_up(self, row: TrialRow) -> bool:
        """Interrupted too often. The baseline never is: without it there is no study, so only the limit of interruptions in a row ends it."""
        return row.trial > 0 and row.interruptions > self.steering.rules.crash.reruns_after_interruption

    def _texts(self, commit: str) -> dict[str, str]:
        """Every file that makes up a candidate: those in scope, and `train.py`, which is started, in scope or not."""
        return {name: self.ratchet.text_at(commit, name) for name in needed_files(self.steering.rules)}

    def _current(self) -> TrialRow:
        assert self.study.current is not None, "a port was called outside a trial"
        return self.study.current

    def _commit(self) -> str:
        commit = self._current().commit
        assert commit is not None, "apply comes first"
        return commit

    def _tip(self) -> str:
        incumbent, started = self.study.incumbent, self.study.started
        assert started is not None, "a night begins with study_started"
        return incumbent.commit if incumbent and incumbent.commit else started.baseline_commit

    def _remeasured(self) -> bool:
        incumbent = self.study.incumbent
        again = self.desk.rota.replicating(self.steering.rules)
        return incumbent is not None and remeasuring.done(
            self.bench, self.steering.rules, again, lambda: self._texts(incumbent.commit or ""), self._cpu_cap()
        )

    def _cpu_cap(self) -> float | None:
        return budget.cpu_cap(self.steering.rules, self.study.baseline)


def _never_ran(row: TrialRow) -> Reading:
    return Reading(trial=row.trial, replicate=0, seed=0, outcome=JobOutcome(end=JobEnd.INTERRUPTED, reason="infrastructure"))
