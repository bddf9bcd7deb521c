"""What a journal owes its reader, by the journal alone: was a budget overdrawn, a rule applied that was not in force, a stop or a climb left unexplained.

It counts for itself and asks no counter of the harness, but for the sums of money, which `Calls` keeps. `laws` has the rules by digest: the journal names them so.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.artifacts import events as ev
from harness.artifacts import oversight_events as ov
from harness.artifacts.call_events import Answered, Asked
from harness.artifacts.calls import Calls
from harness.artifacts.events import Entry, Event
from harness.rules import Rules
from harness.trial import FAILED, MEASURED, Status

Laws = Mapping[str, Rules]
SMALL = 1e-9
ONE_LINE = 600


@dataclass
class Books:
    """The state of a study after a prefix of its journal, as far as its limits and its law are concerned."""

    limits: dict[str, Any] = field(default_factory=dict)
    digest: str = ""
    trials: int = 0
    turn_began: float = 0.0
    calls: Calls = field(default_factory=Calls)
    repairs: Counter[int] = field(default_factory=Counter)
    reviews: int = 0
    messages: int = 0
    failures: int = 0
    refusals: int = 0
    interruptions: int = 0
    began_under: dict[int, str] = field(default_factory=dict)
    stopped: ev.Stopped | None = None

    def take(self, entry: Entry) -> None:
        """Book one entry."""
        event = entry.event
        if isinstance(event, ev.StudyStarted | ev.Resumed):
            self.limits = dict(event.limits)
            self.digest = event.rules_digest if isinstance(event, ev.StudyStarted) else self.digest
            if self.stopped is not None:
                self.failures = self.refusals = 0
            self.stopped = None
        elif isinstance(event, ev.RulesChanged):
            self.digest, self.limits = event.digest, dict(event.limits) if event.limits is not None else self.limits
        elif isinstance(event, ev.Begun):
            self.began_under[event.trial], self.refusals = self.digest, 0
            self.repairs.update([event.repairs] if event.repairs is not None else [])
        elif isinstance(event, ev.Decided):
            self._decided(event)
        elif isinstance(event, ev.Settled):
            self.trials += int(event.trial > 0)
        elif isinstance(event, ev.Stopped):
            self.stopped = event
        else:
            self._count(event)
        if isinstance(event, ev.StudyStarted | ev.Resumed | ev.Settled | ev.Refused | ev.BarMoved):
            self.turn_began = entry.elapsed

    def _decided(self, event: ev.Decided) -> None:
        status = event.verdict.status
        self.failures = self.failures + 1 if status in FAILED else 0 if status in MEASURED else self.failures

    def _count(self, event: Event) -> None:
        self.refusals += int(isinstance(event, ev.Refused))
        self.messages += int(isinstance(event, ov.Sending))
        if isinstance(event, Asked):
            self.calls.asked(event)
            self.reviews += int(_asks_for_a_review(event))
        elif isinstance(event, Answered):
            self.calls.answered(event)


def overdrawn(entries: Sequence[Entry], laws: Laws) -> list[str]:
    """Every reservation that its limit no longer had room for. A budget is thereby never exceeded by more than the one that was under way."""
    books, found = Books(), []
    for entry in entries:
        found += [f"line {entry.seq}: {fault}" for fault in _reserves(books, entry.event, laws)]
        books.take(entry)
        found += [f"line {entry.seq}: {fault}" for fault in _after(books, entry.event)]
    return found


def _reserves(books: Books, event: Event, laws: Laws) -> Iterator[str]:
    limits, law = books.limits, laws.get(books.digest)
    if isinstance(event, ev.Begun) and event.trial > 0:
        if limits.get("trials") is not None and books.trials >= limits["trials"]:
            yield f"trial {event.trial} began when all {limits['trials']} were done"
        if limits.get("hours") is not None and books.turn_began > limits["hours"] * 3600:
            yield f"trial {event.trial} was asked for when the time was used up"
        if law is not None and event.repairs is not None:
            if books.repairs[event.repairs] >= law.correction.attempts:
                yield f"trial {event.repairs} is repaired more often than {law.correction.attempts} times"
            if books.repairs.total() >= law.correction.in_all:
                yield f"more than {law.correction.in_all} repairs"
    elif isinstance(event, Asked):
        yield from _calls(books, event)
        if _asks_for_a_review(event) and law is not None and books.reviews >= law.review.in_all:
            yield f"more than {law.review.in_all} reviews"
    elif isinstance(event, ov.Sending) and law is not None and books.messages >= law.escalation.messages:
        yield f"more than {law.escalation.messages} messages"


def _asks_for_a_review(event: Asked) -> bool:
    """A review is spent by asking: one that no budget had room for cost nothing, one that was cut off did."""
    return event.review is not None and not event.retry


def _calls(books: Books, event: Asked) -> Iterator[str]:
    limits, calls = books.limits, books.calls
    if limits.get("calls") is not None and calls.made >= limits["calls"]:
        yield f"call {event.call} was made when all {limits['calls']} were used"
    if limits.get("retries") is not None and event.retry and calls.retries >= limits["retries"]:
        yield f"call {event.call} is a retry too many"
    if limits.get("tokens") is not None and calls.tokens + calls.held_tokens + (event.tokens or 0) > limits["tokens"]:
        yield f"call {event.call} may use more tokens than were left"
    if limits.get("dollars") is not None and calls.charged_usd + calls.held_usd + (event.dollars or 0.0) > limits["dollars"] + SMALL:
        yield f"call {event.call} may cost more dollars than were left"


def _after(books: Books, event: Event) -> Iterator[str]:
    """What a row says was left must be what is left by our own count."""
    if isinstance(event, ev.Decided) and event.trial > 0:
        allowed, left = books.limits.get("trials"), event.budget_left.trials
        if left != (None if allowed is None else max(0, allowed - books.trials - 1)):
            yield f"trial {event.trial} says that {left} trials were left, with {books.trials} done of {allowed}"
        if (allowed := books.limits.get("calls")) and event.budget_left.calls != max(0, allowed - books.calls.made):
            yield f"trial {event.trial} says that {event.budget_left.calls} calls were left"


def lawless(entries: Sequence[Entry], laws: Laws, patches: Mapping[int, str]) -> list[str]:
    """Every decision by a rule that was not in force when its trial began, and every admission that the rules in force forbid; `patches` has each trial's diff."""
    books, found = Books(), []
    for entry in entries:
        event = entry.event
        if isinstance(event, ev.StudyStarted | ev.RulesChanged):
            digest = event.rules_digest if isinstance(event, ev.StudyStarted) else event.digest
            if digest not in laws:
                found.append(f"line {entry.seq}: rules {digest[:12]} that nobody wrote, or that are not valid, are in force")
        if isinstance(event, ev.Decided) and event.rules_digest != books.began_under.get(event.trial):
            found.append(f"line {entry.seq}: trial {event.trial} was judged by {event.rules_digest[:12]}, not by the rules it began under")
        if isinstance(event, ev.Decided) and (law := laws.get(event.rules_digest)) and event.verdict.rule != law.keep.rule:
            found.append(f"line {entry.seq}: trial {event.trial} was judged by {event.verdict.rule!r}, the rules say {law.keep.rule!r}")
        if isinstance(event, ev.Begun) and event.trial > 0 and (law := laws.get(books.digest)):
            found += [f"line {entry.seq}: trial {event.trial} {fault}" for fault in _banned(law, event, patches.get(event.trial, ""))]
        books.take(entry)
    return found


