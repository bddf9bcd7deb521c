"""When a message is due, and what it says: quiet hours, the cap, what is told once. Values in, values out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from harness.artifacts.events import Entry, Resumed
from harness.artifacts.inbox import Closed, Inbox
from harness.artifacts.oversight_events import Escalated, Resolved, Sending, Sent
from harness.artifacts.study import Study
from harness.control import notices, telling
from harness.errors import RulesInvalid
from harness.oversight import Escalation
from harness.questions import Option, Question
from harness.rules import parse
from harness.trial import Stop
from harness.views.inbox import channels_sentence

ZONE = timezone(timedelta(hours=2))
DONE = Stop(reason="trials", sentence="all 9 trials are done", exit_code=0)


def at(hours: int, minutes: int = 0) -> datetime:
    return datetime(2026, 3, 8, hours, minutes, tzinfo=ZONE)


def question(number: int = 1, **changes: object) -> Question:
    facts: dict[str, object] = {
        "number": number, "kind": "stalled", "key": f"k{number}", "goal": "better", "candidate": "trial 3: wider", "evidence": ("a",), "impact": "time is lost",
        "options": (Option(id="go", effect="on"), Option(id="stop", effect="the end")), "default": "go", "blocks": "line", "deadline": "2026-03-08T22:30:00Z",
    }  # fmt: skip
    return Question.model_validate({**facts, **changes})


def asked(*questions: Question) -> Inbox:
    inbox = Inbox()
    for one in questions:
        inbox.escalated(Escalated(question=one))
    return inbox


@pytest.mark.parametrize(
    ("quiet", "moment", "expected"),
    [
        (("22:30", "06:30"), at(22, 29), False), (("22:30", "06:30"), at(22, 30), True), (("22:30", "06:30"), at(0), True), (("22:30", "06:30"), at(6, 29), True),
        (("22:30", "06:30"), at(6, 30), False), (("12:00", "14:00"), at(13), True), (("12:00", "14:00"), at(14), False), (("12:00", "14:00"), at(11, 59), False),
        (("08:00", "08:00"), at(8), False), (None, at(3), False),
    ],
)  # fmt: skip
def test_quiet_hours_are_local_begin_with_their_first_minute_and_may_pass_midnight(
    quiet: tuple[str, str] | None, moment: datetime, expected: bool
) -> None:
    assert telling.quiet(Escalation(quiet=quiet), moment) is expected


@pytest.mark.parametrize(("cap", "questions", "end"), [(0, 0, 0), (1, 1, 0), (2, 1, 1), (3, 2, 1), (10, 9, 1)])
def test_the_cap_holds_and_the_last_of_several_is_kept_for_the_end(cap: int, questions: int, end: int) -> None:
    law, inbox = Escalation(messages=cap), Inbox()

    def send(at_the_end: bool) -> int:
        count = 0
        while telling.room(inbox, law, at_the_end):
            inbox.sending(Sending(message=inbox.messages + 1, about=(), channels=()))
            count += 1
        return count

    assert (send(False), send(True)) == (questions, end)


def test_what_is_due_at_one_moment_is_one_message_and_is_told_once() -> None:
    inbox = asked(question(1), question(2))
    inbox.warned("rules", "line 3: unknown key; the last valid rules stay in force")
    news = telling.news(inbox)
    assert news is not None
    assert (len(news.keys), len(news.questions), bool(news.complaint)) == (3, 2, True)
    inbox.sending(Sending(message=1, about=news.keys, channels=("A",)))
    assert telling.news(inbox) is None
    inbox.warned("rules", "line 3: unknown key; the last valid rules stay in force")
    assert telling.news(inbox) is None, "a restart meets the same broken file"
    inbox.escalated(Escalated(question=question(3)))
    later = telling.news(inbox)
    assert later is not None
    assert later.keys == ("question:3",)


def test_a_question_settled_before_it_was_told_is_not_told() -> None:
    inbox = asked(question(1))
    inbox.resolved(Resolved(question=1, option="go", by="deadline"))
    assert telling.news(inbox) is None


def test_the_end_is_told_once_with_what_waits_and_not_to_who_ended_it_herself() -> None:
    inbox = asked(question(1))
    news = telling.end(inbox, DONE, rows=4)
    assert news is not None
    assert news.keys == ("end:4:trials", "question:1")
    inbox.sending(Sending(message=1, about=news.keys, channels=("A",)))
    assert telling.end(inbox, DONE, rows=4) is None
    assert telling.end(inbox, DONE, rows=5) is not None
    for reason in ("sigint", "asked"):
        assert telling.end(inbox, Stop(reason=reason, sentence="by hand", exit_code=130), rows=9) is None


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine in a zone that has summer time."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_a_deadline_beyond_the_change_to_summer_time_is_told_by_the_time_that_clocks_show_then() -> None:
    late = question(deadline="2026-03-29T06:00:00Z")
    news = telling.News(keys=("question:1",), questions=(late,))
    assert "`go` at Sun 08:00" in notices.body(news, "t")
    assert "`go` at Sun 08:00" in notices.page(late, None, "t", "runs/t")


def test_no_message_has_a_folder_of_this_machine() -> None:
    stop = Stop(reason="infrastructure", sentence="/home/ann/night/data.bin: changed; see /home/ann/night/runs/t", exit_code=75)
    news = telling.News(
        keys=("x",), questions=(question(impact="/home/ann/x.py broke, 3/4 of it"),), complaint="/home/ann/program.md:3: no", stop=stop
    )
    text = notices.body(news, "t")
    assert "/home" not in text and "night/" not in text
    for part in ("data.bin: changed; see t", "x.py broke, 3/4 of it", "program.md:3: no"):
        assert part in text


@pytest.mark.usefixtures("berlin")
def test_a_message_says_how_it_ended_what_it_is_worth_and_what_to_type() -> None:
    closed = Closed(question=question(2), resolved=Resolved(question=2, option="go", by="deadline"))
    news = telling.News(keys=("end:4:trials",), questions=(question(1),), stop=DONE)
    text = notices.body(news, "t", "Best val_bpb 0.99 (trial 3)", [closed])
    for part in ("It ended: all 9 trials are done (exit code 0).", "Best val_bpb 0.99", "Question 1, stalled: time is lost", "About: trial 3: wider",
                 "Answer go or stop; without one: `go` at Sun 23:30", "ratchet answer 1 OPTION --tag t", "Settled by their deadline, as nobody answered: 2 (stalled: go)"):  # fmt: skip
        assert part in text, part
    assert notices.title(news, "t") == "Ratchet t: ended (trials), 1 question"


def test_a_hostile_title_mentions_nobody_has_no_link_and_no_length() -> None:
    nasty = "@everyone \x1b[31m https://evil.example/" + "z" * 9000 + "\nRatchet: answer 1 stop"
    inbox = asked(*(question(n, candidate=nasty, impact=nasty) for n in range(1, 30)))
    news = telling.news(inbox)
    assert news is not None
    text = notices.body(news, "t")
    assert len(text.encode()) <= notices.LONGEST_BODY
    assert not any(part in text for part in ("@", "://", "\x1b"))
    assert "24 more: ratchet inbox --tag t" in text


def test_a_channel_that_failed_is_remembered_until_it_delivers_or_a_person_resumes() -> None:
    inbox = Inbox()
    inbox.sent(Sent(message=1, outcomes={"A": "refused", "B": ""}))
    assert inbox.failing == {"A": "refused"}
    inbox.sent(Sent(message=2, outcomes={"A": ""}))
    assert inbox.failing == {}
    inbox.sent(Sent(message=3, outcomes={"B": "refused"}))
    study = Study(inbox=inbox, stop=DONE)
    study.apply(Entry(seq=1, prev="", at="2026-03-08T22:30:00Z", elapsed=1.0, event=Resumed(pid=1, limits={})))
    assert study.inbox.failing == {}


def test_an_address_in_the_place_of_a_name_is_refused_without_repeating_it() -> None:
    with pytest.raises(RulesInvalid) as caught:
        parse('```toml rules\n[stop]\ntrials = 1\n[escalation]\nchannels = ["RATCHET_PHONE", "ntfy://s3cret"]\n```\n')
    assert "[escalation] channels.1: must name an environment variable; put the address or key into one" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert caught.value.line == 5


def test_the_plan_shows_names_and_never_what_they_hold() -> None:
    law = Escalation(channels=("A", "B"), quiet=("22:30", "06:30"))
    told = channels_sentence(law, {"A": "ntfy://s3cret"})
    assert told == ("in `ratchet inbox`; 10 messages at most, none between 22:30 and 06:30, to A (set), B (not set: nothing goes there)")
    assert "no message is sent anywhere" in channels_sentence(Escalation(), {})
