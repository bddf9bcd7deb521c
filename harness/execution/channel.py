"""Messages over a stream socket: one JSON object with one key a line, at most 64 KiB, optionally with open descriptors. See docs/design/0002.

Whatever the other side sends is data of an untrusted party: a line that is too long, no JSON, or no object is a `ProtocolFault`, never an exception
of ours further down.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

from harness.errors import RatchetError

LIMIT = 64 * 1024
READS_AT_ONCE = 16


class ProtocolFault(RatchetError):
    """The other side broke the contract; the message says how."""


class Channel:
    """The harness's end. Reads never block; `closed` is set when the other side is gone."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._socket.setblocking(False)
        self._buffer = bytearray()
        self.closed = False

    def sources(self) -> list[int]:
        """Descriptors worth waiting on."""
        return [] if self.closed else [self._socket.fileno()]

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send one short message; a vanished receiver only sets `closed`."""
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        self._socket.setblocking(True)
        self._socket.settimeout(5.0)
        try:
            if descriptors:
                socket.send_fds(self._socket, [data], list(descriptors))
            else:
                self._socket.sendall(data)
        except OSError:
            self.closed = True
        finally:
            self._socket.setblocking(False)

    def receive(self) -> list[tuple[str, Any]]:
        """The whole messages that have arrived, as (key, value); at most a mebibyte at once, so that a flood that never ends holds nobody."""
        messages: list[tuple[str, Any]] = []
        for _ in range(0 if self.closed else READS_AT_ONCE):
            try:
                data = self._socket.recv(LIMIT)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.closed = True
                break
            self._buffer += data
            messages += self._split()
        return messages

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
        self.closed = True

    def _split(self) -> list[tuple[str, Any]]:
        *lines, rest = bytes(self._buffer).split(b"\n")
        if len(rest) > LIMIT or any(len(line) > LIMIT for line in lines):
            raise ProtocolFault(f"a message longer than {LIMIT} bytes")
        self._buffer = bytearray(rest)
        return [_parse(line) for line in lines if line.strip()]


def pair() -> tuple[Channel, socket.socket]:
    """Our end, and the end to hand to a process (close it here after the start)."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(ours), theirs


def _parse(line: bytes) -> tuple[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise ProtocolFault("a message that is not JSON") from None
    if not isinstance(message, dict) or len(message) != 1:
        raise ProtocolFault("a message that is not an object with one key")
    key, value = next(iter(message.items()))
    return key, value
