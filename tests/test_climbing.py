"""The offline search on the stall ladder: what each rung makes it propose, that it never runs dry of one, and that a restart changes nothing."""

from __future__ import annotations

import pytest

from harness.graph import duplicates, merging
from harness.proposers.climbing import RECENT, REFUSED, Climbing
from harness.proposers.constants import find_constants
from harness.proposers.protocol import Briefing, NearMiss, Past
from harness.trial import Proposal, Status

TRAIN = "".join(f"RATE_{letter} = 0.{number}\n" for number, letter in enumerate("ABCDEFGHIJKLMN", 1)) + "DEPTH = 4\nBIAS = False\n"
RUNGS = ("", "other_axis", "combine", "wider_briefing", "other_model", "radical", "critic", "ask")


def past(axis: str, edit: str, status: Status | None = Status.DISCARD) -> Past:
    return Past(trial=None, title="", axis=axis, edit=edit, status=status, refused=None if status else "duplicate")


def briefing(number: int, before: tuple[Past, ...], rung: str, text: str = TRAIN, near: tuple[NearMiss, ...] = ()) -> Briefing:
    return Briefing(
        number=number, incumbent="c", files={"train.py": text}, past=before, goal="", direction="lower", rung=rung, near=near
    )  # fmt: skip


def miss(trial: int, axis: str, old: str, new: str, text: str = TRAIN) -> NearMiss:
    changed = text.replace(f"{axis} = {old}\n", f"{axis} = {new}\n")
    assert changed != text
    return NearMiss(trial=trial, title=axis, axis=axis, edit=f"{axis}: {old} -> {new}", gain=0.001, files={"train.py": changed})


def values(text: str | None) -> dict[str, object]:
    return {one.name: one.value for one in find_constants(text or "")}


def changed(proposal: Proposal | None) -> set[str]:
    assert proposal
    return {name for name, value in values(proposal.files["train.py"]).items() if value != values(TRAIN)[name]}


def run(
    rung: str, trials: int, status: Status | None = Status.DISCARD, near: tuple[NearMiss, ...] = (), text: str = TRAIN
) -> list[Proposal]:
    """What a search proposes on a flat landscape, or to a guard that refuses everything."""
    before: list[Past] = []
    seen: list[Proposal] = []
    for number in range(1, trials + 1):
        proposal = Climbing(3).propose(briefing(number, tuple(before), rung, text, near))
        if proposal is None:
            break
        seen.append(proposal)
        before.append(past(proposal.axis, proposal.edit, status))
    return seen


@pytest.mark.parametrize("number", range(1, 20))
def test_on_other_axis_what_the_latest_trials_turned_rests(number: int) -> None:
    turned = [f"RATE_{letter}" for letter in "ABCDEFGHIJ"]
    before = tuple(past(name, f"{name}: 9.0 -> 8.0") for name in turned)
    assert len(before) == RECENT
    assert not changed(Climbing(1).propose(briefing(number, before, "other_axis"))) & set(turned)


def test_on_other_axis_with_every_axis_turned_lately_one_of_those_that_rested_longest_is_turned() -> None:
    text = "RATE_A = 0.1\nRATE_B = 0.2\n"
    before = (past("RATE_A", "RATE_A: 9.0 -> 8.0"), past("RATE_B", "RATE_B: 9.0 -> 8.0"))
    proposal = Climbing(1).propose(briefing(3, before, "other_axis", text))
    assert proposal
    assert proposal.axis == "RATE_A"


def test_on_combine_near_misses_go_into_one_edit_each_set_once_the_best_first() -> None:
    near = (miss(3, "RATE_A", "0.1", "0.15"), miss(5, "RATE_B", "0.2", "0.3"), miss(9, "DEPTH", "4", "5"))
    seen = run("combine", 4, near=near)
    assert [changed(one) for one in seen] == [{"RATE_A", "RATE_B"}, {"RATE_A", "DEPTH"}, {"RATE_B", "DEPTH"}, {"RATE_A", "RATE_B", "DEPTH"}]
    assert seen[0].title == "near misses 3 and 5 combined"
    assert seen[0].edit == "combined: trial 3 (RATE_A: 0.1 -> 0.15); trial 5 (RATE_B: 0.2 -> 0.3)"
    after = Climbing(3).propose(briefing(5, tuple(past(one.axis, one.edit) for one in seen), "combine", near=near))
    assert len(changed(after)) == 1


def test_near_misses_of_the_same_line_are_never_combined() -> None:
    near = (miss(3, "RATE_A", "0.1", "0.15"), miss(5, "RATE_A", "0.1", "0.08"))
    assert len(changed(Climbing().propose(briefing(1, (), "combine", near=near)))) == 1


