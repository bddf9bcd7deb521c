"""One table says what is done about every reason code there is: the codes are read from the code itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.evaluation import auditing, causes, judge, pair
from harness.execution.hygiene import OF_THE_DEVICE
from harness.followups import Mechanism
from harness.proposers import asking, fates, troubles
from tests.projects import ROOT

HARNESS = sorted((ROOT / "harness").rglob("*.py"))
FIRST = {"ProposalRefused": 0, "ModelUnavailable": 0, "discarded": 2, "_without_value": 2, "_End": 1, "Reply": 1, "_remind": 1}
KEYWORD = {"EvaluationFault", "Verdict", "Rehearsal", "JobOutcome", "Reply"}
RETURNING = ("_reason", "objection", "_of_status", "_end")
CODE = re.compile(r"[a-z][a-z_]*")


def words(node: ast.expr | None) -> Iterator[str]:
    """The code that an expression is, or those it may be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*words(node.body), *words(node.orelse))


def named(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""


def codes_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            place = FIRST.get(named(node))
            if place is not None and len(node.args) > place:
                yield from words(node.args[place])
            if named(node) in KEYWORD:
                yield from (code for keyword in node.keywords if keyword.arg == "reason" for code in words(keyword.value))
        if isinstance(node, ast.FunctionDef) and (node.name in RETURNING or (node.name, path.name) == ("refusal", "money.py")):
            for inner in ast.walk(node):
                value = inner.value if isinstance(inner, ast.Return) else None
                parts = value.elts if isinstance(value, ast.Tuple) else [value]
                yield from (code for part in parts for code in words(part) if CODE.fullmatch(code))


def every_code() -> set[str]:
    found = {code for path in HARNESS for code in codes_of(path)} - {""}
    found |= {
        *fates.WHY.values(),
        *pair.CANDIDATE_FAULTS,
        *judge.FAULTS,
        *auditing.BAD_CONTRACT,
        *OF_THE_DEVICE,
        *(name for name, _ in troubles.SIGNS),
    }
    prepare = (ROOT / "prepare.py").read_text()
    found |= {
        reason
        for reason in ("not_finite", "negative_loss", "short_answer", "scorer_died", "load_failed", "metric_error")
        if reason in prepare
    }
    return found - {"model_away", "asked"}


def test_the_scan_finds_codes_of_every_kind() -> None:
    found = every_code()
    assert len(found) > 80
    for code in (
        "exit_code",
        "out_of_memory",
        "not_better",
        "no_headroom",
        "duplicate",
        "over_correction",
        "rate_limited",
        "broken_stream",
        "looks_ahead",
    ):
        assert code in found, code


@pytest.mark.parametrize("code", sorted(every_code() - causes.PASSED))
def test_every_reason_code_has_a_row(code: str) -> None:
    assert causes.of(code) is not None, f"{code!r} needs a row in harness/evaluation/causes.py"


def test_no_code_stands_in_the_table_twice_and_none_that_passed() -> None:
    listed = [code for _, _, codes in causes._ROWS for code in codes.split()]
    assert len(listed) == len(set(listed))
    assert causes.PASSED.isdisjoint(listed)


@pytest.mark.parametrize(("code", "mechanism"), [
    ("rate_limited", Mechanism.RETRY), ("overloaded", Mechanism.RETRY), ("device_lost", Mechanism.RETRY), ("no_model", Mechanism.REPLAN),
    ("duplicate", Mechanism.REPLAN), ("not_better", Mechanism.REPLAN), ("audit", Mechanism.REFLECTION), ("out_of_memory", Mechanism.CORRECTION),
    ("memory_limit", Mechanism.CORRECTION), ("exit_code", Mechanism.CORRECTION), ("load_failed", Mechanism.CORRECTION),
    ("missing_ground_truth", Mechanism.ESCALATION), ("file_changed", Mechanism.ESCALATION), ("secret", Mechanism.ESCALATION),
])  # fmt: skip
def test_retry_replan_reflection_correction_and_escalation_have_different_triggers(code: str, mechanism: Mechanism) -> None:
    found = causes.of(code)
    assert found is not None and found.mechanism is mechanism


def test_nobody_knows_a_code_without_a_row() -> None:
    assert causes.of("odd") is None


def test_the_retried_faults_of_a_call_are_those_that_pass() -> None:
    assert asking.INTERRUPTED.reason == "interrupted"
    assert causes.of(asking.INTERRUPTED.reason) == causes.Cause(Mechanism.RETRY, "transient")
