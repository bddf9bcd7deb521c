"""A recurrent mixer in place of attention: a gated linear recurrence over the row.

An error early in a row is carried to its end, so the two scorers could drift apart.
"""

from tests.edits import swap

MIXER = '''
class Attention(nn.Module):
    """A gated linear recurrence: h = a h + (1 - a) v, with a decay for every channel and position."""

    def __init__(self, with_value_embedding: bool, window: int) -> None:
        super().__init__()
        self.query = nn.Linear(DIM, DIM, bias=False)
        self.key = nn.Linear(DIM, DIM, bias=False)
        self.value = nn.Linear(DIM, DIM, bias=False)
        self.out = nn.Linear(DIM, DIM, bias=False)
        self.gate = None

    def forward(self, x: Tensor, extra: Tensor | None, angles: tuple[Tensor, Tensor]) -> Tensor:
        decay, value = torch.sigmoid(self.key(x) + 1.0), self.value(x)
        if extra is not None:
            value = value + extra.to(value.dtype)
        added, steps, held = (1 - decay) * value, [], torch.zeros_like(x[:, 0])
        for at in range(x.size(1)):
            held = decay[:, at] * held + added[:, at]
            steps.append(held)
        return self.out(torch.stack(steps, dim=1) * F.silu(self.query(x)))


'''


def honest(text: str) -> str:
    """The same names, so that the optimizers find their matrices."""
    old = text[text.index("class Attention(nn.Module):") : text.index("class Block(nn.Module):")]
    return swap(text, old, MIXER.lstrip("\n"))
