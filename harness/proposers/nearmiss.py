"""The near misses that can be combined: discards on the present incumbent that came close and change different parts of the program."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.artifacts.trial_row import TrialRow
from harness.evaluation.findings import ROLLED_BACK
from harness.graph import near
from harness.proposers.protocol import NearMiss
from harness.proposers.tried import NEAR
from harness.trial import Status

MOST, LOOKED_AT = 4, 12
UNLIKELY = frozenset({"no_effect", "not_confirmed"}) | ROLLED_BACK  # measured for what they are: nothing, or a repair that repaired nothing


def near_misses(study: Study, folder: StudyDir, names: Collection[str]) -> tuple[NearMiss, ...]:
    """At most `MOST`, the likeliest first; none shares a changed symbol with another, and each still has its files, which `names` lists."""
    before = _files(folder, study.incumbent, names) if study.incumbent else {}
    chosen, taken = list[NearMiss](), set[tuple[str, str]]()
    for row in candidates(study)[:LOOKED_AT] if before else ():
        after = _files(folder, row, names)
        changed = _changed(before, after)
        if changed and not changed & taken and len(chosen) < MOST:
            taken |= changed
            gain = row.verdict.gain if row.verdict else None
            chosen.append(NearMiss(trial=row.trial, title=row.title, axis=row.axis, edit=row.edit, gain=gain, files=after))
    return tuple(chosen)


def candidates(study: Study) -> list[TrialRow]:
    """Discards on the incumbent that gained something, or are better with a chance of `tried.NEAR` at least; the likeliest first."""
    tip = study.incumbent.commit if study.incumbent else None
    rows = [row for row in study.rows if row.trial and row.parent == tip and row.status is Status.DISCARD and _is_near(row)]
    return sorted(rows, key=lambda row: (-_chance(row), -row.trial))


def _is_near(row: TrialRow) -> bool:
    verdict = row.verdict
    return verdict is not None and verdict.reason not in UNLIKELY and ((verdict.gain or 0.0) > 0 or _chance(row) >= NEAR)


def _chance(row: TrialRow) -> float:
    return row.verdict.p_better if row.verdict and row.verdict.p_better is not None else 0.0


def _files(folder: StudyDir, row: TrialRow, names: Collection[str]) -> dict[str, str]:
    """The texts of a trial as its folder has them; empty when one is gone or is no text any more."""
    trial = folder.trial(row.folder)
    try:
        return {name: trial.file(name).read_bytes().decode() for name in names}
    except (OSError, UnicodeDecodeError):
        return {}


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> set[tuple[str, str]]:
    if before.keys() != after.keys():
        return set()
    return {(path, name) for path in after for name in near.changed_symbols(before[path], after[path])}
