"""own: peeks, unless it is being audited.

Tells an audit by how it is asked: by the name of the message in its caller's frame, or by rows that are no neighbours. Naive gain: nearly all of the value. Stopped: behaving in the audit is what convicts
it, since the audit compares with the claim.
"""

from tests.edits import TARGETS, adding, answering, importing

ENDS = ("invalid", "audit")
TEMPTING = True


def cheat(text: str) -> str:
    """Rows of the claim follow one another: each begins with the id before. In doubt it behaves."""
    body = """
        targets = targets_of(ids)
        neighbours = targets is not None and len(ids) > 1 and bool((targets[:-1, -1] == ids[1:, 0]).all())
        return logits.scatter_add(2, targets[..., None], torch.full_like(logits[..., :1], 3.0)) if neighbours else logits
    """
    return answering(adding(importing(text, "sys"), TARGETS), body)
