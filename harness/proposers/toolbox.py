"""The tools that a model gets for one proposal, as the Messages API takes them, and who executes them. There is no shell.

`DEFINITIONS` is constant to the byte, because a cached prefix depends on it: nothing of a study stands in it.
"""

from __future__ import annotations

from typing import Any

from harness.proposers.editor import Answer, Editor, Wrong, arguments, text, whole
from harness.proposers.fence import flat
from harness.proposers.lookups import LARGEST, MOST_TRIALS, NAMES, SOME_TRIALS, Lookups
from harness.proposers.told import LIMITS
from harness.trial import Record, Status

EDITOR = "str_replace_based_edit_tool"
SUBMIT = "submit"
REPLICATION = "replication_of"
_NUMBER: dict[str, Any] = {
    "type": "object",
    "properties": {"number": {"type": "integer", "description": "The number of a settled trial; 0 is the baseline."}},
    "required": ["number"],
    "additionalProperties": False,
}
_TRIALS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": [one.value for one in Status], "description": "Only trials that ended so."},
        "axis": {"type": "string", "description": "Only trials whose axis contains this text; upper and lower case are the same."},
        "limit": {"type": "integer", "description": f"How many, 1 to {MOST_TRIALS}; {SOME_TRIALS} when left out."},
        "before": {"type": "integer", "description": "Only trials with a lower number, to page back."},
    },
    "additionalProperties": False,
}
_WORDS: dict[str, Any] = {
    "type": "object",
    "properties": {"words": {"type": "string", "description": "Words, apart by spaces; parts of words count too."}},
    "required": ["words"],
    "additionalProperties": False,
}
_SUBMIT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": f"The idea in one line of at most {LIMITS['title']} characters."},
        "hypothesis": {"type": "string", "description": "Why it should help, in one or two sentences."},
        "axis": {
            "type": "string",
            "description": "The constant or the part that is turned; the name of an axis used before, if it is the same.",
        },
        "expected_effect": {"type": "string", "description": "The gain you expect in the metric, positive when better."},
        "refuted_if": {"type": "string", "description": "The result that would prove the hypothesis wrong."},
        REPLICATION: {
            "type": ["integer", "null"],
            "description": "The number of the trial that this one repeats on purpose; null for anything new.",
        },
    },
    "required": ["title", "hypothesis", "axis", "expected_effect", "refuted_if", REPLICATION],
    "additionalProperties": False,
}
_SAID = {
    "trials": "Lists settled trials, the newest first, one line each: number, status, axis, gain with its standard error, P(better), title and edit.",
    "trial": "One settled trial in full: verdict, readings, hypothesis and expectation; of a failed one also what failed and the end of its log.",
    "diff": "The change that a settled trial made to its parent, as a unified diff.",
    "curve": "The training loss of a settled trial at a few points of its budget.",
    "search_history": "Finds trials and refused proposals by words of their titles, hypotheses, edits and axes, the best match first.",
}
_SCHEMAS = {"trials": _TRIALS, "trial": _NUMBER, "diff": _NUMBER, "curve": _NUMBER, "search_history": _WORDS}
DEFINITIONS: tuple[dict[str, Any], ...] = (
    {"type": "text_editor_20250728", "name": EDITOR},
    *({"name": name, "description": _SAID[name], "input_schema": _SCHEMAS[name]} for name in NAMES),
    {
        "name": SUBMIT,
        "description": "Hands in the files as you have edited them, as your one proposal. Call it once, when the edit is done: it ends your work.",
        "strict": True,
        "input_schema": _SUBMIT,
    },
)
MESSAGES_TOOL_NAMES: tuple[str, ...] = tuple(one["name"] for one in DEFINITIONS)


class Submission(Record):
    """What a model says of its edit; clean, one line each, no longer than `told.LIMITS`."""

    title: str
    hypothesis: str
    axis: str
    expected_effect: str
    refuted_if: str
    replication_of: int | None


def submission(tool_input: object) -> Submission | str:
    """The input of `submit`, checked; a sentence that says what is wrong with it when it cannot be taken."""
    try:
        given = arguments(tool_input, tuple(Submission.model_fields))
        if not isinstance(tool_input, dict) or REPLICATION not in tool_input:
            raise Wrong(f"{REPLICATION} is missing; give null for anything new")
        said = {name: flat(text(given, name), limit) for name, limit in LIMITS.items()}
        for name in ("title", "hypothesis", "refuted_if"):
            if not said[name]:
                raise Wrong(f"{name} is empty")
        repeated = whole(given, REPLICATION, 0, LARGEST) if REPLICATION in given else None
        return Submission(**said, replication_of=repeated)
    except Wrong as wrong:
        return str(wrong)


class Toolbox:
    """Executes every tool but `submit`, which ends the conversation and is for its owner to read."""

    def __init__(self, editor: Editor, lookups: Lookups) -> None:
        self._editor, self._lookups = editor, lookups

    def run(self, name: str, tool_input: object) -> Answer:
        """The answer of one tool; never raises for what the input says."""
        if name == EDITOR:
            return self._editor.run(tool_input)
        if name in NAMES:
            return self._lookups.run(name, tool_input)
        return Answer(f"there is no such tool to answer; there are: {', '.join((EDITOR, *NAMES))}", is_error=True)
