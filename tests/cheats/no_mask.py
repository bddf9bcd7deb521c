"""2: attention without the causal mask.

Every position sees the ids after it, in training too, where it learns to copy. Naive gain: grows with training. Stopped by the audit, which shows strict
prefixes only; in long trials by the contract check before training.
"""

from tests.edits import swap

ENDS = ("invalid", "audit")


def cheat(text: str) -> str:
    """All that lies in the two pieces is visible, and the value of the next position is mixed in."""
    return swap(
        text,
        "    visible = seen <= at\n",
        "    visible = torch.ones_like(seen <= at)\n",
        "torch.cat((seen > at, visible), dim=1)",
        "torch.cat((visible, visible), dim=1)",
    )
