"""program.md becomes `Rules`, or one sentence with the line to look at."""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import RulesInvalid
from harness.rules import Rules, load, parse
from tests.projects import ROOT

STOP = "[stop]\ntrials = 1\n"
HEAD = 4  # the block's first line in `program`


def program(block: str, fence: str = "```") -> str:
    return f"# Goal\n\n{fence}toml rules\n{block}{fence}\n\nmore prose\n"


def refused(text: str) -> RulesInvalid:
    with pytest.raises(RulesInvalid) as caught:
        parse(text)
    return caught.value


def test_the_shortest_program_gets_every_default() -> None:
    rules = parse(program(STOP))
    assert set(Rules.model_fields) == {
        "scope", "metric", "trial", "run", "sandbox", "audit", "result", "crash", "keep", "log", "ban", "correction", "stall", "review", "escalation", "proposer", "model", "stop", "digest",
    }  # fmt: skip
    assert (rules.scope.editable, rules.metric.direction, rules.keep.rule) == (("train.py",), "lower", "debiased")
    assert rules.stop.trials == 1 and rules.stop.hours is None


def test_every_one_of_the_ten_sections_can_be_set() -> None:
    rules = parse(program(
        '[scope]\neditable = ["train.py", "model/net.py"]\nmax_file_kb = 50\n[metric]\nname = "acc"\ndirection = "higher"\nplausible = [0, 1]\n'
        '[trial]\nprofile = "gpu"\nclock = "wall"\namount = 300\nmemory_mb = 8000\n[run]\ncommand = ["{python}", "-u", "train.py"]\nthreads = 2\n'
        'device = "cuda"\n[result]\nprinted_tolerance = 0\n[crash]\nreruns_after_interruption = 0\n[keep]\nrule = "strict"\n'
        'baseline_readings = 2\n[log]\ntrain_log_kb = 64\n[escalation]\nconsecutive_crashes = 2\n'
        '[stop]\nhours = 8\ndeadline = "07:30"\ntarget = 0.9\n'
    ))  # fmt: skip
    assert rules.scope.editable == ("train.py", "model/net.py")
    assert (rules.metric.name, rules.metric.direction, rules.metric.plausible) == ("acc", "higher", (0.0, 1.0))
    assert (rules.trial.profile, rules.trial.clock, rules.trial.amount, rules.trial.memory_mb) == ("gpu", "wall", 300, 8000)
    assert (rules.run.threads, rules.run.device, rules.run.command[1]) == (2, "cuda", "-u")
    assert (rules.result.printed_tolerance, rules.crash.reruns_after_interruption) == (0, 0)
    assert (rules.keep.rule, rules.keep.baseline_readings, rules.log.train_log_kb) == ("strict", 2, 64)
    assert (rules.escalation.consecutive_crashes, rules.stop.hours, rules.stop.deadline, rules.stop.target) == (2, 8, "07:30", 0.9)


