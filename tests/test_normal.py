"""A repeat in disguise has the fingerprint of what it repeats; a program that can train differently never has."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.evaluation.guard import check
from harness.graph.duplicates import change_all, fingerprint
from harness.rules import Rules
from harness.sections import Scope, StopAt
from harness.trial import Proposal
from tests.projects import ROOT

pytestmark = pytest.mark.slow

TRAIN = (ROOT / "bench" / "upstream_recipe.py").read_text()  # a program whose text stays as it is
CONSTANTS = re.findall(r"^([A-Z][A-Z0-9_]*) = ([-0-9.e]+)", TRAIN, re.MULTILINE)
HELPERS = ["norm", "rotary", "rotate", "orthogonalise", "build_optimizers", "set_schedule", "loss_of", "main"]
CLASSES = ["Attention", "MLP", "Block", "GPT", "Muon"]
SPOKEN = {"self", "vocab_size", "lr"}  # parameters that are called by keyword, and one that would only be confusing
Disguise = Callable[[random.Random], str]
DISGUISES: list[Disguise] = []


def disguise(function: Disguise) -> Disguise:
    DISGUISES.append(function)
    return function


def renamed(text: str, old: str, new: str) -> str:
    """Every free-standing `old` that is no attribute, keyword or text."""
    spots = [(node.lineno, node.col_offset) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and node.id == old]
    lines = [line.encode() for line in text.split("\n")]
    for line, column in sorted(spots, reverse=True):
        lines[line - 1] = lines[line - 1][:column] + new.encode() + lines[line - 1][column + len(old) :]
    return re.sub(rf"^(def|class) {old}\b", rf"\1 {new}", b"\n".join(lines).decode(), flags=re.MULTILINE)


def reworked(change: Callable[[ast.AST], None]) -> str:
    tree = ast.parse(TRAIN)
    for node in ast.walk(tree):
        change(node)
    return ast.unparse(ast.fix_missing_locations(tree))


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def constant_block() -> tuple[str, list[str], str]:
    start, end = TRAIN.index("DEPTH = "), TRAIN.index("\n\n\n# ---")
    return TRAIN[:start], [line for line in TRAIN[start:end].split("\n") if line and line[0] != "#"], TRAIN[end:]


def renamed_in_functions(rng: random.Random, parameters: bool) -> str:
    tree = ast.parse(TRAIN)
    for function in functions(tree):
        own = {arg.arg for arg in function.args.args}
        stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        chosen = {name: f"v{rng.randrange(10**9)}" for name in sorted((own if parameters else stored - own) - SPOKEN) if rng.random() < 0.7}
        for node in ast.walk(function):
            if isinstance(node, ast.Name):
                node.id = chosen.get(node.id, node.id)
            elif isinstance(node, ast.arg):
                node.arg = chosen.get(node.arg, node.arg)
    return ast.unparse(tree)


@disguise
def other_comments(rng: random.Random) -> str:
    return re.sub(r"  # .*", lambda _: f"  # {rng.random()}", TRAIN)


@disguise
def another_layout(rng: random.Random) -> str:
    return ast.unparse(ast.parse(TRAIN)).replace("\n\n", "\n" * rng.randrange(2, 9))


@disguise
def other_docstrings(rng: random.Random) -> str:
    return re.sub(r'"""[^"]*"""', lambda _: f'"""{rng.random()}"""', TRAIN)


@disguise
def other_constant_names(rng: random.Random) -> str:
    text = TRAIN
    for name, _ in rng.sample(CONSTANTS, 6):
        text = renamed(text, name, f"C{rng.randrange(10**9)}")
    return text


@disguise
def another_order_of_constants(rng: random.Random) -> str:
    head, lines, tail = constant_block()
    return head + "\n".join(rng.sample(lines, len(lines))) + tail


@disguise
def constants_after_the_functions(rng: random.Random) -> str:
    head, lines, tail = constant_block()
    return (head + tail).replace('if __name__ == "__main__"', "\n".join(rng.sample(lines, len(lines))) + '\nif __name__ == "__main__"')


@disguise
def constants_with_types(rng: random.Random) -> str:
    return re.sub(
        r"^([A-Z_]+) = (\d+\.\d+)", lambda m: f"{m[1]}: float = {m[2]}" if rng.random() < 0.5 else m[0], TRAIN, flags=re.MULTILINE
    )


@disguise
def constants_at_their_uses(rng: random.Random) -> str:
    text = TRAIN
    for name, value in rng.sample([one for one in CONSTANTS if one[0] not in ("DIM", "HEAD_DIM", "TOTAL_BATCH")], 4):
        text = renamed(re.sub(rf"^{name} = .*\n", "", text, flags=re.MULTILINE), name, f"({value})")
    return text


@disguise
def literals_as_constants(rng: random.Random) -> str:
    name = f"K{rng.randrange(99)}"
    old = rng.choice(["0.001", "3.4445", "4.775", "2.0315", "1e-7", "768"])
    return re.sub(rf"\b{old}\b", name, TRAIN).replace("import prepare\n", f"import prepare\n{name} = {old}\n")


@disguise
def another_order_of_imports(rng: random.Random) -> str:
    imports = re.findall(r"^(?:import|from) .*\n", TRAIN, re.MULTILINE)
    rest = re.sub(r"^(?:import|from) .*\n", "", TRAIN, flags=re.MULTILINE)
    return rest.replace("# Model\n", "".join(rng.sample(imports, len(imports))))


@disguise
def imports_one_by_one(rng: random.Random) -> str:
    return TRAIN.replace(
        "from torch import Tensor, nn", rng.choice(["from torch import nn\nfrom torch import Tensor", "from torch import nn, Tensor"])
    )


@disguise
def other_import_names(rng: random.Random) -> str:
    new = f"m{rng.randrange(999)}"
    return renamed(TRAIN, "F", new).replace("functional as F", f"functional as {new}").replace("import math\n", "import math as math\n")


@disguise
def unused_imports(rng: random.Random) -> str:
    more = ["import os", "import time, json", "from typing import Any", "from dataclasses import dataclass", "import numpy as np"]
    return TRAIN.replace("import math\n", "\n".join(["import math", *rng.sample(more, 3), ""]))


@disguise
def unused_constants(rng: random.Random) -> str:
    more = [
        f"SPARE_{rng.randrange(99)} = {rng.choice(['1', '-2.5', repr('text'), '[1, 2]', '{}', 'torch.float16', '(1, None)'])}"
        for _ in range(3)
    ]
    return TRAIN.replace("# Batch\n", "\n".join([*more, ""]))


@disguise
def unused_helpers(rng: random.Random) -> str:
    name = f"helper{rng.randrange(99)}"
    more = (
        f"def {name}(x: Tensor, y=2) -> Tensor:\n    return {name}(x) * other()\n\ndef other(device=None):\n    return HELD\n\nHELD = 7\n\n"
    )
    return TRAIN.replace("class MLP", more + "class MLP")


@disguise
def other_helper_names(rng: random.Random) -> str:
    text = TRAIN
    for name in rng.sample(HELPERS, 4):
        text = renamed(text, name, f"h{rng.randrange(10**9)}")
    return text


@disguise
def other_class_names(rng: random.Random) -> str:
    text = TRAIN
    for name in rng.sample(CLASSES, 3):
        text = renamed(text, name, f"Class{rng.randrange(10**9)}")
    return text


@disguise
def other_local_names(rng: random.Random) -> str:
    return renamed_in_functions(rng, parameters=False)


@disguise
def other_parameter_names(rng: random.Random) -> str:
    return renamed_in_functions(rng, parameters=True)


@disguise
def whole_numbers_worked_out(rng: random.Random) -> str:
    values = {"2048": ["2 ** 11", "4 * 512", "1 << 11", "0x800"], "128": ["64 + 64", "2 ** 7", "256 // 2"], "768": ["3 * 256", "7_68"]}
    return re.sub(r"\b(2048|128|768)\b(?!\.)", lambda m: f"({rng.choice(values[m[1]])})", TRAIN)


@disguise
def fractions_worked_out(rng: random.Random) -> str:
    values = {"0.5": ["1 / 2", "5e-1", "0.50", "2 ** -1"], "0.0": ["0.", "0 / 5", "-0.0 + 0.0"], "0.1": ["1 / 10", "1e-1", "+.1"]}
    return re.sub(r"= (0\.5|0\.0|0\.1) ", lambda m: f"= {rng.choice(values[m[1]])} ", TRAIN)


@disguise
def blocks_that_decide_nothing(rng: random.Random) -> str:
    def wrap(node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.For, ast.If)) and rng.random() < 0.3:
            at = rng.randrange(len(node.body))
            node.body[at] = ast.If(ast.Constant(True), [node.body[at], ast.Pass()], [])

    return reworked(wrap)


