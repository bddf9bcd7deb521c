"""When an agent brought no edit: whether its own record says that no call of it can succeed now. Pure: the record's words in, a reason out.

Only the fault that the record itself names counts, never what the agent said in its message. A lie costs the agent its turns, nobody else anything.
"""

from __future__ import annotations

import re

SIGNS = (
    ("auth", re.compile(r"\b401\b|unauthori[sz]ed|(invalid|missing|incorrect) (x-)?api.?key|authentication|not logged in|please (run )?/?login", re.IGNORECASE)),
    ("billing", re.compile(r"\b402\b|quota|credit balance|usage limit|spend(ing)? limit|\bbilling\b", re.IGNORECASE)),
    ("rate_limited", re.compile(r"\b429\b|too many requests|rate.?limit", re.IGNORECASE)),
    ("overloaded", re.compile(r"\b529\b|overloaded", re.IGNORECASE)),
)  # fmt: skip
FOR_A_PERSON = frozenset({"auth"})  # the others pass by themselves


def of(fault: str) -> str:
    """`auth`, `billing`, `rate_limited`, `overloaded`, or nothing."""
    return next((reason for reason, sign in SIGNS if sign.search(fault)), "")
