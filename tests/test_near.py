"""A repeat with other decimals is known; an edit that can train differently never passes for one."""

from __future__ import annotations

import ast
import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.graph import near as module
from harness.graph.duplicates import parse
from harness.graph.near import Near, changed_symbols, near

TRAIN = (Path(__file__).parents[1] / "bench" / "upstream_recipe.py").read_text()  # a program whose text stays as it is
FLOATS = re.findall(r"^([A-Z][A-Z0-9_]*) = ([0-9]*\.[0-9]+|[0-9]+e-?[0-9]+)", TRAIN, re.MULTILINE)
INTEGERS = re.findall(r"^([A-Z][A-Z0-9_]*) = ([0-9]+) ", TRAIN, re.MULTILINE)
STARTS = {"WARMUP": 0.05, "FINAL_LR": 0.04, "RESIDUAL_INIT": 1.1}  # instead of values that have no small step
SWAPPED: dict[type[ast.AST], ast.AST] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Div(),
    ast.Div: ast.Mult(),
    ast.FloorDiv: ast.Mod(),
    ast.Mod: ast.FloorDiv(),
    ast.Pow: ast.Mult(),
    ast.MatMult: ast.Mult(),
}


def put(text: str, name: str, value: object) -> str:
    changed, count = re.subn(rf"^{name} = [-0-9.e]+", f"{name} = {value}", text, flags=re.MULTILINE)
    assert count == 1
    return changed


def swap(old: str, new: str, text: str = TRAIN) -> str:
    assert old in text
    return text.replace(old, new)


def start(name: str, value: str) -> float:
    return STARTS.get(name, float(value) * 0.8)


def shift(value: float, share: float) -> float:
    """A value a little further on; neither it nor its distance from 1 moves by more than the share."""
    return value + share * (min(value, 1 - value) if value < 1 else value)


POLYNOMIAL = swap("3.4445", "3.2")
RENAMED = swap("gram", "product", swap("tall", "is_tall", swap("3.4445", "3.22")))
UNSCALED = swap("return LOGIT_CAP * torch.tanh(self.head(norm(x)).float() / LOGIT_CAP)", "return 0.3 * self.head(norm(x)).float()")


def repeats() -> Iterator[tuple[str, str, str]]:
    """What was tried and the same once more: what it is, the earlier text, the later one."""
    for name, value in FLOATS:
        first = start(name, value)
        earlier = put(TRAIN, name, first)
        for share in (0.019, -0.015, 0.01, -0.004):
            yield f"{name} by {share}", earlier, put(TRAIN, name, shift(first, share))
        yield f"{name} with a comment", earlier, swap("# Batch", "# Rows, again\n", put(TRAIN, name, f"{shift(first, 0.01)}  # again"))
        yield f"{name} with renamed locals", put(POLYNOMIAL, name, first), put(RENAMED, name, shift(first, 0.01))
    for name, value in INTEGERS:
        if int(value) >= 1000:
            yield name, put(TRAIN, name, 3 * int(value) + 1), put(TRAIN, name, 3 * int(value) + 3)
    for (name, value), (other, beside) in itertools.pairwise(FLOATS):
        first, second = start(name, value), start(other, beside)
        earlier = put(put(TRAIN, name, first), other, second)
        yield f"{name} and {other}", earlier, put(put(TRAIN, name, shift(first, 0.01)), other, shift(second, -0.01))
    yield "a method", UNSCALED, swap("0.3 *", "(0.304) *", UNSCALED)
    yield "a negative number", swap("-4.775", "-4.5"), swap("-4.775", "-(4.51)")


