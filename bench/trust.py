"""What it costs to believe a number, and how often an honest model is doubted.

Bars `share_other` and `share_keep`: seconds of wall that the sandbox, the stored claims, the sealed checkpoint and (for a keep) the audit add to a trial of 300 s
over a plain evaluation outside any sandbox, as a share of the 300 s. A keep pays the audit of 1,024 positions nine times and of 4,096 once in ten. Both
sides take turns in one run, medians are compared; beside busy neighbours every figure grows. `share_rehearsal` is what trying new model code untrained adds; it has no limit.
Bar `false_alarms`: audits of honest models that found something (five kinds, ten audits each of one trained model).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from harness.artifacts.trial_dir import ReadingDir  # noqa: E402
from harness.audited import Audit  # noqa: E402
from harness.control.preconditions import describe, strongest_cage  # noqa: E402
from harness.evaluation import auditing  # noqa: E402
from harness.evaluation.evaluator import Evaluator  # noqa: E402
from harness.execution.clock import SystemClock  # noqa: E402
from harness.execution.device import Cpu  # noqa: E402
from harness.execution.job import Job  # noqa: E402
from harness.execution.process import adopt_orphans  # noqa: E402
from harness.execution.sandbox.box import OPEN, Sandbox  # noqa: E402
from harness.execution.workplace import JobSpec  # noqa: E402
from harness.facts import DataFacts  # noqa: E402
from harness.rules import Rules  # noqa: E402
from harness.trial import JobOutcome, Measurement, Reading  # noqa: E402

TRIAL_SECONDS, LIMIT = 300.0, 0.03
HONEST = ("attention", "windowed", "recurrent", "tied", "low_precision")
TOKENS, AUDITS = 40_960, 10


class Stand:
    """One prepared project, its cage, and jobs of one text after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number, self.clock = folder, 0, SystemClock()
        self.rules = Rules(trial={"amount": TOKENS}, stop={"trials": 1})  # type: ignore[arg-type]
        (folder / "prepare.py").write_text((ROOT / "prepare.py").read_text())
        self.data = describe(folder, self.rules)
        self.cage = strongest_cage(folder, self.rules, Cpu(), self.data).sandbox

    def spec(self, text: str) -> JobSpec:
        """A job of `text` in a folder of its own."""
        self.number += 1
        return JobSpec(
            files={"train.py": text}, prepare=self.folder / "prepare.py", train_data=Path(self.data.train),
            folder=ReadingDir(self.folder / f"trial{self.number}" / "r0"), seed=0, marker=secrets.token_hex(16),
        )  # fmt: skip

    def train(self, spec: JobSpec, sandbox: Sandbox) -> JobOutcome:
        """The job's outcome."""
        spec.folder.create()
        job = Job(spec, self.rules, Cpu(), self.clock, lambda point: None, str, sandbox)
        job.start()
        return job.watch()

    def evaluator(self, sandbox: Sandbox, audits: bool) -> Evaluator:
        """With a cage or without, with stored claims or without."""
        data = DataFacts(**{**self.data.model_dump(), "audit": audits})
        return Evaluator(data, Cpu(), self.clock, str, sandbox)


def seconds(act: Callable[[], Any]) -> tuple[float, Any]:
    """Wall seconds, and what came of it."""
    started = time.monotonic()
    result = act()
    return time.monotonic() - started, result


def cost(stand: Stand, rounds: int) -> dict[str, float]:
    """Medians of every part, taken in turns."""
    text, parts = (ROOT / "train.py").read_text(), dict[str, list[float]]()
    spec = stand.spec(text)
    outcome = stand.train(spec, stand.cage)
    assert outcome.checkpoint_sha256, f"the training ended as {outcome.end.value}: {outcome.detail}"
    short = replace(spec, rehearsal=True)
    for number in range(rounds):
        for name, sandbox, audits in (("plain", OPEN, False), ("caged", stand.cage, True)):
            took, measured = seconds(partial(stand.evaluator(sandbox, audits).measure, spec, outcome, stand.rules))
            assert isinstance(measured, Measurement), measured
            parts.setdefault(f"evaluation_{name}", []).append(took)
        for positions in (1024, 4096):
            took, found = seconds(partial(stand.evaluator(stand.cage, True).audit, spec, measured, stand.rules, positions, 0.5))
            assert isinstance(found, Audit) and not found.off, found
            parts.setdefault(f"audit_{positions}", []).append(took)
        for name, sandbox in (("plain", OPEN), ("caged", stand.cage)):
            job = replace(short, folder=ReadingDir(stand.folder / f"start-{name}-{number}" / "r0"))
            took, tried = seconds(partial(stand.train, job, sandbox))
            parts.setdefault(f"job_{name}", []).append(took)
        scorer = stand.evaluator(stand.cage, True)
        took, _ = seconds(partial(scorer.rehearse, job, tried, stand.rules, auditing.REHEARSED_POSITIONS))
        parts.setdefault("rehearsal_scorer", []).append(took)
        print(f"round {number + 1}: " + ", ".join(f"{name} {found[-1]:.2f}" for name, found in parts.items()), file=sys.stderr, flush=True)
    return {name: statistics.median(found) for name, found in parts.items()}


