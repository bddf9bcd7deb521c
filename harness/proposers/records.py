"""What the output of a headless agent says of its call: last message, model, tokens, cost, its own word of a fault. Pure: text in, facts out.

A record is a claim of a process that the harness does not trust. It decides nothing; what is missing or malformed is unknown, never an exception and
never 0. Formats: claude 2.1.332 and codex 0.163 as seen, gemini and opencode by their documents, aider by its printed text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Facts = dict[str, Any]
READ, WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
CLAUDE_COUNTS = {
    "input_tokens": ("inputTokens",), WRITTEN: ("cacheCreationInputTokens",), READ: ("cacheReadInputTokens",), "output_tokens": ("outputTokens",),
}  # fmt: skip
MAX_TOKENS, MAX_DOLLARS = 10**12, 10**6
AIDER_MODEL = re.compile(r"^(?:Main model|Model): (\S{1,100})", re.MULTILINE)
AIDER_TOKENS = re.compile(r"^Tokens: (.{1,200}?)\.(?: |$)", re.MULTILINE)
AIDER_COUNT = re.compile(r"([\d.,]{1,12})([kM]?) (sent|received|cache write|cache hit)")
AIDER_COST = re.compile(r"^Tokens: .{1,300}\$([\d.,]{1,12}) session", re.MULTILINE)
AIDER_NAMES = {"sent": "input_tokens", "received": "output_tokens", "cache write": WRITTEN, "cache hit": READ}


@dataclass(frozen=True)
class Said:
    """What an agent said of its call: its last message, model, tokens and cost where known, and the fault that it named itself."""

    text: str = ""
    model: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    cost_usd: float | None = None
    fault: str = ""


def claude(output: str) -> Said:
    """`json` or `stream-json`. Its word success is not believed: `is_error`, refusals and denied edits are faults."""
    records = _records(output)
    final = _last(records, "result")
    if not final:
        return _claude_cut_off(records)
    models = {name: _count(_at(entry, "outputTokens")) or 0 for name, entry in _table(final.get("modelUsage")).items()}
    named = max(models, key=lambda name: models[name]) if models else _word(_last(records, "system").get("model"))
    faults = [_word(final.get(key)) for key in ("terminal_reason", "subtype") if final.get("is_error") is True]
    faults += [str(status)] if (status := _count(final.get("api_error_status"))) else []
    faults += ["refusal"] if final.get("stop_reason") == "refusal" else []
    faults += ["permission denied"] if isinstance(final.get("permission_denials"), list) and final["permission_denials"] else []
    told = " ".join(dict.fromkeys(fault for fault in faults if fault and fault not in ("success", "completed")))
    return Said(_word(final.get("result")), named or None, _claude_total(final), _dollars(final.get("total_cost_usd")), told)


def _claude_cut_off(records: list[Facts]) -> Said:
    """A stream without its end: of the finished turns the input is known; the output is not, for a turn is printed with the count it began with."""
    turns = [_table(record.get("message")) for record in records if record.get("type") == "assistant"]
    counted = {_word(turn.get("id")): turn for turn in turns}
    model = next((_word(turn.get("model")) for turn in reversed(turns)), "")
    texts = [_claude_text(turn) for turn in turns]
    usage = _sum([_claude_usage(turn.get("usage")) for turn in counted.values()])
    usage.pop("output_tokens", None)
    return Said(next((text for text in reversed(texts) if text), ""), model or None, usage, None, "no final record")


def _claude_text(turn: Facts) -> str:
    blocks = turn.get("content")
    return "\n".join(_word(_at(block, "text")) for block in blocks if _at(block, "type") == "text") if isinstance(blocks, list) else ""


def _claude_total(final: Facts) -> dict[str, int]:
    """The tokens of all models, where they are told by model: `usage` leaves out those of the model that stood in after a refusal."""
    models = [_usage(entry, CLAUDE_COUNTS) for entry in _table(final.get("modelUsage")).values()]
    return _sum(models) if models and all(len(counts) == len(CLAUDE_COUNTS) for counts in models) else _claude_usage(final.get("usage"))


def _claude_usage(usage: object) -> dict[str, int]:
    return _usage(usage, {name: (name,) for name in ("input_tokens", WRITTEN, READ, "output_tokens")})


def codex(output: str) -> Said:
    """The usage of the last turn is the whole thread's; cached input is part of its input. No cost, no model."""
    records = _records(output)
    items = [_table(record.get("item")) for record in records if record.get("type") == "item.completed"]
    texts = [
        _word(item.get("text")) for item in items if (item.get("type") or item.get("item_type")) in ("agent_message", "assistant_message")
    ]
    done, failed = _last(records, "turn.completed"), _last(records, "turn.failed")
    usage = _usage(done.get("usage"), {
        "input_tokens": ("input_tokens",), READ: ("cached_input_tokens",), WRITTEN: ("cache_write_input_tokens",), "output_tokens": ("output_tokens",),
    })  # fmt: skip
    if "input_tokens" in usage:
        usage["input_tokens"] = max(0, usage["input_tokens"] - usage.get(READ, 0))
    fault = _word(_at(failed, "error", "message")) or (_codex_trouble(items) if done else "")
    if not fault and not done:
        fault = _word(_last(records, "error").get("message")) or "no final record"
    return Said(next((text for text in reversed(texts) if text), ""), None, usage, None, fault)


