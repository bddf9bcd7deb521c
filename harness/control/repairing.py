"""What follows a failed trial, by its cause; tickets, repairs, and their verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.artifacts.trial_row import TrialRow
from harness.control.inbox import Inbox
from harness.control.recorder import Recorder
from harness.rules import Rules
from harness.trial import Proposal, Reading, Verdict


class Repairing:
    """The follow-ups of one study. `text_at` gives the text of a file at a commit."""

    def __init__(self, recorder: Recorder, inbox: Inbox, text_at: Callable[[str, str], str]) -> None:
        self._recorder, self._inbox, self._text_at = recorder, inbox, text_at

    def follow_up(self, rules: Rules) -> None:
        """Journal what is done about the last settled trial, if it failed."""

    def proposal(self, number: int, tip: str, rules: Rules) -> Proposal | None:
        """The repair that the harness itself makes for the open ticket."""
        return None

    def verified(
        self, row: TrialRow, readings: Sequence[Reading], verdict: Verdict, rules: Rules, texts: Callable[[str], Mapping[str, str]],
    ) -> Verdict:  # fmt: skip
        """The verdict on a repair after its verification; of any other trial the verdict as it is."""
        return verdict
