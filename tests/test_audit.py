"""A claim is believed only after another scorer, which sees beginnings alone, gives the same losses: rules, whole studies, and the data's side of it."""

from __future__ import annotations

import json
import re
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.artifacts.events import Audited, Decided, Entry, Interrupted, Launched, Rehearsed
from harness.artifacts.study import Study
from harness.audited import Audit
from harness.control.opening import Company, Wishes, start
from harness.evaluation import auditing, judge
from harness.execution.signals import Interrupts
from harness.trial import Bar, Change, EvaluationFault, JobEnd, JobOutcome, Measurement, Noise, Reading, Status
from tests.jobs import rules
from tests.nights import crash_at
from tests.projects import Seen, edits_file, folder_of, git, make_project, resume_study, run_study, study_of

ONE = "[keep]\nbaseline_readings = 1"
RULES = rules()
NO_CHANGE = Change(added_lines=0, removed_lines=0, file_sha256="0" * 64, ast_sha256="0" * 64)
SIGMA = Noise(sigma=0.002, prior_sigma=0.002, prior_weight=1, degrees=0)


def auditing_project(folder: Path, law: str = "") -> Path:
    """A stub project whose prepare.py can audit."""
    project = make_project(folder, rules=f"{ONE}\n{law}")
    text = (project / "prepare.py").read_text()
    assert text.count("AUDIT = False") == 1
    (project / "prepare.py").write_text(text.replace("AUDIT = False", "AUDIT = True"))
    git(project, "commit", "-qam", "a prepare.py that audits")
    return project


def reading(
    value: float = 1.0, audit: Audit | None = None, load: float | None = 1.0, whole: float | None = 3.0, replicate: int = 0
) -> Reading:
    measured = Measurement(
        token="t", value=value, nats=value, bytes=1, tokens=1, windows=1, data_sha256="d", checkpoint_sha256="c", seconds=1.0,
        load_seconds=load, scorer_seconds=whole,
    )  # fmt: skip
    return Reading(
        trial=1, replicate=replicate, seed=0, outcome=JobOutcome(end=JobEnd.OK, train_seconds=300.0), measurement=measured, audit=audit
    )


# --------------------------------------------------------------------------------------------- what an audit says, pure
def test_every_tenth_new_best_is_audited_four_times_as_deep() -> None:
    assert [auditing.positions(RULES, kept) for kept in range(11)] == [1024] * 9 + [4096, 1024]


@given(p999=st.floats(0, 10))
def test_the_tolerance_is_ten_times_the_baselines_scatter_within_bounds(p999: float) -> None:
    found = auditing.tolerance(reading(audit=Audit(positions=1024, p999=p999)))
    assert 0.02 <= found <= 0.5
    assert found in (0.02, 0.5) or found == pytest.approx(10 * p999)
    assert auditing.tolerance(None) == auditing.tolerance(reading()) == 0.5, "the baseline itself is held to the widest"


@pytest.mark.parametrize(
    ("audit", "said"),
    [
        (Audit(positions=1024), None),
        (Audit(positions=1024, mean=1e-6, standard_error=1e-7, worst=1e-5), None),
        (Audit(positions=1024, mean=0.003, standard_error=0.001, worst=0.01, tolerance=0.02), None),
        (Audit(positions=1024, mean=0.0009, standard_error=1e-5, worst=0.01, tolerance=0.02), None),
        (Audit(positions=1024, mean=-0.003, standard_error=0.0005), "off by -0.003 ± 0.0005 nats on average"),
        (Audit(positions=1024, mean=-1e-5, standard_error=1.0, off=1, worst=3.1, tolerance=0.02), "1 of 1024 audited positions"),
        (Audit(positions=1024, fault="not_finite", detail="3 of 9 logits"), "the audit could not be made: not_finite, 3 of 9 logits"),
        (Audit(positions=1024, load_seconds=9.0), "9.0 s to load the model again, the baseline takes 1.0"),
    ],
)
def test_what_speaks_against_a_claim(audit: Audit, said: str | None) -> None:
    found = auditing.objection(RULES, reading(audit=audit), reading())
    assert found is None if said is None else found is not None and said in found[1]


