"""A file that others write, a program.md or an answer, read so that nothing its path may lead to can hang or fill the harness: a pipe, a device, no end."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.errors import RulesInvalid

MOST_BYTES = 1024 * 1024


class Unfit(ValueError):
    """What is there is no plain file, or a longer one; the text says what it is."""


def bounded(path: Path, most: int, flags: int = 0) -> bytes:
    """The whole of a regular file of at most `most` bytes, opened without waiting; raises `Unfit` for anything else, `OSError` for what cannot be read."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | flags)
    try:
        kind = os.fstat(number).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(21, "Is a directory")
        if not stat.S_ISREG(kind):
            raise Unfit(f"is {'a pipe' if stat.S_ISFIFO(kind) else 'a device'}, no regular file")  # a socket cannot be opened
        with open(number, "rb", closefd=False) as file:
            raw = file.read(most + 1)
    finally:
        os.close(number)
    if len(raw) > most:
        raise Unfit(f"is larger than {most // 1024:,} KiB")
    return raw


def contents(path: Path) -> bytes:
    """The bytes of a program.md; raises `RulesInvalid` for what is none, `OSError` for what cannot be read."""
    try:
        return bounded(path, MOST_BYTES)
    except Unfit as fault:
        what = "put program.md there itself" if "regular" in str(fault) else "keep data and notes of that size in another file"
        raise RulesInvalid(f"{path}: {fault}; {what}") from None
