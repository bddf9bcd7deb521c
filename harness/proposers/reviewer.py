"""One independent review: a fresh request with one tool, and what came of it. No history, no other tool, nothing of the proposer's.

What the reviewer sees is made from a `critic.Input` alone. Request and answer lie in the trial's folder as `review.json`, every try below `agents/review-NNNNNN/`, all
without keys. It decides nothing: what is no verdict comes back as `void`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

from harness import __version__
from harness.artifacts import durable
from harness.artifacts.trial_dir import StudyDir
from harness.errors import ModelUnavailable, UserFault
from harness.evaluation import critic_reply
from harness.evaluation.critic import Input
from harness.execution.clock import Clock
from harness.proposers import account, fence
from harness.proposers.asking import Asking, Sender
from harness.proposers.fates import Fate, Reply
from harness.proposers.fence import Data, clean, flat
from harness.proposers.metering import Meter
from harness.proposers.secret import Secrets
from harness.proposers.wire import KEYS
from harness.reviews import Review
from harness.rules import Rules
from harness.sections import Model

TOOL = "verdict"
MOST_DIFF_BYTES = 60_000
TEXT_BYTES, DETAIL_BYTES, DEPTH = 1000, 300, 4
STANDARD = """You review one change of a program. You are not told who made it, why, what is hoped of it, or how it came out, and you need none of that: judge the change \
by the closing criteria and the rules, nothing else. Try to refute it before you let it pass.

