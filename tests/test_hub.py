"""Downloads against a hub on loopback: whatever it does, a file under its own name is whole and right."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.corpus import CorpusError, hub
from tests import hub_stub
from tests.hub_stub import Hub

CONTENT = bytes(range(256)) * 8192  # 2 MiB: more than one block
NAME = "shard_00000.parquet"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def there() -> Iterator[Hub]:
    with hub_stub.hub(shard_00000=CONTENT) as stub:
        yield stub


class Waits(list[float]):
    """A sleep that only writes down for how long."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def fetch(there: Hub, folder: Path, *names: str) -> Waits:
    waits = Waits()
    hub.fetch(f"{there.base}/files", names or (NAME,), folder, waits)
    return waits


def refused(there: Hub, folder: Path) -> str:
    with pytest.raises(CorpusError) as caught:
        fetch(there, folder)
    assert not (folder / NAME).exists()
    assert "\n" not in str(caught.value)
    assert NAME in str(caught.value)
    return str(caught.value)


def ranges(there: Hub) -> list[str | None]:
    return [asked for kind, path, asked in there.seen if kind == "GET" and "/cdn/" in path]


def test_a_file_arrives_whole_and_nothing_else_is_left(there: Hub, tmp_path: Path) -> None:
    assert fetch(there, tmp_path / "new" / "folder") == []
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == [NAME]
    assert (tmp_path / "new" / "folder" / NAME).read_bytes() == CONTENT


def test_what_is_there_is_not_asked_for_again(there: Hub, tmp_path: Path) -> None:
    fetch(there, tmp_path)
    there.seen.clear()
    fetch(there, tmp_path)
    assert there.seen == []


def test_several_files_arrive_at_once(tmp_path: Path) -> None:
    files = {f"shard_{n:05d}": bytes([n]) * (1000 + n) for n in range(20)}
    with hub_stub.hub(**files) as there:
        fetch(there, tmp_path, *there.files)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == there.files


def test_a_cut_connection_goes_on_where_it_was_cut(there: Hub, tmp_path: Path) -> None:
    there.faults[NAME] = ["cut:1500000", "cut:100000"]
    waits = fetch(there, tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert ranges(there) == [None, "bytes=1500000-", "bytes=1600000-"]
    assert len(waits) == 2
    assert waits[1] > waits[0] > 0, "longer each time"


def test_a_part_of_an_earlier_call_is_used(there: Hub, tmp_path: Path) -> None:
    there.faults[NAME] = ["cut:100000"] * hub.TRIES
    assert f"cut after {hub.TRIES * 100_000:,} of 2,097,152 bytes" in refused(there, tmp_path)
    there.seen.clear()
    fetch(there, tmp_path)
    assert ranges(there) == [f"bytes={hub.TRIES * 100_000}-"]
    assert (tmp_path / NAME).read_bytes() == CONTENT


def test_a_complete_part_is_checked_and_not_fetched_again(there: Hub, tmp_path: Path) -> None:
    (tmp_path / f".{NAME}.part").write_bytes(CONTENT)
    fetch(there, tmp_path)
    assert ranges(there) == []
    assert (tmp_path / NAME).read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"x" * 1000, CONTENT + b"x", CONTENT[:-1] + b"x"], ids=["another", "too long", "last byte"])
