"""The fixed side of an experiment: data, tokenizer, loader, budget clock and evaluation. The researcher never edits it.

    python prepare.py [--profile cpu] [--data DIR]            prepare the data; a second call only verifies it
    python prepare.py describe [--profile cpu] [--data DIR]   print what is prepared as one JSON object
    python prepare.py evaluate | serve                        the two sides of an evaluation (docs/design/0002-*.md)

How a number comes about: the corpus is cut into addresses, addresses into passages, passages into tokens, and every
token is worth the bytes it stands for. `train.py` sees training tokens only. Its checkpoint is loaded by a scorer process
(`serve`) that claims a loss for each next token; the trusted process (`evaluate`) adds the claims up and divides by bytes.
Not here: the model and its optimizer (train.py), limits and verdicts (harness/). Nothing is ever unpickled.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import importlib.resources
import json
import lzma
import math
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np

Json = dict[str, Any]

METRIC = "val_bpb"
VOCAB_SIZE = 2048  # 256 bytes + 1,791 merges + 1 BOS
CONTEXT = 256  # tokens predicted in a row, in training and evaluation
BOS = VOCAB_SIZE - 1  # stands before every passage and is worth no bytes
HAND_CLOCK, HAND_AMOUNT = "tokens", 675_840  # the budget of a run by hand: 330 steps of 2,048 tokens
PASSAGE_BYTES = 1000
EVALUATION_ROWS = 32  # rows in one question to the scorer; the value does not depend on it
HELLO = ("profile", "device", "threads")  # what a scorer is told
MAX_POINTS = 500  # lines in a learning curve, however long the run
MAX_LINE = 64 * 1024  # bytes of one message, its newline included

CORPUS_SHA256 = "3b397cfe7709004e9e421411ba5731e673e69c3de2f93905adfaf87c279a88e5"
SPLITS = {  # name: bytes and SHA-256 of the split's text, which its tokens must decode to
    "train": (9_806_494, "6e3e00bbe73765e2c6d1132949af76e5441803ef6f31ffdc6f3fc004a0318cca"),
    "val": (490_293, "70226de6ed0979722bc8f722f528e3a820beb182f840cff7c524f9593bc8db3e"),
    "sealed": (464_604, "1d9374006cdffb4bb466ae1fd0f4747aba52debf591e9721e81ca6845193df2c"),
}
FILES = ("train.bin", "val.bin", "sealed.bin", "bytes.bin", "tokenizer.json")
SENTENCE_END = r"(?<=[.!?;:])(?=\s+[\"'(A-Z0-9])"
PIECES = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}{1,2}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # no merge crosses a piece
# Everything the prepared data depends on: its hash names the data folder, and the manifest repeats it.
IDENTITY = {"schema_version": 1, "corpus_sha256": CORPUS_SHA256, "texts": {k: list(v) for k, v in SPLITS.items()}}
IDENTITY |= {"vocab_size": VOCAB_SIZE, "pieces": PIECES, "sentence_end": SENTENCE_END, "passage_bytes": PASSAGE_BYTES}


class DataError(Exception):
    """The corpus or the prepared data cannot be used; the message is one sentence that names the file."""


class ScorerFault(Exception):
    """The candidate's scorer failed; the arguments are a reason of the contract and one sentence of detail."""


# ------------------------------------------------------------------------------------------- corpus and tokenizer
def sha256(data: Any) -> str:
    """Hex digest of a bytes-like object."""
    return hashlib.sha256(data).hexdigest()


def read_corpus() -> str:
    """The whole embedded text, one address a line. Raises DataError when it is missing or not the pinned text."""
    beside = Path(__file__).resolve().parent / "harness" / "corpus" / "sotu.txt.xz"
    try:
        source = beside if beside.is_file() else importlib.resources.files("harness") / "corpus" / "sotu.txt.xz"
        raw = lzma.decompress(source.read_bytes())
    except (OSError, ModuleNotFoundError, lzma.LZMAError, EOFError) as error:
        raise DataError(f"the embedded corpus harness/corpus/sotu.txt.xz cannot be read: {error}") from error
    if sha256(raw) != CORPUS_SHA256:
        raise DataError(f"the embedded corpus {source} is not the pinned text: its SHA-256 is {sha256(raw)}")
    return raw.decode()


