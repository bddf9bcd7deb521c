"""The forecast of a night: what is known, what is unknown, and which limit comes first."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from harness.artifacts.calls import Calls
from harness.control import forecast, tariffs
from harness.control.forecast import Forecast, Pace
from harness.control.limits import Limits
from harness.control.tariffs import Demand, Span
from harness.proposers import prices
from harness.rules import Rules
from harness.sections import Model, Proposer, StopAt, Trial

NOW = datetime(2026, 3, 8, 21, 30, tzinfo=timezone.utc)
PRICE = prices.load({"m": (4.0, 20.0)}).of("m")
QUICK = Pace(seconds=Span(low=90, high=110), said="")
UNKNOWN = Pace(seconds=Span(high=1200), said="")
SEARCH, MODEL = {"search": 1.0}, {"anthropic": 1.0}


def rules(clock: str = "tokens", amount: float = 1000, threads: int = 1) -> Rules:
    trial = Trial.model_validate(
        {"clock": clock, "amount": amount, "setup_seconds": 60.0, "train_seconds": 600.0, "evaluate_seconds": 40.0}
    )
    return Rules(trial=trial, stop=StopAt(trials=1)).model_copy(
        update={"run": Rules(stop=StopAt(trials=1)).run.model_copy(update={"threads": threads})}
    )


def night(
    allowed: Limits,
    pace: Pace = QUICK,
    demanded: Demand | None = None,
    shares: dict[str, float] = SEARCH,
    meanwhile: str = "search",
    wait: float = 0,
) -> Forecast:
    return forecast.night(allowed, NOW, pace, Span(low=wait, high=wait), 3, demanded or Demand(), shares, meanwhile)


def demanded(dollars: tuple[float | None, float | None], calls: tuple[float, float] = (3, 12)) -> Demand:
    return Demand(calls=Span(low=calls[0], high=calls[1]), tokens=Span(low=1e4, high=1e5), dollars=Span(low=dollars[0], high=dollars[1]))


@pytest.mark.parametrize(
    ("clock", "amount", "threads", "low", "high"),
    [("wall", 300, 1, 330, 405), ("cpu", 400, 1, 440, 700), ("cpu", 400, 8, 55, 700), ("tokens", 1000, 1, None, 700)],
)
def test_a_trial_takes_what_its_clock_says_up_to_all_limits(
    clock: str, amount: float, threads: int, low: float | None, high: float
) -> None:
    seconds = forecast.pace_of_rules(rules(clock, amount, threads)).seconds
    assert seconds.low == (None if low is None else pytest.approx(low)) and seconds.high == pytest.approx(high)


def test_earlier_studies_tell_better_and_are_named() -> None:
    pace = forecast.pace_of_studies([(100.0, 40), (120.0, 2)])
    assert pace.seconds.low == 90.0 and pace.seconds.high == pytest.approx(132.0)
    assert "42 trials of 2 earlier studies" in pace.said
    few = forecast.pace_of_studies([(100.0, 0)])
    assert "the baseline of 1 earlier study" in few.said and few.said.endswith("give or take 30%")
    assert few.seconds == Span(low=70, high=130), "a baseline has seen no audit and no second reading"


def test_a_number_of_trials_ends_the_night_when_time_is_enough() -> None:
    found = night(Limits(trials=10, hours=8))
    assert (found.trials, found.ends) == (Span(low=10, high=10), ("trials",))
    assert found.hours.low == pytest.approx(13 * 90 / 3600) and found.hours.high == pytest.approx(13 * 110 / 3600)
    assert found.earliest == NOW + timedelta(seconds=13 * 90) and found.latest == NOW + timedelta(seconds=13 * 110)


def test_time_ends_the_night_when_trials_do_not_fit() -> None:
    found = night(Limits(trials=1000, deadline=NOW + timedelta(hours=1), hours=8))
    assert found.ends == ("deadline",)
    assert (found.trials.low, found.trials.high) == ((3600 - 330) // 110, (3600 - 270) // 90)
    assert found.hours == Span(low=(330 + 29 * 110) / 3600, high=1) and found.latest == NOW + timedelta(hours=1)
    found = night(Limits(hours=2), Pace(seconds=Span(high=1300), said=""))
    assert found.hours == Span(low=5 * 1300 / 3600, high=2), "only the slowest trials leave some of it, quicker ones may use up all"
    assert night(Limits(hours=2, trials=99), Pace(seconds=Span(high=1300), said="")).hours == Span(high=2)


def test_a_night_beyond_the_calendar_is_forecast_all_the_same() -> None:
    found = night(Limits(trials=10**12))
    assert found.trials.high == 10**12 and found.latest is not None and found.latest.year > 8000


def test_which_limit_ends_it_may_depend_on_the_pace() -> None:
    assert night(Limits(trials=34, hours=1)).ends == ("trials", "hours")


def test_an_unknown_pace_leaves_the_quick_end_open_and_keeps_the_slow_one() -> None:
    found = night(Limits(hours=2), UNKNOWN)
    assert (found.trials, found.ends) == (Span(low=3), ("hours",))
    found = night(Limits(trials=100), UNKNOWN)
    assert found.trials == Span(low=100, high=100) and found.hours == Span(high=103 * 1200 / 3600)
    assert found.earliest is None and found.latest is not None


def test_the_device_waits_for_proposals() -> None:
    assert night(Limits(hours=1), wait=90).trials.low == (3600 - 330) // 200


def test_no_model_costs_nothing_and_an_unknown_price_is_not_zero() -> None:
    assert night(Limits(trials=5)).dollars == Span(low=0, high=0)
    assert night(Limits(trials=5), demanded=demanded((None, None)), shares=MODEL).dollars == Span()
    assert night(Limits(trials=5, dollars=2), demanded=demanded((None, None)), shares=MODEL).dollars == Span(high=2)


def test_dollars_are_never_above_the_limit_and_what_follows_depends_on_meanwhile() -> None:
    limited = Limits(trials=100, dollars=5)
    found = night(limited, demanded=demanded((0.01, 0.5)), shares=MODEL)
    assert (found.dollars, found.trials) == (Span(low=1, high=5), Span(low=100, high=100))
    assert (found.used_up, found.after, found.ends) == (("dollars",), Span(low=10, high=10), ("trials",))
    found = night(limited, demanded=demanded((0.01, 0.5)), shares=MODEL, meanwhile="stop")
    assert (found.trials, found.ends) == (Span(low=10, high=100), ("trials", "dollars"))
    mixed = night(limited, demanded=demanded((0.01, 0.5)), shares={"anthropic": 1.0, "search": 1.0}, meanwhile="stop")
    assert mixed.ends == ("trials",)


def test_the_first_of_the_models_limits_is_named() -> None:
    found = night(Limits(trials=100, dollars=5, calls=30), demanded=demanded((0.01, 0.5)), shares=MODEL)
    assert (found.used_up, found.after) == (("calls",), Span(low=2, high=10)) and found.calls == Span(low=30, high=30)


def test_a_page_gives_a_cheap_and_a_dear_proposal() -> None:
    law = Model(names=("m",), turns=10, max_tokens=2000)
    tariff = tariffs.by_page(law, PRICE, 4000, 20_000)
    assert tariff.calls == Span(low=1, high=10)
    assert tariff.dollars.low is not None and tariff.dollars.high is not None and tariff.most_dollars.high is not None
    high = int((60 * 1024 + 24_000) / 2.5)
    assert tariff.dollars.high == pytest.approx(10 * (high * 4 + 2000 * 20) / 1e6)
    assert 0 < tariff.dollars.low < tariff.dollars.high / 10 and tariff.most_dollars.high > tariff.dollars.high / 10
    unpriced = tariffs.by_page(law, None, 4000, 20_000)
    assert (unpriced.dollars, unpriced.most_dollars) == (Span(), Span()) and unpriced.tokens == tariff.tokens


def test_earlier_calls_of_the_model_tell_better_than_the_page() -> None:
    page = tariffs.by_page(Model(names=("m",)), PRICE, 4000, 20_000)
    assert tariffs.by_earlier(page, []) == page and tariffs.by_earlier(page, [Calls()]) == page
    seen = Calls(made=40, unknown=8, cost_usd=3.2, charged_usd=9.0, tokens=80_000, proposals={"anthropic": 10})
    found = tariffs.by_earlier(page, [seen])
    assert found.calls == Span(low=3, high=6) and found.dollars.low == pytest.approx(0.3) and found.dollars.high == pytest.approx(0.6)
    assert found.tokens == Span(low=6000, high=12_000) and "10 proposals of m in 1 earlier study" in found.said
    assert tariffs.by_earlier(page, [seen.model_copy(update={"unknown": 40})]).dollars == page.dollars


def test_an_agent_costs_at_most_what_its_call_may_and_else_nobody_knows() -> None:
    assert tariffs.by_command(0.2).dollars == Span(high=0.2) and tariffs.by_command(None).dollars == Span()
    assert "unknown" in tariffs.by_command(None).said


def test_a_proposer_of_which_nothing_is_known_makes_the_bill_unknown_and_not_zero() -> None:
    found = tariffs.demand({"mine": 1.0, "search": 1.0}, [tariffs.Tariff(kind="mine")])
    assert found == Demand(calls=Span(), tokens=Span(), dollars=Span())
    assert night(Limits(trials=5), demanded=found, shares={"mine": 1.0}).dollars == Span()


def test_a_mix_takes_its_shares_and_refused_proposals_are_paid_too() -> None:
    tariff = tariffs.by_command(0.2).model_copy(update={"dollars": Span(low=0.1, high=0.2)})
    found = tariffs.demand({"command": 1.0, "search": 3.0}, [tariff])
    assert found.dollars.low == pytest.approx(0.025) and found.dollars.high == pytest.approx(0.05 * 1.3) and found.tokens == Span()
    assert tariffs.demand(SEARCH, []).dollars == Span(low=0, high=0)


def test_the_wait_for_a_proposal_follows_the_shares() -> None:
    law = rules().model_copy(update={"proposer": Proposer(wall_seconds=300.0)})
    assert forecast.thinking(SEARCH, law) == Span(low=0, high=0)
    assert forecast.thinking({"command": 1.0, "search": 1.0}, law) == Span(low=15, high=150)
    assert forecast.thinking(MODEL, law) == Span(low=30, high=360)


@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        (Limits(trials=9, dollars=0.01), "m gets no call: 0.01 dollars are less than the upper estimate of one"),
        (Limits(trials=9, tokens=500), "m gets no call: 500 tokens are less than the upper estimate of one"),
        (Limits(trials=9, dollars=0.3), "0.3 dollars may not pay for one call of m when the page is long"),
        (Limits(hours=0.05), "0.05 h is too short for the baseline and one trial, which take 360 s"),
        (Limits(deadline=NOW + timedelta(minutes=2)), "the deadline 21:32 is too early for the baseline and one trial"),
    ],
)
def test_contradictions_are_said_in_one_sentence(allowed: Limits, said: str) -> None:
    law = Model(names=("m",), turns=10, max_tokens=8000)
    (found,) = forecast.concerns(allowed, NOW, QUICK, 3, [tariffs.by_page(law, PRICE, 4000, 20_000)])
    assert said in found


def test_a_night_without_contradictions_has_none() -> None:
    allowed = Limits(trials=9, hours=8, dollars=50)
    assert forecast.concerns(allowed, NOW, QUICK, 3, [tariffs.by_page(Model(names=("m",)), PRICE, 4000, 20_000)]) == []
    (doubt,) = forecast.concerns(Limits(hours=1), NOW, UNKNOWN, 3, [])
    assert doubt == "1 h is perhaps too short for the baseline and one trial, which take up to 4,800 s"
