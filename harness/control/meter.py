"""The meter of a night: every call of a model goes through it, announced in the journal before it is made and settled after."""

from __future__ import annotations

import json
from collections.abc import Callable

from harness.artifacts.call_events import Answered, Asked, Bill, Estimate
from harness.artifacts.trial_dir import StudyDir
from harness.control import budget, money
from harness.control.limits import Limits
from harness.control.recorder import Recorder
from harness.errors import ModelUnavailable
from harness.execution.clock import Clock
from harness.rules import Rules

LOST = "the harness ended during the call; it counts by its upper estimate"


class NightMeter:
    """The `Meter` of one study."""

    def __init__(self, recorder: Recorder, limits: Callable[[], Limits], rules: Callable[[], Rules], clock: Clock) -> None:
        self._recorder, self._limits, self._rules, self._clock = recorder, limits, rules, clock

    def fits(self, estimate: Estimate) -> bool:
        """Whether the call may be made."""
        return money.refusal(self._recorder.study.calls, self._limits(), estimate) is None

    def ask(self, estimate: Estimate) -> int:
        """Announce the call; raises `ModelUnavailable` when it does not fit."""
        refused = money.refusal(self._recorder.study.calls, self._limits(), estimate)
        if refused is not None:
            raise ModelUnavailable(refused[0], refused[1])
        number = self._recorder.study.calls.made + 1
        self._recorder.emit(Asked(call=number, **estimate.model_dump()))
        return number

    def settle(self, number: int, bill: Bill) -> None:
        """The call ended."""
        self._recorder.emit(answered(number, bill))

    def seconds_left(self) -> float | None:
        """What is left of the night less one trial."""
        study = self._recorder.study
        seconds = budget.left(study, self._limits(), self._rules(), self._clock.now()).seconds
        return None if seconds is None else max(0.0, seconds - budget.expected_seconds(study))


def answered(number: int, bill: Bill) -> Answered:
    """The event that settles a call."""
    return Answered(call=number, **{**bill.model_dump(), "detail": bill.detail[:300]})


def close_open_calls(recorder: Recorder, folder: StudyDir) -> None:
    """Settle what a dead harness left open: by the bill it had stored, else by the upper estimate."""
    for number, asked in sorted(recorder.study.calls.open.items()):
        recorder.emit(answered(number, _stored(folder, asked.record) or Bill(outcome="lost", detail=LOST, model=asked.model)))


def _stored(folder: StudyDir, record: str) -> Bill | None:
    """The bill beside a request's record; `None` when the reply never came, or another file lies there."""
    path = folder.bill(record) if record else None
    if path is None or not path.is_file():
        return None
    try:
        return Bill.model_validate(json.loads(path.read_bytes())["bill"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
