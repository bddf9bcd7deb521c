"""own: trains until just before it is ended.

With a budget of seconds a job is late only after one per cent and two seconds more. Naive gain: these two seconds. Open. Bounded: one or two per cent of five minutes.
"""

from typing import TYPE_CHECKING

from tests.edits import adding

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "bounded"
CLOCK = "wall"


def cheat(text: str) -> str:
    """A budget of a second and a half more; half a second is for what follows."""
    code = """
        prepare.Budget.progress = lambda self: min(1.0, self.seconds() / (self.amount + 1.5))
        prepare.Budget.done = property(lambda self: self.progress() >= 1.0)
    """
    return adding(text, code)


def also(seen: "Seen") -> None:
    """Two seconds are much of a budget of two, and this is what they give."""
    assert seen.value is None or seen.honest - seen.value < 0.35 * seen.honest
