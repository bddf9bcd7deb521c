"""The tables of the rules block that govern what follows a failure, a stall or a doubt: bans, corrections, the stall ladder, reviews, questions."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Literal

from pydantic import Field, field_validator

from harness.sections import MOST, Section, Variable

Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False)]
LocalTime = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
Rung = Literal["other_axis", "combine", "wider_briefing", "other_model", "radical", "critic", "ask"]


class Ban(Section):
    """What no proposal may do: turn an axis (a constant, function or class, or what a proposal calls its axis), add a line with one of these words, import a module."""

    axes: Names = ()
    words: Names = ()
    imports: Names = ()


NO_BAN = Ban()


class Correction(Section):
    """Bounded repair of a failed candidate: how often each is repaired, how many repairs a study may have, how long one may be without a stated structural reason.

    `micro_batch` and `total_batch` name the constants by which a candidate that ran out of memory is repaired: the first is halved, the second must stay.
    `crashes`: whether a model is asked to repair a candidate that crashed.
    """

    attempts: Annotated[int, Field(ge=0, le=5)] = 1
    in_all: Annotated[int, Field(ge=0, le=MOST)] = 20
    max_lines: Annotated[int, Field(ge=1, le=MOST)] = 20
    micro_batch: str = "DEVICE_ROWS"
    total_batch: str = "TOTAL_BATCH"
    crashes: bool = True


class Stall(Section):
    """The ladder climbed when nothing is kept: after so many measured trials without a keep its first rung, after `quota` more the next; a keep steps down from it."""

    after: Annotated[int, Field(ge=1, le=MOST)] | None = 15
    quota: Annotated[int, Field(ge=1, le=MOST)] = 5
    rungs: Annotated[tuple[Rung, ...], Field(strict=False)] = ("other_axis", "combine", "wider_briefing", "other_model", "radical", "ask")


class Review(Section):
    """When a keep needs an independent review, and by what it is judged; off unless one of the first four asks for it.

    `added_lines`: net lines above which, `memory_percent`: growth of peak memory over the incumbent's above which, `symbols`: names whose change, `implausible`: a gain
    above `[audit] implausible_gain`. `criteria` are the closing criteria that the reviewer gets. `model`: who reviews, by default the first of `[model] names`.
    """

    added_lines: Annotated[int, Field(ge=0, le=MOST)] | None = None
    memory_percent: Annotated[float, Field(ge=0, le=MOST)] | None = None
    symbols: Names = ()
    implausible: bool = False
    criteria: Names = ()
    model: str | None = None
    max_tokens: Annotated[int, Field(ge=1024, le=32_000)] = 4096
    wall_seconds: Annotated[float, Field(gt=0, le=3600)] = 180.0
    in_all: Annotated[int, Field(ge=1, le=MOST)] = 20

    @field_validator("symbols")
    @classmethod
    def _python_names(cls, symbols: tuple[str, ...]) -> tuple[str, ...]:
        names = tuple(unicodedata.normalize("NFKC", one.strip()) for one in symbols)
        for n, name in enumerate(names, 1):
            if not all(part.isidentifier() for part in name.split(".")):
                raise ValueError(
                    f"[review] symbols: entry {n} is no name; write a constant, function or class, or a method as Class.method"
                )
        return names

    @property
    def asked_for(self) -> bool:
        """Whether any rule asks for reviews."""
        return self.added_lines is not None or self.memory_percent is not None or bool(self.symbols) or self.implausible


class Escalation(Section):
    """When a person is due: failed trials in a row, refused proposals in a row end the study. How questions reach her: `channels` names the environment variables
    that hold Apprise addresses, `quiet` the local times between which nobody is woken, `messages` how many a study may send.

    A question that nobody answers in `answer_minutes` takes its default.
    """

    consecutive_crashes: Annotated[int, Field(ge=1, le=MOST)] = 5
    refused_proposals: Annotated[int, Field(ge=1, le=MOST)] = 50
    channels: Annotated[tuple[Variable, ...], Field(strict=False)] = ()
    quiet: Annotated[tuple[LocalTime, LocalTime], Field(strict=False)] | None = None
    messages: Annotated[int, Field(ge=0, le=MOST)] = 10
    answer_minutes: Annotated[float, Field(gt=0, le=1_000_000)] = 480.0