def split_addresses(text: str) -> dict[str, list[str]]:
    """The addresses of each split, in order, each with its newline; the position in the corpus decides."""
    splits: dict[str, list[str]] = {name: [] for name in SPLITS}
    for i, address in enumerate(text.split("\n")[:-1]):
        splits["sealed" if i % 20 == 0 else "val" if i % 20 == 10 else "train"].append(address + "\n")
    return splits


def passages(address: str) -> list[str]:
    """An address in pieces of about PASSAGE_BYTES, cut before the white space after a sentence; joined they are it."""
    pieces = [""]
    for sentence in re.split(SENTENCE_END, address):
        if pieces[-1] and len((pieces[-1] + sentence).encode()) > PASSAGE_BYTES:
            pieces.append("")
        pieces[-1] += sentence
    return pieces


def train_tokenizer(texts: Iterable[str]) -> list[bytes]:
    """Byte-pair encoding: the byte string of each of the VOCAB_SIZE - 1 tokens, in the order of their ids."""
    import rustbpe

    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(iter(texts), VOCAB_SIZE - 1, pattern=PIECES)
    return [bytes(token) for token, _ in sorted(tokenizer.get_mergeable_ranks(), key=lambda pair: pair[1])]


def encoder(tokens: list[bytes]) -> Callable[[str], list[int]]:
    """A function from text to token ids (no BOS) for the given vocabulary."""
    import tiktoken

    ranks = {token: rank for rank, token in enumerate(tokens)}
    return tiktoken.Encoding("ratchet", pat_str=PIECES, mergeable_ranks=ranks, special_tokens={}).encode_ordinary


def byte_table(tokens: list[bytes]) -> np.ndarray:
    """Bytes each id stands for, (VOCAB_SIZE,) uint16; from raw byte strings, as decoding would inflate half characters."""
    return np.array([len(token) for token in tokens] + [0], dtype="<u2")


def check_text(split: str, ids: np.ndarray, tokens: list[bytes], table: np.ndarray) -> None:
    """Raise DataError unless the ids are worth exactly the split's bytes and decode to exactly its pinned text."""
    worth = int(table[ids].sum(dtype=np.int64))
    if worth != SPLITS[split][0]:
        raise DataError(f"{split}.bin: its tokens are worth {worth} bytes, the {split} text has {SPLITS[split][0]}")
    if sha256(b"".join(map([*tokens, b""].__getitem__, ids.tolist()))) != SPLITS[split][1]:
        raise DataError(f"{split}.bin does not decode to the pinned {split} text")


# ---------------------------------------------------------------------------------------------------- data folder
def data_folder(profile: str, root: str | None = None) -> Path:
    """Where a profile's data lives: under `root`, else $RATCHET_DATA, else the user's cache. Raises DataError."""
    if profile != "cpu":
        known = "its data path (climbmix) is not built yet" if profile == "gpu" else "there is no such profile"
        raise DataError(f"profile {profile} cannot be used, {known}: use --profile cpu")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ratchet"
    name = f"cpu-{CORPUS_SHA256[:8]}-bpe{VOCAB_SIZE}-{sha256(json.dumps(IDENTITY, sort_keys=True).encode())[:8]}"
    return Path(root or os.environ.get("RATCHET_DATA") or cache).absolute() / name


def build(folder: Path) -> None:
    """Make all files of the data folder from the embedded corpus (about 3 CPU seconds)."""
    cut = {name: [passages(a) for a in addresses] for name, addresses in split_addresses(read_corpus()).items()}
    tokens = train_tokenizer(passage for address in cut["train"] for passage in address)
    encode, table, splits = encoder(tokens), byte_table(tokens), {}
    vocabulary = {"pieces": PIECES, "bos": BOS, "tokens": [token.hex() for token in tokens]}
    contents = {"bytes.bin": table.tobytes(), "tokenizer.json": json.dumps(vocabulary).encode()}
    for name, addresses in cut.items():
        ids, starts = [], []
        for address in addresses:
            starts.append(len(ids))
            for passage in address:
                ids += [BOS, *encode(passage)]
        packed = np.array(ids, dtype="<u2")
        check_text(name, packed, tokens, table)
        contents[f"{name}.bin"] = packed.tobytes()
        splits[name] = {"tokens": len(ids), "bytes": SPLITS[name][0], "documents": len(starts), "starts": starts}
    files = {name: {"bytes": len(contents[name]), "sha256": sha256(contents[name])} for name in FILES}
    manifest = IDENTITY | {"tokenizer_sha256": files["tokenizer.json"]["sha256"], "files": files, "splits": splits}
    contents["manifest.json"] = json.dumps(manifest, indent=1, sort_keys=True).encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*FILES, "manifest.json"):  # each whole or not at all, and the manifest last
        temporary = folder / f".{name}.{os.getpid()}"
        temporary.write_bytes(contents[name])
        temporary.replace(folder / name)


