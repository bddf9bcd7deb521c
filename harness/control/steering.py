"""program.md is read again before every trial: a valid edit takes effect and is journalled, a broken one keeps the last valid rules and says so."""

from __future__ import annotations

import difflib
import hashlib
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.artifacts import durable
from harness.artifacts.events import RulesChanged, Warned
from harness.control import limits
from harness.control.limits import Limits
from harness.control.recorder import Recorder
from harness.errors import InfrastructureFault, RulesInvalid
from harness.execution.workplace import resolve_command
from harness.rules import Rules, load, read


class Steering:
    """The rules in force. `flags` are amounts given on the command line after the file was edited: they outlive its next adoption."""

    def __init__(self, program: Path, recorder: Recorder, rules: Rules) -> None:
        self._program, self._recorder = program, recorder
        self.rules = rules
        self.flags: dict[str, Any] = {}
        self._seen = rules.digest if rules.digest == recorder.study.rules_digest else ""

    @property
    def limits(self) -> Limits:
        """How much may be done, as the journal has it."""
        return Limits.model_validate(self._recorder.study.limits)

    def reread(self, now: datetime) -> Rules:
        """The rules for the next trial."""
        try:
            raw = self._program.read_bytes()
        except OSError as error:
            self._complain(f"missing:{error.errno}", f"{self._program}: {error.strerror}; the last valid rules stay in force")
            return self.rules
        digest = hashlib.sha256(raw).hexdigest()
        if digest == self._seen:
            return self.rules
        try:
            new = read(raw, self._program)
            self._must_not_change(new)
            resolve_command(new)
        except (RulesInvalid, InfrastructureFault) as error:
            self._complain(digest, f"{error}; the last valid rules stay in force")
            return self.rules
        self._seen = digest
        if digest != self._recorder.study.rules_digest:
            self._adopt(new, raw, now)
        self.rules = new
        return new

    def _adopt(self, new: Rules, raw: bytes, now: datetime) -> None:
        stored = self._recorder.folder.program
        old = _lines(stored.read_bytes()) if stored.exists() else []
        diff = "\n".join(difflib.unified_diff(old, _lines(raw), "before", "after", lineterm=""))
        flags, self.flags = {name: value for name, value in self.flags.items() if value is not None}, {}
        amended = limits.amended(self.limits, self.rules.stop, new.stop, now).model_copy(update=flags)
        allowed = amended.model_dump(mode="json") if amended != self.limits else None
        durable.replace(stored, raw)
        self._recorder.emit(RulesChanged(digest=new.digest, diff=diff[:16_000], limits=allowed))

    def _must_not_change(self, new: Rules) -> None:
        """A study compares its trials with one another: what is measured, on what, and in which file stays."""
        old = self.rules
        fixed = (
            ("[metric] name", old.metric.name, new.metric.name),
            ("[metric] direction", old.metric.direction, new.metric.direction),
            ("[trial] profile", old.trial.profile, new.trial.profile),
            ("[trial] clock", old.trial.clock, new.trial.clock),
            ("[trial] amount", old.trial.amount, new.trial.amount),
            ("[scope] editable", old.scope.editable, new.scope.editable),
            ("[run] threads", old.run.threads, new.run.threads),
            ("[run] device", old.run.device, new.run.device),
            ("[sandbox] level", old.sandbox.level, new.sandbox.level),
            ("[sandbox] scratch_mb", old.sandbox.scratch_mb, new.sandbox.scratch_mb),
            ("[sandbox] pids", old.sandbox.pids, new.sandbox.pids),
            ("whether [audit] has positions", old.audit.positions > 0, new.audit.positions > 0),
        )
        for name, before, after in fixed:
            if before != after:
                raise RulesInvalid(
                    f"{self._program}: {name} cannot change within a study ({before!r} to {after!r}); start a new --tag for that"
                )

    def _complain(self, seen: str, message: str) -> None:
        if seen != self._seen:
            self._seen = seen
            self._recorder.emit(Warned(code="rules", message=message))


def stored_rules(path: Path, fallback: Path) -> Rules:
    """The last valid rules of a study, from its own copy."""
    return load(path if path.exists() else fallback)


def _lines(raw: bytes) -> list[str]:
    return raw.decode("utf-8-sig").splitlines()
