"""A GPU asked through a fake driver behind pynvml's own names: who is on it, how fast it runs, whether it is there."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import pynvml
import pytest

from harness.errors import DeviceLost
from harness.execution import gpu as gpus
from harness.execution.gpu import Gpu, cuda_starts
from harness.execution.hygiene import ours
from harness.execution.process import started_at
from tests.nvml_fake import MIB, UUID, FakeNvml, Held, stranger

GONE = 2**22 + 1  # no process has it


def nobody() -> Collection[int]:
    return ()


@pytest.fixture(params=[True, False], ids=["machine", "container"])
def first_namespace(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Process numbers of the machine itself, or of a container."""
    monkeypatch.setattr(gpus, "_first_namespace", lambda: request.param)
    return bool(request.param)


def test_every_question_of_the_fake_is_one_of_pynvml_with_as_many_arguments() -> None:
    questions = [name for name in vars(FakeNvml) if name.startswith("nvml")]
    assert len(questions) >= 12
    for name in questions:
        real, fake = (list(inspect.signature(getattr(owner, name)).parameters.values()) for owner in (pynvml, FakeNvml))
        needed = [one for one in real if one.default is one.empty]
        assert len(fake) - 1 == len(needed), name


def test_a_look_has_everything_that_the_driver_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_first_namespace", lambda: True)
    nvml = FakeNvml(processes=[stranger(8000)], drawing=[Held(1, 100 * MIB)], used_mb=9000.0, clock=990)
    nvml.reasons = (
        pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonHwThermalSlowdown | pynvml.nvmlClocksEventReasonGpuIdle
    )
    state = Gpu(nvml).look(ours)
    assert state is not None
    assert (state.memory_used_mb, state.memory_total_mb, state.unclaimed_mb) == (9000.0, 143_771.0, 900.0)
    assert (state.sm_clock_mhz, state.sm_clock_max_mhz, state.temperature_c, state.power_limit_w) == (990, 1980, 41, 700.0)
    assert state.slowed_by == ("power cap", "hardware thermal slowdown")
    by_pid = {one.pid: one for one in state.occupants}
    parent = by_pid[os.getppid()]
    assert (parent.memory_mb, parent.draws, parent.started) == (8000.0, False, started_at(os.getppid()))
    assert by_pid[1].draws and parent.name != "?"


def test_a_process_on_both_lists_draws_and_computes() -> None:
    state = Gpu(FakeNvml(processes=[stranger(8000)], drawing=[stranger(8000), Held(1, MIB)])).look(ours)
    assert state is not None
    assert {one.pid: (one.draws, one.computes) for one in state.occupants} == {os.getppid(): (True, True), 1: (True, False)}


def test_an_idle_gpu_is_not_slowed_down() -> None:
    state = Gpu(FakeNvml(reasons=pynvml.nvmlClocksEventReasonGpuIdle)).look(ours)
    assert state is not None and state.slowed_by == ()


def test_a_driver_that_knows_only_the_old_name_of_the_reasons_is_asked_by_it() -> None:
    state = Gpu(FakeNvml(reasons=pynvml.nvmlClocksThrottleReasonHwSlowdown, missing={"reasons"})).look(ours)
    assert state is not None and state.slowed_by == ("hardware slowdown",)


def test_what_the_driver_does_not_tell_is_none_and_no_error() -> None:
    state = Gpu(
        FakeNvml(missing={"processes", "drawing", "memory", "clock", "max_clock", "reasons", "old_reasons", "temperature", "power"})
    ).look(ours)
    assert state is not None
    told = state.model_dump(exclude={"comparable"})
    assert not any(told.values()), told
    assert told["memory_used_mb"] is None


def test_a_look_at_the_processes_alone_asks_for_nothing_else() -> None:
    heard: list[str] = []
    Gpu(FakeNvml(on_question=heard.append)).look(ours, clocks=False)
    assert set(heard) == {"processes", "drawing"}


@pytest.mark.parametrize(
    "error", ["GPU_IS_LOST", "RESET_REQUIRED", "GPU_NOT_FOUND", "DRIVER_NOT_LOADED", "UNINITIALIZED", "LIB_RM_VERSION_MISMATCH"]
)
def test_a_device_that_is_gone_is_said_so(error: str) -> None:
    gpu = Gpu(FakeNvml(error=getattr(pynvml, f"NVML_ERROR_{error}")), probe=lambda: pytest.fail("the driver's word is enough"))
    with pytest.raises(DeviceLost, match=r"the driver says of cuda: NVIDIA H200: .*check `nvidia-smi`"):
        gpu.look(ours)
    assert gpu.failure().startswith("the driver says of cuda: NVIDIA H200")
    assert gpu.memory_mb([1]) is None


@pytest.mark.parametrize("error", ["NOT_SUPPORTED", "NO_PERMISSION", "FUNCTION_NOT_FOUND", "UNKNOWN", "TIMEOUT"])
def test_a_question_that_is_not_answered_is_no_lost_device_and_cuda_has_the_last_word(error: str) -> None:
    nvml = FakeNvml(error=getattr(pynvml, f"NVML_ERROR_{error}"))
    assert Gpu(nvml, probe=str).look(ours) is not None
    assert Gpu(nvml, probe=str).failure() == ""
    assert Gpu(nvml, probe=lambda: "cuInit says 999").failure() == "cuInit says 999"


