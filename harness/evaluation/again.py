"""May nearly the same idea run again on the same incumbent? Not by itself: its result is the answer. Pure: values in, values out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from harness.errors import ProposalRefused
from harness.graph import near
from harness.trial import Proposal, Record

SHORT_TITLE = 2  # words; what is shorter says too little to be the same
WORD = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?|[^\W\d]+|[^\w\s.,:;!?'\"()`]")
FILLERS = frozenset({"a", "an", "the", "use", "using", "try"})
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")


class Sibling(Record):
    """A measured trial on the same parent, with its files in scope; `held`: it was better, and a review did not let it pass."""

    trial: int
    title: str
    axis: str
    gain: float | None
    held: bool = False
    files: dict[str, str]


def check_near(proposal: Proposal, parents: Mapping[str, str], siblings: Iterable[Sibling]) -> None:
    """`ProposalRefused` when a sibling changed the same symbols to nearly the same code, or for the same idea in nearly the same words: its result is
    the answer.
    """
    after = {**parents, **{path: text for path, text in proposal.files.items() if text is not None}}
    for sibling in siblings:
        gain = "was measured without a gain to state" if sibling.gain is None else f"gained {sibling.gain:+.4f}"
        earlier, advice = f"trial {sibling.trial}", "take it much further, combine it, or declare a replication"
        advice = "no review let it pass, so a person decides about it; propose something else" if sibling.held else advice
        if found := _near(parents, sibling.files, after):
            told = f"{earlier} measured nearly this on the same incumbent and {gain} ({found.words}); {advice}"
            raise ProposalRefused("near_duplicate", told, sibling.trial)
        if _same_idea(proposal, sibling, parents, after):
            told = f"{earlier} was the same idea on the same part of the same incumbent and {gain}; try another, or say in the title what is different"
            raise ProposalRefused("near_duplicate", told, sibling.trial)


def _same_idea(proposal: Proposal, sibling: Sibling, parents: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """The same axis, a title of the same words, numbers and signs in the same order, and the same changed symbols; not for constants alone, whose numbers
    tell. By edit distance "relu to elu" is "relu to gelu" to 98 %, and "rate * 2" has the words of "rate / 2".
    """
    title = _words(proposal.title)
    if len(title) < SHORT_TITLE or title != _words(sibling.title) or not proposal.axis or _words(proposal.axis) != _words(sibling.axis):
        return False
    changed, before = _symbols(parents, after), _symbols(parents, sibling.files)
    return changed == before and not all(CONSTANT.fullmatch(name) for _, name in changed)


def _symbols(parents: Mapping[str, str], after: Mapping[str, str]) -> set[tuple[str, str]]:
    return {(path, name) for path, text in after.items() for name in near.changed_symbols(parents.get(path, ""), text)}


def _words(text: str) -> list[str]:
    return [word for word in WORD.findall(text.casefold()) if word not in FILLERS]


def _near(parents: Mapping[str, str], earlier: Mapping[str, str], after: Mapping[str, str]) -> near.Near | None:
    """One file is near and the others are the same."""
    differing = [path for path in after if after[path] != earlier.get(path)]
    if len(differing) != 1:
        return None
    path = differing[0]
    return near.near(parents.get(path, ""), earlier.get(path, ""), after[path])
