"""What follows a failure: an error as evidence, a bounded order to repair it, and what a verification found. Nothing here decides."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from pydantic import Field

from harness.records import VersionedRecord

Text = Annotated[str, Field(min_length=1)]
ErrorType = Literal["transient", "data", "schema", "policy", "missing_ground_truth", "code", "resource", "regression", "refusal"]


class Mechanism(str, Enum):
    """Four different acts after something went wrong, and one that is none of them."""

    RETRY = "retry"
    REPLAN = "replan"
    REFLECTION = "reflection"
    CORRECTION = "correction"
    ESCALATION = "escalation"


class ErrorPacket(VersionedRecord):
    """An error with its evidence; none of these may be empty, so that nothing is repaired because it looks odd.

    `evidence` names a file of the trial or an event, `fingerprint` is equal for two errors of one kind: their class, place and words without numbers and paths.
    """

    failed_check: Text
    expected: Text
    actual: Text
    evidence: Text
    error_type: ErrorType
    fingerprint: Text


class Ticket(VersionedRecord):
    """A bounded order to repair one trial: what failed, what may be touched (files, constants, functions), the repair in words, what must hold after it, what must not
    have changed. `structural_reason` says why it is larger than the rules allow without one.
    """

    trial: int
    failed_check: Text
    evidence: Text
    scope: Annotated[tuple[Text, ...], Field(min_length=1)]
    repair: Text
    postcondition: Text
    unchanged: Annotated[tuple[Text, ...], Field(min_length=1)]
    structural_reason: str = ""
    packet: ErrorPacket


class Outcome(str, Enum):
    """What became of a repair."""

    ACCEPTED = "accepted"
    ROLLED_BACK = "rolled_back"
    BLOCKED = "blocked_missing_ground_truth"


class Verification(VersionedRecord):
    """The five closing questions of a repair, by code, and what they come to. `None`: it could not be told, which is never a yes."""

    schema_passes: bool | None
    claims_sourced: bool | None
    delta_inside_scope: bool | None
    unchanged_kept: bool | None
    no_side_effect: bool | None
    old_error_gone: bool | None
    outcome: Outcome
    detail: str = ""

    @property
    def unproven(self) -> tuple[str, ...]:
        """The questions that were not answered with yes."""
        return tuple(name for name, answer in self if name not in ("schema_version", "outcome", "detail") and answer is not True)
