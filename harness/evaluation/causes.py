"""What is done about a failure, by the code of its cause: one table for every reason code that a verdict, a refusal or a call of a model can carry. Pure.

Retry does the same act once more, because the fault passes. Replan gives the path up: the next proposal starts from the incumbent. Reflection puts an evidenced
finding before the next proposer. Correction repairs a defect within a bounded scope. Escalation asks a person. A code without a row is an uncertain finding:
nothing is repaired for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from harness.followups import ErrorType, Mechanism

NO_TRUTH = "missing_ground_truth"
OUT_OF_SCOPE = "repair_out_of_scope"
NOT_VERIFIED = "repair_not_verified"
CHECK_LOST = "check_lost"


class Cause(NamedTuple):
    """The act, and the type of error it answers."""

    mechanism: Mechanism
    error_type: ErrorType


_ROWS: tuple[tuple[Mechanism, ErrorType, str], ...] = (
    # The machine, the network or the server: the same again may help.
    (Mechanism.RETRY, "transient", """
        infrastructure interrupted suspended device_shared device_lost metric_error claims_changed rate_limited overloaded server_error timeout conflict
        too_early closed no_message broken_stream unreachable reset lost time"""),
    # A path that leads nowhere: something else comes next.
    (Mechanism.REPLAN, "regression", f"{CHECK_LOST} not_better not_worth_its_lines no_effect not_confirmed no_headroom"),
    (Mechanism.REPLAN, "resource", "setup training compute_cap evaluation agent_timeout agent_silent calls tokens dollars retries limit too_large prompt_too_long"),
    (Mechanism.REPLAN, "data", "duplicate near_duplicate replication no_change seed_only edit_failed"),
    (Mechanism.REPLAN, "policy", "out_of_scope banned approval over_correction blind_retry no_ticket"),
    (Mechanism.REPLAN, "refusal", "refusal no_model bad_request unknown_stop no_submit question turns cut_off malformed failed_calls own_proposer no_agent no_file"),
    # A finding against what was promised, with its evidence.
    (Mechanism.REFLECTION, "schema", "protocol no_steps checkpoint not_finite negative_loss short_answer empty too_big characters syntax literal contract"),
    (Mechanism.REFLECTION, "policy", f"looks_ahead audit scorer_time implausible checkpoint_changed {OUT_OF_SCOPE} {NOT_VERIFIED}"),
    # A defect of the candidate that a small edit may mend.
    (Mechanism.CORRECTION, "code", "exit_code late_failure no_result load_failed scorer_died"),
    (Mechanism.CORRECTION, "resource", "memory_limit out_of_memory killed"),
    # Nothing that code may decide.
    (Mechanism.ESCALATION, "missing_ground_truth", f"{NO_TRUTH} file_changed"),
    (Mechanism.ESCALATION, "policy", "secret auth billing forbidden spend_limit no_endpoint settings"),
)  # fmt: skip
TABLE: Mapping[str, Cause] = {code: Cause(mechanism, kind) for mechanism, kind, codes in _ROWS for code in codes.split()}
PASSED = frozenset({"better", "baseline", "equal_and_shorter", "answered"})  # codes of what did not fail
MEMORY = frozenset(code for code, cause in TABLE.items() if cause == Cause(Mechanism.CORRECTION, "resource"))


def of(reason: str) -> Cause | None:
    """The row of a reason code; `None`: nobody knows what it means, so nothing may be repaired for it."""
    return TABLE.get(reason)
