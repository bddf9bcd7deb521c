"""Coordinate descent on the constants of train.py: what it turns, how, and that it only depends on the past."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.graph import duplicates
from harness.proposers.constants import find_constants
from harness.proposers.protocol import Briefing, Past, Proposer
from harness.proposers.search import Search, replay, turned
from harness.trial import Proposal, Status

TRAIN = '''"""Größe."""
SEED = 1
MATRIX_LR = 0.04  # Muon
EMBEDDING_LR = 6e-1
WARMDOWN = 0.5
ADAM_BETA2 = 0.95
BATCH = 2_048  # tokens
DEPTH = 4
BIAS: bool = False
'''
BEST = {"MATRIX_LR": 0.013, "EMBEDDING_LR": 1.7, "WARMDOWN": 0.8, "ADAM_BETA2": 0.9, "BATCH": 8192, "DEPTH": 7, "BIAS": 1}
Judge = Callable[[str], Status | None]  # `None`: refused


def values(text: str) -> dict[str, float]:
    return {constant.name: float(constant.value) for constant in find_constants(text)}


def loss(text: str) -> float:
    """A noise-free bowl with its floor, 0, at BEST; rates, batch and depth count in octaves."""
    at = values(text)
    octaves = [math.log2(at[name] / BEST[name]) for name in ("MATRIX_LR", "EMBEDDING_LR", "BATCH", "DEPTH")]
    shares = [4 * (at[name] - BEST[name]) for name in ("WARMDOWN", "ADAM_BETA2", "BIAS")]
    return sum(x * x for x in octaves + shares)


class Study:
    """A noise-free study without git or jobs: what the loop does with a proposer's ideas."""

    def __init__(self, text: str = TRAIN, judge: Judge | None = None) -> None:
        self.text, self.judge = text, judge
        self.past: list[Past] = []
        self.seen: list[Proposal] = []

    def briefing(self) -> Briefing:
        files = {"train.py": self.text}
        return Briefing(number=len(self.past) + 1, incumbent="c", files=files, past=tuple(self.past), goal="", direction="lower")

    def run(self, proposer: Proposer, trials: int) -> Study:
        for _ in range(trials):
            proposal = proposer.propose(self.briefing())
            if proposal is None:
                break
            self.settle(proposal)
        return self

    def settle(self, proposal: Proposal) -> None:
        text = proposal.files["train.py"]
        assert text is not None
        status = self.judge(text) if self.judge else self.compare(text)
        refused = None if status else "duplicate"
        self.seen.append(proposal)
        self.past.append(past(proposal.axis, proposal.edit.split(": ")[1], status, refused))
        if status is Status.KEEP:
            self.text = text

    def compare(self, text: str) -> Status:
        return Status.KEEP if loss(text) < loss(self.text) else Status.DISCARD


def past(axis: str, edit: str, status: Status | None, refused: str | None = None) -> Past:
    return Past(trial=None, title="", axis=axis, edit=f"{axis}: {edit}", status=status, refused=refused)


@pytest.mark.parametrize("seed", range(4))
def test_sixty_trials_go_most_of_the_way_down_a_bowl(seed: int) -> None:
    study = Study().run(Search(seed), 60)
    assert loss(study.text) < 0.15 * loss(TRAIN)


@pytest.mark.parametrize("seed", range(3))
def test_a_measured_file_is_rarely_proposed_again(seed: int) -> None:
    """The guard refuses such a proposal before any device time; it costs nothing but must not become a habit."""
    study = Study().run(Search(seed), 200)
    texts = [proposal.files["train.py"] for proposal in study.seen]
    assert len(set(texts)) >= 0.95 * len(texts)


def test_a_keep_opens_the_other_constants_moves_again() -> None:
    constants = find_constants(TRAIN)
    failed = past("MATRIX_LR", "0.04 -> 0.0606", Status.DISCARD)
    kept = past("DEPTH", "4 -> 5", Status.KEEP)
    axes = replay([failed, kept], constants)
    assert axes["MATRIX_LR"].tried == set()
    assert axes["DEPTH"].tried == {(4.0, 5.0), (5.0, 4.0)}


def test_a_restart_at_any_trial_changes_nothing() -> None:
    study = Study().run(Search(5), 40)
    again = Study()
    for proposal in study.seen:
        assert Search(5).propose(again.briefing()) == proposal
        again.settle(proposal)
    assert again.text == study.text


def test_another_seed_is_another_study() -> None:
    edits = {tuple(proposal.edit for proposal in Study().run(Search(seed), 10).seen) for seed in range(4)}
    assert len(edits) > 1


def test_only_the_literal_is_replaced() -> None:
    study = Study(judge=lambda text: Status.DISCARD).run(Search(), 60)
    for proposal in study.seen:
        text = proposal.files["train.py"] or ""
        changed = [(old, new) for old, new in zip(TRAIN.splitlines(), text.splitlines(), strict=True) if old != new]
        assert len(changed) == 1
        assert changed[0][0].split("=")[0] == changed[0][1].split("=")[0]
        assert changed[0][0].partition("#")[2] == changed[0][1].partition("#")[2]
        assert duplicates.fingerprint(text) != duplicates.fingerprint(TRAIN)


