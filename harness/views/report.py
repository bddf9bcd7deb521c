"""`report.md`: one page for the morning. What to believe, what was kept, how to replay, adopt or undo it, what failed, what it cost.

It is text made from the journal's fold and works on any prefix of a night, down to nothing. The baseline is trial 0 everywhere. It certifies nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harness.artifacts.gains import believed_value
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.artifacts.trial_row import TrialRow
from harness.evaluation.findings import ROLLED_BACK
from harness.trial import FAILED, Status
from harness.views import device, inbox, models, reviewing, stalls, status
from harness.views.belief import headline
from harness.views.results import COMMIT_DIGITS, memory_gb, total
from harness.views.text import duration, flatten, md, number, plural, signed, table

MOST_KEEPS, MOST_MISSES, MOST_FAILURES, MOST_WARNINGS, MOST_REFUSALS = 40, 8, 15, 20, 8
NEAR_MISS = 0.35
NO_MISS = ROLLED_BACK | {"no_effect"}


def render(study: Study, study_dir: StudyDir) -> str:
    """The whole page as Markdown."""
    if study.started is None:
        return f"# Study {md(study_dir.tag)}\n\nNothing is recorded yet: no study has started here, so there is nothing to believe.\n"
    where = study_dir.path.relative_to(study_dir.project).as_posix()
    sections = [
        f"# Study {md(study.started.tag)}",
        "\n\n".join(headline(study)),
        f"Started {md(study.started_at)}, last event {md(study.last_at)}. All trials: `{where}/results.tsv`; picture: `{where}/progress.png`.",
        inbox.report_section(study),
        _incumbent(study),
        _keeps(study),
        _near_misses(study),
        _failures(study, where),
        _repairs(study),
        reviewing.section(study),
        reviewing.calibration(study),
        _refusals(study),
        stalls.section(study),
        _cost(study),
        _budget(study),
        _warnings(study),
        _provenance(study),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def show(row: TrialRow, study: Study) -> str:
    """The command that prints a trial's file."""
    return f"`{said}`" if (said := status.replay(row, study)) else ""


def _incumbent(study: Study) -> str:
    best = study.incumbent
    if best is None or study.started is None or best.trial == 0:
        return ""
    again = study.rereadings.get(best.trial, [])[1:]
    lines = [
        f"- commit `{(best.commit or '')[:COMMIT_DIGITS]}`, trial {best.trial}: {md(best.title)}",
        f"- reads {number(believed_value(best), 6)}; peak memory {memory_gb(best) or 'unknown'}{' GB' if memory_gb(best) else ''}",
        f"- measured again, unselected: {', '.join(f'{v:.6f}' for v in again) or 'never'}",
        f"- look at it: {show(best, study)}",
        f"- adopt it, all keeps up to it: `git merge {study.started.branch}`; undo one of them afterwards: `git revert <its commit>`",
        f"- drop it: nothing to do, your branch was never touched (`git branch -D {study.started.branch}` forgets the study's branch)",
    ]
    return "## The incumbent\n\n" + "\n".join(lines)


def _keeps(study: Study) -> str:
    kept = [row for row in study.rows if row.status is Status.KEEP and row.trial != 0]
    if not kept:
        return ""
    note = "Gains are against the incumbent's de-biased value of that moment; a keep may read slightly worse than the best so far."
    return f"## Kept\n\n{_trials(kept[-MOST_KEEPS:], study)}\n\n{_left_out(len(kept), MOST_KEEPS, 'earlier keep')}{note}"


def _trials(rows: Iterable[TrialRow], study: Study) -> str:
    """Measured trials with what it takes to look at them again."""
    cells = [[str(row.trial), number(believed_value(row), 6), *_evidence(row), _what(row), show(row, study)] for row in rows]
    return table(["trial", "reading", "gain ± se", "P(better)", "what", "replay"], cells)


def _what(row: TrialRow) -> str:
    """The title, and why a measured trial was not kept where its value is not the reason."""
    detail = row.verdict.detail if row.verdict else ""
    return md(row.title) + (f" ({md(detail, 200)})" if detail else "")


def _evidence(row: TrialRow) -> tuple[str, str]:
    verdict = row.verdict
    if verdict is None or verdict.gain is None:
        return "", ""
    error = f" ± {verdict.standard_error:.4f}" if verdict.standard_error is not None else ""
    return f"{signed(verdict.gain)}{error}", number(verdict.p_better, 2)


def _left_out(count: int, most: int, noun: str) -> str:
    return f"{plural(count - most, noun)} left out; `results.tsv` has all. " if count > most else ""


def _near_misses(study: Study) -> str:
    discarded = (row for row in study.rows if row.status is Status.DISCARD and row.verdict and row.verdict.reason not in NO_MISS)
    missed = [(p, -row.trial, row) for row in discarded if row.verdict and (p := row.verdict.p_better or 0.0) >= NEAR_MISS]
    if not missed:
        return ""
    missed.sort(key=lambda triple: triple[:2], reverse=True)
    shown = _trials((row for _, _, row in missed[:MOST_MISSES]), study)
    left = _left_out(len(missed), MOST_MISSES, "weaker one")
    return f"## Near misses\n\nDiscarded, yet perhaps better; worth a second reading or a combination.\n\n{shown}\n\n{left}".rstrip()


