"""The proposers of a night by name: made when first asked for, made anew after an edit of their tables in program.md."""

from __future__ import annotations

from collections.abc import Callable

from harness.errors import ModelUnavailable, UserFault
from harness.proposers.protocol import Proposer
from harness.rules import Rules
from harness.sections import Section


class Staff:
    """`make(name, rules)` builds one; an edit that does not let it be built leaves the earlier one at work, and is said through `warn`."""

    def __init__(self, make: Callable[[str, Rules], Proposer], warn: Callable[[str], None]) -> None:
        self._make, self._warn = make, warn
        self._made: dict[str, tuple[tuple[Section, ...], Proposer]] = {}
        self._said = ""

    def get(self, name: str, rules: Rules) -> Proposer:
        """The proposer under the rules in force; `ModelUnavailable` when it cannot be built."""
        law = (rules.proposer, rules.model)
        before = self._made.get(name)
        if before and before[0] == law:
            return before[1]
        try:
            made = self._make(name, rules)
        except UserFault as fault:
            if before is None:
                raise ModelUnavailable("settings", str(fault)) from None
            if str(fault) != self._said:
                self._warn(f"{fault}; {name} goes on as before")
            self._said = str(fault)
            return before[1]
        self._made[name], self._said = (law, made), ""
        return made
