"""Where the study stands, for a prompt: the incumbent with its gain and its diff against the baseline, what the device gives, what is left."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from harness.artifacts import gains
from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.proposers.fence import Data, clean, cut, flat, quoted

DIFF_BYTES = 10 * 1024
DIFF_LINES = 4000  # difflib takes seconds for more
CONTEXT = 2


def incumbent(study: Study) -> list[str | Data]:
    """What has to be beaten, in numbers."""
    base, best = study.baseline, study.incumbent
    if base is None:
        return ["The baseline has not been measured yet."]
    if best is None:
        return [
            f"There is no incumbent: the baseline failed ({base.status.value if base.status else 'unknown'}), so no gain can be stated."
        ]
    metric = study.started.metric if study.started else "the metric"
    if best.trial == 0:
        return [f"The incumbent is the baseline: {metric} {_value(best)}. Nothing has been kept yet.{_bar(study)}"]
    said = f"The incumbent is trial {best.trial}: {metric} reads {_value(best)}, the baseline {_value(base)}.{_gain(study)}{_bar(study)}"
    return [said, quoted("the incumbent's title", [flat(best.title, 200)], 256)]


def _gain(study: Study) -> str:
    found = gains.gain(study)
    if found is None:
        return ""
    reading, estimate, error = found
    text = f" That is a gain of {reading:+.4f} by its reading"
    if estimate is None:
        return f"{text}."
    return f"{text}, {estimate:+.4f}{f' ± {error:.4f}' if error is not None else ''} without the luck of being selected."


def _bar(study: Study) -> str:
    if study.bar is None:
        return ""
    since = f" Measured trials since the last keep: {study.bar.since}." if study.bar.since else ""
    return f" The next candidate's gain counts from {study.bar.ref:.6f}.{since}"


def _value(row: TrialRow) -> str:
    value = row.verdict.value if row.verdict and row.verdict.value is not None else row.value
    return f"{value:.6f}" if value is not None else "unknown"


def diff(baseline: Mapping[str, str], files: Mapping[str, str]) -> list[str | Data]:
    """What the kept changes add up to."""
    lines: list[str] = []
    for path in sorted({*baseline, *files}):
        old, new = baseline.get(path, ""), files.get(path, "")
        if old != new:
            lines += _diff(path, clean(old).split("\n"), clean(new).split("\n"))
    if not lines:
        return ["The files in scope are those of the baseline."]
    return [Data("the incumbent's diff against the baseline", cut("\n".join(lines), DIFF_BYTES))]


def _diff(path: str, old: list[str], new: list[str]) -> list[str]:
    if max(len(old), len(new)) > DIFF_LINES:
        return [f"{path}: {len(old):,} lines became {len(new):,}; too long for a diff"]
    return list(difflib.unified_diff(old, new, f"baseline/{path}", f"incumbent/{path}", n=CONTEXT, lineterm=""))


def device(study: Study) -> list[str | Data]:
    """Memory, speed, noise and what is left of the budget."""
    lines = [f"- device: {flat(study.started.environment.device, 100)}"] if study.started else []
    latest = study.rows[-1] if study.rows else None
    for name, row in (("the incumbent", study.incumbent), ("the latest trial", latest)):
        if row is not None:
            lines.append(f"- {name}: peak memory {_memory(row)}, {_speed(row)}")
    if study.noise is not None:
        source = "" if study.noise.degrees else ", assumed and not measured"
        lines.append(f"- noise of one reading: sigma {study.noise.sigma:.4g}{source}; gains well below it say little")
    lines.append(f"- budget left: {_budget(study)}")
    return ["\n".join(lines)]


def _memory(row: TrialRow) -> str:
    peak = max((reading.outcome.peak_memory_mb or 0.0 for reading in row.readings), default=0.0)
    return f"{peak:.0f} MiB" if peak else "unknown"


def _speed(row: TrialRow) -> str:
    jobs = [r.outcome for r in row.readings if r.outcome.tokens and r.outcome.train_seconds]
    tokens, seconds = sum(job.tokens or 0 for job in jobs), sum(job.train_seconds or 0.0 for job in jobs)
    steps = jobs[-1].steps if jobs else None
    if not seconds:
        return "speed unknown"
    return f"{tokens / seconds:.0f} tokens/s" + (f", {steps} steps" if steps else "")


def _budget(study: Study) -> str:
    trials, hours, deadline = (study.limits.get(key) for key in ("trials", "hours", "deadline"))
    parts = [f"{max(0, int(trials) - study.trials)} trials"] if trials is not None else []
    parts += [f"{max(0.0, float(hours) - study.elapsed / 3600):.1f} hours"] if hours is not None else []
    parts += [f"until {deadline}"] if deadline is not None else []
    return ", ".join(parts) or "no limit"
