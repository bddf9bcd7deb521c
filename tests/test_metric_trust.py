"""What a candidate prints, returns or changes never becomes a number: whole studies with scripted proposals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.events import Event, Interrupted, Warned
from harness.control import wording
from harness.errors import InfrastructureFault
from harness.trial import FAILED, JobEnd, JobOutcome, Status
from tests.projects import Seen, folder_of, git, resume_study, run_study, study_of

Make = Callable[..., Path]
ONE_READING = "[keep]\nbaseline_readings = 1"


def edits(folder: Path, *entries: dict[str, Any]) -> Path:
    """A list for the scripted proposer: `set`, or `find` with `replace`."""
    path = folder / "edits.json"
    path.write_text(json.dumps({"proposals": [{"title": f"edit {n}", **entry} for n, entry in enumerate(entries, 1)]}))
    return path


def warnings(seen: Seen, code: str) -> list[str]:
    return [event.message for event in seen.events if isinstance(event, Warned) and event.code == code]


def kinds(events: list[Event], kind: str) -> int:
    return sum(event.kind == kind for event in events)


def test_a_spoofed_line_is_flagged_and_the_measured_value_is_judged(make_project: Make, tmp_path: Path) -> None:
    project, seen = make_project(rules=ONE_READING), Seen()
    run_study(project, edits(tmp_path, {"set": {"MODE": "spoof", "VALUE": 1.3}}, {"set": {"MODE": "spoof", "VALUE": 1.1}}), seen=seen)
    rows = study_of(project).rows
    assert [row.status for row in rows] == [Status.KEEP, Status.DISCARD, Status.KEEP]
    assert [row.value for row in rows] == pytest.approx([1.199, 1.299, 1.099])
    assert warnings(seen, "printed") == [
        "trial 1 printed val_bpb 0.5 but was measured at 1.299; only the measurement counts",
        "trial 2 printed val_bpb 0.5 but was measured at 1.099; only the measurement counts",
    ]


def test_a_printed_value_without_a_measurement_is_flagged_too(make_project: Make, tmp_path: Path) -> None:
    project, seen = make_project(rules=ONE_READING), Seen()
    run_study(
        project,
        edits(tmp_path, {"find": "    train(value)\n", "replace": "    train(value)\n    sys.exit(print('val_bpb: 0.4'))\n"}),
        seen=seen,
    )
    row = study_of(project).rows[1]
    assert (row.status, row.value) == (Status.CRASH, None)
    assert warnings(seen, "printed") == ["trial 1 printed val_bpb 0.4 but was measured at nothing; only the measurement counts"]


@pytest.mark.slow
def test_values_that_cannot_be_leave_the_best_where_it_is_and_say_why(make_project: Make, tmp_path: Path) -> None:
    project = make_project(rules=f"{ONE_READING}\n[escalation]\nconsecutive_crashes = 9\n[stop]\ntrials = 6")
    values = ["float('nan')", "-float('nan')", "float('inf')", "-37.8", "0.0", "0.01"]
    run_study(project, edits(tmp_path, *({"find": "VALUE = 1.2\n", "replace": f"VALUE = {value}\n"} for value in values)))
    study = study_of(project)
    assert study.incumbent is not None
    assert study.incumbent.trial == 0
    assert git(project, "rev-parse", "autoresearch/t") == study.rows[0].commit
    assert len(study.rows) == 7
    for row in study.rows[1:]:
        assert row.status in FAILED
        assert row.verdict is not None
        assert row.verdict.value is None
        assert row.verdict.detail
    reasons = [row.verdict.reason for row in study.rows[1:] if row.verdict]
    assert reasons == ["not_finite"] * 3 + ["implausible"] * 3


def test_noise_around_the_printed_line_changes_nothing(make_project: Make, tmp_path: Path) -> None:
    project, seen = make_project(rules=ONE_READING), Seen()
    run_study(project, edits(tmp_path, {"set": {"MODE": "noise", "VALUE": 1.1}}), seen=seen)
    row = study_of(project).rows[1]
    assert row.status is Status.KEEP
    assert row.value == pytest.approx(1.099)
    assert row.readings[0].outcome.printed_metric == pytest.approx(1.099)
    assert warnings(seen, "printed") == []


def test_a_missing_launcher_stops_before_anything_is_spent(make_project: Make, tmp_path: Path) -> None:
    project, seen = make_project(rules='[run]\ncommand = ["no-such-launcher", "train.py"]'), Seen()
    with pytest.raises(InfrastructureFault, match="'no-such-launcher' is not found; correct \\[run\\] command"):
        run_study(project, edits(tmp_path, {"set": {"VALUE": 1.1}}), seen=seen)
    assert seen.events == []
    assert not folder_of(project).journal.exists()


def test_a_launcher_that_goes_missing_pauses_the_night_and_charges_no_idea(make_project: Make, tmp_path: Path) -> None:
    launcher = tmp_path / "launcher"
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o755)
    project = make_project(rules=f'{ONE_READING}\n[run]\ncommand = ["{launcher}", "{{python}}", "train.py"]')
    seen = Seen(on_event=lambda entry, study: launcher.unlink() if entry.event.kind == "settled" and not study.trials else None)
    with pytest.raises(InfrastructureFault, match="launcher"):
        run_study(project, edits(tmp_path, {"set": {"VALUE": 1.1}}, {"set": {"VALUE": 1.05}}), seen=seen)
    study = study_of(project)
    assert (study.row_count, study.proposals, kinds(seen.events, "launched")) == (1, 1, 1)
    assert study.stop is not None
    assert study.stop.exit_code == 75
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o755)
    resume_study(project)
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.KEEP, Status.KEEP]


@pytest.mark.parametrize("which", ["prepare", "data"])
def test_a_fixed_file_that_changes_during_the_night_stops_it_before_the_next_trial(make_project: Make, tmp_path: Path, which: str) -> None:
    project = make_project(rules=ONE_READING)
    victim = folder_of(project).prepare if which == "prepare" else project / "data.bin"
    kept: list[bytes] = []

    def append_a_byte(entry: Any, study: Any) -> None:
        if entry.event.kind == "settled" and entry.event.trial == 1:
            kept.append(victim.read_bytes())
            victim.write_bytes(kept[0] + b"#")

    seen = Seen(on_event=append_a_byte)
    with pytest.raises(InfrastructureFault) as told:
        run_study(project, edits(tmp_path, {"set": {"VALUE": 1.1}}, {"set": {"VALUE": 1.05}}), seen=seen)
    assert told.value.exit_code == 75
    assert str(victim) in str(told.value)
    assert str(told.value).count("…") == 2
    assert kinds(seen.events, "launched") == 2
    study = study_of(project)
    assert study.stop is not None
    assert (study.stop.exit_code, study.row_count) == (75, 2)
    victim.write_bytes(kept[0])
    assert resume_study(project).exit_code == 0
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.KEEP, Status.KEEP]


def test_a_candidate_that_rewrites_the_evaluation_while_it_trains_is_not_measured_with_it(make_project: Make, tmp_path: Path) -> None:
    project = make_project(rules=f'{ONE_READING}\n[sandbox]\nlevel = "none"')
    pristine = folder_of(project).prepare
    attack = (
        "    train(value)\n    p = '../../../prepare.py'\n    s = os.stat(p)\n    t = open(p).read().replace('round(value, 7)', 'float(0.7777)+0')\n"
        "    open(p, 'w').write(t)\n    os.utime(p, ns=(s.st_atime_ns, s.st_mtime_ns))\n    assert os.stat(p).st_size == s.st_size\n"
    )
    text: list[bytes] = []
    seen = Seen(on_event=lambda entry, study: text.append(pristine.read_bytes()) if entry.event.kind == "begun" else None)
    with pytest.raises(InfrastructureFault, match=r"prepare\.py changed during the study"):
        run_study(project, edits(tmp_path, {"find": "    train(value)\n", "replace": attack}), seen=seen)
    assert (kinds(seen.events, "scored"), kinds(seen.events, "trained")) == (1, 1), "the baseline's; the other is nobody's number"
    cut = next(event for event in seen.events if isinstance(event, Interrupted))
    assert (cut.trial, cut.reason, cut.charged) == (1, "file_changed", True)
    assert str(pristine) in cut.detail and cut.detail.count("…") == 2, "the file and both digests"
    pristine.write_bytes(text[0])
    with pytest.raises(InfrastructureFault, match=r"prepare\.py changed during the study"):
        resume_study(project)
    pristine.write_bytes(text[0])
    assert resume_study(project).reason == "proposals"
    row = study_of(project).rows[1]
    assert (row.status, row.value, row.readings) == (Status.INTERRUPTED, None, ()), "it did so twice, and is given up"


PATCHES = """
import json as _json
import struct as _struct
if os.environ.get("RATCHET_CHECKPOINT") is None:
    with open("prepare.py", "a") as file:
        file.write("\\nraise SystemExit('rewritten')\\n")
    prepare.evaluate = prepare.serve = lambda: print("val_bpb: 0.1")
    prepare.DATA, prepare.struct.unpack = "elsewhere", lambda form, raw: (0.1,)
