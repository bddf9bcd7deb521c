"""Repairs of failed checks and of failed repairs: inside the first scope, counted for what they are, never lost to the machine, one question at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.artifacts.events import Entry, Refused
from harness.artifacts.oversight_events import Escalated, FollowedUp, Verified
from harness.artifacts.study import Study
from harness.followups import Outcome
from harness.trial import Status
from harness.views import report, status
from tests import own_proposers
from tests.messages_stub import stub
from tests.models import Script
from tests.nights import LEAN, crash_at
from tests.projects import Seen, edits_file, folder_of, git, resume_study, run_study, set_rules, study_of
from tests.repairs import memory_project
from tests.reviewers import answer, events, verdict
from tests.test_product_payload import Killed, Make, make, script

assert make, "a fixture"
FUNCTION = ("payload.py", 'PRICE = "199000"', 'def told(value):\n    return value * 1\n\n\nPRICE = told("199000")')
pytestmark = pytest.mark.usefixtures("no_account")
OWN = Path(own_proposers.__file__).resolve()


def tickets_of(project: Path) -> list[FollowedUp]:
    return [event for event in events(project, FollowedUp) if event.ticket is not None]


def cut_off(project: Path, edits: Path, trial: int) -> None:
    """A study whose harness dies when the job of that trial has begun."""
    crash_at(project, "journal:settled", edits)
    for _ in range(trial - 1):
        crash_at(project, "journal:settled")
    crash_at(project, "journal:launched")


def test_the_repair_of_a_crashed_repair_of_a_check_stays_inside_the_scope_of_the_check(make: Make) -> None:
    project = make(FUNCTION)
    run_study(project, proposer=f"{OWN}:Leaving", program=project / "program.md", trials=2)
    study = study_of(project)
    first, second = tickets_of(project)[:2]
    assert first.ticket is not None and second.ticket is not None and (first.trial, second.trial) == (0, 1)
    assert first.ticket.scope == second.ticket.scope == ("payload.py:PRICE",), "the error arose in payload.py:told"
    assert [(one.reason, one.proposal) for one in study.refusals] == [("over_correction", 2)]
    assert [(row.status, row.repairs) for row in study.rows[1:]] == [(Status.CRASH, 0), (Status.KEEP, 1)]
    assert "return value * 1" in git(project, "show", "autoresearch/t:payload.py")


def test_refused_proposals_are_no_repairs_and_what_is_used_up_is_journalled_once(make: Make) -> None:
    project = make()
    run_study(project, proposer=f"{OWN}:Idle", program=project / "program.md")
    study = study_of(project)
    assert study.refused == 12 and study.row_count == 1
    told = [event for event in events(project, FollowedUp) if event.cause == "repairs_used_up"]
    assert [one.packet.failed_check for one in told if one.packet] == [
        "a repair of E_PRICE_TYPE at /price",
        "a repair of E_NAME_SOURCE at /name",
    ]
    assert all("after 0 of 2 repairs and 6 refused proposals (0 of 20 in all)" in one.detail for one in told)
    lapsed = [event.detail for event in events(project, FollowedUp) if event.cause == "lapsed"]
    assert lapsed == ["the ticket of trial 0 lapses: 3 proposals in its turn did not carry it out"] * 4
    assert [one.question.key for one in events(project, Escalated)] == [
        "repairs of E_PRICE_TYPE at /price",
        "repairs of E_NAME_SOURCE at /name",
    ]


@pytest.mark.parametrize("kind", ["refused", "followed_up", "escalated"])
@pytest.mark.parametrize("number", [1, 2])
def test_killed_while_proposals_are_refused_and_resumed_the_story_is_told_once(make: Make, kind: str, number: int) -> None:
    whole, cut, seen = make(name="whole"), make(name="cut"), Seen()

    def kill(entry: Entry, _study: Study) -> None:
        if entry.event.kind == kind and seen.kinds().count(kind) == number:
            raise Killed

    seen.on_event = kill
    run_study(whole, proposer=f"{OWN}:Idle", program=whole / "program.md")
    with pytest.raises(Killed):
        run_study(cut, proposer=f"{OWN}:Idle", program=cut / "program.md", seen=seen)
    resume_study(cut)
    told = [[event for event in events(project, FollowedUp, Escalated, Refused)] for project in (whole, cut)]
    assert [event.kind for event in told[0]] == [event.kind for event in told[1]]
    assert study_of(cut).repairs == study_of(whole).repairs


def test_a_repair_of_a_check_that_the_machine_interrupted_is_neither_counted_nor_rolled_back(make: Make) -> None:
    project = make()
    set_rules(project, "[crash]\nreruns_after_interruption = 0\n[correction]\nattempts = 1")
    cut_off(project, script(project, "PRICE = 199000", "PRICE = 199000", 'NAME = "Steel pen"'), 1)
    resume_study(project)
    study = study_of(project)
    assert [(row.status, row.repairs) for row in study.rows[1:]] == [(Status.INTERRUPTED, 0), (Status.KEEP, 0), (Status.KEEP, 2)]
    assert study.repairs.outcomes == {2: Outcome.ACCEPTED, 3: Outcome.ACCEPTED} and events(project, Escalated) == []
    (kept,) = (event for event in tickets_of(project) if event.trial == 1)
    assert kept.cause == "infrastructure" and kept.detail.endswith("the repair of trial 0 was not measured, so its order stays open")


@pytest.mark.parametrize(("law", "again"), [("", True), ("\n[correction]\nin_all = 1", False)])
def test_the_harness_makes_an_interrupted_repair_of_memory_again_as_far_as_the_rules_allow(
    make_project: Callable[..., Path], tmp_path: Path, law: str, again: bool
) -> None:
    project = memory_project(make_project, f"{LEAN}\n[crash]\nreruns_after_interruption = 0{law}")
    cut_off(project, edits_file(tmp_path, [{"DEPTH": 4, "VALUE": 1.1}, {"VALUE": 1.15}]), 2)
    resume_study(project)
    study = study_of(project)
    assert [row.repairs for row in study.rows[1:]] == ([None, 1, 1, None] if again else [None, 1, None])
    assert study.rows[2].status is Status.INTERRUPTED and [one.trial for one in events(project, Verified)] == ([3] if again else [])
    lapsed = [event.detail for event in events(project, FollowedUp) if event.cause == "lapsed"]
    assert lapsed == ([] if again else ["the ticket of trial 1 lapses: 1 repairs were made, and [correction] allows no more"])
    assert "rolled" not in status.as_text(study) + report.render(study, folder_of(project))


@pytest.mark.parametrize("choice", ["leave", "keep"])
def test_while_a_person_is_asked_about_the_review_of_a_repair_nobody_is_asked_about_its_check(make: Make, choice: str) -> None:
    with stub(Script([verdict("uncertain")])) as server:
        project = make()
        set_rules(
            project,
            f'[model]\nbase_url = "{server.url}"\n[stop]\ndollars = 9\n[correction]\nattempts = 1\n[review]\nsymbols = ["PRICE"]\ncriteria = ["a", "b"]',
        )
        run_study(
            project, script(project, "PRICE = 199000", "STOCK = 12.5", 'NAME = "Steel pen"'), program=project / "program.md", trials=1
        )
        assert keys_of(project) == ["review:1"]
        assert [event.ticket.failed_check for event in tickets_of(project) if event.ticket] == [
            "E_PRICE_TYPE at /price",
            "E_NAME_SOURCE at /name",
        ]
        answer(project, 1, choice)
        resume_study(project, trials=2)
    study = study_of(project)
    if choice == "leave":
        assert keys_of(project)[:2] == ["review:1", "repairs of E_PRICE_TYPE at /price"]
    else:
        assert keys_of(project) == ["review:1"] and study.refused == 0
        assert study.rows[2].approves == 1 and study.rows[2].repairs is None and study.rows[2].status is Status.KEEP


def keys_of(project: Path) -> list[str]:
    return [event.question.key for event in events(project, Escalated)]
