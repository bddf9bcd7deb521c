"""One try over the wire: what becomes of each thing a server can do, how long it may take, and what of this machine it gets to see."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserFault
from harness.proposers.fates import of_error, of_message, wait_seconds
from harness.proposers.wire import Fate, Reply, Wire
from tests import messages_stub as stub_of
from tests.messages_stub import Answer, stub

KEY = "sk-ant-secret-of-the-person"
NOW = datetime(2026, 11, 30, 2, 0, tzinfo=timezone.utc)
BODY = {
    "model": "claude-haiku-5-5",
    "max_tokens": 64_000,  # more than the client takes without a stream, were it not told how long it may take
    "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "messages": [{"role": "user", "content": "hello"}],
    "tools": [{"name": "submit", "input_schema": {"type": "object"}}],
}
COUNTS = {"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 20}
LIMIT, SLACK = 10.0, 8.0
NEXT: list[Answer] = []
SHARED: dict[str, Any] = {}


def bare(patch: pytest.MonkeyPatch, home: Path) -> None:
    """No key, profile, address or proxy of the machine that runs the tests."""
    for name in list(os.environ):
        if name.startswith("ANTHROPIC_") or name.lower() in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            patch.delenv(name)
    patch.setenv("HOME", str(home))
    patch.setenv("XDG_CONFIG_HOME", str(home / ".config"))


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare(monkeypatch, tmp_path)


@pytest.fixture(scope="module", autouse=True)
def _one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The server and the wires of `one`: to make them for each answer would be most of the work."""
    with pytest.MonkeyPatch.context() as patch:
        bare(patch, tmp_path_factory.mktemp("home"))
        with stub(lambda _: NEXT.pop()) as server, wired(server.url) as streamed, wired(server.url, stream=False) as whole:
            SHARED.update(server=server, streamed=streamed, whole=whole)
            yield
            SHARED.clear()


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def stream(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@contextmanager
def wired(base_url: str | None, key: str | None = KEY, stream: bool = True) -> Iterator[Wire]:
    with closing(Wire(base_url, key, stream, lambda: NOW)) as wire:
        yield wire


def send(wire: Wire, wall: float = LIMIT, silence: float = LIMIT, interrupted: Callable[[], str] = lambda: "", **more: Any) -> Reply:
    return wire.send({**BODY, **more}, wall, silence, interrupted)


def one(answer: Answer, stream: bool = True, **limits: Any) -> Reply:
    """The reply to one answer of a server; it was asked exactly once, whatever came."""
    before = len(SHARED["server"].requests)
    NEXT[:] = [answer]
    reply = send(SHARED["streamed" if stream else "whole"], **limits)
    assert (len(SHARED["server"].requests) - before, NEXT) == (1, [])
    assert json.loads(json.dumps(asdict(reply), allow_nan=False))["fate"] == reply.fate.value
    assert KEY not in repr(reply)
    return reply


def no_wire_left() -> bool:
    """The thread of a call that was given up ends by itself."""
    end = time.monotonic() + SLACK
    while any(thread.name == "wire" for thread in threading.enumerate()):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


# what an answer is


def test_a_whole_message_is_an_answer(stream: bool) -> None:
    reply = one(stub_of.text("all is well"), stream)
    assert (reply.fate, reply.reason, reply.stop_reason, reply.model) == (Fate.ANSWERED, "answered", "end_turn", "claude-haiku-5-5")
    assert reply.content == ({"type": "text", "text": "all is well"},)
    assert (reply.usage, reply.billed) == (COUNTS, True)
    assert reply.request_id is not None
    assert reply.request_id.startswith("req_stub")


def test_every_block_comes_back_as_it_must_be_sent_again(stream: bool) -> None:
    edit = {"path": "train.py", "old_str": "DEPTH = 4\n\té" * 50, "list": [1, 2.5, None, {"deep": True}]}
    sent = (
        stub_of.think("hm, " * 100, "c2ln" * 50), {"type": "redacted_thinking", "data": "ZGF0YQ=="}, stub_of.say("I widen it."),
        stub_of.call("edit", edit, "toolu_1"), stub_of.call("look", {}, "toolu_2"), {"type": "of_tomorrow", "field": {"x": 1}},
    )  # fmt: skip
    reply = one(stub_of.blocks(*sent), stream)
    assert reply.fate is Fate.ANSWERED
    assert reply.content == sent


def test_a_message_without_a_word_is_an_answer(stream: bool) -> None:
    assert one(stub_of.blocks(), stream).fate is Fate.ANSWERED


def test_a_stop_sequence_is_an_answer(stream: bool) -> None:
    assert one(replace(stub_of.text(), stop_reason="stop_sequence"), stream).fate is Fate.ANSWERED


def test_the_reply_names_the_model_that_answered(stream: bool) -> None:
    assert one(stub_of.from_model(stub_of.text(), "claude-opus-5-5"), stream).model == "claude-opus-5-5"


def test_the_counts_are_flat_and_those_not_given_are_missing(stream: bool) -> None:
    created = {"ephemeral_1h_input_tokens": 4000, "ephemeral_5m_input_tokens": 7}
    rich = stub_of.with_usage(
        stub_of.text(),
        cache_creation_input_tokens=4007,
        cache_creation=created,
        output_tokens_details={"thinking_tokens": 5},
        speed="standard",
    )
    more = {"cache_creation_input_tokens": 4007, "cache_creation_1h": 4000, "cache_creation_5m": 7, "thinking_tokens": 5}
    assert one(rich, stream).usage == {**COUNTS, **more}
    assert one(replace(stub_of.text(), usage={"input_tokens": 3, "output_tokens": 4}), stream).usage == {
        "input_tokens": 3,
        "output_tokens": 4,
    }


def test_an_answer_without_counts_has_an_unknown_cost(stream: bool) -> None:
    reply = one(replace(stub_of.text(), usage={}), stream)
    assert (reply.fate, reply.usage, reply.billed) == (Fate.ANSWERED, {}, None)


def test_counts_that_are_none_are_missing() -> None:
    message = {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"}
    reply = of_message({**message, "usage": {"input_tokens": -1, "output_tokens": True, "cache_read_input_tokens": "9"}})
    assert (reply.usage, reply.billed) == ({}, None)
    assert of_message({**message, "usage": "much"}).usage == {}


# what no answer is


def test_a_refusal_says_its_category_and_gives_no_content(stream: bool) -> None:
    reply = one(stub_of.refusal("frontier_llm"), stream)
    assert (reply.fate, reply.reason, reply.detail, reply.content) == (Fate.REFUSED, "refusal", "frontier_llm", ())
    assert (reply.usage, reply.billed) == (COUNTS, True)
    assert one(stub_of.refusal(None), stream).detail == "no category"


def test_a_message_cut_by_the_token_limit_brings_no_tool_call(stream: bool) -> None:
    reply = one(stub_of.max_tokens(), stream)
    assert (reply.fate, reply.reason, reply.detail, reply.stop_reason) == (Fate.CUT_OFF, "cut_off", "max_tokens", "max_tokens")
    assert reply.content == ({"type": "text", "text": "Let me"},)
    assert reply.billed is True


def test_a_full_context_window_is_a_cut(stream: bool) -> None:
    assert one(replace(stub_of.text(), stop_reason="model_context_window_exceeded"), stream).fate is Fate.CUT_OFF


@pytest.mark.parametrize("reason", ["solar_flare", "pause_turn", None])
def test_an_end_that_nobody_knows_is_strange(reason: str | None, stream: bool) -> None:
    reply = one(stub_of.odd_stop(reason), stream)
    assert (reply.fate, reply.reason, reply.content, reply.billed) == (Fate.STRANGE, "unknown_stop", (), True)


@pytest.mark.parametrize("given", [[1, 2], '{"a": ', '{"a": "half', "{broken}", '{"a": NaN}', '{"a": "\\ud800"}', "null", "7"])
def test_tool_input_that_is_no_json_object_is_strange(given: object, stream: bool) -> None:
    reply = one(stub_of.malformed(input=given), stream)
    assert (reply.fate, reply.reason, reply.content) == (Fate.STRANGE, "malformed", ())


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": "", "name": "a", "input": {}},
        {"type": "tool_use", "id": "t", "name": "", "input": {}},
        {"type": "tool_use", "id": 7, "name": "a", "input": {}},
        {"type": "tool_use", "id": "t", "input": {}},
        {"type": "tool_use", "id": "t", "name": "a"},
    ],
)
def test_a_tool_call_without_id_name_or_input_is_strange(block: dict[str, Any]) -> None:
    reply = of_message({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [block]})
    assert (reply.fate, reply.reason, reply.content) == (Fate.STRANGE, "malformed", ())


