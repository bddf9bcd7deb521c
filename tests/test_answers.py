"""Answers: the first one counts, whoever gives it; what is no answer is set aside and never obeyed; any order of answers, deadlines and restarts settles once."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.artifacts import study as fold
from harness.artifacts.answers import InboxFiles, created
from harness.artifacts.events import Event, Resumed, Stopped
from harness.artifacts.journal import Journal, Position
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.control.answering import answer
from harness.control.inbox import Inbox
from harness.control.recorder import Recorder
from harness.control.recovery import unseen_seconds
from harness.errors import UserFault
from harness.moments import utc
from harness.rules import Rules, parse
from harness.trial import Stop
from tests import study_factory as make
from tests.asking import OPTIONS, Blocks, Receiver, ask, asking, ended, forked, receiver
from tests.nights import LEAN
from tests.projects import Seen, edits_file, ratchet, run_study

START = datetime(2026, 3, 8, 22, 0, tzinfo=timezone.utc)
RULES = parse("# Make it better\n\n```toml rules\n[escalation]\nanswer_minutes = 60\n[stop]\ntrials = 9\n```\n")


class Clock:
    """A clock that goes only when told, or when somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def boottime(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        time.sleep(seconds if seconds < 0.1 else 0)  # a short look at a real process


class House:
    """A study with an inbox and no trials; `restart` is a new process of it."""

    def __init__(self, root: Path, rules: Rules = RULES, environment: Mapping[str, str] | None = None) -> None:
        self.folder, self.clock, self.rules, self.seen = StudyDir(root, "t"), Clock(), rules, Seen()
        self.environment = environment or {}
        self.folder.path.mkdir(parents=True)
        self.folder.program.write_text("# Make it better\n")
        self._open(Study(), Position())
        self.recorder.emit(make.Night(limits={"trials": 9, "hours": None, "deadline": None}).start())

    def _open(self, study: Study, end: Position) -> None:
        self.journal = Journal(self.folder.journal, end, now=lambda: utc(self.clock.now()), elapsed=lambda: self.clock.seconds)
        self.recorder = Recorder(self.folder, self.journal, study, self.seen.observe)
        self.inbox = Inbox(self.recorder, self.clock, self.environment)

    def restart(self, after: str = "") -> None:
        """Die without a word, or after an end; a new harness reads the journal."""
        if after:
            self.recorder.emit(Stopped(stop=Stop(reason=after, sentence=after, exit_code=0)))
        self.close()
        self._open(*fold.replay(self.folder.journal))
        self.recorder.emit(Resumed(pid=1, limits=self.recorder.study.limits))

    def ask(self, key: str = "k", blocks: Blocks = "line", default: str = "skip", impact: str = "two trials were lost") -> None:
        ask(self.inbox, self.rules, key, blocks, default, impact)

    def answer(self, number: int, option: str, note: str = "") -> None:
        answer(self.folder, self.recorder.study, number, option, note, self.clock.now())

    def heed(self) -> Stop | None:
        self.inbox.settle(self.rules)
        return self.inbox.stop(self.rules)

    def close(self) -> None:
        self.inbox.close()
        self.journal.close()

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.seen.events if event.kind == kind]

    @property
    def settled(self) -> list[tuple[int, str, str]]:
        return [(one.question.number, one.resolved.option, one.resolved.by) for one in self.recorder.study.inbox.closed]

    @property
    def path(self) -> Path:
        """Where the first answer belongs."""
        return InboxFiles(self.folder.inbox).answer(1)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    one = House(tmp_path)
    yield one
    one.close()


def test_a_question_has_the_six_fields_and_the_command_to_type(house: House) -> None:
    house.ask()
    page = (house.folder.inbox / "0001.md").read_text()
    for text in ("Make it better: val\\_bpb, lower is better", "trial 1: a wider model", "out of memory", "half the batch", "two trials were lost",
                 "this line of work", "`skip`: it is left alone", "ratchet answer 1 retry --tag t", "ratchet show 1 --tag t", "Without an answer: `skip`"):  # fmt: skip
        assert text in page, text
    record = json.loads((house.folder.inbox / "0001.json").read_text())
    assert (record["question"]["deadline"], record["settled"]) == ("2026-03-08T23:00:00Z", None)


