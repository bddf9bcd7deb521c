"""A model that only a person can bring back: she is asked once, told of it, and her answer has it asked again. Over the real wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import program_file
from harness.artifacts.answers import InboxFiles
from harness.artifacts.events import Entry, Proposed, Refused
from harness.artifacts.study import Study
from harness.control import absences, recorder
from harness.control.recovery import unseen_seconds
from harness.control.turns import absence
from harness.errors import StorageFault
from harness.evaluation import causes
from harness.followups import Mechanism
from harness.proposers import asking as calling
from tests.asking import events, receiver
from tests.messages_stub import Answer, error_status, stub
from tests.models import Script, lower_and_submit, project_of
from tests.projects import Seen, ratchet, resume_study, run_study, study_of
from tests.test_answers import House

AWAY = {"auth": (401, "authentication_error"), "billing": (402, "billing_error"), "forbidden": (403, "permission_error")}
KINDS = {"auth": "wider_permission", "billing": "responsibility", "forbidden": "wider_permission"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(calling, "FIRST_PAUSE", 0.01)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def refusing(reason: str) -> list[Answer]:
    return [error_status(*AWAY[reason], "not for you")] * 20


@pytest.mark.parametrize("reason", AWAY)
def test_a_model_without_a_key_money_or_a_right_is_asked_about_once_and_told_while_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    with receiver() as phone, stub(Script(refusing(reason))) as server:
        monkeypatch.setenv("PHONE", phone.address)
        project = project_of(tmp_path / "p", server.url, '[escalation]\nchannels = ["PHONE"]')
        assert run_study(project, trials=3).reason == "trials"
        assert phone.titles[0] == "Ratchet t: 1 question"
    study = study_of(project)
    (asked,) = study.inbox.open.values()
    assert (asked.kind, asked.candidate, asked.blocks, asked.default) == (KINDS[reason], "anthropic", "nothing", "leave")
    assert (study.trials, study.inbox.asked) == (3, 1)


def test_an_answer_has_the_model_asked_again_once_and_only_a_new_refusal_is_asked_about_again(tmp_path: Path) -> None:
    with stub(Script(refusing("billing"))) as server:
        project = project_of(tmp_path / "p", server.url)
        seen = Seen()

        def reply(entry: Entry, _: Study) -> None:
            if entry.event.kind == "settled" and entry.event.trial == 1:
                ratchet(project, "answer", "1", "ask_again", check=True)

        seen.on_event = reply
        run_study(project, seen=seen, trials=3)
        assert len(server.asked) == 2
        study = study_of(project)
        assert [(one.option, one.by) for one in events(project, "resolved")] == [("ask_again", "person")]
        assert list(study.inbox.open) == [2]
        resume_study(project, trials=4)
        assert study_of(project).inbox.asked == 2, "a resume asks the model, and nobody twice for one thing"


def test_when_the_model_answers_again_the_question_is_settled_by_itself(tmp_path: Path) -> None:
    with stub(Script([*refusing("billing")[:1], *[lower_and_submit] * 6])) as server:
        project = project_of(tmp_path / "p", server.url)
        run_study(project, trials=1)
        assert list(study_of(project).inbox.open) == [1]
        resume_study(project, trials=3)
    assert [(one.option, one.by) for one in events(project, "resolved")] == [("leave", "moot")]


def test_a_second_lack_after_the_model_answered_again_is_asked_about_anew(tmp_path: Path) -> None:
    with stub(Script([*refusing("billing")[:1], lower_and_submit, *refusing("billing")])) as server:
        project = project_of(tmp_path / "p", server.url)
        for trials in (1, 2, 4):
            run_study(project, trials=1) if trials == 1 else resume_study(project, trials=trials)
    assert list(study_of(project).inbox.open) == [2]


def test_the_same_lack_after_the_model_worked_again_is_asked_about_anew(tmp_path: Path) -> None:
    house = House(tmp_path)
    for number in (1, 2):
        house.recorder.emit(absence("anthropic", "auth", "the key is not taken", None))
        absences.follow_up(house.inbox, house.rules)
        assert house.recorder.study.inbox.asked == number
        house.answer(number, "leave")
        house.heed()
        house.restart("sigint")
        house.recorder.emit(absence("anthropic", "auth", "the key is not taken", None))
        absences.follow_up(house.inbox, house.rules)
        assert house.recorder.study.inbox.asked == number, "it never worked meanwhile"
        house.recorder.emit(Proposed(proposal=number, stored_sha256="0" * 64, title="t", axis="", edit="", proposer="anthropic"))
        absences.follow_up(house.inbox, house.rules)
    house.close()


def test_with_nobody_to_stand_in_the_question_is_there_when_the_study_ends(tmp_path: Path) -> None:
    with stub(Script(refusing("forbidden"))) as server:
        project = project_of(tmp_path / "p", server.url, '[proposer]\nmeanwhile = "stop"')
        assert run_study(project, trials=3).reason == "forbidden"
    assert [one.kind for one in study_of(project).inbox.open.values()] == ["wider_permission"]


def test_a_key_in_a_proposal_is_told_to_a_person_once(tmp_path: Path) -> None:
    house = House(tmp_path)
    for proposal in (1, 2):
        house.recorder.emit(Refused(proposal=proposal, reason="secret", detail="the model wrote the key into a file", proposer="anthropic"))
        absences.follow_up(house.inbox, house.rules)
        house.restart()
    assert [(one.kind, one.options[-1].id) for one in house.recorder.study.inbox.open.values()] == [("responsibility", "stop")]
    house.inbox.moot("secret:0", "it was seen to")
    absences.follow_up(house.inbox, house.rules)
    assert house.recorder.study.inbox.asked == 1
    house.close()


def test_a_hint_that_cannot_be_written_ends_no_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "BEAT_SECONDS", 0.0)
    house = House(tmp_path)
    hint = house.folder.path / recorder.BEAT
    hint.mkdir()
    house.recorder.idle()
    hint.rmdir()
    said = house.recorder.idle()
    assert float(hint.read_text()) == pytest.approx(said, abs=0.1)
    for damaged in ("inf", "nan", "soon", ""):
        hint.write_text(damaged)
        assert unseen_seconds(house.folder, house.recorder.study, house.rules) == 0.0
    hint.write_text(f"{house.recorder.study.elapsed + 40}")
    assert unseen_seconds(house.folder, house.recorder.study, house.rules) == pytest.approx(40)
    house.close()


@pytest.mark.skipif(not Path("/proc/self/mem").is_file(), reason="no file of this system refuses to be read")
def test_a_page_that_cannot_be_read_is_a_fault_of_storage_which_the_study_survives(tmp_path: Path) -> None:
    with pytest.raises(StorageFault):
        InboxFiles(tmp_path).view(Path("/proc/self/mem"), "a page")


def test_a_folder_in_the_place_of_a_file_costs_no_descriptor(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with pytest.raises(IsADirectoryError):
            program_file.bounded(tmp_path, 10)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_every_cause_that_the_table_gives_to_a_person_is_one_that_is_asked_about_or_ends_the_study() -> None:
    persons = {code for code, cause in causes.TABLE.items() if cause == causes.Cause(Mechanism.ESCALATION, "policy")}
    assert persons == {"secret", "auth", "billing", "forbidden", "spend_limit", "no_endpoint", "settings"}
    assert set(absences.MONEY) < persons
