"""What a restart does before the loop goes on: end what the dead harness left running, note the interruption, check the branch.

It rolls forward only: the journal says what was decided, the ports do again whatever is not yet visible of it. Running it twice changes nothing.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

from harness.artifacts.events import Interrupted, Warned
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.control.meter import close_open_calls
from harness.control.recorder import BEAT, Recorder
from harness.errors import BranchMoved
from harness.execution.process import end_orphan
from harness.graph.ratchet import Ratchet
from harness.moments import moment
from harness.proposers.workroom import end_left_over
from harness.rules import Rules
from harness.trial import Status


def recover(recorder: Recorder, ratchet: Ratchet) -> None:
    """Make the world agree with the journal; raises `BranchMoved` when someone else moved the branch."""
    study = recorder.study
    for path in ratchet.clear_stale_locks():
        recorder.emit(Warned(code="git", message=f"removed {path}, left by a killed git"))
    launched = study.launched
    if launched is not None:
        end_orphan(launched.pid, launched.process_started, launched.boot_id, launched.marker)
        if not _was_trained(study):
            recorder.emit(Interrupted(trial=launched.trial, replicate=launched.replicate, reason="the harness ended during the job"))
    for call in sorted(recorder.folder.agents.glob("*")):
        end_left_over(call)
    close_open_calls(recorder, recorder.folder)
    _check_branch(study, ratchet)


def unseen_seconds(folder: StudyDir, study: Study, rules: Rules) -> float:
    """Seconds that a harness went on after its last event before it died: it waited, or worked, as the files of the open reading tell; then at most a trial's limits."""
    launched = study.launched
    if study.stop is not None:
        return 0.0
    waited = 0.0
    with suppress(OSError, ValueError):  # it never waited long
        beat = float((folder.path / BEAT).read_text())
        waited = max(0.0, beat - study.elapsed) if math.isfinite(beat) else 0.0
    if launched is None:
        return waited
    last = moment(study.last_at).timestamp()
    row = study.row(launched.trial)
    reading = folder.trial(row.folder).reading(launched.replicate)
    touched = [_touched(path) for path in (reading.train_log, reading.curve, reading.evaluate_log)]
    limit = rules.trial.setup_seconds + rules.trial.train_seconds + rules.trial.evaluate_seconds
    return max(waited, min(max(0.0, max(touched) - last), limit))


def _touched(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _was_trained(study: Study) -> bool:
    launched, row = study.launched, study.current
    assert launched is not None, "asked only when a job was launched"
    return row is not None and row.trial == launched.trial and any(r.replicate == launched.replicate for r in row.readings)


def allowed_tips(study: Study) -> list[str]:
    """Where the branch may be: at the incumbent, or already at a keep that is decided and not yet settled."""
    assert study.started is not None, "checked by the caller"
    tips = [study.incumbent.commit if study.incumbent and study.incumbent.commit else study.started.baseline_commit]
    row = study.current
    if row is not None and row.status is Status.KEEP and row.commit:
        tips.append(row.commit)
    return tips


def _check_branch(study: Study, ratchet: Ratchet) -> None:
    tip, allowed = ratchet.resolve(ratchet.branch_ref), allowed_tips(study)
    if tip not in allowed:
        raise BranchMoved(
            f"{ratchet.branch} is at {(tip or 'nothing')[:12]}, but the journal left it at {allowed[0][:12]}; nothing was forced; "
            f"put it back with `git update-ref {ratchet.branch_ref} {allowed[0]}`, then `ratchet resume`"
        )
