"""program.md is read again before every trial: valid edits apply and are journalled, broken and forbidden ones are said and change nothing."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from harness.artifacts import journal
from harness.artifacts.events import Entry, RulesChanged, StudyStarted, Warned
from harness.artifacts.journal import Journal, Position
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.control.limits import Limits
from harness.control.recorder import Recorder
from harness.control.steering import Steering, roll_forward, stored_rules
from harness.rules import load
from harness.trial import Status
from tests import study_factory as make
from tests.nights import crash_at
from tests.projects import Seen, edits_file, folder_of, resume_study, run_study, set_rules, study_of

NOW = datetime(2026, 3, 8, 22, 0, tzinfo=timezone.utc)
TEXT = '# Goal\n\n```toml rules\n[keep]\nrule = "debiased"\n[stop]\ntrials = 9\n```\n'


class Desk:
    """A steering wheel without a study: a program.md, a journal, and what was written into it."""

    def __init__(self, root: Path, raw: bytes = TEXT.encode()) -> None:
        self.program = root / "program.md"
        self.program.write_bytes(raw)
        self.folder = StudyDir(root, "t")
        self.folder.path.mkdir(parents=True)
        self.folder.program.write_bytes(raw)
        self.seen = Seen()
        log = Journal(self.folder.journal, Position(), now=lambda: "2026-03-08T22:00:00Z", elapsed=lambda: 0.0)
        self.recorder = Recorder(self.folder, log, Study(), self.seen.observe)
        rules = load(self.program)
        started = make.Night(limits={"trials": 9, "hours": None, "deadline": None}).start()
        self.recorder.emit(started.model_copy(update={"rules_digest": rules.digest}))
        self.steering = Steering(self.program, self.recorder, rules)

    def edit(self, text: str | bytes) -> None:
        """Save program.md and begin the next trial."""
        self.program.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.steering.reread(NOW)

    @property
    def said(self) -> list[str]:
        """Kinds of events after the start."""
        return self.seen.kinds()[1:]

    @property
    def rule(self) -> str:
        """The keep rule in force."""
        return self.steering.rules.keep.rule

    @property
    def last(self) -> Warned | RulesChanged:
        event = self.seen.events[-1]
        assert isinstance(event, Warned | RulesChanged)
        return event


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.recorder.close()


def test_an_untouched_program_is_no_event(desk: Desk) -> None:
    for _ in range(3):
        assert desk.steering.reread(NOW).digest == hashlib.sha256(TEXT.encode()).hexdigest()
    assert desk.said == []


def test_a_valid_edit_is_in_force_journalled_and_stored(desk: Desk) -> None:
    text = TEXT.replace("debiased", "strict")
    desk.edit(text)
    desk.steering.reread(NOW)
    assert desk.said == ["rules_changed"]
    event = desk.last
    assert isinstance(event, RulesChanged)
    assert event.digest == hashlib.sha256(text.encode()).hexdigest() == desk.recorder.study.rules_digest
    assert '-rule = "debiased"' in event.diff and '+rule = "strict"' in event.diff
    assert event.limits is None
    assert desk.rule == "strict"
    assert desk.folder.program.read_text() == text


def test_an_edit_of_the_prose_is_journalled_too(desk: Desk) -> None:
    desk.edit(TEXT.replace("# Goal", "# Goal: think of the optimizer"))
    assert desk.said == ["rules_changed"]


def test_a_broken_edit_keeps_the_last_valid_rules_and_warns_once(desk: Desk) -> None:
    desk.edit(TEXT.replace("rule =", "ruel ="))
    for _ in range(3):
        assert desk.steering.reread(NOW).keep.rule == "debiased"
    assert desk.said == ["warned"]
    event = desk.last
    assert isinstance(event, Warned)
    assert event.code == "rules"
    assert f"{desk.program.name}:5: unknown key 'ruel' in [keep]; did you mean 'rule'?; the last valid rules stay in force" in event.message
    assert desk.folder.program.read_text() == TEXT


def test_fixed_then_broken_then_fixed(desk: Desk) -> None:
    strict = TEXT.replace("debiased", "strict")
    desk.edit(strict)
    desk.edit("no block\n")
    assert desk.rule == "strict"
    desk.edit(strict)
    assert desk.said == ["rules_changed", "warned", "rules_changed"] and "diff=''" in str(desk.last), "back to what is in force: it is said"
    desk.steering.reread(NOW)
    desk.edit("no block\n")
    assert desk.said[3:] == ["warned"], "broken again is said again"
    desk.edit(TEXT)
    assert desk.said[4:] == ["rules_changed"]
    assert desk.rule == "debiased"


def test_each_new_way_to_be_broken_is_said(desk: Desk) -> None:
    desk.edit("no block\n")
    desk.edit(b"\xff\xfe")
    assert "not UTF-8" in str(desk.last)
    desk.edit(TEXT.replace("9", "0"))
    assert desk.said == ["warned"] * 3


def test_a_deleted_file_is_said_once_and_its_return_changes_nothing(desk: Desk) -> None:
    desk.program.unlink()
    for _ in range(3):
        desk.steering.reread(NOW)
    assert desk.said == ["warned"]
    assert "No such file or directory; the last valid rules stay in force" in str(desk.last)
    desk.edit(TEXT)
    assert desk.said == ["warned", "rules_changed"] and "diff=''" in str(desk.last)
    desk.program.unlink()
    desk.steering.reread(NOW)
    assert desk.said == ["warned", "rules_changed", "warned"]


REVIEW = '[review]\nsymbols = ["VALUE"]\ncriteria = ["it keeps the contract"]\n'


def test_an_edit_that_asks_for_reviews_nobody_could_pay_is_refused_and_said_once(desk: Desk) -> None:
    asking = TEXT.replace("[keep]", f"{REVIEW}[keep]")
    for _ in range(3):
        desk.edit(asking)
    assert desk.said == ["warned"] and not desk.steering.rules.review.asked_for
    assert "they cannot be made: a model needs a limit" in str(desk.last) and "the last valid rules stay in force" in str(desk.last)
    desk.edit(asking.replace("trials = 9", "trials = 9\ndollars = 5"))
    assert desk.said[-1] == "rules_changed" and desk.steering.rules.review.asked_for
    desk.edit(asking)
    assert "they cannot be made: a model needs a limit" in str(desk.last) and desk.steering.rules.stop.dollars == 5, (
        "the limit may not go while reviews are asked for"
    )
    desk.edit(TEXT)
    assert desk.said[-1] == "rules_changed" and not desk.steering.rules.review.asked_for


def test_a_refused_edit_is_adopted_when_a_flag_gives_what_it_lacked(desk: Desk) -> None:
    desk.edit(TEXT.replace("[keep]", f"{REVIEW}[keep]"))
    desk.steering.flags = {"dollars": 5.0, "hours": None}
    desk.steering.reread(NOW)
    assert desk.said[0] == "warned" and desk.said[-1] == "rules_changed"
    assert desk.steering.rules.review.asked_for and desk.steering.limits.dollars == 5


def test_an_edit_whose_reviewer_has_no_key_or_no_price_is_refused(desk: Desk) -> None:
    for lines, said in (('[model]\nkey = "NO_SUCH_KEY_HERE"\n', "NO_SUCH_KEY_HERE, which is not"), ("", "price of nobody-1 is unknown")):
        review = REVIEW if lines else f'{REVIEW}model = "nobody-1"\n'
        desk.edit(TEXT.replace("[keep]", f"{review}{lines}[keep]").replace("trials = 9", "trials = 9\ndollars = 5"))
        assert said in str(desk.last) and not desk.steering.rules.review.asked_for


@pytest.mark.parametrize(("lines", "name"), [
    ('[metric]\nname = "loss"', "[metric] name"), ('[metric]\ndirection = "higher"', "[metric] direction"), ('[trial]\nprofile = "gpu"', "[trial] profile"),
    ('[trial]\nclock = "wall"\namount = 300', "[trial] clock"), ("[trial]\namount = 99", "[trial] amount"),
    ('[scope]\neditable = ["train.py", "net.py"]', "[scope] editable"), ("[run]\nthreads = 2", "[run] threads"), ('[run]\ndevice = "cuda"', "[run] device"),
])  # fmt: skip
def test_what_makes_trials_comparable_cannot_change_within_a_study(desk: Desk, lines: str, name: str) -> None:
    desk.edit(TEXT.replace("[keep]", f"{lines}\n[keep]").replace("debiased", "strict"))
    assert desk.said == ["warned"]
    assert f"{name} cannot change within a study" in str(desk.last)
    assert desk.rule == "debiased", "an edit applies as a whole or not at all"


def test_a_launcher_that_is_not_there_is_a_broken_edit_and_not_the_end_of_the_night(desk: Desk) -> None:
    desk.edit(TEXT.replace("[keep]", '[run]\ncommand = ["no-such-launcher", "train.py"]\n[keep]'))
    assert desk.said == ["warned"]
    assert "'no-such-launcher' is not found" in str(desk.last)


def test_other_settings_may_change(desk: Desk) -> None:
    desk.edit(
        TEXT.replace("[keep]", "[metric]\nplausible = [0.5, 3]\n[trial]\ntrain_seconds = 60\n[escalation]\nconsecutive_crashes = 2\n[keep]")
    )
    assert desk.said == ["rules_changed"]
    assert desk.steering.rules.escalation.consecutive_crashes == 2


@pytest.mark.parametrize("raw", [codecs.BOM_UTF8 + TEXT.encode(), TEXT.replace("\n", "\r\n").encode()])
def test_a_file_from_windows_is_not_taken_for_an_edit(tmp_path: Path, raw: bytes) -> None:
    desk = Desk(tmp_path, raw)
    desk.steering.reread(NOW)
    assert desk.said == []
    desk.edit(raw.replace(b"debiased", b"strict"))
    event = desk.last
    assert isinstance(event, RulesChanged)
    assert len([line for line in event.diff.splitlines() if line.startswith(("+r", "-r"))]) == 2
    assert len(event.diff.splitlines()) < 14
    assert stored_rules(desk.folder.program, desk.program) == desk.steering.rules
    desk.recorder.close()


def test_an_edit_of_how_much_is_in_force_and_outlives_a_restart(desk: Desk) -> None:
    desk.edit(TEXT.replace("trials = 9", 'trials = 4\ndeadline = "07:00"'))
    expected = Limits(trials=4, deadline=NOW + timedelta(hours=9))
    assert desk.steering.limits == expected
    event = desk.last
    assert isinstance(event, RulesChanged)
    assert event.limits == expected.model_dump(mode="json") == desk.recorder.study.limits


def test_an_edit_that_a_crash_kept_from_the_journal_is_journalled_by_the_next_harness(desk: Desk) -> None:
    text = TEXT.replace("debiased", "strict")
    desk.folder.program.write_text(text)  # stored, then the power went
    desk.program.write_text(text)
    steering = Steering(desk.program, desk.recorder, stored_rules(desk.folder.program, desk.program))
    steering.reread(NOW)
    steering.reread(NOW)
    assert desk.said == ["rules_changed"]
    assert desk.recorder.study.rules_digest == hashlib.sha256(text.encode()).hexdigest()


def save(path: Path, text: str) -> None:
    path.write_text(text)


def settled(project: Path, edits: dict[int, Callable[[], None]]) -> Seen:
    """An observer that makes an edit when the trial of that number is settled."""

    def act(entry: Entry, study: Study) -> None:
        if entry.event.kind == "settled":
            edits.get(entry.event.trial, lambda: None)()

    return Seen(on_event=act)


def test_a_night_is_steered_from_its_next_trial_on(make_project: Callable[..., Path], tmp_path: Path) -> None:
    """One study, one edit after each trial: strict, forbidden, broken, deleted, fixed with fewer trials."""
    project = make_project(rules="[keep]\nbaseline_readings = 1\n[stop]\ntrials = 99")
    program = project / "program.md"
    first = program.read_text()
    strict = first.replace("[keep]", '[keep]\nrule = "strict"')
    seen = settled(project, {
        1: lambda: set_rules(project, '[keep]\nrule = "strict"'),
        2: lambda: set_rules(project, "[trial]\namount = 200"),
        3: lambda: set_rules(project, "[trial]\namount = 100\n[keep]\nruel = 1"),
        4: program.unlink,
        5: lambda: save(program, strict.replace("trials = 99", "trials = 6")),
    })  # fmt: skip
    stop = run_study(project, edits_file(tmp_path, [{"VALUE": 1.3 + n / 100} for n in range(9)]), seen=seen)
    study = study_of(project)
    assert (stop.reason, study.trials) == ("trials", 6)
    assert [row.verdict.rule for row in study.rows if row.verdict] == ["debiased"] * 2 + ["strict"] * 5
    digests = [row.rules_digest for row in study.rows]
    assert digests[0] == digests[1] == hashlib.sha256(first.encode()).hexdigest()
    assert len({*digests[2:6]}) == 1 and digests[6] == hashlib.sha256(program.read_bytes()).hexdigest()
    changes = [event for event in seen.events if isinstance(event, RulesChanged)]
    warnings = [event.message for event in seen.events if isinstance(event, Warned)]
    assert len(changes) == 2 and '+rule = "strict"' in changes[0].diff and "+trials = 6" in changes[1].diff
    assert [next(w for w in ("amount", "ruel", "No such") if w in message) for message in warnings] == ["amount", "ruel", "No such"]
    assert folder_of(project).program.read_bytes() == program.read_bytes()


@pytest.mark.parametrize("how", ["linked anew", "replaced by a file"])
def test_a_program_that_is_a_link_is_followed_wherever_it_leads_now(make_project: Callable[..., Path], tmp_path: Path, how: str) -> None:
    project = make_project(rules="[keep]\nbaseline_readings = 1\n[stop]\ntrials = 5")
    first, second, link = tmp_path / "first.md", tmp_path / "second.md", tmp_path / "night.md"
    first.write_bytes((project / "program.md").read_bytes())
    second.write_text(first.read_text().replace("trials = 5", "trials = 2"))
    link.symlink_to(first)

    def edit() -> None:
        if how == "linked anew":
            link.unlink()
            link.symlink_to(second)
        else:
            second.replace(link)

    run_study(project, seen=settled(project, {1: edit}), program=link)
    assert study_of(project).trials == 2


def test_flags_of_the_start_hold_until_program_md_is_edited_and_an_edit_is_there_after_a_resume(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(rules="[keep]\nbaseline_readings = 1\n[stop]\ntrials = 9")
    edits = edits_file(tmp_path, [{"VALUE": 1.3 + n / 100} for n in range(9)])
    seen = settled(project, {0: lambda: set_rules(project, "[stop]\ntrials = 2")})
    assert run_study(project, edits, seen=seen, trials=1).reason == "trials"
    assert study_of(project).trials == 2
    set_rules(project, "[stop]\ntrials = 3")
    assert resume_study(project).reason == "trials"
    assert study_of(project).trials == 3
    assert {row.status for row in study_of(project).rows[1:]} == {Status.DISCARD}
    assert isinstance(seen.events[0], StudyStarted)


def test_an_edit_that_broke_while_nobody_ran_is_said_once(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[stop]\ntrials = 1")
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.3}, {"VALUE": 1.31}]))
    (project / "program.md").write_text("no rules at all\n")
    seen = Seen()
    resume_study(project, seen=seen, trials=2)
    assert [event.code for event in seen.events if isinstance(event, Warned)] == ["rules"]
    assert study_of(project).trials == 2


@pytest.mark.parametrize("point", ["rules_stored", "journal:rules_changed"])
def test_an_edit_whose_adoption_was_killed_is_adopted_whole_once(make_project: Callable[..., Path], tmp_path: Path, point: str) -> None:
    project = make_project(rules="[stop]\ntrials = 8")
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1 - n / 100} for n in range(8)]), trials=None)
    assert study_of(project).trials == 8
    set_rules(project, "[stop]\ntrials = 11")
    crash_at(project, point)
    resume_study(project)
    changed = [entry.event for entry, _ in journal.read(folder_of(project).journal) if isinstance(entry.event, RulesChanged)]
    assert [(one.limits or {}).get("trials") for one in changed] == [11] and "+trials = 11" in changed[0].diff
    assert study_of(project).limits["trials"] == 11
    assert folder_of(project).program.read_bytes() == (project / "program.md").read_bytes()


def test_a_text_that_the_journal_does_not_know_is_not_in_force_after_a_kill(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.edit(TEXT.replace("debiased", "strict"))
    digest, known = desk.recorder.study.rules_digest, desk.folder.program.read_bytes()
    desk.folder.program.write_bytes(TEXT.encode())
    roll_forward(desk.folder, digest)
    assert desk.folder.program.read_bytes() == known