@disguise
def statements_that_do_nothing(rng: random.Random) -> str:
    def add(node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.For, ast.With)):
            node.body.insert(
                rng.randrange(1, len(node.body) + 1), rng.choice([ast.Pass(), ast.Expr(ast.Constant("said")), ast.Expr(ast.Constant(...))])
            )

    return reworked(add)


@disguise
def branches_that_do_nothing(rng: random.Random) -> str:
    def add(node: ast.AST) -> None:
        if isinstance(node, (ast.If, ast.For, ast.While)) and not node.orelse and rng.random() < 0.6:
            node.orelse = [ast.Pass()]

    return reworked(add)


@disguise
def f_strings_without_fields(rng: random.Random) -> str:
    return re.sub(r'(?<=[\[( ])("\w+")(?=[\]),:])', lambda m: rng.choice([f"f{m[1]}", f"({m[1]})", m[1].replace('"', "'")]), TRAIN)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("hide", DISGUISES, ids=lambda one: str(getattr(one, "__name__", one)))
def test_a_repeat_is_seen_through_its_disguise(hide: Disguise, seed: int) -> None:
    text = hide(random.Random(seed))
    assert text != TRAIN
    assert fingerprint(text) == fingerprint(TRAIN)


def edits() -> dict[str, str]:
    """Really different programs: every constant changed twice, and what else an idea may change."""
    made = {}
    for name, value in CONSTANTS:
        for new in (repr(ast.literal_eval(value) * 2 + 1), repr(ast.literal_eval(value) + 0.25)):
            made[f"{name} {new}"] = re.sub(rf"^{name} = [-0-9.e]+", f"{name} = {new}", TRAIN, flags=re.MULTILINE)
    for old, new in OTHER_EDITS:
        assert old in TRAIN, old
        made[f"{old} -> {new}"] = TRAIN.replace(old, new, 1)
    return made