def constants() -> Iterator[tuple[str, str]]:
    """Every constant by steps that are worth a trial."""
    for name, value in FLOATS:
        base = float(value) or 0.05
        wanted = [base * 0.95, base * 1.05, base * 2, base / 2]
        for one in wanted:
            yield f"{name} = {one}", put(TRAIN, name, one)
    for name, value in INTEGERS:
        number = int(value)
        wanted_integers = {number + 1, number - 1} if number < 48 else {number * 19 // 20, number * 21 // 20}
        for whole in sorted({*wanted_integers, number * 2, number * 4}):
            yield f"{name} = {whole}", put(TRAIN, name, whole)
    for name, pair in {
        "MUON_MOMENTUM": (0.99, 0.995),
        "ADAM_BETA2": (0.99, 0.999),
        "WARMDOWN": (0.7, 0.735),
        "MATRIX_LR": (0.05, 0.0525),
    }.items():
        for value in pair:
            yield f"{name} = {value}", put(TRAIN, name, value)


def test_many_names_of_one_statement_are_read_once() -> None:
    names = ", ".join(f"a{n}" for n in range(2000))
    module._spelled.cache_clear()
    assert len(changed_symbols("", f"({names}) = range(2000)\n")) == 2000
    assert module._spelled.cache_info().misses <= 2


def mutants() -> Iterator[tuple[str, str]]:
    """One operator inside a function exchanged, or its operands, or one call's name."""
    places = [
        place
        for place, node in enumerate(ast.walk(ast.parse(TRAIN)))
        if isinstance(node, ast.Call) or type(getattr(node, "op", None)) in SWAPPED
    ]
    for place in places:
        tree = ast.parse(TRAIN)
        node = next(itertools.islice(ast.walk(tree), place, None))
        if isinstance(node, ast.BinOp):
            node.op = SWAPPED[type(node.op)]  # type: ignore[assignment]
            yield f"operator in line {node.lineno}:{node.col_offset}", ast.unparse(tree)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node.func.attr += "_"
            yield f"call in line {node.lineno}:{node.col_offset}", ast.unparse(tree)


REWORKED = [
    ("F.relu(self.up(x)).square()", "F.gelu(self.up(x))"),
    ("F.relu(self.up(x)).square()", "F.silu(self.up(x))"),
    ("F.relu(self.up(x)).square()", "F.relu(self.up(x))"),
    ("F.relu(self.up(x)).square()", "self.up(x).square()"),
    ("F.relu(self.up(x)).square()", "F.relu(self.up(x)).square() * 1.0"),
    ("is_causal=True", "is_causal=False"),
    ("norm(rotate(query, angles)), norm(rotate(key, angles))", "rotate(norm(query), angles), rotate(norm(key), angles)"),
    ("norm(rotate(query, angles)), norm(rotate(key, angles))", "norm(rotate(key, angles)), norm(rotate(query, angles))"),
    ("left * cos - right * sin", "right * cos - left * sin"),
    ("left * cos - right * sin, left * sin + right * cos", "left * sin + right * cos, left * cos - right * sin"),
    ("(-4.775 * gram + 2.0315 * gram @ gram) @ x", "-4.775 * gram + 2.0315 * gram @ gram @ x"),
    ("(step + decay)", "step"),
    ("(step * p > 0)", "(step * p >= 0)"),
    ("weight_decay=0.0", "weight_decay=0.01"),
    ("weight_decay=0.0", "weight_decay=0.02"),
    ("fused=True", "fused=True, amsgrad=True"),
    ("nn.init.normal_(self.head.weight, std=0.001)", "nn.init.zeros_(self.head.weight)"),
    ("bias=False)\n        self.down", "bias=True)\n        self.down"),
    (
        "        x = x + self.attention(norm(x), extra, angles)\n        return x + self.mlp(norm(x))\n",
        "        return x + self.mlp(norm(x))\n",
    ),
    ("x + self.attention(norm(x), extra, angles)", "x + self.attention(x, extra, angles)"),
    ("attention.query, attention.key, attention.value, block.mlp.up", "attention.query, attention.key, attention.value"),
]


def different() -> list[tuple[str, str]]:
    found = [*constants(), *mutants(), *((f"{old} -> {new}", swap(old, new)) for old, new in REWORKED)]
    texts = [text for _, text in found]
    assert len(set(texts)) == len(texts)
    return found


@pytest.mark.slow
def test_a_hundred_near_repeats_of_edits_of_train_py_are_recognised() -> None:
    cases = list(repeats())
    assert len(cases) >= 100
    missed = [what for what, earlier, later in cases if near(TRAIN, earlier, later) is None]
    assert missed == []


@pytest.mark.slow
def test_hundreds_of_different_edits_of_train_py_are_never_near_one_another() -> None:
    edits = different()
    assert len(edits) >= 100
    wrong = [(one, other) for (one, first), (other, second) in itertools.combinations(edits, 2) if near(TRAIN, first, second)]
    assert wrong == []


def test_what_is_near_is_told_in_words() -> None:
    found = near(TRAIN, put(TRAIN, "WARMDOWN", "0.7"), put(TRAIN, "WARMDOWN", "0.705"))
    assert found is not None
    assert found.symbols == ("WARMDOWN",)
    assert found.similarity == pytest.approx(1 - 0.005 / 0.705)
    assert found.words == "WARMDOWN 0.7 against 0.705"


def test_only_the_first_numbers_are_told() -> None:
    found = near("A = 1\n", "A = [1001, 2001, 3001, 4001, -5001]\n", "A = [1003, 2003, 3003, 4003, -5003]\n")
    assert found is not None
    assert found.words == "A 1001 against 1003, A 2001 against 2003, A 3001 against 3003 and 2 more"
    long = near("A = 1\n", f"A = 0x{'f' * 4999}d\n", f"A = 0x{'f' * 5000}\n")
    assert long is not None
    assert len(long.words) < 100


def test_the_same_code_in_other_words_is_near() -> None:
    parent = "def f(x):\n    return g(x)\n"
    assert near(
        parent, "def f(x):\n    y = 2 * x\n    return g(y)\n", "def f(x):\n    '''Doc.'''\n    z = 2*x\n    return g((z))\n"
    ) == Near(("f",), 1.0, "the same code")


WITHIN = [("50001", "50003"), ("-2001", "-2003"), ("0.7", "0.714"), ("-0.7", "-0.71"), ("1e-10", "1.01e-10"), ("2.0", "2.03")]
WITHIN += [
    ("1.5", "1.51"),
    ("0.7", "0.7001"),
    ("0.95", "0.9505"),
    ("0.999", "0.99901"),
    ("f(1.5, 2)", "f(1.51, 2)"),
    ("10000.0", "1.01e4"),
    ("1e308", "1.01e308"),
]


@pytest.mark.parametrize(("one", "other"), WITHIN)
def test_numbers_within_two_percent_are_near(one: str, other: str) -> None:
    assert near("A = 7\n", f"A = {one}\n", f"A = {other}\n") is not None


APART = [("3", "4"), ("48", "49"), ("64", "66"), ("0.7", "0.72"), ("0.0", "1e-300"), ("0", "1"), ("64", "64.0")]
APART += [
    ("64.0", "-64.0"),
    ("1", "True"),
    ("0.95", "0.96"),
    ("0.99", "0.999"),
    ("0.9", "0.91"),
    ("-0.0", "1e-9"),
    ("0.999", "1.0"),
    ("1.0", "1.01"),
    ("1e999", "1e308"),
]
APART += [
    ("-1e999", "1e999"),
    ("1j", "1.01j"),
    ("'0.7'", "'0.705'"),
    ("[64]", "(64)"),
    ("f(a=64)", "f(b=64)"),
    ("[64, 64]", "[64]"),
    ("B + 64", "B - 64"),
]
APART += [
    ("64 + B", "B + 64"),
    ("f'{x:.64f}'", "f'{x:.65f}'"),
    ("64", "[64]"),
    ("lambda x, y: x", "lambda x, y: y"),
    ("64 if a else b", "64 if b else a"),
]


@pytest.mark.parametrize(("one", "other"), APART)
def test_in_doubt_two_edits_are_different(one: str, other: str) -> None:
    assert near("A = 7\n", f"A = {one}\n", f"A = {other}\n") is None


@pytest.mark.parametrize(
    ("parent", "earlier", "text"),
    [
        ("A = 64\nB = 64\n", "A = 100\nB = 64\n", "A = 100\nB = 65\n"),  # the earlier one left B as it was
        ("A = 64\n", "A = 64\n", "A = 65\n"),
        ("A = 1\n", "A = 100\nB = 1\n", "A = 101\n"),
        ("A = 1\nB = 1\n", "A = 100\n", "B = 101\n"),
        ("A = 1\n", "A = 100\ng(A)\n", "g(A)\nA = 101\n"),
        ("A = 1\n", "A = 100\nA = 200\n", "A = 200\nA = 100\n"),
        ("A = 1\n", "import a\nA = 100\n", "import b\nA = 101\n"),
        ("A = 1\n", "if a:\n    A = 100\n", "if b:\n    A = 101\n"),
        ("class A: pass\n", "class A:\n    def f(s): pass\n    x = f\n", "class A:\n    x = f\n    def f(s): pass\n"),
        ("class A: pass\n", "class A:\n    def f(s): pass\n    def g(s): pass\n", "class A:\n    def g(s): pass\n    def f(s): pass\n"),
        ("def f(x): pass\n", "def f(x):\n    y = 1\n    eval('y')\n", "def f(x):\n    z = 1\n    eval('y')\n"),
        ("@a\ndef f(): pass\n", "@b\ndef f(): pass\n", "@c\ndef f(): pass\n"),
        ("A = 1\r\n", "A = 100\r\n", "A = 101\r\n"),
        ("\ufeffA = 1\n", "\ufeffA = 100\n", "\ufeffA = 101\n"),
        ("A = 1\n", "A = 100\n", "A = \n"),
        ("A = 1\n", "A = 100 +\n", "A = 100 +\n"),
        ("A = \n", "A = 100\n", "A = 101\n"),
        ("A = 1\n", "A = 100\nreturn\n", "A = 101\nreturn\n"),
    ],
)
def test_edits_of_other_places_or_in_other_orders_are_different(parent: str, earlier: str, text: str) -> None:
    assert near(parent, earlier, text) is None
    assert near(parent, text, earlier) is None


@pytest.mark.parametrize(
    ("parent", "text", "changed"),
    [
        ("A = 1\n", "A = 2\n", {"A"}),
        ("A = 1\n", "A: int = 1  # as before\n", {"A"}),
        ("A = 1000\n", "'''Doc.'''\nA = 1_000  # a comment\npass\n", set()),
        ("A = 1\nB = 2\n", "B = 2\n", {"A"}),
        ("A = 1\n", "A = 1\ndef f(): pass\nclass G: pass\n", {"f", "G"}),
        ("A, B = 1, 2\n", "A, B = 1, 3\n", {"A", "B"}),
        ("A = 1\n", "A = 1\nA += 1\n", {"A"}),
        ("import a\n", "import b\n", {"<module>"}),
        ("A.b = 1\n", "A.b = 2\n", {"<module>"}),
        ("A, B.c = x\n", "A, B.c = y\n", {"<module>"}),
        ("def f(): pass\ndef g(): pass\n", "def g(): pass\n\n\ndef f(): pass\n", set()),
        ("def f(x):\n    y = x\n    return y\n", "def f(x):\n    z = x\n    return z\n", set()),
        ("async def f(): pass\n", "@a\nasync def f(): pass\n", {"f"}),
        ("A = 1; B = 2\n", "A = 1; B = 3\n", {"B"}),
        ("class A:\n    def f(s): pass\n", "class A:\n    def f(s): s.x\n", {"A.f"}),
        ("class A:\n    def f(s): pass\n", "class A:\n    '''Doc.'''\n    def f(s): pass\n    def g(s): pass\n", {"A.g"}),
        ("class A:\n    def f(s): pass\n", "class A(B):\n    x = 1\n    def f(s): pass\n", {"A"}),
        ("class A: pass\n", "class A:\n    @property\n    def f(s): pass\n    @f.setter\n    def f(s, v): s.v = v\n", {"A.f"}),
        ("A = 1\n", "A = \n", set()),
        ("A = 1\r\n", "A = 2\r\n", set()),
    ],
)
def test_a_change_is_told_by_the_symbols_it_touches(parent: str, text: str, changed: set[str]) -> None:
    assert changed_symbols(parent, text) == changed
    assert changed_symbols(text, parent) == changed


def test_symbols_of_train_py_are_found() -> None:
    assert changed_symbols(TRAIN, UNSCALED) == {"GPT.forward"}
    assert changed_symbols(TRAIN, RENAMED) == {"orthogonalise"}
    assert changed_symbols(TRAIN, put(POLYNOMIAL, "WARMDOWN", 0.7)) == {"orthogonalise", "WARMDOWN"}
    assert changed_symbols(TRAIN, ast.unparse(ast.parse(TRAIN))) == frozenset()


@pytest.mark.slow
def test_the_source_of_a_statement_is_the_statement() -> None:
    for path in sorted((Path(__file__).parents[1] / "harness").rglob("*.py")):
        text = "# ünïcödé\n" + path.read_text()
        told = {ast.dump(ast.parse(code)) for _, code in module._outline(text)}
        held = {ast.dump(ast.Module([one], [])) for one in parse(text).body if not module._is_idle(one)}
        assert told == held, path


@pytest.mark.slow
def test_a_file_of_100_kilobytes_takes_less_than_a_tenth_of_a_second_when_it_is_known() -> None:
    bodies = [TRAIN.replace("def ", f"def f{n}_").replace("class ", f"class C{n}_") for n in range(100_000 // len(TRAIN) + 1)]
    parent = "\n".join(bodies)
    earlier, later = put_last(parent, "0.7"), put_last(parent, "0.705")
    assert near(parent, earlier, later) is not None
    started = time.process_time()
    assert near(parent, earlier, later) is not None
    assert time.process_time() - started < 0.1


def put_last(text: str, value: str) -> str:
    head, _, tail = text.rpartition("WARMDOWN = 0.5")
    return f"{head}WARMDOWN = {value}{tail}"


CODE = [f"A = {number}\n" for number in ("0", "1", "64", "65", "66", "0.7", "0.705", "-0.7", "True", "'a'")]
CODE += [f"def f(x):\n    {name} = {number} * x\n    return {name}\n" for name in "yz" for number in ("64", "65", "-65", "1.5")]
CODE += [
    "class A:\n    def f(self): return 64\n",
    "class A:\n    def f(self): return 65\n    x = 2\n",
    "import a\n",
    "# said\n",
    "g(64)\n",
    "\n",
]
CODE += ["if A:\n    g()\n", "A = B = 100\n", "A, B = 100, 101\n", "A = \n", "return\n", "'''Doc.'''\n", "x = '''\n'''\n"]
TEXTS = st.lists(st.sampled_from(CODE), max_size=4).map("".join)


@settings(max_examples=300, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_near_has_no_direction(parent: str, one: str, other: str) -> None:
    there, back = near(parent, one, other), near(parent, other, one)
    assert (there is None) == (back is None)
    if there and back:
        assert (there.symbols, there.similarity) == (back.symbols, back.similarity)
        assert 0.98 <= there.similarity <= 1
        assert set(there.symbols) == changed_symbols(parent, one) == changed_symbols(parent, other)
    assert near(parent, parent, other) is None
    assert near(parent, one, parent) is None


STRANGE = st.one_of(
    st.text(max_size=40), st.text(alphabet="A =1.e+()[]:\n\t\\\r\x0c\ufeff;'\"#@\ud800", max_size=40), st.sampled_from(CODE)
)


@settings(max_examples=300, deadline=None)
@given(STRANGE, STRANGE, STRANGE)
def test_no_text_is_too_strange(parent: str, one: str, other: str) -> None:
    near(parent, one, other)
    changed_symbols(parent, one)


@pytest.mark.parametrize(
    "text", ["(" * 5000, "x = " + "-" * 80 + "1", "x = " + "+".join("a" * 900), "x = 0x" + "f" * 9000, "f" * 5000 + " = 1"]
)
def test_deep_and_long_texts_are_no_trouble(text: str) -> None:
    near("x = 1\n", text, text + " + 1")
    changed_symbols("x = 1\n", text)