def test_a_driver_older_than_the_module_does_not_say_who_is_there_and_ends_nothing() -> None:
    nvml = FakeNvml(processes=[stranger()], mismatched={"processes", "drawing"})
    state = Gpu(nvml).look(ours)
    assert state is not None and (state.occupants, state.all_listed, state.memory_used_mb) == ((), False, 600.0)
    assert Gpu(nvml).memory_mb([1]) is None


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
def test_memory_of_processes_that_a_host_numbers_is_theirs_and_that_of_a_dead_one_here_is_nobodys(
    first_namespace: bool, told: bool
) -> None:
    state = Gpu(FakeNvml(drawing=[Held(GONE, 300 * MIB if told else None)], used_mb=900.0)).look(ours)
    assert state is not None and state.occupants == ()
    assert state.unclaimed_mb == (900.0 if first_namespace or not told else 600.0)
    assert (state.all_listed, state.accounted) == (told or first_namespace, first_namespace)


def test_our_own_processes_and_dead_ones_are_nobody(first_namespace: bool) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    zombie = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    try:
        nvml = FakeNvml(processes=[Held(pid, MIB) for pid in (os.getpid(), child.pid, zombie.pid, GONE, os.getppid())])
        state = Gpu(nvml).look(ours)
        assert state is not None
        assert [one.pid for one in state.occupants] == [os.getppid()]
    finally:
        child.communicate(b"\n")
        zombie.wait()


def test_a_child_born_while_the_driver_answers_is_ours() -> None:
    born: list[subprocess.Popen[bytes]] = []
    nvml = FakeNvml()

    def give_birth(question: str) -> None:
        if question == "processes":
            born.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
            nvml.processes = [Held(born[-1].pid, MIB)]

    nvml.on_question = give_birth
    state = Gpu(nvml).look(ours)
    for child in born:
        child.communicate(b"\n")
    assert born and state is not None and state.occupants == ()


def test_in_a_container_numbers_compare_only_once_one_of_ours_was_among_them(first_namespace: bool) -> None:
    nvml = FakeNvml(processes=[stranger()])
    gpu = Gpu(nvml)
    states = [gpu.look(ours)]
    nvml.processes = [stranger(), Held(os.getpid(), MIB)]
    states.append(gpu.look(ours))
    nvml.processes = [stranger()]
    states.append(gpu.look(ours, clocks=False))
    assert [state.comparable for state in states if state] == [first_namespace, True, True]


def test_a_process_that_proc_hides_is_there_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "started_at", lambda pid: None)
    monkeypatch.setattr(gpus, "_hidden", lambda pid: pid == 77)
    state = Gpu(FakeNvml(processes=[Held(77, MIB), Held(78, MIB)])).look(nobody)
    assert state is not None and [one.pid for one in state.occupants] == [77]


def test_hidden_is_what_may_not_be_signalled(tmp_path: Path) -> None:
    assert not gpus._hidden(GONE)
    assert not gpus._hidden(os.getpid())
    child = os.fork()
    if child == 0:
        if os.getuid() == 0:
            os.setuid(65534)
        os._exit(0 if gpus._hidden(1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_cuda_itself_is_asked_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = "class Cuda:\n    cuInit = staticmethod(lambda flags: 304)\nctypes.CDLL = lambda name: Cuda\n"
    monkeypatch.setattr(gpus, "PROBE", gpus.PROBE.replace("import ctypes, sys\n", f"import ctypes, sys\n{fake}"))
    assert cuda_starts() == "cuInit says 304"
    monkeypatch.setattr(gpus, "PROBE", gpus.PROBE.replace("304", "0"))
    assert cuda_starts() == ""
    monkeypatch.setattr(gpus, "PROBE", "import time\ntime.sleep(60)")
    monkeypatch.setattr(gpus, "PROBE_SECONDS", 0.5)
    assert cuda_starts() == "cuInit does not come back in 0 s"


def test_cuda_is_asked_for_its_first_device_and_on_the_device_of_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = (
        "class Cuda:\n    cuInit = staticmethod(lambda flags: 0)\n    cuDeviceGet = staticmethod(lambda device, number: 0)\n"
        "    def cuDeviceGetUuid(self, name, device):\n        name[15] = 7\n        return 0\nctypes.CDLL = lambda name: Cuda()\n"
    )
    monkeypatch.setattr(gpus, "FIRST", gpus.FIRST.replace("import ctypes, sys, uuid\n", f"import ctypes, sys, uuid\n{fake}"))
    assert gpus.first_device() == "GPU-00000000-0000-0000-0000-000000000007"
    monkeypatch.setattr(gpus, "PROBE", "import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'])")
    assert Gpu(FakeNvml(), 1).failure() == UUID[:-1] + "1"


def test_cuda_that_cannot_even_be_killed_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Undying(subprocess.Popen[str]):
        def kill(self) -> None:
            born.append(self)

    born: list[Undying] = []
    monkeypatch.setattr(subprocess, "Popen", Undying)
    monkeypatch.setattr(gpus, "PROBE", "import time\ntime.sleep(30)")
    monkeypatch.setattr(gpus, "PROBE_SECONDS", 0.5)
    began = time.monotonic()
    try:
        assert cuda_starts() == "cuInit does not come back in 0 s"
        assert time.monotonic() - began < 15
    finally:
        for child in born:
            child.terminate()
            child.communicate()


def test_where_cuda_is_not_installed_it_is_not_blamed() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU")
    assert cuda_starts() == ""
