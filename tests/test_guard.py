"""What the guard admits and what it refuses, with which reason."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import ProposalRefused
from harness.evaluation.guard import check, examine
from harness.graph.duplicates import change
from harness.rules import Rules
from harness.sections import Scope, StopAt
from harness.trial import Proposal

RULES = Rules(stop=StopAt(trials=10), scope=Scope(max_file_kb=8, max_literal_bytes=100))
PARENT = '''"""A model."""
import torch

SEED = 1
RATE = 0.04  # peak


def load_model(state, device):
    torch.manual_seed(3)
    return state
'''


def proposal(files: dict[str, str | None]) -> Proposal:
    return Proposal.model_construct(id=1, parent="c0ffee", title="try", files=files, proposer="scripted")


def refusal(text: str | None, path: str = "train.py", known: dict[str, int] | None = None) -> ProposalRefused:
    with pytest.raises(ProposalRefused) as caught:
        check(proposal({path: text}), RULES, {"train.py": PARENT}, known or {})
    message = str(caught.value)
    assert "\n" not in message
    assert message.isprintable()
    return caught.value


def test_a_real_change_is_admitted_with_its_facts() -> None:
    text = PARENT.replace("0.04", "0.05")
    assert check(proposal({"train.py": text}), RULES, {"train.py": PARENT}, {}) == change(PARENT, text)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("prepare.py", "is protected"),
        ("prepare/__init__.py", "is not in scope"),
        ("sitecustomize.py", "is not in scope"),
        ("torch/__init__.py", "is not in scope"),
        ("results.tsv", "is protected"),
        ("harness/evaluation/judge.py", "is protected"),
        (".git/HEAD", "is not in scope"),
        ("/etc/passwd", "is an absolute path"),
        ("C:\\train.py", "is an absolute path"),
        ("../train.py", "leaves the project's folder"),
        ("a/../train.py", "leaves the project's folder"),
        ("./train.py", "under another spelling"),
        ("Train.py", "is not in scope"),
        ("train.py\n", "is not in scope"),
        ("", "is not in scope"),
    ],
)
@pytest.mark.parametrize("text", ["x = 1\n", None])
def test_any_other_path_is_out_of_scope(path: str, said: str, text: str | None) -> None:
    error = refusal(text, path)
    assert error.reason == "out_of_scope"
    assert said in str(error)


def test_one_good_file_does_not_carry_a_bad_one() -> None:
    files: dict[str, str | None] = {"train.py": PARENT.replace("0.04", "0.05"), "sitecustomize.py": "x = 1\n"}
    with pytest.raises(ProposalRefused, match=r"sitecustomize\.py"):
        check(proposal(files), RULES, {"train.py": PARENT}, {})


def test_the_editable_file_cannot_be_deleted() -> None:
    assert refusal(None).reason == "out_of_scope"


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ("", "empty", "train.py would be empty"),
        (" \n\t\n", "empty", "train.py would be empty"),
        ("# " + "x" * 9000, "too_big", "9,002 bytes; the limit is 8 KB"),
        ("# " + "é" * 5000, "too_big", "10,002 bytes"),
        (PARENT + "x = '\0'\n", "characters", "train.py:11: a NUL byte"),
        (PARENT + "x = '\ud800'\n", "characters", "train.py:11: a lone surrogate"),
        (PARENT.replace("\n", "\r\n"), "characters", "train.py:1: a carriage return"),
        (PARENT + "# \u202e\n", "characters", "train.py:11: the invisible direction mark RIGHT-TO-LEFT OVERRIDE"),
        (PARENT + "# \x1b[31m\n", "characters", "train.py:11: the control character U+001B"),
        ("# coding: utf-7\n" + PARENT, "characters", "train.py:1: declares the encoding utf-7"),
        (PARENT + "def broken(:\n", "syntax", "train.py:11: "),
        (PARENT[:-20], "syntax", "train.py:9: "),
        (PARENT + "return 1\n", "syntax", "train.py:11: 'return' outside function"),
        (PARENT + "x = " + "(" * 3000 + ")" * 3000, "syntax", "train.py"),
        (PARENT + "x = " + "-" * 5000 + "1\n", "syntax", "nested too deeply"),
        (PARENT + f"x = '{'a' * 101}'\n", "literal", "train.py:11: a literal: 101 bytes; the limit is 100"),
        (PARENT + f"x = b'{'a' * 101}'\n", "literal", "a literal: 101 bytes"),
        (PARENT + f"x = 0x{'f' * 400}\n", "literal", "a literal: 200 bytes"),
        (PARENT + f"def f():\n    return ['{'a' * 60}', ('{'b' * 60}',)]\n", "literal", "train.py:12: the literals of one expression: 120"),
        (PARENT + f"x = '{'a' * 60}' + f(f'{'b' * 60}')\n", "literal", "the literals of one expression: 120 bytes"),
        (PARENT + f"x = {{{', '.join(f'{n}: {n}' for n in range(60))}}}\n", "literal", "the literals of one expression: 120 bytes"),
        (PARENT + f"x = {[float(n) for n in range(20)]}\n", "literal", "the literals of one expression: 160 bytes"),
        (PARENT.replace("load_model", "load"), "contract", "no longer has a top-level function load_model"),
        (PARENT.replace("def load_model", "class A:\n  def load_model").replace("\n    ", "\n     "), "contract", "load_model"),
        (PARENT, "no_change", "byte for byte"),
        (PARENT.replace("  # peak", "# top").replace("0.04", "4e-2"), "no_change", "white space, comments or spelling"),
        (PARENT + "\n\n", "no_change", "white space"),
        (PARENT.replace("SEED = 1", "SEED = 2"), "seed_only", "only a seed"),
        (PARENT.replace("seed(3)", "seed(4)"), "seed_only", "only a seed"),
        (PARENT.replace("seed(3)", "seed(4)").replace("# peak", ""), "seed_only", "only a seed"),
    ],
)
def test_a_text_that_may_not_run_is_refused(text: str, reason: str, said: str) -> None:
    error = refusal(text)
    assert error.reason == reason
    assert said in str(error)
    assert error.earlier is None


RANDOM = hashlib.sha512(b"data").hexdigest() * 8 + "".join(hashlib.sha512(bytes([n])).hexdigest() for n in range(12))


@pytest.mark.parametrize(
    "carried",
    [
        "".join(f"A{n} = '{RANDOM[at : at + 90]}'\n" for n, at in enumerate(range(1024, len(RANDOM), 90))),
        "".join(f"# {RANDOM[at : at + 90]}\n" for at in range(1024, len(RANDOM), 90)),
        "".join(f"A_{RANDOM[at : at + 90]} = 1\n" for at in range(1024, len(RANDOM), 90)),
    ],
    ids=["literals", "comments", "names"],
)
def test_data_in_many_small_pieces_is_refused(carried: str) -> None:
    error = refusal(PARENT + carried)
    assert error.reason == "literal"
    assert "the limit is 400, 4 times [scope] max_literal_bytes" in str(error)


def test_a_program_may_grow_by_half_as_much_again_and_shrink() -> None:
    more = "".join(f"\n\ndef part_{n}(x, rate=RATE):\n    return torch.relu(x - {n}) * rate\n" for n in range(20))
    check(proposal({"train.py": PARENT + more}), RULES, {"train.py": PARENT}, {})
    check(proposal({"train.py": PARENT}), RULES, {"train.py": PARENT + more}, {})


def test_a_proposal_without_files_changes_nothing() -> None:
    with pytest.raises(ProposalRefused, match="changes no file"):
        check(proposal({}), RULES, {"train.py": PARENT}, {})


def test_a_measured_program_is_refused_however_it_is_spelled() -> None:
    known = {change(PARENT, PARENT.replace("0.04", "0.05")).ast_sha256: 12}
    error = refusal(PARENT.replace("0.04", "5e-2 ").replace("SEED = 1", "SEED = 9"), known=known)
    assert (error.reason, error.earlier) == ("duplicate", 12)
    assert "trial 12" in str(error)


def test_a_parent_without_load_model_is_not_held_to_it() -> None:
    check(proposal({"train.py": "x = 2\n"}), RULES, {"train.py": "x = 1\n"}, {})


def test_utf8_may_be_declared_and_letters_may_be_foreign() -> None:
    check(proposal({"train.py": "# -*- coding: utf-8 -*-\nÄ = 'größer'\n"}), RULES, {"train.py": "x = 1\n"}, {})


def test_several_editable_files_are_judged_together() -> None:
    rules = Rules(stop=StopAt(trials=1), scope=Scope(editable=("train.py", "model.py")))
    parents = {"train.py": PARENT, "model.py": "WIDTH = 1\n"}
    made = check(proposal({"model.py": "WIDTH = 2\n"}), rules, parents, {})
    assert (made.added_lines, made.removed_lines) == (1, 1)
    with pytest.raises(ProposalRefused, match="trial 4 already"):
        check(proposal({"model.py": "WIDTH = 2 # again\n"}), rules, parents, {made.ast_sha256: 4})
    with pytest.raises(ProposalRefused, match="white space"):
        check(proposal({"model.py": "WIDTH = 1 # same\n"}), rules, parents, {})
    check(proposal({"model.py": "WIDTH = 2\n"}), rules, {"train.py": PARENT}, {})


def test_a_baseline_can_be_examined_alone() -> None:
    examine("train.py", PARENT, RULES.scope)
    with pytest.raises(ProposalRefused, match="carriage return"):
        examine("train.py", "x = 1\r\n", RULES.scope)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["", PARENT]))
def test_no_text_gets_more_than_a_change_or_a_refusal(text: str, before: str) -> None:
    try:
        check(proposal({"train.py": before + text}), RULES, {"train.py": PARENT}, {})
    except ProposalRefused as error:
        assert error.reason