OTHER_EDITS = [
    ("HEAD_DIM = 64 ", "HEAD_DIM = 64.0 "),
    ("left * cos - right * sin", "left * cos + right * sin"),
    ("left * cos - right * sin", "right * sin - left * cos"),
    ("left * sin + right * cos", "right * cos + left * sin"),
    ("left * sin + right * cos", "sin * left + right * cos"),
    ("left, right = x.chunk(2, dim=-1)", "right, left = x.chunk(2, dim=-1)"),
    ("cos, sin = angles[0].to(x.dtype), angles[1].to(x.dtype)", "sin, cos = angles[0].to(x.dtype), angles[1].to(x.dtype)"),
    ("return angles.cos(), angles.sin()", "return angles.sin(), angles.cos()"),
    ("dtype=torch.float32, device=device) / HEAD_DIM", "dtype=torch.float64, device=device) / HEAD_DIM"),
    ("dtype=torch.float32, device=device)[:, None]", "dtype=torch.bfloat16, device=device)[:, None]"),
    ("F.relu(", "F.gelu("),
    ("F.relu(", "F.silu("),
    (".square()", ""),
    (".square()", ".abs()"),
    ("F.rms_norm(x, (x.size(-1),))", "F.layer_norm(x, (x.size(-1),))"),
    ("F.rms_norm(x, (x.size(-1),))", "F.rms_norm(x, (x.size(-1),), eps=1e-6)"),
    ("self.query = nn.Linear(DIM, DIM, bias=False)", "self.query = nn.Linear(DIM, DIM, bias=True)"),
    ("self.query = nn.Linear(DIM, DIM, bias=False)", "self.query = nn.Linear(DIM, DIM)"),
    (
        "        self.query = nn.Linear(DIM, DIM, bias=False)\n        self.key = nn.Linear(DIM, DIM, bias=False)\n",
        "        self.key = nn.Linear(DIM, DIM, bias=False)\n        self.query = nn.Linear(DIM, DIM, bias=False)\n",
    ),
    (
        "        self.attention = Attention(with_value_embedding)\n        self.mlp = MLP()",
        "        self.mlp = MLP()\n        self.attention = Attention(with_value_embedding)",
    ),
    ("if with_value_embedding else None", "if not with_value_embedding else None"),
    ("nn.Linear(DIM, vocab_size, bias=False)", "nn.Linear(vocab_size, DIM, bias=False)"),
    ("gate = 2 * torch.sigmoid", "gate = 1 * torch.sigmoid"),
    ("gate = 2 * torch.sigmoid", "gate = 2 * torch.tanh"),
    ("gate[..., None] * extra.view(shape)", "gate[..., None] * extra.view(shape) * 0.5"),
    ("value = value + gate", "value = gate + value"),
    ("norm(rotate(query, angles)), norm(rotate(key, angles))", "norm(rotate(key, angles)), norm(rotate(query, angles))"),
    ("norm(rotate(query, angles))", "rotate(norm(query), angles)"),
    ("attention(query, key, value.to", "attention(key, query, value.to"),
    ("is_causal=True", "is_causal=False"),
    ("is_causal=True", "is_causal=True, scale=0.12"),
    (
        "query, key, value = (layer(x).view(shape) for layer in (self.query, self.key, self.value))",
        "query, key, value = (layer(x).view(shape) for layer in (self.key, self.query, self.value))",
    ),
    ("x = x + self.attention(norm(x), extra, angles)", "x = x + self.attention(x, extra, angles)"),
    ("return x + self.mlp(norm(x))", "return x + self.mlp(x)"),
    ("return x + self.mlp(norm(x))", "return self.mlp(norm(x)) + x"),
    ("return x + self.mlp(norm(x))", "return norm(x + self.mlp(norm(x)))"),
    ("        x = x + self.attention(norm(x), extra, angles)\n", ""),
    ("(DEPTH - 1 - i)", "(DEPTH - 2 - i)"),
    ("== 0 for i in range(DEPTH)]", "!= 0 for i in range(DEPTH)]"),
    ("bound = math.sqrt(3 / DIM)", "bound = math.sqrt(1 / DIM)"),
    ("nn.init.normal_(self.head.weight, std=0.001)", "nn.init.normal_(self.head.weight, std=0.01)"),
    ("nn.init.normal_(self.head.weight, std=0.001)", "nn.init.zeros_(self.head.weight)"),
    (
        "        nn.init.normal_(self.embedding.weight)\n        nn.init.normal_(self.head.weight, std=0.001)\n",
        "        nn.init.normal_(self.head.weight, std=0.001)\n        nn.init.normal_(self.embedding.weight)\n",
    ),
    ("nn.init.uniform_(table.weight, -bound, bound)", "nn.init.uniform_(table.weight, bound, -bound)"),
    ("(attention.query, attention.key, attention.value, block.mlp.up)", "(attention.key, attention.query, attention.value, block.mlp.up)"),
    ("(attention.out, block.mlp.down, attention.gate)", "(attention.out, block.mlp.down)"),
    ("    @torch.no_grad()\n    def initialise", "    def initialise"),
    ("    @torch.no_grad()\n    def step", "    def step"),
    ("self.residual[i] * x + self.shortcut[i] * first", "self.shortcut[i] * x + self.residual[i] * first"),
    ("self.residual[i] * x + self.shortcut[i] * first", "self.shortcut[i] * first + self.residual[i] * x"),
    ("self.head(norm(x)).float() / LOGIT_CAP", "self.head(norm(x)) / LOGIT_CAP"),
    ("x = first = norm(", "first = x = norm("),
    ("self.down = nn", "self.lower = nn"),
    ("class MLP(nn.Module)", "class MLP(nn.Sequential)"),
    ("model.to(device).eval()", "model.eval().to(device)"),
    ("update.bfloat16() if", "update.half() if"),
    ("tall = x.size(1) > x.size(2)", "tall = x.size(1) >= x.size(2)"),
    ("+ 1e-7", "+ 1e-8"),
    ("3.4445 * x", "3.4446 * x"),
    ("-4.775 * gram + 2.0315 * gram @ gram", "-4.775 * gram + 2.0315 * (gram @ gram)"),
    ("-4.775 * gram + 2.0315 * gram @ gram", "2.0315 * gram @ gram + -4.775 * gram"),
    ("x @ x.mT", "x.mT @ x"),
    ("momentum.lerp_(p.grad, 1 - MUON_MOMENTUM)", "momentum.lerp_(p.grad, MUON_MOMENTUM)"),
    (
        "                momentum.lerp_(p.grad, 1 - MUON_MOMENTUM)\n                updates.append(p.grad.lerp(momentum, MUON_MOMENTUM))\n",
        "                updates.append(p.grad.lerp(momentum, MUON_MOMENTUM))\n                momentum.lerp_(p.grad, 1 - MUON_MOMENTUM)\n",
    ),
    ("p.grad.lerp(momentum, MUON_MOMENTUM)", "momentum.lerp(p.grad, MUON_MOMENTUM)"),
    ("max(1.0, rows / columns) ** 0.5", "max(1.0, columns / rows) ** 0.5"),
    ("max(1.0, rows / columns) ** 0.5", "max(1.0, rows / columns)"),
    ("(step * p > 0)", "(step * p >= 0)"),
    ("p.sub_(lr * (step + decay))", "p.sub_(lr * step + lr * decay)"),
    ("scale = (DIM / 768) ** -0.5", "scale = (DIM / 768) ** 0.5"),
    ("HEAD_LR * scale}", "HEAD_LR}"),
    ("SCALAR_LR * scale * 0.01", "SCALAR_LR * 0.01 * scale"),
    ("EMBEDDING_LR * scale", "scale * EMBEDDING_LR"),
    ("betas = (ADAM_BETA1, ADAM_BETA2)", "betas = (ADAM_BETA2, ADAM_BETA1)"),
    ("torch.optim.AdamW", "torch.optim.Adam"),
    ("weight_decay=0.0, fused=True", "weight_decay=0.01, fused=True"),
    ("weight_decay=0.0, fused=True", "weight_decay=0.0, fused=True, amsgrad=True"),
    ("fused=True", "fused=False"),
    ("[adam, Muon(list(model.blocks.parameters()), lr=MATRIX_LR)]", "[Muon(list(model.blocks.parameters()), lr=MATRIX_LR), adam]"),
    ("if progress < WARMUP else 1.0", "if progress <= WARMUP else 1.0"),
    ("if progress > 1 - WARMDOWN else 1.0", "if progress > 1 - WARMDOWN else 0.9"),
    ("WEIGHT_DECAY * (1 - progress)", "WEIGHT_DECAY"),
    ("isinstance(optimizer, Muon)", "not isinstance(optimizer, Muon)"),
    (
        "F.cross_entropy(logits.flatten(0, 1), targets.flatten())",
        "F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)",
    ),
    ("ids[:, :-1], ids[:, 1:]", "ids[:, 1:], ids[:, :-1]"),
    ("dynamic=False", "dynamic=True"),
    ('COMPILE_ON = ("cuda",)', 'COMPILE_ON = ("cuda", "cpu")'),
    ('COMPILE_ON = ("cuda",)', 'COMPILE_ON = ("cuda")'),
    ("*next(batches)) / passes", "*next(batches))"),
    ("        gpt.zero_grad(set_to_none=True)\n        step += 1", "        step += 1"),
    ("            loss.backward()\n            total += loss.detach()", "            total += loss.detach()\n            loss.backward()"),
    ("def norm(x: Tensor) -> Tensor:", "def norm(x: Tensor, eps: float = 1.0) -> Tensor:"),
    ("import prepare\n", "import prepare\ntorch.set_float32_matmul_precision('high')\n"),
    ("import prepare\n", "import prepare\ntorch.set_float32_matmul_precision('medium')\n"),
    ("import math\n", "import math\nimport unheard_of\n"),
]


