"""When a review is due, what a reviewer may be told, which answers are verdicts, and what a promise was worth: pure functions, in tables."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.artifacts.inbox import Closed
from harness.artifacts.oversight_events import Lapsed, Resolved, Reviewed
from harness.artifacts.study import Study
from harness.artifacts.trial_row import TrialRow
from harness.errors import ProposalRefused
from harness.evaluation import approval, critic, critic_reply, promise
from harness.graph import bare
from harness.reviews import Review
from harness.rules import Rules, parse
from harness.trial import Bar, Change, JobEnd, JobOutcome, Proposal, Reading, Status, Verdict
from harness.views import reviewing
from harness.views.lines import line_of
from tests.projects import ROOT, STUB
from tests.test_telling import question as asked

CHANGE = Change(added_lines=40, removed_lines=9, file_sha256="f", ast_sha256="a")
KEEP = Verdict(status=Status.KEEP, reason="better", rule="debiased", value=1.1, gain=0.1, sigma=0.005, next_bar=Bar(ref=1.1))
BEFORE = {"train.py": (STUB / "train.py").read_text()}
DIFF = "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-VALUE = 1.2\n+VALUE = 1.1\n class Model:\n"
GIVEN = critic.build(DIFF, ("keeps the contract", "reads no held-out text"), ("only train.py", "val_bpb (lower is better) is measured"))
SHA = "5" * 64


def rules(lines: str) -> Rules:
    judged = lines.replace("[review]", '[review]\ncriteria = ["the contract is kept"]')
    return parse(f"```toml rules\n[stop]\ntrials = 3\ncalls = 9\n{judged}\n```\n")


def row(memory: float | None = 100.0, trial: int = 1, **changes: Any) -> TrialRow:
    reading = Reading(trial=trial, replicate=0, seed=0, outcome=JobOutcome(end=JobEnd.OK, peak_memory_mb=memory))
    facts = {
        "trial": trial,
        "proposal": 1,
        "parent": "p",
        "change": CHANGE,
        "title": "t",
        "axis": "",
        "edit": "",
        "proposer": "x",
        "folder": "f",
    }
    return TrialRow(**{**facts, "readings": (reading,), **changes})


READ = critic.Read(DIFF, ("-VALUE = 1.2", "+VALUE = 1.1"), frozenset({"Model.forward"}))


def due(lines: str, one: TrialRow | None = None, verdict: Verdict = KEEP, incumbent: TrialRow | None = None, change: critic.Read | None = READ) -> str:  # fmt: skip
    return critic.due(rules(lines), one or row(), verdict, incumbent or row(80.0, 0), change)


def edited(*pairs: tuple[str, str]) -> critic.Read | None:
    """The stub's change by these replacements, as the rules see it."""
    text = BEFORE["train.py"]
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return critic.read(BEFORE, {"train.py": text})


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", ""),
        ("[review]\nadded_lines = 20", "[review] added_lines = 20: this adds 31 net lines"),
        ("[review]\nadded_lines = 31", ""),
        ("[review]\nmemory_percent = 10", "[review] memory_percent = 10: peak memory grows by 25.0 %"),
        ("[review]\nmemory_percent = 25", ""),
        ('[review]\nsymbols = ["Model"]', "[review] symbols: Model is changed"),
        ('[review]\nsymbols = ["Model.forward"]', "[review] symbols: Model.forward is changed"),
        ('[review]\nsymbols = ["VALUE"]', "[review] symbols: a changed line names VALUE"),
        ('[review]\nsymbols = ["Mod", "Other"]', ""),
        ("[review]\nimplausible = true\n[audit]\nimplausible_gain = 0.05", "[review] implausible: a gain of 0.1 is implausibly large"),
        ("[review]\nimplausible = true\n[audit]\nimplausible_gain = 0.5", ""),
    ],
)
def test_a_review_is_due_when_a_rule_asks_and_says_by_which(lines: str, said: str) -> None:
    assert due(lines) == said