def faults(folder: Path) -> list[str]:
    """What is wrong with a data folder, a phrase for each bad file; empty when every byte is as the manifest says."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        expected = {name: (manifest["files"][name]["bytes"], manifest["files"][name]["sha256"]) for name in FILES}
        same = all(manifest[key] == value for key, value in IDENTITY.items())
    except FileNotFoundError:
        return ["manifest.json is missing"]
    except (OSError, ValueError, KeyError, TypeError):
        return ["manifest.json is damaged"]
    found = [] if same else ["manifest.json belongs to another corpus or tokenizer"]
    for name, (size, digest) in expected.items():
        content = (folder / name).read_bytes() if (folder / name).is_file() else None
        if content is None:
            found.append(f"{name} is missing")
        elif (len(content), sha256(content)) != (size, digest):
            found.append(f"{name} is damaged, {len(content)} bytes instead of {size} or not the recorded SHA-256")
    return found


@dataclass(frozen=True)
class Data:
    """A verified data folder. `sha256` is the hash of its manifest and so stands for every file."""

    folder: Path
    manifest: Json
    sha256: str

    @classmethod
    def open(cls, profile: str, root: str | None = None) -> Data:
        """Verify and open what `prepare` made. Raises DataError, one sentence, and repairs nothing."""
        folder = data_folder(profile, root)
        for fault in faults(folder):
            raise DataError(f"{folder}: {fault}; run `python prepare.py --profile {profile}` to build it")
        raw = (folder / "manifest.json").read_bytes()
        return cls(folder, json.loads(raw), sha256(raw))

    def split(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A split's ids, (tokens,) uint16, memory mapped, and the byte table. Raises DataError unless they are its text."""
        ids, table = (np.memmap(self.folder / f"{file}.bin", dtype="<u2", mode="r") for file in (name, "bytes"))
        vocabulary = json.loads((self.folder / "tokenizer.json").read_bytes())["tokens"]
        check_text(name, ids, [bytes.fromhex(token) for token in vocabulary], table)
        return ids, table


def prepare(profile: str, root: str | None = None) -> Data:
    """Build the data unless every file is there and right, saying what was wrong, and verify it. Raises DataError."""
    folder = data_folder(profile, root)
    wrong = faults(folder)
    if wrong:
        print(f"building {folder}: {'; '.join(wrong)}")
        build(folder)
    data = Data.open(profile, root)
    print("prepared and verified:" if wrong else "already prepared, every file verified:", folder)
    for name, facts in data.manifest["splits"].items():
        print(f"  {name}: {facts['documents']} addresses, {facts['bytes']:,} bytes, {facts['tokens']:,} tokens")
    return data


def describe(profile: str, root: str | None = None) -> Json:
    """The prepared data as the harness wants to know it (docs/design/0002-*.md). Raises DataError."""
    data = Data.open(profile, root)
    contents = {data.folder / name: (data.folder / name).read_bytes() for name in (*FILES, "manifest.json")}
    files = [{"path": str(path), "sha256": sha256(raw), "bytes": len(raw)} for path, raw in contents.items()]
    facts = {"profile": profile, "metric": METRIC, "vocab_size": VOCAB_SIZE, "context": CONTEXT}
    return facts | {"data_sha256": data.sha256, "train": str(data.folder / "train.bin"), "files": files}


class Channel:
    """One JSON object with one key a line over a stream socket, raw bytes after it where the contract says so."""

    def __init__(self, sock: socket.socket | int) -> None:
        self.sock = socket.socket(fileno=sock) if isinstance(sock, int) else sock
        self._buffer = bytearray()
        self.descriptors: list[int] = []

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
            data, descriptors, _, _ = socket.recv_fds(self.sock, MAX_LINE, 4)
        except ConnectionResetError:
            return False
        self.descriptors += descriptors
        self._buffer += data
        return bool(data)


