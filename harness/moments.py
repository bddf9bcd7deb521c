"""Times as the journal writes them: ISO 8601 in UTC, to the second. Pure: no clock is read."""

from __future__ import annotations

from datetime import datetime, timezone

FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def utc(at: datetime) -> str:
    """How the journal writes a time."""
    return at.astimezone(timezone.utc).strftime(FORMAT)


def moment(text: str) -> datetime:
    """A time of the journal; raises `ValueError` for anything else."""
    return datetime.strptime(text, FORMAT).replace(tzinfo=timezone.utc)
