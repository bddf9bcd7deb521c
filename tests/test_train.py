"""train.py with torch: runs by hand and under a harness over real sockets, and evaluations over real processes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import prepare

ROOT = Path(prepare.__file__).resolve().parent
TWENTY_STEPS = 40_960
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    prepare.prepare("cpu", str(path))
    return path


@pytest.fixture(scope="module")
def data(root: Path) -> Any:
    return prepare.Data.open("cpu", str(root))


def folder_with(path: Path, source: str | None = None, **constants: str) -> Path:
    """A job's folder: the pristine prepare.py and a train.py, ours with some constants replaced unless one is given."""
    path.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "prepare.py", path)
    lines = (source or (ROOT / "train.py").read_text()).splitlines(keepends=True)
    for name, value in constants.items():
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{name} = "))
        lines[at] = f"{name} = {value}\n"
    (path / "train.py").write_text("".join(lines))
    return path


def environment(root: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RATCHET_")}
    return kept | {"RATCHET_DATA": str(root), **more}


def by_hand(folder: Path, root: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "train.py", "--threads", "1", "--device", "cpu", *flags]
    return subprocess.run(arguments, cwd=folder, env=environment(root), capture_output=True, text=True, timeout=100, check=False)


class Job:
    """What the harness does for one training job, over a real socket pair and with real descriptors."""

    def __init__(self, folder: Path, root: Path, data: Any, amount: int = TWENTY_STEPS, seed: int = 0) -> None:
        self.checkpoint = folder / "harness.safetensors"
        self.messages: list[tuple[str, dict[str, Any]]] = []
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "train.py"],
                cwd=folder,
                env=environment(root, RATCHET_SOCKET=str(theirs.fileno()), RATCHET_DATA="/nowhere"),
                pass_fds=[theirs.fileno()],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        channel = prepare.Channel(ours)
        with self.process, ours:
            channel.send("hello", {"profile": "cpu", "device": "cpu", "seed": seed, "threads": 1})
            try:
                channel.receive("ready")
                with (data.folder / "train.bin").open("rb") as tokens, self.checkpoint.open("wb") as out:
                    go = json.dumps({"go": {"clock": "tokens", "amount": amount}}).encode() + b"\n"
                    socket.send_fds(ours, [go], [tokens.fileno(), out.fileno()])
                while True:
                    self.messages.append(channel.receive("point", "done"))
            except EOFError:
                pass
            self.output = self.process.communicate(timeout=60)[0]

    @property
    def points(self) -> list[dict[str, Any]]:
        return [body for kind, body in self.messages if kind == "point"]

    @property
    def done(self) -> dict[str, Any]:
        return self.messages[-1][1] if self.messages[-1][0] == "done" else {}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, root: Path, data: Any) -> Job:
    return Job(folder_with(tmp_path_factory.mktemp("job")), root, data)


def evaluate(folder: Path, checkpoint: Path, data: Any, rows: int = 32, split: str = "val") -> Any:
    """Score with a real scorer process and this process as the trusted side."""
    ours, theirs = socket.socketpair()
    with theirs, checkpoint.open("rb") as weights:
        numbers = (theirs.fileno(), weights.fileno())
        variables = {"RATCHET_SOCKET": str(numbers[0]), "RATCHET_CHECKPOINT": str(numbers[1])}
        scorer = subprocess.Popen(
            [sys.executable, "prepare.py", "serve"],
            cwd=folder,
            env=environment(Path("/nowhere"), **variables),
            pass_fds=numbers,
            stderr=subprocess.DEVNULL,
        )
    with scorer, ours:
        hello = {"profile": "cpu", "device": "cpu", "threads": 1}
        return prepare.score(data, split, prepare.Channel(ours), hello, rows=rows)


def reason_of(folder: Path, checkpoint: Path, data: Any) -> tuple[str, str]:
    with pytest.raises(prepare.ScorerFault) as caught:
        evaluate(folder, checkpoint, data)
    return caught.value.args[0], caught.value.args[1]


# --- by hand


