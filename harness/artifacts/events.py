"""What the journal can say, one frozen record a kind. The order in a trial's life:

(asked → answered) … → proposed → (refused | begun → committed → launched → trained → scored → … → decided → settled)
"""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import Field, TypeAdapter

from harness.artifacts.call_events import Answered, Asked, ModelAway, ModelBack
from harness.artifacts.oversight_events import Climbed, Detected, Escalated, FollowedUp, Lapsed, Resolved, Reviewed, Sending, Sent, Verified
from harness.artifacts.trial_row import Beginning
from harness.audited import Audit, Rehearsal
from harness.conditions import DeviceState
from harness.facts import DataFacts, Environment
from harness.records import Record, VersionedRecord
from harness.trial import Bar, BudgetLeft, EvaluationFault, JobOutcome, Measurement, Noise, Stop, Verdict


class StudyStarted(VersionedRecord):
    """The study's fixed facts."""

    kind: Literal["study_started"] = "study_started"
    tag: str
    program: str
    rules_digest: str
    metric: str
    direction: str
    baseline_commit: str
    branch: str
    prepare_sha256: str
    proposer: str
    proposer_options: dict[str, str]
    proposer_by_rules: bool = False
    limits: dict[str, str | int | float | None]
    environment: Environment
    data: DataFacts
    sandbox: str = ""
    sandbox_open: tuple[str, ...] = ()
    device_state: DeviceState | None = None
    editable: tuple[str, ...] = ("train.py",)


class Resumed(Record):
    """A harness took the study up again. `device_state`: what its trials are compared with from now on."""

    kind: Literal["resumed"] = "resumed"
    pid: int
    limits: dict[str, str | int | float | None]
    device_state: DeviceState | None = None


class RulesChanged(Record):
    """A valid edit of program.md, in force from the next trial on, or with the old digest: a refused one was taken back. `limits`: as edited, `over`: warnings it mended."""

    kind: Literal["rules_changed"] = "rules_changed"
    digest: str
    diff: str
    limits: dict[str, str | int | float | None] | None = None
    over: tuple[str, ...] = ()


class Warned(Record):
    """Something the person should know; the study went on."""

    kind: Literal["warned"] = "warned"
    code: str
    message: str


class Proposed(Record):
    """A proposal arrived, its text is stored. `stands_for`: the proposer that was away, `turn`: whose turn it was, `approves`: the blocked trial a person wants."""

    kind: Literal["proposed"] = "proposed"
    proposal: int
    stored_sha256: str
    title: str
    axis: str
    edit: str
    proposer: str
    model: str | None = None
    cost_usd: float | None = None
    stands_for: str = ""
    turn: str = ""
    approves: int | None = None


class Refused(Record):
    """No trial, no device time: the guard did not admit the proposal, or (`unread`) the call of a model brought none."""

    kind: Literal["refused"] = "refused"
    proposal: int
    reason: str
    detail: str
    earlier: int | None = None
    cost_usd: float | None = None
    proposer: str = ""
    unread: bool = False


class Begun(Beginning):
    """A proposal was admitted and becomes trial number `trial` (0: the baseline)."""

    kind: Literal["begun"] = "begun"


class Committed(Record):
    """The candidate exists as a commit under its own ref."""

    kind: Literal["committed"] = "committed"
    trial: int
    commit: str
    tree: str
    ref: str


class Launched(Record):
    """A training job starts. Pid, start time and boot id name the process beyond reuse; `marker` is in the environment of its processes."""

    kind: Literal["launched"] = "launched"
    trial: int
    replicate: int
    seed: int
    marker: str
    pid: int
    process_started: float
    boot_id: str
    sandbox: str = ""


class Trained(Record):
    """The job has ended and nothing of it is left alive."""

    kind: Literal["trained"] = "trained"
    trial: int
    replicate: int
    outcome: JobOutcome


class Scored(Record):
    """The evaluator's record, or why there is none."""

    kind: Literal["scored"] = "scored"
    trial: int
    replicate: int
    measurement: Measurement | None = None
    fault: EvaluationFault | None = None


class Audited(Record):
    """The claims of a would-be keep, or of the baseline, were compared with what a second scorer gives."""

    kind: Literal["audited"] = "audited"
    trial: int
    replicate: int
    audit: Audit


class Rehearsed(Record):
    """The contract was tried with the candidate's untrained model, before its training."""

    kind: Literal["rehearsed"] = "rehearsed"
    trial: int
    rehearsal: Rehearsal


class Interrupted(Record):
    """The job was cut off by us or by the machine; never the idea's fault. `charged`: it counts among the interruptions that end a night."""

    kind: Literal["interrupted"] = "interrupted"
    trial: int
    replicate: int
    reason: str
    detail: str = ""
    charged: bool = True


class Decided(Record):
    """The verdict, durable before the branch moves. `previous` is the branch's tip before it."""

    kind: Literal["decided"] = "decided"
    trial: int
    verdict: Verdict
    previous: str
    noise: Noise | None
    budget_left: BudgetLeft
    rules_digest: str


class Settled(Record):
    """Branch and row are as decided."""

    kind: Literal["settled"] = "settled"
    trial: int


class BarMoved(Record):
    """The incumbent was measured again, so the bar rests on unselected readings. `value` is the new one, `None` when it is not to be believed."""

    kind: Literal["bar_moved"] = "bar_moved"
    trial: int
    bar: Bar
    value: float | None


class Stopped(Record):
    """The study ended or pauses; the reason, in a sentence, with the exit code."""

    kind: Literal["stopped"] = "stopped"
    stop: Stop


Event = Annotated[
    Union[  # noqa: UP007
        StudyStarted, Resumed, RulesChanged, Warned, Asked, Answered, ModelAway, ModelBack, Proposed, Refused, Begun, Committed, Launched, Trained, Scored, Audited, Rehearsed,
        Interrupted, Decided, Settled, BarMoved, Stopped, FollowedUp, Verified, Detected, Climbed, Reviewed, Lapsed, Escalated, Resolved, Sending, Sent,
    ],
    Field(discriminator="kind"),
]  # fmt: skip


class Entry(Record):
    """One line of the journal. `elapsed` counts active seconds of the study over all its harnesses, by a monotonic clock."""

    seq: int
    prev: str
    at: str
    elapsed: float
    event: Event


ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)
