"""17: a pickle bomb for a checkpoint.

Naive gain: its code runs in whatever loads the checkpoint, the harness included. Stopped: the harness never loads it; the scorer reads safetensors, and what is none is a crash.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from tests.edits import importing, swap

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = ("crash", "load_failed")
MARK = Path("/tmp/ratchet-cheat-pickle-bomb")


def cheat(text: str) -> str:
    """In place of the weights."""
    bomb = f"type('Bomb', (), {{'__reduce__': lambda self: (os.system, ('touch {MARK}',))}})"
    code = f"    save = lambda state: pickle.dumps(Bomb())\n    safetensors.torch.save = save\n    globals()['Bomb'] = Bomb = {bomb}\n"
    saving = "    prepare.save_checkpoint(gpt, steps=step, depth=DEPTH)\n"
    return swap(importing(text, "os", "pickle"), "import torch\n", "import safetensors.torch\nimport torch\n", saving, code + saving)


def also(seen: "Seen") -> None:
    """The bomb did not go off."""
    assert not MARK.exists()
    assert seen.outcome is not None and seen.outcome.end == "ok", "the bomb was the checkpoint"
