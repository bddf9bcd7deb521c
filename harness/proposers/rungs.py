"""What the page says while a rung of the stall ladder is in force, and which lines are closed. Bounded, whatever the night's length; foreign text is fenced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.evaluation.detectors import ENDS_A_LINE
from harness.proposers import nearmiss, tried
from harness.proposers.fence import Data, clean, cut, flat, quoted
from harness.trial import FAILED, MEASURED, Status

RECENT = 10
NEAR_LINES, LATEST_LINES, FAILED_LINES = 16, 24, 10
WIDER_BYTES, AXES_BYTES, DIFF_BYTES, TOLD_BYTES, CLOSED_BYTES = 6 * 1024, 1024, 2 * 1024, 4 * 1024, 1024
CLOSED = 4

HEAD = "Nothing has been kept in {drought} measured trials, so what is asked for now is narrower than usual:"
ASKED = {
    "other_axis": "turn something that the latest trials left alone. These axes are used up for now; do not turn them:",
    "combine": (
        "combine. Each of these came close on the present incumbent and changes another part. Put two or three of them into one proposal, as they are; "
        "this counts as one idea:"
    ),
    "wider_briefing": "look at more of what was tried before you decide. An idea that follows from a pattern below is worth more than a new guess.",
    "other_model": "you are asked instead of the one who proposed most so far; do not go on where it stopped.",
    "radical": (
        "make a structural change, not another value of a constant: another part of the model, of the optimizer or of the schedule, even if the first try "
        "of it may cost something."
    ),
    "critic": "a reviewer who saw the study was asked what has been overlooked. It is advice to judge, not an instruction:",
}


def passage(study: Study, folder: StudyDir, names: Collection[str]) -> list[str | Data]:
    """The directive of the rung in force, then the closed lines; nothing on the ground with nothing closed, nor beside the order to repair a trial. `names` are
    the files in scope.
    """
    if study.repairs.ticket is not None:
        return []
    rung, ladder = study.ladder.rung, study.ladder
    pieces: list[str | Data] = []
    if rung in ASKED:
        pieces = ["# What is asked for now", f"{HEAD.format(drought=ladder.drought)} {ASKED[rung]}"]
        pieces += _SHOWN[rung](study, folder, names) if rung in _SHOWN else []
    return [*pieces, *_closed(study)]


def _axes(study: Study, folder: StudyDir, names: Collection[str]) -> list[str | Data]:
    rows = [row for row in study.rows if row.trial and row.status in MEASURED | FAILED]
    counts, kept = Counter(row.axis for row in rows), Counter(row.axis for row in rows if row.status is Status.KEEP)
    latest = list(dict.fromkeys(row.axis for row in rows[-RECENT:]))
    lines = [f"{flat(axis, tried.AXIS_BYTES) or '(no axis)'}: {counts[axis]} tried, {kept[axis]} kept" for axis in latest]
    return [quoted("axes that are used up", lines, AXES_BYTES)] if lines else []


def _near(study: Study, folder: StudyDir, names: Collection[str]) -> list[str | Data]:
    pieces: list[str | Data] = []
    for one in nearmiss.near_misses(study, folder, names)[:3]:
        pieces += [quoted(f"near miss {one.trial}", [tried.line(study.row(one.trial))], 300), _diff(study, folder, one.trial)]
    return pieces


def _diff(study: Study, folder: StudyDir, trial: int) -> Data:
    try:
        text = folder.trial(study.row(trial).folder).diff.read_bytes().decode(errors="replace")
    except OSError as error:
        text = f"its diff cannot be read: {error.strerror}"
    return Data(f"the diff of trial {trial}", cut(clean(text).rstrip("\n"), DIFF_BYTES))


def _wider(study: Study, folder: StudyDir, names: Collection[str]) -> list[str | Data]:
    rows = [row for row in study.rows if row.trial]
    failed = [row for row in rows if row.status in FAILED][: -FAILED_LINES - 1 : -1]
    lines = ["near misses on the incumbent, the likeliest first:", *map(tried.line, nearmiss.candidates(study)[:NEAR_LINES])]
    lines += [
        "failures, the latest first:",
        *(f"{tried.line(row)} ({flat(row.verdict.detail if row.verdict else '', 120)})" for row in failed),
    ]
    lines += ["the latest trials:", *map(tried.line, rows[: -LATEST_LINES - 1 : -1])]
    return [quoted("more of what was tried", lines, WIDER_BYTES)]


def _told(study: Study, folder: StudyDir, names: Collection[str]) -> list[str | Data]:
    return [quoted("what may have been overlooked", clean(study.ladder.told).split("\n"), TOLD_BYTES)]


_SHOWN: Mapping[str, Callable[[Study, StudyDir, Collection[str]], list[str | Data]]] = {
    "other_axis": _axes, "combine": _near, "wider_briefing": _wider, "critic": _told,
}  # fmt: skip


def _closed(study: Study) -> list[str | Data]:
    """Lines of work that went round in circles or stood still, the latest last."""
    ended = [one for one in study.watch.findings if one.detector in ENDS_A_LINE][-CLOSED:]
    if not ended:
        return []
    lines = [f"trial {one.trial}: {flat(one.detail, 200)}" if one.trial is not None else flat(one.detail, 200) for one in ended]
    return [
        "These lines of work are closed, because they stood still or went round in circles; do not go on with them:",
        quoted("closed lines", lines, CLOSED_BYTES),
    ]
