"""A reading has its device to itself: real jobs and whole studies, with strangers, lost devices and slow clocks from a fake driver."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pynvml
import pytest

from harness.artifacts.events import Event, Interrupted, Resumed, StudyStarted, Warned
from harness.artifacts.study import Study
from harness.conditions import DeviceState
from harness.control.examination import examine
from harness.errors import DeviceLost, InfrastructureFault, Locked
from harness.execution import device as devices
from harness.execution import gpu as gpus
from harness.execution import hygiene
from harness.execution.clock import SystemClock
from harness.execution.device import Cpu, Device, Lock
from harness.execution.gpu import Gpu
from harness.execution.hygiene import Watch, ours, wait_until_free
from harness.execution.job import Job
from harness.execution.process import adopt_orphans
from harness.trial import JobEnd, JobOutcome, Status
from harness.views import doctor, report, show
from tests.jobs import OPEN, SAVE, SETUP, rules, spec, stub
from tests.nvml_fake import MIB, UUID, FakeNvml, Held, stranger
from tests.projects import Seen, edits_file, folder_of, resume_study, run_study, study_of
from tests.test_job import survivors

Make = Callable[..., Path]
LONG = SETUP + OPEN + "prepare.record(step=1)\ntime.sleep(30)\n"
SHORT = SETUP + OPEN + "time.sleep(0.8)\nprepare.record(step=1)\n" + SAVE


@pytest.fixture(autouse=True)
def _first_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process numbers compare, wherever these tests run."""
    monkeypatch.setattr(gpus, "_first_namespace", lambda: True)


def run(
    folder: Path, text: str, nvml: FakeNvml, probe: Callable[[], str] = str, began: DeviceState | None = None, **heard: Any
) -> JobOutcome:
    """One job on a GPU of a fake driver."""
    adopt_orphans()
    job_spec = spec(folder, text)
    job_spec = type(job_spec)(**{**vars(job_spec), "began": began})
    job_spec.folder.create()
    job = Job(job_spec, rules(), Gpu(nvml, probe=probe), SystemClock(), heard.get("on_point", lambda point: None), str)
    job.start()
    outcome = job.watch()
    assert survivors(job_spec.marker) == []
    return outcome


def test_a_stranger_that_computes_during_a_job_ends_it_by_name_and_nobody_is_judged(tmp_path: Path) -> None:
    nvml = FakeNvml()
    outcome = run(tmp_path, LONG, nvml, on_point=lambda point: nvml.processes.append(stranger(8000)))
    assert (outcome.end, outcome.reason, outcome.checkpoint_sha256) == (JobEnd.INTERRUPTED, "device_shared", None)
    name = psutil.Process(os.getppid()).name()[:40]
    assert outcome.detail == f"process {os.getppid()} ({name}, 8000 MiB) computed on the device during the job"


def test_one_that_comes_during_set_up_is_seen_too(tmp_path: Path) -> None:
    nvml = FakeNvml()

    def come(question: str) -> None:
        nvml.processes = [stranger()] if question == "power" or nvml.processes else []

    nvml.on_question = come
    assert run(tmp_path, SETUP + "time.sleep(30)", nvml).reason == "device_shared"


@pytest.mark.parametrize(
    ("known", "change"),
    [
        ([stranger(400)], lambda nvml: None),
        ([], lambda nvml: nvml.drawing.append(stranger(900))),
        ([stranger(400)], lambda nvml: nvml.processes.clear()),
        ([], lambda nvml: nvml.processes.append(Held(2**22 + 1, MIB))),
    ],
    ids=["small and there before", "a desktop", "one that leaves", "already dead"],
)
def test_who_was_there_before_draws_leaves_or_is_dead_is_no_stranger(
    tmp_path: Path, known: list[Held], change: Callable[[FakeNvml], None]
) -> None:
    nvml = FakeNvml(processes=list(known))
    began = Gpu(nvml).look(ours)
    outcome = run(tmp_path, SHORT, nvml, began=began, on_point=lambda point: change(nvml))
    assert (outcome.end, outcome.detail) == (JobEnd.OK, "")


