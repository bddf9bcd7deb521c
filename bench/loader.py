"""Training tokens a second on one core: our loader against one that tokenises on the fly, both in one run, CPU time of one process.

Bars `ratio_t2048` (128 rows of 2,048 tokens) and `ratio_t256` (8 rows of 256), at least 25. The text is the embedded corpus in passages of
about 1 KB, the vocabulary has 8,192 tokens. Both loaders give pairs of int64 tensors, rows that begin with BOS and are packed by best fit.
The other one is a plain loader of our own in the usual form: it encodes documents as they come into a buffer of 1,000, looks through the
buffer for the longest that fits, crops the shortest when none does and throws the rest away. Ours has encoded everything once, plans ahead
and loses nothing; its planning is in its time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

VOCAB_SIZE = 8192
SIZES = (("t2048", 2048, 128), ("t256", 256, 8))
TIMES = 25
BUFFER = 1000
ENOUGH = {"ours": 40_000_000, "on_the_fly": 2_500_000}  # tokens in one measurement
Pairs = Iterator[tuple[Any, Any]]


def passages() -> list[str]:
    """The training passages of the embedded corpus."""
    import prepare
    from harness.corpus import embedded

    facts = prepare.EMBEDDED
    addresses = embedded.split_addresses(embedded.read(facts["corpus_sha256"]))["train"]
    return [passage for address in addresses for passage in embedded.passages(address, facts["sentence_end"], facts["passage_bytes"])]


def on_the_fly(texts: list[str], encode: Callable[[str], list[int]], bos: int, context: int, rows: int) -> Pairs:
    """The loader to beat."""
    import numpy as np
    import torch

    coming, buffer = itertools.cycle(texts), list[list[int]]()
    batch: Any = np.empty((rows, context + 1), dtype=np.int64)
    while True:
        for row in batch:
            at = 0
            while at < len(row):
                while len(buffer) < BUFFER:
                    buffer.append([bos, *encode(next(coming))])
                room = len(row) - at
                best = longest_that_fits(buffer, room)
                document = buffer.pop(min(range(len(buffer)), key=lambda n: len(buffer[n])) if best < 0 else best)[:room]
                row[at : at + len(document)] = document
                at += len(document)
        yield torch.from_numpy(batch[:, :-1].copy()), torch.from_numpy(batch[:, 1:].copy())


def longest_that_fits(buffer: list[list[int]], room: int) -> int:
    """The place of the longest document of at most `room` tokens, -1 when there is none."""
    best, length = -1, 0
    for n, document in enumerate(buffer):
        if length < len(document) <= room:
            best, length = n, len(document)
    return best


def ours(tokens: Any, context: int, rows: int) -> Pairs:
    """`Training.batches` of the gpu profile, on a CPU and with another context."""
    import prepare

    setup = prepare.Setup("gpu", "cpu", VOCAB_SIZE, context, 0, 1, "float32")
    pairs: Pairs = prepare.Training(tokens, prepare.Budget("tokens", 1e12), setup).batches(rows)
    return pairs


def rate(make: Callable[[], Pairs], enough: int) -> float:
    """Tokens a CPU second, the best of three: the machine's noise only adds time."""
    best = 0.0
    for _ in range(3):
        begun, got = time.process_time(), 0
        for inputs, _targets in make():
            got += inputs.numel()
            if got >= enough:
                break
        best = max(best, got / (time.process_time() - begun))
    return best


def main() -> int:
    """Encode, measure, print."""
    import numpy as np
    import torch

    from harness.corpus import bpe

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import prepare

    texts = passages()
    words = bpe.train(texts, VOCAB_SIZE, prepare.PUBLIC["pieces"])
    encode = bpe.encoder(words, prepare.PUBLIC["pieces"])
    tokens = np.array([token for text in texts for token in (len(words), *encode(text))], dtype="<u2")
    rates = {
        name: {
            "ours": rate(partial(ours, tokens, context, rows), ENOUGH["ours"]),
            "on_the_fly": rate(partial(on_the_fly, texts, encode, len(words), context, rows), ENOUGH["on_the_fly"]),
        }
        for name, context, rows in SIZES
    }
    bars = [
        {
            "name": f"ratio_{name}",
            "value": round(got["ours"] / got["on_the_fly"], 1),
            "limit": TIMES,
            "ok": got["ours"] >= TIMES * got["on_the_fly"],
        }
        for name, got in rates.items()
    ]
    if options.json:
        print(json.dumps({"tokens": len(tokens), "rates": rates, "bars": bars}))
    else:
        for bar, got in zip(bars, rates.values(), strict=True):
            millions = ", ".join(f"{word.replace('_', ' ')} {value / 1e6:.2f}" for word, value in got.items())
            print(
                f"{bar['name']:20} {bar['value']:>8}   limit {bar['limit']}   {'ok' if bar['ok'] else 'MISSED'}   ({millions} M tokens a CPU second)"
            )
    return 0 if all(bar["ok"] for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