def test_on_radical_steps_are_larger_than_usual_or_several_constants_turn_at_once() -> None:
    sizes = {len(changed(one)) for one in run("radical", 20)}
    assert sizes == {1, 3}
    for proposal in run("radical", 20):
        (name, *more) = changed(proposal)
        new, old = float(str(values(proposal.files["train.py"])[name])), float(str(values(TRAIN)[name]))
        if not more and name.startswith("RATE"):
            assert max(new / old, old / new) > 3
        if not more and name == "DEPTH":
            assert abs(new - old) == 3


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("status", [Status.DISCARD, Status.CRASH, None])
def test_no_rung_makes_the_search_run_dry_before_its_time_or_repeat_itself(rung: str, status: Status | None) -> None:
    near = (miss(3, "RATE_A", "0.1", "0.15"), miss(5, "RATE_B", "0.2", "0.3"))
    plain, seen = run("", 120, status), run(rung, 120, status, near)
    assert len(seen) >= len(plain) > 20
    assert len({one.edit for one in seen}) == len(seen)


def test_a_rung_whose_proposals_are_refused_leaves_the_turn_to_the_plain_search() -> None:
    seen = run("radical", REFUSED + 1, None)
    assert [one.edit.startswith("radical: ") for one in seen] == [True] * REFUSED + [False]


@pytest.mark.parametrize("rung", RUNGS)
def test_a_restart_on_a_rung_changes_nothing(rung: str) -> None:
    near = (miss(3, "RATE_A", "0.1", "0.15"), miss(5, "RATE_B", "0.2", "0.3"))
    assert run(rung, 12, near=near) == run(rung, 12, near=near)


@pytest.mark.parametrize("text", ["", "x = (", "SEED = 1", "X = 1; X = 2"])
@pytest.mark.parametrize("rung", RUNGS)
def test_a_file_without_constants_gives_no_proposal_on_any_rung(text: str, rung: str) -> None:
    assert Climbing().propose(briefing(1, (), rung, text)) is None


def test_a_radical_step_teaches_the_plain_search_nothing_on_one_axis() -> None:
    """A leap that ran out of memory does not bar the small step in the same direction."""
    leap = past("DEPTH", "radical: DEPTH: 4 -> 7", Status.OOM)
    text = "DEPTH = 4\n"
    plain = Climbing().propose(briefing(2, (leap,), "", text))
    assert plain
    assert plain.edit == "DEPTH: 4 -> 5"


BASE = "A = 1\nB = 2\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n"


@pytest.mark.parametrize(
    ("edits", "merged"),
    [
        ((("A = 1", "A = 3"), ("B = 2", "B = 4")), "A = 3\nB = 4\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n"),
        ((("return 1", "return 10"), ("return 2", "return 20")), BASE.replace("return 1", "return 10").replace("return 2", "return 20")),
        (
            (("A = 1\n", "A = 1\nC = 5\n"), ("return 2", "return 20")),
            BASE.replace("A = 1\n", "A = 1\nC = 5\n").replace("return 2", "return 20"),
        ),
        ((("A = 1", "A = 3"), ("A = 1", "A = 4")), None),
        ((("A = 1\n", "A = 1\nC = 5\n"), ("A = 1\n", "A = 1\nD = 5\n")), None),
        ((("A = 1\nB = 2", "A = (1"), ("return 2", "return 20")), None),
    ],
)
def test_edits_of_one_text_are_merged_only_where_none_touches_another(edits: tuple[tuple[str, str], ...], merged: str | None) -> None:
    assert merging.merged(BASE, [BASE.replace(old, new) for old, new in edits]) == merged


NAMES = "RATE = 1\n\n\ndef f(x):\n    y = x\n    x += 1\n    return y\n\n\ndef g():\n    return 2\n\n\ndef h():\n    return max(1, 2)\n"


@pytest.mark.parametrize(
    ("edits", "merges"),
    [
        ((("RATE = 1", "SPEED = 1"), ("return 2", "return 2 * RATE")), False),
        ((("RATE = 1", "SPEED = 1"), ("max(1, 2)", "[RATE for _ in range(2)]")), False),
        ((("    y = x\n    x += 1\n    return y\n", "    z = x\n    x += 1\n    return z\n"), ("x += 1", "x += y")), False),
        ((("RATE = 1\n", ""), ("return 2", "return RATE")), False),
        ((("RATE = 1", "SPEED = RATE = 1"), ("return 2", "return 2 * RATE")), True),
        ((("RATE = 1", "def SPEED():\n    global RATE\n    RATE = 1"), ("return 2", "return 2 * RATE")), True),
        ((("RATE = 1", "from os import sep as RATE"), ("return 2", "return RATE")), True),
        ((("RATE = 1", "SPEED = min(1, 2)"), ("return 2", "return len([2])")), True),
        ((("RATE = 1", "RATE = undefined"), ("return 2", "return 3")), True),
    ],
)
def test_what_takes_a_name_away_is_not_merged_with_what_reads_it(edits: tuple[tuple[str, str], ...], merges: bool) -> None:
    made = [NAMES.replace(old, new) for old, new in edits]
    assert all(text != NAMES for text in made)
    assert (merging.merged(NAMES, made) is not None) is merges


def test_a_text_of_many_thousand_lines_is_not_merged() -> None:
    base = "".join(f"A{n} = {n}\n" for n in range(merging.LONGEST + 1))
    assert merging.merged(base, [base.replace("A1 = 1\n", "A1 = 2\n"), base.replace("A9 = 9\n", "A9 = 8\n")]) is None
    assert duplicates.parse(base)
