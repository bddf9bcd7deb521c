"""May this proposal run? Pure checks on its text, cheapest first; what does not pass costs no device time.

Reason codes: `out_of_scope`, `empty`, `too_big`, `characters`, `syntax`, `literal`, `contract`, `no_change`, `seed_only`,
`banned`, `duplicate`.
The guard keeps data from being carried in as text and work from being wasted. It is no sandbox: what the code *does* is contained by
execution/, and what it *claims* is checked by the evaluator.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from harness.errors import ProposalRefused
from harness.evaluation import bans, carried
from harness.graph import duplicates
from harness.rules import Rules
from harness.sections import Scope
from harness.trial import Change, Proposal

NEEDED = ("load_model",)


def check(proposal: Proposal, rules: Rules, parents: Mapping[str, str], known: Mapping[str, int]) -> Change:
    """What the proposal changes, if it may run; otherwise `ProposalRefused` with a reason code, one sentence and the earlier trial.

    `parents` is the text of each editable file at the parent, `known` maps `Change.ast_sha256`, or `Change.file_sha256` of a failed one, to the trial that ran it.
    """
    texts = _in_scope(proposal, rules.scope)
    for path in sorted(texts):
        tree = examine(path, texts[path], rules.scope)
        carried.check_growth(path, texts[path], parents.get(path, ""), rules.scope.max_literal_bytes)
        _check_contract(path, tree, parents.get(path, ""))
    after = {**parents, **texts}
    _check_difference(parents, after)
    bans.check(proposal, rules.ban, parents, after)
    change = duplicates.change_all(parents, after)
    earlier = known.get(change.ast_sha256, known.get(change.file_sha256))
    if earlier is not None:
        raise ProposalRefused("duplicate", f"the same program was trial {earlier} already; propose something else", earlier)
    return change


def examine(path: str, text: str, scope: Scope) -> ast.Module:
    """The tree of one file that may be run, whatever its parent; raises `ProposalRefused`. Also for the baseline, before a study."""
    carried.check_size(path, text, scope.max_file_kb)
    carried.check_characters(path, text)
    try:
        tree = duplicates.parse(text, path)
    except SyntaxError as error:
        where = f"{path}:{error.lineno}" if error.lineno else path
        raise ProposalRefused("syntax", f"{where}: {error.msg}; send a file that compiles") from None
    carried.check_literals(path, tree, scope.max_literal_bytes)
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
