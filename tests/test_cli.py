"""The command line as a person or a program meets it: one sentence and a documented exit code, and nothing changed when it refuses."""

from __future__ import annotations

import json
import marshal
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness import cli
from harness.control.limits import Limits
from harness.control.preconditions import check_deadline
from harness.errors import RatchetError, UserFault
from harness.execution.device import Lock, lock_folder
from tests.nights import LEAN, NO_PICTURES, crash_at, must_be_whole, table
from tests.projects import (
    ROOT,
    edits_file,
    folder_of,
    git,
    keeping_the_table,
    make_project,
    ratchet,
    resume_study,
    run_study,
    set_rules,
    study_of,
)

ONE = f"{LEAN}\n[stop]\ntrials = 1"


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with an empty study, one of a single trial, and a finished one."""
    top = tmp_path_factory.mktemp("studies")
    project = make_project(top / "project", rules=LEAN)
    edits = edits_file(top, [{"VALUE": 1.1}, {"MODE": "crash"}, {"VALUE": 1.1}, {"VALUE": 1.3}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RATCHET_LOCKS", str(top / "locks"))
        for tag in ("empty", "one"):
            crash_at(project, "journal:study_started" if tag == "empty" else "journal:settled", edits, tag=tag)
        run_study(project, edits, tag="finished", seen=keeping_the_table(project, "finished"))
    yield project


def inside(project: Path, *arguments: str) -> tuple[int, str]:
    """The command in this process, for what changes nothing: exit code and output, the sentence of a fault included."""
    done: Result = CliRunner().invoke(cli.cli, [*arguments, "--project", str(project)])
    if isinstance(done.exception, RatchetError):
        return done.exception.exit_code, f"ratchet: {done.exception}"
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def untouched(project: Path) -> list[str]:
    """What a refused start must leave as it was: refs and files."""
    refs = git(project, "for-each-ref").splitlines() if (project / ".git").exists() else []
    return refs + sorted(str(p) for p in project.rglob("*") if ".git" not in p.parts and "__pycache__" not in p.parts)


def break_rules(project: Path) -> None:
    (project / "program.md").write_text((project / "program.md").read_text().replace("trials = ", "trails = "))


def no_launcher(project: Path) -> None:
    set_rules(project, '[run]\ncommand = ["no-such-launcher", "train.py"]')


def modify(project: Path) -> None:
    (project / "train.py").write_text((project / "train.py").read_text() + "# mine\n")


def name_another_metric(project: Path) -> None:
    set_rules(project, '[metric]\nname = "val_loss"')


def write_latin_1(project: Path) -> None:
    (project / "train.py").write_bytes((project / "train.py").read_bytes() + b"# caf\xe9\n")
    git(project, "commit", "-qam", "latin")


def lose_data(project: Path) -> None:
    (project / "data.bin").unlink()


def break_describe(project: Path) -> None:
    (project / "prepare.py").write_text("print('{}')\n")
    git(project, "commit", "-qam", "no description")


def take_the_branch(project: Path) -> None:
    git(project, "branch", "autoresearch/t")


def leave_git(project: Path) -> None:
    shutil.rmtree(project / ".git")


def break_baseline(project: Path) -> None:
    (project / "train.py").write_text("def broken(:\n")
    git(project, "commit", "-qam", "broken")


def nothing(project: Path) -> None:
    """The project is fine, the arguments are not."""


REFUSED: dict[str, tuple[Callable[[Path], None], list[str], int, str]] = {
    "rules": (break_rules, [], 2, "program.md:"),
    "unknown program": (nothing, ["--program", "nowhere.md"], 2, "nowhere.md: not found"),
    "modified": (modify, [], 2, "--commit"),
    "data": (lose_data, [], 2, "python prepare.py"),
    "description": (break_describe, [], 2, "description"),
    "metric": (name_another_metric, [], 2, "prepare.py measures 'val_bpb'"),
    "no UTF-8": (write_latin_1, [], 2, "train.py is not UTF-8 text"),
    "launcher": (no_launcher, [], 75, "no-such-launcher"),
    "proposer": (nothing, ["--proposer", "serach"], 2, "did you mean 'search'?"),
    "no edits": (nothing, ["--proposer", "scripted"], 2, "--edits"),
    "missing edits": (nothing, ["--proposer", "scripted", "--edits", "nowhere.toml"], 2, "nowhere.toml"),
    "branch": (take_the_branch, [], 2, "the branch autoresearch/t exists"),
    "bad tag": (nothing, ["--tag", "../up"], 2, "use letters"),
    "tag git refuses": (nothing, ["--tag", "a..b"], 2, "git allows no branch"),
    "lock tag": (nothing, ["--tag", "a.lock"], 2, "git allows no branch"),
    "deadline": (nothing, ["--deadline", "25:00"], 2, "HH:MM"),
    "endless hours": (nothing, ["--hours", "inf"], 2, "--hours"),
    "no number of hours": (nothing, ["--hours", "nan"], 2, "--hours"),
    "repository": (leave_git, [], 2, "git init"),
    "baseline": (break_baseline, [], 2, "baseline"),
    "project": (nothing, ["--project", "nowhere"], 2, "nowhere"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_cannot_be_started_is_said_in_one_sentence_and_leaves_nothing(
    make_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    project = make_project(rules=ONE)
    change, arguments, code, word = REFUSED[case]
    change(project)
    before = untouched(project)
    monkeypatch.chdir(project)
    done = CliRunner().invoke(cli.cli, ["run", "--tag", "t", *arguments])
    assert isinstance(done.exception, RatchetError), (done.exception, done.output)
    assert done.exception.exit_code == code
    assert word in str(done.exception)
    assert "\n" not in str(done.exception)
    assert done.output == ""
    assert untouched(project) == before


def test_a_fault_is_one_line_on_the_error_stream_and_the_exit_code_of_its_kind(make_project: Callable[..., Path]) -> None:
    project = make_project(rules=ONE)
    no_launcher(project)
    before = untouched(project)
    done = ratchet(project, "run", "--tag", "t")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (75, "", 1)
    assert done.stderr.startswith("ratchet: the run command's launcher 'no-such-launcher' is not found")
    assert untouched(project) == before


@pytest.mark.parametrize("arguments", [["--trials", "0"], ["--trials", "many"], ["--hours", "-1"], ["--no-such-flag"], []])
def test_wrong_arguments_are_exit_code_2(project: Path, arguments: list[str]) -> None:
    done = CliRunner().invoke(cli.cli, ["run", *(["--tag", "t"] if arguments else []), *arguments, "--project", str(project)])
    assert done.exit_code == 2
    assert not (project / "runs").exists()


def test_a_project_without_a_study_says_so(project: Path) -> None:
    for command in ("resume", "stop", "log", "verify"):
        code, said = inside(project, command)
        assert (code, "ratchet run --tag NAME" in said) == (2, True), command
    assert inside(project, "show", "0")[0] == 2
    assert inside(project, "status") == (0, "no study yet; `ratchet run --tag NAME` starts one\n")
    assert inside(project, "status", "--json") == (0, "{}\n")
    assert inside(project, "report", "--json") == (0, "{}\n")
    assert not (project / "runs").exists()


def test_a_study_or_a_trial_that_is_not_there_is_exit_code_2(studies: Path) -> None:
    for command in (["status"], ["resume"], ["stop"], ["log"], ["report"], ["verify"], ["show", "0"]):
        code, said = inside(studies, *command, "--tag", "nowhere")
        assert (code, "'nowhere'" in said) == (2, True), command
    code, said = inside(studies, "show", "99", "--tag", "finished")
    assert (code, "no trial 99" in said) == (2, True)
    assert inside(studies, "stop", "--tag", "finished") == (2, "ratchet: no harness is running the study 'finished'")


def test_a_tag_that_exists_is_refused_and_resume_named(studies: Path) -> None:
    before = folder_of(studies, "finished").journal.read_bytes()
    code, said = inside(studies, "run", "--tag", "finished")
    assert (code, "ratchet resume --tag finished" in said) == (2, True)
    assert folder_of(studies, "finished").journal.read_bytes() == before


@pytest.mark.parametrize(("tag", "rows"), [("empty", 0), ("one", 1), ("finished", 4)])
@pytest.mark.parametrize("command", ["status", "log", "report", "verify"])
def test_views_of_an_empty_a_young_and_a_finished_study(studies: Path, tag: str, rows: int, command: str) -> None:
    code, text = inside(studies, command, "--tag", tag)
    assert code == 0, text
    assert text.strip()
    code, raw = inside(studies, command, "--tag", tag, "--json")
    assert code == 0
    data = json.loads(raw)
    if command == "log":
        assert [entry["trial"] for entry in data] == list(range(rows))[::-1]
    if command == "status":
        assert (data["tag"], data["trials"]) == (tag, max(0, rows - 1))
    if command == "verify":
        assert all(finding["ok"] for finding in data)


def test_show_tells_a_trial_as_text_and_as_json(studies: Path) -> None:
    for trial, word in ((0, "baseline"), (1, "VALUE"), (2, "boom")):
        code, text = inside(studies, "show", str(trial), "--tag", "finished")
        assert (code, word in text) == (0, True), text
        code, raw = inside(studies, "show", str(trial), "--tag", "finished", "--json")
        assert (code, json.loads(raw)["trial"]) == (0, trial)


@pytest.mark.slow
def test_a_night_on_the_command_line_ends_with_its_reason_and_exit_code(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE)
    edits = edits_file(tmp_path, [{"VALUE": 1.1}])
    done = ratchet(project, "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].endswith("all 1 trials are done (exit code 0)")
    assert [row["status"] for row in table(project)] == ["keep", "keep"]
    for name in ("results.tsv", "report.md", "progress.png", "console.log"):
        assert (folder_of(project).path / name).stat().st_size, name
    assert (project / "progress.png").exists()
    more = ratchet(project, "resume", env=NO_PICTURES)
    assert (more.returncode, more.stderr) == (0, "")
    assert "exit code 0" in more.stdout.splitlines()[-1]
    must_be_whole(project)


def test_the_module_is_the_command(studies: Path) -> None:
    command = shutil.which("ratchet", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    module = ratchet(studies, "log", "--tag", "finished")
    assert module.returncode == 0
    if command is None:
        pytest.skip("the command is not installed here, only the module")
    done = subprocess.run(
        [command, "log", "--tag", "finished"],
        cwd=studies,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == module.stdout


# A disk that is full.


def limited(project: Path, kilobytes: int, edits: Path, package: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A run that cannot make any file larger than that."""
    command = f'ulimit -f {kilobytes}; exec "{sys.executable}" -m harness run --tag t --proposer scripted --edits "{edits}"'
    pictures = NO_PICTURES["PYTHONPATH"].split(":")[0]
    environment = {**writing_bytecode(), "PYTHONPATH": f"{pictures}:{package}"}
    return subprocess.run(["bash", "-c", command], cwd=project, env=environment, capture_output=True, text=True, check=False)


