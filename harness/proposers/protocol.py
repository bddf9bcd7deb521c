"""What every proposer is: `propose(briefing) -> Proposal`, or `None` when it has no more ideas.

A proposer sees the study only through the `Briefing`, built from the journal. It never judges, commits, logs or counts. The offline ones
are pure functions of the briefing, so that a restart needs no state of theirs.
"""

from __future__ import annotations

from typing import Protocol

from harness.oversight import Ban
from harness.trial import Proposal, Record, Status


class Past(Record):
    """One earlier proposal: a trial with its outcome, or a refusal (`trial` is `None`, `refused` the reason). `no_effect`: it read as the incumbent did, to the
    last bit.
    """

    trial: int | None
    title: str
    axis: str
    edit: str
    status: Status | None = None
    refused: str | None = None
    gain: float | None = None
    no_effect: bool = False


class NearMiss(Record):
    """A discard on the present incumbent that came close, with its files in scope; `gain` is positive when better."""

    trial: int
    title: str
    axis: str
    edit: str
    gain: float | None
    files: dict[str, str]


class Page(Record):
    """A briefing in words. `stable` is byte-identical from call to call while program.md and its rules are, so that a provider may cache it."""

    stable: str
    changing: str

    def text(self) -> str:
        """The whole page."""
        return self.stable + self.changing


class Briefing(Record):
    """What a proposer is told. `files` holds the texts of the files in scope at the incumbent.

    `ban` is what the rules forbid to propose, `owed` counts earlier proposals that were nobody's turn. `page` is the whole of it in words, made only
    for a proposer that `reads`. `rung` is the one of the stall ladder that is in force, '' on the ground; on `combine`, `near` are the near misses that change different parts.
    """

    number: int
    incumbent: str
    files: dict[str, str]
    past: tuple[Past, ...]
    goal: str
    direction: str
    ban: Ban = Ban()
    page: Page | None = None
    owed: int = 0
    rung: str = ""
    near: tuple[NearMiss, ...] = ()


class Proposer(Protocol):
    """A source of changes. One that `reads` is told everything in words, and its calls may cost money and fail."""

    name: str
    reads: bool

    def propose(self, briefing: Briefing) -> Proposal | None:
        """The next proposal, numbered `briefing.number`, on the parent `briefing.incumbent`; `None` ends the study."""
        ...
