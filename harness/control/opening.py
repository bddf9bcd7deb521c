"""Starts or resumes a study: every check before the first change, then locks, journal, recovery, and the `Night` that the loop runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.artifacts import durable, provenance
from harness.artifacts import study as fold
from harness.artifacts.events import Resumed, Stopped, StudyStarted, Warned
from harness.artifacts.journal import Journal, Position
from harness.artifacts.provenance import FixedFiles
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import TAG, StudyDir
from harness.control import budget, recovery
from harness.control.budget import Limits
from harness.control.desk import Desk
from harness.control.loop import run_study
from harness.control.night import Night
from harness.control.readings import Bench
from harness.control.recorder import Observer, Recorder
from harness.control.steering import Steering, stored_rules
from harness.errors import (
    BranchMoved,
    DataMissing,
    InfrastructureFault,
    ProposalRefused,
    RatchetError,
    StudyExists,
    StudyUnknown,
    UserFault,
)
from harness.evaluation import guard
from harness.evaluation.evaluator import Evaluator
from harness.execution import device as devices
from harness.execution.clock import Clock, SystemClock, utc
from harness.execution.device import Device, Lock
from harness.execution.process import adopt_orphans
from harness.execution.signals import Interrupts
from harness.execution.workplace import resolve_command
from harness.graph.ratchet import Ratchet
from harness.proposers import registry
from harness.rules import Rules, load
from harness.trial import DataFacts, Stop


@dataclass(frozen=True)
class Wishes:
    """What the command line says: where and how much, never what counts as better."""

    project: Path
    tag: str
    program: Path
    proposer: str = "search"
    options: Mapping[str, str] = field(default_factory=dict)
    trials: int | None = None
    hours: float | None = None
    deadline: str | None = None
    commit: bool = False


@dataclass
class Company:
    """Who watches and who may interrupt; a test brings its own."""

    observe: Observer
    on_point: Callable[[dict[str, Any]], None]
    interrupts: Interrupts = field(default_factory=Interrupts)
    clock: Clock = field(default_factory=SystemClock)


def start(wishes: Wishes, company: Company) -> Stop:
    """A new study, run to its end. Raises `UserFault` with nothing changed when something is not as it must be."""
    folder = StudyDir(wishes.project.resolve(), wishes.tag)
    if not TAG.fullmatch(wishes.tag):
        raise UserFault(f"--tag {wishes.tag!r}: use letters, digits, '.', '_' and '-', at most 64")
    _must_be_new(folder)
    rules = load(wishes.program)
    registry.make(wishes.proposer, dict(wishes.options))
    resolve_command(rules)
    device = devices.find(rules.run.device)
    ratchet = Ratchet(folder.project, wishes.tag, folder.index)
    ratchet.check_free(left_over=folder.path.exists())
    data = describe(folder.project, rules)
    needed = [*rules.scope.editable, "prepare.py"]
    if wishes.commit:
        ratchet.commit_working_files(needed, f"chore: baseline of study {wishes.tag}")
    head = ratchet.baseline(needed)
    _examine(ratchet, head, rules)
    with _locks(folder, device), _all_or_nothing(folder, ratchet, head):
        _must_be_new(folder)
        durable.replace(folder.prepare, ratchet.text_at(head, "prepare.py").encode())
        durable.replace(folder.program, wishes.program.read_bytes())
        ratchet.open_branch(head)
        allowed = budget.limits(rules, company.clock.now(), wishes.trials, wishes.hours, wishes.deadline)
        event = StudyStarted(
            tag=wishes.tag, program=str(wishes.program.resolve()), rules_digest=rules.digest, metric=rules.metric.name, direction=rules.metric.direction,
            baseline_commit=head, branch=ratchet.branch, prepare_sha256=provenance.sha256(folder.prepare), proposer=wishes.proposer,
            proposer_options=dict(wishes.options), limits=allowed.model_dump(mode="json"), data=data,
            environment=provenance.environment(device.name, ratchet.version()),
        )  # fmt: skip
        with _recorder(folder, Study(), Position(), company) as recorder:
            recorder.emit(event)
            return _run(recorder, ratchet, Steering(wishes.program.resolve(), recorder, rules), device, company)


def resume(
    project: Path, tag: str, company: Company, trials: int | None = None, hours: float | None = None, deadline: str | None = None
) -> Stop:
    """Go on where the journal ends, whatever ended it."""
    folder = StudyDir(project.resolve(), tag)
    if not folder.journal.exists():
        raise StudyUnknown(f"no study {tag!r} in {folder.project / 'runs'}; `ratchet run --tag {tag}` starts one")
    with Lock(folder.lock, f"the study {tag}"):
        study, end = fold.replay(folder.journal)
        if study.started is None:
            raise StudyUnknown(f"the journal of {tag!r} is empty; start it with `ratchet run --tag {tag}`")
        rules = stored_rules(folder.program, Path(study.started.program))
        resolve_command(rules)
        device = devices.find(rules.run.device)
        ratchet = Ratchet(folder.project, tag, folder.index)
        now = company.clock.now()
        with _device_lock(device), _recorder(folder, study, end, company) as recorder:
            recovery.recover(recorder, ratchet)
            steering = Steering(Path(study.started.program), recorder, rules)
            rules, old = steering.reread(now), steering.limits  # an edit made meanwhile comes first: a flag is the person's latest word
            new = budget.limits(rules, now, trials, hours, deadline)
            allowed = Limits(
                trials=trials or old.trials, hours=hours or old.hours, deadline=new.deadline if deadline or _past(old, now) else old.deadline
            )  # fmt: skip
            recorder.emit(Resumed(pid=os.getpid(), limits=allowed.model_dump(mode="json")))
            return _run(recorder, ratchet, steering, device, company)


def _must_be_new(folder: StudyDir) -> None:
    """A journal without a whole first event is what a killed start leaves: no study yet."""
    if folder.journal.exists() and fold.replay(folder.journal)[0].started is not None:
        raise StudyExists(
            f"a study {folder.tag!r} exists in {folder.path}; `ratchet resume --tag {folder.tag}` goes on, or choose another --tag"
        )


@contextmanager
def _all_or_nothing(folder: StudyDir, ratchet: Ratchet, head: str) -> Iterator[None]:
    """A start that fails before its first event is durable leaves no folder and no branch. Only under the study's lock."""
    fresh = [path.name for path in folder.path.iterdir()] == [folder.lock.name]
    try:
        yield
    except RatchetError:
        if fresh and not (folder.journal.exists() and fold.replay(folder.journal)[0].started):
            ratchet.close_branch(head)
            shutil.rmtree(folder.path, ignore_errors=True)
            with suppress(OSError):
                folder.path.parent.rmdir()
        raise