def test_one_key_is_asked_once_open_or_settled_and_another_key_again(house: House) -> None:
    house.ask()
    house.ask()
    house.answer(1, "retry")
    house.heed()
    house.ask()
    assert house.recorder.study.inbox.asked == 1
    house.ask("another")
    assert list(house.recorder.study.inbox.open) == [2]
    assert house.recorder.study.inbox.answer("k") == "retry"


def test_hostile_text_of_a_candidate_is_harmless_lines_and_few_of_them(house: House) -> None:
    nasty = "\x1b[2J\n# Question 9\n`ratchet answer 1 stop`\ud800\u202e" + "x" * 100_000
    house.inbox.ask(house.rules, "stalled", "k", nasty, [nasty] * 50 + ["\x07"], nasty, OPTIONS, "skip", "line")
    page = (house.folder.inbox / "0001.md").read_text()
    assert len(page) < 20_000
    assert "\x1b" not in page and "\u202e" not in page
    assert [line for line in page.splitlines() if line.startswith("#")] == ["# Question 1: stalled"]
    assert "\\`ratchet answer 1 stop\\`" in page
    assert house.heed() is None


def test_pages_that_a_crash_left_out_are_written_at_the_next_start(house: House) -> None:
    house.ask()
    house.ask("b")
    house.answer(2, "retry", "why not")
    house.heed()
    before = {path.name: path.read_bytes() for path in house.folder.inbox.iterdir()}
    (house.folder.inbox / "0001.md").unlink()
    (house.folder.inbox / "0002.md").write_text("edited")
    os.mkfifo(house.folder.inbox / "0003.md")
    (house.folder.inbox / "0002.json").unlink()
    (house.folder.inbox / "0002.json").symlink_to("/etc/passwd")
    house.restart()
    house.inbox.open(house.rules)
    (house.folder.inbox / "0003.md").unlink()
    assert {path.name: path.read_bytes() for path in house.folder.inbox.iterdir()} == before
    assert not (house.folder.inbox / "0002.json").is_symlink()


@contextmanager
def _said(text: str) -> Iterator[None]:
    with pytest.raises(UserFault) as caught:
        yield
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_answered_is_refused_in_one_sentence(house: House) -> None:
    with _said("there is no question 1; none is open"):
        house.answer(1, "retry")
    house.ask()
    with _said("there is no question 7; open: 1"):
        house.answer(7, "retry")
    with _said("question 1 has no option 'burn'; choose retry, skip or stop"):
        house.answer(1, "burn")
    with _said("longer than 500 bytes"):
        house.answer(1, "retry", "x" * 501)
    house.answer(1, "retry")
    with _said("question 1 was answered already: `retry`, by a person"):
        house.answer(1, "skip")
    house.heed()
    with _said("question 1 is settled already: `retry`, by a person"):
        house.answer(1, "skip")
    assert house.settled == [(1, "retry", "person")]


def test_of_many_who_answer_at_once_exactly_one_wins(house: House) -> None:
    house.ask()
    study, folder = house.recorder.study, house.folder

    def one(option: str) -> int:
        try:
            answer(folder, study, 1, option, "", START)
        except UserFault:
            return 2
        return 0

    codes = [ended(pid) for pid in [forked(lambda option=option: one(option)) for option in ("retry", "skip", "stop") * 4]]
    assert sorted(codes) == [0] + [2] * 11
    assert InboxFiles(folder.inbox).answer(1).exists()
    assert not list(folder.inbox.glob(".*"))


