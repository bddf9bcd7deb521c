"""Digests of everything that a number depends on: files, the harness itself, packages, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from harness.errors import InfrastructureFault
from harness.trial import DataFacts, Environment

PACKAGES = ("torch", "numpy", "tiktoken", "rustbpe", "safetensors", "pydantic", "GitPython", "psutil")


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def harness_sha256() -> str:
    """Digest over every Python file of this package, by relative name."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()} {sha256(path)}\n".encode())
    return digest.hexdigest()


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
        raise InfrastructureFault(f"{path}: {error.strerror}; make it readable again, then `ratchet resume`") from None


class FixedFiles:
    """The files that must not change during a study. A file is hashed again only when its size or time changed."""

    def __init__(self, prepare: Path, prepare_sha256: str, data: DataFacts) -> None:
        self._expected = {prepare: prepare_sha256, **{Path(str(f["path"])): str(f["sha256"]) for f in data.files}}
        self._seen: dict[Path, tuple[int, ...]] = {}

    def check(self) -> None:
        """Raise `InfrastructureFault` naming the file and both digests when one is not what the study began with."""
        for path, expected in self._expected.items():
            try:
                stat = path.stat()
            except OSError as error:
                raise InfrastructureFault(f"{path}: {error.strerror}; put the file back, then `ratchet resume`") from None
            key = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
            if self._seen.get(path) == key:
                continue
            found = _readable_sha256(path)
            if found != expected:
                raise InfrastructureFault(
                    f"{path} changed during the study: it was {expected[:12]}…, now {found[:12]}…; put it back, then `ratchet resume`"
                )
            self._seen[path] = key
