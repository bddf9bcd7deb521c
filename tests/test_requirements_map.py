"""docs/requirements-map.md is whole: every rule has a row, every row a test that exists or a sentence why there is none, and no name is wrong."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator

import pytest

from tests.projects import ROOT

PAGE = (ROOT / "docs" / "requirements-map.md").read_text(encoding="utf-8")
RULES = (
    *(f"C-{n:02}" for n in range(1, 12)),
    *(f"S0-{n:02}" for n in range(1, 41) if n not in (6, 9, 22, 24, 25)),
    *(f"S1-{n:02}" for n in range(1, 29) if n not in (5, 8, 12, 23, 25, 26, 27)),
    *(f"S4-{n:02}" for n in range(1, 19) if n not in (6, 10, 11, 12, 13)),
)
SETTLED = tuple(f"K{n}" for n in range(1, 13))
PENDING: frozenset[str] = frozenset()  # rows that may be missing because what they ask for is not built yet
ROW = re.compile(r"^\| *((?:C|S\d)-\d+|K\d+) *\|(.*)\| *$", re.MULTILINE)
LOOSE = re.compile(r"^\|(?! *(?:id|-+) *\|)", re.MULTILINE)
NAME = re.compile(r"`(test_\w+)`")
WORDS_OF_A_RULE, WORDS_OF_A_REASON = 4, 10


def names_there() -> Iterator[str]:
    """Every test function that pytest collects below tests/ and that is not switched off."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not any(map(_off, node.decorator_list)):
                yield node.name


def _off(decorator: ast.expr) -> bool:
    return re.match(r"pytest\.mark\.(skip|xfail)\b(?!if)", ast.unparse(decorator)) is not None


THERE = frozenset(names_there())


def faults(page: str, there: Collection[str], pending: Collection[str] = PENDING) -> list[str]:
    """What is wrong with the map, a sentence each."""
    rows = ROW.findall(page)
    times = Counter(name for name, _ in rows)
    found = [f"{name}: no row" for name in (*RULES, *SETTLED) if name not in times and name not in pending]
    found += [f"{name}: {count} rows" for name, count in times.items() if count > 1]
    found += [f"{name}: nobody asked for it" for name in times if name not in RULES and name not in SETTLED]
    found += [f"{name}: has a row and is still pending" for name in times if name in pending]
    found += ["a line of a table is no row"] * (len(LOOSE.findall(page)) - len(rows))
    for name, cells in rows:
        found += [f"{name}: {fault}" for fault in _faults_of(name, [cell.strip() for cell in cells.split("|")], there)]
    return found


def _faults_of(name: str, cells: list[str], there: Collection[str]) -> Iterator[str]:
    if len(cells) != (3 if name in SETTLED else 2):
        yield "has too few or too many cells"
        return
    *said, held = cells
    if any(len(cell.split()) < WORDS_OF_A_RULE for cell in said):
        yield "does not say the rule"
    tests, reason = NAME.findall(held), NAME.sub("", held)
    yield from (f"{test} is no test here" for test in tests if test not in there)
    if "test_" in reason:
        yield "names a test outside of backticks"
    words = re.findall(r"\w+", reason)
    if not tests and len(words) < WORDS_OF_A_REASON:
        yield "has neither a test nor a sentence why there is none"
    if tests and 0 < len(words) < WORDS_OF_A_REASON:
        yield "ends in a scrap of a sentence"


def test_every_rule_and_every_settled_question_has_a_row_with_a_test_or_a_reason() -> None:
    assert faults(PAGE, THERE) == []
    assert (len(RULES), len(SETTLED)) == (80, 12)


def test_most_rules_are_held_by_tests_and_not_by_words() -> None:
    rows = ROW.findall(PAGE)
    assert sum(bool(NAME.search(cells)) for _, cells in rows) >= 0.9 * len(rows)


@pytest.mark.parametrize("name", [name for name in (*RULES, *SETTLED) if name not in PENDING])
def test_a_row_that_is_deleted_emptied_or_doubled_is_noticed(name: str) -> None:
    row = next(found.group() for found in ROW.finditer(PAGE) if found.group(1) == name)
    held = row.strip("| ").split("|")[-1]
    assert f"{name}: no row" in faults(PAGE.replace(row + "\n", ""), THERE)
    assert f"{name}: has neither a test nor a sentence why there is none" in faults(PAGE.replace(row, row.replace(held, " ")), THERE)
    assert f"{name}: has neither a test nor a sentence why there is none" in faults(
        PAGE.replace(row, row.replace(held, " see the code ")), THERE
    )
    assert f"{name}: does not say the rule" in faults(PAGE.replace(row, f"| {name} |{' |' * (2 if name in SETTLED else 1)}{held}|"), THERE)
    assert f"{name}: 2 rows" in faults(PAGE.replace(row, f"{row}\n{row}"), THERE)


@pytest.mark.parametrize("test", sorted(set(NAME.findall(PAGE))))
def test_a_test_that_is_renamed_or_deleted_is_noticed(test: str) -> None:
    named_by = [name for name, cells in ROW.findall(PAGE) if f"`{test}`" in cells]
    assert [f"{name}: {test} is no test here" for name in named_by] == faults(PAGE, THERE - {test})
    assert named_by


def test_rows_that_nobody_asked_for_and_lines_that_are_no_row_are_noticed() -> None:
    line = "| C-99 | a rule that is new here | `test_every_exit_code_is_there` |\n"
    table = "|---|---|---|\n"
    assert "C-99: nobody asked for it" in faults(PAGE.replace(table, table + line, 1), THERE)
    assert "a line of a table is no row" in faults(PAGE.replace(table, table + line.replace("C-99", "C99"), 1), THERE)
    assert "C-01: names a test outside of backticks" in faults(PAGE.replace("`test_", "test_", 1), THERE)
    assert "C-01: has a row and is still pending" in faults(PAGE, THERE, {"C-01"})
