"""The tables of the rules block, one class each, with their defaults and bounds. What contradicts what is said in `rules.py`."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST = 1_000_000_000_000  # of any amount: a typing error, and no number that arithmetic cannot hold
HEADROOM = 1.1  # CPU seconds of the same program vary by some per cent where the machine is not idle, by a tenth over some ten seconds
Kind = Literal["search", "command", "anthropic"]
Bounded = Annotated[float, Field(ge=-MOST, le=MOST)]
PositiveSeconds = Annotated[float, Field(gt=0, le=7 * 86400)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]  # a name; an address or a key written in its place is refused


class Section(BaseModel):
    """One table of the rules block."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class Scope(Section):
    """What a proposal may change. A path that is not editable is protected, named or not."""

    editable: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] = ("train.py",)
    protected: Annotated[tuple[str, ...], Field(strict=False)] = ("prepare.py", "program.md", "harness/", "results.tsv", "runs/")
    max_file_kb: Annotated[int, Field(ge=1, le=1024)] = 100
    max_literal_bytes: Annotated[int, Field(ge=64, le=MOST)] = 2048


class Metric(Section):
    """What is measured, which way is better, and the open interval outside which a value is not believed."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")] = "val_bpb"
    direction: Literal["lower", "higher"] = "lower"
    plausible: Annotated[tuple[Bounded, Bounded], Field(strict=False)] = (0.3, 20.0)


class Trial(Section):
    """The budget of one trial: a clock and an amount (`tokens`, or seconds of `wall` or `cpu`), and a limit for each phase in seconds."""

    profile: str = "cpu"
    clock: Literal["wall", "cpu", "tokens"] = "tokens"
    amount: Annotated[float, Field(gt=0, le=MOST)] = 675_840
    compute_cap: Annotated[float, Field(ge=1.0, le=MOST)] = 1.25
    setup_seconds: PositiveSeconds = 120.0
    train_seconds: PositiveSeconds = 900.0
    evaluate_seconds: PositiveSeconds = 300.0
    memory_mb: Annotated[float, Field(gt=0, le=MOST)] | None = None

    @property
    def headroom(self) -> float:
        """How many times the CPU seconds of a kept program must fit under the cap; where the cap is near, half of its margin."""
        return min(HEADROOM, math.sqrt(self.compute_cap))


class Run(Section):
    """How a candidate is started. `{python}` is the interpreter that runs the harness. No shell."""

    command: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] = ("{python}", "train.py")
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    device: Literal["auto", "cpu", "cuda"] = "auto"


class SandboxRules(Section):
    """How candidate code is caged: the lowest level accepted (`auto`: the best there is, `none`: no cage at all), and what one job may take."""

    level: Literal["auto", "full", "container", "none"] = "auto"
    scratch_mb: Annotated[int, Field(ge=16, le=MOST)] = 2048
    pids: Annotated[int, Field(ge=16, le=MOST)] = 1024


class AuditRules(Section):
    """How a claim is checked before it is kept: positions that are compared (0: none), what a scorer may use as a multiple of the baseline's,
    from how many seconds of training on new model code is tried untrained first, and the share of the bar above which a gain is measured again.
    """

    positions: Annotated[int, Field(ge=0, le=65_536)] = 1024
    scorer_factor: Annotated[float, Field(ge=1, le=MOST)] = 2.0
    rehearse_from_seconds: Annotated[float, Field(ge=0, le=MOST)] = 60.0
    implausible_gain: Annotated[float, Field(gt=0, le=MOST)] = 0.1


class Result(Section):
    """How the result is read: only the harness-owned evaluator's record is a measurement; what a script prints is compared and flagged."""

    source: Literal["evaluator"] = "evaluator"
    printed_tolerance: Annotated[float, Field(ge=0, le=MOST)] = 0.005


class Crash(Section):
    """Crash policy: back to the incumbent; interrupted trials run again; how often the machine may fail before the study pauses."""

    action: Literal["revert"] = "revert"
    reruns_after_interruption: Annotated[int, Field(ge=0, le=5)] = 1
    infrastructure_failures: Annotated[int, Field(ge=1, le=MOST)] = 3


