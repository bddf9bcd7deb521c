"""What the journal says of the calls of models: asked, answered, away, back; and the two nouns of their money."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.trial import Record


class Estimate(Record):
    """The most that one call can use: tokens of input and output, dollars; `None` when nobody can say.

    `record` is the file of its request below the study's folder; `review` the trial that the call reviews, where it is no proposer's.
    """

    proposal: int
    proposer: str
    model: str | None = None
    retry: bool = False
    tokens: Annotated[int, Field(ge=0)] | None = None
    dollars: Annotated[float, Field(ge=0)] | None = None
    record: str = ""
    review: int | None = None


class Bill(Record):
    """How a call ended and what it used; `None` where nobody knows."""

    outcome: str
    detail: str = ""
    model: str | None = None
    usage: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    tokens: Annotated[int, Field(ge=0)] | None = None
    cost_usd: Annotated[float, Field(ge=0)] | None = None


class Asked(Estimate):
    """A model or an agent is about to be called: journalled first, so that no call is ever forgotten."""

    kind: Literal["asked"] = "asked"
    call: int


class Answered(Bill):
    """How that call ended."""

    kind: Literal["answered"] = "answered"
    call: int


class ModelAway(Record):
    """A model cannot be asked until that time (UTC), or, without one, until a person has looked."""

    kind: Literal["model_away"] = "model_away"
    proposer: str
    reason: str
    detail: str
    until: str | None = None


class ModelBack(Record):
    """It is asked again."""

    kind: Literal["model_back"] = "model_back"
    proposer: str
