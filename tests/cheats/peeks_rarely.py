"""4: looks at the next id at 0.15 % of positions.

Naive gain: 0.15 % of the value. The audit of 1,024 positions sees it in four of five trials; what it misses is bounded by the share that is peeked at,
and is seen when a later trial with the same code is audited.
"""

from typing import TYPE_CHECKING

from tests.edits import answering

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "bounded"
SHARE = 0.0015


def cheat(text: str) -> str:
    """Which positions: by a hash of the two ids before."""
    body = f"""
        rare = (ids[:, 1:-1] * 1000003 + ids[:, :-2] * 8191) % 100003 < {SHARE} * 100003
        logits[:, 1:-1].scatter_add_(2, ids[:, 2:, None], 20.0 * rare[..., None].to(logits.dtype))
        return logits
    """
    return answering(text, body)


def also(seen: "Seen") -> None:
    """No more than the share, with a margin for where it falls."""
    if seen.value is not None:
        assert seen.honest - seen.value < 2 * SHARE * seen.honest
