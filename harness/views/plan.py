"""`ratchet plan`: a look ahead at a night as one page that is read before going to bed, and as one dictionary for programs."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from harness.control.outlook import Outlook
from harness.control.tariffs import MORE_PROPOSALS, Span
from harness.proposers.prices import Price
from harness.trial import OFFLINE
from harness.views.inbox import channels_sentence
from harness.views.models import money_text
from harness.views.rules_text import MEANWHILE, sentences, shares_text
from harness.views.text import duration, flatten

WIDEST, INDENT = 118, 14


def as_text(seen: Outlook) -> str:
    """The page, without an end of line."""
    head = f"A night by {seen.program} ({seen.rules.digest[:12]}), were it to start now, {seen.now:%a %Y-%m-%d %H:%M}"
    parts = [
        [flatten(head, 240)],
        [
            "The rules",
            *(_row(name, said) for name, said in sentences(seen.rules, seen.allowed, list(seen.shares), seen.data).items()),
            _row("questions", channels_sentence(seen.rules.escalation)),
        ],
        ["The machine", _row("device", flatten(seen.device or seen.missing.get("device", "unknown"))), _row("data", _data(seen))],
        *([["The models", *_models(seen)]] if set(seen.shares) - OFFLINE or seen.paid.prices else []),
        ["The forecast", *_forecast(seen)],
        *([["What program.md may not mean:", *(_item(f"line {one.line}: {one.said}") for one in seen.doubts)]] if seen.doubts else []),
        [_verdict(seen), *(_item(said) for said in (*seen.refusals, *seen.findings))],
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def _width() -> int:
    return max(60, min(WIDEST, shutil.get_terminal_size((WIDEST + 1, 24)).columns - 1))


def _row(name: str, said: str) -> str:
    return textwrap.fill(
        said,
        _width(),
        initial_indent=f"  {name:<{INDENT - 2}}",
        subsequent_indent=" " * INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _item(said: str) -> str:
    return textwrap.fill(
        flatten(said, 600), _width(), initial_indent="  - ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _verdict(seen: Outlook) -> str:
    if seen.refusals:
        return "It cannot start as it is:"
    return "It can start with `ratchet run --tag NAME`." + (" To know before:" if seen.findings else "")


def _data(seen: Outlook) -> str:
    data = seen.data
    if data is None:
        return flatten(seen.missing.get("data", "unknown"), 400)
    sizes = [f"vocabulary {data.vocab_size:,}" if data.vocab_size else "", f"context {data.context:,}" if data.context else ""]
    return ", ".join(
        [f"profile {flatten(data.profile, 40)}", *(size for size in sizes if size), f"digest {flatten(data.data_sha256, 64)[:12]}"]
    )


def _models(seen: Outlook) -> list[str]:
    paid = seen.paid
    plain = len(seen.shares) == 1 and set(seen.shares) <= {"command", "anthropic"} | OFFLINE
    rows = [] if plain else [_row("asked", shares_text(seen.shares))]
    if paid.agent:
        rows.append(_row("agent", f"`{flatten(' '.join(paid.agent), 300)}`; {_found(paid.agent_at)}"))
    if paid.keys:
        rows.append(_row("keys", ", ".join(f"{flatten(name, 60)} is {'set' if there else 'not set'}" for name, there in paid.keys)))
    if paid.prices:
        own = " and [model.prices]" if seen.rules.model.prices else ""
        rows.append(_row("price", f"in dollars a million tokens, by the list of {paid.as_of}{own}"))
        rows += [_row("", f"{flatten(name, 60)}: {_price(price)}") for name, price in paid.prices]
        rows.append(_row("server", _server(seen)))
    return rows


def _found(path: str | None) -> str:
    return f"found as {flatten(path, 200)}" if path else "not found on PATH"


def _price(price: Price | None) -> str:
    return "unknown" if price is None else f"{price.input:g} in, {price.output:g} out, {price.cache_read:g} from the cache"


def _server(seen: Outlook) -> str:
    if "server" in seen.missing or seen.paid.server:
        return "asked; what it said is at the end"
    return "not asked" if seen.paid.server is None else "answers, and has the models"


def _forecast(seen: Outlook) -> list[str]:
    night = seen.forecast
    rows = [
        _row("a trial", _between(seen.pace.seconds, duration)),
        _row("trials", f"{_between(night.trials, _count)}, and {seen.readings} of the baseline"),
        _row("hours", _between(night.hours, lambda hours: duration(hours * 3600))),
        _row("dollars", _dollars(seen)),
        *(_row(one.name, flatten(one.said, 300)) for one in seen.asides),
        _row("ends", _end(seen)),
    ]
    if night.used_up:
        rows.append(_row("models", f"{' or '.join(night.used_up)} may be used up after {_between(night.after, _count)} trials; then "
                                   f"{MEANWHILE[seen.rules.proposer.meanwhile]}"))  # fmt: skip
    return [*rows, *(_row("assumed" if n == 0 else "", one) for n, one in enumerate(_assumptions(seen)))]


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _between(span: Span, show: Any) -> str:
    """`3 to 9`; what is not known is said."""
    low, high = (None if value is None else str(show(value)) for value in (span.low, span.high))
    if low is None and high is None:
        return "unknown"
    if low is None or high is None:
        return f"{low} or more" if high is None else f"at most {high}"
    return low if low == high else f"{low} to {high}"


def _dollars(seen: Outlook) -> str:
    if not set(seen.shares) - OFFLINE and not seen.asides:
        return "none: no model is asked"
    limit = f"; [stop] allows {seen.allowed.dollars:g}" if seen.allowed.dollars is not None else ""
    calls = f", in {_between(seen.forecast.calls, _count)} calls" if seen.forecast.calls.high else ""
    return f"{_between(seen.forecast.dollars, money_text)}{calls}{limit}"


def _end(seen: Outlook) -> str:
    """By which limit, and at what local time."""
    night = seen.forecast
    times = list(dict.fromkeys(_clock(moment, seen.now) for moment in (night.earliest, night.latest) if moment is not None))
    when = f"at {times[0]}" if len(times) == 1 else f"between {times[0]} and {times[1]}" if times else "at a time that nobody knows yet"
    if night.earliest is None and night.latest is not None:
        when = f"by {times[0]} at the latest"
    sooner = [name for name in ("target", "plateau") if getattr(seen.rules.stop, name) is not None]
    target = f"; {' or '.join(f'[stop] {name}' for name in sooner)} may end it sooner" if sooner else ""
    return f"{when}, by {' or '.join(f'[stop] {name}' for name in night.ends) or 'no limit that is known'}{target}"


def _clock(moment: datetime, now: datetime) -> str:
    hours = (moment - now).total_seconds() / 3600
    return f"{moment:%H:%M}" if hours < 20 else f"{moment:%a %H:%M}" if hours < 144 else f"{moment:%Y-%m-%d}"


def as_dict(seen: Outlook) -> dict[str, Any]:
    """Everything, JSON-able; a key's value is nowhere in it."""
    paid, night = seen.paid, seen.forecast
    return {
        "can_start": not seen.refusals,
        "program": str(seen.program),
        "digest": seen.rules.digest,
        "now": seen.now.isoformat(),
        "rules": sentences(seen.rules, seen.allowed, list(seen.shares)),
        "limits": seen.allowed.model_dump(mode="json"),
        "device": seen.device,
        "data": seen.data.model_dump(mode="json") if seen.data else None,
        "missing": dict(seen.missing),
        "proposer": seen.proposer,
        "shares": dict(seen.shares),
        "models": {
            "agent": list(paid.agent),
            "agent_at": paid.agent_at,
            "keys": dict(paid.keys),
            "prices": {name: price.model_dump() if price else None for name, price in paid.prices},
            "prices_as_of": paid.as_of.isoformat() if paid.as_of else None,
            "server": None if paid.server is None else list(paid.server),
        },
        "forecast": {
            **night.model_dump(mode="json"),
            "seconds_a_trial": seen.pace.seconds.model_dump(),
            "baseline_readings": seen.readings,
        },
        "questions": channels_sentence(seen.rules.escalation),
        "assumptions": _assumptions(seen),
        "asides": [one.model_dump() for one in seen.asides],
        "tariffs": [tariff.model_dump() for tariff in seen.tariffs],
        "refusals": list(seen.refusals),
        "findings": list(seen.findings),
        "warnings": [{"line": one.line, "said": one.said} for one in seen.doubts],
    }


def _assumptions(seen: Outlook) -> Sequence[str]:
    night = "the shortest night has only the quickest trials, the longest only the slowest; one that by the mean so far would end too late is not begun"
    said = [seen.pace.said, night, *(tariff.said for tariff in seen.tariffs)]
    if seen.tariffs:
        said.append(f"1 to {MORE_PROPOSALS:g} proposals become one trial")
    if seen.wait.high:
        said.append(f"the device waits {_between(seen.wait, duration)} for an average proposal")
    return said