def test_a_tool_call_without_a_name_is_strange_on_the_wire_too(stream: bool) -> None:
    assert one(stub_of.blocks(stub_of.call("", {})), stream).reason == "malformed"


def test_two_calls_with_one_id_are_strange(stream: bool) -> None:
    assert one(stub_of.blocks(stub_of.call("a", {}, "t"), stub_of.call("b", {}, "t")), stream).reason == "malformed"


def test_a_stop_for_a_tool_without_a_tool_is_strange(stream: bool) -> None:
    assert one(stub_of.blocks(stub_of.say("now"), stop_reason="tool_use"), stream).reason == "malformed"


@pytest.mark.parametrize("content", [["words"], [{"text": "no type"}], [{"type": "text"}], [{"type": "text", "text": 3}]])
def test_a_block_that_is_none_is_strange(content: list[object]) -> None:
    reply = of_message({"type": "message", "role": "assistant", "stop_reason": "end_turn", "content": content})
    assert (reply.fate, reply.reason) == (Fate.STRANGE, "malformed")


EVENTS = len(list(stub_of.events(stub_of.message(stub_of.cut_stream(), {}))))


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "broken"])
@pytest.mark.parametrize("after", [1, 4, 8, EVENTS - 2, EVENTS - 1])
def test_a_cut_stream_is_never_an_answer(after: int, clean: bool) -> None:
    reply = one(stub_of.cut_stream(after, clean))
    assert (reply.fate, reply.reason, reply.content, reply.billed) == (Fate.RETRY, "broken_stream", (), None)
    assert reply.usage["input_tokens"] == 100
    assert reply.model == "claude-haiku-5-5"


