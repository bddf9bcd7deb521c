"""Agents as small Python scripts, run for real: only what they leave in the files in scope is a proposal, whatever they say, print, exit with or leave alive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.artifacts.study import Study
from harness.errors import ModelUnavailable, ProposalRefused, UserFault
from harness.evaluation import guard
from harness.execution.process import adopt_orphans, boot_id, kill_and_reap
from harness.execution.usage import descendants
from harness.proposers import told, troubles
from harness.proposers.command import Command
from harness.proposers.protocol import Briefing, Page
from harness.rules import Rules
from harness.sections import StopAt
from harness.trial import Proposal
from tests.meters import FreeMeter
from tests.projects import ROOT, Seen, git, resume_study, run_study, set_rules, study_of

pytestmark = pytest.mark.slow

TRAIN = "VALUE = 1.2\n\n\ndef load_model(state, device):\n    return state\n"
KEY = "sk-test-5f1c0a7788/+e9d2"
START = "import os, sys, time, json, subprocess, pathlib\ntrain = pathlib.Path('train.py')\n"
EDIT = "train.write_text(train.read_text().replace('1.2', '1.1'))\n"
RESULT = (
    '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"I have edited train.py.","total_cost_usd":0.02}'
)
LONG = 60.0
Make = Callable[..., Command]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes the proposer of an agent that is this Python code; what a failed test left is ended."""
    adopt_orphans()
    (tmp_path / "rooms").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "rooms"))
    before = set(descendants(os.getpid()))

    def make(code: str, words: tuple[str, ...] = (), **changes: Any) -> Command:
        script = tmp_path / "agent.py"
        script.write_text(START + code)
        settings: dict[str, Any] = {
            "adapter": "plain", "folder": tmp_path / "agents", "wall_seconds": LONG, "silence_seconds": LONG, "output_cap_kb": 64,
            "environment": {"AGENT_KEY": KEY}, "interrupted": lambda: "", "meter": FreeMeter(),
        }  # fmt: skip
        return Command((sys.executable, str(script), *words), **{**settings, **changes})

    yield make
    for pid in set(descendants(os.getpid())) - before:
        kill_and_reap(pid)


def briefing(number: int = 12, words: str = "", **files: str) -> Briefing:
    page = Page(stable=words or f"Make proposal {number}.", changing="")
    return Briefing(
        number=number, incumbent="a" * 40, files=files or {"train.py": TRAIN}, past=(), goal="val_bpb", direction="lower", page=page
    )


def refusal(command: Command) -> ProposalRefused:
    with pytest.raises(ProposalRefused) as caught:
        command.propose(briefing())
    return caught.value


def guard_says(proposal: Proposal) -> str:
    with pytest.raises(ProposalRefused) as caught:
        guard.check(proposal, Rules(stop=StopAt(trials=1)), {"train.py": TRAIN}, {})
    return caught.value.reason


def kept(tmp_path: Path, name: str) -> str:
    return (tmp_path / "agents" / "000012" / name).read_text()


def test_an_edit_of_the_file_in_scope_is_a_proposal(agent: Make, tmp_path: Path) -> None:
    proposal = agent(EDIT + "print('title: a smaller value\\nhypothesis: less is more\\naxis: VALUE\\nrefuted_if: it is worse')").propose(
        briefing()
    )
    assert proposal.files == {"train.py": TRAIN.replace("1.2", "1.1")}
    assert (proposal.id, proposal.parent, proposal.proposer) == (12, "a" * 40, "command")
    assert (proposal.title, proposal.hypothesis, proposal.axis, proposal.refuted_if) == (
        "a smaller value",
        "less is more",
        "VALUE",
        "it is worse",
    )
    assert proposal.edit == "VALUE: 1.2 -> 1.1"
    assert (proposal.model, proposal.usage, proposal.cost_usd) == (None, {}, None)
    assert {path.name for path in (tmp_path / "agents" / "000012").iterdir()} == {"prompt.md", "output.txt", "record.json"}
    assert json.loads(kept(tmp_path, "record.json"))["exit_code"] == 0
    assert not list((tmp_path / "rooms").iterdir())


