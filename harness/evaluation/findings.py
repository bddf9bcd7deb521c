"""What the failed checks of a task lead to: tickets of the machinery of correction, their verification, and when there is nothing to go by. Pure.

A task's evaluation reports its checks with the measurement. Each failed check of the incumbent is repaired by a ticket of its own, one at a time. What a check says
has no ground truth is never repaired: nothing that touches it is kept, whatever it does to the metric, and a person is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.checks import Check
from harness.evaluation.causes import CHECK_LOST, NO_TRUTH, NOT_VERIFIED, OUT_OF_SCOPE
from harness.evaluation.closing import clean
from harness.evaluation.judge import discarded
from harness.followups import ErrorPacket, Outcome, Ticket, Verification
from harness.graph import near
from harness.trial import Bar, Reading, Status, Verdict

ROLLED_BACK = frozenset({OUT_OF_SCOPE, NOT_VERIFIED, CHECK_LOST})
Checks = Sequence[Check]


def of(readings: Sequence[Reading]) -> tuple[Check, ...] | None:
    """The checks that all readings of a trial made, each as it went worst; `None` when it has no measurement."""
    made = [one.measurement.checks for one in readings if one.measurement is not None]
    if not made:
        return None
    common = set.intersection(*({one.key for one in checks} for checks in made))
    failed = {one.key: one for checks in made for one in checks if not one.passed}
    return tuple(failed.get(one.key, one) for one in made[0] if one.key in common)


def untold(checks: Checks) -> list[Check]:
    """The failed checks of which nothing can tell what is right."""
    return [one for one in checks if not one.passed and one.error_type == NO_TRUTH]


def repairable(checks: Checks) -> list[Check]:
    """The failed checks that a ticket may be written for: not where any part of the scope has no ground truth."""
    unknown = {symbol for one in untold(checks) for symbol in one.scope}
    return [one for one in checks if not one.passed and one.error_type != NO_TRUTH and not unknown & set(one.scope)]


def packet(check: Check) -> ErrorPacket:
    """A failed check as evidence."""
    return ErrorPacket(
        failed_check=check.key, expected=check.expected, actual=check.actual, evidence=check.evidence, error_type=check.error_type, fingerprint=check.key
    )  # fmt: skip


def given_up(check: Check, attempts: int) -> ErrorPacket:
    """That the repairs of a check are used up, as evidence."""
    return ErrorPacket(
        failed_check=f"a repair of {check.key}", expected=f"one in {attempts} attempts", actual=f"still: {check.actual}", evidence=check.evidence,
        error_type="regression", fingerprint=f"repairs of {check.key}",
    )  # fmt: skip


def ticket(trial: int, check: Check, checks: Checks) -> Ticket:
    """The order to repair one failed check of a measured trial; whatever passes must pass afterwards."""
    passing = tuple(f"{one.key} passes" for one in checks if one.passed)
    return Ticket(
        trial=trial, failed_check=check.key, evidence=check.evidence, scope=check.scope,
        repair=f"the smallest change to {', '.join(check.scope)} by which it passes: expected {check.expected}, found {check.actual}",
        postcondition=f"{check.key} passes", unchanged=passing or ("no other check fails that does not fail now",), packet=packet(check),
    )  # fmt: skip


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> frozenset[str]:
    """What an edit touches, as `path:symbol`."""
    return frozenset(f"{path}:{name}" for path in after for name in near.changed_symbols(before.get(path, ""), after[path]))


def blocked(before: Checks | None, after: Checks | None, touched: frozenset[str]) -> Check | None:
    """The check without ground truth that a candidate touches, if there is one: by its text, or by what any check of the same scope finds now.

    The second, since code elsewhere may set what the scope names. `before`: the parent's checks, `None` when they are not known.
    """
    seen = {one.key: (one.passed, one.actual) for one in before or ()}
    for hidden in untold(after or ()):
        scope = set(hidden.scope)
        near_it = [one for one in after or () if scope & set(one.scope)]
        if touched & scope or (before is not None and any(seen.get(one.key) != (one.passed, one.actual) for one in near_it)):
            return hidden
    return None


def verify(
    order: Ticket, before: Checks, readings: Sequence[Reading], touched: frozenset[str], verdict: Verdict,
) -> Verification:  # fmt: skip
    """What a repair comes to. `before`: the checks of the trial it repairs; `verdict`: the judge's, by the metric alone.

    What failed before and has no part in this order does not count against it: it has a ticket or a question of its own. A check that is no longer made does not pass.
    """
    after = of(readings)
    known = {one.key for one in before if not one.passed and one.key != order.failed_check}
    stray = sorted(touched - set(order.scope))
    answers: dict[str, bool | None] = {
        "schema_passes": None if after is None else _holds(after, ("schema",), known),
        "claims_sourced": None if after is None else _holds(after, ("data", NO_TRUTH), known) and all(map(_ours, readings)),
        "delta_inside_scope": bool(touched) and not stray,
        "unchanged_kept": None if after is None else _kept(before, after),
        "no_side_effect": clean(readings),
        "old_error_gone": None if after is None else order.failed_check in _passing(after),
    }
    hidden = blocked(before, after, touched)
    if hidden or verdict.reason == NO_TRUTH:
        outcome = Outcome.BLOCKED
    else:
        good = verdict.status is Status.KEEP and all(answer is True for answer in answers.values())
        outcome = Outcome.ACCEPTED if good else Outcome.ROLLED_BACK
    return Verification(**answers, outcome=outcome, detail=(unknown(hidden) + _detail(answers, stray, before, after, known, verdict))[:300])


def unknown(check: Check | None) -> str:
    """What nobody knows, as the beginning of a sentence."""
    return f"{check.key}: {check.actual}; " if check else ""


def _passing(checks: Checks) -> set[str]:
    return {one.key for one in checks if one.passed}


def _holds(checks: Checks, kinds: tuple[str, ...], known: set[str]) -> bool:
    return all(one.passed or one.key in known for one in checks if one.error_type in kinds)


def _kept(before: Checks, after: Checks) -> bool:
    return _passing(before) <= _passing(after)


def _ours(reading: Reading) -> bool:
    return reading.measurement is not None and reading.measurement.checkpoint_sha256 == reading.outcome.checkpoint_sha256


def _detail(
    answers: Mapping[str, bool | None], stray: Sequence[str], before: Checks, after: Checks | None, known: set[str], verdict: Verdict,
) -> str:  # fmt: skip
    wrong = [f"{name}: {'unknown' if answer is None else 'no'}" for name, answer in answers.items() if answer is not True]
    lost = sorted(_passing(before) - _passing(after)) if after is not None else []
    left = sorted(known - _passing(after)) if after is not None else []
    parts = (
        f"it touches {', '.join(stray[:3])} beside its ticket" if stray else "",
        f"lost: {', '.join(lost[:3])}" if lost else "",
        ", ".join(wrong),
        f"the judge: {verdict.status.value} ({verdict.reason})" if verdict.status is not Status.KEEP else "",
        f"failed before and still do: {', '.join(left[:3])}" if left else "",
    )
    return "; ".join(part for part in parts if part)


def closed(verdict: Verdict, found: Verification, bar: Bar | None) -> Verdict:
    """The verdict that a verification leaves: what was not accepted is not kept, however the metric likes it."""
    if found.outcome is Outcome.BLOCKED:
        return without_truth(verdict, found.detail, bar)
    if found.outcome is Outcome.ACCEPTED or verdict.status not in (Status.KEEP, Status.DISCARD):
        return verdict
    return discarded(verdict, bar, NOT_VERIFIED if found.delta_inside_scope else OUT_OF_SCOPE, f"rolled back: {found.detail}")


def held(verdict: Verdict, before: Checks | None, after: Checks | None, bar: Bar | None) -> Verdict:
    """The verdict on a candidate that repairs no check: what passed at its parent must pass, however the metric likes it."""
    lost = sorted(_passing(before or ()) - _passing(after or ()))
    if not lost or verdict.status is not Status.KEEP:
        return verdict
    return discarded(verdict, bar, CHECK_LOST, f"passed before and no longer does: {', '.join(lost[:3])}")


def without_truth(verdict: Verdict, detail: str, bar: Bar | None) -> Verdict:
    """The verdict on a candidate that nothing can judge: no value, and the bar stays where it is."""
    return Verdict(status=Status.BLOCKED, reason=NO_TRUTH, detail=detail[:300], rule=verdict.rule, sigma=verdict.sigma, next_bar=bar)
