"""Independent reviews, what became of them, and what promises were worth: lines for `ratchet show`, `status` and the report. It counts what the journal tells."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from harness.artifacts import gains
from harness.artifacts.ladder import PROPOSED
from harness.artifacts.oversight_events import Reviewed
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import TrialDir
from harness.artifacts.trial_row import TrialRow
from harness.evaluation import approval, promise
from harness.reviews import Review
from harness.trial import Proposal, Status
from harness.views.text import flatten, md, number, plural, signed, table

FATES = (
    "kept",
    "kept, gone when measured again",
    "approved and kept",
    "approved, not kept again",
    "approved too late",
    "left",
    "waits for an answer",
    "not kept",
)
YES = {True: "yes", False: "no", None: "cannot be told"}


def word(review: Review) -> str:
    """`pass`, `fail`, `uncertain`, or `none` for a review that is no verdict."""
    return review.result.verdict if review.result and not review.void else "none"


def told(event: Reviewed, _study: Study) -> str:
    """The line that a review is worth on the console."""
    review = event.review
    why = f": {flatten(_why(review), 200)}" if word(review) != "pass" else ""
    return f"trial {event.trial} reviewed by {flatten(review.model, 60)}, {flatten(review.asked_by, 120)}: {word(review)}{why}"


def fate(study: Study, trial: int) -> str:
    """What became of a reviewed trial."""
    row = next((row for row in study.rows if row.trial == trial), None)
    if row is None:
        return "not kept"
    again = next((other for other in study.rows if other.approves == trial and other.status is not Status.INTERRUPTED), None)
    if row.status is Status.KEEP:
        return "kept, gone when measured again" if _gone(study, row) else "kept"
    if again is not None:
        return "approved and kept" if again.status is Status.KEEP else "approved, not kept again"
    if row.status is not Status.BLOCKED:
        return "not kept"
    if trial in study.reviewing.approved:
        return "approved, but refused" if study.reviewing.approved[trial] == PROPOSED else "approved too late"
    return "waits for an answer" if study.inbox.answer(approval.key(trial)) in (None, approval.KEEP) else "left"


def _gone(study: Study, row: TrialRow) -> bool:
    """Its later, unselected readings show no gain over what it had to beat."""
    again, verdict = study.rereadings.get(row.trial, [])[1:], row.verdict
    if not again or verdict is None or verdict.gain is None or verdict.value is None:
        return False
    before = verdict.value + gains.sign(study) * verdict.gain
    return gains.sign(study) * (before - sum(again) / len(again)) <= 0


def status_lines(study: Study) -> list[str]:
    """The line of `ratchet status`, none when nothing was reviewed."""
    if not study.reviewing.reviews:
        return []
    counts = Counter(map(word, study.reviewing.reviews.values()))
    words = {"pass": "pass", "fail": "fail", "uncertain": "uncertain", "none": "without a verdict"}
    said = ", ".join(f"{counts[name]} {shown}" for name, shown in words.items() if counts[name])
    waiting = sum(question.kind == "review" for question in study.inbox.open.values())
    asked = f"; {plural(waiting, 'keep waits', 'keeps wait')} for you in `ratchet inbox`" if waiting else ""
    return [f"  reviews    {plural(len(study.reviewing.reviews), 'review')}: {said}{asked}"]


def section(study: Study) -> str:
    """The report's part on reviews: verdicts against what became of them, and every trial that was not kept for one."""
    reviews = study.reviewing.reviews
    if not reviews:
        return ""
    fates = {trial: fate(study, trial) for trial in reviews}
    counts = Counter((word(review), fates[trial]) for trial, review in reviews.items())
    shown = [name for name in FATES if name in fates.values()]
    cells = [[verdict, *(str(counts[verdict, name] or "") for name in shown)] for verdict in ("pass", "fail", "uncertain", "none")
             if any(counts[verdict, name] for name in shown)]  # fmt: skip
    wrong = sum(word(review) != "pass" and fates[trial] == "approved and kept" for trial, review in reviews.items())
    gone = sum(name == "kept, gone when measured again" for name in fates.values())
    told = (
        f"Blocked though right (approved by a person and kept again): {wrong:,}. Passed though wrong (gone when measured again): {gone:,}."
    )
    rows = [[str(trial), word(review), md(_why(review), 200), md(_title(study, trial), 60), fates[trial]] for trial, review in reviews.items()
            if word(review) != "pass"]  # fmt: skip
    blocked = f"\n\n{table(['trial', 'verdict', 'why', 'what', 'became'], rows[-12:])}" if rows else ""
    note = "A review is evidence; only the ratchet keeps."
    return f"## Independent reviews\n\n{note}\n\n{table(['verdict', *shown], cells)}\n\n{told}{blocked}"


