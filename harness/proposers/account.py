"""What `anthropic` needs of the person before the night: a key, a limit on money, models that the server has. Said in the evening, not at the first call."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from harness.errors import UserFault
from harness.proposers import prices
from harness.proposers.fates import Fate
from harness.proposers.prices import Prices
from harness.proposers.wire import Wire
from harness.sections import Model

CHECK_SECONDS = 20.0
MONEY = ("dollars", "tokens", "calls")


def price_list(law: Model) -> Prices:
    """The dated price file with the person's own prices before it."""
    return prices.load({name: (price.input, price.output) for name, price in law.prices.items()})


def key(law: Model) -> str | None:
    """The key that `[model] key` names; `None`: what the client finds by itself, or none for a server of one's own."""
    if law.key is not None and not os.environ.get(law.key):
        raise UserFault(f"[model] key names {law.key}, which is not in the environment; export it, or take the line out")
    return os.environ[law.key] if law.key is not None else None


def connect(law: Model) -> Wire:
    """The server that `[model]` names; importing its client takes a second or two."""
    return Wire(law.base_url, key(law), law.stream)


def check(law: Model, limited: Collection[str]) -> None:
    """Raise a `UserFault` unless the bill must end by itself. `limited` names the limits that are set."""
    key(law)
    if not set(MONEY) & set(limited):
        raise UserFault("a model needs a limit on what it may use: set dollars, tokens or calls in [stop] of program.md, or give --dollars")
    unknown = [name for name in law.names if price_list(law).of(name) is None]
    if "dollars" in limited and "tokens" not in limited and unknown:
        raise UserFault(
            f'the price of {unknown[0]} is unknown, so a limit in dollars cannot hold it; give its price in a table [model.prices."{unknown[0]}"] '
            "(input, output: dollars per million tokens), or set [stop] tokens too"
        )


def preflight(law: Model, interrupted: Callable[[], str] = str) -> list[str]:
    """Ask the server for its models, at no cost. A wrong key or no model at all is a `UserFault`; what may pass until the first call is a warning."""
    wire = connect(law)
    warnings, there = [], 0
    try:
        for name in law.names:
            reply = wire.check(name, CHECK_SECONDS, interrupted)
            if reply.fate is Fate.STOP:
                raise UserFault(
                    f"the model's server refuses: {reply.reason}, {reply.detail}; correct the key or the account, then start again"
                )
            there += int(reply.fate is not Fate.NEXT_MODEL)
            if reply.fate is Fate.NEXT_MODEL:
                warnings.append(f"the server does not know the model {name} ([model] names); it is passed over")
            elif reply.fate is not Fate.ANSWERED:
                warnings.append(
                    f"the model's server cannot be reached now ({reply.reason}: {reply.detail}); it is tried again when its turn comes"
                )
                break
    finally:
        wire.close()
    if not there and law.base_url is None:
        raise UserFault(f"the server has none of the models {', '.join(law.names)}; correct [model] names")
    return warnings
