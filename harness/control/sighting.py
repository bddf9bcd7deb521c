"""The facts that detectors get: of a settled trial or a refused proposal, from the journal's fold and the study's folder. Nothing here decides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.artifacts.trial_row import Refusal, TrialRow
from harness.errors import StudyUnknown
from harness.evaluation import evasion
from harness.evaluation.detectors import Earlier, Seen, alike
from harness.followups import Outcome, Verification
from harness.rules import Rules
from harness.trial import FAILED, MEASURED, Proposal, Status

BEFORE = 6
EDIT = re.compile(r"([A-Za-z_]\w*): (\S+) -> (\S+)")
NOISE = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[-+]?\d+)?|(?:/[\w.+-]+)+", re.IGNORECASE)


def of_trial(study: Study, folder: StudyDir, rules: Rules, row: TrialRow) -> Seen:
    """The facts of a settled trial; only what was journalled up to its end, so that a restart sees the same."""
    verdict, verification = row.verdict, study.watch.verification(row.trial)
    known = _fingerprints(study)
    at = [one.trial for one in study.rows].index(row.trial)
    before = [one for one in study.rows[:at] if one.trial and one.status is not Status.INTERRUPTED]
    printed = _printed(row)
    return Seen(
        trial=row.trial, proposal=row.proposal, status=row.status, reason=verdict.reason if verdict else "", detail=verdict.detail if verdict else "",
        **_repeated(row, study.rows[:at]), repairs=row.repairs, fingerprint=_fingerprint(row, known), value=row.value,
        sigma=row.noise.sigma if row.noise else 0.0, before=tuple(_earlier(folder, row, one, known) for one in before[-BEFORE:]),
        turned=_turned([*before, row], row), inside=verification.delta_inside_scope if verification else None,
        clean=verification.no_side_effect if verification else None, unproven=_unproven(verification), voids=tuple(study.watch.voids),
        survivors=max((one.outcome.survivors for one in row.readings), default=0), touches=_touches(study, folder, rules, row), too_good=_too_good(rules, row), printed=printed, better_printed=_flatters(rules, row, printed),
        foreign=_foreign(study, row), unaudited=_unaudited(study, rules, row), review=_review(study, row.trial),
    )  # fmt: skip


def of_refusal(study: Study, folder: StudyDir, rules: Rules, refusal: Refusal) -> Seen:
    """The facts of a refused proposal; of one that was never stored only its reason is known."""
    proposal = _stored(folder, refusal.proposal)
    paths = [path for path in proposal.files if path not in rules.scope.editable] if proposal else []
    guarded = [path for path in paths if any(path == one or (one.endswith("/") and path.startswith(one)) for one in rules.scope.protected)]
    earlier = _row(study, refusal.earlier)
    return Seen(
        proposal=refusal.proposal, refused=refusal.reason, detail=refusal.detail, repairs=proposal.repairs if proposal else None,
        same=refusal.earlier if refusal.reason in ("duplicate", "blind_retry") else None, same_failed=earlier is not None and earlier.status in FAILED,
        outside=tuple(sorted(paths)), protected=tuple(sorted(guarded)),
    )  # fmt: skip


def _fingerprints(study: Study) -> dict[int, str]:
    """Of the trials whose error has a packet."""
    return {trial: mark for mark, trials in study.repairs.fingerprints.items() for trial in trials}


def _fingerprint(row: TrialRow, known: Mapping[int, str]) -> str:
    """Of its error; without a packet its status, reason and words, numbers and paths apart. '' when it did not fail."""
    if row.status not in FAILED or row.verdict is None:
        return ""
    return known.get(row.trial) or f"{row.verdict.status.value} {row.verdict.reason} {NOISE.sub('#', row.verdict.detail)[:160]}".strip()


def _earlier(folder: StudyDir, row: TrialRow, one: TrialRow, known: Mapping[int, str]) -> Earlier:
    mark = _fingerprint(one, known)
    both = (_diff(folder, row), _diff(folder, one)) if mark and mark == _fingerprint(row, known) else ("", "")
    return Earlier(trial=one.trial, fingerprint=mark, value=one.value, alike=alike(*both))


def _diff(folder: StudyDir, row: TrialRow) -> str:
    try:
        return folder.trial(row.folder).diff.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _repeated(row: TrialRow, earlier: Sequence[TrialRow]) -> dict[str, int | bool | None]:
    """The trial that had this program before. A declared replication, what a person approved, and what the machine had interrupted, may come again."""
    if row.trial == 0 or row.replicates is not None or row.approves is not None:
        return {}
    same = [one for one in earlier if one.change.ast_sha256 == row.change.ast_sha256 and one.status is not Status.INTERRUPTED]
    failed = [one for one in same if one.status in FAILED]
    if len(failed) == len(same) and row.change.file_sha256 not in {one.change.file_sha256 for one in failed}:
        return {}
    return {"same": same[-1].trial, "same_failed": same[-1].status in FAILED}


def _turned(rows: Sequence[TrialRow], row: TrialRow) -> tuple[tuple[str, str], ...]:
    """The last values of the constant that is the trial's axis."""
    found = (EDIT.fullmatch(one.edit) for one in rows if one.axis == row.axis and one.status in MEASURED)
    pairs = [(edit.group(2), edit.group(3)) for edit in found if edit and edit.group(1) == row.axis]
    return tuple(pairs[-4:]) if row.status in MEASURED else ()


