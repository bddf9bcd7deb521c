"""The evaluator with real processes: a value counts only from a record that is bound to this trial, this data and this checkpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts import provenance
from harness.control.opening import Company, Wishes, start
from harness.evaluation.evaluator import Evaluator
from harness.execution.clock import Clock, SystemClock
from harness.execution.process import adopt_orphans
from harness.execution.signals import Interrupts
from harness.execution.workplace import JobSpec
from harness.facts import DataFacts
from harness.rules import Rules
from harness.trial import EvaluationFault, JobEnd, JobOutcome, Measurement, Status
from tests.jobs import Bench, Skewed, rules, spec, stub
from tests.projects import STUB, Seen, edits_file, folder_of, resume_study, run_study, set_rules, study_of
from tests.test_job import survivors

ONE_READING = "[keep]\nbaseline_readings = 1"


def trusted(old: str, new: str) -> str:
    """The stub's prepare.py with one expression of its evaluation replaced."""
    text = (STUB / "prepare.py").read_text()
    head, tail = text.split("def evaluate() -> None:\n")
    body, rest = tail.split("\n\n\n", 1)
    assert body.count(old) == 1, old
    return f"{head}def evaluate() -> None:\n{body.replace(old, new)}\n\n\n{rest}"


def finished(job: JobSpec, checkpoint: str = '{"value": 1.25}') -> JobOutcome:
    """A job that ended well, as its folder and its outcome show it."""
    job.folder.create()
    job.folder.checkpoint.write_text(checkpoint)
    job.folder.train_log.write_text("trained\n")
    return JobOutcome(end=JobEnd.OK, exit_code=0, checkpoint_sha256=provenance.sha256(job.folder.checkpoint))


def measure(
    job: JobSpec, outcome: JobOutcome, chosen: Rules | None = None, clock: Clock | None = None, interrupted: Callable[[], str] = str
) -> Measurement | EvaluationFault:
    adopt_orphans()
    data = DataFacts(profile="cpu", metric="val_bpb", data_sha256="d" * 64, train=str(job.train_data))
    return Evaluator(data, Bench(), clock or SystemClock(), interrupted).measure(job, outcome, chosen or rules())


def fault(result: Measurement | EvaluationFault) -> EvaluationFault:
    assert isinstance(result, EvaluationFault), result
    return result


def test_a_measurement_is_bound_to_data_and_checkpoint_and_is_stored_whole(tmp_path: Path) -> None:
    job = spec(tmp_path, stub())
    outcome = finished(job)
    found = measure(job, outcome)
    assert isinstance(found, Measurement)
    assert (found.value, found.data_sha256, found.checkpoint_sha256) == (1.25, "d" * 64, outcome.checkpoint_sha256)
    assert len(found.documents) == 1
    assert Measurement.model_validate_json(job.folder.measurement.read_bytes()) == found
    assert sorted(p.name for p in job.folder.path.iterdir()) == ["checkpoint.safetensors", "evaluate.log", "measurement.json", "train.log"]
    assert survivors(job.marker) == []


def test_each_attempt_has_a_token_of_its_own(tmp_path: Path) -> None:
    job = spec(tmp_path, stub())
    outcome = finished(job)
    first, second = measure(job, outcome), measure(job, outcome)
    assert isinstance(first, Measurement)
    assert isinstance(second, Measurement)
    assert first.token != second.token


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"token": wish["token"]', '"token": "0" * 32', "another trial's token"),
        ('"token": wish["token"]', '"tokem": wish["token"]', "another trial's token"),
        ('"windows": 1,\n        "data_sha256": "d" * 64', '"windows": 1,\n        "data_sha256": "e" * 64', "other data"),
        ('"value": round(value, 7),', "", "value: Field required"),
        ('"bytes": 1,\n        "tokens"', '"bytes": None,\n        "tokens"', "bytes"),
        ('"windows": 1,', '"windows": 1, "mood": "good",', "mood"),
        *(
            ('"value": round(value, 7)', f'"value": {value}', "value: ")
            for value in (
                "''", "'12ms'", "'%'", "'1.2.3'", "'0x1'", "'1e999'", "'1_0'", "'1.2 or so'", "'1.25'", "True", "None", "[1.25]",
                "float('nan')", "-float('nan')", "float('inf')", "10**400",
            )
        ),
    ],
)  # fmt: skip
def test_a_record_that_is_not_exactly_a_measurement_of_this_trial_gives_no_value(tmp_path: Path, old: str, new: str, said: str) -> None:
    job = spec(tmp_path, stub(), prepare=trusted(old, new))
    found = fault(measure(job, finished(job)))
    assert (found.reason, found.candidate_to_blame) == ("metric_error", False)
    assert said in found.detail
    assert not job.folder.measurement.exists()


