"""Independent reviews of would-be keeps, where a rule asks for one: when, by whom, and what a verdict leads to.

A review is asked for at the end of a trial and journalled once. A kill or a signal in the middle loses it; it is asked for once more, then it counts as missing.
Only a valid pass leaves a keep a keep. Anything else blocks it, and a person is asked; what she approves is trained and judged again without a review.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.artifacts.call_events import Bill, Estimate
from harness.artifacts.oversight_events import Lapsed, Reviewed
from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.control.inbox import Inbox
from harness.control.recorder import Recorder
from harness.evaluation import approval, critic
from harness.execution.clock import Clock
from harness.execution.workplace import in_scope
from harness.proposers import reviewer
from harness.proposers.fence import flat
from harness.proposers.metering import Meter
from harness.proposers.reviewer import Reviewer
from harness.questions import Option
from harness.reviews import Review
from harness.rules import Rules
from harness.trial import Proposal, Reading, Status, Verdict

MOST_REQUESTS = 2
Texts = Callable[[str], Mapping[str, str]]
OPTIONS = (
    Option(id="leave", effect="the incumbent stays; the trial stays on record as blocked"),
    Option(id="keep", effect="the same change is trained and judged again on the same incumbent, without a review, and kept if it is better again"),
)  # fmt: skip


@dataclass(frozen=True)
class _ReviewMeter:
    """The night's meter for the review of one trial. A trial that is open is finished whatever the time, so the review's own limit is the only one on it."""

    meter: Meter
    trial: int

    def fits(self, estimate: Estimate) -> bool:
        return self.meter.fits(estimate)

    def ask(self, estimate: Estimate) -> int:
        return self.meter.ask(estimate.model_copy(update={"review": self.trial}))

    def settle(self, number: int, bill: Bill) -> None:
        self.meter.settle(number, bill)

    def seconds_left(self) -> float | None:
        return None


class Reviewing:
    """The reviews of one study. `text_at` gives the text of a file at a commit."""

    def __init__(
        self, recorder: Recorder, inbox: Inbox, meter: Meter, text_at: Callable[[str, str], str], interrupted: Callable[[], str], clock: Clock,
    ) -> None:  # fmt: skip
        self._recorder, self._inbox, self._meter, self._text_at = recorder, inbox, meter, text_at
        self._interrupted, self._clock = interrupted, clock

    @property
    def _study(self) -> Study:
        return self._recorder.study

    def complete(self, row: TrialRow, readings: Sequence[Reading], verdict: Verdict, rules: Rules, texts: Texts) -> bool:
        """Whether nothing more is due before the verdict; a review that is due is asked for and journalled."""
        if verdict.status is not Status.KEEP or row.trial in self._study.reviewing.reviews or not rules.review.asked_for:
            return True
        change = critic.read(texts(row.parent), texts(row.commit or row.parent))
        asked_by = critic.due(rules, row, verdict, self._study.incumbent, change)
        if not asked_by:
            return True
        review = self._review(row, rules, asked_by, change)
        if review is None:
            return False
        self._recorder.emit(Reviewed(trial=row.trial, review=review))
        return True

    def heard(self, row: TrialRow, verdict: Verdict, rules: Rules, texts: Texts) -> Verdict:
        """What the review leaves of a keep; only a valid pass leaves it as it is."""
        review = self._study.reviewing.reviews.get(row.trial)
        if verdict.status is not Status.KEEP or (review is None and not rules.review.asked_for):
            return verdict
        before, after = texts(row.parent), texts(row.commit or row.parent)
        asked_by = review.asked_by if review else critic.due(rules, row, verdict, self._study.incumbent, critic.read(before, after))
        if not asked_by:
            return verdict
        if critic.passes(review):
            return verdict.model_copy(update={"detail": "; ".join(filter(None, (verdict.detail, f"passed a review ({asked_by})")))})
        reason, detail = critic.ruling(review, asked_by)
        self._ask(row, verdict, rules, review, detail)
        return critic.blocked(verdict, reason, flat(detail, 400), self._study.bar)

    def approved(self, number: int, tip: str, rules: Rules) -> Proposal | None:
        """A blocked keep that a person approved, as a new proposal on the present incumbent; once, and only where that is still its parent."""
        for trial in approval.waiting(self._study):
            row = self._study.row(trial)
            if row.parent != tip or row.commit is None or row.proposal is None:
                why = f"the incumbent on which trial {trial} was better has been replaced meanwhile; nothing is done"
                self._recorder.emit(Lapsed(trial=trial, why=why))
                continue
            told = Proposal.model_validate_json(self._recorder.folder.proposal(row.proposal).read_bytes())
            texts = in_scope(self._text_at, row.commit, rules)
            files: dict[str, str | None] = {name: text for name, text in texts.items() if text != self._text_at(tip, name)}
            return told.model_copy(update={
                "id": number, "parent": tip, "files": files, "proposer": "person", "model": None, "usage": {}, "cost_usd": None, "replicates": None,
                "repairs": None, "approves": trial,
            })  # fmt: skip
        return None

    def _review(self, row: TrialRow, rules: Rules, asked_by: str, change: critic.Read | None) -> Review | None:
        """The review, or why there is none; `None` when it was interrupted."""
        fold, model = self._study.reviewing, reviewer.law(rules).names[0]
        none = Review(asked_by=asked_by, model=model)
        if change is None:
            return none.model_copy(
                update={"void": "unreadable", "detail": "it cannot be shown: a text is no code, or code reads its own text"}
            )
        if fold.asked.get(row.trial, 0) >= MOST_REQUESTS:
            return none.model_copy(update={"void": "lost", "detail": f"it was asked for {MOST_REQUESTS} times and cut off each time"})
        if fold.made >= rules.review.in_all:
            return none.model_copy(update={"void": "in_all", "detail": f"all {rules.review.in_all} reviews are used ([review] in_all)"})
        given = critic.build(change.diff, rules.review.criteria, critic.floor(rules))
        one = Reviewer(rules, self._recorder.folder, _ReviewMeter(self._meter, row.trial), self._interrupted, self._clock)
        return one.review(given, asked_by, row.proposal or 0, row.trial, self._recorder.folder.trial(row.folder).review)

    def _ask(self, row: TrialRow, verdict: Verdict, rules: Rules, review: Review | None, detail: str) -> None:
        """The question; asked once, whatever restarts."""
        error = "" if verdict.standard_error is None else f" ± {verdict.standard_error:.4g}"
        gain = "an unknown gain" if verdict.gain is None else f"a gain of {verdict.gain:.4g}{error}"
        evidence = [flat(detail, 1000)]
        if review is not None and review.result is not None:
            evidence += [flat(f"{one.code}: {one.message} (passes when: {one.passes_when})", 500) for one in review.result.findings]
            evidence += [flat(f"can be cut: {review.result.what_can_be_cut}", 500)]
            evidence += [flat(f"answers the owner's words: {review.result.answers_owner_words}, {review.result.because}", 500)]
        files = self._recorder.folder.trial(row.folder)
        evidence += [f"{row.folder}: diff.patch, verdict.json{', review.json' if files.review.exists() else ''}"]
        self._inbox.ask(
            rules, kind="review", key=approval.key(row.trial), candidate=flat(f"trial {row.trial}: {row.title}", 300), evidence=evidence,
            impact=f"{gain} is measured and not kept; the study goes on from the incumbent", options=OPTIONS, default="leave", blocks="line",
            trial=row.trial,
        )  # fmt: skip
