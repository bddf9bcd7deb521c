"""Where a study stands: one dictionary for programs, a handful of lines for people. Works on any prefix of a night and on a summary fold.

Whether a harness is alive is the caller's to find out (the lock): `alive` is `None` when nobody looked.
"""

from __future__ import annotations

import shlex
from typing import Any

from harness.artifacts import gains
from harness.artifacts.events import StudyStarted
from harness.artifacts.gains import believed_value
from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.trial import MEASURED, Status
from harness.views import edits, inbox, left, models, pace_text, repairs, reviewing, stalls
from harness.views.results import COMMIT_DIGITS, peak_memory_mb
from harness.views.text import clock, duration, flatten, number, plural, signed

LAST = 5


def keeps(study: Study) -> int:
    """Kept candidates; the baseline is none."""
    return study.counts.get(Status.KEEP.value, 0) - int(study.baseline is not None and study.baseline.status is Status.KEEP)


def judged(study: Study) -> int:
    """Candidates with a believed value: kept or discarded."""
    return keeps(study) + study.counts.get(Status.DISCARD.value, 0)


def scope_text(study: Study) -> str:
    """The files that may change, by name."""
    return flatten(", ".join(study.started.editable), 120) if study.started else "the files in scope"


def replay(row: TrialRow, study: Study) -> str:
    """The command that prints a trial's file, the first one where there are several; '' without a commit."""
    name = study.started.editable[0] if study.started else "train.py"
    return f"git show {(row.commit or '')[:COMMIT_DIGITS]}:./{flatten(shlex.quote(name), 200)}" if row.commit else ""


def paired(study: Study) -> bool:
    """Whether candidates share a seed with the incumbent's reading."""
    return study.bar is not None and study.bar.paired


def sigma_text(study: Study) -> str:
    """`sigma 0.0027`, with the words for one that nothing in this study was measured for."""
    if study.noise is None:
        return "sigma unknown"
    return f"sigma {study.noise.sigma:.4g}" + ("" if study.noise.degrees else ", assumed and not measured")


def gain(study: Study) -> dict[str, float] | None:
    """The incumbent against the baseline, what is known of it: `reading`, `estimate`, `standard_error`."""
    found = gains.gain(study)
    return {name: value for name, value in found._asdict().items() if value is not None} if found else None


def budget_left(study: Study) -> dict[str, Any]:
    """What the limits leave; a limit that is not set is `None`."""
    trials, hours = study.limits.get("trials"), study.limits.get("hours")
    return {
        "trials": max(0, int(trials) - study.trials) if trials is not None else None,
        "seconds": max(0.0, float(hours) * 3600 - study.elapsed) if hours is not None else None,
        "deadline": study.limits.get("deadline"),
        **models.left(study),
        **left.oversight(study),
    }


def row_facts(row: TrialRow) -> dict[str, Any]:
    """One trial, JSON-able."""
    verdict, memory = row.verdict, peak_memory_mb(row)
    return {
        "trial": row.trial,
        "commit": row.commit,
        "status": row.status.value if row.status else None,
        "reason": verdict.reason if verdict else None,
        "value": believed_value(row),
        "gain": verdict.gain if verdict else None,
        "standard_error": verdict.standard_error if verdict else None,
        "p_better": verdict.p_better if verdict else None,
        "memory_gb": round(memory / 1024, 3) if memory else None,
        "title": flatten(row.title),
        "folder": row.folder,
    }


def state(study: Study, alive: bool | None) -> str:
    """One word: empty, running, interrupted, stopped."""
    if study.started is None:
        return "empty"
    if study.stop is not None and not alive:
        return "stopped"
    return "interrupted" if alive is False else "running"


def as_dict(study: Study, alive: bool | None = None) -> dict[str, Any]:
    """Everything a program may want to know at a glance; missing is `None`."""
    started, current = study.started, study.current
    return {
        "tag": started.tag if started else None,
        "state": state(study, alive),
        "stop": study.stop.model_dump() if study.stop else None,
        "metric": started.metric if started else None,
        "direction": started.direction if started else None,
        "branch": started.branch if started else None,
        "proposer": started.proposer if started else None,
        "device": started.environment.device if started else None,
        "sandbox": {"level": started.sandbox or None, "open": list(started.sandbox_open)} if started else None,
        "trials": study.trials,
        "counts": dict(study.counts),
        "keeps": keeps(study),
        "judged": judged(study),
        "refused": study.refused,
        "baseline": row_facts(study.baseline) if study.baseline else None,
        "incumbent": row_facts(study.incumbent) if study.incumbent else None,
        "bar": study.bar.model_dump() if study.bar else None,
        "gain": gain(study),
        "sigma": study.noise.sigma if study.noise else None,
        "limits": dict(study.limits),
        "budget_left": budget_left(study),
        "at_this_pace": pace_text.facts(study),
        "models": models.facts(study),
        "repairs": repairs.facts(study),
        "stall": stalls.facts(study),
        "elapsed_seconds": study.elapsed,
        "train_seconds": study.train_seconds,
        "current": {**row_facts(current), "readings": len(current.readings)} if current else None,
        "last": [row_facts(row) for row in study.rows[-LAST:]],
        "questions": inbox.open_facts(study),
        "edits": [edit.model_dump() for edit in study.edits],
        "warnings": [flatten(warning, 500) for warning in study.warnings],
        "started_at": study.started_at or None,
        "last_at": study.last_at or None,
    }