ALL = '[review]\nadded_lines = 0\nmemory_percent = 0\nsymbols = ["VALUE"]\nimplausible = true'


def test_only_a_would_be_keep_of_a_proposal_is_reviewed_and_an_approved_one_never_again() -> None:
    assert due(ALL)
    for status in set(Status) - {Status.KEEP}:
        assert due(ALL, verdict=KEEP.model_copy(update={"status": status})) == ""
    assert due(ALL, row(trial=0)) == "" and due(ALL, row(approves=3)) == ""


def test_what_cannot_be_told_asks_for_a_review() -> None:
    assert "not known" in due("[review]\nmemory_percent = 90", row(None))
    assert "not known" in due("[review]\nmemory_percent = 90", incumbent=row(None, 0))
    assert "cannot be shown" in due('[review]\nsymbols = ["Never"]', change=None)
    assert "cannot be shown" in due("[review]\nadded_lines = 9000", change=None)
    assert not due("[review]\nmemory_percent = 90", change=None)
    assert "cannot be told" in due("[review]\nimplausible = true", verdict=KEEP.model_copy(update={"sigma": None}))


START = "def before_training():\n"


@pytest.mark.parametrize(
    "code",
    [
        "    globals()['VALUE'] = 0.5\n", '    globals()["VAL" "UE"] = 0.5\n', '    globals()["\\x56ALUE"] = 0.5\n', "    globals().update(VALUE=0.5)\n",
        "    global VALUE\n    VALUE = 0.5\n", "    global ＶＡＬＵＥ\n    ＶＡＬＵＥ = 0.5\n", '    f"{globals().update(VALUE=0.5)}"\n',
        '    f"{(g := globals()).update(ＶＡＬＵＥ=0.5)}"\n', "    sys.modules[__name__].VALUE = 0.5\n", "    import os as VALUE\n",
    ],
)  # fmt: skip
def test_code_elsewhere_that_puts_another_in_the_place_of_a_symbol_is_seen(code: str) -> None:
    change = edited((START, START + code))
    assert change is not None and due('[review]\nsymbols = ["VALUE"]', change=change).startswith("[review] symbols: ")
    assert due('[review]\nsymbols = ["LEARNING_RATE"]', change=change) == ""


def test_a_method_of_a_class_that_is_not_at_the_top_is_reviewed_by_its_name() -> None:
    texts = [f"if True:\n    class Net:\n        def forward(self, x):\n            return x + {number}\n" for number in (1, 2)]
    before, after = ({"train.py": f"{BEFORE['train.py']}\n{text}"} for text in texts)
    change = critic.read(before, after)
    assert change is not None and "forward is changed" in due('[review]\nsymbols = ["Net.forward"]', change=change)
    assert due('[review]\nsymbols = ["Net.backward"]', change=change) == ""


def test_a_change_inside_what_a_function_binds_to_a_symbol_is_a_change_of_the_symbol() -> None:
    texts = [START + f"    global VALUE\n\n    def VALUE():\n        a = 1\n        b = 2\n        c = {number}\n" for number in (3, 4)]
    before, after = ({"train.py": BEFORE["train.py"].replace(START, text)} for text in texts)
    change = critic.read(before, after)
    assert change is not None and not any("VALUE" in line for line in change.lines)
    assert due('[review]\nsymbols = ["VALUE"]', change=change) == "[review] symbols: VALUE is changed"


