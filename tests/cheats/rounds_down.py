"""own: rounds every loss down to a coarse number.

As a careless cast to half precision would, to steps of 0.015 nats: within the tolerance at every position. Naive gain: 0.003 bits a byte. Stopped by the audit's rule on the mean.
"""

from tests.edits import adding, importing

ENDS = ("invalid", "audit")
TEMPTING = True


def cheat(text: str) -> str:
    """Down, never up."""
    code = """
        if "RATCHET_CHECKPOINT" in os.environ:
            kernel = torch._C._nn.cross_entropy_loss
            torch._C._nn.cross_entropy_loss = lambda *given, **more: (kernel(*given, **more) / 0.015).floor() * 0.015
    """
    return adding(importing(text, "os"), code)
