"""Draws the picture at the top of the README: a terminal with a real run, as an SVG that needs
nothing else.

Run ``python docs/picture.py`` to draw it anew. It follows the colour scheme of whoever looks at it,
and every piece of text is told its place and width, so that no font can break the columns.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "assets" / "terminal.svg"
COMMAND = ("torchlint", "check", "--select", "TL101", "fixtures/demo/train.py")
_COLUMN, _ROW, _EDGE, _TOP = 8.4, 19, 20, 52
_COLUMNS = 88
_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")
_CLASSES = {
    "": "",
    "0": "",
    "1": "b",
    "2": "d",
    "31": "r",
    "32": "g",
    "36": "c",
    "1;31": "b r",
    "1;33": "b y",
    "1;34": "b l",
    "1;36": "b c",
}
_STYLE = """\
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328; }
.f { fill: #f6f8fa; stroke: #d1d9e0; } .b { font-weight: bold; } .d { fill: #59636e; } .r { fill: #cf222e; }
.g { fill: #1a7f37; } .y { fill: #9a6700; } .l { fill: #0969da; } .c { fill: #1b7c83; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .f { fill: #0d1117; stroke: #3d444d; } .d { fill: #9198a1; } .r { fill: #ff7b72; }
  .g { fill: #56d364; } .y { fill: #e3b341; } .l { fill: #79c0ff; } .c { fill: #56d4dd; }
}"""  # noqa: E501


def shown() -> list[str]:
    """Return the lines of the terminal, with colours: the prompt and what the command prints."""
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(_COLUMNS)}
    env.pop("NO_COLOR", None)
    words = [sys.executable, "-m", COMMAND[0], COMMAND[1], "--no-cache", *COMMAND[2:]]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 1 or done.stderr:
        raise RuntimeError(done.stderr or f"exit code {done.returncode}")
    return [f"\x1b[2m$\x1b[0m \x1b[1m{' '.join(COMMAND)}\x1b[0m", *done.stdout.splitlines()]


def pieces(line: str) -> Iterator[tuple[str, int, str]]:
    """Yield (class, column, text) for each run of one colour in a line; blanks at its ends are left
    out.

    A line that is too long goes on in the next row, as in a terminal: columns count on.
    """
    style, column, at = "", 0, 0
    for found in [*_ESCAPE.finditer(line), None]:
        text = line[at : found.start() if found else len(line)]
        while text:
            part = text[: _COLUMNS - column % _COLUMNS]
            if part.strip():
                yield style, column + len(part) - len(part.lstrip()), part.strip()
            column += len(part)
            text = text[len(part) :]
        if found:
            style, at = _CLASSES[found[1]], found.end()


def svg(lines: list[str]) -> str:
    """Return the picture of a terminal that shows some lines."""
    wrapped = [max(len(_ESCAPE.sub("", line)) - 1, 0) // _COLUMNS for line in lines]
    width, height = (
        int(_COLUMNS * _COLUMN + 2 * _EDGE),
        _TOP + (len(lines) + sum(wrapped)) * _ROW + 8,
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 '
        f'{width} {height}"'
        ' role="img" aria-label="A terminal: torchlint check reports a wait for the GPU in each '
        'step, and a repair">',
        f"<style>\n{_STYLE}\n</style>",
        f'<rect class="f" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        *(
            f'<circle cx="{_EDGE + 20 * at}" cy="20" r="6" fill="{fill}"/>'
            for at, fill in enumerate(_LIGHTS)
        ),
    ]
    for number, line in enumerate(lines):
        for style, column, text in pieces(line):
            kind = f' class="{style}"' if style else ""
            row = number + sum(wrapped[:number]) + column // _COLUMNS
            place = f'x="{_EDGE + column % _COLUMNS * _COLUMN:.1f}" y="{_TOP + row * _ROW}"'
            length = f'textLength="{len(text) * _COLUMN:.1f}" lengthAdjust="spacingAndGlyphs"'
            parts.append(f'<text{kind} {place} {length} xml:space="preserve">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])


_LIGHTS = ("#ff5f57", "#febc2e", "#28c840")

if __name__ == "__main__":
    PICTURE.write_text(svg(shown()), encoding="utf-8")
