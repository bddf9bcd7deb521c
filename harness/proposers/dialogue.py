"""The conversation about one proposal: what each answer of the model leads to. No network: replies in, messages out.

An answer that is cut off, malformed, a question or no edit gets a short reminder and another go, `REMINDERS` times in all; then the conversation has
failed with a reason of its own. Only a `submit` that the guard would admit ends it well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.errors import ProposalRefused
from harness.proposers.editor import Answer, Editor
from harness.proposers.fates import Fate, Reply
from harness.proposers.fence import flat
from harness.proposers.toolbox import SUBMIT, Submission, Toolbox, submission

REMINDERS = 2
NOBODY = "Nobody answers questions. Decide yourself: make one edit with the editor tool, then call submit."
UNSENT = "You have edited the file but not handed it in. Call submit now."
CUT = "Your last answer was cut off at the limit of its length, and nothing of it counts. Make smaller edits: replace single places, do not write whole files."
UNREADABLE = "Your last answer could not be read ({why}), and nothing of it counts. Use the tools as they are described."
EARLIER = (
    "not done: submit must be the last call of an answer in which every other call succeeded; look at their results, then call submit again"
)
UNCHANGED = "no file was changed; make an edit first, or name in replication_of the trial that you want repeated"


class Dialogue:
    """One conversation with one model. `vet` says what is wrong with a submission, or nothing."""

    def __init__(self, page: str, editor: Editor, toolbox: Toolbox, vet: Callable[[Submission], str]) -> None:
        self._editor, self._toolbox, self._vet = editor, toolbox, vet
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": page}]}]
        self._reminders = 0

    def messages(self) -> list[dict[str, Any]]:
        """What is to be sent: the page and the last results carry a mark for the provider's short cache."""
        marked = [dict(message) for message in self._messages]
        for at in {0, len(marked) - 1}:
            *head, tail = marked[at]["content"]
            marked[at]["content"] = [*head, {**tail, "cache_control": {"type": "ephemeral"}}]
        return marked

    def take(self, reply: Reply) -> Submission | None:
        """The submission that ends it, or `None` when the conversation goes on; `ProposalRefused` when it has failed."""
        calls = [block for block in reply.content if block.get("type") == "tool_use"]
        said = [block for block in reply.content if block.get("type") != "text" or block.get("text")]
        if reply.fate is Fate.ANSWERED and any(block.get("type") == "tool_use" or str(block.get("text", "")).strip() for block in said):
            self._messages.append({"role": "assistant", "content": said})  # the API takes neither white space nor thinking alone back
        if reply.fate is Fate.CUT_OFF:
            self._remind(CUT, "cut_off", reply.detail or "the answer was cut off at its limit")
        elif reply.fate is Fate.STRANGE:
            self._remind(UNREADABLE.format(why=reply.detail or reply.reason), reply.reason, reply.detail)
        elif calls:
            return self._results(calls)
        else:
            self._words(reply)
        return None

    def _words(self, reply: Reply) -> None:
        """An answer without a tool: a plan, an apology, a question, nothing at all."""
        said = " ".join(str(block.get("text", "")) for block in reply.content if block.get("type") == "text")
        reason = "no_submit" if self._editor.changed() else "question" if said.rstrip().endswith("?") else "no_change"
        words, what = (UNSENT, "the edit was never handed in") if reason == "no_submit" else (NOBODY, "no edit was made")
        self._remind(words, reason, f"{what}; it said: {flat(said[-300:], 300) or 'nothing'}")

    def _remind(self, words: str, reason: str, detail: str) -> None:
        if self._reminders >= REMINDERS:
            raise ProposalRefused(reason, detail or reason)
        self._reminders += 1
        self._say({"type": "text", "text": words})

    def _results(self, calls: list[dict[str, Any]]) -> Submission | None:
        """Do what was asked, in order; a submission in the same answer as a failed call is not taken."""
        failed = any(call["name"] == SUBMIT for call in calls[:-1])  # what stands behind a submission would be lost without a word
        for call in calls:
            handed_in = call["name"] == SUBMIT
            answer, done = self._submitted(call["input"], failed) if handed_in else (self._toolbox.run(call["name"], call["input"]), None)
            if done is not None:
                return done
            failed = failed or answer.is_error
            self._say({"type": "tool_result", "tool_use_id": call["id"], "content": answer.text or "done", "is_error": answer.is_error})
        return None

    def _submitted(self, tool_input: Mapping[str, Any], failed: bool) -> tuple[Answer, Submission | None]:
        told = EARLIER if failed else submission(tool_input)
        if not isinstance(told, str) and not self._editor.changed() and told.replication_of is None:
            told = UNCHANGED
        if isinstance(told, str):
            return Answer(told, is_error=True), None
        wrong = self._vet(told)
        return (Answer(f"refused before any device time: {wrong}", is_error=True), None) if wrong else (Answer(""), told)

    def _say(self, block: dict[str, Any]) -> None:
        """Add to the message that is to be sent next."""
        if self._messages[-1]["role"] != "user":
            self._messages.append({"role": "user", "content": []})
        self._messages[-1]["content"].append(block)