def test_a_line_of_code_that_looks_like_the_head_of_a_diff_is_read_as_code() -> None:
    code = ("++ b/VALUE\n", "-- a/VALUE\n++ b/VALUE\n", 'f"""\n++ b/{VALUE}\n"""\n', 'f"""\n-- a/{VALUE}\n++ b/{VALUE}\n@@ -1 +1 @@"""\n')
    for one in code:
        for text in (BEFORE["train.py"].replace(START, f"b = a = 1\n{one}{START}"), f"{BEFORE['train.py']}b = a = 1\n{one}"):
            assert due('[review]\nsymbols = ["VALUE"]', change=critic.read(BEFORE, {"train.py": text})), one
    hidden = edited((START, f"f'{{1:\\n++ b/{{VALUE}}\\n}}'\n{START}"))  # a format is written over several lines by some Pythons
    assert due('[review]\nsymbols = ["VALUE"]', change=hidden)
    body = "@@ -1,2 +1,2 @@\n---- a/VALUE\n--- a/VALUE\n+++ b/VALUE\n x = 1"
    assert critic.HEADER.sub("", f"--- a/x.py\n+++ b/x.py\n{body}\n--- a/y.py\n+++ b/y.py\n{body}") == f"{body}\n{body}"
    assert not due('[review]\nsymbols = ["train"]', change=edited(("DEPTH = 2", "DEPTH = 3")))


def test_what_is_packed_into_one_line_counts_as_the_lines_that_it_is() -> None:
    few = row(change=CHANGE.model_copy(update={"added_lines": 1, "removed_lines": 1}))
    law = "[review]\nadded_lines = 5"
    packed = ("; ".join(f"a{i} = {i}" for i in range(60)), "(" + ", ".join(f"a{i} := {i} + len(sys.path)" for i in range(60)) + ")")
    for code in packed:
        assert "net lines" in due(law, few, change=edited(("VALUE = 1.2\n", f"VALUE = 1.1\n{code}\n")))
    spread = edited(("VALUE = 1.2\n", "VALUE = max(\n    1.1,\n    1.0,\n    0.9,\n    0.8,\n    0.7,\n    0.6,\n)\n"))
    assert due(law, few, change=spread) == "" and "31 net lines" in due(law, change=spread)
    docs = edited((START, f'{START}    """One.\n\n    Two.\n    Three.\n    Four.\n    Five.\n    """\n'))
    assert due(law, few, change=docs) == ""


def test_a_file_of_another_system_cannot_be_read() -> None:
    assert critic.read(BEFORE, {"train.py": BEFORE["train.py"].replace("\n", "\r\n")}) is None
    assert critic.read(BEFORE, {"train.py": "\ufeff" + BEFORE["train.py"]}) is None
    assert critic.read(BEFORE, BEFORE) == critic.Read("", (), frozenset())


def test_the_input_has_room_for_three_things_only() -> None:
    """An allow-list by type: nothing of a proposal, a trial or a verdict can be handed over."""
    assert list(inspect.signature(critic.build).parameters) == ["diff", "criteria", "floor"] == list(critic.Input.model_fields)
    assert inspect.get_annotations(critic.build, eval_str=True)["diff"] is str
    assert list(inspect.signature(critic.floor).parameters) == ["rules"]


def test_the_rule_floor_is_in_words_and_without_a_metric_value() -> None:
    law = rules(
        '[metric]\nplausible = [0.37, 19.3]\n[ban]\naxes = ["DEPTH"]\nwords = ["eval("]\nimports = ["ctypes"]\n[keep]\ncomplexity_per_line = 0.0123'
    )
    text = "\n".join(critic.floor(law))
    assert all(word in text for word in ("train.py", "prepare.py", "DEPTH", "eval(", "ctypes"))
    assert not [number for number in ("0.37", "19.3", "0.0123") if number in text]


def test_comments_and_docstrings_are_no_part_of_what_is_shown() -> None:
    text = 'X = 1  # why\n# gone\n\ndef f():\n    """doc\n    more"""\n    return "# no comment"  # ü\n\n"a" "b"\nif X: b"e"; Y = 2\n'
    assert bare.bare(text).text == "X = 1\n\ndef f():\n    ...\n    return '# no comment'\n...\nif X:\n    ...\n    Y = 2"
    assert bare.bare('(\n    "a"  # one\n    # two\n    "b"\n)\n').text == "..."
    for odd in ("def f(:\n", "return 1\n", "a = 1\r\n", "a\0", "x = " + "(" * 5000, "-" * 40_000 + "1"):
        with pytest.raises(SyntaxError):
            bare.bare(odd)


