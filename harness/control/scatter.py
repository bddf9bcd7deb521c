"""The noise of a study's readings, from its device, its rules and its journal."""

from __future__ import annotations

from harness.artifacts.study import Study
from harness.evaluation import noise
from harness.rules import Rules
from harness.trial import Noise


def _device(study: Study) -> str:
    assert study.started is not None, "a night begins with study_started"
    return study.started.environment.device


def _prior(study: Study, rules: Rules) -> noise.Prior:
    value = study.baseline.value if study.baseline else None
    return noise.prior(_device(study), rules.trial.clock, value, rules.keep.prior_sigma)


def baseline_readings(study: Study, rules: Rules) -> int:
    """How many readings the baseline gets."""
    return rules.keep.baseline_readings or _prior(study, rules).baseline_readings


def sigma(study: Study, rules: Rules) -> Noise:
    """The scatter of one reading as it is known now."""
    return noise.estimate(_prior(study, rules), study.rereadings.values())


def paired(study: Study, rules: Rules) -> bool:
    """Whether the same seed gives the same reading again."""
    return noise.paired(_device(study), rules.trial.clock, rules.run.threads)
