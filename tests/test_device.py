"""Devices through a fake driver behind NVML's own names, and the lock that keeps two harnesses apart."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pynvml
import pytest

from harness.errors import InfrastructureFault, Locked
from harness.evaluation import noise
from harness.execution import device as devices
from harness.execution.device import Cpu, Lock
from harness.execution.gpu import MIB, Gpu
from harness.execution.process import boot_id, started_at
from tests.nvml_fake import MIG, UUID, FakeNvml, Held


@pytest.mark.parametrize(
    ("name", "sigma", "readings"), [("NVIDIA H200", 3e-4, 2), (b"NVIDIA A100-SXM4-80GB", 3e-4, 2), ("NVIDIA GeForce RTX 2060", 1.5e-3, 3)]
)
def test_a_gpu_is_named_as_the_noise_priors_know_it(name: str | bytes, sigma: float, readings: int) -> None:
    nvml = FakeNvml(name)
    gpu = Gpu(nvml, 1)
    second = UUID[:-1] + "1"
    assert (nvml.asked, gpu.lock_name, gpu.variables) == ([1], f"cuda-{second}", {"CUDA_VISIBLE_DEVICES": second})
    assert gpu.name == f"cuda: {name.decode() if isinstance(name, bytes) else name}"
    prior = noise.prior(gpu.name, "wall", 1.0)
    assert (prior.sigma, prior.baseline_readings) == (sigma, readings)


def test_a_cpu_is_named_and_has_no_memory_of_its_own() -> None:
    cpu = Cpu()
    assert cpu.name.startswith("cpu: ")
    assert len(cpu.name) > len("cpu: ")
    assert cpu.memory_mb([1]) is None
    assert noise.prior(cpu.name, "tokens", 1.5).sigma == 0.0027


def test_device_memory_is_that_of_the_jobs_processes() -> None:
    gpu = Gpu(FakeNvml(processes=[Held(11, 300 * MIB), Held(12, 200 * MIB), Held(99, 5000 * MIB)]))
    assert gpu.memory_mb([11, 12, 13]) == 500.0


@pytest.mark.parametrize(
    "nvml",
    [
        FakeNvml(),
        FakeNvml(processes=[Held(99, MIB)]),
        FakeNvml(processes=[Held(11, None)]),
        FakeNvml(processes=[Held(11, 0)]),
        FakeNvml(missing={"processes"}),
    ],
    ids=["no_process", "others_only", "not_told", "zero", "error"],
)
def test_device_memory_that_is_not_known_is_none(nvml: FakeNvml) -> None:
    assert Gpu(nvml).memory_mb([11]) is None


@pytest.mark.parametrize(
    ("visible", "first", "taken"),
    [
        (None, UUID[:-1] + "2", UUID[:-1] + "2"),
        (None, "", UUID),
        ("1", UUID[:-1] + "3", UUID[:-1] + "3"),
        ("GPU-5a1c", UUID, UUID),
        (f"{MIG},1", UUID, MIG),
    ],
    ids=["CUDA's first is not the driver's", "CUDA does not say", "a number of CUDA's", "abbreviated", "a part of a card"],
)
def test_the_device_is_the_one_that_cuda_takes_for_its_first(visible: str | None, first: str, taken: str) -> None:
    gpu = devices.chosen(FakeNvml(), visible, lambda: first)
    assert gpu is not None
    assert (gpu.variables, gpu.lock_name) == ({"CUDA_VISIBLE_DEVICES": taken}, f"cuda-{taken}")


@pytest.mark.parametrize(("visible", "first"), [("9", ""), ("GPU-none", ""), ("MIG-none", UUID), ("0", "GPU-other")])
def test_a_device_that_was_asked_for_by_name_and_is_not_there_is_no_cpu(visible: str, first: str) -> None:
    with pytest.raises(InfrastructureFault, match=rf"CUDA_VISIBLE_DEVICES is '{visible}'.*check `nvidia-smi -L`"):
        devices.chosen(FakeNvml(), visible, lambda: first)


def test_a_driver_that_does_not_start_is_no_gpu_unless_one_was_asked_for() -> None:
    nvml = FakeNvml(error=pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    assert devices.chosen(nvml, None, str) is None
    with pytest.raises(InfrastructureFault, match="the driver says"):
        devices.chosen(nvml, "0", str)


def test_a_wished_device_is_found_or_its_absence_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert devices.find("cpu").lock_name == "cpu"
    for hidden in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert devices.find("auto").lock_name == "cpu"
        with pytest.raises(InfrastructureFault, match="the driver shows none"):
            devices.find("cuda")


def test_a_lock_names_its_holder_and_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    with Lock(path, "the study t"):
        holder = devices.read_holder(path)
        assert holder is not None
        assert holder["pid"] == os.getpid()
        with pytest.raises(Locked, match=f"the study t is in use by process {os.getpid()}"), Lock(path, "the study t"):
            pytest.fail("two holders")
    assert devices.read_holder(path) is None
    with Lock(path, "again"):
        pass


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "not json", '{"pid": "x"}', json.dumps({"pid": os.getpid(), "started": 1.0, "boot": boot_id()}),
     json.dumps({"pid": os.getpid(), "started": started_at(os.getpid()), "boot": "another"})],
    ids=["empty", "list", "object", "text", "no number", "another start", "another boot"],
)  # fmt: skip
def test_a_holder_that_is_gone_is_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    assert devices.read_holder(tmp_path / "lock") is None


def test_a_lock_held_without_a_name_still_holds(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Locked, match="in use by another process"), Lock(path, "the device cpu"):
            pytest.fail("two holders")


def test_locks_of_all_studies_lie_in_one_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RATCHET_LOCKS")
    assert str(os.getuid()) in devices.lock_folder().name
