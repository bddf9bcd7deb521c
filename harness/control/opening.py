"""Starts or resumes a study: every check before the first change, then locks, journal, recovery, and the `Night` that the loop runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.artifacts import durable, provenance
from harness.artifacts import study as fold
from harness.artifacts.events import Resumed, Stopped, StudyStarted, Warned
from harness.artifacts.journal import Journal, Position
from harness.artifacts.provenance import FixedFiles
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.conditions import DeviceState, at_the_beginning
from harness.control import budget, limits, lint, recovery
from harness.control.admission import Admission
from harness.control.advising import Advising
from harness.control.company import Company as Company
from harness.control.company import Wishes as Wishes
from harness.control.desk import Desk
from harness.control.findings import Findings
from harness.control.inbox import Inbox
from harness.control.ladder import Ladder
from harness.control.loop import run_study
from harness.control.meter import NightMeter
from harness.control.night import Night
from harness.control.overseer import Overseer
from harness.control.preconditions import cage, check_deadline, check_tag, describe, examine, must_be_new
from harness.control.readings import Bench
from harness.control.recorder import Recorder
from harness.control.repairing import Repairing
from harness.control.reviewing import Reviewing
from harness.control.steering import Steering, doubts, roll_forward, stored_rules
from harness.control.watching import Watching
from harness.errors import BranchMoved, InfrastructureFault, RatchetError, StudyUnknown
from harness.evaluation.evaluator import Evaluator
from harness.execution import device as devices
from harness.execution import hygiene
from harness.execution.device import Device, Lock
from harness.execution.process import adopt_orphans
from harness.execution.sandbox.box import Sandbox
from harness.execution.workplace import needed_files, resolve_command
from harness.graph import plumbing
from harness.graph.ratchet import Ratchet
from harness.moments import utc
from harness.proposers import registry
from harness.rules import contents, read
from harness.trial import Stop

AMOUNTS = ("trials", "hours", "deadline", "dollars")


def start(wishes: Wishes, company: Company) -> Stop:
    """A new study, run to its end. Raises `UserFault` with nothing changed when something is not as it must be."""
    folder = StudyDir(wishes.project.resolve(), wishes.tag)
    check_tag(wishes.tag)
    must_be_new(folder)
    raw = contents(wishes.program)  # read once: an edit made during the start is the first one of the study
    rules = read(raw, wishes.program)
    proposer = registry.named(rules, wishes.proposer)
    amounts = {name: getattr(wishes, name) for name in AMOUNTS}
    allowed = limits.at_start(rules, company.clock.now(), amounts)
    registry.check(proposer, wishes.options, rules, allowed.given())
    warnings = registry.preflight(proposer, rules, company.interrupts.reason)
    resolve_command(rules)
    device = devices.find(rules.run.device)
    ratchet = Ratchet(folder.project, wishes.tag, folder.index)
    ratchet.check_free(left_over=folder.path.exists())
    data = describe(folder.project, rules)
    box = cage(folder.project, rules, device, data).sandbox
    needed = [*needed_files(rules), "prepare.py"]
    head = None if wishes.commit else ratchet.baseline(needed)
    examine({name: ratchet.text_at(head, name) for name in needed} if head else ratchet.working_texts(needed), rules)
    with _locks(folder, device), _all_or_nothing(folder, ratchet):
        must_be_new(folder)
        if wishes.commit:
            ratchet.commit_working_files(needed, f"chore: baseline of study {wishes.tag}")
        head = ratchet.baseline(needed)
        durable.replace(folder.prepare, ratchet.text_at(head, "prepare.py").encode())
        durable.replace(folder.program, raw)
        options = registry.keep(proposer, wishes.options, folder.edits)
        ratchet.open_branch(head)
        allowed = limits.at_start(rules, company.clock.now(), amounts)
        event = StudyStarted(
            tag=wishes.tag, program=str(wishes.program.absolute()), rules_digest=rules.digest, metric=rules.metric.name, direction=rules.metric.direction,
            baseline_commit=head, branch=ratchet.branch, prepare_sha256=provenance.sha256(folder.prepare), proposer=proposer,
            proposer_options=options, proposer_by_rules=wishes.proposer in (None, registry.MIX), limits=allowed.model_dump(mode="json"), data=data,
            environment=provenance.environment(device.name, plumbing.version()), sandbox=box.level, sandbox_open=box.missing,
            device_state=device.look(hygiene.ours), editable=rules.scope.editable,
        )  # fmt: skip
        with _recorder(folder, Study(), Position(), company) as recorder:
            recorder.emit(event)
            said = lint.new((), doubts(raw, rules, company.clock.now()))
            _forewarn(recorder, proposer=warnings, device=at_the_beginning(event.device_state), lint=said)
            return _run(recorder, ratchet, Steering(wishes.program.absolute(), recorder, rules), device, company, box, event.device_state)


def resume(
    project: Path, tag: str, company: Company, trials: int | None = None, hours: float | None = None, deadline: str | None = None,
    dollars: float | None = None,
) -> Stop:  # fmt: skip
    """Go on where the journal ends, whatever ended it."""
    check_tag(tag)
    folder = StudyDir(project.resolve(), tag)
    if not folder.journal.exists():
        raise StudyUnknown(f"no study {tag!r} in {folder.project / 'runs'}; `ratchet run --tag {tag}` starts one")
    with Lock(folder.lock, f"the study {tag}"):
        study, end = fold.replay(folder.journal)
        if study.started is None:
            raise StudyUnknown(f"the journal of {tag!r} is empty; start it with `ratchet run --tag {tag}`")
        roll_forward(folder, study.rules_digest)
        rules = stored_rules(folder.program, Path(study.started.program))
        resolve_command(rules)
        device = devices.find(rules.run.device)
        devices.must_be_like(device, study.started.environment.device)
        box = cage(folder.project, rules, device, study.started.data).sandbox
        ratchet = Ratchet(folder.project, tag, folder.index)
        now, unseen = company.clock.now(), recovery.unseen_seconds(folder, study, rules)
        with _device_lock(device), _recorder(folder, study, end, company, unseen) as recorder:
            recovery.recover(recorder, ratchet)
            steering = Steering(Path(study.started.program), recorder, rules)
            if study.current is None:  # an open trial is finished under the rules it began with
                rules = steering.reread(now)
            name = registry.named(steering.rules) if study.started.proposer_by_rules else study.started.proposer
            old = steering.limits  # an edit made meanwhile comes first: a flag is the person's latest word
            check_deadline(old, now, deadline)
            flags = {"trials": trials, "hours": hours, "deadline": deadline, "dollars": dollars}
            new = limits.at_start(rules, now, flags)
            steering.flags = {name: getattr(new, name) if said is not None else None for name, said in flags.items()}
            allowed = old.model_copy(update={name: value for name, value in steering.flags.items() if value is not None})
            registry.check(name, study.started.proposer_options, steering.rules, allowed.given())
            registry.preflight(name, steering.rules, company.interrupts.reason)
            same = study.started.device_state if study.started.environment.device == device.name else None
            began = hygiene.taken_up(device, same, company.clock, company.interrupts.reason)
            recorder.emit(Resumed(pid=os.getpid(), limits=allowed.model_dump(mode="json"), device_state=began))
            _compare(recorder, device, box)
            return _run(recorder, ratchet, steering, device, company, box, began)


@contextmanager
def _all_or_nothing(folder: StudyDir, ratchet: Ratchet) -> Iterator[None]:
    """A start that fails before its first event is durable leaves no folder and no branch. Only under the study's lock."""
    fresh = [path.name for path in folder.path.iterdir()] == [folder.lock.name]
    try:
        yield
    except RatchetError:
        if fresh and not (folder.journal.exists() and fold.replay(folder.journal)[0].started):
            ratchet.close_branch()
            shutil.rmtree(folder.path, ignore_errors=True)
            with suppress(OSError):
                folder.path.parent.rmdir()
        raise


