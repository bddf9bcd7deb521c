"""What is read out of logs of every kind, and what is shown of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.artifacts.printed import clean_tail, error_line, read_printed

SUMMARY = "step 00001 | loss: 4.3\n---\nval_bpb:          1.568223\ntraining_seconds: 300.1\n"
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 7, in <module>
    raise ValueError("no: such thing")
ValueError: no: such thing
"""


def upstream(name: str) -> bytes:
    folder = os.environ.get("RATCHET_UPSTREAM")
    if not folder:
        pytest.skip("RATCHET_UPSTREAM does not name the folder with upstream's logs")
    path = Path(folder) / name
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path.read_bytes()


@pytest.mark.parametrize(
    "log",
    [
        SUMMARY.encode(),
        SUMMARY.replace("\n", "\r\n").encode(),
        SUMMARY.replace("\n", "\r\r\n").encode("utf-16"),
        SUMMARY.encode("utf-8-sig"),
        b"\xfe\xff" + SUMMARY.replace("\n", "\r\n").encode("utf-16-be"),
        SUMMARY.encode("utf-16")[40:],
        SUMMARY.encode("utf-16")[41:],
        SUMMARY.encode("utf-16")[:-1],
        b"\xff\xffnot utf-8 \x80\n" + SUMMARY.encode(),
        b"step 1\rstep 2\rstep 3\rval_bpb: 1.568223\n",
        b"val_bpb: 1.568223\rsaving 100%\n",
        b"val_bpb: 1.568223",
        b"\x1b[1;32mval_bpb:\x1b[0m \x1b[33m1.568223\x1b[0m\x1b(B\n",
        b"\x1b]0;title\x07val_bpb: 1.568223\n",
        b"[rank0]: val_bpb: 1.568223\n[rank1]: val_bpb: 1.5682230\n",
        b"2026-01-01 00:00:00 INFO root: val_bpb: 1.568223\n",
        b"best_val_bpb: 0.5\nval_bpb_ema: 0.4\nval_bpb: 1.568223\n",
        b"val_bpb \t: +1.568223e0  \n",
    ],
)
def test_the_printed_value_is_found_in_every_dress(log: bytes) -> None:
    assert read_printed(log, "val_bpb") == 1.568223


@pytest.mark.parametrize(
    "said", ["", "12ms", "%", "1.2.3", "0x1", "1e999", "1_0", "about one point two", "nan", "-nan", "inf", "-inf", "1,5", "１.5"]
)
def test_garbage_is_no_value(said: str) -> None:
    assert read_printed(f"val_bpb: {said}\n".encode(), "val_bpb") is None
    assert read_printed(f"val_bpb: 1.5\nval_bpb: {said}\n".encode(), "val_bpb") is None


@pytest.mark.parametrize(
    "log", [b"", b"\n", b"loss: 1.0\n", b"val_bpb 1.5\n", b"val_bpb: 0.5 val_bpb: 1.5\n", b"val_bpb: 0.5\nval_bpb: 1.5\n"]
)
def test_no_line_or_lines_that_disagree_are_no_value(log: bytes) -> None:
    assert read_printed(log, "val_bpb") is None


def test_a_metric_name_is_taken_literally() -> None:
    assert read_printed(b"valxbpb: 1.0\nval.bpb: 2.0\n", "val.bpb") == 2.0


def test_upstream_utf16_log_gives_its_value() -> None:
    log = upstream("pr299-run.log")
    assert read_printed(log, "val_bpb") == 1.568223
    assert read_printed(log, "peak_vram_mb") == 1804.5
    assert clean_tail(log, lines=2) == "num_params_M:     11.5\ndepth:            4"


def test_upstream_logs_without_a_metric_give_none_and_their_error() -> None:
    assert read_printed(upstream("pr530-run.log"), "val_bpb") is None
    assert error_line(upstream("pr530-run.log")) == "ValueError: unsupported hash type blake2s"
    assert error_line(upstream("pr590-run.log")) == "/bin/bash: line 239: uv: command not found"


def test_the_tail_is_short_clean_and_folded() -> None:
    log = b"first\n" + b"\rstep 1\rstep 2\r\n" + b"\x1b[31mred\x1b[0m \x07\xe2\x80\xae\xe2\x80\x8bend\tx\n\n\n"
    assert clean_tail(log) == "first\nstep 2\nred end\tx"
    assert clean_tail(log, lines=1) == "red end\tx"
    assert clean_tail(log, cap=5) == "end\tx"
    assert clean_tail(b"") == ""


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (TRACEBACK + "cleaning up\n", "ValueError: no: such thing"),
        (TRACEBACK.replace("\n", "\r\n"), "ValueError: no: such thing"),
        ("[rank0]: torch.OutOfMemoryError: CUDA out of memory.\nbye\n", "[rank0]: torch.OutOfMemoryError: CUDA out of memory."),
        ("  | ValueError: one of a group\n  +-----\n", "| ValueError: one of a group"),
        ("AssertionError\n", "AssertionError"),
        ("KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("foo.cu:7: Assertion `i < n` failed.\nlast words\n", "foo.cu:7: Assertion `i < n` failed."),
        ("Fatal Python error: Segmentation fault\n\nThread 1\n", "Fatal Python error: Segmentation fault"),
        ("ErrorCorrection: on\nError rate: 5\nlast words \n\n", "last words"),
        ("", ""),
        ("x" * 400, "x" * 299 + "…"),
    ],
)
def test_the_error_line_is_the_last_that_names_one(log: str, line: str) -> None:
    assert error_line(log.encode()) == line


def test_hostile_logs_are_read_in_good_time() -> None:
    began = time.process_time()
    for hostile in (b"-" * 500_000, b"assertion " * 50_000, b"[a] " * 100_000, b"val_bpb " * 60_000, b"\x1b]" * 200_000, b"a." * 200_000):
        read_printed(hostile, "val_bpb")
        clean_tail(hostile)
        error_line(hostile)
    assert time.process_time() - began < 30  # CPU seconds; what is quadratic takes minutes


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_break_the_readers(log: bytes) -> None:
    read_printed(log, "val_bpb")
    assert len(error_line(log)) <= 300
    tail = clean_tail(log, lines=5, cap=50)
    assert len(tail) <= 50
    assert all(character in "\t\n" or character.isprintable() or not character.isascii() for character in tail)


@settings(max_examples=50, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]))
def test_every_finite_number_comes_back(value: float, encoding: str) -> None:
    assert read_printed(f"---\nval_bpb: {value!r}\n".encode(encoding), "val_bpb") == value