def test_a_scorer_that_takes_much_longer_than_the_baselines_is_not_believed_even_without_an_audit() -> None:
    assert auditing.objection(RULES, reading(load=2.9), reading()) is None, "twice the baseline's, and a second"
    for slow in (reading(load=3.1), reading(whole=7.1)):
        found = auditing.objection(RULES, slow, reading())
        assert found is not None and found[0] == "scorer_time"
        verdict = judge.judge(RULES, Bar(ref=2.0), slow, SIGMA, NO_CHANGE, reading())
        assert (verdict.status, verdict.reason, verdict.next_bar) == (Status.INVALID, "scorer_time", Bar(ref=2.0))
    assert auditing.objection(RULES, reading(load=None, whole=None), reading()) is None, "a prepare.py that does not say is not held to it"


@given(mean=st.floats(-0.5, 0.5), error=st.floats(0, 0.1), off=st.integers(0, 3))
def test_a_rejected_claim_is_never_kept_and_an_accepted_one_is_judged_by_its_corrected_value(mean: float, error: float, off: int) -> None:
    found = reading(1.0, Audit(positions=9, mean=mean, standard_error=error, off=off, correction=mean))
    verdict = judge.judge(RULES, Bar(ref=1.0), found, SIGMA, NO_CHANGE, reading())
    rejected = off > 0 or abs(mean) > max(1e-3, 4 * error)
    assert (verdict.status is Status.INVALID) == rejected
    if not rejected:
        assert verdict.value == pytest.approx(1.0 - mean)
        assert (verdict.status is Status.KEEP) == (1.0 - mean < 1.0)


@given(first=st.floats(0.4, 0.8), second=st.floats(0.4, 1.2))
def test_a_second_reading_must_bear_out_half_of_the_gain(first: float, second: float) -> None:
    verdict = judge.judge_all(RULES, Bar(ref=1.0), [reading(first), reading(second, replicate=1)], SIGMA, NO_CHANGE, reading())
    assert (verdict.status is Status.KEEP) == (1.0 - second >= 0.5 * (1.0 - first))
    if verdict.status is not Status.KEEP:
        assert (verdict.reason, verdict.next_bar) == ("not_confirmed", Bar(ref=1.0, since=1))


def test_a_second_reading_that_failed_decides() -> None:
    crashed = Reading(trial=1, replicate=1, seed=1, outcome=JobOutcome(end=JobEnd.CRASH, reason="exit_code", detail="boom"))
    verdict = judge.judge_all(RULES, Bar(ref=1.0), [reading(0.5), crashed], SIGMA, NO_CHANGE, reading())
    assert (verdict.status, verdict.detail) == (Status.CRASH, "boom")


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (None, ""),
        (0.0, ""),
        (0.0009, ""),
        (0.02, "looks_ahead"),
        (EvaluationFault(reason="load_failed", detail="KeyError", candidate_to_blame=True), "load_failed"),
        (EvaluationFault(reason="short_answer", detail="7 bytes", candidate_to_blame=True), "short_answer"),
        (EvaluationFault(reason="not_finite", detail="an average of weights that is still empty", candidate_to_blame=True), ""),
        (EvaluationFault(reason="metric_error", detail="ours", candidate_to_blame=False), ""),
    ],
)
def test_what_a_rehearsal_says(result: float | EvaluationFault | None, reason: str) -> None:
    assert auditing.rehearsal(result).reason == reason


# --------------------------------------------------------------------------------------------------------- whole studies
def audits(seen: Seen) -> list[tuple[int, int, int]]:
    return [(event.trial, event.replicate, event.audit.positions) for event in seen.events if isinstance(event, Audited)]


def test_only_the_baseline_and_what_would_be_kept_is_audited(tmp_path: Path) -> None:
    project, seen = auditing_project(tmp_path / "p", "[audit]\npositions = 64"), Seen()
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.3}, {"VALUE": 1.19}, {"VALUE": 1.18}]), seen=seen)
    study = study_of(project)
    assert [row.status for row in study.rows] == [Status.KEEP, Status.DISCARD, Status.KEEP, Status.KEEP]
    assert audits(seen) == [(0, 0, 64), (2, 0, 64), (3, 0, 64)]
    kept = folder_of(project).trial(study.rows[3].folder).reading(0)
    assert kept.claims.exists() and study.rows[3].readings[0].measurement is not None
    assert not folder_of(project).trial(study.rows[1].folder).reading(0).claims.exists(), "claims go with the checkpoint"


