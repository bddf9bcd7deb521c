"""What the detectors found, and what they need to know beyond the rows: one part of the study's fold."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from harness.artifacts.oversight_events import Detected, Verified
from harness.followups import Verification

REMEMBERED = 40


class Watch(BaseModel):
    """Findings, the latest of them; `detected`: how often each detector fired; how the latest repair was verified; `voids`: why readings of the trial in progress, or of the last one, were void, as
    reason and detail.
    """

    model_config = ConfigDict(extra="forbid")

    findings: list[Detected] = Field(default_factory=list)
    detected: dict[str, int] = Field(default_factory=dict)
    verified: Verified | None = None
    voids: list[tuple[str, str]] = Field(default_factory=list)

    def begun(self) -> None:
        """Another trial."""
        self.voids = []

    def void(self, reason: str, detail: str) -> None:
        """A reading without a number for which its candidate is not blamed."""
        self.voids = [*self.voids, (reason, detail)][-REMEMBERED:]

    def seen(self, event: Detected) -> None:
        """A detector fired."""
        self.findings = [*self.findings, event][-REMEMBERED:]
        self.detected = {**self.detected, event.detector: self.detected.get(event.detector, 0) + 1}

    def verification(self, trial: int) -> Verification | None:
        """Of trial `trial`, if it was the last repair."""
        return self.verified.verification if self.verified and self.verified.trial == trial else None

    def knows(self, event: Detected) -> bool:
        """Whether this was found before."""
        return any((one.detector, one.trial, one.proposal) == (event.detector, event.trial, event.proposal) for one in self.findings)
