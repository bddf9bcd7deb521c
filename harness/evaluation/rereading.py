"""When the incumbent is measured again, and what the bar rests on then. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.rules import Rules
from harness.trial import Bar

MOST_REREADINGS = 4


def remeasure_due(rules: Rules, bar: Bar, rereadings: int) -> bool:
    """Whether the incumbent should be measured again: long without a keep, and not often already. Never where readings are paired: with the same
    seed it would read the same, with another one it would be no pair of the candidates.
    """
    after = rules.keep.remeasure_incumbent_after
    return after is not None and bar.since >= after and rereading_tells(rules, bar, rereadings)


def rereading_tells(rules: Rules, bar: Bar, rereadings: int) -> bool:
    """Whether another reading of the incumbent says anything that counts."""
    return rules.keep.rule == "debiased" and not bar.paired and rereadings < MOST_REREADINGS


def after_remeasuring(values: Sequence[float]) -> Bar:
    """The bar from the incumbent's unselected readings."""
    return Bar(ref=math.fsum(values) / len(values), readings=len(values))