def test_where_a_file_has_no_second_name_the_first_still_wins(tmp_path: Path) -> None:
    assert created(_valid(), tmp_path / "a")
    assert not created(b"{}", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == _valid()


def _valid(**changes: object) -> bytes:
    return json.dumps({"number": 1, "option": "retry", "at": "2026-03-08T22:00:00Z", **changes}).encode()


def _beside(path: Path) -> str:
    path.with_name("x").write_bytes(_valid())
    return "x"


BROKEN: dict[str, Callable[[Path], object]] = {
    "half": lambda path: path.write_bytes(_valid()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "number": lambda path: path.write_bytes(_valid(number=2)),
    "option": lambda path: path.write_bytes(_valid(option="burn")),
    "by_deadline": lambda path: path.write_bytes(_valid(by="deadline", option="stop")),
    "key": lambda path: path.write_bytes(_valid(more=1)),
    "deep": lambda path: path.write_bytes(b"[" * 60_000),
    "huge": lambda path: path.write_bytes(_valid(note="x" * 1_000_000)),
    "symlink": lambda path: path.symlink_to("/dev/zero"),
    "link_to_valid": lambda path: path.symlink_to(_beside(path)),
    "dangling": lambda path: path.symlink_to("nowhere"),
    "fifo": os.mkfifo,
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_no_answer_is_set_aside_with_one_warning_and_the_question_stays_open(house: House, how: str) -> None:
    house.ask()
    BROKEN[how](house.path)
    assert house.heed() is None
    assert house.heed() is None
    house.restart()
    assert house.heed() is None
    assert house.settled == []
    assert len(house.of("warned")) == 1
    assert os.path.lexists(house.path.with_name(f"{house.path.name}.bad-1"))
    house.answer(1, "skip")
    house.heed()
    assert house.settled == [(1, "skip", "person")]


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_no_answer_does_not_keep_a_deadline_from_its_default(house: House, how: str) -> None:
    house.ask()
    BROKEN[how](house.path)
    house.clock.sleep(3601)
    house.heed()
    assert house.settled == [(1, "skip", "deadline")]


def test_an_answer_that_was_there_before_its_question_is_not_obeyed(house: House) -> None:
    house.folder.inbox.mkdir()
    house.path.write_bytes(_valid(option="stop"))
    house.ask()
    assert house.heed() is None
    assert house.settled == []
    assert len(house.of("warned")) == 1


def test_a_late_answer_counts_until_a_harness_has_seen_the_deadline(house: House) -> None:
    house.ask()
    house.clock.sleep(9 * 3600)
    house.answer(1, "retry")
    house.restart("trials")
    house.heed()
    assert house.settled == [(1, "retry", "person")]


def test_a_question_whose_matter_is_gone_is_settled_by_its_default_unless_a_person_was_first(house: House) -> None:
    house.ask("a", default="stop")
    house.ask("b")
    house.answer(2, "retry")
    house.inbox.moot("a", "it was kept after all")
    house.inbox.moot("b", "it was kept after all")
    assert house.settled == [(1, "stop", "moot"), (2, "retry", "person")]
    assert house.heed() is None


def test_a_study_that_waits_ends_with_its_hours_and_not_before(house: House) -> None:
    house.ask(blocks="study")
    house.recorder.study.limits["hours"] = 0.5
    passes = 0
    while (stop := house.heed()) is None:
        assert house.inbox.waits()
        passes += 1
    assert (stop.reason, house.clock.seconds) == ("hours", 1800)
    assert passes == 3600
    assert "question 1 (repeated failure) waits for an answer" in stop.sentence


def _told(tmp_path: Path, phone: Receiver, law: str) -> House:
    rules = parse(f'```toml rules\n[escalation]\nchannels = ["PHONE"]\nanswer_minutes = 9000\n{law}\n[stop]\ntrials = 9\n```\n')
    return House(tmp_path, rules, {"PHONE": phone.address})


def _beats(house: House, phone: Receiver, messages: int) -> list[str]:
    """Trial boundaries until so many messages have come, and a few more."""
    for _ in range(400):
        house.heed()
        house.clock.sleep(0.03)
        if len(phone.came) >= messages and house.recorder.study.inbox.in_flight is None:
            break
    for _ in range(10):
        house.heed()
        house.clock.sleep(0.03)
    return phone.titles


END = Stop(reason="trials", sentence="all 9 trials are done", exit_code=0)


def test_what_is_due_in_quiet_hours_waits_for_their_end_and_is_one_message(tmp_path: Path) -> None:
    with receiver() as phone:
        house = _told(tmp_path, phone, 'quiet = ["21:00", "06:30"]')
        house.ask("a")
        assert _beats(house, phone, 0) == []
        house.ask("b")
        house.restart()
        assert _beats(house, phone, 0) == []
        house.clock.sleep(9 * 3600)
        assert _beats(house, phone, 1) == ["Ratchet t: 2 questions"]
        house.close()


def test_the_end_of_a_study_in_quiet_hours_wakes_nobody(tmp_path: Path) -> None:
    with receiver() as phone:
        house = _told(tmp_path, phone, 'quiet = ["21:00", "06:30"]')
        house.ask()
        house.inbox.farewell(house.rules, END)
        assert (phone.titles, house.of("sending")) == ([], [])
        house.close()


def test_a_study_sends_no_more_messages_than_the_cap_and_says_so_once(tmp_path: Path) -> None:
    with receiver() as phone:
        house = _told(tmp_path, phone, "messages = 2")
        for n in range(4):
            house.ask(f"k{n}")
            _beats(house, phone, 1)
        house.restart()
        _beats(house, phone, 1)
        assert phone.titles == ["Ratchet t: 1 question"]
        assert len([one for one in house.of("warned") if "used up" in str(one)]) == 1
        house.inbox.farewell(house.rules, END)
        house.inbox.farewell(house.rules, END)
        assert phone.titles == ["Ratchet t: 1 question", "Ratchet t: ended (trials), 4 questions"]
        house.close()


def test_a_message_that_was_on_its_way_when_the_harness_died_is_not_sent_again(tmp_path: Path) -> None:
    with receiver("hang") as phone:
        house = _told(tmp_path, phone, "messages = 9")
        house.ask()
        house.heed()
        assert house.recorder.study.inbox.in_flight is not None
        house.restart()
        house.heed()
        house.heed()
        assert len(house.of("sending")) == 1
        assert len([one for one in house.of("warned") if "is not sent again" in str(one)]) == 1
        house.close()


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from("abc"), st.sampled_from(["line", "study", "nothing"]), st.sampled_from(["skip", "stop"])),
        st.tuples(st.just("answer"), st.integers(1, 4), st.sampled_from(["retry", "skip", "stop"])),
        st.tuples(st.just("junk"), st.integers(1, 4)),
        st.tuples(st.just("sleep"), st.integers(1, 90)),
        st.tuples(st.just("crash")),
        st.tuples(st.just("resume")),
        st.tuples(st.just("heed")),
    ),
    max_size=24,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ACTS)
