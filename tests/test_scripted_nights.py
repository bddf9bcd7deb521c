"""Whole nights drawn by lot: faults, edits of program.md, kills, answers. Afterwards the journal alone must show that every limit and every rule was kept."""

from __future__ import annotations

import json
import os
import random
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.artifacts import journal
from harness.artifacts.events import Decided, Entry, Event, Stopped
from harness.artifacts.oversight_events import Climbed, Resolved, Reviewed, Verified
from harness.artifacts.study import Study
from harness.control.opening import Company, Wishes, resume, start
from harness.errors import RatchetError, RulesInvalid
from harness.execution.signals import Interrupts
from harness.proposers import asking
from harness.rules import Rules, read
from tests import accounts, projects, reviewers
from tests.messages_stub import Answer, blocks, call, cut_stream, error_status, html, refusal, silent, stub, text, tool_use
from tests.models import SUBMISSION, replace, shown, value_in
from tests.nights import must_be_whole
from tests.projects import folder_of, git, keeping_the_table, study_of

KINDS = (
    "study_started", "resumed", "rules_changed", "warned", "asked", "answered", "proposed", "refused", "begun", "committed", "launched", "trained", "scored",
    "decided", "settled", "stopped", "followed_up", "verified", "detected", "climbed", "reviewed", "escalated", "resolved", "sending", "sent",
)  # fmt: skip
POINTS = (*(f"journal:{kind}" for kind in KINDS), "proposal_stored", "commit_written", "ref_written", "branch_moved", "reply_stored")
FAULTS = ("crash", "oom", "oom", "slow", "nothing", "late_failure", "no_steps", "assert", "spoof", "evaluation_raises")
DIGEST = re.compile(r"digest of this input: ([0-9a-f]{64})")
SHOWN = re.compile(r"VALUE = [\d.]+")
WRONG = re.compile(r'MODE = \\?"(?!ok)(\w+)')
LEGS, DIED, TERM, OURS = 11, 137, 143, 99
HONEST = (0, 2, 3, 4, DIED, TERM)  # whatever else a leg ends with is a fault: a lock left behind, a harness that broke
NIGHTS, TEN = 50, 10
COMMON = (
    "killed", "edited", "rules_changed", "warned", "model_away", "refused", "climbed", "escalated", "resolved", "reviewed", "followed_up", "detected",
    "ended keep", "ended discard", "ended crash", "ended blocked",
)  # fmt: skip
RARE = (
    "interrupted", "stopped term", "ended oom", "ended timeout", "ended invalid", "resolved person", "resolved deadline", "verified accepted",
    "verified rolled_back", "review pass", "review fail", "review prose", "climbed combine", "climbed ask",
)  # fmt: skip


# ------------------------------------------------------------------------------------------------------ what is drawn
def law(lot: random.Random, url: str) -> str:
    """The rules block of one moment: every limit may be small, none may be absent that a model needs."""

    def some(key: str, value: object) -> str:
        return f"{key} = {value}\n" if lot.random() < 0.5 else ""

    return "".join((
        "[trial]\nclock = \"tokens\"\namount = 100\nsetup_seconds = 20\ntrain_seconds = 2\nevaluate_seconds = 20\n",
        "[keep]\nbaseline_readings = 1\nprior_sigma = 0.002\n", some("rule", lot.choice(['"strict"', '"debiased"'])), some("complexity_per_line", 0.0),
        "[proposer]\nkind = \"anthropic\"\n", f"meanwhile = \"{lot.choice(['search', 'search', 'stop', 'replicate'])}\"\n", some("failed_calls", 2),
        f"[model]\nbase_url = \"{url}\"\nmax_tokens = 1024\nsilence_seconds = 2\npatience_seconds = 0\nretries = {lot.randint(0, 2)}\n",
        "[ban]\n", some("axes", lot.choice(['["DEPTH"]', '["LEARNING_RATE", "SECONDS"]'])), some("words", '["forbidden_word"]'), some("imports", '["socket"]'),
        "[correction]\n", some("attempts", lot.randint(0, 2)), some("in_all", lot.randint(0, 3)),
        "[stall]\n", f"after = {lot.randint(1, 4)}\nquota = {lot.randint(1, 2)}\n",
        "[review]\n", some("symbols", '["VALUE"]'), some("in_all", lot.randint(1, 4)), "criteria = [\"the change is as small as it can be\"]\n",
        "[escalation]\n", f"consecutive_crashes = {lot.randint(2, 5)}\nrefused_proposals = {lot.randint(3, 9)}\n", some("answer_minutes", 0.001), some("messages", lot.randint(0, 2)),
        "[stop]\n", f"trials = {lot.randint(4, 12)}\n", some("hours", lot.choice([0.0015, 0.01, 1])), some("plateau", lot.randint(4, 9)), some("calls", lot.randint(4, 40)),
        some("retries", lot.randint(0, 2)), some("tokens", lot.choice([40_000, 300_000])), f"dollars = {lot.choice([0.15, 0.5, 5.0])}\n",
    ))  # fmt: skip


