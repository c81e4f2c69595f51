"""The changes of a fix run as one patch that ``git apply`` and ``patch -p1`` take."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from torchlint.base.finding import FileReport
from torchlint.report.kit.terminal import BOLD, CYAN, GREEN, RED, paint
from torchlint.report.kit.words import path_bytes, visible
from torchlint.report.run_report import RunReport

_NO_NEWLINE = "\\ No newline at end of file\n"
_STYLES = {"-": RED, "+": GREEN, "@": CYAN}


def render_diff(run: RunReport, *, for_eyes: bool | None = None) -> str:
    """Return the unified diff of every changed file, or an empty string.

    File names are relative to the folder that torchlint ran in. For eyes, a notebook is shown by
    its cells (``nb.ipynb:cell 3``), which no tool can apply.

    Args:
        run: the run; files whose `before` and `after` differ are printed.
        for_eyes: spell out control characters of the source, for a terminal; such a patch may not
            apply. By default only where the run has colours.
    """
    eyes = run.color if for_eyes is None else for_eyes
    files = sorted(run.files, key=lambda file: file.filename)
    return "".join(
        _shown(line, run.color) if eyes else line
        for file in files
        for line in _patch(run, file, eyes)
    )


def _patch(run: RunReport, file: FileReport, eyes: bool) -> Iterator[str]:
    if file.before == file.after:
        return
    relative = run.relative(file.filename, run.cwd or run.root)
    name = relative if relative is not None else run.absolute(file.filename).lstrip("/")
    if not (eyes and file.cells):
        yield from _changes(name, file.before, file.after)
        return
    for number, before, after in file.cells:
        yield from _changes(f"{name}:cell {number}", before, after)


def _changes(name: str, before: str, after: str) -> Iterator[str]:
    yield f"--- {_quoted('a/' + name)}\n"
    yield f"+++ {_quoted('b/' + name)}\n"
    diff = difflib.unified_diff(_lines(before), _lines(after))
    for line in list(diff)[2:]:
        if line.endswith("\n"):
            yield line
        else:
            yield f"{line}\n"
            yield _NO_NEWLINE


def _lines(text: str) -> list[str]:
    r"""Split at ``\n`` only, as git does: a ``\r`` before it stays part of the line."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _quoted(name: str) -> str:
    """Write a file name as git does: C-quoted where needed, and a tab after one with a space."""
    if visible(name) == name and not set(name) & set('"\\\t'):
        return f"{name}\t" if " " in name else name
    quoted = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in path_bytes(name)
    )
    return f'"{quoted}"'


def _shown(line: str, color: bool) -> str:
    body = visible(line[:-1].removesuffix("\r"))
    style = BOLD if line.startswith(("---", "+++")) else _STYLES.get(line[0], "")
    return (paint(body, style, color) if style else body) + "\n"
