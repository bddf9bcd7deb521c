"""Measures a finished job: the trusted process holds data and byte table, the scorer holds the candidate's code. See docs/design/0002.

The number comes from the trusted process's record alone, bound by a nonce to this trial. A hang or a death is tried once more from the same
checkpoint, without training again; after that the trial has no measurement.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.artifacts import durable, provenance
from harness.artifacts.trial_dir import remove
from harness.execution import channel, claims
from harness.execution.channel import Channel, ProtocolFault
from harness.execution.clock import Clock
from harness.execution.device import Device
from harness.execution.process import ProcessTree
from harness.execution.sandbox.box import OPEN, Sandbox
from harness.execution.workplace import JobSpec, launch, prepare_folder
from harness.rules import Rules
from harness.trial import DataFacts, EvaluationFault, JobOutcome, Measurement

ATTEMPTS = 2
WORTH_ANOTHER_TRY = frozenset({"evaluation", "scorer_died", "metric_error"})
CANDIDATE_FAULTS = frozenset({"not_finite", "negative_loss", "short_answer", "load_failed", "scorer_died"})
INTERRUPTED = "interrupted"
POLL_SECONDS = 0.05
DATA_VARIABLES = ("HOME", "XDG_CACHE_HOME", "RATCHET_DATA")


class Evaluator:
    """Holds what does not change between trials. `interrupted` is asked often and ends the evaluation when it answers a reason."""

    def __init__(self, data: DataFacts, device: Device, clock: Clock, interrupted: Callable[[], str], sandbox: Sandbox = OPEN) -> None:
        self._data, self._device, self._clock, self._interrupted, self._sandbox = data, device, clock, interrupted, sandbox

    def measure(self, spec: JobSpec, outcome: JobOutcome, rules: Rules) -> Measurement | EvaluationFault:
        """The measurement of a job that ended well, from its hashed checkpoint; or why there is none."""
        if provenance.sha256(spec.folder.checkpoint) != outcome.checkpoint_sha256:
            return EvaluationFault(
                reason="checkpoint_changed", detail="the checkpoint is not the one the job left", candidate_to_blame=False
            )
        if self._interrupted():
            return EvaluationFault(reason=INTERRUPTED, detail=self._interrupted(), candidate_to_blame=False)
        result: Measurement | EvaluationFault
        for _ in range(ATTEMPTS):
            try:
                result = _Attempt(self._data, self._device, self._clock, self._interrupted, spec, outcome, rules, self._sandbox).run()
            except ProtocolFault as fault:
                result = EvaluationFault(reason="metric_error", detail=f"the evaluator sent {fault}", candidate_to_blame=False)
            if isinstance(result, Measurement) or result.reason not in WORTH_ANOTHER_TRY:
                break
        if isinstance(result, Measurement):
            durable.replace(spec.folder.measurement, result.model_dump_json(indent=1).encode() + b"\n")
        return result


class _Attempt:
    """One pair of processes."""

    def __init__(
        self,
        data: DataFacts,
        device: Device,
        clock: Clock,
        interrupted: Callable[[], str],
        spec: JobSpec,
        outcome: JobOutcome,
        rules: Rules,
        sandbox: Sandbox,
    ) -> None:
        self._sandbox = sandbox
        self._data, self._clock, self._interrupted = data, clock, interrupted
        self._spec, self._outcome, self._rules = spec, outcome, rules
        self._device = "cuda" if device.name.startswith("cuda") else "cpu"
        self._token = secrets.token_hex(16)
        self._trusted_folder = spec.folder.path / "trusted"

    def run(self) -> Measurement | EvaluationFault:
        folders = (self._trusted_folder, self._spec.folder.work)
        for folder in folders:
            remove(folder)
        prepare_folder(self._trusted_folder, {}, self._spec.prepare)
        prepare_folder(self._spec.folder.work, self._spec.files, self._spec.prepare)
        started = self._clock.monotonic()
        try:
            answer = self._converse(started)
        finally:
            for folder in folders:
                remove(folder)
        return answer if isinstance(answer, EvaluationFault) else self._measurement(answer, self._clock.monotonic() - started)

    def _converse(self, started: float) -> dict[str, Any] | EvaluationFault:
        ours, theirs = channel.pair()
        trusted_end, scorer_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        checkpoint = os.open(self._spec.folder.checkpoint, os.O_RDONLY | os.O_CLOEXEC)
        trees: list[ProcessTree] = []
        try:
            scorer = {"RATCHET_SOCKET": scorer_end.fileno(), "RATCHET_CHECKPOINT": checkpoint}
            trees.append(self._start("serve", self._spec.folder.work, scorer))
            trees.append(
                self._start("evaluate", self._trusted_folder, {"RATCHET_SOCKET": theirs.fileno(), "RATCHET_SCORER": trusted_end.fileno()})
            )
            for end in (theirs, trusted_end, scorer_end):
                end.close()
            ours.send({"evaluate": {
                "profile": self._rules.trial.profile, "split": "val", "device": self._device, "threads": self._rules.run.threads, "token": self._token,
            }})  # fmt: skip
            answer = self._answer(ours, trees, started)
            if isinstance(answer, EvaluationFault) and answer.reason == "scorer_died":
                trees[0].must_be_inside()
            return answer
        finally:
            for tree in reversed(trees):
                tree.end(grace=0.5)
            for end in (theirs, trusted_end, scorer_end):
                end.close()
            os.close(checkpoint)
            ours.close()

    def _start(self, mode: str, folder: Path, numbers: dict[str, int]) -> ProcessTree:
        own = {"RATCHET_JOB": self._spec.marker, "OMP_NUM_THREADS": str(self._rules.run.threads)}
        if mode == "evaluate":
            own |= {name: os.environ[name] for name in DATA_VARIABLES if name in os.environ}
        variables = {**own, **{name: str(number) for name, number in numbers.items()}}
        command, cage = [sys.executable, "prepare.py", mode], OPEN if mode == "evaluate" else self._sandbox  # ours must see the data
        return launch(command, folder, variables, self._spec.folder.evaluate_log, self._rules, list(numbers.values()), cage)

    def _answer(self, ours: Channel, trees: list[ProcessTree], started: float) -> dict[str, Any] | EvaluationFault:
        limit = self._rules.trial.evaluate_seconds
        while True:
            select.select([*ours.sources(), *(s for tree in trees for s in tree.sources())], [], [], POLL_SECONDS)
            for tree in trees:
                tree.drain()
            ended = trees[-1].poll() is not None  # asked first: what it sent before it ended is then read below
            for key, value in ours.receive():
                return self._read(key, value)
            if self._interrupted():
                return EvaluationFault(reason=INTERRUPTED, detail=self._interrupted(), candidate_to_blame=False)
            if ours.closed or ended:
                return EvaluationFault(
                    reason="metric_error", detail="the evaluator ended without a record; see evaluate.log", candidate_to_blame=False
                )
            if self._clock.monotonic() - started > limit:
                return EvaluationFault(reason="evaluation", detail=f"no record after {limit:g} s", candidate_to_blame=True)

    def _read(self, key: str, value: Any) -> dict[str, Any] | EvaluationFault:
        if key == "record" and isinstance(value, dict):
            return value
        if key == "fault" and isinstance(value, dict):
            reason, detail = claims.text(str(value.get("reason")), 40), claims.text(str(value.get("detail")), 300)
            return EvaluationFault(reason=reason, detail=detail, candidate_to_blame=reason in CANDIDATE_FAULTS)
        raise ProtocolFault(f"an unexpected message {key[:40]!r}")

    def _measurement(self, record: dict[str, Any], seconds: float) -> Measurement | EvaluationFault:
        try:
            ours = {"checkpoint_sha256": self._outcome.checkpoint_sha256, "seconds": round(seconds, 3)}
            found = Measurement.model_validate_json(json.dumps({**record, **ours}), strict=True)
        except ValidationError as error:
            return EvaluationFault(
                reason="metric_error", detail=f"the record is not a measurement: {_first(error)}", candidate_to_blame=False
            )
        if found.token != self._token:
            return EvaluationFault(reason="metric_error", detail="the record carries another trial's token", candidate_to_blame=False)
        if found.data_sha256 != self._data.data_sha256:
            return EvaluationFault(reason="metric_error", detail="the record is of other data", candidate_to_blame=False)
        return found


def _first(error: ValidationError) -> str:
    problem = error.errors()[0]
    return f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"[:300]
