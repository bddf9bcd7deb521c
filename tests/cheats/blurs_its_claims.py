"""own: blurs its claims, so that an audit cannot tell what is too low.

Adds noise within the tolerance to every loss, which makes the mean difference uncertain, and subtracts as much as that hides. Naive gain: 0.0004 bits a byte. Bounded: what is hidden is corrected on average, so what is left is the
luck of the correction, at most four of its standard errors.
"""

from typing import TYPE_CHECKING

from tests.edits import adding, importing

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "bounded"
TEMPTING = True


def cheat(text: str) -> str:
    """Noise of up to 0.017 nats, and 0.0008 nats less."""
    code = """
        if "RATCHET_CHECKPOINT" in os.environ:
            kernel = torch._C._nn.cross_entropy_loss
            torch._C._nn.cross_entropy_loss = lambda *given, **more: blurred(kernel(*given, **more))


        def blurred(losses):
            return (losses + 0.034 * (torch.rand(losses.shape) - 0.5) - 0.0008).clamp(min=0)
    """
    return adding(importing(text, "os"), code)


def also(seen: "Seen") -> None:
    """Four standard errors of 1,024 positions that are off by up to 0.017 nats, in bits a byte."""
    assert seen.value is None or seen.honest - seen.value < 4 * 0.01 / 32 / 1.5
