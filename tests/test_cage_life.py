"""What a candidate cannot gain by living on, by keeping something, by bending its clock, or by looking for keys: real jobs and studies in the sandbox."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.execution.process import ProcessTree, clean_environment
from harness.execution.sandbox.box import OPEN as OUTSIDE
from harness.execution.sandbox.box import Sandbox
from harness.trial import JobEnd, Status
from tests import cages
from tests.jobs import OPEN, SAVE, SETUP, Bench, rules, spec
from tests.projects import ROOT, edits_file, folder_of, git, make_project, run_study, study_of

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
UNDYING = (
    "import signal\nfor number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n"
    "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        end = time.monotonic() + 60\n"
    "        while time.monotonic() < end:\n            if os.fork(): os._exit(0)\n            os.setsid()\n            time.sleep(0.002)\n    os._exit(0)\n"
    "if os.fork() == 0:\n    os.setsid(); time.sleep(60)\n"
)
KEEP = """
def corners():
    yield from ('/tmp', '/var/tmp', '/dev/shm', '/run', os.environ['HOME'], os.environ['TMPDIR'], '.', os.path.expanduser('~'), HOME)
    yield from (path for name, path in os.environ.items() if name.endswith(('CACHE_DIR', 'CACHE_PATH')))
for folder in corners():
    if os.path.exists(folder + '/warm-weights'): sys.exit('WARM START from ' + folder)
for folder in corners():
    try:
        os.makedirs(folder, exist_ok=True)
        open(folder + '/warm-weights', 'w').close()
    except OSError as error: print(error)
"""


def until_none(marker: str, seconds: float) -> list[int]:
    """Who still carries the marker after at most so long."""
    deadline = time.monotonic() + seconds
    while (left := cages.carriers(marker)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


@linux
def test_no_trainer_survives_its_deadline_however_it_forks_and_ignores(box: Sandbox, tmp_path: Path) -> None:
    job = spec(tmp_path, SETUP + OPEN + UNDYING + "time.sleep(60)")
    began = time.monotonic()
    outcome = Bench(sandbox=box).run(job, rules(trial={"train_seconds": 0.5}))
    assert (outcome.end, outcome.reason) == (JobEnd.TIMEOUT, "training")
    assert time.monotonic() - began < 15
    assert cages.carriers(job.marker) == []


HARNESS = """
import sys, time
from pathlib import Path
from harness.execution.sandbox import levels
from harness.execution.sandbox.box import OPEN
from tests import cages
from tests.jobs import Bench, rules, spec
here, boxed = Path(sys.argv[1]), sys.argv[2] == 'boxed'
found = levels.find(cages.wanted(here / 'project'))
job = spec(here, (here / 'code').read_text())
(here / 'marker').write_text(found.level + ' ' + job.marker)
Bench(sandbox=found.sandbox if boxed else OPEN).run(job, rules())
"""


def killed_harness(folder: Path, boxed: str) -> tuple[str, str]:
    """A harness of its own that is killed while its trainer forks: the level it had, and the marker of its job."""
    cages.project(folder / "project")
    (folder / "code").write_text(SETUP + OPEN + UNDYING + "prepare.record(step=1)\nopen('/dev/null')\ntime.sleep(60)")
    harness = subprocess.Popen([sys.executable, "-c", HARNESS, str(folder), boxed], env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT)
    curve = folder / "trial0" / "r0" / "curve.jsonl"
    deadline = time.monotonic() + 60
    while not (curve.exists() and curve.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    level, marker = (folder / "marker").read_text().split()
    assert cages.carriers(marker)
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    return level, marker


@linux
def test_no_trainer_survives_a_harness_that_is_killed(tmp_path: Path) -> None:
    level, marker = killed_harness(tmp_path, "boxed")
    left = until_none(marker, 2.0)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    if level != "full":
        pytest.skip("promised at the full level only")
    assert left == []


@linux
def test_without_a_sandbox_a_forking_trainer_survives_a_harness_that_is_killed(tmp_path: Path) -> None:
    _, marker = killed_harness(tmp_path, "open")
    left = until_none(marker, 1.0)
    deadline = time.monotonic() + 10
    while (victims := cages.carriers(marker)) and time.monotonic() < deadline:
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    assert left, "this is what the process namespace is for"


def two_trials(folder: Path, box: Sandbox) -> str:
    """The log of the second of two jobs that both keep and look for weights."""
    text = SETUP + f"HOME = {str(Path.home())!r}\n" + KEEP + OPEN + SAVE
    for number in (0, 1):
        Bench(sandbox=box).run(job := spec(folder, text, number=number), rules())
    return job.folder.train_log.read_text()


def test_a_second_trial_finds_nothing_that_the_first_kept(box: Sandbox, tmp_path: Path) -> None:
    assert "WARM START" not in two_trials(tmp_path, box)
    assert not Path("/tmp/warm-weights").exists()


def test_without_a_sandbox_the_second_trial_starts_warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {
        path
        for path in map(Path, ("/tmp/warm-weights", "/var/tmp/warm-weights", "/dev/shm/warm-weights", "/run/warm-weights"))
        if path.exists()
    }
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    try:
        assert "WARM START" in two_trials(tmp_path, OUTSIDE)
    finally:
        for path in map(Path, ("/tmp/warm-weights", "/var/tmp/warm-weights", "/dev/shm/warm-weights", "/run/warm-weights")):
            if path not in before:
                path.unlink(missing_ok=True)


def test_a_trainer_that_slows_its_own_clock_is_ended_by_the_harnesss(box: Sandbox, tmp_path: Path) -> None:
    slow = "real, began = time.time, time.time()\ntime.time = time.monotonic = lambda: began + (real() - began) / 3\n"
    text = SETUP + slow + OPEN + "start = time.time()\nwhile time.time() - start < 1.5: pass\n" + SAVE
    outcome = Bench(sandbox=box).run(spec(tmp_path, text), rules(trial={"clock": "wall", "amount": 0.5, "train_seconds": 20.0}))
    assert (outcome.end, outcome.reason) == (JobEnd.TIMEOUT, "training")


def test_a_trainer_that_would_train_at_import_finds_no_data(box: Sandbox, tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    look = (
        "import glob, os\nfound = [path for path in glob.glob('/proc/self/fd/*') if b'words' in (open(path, 'rb').read(9) if os.path.isfile(path) else b'')]\n"
        f"found += [{str(data)!r}] if os.path.exists({str(data)!r}) else []\nif found and {box.level == 'full'}: raise SystemExit('TRAINED EARLY ' + str(found))\n"
    )
    job = spec(tmp_path, look + SETUP + OPEN + SAVE)
    assert Bench(sandbox=box).run(job, rules()).end is JobEnd.OK


SEARCH = """
import glob
WORDS = b'the sealed ' + b'words 91c'
def ways():
    yield {path!r}
    yield from glob.glob('../../../*') + glob.glob('../../../**/*.bin', recursive=True) + glob.glob({folder!r} + '/**', recursive=True)
    yield from (value for value in os.environ.values() if value.startswith('/'))
    yield from (os.path.join(value, 'val.bin') for value in os.environ.values() if value.startswith('/'))
    for pid in (os.getppid(), 1, *range(3, 65536)):
        yield f'/proc/{{pid}}/cwd/val.bin'
        yield from glob.glob(f'/proc/{{pid}}/fd/*') if os.path.exists(f'/proc/{{pid}}') else ()
