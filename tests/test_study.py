"""The fold of the journal, and its snapshot: quick, never different from a full replay, never trusted when it does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.artifacts import journal
from harness.artifacts import snapshot as snapshots
from harness.artifacts import study as fold
from harness.artifacts.call_events import Answered, Asked
from harness.artifacts.events import (
    BarMoved,
    Decided,
    Event,
    Interrupted,
    Proposed,
    Refused,
    Resumed,
    RulesChanged,
    Scored,
    Stopped,
    Warned,
)
from harness.artifacts.journal import Journal, Position
from harness.artifacts.study import Study
from harness.errors import JournalCorrupt, StudyUnknown
from harness.trial import Bar, EvaluationFault, Status, Stop
from tests import study_factory as make


def counters(study: Study) -> dict[str, Any]:
    """Everything but the rows."""
    return study.model_dump(mode="json")


def reread(night: make.Night, trial: int, value: float | None, replicate: int = 1) -> list[Event]:
    """The incumbent measured again, before the bar is moved by it."""
    return [night.launch(replicate).model_copy(update={"trial": trial}), *(
        event.model_copy(update={"trial": trial}) for event in list(night.job(replicate, value))[1:]
    )]  # fmt: skip


def moved(trial: int, value: float | None) -> Event:
    """What the loop makes of it."""
    return BarMoved(trial=trial, bar=Bar(ref=1.5), value=value)


def eventful(seed: int, trials: int) -> list[Event]:
    """A night with everything in it: interruptions, a resume, warnings, edits, re-measurements."""
    night = make.Night(seed=seed)
    events: list[Event] = [night.start(), *night.baseline()]
    incumbent = 0
    mix = night.trials()
    while night.trial < trials:
        before = night.tip
        for event in mix:
            events.append(event)
            if event.kind == "launched" and night.random.random() < 0.2:
                events += [Interrupted(trial=night.trial, replicate=0, reason="killed"), Resumed(pid=1, limits=night.limits), event]
            if event.kind == "settled":
                break
        incumbent = night.trial if night.tip != before else incumbent
        if night.random.random() < 0.3:
            value = night.reading(night.truth)
            events += [*reread(night, incumbent, value), BarMoved(trial=incumbent, bar=Bar(ref=night.truth), value=value)]
        if night.random.random() < 0.2:
            events += [Warned(code="rules", message="line 3"), RulesChanged(digest=f"d{night.trial}", diff="", limits={"trials": 9})]
    return [*events, Stopped(stop=Stop(reason="trials", sentence="done", exit_code=0))]


def write(path: Path, events: list[Event]) -> list[Position]:
    """A journal without fsync's price; the position after each event."""
    log = Journal(path, Position(), now=lambda: "2026-03-08T21:30:00Z", elapsed=lambda: float(log.position.seq))
    positions = []
    for event in events:
        log.append(event)
        positions.append(log.position)
    log.close()
    return positions


@pytest.mark.parametrize(("seed", "trials", "every"), [(1, 3, 1), (2, 3, 1), (3, 16, 9)])
def test_snapshot_and_tail_are_a_full_replay_wherever_the_snapshot_was_taken(tmp_path: Path, seed: int, trials: int, every: int) -> None:
    path, snapshot = tmp_path / "journal.jsonl", tmp_path / "snapshot.json"
    positions = write(path, eventful(seed, trials))
    full, end = fold.replay(path)
    assert (end, full.row_count, full.trials) == (positions[-1], trials + 1, trials)
    prefix = Study()
    for (entry, _), position in zip(list(journal.read(path)), positions, strict=True):
        prefix.apply(entry)
        if position.seq % every:
            continue
        snapshots.write(prefix, position, snapshot)
        loaded = snapshots.load(path, snapshot)
        assert loaded == full and loaded.rows == full.rows
        summary = snapshots.load(path, snapshot, summary=True)
        assert counters(summary) == counters(full)
        assert summary.rows == full.rows[-len(summary.rows) :]
        assert len(summary.rows) >= min(snapshots.LAST, full.row_count)


