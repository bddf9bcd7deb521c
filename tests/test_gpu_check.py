"""bench/gpu_check.py, walked on a processor: the path is the same, the figures are not."""

from __future__ import annotations

import json
import subprocess
import sys
import types

import pytest

import prepare
from bench import gpu_check
from tests.projects import ROOT


def test_the_gpu_check_has_the_context_of_the_gpu_profile_so_that_windows_are_cut() -> None:
    module = types.ModuleType("prepare_of_the_check")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(gpu_check.prepared_text(), "prepare.py", "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    ours, shipped = module.PROFILES["cpu"], prepare.PROFILES
    assert ours.context == shipped["gpu"].context and ours.identity == shipped["cpu"].identity and ours.folder == shipped["cpu"].folder
    window = next(line for line in (ROOT / "examples" / "gpu" / "train.py").read_text().splitlines() if line.startswith("WINDOW = "))
    assert 2 * int(window.split()[2]) <= ours.context, "several pieces a row"


@pytest.mark.torch
def test_the_gpu_check_walks_its_path_on_a_processor() -> None:
    command = [sys.executable, "bench/gpu_check.py", "--json", "--device", "cpu", "--train", "train.py", "--seconds", "1.5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    for one in (found["cold"], found["warm"]):
        assert one["setup_seconds"] > 0 and one["evaluation_seconds"] > 0 and one["tokens_per_second"] > 100 and one["val_bpb"] > 1
        assert one["mfu_at_most"] is None, "a processor has no entry in the list"
    assert [bar["name"] for bar in found["bars"]] == ["noise"]


@pytest.mark.torch
def test_without_a_gpu_it_says_so() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = subprocess.run([sys.executable, "bench/gpu_check.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no CUDA device is present" in done.stderr
