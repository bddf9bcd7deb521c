"""When a rung of the stall ladder is due: a table, and no order of events that climbs one twice or skips one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.artifacts.ladder import Ladder
from harness.artifacts.oversight_events import Climbed
from harness.control import stall
from harness.control.stall import Reach
from harness.oversight import Rung, Stall
from harness.trial import Status

RUNGS: tuple[Rung, ...] = ("other_axis", "combine", "radical", "ask")
ALL: tuple[Rung, ...] = ("other_axis", "combine", "wider_briefing", "other_model", "radical", "critic", "ask")
LAW = Stall(after=3, quota=2, rungs=RUNGS)
ABLE = Reach(proposers=("anthropic", "search"), near_misses=2, other_model="search")
Word = Status | Stall | None


def after(drought: int, *steps: tuple[Rung, int], law: Stall = LAW) -> Ladder:
    """A ladder after that many discards, with these rungs taken at these droughts."""
    ladder = Ladder()
    for number in range(1, drought + 1):
        ladder.settled(number, Status.DISCARD)
        for rung, at in steps:
            if at == number:
                ladder.step(Climbed(rung=rung, why="w"))
    return ladder


@pytest.mark.parametrize(
    ("ladder", "law", "rung"),
    [
        (after(2), LAW, None),
        (after(3), LAW, "other_axis"),
        (after(9), LAW, "other_axis"),
        (after(4, ("other_axis", 3)), LAW, None),
        (after(5, ("other_axis", 3)), LAW, "combine"),
        (after(8, ("other_axis", 3), ("combine", 7)), LAW, None),
        (after(20, ("other_axis", 3), ("combine", 5), ("radical", 7), ("ask", 9)), LAW, None),
        (after(3), Stall(after=4, quota=2, rungs=RUNGS), None),
        (after(4, ("other_axis", 3)), Stall(after=3, quota=1, rungs=RUNGS), "combine"),
        (after(5, ("other_axis", 3)), Stall(after=9, quota=2, rungs=RUNGS), None),
        (after(5, ("other_axis", 3)), Stall(after=3, quota=2, rungs=("other_axis", "ask")), "ask"),
        (after(5, ("other_axis", 3)), Stall(after=3, quota=2, rungs=()), ""),
        (after(5, ("other_axis", 3)), Stall(after=None), ""),
        (after(99), Stall(after=None), None),
        (after(99), Stall(rungs=()), None),
    ],
)
def test_a_rung_is_due_by_measured_trials_and_by_the_rules_as_they_are_now(ladder: Ladder, law: Stall, rung: str | None) -> None:
    step = stall.due(ladder, law, ABLE)
    assert (step.rung if step else None) == rung
    assert stall.is_due(ladder, law) is (step is not None)


@pytest.mark.parametrize("status", [Status.CRASH, Status.OOM, Status.TIMEOUT, Status.INVALID, Status.INTERRUPTED, Status.BLOCKED])
def test_what_was_not_measured_says_nothing_of_a_stall(status: Status) -> None:
    ladder = after(2)
    for number in range(3, 30):
        ladder.settled(number, status)
    assert stall.due(ladder, LAW, ABLE) is None


def test_a_keep_leads_down_at_once_and_opens_every_rung_again() -> None:
    ladder = after(5, ("other_axis", 3), ("combine", 5))
    ladder.settled(6, Status.KEEP)
    step = stall.due(ladder, LAW, ABLE)
    assert step
    assert (step.rung, step.why) == ("", "trial 6 was kept")
    ladder.step(step)
    assert (ladder.rung, ladder.climbed, ladder.drought) == (None, [], 0)
    assert stall.due(ladder, LAW, ABLE) is None
    for number in range(7, 10):
        ladder.settled(number, Status.DISCARD)
    again = stall.due(ladder, LAW, ABLE)
    assert again
    assert again.rung == "other_axis"


def test_a_rung_taken_out_of_the_rules_is_left_and_not_taken_a_second_time_in_the_same_drought() -> None:
    ladder, shorter = after(5, ("other_axis", 3)), Stall(after=3, quota=2, rungs=("radical",))
    step = stall.due(ladder, shorter, ABLE)
    assert step
    assert step.why == "program.md no longer has the rung other_axis in [stall] rungs"
    ladder.step(step)
    following = stall.due(ladder, LAW, ABLE)
    assert following
    assert following.rung == "combine"


@pytest.mark.parametrize(
    ("rung", "reach", "said"),
    [
        ("other_axis", Reach(proposers=("scripted",)), "only a list of edits proposes, and it heeds no rung"),
        ("radical", Reach(proposers=("scripted",)), "only a list of edits proposes, and it heeds no rung"),
        ("ask", Reach(proposers=("scripted",)), ""),
        ("wider_briefing", Reach(proposers=("search",)), "no proposer of this study reads"),
        ("wider_briefing", ABLE, ""),
        (
            "combine",
            Reach(proposers=("search",), near_misses=1),
            "there are no two near misses on the incumbent that change different parts",
        ),
        ("combine", ABLE, ""),
        ("other_model", Reach(proposers=("search",)), "there is no other model in [model] names and no other proposer in a mix"),
        ("other_model", ABLE, ""),
        (
            "other_model",
            Reach(proposers=("search", "anthropic"), absent="anthropic"),
            "anthropic would be asked instead, but is away or has no more ideas now",
        ),
        ("critic", Reach(proposers=("search",), critic="none"), "no proposer of this study reads"),
        ("critic", Reach(proposers=("command",), critic="no reviewer"), "no reviewer"),
        ("critic", ABLE, ""),
        ("radical", Reach(proposers=("search",)), ""),
    ],
)
def test_a_rung_that_can_do_nothing_here_is_passed_over_and_says_why(rung: Rung, reach: Reach, said: str) -> None:
    ladder, law = after(3), Stall(after=3, quota=2, rungs=(rung,))
    step = stall.due(ladder, law, reach)
    assert step
    assert step.passed_over is bool(said)
    assert step.why == (said or "3 measured trials since the last keep ([stall] after = 3)")


def test_past_a_rung_the_next_one_is_due_at_once() -> None:
    ladder = after(3)
    alone = Reach(proposers=("search",))
    taken = []
    while step := stall.due(ladder, Stall(after=3, quota=2, rungs=ALL[1:]), alone):
        ladder.step(step)
        taken.append((step.rung, step.passed_over))
    assert taken == [("combine", True), ("wider_briefing", True), ("other_model", True), ("radical", False)]


@pytest.mark.parametrize(
    ("shares", "models", "absent", "rung", "expected"),
    [
        ({"search": 0.7, "anthropic": 0.3}, ("a",), set(), "other_model", {"anthropic": 0.3}),
        ({"search": 0.7, "anthropic": 0.3}, ("a",), {"anthropic"}, "other_model", {"search": 0.7, "anthropic": 0.3}),
        ({"search": 0.3, "anthropic": 0.7}, ("a", "b"), set(), "other_model", {"search": 0.3, "anthropic": 0.7}),
        ({"search": 0.3, "anthropic": 0.7}, ("a",), set(), "other_model", {"search": 0.3}),
        ({"search": 0.7, "anthropic": 0.3}, ("a",), set(), "radical", {"search": 0.7, "anthropic": 0.3}),
        ({"search": 1.0}, ("a", "b"), set(), "other_model", {"search": 1.0}),
    ],
)
def test_on_other_model_who_proposes_most_sits_out_unless_it_has_another_model_or_nobody_else_is_there(
    shares: dict[str, float], models: tuple[str, ...], absent: set[str], rung: Rung, expected: dict[str, float]
) -> None:
    assert stall.shifted(shares, models, rung, absent) == expected
    assert stall.other_model({"search": 1.0}, ("a", "b")) == ""
    assert stall.other_model({"anthropic": 1.0}, ("a", "b")) == "b"


@pytest.mark.parametrize(
    ("shares", "models", "absent", "other"),
    [
        ({"search": 0.7, "anthropic": 0.3}, ("a",), {"anthropic"}, ""),
        ({"search": 0.7, "anthropic": 0.3}, ("a",), {"search"}, "anthropic"),
        ({"search": 0.7, "anthropic": 0.2, "command": 0.1}, ("a",), {"anthropic"}, "command"),
        ({"anthropic": 1.0}, ("a", "b"), {"anthropic"}, ""),
        ({"anthropic": 0.7, "search": 0.3}, ("a", "b"), {"search"}, "b"),
    ],
)
def test_who_is_away_or_without_ideas_is_no_other_model(
    shares: dict[str, float], models: tuple[str, ...], absent: set[str], other: str
) -> None:
    assert stall.other_model(shares, models, absent) == other


WORDS = st.one_of(
    st.sampled_from([Status.DISCARD, Status.DISCARD, Status.DISCARD, Status.KEEP, Status.CRASH, None]),
    st.builds(Stall, after=st.integers(1, 4), quota=st.integers(1, 3), rungs=st.lists(st.sampled_from(ALL), max_size=5).map(tuple)),
)


@settings(max_examples=300, deadline=None)
@given(words=st.lists(WORDS, max_size=60), reach=st.sampled_from([ABLE, Reach(proposers=("search",)), Reach(proposers=("scripted",))]))
def test_no_order_of_trials_edits_and_restarts_climbs_a_rung_twice_or_skips_one(words: list[Word], reach: Reach) -> None:
    """`None` is a restart: all that is known comes from the journal. A rung is only taken when it is the first of the rules that was not taken yet."""
    ladder, law, trial, taken = Ladder(), Stall(after=2, quota=1, rungs=ALL), 0, list[str]()
    for word in words:
        if isinstance(word, Stall):
            law = word
        elif word is None:
            ladder = Ladder.model_validate_json(ladder.model_dump_json())
        else:
            trial += 1
            ladder.settled(trial, word)
        real = 0
        while step := stall.due(ladder, law, reach):
            if step.rung:
                assert step.rung == next(one for one in law.rungs if one not in taken)
                assert ladder.drought >= (law.after or 0)
                taken.append(step.rung)
                real += not step.passed_over
            elif word is Status.KEEP:
                taken.clear()
            assert step.why
            ladder.step(step)
            assert real <= 1
        assert len(taken) == len(set(taken))
        assert ladder.rung is None or ladder.rung in law.rungs
        assert word is not Status.KEEP or ladder.rung is None