def test_a_lie_is_invalid_and_the_incumbent_stays(tmp_path: Path) -> None:
    project, seen = auditing_project(tmp_path / "p"), Seen()
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1, "AUDITED": 1.3}, {"VALUE": 1.15}]), seen=seen)
    study = study_of(project)
    lie, honest = study.rows[1:]
    assert lie.verdict is not None and (lie.status, lie.verdict.reason) == (Status.INVALID, "audit")
    assert "1 of 1024 audited positions are off by more than 0.02 nats" in lie.verdict.detail
    assert honest.status is Status.KEEP and study.incumbent is not None and study.incumbent.trial == 2
    assert git(project, "rev-parse", "autoresearch/t") == honest.commit
    assert folder_of(project).trial(lie.folder).reading(0).measurement.exists(), "the claim itself stays as evidence"


def test_a_small_honest_difference_corrects_the_value_and_may_cost_the_keep(tmp_path: Path) -> None:
    project = auditing_project(tmp_path / "p", '[keep]\nrule = "strict"')
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1995, "AUDITED": 1.1984}, {"VALUE": 1.1990, "AUDITED": 1.1985}]))
    study = study_of(project)
    first, second = study.rows[1:]
    assert first.status is Status.KEEP and first.verdict is not None and first.readings[0].audit is not None
    assert first.verdict.value == pytest.approx(1.1984, abs=1e-6)
    assert first.readings[0].audit.correction == pytest.approx(1.1985 - 1.1984, abs=1e-6)
    assert second.status is Status.DISCARD and second.verdict is not None, "its claim is lower, what the audit finds is not"
    assert second.verdict.value == pytest.approx(1.1985, abs=1e-6)


def test_a_baseline_that_cannot_be_audited_is_no_baseline(tmp_path: Path) -> None:
    project = auditing_project(tmp_path / "p")
    text = (project / "train.py").read_text().replace("AUDITED = None", "AUDITED = 1.9")
    (project / "train.py").write_text(text)
    git(project, "commit", "-qam", "looks ahead")
    stop = run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]))
    assert (stop.reason, stop.exit_code) == ("no_baseline", 4)
    assert "invalid (audit: 1 of 1024 audited positions are off" in stop.sentence


def test_a_metric_without_an_audit_and_a_rule_without_positions_are_measured_as_before(tmp_path: Path) -> None:
    plain = make_project(tmp_path / "plain", rules=ONE)
    off = auditing_project(tmp_path / "off", "[audit]\npositions = 0")
    for project in (plain, off):
        seen = Seen()
        run_study(project, edits_file(tmp_path, [{"VALUE": 1.15, "AUDITED": 1.3}]), seen=seen)
        assert audits(seen) == [] and study_of(project).rows[1].status is Status.KEEP


def test_a_wonder_is_measured_again_with_another_seed_before_it_is_believed(tmp_path: Path) -> None:
    project, seen = auditing_project(tmp_path / "p"), Seen()
    lucky: dict[str, object] = {"VALUE": 1.15, "SEED_NOISE": 0.3}  # seed 0 reads 0.85, seed 1 reads 1.15
    run_study(project, edits_file(tmp_path, [lucky, {"VALUE": 0.9}]), seen=seen)
    study = study_of(project)
    luck, real = study.rows[1:]
    assert luck.verdict is not None and (luck.status, luck.verdict.reason) == (Status.DISCARD, "not_confirmed")
    assert [r.seed for r in luck.readings] == [0, 1] and "with another seed the gain was 0.049, not 0.349" in luck.verdict.detail
    assert real.status is Status.KEEP and [r.seed for r in real.readings] == [0, 1]
    assert real.verdict is not None and real.verdict.value == pytest.approx(0.899), "the value is that of the candidates' seed"
    assert audits(seen) == [(0, 0, 1024), (1, 0, 1024), (2, 0, 1024)]


def test_a_scorer_that_works_long_while_it_loads_is_invalid(tmp_path: Path) -> None:
    project = auditing_project(tmp_path / "p", "[audit]\nscorer_factor = 1")
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1, "MODE": "slow_load", "SECONDS": 3.5}]))
    verdict = study_of(project).rows[1].verdict
    assert verdict is not None and (verdict.status, verdict.reason) == (Status.INVALID, "scorer_time")
    assert re.search(r"3\.\d s to load the model, the baseline takes 0\.\d", verdict.detail)


