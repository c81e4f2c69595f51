"""The changes of a fix run as one patch that ``git apply`` and ``patch -p1`` take.

What the fixes may change stands before each file's part, where both pass over it, and their codes
behind the ``@@`` of each hunk, where git writes the function.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from torchlint.base.finding import AppliedFix, FileReport, Safety
from torchlint.base.regex import regex
from torchlint.report.kit.terminal import BOLD, CYAN, GREEN, RED, paint
from torchlint.report.kit.words import path_bytes, visible
from torchlint.report.run_report import RunReport

_NO_NEWLINE = "\\ No newline at end of file\n"
_STYLES = {"-": RED, "+": GREEN, "@": CYAN, "#": CYAN}
_HUNK = regex(r"@@ -(\d+)(?:,(\d+))? .*@@")


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
    name = name_in_patch(run, file.filename)
    yield from _notes(name, file.fixes)
    if not (eyes and file.cells):  # the rows of a notebook's text say nothing of its JSON
        yield from _changes(name, file.before, file.after, () if file.cells else file.fixes)
        return
    for number, before, after in file.cells:
        fixes = [fix for fix in file.fixes if fix.cell == number]
        yield from _changes(f"{name}:cell {number}", before, after, fixes)


def name_in_patch(run: RunReport, filename: str, at: str = "") -> str:
    """Return what a patch calls a file, and where in it."""
    relative = run.relative(filename, run.cwd or run.root)
    return (relative if relative is not None else run.absolute(filename).lstrip("/")) + at


def _notes(name: str, fixes: Sequence[AppliedFix]) -> Iterator[str]:
    """Yield what fixes may change, a line for all of a rule that may change the same."""
    rows: dict[tuple[str, str], dict[str, None]] = {}
    for fix in fixes:
        if fix.note:
            cell = "" if fix.cell is None else f"cell {fix.cell}:"
            rows.setdefault((fix.code, fix.note), {})[f"{cell}{fix.row}"] = None
    for (code, note), places in rows.items():
        safety = next(fix.safety for fix in fixes if (fix.code, fix.note) == (code, note))
        words = " ".join(note.split())
        yield f"# {visible(name)}:{', '.join(places)}: {code} ({safety.value}): {words}\n"


def _heading(line: str, fixes: Sequence[AppliedFix]) -> str:
    """Return the first line of a hunk with the codes of the fixes that changed it."""
    found = _HUNK.match(line)
    if found is None:
        return line
    first, count = int(found[1]), int(found[2] or 1)
    inside = [fix for fix in fixes if any(first <= row <= first + count for row in fix.rows)]
    words = [
        fix.code if fix.safety is Safety.SAFE else f"{fix.code} ({fix.safety.value})"
        for fix in inside
    ]
    return f"{found[0]} {', '.join(dict.fromkeys(words))}".rstrip() + "\n"


def _changes(name: str, before: str, after: str, fixes: Sequence[AppliedFix]) -> Iterator[str]:
    yield f"--- {_quoted('a/' + name)}\n"
    yield f"+++ {_quoted('b/' + name)}\n"
    diff = difflib.unified_diff(_lines(before), _lines(after))
    for line in list(diff)[2:]:
        if line.endswith("\n"):
            yield _heading(line, fixes)
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
