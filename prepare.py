"""The fixed side of an experiment: data folder, loader, budget clock and evaluation. The researcher never edits it.

    python prepare.py [--profile cpu] [--data DIR]            prepare the data; a second call only verifies it
    python prepare.py --profile gpu [--shards N] [--from DIR] the same for public shards, fetched or from a folder
    python prepare.py describe [--profile cpu] [--data DIR]   print what is prepared as one JSON object
    python prepare.py evaluate | audit | rehearse | serve     the two sides of an evaluation (docs/design/0002-*.md)

How a number comes about: the corpus is cut into documents, documents into tokens (harness/corpus/, which `prepare` alone uses), and
every token is worth the bytes it stands for. `train.py` sees training tokens only. Its checkpoint is loaded by a scorer process (`serve`)
that claims a loss for each next token; the trusted process (`evaluate`) adds the claims up and divides by bytes. Nothing is unpickled.
Before a claim is believed, another scorer is shown beginnings of rows alone and must give the same losses (`audit`).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any, BinaryIO

import numpy as np

Json = dict[str, Any]
METRIC = "val_bpb"
HELLO = ("profile", "device", "threads")  # what a scorer is told
TRUSTED = ("evaluate", "audit", "rehearse")  # what the trusted process can be asked for
ROUNDING = 1e-5  # nats: a mean difference of an audit below this is arithmetic, and corrects nothing
MAX_POINTS = 500  # lines in a learning curve, however long the run
MAX_LINE = 64 * 1024  # bytes of one message, its newline included
BLOCK = 1 << 23  # training tokens that are shuffled and packed into rows at once
FILES = ("train.bin", "val.bin", "sealed.bin", "bytes.bin", "tokenizer.json")

# The embedded corpus; bytes and SHA-256 of a split are those of the text that its tokens must decode to. No merge crosses a piece.
EMBEDDED = {
    "schema_version": 1, "corpus_sha256": "3b397cfe7709004e9e421411ba5731e673e69c3de2f93905adfaf87c279a88e5", "vocab_size": 2048,
    "texts": {"train": [9_806_494, "6e3e00bbe73765e2c6d1132949af76e5441803ef6f31ffdc6f3fc004a0318cca"],
              "val": [490_293, "70226de6ed0979722bc8f722f528e3a820beb182f840cff7c524f9593bc8db3e"],
              "sealed": [464_604, "1d9374006cdffb4bb466ae1fd0f4747aba52debf591e9721e81ca6845193df2c"]},
    "pieces": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}{1,2}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "sentence_end": r"(?<=[.!?;:])(?=\s+[\"'(A-Z0-9])", "passage_bytes": 1000,
}  # fmt: skip
# The public corpus, shuffled by its maker; its last shard is upstream's validation, the one before is sealed. Not verified, for want of
# a network: which commit `main` is (name it here to pin it), and the digests of the shards, which the hub states.
PUBLIC = {
    "schema_version": 1, "dataset": "karpathy/climbmix-400b-shuffle", "revision": "main", "val_shard": 6542, "sealed_shard": 6541,
    "vocab_size": 8192, "sample_bytes": 100_000_000,  # text of the first training shard that the tokenizer learns from
    "pieces": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}  # fmt: skip


class DataError(Exception):
    """The corpus or the prepared data cannot be used; the message is one sentence that names the file."""


class ScorerFault(Exception):
    """The candidate's scorer failed; the arguments are a reason of the contract and one sentence of detail."""


@dataclass(frozen=True)
class Profile:
    """A kind of data. Everything that is prepared depends on `identity`: its hash names the folder, the manifest repeats it."""

    folder: str
    vocab_size: int  # 256 bytes, the merges, and last BOS, which stands before every document (cpu: every passage), worth no bytes
    context: int  # tokens predicted in a row, in training and evaluation
    bos_first: bool  # whether a window of the evaluation begins with BOS, as a row in training does, or with the id before it
    rows: int  # rows in one question to the scorer; the value does not depend on it
    hand: tuple[str, float]  # clock and amount of a run by hand
    identity: Json


PROFILES = {
    "cpu": Profile("cpu-3b397cfe-bpe2048", 2048, 256, False, 4, ("tokens", 675_840), EMBEDDED),  # 330 steps of 2,048 tokens
    "gpu": Profile("gpu-climbmix-bpe8192", 8192, 2048, True, 16, ("wall", 300), PUBLIC),
}


def check_text(name: str, ids: np.ndarray, tokens: list[bytes], table: np.ndarray, text: tuple[int, str]) -> None:
    """Raise DataError unless the ids are worth exactly the bytes of the text and decode to exactly it: its size and digest."""
    worth, digest, words = int(table[ids].sum(dtype=np.int64)), sha256(), [*tokens, b""]
    for at in range(0, len(ids), 1 << 20):
        digest.update(b"".join(map(words.__getitem__, ids[at : at + (1 << 20)].tolist())))
    if [worth, digest.hexdigest()] != [*text]:
        raise DataError(f"{name} does not decode to its text: its tokens are worth {worth} bytes of {text[0]} or give another SHA-256")


