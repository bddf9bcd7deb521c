"""Signals as facts to ask for: INT, TERM and USR1 (`ratchet stop --now`) once end the trial cleanly, INT or USR1 after another ends everything at once, HUP is survived."""

from __future__ import annotations

import os
import signal
import time
from types import FrameType

from harness.execution.process import kill_and_reap
from harness.execution.usage import descendants

ROUNDS = 50
NOW = signal.SIGUSR1
EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, NOW: 130}


class Interrupts:
    """Installed by the command line for the length of a study; `reason` is empty until a signal came."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None

    def install(self) -> None:
        """Take the signals over; main thread only."""
        for number in EXIT_CODES:
            signal.signal(number, self._take)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def reason(self) -> str:
        """The signal's name, `asked` when it was `ratchet stop --now`, or ''."""
        return "asked" if self.received == NOW else self.received.name if self.received else ""

    @property
    def sentence(self) -> str:
        """Why it ends."""
        return f"{'`ratchet stop --now` asked for it' if self.received == NOW else f'{self.reason()} received'}; `ratchet resume` goes on"

    @property
    def exit_code(self) -> int:
        """The shell's code for the signal that came."""
        return EXIT_CODES[self.received] if self.received else 0

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number in (signal.SIGINT, NOW):
            end_descendants()
            os._exit(EXIT_CODES[signal.SIGINT])
        self.received = self.received or signal.Signals(number)


def end_descendants() -> None:
    """KILL everything that came of this process; what a victim starts meanwhile is found in the next round."""
    for _ in range(ROUNDS):
        for pid in (living := descendants(os.getpid())):
            kill_and_reap(pid)
        if not living:
            return
        time.sleep(0.01)
