"""Digests of everything that a number depends on: files, the harness itself, packages, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from harness.errors import FileChanged
from harness.facts import DataFacts, Environment

PACKAGES = ("torch", "numpy", "tiktoken", "rustbpe", "safetensors", "pydantic", "GitPython", "psutil")


PACKAGE = Path(__file__).parent.parent
SMALL_BYTES = 1 << 18


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def harness_files() -> dict[str, str]:
    """Digest of every Python file of this package, by relative name."""
    return {Path(path).relative_to(PACKAGE).as_posix(): _readable_sha256(Path(path)) for path in sorted(_code(PACKAGE))}


def _code(package: Path) -> set[str]:
    """Its Python files; not an editor's locks and the like, whose names begin with a dot and which no import finds."""
    return {f"{folder}{os.sep}{name}" for folder, _, names in os.walk(package) for name in names if name.endswith(".py") and name[0] != "."}


def harness_sha256() -> str:
    """One digest over `harness_files`."""
    lines = (f"{name} {digest}\n" for name, digest in harness_files().items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def environment(device: str, git_version: str) -> Environment:
    """Where this study runs. Versions come from package metadata: nothing heavy is imported."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return Environment(
        python=sys.version.split()[0], platform=platform.platform(), device=device, packages=versions,
        cpu_count=os.cpu_count() or 1, git=git_version, harness_sha256=harness_sha256(),
    )  # fmt: skip


def _readable_sha256(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise FileChanged(f"{path}: {error.strerror}; make it readable again, then `ratchet resume`") from None


class FixedFiles:
    """The files that must not change during a study: `prepare.py`, the data, and this package as it was when this harness started.

    A file is hashed again when its size, a time of it or its inode changed; one of the study's up to 256 KiB at every check.
    A check of a study's files and the whole package costs about one millisecond of CPU time, a trial has three.
    """

    def __init__(self, prepare: Path, prepare_sha256: str, data: DataFacts, package: Path | None = None) -> None:
        self._expected = {prepare: prepare_sha256, **{Path(str(f["path"])): str(f["sha256"]) for f in data.files}}
        self._seen: dict[Path, tuple[int, ...]] = {}
        self._package = package = package or PACKAGE
        self._code = {path: _readable_sha256(Path(path)) for path in _code(package)}
        self._code_seen = {path: _stamp(_stat(path)) for path in self._code}

    def check(self) -> None:
        """Raise `FileChanged` naming the file and both digests when one is not what the study began with, or only its name when it is gone."""
        for path, expected in self._expected.items():
            stat = _stat(path)
            if self._seen.get(path) == _stamp(stat) and stat.st_size > SMALL_BYTES:
                continue
            _must_be(path, expected)
            self._seen[path] = _stamp(stat)
        if new := sorted(_code(self._package) - self._code.keys()):
            raise FileChanged(
                f"{new[0]} is new in the harness itself, {_readable_sha256(Path(new[0]))[:12]}…; take it away, or `ratchet resume` to go on with it"
            )
        for code, expected in self._code.items():
            stamp = _stamp(_stat(code))
            if self._code_seen[code] != stamp:
                _must_be(Path(code), expected)
                self._code_seen[code] = stamp


def _stamp(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _stat(path: Path | str) -> os.stat_result:
    try:
        return os.stat(path)  # noqa: PTH116 - a path object costs as much again
    except OSError as error:
        raise FileChanged(f"{path}: {error.strerror}; put the file back, then `ratchet resume`") from None


def _must_be(path: Path, expected: str) -> None:
    found = _readable_sha256(path)
    if found != expected:
        raise FileChanged(
            f"{path} changed during the study: it was {expected[:12]}…, now {found[:12]}…; put it back, then `ratchet resume`"
        )
