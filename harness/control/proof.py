"""What a candidate owes before it may be kept: the contract tried before a long training, an audit of its claims, a second look at a wonder.

Each step is journalled by the bench, so a restart finds what is done. `False` means interrupted, or void by a fault of ours: the trial waits.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from harness.artifacts.study import Study
from harness.control.readings import Bench
from harness.evaluation import auditing, judge
from harness.graph import duplicates, near
from harness.rules import Rules
from harness.trial import Noise, Reading, Status


@dataclass(frozen=True)
class Proof:
    """For one bench and the study on its recorder."""

    bench: Bench

    @property
    def _study(self) -> Study:
        return self.bench.recorder.study

    @property
    def baseline(self) -> Reading | None:
        """The baseline's audited reading, once trial 0 is settled."""
        row = self._study.baseline
        return row.readings[0] if row and row.readings else None

    def rehearsed(self, rules: Rules, parents: Mapping[str, str], files: Mapping[str, str]) -> bool:
        """Whether nothing more is due before the training of the current trial."""
        row = self._study.current
        assert row is not None, "asked inside a trial"
        due = self.bench.evaluator.audits and auditing.rehearsal_due(rules, self.baseline, _model_changed(parents, files))
        if not due or row.rehearsal is not None or row.readings:
            return True
        return self.bench.rehearse(row, files, rules)

    def complete(self, rules: Rules, sigma: Noise, files: Mapping[str, str], cpu_cap: float | None) -> bool:
        """Whether the readings of the current trial are all that its verdict needs."""
        row = self._study.current
        assert row is not None, "asked inside a trial"
        if not row.readings or not self._promises(rules, sigma, cpu_cap):
            return True
        if rules.audit.positions and self.bench.evaluator.audits and row.readings[0].audit is None:
            kept = max(0, self._study.counts.get(Status.KEEP.value, 0) - 1)
            wanted, allowed = auditing.positions(rules, kept) if row.trial else rules.audit.positions, auditing.tolerance(self.baseline)
            if not self.bench.audit(row, row.readings[0], files, rules, wanted, allowed):
                return False
        return self._confirmed(rules, sigma, files, cpu_cap)

    def _promises(self, rules: Rules, sigma: Noise, cpu_cap: float | None) -> bool:
        """Whether the first reading would be kept as it stands; the baseline's is when it is believed."""
        row, bar = self._study.current, self._study.bar
        assert row is not None, "asked inside a trial"
        if row.trial == 0:
            return judge.disbelieved(rules, row.readings[0], None) is None
        assert bar is not None, "candidates come after the baseline"
        return judge.judge(rules, bar, row.readings[0], sigma, row.change, self.baseline, cpu_cap).status is Status.KEEP

    def _confirmed(self, rules: Rules, sigma: Noise, files: Mapping[str, str], cpu_cap: float | None) -> bool:
        row, bar = self._study.current, self._study.bar
        assert row is not None, "asked inside a trial"
        if row.trial == 0 or bar is None or not self._promises(rules, sigma, cpu_cap):
            return True
        first = row.readings[0]
        gain = abs((first.value or 0.0) - bar.ref)
        if not auditing.implausible(rules, gain, bar.ref, sigma.sigma):
            return True
        done = next((reading for reading in row.readings[1:] if reading.measurement or reading.fault), None)
        again = done or self.bench.take(row, first.replicate + 1, files, rules, cpu_cap)
        return again is not None and not self.bench.void(again)


def _model_changed(parents: Mapping[str, str], files: Mapping[str, str]) -> bool:
    """Whether an edit changes more than the values of constants: those without a name or a call in them."""
    for name, text in files.items():
        assigned = duplicates.assignments(duplicates.parse(text, name))
        plain = {constant for constant, value in assigned if not any(isinstance(node, ast.Name | ast.Lambda) for node in ast.walk(value))}
        if near.changed_symbols(parents.get(name, ""), text) - plain:
            return True
    return False
