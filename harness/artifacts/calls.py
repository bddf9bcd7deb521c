"""What was asked of models, what it cost, and which of them is away: one part of the study's fold.

A call is counted when it is about to be made and settled when it was answered. What is not known is never zero: a call without a bill counts by the
upper estimate it was admitted with, also one that a kill cut off.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from harness.artifacts.call_events import Answered, Asked, ModelAway


class Calls(BaseModel):
    """Sums over all calls so far. Money in USD, tokens of input and output together."""

    model_config = ConfigDict(extra="forbid")

    made: int = 0
    retries: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    charged_usd: float = 0.0
    unknown: int = 0
    open: dict[int, Asked] = Field(default_factory=dict)
    away: dict[str, ModelAway] = Field(default_factory=dict)
    outages: dict[str, int] = Field(default_factory=dict)
    recovered: dict[str, int] = Field(default_factory=dict)
    absences: int = 0
    stand_ins: int = 0
    proposals: dict[str, int] = Field(default_factory=dict)
    latest: int = 0

    @property
    def held_tokens(self) -> int:
        """Upper estimate of the calls that are not answered yet."""
        return sum(call.tokens or 0 for call in self.open.values())

    @property
    def held_usd(self) -> float:
        """Upper estimate of the calls that are not answered yet."""
        return sum(call.dollars or 0.0 for call in self.open.values())

    def asked(self, event: Asked) -> None:
        """A call is about to be made."""
        self.made, self.retries = self.made + 1, self.retries + int(event.retry)
        self.open, self.latest = {**self.open, event.call: event}, event.proposal

    def answered(self, event: Answered) -> None:
        """Its bill, or that there is none."""
        asked = self.open[event.call]
        self.open = {number: call for number, call in self.open.items() if number != event.call}
        self.tokens += event.tokens if event.tokens is not None else asked.tokens or 0
        self.unknown += int(event.cost_usd is None)
        self.cost_usd += event.cost_usd or 0.0
        self.charged_usd += event.cost_usd if event.cost_usd is not None else asked.dollars or 0.0

    def told(self, proposal: int, cost_usd: float | None) -> None:
        """A cost from a journal whose calls were not announced yet; of an announced call its bill has it."""
        if proposal > self.latest and cost_usd is not None:
            self.made, self.cost_usd, self.charged_usd = self.made + 1, self.cost_usd + cost_usd, self.charged_usd + cost_usd

    def left(self, event: ModelAway) -> None:
        """A model cannot be asked for a while."""
        self.away = {**self.away, event.proposer: event}
        self.outages = {**self.outages, event.proposer: self.outages.get(event.proposer, 0) + 1}
        self.absences += 1

    def back(self, proposer: str) -> None:
        """It is asked again; only a proposal of its own says that the trouble is over."""
        self.away = {name: event for name, event in self.away.items() if name != proposer}

    def brought(self, proposer: str) -> None:
        """A proposal came."""
        self.counted(proposer)
        self.back(proposer)
        if proposer in self.outages:
            self.recovered = {**self.recovered, proposer: self.recovered.get(proposer, 0) + 1}
        self.outages = {name: count for name, count in self.outages.items() if name != proposer}

    def counted(self, proposer: str) -> None:
        """A turn of this proposer's was used, whatever it brought; shares rest on it."""
        self.proposals = {**self.proposals, proposer: self.proposals.get(proposer, 0) + 1}

    def reopen(self) -> None:
        """A person looked: whoever is away is asked again."""
        self.away = {}
