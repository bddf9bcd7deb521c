"""The real Claude Code and Codex command lines, in whole studies of the stub project, against servers on loopback that answer as scripted: no key, no network.

What is real: the binaries, their tools, their output, git, the trials. What is not: the models, and with them how an agent behaves. Claude runs by our
default command. Codex runs by our default command with the address of its server added; it writes files, by its patch tool too, inside its own sandbox,
which needs user namespaces: where the machine has none, the tests run it without a sandbox (`-s danger-full-access`), and that the default command
works is then not covered. Never covered: their logins, gemini, opencode and aider, and the patch program that codex puts in front of its shell's PATH, for
it makes none when HOME lies in a temporary folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import select
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.artifacts.call_events import Answered, Asked
from harness.execution.process import adopt_orphans, kill_and_reap
from harness.execution.usage import descendants
from harness.proposers import agents
from tests import messages_stub as messages
from tests import responses_stub as responses
from tests.messages_stub import Answer
from tests.projects import Seen, git, make_project, resume_study, run_study, study_of

pytestmark = pytest.mark.slow

KEY = "sk-stub-7f3a9c51e2-only-for-tests"
WISH = "Prefer a lower VALUE, says the person; leave DEPTH alone."
CLAIM = "I have edited train.py: VALUE is 0.5 now and all tests pass."
FOREIGN = ("ANTHROPIC_", "CLAUDE", "OPENAI_", "CODEX_", "XDG_")
Session = list[Answer]


class Sessions:
    """Answers by session: the first session of the CLI gets the first list, one answer a request. A request too many is a fault of the test."""

    def __init__(self, session_of: Callable[[dict[str, Any]], str], scripts: Sequence[Session]) -> None:
        self._session_of, self._left, self._begun = session_of, [list(script) for script in scripts], dict[str, Session]()

    def __call__(self, body: dict[str, Any]) -> Answer:
        name = self._session_of(body)
        if name not in self._begun:
            self._begun[name] = self._left.pop(0)
        return self._begun[name].pop(0)


class Claude:
    """Claude Code, as its SDK brings it along."""

    name, package = "claude", "claude-agent-sdk"
    usage: ClassVar[dict[str, int]] = {
        "input_tokens": 300,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 60,
    }
    model: str | None = "claude-opus-5-5"

    def binary(self) -> Path | None:
        """Where the package has it."""
        return inside("claude_agent_sdk", "_bundled/claude")

    def serve(self, scripts: Sequence[Session]) -> AbstractContextManager[messages.Stub]:
        """Its server."""
        return messages.stub(Sessions(lambda body: str(json.loads(body["metadata"]["user_id"])["session_id"]), scripts))

    def law(self, url: str, monkeypatch: pytest.MonkeyPatch) -> str:
        """What program.md says of it: the default command."""
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "0")
        return 'adapter = "claude"\nkeys = ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "CLAUDE_CODE_MAX_RETRIES"]'

    def edit(self, old: str, new: str, words: str) -> Session:
        """Read, edit, say."""
        return [messages.tool_use("Read", {"file_path": "train.py"}), self._edit("train.py", old, new), messages.text(words)]

    def other_edit(self, old: str, new: str, words: str) -> Session:
        """It has one way only."""
        return self.edit(old, new, words)

    def silent(self, after: int | None) -> Answer:
        """A server that goes silent, perhaps after some events."""
        return messages.silent(60, after)

    def no_edits(self) -> list[tuple[str, str, str, Session]]:
        """Sessions without an edit in scope: reason, a word of the refusal, a word of the record, script."""
        there = messages.tool_use("Edit", {"file_path": "prepare.py", "old_string": "", "new_string": "cheat = 1\n"})
        above = messages.tool_use("Edit", {"file_path": "../prompt.md", "old_string": WISH, "new_string": "cheat"})
        shell = messages.tool_use("Bash", {"command": "echo 'cheat = 1' > prepare.py"})
        return [
            ("no_change", "(exit code 0)", CLAIM, [messages.text(CLAIM)]),
            ("no_change", "(exit code 0, permission denied)", CLAIM, [there, messages.text(CLAIM)]),
            ("no_change", "(exit code 0)", CLAIM, [above, messages.text(CLAIM)]),
            ("no_change", "(exit code 0)", CLAIM, [shell, messages.text(CLAIM)]),
            ("no_change", "refusal", "frontier_llm", [messages.refusal()] * 3),  # it asks again, then another model
        ]

    def troubles(self) -> list[tuple[str, str, Session]]:
        """Sessions that say that no call can succeed now: reason, a word of the record, script."""
        return [
            ("auth", "no such key: [key removed]", [messages.error_status(401, "authentication_error", f"no such key: {KEY}")]),
            ("rate_limited", "slow down", [messages.error_status(429, "rate_limit_error", "slow down")]),
        ]

    def _edit(self, path: str, old: str, new: str) -> Answer:
        return messages.tool_use("Edit", {"file_path": path, "old_string": old, "new_string": new})


class Codex:
    """Codex, as its package for the SDK has it."""

    name, package = "codex", "openai-codex-cli-bin"
    usage: ClassVar[dict[str, int]] = {
        "input_tokens": 200,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "output_tokens": 40,
    }
    model: str | None = None

    def binary(self) -> Path | None:
        """Where the package has it."""
        return inside("codex_cli_bin", "bin/codex")

    def serve(self, scripts: Sequence[Session]) -> AbstractContextManager[messages.Stub]:
        """Its server."""
        return responses.stub(Sessions(lambda body: str(body["prompt_cache_key"]), scripts))

    def law(self, url: str, monkeypatch: pytest.MonkeyPatch) -> str:
        """What program.md says of it: the default command, the server, and no sandbox where none can be."""
        monkeypatch.setenv("STUB_KEY", KEY)
        words = list(agents.default_template("codex"))
        words[words.index("-") : words.index("-")] = responses.provider(url, "STUB_KEY")
        words[words.index("workspace-write")] = sandbox(str(self.binary()))
        return f'adapter = "codex"\nkeys = ["STUB_KEY"]\ncommand = {json.dumps(words)}'

    def edit(self, old: str, new: str, words: str) -> Session:
        """By its patch tool."""
        return [responses.custom_call("apply_patch", self._patch("Update File: train.py", f"@@\n-{old}\n+{new}")), responses.say(words)]

    def other_edit(self, old: str, new: str, words: str) -> Session:
        """By its shell, which its newer models call from a script."""
        command = json.dumps({"cmd": f"sed -i 's/^{old}$/{new}/' train.py"})
        script = f"const done = await tools.exec_command({command}); text(done.output);"
        return [responses.custom_call("exec", script), responses.say(words)]

    def silent(self, after: int | None) -> Answer:
        """A server that goes silent, perhaps after some events."""
        return responses.silent(60, after)

    def no_edits(self) -> list[tuple[str, str, str, Session]]:
        """Sessions without an edit in scope: reason, a word of the refusal, a word of the record, script."""
        both = self._patch("Update File: train.py", "@@\n-VALUE = 1.2\n+VALUE = 0.5", "Add File: prepare.py", "+cheat = 1")
        above = self._patch("Add File: ../prepare.py", "+cheat = 1")
        wrong = self._patch("Update File: train.py", "@@\n-VALUE = 7\n+VALUE = 0.5")
        refused = {**responses.message(""), "content": [{"type": "refusal", "refusal": "I will not."}]}
        return [
            ("no_change", "(exit code 0)", CLAIM, [responses.say(CLAIM)]),
            ("out_of_scope", "prepare.py", CLAIM, [responses.custom_call("apply_patch", both), responses.say(CLAIM)]),
            ("no_change", "(exit code 0)", CLAIM, [responses.custom_call("apply_patch", above), responses.say(CLAIM)]),
            ("no_change", "(exit code 0)", CLAIM, [responses.custom_call("apply_patch", wrong), responses.say(CLAIM)]),
            ("no_change", "(exit code 1", "high demand", [responses.error_status(500, "server_error", "boom")]),
            ("no_change", "against the policy", "policy", [responses.failed("invalid_prompt", "This is against the policy.")]),
            ("no_change", "content_filter", "I can", [responses.incomplete("content_filter", responses.message("I can"))]),
            ("no_change", "(exit code 0)", "", [responses.items(refused)]),
        ]

    def troubles(self) -> list[tuple[str, str, Session]]:
        """Sessions that say that no call can succeed now: reason, a word of the record, script."""
        return [
            ("auth", "no such key: [key removed]", [responses.error_status(401, "invalid_api_key", f"no such key: {KEY}")]),
            ("rate_limited", "429", [responses.error_status(429, "rate_limit_exceeded", "slow down")]),
            ("billing", "Quota", [responses.error_status(429, "insufficient_quota", "no money")]),
        ]

    def _patch(self, *parts: str) -> str:
        named = [f"*** {part}" if part.split(" ")[0] in ("Update", "Add") else part for part in parts]
        return "\n".join(["*** Begin Patch", *named, "*** End Patch", ""])


Cli = Claude | Codex


@dataclass(frozen=True)
class Place:
    """Where the studies of one test lie."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    proxy: socket.socket

    def project(self, cli: Cli, url: str, more: str = "", trials: int = 1) -> Path:
        """A stub project whose agent asks `url`."""
        law = cli.law(url, self.monkeypatch)
        rules = f'[proposer]\nkind = "command"\nwall_seconds = 60\nsilence_seconds = 60\nfailed_calls = 50\n{law}\n{more}\n[stop]\ntrials = {trials}'
        project = make_project(self.folder / "project", rules=rules)
        page = project / "program.md"
        page.write_text(page.read_text().replace("Lower `val_bpb`", f"{WISH}\n\nLower `val_bpb`"))
        git(project, "commit", "-qam", "an agent")
        return project

    def calls_home(self) -> list[bytes]:
        """What was asked of the world outside: every variable for a proxy names a socket that takes calls and never answers."""
        asked = []
        while select.select([self.proxy], [], [], 0)[0]:
            with self.proxy.accept()[0] as call:
                call.settimeout(1)
                asked.append(call.recv(200))
        return asked