# ------------------------------------------------------------------------------------------------ clock and loader
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


def row_starts(tokens: int, context: int, seed: int, data_sha256: str) -> Iterator[int]:
    """Endless shuffled starts of rows of context + 1 tokens, epoch after epoch: a pure function of its arguments."""
    rows, epoch = (tokens - 1) // context, 0
    if rows < 1:
        raise DataError(f"{tokens} training tokens do not fill one row of {context} + 1")
    while True:
        key = sha256(f"{data_sha256} {context} {seed} {epoch}".encode())
        random = np.random.Generator(np.random.PCG64(int(key, 16)))
        shift = int(random.integers(tokens - rows * context))
        yield from (random.permutation(rows) * context + shift).tolist()
        epoch += 1


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

    def batches(self, rows: int) -> Iterator[tuple[Any, Any]]:
        """Endless (inputs, targets), int64 tensors (rows, context) on the device; each pair is booked in the budget."""
        import torch

        context = self.setup.context
        starts = row_starts(len(self.tokens), context, self.setup.seed, sha256(self.tokens.data))
        while True:
            at = np.array([next(starts) for _ in range(rows)])[:, None] + np.arange(context + 1)
            batch = torch.from_numpy(self.tokens[at].astype(np.int64)).to(self.setup.device)
            self.budget.tokens += rows * context
            yield batch[:, :-1].contiguous(), batch[:, 1:].contiguous()


# ------------------------------------------------------------------------------------------------ a job: train.py
# The one run of this process. The next point of its curve is due when progress reaches due / (MAX_POINTS - 1).
_job = argparse.Namespace(setup=None, training=None, channel=None, due=0, started=time.monotonic())


def make_setup(profile: str, device: str, seed: int, threads: int) -> Setup:
    """Resolve `auto`, set torch's threads and seed, and decide the precision. Raises DataError for a missing GPU."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device != "cpu" and not torch.cuda.is_available():
        raise DataError(f"device {device} was asked for and torch sees none: use --device cpu")
    with contextlib.suppress(OSError, AttributeError):  # glibc: keep freed blocks of up to 1 GiB, which saves a fifth
        for option, value in ((-3, 1 << 30), (-1, (1 << 31) - 1)):  # of the time on a CPU; results stay the same
            ctypes.CDLL(None).mallopt(option, value)
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    fast = torch.cuda.is_bf16_supported() if device != "cpu" else "avx512_bf16" in flags or "amx_bf16" in flags
    return Setup(profile, device, VOCAB_SIZE, CONTEXT, seed, threads, "bfloat16" if fast else "float32")


def setup() -> Setup:
    """Begin a run: the harness's `hello`, or by hand the flags of `train.py`. Exits with 1 when there is no sound data."""
    if "RATCHET_SOCKET" in os.environ:
        _job.channel = Channel(int(os.environ["RATCHET_SOCKET"]))
        _job.setup = make_setup(**_job.channel.receive("hello")[1])
        return _job.setup
    parser = argparse.ArgumentParser(description="Train by hand, evaluate, and print a summary.")
    flags = {"profile": "cpu", "data": "", "device": "auto", "seed": 0, "threads": os.cpu_count() or 1}
    for name, default in (flags | {"clock": HAND_CLOCK, "amount": HAND_AMOUNT}).items():
        parser.add_argument(f"--{name}", default=default, type=type(default), help="default: %(default)s")
    _job.flags = parser.parse_args()
    try:
        Budget(_job.flags.clock, _job.flags.amount)
        _job.data = Data.open(_job.flags.profile, _job.flags.data)
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


def record(*, step: int, loss: float) -> None:
    """Note a training loss in nats; at most MAX_POINTS a run become points of the curve. A loss that is no number is null."""
    budget, finite = _job.training.budget, math.isfinite(loss)
    progress = budget.progress()
    if finite and progress * (MAX_POINTS - 1) < _job.due:
        return
    _job.due = int(progress * (MAX_POINTS - 1)) + 1
    point = {"step": step, "progress": progress, "loss": loss if finite else None, "tokens": budget.tokens}
    point["tokens_per_second"] = budget.tokens / max(budget.seconds(), 1e-9)
    if _job.channel is not None:
        _job.channel.send("point", point)
    else:
        with Path("curve.jsonl").open("a") as curve:
            curve.write(json.dumps(point) + "\n")


