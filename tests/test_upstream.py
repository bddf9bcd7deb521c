"""Other people's results.tsv: read by column name, never guessed, never shifted, every bad line named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.artifacts.trial_dir import StudyDir
from harness.errors import UserFault
from harness.views import results
from harness.views.foreign import Table
from harness.views.upstream import as_dict, ranges, read_table, summary
from tests import study_factory as make

HEAD = "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n"
REAL = Path(os.environ.get("RATCHET_UPSTREAM", "/nowhere"))
real = pytest.mark.skipif(not REAL.is_dir(), reason="RATCHET_UPSTREAM names no folder with upstream's real tables")


def read(tmp_path: Path, text: str | bytes, metric: str | None = None) -> Table:
    path = tmp_path / "results.tsv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_table(path, metric)


def complaints(table: Table) -> list[tuple[int, str]]:
    return [(c.line, c.why) for c in table.bad]


def test_the_best_is_the_lowest_kept_row_not_a_crash_nor_a_discard(tmp_path: Path) -> None:
    table = read(
        tmp_path, HEAD + "a1b2c3d\t0.99\t44.0\tkeep\tbaseline\na1b2c3e\t0.000000\t0.0\tcrash\toom\na1b2c3f\t0.98\t44.0\tdiscard\tx\n"
    )
    assert as_dict(table)["best"]["value"] == 0.99
    assert [row.value for row in table.rows] == [0.99, None, 0.98]
    assert table.rows[1].memory_gb is None and table.bad == ()


def test_columns_are_found_by_name_wherever_they_stand(tmp_path: Path) -> None:
    text = "trial\tstatus\tdescription\tcommit\textra\tval_bpb\n1\tKEEP\tfirst\tabcdef1\t?\t1.5\n2\tDiscard\tsecond\tabcdef2\t?\t1.6\n"
    table = read(tmp_path, text)
    assert [(r.commit, r.value, r.status, r.description) for r in table.rows] == [
        ("abcdef1", 1.5, "keep", "first"),
        ("abcdef2", 1.6, "discard", "second"),
    ]


def test_a_row_with_a_cell_too_many_or_too_few_is_named_and_skipped_never_shifted(tmp_path: Path) -> None:
    table = read(tmp_path, HEAD + "a1b2c3d\t0.99\t44.0\tkeep\tbaseline\na1b2c3e\t0.98\tkeep\tx\na1b2c3f\t0.97\t44.0\tkeep\tx\ty\n")
    assert complaints(table) == [(3, "4 cells instead of 5"), (4, "6 cells instead of 5")]
    assert len(table.rows) == 1


def test_cells_that_are_no_commits_are_reported_with_their_lines(tmp_path: Path) -> None:
    odd = ["", "none", "baseline", "TBD", "uncommitted", "abc1234-dirty", "exp003"]
    table = read(tmp_path, HEAD + "".join(f"{cell}\t0.9\t44.0\tkeep\tx\n" for cell in odd))
    assert [line for line, _ in complaints(table)] == list(range(2, 9))
    assert all(row.commit is None for row in table.rows) and len(table.rows) == 7
    assert "no commit to go back to" in summary(table)


@pytest.mark.parametrize("encode", [
    lambda t: t.replace("\n", "\r\n").encode(), lambda t: b"\xef\xbb\xbf" + t.encode(), lambda t: t.encode("utf-16"),
    lambda t: b"\xfe\xff" + t.encode("utf-16-be"), lambda t: t.rstrip("\n").encode(), lambda t: b"\n" + t.encode() + b"\n\n",
])  # fmt: skip
def test_line_ends_byte_order_marks_and_utf16_change_nothing(tmp_path: Path, encode: object) -> None:
    assert callable(encode)
    table = read(tmp_path, encode(HEAD + "a1b2c3d\t0.99\t44.0\tkeep\tgrün → blue\n"))
    assert [(r.value, r.description) for r in table.rows] == [(0.99, "grün → blue")]
    assert table.bad == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("commit,val_bpb,status\n", "no tab in the header"),
        ("commit\tloss\tstatus\n", "no metric column"),
        ("commit\tval_a\tval_b\tstatus\n", "nothing is guessed"),
        ("commit\tval_bpb\tstate\n", "no column 'status'"),
        ("a1b2c3d\t0.99\t44.0\tkeep\tbaseline\n", "is this a header?"),
        ("commit\tval_bpb\tstatus\tstatus\n", "is there twice"),
        (b"\xff\xfec", "UTF-16"),
    ],
)
def test_a_table_that_cannot_be_understood_is_one_sentence(tmp_path: Path, text: str | bytes, said: str) -> None:
    with pytest.raises(UserFault, match=r"results\.tsv") as caught:
        read(tmp_path, text)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_no_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserFault, match="No such file"):
        read_table(tmp_path / "none.tsv")


def test_the_metric_can_be_named(tmp_path: Path) -> None:
    text = "commit\tval_a\tval_b\tstatus\na1b2c3d\t1\t2\tkeep\n"
    assert read(tmp_path, text, "val_b").rows[0].value == 2.0


@pytest.mark.parametrize("cell", ["", "abc", "0.000000", "nan", "inf", "1,234", "1e999", "0x10", "1_0"])
def test_a_kept_row_without_a_usable_value_is_skipped_and_named(tmp_path: Path, cell: str) -> None:
    table = read(tmp_path, HEAD + f"a1b2c3d\t{cell}\t44.0\tkeep\tx\n")
    assert table.rows == () and table.bad[0].line == 2 and table.bad[0].why.startswith("val_bpb ")


def test_a_first_row_that_cannot_be_used_does_not_make_the_second_the_baseline(tmp_path: Path) -> None:
    table = read(tmp_path, HEAD + "torn\na1b2c3d\t0.99\t44.0\tkeep\tx\n")
    assert table.baseline is None and as_dict(table)["baseline"] is None
    assert "the first row cannot be used" in summary(table)


@pytest.mark.parametrize("text", ["", "\n\n", HEAD, HEAD.rstrip("\n"), HEAD + "half a row"])
def test_an_empty_night_is_a_sentence(tmp_path: Path, text: str) -> None:
    assert "nothing to believe" in summary(read(tmp_path, text))


def test_a_crash_first_and_no_keep_at_all_are_sentences(tmp_path: Path) -> None:
    text = summary(read(tmp_path, HEAD + "a1b2c3d\t0.0\t0.0\tcrash\tx\na1b2c3e\t0.99\t1.0\tdiscard\tx\n"))
    assert "has no value" in text and "no row was kept" in text


def test_hostile_bytes_reach_neither_the_terminal_nor_the_numbers(tmp_path: Path) -> None:
    table = read(tmp_path, HEAD.encode() + b"a1b2c3d\t0.99\t1.0\tkeep\t\x1b[2Jboo\xff\x9b\na\0b\t0.9\t1.0\tkeep\tx\n")
    text = summary(table)
    assert all(line.isprintable() for line in text.splitlines()) and "boo" in text
    assert complaints(table) == [(3, "NUL bytes")]


def test_lines_are_named_in_ranges() -> None:
    assert ranges([2, 3, 4, 7]) == "2-4, 7"
    assert ranges(list(range(0, 100, 2))).endswith("and 30 more places")


def test_our_own_table_reads_back(tmp_path: Path) -> None:
    study = make.study(40)
    table = read(tmp_path, results.Results(StudyDir(tmp_path, "x")).render(study))
    assert table.bad == () and len(table.rows) == 41
    assert len(table.kept) == study.counts["keep"]
    assert json.loads(json.dumps(as_dict(table)))["counts"] == study.counts


@real
def test_the_real_h100_night() -> None:
    table = read_table(REAL / "h100-mar8-results.tsv")
    assert (len(table.rows), len(table.kept), table.judged) == (126, 23, 124)
    assert complaints(table) == [(2, "commit cell 'baseline' is no commit")]
    facts = as_dict(table)
    assert (facts["baseline"], facts["best"]["value"], facts["best"]["commit"]) == (0.9979, 0.969686, "438a26e")
    assert facts["expected_chance_keeps"] == pytest.approx(4.41, abs=0.01)
    assert "gain: +0.028214" in summary(table)


@real
def test_a_real_night_with_another_metric() -> None:
    table = read_table(REAL / "pr438-results.tsv")
    assert table.metric == "val_rmse" and len(table.kept) == 6 and table.bad == ()


@real
def test_a_real_night_with_empty_commit_cells() -> None:
    table = read_table(REAL / "pr238-results.tsv")
    assert complaints(table) == [(line, "commit cell is empty") for line in range(3, 26)]
    assert "lines 3-25: commit cell is empty" in summary(table)


@real
def test_a_real_night_of_broken_lines() -> None:
    with pytest.raises(UserFault, match="no metric column"):
        read_table(REAL / "pr577-results.tsv")
    table = read_table(REAL / "pr577-results.tsv", "metric_after")
    assert len(table.rows) == 440 and len([c for c in table.bad if c.why == "1 cell instead of 6"]) == 95
    assert "rejected" in summary(table)