def test_no_two_different_programs_are_taken_for_the_same() -> None:
    made = edits()
    assert len(made) >= 140
    known: dict[str, str] = {fingerprint(TRAIN): "the original"}
    for title, text in made.items():
        digest = fingerprint(text)
        assert known.setdefault(digest, title) == title


GUARD = "\nif __name__ == '__main__':\n    main()\n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A = B = 1\nx(A)", "B = A = 1\nx(A, B)"),
        ("def f(a, b): return a - b\nf(1, 2)", "def f(b, a): return a - b\nf(1, 2)"),
        ("def f(a, b): return a - b\nf(a=1, b=2)", "def f(b, a): return b - a\nf(a=1, b=2)"),
        ("def f(a, b): return a - b\nf(**g())", "def f(b, a): return b - a\nf(**g())"),
        (
            "from functools import partial\ndef f(a, b): return a - b\npartial(f, a=1)",
            "from functools import partial\ndef f(b, a): return b - a\npartial(f, a=1)",
        ),
        ("def f(a, b, **more): return a - b\ng(f)", "def f(b, a, **more): return b - a\ng(f)"),
        ("x = 1\ndef f():\n    x = 2\nf()\ng(x)", "x = 1\ndef f():\n    global x\n    x = 2\nf()\ng(x)"),
        (
            "def f():\n    x = 1\n    def g():\n        x = 2\n    g()\n    return x\nf()",
            "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    g()\n    return x\nf()",
        ),
        ("A = 1\nA = 2\ng(A)", "A = 2\nA = 1\ng(A)"),
        ("A = 1\ng(A)\nA += 1", "A = 1\nA += 1\ng(A)"),
        ("g(A)\nA = 1", "A = 1\ng(A)"),
        ("def f(): return A\nf()\nA = 1", "A = 1\ndef f(): return A\nf()"),
        ("def f(x=A): return x\nA = 1\nf()", "A = 1\ndef f(x=A): return x\nf()"),
        ("A = f()\nB = g()\nx(A, B)", "B = g()\nA = f()\nx(A, B)"),
        ("class A:\n    x = 1\n    y = x", "class A:\n    y = 1\n    x = y"),
        ("x = 1\nclass A:\n    x = x", "y = 1\nclass A:\n    x = y"),
        ("class A: pass\nclass B: pass\ng(A, B)", "class B: pass\nclass A: pass\ng(A, B)\ng"),
        ("x.a", "x.b"),
        ("g(1 + 2 + y)", "g(1 + (2 + y))"),
        ("g(-0.0)", "g(0.0)"),
        ("g(4 / 2)", "g(2)"),
        ("g(True + 1)", "g(2)"),
        ("if True:\n    g()\nelse:\n    h()", "g()"),
        ("for i in x:\n    pass\nelse:\n    g()", "for i in x:\n    pass"),
        ("import torch\nA = [1]\nA2 = A\ng(A, A2)", "import torch\nA = [1]\nA2 = [1]\ng(A, A2)"),
        ("import os\nos.environ['a'] = 'b'\nimport torch\ntorch.x", "import os\nimport torch\nos.environ['a'] = 'b'\ntorch.x"),
        ("from torch import a as x, b as y\ng(x, y)", "from torch import b as x, a as y\ng(x, y)"),
        ("class A: pass\nprint(type(A()).__name__)", "class B: pass\nprint(type(B()).__name__)"),
        ("class A: pass\ng('A' in str(A()))", "class B: pass\ng('A' in str(B()))"),
        ("x = 1\ndef f(): return eval('x')\nf()", "y = 1\ndef f(): return eval('x')\nf()"),
        ("def f():\n    x = 1\n    return locals()\nf()", "def f():\n    y = 1\n    return locals()\nf()"),
        ("import sys as s\nA = 1\ns.modules['train'].A", "import sys as s\nB = 1\ns.modules['train'].A"),
        ("A = 1\nopen('train.py').read()", "B = 1\nopen('train.py').read()"),
        (
            "import threading\ndef f(a, b): g(a, b)\nthreading.Thread(target=f, kwargs={'a': 1, 'b': 2})",
            "import threading\ndef f(b, a): g(b, a)\nthreading.Thread(target=f, kwargs={'a': 1, 'b': 2})",
        ),
        ("import sys\nA = 1\nsys.modules['train'].A", "import sys\nB = 1\nsys.modules['train'].A"),
        ("def f(x):\n    x = x + 1\nf(y)", "def f(x):\n    x += 1\nf(y)"),
        ("g([x for x in y for z in x])", "g([z for x in y for z in x])"),
        ("g(lambda a, b: a)", "g(lambda a, b: b)"),
        ("def f():\n    try: g()\n    except E as e: h(e)\nf()", "def f():\n    try: g()\n    except E as e: h(f)\nf()"),
        ("@d\ndef f(): pass\nf()", "def f(): pass\nf()"),
        ("def f(x=g()): pass", ""),
        ("match x:\n    case [a, b]: g(a)", "match x:\n    case [a, b]: g(b)"),
        ("g(f'{x}')", "g('{x}')"),
        ("g(f'{1}')", "g('1')"),
        ("def load_model(s, d): pass", "def load(s, d): pass"),
    ],
)
def test_in_doubt_two_programs_are_different(one: str, other: str) -> None:
    assert fingerprint(one + GUARD) != fingerprint(other + GUARD)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("n = 0\ndef f():\n    global n\n    n += 1\nf()", "m = 0\ndef g():\n    global m\n    m += 1\ng()"),
        (
            "import torch\nA = [1]\nB = {'x': A}\nC = torch.x\ng(A, B, C)",
            "import os\nimport torch\nX = [1]\nC = torch.x\nZ = {'x': X}\ng(X, Z, C)",
        ),
        ("import torch\nD = torch.float32\nL = [1]\ng(D, L)", "import torch as t\nM = [1]\nE = t.float32\ng(E, M)"),
        ("A = 2\nB = A * 3\ng(B)", "g(6)"),
        ("LUCK = 3\nimport torch\ntorch.manual_seed(LUCK)", "import torch as t\nt.manual_seed(9)"),
        ("def f():\n    try: g()\n    except E as e: h(e)\nf()", "def f():\n    try: g()\n    except E as no: h(no)\nf()"),
        ("match x:\n    case {'k': a, **b}: g(a, b)", "match x:\n    case {'k': c, **d}: g(c, d)"),
        (
            "def f(x):\n    if (y := x): return [z for w in y if (z := w)]\nf(1)",
            "def f(a):\n    if (b := a): return [d for c in b if (d := c)]\nf(1)",
        ),
        (
            "def f(a, /, b, *c, d=1): return a, b, c, d\nf(1)",
            "def f(e, /, f, *g, h=1): return e, f, g, h\nf(1)".replace("f(e", "F(e").replace("\nf", "\nF"),
        ),
    ],
)
def test_names_that_nobody_outside_asks_for_do_not_count(one: str, other: str) -> None:
    assert fingerprint(one + GUARD) == fingerprint(other + GUARD)


