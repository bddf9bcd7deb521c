"""The verdict is a pure function of rules, bar, reading, noise and change: a table of cases, its arithmetic, and its chance keeps."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.audited import Audit
from harness.evaluation import judge, rereading
from harness.rules import Rules
from harness.sections import Keep, Metric, StopAt
from harness.trial import FAILED, Bar, Change, EvaluationFault, JobEnd, JobOutcome, Measurement, Noise, Reading, Status, Verdict
from harness.views import chance
from tests import study_factory as make

SIGMA = 0.001
NOISE = Noise(sigma=SIGMA, prior_sigma=SIGMA, prior_weight=1.0, degrees=0)
NAN, INF = float("nan"), float("inf")


def rules(rule: str = "debiased", direction: str = "lower", band: tuple[float, float] = (0.3, 20.0), **keep: Any) -> Rules:
    return Rules(
        stop=StopAt(trials=1),
        keep=Keep.model_validate({"rule": rule, **keep}),
        metric=Metric.model_validate({"direction": direction, "plausible": band}),
    )


def measured(value: float) -> Measurement:
    return Measurement(token="t", value=value, nats=1, bytes=1, tokens=1, windows=1, data_sha256="", checkpoint_sha256="", seconds=1)  # fmt: skip


def reading(value: float | None, end: JobEnd = JobEnd.OK, fault: EvaluationFault | None = None) -> Reading:
    outcome = JobOutcome(end=end, reason=end.value, detail="why")
    return Reading(trial=1, replicate=0, seed=0, outcome=outcome, measurement=None if value is None else measured(value), fault=fault)


def change(net: int = 0) -> Change:
    return Change(added_lines=max(net, 0) + 1, removed_lines=max(-net, 0) + 1, file_sha256="", ast_sha256="")


def judged(value: float, ref: float = 1.5, *, rule: str = "debiased", since: int = 0, net: int = 0, direction: str = "lower", **keep: Any) -> Verdict:  # fmt: skip
    return judge.judge(rules(rule, direction, **keep), Bar(ref=ref, since=since), reading(value), NOISE, change(net))


# The de-biased bar; sigma is 0.001, the reference 1.5, a line costs 5e-5
@pytest.mark.parametrize(("rule", "value", "since", "net", "status", "reason"), [
    ("debiased", 1.5, 0, 0, "discard", "not_better"),               # equality at the bar
    ("debiased", math.nextafter(1.5, 0), 0, 0, "keep", "better"),   # the smallest step below it
    ("debiased", 1.5 - 3e-5, 0, 0, "keep", "better"),               # within the noise: liberal by design
    ("debiased", 1.5 + 3e-5, 0, 0, "discard", "not_better"),
    ("debiased", 1.5 + 3e-5, 1, 0, "keep", "better"),               # one trial without a keep lifts the bar by sigma/20
    ("debiased", 1.5 + 6e-5, 1, 0, "discard", "not_better"),
    ("debiased", 1.5 + 9.9e-4, 20, 0, "keep", "better"),            # one sigma at most
    ("debiased", 1.5 + 1.01e-3, 900, 0, "discard", "not_better"),
    ("debiased", 1.5 - 4e-5, 0, 1, "discard", "not_worth_its_lines"),
    ("debiased", 1.5 - 6e-5, 0, 1, "keep", "better"),
    ("debiased", 1.5 - 9e-4, 0, 20, "discard", "not_worth_its_lines"),
    ("debiased", 1.5 - 1.1e-3, 0, 20, "keep", "better"),            # program.md's 0.001 per 20 lines
    ("debiased", 1.5 + 4e-4, 0, -1, "keep", "equal_and_shorter"),   # a net deletion earns half a sigma,
    ("debiased", 1.5 + 4e-4, 0, -90, "keep", "equal_and_shorter"),  # however long it is
    ("debiased", 1.5 + 6e-4, 0, -90, "discard", "not_better"),
    ("debiased", 1.5 - 4e-4, 0, -1, "keep", "better"),
    ("strict", 1.5, 0, 0, "discard", "not_better"),
    ("strict", math.nextafter(1.5, 0), 0, 0, "keep", "better"),
    ("strict", 1.5 + 3e-5, 90, 0, "discard", "not_better"),         # no ramp,
    ("strict", 1.5, 0, -90, "discard", "not_better"),               # no credit,
    ("strict", math.nextafter(1.5, 0), 0, 900, "keep", "better"),   # no price
])  # fmt: skip
def test_the_table_of_verdicts(rule: str, value: float, since: int, net: int, status: str, reason: str) -> None:
    verdict = judged(value, rule=rule, since=since, net=net)
    assert (verdict.status.value, verdict.reason, verdict.rule, verdict.value) == (status, reason, rule, value)
    assert verdict.sigma == SIGMA and verdict.gain == 1.5 - value


def test_equality_at_a_bar_that_complexity_has_moved_is_a_discard() -> None:
    bar = 1.5 - 4 * 0.25
    assert judged(bar, net=4, complexity_per_line=0.25).status is Status.DISCARD
    assert judged(math.nextafter(bar, 0), net=4, complexity_per_line=0.25).status is Status.KEEP
    assert judged(1.5, net=9, complexity_per_line=0.0).status is Status.DISCARD


def test_the_bar_moves_as_the_rule_says_step_by_step() -> None:
    """In numbers: a small keep, two discards, a keep by more than two sigma, a shorter file that reads worse."""
    bar = judge.judge_baseline(rules(), [reading(1.500), reading(1.501), reading(1.502)], NOISE).next_bar
    assert bar is not None and bar.ref == pytest.approx(1.501) and (bar.readings, bar.since) == (3, 0)
    steps = [
        # value, net lines, status, bar it was held against, reference after, since after
        (1.5006, 0, "keep", 1.5010, 1.5006 + 0.0002, 0),  # D/2 = 0.0002 is less than sigma
        (1.5009, 0, "discard", 1.5008, 1.5008, 1),
        (1.5010, 0, "discard", 1.50085, 1.5008, 2),
        (1.4960, 0, "keep", 1.5009, 1.4960 + SIGMA, 0),  # D/2 = 0.00245 is more than sigma
        (1.4971, 0, "discard", 1.4970, 1.4970, 1),
        (1.4973, -3, "keep", 1.49705, 1.4973 - 0.000125, 0),  # D is negative: the reference lies between bar and reading
    ]
    for value, net, status, against, ref, since in steps:
        verdict = judge.judge(rules(), bar, reading(value), NOISE, change(net))
        assert verdict.status.value == status
        assert verdict.bar == pytest.approx(against, abs=1e-12)
        bar = verdict.next_bar
        assert bar is not None and bar.ref == pytest.approx(ref, abs=1e-12) and bar.since == since


def test_a_keep_leaves_a_bar_on_one_reading_and_a_discard_leaves_its_readings() -> None:
    bar = Bar(ref=1.5, readings=3, since=4)
    kept = judge.judge(rules(), bar, reading(1.4), NOISE, change()).next_bar
    left = judge.judge(rules(), bar, reading(1.6), NOISE, change()).next_bar
    assert kept is not None and (kept.readings, kept.since) == (1, 0)
    assert left == Bar(ref=1.5, readings=3, since=5)


def test_under_strict_the_next_bar_is_the_reading_itself() -> None:
    assert judged(1.4, rule="strict").next_bar == Bar(ref=1.4, reading=1.4)
    assert judged(1.6, rule="strict").next_bar == Bar(ref=1.5, since=1)


def test_gain_error_and_probability_belong_together() -> None:
    verdict = judge.judge(rules(), Bar(ref=1.5, readings=3), reading(1.498), NOISE, change())
    assert verdict.gain == pytest.approx(0.002)
    assert verdict.standard_error == pytest.approx(SIGMA * math.sqrt(4 / 3))
    assert verdict.p_better == pytest.approx(0.5 * (1 + math.erf(0.002 / (SIGMA * math.sqrt(8 / 3)))))
    assert judged(1.5).p_better == 0.5
    assert (judged(1.6).p_better or 0.0) < 1e-9 < 1 - 1e-9 < (judged(1.4).p_better or 0.0)


@pytest.mark.parametrize("value", [NAN, -NAN, INF, -INF])
def test_a_value_that_is_no_number_cannot_even_be_written_down(value: float) -> None:
    for make_it in (
        lambda: measured(value),
        lambda: Bar(ref=value),
        lambda: Noise(sigma=value, prior_sigma=1, prior_weight=1, degrees=0),
        lambda: Verdict(status=Status.KEEP, reason="", rule="strict", value=value),
    ):
        with pytest.raises(ValidationError):
            make_it()
    with pytest.raises(ValidationError):
        rules(band=(0.3, value))


@pytest.mark.parametrize("value", [-37.8, 0.0, -0.0, 0.01, 0.3, 20.0, 1e300])
@pytest.mark.parametrize("rule", ["debiased", "strict"])
@pytest.mark.parametrize("direction", ["lower", "higher"])
def test_an_implausible_value_is_invalid_and_the_bar_stays(value: float, rule: str, direction: str) -> None:
    bar = Bar(ref=1.5, readings=2, since=7)
    verdict = judge.judge(rules(rule, direction), bar, reading(value), NOISE, change())
    assert (verdict.status, verdict.reason, verdict.value, verdict.next_bar) == (Status.INVALID, "implausible", None, bar)
    assert verdict.status in FAILED
    assert "outside the plausible band 0.3 to 20" in verdict.detail


@pytest.mark.parametrize(("end", "status"), [
    (JobEnd.CRASH, Status.CRASH), (JobEnd.TIMEOUT, Status.TIMEOUT), (JobEnd.OOM, Status.OOM), (JobEnd.INVALID, Status.INVALID),
    (JobEnd.INTERRUPTED, Status.CRASH),
])  # fmt: skip
def test_a_job_that_did_not_end_well_has_the_status_of_its_end_whatever_was_measured(end: JobEnd, status: Status) -> None:
    bar = Bar(ref=1.5, since=3)
    for value in (None, 1.0):
        verdict = judge.judge(rules(), bar, reading(value, end), NOISE, change())
        assert (verdict.status, verdict.reason, verdict.detail) == (status, end.value, "why")
        assert (verdict.value, verdict.gain, verdict.p_better, verdict.next_bar) == (None, None, None, bar)


@pytest.mark.parametrize(
    ("reason", "to_blame", "status"),
    [("short_answer", True, Status.INVALID), ("evaluation", True, Status.CRASH), ("metric_error", False, Status.INTERRUPTED)],
)
def test_a_fault_of_the_evaluation_is_no_value_even_with_a_number_beside_it(reason: str, to_blame: bool, status: Status) -> None:
    fault = EvaluationFault(reason=reason, detail="3 of 9", candidate_to_blame=to_blame)
    for value in (None, 1.0):
        verdict = judge.judge(rules(), Bar(ref=1.5), reading(value, fault=fault), NOISE, change())
        assert (verdict.status, verdict.reason, verdict.detail, verdict.value) == (status, reason, "3 of 9", None)


@pytest.mark.parametrize("rule", ["debiased", "strict"])
@pytest.mark.parametrize("direction", ["lower", "higher"])
@pytest.mark.parametrize("net", [-50, 0, 50])
def test_a_missing_value_is_never_kept(rule: str, direction: str, net: int) -> None:
    verdict = judge.judge(rules(rule, direction), Bar(ref=1.5, since=90), reading(None), NOISE, change(net))
    assert (verdict.status, verdict.reason, verdict.value) == (Status.CRASH, "no_result", None)


def test_the_baseline_is_the_mean_of_readings_that_are_all_believable() -> None:
    verdict = judge.judge_baseline(rules(), [reading(1.0), reading(1.5), reading(2.0)], NOISE)
    assert (verdict.status, verdict.reason, verdict.value, verdict.next_bar) == (Status.KEEP, "baseline", 1.5, Bar(ref=1.5, readings=3))
    for bad, status in ((reading(None), "crash"), (reading(None, JobEnd.OOM), "oom"), (reading(0.0), "invalid")):
        verdict = judge.judge_baseline(rules(), [reading(1.0), bad], None)
        assert (verdict.status.value, verdict.value, verdict.next_bar) == (status, None, None)


def test_the_incumbent_is_measured_again_after_a_drought_but_not_for_ever() -> None:
    due = rereading.remeasure_due
    assert [due(rules(), Bar(ref=1, since=s), 0) for s in (0, 19, 20, 21)] == [False, False, True, True]
    assert [due(rules(), Bar(ref=1, since=20), n) for n in (0, 3, 4, 5)] == [True, True, False, False]
    assert not due(rules("strict"), Bar(ref=1, since=99), 0)
    assert not due(rules(remeasure_incumbent_after=None), Bar(ref=1, since=99), 0)
    assert due(rules(remeasure_incumbent_after=2), Bar(ref=1, since=2), 0)
    assert rereading.after_remeasuring([1.0, 2.0]) == Bar(ref=1.5, readings=2, since=0)


VALUES = st.floats(0.4, 19.0)
LINES = st.integers(-40, 40)


@given(VALUES, VALUES, st.integers(0, 40), st.integers(1, 5), LINES, st.floats(1e-6, 0.5), st.sampled_from(["debiased", "strict"]))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_higher_is_better_mirrors_lower_is_better(
    value: float, ref: float, since: int, readings: int, net: int, sigma: float, rule: str
) -> None:
    noise = NOISE.model_copy(update={"sigma": sigma})
    low = judge.judge(rules(rule), Bar(ref=ref, readings=readings, since=since), reading(value), noise, change(net))
    mirror = rules(rule, "higher", (-20.0, -0.3))
    high = judge.judge(mirror, Bar(ref=-ref, readings=readings, since=since), reading(-value), noise, change(net))
    assert (high.status, high.reason, high.gain, high.p_better) == (low.status, low.reason, low.gain, low.p_better)
    assert (high.standard_error, high.complexity, high.sigma) == (low.standard_error, low.complexity, low.sigma)
    assert low.bar is not None and low.next_bar is not None
    assert high.bar == -low.bar
    read = low.next_bar.reading
    assert high.next_bar == low.next_bar.model_copy(update={"ref": -low.next_bar.ref, "reading": None if read is None else -read})


@given(st.lists(st.tuples(VALUES, LINES), min_size=1, max_size=30), st.sampled_from(["lower", "higher"]))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_a_keep_under_strict_always_reads_strictly_better_than_all_before(candidates: list[tuple[float, int]], direction: str) -> None:
    sign = 1 if direction == "lower" else -1
    bar, best = Bar(ref=1.5), 1.5
    for value, net in candidates:
        verdict = judge.judge(rules("strict", direction), bar, reading(value), NOISE, change(net))
        assert (verdict.status is Status.KEEP) == (sign * value < sign * best)
        best = value if verdict.status is Status.KEEP else best
        assert verdict.next_bar is not None
        bar = verdict.next_bar
        assert bar.ref == best


@given(VALUES, VALUES, st.integers(0, 60), LINES, st.floats(1e-6, 0.5))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_debiased_keep_is_within_a_sigma_and_a_half_of_the_reference_and_never_worse_than_its_next(
    value: float, ref: float, since: int, net: int, sigma: float
) -> None:
    noise = NOISE.model_copy(update={"sigma": sigma})
    verdict = judge.judge(rules(), Bar(ref=ref, since=since), reading(value), noise, change(net))
    if verdict.status is Status.KEEP:
        assert value <= ref + 1.5 * sigma * 1.000001
        assert verdict.next_bar is not None
        low, high = sorted((value, verdict.bar or 0.0))
        assert low - 1e-9 <= verdict.next_bar.ref <= high + 1e-9
        assert verdict.next_bar.ref <= value + sigma * 1.000001


def timed(value: float, seconds: float | None) -> Reading:
    one = reading(value)
    return one.model_copy(update={"outcome": one.outcome.model_copy(update={"cpu_seconds": seconds})})


@pytest.mark.parametrize(("factor", "used", "reason"), [
    (1.5, 13.6, "better"), (1.5, 13.7, "no_headroom"), (1.5, 15.0, "no_headroom"),  # a baseline of 10 s: 15 / 1.1 is 13.64
    (1.25, 11.3, "better"), (1.25, 11.4, "no_headroom"),
    (1.05, 10.2, "better"), (1.05, 10.3, "no_headroom"), (1.0, 10.0, "better"),  # of a small margin half is left
    (1.5, None, "better"),
])  # fmt: skip
def test_what_would_be_kept_must_leave_a_tenth_below_the_cap(factor: float, used: float | None, reason: str) -> None:
    law, bar = rules(), Bar(ref=1.5, readings=3, since=4)
    law = law.model_copy(update={"trial": law.trial.model_copy(update={"compute_cap": factor})})
    verdict = judge.judge(law, bar, timed(1.4, used), NOISE, change(), cpu_cap=factor * 10.0)
    assert verdict.reason == reason
    assert verdict.value == 1.4 and [verdict.gain, verdict.p_better] == pytest.approx([0.1, 1.0]), "it is measured all the same"
    if reason == "no_headroom":
        assert verdict.status is Status.DISCARD and verdict.next_bar == bar.model_copy(update={"since": 5})
        assert f"it took {used:.1f} CPU seconds; to be kept it may take " in verdict.detail
        assert f"below the cap of {factor * 10:.1f}" in verdict.detail
    else:
        assert verdict == judge.judge(law, bar, timed(1.4, used), NOISE, change()), "without a cap nothing else is decided"


def test_what_takes_no_longer_than_the_incumbent_has_room_whatever_the_clock_says() -> None:
    """Else an incumbent near the line would lose half of its successors to the noise of the clock."""
    kept = judge.judge(rules(), Bar(ref=1.5), timed(1.4, 11.3), NOISE, change(), cpu_cap=12.5)
    assert kept.status is Status.KEEP and kept.next_bar is not None and kept.next_bar.cpu_seconds == 11.3
    same, longer = (judge.judge(rules(), kept.next_bar, timed(1.2, used), NOISE, change(), cpu_cap=12.5) for used in (11.5, 11.6))
    assert (same.reason, longer.reason) == ("better", "no_headroom")


def test_even_a_shorter_file_without_effect_is_not_kept_at_the_cap() -> None:
    paired = Bar(ref=1.5, reading=1.5, paired=True)
    kept, late = (judge.judge(rules(), paired, timed(1.5, used), NOISE, change(-3), cpu_cap=12.5) for used in (11.0, 12.0))
    assert (kept.status, kept.reason) == (Status.KEEP, "equal_and_shorter")
    assert (late.status, late.reason) == (Status.DISCARD, "no_headroom")


@given(VALUES, st.floats(0.1, 40.0), st.floats(1.0, 3.0), st.floats(0.1, 20.0), LINES, st.sampled_from(["debiased", "strict"]))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_headroom_takes_keeps_away_and_changes_nothing_else(
    value: float, used: float, factor: float, base: float, net: int, rule: str
) -> None:
    law = rules(rule)
    law, cap = law.model_copy(update={"trial": law.trial.model_copy(update={"compute_cap": factor})}), factor * base
    free = judge.judge(law, Bar(ref=1.5), timed(value, used), NOISE, change(net))
    capped = judge.judge(law, Bar(ref=1.5), timed(value, used), NOISE, change(net), cpu_cap=cap)
    if capped.status is Status.KEEP:
        assert used <= cap / min(1.1, factor**0.5)
    elif capped.reason == "no_headroom":
        assert free.status is Status.KEEP and used > base * 0.999999
    if capped.reason != "no_headroom":
        assert capped == free


def test_the_best_is_among_kept_rows_only() -> None:
    """Keep 0.99, a crash that printed 0.000000, a discard at 0.98: the best is 0.99."""
    night = make.Night()
    night.truth, night.sigma = 0.99, 1e-9
    events = [night.start(), *night.baseline(1), *night.candidate(failure=0)]
    night.bar = Bar(ref=0.97)
    events += night.candidate(0.01)
    study = make.fold(events)
    assert [row.status for row in study.rows] == [Status.KEEP, Status.CRASH, Status.DISCARD]
    assert study.rows[2].value == pytest.approx(0.98)
    assert study.incumbent is not None and study.incumbent.trial == 0
    assert study.incumbent.value == pytest.approx(0.99)


NIGHTS, TRIALS, LEVEL = 2_000, 100, 1.5


def null_readings(seed: int) -> list[float]:
    """Enough readings of one program for a night: baseline, candidates, re-measurements."""
    gauss = random.Random(seed).gauss
    return [LEVEL + gauss(0.0, SIGMA) for _ in range(3 + 2 * TRIALS)]


def judged_night(rule: str, values: Iterable[float]) -> list[int]:
    """The trials kept by the judge itself, re-measured as `control/night.py` does it."""
    read, law = iter(values), rules(rule)
    group = [next(read) for _ in range(3)]
    bar = judge.judge_baseline(law, [reading(v) for v in group], NOISE).next_bar
    kept: list[int] = []
    for trial in range(1, TRIALS + 1):
        assert bar is not None
        value = next(read)
        verdict = judge.judge(law, bar, reading(value), NOISE, change())
        bar = verdict.next_bar
        if verdict.status is Status.KEEP:
            kept, group = [*kept, trial], [value]
        elif bar and rereading.remeasure_due(law, bar, len(group) if len(group) > 1 or not kept else 0):
            group.append(next(read))
            bar = rereading.after_remeasuring(group[1:] if kept else group)
    return kept


def fast_night(rule: str, values: Iterable[float]) -> list[int]:
    """The same in plain arithmetic, written from the rule's text."""
    read = iter(values)
    group = [next(read) for _ in range(3)]
    ref, since, kept = sum(group) / 3, 0, []
    for trial in range(1, TRIALS + 1):
        y = next(read)
        bar = ref + min(0.05 * since, 1.0) * SIGMA if rule == "debiased" else ref
        if y < bar:
            ref, since, group = (y + min(SIGMA, 0.5 * (bar - y)) if rule == "debiased" else y), 0, [y]
            kept.append(trial)
            continue
        since += 1
        if rule == "debiased" and since >= 20 and (len(group) if len(group) > 1 or not kept else 0) < 4:
            group.append(next(read))
            unselected = group[1:] if kept else group
            ref, since = sum(unselected) / len(unselected), 0
    return kept


