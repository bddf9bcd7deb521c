"""Real studies that ask: answered from another process, settled by their deadline, waited for where they block; told by real messages, once."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.artifacts import journal
from harness.control import recorder, telling
from harness.execution import messenger
from harness.trial import Stop
from tests.asking import asking, ended, events, files_below, forked, receiver, until, warnings
from tests.nights import LEAN, crash_at
from tests.projects import Seen, edits_file, folder_of, keeping_the_table, ratchet, resume_study, run_study, set_rules, study_of

FOUR: list[dict[str, object]] = [{"VALUE": 1.3 + n / 100} for n in range(12)]
TOLD = f'{LEAN}\n[escalation]\nchannels = ["RATCHET_TEST_PHONE"]'


def run(project: Path, tmp_path: Path) -> Stop:
    return run_study(project, edits_file(tmp_path, FOUR), seen=keeping_the_table(project))


def test_an_answer_from_another_process_is_taken_while_the_study_runs(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, (2, "oom", "study", "skip"))
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 3")
    child = forked(lambda: run(project, tmp_path).exit_code)
    until(lambda: folder_of(project).inbox.joinpath("0001.json").exists(), "the question")
    assert study_of(project).row_count == 2, "nothing is begun while it waits"
    told = ratchet(project, "answer", "1", "retry", "--note", "half of it will do")
    assert (told.returncode, told.stderr) == (0, "")
    assert "question 1 of t: retry (it is tried once more); the harness takes it" in told.stdout
    assert ended(child) == 0
    (settled,) = events(project, "resolved")
    assert (settled.option, settled.by, settled.note) == ("retry", "person", "half of it will do")
    assert study_of(project).trials == 3
    assert "Settled: `retry`, by a person" in folder_of(project).inbox.joinpath("0001.md").read_text()


def test_a_deadline_takes_the_default_and_only_then_the_study_goes_on(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, (2, "oom", "study", "skip"))
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 2\n[escalation]\nanswer_minutes = 0.02")
    assert run(project, tmp_path).exit_code == 0
    (settled,) = events(project, "resolved")
    assert (settled.option, settled.by) == ("skip", "deadline")
    assert study_of(project).trials == 2
    late = ratchet(project, "answer", "1", "retry")
    assert (late.returncode, late.stderr) == (2, "ratchet: question 1 is settled already: `skip`, by its deadline, as nobody answered; an answer cannot be taken back\n")  # fmt: skip


@pytest.mark.parametrize("blocks", ["line", "nothing"])
def test_a_question_that_does_not_block_the_study_stops_nothing(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: str
) -> None:
    asking(monkeypatch, (2, "oom", blocks, "skip"))  # type: ignore[arg-type]
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 3")
    assert run(project, tmp_path).exit_code == 0
    assert study_of(project).trials == 3
    assert list(study_of(project).inbox.open) == [1]
    assert "answered" not in ratchet(project, "inbox").stdout
    ratchet(project, "answer", "1", "retry", check=True)
    assert "answered  `retry`; the harness takes it between trials" in ratchet(project, "inbox").stdout
    assert json.loads(ratchet(project, "inbox", "--json").stdout)["questions"][0]["answered"] == "retry"


def test_stop_as_an_answer_ends_the_study_with_code_3_and_a_resume_goes_on(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, (2, "oom", "study", "stop"))
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 3\n[escalation]\nanswer_minutes = 0.01")
    stop = run(project, tmp_path)
    assert (stop.reason, stop.exit_code) == ("answered", 3)
    assert stop.sentence == "question 1 (repeated failure) was answered `stop` by its deadline, as nobody did; `ratchet resume` goes on"
    assert resume_study(project, seen=keeping_the_table(project)).reason == "trials"
    assert study_of(project).trials == 3


def test_a_stop_that_a_crash_kept_from_taking_effect_takes_it_after_the_restart(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, (2, "oom", "study", "stop"))
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 3\n[escalation]\nanswer_minutes = 0.01")
    crash_at(project, "journal:resolved", edits_file(tmp_path, FOUR))
    assert resume_study(project).reason == "answered"
    assert resume_study(project).reason == "trials"


def test_a_default_that_passed_while_the_study_stood_still_does_not_stop_who_resumes(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, (2, "oom", "line", "stop"))
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1\n[escalation]\nanswer_minutes = 0.05")
    assert run(project, tmp_path).reason == "trials"
    until(lambda: folder_of(project).inbox.joinpath("0001.json").stat().st_mtime + 4 < time.time(), "the deadline")
    assert resume_study(project, trials=3).reason == "trials"
    assert [(one.option, one.by) for one in events(project, "resolved")] == [("stop", "deadline")]
    assert study_of(project).trials == 3


@pytest.mark.parametrize("how", ["stop", "edit", "hours"])
def test_a_study_that_waits_for_an_answer_hears_a_stop_an_edit_and_the_end_of_its_hours(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    asking(monkeypatch, (2, "oom", "study", "skip"))
    hours = "\nhours = 0.0015" if how == "hours" else ""
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 3{hours}")
    child = forked(lambda: run(project, tmp_path).exit_code)
    until(lambda: events(project, "escalated") if folder_of(project).journal.exists() else False, "the question")
    if how == "stop":
        assert ratchet(project, "stop").returncode == 0
    if how == "edit":
        set_rules(project, "[stop]\ntrials = 1")
    assert ended(child) == 0
    study = study_of(project)
    assert study.stop is not None
    assert study.stop.reason == {"stop": "asked", "edit": "trials", "hours": "hours"}[how]
    assert (study.trials, list(study.inbox.open)) == (1, [1])


def test_a_question_and_the_end_are_told_by_one_message_each_and_no_secret_is_kept(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asking(monkeypatch, (2, "a", "line", "skip"), (2, "b", "line", "skip"))
    with receiver() as phone:
        monkeypatch.setenv("RATCHET_TEST_PHONE", phone.address)
        project = make_project(rules=f"{TOLD}\n[stop]\ntrials = 3")
        run(project, tmp_path)
        assert phone.titles == ["Ratchet t: 2 questions", "Ratchet t: ended (trials), 2 questions"]
        assert "ratchet answer 1 OPTION --tag t" in phone.came[0]["message"]
        assert "all 3 trials are done (exit code 0)" in phone.came[1]["message"]
    assert [(one.message, one.outcomes) for one in events(project, "sent")] == [(n, {"RATCHET_TEST_PHONE": ""}) for n in (1, 2)]
    assert all(b"s3cret" not in path.read_bytes() for path in files_below(project / "runs"))
    assert "s3cret" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("how", [500, "hang", "drip", "down", "no_address", "not_set"])
def test_a_receiver_that_fails_costs_one_warning_and_no_time_of_the_night(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    asking(monkeypatch, *((rows, f"k{rows}", "line", "skip") for rows in (2, 3, 4)))
    monkeypatch.setattr(messenger, "SECONDS", 3.0)
    with receiver(how if how in (500, "hang", "drip") else 200) as phone:  # type: ignore[arg-type]
        address = {"down": "json://s3cret@127.0.0.1:1/", "no_address": "s3cret://", "not_set": ""}.get(how, phone.address)
        monkeypatch.setenv("RATCHET_TEST_PHONE", address)
        project = make_project(rules=f"{TOLD}\n[stop]\ntrials = 5")
        assert run(project, tmp_path).exit_code == 0
    assert study_of(project).trials == 5
    said = warnings(project, "channel")
    assert len(said) <= 1
    assert len(said) == 1 or study_of(project).inbox.failing
    assert "s3cret" not in folder_of(project).journal.read_text()
    assert study_of(project).inbox.in_flight is None


POINTS = ["journal:escalated", "journal:sending", "journal:sent", "answer_written", "answer_linked", "journal:resolved", "journal:stopped"]


@pytest.mark.parametrize("points", [[one] for one in POINTS] + [POINTS], ids=[*POINTS, "all in turn"])
def test_nothing_is_told_or_settled_twice_whatever_point_a_harness_dies_at(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: Sequence[str]
) -> None:
    asking(monkeypatch, (2, "oom", "study", "skip"))
    with receiver() as phone:
        monkeypatch.setenv("RATCHET_TEST_PHONE", phone.address)
        project = make_project(rules=f"{TOLD}\nanswer_minutes = 0.03\n[stop]\ntrials = 2")
        crash_at(project, points[0], edits_file(tmp_path, FOUR))
        for point in points[1:]:
            crash_at(project, point)
        assert resume_study(project, seen=keeping_the_table(project)).reason == "trials"
        assert resume_study(project, seen=keeping_the_table(project)).reason == "trials", "a person looks again"
    about = [key for one in events(project, "sending") for key in one.about]
    assert len(about) == len(set(about)), about
    assert len(phone.titles) == len(set(phone.titles)), phone.titles
    assert [one.question.number for one in events(project, "escalated")] == [1]
    assert [(one.question, one.by) for one in events(project, "resolved")] == [(1, "deadline")]
    assert [path.name for path in sorted(folder_of(project).inbox.glob("[0-9]*"))] == ["0001.answer.json", "0001.json", "0001.md"]
    assert len(events(project, "sent")) == len(events(project, "sending"))


def test_a_broken_edit_is_told_once_over_restarts(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as phone:
        monkeypatch.setenv("RATCHET_TEST_PHONE", phone.address)
        project = make_project(rules=f"{TOLD}\n[stop]\ntrials = 2")
        seen = Seen()
        seen.on_event = lambda entry, _: (
            set_rules(project, "[keep]\nrul = 1") if entry.event.kind == "settled" and entry.event.trial == 1 else None
        )
        run_study(project, edits_file(tmp_path, FOUR), seen=seen)
        resume_study(project, trials=3)
        resume_study(project, trials=4)
    assert len(warnings(project, "rules")) == 3
    assert [title for title in phone.titles if "program.md" in title] == ["Ratchet t: program.md is not in force"]


def test_a_broken_edit_that_was_taken_back_in_quiet_hours_is_no_news_any_more(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as phone:
        monkeypatch.setenv("RATCHET_TEST_PHONE", phone.address)
        hour = time.localtime().tm_hour
        project = make_project(rules=f'{TOLD}\nquiet = ["{(hour - 1) % 24:02}:00", "{(hour + 2) % 24:02}:00"]\n[stop]\ntrials = 4')
        program, seen = project / "program.md", Seen()
        good = program.read_text()
        texts = {1: good.replace("trials = 4", "trials = x"), 2: good}
        seen.on_event = lambda entry, _: _write(program, texts.get(entry.event.trial, "")) if entry.event.kind == "settled" else None
        run_study(project, edits_file(tmp_path, FOUR), seen=seen)
        assert phone.titles == []
    study = study_of(project)
    assert (study.inbox.complaint, telling.news(study.inbox), study.trials) == ("", None, 4)
    assert [one.rpartition("; ")[2] for one in warnings(project, "rules")] == ["the last valid rules stay in force"]
    assert [(bool(one.digest), one.back) for one in study.edits] == [(False, False), (True, True)]
    assert "program.md is again what is in force" in ratchet(project, "log").stdout


def _write(path: Path, text: str) -> None:
    if text:
        path.write_text(text)


def test_a_broken_edit_that_was_taken_back_while_no_harness_ran_is_no_complaint_any_more(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 2")
    program, seen = project / "program.md", Seen()
    good = program.read_text()
    seen.on_event = lambda entry, _: _write(program, "no block") if entry.event.kind == "settled" else None
    run_study(project, edits_file(tmp_path, FOUR), seen=seen)
    assert study_of(project).inbox.complaint
    program.write_text(good)
    resume_study(project, trials=3)
    resume_study(project, trials=4)
    assert study_of(project).inbox.complaint == ""
    assert len(warnings(project, "rules")) == 1 and [one.back for one in study_of(project).edits] == [False, True]


def test_a_harness_that_is_killed_while_it_waits_has_its_wait_counted_and_no_default_stop_taken(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, (2, "oom", "study", "stop"))
    monkeypatch.setattr(recorder, "BEAT_SECONDS", 0.2)
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 3\n[escalation]\nanswer_minutes = 0.08")
    child = forked(lambda: run(project, tmp_path).exit_code)
    until(lambda: folder_of(project).inbox.joinpath("0001.json").exists(), "the question")
    time.sleep(2.5)
    before = study_of(project).elapsed
    os.kill(child, signal.SIGKILL)
    assert ended(child) == -signal.SIGKILL
    time.sleep(3.5)
    assert resume_study(project).reason == "trials"
    assert [(one.option, one.by) for one in events(project, "resolved")] == [("stop", "deadline")]
    taken_up = next(entry for entry, _ in journal.read(folder_of(project).journal) if entry.event.kind == "resumed")
    assert before + 1.5 <= taken_up.elapsed <= before + 6


def test_the_address_shows_in_no_process_list(make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asking(monkeypatch, (2, "a", "study", "skip"))
    with receiver("hang") as phone:
        monkeypatch.setenv("RATCHET_TEST_PHONE", phone.address)
        project = make_project(rules=f"{TOLD}\n[stop]\ntrials = 2")
        child = forked(lambda: run(project, tmp_path).exit_code)
        until(lambda: phone.came, "the message")
        lists = [raw for path in Path("/proc").glob("[0-9]*/cmdline") if (raw := _read(path))]
        assert any(b"harness.execution.deliver" in raw for raw in lists)
        assert not any(b"s3cret" in raw for raw in lists)
        assert ratchet(project, "answer", "1", "stop").returncode == 0
        assert ended(child) == 3


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
