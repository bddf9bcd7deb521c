"""The study as the journal tells it: a fold over events. `snapshot.py` stores it, so that views need not replay a whole night.

`Study.apply` is total and decides nothing. `rows` holds settled trials: all of them, or the last few when only the summary was asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from harness.artifacts import events as ev
from harness.artifacts import journal, overseen, taken
from harness.artifacts.call_events import Answered, ModelAway, ModelBack
from harness.artifacts.calls import Calls
from harness.artifacts.inbox import RULES, Inbox
from harness.artifacts.journal import Position
from harness.artifacts.ladder import Ladder, Reviewing
from harness.artifacts.repairs import Repairs
from harness.artifacts.trial_row import Beginning, Edit, Refusal, TrialRow
from harness.artifacts.watch import Watch
from harness.errors import StudyUnknown
from harness.trial import FAILED, OFFLINE, OWED, Bar, Noise, Status, Stop

REMEMBERED = 400
PAST = "past, program.md was mended since; "
EDITS, EDIT_CHARACTERS = 100, 2000


class Study(BaseModel):
    """The state after a prefix of the journal. Mutable, changed only by `apply`."""

    model_config = ConfigDict(extra="forbid")

    started: ev.StudyStarted | None = None
    limits: dict[str, str | int | float | None] = Field(default_factory=dict)
    rules_digest: str = ""
    elapsed: float = 0.0
    started_at: str = ""
    last_at: str = ""
    pending: ev.Proposed | None = None
    current: TrialRow | None = None
    launched: ev.Launched | None = None
    baseline: TrialRow | None = None
    incumbent: TrialRow | None = None
    bar: Bar | None = None
    noise: Noise | None = None
    rereadings: dict[int, list[float]] = Field(default_factory=dict)
    rereadings_failed: int = 0
    counts: dict[str, int] = Field(default_factory=dict)
    proposals: int = 0
    refused: int = 0
    refused_in_a_row: int = 0
    unread_in_a_row: int = 0
    calls: Calls = Field(default_factory=Calls)
    inbox: Inbox = Field(default_factory=Inbox)
    repairs: Repairs = Field(default_factory=Repairs)
    ladder: Ladder = Field(default_factory=Ladder)
    reviewing: Reviewing = Field(default_factory=Reviewing)
    watch: Watch = Field(default_factory=Watch)
    crashes_in_a_row: int = 0
    interruptions_in_a_row: int = 0
    train_seconds: float = 0.0
    trial_seconds: float = 0.0
    baseline_seconds: float = 0.0
    settled_elapsed: float = 0.0
    warnings: list[str] = Field(default_factory=list)
    edits: list[Edit] = Field(default_factory=list)
    stop: Stop | None = None
    row_count: int = 0
    rows: list[TrialRow] = Field(default_factory=list, exclude=True)
    refusals: list[Refusal] = Field(default_factory=list)

    @property
    def trials(self) -> int:
        """Settled trials after the baseline."""
        return max(0, self.row_count - 1)

    def row(self, trial: int) -> TrialRow:
        """A settled or the current trial; raises `StudyUnknown`."""
        for row in [*reversed(self.rows), *([self.current] if self.current else [])]:
            if row.trial == trial:
                return row
        raise StudyUnknown(f"no trial {trial} in this study; `ratchet log` lists them")

    def apply(self, entry: ev.Entry) -> None:
        """Take one journal entry in."""
        self.elapsed, self.last_at = entry.elapsed, entry.at
        handler = _HANDLERS[type(entry.event)]
        handler(self, entry.event)

    def update(self, **fields: Any) -> None:
        """Change the trial in progress."""
        assert self.current is not None, "the journal's order is checked by the loop"
        self.current = self.current.model_copy(update=fields)


def _started(study: Study, event: ev.StudyStarted) -> None:
    study.started, study.limits, study.rules_digest = event, dict(event.limits), event.rules_digest
    study.started_at = study.last_at


def _resumed(study: Study, event: ev.Resumed) -> None:
    if study.stop is not None:  # a person saw why; after a mere death of the harness the rows go on counting
        study.interruptions_in_a_row = study.crashes_in_a_row = study.refused_in_a_row = study.unread_in_a_row = 0
        study.inbox.failing = {}  # what does not arrive is said anew
    study.inbox.resumed_at = study.last_at
    study.limits, study.stop = dict(event.limits), None
    study.calls.reopen()


def _rules(study: Study, event: ev.RulesChanged) -> None:
    back, study.rules_digest = event.digest == study.rules_digest, event.digest
    _edited(study, event.diff, event.digest, back)
    study.warnings = [f"{PAST}{one}" if one in event.over or one.startswith(f"{RULES}: ") else one for one in study.warnings]
    study.limits = dict(event.limits) if event.limits is not None else study.limits
    study.inbox.complaint = ""
    study.calls.reopen()


def _warned(study: Study, event: ev.Warned) -> None:
    study.warnings = [*study.warnings, f"{event.code}: {event.message}"][-50:]
    if study.inbox.warned(event.code, event.message):
        _edited(study, event.message)


def _edited(study: Study, said: str, digest: str = "", back: bool = False) -> None:
    one = Edit(at=study.last_at, after=study.row_count - 1, said=said[:EDIT_CHARACTERS], digest=digest, back=back)
    study.edits = [*study.edits, one][-EDITS:]


def _proposed(study: Study, event: ev.Proposed) -> None:
    study.pending, study.proposals = event, event.proposal
    study.unread_in_a_row = 0 if event.proposer not in OFFLINE else study.unread_in_a_row
    study.calls.told(event.proposal, event.cost_usd)
    study.calls.brought(event.proposer if event.proposer in OWED else event.turn or event.proposer)
    study.reviewing.proposed(event.approves if event.proposer == "person" else None)


def _refused(study: Study, event: ev.Refused) -> None:
    pending = study.pending
    study.unread_in_a_row += int(event.unread)
    study.calls.told(event.proposal, event.cost_usd)
    if event.unread:
        study.calls.counted(event.proposer)
    axis, edit = (pending.axis, pending.edit) if pending else ("", "")
    said = Refusal(proposal=event.proposal, reason=event.reason, detail=event.detail[:200], axis=axis, edit=edit, earlier=event.earlier,
                   at=study.last_at, after=study.row_count - 1)  # fmt: skip
    study.refusals = [*study.refusals, said][-REMEMBERED:]
    study.pending, study.proposals, study.refused = None, event.proposal, study.refused + 1
    study.refused_in_a_row += 1
    study.repairs.refuse(event.proposer, f"{event.reason}: {event.detail}")


def _begun(study: Study, event: ev.Begun) -> None:
    study.pending = None
    study.refused_in_a_row = 0
    study.calls.stand_ins += int(bool(event.stands_for))
    study.current = TrialRow(**{name: getattr(event, name) for name in Beginning.model_fields})
    study.repairs.begun(event.trial, event.repairs)
    study.watch.begun()


def _committed(study: Study, event: ev.Committed) -> None:
    study.update(commit=event.commit, tree=event.tree, ref=event.ref)


def _decided(study: Study, event: ev.Decided) -> None:
    study.update(
        verdict=event.verdict, noise=event.noise, budget_left=event.budget_left, rules_digest=event.rules_digest,
        previous=event.previous, elapsed=study.elapsed,
    )  # fmt: skip
    study.noise, study.bar = event.noise, event.verdict.next_bar or study.bar


def _settled(study: Study, event: ev.Settled) -> None:
    row = study.current
    assert row is not None and row.verdict is not None, "settled follows decided"
    status = row.verdict.status
    study.ladder.settled(row.trial, status)
    study.rows.append(row)
    study.row_count += 1
    study.current = study.launched = None
    study.counts = {**study.counts, status.value: study.counts.get(status.value, 0) + 1}
    spent, study.settled_elapsed = study.elapsed - study.settled_elapsed, study.elapsed
    if row.trial == 0:
        study.baseline, study.baseline_seconds = row, spent
    else:
        study.trial_seconds += spent
    if status is Status.KEEP:
        study.incumbent, study.rereadings_failed = row, 0
    if status in FAILED:
        study.crashes_in_a_row += 1
    elif status is not Status.INTERRUPTED:
        study.crashes_in_a_row = 0
    else:
        study.reviewing.interrupted(row.approves)


def _bar_moved(study: Study, event: ev.BarMoved) -> None:
    study.bar = event.bar
    if event.value is None:
        study.rereadings_failed += 1
    else:
        taken.pool(study, event.trial, event.value)


def _stopped(study: Study, event: ev.Stopped) -> None:
    study.stop, study.inbox.stopping = event.stop, None


_HANDLERS: dict[type, Any] = {
    Answered: lambda study, event: study.calls.answered(event),
    ModelAway: lambda study, event: study.calls.left(event),
    ModelBack: lambda study, event: study.calls.back(event.proposer),
    ev.StudyStarted: _started, ev.Resumed: _resumed, ev.RulesChanged: _rules, ev.Warned: _warned, ev.Proposed: _proposed, ev.Refused: _refused,
    ev.Begun: _begun, ev.Committed: _committed, ev.Launched: taken.launched, ev.Trained: taken.trained,
    ev.Audited: taken.audited, ev.Rehearsed: taken.rehearsed, ev.Decided: _decided, ev.Settled: _settled, ev.BarMoved: _bar_moved, ev.Stopped: _stopped,
    **overseen.HANDLERS,
}  # fmt: skip


def replay(path: Path) -> tuple[Study, Position]:
    """The whole journal, every line checked; raises `StudyUnknown` without one, `JournalCorrupt` on damage."""
    study, end = Study(), Position()
    if not path.exists():
        raise StudyUnknown(f"{path}: no such study; `ratchet status` lists those there are")
    for entry, position in journal.read(path):
        study.apply(entry)
        end = position
    return study, end
