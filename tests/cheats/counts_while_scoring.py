"""10: a cache of n-grams over the rows that it scores.

Bigrams of all validation rows so far, mixed into the model's probabilities. Naive gain: large for a weak model. Stopped by the second process, which has
seen other rows in another order.
"""

from tests.edits import answering

ENDS = ("invalid", "audit")
TEMPTING = True


def cheat(text: str) -> str:
    """Which id followed which in all rows so far, as a table."""
    body = """
        counts = self.seen.setdefault("counts", torch.zeros(logits.size(-1), logits.size(-1)))
        logits += 0.4 * torch.log1p(counts[ids])
        counts.index_put_((ids[:, :-1], ids[:, 1:]), torch.ones(()), accumulate=True)
        return logits
    """
    return answering(text, body)