def test_a_stranger_of_a_single_look_is_a_child_of_ours_that_was_just_born(tmp_path: Path) -> None:
    nvml = FakeNvml()
    watch = Watch(Gpu(nvml), None)
    nvml.processes = [stranger()]
    assert watch.sample(os.getpid(), training=True) is None
    nvml.processes = []
    assert watch.sample(os.getpid(), training=True) is None
    nvml.processes = [stranger()]
    assert watch.sample(os.getpid(), training=True) is None
    fault = watch.sample(os.getpid(), training=True)
    assert fault is not None and fault[0] == "device_shared"


@pytest.mark.parametrize(
    "text", ["sys.exit('torch.OutOfMemoryError: CUDA out of memory')", "raise RuntimeError('boom')", "os.kill(os.getpid(), 9)"]
)
def test_a_job_that_fails_beside_a_stranger_is_not_to_blame(tmp_path: Path, text: str) -> None:
    """However late the stranger came: the last look is after the job's death."""
    nvml = FakeNvml()
    arrive = "prepare.record(step=1)\n"
    outcome = run(tmp_path, SETUP + OPEN + arrive + text, nvml, on_point=lambda point: nvml.processes.append(stranger()))
    assert (outcome.end, outcome.reason) == (JobEnd.INTERRUPTED, "device_shared")


def test_a_device_that_is_lost_during_a_job_ends_it_and_is_not_its_crash(tmp_path: Path) -> None:
    nvml = FakeNvml()
    outcome = run(tmp_path, LONG, nvml, on_point=lambda point: setattr(nvml, "error", pynvml.NVML_ERROR_GPU_IS_LOST))
    assert (outcome.end, outcome.reason) == (JobEnd.INTERRUPTED, "device_lost")
    assert "GPU is lost" in outcome.detail


@pytest.mark.parametrize(
    ("says", "end", "reason"),
    [
        ("cuInit says 999", JobEnd.INTERRUPTED, "device_lost"),
        ("cuInit says 304", JobEnd.INTERRUPTED, "device_lost"),
        ("", JobEnd.CRASH, "exit_code"),
    ],
)
def test_cuda_that_no_longer_starts_is_the_machines_and_a_log_that_says_so_proves_nothing(
    tmp_path: Path, says: str, end: JobEnd, reason: str
) -> None:
    text = SETUP + OPEN + "sys.exit('RuntimeError: CUDA driver initialization failed: cuInit returned 304, no CUDA GPUs are available')"
    outcome = run(tmp_path, text, FakeNvml(), probe=lambda: says)
    assert (outcome.end, outcome.reason) == (end, reason)
    assert says in outcome.detail


def test_a_job_that_ends_well_does_not_start_cuda_once_more(tmp_path: Path) -> None:
    assert run(tmp_path, stub(), FakeNvml(), probe=lambda: pytest.fail("asked")).end is JobEnd.OK


def test_the_record_has_the_device_before_and_after_and_its_clocks_in_training(tmp_path: Path) -> None:
    nvml = FakeNvml(clock=345)

    def work(point: dict[str, Any]) -> None:
        nvml.clock, nvml.reasons = 1410, pynvml.nvmlClocksEventReasonSwThermalSlowdown

    text = SETUP + OPEN + "prepare.record(step=1)\ntime.sleep(1.5)\n" + SAVE
    seen = run(tmp_path, text, nvml, on_point=work).conditions
    assert seen is not None and seen.before is not None and seen.after is not None
    assert (seen.before.sm_clock_mhz, seen.before.sm_clock_max_mhz, seen.before.power_limit_w) == (345, 1980, 700.0)
    assert (seen.after.sm_clock_mhz, seen.after.slowed_by) == (1410, ("software thermal slowdown",))
    assert seen.sm_clock_mhz is not None and 345 < seen.sm_clock_mhz <= 1410
    assert seen.slowed_share is not None and 0 < seen.slowed_share <= 1
    assert seen.slowed_by == ("software thermal slowdown",)