def test_the_agent_finds_the_files_in_scope_and_the_prompt_and_nothing_else_of_the_project(agent: Make, tmp_path: Path) -> None:
    code = """
print(json.dumps({'files': sorted(os.listdir()), 'cwd': os.getcwd(), 'argv': sys.argv[1:], 'stdin': sys.stdin.read(), 'env': dict(os.environ),
    'study': open('STUDY.md').read(), 'modes': [os.stat(p).st_mode & 0o777 for p in ('STUDY.md', sys.argv[1])],
    'git': subprocess.run(['git', 'log'], capture_output=True).returncode}))
"""
    os.environ["RATCHET_TEST_TOKEN"] = "not-for-agents"
    try:
        command = agent(code, ("{prompt_file}", "<{prompt_file}", "x={workdir}", "{output_file}", "{not}{a}{hole}"))
        with pytest.raises(ProposalRefused):
            command.propose(briefing(7))
    finally:
        del os.environ["RATCHET_TEST_TOKEN"]
    seen = json.loads((tmp_path / "agents" / "000007" / "output.txt").read_text())
    assert seen["files"] == ["STUDY.md", "train.py"]
    assert seen["modes"] == [0o400, 0o400]
    assert seen["stdin"] == seen["study"] and seen["stdin"].startswith("Make proposal 7.")
    assert seen["argv"][1] == f"x={seen['cwd']}" and seen["argv"][3] == "{not}{a}{hole}"
    assert not Path(seen["cwd"]).is_relative_to(ROOT) and seen["git"] != 0
    assert seen["env"]["AGENT_KEY"] == "[key removed]" and seen["env"]["HOME"] == os.environ["HOME"]
    assert "not-for-agents" not in json.dumps(seen) and seen["env"]["CUDA_VISIBLE_DEVICES"] == ""
    assert set(seen["env"]) <= {"AGENT_KEY", "HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "NO_COLOR", "TERM",
        "CUDA_VISIBLE_DEVICES", "GIT_CEILING_DIRECTORIES", "PYTHONDONTWRITEBYTECODE", "RATCHET_JOB", "PWD"} | {
        name for name in seen["env"] if name.startswith("XDG_") or "proxy" in name.lower() or "CERT" in name}  # fmt: skip


@pytest.mark.parametrize("code", [
    "pathlib.Path('prepare.py').write_text('cheat')",
    "os.mkdir('torch'); pathlib.Path('torch/__init__.py').write_text('cheat')",
    "pathlib.Path('sitecustomize.py').write_text('cheat')",
    "os.symlink('/etc/passwd', 'data.bin')",
    "os.chmod('STUDY.md', 0o600); pathlib.Path('STUDY.md').write_text('other')",
    "os.remove('STUDY.md')",
    "pathlib.Path(b'\\xff\\xfe.py'.decode('utf-8', 'surrogateescape')).write_text('odd')",
    "os.mkfifo('pipe')",
    "os.mkdir('locked'); pathlib.Path('locked/x.py').write_text('x'); os.chmod('locked', 0)",
    "os.remove('train.py')",
])  # fmt: skip
def test_what_is_changed_outside_the_scope_or_deleted_is_refused_by_the_guard(agent: Make, code: str) -> None:
    proposal = agent(EDIT + code).propose(briefing())
    assert guard_says(proposal) == "out_of_scope"
    proposal.model_dump_json()


def test_litter_of_agents_and_commits_of_their_own_are_not_looked_at(agent: Make) -> None:
    litter = """
os.makedirs('.claude/x'); pathlib.Path('.claude/x/y.json').write_text('{}'); pathlib.Path('.aider.chat.history.md').write_text('hi')
os.makedirs('pkg/__pycache__'); pathlib.Path('pkg/__pycache__/a.pyc').write_text('')
for words in (['init', '-q'], ['add', '-A'], ['-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'mine']):
    subprocess.run(['git', *words], check=True)
"""
    proposal = agent(EDIT + litter).propose(briefing())
    assert list(proposal.files) == ["train.py"]


@pytest.mark.parametrize(("code", "said"), [
    ("print('I have lowered VALUE to 1.1, tests pass, val_bpb is 0.5.')", "I have lowered VALUE"),
    ("print('Shall I go on with the smaller value?')", "Shall I go on"),
    ("sys.exit('error: out of credit')", "exit code 1"),
    ("train.write_text(train.read_text())", "nothing"),
    ("print('\\x1b[31m\\u202eevil\\x07')", "evil"),
])  # fmt: skip
def test_words_without_an_edit_are_no_proposal(agent: Make, code: str, said: str) -> None:
    refused = refusal(agent(code))
    assert refused.reason == "no_change"
    assert said in str(refused) and str(refused).isprintable()


