"""The loop from end to end with real git, real processes and the stub trainer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import sections
from harness.proposers import briefing
from harness.trial import Status
from tests.projects import Seen, edits_file, folder_of, git, resume_study, run_study, study_of


def test_a_study_keeps_what_is_better_and_reverts_the_rest(project: Path, tmp_path: Path) -> None:
    edits = edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.3}, {"MODE": "crash", "VALUE": 1.0}, {"VALUE": 1.05}])
    stop = run_study(project, edits)
    study = study_of(project)
    assert [row.status for row in study.rows] == [Status.KEEP, Status.KEEP, Status.DISCARD, Status.CRASH, Status.KEEP]
    assert (stop.reason, stop.exit_code) == ("trials", 0)
    assert git(project, "rev-parse", "autoresearch/t") == study.rows[4].commit
    assert study.rows[4].parent == study.rows[1].commit


def test_the_branch_tip_holds_the_bytes_that_were_measured_and_gc_loses_no_trial(project: Path, tmp_path: Path) -> None:
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.3}, {"VALUE": 1.4}]))
    study = study_of(project)
    git(project, "-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now")
    for row in study.rows:
        assert row.commit is not None
        shown = git(project, "show", f"{row.commit}:train.py") + "\n"
        assert hashlib.sha256(shown.encode()).hexdigest() == row.change.file_sha256


def test_the_users_checkout_is_as_before(project: Path, tmp_path: Path) -> None:
    (project / "notes.txt").write_text("mine\n")
    (project / "program.md").write_text((project / "program.md").read_text() + "\nmy own wish\n")
    git(project, "checkout", "-q", "--detach")
    (project / ".git" / "index.lock").write_text("")
    before = {p: p.read_bytes() for p in project.rglob("*") if p.is_file() and ".git" not in p.parts}
    (project / ".git" / "index.lock").unlink()
    status, index = git(project, "status", "--porcelain"), (project / ".git" / "index").read_bytes()
    (project / ".git" / "index.lock").write_text("")
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.3}, {"VALUE": 1.31}, {"VALUE": 1.32}, {"VALUE": 1.33}]), trials=5)
    assert (project / ".git" / "index.lock").exists()
    (project / ".git" / "index.lock").unlink()
    assert (project / ".git" / "index").read_bytes() == index
    assert git(project, "status", "--porcelain") == status
    assert {p: p.read_bytes() for p in before} == before
    assert git(project, "branch", "--show-current") == ""


def test_what_one_trial_leaves_behind_the_next_does_not_see(project: Path, tmp_path: Path) -> None:
    run_study(project, edits_file(tmp_path, [{"MODE": "leave_helper"}, {"MODE": "use_helper", "VALUE": 1.5}]))
    rows = study_of(project).rows
    assert rows[2].value == pytest.approx(1.499)
    assert not list(folder_of(project).path.rglob("helper.py"))


def test_a_duplicate_is_refused_before_training(project: Path, tmp_path: Path) -> None:
    seen = Seen()
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.3}, {"VALUE": 1.3}, {"VALUE": 1.30}, {"DEPTH": 3}]), seen=seen, trials=2)
    study = study_of(project)
    assert study.refused == 2
    assert [row.title for row in study.rows] == ["baseline", "edit 1", "edit 4"]
    assert seen.kinds().count("launched") == 3


def test_crashes_in_a_row_end_the_night_with_their_own_exit_code(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[escalation]\nconsecutive_crashes = 3\n[stop]\ntrials = 9")
    stop = run_study(project, edits_file(tmp_path, [{"MODE": "crash", "DEPTH": n} for n in range(3, 12)]))
    assert (stop.reason, stop.exit_code) == ("consecutive_crashes", 3)
    assert study_of(project).crashes_in_a_row == 3


def test_without_a_baseline_nothing_starts(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(train={"MODE": "crash"})
    stop = run_study(project, edits_file(tmp_path, [{"MODE": "ok"}]))
    assert (stop.reason, stop.exit_code) == ("no_baseline", 4)
    assert "boom" in stop.sentence
    assert study_of(project).row_count == 1


def test_a_list_that_is_used_up_ends_the_study(project: Path, tmp_path: Path) -> None:
    stop = run_study(project, edits_file(tmp_path, [{"VALUE": 1.3}]))
    assert (stop.reason, stop.exit_code) == ("proposals", 0)


def test_a_study_resumes_with_more_trials(project: Path, tmp_path: Path) -> None:
    edits = edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.09}, {"VALUE": 1.08}])
    assert run_study(project, edits, trials=1).reason == "trials"
    stop = resume_study(project, trials=3)
    assert (stop.reason, study_of(project).row_count) == ("trials", 4)


def test_a_long_drought_measures_the_incumbent_again(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[keep]\nremeasure_incumbent_after = 2\n[stop]\ntrials = 9\n[run]\nthreads = 2")
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.3}, {"VALUE": 1.31}]))
    study = study_of(project)
    assert len(study.rereadings[1]) == 2
    assert study.bar is not None
    assert study.bar.since == 0
    assert study.bar.ref == pytest.approx(1.1)


def test_a_candidate_that_takes_more_compute_than_the_baselines_is_a_timeout(project: Path, tmp_path: Path) -> None:
    run_study(project, edits_file(tmp_path, [{"MODE": "spin", "SECONDS": 9.0, "VALUE": 0.5}]))
    row = study_of(project).rows[1]
    assert row.verdict is not None
    assert (row.verdict.status, row.verdict.reason, row.value) == (Status.TIMEOUT, "compute_cap", None)


def test_what_leaves_no_room_below_the_compute_cap_is_measured_and_not_kept(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundredfold cap with a hundredfold headroom: wide enough that a busy machine decides nothing."""
    monkeypatch.setattr(sections, "HEADROOM", 100.0)
    project = make_project(rules="[trial]\ncompute_cap = 100.0\n[stop]\ntrials = 9")
    run_study(project, edits_file(tmp_path, [{"MODE": "spin", "SECONDS": 0.6, "VALUE": 0.5}, {"VALUE": 1.1}]))
    study = study_of(project)
    slow, fast = study.rows[1:3]
    assert slow.verdict is not None and fast.verdict is not None
    assert (slow.verdict.status, slow.verdict.reason) == (Status.DISCARD, "no_headroom") and slow.value == pytest.approx(0.5, abs=0.01)
    assert fast.verdict.status is Status.KEEP, "the bar is still the baseline's"
    assert study.incumbent is not None and study.incumbent.trial == 2