def test_clocks_of_the_set_up_are_not_those_of_the_training(tmp_path: Path) -> None:
    nvml = FakeNvml()
    watch = Watch(Gpu(nvml), None)
    nvml.clock = 300
    for _ in range(5):
        watch.sample(os.getpid(), training=False)
    nvml.clock = 1900
    for _ in range(5):
        watch.sample(os.getpid(), training=True)
    assert watch.conditions(0.0).sm_clock_mhz == 1900


def test_a_job_sees_the_device_that_is_locked_and_watched_and_no_other(tmp_path: Path) -> None:
    text = SETUP + f"assert os.environ['CUDA_VISIBLE_DEVICES'] == {UUID!r}\n" + OPEN + SAVE
    assert run(tmp_path, text, FakeNvml()).end is JobEnd.OK


def test_cpu_time_that_neither_job_nor_harness_used_is_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, harness = iter([(100.0, 400.0), (170.0, 500.0), (100.0, 400.0), (110.0, 500.0)]), iter([5.0, 15.0, 5.0, 6.0])
    monkeypatch.setattr(hygiene, "_machine_seconds", lambda: next(machine))
    monkeypatch.setattr(hygiene, "_harness_seconds", lambda: next(harness))
    assert Watch(Cpu(), None).conditions(our_cpu_seconds=20.0).other_cpu_share == 0.4
    assert Watch(Cpu(), None).conditions(our_cpu_seconds=20.0).other_cpu_share == 0.0, "ticks may be counted late: never below nothing"
    monkeypatch.setattr(hygiene, "_harness_seconds", lambda: 0.0)
    monkeypatch.setattr(hygiene, "_machine_seconds", lambda: (1.0, 1.0))
    assert Watch(Cpu(), None).conditions(0.0).other_cpu_share is None, "no time passed"


def test_on_a_cpu_the_others_share_is_all_there_is(tmp_path: Path) -> None:
    adopt_orphans()
    job_spec = spec(tmp_path, SHORT)
    job_spec.folder.create()
    job = Job(job_spec, rules(), Cpu(), SystemClock(), lambda point: None, str)
    job.start()
    seen = job.watch().conditions
    assert seen is not None and seen.other_cpu_share is not None
    assert 0 <= seen.other_cpu_share <= 1
    assert seen.model_dump(exclude={"other_cpu_share"}, exclude_defaults=True) == {}


@dataclass
class Waiting(SystemClock):
    """A clock that only sleeping moves, and what happens while it sleeps."""

    now_s: float = 0.0
    meanwhile: Callable[[float], None] = field(default=lambda now: None)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.meanwhile(self.now_s)


def test_memory_of_an_earlier_job_is_waited_for(tmp_path: Path) -> None:
    nvml = FakeNvml(used_mb=600.0)
    gpu, began = Gpu(nvml), Gpu(nvml).look(ours)
    nvml.used_mb = 40_600.0
    clock = Waiting(meanwhile=lambda now: setattr(nvml, "used_mb", 620.0 if now >= 30 else 40_600.0))
    assert wait_until_free(gpu, began, clock, str)
    assert clock.now_s == 30


def test_memory_that_does_not_come_back_stops_the_night_after_a_minute(tmp_path: Path) -> None:
    nvml, clock = FakeNvml(used_mb=600.0), Waiting()
    gpu, began = Gpu(nvml), Gpu(nvml).look(ours)
    nvml.used_mb = 40_600.0
    with pytest.raises(
        InfrastructureFault, match="40000 MiB of cuda: NVIDIA H200 more than at the start of the study are in use 60 s after"
    ) as told:
        wait_until_free(gpu, began, clock, str)
    assert (told.value.exit_code, clock.now_s) == (75, 60)