def test_a_part_that_is_not_of_this_file_is_dropped(there: Hub, tmp_path: Path, part: bytes) -> None:
    (tmp_path / f".{NAME}.part").write_bytes(part)
    fetch(there, tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


@pytest.mark.parametrize("fault", ["no range", "other range"])
def test_a_server_that_ignores_or_mistakes_the_range_does_no_harm(there: Hub, tmp_path: Path, fault: str) -> None:
    there.faults[NAME] = ["cut:1000000", fault]
    fetch(there, tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_busy_server_is_asked_again_after_as_long_as_it_says(there: Hub, tmp_path: Path, code: int) -> None:
    there.faults[NAME] = [f"code:{code}:7", f"code:{code}", f"code:{code}:100000"]
    waits = fetch(there, tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert waits[0] == 7
    assert waits[2] == hub.LONGEST_WAIT


@pytest.mark.parametrize("fault", ["cut:10", "garbled", "longer", "code:429"])
def test_a_fault_that_stays_is_one_sentence_after_a_few_tries(there: Hub, tmp_path: Path, fault: str) -> None:
    there.faults[NAME] = [fault] * 100
    said = refused(there, tmp_path)
    assert f"({hub.TRIES} tries)" in said
    assert "--from DIR" in said
    assert len(there.faults[NAME]) == 100 - hub.TRIES


def test_a_wrong_digest_is_named_and_the_bytes_are_dropped(there: Hub, tmp_path: Path) -> None:
    there.digests[NAME] = "0" * 64
    assert f"not {'0' * 64} as the hub states" in refused(there, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_length_is_named(there: Hub, tmp_path: Path) -> None:
    there.faults[NAME] = ["longer"] * 100
    assert "it is 2,097,156 bytes or more, not 2,097,152" in refused(there, tmp_path)


@pytest.mark.parametrize("code", [401, 403, 410])
def test_a_refusal_is_final(there: Hub, tmp_path: Path, code: int) -> None:
    there.faults[NAME] = [f"code:{code}"]
    assert f"answers {code}" in refused(there, tmp_path)
    assert len(ranges(there)) == 1


def test_a_file_that_the_hub_does_not_have_is_named(there: Hub, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"shard_00007\.parquet could not be fetched: .* answers 404"):
        fetch(there, tmp_path, "shard_00007.parquet")


def test_without_a_digest_the_size_decides(there: Hub, tmp_path: Path) -> None:
    there.redirects = False
    there.faults[NAME] = ["cut:5"]
    fetch(there, tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert all(asked is None for _, _, asked in there.seen), "nothing says that both halves are of one file, so it is fetched whole"


def test_an_empty_file_at_the_hub_is_named(there: Hub, tmp_path: Path) -> None:
    there.files["shard_00009.parquet"] = b""
    with pytest.raises(CorpusError, match=r"shard_00009\.parquet: .* is empty, 0 bytes"):
        fetch(there, tmp_path, "shard_00009.parquet")


@pytest.mark.parametrize("endpoint", ["huggingface.local/x", "foo", "://x", "http://[::1", "file:///etc", "ftp://host"])
def test_an_endpoint_that_is_no_web_address_is_one_sentence(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(CorpusError, match="HF_ENDPOINT is"):
        hub.address("some/dataset", "main")


def test_a_mirror_that_states_nothing_in_its_redirect_is_asked_further(there: Hub, tmp_path: Path) -> None:
    there.states = False
    fetch(there, tmp_path)
    assert (tmp_path / NAME).read_bytes() == CONTENT


@pytest.mark.parametrize(("states", "elsewhere"), [(True, "file:///etc/"), (False, "file:///etc/"), (False, "/again/")])
def test_a_redirect_to_a_local_file_or_without_end_is_refused(there: Hub, tmp_path: Path, states: bool, elsewhere: str) -> None:
    there.states, there.elsewhere = states, elsewhere
    said = refused(there, tmp_path)
    assert "is no web address" in said or "redirects without end" in said


def test_nobody_at_the_address_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        waits = Waits()
        with pytest.raises(CorpusError, match=r"shard_00000\.parquet could not be fetched .*refused.* --from DIR"):
            hub.fetch(f"http://127.0.0.1:{taken.getsockname()[1]}", [NAME], tmp_path, waits)
    assert len(waits) == hub.TRIES - 1


def test_the_proxy_of_the_environment_is_used(there: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", there.base)
    there.redirects = False
    hub.fetch("http://hub.invalid/files", [NAME], tmp_path, Waits())
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert there.seen[0][1] == f"http://hub.invalid/files/{NAME}"


def test_the_address_follows_the_endpoint_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub.address("a/b", "main") == "https://huggingface.co/datasets/a/b/resolve/main"
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/")
    assert hub.address("a/b", "main") == "https://mirror.example/datasets/a/b/resolve/main"


def test_a_folder_that_cannot_be_written_is_named(there: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match="file cannot be written"):
        fetch(there, tmp_path / "file")
