"""Bounded correction in real studies: out of memory is repaired once, a second time of the same kind ends the line and not the night, and a kill changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts import study as fold
from harness.artifacts.journal import Journal
from harness.artifacts.oversight_events import Escalated, FollowedUp, Resolved, Verified
from harness.followups import Mechanism, Outcome
from harness.trial import Proposal, Status
from harness.views import report, results, show, status
from tests.edits import swap
from tests.nights import LEAN, crash_at, must_be_whole, table
from tests.projects import Seen, edits_file, folder_of, git, keeping_the_table, resume_study, run_study, set_rules, study_of
from tests.repairs import events, memory_project

MENDED: list[dict[str, object]] = [{"DEPTH": 4, "VALUE": 1.1}, {"VALUE": 1.15}]
HOPELESS: list[dict[str, object]] = [{"DEPTH": 16, "VALUE": 1.1}, {"VALUE": 1.15}]


def night(project: Path, tmp_path: Path, edits: list[dict[str, object]], **wishes: Any) -> Any:
    return run_study(project, edits_file(tmp_path, edits), seen=keeping_the_table(project), **wishes)


def test_out_of_memory_is_repaired_once_with_the_same_total_batch_and_tokens_and_is_marked(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = memory_project(make_project, LEAN)
    night(project, tmp_path, MENDED)
    study, folder = study_of(project), folder_of(project)
    assert [row.status for row in study.rows] == [Status.KEEP, Status.OOM, Status.KEEP, Status.DISCARD]
    failed, repaired = study.rows[1:3]
    assert (repaired.repairs, repaired.parent, repaired.proposer) == (1, failed.parent, "correction")
    before, after = ((folder.trial(row.folder).path / "train.py").read_text() for row in (failed, repaired))
    assert after == before.replace("DEVICE_ROWS = 8 ", "DEVICE_ROWS = 4 "), "nothing but the literal"
    assert "TOTAL_BATCH = 64" in after and "DEPTH = 4" in after
    assert study.baseline is not None and repaired.readings[0].outcome.tokens == study.baseline.readings[0].outcome.tokens
    assert repaired.title == "edit 1 (repair of 1: DEVICE_ROWS 4)"
    assert table(project)[2]["description"] == repaired.title
    verified = [event for event in events(project, "verified") if isinstance(event, Verified)]
    assert [(event.trial, event.repairs, event.verification.outcome) for event in verified] == [(2, 1, Outcome.ACCEPTED)]
    answers = verified[0].verification.model_dump(exclude={"schema_version", "outcome", "detail"})
    assert len(answers) == 6 and all(answer is True for answer in answers.values())
    assert "repairs   trial 1: accepted" in show.as_text(repaired, study, folder)
    assert "## Repairs" in report.render(study, folder) and "[repairs 1]" in results.row_line(repaired) + show_line(repaired)
    must_be_whole(project)


def show_line(row: Any) -> str:
    from harness.views.lines import verdict_line

    return verdict_line(row)


def test_the_packet_of_a_lack_of_memory_names_check_expectation_and_evidence(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = memory_project(make_project, LEAN)
    night(project, tmp_path, MENDED)
    (event,) = (event for event in events(project, "followed_up") if isinstance(event, FollowedUp))
    assert event.mechanism is Mechanism.CORRECTION and event.ticket is not None and event.packet is not None
    assert event.packet.failed_check == "oom: out_of_memory"
    assert event.packet.evidence == "0001-edit-1/r0/train.log"
    assert (folder_of(project).path / event.packet.evidence).is_file()
    assert event.packet.fingerprint.startswith("oom/out_of_memory/MemoryError/train.py:before_training/")
    assert event.ticket.scope == ("train.py:DEVICE_ROWS",)
    assert event.ticket.repair == "halve DEVICE_ROWS from 8 to 4"


def test_the_same_lack_of_memory_again_stops_the_line_asks_a_person_and_the_night_goes_on(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = memory_project(make_project, f"{LEAN}\n[correction]\nattempts = 3")
    night(project, tmp_path, HOPELESS)
    study = study_of(project)
    assert [row.status for row in study.rows] == [Status.KEEP, Status.OOM, Status.OOM, Status.KEEP]
    assert [row.repairs for row in study.rows] == [None, None, 1, None]
    (asked,) = (event.question for event in events(project, "escalated") if isinstance(event, Escalated))
    fingerprint = next(iter(study.repairs.fingerprints))
    assert study.repairs.fingerprints == {fingerprint: [1, 2]}
    assert (asked.kind, asked.key, asked.blocks, asked.default) == ("repeated_failure", f"line:{fingerprint}", "line", "leave")
    assert [option.id for option in asked.options] == ["leave", "try_again"]
    assert asked.repairs == ("trial 2",)
    followed = [event for event in events(project, "followed_up") if isinstance(event, FollowedUp)]
    assert [event.mechanism for event in followed] == [Mechanism.CORRECTION, Mechanism.ESCALATION]
    assert study.repairs.outcomes == {2: Outcome.ROLLED_BACK}
    must_be_whole(project)


@pytest.mark.parametrize("law", ["attempts = 0", "in_all = 0", 'micro_batch = "NONE"'])
def test_without_leave_of_the_rules_or_a_constant_nothing_is_repaired(make_project: Callable[..., Path], tmp_path: Path, law: str) -> None:
    project = memory_project(make_project, f"{LEAN}\n[correction]\n{law}")
    night(project, tmp_path, MENDED)
    assert [row.repairs for row in study_of(project).rows] == [None] * 3
    (event,) = (event for event in events(project, "followed_up") if isinstance(event, FollowedUp))
    assert event.mechanism is Mechanism.REPLAN and event.detail


@pytest.mark.parametrize(
    ("law", "why"),
    [
        ("[ban]\naxes = ['DEVICE_ROWS']", "its repair was refused (banned: "),
        ("[ban]\nwords = ['DEVICE_ROWS']", "its repair was refused (banned: "),
        ("[scope]\nmax_file_kb = 1", "its repair was refused (too_big: "),
    ],
)
def test_a_repair_that_the_guard_refuses_lapses_at_once_with_the_reason_and_is_not_made_again(
    make_project: Callable[..., Path], tmp_path: Path, law: str, why: str
) -> None:
    """The rules change between the failure and its repair, so that nothing could say before that the repair is not allowed."""
    project = memory_project(make_project, LEAN)

    def edit(entry: Any, study: Any) -> None:
        if entry.event.kind == "settled" and study.rows[-1].trial == 1:
            set_rules(project, law)

    run_study(project, edits_file(tmp_path, MENDED), seen=Seen(on_event=edit))
    study = study_of(project)
    refused = [event for event in events(project, "refused") if getattr(event, "proposer", "") == "correction"]
    assert len(refused) == 1, [event for event in events(project, "refused")]
    followed = [event for event in events(project, "followed_up") if isinstance(event, FollowedUp)]
    assert [event.mechanism for event in followed] == [Mechanism.CORRECTION, Mechanism.REPLAN]
    assert followed[1].cause == "lapsed" and why in followed[1].detail
    assert study.repairs.ticket is None and study.repairs.made == 0
    assert [row.repairs for row in study.rows] == [None] * len(study.rows)


def test_a_kill_right_after_the_refusal_of_a_repair_leaves_no_ticket_behind(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = memory_project(make_project, f"{LEAN}\n[ban]\naxes = ['DEVICE_ROWS']")
    crash_at(project, "journal:refused", edits_file(tmp_path, MENDED))
    assert study_of(project).repairs.ticket is not None and "banned: " in study_of(project).repairs.declined
    assert "  repairing  trial 1: oom: out_of_memory; halve DEVICE_ROWS" in status.as_text(study_of(project))
    resume_study(project)
    study = study_of(project)
    assert study.repairs.ticket is None and study.refused == 1 and [row.status for row in study.rows[1:]] == [Status.OOM, Status.KEEP]
    assert "repairing" not in status.as_text(study)


def test_status_says_how_the_last_repair_was_verified(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = memory_project(make_project, LEAN)
    night(project, tmp_path, MENDED)
    study = study_of(project)
    assert "  repaired   trial 1 by trial 2: accepted" in status.as_text(study)
    assert status.as_dict(study)["repairs"] == {"made": 1, "ticket": None, "verified": {"trial": 2, "repairs": 1, "outcome": "accepted"}}


LIFE = (
    "journal:settled", "journal:settled", "journal:followed_up", "proposal_stored", "journal:proposed", "journal:begun", "commit_written", "ref_written",
    "journal:committed", "journal:launched", "journal:interrupted", "journal:trained",
)  # fmt: skip
ENDS = {
    "mended": (MENDED, ("journal:scored", "journal:verified", "journal:decided", "branch_moved", "journal:settled")),
    "hopeless": (HOPELESS, ("journal:verified", "journal:decided", "journal:settled", "journal:escalated", "journal:followed_up")),
}


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_a_repair_that_is_killed_at_every_point_ends_in_the_same_table(make_project: Callable[..., Path], tmp_path: Path, end: str) -> None:
    edits, points = ENDS[end]
    whole, project = memory_project(make_project, LEAN), memory_project(make_project, LEAN)
    night(whole, tmp_path, edits)
    path = edits_file(tmp_path, edits)
    crash_at(project, LIFE[0], path)
    for point in (*LIFE[1:], *points):
        crash_at(project, point)
    resume_study(project, seen=keeping_the_table(project))
    assert table(project) == table(whole)
    for kind in ("followed_up", "verified", "escalated"):
        assert len(events(project, kind)) == len(events(whole, kind)), kind
    must_be_whole(project)


def test_a_stored_repair_says_which_trial_it_repairs(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = memory_project(make_project, LEAN)
    night(project, tmp_path, MENDED)
    stored = [Proposal.model_validate_json(path.read_bytes()) for path in sorted((folder_of(project).path / "proposals").iterdir())]
    assert [(one.repairs, one.proposer) for one in stored] == [(None, "scripted"), (1, "correction"), (None, "scripted")]


def test_a_person_who_wants_a_parked_line_tried_again_gets_one_more_repair_and_is_not_asked_twice(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = memory_project(make_project, LEAN)
    night(project, tmp_path, HOPELESS, trials=2)
    answer(project, "try_again")
    resume_study(project, seen=keeping_the_table(project), trials=4)
    study = study_of(project)
    assert [row.repairs for row in study.rows] == [None, None, 1, 2, None]
    assert study.rows[3].title.endswith("(repair of 2: DEVICE_ROWS 2)")
    assert study.rows[3].status is Status.OOM and study.rows[4].status is Status.KEEP
    assert len(events(project, "escalated")) == 1
    followed = [event for event in events(project, "followed_up") if isinstance(event, FollowedUp)]
    assert [event.answers for event in followed] == [None, None, 1, None]
    assert followed[-1].detail.endswith("question 1 about it was answered `try_again`, so nobody is asked again")
    must_be_whole(project)


def answer(project: Path, option: str) -> None:
    """What the inbox writes when a person has answered question 1."""
    path = folder_of(project).journal
    study, end = fold.replay(path)
    log = Journal(path, end, now=lambda: study.last_at, elapsed=lambda: study.elapsed)
    log.append(Resolved(question=1, option=option, by="person"))
    log.close()


def test_another_candidate_that_runs_out_of_memory_in_the_same_way_is_repaired_though_one_line_is_parked(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = memory_project(make_project, f"{LEAN}\n[stop]\ntrials = 6")
    night(project, tmp_path, [*HOPELESS[:1], {"DEPTH": 3, "LEARNING_RATE": 0.1, "VALUE": 1.1}])
    study = study_of(project)
    assert [row.repairs for row in study.rows] == [None, None, 1, None, 3]
    assert study.rows[4].status is Status.KEEP and len(study.repairs.fingerprints) == 1


def test_the_same_part_turned_to_the_same_crash_twice_is_a_line_that_does_not_get_on(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 3")
    night(project, tmp_path, [{"MODE": "crash"}, {"MODE": "crash", "VALUE": 1.1}, {"VALUE": 1.15}])
    followed = [event for event in events(project, "followed_up") if isinstance(event, FollowedUp)]
    assert ["search and scripted" in followed[0].detail, followed[1].mechanism] == [True, Mechanism.REPLAN], "another part was turned, too"
    again = make_project(rules=f"{LEAN}\n[stop]\ntrials = 3")
    night(again, tmp_path, [{"MODE": "crash", "VALUE": 1.3}, {"MODE": "crash", "VALUE": 1.1}, {"VALUE": 1.15}])
    followed = [event for event in events(again, "followed_up") if isinstance(event, FollowedUp)]
    assert [event.mechanism for event in followed] == [Mechanism.REPLAN, Mechanism.ESCALATION]
    assert study_of(again).rows[-1].status is Status.KEEP, "the night went on"


def test_a_repair_that_trains_fewer_tokens_is_rolled_back_though_it_reads_better(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = memory_project(make_project, LEAN)
    train = project / "train.py"
    train.write_text(swap(train.read_text(), 'MODE == "no_steps" else 10)', 'MODE == "no_steps" else 10, tokens=100 * DEVICE_ROWS // 8)'))
    git(project, "commit", "-qam", "fewer tokens with fewer rows")
    night(project, tmp_path, MENDED)
    study = study_of(project)
    repaired = study.rows[2]
    assert repaired.verdict is not None and repaired.verdict.gain is not None and repaired.verdict.gain > 0
    assert (repaired.status, repaired.verdict.reason) == (Status.DISCARD, "repair_not_verified")
    assert study.repairs.outcomes == {2: Outcome.ROLLED_BACK}
    mechanisms = [event.mechanism for event in events(project, "followed_up") if isinstance(event, FollowedUp)]
    assert mechanisms == [Mechanism.CORRECTION, Mechanism.REFLECTION]
    must_be_whole(project)


def test_a_source_without_truth_blocks_the_trial_and_asks_a_person(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=LEAN)
    prepare = project / "prepare.py"
    unknown = 'if value < 1.15:\n        harness.send(fault={"reason": "missing_ground_truth", "detail": "the source says UNKNOWN"})\n        return\n    '
    prepare.write_text(swap(prepare.read_text(), "if not math.isfinite(value):", f"{unknown}if not math.isfinite(value):"))
    git(project, "commit", "-qam", "a source that does not know")
    night(project, tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.12}], trials=1)
    study = study_of(project)
    assert [(row.status, row.interruptions) for row in study.rows] == [(Status.KEEP, 0), (Status.BLOCKED, 0)]
    (asked,) = (event.question for event in events(project, "escalated") if isinstance(event, Escalated))
    assert (asked.kind, asked.blocks, asked.default) == ("missing_ground_truth", "study", "stop")
    (event,) = (one for one in events(project, "followed_up") if isinstance(one, FollowedUp))
    assert event.mechanism is Mechanism.ESCALATION and event.ticket is None
    answer(project, "stop")
    assert resume_study(project, trials=2).reason == "answered"
    asked_about = study_of(project).inbox
    assert [asked_about.times(asked.key.rpartition(":")[0], "stop", but=but) for but in (1, 2)] == [0, 1], (
        "a restart asks nothing twice of one trial"
    )
    resume_study(project, trials=2)
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.BLOCKED, Status.BLOCKED]
    assert list(study_of(project).inbox.open) == [2], "what she did not mend after her stop is asked about again"


@pytest.mark.slow
def test_memory_is_measured_from_outside_and_the_halved_batch_fits(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f"{LEAN}\n[trial]\nmemory_mb = 250")
    train = project / "train.py"
    text = swap(train.read_text(), "SEED_NOISE = 0.001\n", "SEED_NOISE = 0.001\nTOTAL_BATCH = 64\nDEVICE_ROWS = 8\n")
    held = "    held = bytearray(DEVICE_ROWS * DEPTH * 10 << 20)\n    held[::4096] = b'x' * len(held[::4096])\n    time.sleep(0.6)\n"
    train.write_text(swap(text, "def before_training():\n", f"def before_training():\n{held}"))
    git(project, "commit", "-qam", "hungry")
    night(project, tmp_path, [{"DEPTH": 4, "VALUE": 1.1}])
    study = study_of(project)
    assert [(row.status, row.verdict.reason if row.verdict else "") for row in study.rows[1:]] == [
        (Status.OOM, "memory_limit"),
        (Status.KEEP, "better"),
    ]
    assert study.repairs.outcomes == {2: Outcome.ACCEPTED}
