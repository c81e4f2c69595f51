"""A cell that is not Python yet, so that the other cells can be checked without it.

People write one cell while the others stand. Nothing can be said of the cell itself, and of the
names that it may bind only that they are unknown.
"""

from __future__ import annotations

import ast
import re
from keyword import iskeyword

from torchlint.base.regex import regex
from torchlint.base.span import LineIndex
from torchlint.source.python import parsed

_NAME = r"(?<![\w.])[^\W\d]\w*"
_DOTTED = rf"{_NAME}(?:\.[^\W\d]\w*)*"
_PLAIN = regex(rf"{_NAME}(?![\w.(\[])")
_SETTING = regex(rf"({_DOTTED})\s*(?::[^=\n]*)?(?:[-+*/%@&|^]|//|\*\*|<<|>>)?=(?!=)")
_LISTS = regex(
    r"^([^=\r\n]*,[^=\r\n]*)=(?!=)"  # a, b =
    r"|\bfor\b(.*?)\bin\b"
    r"|\bimport\b[ \t]*(\([^)]*|.*)"
    r"|\b(?:as|def|class)\b(.*?)(?:[(:,]|$)",
    re.MULTILINE,
)
_MODULE = regex(r"\bimport[ \t]+([^\W\d]\w*)\.")
_IMPORT = regex(r"[ \t\f]*(?:import|from)\b")


def unfinished(python: str, mark: str, indent: str) -> str:
    """Return as many rows of Python for a cell: its imports, its other names bound to what nobody
    knows, and comments.

    The comments hold its rows, some of which speak of the notebook as a whole, such as a
    suppression.

    Args:
        python: the cell, which does not parse.
        mark: a name that is bound nowhere.
        indent: what the rows of the cell begin with, as the row above it asks for.
    """
    index = LineIndex(python.replace("\0", " "))
    rows = [index.line(row) for row in range(1, len(index) + 1)]
    imports = {row: _imports(row) for row in rows if _IMPORT.match(row)}
    targets = "".join(
        f"{name} = "
        for name in sorted(_bound("\n".join(row for row in rows if not imports.get(row))))
    )
    first = f"{indent}{''.join(imports.values())}{targets}{mark}"
    return "\n".join([f"{first}  # {rows[0]}", *(f"# {row}" for row in rows[1:])])


def _imports(row: str) -> str:
    """Return the imports of a row that holds nothing else, or an empty string."""
    tree = parsed(row.strip())
    if tree is None or not all(
        isinstance(each, (ast.Import, ast.ImportFrom)) for each in tree.body
    ):
        return ""
    return "".join(f"{ast.unparse(each)}; " for each in tree.body)


def _bound(python: str) -> set[str]:
    """Return all names, dotted ones too, that any row looks like binding: rather too many than too
    few."""
    found = set(_SETTING.findall(python)) | set(_MODULE.findall(python))
    for groups in _LISTS.findall(python):
        found.update(_PLAIN.findall(" ".join(groups)))
    return {
        name
        for name in found
        if all(part.isidentifier() and not iskeyword(part) for part in name.split("."))
    }