@pytest.mark.parametrize("rule", ["debiased", "strict"])
def test_chance_keeps_of_null_nights_are_those_the_report_expects(rule: str) -> None:
    """2,000 nights of 100 candidates that are all the incumbent again."""
    for seed in range(12):
        assert fast_night(rule, null_readings(seed)) == judged_night(rule, null_readings(seed))
    gauss = random.Random(45).gauss
    endless = iter(lambda: LEVEL + gauss(0.0, SIGMA), None)
    mean = fmean(len(fast_night(rule, endless)) for _ in range(NIGHTS))
    assert mean == pytest.approx(chance.expected_chance_keeps(TRIALS, rule), rel=0.10)


def test_where_readings_are_paired_the_first_bar_is_the_reading_with_the_candidates_seed() -> None:
    three = [reading(value).model_copy(update={"replicate": seed, "seed": seed}) for seed, value in enumerate((1.5, 1.51, 1.52))]
    paired, mean = judge.judge_baseline(rules(), three, NOISE, True), judge.judge_baseline(rules(), three, NOISE)
    assert [paired.value, mean.value] == pytest.approx([1.51, 1.51])
    assert paired.next_bar == Bar(ref=1.5, reading=1.5, paired=True)
    assert mean.next_bar is not None
    assert (mean.next_bar.readings, mean.next_bar.paired) == (3, False)
    assert mean.next_bar.ref == pytest.approx(1.51)