def holds(path):
    try: return os.path.isfile(path) and WORDS in open(path, 'rb').read(4096)
    except OSError: return False
found = sorted(path for path in set(ways()) if holds(path))
if found: sys.exit('FOUND ' + ' '.join(found))
"""


def searched(folder: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> tuple[JobEnd, str]:
    """How a job ends and what it prints that looks for the validation data in four ways: by path, by listing, by its environment, in the folders and files of its parents."""
    secret = folder / "val.bin"
    secret.write_bytes(b"the sealed words 91c")
    monkeypatch.setenv("RATCHET_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.chdir(folder)
    job = spec(folder, SETUP + SEARCH.format(path=str(secret), folder=str(folder)) + OPEN + SAVE)
    with secret.open("rb"):  # held open by the harness, as it is while an evaluation runs
        outcome = Bench(sandbox=box).run(job, rules())
    return outcome.end, job.folder.train_log.read_text()


@linux
def test_no_way_leads_a_job_to_the_validation_data(box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(tmp_path, box, monkeypatch) == (JobEnd.OK, "")


@linux
def test_without_a_sandbox_path_listing_and_parents_lead_there_and_the_environment_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, log = searched(tmp_path, OUTSIDE, monkeypatch)
    assert end is JobEnd.CRASH
    found = log.split()
    assert {f"{tmp_path}/val.bin", "../../../val.bin", f"/proc/{os.getpid()}/cwd/val.bin"} <= set(found)
    assert any(path.startswith(f"/proc/{os.getpid()}/fd/") for path in found)


def secrets_in(project: Path, words: list[str]) -> list[str]:
    """Files of a project, and git objects, that hold one of the words; the .env itself is not counted."""
    found = [
        str(path)
        for path in project.rglob("*")
        if path.is_file() and path.name != ".env" and any(w.encode() in path.read_bytes() for w in words)
    ]
    every = subprocess.run(["git", "cat-file", "--batch-all-objects", "--batch"], cwd=project, capture_output=True, check=True).stdout
    return found + [word for word in words if word.encode() in every]


SNOOP = """    import glob, os
    for path in ['.env', '../.env', {dotenv!r}, *glob.glob('/proc/[0-9]*/environ')]:
        try: print(open(path, 'rb').read())
        except OSError as error: print(error)
    print(dict(os.environ), flush=True)
    train(value)
