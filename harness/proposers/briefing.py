"""Builds the `Briefing` from the journal's fold: what the incumbent is and what was tried, in the order of the proposals."""

from __future__ import annotations

from collections.abc import Mapping

from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.artifacts.trial_row import TrialRow
from harness.oversight import NO_BAN, Ban
from harness.proposers import nearmiss
from harness.proposers.protocol import Briefing, Past
from harness.trial import OWED


def build(
    study: Study, number: int, incumbent: str, files: Mapping[str, str], goal: str, ban: Ban = NO_BAN, folder: StudyDir | None = None
) -> Briefing:
    """The briefing for proposal `number` on the commit `incumbent`, whose files in scope are `files`; near misses come from the study's `folder`."""
    assert study.started is not None, "a study that proposes has started"
    past = [(row.proposal, _trial(row)) for row in study.rows if row.proposal is not None]
    past += [
        (one.proposal, Past(trial=None, title=one.edit or one.axis, axis=one.axis, edit=one.edit, refused=one.reason))
        for one in study.refusals
    ]
    rung = study.ladder.rung
    past.sort(key=lambda item: item[0])
    return Briefing(
        number=number, incumbent=incumbent, files=dict(files), past=tuple(p for _, p in past), goal=goal, direction=study.started.direction,
        owed=sum(study.calls.proposals.get(name, 0) for name in OWED),
        rung=rung or "", near=nearmiss.near_misses(study, folder, files) if folder and rung == "combine" else (),
        ban=ban,
    )  # fmt: skip


def _trial(row: TrialRow) -> Past:
    verdict = row.verdict
    return Past(
        trial=row.trial, title=row.title, axis=row.axis, edit=row.edit, status=row.status, gain=verdict.gain if verdict else None,
        no_effect=verdict is not None and verdict.reason == "no_effect",
    )  # fmt: skip
