"""What a person wrote in words: closing criteria that nobody can check, and wishes that the rules block does not hold. Pure; few false alarms.

It knows a short list of patterns and stays silent in doubt: prose is read by proposers, and most of it is advice.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from harness import rule_lines
from harness.rules import Rules

LONGEST = 400  # characters of a sentence that are looked at
READ = 65_536  # characters outside of fences that are read: it is done between trials
LOOKED_AT = 600  # sentences


class Finding(NamedTuple):
    """One warning, and the line of program.md it is about."""

    line: int
    said: str


VAGUE = re.compile(
    r"\b(good|better|best|nice|nicely|clean|cleaner|elegant|reasonabl[ey]|appropriate(?:ly)?|readable|simple|simpler|sensibl[ey]|robust|proper|properly|quality|well|efficient|"
    r"maintainable|acceptable|suitable|sound|sane|okay|ok|fine|useful|worthwhile|makes sense|as needed|improve[sd]?|significant(?:ly)?|high-quality|idiomatic)\b",
    re.IGNORECASE,
)
OBSERVED = re.compile(
    r"\d|`|\w\(\)|\w_\w|\b[A-Z]{2,}|\.\w{2,3}\b|\b(one|two|three|no more than|at most|at least|more than|fewer|less than|same|equal|identical|unchanged|removed|removing|without|no longer|"
    r"only if|passes|fails|raises|returns|tests?|lines?|diff|flag|imports?|constants?|functions?|comments?|every|each|none|never)\b"
)
NUMBER = r"(?:\d[\d,_.]*|a|an|one|two|three|four|five|six|eight|ten|twelve|fifteen|twenty|thirty|forty|fifty|hundred)"
WISH = re.compile(
    r"\b(never|must|at most|no more than|not more than|stop|quit|ask|asking|only|do not|don't|not allowed|forbidden|banned|off[ -]limits|limit(?! of)|within|less than|under|avoid|"
    r"leave|away from|hands off|wake|phone|text|page|notify|alert|ping|e?-?mail|message)\b",
    re.IGNORECASE,
)
GAP = ".{0,120}"  # what may stand between two words that belong together
ENDS = r"\b(?:stop|quit|halt|end|ask)\b"
REFUSED = re.compile(  # asking or stopping itself is not wanted
    r"\b(?:never|not|don't|cannot|can't|without|no need to|instead of|rather than)\s+(?:\w+\s+){0,2}?(?:stop|stopping|quit|quitting|halt|end|ask|wake|phone|text|page|notify|alert|ping|e?-?mail|message)\b",
    re.IGNORECASE,
)
SIZE = r"\b\d[\d,_.]*\s*(?:gib|gb|mib|mb|%|percent)"
CHANGE = r"\b(?:add|adds|added|adding|changes?|grows?|growing|writes?|inserts?|diffs?|patch|patches|proposals?|candidates?)\b"
LIMIT = r"\b(?:more than|at most|over|beyond|above|exceeds?|fewer than|less than|under|below|within)"
STOPS: tuple[tuple[re.Pattern[str], tuple[tuple[str, str], ...]], ...] = (
    (re.compile(rf"{ENDS}{GAP}\b{NUMBER}\s+(?:\w+\s+)?(?:failures|failed)\b", re.I), (("stop", "plateau"), ("escalation", "consecutive_crashes"), ("stall", "after"))),
    (re.compile(rf"(?:{ENDS}|\buntil\b|\bnight\b){GAP}\b{NUMBER}\s+hours?\b|(?:{ENDS}|\buntil\b|\bbefore\b){GAP}\b(?:\d\d?:\d\d|\d\d?\s?[ap]m)\b", re.I), (("stop", "hours"), ("stop", "deadline"))),
    (re.compile(rf"(?:{ENDS}|\bat most\b|\bno more than\b){GAP}\b{NUMBER}\s+(?:trials|experiments)\b", re.I), (("stop", "trials"), ("stop", "plateau"), ("stall", "after"))),
    (re.compile(rf"{ENDS}{GAP}\b(?:no improvement|without improvement|without a keep|nothing is kept|plateau|stuck|no progress|stops improving)\b", re.I), (("stop", "plateau"), ("stall", "after"))),
    (re.compile(rf"{ENDS}{GAP}\bcrash(?:es|ed)?\b", re.I), (("escalation", "consecutive_crashes"),)),
    (re.compile(r"\b(?:wake|phone|text|page|notify|alert|ping|e?-?mail|message) me\b", re.I), (("escalation", "channels"), ("escalation", "consecutive_crashes"))),
    (re.compile(r"\bask (?:me|us|first|before|a person|a human|the owner)\b", re.I), (("escalation", "channels"), ("review", "symbols"), ("review", "added_lines"), ("review", "memory_percent"), ("review", "implausible"))),
)  # fmt: skip
SUBJECTS: tuple[tuple[re.Pattern[str], tuple[tuple[str, str], ...]], ...] = (
    (re.compile(rf"\b(?:memory|vram|ram)\b{GAP}{SIZE}|{SIZE}{GAP}\b(?:memory|vram|ram)\b", re.I), (("trial", "memory_mb"), ("review", "memory_percent"))),
    (re.compile(rf"{CHANGE}{GAP}{LIMIT}\s+{NUMBER}\s+(?:\w+\s+)?lines\b(?! of (?:the |a |its )?(?:log|output))", re.I), (("review", "added_lines"), ("keep", "complexity_per_line"))),
    (re.compile(r"\$\s?\d|\b(?:dollars?|usd|money)\b", re.I), (("stop", "dollars"), ("proposer", "call_dollars"))),
    (re.compile(rf"\b(?:must|never)\b{GAP}\bmy (?:approval|permission|word)\b|\bwithout asking (?:me|us)\b", re.I), (("escalation", "channels"), ("review", "symbols"), ("review", "added_lines"), ("review", "memory_percent"), ("review", "implausible"))),
    (re.compile(rf"\b{NUMBER}\s+(?:model |api )?calls\b", re.I), (("stop", "calls"),)),
)  # fmt: skip
NAME = r"(`[^`\n]{1,60}`|[A-Za-z][\w.-]*(?![\w.-]))"
LEAD = r"(?:(?:the|a|an|any|more|with|use of|changes? (?:to|of|in)|using|changing|touching) )*"
BANNED = tuple(
    re.compile(one, re.IGNORECASE)
    for one in (
        r"\b(?:never|do not|don't|must not|no need to|not allowed to)\s+(?:try|use|add|touch|change|turn|tune|propose|import|raise|lower|increase|decrease|modify|edit)\s+"
        rf"{LEAD}{NAME}(?!\s+than\b)",
        rf"\b(?:avoid|keep away from|stay away from|hands off)\s+{LEAD}{NAME}",
        rf"\bleave\s+{LEAD}{NAME}\s+alone\b",
        rf"(?<![\w.`-])(?<!outside )(?<!than )(?<!but )(?<!except )(?<!beyond )(?<!not ){NAME}\s+(?:is|are)\s+(?:off[ -]limits|forbidden|not allowed|banned)\b",
    )
)
NO_AXES = re.compile(
    r"it|its|this|that|these|those|them|they|anything|something|everything|nothing|things?|more|else|others?|what|which|your?|me|my|our|same|ideas?|code|files?|seeds?|one|two|three|all|"
    r"any|both|each|than|to|for|at|on|in|of|by|and|as|if|when|so|too|up|off|well|such|several|many|multiple|some|few|every|"
    r"new|old|other|another|different|additional|extra|big|bigger|large|larger|huge|small|smaller|tiny|long|longer|complex|complicated|clever|fancy|magic|global|random|arbitrary|"
    r"external|third-party|unnecessary|needless|unrelated|premature|hard-coded|hardcoded|hidden|duplicate|duplicated|duplicates|expensive|"
    r"changes?|complexity|comments?|tricks?|hacks?|mistakes?|guesses|guesswork|errors?|failures?|crash|crashes|noise|repeats|repetition|access|dependenc(?:y|ies)|packages?|libraries|"
    r"variables?|numbers?|values?|lines?|\w+ly"
)
CONDITIONAL = re.compile(
    r"(?:if|when|whenever|where|wherever|while|unless|until|once|after|before)\b", re.IGNORECASE
)  # no ban has a condition
NETWORK = re.compile(r"\b(?:network|internet|download\w*|online)\b", re.IGNORECASE)


def vague(criteria: Sequence[str], first: int, block: Sequence[str]) -> Iterator[Finding]:
    """Closing criteria with a word of taste and nothing that could be observed."""
    at = rule_lines.line_in(block, ("review", "criteria"))
    for number, criterion in enumerate(criteria, start=1):
        word = VAGUE.search(criterion)
        if word and not OBSERVED.search(criterion):
            line = next((n for n in range(at, len(block)) if criterion in block[n]), at)
            said = f"[review] criteria, number {number}: nobody can check {word.group()!r}; say what can be observed, such as a name, a number or a comparison"
            yield Finding(first + line, said)


def uncovered(lines: Sequence[str], rules: Rules, written: frozenset[tuple[str, str]]) -> Iterator[Finding]:
    """Sentences outside the block that want something which a key could hold, when none of its keys is written."""
    for line, sentence in islice(sentences(lines), LOOKED_AT):
        if not WISH.search(sentence):
            continue
        subjects = SUBJECTS if REFUSED.search(sentence) else (*STOPS, *SUBJECTS)
        keys = next((keys for pattern, keys in subjects if pattern.search(sentence)), ())
        if keys and not written & set(keys):
            more = f" or {' or '.join(f'[{table}] {key}' for table, key in keys[1:2])}" if len(keys) > 1 else ""
            yield Finding(line, f"no rule holds {_quoted(sentence)}; [{keys[0][0]}] {keys[0][1]}{more} could")
        yield from (Finding(line, said) for said in _unbanned(sentence, rules))
        if rules.sandbox.level == "none" and NETWORK.search(sentence):
            yield Finding(line, f"no rule holds {_quoted(sentence)}; [sandbox] level is 'none', so candidates reach the network")


def _unbanned(sentence: str, rules: Rules) -> Iterator[str]:
    """What a sentence forbids by name, unless `[ban]` has it or it is a file that may not change anyway."""
    if CONDITIONAL.match(sentence):
        return
    known = " ".join((*rules.ban.axes, *rules.ban.words, *rules.ban.imports)).casefold()
    for found in (one for pattern in BANNED for one in pattern.finditer(sentence)):
        name = found.group(1).strip("`.,;:")
        if found.group().casefold().startswith("avoid") and name.endswith("ing"):
            continue
        if name in rules.scope.editable:
            yield f"no rule holds {_quoted(sentence)}; [scope] editable has {name!r}"
        elif not name or NO_AXES.fullmatch(name.casefold()) or "/" in name or re.search(r"\.\w{1,4}$", name) or name.casefold() in known:
            continue
        else:
            yield f"no rule holds {_quoted(sentence)}; [ban] axes or words could, with {name!r}"


def sentences(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The sentences of the first `READ` characters of prose with the line that each begins on; fenced blocks, headings and tables are none."""
    fence, run, left = "", list[tuple[int, str]](), READ
    for number, line in enumerate([*lines, ""], start=1):
        bare = line[:READ].strip()
        if fence:
            fence = "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
            continue
        bare, left = bare[: max(left, 0)], left - len(line) - 1
        mark = re.match(r"(`{3,}|~{3,})", bare)
        ends = not bare or mark or bare.startswith(("#", "|", ">"))
        if run and (ends or re.match(r"([-*+]|\d+[.)])\s", bare)):
            yield from _cut(run)
            run = []
        fence = mark.group(1) if mark else ""
        run += [] if ends else [(number, re.sub(r"^([-*+]|\d+[.)])\s+", "", bare))]
        if left < 0:
            yield from _cut(run)
            return


def _cut(run: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    text, starts = "", list[int]()
    for _, line in run:
        starts.append(len(text))
        text += f"{line} "
    begin = 0
    for end in (*(found.end() for found in re.finditer(r"[.!?](?=\s)", text)), len(text)):
        if sentence := text[begin:end].strip():
            inside = begin + len(text[begin:end]) - len(text[begin:end].lstrip())
            yield run[bisect_right(starts, inside) - 1][0], sentence[:LONGEST]
        begin = end


def _quoted(sentence: str) -> str:
    return repr(sentence if len(sentence) <= 100 else f"{sentence[:99]}…")