# one row a fault: the block, the line inside the block (1-based), and what the sentence says
FAULTS: dict[str, tuple[str, int, str]] = {
    "unknown key": (f"[keep]\nruel = 'strict'\n{STOP}", 2, "unknown key 'ruel' in [keep]; did you mean 'rule'?"),
    "unknown key far down": (f"{STOP}\n# x\n\nhuors = 3\n", 6, "unknown key 'huors' in [stop]; did you mean 'hours'?"),
    "unknown table": (f"{STOP}[metrics]\nname = 'x'\n", 3, "unknown table 'metrics'; did you mean 'metric'?"),
    "key outside a table": (f"trials = 3\n{STOP}", 1, "unknown table 'trials'; did you mean 'trial'?"),
    "table in a table": (f"{STOP}[stop.hours_of]\na = 1\n", 3, "unknown key 'hours_of' in [stop]; did you mean 'hours'?"),
    "digest": (f'{STOP}[metric]\n[run]\n"digest" = 1\n', 5, "unknown key 'digest' in [run]"),
    "top-level digest": (f'digest = "a"\n{STOP}', 1, "unknown key 'digest'"),
    "text for a number": ('[stop]\ntrials = "9"\n', 2, "[stop] trials: input should be a valid integer, but it is '9'"),
    "boolean for a number": ("[stop]\n\ntrials = true\n", 3, "valid integer, but it is True"),
    "fraction for a count": ("[stop]\ntrials = 1.5\n", 2, "valid integer"),
    "text for a list": (f'{STOP}[scope]\neditable = "train.py"\n', 4, "[scope] editable: must be a list in [brackets], but it is 'train.py'"),
    "text for a band": (f'{STOP}[metric]\nplausible = ["0.3", 9]\n', 4, "[metric] plausible.0: input should be a valid number"),
    "band over lines": (f'{STOP}[metric]\nplausible = [\n 0.3,\n "x"]\n', 4, "[metric] plausible.1"),
    "half a band": (f"{STOP}[metric]\nplausible = [1]\n", 4, "[metric] plausible.1: field required"),
    "a character that no process takes": (f'{STOP}[trial]\nprofile = "c\\u0000pu"\n', 4, "has a NUL character, written as an escape"),
    "a price of two": (f"{STOP}[model.prices.a]\ninput = 1\noutput = 1\n[model.prices.\"b.1\"]\ninput = 1\noutput = -1\n", 8, "[model] prices.b.1.output"),
    "a price of two in lines": (f"{STOP}[model]\nprices.a = {{input = 1, output = 1}}\nprices.b = {{input = -1, output = 1}}\n", 5, "[model] prices.b.input"),
    "a share of two": (f"{STOP}[proposer.mix]\nsearch = 1\ncommand = 0\n", 5, "[proposer] mix.command"),
    "a key below a text of keys": (f'[review]  # """\ncriteria = ["""\n[stop]\ntarget = 1\n"""]\n{STOP}target = 0.1\n', 8, "[stop] target (line 11) lies outside"),
    "array of tables": ("[[stop]]\ntrials = 1\n", 1, "[stop]: must be a table of keys"),
    "value for a table": (f"keep = 3\n{STOP}", 1, "[keep]: must be a table of keys, but it is 3"),
    "quoted key": ('[stop]\n"trials" = 0\n', 2, "[stop] trials: input should be greater than or equal to 1"),
    "dotted key": ("stop.hours = 1\nstop.trials = 0\n", 2, "[stop] trials"),
    "inline table": ("\nstop = {trials = 0}\n", 2, "[stop] trials"),
    "spaced header": ("[ stop ]\ntrials = 0\n", 2, "[stop] trials"),
    "indented": ("  [stop]  # when\n  hours = 1\n  trials = -4 # no\n", 3, "[stop] trials"),
    "same key in two tables": (f"[metric]\nname = 'x'\n{STOP}[keep]\nrule = 'best'\n", 6, "input should be 'debiased' or 'strict'"),
    "unknown word": (f'{STOP}[metric]\ndirection = "down"\n', 4, "[metric] direction: input should be 'lower' or 'higher'"),
    "result from a script": (f'{STOP}[result]\nsource = "stdout"\n', 4, "[result] source: input should be 'evaluator'"),
    "nan": ("[stop]\nhours = nan\n", 2, "[stop] hours: input should be a finite number"),
    "infinite": (f"{STOP}[metric]\nplausible = [0.3, inf]\n", 4, "finite number"),
    "infinite target": ("[stop]\ntrials = 1\ntarget = -inf\n", 3, "finite number"),
    "nan amount": (f"{STOP}[trial]\namount = nan\n", 4, "finite number"),
    "deadline of one digit": ('[stop]\ndeadline = "7:30"\n', 2, '[stop] deadline: write a local time of day as "HH:MM"'),
    "deadline at 24": ('[stop]\ndeadline = "24:00"\n', 2, '"HH:MM", but it is \'24:00\''),
    "deadline with seconds": ('[stop]\ndeadline = "07:30:00"\n', 2, '"HH:MM"'),
    "deadline with a line end": ('[stop]\ndeadline = "07:30\\n"\n', 2, '"HH:MM"'),
    "deadline as a TOML time": ("[stop]\ndeadline = 07:30:00\n", 2, "[stop] deadline: input should be a valid string"),
    "band upside down": (f"{STOP}[metric]\nplausible = [9, 1]\n", 4, "low < high"),
    "editable and protected": (f'{STOP}[scope]\nprotected = ["train.py"]\n', 4, "'train.py' is both in [scope] editable ([\"train.py\"] by default) and in protected (line 7); take it out of one list"),
    "editable in a protected folder": (f'{STOP}[scope]\neditable = ["harness/rules.py"]\n', 4, "is both in [scope] editable (line 7) and in protected (["),
    "editable measure": (f'{STOP}[scope]\neditable = ["prepare.py"]\nprotected = []\n', 4, "must not name prepare.py"),
    "editable above": (f'{STOP}[scope]\neditable = ["../train.py"]\n', 4, "below the project's folder"),
    "editable absolute": (f'{STOP}[scope]\neditable = ["/train.py"]\n', 4, "below the project's folder"),
    "editable folder": (f'{STOP}[scope]\neditable = ["model/"]\n', 4, "below the project's folder"),
    "editable in disguise": (f'{STOP}[scope]\neditable = ["./prepare.py"]\n', 4, "plainly written"),
    "editable nothing": (f"{STOP}[scope]\neditable = []\n", 4, "at least 1 item"),
    "editable empty": (f'{STOP}[scope]\neditable = [""]\n', 4, "below the project's folder"),
    "too short a limit": (f'{STOP}[trial]\nclock = "wall"\namount = 300\ntrain_seconds = 60\n', 6, "[trial] train_seconds (line 9) is shorter than amount (line 8): every trial would time out"),
    "a limit shorter than the amount by default": (f'{STOP}[trial]\namount = 1000\nclock = "cpu"\n', 4, "[trial] train_seconds (900.0 by default) is shorter than amount (line 7): every trial would time out"),
    "a target nobody believes": ('[stop]\ntrials = 1\ntarget = 0.2\n', 3, "[stop] target (line 6) lies outside [metric] plausible ([0.3, 20.0] by default): a value that good is never believed"),
    "an axis without a name": (f'{STOP}[ban]\naxes = ["DEPTH", "--"]\n', 4, "[ban] axes (line 7): '--' has no letter and no digit"),
    "a word of braces": (f'{STOP}[ban]\nwords = ["{{0}}", "{{}}"]\n', 4, "[ban] words (line 7): '{}' has no letter and no digit"),
    "an import with its keyword": (f'{STOP}[ban]\nimports = ["import os"]\n', 4, "[ban] imports (line 7): 'import os' is no name of a module"),
    "one constant for both batches": (f'{STOP}[correction]\ntotal_batch = "DEVICE_ROWS"\n', 4, '[correction] micro_batch ("DEVICE_ROWS" by default) and total_batch (line 7) are the same constant'),
    "a rung twice": (f'{STOP}[stall]\nrungs = ["ask", "radical", "ask"]\n', 4, "[stall] rungs (line 7) names 'ask' twice"),
    "a review without criteria": (f'{STOP}[review]\nadded_lines = 0\n', 4, "[review] added_lines (line 7) asks for reviews, but criteria ([] by default) is empty"),
    "a review by an empty list": (f'{STOP}[review]\ncriteria = []\nimplausible = true\n', 5, "[review] implausible (line 8) asks for reviews, but criteria (line 7) is empty"),
    "a criterion without a word": (f'{STOP}[review]\ncriteria = ["--"]\n', 4, "[review] criteria (line 7) has an entry without a word"),
    "quiet hours without an hour": (f'{STOP}[escalation]\nquiet = ["22:30", "22:30"]\n', 4, "[escalation] quiet (line 7) begins and ends at 22:30"),
    "a call dearer than the study": ("[stop]\ntrials = 1\ndollars = 1\n\n[proposer]\ncall_dollars = 2\n", 6, "[proposer] call_dollars (line 9) is more than [stop] dollars (line 6), which is for the whole study"),
    "half a token": (f"{STOP}[trial]\namount = 10.5\n", 4, "whole number of tokens"),
    "no end": ("[metric]\n[stop]\ntarget = 1.0\n", 2, "a study must end by itself"),
    "no stop at all": ("[metric]\n", 1, "[stop] needs at least one of trials, hours, deadline"),
    "empty block": ("", 1, "[stop] needs at least one"),
    "no value": ("[stop]\ntrials =\n", 2, "not valid TOML"),
    "open text": (f'{STOP}[metric]\nname = "val\n', 4, "not valid TOML"),
    "open header": ("[metric]\n\n[stop\n", 3, "not valid TOML"),
    "key twice": ("[stop]\ntrials = 1\n\ntrials = 2\n", 4, "not valid TOML: cannot overwrite a value"),
    "table twice": (f"{STOP}{STOP}", 3, "not valid TOML: cannot declare"),
    "open to the end": (f'{STOP}[metric]\nname = """\n', 5, "not valid TOML"),
    "a number of 5000 digits": (f"{STOP}[trial]\namount = {'9' * 5000}\n", 5, "not valid TOML"),
    "a value thousands of tables deep": ("stop.trials" + ".a" * 900 + " = 1\n", 1, "valid integer"),
    "an unknown table thousands deep": ("x" + ".a" * 900 + f" = 1\n{STOP}", 1, "unknown table 'x'"),
    "a key of 5000 characters": (f"{STOP}{'k' * 5000} = 1\n", 3, "unknown key"),
    "a block without an end in sight": (f"{STOP}{'# prose' * 11000}\n", 0, "the rules block is longer than 64 KiB"),
    "a thousand brackets": (f"{STOP}[run]\ncommand = {'[' * 1000}\n", 5, "not valid TOML"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_line_of_program_md(name: str) -> None:
    block, line, said = FAULTS[name]
    error = refused(program(block))
    assert said in str(error)
    assert error.line == HEAD + line - 1
    assert error.exit_code == 2
    assert "\n" not in str(error)
    assert len(str(error)) < 300


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
@pytest.mark.parametrize("name", ["unknown key far down", "no value", "no end", "band over lines"])
def test_foreign_line_ends_count_like_ours(name: str, ending: str) -> None:
    block, line, said = FAULTS[name]
    error = refused(program(block).replace("\n", ending))
    assert (error.line, said in str(error)) == (HEAD + line - 1, True)


@pytest.mark.parametrize("mark", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_a_character_that_only_python_takes_for_a_line_end_moves_no_line_number(mark: str) -> None:
    assert refused(f"prose {mark} prose\n" + program("[stop]\ntrials = 0\n")).line == HEAD + 2


def test_a_value_is_quoted_in_short() -> None:
    assert len(str(refused(program(f"[stop]\ntrials = '{'x' * 9000}'\n")))) < 200


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 0, "no block fenced with ```toml rules"),
        ("# only prose\n", 0, "no block"),
        ("```toml\n[stop]\ntrials = 1\n```\n", 0, "no block"),
        ("    ```toml rules\n    [stop]\n", 0, "no block"),
        (program(STOP) + program(STOP), 11, "a second rules block; the first is at line 3"),
        (program(STOP) + program(STOP, "~~~"), 11, "a second rules block"),
        ("a\n```toml rules\n[stop]\ntrials = 1\n", 2, "never closed"),
        ("~~~toml rules\n[stop]\ntrials = 1\n```\n", 1, "never closed"),
        ("````toml rules\n[stop]\ntrials = 1\n```\n", 1, "never closed"),
    ],
)
def test_there_must_be_one_closed_block(text: str, line: int, said: str) -> None:
    error = refused(text)
    assert (error.line, said in str(error)) == (line, True), str(error)


