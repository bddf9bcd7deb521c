"""What a person sees of her edits of program.md and of refused proposals: in `ratchet log` between the trials, in `ratchet status` the last; what is past."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness import cli
from harness.artifacts.events import Entry, Event, RulesChanged, Settled, Warned
from harness.artifacts.study import EDITS, Study
from harness.proposers.wire import KEYS
from harness.trial import Status
from harness.views import edits, lines, report, status
from tests import study_factory as make
from tests.projects import Seen, edits_file, folder_of, resume_study, run_study, set_rules, study_of

KEEP = "; the last valid rules stay in force"
DIFF = "--- before\n+++ after\n@@ -1,2 +1,3 @@\n-trials = 99\n+trials = 6\n+# ---\n"


def told(project: Path, *arguments: str) -> str:
    """What a command prints."""
    done = CliRunner().invoke(cli.cli, [*arguments, "--project", str(project)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def warned(words: str) -> Warned:
    return Warned(code="rules", message=f"program.md:5: {words}{KEEP}")


def test_the_log_has_edits_and_refusals_between_the_trials_and_the_status_the_last(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    """A ban after trial 1, which refuses the third proposal; a typo after trial 2, taken back after trial 3."""
    project = make_project(rules="[keep]\nbaseline_readings = 1\n[stop]\ntrials = 4")
    good: list[str] = []
    shown: list[str] = []

    def act(entry: Entry, study: Study) -> None:
        if not isinstance(entry.event, Settled):
            return
        if entry.event.trial == 1:
            set_rules(project, '[ban]\naxes = ["VALUE"]')
            good.append((project / "program.md").read_text())
        elif entry.event.trial == 2:
            set_rules(project, '[keep]\nruel = "strict"')
        elif entry.event.trial == 3:
            shown.append(status.as_text(study))
            (project / "program.md").write_text(good[0])

    edit: list[dict[str, object]] = [{"DEPTH": 3}, {"VALUE": 1.3}, {"DEPTH": 4}, {"DEPTH": 5}, {"DEPTH": 6}]
    seen = Seen(on_event=act)
    run_study(project, edits_file(tmp_path, edit), seen=seen)
    log = told(project, "log").splitlines()
    texts = [line for line in log if line[:8].strip(" *")]
    assert [line[:8].strip(" *-") for line in texts] == ["4", "", "3", "", "2", "", "", "1", "0"], log
    assert "is again what is in force" in texts[1] and "program.md refused: " in texts[3] and "unknown key 'ruel' in [keep]" in texts[3]
    assert "refused     banned: train.py:" in texts[5] and "changes VALUE, and [ban] axes of program.md has 'VALUE'" in texts[5]
    assert "program.md changed, in force from the next trial on (" in texts[6]
    assert [line.strip() for line in log[log.index(texts[6]) :][1:3]] == ["+[ban]", '+axes = ["VALUE"]'] and texts[6][9:17].count(":") == 2
    assert shown[0].count("unknown key 'ruel'") == 1 and "  rules      " in shown[0], "a current one is said once"
    page = told(project, "status")
    assert "program.md is again what is in force (" in page and "; `ratchet log` has all 3 edits" in page
    assert "  refused    proposal 2, banned: train.py:" in page
    assert "  warning    past, program.md was mended since; rules: " in page and "## Warnings\n\n- past, program.md was mended" in told(
        project, "report"
    )
    assert [one["digest"][:1] == "" for one in json.loads(told(project, "status", "--json"))["edits"]] == [False, True, False]
    assert [one.after for one in study_of(project).edits] == [1, 2, 3]


def test_a_broken_edit_that_a_restart_finds_is_one_edit_and_its_undoing_while_nobody_runs_is_seen(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(rules="[keep]\nbaseline_readings = 1\n[stop]\ntrials = 9")
    edit = edits_file(tmp_path, [{"VALUE": 1.3 + n / 100} for n in range(9)])
    good = (project / "program.md").read_text()
    run_study(project, edit, trials=1)
    (project / "program.md").write_text("no rules\n")
    resume_study(project, trials=2)
    resume_study(project, trials=3)
    study = study_of(project)
    assert [one.digest for one in study.edits] == [""] and study.inbox.complaint
    (project / "program.md").write_text(good)
    seen = Seen()
    resume_study(project, seen=seen, trials=4)
    assert [event.digest for event in seen.events if isinstance(event, RulesChanged)] == [study.rules_digest]
    resume_study(project, seen=seen, trials=5)
    study = study_of(project)
    assert [one.back for one in study.edits] == [False, True] and not study.inbox.complaint
    assert study.trials == 5 and all(one.startswith("past, ") for one in study.warnings if "rules: " in one)


def test_a_warning_of_the_lint_is_past_once_a_text_does_not_earn_it(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[keep]\nbaseline_readings = 1\n[stop]\ntrials = 4\nplateau = 7")
    seen: list[list[str]] = []

    def act(entry: Entry, study: Study) -> None:
        if isinstance(entry.event, Settled):
            seen.append([one for one in study.warnings if "plateau" in one])
            if entry.event.trial == 0:
                (project / "program.md").write_text(f"{(project / 'program.md').read_text()}\nA note.\n")
            if entry.event.trial == 1:
                set_rules(project, "[stop]\nplateau = 3")
            if entry.event.trial == 2:
                set_rules(project, "[stop]\nplateau = 8")

    run_study(project, edits_file(tmp_path, [{"VALUE": 1.3 + n / 100} for n in range(4)]), seen=Seen(on_event=act))
    assert [len(one) for one in seen] == [1, 1, 1, 2, 2]
    assert seen[1][0].startswith("lint: program.md:"), "an edit of something else mends nothing"
    assert seen[2][0].startswith("past, program.md was mended since; lint: program.md:")
    assert [one.startswith("past, ") for one in seen[3]] == [True, False], "said again when it is true again"


def test_past_warnings_give_way_to_those_of_now() -> None:
    night = make.Night()
    events: list[Event] = [
        night.start(),
        *(Warned(code="device", message=f"hot {n}") for n in range(3)),
        warned("bad"),
        RulesChanged(digest="a", diff=DIFF),
    ]
    text = status.as_text(make.fold(events))
    assert all(f"device: hot {n}" in text for n in range(3)) and "bad" not in text and "and 1 earlier warnings" in text


def test_many_long_and_hostile_edits_stay_short_lines_and_a_snapshot_has_them(tmp_path: Path) -> None:
    night = make.Night()
    long = RulesChanged(digest="b" * 64, diff="--- before\n+++ after\n@@\n" + "\n".join(f"+\x1b[31mline {n}{'x' * 300}" for n in range(40)))
    events = [
        night.start(),
        *night.baseline(),
        *(warned(f"bad {n}\n\x1b[2J") for n in range(EDITS)),
        long,
        RulesChanged(digest="c" * 64, diff="from line 3 on 9 lines became 4"),
    ]
    study = make.fold(events)
    assert len(study.edits) == EDITS and Study.model_validate_json(study.model_dump_json()).edits == study.edits
    shown = "\n".join(said for *_, said in edits.log_lines(study)).splitlines()
    assert (
        all(line.isprintable() and len(line) < 600 for line in shown)
        and [line.strip() for line in shown].count("and more lines, which the journal has") == 1
    )
    assert status.as_text(study).count("from line 3 on 9 lines became 4") == 1
    assert "past, program.md was mended since" in report.render(study, folder_of(tmp_path))


def test_the_console_tells_an_edit_taken_back_from_a_new_one() -> None:
    night = make.Night()
    study = make.fold([night.start(), warned("bad")])
    same = RulesChanged(digest=study.rules_digest, diff="")
    study.apply(next(make.entries([same])))
    assert lines.line_of(same, study).startswith("program.md is again what is in force (")
    other = RulesChanged(digest="a" * 64, diff="")
    study.apply(next(make.entries([other])))
    assert lines.line_of(other, study) == "program.md changed (now aaaaaaaaaaaa); in force from now on"


def test_a_review_asked_for_at_night_without_a_key_waits_for_the_person_and_her_word_is_taken(
    make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    project = make_project(rules="[keep]\nbaseline_readings = 1\n[stop]\ntrials = 5")
    shown: list[str] = []

    def act(entry: Entry, study: Study) -> None:
        if isinstance(entry.event, Settled) and entry.event.trial == 0:
            set_rules(project, '[stop]\ndollars = 1\n[review]\nsymbols = ["VALUE"]\ncriteria = ["No line is longer than 100."]')
        if isinstance(entry.event, Settled) and entry.event.trial == 2:
            shown.extend([status.as_text(study), told(project, "inbox")])
            told(project, "answer", "1", "keep")

    edit = edits_file(tmp_path, [{"VALUE": 0.9}, {"DEPTH": 3}, {"DEPTH": 4}, {"DEPTH": 5}, {"DEPTH": 6}])
    run_study(project, edit, seen=Seen(on_event=act))
    study = study_of(project)
    assert [row.status.value for row in study.rows if row.status][:2] == ["keep", "blocked"]
    assert "1 review: 1 without a verdict; 1 keep waits for you in `ratchet inbox`" in shown[0]
    assert "no key; set ANTHROPIC_API_KEY, or the variable of [model] key: " in shown[1]
    kept = study.incumbent
    assert kept is not None and kept.approves == 1 and (kept.status or Status.CRASH) is Status.KEEP