def data_folder(profile: str, root: str | None = None) -> Path:
    """Where a profile's data lives: under `root`, else $RATCHET_DATA, else the user's cache. Raises DataError."""
    if profile not in PROFILES:
        raise DataError(f"there is no profile {profile}: use --profile {' or --profile '.join(PROFILES)}")
    cache, found = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ratchet", PROFILES[profile]
    name = f"{found.folder}-{sha256(json.dumps(found.identity, sort_keys=True).encode()).hexdigest()[:8]}"
    return Path(root or os.environ.get("RATCHET_DATA") or cache).absolute() / name


def faults(folder: Path, identity: Json, names: Sequence[str] = FILES, digest: Callable[[Path], str] | None = None) -> list[str]:
    """What is wrong with these files of a data folder, a phrase for each; empty when they are as the manifest says."""
    digest = digest or (lambda path: sha256(np.memmap(path, mode="r")).hexdigest())
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        expected = {name: (manifest["files"][name]["bytes"], manifest["files"][name]["sha256"]) for name in names}
        same = all(manifest[key] == value for key, value in identity.items())
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [f"manifest.json is {'missing' if isinstance(error, FileNotFoundError) else 'damaged'}"]
    found = [] if same else ["manifest.json belongs to another corpus or tokenizer"]
    for name, (size, known) in expected.items():
        there = (folder / name).stat().st_size if (folder / name).is_file() else None
        if there != size or digest(folder / name) != known:
            bad = "missing" if there is None else f"damaged, {there} bytes instead of {size} or not the recorded SHA-256"
            found.append(f"{name} is {bad}")
    return found


