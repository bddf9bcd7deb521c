"""The embedded corpus (NOTICE.md): addresses to splits, addresses to passages, passages to tokens. About 3 CPU seconds."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path

from harness.corpus import CorpusError, Json, bpe, write_whole

TEXT = Path(__file__).with_name("sotu.txt.xz")
SPLITS = ("train", "val", "sealed")


def read(sha256: str, path: Path = TEXT) -> str:
    """The whole text, one address a line. Raises CorpusError when it is missing or not the pinned text."""
    try:
        raw = lzma.decompress(path.read_bytes())
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise CorpusError(f"the embedded corpus harness/corpus/{path.name} cannot be read: {error}") from error
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        raise CorpusError(f"the embedded corpus {path} is not the pinned text: its SHA-256 is {found}")
    return raw.decode()


def split_addresses(text: str) -> dict[str, list[str]]:
    """The addresses of each split, in order, each with its newline; the position in the corpus decides."""
    splits: dict[str, list[str]] = {name: [] for name in SPLITS}
    for i, address in enumerate(text.split("\n")[:-1]):
        splits["sealed" if i % 20 == 0 else "val" if i % 20 == 10 else "train"].append(address + "\n")
    return splits


def passages(address: str, sentence_end: str, most: int) -> list[str]:
    """An address in pieces of about `most` bytes, cut before the white space after a sentence; joined they are it."""
    pieces = [""]
    for sentence in re.split(sentence_end, address):
        if pieces[-1] and len((pieces[-1] + sentence).encode()) > most:
            pieces.append("")
        pieces[-1] += sentence
    return pieces


def build(folder: Path, identity: Json) -> None:
    """Make every file of the data folder, the manifest last."""
    text = read(identity["corpus_sha256"])
    cut = {
        name: [passages(address, identity["sentence_end"], identity["passage_bytes"]) for address in addresses]
        for name, addresses in split_addresses(text).items()
    }
    tokens = bpe.train((passage for address in cut["train"] for passage in address), identity["vocab_size"], identity["pieces"])
    encode = bpe.encoder(tokens, identity["pieces"])
    contents = {"bytes.bin": bpe.byte_table(tokens), "tokenizer.json": bpe.vocabulary(tokens, identity["pieces"])}
    splits: Json = {}
    for name, addresses in cut.items():
        contents[f"{name}.bin"], starts, digest = tokenised(addresses, encode, tokens)
        if digest != identity["texts"][name][1]:
            raise CorpusError(f"{name}.bin would not decode to the pinned {name} text, but to one with the SHA-256 {digest}")
        count = len(contents[f"{name}.bin"]) // 2
        splits[name] = {"tokens": count, "bytes": identity["texts"][name][0], "documents": len(starts), "starts": starts}
    files = {name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for name, content in contents.items()}
    manifest = identity | {"tokenizer_sha256": files["tokenizer.json"]["sha256"], "files": files, "splits": splits}
    contents["manifest.json"] = json.dumps(manifest, indent=1, sort_keys=True).encode()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_whole(folder / name, content)


def tokenised(addresses: list[list[str]], encode: Callable[[str], list[int]], tokens: list[bytes]) -> tuple[bytes, list[int], str]:
    """A split's packed tokens, BOS before every passage; where its addresses begin; and the digest of what the tokens decode to."""
    ids: list[int] = []
    starts, digest = [], hashlib.sha256()
    for address in addresses:
        starts.append(len(ids))
        for passage in address:
            encoded = encode(passage)
            digest.update(b"".join(map(tokens.__getitem__, encoded)))
            ids += [len(tokens), *encoded]
    return bpe.packed(ids), starts, digest.hexdigest()
