"""What agents print, as samples by their own formats: read where well-formed, unknown where not, never believed and never an exception."""

from __future__ import annotations

import json
import random

import pytest

from harness.proposers import agents, told
from harness.proposers.records import Said

READ, WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def codex_turn(*items: object) -> str:
    return lines(*({"type": "item.completed", "item": item} for item in items), {"type": "turn.completed", "usage": {"input_tokens": 1}})


CLAUDE_TURN = {"type": "assistant", "message": {"id": "m1", "model": "claude-opus-5-5", "usage": {"input_tokens": 3, "output_tokens": 40},
               "content": [{"type": "thinking", "thinking": "…"}, {"type": "text", "text": "I lower the rate."}]}}  # fmt: skip
CLAUDE_RESULT = {
    "type": "result", "subtype": "success", "is_error": False, "terminal_reason": "completed", "stop_reason": "end_turn", "num_turns": 3,
    "result": "title: a lower rate\nhypothesis: it overshoots", "total_cost_usd": 0.0731, "permission_denials": [],
    "usage": {"input_tokens": 12, READ: 900, WRITTEN: 300, "output_tokens": 210, "server_tool_use": {"web_search_requests": 0}, "service_tier": "standard"},
    "modelUsage": {"claude-haiku-5-5": {"outputTokens": 10, "costUSD": 0.001}, "claude-opus-5-5": {"outputTokens": 200, "costUSD": 0.0721}},
}  # fmt: skip
CODEX = lines(
    {"type": "thread.started", "thread_id": "01a22d35"},
    {"type": "item.completed", "item": {"id": "item_0", "type": "error", "message": "Model metadata not found."}},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "I look first."}},
    {"type": "item.completed", "item": {"id": "item_2", "type": "file_change", "changes": [{"path": "train.py", "kind": "update"}]}},
    {"type": "item.completed", "item": {"id": "item_3", "type": "agent_message", "text": "Lowered the rate."}},
    {
        "type": "turn.completed",
        "usage": {"input_tokens": 1000, "cached_input_tokens": 800, "output_tokens": 50, "reasoning_output_tokens": 20},
    },
)
GEMINI_STREAM = lines(
    {"type": "init", "session_id": "s", "model": "gemini-4-pro"},
    {"type": "message", "role": "user", "content": "the prompt"},
    {"type": "message", "role": "assistant", "content": "I look.", "delta": True},
    {"type": "tool_use", "tool_name": "replace", "tool_id": "1", "parameters": {}},
    {"type": "tool_result", "tool_id": "1", "status": "success"},
    {"type": "message", "role": "assistant", "content": "Lowered ", "delta": True},
    {"type": "message", "role": "assistant", "content": "the rate.", "delta": True},
    {"type": "result", "status": "success", "stats": {"total_tokens": 120, "input_tokens": 100, "output_tokens": 20, "cached": 60}},
)
GEMINI_TOKENS = {"prompt": 100, "candidates": 20, "cached": 60, "total": 120}
GEMINI_JSON = "Loaded cached credentials.\n" + json.dumps(
    {"response": "Lowered the rate.", "stats": {"models": {"gemini-4-pro": {"tokens": GEMINI_TOKENS}}}}, indent=2
)
STEP = {"type": "step-finish", "cost": 0.01, "tokens": {"input": 10, "output": 5, "reasoning": 1, "cache": {"read": 7, "write": 2}}}
OPENCODE = lines(
    {"type": "step_start", "sessionID": "s", "part": {"type": "step-start"}},
    {"type": "text", "sessionID": "s", "part": {"type": "text", "text": "Lowered the rate."}},
    {"type": "step_finish", "sessionID": "s", "part": STEP},
    {"type": "step_finish", "sessionID": "s", "part": STEP},
)
AIDER = """\
Aider v0.92.0
Main model: anthropic/claude-sonnet-5 with diff edit format, infinite output
Added train.py to the chat.

Lowered the rate.
Tokens: 4.2k sent, 1.1k cache write, 350 received. Cost: $0.02 message, $0.02 session.
Applied edit to train.py
Tokens: 5k sent, 100 received. Cost: $0.03 message, $0.05 session.
"""


