"""A crash is repaired by the model that reads: from the ticket alone, on the failed candidate, inside the scope; whatever else it does is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.followups import Outcome
from harness.proposers.protocol import Briefing
from harness.trial import Proposal, Status
from tests.messages_stub import Answer, blocks, call, stub
from tests.models import Script, Step, lower_and_submit, project_of, replace, results_in, submit
from tests.projects import folder_of, make_project, run_study, study_of
from tests.repairs import events

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_account")]
BROKEN = "def train(value):\n    undefined_name\n"


def handed(title: str, *edits: tuple[str, str]) -> Answer:
    return blocks(*(replace(old, new) for old, new in edits), call("submit", dict(submit(title).blocks[0]["input"])))


def breaks(_body: dict[str, Any]) -> Answer:
    return handed("lower, but broken", ("def train(value):\n", BROKEN), ("\nVALUE = 1.2", "\nVALUE = 1.1"))


def page_of(body: dict[str, Any]) -> str:
    return str(
        body["messages"][0]["content"][-1]["text"] if isinstance(body["messages"][0]["content"], list) else body["messages"][0]["content"]
    )


def too_much(body: dict[str, Any]) -> Answer:
    page = page_of(body)
    assert "# A repair is asked for" in page and "| failed check: crash: exit_code" in page and "undefined_name" in page
    assert "| scope: train.py:VALUE, train.py:train" in page and "as trial 1, which failed, left them" in page
    return handed("mend and deepen", (BROKEN, "def train(value):\n"), ("\nDEPTH = 2", "\nDEPTH = 3"))


def mends(body: dict[str, Any]) -> Answer:
    error = results_in(body)[-1]
    assert error["is_error"] and "touches train.py:DEPTH" in str(error["content"])
    return handed("mended", ("\nDEPTH = 3", "\nDEPTH = 2"))


def fresh(body: dict[str, Any]) -> Answer:
    assert "A repair is asked for" not in page_of(body)
    return lower_and_submit(body)


def night(tmp_path: Path, steps: list[Step], rules: str = "", trials: int = 3) -> Path:
    with stub(Script(steps)) as server:
        project = project_of(tmp_path / "p", server.url, f"[stop]\ntrials = {trials}\n{rules}")
        run_study(project)
    return project


def test_a_crash_is_mended_inside_its_scope_and_the_next_call_is_a_fresh_idea(tmp_path: Path) -> None:
    project = night(tmp_path, [breaks, too_much, mends, fresh])
    study = study_of(project)
    assert [row.status for row in study.rows] == [Status.KEEP, Status.CRASH, Status.KEEP, Status.KEEP]
    assert [row.repairs for row in study.rows] == [None, None, 1, None]
    repaired = study.rows[2]
    assert repaired.title == "mended (repair of 1)" and repaired.parent == study.rows[1].parent
    assert study.repairs.outcomes == {2: Outcome.ACCEPTED}
    text = (folder_of(project).trial(repaired.folder).path / "train.py").read_text()
    assert "VALUE = 1.1\n" in text and "undefined_name" not in text


def test_a_model_that_does_not_carry_out_the_ticket_is_asked_for_something_else_in_the_end(tmp_path: Path) -> None:
    stubborn: list[Step] = [lambda body: handed("again", ("\nDEPTH = 2", "\nDEPTH = 3"))] * 12
    project = night(tmp_path, [breaks, *stubborn, *stubborn, fresh], "[model]\nturns = 12", trials=2)
    study = study_of(project)
    assert {one.reason for one in study.refusals} == {"over_correction"} and len(study.refusals) == 2
    assert [row.repairs for row in study.rows] == [None, None, None]
    lapsed = [event.detail for event in events(project, "followed_up") if event.kind == "followed_up" and event.cause == "lapsed"]
    assert lapsed == ["the ticket of trial 1 lapses: 2 proposals in its turn did not carry it out"]


def test_where_the_rules_want_no_repair_of_crashes_no_model_is_asked(tmp_path: Path) -> None:
    project = night(tmp_path, [breaks, fresh], "[correction]\ncrashes = false", trials=2)
    assert [row.repairs for row in study_of(project).rows] == [None] * 3
    (event,) = (one for one in events(project, "followed_up") if one.kind == "followed_up")
    assert event.ticket is None and "[correction] crashes" in event.detail


def test_the_same_program_again_is_no_repair_however_it_is_spelled(tmp_path: Path) -> None:
    def again(_body: dict[str, Any]) -> Answer:
        return handed("try again", (BROKEN, BROKEN + "    # once more\n"))

    def told(body: dict[str, Any]) -> Answer:
        error = results_in(body)[-1]
        assert error["is_error"] and "the program of trial 1 again" in str(error["content"])
        return handed("mended", (BROKEN + "    # once more\n", "def train(value):\n"))

    project = night(tmp_path, [breaks, again, told], trials=2)
    assert [row.repairs for row in study_of(project).rows] == [None, None, 1]


class Blind:
    """A proposer of one's own that reads nothing: a broken candidate first, then ideas on the incumbent."""

    name = "blind"
    reads = False

    def __init__(self, _setting: Any) -> None:
        pass

    def propose(self, briefing: Briefing) -> Proposal:
        text = briefing.files["train.py"].replace("VALUE = 1.2\n", f"VALUE = {1.2 - briefing.number / 100}\n")
        broken = text.replace("def train(value):\n", BROKEN) if briefing.number == 1 else text
        return Proposal(id=briefing.number, parent=briefing.incumbent, title="blind", files={"train.py": broken}, proposer=self.name)


def test_who_does_not_read_a_ticket_is_not_taken_to_carry_it_out(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", rules="[stop]\ntrials = 2")
    run_study(project, proposer=f"{Path(__file__).resolve()}:Blind")
    study = study_of(project)
    assert [(row.status, row.repairs) for row in study.rows[1:]] == [(Status.CRASH, None), (Status.KEEP, None)]
    assert study.refused == 0
