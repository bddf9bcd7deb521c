"""What a reviewer answered, taken as a verdict or as none. Pure: the input of its one tool call in, a `CriticResult` or the reason why it is void out.

Strict on purpose: an unknown word, a missing field, a criterion that was not looked at, a pass with any finding or without a falsifier is no verdict. A finding
counts when it quotes the change, names a place in it, and says what to do and when it would pass; a falsifier when it names something that can be observed.
It reads words, not what they mean: a reviewer that wants to pass everything still can.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from harness.evaluation.critic import HEADER, Input
from harness.reviews import CriticResult, Finding

FIELDS = frozenset(CriticResult.model_fields) - {"schema_version", "evaluator_version"}
MOST_FINDINGS, MOST_CRITERIA = 20, 200
FEWEST_WORDS, SHORTEST_QUOTE = 3, 3
VAGUE = re.compile(
    r"\b(could|can|should|might|may) (probably |perhaps |possibly |potentially )?(be|get) "
    r"(better|improved|cleaner|clearer|nicer|simpler|optimi[sz]ed|refactored|more \w+)\b|\bneeds? (some )?(work|improvement|polish)\b|\blooks? "
    r"(good|fine|ok|okay|great|bad|odd)\b|\b(lgtm|nitpick|nit)\b|\bin general\b|\broom for improvement\b",
    re.IGNORECASE,
)
NEGATED = re.compile(
    r"^\W*(nothing|none|no(?! (gain|improvement|drop|fall|decrease)\b(?!.*\b(would|could|can|will)\b))|not|never|nobody|n\W?a|unknown|see)\b|"
    r"\b(nothing|irrefutable|unfalsifiable|(is|are|be|of|know) (none|no|nothing)|no (possible |such )?"
    r"(observation|result|evidence|run|test|way|value|measurement|reason)s?|(is|are|looks?|seems?) (correct|fine|good|right|sound|safe|ok|okay|valid)|"
    r"(not|cannot|never|\w+n['’]t)\W+(\w+\W+){0,3}(refut\w+|falsif\w+|disprove\w*|wrong|false|shown|know|think|imagine|applicable|apply|possible))\b",
    re.IGNORECASE,
)
METRIC = re.compile(r"^(\S+) \((?:lower|higher) is better\)", re.MULTILINE)
NAME = re.compile(r"[^\W\d]\w{2,}")


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
    raw = answer.get("findings")
    if not isinstance(raw, (list, tuple)) or len(raw) > MOST_FINDINGS:
        return Parsed(None, "malformed", "the findings are no list, or too long a one")
    kept = _findings(raw, given)
    dropped = len(raw) - len(kept)
    try:
        result = CriticResult.model_validate(
            {**answer, "checked_criteria": _numbers(answer.get("checked_criteria")), "findings": tuple(kept), "evaluator_version": evaluator_version},
            strict=True,
        )  # fmt: skip
    except ValidationError as fault:
        problem = fault.errors()[0]
        return Parsed(None, "malformed", f"{'.'.join(map(str, problem['loc']))[:80]}: {problem['msg'].lower()[:200]}", dropped)
    void, detail = _void(result, given, len(raw))
    return Parsed(None, void, detail, dropped) if void else Parsed(result, dropped=dropped)


def _void(result: CriticResult, given: Input, findings: int) -> tuple[str, str]:
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
    if not _refutes(result.refuted_if, given):
        return (
            "no_falsifier",
            "it passed the change without a falsifier that names something in it, the metric, memory or a number and denies nothing",
        )
    if findings:
        return "contradictory", "it passed the change and found fault with it"
    if result.answers_owner_words == "no":
        return "contradictory", "it passed the change and says that it does not answer the owner's words"
    return "", ""


def _findings(raw: Sequence[object], given: Input) -> list[Finding]:
    """Those that count."""
    return [
        one for one in map(_finding, raw) if one is not None and _says(one.message) and _says(one.passes_when) and _placed(one, given.diff)
    ]


def _finding(one: object) -> Finding | None:
    if not isinstance(one, Mapping) or not isinstance(evidence := one.get("evidence"), (list, tuple)):
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
    return len(VAGUE.sub(" ", text).split()) >= FEWEST_WORDS


def _refutes(text: str, given: Input) -> bool:
    """Whether a falsifier is no negation and names a name of the change, the metric, memory or a number."""
    if not _says(text) or NEGATED.search(text):
        return False
    seen = {*NAME.findall(HEADER.sub("", given.diff)), *METRIC.findall("\n".join(given.floor)), "memory", "metric"} - {*keyword.kwlist}
    return any(letter.isdigit() for letter in text) or not seen.isdisjoint(NAME.findall(text))


def _numbers(value: object) -> object:
    """A list as the tuple that the record has; what is no list of whole numbers is left for the record to refuse."""
    return tuple(value) if isinstance(value, (list, tuple)) and len(value) <= MOST_CRITERIA else value
