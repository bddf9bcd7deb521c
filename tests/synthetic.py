"""A synthetic night, step by step: the events that a harness would write, realistic in shape and deterministic by the seed.

It trains nothing and judges by a small copy of the de-biased rule, so it does not depend on the judge. `study_factory.py` makes whole studies of it.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from harness.artifacts import events as ev
from harness.artifacts.trial_dir import slug
from harness.facts import DataFacts, Environment
from harness.trial import Bar, BudgetLeft, Change, JobEnd, JobOutcome, Measurement, Noise, Status, Verdict

SIGMA = 0.0027
KNOBS = ("MATRIX_LR", "EMBEDDING_LR", "WEIGHT_DECAY", "WARMDOWN_RATIO", "DEPTH", "ADAM_BETA1", "SOFTCAP", "ROPE_BASE", "BATCH_TOKENS")
FAILURES = ((JobEnd.CRASH, Status.CRASH, "exit_code", "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
            (JobEnd.TIMEOUT, Status.TIMEOUT, "compute_cap", "stopped at 1.25 times the slowest baseline"),
            (JobEnd.OOM, Status.OOM, "memory_limit", "killed at 4096 MiB"))  # fmt: skip
START = datetime(2026, 3, 8, 21, 30)
DIGEST = hashlib.sha256(b"program.md").hexdigest()


def sha(text: str, length: int = 64) -> str:
    """A digest as wide as a commit or a file hash."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@dataclass
