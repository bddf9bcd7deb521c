"""Questions to the person: asked once, answered from anywhere, settled by their deadline otherwise; and the messages that tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from harness.control.recorder import Recorder
from harness.execution.clock import Clock
from harness.questions import Kind, Option
from harness.rules import Rules
from harness.trial import Stop


class Inbox:
    """The questions of one study."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder, self._clock = recorder, clock

    def ask(
        self, rules: Rules, kind: Kind, key: str, candidate: str, evidence: Sequence[str], impact: str, options: Sequence[Option], default: str,
        blocks: Literal["line", "study", "nothing"], trial: int | None = None, repairs: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Put a question to the person, unless one is open under `key` or was settled under it."""
        raise NotImplementedError

    def settle(self, rules: Rules) -> None:
        """Take answers in, let deadlines pass, send what is due."""

    def stop(self, rules: Rules) -> Stop | None:
        """Whether an answer, or a question that blocks the study, ends the night."""
        return None
