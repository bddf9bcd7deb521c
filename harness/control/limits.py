"""How much may be done: amounts from program.md, replaced by flags, amended by later edits. Pure: values in, values out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from harness.errors import UserFault
from harness.rules import Rules
from harness.sections import MOST, StopAt
from harness.trial import Record


class Limits(Record):
    """How much, from `program.md` or from flags. `deadline` is an absolute local time, fixed when the study started; the last four are for models."""

    trials: int | None = None
    hours: float | None = None
    deadline: datetime | None = None
    calls: int | None = None
    tokens: int | None = None
    dollars: float | None = None
    retries: int | None = None

    def given(self) -> list[str]:
        """The names of those that are set."""
        return [name for name, value in self if value is not None]


def checked(amounts: dict[str, Any]) -> dict[str, Any]:
    """Amounts from flags, when the deadline is a time of day and the hours are a number; else a `UserFault`."""
    deadline = amounts.get("deadline")
    try:
        StopAt(deadline=deadline)
    except ValueError:
        raise UserFault(f"--deadline {deadline!r}: write it as HH:MM, from 00:00 to 23:59") from None
    for name in ("hours", "dollars"):
        value = amounts.get(name)
        if value is not None and not (math.isfinite(value) and value <= MOST):
            raise UserFault(f"--{name} {value}: write a number such as 8 or 0.5")
    if (amounts.get("trials") or 0) > MOST:
        raise UserFault(f"--trials: write a number such as 100, {MOST:,} at most")
    return amounts


def at_start(rules: Rules, now: datetime, amounts: Mapping[str, Any]) -> Limits:
    """Amounts from flags before rules; a deadline `HH:MM` is the next time the clock shows it."""
    said = {**{name: getattr(rules.stop, name) for name in Limits.model_fields}, **{n: v for n, v in amounts.items() if v is not None}}
    return Limits(**{**said, "deadline": _next(said["deadline"], now) if said["deadline"] else None})


def amended(allowed: Limits, before: StopAt, after: StopAt, now: datetime) -> Limits:
    """The limits after an edit of `[stop]`: what was edited is the person's latest word, flags of the start included; the rest stays."""
    edited = {name: getattr(after, name) for name in Limits.model_fields if getattr(after, name) != getattr(before, name)}
    if edited.get("deadline"):
        edited["deadline"] = _next(edited["deadline"], now)
    return allowed.model_copy(update=edited)


def _next(text: str, now: datetime) -> datetime:
    hour, minute = (int(part) for part in text.split(":"))
    then = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if then <= now:
        then += timedelta(days=1)
    local = then.replace(tzinfo=None).astimezone()
    same_zone = now.utcoffset() == now.astimezone().utcoffset()
    return local if same_zone and now.tzinfo else then