class Night:
    """One synthetic night; its methods yield the events of one step each. `value` is the truth of the incumbent."""

    seed: int = 1
    metric: str = "val_bpb"
    direction: str = "lower"
    sigma: float = SIGMA
    limits: dict[str, str | int | float | None] = field(default_factory=lambda: {"trials": 100, "hours": 8.0, "deadline": None})
    proposer: str = "search"
    job_seconds: float = 41.0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.truth = 1.5401
        self.bar = Bar(ref=self.truth)
        self.tip = sha("head", 40)
        self.trial = -1
        self.proposal = 0

    @property
    def sign(self) -> float:
        return 1.0 if self.direction == "lower" else -1.0

    def start(self) -> ev.StudyStarted:
        """The study's fixed facts."""
        return ev.StudyStarted(
            tag="mar8", program="# program\n", rules_digest=DIGEST, metric=self.metric, direction=self.direction,
            baseline_commit=self.tip, branch="autoresearch/mar8", prepare_sha256=sha("prepare"), proposer=self.proposer,
            proposer_options={"seed": "1"}, limits=self.limits,
            environment=Environment(python="3.11.7", platform="Linux-6.1-x86_64", device="cpu (2 cores, 1 thread)",
                                    packages={"torch": "2.13.0", "numpy": "2.1.0"}, cpu_count=2, git="2.39.5", harness_sha256=sha("harness")),
            data=DataFacts(profile="cpu", metric=self.metric, vocab_size=2048, context=256, data_sha256=sha("data"), train="/data/train.u16"),
        )  # fmt: skip

    def baseline(self, readings: int = 3, fails: bool = False) -> Iterator[ev.Event]:
        """Trial 0."""
        yield self.begin("baseline", "", "", None)
        values = []
        for replicate in range(readings):
            value = None if fails else self.reading(self.truth)
            yield from self.job(replicate, value)
            if value is not None:
                values.append(value)
        mean = sum(values) / len(values) if values else None
        self.bar = Bar(ref=mean, readings=len(values)) if mean is not None else self.bar
        status, reason = (Status.CRASH, "exit_code") if fails else (Status.KEEP, "baseline")
        yield from self.decide(Verdict(status=status, reason=reason, rule="debiased", value=mean, sigma=self.sigma,
                                       next_bar=None if fails else self.bar))  # fmt: skip

    def refuse(self, reason: str = "duplicate", earlier: int | None = 1) -> Iterator[ev.Event]:
        """A proposal that the guard does not admit."""
        yield self.propose("MATRIX_LR 0.04 → 0.04", "MATRIX_LR", "MATRIX_LR 0.04 → 0.04")
        yield ev.Refused(proposal=self.proposal, reason=reason, detail="the same program was already measured", earlier=earlier)

    def candidate(self, effect: float | None = None, title: str = "", failure: int | None = None) -> Iterator[ev.Event]:
        """One whole trial; `effect` is its true change (positive is better), `failure` an index of `FAILURES`."""
        knob = KNOBS[self.random.randrange(len(KNOBS))]
        edit = f"{knob} {self.random.uniform(0.01, 1):.3g} → {self.random.uniform(0.01, 1):.3g}"
        yield self.propose(title or edit, knob, edit)
        yield self.begin(title or edit, knob, edit, self.proposal)
        if failure is not None:
            yield from self.failed(failure)
            return
        truth = self.truth - self.sign * (self.draw_effect() if effect is None else effect)
        value = self.reading(truth)
        yield from self.job(0, value)
        yield from self.judged(value, truth)

    def judged(self, value: float, truth: float) -> Iterator[ev.Event]:
        """Keep or discard by the de-biased rule."""
        bar = self.bar.ref + self.sign * min(0.05 * self.bar.since, 1.0) * self.sigma
        gain = self.sign * (bar - value)
        p_better = min(0.99, max(0.01, 0.5 + gain / self.sigma / 3))
        keep = gain > 0
        if keep:
            self.truth = truth
            self.bar = Bar(ref=value + self.sign * min(self.sigma, 0.5 * gain))
        else:
            self.bar = Bar(ref=self.bar.ref, since=self.bar.since + 1)
        yield from self.decide(Verdict(
            status=Status.KEEP if keep else Status.DISCARD, reason="better" if keep else "not_better", rule="debiased", value=value, bar=bar,
            gain=gain, standard_error=self.sigma * 1.4, p_better=p_better, sigma=self.sigma, next_bar=self.bar,
        ), keep)  # fmt: skip

    def failed(self, which: int) -> Iterator[ev.Event]:
        """A job without a measurement."""
        end, status, reason, detail = FAILURES[which]
        yield self.committed()
        yield self.launch(0)
        yield ev.Trained(trial=self.trial, replicate=0, outcome=JobOutcome(end=end, reason=reason, detail=detail, train_seconds=9.5))
        yield ev.Scored(trial=self.trial, replicate=0)
        yield from self.decide(Verdict(status=status, reason=reason, detail=detail, rule="debiased"))

    def propose(self, title: str, axis: str, edit: str) -> ev.Proposed:
        """A proposal arrives."""
        self.proposal += 1
        return ev.Proposed(proposal=self.proposal, stored_sha256=sha(f"p{self.proposal}"), title=title, axis=axis, edit=edit,
                           proposer=self.proposer)  # fmt: skip

    def begin(self, title: str, axis: str, edit: str, proposal: int | None) -> ev.Begun:
        """A trial begins."""
        self.trial += 1
        lines = self.random.randrange(1, 4) if proposal else 0
        change = Change(added_lines=lines, removed_lines=min(lines, 1), file_sha256=sha(f"f{self.trial}"), ast_sha256=sha(f"a{self.trial}"))
        return ev.Begun(trial=self.trial, proposal=proposal, parent=self.tip, change=change, title=title, axis=axis, edit=edit,
                        proposer=self.proposer if proposal else "baseline", folder=f"{self.trial:04d}-{slug(title)}")  # fmt: skip

    def launch(self, replicate: int) -> ev.Launched:
        """A job starts."""
        return ev.Launched(trial=self.trial, replicate=replicate, seed=replicate, marker=sha(f"t{self.trial}", 32), pid=4000 + self.trial,
                           process_started=1.0, boot_id="boot")  # fmt: skip

    def committed(self) -> ev.Committed:
        """The candidate is a commit."""
        return ev.Committed(trial=self.trial, commit=self.commit, tree=sha(f"tree{self.trial}", 40),
                            ref=f"refs/autoresearch/mar8/trials/{self.trial:06d}")  # fmt: skip

    def job(self, replicate: int, value: float | None) -> Iterator[ev.Event]:
        """Launched, trained, scored; committed first when it is the trial's first job."""
        if replicate == 0:
            yield self.committed()
        yield self.launch(replicate)
        seconds = round(self.job_seconds * self.random.uniform(0.95, 1.05), 2)
        end = JobEnd.OK if value is not None else JobEnd.CRASH
        yield ev.Trained(trial=self.trial, replicate=replicate, outcome=JobOutcome(
            end=end, exit_code=int(value is None), setup_seconds=2.5, train_seconds=seconds, cpu_seconds=seconds, peak_memory_mb=973.0,
            steps=165, tokens=675_840, reason="" if value is not None else "exit_code", detail="" if value is not None else "ValueError: bad"))  # fmt: skip
        yield ev.Scored(trial=self.trial, replicate=replicate, measurement=self.measure(value))

    def measure(self, value: float | None) -> Measurement | None:
        """The evaluator's record."""
        if value is None:
            return None
        return Measurement(token=sha(f"t{self.trial}", 32), value=value, nats=value * 490_293 * 0.6931, bytes=490_293, tokens=130_000,
                           windows=500, data_sha256=sha("data"), checkpoint_sha256=sha(f"c{self.trial}"), seconds=3.4)  # fmt: skip

    def decide(self, verdict: Verdict, moved: bool = False) -> Iterator[ev.Event]:
        """Verdict and settlement; the tip moves on a keep."""
        limit = self.limits.get("trials")
        left = BudgetLeft(trials=int(limit) - self.trial if limit else None, seconds=max(0.0, 28_800 - self.trial * 50.0), crashes=5)
        noise = Noise(sigma=self.sigma, prior_sigma=self.sigma, prior_weight=1.0, degrees=2)
        yield ev.Decided(trial=self.trial, verdict=verdict, previous=self.tip, noise=noise, budget_left=left, rules_digest=DIGEST)
        self.tip = self.commit if moved else self.tip
        yield ev.Settled(trial=self.trial)

    def slow(self, effect: float) -> Iterator[ev.Event]:
        """A candidate that gains `effect` and is measured, but not kept, because its CPU seconds leave no room below the cap."""
        for event in self.candidate(effect, title="twice as wide"):
            if isinstance(event, ev.Decided):
                lost = {
                    "status": Status.DISCARD,
                    "reason": "no_headroom",
                    "detail": "it took 48.0 CPU seconds; to be kept it may take 45.5",
                }
                event = event.model_copy(update={"verdict": event.verdict.model_copy(update=lost)})
            yield event

    @property
    def commit(self) -> str:
        """The commit of the current trial; the baseline's is HEAD."""
        return self.tip if self.trial == 0 else sha(f"commit{self.seed}-{self.trial}", 40)

    def reading(self, truth: float) -> float:
        """One noisy reading."""
        return round(truth + self.random.gauss(0.0, self.sigma), 6)

    def draw_effect(self) -> float:
        """Most ideas harm, some are neutral, few help, and helpful ones run out."""
        kind = self.random.random()
        if kind < 0.4 / (1 + self.trial / 10):
            return self.random.expovariate(1 / 0.005)
        return -self.random.expovariate(1 / 0.012) if kind > 0.55 else self.random.gauss(0.0, 0.001)

    def trials(self) -> Iterator[ev.Event]:
        """An endless mix of candidates, failures and refusals."""
        while True:
            kind = self.random.random()
            if kind < 0.05:
                yield from self.refuse()
            yield from self.candidate(failure=self.random.randrange(len(FAILURES)) if kind > 0.92 else None)