def test_a_file_that_others_import_keeps_its_names() -> None:
    assert fingerprint("A = 1\n") != fingerprint("B = 1\n")
    assert fingerprint("A = 1\nB = 2\n") == fingerprint("B = 2\nA = 1\n")
    files = {"model.py": "import train\ntrain.WIDTH\n", "train.py": "WIDTH = 1\n" + GUARD}
    wider = {**files, "train.py": "WIDTH = 2\n" + GUARD}
    assert change_all(files, wider).ast_sha256 != change_all(files, files).ast_sha256
    assert fingerprint(wider["train.py"]) == fingerprint(files["train.py"])  # alone it would be the same: nobody uses it
    rules = Rules(stop=StopAt(trials=1), scope=Scope(editable=("train.py", "model.py")))
    check(
        Proposal.model_construct(id=1, parent="c0ffee", title="try", files=dict[str, str | None](wider), proposer="scripted"),
        rules,
        files,
        {},
    )


STRANGE = ["x = " + "+".join(["1"] * 900), "x = " + "-" * 80 + "1", "g(" + "[" * 90 + "]" * 90 + ")", "a" + ".a" * 900]
STRANGE += [
    "x = 2 ** 99999999",
    "x = 1 / 0",
    "x = 9e999 - 9e999",
    "x = 1 << 99999999999",
    "x = 7 % 0",
    "x = (-8) ** 0.5",
    "x = 2.0 ** 9999",
]
STRANGE += ["\n".join(["a0 = 1, 2", *(f"a{n + 1} = a{n}, a{n}" for n in range(40)), "g(a40)"])]
STRANGE += ["\n".join(["a0 = 2 ** 200", *(f"a{n + 1} = a{n} * a{n} + a{n}" for n in range(40)), "g(a40)"])]
STRANGE += ["\n".join(f"a{n} = [a{n + 1}]" for n in range(1000)), "x = 0x" + "f" * 9000, "x = -0x" + "f" * 9000 + " * 2", "x = 1 >> -1"]
STRANGE += ["if True:\n  pass\n", "def f():\n  '''doc'''\n", "class A:\n  '''doc'''\n", "if x: pass\nelif y: pass\nelse: pass\n", "del x\n"]


@pytest.mark.parametrize("text", STRANGE)
def test_strange_texts_have_a_fingerprint_too(text: str) -> None:
    assert len(fingerprint(text)) == 64
    assert fingerprint(text + GUARD) != fingerprint("g()\n" + GUARD)


WORDS = [
    "x",
    "y",
    "def f(x):\n ",
    "return ",
    "=",
    "1",
    "+",
    "\n",
    "import ",
    "from x import y\n",
    "global ",
    "class A:\n ",
    "lambda x: ",
    "(",
    ")",
]
WORDS += [
    "[",
    "]",
    "for ",
    " in ",
    ":=",
    "pass\n",
    "if True:\n ",
    "else:\n ",
    "del ",
    "'s'",
    "f'{x}'",
    ",",
    "*",
    ":",
    "**",
    "try:\n ",
    "@",
    "async ",
]


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=14).map("".join)), st.booleans(), st.booleans())
def test_every_text_has_one_fingerprint(text: str, script: bool, alone: bool) -> None:
    text += GUARD if script else ""
    digest = fingerprint(text, True, alone)
    fingerprint.cache_clear()
    assert re.fullmatch("[0-9a-f]{64}", digest)
    assert fingerprint(text, True, alone) == digest