def test_the_whole_stream_of_the_test_above_is_an_answer() -> None:
    assert one(stub_of.cut_stream(EVENTS)).fate is Fate.ANSWERED


def test_a_stream_that_ends_before_it_began_is_no_message() -> None:
    reply = one(stub_of.cut_stream(0))
    assert (reply.fate, reply.reason, reply.usage, reply.billed) == (Fate.RETRY, "no_message", {}, None)


def test_a_body_that_breaks_off_is_a_broken_stream() -> None:
    reply = one(stub_of.cut_stream(), stream=False)
    assert (reply.fate, reply.reason, reply.billed) == (Fate.RETRY, "broken_stream", None)


@pytest.mark.parametrize(
    "answer",
    [stub_of.html(200), stub_of.raw({"ok": True}), stub_of.raw([1, 2]), stub_of.raw("words"), stub_of.raw(None), replace(stub_of.raw({}), body=b'{"type"')],
    ids=["page", "object", "list", "string", "null", "half"],
)  # fmt: skip
def test_a_200_that_is_no_message_is_tried_again(answer: Answer, stream: bool) -> None:
    reply = one(answer, stream)
    assert (reply.fate, reply.reason, reply.billed) == (Fate.RETRY, "no_message", None)


@pytest.mark.parametrize(
    ("kind", "fate", "reason"),
    [
        ("overloaded_error", Fate.RETRY, "overloaded"), ("api_error", Fate.RETRY, "server_error"), ("of_tomorrow", Fate.RETRY, "server_error"),
        ("rate_limit_error", Fate.RETRY, "rate_limited"), ("authentication_error", Fate.STOP, "auth"), ("billing_error", Fate.STOP, "billing"),
        ("permission_error", Fate.STOP, "forbidden"), ("invalid_request_error", Fate.BAD_REQUEST, "bad_request"),
        ("not_found_error", Fate.NEXT_MODEL, "no_model"), ("timeout_error", Fate.RETRY, "timeout"),
    ],
)  # fmt: skip
def test_an_error_inside_a_200_counts_as_the_error_it_names(kind: str, fate: Fate, reason: str, stream: bool) -> None:
    reply = one(stub_of.error_event(kind, "something"), stream)
    assert (reply.fate, reply.reason, reply.billed) == (fate, reason, None)
    assert reply.usage.get("input_tokens") == (100 if stream else None)


# errors


