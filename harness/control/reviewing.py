"""Independent reviews of would-be keeps, where a rule asks for one: when, by whom, and what a verdict leads to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.artifacts.trial_row import TrialRow
from harness.control.inbox import Inbox
from harness.control.recorder import Recorder
from harness.rules import Rules
from harness.trial import Proposal, Reading, Verdict


class Reviewing:
    """The reviews of one study."""

    def __init__(self, recorder: Recorder, inbox: Inbox) -> None:
        self._recorder, self._inbox = recorder, inbox

    def complete(
        self, row: TrialRow, readings: Sequence[Reading], verdict: Verdict, rules: Rules, texts: Callable[[str], Mapping[str, str]],
    ) -> bool:  # fmt: skip
        """Whether nothing more is due before the verdict; a review that is due is asked for and journalled."""
        return True

    def heard(self, row: TrialRow, verdict: Verdict, rules: Rules) -> Verdict:
        """What the review leaves of a keep; only a valid pass leaves it as it is."""
        return verdict

    def approved(self, number: int, tip: str, rules: Rules) -> Proposal | None:
        """A blocked keep that a person approved, as a new proposal on the present incumbent."""
        return None
