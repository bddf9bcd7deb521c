"""Studies that ask, and somebody who listens: questions by trial, put through the real inbox, and a receiver of messages on a loopback port."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest

from harness.artifacts import journal
from harness.control import opening
from harness.control.inbox import Inbox
from harness.control.repairing import Repairing
from harness.questions import Option
from harness.rules import Rules
from tests.projects import folder_of

OPTIONS = (
    Option(id="retry", effect="it is tried once more"),
    Option(id="skip", effect="it is left alone"),
    Option(id="stop", effect="the study ends"),
)
Blocks = Literal["line", "study", "nothing"]


def ask(
    inbox: Inbox, rules: Rules, key: str = "k", blocks: Blocks = "line", default: str = "skip", impact: str = "two trials were lost"
) -> None:
    """A question as a caller of the harness puts it."""
    inbox.ask(
        rules, "repeated_failure", key, "trial 1: a wider model", ["0001-x/r0/train.log: out of memory"], impact, OPTIONS, default, blocks,
        trial=1, repairs=["half the batch"],
    )  # fmt: skip


def asking(patch: pytest.MonkeyPatch, *questions: tuple[int, str, Blocks, str]) -> None:
    """Studies of this process ask: after so many rows, under this key, with what it blocks and its default. A fake in the place of repairs."""

    class Asking(Repairing):
        def follow_up(self, rules: Rules) -> None:
            for rows, key, blocks, default in questions:
                if self._recorder.study.row_count >= rows:
                    ask(self._inbox, rules, key, blocks, default)

    patch.setattr(opening, "Repairing", Asking)


@dataclass
class Receiver:
    """What came in, and how it is answered: a status, `hang` for no answer at all, `drip` for one that never ends."""

    how: int | Literal["hang", "drip"] = 200
    came: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        """For Apprise; `s3cret` must be seen nowhere."""
        return f"json://s3cret:pass@127.0.0.1:{self.port}/"

    @property
    def titles(self) -> list[str]:
        """Titles in the order of their coming."""
        return [one["title"] for one in self.came]


@contextmanager
def receiver(how: int | Literal["hang", "drip"] = 200) -> Iterator[Receiver]:
    """A server of messages in a thread."""
    seen = Receiver(how)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if seen.how == "hang":
                seen.over.wait(60)
                return
            self.send_response(200 if seen.how == "drip" else int(seen.how))
            self.end_headers()
            while seen.how == "drip" and not seen.over.wait(0.3):
                self.wfile.write(b".")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    seen.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        seen.over.set()
        server.shutdown()
        server.server_close()


def events(project: Path, kind: str) -> list[Any]:
    """All events of a kind in the journal."""
    return [entry.event for entry, _ in journal.read(folder_of(project).journal) if entry.event.kind == kind]


def warnings(project: Path, code: str) -> list[str]:
    """Warnings of a code."""
    return [one.message for one in events(project, "warned") if one.code == code]


def until(condition: Any, what: str, seconds: float = 20.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)


def forked(work: Any) -> int:
    """Do work in a copy of this process; its pid."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(work() or 0)
        finally:
            os._exit(code)
    return child


def ended(pid: int) -> int:
    """The exit code of a forked process."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def files_below(folder: Path) -> Sequence[Path]:
    """Every file of a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]
