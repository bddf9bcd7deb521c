"""Proposers by name: what is refused before anything is spent, and one of the person's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UserFault
from harness.proposers import registry
from harness.rules import Rules
from harness.sections import Proposer, StopAt
from tests.projects import ROOT, resume_study, run_study, set_rules, study_of

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


START = "from harness.trial import Proposal\nclass Mine:\n    name = 'mine'\n    reads = False\n    def __init__(self, setting): pass\n"
GOOD = "Proposal(id=b.number, parent=b.incumbent, title='t', files={'train.py': b.files['train.py'].replace('1.2', '1.1')}, proposer='mine'"


@pytest.mark.parametrize(("body", "said"), [
    ("return 1 / 0", "ZeroDivisionError: division by zero, mine.py:7"),
    ("return {}['x']", "KeyError"),
    ("return {'title': 'x'}", "returned a dict"),
    (f"return {GOOD}).model_copy(update={{'id': 99}})", "id from briefing.number"),
    (f"return {GOOD}).model_copy(update={{'parent': '0' * 40}})", "parent from briefing.incumbent"),
])  # fmt: skip
def test_a_fault_of_ones_own_proposer_is_a_refusal_and_a_mended_one_goes_on(project: Path, tmp_path: Path, body: str, said: str) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(f"{START}    def propose(self, b):\n        {body}\n")
    set_rules(project, "[escalation]\nrefused_proposals = 2\n[stop]\ntrials = 1")
    stop = run_study(project, proposer=f"{mine}:Mine")
    assert (stop.reason, stop.exit_code) == ("refused_proposals", 3)
    assert all(said in one.detail for one in study_of(project).refusals), study_of(project).refusals
    mine.write_text(f"{START}    def propose(self, b):\n        return {GOOD})\n")
    assert resume_study(project).reason == "trials"


def test_ones_own_file_may_have_dataclasses_a_neighbour_and_no_reads(project: Path, tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("STEP = '1.1'\n")
    mine = tmp_path / "mine2.py"
    mine.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom neighbour import STEP\nfrom harness.trial import Proposal\n"
        "@dataclass\nclass Mine:\n    setting: object\n    def propose(self, b):\n        return " + GOOD.replace("'1.1'", "STEP") + ")\n"
    )
    assert run_study(project, proposer=f"{mine}:Mine", trials=1).reason == "trials"


def test_a_class_that_takes_no_setting_is_said_in_time(project: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine3.py"
    mine.write_text("class Mine:\n    def propose(self, b):\n        return None\n")
    with pytest.raises(UserFault, match="must take one argument, the setting"):
        run_study(project, proposer=f"{mine}:Mine", trials=1)


def test_mix_by_flag_means_the_one_of_program_md(project: Path) -> None:
    with pytest.raises(UserFault, match="needs \\[proposer\\] mix"):
        run_study(project, proposer="mix")
    set_rules(project, "[proposer]\nmix = { search = 1.0 }\n[stop]\ntrials = 1")
    assert run_study(project, proposer="mix").reason == "trials"
    assert study_of(project).rows[1].proposer == "search"
