"""The message channel on real sockets: framing, what is refused, and descriptors that arrive open."""

from __future__ import annotations

import itertools
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.execution import channel
from harness.execution.channel import LIMIT, Channel, ProtocolFault

Pair = tuple[Channel, socket.socket]


@pytest.fixture
def ends() -> Iterator[Pair]:
    ours, theirs = channel.pair()
    yield ours, theirs
    ours.close()
    theirs.close()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20), lambda inner: st.lists(inner, max_size=3), max_leaves=5
)
messages = st.lists(st.tuples(st.text(max_size=10), values), max_size=8)


@given(sent=messages, cuts=st.lists(st.integers(min_value=0, max_value=400), max_size=12))
@settings(max_examples=60, deadline=None)
def test_any_split_of_the_bytes_gives_the_same_messages(sent: list[tuple[str, Any]], cuts: list[int]) -> None:
    ours, theirs = channel.pair()
    try:
        data = b"".join(json.dumps({key: value}).encode() + b"\n" for key, value in sent)
        edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
        found = []
        for start, end in itertools.pairwise(edges):
            theirs.sendall(data[start:end])
            found += ours.receive()
        assert found == sent
        assert not ours.closed
    finally:
        ours.close()
        theirs.close()


def test_reading_never_blocks_and_empty_lines_are_nothing(ends: Pair) -> None:
    ours, theirs = ends
    assert ours.receive() == []
    theirs.sendall(b"\n \r\n{")
    assert ours.receive() == []
    theirs.sendall(b'"a": 1}\n')
    assert ours.receive() == [("a", 1)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"step 1", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": 1} {"b": 2}', "not JSON"),
        (b"[" * 50_000, "not JSON"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "not JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not JSON"),
        (b"[1]", "one key"),
        (b"5", "one key"),
        (b"null", "one key"),
        (b"{}", "one key"),
        (b'{"a": 1, "b": 2}', "one key"),
        (b'{"a": "' + b"x" * LIMIT + b'"}', "longer than 65536 bytes"),
    ],
)
def test_a_line_that_is_no_message_is_refused(ends: Pair, line: bytes, said: str) -> None:
    ours, theirs = ends
    theirs.sendall(line + b"\n")
    with pytest.raises(ProtocolFault, match=said):
        ours.receive()


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(ends: Pair) -> None:
    ours, theirs = ends
    theirs.setblocking(False)
    with pytest.raises(ProtocolFault, match="longer"):
        for _ in range(100):
            try:
                theirs.send(b"x" * 4096)
            except BlockingIOError:
                pytest.fail("nobody reads")
            ours.receive()


def test_a_flood_is_handed_over_in_parts(ends: Pair) -> None:
    ours, theirs = ends
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
    theirs.setblocking(False)
    line, sent = b'{"point": {"step": 1}}\n', 0
    try:
        while sent < 200_000:
            theirs.send(line)
            sent += 1
    except BlockingIOError:
        pass
    found = 0
    while part := ours.receive():
        assert len(part) * len(line) <= channel.READS_AT_ONCE * LIMIT
        found += len(part)
    assert found == sent


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_know_arrive_as_they_are_and_are_never_sent(ends: Pair, name: str) -> None:
    ours, theirs = ends
    theirs.sendall(f'{{"point": {{"loss": {name}}}}}\n'.encode())
    ((_, value),) = ours.receive()
    assert str(value["loss"]) in ("nan", "inf", "-inf")
    with pytest.raises(ValueError, match="not JSON compliant"):
        ours.send({"point": value})


def test_descriptors_arrive_open(ends: Pair, tmp_path: Path) -> None:
    ours, theirs = ends
    (tmp_path / "data").write_bytes(b"words")
    data, checkpoint = os.open(tmp_path / "data", os.O_RDONLY), os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    ours.send({"go": {}}, [data, checkpoint])
    os.close(data)
    os.close(checkpoint)
    message, received, _, _ = socket.recv_fds(theirs, 1024, 4)
    assert json.loads(message) == {"go": {}}
    with os.fdopen(received[0], "rb") as reading, os.fdopen(received[1], "wb") as writing:
        assert reading.read() == b"words"
        writing.write(b"weights")
    assert (tmp_path / "out").read_bytes() == b"weights"


def test_a_side_that_is_gone_only_closes_the_channel(ends: Pair) -> None:
    ours, theirs = ends
    theirs.sendall(b'{"done": {}}\n{"half')
    theirs.close()
    ours.send({"hello": {}})
    assert ours.closed
    assert ours.receive() == []
    ours.send({"hello": {}})


def test_the_last_words_of_a_side_that_went_are_still_read(ends: Pair) -> None:
    ours, theirs = ends
    theirs.sendall(b'{"done": {}}\n')
    theirs.close()
    assert ours.receive() == [("done", {})]
    assert ours.closed
    assert ours.sources() == []
