"""A proposer of one's own, whole: it halves each number at the top of train.py once.

ratchet run --tag mine --proposer examples/proposers/halving.py:Halving
"""

import re

from harness.proposers.protocol import Briefing
from harness.proposers.registry import Setting
from harness.trial import Proposal


class Halving:
    """`setting` has the rules, the study's folder and its fold; `briefing` has the incumbent's files and what was tried."""

    name = "halving"
    reads = False  # True: be given the page in words (briefing.page), and be away for a while after failed calls

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def propose(self, briefing: Briefing) -> Proposal | None:
        """The next number that was not halved yet."""
        text = briefing.files["train.py"]
        tried = {past.axis for past in briefing.past}
        for name, value in re.findall(r"^([A-Z][A-Z_]*) = ([\d.]+)\b", text, re.MULTILINE):
            if name in tried or float(value) == 0 or "SEED" in name:
                continue
            half = str(float(value) / 2) if "." in value else str(max(1, int(value) // 2))
            changed = text.replace(f"\n{name} = {value}", f"\n{name} = {half}", 1)
            return Proposal(id=briefing.number, parent=briefing.incumbent, title=f"half of {name}", axis=name, edit=f"{name}: {value} -> {half}",
                            files={"train.py": changed}, proposer=self.name)  # fmt: skip
        return None  # no more ideas: the study ends
