"""The stall ladder: what is tried when nothing is kept. Every step is journalled with its reason; when it is due is decided in `stall.py`.

A question comes before its step in the journal, so that a kill in between asks nobody twice: the inbox knows its key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from harness.artifacts.oversight_events import Climbed
from harness.artifacts.study import Study
from harness.control import stall, turns
from harness.control.inbox import Inbox
from harness.control.recorder import Recorder
from harness.control.stall import Reach
from harness.errors import ModelUnavailable, ProposalRefused
from harness.proposers import nearmiss
from harness.proposers.fence import clean, cut, flat
from harness.questions import Option
from harness.rules import Rules

Overlooked = Callable[[Study, Rules], str | None]
NO_CRITIC = "no reviewer's model can be asked in this study"
TOLD_BYTES = 4096
GO_ON, STOP = "go_on", "stop"


class Ladder:
    """The ladder of one study. `overlooked` asks the reviewer's model what was overlooked; it raises `ModelUnavailable` or `ProposalRefused` when it has no
    answer, and gives `None` when this is not the time to ask.
    """

    def __init__(self, recorder: Recorder, inbox: Inbox, overlooked: Overlooked | None = None) -> None:
        self._recorder, self._inbox, self._overlooked = recorder, inbox, overlooked

    def climb(self, rules: Rules, absent: Collection[str] = ()) -> None:
        """Take the step that is due, if one is; past rungs that can do nothing to the first that can. `absent`: proposers that are away or have no more ideas."""
        self._moot()
        while stall.is_due(self._study.ladder, rules.stall):
            step = stall.due(self._study.ladder, rules.stall, self._reach(rules, absent))
            assert step is not None, "is_due said so"
            if step.rung == "critic" and not step.passed_over:
                step = self._criticised(step, rules)
            if step is None:
                return
            if step.rung == "ask" and not step.passed_over:
                self._ask(rules)
            self._recorder.emit(step)

    def _moot(self) -> None:
        """A question about a stall that a keep has ended needs no answer. Asked of the fold each time, so that a kill in between loses nothing."""
        best = self._study.incumbent
        for question in [one for one in self._study.inbox.open.values() if one.kind == "stalled"]:
            if best is not None and question.trial != best.trial:
                self._inbox.moot(question.key, f"trial {best.trial} was kept since; the stall is over")

    @property
    def _study(self) -> Study:
        return self._recorder.study

    def _reach(self, rules: Rules, absent: Collection[str]) -> Reach:
        shares, models = turns.shares(self._study, rules), rules.model.names
        return Reach(
            proposers=tuple(shares), near_misses=len(nearmiss.near_misses(self._study, self._recorder.folder, rules.scope.editable)),
            other_model=stall.other_model(shares, models, absent), absent=stall.other_model(shares, models), critic="" if self._overlooked else NO_CRITIC,
        )  # fmt: skip

    def _criticised(self, step: Climbed, rules: Rules) -> Climbed | None:
        """The step with what the reviewer's model says, or past it with the reason why it says nothing; `None` when it is to be asked later."""
        assert self._overlooked is not None, "a rung without a reviewer is passed over"
        try:
            said = self._overlooked(self._study, rules)
        except (ModelUnavailable, ProposalRefused) as fault:
            return step.model_copy(update={"passed_over": True, "why": f"the reviewer's model brought nothing: {flat(str(fault), 300)}"})
        if said is None:
            return None
        told = cut(clean(said), TOLD_BYTES).strip()
        if not told:
            return step.model_copy(update={"passed_over": True, "why": "the reviewer's model had nothing to say"})
        return step.model_copy(update={"told": told})

    def _ask(self, rules: Rules) -> None:
        ladder, incumbent = self._study.ladder, self._study.incumbent
        trial = incumbent.trial if incumbent else 0
        tried = ", ".join(ladder.climbed) or "nothing"
        self._inbox.ask(
            rules, kind="stalled", key=f"stalled:{trial}:{self._study.row_count}",
            candidate=f"trial {trial}, the incumbent" if trial else "the baseline", trial=trial,
            evidence=(f"{ladder.drought} measured trials since the last keep", f"rungs of the stall ladder so far: {tried}"),
            impact="The device goes on training, and nothing has been gained for a while.",
            options=(
                Option(id=GO_ON, effect="the study goes on as program.md says"),
                Option(id=STOP, effect="the study stops; `ratchet resume` goes on"),
            ),
            default=GO_ON, blocks="nothing", repairs=tuple(ladder.steps[-8:]),
        )  # fmt: skip
