"""One training job: launched in its own folder, timed by the harness's clock, watched from outside, and gone when this returns.

The phases are those of docs/design/0002: set-up until `ready`, training from `go` to `done`, then ten seconds to exit. What the job says of itself
is a claim; only limits, exit code, memory and the hash of the checkpoint come from here.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.artifacts import printed
from harness.execution import channel, claims
from harness.execution.channel import ProtocolFault
from harness.execution.clock import Clock, SuspendWatch
from harness.execution.device import Device
from harness.execution.hygiene import Watch
from harness.execution.process import ProcessTree
from harness.execution.sandbox.box import OPEN, Sandbox
from harness.execution.sealing import Checkpoint, Handed
from harness.execution.workplace import OVERRUN_SECONDS, OVERRUN_SHARE, JobSpec, launch, prepare_folder, resolve_command, training_limit
from harness.rules import Rules
from harness.trial import JobEnd, JobOutcome

EXIT_SECONDS = 10.0
SAMPLE_SECONDS = 0.25
POLL_SECONDS = 0.05
MAX_POINTS = 1000
MEMORY_WORDS = ("out of memory", "MemoryError", "can't allocate memory", "Cannot allocate memory", "std::bad_alloc")


@dataclass
class _Progress:
    """What has been seen of the running job."""

    started: float
    ready_at: float | None = None
    done_at: float | None = None
    cpu_at_go: float = 0.0
    cpu_at_done: float | None = None
    sampled_at: float = -1.0
    points: int = 0
    claims: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _End:
    """Why the watch is over."""

    end: JobEnd
    reason: str = ""
    detail: str = ""


class Job:
    """Runs one spec; `on_point` sees the learning curve, `interrupted` is asked often and ends the job when it answers a reason."""

    def __init__(
        self,
        spec: JobSpec,
        rules: Rules,
        device: Device,
        clock: Clock,
        on_point: Callable[[dict[str, Any]], None],
        interrupted: Callable[[], str],
        sandbox: Sandbox = OPEN,
    ) -> None:
        self._spec, self._rules, self._device, self._clock, self._sandbox = spec, rules, device, clock, sandbox
        self._on_point, self._interrupted = on_point, interrupted
        self._on_gpu = device.name.startswith("cuda")
        self._seen = _Progress(started=clock.monotonic())
        self._suspend = SuspendWatch(clock)
        self._data = Handed(spec.train_data)
        self._checkpoint = Checkpoint(spec.folder.checkpoint, rules.sandbox.scratch_mb << 20)

    def start(self) -> ProcessTree:
        """Launch; the caller writes the process down before it goes on with `watch`."""
        spec, folder = self._spec, self._spec.folder
        command = resolve_command(self._rules)
        self._watch = Watch(self._device, spec.began)
        prepare_folder(folder.work, spec.files, spec.prepare)
        self._channel, theirs = channel.pair()
        own = {"RATCHET_SOCKET": str(theirs.fileno()), "RATCHET_JOB": spec.marker, "OMP_NUM_THREADS": str(self._rules.run.threads)}
        own |= {**self._device.variables, **({"TORCH_COMPILE_DISABLE": "1"} if spec.rehearsal else {})}
        try:
            self._tree = launch(command, folder.work, own, folder.train_log, self._rules, [theirs.fileno()], self._sandbox)
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self._channel.send({"hello": {
            "profile": self._rules.trial.profile, "device": "cuda" if self._on_gpu else "cpu",
            "seed": spec.seed, "threads": self._rules.run.threads,
        }})  # fmt: skip
        return self._tree

    def watch(self) -> JobOutcome:
        """Follow the job to its end; on return nothing of it is alive and its folder is gone."""
        try:
            with self._spec.folder.curve.open("wb", buffering=0) as curve:
                self._curve = curve
                ended = self._follow()
        except ProtocolFault as fault:
            ended = _End(JobEnd.INVALID, "protocol", str(fault))
        finally:
            code = self._tree.end()
            self._channel.close()
            self._data.restore()
        outcome = self._outcome(ended, code)
        self._spec.folder.drop_work()
        return outcome

    def _follow(self) -> _End:
        while True:
            select.select([*self._tree.sources(), *self._channel.sources()], [], [], POLL_SECONDS)
            self._tree.drain()
            for key, value in self._channel.receive():
                self._take(key, value)
            code = self._tree.poll()
            if code is not None:
                self._tree.drain()
                for key, value in self._channel.receive():
                    self._take(key, value)
                return self._exited(code)
            ended = self._over_limit()
            if ended is not None:
                return ended

    def _take(self, key: str, value: Any) -> None:
        seen = self._seen
        if key == "ready" and seen.ready_at is None:
            self._hand_over()
        elif key == "point" and seen.ready_at is not None and isinstance(value, dict):
            self._note(claims.point(value))
        elif key == "done" and seen.ready_at is not None and seen.done_at is None and isinstance(value, dict):
            seen.done_at = self._clock.monotonic()
            seen.cpu_at_done = self._tree.sample()
            self._checkpoint.note()
            seen.claims = value
        else:
            raise ProtocolFault(f"unexpected message {key[:40]!r}")

    def _note(self, point: dict[str, int | float]) -> None:
        self._seen.points += 1
        if self._seen.points <= MAX_POINTS:
            with contextlib.suppress(OSError):  # a full disk costs points of the curve, not the night
                self._curve.write(json.dumps(point).encode() + b"\n")
            self._on_point(point)

    def _hand_over(self) -> None:
        data = os.open(self._spec.train_data, os.O_RDONLY | os.O_CLOEXEC)
        checkpoint = os.open(self._spec.folder.checkpoint, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            self._seen.cpu_at_go = self._tree.sample()
            self._seen.ready_at = self._clock.monotonic()
            clock, amount = ("tokens", 1) if self._spec.rehearsal else (self._rules.trial.clock, self._rules.trial.amount)
            self._channel.send({"go": {"clock": clock, "amount": amount}}, [data, checkpoint])
        finally:
            os.close(data)
            os.close(checkpoint)

    def _over_limit(self) -> _End | None:
        now, seen, trial = self._clock.monotonic(), self._seen, self._rules.trial
        reason = self._interrupted()
        if reason or self._suspend.slept():
            return _End(JobEnd.INTERRUPTED, reason or "suspended", "" if reason else "the machine slept during the job")
        if seen.done_at is not None:
            late = now - seen.done_at > EXIT_SECONDS
            return _End(JobEnd.CRASH, "late_failure", f"still running {EXIT_SECONDS:.0f} s after its checkpoint") if late else None
        if seen.ready_at is None and now - seen.started > trial.setup_seconds:
            return _End(JobEnd.TIMEOUT, "setup", f"not ready after {trial.setup_seconds:g} s")
        if seen.ready_at is not None and now - seen.ready_at > training_limit(self._rules, self._spec.rehearsal):
            return _End(JobEnd.TIMEOUT, "training", f"no checkpoint {now - seen.ready_at:.1f} s after the start of training")
        if now - seen.sampled_at >= SAMPLE_SECONDS:
            seen.sampled_at = now
            return self._over_resources(self._tree.sample())
        return None

    def _over_resources(self, cpu: float) -> _End | None:
        seen, trial = self._seen, self._rules.trial
        if fault := self._watch.sample(self._tree.pid, training=seen.ready_at is not None):
            return _End(JobEnd.INTERRUPTED, *fault)
        peak = self._peak_mb()
        if trial.memory_mb is not None and peak is not None and peak > trial.memory_mb:
            return _End(JobEnd.OOM, "memory_limit", f"{peak:.0f} MiB in use, {trial.memory_mb:.0f} allowed by [trial] memory_mb")
        if seen.ready_at is None:
            return None
        used = cpu - seen.cpu_at_go
        if trial.clock == "cpu" and used > trial.amount * (1 + OVERRUN_SHARE) + OVERRUN_SECONDS:
            return _End(JobEnd.TIMEOUT, "training", f"{used:.1f} CPU seconds of {trial.amount:g}")
        if self._spec.cpu_cap is not None and used > self._spec.cpu_cap:
            return _End(JobEnd.TIMEOUT, "compute_cap", f"over {self._spec.cpu_cap:.1f} CPU seconds, the slowest baseline's with its margin")
        return None

    def _peak_mb(self) -> float | None:
        """On a GPU what the driver said, `None` when it said nothing; host memory would be another quantity."""
        return self._watch.peak_mb if self._on_gpu else self._tree.peak_memory_mb

    def _exited(self, code: int) -> _End:
        self._tree.must_be_inside()
        seen, log = self._seen, self._spec.folder.train_log.read_bytes()
        if code != 0 and any(word.encode() in log for word in MEMORY_WORDS):
            return _End(JobEnd.OOM, "out_of_memory", printed.error_line(log))
        if code == -9:
            return _End(JobEnd.OOM, "killed", "killed by the system, as it does when memory runs out")
        if code != 0:
            return _End(JobEnd.CRASH, "late_failure" if seen.done_at else "exit_code", f"exit code {code}: {printed.error_line(log)}")
        if seen.done_at is None or not self._checkpoint.there:
            return _End(JobEnd.CRASH, "no_result", "ended with exit code 0 but without a checkpoint")
        steps, tokens = seen.claims.get("steps"), seen.claims.get("tokens")
        if not claims.positive(steps) or not claims.positive(tokens):
            return _End(JobEnd.INVALID, "no_steps", f"trained {claims.claim(steps)!r} steps on {claims.claim(tokens)!r} tokens")
        return _End(JobEnd.OK)

    def _outcome(self, ended: _End, code: int) -> JobOutcome:
        seen, log = self._seen, self._spec.folder.train_log.read_bytes()
        if ended.end is JobEnd.OK and (wrong := self._checkpoint.seal()):
            ended = _End(JobEnd.INVALID, *wrong)
        if ended.end is not JobEnd.INTERRUPTED and (fault := self._watch.last_look(failed=ended.end is not JobEnd.OK)):
            ended = _End(JobEnd.INTERRUPTED, *fault)
        finished = seen.done_at or (self._clock.monotonic() if seen.ready_at is not None else None)
        cpu = seen.cpu_at_done if seen.cpu_at_done is not None else self._tree.sample()
        return JobOutcome(
            end=ended.end, reason=ended.reason, detail=ended.detail, exit_code=code,
            setup_seconds=_round((seen.ready_at or self._clock.monotonic()) - seen.started),
            train_seconds=_round(finished - seen.ready_at) if finished is not None and seen.ready_at is not None else None,
            cpu_seconds=_round(cpu - seen.cpu_at_go) if seen.ready_at is not None else None,
            peak_memory_mb=_round(self._peak_mb()),
            steps=claims.count(seen.claims.get("steps")), tokens=claims.count(seen.claims.get("tokens")),
            checkpoint_sha256=self._checkpoint.sha256 if ended.end is JobEnd.OK else None,
            claims={claims.text(k, 40): claims.claim(v) for k, v in list(seen.claims.items())[:20]},
            printed_metric=printed.read_printed(log, self._rules.metric.name), conditions=self._watch.conditions(self._tree.sample()), survivors=self._tree.survivors,
        )  # fmt: skip


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
