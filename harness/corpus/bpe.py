"""Byte-pair encoding: train a vocabulary, encode with it, and say what each token is worth in bytes.

A vocabulary is a list of byte strings, each at the place of its id: every byte, then the merges. One more id is BOS, which no text can
produce. Lengths come from the byte strings themselves: decoding a token that is half a character would give three bytes for it.
"""

from __future__ import annotations

import array
import json
import sys
from collections.abc import Callable, Iterable

SPECIAL = 1  # ids above the vocabulary: BOS


def train(texts: Iterable[str], vocab_size: int, pieces: str) -> list[bytes]:
    """The byte string of each of the `vocab_size` - 1 tokens, in the order of their ids. No merge crosses a match of `pieces`."""
    import rustbpe

    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(iter(texts), vocab_size - SPECIAL, pattern=pieces)
    return [bytes(token) for token, _ in sorted(tokenizer.get_mergeable_ranks(), key=lambda pair: pair[1])]


def encoder(tokens: list[bytes], pieces: str) -> Callable[[str], list[int]]:
    """A function from text to token ids (no BOS); a lone surrogate counts as U+FFFD."""
    import tiktoken

    ranks = {token: rank for rank, token in enumerate(tokens)}
    encode: Callable[[str], list[int]] = tiktoken.Encoding(
        "ratchet", pat_str=pieces, mergeable_ranks=ranks, special_tokens={}
    ).encode_ordinary
    return encode


def packed(numbers: Iterable[int]) -> bytes:
    """Numbers below 65,536 as little-endian uint16, whatever the machine's order."""
    words = array.array("H", numbers)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def byte_table(tokens: list[bytes]) -> bytes:
    """The file bytes.bin: how many bytes each id stands for, 0 for BOS."""
    return packed([len(token) for token in tokens] + [0] * SPECIAL)


def vocabulary(tokens: list[bytes], pieces: str) -> bytes:
    """The file tokenizer.json."""
    return json.dumps({"pieces": pieces, "bos": len(tokens), "tokens": [token.hex() for token in tokens]}).encode()
