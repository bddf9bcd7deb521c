"""What the harness says while it runs: one line a meaningful event, and on a terminal a live board below the lines.

Every line also goes to the log file. A terminal that went away (a closed ssh session) switches printing off for good and never stops the study;
so does a full disk for the log. It only shows: no event, no decision and no key press comes from here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from harness.artifacts import events as ev
from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.trial import Status
from harness.views import pace_text, status
from harness.views.lines import TITLE, line_of
from harness.views.text import clock, flatten, number

BROKEN = (OSError, ValueError)  # a closed descriptor, a closed file object
REFRESH_SECONDS = 0.25


class Console:
    """Lines to `stream` and to `log`; with `live`, a board that redraws itself on every event and point."""

    def __init__(self, stream: IO[str], log: Path | None = None, live: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        self._stream: IO[str] | None = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._log_path = log
        self._log: IO[bytes] | None = None
        self._now = now
        self._drawn = -1e9
        self._phase = ""
        self._point: dict[str, Any] = {}
        self._study = Study()
        self._board: Any = None
        if live and "utf" in self._encoding.lower():
            self._guard(self._start_board)

    def event(self, entry: ev.Entry, study: Study) -> None:
        """Tell an event; `study` has it applied already."""
        self._study = study
        if isinstance(entry.event, (ev.Launched, ev.Settled)):
            self._point = {}
        said = line_of(entry.event, study)
        if said:
            self._say(f"{clock(entry.at)}  {said}")
        self._draw(force=True)

    def point(self, point: dict[str, Any]) -> None:
        """A point of the running job's learning curve: step, progress (0 to 1), loss, tokens_per_second."""
        self._point = point
        self._draw()

    def phase(self, name: str) -> None:
        """What is being done now, in a word or two."""
        self._phase = flatten(name, 40)
        self._draw(force=True)

    def note(self, text: str) -> None:
        """Something the person should know that is no event of the journal."""
        self._say(f"{clock(self._study.last_at)}  warning: {flatten(text, 500)}")

    def close(self) -> None:
        """Take the board down and say the last line."""
        if self._board is not None:
            self._guard(self._board.stop)
            self._board = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _say(self, text: str) -> None:
        """One line to both; the text is ours, foreign parts of it are flat already."""
        self._write(f"{text}\n".encode(errors="replace"))
        self._guard(lambda: self._print(text))

    def _write(self, data: bytes) -> None:
        """To the log, which is opened with the first line: before a study has begun its folder must not be touched."""
        if self._log_path is None:
            return
        try:
            self._log = self._log or self._log_path.open("ab", buffering=0)
            self._log.write(data)
        except OSError:
            self._log_path = None

    def _print(self, text: str) -> None:
        if self._board is not None:
            self._board.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif self._stream is not None:
            self._stream.write(text.encode(self._encoding, "replace").decode(self._encoding) + "\n")
            self._stream.flush()

    def _guard(self, act: Callable[[], None]) -> None:
        """Do something with the stream; when the stream is broken, never touch it again."""
        if self._stream is None:
            return
        try:
            act()
        except BROKEN:
            self._stream = self._board = None

    def _start_board(self) -> None:
        from rich.console import Console as Rich
        from rich.live import Live

        self._board = Live(
            console=Rich(file=self._stream), auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._board.start()

    def _draw(self, force: bool = False) -> None:
        now = self._now()
        if self._board is None or (not force and now - self._drawn < REFRESH_SECONDS):
            return
        self._drawn = now
        picture = board(self._study, self._phase, self._point)
        self._guard(lambda: self._board.update(picture, refresh=True))


def board(study: Study, phase: str, point: dict[str, Any]) -> Any:
    """The live part: the job's bar, incumbent, budget, last trials."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    current, progress = study.current, min(1.0, max(0.0, _number(point, "progress") or 0.0))
    job = f"trial {current.trial} {flatten(current.title, TITLE)}" if current else "between trials"
    bar = Table.grid(padding=(0, 1))
    bar.add_row(ProgressBar(total=1.0, completed=progress, width=30), Text(f"{progress:4.0%}"), Text(_numbers(point)))
    lines = [Text(f"{job}   {phase}", style="bold"), Text(f"gain  {status.gain_text(study)}")]
    lines.append(Text(f"left  {status.budget_sentence(study)}"))
    lines.append(Text(f"then  {pace_text.sentence(study) or 'nothing more'}"))
    lines += [Text(status.row_text(row), style=_style(row)) for row in study.rows[: -status.LAST - 1 : -1]]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(lines[0], bar, *lines[1:])


def _style(row: TrialRow) -> str:
    return {Status.KEEP: "green", Status.DISCARD: "dim"}.get(row.status or Status.CRASH, "red")


def _number(point: dict[str, Any], name: str) -> float | None:
    """A number of a point; the job wrote it, so it may be anything."""
    value = point.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e15 else None


def _numbers(point: dict[str, Any]) -> str:
    step, loss, speed = (_number(point, name) for name in ("step", "loss", "tokens_per_second"))
    parts = (f"step {number(step, 0)}" if step is not None else "", f"loss {number(loss, 4)}" if loss is not None else "",
             f"{speed:,.0f} tokens/s" if speed else "")  # fmt: skip
    return "  ".join(part for part in parts if part)
