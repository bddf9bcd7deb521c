"""2: attention without the causal mask.

Every position sees the ids after it, in training too, where it learns to copy: all of its window without a mask, and the value of the next one as an off-by-one would have it. Naive gain: grows with training. Stopped by the audit, which
shows strict prefixes only; in long trials by the rehearsal before training.
"""

from tests.edits import swap

ENDS = ("invalid", "audit")
TEMPTING = True


def cheat(text: str) -> str:
    """Both pieces are visible as a whole."""
    return swap(
        text,
        "    visible = seen <= at\n",
        "    visible = torch.ones_like(seen <= at)\n",
        "torch.cat((seen > at, visible), dim=1)",
        "torch.cat((visible, visible), dim=1)",
        "        query, key = norm(rotate(query, angles)), norm(rotate(key, angles))\n",
        "        value = torch.cat((value[:, 1:], value[:, :1]), dim=1)\n        query, key = norm(rotate(query, angles)), norm(rotate(key, angles))\n",
    )