def inside(package: str, path: str) -> Path | None:
    """A file of an installed package; `None` when there is none."""
    found = importlib.util.find_spec(package)
    file = Path(found.origin).parent / path if found and found.origin else None
    return file if file and file.is_file() else None


def sandbox(codex: str) -> str:
    """What `-s` must say here: codex's own sandbox if it can be made, else none."""
    with tempfile.TemporaryDirectory() as folder:
        command = [codex, "sandbox", "-c", 'sandbox_mode="workspace-write"', "--", "touch", "made"]
        done = subprocess.run(command, cwd=folder, env=dict(os.environ), capture_output=True, check=False)
        return "workspace-write" if done.returncode == 0 and (Path(folder) / "made").exists() else "danger-full-access"


@pytest.fixture(params=[Claude(), Codex()], ids=lambda cli: str(cli.name))
def cli(request: pytest.FixtureRequest) -> Cli:
    """Each command line that is installed."""
    one: Cli = request.param
    if one.binary() is None:
        pytest.skip(f"the package {one.package} is not installed: pip install 'ratchet-autoresearch[agents]'")
    return one


@pytest.fixture
def place(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A home of their own, no variable of the person's, the binary in PATH; what a failed test left is ended."""
    for name in os.environ:
        if name.startswith(FOREIGN) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    (tmp_path / "home").mkdir()
    (tmp_path / "rooms").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{Path(str(cli.binary())).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "rooms"))
    adopt_orphans()
    before = set(descendants(os.getpid()))
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
            monkeypatch.setenv(name.lower(), f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield Place(tmp_path, monkeypatch, proxy)
    for pid in set(descendants(os.getpid())) - before:
        kill_and_reap(pid)


def record(project: Path, number: int) -> dict[str, Any]:
    """What was kept of one call."""
    found: dict[str, Any] = json.loads((project / "runs" / "t" / "agents" / f"{number:06d}" / "record.json").read_bytes())
    return found


def kept_with(project: Path, words: str) -> list[Path]:
    """The files of a project, history and all, in which these words stand."""
    return [path for path in project.rglob("*") if path.is_file() and words.encode() in path.read_bytes()]


def test_an_edit_of_the_agent_is_kept_and_its_bill_is_in_the_journal(cli: Cli, place: Place) -> None:
    first = cli.edit(
        "VALUE = 1.2", "VALUE = 1.18", "title: a lower value\nhypothesis: less is more\naxis: VALUE\nrefuted_if: it reads worse"
    )
    second = cli.other_edit("VALUE = 1.18", "VALUE = 1.16", "Lower still.")
    with cli.serve([first, second]) as server:
        project = place.project(cli, server.url, trials=2)
        seen = Seen()
        stop = run_study(project, seen=seen)
    study = study_of(project)
    assert (stop.reason, study.refusals) == ("trials", [])
    assert [(row.title, row.status) for row in study.rows] == [("baseline", "keep"), ("a lower value", "keep"), ("Lower still.", "keep")]
    assert [row.value for row in study.rows] == pytest.approx([1.2, 1.18, 1.16], abs=0.002)
    assert (study.rows[1].axis, study.rows[1].edit) == ("VALUE", "VALUE: 1.2 -> 1.18")
    assert "VALUE = 1.16" in git(project, "show", "autoresearch/t:train.py")

    asked = [event for event in seen.events if isinstance(event, Asked)]
    answered = [event for event in seen.events if isinstance(event, Answered)]
    assert [(one.call, one.proposal, one.proposer) for one in asked] == [(1, 1, "command"), (2, 2, "command")]
    assert [(one.outcome, one.detail, one.model) for one in answered] == [("ended", "", cli.model)] * 2
    assert [one.usage for one in answered] == [cli.usage] * 2
    assert [one.tokens for one in answered] == [sum(cli.usage.values())] * 2
    assert (study.calls.made, study.calls.tokens) == (2, 2 * sum(cli.usage.values()))
    if isinstance(cli, Claude):
        assert [one.cost_usd for one in answered] == pytest.approx([0.0024] * 2, rel=0.5)
        assert study.calls.unknown == 0
        assert study.calls.cost_usd == pytest.approx(sum(one.cost_usd or 0 for one in answered))
    else:
        assert [one.cost_usd for one in answered] == [None, None]
        assert (study.calls.unknown, study.calls.cost_usd) == (2, 0)
    assert [record(project, number)["exit_code"] for number in (1, 2)] == [0, 0]

    sent = [json.dumps(body, ensure_ascii=False) for body in server.asked]
    assert len(sent) == len(first) + len(second)
    assert WISH in sent[0] and "\\nVALUE = 1.2\\n" in sent[0] and "\\nVALUE = 1.18\\n" in sent[len(first)]
    assert not any(str(project) in text or KEY in text for text in sent)
    assert all(KEY in json.dumps(request.headers) for request in server.requests)
    assert kept_with(project, KEY) == []
    assert place.calls_home() == []
    assert list((place.folder / "rooms").iterdir()) == []


def test_a_key_or_a_limit_that_lets_no_call_succeed_is_an_absence_at_once(cli: Cli, place: Place) -> None:
    troubles = cli.troubles()
    with cli.serve([*(script for *_, script in troubles), cli.edit("VALUE = 1.2", "VALUE = 1.18", "title: at last")]) as server:
        project = place.project(cli, server.url, 'meanwhile = "stop"')
        stops = [run_study(project), *(resume_study(project) for _ in troubles)]
    assert [stop.reason for stop in stops] == [*(reason for reason, *_ in troubles), "trials"]
    assert {stop.exit_code for stop in stops[:-1]} == {3}
    study = study_of(project)
    assert (study.refused, study.trials, study.calls.made) == (0, 1, len(troubles) + 1)
    kept = [json.loads(path.read_bytes()) for path in sorted((project / "runs" / "t" / "agents").glob("*/record.json"))]
    assert len(kept) == len(troubles) + 1, "what each call said is kept"
    for _, word, _ in troubles:
        assert any(word in one["text"] + one["fault"] for one in kept), word
    assert kept_with(project, KEY) == []


def test_what_is_no_edit_in_scope_is_refused_and_costs_no_trial(cli: Cli, place: Place) -> None:
    sessions = cli.no_edits()
    with cli.serve([*(script for *_, script in sessions), cli.edit("VALUE = 1.2", "VALUE = 1.18", "title: at last")]) as server:
        project = place.project(cli, server.url)
        seen = Seen()
        stop = run_study(project, seen=seen)
    study = study_of(project)
    assert (stop.reason, [row.title for row in study.rows]) == ("trials", ["baseline", "at last"])
    assert [one.reason for one in study.refusals] == [reason for reason, *_ in sessions]
    for number, (refused, (_, told, kept, _)) in enumerate(zip(study.refusals, sessions, strict=True), 1):
        assert told in refused.detail, refused
        assert kept in record(project, number)["text"] + record(project, number)["fault"]
    bills = [event for event in seen.events if isinstance(event, Answered)]
    assert len(bills) == study.calls.made == len(sessions) + 1
    assert all(bill.tokens is None for bill, (_, told, *_) in zip(bills, sessions, strict=False) if re.search("401|429|Quota", told))
    assert seen.kinds().count("launched") == 2
    assert "cheat" not in git(project, "log", "--all", "-p", "--format=%B")
    assert kept_with(project, KEY) == []
    assert place.calls_home() == []


@pytest.mark.parametrize("edited", [False, True], ids=["at once", "after its edit"])
@pytest.mark.parametrize(("limit", "reason"), [("wall_seconds = 2", "agent_timeout"), ("silence_seconds = 1.5", "agent_silent")])
def test_a_server_that_goes_silent_ends_by_our_limit_and_leaves_no_process(
    cli: Cli, place: Place, edited: bool, limit: str, reason: str
) -> None:
    before = set(descendants(os.getpid()))
    script = [*cli.edit("VALUE = 1.2", "VALUE = 1.18", "")[:-1], cli.silent(1)] if edited else [cli.silent(None)]
    with cli.serve([script]) as server:
        project = place.project(cli, server.url, f'{limit}\nfailed_calls = 1\nmeanwhile = "stop"')
        stop = run_study(project)
        assert len(server.asked) == len(script)
    study = study_of(project)
    assert (stop.reason, study.trials, [one.reason for one in study.refusals]) == ("failed_calls", 0, [reason])
    assert set(descendants(os.getpid())) <= before
    assert list((place.folder / "rooms").iterdir()) == []
    kept = record(project, 1)
    assert (kept["late"], kept["fault"], kept["cost_usd"]) == (reason, "no final record", None) and kept["seconds"] < 10
    assert not {"{", '"'} & set(study.refusals[0].detail), "records are for the file that is kept, not for a person"
    assert (study.calls.made, study.calls.unknown, study.calls.open) == (1, 1, {})
    if isinstance(cli, Claude):
        assert kept["usage"] == ({name: count * 2 // 3 for name, count in cli.usage.items() if name != "output_tokens"} if edited else {})


def test_an_agent_without_a_network_ends_by_our_limit_or_by_itself(cli: Cli, place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    before = set(descendants(os.getpid()))
    project = place.project(cli, f"http://127.0.0.1:{port}", 'wall_seconds = 3\nfailed_calls = 1\nmeanwhile = "stop"')
    stop = run_study(project)
    study = study_of(project)
    assert (stop.reason, study.trials, len(study.refusals)) == ("failed_calls", 0, 1)
    detail = study.refusals[0].detail
    assert ("api_error" if isinstance(cli, Claude) else "the agent was not done in 3 s (Reconnecting") in detail
    assert set(descendants(os.getpid())) <= before
