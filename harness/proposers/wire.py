"""One try of one request to a server of the Messages API, through the `anthropic` client, and what came of it (fates.py).

It never tries again, never sleeps, judges no proposal and writes nothing to disk. A try runs in a thread of its own, on a connection of its own, so
that it ends when the caller's time is over or the caller says so, also while the server is silent. A server at a given address gets the given
key and nothing else of this machine's environment.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.errors import UserFault
from harness.execution.clock import SystemClock
from harness.proposers.fates import Fate, Reply, of_error, of_message, usage_of
from harness.proposers.fence import flat
from harness.proposers.one_call import Call
from harness.proposers.secret import Secrets

if TYPE_CHECKING:
    import anthropic
    import httpx2

__all__ = ["Fate", "Reply", "Wire"]

DETAIL_CHARS, WORD_CHARS = 300, 200
CLOCK = SystemClock()
NO_KEY = "none"  # to a server that needs no key; the client insists on one
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
SENT = frozenset({
    "host", "accept", "accept-encoding", "connection", "content-length", "content-type", "transfer-encoding", "user-agent", "anthropic-version",
})  # fmt: skip
COUNTED = ("system", "tools", "tool_choice", "thinking", "output_config", "cache_control")
# what odd data does to the client
UNREADABLE = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, Warning)


class Wire:
    """A server of the Messages API. `base_url` None: where the client's own environment points; else exactly there, with `key` or none."""

    def __init__(self, base_url: str | None, key: str | None, stream: bool = True, now: Callable[[], datetime] = CLOCK.now) -> None:
        self._stream, self._now = stream, now
        self._authorization = f"Bearer {key or NO_KEY}" if base_url is not None else None
        given = {name: os.environ[name] for name in KEYS if name in os.environ}
        lines = os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").split("\n")
        self._secrets = Secrets(
            {**given, **{f"line{at}": line.partition(":")[2].strip() for at, line in enumerate(lines)}, "key": key or ""}
        )
        self._client = self._connected(base_url, key)

    def _connected(self, base_url: str | None, key: str | None) -> anthropic.Anthropic:
        import anthropic
        import httpx2

        # a connection for each call: an idle one that the server closed meanwhile would fail the next call
        limits = httpx2.Limits(max_keepalive_connections=0)
        hooks: dict[str, list[Callable[..., Any]]] = {"request": [self._going], "response": [_coming]}
        proxies = dict.fromkeys(("http://", "https://", "all://")) if _is_here(base_url) else {}
        http = anthropic.DefaultHttpxClient(limits=limits, event_hooks=hooks, follow_redirects=False, mounts=proxies)
        try:
            return anthropic.Anthropic(
                api_key=key or (NO_KEY if base_url is not None else None), base_url=base_url, max_retries=0, http_client=http
            )
        except (httpx2.InvalidURL, anthropic.AnthropicError) as fault:
            http.close()
            raise UserFault(f"the model's server cannot be asked: {self._clean(str(fault), DETAIL_CHARS)}") from fault

    def send(self, body: Mapping[str, Any], wall_seconds: float, silence_seconds: float, interrupted: Callable[[], str]) -> Reply:
        """Ask for one message. It takes at most the wall seconds, and ends when nothing arrives for the silent ones."""
        asked = {name: body[name] for name in ("model", "max_tokens", "messages")}
        rest = {name: value for name, value in body.items() if name not in asked and name != "stream"}
        request = {**asked, "extra_body": rest, "timeout": _limits(wall_seconds, silence_seconds)}
        return self._try(partial(self._streamed if self._stream else self._whole, request), wall_seconds, interrupted)

    def count_tokens(self, body: Mapping[str, Any], wall_seconds: float, interrupted: Callable[[], str] = str) -> int | None:
        """The tokens of a request's input; `None` when the server cannot say."""
        rest = {name: body[name] for name in COUNTED if name in body}

        def ask(_call: Call) -> dict[str, Any]:
            limits = _limits(wall_seconds, wall_seconds)
            counted = self._client.messages.count_tokens(model=body["model"], messages=body["messages"], extra_body=rest, timeout=limits)
            return {**_shell(None), "usage": _json(counted)}

        return self._try(ask, wall_seconds, interrupted).usage.get("input_tokens")

    def check(self, model: str, wall_seconds: float, interrupted: Callable[[], str] = str) -> Reply:
        """Whether the server has the model, at no cost."""

        def ask(_call: Call) -> dict[str, Any]:
            found = _json(self._client.models.retrieve(model, timeout=_limits(wall_seconds, wall_seconds)))
            return {**_shell(found.get("id")), "lifecycle": found.get("lifecycle")} if isinstance(found.get("id"), str) else {}

        call = Call(ask).follow(wall_seconds, interrupted)
        reply = replace(self._reply(call), stop_reason=None, billed=False)
        if (call.message or {}).get("lifecycle") == "retired":
            return replace(reply, fate=Fate.NEXT_MODEL, reason="no_model", detail="the model is retired")
        return replace(reply, fate=Fate.NEXT_MODEL, reason="no_model") if reply.reason == "no_endpoint" else reply

    def close(self) -> None:
        """Let go of the client."""
        self._client.close()

    def _whole(self, request: dict[str, Any], call: Call) -> dict[str, Any]:
        return _json(self._client.messages.create(**request, stream=False))

    def _streamed(self, request: dict[str, Any], call: Call) -> dict[str, Any]:
        """The message of a stream that came to its end; else an incomplete one. Tool input is parsed anew: the client takes half of it for a whole."""
        inputs: dict[int, str] = {}
        last = ""
        with self._client.messages.stream(**request) as stream:
            for event in stream:
                last = event.type
                if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                    inputs[event.index] = inputs.get(event.index, "") + event.delta.partial_json
                if event.type in ("message_start", "message_delta"):
                    call.partial = _json(stream.current_message_snapshot)
            if not call.partial:
                return {}
            message = _json(stream.current_message_snapshot)
        for at, text in inputs.items():
            if text and message["content"][at].get("type") == "tool_use":
                message["content"][at]["input"] = _parsed(text)
        return {**message, "cut": last != "message_stop"}

    def _try(self, ask: Callable[[Call], dict[str, Any]], wall_seconds: float, interrupted: Callable[[], str]) -> Reply:
        return self._reply(Call(ask).follow(wall_seconds, interrupted))

    def _reply(self, call: Call) -> Reply:
        reply, begun = self._judged(call), call.partial
        return replace(
            reply,
            detail=self._clean(reply.detail, DETAIL_CHARS),
            model=self._word(reply.model or begun.get("model")),
            stop_reason=self._word(reply.stop_reason),
            usage=reply.usage or usage_of(begun.get("usage")),
            request_id=self._word((call.headers or {}).get("request-id")),
        )

    def _judged(self, call: Call) -> Reply:
        """The caller's own limits first: what a call that was given up still said is no answer."""
        unknown = None if call.connected else False
        if call.late == "timeout":
            return Reply(Fate.RETRY, "timeout", "the call took too long", billed=unknown)
        if call.late:
            return Reply(Fate.INTERRUPTED, call.late, call.word, billed=unknown)
        if call.fault is not None:
            return self._failed(call, call.fault)
        message = call.message or {}
        if message.get("cut"):
            return Reply(Fate.RETRY, "broken_stream", "the stream ended before the message did")
        if message.get("type") == "error":
            return of_error(200, message, call.headers or {}, self._now())
        return of_message(message)

    def _failed(self, call: Call, fault: BaseException) -> Reply:
        import anthropic
        import httpx2

        cause = fault.__cause__ if isinstance(fault, anthropic.APIConnectionError) and fault.__cause__ else fault
        if isinstance(fault, anthropic.APIStatusError):
            return of_error(fault.status_code, fault.body, fault.response.headers, self._now())
        if isinstance(fault, anthropic.CredentialsError) or (isinstance(fault, TypeError) and "authentication method" in str(fault)):
            return Reply(Fate.STOP, "auth", f"no key; set {KEYS[0]}, or the variable of [model] key: {fault}", billed=False)
        if isinstance(cause, httpx2.UnsupportedProtocol):
            return Reply(Fate.STOP, "no_endpoint", str(cause), billed=False)
        if isinstance(cause, (httpx2.TransportError, OSError)):
            return _lost(call, cause)
        if isinstance(fault, ValueError) and "tool parameter JSON" in str(fault):
            return Reply(Fate.STRANGE, "malformed", "the input of a tool is no JSON")
        if call.headers is not None and isinstance(fault, (*UNREADABLE, anthropic.AnthropicError, httpx2.HTTPError)):
            return Reply(Fate.RETRY, "no_message", f"the answer cannot be read: {type(fault).__name__}: {fault}")
        raise fault

    def _going(self, request: httpx2.Request) -> None:
        """Before a request: let its call see the connection; to a given address goes nothing that only the environment names."""
        call = threading.current_thread()
        if isinstance(call, Call):
            request.extensions = {**request.extensions, "trace": call.trace}
        if self._authorization is not None:
            for name in [name for name in request.headers if name not in SENT and not name.startswith("x-stainless-")]:
                del request.headers[name]
            request.headers["authorization"] = self._authorization

    def _word(self, word: object) -> str | None:
        return self._clean(word, WORD_CHARS) if isinstance(word, str) else None

    def _clean(self, text: str, limit: int) -> str:
        """One line without keys; once more after it was cleaned, when what was apart may stand together."""
        return flat(self._secrets.hide_text(flat(self._secrets.hide_text(text), 10 * limit)), limit)


