"""Money: checked before the spend against an upper estimate, settled after, and right after a kill."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.artifacts import journal
from harness.artifacts.call_events import Answered, Asked, Estimate
from harness.artifacts.calls import Calls
from harness.artifacts.events import Event
from harness.artifacts.trial_dir import StudyDir
from harness.control import money
from harness.control.limits import Limits
from harness.control.meter import NightMeter
from harness.control.recorder import Recorder
from harness.errors import ModelUnavailable
from harness.execution.clock import SystemClock
from harness.proposers import asking, prices
from harness.proposers.asking import Asking
from harness.proposers.fates import Fate, Reply
from harness.proposers.secret import Secrets
from harness.rules import Rules
from harness.sections import Model, StopAt
from tests import study_factory as make
from tests.messages_stub import Answer, silent, stub
from tests.models import Script, lower_and_submit, project_of
from tests.nights import crash_at, started
from tests.projects import folder_of, resume_study, run_study, study_of

LISTED = prices.load({"dear": (50.0, 250.0), "cheap": (1.0, 5.0)})
NOTHING = Secrets({})


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.0)


@dataclass
class Ledger:
    """A recorder without a journal: it applies events to a fold, as the real one does after its write."""

    events: list[Event] = field(default_factory=list)
    study: Any = field(default_factory=lambda: make.fold([make.Night().start()]))
    folder: Any = None

    def emit(self, event: Event) -> None:
        self.events.append(event)
        (entry,) = make.entries([event])
        self.study.apply(entry)


@dataclass
class Mouth:
    """A sender whose replies a test writes."""

    replies: list[Reply]
    counted: int | None = None
    counts: int = 0

    def send(self, body: Mapping[str, Any], wall_seconds: float, silence_seconds: float, interrupted: Callable[[], str]) -> Reply:
        return self.replies.pop(0)

    def count_tokens(self, body: Mapping[str, Any], wall_seconds: float, interrupted: Callable[[], str]) -> int | None:
        self.counts += 1
        return self.counted


def asking_of(ledger: Ledger, sender: Mouth, limits: Limits, folder: Path) -> Asking:
    rules = Rules(stop=StopAt(trials=1), model=Model(names=("cheap",), retries=2, patience_seconds=0.0))
    meter = NightMeter(cast("Recorder", ledger), lambda: limits, lambda: rules, SystemClock())
    return Asking(sender, meter, LISTED, rules.model, folder, 1, lambda: "", SystemClock(), NOTHING)


def body(model: str = "cheap", words: str = "x" * 400, most: int = 2000) -> dict[str, Any]:
    return {"model": model, "max_tokens": most, "messages": [{"role": "user", "content": words}]}


answers = st.one_of(
    st.builds(
        lambda share, out, model: Reply(
            Fate.ANSWERED, "answered", model=model, usage={"input_tokens": share, "output_tokens": out}, billed=True,
        ),
        st.integers(0, 3000), st.integers(0, 2000), st.sampled_from(["cheap", "dear", "unheard-of", None]),
    ),
    st.builds(lambda billed: Reply(Fate.RETRY, "broken_stream", usage={"input_tokens": 9}, billed=billed, wait_seconds=0.0), st.sampled_from([None, False])),
    st.just(Reply(Fate.CUT_OFF, "cut_off", model="cheap", usage={}, billed=True)),
    st.just(Reply(Fate.STOP, "auth", billed=False)),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(replies=st.lists(answers, min_size=1, max_size=40), dollars=st.floats(0.005, 0.5), asked=st.sampled_from(["cheap", "dear"]))
def test_no_order_of_replies_spends_more_than_the_limit_and_one_call(
    tmp_path_factory: pytest.TempPathFactory, replies: list[Reply], dollars: float, asked: str
) -> None:
    ledger, limits = Ledger(), Limits(dollars=dollars, trials=1)
    dearer = asked == "cheap" and any(reply.model == "dear" for reply in replies)
    with pytest.raises((ModelUnavailable, IndexError)):  # the money is gone, or the replies
        for _ in range(100):
            asking_of(ledger, Mouth(replies), limits, tmp_path_factory.mktemp("call")).ask(body(asked))
    calls = ledger.study.calls
    upper = max((event.dollars or 0.0 for event in ledger.events if isinstance(event, Asked)), default=0.0)
    costs = [event.cost_usd or 0.0 for event in ledger.events if isinstance(event, Answered)]
    above = calls.charged_usd + calls.held_usd - dollars
    assert above <= 1e-9 or (dearer and above <= max([upper, *costs])), (
        "only an answer of a dearer model than was asked can pass the limit, once"
    )
    before = Calls()
    for event in ledger.events:  # at every call there was room for the most it could cost
        if isinstance(event, Asked):
            assert before.charged_usd + before.held_usd + (event.dollars or 0.0) <= dollars + 1e-9
            before.asked(event)
        elif isinstance(event, Answered):
            before.answered(event)


def test_an_answer_without_a_bill_counts_by_its_upper_estimate_and_never_as_nothing(tmp_path: Path) -> None:
    ledger = Ledger()
    replies = [
        Reply(Fate.RETRY, "broken_stream", billed=None, wait_seconds=0.0),
        Reply(Fate.ANSWERED, "answered", model="unheard-of", usage={"input_tokens": 7, "output_tokens": 3}, billed=True),
        Reply(Fate.RETRY, "unreachable", billed=False, wait_seconds=0.0),
        Reply(Fate.ANSWERED, "answered", model="cheap", usage={"input_tokens": 1000, "output_tokens": 100}, billed=True),
    ]
    one = asking_of(ledger, Mouth(replies), Limits(dollars=1.0), tmp_path)
    one.ask(body())
    one.ask(body())
    calls = ledger.study.calls
    uppers = [event.dollars or 0.0 for event in ledger.events if isinstance(event, Asked)]
    assert calls.cost_usd == pytest.approx(1000 * 1e-6 + 100 * 5e-6)
    assert calls.charged_usd == pytest.approx(sum(uppers[:2]) + calls.cost_usd), "unknown counts, a call that cost nothing does not"
    assert (calls.made, calls.retries, calls.unknown) == (4, 2, 2)
    assert one.spent.cost_usd is None


def test_a_request_that_may_not_fit_is_counted_by_the_server_before_it_is_refused(tmp_path: Path) -> None:
    answer = Reply(Fate.ANSWERED, "answered", model="cheap", usage={"input_tokens": 400, "output_tokens": 10}, billed=True)
    words = "word " * 20_000
    rough = 100_000 * 2e-6
    for counted, fits in ((20_000, True), (None, False), (99_000, False)):
        sender = Mouth([answer], counted=counted)
        one = asking_of(Ledger(), sender, Limits(dollars=rough / 2), tmp_path)
        if fits:
            assert one.ask(body(words=words)).fate is Fate.ANSWERED
        else:
            with pytest.raises(ModelUnavailable, match=r"\[stop\] dollars"):
                one.ask(body(words=words))
            assert sender.replies, "nothing was sent"
        assert sender.counts == 1
    roomy = Mouth([answer], counted=1)
    asking_of(Ledger(), roomy, Limits(dollars=5.0), tmp_path).ask(body(words=words))
    assert roomy.counts == 0


@pytest.mark.parametrize(("limits", "estimate", "name"), [
    (Limits(calls=3), Estimate(proposal=1, proposer="anthropic"), "calls"),
    (Limits(retries=1, calls=9), Estimate(proposal=1, proposer="anthropic", retry=True), "retries"),
    (Limits(retries=1, calls=9), Estimate(proposal=1, proposer="anthropic", retry=False), None),
    (Limits(tokens=1000), Estimate(proposal=1, proposer="anthropic", tokens=701), "tokens"),
    (Limits(tokens=1000), Estimate(proposal=1, proposer="anthropic", tokens=700), None),
    (Limits(tokens=1000), Estimate(proposal=1, proposer="command"), "tokens"),
    (Limits(dollars=0.5), Estimate(proposal=1, proposer="anthropic", dollars=0.31), "dollars"),
    (Limits(dollars=0.5), Estimate(proposal=1, proposer="anthropic", dollars=0.29), None),
    (Limits(dollars=0.5), Estimate(proposal=1, proposer="anthropic", model="m"), "dollars"),
    (Limits(dollars=0.5, tokens=10_000), Estimate(proposal=1, proposer="anthropic", model="m", tokens=10), None),
    (Limits(), Estimate(proposal=1, proposer="anthropic"), "limit"),
    (Limits(), Estimate(proposal=1, proposer="command"), None),
])  # fmt: skip
def test_each_limit_is_asked_before_the_call(limits: Limits, estimate: Estimate, name: str | None) -> None:
    open_call = Asked(call=3, proposal=1, proposer="anthropic", tokens=100, dollars=0.1)
    calls = Calls(made=3, retries=1, tokens=200, charged_usd=0.1, cost_usd=0.05, open={3: open_call})
    refused = money.refusal(calls, limits, estimate)
    assert (refused[0] if refused else None) == name
    assert refused is None or "[stop]" in refused[1]


@pytest.mark.slow
def test_money_that_is_gone_ends_a_study_before_the_call_that_would_pass_the_limit(tmp_path: Path) -> None:
    with stub(Script([lower_and_submit] * 50)) as server:
        project = project_of(
            tmp_path / "p", server.url, '[proposer]\nmeanwhile = "stop"\n[model]\nmax_tokens = 1024\n[stop]\ntrials = 50\ndollars = 0.03'
        )
        stop = run_study(project)
        sent = len(server.asked)
    study = study_of(project)
    assert (stop.reason, stop.exit_code) == ("dollars", 0) and "[stop] dollars" in stop.sentence
    assert 5 < sent == study.calls.made < 20
    assert 0.0 < study.calls.charged_usd <= 0.03 and study.calls.open == {}


@pytest.mark.slow
def test_the_last_trials_go_on_without_a_model_when_its_calls_are_used_up(tmp_path: Path) -> None:
    with stub(Script([lower_and_submit] * 2)) as server:
        project = project_of(tmp_path / "p", server.url, "[stop]\ntrials = 4\ncalls = 2")
        assert run_study(project).reason == "trials"
    assert [row.proposer for row in study_of(project).rows[1:]] == ["anthropic"] * 2 + ["search"] * 2


ONE_CALL = (100 * 4 + 20 * 20) / 1e6  # what the stub's usage costs with the first model


@pytest.mark.slow
@pytest.mark.parametrize(("point", "lost"), [("reply_stored", 0), ("journal:answered", 0), ("proposal_stored", 0), ("journal:asked", 1)])
def test_after_a_kill_the_spend_is_right_to_the_cent(tmp_path: Path, point: str, lost: int) -> None:
    with stub(Script([lower_and_submit] * 9)) as server:
        project = project_of(tmp_path / "p", server.url, "[stop]\ntrials = 1")
        run_study(project)
        crash_at(project, point, trials=3)
        before = len(server.asked)
        resume_study(project, trials=3)
        sent = len(server.asked)
    study = study_of(project)
    assert study.trials == 3 and sent > before and study.calls.open == {}
    assert study.calls.made == sent + lost, "a call that was announced and not sent counts, too"
    assert study.calls.cost_usd == pytest.approx(ONE_CALL * sent, abs=1e-9)
    assert study.calls.unknown == lost
    kept = sorted(folder_of(project).agents.glob("*/*.request.json"))
    assert len(kept) == sent, "what was sent is kept, also of a conversation that was cut off"
    assert (study.calls.charged_usd > study.calls.cost_usd + 0.01) is bool(lost)


@pytest.mark.slow
def test_a_call_that_a_kill_cut_off_counts_by_its_upper_estimate(tmp_path: Path) -> None:
    def steps(body: dict[str, Any]) -> Answer:
        return script(body)

    script = Script([lower_and_submit, silent(60.0), lower_and_submit])
    with stub(steps) as server:
        project = project_of(tmp_path / "p", server.url, "[model]\nsilence_seconds = 60\n[stop]\ntrials = 2")
        harness = started(project, "run", "--tag", "t")
        end = time.monotonic() + 60
        while len(server.asked) < 2:
            assert time.monotonic() < end and harness.poll() is None
            time.sleep(0.02)
        harness.send_signal(signal.SIGKILL)
        harness.wait()
        assert resume_study(project).reason == "trials"
    lost = [
        entry.event
        for entry, _ in journal.read(folder_of(project).journal)
        if isinstance(entry.event, Answered) and entry.event.outcome == "lost"
    ]
    study = study_of(project)
    asked = [entry.event for entry, _ in journal.read(folder_of(project).journal) if isinstance(entry.event, Asked)]
    assert len(lost) == 1 and study.calls.unknown == 1
    assert study.calls.charged_usd == pytest.approx(2 * ONE_CALL + (asked[1].dollars or 0.0))


def test_a_stored_bill_is_believed_only_from_the_folder_of_calls(tmp_path: Path) -> None:
    folder = StudyDir(tmp_path, "t")
    assert folder.bill("../../../etc/001.request.json") is None
    assert folder.bill("agents/000001/001.request.json") == folder.agents.resolve() / "000001" / "001.reply.json"
    assert folder.bill("agents/000001/001.json") is None


def test_a_call_takes_no_longer_than_the_night_has(tmp_path: Path) -> None:
    ledger = Ledger()
    seen: list[float] = []

    class Timed(Mouth):
        def send(self, body: Mapping[str, Any], wall_seconds: float, silence_seconds: float, interrupted: Callable[[], str]) -> Reply:
            seen.append(wall_seconds)
            return super().send(body, wall_seconds, silence_seconds, interrupted)

    sender = Timed([Reply(Fate.WAIT, "rate_limited", billed=False, wait_seconds=500.0)])
    rules = Rules(stop=StopAt(trials=1), model=Model(names=("cheap",), patience_seconds=9999.0))
    limits = Limits(deadline=datetime.now(timezone.utc).replace(microsecond=0), hours=100 / 3600)
    meter = NightMeter(
        cast("Recorder", ledger), lambda: limits.model_copy(update={"deadline": None, "calls": 9}), lambda: rules, SystemClock()
    )
    one = Asking(sender, meter, LISTED, rules.model, tmp_path, 1, lambda: "", SystemClock(), NOTHING)
    assert one.ask(body()).fate is Fate.WAIT, "a wait beyond the night's end is not begun"
    assert seen and seen[0] <= 100.0


def test_an_interruption_between_two_tries_is_one_and_no_outage(tmp_path: Path) -> None:
    words = iter(["", "", "INT", "INT", "INT"])
    rules = Rules(stop=StopAt(trials=1), model=Model(names=("cheap",)))
    meter = NightMeter(cast("Recorder", Ledger()), lambda: Limits(calls=9), lambda: rules, SystemClock())
    sender = Mouth([Reply(Fate.WAIT, "rate_limited", billed=False, wait_seconds=5.0)] * 2)
    one = Asking(sender, meter, LISTED, rules.model, tmp_path, 1, lambda: next(words), SystemClock(), NOTHING)
    assert one.ask(body()).fate is Fate.INTERRUPTED and len(sender.replies) == 1


@pytest.mark.slow
def test_records_hold_what_was_asked_and_answered(tmp_path: Path) -> None:
    with stub(Script([lower_and_submit])) as server:
        project = project_of(tmp_path / "p", server.url, "[stop]\ntrials = 1")
        run_study(project)
        sent = server.asked[0]
    kept = json.loads((folder_of(project).agents / "000001" / "001.request.json").read_bytes())
    assert {**sent, "stream": None} == {**kept["body"], "stream": None}
    reply = json.loads((folder_of(project).agents / "000001" / "001.reply.json").read_bytes())
    assert reply["bill"]["cost_usd"] == pytest.approx(ONE_CALL) and reply["reply"]["content"]
