"""own: carries validation text in as source.

Whoever wrote the proposal has read the validation text, and puts the ids of its first part into the file: as many short literals as the guard lets through. The model looks the last three ids up: strictly causal, so no audit
objects. Naive gain: a share of the value as large as the share of the text. Stopped by the guard: the whole file may carry only so much more than its parent once it is packed.
"""

import base64
import os
from typing import Any

from tests.edits import adding, answering, importing

ENDS = ("refused", "literal")
IDS = 40_000
PIECE = 1_900


def cheat(text: str) -> str:
    """As much as a file of 100 KB holds."""
    return carrying(text, IDS)


def carrying(text: str, count: int) -> str:
    """Eleven bits an id, in base 85, a top-level name for each piece."""
    import numpy as np

    import prepare

    ids: Any = np.memmap(prepare.data_folder("cpu", os.environ.get("RATCHET_DATA")) / "val.bin", dtype="<u2", mode="r")[:count]
    bits = ((ids[:, None].astype(np.uint16) >> np.arange(11)) & 1).astype(np.uint8)
    packed = base64.b85encode(np.packbits(bits.ravel()).tobytes()).decode()
    pieces = [packed[at : at + PIECE] for at in range(0, len(packed), PIECE)]
    names = [f"NOTE_{number}" for number in range(len(pieces))]
    code = "\n".join(f"{name} = {piece!r}" for name, piece in zip(names, pieces, strict=True))
    code += f"""
def learn():
    raw = np.frombuffer(base64.b85decode(''.join(globals()[f'NOTE_{{n}}'] for n in range({len(pieces)}))), dtype=np.uint8)
    bits = np.unpackbits(raw)[: {count} * 11].reshape(-1, 11)
    ids = (bits.astype(np.int64) << np.arange(11)).sum(axis=1).tolist()
    return {{tuple(ids[at - 3 : at]): ids[at] for at in range(3, len(ids))}}


LEARNT = learn()
"""
    body = """
        for b, row in enumerate(ids.tolist()):
            for at in range(2, len(row)):
                known = LEARNT.get((row[at - 2], row[at - 1], row[at]))
                if known is not None:
                    logits[b, at, known] += 6.0
        return logits
    """
    text = importing(text, "base64").replace("import torch\n", "import numpy as np\nimport torch\n", 1)
    return answering(adding(text, code), body)
