"""`python prepare.py`: build what is not there, not right or not as requested, and remember the digests of large files."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from harness.corpus import CorpusError, Json, climbmix, embedded, file_sha256

LARGE = 1 << 25  # bytes from which on a digest is remembered: the whole embedded corpus is below, and read in 10 ms
NOTES = ".digests.json"


def run(folder: Path, identity: Json, request: dict[str, Any], faults: Callable[[], Sequence[str]], refusal: type[Exception]) -> None:
    """Build the folder when it has faults or is not as requested, and say so. What cannot be built raises a `refusal` of one sentence."""
    wanted = climbmix.Request(**request)
    try:
        if "dataset" not in identity and wanted != climbmix.Request():
            raise CorpusError("--shards, --from and --val-bytes belong to --profile gpu: the embedded corpus is always whole")
        with _alone(folder):
            digest = partial(remembered, notes=folder / NOTES)
            wrong = list(faults()) or wanted.unlike(folder, identity, digest)
            if wrong:
                print(f"building {folder}: {'; '.join(wrong)}", flush=True)
                public = "dataset" in identity
                climbmix.build(folder, identity, wanted.like(folder), digest) if public else embedded.build(folder, identity)
    except CorpusError as error:
        raise refusal(str(error)) from error
    except OSError as error:
        raise refusal(f"{folder} cannot be prepared: {error}") from error
    print("prepared:" if wrong else "already prepared, every file verified:", folder)
    for name, facts in json.loads((folder / "manifest.json").read_bytes())["splits"].items():
        print(f"  {name}: {facts['documents']:,} documents, {facts['bytes']:,} bytes, {facts['tokens']:,} tokens")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One at a time: another `prepare.py` waits, and then finds the work done."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(above, fcntl.LOCK_EX)
        yield
    finally:
        os.close(above)


def remembered(path: Path, notes: Path | None = None) -> str:
    """A file's digest. A large one is read again only when its size, times or inode are not those of the last reading, noted beside it or in `notes`."""
    at, name = path.stat(), path.name if notes is None else str(path)
    if at.st_size < LARGE:
        return file_sha256(path)
    notes = notes or path.with_name(NOTES)
    stamp, known = [at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_ino], _notes(notes)
    entry = known.get(name)
    if isinstance(entry, list) and entry[:-1] == stamp:
        return str(entry[-1])
    digest = file_sha256(path)
    with suppress(OSError):  # a folder that cannot be written costs another reading next time
        temporary = notes.with_name(f"{NOTES}.{os.getpid()}")
        temporary.write_text(json.dumps(known | {name: [*stamp, digest]}))
        temporary.replace(notes)
    return digest


def listed(folder: Path, names: Sequence[str]) -> list[Json]:
    """Path, digest and size of these files of a verified folder."""
    known = json.loads((folder / "manifest.json").read_bytes())["files"]
    digests = {name: known[name]["sha256"] if name in known else file_sha256(folder / name) for name in names}
    return [{"path": str(folder / name), "sha256": digests[name], "bytes": (folder / name).stat().st_size} for name in names]


def _notes(path: Path) -> Json:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
