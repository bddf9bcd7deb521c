"""What a night may ask of models beside the proposals: reviews of would-be keeps, and the critic of the stall ladder. Upper bounds, by the price list."""

from __future__ import annotations

from collections.abc import Mapping

from harness.control import tariffs
from harness.control.tariffs import Aside
from harness.proposers import account, advice, reviewer
from harness.rules import Rules
from harness.trial import OFFLINE

STANDING_BYTES = 8 * 1024  # of a review: its standing words, criteria and rules
TRIED_BYTES = 12 * 1024  # of the critic's page: all but the files


def asks_server(rules: Rules, shares: Mapping[str, float]) -> bool:
    """Whether a model is asked over the wire, for proposals or for reviews."""
    return "anthropic" in shares or rules.review.asked_for


def of(rules: Rules, shares: Mapping[str, float], trials: float | None, files: Mapping[str, str]) -> list[Aside]:
    """At most so many of each; `trials` is the most that the night has, `files` the texts in scope. Nothing that no rule asks for."""
    law, found = reviewer.law(rules), list[Aside]()
    price, most = account.price_list(rules.model).of(law.names[0]), None if trials is None else int(trials)
    if rules.review.asked_for:
        count = rules.review.in_all if most is None else min(rules.review.in_all, most)
        which = "[review] in_all" if count == rules.review.in_all else "one a trial"
        found.append(tariffs.aside("reviews", law, price, reviewer.MOST_DIFF_BYTES + STANDING_BYTES, count, which))
    after = rules.stall.after
    if "critic" in rules.stall.rungs and after is not None and set(shares) - OFFLINE:
        size = min(advice.FILES_BYTES, sum(len(text.encode()) for text in files.values())) if files else advice.FILES_BYTES
        droughts = None if most is None else most // after
        found.append(tariffs.aside("critic", law, price, size + TRIED_BYTES, droughts, f"one in each {after:,} trials without a keep"))
    return found