def test_a_summary_of_a_long_night_holds_few_rows_and_every_counter(tmp_path: Path) -> None:
    path, snapshot = tmp_path / "journal.jsonl", tmp_path / "snapshot.json"
    end = make.write_journal(path, 60)
    full, _ = fold.replay(path)
    snapshots.write(full, end, snapshot)
    summary = snapshots.load(path, snapshot, summary=True)
    assert len(summary.rows) == snapshots.LAST < full.row_count == summary.row_count == 61
    assert counters(summary) == counters(full)
    assert summary.row(60) == full.row(60)
    with pytest.raises(StudyUnknown, match="no trial 1 in this study"):
        summary.row(1)


def test_a_snapshot_that_does_not_fit_is_as_if_there_were_none(tmp_path: Path) -> None:
    path, snapshot = tmp_path / "journal.jsonl", tmp_path / "snapshot.json"
    positions = write(path, eventful(4, 10))
    full, end = fold.replay(path)
    assert snapshots.load(path, tmp_path / "none") == full
    snapshots.write(full, end, snapshot)
    good = snapshot.read_bytes()
    lines = good.splitlines(keepends=True)
    bad = [b"", b"\n\n\n\n", b"garbage", b"\xff" * 90, good[: len(good) // 2], b"".join(lines[:2]), b"".join(lines[:3]), b"".join(lines[1:]),
           lines[0] + b"{}\n" + b"".join(lines[2:]).replace(b"[", b"{"), good.replace(b'"row_count"', b'"row_cuont"')]  # fmt: skip
    half = Study()
    for entry, _ in list(journal.read(path))[:20]:
        half.apply(entry)
    for position in (positions[19].__class__(20, "f" * 32, positions[19].offset), Position(20, positions[19].chain, positions[19].offset - 1),
                     Position(20, positions[19].chain, end.offset + 1), Position(20, positions[19].chain, 0)):  # fmt: skip
        snapshots.write(half, position, snapshot)
        bad.append(snapshot.read_bytes())
    for data in bad:
        snapshot.write_bytes(data)
        for summary in (False, True):
            loaded = snapshots.load(path, snapshot, summary=summary)
            assert counters(loaded) == counters(full)


def test_a_snapshot_of_another_journal_is_not_believed(tmp_path: Path) -> None:
    """A journal restored from a backup, or begun anew, beside the snapshot of the old one: shorter, as long, or longer."""
    snapshot = tmp_path / "snapshot.json"
    old = make.study(6)
    old_end = write(tmp_path / "old.jsonl", list(make.night(6)))[-1]
    for trials in (2, 6, 12):
        path = tmp_path / f"{trials}.jsonl"
        write(path, list(make.night(trials, of=make.Night(seed=9))))
        snapshots.write(old, old_end, snapshot)
        assert snapshots.load(path, snapshot) == fold.replay(path)[0]


def test_damage_of_the_journal_is_never_hidden_by_falling_back(tmp_path: Path) -> None:
    path, snapshot = tmp_path / "journal.jsonl", tmp_path / "snapshot.json"
    write(path, eventful(5, 5))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x80
    path.write_bytes(data)
    snapshot.write_bytes(b"garbage")
    with pytest.raises(JournalCorrupt):
        snapshots.load(path, snapshot)
    with pytest.raises(StudyUnknown, match="no such study"):
        snapshots.load(tmp_path / "none.jsonl", snapshot)


def test_crashes_in_a_row_count_failures_until_something_is_measured() -> None:
    night = make.Night()
    events = [night.start(), *night.baseline()]
    seen = []
    for failure in (0, 1, 2, None, 0, None, None, 1):
        events += list(night.candidate(effect=-0.02, failure=failure))
        seen.append(make.fold(events).crashes_in_a_row)
    assert seen == [1, 2, 3, 0, 1, 0, 0, 1]
    study = make.fold([*events, Stopped(stop=Stop(reason="consecutive_crashes", sentence="s", exit_code=3)), Resumed(pid=1, limits={})])
    assert study.crashes_in_a_row == 0
    assert study.counts == {"keep": 1, "crash": 2, "timeout": 2, "oom": 1, "discard": 3}


def test_an_interrupted_trial_neither_counts_as_a_crash_nor_ends_a_row_of_them() -> None:
    night = make.Night()
    events: list[Event] = [night.start(), *night.baseline(), *night.candidate(failure=0)]
    trial = [e for e in night.candidate(failure=0) if e.kind not in ("trained", "scored")]
    for n, event in enumerate(trial):
        if event.kind == "decided":
            trial[n] = event.model_copy(update={"verdict": event.verdict.model_copy(update={"status": Status.INTERRUPTED})})
    study = make.fold([*events, *trial])
    assert (study.crashes_in_a_row, study.counts["interrupted"]) == (1, 1)
    assert make.fold([*events, *trial, *night.candidate(failure=1)]).crashes_in_a_row == 2


def test_a_trial_that_waits_for_a_person_did_not_crash_and_ends_a_row_of_crashes() -> None:
    night = make.Night()
    events: list[Event] = [night.start(), *night.baseline(), *night.candidate(failure=0)]
    for event in night.candidate(effect=-0.02):
        blocked = {"verdict": event.verdict.model_copy(update={"status": Status.BLOCKED})} if isinstance(event, Decided) else {}
        events.append(event.model_copy(update=blocked))
    study = make.fold([*events, *night.candidate(failure=1)])
    assert [row.status for row in study.rows[1:]] == [Status.CRASH, Status.BLOCKED, Status.TIMEOUT]
    assert study.crashes_in_a_row == 1


def test_refusals_in_a_row_count_until_a_trial_begins() -> None:
    night = make.Night()
    events = [night.start(), *night.baseline(), *night.refuse(), *night.refuse("syntax")]
    study = make.fold(events)
    assert (study.refused, study.refused_in_a_row, study.pending, study.trials) == (2, 2, None, 0)
    assert [(one.proposal, one.reason) for one in study.refusals] == [(1, "duplicate"), (2, "syntax")]
    study = make.fold([*events, *night.candidate(0.0), *night.refuse()])
    assert (study.refused, study.refused_in_a_row) == (3, 1)


def test_a_refused_proposal_is_remembered_by_what_it_would_have_changed_at_most_400_times() -> None:
    night = make.Night()
    study = make.fold([night.start(), *night.baseline(), *(event for _ in range(405) for event in night.refuse())])
    assert (len(study.refusals), study.refusals[0].proposal, study.refused) == (400, 6, 405)
    assert study.refusals[-1].axis == "MATRIX_LR"


def test_readings_of_identical_code_are_pooled_by_trial() -> None:
    night = make.Night()
    events = [night.start(), *night.baseline()]
    first = make.fold(events)
    assert first.rereadings == {0: [r.value for r in first.rows[0].readings]} and len(first.rereadings[0]) == 3
    events += [*night.candidate(-0.02), *reread(night, 0, 1.54, 3), moved(0, 1.54)]
    assert make.fold(events).rereadings[0][3:] == [1.54]
    events += night.candidate(0.05)
    kept = make.fold(events)
    assert kept.incumbent is not None and 2 not in kept.rereadings, "one reading says nothing of the noise"
    events += [*reread(night, 2, 1.49), moved(2, 1.49)]
    assert make.fold(events).rereadings[2] == [kept.incumbent.value, 1.49], "the reading that was selected counts in the spread"
    events += [
        *reread(night, 2, None, 2),
        moved(2, None),
        *reread(night, 2, 99.0, 2),
        moved(2, None),
        *reread(night, 2, 1.48, 2),
        moved(2, 1.48),
    ]
    study = make.fold(events)
    assert study.rereadings[2] == [kept.incumbent.value, 1.49, 1.48], "a reading that failed or was not believed is no reading"
    assert study.incumbent == kept.incumbent and study.rows == kept.rows, "re-measuring changes no row"


def test_an_interruption_leaves_no_number_and_is_counted_with_its_trial() -> None:
    night = make.Night()
    events: list[Event] = [night.start(), *night.baseline(1)]
    trial = list(night.candidate(-0.02))
    cut = next(n for n, event in enumerate(trial) if event.kind == "scored")
    stopped = Interrupted(trial=1, replicate=0, reason="the checkpoint is another")
    study = make.fold([*events, *trial[:cut], stopped])
    assert study.current is not None and study.launched is None
    assert (study.current.readings, study.current.interruptions, study.interruptions_in_a_row) == ((), 1, 1)
    by_person = make.fold([*events, *trial[:cut], stopped.model_copy(update={"charged": False})])
    assert by_person.current is not None
    assert (by_person.current.readings, by_person.current.interruptions, by_person.interruptions_in_a_row) == ((), 0, 0)
    launch = next(n for n, event in enumerate(trial) if event.kind == "launched")
    again = make.fold([*events, *trial[:cut], stopped, *trial[launch:]])
    assert (again.rows[1].status, again.rows[1].interruptions, again.interruptions_in_a_row) == (Status.DISCARD, 1, 0)


def test_a_job_that_crashes_by_itself_ends_a_row_of_interruptions() -> None:
    night = make.Night()
    events: list[Event] = [night.start(), *night.baseline(1)]
    trial = list(night.candidate(failure=0))
    launch = next(n for n, event in enumerate(trial) if event.kind == "launched")
    stopped = Interrupted(trial=1, replicate=0, reason="killed")
    events += [*trial[: launch + 1], stopped, trial[launch], stopped]
    assert make.fold(events).interruptions_in_a_row == 2
    ended = [e for e in trial[launch:] if not isinstance(e, Scored)]  # a job that crashed is never scored
    assert make.fold([*events, *ended]).interruptions_in_a_row == 0


def test_an_edit_changes_the_limits_only_when_it_says_so() -> None:
    night = make.Night()
    study = make.fold([night.start(), RulesChanged(digest="a", diff="")])
    assert (study.rules_digest, study.limits) == ("a", night.limits)
    study = make.fold([night.start(), RulesChanged(digest="b", diff="", limits={"trials": 3})])
    assert (study.rules_digest, study.limits) == ("b", {"trials": 3})


def test_seconds_are_told_apart_by_what_they_were_spent_on() -> None:
    study = make.study(5)
    assert study.baseline_seconds + study.trial_seconds == pytest.approx(study.settled_elapsed)
    assert 0 < study.baseline_seconds < study.trial_seconds
    assert study.train_seconds == pytest.approx(sum(r.outcome.train_seconds or 0 for row in study.rows for r in row.readings))


def test_a_resume_after_a_stop_counts_rows_anew_but_a_death_does_not() -> None:
    resumed = Resumed(pid=1, limits={})
    stopped = Stopped(stop=Stop(reason="infrastructure", sentence="s", exit_code=75))
    night = make.Night()
    events: list[Event] = [night.start(), *list(night.baseline())[:2], Interrupted(trial=0, replicate=0, reason="died"), resumed]
    assert make.fold(events).interruptions_in_a_row == 1
    assert make.fold([*events, stopped, resumed]).interruptions_in_a_row == 0


def test_a_fault_of_ours_does_not_end_a_row_of_interruptions_and_one_of_the_candidates_does() -> None:
    night = make.Night()
    start = [night.start(), *list(night.baseline())[:4]]
    trained = next(n for n, event in enumerate(start) if event.kind == "trained")
    cut = [*start[:trained], Interrupted(trial=0, replicate=0, reason="died"), *start[trained - 1 : trained + 1]]
    for to_blame, count in ((False, 1), (True, 0)):
        fault = EvaluationFault(reason="metric_error", detail="", candidate_to_blame=to_blame)
        assert make.fold([*cut, Scored(trial=0, replicate=0, fault=fault)]).interruptions_in_a_row == count


def test_what_calls_cost_is_added_up_and_unknown_is_not_zero() -> None:
    night = make.Night()
    asked = [Asked(call=n, proposal=n, proposer="command", dollars=0.4, tokens=100) for n in (1, 2, 3)]
    answered = [
        Answered(call=n, outcome="ended", cost_usd=cost, tokens=tokens) for n, cost, tokens in ((1, 0.25, 7), (2, 0.5, None), (3, None, 9))
    ]
    proposed = Proposed(proposal=1, stored_sha256="", title="", axis="", edit="", proposer="command", cost_usd=0.25)
    refused = Refused(proposal=1, reason="duplicate", detail="", proposer="command")
    unread = [Refused(proposal=n, reason="no_change", detail="", proposer="command", unread=True) for n in (2, 3)]
    calls = [event for pair in zip(asked, answered, strict=True) for event in pair]
    study = make.fold([night.start(), *night.baseline(), *calls[:2], proposed, refused, *calls[2:4], unread[0], *calls[4:], unread[1]])
    assert (study.calls.made, study.calls.cost_usd, study.calls.unknown, study.unread_in_a_row, study.refused) == (3, 0.75, 1, 2, 3)
    assert (study.calls.tokens, study.calls.proposals) == (7 + 100 + 9, {"command": 3})
    assert study.calls.charged_usd == pytest.approx(0.25 + 0.5 + 0.4)
