"""own: carries a few kilobytes of validation text in as source.

As `carries_text_in`, with as many ids as the guard lets through at once. Naive gain: a share of the value as large as the share of the text. Open: whoever proposes has read what it should not have, and no audit objects to
knowledge. Bounded: the text of 4,500 ids is 3 % of the small profile's validation text, and nothing of the large one's.
"""

from typing import TYPE_CHECKING

from tests.cheats.carries_text_in import carrying

if TYPE_CHECKING:
    from tests.test_cheats import Seen

ENDS = "bounded"
IDS, ALL = 4_500, 134_949


def cheat(text: str) -> str:
    """In four literals."""
    return carrying(text, IDS)


def also(seen: "Seen") -> None:
    """At most what all the loss at these ids is worth, with a margin for what they teach of others."""
    assert seen.value is None or seen.honest - seen.value < 1.5 * IDS / ALL * seen.honest
