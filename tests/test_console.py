"""What is printed while a study runs, on a terminal, in a file, and when the terminal goes away."""

from __future__ import annotations

import io
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from harness.artifacts.call_events import Answered, Asked, ModelAway, ModelBack
from harness.artifacts.events import BarMoved, Event, Interrupted, Launched, Resumed, RulesChanged, Scored, Trained, Warned
from harness.artifacts.study import Study
from harness.moments import utc
from harness.trial import Bar, JobEnd, JobOutcome
from harness.views.console import Console
from tests import study_factory as make


def tell(console: Console, events: Iterable[Event]) -> None:
    study = Study()
    for entry in make.entries(events):
        study.apply(entry)
        console.event(entry, study)


def said(events: Iterable[Event]) -> list[str]:
    stream = io.StringIO()
    console = Console(stream)
    tell(console, events)
    console.close()
    return stream.getvalue().splitlines()


def opening(night: make.Night) -> list[Event]:
    return [night.start(), *night.baseline()]


def test_a_trial_is_one_line_with_what_was_changed_and_what_came_of_it() -> None:
    night = make.Night()
    line = said([*opening(night), *night.candidate(effect=0.02, title="MATRIX_LR 0.04 → 0.0606")])[-1]
    assert line.startswith("21:32:06  trial 1   MATRIX_LR 0.04 → 0.0606")
    for part in ("keep", "gain +0.0", " ± 0.0038", "P(better) 0.99", " s  1.0 GB"):
        assert part in line


def test_a_failure_says_why() -> None:
    night = make.Night()
    line = said([*opening(night), *night.candidate(failure=1, title="deeper")])[-1]
    assert line.endswith("timeout  compute_cap: stopped at 1.25 times the slowest baseline")


def test_a_measured_trial_says_why_it_was_not_kept_where_its_value_is_not_the_reason() -> None:
    night = make.Night()
    line = said([*opening(night), *night.slow(0.02)])[-1]
    assert "twice as wide" in line and "discard" in line and "gain +0.0" in line
    assert line.endswith("no_headroom: it took 48.0 CPU seconds; to be kept it may take 45.5")


def test_the_opening_lines_tell_study_readings_and_baseline() -> None:
    lines = said(opening(make.Night()))
    assert "study mar8: val_bpb, lower is better; proposer search" in lines[0]
    assert "100 of 100 trials left" in lines[0]
    assert lines[1].endswith("baseline: measuring train.py as it is")
    assert [f"baseline, reading {n}: 1.5" in line for n, line in enumerate(lines[2:5], 1)] == [True] * 3
    assert "keep     1.54" in lines[5] and len(lines) == 6


def test_the_rest_of_the_events_worth_a_line() -> None:
    night = make.Night()
    again: list[Event] = [
        Launched(trial=0, replicate=3, seed=3, marker="t", pid=1, process_started=0, boot_id=""),
        Trained(trial=0, replicate=3, outcome=JobOutcome(end=JobEnd.OK)),
        Scored(trial=0, replicate=3, measurement=night.measure(1.5403)),
        BarMoved(trial=0, bar=Bar(ref=1.5402, readings=4), value=1.5402),
    ]
    lines = said([
        *opening(night), *night.refuse(), Warned(code="rules", message="line 3 is broken"), RulesChanged(digest="ab" * 32, diff=""), *again,
        Interrupted(trial=1, replicate=0, reason="suspended"), Resumed(pid=3, limits={"trials": 5}), *list(make.night(0))[-1:],
    ])[6:]  # fmt: skip
    assert [line[10:] for line in lines] == [
        "refused: MATRIX_LR 0.04 → 0.04 (duplicate, like trial 1)",
        "warning: line 3 is broken",
        "program.md changed (now abababababab); in force from now on",
        "incumbent (trial 0) measured again: 1.5403",
        "the bar now rests on 4 unselected readings of trial 0: 1.5402",
        "trial 1 interrupted: suspended",
        "resumed after 0 trials; 5 of 5 trials left",
        "stopped: All 0 trials are done. (exit code 0)",
    ]


def test_a_models_absence_is_told_and_its_single_calls_are_not() -> None:
    night = make.Night(proposer="anthropic")
    away = ModelAway(
        proposer="anthropic", reason="rate_limited", detail="come back\n later \x1b[31m", until=utc(make.START + timedelta(hours=5))
    )
    lines = said([
        *opening(night), Asked(call=1, proposal=1, proposer="anthropic"), Answered(call=1, outcome="rate_limited"), away,
        ModelBack(proposer="anthropic"), ModelAway(proposer="anthropic", reason="auth", detail="the key is refused"),
    ])[6:]  # fmt: skip
    assert [line[10:] for line in lines] == [
        "the model is away until 02:30 local (anthropic, rate_limited: come back later)",
        "the model is asked again (anthropic)",
        "the model is away until a person has looked (anthropic, auth: the key is refused)",
    ]


