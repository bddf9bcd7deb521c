"""A candidate in words: its commit message and its diff."""

from __future__ import annotations

import difflib
import io

from harness.trial import Proposal


def diff(before: dict[str, str], after: dict[str, str]) -> str:
    """A unified diff that `git apply` takes."""
    parts = []
    for name, text in after.items():
        old, new = (io.StringIO(side).readlines() for side in (before.get(name, ""), text))
        lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
        parts += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
    return "".join(parts)


def message(trial: int, proposal: Proposal) -> str:
    """Number, title, hypothesis and proposer, as UTF-8 text."""
    lines = [f"trial {trial}: {' '.join(proposal.title.split())[:100]}", "", proposal.hypothesis, "", f"Proposer: {proposal.proposer}"]
    return "\n".join(lines).replace("\0", "").encode("utf-8", "replace").decode() + "\n"
