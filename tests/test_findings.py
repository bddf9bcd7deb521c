"""Failed checks as evidence, tickets and closing questions: pure decisions by tables, and what the harness takes for a candidate's files."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from harness.checks import Check
from harness.evaluation import findings, judge
from harness.execution.workplace import needed_files
from harness.followups import Outcome, Verification
from harness.proposers import prompt
from harness.rules import Rules, parse
from harness.trial import Bar, EvaluationFault, JobEnd, JobOutcome, Measurement, Reading, Status, Verdict

KEEP = Verdict(status=Status.KEEP, reason="better", rule="strict", value=1.0, next_bar=Bar(ref=1.0))
WORSE = Verdict(status=Status.DISCARD, reason="not_better", rule="strict", value=2.0, next_bar=Bar(ref=2.0, since=1))
BAR = Bar(ref=2.0)


def check(name: str, passed: bool = True, kind: str = "schema", actual: str = "wrong") -> Check:
    told = {} if passed else {"expected": "right", "actual": actual, "evidence": "source#1"}
    return Check.model_validate(
        {"name": name, "where": f"/{name}", "passed": passed, "error_type": kind, "scope": (f"f.py:{name.upper()}",), **told}
    )


def reading(*checks: Check, replicate: int = 0, reason: str = "", sha: str = "c") -> Reading:
    outcome = JobOutcome(end=JobEnd.OK, reason=reason, checkpoint_sha256="c")
    made = Measurement(token="t", value=1.0, data_sha256="d", checkpoint_sha256=sha, seconds=1.0, checks=checks)
    return Reading(trial=1, replicate=replicate, seed=replicate, outcome=outcome, measurement=made)


BEFORE = (check("a", False), check("b"), check("c", False, "data"))
ORDER = findings.ticket(0, BEFORE[0], BEFORE)
SCOPE = frozenset({"f.py:A"})


def verify(*checks: Check, touched: frozenset[str] = SCOPE, verdict: Verdict = KEEP, reason: str = "", sha: str = "c") -> Verification:
    return findings.verify(ORDER, BEFORE, (reading(*checks, reason=reason, sha=sha),), touched, verdict)


def test_a_ticket_has_the_evidence_the_scope_and_all_that_passes() -> None:
    assert (ORDER.failed_check, ORDER.scope, ORDER.unchanged, ORDER.postcondition) == (
        "a at /a",
        ("f.py:A",),
        ("b at /b passes",),
        "a at /a passes",
    )
    assert (ORDER.packet.expected, ORDER.packet.actual, ORDER.packet.evidence, ORDER.packet.error_type) == (
        "right",
        "wrong",
        "source#1",
        "schema",
    )


def test_a_ticket_where_nothing_passes_still_says_what_must_stay() -> None:
    assert findings.ticket(0, BEFORE[0], BEFORE[:1]).unchanged == ("no other check fails that does not fail now",)


def test_what_failed_before_does_not_count_against_a_repair_and_is_named() -> None:
    found = verify(check("a"), check("b"), BEFORE[2])
    assert found.outcome is Outcome.ACCEPTED and found.claims_sourced is True
    assert found.detail == "failed before and still do: c at /c"


@pytest.mark.parametrize(
    ("checks", "more", "no"),
    [
        ((BEFORE[0], check("b"), BEFORE[2]), {}, "old_error_gone"),
        ((check("a"), check("b", False), BEFORE[2]), {}, "unchanged_kept"),
        ((check("a"), BEFORE[2]), {}, "unchanged_kept"),
        ((check("a"), check("b"), BEFORE[2], check("d", False)), {}, "schema_passes"),
        ((check("a"), check("b"), BEFORE[2], check("d", False, "data")), {}, "claims_sourced"),
        ((check("a"), check("b"), BEFORE[2]), {"sha": "another"}, "claims_sourced"),
        ((check("a"), check("b"), BEFORE[2]), {"touched": SCOPE | {"f.py:B"}}, "delta_inside_scope"),
        ((check("a"), check("b"), BEFORE[2]), {"touched": frozenset({"f.py:<module>"})}, "delta_inside_scope"),
        ((check("a"), check("b"), BEFORE[2]), {"touched": frozenset()}, "delta_inside_scope"),
        ((check("a"), check("b"), BEFORE[2]), {"reason": "late_failure"}, "no_side_effect"),
    ],
)
def test_one_no_rolls_a_repair_back_however_the_metric_likes_it(checks: tuple[Check, ...], more: dict[str, object], no: str) -> None:
    found = verify(*checks, **more)  # type: ignore[arg-type]
    assert found.outcome is Outcome.ROLLED_BACK and getattr(found, no) is False
    left = findings.closed(KEEP, found, BAR)
    assert left.status is Status.DISCARD and left.reason in findings.ROLLED_BACK and left.next_bar == Bar(ref=2.0, since=1)


def test_a_repair_that_the_judge_does_not_keep_is_not_accepted() -> None:
    found = verify(check("a"), check("b"), BEFORE[2], verdict=WORSE)
    assert found.outcome is Outcome.ROLLED_BACK and "the judge: discard (not_better)" in found.detail


def test_without_a_measurement_nothing_can_be_told_and_nothing_is_accepted() -> None:
    crashed = Reading(trial=1, replicate=0, seed=0, outcome=JobOutcome(end=JobEnd.CRASH, reason="exit_code"))
    verdict = Verdict(status=Status.CRASH, reason="exit_code", rule="strict")
    found = findings.verify(ORDER, BEFORE, (crashed,), SCOPE, verdict)
    assert (found.schema_passes, found.unchanged_kept, found.old_error_gone, found.outcome) == (None, None, None, Outcome.ROLLED_BACK)
    assert findings.closed(verdict, found, BAR) == verdict


def test_a_check_counts_as_it_went_worst_over_all_readings_and_only_where_all_made_it() -> None:
    both = findings.of((reading(check("a"), check("b")), reading(check("a", False), replicate=1)))
    assert both is not None and [(one.name, one.passed) for one in both] == [("a", False)]


UNTOLD = check("p", False, "missing_ground_truth")
TYPED = check("p_type", False).model_copy(update={"scope": UNTOLD.scope})


def test_nothing_is_repaired_in_a_scope_without_ground_truth() -> None:
    assert findings.repairable((UNTOLD, TYPED, *BEFORE)) == [BEFORE[0], BEFORE[2]]
    assert findings.untold((UNTOLD, TYPED)) == [UNTOLD]


@pytest.mark.parametrize(
    ("after", "touched", "blocks"),
    [
        ((UNTOLD, TYPED), frozenset(), False),
        ((UNTOLD, TYPED), frozenset({"f.py:A"}), False),
        ((UNTOLD, TYPED), frozenset({"f.py:P"}), True),
        ((UNTOLD, TYPED.model_copy(update={"passed": True})), frozenset({"f.py:A"}), True),
        ((check("p", False, "missing_ground_truth", "another value"), TYPED), frozenset({"f.py:A"}), True),
    ],
)
def test_what_nobody_knows_may_be_changed_neither_in_the_text_nor_in_effect(
    after: tuple[Check, ...], touched: frozenset[str], blocks: bool
) -> None:
    assert bool(findings.blocked((UNTOLD, TYPED), after, touched)) is blocks
    assert bool(findings.blocked(None, after, touched)) is ("f.py:P" in touched)


def test_a_blocked_candidate_has_no_value_and_leaves_the_bar() -> None:
    left = findings.without_truth(KEEP, "p: unknown", BAR)
    assert (left.status, left.value, left.gain, left.next_bar) == (Status.BLOCKED, None, None, BAR)


def test_a_fault_of_missing_ground_truth_is_blocked_and_nobodys_crash() -> None:
    fault = EvaluationFault(reason="missing_ground_truth", detail="the source is empty", candidate_to_blame=False)
    bad = Reading(trial=1, replicate=0, seed=0, outcome=JobOutcome(end=JobEnd.OK), fault=fault)
    verdict = judge.unmeasured(rules(), bad)
    assert verdict is not None and (verdict.status, verdict.reason) == (Status.BLOCKED, "missing_ground_truth")


@pytest.mark.parametrize("missing", ["expected", "actual", "evidence"])
def test_a_failed_check_without_evidence_is_none(missing: str) -> None:
    with pytest.raises(ValidationError, match="expected, actual and evidence"):
        Check.model_validate({**check("a", False).model_dump(), missing: " \n\x00"})


def test_foreign_text_in_a_check_is_one_plain_line() -> None:
    dirty = check("a", False, actual="\x1b[31mred\n\u202eevil\ud800" + "y" * 999)
    assert dirty.actual.isprintable() and len(dirty.actual) == 300 and dirty.model_dump_json()


def rules(extra: str = "") -> Rules:
    return parse(f"```toml rules\n[stop]\ntrials = 1\n{extra}\n```\n")


@pytest.mark.parametrize(
    ("extra", "files"),
    [
        ("", ("train.py",)),
        ('[scope]\neditable = ["model.py"]', ("model.py", "train.py")),
        ('[scope]\neditable = ["model.py"]\n[run]\ncommand = ["{python}", "-m", "train"]', ("model.py", "train.py")),
        ('[scope]\neditable = ["payload.py"]\n[run]\ncommand = ["{python}", "prepare.py", "build"]', ("payload.py",)),
        ('[scope]\neditable = ["payload.py"]\n[run]\ncommand = ["{python}", "make.py"]', ("payload.py", "make.py")),
        ('[run]\ncommand = ["/opt/start.py", "train.py"]', ("train.py",)),
    ],
)
def test_a_candidate_is_its_files_in_scope_and_the_script_that_is_started(extra: str, files: tuple[str, ...]) -> None:
    assert needed_files(rules(extra)) == files


def test_a_page_tells_of_train_py_only_where_it_is_part_of_the_task() -> None:
    foreign = rules('[scope]\neditable = ["payload.py"]\n[run]\ncommand = ["{python}", "prepare.py", "build"]')
    assert "What train.py owes" in prompt._stable("words\n", rules()) and "What train.py owes" not in prompt._stable("words\n", foreign)


def test_the_ticket_of_a_failed_check_speaks_of_the_incumbents_files() -> None:
    said = str(prompt.repair(ORDER, failed=False))
    assert "the incumbent's, and a check of it fails" in said and "which failed, and not" not in said and "f.py:A" in said
