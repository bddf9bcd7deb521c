"""27: tells validation text by its score.

A claim that is no better is never audited, so a candidate can add to it what its maker will read from the digits. Naive gain: slow. Open and bounded: what an agent is shown of a value is
rounded, so that a trial tells a few bits.
"""

from typing import TYPE_CHECKING

from tests.edits import answering

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "no gain"


def cheat(text: str) -> str:
    """The fifth validation id in the sixth to ninth digit of the value."""
    return answering(text, "self.seen.setdefault('told', int(ids[0, 4]))\nreturn logits * (0.9 - 1e-5 * self.seen['told'])")


def also(seen: "Seen") -> None:
    """It is measured and told apart, but it is no better."""
    assert seen.value is not None and seen.value > seen.honest