def _failures(study: Study, where: str) -> str:
    failed = [
        row
        for row in study.rows
        if row.status in FAILED or (row.status in (Status.INTERRUPTED, Status.BLOCKED) and row.trial not in study.reviewing.reviews)
    ]
    if not failed:
        return ""
    counts = Counter(f"{row.status.value if row.status else ''}: {row.verdict.reason if row.verdict else ''}" for row in failed)
    summary = ", ".join(f"{count} × {md(name)}" for name, count in counts.most_common(12))
    rows = [[str(row.trial), md(name_of(row)), md(row.verdict.detail if row.verdict else "", 120), md(row.title, 60), f"`{where}/{flatten(row.folder)}/`"]
            for row in failed[-MOST_FAILURES:]]  # fmt: skip
    left = _left_out(len(failed), MOST_FAILURES, "earlier one")
    return f"## What failed\n\n{summary}.\n\n{table(['trial', 'why', 'detail', 'what', 'logs'], rows)}\n\n{left}".rstrip()


def name_of(row: TrialRow) -> str:
    """`crash (exit_code)`."""
    return f"{row.status.value if row.status else ''} ({row.verdict.reason if row.verdict else ''})"


def _repairs(study: Study) -> str:
    """Repaired candidates: what became of each repair, and of its trial."""
    rows = [row for row in study.rows if row.repairs is not None]
    if not rows:
        return ""
    outcomes = {row.trial: found.value if (found := study.repairs.outcomes.get(row.trial)) else "" for row in rows}
    counts = Counter(outcomes.values())
    cells = [[str(row.trial), str(row.repairs), outcomes[row.trial], md(name_of(row)), md(row.title)] for row in rows[-MOST_FAILURES:]]
    said = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return f"## Repairs\n\n{said}.\n\n{table(['trial', 'repairs', 'outcome', 'verdict', 'what'], cells)}"


def _refusals(study: Study) -> str:
    if not study.refused:
        return ""
    counts = Counter(refusal.reason for refusal in study.refusals)
    lines = [f"- {count:,} × {md(reason)}" for reason, count in counts.most_common(12)]
    lines += [f"- proposal {one.proposal} ({md(one.reason)}): {md(one.detail, 200)}" for one in study.refusals[-MOST_REFUSALS:]]
    early = f" The reasons are those of the last {len(study.refusals):,}." if study.refused > len(study.refusals) else ""
    return f"## Refused before they ran\n\n{plural(study.refused, 'proposal')}, no device time.{early}\n\n" + "\n".join(lines)


def _cost(study: Study) -> str:
    tokens = sum(total(row, "tokens") or 0 for row in study.rows)
    unit = md(study.started.data.unit) if study.started and study.started.data.unit else "tokens trained on"
    share = f"{study.train_seconds / study.elapsed:.0%} of {duration(study.elapsed)}" if study.elapsed > 0 else "of no time yet"
    lines = [f"- trials: {status.counts_text(study)}", f"- training: {duration(study.train_seconds)}, {share}",
             f"- {unit} in settled trials: {tokens:,.0f}", *(f"- {line}" for line in models.cost_lines(study))]  # fmt: skip
    return "## What it cost\n\n" + "\n".join(lines)


def _budget(study: Study) -> str:
    if study.stop is None:
        end = "It has not stopped, or was cut off: there is no stop in the journal."
    else:
        end = f"It stopped: {md(study.stop.sentence, 300)} (reason {md(study.stop.reason)}, exit code {study.stop.exit_code})"
    return f"## Budget and end\n\n{end}\n\nBudget: {status.budget_sentence(study)}."


def _warnings(study: Study) -> str:
    if not study.warnings:
        return ""
    shown = [f"- {md(warning, 300)}" for warning in study.warnings[-MOST_WARNINGS:]]
    more = len(study.warnings) - MOST_WARNINGS
    return "## Warnings\n\n" + "\n".join([*shown, *([f"- and {more} earlier"] if more > 0 else [])])


def _provenance(study: Study) -> str:
    started = study.started
    assert started is not None, "render has seen to it"
    env, data = started.environment, started.data
    packages = ", ".join(f"{name} {version}" for name, version in sorted(env.packages.items()))
    edited = (
        "" if study.rules_digest == started.rules_digest else f" at the start, `{study.rules_digest[:12]}` now: edited during the study"
    )
    lines = [
        f"- metric: {md(started.metric)}, {md(started.direction)} is better; baseline `{started.baseline_commit[:COMMIT_DIGITS]}`",
        f"- device: {md(env.device)}; {md(env.platform)}; Python {md(env.python)}; {md(packages, 300)}; git {md(env.git)}",
        *device.report_lines(study),
        f"- sandbox: {md(status.sandbox_text(started), 300)}",
        f"- audits: {_audits(study)}",
        f"- data: profile {md(data.profile)}, `{data.data_sha256[:12]}`; prepare.py `{started.prepare_sha256[:12]}`",
        f"- rules: `{started.rules_digest[:12]}`{edited}; harness `{env.harness_sha256[:12]}`",
    ]
    return "## What the numbers rest on\n\n" + "\n".join(lines)


def _audits(study: Study) -> str:
    """How many claims were checked, and how they came out."""
    made = [reading.audit for row in study.rows for reading in row.readings if reading.audit is not None]
    if not made:
        can = study.started is not None and study.started.data.audit
        return (
            "none; `[audit] positions` is 0, or nothing was measured"
            if can
            else "none; this `prepare.py` offers none, so a value rests on its evaluation alone, and what that takes from a candidate is a claim"
        )
    rejected = sum(row.verdict is not None and row.verdict.reason == "audit" for row in study.rows)
    believed = [audit.worst for audit in made if not audit.off and not audit.fault]
    worst = f"; where they agreed, no position differed by more than {max(believed):.2g} nats" if believed else ""
    return f"{plural(len(made), 'claim')} compared with a second scorer at secret positions, {rejected:,} rejected{worst}"
