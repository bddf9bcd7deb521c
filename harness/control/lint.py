"""What a valid program.md may not mean: rules that collide, criteria nobody can check, wishes in the prose that no rule holds. Pure; warnings, never errors.

A key that is not written never collides: what a person did not say she cannot have meant otherwise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from itertools import islice
from typing import NamedTuple

import tomli

from harness import contradictions, rule_lines
from harness.contradictions import Contradiction
from harness.control import wishes
from harness.control.wishes import Finding
from harness.evaluation import bans
from harness.proposers.wire import KEYS
from harness.rules import Rules
from harness.tables import Tables
from harness.trial import OFFLINE

MOST = 20
NEUTRAL = Tables()  # a default is no wish, written or not


@dataclass(frozen=True)
class Surroundings:
    """Where the rules are to be obeyed: the names of the environment variables that are set, and the local time."""

    environ: frozenset[str]
    now: datetime


class Law(NamedTuple):
    """Rules with the keys that are written, and their surroundings."""

    rules: Rules
    written: frozenset[tuple[str, str]]
    around: Surroundings


def warnings(text: str, rules: Rules, around: Surroundings) -> tuple[Finding, ...]:
    """All that may not be meant in the program.md `text`, from which `rules` were read, in the order of its lines; the first `MOST`."""
    first, block = rule_lines.find_block(lines := rule_lines.split(text.removeprefix("\ufeff")))
    table = tomli.loads("\n".join(block) + "\n")
    law = Law(rules, frozenset((name, key) for name, keys in table.items() for key in keys), around)
    found = [Finding(*rule_lines.sentence(one, table, rules, first, block)) for part in PARTS for one in islice(part(law), MOST)]
    found += wishes.vague(rules.review.criteria, first, block)
    found += islice(_unlike(wishes.uncovered(lines, rules, law.written)), MOST)
    return tuple(sorted(dict.fromkeys(found)))[:MOST]


def new(before: Sequence[Finding], after: Sequence[Finding]) -> list[str]:
    """What is said now and was not before, line numbers aside, each with its line."""
    known = {_unnumbered(one.said) for one in before}
    return [f"program.md:{one.line}: {one.said}" for one in after if _unnumbered(one.said) not in known]


def over(said: Sequence[str], after: Sequence[Finding]) -> tuple[str, ...]:
    """Of a study's warnings those of the lint that a text with the findings `after` does not earn; none when these may not be all."""
    now = {_unnumbered(one.said) for one in after}
    mended = (one for one in said if one.startswith("lint: ") and _unnumbered(one.split(": ", 2)[-1]) not in now)
    return tuple(mended) if len(after) < MOST else ()


def _unlike(found: Iterator[Finding]) -> Iterator[Finding]:
    """Each once, as they come: who takes the first few does not compute the others."""
    known = set[Finding]()
    for one in found:
        if one not in known:
            known.add(one)
            yield one


def _unnumbered(said: str) -> str:
    return re.sub(r"\(line \d+\)", "", said)


def _ends(law: Law) -> Iterator[Contradiction]:
    """Limits that the number of trials keeps from being reached."""
    trials = law.rules.stop.trials
    if trials is None:
        return
    counted = (
        ("stop", "plateau", law.rules.stop.plateau, "is not less than {1}: the study ends before nothing was kept for so long"),
        ("escalation", "consecutive_crashes", law.rules.escalation.consecutive_crashes, "is more than {1}: so many trials never fail in a row"),
        ("keep", "remeasure_incumbent_after", law.rules.keep.remeasure_incumbent_after, "is not less than {1}: the incumbent is never measured again"),
        ("stall", "after", law.rules.stall.after, "is not less than {1}: no rung is ever climbed"),
    )  # fmt: skip
    for table, key, value, said in counted:
        least = trials + 1 if key == "consecutive_crashes" else trials
        meant = (table, key) in law.written and value != getattr(getattr(NEUTRAL, table), key)
        if meant and value is not None and value >= least:
            yield Contradiction(f"{{0}} {said}", ((table, key), ("stop", "trials")))


def _ladder(law: Law) -> Iterator[Contradiction]:
    stall, trials, names = law.rules.stall, law.rules.stop.trials, law.rules.model.names
    after, rungs = stall.after, ("stall", "rungs")
    written = next((key for key in ("quota", "rungs", "after") if ("stall", key) in law.written), None)
    if (
        written
        and after is not None
        and trials is not None
        and stall.rungs
        and after < trials <= after + stall.quota * (len(stall.rungs) - 1)
    ):
        said = f"the ladder of [stall] takes {after + stall.quota * (len(stall.rungs) - 1):,} trials to its last rung by {{0}}, as many as {{1}} or more"
        yield Contradiction(said, (("stall", written), ("stop", "trials")))
    plateau = law.rules.stop.plateau
    if written and stall.rungs and after is not None and plateau is not None and plateau <= after < (trials or math.inf):
        yield Contradiction("{0} is not more than {1}: the study ends before a rung is climbed", (("stop", "plateau"), ("stall", "after")))
    if rungs not in law.written:
        return
    if "other_model" in stall.rungs and (len(names) < 2 or not _models(law)):
        yield Contradiction(
            "{0} has 'other_model', and there is no other one: {1} has one name, or no model proposes", (rungs, ("model", "names"))
        )
    if "critic" in stall.rungs:
        yield from _critic(law, rungs)