def _is_here(base_url: str | None) -> bool:
    """A server of this machine is asked without a proxy."""
    try:
        return urlsplit(base_url or "").hostname in ("localhost", "127.0.0.1", "::1")
    except ValueError:
        return False


def _coming(response: httpx2.Response) -> None:
    call = threading.current_thread()
    if isinstance(call, Call):
        call.headers = dict(response.headers)


def _lost(call: Call, cause: Exception) -> Reply:
    """No connection, or none any more. What a request cost that was sent and never answered is unknown."""
    import httpx2

    if not call.connected or isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        return Reply(Fate.RETRY, "unreachable", f"{type(cause).__name__}: {cause}", billed=False)
    if isinstance(cause, httpx2.TimeoutException):
        return Reply(Fate.RETRY, "timeout", "the server was silent for too long")
    return Reply(Fate.RETRY, "reset" if call.headers is None else "broken_stream", f"{type(cause).__name__}: {cause}")


def _limits(wall_seconds: float, silence_seconds: float) -> httpx2.Timeout:
    import httpx2

    return httpx2.Timeout(min(wall_seconds, silence_seconds))


def _shell(model: object) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn", "model": model}


def _json(answer: object) -> dict[str, Any]:
    """What the client made of an answer, as it came; {} when it is no object (a page, a list, nothing)."""
    import pydantic

    return (
        answer.model_dump(mode="json", exclude_unset=True, by_alias=True, warnings=False) if isinstance(answer, pydantic.BaseModel) else {}
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
