"""Whose turn it is in the study at hand (turns.py decides), and who had no more ideas on the present incumbent."""

from __future__ import annotations

from collections.abc import Callable

from harness.artifacts.study import Study
from harness.control import stall, turns
from harness.control.turns import Turn
from harness.execution.clock import Clock
from harness.rules import Rules
from harness.trial import Stop


class Rota:
    """The turns of one study. `dry_on` has, by proposer, the commit and the rules (their digest) on which it had no more ideas; others may give it some."""

    def __init__(self, study: Callable[[], Study], clock: Clock) -> None:
        self._study, self._clock = study, clock
        self.dry_on: dict[str, tuple[str, str]] = {}

    def turn(self, rules: Rules) -> Turn | None:
        """Whose turn it is; `None`: nobody's now."""
        study, dry = self._study(), self._dry()
        shared = stall.shifted(turns.shares(study, rules), rules.model.names, study.ladder.rung, {*study.calls.away, *dry})
        return turns.turn(study, rules, shared, dry)

    def stop(self, rules: Rules, seconds: float | None) -> Stop | None:
        """Whether nobody is left to propose; `seconds` are what is left of the night."""
        return turns.stop(self._study(), rules, turns.shares(self._study(), rules), seconds, self._clock.now(), self._dry())

    def due_back(self) -> list[str]:
        """Whose absence is over."""
        return turns.due_back(self._study().calls, self._clock.now())

    def absent(self) -> set[str]:
        """Who cannot propose now: away for longer, or without more ideas."""
        return {*self._study().calls.away}.difference(self.due_back()) | self._dry()

    def replicating(self, rules: Rules) -> bool:
        """Whether the model is away and program.md wants replications meanwhile."""
        turn = self.turn(rules)
        return rules.proposer.meanwhile == "replicate" and turn is not None and bool(turn.stands_for)

    def _dry(self) -> set[str]:
        incumbent, digest = self._study().incumbent, self._study().rules_digest
        return {name for name, dry in self.dry_on.items() if incumbent is not None and dry == (incumbent.commit, digest)}
