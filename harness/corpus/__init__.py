"""How data is made: the embedded text, the shards of the hub, the tokens of both. Only `prepare.py` as a command comes here, no job.

No numpy here (the harness does not import what it measures): tokens are packed by `array`, tables are read by pyarrow.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class CorpusError(Exception):
    """The data cannot be made; the message is one sentence that names the file or the option."""


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it: it is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def file_sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
