"""One try in a thread of its own, which the caller can end at any moment, also while a server is silent.

A blocked read cannot be ended by closing its socket from another thread, only by shutting the connection down; so every connection is noted.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from harness.execution.clock import SystemClock

POLL_SECONDS = 0.05
LAST_SECONDS = 0.2  # for the thread of a call that was given up to put its things away


class Call(threading.Thread):
    """A call and what it left behind, also of a fault: whether there was a connection, the headers, the message as far as it had come."""

    def __init__(self, ask: Callable[[Call], dict[str, Any]]) -> None:
        super().__init__(name="wire", daemon=True)
        self.message: dict[str, Any] | None = None
        self.fault: BaseException | None = None
        self.late = ""
        self.word = ""
        self.headers: Mapping[str, str] | None = None
        self.partial: dict[str, Any] = {}
        self._ask = ask
        self._sockets: list[socket.socket] = []
        self._ended, self._given_up = threading.Event(), False

    @property
    def connected(self) -> bool:
        """Whether anything can have reached the server."""
        return bool(self._sockets)

    def follow(self, wall_seconds: float, interrupted: Callable[[], str]) -> Call:
        """Run to the end, at most so long. `late` says why it was ended before, `timeout` or `interrupted`, and `word` what the caller said."""
        clock = SystemClock()
        end = clock.monotonic() + wall_seconds
        self.start()
        try:
            while not self.late and not self._ended.wait(POLL_SECONDS):
                self.word = interrupted()
                self.late = "interrupted" if self.word else "timeout" if clock.monotonic() > end else ""
        finally:
            if self._ended.is_set():
                self.late = ""  # it came after all; what was paid for is not thrown away
            else:
                self._give_up()
        return self

    def run(self) -> None:
        """Ask. Whatever fault there is waits for the caller."""
        with self:
            self.message = self._ask(self)

    def __enter__(self) -> None:
        """The faults inside are kept."""

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> bool:
        """Keep the fault; this is the thread's end, where it would only be printed."""
        self.fault = fault
        self._ended.set()
        return True

    def trace(self, _name: str, facts: Mapping[str, Any]) -> None:
        """Told by the transport of each of its steps: a new connection is noted, and cut at once when it comes too late."""
        look = getattr(facts.get("return_value"), "get_extra_info", None)
        made = look("socket") if look else None
        if isinstance(made, socket.socket):
            self._sockets.append(made)
            if self._given_up:
                _shut(made)

    def _give_up(self) -> None:
        self._given_up = True
        for made in list(self._sockets):
            _shut(made)
        self._ended.wait(LAST_SECONDS)


def _shut(connection: socket.socket) -> None:
    """Both directions; below TLS, whose own farewell would wait for the server."""
    try:
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:  # it is closed already
        return
