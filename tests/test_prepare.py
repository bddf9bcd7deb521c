"""prepare.py without torch: corpus, splits, tokenizer, data folder, budget, messages and the arithmetic of a score."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prepare
from harness.corpus import bpe, embedded, preparing

ROOT = Path(prepare.__file__).resolve().parent
HELLO = {"profile": "cpu", "device": "cpu", "threads": 1}
TEXT = prepare.EMBEDDED
BOS = 2047


def addresses() -> dict[str, list[str]]:
    return embedded.split_addresses(embedded.read(TEXT["corpus_sha256"]))


def passages(address: str) -> list[str]:
    return embedded.passages(address, TEXT["sentence_end"], TEXT["passage_bytes"])


def table_of(vocabulary: list[bytes]) -> Any:
    return np.frombuffer(bpe.byte_table(vocabulary), dtype="<u2")


@pytest.fixture
def root(pristine: Path, tmp_path: Path) -> Path:
    """A data root that a test may damage."""
    return Path(shutil.copytree(pristine, tmp_path / "data"))


@pytest.fixture(scope="module")
def vocabulary(data: Any) -> list[bytes]:
    stored = json.loads((data.folder / "tokenizer.json").read_text())
    return [bytes.fromhex(token) for token in stored["tokens"]]


def stamps(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


# --- corpus, splits, passages


def test_the_splits_have_the_pinned_bytes_and_digests() -> None:
    splits = addresses()
    assert {name: len(texts) for name, texts in splits.items()} == {"train": 209, "val": 12, "sealed": 12}
    for name, texts in splits.items():
        raw = "".join(texts).encode()
        assert [len(raw), hashlib.sha256(raw).hexdigest()] == TEXT["texts"][name]


def test_passages_lose_nothing_and_stay_about_a_kilobyte() -> None:
    for address in addresses()["val"]:
        pieces = passages(address)
        assert "".join(pieces) == address
        assert all(pieces)
        long = [piece for piece in pieces if len(piece.encode()) > TEXT["passage_bytes"]]
        assert all(len(passages(piece)) == 1 for piece in long), "only a single sentence may be longer"


@given(st.text())
def test_passages_lose_nothing_of_any_text(text: str) -> None:
    assert "".join(passages(text)) == text


def test_an_address_is_in_exactly_one_split_by_its_position() -> None:
    splits = embedded.split_addresses("".join(f"address {i}\n" for i in range(40)))
    assert splits["sealed"] == ["address 0\n", "address 20\n"]
    assert splits["val"] == ["address 10\n", "address 30\n"]
    assert len(splits["train"]) == 36


# --- tokenizer


@given(st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "replace"))))
@settings(max_examples=200, deadline=None)
def test_the_byte_table_counts_the_bytes_of_any_text(vocabulary: list[bytes], text: str) -> None:
    ids = bpe.encoder(vocabulary, TEXT["pieces"])(text)
    assert int(table_of(vocabulary)[ids].sum()) == len(text.encode())
    assert b"".join(vocabulary[i] for i in ids) == text.encode()


@pytest.mark.parametrize("text", ["🎉🧑‍🚀 to the moon", "國情咨文 – naïve “quotes”", "broken \ufffd\ufffd bytes", "\t\n  \r\n "])
def test_the_byte_table_is_right_where_tokens_are_parts_of_characters(vocabulary: list[bytes], text: str) -> None:
    for pieces in (TEXT["pieces"], prepare.PUBLIC["pieces"]):
        ids = bpe.encoder(vocabulary, pieces)(text)
        assert int(table_of(vocabulary)[ids].sum()) == len(text.encode())


def test_a_lone_surrogate_counts_as_the_replacement_character(vocabulary: list[bytes]) -> None:
    ids = bpe.encoder(vocabulary, TEXT["pieces"])("half \ud83c a pair")
    assert b"".join(vocabulary[i] for i in ids) == "half \ufffd a pair".encode()


def test_the_vocabulary_covers_every_byte_and_bos_is_worth_none(data: Any, vocabulary: list[bytes]) -> None:
    table = data.split("val")[1]
    assert len(table) == 2048
    assert set(vocabulary) >= {bytes([value]) for value in range(256)}
    assert table[BOS] == 0
    assert (table[:BOS] > 0).all()


# --- the data folder


def test_every_split_is_worth_exactly_the_bytes_of_its_text(data: Any) -> None:
    for name, (size, _) in TEXT["texts"].items():
        ids, table = data.split(name)
        assert int(table[ids].sum(dtype=np.int64)) == size
        assert ids[0] == BOS


def test_the_documents_of_a_split_begin_at_its_addresses(data: Any, vocabulary: list[bytes]) -> None:
    ids, _ = data.split("val")
    starts = data.manifest["splits"]["val"]["starts"]
    texts = [b"".join(vocabulary[i] for i in ids[a:b] if i != BOS).decode() for a, b in zip(starts, [*starts[1:], len(ids)], strict=True)]
    assert texts == addresses()["val"]


def test_tokens_that_are_not_the_text_are_refused(data: Any, vocabulary: list[bytes]) -> None:
    ids, table = data.split("val")
    swapped = np.array(ids)
    swapped[[1, 2]] = swapped[[2, 1]]
    for wrong in (swapped, ids[:-1]):
        with pytest.raises(prepare.DataError, match=r"val\.bin does not decode to its text"):
            prepare.check_text("val.bin", wrong, vocabulary, table, TEXT["texts"]["val"])
    with pytest.raises(prepare.DataError, match=r"are worth 980586 bytes of 490293"):
        prepare.check_text("val.bin", ids, vocabulary, np.array(table) * 2, TEXT["texts"]["val"])


def test_a_second_preparation_only_verifies(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = stamps(root)
    prepare.prepare("cpu", str(root))
    assert "already prepared" in capsys.readouterr().out
    assert stamps(root) == before


@pytest.mark.slow
def test_preparation_is_the_same_bytes_everywhere(pristine: Path, tmp_path: Path) -> None:
    prepare.prepare("cpu", str(tmp_path))
    assert prepare.describe("cpu", str(tmp_path))["data_sha256"] == prepare.describe("cpu", str(pristine))["data_sha256"]
    assert not list(tmp_path.rglob(".*")), "no temporary file is left"


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def change(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("damage", [remove, empty, truncate, change])
@pytest.mark.parametrize("name", ["train.bin", "val.bin", "bytes.bin", "tokenizer.json", "manifest.json"])
def test_a_bad_file_is_named_and_refused(root: Path, name: str, damage: Callable[[Path], None]) -> None:
    folder = prepare.data_folder("cpu", str(root))
    damage(folder / name)
    with pytest.raises(prepare.DataError) as caught:
        prepare.Data.open("cpu", str(root))
    # a changed manifest may point at a file that is right
    assert name in str(caught.value) or (name == "manifest.json" and ".bin" in str(caught.value))
    assert "python prepare.py" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_the_validation_tokens_are_not_enough(root: Path) -> None:
    folder = prepare.data_folder("cpu", str(root))
    for path in folder.iterdir():
        if path.name != "val.bin":
            path.unlink()
    with pytest.raises(prepare.DataError, match=r"manifest\.json is missing"):
        prepare.Data.open("cpu", str(root))


def test_data_of_other_settings_is_refused(root: Path) -> None:
    path = prepare.data_folder("cpu", str(root)) / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"vocab_size": 4096}))
    with pytest.raises(prepare.DataError, match="another corpus or tokenizer"):
        prepare.Data.open("cpu", str(root))


@pytest.mark.slow
def test_preparation_names_and_repairs_a_bad_file(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = prepare.describe("cpu", str(root))["data_sha256"]
    truncate(prepare.data_folder("cpu", str(root)) / "val.bin")
    prepare.prepare("cpu", str(root))
    assert "val.bin is damaged" in capsys.readouterr().out
    assert prepare.describe("cpu", str(root))["data_sha256"] == digest


def test_a_profile_that_does_not_exist_says_which_one_to_use() -> None:
    with pytest.raises(prepare.DataError, match="no profile tpu: use --profile cpu or --profile gpu"):
        prepare.data_folder("tpu")


def test_what_belongs_to_shards_is_refused_for_the_embedded_corpus(root: Path) -> None:
    with pytest.raises(prepare.DataError, match="--shards, --from and --val-bytes belong to --profile gpu"):
        prepare.prepare("cpu", str(root), shards=3)


def test_the_folder_of_the_embedded_corpus_keeps_its_name_and_its_hash(data: Any) -> None:
    assert data.folder.name == "cpu-3b397cfe-bpe2048-01b40026"
    assert data.sha256 == "9fdd6b97356ca87dc943bd2b82342671346d046d6cfefddff160fbbe6bafe05f"


def test_an_evaluation_verifies_what_it_uses_and_no_other_file(root: Path) -> None:
    empty(prepare.data_folder("cpu", str(root)) / "train.bin")
    data = prepare.Data.open("cpu", str(root), names=("val.bin", "bytes.bin", "tokenizer.json"))
    assert int(data.split("val")[1][data.split("val")[0]].sum(dtype=np.int64)) == 490_293


def test_the_digest_of_a_large_file_is_remembered_until_the_file_changes(tmp_path: Path) -> None:
    large, notes = tmp_path / "train.bin", tmp_path / preparing.NOTES
    large.write_bytes(b"x" * preparing.LARGE)
    digest = preparing.remembered(large)
    assert digest == hashlib.sha256(b"x" * preparing.LARGE).hexdigest()
    notes.write_text(notes.read_text().replace(digest, "noted"))
    assert preparing.remembered(large) == "noted"
    with large.open("r+b") as file:
        file.write(b"y")
    assert preparing.remembered(large) == hashlib.sha256(b"y" + b"x" * (preparing.LARGE - 1)).hexdigest()
    notes.write_text("[no json")
    assert preparing.remembered(large) == hashlib.sha256(b"y" + b"x" * (preparing.LARGE - 1)).hexdigest()


def test_the_data_folder_follows_the_flag_then_the_variable_then_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RATCHET_DATA", raising=False)
    assert prepare.data_folder("cpu").parent == tmp_path / "cache" / "ratchet"
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path / "variable"))
    assert prepare.data_folder("cpu").parent == tmp_path / "variable"
    assert prepare.data_folder("cpu", str(tmp_path / "flag")).parent == tmp_path / "flag"


# --- the command line


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(ROOT / "prepare.py"), *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_describe_prints_one_object_with_every_file_and_its_digest(pristine: Path) -> None:
    done = command("describe", "--profile", "cpu", "--data", str(pristine))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    files = {Path(entry["path"]).name: entry for entry in said.pop("files")}
    assert {"train.bin", "val.bin", "sealed.bin", "bytes.bin", "tokenizer.json", "manifest.json"} == set(files)
    for entry in files.values():
        raw = Path(entry["path"]).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (len(raw), hashlib.sha256(raw).hexdigest())
    assert said["train"] == files["train.bin"]["path"]
    assert said["data_sha256"] == files["manifest.json"]["sha256"]
    assert {key: said[key] for key in ("profile", "metric", "vocab_size", "context")} == {
        "profile": "cpu",
        "metric": "val_bpb",
        "vocab_size": 2048,
        "context": 256,
    }


def test_describe_does_not_import_torch(pristine: Path) -> None:
    code = "import sys, prepare; prepare.main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    arguments = [sys.executable, "-c", code, "describe", "--data", str(pristine)]
    assert subprocess.run(arguments, cwd=ROOT, capture_output=True, timeout=30, check=False).returncode == 0


def test_describe_refuses_bad_data_in_one_sentence(root: Path) -> None:
    empty(prepare.data_folder("cpu", str(root)) / "train.bin")
    done = command("describe", "--data", str(root))
    assert (done.returncode, done.stdout) == (1, "")
    assert "train.bin" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_damaged_corpus_is_one_sentence(tmp_path: Path) -> None:
    shutil.copy(ROOT / "prepare.py", tmp_path)
    shutil.copytree(ROOT / "harness/corpus", tmp_path / "harness/corpus")
    shutil.copy(ROOT / "harness/__init__.py", tmp_path / "harness")
    truncate(tmp_path / "harness/corpus/sotu.txt.xz")
    arguments = [sys.executable, str(tmp_path / "prepare.py"), "--data", str(tmp_path / "data")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "sotu.txt.xz cannot be read" in done.stderr
    assert done.stderr.count("\n") == 1


# --- clock and loader


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_a_budget_of_seconds_follows_its_clock_from_the_handover(clock: str) -> None:
    time = FakeClock()
    budget = prepare.Budget(clock, 60, now=time)
    assert (budget.progress(), budget.done) == (0.0, False)
    time.now += 15
    assert (budget.progress(), budget.done) == (0.25, False)
    budget.tokens += 10**9
    assert budget.progress() == 0.25
    time.now += 100
    assert (budget.progress(), budget.done) == (1.0, True)


def test_a_budget_of_tokens_does_not_see_the_time() -> None:
    time = FakeClock()
    budget = prepare.Budget("tokens", 4096, now=time)
    time.now += 10**6
    assert budget.progress() == 0.0
    budget.tokens += 2048
    assert (budget.progress(), budget.done) == (0.5, False)
    budget.tokens += 4096
    assert (budget.progress(), budget.done) == (1.0, True)


@pytest.mark.parametrize(("clock", "amount"), [("moon", 1), ("wall", 0), ("tokens", -1), ("cpu", float("nan"))])
def test_a_budget_that_means_nothing_is_an_error(clock: str, amount: float) -> None:
    with pytest.raises(ValueError, match="no such budget"):
        prepare.Budget(clock, amount)


def test_the_real_clocks_move() -> None:
    for clock in ("wall", "cpu"):
        budget = prepare.Budget(clock, 1e-3)
        while not budget.done:
            pass
        assert budget.seconds() >= 1e-3


# --- the learning curve


class Told(list[dict[str, Any]]):
    """A channel that keeps what is sent."""

    def send(self, kind: str, body: dict[str, Any]) -> None:
        assert kind == "point"
        json.dumps(body, allow_nan=False)
        self.append(body)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    job = {
        "training": prepare.Training(np.zeros(1), prepare.Budget("tokens", 30_000), None),
        "channel": Told(),
        "due": 0,
        "mean": 0.0,
        "weight": 0.0,
    }
    job["setup"] = prepare.Setup("cpu", "cpu", 2048, 256, 0, 1, "float32")
    for name, value in job.items():
        monkeypatch.setattr(prepare._job, name, value)
    channel: Told = prepare._job.channel
    return channel


def test_a_point_has_every_number_and_null_for_what_is_none(told: Told) -> None:
    prepare._job.training.budget.tokens = 15_000
    prepare.record(step=7, loss=4.0, lr=0.02, grad_norm=np.float32(1.5))
    point = told[0]
    assert {key: point[key] for key in ("step", "progress", "loss", "ema_loss", "lr", "grad_norm", "tokens")} == {
        "step": 7, "progress": 0.5, "loss": 4.0, "ema_loss": pytest.approx(4.0), "lr": 0.02, "grad_norm": 1.5, "tokens": 15_000,
    }  # fmt: skip
    assert 10 < point["peak_memory_mb"] < 100_000
    assert point["tokens_per_second"] > 0
    prepare.record(step=8, loss=float("nan"), grad_norm=float("inf"))
    assert (told[1]["loss"], told[1]["lr"], told[1]["grad_norm"]) == (None, None, None)
    assert told[1]["ema_loss"] == pytest.approx(4.0)


def test_the_smoothed_loss_sees_every_step_and_the_curve_at_most_five_hundred(told: Told) -> None:
    for step in range(1, 3001):
        prepare._job.training.budget.tokens = 10 * step
        prepare.record(step=step, loss=5.0 if step % 2 else 3.0)
    assert 400 <= len(told) <= prepare.MAX_POINTS
    assert told[-1]["progress"] == 1.0
    assert all(3.8 < point["ema_loss"] < 4.2 for point in told[100:])


# --- messages


@pytest.fixture
def pair() -> Iterator[tuple[Any, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield prepare.Channel(ours), theirs


def test_a_message_arrives_whole_with_its_descriptors(pair: tuple[Any, socket.socket], tmp_path: Path) -> None:
    channel, other = prepare.Channel(pair[0].sock, handed=2), pair[1]
    (tmp_path / "file").write_text("tokens")
    other.sendall(b'{"go": {"clock": ')
    with (tmp_path / "file").open() as file:
        socket.send_fds(other, [b'"tokens", "amount": 5}}\n{"end": {}}\nrest'], [file.fileno()])
    assert channel.receive("go") == ("go", {"clock": "tokens", "amount": 5})
    assert channel.receive("rows", "end") == ("end", {})
    assert channel.read(4) == b"rest"
    with open(channel.descriptors[0]) as copy:  # noqa: PTH123
        assert copy.read() == "tokens"


def test_a_side_that_was_promised_no_descriptors_takes_none(pair: tuple[Any, socket.socket]) -> None:
    channel, other = pair
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for _ in range(9):
        socket.send_fds(other, [b" "], [0, 1, 2, other.fileno()])
    other.sendall(b'{"ready": {}}\n')
    assert channel.receive("ready") == ("ready", {})
    assert (sum(1 for _ in Path("/proc/self/fd").iterdir()), channel.descriptors) == (before, [])


@pytest.mark.parametrize("line", [b"no json\n", b"[]\n", b"{}\n", b'{"go": 1}\n', b'{"a": {}, "go": {}}\n', b'{"b": {}}\n'])
def test_anything_but_the_expected_message_is_an_error(pair: tuple[Any, socket.socket], line: bytes) -> None:
    channel, other = pair
    other.sendall(line)
    with pytest.raises(ValueError, match=r"expected go|Expecting value"):
        channel.receive("go")


def test_a_line_above_the_limit_is_refused_in_both_directions(pair: tuple[Any, socket.socket]) -> None:
    channel, other = pair
    with pytest.raises(ValueError, match="message of"):
        channel.send("point", {"loss": "x" * prepare.MAX_LINE})
    threading.Thread(target=other.sendall, args=(b"x" * (prepare.MAX_LINE + 1),), daemon=True).start()
    with pytest.raises(ValueError, match="Expecting value"):
        channel.receive("go")


def test_a_closed_socket_is_the_end(pair: tuple[Any, socket.socket]) -> None:
    channel, other = pair
    other.close()
    with pytest.raises(EOFError):
        channel.receive("go")


# --- the arithmetic of a score


@pytest.mark.parametrize("tokens", [2, 256, 257, 258, 512, 513, 1000])
def test_windows_predict_every_token_but_the_first_exactly_once(tokens: int) -> None:
    ids: Any = np.arange(tokens, dtype="<u2")
    ids[0] = BOS
    grid = prepare.windows(ids, prepare.PROFILES["cpu"])
    assert grid.shape == (-(-(tokens - 1) // 256), 257)
    assert grid[:, 1:].ravel()[: tokens - 1].tolist() == list(range(1, tokens))
    assert (grid[:, 1:].ravel()[tokens - 1 :] == BOS).all()
    assert (grid[1:, 0] == grid[:-1, -1]).all()
    assert grid[0, 0] == BOS


@pytest.mark.parametrize("tokens", [1, 2047, 2048, 2049, 5000])
def test_windows_that_begin_with_bos_predict_every_token_exactly_once(tokens: int) -> None:
    ids: Any = np.arange(tokens, dtype="<u2")
    grid = prepare.windows(ids, prepare.PROFILES["gpu"])
    assert grid.shape == (-(-tokens // 2048), 2049)
    assert grid[:, 1:].ravel()[:tokens].tolist() == list(range(tokens))
    assert (grid[:, 1:].ravel()[tokens:] == 8191).all()
    assert (grid[:, 0] == 8191).all()


class FakeScorer:
    """The other end of the wire: answers each row batch with what `answer(inputs, targets)` returns."""

    def __init__(self, answer: Callable[[Any, Any], bytes | None], greeting: bytes = b'{"ready": {}}\n') -> None:
        self.ours, self.theirs = socket.socketpair()
        self.answer, self.greeting, self.batches = answer, greeting, 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        channel = prepare.Channel(self.theirs)
        with self.theirs:
            channel.receive("hello")
            self.theirs.sendall(self.greeting)
            while self.greeting:
                try:
                    kind, body = channel.receive("rows", "end")
                except (EOFError, OSError):
                    return
                if kind == "end":
                    return
                raw = channel.read(4 * body["count"] * body["length"])
                rows = np.frombuffer(raw, dtype="<i4").reshape(body["count"], body["length"])
                answer = self.answer(rows[:, :-1], rows[:, 1:])
                self.batches += 1
                if answer is None:
                    return
                self.theirs.sendall(answer)
                if len(answer) < 4 * rows[:, 1:].size:
                    return

    def score(self, data: Any, **options: Any) -> Any:
        with self.ours:
            try:
                prepare.greet(channel := prepare.Channel(self.ours), HELLO)
                return prepare.score(data, "val", channel, **options)
            finally:
                self.ours.shutdown(socket.SHUT_RDWR)
                self.thread.join(10)


def uniform(inputs: Any, targets: Any) -> bytes:
    return bytes(np.full(targets.shape, np.log(2048), dtype="<f4").tobytes())


def test_a_uniform_model_scores_log_of_the_vocabulary_over_the_bytes(data: Any) -> None:
    record = FakeScorer(uniform).score(data)
    ids, _ = data.split("val")
    predicted = int((ids != BOS).sum())
    assert record["tokens"] == predicted
    assert record["bytes"] == 490_293
    assert record["windows"] == -(-(len(ids) - 1) // 256)
    assert record["value"] == pytest.approx(predicted * 11 / 490_293, rel=1e-6)
    assert record["data_sha256"] == data.sha256


def test_the_documents_add_up_to_the_whole(data: Any) -> None:
    record = FakeScorer(uniform).score(data)
    assert len(record["documents"]) == 12
    sizes = [len(text.encode()) for text in addresses()["val"]]
    assert [document["bytes"] for document in record["documents"]] == sizes
    assert sum(document["nats"] for document in record["documents"]) == pytest.approx(record["nats"], rel=1e-12)


def test_losses_at_bos_and_padding_do_not_count(data: Any) -> None:
    def wild(inputs: Any, targets: Any) -> bytes:
        claimed = np.where(targets == BOS, np.nan, np.log(2048))
        return bytes(claimed.astype("<f4").tobytes())

    assert FakeScorer(wild).score(data)["value"] == FakeScorer(uniform).score(data)["value"]


def test_the_value_does_not_depend_on_the_rows_in_a_question(data: Any) -> None:
    def by_id(inputs: Any, targets: Any) -> bytes:
        return bytes((1 + np.sin(inputs + 3.0 * targets)).astype("<f4").tobytes())

    assert len({FakeScorer(by_id).score(data, rows=rows)["value"] for rows in (7, 64, 1000)}) == 1


def every(value: float) -> Callable[[Any, Any], bytes]:
    return lambda inputs, targets: np.full(targets.shape, value, dtype="<f4").tobytes()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (every(float("nan")), "not_finite"),
        (every(float("inf")), "not_finite"),
        (every(-1.0), "negative_loss"),
        (lambda inputs, targets: uniform(inputs, targets)[:-4], "short_answer"),
        (lambda inputs, targets: struct.pack("<f", 1.0), "short_answer"),
        (lambda inputs, targets: None, "scorer_died"),
        (lambda inputs, targets: b'{"fault":{"detail":"OutOfMemory: 3 GB"}}\n', "scorer_died"),
        (lambda inputs, targets: b'{"fault":[[[', "scorer_died"),
    ],
)
def test_a_bad_answer_is_the_fault_of_the_scorer(data: Any, answer: Callable[[Any, Any], bytes | None], reason: str) -> None:
    with pytest.raises(prepare.ScorerFault) as caught:
        FakeScorer(answer).score(data)
    assert caught.value.args[0] == reason


def test_the_last_words_of_a_scorer_are_the_detail(data: Any) -> None:
    with pytest.raises(prepare.ScorerFault, match="OutOfMemory: 3 GB"):
        FakeScorer(lambda inputs, targets: b'{"fault":{"detail":"OutOfMemory: 3 GB"}}\n').score(data)


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (b"", "scorer_died"),
        (b"[" * 60_000 + b"\n", "scorer_died"),
        (b"hello\n", "scorer_died"),
        (b'{"fault": {"detail": "KeyError: embedding"}}\n', "load_failed"),
    ],
)
def test_a_scorer_that_is_never_ready_is_at_fault(data: Any, greeting: bytes, reason: str) -> None:
    scorer = FakeScorer(uniform, greeting)
    with pytest.raises(prepare.ScorerFault) as caught:
        scorer.score(data)
    assert caught.value.args[0] == reason


def test_four_preparations_at_once_make_the_data_once_and_none_fails(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "prepare.py"), "--data", str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    assert sum("building" in out for out, _ in said) == 1