def _examine(ratchet: Ratchet, head: str, rules: Rules) -> None:
    """The baseline must pass what every proposal has to, or no proposal ever could."""
    for name in rules.scope.editable:
        try:
            guard.examine(name, ratchet.text_at(head, name), rules.scope)
        except (ProposalRefused, UnicodeDecodeError) as problem:
            raise UserFault(f"{name} as committed cannot be a baseline: {problem}") from None


def describe(project: Path, rules: Rules) -> DataFacts:
    """Ask prepare.py what data there is; raises `DataMissing` with its own sentence."""
    command = [sys.executable, "prepare.py", "describe", "--profile", rules.trial.profile]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, env=environment, start_new_session=True)
    said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
    if done.returncode != 0:
        raise DataMissing(f"{said} (run `python prepare.py` first)" if "prepare.py" not in said else said)
    try:
        facts = DataFacts.model_validate_json(done.stdout)
    except ValidationError as error:
        raise DataMissing(f"`prepare.py describe` printed no usable description: {error.errors()[0]['msg']}") from None
    if facts.metric != rules.metric.name:
        raise UserFault(f"[metric] name is {rules.metric.name!r}, but prepare.py measures {facts.metric!r}; correct program.md")
    return facts


def _run(recorder: Recorder, ratchet: Ratchet, steering: Steering, device: Device, company: Company) -> Stop:
    """The loop with its real ports; how it ended is the journal's last word, also when the machine or a moved branch ended it."""
    started, folder, interrupted = recorder.study.started, recorder.folder, company.interrupts.reason
    assert started is not None, "a night begins with study_started"
    adopt_orphans()
    bench = Bench(
        recorder, FixedFiles(folder.prepare, started.prepare_sha256, started.data), device, company.clock, Path(started.data.train),
        Evaluator(started.data, device, company.clock, interrupted), interrupted, company.on_point,
    )  # fmt: skip
    desk = Desk(recorder, ratchet, registry.make(started.proposer, started.proposer_options))
    night = Night(recorder, steering, ratchet, bench, desk, company.clock, company.interrupts)
    folder.stop_request.unlink(missing_ok=True)
    with durable.disk_faults():
        try:
            stop = run_study(night)
        except (InfrastructureFault, BranchMoved) as fault:
            recorder.emit(
                Stopped(
                    stop=Stop(
                        reason="infrastructure" if isinstance(fault, InfrastructureFault) else "branch_moved",
                        sentence=str(fault),
                        exit_code=fault.exit_code,
                    )
                )
            )
            raise
        recorder.emit(Stopped(stop=stop))
    return stop


@contextmanager
def _locks(folder: StudyDir, device: Device) -> Iterator[None]:
    with _device_lock(device), Lock(folder.lock, f"the study {folder.tag}"):
        yield


def _device_lock(device: Device) -> Lock:
    return Lock(devices.lock_folder() / f"{device.lock_name}.lock", f"the device {device.lock_name}")


@contextmanager
def _recorder(folder: StudyDir, study: Study, end: Position, company: Company) -> Iterator[Recorder]:
    clock = company.clock
    base, began = study.elapsed, clock.monotonic()
    log = Journal(folder.journal, end, now=lambda: utc(clock.now()), elapsed=lambda: base + clock.monotonic() - began)
    aside = log.repair()
    recorder = Recorder(folder, log, study, company.observe)
    try:
        if aside is not None:
            recorder.emit(Warned(code="journal", message=f"a torn last line, as a crash leaves it, was moved to {aside}"))
        yield recorder
    finally:
        recorder.close()


def _past(old: Limits, now: datetime) -> bool:
    return old.deadline is not None and old.deadline <= now
