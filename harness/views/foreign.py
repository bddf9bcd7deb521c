"""A `results.tsv` that Ratchet did not write, read with tolerance and without a guess: columns by name, cells never shifted, bad lines named.

It judges no trial and feeds no study; `upstream.py` says what such a table shows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserFault
from harness.trial import FAILED
from harness.views.text import flatten, plural

COMMIT = re.compile(r"[0-9a-f]{7,64}", re.IGNORECASE)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
KEPT, DISCARDED = ("keep", "kept"), ("discard", "discarded")
FAILED_WORDS = {*(status.value for status in FAILED), "crashed", "error", "failed"}
MEASURED_WORDS = {*KEPT, *DISCARDED}


@dataclass(frozen=True)
class Row:
    """One usable line. `value` is `None` for a crash; `commit` is `None` when the cell is no commit."""

    line: int
    commit: str | None
    value: float | None
    memory_gb: float | None
    status: str
    description: str


@dataclass(frozen=True)
class Complaint:
    """A line that is skipped (`skipped`) or whose cell is not used, and why."""

    line: int
    why: str
    skipped: bool = True


@dataclass(frozen=True)
class Table:
    """What could be read."""

    path: Path
    metric: str
    rows: tuple[Row, ...] = ()
    bad: tuple[Complaint, ...] = ()

    @property
    def kept(self) -> list[Row]:
        """Rows that upstream's loop kept, with a value."""
        return [row for row in self.rows if row.status in KEPT and row.value is not None]

    @property
    def baseline(self) -> Row | None:
        """The first data line; `None` when there is none or when it had to be skipped."""
        usable = self.rows and not any(c.skipped and c.line < self.rows[0].line for c in self.bad)
        return self.rows[0] if usable else None

    @property
    def judged(self) -> int:
        """Measured candidates after the baseline."""
        return len([row for row in self.rows if row is not self.baseline and row.status in MEASURED_WORDS and row.value is not None])


def read_table(path: Path, metric: str | None = None) -> Table:
    """Read `path`; raises `UserFault` when there is no file, no header, or no telling which column is meant."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserFault(f"{path}: {error.strerror or error}; name a results.tsv") from None
    lines = [line.removesuffix("\r") for line in _decode(data, path).split("\n")]
    if not any(line.strip() for line in lines):
        return Table(path, metric or "val_bpb")
    first = next(n for n, line in enumerate(lines) if line.strip())
    columns = _columns(path, lines[first], first + 1, metric)
    rows: list[Row] = []
    bad: list[Complaint] = []
    for number, line in enumerate(lines[first + 1 :], first + 2):
        if line.strip():
            row, complaints = _row(number, line, columns)
            bad += complaints
            rows += [row] if row else []
    return Table(path, columns.metric, tuple(rows), tuple(bad))


def _decode(data: bytes, path: Path) -> str:
    """Text by its byte order mark, else UTF-8; bytes that are none become U+FFFD and stay in their cell."""
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        return data.decode("utf-16") if wide else data.decode("utf-8-sig", "replace")
    except UnicodeDecodeError:
        raise UserFault(f"{path}: begins like UTF-16 but is not; save it as UTF-8") from None


@dataclass(frozen=True)
class _Columns:
    names: list[str]
    metric: str

    def cell(self, cells: list[str], name: str) -> str:
        return cells[self.names.index(name)].strip() if name in self.names else ""


def _columns(path: Path, line: str, number: int, metric: str | None) -> _Columns:
    names = [name.strip() for name in line.split("\t")]
    where = f"{path}, line {number}"
    if len(names) == 1:
        raise UserFault(f"{where}: no tab in the header {flatten(line, 60)!r}; a results.tsv has tab-separated columns")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserFault(f"{where}: the column {flatten(twice[0], 40)!r} is there twice; which one is meant cannot be told")
    missing = [name for name in ("commit", "status") if name not in names]
    if missing:
        raise UserFault(f"{where}: no column {missing[0]!r} among {flatten(', '.join(names), 200)}; is this a header?")
    return _Columns(names, _metric(where, names, metric))


def _metric(where: str, names: list[str], asked: str | None) -> str:
    """The asked column, `val_bpb`, or the only column named `val_…`."""
    candidates = [name for name in names if name == (asked or "val_bpb")] or [
        name for name in names if not asked and name.startswith("val_")
    ]
    if len(candidates) != 1:
        wanted = repr(asked) if asked else "'val_bpb', nor exactly one 'val_…'"
        raise UserFault(f"{where}: no metric column {wanted} among {flatten(', '.join(names), 200)}; nothing is guessed")
    return candidates[0]


def _row(number: int, line: str, columns: _Columns) -> tuple[Row | None, list[Complaint]]:
    """One line as a row, with what is wrong about it; no row when cells or the value cannot be trusted."""
    cells = line.split("\t")
    if len(cells) != len(columns.names):
        return None, [Complaint(number, f"{plural(len(cells), 'cell')} instead of {len(columns.names)}")]
    if "\0" in line:
        return None, [Complaint(number, "NUL bytes")]
    status = columns.cell(cells, "status").lower()
    if not status:
        return None, [Complaint(number, "no status")]
    value, why = _value(columns.cell(cells, columns.metric), status)
    if why:
        return None, [Complaint(number, f"{columns.metric} {why}")]
    commit, memory = columns.cell(cells, "commit"), columns.cell(cells, "memory_gb")
    usable = COMMIT.fullmatch(commit) is not None
    complaint = Complaint(number, f"commit cell {flatten(commit, 40)!r} is no commit" if commit else "commit cell is empty", skipped=False)
    row = Row(
        line=number,
        commit=commit.lower() if usable else None,
        value=value,
        memory_gb=float(memory) if NUMBER.fullmatch(memory) and float(memory) > 0 else None,
        status=status,
        description=columns.cell(cells, "description"),
    )
    return row, [] if usable else [complaint]


def _value(text: str, status: str) -> tuple[float | None, str]:
    """The value and what is wrong with it. A failed trial has none, whatever its cell says (upstream writes 0.000000)."""
    if status not in MEASURED_WORDS:
        return None, ""
    if not NUMBER.fullmatch(text):
        return None, f"{flatten(text, 30)!r} is no number" if text else "is empty"
    value = float(text)
    if value == 0 or not math.isfinite(value):
        return None, f"{text} is no measurement"
    return value, ""
