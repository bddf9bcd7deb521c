"""The limits of the house (CONTRIBUTING.md): sizes, depth, docstrings, and handlers that name what they catch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.projects import ROOT

HARNESS = sorted((ROOT / "harness").rglob("*.py"))
PATH_OF_A_NUMBER = (
    "rules.py",
    "control/loop.py",
    "control/night.py",
    "control/desk.py",
    "evaluation/judge.py",
    "graph/ratchet.py",
    "artifacts/journal.py",
)
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match, ast.AsyncFor, ast.AsyncWith)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, Function))


def length(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def depth(node: ast.AST) -> int:
    """The deepest block inside a node; `elif` is no block of its own, a function inside starts anew."""
    deepest = 0
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, Function):
                continue
            chained = field == "orelse" and isinstance(node, ast.If) and isinstance(child, ast.If) and len(node.orelse) == 1
            deepest = max(deepest, depth(child) + (isinstance(child, BLOCKS) and not chained))
    return deepest


@pytest.mark.parametrize("path", HARNESS, ids=name)
def test_a_file_has_a_docstring_and_at_most_250_lines(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))
    assert lines(path) <= 250


@pytest.mark.parametrize("path", HARNESS, ids=name)
def test_a_function_has_at_most_50_lines_and_three_levels(path: Path) -> None:
    assert {f.name: length(f) for f in functions(path) if length(f) > 50} == {}
    assert {f.name: depth(f) for f in functions(path) if depth(f) > 3} == {}


def test_nine_functions_in_ten_are_shorter_than_25_lines() -> None:
    all_lengths = [length(f) for path in HARNESS for f in functions(path)]
    assert sum(one < 25 for one in all_lengths) >= 0.9 * len(all_lengths)


def test_the_median_file_is_shorter_than_100_lines() -> None:
    assert sorted(lines(path) for path in HARNESS)[len(HARNESS) // 2] < 100


@pytest.mark.parametrize("path", HARNESS, ids=name)
def test_a_handler_names_what_it_catches(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else ""
            again = any(isinstance(inner, ast.Raise) and inner.exc is None for inner in node.body)
            assert caught, f"{name(path)}:{node.lineno} catches everything"
            assert caught != "Exception" and (caught != "BaseException" or again), f"{name(path)}:{node.lineno} catches {caught}"


def test_nothing_is_mocked() -> None:
    banned = "unittest" + ".mock"
    ours = [*HARNESS, *(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]
    assert [name(path) for path in ours if banned in path.read_text()] == []


@pytest.mark.parametrize(("file", "limit"), [("prepare.py", 700), ("train.py", 599)])
def test_the_two_scripts_stay_pleasant_to_read(file: str, limit: int) -> None:
    assert lines(ROOT / file) <= limit


def test_the_path_of_a_number_is_read_in_half_an_hour() -> None:
    assert sum(lines(ROOT / "harness" / file) for file in PATH_OF_A_NUMBER) <= 1200


def test_the_whole_harness_has_at_most_26200_lines() -> None:
    assert sum(map(lines, HARNESS)) <= 26_200
