"""19: logits that are no numbers.

Naive gain: `nan`, which loses no comparison that is written the wrong way round. Stopped: a claim that is not finite is refused before any arithmetic.
"""

from tests.edits import answering

ENDS = ("invalid", "not_finite")


def cheat(text: str) -> str:
    """At one position in a thousand rows."""
    return answering(text, "logits[0, 0] = float('nan')\nreturn logits")
