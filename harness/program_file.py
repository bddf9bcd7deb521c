"""The bytes of a program.md, read so that nothing a path may lead to can hang or fill the harness: a pipe, a device, a file without an end."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.errors import RulesInvalid

MOST_BYTES = 1024 * 1024


def contents(path: Path) -> bytes:
    """The whole of a regular file of at most `MOST_BYTES`; raises `RulesInvalid` for anything else, `OSError` for what cannot be read."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(number, "rb") as file:  # noqa: PTH123  (a descriptor)
        kind = os.fstat(number).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(21, "Is a directory")
        if not stat.S_ISREG(kind):
            what = "a pipe" if stat.S_ISFIFO(kind) else "a device"  # a socket cannot be opened
            raise RulesInvalid(f"{path}: is {what}, no regular file; put program.md there itself")
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise RulesInvalid(f"{path}: is larger than {MOST_BYTES // 1024:,} KiB; keep data and notes of that size in another file")
    return raw
