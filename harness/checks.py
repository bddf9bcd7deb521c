"""A check that a task's own trusted evaluation made, passed or failed with its evidence. Nothing here decides."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from harness.records import Record

LONGEST = 300
MOST = 200


def _plain(value: object) -> object:
    """One line that a terminal, a table and UTF-8 can hold: what a task tells of a failed check quotes what a candidate wrote."""
    if not isinstance(value, str):
        return value
    shown = "".join(letter if letter.isprintable() else " " for letter in value[: 2 * LONGEST])
    return " ".join(shown.split())[:LONGEST]


Plain = Annotated[str, BeforeValidator(_plain)]
Word = Annotated[Plain, Field(min_length=1)]


class Check(Record):
    """One assertion about what a candidate made: `name` at the place `where`, of one of four types (`schema`: shape, `data`: a claim and its source).

    `scope` names the constants or functions that a repair may touch, as `path:NAME`. A failed check says what it expected, what it found, and by which
    evidence; one of the type `missing_ground_truth` says that nothing can tell what is right.
    """

    name: Word
    where: Word
    passed: bool
    error_type: Literal["schema", "data", "policy", "missing_ground_truth"]
    scope: Annotated[tuple[Word, ...], Field(min_length=1, max_length=20)]
    expected: Plain = ""
    actual: Plain = ""
    evidence: Plain = ""

    @model_validator(mode="after")
    def _a_failure_has_evidence(self) -> Check:
        if not self.passed and not (self.expected and self.actual and self.evidence):
            raise ValueError("a failed check needs expected, actual and evidence")
        return self

    @property
    def key(self) -> str:
        """What it is about: equal for the same check of two candidates."""
        return f"{self.name} at {self.where}"
