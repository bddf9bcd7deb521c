"""Messages to the person's channels, at most once each: journalled before one leaves, journalled when it is known how that ended.

It never holds up the study: one message is on its way at a time, and looked after between trials. Addresses come from the environment and go to the sending
process only; the journal has the names of the variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from harness.artifacts.events import Warned
from harness.artifacts.inbox import CAP
from harness.artifacts.oversight_events import Sending, Sent
from harness.control import telling
from harness.control.recorder import Recorder
from harness.control.telling import News
from harness.execution.clock import Clock
from harness.execution.deliver import UNKNOWN
from harness.execution.messenger import Messenger
from harness.oversight import Escalation

CODE = "channel"
UNKNOWN_END = "the harness ended while it was on its way; it may or may not have arrived, and is not sent again"
LOOK_SECONDS = 0.02


class Post:
    """The messages of one study."""

    def __init__(self, recorder: Recorder, clock: Clock, environment: Mapping[str, str] = os.environ) -> None:
        self._recorder, self._clock, self._environment = recorder, clock, environment
        self._channels: tuple[str, ...] = ()
        self._bad: set[str] = set()
        self._check: Messenger | None = None
        self._message: Messenger | None = None

    def open(self, law: Escalation) -> None:
        """Have the channels looked at, once for each list of them; a message that a dead harness left on its way is never sent again."""
        if self._message is None and (lost := self._recorder.study.inbox.in_flight) is not None:
            self._sent(dict.fromkeys(lost.channels, UNKNOWN_END), warn=True)
        if law.channels == self._channels:
            return
        self._channels, self._bad = law.channels, set()
        missing = [name for name in law.channels if not self._environment.get(name, "").strip()]
        if missing:
            self._warn(
                f"[escalation] channels: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set in the environment; nothing is sent there"
            )
        if self._check is not None:
            self._check.end()
            self._check = None
        if addresses := self._addresses(law):
            self._check = Messenger(addresses, "", None, self._clock)

    def collect(self, warn: bool = True) -> None:
        """Take in what has become of what is on its way."""
        if self._check is not None and (seen := self._check.outcomes()) is not None:
            self._check = None
            self._judge({name: why for name, why in seen.items() if why == UNKNOWN})
        if self._message is not None and (outcomes := self._message.outcomes()) is not None:
            self._message = None
            self._sent(outcomes, warn)

    def tell(self, law: Escalation, news: News, title: str, body: str) -> bool:
        """Send one message, if the rules leave room for it and no other is on its way; whether it left."""
        if not self._addresses(law) or self._message is not None or telling.quiet(law, self._clock.now()):
            return False
        self._settle_check()
        addresses, study = {name: one for name, one in self._addresses(law).items() if name not in self._bad}, self._recorder.study
        if not addresses:
            return False
        if not telling.room(study.inbox, law, news.stop is not None):
            if law.messages and news.stop is None and not study.inbox.capped:
                self._warn(
                    f"[escalation] messages = {law.messages}: they are used up, or the last is kept for the end; what is new waits in `ratchet inbox`",
                    CAP,
                )
            return False
        self._recorder.emit(Sending(message=study.inbox.messages + 1, about=news.keys, channels=tuple(addresses)))
        self._message = Messenger(addresses, title, body, self._clock)
        return True

    def finish(self, seconds: float) -> None:
        """Wait for what is on its way, at most so long; then it is ended. Nothing is left running."""
        began = self._clock.monotonic()
        while self._message is not None and self._clock.monotonic() - began < seconds:
            self._clock.sleep(LOOK_SECONDS)
            self.collect(warn=False)
        if self._message is not None:
            outcomes, self._message = self._message.end(), None
            self._sent(outcomes, warn=False)
        self.close()

    def close(self) -> None:
        """End what is on its way, whatever became of it; the journal is left as it is."""
        for one in (self._check, self._message):
            if one is not None:
                one.end()
        self._check = self._message = None

    def _addresses(self, law: Escalation) -> dict[str, str]:
        return {name: address for name in law.channels if (address := self._environment.get(name, "").strip())}

    def _settle_check(self) -> None:
        """Before the first message: what is no address is known by then, a moment later at most."""
        for _ in range(200):
            self.collect()
            if self._check is None:
                return
            self._clock.sleep(LOOK_SECONDS)

    def _judge(self, wrong: dict[str, str]) -> None:
        self._bad = set(wrong)
        for name, why in wrong.items() - self._recorder.study.inbox.failing.items():
            self._warn(f"[escalation] channels: {name}: {why}; nothing is sent there")

    def _sent(self, outcomes: dict[str, str], warn: bool) -> None:
        inbox = self._recorder.study.inbox
        assert inbox.in_flight is not None, "sending comes before sent"
        fresh = {name: why for name, why in outcomes.items() if why and name not in inbox.failing}
        self._recorder.emit(Sent(message=inbox.in_flight.message, outcomes=outcomes))
        for name, why in fresh.items() if warn else ():
            self._warn(f"message {inbox.messages} through {name}: {why}; it is said once, `ratchet inbox` has every question")

    def _warn(self, message: str, code: str = CODE) -> None:
        self._recorder.emit(Warned(code=code, message=message))