def test_a_device_somebody_computes_on_is_waited_for_and_then_named(tmp_path: Path) -> None:
    nvml = FakeNvml()
    gpu, began = Gpu(nvml), Gpu(nvml).look(ours)
    nvml.processes = [stranger()]
    nvml.used_mb = 8600.0
    with pytest.raises(
        InfrastructureFault, match=rf"process {os.getppid()} \(.*8000 MiB\) computes on cuda: NVIDIA H200; no trial may share it"
    ):
        wait_until_free(gpu, began, Waiting(), str)

    def leave(now: float) -> None:
        nvml.processes, nvml.used_mb = [], 600.0

    leaving = Waiting(meanwhile=leave)
    assert wait_until_free(gpu, began, leaving, str)
    assert leaving.now_s == hygiene.PAUSE_SECONDS


def test_waiting_is_interrupted_like_everything_else_and_a_cpu_is_always_free() -> None:
    nvml = FakeNvml(processes=[stranger()])
    assert not wait_until_free(Gpu(nvml), None, Waiting(), lambda: "SIGINT")
    assert wait_until_free(Cpu(), None, Waiting(), lambda: "SIGINT")
    with pytest.raises(DeviceLost):
        wait_until_free(Gpu(FakeNvml(error=pynvml.NVML_ERROR_GPU_IS_LOST)), None, Waiting(), str)


OUTSIDE = '[sandbox]\nlevel = "none"\n[keep]\nbaseline_readings = 1'


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """The driver that every study of a test finds; nothing is waited for."""
    found = FakeNvml()
    monkeypatch.setattr(devices, "find", lambda wanted: Gpu(found, probe=str))
    monkeypatch.setattr(hygiene, "WAIT_SECONDS", 0.0)
    return found


def while_training(nvml: FakeNvml, trials: set[int], times: int) -> Callable[[Any, Study], None]:
    """A stranger that computes during the first `times` trainings of these trials, and at no other time."""
    count: dict[int, int] = {}

    def follow(entry: Any, study: Study) -> None:
        event = entry.event
        nvml.processes = []
        if event.kind == "launched" and event.trial in trials:
            count[event.trial] = count.get(event.trial, 0) + 1
            nvml.processes = [stranger()] if count[event.trial] <= times else []

    return follow


def cuts(events: list[Event]) -> list[tuple[int, str, bool]]:
    return [(event.trial, event.reason, event.charged) for event in events if isinstance(event, Interrupted)]


SLOW_ENOUGH = {"MODE": "slow", "SECONDS": 1.0}


def test_a_trial_that_shared_its_device_runs_again_and_is_judged_by_that(make_project: Make, tmp_path: Path, nvml: FakeNvml) -> None:
    project, seen = make_project(rules=OUTSIDE), Seen(on_event=while_training(nvml, {0, 1}, times=1))
    stop = run_study(project, edits_file(tmp_path, [{"VALUE": 1.1, **SLOW_ENOUGH}]), seen=seen)
    study = study_of(project)
    assert stop.reason == "proposals"
    assert [(row.status, row.interruptions) for row in study.rows] == [(Status.KEEP, 0), (Status.KEEP, 0)], "held against no idea"
    assert cuts(seen.events) == [(0, "device_shared", True), (1, "device_shared", True)]
    assert (study.crashes_in_a_row, study.interruptions_in_a_row) == (0, 0)
    assert [kind for kind in seen.kinds() if kind in ("launched", "trained")] == ["launched", "launched", "trained"] * 2


def test_sharing_again_and_again_is_charged_to_no_idea_and_stops_the_night(make_project: Make, tmp_path: Path, nvml: FakeNvml) -> None:
    project, seen = make_project(rules=OUTSIDE), Seen(on_event=while_training(nvml, {1, 2, 3}, times=9))
    edits = edits_file(tmp_path, [{"VALUE": 1.1, **SLOW_ENOUGH}, {"VALUE": 1.05, **SLOW_ENOUGH}])
    stop = run_study(project, edits, seen=seen)
    assert (stop.reason, stop.exit_code) == ("infrastructure", 75)
    study = study_of(project)
    assert cuts(seen.events) == [(1, "device_shared", True)] * 3
    assert [row.status for row in study.rows] == [Status.KEEP]
    assert study.crashes_in_a_row == 0
    nvml.processes = []
    resume_study(project)
    assert [row.status for row in study_of(project).rows] == [Status.KEEP] * 3


