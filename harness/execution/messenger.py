"""A message on its way: `deliver.py` as a child process that the study does not wait for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from harness.execution.clock import Clock
from harness.execution.deliver import LATE, REASONS

SECONDS = 15.0
GRACE = 5.0
NO_PROCESS = "the process that sends could not be started, or broke"


class Messenger:
    """One delivery. `body` is `None` when the addresses are only looked at. Nothing here raises: what went wrong is an outcome."""

    def __init__(self, addresses: Mapping[str, str], title: str, body: str | None, clock: Clock) -> None:
        self._names, self._clock, self._began = tuple(addresses), clock, clock.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        order = json.dumps({"addresses": dict(addresses), "title": title, "body": body, "seconds": SECONDS}).encode()
        with suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.execution.deliver"], cwd=Path(__file__).parent.parent.parent,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            assert self._process.stdin is not None, "asked for above"
            with self._process.stdin as pipe:
                pipe.write(order)

    def outcomes(self) -> dict[str, str] | None:
        """What came of each channel; `None` while it is on its way. One that is long past its limit is ended."""
        if self._process is None:
            return dict.fromkeys(self._names, NO_PROCESS)
        if self._process.poll() is None:
            return self.end() if self._clock.monotonic() - self._began > SECONDS + GRACE else None
        return self._read()

    def end(self) -> dict[str, str]:
        """Stop it where it is, and say what came of it."""
        process = self._process
        if process is None or process.poll() is not None:
            return self.outcomes() or {}
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return dict.fromkeys(self._names, LATE)

    def _read(self) -> dict[str, str]:
        assert self._process is not None and self._process.stdout is not None, "asked for above"
        with suppress(ValueError, OSError), self._process.stdout as pipe:
            said = json.loads(pipe.read())
            return {name: said[name] if said.get(name) in REASONS else NO_PROCESS for name in self._names}
        return dict.fromkeys(self._names, NO_PROCESS)