def alarms(stand: Stand, audits: int) -> dict[str, list[float]]:
    """For each kind of honest model the largest difference of each audit, in nats; a rejected one counts as infinite."""
    worst: dict[str, list[float]] = {}
    evaluator = stand.evaluator(stand.cage, True)
    tolerance = auditing.LEAST_TOLERANCE
    for kind in HONEST:
        text = importlib.import_module(f"tests.honest.{kind}").honest((ROOT / "train.py").read_text())
        spec = stand.spec(text)
        outcome = stand.train(spec, stand.cage)
        measured = evaluator.measure(spec, outcome, stand.rules)
        assert isinstance(measured, Measurement), f"{kind}: {outcome.detail} {measured}"
        for _ in range(audits):
            found = evaluator.audit(spec, measured, stand.rules, 1024, tolerance)
            assert isinstance(found, Audit), found
            reading = Reading(trial=1, replicate=0, seed=0, outcome=outcome, measurement=measured, audit=found)
            doubted = auditing.objection(stand.rules, reading, None)
            worst.setdefault(kind, []).append(float("inf") if doubted else found.worst)
        print(f"{kind}: val_bpb {measured.value:.4f}, largest difference {max(worst[kind]):.2g} nats", file=sys.stderr, flush=True)
    return worst


def main() -> int:
    """Measure the bars and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5, help="how often each part is timed")
    parser.add_argument("--audits", type=int, default=AUDITS, help="audits of each honest model; 0: only the cost")
    options = parser.parse_args()
    subprocess.run([sys.executable, str(ROOT / "prepare.py")], check=True, stdout=subprocess.DEVNULL)
    os.environ["PYTHONPATH"] = str(ROOT)
    adopt_orphans()
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(Path(folder))
        parts = cost(stand, options.rounds)
        worst = alarms(stand, options.audits) if options.audits else {}
    other = parts["evaluation_caged"] - parts["evaluation_plain"] + parts["job_caged"] - parts["job_plain"]
    audit = 0.9 * parts["audit_1024"] + 0.1 * parts["audit_4096"]
    false = sum(value == float("inf") for found in worst.values() for value in found)
    bars = [
        {"name": name, "value": round(value / TRIAL_SECONDS, 4), "limit": limit, "ok": limit is None or value / TRIAL_SECONDS <= limit}
        for name, value, limit in (
            ("share_other", other, LIMIT), ("share_keep", other + audit, LIMIT), ("share_rehearsal", parts["job_caged"] + parts["rehearsal_scorer"], None),
        )
    ]  # fmt: skip
    if worst:
        bars.append({"name": "false_alarms", "value": false, "limit": 0, "ok": false == 0})
    if options.json:
        print(json.dumps({"level": stand.cage.level, "seconds": parts, "bars": bars}))
    else:
        print(f"sandbox {stand.cage.level}; " + ", ".join(f"{name} {value:.2f} s" for name, value in parts.items()))
        for bar in bars:
            limit = "reported only" if bar["limit"] is None else f"limit {bar['limit']}   {'ok' if bar['ok'] else 'MISSED'}"
            print(f"{bar['name']:16} {bar['value']:7.4f}   {limit}")
        if worst:
            print(f"honest models: {sum(map(len, worst.values())) - false} of {sum(map(len, worst.values()))} audits passed")
    return 0 if all(bar["ok"] for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
