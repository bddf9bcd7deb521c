"""A server of the Anthropic Messages API on loopback, as scripted: real HTTP, JSON and event streams, for the client and for the Claude CLI.

    with stub([tool_use("submit", {"title": "x"}), error_status(429, headers={"retry-after": "3"}), text("done")]) as server:
        ask(server.url)
    assert server.asked[0]["model"] == "claude-haiku-4-5"

`answers` is a list, one for each POST of a message, or a function of the request's JSON. After the end of the list it answers 500 "the script is
over". An `Answer` is a value: change one with `dataclasses.replace`, `from_model`, `with_usage`. What goes wrong inside the stub itself, for
instance in a function of answers, is raised when the `with` ends.
"""

from __future__ import annotations

import itertools
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

Block = dict[str, Any]
USAGE = {"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 20}
PAGE = b"<html><body><h1>The proxy says hello</h1></body></html>"
PIECES = 40  # of a long text or tool input
_ids = itertools.count(1)


@dataclass(frozen=True)
class Answer:
    """What one request gets. The status and `body` when there is a `body`; else a message, whole or as a stream, as the request asks."""

    blocks: tuple[Block, ...] = ()
    stop_reason: str | None = "end_turn"
    stop_details: Block | None = None
    model: str | None = None  # the asked one
    usage: Mapping[str, Any] = field(default_factory=lambda: dict(USAGE))
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    body: bytes | None = None
    kind: str = "application/json"
    cut_after: int | None = None  # events of the stream; of a whole message half the bytes
    clean_cut: bool = True  # the transfer ends as if it were complete; else the connection breaks
    error: Block | None = None  # an error event after `cut_after` events
    silent: float = 0.0  # seconds of silence, then the connection ends
    silent_after: int | None = None  # events before the silence; None: not even a status
    pings: int = 0  # after the first event
    ping_every: float = 0.0


def text(words: str = "ok") -> Answer:
    """A message that says something."""
    return blocks(say(words))


def say(words: str) -> Block:
    """A text block."""
    return {"type": "text", "text": words}


def think(words: str, signature: str = "c2lnbmVk") -> Block:
    """A thinking block with its signature."""
    return {"type": "thinking", "thinking": words, "signature": signature}


def call(name: str, input: object, id: str | None = None) -> Block:
    """A tool call as a block. A str as `input` goes out as it is: JSON text that may be none."""
    return {"type": "tool_use", "id": id or f"toolu_stub{next(_ids)}", "name": name, "input": input}


def tool_use(name: str, input: Mapping[str, Any], id: str | None = None, words: str = "") -> Answer:
    """A message that calls one tool, perhaps after some words."""
    said = [say(words)] if words else []
    return blocks(*said, call(name, dict(input), id))


def blocks(*all_blocks: Block, stop_reason: str | None = None) -> Answer:
    """A message of any blocks (`say`, `think`, `call`); it stops for a tool when it calls one."""
    calls = any(block["type"] == "tool_use" for block in all_blocks)
    return Answer(tuple(all_blocks), stop_reason or ("tool_use" if calls else "end_turn"))


def malformed(name: str = "submit", input: object = '{"title": ') -> Answer:
    """A tool call whose input is no object: a list, or (a str) JSON text that may be none."""
    return blocks(call(name, input))


def refusal(category: str | None = "frontier_llm") -> Answer:
    """A refusal by policy."""
    details = {"type": "refusal", "category": category, "explanation": "a policy"}
    return Answer((), "refusal", details)


def max_tokens(name: str = "submit", input: str = '{"title": "wider", "text": "DEPTH = 6') -> Answer:
    """Cut by the token limit in the middle of a tool input."""
    return blocks(say("Let me"), call(name, input), stop_reason="max_tokens")


def odd_stop(reason: str | None = "solar_flare") -> Answer:
    """A whole message that ended for a reason nobody knows."""
    return replace(text(), stop_reason=reason)


def cut_stream(after: int = 4, clean: bool = True, answer: Answer | None = None) -> Answer:
    """The first events of a message, then the end. `clean`: no error of the transfer tells of it."""
    return replace(answer or tool_use("submit", {"title": "a title of some length"}), cut_after=after, clean_cut=clean)


def error_status(
    status: int,
    type: str = "api_error",
    message: str = "it failed",
    headers: Mapping[str, str] | None = None,
    error_code: str | None = None,
) -> Answer:
    """An error as the API tells it."""
    return Answer(status=status, body=json.dumps(_error(type, message, error_code)).encode(), headers=headers or {})


def error_event(type: str = "overloaded_error", message: str = "Overloaded", after: int = 2) -> Answer:
    """Status 200, then an error: in a stream after some events, else as the whole body."""
    return replace(text("half of"), cut_after=after, error=_error(type, message, None))


def html(status: int = 200) -> Answer:
    """A proxy's page."""
    return Answer(status=status, body=PAGE, kind="text/html")


def raw(body: object, status: int = 200) -> Answer:
    """Any JSON."""
    return Answer(status=status, body=json.dumps(body).encode())


def silent(seconds: float = 60.0, after: int | None = None) -> Answer:
    """Takes the request and says nothing, or nothing more after some events."""
    return replace(text("half of it"), silent=seconds, silent_after=after)


def pinging(answer: Answer, count: int, every: float) -> Answer:
    """The answer, with a pause of pings after its first event."""
    return replace(answer, pings=count, ping_every=every)


def from_model(answer: Answer, model: str) -> Answer:
    """The answer as given by another model than the asked one."""
    return replace(answer, model=model)


def with_usage(answer: Answer, **counts: Any) -> Answer:
    """The answer with other counts."""
    return replace(answer, usage={**answer.usage, **counts})


def _error(type: str, message: str, error_code: str | None) -> Block:
    details = {} if error_code is None else {"details": {"error_code": error_code}}
    return {"type": "error", "error": {"type": type, "message": message, **details}}


@dataclass(frozen=True)
class Asked:
    """One request as it came. Header names are lower case; `json` is None when there was no JSON object."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    json: dict[str, Any] | None


Answers = Sequence[Answer] | Callable[[dict[str, Any]], Answer]


class Stub(ThreadingHTTPServer):
    """The server; made by `stub`."""

    daemon_threads = False  # so that the end waits for the handlers
    request_queue_size = 64

    def __init__(self, answers: Answers, tokens: int | None, models: Mapping[str, str] | None, elsewhere: Answer | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.closing = threading.Event()
        self.tokens, self.models, self.elsewhere = tokens, models, elsewhere
        self.faults: list[BaseException] = []
        self._answers = answers if callable(answers) else iter(answers)
        self._guard = threading.RLock()  # a function of answers may look at the requests
        self._requests: list[Asked] = []
        self._open: set[socket.socket] = set()

    @property
    def url(self) -> str:
        """For `base_url` and `ANTHROPIC_BASE_URL`."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def requests(self) -> list[Asked]:
        """All requests so far, in order."""
        with self._guard:
            return list(self._requests)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The JSON of the requests for a message, in order."""
        return [one.json or {} for one in self.requests if one.method == "POST" and one.path == "/v1/messages"]

    def note(self, request: Asked) -> None:
        """Record a request."""
        with self._guard:
            self._requests.append(request)

    def next_answer(self, body: dict[str, Any]) -> Answer:
        """What the script has for this request; one at a time."""
        with self._guard:
            if callable(self._answers):
                return self._answers(body)
            return next(self._answers, error_status(500, "api_error", "the script is over"))

    def get_request(self) -> tuple[socket.socket, Any]:
        """A new connection; noted, so that the end can end it."""
        connection, address = super().get_request()
        with self._guard:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """The end of a connection."""
        with self._guard:
            self._open.discard(cast("socket.socket", request))
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that left is no fault; anything else is raised at the end."""
        fault = sys.exc_info()[1]
        if fault is not None and not isinstance(fault, (ConnectionError, TimeoutError)):
            self.faults.append(fault)

    def stop(self) -> None:
        """End everything, also handlers that are silent and connections that are idle."""
        self.closing.set()
        self.shutdown()
        with self._guard:
            for connection in self._open:
                _shut(connection)
        self.server_close()


Served = TypeVar("Served", bound=Stub)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


@contextmanager
def running(server: Served) -> Iterator[Served]:
    """The server in a thread of its own; what went wrong inside it is raised at the end."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="stub", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()
    if server.faults:
        raise server.faults[0]


@contextmanager
def stub(
    answers: Answers = (), tokens: int | None = 321, models: Mapping[str, str] | None = None, elsewhere: Answer | None = None
) -> Iterator[Stub]:
    """A running server. `tokens`: what count_tokens says, None: 404. `models`: name to lifecycle, None: any name is active; `elsewhere`: the answer to
    all that is no POST of a message."""
    with running(Stub(answers, tokens, models, elsewhere)) as server:
        yield server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Stub
    request: socket.socket

    def setup(self) -> None:
        super().setup()
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_GET(self) -> None:
        path = self._note(None).path
        name = unquote(path.removeprefix("/v1/models/"))
        if self.server.elsewhere is not None:
            return self._give(self.server.elsewhere, {})
        if not path.startswith("/v1/models/") or (self.server.models is not None and name not in self.server.models):
            return self._give(error_status(404, "not_found_error", f"model: {name}"), {})
        lifecycle = "active" if self.server.models is None else self.server.models[name]
        info = {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z", "lifecycle": lifecycle}
        return self._give(raw(info), {})

    def do_HEAD(self) -> None:
        self._note(None)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        request = self._note(data)
        body = request.json or {}
        if request.path == "/v1/messages":
            return self._give(self.server.next_answer(body), body)
        if self.server.elsewhere is not None:
            return self._give(self.server.elsewhere, {})
        if request.path == "/v1/messages/count_tokens" and self.server.tokens is not None:
            return self._give(raw({"input_tokens": self.server.tokens}), {})
        return self._give(error_status(404, "not_found_error", "Not Found"), {})

    def _note(self, data: bytes | None) -> Asked:
        try:
            body = json.loads(data or b"")
        except ValueError:
            body = None
        url = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Asked(self.command, url.path, url.query, headers, body if isinstance(body, dict) else None)
        self.server.note(request)
        return request

    def _give(self, answer: Answer, asked: dict[str, Any]) -> None:
        if answer.silent and (answer.silent_after is None or not asked.get("stream")):
            self.server.closing.wait(answer.silent)
            self.close_connection = True
        elif answer.body is None and asked.get("stream"):
            self._stream(answer, message(answer, asked))
        else:
            self._whole(answer, asked)

    def _head(self, answer: Answer, kind: str, **more: str) -> None:
        self.send_response(answer.status)
        named = {name.lower() for name in answer.headers}
        for name, value in {"content-type": kind, "request-id": f"req_stub{next(_ids)}", **more, **answer.headers}.items():
            if name in answer.headers or name not in named:
                self.send_header(name, value)
        self.end_headers()

    def _whole(self, answer: Answer, asked: dict[str, Any]) -> None:
        body = json.dumps(answer.error or message(answer, asked)).encode() if answer.body is None else answer.body
        self._head(answer, answer.kind, **{"content-length": str(len(body))})
        cut = answer.cut_after is not None and answer.error is None
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    def _stream(self, answer: Answer, whole: Block) -> None:
        self._head(answer, "text/event-stream; charset=utf-8", **{"transfer-encoding": "chunked", "cache-control": "no-cache"})
        all_events = list(events(whole))
        sent = all_events[: answer.cut_after]
        first = sent[:1] if answer.pings else sent[: answer.silent_after] if answer.silent else sent
        self._chunk(first)
        for _ in range(answer.pings):
            self.server.closing.wait(answer.ping_every)
            self._chunk([{"type": "ping"}])
        if answer.silent:
            self.server.closing.wait(answer.silent)
            self.close_connection = True
            return
        self._chunk([*sent[len(first) :], *([answer.error] if answer.error else [])])
        if answer.clean_cut:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True

    def _chunk(self, some: Sequence[Block]) -> None:
        data = b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in some)
        if data:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()


def message(answer: Answer, asked: Mapping[str, Any]) -> Block:
    """The message of an answer as JSON."""
    return {
        "id": f"msg_stub{next(_ids)}", "type": "message", "role": "assistant", "model": answer.model or asked.get("model") or "claude-stub",
        "content": list(answer.blocks), "stop_reason": answer.stop_reason, "stop_sequence": None, "stop_details": answer.stop_details,
        "usage": dict(answer.usage),
    }  # fmt: skip


def events(whole: Block) -> Iterator[Block]:
    """The events of a message, in the order of the API."""
    begun = {**whole["usage"], "output_tokens": 1} if whole["usage"] else {}
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None, "stop_details": None, "usage": begun}}
    yield {"type": "ping"}
    for at, block in enumerate(whole["content"]):
        empty, deltas = _deltas(block)
        yield {"type": "content_block_start", "index": at, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    ended = {name: whole[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
    yield {"type": "message_delta", "delta": ended, "usage": dict(whole["usage"])}
    yield {"type": "message_stop"}


def _deltas(block: Block) -> tuple[Block, list[Block]]:
    """A block as it begins, and what is added to it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    if block["type"] == "thinking":
        added = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        return {**block, "thinking": "", "signature": ""}, [*added, {"type": "signature_delta", "signature": block["signature"]}]
    if block["type"] == "tool_use":
        spelled = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
        added = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_pieces(spelled)]]
        return {**block, "input": {}}, added
    return block, []


def _pieces(words: str) -> list[str]:
    size = max(5, len(words) // PIECES)
    return [words[at : at + size] for at in range(0, len(words), size)]