@pytest.fixture(scope="module")
def hand_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_with(tmp_path_factory.mktemp("hand"))


@pytest.fixture(scope="module")
def hand_run(hand_folder: Path, root: Path) -> dict[str, str]:
    done = by_hand(hand_folder, root, "--amount", str(TWENTY_STEPS))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "---"
    return {key: value.strip() for key, value in (line.split(":") for line in lines[1:])}


def test_a_run_by_hand_prints_the_summary_block(hand_run: dict[str, str]) -> None:
    assert list(hand_run) == [
        "val_bpb",
        "training_seconds",
        "total_seconds",
        "peak_vram_mb",
        "total_tokens_M",
        "num_steps",
        "num_params_M",
        "depth",
    ]
    assert 1.8 < float(hand_run["val_bpb"]) < 2.6
    assert float(hand_run["total_seconds"]) > float(hand_run["training_seconds"]) > 0
    assert (hand_run["num_steps"], hand_run["total_tokens_M"], hand_run["depth"]) == ("20", "0.041", "2")


def test_a_run_by_hand_leaves_its_curve_and_its_checkpoint(hand_run: dict[str, str], hand_folder: Path) -> None:
    curve = [json.loads(line) for line in (hand_folder / "curve.jsonl").read_text().splitlines()]
    assert [point["step"] for point in curve] == list(range(1, 21))
    assert curve[-1]["progress"] == 1.0
    assert curve[-1]["loss"] < curve[0]["loss"]
    assert (hand_folder / "checkpoint.safetensors").stat().st_size > 4_000_000


def test_by_hand_and_under_the_harness_the_run_is_bit_for_bit_the_same(hand_run: dict[str, str], hand_folder: Path, trained: Job) -> None:
    assert (hand_folder / "checkpoint.safetensors").read_bytes() == trained.checkpoint.read_bytes()


def test_another_seed_is_another_run(tmp_path: Path, root: Path, data: Any, trained: Job) -> None:
    other = Job(folder_with(tmp_path), root, data, amount=4096, seed=1)
    assert other.points[1]["loss"] != trained.points[1]["loss"]


def test_bad_data_stops_a_run_by_hand_in_one_sentence(tmp_path: Path) -> None:
    done = by_hand(folder_with(tmp_path / "job"), tmp_path / "empty")
    assert done.returncode == 1
    assert "manifest.json is missing" in done.stderr
    assert done.stderr.count("\n") == 1


# --- under the harness


def test_a_job_trains_from_descriptors_alone_and_reports(trained: Job) -> None:
    assert trained.process.returncode == 0, trained.output
    assert [point["step"] for point in trained.points] == list(range(1, 21))
    assert set(trained.points[0]) == {
        "step", "progress", "loss", "ema_loss", "tokens", "tokens_per_second", "lr", "grad_norm", "peak_memory_mb",
    }  # fmt: skip
    assert trained.points[0]["tokens"] == 2048
    assert trained.done["steps"] == 20
    assert trained.done["tokens"] == TWENTY_STEPS
    assert trained.done["parameters"] == 1_179_716
    assert trained.done["dtype"] in ("bfloat16", "float32")
    assert trained.done["device"] == "cpu"
    assert "val_bpb" not in trained.output
    assert "num_steps:        20" in trained.output


def test_the_checkpoint_is_plain_safetensors_that_load_model_takes(trained: Job) -> None:
    import torch
    from safetensors.torch import load_file

    import train

    model = train.load_model(load_file(trained.checkpoint), "cpu")
    assert not model.training
    assert model(torch.zeros((3, 7), dtype=torch.int64)).shape == (3, 7, 2048)


def test_the_model_does_not_look_ahead(trained: Job) -> None:
    import torch
    from safetensors.torch import load_file

    import train

    model = train.load_model(load_file(trained.checkpoint), "cpu")
    ids = torch.arange(64)[None]
    changed = torch.cat((ids[:, :40], ids[:, 40:] + 1000), dim=1)
    with torch.inference_mode():
        assert torch.allclose(model(ids)[:, :40], model(changed)[:, :40], atol=1e-5)