def _title(study: Study, trial: int) -> str:
    return next((row.title for row in study.rows if row.trial == trial), "")


def _why(review: Review) -> str:
    if review.result is None or review.void:
        return f"{review.void}: {review.detail}"
    return "; ".join(f"{one.code}: {one.message}" for one in review.result.findings) or review.result.because


def calibration(study: Study) -> str:
    """The report's part on promises: predicted gains against measured ones. Nothing is decided by it."""
    told = []
    for row in study.rows:
        hoped, verdict = promise.expected(row.expected) if row.expected else None, row.verdict
        if hoped is not None and verdict is not None and verdict.gain is not None and verdict.standard_error:
            told.append((hoped, verdict.gain, verdict.standard_error))
    if not told:
        return ""
    rows = [[_range(one), str(one.trials), signed(one.predicted, 4), signed(one.measured, 4), f"{one.better} of {one.trials}", f"{one.reached} of {one.trials}"]
            for one in promise.calibration(told)]  # fmt: skip
    head = ["predicted, in standard errors", "trials", "predicted", "measured", "better at all", "as much as predicted"]
    note = "What proposers predicted against what was measured, means of each bin. Nothing rests on a prediction."
    return f"## Promises\n\n{note}\n\n{table(head, rows)}"


def _range(one: promise.Bin) -> str:
    if one.low is None:
        return f"{one.high:g} or less"
    return f"above {one.low:g}" if one.high is None else f"above {one.low:g}, up to {one.high:g}"


def show_lines(row: TrialRow, study: Study, files: TrialDir) -> list[str]:
    """What `ratchet show` says of a trial's review, of an approval and of its promise."""
    review, lines = study.reviewing.reviews.get(row.trial), []
    if review is not None:
        lines.append(
            f"  review    {word(review)} by {flatten(review.model, 60)}; asked for by {flatten(review.asked_by, 120)}; {fate(study, row.trial)}"
        )
        lines += [f"            {flatten(_why(review), 400)}"] if word(review) != "pass" else []
        lines += (
            [f"            refuted if {flatten(review.result.refuted_if, 300)}; can be cut: {flatten(review.result.what_can_be_cut, 200)}"]
            if review.result
            else []
        )
        lines += [f"            all of it: {files.review}"] if files.review.exists() else []
    if row.approves is not None:
        lines.append(f"  approved  by a person: trial {row.approves} once more, without a review")
    return lines + _promise(row, files)


def _promise(row: TrialRow, files: TrialDir) -> list[str]:
    told = _proposal(files.proposal)
    if told is None or not (told.axis or told.expected_effect or told.refuted_if) or row.verdict is None:
        return []
    diff = files.diff.read_text(errors="replace").splitlines() if files.diff.exists() else []
    changed = [line[1:] for line in diff if line[:1] in ("+", "-") and line[:3] not in ("+++", "---")]
    found = promise.verify(told.axis, told.refuted_if, told.expected_effect, changed, row.verdict.gain, row.verdict.standard_error)
    hoped = "no number" if found.expected is None else number(found.expected, 4)
    return [
        f"  promise   its axis is in the change: {YES[found.axis_in_change]}; says what refutes it: {YES[found.says_what_refutes]}; expected {hoped}; "
        f"better: {YES[found.better]}; expectation refuted: {YES[found.expectation_refuted]}"
    ]


def _proposal(path: Path) -> Proposal | None:
    return Proposal.model_validate_json(path.read_bytes()) if path.exists() else None
