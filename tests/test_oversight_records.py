"""What an error, a repair order, a review and a question must say to be one at all: the records refuse whatever leaves it out."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from harness.followups import ErrorPacket, ErrorType, Mechanism, Outcome, Ticket, Verification
from harness.oversight import Review as ReviewRules
from harness.questions import Kind, Question
from harness.reviews import CriticResult, Finding, Target

PACKET: dict[str, Any] = {
    "failed_check": "trial ends well", "expected": "a checkpoint", "actual": "out of memory", "evidence": "train.log", "error_type": "resource",
    "fingerprint": "oom",
}  # fmt: skip
TICKET: dict[str, Any] = {
    "trial": 3, "failed_check": "trial ends well", "evidence": "train.log", "scope": ["DEVICE_ROWS"], "repair": "half the rows", "postcondition": "it trains",
    "unchanged": ["TOTAL_BATCH"], "packet": PACKET,
}  # fmt: skip
FINDING: dict[str, Any] = {
    "code": "E1", "target": {"kind": "symbol", "id": "train"}, "evidence": ["line 9"], "message": "reads the clock", "action": "patch_output",
    "passes_when": "it reads no clock",
}  # fmt: skip
RESULT: dict[str, Any] = {
    "verdict": "pass", "checked_criteria": [1], "what_can_be_cut": "nothing", "answers_owner_words": "yes", "because": "it keeps it", "refuted_if": "it reads worse",
    "evaluator_version": "1", "input_sha256": "0" * 64,
}  # fmt: skip
OPTION = {"id": "go_on", "effect": "the study goes on"}
QUESTION: dict[str, Any] = {
    "number": 1, "kind": "repeated_failure", "key": "oom", "goal": "lower val_bpb", "candidate": "trial 3", "evidence": ["train.log"], "repairs": ["half the rows"],
    "impact": "this line rests", "options": [OPTION], "default": "go_on", "blocks": "line",
}  # fmt: skip


def refused(record: type[BaseModel], given: dict[str, Any]) -> bool:
    """Whether the record does not take these fields."""
    try:
        record.model_validate(given)
    except ValidationError:
        return True
    return False


def without(given: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The fields with one left out, and with one empty."""
    empty: Any = (
        [] if isinstance(given[name], list) else {} if isinstance(given[name], dict) else "" if isinstance(given[name], str) else None
    )
    return [{key: value for key, value in given.items() if key != name}, {**given, name: empty}]


@pytest.mark.parametrize("name", ["failed_check", "expected", "actual", "evidence", "error_type"])
def test_an_error_without_check_expectation_actual_value_evidence_or_type_is_no_error_packet(name: str) -> None:
    assert not refused(ErrorPacket, PACKET)
    assert all(refused(ErrorPacket, given) for given in without(PACKET, name))


@pytest.mark.parametrize("name", ["failed_check", "evidence", "scope", "repair", "postcondition", "unchanged"])
def test_a_ticket_without_one_of_its_six_fields_is_no_order_to_repair(name: str) -> None:
    assert not refused(Ticket, TICKET)
    assert all(refused(Ticket, given) for given in without(TICKET, name))


def test_the_types_of_errors_the_mechanisms_and_the_results_of_a_repair_are_closed_lists() -> None:
    assert {"transient", "data", "schema", "policy", "missing_ground_truth", "code", "resource", "regression", "refusal"} == set(
        get_args(ErrorType)
    )
    assert {"retry", "replan", "reflection", "correction"} < {one.value for one in Mechanism}
    assert {one.value for one in Outcome} == {"accepted", "rolled_back", "blocked_missing_ground_truth"}
    assert refused(ErrorPacket, {**PACKET, "error_type": "odd"})


def test_the_five_closing_questions_are_asked_of_every_repair_and_none_may_be_left_out() -> None:
    five = ("schema_passes", "claims_sourced", "delta_inside_scope", "unchanged_kept", "no_side_effect")
    given: dict[str, Any] = {**dict.fromkeys(five, True), "old_error_gone": True, "outcome": "accepted"}
    assert not refused(Verification, given)
    for name in five:
        assert refused(Verification, {key: value for key, value in given.items() if key != name})
        assert Verification.model_validate({**given, name: None}).model_dump()[name] is None, "what could not be told is no yes"


@pytest.mark.parametrize("name", ["code", "target", "evidence", "message", "action", "passes_when"])
def test_a_finding_that_cannot_say_where_by_what_evidence_and_what_to_do_is_none(name: str) -> None:
    assert not refused(Finding, FINDING)
    assert all(refused(Finding, given) for given in without(FINDING, name))
    assert refused(Finding, {**FINDING, "action": "make it better"})


def test_what_a_finding_aims_at_is_a_claim_a_field_a_step_a_file_or_a_symbol() -> None:
    assert all(not refused(Target, {"kind": kind, "id": "x"}) for kind in ("claim", "field", "step", "file", "symbol"))
    assert refused(Target, {"kind": "everything", "id": "x"}) and refused(Target, {"kind": "file", "id": ""})


def test_what_a_finding_asks_for_is_one_of_five_acts() -> None:
    acts = get_args(Finding.model_fields["action"].annotation)
    assert set(acts) == {"patch_output", "regenerate", "retrieve_again", "replan", "escalate"}


@pytest.mark.parametrize(
    "name",
    ["verdict", "checked_criteria", "what_can_be_cut", "answers_owner_words", "because", "refuted_if", "evaluator_version", "input_sha256"],
)
def test_a_review_says_verdict_criteria_what_can_be_cut_the_owners_words_a_falsifier_version_and_input(name: str) -> None:
    assert not refused(CriticResult, RESULT)
    assert refused(CriticResult, {key: value for key, value in RESULT.items() if key != name})
    if isinstance(RESULT[name], str):
        assert refused(CriticResult, {**RESULT, name: ""})
    assert "schema_version" in CriticResult.model_fields


def test_a_verdict_is_pass_fail_or_uncertain_and_nothing_else() -> None:
    assert [refused(CriticResult, {**RESULT, "verdict": said}) for said in ("pass", "fail", "uncertain", "approve", "7/10", 1)] == [
        False
    ] * 3 + [True] * 3


@pytest.mark.parametrize("name", ["goal", "candidate", "evidence", "impact", "options"])
def test_a_question_says_goal_candidate_evidence_repairs_impact_and_options(name: str) -> None:
    assert not refused(Question, QUESTION)
    assert refused(Question, {key: value for key, value in QUESTION.items() if key != name})
    assert "repairs" in Question.model_fields and refused(Question, {**QUESTION, "default": "something else"})


def test_the_cases_for_a_person_are_kinds_of_question() -> None:
    assert {"missing_ground_truth", "policy_conflict", "wider_permission", "responsibility"} <= set(get_args(Kind))
    assert refused(Question, {**QUESTION, "kind": "small_talk"})


def test_a_review_is_off_until_a_rule_asks_for_it() -> None:
    assert not ReviewRules().asked_for
    for asking in ({"added_lines": 20}, {"memory_percent": 10.0}, {"symbols": ["train"]}, {"implausible": True}):
        assert ReviewRules.model_validate(asking).asked_for
    assert not ReviewRules.model_validate({"criteria": ["it is shorter"], "model": "m"}).asked_for, (
        "words about a review are no rule that asks for one"
    )