def _turned(patch: str) -> set[str]:
    """Names whose value is another one after the change; a comment behind the same value turns nothing."""
    values: dict[str, dict[str, list[str]]] = {"-": {}, "+": {}}
    for sign, name, value in re.findall(r"^([+-])(\w+)(?:: \w+)? = (.*)$", patch, re.MULTILINE):
        values[sign].setdefault(name, []).append(_plain(value))
    return {name for name in values["-"].keys() | values["+"].keys() if values["-"].get(name) != values["+"].get(name)}


def _plain(value: str) -> str:
    try:
        return ast.dump(ast.parse(value, mode="eval"))
    except SyntaxError:  # the head of something longer
        return value


def _banned(law: Rules, event: ev.Begun, patch: str) -> Iterator[str]:
    added = [line[1:] for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
    turned = {event.axis.casefold(), *(name.casefold() for name in _turned(patch))}
    yield from (f"turns {axis!r}, which is banned" for axis in law.ban.axes if axis.casefold() in turned)
    yield from (f"says {word!r}, which is banned" for word in law.ban.words if any(word.casefold() in line.casefold() for line in added))
    for module in law.ban.imports:
        if any(re.match(rf"\s*(import|from) +{re.escape(module)}\b", line) for line in added):
            yield f"imports {module!r}, which is banned"


def unexplained(entries: Sequence[Entry]) -> list[str]:
    """Every stop, climb, follow-up and question without one line that says why; every stop whose reason the journal does not bear out; questions settled twice."""
    books, found = Books(), []
    settled: Counter[int] = Counter()
    for entry in entries:
        event = entry.event
        for name, said in _reasons(event):
            if not said.strip() or len(said.splitlines()) != 1 or len(said) > ONE_LINE:
                found.append(f"line {entry.seq}: {event.kind} does not say its {name} in one line: {said[:80]!r}")
        if isinstance(event, ev.Stopped) and (fault := _not_borne_out(books, event)):
            found.append(f"line {entry.seq}: {fault}")
        if isinstance(event, ov.Resolved):
            settled[event.question] += 1
        books.take(entry)
    found += [f"question {number} was settled {count} times" for number, count in settled.items() if count > 1]
    asked = [entry.event.question.number for entry in entries if isinstance(entry.event, ov.Escalated)]
    if asked != list(range(1, len(asked) + 1)):
        found.append(f"questions are numbered {asked}")
    if not entries or not isinstance(entries[-1].event, ev.Stopped):
        found.append("the journal does not end with a stop")
    return found


def _reasons(event: Event) -> Iterator[tuple[str, str]]:
    if isinstance(event, ev.Stopped):
        yield from (("reason", event.stop.reason), ("sentence", event.stop.sentence))
    elif isinstance(event, ov.Climbed):
        yield "reason", event.why
    elif isinstance(event, ov.FollowedUp):
        yield "cause", event.cause
    elif isinstance(event, ov.Detected):
        yield "detail", event.detail
    elif isinstance(event, ov.Escalated):
        yield from (("goal", event.question.goal), ("impact", event.question.impact))
    elif isinstance(event, ev.Refused | ev.Interrupted):
        yield "reason", event.reason


def _not_borne_out(books: Books, event: ev.Stopped) -> str | None:
    """A stop for a reason that can be counted, when the count says otherwise."""
    limits, reason = books.limits, event.stop.reason
    counted = {
        "trials": limits.get("trials") is not None and books.trials >= limits["trials"],
        "consecutive_crashes": books.failures > 0,
        "refused_proposals": books.refusals > 0,
        "hours": limits.get("hours") is not None,
        "deadline": limits.get("deadline") is not None,
    }
    return None if counted.get(reason, True) else f"it stopped for {reason}, and the journal does not bear that out"


def statuses(entries: Sequence[Entry]) -> Counter[Status]:
    """How many trials ended how."""
    return Counter(entry.event.verdict.status for entry in entries if isinstance(entry.event, ev.Decided) and entry.event.trial > 0)
