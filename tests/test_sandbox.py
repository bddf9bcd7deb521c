"""The sandbox with real attacks: at the full level nothing gets through, at the container level only what the doctor names, with none nearly everything."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts.events import Launched
from harness.control.examination import examine
from harness.errors import InfrastructureFault, UserFault
from harness.execution.process import ProcessTree, adopt_orphans, clean_environment
from harness.execution.sandbox import filters, levels, probe, view
from harness.execution.sandbox.box import Means, Sandbox
from harness.execution.sandbox.levels import Found, Request
from harness.trial import JobEnd
from harness.views import doctor, status
from tests import cages
from tests.jobs import OPEN as OPEN_TRAINING
from tests.jobs import SAVE, SETUP, Bench, rules, spec
from tests.projects import ROOT, ratchet, run_study, set_rules, study_of

AS_OTHER = str(ROOT / "tests" / "as_other.py")
root = pytest.mark.skipif(os.getuid() != 0 or not sys.platform.startswith("linux"), reason="needs root to be several users")
OPEN_TO = {
    "change_mode": "chmod_journal",
    "see_files": "see_size",
    "unix_path": "docker_socket",
    "many_processes": "many_processes",
    "big_scratch": "big_scratch",
}
ALWAYS_STOPPED = {"daemon", "own_key", "out_of_a_descriptor"}  # by what every level has: the sweep, the list of variables, files only


@pytest.fixture
def anyone() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="ratchet-test-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def as_other(options: list[str], command: list[str], seconds: float = 100, **more: Any) -> subprocess.CompletedProcess[str]:
    """A command as another machine would run it."""
    argv = [sys.executable, AS_OTHER, *options, sys.executable, *command]
    return subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        **{"cwd": ROOT, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, **more},
    )


def attacked(folder: Path, *options: str, mode: str = "") -> dict[str, Any]:
    """What all attacks got in a process that is started with these options."""
    done = as_other([*options], ["-m", "tests.cages", str(folder), *([mode] if mode else [])])
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


@root
def test_as_root_every_attack_is_stopped_at_the_full_level(anyone: Path) -> None:
    got = attacked(anyone)
    assert (got["uid"], got["level"], got["missing"], got["through"]) == (0, "full", [], {})
    assert "user 631" in got["means"]


@root
@pytest.mark.slow
def test_as_a_plain_user_every_attack_is_stopped_at_the_full_level(anyone: Path) -> None:
    got = attacked(anyone, "--plain")
    assert (got["uid"], got["level"], got["missing"], got["through"]) == (1000, "full", [], {})


@root
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "uid", "named"),
    [
        (["--readable", "--refused"], 0, {"see_files", "unix_path", "big_scratch"}),
        (["--plain", "--refused"], 1000, {"change_mode", "see_files", "unix_path", "big_scratch"}),
    ],
    ids=["root", "plain"],
)
def test_with_namespaces_refused_only_what_the_doctor_names_gets_through(
    anyone: Path, options: list[str], uid: int, named: set[str]
) -> None:
    got = attacked(anyone, *options)
    assert (got["uid"], got["level"], set(got["missing"])) == (uid, "container", named)
    assert set(got["through"]) == {OPEN_TO[name] for name in named}
    assert "unshare: Operation not permitted" in got["refused"][0]


@root
@pytest.mark.slow
def test_root_whose_interpreter_nobody_else_can_read_keeps_its_user_and_says_so(anyone: Path) -> None:
    if all(parent.stat().st_mode & 0o001 for parent in Path(sys.base_prefix).parents):
        pytest.skip("this interpreter can be read by everybody")
    got = attacked(anyone, "--refused")
    assert got["level"] == "container"
    assert set(got["missing"]) == {"change_mode", "see_files", "unix_path", "many_processes", "big_scratch"}
    assert set(got["through"]) == {OPEN_TO[name] for name in got["missing"]}
    assert any("Permission denied" in reason for reason in got["refused"])


@root
def test_without_a_sandbox_the_same_attacks_get_through(anyone: Path) -> None:
    got = attacked(anyone, mode="none")
    stopped = {path.stem for path in cages.ATTACKS.glob("[a-z]*.py")} - set(got["through"])
    may = {
        "memory_of_init",
        "other_abi",
        "io_uring",
        "vsock",
        "new_namespace",
        "kernel_corners",
        "set_clock",
        "core_pattern",
        "ptrace_harness",
    }
    assert stopped - may == ALWAYS_STOPPED  # the kernel or a container around us may stop those of `may` by itself


@root
@pytest.mark.slow
def test_an_interpreter_and_a_checkout_in_closed_folders_do_not_lower_the_level() -> None:
    with tempfile.TemporaryDirectory() as closed, tempfile.TemporaryDirectory() as other:  # 0700, as `mktemp -d` makes them
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", closed], check=True)
        packages = site.getsitepackages()[0]
        done = subprocess.run([f"{closed}/bin/python", "-m", "tests.cages", other], capture_output=True, text=True, check=False, timeout=100,
                              cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}:{packages}"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert (got["level"], got["through"]) == ("full", {})


def test_a_folder_of_the_users_inside_a_readable_one_is_covered_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "SYSTEM", (*view.SYSTEM, str(tmp_path / "lib")))
    inner = cages.project(tmp_path / "lib" / "project")
    found = levels.find(cages.wanted(inner))
    if found.level != "full":
        pytest.skip("needs mounts")
    (tmp_path / "read.py").write_text((cages.ATTACKS / "read_validation.py").read_text())
    code, said, _ = cages.run(found.sandbox, tmp_path / "read.py", {"validation": str(inner / "data.bin")}, tmp_path / "job")
    assert code == 1
    assert "No such file" in said


def start(box: Sandbox, folder: Path, code: str, keep: list[int] | None = None) -> ProcessTree:
    """`python -c code` in the cage."""
    folder.mkdir()
    folder.chmod(0o755)
    box.admit(folder)
    command = [sys.executable, "-I", "-S", "-c", code]
    return ProcessTree(command, folder, clean_environment(folder / ".scratch", {}), folder.parent / "log", 1 << 16, keep or [], box)


@pytest.mark.parametrize(
    ("code", "expected"),
    [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9), ("import os; os.kill(os.getpid(), 11)", -11),
     ("import os, time\nif os.fork() == 0: time.sleep(60)", 0)],
    ids=["exit", "kill", "crash", "child_left"],
)  # fmt: skip
def test_the_end_of_a_caged_command_is_told_as_it_was(box: Sandbox, tmp_path: Path, code: str, expected: int) -> None:
    tree = start(box, tmp_path / "job", code)
    while tree.poll() is None:
        tree.drain()
    assert tree.end() == expected
    assert tree.inside


def test_term_reaches_a_caged_command_which_may_still_answer(box: Sandbox, tmp_path: Path) -> None:
    tree = start(
        box,
        tmp_path / "job",
        "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(7))\nprint('up', flush=True)\ntime.sleep(60)",
    )
    while b"up" not in (tmp_path / "log").read_bytes():
        tree.drain()
    assert tree.end() == 7


def test_a_caged_command_holds_no_descriptor_of_ours(box: Sandbox, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    tree = start(
        box, tmp_path / "job", "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))), os.getpid(), len(os.environ))", [writer]
    )
    while tree.poll() is None:
        tree.drain()
    tree.end()
    os.close(reader)
    os.close(writer)
    held = json.loads((tmp_path / "log").read_text().split("]")[0] + "]")
    assert {0, 1, 2, writer} < set(held)
    assert len(held) == 5, "one more is the listing's own"


def test_the_memory_of_the_two_guards_is_not_the_jobs(box: Sandbox, tmp_path: Path) -> None:
    tree = start(box, tmp_path / "job", "import time; print('up', flush=True); time.sleep(60)")
    while b"up" not in (tmp_path / "log").read_bytes():
        tree.drain()
    tree.sample()
    tree.end(grace=0)
    assert tree.peak_memory_mb is not None
    assert tree.peak_memory_mb < 20


def test_a_sandbox_that_cannot_be_set_up_is_never_the_candidates_fault(box: Sandbox, tmp_path: Path) -> None:
    if box.means is None or not box.means.namespaces:
        pytest.skip("needs mounts")
    broken = view.View(("/no/such/folder",), (), (), ())
    job = spec(tmp_path, SETUP + OPEN_TRAINING + SAVE)
    with pytest.raises(InfrastructureFault, match=r"sandbox could not be set up .*No such file"):
        Bench(sandbox=Sandbox(level="full", means=box.means, view=broken)).run(job, rules())


def test_a_caged_job_trains_and_leaves_its_checkpoint(box: Sandbox, tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        outcome = Bench(sandbox=box).run(spec(tmp_path, SETUP + OPEN_TRAINING + SAVE), rules())
    finally:
        os.umask(old)
    assert (outcome.end, outcome.detail) == (JobEnd.OK, "")
    assert json.loads((tmp_path / "trial0" / "r0" / "checkpoint.safetensors").read_text()) == {"value": 1.2}


def test_a_level_that_is_not_held_is_refused_in_one_sentence() -> None:
    found = Found(Sandbox(level="container"), refused=("namespaces: unshare: Operation not permitted",))
    levels.require(found, "auto")
    levels.require(found, "container")
    with pytest.raises(UserFault, match=r"\[sandbox\] level = 'full' is asked for and this machine holds 'container' .*`ratchet doctor`"):
        levels.require(found, "full")


def test_none_by_name_switches_it_off(tmp_path: Path) -> None:
    found = levels.find(Request(project=tmp_path, accepted="none"))
    assert (found.level, found.sandbox.means) == ("none", None)
    assert "switched off" in found.refused[0]


@root
@pytest.mark.slow
def test_below_the_accepted_level_nothing_is_started_and_the_doctor_says_why(anyone: Path, make_project: Callable[..., Path]) -> None:
    project = make_project(rules='[sandbox]\nlevel = "full"')
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = as_other(["--refused"], ["-m", "harness", "run", "--tag", "t"], cwd=project, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "this machine holds 'container'" in done.stderr
    assert not (project / "runs").exists()
    doctor = as_other(["--refused"], ["-m", "harness", "doctor"], cwd=project, env=environment)
    assert doctor.returncode == 1
    assert "OPEN     paths outside do not show whether they exist: nothing stops it" in doctor.stdout
    told = as_other(["--refused"], ["-m", "harness", "doctor", "--json"], cwd=project, env=environment)
    seen = json.loads(told.stdout)
    assert (seen["level"], seen["accepted"]) == ("container", False)
    assert {one["name"] for one in seen["properties"] if not one["holds"]} <= set(OPEN_TO)


def test_the_doctor_shows_what_this_machine_holds(project: Path) -> None:
    done = ratchet(project, "doctor", "--json")
    seen = json.loads(done.stdout)
    assert done.returncode == (0 if seen["level"] != "none" else 1)
    if seen["level"] == "full":
        assert all(one["holds"] for one in seen["properties"])
        assert len(seen["properties"]) > 25


@root
@pytest.mark.slow
@pytest.mark.parametrize("options", [["--plain"], ["--refused"], ["--plain", "--refused"]], ids=["plain", "root_refused", "plain_refused"])
def test_a_study_runs_for_every_kind_of_user(anyone: Path, make_project: Callable[..., Path], options: list[str]) -> None:
    project = anyone / "project"
    shutil.copytree(make_project(rules="[keep]\nbaseline_readings = 1\n[stop]\ntrials = 1"), project)
    subprocess.run(["chown", "-R", "1000:1000" if "--plain" in options else "0:0", str(project)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(anyone), "RATCHET_LOCKS": str(anyone / "locks")}
    done = as_other(options, ["-m", "harness", "run", "--tag", "t"], cwd=project, env=environment)
    assert done.returncode == 0, (done.stdout, done.stderr)
    status = as_other(options, ["-m", "harness", "status", "--json"], cwd=project, env=environment)
    assert json.loads(status.stdout)["sandbox"]["level"] == ("container" if "--refused" in options else "full")


def test_journals_from_before_the_sandbox_still_load() -> None:
    event = Launched(trial=1, replicate=0, seed=0, marker="m", pid=1, process_started=1.0, boot_id="b", sandbox="full")
    old = event.model_dump(mode="json", exclude={"sandbox"})
    assert Launched.model_validate(old).sandbox == ""


@pytest.mark.parametrize("machine", list(filters.ARCHITECTURES))
def test_the_filter_ends_in_leave_and_jumps_inside_itself(machine: str) -> None:
    program = filters.program(machine)
    words = [program[i : i + 8] for i in range(0, len(program), 8)]
    assert len(program) % 8 == 0
    assert words[-1][0] == filters.RETURN
    for number, word in enumerate(words):
        if word[0] in (filters.EQUAL, filters.AT_LEAST, filters.ANY_BIT):
            assert number + 1 + max(word[2], word[3]) < len(words)
    assert filters.program("riscv64") == b""


def test_data_among_the_packages_is_hidden_where_nothing_can_be_covered_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "SYSTEM", (*view.SYSTEM, str(tmp_path / "packages")))
    package = tmp_path / "packages" / "harness" / "corpus"
    package.mkdir(parents=True)
    (package / "text.xz").write_text("validation")
    (tmp_path / "packages" / "module.py").write_text("there = True")
    monkeypatch.setattr(levels, "PACKAGE", package.parent)
    adopt_orphans()
    means = Means(namespaces=False, user_namespace=False, uid=None)
    found = levels._attacked(cages.wanted(cages.project(tmp_path / "project")), means, tmp_path / "scene")
    if "add_code" in found.sandbox.missing:
        pytest.skip("no Landlock on this machine")
    assert found.level == "container"
    assert found.sandbox.view is not None
    assert str(tmp_path / "packages" / "module.py") in found.sandbox.view.reads
    assert str(package.parent) not in found.sandbox.view.reads


def test_with_a_gpu_the_driver_is_in_view() -> None:
    seen = view.of_this_machine((sys.executable,), [], gpu=True)
    assert "/sys" in seen.reads
    assert "/sys/devices/system" not in seen.reads


def test_the_doctors_page_has_a_line_a_property_and_says_what_is_never_held(project: Path) -> None:
    seen = examine(project)
    page, facts = doctor.as_text(seen), doctor.as_dict(seen)
    assert facts["level"] == seen.found.level
    assert all(one.title in page for one in seen.found.findings)
    assert "never    memory and load of the GPU" in page
    set_rules(project, '[sandbox]\nlevel = "none"')
    off = examine(project)
    assert (off.found.level, off.accepted, off.found.findings) == ("none", True, ())
    assert "switched off by [sandbox] level = 'none'" in doctor.as_text(off)


def test_the_doctor_of_a_broken_project_still_attacks(tmp_path: Path) -> None:
    seen = examine(tmp_path)
    assert "program.md: not found" in seen.notes[0]
    assert seen.found.findings or seen.found.level == "none"


def test_what_a_weak_cage_lets_an_attack_leave_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "scene").mkdir()
    with probe._canaries(tmp_path / "scene", [tmp_path]) as told:
        for folder in ("/tmp", str(tmp_path)):
            (Path(folder) / told["note"]).touch()
    assert not (Path("/tmp") / told["note"]).exists()
    assert not (tmp_path / told["note"]).exists()


@pytest.mark.parametrize(
    ("level", "open_", "said"),
    [("full", (), "full"), ("container", ("see_files",), "container; open, 1 property: see_files"), ("none", (), "none: candidate code could"), ("", (), "not recorded")],
)  # fmt: skip
def test_status_and_report_say_the_level(level: str, open_: tuple[str, ...], said: str, project: Path) -> None:
    run_study(project, tag="t", trials=1)
    started = study_of(project).started
    assert started is not None
    assert said in status.sandbox_text(started.model_copy(update={"sandbox": level, "sandbox_open": open_}))


def test_a_temporary_folder_with_a_long_name_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("a" * 60) / ("b" * 60)
    long.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    found = levels.find(cages.wanted(cages.project(tmp_path / "project")))
    assert found.level in ("full", "container", "none")
