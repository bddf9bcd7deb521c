"""own: claims a little less at every position, below what an audit rejects.

0.0009 nats an id, under the threshold of the mean and far under the tolerance of a position. Naive gain: 0.0004 bits a byte. Stopped by the correction: the mean difference between claim and audit is added to the
value, and the corrected value is what is judged.
"""

from tests.edits import adding, importing

ENDS = "no gain"
TEMPTING = True


def cheat(text: str) -> str:
    """By the kernel of the loss, which an audit does not use."""
    code = """
        if "RATCHET_CHECKPOINT" in os.environ:
            kernel = torch._C._nn.cross_entropy_loss
            torch._C._nn.cross_entropy_loss = lambda *given, **more: (kernel(*given, **more) - 0.0009).clamp(min=0)
    """
    return adding(importing(text, "os"), code)