def program(lot: random.Random, url: str) -> str:
    """A whole program.md."""
    return f"# A night by lot\n\nLower it. Wish {lot.randint(0, 999)}.\n\n```toml rules\n{law(lot, url)}```\n"


def broken(lot: random.Random, valid: str) -> bytes | None:
    """What is no rules: half-written, misspelt, contradictory, hostile, or gone (`None`)."""
    return lot.choice([
        valid.encode()[: len(valid) * 2 // 3], valid.replace("trials =", "trails =").encode(), valid.replace("amount = 100", "amount = 200").encode(),
        valid.encode() * 2, b"\xff\xfe" + valid.encode(), b"", None, valid.replace("[stop]", '[scope]\neditable = ["prepare.py"]\n[stop]').encode(),
        valid.replace("trials = ", "trials = -").encode(), valid.replace("[stop]", "[stop]\0").encode(),
    ])  # fmt: skip


@dataclass
class Model:
    """The other end of the wire: each request gets an answer by lot."""

    lot: random.Random
    step: int = 0
    dumb: int = 0

    def __call__(self, body: dict[str, Any]) -> Answer:
        self.step += 1
        if self.dumb:
            self.dumb -= 1
            return text("Shall I go on?")
        if [tool["name"] for tool in body.get("tools", ())] == ["verdict"]:
            return self.review(body)
        if not SHOWN.search(json.dumps(body["messages"][0])):  # a paid critic's page, or another that shows no file
            return text("Turn the step size.")
        wrong = WRONG.findall(json.dumps(body["messages"][0]))
        if wrong and self.lot.random() < 0.5:  # a repair
            return self.edit((f'\nMODE = "{wrong[-1]}"', '\nMODE = "ok"'), axis="MODE")
        kinds: list[Callable[[dict[str, Any]], Answer]] = (
            [self.lower] * 6 + [self.fault] * 4 + [self.banned] * 2 + [self.trouble] * 3 + [self.words]
        )
        return self.lot.choice(kinds)(body)

    def edit(self, *pairs: tuple[str, str], axis: str = "VALUE") -> Answer:
        told = {"title": f"step {self.step}", **SUBMISSION, "axis": axis}
        return blocks(*(replace(old, new) for old, new in pairs), call("submit", told))

    def lower(self, body: dict[str, Any]) -> Answer:
        value = round(value_in(body) + self.lot.choice([-0.03, -0.01, 0.02, 0.05]) + self.step * 1e-6, 6)
        return self.edit((f"\nVALUE = {shown(body)}\n", f"\nVALUE = {value}\n"))

    def fault(self, body: dict[str, Any]) -> Answer:
        mode = self.lot.choice(FAULTS)
        return self.edit(
            ('\nMODE = "ok"', f'\nMODE = "{mode}"'),
            (f"\nVALUE = {shown(body)}\n", f"\nVALUE = {1.3 + self.step * 1e-6:.6f}\n"),
            axis="MODE",
        )

    def banned(self, body: dict[str, Any]) -> Answer:
        new = self.lot.choice(
            ["\nDEPTH = {0}", "\nDEPTH = 2\nNOTE = 'forbidden_word {0}'", "\nimport socket\nDEPTH = 2  # {0}\nOTHER = {0}"]
        )
        return self.edit(("\nDEPTH = 2", new.format(self.step + 2)), axis="DEPTH")

    def trouble(self, body: dict[str, Any]) -> Answer:
        return self.lot.choice([
            error_status(429, "rate_limit_error", headers={"retry-after": "1"}), error_status(529, "overloaded_error"), error_status(503), refusal(),
            cut_stream(), html(), error_status(401, "authentication_error") if self.lot.random() < 0.2 else refusal(),
        ])  # fmt: skip

    def review(self, body: dict[str, Any]) -> Answer:
        """A verdict, a spoilt one, or none."""
        digest = DIGEST.findall(json.dumps(body["messages"][0]))
        word = self.lot.choice(["pass", "pass", "fail", "fail", "uncertain"])
        said = {
            "verdict": word, "findings": [reviewers.finding(evidence=["VALUE ="])] if word == "fail" else [], "checked_criteria": [1], "what_can_be_cut": "nothing of it",
            "answers_owner_words": "yes", "because": "it is the smallest change", "refuted_if": self.lot.choice(["VALUE reads worse with another seed", ""]),
            "input_sha256": digest[-1] if digest else "",
        }  # fmt: skip
        return self.lot.choice(
            [tool_use("verdict", said), tool_use("verdict", said), text("Looks good to me."), self.trouble(body), silent()]
        )

    def words(self, body: dict[str, Any]) -> Answer:
        """Words, and words again at both reminders."""
        self.dumb = 2
        return text("Shall I go on?")


class Cut(Interrupts):
    """A person's or the machine's TERM after so many looks: a fake behind the same interface."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def reason(self) -> str:
        self.looks -= 1
        return "TERM" if self.looks <= 0 else ""

    @property
    def exit_code(self) -> int:
        return TERM


# ------------------------------------------------------------------------------------------------------ one night
@dataclass
class Night:
    """One project and its lot. `written` holds every text that program.md ever had, by the harness's own digest of valid ones."""

    project: Path
    seed: int
    url: str
    lot: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.lot = random.Random(self.seed)
        self.written = self.project.parent / f"texts-{self.seed}"
        self.written.mkdir()

    @property
    def program(self) -> Path:
        return self.project / "program.md"

    def write(self, data: bytes | None) -> None:
        """Save program.md, and a copy for the audit first: whoever dies in between has not edited it."""
        if data is None:
            self.program.unlink(missing_ok=True)
            return
        (self.written / f"{len(list(self.written.iterdir())):03}-{os.getpid()}.md").write_bytes(data)
        self.program.write_bytes(data)

    def steer(self, lot: random.Random) -> None:
        """An edit by lot."""
        valid = program(lot, self.url)
        self.write(broken(lot, valid) if lot.random() < 0.4 else valid.encode())

    def leg(self, number: int) -> int:
        """One harness in a process of its own, with its own kill and edits; its exit status."""
        lot = random.Random(f"{self.seed}:{number}")
        point = lot.choice(POINTS) if number < LEGS - 2 and lot.random() < 0.7 else ""
        looks = lot.randint(20, 200) if number < LEGS - 2 and lot.random() < 0.3 else 1 << 30
        edits = {lot.randint(1, 60) for _ in range(lot.choice([0, 0, 1, 3]))}
        child = os.fork()
        if child == 0:
            code = OURS
            try:
                os.environ.pop("RATCHET_CRASH_AT", None)
                if point:
                    os.environ["RATCHET_CRASH_AT"] = point
                code = self._work(number, lot, looks, edits)
            except RatchetError as error:
                code = error.exit_code
            except BaseException:  # printed and told as ours: the parent fails the test
                traceback.print_exc()
                sys.stderr.flush()
                raise
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _work(self, number: int, lot: random.Random, looks: int, edits: set[int]) -> int:
        seen = keeping_the_table(self.project)
        keep, count = seen.on_event, [0]

        def steer(entry: Entry, study: Study) -> None:
            if keep is not None:
                keep(entry, study)
            count[0] += 1
            if count[0] in edits:
                self.steer(lot)

        seen.on_event = steer
        company = Company(observe=seen.observe, on_point=seen.points.append, interrupts=Cut(looks))
        if number == 0 or not folder_of(self.project).journal.exists() or not study_of(self.project).started:
            return start(Wishes(project=self.project, tag="t", program=self.program), company).exit_code
        more = lot.choice([None, lot.randint(4, 20)])
        return resume(self.project, "t", company, trials=more).exit_code

    def live(self) -> Counter[int]:
        """Legs until one ends by itself after the kills are over; between them a person may edit and answer."""
        ends: Counter[int] = Counter()
        for number in range(LEGS):
            if number and self.lot.random() < 0.4:
                self.steer(self.lot)
            if number and self.lot.random() < 0.5:
                self.answer()
            if number >= LEGS - 2 or not self.program.exists():
                self.write(program(random.Random(f"{self.seed}:last"), self.url).encode())
            code = self.leg(number)
            ends[code] += 1
            assert code in HONEST, f"night {self.seed}, leg {number} ended with {code}: a fault of ours"
            if code not in (DIED, TERM) and number > 4 and self.lot.random() < 0.4:
                break
        return ends

    def answer(self) -> None:
        """A person settles an open question by lot, from another process."""
        if not folder_of(self.project).journal.exists():
            return
        for number, question in study_of(self.project).inbox.open.items():
            if self.lot.random() < 0.7:
                done = projects.ratchet(self.project, "answer", str(number), self.lot.choice(question.options).id, "--tag", "t")
                assert done.returncode in (0, 2), done.stderr

    def laws(self) -> dict[str, Rules]:
        """Every valid text that was ever written, by digest."""
        found: dict[str, Rules] = {}
        for path in sorted(self.written.iterdir()):
            try:
                rules = read(path.read_bytes(), path)
            except RulesInvalid:
                continue
            found[rules.digest] = rules
        return found

    def entries(self) -> list[Entry]:
        return [entry for entry, _ in journal.read(folder_of(self.project).journal)]

    def patches(self) -> dict[int, str]:
        """The change of every trial, by git."""
        rows = study_of(self.project).rows
        return {row.trial: git(self.project, "diff", "-U0", row.parent, row.commit or "") for row in rows if row.trial and row.commit}


def judged(night: Night) -> list[Entry]:
    """Nothing overdrawn, nothing lawless, nothing unexplained, and every view is the journal's."""
    entries, laws = night.entries(), night.laws()
    assert accounts.overdrawn(entries, laws) == []
    assert accounts.lawless(entries, laws, night.patches()) == []
    assert accounts.unexplained(entries) == []
    must_be_whole(night.project)
    return entries


@pytest.fixture(autouse=True)
def _at_once(no_account: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import anthropic

    anthropic.Anthropic(api_key="none").close()  # what it imports at its first client, once, so that no leg needs its seconds
    monkeypatch.setattr(asking, "FIRST_PAUSE", 0.0)


def lived(tmp_path: Path, seed: int) -> Counter[str]:
    """A whole night, judged; what was met in it."""
    with stub(Model(random.Random(f"model {seed}"))) as server:
        night = Night(projects.make_project(tmp_path / f"night{seed}"), seed, server.url)
        night.write(program(night.lot, server.url).encode())
        ends = night.live()
    met = Counter(name for entry in judged(night) for name in names(entry.event))
    return met + Counter({"killed": ends[DIED], "edited": len(list(night.written.iterdir())) - 1})


def names(event: Event) -> list[str]:
    """What an event counts as."""
    match event:
        case Decided():
            return [event.kind, f"ended {event.verdict.status.value}"]
        case Stopped():
            return [event.kind, f"stopped {event.stop.reason}"]
        case Resolved():
            return [event.kind, f"resolved {event.by}"]
        case Reviewed():
            return [event.kind, f"review {event.review.result.verdict if event.review.result else event.review.void}"]
        case Verified():
            return [event.kind, f"verified {event.verification.outcome.value}"]
        case Climbed():
            return [event.kind, f"climbed {event.rung}"]
    return [event.kind]


@pytest.mark.parametrize("seed", range(2))
def test_two_nights_by_lot_keep_every_limit_and_every_rule(tmp_path: Path, seed: int) -> None:
    assert lived(tmp_path, seed)["decided"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("group", range(NIGHTS // TEN))
def test_fifty_nights_by_lot_keep_every_limit_and_every_rule_and_explain_themselves(tmp_path: Path, group: int) -> None:
    met: Counter[str] = Counter()
    for seed in range(100 + group * TEN, 100 + (group + 1) * TEN):
        met += lived(tmp_path, seed)
    assert [name for name in COMMON if not met[name]] == [], "the lot was no lot"
    assert len([name for name in RARE if met[name]]) > len(RARE) // 2, met
    assert met["resumed"] > TEN and sum(name.startswith("stopped ") for name in met) >= 4, met