def test_a_text_with_fields_runs_and_is_shown() -> None:
    for code in ('f"{globals().update(VALUE=0.5)}"', '"a" f"{print()}"', 'f"c{X}"'):
        assert "..." not in bare.bare(code).text and code.split("{")[1].split("}")[0] in bare.bare(code).text


@pytest.mark.parametrize("spec", ["\\x7d", "\\x7b", "\\r", "\\t", "\\\\", "\\'", "\\x00", "\\ud800", "{y}}}"])
def test_a_format_that_python_itself_writes_wrongly_is_not_shown_as_another_program(spec: str) -> None:
    text = f"x = f'{{x:{spec}}}'\n"
    try:
        bare.bare(text)
    except SyntaxError:
        return
    assert_same(text)


def test_what_joins_two_statements_once_a_comment_is_gone_is_shown_as_two() -> None:
    assert bare.bare("x = 1 \\\n# c\n-5\n").text == "x = 1\n-5"
    assert bare.bare('"d"; y = """a   \n  b"""\n').text == "...\ny = 'a   \\n  b'"


READS_DOCS = (
    "VALUE = float(__doc__)", "VALUE = float([*globals().values()][1])", 'VALUE = float(getattr(prepare, "__doc__"))',
    "VALUE = float(eval('\\n__doc__'))", "VALUE = float(load_model.__code__.co_consts[0])", "VALUE = float(pydoc.getdoc(load_model))",
    "VALUE = float(vars(prepare)[b'__doc__'.decode()])", "import doctest",
)  # fmt: skip
READS_LINES = (
    "VALUE = float(open(__file__).readline())", "VALUE = float(open('train.py').readline())", "VALUE = sys._getframe().f_lineno", "from inspect import getsource",
    "VALUE = float(open(sys.argv[0]).readline())", "import linecache", "VALUE = float(traceback.extract_stack()[0].line)", "VALUE = open(glob('*.py')[0])",
    "VALUE = __loader__.get_source('x')", "VALUE = load_model.__code__.co_firstlineno", "VALUE = open(sys.orig_argv[1])", "VALUE = open(load_model.__code__.co_filename)",
)  # fmt: skip


@pytest.mark.parametrize("code", [*READS_DOCS, *READS_LINES])
def test_a_change_that_code_may_read_and_nobody_is_shown_cannot_be_read(code: str) -> None:
    """Neither as a number that nobody reviewed, nor as a hypothesis that a reviewer should not see."""
    reading = f'"""1.1"""\n{BEFORE["train.py"].split(chr(34) * 3, 2)[2]}'.replace("VALUE = 1.2", code)
    changed = reading.replace('"""1.1"""', '"""0.5"""').replace("DEPTH = 2", "DEPTH = 3")
    for before, after in ((reading, changed), (changed, BEFORE["train.py"]), (BEFORE["train.py"], reading)):
        assert critic.read({"train.py": before}, {"train.py": after}) is None
    assert critic.read({"train.py": reading}, {"train.py": reading}) is not None
    other = {"train.py": BEFORE["train.py"], "other.py": "X = 1\n"}
    assert critic.read(other, {"train.py": changed, "other.py": "X = 1\n"}) is None, "also what another file reads"
    if code in READS_DOCS:
        noted = reading.replace("DEPTH = 2", "DEPTH = 3  # deeper")
        assert critic.read({"train.py": reading}, {"train.py": noted}) is not None, "no docstring changes"
    else:
        assert critic.read({"train.py": reading}, {"train.py": reading + "\n# more\n"}) is None, "a line is added"


def test_code_that_reads_no_text_of_its_own_may_change_its_comments_and_docstrings() -> None:
    assert edited((START, f'{START}    """What must be so first."""\n    # nothing\n'), ("DEPTH = 2", "DEPTH = 3  # deeper"))


@pytest.mark.parametrize("path", sorted((ROOT / "harness").rglob("*.py"))[::4], ids=lambda path: path.name)
def test_without_its_comments_a_file_is_the_same_program(path: Path) -> None:
    assert_same(path.read_text())


