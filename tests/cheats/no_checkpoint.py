"""own: says `done` with a file that is no checkpoint.

A header that announces more bytes than there are. Naive gain: the harness or the evaluator allocates them. Stopped: only the scorer parses it, and its death is the candidate's.
"""

from tests.edits import importing, swap

ENDS = ("crash", "load_failed")


def cheat(text: str) -> str:
    """In place of the weights."""
    saving = "    prepare.save_checkpoint(gpt, steps=step, depth=DEPTH)\n"
    code = "    safetensors.torch.save = lambda state: struct.pack('<Q', 1 << 60) + b'{' * 100\n"
    return swap(importing(text, "struct"), "import torch\n", "import safetensors.torch\nimport torch\n", saving, code + saving)
