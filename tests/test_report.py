"""The page of the morning on every prefix of a night, and that foreign text is never markup."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

import pytest

from harness.artifacts.calls import Calls
from harness.artifacts.events import Event, RulesChanged, Stopped, Warned
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.trial import Stop
from harness.views import report
from harness.views.text import md
from tests import study_factory as make

FOLDER = StudyDir(Path("/project"), "mar8")


def page(*events: Event) -> str:
    return report.render(make.fold(events), FOLDER)


def test_every_prefix_of_a_night_has_a_page() -> None:
    for study in make.prefixes(make.night(15)):
        text = report.render(study, FOLDER)
        assert text.startswith("# Study mar8\n") and text.endswith("\n") and "None" not in text and "nan" not in text


def test_an_empty_study_is_a_sentence() -> None:
    assert "nothing to believe" in report.render(Study(), FOLDER)


def test_only_the_baseline() -> None:
    text = report.render(make.study(0), FOLDER)
    assert "**What to believe: no gain.** No candidate has finished yet." in text
    assert "## Kept" not in text and "## The incumbent" not in text


def test_a_failed_baseline() -> None:
    night = make.Night()
    assert "The baseline failed (crash: exit\\_code)" in page(night.start(), *night.baseline(fails=True)).replace(
        "exit_code", "exit\\_code"
    )


def test_a_crash_first_then_no_keep() -> None:
    night = make.Night()
    text = page(night.start(), *night.baseline(), *night.candidate(failure=0), *night.candidate(effect=-0.1))
    assert "No candidate was kept; 1 was judged." in text
    assert "1 × crash: exit_code." in text and "| 1 | crash (exit_code) | RuntimeError" in text
    assert "`runs/mar8/0001-" in text


def test_a_trial_in_progress_is_named() -> None:
    night = make.Night()
    text = page(night.start(), *night.baseline(), *islice(night.candidate(title="wider"), 4))
    assert "Trial 1 (wider) was in progress" in text and "There is no stop in the journal" in text.replace("there is no", "There is no")


def test_the_headline_names_the_gain_as_biased_and_weighs_it_against_chance() -> None:
    night = make.Night()
    real = page(night.start(), *night.baseline(), *night.candidate(effect=0.1))
    assert "a search result, biased and not certified" in real and "part of the gain is real" in real
    night = make.Night()
    small = page(night.start(), *night.baseline(), *night.candidate(effect=0.002))
    assert "1 keep of 1 judged; if no idea helped, the `debiased` rule would keep about 0.5 by chance" in small
    assert "measure it again before you rely on it" in small


def test_every_keep_can_be_replayed_adopted_and_undone() -> None:
    study = make.study(40)
    text = report.render(study, FOLDER)
    kept = [row for row in study.rows if row.trial and row.status and row.status.value == "keep"]
    assert kept
    for row in kept:
        assert f"| {row.trial} | {row.value:.6f} |" in text
        assert f"`git show {(row.commit or '')[:12]}:./train.py`" in text
    assert "`git merge autoresearch/mar8`" in text and "git revert" in text


def test_near_misses_are_listed_likeliest_first() -> None:
    study = make.study(60)
    section = report.render(study, FOLDER).split("## Near misses")[1].split("##")[0]
    chances = [float(line.split("|")[4]) for line in section.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert chances and chances == sorted(chances, reverse=True) and chances[-1] >= 0.25


def test_a_near_miss_that_was_too_slow_to_be_kept_says_so() -> None:
    night = make.Night()
    text = page(night.start(), *night.baseline(), *night.slow(0.02))
    section = text.split("## Near misses")[1].split("##")[0]
    assert "twice as wide (it took 48.0 CPU seconds; to be kept it may take 45.5)" in section


def test_costs_refusals_warnings_and_the_end_are_there() -> None:
    night = make.Night()
    stop = Stopped(stop=Stop(reason="crashes", sentence="Five crashes in a row.", exit_code=3))
    text = page(night.start(), *night.baseline(), *night.refuse(), Warned(code="rules", message="broken edit"),
                RulesChanged(digest="ab" * 32, diff=""), *night.candidate(0.0), stop)  # fmt: skip
    assert "- 1 × duplicate" in text and "rules: broken edit" in text
    assert "It stopped: Five crashes in a row. (reason crashes, exit code 3)" in text
    assert "`abababababab` now: edited during the study" in text
    assert "tokens trained on in settled trials: 2,703,360" in text and "model cost: none, the proposer is offline" in text
    agent = make.study(1, of=make.Night(proposer="command")).model_copy(
        update={"calls": Calls(made=3, unknown=1, cost_usd=0.42, retries=1)}
    )
    said = "proposer command; model cost: 0.42 dollars known, 1 call of unknown cost; 3 calls, 1 of them retries; 0 tokens"
    assert said in report.render(agent, FOLDER)


def test_foreign_text_is_never_markup() -> None:
    night = make.Night()
    text = page(night.start(), *night.baseline(), *night.candidate(effect=0.1, title="a|b `c` <script> [x](y) \n# big \x1b[31m"))
    assert "a\\|b \\`c\\` &lt;script> \\[x\\](y) # big" in text
    assert all(line.isprintable() for line in text.splitlines())
    assert md("MATRIX_LR _x_ #1 &amp;") == "MATRIX_LR \\_x\\_ #1 &amp;amp;" and md("# x") == "\\# x"


@pytest.mark.slow
def test_ten_thousand_trials_make_a_short_page_quickly() -> None:
    study = make.study(10_000)
    began = time.process_time()
    text = report.render(study, FOLDER)
    assert time.process_time() - began < 3.0
    assert len(text.splitlines()) < 200 and "earlier keeps left out" in text


@pytest.mark.parametrize("direction", ["lower", "higher"])
def test_gains_are_positive_whichever_way_is_better(direction: str) -> None:
    night = make.Night(direction=direction)
    assert "a gain of +0." in page(night.start(), *night.baseline(), *night.candidate(effect=0.1))
