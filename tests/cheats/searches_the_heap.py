"""28: searches the heap for the evaluator's objects.

Naive gain: the validation ids, the byte table, the totals. Stopped: they are in another process; in its own it finds the rows of one question and nothing else.
"""

from typing import TYPE_CHECKING

from tests.edits import importing, when_loading

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "no gain"


def cheat(text: str) -> str:
    """Any array that could be a split or a table, and every object of the evaluation."""
    code = """
        for one in gc.get_objects():
            try:
                kind, size = type(one).__name__, getattr(one, "nbytes", 0)
            except Exception:
                continue
            if kind in ("Data", "Profile", "memmap") and kind != "Profile" or (kind == "ndarray" and size > 100_000):
                print("FOUND", kind, size)
    """
    return when_loading(importing(text, "gc"), code)


def also(seen: "Seen") -> None:
    """There is none."""
    assert "FOUND" not in seen.evaluate_log