class Stripped(ast.NodeTransformer):
    """Texts that are whole statements become `...`."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, (str, bytes)):
            return ast.Expr(ast.Constant(...))
        return self.generic_visit(node)


def dumped(tree: ast.AST) -> str:
    """The program; the `u` before a text is a spelling that the tree keeps for its printing and no code can see."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.kind = None
    return ast.dump(tree)


def assert_same(text: str) -> None:
    shown = bare.bare(text).text
    assert dumped(Stripped().visit(ast.parse(text))) == dumped(ast.parse(shown))
    assert not [token for token in tokenize.generate_tokens(io.StringIO(shown).readline) if token.type == tokenize.COMMENT]


PIECES = st.sampled_from([
    "x = 1", "# c", '"""d\n  e"""', "b'e'", 'f"{x}"', 'f"""\n# {x!r:>{y}}\n"""', "x = 1 \\", "  ", "\f", ";", "'# s'", "(", ")", "-5", "if x:", "def f():", "    ", "    pass",
    "\n", "\n", "\n", "é = 'ü'", "ＶＡＬ = 2", "lambda: 0", "1e999", "0x_1F", "'a' 'b' # t", '"\\N{BULLET}"', "x: int = 3", "@f", "else:", "...", "u'v'", "\t",
])  # fmt: skip


@example(["u'v'", 'f"{x}"'])
@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=14))
def test_whatever_compiles_is_shown_as_the_same_program_or_not_at_all(pieces: list[str]) -> None:
    text = "".join(pieces)
    try:
        bare.bare(text)
    except SyntaxError:
        return
    assert_same(text)


# --- answers


def found(**changes: Any) -> dict[str, Any]:
    return {
        "code": "wrong", "target": {"kind": "symbol", "id": "VALUE"}, "evidence": ["+VALUE = 1.1"], "message": "VALUE is below the contract",
        "action": "regenerate", "passes_when": "VALUE is above 1.15", **changes,
    }  # fmt: skip


def said(word: str = "pass", **changes: Any) -> dict[str, Any]:
    return {
        "verdict": word, "findings": [found()] if word == "fail" else [], "checked_criteria": [1, 2], "what_can_be_cut": "nothing",
        "answers_owner_words": "yes", "because": "it keeps the contract", "refuted_if": "VALUE is outside the contract", "input_sha256": SHA, **changes,
    }  # fmt: skip


def taken(answer: object) -> critic_reply.Parsed:
    return critic_reply.parse(answer, GIVEN, SHA, "ratchet 0, m")


def test_a_whole_answer_is_a_verdict_with_our_version_and_digest() -> None:
    for word in ("pass", "fail", "uncertain"):
        parsed = taken(said(word))
        assert parsed.result is not None and parsed.result.verdict == word and not parsed.void
        assert (parsed.result.evaluator_version, parsed.result.input_sha256) == ("ratchet 0, m", SHA)
    assert taken(said(evaluator_version="mine")).void == "malformed"


@pytest.mark.parametrize(
    "change",
    [
        {"message": "this could be better"}, {"message": "needs work"}, {"message": "looks odd"}, {"message": ""}, {"message": 7}, {"evidence": []},
        {"evidence": "+VALUE = 1.1"}, {"evidence": ["OTHER = 3"]}, {"evidence": ["+"]}, {"target": {"kind": "symbol", "id": "Nowhere"}},
        {"target": {"kind": "file", "id": "other.py"}}, {"target": {"kind": "mood", "id": "x"}}, {"target": None}, {"action": "improve"},
        {"action": None}, {"passes_when": ""}, {"passes_when": "could be cleaner"}, {"code": ""}, {"confidence": 0.9},
    ],
)  # fmt: skip
def test_a_finding_that_does_not_say_where_by_what_evidence_and_what_to_do_is_dropped(change: dict[str, Any]) -> None:
    parsed = taken(said("fail", findings=[found(), found(**change)]))
    assert parsed.result is not None and len(parsed.result.findings) == 1 and parsed.dropped == 1
    assert taken(said("fail", findings=[found(**change)])).void == "unfounded"


