"""What the harness costs beside the trainer: CPU time and memory of the loop and its git, over 50 trials of a stub trainer.

Bar `cpu_ms_per_trial`: harness and git, without launcher, trainer, evaluator and scorer, which are reported apart. Bar `memory_mb`: peak resident
memory of the harness process plus that of its largest git. The trainer is the stub of the tests: it speaks the whole protocol and trains nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

TRIALS = 50
TRAINER = """import prepare
VALUE = 1.2
def load_model(state, device): return state["value"]
if __name__ == "__main__":
    prepare.setup(), prepare.open_training(), prepare.save_checkpoint(VALUE)
"""
CPU_MS, MEMORY_MB = 30.0, 60.0


def cpu(who: int) -> float:
    """User and system seconds so far."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def study(folder: Path, trials: int) -> None:
    """Run in this very process, so that it can be measured; the first line of output is read by the parent."""
    from harness.artifacts.trial_dir import StudyDir
    from harness.control.opening import Company, Wishes, start
    from harness.execution import process
    from harness.views.watch import Watch

    git_seconds, job_seconds = measured_children(process)
    os.environ["RATCHET_LOCKS"] = str(folder / "locks")
    watch = Watch(StudyDir(folder, "bench"), io.StringIO(), live=False)
    marks: list[tuple[float, float, float, float]] = []

    def observe(entry: object, folded: object) -> None:
        watch.observe(entry, folded)  # type: ignore[arg-type]
        if getattr(getattr(entry, "event", None), "kind", "") == "settled":
            marks.append((cpu(resource.RUSAGE_SELF), git_seconds[0], job_seconds[0], time.monotonic()))

    options = {"edits": str(folder / "edits.toml")}
    wishes = Wishes(project=folder, tag="bench", program=folder / "program.md", proposer="scripted", options=options, trials=trials)
    with contextlib.redirect_stdout(io.StringIO()):
        start(wishes, Company(observe=observe, on_point=watch.point))
    first, last, count = marks[0], marks[-1], len(marks) - 1
    print(json.dumps({
        "trials": count,
        "harness_cpu_ms": 1e3 * (last[0] - first[0]) / count,
        "git_cpu_ms": 1e3 * (last[1] - first[1]) / count,
        "launcher_trainer_evaluator_scorer_cpu_ms": 1e3 * (last[2] - first[2]) / count,
        "wall_ms": 1e3 * (last[3] - first[3]) / count,
        "harness_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "git_peak_mb": git_peak_mb(folder),
    }))  # fmt: skip


def measured_children(process: object) -> tuple[list[float], list[float]]:
    """Two running sums of children's CPU seconds: git, told apart by its command, and everything else."""
    git_seconds, job_seconds = [0.0], [0.0]
    original = subprocess.run

    def run(command: list[str], *args: object, **options: object) -> subprocess.CompletedProcess[bytes]:
        before = cpu(resource.RUSAGE_CHILDREN)
        done = original(command, *args, **options)  # type: ignore[call-overload]
        git_seconds[0] += cpu(resource.RUSAGE_CHILDREN) - before
        return done  # type: ignore[no-any-return]

    end = process.ProcessTree.end  # type: ignore[attr-defined]

    def ended(tree: object, *args: object, **options: object) -> int:
        before = cpu(resource.RUSAGE_CHILDREN)
        code = end(tree, *args, **options)
        job_seconds[0] += cpu(resource.RUSAGE_CHILDREN) - before
        return int(code)

    subprocess.run = run  # type: ignore[assignment]
    process.ProcessTree.end = ended  # type: ignore[attr-defined]
    return git_seconds, job_seconds


def git_peak_mb(folder: Path) -> float:
    """Peak memory of one git command. A shell starts it and is gone: a process begins with the peak of who started it, and this one is larger than git."""
    from harness.execution.process import adopt_orphans

    adopt_orphans()
    code = "(sleep 0.1; exec git log -1 >/dev/null) & exec echo $!"
    pid = subprocess.run(["sh", "-c", code], cwd=folder, capture_output=True, text=True, check=True).stdout
    _, status, used = os.wait4(int(pid), 0)
    if status != 0:
        raise SystemExit(f"git log failed in {folder} (status {status}); is git there?")
    return used.ru_maxrss / 1024


def bare_trainer_ms(folder: Path, runs: int) -> float:
    """CPU milliseconds of an interpreter that imports the same trainer, without any harness."""
    code = "import prepare, train"
    before = cpu(resource.RUSAGE_CHILDREN)
    for _ in range(runs):
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    return 1e3 * (cpu(resource.RUSAGE_CHILDREN) - before) / runs


def main() -> int:
    """Make a project, measure a study of it in a fresh process, print, and say whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--study", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.study:
        study(options.study, options.trials)
        return 0
    from tests.projects import edits_file, git, make_project

    with tempfile.TemporaryDirectory() as name:
        folder = make_project(Path(name) / "project", rules=f"[stop]\ntrials = {options.trials}\n[keep]\nremeasure_incumbent_after = 1000")
        (folder / "train.py").write_text(TRAINER)
        git(folder, "commit", "-qam", "five lines")
        edits_file(folder, [{"VALUE": 1.3 + 0.001 * n} for n in range(options.trials)])
        command = [sys.executable, __file__, "--study", str(folder), "--trials", str(options.trials)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        found["bare_trainer_cpu_ms"] = bare_trainer_ms(folder, 10)
    own = found["harness_cpu_ms"] + found["git_cpu_ms"]
    memory = found["harness_peak_mb"] + found["git_peak_mb"]
    found["bars"] = [
        {"name": "cpu_ms_per_trial", "value": round(own, 2), "limit": CPU_MS, "ok": own <= CPU_MS},
        {"name": "memory_mb", "value": round(memory, 1), "limit": MEMORY_MB, "ok": memory <= MEMORY_MB},
    ]
    report(found, options.json)
    return 0 if all(bar["ok"] for bar in found["bars"]) else 1


def report(found: dict[str, object], as_json: bool) -> None:
    """One JSON object, or a line a figure."""
    if as_json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:45} {value:.2f}" if isinstance(value, float) else f"{name:45} {value}")


if __name__ == "__main__":
    sys.exit(main())
