"""The rows of training tokens: BOS first, best fit, nothing lost, the same in every process, and resumable at any batch."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prepare

ROOT = Path(prepare.__file__).resolve().parent
VOCAB = 64
BOS = VOCAB - 1


def setup(context: int, seed: int = 0) -> Any:
    return prepare.Setup("cpu", "cpu", VOCAB, context, seed, 1, "float32")


def corpus(lengths: list[int]) -> Any:
    """Documents of so many tokens, each with tokens of its own order, so that a lost or doubled one shows."""
    counting = itertools.cycle(range(BOS))
    return np.array([token for length in lengths for token in (BOS, *itertools.islice(counting, length))], dtype="<u2")


def some(lengths: int = 40, seed: int = 0, longest: int = 60) -> Any:
    return corpus(np.random.default_rng(seed).integers(1, longest, lengths).tolist())


def take(rows: Iterator[Any], count: int) -> Any:
    return np.concatenate([next(rows) for _ in range(count)])


LENGTHS = st.lists(st.integers(0, 50), min_size=1, max_size=40)


@given(LENGTHS, st.integers(1, 24))
@settings(deadline=None, max_examples=300)
def test_packing_loses_no_token_and_fills_every_row(lengths: list[int], context: int) -> None:
    begins = np.cumsum([0, *lengths[:-1]]).tolist()
    placed, ends, rest = prepare.pack(list(zip(begins, lengths, strict=True)), context)
    covered = sorted(token for begin, size in [*placed, *rest] for token in range(begin, begin + size))
    assert covered == list(range(sum(lengths)))
    for first, last in zip([0, *ends], ends, strict=False):
        assert sum(size + 1 for _, size in placed[first:last]) == context + 1
    assert sum(size + 1 for _, size in rest) <= context


def test_the_longest_text_that_fits_comes_next_and_only_a_text_that_fits_nowhere_is_cut() -> None:
    placed, ends, rest = prepare.pack([(0, 3), (10, 6), (20, 2), (30, 9)], context=10)
    assert placed[: ends[0]] == [(30, 9), (10, 0)], "9 and its BOS leave one place, where only a BOS fits"
    assert placed[ends[0] : ends[1]] == [(10, 6), (0, 3)]
    assert rest == [(20, 2)]


@given(LENGTHS, st.integers(1, 24), st.integers(0, 3), st.integers(1, 5))
@settings(deadline=None, max_examples=150)
def test_an_epoch_shows_every_token_once_whatever_the_sizes(lengths: list[int], context: int, seed: int, rows: int) -> None:
    tokens = corpus(lengths)
    if sum(lengths) <= context:
        with pytest.raises(prepare.DataError, match="do not fill one row"):
            next(prepare.token_rows(tokens, setup(context, seed), rows))
        return
    epochs = 3
    shown: Any = np.zeros(VOCAB, dtype=int)
    made = prepare.token_rows(tokens, setup(context, seed), 1)
    while shown[:BOS].sum() + context < epochs * sum(lengths):  # one more row could belong to the next epoch
        row = next(made)[0]
        assert row[0] == BOS
        shown += np.bincount(row, minlength=VOCAB)
    # All but what is left for one row has been shown: no token is rarer than its share, less that, nor more frequent than its share.
    share = epochs * np.bincount(tokens, minlength=VOCAB)
    assert (shown[:BOS] <= share[:BOS]).all()
    assert (share - shown)[:BOS].sum() <= context


def test_a_remainder_follows_where_its_text_was_cut() -> None:
    tokens = corpus([100])
    rows = take(prepare.token_rows(tokens, setup(9), 1), 11)
    texts = sorted(tuple(row[1:].tolist()) for row in rows)
    assert sorted(token for text in texts for token in text) == sorted(tokens[1:100].tolist())
    assert all(text == tuple(token % BOS for token in range(text[0], text[0] + 9)) for text in texts)


def test_the_order_depends_on_data_context_and_seed_alone() -> None:
    order = take(prepare.token_rows(some(), setup(16), 1), 50)
    assert (order == take(prepare.token_rows(some(), setup(16), 1), 50)).all()
    assert (order != take(prepare.token_rows(some(), setup(16, seed=1), 1), 50)).any()
    assert (order != take(prepare.token_rows(some(seed=1), setup(16), 1), 50)).any()
    assert (order[:24] != take(prepare.token_rows(some(), setup(16), 1), 50)[24:48]).any()


@pytest.mark.parametrize("block", [1 << 23, 200])
def test_rows_are_the_same_in_any_batch_and_after_any_skip(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "BLOCK", block)
    whole = take(prepare.token_rows(some(), setup(16), 1), 720)
    for rows in (1, 2, 3, 7, 48):
        assert (take(prepare.token_rows(some(), setup(16), rows), 240 // rows) == whole[: 240 // rows * rows]).all()
        for skip in (0, 1, 5, 480 // rows):
            resumed = take(prepare.token_rows(some(), setup(16), rows, skip), 240 // rows)
            assert (resumed == whole[rows * skip : rows * skip + 240 // rows * rows]).all(), (rows, skip)


def test_a_large_corpus_is_planned_in_parts_and_still_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "BLOCK", 300)
    tokens = some(200)
    count = int((tokens != BOS).sum())
    made = prepare.token_rows(tokens, setup(16), 1)
    shown: Any = np.zeros(VOCAB, dtype=int)
    while shown[:BOS].sum() + 16 < count:
        shown += np.bincount(next(made)[0], minlength=VOCAB)
    assert (np.bincount(tokens, minlength=VOCAB) - shown)[:BOS].sum() <= 16
    assert (shown[:BOS] <= np.bincount(tokens, minlength=VOCAB)[:BOS]).all()


@pytest.mark.parametrize("tokens", [[], [BOS], [BOS] * 50, [BOS, 1, 2], [1, *[2] * 50], [1, BOS, *[2] * 50]])
def test_too_little_data_or_data_without_bos_is_an_error_and_no_endless_loop(tokens: list[int]) -> None:
    with pytest.raises(prepare.DataError, match="do not fill one row of 16"):
        next(prepare.token_rows(np.array(tokens, dtype="<u2"), setup(16), 1))


def test_another_process_makes_the_same_rows(tmp_path: Path) -> None:
    some(500).tofile(tmp_path / "tokens")
    code = (
        "import sys, hashlib, numpy, prepare; made = prepare.token_rows(numpy.memmap(sys.argv[1], '<u2', 'r'), "
        f"prepare.Setup('cpu', 'cpu', {VOCAB}, 16, 3, 1, 'float32'), 8); "
        "print(hashlib.sha256(b''.join(next(made).tobytes() for _ in range(200))).hexdigest())"
    )
    said = {
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "tokens")], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(said) == 1


def test_what_a_thread_makes_ahead_comes_in_order_and_with_its_error() -> None:
    def items() -> Iterator[int]:
        yield from range(20)
        raise prepare.DataError("the tokens are gone")

    ahead = prepare.ahead(items(), 4)
    assert [next(ahead) for _ in range(20)] == list(range(20))
    with pytest.raises(prepare.DataError, match="are gone"):
        next(ahead)


@pytest.mark.torch
def test_on_a_gpu_batches_are_pinned_and_made_ahead_and_booked_when_they_are_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    pinned, copied = list[Any](), list[tuple[str, bool]]()

    def pin(half: Any) -> Any:
        pinned.append(half)
        return half

    def copy(half: Any, device: str, non_blocking: bool) -> Any:
        copied.append((device, non_blocking))
        return half

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "to", copy)
    cpu = prepare.Training(some(), prepare.Budget("tokens", 1e9), setup(16))
    gpu = prepare.Training(some(), prepare.Budget("tokens", 1e9), dataclasses.replace(setup(16), device="cuda"))
    expected, batches = cpu.batches(4), gpu.batches(4)
    for number in range(1, 21):
        assert all((a == b).all() for a, b in zip(next(expected), next(batches), strict=True))
        assert gpu.budget.tokens == number * 4 * 16
    batches.close()
    assert ("cuda", True) in copied
    assert 2 * 20 < len(pinned) <= 2 * 24


@pytest.mark.torch
def test_batches_are_booked_shifted_by_one_and_go_on_after_a_skip() -> None:
    import torch

    def training() -> Any:
        return prepare.Training(some(), prepare.Budget("tokens", 1e9), setup(16))

    first, resumed = training(), training()
    seen = list(itertools.islice(first.batches(4), 30))
    assert first.budget.tokens == 30 * 4 * 16
    for inputs, targets in seen:
        assert inputs.dtype == targets.dtype == torch.int64
        assert inputs.shape == targets.shape == (4, 16)
        assert inputs.is_contiguous() and targets.is_contiguous()
        assert (inputs[:, 1:] == targets[:, :-1]).all()
        assert (inputs[:, 0] == BOS).all()
    for (inputs, targets), (same, also) in zip(seen[12:], itertools.islice(resumed.batches(4, skip=12), 18), strict=True):
        assert (inputs == same).all() and (targets == also).all()
    assert resumed.budget.tokens == 18 * 4 * 16, "what was skipped is not booked"
