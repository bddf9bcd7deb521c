"""results.tsv: what a cell may hold, and that the file is always what the journal says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.artifacts import gains
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.trial import JobEnd, JobOutcome, Status
from harness.views import results
from harness.views.text import duration, flatten, number, signed
from tests import study_factory as make

NASTY = '=cmd()\tx\ny\r\nz\u2028u\u2029v \x1b[31mred\x1b[0m \x1b]0;title\x07 \u202edlo\ud800 ```code``` \x00\x85 "q" ' + "long " * 2000


def study_dir(tmp_path: Path, tag: str = "mar8") -> StudyDir:
    folder = StudyDir(tmp_path, tag)
    folder.path.mkdir(parents=True, exist_ok=True)
    return folder


def cells(data: bytes) -> list[list[str]]:
    return [line.split("\t") for line in data.decode().removesuffix("\n").split("\n")]


def table(study: Study) -> bytes:
    return results.Results(StudyDir(Path("/nowhere"), "mar8")).render(study)


def test_upstreams_five_columns_come_first() -> None:
    head = results.header("val_bpb").split("\t")
    assert head[:5] == ["commit", "val_bpb", "memory_gb", "status", "description"]
    assert len(set(head)) == len(head)


def test_the_second_column_carries_the_metrics_name() -> None:
    assert results.header("accuracy").split("\t")[1] == "accuracy"


def test_every_line_has_the_same_number_of_cells() -> None:
    rows = cells(table(make.study(60)))
    assert len(rows) == 62
    assert {len(row) for row in rows} == {len(rows[0])}


def test_the_row_of_a_keep_says_what_the_journal_says() -> None:
    study = make.study(12)
    row = next(r for r in study.rows if r.status and r.status.value == "keep" and r.trial > 0)
    found = dict(zip(results.header("val_bpb").split("\t"), results.row_line(row).split("\t"), strict=True))
    assert row.commit and row.verdict and row.verdict.gain is not None
    assert found["commit"] == row.commit[:12]
    assert found["val_bpb"] == f"{row.value:.6f}"
    assert found["memory_gb"] == "1.0"
    assert found["gain"] == f"{row.verdict.gain:.6f}"
    assert found["trial"] == str(row.trial)
    assert found["budget_left"].startswith("trials=")
    assert found["folder"] == row.folder


def test_the_counters_of_models_are_shown_when_they_are_limited_and_a_stand_in_says_for_whom() -> None:
    row = make.study(3).rows[2]
    assert row.budget_left is not None
    head = results.header("val_bpb").split("\t")
    left = row.budget_left.model_copy(update={"calls": 40, "tokens": 1_200_000, "dollars": 3.14, "retries": 0})
    row = row.model_copy(update={"budget_left": left, "stands_for": "anthropic"})
    found = dict(zip(head, results.row_line(row).split("\t"), strict=True))
    assert found["budget_left"] == "trials=98 seconds=28700 crashes=5 calls=40 tokens=1200000 dollars=3.1400 retries=0"
    assert found["proposer"] == "search for anthropic"


def test_the_baseline_is_one_row_with_the_mean_of_its_readings() -> None:
    study = make.study(0)
    row = cells(table(study))[1]
    values = [r.value for r in study.rows[0].readings if r.value is not None]
    assert row[1] == f"{math.fsum(values) / 3:.6f}"
    assert row[3:5] == ["keep", "baseline"]


def test_a_trial_without_measurement_has_an_empty_value_and_memory_never_zero() -> None:
    night = make.Night()
    row = make.fold([night.start(), *night.baseline(), *night.candidate(failure=0)]).rows[-1]
    line = results.row_line(row).split("\t")
    assert line[1:4] == ["", "", "crash"]


@pytest.mark.parametrize(("peak", "shown"), [(None, ""), (0.0, ""), (10.0, "0.1"), (973.0, "1.0"), (45_056.0, "44.0")])
def test_memory_is_gb_with_one_decimal_and_empty_when_unknown(peak: float | None, shown: str) -> None:
    row = make.study(0).rows[0]
    readings = tuple(r.model_copy(update={"outcome": JobOutcome(end=JobEnd.OK, peak_memory_mb=peak)}) for r in row.readings)
    assert results.memory_gb(row.model_copy(update={"readings": readings})) == shown


def test_an_invalid_trials_value_is_not_in_the_value_column() -> None:
    row = make.study(3).rows[1]
    assert row.verdict is not None
    invalid = row.verdict.model_copy(update={"status": Status.INVALID, "value": 0.1})
    assert results.row_line(row.model_copy(update={"verdict": invalid})).split("\t")[1] == ""


def test_a_hostile_description_stays_one_cell_of_one_line() -> None:
    night = make.Night()
    row = make.fold([night.start(), *night.baseline(), *night.candidate(0.0)]).rows[-1].model_copy(update={"title": NASTY, "axis": NASTY})
    found = results.row_line(row).split("\t")
    assert len(found) == len(results.header("val_bpb").split("\t"))
    assert found[4].startswith("'=cmd() x y z u v red dlo\ufffd ```code``` 'q' long")
    assert len(found[4]) <= 200
    assert all(field.isprintable() for field in found)
    assert found == cells(("\t".join(found) + "\n").encode())[0], "it round-trips"


@pytest.mark.parametrize("first", list("=+-@"))
def test_a_cell_never_begins_like_a_formula(first: str) -> None:
    assert results.cell(f" \t{first}1+1") == f"'{first}1+1"


@given(st.text(st.characters(), max_size=300))
def test_flat_text_is_printable_short_and_flat_again(text: str) -> None:
    once = flatten(text)
    assert once.isprintable() and len(once) <= 200 and flatten(once) == once
    once.encode()


def test_numbers_for_people() -> None:
    assert number(-0.0000001, 4) == "0.0000" and number(None, 3) == "" and number(None, 3, "?") == "?"
    assert signed(-0.5, 1) == "−0.5" and signed(0.0, 1) == "+0.0" and signed(None) == ""
    assert [duration(x) for x in (None, 0.4, 99.4, 99.6, 3599, 25_500)] == ["unknown", "0 s", "99 s", "2 min", "1 h 00 min", "7 h 05 min"]


# --- the file ---


def test_a_night_writes_row_after_row_and_each_time_the_whole_truth(tmp_path: Path) -> None:
    folder, keeper = study_dir(tmp_path), results.Results(study_dir(tmp_path), tmp_path / "results.tsv")
    for study in make.prefixes(make.night(15)):
        assert keeper.sync(study) == []
        assert folder.results.read_bytes() == table(study) == (tmp_path / "results.tsv").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.tsv", "runs"]


def test_missing_rows_are_appended_to_the_same_file(tmp_path: Path) -> None:
    folder = study_dir(tmp_path)
    results.sync(folder, make.study(4))
    before = folder.results.stat().st_ino
    assert results.sync(folder, make.study(9)) == []
    assert folder.results.stat().st_ino == before
    assert folder.results.read_bytes() == table(make.study(9))


def test_a_cut_at_any_byte_of_the_last_row_gives_the_same_table(tmp_path: Path) -> None:
    study = make.study(3)
    whole = table(study)
    folder = study_dir(tmp_path)
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    for cut in range(start, len(whole)):
        folder.results.write_bytes(whole[:cut])
        results.sync(folder, study)
        assert folder.results.read_bytes() == whole, f"cut at byte {cut}"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_gives_the_same_table_and_loses_no_byte(tmp_path: Path, data: st.DataObject) -> None:
    study = make.study(3)
    whole, folder = table(study), study_dir(tmp_path)
    at = data.draw(st.integers(0, len(whole)))
    damaged = whole[:at] + data.draw(st.binary(max_size=8)) + whole[data.draw(st.integers(at, len(whole))) :]
    for old in folder.path.glob("results.tsv.bad-*"):
        old.unlink()
    folder.results.write_bytes(damaged)
    warnings = results.sync(folder, study)
    assert folder.results.read_bytes() == whole
    aside = [p.read_bytes() for p in folder.path.glob("results.tsv.bad-*")]
    assert aside == ([damaged] if warnings else [])
    assert warnings or damaged in (b"", whole) or whole.startswith(damaged)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda t: t.replace(b"\n", b"\r\n"), "line 1 ends in CR LF"),
        (lambda t: b"x\t" + t, "line 1 is not the header of this version"),
        (lambda t: t[:-20], "line 5 is cut"),
        (lambda t: t + t.split(b"\n")[-2] + b"\n", "line 6 is more than the journal has"),
        (lambda t: t.replace(b"keep", b"KEPT", 1), "line 2 is not what the journal says"),
        (lambda t: t[:-30] + b"\0" * 30, "line 5 holds NUL bytes"),
    ],
)
def test_a_damaged_table_is_moved_aside_rebuilt_and_named_by_its_first_bad_line(tmp_path: Path, damage: object, said: str) -> None:
    study, folder = make.study(3), study_dir(tmp_path)
    assert callable(damage)
    damaged = damage(table(study))
    folder.results.write_bytes(damaged)
    (warning,) = results.sync(folder, study)
    assert said in warning and "results.tsv.bad-1" in warning
    assert folder.results.read_bytes() == table(study)
    assert folder.results.with_name("results.tsv.bad-1").read_bytes() == damaged


def test_files_moved_aside_never_replace_each_other(tmp_path: Path) -> None:
    study, folder = make.study(2), study_dir(tmp_path)
    for text in ("one\n", "two\n"):
        folder.results.write_text(text)
        results.sync(folder, study)
    assert [folder.results.with_name(f"results.tsv.bad-{n}").read_text() for n in (1, 2)] == ["one\n", "two\n"]


def test_a_deleted_table_comes_back_without_a_word(tmp_path: Path) -> None:
    study, folder = make.study(5), study_dir(tmp_path)
    assert results.sync(folder, study, tmp_path / "results.tsv") == []
    folder.results.unlink()
    (tmp_path / "results.tsv").unlink()
    assert results.sync(folder, study, tmp_path / "results.tsv") == []
    assert folder.results.read_bytes() == (tmp_path / "results.tsv").read_bytes() == table(study)


@pytest.mark.parametrize("content", ["my notes\n", "commit\tval_bpb\tmemory_gb\tstatus\tdescription\nabc1234\t0.99\t44.0\tkeep\tmine\n"])
def test_somebodys_own_table_at_the_top_is_moved_aside_not_overwritten(tmp_path: Path, content: str) -> None:
    study, folder, top = make.study(2), study_dir(tmp_path), tmp_path / "results.tsv"
    top.write_text(content)
    (warning,) = results.sync(folder, study, top)
    assert "results.tsv.bad-1" in warning
    assert (tmp_path / "results.tsv.bad-1").read_text() == content
    assert top.read_bytes() == table(study)


def test_upstreams_bare_header_and_another_studys_copy_are_simply_replaced(tmp_path: Path) -> None:
    top = tmp_path / "results.tsv"
    top.write_text("commit\tval_bpb\tmemory_gb\tstatus\tdescription\n")
    first, second = study_dir(tmp_path, "one"), study_dir(tmp_path, "two")
    assert results.sync(first, make.study(5), top) == []
    other = make.study(3, of=make.Night(seed=7))
    assert results.sync(second, other, top) == []
    assert top.read_bytes() == table(other)
    assert results.sync(first, make.study(5), top) == []


def test_a_folder_in_the_tables_place_is_moved_aside_too(tmp_path: Path) -> None:
    study, folder = make.study(1), study_dir(tmp_path)
    folder.results.mkdir()
    (warning,) = results.sync(folder, study)
    assert "bad-1" in warning and folder.results.read_bytes() == table(study)


def test_a_summary_fold_is_never_taken_for_the_whole_table() -> None:
    study = make.study(20)
    study.rows = study.rows[-5:]
    with pytest.raises(AssertionError, match="summary"):
        table(study)


def coerced(text: str) -> float | None:
    """`pd.to_numeric(errors="coerce")`."""
    try:
        return float(text)
    except ValueError:
        return None


def test_upstreams_own_analysis_runs_on_the_table() -> None:
    study = make.study(40, of=make.Night(seed=2))
    head, *rows = cells(table(study))
    frame = [dict(zip(head, row, strict=True)) for row in rows]
    assert not any('"' in field for row in rows for field in row), "a quote would make pandas join lines"
    values = [coerced(row["val_bpb"]) for row in frame]
    statuses = [row["status"].strip().upper() for row in frame]
    assert {"KEEP", "DISCARD"} < set(statuses) and values[0] is not None
    kept = [v for v, s in zip(values, statuses, strict=True) if s == "KEEP" and v is not None]
    believed = [gains.believed_value(row) for row in study.rows if row.status and row.status.value == "keep"]
    assert values[0] == pytest.approx(study.baseline and study.baseline.value, abs=1e-6)
    assert min(kept) == pytest.approx(min(v for v in believed if v is not None), abs=1e-6)
    assert all(coerced(row["memory_gb"]) != 0 for row in frame)
