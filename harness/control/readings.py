"""One reading of one commit: train it, then measure it, each made durable. Interrupted readings leave no number."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.artifacts import provenance
from harness.artifacts.events import Audited, Interrupted, Launched, Rehearsed, Scored, Trained, Warned
from harness.artifacts.provenance import FixedFiles
from harness.artifacts.trial_dir import remove
from harness.artifacts.trial_row import TrialRow
from harness.audited import Audit
from harness.conditions import DeviceState, slowness
from harness.control import wording
from harness.control.recorder import Recorder
from harness.errors import FileChanged
from harness.evaluation import auditing, causes, evaluator
from harness.evaluation.evaluator import Evaluator
from harness.execution import hygiene
from harness.execution.clock import Clock
from harness.execution.device import Device
from harness.execution.job import Job
from harness.execution.process import boot_id
from harness.execution.sandbox.box import OPEN, Sandbox
from harness.execution.workplace import JobSpec
from harness.rules import Rules
from harness.trial import EvaluationFault, JobEnd, JobOutcome, Reading

REHEARSAL = -1


@dataclass(frozen=True)
class Bench:
    """What readings are taken with: the same for every trial of a study."""

    recorder: Recorder
    fixed: FixedFiles
    device: Device
    clock: Clock
    train_data: Path
    evaluator: Evaluator
    interrupted: Callable[[], str]
    on_point: Callable[[dict[str, Any]], None]
    sandbox: Sandbox = OPEN
    began: DeviceState | None = None
    patience: Callable[[], float | None] = lambda: 0.0

    def take(self, row: TrialRow, replicate: int, files: Mapping[str, str], rules: Rules, cpu_cap: float | None) -> Reading | None:
        """Reading number `replicate` of a trial, with that number as its seed; `None` when it was interrupted."""
        self.fixed.check()
        spec = self._spec(row, replicate, files, cpu_cap)
        found = next((r for r in row.readings if r.replicate == replicate), None)
        outcome = found.outcome if found and self._reusable(found, spec) else self._train(row, spec, replicate, rules)
        return self._measure(row, spec, replicate, rules, outcome) if outcome else None

    def void(self, reading: Reading) -> bool:
        """Whether a reading failed by a fault that is not the candidate's; then it counts as interrupted and is taken again, unless the source has no truth to tell."""
        if reading.fault is None or reading.fault.candidate_to_blame or reading.fault.reason == causes.NO_TRUTH:
            return False
        self.recorder.emit(Interrupted(trial=reading.trial, replicate=reading.replicate, reason=reading.fault.reason))
        return True

    def audit(self, row: TrialRow, reading: Reading, files: Mapping[str, str], rules: Rules, positions: int, tolerance: float) -> bool:
        """Whether the claims of a measured reading are audited now; a fault of ours makes the reading void, an interruption leaves it as it is."""
        assert reading.measurement is not None, "an audit follows a measurement"
        self.fixed.check()
        result = self.evaluator.audit(self._spec(row, reading.replicate, files, None), reading.measurement, rules, positions, tolerance)
        self._must_be_unchanged(row, reading.replicate)
        if isinstance(result, Audit) and self._excused(row, reading.replicate, failed=bool(result.fault)):
            return False
        if isinstance(result, Audit):
            self.recorder.emit(Audited(trial=row.trial, replicate=reading.replicate, audit=result))
            return True
        if result.reason != evaluator.INTERRUPTED:
            self.recorder.emit(Interrupted(trial=row.trial, replicate=reading.replicate, reason=result.reason, detail=result.detail))
        return False

    def rehearse(self, row: TrialRow, files: Mapping[str, str], rules: Rules) -> bool:
        """Whether the contract has been tried with the untrained model; not when that was interrupted.

        A job that ends badly says nothing: the training will end in the same way, and at once.
        """
        self.fixed.check()
        started, spec = self.clock.monotonic(), replace(self._spec(row, REHEARSAL, files, None), seed=0, rehearsal=True)
        outcome = self._run(row, spec, REHEARSAL, rules)
        if outcome is None:
            return False
        moved: float | EvaluationFault | None = None
        if outcome.end is JobEnd.OK:
            moved = self.evaluator.rehearse(spec, outcome, rules, auditing.REHEARSED_POSITIONS)
            self._must_be_unchanged(row, REHEARSAL)
            if isinstance(moved, EvaluationFault) and self._not_to_blame(row, REHEARSAL, moved):
                if moved.reason == evaluator.INTERRUPTED:
                    self.recorder.emit(Interrupted(trial=row.trial, replicate=REHEARSAL, reason=moved.detail, charged=False))
                return False
        found = auditing.rehearsal(moved).model_copy(update={"seconds": round(self.clock.monotonic() - started, 3)})
        self.recorder.emit(Rehearsed(trial=row.trial, rehearsal=found))
        if not found.reason:
            remove(spec.folder.path)
        return True

    def _spec(self, row: TrialRow, replicate: int, files: Mapping[str, str], cpu_cap: float | None) -> JobSpec:
        launched = self.recorder.study.launched
        left = launched.marker if launched and launched.trial == row.trial else secrets.token_hex(16)
        return JobSpec(
            files=files, prepare=self.recorder.folder.prepare, train_data=self.train_data,
            folder=self.recorder.folder.trial(row.folder).reading(replicate), seed=replicate, marker=left, cpu_cap=cpu_cap,
            began=self.began,
        )  # fmt: skip

    def _reusable(self, found: Reading, spec: JobSpec) -> bool:
        """A trained reading is scored after a restart only from the very checkpoint that the job left."""
        if found.outcome.end is not JobEnd.OK:
            return True
        checkpoint = spec.folder.checkpoint
        if checkpoint.exists() and provenance.sha256(checkpoint) == found.outcome.checkpoint_sha256:
            return True
        self.recorder.emit(Interrupted(trial=found.trial, replicate=found.replicate, reason="the checkpoint is not the one the job left"))
        return False

    def _train(self, row: TrialRow, spec: JobSpec, replicate: int, rules: Rules) -> JobOutcome | None:
        outcome = self._run(row, spec, replicate, rules)
        if outcome is not None:
            self.recorder.emit(Trained(trial=row.trial, replicate=replicate, outcome=outcome))
            self._tell(row, outcome, rules)
        return outcome

    def _run(self, row: TrialRow, spec: JobSpec, replicate: int, rules: Rules) -> JobOutcome | None:
        if not hygiene.wait_until_free(self.device, self.began, self.clock, self._no_longer_wanted, self._say, self.patience()):
            return None
        spec.folder.create()
        job = Job(spec, rules, self.device, self.clock, self.on_point, self.interrupted, self.sandbox)
        tree = job.start()
        try:
            self.recorder.emit(Launched(
                trial=row.trial, replicate=replicate, seed=spec.seed, marker=spec.marker, pid=tree.pid, process_started=tree.started, boot_id=boot_id(),
                sandbox=self.sandbox.level,
            ))  # fmt: skip
        except BaseException:
            tree.end(grace=0.0)
            raise
        outcome = job.watch()
        self._must_be_unchanged(row, replicate)
        if outcome.end is JobEnd.INTERRUPTED:
            ours = outcome.reason in hygiene.OF_THE_DEVICE
            self.recorder.emit(
                Interrupted(trial=row.trial, replicate=replicate, reason=outcome.reason, detail=outcome.detail, charged=ours)
            )
            return None
        return outcome

    def _measure(self, row: TrialRow, spec: JobSpec, replicate: int, rules: Rules, outcome: JobOutcome) -> Reading | None:
        reading = Reading(trial=row.trial, replicate=replicate, seed=spec.seed, outcome=outcome)
        if outcome.end is not JobEnd.OK:
            return reading
        result = self.evaluator.measure(spec, outcome, rules)
        self._must_be_unchanged(row, replicate)
        if isinstance(result, EvaluationFault):
            if self._not_to_blame(row, replicate, result):
                return None
            self.recorder.emit(Scored(trial=row.trial, replicate=replicate, fault=result))
            return reading.model_copy(update={"fault": result})
        if self._excused(row, replicate, failed=False):
            return None
        slim = result.model_copy(update={"documents": ()})
        self.recorder.emit(Scored(trial=row.trial, replicate=replicate, measurement=slim))
        return reading.model_copy(update={"measurement": slim})

    def _no_longer_wanted(self) -> str:
        return self.interrupted() or ("stop" if self.recorder.folder.stop_request.exists() else "")

    def _say(self, said: str) -> None:
        if f"device: {said}" not in self.recorder.study.warnings:
            self.recorder.emit(Warned(code="device", message=said))

    def _must_be_unchanged(self, row: TrialRow, replicate: int) -> None:
        """A reading during which a fixed file changed is nobody's number: it is taken again, and the night stops before that."""
        try:
            self.fixed.check()
        except FileChanged as fault:
            self.recorder.emit(Interrupted(trial=row.trial, replicate=replicate, reason="file_changed", detail=str(fault)))
            raise

    def _not_to_blame(self, row: TrialRow, replicate: int, fault: EvaluationFault) -> bool:
        """Whether it was interrupted, or is the device's, also when it looks like the candidate's."""
        if fault.reason in hygiene.OF_THE_DEVICE:
            self.recorder.emit(Interrupted(trial=row.trial, replicate=replicate, reason=fault.reason, detail=fault.detail))
            return True
        return fault.reason == evaluator.INTERRUPTED or (fault.candidate_to_blame and self._excused(row, replicate))

    def _excused(self, row: TrialRow, replicate: int, failed: bool = True) -> bool:
        """Whether a device that is shared or lost is to blame for what a candidate was slow or failed in; then the reading is void."""
        why = hygiene.trouble(self.device, self.began, failed)
        if why is not None:
            self.recorder.emit(Interrupted(trial=row.trial, replicate=replicate, reason=why[0], detail=why[1]))
        return why is not None

    def _tell(self, row: TrialRow, outcome: JobOutcome, rules: Rules) -> None:
        """Warn of a slow machine, once for all slow readings in a row, and of a set-up that has grown; the numbers are in each reading's record."""
        study, wall = self.recorder.study, rules.trial.clock == "wall"
        jobs = [reading.outcome for reading in study.baseline.readings] if study.baseline else []
        base = jobs[0].conditions if jobs else None
        earlier = [*(study.rows[-1].readings if study.rows else ()), *row.readings]
        said = slowness(outcome.conditions, base, wall)
        if said and not (earlier and slowness(earlier[-1].outcome.conditions, base, wall)):
            self.recorder.emit(Warned(code="device", message=f"trial {row.trial}: {said}; its reading counts, but compares badly"))
        if said := wording.uncounted(outcome, jobs):
            self.recorder.emit(Warned(code="set_up", message=f"trial {row.trial}: {said}"))
