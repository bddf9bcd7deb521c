"""The closing questions of a repair, answered by code: did the first error go, did everything else stay, and is the number one that we made? Pure.

What could not be told is `None`, which is never a yes. A repair is accepted when all answers are yes; whether the repaired candidate is any better is the judge's
word, and no yes here makes a keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.artifacts.trial_row import TrialRow
from harness.evaluation import causes, judge, tickets
from harness.followups import Outcome, Ticket, Verification
from harness.rules import Rules
from harness.trial import Bar, JobEnd, Reading, Status, Verdict

SIDE_EFFECTS = frozenset({"checkpoint_changed", "protocol", "late_failure"})  # what a job did behind its last word, or against the contract
Texts = Mapping[str, str]


def verify(
    ticket: Ticket, failed: TrialRow, verdict: Verdict, readings: Sequence[Reading], before: Texts, after: Texts, fingerprint: str,
    usual: int | None, rules: Rules,
) -> Verification:  # fmt: skip
    """What a repair of `failed` comes to. `before`, `after`: the files; `fingerprint`: of how the repair failed, '' when it was measured; `usual`: tokens that
    the baseline trained."""
    stray = tickets.outside(ticket, before, after, failed.change, rules.correction)
    measured = bool(readings) and all(one.measurement is not None for one in readings)
    answers: dict[str, bool | None] = {
        "schema_passes": measured if any(one.outcome.end is JobEnd.OK for one in readings) else None,
        "claims_sourced": all(map(_sourced, readings)) if measured else None,
        "delta_inside_scope": not stray,
        "unchanged_kept": _kept(ticket, before, after, readings, usual, rules),
        "no_side_effect": clean(readings),
        "old_error_gone": _gone(ticket, verdict, measured, fingerprint),
    }
    blocked = verdict.reason == causes.NO_TRUTH
    good = all(answer is True for answer in answers.values())
    outcome = Outcome.BLOCKED if blocked else Outcome.ACCEPTED if good else Outcome.ROLLED_BACK
    return Verification(**answers, outcome=outcome, detail=_detail(answers, stray, verdict)[:300])


def clean(readings: Sequence[Reading]) -> bool:
    """Whether no job did anything behind its last word or left a process behind."""
    return not any(one.outcome.reason in SIDE_EFFECTS or one.outcome.survivors for one in readings)


def _sourced(reading: Reading) -> bool:
    """The number is of the very checkpoint that the job left, and no audit spoke against it."""
    found, audit = reading.measurement, reading.audit
    return (
        found is not None
        and found.checkpoint_sha256 == reading.outcome.checkpoint_sha256
        and (audit is None or not (audit.fault or audit.off))
    )


def _kept(ticket: Ticket, before: Texts, after: Texts, readings: Sequence[Reading], usual: int | None, rules: Rules) -> bool | None:
    """The assertions that must not change: the total batch, where the ticket leaves it alone, and with the `tokens` clock the tokens trained."""
    name = rules.correction.total_batch
    batch = tickets.constant(after, name)
    if not any(symbol.endswith(f":{name}") for symbol in ticket.scope) and batch != tickets.constant(before, name):
        return False
    if tickets.is_memory(ticket) and batch is None:
        return None
    trained = [one.outcome.tokens for one in readings if one.outcome.end is JobEnd.OK]
    if not trained:
        return None
    if rules.trial.clock != "tokens":
        return True
    least, most = rules.trial.amount, rules.trial.amount + (batch or rules.trial.amount)
    return all(count is not None and (count == usual or least <= count < most) for count in trained)


def _gone(ticket: Ticket, verdict: Verdict, measured: bool, fingerprint: str) -> bool | None:
    if verdict.status is Status.INTERRUPTED:
        return None
    return measured or fingerprint != ticket.packet.fingerprint


def _detail(answers: Mapping[str, bool | None], stray: str, verdict: Verdict) -> str:
    wrong = [f"{name}: {'unknown' if answer is None else 'no'}" for name, answer in answers.items() if answer is not True]
    ended = "" if verdict.value is not None else f"the repair ended as {verdict.status.value} ({verdict.reason})"
    return "; ".join(part for part in (stray, ended, ", ".join(wrong)) if part)


def closed(verdict: Verdict, found: Verification, bar: Bar | None) -> Verdict:
    """The verdict that a verification leaves: a repair that was not accepted is never kept."""
    if verdict.status is not Status.KEEP or found.outcome is Outcome.ACCEPTED:
        return verdict
    reason = causes.NOT_VERIFIED if found.delta_inside_scope else causes.OUT_OF_SCOPE
    return judge.discarded(verdict, bar, reason, found.detail)
