"""The public corpus of the GPU profile: fetch shards, train the tokenizer, encode, lay the data folder out. prepare.py says of what.

Validation and sealed text are shards of their own that no training shard number can name, and end up in files of their own.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.corpus import CorpusError, Json, bpe, file_sha256, hub, shards, write_whole

DEFAULT_SHARDS = 10
DEFAULT_VAL_BYTES = 64_000_000  # text of each held-out split: some 14 M tokens, so that an evaluation is a few seconds of a fast GPU
GROUPS = 512  # most entries in `starts` of a held-out split: a record with one for each document would not fit a message
LONGEST = 10_000  # characters of a document that the tokenizer learns from
BLOCK = 1 << 24


@dataclass(frozen=True)
class Request:
    """What the caller asked for; `None` is whatever is there, or the default."""

    shards: int | None = None
    source: str | None = None
    val_bytes: int | None = None

    def check(self, last: int) -> None:
        """Raise CorpusError for a count that cannot be. The shards 0 to `last` may be trained on."""
        if self.shards is not None and not 1 <= self.shards <= last + 1:
            raise CorpusError(f"--shards {self.shards}: there must be at least 1 training shard and there are {last + 1:,}")
        if self.val_bytes is not None and self.val_bytes < 1:
            raise CorpusError(f"--val-bytes {self.val_bytes}: there must be something to evaluate on")
        if self.source is not None and not Path(self.source).is_dir():
            raise CorpusError(f"--from {self.source}: there is no such folder")

    def like(self, folder: Path) -> Request:
        """The request with what it leaves open as the data has it that is there, so that a rebuild changes nothing that was not asked for."""
        try:
            manifest = json.loads((folder / "manifest.json").read_bytes())
            have, val_bytes = len(manifest["splits"]["train"]["shards"]), int(manifest["val_bytes"])
        except (OSError, ValueError, KeyError, TypeError):
            return self
        return replace(self, shards=self.shards or (have if self.source is None else None), val_bytes=self.val_bytes or val_bytes)

    def unlike(self, folder: Path, identity: Json, digest: Callable[[Path], str]) -> list[str]:
        """How the prepared data differs from what is asked for. Raises CorpusError like `check`, and for shards that `source` lacks."""
        if self == Request():
            return []
        self.check(min(_held_out(identity).values()) - 1)
        manifest = json.loads((folder / "manifest.json").read_bytes())
        have, val_bytes = len(manifest["splits"]["train"]["shards"]), manifest["val_bytes"]
        found = [] if self.shards in (None, have) else [f"it has {have} training shards, not {self.shards}"]
        found += [] if self.val_bytes in (None, val_bytes) else [f"its held-out splits have {val_bytes:,} bytes, not {self.val_bytes:,}"]
        return found or self._other_shards(manifest, folder, identity, digest)

    def _other_shards(self, manifest: Json, folder: Path, identity: Json, digest: Callable[[Path], str]) -> list[str]:
        """Whether the given folder has other shards than the data was made of, by name or by content."""
        if self.source is None:
            return []
        made = {shard["name"]: shard.get("sha256") for split in manifest["splits"].values() for shard in split["shards"]}
        held_out = _held_out(identity).values()
        raw, names = _files(folder, identity, self, [*_training(self, min(held_out)), *held_out])
        if {*names} != {*made}:
            return [f"it was made of {len(made)} other shards than the {len(names)} of {self.source}"]
        return [f"{name} of {self.source} is another file than it was made of" for name in names if digest(raw / name) != made[name]][:1]


def name_of(number: int) -> str:
    """A shard's file name."""
    return f"shard_{number:05d}.parquet"


def build(folder: Path, identity: Json, request: Request, digest: Callable[[Path], str] = file_sha256) -> None:
    """Make every file of the data folder, the manifest last; what an interrupted call has made is used. Raises CorpusError."""
    held_out = _held_out(identity)
    request.check(min(held_out.values()) - 1)
    numbers = _training(request, min(held_out.values()))
    raw, names = _files(folder, identity, request, [*numbers, *held_out.values()])
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    digests = {name: digest(raw / name) for name in names}
    _check_apart(raw, digests, [name_of(number) for number in held_out.values()])
    tokenizer = parts / "tokenizer.json"
    tokens = bpe.train(
        shards.sample(raw / name_of(numbers[0]), identity["sample_bytes"], LONGEST), identity["vocab_size"], identity["pieces"]
    )
    if len(tokens) != identity["vocab_size"] - bpe.SPECIAL:
        raise CorpusError(
            f"{raw / name_of(numbers[0])} has too little text for a vocabulary of {identity['vocab_size']}: only {len(tokens)} tokens"
        )
    write_whole(tokenizer, bpe.vocabulary(tokens, identity["pieces"]))
    write_whole(parts / "bytes.bin", bpe.byte_table(tokens))
    most = request.val_bytes or DEFAULT_VAL_BYTES
    chosen = {number: 0 for number in numbers} | dict.fromkeys(held_out.values(), most)
    work = [shards.Work(str(raw / name_of(n)), str(parts / f"{n:05d}.bin"), str(tokenizer), limit) for n, limit in chosen.items()]
    facts = {n: told | {"sha256": digests[name_of(n)]} for n, told in zip(chosen, shards.tokenise_all(work), strict=True)}
    _lay_out(folder, identity | {"val_bytes": most}, {"train": numbers} | {name: [n] for name, n in held_out.items()}, facts)
    shutil.rmtree(parts)


