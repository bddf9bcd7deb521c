"""What stands above the trials: answers to questions, what follows a failure, detectors, the stall ladder, reviews.

Each part asks the fold what is due, and journals what it did, so that a restart finds it done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from harness.artifacts.trial_row import TrialRow
from harness.control import absences
from harness.control.findings import Findings
from harness.control.inbox import Inbox
from harness.control.ladder import Ladder
from harness.control.repairing import Repairing
from harness.control.reviewing import Reviewing
from harness.control.watching import Watching
from harness.rules import Rules
from harness.trial import Proposal, Reading, Stop, Verdict

Texts = Callable[[str], Mapping[str, str]]


@dataclass(frozen=True)
class Overseer:
    """The parts of one study."""

    inbox: Inbox
    repairing: Repairing
    findings: Findings
    ladder: Ladder
    reviewing: Reviewing
    watching: Watching

    def heed(self, rules: Rules, absent: Collection[str] = ()) -> Stop | None:
        """Between two trials: answers and deadlines first, then what follows the last trial. A reason to stop, or `None`. `absent`: who cannot propose now."""
        self.inbox.settle(rules)
        self.repairing.follow_up(rules)
        self.findings.follow_up(rules)
        absences.follow_up(self.inbox, rules)
        self.watching.look(rules)
        self.ladder.climb(rules, absent)
        return self.inbox.stop(rules)

    def owed(self, number: int, tip: str, rules: Rules) -> Proposal | None:
        """A proposal that comes before anybody's turn: the repair of an open ticket, or a keep that a person approved."""
        return self.repairing.proposal(number, tip, rules) or self.reviewing.approved(number, tip, rules)

    def reviewed(self, row: TrialRow, readings: Sequence[Reading], verdict: Verdict, rules: Rules, texts: Texts) -> bool:
        """Whether a would-be keep has had the independent review that a rule asks for; not when that was interrupted."""
        return self.reviewing.complete(row, readings, self.findings.foreseen(row, readings, verdict, texts), rules, texts)

    def closed(self, row: TrialRow, readings: Sequence[Reading], verdict: Verdict, rules: Rules, texts: Texts) -> Verdict:
        """The verdict once a repair has been verified and a review, where there was one, has been heard."""
        if not self.findings.owns(row):
            verdict = self.repairing.verified(row, readings, verdict, rules, texts)
        return self.reviewing.heard(row, self.findings.closed(row, readings, verdict, texts), rules, texts)
