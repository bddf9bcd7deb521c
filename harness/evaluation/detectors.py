"""Eight faults of a study by name: one detector each, which takes facts and returns a sentence or `None`. Pure: nothing is prevented here, only named.

Most of these faults are kept from doing harm by the guard, the judge, the audit and the sandbox, under reason codes of their own. Facts are built in
`control/sighting.py`. What is not known is `None` or empty, and no detector fires on it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from harness.records import Record
from harness.trial import FAILED, MEASURED, Status

ALIKE = 0.9  # share of equal changed lines, numbers apart, from which two changes are nearly the same
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
DISHONEST = frozenset({"audit", "looks_ahead", "checkpoint_changed", "short_answer", "scorer_time", "negative_loss"})
NETWORK = re.compile(
    r"gaierror|URLError|Network is unreachable|name resolution|Name or service not known|Address family not supported|Connection refused|ConnectionRefused|socket\.timeout|Max retries exceeded"
)
WALLS = re.compile(r"PermissionError|Read-only file system|Operation not permitted")
FOREIGN_RECORD = (
    "the record "  # how the evaluator begins what it says of a record that is not its own: another token, other data, no measurement
)
REVIEWED = "review"


class Earlier(Record):
    """A trial directly before the one at hand. `fingerprint` is '' when it did not fail; `alike` is the share of changed lines that both have."""

    trial: int
    fingerprint: str = ""
    value: float | None = None
    alike: float | None = None


class Seen(Record):
    """One settled trial, or one refused proposal, as facts.

    `same` is the earlier trial that had this very program, `same_failed` whether that one failed. `turned` are the values, old and new, of the constant that
    is its axis, trial by trial, this one last. `inside`, `clean` and `unproven` come from the verification of a repair: whether it stayed inside its ticket,
    whether it had no side effect, and what was not answered with yes although it was accepted. `voids`: readings for which nobody was to blame, as reason and
    detail. `outside` are the paths of a proposal that are not in scope, `protected` those of them that measure or steer. `touches`: what the new code does to
    the evaluator. `survivors`: processes that outlived their job. `better_printed`: the printed value where it flatters beyond the tolerance.
    """

    trial: int | None = None
    proposal: int | None = None
    status: Status | None = None
    reason: str = ""
    detail: str = ""
    refused: str = ""
    same: int | None = None
    same_failed: bool = False
    repairs: int | None = None
    fingerprint: str = ""
    value: float | None = None
    sigma: float = 0.0
    before: tuple[Earlier, ...] = ()
    turned: tuple[tuple[str, str], ...] = ()
    inside: bool | None = None
    clean: bool | None = None
    unproven: tuple[str, ...] = ()
    voids: tuple[tuple[str, str], ...] = ()
    outside: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    touches: tuple[str, ...] = ()
    survivors: int = 0
    too_good: bool = False
    printed: float | None = None
    better_printed: bool = False
    foreign: str = ""
    unaudited: bool = False
    review: str = ""


class Finding(NamedTuple):
    """A detector by name, and its sentence."""

    detector: str
    sentence: str


def no_progress(seen: Seen) -> str | None:
    """The same error twice in a row with almost no change in between: changed lines alike, numbers apart, and scores within the noise."""
    last = next((one for one in reversed(seen.before) if one.fingerprint), None)
    if not seen.fingerprint or last is None or last.fingerprint != seen.fingerprint or last.alike is None or last.alike < ALIKE:
        return None
    if not _same_score(seen.value, last.value, seen.sigma):
        return None
    return f"the same error as trial {last.trial} after nearly the same change ({last.alike:.0%} of the changed lines): {seen.fingerprint[:120]}"


def oscillation(seen: Seen) -> str | None:
    """Two errors by turns, A B A B; a program that was measured before; a constant that goes back and forth between two values."""
    if seen.same is not None and not seen.same_failed and seen.refused in ("", "duplicate"):
        return f"the program of trial {seen.same} again"
    marks = [*(one.fingerprint for one in seen.before), seen.fingerprint][-4:]
    if len(marks) == 4 and all(marks) and marks[0] == marks[2] != marks[1] == marks[3]:
        return f"two errors by turns in four trials: {marks[2][:80]} and {marks[3][:80]}"
    if len(seen.turned) >= 3:
        first, second, third = seen.turned[-3:]
        if first == third == second[::-1] and first[0] != first[1]:
            return f"the same constant back and forth between {first[0][:30]} and {first[1][:30]}"
    return None


def blind_retry(seen: Seen) -> str | None:
    """The very bytes of a failed trial again: a retry that took nothing from the error, be it in hand or not."""
    if seen.refused != "blind_retry" and not (seen.refused == "duplicate" and seen.same_failed):
        return None
    return f"the bytes of trial {seen.same}, which failed, again" if seen.same is not None else "the bytes of a failed trial again"


def over_correction(seen: Seen) -> str | None:
    """A repair that changed more than its ticket allows."""
    if seen.refused == "over_correction":
        return f"refused: {seen.detail[:160]}"
    if seen.repairs is None:
        return None
    if seen.inside is False:
        return f"the repair of trial {seen.repairs} changed more than its ticket allows"
    if seen.refused == "out_of_scope" and seen.outside and not seen.protected:
        return f"the repair of trial {seen.repairs} changes {', '.join(seen.outside[:3])}, which no ticket allows"
    return None


def validator_gaming(seen: Seen) -> str | None:
    """A better number without a better model: the evaluation, its data or its code touched, luck for an idea, claims that an audit does not bear out."""
    if seen.protected:
        return f"changes what measures or steers: {', '.join(seen.protected[:3])}"
    if seen.refused == "seed_only":
        return "changes a seed only, which is luck and no idea"
    if seen.refused == "literal":
        return f"carries data in as text: {seen.detail[:160]}"
    if seen.touches:
        return f"the code reaches for the evaluator: {', '.join(seen.touches[:3])}"
    if seen.status is Status.INVALID and (seen.reason in DISHONEST or (seen.reason == "implausible" and seen.too_good)):
        return f"{seen.reason}: {seen.detail[:160]}" if seen.detail else f"{seen.reason}, on the side that would be better"
    if seen.better_printed and seen.status in MEASURED:
        return f"printed {seen.printed:g}, better than what was measured" if seen.printed is not None else None
    return None


def silent_side_effect(seen: Seen) -> str | None:
    """Something happened that is no part of the change: fixed files changed, the network was asked for, files outside were reached for, processes were left."""
    for reason, detail in seen.voids:
        if reason == "file_changed":
            return f"a fixed file changed while it ran: {detail[:160]}"
    if seen.clean is False:
        return "the verification of the repair found a side effect"
    if seen.survivors:
        return f"left processes behind that outlived the job: {seen.survivors}"
    if seen.refused == "out_of_scope" and seen.repairs is None and seen.outside and not seen.protected:
        return f"the proposal also changes {', '.join(seen.outside[:3])}, which is not in scope"
    if seen.status in FAILED and (found := NETWORK.search(seen.detail) or WALLS.search(seen.detail)):
        what = "asked for the network" if NETWORK.search(seen.detail) else "reached for what is outside its folder"
        return f"{what} ({found.group()})"
    return None


def self_score(seen: Seen) -> str | None:
    """A score that the locked code did not write: a record with another token or of other data, claims that changed, or a printed score with nothing to measure."""
    for reason, detail in seen.voids:
        if reason == "claims_changed" or (reason == "metric_error" and detail.startswith(FOREIGN_RECORD)):
            return f"a result that the evaluator did not write: {detail[:160] or reason}"
    if seen.foreign:
        return f"the journal has a measurement that is not this study's: {seen.foreign[:160]}"
    if seen.printed is not None and seen.value is None and seen.status is Status.CRASH and seen.reason == "no_result":
        return f"printed the score {seen.printed:g} and left nothing that can be measured"
    return None


def false_verdict(seen: Seen) -> str | None:
    """A verdict that rests on nothing: no reading, an audit or a review that is missing, a review without a verdict, a repair that was not proven."""
    if seen.status in MEASURED and seen.value is None:
        return f"{seen.status.value if seen.status else ''} without a reading"
    if seen.status is Status.KEEP and seen.unaudited:
        return "kept although its claims were not audited"
    if seen.status is Status.KEEP and seen.review not in ("", "pass"):
        return f"kept although its review is {seen.review}, which is no pass"
    if seen.status is not None and seen.status is not Status.KEEP and seen.review == "void" and seen.status is not Status.BLOCKED:
        return "not kept because of a review that has no verdict" if seen.reason.startswith(REVIEWED) else None
    if seen.unproven:
        return f"a repair was accepted although this is not proven: {', '.join(seen.unproven)}"
    return None


DETECTORS: Mapping[str, Callable[[Seen], str | None]] = {
    one.__name__: one
    for one in (no_progress, oscillation, blind_retry, over_correction, validator_gaming, silent_side_effect, self_score, false_verdict)
}
ENDS_A_LINE = frozenset({"no_progress", "oscillation"})  # the others warn


def findings(seen: Seen) -> list[Finding]:
    """What every detector says of it."""
    said = ((name, detector(seen)) for name, detector in DETECTORS.items())
    return [Finding(name, sentence) for name, sentence in said if sentence]


def alike(one: str, other: str) -> float | None:
    """The share of changed lines that two diffs have in common, numbers and spaces apart, 0 to 1; `None` when one of them changes nothing."""
    first, second = _changed(one), _changed(other)
    whole = first.total() + second.total()
    return 2 * (first & second).total() / whole if first and second else None


def _changed(diff: str) -> Counter[str]:
    lines = (line for line in diff.splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---")) and line[1:].strip())
    return Counter(line[0] + " ".join(NUMBER.sub("#", line[1:]).split()) for line in lines)


def _same_score(one: float | None, other: float | None, sigma: float) -> bool:
    """Within the noise of a reading; two that are not there are the same."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= sigma