def _forewarn(recorder: Recorder, **said: Sequence[str]) -> None:
    """What the person should know of a start, by what it is about."""
    for code, warnings in said.items():
        for warning in warnings:
            recorder.emit(Warned(code=code, message=warning))


def _compare(recorder: Recorder, device: Device, box: Sandbox) -> None:
    """A study that goes on behind other walls, on another device or with another harness says so."""
    started = recorder.study.started
    assert started is not None, "read before it is taken up"
    pairs = (
        ("sandbox", "at sandbox level", started.sandbox, box.level),
        ("device", "on", started.environment.device, device.name),
        ("harness", "with the harness of digest", started.environment.harness_sha256[:12], provenance.harness_sha256()[:12]),
    )
    for code, how, before, now in pairs:
        if before and before != now:
            recorder.emit(Warned(code=code, message=f"the study began {how} {before!r} and goes on {how} {now!r}"))


def _run(
    recorder: Recorder, ratchet: Ratchet, steering: Steering, device: Device, company: Company, box: Sandbox, began: DeviceState | None
) -> Stop:  # fmt: skip
    """The loop with its real ports; how it ended is the journal's last word, also when the machine or a moved branch ended it."""
    started, folder, interrupted = recorder.study.started, recorder.folder, company.interrupts.reason
    assert started is not None, "a night begins with study_started"
    adopt_orphans()
    bench = Bench(
        recorder, FixedFiles(folder.prepare, started.prepare_sha256, started.data), device, company.clock, Path(started.data.train),
        Evaluator(started.data, device, company.clock, interrupted, box, began), interrupted, company.on_point, box, began,
        lambda: budget.left(recorder.study, steering.limits, steering.rules, company.clock.now()).seconds,
    )  # fmt: skip
    inbox = Inbox(recorder, company.clock)
    meter = NightMeter(recorder, lambda: steering.limits, lambda: steering.rules, company.clock)
    reviewing = Reviewing(recorder, inbox, meter, ratchet.text_at, interrupted, company.clock)
    overseer = Overseer(
        inbox,
        Repairing(recorder, inbox, ratchet.text_at),
        Findings(recorder, inbox),
        Ladder(recorder, inbox, Advising(recorder, meter, ratchet.text_at, lambda: steering.limits, interrupted, company.clock).overlooked),
        reviewing,
        Watching(recorder),
    )
    desk = Desk(recorder, ratchet, steering, Admission(lambda: recorder.study, ratchet), overseer, company.clock, interrupted, meter)
    night = Night(recorder, steering, ratchet, bench, desk, overseer, company.clock, company.interrupts)
    folder.stop_request.unlink(missing_ok=True)
    with durable.disk_faults():
        inbox.open(steering.rules)
        try:
            stop = run_study(night)
        except (InfrastructureFault, BranchMoved) as fault:
            reason = "infrastructure" if isinstance(fault, InfrastructureFault) else "branch_moved"
            _ended(recorder, inbox, steering, Stop(reason=reason, sentence=str(fault), exit_code=fault.exit_code))
            raise
        else:
            _ended(recorder, inbox, steering, stop)
        finally:
            inbox.close()
    return stop


def _ended(recorder: Recorder, inbox: Inbox, steering: Steering, stop: Stop) -> None:
    """How it ended is durable before anybody is told of it."""
    recorder.emit(Stopped(stop=stop))
    inbox.farewell(steering.rules, stop)


@contextmanager
def _locks(folder: StudyDir, device: Device) -> Iterator[None]:
    with _device_lock(device), Lock(folder.lock, f"the study {folder.tag}"):
        yield


def _device_lock(device: Device) -> Lock:
    return Lock(devices.lock_path(device), f"the device {device.lock_name}")


@contextmanager
def _recorder(folder: StudyDir, study: Study, end: Position, company: Company, unseen: float = 0.0) -> Iterator[Recorder]:
    clock = company.clock
    base, began = study.elapsed + unseen, clock.monotonic()
    log = Journal(folder.journal, end, now=lambda: utc(clock.now()), elapsed=lambda: base + clock.monotonic() - began)
    aside = log.repair()
    recorder = Recorder(folder, log, study, company.observe)
    try:
        if aside is not None:
            recorder.emit(Warned(code="journal", message=f"a torn last line, as a crash leaves it, was moved to {aside}"))
        yield recorder
    finally:
        recorder.close()