@pytest.mark.parametrize(
    ("status", "kind", "message", "fate", "reason", "billed"),
    [
        (400, "invalid_request_error", "tools.0: bad", Fate.BAD_REQUEST, "bad_request", False),
        (400, "invalid_request_error", "prompt is too long: 1200000 tokens", Fate.BAD_REQUEST, "too_large", False),
        (400, "invalid_request_error", "Your credit balance is too low", Fate.STOP, "billing", False),
        (400, "invalid_request_error", "You have reached your specified API usage limits.", Fate.STOP, "billing", False),
        (400, "invalid_request_error", "The model claude-x was retired", Fate.NEXT_MODEL, "no_model", False),
        (401, "authentication_error", "invalid key", Fate.STOP, "auth", False),
        (402, "billing_error", "pay", Fate.STOP, "billing", False),
        (403, "permission_error", "no", Fate.STOP, "forbidden", False),
        (404, "not_found_error", "model: claude-x", Fate.NEXT_MODEL, "no_model", False),
        (404, "NotFoundError", "The model `x` does not exist.", Fate.NEXT_MODEL, "no_model", False),
        (404, "", "Not Found", Fate.STOP, "no_endpoint", False),
        (405, "", "Method Not Allowed", Fate.STOP, "no_endpoint", False),
        (408, "timeout_error", "late", Fate.RETRY, "timeout", False),
        (409, "conflict", "again", Fate.RETRY, "conflict", False),
        (410, "", "gone", Fate.NEXT_MODEL, "no_model", False),
        (412, "", "no", Fate.BAD_REQUEST, "bad_request", False),
        (413, "request_too_large", "big", Fate.BAD_REQUEST, "too_large", False),
        (422, "invalid_request_error", "odd", Fate.BAD_REQUEST, "bad_request", False),
        (429, "rate_limit_error", "slow down", Fate.RETRY, "rate_limited", False),
        (499, "", "closed", Fate.RETRY, "closed", False),
        (500, "api_error", "oops", Fate.RETRY, "server_error", False),
        (501, "api_error", "oops", Fate.RETRY, "server_error", False),
        (503, "api_error", "oops", Fate.RETRY, "server_error", False),
        (504, "timeout_error", "oops", Fate.RETRY, "timeout", None),
        (529, "overloaded_error", "Overloaded", Fate.RETRY, "overloaded", False),
    ],
)
def test_each_error_status_has_its_fate(
    status: int, kind: str, message: str, fate: Fate, reason: str, billed: bool | None, stream: bool
) -> None:
    reply = one(stub_of.error_status(status, kind, message), stream)
    assert (reply.fate, reply.reason, reply.billed, reply.wait_seconds) == (fate, reason, billed, None)
    assert reply.detail == " ".join(word for word in (str(status), kind, message) if word)
    assert reply.request_id is not None


@pytest.mark.parametrize(
    ("status", "code", "fate", "reason"),
    [
        (429, "enforced_spend_limit_reached", Fate.STOP, "spend_limit"), (429, "contract_spend_limit_reached", Fate.STOP, "spend_limit"),
        (402, "linked_organization_spend_limit_reached", Fate.STOP, "spend_limit"), (429, "ramp_limit_exceeded", Fate.WAIT, "rate_limited"),
        (402, "linked_organization_billing_unavailable", Fate.STOP, "billing"), (400, "organization_on_hold", Fate.STOP, "billing"),
    ],
)  # fmt: skip
def test_a_code_tells_a_limit_of_money_from_a_limit_of_rate(status: int, code: str, fate: Fate, reason: str, stream: bool) -> None:
    reply = one(stub_of.error_status(status, "rate_limit_error", "limit", {"retry-after": "9"}, code), stream)
    assert (reply.fate, reply.reason, reply.billed, reply.wait_seconds) == (fate, reason, False, 9.0)
    assert code in reply.detail


@pytest.mark.parametrize(("status", "fate"), [(502, Fate.RETRY), (403, Fate.STOP), (404, Fate.STOP)])
def test_a_page_with_an_error_status_counts_by_its_status(status: int, fate: Fate, stream: bool) -> None:
    reply = one(stub_of.html(status), stream)
    assert reply.fate is fate
    assert reply.detail.startswith(str(status))


@pytest.mark.parametrize(
    ("body", "fate", "detail"),
    [
        ({"error": "model 'x' not found"}, Fate.NEXT_MODEL, "404 model 'x' not found"),
        ({"object": "error", "type": "NotFoundError", "message": "The model `x` is unknown"}, Fate.NEXT_MODEL, "404 NotFoundError The model `x` is unknown"),
        ({"detail": "Not Found"}, Fate.STOP, "404"),
        (["odd"], Fate.STOP, "404"),
        ({"error": {"type": 3, "message": None, "details": "none"}}, Fate.STOP, "404"),
    ],
)  # fmt: skip
def test_the_errors_of_other_servers_are_read_too(body: object, fate: Fate, detail: str, stream: bool) -> None:
    reply = one(stub_of.raw(body, 404), stream)
    assert (reply.fate, reply.detail) == (fate, detail)


def test_a_redirect_is_not_followed(stream: bool) -> None:
    with stub([stub_of.text()]) as elsewhere:
        reply = one(replace(stub_of.raw({}), status=307, headers={"location": elsewhere.url + "/v1/messages"}), stream)
        assert elsewhere.requests == []
    assert (reply.fate, reply.reason) == (Fate.RETRY, "no_message")


