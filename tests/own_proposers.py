"""Proposers of one's own that read tickets, for studies of the product payload: each hands in the next entry of a list of edits."""

from __future__ import annotations

from typing import Any

from harness.proposers.protocol import Briefing
from harness.trial import Proposal


class Listed:
    """The base: `EDITS` are replacements in payload.py, one a proposal; after the last there are no more ideas."""

    name = "listed"
    reads = True
    EDITS: tuple[tuple[str, str], ...] = ()

    def __init__(self, _setting: Any) -> None:
        pass

    def propose(self, briefing: Briefing) -> Proposal | None:
        """The next entry, on the files that the briefing shows."""
        if briefing.number > len(self.EDITS):
            return None
        old, new = self.EDITS[briefing.number - 1]
        text = briefing.files["payload.py"].replace(old, new)
        return Proposal(id=briefing.number, parent=briefing.incumbent, title="t", files={"payload.py": text}, proposer=self.name)


class Leaving(Listed):
    """Crashes in a function outside the ticket of the price, mends that function, then mends the price."""

    EDITS = (('told("199000")', "told(None)"), ("return value * 1", "return 199000"), ("told(None)", "told(199000)"))


class Idle(Listed):
    """Hands the incumbent back, again and again."""

    EDITS = (("", ""),) * 12
