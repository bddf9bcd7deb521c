"""The stall ladder in real studies: every rung on a flat landscape, each step once in the journal with its reason, over restarts and edits of the rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from harness.artifacts import journal
from harness.artifacts.oversight_events import Climbed, Escalated, Resolved
from harness.artifacts.study import Study
from harness.control.ladder import Ladder
from harness.control.recorder import Recorder
from harness.errors import ModelUnavailable, ProposalRefused
from harness.evaluation.findings import ROLLED_BACK
from harness.proposers import nearmiss, prompt, registry
from harness.proposers.climbing import Climbing
from harness.rules import load
from harness.trial import Status
from harness.views import lines, report, status
from tests.messages_stub import Answer, blocks, call, error_status, stub
from tests.models import SUBMISSION, Script, project_of, replace
from tests.projects import Seen, edits_file, folder_of, git, resume_study, run_study, set_rules, study_of

FLAT = "[keep]\nrule = 'strict'\n[escalation]\nconsecutive_crashes = 99\n[stop]\ntrials = 16\n[stall]\nafter = 3\nquota = 2\n"
EVERY = 'rungs = ["other_axis", "combine", "wider_briefing", "other_model", "radical", "critic", "ask"]'
# whatever is turned, the value is a little worse than the baseline's, by an amount of its own
WORSE = "value = 1.2 + 1e-4 * (LEARNING_RATE != 0.04) + 2e-4 * (DEPTH != 2) + 3e-4 * (VALUE != 1.2) + 1e-5 * (SECONDS != 30.0) + 1e-7 * (LEARNING_RATE + DEPTH + VALUE)"


@pytest.fixture
def flat(make_project: Callable[..., Path]) -> Path:
    """A project on which nothing is ever better, with the whole ladder."""
    project = make_project(rules=FLAT + EVERY)
    return flattened(project)


def flattened(project: Path) -> Path:
    text = (project / "train.py").read_text()
    old = 'value = VALUE + SEED_NOISE * (hello["seed"] % 3 - 1)'
    assert old in text
    (project / "train.py").write_text(text.replace(old, WORSE))
    git(project, "commit", "-qam", "flat")
    return project


def climbs(project: Path) -> list[Climbed]:
    return [entry.event for entry, _ in journal.read(folder_of(project).journal) if isinstance(entry.event, Climbed)]


def rungs_of_rows(study: Study) -> list[str]:
    return [row.rung for row in study.rows if row.trial]


def test_on_a_flat_landscape_every_rung_is_climbed_or_passed_over_once_and_says_why(flat: Path) -> None:
    stop = run_study(flat)
    steps = climbs(flat)
    assert [(step.rung, step.passed_over) for step in steps] == [
        ("other_axis", False), ("combine", False), ("wider_briefing", True), ("other_model", True), ("radical", False), ("critic", True), ("ask", False),
    ]  # fmt: skip
    assert all(step.why and "\n" not in step.why for step in steps)
    study = study_of(flat)
    assert stop.reason == "trials", stop
    assert [row.status for row in study.rows[1:]] == [Status.DISCARD] * 16
    assert rungs_of_rows(study) == [""] * 3 + ["other_axis"] * 2 + ["combine"] * 2 + ["radical"] * 2 + ["ask"] * 7
    combined = [row for row in study.rows if row.rung == "combine"]
    assert all(row.edit.startswith("combined: ") for row in combined)
    assert any(row.edit.startswith("radical: ") for row in study.rows if row.rung == "radical")


def test_the_question_of_the_last_rung_blocks_nothing_and_is_asked_once(flat: Path) -> None:
    run_study(flat)
    asked = [entry.event.question for entry, _ in journal.read(folder_of(flat).journal) if isinstance(entry.event, Escalated)]
    (question,) = [one for one in asked if one.kind == "stalled"]
    assert (question.key, question.blocks, question.default, question.trial) == ("stalled:0:10", "nothing", "go_on", 0)
    assert [option.id for option in question.options] == ["go_on", "stop"]
    assert any("9 measured trials" in line for line in question.evidence)


def test_every_step_is_one_line_on_the_console_in_the_status_and_in_the_report(flat: Path) -> None:
    seen = Seen()
    said: list[str] = []
    seen.on_event = lambda entry, study: said.append(lines.line_of(entry.event, study))
    run_study(flat, seen=seen)
    study = study_of(flat)
    told = [line for line in said if line.startswith("stall ladder: ")]
    assert len(told) == len(climbs(flat)) == 7
    page = report.render(study, folder_of(flat))
    for step in climbs(flat):
        assert any(step.why in line for line in told)
        assert step.why.replace("[", "\\[").replace("]", "\\]") in page or step.why.replace("_", "\\_") in page or step.why[:30] in page
    assert page.count("\n- ") > 7
    assert "## Stalls" in page
    assert any(line.startswith("  stall      on ask; the last step: ask: ") for line in status.as_text(study).splitlines())
    assert status.as_dict(study)["stall"]["climbs"] == 4


@pytest.mark.parametrize("at", range(1, 8))
def test_killed_after_any_step_it_is_not_taken_again_and_the_next_one_comes_in_its_time(flat: Path, at: int) -> None:
    """The harness dies right after a step was journalled, or (the last) right after the question before it."""

    class Killed(BaseException):
        pass

    number: Iterator[int] = count(1)

    def kill(entry: object, study: Study) -> None:
        event = getattr(entry, "event", None)
        if isinstance(event, Climbed) and next(number) == at:
            raise Killed

    with pytest.raises(Killed):
        run_study(flat, seen=Seen(on_event=kill))
    resume_study(flat)
    assert [step.rung for step in climbs(flat)] == ["other_axis", "combine", "wider_briefing", "other_model", "radical", "critic", "ask"]
    assert rungs_of_rows(study_of(flat)) == [""] * 3 + ["other_axis"] * 2 + ["combine"] * 2 + ["radical"] * 2 + ["ask"] * 7


def test_killed_between_the_question_and_its_step_nobody_is_asked_twice(flat: Path) -> None:
    class Killed(BaseException):
        pass

    def kill(entry: object, study: Study) -> None:
        if isinstance(getattr(entry, "event", None), Escalated):
            raise Killed

    with pytest.raises(Killed):
        run_study(flat, seen=Seen(on_event=kill))
    assert climbs(flat)[-1].rung == "critic"
    resume_study(flat)
    assert study_of(flat).inbox.asked == 1
    assert climbs(flat)[-1].rung == "ask"


def test_a_keep_leads_down_and_the_next_drought_begins_at_the_first_rung(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules='[keep]\nrule = "strict"\n[stop]\ntrials = 9\n[stall]\nafter = 2\nquota = 2\nrungs = ["ask"]')
    set_rules(project, '[stall]\nrungs = ["radical"]')
    values = [1.3, 1.4, 1.5, 1.1, 1.6, 1.7, 1.8]
    run_study(project, edits_file(tmp_path, [{"VALUE": value} for value in values]))
    steps = [(step.rung, step.passed_over) for step in climbs(project)]
    assert steps == [("radical", True), ("", False), ("radical", True)]
    assert climbs(project)[1].why == "trial 4 was kept"


def test_an_edit_of_the_rungs_during_the_study_holds_from_the_next_trial_on(flat: Path) -> None:
    """The rung in force is taken out of program.md: proposals are plain again at once, and nothing is climbed that is not in the rules."""

    def edit(entry: object, study: Study) -> None:
        event = getattr(entry, "event", None)
        if isinstance(event, Climbed) and event.rung == "other_axis":
            set_rules(flat, '[stall]\nrungs = ["radical"]')

    run_study(flat, seen=Seen(on_event=edit))
    steps = [(step.rung, step.why) for step in climbs(flat)]
    assert steps[1] == ("", "program.md no longer has the rung other_axis in [stall] rungs")
    assert [rung for rung, _ in steps] == ["other_axis", "", "radical"]
    assert rungs_of_rows(study_of(flat))[3:6] == ["other_axis", "", "radical"]


def test_a_keep_settles_the_question_about_the_stall_also_when_it_was_killed_right_after(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    class Killed(BaseException):
        pass

    def kill(entry: object, study: Study) -> None:
        event = getattr(entry, "event", None)
        if isinstance(event, Climbed) and not event.rung:
            raise Killed

    law = '[keep]\nrule = "strict"\n[stop]\ntrials = 5\n[stall]\nafter = 2\nquota = 2\nrungs = ["ask"]'
    values: list[dict[str, object]] = [{"VALUE": value} for value in (1.3, 1.4, 1.1, 1.5, 1.6)]
    project = make_project(rules=law)
    with pytest.raises(Killed):
        run_study(project, edits_file(tmp_path, values), seen=Seen(on_event=kill))
    resume_study(project)
    settled = [entry.event for entry, _ in journal.read(folder_of(project).journal) if isinstance(entry.event, Resolved)]
    assert [(one.by, one.option, one.note) for one in settled] == [("moot", "go_on", "trial 3 was kept since; the stall is over")]
    assert [one.question.key for one in study_of(project).inbox.closed] == ["stalled:0:3"]
    assert [one.key for one in study_of(project).inbox.open.values()] == ["stalled:3:6"], "a new stall is a new question"


def test_an_empty_ladder_is_none(flat: Path) -> None:
    set_rules(flat, "[stall]\nrungs = []")
    run_study(flat)
    assert climbs(flat) == []
    assert rungs_of_rows(study_of(flat)) == [""] * 16


def reading(project: Path) -> Recorder:
    """A study in which a model proposes, taken up at the end of its journal; its events go to memory alone."""

    class Memory:
        def __init__(self, study: Study) -> None:
            self.study, self.folder, self.emitted = study, folder_of(project), list[Climbed]()

        def emit(self, event: Climbed) -> None:
            self.emitted.append(event)
            self.study.ladder.step(event)

    study = study_of(project)
    assert study.started
    study.started = study.started.model_copy(update={"proposer": "command", "proposer_by_rules": False})
    study.ladder.rung, study.ladder.climbed, study.ladder.at, study.ladder.steps = None, [], 0, []
    return Memory(study)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("says", "passed_over", "why", "told"),
    [
        ("Nobody has\x1b[2J tried a\u202e longer warm-up.", False, "measured trials since", "Nobody has tried a longer warm-up."),
        (" \n", True, "the reviewer's model had nothing to say", ""),
        (ModelUnavailable("limit", "the account is empty"), True, "the reviewer's model brought nothing: the account is empty", ""),
        (ProposalRefused("refusal", "it refused"), True, "the reviewer's model brought nothing: it refused", ""),
        ("x" * 99_999, False, "measured trials since", "x" * 4000),
    ],
)
def test_a_critic_is_told_of_or_passed_over_with_the_reason(
    flat: Path, says: str | Exception, passed_over: bool, why: str, told: str
) -> None:
    set_rules(flat, '[stall]\nrungs = ["critic"]\n[stop]\ntrials = 3')
    run_study(flat)
    recorder = reading(flat)

    def overlooked(study: Study, rules: object) -> str:
        if isinstance(says, Exception):
            raise says
        return says

    Ladder(recorder, inbox=None, overlooked=overlooked).climb(load(flat / "program.md"))  # type: ignore[arg-type]
    (step,) = recorder.emitted  # type: ignore[attr-defined]
    assert step.passed_over is passed_over
    assert why in step.why
    assert step.told.startswith(told)
    assert len(step.told.encode()) <= 4096
    page = page_of(flat, recorder.study)
    assert ("a reviewer who saw the study" in page) is not passed_over
    assert "\x1b" not in page


def page_of(project: Path, study: Study) -> str:
    files = {"train.py": (project / "train.py").read_text()}
    rules = load(project / "program.md")
    return prompt.render(study, folder_of(project), (project / "program.md").read_text(), files, files, rules).text()


@pytest.mark.parametrize(
    ("rung", "said"),
    [
        ("other_axis", "axes that are used up"),
        ("combine", "BEGIN DATA"),
        ("wider_briefing", "more of what was tried"),
        ("other_model", "you are asked instead of the one who proposed most"),
        ("radical", "make a structural change"),
    ],
)
def test_a_page_says_what_the_rung_asks_for_and_stays_bounded(flat: Path, rung: str, said: str) -> None:
    set_rules(flat, "[stall]\nrungs = []\n[stop]\ntrials = 8")
    run_study(flat)
    study = study_of(flat)
    plain = page_of(flat, study)
    study.ladder.rung = rung  # type: ignore[assignment]
    page = page_of(flat, study)
    assert "# What is asked for now" in page and "# What is asked for now" not in plain
    assert said in page
    assert len(page.encode()) - len(plain.encode()) < 9 * 1024
    if rung == "combine":
        assert page.count("(near miss ") == page.count("(the diff of trial ") >= 2
        assert "+++ " in page.split("(the diff of trial ")[1]


@pytest.mark.parametrize("reason", sorted(ROLLED_BACK))
def test_a_repair_that_was_rolled_back_is_no_near_miss(flat: Path, reason: str) -> None:
    set_rules(flat, "[stall]\nrungs = []\n[stop]\ntrials = 4")
    run_study(flat)
    study = study_of(flat)
    likely = nearmiss.candidates(study)[0]
    assert likely.verdict is not None
    study.rows = [
        row.model_copy(update={"verdict": likely.verdict.model_copy(update={"reason": reason})}) if row is likely else row
        for row in study.rows
    ]
    assert likely.trial not in [row.trial for row in nearmiss.candidates(study)]


def test_the_search_of_a_study_is_the_one_that_climbs(flat: Path) -> None:
    assert registry.USES["search"] == {"seed"}
    assert Climbing.name == "search"


AWAY = "anthropic would be asked instead, but is away or has no more ideas now"


def test_other_model_is_passed_over_while_the_other_proposer_of_the_mix_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    law = f'{FLAT}rungs = ["other_model", "radical"]\n[proposer]\nmix = {{ search = 0.7, anthropic = 0.3 }}'
    with stub(Script([error_status(401, "authentication_error", "no")] * 9)) as server:
        project = flattened(project_of(tmp_path / "p", server.url, law))
        run_study(project, trials=5)
    study = study_of(project)
    assert study.calls.away and [row.proposer for row in study.rows[1:]] == ["search"] * 5
    first = climbs(project)[0]
    assert (first.rung, first.passed_over, first.why) == ("other_model", True, AWAY)
    assert [step.rung for step in climbs(project)] == ["other_model", "radical"]


@pytest.mark.slow
def test_on_other_model_the_next_of_the_models_is_asked_first_also_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def worse(value: float, depth: int) -> Answer:
        return blocks(
            replace("VALUE = 1.2", f"VALUE = {value}"),
            replace("DEPTH = 2", f"DEPTH = {depth}"),
            call("submit", {"title": f"worse {value}", **SUBMISSION}),
        )

    law = '[stall]\nafter = 1\nquota = 9\nrungs = ["other_model"]\n[stop]\ntrials = 2'
    with stub(Script([worse(1.3, 3), worse(1.4, 5), worse(1.6, 7)])) as server:
        project = project_of(tmp_path / "p", server.url, law)
        run_study(project)
        resume_study(project, trials=3)
        assert [body["model"] for body in server.asked] == ["claude-opus-5-5", "claude-sonnet-5", "claude-sonnet-5"]
        assert "you are asked instead" in str(server.asked[1]["messages"]) and "you are asked instead" not in str(
            server.asked[0]["messages"]
        )
    assert rungs_of_rows(study_of(project)) == ["", "other_model", "other_model"]
