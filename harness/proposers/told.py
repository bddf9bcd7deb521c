"""What an agent says of its edit in its last message: title, hypothesis and the other fields, clean and capped."""

from __future__ import annotations

import re

from harness.proposers.fence import clean, flat

NAMED = re.compile(r"^\W*(title|hypothesis|axis|expected[ _]effect|refuted[ _]if)\b\W*?:[*_`\s]*([^\s*_`].*)$", re.IGNORECASE)
REPLICATION = re.compile(r"^\W*replication[ _]of\b\W*?:[*_`\s#]*(?:trial )?(\d{1,6})\W*$", re.IGNORECASE | re.MULTILINE)
LIMITS = {"title": 80, "hypothesis": 600, "axis": 80, "expected_effect": 200, "refuted_if": 300}
MARKS = "#*`_->=~ \t"


def replication(text: str) -> int | None:
    """The trial that the message says is repeated on purpose."""
    found = REPLICATION.findall(clean(text))
    return int(found[-1]) if found else None


def answer(text: str) -> dict[str, str]:
    """Title, hypothesis and the other fields of a message: from lines that name them, else from its first lines. Clean and capped."""
    lines = [line for line in clean(text).split("\n") if line.strip(MARKS)]
    named = [match for match in map(NAMED.match, lines) if match]
    found = {match.group(1).lower().replace(" ", "_"): match.group(2) for match in named}
    if lines:
        found.setdefault("title", lines[0].strip(MARKS))
        found.setdefault("hypothesis", " ".join(line.strip(MARKS) for line in lines[:6]))
    return {name: flat(value.strip("*_` \t"), LIMITS[name]) for name, value in found.items()}