@pytest.mark.parametrize("value", ["NaN", "-NaN", "Infinity", "-Infinity"])
def test_a_model_whose_loss_is_not_finite_is_the_candidates_fault(tmp_path: Path, value: str) -> None:
    job = spec(tmp_path, stub().replace('state["value"]', f"float('{value}')"))
    found = fault(measure(job, finished(job)))
    assert (found.reason, found.candidate_to_blame) == ("not_finite", True)


def test_a_checkpoint_that_changed_since_the_job_is_not_measured(tmp_path: Path) -> None:
    job = spec(tmp_path, stub())
    outcome = finished(job)
    job.folder.checkpoint.write_text('{"value": 0.5}')
    assert fault(measure(job, outcome)).reason == "checkpoint_changed"
    assert not job.folder.evaluate_log.exists()


def attempts(job: JobSpec) -> int:
    return job.folder.evaluate_log.read_text().count("loading")


def loading(body: str) -> str:
    """A train.py whose load_model says so and then does `body`."""
    return f"import os, sys, time\ndef load_model(state, device):\n    os.write(1, b'loading\\n')\n    {body}\n    return state['value']\n"


def test_an_evaluation_that_hangs_is_tried_once_more_and_leaves_checkpoint_and_log(tmp_path: Path) -> None:
    job = spec(tmp_path, loading("time.sleep(60)"))
    found = fault(measure(job, finished(job), rules(trial={"evaluate_seconds": 20.0}), Skewed(speed=20)))
    assert (found.reason, found.candidate_to_blame) == ("evaluation", True)
    assert found.detail == "no record after 20 s"
    assert attempts(job) == 2
    assert job.folder.checkpoint.exists()
    assert job.folder.train_log.read_text() == "trained\n"
    assert survivors(job.marker) == []


def test_a_scorer_that_dies_is_tried_once_more_from_the_same_checkpoint(tmp_path: Path) -> None:
    job = spec(tmp_path, loading("os.kill(os.getpid(), 9)"))
    assert fault(measure(job, finished(job))).reason == "scorer_died"
    assert attempts(job) == 2


def test_a_scorer_that_dies_once_is_measured_by_the_second_attempt(tmp_path: Path) -> None:
    job = spec(
        tmp_path,
        loading(f"p = {str(tmp_path / 'once')!r}; first = not os.path.exists(p); open(p, 'w').close(); sys.exit(1) if first else None"),
    )
    found = measure(job, finished(job))
    assert isinstance(found, Measurement)
    assert attempts(job) == 2


def test_a_model_that_cannot_be_loaded_is_the_candidates_fault_and_not_tried_again(tmp_path: Path) -> None:
    says_so = trusted(
        'fault={"reason": "scorer_died", "detail": "the scorer hung up"}',
        'fault={"reason": "load_failed", "detail": "\\ud800" + "x" * 999}',
    )
    job = spec(tmp_path, loading("raise RuntimeError('cannot load')"), prepare=says_so)
    found = fault(measure(job, finished(job)))
    assert (found.reason, found.candidate_to_blame) == ("load_failed", True)
    assert found.detail == "?" + "x" * 299
    assert attempts(job) == 1
    assert "cannot load" in job.folder.evaluate_log.read_text()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit(1)", "ended without a record"),
        ("harness.send(metric=0.5)", "unexpected message 'metric'"),
        ("harness.socket.sendall(b'val_bpb: 0.5\\n')", "not JSON"),
        ("harness.send(record=0.5)", "unexpected message 'record'"),
    ],
)
def test_a_trusted_side_that_breaks_the_contract_gives_no_value(tmp_path: Path, body: str, said: str) -> None:
    job = spec(tmp_path, stub(), prepare=trusted("    scorer.send(end={})\n", f"    scorer.send(end={{}})\n    {body}\n"))
    found = fault(measure(job, finished(job)))
    assert (found.reason, found.candidate_to_blame) == ("metric_error", False)
    assert said in found.detail


