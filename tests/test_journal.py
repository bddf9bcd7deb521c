"""The journal loses at most the record that was being written, and says so about anything else (faults 13, 14, 18, 21)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.artifacts import durable, journal
from harness.artifacts.events import Entry, Event, Proposed, Refused, Resumed, RulesChanged, Settled, Stopped, Warned
from harness.artifacts.journal import Journal, Position
from harness.errors import JournalCorrupt, StorageFault
from harness.trial import Stop
from tests.projects import ROOT

FIVE: list[Event] = [
    Warned(code="a", message="one"), Settled(trial=7), Warned(code="b", message="zwei – два\n\u2028"), Settled(trial=8), Warned(code="c", message=""),
]  # fmt: skip


def open_journal(path: Path, end: Position | None = None) -> Journal:
    return Journal(path, end or Position(), now=lambda: "2026-03-08T21:30:00Z", elapsed=lambda: 1.23456)


def written(path: Path, events: list[Event]) -> list[bytes]:
    """A journal of `events`; its lines."""
    log = open_journal(path)
    for event in events:
        log.append(event)
    log.close()
    return path.read_bytes().splitlines(keepends=True)


def read(path: Path) -> list[Event]:
    return [entry.event for entry, _ in journal.read(path)]


def end_of(path: Path) -> Position:
    return [Position(), *(position for _, position in journal.read(path))][-1]


def corrupt(path: Path) -> str:
    """The sentence about a corrupt journal; nothing on disk may change by reading it."""
    before = {p.name: p.read_bytes() for p in path.parent.iterdir()}
    with pytest.raises(JournalCorrupt) as caught:
        read(path)
    assert {p.name: p.read_bytes() for p in path.parent.iterdir()} == before
    assert caught.value.exit_code == 65
    return str(caught.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    return folder / "journal.jsonl"


def test_a_line_is_checksum_and_json_chained_to_the_line_before(path: Path) -> None:
    lines = written(path, FIVE)
    for number, line in enumerate(lines):
        checksum, body = line[:-1].split(b" ", 1)
        assert int(checksum, 16) == zlib.crc32(body)
        entry = json.loads(body)
        assert (entry["seq"], entry["at"], entry["elapsed"]) == (number, "2026-03-08T21:30:00Z", 1.235)
        assert entry["prev"] == (journal._chain(lines[number - 1]) if number else journal.GENESIS)
    assert read(path) == FIVE


def test_an_empty_journal_has_no_entries(path: Path) -> None:
    open_journal(path).close()
    assert (read(path), end_of(path)) == ([], Position())


def test_cut_at_every_byte_of_the_last_record_all_earlier_ones_are_read_and_the_owner_goes_on(path: Path) -> None:
    lines = written(path, FIVE)
    whole, kept = b"".join(lines), len(b"".join(lines[:-1]))
    for cut in range(kept, len(whole)):
        path.write_bytes(whole[:cut])
        assert read(path) == FIVE[:-1]
        log = open_journal(path, end_of(path))
        aside = log.repair()
        assert path.read_bytes() == whole[:kept]
        if cut == kept:
            assert aside is None
        else:
            assert aside is not None and aside.read_bytes() == whole[kept:cut]
            aside.unlink()
        assert log.repair() is None
        log.append(FIVE[-1])
        log.close()
        assert read(path) == FIVE
        assert path.read_bytes() == whole


def test_a_tail_of_zeros_or_noise_is_torn_too(path: Path) -> None:
    lines = written(path, FIVE)
    for tail in (b"\0" * 512, lines[-1][:40] + b"\0" * 99, b"\xff\xfe", lines[-1][:-1], b" ", b"{}"):
        path.write_bytes(b"".join(lines[:-1]) + tail)
        assert read(path) == FIVE[:-1]


@pytest.mark.parametrize("line", [0, 2, 3])
def test_any_flipped_byte_with_lines_after_it_is_corruption_that_names_the_line(path: Path, line: int) -> None:
    lines = written(path, FIVE)
    start = len(b"".join(lines[:line]))
    for at in range(start, start + len(lines[line])):
        for mask in (0x01, 0x20, 0x80, 0xFF):
            damaged = bytearray(b"".join(lines))
            damaged[at] ^= mask
            path.write_bytes(damaged)
            assert f"journal.jsonl: line {line + 1} is damaged" in corrupt(path)


def test_a_byte_that_becomes_a_line_end_is_corruption_too(path: Path) -> None:
    lines = written(path, FIVE)
    for at in range(len(lines[0]) - 1):
        path.write_bytes(lines[0][:at] + b"\n" + lines[0][at + 1 :] + b"".join(lines[1:]))
        assert "line 1 is damaged" in corrupt(path)


def test_a_flipped_byte_in_the_last_line_counts_as_torn(path: Path) -> None:
    lines = written(path, FIVE)
    start = len(b"".join(lines[:-1]))
    for at in range(start, start + len(lines[-1])):
        damaged = bytearray(b"".join(lines))
        damaged[at] ^= 0x80
        path.write_bytes(damaged)
        assert read(path) == FIVE[:-1]


ORDERS: dict[str, tuple[list[int], int]] = {
    "two swapped": ([0, 2, 1, 3, 4], 2), "the last two swapped": ([0, 1, 2, 4, 3], 4), "the first moved": ([1, 2, 0, 3, 4], 1),
    "one doubled": ([0, 1, 1, 2, 3, 4], 3), "the last doubled": ([0, 1, 2, 3, 4, 4], 6), "an old one at the end": ([0, 1, 2, 3, 4, 1], 6),
    "one gone": ([0, 1, 3, 4], 3), "the last but one gone": ([0, 1, 2, 4], 4), "the first gone": ([1, 2, 3, 4], 1), "only the last left": ([4], 1),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_whole_lines_out_of_their_place_are_corruption(path: Path, name: str) -> None:
    order, line = ORDERS[name]
    lines = written(path, FIVE)
    path.write_bytes(b"".join(lines[n] for n in order))
    assert f"line {line} is damaged" in corrupt(path)


def test_a_line_of_another_journal_does_not_fit(path: Path, tmp_path: Path) -> None:
    lines = written(path, FIVE)
    other = written(tmp_path / "other.jsonl", [Warned(code="x", message="y"), *FIVE[1:]])
    path.write_bytes(b"".join([*lines[:2], other[2], *lines[3:]]))
    assert "line 3" in corrupt(path)


@pytest.mark.parametrize("last", [True, False])
def test_a_whole_line_of_an_unknown_kind_is_refused_with_a_sentence(path: Path, last: bool) -> None:
    lines = written(path, FIVE[:3])
    body = json.loads(lines[2][9:])
    body["event"] = {"kind": "teleported", "to": "mars"}
    raw = json.dumps(body).encode()
    line = b"%08x %s\n" % (zlib.crc32(raw), raw)
    path.write_bytes(b"".join(lines[:2]) + line + (b"" if last else lines[2]))
    assert "line 3 of the journal is whole but unknown to this version of Ratchet" in corrupt(path)


def test_reading_goes_on_from_any_position(path: Path) -> None:
    written(path, FIVE)
    positions = [Position(), *(position for _, position in journal.read(path))]
    for number, position in enumerate(positions):
        assert [entry.event for entry, _ in journal.read(path, position)] == FIVE[number:]
        assert journal.ends_at(path, position)


def test_a_position_of_another_journal_is_known_by_its_chain(path: Path, tmp_path: Path) -> None:
    written(path, FIVE)
    other = tmp_path / "other.jsonl"
    written(other, [Warned(code="x", message="one"), *FIVE[1:], *FIVE])
    for _, position in journal.read(path):
        assert not journal.ends_at(other, position)
    for _, position in journal.read(other):
        assert not journal.ends_at(path, position)
    assert not journal.ends_at(path, Position(seq=1, offset=3))
    assert not journal.ends_at(path, Position(seq=1, offset=0))


def test_a_reader_sees_the_rest_of_a_line_that_its_owner_was_just_writing(path: Path) -> None:
    """Half a line at the end of the file is no damage, even when the other half arrives while it is looked at."""
    lines = written(path, FIVE)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:30])
    reader = journal.read(path)
    assert [next(reader)[0].event for _ in FIVE[:-1]] == FIVE[:-1]
    with path.open("ab") as file:
        file.write(lines[-1][30:])
    assert [entry.event for entry, _ in reader] in ([], FIVE[-1:])
    assert read(path) == FIVE


class Failing:
    """A journal whose descriptor is changed for one that fails, and changed back."""

    def __init__(self, log: Journal, descriptor: int) -> None:
        self.log, self.good, self.bad = log, log._descriptor, descriptor

    def __enter__(self) -> Journal:
        self.log._descriptor = self.bad
        return self.log

    def __exit__(self, *_: object) -> None:
        self.log._descriptor = self.good
        os.close(self.bad)


def pipe_without_reader() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def full_pipe() -> int:
    """A descriptor that takes 4 KiB of a longer record and no more: a short write. Nor can a pipe be synced."""
    _, writing = os.pipe()
    os.set_blocking(writing, False)
    capacity = os.write(writing, b"x" * (1 << 20))
    os.close(writing)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.write(writing, b"x" * (capacity - 4096))
    KEPT_OPEN.append(reading)
    return writing


KEPT_OPEN: list[int] = []
FAILURES: dict[str, tuple[Callable[[], int], str]] = {
    "no space": (lambda: os.open("/dev/full", os.O_WRONLY), "No space left on device; free some space"),
    "fsync fails": (lambda: os.open("/dev/null", os.O_WRONLY), "Invalid argument"),
    "the pipe is broken": (pipe_without_reader, "Broken pipe"),
    "a short write": (full_pipe, "only 4096 of"),
    "read-only": (lambda: os.open("/dev/null", os.O_RDONLY), "Bad file descriptor"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_write_that_fails_is_a_storage_fault_and_the_record_counts_as_not_written(path: Path, name: str) -> None:
    make, said = FAILURES[name]
    log = open_journal(path)
    log.append(FIVE[0])
    before, where = path.read_bytes(), log.position
    with Failing(log, make()), pytest.raises(StorageFault, match=said) as caught:
        log.append(Warned(code="long", message="m" * 9000))
    while KEPT_OPEN:
        os.close(KEPT_OPEN.pop())
    assert (caught.value.exit_code, log.position, path.read_bytes()) == (74, where, before)
    with pytest.raises(StorageFault, match=said):
        log.append(FIVE[1])
    log.close()
    assert path.read_bytes() == before, "after a failed write nothing is appended: what is on disk is unknown until a new start"


LIMITED = """
import resource, sys
from pathlib import Path
from harness.artifacts.events import Settled, Stopped, Warned
from harness.artifacts.journal import Journal, Position
from harness.errors import StorageFault
from harness.trial import Stop
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
log = Journal(Path(sys.argv[1]), Position(), now=lambda: "now", elapsed=lambda: 0.0)
log.append(Settled(trial=1))
said = []
for event in (Warned(code="long", message="m" * 2000), Stopped(stop=Stop(reason="x", sentence="y", exit_code=74))):
    try:
        log.append(event)
    except StorageFault as fault:
        said.append(str(fault))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(log.position.seq, len(said), said[0])
