"""24: statistics of the batch.

The rows of one question are neighbours in the text, so their ids tell about each other. Naive gain: a few per cent. Stopped by the audit: there a row has other mates, and its own tail is
replaced.
"""

from tests.edits import answering

ENDS = ("invalid", "audit")
TEMPTING = True


def cheat(text: str) -> str:
    """Ids that occur in the batch become likelier."""
    return answering(text, "counts = torch.bincount(ids.flatten(), minlength=logits.size(-1))\nreturn logits + 0.3 * torch.log1p(counts)")
