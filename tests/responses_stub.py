"""A server of the OpenAI Responses API on loopback, as scripted: real HTTP and event streams, for the Codex CLI. Same manners as messages_stub.py.

    with stub([custom_call("apply_patch", patch), say("done")]) as server:
        run(["codex", "exec", *provider(server.url), "-"])
    assert server.asked[0]["stream"] is True

`answers` is a list, one for each POST to /v1/responses, or a function of the request's JSON. After the end of the list it answers 500 "the script is
over". An answer is messages_stub's `Answer`; its `blocks` are the output items, its `error` the `response` of a `response.failed` or
`response.incomplete`, `silent` and `silent_after` work as there. Only streams are served: codex asks for nothing else.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests import messages_stub
from tests.messages_stub import Answer, Answers, Block

PATH = "/v1/responses"
USAGE = {
    "input_tokens": 100, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 120,
}  # fmt: skip
PIECES = 4  # of a text
_ids = itertools.count(1)


def provider(url: str, key: str = "STUB_KEY", retries: int = 0) -> list[str]:
    """The words that make codex ask this server, with the key of that environment variable, each request and each stream tried again so often."""
    law: dict[str, str | int] = {
        "name": "stub", "base_url": f"{url}/v1", "wire_api": "responses", "env_key": key, "request_max_retries": retries, "stream_max_retries": retries,
    }  # fmt: skip
    settings = {"model_provider": "stub", **{f"model_providers.stub.{name}": value for name, value in law.items()}}
    return [word for name, value in settings.items() for word in ("-c", f"{name}={json.dumps(value)}")]


def items(*output: Block) -> Answer:
    """A response of any output items."""
    return Answer(tuple(output), usage=USAGE)


def message(words: str) -> Block:
    """What the assistant says."""
    return {
        "type": "message",
        "id": f"msg_stub{next(_ids)}",
        "role": "assistant",
        "content": [{"type": "output_text", "text": words, "annotations": []}],
    }


def say(words: str = "ok") -> Answer:
    """A response that says something and ends the turn."""
    return items(message(words))


def function_call(name: str, arguments: Mapping[str, Any]) -> Answer:
    """A response that calls a function tool."""
    number = next(_ids)
    return items(
        {
            "type": "function_call",
            "id": f"fc_stub{number}",
            "call_id": f"call_stub{number}",
            "name": name,
            "arguments": json.dumps(arguments),
        }
    )


def custom_call(name: str, text: str) -> Answer:
    """A response that calls a custom tool, whose input is free text."""
    number = next(_ids)
    return items(
        {
            "type": "custom_tool_call",
            "id": f"ctc_stub{number}",
            "call_id": f"call_stub{number}",
            "name": name,
            "input": text,
            "status": "completed",
        }
    )


def error_status(status: int, code: str, message: str = "it failed", headers: Mapping[str, str] | None = None) -> Answer:
    """An error as the API tells it."""
    body = {"error": {"message": message, "type": code, "code": code, "param": None}}
    return Answer(status=status, body=json.dumps(body).encode(), headers=headers or {})


def failed(code: str, message: str) -> Answer:
    """Status 200, then a response that failed."""
    return Answer(error={"status": "failed", "error": {"code": code, "message": message}})


def incomplete(reason: str, *output: Block) -> Answer:
    """A response that ended early: `max_output_tokens` or `content_filter`."""
    return replace(items(*output), error={"status": "incomplete", "incomplete_details": {"reason": reason}})


def silent(seconds: float = 60.0, after: int | None = None) -> Answer:
    """Takes the request and says nothing, or nothing more after some events."""
    return replace(say("half of it"), silent=seconds, silent_after=after)


class Stub(messages_stub.Stub):
    """The server; made by `stub`."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers, None, None, None)
        self.RequestHandlerClass = _Handler

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The JSON of the requests for a response, in order."""
        return [one.json or {} for one in self.requests if one.method == "POST" and one.path == PATH]


@contextmanager
def stub(answers: Answers = ()) -> Iterator[Stub]:
    """A running server; what went wrong inside it is raised at the end."""
    with messages_stub.running(Stub(answers)) as server:
        yield server


class _Handler(messages_stub._Handler):
    def do_POST(self) -> None:
        body = self._note(self.rfile.read(int(self.headers.get("content-length") or 0))).json or {}
        if self.path.split("?")[0] == PATH:
            self._give(self.server.next_answer(body), body)
        else:
            self._give(error_status(404, "not_found", "Not Found"), {})

    def _stream(self, answer: Answer, whole: Block) -> None:
        self._head(answer, "text/event-stream; charset=utf-8", **{"transfer-encoding": "chunked", "cache-control": "no-cache"})
        self._chunk(list(events(answer, str(whole["model"])))[: answer.silent_after])
        if answer.silent:
            self.server.closing.wait(answer.silent)
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


def events(answer: Answer, model: str) -> Iterator[Block]:
    """The events of a response, in the order of the API."""
    base: Block = {"id": f"resp_stub{next(_ids)}", "object": "response", "model": model, "output": []}
    yield {"type": "response.created", "response": {**base, "status": "in_progress"}}
    for at, item in enumerate(answer.blocks):
        yield {
            "type": "response.output_item.added",
            "output_index": at,
            "item": {**item, **({"content": []} if item["type"] == "message" else {})},
        }
        for delta in _deltas(item):
            yield {"type": "response.output_text.delta", "item_id": item["id"], "output_index": at, "content_index": 0, "delta": delta}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    end: Block = answer.error or {"status": "completed"}
    yield {"type": f"response.{end['status']}", "response": {**base, "output": list(answer.blocks), "usage": dict(answer.usage), **end}}


def _deltas(item: Block) -> list[str]:
    """The text of a message in pieces; nothing of a tool call."""
    words = "".join(part.get("text", "") for part in item.get("content", ()))
    size = max(1, -(-len(words) // PIECES))
    return [words[at : at + size] for at in range(0, len(words), size)]
