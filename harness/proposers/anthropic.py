"""A model over the Messages API: one conversation a proposal, with an editor in memory, look-ups on the study, and a strict `submit`. No shell.

Made of: the wire (one request, `wire.py`), the asking (money, records, retries, `asking.py`), the dialogue (what an answer leads to, `dialogue.py`) and the tools
(`toolbox.py`). Here: which model is asked, and what a proposal is made of.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from harness.artifacts import durable
from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.errors import ModelUnavailable, ProposalRefused
from harness.execution.clock import Clock
from harness.proposers import account
from harness.proposers.asking import NAME, Asking, Sender, unavailable
from harness.proposers.dialogue import Dialogue
from harness.proposers.editor import Editor
from harness.proposers.exchange import in_a_line
from harness.proposers.fates import Fate, Reply
from harness.proposers.lookups import Lookups
from harness.proposers.metering import Meter
from harness.proposers.protocol import Briefing
from harness.proposers.secret import Secrets
from harness.proposers.toolbox import DEFINITIONS, Submission, Toolbox
from harness.proposers.wire import KEYS
from harness.rules import Rules
from harness.trial import Change, Proposal

LONG_CACHE = {"type": "ephemeral", "ttl": "1h"}
SAME_ACCOUNT = frozenset({"unreachable", "no_message", "reset"})
MOST_REFUSALS = 2
REST_SECONDS = 300.0
HOW = """
# How to send it