def test_a_proposal_says_what_it_does() -> None:
    proposal = Search().propose(Study("MATRIX_LR = 4e-2  # peak\n").briefing())
    assert proposal
    assert (proposal.id, proposal.parent, proposal.proposer, proposal.axis) == (1, "c", "search", "MATRIX_LR")
    assert (proposal.title, proposal.edit) == ("MATRIX_LR 0.04 → 0.0606", "MATRIX_LR: 0.04 -> 0.0606")
    assert proposal.files == {"train.py": "MATRIX_LR = 0.0606  # peak\n"}
    assert all(said.endswith(".") for said in (proposal.hypothesis, proposal.expected_effect, proposal.refuted_if))


@pytest.mark.parametrize(
    "text", ["", "x = (", "SEED = 1", "rate = 1.0", "N = 'a'", "P = (1, 2)", "X = 1; X = 2", "X = 1 + 1; Y = -1j", "LR = 0.0"]
)
def test_a_file_without_constants_gives_no_proposal(text: str) -> None:
    assert Search().propose(Study(text).briefing()) is None


def test_a_negative_number_keeps_its_sign() -> None:
    proposal = Search().propose(Study("SHIFT = -0.5\n").briefing())
    assert proposal
    assert proposal.files == {"train.py": "SHIFT = -0.758\n"}


def test_no_file_gives_no_proposal() -> None:
    assert Search().propose(Briefing(number=1, incumbent="c", files={}, past=(), goal="", direction="lower")) is None


@pytest.mark.parametrize("status", [Status.DISCARD, Status.CRASH, Status.OOM, Status.INTERRUPTED, Status.BLOCKED, None])
def test_a_study_that_never_keeps_ends_by_itself(status: Status | None) -> None:
    study = Study(judge=lambda text: status).run(Search(1), 500)
    assert Search(1).propose(study.briefing()) is None
    assert len({one.edit for one in study.seen}) == len(study.seen) > 7


def test_after_a_failure_the_other_way_and_after_two_half_the_step() -> None:
    study = Study("MATRIX_LR = 0.04\n", judge=lambda text: Status.DISCARD).run(Search(), 6)
    reached = " ".join(proposal.title.split("→ ")[1] for proposal in study.seen)
    assert reached == "0.0606 0.0264 0.0492 0.0325 0.0444 0.0361"


def test_a_way_that_failed_to_run_is_not_tried_again_from_there() -> None:
    study = Study("MATRIX_LR = 0.04\n")
    study.judge = lambda text: Status.OOM if values(text)["MATRIX_LR"] > 0.04 else Status.DISCARD
    study.run(Search(), 100)
    assert [values(one.files["train.py"] or "")["MATRIX_LR"] > 0.04 for one in study.seen] == [True] + 4 * [False]


def idle(axis: str, edit: str) -> Past:
    return past(axis, edit, Status.DISCARD).model_copy(update={"no_effect": True})


def test_a_way_without_effect_is_not_gone_again_and_the_other_one_is_still_open() -> None:
    """A window above the context does nothing when it grows, and something when it shrinks. Halved steps would tell the same."""
    study = Study("MATRIX_LR = 0.04\nEVERY = 8\n", judge=lambda text: Status.DISCARD)
    while (proposal := Search(3).propose(study.briefing())) is not None:
        study.settle(proposal)
        if proposal.axis == "EVERY":
            study.past[-1] = study.past[-1].model_copy(update={"no_effect": True})
    axes = [proposal.axis for proposal in study.seen]
    assert axes.count("EVERY") == 2 and axes.count("MATRIX_LR") > 4
    assert {proposal.edit for proposal in study.seen if proposal.axis == "EVERY"} == {"EVERY: 8 -> 16", "EVERY: 8 -> 4"}


@pytest.mark.parametrize(("kept", "again"), [
    (past("MATRIX_LR", "0.04 -> 0.0606", Status.KEEP), False),  # a rate: what was not reached is not reached now
    (past("DEPTH", "4 -> 5", Status.KEEP), True), (past("BATCH_TOKENS", "20_000 -> 1e4", Status.KEEP), True), (past("BIAS", "False -> True", Status.KEEP), True), (past("WARMDOWN", "0.0 -> 0.15", Status.KEEP), True),
    (past("DEPTH", "4 -> 5", Status.DISCARD), False), (past("ADAM_BETA2", "0.95 -> 0.975", Status.KEEP), False),
    (Past(trial=1, title="", axis="attention", edit="a second head", status=Status.KEEP), True),
    (Past(trial=1, title="", axis="attention", edit="a second head", status=Status.DISCARD), False),
])  # fmt: skip
def test_it_rests_until_a_keep_may_have_changed_what_is_reached(kept: Past, again: bool) -> None:
    constants = find_constants(TRAIN)
    assert replay([idle("BATCH", "2048 -> 4096")], constants)["BATCH"].idle
    assert replay([idle("BATCH", "2048 -> 4096"), kept], constants)["BATCH"].idle == (set() if again else {1})
    assert replay([kept, idle("BATCH", "2048 -> 4096")], constants)["BATCH"].idle


