"""What a valid program.md may not mean is said before the night, with its line: collisions, criteria nobody can check, wishes without a rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness import cli
from harness.artifacts.events import Warned
from harness.control import lint, wishes
from harness.control.lint import Surroundings
from harness.rules import parse
from tests.projects import ROOT, Seen, edits_file, run_study, set_rules

NOW = datetime(2026, 3, 8, 22, 0, tzinfo=timezone.utc)
BARE = Surroundings(environ=frozenset(), now=NOW)
KEYED = Surroundings(environ=frozenset({"ANTHROPIC_API_KEY", "RATCHET_PHONE"}), now=NOW)
REVIEW = '[review]\nadded_lines = 9\ncriteria = ["It takes 3 lines out."]\n'
HEAD = 3  # the line of the fence in `program`


def program(block: str, prose: str = "") -> str:
    block = block if "[stop]" in block else f"{block}[stop]\ntrials = 100\n"
    return f"# Goal\n\n```toml rules\n{block}```\n\n{prose}\n"


def said(text: str, around: Surroundings = KEYED) -> list[tuple[int, str]]:
    return [(one.line, one.said) for one in lint.warnings(text, parse(text), around)]


@pytest.mark.parametrize("name", ["program.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples").glob("*/program.md"))])
def test_the_shipped_programs_are_free_of_warnings(name: str) -> None:
    text = (ROOT / name).read_text()
    assert lint.warnings(text, parse(text), BARE) == ()


COLLISIONS: dict[str, tuple[str, int, str]] = {
    "plateau": ("[stop]\ntrials = 10\nplateau = 10\n", 3, "[stop] plateau (line 6) is not less than trials (line 5)"),
    "crashes": ("[escalation]\nconsecutive_crashes = 11\n[stop]\ntrials = 10\n", 2, "[escalation] consecutive_crashes (line 5) is more than [stop] trials (line 7)"),
    "measured again": ("[keep]\nremeasure_incumbent_after = 10\n[stop]\ntrials = 10\n", 2, "the incumbent is never measured again"),
    "a plateau below the ladder": ("[stall]\nafter = 20\n[stop]\ntrials = 90\nplateau = 20\n", 5, "[stop] plateau (line 8) is not more than [stall] after (line 5): the study ends before a rung is climbed"),
    "a banned symbol to be reviewed": ("[ban]\naxes = ['depth']\n[review]\nsymbols = ['DEPTH']\ncriteria = ['It takes 3 lines out.']\n[stop]\ntrials = 9\ndollars = 1\n", 4, "[review] symbols (line 7) has DEPTH, which [ban] axes (line 5) forbids to change"),
    "no rung": ("[stall]\nafter = 10\n[stop]\ntrials = 10\n", 2, "no rung is ever climbed"),
    "not the last rung": ("[stall]\nafter = 4\nquota = 3\nrungs = ['radical', 'other_axis', 'ask']\n[stop]\ntrials = 10\n", 3, "the ladder of [stall] takes 10 trials to its last rung by [stall] quota (line 6)"),
    "no other model": ("[stall]\nrungs = ['other_model']\n", 2, "[stall] rungs (line 5) has 'other_model', and there is no other one"),
    "no limit on money": (REVIEW, 2, "[review] added_lines (line 5) asks for reviews, and none of [stop] dollars (not set by default), calls and tokens limits"),
    "no review fits": (f"{REVIEW}[stop]\ntrials = 9\ntokens = 1000\n", 6, "[stop] tokens (line 9) is less than [review] max_tokens (4,096 by default): no review fits"),
    "no answer fits": ("[proposer]\nkind = 'anthropic'\n[stop]\ntrials = 9\ntokens = 9000\n", 5, "no answer of a model fits"),
    "no repair": ("[ban]\naxes = ['device_rows']\n", 2, '[ban] axes (line 5) has what [correction] micro_batch ("DEVICE_ROWS" by default) names'),
    "no repair, by a part of the name": ("[ban]\naxes = ['device rows']\n", 2, '[ban] axes (line 5) has what [correction] micro_batch ("DEVICE_ROWS" by default) names'),
    "a channel that is not set": ("[escalation]\nchannels = ['RATCHET_PHONE', 'NO_SUCH']\n", 2, "[escalation] channels (line 5) names NO_SUCH, which is not set"),
    "no message": ("[escalation]\nchannels = ['RATCHET_PHONE']\nmessages = 0\n", 2, "channels (line 5) says where to send, and messages (line 6) that nothing is sent"),
    "an answer after the night": ("[escalation]\nanswer_minutes = 90\n[stop]\nhours = 1\n", 2, "answer_minutes (line 5) is longer than [stop] hours (line 7)"),
    "quiet all night": ("[escalation]\nchannels = ['RATCHET_PHONE']\nquiet = ['21:00', '06:00']\nanswer_minutes = 999\n[stop]\nhours = 8\n", 3, "quiet (line 6) covers the whole night by [stop] hours (line 9)"),
    "quiet until the deadline": ("[escalation]\nchannels = ['RATCHET_PHONE']\nquiet = ['21:00', '06:00']\nanswer_minutes = 999\n[stop]\ndeadline = '05:30'\n", 3, "covers the whole night by [stop] deadline"),
    "quiet longer than the answer": ("[escalation]\nchannels = ['RATCHET_PHONE']\nquiet = ['21:00', '06:00']\n", 3, "quiet (line 6) takes longer than answer_minutes (480.0 by default)"),
}  # fmt: skip


@pytest.mark.parametrize("name", COLLISIONS)
def test_two_rules_that_collide_are_named_with_both_lines(name: str) -> None:
    block, line, words = COLLISIONS[name]
    found = said(program(block))
    assert [one[0] for one in found if words in one[1]] == [HEAD + line], found


@pytest.mark.parametrize(
    "block",
    [
        "[stop]\ntrials = 10\nplateau = 9\n", "[stop]\ntrials = 3\n", "[stop]\nhours = 1\n", "[stall]\nafter = 4\nquota = 2\nrungs = ['radical', 'ask']\n[stop]\ntrials = 10\n",
        f"{REVIEW}[stop]\ntrials = 9\ndollars = 3\n", "[escalation]\nchannels = ['RATCHET_PHONE']\nquiet = ['23:00', '06:30']\n[stop]\nhours = 10\n",
        "[escalation]\nchannels = ['RATCHET_PHONE']\nquiet = ['13:00', '14:00']\n[stop]\nhours = 10\n", "[correction]\nattempts = 0\n[ban]\naxes = ['DEVICE_ROWS']\n",
        "[stop]\ntrials = 9\ntokens = 9000\n", "[stop]\ntrials = 90\nplateau = 21\n[stall]\nafter = 20\n", "[stop]\ntrials = 90\nplateau = 10\n",
        "[stop]\ntrials = 90\nplateau = 10\n[stall]\nafter = 20\nrungs = []\n", "[ban]\naxes = ['WIDTH']\n[review]\nsymbols = ['DEPTH']\ncriteria = ['It takes 3 lines out.']\n[stop]\ntrials = 9\ndollars = 1\n",
    ],
)  # fmt: skip
def test_rules_that_go_together_are_not_warned_of(block: str) -> None:
    assert said(program(block)) == []


def test_a_review_that_no_model_can_give_is_said() -> None:
    text = program(f"{REVIEW}[stop]\ntrials = 9\ndollars = 3\n")
    assert [one[0] for one in said(text, BARE)] == [HEAD + 2] and "no key for a model is set" in said(text, BARE)[0][1]
    assert said(program(f"{REVIEW}[model]\nbase_url = 'http://127.0.0.1:1'\n[stop]\ntrials = 9\ndollars = 3\n"), BARE) == []
    assert "'critic', and no key" in said(program("[stall]\nrungs = ['critic']\n"), BARE)[0][1]
    assert (
        "'critic', and none of [stop] dollars (not set by default), calls and tokens"
        in said(program("[stall]\nrungs = ['critic']\n"))[0][1]
    )
    limited = "[stall]\nrungs = ['critic']\n[stop]\ntrials = 100\ncalls = 9\n"
    assert "'critic', and nobody who proposes reads what it says" in said(program(limited))[0][1]
    assert said(program(f"[proposer]\nkind = 'anthropic'\n{limited}")) == []


def test_a_criterion_of_taste_is_named_and_one_that_can_be_observed_is_not() -> None:
    vague = ["The code is clean.", "It should be simple and readable", "The change makes sense."]
    fine = ["No function is longer than 40 lines.", "Removing the flag gives the old program back.", "`load_model` is unchanged.", "The better of the two stays the same.",
            "Every new constant is at the top.", "It does what the title says."]  # fmt: skip
    listed = ",\n".join(json.dumps(one) for one in (*vague, *fine))
    found = said(program(f"[review]\nimplausible = true\ncriteria = [\n{listed}]\n[stop]\ntrials = 9\ndollars = 1\n"))
    assert [line for line, _ in found] == [HEAD + 4, HEAD + 5, HEAD + 6]
    assert "number 1: nobody can check 'clean'; say what can be observed" in found[0][1]


WISHES: dict[str, tuple[str, str]] = {
    "dollars": ("Never spend more than $20 in a night.", "[stop] dollars"),
    "memory": ("A trial must stay below 40 GB of memory.", "[trial] memory_mb"),
    "lines": ("A change must not add more than 20 lines.", "[review] added_lines"),
    "hours": ("Stop after 8 hours.", "[stop] hours"),
    "deadline": ("Everything must be over, so stop before 7:30.", "[stop] hours or [stop] deadline"),
    "plateau": ("Stop when nothing is kept for a long time.", "[stop] plateau"),
    "crashes": ("Ask me after three crashes.", "[escalation] consecutive_crashes"),
    "ask": ("Ask me before you add a dependency.", "[escalation] channels"),
    "calls": ("Use at most 50 model calls.", "[stop] calls"),
    "ban": ("Do not try dropout, it never helped.", "[ban] axes or words could, with 'dropout'"),
    "ban by name": ("- Never touch `WARMDOWN`.", "[ban] axes or words could, with 'WARMDOWN'"),
    "a file in scope": ("Do not edit train.py.", "[scope] editable has 'train.py'"),
}


@pytest.mark.parametrize("name", WISHES)
def test_a_wish_that_no_rule_holds_is_named_with_the_key_that_could(name: str) -> None:
    prose, key = WISHES[name]
    block = "[stop]\ndeadline = '07:00'\n" if key.startswith("[stop] trials") else "[stop]\ntrials = 9\n"
    text = program(block, f"Some advice.\nMore of it. {prose}")
    found = said(text)
    line = text.split("\n").index(next(one for one in text.split("\n") if prose in one)) + 1
    assert [(one[0], key in one[1]) for one in found] == [(line, True)], found


@pytest.mark.parametrize(
    ("block", "prose"),
    [
        ("[stop]\ntrials = 9\ndollars = 20\n", "Never spend more than $20."), ("[trial]\nmemory_mb = 40000\n", "A trial must stay below 40 GB of memory."),
        ("[ban]\nwords = ['dropout']\n", "Do not try dropout."), ("", "Do not change prepare.py."), ("", "Never use other data than that of prepare.py."),
        ("", "Prefer ideas that could matter; a small gain is not worth twenty lines of clever code."), ("", "Think of memory and of money."),
        ("", "# Never spend money\n\n```python\n# never spend $20\n```\n"), ("", "Do not try the same idea twice."), ("", "Only ideas about the optimizer, please."),
    ],
)  # fmt: skip
def test_advice_and_wishes_that_a_rule_holds_are_not_warned_of(block: str, prose: str) -> None:
    assert said(program(block, prose)) == []


def test_a_sentence_over_two_lines_stands_at_its_first_and_fences_are_skipped() -> None:
    text = program("", "Fine advice here. You must never\nspend more than 5 dollars.\n\n~~~\nNever spend $5.\n~~~\n\nDo not use\ndropout.")
    assert [line for line, _ in said(text)] == [8, 15]


def test_the_plan_shows_warnings_with_their_lines_and_the_study_journals_them_once(
    make_project: Callable[..., Path], tmp_path: Path
) -> None:
    project = make_project(rules="[stop]\ntrials = 3\nplateau = 3")
    number = (project / "program.md").read_text().split("\n").index("plateau = 3") + 1
    page = CliRunner().invoke(cli.cli, ["plan", "--offline", "--project", str(project)])
    assert page.exit_code == 0 and f"- line {number}: [stop] plateau (line {number}) is not less than trials" in page.output
    facts = json.loads(CliRunner().invoke(cli.cli, ["plan", "--offline", "--json", "--project", str(project)]).output)
    assert [one["line"] for one in facts["warnings"]] == [number] and facts["can_start"]

    def edit(entry: object, study: object) -> None:
        event = entry.event  # type: ignore[attr-defined]
        if event.kind == "settled" and event.trial == 0:
            set_rules(project, "[stall]\nafter = 30")
        if event.kind == "settled" and event.trial == 1:
            (project / "program.md").write_text((project / "program.md").read_text() + "\nNever spend more than $5.\n")

    seen = Seen(on_event=edit)
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.3}, {"VALUE": 1.31}, {"VALUE": 1.32}]), seen=seen)
    warned = [event.message for event in seen.events if isinstance(event, Warned) and event.code == "lint"]
    assert len(warned) == 3
    assert [word in message for word, message in zip(("plateau", "no rung is ever climbed", "[stop] dollars"), warned, strict=True)] == [
        True
    ] * 3
    assert all(message.startswith("program.md:") for message in warned)


SILENT = [
    "Only use ideas that fit within 5 GB of disk.", "Must read at least two lines of the log.", "Only 3 lines of train.py set the optimizer.",
    "Within the first 30 lines you see the constants.", "Never stop the study to ask me.", "Don't change several things at once.", "Never use magic numbers.",
    "Do not add new dependencies.", "Going under 20 lines is a nice bonus.", "You must not add more comments than code.", "Do not try random things.",
    "Never use global variables.", "Do not end a night by asking: never wake me.", "Avoid large changes.", "Avoid overfitting to the first minutes.", "Leave it alone.",
    "Files outside train.py are off limits.", "If the loss diverges, do not use momentum.", "You must think of memory first; a good idea is rare.",
    "The limit of GPU RAM is 80 GB, plenty.", "You must add at least one line to the log.", "Where it says UNKNOWN, leave the field alone.", "Ask yourself what a change would show.",
    "Avoid unnecessary complexity.", "Everything else is off limits.", "Do not stop until you are sure.", "Never change anything silently.",
]  # fmt: skip


@pytest.mark.parametrize("prose", SILENT)
def test_a_sentence_that_no_key_could_hold_is_not_warned_of(prose: str) -> None:
    assert said(program("[stop]\nhours = 8\n", prose)) == []


TOLD = {
    "Leave the depth alone.": "[ban] axes or words could, with 'depth'", "Avoid dropout.": "with 'dropout'", "The optimizer is off limits.": "with 'optimizer'",
    "Changes to DEPTH are forbidden.": "with 'DEPTH'", "Stop after ten failures.": "[stop] plateau", "Quit after 100 experiments.": "[stop] trials",
    "Please wake me if it crashes.": "[escalation] channels", "Keep away from `MODE`.": "with 'MODE'", "Hands off the tokenizer.": "with 'tokenizer'",
    "Use of rotary is not allowed.": "with 'rotary'", "Avoid using dropout.": "with 'dropout'", "`WIDTH` is banned.": "with 'WIDTH'",
    "You are not allowed to use Muon.": "with 'Muon'", "Notify me after each keep.": "[escalation] channels", "Never add a package without asking me.": "[escalation] channels",
    "Do not use more than 12 GB of memory.": "[trial] memory_mb", "Keep 10% of the RAM free, never less than that.": "[trial] memory_mb",
    "Keep the diff under 30 lines.": "[review] added_lines", "A change must not grow beyond 20 new lines.": "[review] added_lines", "Quit after three crashes.": "[escalation] consecutive_crashes",
    "Quit when you are stuck.": "[stop] plateau", "Spend no more than $5 in total.": "[stop] dollars", "Use at most 40 api calls.": "[stop] calls", "Never raise DEPTH.": "with 'DEPTH'",
}  # fmt: skip


@pytest.mark.parametrize("prose", TOLD)
def test_a_wish_in_other_words_is_named_too(prose: str) -> None:
    found = said(program("[stop]\nhours = 8\n", prose))
    assert [TOLD[prose] in one for _, one in found] == [True], found


def test_an_hour_of_the_clock_is_a_wish_for_a_deadline() -> None:
    assert ["[stop] deadline" in one for _, one in said(program("[stop]\ntrials = 9\n", "Quit at 6am."))] == [True]


def test_only_so_many_sentences_and_characters_are_looked_at() -> None:
    wish = "Never spend $5."
    assert len(said(program("", "Fine.\n" * (wishes.LOOKED_AT - 1) + wish))) == 1
    assert said(program("", "Fine.\n" * wishes.LOOKED_AT + wish)) == []
    assert len(list(wishes.sentences(["Never use it, please."] * 100_000))) <= wishes.READ // 20
    assert sum(len(one) for _, one in wishes.sentences(["word " * 200_000, "", "more"])) <= wishes.LONGEST
    drawn = wishes.uncovered(["Never use dropout.", ""] * 1000, parse(program("")), frozenset())
    assert len(list(drawn)) == wishes.LOOKED_AT


def test_a_megabyte_of_prose_is_read_in_no_time_and_brings_few_warnings() -> None:
    text = program("", "Never spend $5 and " * 50_000)
    assert len(said(text)) == 1
    assert said(program("", "stop " * 190_000 + "\n" + "must\n" * 10_000)) == []
    text = program("", "Never spend $5 today.\nDo not try " * 20_000)
    assert len(said(text)) == lint.MOST
