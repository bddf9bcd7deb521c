"""A call costs what the dated list says of the model that answered; what is not known is `None`, never 0."""

from __future__ import annotations

import math
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.proposers.prices import Price, cost, load, most, tokens

PRICED = [
    "claude-fable-5-2",
    "claude-fable-5-1",
    "claude-fable-5",
    "claude-opus-5-5",
    "claude-opus-5",
    "claude-sonnet-5-5",
    "claude-sonnet-5",
    "claude-haiku-5-5",
    "claude-haiku-4-5",
]


def price(model: str) -> Price:
    found = load().of(model)
    assert found is not None
    return found


def dollars(model: str, **usage: int) -> float | None:
    return cost(price(model), usage)


def test_the_list_is_dated_and_has_the_stated_models_only() -> None:
    prices = load()
    assert prices.as_of == date(2026, 10, 31)
    assert sorted(prices.listed) == sorted(PRICED)


@pytest.mark.parametrize(
    ("model", "paid", "output", "read"),
    [
        ("claude-fable-5-2", 10, 50, 1.0),
        ("claude-fable-5-1", 10, 50, 0.25),
        ("claude-fable-5", 10, 50, 1.0),
        ("claude-opus-5-5", 4, 20, 0.2),
        ("claude-opus-5", 5, 25, 0.5),
        ("claude-sonnet-5-5", 2, 10, 0.1),
        ("claude-sonnet-5", 2, 10, 0.2),
        ("claude-haiku-5-5", 0.1, 0.5, 0.01),
        ("claude-haiku-4-5", 1, 5, 0.1),
    ],
)
def test_every_kind_of_token_has_its_price(model: str, paid: float, output: float, read: float) -> None:
    found = price(model)
    assert (found.input, found.output) == (paid, output)
    assert found.cache_read == pytest.approx(read)
    assert found.cache_write_5m == pytest.approx(1.25 * paid)
    assert found.cache_write_1h == pytest.approx(2 * paid)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("claude-opus-5-20260801", "claude-opus-5"),
        ("claude-opus-5-5-20261001", "claude-opus-5-5"),
        ("claude-opus-5-5-2026-10-01", "claude-opus-5-5"),
    ],
)
def test_a_dated_snapshot_has_the_price_of_its_model(model: str, family: str) -> None:
    assert price(model) == price(family)


def test_a_later_version_never_has_the_price_of_an_earlier_one() -> None:
    assert price("claude-opus-5-5") != price("claude-opus-5")


@pytest.mark.parametrize(
    "model",
    [
        "claude-opus-5-7",
        "claude-opus-5-20",
        "claude-opus-5-2026100",
        "claude-opus-5-202610011",
        "claude-opus-5-20251101-fast",
        "claude-opus-55",
        "claude-opus",
        "claude-opus-4-5-20251101",
        "claude-mythos-5-2",
        "anthropic/claude-opus-5",
        "Claude-Opus-5",
        "claude-opus-5\n",
        "-20251101",
        "",
    ],
)
def test_a_model_that_is_not_listed_has_no_price(model: str) -> None:
    assert load().of(model) is None


def test_own_prices_go_first_and_pay_for_caches_at_the_general_factors() -> None:
    prices = load({"claude-opus-5-5": (3.0, 12.0), "house-model": (0.0, 0.0)})
    own = prices.of("claude-opus-5-5-20261001")
    assert own == Price(input=3.0, output=12.0, cache_read=3.0 * 0.1, cache_write_5m=3.75, cache_write_1h=6.0)
    assert prices.of("claude-opus-5") == price("claude-opus-5")
    free = prices.of("house-model")
    assert free is not None
    assert cost(free, {"input_tokens": 5, "output_tokens": 5}) == 0.0
    assert load().of("house-model") is None


@pytest.mark.parametrize("pair", [(-1.0, 1.0), (1.0, math.nan), (math.inf, 1.0)])
def test_an_own_price_is_a_finite_number_from_0_up(pair: tuple[float, float]) -> None:
    with pytest.raises(ValidationError):
        load({"house-model": pair})


def test_a_call_is_the_sum_of_its_parts() -> None:
    usage = {"input_tokens": 1000, "cache_read_input_tokens": 10_000, "output_tokens": 2000}
    written = {"cache_creation_input_tokens": 3000, "cache_creation_5m": 1000, "cache_creation_1h": 2000}
    expected = (1000 * 4 + 10_000 * 0.2 + 1000 * 5 + 2000 * 8 + 2000 * 20) / 1e6
    assert dollars("claude-opus-5-5", **usage, **written) == pytest.approx(expected, rel=1e-12)
    assert tokens({**usage, **written}) == 16_000


