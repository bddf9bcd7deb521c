"""Every way in which a training job can end, through the real `Job` with real processes, and what is kept of it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.artifacts import trial_dir
from harness.errors import InfrastructureFault
from harness.execution import claims, job, process, sealing
from harness.execution.workplace import resolve_command
from harness.trial import JobEnd, JobOutcome
from tests.jobs import OPEN, SAVE, SETUP, Bench, Skewed, rules, spec, stub

SEND = "def send(text): prepare._line.socket.sendall(text.encode() + b'\\n')\n"


def survivors(marker: str) -> list[int]:
    return [int(p.name) for p in Path("/proc").glob("[0-9]*") if process._carries(int(p.name), marker)]


def test_a_job_that_ends_well_leaves_a_hashed_checkpoint_a_curve_and_its_times(tmp_path: Path) -> None:
    bench, job_spec = Bench(), spec(tmp_path, stub(VALUE=1.25))
    outcome = bench.run(job_spec, rules())
    checkpoint = job_spec.folder.checkpoint.read_bytes()
    assert (outcome.end, outcome.reason, outcome.exit_code) == (JobEnd.OK, "", 0)
    assert json.loads(checkpoint) == {"value": 1.25}
    assert outcome.checkpoint_sha256 == hashlib.sha256(checkpoint).hexdigest()
    assert (outcome.steps, outcome.tokens) == (10, 100)
    assert [json.loads(line)["step"] for line in job_spec.folder.curve.read_text().splitlines()] == [1, 2]
    assert [point["step"] for point in bench.points] == [1, 2]
    for seconds in (outcome.setup_seconds, outcome.train_seconds, outcome.cpu_seconds):
        assert seconds is not None
        assert 0 <= seconds < 30
    assert outcome.peak_memory_mb is not None
    assert 5 < outcome.peak_memory_mb < 500


def test_the_job_gets_open_descriptors_and_nothing_else_to_work_with(tmp_path: Path) -> None:
    text = SETUP + (
        "assert hello == {'profile': 'cpu', 'device': 'cpu', 'seed': 1, 'threads': 1}, hello\n"
        "assert sorted(os.listdir('.')) == ['.scratch', 'prepare.py', 'train.py'], os.listdir('.')\n"
        "assert prepare.open_training() == b'words'\n"
        "assert os.fstat(prepare._checkpoint).st_size == 0\n"
    )
    assert Bench().run(spec(tmp_path, text + SAVE), rules()).end is JobEnd.OK


@pytest.mark.parametrize(
    ("text", "end", "reason", "detail"),
    [
        (stub(MODE="crash"), JobEnd.CRASH, "exit_code", "exit code 1: RuntimeError: boom"),
        (stub(MODE="assert"), JobEnd.CRASH, "exit_code", "exit code 1: AssertionError: TOTAL_BATCH must be a multiple of DEVICE_BATCH"),
        ("def broken(:\n", JobEnd.CRASH, "exit_code", "exit code 1: SyntaxError"),
        ("", JobEnd.CRASH, "no_result", "without a checkpoint"),
        (stub(MODE="nothing"), JobEnd.CRASH, "no_result", "without a checkpoint"),
        (SETUP + OPEN, JobEnd.CRASH, "no_result", "without a checkpoint"),
        (SETUP + OPEN + SAVE + "os.remove('../checkpoint.safetensors')", JobEnd.CRASH, "no_result", "without a checkpoint"),
        (
            SETUP + OPEN + SAVE + "os.remove('../checkpoint.safetensors')\nos.symlink('/etc/passwd', '../checkpoint.safetensors')",
            JobEnd.INVALID,
            "checkpoint",
            "cannot be opened as a file",
        ),
        (stub(MODE="late_failure"), JobEnd.CRASH, "late_failure", "exit code 1: RuntimeError: plotting failed"),
        (stub(MODE="no_steps"), JobEnd.INVALID, "no_steps", "trained 0 steps on 100 tokens"),
        (stub(MODE="oom"), JobEnd.OOM, "out_of_memory", "MemoryError: out of memory"),
        (
            SETUP + "sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB')",
            JobEnd.OOM,
            "out_of_memory",
            "CUDA out of memory",
        ),
        (SETUP + "os.kill(os.getpid(), 9)", JobEnd.OOM, "killed", "killed by the system"),
        (SETUP + OPEN + "os.kill(os.getpid(), 11)", JobEnd.CRASH, "exit_code", "exit code -11"),
    ],
)
def test_a_failed_job_says_how_it_ended_in_the_words_of_its_log(tmp_path: Path, text: str, end: JobEnd, reason: str, detail: str) -> None:
    outcome = Bench().run(spec(tmp_path, text), rules())
    assert (outcome.end, outcome.reason) == (end, reason)
    assert detail in outcome.detail
    assert outcome.checkpoint_sha256 is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('send(\'{"done": {"steps": 1, "tokens": 1}}\')', "'done'"),
        ('send(\'{"point": {"step": 1}}\')', "'point'"),
        ("send('{\"ready\": {}}'); send('{\"ready\": {}}')", "'ready'"),
        (OPEN + SAVE + 'send(\'{"done": {"steps": 1, "tokens": 1}}\')', "'done'"),
        (OPEN + "send('{\"point\": [1]}')", "'point'"),
        (OPEN + "send('{\"done\": 5}')", "'done'"),
        ("send('{\"metric\": 0.5}')", "'metric'"),
        ("send('{\"\\\\ud800' + 'k' * 9000 + '\": 1}')", "unexpected message"),
        ("send('step 1, loss 4.2')", "not JSON"),
        ("send('[1]')", "an object with one key"),
        ('send(\'{"ready": {}, "done": {}}\')', "an object with one key"),
        ("send('[' * 60000)", "not JSON"),
        ("send('x' * 70000)", "longer than 65536 bytes"),
        ("prepare._line.socket.sendall(b'\\0' * 200000)", "longer than 65536 bytes"),
    ],
)
def test_a_broken_protocol_is_invalid_and_never_a_crash_of_ours(tmp_path: Path, text: str, said: str) -> None:
    job_spec = spec(tmp_path, SETUP + SEND + text + "\ntime.sleep(20)")
    outcome = Bench().run(job_spec, rules())
    assert (outcome.end, outcome.reason) == (JobEnd.INVALID, "protocol")
    assert said in outcome.detail
    assert len(outcome.detail) < 300
    assert survivors(job_spec.marker) == []


@pytest.mark.parametrize(
    ("text", "limits", "end", "reason", "said"),
    [
        (stub(MODE="slow_setup"), (30.0, 400.0), JobEnd.TIMEOUT, "setup", "not ready after 30 s"),
        ("import time\ntime.sleep(30)", (30.0, 400.0), JobEnd.TIMEOUT, "setup", "not ready after 30 s"),
        (stub(MODE="slow"), (400.0, 8.0), JobEnd.TIMEOUT, "training", "after the start of training"),
        (stub(MODE="late_hang"), (400.0, 400.0), JobEnd.CRASH, "late_failure", "still running 10 s after its checkpoint"),
        (SETUP + OPEN + "while True: os.write(1, b'x' * 65536)", (400.0, 8.0), JobEnd.TIMEOUT, "training", "no checkpoint"),
        (SETUP + OPEN + "while True: prepare.record(step=1)", (400.0, 8.0), JobEnd.TIMEOUT, "training", "no checkpoint"),
    ],
    ids=["slow_setup", "says_nothing", "slow_training", "late_hang", "endless_output", "endless_points"],
)
@pytest.mark.slow
def test_each_phase_has_its_own_limit_and_its_own_reason(
    tmp_path: Path, text: str, limits: tuple[float, float], end: JobEnd, reason: str, said: str
) -> None:
    job_spec = spec(tmp_path, text)
    chosen = rules(trial={"setup_seconds": limits[0], "train_seconds": limits[1]})
    outcome = Bench(clock=Skewed(speed=20)).run(job_spec, chosen)
    assert (outcome.end, outcome.reason) == (end, reason)
    assert said in outcome.detail
    assert (outcome.train_seconds is None) == (reason == "setup")
    assert survivors(job_spec.marker) == []


@pytest.mark.slow
def test_a_job_that_ignores_term_with_a_child_that_does_too_is_gone_soon_after_its_limit(tmp_path: Path) -> None:
    job_spec = spec(tmp_path, stub(MODE="stubborn"))
    began = time.monotonic()
    outcome = Bench().run(job_spec, rules(trial={"train_seconds": 0.5}))
    assert (outcome.end, outcome.reason) == (JobEnd.TIMEOUT, "training")
    assert time.monotonic() - began < 15
    assert survivors(job_spec.marker) == []


def test_the_wall_clock_ends_a_job_two_seconds_and_a_hundredth_past_its_amount(tmp_path: Path) -> None:
    clock, bench = Skewed(), Bench()
    bench.clock = clock
    text = SETUP + OPEN + "prepare.record(step=1)\ntime.sleep(0.4)\nprepare.record(step=2)\ntime.sleep(20)"
    steps = {1: 101.5, 2: 2.5}
    bench.on_point = lambda point: setattr(clock, "ahead", clock.ahead + steps[point["step"]])
    outcome = bench.run(spec(tmp_path, text), rules(trial={"clock": "wall", "amount": 100.0, "train_seconds": 400.0}))
    assert (outcome.end, outcome.reason) == (JobEnd.TIMEOUT, "training")
    assert len(bench.points) == 2
    assert outcome.train_seconds is not None
    assert outcome.train_seconds > 103


def test_the_cpu_clock_counts_the_cpu_seconds_of_the_whole_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "OVERRUN_SECONDS", 0.3)
    burn = "if os.fork() == 0:\n while True: pass\ntime.sleep(30)"
    outcome = Bench().run(spec(tmp_path, SETUP + OPEN + burn), rules(trial={"clock": "cpu", "amount": 0.2}))
    assert (outcome.end, outcome.reason) == (JobEnd.TIMEOUT, "training")
    assert "CPU seconds of 0.2" in outcome.detail
    assert outcome.cpu_seconds is not None
    assert 0.4 < outcome.cpu_seconds < 10


def test_with_the_tokens_clock_more_compute_than_the_baselines_is_not_free(tmp_path: Path) -> None:
    outcome = Bench().run(spec(tmp_path, SETUP + OPEN + "while True: pass", cpu_cap=0.6), rules())
    assert (outcome.end, outcome.reason) == (JobEnd.TIMEOUT, "compute_cap")
    assert "over 0.6 CPU seconds" in outcome.detail


def test_set_up_is_not_counted_against_the_compute_cap(tmp_path: Path) -> None:
    text = SETUP + "while time.process_time() < 0.6: pass\n" + OPEN + "time.sleep(0.6)\n" + SAVE
    outcome = Bench().run(spec(tmp_path, text, cpu_cap=0.3), rules())
    assert outcome.end is JobEnd.OK
    assert outcome.cpu_seconds is not None
    assert outcome.cpu_seconds < 0.3


def test_a_job_above_the_memory_limit_is_ended(tmp_path: Path) -> None:
    outcome = Bench().run(spec(tmp_path, SETUP + OPEN + "hold = b'x' * (150 << 20)\ntime.sleep(20)"), rules(trial={"memory_mb": 100.0}))
    assert (outcome.end, outcome.reason) == (JobEnd.OOM, "memory_limit")
    assert "100 allowed by [trial] memory_mb" in outcome.detail
    assert outcome.peak_memory_mb is not None
    assert outcome.peak_memory_mb > 100


def test_on_a_gpu_the_drivers_memory_counts(tmp_path: Path) -> None:
    gpu = Bench(name="cuda: Fake", held=[None, 900.0, 5000.0, 700.0])
    outcome = gpu.run(spec(tmp_path, SETUP + OPEN + "time.sleep(20)"), rules(trial={"memory_mb": 4000.0}))
    assert (outcome.end, outcome.reason, outcome.peak_memory_mb) == (JobEnd.OOM, "memory_limit", 5000.0)


def test_memory_that_the_driver_does_not_tell_is_unknown_and_neither_zero_nor_the_hosts(tmp_path: Path) -> None:
    outcome = Bench(name="cuda: Fake").run(spec(tmp_path, SETUP + OPEN + "time.sleep(0.5)\n" + SAVE), rules(trial={"memory_mb": 1.0}))
    assert (outcome.end, outcome.peak_memory_mb) == (JobEnd.OK, None)


@pytest.mark.parametrize("text", [SETUP + "time.sleep(20)", SETUP + OPEN + "time.sleep(20)"], ids=["set_up", "training"])
def test_an_interruption_ends_the_job_and_is_nobodys_fault(tmp_path: Path, text: str) -> None:
    began = time.monotonic()
    job_spec = spec(tmp_path, text)
    outcome = Bench(interrupted=lambda: "SIGINT" if time.monotonic() - began > 0.5 else "").run(job_spec, rules())
    assert (outcome.end, outcome.reason, outcome.detail) == (JobEnd.INTERRUPTED, "SIGINT", "")
    assert survivors(job_spec.marker) == []


def test_a_machine_that_slept_voids_the_job(tmp_path: Path) -> None:
    clock, bench = Skewed(), Bench()
    bench.clock = clock
    bench.on_point = lambda point: setattr(clock, "slept", 3600.0)
    outcome = bench.run(spec(tmp_path, SETUP + OPEN + "prepare.record(step=1)\ntime.sleep(20)"), rules())
    assert (outcome.end, outcome.reason) == (JobEnd.INTERRUPTED, "suspended")


def test_four_seconds_between_the_clocks_are_no_sleep(tmp_path: Path) -> None:
    clock, bench = Skewed(), Bench()
    bench.clock = clock
    bench.on_point = lambda point: setattr(clock, "slept", 4.0)
    assert bench.run(spec(tmp_path, SETUP + OPEN + "prepare.record(step=1)\ntime.sleep(0.3)\n" + SAVE), rules()).end is JobEnd.OK


def test_the_curve_is_capped_and_holds_finite_numbers_only(tmp_path: Path) -> None:
    bench, job_spec = Bench(), spec(tmp_path, SETUP + OPEN + (
        "prepare.record(step=1, loss=float('nan'), bad=10**400, big=2**70, text='x', flag=True, ok=0.5)\n"
        "prepare._line.send(point={'a b': 1, 'no-name': 2, 'x' * 500: 3, 'nested': [1]})\n"
        f"for k in range({job.MAX_POINTS + 500}): prepare.record(step=k)\n"
    ) + SAVE)  # fmt: skip
    assert bench.run(job_spec, rules()).end is JobEnd.OK
    lines = job_spec.folder.curve.read_text().splitlines()
    assert len(lines) == len(bench.points) == job.MAX_POINTS
    assert json.loads(lines[0]) == {"step": 1, "ok": 0.5}
    assert json.loads(lines[1]) == {"x" * 40: 3}


def test_a_point_of_the_curve_is_kept_whole() -> None:
    point = {"step": 3, "progress": 0.5, "loss": 4.25, "ema_loss": 4.5, "lr": 0.02, "grad_norm": 1.5, "tokens": 6144}
    point |= {"tokens_per_second": 11000.5, "peak_memory_mb": 735.5}
    assert claims.point(point) == point
    assert claims.point(point | {"loss": None, "grad_norm": float("inf")}).keys() == point.keys() - {"loss", "grad_norm"}


def test_what_a_job_says_of_itself_is_made_safe_to_store(tmp_path: Path) -> None:
    done = (
        'prepare._line.socket.sendall(b\'{"done": {"steps": 3, "tokens": 5, "loss": NaN, "huge": \' + b\'9\' * 400 + b\', '
        '"text": "\\\\ud800\\\\u0000" , "long": "\' + b"y" * 5000 + b\'", "list": [1, [2]], "none": null, "yes": true, "\\\\ud8001": 1}}\\n\')\n'
    )
    outcome = Bench().run(spec(tmp_path, SETUP + OPEN + done), rules())
    assert (outcome.end, outcome.steps, outcome.tokens) == (JobEnd.OK, 3, 5)
    assert outcome.claims["loss"] == "nan"
    assert outcome.claims["huge"] == "9" * 200
    assert outcome.claims["long"] == "y" * 200
    assert outcome.claims["list"] == "[1, [2]]"
    assert outcome.claims["none"] is None
    assert outcome.claims["yes"] == "True"
    assert JobOutcome.model_validate_json(outcome.model_dump_json()) == outcome


@pytest.mark.parametrize("steps", [0, -1, 1.5, "10", True, None, 2**63, 10**400])
def test_only_whole_steps_above_zero_are_steps(steps: object) -> None:
    assert not claims.positive(steps)


def test_steps_of_any_length_make_a_short_reason(tmp_path: Path) -> None:
    text = SETUP + OPEN + "prepare._line.send(done={'steps': 'x' * 30000, 'tokens': ['y'] * 5000})"
    outcome = Bench().run(spec(tmp_path, text), rules())
    assert (outcome.end, outcome.reason, outcome.steps) == (JobEnd.INVALID, "no_steps", None)
    assert len(outcome.detail) < 500


def test_a_printed_value_is_kept_as_a_claim_beside_the_outcome(tmp_path: Path) -> None:
    assert Bench().run(spec(tmp_path, stub(MODE="spoof")), rules()).printed_metric == 0.5


@pytest.mark.parametrize("mode", ["flood", "daemon", "close"])
def test_noisy_and_forking_jobs_end_like_any_other(tmp_path: Path, mode: str) -> None:
    text = SETUP + OPEN + "os.close(1); os.close(2)\n" + SAVE if mode == "close" else stub(MODE=mode)
    job_spec = spec(tmp_path, text)
    assert Bench().run(job_spec, rules(log={"train_log_kb": 16})).end is JobEnd.OK
    assert job_spec.folder.train_log.stat().st_size < 3 * 16 * 1024 + 65536
    assert survivors(job_spec.marker) == []


@pytest.mark.parametrize(
    "mess",
    [
        "os.mkdir('deep'); open('deep/file', 'w').close()",
        "os.mkdir('x'); os.chmod('x', 0); os.chmod('.', 0)",
        "os.rename('../work', '../w2'); os.symlink('/', '../work')",
    ],
)
def test_the_jobs_folder_is_gone_whatever_the_job_made_of_it(tmp_path: Path, mess: str) -> None:
    first = spec(tmp_path, SETUP + OPEN + SAVE + mess)
    assert Bench().run(first, rules()).end is JobEnd.OK
    assert not os.path.lexists(first.folder.work)


def test_a_folder_that_was_locked_is_removed_by_a_user_without_privileges() -> None:
    folder = Path(tempfile.mkdtemp())
    (folder / "work" / "inner").mkdir(parents=True)
    (folder / "work" / "inner" / "file").touch()
    (folder / "work" / "inner").chmod(0)
    (folder / "work").chmod(0)
    privileged = os.geteuid() == 0
    try:
        if privileged:
            for path in (folder, folder / "work", folder / "work" / "inner"):
                os.chown(path, 65534, 65534)
            os.seteuid(65534)
        trial_dir.remove(folder / "work")
        assert list(folder.iterdir()) == []
    finally:
        if privileged:
            os.seteuid(0)
        shutil.rmtree(folder, ignore_errors=True)


def test_what_one_job_leaves_the_next_cannot_find(tmp_path: Path) -> None:
    leave = (
        "\nfor place in ('.', os.environ['HOME'], os.environ['TMPDIR']): open(os.path.join(place, 'helper.py'), 'w').write('GIFT = 0.5')\n"
    )
    find = "\nassert not any(os.path.exists(os.path.join(p, 'helper.py')) for p in ('.', os.environ['HOME'], os.environ['TMPDIR']))\n"
    assert Bench().run(spec(tmp_path, SETUP + leave + OPEN + SAVE, number=1), rules()).end is JobEnd.OK
    assert Bench().run(spec(tmp_path, SETUP + find + OPEN + SAVE, number=2), rules()).end is JobEnd.OK
    assert not list(tmp_path.rglob("helper.py"))


def test_a_launcher_that_is_missing_is_the_machines_fault_and_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureFault, match="'no-such-launcher' is not found"):
        Bench().run(spec(tmp_path, ""), rules(run={"command": ["no-such-launcher", "train.py"]}))


def test_a_checkpoint_written_on_after_done_is_no_result_of_the_budget(tmp_path: Path) -> None:
    text = SETUP + OPEN + "spare = os.dup(prepare._checkpoint)\n" + SAVE + "time.sleep(0.3)\nos.write(spare, b' better')\n"
    outcome = Bench().run(spec(tmp_path, text), rules())
    assert (outcome.end, outcome.reason, outcome.checkpoint_sha256) == (JobEnd.INVALID, "checkpoint_changed", None)


# ------------------------------------------------------------------------------------------------- the checkpoint is ours
@pytest.mark.parametrize(("make", "said"), [
    (lambda path, other: path.symlink_to(other), "cannot be opened as a file"),
    (lambda path, other: path.hardlink_to(other), "no regular file with one name"),
    (lambda path, other: os.mkfifo(path), "no regular file with one name"),
    (lambda path, other: path.mkdir(), "no regular file with one name"),
    (lambda path, other: path.write_bytes(b"x" * 1025), "more than 1,024 bytes"),
])  # fmt: skip
def test_what_is_no_plain_file_is_no_checkpoint(tmp_path: Path, make: Callable[[Path, Path], None], said: str) -> None:
    other, path = tmp_path / "val.bin", tmp_path / "checkpoint.safetensors"
    other.write_bytes(b"secret")
    make(path, other)
    for act in (sealing.digest, sealing.seal):
        with pytest.raises(sealing.NotSealed, match=said):
            act(path, 1024)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.endswith(".copy")) == [], "nothing is left over"
    assert other.read_bytes() == b"secret"


def test_who_held_the_checkpoint_open_holds_another_file_once_it_is_sealed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(b"measured")
    with path.open("r+b") as held:
        found = sealing.seal(path, 1024)
        held.write(b"swapped!")
    assert path.read_bytes() == b"measured" and found == sealing.digest(path, 1024)


def test_a_job_that_leaves_a_pipe_for_a_checkpoint_is_invalid_and_holds_nobody(tmp_path: Path) -> None:
    path = spec(tmp_path, "").folder.checkpoint
    swap = f"\nimport os\np = {str(path)!r}\nos.unlink(p); os.mkfifo(p)\n"
    outcome = Bench().run(spec(tmp_path, SETUP + OPEN + SAVE + swap), rules())
    assert (outcome.end, outcome.reason) == (JobEnd.INVALID, "checkpoint")


def test_what_is_left_on_a_scorers_copy_of_the_checkpoint_is_not_on_the_next_ones(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(b"measured")
    before = path.stat()
    first = sealing.private(path, 1024)
    os.utime(first, ns=(7, 7))
    os.fchmod(first, 0o711)
    second = sealing.private(path, 1024)
    try:
        assert os.read(first, 99) == os.read(second, 99) == b"measured"
        assert os.fstat(second).st_mtime_ns != 7 and os.fstat(second).st_mode & 0o777 == 0o600
        assert (path.stat().st_mtime_ns, path.stat().st_mode) == (before.st_mtime_ns, before.st_mode)
        assert [one.name for one in tmp_path.iterdir()] == [path.name], "the copies have no name"
    finally:
        os.close(first)
        os.close(second)


def test_a_job_leaves_no_word_in_the_times_or_the_mode_of_its_training_file(tmp_path: Path) -> None:
    """Without a sandbox a job may write them by the file's name; as a plain user's it may by its descriptor, in any sandbox."""
    job = spec(tmp_path, "")
    before = job.train_data.stat()
    mark = f"\np = {str(job.train_data)!r}\nos.utime(p, ns=(12345, 67890)); os.chmod(p, 0o640)\n"
    assert Bench().run(spec(tmp_path, SETUP + OPEN + mark + SAVE), rules()).end is JobEnd.OK
    after = job.train_data.stat()
    assert after.st_mode == before.st_mode and after.st_mtime_ns not in (67890,) and after.st_atime_ns != 12345


def test_what_may_be_a_secret_where_the_launcher_belongs_is_not_repeated() -> None:
    for word in ("TOKEN=hf_s3cr3t", "https://me:s3cr3t@host/x", "https://host/s3cr3t"):
        with pytest.raises(InfrastructureFault, match="may be a secret") as told:
            resolve_command(rules(run={"command": [word, "train.py"]}))
        assert "s3cr3t" not in str(told.value)