You have an editor for the files in scope, look-ups on everything that was tried, and submit, which hands the edited files in and ends your work. There is no shell and
nothing can be run. Nobody answers questions: decide yourself. Look things up before you repeat an idea. Edit first, then call submit once. What is refused before any
device time (the same program again, a file that does not compile) is answered with the reason: correct it and submit again.
"""


class _NextModel(Exception):
    """This model will not bring the proposal; `end` is what to raise when no other is left."""

    def __init__(self, end: ProposalRefused | ModelUnavailable) -> None:
        super().__init__(str(end))
        self.end = end


class _Rest:
    """A model that is not asked for a while: until the stated time, `REST_SECONDS` after an outage, for ever when the server does not have it."""

    def __init__(self, end: ModelUnavailable, now: datetime) -> None:
        self.end = end
        ever = now + timedelta(days=3650)
        self.until = end.until or (now + timedelta(seconds=REST_SECONDS) if end.backoff else ever)

    def due(self, now: datetime) -> bool:
        """Whether it may be asked again."""
        return now >= self.until


class Anthropic:
    """The proposer that asks a model. `check` says whether a proposal would be admitted, before it is handed in."""

    name = NAME
    reads = True

    def __init__(
        self, rules: Rules, folder: StudyDir, meter: Meter, study: Callable[[], Study], check: Callable[[Proposal], Change],
        interrupted: Callable[[], str], clock: Clock, sender: Sender | None = None,
    ) -> None:  # fmt: skip
        self._rules, self._law, self._folder = rules, rules.model, folder
        self._meter, self._study, self._check = meter, study, check
        self._interrupted, self._clock = interrupted, clock
        self._sender = sender
        self._prices = account.price_list(rules.model)
        self._secrets = Secrets({"key": account.key(rules.model) or "", **{name: os.environ.get(name, "") for name in KEYS}})
        self._away: dict[str, _Rest] = {}

    def propose(self, briefing: Briefing) -> Proposal:
        """What a model of the list submitted; `ProposalRefused` when it brought nothing, `ModelUnavailable` when it cannot be asked now."""
        assert briefing.page is not None, "it reads"
        folder = self._opened(briefing)
        asking = Asking(
            self._wire(), self._meter, self._prices, self._law, folder, briefing.number, self._interrupted, self._clock, self._secrets
        )
        try:
            return self._first_of(briefing, asking)
        except (ProposalRefused, ModelUnavailable) as fault:
            fault.args = (self._secrets.hide_text(str(fault)),)
            if isinstance(fault, ProposalRefused):
                fault.cost_usd = asking.spent.cost_usd
            raise

    def _first_of(self, briefing: Briefing, asking: Asking) -> Proposal:
        """Of the models in their order; what one of them refused is shown to one other at most."""
        refusals: list[ProposalRefused] = []
        names = self._law.names
        for model in (*names[1:], names[0]) if briefing.rung == "other_model" else names:
            if model in self._away and not self._away[model].due(self._clock.now()):
                continue
            try:
                return self._converse(model, briefing, asking)
            except _NextModel as next_model:
                if isinstance(next_model.end, ModelUnavailable):
                    self._away[model] = _Rest(next_model.end, self._clock.now())
                else:
                    refusals.append(next_model.end)
            if len(refusals) == MOST_REFUSALS:
                break
        if refusals:
            raise refusals[-1]
        raise min((rest for rest in self._away.values()), key=lambda rest: rest.until).end

    def _converse(self, model: str, briefing: Briefing, asking: Asking) -> Proposal:
        editor = Editor(briefing.files)
        toolbox = Toolbox(editor, Lookups(self._study, self._folder, self._rules))
        refused: list[Proposal] = []

        def proposal(told: Submission) -> Proposal:
            return self._proposal(briefing, editor, told, model, asking)

        def vet(told: Submission) -> str:
            one = proposal(told)
            try:
                self._check(one)
            except ProposalRefused as refusal:
                refused.append(one)
                return str(refusal)
            return ""

        assert briefing.page is not None, "it reads"
        dialogue = Dialogue(briefing.page.changing, editor, toolbox, vet)
        for _ in range(self._law.turns):
            reply = asking.ask(self._body(model, briefing.page.stable, dialogue))
            self._must_be_an_answer(model, reply)
            told = dialogue.take(reply)
            if told is not None:
                return proposal(told).model_copy(update={"model": reply.model or model})
        if refused:
            return refused[-1]  # as it was handed in: the guard refuses it once more, for the record
        raise ProposalRefused("turns", f"{self._law.turns} answers ([model] turns) brought no proposal")

    def _must_be_an_answer(self, model: str, reply: Reply) -> None:
        """Everything but an answer to go on from leaves the conversation."""
        said = f"{model}: {reply.detail or reply.reason}"
        if reply.fate is Fate.INTERRUPTED:
            raise ProposalRefused("interrupted", said)
        if reply.fate is Fate.REFUSED:
            raise _NextModel(ProposalRefused("refusal", f"the model refused: {said}"))
        if reply.fate is Fate.NEXT_MODEL:
            raise _NextModel(ModelUnavailable(reply.reason, said))
        if reply.fate is Fate.BAD_REQUEST:
            raise ProposalRefused(reply.reason, f"the server does not take the request: {said}")
        if reply.fate in (Fate.RETRY, Fate.WAIT) and reply.reason not in SAME_ACCOUNT:
            raise _NextModel(unavailable(reply, self._clock))
        if reply.fate in (Fate.RETRY, Fate.WAIT, Fate.STOP):
            raise unavailable(reply, self._clock)

    def _body(self, model: str, stable: str, dialogue: Dialogue) -> dict[str, Any]:
        """The prefix of tools and system is the same to the byte from call to call; the study comes last."""
        effort = {"output_config": {"effort": self._law.effort}} if self._law.effort else {}
        system = [{"type": "text", "text": stable + HOW, "cache_control": LONG_CACHE}]
        return {
            "model": model, "max_tokens": self._law.max_tokens, "tools": list(DEFINITIONS), "system": system, "messages": dialogue.messages(), **effort,
        }  # fmt: skip

    def _proposal(self, briefing: Briefing, editor: Editor, told: Submission, model: str, asking: Asking) -> Proposal:
        files: dict[str, str | None] = dict(editor.changed())
        facts = {name: self._secrets.hide_text(text) for name, text in told.model_dump(exclude={"replication_of"}).items()}
        if self._secrets.found_in(text or "" for text in files.values()):
            raise ProposalRefused("secret", "the model wrote the key into a file; nothing of it was taken")
        return Proposal(
            id=briefing.number, parent=briefing.incumbent, **facts, edit=in_a_line(briefing.files, files), files=files, proposer=NAME, model=model,
            replicates=told.replication_of, usage=asking.spent.usage, cost_usd=asking.spent.cost_usd,
        )  # fmt: skip

    def _opened(self, briefing: Briefing) -> Path:
        folder = self._folder.agents / f"{briefing.number:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        assert briefing.page is not None, "it reads"
        durable.replace(folder / "prompt.md", self._secrets.hide((briefing.page.text() + HOW).encode("utf-8", "replace")))
        return folder

    def _wire(self) -> Sender:
        if self._sender is None:
            self._sender = account.connect(self._law)
        return self._sender