def test_the_line_of_a_stand_ins_trial_and_of_a_replication_says_so() -> None:
    night = make.Night()
    events = [*opening(night), *night.candidate(effect=0.02), *night.candidate(failure=0)]
    at = [n for n, event in enumerate(events) if event.kind == "begun"]
    events[at[1]] = events[at[1]].model_copy(update={"stands_for": "anthropic"})
    events[at[2]] = events[at[2]].model_copy(update={"replicates": 17})
    lines = said(events)
    assert lines[-2].endswith("1.0 GB  [search stands in]")
    assert lines[-1].endswith("cannot be multiplied  [replicates 17]")


def test_foreign_text_cannot_steer_the_terminal() -> None:
    night = make.Night()
    lines = said([*opening(night), *night.candidate(title="\x1b[2J\x1b]0;pwned\x07 a\nb\u202e"), Warned(code="x", message="\x1b[31m\r\nz")])
    assert all(line.isprintable() for line in lines)
    assert " a b " in lines[-2]


class Broken(io.StringIO):
    """A terminal that went away after `lines` writes."""

    def __init__(self, lines: int, error: Exception) -> None:
        super().__init__()
        self.left, self.error, self.tries = lines, error, 0

    def write(self, text: str) -> int:
        self.tries += 1
        if self.left <= 0:
            raise self.error
        self.left -= 1
        return super().write(text)


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), BrokenPipeError(), ValueError("I/O operation on closed file")])
def test_a_terminal_that_goes_away_stops_the_printing_and_nothing_else(tmp_path: Path, error: Exception) -> None:
    stream, log = Broken(3, error), tmp_path / "console.log"
    console = Console(stream, log)
    tell(console, make.night(6))
    console.close()
    assert len(stream.getvalue().splitlines()) == 3 and stream.tries == 4
    assert log.read_text().splitlines() == said(make.night(6))


def test_a_live_board_on_a_broken_terminal_raises_nothing(tmp_path: Path) -> None:
    console = Console(Broken(40, OSError(5, "gone")), tmp_path / "log", live=True)
    tell(console, make.night(6))
    console.point({"step": 1})
    console.close()
    assert (tmp_path / "log").read_text().endswith("(exit code 0)\n")


def test_a_log_that_cannot_be_written_raises_nothing(tmp_path: Path) -> None:
    stream = io.StringIO()
    console = Console(stream, tmp_path / "missing" / "console.log")
    tell(console, make.night(1))
    console.close()
    assert stream.getvalue().endswith("(exit code 0)\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_disk_ends_the_log_not_the_printing() -> None:
    stream = io.StringIO()
    console = Console(stream, Path("/dev/full"))
    tell(console, make.night(1))
    console.close()
    assert stream.getvalue().splitlines() == said(make.night(1))


def test_the_log_is_appended_to_by_a_resumed_study(tmp_path: Path) -> None:
    for text in ("one", "two"):
        console = Console(io.StringIO(), tmp_path / "log")
        console.note(text)
        console.close()
    assert [line[10:] for line in (tmp_path / "log").read_text().splitlines()] == ["warning: one", "warning: two"]


def test_a_terminal_without_utf8_gets_question_marks_not_an_error() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    console = Console(stream, live=True)
    tell(console, make.night(3))
    console.close()
    assert b"trial 1" in raw.getvalue() and b"?" in raw.getvalue() and b"\x1b" not in raw.getvalue()


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_the_live_board_shows_the_job_and_every_line_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    stream = Terminal()
    console = Console(stream, tmp_path / "log", live=True, now=lambda: 1e9)
    tell(console, make.night(4, stop=False))
    console.phase("training")
    console.event(next(make.entries([Warned(code="x", message="y")])), make.study(4))
    for point in ({"step": 16, "progress": 0.5, "loss": 3.25, "tokens_per_second": 16_000.0},
                  {"step": "x", "progress": float("nan"), "loss": None, "tokens_per_second": float("inf")}, {"progress": 7}, {}):  # fmt: skip
        console.point(point)
        console.phase("training")
    console.close()
    shown = stream.getvalue()
    for part in ("training", "step 16", "loss 3.2500", "16,000 tokens/s", "50%", "96 of 100 trials left", "\x1b[?25h"):
        assert part in shown, part
    for line in (tmp_path / "log").read_text().splitlines():
        assert line[10:60].rstrip() in shown


def test_points_are_not_drawn_more_often_than_a_person_can_read() -> None:
    stream, clock = Terminal(), [0.0]
    console = Console(stream, live=True, now=lambda: clock[0])
    console.phase("training")
    before = len(stream.getvalue())
    for step in range(100):
        clock[0] += 0.001
        console.point({"step": step})
    assert len(stream.getvalue()) == before
    clock[0] += 1.0
    console.point({"step": 100})
    assert len(stream.getvalue()) > before
    console.close()


def test_closing_twice_or_without_a_word_is_fine() -> None:
    console = Console(io.StringIO())
    console.close()
    console.close()