@pytest.mark.parametrize(
    "one",
    [
        found(), found(message="naming could be better"), found(message="Leaks labels."), found(message=["it reads the held-out text"]),
        found(message="it reads the held-out text", evidence=["gone"]), "train.py reads the held-out text", {"code": "leak"}, "", None, 7, [],
    ],
)  # fmt: skip
def test_a_pass_with_any_finding_is_no_verdict(one: object) -> None:
    assert taken(said(findings=[one])).void == "contradictory"
    assert taken(said(findings=one)).void in ("malformed", "contradictory") or one == []


def test_a_pass_of_what_does_not_answer_the_owners_words_is_no_verdict() -> None:
    assert taken(said(answers_owner_words="no", because="it does something else")).void == "contradictory"
    for word in ("Yes", "no, not at all", "Nope", "partly", "?", "", True, None):
        assert taken(said(answers_owner_words=word)).void == "malformed"
    assert taken(said("fail", answers_owner_words="no")).result is not None
    assert taken({key: value for key, value in said().items() if key != "findings"}).void == "malformed"


@pytest.mark.parametrize(
    "text",
    [
        "Nothing would refute this.", "Nothing I can think of", "There is none", "This cannot be refuted", "I do not know of any", "no observation would show that",
        "not applicable to this change", "n/a n/a n/a", "see above for that", "None that I can think of.", "the change looks correct to me", "it reads worse somehow",
        "VALUE cannot be shown to be wrong", "No value of VALUE would refute it", "there is no run in which VALUE matters", "VALUE can't possibly be wrong",
        "I don’t know of a val_bpb that would", "nothing about val_bpb 1.1", "VALUE = 1.1 is correct", "if it turns out to be bad", "VALUE", "a b c", "it fails for the class",
        "never for any VALUE", "the verdict on VALUE isn't refutable", "irrefutable by any VALUE",
        "No improvement in val_bpb would change that", "No, VALUE is kept", "no VALUE", "See the findings on VALUE", "no change to VALUE",
    ],
)  # fmt: skip
def test_a_falsifier_that_denies_or_names_nothing_that_can_be_seen_is_none(text: str) -> None:
    assert taken(said(refuted_if=text)).void == "no_falsifier"
    assert taken(said("uncertain", refuted_if=text)).result is not None


@pytest.mark.parametrize(
    "text",
    [
        "VALUE is outside the contract", "val_bpb is worse with another seed", "peak memory grows", "a run of 300 steps that diverges", "a run in which VALUE does not matter",
        "The metric reads worse when the weights of Model are frozen", "training with VALUE = 1.2 never fails", "Model returns None",
        "No improvement in val_bpb when the run is repeated", "No drop of val_bpb with another seed",
    ],
)  # fmt: skip
def test_a_falsifier_names_something_of_the_change_the_metric_memory_or_a_number(text: str) -> None:
    assert taken(said(refuted_if=text)).result is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["pass", SHA, "VALUE = 1.1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(critic_reply.FIELDS)) | st.text(max_size=5), inner, max_size=6),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(critic_reply.FIELDS)), JSON, max_size=7),
    st.sets(st.sampled_from(sorted(critic_reply.FIELDS))),
    JSON,
)
def test_whatever_a_reviewer_answers_only_a_valid_pass_leaves_a_keep(changes: dict[str, Any], missing: set[str], other: object) -> None:
    """Random answers, and a valid pass with random fields changed or missing."""
    answer = {name: value for name, value in {**said(), **changes}.items() if name not in missing}
    for one in (answer, other):
        parsed = taken(one)
        review = Review(asked_by="a", model="m", result=parsed.result, void=parsed.void)
        if not critic.passes(review):
            assert critic.ruling(review, "a")[0] in ("review_missing", "review_failed", "review_uncertain")
            continue
        assert isinstance(one, dict) and one["verdict"] == "pass" and one["input_sha256"] == SHA and set(one) <= critic_reply.FIELDS
        assert set(one["checked_criteria"]) == {1, 2} and len(one["refuted_if"].split()) >= 3
        assert not [finding for finding in one.get("findings", ()) if isinstance(finding, dict) and finding == found()]