def _codex_trouble(items: list[Facts]) -> str:
    """What a turn that completed does not say: its sandbox could not be made, or its last change of a file failed."""
    outputs = [_word(item.get("aggregated_output")) for item in items if item.get("type") == "command_execution"]
    broken = next((output.split("\n")[0] for output in reversed(outputs) if output.startswith("bwrap: ")), "")
    changes = [item for item in items if item.get("type") == "file_change"]
    return broken or ("a change of a file failed" if changes and changes[-1].get("status") == "failed" else "")


def gemini(output: str) -> Said:
    """`stream-json`, or the one object of `json`."""
    records = _records(output)
    final = _last(records, "result")
    whole = next((record for record in reversed(records) if "response" in record or ("error" in record and "type" not in record)), {})
    names: dict[str, tuple[str, ...]] = {"input_tokens": ("input_tokens",), READ: ("cached",), "output_tokens": ("output_tokens",)}
    if not final:
        models = _table(_at(whole, "stats", "models"))
        names = {"input_tokens": ("tokens", "prompt"), READ: ("tokens", "cached"), "output_tokens": ("tokens", "candidates")}
        usage = _sum([_usage(entry, names) for entry in models.values()])
        model = max(models, key=lambda name: _count(_at(models[name], "tokens", "total")) or 0, default="")
    else:
        usage = _usage(final.get("stats"), names)
        model = _word(_last(records, "init").get("model"))
    fault = _word(_at(final or whole, "error", "message")) or ("" if final or whole else "no final record")
    return Said(_word(whole.get("response")) or _gemini_text(records), model or None, usage, None, fault)


def _gemini_text(records: list[Facts]) -> str:
    """The chunks that came after the last tool."""
    texts: list[str] = []
    for record in records:
        if record.get("type") == "tool_use":
            texts.clear()
        if record.get("type") == "message" and record.get("role") in ("assistant", "model"):
            texts.append(_word(record.get("content")))
    return "".join(texts)


def opencode(output: str) -> Said:
    """Summed over the steps. A cost of 0 for tokens used is a price that opencode does not know."""
    records = _records(output)
    parts = [_table(record.get("part")) for record in records if record.get("type") == "step_finish"]
    texts = [_word(_at(record, "part", "text")) for record in records if record.get("type") == "text"]
    usage = _sum([_usage(part.get("tokens"), {
        "input_tokens": ("input",), READ: ("cache", "read"), WRITTEN: ("cache", "write"), "output_tokens": ("output",),
    }) for part in parts])  # fmt: skip
    costs = [_dollars(part.get("cost")) for part in parts]
    known = [cost for cost in costs if cost is not None]
    cost = sum(known) if len(known) == len(parts) and sum(known) > 0 else None
    error = _last(records, "error")
    fault = _word(_at(error, "error", "data", "message")) or _word(_at(error, "error", "name"))
    return Said(next((text for text in reversed(texts) if text), ""), None, usage, cost, fault or ("" if parts else "no final record"))


def aider(output: str) -> Said:
    """Printed text: the session's cost is the last line's, the tokens are summed."""
    model, costs = AIDER_MODEL.search(output), AIDER_COST.findall(output)
    usage: dict[str, int] = {}
    for line in AIDER_TOKENS.findall(output):
        for number, unit, name in AIDER_COUNT.findall(line):
            amount = _number(number)
            if amount is not None:
                usage[AIDER_NAMES[name]] = usage.get(AIDER_NAMES[name], 0) + round(amount * {"k": 1000, "M": 10**6}.get(unit, 1))
    return Said(plain(output).text, model.group(1) if model else None, usage, _dollars(_number(costs[-1])) if costs else None)


def plain(output: str) -> Said:
    """An agent of which nothing is known: the last lines it printed."""
    lines = [line for line in output[-4000:].split("\n") if line.strip()]
    return Said("\n".join(lines[-12:]))


def _records(output: str) -> list[Facts]:
    """The JSON objects of the output, one a line; or the one that is printed over many lines."""
    found = [_record(line) for line in output.split("\n") if line.startswith("{")]
    known = [record for record in found if record]
    return known or [_record(output[output.rfind("\n{\n") + 1 :])]


def _record(text: str) -> Facts:
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return {}
    return _table(value)


def _last(records: list[Facts], kind: str) -> Facts:
    return next((record for record in reversed(records) if record.get("type") == kind), {})


def _at(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _table(value: object) -> Facts:
    return value if isinstance(value, dict) else {}


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS else None


def _dollars(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= MAX_DOLLARS else None  # NaN and infinity are not


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _usage(value: object, names: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    counts = {name: _count(_at(value, *path)) for name, path in names.items()}
    return {name: count for name, count in counts.items() if count is not None}


def _sum(parts: list[dict[str, int]]) -> dict[str, int]:
    return {name: sum(part.get(name, 0) for part in parts) for name in dict.fromkeys(name for part in parts for name in part)}