"""


def test_a_real_short_write_leaves_a_torn_line_that_the_next_start_mends(path: Path) -> None:
    """The file may grow to 1,000 bytes; the limit is gone before the harness writes its last word, which must not go behind the torn line."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stdout.startswith("1 2 ") and "bytes could be written" in done.stdout
    assert len(path.read_bytes()) == 1000
    assert read(path) == [Settled(trial=1)]
    log = open_journal(path, end_of(path))
    aside = log.repair()
    assert aside is not None and len(aside.read_bytes()) == 1000 - log.position.offset
    log.append(FIVE[0])
    log.close()
    assert read(path) == [Settled(trial=1), FIVE[0]]


def test_a_journal_that_cannot_be_opened_is_a_storage_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFault, match="Not a directory"):
        open_journal(tmp_path / "file" / "journal.jsonl")


TEXT = st.text(max_size=40).filter(lambda text: text.encode("utf-8", "ignore").decode() == text)
NUMBER = st.integers(0, 10**6)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(Warned, code=TEXT, message=TEXT),
    st.builds(Settled, trial=NUMBER),
    st.builds(RulesChanged, digest=TEXT, diff=TEXT, limits=st.none() | st.dictionaries(TEXT, NUMBER | TEXT | st.none(), max_size=3)),
    st.builds(Proposed, proposal=NUMBER, stored_sha256=TEXT, title=TEXT, axis=TEXT, edit=TEXT, proposer=TEXT),
    st.builds(Refused, proposal=NUMBER, reason=TEXT, detail=TEXT, earlier=st.none() | NUMBER),
    st.builds(Resumed, pid=NUMBER, limits=st.dictionaries(TEXT, NUMBER | st.floats(0, 1e9) | st.none(), max_size=3)),
    st.builds(Stopped, stop=st.builds(Stop, reason=TEXT, sentence=TEXT, exit_code=st.integers(0, 255))),
)


@given(st.lists(EVENTS, max_size=12), st.data())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_was_said_is_read_again_and_a_cut_anywhere_loses_only_what_comes_after(path: Path, events: list[Event], data: Any) -> None:
    path.unlink(missing_ok=True)
    lines = written(path, events)
    assert read(path) == events
    assert [entry.seq for entry in entries(path)] == list(range(len(events)))
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    complete = sum(len(b"".join(lines[: n + 1])) <= cut for n in range(len(lines)))
    assert read(path) == events[:complete]


def entries(path: Path) -> Iterator[Entry]:
    return (entry for entry, _ in journal.read(path))


def test_a_replaced_file_is_on_disk_before_it_has_its_name_and_its_folder_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, seen, sync = tmp_path / "a", list[str](), os.fsync
    target.write_text("old")

    def watched(descriptor: int) -> None:
        seen.append(f"{Path(f'/proc/self/fd/{descriptor}').readlink().name}: {target.read_text()}")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    durable.replace(target, b"new")
    assert seen == [".a.tmp: old", f"{tmp_path.name}: new"]
