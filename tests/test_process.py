"""Process trees with real processes: logs that are capped, nothing left alive, memory and CPU time seen from outside, and no secret passed on."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.execution import process
from harness.execution.process import LAUNCHER, ProcessTree, adopt_orphans, boot_id, clean_environment, end_orphan, started_at
from harness.execution.usage import descendants, is_over

CAP = 64 * 1024
LATEST = 20.0
RUN = secrets.token_hex(8)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and PR_SET_PDEATHSIG")
Start = Callable[..., ProcessTree]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `python -c code` as a tree; what a failed test left is ended."""
    adopt_orphans()
    before = set(descendants(os.getpid()))

    def begin(code: str, **extra: str) -> ProcessTree:
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        environment = clean_environment(scratch, extra)
        return ProcessTree([sys.executable, "-c", code], tmp_path, environment, tmp_path / "log", CAP, [])

    yield begin
    for pid in set(descendants(os.getpid())) - before:
        process.kill_and_reap(pid)


def until(condition: Callable[[], object], tree: ProcessTree | None = None, seconds: float = LATEST) -> bool:
    """Wait for it, draining meanwhile."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        if tree is not None:
            tree.drain()
        time.sleep(0.01)
    return True


def finish(tree: ProcessTree) -> int:
    """Let it run to its own end."""
    until(lambda: tree.poll() is not None, tree)
    return tree.end()


def living(marker: str) -> list[int]:
    """All processes that carry the marker."""
    return [pid for pid in psutil.pids() if process._carries(pid, marker) and not is_over(pid)]


def words(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


@pytest.mark.parametrize(
    "block",
    ["b'step 1 | loss 4.2\\n' * 4096", "b'x' * 65536", "os.urandom(65536)", "b'\\x00\\xff\\r\\x1b[2J' * 9000"],
    ids=["lines", "no_newline", "random", "control_bytes"],
)
def test_a_flood_is_drained_and_only_its_newest_bytes_are_kept(start: Start, tmp_path: Path, block: str) -> None:
    before = psutil.Process().memory_info().rss
    tree = start(f"import os\nfor _ in range(160): os.write(1, {block})\nos.write(2, b'THE END')")
    assert finish(tree) == 0
    log = (tmp_path / "log").read_bytes()
    assert log.endswith(b"THE END")
    assert log.startswith(b"[earlier output dropped]\n")
    assert len(log) <= 3 * CAP
    assert psutil.Process().memory_info().rss - before < 8 * process.MIB


def test_output_that_never_stops_does_not_hold_the_harness(start: Start, tmp_path: Path) -> None:
    tree = start("import os\nwhile True: os.write(1, b'x' * 65536)")
    turns = 0
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        tree.drain()
        turns += 1
    assert tree.end(grace=0.2) == -signal.SIGTERM
    assert turns > 3
    assert (tmp_path / "log").stat().st_size <= 3 * CAP


def test_a_job_that_closes_its_output_is_followed_to_its_exit_code(start: Start) -> None:
    tree = start("import os, sys, time\nos.close(1); os.close(2)\ntime.sleep(0.3)\nos._exit(3)")
    assert until(lambda: not tree.sources(), tree)
    assert finish(tree) == 3


@linux
def test_a_job_and_a_grandchild_that_ignore_term_and_hold_the_pipe_are_gone_after_the_grace(start: Start, tmp_path: Path) -> None:
    tree = start(
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nif os.fork() == 0: os.fork()\n"
        "os.write(1, b'ignoring\\n')\ntime.sleep(60)",
        MARK=f"c29-stubborn-{RUN}",
    )
    assert until(lambda: (tmp_path / "log").read_bytes().count(b"ignoring") == 3, tree)
    began = time.monotonic()
    assert tree.end(grace=0.3) == -signal.SIGKILL
    assert time.monotonic() - began < 30
    assert living(f"c29-stubborn-{RUN}") == []


@linux
@pytest.mark.parametrize(
    "code",
    [
        "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: time.sleep(60)\n os._exit(0)\nos.wait()",
        "import os, time\nend = time.time() + 20\nos.fork()\nos.setsid() if os.getpid() != os.getpgid(0) else None\n"
        "while time.time() < end:\n if os.fork(): os._exit(0)\n os.setsid()",
        "import os, signal, time\nif os.fork() == 0:\n os.setsid(); os.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(0.2)",
        "import os, time\nfor _ in range(6): os.fork()\nos.setpgid(0, 0) if os.getpid() % 2 and os.getsid(0) != os.getpid() else None\ntime.sleep(60)",
    ],
    ids=["daemon", "fork_chain", "stopped", "many"],
)
def test_nothing_that_a_job_started_outlives_it(start: Start, code: str) -> None:
    tree = start(code, MARK=f"left-behind-{RUN}")
    until(lambda: tree.poll() is not None, tree, seconds=1.0)
    tree.end(grace=0.2)
    assert living(f"left-behind-{RUN}") == []


@linux
def test_no_zombie_is_left(start: Start) -> None:
    before = set(descendants(os.getpid()))
    tree = start("import os, time\nfor _ in range(5):\n if os.fork() == 0:\n  os.setsid(); time.sleep(0.05); os._exit(0)\n")
    finish(tree)
    assert set(descendants(os.getpid())) == before


@linux
def test_what_ran_before_the_tree_is_not_touched(start: Start) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        finish(start("pass"))
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@linux
@pytest.mark.parametrize(
    ("code", "at_least"),
    [
        ("import os\nif os.fork() == 0: hold = b'x' * (80 << 20)\n", 80),
        ("hold = b'x' * (120 << 20)\ndel hold\n", 120),
        ("import os\nif os.fork() == 0:\n hold = b'x' * (120 << 20)\n del hold\n", 120),
    ],
    ids=["child", "spike", "spike_of_a_child"],
)
def test_peak_memory_covers_children_and_spikes_between_two_looks(start: Start, tmp_path: Path, code: str, at_least: int) -> None:
    tree = start(code + "import os, time\nopen(f'ready{os.getpid()}', 'w').close()\ntime.sleep(60)")
    assert until(lambda: len(list(tmp_path.glob("ready*"))) == 1 + ("fork" in code), tree)
    tree.sample()
    tree.end(grace=0.0)
    assert tree.peak_memory_mb is not None
    assert at_least <= tree.peak_memory_mb < at_least + 150


BURN = "import os, time\ndef burn():\n while time.process_time() < 0.3: pass\n"


@linux
@pytest.mark.parametrize(
    "code",
    [
        "burn()",
        "if os.fork() == 0: burn(); os._exit(0)\nos.wait()",
        "if os.fork() == 0:\n if os.fork() == 0: burn(); os._exit(0)\n os.wait(); os._exit(0)\nos.wait()",
    ],
    ids=["itself", "a_child_come_and_gone", "a_grandchild_come_and_gone"],
)
def test_cpu_seconds_count_the_whole_tree_between_two_looks(start: Start, tmp_path: Path, code: str) -> None:
    tree = start(f"{BURN}{code}\nopen('done', 'w').close()\ntime.sleep(60)")
    assert until(lambda: (tmp_path / "done").exists(), tree)
    used = tree.sample()
    tree.end(grace=0.0)
    assert 0.25 <= used < 2.0
    assert tree.sample() >= used


@linux
def test_cpu_seconds_of_a_child_are_counted_once(start: Start, tmp_path: Path) -> None:
    tree = start(f"{BURN}if os.fork() == 0:\n burn(); open('burnt', 'w').close()\n while not os.path.exists('go'): time.sleep(0.01)\n os._exit(0)\nos.wait()\nopen('done', 'w').close()\ntime.sleep(60)")  # fmt: skip
    assert until(lambda: (tmp_path / "burnt").exists(), tree)
    alive = tree.sample()
    (tmp_path / "go").touch()
    assert until(lambda: (tmp_path / "done").exists(), tree)
    assert alive <= tree.sample() < alive + 0.3
    tree.end(grace=0.0)


def test_a_job_sees_an_allow_list_of_variables_and_no_key_of_ours(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "LD_PRELOAD_", "RATCHET_SOCKET"):
        monkeypatch.setenv(name, "sk-secret-marker")
    finish(start("import os\nprint('\\n'.join(f'{k}={v}' for k, v in os.environ.items()))", OWN="1"))
    printed = (tmp_path / "log").read_text()
    assert "sk-secret-marker" not in printed
    names = {line.split("=")[0] for line in printed.splitlines()}
    assert names <= {
        *process.INHERITED,
        "HOME",
        "TMPDIR",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "PYTHONUNBUFFERED",
        "OWN",
        "LC_CTYPE",
        "__CF_USER_TEXT_ENCODING",
    }
    assert f"HOME={tmp_path / 'scratch'}" in printed


@pytest.fixture
def orphan() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Starts processes as a dead harness would have left them."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(marker: str) -> subprocess.Popen[bytes]:
        ready, write = os.pipe()
        code = f"import os, time; os.write({write}, b'x'); time.sleep(60)"
        started.append(subprocess.Popen([sys.executable, "-c", code], env={"RATCHET_JOB": marker}, pass_fds=[write]))
        os.read(ready, 1)
        os.close(ready)
        os.close(write)
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.wait()


@linux
def test_an_orphan_is_ended_only_when_pid_start_time_and_boot_agree(orphan: Callable[[str], subprocess.Popen[bytes]]) -> None:
    job = orphan(f"marker-of-the-job-{RUN}")
    began = started_at(job.pid)
    assert began is not None
    assert not end_orphan(job.pid, began, "another boot", f"marker-of-the-job-{RUN}")
    assert not end_orphan(job.pid, began + 1.0, boot_id(), f"another marker {RUN}")
    assert not end_orphan(2**22 - 1, began, boot_id(), f"another marker {RUN}")
    assert job.poll() is None
    assert end_orphan(job.pid, began, boot_id(), f"another marker {RUN}")
    assert living(f"marker-of-the-job-{RUN}") == []


@linux
def test_what_carries_the_marker_is_ended_when_the_job_itself_is_gone(orphan: Callable[[str], subprocess.Popen[bytes]]) -> None:
    stray, other = orphan(f"marker-7f3a-{RUN}"), orphan(f"another-one-{RUN}")
    assert end_orphan(2**22 - 1, 1.0, boot_id(), f"marker-7f3a-{RUN}")
    assert living(f"marker-7f3a-{RUN}") == []
    assert other.poll() is None
    assert not process._carries(stray.pid, "")


def launcher(parent: int, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", str(LAUNCHER), str(parent), "0", *command], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_launcher_starts_nothing_when_its_parent_is_another() -> None:
    done = launcher(os.getpid() + 1, sys.executable, "-c", "print('started')")
    assert (done.returncode, done.stdout) == (137, "")


def test_the_launcher_says_127_when_there_is_no_such_command() -> None:
    done = launcher(os.getpid(), "no-such-launcher")
    assert (done.returncode, done.stderr) == (127, "no-such-launcher: No such file or directory\n")


@linux
def test_the_launched_command_dumps_no_core_and_goes_first_when_memory_is_short() -> None:
    code = "import resource\nprint(resource.getrlimit(resource.RLIMIT_CORE)[0], open('/proc/self/oom_score_adj').read().strip())"
    assert launcher(os.getpid(), sys.executable, "-c", code).stdout == "0 1000\n"


@linux
def test_a_job_dies_with_a_harness_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom harness.execution.process import ProcessTree\nhere = Path(sys.argv[1])\n"
        "tree = ProcessTree([sys.executable, '-c', 'import time; time.sleep(60)'], here, {'MARK': sys.argv[2]}, here / 'log', 65536, [])\n"
        "(here / 'pid').write_text(f'{tree.pid} ')\ntime.sleep(60)"
    )
    root = Path(__file__).parent.parent
    harness = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), f"dies-with-us-{RUN}"], env={**os.environ, "PYTHONPATH": str(root)}
    )
    try:
        assert until(lambda: words(tmp_path / "pid") and b"sleep" in Path(f"/proc/{words(tmp_path / 'pid')[0]}/cmdline").read_bytes())
        assert until(lambda: living(f"dies-with-us-{RUN}"))
    finally:
        harness.kill()
        harness.wait()
    assert until(lambda: not living(f"dies-with-us-{RUN}"), seconds=1.5), "the kernel ends it at once; somebody's init may do it later"


@linux
def test_a_full_disk_costs_lines_of_the_log_and_nothing_else(tmp_path: Path) -> None:
    tree = ProcessTree([sys.executable, "-c", "print('x' * 100000)"], tmp_path, {}, Path("/dev/full"), CAP, [])
    assert finish(tree) == 0


def test_a_tree_that_cannot_start_leaves_no_descriptor(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ProcessTree(["true"], tmp_path / "no-such-folder", {}, tmp_path / "log", CAP, [])
