"""Keeps by chance: the simulation is the judge's own rule, deterministic, bounded, and right for the strict rule by mathematics."""

from __future__ import annotations

import random
import time
from statistics import fmean

import pytest

from harness.evaluation import judge, rereading
from harness.rules import Rules
from harness.sections import Keep, StopAt
from harness.trial import Change, JobEnd, JobOutcome, Measurement, Noise, Reading, Status
from harness.views import chance

SAME = Change(added_lines=1, removed_lines=1, file_sha256="", ast_sha256="")
NOISE = Noise(sigma=1.0, prior_sigma=1.0, prior_weight=1.0, degrees=1)
LEVEL = 10.0


def rules(rule: str) -> Rules:
    return Rules(stop=StopAt(trials=1), keep=Keep.model_validate({"rule": rule}))


def reading(value: float) -> Reading:
    measured = Measurement(
        token="", value=LEVEL + value, nats=1, bytes=1, tokens=1, windows=1, data_sha256="", checkpoint_sha256="", seconds=1
    )
    return Reading(trial=1, replicate=0, seed=0, outcome=JobOutcome(end=JobEnd.OK), measurement=measured)


def judged_night(rule: str, judged: int, seed: int) -> tuple[int, float]:
    """A null night decided by the real judge and re-measured as the loop does it."""
    gauss = random.Random(seed).gauss
    first = [reading(gauss(0.0, 1.0)) for _ in range(3)]
    bar = judge.judge_baseline(rules(rule), first, NOISE).next_bar
    group, keeps = [r.value or 0.0 for r in first], 0
    baseline = best = fmean(group)
    for _ in range(judged):
        assert bar is not None
        new = reading(gauss(0.0, 1.0))
        verdict = judge.judge(rules(rule), bar, new, NOISE, SAME)
        bar = verdict.next_bar
        if verdict.status is Status.KEEP:
            keeps, group, best = keeps + 1, [], new.value or 0.0
        elif bar and rereading.remeasure_due(rules(rule), bar, len(group)):
            group = group or [best]
            group.append(LEVEL + gauss(0.0, 1.0))
            bar = rereading.after_remeasuring(group if keeps == 0 else group[1:])
    return keeps, baseline - best


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rule", ["debiased", "strict"])
def test_a_simulated_null_night_is_what_the_judge_makes_of_the_same_readings(rule: str, seed: int) -> None:
    gauss = random.Random(seed).gauss
    night = chance.strict_night if rule == "strict" else chance.debiased_night
    keeps, gain = night(200, 3, lambda: gauss(0.0, 1.0))
    expected = judged_night(rule, 200, seed)
    assert keeps == expected[0] and gain == pytest.approx(expected[1])


def test_expected_chance_keeps_match_fresh_simulation_within_ten_percent() -> None:
    for judged in (10, 100):
        fresh = [judged_night("debiased", judged, seed)[0] for seed in range(1000, 1000 + 4000 // judged)]
        assert chance.expected_chance_keeps(judged) == pytest.approx(fmean(fresh), rel=0.10)


def test_the_strict_rule_keeps_as_many_as_there_are_records() -> None:
    assert chance.expected_chance_keeps(1, "strict") == 0.5
    assert chance.expected_chance_keeps(124, "strict") == pytest.approx(sum(1 / k for k in range(2, 126)))
    assert chance.strict_records(999) == pytest.approx(chance.strict_records(1000), abs=0.002)
    single = [chance.strict_night(50, 1, lambda: random.gauss(0.0, 1.0))[0] for _ in range(3000)]
    assert fmean(single) == pytest.approx(chance.expected_chance_keeps(50, "strict"), rel=0.1)


@pytest.mark.parametrize("rule", ["debiased", "strict"])
def test_nothing_judged_is_nothing_by_chance(rule: str) -> None:
    assert chance.expected_chance_keeps(0, rule) == chance.chance_gain(0, rule) == 0.0


@pytest.mark.parametrize("rule", ["debiased", "strict"])
def test_more_trials_give_more_by_chance(rule: str) -> None:
    found = [chance.expected_chance_keeps(n, rule) for n in (1, 5, 25, 125, 625)]
    assert found == sorted(found)
    assert 1.0 < chance.chance_gain(5, rule) < chance.chance_gain(1000, rule) < 6.0


def test_the_work_is_bounded_and_the_answer_always_the_same() -> None:
    chance.nights.cache_clear()
    began = time.process_time()
    first = chance.expected_chance_keeps(10_000)
    assert time.process_time() - began < 2.0
    chance.nights.cache_clear()
    assert chance.expected_chance_keeps(10_000) == first