def test_an_error_record_with_exit_code_0_is_read_for_what_it_is(agent: Make) -> None:
    with pytest.raises(ModelUnavailable, match="429") as caught:
        agent(f"print({RESULT!r})", adapter="claude").propose(briefing())
    assert (caught.value.reason, caught.value.backoff, caught.value.until) == ("rate_limited", True, None)
    assert agent(f"{EDIT}print({RESULT!r})", adapter="claude").propose(briefing()).files, (
        "an edit in scope is an edit, whatever the record says"
    )
    assert refusal(agent("print('429 Too Many Requests, I swear')")).reason == "no_change", "words are no record"
    reset = RESULT.replace("I have edited train.py.", "the limit resets at 2031-01-01T00:00:00Z")
    with pytest.raises(ModelUnavailable) as caught:
        agent(f"print({reset!r})", adapter="claude").propose(briefing())
    assert caught.value.until is not None, "a week at most"
    assert (caught.value.until - datetime.now(timezone.utc)).days in (6, 7)


@pytest.mark.parametrize(("fault", "reason"), [
    ("api_error 401", "auth"), ("unexpected status 401 Unauthorized: no such key", "auth"), ("Invalid API key · Please run /login", "auth"),
    ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limited"), ("Quota exceeded. Check your plan and billing details.", "billing"),
    ("api_error 529", "overloaded"), ("no final record", ""), ("permission denied", ""), ("a change of a file failed", ""), ("refusal", ""),
])  # fmt: skip
def test_a_fault_of_the_record_says_whether_the_next_call_can_succeed(fault: str, reason: str) -> None:
    assert troubles.of(fault) == reason


def test_what_an_earlier_call_about_the_same_proposal_left_stays_aside(agent: Make, tmp_path: Path) -> None:
    for _ in range(3):
        agent(EDIT).propose(briefing())
    assert sorted(path.name for path in (tmp_path / "agents").iterdir()) == ["000012", "000012.1", "000012.2"]
    assert all((path / "record.json").exists() for path in (tmp_path / "agents").iterdir())


@pytest.mark.parametrize(("text", "number"), [
    ("title: again\nreplication_of: 17", 17), ("- **Replication of:** trial 3", 3), ("replication_of: none", None), ("title: replication_of: 4", None),
])  # fmt: skip
def test_a_replication_is_declared_in_a_line_of_its_own(agent: Make, text: str, number: int | None) -> None:
    assert told.replication(text) == number
    if number is not None:
        proposal = agent(f"print({text!r})").propose(briefing())
        assert (proposal.replicates, proposal.files) == (number, {})


def test_an_exit_code_after_a_good_edit_is_noted_and_no_more(agent: Make) -> None:
    proposal = agent(EDIT + "print('a smaller value'); sys.exit(1)").propose(briefing())
    assert proposal.title == "a smaller value" and "exit code 1" in proposal.hypothesis
    assert agent(EDIT).propose(briefing()).title == "an edit by plain"


def test_a_daemon_that_detached_twice_is_ended(agent: Make, tmp_path: Path) -> None:
    daemon = f"""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not os.path.exists({str(tmp_path / "pid")!r}):
    time.sleep(0.01)
"""
    assert agent(EDIT + daemon).propose(briefing()).files
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_a_flood_is_capped_and_its_end_is_read(agent: Make, tmp_path: Path) -> None:
    flood = f"for _ in range(400): os.write(1, b'x' * 65536)\nos.write(1, b'\\n' + {RESULT.encode()!r} + b'\\n')"
    proposal = agent(EDIT + flood, adapter="claude").propose(briefing())
    assert proposal.cost_usd == 0.02
    assert (tmp_path / "agents" / "000012" / "output.txt").stat().st_size < 3 * 64 * 1024


@pytest.mark.parametrize(("code", "limits", "reason"), [
    ("print('thinking', flush=True)\ntime.sleep(600)", {"silence_seconds": 1.0}, "agent_silent"),
    ("while True: print('thinking', flush=True); time.sleep(0.05)", {"silence_seconds": 1.0, "wall_seconds": 2.5}, "agent_timeout"),
    ("while True: os.write(1, b'thinking' * 8192)", {"wall_seconds": 1.0}, "agent_timeout"),
    ("print('thinking', flush=True)\nos.close(1); os.close(2)\ntime.sleep(600)", {"silence_seconds": 1.0}, "agent_silent"),
    ("print('thinking', flush=True)\ntime.sleep(600)", {"interrupted": lambda: "SIGINT"}, "interrupted"),
])  # fmt: skip
def test_an_agent_that_does_not_end_is_ended(agent: Make, tmp_path: Path, code: str, limits: dict[str, Any], reason: str) -> None:
    before = set(descendants(os.getpid()))
    refused = refusal(agent(EDIT + code, **limits))
    assert refused.reason == reason
    assert set(descendants(os.getpid())) <= before
    assert json.loads(kept(tmp_path, "record.json"))["late"] == reason


