"""One reading of one commit: train it, then measure it, each made durable. Interrupted readings leave no number."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.artifacts import provenance
from harness.artifacts.events import Interrupted, Launched, Scored, Trained
from harness.artifacts.provenance import FixedFiles
from harness.artifacts.trial_row import TrialRow
from harness.control.recorder import Recorder
from harness.evaluation import evaluator
from harness.evaluation.evaluator import Evaluator
from harness.execution.clock import Clock
from harness.execution.device import Device
from harness.execution.job import Job
from harness.execution.process import boot_id
from harness.execution.sandbox.box import OPEN, Sandbox
from harness.execution.workplace import JobSpec
from harness.rules import Rules
from harness.trial import EvaluationFault, JobEnd, JobOutcome, Reading


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

    def take(self, row: TrialRow, replicate: int, files: Mapping[str, str], rules: Rules, cpu_cap: float | None) -> Reading | None:
        """Reading number `replicate` of a trial, with that number as its seed; `None` when it was interrupted."""
        self.fixed.check()
        folder = self.recorder.folder.trial(row.folder).reading(replicate)
        launched = self.recorder.study.launched
        left = launched.marker if launched and (launched.trial, launched.replicate) == (row.trial, replicate) else secrets.token_hex(16)
        spec = JobSpec(
            files=files, prepare=self.recorder.folder.prepare, train_data=self.train_data, folder=folder, seed=replicate,
            marker=left, cpu_cap=cpu_cap,
        )  # fmt: skip
        found = next((r for r in row.readings if r.replicate == replicate), None)
        outcome = found.outcome if found and self._reusable(found, spec) else self._train(row, spec, replicate, rules)
        return self._measure(row, spec, replicate, rules, outcome) if outcome else None

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
        if outcome.end is JobEnd.INTERRUPTED:
            self.recorder.emit(Interrupted(trial=row.trial, replicate=replicate, reason=outcome.reason, charged=False))
            return None
        self.recorder.emit(Trained(trial=row.trial, replicate=replicate, outcome=outcome))
        return outcome

    def _measure(self, row: TrialRow, spec: JobSpec, replicate: int, rules: Rules, outcome: JobOutcome) -> Reading | None:
        reading = Reading(trial=row.trial, replicate=replicate, seed=spec.seed, outcome=outcome)
        if outcome.end is not JobEnd.OK:
            return reading
        self.fixed.check()
        result = self.evaluator.measure(spec, outcome, rules)
        if isinstance(result, EvaluationFault):
            if result.reason == evaluator.INTERRUPTED:
                return None
            self.recorder.emit(Scored(trial=row.trial, replicate=replicate, fault=result))
            return reading.model_copy(update={"fault": result})
        slim = result.model_copy(update={"documents": ()})
        self.recorder.emit(Scored(trial=row.trial, replicate=replicate, measurement=slim))
        return reading.model_copy(update={"measurement": slim})