def test_a_refused_connection_costs_nothing(stream: bool) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with wired(f"http://127.0.0.1:{free.getsockname()[1]}", stream=stream) as wire:
            reply = send(wire)
            assert wire.check("m", LIMIT).reason == "unreachable"
            assert wire.count_tokens(BODY, LIMIT) is None
    assert (reply.fate, reply.reason, reply.billed, reply.usage) == (Fate.RETRY, "unreachable", False, {})


def test_a_connection_that_ends_without_a_status_has_an_unknown_cost(stream: bool) -> None:
    reply = one(stub_of.silent(0.05), stream)
    assert (reply.fate, reply.reason, reply.billed) == (Fate.RETRY, "reset", None)


def test_an_address_without_a_scheme_cannot_be_asked() -> None:
    with wired("127.0.0.1:11434") as wire:
        assert (send(wire).fate, send(wire).reason) == (Fate.STOP, "no_endpoint")


def test_an_address_that_is_none_is_the_users_fault() -> None:
    with pytest.raises(UserFault, match="cannot be asked"):
        Wire("http://a:b:c/", KEY)


def test_our_own_fault_is_no_fate() -> None:
    with stub() as server, wired(server.url) as wire:
        with pytest.raises(TypeError):
            send(wire, metadata=object())
        with pytest.raises(KeyError):
            wire.send({"model": "m"}, LIMIT, LIMIT, lambda: "")
        assert server.requests == []


def test_no_key_anywhere_stops(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with stub() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        with wired(None, None, stream) as wire:
            replies = [send(wire), wire.check("m", LIMIT)]
            assert wire.count_tokens(BODY, LIMIT) is None
        assert server.requests == []
    assert [(reply.fate, reply.reason, reply.billed) for reply in replies] == [(Fate.STOP, "auth", False)] * 2


# how long the server asks to wait


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"retry-after": "12"}, "", 12.0),
        ({"Retry-After": "1.5"}, "", 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, "", 0.25),
        ({"retry-after": "-3"}, "", 0.0),
        ({"retry-after": "86400"}, "", 86400.0),
        ({"retry-after": "Mon, 30 Nov 2026 02:01:30 GMT"}, "", 90.0),
        ({"retry-after": "Mon, 30 Nov 2026 01:00:00 GMT"}, "", 0.0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": "inf"}, "", None),
        ({}, "", None),
        ({"anthropic-ratelimit-requests-reset": "2026-11-30T02:00:20Z"}, "", 20.0),
        ({"anthropic-ratelimit-requests-reset": "2026-11-30T02:00:20Z", "anthropic-ratelimit-tokens-reset": "2026-11-30T02:00:50Z"}, "", 50.0),
        (
            {"anthropic-ratelimit-requests-reset": "2026-11-30T02:00:20Z", "anthropic-ratelimit-requests-remaining": "0",
             "anthropic-ratelimit-tokens-reset": "2026-11-30T02:00:50Z", "anthropic-ratelimit-tokens-remaining": "900"}, "", 20.0,
        ),
        ({"anthropic-ratelimit-unified-reset": str(int((NOW + timedelta(hours=3)).timestamp()))}, "", 10800.0),
        ({"anthropic-ratelimit-tokens-reset": "later"}, "", None),
        ({"retry-after": "7"}, "try again in 20 seconds", 7.0),
        ({}, "Your limit resets at 2026-11-30T03:00:00Z.", 3600.0),
        ({}, "Your limit resets at 2026-11-30T03:00:00.250+01:00", 0.0),
        ({}, "You will regain access on 2026-12-01 at 00:00 UTC.", 79200.0),
        ({}, "model of 2026-11-30T03:00:00Z", None),
        ({}, "resets at 2026-13-40T03:00:00Z", None),
        ({}, "Please try again in 20 seconds", 20.0),
        ({}, "try again in 20s", 20.0),
        ({}, "Please retry after 500 ms", 0.5),
        ({}, "retry in 250 milliseconds", 0.25),
        ({}, "wait 2 minutes", 120.0),
        ({}, "the limit resets in 1.5 hours", 5400.0),
        ({}, "at most 50 requests in 60 seconds", None),
    ],
)  # fmt: skip
def test_the_wait_is_the_servers_word(headers: dict[str, str], message: str, seconds: float | None) -> None:
    assert wait_seconds(headers, message, NOW) == seconds


@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_stated_reset_makes_it_a_wait(status: int, stream: bool) -> None:
    reply = one(stub_of.error_status(status, "rate_limit_error", "slow", {"retry-after": "30"}), stream)
    assert (reply.fate, reply.wait_seconds, reply.billed) == (Fate.WAIT, 30.0, False)


