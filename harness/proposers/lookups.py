"""Questions on the study that a model may ask while it works on a proposal. Read-only; every answer is short, cleaned and fenced (`fence.py`).

Of a trial's files only proposal.json, diff.patch, curve.jsonl and, by the rules of `evidence.py`, train.log are read, of a refused proposal its stored text.
Nothing that was printed while a model was scored is shown: such a trial had validation text in hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from harness.artifacts.study import Study
from harness.artifacts.trial_dir import StudyDir
from harness.artifacts.trial_row import Refusal, TrialRow
from harness.proposers import evidence, tried
from harness.proposers.editor import Answer, Wrong, arguments, text, whole
from harness.proposers.fence import flat, join, quoted
from harness.rules import Rules
from harness.trial import FAILED, MEASURED, Proposal, Reading, Status

KEYS: dict[str, tuple[str, ...]] = {
    "trials": ("status", "axis", "limit", "before"),
    "trial": ("number",),
    "diff": ("number",),
    "curve": ("number",),
    "search_history": ("words",),
}
NAMES = tuple(KEYS)
ANSWER_BYTES = 6 * 1024
DIFF_BYTES = 10 * 1024
FENCE_BYTES = 900  # of an answer: the fences and our own words
MOST_TRIALS, SOME_TRIALS = 50, 20
MOST_HITS = 20
MOST_WORDS = 20
MOST_READINGS = 5
LARGEST = 10**9
PROPOSAL_BYTES = 8 * 1024 * 1024
DIFF_READ_BYTES = 64 * 1024


class _Told(NamedTuple):
    """The searchable words of a stored proposal. It never changes, so it is read once."""

    title: str
    hypothesis: str
    hay: str


class Lookups:
    """Answers from the journal's fold, as it is when a question comes."""

    def __init__(self, study: Callable[[], Study], folder: StudyDir, rules: Rules) -> None:
        self._study, self._folder, self._rules = study, folder, rules
        self._told: dict[Path, _Told] = {}

    def run(self, name: str, tool_input: object) -> Answer:
        """The answer to the question `name`; never raises for what the input says."""
        asks = {"trials": self._trials, "trial": self._trial, "diff": self._diff, "curve": self._curve, "search_history": self._search}
        try:
            if name not in asks:
                raise Wrong(f"there is no such question; there are: {', '.join(NAMES)}")
            return Answer(asks[name](arguments(tool_input, KEYS[name])))
        except Wrong as wrong:
            return Answer(str(wrong), is_error=True)

    def _trials(self, given: Mapping[str, object]) -> str:
        status, axis = text(given, "status", ""), flat(text(given, "axis", ""), 200).casefold()
        if status and status not in (words := [one.value for one in Status]):
            raise Wrong(f"status must be one of: {', '.join(words)}")
        limit, before = whole(given, "limit", 1, MOST_TRIALS, SOME_TRIALS), whole(given, "before", 0, LARGEST, LARGEST)
        rows = [
            row
            for row in reversed(self._study().rows)
            if row.trial < before and status in ("", row.status) and axis in flat(row.axis, 200).casefold()
        ]
        if not rows:
            return "No settled trial matches."
        lines = _fitting(map(tried.line, rows[:limit]))
        left = f" For older ones ask with before={rows[len(lines) - 1].trial}." if len(lines) < len(rows) else ""
        return join([f"{len(lines)} of {len(rows):,} trials that match, the newest first.{left}", quoted("trials", lines, ANSWER_BYTES)])

    def _trial(self, given: Mapping[str, object]) -> str:
        study = self._study()
        row = _row(study, given)
        failed = [evidence.packet("the failure", row, study, self._folder, self._rules)] if row.status in FAILED else []
        room = ANSWER_BYTES - FENCE_BYTES - sum(len(one.text.encode()) for one in failed)
        stored = _stored(self._folder.trial(row.folder).proposal)
        facts = quoted("the trial", [*_facts(study, row), *_words(row, stored)], room)
        return join([facts, *failed])

    def _diff(self, given: Mapping[str, object]) -> str:
        row = _row(self._study(), given)
        if row.proposal is None:
            raise Wrong(f"trial {row.trial} is the baseline, so it has no diff")
        found = evidence.start(self._folder.trial(row.folder).diff, DIFF_READ_BYTES).decode(errors="replace")
        if not found:
            raise Wrong(f"the diff of trial {row.trial} is missing or cannot be read")
        return join([quoted(f"the diff of trial {row.trial} against its parent", found.rstrip("\n").split("\n"), DIFF_BYTES - FENCE_BYTES)])

    def _curve(self, given: Mapping[str, object]) -> str:
        row = _row(self._study(), given)
        points = evidence.thinned(evidence.reading(row, self._folder, last=False).curve)
        if not points:
            raise Wrong(f"trial {row.trial} left no learning curve that can be read")
        return join(
            [quoted("learning curve, progress:loss in nats", [evidence.curve(f"trial {row.trial}", points)], evidence.CURVES_BYTES)]
        )

    def _search(self, given: Mapping[str, object]) -> str:
        words = list(dict.fromkeys(flat(text(given, "words"), 500).casefold().split()))[:MOST_WORDS]
        if not words:
            raise Wrong("words has no word to look for")
        found = [(sum(word in told.hay for word in words), number, row, told) for number, row, told in self._entries(self._study())]
        hits = sorted((one for one in found if one[0]), key=lambda one: (-one[0], -one[1]))
        if not hits:
            return f"None of the {len(found):,} trials and refused proposals has one of these words in its title, hypothesis, edit or axis."
        lines = _fitting(f"{count}/{len(words)} words: {_hit(row, told)}" for count, _, row, told in hits[:MOST_HITS])
        said = f"{len(lines)} of {len(hits):,} trials and refused proposals with one of the words, those with the most words first, then the newest."
        return join([said, quoted("what was found", lines, ANSWER_BYTES)])

    def _entries(self, study: Study) -> Iterator[tuple[int, TrialRow | Refusal, _Told]]:
        """Every trial and every remembered refusal, with the number of its proposal and what was said of it."""
        for row in (row for row in study.rows if row.proposal is not None):
            yield row.proposal or 0, row, self._read(self._folder.trial(row.folder).proposal, row.title, row.edit, row.axis)
        for one in study.refusals:
            yield one.proposal, one, self._read(self._folder.proposal(one.proposal), one.edit, one.axis)

    def _read(self, path: Path, *more: str) -> _Told:
        if path not in self._told:
            stored = _stored(path)
            title, hypothesis = (flat(stored.title, 300), flat(stored.hypothesis, 1000)) if stored else ("", "")
            hay = "\n".join([title, hypothesis, *(flat(one, 300) for one in more)]).casefold()
            self._told[path] = _Told(title, hypothesis, hay)
        return self._told[path]