def test_writing_files_is_no_silence(agent: Make) -> None:
    busy = "for n in range(25): train.write_text(f'VALUE = {n}\\n'); time.sleep(0.1)"
    assert agent(busy, silence_seconds=1.2).propose(briefing()).files == {"train.py": "VALUE = 24\n"}


@pytest.mark.parametrize(("code", "reason"), [
    ("train.unlink(); os.symlink('/etc/passwd', 'train.py')", "no_file"),
    ("train.unlink(); os.link('STUDY.md', 'train.py')", "no_file"),
    ("train.unlink(); train.mkdir()", "no_file"),
    ("train.unlink(); os.mkfifo('train.py')", "no_file"),
    ("train.open('r+b').truncate(100 << 20)", "too_big"),
    ("train.write_bytes(b'VALUE = 1 # \\xff')", "characters"),
    ("train.write_text('# ' + os.environ['AGENT_KEY'])", "secret"),
    ("train.unlink(); os.remove('STUDY.md'); os.rmdir(os.getcwd()); os.symlink('/etc', os.environ['TMPDIR'] + '/../work')", "no_file"),
])  # fmt: skip
def test_a_file_that_is_no_plain_text_any_more_is_refused_unread(agent: Make, code: str, reason: str) -> None:
    assert refusal(agent(code)).reason == reason


def test_the_key_is_in_no_file_that_is_kept(agent: Make, tmp_path: Path) -> None:
    code = """
key = os.environ['AGENT_KEY']
import base64, urllib.parse

for _ in range(5000): os.write(1, key.encode())
print('title: my key is', key, json.dumps(key), urllib.parse.quote(key, safe=''), base64.b64encode(key.encode()).decode())
pathlib.Path(sys.argv[1]).write_text('last ' + key)
"""
    proposal = agent(EDIT + code, ("{output_file}", "--key", KEY)).propose(briefing(words=f"the key is {KEY}"))
    stored = [proposal.model_dump_json(), *(path.read_text() for path in (tmp_path / "agents").rglob("*") if path.is_file())]
    for piece in (KEY, KEY.replace("/", "%2F").replace("+", "%2B"), KEY[-12:], "c2stdGVzdC01ZjFjMGE3Nzg4"):
        assert not any(piece in text for text in stored), piece


def test_a_command_that_is_not_there_is_an_absence_and_a_wrong_setting_the_users_fault(agent: Make, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"folder": tmp_path, "wall_seconds": 1, "silence_seconds": 1, "output_cap_kb": 16, "environment": {}}
    settings |= {"interrupted": lambda: "", "meter": FreeMeter()}
    with pytest.raises(ModelUnavailable, match="no-such-agent"):
        Command(("no-such-agent",), "plain", **settings).propose(briefing())
    settings["meter"] = FreeMeter()
    with pytest.raises(ProposalRefused, match="prompt_file"):
        Command((sys.executable, "{prompt}"), "plain", **settings).propose(briefing(words="x" * 200_000))
    with pytest.raises(UserFault, match="claude"):
        Command(("x",), "cluade", **settings)
    with pytest.raises(UserFault, match="no word"):
        Command((), "plain", **settings)


def test_an_agent_that_wants_a_repository_gets_an_empty_one(agent: Make, tmp_path: Path) -> None:
    code = "print(json.dumps([subprocess.run(['git', *w], capture_output=True, text=True).stdout.strip() for w in (['rev-parse', '--show-toplevel'],"
    agent(EDIT + code + " ['log', '--all'])] + [os.getcwd()]))", adapter="codex").propose(briefing())
    top, log, cwd = json.loads(kept(tmp_path, "output.txt"))
    assert (top, log) == (cwd, "")


def test_what_a_killed_harness_left_of_the_same_call_is_ended_first(agent: Make, tmp_path: Path) -> None:
    marker, place = "agent-0123456789abcdef", tmp_path / "ratchet-agent-left"
    place.mkdir()
    stray = subprocess.Popen(["sleep", "600"], env={"RATCHET_JOB": marker})
    folder = tmp_path / "agents" / "000012"
    folder.mkdir(parents=True)
    facts = {"pid": stray.pid, "started": 0.0, "boot": boot_id(), "marker": marker, "place": str(place)}
    (folder / "running.json").write_text(json.dumps(facts))
    assert agent(EDIT).propose(briefing()).files
    stray.wait(5)
    assert not psutil.pid_exists(stray.pid) and not place.exists()