def test_no_review_is_no_pass() -> None:
    assert not critic.passes(None) and critic.ruling(None, "rule")[0] == "review_missing"
    result = taken(said()).result
    assert critic.passes(Review(asked_by="a", model="m", result=result))
    assert not critic.passes(Review(asked_by="a", model="m", result=result, void="late"))


def test_a_blocked_keep_keeps_its_numbers_and_moves_no_bar() -> None:
    bar = Bar(ref=1.2, since=4)
    verdict = critic.blocked(KEEP, "review_failed", "why", bar)
    assert (verdict.status, verdict.reason, verdict.next_bar) == (Status.BLOCKED, "review_failed", bar)
    assert (verdict.value, verdict.gain) == (KEEP.value, KEEP.gain)


def test_nobody_can_call_a_proposal_approved_but_the_person() -> None:
    proposal = Proposal(id=2, parent="p", title="t", files={"train.py": "x"}, proposer="own", approves=1)
    study = Study(rows=[row()], row_count=1)
    with pytest.raises(ProposalRefused, match="nobody approved trial 1"):
        approval.check(proposal, CHANGE, study)


# --- promises


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.01", 0.01), ("+0.003 bpb", 0.003), ("-0.002", -0.002), ("about 1e-3", 0.001), ("0.001 to 0.003", 0.002), ("0.5%", None), ("better", None),
        ("", None), ("0.001 after 200 steps", None), ("val_bpb2 falls", None), ("1.2.3", None), ("between 1 and 3 and 5", None),
    ],
)  # fmt: skip
def test_one_number_of_a_promise_is_read_and_no_guess_is_made(text: str, number: float | None) -> None:
    assert promise.expected(text) == (pytest.approx(number) if number is not None else None)


def test_a_promise_is_checked_against_the_change_and_the_numbers() -> None:
    kept = promise.verify("MATRIX_LR", "it reads worse", "0.01", ["MATRIX_LR = 0.03"], 0.002, 0.001)
    assert kept.axis_in_change and kept.says_what_refutes and kept.better and kept.expectation_refuted
    kept = promise.verify("MATRIX_LR", "", "much", ["MATRIX_LR_2 = 0.03"], None, None)
    assert kept.axis_in_change is False and not kept.says_what_refutes and kept.better is None and kept.expectation_refuted is None
    assert promise.verify("warmup", "", "", ["warmup_steps = 3"], None, None).axis_in_change is True
    assert promise.verify("", "", "", ["x"], 0.1, 0.1).axis_in_change is None


def test_predictions_are_compared_in_bins() -> None:
    bins = promise.calibration([(-0.1, 0.0, 0.1), (0.05, 0.1, 0.1), (0.05, -0.1, 0.1), (0.2, 0.1, 0.1), (0.9, 0.1, 0.1), (1.0, 1.0, 0.0)])
    assert [(one.low, one.high, one.trials, one.better, one.reached) for one in bins] == [
        (None, 0.0, 1, 0, 1), (0.0, 1.0, 2, 1, 1), (1.0, 3.0, 1, 1, 0), (3.0, None, 1, 1, 0),
    ]  # fmt: skip


def test_no_decision_rests_on_a_prediction() -> None:
    """Promises and their calibration are for people: only views read them, and of the whole path of a decision nothing reads `expected`."""
    readers = {"harness/evaluation/promise.py"}
    for path in sorted((ROOT / "harness").rglob("*.py")):
        name, tree = path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())
        imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
        if any(node.module == "harness.evaluation.promise" or (node.module == "harness.evaluation" and "promise" in {one.name for one in node.names}) for node in imported):  # fmt: skip
            assert name.startswith("harness/views/"), name
            readers.add(name)
        told = ("expected", "expected_effect")  # as an attribute, or as a text by which one is looked up
        reads = [
            node
            for node in ast.walk(tree)
            if getattr(node, "attr", None) in told or (isinstance(node, ast.Constant) and node.value in told)
        ]
        if reads and not name.startswith(("harness/views/", "harness/proposers/")):
            checks = {
                "harness/checks.py",
                "harness/control/findings.py",
                "harness/evaluation/findings.py",
            }  # what a task's check expected, not a promise
            assert name in {"harness/control/desk.py", *checks, *readers}, name
    assert readers == {"harness/evaluation/promise.py", "harness/views/reviewing.py"}