@dataclass(frozen=True)
class Data:
    """A verified data folder. `sha256` is the hash of its manifest and so stands for every file."""

    profile: Profile
    folder: Path
    manifest: Json
    sha256: str

    @classmethod
    def open(cls, profile: str, root: str | None = None, **checks: Any) -> Data:
        """Verify what `prepare` made, by `faults` with these `checks`, and open it. Raises DataError, one sentence, repairs nothing."""
        folder = data_folder(profile, root)
        for fault in faults(folder, PROFILES[profile].identity, **checks):
            raise DataError(f"{folder}: {fault}; run `python prepare.py --profile {profile}` to build it")
        raw = (folder / "manifest.json").read_bytes()
        return cls(PROFILES[profile], folder, json.loads(raw), sha256(raw).hexdigest())

    def split(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A split's ids, (tokens,) uint16, memory mapped, and the byte table. Raises DataError unless they are its text."""
        ids, table = (np.memmap(self.folder / f"{file}.bin", dtype="<u2", mode="r") for file in (name, "bytes"))
        if name in self.manifest["texts"]:  # the public training text was checked when it was encoded, document by document
            words = [bytes.fromhex(token) for token in json.loads((self.folder / "tokenizer.json").read_bytes())["tokens"]]
            check_text(f"{name}.bin", ids, words, table, self.manifest["texts"][name])
        return ids, table


def prepare(profile: str, root: str | None = None, **request: Any) -> Data:
    """Build the data unless every file is there, right and as requested, saying what was wrong; verify it. Raises DataError."""
    from harness.corpus import preparing

    folder, identity = data_folder(profile, root), PROFILES[profile].identity
    preparing.run(folder, identity, request, lambda: faults(folder, identity, digest=preparing.remembered), DataError)
    return Data.open(profile, root, digest=preparing.remembered)


def describe(profile: str, root: str | None = None) -> Json:
    """The prepared data as the harness wants to know it (docs/design/0002-*.md). Raises DataError."""
    from harness.corpus import preparing

    data = Data.open(profile, root, digest=preparing.remembered)
    files = preparing.listed(data.folder, (*FILES, "manifest.json"))
    facts = {"profile": profile, "metric": METRIC, "vocab_size": data.profile.vocab_size, "context": data.profile.context}
    return facts | {"audit": True, "data_sha256": data.sha256, "train": str(data.folder / "train.bin"), "files": files}


class Channel:
    """One JSON object with one key a line over a stream socket, raw bytes after it where the contract says so.

    A message may bring at most `handed` descriptors: whoever holds too many that it never wanted can open no file any more.
    """

    def __init__(self, sock: socket.socket | int, handed: int = 0) -> None:
        self.sock, self._handed = socket.socket(fileno=sock) if isinstance(sock, int) else sock, handed
        self._buffer, self.descriptors = bytearray(), list[int]()

    def send(self, kind: str, body: Json, payload: bytes = b"") -> None:
        """Send one message. Raises ValueError for NaN, infinity or a line above MAX_LINE, OSError without a reader."""
        line = json.dumps({kind: body}, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        if len(line) > MAX_LINE:
            raise ValueError(f"a {kind} message of {len(line)} bytes")
        self.sock.sendall(line + payload)

    def receive(self, *kinds: str) -> tuple[str, Json]:
        """The next message, one of these kinds, as (kind, body). Raises EOFError, or ValueError for anything else."""
        while (end := self._buffer.find(b"\n") + 1) == 0 and len(self._buffer) < MAX_LINE:
            if not self._fill():
                raise EOFError("the other end has closed")
        message = json.loads(self.read(end if 0 < end <= MAX_LINE else 0))
        kind, body = next(iter(message.items())) if isinstance(message, dict) and len(message) == 1 else ("", None)
        if kind not in kinds or not isinstance(body, dict):
            raise ValueError(f"expected {' or '.join(kinds)}, got {str(message)[:80]}")
        return kind, body

    def read(self, size: int) -> bytes:
        """The next raw bytes: `size` of them, or fewer when the other end has closed."""
        while len(self._buffer) < size and self._fill():
            pass
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _fill(self) -> bool:
        try:
            data, descriptors = socket.recv_fds(self.sock, MAX_LINE, self._handed)[:2] if self._handed else (self.sock.recv(MAX_LINE), [])
        except ConnectionResetError:
            return False
        self.descriptors += descriptors
        self._buffer += data
        return bool(data)


class Budget:
    """How much of the run is used, from the handover on: `wall` or `cpu` seconds, or `tokens` handed out by the loader."""

    def __init__(self, clock: str, amount: float, now: Callable[[], float] | None = None) -> None:
        if clock not in ("wall", "cpu", "tokens") or not amount > 0:
            raise ValueError(f"no such budget: {amount} of {clock!r}")
        self.clock, self.amount, self.tokens = clock, amount, 0
        self._now = now or (time.monotonic if clock != "cpu" else lambda: sum(os.times()[:4]))  # children included
        self._start = self._now()

    def seconds(self) -> float:
        """Seconds since the handover: CPU seconds for the `cpu` clock, else wall seconds."""
        return self._now() - self._start

    def progress(self) -> float:
        """The share used, 0 to 1. Every schedule is a function of it."""
        return min(1.0, (self.tokens if self.clock == "tokens" else self.seconds()) / self.amount)

    @property
    def done(self) -> bool:
        """Whether the budget is used up."""
        return self.progress() >= 1.0


def pack(texts: list[tuple[int, int]], context: int) -> tuple[list[tuple[int, int]], list[int], list[tuple[int, int]]]:
    """Best fit of texts (first token, how many; without BOS) into rows of context + 1: always the longest that fits what is left.

    When none fits, the longest is cut, and its rest becomes a text with a BOS of its own. Gives the texts in their rows, where
    in that list each row ends, and the texts that fill no other row: no token is lost.
    """
    placed, ends, slots, sizes = list[tuple[int, int]](), list[int](), 0, 0
    shelves: list[list[int]] = [[] for _ in range(context + 2)]  # texts by the slots they need; bit n of `sizes`: there is one on shelf n
    for begin, size in texts:
        whole, need = size // context, size % context + 1
        placed += [(begin + k * context, context) for k in range(whole)]
        ends += range(len(placed) - whole + 1, len(placed) + 1)
        if need > 1:
            shelves[need].append(begin + whole * context)
            slots, sizes = slots + need, sizes | 1 << need
    while slots > context:
        left = context + 1
        while left:
            size = (sizes & ((2 << left) - 1) or sizes).bit_length() - 1
            begin, taken = shelves[size].pop(), min(size, left)
            placed.append((begin, taken - 1))
            if taken < size:
                shelves[size - taken + 1].append(begin + taken - 1)
                slots, sizes = slots + size - taken + 1, sizes | 1 << size - taken + 1
            sizes &= ~(0 if shelves[size] else 1 << size)
            left, slots = left - taken, slots - size
        ends.append(len(placed))
    return placed, ends, [(begin, need - 1) for need, shelf in enumerate(shelves) for begin in shelf]


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """start, start + 1, … for each start, `count` numbers each, one after the other."""
    return np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))


