"""`results.tsv`: one row a committed candidate, upstream's five columns first; made from the journal's fold, never read back as truth.

`sync` makes the file exactly what the journal says: it appends the missing rows; a file that is anything else (edited, cut, CRLF, doubled) is
moved aside, not lost, and rebuilt. A value that was not measured, or not believed, is an empty cell. It decides nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

from harness.artifacts import durable
from harness.artifacts.gains import believed_value
from harness.artifacts.study import Study, replay
from harness.artifacts.trial_dir import StudyDir
from harness.artifacts.trial_row import TrialRow
from harness.errors import StorageFault
from harness.trial import BudgetLeft
from harness.views.models import COUNTERS, proposer_of
from harness.views.text import flatten, number

UPSTREAM = ("commit", "val_bpb", "memory_gb", "status", "description")
OURS = (
    "trial", "reason", "gain", "se", "p_better", "bar", "sigma", "readings", "train_seconds", "cpu_seconds", "steps", "tokens", "net_lines",
    "rule", "budget_left", "parent", "axis", "proposer", "folder",
)  # fmt: skip
COMMIT_DIGITS = 12
CELL_LIMIT = 200


def cell(text: str) -> str:
    """A text cell: flat, without double quotes (readers take a leading one as quoting), inert in a spreadsheet."""
    text = flatten(text, CELL_LIMIT - 1).replace('"', "'")
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def peak_memory_mb(row: TrialRow) -> float | None:
    """The highest peak of the trial's jobs; 0 means that the platform does not tell."""
    return max((r.outcome.peak_memory_mb for r in row.readings if r.outcome.peak_memory_mb), default=None)


def memory_gb(row: TrialRow) -> str:
    """GiB with one decimal, at least 0.1, so that 0.0 never means two things; empty when unknown."""
    peak = peak_memory_mb(row)
    return number(max(peak / 1024, 0.1), 1) if peak else ""


def total(row: TrialRow, name: str) -> float | None:
    """Sum of a number of the trial's jobs; `None` when no job has it."""
    values = [v for r in row.readings if (v := getattr(r.outcome, name)) is not None]
    return sum(values) if values else None


def mean(row: TrialRow, name: str) -> float | None:
    """Mean over the trial's jobs of a number; `None` when no job has it."""
    values = [v for r in row.readings if (v := getattr(r.outcome, name)) is not None]
    return sum(values) / len(values) if values else None


def header(metric: str) -> str:
    """The first line, without its end."""
    return "\t".join((UPSTREAM[0], cell(metric), *UPSTREAM[2:], *OURS))


def row_line(row: TrialRow) -> str:
    """One settled trial as a line, without its end."""
    verdict = row.verdict
    assert verdict is not None, "only settled trials have a row"
    commit = (row.commit or "")[:COMMIT_DIGITS]
    ours: dict[str, str] = {
        "trial": str(row.trial),
        "reason": cell(verdict.reason),
        "gain": number(verdict.gain, 6),
        "se": number(verdict.standard_error, 6),
        "p_better": number(verdict.p_better, 3),
        "bar": number(verdict.bar, 6),
        "sigma": number(verdict.sigma, 6),
        "readings": str(len([r for r in row.readings if r.value is not None])),
        "train_seconds": number(mean(row, "train_seconds"), 1),
        "cpu_seconds": number(mean(row, "cpu_seconds"), 1),
        "steps": number(mean(row, "steps"), 0),
        "tokens": number(mean(row, "tokens"), 0),
        "net_lines": str(row.change.net_lines),
        "rule": cell(verdict.rule),
        "budget_left": budget_text(row.budget_left),
        "parent": row.parent[:COMMIT_DIGITS],
        "axis": cell(row.axis),
        "proposer": cell(proposer_of(row)),
        "folder": cell(row.folder),
    }
    first = (commit, number(believed_value(row), 6), memory_gb(row), verdict.status.value, cell(row.title or row.edit or "untitled"))
    return "\t".join((*first, *(ours[name] for name in OURS)))


def budget_text(left: BudgetLeft | None) -> str:
    """Every limited counter, as `trials=16 seconds=1200 crashes=5 calls=40 dollars=3.1400 repairs=19`."""
    if left is None:
        return ""
    counters = ((name, getattr(left, name)) for name in ("trials", "seconds", "crashes", *COUNTERS, "repairs", "reviews"))
    return " ".join(f"{name}={value:.{4 if name == 'dollars' else 0}f}" for name, value in counters if value is not None)


