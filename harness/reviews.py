"""What an independent reviewer says of a keep. A verdict is evidence: only the ratchet closes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.records import Record, VersionedRecord

Text = Annotated[str, Field(min_length=1)]


class Target(Record):
    """What a finding is about."""

    kind: Literal["claim", "field", "step", "file", "symbol"]
    id: Text


class Finding(Record):
    """One fault: where, by what evidence, and what to do. One that cannot say so is dropped."""

    code: Text
    target: Target
    evidence: Annotated[tuple[Text, ...], Field(min_length=1)]
    message: Text
    action: Literal["patch_output", "regenerate", "retrieve_again", "replan", "escalate"]


class CriticResult(VersionedRecord):
    """A review. `checked_criteria` are the closing criteria that were looked at, by number from 1; `refuted_if` what would show it to be wrong."""

    verdict: Literal["pass", "fail", "uncertain"]
    findings: tuple[Finding, ...] = ()
    checked_criteria: tuple[int, ...]
    what_can_be_cut: Text
    answers_owner_words: Text
    refuted_if: Text
    evaluator_version: Text
    input_sha256: Text


class Review(VersionedRecord):
    """One request for a review and what came of it: `result` is `None` when there is no verdict, `void` then says why. `asked_by` is the rule that asked for it."""

    asked_by: Text
    model: str
    input_sha256: Text
    result: CriticResult | None = None
    void: str = ""
    cost_usd: float | None = None
