"""One trial as the journal tells it: what was proposed, run, measured and decided."""

from __future__ import annotations

from harness.audited import Rehearsal
from harness.trial import BudgetLeft, Change, Noise, Reading, Record, Status, Verdict


class Beginning(Record):
    """With what a trial begins. `repairs`: the trial whose ticket it carries out; `rung`: of the stall ladder; `approves`: the blocked trial that a person wants
    kept; `expected`: the effect it promised, in its own words.
    """

    trial: int
    proposal: int | None
    parent: str
    change: Change
    title: str
    axis: str
    edit: str
    proposer: str
    folder: str
    stands_for: str = ""
    replicates: int | None = None
    repairs: int | None = None
    rung: str = ""
    approves: int | None = None
    expected: str = ""


class TrialRow(Beginning):
    """Everything known of one trial."""

    commit: str | None = None
    tree: str | None = None
    ref: str | None = None
    readings: tuple[Reading, ...] = ()
    rehearsal: Rehearsal | None = None
    interruptions: int = 0
    verdict: Verdict | None = None
    noise: Noise | None = None
    budget_left: BudgetLeft | None = None
    rules_digest: str = ""
    previous: str | None = None
    elapsed: float | None = None

    @property
    def value(self) -> float | None:
        """Mean of the finite readings, or `None`."""
        values = [r.value for r in self.readings if r.value is not None]
        return sum(values) / len(values) if values else None

    @property
    def status(self) -> Status | None:
        """The verdict's status, or `None` while undecided."""
        return self.verdict.status if self.verdict else None


class Refusal(Record):
    """A proposal that did not run; `earlier` is the trial that was the same or nearly. `at` and `after` as in `Edit`."""

    proposal: int
    reason: str
    detail: str
    axis: str
    edit: str
    earlier: int | None = None
    at: str = ""
    after: int = -1


class Edit(Record):
    """An edit of program.md: in force with its digest and diff, or refused, without a digest, and why. `after`: the last settled trial, -1 before the baseline.

    `back`: after a refused one the file is again what is in force.
    """

    at: str
    after: int
    said: str
    digest: str = ""
    back: bool = False