class Results:
    """A study's table and its copy at the project's top. Keeps the text of settled rows, which never changes; the file is compared in full."""

    def __init__(self, study_dir: StudyDir, top: Path | None = None) -> None:
        self._study_dir = study_dir
        self._top = top
        self._text = b""
        self._rows = 0

    def render(self, study: Study) -> bytes:
        """The whole table as the journal has it. Needs a full fold, not a summary."""
        assert len(study.rows) == study.row_count, "a summary holds only the last rows"
        metric = study.started.metric if study.started else UPSTREAM[1]
        lines = [] if self._text else [header(metric)]
        lines += [row_line(row) for row in study.rows[self._rows :] if row.commit]
        self._text += "".join(f"{line}\n" for line in lines).encode()
        self._rows = study.row_count
        return self._text

    def sync(self, study: Study) -> list[str]:
        """Make both files what the journal says; returns what the person should know, one sentence each."""
        expected = self.render(study)
        warnings = _sync_own(self._study_dir.results, expected)
        if self._top is not None:
            warnings += _copy(expected, self._top, self._study_dir)
        return warnings


def sync(study_dir: StudyDir, study: Study, top: Path | None = None) -> list[str]:
    """One `Results.sync` without memory of earlier ones."""
    return Results(study_dir, top).sync(study)


def problem(study_dir: StudyDir) -> str:
    """What is wrong with the study's table, or ''; one that is not there or lacks its last rows will be written by the next resume."""
    found, expected = _read(study_dir.results) or b"", Results(study_dir).render(replay(study_dir.journal)[0])
    return "" if expected.startswith(found) else diagnose(found, expected)


def _sync_own(path: Path, expected: bytes) -> list[str]:
    found = _read(path)
    if found == expected:
        return []
    if not found:
        durable.replace(path, expected)
        return []
    if found.endswith(b"\n") and expected.startswith(found):
        _append(path, expected[len(found) :])
        return []
    problem = diagnose(found, expected)
    aside = _move_aside(path)
    durable.replace(path, expected)
    return [f"{path}: {problem}; moved to {aside.name} and rebuilt from the journal"]


def _read(path: Path) -> bytes | None:
    """The file's bytes, or `None` when there is none to read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        if path.is_dir():
            return b"\0"
        raise StorageFault(f"{path}: {error.strerror}; make it readable, then `ratchet resume`") from None


def _append(path: Path, data: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    except OSError as error:
        raise StorageFault(f"{path}: {error.strerror}; make it writable, then `ratchet resume`") from None
    try:
        durable.append(descriptor, data, path)
    finally:
        os.close(descriptor)


def diagnose(found: bytes, expected: bytes) -> str:
    """What is wrong with a table, with the number of the first bad line."""
    has, wants = found.split(b"\n"), expected.split(b"\n")
    same = next((n for n, (a, b) in enumerate(zip(has, wants, strict=False)) if a != b), min(len(has), len(wants)))
    bad = has[same] if same < len(has) else b""
    if b"\0" in bad:
        why = "holds NUL bytes"
    elif bad.endswith(b"\r"):
        why = "ends in CR LF"
    elif same == 0:
        why = "is not the header of this version"
    elif same == len(has) - 1:
        why = "is cut"
    else:
        why = "is not what the journal says" if same < len(wants) - 1 else "is more than the journal has"
    return f"line {same + 1} {why}"


def _move_aside(path: Path) -> Path:
    """Rename to the first free `name.bad-<n>`."""
    n = 1
    while (aside := path.with_name(f"{path.name}.bad-{n}")).exists() or aside.is_symlink():
        n += 1
    path.rename(aside)
    return aside


def _copy(expected: bytes, top: Path, study_dir: StudyDir) -> list[str]:
    """The copy at the project's top. What is neither a copy of a study's table nor upstream's bare header is somebody's work: moved aside."""
    found = _read(top)
    if found == expected:
        return []
    warnings = []
    if found and not _is_copy(found, expected, study_dir):
        aside = _move_aside(top)
        warnings = [f"{top}: not a copy of a study's table; moved to {aside.name} before this study's table took its place"]
    top.parent.mkdir(parents=True, exist_ok=True)
    durable.replace(top, expected)
    return warnings


def _is_copy(found: bytes, expected: bytes, study_dir: StudyDir) -> bool:
    """Is every byte of `found` also in a study's own table, or is it only upstream's header?"""
    if expected.startswith(found) or found.strip() == "\t".join(UPSTREAM).encode():
        return True
    others = sorted(study_dir.path.parent.glob("*/results.tsv"))
    return any(other.read_bytes().startswith(found) for other in others if other.is_file())
