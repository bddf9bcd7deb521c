"""Repairs in `ratchet status`: the order that is being carried out, and how the last one was verified."""

from __future__ import annotations

from typing import Any

from harness.artifacts.study import Study
from harness.followups import Ticket
from harness.views.text import flatten


def _order(study: Study) -> Ticket | None:
    """The ticket that waits, or the one of the repair that runs."""
    running = study.current is not None and study.current.repairs is not None
    return study.repairs.orders.get(study.current.trial) if study.current and running else study.repairs.ticket


def facts(study: Study) -> dict[str, Any]:
    """For programs: the open ticket and the last verification, each `None` when there is none."""
    order, last = _order(study), study.watch.verified
    return {
        "made": study.repairs.made,
        "ticket": {"trial": order.trial, "failed_check": flatten(order.failed_check, 200), "repair": flatten(order.repair, 300)} if order else None,
        "verified": {"trial": last.trial, "repairs": last.repairs, "outcome": last.verification.outcome.value} if last else None,
    }  # fmt: skip


def status_lines(study: Study) -> list[str]:
    """One line on what is being repaired, one on the last verification; none where there is nothing to say."""
    order, last, lines = _order(study), study.watch.verified, []
    if order is not None:
        lines.append(f"  repairing  trial {order.trial}: {flatten(order.failed_check, 100)}; {flatten(order.repair, 160)}")
    if last is not None:
        found = last.verification
        why = f" ({flatten(found.detail, 160)})" if found.detail else ""
        lines.append(f"  repaired   trial {last.repairs} by trial {last.trial}: {found.outcome.value.replace('_', ' ')}{why}")
    return lines
