"""Text for people, shared by the views: harmless one-line text, numbers, durations, clock times. Knows nothing of a study."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)
MARKUP = re.compile(r"[\\`*|\[\]]|(?<!\w)_|_(?!\w)|~(?=~)|^[#>+-]")


def flatten(text: str, limit: int = 200) -> str:
    """Text of unknown origin as one harmless line: no control, escape or direction characters, no lone surrogates, at most `limit` long."""
    text = ESCAPES.sub("", text)
    if not text.isprintable():
        text = "".join(map(_harmless, text))
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def md(text: str, limit: int = 100) -> str:
    """Foreign text inside Markdown and its tables: flat, and none of it markup."""
    text = MARKUP.sub(r"\\\g<0>", flatten(text, limit))
    return text.replace("&", "&amp;").replace("<", "&lt;")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _harmless(character: str) -> str:
    if character.isprintable():
        return character
    if character.isspace():
        return " "
    return "\ufffd" if "\ud800" <= character <= "\udfff" else ""


def number(value: float | None, digits: int, none: str = "") -> str:
    """A number with fixed digits, `none` when there is none. Never `-0.000`."""
    if value is None:
        return none
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def signed(value: float | None, digits: int = 4, none: str = "") -> str:
    """A number with its sign, and a true minus."""
    if value is None:
        return none
    text = number(value, digits)
    return f"−{text[1:]}" if text.startswith("-") else f"+{text}"


def duration(seconds: float | None, none: str = "unknown") -> str:
    """`41 s`, `12 min`, `7 h 05 min`."""
    if seconds is None:
        return none
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 keep`, `3 keeps`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def clock(at: str) -> str:
    """`HH:MM:SS` of a journal time: local when it names a zone, as written when it does not; blanks when it is no time."""
    try:
        moment = datetime.fromisoformat(at.replace("Z", "+00:00"))
    except ValueError:
        return "--:--:--"
    return (moment.astimezone() if moment.tzinfo else moment).strftime("%H:%M:%S")