def test_a_whole_study_with_an_agent(project: Path, tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(START + """
study, text = open('STUDY.md').read(), train.read_text()
assert 'VALUE' in study and sys.stdin.read() == study
count = pathlib.Path(sys.argv[1])
number = len(count.read_text()) if count.exists() else 0
count.write_text('x' * (number + 1))
if number == 1: pathlib.Path('prepare.py').write_text('cheat')
if number != 2: train.write_text(text.replace('VALUE = 1.', 'VALUE = 1.0'))
if number == 3: print('title: lower still')
print('Done.')
""")  # fmt: skip
    words = json.dumps([sys.executable, str(script), str(tmp_path / "count"), "<{prompt_file}"])
    set_rules(project, f"[proposer]\ncommand = {words}\n[stop]\ntrials = 2")
    git(project, "commit", "-qam", "an agent")
    seen = Seen()
    stop = run_study(project, seen=seen, proposer="command")
    study: Study = study_of(project)
    assert (stop.reason, [row.proposal for row in study.rows]) == ("trials", [None, 1, 4])
    assert [one.reason for one in study.refusals] == ["out_of_scope", "no_change"]
    assert study.rows[2].title == "lower still" and study.rows[1].value == pytest.approx(1.02, abs=0.01)


def test_an_edit_of_the_agents_table_takes_effect_with_the_next_call(project: Path, tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import re, sys\nfrom pathlib import Path\nfile = Path('train.py')\n"
        "file.write_text(re.sub('^VALUE = .*', 'VALUE = ' + sys.argv[1], file.read_text(), flags=re.M))\nprint('title: ' + sys.argv[1])\n"
    )

    def words(value: str) -> str:
        return f'[proposer]\ncommand = ["{sys.executable}", "{agent}", "{value}"]'

    set_rules(project, words("1.1"))
    git(project, "commit", "-qam", "an agent")
    seen = Seen(on_event=lambda entry, study: set_rules(project, words("1.05")) if study.row_count == 2 else None)
    run_study(project, seen=seen, proposer="command", trials=2)
    assert [row.title for row in study_of(project).rows] == ["baseline", "1.1", "1.05"]


def test_a_key_that_comes_together_only_in_the_reading_is_taken_out_all_the_same(agent: Make, tmp_path: Path) -> None:
    code = "key = os.environ['AGENT_KEY']\nprint('title: it is ' + key[:9] + '\x1b[0m' + key[9:])\n"
    for edit in (EDIT, ""):
        try:
            told = str(agent(code + edit).propose(briefing()))
        except ProposalRefused as refusal:
            told = str(refusal)
        assert KEY not in told
        assert "key removed" in told


def test_a_call_that_is_refused_says_what_it_cost(agent: Make) -> None:
    record = "print(json.dumps({'type': 'result', 'subtype': 'success', 'is_error': False, 'result': 'done', 'total_cost_usd': 0.02}))\n"
    link = record + "train.unlink()\ntrain.symlink_to('/etc/hostname')\n"
    with pytest.raises(ProposalRefused) as caught:
        agent(link, adapter="claude").propose(briefing())
    assert caught.value.cost_usd == 0.02


def test_an_agent_of_a_killed_harness_is_ended_by_the_next_resume(project: Path, tmp_path: Path) -> None:
    run_study(project, trials=1)
    stray = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env={**os.environ, "RATCHET_JOB": "agent-left-over"})
    call = project / "runs" / "t" / "agents" / "000009"
    call.mkdir(parents=True)
    facts = {"pid": stray.pid, "started": 0.0, "boot": boot_id(), "marker": "agent-left-over", "place": str(tmp_path / "elsewhere")}
    (call / "running.json").write_text(json.dumps(facts))
    resume_study(project, trials=1)
    stray.wait(5)  # it may have been reaped already, by the harness in this process
    assert not psutil.pid_exists(stray.pid)
    assert not (call / "running.json").exists()


def test_an_agent_mended_while_nobody_ran_is_the_one_that_is_asked(project: Path, tmp_path: Path) -> None:
    broken, good = tmp_path / "broken.py", tmp_path / "good.py"
    broken.write_text("print('no')\n")
    good.write_text(START + "train.write_text(train.read_text().replace('VALUE = 1.2', 'VALUE = 1.1'))\nprint('title: mended')\n")

    def ask(script: Path, keys: str) -> str:
        return f'[proposer]\ncommand = ["{sys.executable}", "{script}"]\nkeys = [{keys}]\nfailed_calls = 1\nmeanwhile = "stop"\n[stop]\ntrials = 1'

    set_rules(project, ask(broken, '"PATH"'))
    assert run_study(project, proposer="command").reason == "failed_calls"
    set_rules(project, ask(good, ""))
    assert resume_study(project).reason == "trials"
    assert study_of(project).rows[1].title == "mended"