def test_accumulated_passes_make_the_same_step_as_one_pass(tmp_path: Path, root: Path, data: Any, trained: Job) -> None:
    halves = Job(folder_with(tmp_path, DEVICE_ROWS="4"), root, data, amount=8192)
    losses = [point["loss"] for point in halves.points]
    assert losses[0] == pytest.approx(trained.points[0]["loss"], abs=1e-3)
    assert halves.done["steps"] == 4


@pytest.mark.parametrize("constants", [{"TOTAL_BATCH": "2304"}, {"TOTAL_BATCH": "3000"}, {"TOTAL_BATCH": "128"}, {"TOTAL_BATCH": "0"}])
def test_a_batch_that_cannot_be_divided_is_an_assertion_at_the_start(
    tmp_path: Path, root: Path, data: Any, constants: dict[str, str]
) -> None:
    job = Job(folder_with(tmp_path, **constants), root, data)
    assert job.process.returncode == 1
    assert job.messages == []
    assert job.output.splitlines()[-1].startswith(f"AssertionError: TOTAL_BATCH {constants['TOTAL_BATCH']} is no positive")


def test_a_loss_that_is_no_number_stops_the_run_at_once(tmp_path: Path, root: Path, data: Any) -> None:
    job = Job(folder_with(tmp_path, LOGIT_CAP='float("nan")'), root, data)
    assert job.process.returncode == 1
    assert [(point["step"], point["loss"]) for point in job.points] == [(1, None)]
    assert "the loss is nan at step 1: training stops" in job.output
    assert job.done == {}


COUNTS_ONLY = """
import prepare
import torch
setup = prepare.setup()
training = prepare.open_training()
model = torch.nn.Module()
model.weight = torch.nn.Parameter(torch.zeros(3, 2))
model.tied = model.weight
model._orig_mod = torch.nn.Linear(2, 2)
step = 0
while not training.budget.done:
    training.budget.tokens += 10
    step += 1
    prepare.record(step=step, loss=1.0)
prepare.save_checkpoint(model, steps=step, depth=1)
"""


def test_a_curve_of_any_length_has_at_most_five_hundred_points(tmp_path: Path, root: Path, data: Any) -> None:
    job = Job(folder_with(tmp_path, COUNTS_ONLY), root, data, amount=30_000)
    assert job.done["steps"] == 3000
    assert 400 <= len(job.points) <= 500
    assert job.points[0]["step"] == 1
    assert job.points[-1]["progress"] == 1.0


def test_tied_weights_and_compiled_modules_are_saved_under_plain_names(tmp_path: Path, root: Path, data: Any) -> None:
    from safetensors.torch import load_file

    job = Job(folder_with(tmp_path, COUNTS_ONLY), root, data, amount=10)
    assert set(load_file(job.checkpoint)) == {"weight", "tied", "bias"}
    assert job.done["parameters"] == 12


# --- evaluation over real processes


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory, trained: Job, root: Path) -> dict[str, Any]:
    """What the harness gets for the trained job: both processes are real, this one only asks."""
    folder = tmp_path_factory.mktemp("trusted")
    shutil.copy(ROOT / "prepare.py", folder)
    harness, trusted = socket.socketpair()
    left, right = socket.socketpair()
    with trusted, left, right, trained.checkpoint.open("rb") as weights:
        numbers = [s.fileno() for s in (trusted, left, right, weights)]
        sides = [
            ("evaluate", folder, numbers[:2], ("RATCHET_SOCKET", "RATCHET_SCORER")),
            ("serve", trained.checkpoint.parent, numbers[2:], ("RATCHET_SOCKET", "RATCHET_CHECKPOINT")),
        ]
        processes = [
            subprocess.Popen(
                [sys.executable, "prepare.py", name],
                cwd=cwd,
                env=environment(root, **dict(zip(variables, map(str, handed), strict=True))),
                pass_fds=handed,
            )
            for name, cwd, handed, variables in sides
        ]
    with harness, processes[0], processes[1]:
        channel = prepare.Channel(harness)
        channel.send("evaluate", {"profile": "cpu", "split": "val", "device": "cpu", "threads": 1, "token": "f3a1"})
        answer: dict[str, Any] = channel.receive("record")[1]
    assert [process.returncode for process in processes] == [0, 0]
    return answer


