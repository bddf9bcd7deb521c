"""`ratchet verify`: does everything that can be derived from the journal agree with it? Reads only."""

from __future__ import annotations

from harness.artifacts import journal, provenance
from harness.artifacts import snapshot as snapshots
from harness.artifacts import study as fold
from harness.artifacts.journal import Position
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.control import recovery
from harness.control.steering import stored_rules
from harness.errors import RulesInvalid, StudyUnknown
from harness.graph import duplicates
from harness.graph.ratchet import Ratchet
from harness.trial import Record


class Finding(Record):
    """One property."""

    what: str
    ok: bool
    detail: str


def check(folder: StudyDir) -> list[Finding]:
    """All properties; raises `JournalCorrupt` when the chain itself is broken."""
    study, end = fold.replay(folder.journal)
    if study.started is None:
        raise StudyUnknown(f"the journal of {folder.tag!r} is empty")
    ratchet = Ratchet(folder.project, folder.tag, folder.index)
    return [
        _journal(folder, end),
        _snapshot(study, folder),
        _commits(study, ratchet),
        _branch(study, ratchet),
        _bytes(study, ratchet, folder),
        _checkpoints(study, folder),
        _prepare(study, folder),
    ]


def _journal(folder: StudyDir, end: Position) -> Finding:
    tail = journal.torn_tail(folder.journal, end)
    if tail is not None:
        return Finding(
            what="journal", ok=False, detail=f"{end.seq} good events, then a torn last line; `ratchet resume` saves it aside and goes on"
        )
    return Finding(what="journal", ok=True, detail=f"{end.seq} events, every checksum and link holds")


def _snapshot(study: Study, folder: StudyDir) -> Finding:
    quick = snapshots.load(folder.journal, folder.snapshot)
    same = quick == study and quick.rows == study.rows
    return Finding(
        what="snapshot", ok=same, detail="equal to a full replay" if same else f"differs from a full replay; delete {folder.snapshot}"
    )


def _commits(study: Study, ratchet: Ratchet) -> Finding:
    rows = [row for row in study.rows if row.commit]
    refs = ratchet.refs()
    lost = ratchet.missing([row.commit for row in rows if row.commit])
    wrong = [row.trial for row in rows if refs.get(row.ref or "") != row.commit]
    if lost or wrong:
        return Finding(
            what="commits", ok=False, detail=f"unreadable: {lost or 'none'}; trials whose ref is missing or elsewhere: {wrong or 'none'}"
        )
    return Finding(what="commits", ok=True, detail=f"{len(rows)} trials, each under its ref")


def _branch(study: Study, ratchet: Ratchet) -> Finding:
    tip = ratchet.resolve(ratchet.branch_ref)
    allowed = recovery.allowed_tips(study)
    return Finding(
        what="branch",
        ok=tip in allowed,
        detail=f"{ratchet.branch} is at {tip}" + ("" if tip in allowed else f", expected {' or '.join(allowed)}"),
    )


def _bytes(study: Study, ratchet: Ratchet, folder: StudyDir) -> Finding:
    """The commit of each trial holds the bytes that the journal says were measured."""
    try:
        editable = stored_rules(folder.program, folder.program).scope.editable
    except RulesInvalid as error:
        return Finding(what="measured bytes", ok=False, detail=f"which files are in scope cannot be told: {error}")
    wrong = []
    for row in study.rows:
        texts = {name: ratchet.text_at(row.commit, name) for name in editable} if row.commit else {}
        if texts and duplicates.change_all(texts, texts).file_sha256 != row.change.file_sha256:
            wrong.append(row.trial)
    return Finding(what="measured bytes", ok=not wrong, detail=f"trials whose commit holds other bytes: {wrong or 'none'}")


def _checkpoints(study: Study, folder: StudyDir) -> Finding:
    wrong = []
    for row in study.rows:
        for reading in row.readings:
            path = folder.trial(row.folder).reading(reading.replicate).checkpoint
            if reading.measurement and path.exists() and provenance.sha256(path) != reading.measurement.checkpoint_sha256:
                wrong.append(f"{row.trial}/r{reading.replicate}")
    return Finding(what="checkpoints", ok=not wrong, detail=f"changed since they were measured: {wrong or 'none'}")


def _prepare(study: Study, folder: StudyDir) -> Finding:
    expected = study.started.prepare_sha256 if study.started else ""
    found = provenance.sha256(folder.prepare) if folder.prepare.exists() else "missing"
    return Finding(
        what="prepare.py",
        ok=found == expected,
        detail="the pristine copy" if found == expected else f"is {found[:12]}, was {expected[:12]}",
    )
