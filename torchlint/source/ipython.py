"""What only IPython understands in a code cell: magics, system commands, help, prompts.

IPython rewrites such lines before it runs a cell (``IPython/core/inputtransformer2.py``). Here they
are found by the same rules, by row, so that each can be hidden behind one row of Python. Nothing is
parsed: any text is fine.
"""

from __future__ import annotations

import re

from torchlint.base.regex import regex
from torchlint.base.span import LineIndex

Cover = tuple[str, str]
"""The Python that stands for a row: what comes before, and after, a name that the caller makes
up."""

_PYTHON_CELLS = frozenset("capture debug ipytest memit prun px snakeviz time timeit wandb".split())
"""Cell magics that run the rest of their cell as Python, in the kernel; the rest of any other cell
is no Python."""
_AUTOMAGIC = regex(
    r"[ "
    r"\t]*(?:autoreload|cat|cd|clear|conda|cp|env|less|load_ext|ls|mamba|man|matplotlib|mkdir|more|mv|pip|pwd|pylab"
    r"|reload_ext|rm|rmdir|run|uv|who|whos)(?:[ \t]+(?![=(,:\[])|$)"
)
"""Line magics that go without ``%`` where the cell is that one line."""
_SUSPECT = regex(
    r"^[ \t\f]*[%!?,;/]|\?[ \t]*(?:#.*)?$|=[ \t]*[!%]|^[ \t]*(?:>>>|In \[)", re.MULTILINE
)
_PROMPT = regex(r"\s*(?:>>>|In \[\d+\]:)(?:\s|$)")
_CELL_MAGIC = regex(r"[ \t]*%%(\w*)(.*)", re.DOTALL)
_COMMENT = regex(r"[ \t\f]*(?:#.*)?", re.DOTALL)
_ESCAPED = regex(r"([ \t\f]*)[%!?,;/]")
_ASSIGNED = regex(
    r"([ \t\f]*[^\s#=!%'\"(](?:(?:[^#='\"(]|\[['\"][^'\"]*['\"]\])*[\w\]\s])?=)[ \t]*[!%]"
)
_BINDING = regex(r"([ \t\f]*)%(?:time|prun)[ \t]+((?:\w+[ \t]*,[ \t]*)*\w+)[ \t]*=(?!=)")
_RUNNING = regex(r"%(?:run|pylab)\b")
_HELP = regex(r"[\w*\]]\?\??\Z")
# Linear: no two alternatives of a repetition start alike.
_PIECE = regex(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:"""|\Z)'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\Z)"
    r'|"[^"\\\r\n]*(?:\\(?:\r\n|.)[^"\\\r\n]*)*"?'
    r"|'[^'\\\r\n]*(?:\\(?:\r\n|.)[^'\\\r\n]*)*'?"
    r"|#[^\r\n]*|\\(?:\r\n|.)|[()\[\]{}]|\r\n|\n|\r",
    re.DOTALL,
)


def covers(source: str) -> tuple[dict[int, Cover], int] | None:
    """Return the rows of a cell that are not Python, each with what may stand for it.

    The second value says how many of them are the cell's magics, which must stay above all else.
    None: the cell as a whole is no Python (``%%bash``, or with prompts).
    """
    if not _SUSPECT.search(source.replace("\r", "\n")) and not _AUTOMAGIC.match(source):
        return {}, 0
    index = LineIndex(source)
    lines = [index.line(row) for row in range(1, len(index) + 1)]
    if _PROMPT.match(source):
        return None
    if len(source.split()) > 1 and len(source.splitlines()) == 1 and _AUTOMAGIC.match(source):
        return {1: _line_cover("%" + source.lstrip())}, 0
    head = _cell_magics(lines)
    if head is None:
        return None
    found = {row: _statement(_body_like(lines, head)) for row in head}
    row = head[-1] + 1 if head else 1
    while row <= len(lines):
        line = lines[row - 1]
        if _ESCAPED.match(line) or _ASSIGNED.match(line):
            found[row] = _line_cover(line)
            while lines[row - 1].endswith("\\") and row < len(lines):
                row += 1
                found[row] = _statement(line)
            row += 1
        else:
            end, asks = _logical_line(source, index.starts[row - 1])
            if asks:
                found[row] = _statement(line)
            # At the end of the text there is no next row, unless a newline came last: then it is
            # empty.
            row = index.position(end).row if end < len(source) else len(lines) + 1
    return found, len(head)


def _cell_magics(lines: list[str]) -> list[int] | None:
    """Return the rows of the cell magics at the top, comments between them allowed; None if the
    cell is no Python."""
    found = []
    for row, line in enumerate(lines, 1):
        magic = _CELL_MAGIC.match(line)
        if magic and not magic[2].rstrip().endswith("?"):
            if magic[1] not in _PYTHON_CELLS:
                return None
            found.append(row)
        elif not _COMMENT.fullmatch(line):
            break
    return found


def _body_like(lines: list[str], head: list[int]) -> str:
    """Return a row that is indented like what stands below the cell's magics: IPython dedents that
    by itself."""
    return next((line for line in lines[head[-1] :] if line.strip()), lines[head[-1] - 1])


def _statement(line: str) -> Cover:
    """Return a statement that does nothing, indented like `line`."""
    return f"{line[: len(line) - len(line.lstrip())]}pass  # ", ""


def _line_cover(line: str) -> Cover:
    """Return what stands for a magic or a command: names that it binds are bound, to something
    unknown."""
    binding = _BINDING.match(line)
    if binding:
        return f"{binding[1]}{binding[2]} = ", ""
    if _RUNNING.match(line):
        return "from ", " import *"
    assigned = None if _ESCAPED.match(line) else _ASSIGNED.match(line)
    return (f"{assigned[1]} ", "") if assigned else _statement(line)


def _logical_line(source: str, at: int) -> tuple[int, bool]:
    """Return where the logical line that starts at `at` ends, behind its newline, and whether it
    asks for help."""
    depth = 0
    pieces_end, code_end = at, -1
    for piece in _PIECE.finditer(source, at):
        first = piece[0][0]
        if first in "([{":
            depth += 1
        elif first in ")]}":
            depth -= 1
        elif first in "\r\n":
            if depth <= 0:
                return piece.end(), _asks(
                    source, at, pieces_end, piece.start() if code_end < 0 else code_end
                )
        elif first == "#":
            code_end = piece.start()
            continue
        pieces_end, code_end = piece.end(), -1
    return len(source), _asks(source, at, pieces_end, len(source) if code_end < 0 else code_end)


def _asks(source: str, start: int, pieces_end: int, end: int) -> bool:
    code = source[start:end].rstrip()
    return start + len(code) > pieces_end and "\n" not in code and _HELP.search(code) is not None
