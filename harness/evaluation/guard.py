"""May this proposal run? Pure checks on its text, cheapest first; what does not pass costs no device time.

Reason codes: `out_of_scope`, `empty`, `too_big`, `characters`, `syntax`, `literal`, `contract`, `no_change`, `seed_only`, `duplicate`.
The guard keeps data from being carried in as text and work from being wasted. It is no sandbox: what the code *does* is contained by
execution/, and what it *claims* is checked by the evaluator.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator, Mapping

from harness.errors import ProposalRefused
from harness.graph import duplicates
from harness.rules import Rules
from harness.sections import Scope
from harness.trial import Change, Proposal

NEEDED = ("load_model",)
BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
SUSPECT = re.compile(r"[\x00-\x08\x0b\r\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
CODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
UTF8 = frozenset({"utf-8", "utf8", "utf_8", "u8"})
NUMBER_BYTES = {float: 8, complex: 16}


def check(proposal: Proposal, rules: Rules, parents: Mapping[str, str], known: Mapping[str, int]) -> Change:
    """What the proposal changes, if it may run; otherwise `ProposalRefused` with a reason code, one sentence and the earlier trial.

    `parents` is the text of each editable file at the parent, `known` maps `Change.ast_sha256`, or `Change.file_sha256` of a failed one, to the trial that ran it.
    """
    texts = _in_scope(proposal, rules.scope)
    for path in sorted(texts):
        tree = examine(path, texts[path], rules.scope)
        _check_contract(path, tree, parents.get(path, ""))
    after = {**parents, **texts}
    _check_difference(parents, after)
    change = duplicates.change_all(parents, after)
    earlier = known.get(change.ast_sha256, known.get(change.file_sha256))
    if earlier is not None:
        raise ProposalRefused("duplicate", f"the same program was trial {earlier} already; propose something else", earlier)
    return change


def examine(path: str, text: str, scope: Scope) -> ast.Module:
    """The tree of one file that may be run, whatever its parent; raises `ProposalRefused`. Also for the baseline, before a study."""
    _check_size(path, text, scope.max_file_kb)
    _check_characters(path, text)
    try:
        tree = duplicates.parse(text, path)
    except SyntaxError as error:
        where = f"{path}:{error.lineno}" if error.lineno else path
        raise ProposalRefused("syntax", f"{where}: {error.msg}; send a file that compiles") from None
    _check_literals(path, tree, scope.max_literal_bytes)
    return tree


def _in_scope(proposal: Proposal, scope: Scope) -> dict[str, str]:
    if not proposal.files:
        raise ProposalRefused("no_change", f"the proposal changes no file; change {' or '.join(scope.editable)}")
    texts = {}
    for path, text in sorted(proposal.files.items()):
        if path not in scope.editable:
            raise ProposalRefused("out_of_scope", f"{path!r} {_why_outside(path, scope)}; only {', '.join(scope.editable)} may be changed")
        if text is None:
            raise ProposalRefused("out_of_scope", f"{path} may be changed but not deleted; send its whole new text")
        texts[path] = text
    return texts


def _why_outside(path: str, scope: Scope) -> str:
    parts = path.replace("\\", "/").split("/")
    if path.startswith(("/", "\\", "~")) or re.match(r"[A-Za-z]:", path):
        return "is an absolute path"
    if ".." in parts:
        return "leaves the project's folder"
    if any(path == one or (one.endswith("/") and path.startswith(one)) for one in scope.protected):
        return "is protected"
    if "/".join(part for part in parts if part not in ("", ".")) in scope.editable:
        return "is an editable file under another spelling"
    return "is not in scope"


def _check_size(path: str, text: str, max_file_kb: int) -> None:
    if not text.strip():
        raise ProposalRefused("empty", f"{path} would be empty; send its whole new text")
    size = max(len(text), len(text.encode("utf-8", "surrogatepass")))
    if size > max_file_kb * 1024:
        raise ProposalRefused("too_big", f"{path} would have {size:,} bytes; the limit is {max_file_kb} KB ([scope] max_file_kb)")


def _check_characters(path: str, text: str) -> None:
    """No character that an editor hides, a terminal obeys or git changes, and no declared encoding but UTF-8."""
    found = SUSPECT.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise ProposalRefused("characters", f"{path}:{line}: {_character(found.group())}")
    for number, line_text in enumerate(text.split("\n", 2)[:2], start=1):
        coding = CODING.match(line_text)
        if coding and coding.group(1).lower() not in UTF8:
            raise ProposalRefused("characters", f"{path}:{number}: declares the encoding {coding.group(1)}; the file must be UTF-8")


def _character(found: str) -> str:
    if found == "\0":
        return "a NUL byte; send plain text"
    if found == "\r":
        return "a carriage return; end lines with a line feed only"
    if found in BIDI:
        return f"the invisible direction mark {unicodedata.name(found)}; write it as an escape"
    kind = "a lone surrogate, which UTF-8 cannot hold" if "\ud800" <= found <= "\udfff" else f"the control character U+{ord(found):04X}"
    return f"{kind}; write it as an escape"


def _check_literals(path: str, tree: ast.Module, limit: int) -> None:
    """No expression whose literals add up to more than `limit` bytes: strings, sums of strings, tables of numbers."""
    for expression in _expressions(tree):
        sizes = [_size(node.value) for node in ast.walk(expression) if isinstance(node, ast.Constant)]
        if sum(sizes) > limit:
            what = "a literal" if max(sizes) > limit else "the literals of one expression"
            size = max(sizes) if max(sizes) > limit else sum(sizes)
            said = f"{what}: {size:,} bytes; the limit is {limit:,} ([scope] max_literal_bytes)"
            raise ProposalRefused("literal", f"{path}:{expression.lineno}: {said}")


def _expressions(tree: ast.Module) -> Iterator[ast.expr]:
    """Every expression that is not inside another one, in no order."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.expr):
            yield node
        else:
            stack.extend(ast.iter_child_nodes(node))


def _size(value: object) -> int:
    """Bytes that a literal's value carries."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, int):
        return max(1, (value.bit_length() + 7) // 8)
    return NUMBER_BYTES.get(type(value), 0)


def _check_contract(path: str, tree: ast.Module, parent: str) -> None:
    try:
        before = _functions(duplicates.parse(parent, path))
    except SyntaxError:
        return
    lost = [name for name in NEEDED if name in before and name not in _functions(tree)]
    if lost:
        raise ProposalRefused("contract", f"{path} no longer has a top-level function {lost[0]}, by which it is measured; keep it")


def _functions(tree: ast.Module) -> set[str]:
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def _check_difference(parents: Mapping[str, str], after: Mapping[str, str]) -> None:
    changed = [path for path in sorted(after) if after[path] != parents.get(path)]
    if not changed:
        raise ProposalRefused("no_change", "the proposal is the incumbent itself, byte for byte; change something")
    if any(path not in parents for path in changed):
        return
    alone = len(after) == 1
    if not all(_same(parents[path], after[path], True, alone) for path in changed):
        return
    if all(_same(parents[path], after[path], False, alone) for path in changed):
        raise ProposalRefused("no_change", f"only white space, comments or spelling change in {', '.join(changed)}; change what it does")
    raise ProposalRefused("seed_only", f"only a seed changes in {', '.join(changed)}, which is luck and no idea; change what it does")


def _same(old: str, new: str, ignore_seeds: bool, alone: bool) -> bool:
    return duplicates.fingerprint(old, ignore_seeds, alone) == duplicates.fingerprint(new, ignore_seeds, alone)
