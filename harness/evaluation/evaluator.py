"""Measures a finished job, and audits what it claimed: the trusted process holds data and byte table, a scorer the candidate's code. See docs/design/0002.

The number comes from the trusted process's record alone, bound by a nonce to this trial. A hang or a death is tried once more from the same
checkpoint, without training again; after that the trial has no measurement.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from harness.artifacts import durable, provenance
from harness.audited import Audit
from harness.conditions import DeviceState
from harness.evaluation.pair import INTERRUPTED as INTERRUPTED
from harness.evaluation.pair import Pair, Setting
from harness.execution.clock import Clock
from harness.execution.device import Device
from harness.execution.hygiene import Guard
from harness.execution.sandbox.box import OPEN, Sandbox
from harness.execution.workplace import JobSpec
from harness.facts import DataFacts
from harness.rules import Rules
from harness.trial import EvaluationFault, JobOutcome, Measurement

ATTEMPTS = 2
WORTH_ANOTHER_TRY = frozenset({"evaluation", "scorer_died", "metric_error"})
SPLIT = "val"
R = TypeVar("R", Measurement, Audit)
T = TypeVar("T")


class Evaluator:
    """Holds what does not change between trials. `interrupted` is asked often and ends the evaluation when it answers a reason."""

    def __init__(
        self, data: DataFacts, device: Device, clock: Clock, interrupted: Callable[[], str], sandbox: Sandbox = OPEN, began: DeviceState | None = None
    ) -> None:  # fmt: skip
        self._data, self._interrupted = data, interrupted
        self._setting = Setting(
            "cuda" if device.name.startswith("cuda") else "cpu", clock, interrupted, sandbox, device.variables, lambda: Guard(device, began, clock)
        )  # fmt: skip

    @property
    def audits(self) -> bool:
        """Whether this project's prepare.py can audit a claim."""
        return self._data.audit

    def measure(self, spec: JobSpec, outcome: JobOutcome, rules: Rules) -> Measurement | EvaluationFault:
        """The measurement of a job that ended well, from its hashed checkpoint; or why there is none. The claims are stored beside it."""
        result = self._unharmed(spec, outcome.checkpoint_sha256) or self._measure(spec, outcome, rules)
        if isinstance(result, Measurement):
            durable.replace(spec.folder.measurement, result.model_dump_json(indent=1).encode() + b"\n")
        return result

    def _measure(self, spec: JobSpec, outcome: JobOutcome, rules: Rules) -> Measurement | EvaluationFault:
        def once() -> Measurement | EvaluationFault:
            stored = os.open(spec.folder.claims, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600) if self.audits else None
            started = self._setting.clock.monotonic()
            try:
                pair = Pair(self._setting, spec, rules, "evaluate", {"split": SPLIT}, spec.folder.checkpoint, stored)
                answer = pair.ask()
            finally:
                if stored is not None:
                    os.close(stored)
            if isinstance(answer, EvaluationFault):
                return answer
            ours = {
                "checkpoint_sha256": outcome.checkpoint_sha256, "seconds": round(self._setting.clock.monotonic() - started, 3), "token": pair.token,
                "claims_sha256": provenance.sha256(spec.folder.claims) if self.audits else None,
                "load_seconds": pair.load_seconds, "scorer_seconds": pair.seconds,
            }  # fmt: skip
            return self._checked({**answer, **ours})

        return _tried(once)

    def audit(self, spec: JobSpec, measured: Measurement, rules: Rules, positions: int, tolerance: float) -> Audit | EvaluationFault:
        """Compare the stored claims with what a fresh scorer, which sees beginnings alone, gives at secret positions.

        `tolerance` in nats. What the candidate is to blame for is an audit with a `fault`; an `EvaluationFault` is the machine's.
        """
        harmed = self._unharmed(spec, measured.checkpoint_sha256)
        if harmed is not None:
            return harmed
        if not spec.folder.claims.exists() or provenance.sha256(spec.folder.claims) != measured.claims_sha256:
            return EvaluationFault(
                reason="claims_changed", detail="the stored claims are not those of the measurement", candidate_to_blame=False
            )
        wish = {"split": SPLIT, "positions": positions, "tolerance": tolerance}

        def once() -> Audit | EvaluationFault:
            stored = os.open(spec.folder.claims, os.O_RDONLY | os.O_CLOEXEC)
            started = self._setting.clock.monotonic()
            try:
                pair = Pair(self._setting, spec, rules, "audit", wish, spec.folder.checkpoint, stored)
                answer = pair.ask()
            finally:
                os.close(stored)
            used = {
                "seconds": round(self._setting.clock.monotonic() - started, 3),
                "load_seconds": pair.load_seconds,
                "scorer_seconds": pair.seconds,
            }
            if isinstance(answer, dict):
                return _record(Audit, {**answer, **used})
            if not answer.candidate_to_blame:
                return answer
            return Audit(positions=positions, tolerance=tolerance, fault=answer.reason, detail=answer.detail, **used)

        return _tried(once)

    def rehearse(self, spec: JobSpec, outcome: JobOutcome, rules: Rules, positions: int) -> float | EvaluationFault:
        """Try the contract with the checkpoint of an untrained model, once: how far a loss moves, in nats, when only later ids change."""
        if harmed := self._unharmed(spec, outcome.checkpoint_sha256):
            return harmed
        answer = Pair(self._setting, spec, rules, "rehearse", {"positions": positions}, spec.folder.checkpoint).ask()
        if isinstance(answer, EvaluationFault):
            return answer
        moved = answer.get("moved")
        return float(moved) if isinstance(moved, int | float) else _error("the rehearsal's record has no number")

    def _unharmed(self, spec: JobSpec, sha256: str | None) -> EvaluationFault | None:
        if not spec.folder.checkpoint.exists() or provenance.sha256(spec.folder.checkpoint) != sha256:
            return EvaluationFault(
                reason="checkpoint_changed", detail="the checkpoint is not the one the job left", candidate_to_blame=False
            )
        if self._interrupted():
            return EvaluationFault(reason=INTERRUPTED, detail=self._interrupted(), candidate_to_blame=False)
        return None

    def _checked(self, record: dict[str, Any]) -> Measurement | EvaluationFault:
        found = _record(Measurement, record)
        if isinstance(found, Measurement) and found.data_sha256 != self._data.data_sha256:
            return _error("the record is of other data")
        return found


def _record(kind: type[R], record: dict[str, Any]) -> R | EvaluationFault:
    try:
        return kind.model_validate_json(json.dumps(record), strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        said = f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"[:300]
        return _error(f"the record is not {'a measurement' if kind is Measurement else 'an audit'}: {said}")


def _error(detail: str) -> EvaluationFault:
    return EvaluationFault(reason="metric_error", detail=detail, candidate_to_blame=False)


def _tried(once: Callable[[], T]) -> T:
    """The answer, or that of the last try. An audit that found the scorer dead is tried again as a measurement is."""
    for _ in range(ATTEMPTS):
        result = once()
        reason = result.reason if isinstance(result, EvaluationFault) else result.fault if isinstance(result, Audit) else ""
        if reason not in WORTH_ANOTHER_TRY:
            break
    return result