def test_the_noise_of_the_night_starts_from_the_sigma_in_the_rules(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[keep]\nprior_sigma = 0.123")
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.3}]))
    noise = study_of(project).noise
    assert noise is not None
    assert (noise.prior_sigma, noise.degrees, noise.sigma) == (0.123, 0, 0.123)


def test_without_effect_a_change_is_no_keep_even_after_a_long_drought(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[keep]\nbaseline_readings = 3\nprior_sigma = 0.1\n[stop]\ntrials = 9")
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.3}, {"DEPTH": 3}, {"DEPTH": 4}, {"VALUE": 1.1995}]))
    rows = study_of(project).rows
    assert [row.verdict.reason for row in rows if row.verdict] == ["baseline", "not_better", "no_effect", "no_effect", "better"]
    told = briefing.build(study_of(project), 9, "c", {}, "").past
    assert [one.no_effect for one in told] == [False, True, True, False]
    assert rows[4].verdict is not None
    assert rows[4].verdict.gain == pytest.approx(0.0005), "against the baseline's reading with the same seed, not against its mean"


def test_a_train_py_that_is_not_in_scope_is_trained_all_the_same(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules='[scope]\neditable = ["model.py"]\n[stop]\ntrials = 1')
    (project / "train.py").write_text((project / "train.py").read_text().replace("VALUE = 1.2\n", "from model import VALUE\n"))
    (project / "model.py").write_text("VALUE = 1.2\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "two files")
    edits = tmp_path / "edits.toml"
    edits.write_text('[[proposals]]\ntitle = "better"\nfiles = { "model.py" = "VALUE = 1.1\\n" }\n')
    run_study(project, edits)
    rows = study_of(project).rows
    assert [row.status for row in rows] == [Status.KEEP, Status.KEEP]
    assert git(project, "show", "autoresearch/t:model.py") == "VALUE = 1.1"


def test_a_re_measurement_that_fails_moves_nothing_and_is_not_repeated_at_once(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[keep]\nremeasure_incumbent_after = 1\n[stop]\ntrials = 9\n[run]\nthreads = 2")
    text = (project / "train.py").read_text().replace("    before_training()\n", "    assert hello['seed'] == 0\n    before_training()\n")
    edits = tmp_path / "edits.json"
    better = text.replace("VALUE = 1.2\n", "VALUE = 1.1\n")
    edits.write_text(
        json.dumps([{"title": "frail", "text": better}, *({"title": f"worse {n}", "set": {"VALUE": 1.3 + n}} for n in range(2))])
    )
    seen = Seen()
    run_study(project, edits, seen=seen)
    study, moved = study_of(project), [event for event in seen.events if event.kind == "bar_moved"]
    assert study.bar is not None
    assert study.bar.ref == pytest.approx(
        study.rows[1].verdict.next_bar.ref if study.rows[1].verdict and study.rows[1].verdict.next_bar else 0
    )
    assert len(moved) == study.rereadings_failed == 2, "one for each drought"
