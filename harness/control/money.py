"""What models may still use, and whether one more call fits. Pure: values in, values out.

Every limit is checked against an upper estimate before the call. What is not known does not pass: a call without a price cannot be made under a limit in
dollars alone.
"""

from __future__ import annotations

from typing import Any

from harness.artifacts.call_events import Estimate
from harness.artifacts.calls import Calls
from harness.control.limits import Limits


def left(calls: Calls, allowed: Limits) -> dict[str, Any]:
    """The counters of `BudgetLeft` that are for models; calls in flight count by their upper estimates."""
    return {
        "calls": None if allowed.calls is None else max(0, allowed.calls - calls.made),
        "tokens": None if allowed.tokens is None else max(0, allowed.tokens - calls.tokens - calls.held_tokens),
        "dollars": None if allowed.dollars is None else max(0.0, round(allowed.dollars - calls.charged_usd - calls.held_usd, 6)),
        "retries": None if allowed.retries is None else max(0, allowed.retries - calls.retries),
    }


def refusal(calls: Calls, allowed: Limits, estimate: Estimate) -> tuple[str, str] | None:
    """Which limit the next call would pass, with a sentence; `None` when it may be made."""
    rest = left(calls, allowed)
    if estimate.proposer == "anthropic" and rest["calls"] is rest["tokens"] is rest["dollars"] is None:
        return "limit", "no limit is left on what a model may use; set dollars, tokens or calls in [stop]"
    if rest["calls"] == 0:
        return "calls", f"all {allowed.calls} calls of models are used ([stop] calls)"
    if estimate.retry and rest["retries"] == 0:
        return "retries", f"all {allowed.retries} retries are used ([stop] retries)"
    if rest["tokens"] is not None and (estimate.tokens is None or estimate.tokens > rest["tokens"]):
        most = "an unknown number" if estimate.tokens is None else f"up to {estimate.tokens:,}"
        return "tokens", f"{rest['tokens']:,} of {allowed.tokens:,} tokens are left and the next call may use {most} ([stop] tokens)"
    if rest["dollars"] is not None and estimate.dollars is not None and estimate.dollars > rest["dollars"]:
        return (
            "dollars",
            f"{rest['dollars']:.4f} of {allowed.dollars:g} dollars are left and the next call may cost {estimate.dollars:.4f} ([stop] dollars)",
        )
    if rest["dollars"] is not None and estimate.dollars is None and rest["tokens"] is None:
        return (
            "dollars",
            f"the price of {estimate.model or estimate.proposer} is unknown, so [stop] dollars cannot hold it; set its price, or [stop] tokens too",
        )
    return None