@pytest.mark.parametrize("fence", ["```", "~~~", "`````", "~~~~~~", "   ```"])
def test_every_fence_of_markdown_will_do(fence: str) -> None:
    assert parse(program(STOP, fence)).stop.trials == 1
    assert parse(program(STOP, fence).replace("toml rules", "  toml\t rules  ")).stop.trials == 1


def test_other_blocks_are_prose() -> None:
    assert parse("```python\nx = 1\n```\n" + program(STOP) + "```toml\ny = 2\n```\n").stop.trials == 1


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RulesInvalid, match=r"program\.md: not found; write one"):
        load(tmp_path / "program.md")
    with pytest.raises(RulesInvalid, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_file_that_is_no_file_or_has_no_end_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "program.md"
    path.write_bytes(program(STOP).encode() + b"x" * (1024 * 1024))
    with pytest.raises(RulesInvalid, match="larger than 1,024 KiB"):
        load(path)
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/tty")):
        path.unlink()
        path.symlink_to(target)
        with pytest.raises(RulesInvalid, match=r"no regular file|No such device"):
            load(path)


def test_a_nul_byte_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "program.md"
    path.write_bytes(program(STOP).encode() + b"\n\0\0\n")
    with pytest.raises(RulesInvalid, match=r"program\.md:10: has a NUL byte"):
        load(path)


def test_no_two_rules_that_are_merely_unusual_contradict_each_other() -> None:
    unusual = (
        '[ban]\naxes = ["DEPTH"]\n[review]\nsymbols = ["DEPTH"]\ncriteria = ["c"]\n', '[correction]\nattempts = 0\ntotal_batch = "DEVICE_ROWS"\n',
        '[escalation]\nquiet = ["22:30", "06:30"]\n', "[stall]\nrungs = []\n", "[stop]\nplateau = 5\ntarget = 0.95\n",
    )  # fmt: skip
    for lines in unusual:
        assert parse(program(lines + ("" if "[stop]" in lines else "[stop]\n") + "trials = 1\n"))


@pytest.mark.parametrize("start", [b"", codecs.BOM_UTF8])
def test_bytes_that_are_no_utf8_are_named_with_their_line(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "program.md"
    path.write_bytes(start + "für\r\n\n".encode() + b"f\xfcr\n" + program(STOP).encode())
    with pytest.raises(RulesInvalid, match=r"program\.md:3: is not UTF-8 text") as caught:
        load(path)
    assert caught.value.line == 3
    path.write_bytes(program(STOP).encode("utf-16"))
    with pytest.raises(RulesInvalid, match="is not UTF-8 text"):
        load(path)


def test_a_file_from_windows_means_the_same_and_its_digest_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "program.md"
    path.write_bytes(program(STOP).encode())
    plain = load(path)
    path.write_bytes(codecs.BOM_UTF8 + program(STOP).replace("\n", "\r\n").encode())
    windows = load(path)
    assert plain.model_copy(update={"digest": ""}) == windows.model_copy(update={"digest": ""})
    assert windows.digest == hashlib.sha256(path.read_bytes()).hexdigest() != plain.digest


def test_the_sentence_of_a_file_begins_with_path_and_line(tmp_path: Path) -> None:
    path = tmp_path / "program.md"
    path.write_text(program("[stop]\ntrials = 0\n"))
    with pytest.raises(RulesInvalid) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:5: [stop] trials: ")
    assert caught.value.line == 5


@pytest.mark.parametrize(("name", "amount", "trials", "hours", "readings"), [
    ("program.md", 2_097_152, 100, 10, None), ("examples/demo/program.md", 327_680, 8, 1, None), ("examples/short/program.md", 81_920, 2, 1, 1),
])  # fmt: skip
def test_the_shipped_programs_are_valid_and_say_what_they_seem_to_say(
    name: str, amount: int, trials: int, hours: int, readings: int | None
) -> None:
    rules = load(ROOT / name)
    assert (rules.trial.profile, rules.trial.clock, rules.trial.amount) == ("cpu", "tokens", amount)
    assert (rules.stop.trials, rules.stop.hours, rules.keep.baseline_readings) == (trials, hours, readings)
    assert (rules.metric.name, rules.metric.direction, rules.metric.plausible) == ("val_bpb", "lower", (0.3, 20.0))
    assert (rules.keep.rule, rules.keep.complexity_per_line, rules.scope.editable) == ("debiased", 5e-5, ("train.py",))
    assert (rules.run.threads, rules.run.device, rules.escalation.consecutive_crashes) == (1, "auto", 5)


def test_the_program_for_a_gpu_trains_five_minutes_by_the_wall_and_reads_val_bpb() -> None:
    rules = load(ROOT / "examples" / "gpu" / "program.md")
    assert (rules.trial.profile, rules.trial.clock, rules.trial.amount) == ("gpu", "wall", 300)
    assert (rules.metric.name, rules.result.source) == ("val_bpb", "evaluator")
    assert (rules.scope.editable, rules.stop.trials) == (("train.py",), 100)


@given(st.text(alphabet=st.sampled_from("[]={}\"'#.\\\n\r\t `~stoprial10,-"), max_size=60))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_text_is_rules_or_one_sentence_with_a_line_of_the_file(block: str) -> None:
    text = program(block + "\n")
    try:
        assert parse(text).digest
    except RulesInvalid as error:
        assert 0 <= error.line <= len(text.splitlines())
        assert str(error)


def test_every_number_of_the_block_has_an_upper_bound() -> None:
    def numbers(node: Any, path: str) -> Iterator[tuple[str, bool]]:
        if isinstance(node, dict):
            if node.get("type") in ("integer", "number"):
                yield path, "maximum" in node or "exclusiveMaximum" in node
            node = list(node.items())
        for name, one in (
            node
            if isinstance(node, list) and all(isinstance(part, tuple) for part in node)
            else enumerate(node)
            if isinstance(node, list)
            else ()
        ):
            yield from numbers(one, f"{path}.{name}")

    found = dict(numbers(Rules.model_json_schema(), ""))
    assert len(found) > 60
    assert [path for path, bounded in found.items() if not bounded] == []


SECRETS = (
    '[escalation]\nchannels = "ntfy://T0PSECRET/x"', '[escalation]\nchannels = ["PHONE", "ntfy://T0PSECRET/x"]', '[escalation]\nchannels = ["T0P-SECRET"]',
    '[escalation]\nchannels = [["T0PSECRET"]]', '[escalation]\nchannels = { PHONE = "T0PSECRET" }', '[escalation.channels]\n"ntfy://T0PSECRET" = 1',
    '[[escalation]]\nchannels = ["T0PSECRET"]', 'escalation = "ntfy://T0PSECRET"', 'escalation = ["T0PSECRET"]', 'escalation = "T0PSECRET"', '[escalation]\nchannel = "T0PSECRET"',
    '[escalation]\n"ntfy://T0PSECRET" = 1', '[escalation]\nquiet = "ntfy://T0PSECRET"', '[escalation]\nmessages = "ntfy://T0PSECRET"',
    '[proposer]\nkeys = "T0PSECRET"', '[proposer]\nkeys = ["T0P-SECRET"]', '[proposer]\nkeys = { KEY = "T0PSECRET" }', '[proposer]\nkeys = [1, "T0PSECRET", {a = "T0PSECRET"}]',
    '[proposer]\nkind = "anthropic"\nkeys = ["sk-T0PSECRET"]', '[proposer]\ncommand = "agent --token T0PSECRET"', '[proposer]\ncommand = { x = "T0PSECRET" }',
    '[model]\nkey = ["T0PSECRET"]', '[model]\nkey = { KEY = "T0PSECRET" }', '[model]\nkey = "sk-T0PSECRET"', '[model]\nbase_url = "T0PSECRET@host"',
    '[model]\nbase_url = ["https://T0PSECRET@host"]', '[model]\nnames = "https://me:T0PSECRET@host"', '[[model]]\nkey = "T0PSECRET"', '[proposer]\nmix = { "ntfy://T0PSECRET" = 1 }',
)  # fmt: skip


@pytest.mark.parametrize("lines", SECRETS)
def test_an_address_or_a_key_in_the_wrong_place_or_of_the_wrong_type_is_not_repeated(lines: str) -> None:
    first = "" if lines.startswith("escalation") else f"{STOP}\n"
    last = STOP if not first else ""
    with pytest.raises(RulesInvalid) as caught:
        parse(f"```toml rules\n{first}{lines}\n{last}```\n")
    assert "SECRET" not in str(caught.value)
    assert caught.value.line > 1


@pytest.mark.parametrize("entry", ["VALUE()", "train.py:VALUE", "V*", ".", "a.", "two words"])
def test_a_symbol_to_be_reviewed_that_no_program_can_have_is_a_fault(entry: str) -> None:
    with pytest.raises(RulesInvalid, match=r"\[review\] symbols: entry 2 is no name"):
        parse(program(f'[stop]\ntrials = 1\n[review]\nsymbols = ["VALUE", "{entry}"]\ncriteria = ["c"]\n'))


def test_a_symbol_to_be_reviewed_is_spelled_as_python_reads_it() -> None:
    rules = parse(program('[stop]\ntrials = 1\n[review]\nsymbols = ["ＶＡＬＵＥ", "Model.forward"]\ncriteria = ["c"]\n'))
    assert rules.review.symbols == ("VALUE", "Model.forward")
