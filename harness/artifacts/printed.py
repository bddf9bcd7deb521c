"""What a script printed: `metric: value` of upstream's summary block, the end of a log, and the line that names the error.

Tolerant of form (UTF-16, carriage returns, colours, prefixes), strict about the value. Nothing read here is a measurement: it is
compared with the evaluator's record and shown to people and proposers, so it is cleaned of everything that a terminal would obey.
"""

from __future__ import annotations

import codecs
import math
import re
import unicodedata

ANSI = re.compile(r"\x1b\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]")
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
ERROR = re.compile(
    r"(?:\[[^\]]*\]:?|[|+\s-])*"  # a rank, or the frame of an exception group
    r"(?:(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|ExceptionGroup|Interrupt|StopIteration|SystemExit)(?::.*)?"
    r"|Fatal Python error:.*|.*\bSegmentation fault\b.*|.*\b[Aa]ssertion\b.*\bfailed\b.*|Killed)$"
)
SAMPLE_BYTES = 4096
TAIL_CHARS = 200_000
LINE_CHARS = 300


def read_printed(log: bytes, metric: str) -> float | None:
    """The finite value printed as `metric: value`, in the metric's unit; `None` when there is none, or no single, clear one."""
    key = re.compile(rf"(?<![\w./-]){re.escape(metric)}[ \t]*:(.*)")
    values = set()
    for line in re.split(r"[\r\n]+", _text(log)):
        found = key.search(line)
        if found:
            values.add(_value(found.group(1)))
    return values.pop() if len(values) == 1 else None


def clean_tail(log: bytes, lines: int = 20, cap: int = 4000) -> str:
    """The last `lines` lines, at most `cap` characters, without control or direction marks; a progress line as it looked at last."""
    text = "\n".join(_clean_lines(log)[-lines:])
    return text if len(text) <= cap else text[len(text) - cap :]


def error_line(log: bytes) -> str:
    """The last line that names an exception or a failed assertion, else the last that says anything; at most 300 characters."""
    spoken = [line.strip() for line in _clean_lines(log) if line.strip()]
    named = [line for line in spoken if ERROR.match(line[:LINE_CHARS])]
    line = (named or spoken or [""])[-1]
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"


def _value(said: str) -> float | None:
    said = said.strip()
    if not NUMBER.fullmatch(said):
        return None
    value = float(said)
    return value if math.isfinite(value) else None


def _text(log: bytes) -> str:
    """The log decoded, without colours."""
    return ANSI.sub("", log.decode(_encoding(log), "replace"))


def _encoding(log: bytes) -> str:
    for mark, encoding in BOMS:
        if log.startswith(mark):
            return encoding
    # A capped log has lost its mark. Text in UTF-16 is about half NUL bytes, at odd places when little-endian.
    sample = log[:SAMPLE_BYTES]
    odd, even = sample[1::2].count(0), sample[0::2].count(0)
    if max(odd, even) * 4 > len(sample):
        return "utf-16-le" if odd > even else "utf-16-be"
    return "utf-8"


def _clean_lines(log: bytes) -> list[str]:
    """The last lines, each as a terminal would have shown it after its carriage returns, without blank ones at the end."""
    text = _text(log)[-TAIL_CHARS:]
    lines = []
    for line in text.split("\n"):
        pieces = [piece for piece in line.split("\r") if piece.strip()]
        lines.append("".join(filter(_shows, pieces[-1])).rstrip() if pieces else "")
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _shows(character: str) -> bool:
    return character == "\t" or unicodedata.category(character) not in HIDDEN
