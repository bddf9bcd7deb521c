"""What only a person can give a model: a key that is taken, money, a right. She is asked once for each lack; `[proposer] meanwhile` says what goes on without her."""

from __future__ import annotations

from harness.artifacts.inbox import ASK_AGAIN
from harness.control.inbox import Inbox
from harness.evaluation import causes
from harness.followups import Mechanism
from harness.questions import Kind, Option
from harness.rules import Rules

AGAIN = Option(id=ASK_AGAIN, effect="you have seen to it: the model is asked again at its next turn")
LEAVE = Option(id="leave", effect="the study goes on as [proposer] meanwhile says")
STOP = Option(id="stop", effect="the study ends")
MONEY = ("billing", "spend_limit")


def follow_up(inbox: Inbox, rules: Rules) -> None:
    """Ask about each model that is away for a person to mend, and about a key that was written into a file; settle what is over."""
    study = inbox.study
    for one in list(study.inbox.open.values()):
        if one.key.startswith("away:") and one.candidate not in {*study.calls.away, *study.calls.outages}:
            inbox.moot(one.key, "it answers again")
    for name, away in study.calls.away.items():
        cause, key = causes.of(away.reason), f"away:{name}:{away.reason}"
        if away.until is None and cause is not None and cause.mechanism is Mechanism.ESCALATION:
            worked = study.calls.recovered.get(name, 0)  # the same lack after it worked again is a new one
            past = worked + study.inbox.times(key, ASK_AGAIN)
            said = f"{name} cannot be asked ({away.reason}): {away.detail}"
            kind: Kind = "responsibility" if away.reason in MONEY else "wider_permission"
            inbox.ask(rules, kind, f"{key}:{past}", name, [away.detail], said, (AGAIN, LEAVE, STOP), LEAVE.id, "nothing")
    before = [one.question.at for one in study.inbox.closed if one.question.key.startswith("secret:")]
    if told := [one.detail for one in study.refusals if one.reason == "secret" and one.at > max(before, default="")]:
        said = "a key came up in a proposal; nothing of it was taken, but look whether the key must be replaced"
        inbox.ask(rules, "responsibility", f"secret:{len(before)}", "", told, said, (LEAVE, STOP), LEAVE.id, "nothing")