def _training(request: Request, end: int) -> list[int]:
    """The numbers of the training shards, all below `end`: the first of the corpus, or what the given folder has."""
    if request.source is None:
        return list(range(request.shards or DEFAULT_SHARDS))
    found = [re.fullmatch(r"shard_(\d{5})\.parquet", path.name) for path in sorted(Path(request.source).iterdir())]
    there = [int(match[1]) for match in found if match and int(match[1]) < end]
    if not there:
        raise CorpusError(f"{request.source} has no training shard: {name_of(0)} is missing")
    if len(there) < (request.shards or 1):
        raise CorpusError(f"{request.source} has {len(there)} training shards, not {request.shards}")
    return there[: request.shards]


def _held_out(identity: Json) -> dict[str, int]:
    return {"val": identity["val_shard"], "sealed": identity["sealed_shard"]}


def _check_apart(raw: Path, digests: dict[str, str], held_out: Sequence[str]) -> None:
    """Raise CorpusError for a held-out shard that is also there under another name: it would be trained on, or count twice."""
    for mine in held_out:
        for name, digest in digests.items():
            if name != mine and digest == digests[mine]:
                raise CorpusError(f"{raw / name} is the held-out {mine} under another name: what is evaluated on must not be trained on")


def _files(folder: Path, identity: Json, request: Request, numbers: Sequence[int]) -> tuple[Path, list[str]]:
    """The folder that has the shards with these numbers, and their names; without --from, they are fetched beside the data folder."""
    names = [name_of(number) for number in numbers]
    if request.source is None:
        raw = folder.parent / str(identity["dataset"]).replace("/", "--")
        hub.fetch(hub.address(identity["dataset"], identity["revision"]), names, raw)
        return raw, names
    raw = Path(request.source).absolute()
    for name in names:
        if not (raw / name).is_file():
            raise CorpusError(f"{raw / name} is missing")
    return raw, names


def _lay_out(folder: Path, head: Json, members: dict[str, list[int]], facts: dict[int, Json]) -> None:
    """Everything is made beside what is there and takes its place only when all of it is whole."""
    splits: Json = {}
    parts = folder / "parts"
    for split, numbers in members.items():
        _join([parts / f"{number:05d}.bin" for number in numbers], parts / f"{split}.bin")
        splits[split] = {key: sum(facts[number][key] for number in numbers) for key in ("tokens", "bytes", "documents")}
        kept = ("tokens", "bytes", "documents", "text_sha256", "sha256")
        splits[split]["shards"] = [{"name": name_of(number), **{key: facts[number][key] for key in kept}} for number in numbers]
    for split in ("val", "sealed"):
        starts = facts[members[split][0]]["starts"]
        splits[split]["starts"] = starts[:: -(-len(starts) // GROUPS)]
    texts = {split: [splits[split]["bytes"], facts[members[split][0]]["text_sha256"]] for split in ("val", "sealed")}
    names = (*(f"{split}.bin" for split in members), "bytes.bin", "tokenizer.json")
    files = {name: {"bytes": (parts / name).stat().st_size, "sha256": file_sha256(parts / name)} for name in names}
    manifest = head | {"texts": texts, "tokenizer_sha256": files["tokenizer.json"]["sha256"], "files": files, "splits": splits}
    for name in names:
        (parts / name).replace(folder / name)
    write_whole(folder / "manifest.json", json.dumps(manifest, indent=1, sort_keys=True).encode())


def _join(parts: Sequence[Path], target: Path) -> None:
    temporary = target.with_name(f".{target.name}.tmp")
    with temporary.open("wb") as whole:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, whole, BLOCK)
    temporary.replace(target)