def _row(study: Study, given: Mapping[str, object]) -> TrialRow:
    number = whole(given, "number", 0, LARGEST)
    row = next((row for row in reversed(study.rows) if row.trial == number), None)
    if row is not None:
        return row
    if study.current is not None and study.current.trial == number:
        raise Wrong(f"trial {number} is still open; ask when it is settled")
    last = f"those settled are {study.rows[0].trial} to {study.rows[-1].trial}" if study.rows else "none is settled yet"
    raise Wrong(f"there is no trial {number}; {last}")


def _stored(path: Path) -> Proposal | None:
    """A proposal as the harness stored it; `None` when it is missing, too long or broken."""
    try:
        return Proposal.model_validate_json(evidence.start(path, PROPOSAL_BYTES))
    except ValidationError:
        return None


def _fitting(lines: Iterable[str]) -> list[str]:
    """As many of the lines, from the first on, as an answer has room for."""
    taken: list[str] = []
    size = FENCE_BYTES
    for line in lines:
        size += len(line.encode()) + len("| \n")
        if size > ANSWER_BYTES:
            break
        taken.append(line)
    return taken


def _hit(row: TrialRow | Refusal, told: _Told) -> str:
    """A found trial or refusal, with what its own line does not say."""
    line = tried.line(row) if isinstance(row, TrialRow) else tried.refusal(row)
    title = f" title: {flat(told.title, 100)}" if told.title and told.title[:40] not in line else ""
    because = f" because: {flat(told.hypothesis, 200)}" if told.hypothesis else ""
    return f"{line}{title}{because}"


def _facts(study: Study, row: TrialRow) -> list[str]:
    """What the harness knows of a trial."""
    verdict = row.verdict
    lines = [f"trial {row.trial}: {flat(row.title, 200)}"]
    if verdict is not None:
        told = verdict.detail if verdict.status in MEASURED else ""  # what a failed one raised is not for all eyes
        why = f" ({flat(told, 200)})" if told else ""
        lines.append(f"verdict: {verdict.status.value}: {flat(verdict.reason, 60)}{why}")
    if verdict is not None and verdict.gain is not None:
        error = f" ± {verdict.standard_error:.4f}" if verdict.standard_error is not None else ""
        chance = f", P(better) {verdict.p_better:.2f}" if verdict.p_better is not None else ""
        lines.append(f"gain: {verdict.gain:+.4f}{error}{chance}; positive is better")
    parent = next((one.trial for one in study.rows if one.commit == row.parent and one.trial != row.trial), None)
    lines += [f"made on: trial {parent}"] if parent is not None else []
    return lines + [_reading(one) for one in row.readings[:MOST_READINGS]]


def _reading(reading: Reading) -> str:
    out = reading.outcome
    facts = (
        ("{:,} steps", out.steps), ("{:,} tokens", out.tokens), ("{:.1f} s of training", out.train_seconds), ("{:.1f} CPU-s", out.cpu_seconds),
        ("peak {:.0f} MiB", out.peak_memory_mb),
    )  # fmt: skip
    known = ", ".join(form.format(value) for form, value in facts if value is not None) or "nothing was counted"
    return f"reading {reading.replicate + 1}: {known} ({out.end.value})"


def _words(row: TrialRow, stored: Proposal | None) -> list[str]:
    """What the proposer said of a trial."""
    lines = [f"axis: {flat(row.axis, 80)}", f"edit: {flat(row.edit, 200)} ({row.change.net_lines:+d} lines of code)"] if row.edit else []
    if stored is None:
        return lines + (["its proposal is missing or cannot be read"] if row.proposal is not None else [])
    said = (("hypothesis", stored.hypothesis, 800), ("expected", stored.expected_effect, 250), ("refuted if", stored.refuted_if, 350))
    return lines + [f"{name}: {flat(words, limit)}" for name, words, limit in said if words]