def as_text(study: Study, alive: bool | None = None) -> str:
    """The same for people, without an end of line."""
    if study.started is None:
        return "Nothing is recorded yet."
    lines = [
        f"study {study.started.tag}: {state_sentence(study, alive)}",
        f"  trials     {counts_text(study)}",
        f"  baseline   {_baseline(study)}",
        f"  incumbent  {_incumbent(study)}",
        f"  gain       {gain_text(study)}",
        f"  budget     {budget_sentence(study)}",
        f"  sandbox    {sandbox_text(study.started)}",
        *(line for part in (pace_text, edits, models, inbox, repairs, stalls, reviewing) for line in part.status_lines(study)),
    ]
    if study.current:
        number_of = max(1, study.launched.replicate + 1) if study.launched else len(study.current.readings) + 1
        what = "being decided" if study.current.verdict else f"reading {number_of}"
        word = "open" if study.stop else "now "
        lines.append(f"  {word}       trial {study.current.trial} ({flatten(study.current.title, 60)}), {what}")
    lines += [f"  {'last' if n == 0 else '    '}       {row_text(row)}" for n, row in enumerate(study.rows[: -LAST - 1 : -1])]
    return "\n".join([*lines, *edits.warning_lines(study)])


def state_sentence(study: Study, alive: bool | None) -> str:
    """What the harness is doing, or why it is not."""
    word = state(study, alive)
    if word == "stopped" and study.stop is not None:
        return f"stopped: {flatten(study.stop.sentence, 300)} (exit code {study.stop.exit_code})"
    if word == "interrupted":
        return f"interrupted at {clock(study.last_at)} without a word; `ratchet resume` goes on"
    return f"running for {duration(study.elapsed)}, last event at {clock(study.last_at)}"


def counts_text(study: Study) -> str:
    """`9 (2 keep, 5 discard, 2 crash), 3 refused`: what became of the candidates."""
    counts = {status.value: study.counts.get(status.value, 0) for status in Status}
    if study.baseline is not None and study.baseline.status is not None:
        counts[study.baseline.status.value] -= 1
    parts = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{study.trials}{f' ({parts})' if parts else ''}" + (f", {plural(study.refused, 'proposal')} refused" if study.refused else "")


def _baseline(study: Study) -> str:
    base = study.baseline
    if base is None:
        return "not measured yet"
    value = believed_value(base)
    if value is None:
        return f"{base.status.value if base.status else 'unknown'}: it has no value, so no gain can be stated"
    same = f"; {number(gains.reference(study), 6)} with the candidates' seed" if paired(study) else ""
    return f"{value:.6f} ({plural(len([r for r in base.readings if r.value is not None]), 'reading')}{same})"


def _incumbent(study: Study) -> str:
    best = study.incumbent
    if best is None:
        return "none"
    if best.trial == 0:
        return "the baseline"
    return f"trial {best.trial}, {(best.commit or '')[:COMMIT_DIGITS]}, reads {number(believed_value(best), 6)}: {flatten(best.title, 60)}"


def gain_text(study: Study) -> str:
    """`+0.0094 by its reading, +0.0080 ± 0.0031 de-biased (sigma 0.0027); not certified`."""
    sigma = sigma_text(study)
    found = gain(study)
    if found is None:
        return f"none yet ({sigma})"
    text = f"{signed(found['reading'])} by its reading"
    if "estimate" in found:
        error = f" ± {found['standard_error']:.4f}" if "standard_error" in found else ""
        text += f", {signed(found['estimate'])}{error} de-biased"
    return f"{text} ({sigma}); not certified"


def sandbox_text(started: StudyStarted) -> str:
    """The level that candidate code ran at, and how many attacks got through it."""
    if started.sandbox == "full":
        return "full"
    if started.sandbox == "container":
        return f"container; open, {plural(len(started.sandbox_open), 'property', 'properties')}: {', '.join(started.sandbox_open)}"
    return "none: candidate code could read and change your files" if started.sandbox else "not recorded"


def budget_sentence(study: Study) -> str:
    """What is left of each limit."""
    rest, parts = budget_left(study), []
    if rest["trials"] is not None:
        parts.append(f"{rest['trials']:,} of {plural(int(study.limits['trials'] or 0), 'trial')} left")
    if rest["seconds"] is not None:
        parts.append(f"{duration(rest['seconds'])} of {float(study.limits['hours'] or 0):g} h left")
    if rest["deadline"] is not None:
        parts.append(f"until {rest['deadline']}")
    return ", ".join([*parts, *models.budget_parts(study), *left.parts(study)]) or "no limit"


def row_text(row: TrialRow) -> str:
    """One trial as one line."""
    value = believed_value(row)
    verdict = row.verdict
    facts = f"{row.trial:>4}  {row.status.value if row.status else '':<9} "
    if value is None or row.status not in MEASURED:
        return f"{facts}{flatten(verdict.reason if verdict else '', 24):<24}  {flatten(row.title, 60)}"
    change = signed(verdict.gain) if verdict and verdict.gain is not None else ""
    why = f" ({flatten(verdict.reason, 24)})" if verdict and verdict.detail else ""  # measured, but its value is not the reason
    return f"{facts}{value:<9.6f} {change:<14}  {flatten(row.title, 60)}{why}"