def _unproven(verification: Verification | None) -> tuple[str, ...]:
    return verification.unproven if verification is not None and verification.outcome is Outcome.ACCEPTED else ()


def _touches(study: Study, folder: StudyDir, rules: Rules, row: TrialRow) -> tuple[str, ...]:
    parent = next((one for one in study.rows if one.commit == row.parent), None)
    if row.trial == 0 or parent is None:
        return ()
    texts = ((_text(folder, row, name), _text(folder, parent, name)) for name in rules.scope.editable)
    return tuple(said for new, old in texts for said in evasion.touches(new, old))


def _text(folder: StudyDir, row: TrialRow, name: str) -> str:
    try:
        return folder.trial(row.folder).file(name).read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _printed(row: TrialRow) -> float | None:
    return next((one.outcome.printed_metric for one in row.readings if one.outcome.printed_metric is not None), None)


def _flatters(rules: Rules, row: TrialRow, printed: float | None) -> bool:
    value = row.value
    if printed is None or value is None:
        return False
    ahead = value - printed if rules.metric.direction == "lower" else printed - value
    return ahead > rules.result.printed_tolerance


def _too_good(rules: Rules, row: TrialRow) -> bool:
    """Beyond the plausible band on the side that would be better."""
    value, (low, high) = row.value, rules.metric.plausible
    return value is not None and (value <= low if rules.metric.direction == "lower" else value >= high)


def _foreign(study: Study, row: TrialRow) -> str:
    ours = study.started.data.data_sha256 if study.started else ""
    measured = [one.measurement for one in row.readings if one.measurement]
    other = next((one for one in measured if one.data_sha256 != ours or not one.token), None)
    return "" if other is None else "of other data" if other.token else "without a token"


def _unaudited(study: Study, rules: Rules, row: TrialRow) -> bool:
    due = rules.audit.positions > 0 and study.started is not None and study.started.data.audit
    return due and row.trial != 0 and (not row.readings or row.readings[0].audit is None)


def _review(study: Study, trial: int) -> str:
    review = study.reviewing.reviews.get(trial)
    if review is None:
        return ""
    return review.result.verdict if review.result else "void"


def _row(study: Study, trial: int | None) -> TrialRow | None:
    try:
        return study.row(trial) if trial is not None else None
    except StudyUnknown:
        return None


def _stored(folder: StudyDir, number: int) -> Proposal | None:
    try:
        return Proposal.model_validate_json(folder.proposal(number).read_bytes())
    except (OSError, ValidationError):
        return None
