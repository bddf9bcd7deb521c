"""What every record is: frozen, without unknown keys, finite numbers only."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1


class Record(BaseModel):
    """A frozen record: no unknown keys, finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class VersionedRecord(Record):
    """A record that is stored as a file or an event of its own."""

    schema_version: int = SCHEMA_VERSION
