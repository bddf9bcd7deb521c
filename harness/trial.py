"""The nouns of a study. A missing number is `None`, never 0 or NaN. Nothing here decides anything.
Units: seconds, MiB for memory, nats and bytes as counted, metric values in the metric's own unit (`val_bpb`: bits per byte).
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import Field, model_validator

from harness.audited import Audit
from harness.checks import MOST, Check
from harness.conditions import Conditions
from harness.records import Record as Record
from harness.records import VersionedRecord as VersionedRecord


class Status(str, Enum):
    """What became of a trial; the words of `results.tsv`."""

    KEEP = "keep"
    DISCARD = "discard"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OOM = "oom"
    INVALID = "invalid"
    PRUNED = "pruned"
    BLOCKED = "blocked"
    INTERRUPTED = "interrupted"


MEASURED = frozenset({Status.KEEP, Status.DISCARD})
CORRECTION = "correction"  # the proposer of repairs that the harness makes itself
OWED = frozenset({CORRECTION, "person"})  # what comes before anybody's turn: a repair by the harness, a keep that a person approved
OFFLINE = frozenset({"search", "scripted", *OWED})  # the proposers that ask no model
FAILED = frozenset({Status.CRASH, Status.TIMEOUT, Status.OOM, Status.INVALID})


class Proposal(VersionedRecord):
    """A change with its hypothesis. `files` maps a path to its whole new text, or to `None` for a deletion.

    `axis` names what is turned (a constant, an idea), `edit` says the change in one line, for people and for offline proposers. `replicates` is the trial
    whose program is repeated on purpose, with another seed; `repairs` the one whose ticket this carries out; `approves` the blocked one that a person wants kept.
    """

    id: int
    parent: str
    title: str
    hypothesis: str = ""
    expected_effect: str = ""
    refuted_if: str = ""
    axis: str = ""
    edit: str = ""
    replicates: int | None = None
    repairs: int | None = None
    approves: int | None = None
    files: dict[str, str | None]
    proposer: str
    model: str | None = None
    usage: dict[str, int] = Field(default_factory=dict)
    cost_usd: float | None = None


class Change(Record):
    """What a proposal does to the file in scope, as facts for the judge and for the duplicate check."""

    added_lines: int
    removed_lines: int
    file_sha256: str
    ast_sha256: str

    @property
    def net_lines(self) -> int:
        """Lines added minus lines removed."""
        return self.added_lines - self.removed_lines


class Candidate(Record):
    """A proposal as a commit under its own ref."""

    trial: int
    commit: str
    tree: str
    parent: str
    ref: str


class JobEnd(str, Enum):
    """How a training job ended."""

    OK = "ok"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OOM = "oom"
    INVALID = "invalid"
    INTERRUPTED = "interrupted"


class JobOutcome(Record):
    """One training job, as the harness saw it from outside. `steps`, `tokens` and `claims` are what the job said. `survivors`: processes that outlived it."""

    end: JobEnd
    reason: str = ""
    detail: str = ""
    exit_code: int | None = None
    setup_seconds: float | None = None
    train_seconds: float | None = None
    cpu_seconds: float | None = None
    peak_memory_mb: float | None = None
    steps: int | None = None
    tokens: int | None = None
    checkpoint_sha256: str | None = None
    claims: dict[str, str | int | float | None] = Field(default_factory=dict)
    printed_metric: float | None = None
    conditions: Conditions | None = None
    survivors: int = 0


class DocumentScore(Record):
    """Nats and bytes of one document of the evaluated split."""

    nats: float
    bytes: int


class Measurement(Record):
    """One metric value of one job, made by harness-owned code. `token` is the nonce that binds it to its evaluation.

    `claims_sha256`: of the stored claims. The scorer took `load_seconds` until its model was loaded, `scorer_seconds` in all: of CPU, on a GPU of wall.
    A language model has nats, bytes, tokens and windows; another task may have `checks`.
    """

    token: str
    value: float
    nats: float | None = None
    bytes: int | None = None
    tokens: int | None = None
    windows: int | None = None
    data_sha256: str
    checkpoint_sha256: str
    seconds: float
    claims_sha256: str | None = None
    load_seconds: float | None = None
    scorer_seconds: float | None = None
    documents: tuple[DocumentScore, ...] = ()
    checks: Annotated[tuple[Check, ...], Field(max_length=MOST)] = ()

    @model_validator(mode="after")
    def _counts_or_checks(self) -> Measurement:
        if not self.checks and None in (self.nats, self.bytes, self.tokens, self.windows):
            raise ValueError("nats, bytes, tokens and windows are all needed where there are no checks")
        if len({one.key for one in self.checks}) < len(self.checks):
            raise ValueError("two checks have one name and one place")
        return self


class EvaluationFault(Record):
    """Why a finished job has no measurement."""

    reason: str
    detail: str
    candidate_to_blame: bool


class Reading(Record):
    """One job of a trial and what was measured of it: `value` is `None` when there is no measurement."""

    trial: int
    replicate: int
    seed: int
    outcome: JobOutcome
    measurement: Measurement | None = None
    fault: EvaluationFault | None = None
    audit: Audit | None = None

    @property
    def value(self) -> float | None:
        """The metric value, corrected by the audit if there was one; or `None`."""
        return self.measurement.value - (self.audit.correction if self.audit else 0.0) if self.measurement else None


class Bar(Record):
    """What the next candidate must beat: the incumbent's de-biased value, the readings it rests on, measured trials since the last keep.

    `paired`: candidates are read with the seed of `reading`, the incumbent's own, on a machine that repeats itself bit for bit. Then a seed's luck
    is on both sides and cancels, and an equal reading means that the change does nothing. `cpu_seconds` are the incumbent's, where they are capped.
    """

    ref: float
    readings: int = 1
    since: int = 0
    reading: float | None = None
    paired: bool = False
    cpu_seconds: float | None = None


class Noise(Record):
    """Standard deviation of one reading, pooled from re-runs and shrunk to the device's prior."""

    sigma: float
    prior_sigma: float
    prior_weight: float
    degrees: int


class Verdict(VersionedRecord):
    """The judge's word on one candidate, with the values it rests on. Gains are positive when better."""

    status: Status
    reason: str
    detail: str = ""
    rule: str
    value: float | None = None
    bar: float | None = None
    complexity: float = 0.0
    gain: float | None = None
    standard_error: float | None = None
    p_better: float | None = None
    sigma: float | None = None
    next_bar: Bar | None = None


class BudgetLeft(Record):
    """Every counter, at the moment of a decision. `None` means unlimited."""

    trials: int | None
    seconds: float | None
    crashes: int
    calls: int | None = None
    tokens: int | None = None
    dollars: float | None = None
    retries: int | None = None
    repairs: int | None = None
    reviews: int | None = None


class Stop(Record):
    """Why a study stopped, as one sentence and as an exit code."""

    reason: str
    sentence: str
    exit_code: Annotated[int, Field(ge=0, le=255)]
