"""`[ban]` of program.md is obeyed by code: axes, words and imports that no proposal may bring, each with the entry that was met and the line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.artifacts.events import Refused
from harness.errors import ProposalRefused
from harness.evaluation import bans
from harness.evaluation.guard import check
from harness.oversight import Ban
from harness.proposers.constants import find_constants
from harness.proposers.protocol import Briefing
from harness.proposers.search import Search
from harness.rules import Rules
from harness.sections import StopAt
from harness.trial import Proposal
from tests.projects import Seen, edits_file, run_study, set_rules, study_of

PARENT = '''"""A model."""
import torch
import ctypes

DEPTH = 4  # blocks
WEIGHT_DECAY = 0.1
RATE = 0.04


class Muon:
    """An optimizer."""

    def __init__(self, rate):
        self.rate = rate

    def step(self):
        return self.rate


def build(depth=DEPTH):
    note = "old dropout line"
    return [depth] * DEPTH


def load_model(state, device):
    return state
'''


def told(text: str, ban: Ban, axis: str = "") -> str:
    """What the guard says of a text, '' when it is admitted."""
    proposal = Proposal.model_construct(id=1, parent="c0ffee", title="try", axis=axis, files={"train.py": text}, proposer="scripted")
    try:
        check(proposal, Rules(stop=StopAt(trials=9), ban=ban), {"train.py": PARENT}, {})
    except ProposalRefused as refusal:
        assert refusal.reason == "banned", refusal
        return str(refusal)
    return ""


AXES = {
    "a constant": ("DEPTH", "DEPTH = 4", "DEPTH = 5", "train.py:5 changes DEPTH, and [ban] axes of program.md has 'DEPTH'; propose something else"),
    "in another case": ("depth", "DEPTH = 4", "DEPTH = 5", "train.py:5 changes DEPTH, and [ban] axes of program.md has 'depth'"),
    "taken away": ("DEPTH", "DEPTH = 4  # blocks\n", "", "train.py changes DEPTH"),
    "a class, by one of its methods": ("muon", "return self.rate", "return 2 * self.rate", "train.py:16 changes Muon.step"),
    "one method": ("Muon.step", "return self.rate", "return 2 * self.rate", "changes Muon.step"),
    "a function": ("build", "* DEPTH\n", "* (DEPTH + 1)\n", "train.py:20 changes build"),
    "set again below": ("DEPTH", "RATE = 0.04\n", "RATE = 0.04\nDEPTH = 9\n", "changes DEPTH"),
    "set under a condition": ("DEPTH", "RATE = 0.04\n", "RATE = 0.04\nif RATE:\n    DEPTH = 9\n", "train.py:9 changes DEPTH"),
    "set by a loop": ("DEPTH", "RATE = 0.04\n", "RATE = 0.04\nfor DEPTH in (9,):\n    pass\n", "changes DEPTH"),
    "set inside an expression": ("DEPTH", "RATE = 0.04\n", "RATE = 0.01 * (DEPTH := 9)\n", "changes DEPTH"),
    "set in a function": ("DEPTH", '    note = "old', '    global DEPTH\n    DEPTH = 9\n    note = "old', "changes DEPTH"),
    "imported": ("DEPTH", "RATE = 0.04\n", "RATE = 0.04\nfrom math import tau as DEPTH\n", "changes DEPTH"),
    "by its name as a text": ("DEPTH", "RATE = 0.04\n", "RATE = 0.04\nglobals()['DEPTH'] = 9\n", "changes DEPTH"),
}  # fmt: skip


@pytest.mark.parametrize("name", AXES)
def test_a_banned_axis_may_not_be_turned_however_it_is_written(name: str) -> None:
    entry, old, new, said = AXES[name]
    assert said in told(PARENT.replace(old, new, 1), Ban(axes=(entry,)))


BINDINGS = (
    "{0} = 9", "{0}: int = 9", "{0} += 1", "del {0}", "a, (*{0}, b) = RATE", "def f():\n    global {0}", "def f():\n    {0} = 9", "def f(value, {0}=9):\n    pass",
    "def f(*, {0}=9):\n    pass", "def f(*{0}):\n    pass", "f = lambda {0}: 9", "class {0}:\n    pass", "def f():\n    def {0}():\n        pass", "for {0} in (9,):\n    pass",
    "with open(RATE) as {0}:\n    pass", "x = [{0} for {0} in (9,)]", "x = ({0} := 9)", "try:\n    pass\nexcept ValueError as {0}:\n    pass", "import math as {0}",
    "from math import tau as {0}", "match 9:\n    case {0}:\n        pass", "match RATE:\n    case [*{0}]:\n        pass", "match RATE:\n    case {{**{0}}}:\n        pass",
    "globals()['{0}'] = 9", "vars(torch)['{0}'] = 9", "torch.__dict__['{0}'] = 9", "globals().update({0}=9)", "globals().update({{'{0}': 9}})", "globals().update([('{0}', 9)])",
    "globals().__setitem__('{0}', 9)", "globals().setdefault('{0}', 9)", "setattr(torch, '{0}', 9)", "delattr(torch, '{0}')", "torch.__setattr__('{0}', 9)", "torch.{0} = 9",
    "{0}[0] = 9", "{0}.x = 9", "build({0}=9)", "dict({0}=DIM * 2)", "x = {{'{0}': 9}}", "build(**{{'{0}': 9}})", "groups = [{{'lr': 1, '{0}': 0.1}}]",
)  # fmt: skip
SPELLINGS = {
    "DEPTH": ("DEPTH", "depth", "Depth", "ＤＥＰＴＨ", "depth_of_model", "ModelDepth"),
    "weight decay": ("WEIGHT_DECAY", "weight_decay", "head_Weight_Decay", "weightDecay", "HeadWeightDecay"),
}


@pytest.mark.parametrize("form", BINDINGS)
@pytest.mark.parametrize("entry", ["DEPTH", "depth", "weight decay", "Weight-Decay", "decay"])
def test_every_form_that_binds_a_banned_name_is_refused_with_its_line(form: str, entry: str) -> None:
    for name in SPELLINGS["DEPTH" if entry.casefold() == "depth" else "weight decay"]:
        code = form.format(name)
        compile(code, "added", "exec")
        said = told(PARENT.replace("RATE = 0.04\n", f"RATE = 0.05\n{code}\n"), Ban(axes=(entry,)), "optimizer")
        assert " changes " in said, code
        assert int(said.split(":")[1].split(" ")[0]) in range(8, 9 + code.count("\n")), (code, said)


@given(
    st.lists(st.tuples(st.sampled_from(BINDINGS), st.sampled_from(["RATE", "width", "deep", "Norm", "weight", "dept_h", "depths"])), max_size=4),
    st.sampled_from(["0.04", "0.05", "-3", "'text'"]), st.lists(st.integers(0, 24), max_size=4), st.booleans(),
)  # fmt: skip
def test_an_edit_that_does_not_mention_what_is_banned_is_never_refused_as_banned(
    added: list[tuple[str, str]], rate: str, gone: list[int], reindented: bool
) -> None:
    ban = Ban(axes=("DEPTH", "weight decay"), words=("dropout", "decay"), imports=("ctypes", "os"))
    kept = [
        line for number, line in enumerate(PARENT.replace("0.04", rate).split("\n"))
        if number not in gone or any(word in line.casefold() for word in ("depth", "decay"))
    ]  # fmt: skip
    text = "\n".join([*kept, *(form.format(name) for form, name in added)])
    text = text.replace('    note = "old', '    if True:\n        note = "old') if reindented else text
    try:
        compile(text, "edited", "exec")
    except SyntaxError:
        assume(False)
    assert not said_of(text, ban), text


@given(st.sampled_from(BINDINGS), st.sampled_from(SPELLINGS["DEPTH"]), st.sampled_from(BINDINGS), st.integers(0, 3))
def test_a_binding_is_found_beside_other_edits_and_at_any_depth(form: str, name: str, other: str, deep: int) -> None:
    code = form.format(name)
    for level in range(deep):
        code = f"{'def' if level % 2 else 'class'} Around{level}{'()' if level % 2 else ''}:\n" + "\n".join(
            f"    {line}" for line in code.split("\n")
        )
    text = f"{PARENT}\n{other.format('width')}\n{code}\n"
    try:
        compile(text, "edited", "exec")
    except SyntaxError:
        assume(False)
    assert " changes " in said_of(text, Ban(axes=("DEPTH",)))


def said_of(text: str, ban: Ban) -> str:
    """What the bans alone say of a text."""
    proposal = Proposal.model_construct(id=1, parent="c0ffee", title="try", axis="optimizer", files={}, proposer="scripted")
    try:
        bans.check(proposal, ban, {"train.py": PARENT}, {"train.py": text})
    except ProposalRefused as refusal:
        return str(refusal)
    return ""


@pytest.mark.parametrize(
    ("old", "new"), [("[depth] * DEPTH", "[depth] * (DEPTH + 3)"), ("RATE = 0.04", "LAYERS = 9"), ("RATE = 0.04", "RATE = 0.01 * DEPTH")]
)
def test_how_an_axis_is_used_is_not_held(old: str, new: str) -> None:
    assert told(PARENT.replace(old, new).replace('old dropout line"', 'new"'), Ban(axes=("DEPTH",))) == ""


def test_an_entry_beside_a_banned_one_may_change_in_the_same_call() -> None:
    parent = (
        "CONFIG = {}\nDEPTH = 4\nCONFIG.update(\n    depth=DEPTH,\n    rate=1,\n)\nCONFIG.update({\n    'depth': 1,\n    'width': 2,\n})\n"
    )
    proposal = Proposal.model_construct(id=1, parent="c", title="", axis="", files={}, proposer="scripted")
    ban = Ban(axes=("depth",))
    bans.check(proposal, ban, {"a.py": parent}, {"a.py": parent.replace("rate=1", "rate=2").replace("'width': 2", "'width': 3")})
    for old, new, line in (("depth=DEPTH", "depth=9", 4), ("'depth': 1", "'depth': 9", 8)):
        with pytest.raises(ProposalRefused, match=rf"a\.py:{line} changes depth"):
            bans.check(proposal, ban, {"a.py": parent}, {"a.py": parent.replace(old, new)})


def test_an_axis_that_is_an_argument_or_an_entry_may_not_be_turned_there_and_may_be_handed_on() -> None:
    parent = (
        "DEPTH = 4\nCONFIG = {'depth': 4, 'width': 8}\nmodel = build(depth=DEPTH, width=2)\ngroups = [{'params': p, 'weight_decay': 0.1}]\n"
    )
    proposal = Proposal.model_construct(id=1, parent="c", title="", axis="", files={}, proposer="scripted")
    ban = Ban(axes=("depth", "weight decay"))
    more = "build(depth=model.depth)\nprint({'depth': DEPTH})\n"
    bans.check(proposal, ban, {"a.py": parent}, {"a.py": parent.replace("width=2", "width=3").replace("8", "9") + more})
    edits = (("'depth': 4", "'depth': 9", 2), ("depth=DEPTH", "depth=9", 3), ("depth=DEPTH", "depth=DEPTH + 1", 3), (": 0.1", ": 0.3", 4))
    for old, new, line in edits:
        with pytest.raises(ProposalRefused, match=rf"a\.py:{line} changes (depth|weight_decay),"):
            bans.check(proposal, ban, {"a.py": parent}, {"a.py": parent.replace(old, new)})


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("label smoothing", "loss(x, label_smoothing=0.1)"), ("label smoothing", "# label-smoothing"), ("label smoothing", "nn.LabelSmoothing()"), ("LabelSmoothing", "label_smoothing = 1"),
        ("label  smoothing", "# label smoothing"), ("fp8", "FP8Linear(3)"), ("fp8", "to_fp8(x)"), ("rms_norm", "RMSNorm(3)"), ("drop out", "dropout(3)"), ("c++", "# c++"), ("__import__", "__import__('os')"), ("-O3", "flags = '-O3'"),
    ],
)  # fmt: skip
def test_a_banned_word_is_found_in_every_spelling_that_code_gives_it(entry: str, code: str) -> None:
    assert "train.py:8 adds it" in told(PARENT.replace("RATE = 0.04\n", f"RATE = 0.05\n{code}\n"), Ban(words=(entry,)))


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("x2", "y = RATE - 2"),
        ("x2", "y = x-2"),
        ("weight decay", "y = weight - decay"),
        ("AdamW", "# adam with"),
        ("__import__", "import math"),
        ("__dict__", "y = dict()"),
        ("-O3", "O3 = 1"),
    ],
)
def test_arithmetic_and_other_words_are_no_spelling_of_a_banned_one(entry: str, code: str) -> None:
    assert told(PARENT.replace("RATE = 0.04\n", f"RATE = 0.05\n{code}\n"), Ban(words=(entry,))) == ""


@pytest.mark.parametrize(
    "code",
    [
        "nn.Dropout2d(0.1)",
        "nn.AlphaDropout(0.1)",
        "F.dropout1d(x)",
        "dropoutRate",
        "use_dropout",
        "MYDropout",
        "x2dropout",
        "DROPOUTRate",
        "dropOut",
    ],
)
def test_the_parts_of_a_name_are_words_at_humps_underscores_and_digits(code: str) -> None:
    assert "train.py:8 adds it" in told(PARENT.replace("RATE = 0.04\n", f"RATE = 0.05\nx = lambda x: {code}\n"), Ban(words=("dropout",)))


def test_a_line_that_is_only_indented_anew_adds_no_word() -> None:
    text = PARENT.replace('    note = "old dropout line"', '    if RATE:\n        note = "old dropout line"')
    assert told(text, Ban(words=("dropout",))) == ""


@pytest.mark.parametrize(
    "code",
    [
        "from importlib import import_module as im; im('os')", "f = __import__; f('os')", "pkgutil.resolve_name('os:fork')", "sys.modules['os']", "importlib.util.find_spec('os')",
        "sys.modules['os.path']", "load(name='os')", "sys.modules.get('os')",
    ],
)  # fmt: skip
def test_a_module_named_as_a_text_where_a_name_imports_counts_as_an_import(code: str) -> None:
    assert told(PARENT.replace("RATE = 0.04\n", f"RATE = 0.05\n{code}\n"), Ban(imports=("os",))).startswith("train.py:8 names it, and")
    assert told(PARENT.replace("RATE = 0.04\n", f"RATE = 0.05\n{code}\n"), Ban(imports=("o", "oss"))) == ""


def test_another_name_of_a_module_that_is_imported_already_is_a_new_import() -> None:
    parent = PARENT.replace("import torch\n", "import torch\nimport os\n")
    with pytest.raises(ProposalRefused, match=r"train\.py:3 imports it"):
        proposal = Proposal.model_construct(id=1, parent="c", title="", axis="", files={}, proposer="scripted")
        bans.check(
            proposal, Ban(imports=("os",)), {"train.py": parent}, {"train.py": parent.replace("import os", "from os import fork, system")}
        )


@pytest.mark.parametrize("shape", ["+".join(["RATE"] * 2000), "-" * 2000 + "RATE", "RATE" + ".x" * 2000])
def test_code_that_is_nested_deeply_hides_nothing_and_breaks_nothing(shape: str) -> None:
    text = PARENT.replace("RATE = 0.04\n", f"RATE = 0.05\nif RATE:\n    DEPTH = {shape}\n").replace(
        "return self.rate", "return 2 * self.rate"
    )
    assert "changes DEPTH" in told(text, Ban(axes=("DEPTH",))) and "changes Muon.step" in told(text, Ban(axes=("Muon",)))
    assert told(text, Ban(axes=("WEIGHT_DECAY",), words=("x1",), imports=("os",))) == ""


@pytest.mark.parametrize(
    ("entry", "old", "new"),
    [
        ("DEPTH", "RATE = 0.04", "RATE = 0.05"), ("DEPTH", "# blocks", "# layers of the model\nEXTRA = 1"), ("Muon", "An optimizer.", 'It steps."""\n    """'),
        ("Muon.step", "self.rate = rate", "self.rate = 2 * rate"), ("DEPT", "DEPTH = 4", "DEPTH = 5"), ("DEPTH", "return [depth]", "print('DEPTH', DEPTH, {'DEPTH': DEPTH})\n    return [depth]"),
        ("DEPTH", "return [depth]", "setattr(device, 'note', 'a depth of four')\n    return [depth]"), ("module", "import torch", "import torch\nif RATE:\n    RATE = 1"),
    ],
)  # fmt: skip
def test_what_is_no_change_of_a_banned_axis_is_admitted(entry: str, old: str, new: str) -> None:
    text = PARENT.replace(old, new, 1).replace("RATE = 0.04", "RATE = 0.05")
    assert told(text, Ban(axes=(entry,))) == ""


@pytest.mark.parametrize(
    ("entry", "axis"), [("weight decay", "WEIGHT_DECAY"), ("Muon", "muon momentum"), ("WEIGHT_DECAY", "weight-decay of the head")]
)
def test_what_a_proposal_calls_its_axis_counts_in_every_spelling(entry: str, axis: str) -> None:
    said = told(PARENT.replace("0.04", "0.05"), Ban(axes=(entry,)), axis)
    assert said == f"the proposal calls its axis {axis!r}, and [ban] axes of program.md has {entry!r}; propose something else"
    assert told(PARENT.replace("0.04", "0.05"), Ban(axes=(entry,)), "decays of the rate") == ""


@pytest.mark.parametrize(
    ("added", "line"),
    [
        ("x = torch.nn.Dropout(0.1)", 8), ("# more dropout, please", 8), ('"""DROPOUT"""', 8), ("dropout_p = 0.1", 8), ("ＤＲＯＰＯＵＴ = 1", 8), ("\n\nuse_dropout = 1", 10),
    ],
)  # fmt: skip
def test_a_banned_word_may_not_come_with_an_added_line(added: str, line: int) -> None:
    text = PARENT.replace("RATE = 0.04\n", f"RATE = 0.05\n{added}\n")
    assert (
        told(text, Ban(words=("Dropout",)))
        == f"train.py:{line} adds it, and [ban] words of program.md has 'Dropout'; propose something else"
    )


def test_a_word_that_is_there_already_may_stay_move_and_go_and_parts_of_words_do_not_count() -> None:
    ban = Ban(words=("dropout", "label smoothing", "drop"))
    moved = PARENT.replace('    note = "old dropout line"\n', "").replace(
        "    return [depth]", '    note = "old dropout line"\n    return [2, depth]'
    )
    assert told(moved, ban) == ""
    assert told(PARENT.replace('    note = "old dropout line"\n', "    depth += 1\n"), ban) == ""
    assert told(PARENT.replace("RATE = 0.04", "RATE = 0.05  # dropouts, label smoothings"), ban) == ""
    assert "label smoothing" in told(PARENT.replace("RATE = 0.04", "RATE = 0.05  # Label Smoothing"), ban)


@pytest.mark.parametrize(
    "added",
    [
        "import os", "import os.path", "import sys, os as o", "from os import path", "from os.path import join", '__import__("os")', 'importlib.import_module("os.path")',
        'import_module(name="os")', "def f():\n    import os",
    ],
)  # fmt: skip
def test_a_banned_module_may_not_be_imported(added: str) -> None:
    said = told(PARENT.replace("RATE = 0.04\n", f"RATE = 0.05\n{added}\n"), Ban(imports=("os",)))
    assert said.startswith("train.py:") and "imports it, and [ban] imports of program.md has 'os'" in said
    assert f":{8 + added.count(chr(10))} " in said


def test_imports_that_are_there_already_may_stay_and_others_are_none_of_its_business() -> None:
    ban = Ban(imports=("ctypes", "torch.compile"))
    assert told(PARENT.replace("0.04", "0.05"), ban) == ""
    assert told(PARENT.replace("import ctypes", "def late():\n    import ctypes"), ban) == ""
    assert told(PARENT.replace("import ctypes\n", ""), ban) == ""
    assert "train.py:3 imports it" in told(PARENT.replace("import ctypes", "from ctypes import util"), ban)
    assert told(PARENT.replace("import ctypes", "import ctypesx, os"), ban) == ""
    assert "train.py:4 imports it" in told(PARENT.replace("import ctypes", "import ctypes\nimport ctypes.util"), ban)
    assert "torch.compile" in told(PARENT.replace("import ctypes", "from torch import compile"), ban)


def test_a_proposal_in_two_files_is_held_in_both() -> None:
    after = {"a.py": "import os\nX = 1\n", "b.py": "DEPTH = 2\n"}
    parents = {"a.py": "X = 1\n", "b.py": "import os\nDEPTH = 2\n"}
    proposal = Proposal.model_construct(id=1, parent="c", title="", axis="", files={}, proposer="scripted")
    bans.check(proposal, Ban(imports=("os",)), parents, after)
    with pytest.raises(ProposalRefused, match=r"b\.py:1 changes DEPTH"):
        bans.check(proposal, Ban(axes=("DEPTH",)), parents, {**after, "b.py": "DEPTH = 3\n"})


@pytest.mark.parametrize("ban", [Ban(axes=("weight_decay",)), Ban(words=("decay",)), Ban(axes=("DEPTH", "RATE"))])
def test_the_search_never_proposes_what_is_banned(ban: Ban) -> None:
    for number in range(1, 60):
        briefing = Briefing(number=number, incumbent="c", files={"train.py": PARENT}, past=(), goal="", direction="lower", ban=ban)
        proposal = Search().propose(briefing)
        assert proposal is not None and told(str(proposal.files["train.py"]), ban, proposal.axis) == ""
    everything = Ban(axes=tuple(constant.name for constant in find_constants(PARENT)))
    briefing = Briefing(number=1, incumbent="c", files={"train.py": PARENT}, past=(), goal="", direction="lower", ban=everything)
    assert Search().propose(briefing) is None


def test_a_night_with_a_banned_axis_refuses_no_proposal_of_the_search(make_project: Callable[..., Path]) -> None:
    project = make_project(rules='[ban]\naxes = ["VALUE", "learning_rate"]\n[stop]\ntrials = 4')
    seen = Seen()
    run_study(project, seen=seen)
    study = study_of(project)
    assert study.trials > 0 and study.refused == 0
    assert not {"VALUE", "LEARNING_RATE"} & {row.axis for row in study.rows}


def test_a_ban_added_at_night_refuses_the_next_proposal_with_its_entry(make_project: Callable[..., Path], tmp_path: Path) -> None:
    project = make_project(rules="[stop]\ntrials = 2")
    seen = Seen(
        on_event=lambda entry, study: (
            set_rules(project, '[ban]\naxes = ["depth"]') if entry.event.kind == "settled" and study.trials == 1 else None
        )
    )
    run_study(project, edits_file(tmp_path, [{"DEPTH": 3}, {"DEPTH": 4}, {"VALUE": 1.3}]), seen=seen)
    refused = [event for event in seen.events if isinstance(event, Refused)]
    assert [(event.proposal, event.reason) for event in refused] == [(2, "banned")]
    assert "[ban] axes of program.md has 'depth'" in refused[0].detail
    assert [row.trial for row in study_of(project).rows] == [0, 1, 2]


@pytest.mark.parametrize("code", ["import _ctypes", "from _ctypes import dlopen", "torch.ctypes.CDLL(None)", "from torch import ctypes"])
def test_a_module_under_another_name_or_passed_on_by_another_is_held_by_its_word_only(code: str) -> None:
    text = PARENT.replace("RATE = 0.04\n", f"RATE = 0.05\n{code}\n")
    assert told(text, Ban(imports=("ctypes",))) == "" and "train.py:8 adds it" in told(text, Ban(words=("ctypes",)))
    assert bool(told(text, Ban(imports=("ctypes", "_ctypes")))) == ("_ctypes" in code)
