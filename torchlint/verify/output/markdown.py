"""A verification as a comment on a pull request: GitHub-flavoured Markdown, short enough for
GitHub.

Names and messages come from the user's code, so nothing in them may become markup, a mention or a
link: every character with a meaning in Markdown or HTML is written as a character reference.
Source: https://github.github.com/gfm/#entity-and-numeric-character-references.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from torchlint.report.kit import words
from torchlint.report.kit.words import visible
from torchlint.verify.model import Report, VariantResult
from torchlint.verify.output import phrases, sentences
from torchlint.verify.output.table import Cell, Column, Row, Table, table

LONGEST = 60_000
"""Characters of a comment at most; GitHub refuses more than 65,536."""
_TABLE = 28_000
_LIST = 2_500
_FOLDED = ("Why", "Not verified", "How this was measured")
_NAME = 160
_SENTENCE = 600
_MARKUP = re.compile(r"[&<>\\`*_\[\]|~^$]|(?<=:)/(?=/)|(?<=www)\.", re.IGNORECASE)
_MARKER = re.compile(r"^\s*(?:[-+=#]|\d+[.)])")
"""What begins a list, a heading or a rule at the start of a line."""
_TONES = {"good": "✅ ", "bad": "❌ ", "doubt": "❔ "}


def render(report: Report, *, color: bool = False) -> str:
    """Return the report as Markdown of at most `LONGEST` characters; it has no colours."""
    found = table(report, "→")
    head = [
        f"### torchlint verify: {_code(sentences.command(report))}",
        "",
        f"**{escaped(words.clipped(sentences.headline(report), _SENTENCE))}**",
        "",
        escaped(words.clipped(sentences.device_line(report), _SENTENCE)),
        "",
    ]
    body = [*head, *_table(found), "", *_lists(report, found)]
    text = "\n".join(body) + "\n"
    return text + "".join(_diffs(report.variants, LONGEST - len(text)))


def escaped(text: str) -> str:
    """Return words of the user's code as plain words of one line: no markup, no mention, no link,
    no reference."""
    plain = _MARKUP.sub(_referenced, visible(text).replace("\t", " "))
    # GitHub looks for mentions and issue numbers in the rendered text; an empty comment parts that
    # text. The hash of a character reference stays.
    return re.sub(r"(?<!&)[@#]", r"\g<0><!-- -->", plain)


def _referenced(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(each)};" for each in found[0])


def _code(text: str) -> str:
    # <code>, not backticks: a reference to a pipe works in it inside a table, and mentions are not
    # looked for.
    return f"<code>{escaped(words.clipped(text, _NAME))}</code>" if text else ""


def _table(found: Table) -> Iterator[str]:
    if not found.rows:
        yield "No fix was verified."
        return
    yield _line(
        f"{column.head} ({column.basis})" if column.basis else column.head
        for column in found.columns
    )
    yield _line("---" for _ in found.columns)
    # The totals are the last rows and are never left out.
    single = [_row(row, found.columns) for row in found.rows if row.kind not in ("all", "null")]
    kept = _fitting(single, _TABLE)
    yield from kept
    if len(kept) < len(single):
        yield _line(
            [
                f"{len(single) - len(kept)} more, see the other formats",
                *[""] * (len(found.columns) - 1),
            ]
        )
    yield from (_row(row, found.columns) for row in found.rows if row.kind in ("all", "null"))


def _row(row: Row, columns: Sequence[Column]) -> str:
    return _line(_cell(column.name, row.cells[column.name], row.kind) for column in columns)


def _cell(name: str, cell: Cell, kind: str) -> str:
    if name == "where":
        return _code(cell.text)
    text = escaped(words.clipped(cell.text, _NAME))
    if name == "verdict" or (name == "results" and cell.tone == "bad"):
        return f"{_TONES.get(cell.tone, '')}{text}"
    return (
        f"**{text}**"
        if kind == "all" and name in ("fix", "speed", "code") and text != words.DASH
        else text
    )


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _lists(report: Report, found: Table) -> Iterator[str]:
    tree, *blocked = sentences.safety(report)
    version = f"torchlint {report.version}, {report.date}. {sentences.took(report)}"
    parts = sentences.parts(report, found.unmeasured if found.rows else ())
    how = parts.pop(_FOLDED[-1], ())
    parts[_FOLDED[-1]] = (sentences.surroundings(report), *how, *blocked, version)
    if report.tree_unchanged is not None:
        yield from _list("", [tree])
    for title, lines in parts.items():
        yield from (_folded if title in _FOLDED else _list)(title, lines)


def _list(title: str, lines: Sequence[str]) -> Iterator[str]:
    if title:
        yield from (f"**{title}**", "")
    # A line that begins like a list or a heading stays a line.
    items = [
        f"- {'<!-- -->' if _MARKER.match(line) else ''}{escaped(words.clipped(line, _SENTENCE))}"
        for line in lines
    ]
    kept = _fitting(items, _LIST)
    yield from kept
    if len(kept) < len(items):
        yield f"- and {len(items) - len(kept)} more"
    yield ""


def _folded(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield from (f"<details><summary>{title}</summary>", "", *_list("", lines), "</details>", "")


def _fitting(lines: Sequence[str], budget: int) -> list[str]:
    """Return the first lines that together have at most `budget` characters."""
    kept: list[str] = []
    for line in lines:
        budget -= len(line) + 1
        if budget < 0:
            break
        kept.append(line)
    return kept


def _diffs(variants: Sequence[VariantResult], budget: int) -> Iterator[str]:
    """Yield one folded diff a fix; what does not fit is cut with a line that says so."""
    # The diff of all fixes together repeats theirs.
    single = [each for each in variants if each.diff and each.kind != "all"]
    left = len(single)
    last = (
        "\n{} more diffs are left out: a comment on GitHub is limited. The html format has them.\n"
    )
    budget -= len(last) + 10
    for variant in single:
        lines = [visible(line) for line in variant.diff.splitlines()]
        fence = "`" * (
            max([2, *(len(run) for line in lines for run in re.findall("`+", line))]) + 1
        )
        place = f" {_code(variant.where)}" if variant.where else ""
        title = (
            "<details><summary>Diff: "
            f"{escaped(words.clipped(phrases.label(variant), _NAME))}{place}</summary>"
        )
        before, after = [title, "", f"{fence}diff"], [fence, "", "</details>", "", ""]
        cut = "... {} more lines are left out: a comment on GitHub is limited"
        # A fix has its share of what is left, so that one huge diff does not push out the others.
        kept = _fitting(
            lines, min(budget, LONGEST // 3) - len("\n".join([*before, cut, *after])) - 10
        )
        missing = [cut.format(len(lines) - len(kept))] if len(kept) < len(lines) else []
        text = "\n".join([*before, *kept, *missing, *after])
        if len(text) > budget:
            yield last.format(left)
            return
        budget -= len(text)
        left -= 1
        yield text
