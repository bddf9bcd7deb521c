"""The fold's part on readings: jobs, measurements, audits, and what is void."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.artifacts import events as ev
from harness.conditions import SHARED
from harness.trial import JobEnd, Reading

if TYPE_CHECKING:
    from harness.artifacts.study import Study


def launched(study: Study, event: ev.Launched) -> None:
    """A job is running."""
    study.launched = event


def trained(study: Study, event: ev.Trained) -> None:
    """A job has ended; its reading belongs to the trial in progress, or measures the incumbent again."""
    assert study.launched is not None, "trained follows launched"
    reading = Reading(trial=event.trial, replicate=event.replicate, seed=study.launched.seed, outcome=event.outcome)
    study.train_seconds += event.outcome.train_seconds or 0.0
    if event.outcome.end is not JobEnd.OK:
        study.launched, study.interruptions_in_a_row = None, 0
    if _rereads_incumbent(study, event.trial):
        return
    assert study.current is not None, "trained belongs to the trial in progress"
    study.update(readings=tuple(sorted((*study.current.readings, reading), key=lambda one: one.replicate)))


def scored(study: Study, event: ev.Scored) -> None:
    """A reading has its measurement, or why it has none."""
    ours = event.fault is not None and not event.fault.candidate_to_blame
    study.interruptions_in_a_row = study.interruptions_in_a_row if ours else 0
    if event.fault is not None or _rereads_incumbent(study, event.trial):
        study.launched = None  # else an audit may follow, under the same marker
    if _rereads_incumbent(study, event.trial):
        return
    assert study.current is not None, "scored belongs to the trial in progress"
    found = {"measurement": event.measurement, "fault": event.fault}
    study.update(
        readings=tuple(one.model_copy(update=found) if one.replicate == event.replicate else one for one in study.current.readings)
    )
    if event.trial == 0 and event.measurement is not None:
        pool(study, 0, event.measurement.value)


def audited(study: Study, event: ev.Audited) -> None:
    """Told apart by its number: a second reading may have been taken in between."""
    if study.current is not None and study.current.trial == event.trial:
        found = (r.model_copy(update={"audit": event.audit}) if r.replicate == event.replicate else r for r in study.current.readings)
        study.update(readings=tuple(found))


def rehearsed(study: Study, event: ev.Rehearsed) -> None:
    """The untrained model was tried."""
    study.launched = None
    study.update(rehearsal=event.rehearsal)


def _rereads_incumbent(study: Study, trial: int) -> bool:
    return study.incumbent is not None and study.incumbent.trial == trial


def pool(study: Study, trial: int, value: float) -> None:
    """Add one reading of identical code to the noise estimate's groups; a selected first reading counts in its group's spread."""
    group = study.rereadings.setdefault(trial, [])
    if not group and trial != 0 and study.incumbent and study.incumbent.value is not None:
        group.append(study.incumbent.value)
    group.append(value)


def interrupted(study: Study, event: ev.Interrupted) -> None:
    """A reading is void."""
    study.launched = None
    if event.charged:
        study.interruptions_in_a_row += 1
    if study.current is not None and study.current.trial == event.trial:
        for void in study.current.readings:
            if event.trial == 0 and void.replicate == event.replicate and void.measurement is not None:
                study.rereadings[0].remove(void.measurement.value)
        kept = tuple(r for r in study.current.readings if r.replicate != event.replicate)
        counts = event.charged and event.reason != SHARED  # who shares a device is no trouble of the idea, however often
        study.update(interruptions=study.current.interruptions + int(counts), readings=kept)
