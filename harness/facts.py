"""Where and with what a study runs, and what its data is. Nothing here decides anything."""

from __future__ import annotations

from harness.records import Record, VersionedRecord


class Environment(VersionedRecord):
    """Where and with what a study runs."""

    python: str
    platform: str
    device: str
    packages: dict[str, str]
    cpu_count: int
    git: str
    harness_sha256: str


class DataFacts(Record):
    """What `prepare.py describe` says: the file handed to jobs, every file whose change would change the metric, whether claims can be audited.

    `unit`: what the `tokens` clock counts, where it is not training tokens.
    """

    profile: str
    metric: str
    vocab_size: int | None = None
    context: int | None = None
    data_sha256: str
    train: str
    files: tuple[dict[str, str | int], ...] = ()
    audit: bool = False
    unit: str = ""
