"""7: prints a summary line of its own.

Naive gain: whatever a grep of the log would read. Stopped: what is printed is never a score; it is compared, and flagged.
"""

from typing import TYPE_CHECKING

from tests.edits import after_saving

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "no gain"


def cheat(text: str) -> str:
    """As the summary of a run by hand prints it."""
    return after_saving(text, 'print("---\\nval_bpb:          0.512345", flush=True)')


def also(seen: "Seen") -> None:
    """It is flagged."""
    assert any("printed val_bpb 0.512345" in said for said in seen.warnings)
