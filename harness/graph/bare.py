"""A text without what its author says about it: no comments, no docstrings. Pure: text in, text out; what is left keeps its layout."""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
from collections.abc import Iterator, Mapping

from harness.graph.duplicates import parse

CONTEXT_LINES = 8
Place = tuple[int, int]  # line from 0, character


def bare(text: str, name: str = "<text>") -> str:
    """The code alone; a bare string that is a whole statement becomes `...`. Raises `SyntaxError` for a text that does not parse."""
    if "\r" in text:
        raise SyntaxError(f"{name}: line ends of another system")
    lines = text.split("\n")
    strings = list(_strings(parse(text, name), lines))
    comments = [one for one in _comments(text) if not any(start <= one[0] < end for start, end, _ in strings)]
    for start, end, instead in sorted([*comments, *strings], reverse=True):
        kept = lines[start[0]][: start[1]] + instead + lines[end[0]][end[1] :]
        lines[start[0] : end[0] + 1] = [kept.rstrip()] if kept.strip() else []
    return "\n".join(lines)


def change(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The unified diff of the code alone, file by file; raises `SyntaxError`."""
    parts: list[str] = []
    for name in sorted(after):
        old, new = bare(before.get(name, ""), name).split("\n"), bare(after[name], name).split("\n")
        parts += difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="", n=CONTEXT_LINES)
    return "\n".join(parts)


def _comments(text: str) -> Iterator[tuple[Place, Place, str]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                yield (token.start[0] - 1, token.start[1]), (token.end[0] - 1, token.end[1]), ""
    except (tokenize.TokenError, IndentationError) as fault:
        raise SyntaxError(str(fault)) from None


def _strings(tree: ast.Module, lines: list[str]) -> Iterator[tuple[Place, Place, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
            yield _place(lines, node.lineno, node.col_offset), _place(lines, end_line, end_column), "..."


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, (str, bytes)))


def _place(lines: list[str], line: int, byte: int) -> Place:
    """The tree counts bytes from line 1."""
    return line - 1, len(lines[line - 1].encode()[:byte].decode())
