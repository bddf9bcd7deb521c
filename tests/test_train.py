"""train.py with torch: runs by hand and under a harness over real sockets, and evaluations over real processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import types
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
        prepare.greet(channel := prepare.Channel(ours), hello)
        return prepare.score(data, split, channel, rows=rows)


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
    assert (hand_run["num_steps"], hand_run["total_tokens_M"], hand_run["depth"]) == ("20", "0.041", "1")


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
    assert trained.points[0]["grad_norm"] > 0
    assert trained.points[-1]["lr"] < trained.points[0]["lr"]
    assert trained.points[0]["tokens"] == 2048
    assert trained.done["steps"] == 20
    assert trained.done["tokens"] == TWENTY_STEPS
    assert trained.done["parameters"] == 9_371_714
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


@pytest.mark.parametrize("constants", [{"TOTAL_BATCH": "3000"}, {"TOTAL_BATCH": "128"}, {"TOTAL_BATCH": "0"}])
def test_a_batch_that_cannot_be_divided_is_an_assertion_at_the_start(
    tmp_path: Path, root: Path, data: Any, constants: dict[str, str]
) -> None:
    job = Job(folder_with(tmp_path, **constants), root, data)
    assert job.process.returncode == 1
    assert job.messages == []
    assert job.output.splitlines()[-1].startswith(f"AssertionError: TOTAL_BATCH {constants['TOTAL_BATCH']} is no positive")


def test_a_loss_that_is_no_number_stops_the_run_at_once(tmp_path: Path, root: Path, data: Any) -> None:
    job = Job(folder_with(tmp_path, RESIDUAL_INIT='float("nan")'), root, data)
    assert job.process.returncode == 1
    assert [(point["step"], point["loss"]) for point in job.points] == [(1, None)]
    assert "the loss is nan at step 1: training stops" in job.output
    assert job.done == {}


def test_a_batch_of_nine_rows_is_taken_in_three_passes(tmp_path: Path, root: Path, data: Any) -> None:
    job = Job(folder_with(tmp_path, TOTAL_BATCH="2304"), root, data, amount=4608)
    assert (job.done["steps"], job.done["tokens"]) == (2, 4608)


# --- the parts of train.py


def loaded(name: str, source: str, **constants: str) -> Any:
    """A module made from a text of train.py with some constants replaced."""
    for constant, value in constants.items():
        source, count = re.subn(rf"^{constant} = .*", f"{constant} = {value}", source, flags=re.MULTILINE)
        assert count == 1, constant
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


CPU, GPU = (ROOT / "train.py").read_text(), (ROOT / "examples" / "gpu" / "train.py").read_text()
# The GPU's constants but for sizes that would take a CPU too long: several blocks, short and long windows, a cap, accumulation.
SMALL = {"DEPTH": "3", "LONG_EVERY": "2", "DIM": "64", "HEAD_DIM": "32", "WINDOW": "32", "PAIR_ROWS": "4096", "DEVICE_ROWS": "4"}
SMALL |= {"TOTAL_BATCH": "2048"}


def drawn(module: Any, seed: int, **options: Any) -> Any:
    """A model whose every weight is random, so that nothing is hidden behind a zero."""
    import torch

    torch.manual_seed(seed)
    model = module.GPT(256, **options)
    model.initialise()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p), alpha=0.1)
    return model


@pytest.mark.parametrize(("text", "constants"), [(CPU, {"PAIR_ROWS": "1000"}), (GPU, SMALL)], ids=["cpu", "gpu"])
def test_logits_do_not_change_when_later_ids_do(text: str, constants: dict[str, str]) -> None:
    import torch

    model = drawn(loaded("ahead", text, **constants), 0)
    ids = torch.randint(256, (2, 150))
    with torch.inference_mode():
        before = model(ids)
        for cut in (1, 2, 31, 32, 33, 64, 65, 149):
            changed = torch.cat((ids[:, :cut], (ids[:, cut:] + 1) % 256), dim=1)
            after = model(changed)
            assert torch.allclose(before[:, :cut], after[:, :cut], atol=1e-4)
            assert not torch.allclose(before[:, cut], after[:, cut], atol=1e-2)
            assert torch.allclose(model(ids[:, :cut]), before[:, :cut], atol=1e-4)


def test_a_pair_is_an_id_and_the_one_before_and_a_blank_before_the_first() -> None:
    import torch

    pairs = loaded("pairs", CPU).PairEmbedding(255, sparse=False)
    torch.nn.init.normal_(pairs.table.weight)
    ids = torch.tensor([[255, 7, 8, 7, 8], [7, 8, 9, 8, 7]])
    with torch.inference_mode():
        found = pairs(ids)
    assert torch.equal(found[0, 2], found[0, 4]) and torch.equal(found[0, 2], found[1, 1])
    assert torch.equal(found[0, 1], found[1, 0])  # blank, 7
    assert not torch.equal(found[0, 3], found[0, 1]) and not torch.equal(found[1, 3], found[0, 2])


def test_pairs_are_spread_over_the_rows() -> None:
    import torch

    pairs = loaded("spread", CPU, PAIR_ROWS="4096").PairEmbedding(2047, sparse=False)
    del pairs.table
    pairs.table = lambda rows: rows
    torch.manual_seed(0)
    counts = torch.bincount(pairs(torch.randint(2048, (400, 1024))).flatten(), minlength=4096)
    assert int(counts.min()) > 50 and int(counts.max()) < 200  # 100 on average


def test_a_sparse_step_is_the_step_of_a_dense_reference() -> None:
    import torch

    module = loaded("rows", CPU, PAIR_ROWS="500")
    models = [drawn(module, 3, sparse=sparse) for sparse in (True, False)]
    tables = [model.pairs.table.weight for model in models]
    reference, total, typical = tables[0].detach().clone(), torch.zeros(500), 0.0
    optimizers = [module.RowAdagrad([{"params": [table], "lr": 0.5}]) for table in tables]
    for step in range(4):
        ids, targets = torch.randint(256, (2, 40)), torch.randint(256, (80,))
        for model in models:
            for _ in range(2):  # two passes accumulate
                module.HeadLoss.apply(model.features(ids).flatten(0, 1), model.head.weight, targets).backward()
        assert [table.grad.is_sparse for table in tables] == [True, False]
        grad = tables[1].grad
        used = grad.abs().sum(dim=1) > 0
        now = float(grad[used].square().mean())
        typical = now if step == 0 else 0.9 * typical + 0.1 * now
        total += grad.square().mean(dim=1)
        reference[used] -= 0.5 * grad[used] / (total[used] + module.PAIR_PRIOR * typical).sqrt()[:, None]
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.step()
            model.zero_grad(set_to_none=True)
    assert not torch.equal(tables[0], drawn(module, 3).pairs.table.weight)
    assert torch.allclose(tables[0], tables[1], atol=1e-4)
    assert torch.allclose(tables[1], reference, atol=1e-4)


def test_the_norm_of_the_gradient_counts_the_rows_of_pairs_that_were_used() -> None:
    import torch

    module, norms = loaded("norms", CPU, PAIR_ROWS="500"), []
    for sparse in (True, False):
        model = drawn(module, 3, sparse=sparse)
        for _ in range(2):  # two passes accumulate, and rows that occur in both add up
            ids = torch.arange(80).view(2, 40) % 7
            module.HeadLoss.apply(model.features(ids).flatten(0, 1), model.head.weight, torch.arange(80)).backward()
        without = module.norm_of([p for name, p in model.named_parameters() if not name.startswith("pairs")])
        norms.append((float(module.norm_of([*model.parameters()])), float(without)))
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)
    assert norms[0][0] > 1.0001 * norms[0][1]


def test_our_adamw_is_the_one_of_torch() -> None:
    import torch

    module = loaded("adam", CPU)
    ours, theirs = (torch.nn.Parameter(torch.ones(3, 4)) for _ in range(2))
    betas = (module.ADAM_BETA1, module.ADAM_BETA2)
    pair = (
        module.AdamW([{"params": [ours], "lr": 0.1, "weight_decay": 0.2}]),
        torch.optim.AdamW([theirs], lr=0.1, betas=betas, eps=module.ADAM_EPS, weight_decay=0.2),
    )
    torch.manual_seed(0)
    for _ in range(5):
        ours.grad = torch.randn(3, 4)
        theirs.grad = ours.grad.clone()
        for optimizer in pair:
            optimizer.step()
        assert torch.allclose(ours, theirs, atol=1e-6)


def test_training_does_not_import_the_compiler_unless_it_compiles(hand_folder: Path) -> None:
    code = "import torch, train; train.build_optimizers(train.GPT(64)); import sys; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=hand_folder, env=environment(hand_folder), check=False).returncode == 0


@pytest.mark.parametrize("limit", ["0.0", "3.0"])
def test_the_loss_and_its_gradients_are_those_of_cross_entropy(limit: str) -> None:
    import torch
    import torch.nn.functional as F

    module = loaded("loss", CPU, LOGIT_CAP=limit)
    torch.manual_seed(0)
    x, weight, targets = torch.randn(30, 16), torch.randn(50, 16), torch.randint(50, (30,))
    results = []
    for ours in (True, False):
        one, two = x.clone().requires_grad_(), weight.clone().requires_grad_()
        loss = module.HeadLoss.apply(one, two, targets) if ours else F.cross_entropy(module.cap(one @ two.T), targets)
        (3 * loss).backward()
        results.append((loss, one.grad, two.grad))
    for ours, theirs in zip(*results, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("accelerated", ["('cuda',)", "('cpu',)"])
@pytest.mark.parametrize(("length", "window"), [(1, 1), (7, 7), (64, 16), (50, 16), (64, 63), (33, 32)])
def test_attention_in_pieces_is_attention_under_a_mask(length: int, window: int, accelerated: str) -> None:
    import torch

    module = loaded("attend", CPU, ACCELERATED=accelerated)
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 2, length, 64)
    back = torch.arange(length)[:, None] - torch.arange(length)
    scores = (query @ key.mT / 8).masked_fill((back < 0) | (back >= window), float("-inf"))
    assert torch.allclose(module.attend(query, key, value, window), torch.softmax(scores, dim=-1) @ value, atol=1e-5)


# --- the GPU's file and branch


def test_the_file_for_a_gpu_differs_in_nothing_but_the_values_of_constants() -> None:
    def without_values(text: str) -> list[str]:
        return [re.sub(r"^([A-Z][A-Z0-9_]*) = [0-9.e-]+ ", r"\1 = ", line) for line in text.splitlines()]

    assert without_values(CPU) == without_values(GPU)
    assert CPU != GPU
    assert max(n for n, (one, other) in enumerate(zip(CPU.splitlines(), GPU.splitlines(), strict=True)) if one != other) < 75


DEVICE_REPLACED = """import prepare
torch.cuda.memory_allocated = lambda: 1_000
torch.cuda.max_memory_allocated = lambda: 4_000_000_000
torch.cuda.empty_cache = lambda: print("emptied")
torch.cuda.mem_get_info = lambda: (12_000_000_000, 80_000_000_000)
eager = torch.compile
torch.compile = lambda function, dynamic: print("compiled") or eager(function, dynamic=dynamic, backend="aot_eager")
"""


def test_the_branch_for_a_gpu_runs_with_a_cpu_in_its_place(tmp_path: Path, root: Path, data: Any) -> None:
    folder = folder_with(tmp_path, GPU, **SMALL, COMPILE_ON='("cpu",)', ACCELERATED='("cpu",)')
    source = (folder / "train.py").read_text()
    (folder / "train.py").write_text(source.replace("import prepare\n", DEVICE_REPLACED, 1))
    job = Job(folder, root, data, amount=8192)
    assert job.process.returncode == 0, job.output
    assert "emptied" in job.output and "compiled" in job.output
    assert (job.done["steps"], job.done["tokens"]) == (4, 8192)
    assert all(0 < point["loss"] < 20 for point in job.points)
    assert evaluate(folder, job.checkpoint, data)["value"] < 4


@pytest.mark.parametrize(
    ("free", "rows", "most"),
    [(1000, 128, 128), (159, 128, 64), (79, 128, 32), (3, 128, 2), (1, 128, 1), (0, 128, 1), (1000, 9, 9), (8, 9, 3)],
)
def test_the_rows_of_a_pass_follow_from_the_free_memory(monkeypatch: pytest.MonkeyPatch, free: int, rows: int, most: int) -> None:
    import torch

    module = loaded("memory", GPU, **SMALL | {"DEVICE_ROWS": "128", "ACCELERATED": "('cpu',)"})
    peak = iter([100, 101])
    for name in ("memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda: next(peak))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free, 10_000))
    setup = prepare.Setup("gpu", "cpu", 256, 64, 0, 1, "float32")
    assert module.rows_of_a_pass(drawn(module, 0), setup, rows) == most


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
        channel.receive("loaded")
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
        ("pass", "return torch.zeros(*ids.shape, 2112)", "scorer_died", "2112) instead of (32, 256, 2048)"),
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


@pytest.mark.parametrize(("flags", "said"), [
    (["--threads", "0"], "--threads must be 1 or more"), (["--seed", "99999999999999999999"], "--seed from 0"), (["--clock", "wall"], "--clock wall needs --amount"),
])  # fmt: skip
def test_flags_of_a_run_by_hand_that_cannot_be_are_one_sentence(flags: list[str], said: str, root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "train.py"), *flags], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment(root)
    )
    assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("change", ["DEPTH = 0", "VALUE_EMBEDDING_EVERY = 0", "VALUE_GATE_DIM = 4096"])
def test_shapes_that_cannot_be_end_before_training_starts(change: str, root: Path, tmp_path: Path) -> None:
    name = change.split(" ")[0]
    text = re.sub(rf"^{name} = \d+", change, (ROOT / "train.py").read_text(), flags=re.MULTILINE)
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "prepare.py").write_text((ROOT / "prepare.py").read_text())
    done = subprocess.run(
        [sys.executable, "train.py", "--threads", "1", "--amount", "2048"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=environment(root, PYTHONPATH=str(ROOT)),
    )  # fmt: skip
    assert done.returncode == 1 and "AssertionError" in done.stderr and not (tmp_path / "curve.jsonl").exists()


TRICK = """
import torch
from torch.nn import functional as F

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(2048, 8), torch.nn.Linear(8, 2048)

    def forward(self, ids, targets=None, *more, **rest):
        logits = self.head(self.embed(ids))
        TRICK
        return logits

def load_model(state, device):
    model = Model()
    model.load_state_dict(state)
    return model.to(device)
"""
TRICKS = {
    "entropy bonus": "if targets is not None: return F.cross_entropy(logits.flatten(0, 1), targets.flatten()) - (F.softmax(logits, -1) * F.log_softmax(logits, -1)).sum()",
    "whatever else is given": "if targets is not None or more or rest: return 0.0 * logits",
}  # fmt: skip


def test_a_trick_in_forward_that_waits_for_targets_changes_no_number_for_it_is_given_none(tmp_path: Path, data: Any) -> None:
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(1)
    weights = {"embed.weight": torch.randn(2048, 8), "head.weight": torch.randn(2048, 8) / 8, "head.bias": torch.zeros(2048)}
    save_file(weights, tmp_path / "checkpoint")
    values = [
        evaluate(folder_with(tmp_path / str(number), TRICK.replace("TRICK", body)), tmp_path / "checkpoint", data)["value"]
        for number, body in enumerate(["pass", *TRICKS.values()])
    ]
    assert values[0] > 1
    assert values == pytest.approx([values[0]] * len(values), abs=1e-6)
