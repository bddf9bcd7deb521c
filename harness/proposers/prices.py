"""What a model call costs in USD, by a dated price list. A model without a price has an unknown cost, which is `None` and never 0.

The list is `prices.toml`; a person's own prices go before it. Pure but for reading that file once. Not here: batch discounts and regional
surcharges, which no proposer asks for, and any word on what a budget allows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import tomli
from pydantic import Field

from harness.trial import Record

MILLION = 1e6
MOST_TOKENS = 10**12
SNAPSHOT = re.compile(r"-20[0-9]{6}|-20[0-9]{2}-[0-9]{2}-[0-9]{2}")
Dollars = Annotated[float, Field(ge=0)]


class Rates(Record):
    """USD per million tokens, by kind of token."""

    input: Dollars
    output: Dollars
    cache_read: Dollars
    cache_write_5m: Dollars
    cache_write_1h: Dollars

    @property
    def dearest_input(self) -> float:
        """The highest price that a token of the prompt can have; in practice that of a 1-h cache write."""
        return max(self.input, self.cache_read, self.cache_write_5m, self.cache_write_1h)


class LongPrompt(Rates):
    """What the whole request costs when its prompt has more than `above` tokens."""

    above: int


class Price(Rates):
    """The price of one model."""

    long_prompt: LongPrompt | None = None


class CacheFactors(Record):
    """Prices of cached input, as multiples of plain input."""

    read: Dollars
    write_5m: Dollars
    write_1h: Dollars


class Prices(Record):
    """A price list and the person's own prices, which go first."""

    as_of: date
    listed: dict[str, Price]
    own: dict[str, Price]

    def of(self, model: str) -> Price | None:
        """The price of exactly this model or, for a dated snapshot, of the model that it is a snapshot of."""
        for known in (self.own, self.listed):
            found = known.get(model) or known.get(_undated(model))
            if found:
                return found
        return None


def load(own: Mapping[str, tuple[float, float]] = {}) -> Prices:
    """The list of the package with `own` before it: model id to USD per million tokens of input and of output."""
    as_of, factors, listed = _package_list()
    return Prices(
        as_of=as_of, listed=listed, own={model: _price({"input": pair[0], "output": pair[1]}, factors) for model, pair in own.items()}
    )


def cost(price: Price, usage: Mapping[str, int]) -> float | None:
    """USD of one call, not rounded; `None` when a count that it rests on is missing or absurd.

    Cache writes of unknown lifetime count at the 1-h price, the dearer one.
    """
    counted = _counted(usage)
    if counted is None:
        return None
    plain, read, short, long, output = counted
    rates = _rates(price, plain + read + short + long)
    prompt = plain * rates.input + read * rates.cache_read + short * rates.cache_write_5m + long * rates.cache_write_1h
    return (prompt + output * rates.output) / MILLION


def tokens(usage: Mapping[str, int]) -> int | None:
    """All tokens of one call, input of every kind and output; `None` when a count is missing or absurd."""
    counted = _counted(usage)
    return None if counted is None else sum(counted)


def most(price: Price, input_tokens: int, max_tokens: int) -> float:
    """USD that one call with at most so many tokens of input and output cannot exceed: no cache hit, the dearer tier if it can apply."""
    possible: list[Rates] = [price, _rates(price, input_tokens)]
    dearest_input = max(rates.dearest_input for rates in possible)
    dearest_output = max(rates.output for rates in possible)
    return (input_tokens * dearest_input + max_tokens * dearest_output) / MILLION


def _rates(price: Price, prompt: int) -> Rates:
    tier = price.long_prompt
    return tier if tier and prompt > tier.above else price


def _counted(usage: Mapping[str, int]) -> tuple[int, int, int, int, int] | None:
    """Tokens of plain input, cache reads, 5-min writes, 1-h writes and output. A cache that is not spoken of was not used."""
    plain, output = _count(usage.get("input_tokens")), _count(usage.get("output_tokens"))
    read = _count(usage.get("cache_read_input_tokens", 0))
    written = _count(usage.get("cache_creation_input_tokens", 0))
    if plain is None or output is None or read is None or written is None:
        return None
    short, long = _count(usage.get("cache_creation_5m")) or 0, _count(usage.get("cache_creation_1h")) or 0
    return plain, read, short, max(written - short, long), output


def _count(value: object) -> int | None:
    """A number of tokens, or `None` for what can be none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None


def _undated(model: str) -> str:
    dated = SNAPSHOT.search(model)
    return model[: dated.start()] if dated and dated.end() == len(model) else model


@lru_cache(maxsize=1)
def _package_list() -> tuple[date, CacheFactors, dict[str, Price]]:
    table = tomli.loads(Path(__file__).with_name("prices.toml").read_text(encoding="utf-8"))
    factors = CacheFactors(**table["cache"])
    return table["as_of"], factors, {model: _price(entry, factors) for model, entry in table["models"].items()}


def _price(entry: Mapping[str, Any], factors: CacheFactors) -> Price:
    read = entry.get("cache_read", factors.read)
    tier = entry.get("long_prompt")
    longer = LongPrompt(above=tier["above"], **_rates_of(tier, read, factors)) if tier else None
    return Price(**_rates_of(entry, read, factors), long_prompt=longer)


def _rates_of(entry: Mapping[str, Any], read: float, factors: CacheFactors) -> dict[str, float]:
    """Input and output as they are stated, caches as multiples of input."""
    plain = entry["input"]
    return {
        "input": plain,
        "output": entry["output"],
        "cache_read": plain * read,
        "cache_write_5m": plain * factors.write_5m,
        "cache_write_1h": plain * factors.write_1h,
    }
