"""Proposers by name: what is refused before anything is spent, and one of the person's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UserFault
from harness.proposers import registry
from harness.rules import Rules
from harness.sections import Proposer, StopAt
from tests.projects import ROOT, resume_study, run_study, study_of

EXAMPLE = ROOT / "examples" / "proposers" / "halving.py"
RULES = Rules(stop=StopAt(trials=1))


def test_a_proposer_of_ones_own_runs_a_study_and_is_found_again_by_resume(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE.parent)
    run_study(project, proposer="halving.py:Halving", trials=2)
    monkeypatch.chdir("/")
    resume_study(project, trials=3)
    study = study_of(project)
    assert [row.title for row in study.rows] == ["baseline", "half of VALUE", "half of LEARNING_RATE", "half of DEPTH"]
    assert {row.proposer for row in study.rows[1:]} == {"halving"}
    assert study.started is not None and study.started.proposer == f"{EXAMPLE}:Halving"


def test_the_example_is_at_most_thirty_lines_of_code_and_text() -> None:
    assert len([line for line in EXAMPLE.read_text().splitlines() if line.strip()]) <= 30


@pytest.mark.parametrize(("name", "text", "said"), [
    ("none.py:Mine", None, "no file"),
    ("bad.py:Mine", "import no_such_module\n", "cannot be imported: ModuleNotFoundError"),
    ("odd.py:Mine", "class Other: pass\n", "no class Mine with a method propose"),
    ("less.py:Mine", "class Mine: pass\n", "no class Mine with a method propose"),
])  # fmt: skip
def test_a_proposer_of_ones_own_that_cannot_work_is_one_sentence(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / name.split(":")[0]).write_text(text)
    with pytest.raises(UserFault, match=said):
        registry.check(str(tmp_path / name), {}, RULES, ["trials"])


@pytest.mark.parametrize(("name", "options", "said"), [
    ("serach", {}, "did you mean 'search'"),
    ("search", {"edits": "x"}, "--edits is not for"),
    ("scripted", {}, "--edits"),
    ("command", {}, "needs \\[proposer\\] command"),
    ("anthropic", {}, "dollars, tokens or calls"),
])  # fmt: skip
def test_what_cannot_work_is_said_at_once(name: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(UserFault, match=said):
        registry.check(name, options, RULES, ["trials"])


def test_every_one_of_a_mix_is_checked() -> None:
    rules = RULES.model_copy(update={"proposer": Proposer(mix={"search": 1, "anthropic": 1})})
    assert registry.named(rules) == "mix"
    with pytest.raises(UserFault, match="dollars, tokens or calls"):
        registry.check("mix", {}, rules, ["trials"])
    registry.check("mix", {"seed": "3"}, rules, ["dollars"])


def test_an_agent_that_is_not_there_is_said_in_the_evening() -> None:
    rules = RULES.model_copy(update={"proposer": Proposer(kind="command", command=("no-such-agent",))})
    with pytest.raises(UserFault, match="no-such-agent"):
        registry.check("command", {}, rules, [])


def test_an_agent_under_a_limit_in_dollars_must_say_what_a_call_may_cost() -> None:
    rules = RULES.model_copy(update={"proposer": Proposer(kind="command", command=("git",))})
    registry.check("command", {}, rules, ["trials"])
    with pytest.raises(UserFault, match="call_dollars"):
        registry.check("command", {}, rules, ["dollars"])
