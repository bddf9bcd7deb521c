"""What came of one request to a server of the Messages API, as the caller must treat it. Pure: facts in, `Reply` out; it knows no client.

A word of the server is a claim: only a whole message with a known end and well-formed blocks is an answer. What was not said is missing, never 0.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any

MAX_TOKENS = 10**12
LONGEST_WAIT = 7 * 86400.0
ENDS = ("tool_use", "end_turn", "stop_sequence")
CUTS = ("max_tokens", "model_context_window_exceeded")
NO_MODEL = re.compile(r"\bmodels?\b[^.]*\b(retired|does not exist|not found|no longer|end[- ]of[- ]life)\b|\bno such model\b", re.I)
NO_MONEY = re.compile(r"credit balance|usage limit|spend(ing)? limit|\bbilling\b|on hold", re.IGNORECASE)
TOO_LARGE = re.compile(r"prompt is too long|context (limit|length|window)", re.IGNORECASE)
RESET_AT = re.compile(r"(\d{4}-\d\d-\d\d)(?:T| at | )(\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?) ?(Z|UTC|[+-]\d\d:\d\d)?")
RESET_IN = re.compile(
    r"\b(?:again|retry|resets?|wait)\b(?: \w+)? (?:in |after |for )?(\d{1,9}(?:\.\d{1,9})?) ?(ms|milli|s|m(?!o)|h|d)[a-z]*\b", re.IGNORECASE
)
RESETS = re.compile(r"\b(reset|again|access|available|retry|until)", re.IGNORECASE)
SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
LIMITS = re.compile(r"anthropic-ratelimit-(.+)-reset")
STATUS = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
    "request_too_large": 413, "rate_limit_error": 429, "timeout_error": 504, "overloaded_error": 529,
}  # fmt: skip
WHY = {
    401: "auth", 402: "billing", 403: "forbidden", 407: "auth", 405: "no_endpoint", 408: "timeout", 409: "conflict", 410: "no_model",
    413: "too_large", 425: "too_early", 429: "rate_limited", 499: "closed", 504: "timeout", 529: "overloaded",
}  # fmt: skip


class Fate(str, Enum):
    """What the caller should do next."""

    ANSWERED = "answered"  # use the content
    REFUSED = "refused"  # never ask this model the same again
    CUT_OFF = "cut_off"  # what it had said so far, without its tool calls: one may be half of what was meant
    STRANGE = "strange"  # an answer that cannot be used
    RETRY = "retry"  # the same again may help
    WAIT = "wait"  # the same again helps after `wait_seconds`
    NEXT_MODEL = "next_model"  # there is no such model
    BAD_REQUEST = "bad_request"  # the same again cannot help
    STOP = "stop"  # no request of this account to this address can help
    INTERRUPTED = "interrupted"  # the caller's own word


@dataclass(frozen=True)
class Reply:
    """One try: its fate, the server's words, and what is known of its cost. `asdict` of it is JSON."""

    fate: Fate
    reason: str
    detail: str = ""
    model: str | None = None
    stop_reason: str | None = None
    content: tuple[dict[str, Any], ...] = ()
    usage: dict[str, int] = field(default_factory=dict)
    billed: bool | None = None  # False: certainly nothing; True: what `usage` says; None: unknown
    wait_seconds: float | None = None
    request_id: str | None = None


def of_message(message: Mapping[str, Any]) -> Reply:
    """A whole message as JSON. Only a message with a known end, all of whose blocks are well-formed, is an answer."""
    content = message.get("content")
    if message.get("type") != "message" or message.get("role") != "assistant" or not isinstance(content, list):
        return Reply(Fate.RETRY, "no_message", "the server answered with something that is no message")
    stop, usage = message.get("stop_reason"), usage_of(message.get("usage"))
    fate, reason, detail = _end(stop, message, content)
    kept = [
        block for block in content if fate is Fate.ANSWERED or (fate is Fate.CUT_OFF and _is_block(block) and block["type"] != "tool_use")
    ]
    return Reply(
        fate, reason, detail, model=_word(message.get("model")), stop_reason=_word(stop), content=tuple(kept), usage=usage,
        billed=True if {"input_tokens", "output_tokens"} <= usage.keys() else None,
    )  # fmt: skip


def _end(stop: object, message: Mapping[str, Any], content: list[Any]) -> tuple[Fate, str, str]:
    if stop == "refusal":
        details = message.get("stop_details")
        category = details.get("category") if isinstance(details, Mapping) else None
        return Fate.REFUSED, "refusal", _word(category) or "no category"
    if stop in CUTS:
        return Fate.CUT_OFF, "cut_off", str(stop)
    if stop not in ENDS:
        return Fate.STRANGE, "unknown_stop", f"the message ended with stop_reason {stop!r}"
    fault = _fault(content, str(stop))
    return (Fate.STRANGE, "malformed", fault) if fault else (Fate.ANSWERED, "answered", "")


def _fault(content: list[Any], stop: str) -> str:
    """What is wrong with the blocks; empty when nothing is."""
    if not all(map(_is_block, content)):
        return "a block that is no JSON object with a type"
    if any(block["type"] == "text" and not isinstance(block.get("text"), str) for block in content):
        return "a text block without text"
    tools = [block for block in content if block["type"] == "tool_use"]
    if not all(_word(block.get("id")) and _word(block.get("name")) for block in tools):
        return "a tool call without an id or a name"
    if len({block["id"] for block in tools}) < len(tools):
        return "two tool calls with one id"
    if not all(isinstance(block.get("input"), dict) for block in tools):
        return "the input of a tool is no JSON object"
    return "it stopped for a tool and calls none" if stop == "tool_use" and not tools else ""


