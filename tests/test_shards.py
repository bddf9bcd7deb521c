"""The gpu profile on small shards: from a folder or a hub on loopback to the data folder, and every way in which that is refused."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import prepare
from harness.corpus import bpe, climbmix, embedded, hub, shards
from tests import hub_stub
from tests.test_prepare import FakeScorer, every

ROOT = Path(prepare.__file__).resolve().parent
TRAIN, SEALED, VAL = ("shard_00000.parquet", "shard_00001.parquet"), "shard_06541.parquet", "shard_06542.parquet"
VOCAB = 512
ODD = [
    "🎉🧑‍🚀 to the moon\n\nnext line",
    "國情咨文 – naïve “quotes”",
    "",
    None,
    "\t\n  \r\n ",
    b"broken \xff\xfe\xf0\x9f bytes".decode("utf-8", "surrogateescape"),
]


def table(texts: list[str | None]) -> Any:
    """A column of strings; some of them are no UTF-8, as files in the wild have it."""
    raw = [None if text is None else text.encode("utf-8", "surrogateescape") for text in texts]
    return pyarrow.table({"text": pyarrow.array(raw, pyarrow.binary()).view(pyarrow.string())})


@pytest.fixture(scope="module")
def texts() -> list[str | None]:
    address = embedded.split_addresses(embedded.read(prepare.EMBEDDED["corpus_sha256"]))["train"][0]
    return [*embedded.passages(address, prepare.EMBEDDED["sentence_end"], 600), *ODD]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, texts: list[str | None]) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    for n, name in enumerate((*TRAIN, SEALED, VAL)):
        mixed = [f"shard {n}", *texts]
        random.Random(n).shuffle(mixed)
        parquet.write_table(table(mixed), folder / name, row_group_size=50)
    return folder


@pytest.fixture
def source(made: Path, tmp_path: Path) -> Path:
    """A folder of shards that a test may damage."""
    folder = tmp_path / "source"
    folder.mkdir()
    for path in made.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gpu profile with a vocabulary that a little text can fill."""
    facts = prepare.PUBLIC | {"vocab_size": VOCAB, "sample_bytes": 200_000}
    monkeypatch.setitem(prepare.PROFILES, "gpu", prepare.Profile("gpu-test", VOCAB, 64, True, 5, ("tokens", 1000), facts))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})  # one shard after the other, in this process


def prepared(root: Path, **request: Any) -> Any:
    return prepare.prepare("gpu", str(root), **request)


def text_of(data: Any, split: str) -> bytes:
    words = [*(bytes.fromhex(token) for token in json.loads((data.folder / "tokenizer.json").read_text())["tokens"]), b""]
    return b"".join(words[token] for token in data.split(split)[0].tolist())


def documents(path: Path) -> bytes:
    column = parquet.read_table(path).column("text").cast(pyarrow.binary()).to_pylist()
    return b"".join(raw.decode("utf-8", "replace").encode() for raw in column if raw)


def test_the_splits_are_the_texts_of_their_shards(source: Path, tmp_path: Path) -> None:
    data = prepared(tmp_path, source=str(source))
    expected = {
        "train": b"".join(documents(source / name) for name in TRAIN),
        "sealed": documents(source / SEALED),
        "val": documents(source / VAL),
    }
    for split, text in expected.items():
        facts = data.manifest["splits"][split]
        ids, worth = data.split(split)
        assert text_of(data, split) == text
        assert facts["bytes"] == len(text) == int(worth[ids].sum(dtype=np.int64))
        assert facts["tokens"] == len(ids)
        assert facts["documents"] == int((ids == VOCAB - 1).sum()), "BOS before each document and nowhere else"
        assert facts["shards"][-1]["text_sha256"] == hashlib.sha256(documents(source / facts["shards"][-1]["name"])).hexdigest()
    assert not (data.folder / "parts").exists()


