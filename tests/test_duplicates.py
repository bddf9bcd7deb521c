"""When two texts are the same idea, and how a change is counted."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.graph.duplicates import assignments, change, change_all, fingerprint, is_seed, parse, respell

TEXT = '''"""Doc."""
import torch

SEED = 42
RATE = 3e-4  # peak


def build(width):
    """Docstring."""
    torch.manual_seed(1337)
    return torch.nn.Linear(width, (width * 4))
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("3e-4", "0.0003"),
        ("3e-4", "3.0E-4"),
        ("3e-4", "(3e-4)"),
        ("  # peak", ""),
        ("(width * 4)", "width*4"),
        ('"""Docstring."""', '"""Another one."""'),
        ('    """Docstring."""\n', ""),
        ('"""Doc."""', "# no docstring"),
        ("\n\n\ndef", "\n\ndef"),
        ("42", "43"),
        ("1337", "-1"),
    ],
)
def test_spelling_and_seeds_do_not_make_a_new_idea(old: str, new: str) -> None:
    changed = TEXT.replace(old, new)
    assert changed != TEXT
    assert fingerprint(changed) == fingerprint(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [("3e-4", "3.1e-4"), ("width * 4", "width * 3"), ("RATE", "RATES"), ("* 4", "* 4.0"), ("torch.nn", "torch.nm"), ("3e-4", "'3e-4'")],
)
def test_a_change_of_the_program_is_a_new_idea(old: str, new: str) -> None:
    assert fingerprint(TEXT.replace(old, new)) != fingerprint(TEXT)


@pytest.mark.parametrize("call", ["torch.manual_seed", "torch.cuda.manual_seed_all", "random.seed", "np.random.default_rng", "Random"])
def test_integers_given_to_seeding_calls_do_not_count(call: str) -> None:
    assert fingerprint(f"{call}(1 + setup.seed)\n") == fingerprint(f"{call}(2 + setup.seed)\n")
    assert fingerprint(f"{call}(1)\n") == fingerprint(f"{call}(-3)\n")
    assert fingerprint(f"{call}(seed=1)\n") == fingerprint(f"{call}(seed=2)\n")
    alone = call in ("torch.manual_seed", "torch.cuda.manual_seed_all", "random.seed")  # a statement that seeds is no part of the program
    assert (fingerprint(f"{call}(a)\n") == fingerprint(f"{call}(b)\n")) is alone
    assert fingerprint(f"x = {call}(a)\n") != fingerprint(f"x = {call}(b)\n")


def test_a_statement_that_seeds_is_a_change_of_the_seed_wherever_it_stands() -> None:
    text = "import torch\n\n\ndef main():\n    build()\n    train()\n"
    for line in ("torch.manual_seed(1)", "torch.manual_seed(setup.seed * 5 - 1)", "torch.cuda.manual_seed_all(3)"):
        assert fingerprint(text.replace("    build()", f"    {line}\n    build()")) == fingerprint(text)
    own = "def seed(model):\n    model.plant()\n\n\n"
    assert fingerprint(own + text.replace("    build()", "    seed(model)\n    build()")) != fingerprint(own + text)


def test_integers_given_to_other_calls_count() -> None:
    assert fingerprint("speed(1)\n") != fingerprint("speed(2)\n")
    assert fingerprint("f(seed=1)\n") != fingerprint("f(seed=2)\n")


def test_seeds_count_when_asked_for() -> None:
    assert fingerprint("SEED = 1\n", False) != fingerprint("SEED = 2\n", False)


@pytest.mark.parametrize(
    ("name", "said"),
    [("SEED", True), ("seed", True), ("DATA_SEED", True), ("seed_2", True), ("SEED2", True), ("SEEDLING", False), ("SPEED", False)],
)
def test_a_seed_is_known_by_a_whole_word(name: str, said: bool) -> None:
    assert is_seed(name) is said
    assert (fingerprint(f"{name} = 1\n") == fingerprint(f"{name} = 2\n")) is said
    assert (fingerprint(f"{name}: int = 1\n") == fingerprint(f"{name}: int = 2\n")) is said


def test_names_and_texts_with_the_same_letters_differ() -> None:
    assert fingerprint("f(a)\n") != fingerprint("f('a')\n")
    assert fingerprint("x = 1\n") != fingerprint("x = True\n")
    assert fingerprint("x = b'a'\n") != fingerprint("x = 'a'\n")
    assert fingerprint("x = [1, [2]]\n") != fingerprint("x = [[1], 2]\n")
    assert fingerprint("x = None\n") != fingerprint("x: int\n")


@pytest.mark.parametrize(
    "text", ["def f(:\n", "x = 1\x00\n", "return 1\n", "x = '\ud800'\n", "(" * 5000, "-" * 200_000 + "1", "x = " + "9" * 5000]
)
def test_what_does_not_parse_has_a_fingerprint_of_its_bytes(text: str) -> None:
    assert fingerprint(text) == hashlib.sha256(b"unparsed\0" + text.encode("utf-8", "surrogatepass")).hexdigest()
    assert fingerprint(text) != fingerprint(text + " ")
    assert change("", text).ast_sha256 == fingerprint(text)


def test_a_long_chain_that_parses_is_no_trouble() -> None:
    assert fingerprint("x = " + "+".join("a" * 400)) != fingerprint("x = " + "+".join("a" * 401))
    assert fingerprint("x = 0x" + "f" * 9000) != fingerprint("x = 0x" + "f" * 9001)


def test_invalid_escapes_are_no_warning_and_no_error() -> None:
    assert fingerprint('x = "\\d"\n') == fingerprint("x = '\\\\d'\n")


def test_lines_are_counted_as_git_counts_them() -> None:
    made = change("a = 1\nb = 2\nc = 3\n", "a = 1\nb = 4\nc = 3\nd = 5\n")
    assert (made.added_lines, made.removed_lines, made.net_lines) == (2, 1, 1)
    assert made.file_sha256 == hashlib.sha256(b"a = 1\nb = 4\nc = 3\nd = 5\n").hexdigest()


def test_one_changed_line_among_many_equal_ones_is_one_line() -> None:
    made = change("x\n" * 900, "x\n" * 450 + "y\n" + "x\n" * 449)
    assert (made.added_lines, made.removed_lines) == (1, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_net_lines_are_exact_and_no_count_is_negative(old: list[str], new: list[str]) -> None:
    made = change("".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new))
    assert made.net_lines == len(new) - len(old)
    assert 0 <= made.added_lines <= len(new)
    assert 0 <= made.removed_lines <= len(old)
    assert (made.added_lines + made.removed_lines == 0) == (old == new)


def test_several_files_make_one_change() -> None:
    before = {"a.py": "x = 1\n", "b.py": "y = 1\n"}
    made = change_all(before, {**before, "b.py": "y = 2\nz = 3\n"})
    assert (made.added_lines, made.removed_lines) == (2, 1)
    assert made.ast_sha256 == change_all({}, {"b.py": "y = 2 # same\nz = 3\n", "a.py": "x = 1\n"}).ast_sha256
    assert made.ast_sha256 != change_all(before, before).ast_sha256
    assert change_all({"a.py": "x = 1\n"}, {"a.py": "x = 2\n"}) == change("x = 1\n", "x = 2\n")


def test_respelling_replaces_exactly_the_value() -> None:
    text = 'Ä = "ü"; RATE = -0.5  # Größe\nOTHER = (\n    1\n)\n'
    values = dict(assignments(parse(text)))
    assert respell(text, values["RATE"], "0.25") == text.replace("-0.5", "0.25")
    assert respell(text, values["OTHER"], "2") == text.replace("    1", "    2")


def test_what_explains_the_code_is_no_line_of_it() -> None:
    plain, told = "x = 1\n", "# why\n\nx = 1\n    # and how\n"
    assert (change(told, plain).net_lines, change(plain, told).net_lines) == (0, 0)
    assert change(plain, plain + "y = 2\n").net_lines == 1
    bare, documented = "def f():\n    return 1\n", 'def f():\n    """One,\n    as ever."""\n    return 1\n'
    assert (change(documented, bare).net_lines, change(bare, documented).net_lines) == (0, 0)
