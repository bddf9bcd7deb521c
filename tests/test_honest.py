"""Honest models of five kinds train, are measured and are audited without a false alarm. bench/trust.py does the same with ten audits each."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator

import pytest

import prepare
from bench.trust import HONEST, Stand
from harness.audited import Audit
from harness.evaluation import auditing
from harness.execution.process import adopt_orphans
from harness.trial import Measurement, Reading
from tests.projects import ROOT

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(900)]
AUDITS = 2


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """Data of this machine, or of our own."""
    folder = tmp_path_factory.mktemp("honest")
    with pytest.MonkeyPatch.context() as patch:
        if "RATCHET_DATA" not in os.environ:
            patch.setenv("RATCHET_DATA", str(folder / "data"))
        patch.setenv("PYTHONPATH", str(ROOT))
        prepare.prepare("cpu")
        adopt_orphans()
        (folder / "stand").mkdir()
        yield Stand(folder / "stand")


def text_of(kind: str) -> str:
    """Its train.py."""
    return str(importlib.import_module(f"tests.honest.{kind}").honest((ROOT / "train.py").read_text()))


def audited(stand: Stand, text: str, baseline: Reading | None, audits: int) -> list[Reading]:
    """The reading of one training, with each of its audits."""
    spec, evaluator = stand.spec(text), stand.evaluator(stand.cage, audits=True)
    outcome = stand.train(spec, stand.cage)
    measured = evaluator.measure(spec, outcome, stand.rules)
    assert isinstance(measured, Measurement), (outcome.detail, measured)
    found = []
    for _ in range(audits):
        audit = evaluator.audit(spec, measured, stand.rules, stand.rules.audit.positions, auditing.tolerance(baseline))
        assert isinstance(audit, Audit), audit
        found.append(Reading(trial=1, replicate=0, seed=0, outcome=outcome, measurement=measured, audit=audit))
    return found


@pytest.fixture(scope="module")
def baseline(stand: Stand) -> Reading:
    """Ours, audited: it sets the tolerance and the time that a scorer may take."""
    return audited(stand, (ROOT / "train.py").read_text(), None, 1)[0]


def test_there_are_five_kinds_and_each_is_another_program() -> None:
    assert sorted(path.stem for path in (ROOT / "tests" / "honest").glob("[a-z]*.py")) == sorted(HONEST)
    assert len({text_of(kind) for kind in HONEST} | {(ROOT / "train.py").read_text()}) == 6


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_model_is_never_doubted(stand: Stand, baseline: Reading, kind: str) -> None:
    readings = audited(stand, text_of(kind), baseline, AUDITS)
    for reading in readings:
        assert auditing.objection(stand.rules, reading, baseline) is None
    assert (readings[0].value or 9.0) < 3.0, "it has learnt something"