@pytest.mark.parametrize(("adapter", "output", "said"), [
    ("claude", "noise\n" + lines(CLAUDE_TURN, CLAUDE_RESULT), Said(
        "title: a lower rate\nhypothesis: it overshoots", "claude-opus-5-5", {"input_tokens": 12, WRITTEN: 300, READ: 900, "output_tokens": 210}, 0.0731)),
    ("claude", lines(CLAUDE_TURN, CLAUDE_TURN), Said(
        "I lower the rate.", "claude-opus-5-5", {"input_tokens": 3}, None, "no final record")),
    ("codex", CODEX, Said("Lowered the rate.", None, {"input_tokens": 200, READ: 800, "output_tokens": 50})),
    ("gemini", GEMINI_STREAM, Said("Lowered the rate.", "gemini-4-pro", {"input_tokens": 100, READ: 60, "output_tokens": 20})),
    ("gemini", GEMINI_JSON, Said("Lowered the rate.", "gemini-4-pro", {"input_tokens": 100, READ: 60, "output_tokens": 20})),
    ("opencode", OPENCODE, Said("Lowered the rate.", None, {"input_tokens": 20, READ: 14, WRITTEN: 4, "output_tokens": 10}, 0.02)),
    ("plain", "a\n\nb\n", Said("a\nb")),
])  # fmt: skip
def test_a_record_gives_text_model_tokens_and_cost(adapter: str, output: str, said: Said) -> None:
    assert agents.read(adapter, output) == said


def test_a_model_that_stood_in_is_counted_with_the_one_that_refused() -> None:
    counts = {"inputTokens": 100, "outputTokens": 20, "cacheReadInputTokens": 7, "cacheCreationInputTokens": 1}
    refused = {
        **CLAUDE_RESULT,
        "usage": {"input_tokens": 100, "output_tokens": 20},
        "modelUsage": {"claude-opus-5-5": counts, "claude-opus-5": counts},
    }
    assert agents.read("claude", lines(refused)).usage == {"input_tokens": 200, WRITTEN: 2, READ: 14, "output_tokens": 40}


def test_aider_prints_text() -> None:
    said = agents.read("aider", AIDER)
    assert (said.model, said.cost_usd) == ("anthropic/claude-sonnet-5", 0.05)
    assert said.usage == {"input_tokens": 9200, WRITTEN: 1100, "output_tokens": 450}


@pytest.mark.parametrize(("adapter", "output", "fault"), [
    ("claude", lines({**CLAUDE_RESULT, "is_error": True, "terminal_reason": "api_error", "api_error_status": 401}), "api_error 401"),
    ("claude", lines({**CLAUDE_RESULT, "is_error": True, "subtype": "error_max_turns", "terminal_reason": "max_turns"}), "max_turns error_max_turns"),
    ("claude", lines({**CLAUDE_RESULT, "is_error": True, "stop_reason": "refusal"}), "refusal"),
    ("claude", lines({**CLAUDE_RESULT, "permission_denials": [{"tool_name": "Edit"}]}), "permission denied"),
    ("codex", lines({"type": "error", "message": "Reconnecting"}, {"type": "turn.failed", "error": {"message": "401 Unauthorized"}}), "401 Unauthorized"),
    ("codex", lines({"type": "turn.started"}, {"type": "error", "message": "Reconnecting"}), "Reconnecting"),
    ("codex", codex_turn({"type": "file_change", "status": "failed"}), "a change of a file failed"),
    ("codex", codex_turn({"type": "file_change", "status": "failed"}, {"type": "file_change", "status": "completed"}), ""),
    ("codex", codex_turn({"type": "command_execution", "aggregated_output": "bwrap: no namespace\nmore", "exit_code": 1}), "bwrap: no namespace"),
    ("codex", codex_turn({"type": "command_execution", "aggregated_output": "no match", "exit_code": 1, "status": "failed"}), ""),
    ("gemini", lines({"type": "result", "status": "error", "error": {"type": "x", "message": "quota"}, "stats": {}}), "quota"),
    ("gemini", json.dumps({"error": {"type": "ApiError", "message": "quota", "code": 429}}, indent=2), "quota"),
    ("opencode", lines({"type": "error", "error": {"name": "ProviderAuthError", "data": {"message": "no key"}}}), "no key"),
    ("opencode", "", "no final record"),
])  # fmt: skip
def test_the_fault_is_the_agents_own_word(adapter: str, output: str, fault: str) -> None:
    assert agents.read(adapter, output).fault == fault


def test_the_prose_of_an_agent_that_prints_records_is_what_stands_between_them() -> None:
    output = "a warning\n" + lines({"type": "turn.started"}) + "an error\n"
    assert agents.prose("codex", output).split("\n") == ["a warning", "an error", ""]
    assert agents.prose("plain", output) == output


def test_a_price_of_nothing_for_tokens_used_is_unknown() -> None:
    assert agents.read("opencode", lines({"type": "step_finish", "part": {**STEP, "cost": 0}})).cost_usd is None
    assert agents.read("opencode", lines({"type": "step_finish", "part": STEP}, {"type": "step_finish", "part": {}})).cost_usd is None