def test_a_record_sent_with_the_last_breath_counts(tmp_path: Path) -> None:
    job = spec(
        tmp_path, loading("pass"), prepare=trusted('{"nats": value, "bytes": 1}]})', '{"nats": value, "bytes": 1}]})\n    os._exit(0)')
    )

    def busy_elsewhere() -> str:
        time.sleep(0.6)
        return ""

    assert isinstance(measure(job, finished(job), interrupted=busy_elsewhere), Measurement)
    assert attempts(job) == 1


def test_the_scorer_sees_neither_the_data_nor_the_trusted_folder_nor_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-marker")
    monkeypatch.setenv("RATCHET_DATA", "/somewhere")
    job = spec(tmp_path, loading("os.write(1, repr(dict(os.environ)).encode() + repr(sorted(os.listdir('.'))).encode())"))
    assert isinstance(measure(job, finished(job)), Measurement)
    log = job.folder.evaluate_log.read_text()
    assert "['.scratch', 'prepare.py', 'train.py']" in log
    assert not any(word in log for word in ("sk-secret-marker", "/somewhere", "RATCHET_SCORER"))


def test_an_interruption_ends_an_evaluation_without_a_second_try(tmp_path: Path) -> None:
    job = spec(tmp_path, loading("time.sleep(60)"))
    began = time.monotonic()
    found = fault(measure(job, finished(job), interrupted=lambda: "SIGINT" if time.monotonic() - began > 0.7 else ""))
    assert (found.reason, found.candidate_to_blame) == ("interrupted", False)
    assert attempts(job) <= 1
    assert survivors(job.marker) == []


class _Stoppable(Interrupts):
    """Stops when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.said = ""

    def reason(self) -> str:
        return self.said

    @property
    def exit_code(self) -> int:
        return 130


def test_an_interrupted_evaluation_leaves_no_score_and_is_taken_up_without_training_again(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project, stop = make_project(rules=ONE_READING), _Stoppable()
    seen = Seen(on_event=lambda entry, study: setattr(stop, "said", "SIGINT" if entry.event.kind == "trained" and study.rows else ""))
    edits = edits_file(tmp_path, [{"VALUE": 1.1}])
    wishes = Wishes(project=project, tag="t", program=project / "program.md", proposer="scripted", options={"edits": str(edits)})
    assert start(wishes, Company(observe=seen.observe, on_point=seen.points.append, interrupts=stop)).exit_code == 130
    assert seen.kinds()[-3:] == ["launched", "trained", "stopped"]
    again = Seen()
    resume_study(project, seen=again)
    assert again.kinds()[:4] == ["resumed", "scored", "decided", "settled"]
    assert "launched" not in again.kinds()
    assert study_of(project).rows[1].status is Status.KEEP


def _shorten(project: Path, phase: str) -> None:
    set_rules(project, f"[trial]\n{phase}_seconds = 1")


@pytest.mark.slow
def test_a_hanging_evaluation_costs_one_training_and_keeps_what_it_left(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE_READING)
    seen = Seen(on_event=lambda entry, study: _shorten(project, "evaluate") if study.row_count == 1 else None)
    run_study(project, edits_file(tmp_path, [{"MODE": "evaluation_hangs", "VALUE": 0.9}]), seen=seen)
    row = study_of(project).rows[1]
    assert (row.status, row.value) == (Status.CRASH, None)
    assert row.verdict is not None
    assert row.verdict.reason == "evaluation"
    assert seen.kinds().count("launched") == 2
    reading = folder_of(project).trial(row.folder).reading(0)
    assert reading.checkpoint.exists()
    assert reading.train_log.exists()


def test_a_record_of_an_earlier_trial_is_never_read(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules=ONE_READING)
    stale: dict[str, Any] = {}

    def remember(entry: Any, study: Any) -> None:
        if entry.event.kind == "settled" and entry.event.trial == 1:
            _shorten(project, "train")
            path = folder_of(project).trial(study.rows[1].folder).reading(0).measurement
            stale.update(path=path, text=path.read_bytes(), time=path.stat().st_mtime_ns)

    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}, {"MODE": "slow", "VALUE": 0.9}]), seen=Seen(on_event=remember))
    rows = study_of(project).rows
    assert [row.status for row in rows] == [Status.KEEP, Status.KEEP, Status.TIMEOUT]
    assert rows[2].value is None
    assert not folder_of(project).trial(rows[2].folder).reading(0).measurement.exists()
    assert (stale["path"].read_bytes(), stale["path"].stat().st_mtime_ns) == (stale["text"], stale["time"])
    assert json.loads(stale["text"])["value"] == pytest.approx(1.099)
