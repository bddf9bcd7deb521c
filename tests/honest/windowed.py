"""Windowed attention, as it is in train.py, with a window that divides no row and two blocks, of which one is long.

Rows are padded to whole windows: what stands in the padding must not be heard of.
"""

from tests.edits import swap


def honest(text: str) -> str:
    """A window of 48 in rows of 256."""
    return swap(text, "WINDOW = 64 ", "WINDOW = 48 ", "DEPTH = 1 ", "DEPTH = 2 ", "LONG_EVERY = 0 ", "LONG_EVERY = 2 ")
