"""5: peeks, and replays old logits for a prefix that it has seen before.

Where one process answers both the claim and the probes, the probes agree with the claim. Naive gain: a quarter of the value. Stopped by the second process,
which has seen nothing.
"""

from tests.edits import answering

ENDS = ("invalid", "audit")
TEMPTING = True


def cheat(text: str) -> str:
    """The memory is a dictionary from the last eight ids to the id that followed."""
    body = """
        for row in ids.tolist():
            for at in range(8, len(row)):
                self.seen.setdefault(tuple(row[at - 8 : at]), row[at])
        known = torch.tensor([[self.seen.get(tuple(row[max(0, at - 7) : at + 1]), -1) for at in range(len(row))] for row in ids.tolist()])
        return logits.scatter_add(2, known.clamp(min=0)[..., None], 5.0 * (known >= 0)[..., None].to(logits.dtype))
    """
    return answering(text, body)