def test_the_trusted_process_answers_the_harness_with_the_record(record: dict[str, Any], data: Any) -> None:
    assert record["token"] == "f3a1"
    assert record["bytes"] == 490_293
    assert len(record["documents"]) == 12
    assert record["data_sha256"] == data.sha256
    assert 1.8 < record["value"] < 2.6


def test_two_evaluations_agree_to_the_last_bit(record: dict[str, Any], trained: Job, data: Any) -> None:
    assert evaluate(trained.checkpoint.parent, trained.checkpoint, data) | {"token": "f3a1"} == record


def test_by_hand_and_under_the_harness_the_value_is_the_same(record: dict[str, Any], hand_run: dict[str, str]) -> None:
    assert hand_run["val_bpb"] == f"{record['value']:.6f}"


FLOAT32 = """

exact = load_model


def load_model(state, device):
    model = exact(state, device)

    def forward(ids):
        with torch.autocast("cpu", enabled=False):
            return model(ids)

    return forward
"""


@pytest.mark.timeout(400)
def test_the_value_does_not_depend_on_the_batch_size(tmp_path: Path, trained: Job, data: Any) -> None:
    folder = folder_with(tmp_path, (ROOT / "train.py").read_text() + FLOAT32)
    values = [evaluate(folder, trained.checkpoint, data, rows)["value"] for rows in (1, 7, 48, 512)]
    assert max(values) - min(values) < 1e-6


UNUSUAL = """
import os, sys, torch

def load_model(state, device):
    {load}
    def forward(ids):
        {forward}
    return forward
"""
FINE = "return torch.zeros(*ids.shape, 2048)"


@pytest.fixture(scope="module")
def misbehaving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    def make(load: str = "pass", forward: str = FINE) -> Path:
        return folder_with(tmp_path_factory.mktemp("odd"), UNUSUAL.format(load=load, forward=forward))

    yield make


@pytest.mark.parametrize(
    ("load", "forward", "reason", "detail"),
    [
        ("raise KeyError('embedding')", FINE, "load_failed", "KeyError: 'embedding'"),
        ("sys.exit('no thanks')", FINE, "load_failed", "SystemExit: no thanks"),
        ("os._exit(3)", FINE, "scorer_died", "before it was ready"),
        ("pass", "os._exit(3)", "scorer_died", "ended after 0 of"),
        ("pass", "raise MemoryError('too large')", "scorer_died", "MemoryError: too large"),
        ("pass", "return torch.zeros(ids.shape[0], ids.shape[1] - 1, 2048)", "scorer_died", "ValueError"),
        ("pass", "return torch.full((*ids.shape, 2048), float('nan'))", "not_finite", "such as nan"),
    ],
)
def test_a_misbehaving_model_is_the_candidates_fault(
    misbehaving: Any, trained: Job, data: Any, load: str, forward: str, reason: str, detail: str
) -> None:
    got = reason_of(misbehaving(load, forward), trained.checkpoint, data)
    assert got[0] == reason
    assert detail in got[1]


def test_a_checkpoint_that_is_cut_off_fails_to_load(tmp_path: Path, trained: Job, data: Any) -> None:
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(trained.checkpoint.read_bytes()[:1000])
    reason, detail = reason_of(trained.checkpoint.parent, cut, data)
    assert reason == "load_failed"
    assert "SafetensorError" in detail


def test_a_checkpoint_of_another_model_fails_to_load(tmp_path: Path, trained: Job, data: Any) -> None:
    reason, detail = reason_of(folder_with(tmp_path, DIM="64"), trained.checkpoint, data)
    assert reason == "load_failed"
    assert "RuntimeError" in detail
