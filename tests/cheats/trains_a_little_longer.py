"""own: counts four tokens as three.

As `counts_fewer_tokens`, but so few that it stays below the cap on CPU seconds. Naive gain: a third more training. Open. Bounded: by `[trial] compute_cap`, which is what a budget of tokens gives to every idea that is dearer.
"""

from typing import TYPE_CHECKING

from tests.edits import adding

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "bounded"


def cheat(text: str) -> str:
    """Progress runs at three quarters of its speed."""
    code = """
        prepare.Budget.progress = lambda self: min(1.0, 0.75 * self.tokens / self.amount)
        prepare.Budget.done = property(lambda self: self.progress() >= 1.0)
    """
    return adding(text, code)


def also(seen: "Seen") -> None:
    """What a third more training gives so early in it."""
    assert seen.value is None or seen.honest - seen.value < 0.2 * seen.honest
