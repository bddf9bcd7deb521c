"""own: logits that overflow.

Scales them beyond what half precision holds, so that sure answers become infinite. Naive gain: zero loss where infinity minus infinity is taken for zero. Stopped: what is not finite is refused, in the claim and in the
audit.
"""

from tests.edits import answering

ENDS = ("invalid", "not_finite")


def cheat(text: str) -> str:
    """In float16, where 65,504 is the largest number."""
    return answering(text, "return (logits.half() * 60000)")