def save_checkpoint(model: Any, *, steps: int, depth: int) -> None:
    """End the run: write the weights as safetensors and print the summary; by hand also evaluate them."""
    import torch
    from safetensors.torch import save

    # No torch.compile prefixes, and tied weights under each of their names: a plain load_state_dict works.
    state = {name.replace("_orig_mod.", ""): value.detach() for name, value in model.state_dict().items()}
    content = save({name: value.to("cpu", copy=True).contiguous() for name, value in state.items()})
    with open(_job.channel.descriptors[1] if _job.channel else "checkpoint.safetensors", "wb") as file:  # noqa: PTH123
        file.write(content)
    tokens, seconds, device = _job.training.budget.tokens, _job.training.budget.seconds(), _job.setup.device
    parameters, summary = sum(p.numel() for p in model.parameters()), {}
    if _job.channel is not None:
        facts = {"steps": steps, "tokens": tokens, "parameters": parameters}
        _job.channel.send("done", facts | {"dtype": _job.setup.autocast, "device": device})
    else:
        summary[METRIC] = f"{evaluate_by_hand()['value']:.6f}"
    summary |= {"training_seconds": f"{seconds:.1f}", "total_seconds": f"{time.monotonic() - _job.started:.1f}"}
    peak = torch.cuda.max_memory_allocated() if device != "cpu" else 1024 * getrusage(RUSAGE_SELF).ru_maxrss
    summary |= {"peak_vram_mb": f"{peak / (1 << 20):.1f}", "total_tokens_M": f"{tokens / 1e6:.3f}"}
    summary |= {"num_steps": str(steps), "num_params_M": f"{parameters / 1e6:.3f}", "depth": str(depth)}
    print("---", *(f"{key + ':':<18}{value}" for key, value in summary.items()), sep="\n", flush=True)


def evaluate_by_hand() -> Json:
    """Score ./checkpoint.safetensors on the validation split with a scorer process, as the harness does."""
    ours, theirs = socket.socketpair()
    with theirs, Path("checkpoint.safetensors").open("rb") as checkpoint:
        handed = (theirs.fileno(), checkpoint.fileno())
        environment = os.environ | {"RATCHET_SOCKET": str(handed[0]), "RATCHET_CHECKPOINT": str(handed[1])}
        command = [sys.executable, str(Path(__file__).resolve()), "serve"]
        scorer = subprocess.Popen(command, cwd=Path(sys.argv[0]).resolve().parent, env=environment, pass_fds=handed)
    with scorer, ours:
        try:
            return score(_job.data, "val", Channel(ours), {k: vars(_job.setup)[k] for k in HELLO})
        except ScorerFault as fault:
            sys.exit(f"the evaluation failed, {': '.join(fault.args)}")


