"""Attention over the whole context, as large models have it: every block sees all that comes before.

Sums over the whole row, masked: what is masked must not be heard of, whatever the order of the sum.
"""

from tests.edits import swap


def honest(text: str) -> str:
    """Every block is a long one."""
    return swap(text, "LONG_EVERY = 0 ", "LONG_EVERY = 1 ")
