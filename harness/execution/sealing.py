"""A candidate's checkpoint made ours: a regular file with one name and of bounded size, never a link or a pipe, copied so that nobody holds it open."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from harness.artifacts import durable

BLOCK = 1 << 20


class NotSealed(Exception):
    """The file is none that can be a checkpoint; the message is one sentence."""


def digest(path: Path, most_bytes: int) -> str:
    """SHA-256 of the file itself. Raises `NotSealed`."""
    return _read(path, most_bytes, None)


def seal(path: Path, most_bytes: int) -> str:
    """Replace the file by a copy of its bytes, which no descriptor from before leads to; its SHA-256. Raises `NotSealed`."""
    with _copied(path, most_bytes) as (copy, found):
        copy.replace(path)
    return found


def private(path: Path, most_bytes: int) -> int:
    """A descriptor, for reading, of a copy without a name: what is left on it (times, modes, attributes) goes with it. Raises `NotSealed`."""
    with _copied(path, most_bytes) as (copy, _):
        return os.open(copy, os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def _copied(path: Path, most_bytes: int) -> Iterator[tuple[Path, str]]:
    """A fresh copy beside the file, and the SHA-256 of its bytes; what is left of it afterwards is removed."""
    copy = path.with_name(f"{path.name}.copy")
    copy.unlink(missing_ok=True)
    with durable.guarded(copy):
        target = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                found = _read(path, most_bytes, target)
            finally:
                os.close(target)
            yield copy, found
        finally:
            copy.unlink(missing_ok=True)


class Handed:
    """A file that one job after the other is handed: its times and mode are put back, or a plain user's job could leave a word there for the next."""

    def __init__(self, path: Path) -> None:
        self._path, self._before = path, path.stat()

    def restore(self) -> None:
        """As it was; its content is checked elsewhere."""
        now, before = self._path.stat(), self._before
        if now.st_mode != before.st_mode:
            self._path.chmod(stat.S_IMODE(before.st_mode))
        if (now.st_mtime_ns, now.st_atime_ns) != (before.st_mtime_ns, before.st_atime_ns) and now.st_uid in (os.getuid(), before.st_uid):
            with contextlib.suppress(PermissionError):  # not ours to set, so not the job's either
                os.utime(self._path, ns=(before.st_atime_ns, before.st_mtime_ns))


class Checkpoint:
    """What a job leaves: its hash when the job said `done`, and whether it is still that when the job is gone."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path, self._most_bytes = path, most_bytes
        self.sha256: str | None = None

    @property
    def there(self) -> bool:
        """Whether anything has that name."""
        return self._path.exists()

    def note(self) -> None:
        """Hash it now; what is no plain file is said when the job has ended."""
        with contextlib.suppress(NotSealed):
            self.sha256 = digest(self._path, self._most_bytes)

    def seal(self) -> tuple[str, str] | None:
        """Reason and sentence of what is wrong; a sound one is ours alone from now on."""
        try:
            found = seal(self._path, self._most_bytes)
        except NotSealed as fault:
            return "checkpoint", str(fault)
        if found != self.sha256:
            return "checkpoint_changed", "the job wrote its checkpoint again after it had said `done`"
        return None


def _read(path: Path, most_bytes: int, target: int | None) -> str:
    try:
        source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotSealed(f"{path.name} cannot be opened as a file: {error.strerror}") from None
    try:
        facts = os.fstat(source)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
            raise NotSealed(f"{path.name} is no regular file with one name")
        hashed, size = hashlib.sha256(), 0
        while block := os.read(source, BLOCK):
            size += len(block)
            if size > most_bytes:
                raise NotSealed(f"{path.name} has more than {most_bytes:,} bytes ([sandbox] scratch_mb)")
            hashed.update(block)
            if target is not None:
                _write(target, block)
        return hashed.hexdigest()
    finally:
        os.close(source)


def _write(target: int, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[os.write(target, view) :]