def token_rows(tokens: np.ndarray, setup: Setup, rows: int, skip: int = 0) -> Iterator[np.ndarray]:
    """Endless arrays (rows, context + 1), from array `skip` on: a pure function of tokens, context and seed, whatever `rows` is.

    Each epoch the documents come in a new order and are packed some BLOCK tokens at a time; what fills no row goes on to the next
    time. Then the rows are shuffled. Where the documents begin stands for the tokens in the key of all this.
    """
    tokens, context, bos, skip = np.asarray(tokens), setup.context, setup.vocab_size - 1, skip * rows
    starts = np.concatenate([at + np.flatnonzero(tokens[at : at + BLOCK] == bos) for at in range(0, len(tokens), BLOCK)] or [[]])
    sizes, corpus = np.diff(starts, append=len(tokens)) - 1, sha256(starts.tobytes()).hexdigest()
    if not len(starts) or starts[0] or sizes.sum() <= context:
        raise DataError(f"{len(tokens)} training tokens do not fill one row of {context} + 1, or do not begin with BOS")
    rest, held, epoch = list[tuple[int, int]](), np.empty((0, context + 1), "<u2"), 0
    while True:
        random = np.random.Generator(np.random.PCG64(int(sha256(f"{corpus} {context} {setup.seed} {epoch}".encode()).hexdigest(), 16)))
        for some in np.array_split(random.permutation(len(starts)), -(-len(tokens) // BLOCK)):
            placed, ends, rest = pack([*rest, *zip((starts[some] + 1).tolist(), sizes[some].tolist(), strict=True)], context)
            texts, before, each = np.array(placed).reshape(-1, 2), np.array([0, *ends[:-1]]), np.diff(ends, prepend=0)
            order = random.permutation(len(ends))
            for at in range(min(skip, len(order)), len(order), step := max(rows, (1 << 16) // context)):
                begin, size = texts[ranges(before[order[at : at + step]], each[order[at : at + step]])].T
                made = tokens.take(ranges(begin - 1, size + 1))
                made[np.cumsum(size + 1) - size - 1] = bos
                held = np.concatenate((held, made.reshape(-1, context + 1)))
                yield from held[: len(held) // rows * rows].reshape(-1, rows, context + 1)
                held = held[len(held) // rows * rows :]
            skip = max(0, skip - len(order))
        epoch += 1


def ahead(items: Iterator[Any], depth: int) -> Iterator[Any]:
    """The same endless items, made up to `depth` ahead by a thread."""
    with ThreadPoolExecutor(1) as pool:
        coming = [pool.submit(next, items) for _ in range(depth)]
        while True:
            yield coming.pop(0).result()
            coming.append(pool.submit(next, items))


@dataclass(frozen=True)
class Setup:
    """What a run is given before it builds its model. `device` is cpu or cuda, `autocast` bfloat16 or float32."""

    profile: str
    device: str
    vocab_size: int
    context: int
    seed: int
    threads: int
    autocast: str

    def precision(self) -> Any:
        """A context manager for forward passes; training and evaluation use the same."""
        import torch

        return torch.autocast(self.device, torch.bfloat16, enabled=self.autocast == "bfloat16")


@dataclass(frozen=True)
class Training:
    """What the handover brings: `tokens` (n,) uint16 read only, and the running `budget`."""

    tokens: np.ndarray
    budget: Budget
    setup: Setup

    def batches(self, rows: int, skip: int = 0) -> Iterator[tuple[Any, Any]]:
        """Endless (inputs, targets), int64 tensors (rows, context) on the device, from batch `skip` on; each is booked in the budget."""
        import torch

        context, device = self.setup.context, self.setup.device
        made = token_rows(self.tokens, self.setup, rows, skip)
        pairs: Any = ([torch.from_numpy(half.astype(np.int64)) for half in (row[:, :-1], row[:, 1:])] for row in made)
        if device == "cuda":
            pairs = ahead(([half.pin_memory() for half in pair] for pair in pairs), 4)
        for inputs, targets in pairs:
            self.budget.tokens += rows * context
            yield inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)


# ------------------------------------------------------------------------------------------------ a job: train.py
# The one run of this process. The next point of its curve is due when progress reaches due / (MAX_POINTS - 1).
_job = argparse.Namespace(setup=None, training=None, channel=None, due=0, mean=0.0, weight=0.0, started=time.monotonic())


def make_setup(profile: str, device: str, seed: int, threads: int) -> Setup:
    """Resolve `auto`, set torch's threads and seed, and decide the precision. Raises DataError for a missing GPU."""
    import torch

    device = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if device != "cpu" and not torch.cuda.is_available():
        raise DataError(f"device {device} was asked for and torch sees none: use --device cpu")
    with contextlib.suppress(OSError, AttributeError):  # glibc: keep freed blocks of up to 1 GiB, which saves a fifth
        for option, value in ((-3, 1 << 30), (-1, (1 << 31) - 1)):  # of the time on a CPU; results stay the same
            ctypes.CDLL(None).mallopt(option, value)
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    fast = torch.cuda.is_bf16_supported() if device != "cpu" else "avx512_bf16" in flags or "amx_bf16" in flags
    autocast, found = "bfloat16" if fast else "float32", PROFILES[profile]
    return Setup(profile, device, found.vocab_size, found.context, seed, threads, autocast)


def setup() -> Setup:
    """Begin a run: the harness's `hello`, or by hand the flags of `train.py`. Exits with 1 when there is no sound data."""
    if "RATCHET_SOCKET" in os.environ:
        _job.channel = Channel(int(os.environ["RATCHET_SOCKET"]), handed=2)
        _job.setup = make_setup(**_job.channel.receive("hello")[1])
        return _job.setup
    parser = argparse.ArgumentParser(description="Train by hand, evaluate, print a summary. Clock and amount: the profile's unless given.")
    flags = {"profile": "cpu", "data": "", "device": "auto", "seed": 0, "threads": os.cpu_count() or 1, "clock": "", "amount": 0.0}
    for name, default in flags.items():
        parser.add_argument(f"--{name}", default=default, type=type(default), help="default: %(default)s")
    _job.flags = parser.parse_args()
    try:
        _job.data = Data.open(_job.flags.profile, _job.flags.data)
        clock, amount = _job.data.profile.hand
        if _job.flags.threads < 1 or not 0 <= _job.flags.seed < 2**63:
            raise ValueError("--threads must be 1 or more, and --seed from 0 to 2^63 - 1")
        given = _job.flags.amount or (amount if _job.flags.clock in ("", clock) else 0)  # 675,840 are no seconds
        if not given and _job.flags.clock in ("wall", "cpu", "tokens"):
            raise ValueError(f"--clock {_job.flags.clock} needs --amount")
        _job.flags.clock, _job.flags.amount = _job.flags.clock or clock, given
        Budget(_job.flags.clock, _job.flags.amount)
        _job.setup = make_setup(_job.flags.profile, _job.flags.device, _job.flags.seed, _job.flags.threads)
    except (DataError, ValueError) as error:
        sys.exit(str(error))
    return _job.setup


def open_training() -> Training:
    """Say ready, receive the data, and start the clock. Call once, with everything built and compiled."""
    if _job.channel is None:
        Path("curve.jsonl").write_text("")
        tokens, budget = _job.data.split("train")[0], Budget(_job.flags.clock, _job.flags.amount)
    else:
        _job.channel.send("ready", {})
        go = _job.channel.receive("go")[1]
        with os.fdopen(_job.channel.descriptors[0], "rb") as file:
            tokens, budget = np.memmap(file, dtype="<u2", mode="r"), Budget(go["clock"], go["amount"])
    _job.training = Training(tokens, budget, _job.setup)
    return _job.training


def record(*, step: int, loss: float, lr: float | None = None, grad_norm: Any = None) -> None:
    """Note a training loss in nats; at most MAX_POINTS a run become points of the curve. What is no finite number is null."""
    budget, finite = _job.training.budget, math.isfinite(loss)
    progress = budget.progress()
    if finite:
        _job.mean, _job.weight = 0.95 * _job.mean + 0.05 * loss, 0.95 * _job.weight + 0.05
    if finite and progress * (MAX_POINTS - 1) < _job.due:
        return
    _job.due = int(progress * (MAX_POINTS - 1)) + 1
    given = {"loss": loss, "ema_loss": _job.mean / _job.weight if _job.weight else None, "lr": lr, "grad_norm": grad_norm}
    numbers = {name: None if value is None or not math.isfinite(value) else float(value) for name, value in given.items()}
    point = {"step": step, "progress": progress, **numbers, "tokens": budget.tokens}
    point |= {"tokens_per_second": budget.tokens / max(budget.seconds(), 1e-9), "peak_memory_mb": round(peak_memory_mb(), 1)}
    if _job.channel is not None:
        _job.channel.send("point", point)
    else:
        with Path("curve.jsonl").open("a") as curve:
            curve.write(json.dumps(point) + "\n")


def peak_memory_mb() -> float:
    """The most memory that this process has had so far: the GPU's, or the resident memory on a CPU."""
    cuda = _job.setup.device != "cpu" and sys.modules["torch"].cuda
    return cuda.max_memory_allocated() / (1 << 20) if cuda else getrusage(RUSAGE_SELF).ru_maxrss / 1024


def save_checkpoint(model: Any, *, steps: int, depth: int) -> None:
    """End the run: write the weights as safetensors and print the summary; by hand also evaluate them."""
    from safetensors.torch import save

    # No torch.compile prefixes, and tied weights under each of their names: a plain load_state_dict works.
    state = {name.replace("_orig_mod.", ""): value.detach() for name, value in model.state_dict().items()}
    with open(_job.channel.descriptors[1] if _job.channel else "checkpoint.safetensors", "wb") as file:  # noqa: PTH123
        file.write(save({name: value.to("cpu", copy=True).contiguous() for name, value in state.items()}))
    tokens, seconds = _job.training.budget.tokens, _job.training.budget.seconds()
    parameters, summary = sum(p.numel() for p in model.parameters()), {}
    if _job.channel is not None:
        facts = {"steps": steps, "tokens": tokens, "parameters": parameters, "dtype": _job.setup.autocast, "device": _job.setup.device}
        _job.channel.send("done", facts)
    else:
        summary[METRIC] = f"{evaluate_by_hand()['value']:.6f}"
    summary |= {"training_seconds": f"{seconds:.1f}", "total_seconds": f"{time.monotonic() - _job.started:.1f}"}
    summary |= {"peak_vram_mb": f"{peak_memory_mb():.1f}", "total_tokens_M": f"{tokens / 1e6:.3f}"}
    summary |= {"num_steps": str(steps), "num_params_M": f"{parameters / 1e6:.3f}", "depth": str(depth)}
    print("---", *(f"{key + ':':<18}{value}" for key, value in summary.items()), sep="\n", flush=True)


def evaluate_by_hand() -> Json:
    """Score ./checkpoint.safetensors on the validation split with a scorer process, as the harness does."""
    ours, theirs = socket.socketpair()
    with theirs, Path("checkpoint.safetensors").open("rb") as checkpoint:
        handed = {"RATCHET_SOCKET": theirs.fileno(), "RATCHET_CHECKPOINT": checkpoint.fileno()}
        environment = os.environ | {name: str(number) for name, number in handed.items()}
        command, folder = [sys.executable, str(Path(__file__).resolve()), "serve"], Path(sys.argv[0]).resolve().parent
        scorer = subprocess.Popen(command, cwd=folder, env=environment, pass_fds=tuple(handed.values()))
    with scorer, ours:
        try:
            greet(channel := Channel(ours), {k: vars(_job.setup)[k] for k in HELLO})
            return score(_job.data, "val", channel)
        except ScorerFault as fault:
            sys.exit(f"the evaluation failed, {': '.join(fault.args)}")


# ----------------------------------------------------------------------------------------------------- evaluation
def windows(ids: np.ndarray, profile: Profile) -> np.ndarray:
    """A stream in rows (windows, context + 1) int32 that predict each id once, but its first where rows begin with the id before."""
    ids = ids if profile.bos_first else ids[1:]
    rows = np.full((-(-len(ids) // profile.context), profile.context + 1), profile.vocab_size - 1, dtype="<i4")
    rows[:, 1:].flat[: len(ids)] = ids
    rows[1:, 0] = profile.vocab_size - 1 if profile.bos_first else rows[:-1, -1]
    return rows


def greet(scorer: Channel, hello: Json) -> None:
    """Wait until the scorer has loaded its model. Raises ScorerFault."""
    try:
        scorer.send("hello", hello)
        kind, body = scorer.receive("ready", "fault")
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise ScorerFault("scorer_died", f"the scorer ended before it was ready: {error}") from error
    if kind != "ready":
        raise ScorerFault("load_failed", str(body.get("detail"))[:300])


def answers(scorer: Channel, question: str, rows: np.ndarray, more: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """The scorer's float32 numbers for some rows, in this shape, finite or not. Raises ScorerFault."""
    size = 4 * math.prod(shape)
    with contextlib.suppress(OSError):  # it has closed; what it said before tells why
        scorer.send(question, {"count": rows.shape[0], "length": rows.shape[1]}, rows.tobytes() + more)
    answer = scorer.read(size)
    if answer.startswith(b'{"fault":'):  # its last words in place of an answer
        raise ScorerFault("scorer_died", answer.decode(errors="replace").partition('"detail":')[2].strip('"}\n'))
    if len(answer) < size:
        reason = "short_answer" if answer else "scorer_died"
        raise ScorerFault(reason, f"the scorer ended after {len(answer)} of the {size} bytes of an answer")
    numbers: np.ndarray = np.frombuffer(answer, dtype="<f4").reshape(shape)
    return numbers


def claims(scorer: Channel, rows: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The scorer's loss in nats of each next id, float32 like `counted`, 0 where that is false. Raises ScorerFault."""
    losses = np.where(counted, answers(scorer, "rows", rows, b"", counted.shape), np.float32(0))
    for reason, bad in (("not_finite", ~np.isfinite(losses)), ("negative_loss", losses < 0)):
        if bad.any():
            raise ScorerFault(reason, f"{int(bad.sum())} of {bad.size} losses, such as {losses[bad][0]}")
    return losses


def score(data: Data, split: str, scorer: Channel, rows: int = 0, claimed: BinaryIO | None = None) -> Json:
    """Score a split with a scorer that is ready: the contract's record, less its token; `claimed` takes the claims as float32.

    Raises DataError and ScorerFault.
    """
    rows, profile = rows or data.profile.rows, data.profile
    ids, table = data.split(split)
    grid = windows(ids, profile)
    counted = grid[:, 1:] != profile.vocab_size - 1  # neither BOS nor padding counts, and both are worth no bytes
    losses = np.empty(counted.shape, dtype=np.float64)
    for at in range(0, len(grid), rows):
        losses[at : at + rows] = claims(scorer, grid[at : at + rows], counted[at : at + rows])
    with contextlib.suppress(OSError):  # every answer is in
        scorer.send("end", {})
    if claimed is not None:
        claimed.write(losses.astype("<f4").tobytes())
    cuts = np.maximum(np.array(data.manifest["splits"][split]["starts"]) - (not profile.bos_first), 0)  # the first is not predicted
    nats, sizes = np.add.reduceat(losses.ravel(), cuts), np.add.reduceat(table[grid[:, 1:]].ravel().astype(int), cuts)
    total, size = float(nats.sum()), int(sizes.sum())
    if size != data.manifest["texts"][split][0]:
        raise DataError(f"the windows of {split}.bin are worth {size} bytes, the text has {data.manifest['texts'][split][0]}")
    result = {"value": total / (math.log(2) * size), "nats": total, "bytes": size, "tokens": int(counted.sum())}
    documents = [{"nats": float(n), "bytes": int(b)} for n, b in zip(nats, sizes, strict=True)]
    return result | {"windows": len(grid), "documents": documents, "data_sha256": data.sha256}


def beginnings(scorer: Channel, grid: np.ndarray, at: np.ndarray, cut: np.ndarray, vocab: int, random: np.random.Generator) -> np.ndarray:
    """Losses in nats, float64 (n,), of the ids at these rows and columns, from logits for rows that end before them. Raises ScorerFault.

    What stands from the column on is replaced, in one row by random ids and in another by another row's in disorder: no text that may be asked for.
    """
    noise, others = random.integers(vocab - 1, size=grid[at].shape), random.permuted(grid[random.integers(len(grid), size=len(at))], axis=1)
    foreign = np.where(random.random(len(at))[:, None] < 0.5, noise, others)
    rows = np.where(np.arange(grid.shape[1]) < cut[:, None], grid[at], foreign).astype("<i4")
    logits: np.ndarray = answers(scorer, "beginnings", rows, cut.astype("<i4").tobytes(), (len(rows), vocab)).astype(np.float64)
    if not np.isfinite(logits).all():
        raise ScorerFault("not_finite", f"{int((~np.isfinite(logits)).sum())} of {logits.size} logits")
    highest = logits.max(axis=1)
    losses: np.ndarray = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1)) - logits[np.arange(len(at)), grid[at, cut]]
    return losses


def audit(data: Data, split: str, scorer: Channel, claimed: bytes, positions: int, tolerance: float, rows: int = 0) -> Json:
    """Compare stored claims with what another scorer, that is ready, knows at secret positions: the contract's `audited`, less its token.

    Nobody who made the claims could know which positions, and who is asked now has not seen what stands there: of each row the shorter beginnings
    come first. Raises DataError, ScorerFault.
    """
    ids, _ = data.split(split)
    grid, random, profile = windows(ids, data.profile), np.random.default_rng(), data.profile
    counted = grid[:, 1:] != profile.vocab_size - 1
    known = np.frombuffer(claimed, dtype="<f4").reshape(counted.shape)
    chosen = random.choice(np.flatnonzero(counted), min(positions, int(counted.sum())), replace=False)
    chosen = chosen[np.argsort(chosen % profile.context, kind="stable")]
    at, cut = chosen // profile.context, chosen % profile.context + 1
    steps = (slice(first, first + (rows or profile.rows)) for first in range(0, len(at), rows or profile.rows))
    found = [beginnings(scorer, grid, at[step], cut[step], profile.vocab_size, random) for step in steps]
    with contextlib.suppress(OSError):
        scorer.send("end", {})
    differences = known[at, cut - 1].astype(np.float64) - np.concatenate(found)
    mean, sizes = float(differences.mean()), np.abs(differences)
    error = float(differences.std(ddof=1)) / math.sqrt(len(at)) if len(at) > 1 else 0.0
    bits = mean * int(counted.sum()) / (math.log(2) * data.manifest["texts"][split][0]) if abs(mean) > ROUNDING else 0.0
    facts = {"positions": len(at), "mean": mean, "standard_error": error, "correction": bits, "tolerance": tolerance}
    return facts | {"worst": float(sizes.max()), "p999": float(np.quantile(sizes, 0.999)), "off": int((sizes > tolerance).sum())}


def rehearse(profile: Profile, scorer: Channel, positions: int) -> Json:
    """Try the contract on random ids, with a scorer that is ready: how far a loss moves when only later ids change. Raises ScorerFault."""
    random = np.random.default_rng()
    grid = random.integers(profile.vocab_size - 1, size=(profile.rows, profile.context + 1)).astype("<i4")
    claims(scorer, grid, np.ones((profile.rows, profile.context), dtype=bool))
    moved = 0.0
    for _ in range(-(-positions // profile.rows)):
        at, cut = np.arange(profile.rows), random.integers(1, profile.context + 1, size=profile.rows)
        one, two = (beginnings(scorer, grid, at, cut, profile.vocab_size, random) for _ in range(2))
        moved = max(moved, float(np.abs(one - two).max()))
    with contextlib.suppress(OSError):
        scorer.send("end", {})
    return {"positions": -(-positions // profile.rows) * profile.rows, "moved": moved}


def trusted(mode: str, root: str | None = None) -> None:
    """The trusted process: answer the harness's `evaluate`, `audit` or `rehearse` with a record or a `fault`. Raises DataError."""
    harness, scorer = Channel(int(os.environ["RATCHET_SOCKET"])), Channel(int(os.environ["RATCHET_SCORER"]))
    asked, stored = harness.receive(mode)[1], int(os.environ.get("RATCHET_CLAIMS") or os.open(os.devnull, os.O_RDWR))
    try:
        if mode != "rehearse":
            split = asked["split"]
            data = Data.open(asked["profile"], root, names=(f"{split}.bin", "bytes.bin", "tokenizer.json"))
        greet(scorer, {k: asked[k] for k in HELLO})
        harness.send("loaded", {})
        if mode == "rehearse":
            answer = ("rehearsed", rehearse(PROFILES[asked["profile"]], scorer, asked["positions"]))
        elif mode == "audit":
            with open(stored, "rb") as file:
                answer = ("audited", audit(data, split, scorer, file.read(), asked["positions"], asked["tolerance"]))
        else:
            with open(stored, "wb") as file:
                answer = ("record", score(data, split, scorer, claimed=file))
        answer[1]["token"] = asked["token"]
    except ScorerFault as fault:
        answer = ("fault", {"reason": fault.args[0], "detail": str(fault.args[1])[:500]})
    harness.send(*answer)


def serve() -> int:
    """The scorer process: load the candidate's model, then claim losses, or give logits at a cut, until `end`. Its errors become a `fault`."""
    import torch
    from safetensors.torch import load
    from torch.nn.functional import cross_entropy

    channel = Channel(int(os.environ["RATCHET_SOCKET"]))
    made = make_setup(**channel.receive("hello")[1], seed=0)
    try:
        sys.path.insert(0, str(Path.cwd()))
        import train

        with open(int(os.environ["RATCHET_CHECKPOINT"]), "rb") as file:  # noqa: PTH123
            model = train.load_model(load(file.read()), made.device)
        channel.send("ready", {})
        while (message := channel.receive("rows", "beginnings", "end"))[0] != "end":
            kind, (count, length) = message[0], (message[1]["count"], message[1]["length"])
            raw = np.frombuffer(channel.read(4 * count * (length + (kind == "beginnings"))), dtype="<i4")
            ids = torch.from_numpy(raw[: count * length].astype(np.int64)).to(made.device).view(count, length)
            with torch.inference_mode(), made.precision():
                logits, shape = model(ids[:, :-1]).float(), (count, length - 1, made.vocab_size)
                if logits.shape != shape:  # an answer that is too short would be waited for
                    raise ValueError(f"logits {tuple(logits.shape)} instead of {shape}")
                if kind == "rows":
                    numbers = cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
                else:
                    cut = torch.from_numpy(raw[count * length :].astype(np.int64)).to(made.device)
                    numbers = logits[torch.arange(count, device=made.device), cut - 1]
            channel.sock.sendall(numbers.cpu().numpy().astype("<f4").tobytes())
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the candidate's code raises becomes the fault
        with contextlib.suppress(OSError):
            channel.send("fault", {"detail": f"{type(error).__name__}: {error}"[:150]})
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run a sub-command; a DataError becomes one sentence on stderr and exit status 1."""
    parser = argparse.ArgumentParser(description="Prepare the data of an experiment, describe it, or evaluate on it.")
    parser.add_argument("command", nargs="?", default="prepare", choices=("prepare", "describe", *TRUSTED, "serve"))
    parser.add_argument("--profile", default="cpu", choices=PROFILES, help="cpu: the embedded corpus, gpu: shards of a public one")
    parser.add_argument("--shards", type=int, help="gpu: how many training shards (default: those there are, else 10)")
    parser.add_argument("--from", dest="source", metavar="DIR", help="gpu: take the shards from a folder, without a network")
    parser.add_argument("--val-bytes", type=int, help="gpu: text in each held-out split (default 64,000,000)")
    parser.add_argument("--data", help="folder for the data (default $RATCHET_DATA, else ~/.cache/ratchet)")
    args = parser.parse_args(arguments)
    try:
        if args.command == "serve":
            return serve()
        if args.command == "prepare":
            prepare(args.profile, args.data, shards=args.shards, source=args.source, val_bytes=args.val_bytes)
        elif args.command == "describe":
            print(json.dumps(describe(args.profile, args.data)))
        else:
            trusted(args.command, args.data)
    except DataError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