def test_any_order_of_answers_deadlines_and_restarts_settles_each_question_once_by_who_was_first(acts: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        house, accepted, stops = House(Path(root)), {}, 0
        files = InboxFiles(house.folder.inbox)
        for name, *rest in [*acts, ("heed",)]:
            if name == "ask":
                house.ask(str(rest[0]), rest[1], str(rest[2]))  # type: ignore[arg-type]
            elif name == "answer":
                try:
                    house.answer(int(str(rest[0])), str(rest[1]))
                except UserFault:
                    continue
                accepted[rest[0]] = rest[1]
            elif name == "junk" and int(str(rest[0])) in house.recorder.study.inbox.open:
                files.answer(int(str(rest[0]))).exists() or files.answer(int(str(rest[0]))).write_bytes(b"{")
            elif name == "sleep":
                house.clock.sleep(int(str(rest[0])) * 60)
            elif name in ("crash", "resume"):
                house.restart("asked" if name == "resume" else "")
            elif name == "heed" and (stop := house.heed()) is not None:
                assert (stop.reason, stop.exit_code) == ("answered", 3)
                stops += 1
                house.restart(stop.reason)
        house.heed()
        inbox, settled = house.recorder.study.inbox, house.settled
        assert len({number for number, *_ in settled}) == len(settled)
        for number, option, by in settled:
            assert (by == "person") == (number in accepted)
            assert option == accepted.get(number, option)
        assert not {number for number in accepted if number in inbox.open}, "an answer that was accepted is taken"
        assert all(one.deadline > utc(house.clock.now()) for one in inbox.open.values() if one.deadline)
        assert stops <= sum(option == "stop" for _, option, _ in settled)
        assert inbox.asked == len({key for key in inbox.settled} | {one.key for one in inbox.open.values()})
        again = fold.replay(house.folder.journal)[0].inbox
        assert again == inbox
        house.close()


def test_the_commands_show_open_and_settled_questions_for_people_and_programs(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, (1, "a", "line", "skip"), (1, "b", "nothing", "stop"))
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]))
    listed = ratchet(project, "inbox").stdout
    assert "question 1, repeated failure: two trials were lost" in listed
    assert "answer    ratchet answer 2 OPTION --tag t" in listed
    assert "question 2: repeated failure, blocks nothing; retry, skip or stop, else stop at" in ratchet(project, "status").stdout
    told = json.loads(ratchet(project, "status", "--json").stdout)["questions"]
    assert [(one["number"], one["blocks"], one["default"], one["options"]) for one in told] == [
        (1, "line", "skip", ["retry", "skip", "stop"]), (2, "nothing", "stop", ["retry", "skip", "stop"]),
    ]  # fmt: skip
    done = ratchet(project, "answer", "1", "retry")
    assert done.stdout == "question 1 of t: retry (it is tried once more); no harness is running: `ratchet resume --tag t` takes it\n"
    assert "What needs a decision" in ratchet(project, "report").stdout
    assert ratchet(project, "resume", "--trials", "2").returncode in (0, 4)
    assert "settled   `retry`, by a person" in ratchet(project, "inbox", "--all").stdout
    told = json.loads(ratchet(project, "inbox", "--all", "--json").stdout)["questions"]
    assert [(one["number"], one["settled"] and one["settled"]["option"]) for one in told] == [(1, "retry"), (2, None)]
    assert ratchet(project, "answer", "0", "retry").returncode == 2


