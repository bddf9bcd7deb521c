"""What a job says of itself, made safe to store: finite numbers, short strings. Nothing here is believed, only kept."""

from __future__ import annotations

import math
from typing import Any


def point(value: dict[str, Any]) -> dict[str, int | float]:
    """The finite numbers of a learning-curve point, by short names: those that `prepare.record` sends, and a few more if the job has any."""
    return {k[:40]: v for k, v in list(value.items())[:20] if k.isidentifier() and _number(v)}


def positive(value: Any) -> bool:
    """Whether it is a whole number above zero."""
    return count(value) is not None and value > 0


def count(value: Any) -> int | None:
    """A whole number from zero up, or `None`."""
    return value if isinstance(value, int) and _number(value) and value >= 0 else None


def claim(value: Any) -> str | int | float | None:
    """Any claim as a finite number or a short string."""
    if value is None or _number(value):
        return value  # type: ignore[no-any-return]
    return text(str(value), 200)


def text(value: str, cap: int) -> str:
    """At most `cap` characters that can be stored as UTF-8: a lone surrogate becomes a question mark."""
    return value[:cap].encode("utf-8", "replace").decode()


def _number(value: Any) -> bool:
    """Finite, and no larger than a file of ours can hold."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value) if isinstance(value, float) else -(2**63) <= value < 2**63