def test_a_small_cost_is_not_rounded_away() -> None:
    assert dollars("claude-haiku-5-5", input_tokens=1, output_tokens=0) == pytest.approx(1e-7, rel=1e-12)


@pytest.mark.parametrize(
    "parts", [{}, {"cache_creation_1h": 300}, {"cache_creation_5m": -1}, {"cache_creation_5m": 0}, {"cache_creation_5m": 10**13}]
)
def test_a_cache_write_of_unknown_lifetime_has_the_dearer_price(parts: dict[str, int]) -> None:
    usage = {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 300, **parts}
    assert cost(price("claude-opus-5"), usage) == pytest.approx(300 * 10 / 1e6, rel=1e-12)
    assert tokens(usage) == 300


def test_a_cache_write_whose_parts_are_more_than_the_whole_counts_as_its_parts() -> None:
    usage = {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 100, "cache_creation_5m": 100, "cache_creation_1h": 50}
    assert cost(price("claude-opus-5"), usage) == pytest.approx((100 * 6.25 + 50 * 10) / 1e6, rel=1e-12)
    assert tokens(usage) == 150


@pytest.mark.parametrize("key", ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"])
@pytest.mark.parametrize("absurd", [-1, True, 10**12 + 1, 10**400, 1.5, "7", None])
def test_an_absurd_count_makes_the_cost_unknown(key: str, absurd: int) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, key: absurd}
    assert cost(price("claude-opus-5"), usage) is None
    assert tokens(usage) is None


@pytest.mark.parametrize("usage", [{}, {"input_tokens": 1}, {"output_tokens": 1}, {"cache_read_input_tokens": 1}])
def test_without_input_and_output_the_cost_is_unknown(usage: dict[str, int]) -> None:
    assert cost(price("claude-opus-5"), usage) is None
    assert tokens(usage) is None


def test_a_long_prompt_has_the_second_price_for_the_whole_request() -> None:
    assert dollars("claude-haiku-5-5", input_tokens=100_000, output_tokens=1000) == pytest.approx((100_000 * 0.1 + 1000 * 0.5) / 1e6)
    assert dollars("claude-haiku-5-5", input_tokens=100_001, output_tokens=1000) == pytest.approx((100_001 * 0.5 + 1000 * 2.5) / 1e6)
    cached = dollars("claude-haiku-5-5", input_tokens=1, cache_read_input_tokens=100_000, output_tokens=1000)
    assert cached == pytest.approx((0.5 + 100_000 * 0.05 + 1000 * 2.5) / 1e6)


def test_the_bound_takes_the_dearer_tier_only_where_it_can_apply() -> None:
    haiku = price("claude-haiku-5-5")
    assert most(haiku, 100_000, 1000) == pytest.approx((100_000 * 0.2 + 1000 * 0.5) / 1e6)
    assert most(haiku, 100_001, 1000) == pytest.approx((100_001 * 1.0 + 1000 * 2.5) / 1e6)


COUNT = st.integers(0, 400_000)


@given(st.sampled_from(PRICED), st.fixed_dictionaries({
    "input_tokens": COUNT, "output_tokens": COUNT,
}, optional={
    "cache_read_input_tokens": COUNT, "cache_creation_input_tokens": COUNT, "cache_creation_5m": COUNT, "cache_creation_1h": COUNT,
}), st.integers(0, 1000), st.integers(0, 1000))  # fmt: skip
def test_no_call_costs_more_than_its_bound(model: str, usage: dict[str, int], spare_input: int, spare_output: int) -> None:
    paid, counted = cost(price(model), usage), tokens(usage)
    assert paid is not None
    assert counted is not None
    allowed = counted - usage["output_tokens"] + spare_input
    assert 0 <= paid <= most(price(model), allowed, usage["output_tokens"] + spare_output) + 1e-12


@given(
    st.dictionaries(st.sampled_from(["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_creation_1h"]), st.integers())
)
def test_cost_and_tokens_are_known_together(usage: dict[str, int]) -> None:
    assert (cost(price("claude-haiku-5-5"), usage) is None) == (tokens(usage) is None)