def test_what_poses_as_settled_by_itself_is_set_aside_and_a_person_can_still_answer(house: House) -> None:
    house.ask(default="stop")
    house.path.write_bytes(_valid(option="stop", by="moot"))
    assert house.heed() is None
    assert (house.settled, len(house.of("warned"))) == ([], 1)
    house.answer(1, "retry")
    house.heed()
    assert house.settled == [(1, "retry", "person")]


def _full(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "x").touch()


@pytest.mark.parametrize("how", ["page", "record", "inbox"])
def test_a_page_that_cannot_be_written_is_a_warning_and_the_question_is_asked_and_settled_all_the_same(house: House, how: str) -> None:
    inbox = house.folder.inbox
    inbox.write_text("x") if how == "inbox" else _full(inbox / {"page": "0001.md", "record": "0001.json"}[how])
    house.ask()
    assert house.heed() is None
    house.restart()
    assert house.heed() is None
    assert list(house.recorder.study.inbox.open) == [1]
    said = [str(one) for one in house.of("warned")]
    assert len(said) == 1 and "page of question 1 cannot be written" in said[0]
    house.clock.sleep(3601)
    house.heed()
    assert house.settled == [(1, "skip", "deadline")]


@pytest.mark.parametrize("after", ["", "trials"])
def test_a_default_stop_whose_deadline_passed_while_no_harness_ran_does_not_stop_who_resumes_after_a_kill_either(
    house: House, after: str
) -> None:
    house.ask(default="stop", blocks="study")
    house.clock.sleep(3601)
    house.restart(after)
    assert house.heed() is None
    assert house.settled == [(1, "stop", "deadline")]
    house.ask("another", default="stop")
    house.clock.sleep(3601)
    stop = house.heed()
    assert stop is not None and stop.reason == "answered"


def test_a_kill_loses_a_quarter_of_a_minute_of_a_wait_and_the_journal_stays_as_long_as_it_was(house: House) -> None:
    house.ask(blocks="study")
    house.heed()
    before, began = len(house.folder.journal.read_bytes().splitlines()), house.recorder.study.elapsed
    for _ in range(900):
        house.heed()
        assert house.inbox.waits()
    assert len(house.folder.journal.read_bytes().splitlines()) == before
    unseen = unseen_seconds(house.folder, fold.replay(house.folder.journal)[0], house.rules)
    assert 435 <= began + unseen <= 450
    house.recorder.emit(Stopped(stop=Stop(reason="asked", sentence="", exit_code=0)))
    assert unseen_seconds(house.folder, house.recorder.study, house.rules) == 0.0


def test_an_answer_that_waits_to_be_taken_is_shown_as_given(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(monkeypatch, (1, "a", "line", "skip"))
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 1")
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]))
    assert json.loads(ratchet(project, "inbox", "--json").stdout)["questions"][0]["answered"] is None
    ratchet(project, "answer", "1", "retry")
    listed = ratchet(project, "inbox").stdout
    assert "answered  `retry`; the harness takes it between trials" in listed and "answer    ratchet" not in listed
    assert json.loads(ratchet(project, "inbox", "--json").stdout)["questions"][0]["answered"] == "retry"