def test_a_stranger_is_waited_for_until_a_person_says_stop(make_project: Make, tmp_path: Path, nvml: FakeNvml) -> None:
    def follow(entry: Any, study: Study) -> None:
        if entry.event.kind == "settled" and entry.event.trial == 0:
            nvml.processes = [stranger()]
        if entry.event.kind == "warned" and "the next job waits" in entry.event.message:
            folder_of(project).stop_request.touch()

    project, seen = make_project(rules=OUTSIDE), Seen(on_event=follow)
    stop = run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]), seen=seen, hours=1.0)
    assert (stop.reason, stop.exit_code) == ("asked", 0)
    assert [event.message for event in seen.events if isinstance(event, Warned) and event.code == "device"] == [
        f"process {os.getppid()} ({psutil.Process(os.getppid()).name()[:40]}, 8000 MiB) computes on cuda: NVIDIA H200; the next job waits for its end"
    ]
    nvml.processes = []
    resume_study(project)
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.KEEP]


def test_patience_ends_with_the_nights_time() -> None:
    nvml, said = FakeNvml(processes=[stranger()]), list[str]()
    clock = Waiting()
    with pytest.raises(InfrastructureFault, match="no trial may share it"):
        wait_until_free(Gpu(nvml), None, clock, str, said.append, 2 * hygiene.WAIT_SECONDS)
    assert (clock.now_s, len(said)) == (2 * hygiene.WAIT_SECONDS, 1)


@pytest.mark.parametrize("numbered_here", [True, False], ids=["machine", "container"])
def test_memory_that_may_be_somebodys_is_warned_of_and_stops_no_night(monkeypatch: pytest.MonkeyPatch, numbered_here: bool) -> None:
    monkeypatch.setattr(gpus, "_first_namespace", lambda: numbered_here)
    nvml, said, clock = FakeNvml(drawing=[Held(1, None)]), list[str](), Waiting()
    gpu = Gpu(nvml)
    began = gpu.look(ours)
    nvml.used_mb = 2600.0
    assert wait_until_free(gpu, began, clock, str, said.append)
    assert len(said) == 1 and "whose it is cannot be told" in said[0]
    assert clock.now_s == hygiene.UNSURE_SECONDS


def test_a_study_goes_on_where_the_idle_memory_of_its_device_is_another(make_project: Make, tmp_path: Path, nvml: FakeNvml) -> None:
    project = make_project(rules=OUTSIDE)
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.0}]), trials=1)
    nvml.used_mb, seen = 1600.0, Seen()
    resume_study(project, trials=2, seen=seen)
    assert [row.status for row in study_of(project).rows] == [Status.KEEP] * 3
    resumed = next(event for event in seen.events if isinstance(event, Resumed))
    assert resumed.device_state is not None and resumed.device_state.memory_used_mb == 1600.0


def test_a_stranger_that_stays_stops_the_night_before_the_next_trial(make_project: Make, tmp_path: Path, nvml: FakeNvml) -> None:
    def arrive(entry: Any, study: Study) -> None:
        if entry.event.kind == "settled" and entry.event.trial == 0:
            nvml.processes = [stranger()]

    project, seen = make_project(rules=OUTSIDE), Seen(on_event=arrive)
    with pytest.raises(InfrastructureFault, match="no trial may share it"):
        run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]), seen=seen, hours=0.001)
    study = study_of(project)
    assert study.stop is not None and study.stop.exit_code == 75
    assert seen.kinds().count("launched") == 1
    nvml.processes = []
    resume_study(project, hours=1.0)
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.KEEP]


