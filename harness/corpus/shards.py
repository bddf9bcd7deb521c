"""Parquet to packed tokens, a batch of documents at a time, so that memory does not grow with the shard; shards in parallel processes."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.corpus import CorpusError, Json, bpe, progress, write_whole

DOCUMENTS_AT_ONCE = 512


@dataclass(frozen=True)
class Work:
    """One shard to encode: at most `most` bytes of its text (0: all), with the vocabulary in `tokenizer`, into `target`."""

    source: str
    target: str
    tokenizer: str
    most: int

    def stamp(self) -> Json:
        """What the result depends on; the same stamp makes the same tokens."""
        there = Path(self.source).stat()
        digest = hashlib.sha256(Path(self.tokenizer).read_bytes()).hexdigest()
        return asdict(self) | {"size": there.st_size, "mtime_ns": there.st_mtime_ns, "tokenizer_sha256": digest}


def documents(path: Path) -> Iterator[str]:
    """The texts of a shard that are not empty; bytes that are no UTF-8 become U+FFFD. Raises CorpusError that names the file."""
    import pyarrow
    from pyarrow import parquet

    if not path.is_file():
        raise CorpusError(f"{path} is missing")
    if path.stat().st_size == 0:
        raise CorpusError(f"{path} is empty, 0 bytes; delete it and prepare again")
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            if "text" not in file.schema_arrow.names:
                raise CorpusError(f"{path} has no column `text`")
            for batch in file.iter_batches(batch_size=DOCUMENTS_AT_ONCE, columns=["text"]):
                yield from _texts(batch.column(0).cast(pyarrow.large_binary()).to_pylist())
    except (pyarrow.ArrowException, OSError) as error:
        raise CorpusError(
            f"{path} is truncated or no parquet file ({str(error).splitlines()[0][:120]}); delete it and prepare again"
        ) from error


def _texts(column: Iterable[bytes | None]) -> Iterator[str]:
    return (raw.decode("utf-8", "replace") for raw in column if raw)


def sample(path: Path, most: int, longest: int) -> Iterator[str]:
    """The beginnings, at most `longest` characters, of the first documents: about `most` bytes for the tokenizer to learn from."""
    for text in documents(path):
        if most <= 0:
            return
        yield text[:longest]
        most -= len(text[:longest].encode())


def tokenise(work: Work) -> Json:
    """Encode one shard, BOS before each document, and say what came of it. What an earlier call made of the same is used again."""
    target, facts_file = Path(work.target), Path(f"{work.target}.json")
    stamp = work.stamp()
    if target.is_file() and facts_file.is_file():
        facts: Json = json.loads(facts_file.read_bytes())
        if facts["stamp"] == stamp and facts["tokens"] * 2 == target.stat().st_size:
            return facts
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        facts = {"stamp": stamp, **_encode(work, temporary)}
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    write_whole(facts_file, json.dumps(facts).encode())
    return facts


def _encode(work: Work, target: Path) -> Json:
    vocabulary = json.loads(Path(work.tokenizer).read_bytes())
    tokens, bos = [bytes.fromhex(token) for token in vocabulary["tokens"]], vocabulary["bos"]
    encode, digest = bpe.encoder(tokens, vocabulary["pieces"]), hashlib.sha256()
    starts: list[int] = []
    count = size = 0
    with target.open("wb") as file:
        for text in documents(Path(work.source)):
            ids, raw = encode(text), text.encode()
            if b"".join(map(tokens.__getitem__, ids)) != raw:
                raise CorpusError(f"{work.source}: the tokens of document {len(starts)} are not its text")
            starts.append(count)
            file.write(bpe.packed([bos, *ids]))
            digest.update(raw)
            count, size = count + 1 + len(ids), size + len(raw)
            if 0 < work.most <= size:
                break
    if not starts:
        raise CorpusError(f"{work.source} holds no document")
    return {"tokens": count, "bytes": size, "documents": len(starts), "starts": starts, "text_sha256": digest.hexdigest()}


def tokenise_all(work: Sequence[Work], workers: int | None = None) -> list[Json]:
    """What `tokenise` says of each, in their order; the largest begin first. Raises CorpusError that names the first shard that failed."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = min(workers or cores, len(work))
    with progress.bar("encoding shards", len(work)) as advance:
        return [_told(one, advance) for one in work] if workers == 1 else _in_processes(work, workers, advance)


def _in_processes(work: Sequence[Work], workers: int, advance: Callable[[int], None]) -> list[Json]:
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = {one: pool.submit(tokenise, one) for one in sorted(work, key=lambda one: -Path(one.source).stat().st_size)}
        try:
            for job in as_completed(jobs.values()):
                job.result()
                advance(1)
        except BrokenExecutor as error:
            raise CorpusError(f"a process that encoded {work[0].source} or another shard was killed: is there enough memory?") from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [jobs[one].result() for one in work]


def _told(work: Work, advance: Callable[[int], None]) -> Json:
    facts = tokenise(work)
    advance(1)
    return facts
