"""One answer of a model: announced, recorded, sent, settled; and sent again only where that can help and the night has the time.

Requests and replies lie in the proposal's folder as `001.request.json` and `001.reply.json`, without keys: the request before it is sent, the reply with
its bill before it is settled, so that a kill in between loses neither the call nor what it cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from harness.artifacts import durable
from harness.artifacts.call_events import Bill, Estimate
from harness.errors import ModelUnavailable
from harness.execution.clock import Clock
from harness.proposers import account, prices
from harness.proposers.fates import Fate, Reply
from harness.proposers.metering import Meter
from harness.proposers.prices import Prices
from harness.proposers.secret import Secrets
from harness.sections import Model

NAME = "anthropic"
OVERHEAD_TOKENS = 3000  # what a server adds around our text: the tools' own instructions, the marks of roles
COUNT_MARGIN = 1.05
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 16.0
NAP_SECONDS = 0.1
COUNT_SECONDS = 30.0
INTERRUPTED = Reply(Fate.INTERRUPTED, "interrupted", billed=False)


class Sender(Protocol):
    """What sends one request once: `wire.Wire`."""

    def send(self, body: Mapping[str, Any], wall_seconds: float, silence_seconds: float, interrupted: Callable[[], str]) -> Reply:
        """One try."""
        ...

    def count_tokens(self, body: Mapping[str, Any], wall_seconds: float, interrupted: Callable[[], str]) -> int | None:
        """Input tokens of a request, as the server counts them; `None` when it cannot say."""
        ...


@dataclass
class Spent:
    """What one proposal used so far; `cost_usd` is `None` once a call had no known cost."""

    usage: dict[str, int] = field(default_factory=dict)
    cost_usd: float | None = 0.0

    def add(self, bill: Bill) -> None:
        """One more call."""
        for name, count in bill.usage.items():
            self.usage[name] = self.usage.get(name, 0) + count
        self.cost_usd = None if self.cost_usd is None or bill.cost_usd is None else self.cost_usd + bill.cost_usd


class Asking:
    """The calls of one proposal."""

    def __init__(
        self, sender: Sender, meter: Meter, listed: Prices, law: Model, folder: Path, number: int, interrupted: Callable[[], str], clock: Clock,
        secrets: Secrets,
    ) -> None:  # fmt: skip
        self._sender, self._meter, self._prices, self._law = sender, meter, listed, law
        self._folder, self._number, self._interrupted, self._clock, self._secrets = folder, number, interrupted, clock, secrets
        # an outage or a kill may have ended an earlier conversation about this proposal
        self._sent = len(list(folder.glob("*.request.json")))
        self.spent = Spent()

    @classmethod
    def once(cls, sender: Sender, meter: Meter, law: Model, folder: Path, number: int, stopped: Callable[[], str], clock: Clock, secrets: Secrets) -> Asking:  # fmt: skip
        """For one request that has `law.wall_seconds` in all, its further tries included."""
        folder.mkdir(parents=True, exist_ok=True)
        end = clock.monotonic() + law.wall_seconds

        def over() -> str:
            return stopped() or ("it took too long" if clock.monotonic() >= end else "")

        return cls(sender, meter, account.price_list(law), law, folder, number, over, clock, secrets)

    def ask(self, body: Mapping[str, Any]) -> Reply:
        """The answer, or the last try's reply when there is none to be had now. Raises `ModelUnavailable` when a limit forbids the call."""
        if self._interrupted():
            return INTERRUPTED
        tries, estimate = 0, self._estimate(body, retry=False)
        while True:
            reply = self._try(body, estimate)
            pause = self._pause(reply, tries)
            if pause is None:
                return reply
            if not self._sleep(pause):
                return INTERRUPTED
            tries, estimate = tries + 1, self._estimate(body, retry=True)
            if not self._meter.fits(estimate):
                return reply

    def _pause(self, reply: Reply, tries: int) -> float | None:
        """Seconds until the same may be sent again; `None` when that does not help, is too often, or takes longer than the device should wait."""
        if reply.fate not in (Fate.RETRY, Fate.WAIT) or tries >= self._law.retries:
            return None
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**tries)
        if reply.wait_seconds is not None:
            pause = max(reply.wait_seconds, pause)  # a server that says "now" is not hammered either
        left = self._meter.seconds_left()
        stated = reply.wait_seconds is not None and reply.wait_seconds > self._law.patience_seconds
        return None if stated or (left is not None and pause >= left) else pause

    def _sleep(self, seconds: float) -> bool:
        """Whether the time passed without an interruption."""
        end = self._clock.monotonic() + seconds
        while (rest := end - self._clock.monotonic()) > 0:
            if self._interrupted():
                return False
            self._clock.sleep(min(NAP_SECONDS, rest))
        return True

    def _try(self, body: Mapping[str, Any], estimate: Estimate) -> Reply:
        left = self._meter.seconds_left()
        if left is not None and left <= 0:
            raise ModelUnavailable("time", "no time is left for another call and a trial")
        number = self._meter.ask(estimate)
        self._sent += 1
        durable.replace(self._file("request"), self._json({"body": body}))
        wall = self._law.wall_seconds if left is None else min(self._law.wall_seconds, left)
        silence = self._law.silence_seconds if self._law.stream else wall  # without a stream a server is silent until it is done
        reply = self._sender.send(body, wall, silence, self._interrupted)
        bill = self._bill(reply, str(body["model"]))
        durable.replace(self._file("reply"), self._json({"reply": {**asdict(reply), "fate": reply.fate.value}, "bill": bill.model_dump()}))
        durable.crash_point("reply_stored")
        self._meter.settle(number, bill)
        self.spent.add(bill)
        return reply

    def _estimate(self, body: Mapping[str, Any], retry: bool) -> Estimate:
        """An upper estimate from the bytes of the request, for a token is a byte at least; where that does not fit, from the server's count."""
        rough = self._upper(body, len(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")) + OVERHEAD_TOKENS, retry)
        if self._meter.fits(rough):
            return rough
        counted = self._sender.count_tokens(body, COUNT_SECONDS, self._interrupted)
        durable.replace(self._folder / f"{self._sent + 1:03d}.count.json", self._json({"input_tokens": counted, "body": body}))
        return rough if counted is None else self._upper(body, int(counted * COUNT_MARGIN) + 1, retry)

    def _upper(self, body: Mapping[str, Any], input_tokens: int, retry: bool) -> Estimate:
        model, most = str(body["model"]), int(body["max_tokens"])
        price = self._prices.of(model)
        record = f"{self._folder.parent.name}/{self._folder.name}/{self._sent + 1:03d}.request.json"
        return Estimate(
            proposal=self._number, proposer=NAME, model=model, retry=retry, tokens=input_tokens + most,
            dollars=None if price is None else prices.most(price, input_tokens, most), record=record,
        )  # fmt: skip

    def _bill(self, reply: Reply, asked: str) -> Bill:
        """Priced by the model that answered. What is not known for certain to be free or complete is unknown."""
        usage = reply.usage if reply.billed else {}
        price = self._prices.of(reply.model or asked)
        tokens, cost = (0, 0.0) if reply.billed is False else (None, None)
        if reply.billed:
            tokens, cost = prices.tokens(usage), None if price is None else prices.cost(price, usage)
        return Bill(outcome=reply.reason, detail=reply.detail, model=reply.model, usage=usage, tokens=tokens, cost_usd=cost)

    def _file(self, kind: str) -> Path:
        return self._folder / f"{self._sent:03d}.{kind}.json"

    def _json(self, value: object) -> bytes:
        return self._secrets.hide(json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "replace")) + b"\n"


def unavailable(reply: Reply, clock: Clock) -> ModelUnavailable:
    """A reply that no further try can better now, as what the study must know of it."""
    stop = reply.fate is Fate.STOP  # whatever time comes with it: a person has to look
    until = clock.now() + timedelta(seconds=reply.wait_seconds) if reply.wait_seconds is not None and not stop else None
    return ModelUnavailable(reply.reason, reply.detail or reply.reason, until=until, backoff=not stop)