class Keep(Section):
    """What counts as better: `debiased` (default) or `strict` (lower reading wins). `prior_sigma` is the noise of one reading, if known."""

    rule: Literal["debiased", "strict"] = "debiased"
    baseline_readings: Annotated[int, Field(ge=1, le=10)] | None = None
    prior_sigma: Annotated[float, Field(gt=0, le=MOST)] | None = None
    complexity_per_line: Annotated[float, Field(ge=0, le=MOST)] = 5e-5
    remeasure_incumbent_after: Annotated[int, Field(ge=1, le=MOST)] | None = 20


class Log(Section):
    """What is kept of each trial beside its row and its journal events: models of kept trials or of all; logs are capped, the newest bytes win."""

    checkpoints: Literal["kept", "all"] = "kept"
    train_log_kb: Annotated[int, Field(ge=16, le=MOST)] = 1024


class Proposer(Section):
    """Where changes come from: one `kind`, or a `mix` of kinds by share; `--proposer` names another one. `meanwhile` is what the device does while the
    model is away.

    The rest is for `command`, which runs an agent: a known one by `adapter`, or any by `command`, a list of words without a shell. `keys` names the environment
    variables it may see; nothing else of the environment that looks like a secret reaches it. `call_dollars` is the most that one call may cost.
    """

    kind: Kind = "search"
    mix: Annotated[dict[Kind, Annotated[float, Field(gt=0, le=MOST)]], Field(min_length=1)] | None = None
    meanwhile: Literal["search", "replicate", "wait", "stop"] = "search"
    failed_calls: Annotated[int, Field(ge=1, le=MOST)] = 5
    adapter: Literal["plain", "claude", "codex", "gemini", "opencode", "aider"] = "plain"
    command: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] | None = None
    keys: Annotated[tuple[Variable, ...], Field(strict=False)] = ()
    wall_seconds: PositiveSeconds = 900.0
    silence_seconds: PositiveSeconds = 300.0
    output_kb: Annotated[int, Field(ge=16, le=MOST)] = 1024
    call_dollars: Annotated[float, Field(gt=0, le=MOST)] | None = None


class Price(Section):
    """USD per million tokens."""

    input: Annotated[float, Field(ge=0, le=MOST)]
    output: Annotated[float, Field(ge=0, le=MOST)]


class Model(Section):
    """What `anthropic` asks over the Messages API: the first of `names`; the others when it refuses, is overloaded or unknown to the server.

    `max_tokens` caps one answer, `turns` the answers of one proposal, `retries` the extra tries of one answer. `base_url` names another server; a key goes there
    only if `key` names its environment variable. `prices` is for models that the dated price file does not have.
    """

    names: Annotated[tuple[str, ...], Field(min_length=1, strict=False)] = ("claude-opus-5-5", "claude-sonnet-5")
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    max_tokens: Annotated[int, Field(ge=1024, le=128_000)] = 16_000
    turns: Annotated[int, Field(ge=2, le=100)] = 12
    retries: Annotated[int, Field(ge=0, le=20)] = 3
    base_url: Annotated[str, Field(pattern=r"^https?://")] | None = None
    key: Variable | None = None
    stream: bool = True
    wall_seconds: PositiveSeconds = 600.0
    silence_seconds: PositiveSeconds = 120.0
    patience_seconds: Annotated[float, Field(ge=0, le=MOST)] = 20.0
    prices: dict[str, Price] = Field(default_factory=dict)


class StopAt(Section):
    """Stop conditions: trials after the baseline, hours, local time of day `HH:MM`, a metric value that is good enough, trials in a row without a keep.

    What models may use in all: calls, tokens (of input and output), dollars, retries. When one of these is used up the model is away, and `[proposer] meanwhile`
    says what follows.
    """

    trials: Annotated[int, Field(ge=1, le=MOST)] | None = None
    hours: Annotated[float, Field(gt=0, le=100_000)] | None = None
    deadline: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] | None = None
    target: Bounded | None = None
    plateau: Annotated[int, Field(ge=1, le=MOST)] | None = None
    calls: Annotated[int, Field(ge=1, le=MOST)] | None = None
    tokens: Annotated[int, Field(ge=1, le=MOST)] | None = None
    dollars: Annotated[float, Field(gt=0, le=MOST)] | None = None
    retries: Annotated[int, Field(ge=0, le=MOST)] | None = None