@pytest.mark.parametrize("point", ["journal:scored", "journal:audited", "journal:decided"])
def test_a_crash_around_an_audit_changes_neither_the_table_nor_the_number_of_audits(tmp_path: Path, point: str) -> None:
    project = auditing_project(tmp_path / "p", "[stop]\ntrials = 1")
    edits = edits_file(tmp_path, [{"VALUE": 1.1}])
    seen = Seen()
    run_study(project, edits, tag="whole", seen=seen)
    crash_at(project, point, edits=edits)
    resume_study(project, trials=1)
    table = [(row.status, row.value, row.readings[0].audit is not None) for row in study_of(project).rows]
    assert table == [(row.status, row.value, row.readings[0].audit is not None) for row in study_of(project, "whole").rows]
    lines = [json.loads(line.split(" ", 1)[1])["event"]["kind"] for line in folder_of(project).journal.read_text().splitlines()]
    assert lines.count("audited") == 2 == len(audits(seen))


def test_claims_that_were_changed_void_the_reading_and_it_is_taken_again(tmp_path: Path) -> None:
    project = auditing_project(tmp_path / "p")

    def spoil(event: object) -> None:
        if getattr(event, "kind", "") == "scored" and getattr(event, "trial", 0) == 1 and not spoilt:
            spoilt.append(event)
            folder = folder_of(project).trial(study_of(project).current.folder)  # type: ignore[union-attr]
            folder.reading(0).claims.write_bytes(b"\0" * 4)

    spoilt: list[object] = []
    seen = Seen(on_event=lambda entry, study: spoil(entry.event))
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]), seen=seen)
    assert [event.reason for event in seen.events if isinstance(event, Interrupted)] == ["claims_changed"]
    row = study_of(project).rows[1]
    assert (row.status, row.interruptions) == (Status.KEEP, 1)


# ------------------------------------------------------------------------------------------------------------ rehearsals
def rehearsing(tmp_path: Path, *edits: dict[str, str], law: str = "[audit]\nrehearse_from_seconds = 0") -> tuple[Path, Seen]:
    project, seen = auditing_project(tmp_path / "p", law), Seen()
    listed = tmp_path / "edits.json"
    listed.write_text(json.dumps({"proposals": [{"title": f"edit {n}", **edit} for n, edit in enumerate(edits, 1)]}))
    run_study(project, listed, seen=seen)
    return project, seen


CODE = {"find": "def before_training():\n", "replace": "def before_training():\n    assert VALUE > 0\n"}


def test_new_code_is_tried_untrained_and_a_constant_is_not(tmp_path: Path) -> None:
    project, seen = rehearsing(tmp_path, CODE, {"find": "VALUE = 1.2\n", "replace": "VALUE = 1.1\n"})
    assert [event.trial for event in seen.events if isinstance(event, Rehearsed)] == [1]
    assert [(event.trial, event.replicate) for event in seen.events if isinstance(event, Launched)] == [(0, 0), (1, -1), (1, 0), (2, 0)]
    assert not (folder_of(project).trial(study_of(project).rows[1].folder).path / "rehearsal").exists()


def test_a_model_that_looks_ahead_is_found_before_it_is_trained(tmp_path: Path) -> None:
    ahead = {"find": 'MODE = "ok"\n', "replace": 'MODE = "looks_ahead"\nTRICK = print\n'}
    project, seen = rehearsing(tmp_path, ahead)
    row = study_of(project).rows[1]
    assert row.verdict is not None and (row.status, row.verdict.reason) == (Status.INVALID, "looks_ahead")
    assert [event.replicate for event in seen.events if isinstance(event, Launched)] == [0, -1], "no training"
    assert "only later ids changed" in row.verdict.detail and row.readings == ()
    assert [event.verdict.next_bar for event in seen.events if isinstance(event, Decided)][-1] is not None


def test_a_model_that_cannot_be_loaded_costs_no_training(tmp_path: Path) -> None:
    broken = {"find": 'MODE = "ok"\n', "replace": 'MODE = "evaluation_raises"\nTRICK = print\n'}
    project, seen = rehearsing(tmp_path, broken)
    row = study_of(project).rows[1]
    assert row.verdict is not None and (row.status, row.verdict.reason) == (Status.CRASH, "scorer_died")
    assert [event.replicate for event in seen.events if isinstance(event, Launched)] == [0, -1]


def test_short_trainings_are_not_rehearsed(tmp_path: Path) -> None:
    _, seen = rehearsing(tmp_path, CODE, law="")
    assert not any(isinstance(event, Rehearsed) for event in seen.events)