def of_error(status: int, body: object, headers: Mapping[str, str], now: datetime) -> Reply:
    """An error status, or an error event in a stream whose status is 200. `body` is JSON, or the text that stands for it."""
    error = body.get("error", body) if isinstance(body, Mapping) else None
    error = error if isinstance(error, Mapping) else {"message": error}  # some local servers say it in a word
    kind, message = _word(error.get("type")) or "", _word(error.get("message")) or ""
    details = error.get("details")
    code = (_word(details.get("error_code")) if isinstance(details, Mapping) else None) or ""
    late = status == 200
    told = STATUS.get(kind, 500) if late else status
    fate, reason = _of_status(told, kind, code, message)
    wait = wait_seconds(headers, message, now, limited=told == 429)
    if fate is Fate.RETRY and told in (429, 503, 529) and wait is not None:
        fate = Fate.WAIT
    free = not late and told != 504  # no answer stands behind an error status; behind a gateway's one may be under way
    said = [] if late else [str(status)]
    said += [word for word in (kind, code, message or (body if isinstance(body, str) else "")) if word]
    return Reply(fate, reason, " ".join(said), billed=False if free else None, wait_seconds=wait)


def _of_status(status: int, kind: str, code: str, message: str) -> tuple[Fate, str]:
    if "spend_limit" in code:
        return Fate.STOP, "spend_limit"
    if status in (401, 402, 403, 405, 407):
        return Fate.STOP, WHY[status]
    if code == "organization_on_hold" or kind == "billing_error" or (status == 400 and NO_MONEY.search(message)):
        return Fate.STOP, "billing"
    if status in (404, 410) or (status == 400 and NO_MODEL.search(message)):
        named = status != 404 or kind == "not_found_error" or "model" in message.lower()
        return (Fate.NEXT_MODEL, "no_model") if named else (Fate.STOP, "no_endpoint")
    if status < 400:  # a redirect is not followed: it would take the key elsewhere
        return Fate.RETRY, "no_message"
    if status in (408, 409, 425, 429, 499) or status >= 500:
        return Fate.RETRY, WHY.get(status, "server_error")
    return Fate.BAD_REQUEST, "too_large" if status == 413 or TOO_LARGE.search(message) else "bad_request"


def wait_seconds(headers: Mapping[str, str], message: str, now: datetime, limited: bool = True) -> float | None:
    """How long the server asks to wait, from 0 to a week; None when it does not say. `limited`: the rate headers are the reason of the error."""
    told = {name.lower(): value.strip() for name, value in headers.items()}
    found = _number(told.get("retry-after-ms", ""))
    if found is not None:
        return min(LONGEST_WAIT, max(0.0, found / 1000))
    after = told.get("retry-after", "")
    said = (_number(after), _until(_date(after), now), _until_reset(told, now) if limited else None, _in_words(message, now))
    return next((min(LONGEST_WAIT, max(0.0, seconds)) for seconds in said if seconds is not None), None)


def _until_reset(told: Mapping[str, str], now: datetime) -> float | None:
    """The last reset of the limits that are used up; of all of them when none says that it is."""
    resets: dict[str, float] = {}
    for name, value in told.items():
        limit, seconds = LIMITS.fullmatch(name), _until(_moment(value), now)
        if limit and seconds is not None:
            resets[limit.group(1)] = seconds
    used_up = [seconds for limit, seconds in resets.items() if _number(told.get(f"anthropic-ratelimit-{limit}-remaining", "")) == 0]
    return max(used_up or resets.values(), default=None)


def _in_words(message: str, now: datetime) -> float | None:
    span = RESET_IN.search(message)
    if span:
        return float(span.group(1)) * SECONDS[span.group(2).lower()]
    return _until(_moment(message), now) if RESETS.search(message) else None


def _moment(text: str) -> datetime | None:
    """A moment in ISO form, alone or in a sentence, or alone as seconds since 1970."""
    seconds = _number(text)
    at = RESET_AT.search(text)
    if not at and seconds is None:
        return None
    try:
        if not at:
            return datetime.fromtimestamp(seconds or 0.0, timezone.utc)
        zone = at.group(3) if at.group(3) not in (None, "Z", "UTC") else "+00:00"
        return datetime.fromisoformat(f"{at.group(1)}T{at.group(2).partition('.')[0]}{zone}")
    except (ValueError, OverflowError, OSError):
        return None


def _date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None


def _until(moment: datetime | None, now: datetime) -> float | None:
    if moment is None:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)) - now).total_seconds()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def usage_of(usage: object) -> dict[str, int]:
    """The counts that the server gave, flat; what it did not give is missing."""
    paths = {name: (name,) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")}
    nested = {
        "cache_creation_1h": ("cache_creation", "ephemeral_1h_input_tokens"),
        "cache_creation_5m": ("cache_creation", "ephemeral_5m_input_tokens"),
        "thinking_tokens": ("output_tokens_details", "thinking_tokens"),
    }
    counts = {name: _count(usage, *path) for name, path in {**paths, **nested}.items()}
    return {name: count for name, count in counts.items() if count is not None}


def _count(value: Any, *keys: str) -> int | None:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _is_block(block: object) -> bool:
    """It is a block that can be sent back: it has a type, no number that is none, no half of a surrogate pair."""
    if not isinstance(block, dict) or not _word(block.get("type")):
        return False
    try:
        json.dumps(block, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True
