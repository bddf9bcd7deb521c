"""What a reviewer answered, taken as a verdict or as none. Pure: the input of its one tool call in, a `CriticResult` or the reason why it is void out.

Strict on purpose: an unknown word, a missing field, a criterion that was not looked at, a pass without a falsifier is no verdict. A finding counts when it
quotes the change, names a place in it, and says what to do and when it would pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from harness.evaluation.critic import Input
from harness.reviews import CriticResult, Finding

FIELDS = frozenset({"verdict", "findings", "checked_criteria", "what_can_be_cut", "answers_owner_words", "refuted_if", "input_sha256"})
MOST_FINDINGS, MOST_CRITERIA = 20, 200
FEWEST_WORDS, SHORTEST_QUOTE = 3, 3
VAGUE = re.compile(
    r"\b(could|can|should|might|may) (probably |perhaps |possibly |potentially )?(be|get) "
    r"(better|improved|cleaner|clearer|nicer|simpler|optimi[sz]ed|refactored|more \w+)\b|\bneeds? (some )?(work|improvement|polish)\b|\blooks? "
    r"(good|fine|ok|okay|great|bad|odd)\b|\b(lgtm|nitpick|nit)\b|\bin general\b|\broom for improvement\b",
    re.IGNORECASE,
)
NOTHING = re.compile(r"\W*(none|nothing|n\W?a|not applicable|unknown|never|no|-)?\W*", re.IGNORECASE)
NO = re.compile(r"\W*no\b", re.IGNORECASE)


class Parsed(NamedTuple):
    """A verdict, or why there is none: a word and a sentence. `dropped`: how many findings were not taken."""

    result: CriticResult | None
    void: str = ""
    detail: str = ""
    dropped: int = 0


def parse(answer: object, given: Input, input_sha256: str, evaluator_version: str) -> Parsed:
    """The verdict of one tool call on `given`, whose digest is `input_sha256`."""
    if not isinstance(answer, Mapping) or set(answer) - FIELDS:
        return Parsed(None, "malformed", "the answer has not the fields that were asked for")
    if answer.get("input_sha256") != input_sha256:
        return Parsed(None, "wrong_input", "the answer is about another input: its digest is not the one that was shown")
    raw = answer.get("findings", [])
    if not isinstance(raw, (list, tuple)) or len(raw) > MOST_FINDINGS:
        return Parsed(None, "malformed", "the findings are no list, or too long a one")
    kept, unproven = _findings(raw, given)
    dropped = len(raw) - len(kept)
    try:
        result = CriticResult.model_validate(
            {**answer, "checked_criteria": _numbers(answer.get("checked_criteria")), "findings": tuple(kept), "evaluator_version": evaluator_version},
            strict=True,
        )  # fmt: skip
    except ValidationError as fault:
        problem = fault.errors()[0]
        return Parsed(None, "malformed", f"{'.'.join(map(str, problem['loc']))[:80]}: {problem['msg'].lower()[:200]}", dropped)
    void, detail = _void(result, given, unproven)
    return Parsed(None, void, detail, dropped) if void else Parsed(result, dropped=dropped)


def _void(result: CriticResult, given: Input, unproven: int) -> tuple[str, str]:
    """Why a well-formed answer is no verdict; nothing when it is one."""
    wanted, checked = set(range(1, len(given.criteria) + 1)), set(result.checked_criteria)
    if checked - wanted:
        return "criteria", f"it checked criterion {min(checked - wanted)}, which there is not"
    if result.verdict == "fail" and not result.findings:
        return "unfounded", "it failed the change without a finding that names a place, quotes it and says what to do"
    if result.verdict != "pass":
        return "", ""
    if wanted - checked:
        return "criteria", f"it passed the change without looking at criterion {min(wanted - checked)}"
    if not _says(result.refuted_if):
        return "no_falsifier", "it passed the change without saying what would refute that"
    if result.findings or unproven:
        return "contradictory", "it passed the change and found fault with it"
    if NO.match(result.answers_owner_words):
        return "contradictory", "it passed the change and says that it does not answer the owner's words"
    return "", ""


def _findings(raw: object, given: Input) -> tuple[list[Finding], int]:
    """Those that count, and how many others say something definite that is not shown to be so; vague ones are no findings at all."""
    kept: list[Finding] = []
    unproven = 0
    for one in raw if isinstance(raw, (list, tuple)) else ():
        message = one.get("message") if isinstance(one, Mapping) else None
        if not isinstance(message, str) or not _says(message):
            continue
        finding = _finding(one)
        if finding is not None and _says(finding.passes_when) and _placed(finding, given.diff):
            kept.append(finding)
        else:
            unproven += 1
    return kept, unproven


def _finding(one: Mapping[Any, Any]) -> Finding | None:
    evidence = one.get("evidence")
    if not isinstance(evidence, (list, tuple)):
        return None
    try:
        return Finding.model_validate({**one, "evidence": tuple(evidence)}, strict=True)
    except ValidationError:
        return None


def _placed(finding: Finding, diff: str) -> bool:
    """It quotes the change to the letter, but for blanks, and its file or symbol stands there."""
    texts = _squeezed(diff), _squeezed("\n".join(line[1:] for line in diff.split("\n")))
    quotes = [_squeezed(quote.lstrip("+- ")) for quote in finding.evidence]
    if not any(len(quote) >= SHORTEST_QUOTE and quote in text for quote in quotes for text in texts):
        return False
    place = {"symbol": finding.target.id.rpartition(".")[2], "file": finding.target.id}.get(finding.target.kind)
    return place is None or re.search(rf"(?<!\w){re.escape(place)}(?!\w)", diff) is not None


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _says(text: str) -> bool:
    """Whether a text says something definite, apart from phrases that fit everything."""
    return len(VAGUE.sub(" ", text).split()) >= FEWEST_WORDS and not NOTHING.fullmatch(text)


def _numbers(value: object) -> object:
    """A list as the tuple that the record has; what is no list of whole numbers is left for the record to refuse."""
    return tuple(value) if isinstance(value, (list, tuple)) and len(value) <= MOST_CRITERIA else value
