"""One conversation of a trusted process and a scorer: both started, watched, ended; what the trusted one said last. See docs/design/0002."""

from __future__ import annotations

import math
import os
import secrets
import select
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.artifacts.trial_dir import remove
from harness.execution import channel, claims, sealing
from harness.execution.channel import Channel, ProtocolFault
from harness.execution.clock import Clock
from harness.execution.hygiene import Guard
from harness.execution.process import ProcessTree
from harness.execution.sandbox.box import OPEN, Sandbox
from harness.execution.workplace import REHEARSAL_SECONDS, JobSpec, launch, prepare_folder
from harness.rules import Rules
from harness.trial import EvaluationFault

CANDIDATE_FAULTS = frozenset({"not_finite", "negative_loss", "short_answer", "load_failed", "scorer_died"})
ANSWERS = {"evaluate": "record", "audit": "audited", "rehearse": "rehearsed"}
INTERRUPTED = "interrupted"
POLL_SECONDS = 0.05
LOOK_SECONDS = 0.25
DATA_VARIABLES = ("HOME", "XDG_CACHE_HOME", "RATCHET_DATA")


@dataclass(frozen=True)
class Setting:
    """What every conversation of a study has in common. `device` is `cpu` or `cuda`; `variables` name the one that is locked.

    `guard` begins to look for strangers on it; what it finds voids the answer, whoever looks slow.
    """

    device: str
    clock: Clock
    interrupted: Callable[[], str]
    sandbox: Sandbox = OPEN
    variables: Mapping[str, str] = field(default_factory=dict)
    guard: Callable[[], Guard] | None = None


@dataclass
class Pair:
    """One question: `mode` is what the trusted process is asked for, `wish` its further words, `stored` a descriptor for the claims.

    After `ask`, `load_seconds` and `seconds` say what the scorer used until its model was loaded and in all: CPU seconds, on a GPU wall seconds.
    """

    setting: Setting
    spec: JobSpec
    rules: Rules
    mode: str
    wish: Mapping[str, Any]
    checkpoint: Path
    stored: int | None = None
    load_seconds: float | None = None
    seconds: float | None = None
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    def ask(self) -> dict[str, Any] | EvaluationFault:
        """The trusted process's record, its token checked and taken off; or a fault. Nothing of the pair is alive or left afterwards."""
        trusted, work = self.spec.folder.path / "trusted", self.spec.folder.work
        for folder in (trusted, work):
            remove(folder)
        prepare_folder(trusted, {}, self.spec.prepare)
        prepare_folder(work, self.spec.files, self.spec.prepare)
        self._started = self._looked = self.setting.clock.monotonic()
        try:
            answer = self._converse(trusted, work)
        except ProtocolFault as fault:
            answer = _ours(f"the evaluator sent {fault}")
        except sealing.NotSealed as fault:
            answer = _ours(str(fault))
        finally:
            for folder in (trusted, work):
                remove(folder)
        if isinstance(answer, dict) and answer.pop("token", None) != self.token:
            return _ours("the record carries another trial's token")
        return answer

    def _converse(self, trusted: Path, work: Path) -> dict[str, Any] | EvaluationFault:
        ours, theirs = channel.pair()
        trusted_end, scorer_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        checkpoint = sealing.private(self.checkpoint, self.rules.sandbox.scratch_mb << 20)
        trees: list[ProcessTree] = []
        try:
            self._scorer = self._start("serve", work, {"RATCHET_SOCKET": scorer_end.fileno(), "RATCHET_CHECKPOINT": checkpoint})
            trees.append(self._scorer)
            handed = {"RATCHET_SOCKET": theirs.fileno(), "RATCHET_SCORER": trusted_end.fileno()}
            trees.append(self._start(self.mode, trusted, handed | ({} if self.stored is None else {"RATCHET_CLAIMS": self.stored})))
            for end in (theirs, trusted_end, scorer_end):
                end.close()
            ours.send({self.mode: {
                "profile": self.rules.trial.profile, "device": self.setting.device, "threads": self.rules.run.threads, "token": self.token, **self.wish,
            }})  # fmt: skip
            answer = self._answer(ours, trees)
            if isinstance(answer, EvaluationFault) and answer.reason == "scorer_died":
                self._scorer.must_be_inside()
            return answer
        finally:
            for tree in reversed(trees):
                tree.end(grace=0.5)
            for end in (theirs, trusted_end, scorer_end):
                end.close()
            os.close(checkpoint)
            ours.close()

    def _start(self, mode: str, folder: Path, numbers: dict[str, int]) -> ProcessTree:
        own = {"RATCHET_JOB": self.spec.marker, "OMP_NUM_THREADS": str(self.rules.run.threads), **self.setting.variables}
        if mode != "serve":
            own |= {name: os.environ[name] for name in DATA_VARIABLES if name in os.environ}
        variables = {**own, **{name: str(number) for name, number in numbers.items()}}
        command, cage = [sys.executable, "prepare.py", mode], self.setting.sandbox if mode == "serve" else OPEN  # ours must see the data
        return launch(command, folder, variables, self.spec.folder.evaluate_log, self.rules, list(numbers.values()), cage)

    def _answer(self, ours: Channel, trees: list[ProcessTree]) -> dict[str, Any] | EvaluationFault:
        limit = min(self.rules.trial.evaluate_seconds, REHEARSAL_SECONDS if self.mode == "rehearse" else math.inf)
        guard = self.setting.guard() if self.setting.guard else None
        while True:
            self._look()
            select.select([*ours.sources(), *(s for tree in trees for s in tree.sources())], [], [], POLL_SECONDS)
            for tree in trees:
                tree.drain()
            ended = trees[-1].poll() is not None  # asked first: what it sent before it ended is then read below
            for key, value in ours.receive():
                self.seconds = self._used()
                if key == "loaded" and self.load_seconds is None:
                    self.load_seconds = self.seconds
                else:
                    return self._read(key, value)
            if self.setting.interrupted():
                return EvaluationFault(reason=INTERRUPTED, detail=self.setting.interrupted(), candidate_to_blame=False)
            if guard and (why := guard.look()):
                return EvaluationFault(reason=why[0], detail=why[1], candidate_to_blame=False)
            if ours.closed or ended:
                return _ours("the evaluator ended without a record; see evaluate.log")
            if self.setting.clock.monotonic() - self._started > limit:
                return EvaluationFault(reason="evaluation", detail=f"no record after {limit:g} s", candidate_to_blame=True)

    def _look(self) -> None:
        """Four times a second: a child of the scorer that ends between two messages has used its time, too."""
        now = self.setting.clock.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._scorer.sample()

    def _used(self) -> float:
        wall = self.setting.clock.monotonic() - self._started
        return round(wall if self.setting.device == "cuda" else self._scorer.sample(), 3)

    def _read(self, key: str, value: Any) -> dict[str, Any] | EvaluationFault:
        if key == ANSWERS[self.mode] and isinstance(value, dict):
            return value
        if key == "fault" and isinstance(value, dict):
            reason, detail = claims.text(str(value.get("reason")), 40), claims.text(str(value.get("detail")), 300)
            return EvaluationFault(reason=reason, detail=detail, candidate_to_blame=reason in CANDIDATE_FAULTS)
        raise ProtocolFault(f"an unexpected message {key[:40]!r}")


def _ours(detail: str) -> EvaluationFault:
    return EvaluationFault(reason="metric_error", detail=detail, candidate_to_blame=False)
