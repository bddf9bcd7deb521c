"""What numbers depend on does not change during a study: prepare.py, data and the harness itself, looked at before and after each reading."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts import provenance
from harness.artifacts.events import Interrupted, Warned
from harness.artifacts.provenance import SMALL_BYTES, FixedFiles
from harness.errors import FileChanged
from harness.facts import DataFacts
from harness.trial import Status
from tests.projects import Seen, edits_file, folder_of, resume_study, run_study, study_of

Make = Callable[..., Path]
ONE_READING = '[sandbox]\nlevel = "none"\n[keep]\nbaseline_readings = 1'


def short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@pytest.fixture
def fixed(tmp_path: Path) -> FixedFiles:
    """A prepare.py, a data file above the size of small ones, and a package of two modules."""
    (tmp_path / "prepare.py").write_bytes(b"pass\n")
    (tmp_path / "data").write_bytes(b"x" * (SMALL_BYTES + 1))
    (tmp_path / "package" / "part").mkdir(parents=True)
    for name in ("one.py", "part/two.py", "notes.txt"):
        (tmp_path / "package" / name).write_text(f"{name}\n")
    data = {"path": str(tmp_path / "data"), "sha256": provenance.sha256(tmp_path / "data")}
    facts = DataFacts(profile="cpu", metric="val_bpb", data_sha256="d", train=str(tmp_path / "data"), files=(data,))
    return FixedFiles(tmp_path / "prepare.py", provenance.sha256(tmp_path / "prepare.py"), facts, tmp_path / "package")


def test_the_lock_of_an_editor_is_no_file_of_the_harness_and_an_unreadable_file_is_named(
    fixed: FixedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    (package / ".#one.py").symlink_to("somebody@somewhere.4711")
    fixed.check()
    monkeypatch.setattr(provenance, "PACKAGE", package)
    assert list(provenance.harness_files()) == ["one.py", "part/two.py"]
    (package / "three.py").symlink_to("nowhere")
    facts = DataFacts(profile="cpu", metric="val_bpb", data_sha256="d", train=str(tmp_path / "data"), files=())
    with pytest.raises(FileChanged, match=r"three\.py: No such file"):
        provenance.harness_files()
    with pytest.raises(FileChanged, match=r"three\.py: No such file"):
        FixedFiles(tmp_path / "prepare.py", "0", facts, package)


@pytest.mark.parametrize("name", ["prepare.py", "data", "package/one.py", "package/part/two.py"])
def test_a_changed_file_is_named_with_both_digests_until_it_is_put_back(fixed: FixedFiles, tmp_path: Path, name: str) -> None:
    fixed.check()
    path, stat = tmp_path / name, (tmp_path / name).stat()
    before = path.read_bytes()
    after = b"y" + before[1:]
    path.write_bytes(after)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(FileChanged) as told:
            fixed.check()
        assert str(told.value).startswith(f"{path} changed during the study: it was {short(before)}…, now {short(after)}…")
    path.write_bytes(before)
    fixed.check()


@pytest.mark.parametrize("name", ["prepare.py", "data", "package/one.py"])
def test_a_file_that_is_gone_is_named(fixed: FixedFiles, tmp_path: Path, name: str) -> None:
    fixed.check()
    (tmp_path / name).unlink()
    with pytest.raises(FileChanged, match=f"{name}: No such file"):
        fixed.check()


def test_a_module_that_appears_in_the_harness_is_named_and_another_file_is_not(fixed: FixedFiles, tmp_path: Path) -> None:
    (tmp_path / "package" / "more.txt").touch()
    (tmp_path / "package" / "notes.txt").unlink()
    fixed.check()
    text = b"x = 1\n"
    (tmp_path / "package" / "part" / "three.py").write_bytes(text)
    with pytest.raises(FileChanged, match=f"three.py is new in the harness itself, {short(text)}…"):
        fixed.check()
    (tmp_path / "package" / "part" / "three.py").unlink()
    (tmp_path / "package" / "gone.py").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileChanged, match=r"gone\.py"):
        fixed.check()


def test_a_large_file_is_read_once_and_a_look_at_all_of_this_harness_costs_no_reading(tmp_path: Path) -> None:
    """The bar is relative: the first check reads 64 MiB, a hundred later ones together less than half as long."""
    (tmp_path / "prepare.py").touch()
    (tmp_path / "data").write_bytes(b"x" * (64 << 20))
    sha256 = provenance.sha256(tmp_path / "data")
    facts = DataFacts(profile="p", metric="m", data_sha256="d", train="t", files=({"path": str(tmp_path / "data"), "sha256": sha256},))
    fixed = FixedFiles(tmp_path / "prepare.py", provenance.sha256(tmp_path / "prepare.py"), facts, tmp_path)
    began = time.process_time()
    fixed.check()
    first = time.process_time() - began
    for _ in range(100):
        fixed.check()
    assert time.process_time() - began - first < first / 2


def test_the_package_that_is_watched_is_the_one_whose_digest_is_recorded() -> None:
    names = provenance.harness_files()
    assert {"trial.py", "artifacts/provenance.py", "execution/sandbox/box.py"} <= names.keys()
    lines = "".join(f"{name} {digest}\n" for name, digest in names.items())
    assert provenance.harness_sha256() == hashlib.sha256(lines.encode()).hexdigest()


@pytest.mark.parametrize("how", ["well", "badly"])
def test_a_reading_during_which_the_data_changed_is_void_and_taken_again(make_project: Make, tmp_path: Path, how: str) -> None:
    """Also one that crashed: nobody can say that it would have without the change."""
    project = make_project(rules=ONE_READING)
    kept: list[bytes] = []

    def disturb(entry: Any, study: Any) -> None:
        if entry.event.kind == "launched" and entry.event.trial == 1 and not kept:
            kept.append((project / "data.bin").read_bytes())
            (project / "data.bin").write_bytes(b"other words")

    seen = Seen(on_event=disturb)
    edits = edits_file(tmp_path, [{"VALUE": 1.1, "MODE": "late_failure" if how == "badly" else "ok"}])
    with pytest.raises(FileChanged, match=r"data\.bin changed during the study"):
        run_study(project, edits, seen=seen)
    assert seen.kinds().count("trained") == 1, "the baseline's alone"
    (cut,) = (event for event in seen.events if isinstance(event, Interrupted))
    assert (cut.trial, cut.reason) == (1, "file_changed")
    assert short(kept[0]) in cut.detail and short(b"other words") in cut.detail
    study = study_of(project)
    assert study.stop is not None and (study.stop.exit_code, study.crashes_in_a_row) == (75, 0)
    (project / "data.bin").write_bytes(kept[0])
    resume_study(project)
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.CRASH if how == "badly" else Status.KEEP]


def test_a_file_that_changes_during_an_evaluation_leaves_no_score(make_project: Make, tmp_path: Path) -> None:
    project = make_project(rules=ONE_READING)
    kept: list[bytes] = []

    def disturb(entry: Any, study: Any) -> None:
        if entry.event.kind == "trained" and entry.event.trial == 1 and not kept:
            kept.append(folder_of(project).prepare.read_bytes())
            folder_of(project).prepare.write_bytes(kept[0] + b"#")

    seen = Seen(on_event=disturb)
    with pytest.raises(FileChanged, match=r"prepare\.py changed"):
        run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]), seen=seen)
    assert seen.kinds().count("scored") == 1
    assert [event.reason for event in seen.events if isinstance(event, Interrupted)] == ["file_changed"]
    folder_of(project).prepare.write_bytes(kept[0])
    resume_study(project)
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.KEEP]


def test_a_harness_that_is_changed_during_a_night_stops_it_and_a_new_one_says_so(
    make_project: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "harness"
    shutil.copytree(provenance.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provenance, "PACKAGE", package)

    def update(entry: Any, study: Any) -> None:
        if entry.event.kind == "settled" and entry.event.trial == 0:
            with (package / "evaluation" / "judge.py").open("a") as file:
                file.write("# a new version\n")

    project, seen = make_project(rules=ONE_READING), Seen(on_event=update)
    with pytest.raises(FileChanged, match=r"harness/evaluation/judge\.py changed during the study"):
        run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]), seen=seen)
    assert seen.kinds().count("launched") == 1
    again = Seen()
    resume_study(project, seen=again)
    (warned,) = (event for event in again.events if isinstance(event, Warned))
    assert warned.code == "harness" and "the study began with the harness of digest" in warned.message
    assert [row.status for row in study_of(project).rows] == [Status.KEEP, Status.KEEP]


def test_the_rules_in_force_are_in_the_record_and_their_edit_is_no_changed_file(make_project: Make, tmp_path: Path) -> None:
    project = make_project(rules=ONE_READING)

    def edit(entry: Any, study: Any) -> None:
        if entry.event.kind == "settled" and entry.event.trial == 0:
            text = (project / "program.md").read_text()
            (project / "program.md").write_text(text.replace("[stop]\n", "[stop]\nplateau = 7\n"))

    seen = Seen(on_event=edit)
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]), seen=seen)
    study = study_of(project)
    assert [row.status for row in study.rows] == [Status.KEEP, Status.KEEP]
    digests = [row.rules_digest for row in study.rows]
    assert study.started is not None
    assert (digests[0], digests[1]) == (study.started.rules_digest, study.rules_digest)
    assert digests[0] != digests[1] and all(len(digest) == 64 for digest in digests)
