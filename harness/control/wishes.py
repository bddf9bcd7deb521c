"""What a person wrote in words: closing criteria that nobody can check, and wishes that the rules block does not hold. Pure; few false alarms.

It knows a short list of patterns and stays silent in doubt: prose is read by proposers, and most of it is advice.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness import rule_lines
from harness.rules import Rules

LONGEST = 600  # characters of a sentence that are looked at


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
    r"\b(never|must|at most|no more than|not more than|stop|ask|only|do not|don't|not allowed|forbidden|limit|within|less than|under)\b",
    re.IGNORECASE,
)
SUBJECTS: tuple[tuple[re.Pattern[str], tuple[tuple[str, str], ...]], ...] = (
    (re.compile(rf"\b(?:memory|vram|ram)\b.*\b{NUMBER}|\b{NUMBER}\s*(?:gib|gb|mib|mb)\b", re.I), (("trial", "memory_mb"), ("review", "memory_percent"))),
    (re.compile(rf"\b{NUMBER}\s+(?:\w+\s+)?lines\b", re.I), (("review", "added_lines"), ("keep", "complexity_per_line"))),
    (re.compile(r"\$\s?\d|\b(?:dollars?|usd|money)\b", re.I), (("stop", "dollars"), ("proposer", "call_dollars"))),
    (re.compile(rf"\b(?:stop|end|until|night)\b.*\b{NUMBER}\s+hours?\b|\b(?:stop|end|until|before)\b.*\b\d\d?:\d\d\b", re.I), (("stop", "hours"), ("stop", "deadline"))),
    (re.compile(rf"\b(?:stop|end|at most|no more than)\b.*\b{NUMBER}\s+(?:trials|experiments)\b", re.I), (("stop", "trials"), ("stop", "plateau"), ("stall", "after"))),
    (re.compile(r"\b(?:stop|ask|end)\b.*\b(?:no improvement|without improvement|without a keep|nothing is kept|plateau|stuck|no progress|stops improving)\b", re.I), (("stop", "plateau"), ("stall", "after"))),
    (re.compile(r"\b(?:stop|ask|end)\b.*\bcrash(?:es|ed)?\b", re.I), (("escalation", "consecutive_crashes"),)),
    (re.compile(r"\bask (?:me|us|first|before|a person|a human|the owner)\b|\b(?:must|never)\b.*\bmy (?:approval|permission|word)\b", re.I), (("escalation", "channels"), ("review", "symbols"), ("review", "added_lines"), ("review", "memory_percent"), ("review", "implausible"))),
    (re.compile(rf"\b{NUMBER}\s+(?:model |api )?calls\b", re.I), (("stop", "calls"),)),
)  # fmt: skip
BANNED = re.compile(
    r"\b(?:never|do not|don't|must not|no need to)\s+(?:try|use|add|touch|change|turn|tune|propose|import|raise|lower|increase|decrease|modify|edit)\s+"
    r"(?:the |a |an |any |more |with )*(`[^`\n]{1,60}`|[A-Za-z][\w.-]*)",
    re.IGNORECASE,
)
NO_AXES = re.compile(
    r"it|its|this|that|these|those|them|anything|something|things|nothing|more|others?|what|which|your?|same|ideas?|code|files?|seeds?|one|two|all|any|"
    r"than|to|for|at|on|in|of|by|and|as|if|when|so|too|up|off"
)
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


def uncovered(text: str, rules: Rules, written: frozenset[tuple[str, str]]) -> Iterator[Finding]:
    """Sentences outside the block that want something which a key could hold, when none of its keys is written."""
    for line, sentence in sentences(rule_lines.split(text)):
        if not WISH.search(sentence):
            continue
        keys = next((keys for pattern, keys in SUBJECTS if pattern.search(sentence)), ())
        if keys and not written & set(keys):
            more = f" or {' or '.join(f'[{table}] {key}' for table, key in keys[1:2])}" if len(keys) > 1 else ""
            yield Finding(line, f"no rule holds {_quoted(sentence)}; [{keys[0][0]}] {keys[0][1]}{more} could")
        yield from (Finding(line, said) for said in _unbanned(sentence, rules))
        if rules.sandbox.level == "none" and NETWORK.search(sentence):
            yield Finding(line, f"no rule holds {_quoted(sentence)}; [sandbox] level is 'none', so candidates reach the network")


def _unbanned(sentence: str, rules: Rules) -> Iterator[str]:
    """What a sentence forbids by name, unless `[ban]` has it or it is a file that may not change anyway."""
    known = " ".join((*rules.ban.axes, *rules.ban.words, *rules.ban.imports)).casefold()
    for found in BANNED.finditer(sentence):
        name = found.group(1).strip("`.,;:")
        if name in rules.scope.editable:
            yield f"no rule holds {_quoted(sentence)}; [scope] editable has {name!r}"
        elif not name or NO_AXES.fullmatch(name.casefold()) or "/" in name or re.search(r"\.\w{1,4}$", name) or name.casefold() in known:
            continue
        else:
            yield f"no rule holds {_quoted(sentence)}; [ban] axes or words could, with {name!r}"


def sentences(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The sentences of the prose with the line that each begins on; fenced blocks, headings and tables are none."""
    fence, run = "", list[tuple[int, str]]()
    for number, line in enumerate([*lines, ""], start=1):
        bare = line.strip()
        mark = re.match(r"(`{3,}|~{3,})", bare)
        if fence:
            fence = "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
            continue
        ends = not bare or mark or bare.startswith(("#", "|", ">"))
        if run and (ends or re.match(r"([-*+]|\d+[.)])\s", bare)):
            yield from _cut(run)
            run = []
        fence = mark.group(1) if mark else ""
        run += [] if ends else [(number, re.sub(r"^([-*+]|\d+[.)])\s+", "", bare))]


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