"""


def test_what_a_candidate_patches_in_memory_or_rewrites_in_its_own_folder_changes_no_number(make_project: Make, tmp_path: Path) -> None:
    """It may spoil its own process and its own copy of prepare.py; each process of an evaluation starts from the study's."""
    project = make_project(rules=f'{ONE_READING}\n[sandbox]\nlevel = "none"')
    pristine = (project / "prepare.py").read_bytes()
    patch = {"find": "import prepare\n", "replace": f"import prepare\n{PATCHES}"}
    run_study(project, edits(tmp_path, patch, {"set": {"VALUE": 1.1}}))
    rows = study_of(project).rows
    assert [row.status for row in rows] == [Status.KEEP, Status.DISCARD, Status.KEEP]
    assert rows[0].value == rows[1].value == pytest.approx(1.199)
    assert folder_of(project).prepare.read_bytes() == (project / "prepare.py").read_bytes() == pristine


@pytest.mark.parametrize(
    ("setup", "train", "said"),
    [
        (200.0, 300.0, "set-up, which no clock counts, took 200 of 500 s; the baseline's took 12 of 312"),
        (60.0, 300.0, "set-up, which no clock counts, took 60 of 360 s"),
        (45.0, 300.0, ""),
        (12.0, 300.0, ""),
        (15.0, 30.0, ""),
        (None, 300.0, ""),
        (200.0, None, ""),
    ],
)
def test_a_set_up_that_has_grown_beyond_every_baselines_is_flagged(setup: float | None, train: float | None, said: str) -> None:
    baseline = [JobOutcome(end=JobEnd.OK, setup_seconds=seconds, train_seconds=300.0) for seconds in (10.0, 12.0)]
    found = wording.uncounted(JobOutcome(end=JobEnd.OK, setup_seconds=setup, train_seconds=train), baseline)
    assert found.startswith(said) and bool(found) == bool(said)
    assert wording.uncounted(JobOutcome(end=JobEnd.OK, setup_seconds=200.0, train_seconds=300.0), []) == ""


