"""29: says that it used one megabyte.

Naive gain: a soft metric. Stopped: memory is sampled from outside.
"""

from typing import TYPE_CHECKING

from tests.edits import before_training

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "no gain"


def cheat(text: str) -> str:
    """In every point of the curve."""
    return before_training(text, "prepare.peak_memory_mb = lambda: 1.0")


def also(seen: "Seen") -> None:
    """What stands in the table is what was seen."""
    assert seen.outcome is not None and seen.outcome.peak_memory_mb is not None and seen.outcome.peak_memory_mb > 100