def test_a_gpu_that_falls_off_the_bus_stops_the_night_and_its_trial_is_judged_when_it_is_back(
    make_project: Make, tmp_path: Path, nvml: FakeNvml
) -> None:
    def fall(entry: Any, study: Study) -> None:
        if entry.event.kind == "launched" and entry.event.trial == 1:
            nvml.error = pynvml.NVML_ERROR_GPU_IS_LOST

    project, seen = make_project(rules=OUTSIDE), Seen(on_event=fall)
    with pytest.raises(DeviceLost, match="GPU is lost"):
        run_study(project, edits_file(tmp_path, [{"VALUE": 1.1, **SLOW_ENOUGH}]), seen=seen)
    assert cuts(seen.events) == [(1, "device_lost", True)]
    study = study_of(project)
    assert study.stop is not None and (study.stop.exit_code, study.row_count, study.crashes_in_a_row) == (75, 1, 0)
    nvml.error = None
    resume_study(project)
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.KEEP]


def test_a_scorer_that_dies_with_its_device_is_not_the_candidates_fault(make_project: Make, tmp_path: Path, nvml: FakeNvml) -> None:
    shared = iter([True])

    def follow(entry: Any, study: Study) -> None:
        nvml.processes = [stranger()] if entry.event.kind == "trained" and entry.event.trial == 1 and next(shared, False) else []

    project, seen = make_project(rules=OUTSIDE), Seen(on_event=follow)
    run_study(project, edits_file(tmp_path, [{"MODE": "evaluation_raises"}]), seen=seen)
    assert cuts(seen.events) == [(1, "device_shared", True)]
    assert seen.kinds().count("trained") == 3
    row = study_of(project).rows[1]
    assert row.status is not Status.INTERRUPTED and row.readings[0].fault is not None, "alone on its device it is judged"


def test_an_evaluation_beside_a_stranger_is_interrupted_and_not_judged_by_its_wall_time(
    make_project: Make, tmp_path: Path, nvml: FakeNvml
) -> None:
    arrived = iter([True])

    def follow(entry: Any, study: Study) -> None:
        here = entry.event.kind == "trained" and entry.event.trial == 1 and next(arrived, False)
        nvml.processes = [stranger()] if here else []

    project, seen = make_project(rules=OUTSIDE), Seen(on_event=follow)
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1, "MODE": "slow_load", "SECONDS": 1.5}]), seen=seen)
    assert cuts(seen.events) == [(1, "device_shared", True)]
    assert seen.kinds().count("scored") == 2, "the first answer of trial 1 is nobody's"
    assert study_of(project).rows[1].readings[0].value is not None


def test_a_scorer_is_looked_after_like_a_job() -> None:
    nvml, clock = FakeNvml(processes=[stranger()]), Waiting()
    guard = hygiene.Guard(Gpu(nvml), None, clock)
    assert (guard.look(), guard.look()) == (None, None), "the second look is not due yet"
    clock.sleep(hygiene.GUARD_SECONDS)
    fault = guard.look()
    assert fault is not None and fault[0] == "device_shared"
    clock.sleep(hygiene.GUARD_SECONDS)
    nvml.error = pynvml.NVML_ERROR_GPU_IS_LOST
    lost = guard.look()
    assert lost is not None and lost[0] == "device_lost"
    assert hygiene.Guard(Cpu(), None, clock).look() is None


def test_slow_clocks_are_said_once_and_recorded_and_judge_nothing(make_project: Make, tmp_path: Path, nvml: FakeNvml) -> None:
    def slow_down(entry: Any, study: Study) -> None:
        if entry.event.kind == "launched":
            nvml.clock, nvml.reasons = (990, pynvml.nvmlClocksEventReasonHwSlowdown) if entry.event.trial in (1, 2) else (1980, 0)

    project, seen = make_project(train=SLOW_ENOUGH, rules=OUTSIDE), Seen(on_event=slow_down)
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.0}, {"VALUE": 0.9}]), seen=seen)
    study = study_of(project)
    assert [row.status for row in study.rows] == [Status.KEEP] * 4
    warned = [event.message for event in seen.events if isinstance(event, Warned) and event.code == "device"]
    assert warned == [
        "trial 1: the GPU was slowed down in 100% of the training (hardware slowdown); its reading counts, but compares badly"
    ]
    page = report.render(study, folder_of(project))
    assert "2 trials at another speed of the GPU, hard to compare: 1, 2; trial 2: the GPU was slowed down in 100% of the training" in page
    assert "SM clock 990 MHz in training, clocks held down by hardware slowdown" in show.as_text(study.row(2), study, folder_of(project))


