"""Runs the detectors over what has just ended: the last settled trial, the last refused proposal. Each finding is journalled once."""

from __future__ import annotations

from harness.artifacts.oversight_events import Detected
from harness.artifacts.study import Study
from harness.control import sighting
from harness.control.recorder import Recorder
from harness.evaluation import detectors
from harness.evaluation.detectors import Seen
from harness.rules import Rules


class Watching:
    """The watch of one study. A restart looks at the last trial and refusal again; the fold knows what was found on them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._trial = self._proposal = -1

    @property
    def _study(self) -> Study:
        return self._recorder.study

    def look(self, rules: Rules) -> None:
        """Journal what the detectors find on what has ended since the last look."""
        study, folder = self._study, self._recorder.folder
        if study.refusals and study.refusals[-1].proposal > self._proposal:
            self._proposal = study.refusals[-1].proposal
            self._tell(sighting.of_refusal(study, folder, rules, study.refusals[-1]))
        if study.rows and study.rows[-1].trial > max(0, self._trial):
            self._trial = study.rows[-1].trial
            self._tell(sighting.of_trial(study, folder, rules, study.rows[-1]))

    def _tell(self, seen: Seen) -> None:
        for name, sentence in detectors.findings(seen):
            event = Detected(detector=name, trial=seen.trial, proposal=seen.proposal, detail=sentence[:300])
            if not self._study.watch.knows(event):
                self._recorder.emit(event)
