"""One trial in full, and the log of all: plain text from the journal's fold."""

from __future__ import annotations

from collections.abc import Sequence

from harness.artifacts import printed
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.artifacts.trial_row import TrialRow
from harness.graph.lineage import LogEntry
from harness.trial import FAILED, Proposal, Reading
from harness.views import edits, models, reviewing, status
from harness.views.device import conditions_text
from harness.views.results import budget_text
from harness.views.text import flatten, number, signed


def as_text(row: TrialRow, study: Study, folder: StudyDir) -> str:
    """Change, readings, verdict with its inputs, and where the evidence lies."""
    files = folder.trial(row.folder)
    lines = [f"trial {row.trial}: {flatten(row.title)}", f"  commit    {row.commit or 'none yet'}", f"  parent    {row.parent}"]
    if row.edit:
        lines.append(f"  edit      {flatten(row.edit)} ({row.change.net_lines:+d} lines of code)")
    lines += _repair(row, study)
    if files.proposal.exists():
        told = Proposal.model_validate_json(files.proposal.read_bytes())
        lines += [f"  {name:9} {flatten(text, 400)}" for name, text in (("because", told.hypothesis), ("refuted", told.refuted_if)) if text]
        lines.append(f"  proposer  {_proposer(row, told, folder)}")
    lines += [*_rehearsal(row), *(_reading(reading) for reading in row.readings)]
    lines += [*_verdict(row), *reviewing.show_lines(row, study, files)]
    if row.budget_left is not None:
        lines.append(f"  left      {budget_text(row.budget_left)}")
    if row.commit:
        lines += [f"  replay    {status.replay(row, study)}", f"  evidence  {files.path}"]
    if row.status in FAILED and (log := files.reading(row.readings[-1].replicate).train_log if row.readings else files.path).is_file():
        lines += ["", "  the end of its log:", *(f"    {line}" for line in printed.clean_tail(log.read_bytes()).splitlines())]
    if files.diff.exists() and row.trial:
        lines += ["", files.diff.read_text(errors="replace").rstrip()]
    return "\n".join(lines)


def _proposer(row: TrialRow, told: Proposal, folder: StudyDir) -> str:
    """Who, by which model, at what cost, and where it can be read."""
    cost = "" if told.cost_usd is None else f", {told.cost_usd:.4f} dollars"
    calls = folder.agents / f"{told.id:06d}"
    where = f"; what was asked and answered: {calls}" if calls.is_dir() else ""
    return f"{models.proposer_of(row)}{f' ({flatten(told.model)})' if told.model else ''}{cost}{where}"


def _reading(reading: Reading) -> str:
    out = reading.outcome
    why = reading.fault.reason if reading.fault else out.reason
    facts = [
        f"value {number(reading.value, 6, 'none')}", f"seed {reading.seed}", f"training {number(out.train_seconds, 1, '?')} s",
        f"{number(out.cpu_seconds, 1, '?')} CPU-s", f"peak {number(out.peak_memory_mb, 0, '?')} MiB", f"steps {out.steps or '?'}", f"tokens {out.tokens or '?'}",
    ]  # fmt: skip
    around = f"\n            {told}" if out.conditions and (told := conditions_text(out.conditions)) else ""
    return f"  reading {reading.replicate + 1} {', '.join(facts)}{f' ({out.end.value}: {why})' if why else ''}{around}{_audit(reading)}"


def _audit(reading: Reading) -> str:
    found = reading.audit
    if found is None:
        return ""
    if found.fault:
        return f"\n  audit     not made: {flatten(found.fault, 40)}, {flatten(found.detail, 200)}"
    return (
        f"\n  audit     {found.positions:,} positions: off by {found.mean:.2g} ± {found.standard_error:.1g} nats on average, {found.worst:.2g} at most; "
        f"{found.off:,} by more than {found.tolerance:.2g}; value corrected by {signed(-found.correction, 6)}"
    )


def _repair(row: TrialRow, study: Study) -> list[str]:
    """What this trial repairs, how that was verified, and which trial repairs it."""
    outcome = study.repairs.outcomes.get(row.trial)
    lines = [f"  repairs   trial {row.repairs}: {outcome.value if outcome else 'not verified yet'}"] if row.repairs is not None else []
    return lines + [f"  repaired  by trial {other.trial}" for other in study.rows if other.repairs == row.trial]


def _rehearsal(row: TrialRow) -> list[str]:
    if row.rehearsal is None:
        return []
    told = row.rehearsal.detail or f"untrained, nothing against it ({number(row.rehearsal.seconds, 1)} s)"
    return [f"  rehearsed {flatten(told, 300)}"]


def _verdict(row: TrialRow) -> list[str]:
    verdict = row.verdict
    if verdict is None:
        return ["  verdict   none yet"]
    lines = [f"  verdict   {verdict.status.value}: {verdict.reason}{f' ({flatten(verdict.detail, 300)})' if verdict.detail else ''}"]
    if verdict.gain is not None:
        lines.append(
            f"  gain      {signed(verdict.gain)} ± {number(verdict.standard_error, 4)}, P(better) {number(verdict.p_better, 2)}; "
            f"bar {number(verdict.bar, 6)}, lines cost {number(verdict.complexity, 5)}, sigma {number(verdict.sigma, 5)}, rule {verdict.rule}"
        )
    return lines


def log_text(entries: Sequence[LogEntry], study: Study) -> str:
    """One line a trial, newest first, `*` marks the chain from the baseline to the incumbent; between them refusals and edits of program.md."""
    told = [(after, at, said) for after, at, said in edits.log_lines(study)]
    told += [(e.trial, "",
        f"{'*' if e.on_path else ' '} {e.trial:>5}  {(e.commit or '')[:12]:12}  {e.status.value if e.status else 'open':11} "
        f"{number(e.value, 6, '-'):>10}  {signed(e.gain, 4, '-'):>9}  {flatten(e.title, 80)}") for e in entries]  # fmt: skip
    return "\n".join(said for _, _, said in sorted(told, reverse=True)) or "no trial yet"
