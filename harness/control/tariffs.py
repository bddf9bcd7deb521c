"""What the proposals of a model take: calls, tokens, dollars, from earlier studies or from the size of the page. Pure: values in, values out.

Everything is a span from a cheap to a dear case, with the assumption in words. What nobody knows is `None` and never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.artifacts.calls import Calls
from harness.proposers import prices
from harness.proposers.prices import Price
from harness.sections import Model
from harness.trial import Record

PAGE_BYTES = (25 * 1024, 60 * 1024)  # without program.md and the files in scope
BYTES_A_TOKEN = (4.0, 2.5)
FEW_ANSWERS = 1  # an edit and its submission in one
FEW_TOKENS = 500
MORE_PROPOSALS = 1.3  # of those asked for, some are refused before they become a trial
EARLIER_LOW, EARLIER_HIGH = 0.75, 1.5


class Span(Record):
    """From-to; `None` is unknown."""

    low: float | None = None
    high: float | None = None


class Tariff(Record):
    """What one proposal takes. `most_*` are the upper estimates that the first call is admitted with."""

    kind: str
    model: str | None = None
    calls: Span = Span()
    tokens: Span = Span()
    dollars: Span = Span()
    most_tokens: Span = Span()
    most_dollars: Span = Span()
    said: str = ""


class Demand(Record):
    """What the trials of a mix take on average."""

    calls: Span = Span(low=0, high=0)
    tokens: Span = Span(low=0, high=0)
    dollars: Span = Span(low=0, high=0)


class Aside(Record):
    """Calls beside the proposals, reviews or the critic of the stall ladder: at most so many in a night, and what they come to then."""

    name: str
    model: str
    calls: int | None = None
    tokens: int | None = None
    dollars: float | None = None
    said: str = ""


def aside(name: str, law: Model, price: Price | None, page_bytes: int, calls: int | None, counted: str) -> Aside:
    """At most `calls` of them, each with a page of `page_bytes` bytes at most and the longest answer. `counted` says where their number is from."""
    size = int(page_bytes / BYTES_A_TOKEN[1]) + law.max_tokens
    each = None if price is None else prices.most(price, size - law.max_tokens, law.max_tokens)
    whole = None if each is None or calls is None else calls * each
    money = "an unknown price each" if each is None else f"{each:,.2f} dollars each at most"
    count = "an unknown number" if calls is None else f"at most {calls:,}"
    return Aside(
        name=name, model=law.names[0], calls=calls, tokens=None if calls is None else calls * size, dollars=whole,
        said=f"{count} by {law.names[0]} ({counted}), {money}",
    )  # fmt: skip


def by_page(law: Model, price: Price | None, program_bytes: int, files_bytes: int) -> Tariff:
    """A proposal of the first model, from the size of its page: few cached answers or all of them uncached and as long as they may be."""
    low, high = ((size + program_bytes + files_bytes) / per for size, per in zip(PAGE_BYTES, BYTES_A_TOKEN, strict=True))
    stable, page, long = int(program_bytes / BYTES_A_TOKEN[0]), int(low), int(high)
    few = min(FEW_ANSWERS, law.turns)
    fresh = {
        "input_tokens": 0, "output_tokens": FEW_TOKENS, "cache_read_input_tokens": stable,
        "cache_creation_input_tokens": page - stable, "cache_creation_5m": page - stable,
    }  # fmt: skip
    again = {"input_tokens": FEW_TOKENS, "output_tokens": FEW_TOKENS, "cache_read_input_tokens": page}
    whole = {"input_tokens": long, "output_tokens": law.max_tokens}
    dollars, most = Span(), Span()
    if price is not None:
        cheap = (prices.cost(price, fresh) or 0.0) + (few - 1) * (prices.cost(price, again) or 0.0)
        dollars = Span(low=cheap, high=law.turns * (prices.cost(price, whole) or 0.0))
        most = Span(low=prices.most(price, page, law.max_tokens), high=prices.most(price, long, law.max_tokens))
    return Tariff(
        kind="anthropic", model=law.names[0], dollars=dollars, most_dollars=most,
        calls=Span(low=few, high=law.turns), tokens=Span(low=few * (page + FEW_TOKENS), high=law.turns * (long + law.max_tokens)),
        most_tokens=Span(low=page + law.max_tokens, high=long + law.max_tokens),
        said=f"no earlier study asked {law.names[0]}, so by the page: at best {few} answers of {FEW_TOKENS} tokens on {page:,} tokens, mostly from the "
        f"cache; at worst {law.turns} answers of {law.max_tokens:,} tokens on {long:,} tokens, nothing from the cache",
    )  # fmt: skip


def by_command(call_dollars: float | None) -> Tariff:
    """A proposal of an agent that nobody has seen at work: one call, at most what `call_dollars` says."""
    said = f"at most {call_dollars:g} dollars by [proposer] call_dollars" if call_dollars else "what it costs is unknown"
    limit = Span(low=call_dollars, high=call_dollars)
    return Tariff(
        kind="command",
        calls=Span(low=1, high=1),
        dollars=Span(high=call_dollars),
        most_dollars=limit,
        said=f"one call of the agent, {said}",
    )


def by_earlier(page: Tariff, earlier: Sequence[Calls]) -> Tariff:
    """The same from earlier studies that asked this model alone; `page` itself without any."""
    means = [mean for calls in earlier if (mean := _mean(calls, page.kind)) is not None]
    if not means:
        return page
    count = sum(calls.proposals.get(page.kind, 0) for calls in earlier)
    bills = [one for _, _, one in means if one is not None]
    return page.model_copy(update={
        "calls": _widened([one for one, _, _ in means]), "tokens": _widened([one for _, one, _ in means]),
        "dollars": _widened(bills) if bills else page.dollars,
        "said": f"from {count:,} proposal{'s' * (count != 1)} of {page.model or 'the agent'} in {len(means)} earlier {'study' if len(means) == 1 else 'studies'}, "
        "a quarter less to half as much again",
    })  # fmt: skip


def _mean(calls: Calls, kind: str) -> tuple[float, float, float | None] | None:
    """Calls, tokens and dollars of one proposal of a study; the last is `None` when no bill is known."""
    proposals, known = calls.proposals.get(kind, 0), calls.made - calls.unknown - len(calls.open)
    if not proposals or not calls.made:
        return None
    each = calls.made / proposals
    return each, calls.tokens / proposals, calls.cost_usd / known * each if known > 0 else None


def _widened(values: Sequence[float]) -> Span:
    return Span(low=min(values) * EARLIER_LOW, high=max(values) * EARLIER_HIGH)


def demand(shares: Mapping[str, float], tariffs: Sequence[Tariff]) -> Demand:
    """What one trial takes on average, when each proposer has its share of the proposals."""
    whole = sum(shares.values())
    parts = {tariff.kind: shares.get(tariff.kind, 0.0) / whole for tariff in tariffs}
    return Demand(**{name: _sum([(getattr(tariff, name), parts[tariff.kind]) for tariff in tariffs]) for name in Demand.model_fields})


def _sum(spans: Sequence[tuple[Span, float]]) -> Span:
    lows, highs = [(span.low, part) for span, part in spans], [(span.high, part) for span, part in spans]
    return Span(
        low=None if any(one is None for one, _ in lows) else sum((one or 0) * part for one, part in lows),
        high=None if any(one is None for one, _ in highs) else MORE_PROPOSALS * sum((one or 0) * part for one, part in highs),
    )