def writing_bytecode() -> dict[str, str]:
    """The environment of a machine where Python keeps compiled modules."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def package_in(folder: Path) -> Path:
    """A harness that was never started."""
    shutil.copytree(ROOT / "harness", folder / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def damaged(folder: Path) -> list[str]:
    """Compiled modules below it that Python could not load."""
    found = []
    for path in folder.rglob("*.pyc"):
        try:
            marshal.loads(path.read_bytes()[16:])
        except (EOFError, ValueError, TypeError):
            found.append(path.name)
    return found


def test_a_disk_that_is_full_at_the_start_leaves_nothing(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE)
    (project / "prepare.py").write_text((project / "prepare.py").read_text() + "# " + "x" * 8000 + "\n")
    git(project, "commit", "-qam", "a larger file")
    before = untouched(project)
    done = limited(project, 8, edits_file(tmp_path, [{"VALUE": 1.1}]))
    assert done.returncode == 74, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "prepare.py: File too large" in done.stderr
    assert untouched(project) == before


def test_a_disk_that_fills_up_at_night_ends_it_and_the_study_goes_on_later(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=f"{LEAN}\n[stop]\ntrials = 2")
    edits = edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.3}])
    done = limited(project, 12, edits)
    assert done.returncode == 74, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert resume_study(project, seen=keeping_the_table(project)).exit_code == 0
    assert [row["status"] for row in table(project)] == ["keep", "keep", "discard"]
    must_be_whole(project)


def test_the_first_start_on_a_full_disk_leaves_no_half_of_a_module(make_project: Callable[..., Path], tmp_path: Path) -> None:
    package = package_in(tmp_path / "installed")
    done = limited(make_project(rules=f"{LEAN}\n[stop]\ntrials = 2"), 8, edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.3}]), package)
    assert (done.returncode, "Traceback" in done.stderr) == (74, False), done.stderr
    assert damaged(package) == []


def test_a_harness_on_a_full_file_system_starts_and_starts_again_with_room(tmp_path: Path) -> None:
    """With 200 KiB some modules fit and the next one does not."""
    place = tmp_path / "installed"
    place.mkdir()
    size = sum(path.stat().st_size // 4096 * 4096 + 4096 for path in (ROOT / "harness").rglob("*") if path.suffix != ".pyc")
    options = f"size={(size >> 10) + 200}k"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        package_in(place)
        command, environment = [sys.executable, "-m", "harness", "run", "--help"], {**writing_bytecode(), "PYTHONPATH": str(place)}
        full = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (full.returncode, damaged(place)) == (0, []), full.stderr
        subprocess.run(["mount", "-o", "remount,size=128m", str(place)], check=True)
        again = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (again.returncode, again.stdout) == (0, full.stdout)
        assert list(place.rglob("*.pyc")), "with room Python keeps what it compiled"
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.slow
def test_a_small_file_system_that_is_full_is_no_bug_of_ours(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE)
    runs = project / "runs"
    runs.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(runs)], capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        done = ratchet(project, "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits_file(tmp_path, [{"VALUE": 1.2}])))
        assert done.returncode == 74, (done.stdout, done.stderr)
        assert len(done.stderr.splitlines()) == 1, done.stderr
        subprocess.run(["mount", "-o", "remount,size=8m", str(runs)], check=True)
        again = ratchet(project, "resume", env=NO_PICTURES)
        assert again.returncode == 0, again.stderr
        must_be_whole(project)
    finally:
        subprocess.run(["umount", "-l", str(runs)], check=True)


# What verify finds.


@pytest.fixture
def copy(studies: Path, tmp_path: Path) -> Path:
    """The finished study in a copy of its project, to be damaged."""
    return Path(shutil.copytree(studies, tmp_path / "copy"))


def bad(project: Path) -> set[str]:
    """What `ratchet verify` calls bad."""
    code, raw = inside(project, "verify", "--tag", "finished", "--json")
    found = {finding["what"] for finding in json.loads(raw) if not finding["ok"]}
    assert code == (1 if found else 0)
    return found


def test_verify_refuses_a_journal_with_a_flipped_byte(copy: Path) -> None:
    path = folder_of(copy, "finished").journal
    raw = path.read_bytes()
    lines = raw.splitlines(keepends=True)
    for place in (12, len(raw) // 2, len(raw) - len(lines[-1]) - 5):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        assert inside(copy, "verify", "--tag", "finished")[0] == 65, place
        assert inside(copy, "resume", "--tag", "finished")[0] == 65, place
        assert path.read_bytes()[place] == raw[place] ^ 1, "nothing was changed"
    path.write_bytes(raw[:-3])
    assert "journal" in bad(copy)
    path.write_bytes(raw[: len(raw) // 3] + raw[len(raw) // 3 + len(lines[4]) :])
    assert inside(copy, "verify", "--tag", "finished")[0] == 65


def test_verify_finds_whatever_differs_from_the_journal(copy: Path) -> None:
    folder = folder_of(copy, "finished")
    study = study_of(copy, "finished")
    assert bad(copy) == set()
    git(copy, "update-ref", "refs/heads/autoresearch/finished", "main")
    assert bad(copy) == {"branch"}
    git(copy, "update-ref", "-d", "refs/heads/autoresearch/finished")
    assert bad(copy) == {"branch"}
    assert study.incumbent is not None
    git(copy, "update-ref", "refs/heads/autoresearch/finished", str(study.incumbent.commit))
    git(copy, "update-ref", "-d", "refs/autoresearch/finished/trials/000002")
    assert bad(copy) == {"commits"}
    git(copy, "update-ref", "refs/autoresearch/finished/trials/000002", str(study.rows[1].commit))
    assert bad(copy) == {"commits"}
    git(copy, "update-ref", "refs/autoresearch/finished/trials/000002", str(study.rows[2].commit))
    for what, path in (
        ("prepare.py", folder.prepare),
        ("checkpoints", folder.trial(study.rows[1].folder).reading(0).checkpoint),
        ("table", folder.results),
    ):
        kept = path.read_bytes()
        path.write_bytes(kept.replace(b"1", b"2"))
        assert bad(copy) == {what}
        path.write_bytes(kept)
    folder.snapshot.write_bytes(folder.snapshot.read_bytes().replace(b'"refused":1', b'"refused":0'))
    assert bad(copy) == {"snapshot"}
    folder.snapshot.unlink()
    assert bad(copy) == set()


def test_a_start_that_is_refused_commits_nothing_even_when_asked_to(make_project: Callable[..., Path]) -> None:
    project = make_project(rules=ONE)
    (project / "train.py").write_text("def broken(:\n")
    before = git(project, "rev-parse", "HEAD")
    code, said = inside(project, "run", "--tag", "t", "--commit")
    assert (code, "cannot be a baseline" in said) == (2, True)
    assert git(project, "rev-parse", "HEAD") == before
    with Lock(lock_folder() / "cpu.lock", "the device cpu"):
        (project / "train.py").write_text((project / "train.py").read_text().replace("def broken(:", "x = 1"))
        assert inside(project, "run", "--tag", "t", "--commit")[0] == 75
    assert git(project, "rev-parse", "HEAD") == before


def test_a_flag_of_another_proposer_is_refused(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE)
    edits = edits_file(tmp_path, [{"VALUE": 1.1}])
    assert inside(project, "run", "--tag", "t", "--edits", str(edits))[0] == 2
    assert inside(project, "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits), "--seed", "3")[0] == 2


def test_the_list_of_edits_is_kept_as_it_was_when_the_study_began(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[stop]\ntrials = 1")
    edits = edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.05}])
    run_study(project, edits)
    edits.unlink()
    assert resume_study(project, trials=2).exit_code == 0
    assert [row.title for row in study_of(project).rows] == ["baseline", "edit 1", "edit 2"]


def test_a_deadline_that_has_passed_needs_a_new_one(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[stop]\ntrials = 1")
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}, {"VALUE": 1.05}]), deadline="23:59")
    limits = Limits.model_validate_json(json.dumps(study_of(project).limits))
    late = datetime.now().astimezone() + timedelta(days=2)
    with pytest.raises(UserFault, match="has passed; say until when with --deadline"):
        check_deadline(limits, late, None)
    check_deadline(limits, late, "07:00")
    check_deadline(limits, datetime.now().astimezone() - timedelta(days=1), None)


def test_verify_goes_on_when_the_rules_copy_is_damaged(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE)
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]))
    (project / "runs" / "t" / "program.md").write_text("no rules\n")
    code, said = inside(project, "verify")
    assert code == 1
    assert "BAD  measured bytes: which files are in scope cannot be told" in said
    assert said.count("ok ") >= 6