def test_where_readings_are_paired_an_equal_reading_means_that_the_change_does_nothing() -> None:
    late = Bar(ref=1.5005, reading=1.5, paired=True, since=20)
    idle = judge.judge(rules(), late, reading(1.5), NOISE, change(0))
    assert (idle.status, idle.reason) == (Status.DISCARD, "no_effect")
    assert (idle.gain, idle.p_better, idle.standard_error) == (0.0, 0.5, 0.0)
    shorter = judge.judge(rules(), late, reading(1.5), NOISE, change(-3))
    assert (shorter.status, shorter.reason, shorter.gain) == (Status.KEEP, "equal_and_shorter", 0.0)
    assert shorter.next_bar == late.model_copy(update={"since": 0}), "nothing was gained, so nothing moves"
    free = judge.judge(rules(complexity_per_line=0.0), late, reading(1.5), NOISE, change(-3))
    assert (free.status, free.reason) == (Status.DISCARD, "no_effect")
    assert judge.judge(rules(), late.model_copy(update={"paired": False}), reading(1.5), NOISE, change(0)).status is Status.KEEP
    kept = judge.judge(rules(), late, reading(1.4), NOISE, change(0)).next_bar
    assert kept is not None
    assert (kept.reading, kept.paired) == (1.4, True)


@pytest.mark.parametrize(
    ("correction", "value", "status"), [(-3e-4, 1.49999999, Status.DISCARD), (0.0, 1.49999999, Status.KEEP), (-3e-4, 1.4999, Status.KEEP)]
)
def test_a_corrected_value_is_the_same_up_to_its_rounding(correction: float, value: float, status: Status) -> None:
    late = Bar(ref=1.5, reading=1.5, paired=True)
    claimed = reading(value + correction).model_copy(update={"audit": Audit(positions=1024, correction=correction)})
    assert claimed.value == pytest.approx(value)
    assert judge.judge(rules(), late, claimed, NOISE, change(0)).status is status


def test_where_readings_are_paired_the_incumbent_is_not_measured_again() -> None:
    assert not rereading.remeasure_due(rules(), Bar(ref=1.5, since=99, paired=True), 0)