def test_held_out_text_is_in_files_of_its_own_and_a_job_gets_none_of_it(source: Path, tmp_path: Path) -> None:
    data = prepared(tmp_path, source=str(source))
    said = prepare.describe("gpu", str(tmp_path))
    assert Path(said["train"]).name == "train.bin"
    assert {Path(entry["path"]).name for entry in said["files"]} == {*prepare.FILES, "manifest.json"}
    train = text_of(data, "train")
    assert b"shard 0" in train and b"shard 1" in train
    assert b"shard 2" not in train and b"shard 3" not in train
    assert b"shard 2" in text_of(data, "sealed") and b"shard 3" in text_of(data, "val")


def test_a_second_call_does_nothing(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = prepared(tmp_path, source=str(source))
    before = {path: path.stat().st_mtime_ns for path in data.folder.iterdir()}
    for path in source.iterdir():
        path.unlink()
    assert prepared(tmp_path).sha256 == data.sha256
    assert "already prepared" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in data.folder.iterdir()} == before


def test_the_same_shards_make_the_same_data_in_one_process_or_several(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = prepared(tmp_path / "one", source=str(source))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert prepared(tmp_path / "two", source=str(source)).sha256 == one.sha256


def test_a_changed_file_is_named_and_made_again(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = prepared(tmp_path, source=str(source))
    content = bytearray((data.folder / "train.bin").read_bytes())
    content[1000] ^= 1
    (data.folder / "train.bin").write_bytes(content)
    with pytest.raises(prepare.DataError, match=r"train\.bin is damaged"):
        prepare.describe("gpu", str(tmp_path))
    assert prepared(tmp_path, source=str(source)).sha256 == data.sha256
    assert "train.bin is damaged" in capsys.readouterr().out


def test_another_number_of_shards_or_bytes_is_made_anew_with_the_same_tokenizer(source: Path, tmp_path: Path) -> None:
    both = prepared(tmp_path, source=str(source))
    one = prepared(tmp_path, source=str(source), shards=1)
    assert len(one.manifest["splits"]["train"]["shards"]) == 1
    assert one.manifest["tokenizer_sha256"] == both.manifest["tokenizer_sha256"]
    assert one.manifest["files"]["val.bin"] == both.manifest["files"]["val.bin"]
    less = prepared(tmp_path, source=str(source), shards=1, val_bytes=2000)
    assert 2000 <= less.manifest["splits"]["val"]["bytes"] < one.manifest["splits"]["val"]["bytes"]
    assert less.manifest["files"]["train.bin"] == one.manifest["files"]["train.bin"]


def test_a_rebuild_keeps_what_it_was_not_asked_to_change(source: Path, tmp_path: Path) -> None:
    first = prepared(tmp_path, source=str(source), shards=1, val_bytes=2000)
    more = prepared(tmp_path, source=str(source), shards=2)
    assert more.manifest["val_bytes"] == 2000 and more.manifest["files"]["val.bin"] == first.manifest["files"]["val.bin"]
    assert climbmix.Request(val_bytes=3000).like(more.folder) == climbmix.Request(shards=2, val_bytes=3000)
    assert climbmix.Request().like(tmp_path / "nowhere") == climbmix.Request()


def reshuffled(path: Path) -> None:
    """Another file with as many documents, bytes and tokens."""
    rows = parquet.read_table(path)
    parquet.write_table(rows.take(list(range(len(rows) - 1, -1, -1))), path, row_group_size=50)


@pytest.mark.parametrize("name", [TRAIN[1], SEALED, VAL])
def test_other_content_under_the_same_names_is_noticed(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    first = prepared(tmp_path, source=str(source))
    assert prepared(tmp_path, source=str(source)).sha256 == first.sha256
    assert "already prepared" in capsys.readouterr().out
    reshuffled(source / name)
    again = prepared(tmp_path, source=str(source))
    assert f"{name} of {source} is another file than it was made of" in capsys.readouterr().out
    assert again.sha256 != first.sha256
    assert prepared(tmp_path, source=str(source)).sha256 == again.sha256 == prepared(tmp_path).sha256


def test_more_shards_in_the_given_folder_are_noticed(source: Path, tmp_path: Path) -> None:
    first = prepared(tmp_path, source=str(source))
    parquet.write_table(table(["one more"]), source / "shard_00002.parquet")
    assert len(prepared(tmp_path, source=str(source)).manifest["splits"]["train"]["shards"]) == 3
    assert prepared(tmp_path, source=str(source), shards=2).sha256 == first.sha256


@pytest.mark.parametrize("held_out", [SEALED, VAL])
@pytest.mark.parametrize("name", TRAIN)
def test_a_held_out_shard_under_the_name_of_a_training_shard_is_refused(source: Path, tmp_path: Path, name: str, held_out: str) -> None:
    (source / name).write_bytes((source / held_out).read_bytes())
    said = refused(tmp_path, source=str(source))
    assert said.startswith(f"{source / name} is the held-out {held_out} under another name")


def test_the_sealed_shard_is_not_the_validation_shard(source: Path, tmp_path: Path) -> None:
    (source / SEALED).write_bytes((source / VAL).read_bytes())
    assert "is the held-out" in refused(tmp_path, source=str(source))


def test_a_rebuild_that_fails_leaves_the_sound_data_as_it_was(source: Path, tmp_path: Path) -> None:
    first = prepared(tmp_path, source=str(source), shards=1)
    cut_short(source / TRAIN[1])
    with pytest.raises(prepare.DataError, match="truncated"):
        prepared(tmp_path, source=str(source), shards=2)
    assert prepare.describe("gpu", str(tmp_path))["data_sha256"] == first.sha256


def test_what_an_interrupted_call_has_encoded_is_used(source: Path, tmp_path: Path) -> None:
    data = prepared(tmp_path, source=str(source))
    target = tmp_path / "part.bin"
    work = shards.Work(str(source / VAL), str(target), str(data.folder / "tokenizer.json"), 0)
    facts = shards.tokenise(work)
    target.write_bytes(b"\0" * target.stat().st_size)
    assert shards.tokenise(work) == facts
    assert not any(target.read_bytes())
    target.write_bytes(b"")
    assert shards.tokenise(work) == facts
    assert target.read_bytes() == (data.folder / "val.bin").read_bytes()


def test_the_documents_of_a_record_fit_a_message(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(climbmix, "GROUPS", 10)
    data = prepared(tmp_path, source=str(source))
    starts = data.manifest["splits"]["val"]["starts"]
    ids, _ = data.split("val")
    assert 5 <= len(starts) <= 10 < data.manifest["splits"]["val"]["documents"]
    assert starts[0] == 0
    assert all(ids[start] == VOCAB - 1 for start in starts)


def test_a_score_counts_every_token_of_the_validation_shard_once(source: Path, tmp_path: Path) -> None:
    data = prepared(tmp_path, source=str(source))
    ids, _ = data.split("val")
    record = FakeScorer(every(1.0)).score(data)
    assert record["nats"] == record["tokens"] == int((ids != VOCAB - 1).sum())
    assert record["bytes"] == len(documents(source / VAL)) == sum(group["bytes"] for group in record["documents"])
    assert record["windows"] == -(-len(ids) // 64)
    assert len(record["documents"]) == len(data.manifest["splits"]["val"]["starts"])
    assert record["value"] == pytest.approx(record["tokens"] / np.log(2) / record["bytes"])
    assert FakeScorer(every(1.0)).score(data, rows=1000) == record


def test_shards_come_from_the_hub_when_no_folder_is_given(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with hub_stub.hub(**{path.stem: path.read_bytes() for path in made.iterdir()}) as there:
        monkeypatch.setenv("HF_ENDPOINT", there.base)
        data = prepared(tmp_path / "hub", shards=2)
        assert there.seen[0][1].startswith("/datasets/karpathy/climbmix-400b-shuffle/resolve/main/shard_0")
        there.seen.clear()
        prepared(tmp_path / "hub", shards=1)
        assert there.seen == [], "what has been fetched is not fetched again"
    assert data.sha256 == prepared(tmp_path / "folder", source=str(made)).sha256


# --- what cannot be


def refused(tmp_path: Path, **request: Any) -> str:
    with pytest.raises(prepare.DataError) as caught:
        prepared(tmp_path / "root", **request)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "root").rglob("manifest.json"))
    return str(caught.value)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def no_parquet(path: Path) -> None:
    path.write_text("<html>404</html>")


def no_text(path: Path) -> None:
    parquet.write_table(pyarrow.table({"words": ["a"]}), path)


def no_documents(path: Path) -> None:
    parquet.write_table(table(["", None]), path)


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", [TRAIN[1], SEALED, VAL])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut_short, "is truncated or no parquet file"),
        (empty, "is empty, 0 bytes"),
        (no_parquet, "is truncated or no parquet file"),
        (no_text, "has no column `text`"),
        (no_documents, "holds no document"),
    ],
)
def test_a_bad_shard_is_named(source: Path, tmp_path: Path, name: str, damage: Callable[[Path], None], words: str) -> None:
    damage(source / name)
    said = refused(tmp_path, source=str(source))
    assert f"{name} {words}" in said


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", [SEALED, VAL])
def test_a_held_out_shard_that_is_missing_is_named(source: Path, tmp_path: Path, name: str) -> None:
    remove(source / name)
    assert refused(tmp_path, source=str(source)).endswith(f"{name} is missing")


@pytest.mark.timeout(10)
def test_only_the_validation_shard_is_not_enough(source: Path, tmp_path: Path) -> None:
    for name in (*TRAIN, SEALED):
        remove(source / name)
    assert refused(tmp_path, source=str(source)).endswith("has no training shard: shard_00000.parquet is missing")


@pytest.mark.timeout(10)
def test_a_held_out_shard_is_never_a_training_shard(source: Path, tmp_path: Path) -> None:
    for name in TRAIN:
        remove(source / name)
    assert "has no training shard" in refused(tmp_path, source=str(source))


@pytest.mark.timeout(10)
@pytest.mark.parametrize("count", [0, -1, 6542])
def test_a_number_of_shards_that_cannot_be_is_refused(tmp_path: Path, count: int) -> None:
    assert refused(tmp_path, shards=count) == f"--shards {count}: there must be at least 1 training shard and there are 6,541"


@pytest.mark.timeout(10)
def test_other_requests_that_cannot_be_are_refused(source: Path, tmp_path: Path) -> None:
    assert "has 2 training shards, not 3" in refused(tmp_path, source=str(source), shards=3)
    assert "there is no such folder" in refused(tmp_path, source=str(tmp_path / "nowhere"))
    assert "--val-bytes 0" in refused(tmp_path, source=str(source), val_bytes=0)


@pytest.mark.timeout(10)
def test_a_wrong_digest_stops_the_preparation(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "TRIES", 1)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with hub_stub.hub(**{path.stem: path.read_bytes() for path in made.iterdir()}) as there:
        monkeypatch.setenv("HF_ENDPOINT", there.base)
        there.digests[TRAIN[0]] = "0" * 64
        assert "shard_00000.parquet could not be fetched" in refused(tmp_path, shards=1)


@pytest.mark.timeout(10)
def test_too_little_text_for_the_vocabulary_is_refused(source: Path, tmp_path: Path) -> None:
    parquet.write_table(table(["a b c"]), source / TRAIN[0])
    assert "shard_00000.parquet has too little text for a vocabulary of 512" in refused(tmp_path, source=str(source))


def test_tokens_that_are_not_the_text_are_refused_while_encoding(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bpe, "encoder", lambda tokens, pieces: lambda text: [63] * len(text))
    assert "shard_00000.parquet: the tokens of document 0 are not its text" in refused(tmp_path, source=str(source))
    assert not list((tmp_path / "root").rglob("*.bin.*"))


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("flags", "words"), [(["--shards", "0"], "--shards 0"), (["--from", "nowhere"], "--from nowhere")])
def test_the_command_line_refuses_in_one_sentence(tmp_path: Path, flags: list[str], words: str) -> None:
    arguments = [sys.executable, str(ROOT / "prepare.py"), "--profile", "gpu", "--data", str(tmp_path), *flags]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(words)
    assert done.stderr.count("\n") == 1