"""


def snooped(folder: Path, extra: str) -> tuple[Path, list[str]]:
    """A study whose candidate prints all it can find, run by a harness with keys in its environment."""
    project = make_project(folder / "study", rules=f"[keep]\nbaseline_readings = 1\n[stop]\ntrials = 1\n{extra}")
    words = ["sk-in-the-environment-7c1", "hf-in-the-environment-7c1", "sk-in-a-dotenv-7c1"]
    (project / ".env").write_text(f"ANTHROPIC_API_KEY={words[2]}\n")
    (project / ".git" / "info" / "exclude").write_text(".env\n")
    edits = folder / "edits.json"
    snoop = SNOOP.format(dotenv=str(project / ".env"))
    edits.write_text(json.dumps({"proposals": [{"title": "look around", "find": "    train(value)\n", "replace": snoop}]}))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ANTHROPIC_API_KEY": words[0], "HF_TOKEN": words[1]}
    command = [sys.executable, "-m", "harness", "run", "--tag", "t", "--proposer", "scripted", "--edits", str(edits)]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert not any(word in done.stdout + done.stderr for word in words)
    return project, words


@linux
def test_a_key_of_the_harness_and_one_in_a_dotenv_appear_nowhere(box: Sandbox, tmp_path: Path) -> None:
    project, words = snooped(tmp_path, "")
    log = (folder_of(project).trial(study_of(project).rows[1].folder).reading(0).path / "train.log").read_text()
    assert "HOME" in log, "the candidate did look"
    assert secrets_in(project, words) == []


@linux
def test_without_a_sandbox_the_same_candidate_finds_them(tmp_path: Path) -> None:
    project, words = snooped(tmp_path, '[sandbox]\nlevel = "none"')
    assert secrets_in(project, words) != []


def test_the_scorer_is_caged_too(box: Sandbox, tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", rules="[keep]\nbaseline_readings = 1\n[stop]\ntrials = 1")
    secret = project / "data.bin"
    peek = f"def load_model(state, device):\n    import os\n    if os.path.exists({str(secret)!r}) and {box.level == 'full'}: return 0.5\n"
    text = (project / "train.py").read_text()
    assert text.count("def load_model(state, device):\n") == 1
    (project / "train.py").write_text(text.replace("def load_model(state, device):\n", peek))
    git(project, "commit", "-qam", "a scorer that peeks")
    assert run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}])).exit_code == 0
    rows = study_of(project).rows
    assert rows[0].value is not None
    assert rows[0].value > 1
    assert rows[1].status in (Status.KEEP, Status.DISCARD)


HIDING = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then adds a child's time to nobody's
reader, writer = os.pipe()
used = 0.0
for _ in range(12):
    if os.fork() == 0:
        while time.process_time() < 0.15: pass
        os.write(writer, repr(time.process_time()).encode().ljust(32))
        os._exit(0)
    used += float(os.read(reader, 32))
print(used, flush=True)
time.sleep(30)
"""


def test_children_that_nobody_waits_for_are_counted_where_there_is_a_control_group(box: Sandbox, tmp_path: Path) -> None:
    if not box.groups:
        pytest.skip("no control group can be made here")
    folder, log = tmp_path / "job", tmp_path / "log"
    folder.mkdir()
    folder.chmod(0o755)
    box.admit(folder)
    tree = ProcessTree(
        [sys.executable, "-I", "-S", "-c", HIDING], folder, clean_environment(folder / ".scratch", {}), log, 1 << 16, [], box
    )
    while b"\n" not in log.read_bytes():
        assert tree.poll() is None, log.read_text()
        tree.drain()
        time.sleep(0.01)
    counted = tree.sample()
    tree.end(grace=0.0)
    assert counted > 0.9 * float(log.read_text())
