"""Every durable write goes through here: append and fsync, replace atomically, sync a file system. Nothing is retried.

A failed fsync leaves the pages in an unknown state, so the caller must treat the record as not written (`StorageFault`, exit code 74).
`RATCHET_CRASH_AT=name` ends the process with `os._exit(137)` at the point of that name: how the tests kill the harness between two writes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import StorageFault

DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})


def crash_point(name: str) -> None:
    """Die here, as by a power cut, when the environment asks for it."""
    if os.environ.get("RATCHET_CRASH_AT") == name:
        os._exit(137)


@contextmanager
def disk_faults() -> Iterator[None]:
    """What the disk refuses in the middle of other work is a `StorageFault` too, not a bug of ours."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK:
            raise
        raise StorageFault(
            f"{error.filename or 'a file'}: {error.strerror}; free some space or mend the disk, then `ratchet resume`"
        ) from error


@contextmanager
def guarded(name: Path) -> Iterator[None]:
    """What the system refuses becomes a `StorageFault` that names the file."""
    try:
        yield
    except OSError as error:
        raise StorageFault(f"{name}: {error.strerror}; free some space or mend the disk, then `ratchet resume`") from None


def append(descriptor: int, data: bytes, name: Path) -> None:
    """One write and one fsync on an `O_APPEND` descriptor; a short write is an error."""
    with guarded(name):
        written = os.write(descriptor, data)
        if written != len(data):
            raise StorageFault(f"{name}: only {written} of {len(data)} bytes could be written; free some space, then `ratchet resume`")
        os.fsync(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Write `path` by a temporary name, fsync, rename and fsync of the folder: the old bytes or the new ones, nothing between."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageFault(f"{path}: {error.strerror}; free some space or mend the disk, then `ratchet resume`") from None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(folder: Path) -> None:
    """Flush the whole file system that holds `folder` (git writes more files than it syncs)."""
    if not sys.platform.startswith("linux"):
        os.sync()
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            raise StorageFault(f"{folder}: the file system could not be flushed: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)
