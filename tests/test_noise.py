"""Sigma of one reading: a belief about the device, then re-runs of identical code, and nothing else."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.evaluation import noise
from harness.evaluation.noise import Prior, estimate, prior

BELIEF = Prior(sigma=0.002, weight=2, baseline_readings=3)


def test_without_re_runs_sigma_is_the_prior() -> None:
    cases: list[list[list[float]]] = [[], [[]], [[1.5]], [[1.5], [1.6], [9.0]]]
    for groups in cases:
        found = estimate(BELIEF, groups)
        assert found.sigma == pytest.approx(0.002)
        assert (found.prior_sigma, found.prior_weight, found.degrees) == (0.002, 2, 0)


def test_re_runs_are_pooled_around_the_mean_of_their_own_group() -> None:
    found = estimate(BELIEF, [[1.0, 1.002, 1.004], [7.0, 7.003], [3.0]])
    squares = 2 * 0.002**2 + 2 * 0.0015**2
    assert found.degrees == 3
    assert found.sigma == pytest.approx(math.sqrt((2 * 0.002**2 + squares) / (2 + 3)))


def test_the_spread_between_different_edits_is_no_noise() -> None:
    assert estimate(BELIEF, [[1.0, 1.0], [2.0, 2.0], [30.0]]).sigma < BELIEF.sigma


def test_equal_readings_shrink_sigma_but_never_to_nothing() -> None:
    assert estimate(BELIEF, [[1.5, 1.5, 1.5]]).sigma == pytest.approx(0.002 * math.sqrt(2 / 4))
    assert estimate(BELIEF, [[1.5] * 1000]).sigma > 0


def test_a_heavier_belief_moves_less() -> None:
    groups = [[1.0, 1.02]]
    light, heavy = estimate(BELIEF, groups), estimate(BELIEF.model_copy(update={"weight": 6.0}), groups)
    assert 0.002 < heavy.sigma < light.sigma < 0.02


@given(
    st.floats(1e-200, 1e3), st.lists(st.lists(st.floats(0.3, 20.0), max_size=4), max_size=4), st.sampled_from([1.0, 2.0, 6.0])
)  # fmt: skip
@settings(max_examples=60, deadline=None, derandomize=True)
def test_sigma_is_positive_between_prior_and_spread_and_blind_to_order(known: float, groups: list[list[float]], weight: float) -> None:
    belief = Prior(sigma=known, weight=weight, baseline_readings=3)
    found = estimate(belief, groups)
    spread = max((max(g) - min(g) for g in groups if len(g) > 1), default=0.0)
    assert 0.0 < found.sigma <= max(known, spread) * 1.0001
    assert found.degrees == sum(len(g) - 1 for g in groups if len(g) > 1)
    assert estimate(belief, [g[::-1] for g in groups[::-1]]).sigma == pytest.approx(found.sigma)


@pytest.mark.parametrize(("device", "sigma", "weight", "readings"), [
    ("cuda: NVIDIA H200", 3e-4, 6, 2), ("cuda: NVIDIA H100 80GB HBM3", 3e-4, 6, 2), ("cuda: NVIDIA A100-SXM4-80GB", 3e-4, 6, 2),
    ("cuda: NVIDIA GH200 480GB", 3e-4, 6, 2), ("cuda: NVIDIA B200", 3e-4, 6, 2), ("cuda: AMD Instinct MI300X", 3e-4, 6, 2),
    ("cuda: NVIDIA GeForce RTX 2060", 1.5e-3, 2, 3), ("cuda: NVIDIA RTX A1000", 1.5e-3, 2, 3), ("cuda", 1.5e-3, 2, 3),
    ("cpu", 0.0027, 1, 3), ("cpu (2 cores, 1 thread)", 0.0027, 1, 3),
])  # fmt: skip
def test_the_prior_follows_from_the_devices_name(device: str, sigma: float, weight: float, readings: int) -> None:
    found = prior(device, "tokens", 1.5)
    assert (found.sigma, found.weight, found.baseline_readings) == (sigma, weight, readings)


def test_a_cpu_without_a_fixed_amount_of_work_scatters_with_its_reading() -> None:
    for clock in ("wall", "cpu"):
        assert prior("cpu", clock, 1.6).sigma == pytest.approx(0.008)
        assert prior("cpu", clock, -1.6).sigma == pytest.approx(0.008)
        assert prior("cpu", clock, None).sigma == prior("cpu", clock, 0.0).sigma == 0.0027
    assert prior("cuda: NVIDIA H200", "wall", 1.6).sigma == 3e-4


def test_what_program_md_knows_replaces_the_prior_sigma_but_not_its_weight() -> None:
    assert prior("cuda: NVIDIA H200", "wall", 1.0, known=0.01) == Prior(sigma=0.01, weight=6, baseline_readings=2)
    assert prior("cpu", "tokens", 1.0, known=0.01) == Prior(sigma=0.01, weight=1, baseline_readings=3)


@pytest.mark.parametrize(
    ("device", "clock", "threads", "paired"),
    [
        ("cpu: AMD EPYC", "tokens", 1, True),
        ("cpu: AMD EPYC", "tokens", 2, False),
        ("cpu: AMD EPYC", "wall", 1, False),
        ("cuda: H100", "tokens", 1, False),
    ],
)
def test_readings_are_paired_only_where_a_seed_repeats_itself(device: str, clock: str, threads: int, paired: bool) -> None:
    assert noise.paired(device, clock, threads) is paired
