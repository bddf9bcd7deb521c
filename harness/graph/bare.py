"""A program without what its author says about it: no comments, no docstrings, one layout and one spelling of names and texts. Pure: text in, text out.

What is left is the same program, or it is refused. Code may read what was left out: its docstrings, or the lines of its own file. Then a change of those is
a change of the program that this cannot show, and it is refused too. Code that hides how it reads them is not seen.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from harness.graph import duplicates
from harness.graph.normal import spelling

CONTEXT_LINES = 8
DOCS = re.compile(r"__doc__|__dict__|__code__|co_consts|\b(?:globals|locals|vars|getdoc|pydoc|doctest|unittest|help)\b")
LINES = re.compile(
    r"__(?:file|loader|spec|cached|traceback)__|argv|lineno|co_(?:lines|positions|filename)|_getframe|\b(?:f|gi|cr|ag|tb)_(?:code|frame)\b|\*\.py|\b(?:inspect|linecache|traceback|runpy|faulthandler|get_?source\w*|get_data)\b"
)


class Bare(NamedTuple):
    """The code, the texts that are whole statements, and all names and texts of the code."""

    text: str
    told: tuple[object, ...]
    words: str


@lru_cache(maxsize=16)
def bare(text: str, name: str = "<text>") -> Bare:
    """A text that is a whole statement becomes `...`. Raises `SyntaxError` for what does not compile or cannot be written as the same program."""
    if "\r" in text:
        raise SyntaxError(f"{name}: line ends of another system")
    duplicates.parse(text, name)
    tree, told = duplicates.fresh(text), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, (str, bytes)):
            told.append(node.value.value)  # never an f-string: its fields run
            node.value = ast.Constant(...)
    words = "\n".join(str(value) for node in ast.walk(tree) for _, value in ast.iter_fields(node) if isinstance(value, (str, bytes)))
    try:
        shown = ast.unparse(tree)  # wrong for some texts with fields, other ones in every Python
        same = [*spelling(duplicates.fresh(shown))] == [*spelling(tree)]
    except (RecursionError, ValueError) as fault:
        raise SyntaxError(f"{name}: {fault}") from None
    if not same:
        raise SyntaxError(f"{name}: without its comments it would be another program")
    return Bare(shown, tuple(told), words)


def change(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The unified diff of the code alone, file by file; raises `SyntaxError`, also when the code reads what is not shown and that changes."""
    pairs = [(name, bare(before.get(name, ""), name), bare(after[name], name)) for name in sorted(after)]
    words = "\n".join(one.words for _, *pair in pairs for one in pair)
    if DOCS.search(words) and any(old.told != new.told for _, old, new in pairs):
        raise SyntaxError("the code reads its docstrings, and they change")
    if any(before.get(name) != text for name, text in after.items()) and (LINES.search(words) or any(name in words for name in after)):
        raise SyntaxError("the code reads its own file, and that changes")
    texts = [(old.text.split("\n"), new.text.split("\n"), f"a/{name}", f"b/{name}") for name, old, new in pairs]
    return "\n".join(line for each in texts for line in difflib.unified_diff(*each, lineterm="", n=CONTEXT_LINES))
