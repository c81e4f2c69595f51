"""Pages on rules, all printed from the rule files: markdown for the site, text for the terminal,
the README table."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from torchlint.base.finding import Safety
from torchlint.catalog.manual import HEADINGS
from torchlint.catalog.rules import Catalog, RuleInfo
from torchlint.manual.measurements import read, read_costs, read_weights
from torchlint.report.kit.terminal import wrapped

MEASURED = Path(__file__).parent / "measured.json"
"""Rule code → what was measured, with machine and versions; written by ``torchlint verify rules``,
not by hand."""
WIDTH = 100
"""Columns of a page in a terminal."""
NOT_MEASURED = "Not measured here."
_SAYS_WHAT = ("Flagged", "An `info`", "Silent")
_FIX_WORDS = {
    Safety.SAFE: "safe fix",
    Safety.UNSAFE: "unsafe fix",
    Safety.SUGGESTION: "suggested fix",
}


@lru_cache(maxsize=1)
def measurements() -> Mapping[str, tuple[str, ...]]:
    """Return lines of markdown on what was measured, by rule code; empty where nothing was.

    Raises:
        CatalogError: `MEASURED` is damaged.
    """
    return read(MEASURED)


@lru_cache(maxsize=1)
def costs() -> Mapping[str, str]:
    """Return what was measured of each rule's example, in a few words by code.

    Raises:
        CatalogError: `MEASURED` is damaged.
    """
    return read_costs(MEASURED)


@lru_cache(maxsize=1)
def weights() -> Mapping[str, tuple[float, float]]:
    """Return what was measured of each rule's example as numbers by code, see `RuleMeta`.

    Raises:
        CatalogError: `MEASURED` is damaged.
    """
    return read_weights(MEASURED)


def fix_words(info: RuleInfo) -> str:
    """Return in words which fixes a rule has: ``"safe fix, unsafe fix"`` or ``"no fix"``."""
    return ", ".join(_FIX_WORDS[safety] for safety in info.fixes) or "no fix"


def meta_line(info: RuleInfo) -> str:
    """Return severity, default and fixes in one line."""
    return f"{info.severity} · {'on' if info.default else 'off'} by default · {fix_words(info)}"


def sections(
    info: RuleInfo, measured: Mapping[str, tuple[str, ...]] | None = None
) -> list[tuple[str, str]]:
    """Return (heading, markdown) in the order of a page; Measure holds how it is measured and the
    results."""
    results = (measurements() if measured is None else measured).get(info.code) or (NOT_MEASURED,)
    how = info.sections.get("Measure", "")
    found = [
        (heading, info.sections[heading]) for heading in HEADINGS[:-1] if heading in info.sections
    ]
    return [*found, ("Measure", "\n".join((how, "", *results)).strip())]


def why_and_flagged(why: str) -> tuple[str, str]:
    """Return a section Why without its paragraphs that say what is flagged, and these: they begin
    with one of `_SAYS_WHAT`, or are lists behind such a one."""
    rest: list[str] = []
    flagged: list[str] = []
    for part in why.split("\n\n"):
        said = part.startswith(_SAYS_WHAT) or (flagged and part.startswith("- "))
        (flagged if said else rest).append(part)
    text = "\n\n".join(flagged).removeprefix("Flagged: ")
    return "\n\n".join(rest), text[:1].upper() + text[1:]


def page(info: RuleInfo, measured: Mapping[str, tuple[str, ...]] | None = None) -> str:
    """Return a rule's page as markdown, ending with a newline.

    Args:
        info: the rule.
        measured: what was measured by code; by default `measurements`.
    """
    parts = [f"# {info.name} ({info.code})", meta_line(info), info.title, f"> {info.message}"]
    for heading, text in sections(info, measured):
        parts += [f"## {heading}", text]
    return "\n\n".join(part for part in parts if part) + "\n"


def page_text(info: RuleInfo) -> str:
    """Return a rule's page for a terminal: no markup, code indented by four blanks, prose in lines
    of at most `WIDTH`; what is flagged stands behind the examples; ends with a newline."""
    message = "\n".join(wrapped(f"Message: {info.message}", WIDTH))
    parts = [f"{info.name} ({info.code})", meta_line(info), info.title, message]
    rest, flagged = why_and_flagged(info.sections.get("Why", ""))
    said = {heading: [text] for heading, text in sections(info)} | {"Why": [rest]}
    if flagged:
        said["Good" if "Good" in said else "Why"] += ["WHEN IT IS FLAGGED", flagged]
    for heading, texts in said.items():
        parts += [heading.upper(), *map(_without_fences, texts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _without_fences(markdown: str) -> str:
    lines: list[str] = []
    prose: list[str] = []
    inside = False
    for line in (*markdown.split("\n"), ""):
        if inside or not line or line.startswith(("```", "- ")):
            lines += _filled(prose)
            prose = []
        if line.startswith("```"):
            inside = not inside
        elif inside or not line:
            lines.append(textwrap.indent(line, "    "))
        else:
            prose.append(line)
    return "\n".join(lines[:-1])


def _filled(lines: list[str]) -> list[str]:
    """Return a paragraph, or a point of a list, broken anew where a line of it is too long."""
    if all(len(line) <= WIDTH for line in lines):
        return lines
    hang = "  " if lines[0].startswith("- ") else ""
    return wrapped(" ".join(map(str.strip, lines)), WIDTH, hang=hang)


def readme_table(catalog: Catalog) -> str:
    """Return the README's table of all rules as markdown, ending with a newline."""
    rows = [
        "| Code | Rule | What | Fix | Default | Severity |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for info in catalog.rules:
        fixes = ", ".join(safety.value for safety in info.fixes) or "–"
        cells = (info.code, f"`{info.name}`", info.title, fixes, "on" if info.default else "off")
        rows.append(
            f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} | "
            f"{info.severity} |"
        )
    return "\n".join(rows) + "\n"