@pytest.mark.parametrize("said", ["999999999999999", "1e308", "604801", "-5"])
def test_an_absurd_time_is_a_week_at_most_and_never_negative(said: str) -> None:
    wait = wait_seconds({"retry-after": said}, "", NOW)
    assert wait is None or 0.0 <= wait <= 7 * 86400
    for words in ("try again in 999999999 days", "resets at 9999-12-31T23:59:59-14:00"):
        assert wait_seconds({}, words, NOW) == 7 * 86400


def test_a_reset_in_words_is_counted_from_now(stream: bool) -> None:
    reply = one(stub_of.error_status(429, "rate_limit_error", "limit reached, resets at 2026-11-30T03:00:00Z"), stream)
    assert (reply.fate, reply.wait_seconds) == (Fate.WAIT, 3600.0)


def test_rate_headers_say_nothing_of_an_overload() -> None:
    headers = {"anthropic-ratelimit-tokens-reset": "2026-11-30T02:00:50Z"}
    body = {"error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert of_error(529, body, headers, NOW).fate is Fate.RETRY
    assert of_error(429, body, headers, NOW).fate is Fate.WAIT


# limits


MOMENTS = pytest.mark.parametrize(("stream", "after"), [(False, None), (True, None), (True, 0), (True, 4)])


def timed(action: Callable[[], Reply]) -> Reply:
    began = time.monotonic()
    reply = action()
    assert time.monotonic() - began < SLACK
    assert no_wire_left()
    return reply


@MOMENTS
def test_the_wall_ends_a_call(stream: bool, after: int | None) -> None:
    reply = timed(lambda: one(stub_of.silent(60, after), stream, wall=0.2))
    assert (reply.fate, reply.reason, reply.billed) == (Fate.RETRY, "timeout", None)
    assert reply.usage.get("input_tokens") == (100 if stream and after else None)


@MOMENTS
def test_silence_ends_a_call(stream: bool, after: int | None) -> None:
    reply = timed(lambda: one(stub_of.silent(60, after), stream, wall=60, silence=0.2))
    assert (reply.fate, reply.reason, reply.billed) == (Fate.RETRY, "timeout", None)


@MOMENTS
def test_the_caller_ends_a_call_while_the_server_is_silent(stream: bool, after: int | None) -> None:
    asked = iter(["", ""])
    reply = timed(lambda: one(stub_of.silent(60, after), stream, wall=60, silence=60, interrupted=lambda: next(asked, "the night is over")))
    assert (reply.fate, reply.reason, reply.detail, reply.billed) == (Fate.INTERRUPTED, "interrupted", "the night is over", None)


def test_a_fault_in_the_callers_own_question_ends_the_call_too() -> None:
    def broken() -> str:
        raise KeyboardInterrupt

    with stub([stub_of.silent(60)]) as server, wired(server.url) as wire:
        with pytest.raises(KeyboardInterrupt):
            send(wire, 60, 60, broken)
        assert no_wire_left()


def test_a_ping_is_a_sign_of_life() -> None:
    reply = one(stub_of.pinging(stub_of.text("late"), 6, 0.25), silence=1.0)
    assert reply.fate is Fate.ANSWERED


def test_pings_do_not_stretch_the_wall() -> None:
    reply = timed(lambda: one(stub_of.pinging(stub_of.text("late"), 200, 0.1), wall=0.4, silence=5.0))
    assert (reply.fate, reply.reason) == (Fate.RETRY, "timeout")


def test_a_wire_that_gave_up_a_call_makes_the_next_one() -> None:
    with stub([stub_of.silent(60), stub_of.text("second")]) as server, wired(server.url) as wire:
        assert send(wire, wall=0.2).reason == "timeout"
        assert send(wire).content == ({"type": "text", "text": "second"},)


def test_an_answer_that_came_while_the_caller_was_asked_is_kept() -> None:
    def slow() -> str:
        assert no_wire_left()
        return "the night is over"

    reply = one(stub_of.pinging(stub_of.text("paid for"), 1, 0.3), interrupted=slow)
    assert (reply.fate, reply.content) == (Fate.ANSWERED, ({"type": "text", "text": "paid for"},))


def test_a_word_that_looks_like_a_timeout_is_still_the_callers() -> None:
    reply = timed(lambda: one(stub_of.silent(60), interrupted=lambda: "timeout"))
    assert (reply.fate, reply.detail) == (Fate.INTERRUPTED, "timeout")


# what the server gets


def test_the_body_goes_out_whole(stream: bool) -> None:
    more: dict[str, Any] = {
        "tool_choice": {"type": "auto"},
        "output_config": {"effort": "low"},
        "field_of_tomorrow": [1],
        "stream": "nonsense",
    }
    with stub([stub_of.text()]) as server, wired(server.url, stream=stream) as wire:
        assert send(wire, **more).fate is Fate.ANSWERED
        assert server.asked == [{**BODY, **more, "stream": stream}]
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert server.requests[0].headers["x-stainless-retry-count"] == "0"


def test_tokens_are_counted_where_the_server_can() -> None:
    with stub(tokens=777) as server, wired(server.url) as wire:
        assert wire.count_tokens({**BODY, "metadata": {"user_id": "u"}}, LIMIT) == 777
        (asked,) = server.requests
        assert (asked.path, asked.json) == (
            "/v1/messages/count_tokens",
            {name: value for name, value in BODY.items() if name != "max_tokens"},
        )


@pytest.mark.parametrize(
    "elsewhere", [None, stub_of.html(200), stub_of.html(502), stub_of.raw({"input_tokens": "many"}), stub_of.raw([3]), stub_of.silent(60)]
)
def test_tokens_are_unknown_where_the_server_cannot(elsewhere: Answer | None) -> None:
    with stub(tokens=None, elsewhere=elsewhere) as server, wired(server.url) as wire:
        assert wire.count_tokens(BODY, 0.3 if elsewhere and elsewhere.silent else LIMIT) is None
        assert len(server.requests) == 1


def test_a_model_is_checked() -> None:
    with (
        stub(models={"claude-haiku-5-5": "active", "old": "deprecated", "gone": "retired", "local/one": "active"}) as server,
        wired(server.url) as wire,
    ):
        replies = {name: wire.check(name, LIMIT) for name in ("claude-haiku-5-5", "old", "local/one", "gone", "unheard-of")}
        assert server.requests[0].path == "/v1/models/claude-haiku-5-5"
    assert [reply.fate.value for reply in replies.values()] == ["answered", "answered", "answered", "next_model", "next_model"]
    assert replies["claude-haiku-5-5"].model == "claude-haiku-5-5"
    assert {reply.billed for reply in replies.values()} == {False}


@pytest.mark.parametrize(
    ("elsewhere", "fate"),
    [
        (stub_of.error_status(401, "authentication_error"), Fate.STOP), (stub_of.error_status(403, "permission_error"), Fate.STOP),
        (stub_of.error_status(529, "overloaded_error"), Fate.RETRY), (stub_of.html(200), Fate.RETRY), (stub_of.raw({"object": "model"}), Fate.RETRY),
        (stub_of.html(404), Fate.NEXT_MODEL), (stub_of.raw({"id": "m", "object": "model"}), Fate.ANSWERED), (stub_of.silent(60), Fate.RETRY),
    ],
)  # fmt: skip
def test_a_check_has_the_fates_of_a_request(elsewhere: Answer, fate: Fate) -> None:
    with stub(elsewhere=elsewhere) as server, wired(server.url) as wire:
        reply = wire.check("m", 0.3 if elsewhere.silent else LIMIT)
        assert len(server.requests) == 1
    assert (reply.fate, reply.billed) == (fate, False)


@pytest.mark.parametrize("key", [None, KEY])
def test_nothing_of_the_environment_reaches_a_given_address(key: str | None, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with stub([stub_of.text()]) as server, stub(elsewhere=stub_of.text()) as wrong:
        for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_IDENTITY_TOKEN", "ANTHROPIC_WEBHOOK_SIGNING_KEY"):
            monkeypatch.setenv(name, "leaked-" + name)
        lines = ["X-Gateway: leaked-gateway", "Authorization: Bearer leaked-bearer", "x-api-key: leaked-x", "anthropic-beta: leaked-beta"]
        monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "\n".join([*lines, "anthropic-workspace-id: leaked-workspace"]))
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wrong.url)
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, wrong.url)
        with wired(server.url, key, stream) as wire:
            assert send(wire).fate is Fate.ANSWERED
            assert wire.count_tokens(BODY, LIMIT) == 321
            assert wire.check("m", LIMIT).fate is Fate.ANSWERED
        assert wrong.requests == []
        assert len(server.requests) == 3
        assert {asked.headers["authorization"] for asked in server.requests} == {f"Bearer {key or 'none'}"}
        assert "leaked" not in repr(server.requests)


