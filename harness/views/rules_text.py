"""The rules of a night in the words of a person: a sentence or two for each table of program.md."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from harness.control.limits import Limits
from harness.facts import DataFacts
from harness.rules import Rules
from harness.trial import OFFLINE
from harness.views import oversight_text
from harness.views.text import duration, flatten, plural

CLOCKS = {"tokens": "training tokens", "wall": "seconds of training", "cpu": "CPU seconds of training"}
MEANWHILE = {
    "search": "search goes on", "replicate": "the incumbent is measured again, then search goes on", "wait": "the device waits", "stop": "the night ends",
}  # fmt: skip
DEVICES = {"auto": "the GPU if there is one, else the CPU", "cpu": "the CPU", "cuda": "the GPU"}


def sentences(rules: Rules, allowed: Limits, asked: Collection[str], data: DataFacts | None = None) -> dict[str, str]:
    """Table by table; `asked` are the proposers of the night, `data` what prepare.py says of itself."""
    said = {
        "scope": _scope(rules), "metric": _metric(rules), "trial": _trial(rules, data), "run": _run(rules), "sandbox": _sandbox(rules), "audit": _audit(rules, data), "result": _result(rules), "crash": _crash(rules),
        "keep": _keep(rules), "log": _log(rules), **oversight_text.sentences(rules), "stop": stop(rules, allowed), "proposer": _proposer(rules, asked),
    }  # fmt: skip
    return {**said, "model": _model(rules)} if "anthropic" in asked else said


def _scope(rules: Rules) -> str:
    scope = rules.scope
    most = f"at most {scope.max_file_kb:,} KiB a file, {scope.max_literal_bytes:,} bytes of literals in one expression"
    return f"only {_names(scope.editable)} may change, everything else is protected; {most}"


def _metric(rules: Rules) -> str:
    low, high = rules.metric.plausible
    return f"{rules.metric.name}, {rules.metric.direction} is better; a value outside {low:g} to {high:g} is not believed"


def _trial(rules: Rules, data: DataFacts | None) -> str:
    trial = rules.trial
    unit = flatten(data.unit, 40) if data and data.unit and trial.clock == "tokens" else CLOCKS[trial.clock]
    times = f"{trial.compute_cap:g} times the slowest baseline's CPU time ({trial.compute_cap / trial.headroom:.3g} to be kept)"
    cap = f", in at most {times}" if trial.clock == "tokens" else ""
    memory = f", {trial.memory_mb:,.0f} MiB" if trial.memory_mb else ""
    phases = (("set-up", trial.setup_seconds), ("training", trial.train_seconds), ("evaluation", trial.evaluate_seconds))
    limits = ", ".join(f"{duration(seconds)} of {name}" for name, seconds in phases)
    return f"{trial.amount:,.0f} {unit} of the profile {flatten(trial.profile, 40)}{cap}; limits: {limits}{memory}"


def _run(rules: Rules) -> str:
    command = flatten(" ".join(rules.run.command).replace("{python}", "python"), 120)
    return f"`{command}` with {plural(rules.run.threads, 'thread')} on {DEVICES[rules.run.device]}"


def _sandbox(rules: Rules) -> str:
    words = {"auto": "the strongest sandbox that this machine holds", "none": "no sandbox at all: candidate code can do what you can"}
    level = words.get(rules.sandbox.level, f"at least the sandbox level {rules.sandbox.level!r}, or no study")
    return f"{level}; {rules.sandbox.scratch_mb:,} MiB to write, {rules.sandbox.pids:,} processes"


def _audit(rules: Rules, data: DataFacts | None) -> str:
    law = rules.audit
    if data is not None and not data.audit:
        return f"this prepare.py offers no check of claims; gains above {law.implausible_gain:.0%} are measured twice"
    held = (
        f"would-be keeps are checked by a second scorer at {law.positions:,} secret positions" if law.positions else "no claim is checked"
    )
    tried = f"new model code is tried untrained from {duration(law.rehearse_from_seconds)} of training on"
    return f"{held}, in {law.scorer_factor:g} times the baseline's time; {tried}; gains above {law.implausible_gain:.0%} are measured twice"


def _result(rules: Rules) -> str:
    return f"the harness's own evaluator measures; a printed value that differs by more than {rules.result.printed_tolerance:g} is flagged"


def _crash(rules: Rules) -> str:
    crash = rules.crash
    again = {0: "is not run again", 1: "runs again once"}.get(
        crash.reruns_after_interruption, f"runs again up to {crash.reruns_after_interruption} times"
    )
    most = (
        "1 such failure pauses" if crash.infrastructure_failures == 1 else f"{crash.infrastructure_failures:,} such failures in a row pause"
    )
    return f"back to the incumbent; a trial that the machine cut off {again}, {most} the study"


def _keep(rules: Rules) -> str:
    keep = rules.keep
    readings = (
        f"the baseline is read {plural(keep.baseline_readings, 'time')}"
        if keep.baseline_readings
        else "the baseline is read as often as the device needs"
    )
    if keep.prior_sigma is not None:
        readings += f", and one reading is taken to vary by {keep.prior_sigma:g}"
    if keep.rule == "strict":
        return f"the better reading wins; {readings}"
    lines = f"each net line must earn {keep.complexity_per_line:g}" if keep.complexity_per_line else "lines cost nothing"
    again = (
        f"; the incumbent is read again after {plural(keep.remeasure_incumbent_after, 'trial')} without a keep"
        if keep.remeasure_incumbent_after
        else ""
    )
    return f"better than the incumbent without the luck of its reading; {lines}; {readings}{again}"


def _log(rules: Rules) -> str:
    whose = "kept trials" if rules.log.checkpoints == "kept" else "all trials"
    return f"the models of {whose} stay on disk; a log is cut to its last {rules.log.train_log_kb:,} KiB"


def stop(rules: Rules, allowed: Limits) -> str:
    """When the night is over, flags included, and what models may use in all."""
    ends = [plural(allowed.trials, "trial")] if allowed.trials is not None else []
    ends += [f"{allowed.hours:g} h"] if allowed.hours is not None else []
    ends += [f"{allowed.deadline:%H:%M}"] if allowed.deadline is not None else []
    ends += [f"{rules.metric.name} {rules.stop.target:g}"] if rules.stop.target is not None else []
    ends += [f"{plural(rules.stop.plateau, 'trial')} in a row without a keep"] if rules.stop.plateau is not None else []
    models = [f"{value:,g} {name}" if name == "dollars" else f"{value:,} {name}" for name in ("dollars", "calls", "tokens", "retries")
              if (value := getattr(allowed, name)) is not None]  # fmt: skip
    first = ", whichever comes first" if len(ends) > 1 else ""
    return f"after {' or '.join(ends)}{first}" + (f"; models may use {', '.join(models)}" if models else "")


def _proposer(rules: Rules, asked: Collection[str]) -> str:
    law = rules.proposer
    names = flatten(" and ".join(asked))
    if not set(asked) - OFFLINE:
        return f"{names}, offline and at no cost"
    calls = f"{plural(law.failed_calls, 'call')} in a row without an edit"
    away = f"after {calls} it is away, 5 minutes to an hour, and while it is away {MEANWHILE[law.meanwhile]}"
    if law.meanwhile == "stop":
        away = f"{calls}, an outage or a limit used up ends the night"
    how = f"`{flatten(' '.join(law.command), 80)}`" if law.command else f"the adapter {law.adapter}"
    most = f", {law.call_dollars:g} dollars" if law.call_dollars else ""
    keys = f", and sees {_names(law.keys)}" if law.keys else ""
    spans = f"{duration(law.wall_seconds)}, {duration(law.silence_seconds)} without a sign"
    agent = f"; a call of the agent ({how}) may take {spans}{most}{keys}" if "command" in asked else ""
    return f"{names}; {away}{agent}"


def _model(rules: Rules) -> str:
    law = rules.model
    names = ", else ".join(flatten(name, 60) for name in law.names)
    effort = f", effort {law.effort}" if law.effort else ""
    where = f" at {flatten(law.base_url, 100)}" if law.base_url else ""
    where += f" with the key in {flatten(law.key, 60)}" if law.key else ""
    most = f"up to {law.turns} answers of {law.max_tokens:,} tokens a proposal, {plural(law.retries, 'retry', 'retries')} each{effort}"
    spans = f"{duration(law.wall_seconds)} an answer, {duration(law.silence_seconds)} without a sign of it"
    return f"{names}{where}: {most}; {spans}; asked to wait longer than {duration(law.patience_seconds)}, it is away"


def _names(paths: Collection[str]) -> str:
    return flatten(", ".join(paths), 120)


def shares_text(shares: Mapping[str, float]) -> str:
    """`anthropic 3 in 4, search 1 in 4`, in per cent."""
    whole = sum(shares.values())
    names = {name: flatten(name) for name in shares}
    return (
        names[next(iter(shares))] if len(shares) == 1 else ", ".join(f"{names[name]} {share / whole:.0%}" for name, share in shares.items())
    )