def test_constants_that_paid_are_weighed_up_and_others_down_to_a_floor() -> None:
    constants = find_constants(TRAIN)
    kept = replay([past("MATRIX_LR", "0.04 -> 0.0606", Status.KEEP)], constants)
    assert (kept["MATRIX_LR"].weight, kept["DEPTH"].weight) == (1.5, 1.0)
    failed = replay([past("DEPTH", f"4 -> {new}", Status.DISCARD) for new in range(5, 15)], constants)
    assert failed["DEPTH"].weight == 0.25


def test_refusals_and_interruptions_do_not_count_against_a_constant() -> None:
    constants = find_constants(TRAIN)
    for one in (past("DEPTH", "4 -> 5", None, "duplicate"), past("DEPTH", "4 -> 5", Status.INTERRUPTED)):
        axis = replay([one], constants)["DEPTH"]
        assert (axis.weight, axis.failures, axis.tried) == (1.0, 0, {(4.0, 5.0)})


def test_edits_of_other_proposers_are_read_when_they_name_a_constant() -> None:
    constants = find_constants(TRAIN)
    known = past("MATRIX_LR", "4e-2 -> 0.05", Status.DISCARD)
    other = Past(trial=1, title="", axis="attention", edit="DEPTH: 4 -> 5", status=Status.DISCARD)
    unread = [past("DEPTH", "four -> five", Status.DISCARD), past("WIDTH", "4 -> 5", Status.DISCARD), other]
    axes = replay([known, *unread], constants)
    assert axes["MATRIX_LR"].tried == {(0.04, 0.05)}
    assert axes["DEPTH"].weight == 1.0


@pytest.mark.parametrize(
    ("name", "old", "up", "down"),
    [
        ("MATRIX_LR", 0.04, 0.0606, 0.0264),
        ("ADAM_EPS", 1e-10, 1.52e-10, 6.6e-11),
        ("OFFSET", -0.5, -0.758, -0.33),
        ("ROPE_BASE", 10000.0, 15200.0, 6600.0),
        ("LR", 0.0, None, None),
        ("BATCH", 2048, 4096, 1024),
        ("BATCH", 2, 4, 1),
        ("MLP_RATIO", 4, 8, 2),
        ("DEPTH", 8, 9, 7),
        ("HEADS", 6, 7, 5),
        ("HEADS", 1, 2, None),
        ("OFFSET", 0, 1, None),
        ("OFFSET", -1, -2, 0),
        ("WARMDOWN", 0.5, 0.65, 0.35),
        ("WARMDOWN_RATIO", 0.2, 0.35, 0.1),
        ("ADAM_BETA2", 0.95, 0.975, 0.8),
        ("MUON_MOMENTUM", 0.999, 0.9995, 0.849),
        ("WARMUP", 0.0, 0.15, None),
        ("FINAL_LR_FRAC", 1.0, None, 0.85),
        ("WEIGHT_DECAY", 1.5, 2.27, 0.99),
        ("BIAS", False, True, None),
        ("BIAS", True, None, False),
    ],
)
def test_every_kind_of_number_has_its_own_move(name: str, old: float, up: float | None, down: float | None) -> None:
    assert (turned(name, old, 1, 1.0), turned(name, old, -1, 1.0)) == (up, down)
    assert all(type(new) is type(old) for new in (turned(name, old, 1, 1.0), turned(name, old, -1, 1.0)) if new is not None)


@settings(max_examples=100, deadline=None)
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["RATE_LR", "BETA"]),
    st.sampled_from([1, -1]),
    st.sampled_from([1.0, 0.25]),
)
def test_a_move_is_finite_short_and_goes_its_way(old: float, name: str, way: int, step: float) -> None:
    new = turned(name, old, way, step)
    if new is not None:
        assert math.isfinite(new)
        assert (abs(new) - abs(old)) * way > 0
        assert float(f"{new:.4g}") == new
        assert name != "BETA" or not 0 <= old <= 1 or 0 < new < 1


@pytest.mark.parametrize(("name", "old", "way", "new"), [
    ("DIM", 640, 1, 768), ("DIM", 640, -1, 512), ("PAIR_ROWS", 40960, 1, 49152), ("DIM", 100, 1, 101), ("DEPTH", 9, 1, 10), ("DIM", 128, 1, 256),
    ("HEAD_DECAY", 0.0, 1, 0.001), ("HEAD_DECAY", 0.0, -1, None), ("EMBEDDING_DECAY", 0.001, 1, 0.00152), ("MUON_WEIGHT_DECAY", 0.1, 1, 0.25),
])  # fmt: skip
def test_shapes_keep_what_divides_them_and_small_decays_are_rates(name: str, old: float, way: int, new: float | None) -> None:
    assert turned(name, old, way, 1.0) == new