def test_what_was_on_the_device_at_the_start_is_in_the_record_and_said_once(make_project: Make, tmp_path: Path, nvml: FakeNvml) -> None:
    nvml.processes = [stranger(400)]
    project, seen = make_project(rules=OUTSIDE), Seen()
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]), seen=seen)
    started = next(event for event in seen.events if isinstance(event, StudyStarted))
    assert started.device_state is not None
    assert [one.pid for one in started.device_state.occupants] == [os.getppid()]
    warned = [event.message for event in seen.events if isinstance(event, Warned) and event.code == "device"]
    assert len(warned) == 1 and f"process {os.getppid()} " in warned[0]
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.KEEP]
    assert f"also on it: process {os.getppid()} " in report.render(study_of(project), folder_of(project))


def test_a_study_of_a_gpu_does_not_go_on_without_it(
    make_project: Make, tmp_path: Path, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(rules=OUTSIDE)
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]))

    def found(device: Device) -> Callable[[str], Device]:
        return lambda wanted: device

    monkeypatch.setattr(devices, "find", found(Cpu()))
    with pytest.raises(InfrastructureFault, match=r"was measured on 'cuda: NVIDIA H200', and here is 'cpu: .*no number could be compared"):
        resume_study(project, trials=9)
    nvml.name = "NVIDIA A100-SXM4-80GB"
    monkeypatch.setattr(devices, "find", found(Gpu(nvml, probe=str)))
    seen = Seen()
    resume_study(project, trials=9, seen=seen)
    assert [event.message for event in seen.events if isinstance(event, Warned)] == [
        "the study began on 'cuda: NVIDIA H200' and goes on on 'cuda: NVIDIA A100-SXM4-80GB'"
    ]


def test_the_doctor_says_who_has_the_device_and_how_it_is(make_project: Make, tmp_path: Path, nvml: FakeNvml) -> None:
    project = make_project(rules=OUTSIDE)
    nvml.processes, nvml.drawing = [stranger(400)], [Held(1, 90 * MIB)]
    with Lock(devices.lock_path(devices.find("auto")), "the device"):
        seen = examine(project)
    line = next(line for line in doctor.as_text(seen).splitlines() if line.startswith("  device "))
    assert (
        f"cuda: NVIDIA H200: a study of process {os.getpid()} runs on it; 600 of 143771 MiB in use; SM clock 1980 of 1980 MHz; 41 °C; limit 700 W"
        in line
    )
    assert f"process {os.getppid()} (" in line and ", drawing" in line
    told = doctor.as_dict(seen)["device"]
    assert (told["name"], told["held_by"], told["state"]["power_limit_w"]) == ("cuda: NVIDIA H200", os.getpid(), 700.0)
    nvml.processes, nvml.drawing = [], []
    assert "no study of yours runs on it; " in doctor.as_text(examine(project))
    assert doctor.as_text(examine(project)).count("nobody else on it") == 1


def test_the_doctor_of_a_gpu_that_is_gone_says_so(make_project: Make, nvml: FakeNvml) -> None:
    nvml.error = pynvml.NVML_ERROR_GPU_IS_LOST
    seen = examine(make_project(rules=OUTSIDE))
    assert any("GPU is lost" in note for note in seen.notes)


def test_two_studies_on_two_gpus_hold_two_locks_and_one_gpu_has_one(tmp_path: Path) -> None:
    first, second = Gpu(FakeNvml(), 0), Gpu(FakeNvml(), 1)
    assert devices.lock_path(first) != devices.lock_path(second) != devices.lock_path(Cpu())
    with Lock(devices.lock_path(first), "one"), Lock(devices.lock_path(second), "the other"), pytest.raises(Locked):
        Lock(devices.lock_path(Gpu(FakeNvml(), 0)), "one again").__enter__()