def test_a_kill_during_a_rehearsal_is_rolled_forward(tmp_path: Path) -> None:
    project = auditing_project(tmp_path / "p", "[audit]\nrehearse_from_seconds = 0\n[stop]\ntrials = 1")
    listed = tmp_path / "edits.json"
    listed.write_text(json.dumps({"proposals": [{"title": "code", **CODE}]}))
    crash_at(project, "journal:rehearsed", edits=listed)
    resume_study(project, trials=1)
    row = study_of(project).rows[1]
    assert row.rehearsal is not None and row.rehearsal.reason == "" and row.status is not None


# ----------------------------------------------------------------------------------------- what a review found by running
def test_an_audit_that_takes_much_longer_than_the_baselines_is_not_believed() -> None:
    """A model that trains on when it is first asked spends its time there, and not while it loads."""
    base = reading(audit=Audit(positions=1024, load_seconds=1.0, scorer_seconds=4.0))
    for positions, used, said in ((1024, 9.0, False), (1024, 9.1, True), (4096, 27.0, False), (4096, 27.1, True)):
        found = auditing.objection(RULES, reading(audit=Audit(positions=positions, load_seconds=1.0, scorer_seconds=used)), base)
        assert (found is not None) == said, (positions, used, found)
        assert found is None or (found[0] == "scorer_time" and "to be audited" in found[1])


@pytest.mark.parametrize(("bar", "gain", "wonder"), [(1.0, 0.11, True), (1.0, 0.09, False), (0.001, 0.015, False), (0.001, 0.021, True)])
def test_a_wonder_is_beyond_the_noise_too(bar: float, gain: float, wonder: bool) -> None:
    assert auditing.implausible(RULES, gain, bar, 0.002) == wonder


def test_a_baseline_reading_that_is_void_after_its_audit_began_is_taken_again_in_its_place(tmp_path: Path) -> None:
    """The first bar is the reading with the candidates' seed, whatever was taken again; and no reading counts twice in the noise."""
    project = auditing_project(tmp_path / "p", "[stop]\ntrials = 1")
    text = (project / "program.md").read_text().replace("baseline_readings = 1", "baseline_readings = 3")
    (project / "program.md").write_text(text)
    git(project, "commit", "-qam", "three readings")
    spoilt: list[object] = []

    def spoil(event: object) -> None:
        if getattr(event, "kind", "") == "scored" and getattr(event, "replicate", 0) == 2 and not spoilt:
            spoilt.append(event)
            folder_of(project).trial("0000-baseline").reading(0).claims.write_bytes(b"\0" * 4)

    seen = Seen(on_event=lambda entry, study: spoil(entry.event))
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]), seen=seen)
    study = study_of(project)
    assert [event.reason for event in seen.events if isinstance(event, Interrupted)] == ["claims_changed"]
    base = study.rows[0]
    assert [r.replicate for r in base.readings] == [0, 1, 2] and [r.audit is not None for r in base.readings] == [True, False, False]
    assert base.verdict is not None and base.verdict.next_bar is not None and base.verdict.next_bar.reading == pytest.approx(1.199)
    assert sorted(study.rereadings[0]) == pytest.approx([1.199, 1.2, 1.201])


def test_a_signal_during_a_rehearsal_is_charged_to_nobody(tmp_path: Path) -> None:
    project = auditing_project(tmp_path / "p", "[audit]\nrehearse_from_seconds = 0\n[stop]\ntrials = 1")
    listed = tmp_path / "edits.json"
    as_it_is, slower = 'MODE = "ok"\nAUDITED = None\nSECONDS = 30.0', 'MODE = "slow_load"\nTRICK = print\nAUDITED = None\nSECONDS = 4.0'
    slow = {"find": as_it_is, "replace": slower}
    listed.write_text(json.dumps({"proposals": [{"title": "code", **slow}]}))
    interrupts = Interrupts()

    def stop(entry: Entry, study: Study) -> None:
        if isinstance(entry.event, Launched) and entry.event.replicate == -1:
            threading.Timer(1.5, setattr, [interrupts, "received", signal.SIGTERM]).start()

    seen = Seen(on_event=stop)
    company = Company(observe=seen.observe, on_point=seen.points.append, interrupts=interrupts)
    options = {"edits": str(listed)}
    ended = start(Wishes(project=project, tag="t", program=project / "program.md", proposer="scripted", options=options), company)
    assert ended.reason == "sigterm"
    assert [(e.replicate, e.charged) for e in seen.events if isinstance(e, Interrupted)] == [(-1, False)]
    again = Seen()
    resume_study(project, seen=again)
    assert [e.charged for e in again.events if isinstance(e, Interrupted)] == []