@pytest.mark.parametrize(
    "value", ["-1", "NaN", "Infinity", "1e999", "1" + "0" * 400, "true", '"7"', "null", "[]", "{}", "[" * 5000, '"\\ud800"']
)
def test_a_malformed_number_is_unknown(value: str) -> None:
    output = f'{{"type":"result","total_cost_usd":{value},"usage":{{"input_tokens":{value}}},"result":"x","modelUsage":{{"m":{{"outputTokens":{value}}}}}}}'
    said = agents.read("claude", output)
    assert (said.cost_usd, said.usage) == (None, {})
    part = f'{{"type":"step_finish","part":{{"cost":{value},"tokens":{{"input":{value},"cache":{value}}}}}}}'
    assert agents.read("opencode", part).cost_usd is None


@pytest.mark.parametrize("adapter", list(agents.ADAPTERS))
def test_no_output_is_an_exception(adapter: str) -> None:
    dice = random.Random(adapter)
    good = lines(CLAUDE_TURN, CLAUDE_RESULT) + CODEX + GEMINI_STREAM + OPENCODE + AIDER + GEMINI_JSON
    values = ["null", "7", "[]", "{}", '"x"', "true", "[[]]", '{"a":null}', "-1e999"]
    for _ in range(300):
        start, length = dice.randrange(len(good)), dice.randrange(40)
        bad = good[:start] + dice.choice(values) + good[start + length :]
        said = agents.read(adapter, bad[dice.randrange(200) :])
        assert all(isinstance(count, int) and count >= 0 for count in said.usage.values())
        json.dumps([said.text, said.model, said.fault, said.cost_usd]).encode()
    for odd in ("", "{", "{\n{\n", '{"a":' * 3000, "\n{\n" * 3000, "\0\x1b[31m", "[1]\n7\nnull\n", "\ufffd" * 99, "{}\n" * 99):
        assert agents.read(adapter, odd).cost_usd is None


@pytest.mark.parametrize(
    "kind", ["assistant", "result", "item.completed", "message", "text", "step_finish", "turn.failed", "error", "init", "system"]
)
@pytest.mark.parametrize(
    "field", ["message", "part", "item", "error", "usage", "stats", "modelUsage", "permission_denials", "content", "model", "result"]
)
def test_a_field_of_another_type_is_unknown(kind: str, field: str) -> None:
    for value in (None, 7, "x", [], [7], {}, {"models": [7]}, {"content": [None]}, {"id": [], "model": 7, "usage": "x"}, {"error": 7}):
        for adapter in agents.ADAPTERS:
            agents.read(adapter, lines({"type": kind, field: value}))


def test_an_answer_is_read_from_its_named_lines_else_from_its_first() -> None:
    words = told.answer(
        "Done!\n\n**Title:** `lower`\n- hypothesis: it overshoots\nExpected effect: +0.01\nrefuted_if: worse\naxis: MATRIX_LR"
    )
    assert words == {
        "title": "lower",
        "hypothesis": "it overshoots",
        "expected_effect": "+0.01",
        "refuted_if": "worse",
        "axis": "MATRIX_LR",
    }
    words = told.answer("## A lower rate\n\nIt overshoots.")
    assert words == {"title": "A lower rate", "hypothesis": "A lower rate It overshoots."}
    assert told.answer("") == {} and told.answer("***\n---") == {}


def test_an_answer_is_harmless_and_short() -> None:
    words = told.answer("title: \x1b[31m\u202ered\u200b\x07 \ud800" + "y" * 5000 + "\nhypothesis: " + "z" * 5000)
    assert words["title"].isprintable() and words["title"].startswith("red")
    assert len(words["title"]) <= 80 and len(words["hypothesis"]) <= 600


def test_the_last_message_file_fills_in_where_the_record_has_none() -> None:
    assert agents.read("codex", "", "from the file\n").text == "from the file"
    assert agents.read("codex", CODEX, "from the file").text == "Lowered the rate."


@pytest.mark.parametrize("adapter", [name for name in agents.ADAPTERS if name != "plain"])
def test_every_known_agent_has_a_command_that_asks_nobody(adapter: str) -> None:
    words = agents.default_template(adapter, ("train.py", "model.py"))
    assert words[0] == adapter
    assert any("{prompt_file}" in word for word in words) and "{prompt}" not in " ".join(words)
    assert not any("{edits}" in word or word == "{files}" for word in words)
    if adapter == "claude":
        assert "Read,Edit(train.py),Edit(model.py)" in words
    assert agents.default_template("plain") == ()
