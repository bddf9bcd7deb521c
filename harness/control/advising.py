"""The paid critic of the stall ladder: asks the reviewer's model what was overlooked, unless the study is about to end. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable

from harness.artifacts.study import Study
from harness.control import budget
from harness.control.limits import Limits
from harness.control.recorder import Recorder
from harness.execution.clock import Clock
from harness.execution.workplace import in_scope
from harness.proposers.advice import Adviser
from harness.proposers.metering import Meter
from harness.rules import Rules


class Advising:
    """The critic of one study. `text_at` gives the text of a file at a commit."""

    def __init__(
        self, recorder: Recorder, meter: Meter, text_at: Callable[[str, str], str], limits: Callable[[], Limits], interrupted: Callable[[], str],
        clock: Clock,
    ) -> None:  # fmt: skip
        self._recorder, self._meter, self._text_at = recorder, meter, text_at
        self._limits, self._interrupted, self._clock = limits, interrupted, clock

    def overlooked(self, study: Study, rules: Rules) -> str | None:
        """What the model says; `None` when it was interrupted, or when no trial would come of it. Raises as `Adviser.overlooked`."""
        limits, best = self._limits(), study.incumbent
        if best is None or best.commit is None or self._interrupted() or budget.stop(study, limits, rules, self._clock.now()) is not None:
            return None
        files = in_scope(self._text_at, best.commit, rules)
        one = Adviser(rules, self._recorder.folder, self._meter, self._interrupted, self._clock)
        return one.overlooked(study, files, frozenset(limits.given()))