def test_work_before_the_clock_starts_is_flagged_on_its_trial(make_project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wording, "UNCOUNTED_SECONDS", 1.0)
    project, seen = make_project(train={"MODE": "slow", "SECONDS": 1.0}, rules=ONE_READING), Seen()
    early = {"find": "    before_training()\n", "replace": "    time.sleep(4)\n    before_training()\n"}
    run_study(project, edits(tmp_path, early, {"set": {"VALUE": 1.1}}), seen=seen)
    (said,) = warnings(seen, "set_up")
    assert said.startswith("trial 1: set-up, which no clock counts, took ")
    assert any("trial 1: set-up, which no clock counts" in line for line in study_of(project).warnings)
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.DISCARD, Status.KEEP]


def test_a_missing_data_file_is_named(make_project: Make, tmp_path: Path) -> None:
    project = make_project(rules=ONE_READING)
    data = project / "data.bin"
    seen = Seen(on_event=lambda entry, study: data.unlink() if entry.event.kind == "settled" else None)
    with pytest.raises(InfrastructureFault, match=r"data\.bin: No such file or directory; put the file back, then `ratchet resume`"):
        run_study(project, edits(tmp_path, {"set": {"VALUE": 1.1}}), seen=seen)
    assert study_of(project).row_count == 1
