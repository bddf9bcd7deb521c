"""program.md is read again before every trial: a valid edit takes effect and is journalled, a broken one keeps the last valid rules and says so."""

from __future__ import annotations

import difflib
import hashlib
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from harness import program_file
from harness.artifacts import durable
from harness.artifacts.events import RulesChanged, Warned
from harness.artifacts.trial_dir import StudyDir
from harness.control import limits, lint
from harness.control.limits import Limits
from harness.control.lint import Surroundings
from harness.control.recorder import Recorder
from harness.control.wishes import Finding
from harness.errors import InfrastructureFault, RulesInvalid, UserFault
from harness.execution.workplace import resolve_command
from harness.proposers import registry
from harness.rules import Rules, load, read

DIFF_LINES = 2000  # difflib takes seconds for more
DIFF_CHARACTERS = 16_000


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
            raw = program_file.contents(self._program)
        except RulesInvalid as error:
            self._complain(str(error), f"{error}; the last valid rules stay in force")
            return self.rules
        except OSError as error:
            self._complain(f"missing:{error.errno}", f"{self._program}: {error.strerror}; the last valid rules stay in force")
            return self.rules
        digest, study = hashlib.sha256(raw).hexdigest(), self._recorder.study
        if digest == self._seen and not (study.inbox.complaint and digest == study.rules_digest):
            return self.rules
        try:
            new = read(raw, self._program)
            self._must_not_change(new)
            resolve_command(new)
            registry.check_reviews(new, self._amended(new, now).given())
        except (UserFault, InfrastructureFault) as error:  # not `digest`: a flag or an installation may make it valid
            self._complain(f"refused:{digest}", f"{error}; the last valid rules stay in force")
            return self.rules
        self._seen = digest
        if digest != study.rules_digest:
            self._adopt(new, raw, now)
        elif study.inbox.complaint:
            self._recorder.emit(RulesChanged(digest=digest, diff=""))
        self.rules = new
        return new

    def _adopt(self, new: Rules, raw: bytes, now: datetime) -> None:
        stored = self._recorder.folder.program
        stored_bytes = stored.read_bytes() if stored.exists() else b""
        diff = difference(_lines(stored_bytes), _lines(raw))
        amended, self.flags = self._amended(new, now), {}
        allowed = amended.model_dump(mode="json") if amended != self.limits else None
        after, known = doubts(raw, new, now), self._recorder.study.warnings
        for said in lint.new(doubts(stored_bytes, self.rules, now) if stored_bytes else (), after):
            if f"lint: {said}" not in known:
                self._recorder.emit(Warned(code="lint", message=said))  # first: a kill after it says it once, one before it loses nothing
        adopted = self._recorder.folder.adopted(new.digest)
        adopted.parent.mkdir(exist_ok=True)
        durable.replace(adopted, raw)
        durable.crash_point("rules_stored")
        self._recorder.emit(RulesChanged(digest=new.digest, diff=diff[:DIFF_CHARACTERS], limits=allowed, over=lint.over(known, after)))
        durable.replace(stored, raw)

    def _amended(self, new: Rules, now: datetime) -> Limits:
        said = {name: value for name, value in self.flags.items() if value is not None}
        return limits.amended(self.limits, self.rules.stop, new.stop, now).model_copy(update=said)

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
            self._recorder.emit(Warned(code="rules", message=message.replace(f"{self._program.parent}/", "")))


def roll_forward(folder: StudyDir, digest: str) -> None:
    """After a kill: the study's program.md is the text that the journal calls in force, never one that it does not know yet."""
    adopted = folder.adopted(digest)
    if adopted.exists() and (raw := adopted.read_bytes()) != (folder.program.read_bytes() if folder.program.exists() else b""):
        durable.replace(folder.program, raw)


def doubts(raw: bytes, rules: Rules, now: datetime) -> tuple[Finding, ...]:
    """What the program.md of these bytes may not mean, here and now."""
    return lint.warnings(raw.decode("utf-8-sig"), rules, Surroundings(environ=frozenset(os.environ), now=now))


def stored_rules(path: Path, fallback: Path) -> Rules:
    """The last valid rules of a study, from its own copy."""
    return load(path if path.exists() else fallback)


def difference(old: list[str], new: list[str]) -> str:
    """A unified diff, made in no time: of long texts only from the first to the last line that differs, and of too many such lines only their number."""
    if max(len(old), len(new)) <= DIFF_LINES:
        return "\n".join(difflib.unified_diff(old, new, "before", "after", lineterm=""))
    head = next((n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new)))
    tail = next((n for n, (one, other) in enumerate(zip(old[:head:-1], new[:head:-1], strict=False)) if one != other), 0)
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if max(len(old), len(new)) > DIFF_LINES:
        return f"from line {head + 1} on {len(old):,} lines became {len(new):,}"
    return "\n".join(difflib.unified_diff(old, new, f"before, from line {head + 1}", f"after, from line {head + 1}", lineterm=""))


def _lines(raw: bytes) -> list[str]:
    return raw.decode("utf-8-sig").splitlines()
