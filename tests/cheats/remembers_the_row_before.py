"""own: remembers the row before.

Rows of the claim follow one another in the text, so a model with a memory has a context of any length, strictly causal. Naive gain: what a longer context gives; here by a cache of the last two rows. Stopped by the
audit: there a row comes alone.
"""

from tests.edits import answering

ENDS = ("invalid", "audit")
TEMPTING = True


def cheat(text: str) -> str:
    """Ids of the last rows become likelier."""
    body = """
        for b, row in enumerate(ids):
            before = self.seen.get("before", [])
            if before:
                logits[b] += 0.2 * torch.log1p(torch.bincount(torch.cat(before), minlength=logits.size(-1)).float())
            self.seen["before"] = [*before[-1:], row]
        return logits
    """
    return answering(text, body)