Answer with one call of the tool verdict and no other words. `pass` only when you checked every criterion and none speaks against the change; it has no findings, \
answers_owner_words is yes, and `refuted_if` says what would have to be seen to show that you were wrong: of a name in the change, the metric, memory or a number, and never \
that nothing would. `fail` when you can show a fault: where it is, quoted from the change to the letter, what to do, and when it would pass. `uncertain` when you cannot \
tell. That something could be better is no finding. You do not know the rest of the program; what you would have to see there to tell makes you uncertain. Always say what \
can be cut, and whether the change answers the owner's words, which are the criteria.
"""
_TEXT = {"type": "string"}
_FINDING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "code": {**_TEXT, "description": "The kind of fault in one word, such as unused_code or reads_held_out_text."},
        "target": {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["claim", "field", "step", "file", "symbol"]},
                "id": {**_TEXT, "description": "The file or the symbol as it stands in the change; else the claim, field or step."},
            },
            "required": ["kind", "id"],
            "additionalProperties": False,
        },
        "evidence": {"type": "array", "items": _TEXT, "description": "Pieces of lines of the change, to the letter."},
        "message": {**_TEXT, "description": "What is wrong there, in one sentence."},
        "action": {"type": "string", "enum": ["patch_output", "regenerate", "retrieve_again", "replan", "escalate"]},
        "passes_when": {**_TEXT, "description": "What would have to hold for this to pass."},
    },
    "required": ["code", "target", "evidence", "message", "action", "passes_when"],
    "additionalProperties": False,
}
DEFINITION: dict[str, Any] = {
    "name": TOOL,
    "description": "Hands your verdict in. Call it once.",
    "strict": True,
    "input_schema": {
        "type": "object",
        "properties": {
            "verdict": {"type": "string", "enum": ["pass", "fail", "uncertain"]},
            "findings": {"type": "array", "items": _FINDING},
            "checked_criteria": {"type": "array", "items": {"type": "integer"}, "description": "The numbers of the criteria that you checked."},
            "what_can_be_cut": {**_TEXT, "description": "What of the change can be left out; nothing, if nothing can."},
            "answers_owner_words": {"type": "string", "enum": ["yes", "no"], "description": "Does the change answer the owner's words?"},
            "because": {**_TEXT, "description": "Why it answers them, or does not, in one sentence."},
            "refuted_if": {**_TEXT, "description": "What observation, of a name in the change, the metric, memory or a number, would show that this verdict is wrong."},
            "input_sha256": {**_TEXT, "description": "The digest in the last line of the message."},
        },
        "required": ["verdict", "findings", "checked_criteria", "what_can_be_cut", "answers_owner_words", "because", "refuted_if", "input_sha256"],
        "additionalProperties": False,
    },
}  # fmt: skip


def law(rules: Rules) -> Model:
    """`[model]` as it is for a review: one model, its own limits."""
    own = rules.review
    limits = {"max_tokens": own.max_tokens, "wall_seconds": own.wall_seconds}
    return rules.model.model_copy(update={"names": (own.model or rules.model.names[0],), **limits})


def page(given: Input) -> str:
    """The message, made of the input alone."""
    shown = clean(given.diff)
    unseen = [f"{len(given.diff) - len(shown):,} characters of the change that cannot be seen are left out."] if shown != given.diff else []
    numbered = [f"{number}. {_line(text)}" for number, text in enumerate(given.criteria, 1)]
    return fence.join([
        "# The closing criteria", "\n".join(numbered), "# The rules", "\n".join(f"- {_line(text)}" for text in given.floor),
        "# The change, without its comments", *unseen, Data("a unified diff", shown),
    ])  # fmt: skip


def _line(text: str) -> str:
    """One line, whole: what is cut off would not be judged by."""
    return " ".join(clean(text).split())


def digest(given: Input) -> str:
    """SHA-256 of all that a reviewer is shown of an input, the standing words included."""
    return hashlib.sha256(f"{STANDARD}\0{json.dumps(DEFINITION, sort_keys=True)}\0{page(given)}".encode()).hexdigest()


def body(model: Model, given: Input) -> dict[str, Any]:
    """The request."""
    words = f"{page(given)}\nReview this change now. The digest of this input: {digest(given)}"
    return {
        "model": model.names[0], "max_tokens": model.max_tokens, "tools": [DEFINITION], "system": [{"type": "text", "text": STANDARD}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": words}]}],
    }  # fmt: skip


class Reviewer:
    """Asks for reviews under the rules of the moment."""

    def __init__(
        self, rules: Rules, folder: StudyDir, meter: Meter, interrupted: Callable[[], str], clock: Clock, sender: Sender | None = None
    ) -> None:
        self._law, self._folder, self._meter, self._sender = law(rules), folder, meter, sender
        self._interrupted, self._clock = interrupted, clock

    def review(self, given: Input, asked_by: str, proposal: int, trial: int, into: Path) -> Review | None:
        """One review of `given`, kept in the file `into`; `None` when it was interrupted."""
        review = Review(asked_by=asked_by, model=self._law.names[0], input_sha256=digest(given))
        if not given.criteria:
            return _void(review, "no_criteria", "[review] criteria is empty: there is nothing to judge by")
        if not given.diff.strip():
            return _void(review, "empty", "without comments nothing is changed")
        if (size := len(given.diff.encode())) > MOST_DIFF_BYTES:
            return _void(review, "too_large", f"the change has {size:,} bytes, a review takes {MOST_DIFF_BYTES:,}")
        secrets = Secrets({name: os.environ.get(name, "") for name in (*KEYS, self._law.key or KEYS[0])})
        try:
            wire: AbstractContextManager[Sender] = (
                nullcontext(self._sender) if self._sender is not None else closing(account.connect(self._law))
            )
        except UserFault as fault:
            return _void(review, "settings", str(fault))
        with wire as sender:
            return self._asked(sender, secrets, given, review, proposal, trial, into)

    def _asked(self, wire: Sender, secrets: Secrets, given: Input, review: Review, proposal: int, trial: int, into: Path) -> Review | None:
        folder = self._folder.agents / f"review-{trial:06d}"
        asking = Asking.once(wire, self._meter, self._law, folder, proposal, self._interrupted, self._clock, secrets)
        request = body(self._law, given)
        try:
            reply = asking.ask(request)
        except ModelUnavailable as fault:
            return _void(review, fault.reason, secrets.hide_text(str(fault)))
        if reply.fate is Fate.INTERRUPTED and self._interrupted():
            return None
        done = _heard(reply, given, review, secrets).model_copy(update={"cost_usd": asking.spent.cost_usd})
        kept = {"request": request, "content": reply.content, "fate": reply.fate.value, "review": done.model_dump(mode="json")}
        durable.replace(into, secrets.hide(json.dumps(kept, indent=1, ensure_ascii=False).encode("utf-8", "replace")) + b"\n")
        return done


def _heard(reply: Reply, given: Input, review: Review, secrets: Secrets) -> Review:
    if reply.fate is Fate.INTERRUPTED:
        return _void(review, "timeout", "the review took too long")
    if reply.fate is not Fate.ANSWERED:
        return _void(review, reply.reason, reply.detail or reply.reason)
    calls = [block for block in reply.content if block.get("type") == "tool_use"]
    if len(calls) != 1 or calls[0].get("name") != TOOL:
        return _void(review, "prose", "it did not call the tool verdict once, as it was asked to")
    version = f"ratchet {__version__}, {flat(reply.model or review.model, 100)}"
    found = critic_reply.parse(_cleaned(calls[0].get("input"), secrets), given, review.input_sha256, version)
    taken = review.model_copy(update={"result": found.result, "dropped": found.dropped})
    return _void(taken, found.void, found.detail) if found.void else taken


def _void(review: Review, why: str, detail: str) -> Review:
    return review.model_copy(update={"result": None, "void": why or "void", "detail": flat(detail, DETAIL_BYTES)})


def _cleaned(value: object, secrets: Secrets, depth: int = DEPTH) -> object:
    """An answer whose texts are clean lines without keys; what lies deeper than any answer does is `None`."""
    if isinstance(value, str):
        return flat(secrets.hide_text(flat(value, 2 * TEXT_BYTES)), TEXT_BYTES)
    if isinstance(value, Mapping):
        return {str(key)[:80]: _cleaned(one, secrets, depth - 1) for key, one in value.items()} if depth else None
    if isinstance(value, list):
        return [_cleaned(one, secrets, depth - 1) for one in value] if depth else None
    return value
