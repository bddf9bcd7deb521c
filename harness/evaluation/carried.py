"""What a text may carry: so many bytes, plain characters, no literal so long that data could ride in it, and no more than a program grows by. Pure;
raises `ProposalRefused`.
"""

from __future__ import annotations

import ast
import re
import unicodedata
import zlib
from collections.abc import Iterator

from harness.errors import ProposalRefused

BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
SUSPECT = re.compile(r"[\x00-\x08\x0b\r\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
CODING = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
UTF8 = frozenset({"utf-8", "utf8", "utf_8", "u8"})
NUMBER_BYTES = {float: 8, complex: 16}
GROWTH = 4  # of the limit of one expression: what a whole file may gain once it is packed; code of that much is some thirty kilobytes


def check_size(path: str, text: str, max_file_kb: int) -> None:
    """Neither empty nor longer than `max_file_kb` KiB."""
    if not text.strip():
        raise ProposalRefused("empty", f"{path} would be empty; send its whole new text")
    size = max(len(text), len(text.encode("utf-8", "surrogatepass")))
    if size > max_file_kb * 1024:
        raise ProposalRefused("too_big", f"{path} would have {size:,} bytes; the limit is {max_file_kb} KB ([scope] max_file_kb)")


def check_characters(path: str, text: str) -> None:
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


def check_literals(path: str, tree: ast.Module, limit: int) -> None:
    """No expression whose literals add up to more than `limit` bytes: strings, sums of strings, tables of numbers."""
    for expression in _expressions(tree):
        sizes = [_size(node.value) for node in ast.walk(expression) if isinstance(node, ast.Constant)]
        if sum(sizes) > limit:
            what = "a literal" if max(sizes) > limit else "the literals of one expression"
            size = max(sizes) if max(sizes) > limit else sum(sizes)
            said = f"{what}: {size:,} bytes; the limit is {limit:,} ([scope] max_literal_bytes)"
            raise ProposalRefused("literal", f"{path}:{expression.lineno}: {said}")


def check_growth(path: str, text: str, parent: str, limit: int) -> None:
    """Not so much more than its parent, packed, that data could ride in many short literals, in names or in comments; a packed program is a quarter of its size."""
    grown, most = _packed(text) - _packed(parent), GROWTH * limit
    if grown > most:
        said = f"packed, it holds {grown:,} bytes more than before; the limit is {most:,}, {GROWTH} times [scope] max_literal_bytes"
        raise ProposalRefused("literal", f"{path}: {said}")


def _packed(text: str) -> int:
    return len(zlib.compress(text.encode("utf-8", "surrogatepass"), 9))


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