def test_no_profile_of_the_home_folder_reaches_a_given_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "config"
    (folder / "configs").mkdir(parents=True)
    (folder / "configs" / "default.json").write_text("this is no profile")
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(folder))
    monkeypatch.setenv("ANTHROPIC_PROFILE", "default")
    with stub([stub_of.text()]) as server, wired(server.url, None) as wire:
        assert send(wire).fate is Fate.ANSWERED
    with pytest.raises(UserFault, match="cannot be asked"):  # the same profile is read where the environment is asked for
        Wire(None, None)


def test_without_an_address_the_environment_is_the_clients_own(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with stub([stub_of.text()] * 2) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-environment")
        monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Gateway: wanted")
        for key in (None, KEY):
            with wired(None, key, stream) as wire:
                assert send(wire).fate is Fate.ANSWERED
        assert [asked.headers["authorization"] for asked in server.requests] == ["Bearer sk-of-the-environment", f"Bearer {KEY}"]
        assert {asked.headers["x-gateway"] for asked in server.requests} == {"wanted"}


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", ""])
def test_a_server_that_repeats_the_key_does_not_put_it_into_the_reply(name: str, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-very-secret-0123456789"
    if name:
        monkeypatch.setenv(name, f"X-Gateway: {secret}" if name.endswith("HEADERS") else secret)
    said = f"bad key {secret}, and in parts {secret[:9]}\x1b[0m{secret[9:]}"
    answers = [
        stub_of.error_status(401, f"kind {secret}", said, {"request-id": f"req {secret}"}), stub_of.error_event("api_error", said),
        stub_of.odd_stop(secret), stub_of.from_model(stub_of.text(), f"model-{secret}"), stub_of.refusal(secret), stub_of.html(502),
    ]  # fmt: skip
    with stub(answers) as server, wired(server.url, None if name else secret, stream) as wire:
        replies = [send(wire) for _ in answers]
    assert secret not in repr(replies)
    assert "[key removed]" in replies[0].detail


def test_a_detail_is_one_clean_line_of_300_characters_at_most(stream: bool) -> None:
    reply = one(stub_of.error_status(500, "api_error", "line\n\x1b[31mred\u202e\t" + "x" * 5000), stream)
    assert reply.detail.startswith("500 api_error line red x")
    assert len(reply.detail) <= 300


# the stub itself


def test_the_stub_ends_while_its_handlers_are_silent() -> None:
    began, before = time.monotonic(), set(threading.enumerate())
    with (
        stub([stub_of.silent(60)]) as server,
        socket.create_connection(("127.0.0.1", server.server_port)) as idle,
        wired(server.url) as wire,
    ):
        assert send(wire, wall=0.2).reason == "timeout"
        assert idle.fileno() > 0
    assert time.monotonic() - began < SLACK
    assert not [thread.name for thread in set(threading.enumerate()) - before]


def test_the_stub_answers_by_a_function_and_says_when_its_script_is_over() -> None:
    with stub(lambda body: stub_of.text(body["messages"][0]["content"])) as server, wired(server.url) as wire:
        assert send(wire).content == ({"type": "text", "text": "hello"},)
    with stub([]) as server, wired(server.url) as wire:
        assert "the script is over" in send(wire).detail


def test_a_fault_in_the_stubs_script_is_not_swallowed() -> None:
    def broken(body: dict[str, Any]) -> Answer:
        raise LookupError("no such trial")

    with pytest.raises(LookupError, match="no such trial"), stub(broken) as server, wired(server.url) as wire:
        assert send(wire).reason == "reset"


def test_the_stub_takes_the_address_that_the_claude_cli_uses() -> None:
    with stub([stub_of.text("hi")]) as server, closing(HTTPConnection("127.0.0.1", server.server_port)) as connection:
        connection.request("POST", "/v1/messages?beta=true", json.dumps({**BODY, "stream": True}))
        lines = connection.getresponse().read().decode().split("\n")
        connection.request("HEAD", "/")
        assert connection.getresponse().read() == b""
        assert [line.removeprefix("event: ") for line in lines if line.startswith("event: ")] == [
            "message_start", "ping", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
        ]  # fmt: skip
        assert [(asked.method, asked.path, asked.query) for asked in server.requests] == [
            ("POST", "/v1/messages", "beta=true"),
            ("HEAD", "/", ""),
        ]
        assert server.asked[0]["messages"] == BODY["messages"]


def test_many_requests_at_once_are_all_recorded() -> None:
    with stub(lambda _: stub_of.tool_use("submit", {"text": "x" * 20_000})) as server, wired(server.url) as wire:
        replies: list[Reply] = []
        threads = [threading.Thread(target=lambda: replies.append(send(wire))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [reply.fate for reply in replies] == [Fate.ANSWERED] * 6
        assert {reply.content[0]["input"]["text"] for reply in replies} == {"x" * 20_000}
        assert len(server.asked) == 6