def _critic(law: Law, rungs: tuple[str, str]) -> Iterator[Contradiction]:
    """Why the critic would not be asked, as far as the rules and the environment tell."""
    stop, money = law.rules.stop, ("stop", "dollars")
    if not _reachable(law):
        yield Contradiction("{0} has 'critic', and no key for a model is set in the environment: it is passed over", (rungs,))
    elif stop.dollars is None and stop.calls is None and stop.tokens is None:
        yield Contradiction(
            "{0} has 'critic', and none of {1}, calls and tokens limits what models may use: it is passed over", (rungs, money)
        )
    elif not _kinds(law) - OFFLINE:
        yield Contradiction("{0} has 'critic', and nobody who proposes reads what it says: it is passed over", (rungs,))


def _reviews(law: Law) -> Iterator[Contradiction]:
    asks, stop = ("review", contradictions.asking(law.rules)), law.rules.stop
    if not asks[1]:
        return
    if not _reachable(law):
        yield Contradiction(
            "{0} asks for reviews, and no key for a model is set in the environment: every such keep waits for you", (asks,)
        )
    if stop.dollars is None and stop.calls is None and stop.tokens is None:
        yield Contradiction(
            "{0} asks for reviews, and none of {1}, calls and tokens limits what models may use", (asks, ("stop", "dollars"))
        )
    if stop.tokens is not None and stop.tokens < law.rules.review.max_tokens:
        yield Contradiction("{0} is less than {1}: no review fits", (("stop", "tokens"), ("review", "max_tokens")))


def _amounts(law: Law) -> Iterator[Contradiction]:
    rules, stop = law.rules, law.rules.stop
    if "anthropic" in _kinds(law) and stop.tokens is not None and stop.tokens < rules.model.max_tokens:
        yield Contradiction("{0} is less than {1}: no answer of a model fits", (("stop", "tokens"), ("model", "max_tokens")))
    for name in rules.review.symbols:
        if bans.axis_named(rules.ban, name):
            shown = re.sub(r"[{}\s]", "", name)[:60]
            said = f"{{0}} has {shown}, which {{1}} forbids to change: no review of it can ever come"
            yield Contradiction(said, (("review", "symbols"), ("ban", "axes")))
    for key in ("micro_batch", "total_batch") if rules.correction.attempts else ():
        if bans.axis_named(rules.ban, getattr(rules.correction, key)):
            yield Contradiction(
                "{0} has what {1} names: a candidate that ran out of memory cannot be repaired", (("ban", "axes"), ("correction", key))
            )


def _messages(law: Law) -> Iterator[Contradiction]:
    escalation, channels = law.rules.escalation, ("escalation", "channels")
    for name in escalation.channels:
        if name not in law.around.environ:
            shown = re.sub(r"[{}\s]", "", name)[:60]
            yield Contradiction(f"{{0}} names {shown}, which is not set in the environment: nothing can be sent there", (channels,))
    if escalation.channels and not escalation.messages:
        yield Contradiction("{0} says where to send, and {1} that nothing is sent", (channels, ("escalation", "messages")))


def _waiting(law: Law) -> Iterator[Contradiction]:
    """Questions and the hours of a night."""
    escalation, answer = law.rules.escalation, ("escalation", "answer_minutes")
    wait, night = timedelta(minutes=min(escalation.answer_minutes, 1e6)), _night(law)
    if answer in law.written and night is not None and wait > night and law.rules.stop.hours is not None:
        yield Contradiction("{0} is longer than {1}: no question of this night takes its default", (answer, ("stop", "hours")))
    if escalation.quiet is None or not escalation.channels:
        return
    quiet, hours = _quiet(escalation.quiet, law.around.now), ("escalation", "quiet")
    if night is not None and quiet[0] <= law.around.now and law.around.now + night <= quiet[1]:
        yield Contradiction("{0} covers the whole night by {1}: nothing is sent before it is over", (hours, _end_key(law)))
    if quiet[1] - quiet[0] > wait:
        yield Contradiction("{0} takes longer than {1}: a question may take its default before it is sent", (hours, answer))


def _quiet(ends: tuple[str, str], now: datetime) -> tuple[datetime, datetime]:
    """The quiet hours that `now` lies in, or else the next ones."""
    begin, end = (time.fromisoformat(text) for text in ends)
    for day in (-1, 0, 1):
        start = now.replace(hour=begin.hour, minute=begin.minute, second=0, microsecond=0) + timedelta(days=day)
        over = start.replace(hour=end.hour, minute=end.minute)
        over += timedelta(days=int(over <= start))
        if over > now:
            break
    return start, over


def _night(law: Law) -> timedelta | None:
    """How long it may take from now, as far as hours and deadline say."""
    stop, now, found = law.rules.stop, law.around.now, []
    if stop.hours is not None:
        found.append(timedelta(hours=min(stop.hours, 1e5)))
    if stop.deadline is not None:
        then = now.replace(hour=int(stop.deadline[:2]), minute=int(stop.deadline[3:]), second=0, microsecond=0)
        found.append(then - now + timedelta(days=int(then <= now)))
    return min(found) if found else None


def _end_key(law: Law) -> tuple[str, str]:
    return ("stop", "hours" if law.rules.stop.hours is not None else "deadline")


def _kinds(law: Law) -> set[str]:
    return {str(kind) for kind in law.rules.proposer.mix or {law.rules.proposer.kind: 1.0}}


def _models(law: Law) -> bool:
    return bool(_kinds(law) - {"search"})


def _reachable(law: Law) -> bool:
    """Whether a model could be asked: a key is set, or a server of one's own needs none."""
    model = law.rules.model
    return any(name in law.around.environ for name in ((model.key,) if model.key else KEYS)) or (
        model.base_url is not None and model.key is None
    )


PARTS = (_ends, _ladder, _reviews, _amounts, _messages, _waiting)