# ----------------------------------------------------------------------------------------------------- evaluation
def windows(ids: np.ndarray) -> np.ndarray:
    """A stream in rows (windows, CONTEXT + 1) int32 that overlap by one id: each id but the first is predicted once."""
    count = -(-(len(ids) - 1) // CONTEXT)
    padded = np.full(count * CONTEXT + 1, BOS, dtype="<i4")
    padded[: len(ids)] = ids
    return np.lib.stride_tricks.sliding_window_view(padded, CONTEXT + 1)[::CONTEXT]


def claims(scorer: Channel, rows: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The scorer's loss in nats of each next id, float32 like `counted`, 0 where that is false. Raises ScorerFault."""
    with contextlib.suppress(OSError):  # it has closed; what it said before tells why
        scorer.send("rows", {"count": rows.shape[0], "length": rows.shape[1]}, rows.tobytes())
    answer = scorer.read(4 * counted.size)
    if answer.startswith(b'{"fault":'):  # its last words in place of an answer
        raise ScorerFault("scorer_died", answer.decode(errors="replace").partition('"detail":')[2].strip('"}\n'))
    if len(answer) < 4 * counted.size:
        reason = "short_answer" if answer else "scorer_died"
        raise ScorerFault(reason, f"the scorer ended after {len(answer)} of the {4 * counted.size} bytes of an answer")
    losses = np.where(counted, np.frombuffer(answer, dtype="<f4").reshape(counted.shape), np.float32(0))
    for reason, bad in (("not_finite", ~np.isfinite(losses)), ("negative_loss", losses < 0)):
        if bad.any():
            raise ScorerFault(reason, f"{int(bad.sum())} of {bad.size} losses, such as {losses[bad][0]}")
    return losses


def score(data: Data, split: str, scorer: Channel, hello: Json, rows: int = EVALUATION_ROWS) -> Json:
    """Score a split with a connected scorer: the contract's record, less its token. Raises DataError and ScorerFault."""
    ids, table = data.split(split)
    try:
        scorer.send("hello", hello)
        kind, body = scorer.receive("ready", "fault")
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise ScorerFault("scorer_died", f"the scorer ended before it was ready: {error}") from error
    if kind != "ready":
        raise ScorerFault("load_failed", str(body.get("detail"))[:300])
    grid = windows(ids)
    counted = grid[:, 1:] != BOS  # neither BOS nor padding counts, and both are worth no bytes
    losses = np.empty(counted.shape, dtype=np.float64)
    for at in range(0, len(grid), rows):
        losses[at : at + rows] = claims(scorer, grid[at : at + rows], counted[at : at + rows])
    with contextlib.suppress(OSError):  # every answer is in
        scorer.send("end", {})
    cuts = np.maximum(np.array(data.manifest["splits"][split]["starts"]) - 1, 0)  # the id at p is prediction p - 1
    nats, sizes = np.add.reduceat(losses.ravel(), cuts), np.add.reduceat(table[grid[:, 1:]].ravel().astype(int), cuts)
    total, size = float(nats.sum()), int(sizes.sum())
    if size != SPLITS[split][0]:
        raise DataError(f"the windows of {split}.bin are worth {size} bytes, the text has {SPLITS[split][0]}")
    documents = [{"nats": float(n), "bytes": int(b)} for n, b in zip(nats, sizes, strict=True)]
    result = {"value": total / (math.log(2) * size), "nats": total, "bytes": size, "tokens": int(counted.sum())}
    return result | {"windows": len(grid), "documents": documents, "data_sha256": data.sha256}


def evaluate(root: str | None = None) -> None:
    """The trusted process: answer the harness's `evaluate` with a `record` or a `fault`. Raises DataError."""
    harness, scorer = Channel(int(os.environ["RATCHET_SOCKET"])), Channel(int(os.environ["RATCHET_SCORER"]))
    asked = harness.receive("evaluate")[1]
    try:
        result = score(Data.open(asked["profile"], root), asked["split"], scorer, {k: asked[k] for k in HELLO})
    except ScorerFault as fault:
        harness.send("fault", {"reason": fault.args[0], "detail": str(fault.args[1])[:500]})
    else:
        harness.send("record", {"token": asked["token"], **result})


def serve() -> int:
    """The scorer process: load the candidate's model, then claim losses until `end`. Its errors become a `fault`."""
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
        while (message := channel.receive("rows", "end"))[0] == "rows":
            shape = (message[1]["count"], message[1]["length"])
            raw = np.frombuffer(channel.read(4 * shape[0] * shape[1]), dtype="<i4").reshape(shape)
            ids = torch.from_numpy(raw.astype(np.int64)).to(made.device)
            with torch.inference_mode(), made.precision():
                logits = model(ids[:, :-1]).float()  # a wrong shape fails in the next line
                losses = cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
            channel.sock.sendall(losses.cpu().numpy().astype("<f4").tobytes())
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the candidate's code raises becomes the fault
        with contextlib.suppress(OSError):
            channel.send("fault", {"detail": f"{type(error).__name__}: {error}"[:150]})
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run a sub-command; a DataError becomes one sentence on stderr and exit status 1."""
    parser = argparse.ArgumentParser(description="Prepare the data of an experiment, describe it, or evaluate on it.")
    parser.add_argument("command", nargs="?", default="prepare", choices=("prepare", "describe", "evaluate", "serve"))
    parser.add_argument("--profile", default="cpu", help="cpu (embedded corpus); gpu is not built yet")
    parser.add_argument("--data", help="folder for the data (default $RATCHET_DATA, else ~/.cache/ratchet)")
    args = parser.parse_args(arguments)
    try:
        if args.command == "serve":
            return serve()
        if args.command == "prepare":
            prepare(args.profile, args.data)
        elif args.command == "describe":
            print(json.dumps(describe(args.profile, args.data)))
        else:
            evaluate(args.data)
    except DataError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
