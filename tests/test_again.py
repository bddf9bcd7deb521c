"""May the same idea run again: near repeats, the same idea in other words, declared replications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.trial_row import TrialRow
from harness.errors import ProposalRefused
from harness.evaluation import again, replication
from harness.evaluation.again import Sibling
from harness.graph import duplicates
from harness.trial import Proposal, Status, Verdict

TRAIN = (Path(__file__).parent.parent / "train.py").read_text()
PARENTS = {"train.py": TRAIN}
RELU = TRAIN.replace("F.relu(", "F.gelu(", 1)
SILU = TRAIN.replace("F.relu(", "F.silu(", 1)


def proposal(text: str, title: str, axis: str = "activation", **more: Any) -> Proposal:
    return Proposal(id=9, parent="p", title=title, axis=axis, files={"train.py": text}, proposer="anthropic", **more)


def sibling(text: str, title: str, axis: str = "activation", gain: float | None = -0.0021) -> Sibling:
    return Sibling(trial=7, title=title, axis=axis, gain=gain, files={"train.py": text})


def refusal(one: Proposal, *siblings: Sibling) -> ProposalRefused | None:
    try:
        again.check_near(one, PARENTS, siblings)
    except ProposalRefused as refused:
        return refused
    return None


def test_a_step_beside_what_no_review_let_pass_is_no_second_opinion() -> None:
    held = sibling(_rate(1.0), "something else", gain=0.1).model_copy(update={"held": True})
    found = refusal(proposal(_rate(1.01), "rate"), held)
    assert found is not None and found.reason == "near_duplicate" and found.earlier == 7
    assert "no review let it pass, so a person decides about it" in str(found) and "replication" not in str(found)
    assert refusal(proposal(_rate(1.4), "rate"), held) is None


def test_the_parts_of_train_py_that_these_tests_turn_are_there() -> None:
    assert RELU != TRAIN != SILU and "WARMDOWN = " in TRAIN


def test_nearly_the_same_number_is_answered_with_the_earlier_gain() -> None:
    found = refusal(proposal(_warmdown(1.01), "warm-down"), sibling(_warmdown(1.0), "something else"))
    if found is None:  # the default may be too close to 1 for one per cent to be near
        found = refusal(proposal(_rate(1.01), "rate"), sibling(_rate(1.0), "something else"))
    assert found is not None and found.reason == "near_duplicate" and found.earlier == 7
    assert "trial 7" in str(found) and "gained -0.0021" in str(found)
    assert refusal(proposal(_rate(1.4), "rate"), sibling(_rate(1.0), "rate of matrices up")) is None


@pytest.mark.parametrize(("title", "axis", "text", "said"), [
    ("replace relu squared by gelu", "activation", SILU, True),
    ("Replace ReLU squared by GELU.", "Activation", SILU, True),
    ("replace gelu by relu squared", "activation", SILU, False),
    ("replace relu squared by gelu * 2", "activation", SILU, False),
    ("silu in the place of relu squared", "activation", SILU, False),
    ("replace relu squared by gelu", "mlp", SILU, False),
    ("replace relu squared by gelu 2", "activation", SILU, False),
    ("gelu", "activation", SILU, False),
])  # fmt: skip
def test_the_same_idea_in_the_same_words_on_the_same_part_is_refused_and_another_is_not(
    title: str, axis: str, text: str, said: bool
) -> None:
    found = refusal(proposal(text, title, axis), sibling(RELU, "replace relu squared by gelu"))
    assert (found is not None) is said
    assert found is None or ("the same idea" in str(found) and found.earlier == 7)


@pytest.mark.parametrize(("one", "other"), [
    ("muon rate * 2", "muon rate / 2"), ("rate +50%", "rate -50%"), ("clip where rate < 1", "clip where rate > 1"), ("1e3 steps of warmup", "1e-3 steps of warmup"),
    ("norm before the residual", "residual before the norm"), ("more decay for queries than keys", "more decay for keys than queries"),
])  # fmt: skip
def test_opposite_ideas_are_two(one: str, other: str) -> None:
    assert refusal(proposal(SILU, one, "x"), sibling(RELU, other, "x")) is None
    assert refusal(proposal(SILU, one, "x"), sibling(RELU, one.upper(), "X")) is not None


def test_constants_are_told_by_their_numbers_and_not_by_their_titles() -> None:
    assert (
        refusal(proposal(_rate(1.5), "a higher matrix rate", "MATRIX_LR"), sibling(_rate(2.0), "a higher matrix rate", "MATRIX_LR")) is None
    )


def test_a_hundred_different_edits_are_admitted_beside_one_another() -> None:
    names = [name for name, value in duplicates.assignments(duplicates.parse(TRAIN)) if name.isupper() and _number(value)]
    edits = [(f"{name} times {factor}", name, _scaled(name, factor)) for name in names for factor in (0.5, 0.8, 1.25, 2.0, 3.0, 0.3)]
    edits += [
        (f"replace relu squared by {new}", "activation", TRAIN.replace("F.relu(", f"F.{new}(", 1))
        for new in ("gelu", "silu", "elu", "mish", "selu", "celu")
    ]
    edits = [edit for edit in edits if edit[2] != TRAIN]
    assert len(edits) >= 70, len(edits)
    siblings = [sibling(text, title, axis) for title, axis, text in edits]
    for number, (title, axis, text) in enumerate(edits):
        others = [one for place, one in enumerate(siblings) if place != number]
        assert refusal(proposal(text, title, axis), *others) is None, title


def row(**more: Any) -> TrialRow:
    verdict = Verdict(status=Status.DISCARD, reason="not_better", rule="debiased", value=1.2345, gain=-0.001, standard_error=0.004)
    facts: dict[str, Any] = {
        "trial": 7, "proposal": 3, "parent": "p", "change": duplicates.change_all(PARENTS, {"train.py": RELU}), "title": "gelu", "axis": "activation",
        "edit": "", "proposer": "anthropic", "folder": "0007-gelu", "verdict": verdict,
    }  # fmt: skip
    return TrialRow(**{**facts, **more})


@pytest.mark.parametrize(("found", "text", "repeated", "paired", "said"), [
    (row(), RELU, False, False, ""),
    (row(), RELU, True, False, "once is all"),
    (row(replicates=3), RELU, False, False, "once is all"),
    (row(), RELU, False, True, "bit for bit"),
    (row(), SILU, False, False, "not that of trial 7"),
    (row(parent="older"), RELU, False, False, "older incumbent"),
    (row(verdict=Verdict(status=Status.DISCARD, reason="repair_not_verified", rule="debiased", value=1.1)), RELU, False, False, "was rolled back"),
    (row(trial=0), RELU, False, False, "the baseline is measured again by the harness"),
    (row(verdict=None), RELU, False, False, "not measured"),
    (None, RELU, False, False, "not measured"),
])  # fmt: skip
def test_a_declared_replication_is_admitted_once_and_only_where_it_says_something(
    found: TrialRow | None, text: str, repeated: bool, paired: bool, said: str
) -> None:
    one = proposal(text, "once more", replicates=7)
    if not said:
        assert replication.check(one, PARENTS, found, repeated, paired).ast_sha256 == row().change.ast_sha256
        return
    with pytest.raises(ProposalRefused, match=said) as caught:
        replication.check(one, PARENTS, found, repeated, paired)
    assert caught.value.reason == "replication"


def _number(value: Any) -> bool:
    return isinstance(getattr(value, "value", None), (int, float)) and not isinstance(value.value, bool)


def _scaled(name: str, factor: float) -> str:
    tree = duplicates.parse(TRAIN)
    value = dict(duplicates.assignments(tree))[name]
    old = value.value  # type: ignore[attr-defined]
    new = max(1, round(old * factor)) if isinstance(old, int) else round(old * factor, 8)
    return TRAIN if new == old else duplicates.respell(TRAIN, value, repr(new))


def _warmdown(factor: float) -> str:
    return _scaled("WARMDOWN", 0.8 * factor)


def _rate(factor: float) -> str:
    return _scaled("MATRIX_LR", 1.3 * factor)
