"""The stall ladder: what is tried when nothing is kept. Every step is journalled with its reason."""

from __future__ import annotations

from harness.control.inbox import Inbox
from harness.control.recorder import Recorder
from harness.rules import Rules


class Ladder:
    """The ladder of one study."""

    def __init__(self, recorder: Recorder, inbox: Inbox) -> None:
        self._recorder, self._inbox = recorder, inbox

    def climb(self, rules: Rules) -> None:
        """Take the step that is due, if one is."""
