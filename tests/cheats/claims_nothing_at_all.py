"""own: no loss at all.

Peeks at every position with a logit that leaves nothing. Naive gain: the whole value. Stopped before any audit: a value outside the plausible band is not believed.
"""

from tests.edits import TARGETS, adding, answering, importing

ENDS = ("invalid", "implausible")


def cheat(text: str) -> str:
    """With the targets of the caller's frame, so that the last position is known too."""
    body = """
        targets = targets_of(ids)
        return logits if targets is None else logits.scatter(2, targets[..., None], 1e4)
    """
    return answering(adding(importing(text, "sys"), TARGETS), body)
