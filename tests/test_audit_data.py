"""The data's side of an audit: which positions, what the second scorer is shown, and that every kind of invented claim shows."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import prepare

VOCABULARY = 2048
BOS = VOCABULARY - 1
TABLE = np.random.default_rng(0).normal(size=(64, VOCABULARY)).astype("<f4")
SUMS = np.log(np.exp(TABLE.astype(np.float64)).sum(axis=1))
HIGHEST = TABLE.argmax(axis=1)
Numbers = Callable[[Any, Any], Any]


def honest_logits(before: Any) -> Any:
    """A model that looks at the last id alone: (…,) ids to (…, V) logits."""
    return TABLE[before % 64]


def losses(before: Any, targets: Any) -> Any:
    return SUMS[before % 64] - TABLE[before % 64, targets]


class Scorer:
    """The other end of the wire, as `prepare.py serve` is: `claim(inputs, targets)` in nats, `show(rows, cut)` as logits (R, V), or raw bytes."""

    def __init__(self, claim: Numbers = losses, show: Numbers | None = None) -> None:
        self.claim, self.show = claim, show or (lambda rows, cut: honest_logits(rows[np.arange(len(rows)), cut - 1]))
        self.seen: list[tuple[Any, Any]] = []
        self.ours, self.theirs = socket.socketpair()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        channel = prepare.Channel(self.theirs)
        with self.theirs:
            for kind, rows, cut in _questions(channel):
                if kind == "beginnings":
                    self.seen.append((rows, cut))
                answer = self.claim(rows[:, :-1], rows[:, 1:]) if kind == "rows" else self.show(rows, cut)
                if answer is None:
                    return
                self.theirs.sendall(answer if isinstance(answer, bytes) else np.asarray(answer).astype("<f4").tobytes())
                if isinstance(answer, bytes):
                    return

    def __enter__(self) -> Any:
        return prepare.Channel(self.ours)

    def __exit__(self, *_: object) -> None:
        self.ours.close()
        self.thread.join(10)


def _questions(channel: Any) -> Iterator[tuple[str, Any, Any]]:
    while True:
        try:
            kind, body = channel.receive("rows", "beginnings", "end")
        except (EOFError, OSError):
            return
        if kind == "end":
            return
        count, length = body["count"], body["length"]
        raw = np.frombuffer(channel.read(4 * count * (length + (kind == "beginnings"))), dtype="<i4")
        yield kind, raw[: count * length].reshape(count, length), raw[count * length :]


def grid_of(data: Any) -> Any:
    return prepare.windows(data.split("val")[0], data.profile)


def claimed(data: Any, claim: Numbers = losses) -> bytes:
    grid = grid_of(data)
    return bytes(np.asarray(claim(grid[:, :-1], grid[:, 1:])).astype("<f4").tobytes())


def audit(data: Any, claims: bytes, scorer: Scorer | None = None, positions: int = 256, tolerance: float = 0.02) -> Any:
    scorer = scorer or Scorer()
    with scorer as channel:
        return prepare.audit(data, "val", channel, claims, positions, tolerance)


def test_an_honest_model_agrees_with_itself_and_nothing_is_corrected(data: Any) -> None:
    found = audit(data, claimed(data))
    assert found["positions"] == 256 and found["off"] == 0 and found["correction"] == 0.0
    assert abs(found["mean"]) < 1e-6 and found["worst"] < 1e-5 and 0 <= found["p999"] <= found["worst"]


def test_a_scorer_is_shown_true_beginnings_and_foreign_ends_only(data: Any) -> None:
    grid, scorer = grid_of(data), Scorer()
    audit(data, claimed(data), scorer, positions=512)
    rows, cuts = (np.concatenate(part) for part in zip(*scorer.seen, strict=True))
    assert rows.shape == (512, 257)
    same = total = 0
    places = set()
    for row, cut in zip(rows, cuts, strict=True):
        place = int(np.flatnonzero((grid[:, :cut] == row[:cut]).all(axis=1))[0])
        assert 1 <= cut <= 256 and grid[place, cut] != BOS, "neither BOS nor padding is asked for"
        places.add((place, int(cut)))
        same += int(row[cut] == grid[place, cut])
        total += 1
    assert same < 0.1 * total, "the id that is asked for is not shown, but by accident"
    assert len(places) > 500 and len({cut for _, cut in places}) > 150, "all over the split"
    foreign = [row[cut:] for row, cut in zip(rows, cuts, strict=True) if cut < 200]
    assert not any((grid[:, -len(tail) :] == tail).all(axis=1).any() for tail in foreign), (
        "what is shown in its place is no text of the split"
    )
    ids, counts = np.unique(grid[:, 1:], return_counts=True)
    usual = ids[np.argsort(counts)[-256:]]  # two thirds of the text, an eighth of the ids
    likely = sum(np.isin(tail, usual).mean() > 0.35 for tail in foreign) / len(foreign)
    assert 0.3 < likely < 0.7, "in one row random ids, in another those of a row in disorder"


def test_what_is_asked_for_was_not_shown_before_to_the_one_who_is_asked(data: Any) -> None:
    """Else a scorer could learn in an early question what it is asked for in a later one."""
    grid, scorer = grid_of(data), Scorer()
    audit(data, claimed(data), scorer, positions=2048)
    longest: dict[int, int] = {}
    for rows, cuts in scorer.seen:
        for row, cut in zip(rows, cuts, strict=True):
            place = int(np.flatnonzero((grid[:, :cut] == row[:cut]).all(axis=1))[0])
            assert longest.get(place, 0) <= cut
        longest.update({int(np.flatnonzero((grid[:, :c] == r[:c]).all(axis=1))[0]): int(c) for r, c in zip(rows, cuts, strict=True)})
    assert len(longest) > 400


def test_positions_are_another_choice_each_time(data: Any) -> None:
    asked = []
    for _ in range(2):
        scorer = Scorer()
        audit(data, claimed(data), scorer)
        asked.append({(row[:cut].tobytes(), int(cut)) for rows, cuts in scorer.seen for row, cut in zip(rows, cuts, strict=True)})
    assert len(asked[0] & asked[1]) < 20


def peeking(share: float) -> Numbers:
    """Claims of a model that knows the next id at a share of the positions."""
    return lambda before, targets: np.where(np.random.default_rng(1).random(targets.shape) < share, 0.1, losses(before, targets))


@pytest.mark.parametrize(
    ("claim", "fewest"),
    [
        (lambda before, targets: 0.5 * losses(before, targets), 250),
        (lambda before, targets: losses(before, targets) - 1.0, 250),
        (peeking(0.05), 3),
        (lambda before, targets: np.minimum(losses(before, targets), 8.0), 20),
    ],
    ids=["half its loss", "probabilities that do not sum to one", "a peek at one position in twenty", "losses cut off above"],
)
def test_invented_claims_are_off(data: Any, claim: Numbers, fewest: int) -> None:
    found = audit(data, claimed(data, claim))
    assert found["off"] >= fewest and found["mean"] < 0
    bits = found["mean"] * int((grid_of(data)[:, 1:] != BOS).sum()) / (np.log(2) * 490_293)
    assert found["correction"] == pytest.approx(bits), "the mean difference in the metric's unit"


def test_the_rarest_peek_needs_the_deep_audit(data: Any) -> None:
    """0.15 % of the positions: 256 find it one time in three, 4,096 at a chance of 99.8 %."""
    assert audit(data, claimed(data, peeking(0.0015)), positions=4096)["off"] >= 1


def test_whoever_saw_the_targets_before_cannot_help_whoever_is_asked(data: Any) -> None:
    """Replaying what was seen at a prefix needs a memory of the first process; a fresh one has none."""
    memory: dict[bytes, Any] = {}

    def remember(before: Any, targets: Any) -> Any:
        for row, target in zip(before, targets, strict=True):
            memory.update({row[: cut + 1].tobytes(): int(target[cut]) for cut in range(0, 256, 8)})
        return np.zeros(targets.shape)

    claims = claimed(data, remember)

    def replay(rows: Any, cut: Any) -> Any:
        logits = honest_logits(rows[np.arange(len(rows)), cut - 1]).copy()
        for n, (row, at) in enumerate(zip(rows, cut, strict=True)):
            if row[:at].tobytes() in memory:
                logits[n, memory[row[:at].tobytes()]] += 50.0
        return logits

    assert audit(data, claims, Scorer(show=replay))["off"] < 256, "the memory helps where it was kept"
    assert audit(data, claims, Scorer())["off"] == 256


@pytest.mark.parametrize("scale", [1e4, 1e30])
def test_huge_logits_are_no_trick(data: Any, scale: float) -> None:
    def certain(before: Any, targets: Any) -> Any:
        return np.where(HIGHEST[before % 64] == targets, 0.0, 1.0)

    found = audit(data, claimed(data, certain), Scorer(show=lambda rows, cut: honest_logits(rows[np.arange(len(rows)), cut - 1]) * scale))
    assert np.isfinite([found["mean"], found["worst"], found["correction"]]).all() and found["off"] > 200


@pytest.mark.parametrize(
    ("show", "reason"),
    [
        (lambda rows, cut: np.full((len(rows), VOCABULARY), np.nan), "not_finite"),
        (lambda rows, cut: np.full((len(rows), VOCABULARY), -np.inf), "not_finite"),
        (lambda rows, cut: b"\0" * 12, "short_answer"),
        (lambda rows, cut: None, "scorer_died"),
        (lambda rows, cut: b'{"fault":{"detail":"IndexError: 2048"}}\n', "scorer_died"),
    ],
)
def test_a_bad_answer_to_an_audit_is_the_scorers_fault(data: Any, show: Numbers, reason: str) -> None:
    with pytest.raises(prepare.ScorerFault) as caught:
        audit(data, claimed(data), Scorer(show=show))
    assert caught.value.args[0] == reason


def test_more_positions_than_there_are_means_all_of_them(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    few = grid_of(data)[-2:]
    monkeypatch.setattr(prepare, "windows", lambda ids, profile: few)
    assert audit(data, claimed(data), positions=10**9)["positions"] == int((few[:, 1:] != BOS).sum())


def rehearse(claim: Numbers = losses, show: Numbers | None = None) -> Any:
    with Scorer(claim, show) as channel:
        return prepare.rehearse(prepare.PROFILES["cpu"], channel, 32)


def test_a_rehearsal_moves_nothing_but_later_ids() -> None:
    assert rehearse() == {"positions": 32, "moved": 0.0}
    ahead = rehearse(show=lambda rows, cut: honest_logits(rows[np.arange(len(rows)), np.minimum(cut, 256)]))
    assert ahead["moved"] > 0.1
    faint = rehearse(
        show=lambda rows, cut: (
            honest_logits(rows[np.arange(len(rows)), cut - 1]) + 0.01 * honest_logits(rows[np.arange(len(rows)), np.minimum(cut, 256)])
        )
    )
    assert faint["moved"] > 1e-3, "a hundredth of a look ahead is enough"
    with pytest.raises(prepare.ScorerFault):
        rehearse(claim=lambda before, targets: np.full(targets.shape, np.nan))
