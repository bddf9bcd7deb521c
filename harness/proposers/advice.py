"""What a reviewer's model says was overlooked: one fresh request on the goal, the files and what was tried. Advice in words; it edits and decides nothing.

Request and reply lie below `agents/critic-NNNNNN/`, by the number of trials then, without keys. An answer that a kill left there is read, not asked for again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.errors import ModelUnavailable, ProposalRefused, UserFault
from harness.execution.clock import Clock
from harness.proposers import account, fence, reviewer, tried
from harness.proposers.asking import Asking, unavailable
from harness.proposers.fates import Fate, Reply
from harness.proposers.fence import Data, clean, cut, flat
from harness.proposers.metering import Meter
from harness.proposers.secret import Secrets
from harness.proposers.wire import KEYS
from harness.rules import Rules
from harness.sections import Model

MOST_CUT_OFF = 2  # a third try would be cut off, too
FILES_BYTES = 60_000
WORDS = 200
USABLE = frozenset({Fate.ANSWERED, Fate.CUT_OFF})  # half an advice is one
AGAIN = frozenset({Fate.RETRY, Fate.WAIT})
SYSTEM = f"""You look at a search that stands still: one program is changed again and again, each change is trained and measured, and nothing has been kept for a while. \
You see the goal, the files as they are now, and what was tried with what came of it. Say what has been overlooked: parts of the program that nobody turned, ideas that \
failed for another reason than they were given up for, assumptions that all trials share, combinations that are missing. Name constants, functions and numbers. \
You edit nothing, and nothing that you say is carried out as it stands: others judge it. At most {WORDS} words, plain text, the strongest point first.
"""


def page(study: Study, rules: Rules, files: Mapping[str, str]) -> str:
    """The message; bounded, whatever the night's length. `files` are those in scope as the incumbent has them."""
    pieces: list[str | Data] = [
        "# The goal",
        f"{rules.metric.name}, {rules.metric.direction} is better.",
        "# What was tried",
        *tried.tried(study),
    ]
    pieces += [
        "# What was refused",
        *tried.refused(study),
        *tried.untried(study, files),
        "# The files that may be changed, as they are now",
    ]
    left = FILES_BYTES
    for path, text in files.items():
        shown = cut(clean(text), left) if left else ""
        left = max(0, left - len(shown.encode()))
        pieces.append(Data(path, shown) if shown else f"{path} is left out: it is too long, or empty.")
    return fence.join([*pieces, "What has been overlooked?"])


def body(model: Model, words: str) -> dict[str, Any]:
    """The request; it has no tools."""
    return {
        "model": model.names[0], "max_tokens": model.max_tokens, "system": [{"type": "text", "text": SYSTEM}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": words}]}],
    }  # fmt: skip


class Adviser:
    """Asks under the rules of the moment."""

    def __init__(self, rules: Rules, folder: StudyDir, meter: Meter, interrupted: Callable[[], str], clock: Clock) -> None:
        self._rules, self._law, self._folder, self._meter = rules, reviewer.law(rules), folder, meter
        self._interrupted, self._clock = interrupted, clock

    def overlooked(self, study: Study, files: Mapping[str, str], limited: frozenset[str]) -> str | None:
        """The answer, clean and uncut; `None` when it was interrupted. `limited` names the limits of [stop] that are set. Raises `ModelUnavailable` or
        `ProposalRefused` when there is no answer to be had.
        """
        into = self._folder.agents / f"critic-{study.row_count:06d}"
        secrets = Secrets({name: os.environ.get(name, "") for name in (*KEYS, self._law.key or KEYS[0])})
        if (stored := self._stored(into)) is not None:
            return self._heard(stored, secrets)
        try:
            account.check(self._law, limited)
            account.preflight(self._law, self._interrupted)  # without a key nothing is announced
            wire = account.connect(self._law)
        except UserFault as fault:
            raise ModelUnavailable("settings", str(fault)) from fault
        with closing(wire):
            asking = Asking.once(wire, self._meter, self._law, into, study.proposals, self._interrupted, self._clock, secrets)
            return self._heard(asking.ask(body(self._law, secrets.hide_text(page(study, self._rules, files)))), secrets)

    def _heard(self, reply: Reply, secrets: Secrets) -> str | None:
        if reply.fate is Fate.INTERRUPTED:
            if self._interrupted():
                return None
            raise ModelUnavailable("timeout", f"it took longer than {self._law.wall_seconds:g} s ([review] wall_seconds)")
        if reply.fate in USABLE:
            said = "\n".join(str(block.get("text", "")) for block in reply.content if block.get("type") == "text")
            return secrets.hide_text(clean(said))
        if reply.fate is Fate.REFUSED:
            raise ProposalRefused("refusal", flat(reply.detail, 300) or "it refused")
        raise unavailable(reply, self._clock)

    def _stored(self, into: Path) -> Reply | None:
        """What a harness that was killed had been told; `None` when it is to be asked. Raises `ModelUnavailable` when it was cut off too often."""
        requests = sorted(into.glob("*.request.json"))
        replies = [_reply(path.with_name(path.name.replace(".request.", ".reply."))) for path in requests]
        if replies and replies[-1] is not None and replies[-1].fate not in AGAIN | {Fate.INTERRUPTED}:
            return replies[-1]
        if sum(reply is None or reply.fate is Fate.INTERRUPTED for reply in replies) >= MOST_CUT_OFF:
            raise ModelUnavailable("lost", f"it was asked {MOST_CUT_OFF} times and cut off each time")
        return None


def _reply(path: Path) -> Reply | None:
    """A stored reply, or `None` when there is none that can be read."""
    try:
        told = json.loads(path.read_bytes())["reply"]
        return Reply(**{**told, "fate": Fate(told["fate"]), "content": tuple(told["content"])})
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
