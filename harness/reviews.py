"""What an independent reviewer says of a keep. A verdict is evidence: only the ratchet closes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from harness.records import Record, VersionedRecord

Text = Annotated[str, Field(min_length=1)]
Word = Literal["pass", "fail", "uncertain"]


class Target(Record):
    """What a finding is about."""

    kind: Literal["claim", "field", "step", "file", "symbol"]
    id: Text


class Finding(Record):
    """One fault: where, by what evidence (quotes of the change), what to do, and when it would pass. One that cannot say so is dropped."""

    code: Text
    target: Target
    evidence: Annotated[tuple[Text, ...], Field(min_length=1, strict=False)]
    message: Text
    action: Literal["patch_output", "regenerate", "retrieve_again", "replan", "escalate"]
    passes_when: Text


class CriticResult(VersionedRecord):
    """A review. `checked_criteria` are the closing criteria that were looked at, by number from 1; `refuted_if` what would show it to be wrong; `because`: why it answers the words.

    `evaluator_version` and `input_sha256` are the harness's own: its version with the model, and the digest of all that the reviewer was shown.
    """

    verdict: Word
    findings: tuple[Finding, ...] = ()
    checked_criteria: tuple[int, ...]
    what_can_be_cut: Text
    answers_owner_words: Literal["yes", "no"]
    because: Text
    refuted_if: Text
    evaluator_version: Text
    input_sha256: Text


class Review(VersionedRecord):
    """One review that a rule asked for and what came of it: `result` is `None` when there is no verdict, `void` then says why in a word, `detail` in a
    sentence. `asked_by` is the rule, `dropped` the number of findings that named no fault of this change.
    """

    asked_by: Text
    model: str
    input_sha256: str = ""
    result: CriticResult | None = None
    void: str = ""
    detail: str = ""
    dropped: int = 0
    cost_usd: float | None = None
