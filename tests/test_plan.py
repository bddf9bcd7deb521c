"""`ratchet plan`: a page before the night that says what would be refused, and changes nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness import cli
from harness.artifacts.events import Entry, Settled
from harness.artifacts.study import Study
from harness.control.limits import Limits, at_start
from harness.control.outlook import Outlook, look
from harness.errors import RatchetError, RulesInvalid
from harness.execution.clock import SystemClock
from harness.execution.device import Lock, lock_folder
from harness.rules import Rules, parse
from harness.views import plan, rules_text
from tests.messages_stub import error_status, stub, text
from tests.projects import ROOT, Seen, edits_file, git, run_study, set_rules

MODEL = '[proposer]\nkind = "anthropic"\n[model]\nkey = "PLAN_KEY"\n[stop]\ndollars = 5'
AGENT = '[proposer]\nkind = "command"\ncommand = ["agent-of-mine", "{prompt_file}"]'
SECRET = "sk-very-secret-value-0123456789"


@pytest.fixture(autouse=True)
def _own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("ANTHROPIC_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PLAN_KEY", SECRET)


def planned(project: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and what was printed."""
    done = CliRunner().invoke(cli.cli, ["plan", *arguments, "--project", str(project)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def facts(project: Path, *arguments: str) -> dict[str, Any]:
    """The same as a dictionary."""
    found = json.loads(planned(project, *arguments, "--json")[1])
    assert isinstance(found, dict)
    return found


def seen(project: Path, proposer: str | None = None, offline: bool = True, **amounts: Any) -> Outlook:
    return look(project, project / "program.md", proposer, amounts, offline, SystemClock())


def flat(page: str) -> str:
    """The page without its line breaks."""
    return " ".join(page.split())


def untouched(project: Path) -> list[str]:
    return git(project, "for-each-ref").splitlines() + sorted(str(path) for path in project.rglob("*"))


def no_change(project: Path) -> None:
    """As it is."""


def lose_data(project: Path) -> None:
    (project / "data.bin").unlink()


def modify(project: Path) -> None:
    (project / "train.py").write_text((project / "train.py").read_text() + "# mine\n")


def unpriced(project: Path) -> None:
    set_rules(project, f'{MODEL}\n[model]\nnames = ["my-model"]')


def no_limit(project: Path) -> None:
    set_rules(project, '[proposer]\nkind = "anthropic"')


def no_key(project: Path) -> None:
    set_rules(project, f'{MODEL}\n[model]\nkey = "NO_SUCH_KEY"')


def no_call_dollars(project: Path) -> None:
    set_rules(project, f"{AGENT}\n[stop]\ndollars = 5")


def no_launcher(project: Path) -> None:
    set_rules(project, '[run]\ncommand = ["no-such-launcher"]')


def test_the_page_of_a_plain_night_is_short_aligned_and_changes_nothing(project: Path) -> None:
    before = untouched(project)
    code, page = planned(project)
    assert code == 0 and untouched(project) == before and not lock_folder().exists()
    lines = page.splitlines()
    assert 25 <= len(lines) <= 70 and max(map(len, lines)) <= 240 and all(line.isprintable() for line in lines)
    for word in (
        "scope",
        "metric",
        "trial",
        "run",
        "result",
        "crash",
        "keep",
        "log",
        "escalation",
        "stop",
        "proposer",
        "device",
        "data",
        "trials",
        "ends",
    ):
        assert any(line.startswith(f"  {word:<12}") for line in lines), word
    for part in (
        "program.md (",
        "search, offline and at no cost",
        "4, and 1 of the baseline",
        "none: no model is asked",
        "`ratchet run --tag NAME`",
    ):
        assert part in page
    assert not any(line.startswith("  model ") for line in lines) and "The models" not in page


@pytest.mark.parametrize("program", ["program.md", "examples/demo/program.md"])
def test_the_programs_of_this_repository_have_a_page(program: str) -> None:
    outlook = look(ROOT, ROOT / program, None, {}, True)
    assert len(plan.as_text(outlook).splitlines()) <= 70
    assert json.loads(json.dumps(plan.as_dict(outlook), allow_nan=False))["rules"]["metric"].startswith("val_bpb, lower is better")


@pytest.mark.parametrize(
    ("change", "arguments"),
    [
        (lose_data, []), (modify, []), (unpriced, []), (no_limit, []), (no_key, []), (no_call_dollars, []), (no_launcher, []),
        (no_change, ["--proposer", "serach"]), (no_change, ["--proposer", "command"]), (no_change, ["--proposer", "anthropic"]),
    ],
)  # fmt: skip
def test_what_run_would_refuse_is_said_in_the_same_sentence(
    make_project: Callable[..., Path], change: Callable[[Path], None], arguments: list[str]
) -> None:
    project = make_project()
    change(project)
    refused = CliRunner().invoke(cli.cli, ["run", "--tag", "t", *arguments, "--project", str(project)]).exception
    assert isinstance(refused, RatchetError)
    before = untouched(project)
    code, page = planned(project, "--offline", *arguments)
    assert code == 2 and untouched(project) == before
    assert f"It cannot start as it is: - {flat(str(refused))}" in flat(page)
    assert facts(project, "--offline", *arguments)["refusals"][0] == str(refused)


def test_missing_data_is_a_sentence_and_the_page_goes_on(project: Path) -> None:
    lose_data(project)
    code, page = planned(project)
    assert code == 2 and "  data        " in page and "The forecast" in page
    said = " ".join(page[page.index("  data  ") :].split())
    assert "data.bin is missing or empty" in said and "python prepare.py" in said


def test_rules_that_cannot_be_read_end_it_with_their_own_sentence(project: Path) -> None:
    (project / "program.md").write_text("nothing")
    with pytest.raises(RulesInvalid, match=r"program\.md: no block"):
        planned(project)


def test_flags_count_and_a_deadline_is_checked(project: Path) -> None:
    page = planned(project, "--trials", "7", "--hours", "2.5", "--deadline", "07:30")[1]
    assert "after 7 trials or 2.5 h or 07:30, whichever comes first" in page
    with pytest.raises(RatchetError, match="HH:MM"):
        planned(project, "--deadline", "25:00")
    assert "too short for the baseline and one trial" in flat(planned(project, "--hours", "0.001")[1])


def test_a_model_is_shown_with_price_date_key_and_forecast_but_never_the_keys_value(project: Path) -> None:
    set_rules(project, MODEL)
    code, page = planned(project, "--offline")
    assert code == 0 and SECRET not in page and SECRET not in json.dumps(facts(project, "--offline"))
    for part in ("PLAN_KEY is set", "claude-opus-5-5: 4 in, 20 out", "by the list of 20", "server not asked",
                 "models may use 5 dollars", "[stop] allows 5", "1 to 1.3 proposals become one trial", "the device waits 30 s to 6 min", "no earlier study asked claude-opus-5-5"):  # fmt: skip
        assert part in flat(page), part
    found = facts(project, "--offline")
    assert 0 < found["forecast"]["dollars"]["low"] < found["forecast"]["dollars"]["high"] <= 5
    assert found["models"]["keys"] == {"PLAN_KEY": True} and found["models"]["server"] is None and found["can_start"]
    assert found["models"]["prices"]["claude-opus-5-5"]["input"] == 4.0
    assert "gets no call" in flat(planned(project, "--offline", "--dollars", "0.01")[1])


def test_the_server_is_asked_unless_offline_and_its_refusal_is_printed(project: Path) -> None:
    with stub([text("ok")]) as server:
        set_rules(project, f'{MODEL}\n[model]\nbase_url = "{server.url}"\n[model]\nnames = ["claude-haiku-4-5"]')
        code, page = planned(project)
        assert (code, "answers, and has the models" in page) == (0, True), page
    closed = planned(project)
    assert closed[0] == 0 and "server asked; what it said is at the end" in flat(closed[1])
    assert "cannot be reached now" in flat(closed[1])


def test_a_server_that_refuses_is_a_finding_and_the_night_cannot_start(project: Path) -> None:
    set_rules(project, '[proposer]\nkind = "anthropic"\n[stop]\ndollars = 5')
    code, page = planned(project)
    assert code == 2 and "It cannot start as it is: - the model's server refuses: auth" in flat(page)
    code, page = planned(project, "--offline")
    assert code == 0 and "no key is set (ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN); the model's server was not asked" in flat(page)


def test_an_agent_is_shown_with_its_command_and_whether_it_is_there(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_rules(project, AGENT)
    code, page = planned(project)
    assert code == 2 and "agent `agent-of-mine {prompt_file}`; not found on PATH" in flat(page)
    assert "It cannot start as it is: - the agent 'agent-of-mine' is not found" in flat(page)
    program = tmp_path / "bin" / "agent-of-mine"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    found = facts(project)
    assert found["models"]["agent_at"] == str(program) and found["findings"] == []
    assert found["forecast"]["dollars"] == {"low": None, "high": None}


def test_a_mix_shows_its_shares_and_what_follows_a_limit_used_up(project: Path) -> None:
    set_rules(project, f'{MODEL}\n[proposer]\nmix = {{ anthropic = 3, search = 1 }}\nmeanwhile = "replicate"\n[stop]\ntrials = 1000')
    page = flat(planned(project, "--offline")[1])
    assert "asked anthropic 75%, search 25%" in page
    assert "dollars may be used up after" in page and "then the incumbent is measured again, then search goes on" in page


def test_limits_of_models_without_a_model_are_a_finding(project: Path) -> None:
    code, page = planned(project, "--dollars", "3")
    assert code == 0 and "[stop] dollars limits nothing: no model proposes" in page
    set_rules(project, '[review]\nadded_lines = 3\ncriteria = ["It is shorter than 9 lines."]')
    assert "limits nothing" not in planned(project, "--dollars", "3")[1], "reviews cost money, too"


REVIEWED = '[review]\nadded_lines = 3\ncriteria = ["It is shorter than 9 lines."]\nmodel = "claude-haiku-4-5"\nin_all = 3\n[stop]\ndollars = 50\ntrials = 99'


def test_reviews_are_priced_and_their_model_is_asked_for_though_no_model_proposes(project: Path) -> None:
    with stub([]) as server:
        set_rules(project, f'{REVIEWED}\n[model]\nbase_url = "{server.url}"')
        page = flat(planned(project)[1])
        assert [one.path for one in server.requests] == ["/v1/models/claude-haiku-4-5"] and server.asked == []
    assert "server answers, and has the models" in page and "claude-haiku-4-5: " in page
    assert "reviews at most 3 by claude-haiku-4-5 ([review] in_all), 0." in page and "none: no model is asked" not in page
    found = facts(project, "--offline")
    (aside,) = found["asides"]
    assert (aside["name"], aside["calls"]) == ("reviews", 3) and 0 < aside["dollars"] < 1
    assert found["forecast"]["dollars"] == {"low": 0.0, "high": pytest.approx(aside["dollars"])} and found["forecast"]["calls"]["high"] == 3
    assert facts(project, "--offline", "--dollars", "0.01")["forecast"]["dollars"]["high"] == 0.01, "never above the limit"
    assert facts(project, "--offline", "--trials", "2")["asides"][0]["calls"] == 2, "one a trial"


def test_a_reviewer_that_the_server_refuses_is_said_before_the_night(project: Path) -> None:
    with stub([], elsewhere=error_status(401, "authentication_error", "no")) as server:
        set_rules(project, f'{REVIEWED}\n[model]\nbase_url = "{server.url}"')
        code, page = planned(project)
    assert code == 2 and "[review] asks for reviews by a model, and they cannot be made" in flat(page)


def test_the_critic_of_the_ladder_is_priced_where_somebody_reads_it(project: Path) -> None:
    ladder = '[stall]\nafter = 10\nrungs = ["other_axis", "critic", "ask"]\n[stop]\ntrials = 35'
    set_rules(project, ladder)
    assert facts(project, "--offline")["asides"] == []
    set_rules(project, f"{MODEL}\n{ladder}")
    page = flat(planned(project, "--offline")[1])
    assert "critic at most 3 by claude-opus-5-5 (one in each 10 trials without a keep), 0." in page
    assert "after 10 measured trials without a keep, and every 5 more: another axis, a paid critic, a question to you" in page
    set_rules(project, '[model]\nnames = ["my-own"]\n[stop]\ntokens = 900000')
    page = flat(planned(project, "--offline")[1])
    assert "an unknown price each" in page


def test_earlier_studies_of_the_same_budget_tell_how_long_a_trial_takes(project: Path, tmp_path: Path) -> None:
    assert "unknown until the baseline" in flat(planned(project)[1])
    run_study(project, edits_file(tmp_path, [{"VALUE": 1.1}]), tag="earlier", trials=1)
    page = flat(planned(project)[1])
    assert "1 trial of 1 earlier study with this profile, clock and amount on this device" in page
    assert "between" in page or " at " in page
    set_rules(project, "[trial]\namount = 200")
    assert "unknown until the baseline" in flat(planned(project)[1])
    (project / "runs" / "earlier" / "program.md").write_text("damaged")
    set_rules(project, "[trial]\namount = 100")
    assert "unknown until the baseline" in flat(planned(project)[1])


def test_a_device_in_use_is_said_with_its_holder_and_refuses_nothing(project: Path) -> None:
    with Lock(lock_folder() / "cpu.lock", "the device cpu"):
        code, page = planned(project)
        told = facts(project)
        lose_data(project)
        broken = planned(project)
    assert code == 0 and "It can start with `ratchet run --tag NAME`. To know before: - the device cpu is in use by" in flat(page)
    assert f"by process {os.getpid()} (" in flat(page) and told["can_start"] and "is in use" in told["findings"][0]
    assert broken[0] == 2 and "is in use" in broken[1], "what is wrong is still refused"


def test_an_edit_is_checked_while_its_own_night_runs(project: Path, tmp_path: Path) -> None:
    said: list[tuple[int, str]] = []

    def check(entry: Entry, study: Study) -> None:
        if not said and isinstance(entry.event, Settled) and entry.event.trial == 1:
            set_rules(project, '[ban]\naxes = ["VALUE"]')
            said.append(planned(project, "--offline"))
            set_rules(project, '[keep]\nruel = "strict"')
            with pytest.raises(RulesInvalid, match=r"program\.md:\d+: unknown key 'ruel' in \[keep\]"):
                planned(project, "--offline")

    run_study(project, edits_file(tmp_path, [{"VALUE": 1.3}]), seen=Seen(on_event=check))
    assert said[0][0] == 0 and "refused: a change of VALUE" in said[0][1] and "the device cpu is in use by process" in flat(said[0][1])


def test_the_page_says_once_when_a_question_takes_its_default_and_what_is_sent(project: Path) -> None:
    set_rules(project, "[escalation]\nanswer_minutes = 90")
    page = flat(planned(project)[1])
    assert page.count("default after 90 min") + page.count("default after 1 h 30 min") == 1 and page.count("default") == 1
    assert page.count("sent") == 1 and "no message is sent anywhere ([escalation] channels)" in page


def test_the_page_says_what_the_range_of_the_night_assumes(project: Path) -> None:
    page = flat(planned(project)[1])
    assert "the shortest night has only the quickest trials, the longest only the slowest" in page


def test_a_proposer_of_ones_own_has_a_page_and_an_unknown_bill(project: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("class Mine:\n    def __init__(self, setting): pass\n    def propose(self, briefing):\n        return None\n")
    code, page = planned(project, "--proposer", f"{path}:Mine")
    assert (
        code == 0
        and f"asked {path}:Mine" in flat(page)
        and "dollars unknown" in flat(page)
        and f"what {path}:Mine takes is unknown" in flat(page)
    )
    code, page = planned(project, "--proposer", f"{path}:Yours")
    assert code == 2 and "has no class Yours" in flat(page)


def test_a_list_of_ones_own_needs_no_file_yet(project: Path) -> None:
    assert planned(project, "--proposer", "scripted")[0] == 0


def law(lines: str) -> tuple[Rules, Limits]:
    rules = parse(f"```toml rules\n{lines}\n```\n")
    return rules, at_start(rules, datetime.now().astimezone(), {})


@pytest.mark.parametrize(
    ("lines", "table", "said"),
    [
        ('[keep]\nrule = "strict"\nbaseline_readings = 1', "keep", "the better reading wins; the baseline is read 1 time"),
        ("[keep]\ncomplexity_per_line = 0.0", "keep", "lines cost nothing"),
        ("[crash]\nreruns_after_interruption = 0\ninfrastructure_failures = 1", "crash", "is not run again, 1 such failure pauses the study"),
        ("[crash]\nreruns_after_interruption = 2", "crash", "runs again up to 2 times, 3 such failures in a row pause the study"),
        ('[trial]\nclock = "cpu"\namount = 30\nmemory_mb = 4000', "trial", "30 CPU seconds of training of the profile cpu; limits: 2 min of set-up"),
        ("[keep]", "ban", "nothing is banned"),
        ('[ban]\naxes = ["DEPTH", "Muon"]\nwords = ["dropout"]\nimports = ["os"]', "ban", "refused: a change of DEPTH or Muon; an added line with dropout; an import of os"),
        ("[keep]", "correction", "a failed trial is repaired once, 20 repairs in all of at most 20 lines: out of memory by half of DEVICE_ROWS with the same TOTAL_BATCH, a crash by the model"),
        ("[correction]\nattempts = 3\ncrashes = false", "correction", "repaired up to 3 times, 20 repairs in all"),
        ("[correction]\nattempts = 0", "correction", "a failed trial is not repaired"),
        ("[correction]\nin_all = 0", "correction", "a failed trial is not repaired"),
        ("[keep]", "stall", "after 15 measured trials without a keep, and every 5 more: another axis, near-misses together, a wider briefing, another model, a radical move, a question to you"),
        ('[stall]\nrungs = []', "stall", "nothing changes when nothing is kept"),
        ("[keep]", "review", "no keep is reviewed"),
        ('[review]\nadded_lines = 10\nmemory_percent = 5\nsymbols = ["f"]\nimplausible = true\ncriteria = ["a b"]\nmodel = "m"', "review",
         "a keep that adds more than 10 lines or takes 5 % more memory or changes f or gains more than 10% of the bar is reviewed by m (1 criterion, 20 reviews in all); no verdict, no keep"),
        ("[keep]", "escalation", "5 failed trials or 50 refused proposals in a row end the night (exit code 3); a question takes its default after 8 h 00 min"),
        ('[log]\ncheckpoints = "all"', "log", "the models of all trials stay"),
        ('[run]\ndevice = "cuda"\nthreads = 8', "run", "with 8 threads on the GPU"),
        ('[proposer]\nmeanwhile = "stop"', "proposer", "5 calls in a row without an edit, an outage or a limit used up ends the night"),
        ('[proposer]\nmeanwhile = "wait"\nfailed_calls = 1', "proposer", "after 1 call in a row without an edit it is away"),
        ('[model]\neffort = "high"\nretries = 1\nbase_url = "http://here"', "model", "claude-sonnet-5 at http://here: up to 12 answers"),
        ("[stop]\ntokens = 5000\ncalls = 7\ntarget = 0.9", "stop", "after 3 trials or val_bpb 0.9, whichever comes first; models may use 7 calls, 5,000 tokens"),
    ],
)  # fmt: skip
def test_each_rule_has_its_words(lines: str, table: str, said: str) -> None:
    rules, allowed = law(lines + ("\ntrials = 3" if "[stop]" in lines else "\n[stop]\ntrials = 3"))
    assert said in rules_text.sentences(rules, allowed, ["anthropic", "command"])[table]


ELSEWHERE = {  # with one value only, said under another heading of the plan, or only beside another key
    "scope": {"protected"}, "metric": {"name"}, "trial": {"clock"}, "result": {"source"}, "crash": {"action"}, "proposer": {"kind", "mix", "output_kb"}, "model": {"stream", "prices"},
    "review": {"criteria", "model", "max_tokens", "wall_seconds", "in_all"}, "escalation": {"channels", "quiet", "messages"},
}  # fmt: skip
DOCUMENTED = [
    (table, key, example)
    for section in re.split(r"^### ", (ROOT / "docs" / "program.md").read_text(), flags=re.MULTILINE)[1:]
    for table in re.findall(r"^`\[(\w+)\]`", section)
    for key, example in re.findall(r"^\| `(\w+)` \|.*\| `([^`]*)` \|$", section, re.MULTILINE)
    if key not in ELSEWHERE.get(table, ())
]


@pytest.mark.parametrize(("table", "key", "example"), DOCUMENTED, ids=[f"{table}-{key}" for table, key, _ in DOCUMENTED])
def test_a_key_that_is_set_as_documented_changes_the_words_of_its_table(table: str, key: str, example: str) -> None:
    blocks = {"stop": "trials = 7\n"} if (table, key) != ("stop", "trials") else {}
    beside = blocks.get(table, 'criteria = ["a b"]\n' if table == "review" else "")
    blocks[table] = f"{beside}{key} = {example}\n"
    changed = law("\n".join(f"[{name}]\n{lines}" for name, lines in blocks.items()))
    said = [rules_text.sentences(*one, ["anthropic", "command"])[table] for one in (changed, law("[stop]\ntrials = 7"))]
    assert said[0] != said[1]


def test_every_table_of_the_rules_has_a_sentence() -> None:
    rules, allowed = law("[stop]\ntrials = 3")
    assert set(rules_text.sentences(rules, allowed, ["anthropic"])) == set(Rules.model_fields) - {"digest"}