# --- what became of verdicts


def result(word: str) -> Any:
    parsed = taken(said(word))
    assert parsed.result is not None
    return Review(asked_by="[review] symbols: VALUE is changed", model="m", result=parsed.result)


def reviewed() -> Study:
    """Five reviewed trials: kept, kept and gone, blocked and approved and kept, left, waiting; one without a verdict."""
    kept = KEEP.model_copy(update={"value": 1.1, "gain": 0.1})
    stopped = critic.blocked(kept, "review_failed", "why", Bar(ref=1.2))
    verdicts = {1: kept, 2: kept, 3: stopped, 4: stopped, 5: stopped, 6: stopped}
    rows = [
        row(trial=0, verdict=KEEP),
        *(row(trial=number, verdict=one) for number, one in verdicts.items()),
        row(trial=7, verdict=kept, approves=3),
    ]
    study = Study(rows=rows, row_count=len(rows), rereadings={2: [1.1, 1.21]})
    words = {1: "pass", 2: "pass", 3: "fail", 4: "uncertain", 5: "fail"}
    study.reviewing.reviews = {
        **{trial: result(word) for trial, word in words.items()},
        6: Review(asked_by="a", model="m", void="prose", detail="no call"),
    }
    study.reviewing.approved = {3: "proposed", 6: "the incumbent has been replaced"}
    study.inbox.closed = [
        Closed(question=asked(2, key="review:4", default="stop"), resolved=Resolved(question=2, option="leave", by="deadline")),
        Closed(question=asked(1, key="review:3"), resolved=Resolved(question=1, option="keep", by="person")),
    ]
    return study


def test_verdicts_are_set_against_what_became_of_them() -> None:
    study = reviewed()
    fates = {trial: reviewing.fate(study, trial) for trial in study.reviewing.reviews}
    assert fates == {
        1: "kept", 2: "kept, gone when measured again", 3: "approved and kept", 4: "left", 5: "waits for an answer", 6: "approved too late",
    }  # fmt: skip
    text = reviewing.section(study)
    assert "approved by a person and kept again): 1" in text and "gone when measured again): 1" in text
    assert "| pass | 1 | 1 |" in text and "prose: no call" in text
    assert reviewing.section(Study()) == reviewing.calibration(Study()) == "" and reviewing.status_lines(Study()) == []
    assert reviewing.status_lines(study) == ["  reviews    6 reviews: 2 pass, 2 fail, 1 uncertain, 1 without a verdict"]


def test_a_review_is_worth_a_line_on_the_console() -> None:
    study = reviewed()
    said = line_of(Reviewed(trial=3, review=study.reviewing.reviews[3]), study)
    assert said == "trial 3 reviewed by m, [review] symbols: VALUE is changed: fail: wrong: VALUE is below the contract"
    assert line_of(Lapsed(trial=6, why="gone"), study) == "gone"


def test_the_report_shows_what_predictions_were_worth() -> None:
    told = [("0.02", 0.01), ("0.02 to 0.04", 0.05), ("much", 0.3)]
    rows = [
        row(trial=number, expected=text, verdict=KEEP.model_copy(update={"gain": gain, "standard_error": 0.01}))
        for number, (text, gain) in enumerate(told)
    ]
    text = reviewing.calibration(Study(rows=rows, row_count=3))
    assert "above 1, up to 3 | 2 | +0.0250 | +0.0300 | 2 of 2 | 1 of 2" in text and "Nothing rests on a prediction" in text
