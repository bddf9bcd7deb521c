"""A question to the person: what it is about, what was tried, what it blocks, what may be answered, and what is done when nobody answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harness.records import Record, VersionedRecord

Text = Annotated[str, Field(min_length=1)]
Kind = Literal[
    "missing_ground_truth", "policy_conflict", "wider_permission", "responsibility", "repeated_failure", "stalled", "review",
]  # fmt: skip


class Option(Record):
    """One answer that may be given. `id` is what is typed, `effect` what the harness then does, in words."""

    id: Annotated[str, Field(pattern=r"^[a-z][a-z_]*$")]
    effect: Text


class Question(VersionedRecord):
    """One escalation, numbered from 1 in its study. `key` says what it is about: nobody is asked twice for one key while it is open.

    `blocks`: this line of work, the whole study, or nothing. `at` and `deadline` (UTC): when it was asked, and when `default` is taken; `None` when it waits for a person.
    """

    number: int
    kind: Kind
    key: Text
    goal: Text
    candidate: str
    trial: int | None = None
    evidence: Annotated[tuple[Text, ...], Field(min_length=1)]
    repairs: tuple[str, ...] = ()
    impact: Text
    options: Annotated[tuple[Option, ...], Field(min_length=1)]
    default: str
    blocks: Literal["line", "study", "nothing"]
    at: str = ""
    deadline: str | None = None

    @model_validator(mode="after")
    def _default_is_an_option(self) -> Question:
        if self.default not in {option.id for option in self.options}:
            raise ValueError(f"the default {self.default!r} is none of the options")
        return self


class Answer(VersionedRecord):
    """What was said to question `number`: one of its options, and why. A deadline answers, too, so that exactly one of the two is there first."""

    number: int
    option: str
    note: str = ""
    at: str
    by: Literal["person", "deadline", "moot"] = "person"
