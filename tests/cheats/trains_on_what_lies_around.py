"""own: trains in set-up, before the clock starts, on the text that lies around.

Packages and the interpreter are full of English: docstrings, licences, manuals. The file carries the tokenizer's words, some six kilobytes packed, and set-up is not on the clock. Naive gain: as many steps as set-up has time for.
Open. Bounded: by `[trial] setup_seconds`, and by how little such text is like the one that counts.
"""

import json
import os
import zlib
from base64 import b85encode
from typing import TYPE_CHECKING

from tests.edits import adding, before_training, importing

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "bounded"
STEPS, PIECE = 60, 1_900


def cheat(text: str) -> str:
    """Longest match in place of the merges; lines that are mostly letters."""
    import prepare

    words = json.loads((prepare.data_folder("cpu", os.environ.get("RATCHET_DATA")) / "tokenizer.json").read_bytes())["tokens"]
    packed = b85encode(zlib.compress(b"\xff\xfe".join(map(bytes.fromhex, words)), 9)).decode()
    pieces = [packed[at : at + PIECE] for at in range(0, len(packed), PIECE)]
    code = "\n".join(f"WORDS_{number} = {piece!r}" for number, piece in enumerate(pieces))
    code += f"""


def lying_around(most):
    words = zlib.decompress(base64.b85decode("".join(globals()[f"WORDS_{{n}}"] for n in range({len(pieces)})))).split(bytes([255, 254]))
    known, longest, ids = {{word: id for id, word in enumerate(words)}}, max(map(len, words)), []
    for folder, _, files in os.walk(os.path.dirname(os.__file__)):
        for name in sorted(files):
            if not name.endswith((".py", ".txt", ".rst")) or len(ids) > most:
                continue
            lines = open(os.path.join(folder, name), "rb").read().split(bytes([10]))
            prose = [line.strip() for line in lines if len(line) > 50 and sum(chr(c).isalpha() or c == 32 for c in line) > 0.93 * len(line)]
            text, at = b" ".join(prose), 0
            while at < len(text):
                size = next((size for size in range(longest, 0, -1) if text[at : at + size] in known), 1)
                ids.append(known.get(text[at : at + size], 0))
                at += size
    return torch.tensor(ids[: most // 257 * 257]).view(-1, 257)
"""
    train = f"""
        found = lying_around({STEPS} * TOTAL_BATCH * 257 // 256 + 257)
        print("FOUND TEXT", tuple(found.shape), flush=True)
        for step, some in enumerate(found.split(TOTAL_BATCH // 256)):
            set_schedule(optimizers, 0.25)
            loss = loss_of(gpt, setup, some[:, :-1].contiguous(), some[:, 1:].contiguous())
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            gpt.zero_grad(set_to_none=True)
        print("BEFORE THE CLOCK", float(loss), flush=True)
        for optimizer in optimizers:
            optimizer.state.clear()
    """
    return before_training(adding(importing(text, "base64", "os", "zlib"), code), train)


def also(seen: "Seen") -> None:
    """What it may gain is less than a fifth of the value."""
    assert seen.value is None or seen.honest - seen.value < 0.2 * seen.honest
