"""`runs/<tag>/journal.jsonl`, the one truth: a line an event, checksummed, hash-chained, written once and fsynced.

A line is `crc32 SP json LF`; `prev` in the JSON is the first 32 hex digits of the SHA-256 of the line before. A torn last line is what a crash
leaves: the owner saves it aside and truncates, a reader skips it. Anything else that does not fit is corruption: nothing is changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from harness.artifacts import durable
from harness.artifacts.events import ENTRY, Entry, Event
from harness.errors import JournalCorrupt, StorageFault

GENESIS = "0" * 32
LONGEST = 1 << 20
WHOLE = re.compile(rb'(?=([0-9a-f]{8}) \{"seq":)')


@dataclass(frozen=True)
class Position:
    """Where the next line goes: its number, the chain's hash, the byte offset, and the line number for messages (1-based)."""

    seq: int = 0
    chain: str = GENESIS
    offset: int = 0


@dataclass(frozen=True)
class Tail:
    """Bytes after the last good line: what a crash in the middle of a write leaves."""

    offset: int
    data: bytes


def read(path: Path, start: Position | None = None) -> Iterator[tuple[Entry, Position]]:
    """Each entry with the position after it, from `start` on. Stops before a torn last line; raises `JournalCorrupt` inside."""
    at = start or Position()
    with path.open("rb") as file:
        file.seek(at.offset)
        for raw in file:
            entry = _decode(raw, at)
            if entry is None and raw.endswith(b"\n") and (file.read(1) or _holds_a_whole_line(raw)):
                raise JournalCorrupt(
                    f"{path}: line {at.seq + 1} is damaged or out of its place; nothing was changed; restore the file from a backup"
                )
            if entry is None:
                return
            at = Position(at.seq + 1, _chain(raw), at.offset + len(raw))
            yield entry, at


def ends_at(path: Path, at: Position) -> bool:
    """Whether the line before `at` is the one that `at` was made from: then the whole chain up to there is the same."""
    with path.open("rb") as file:
        begin = max(0, at.offset - LONGEST)
        file.seek(begin)
        before = file.read(at.offset - begin)
    if len(before) != at.offset - begin or not before:
        return at == Position()
    return _chain(before[before.rfind(b"\n", 0, -1) + 1 :]) == at.chain


def torn_tail(path: Path, end: Position) -> Tail | None:
    """What lies after the last good line, if anything."""
    with path.open("rb") as file:
        file.seek(end.offset)
        data = file.read()
    return Tail(end.offset, data) if data else None


class Journal:
    """The owner's handle: appends. Only the holder of the study's lock may have one."""

    def __init__(self, path: Path, end: Position, now: Callable[[], str], elapsed: Callable[[], float]) -> None:
        self.path = path
        self.position = end
        self._now = now
        self.elapsed = elapsed
        self._fault: StorageFault | None = None
        with durable.guarded(path):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            durable.sync_folder(path.parent)

    def repair(self) -> Path | None:
        """Save a torn last line aside and cut it off; returns the file it went to."""
        tail = torn_tail(self.path, self.position)
        if tail is None:
            return None
        aside = self.path.with_name(f"{self.path.name}.torn-{tail.offset}")
        durable.replace(aside, tail.data)
        with durable.guarded(self.path):
            os.ftruncate(self._descriptor, tail.offset)
            os.fsync(self._descriptor)
        return aside

    def append(self, event: Event) -> Entry:
        """Make `event` durable; raises `StorageFault` when it is not, and from then on: what is on disk is known only after a new start."""
        if self._fault:
            raise StorageFault(str(self._fault))
        entry = Entry(seq=self.position.seq, prev=self.position.chain, at=self._now(), elapsed=round(self.elapsed(), 3), event=event)
        body = entry.model_dump_json().encode()
        raw = b"%08x %s\n" % (zlib.crc32(body), body)
        try:
            durable.append(self._descriptor, raw, self.path)
        except StorageFault as fault:
            self._fault = fault
            raise
        self.position = Position(self.position.seq + 1, _chain(raw), self.position.offset + len(raw))
        durable.crash_point(f"journal:{event.kind}")
        return entry

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


def _chain(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:32]


def _holds_a_whole_line(raw: bytes) -> bool:
    """Whether a bad last line ends in an intact one: a record out of its place, or two whose line end was lost. No torn write leaves that."""
    return any(zlib.crc32(raw[m.start() + 9 : -1]) == int(m.group(1), 16) for m in WHOLE.finditer(raw))


def _decode(raw: bytes, at: Position) -> Entry | None:
    """The entry of one raw line, or `None` when it is torn, altered, or out of order."""
    if not raw.endswith(b"\n") or raw[8:9] != b" ":
        return None
    body = raw[9:-1]
    if b"%08x" % zlib.crc32(body) != raw[:8]:
        return None
    try:
        entry = ENTRY.validate_json(body)
    except ValidationError as error:
        raise JournalCorrupt(
            f"line {at.seq + 1} of the journal is whole but unknown to this version of Ratchet ({error.error_count()} problems); "
            "read it with the version that wrote it"
        ) from None
    return entry if entry.seq == at.seq and entry.prev == at.chain else None
