"""What a job says of itself, made safe to store: finite numbers, short strings. Nothing here is believed, only kept."""

from __future__ import annotations

import math
from typing import Any


def point(value: dict[str, Any]) -> dict[str, int | float]:
    """The finite numbers of a learning-curve point, by short names."""
    return {k[:40]: v for k, v in list(value.items())[:20] if k.isidentifier() and isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)}


def positive(value: Any) -> bool:
    """Whether it is a whole number above zero."""
    return count(value) is not None and value > 0


def count(value: Any) -> int | None:
    """A whole number from zero up, or `None`."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def claim(value: Any) -> str | int | float | None:
    """Any claim as a finite number or a short string."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return value
    return None if value is None else str(value)[:200]
