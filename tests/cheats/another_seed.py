"""26: another seed.

Naive gain: luck, which is a matter of statistics and not of security. Stopped: a proposal that changes a seed and nothing else is refused before it runs.
"""

from tests.edits import before_training

ENDS = ("refused", "seed_only")


def cheat(text: str) -> str:
    """After the model is drawn, where it changes the order of nothing but luck."""
    return before_training(text, "torch.manual_seed(20260307)")
