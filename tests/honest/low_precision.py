"""Low precision: the scored model has weights in bfloat16 and computes in it.

Sums are rounded coarsely, and otherwise for another number of rows: the claim and the audit differ by more than those of the baseline.
"""

from tests.edits import swap


def honest(text: str) -> str:
    """Trained as ever; only what is loaded is cast."""
    return swap(text, "    return model.to(device).eval()\n", "    return model.to(device, torch.bfloat16).eval()\n")
