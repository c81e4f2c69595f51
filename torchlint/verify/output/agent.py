"""A verification for coding agents: the verdict, a line for each fix, the reasons, what is left,
and the command to run next, within a number of tokens."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from torchlint.program.traffic import UNUSED
from torchlint.report.kit import words
from torchlint.report.kit.tokens import within
from torchlint.report.kit.words import visible
from torchlint.verify.model import Report, VariantResult, Verdict
from torchlint.verify.output import phrases, sentences
from torchlint.verify.output.table import Row, Table, table

_ARROW = "->"
_TITLES = {
    "": "fact",
    "Interactions": "interaction",
    "Warnings": "warning",
    "How this was measured": "method",
}


def render(report: Report, typed: Sequence[str], tokens: int) -> str:
    """Return the report.

    Args:
        report: what was found.
        typed: the command as it was typed, for the one to run next.
        tokens: how much is printed at most.
    """
    return within(list(_lines(report)), tokens, f"next: {visible(_next(report, typed))}")


def _lines(report: Report) -> Iterator[str]:
    found = table(report, _ARROW)
    yield f"verify: {sentences.command(report)} ({report.mode} mode)"
    yield f"verdict: {sentences.headline(report)}"
    yield f"on: {sentences.device_line(report)}"
    yield from (_row(found, row) for row in found.rows)
    for title, lines in sentences.parts(report, ()).items():
        yield from (f"{_TITLES.get(title, title.lower())}: {each}" for each in lines)
    yield from (f"files: {each}" for each in sentences.safety(report))


def _row(found: Table, row: Row) -> str:
    """Return a row of the table as ``fix TL603 at a.py:15; speed on CPU 1.2x; verdict faster``."""
    cells = [
        f"{column.head}{f' ({column.basis})' if column.basis else ''} {text}"
        for column in found.columns
        if (text := row.cells[column.name].text) not in ("", words.DASH)
    ]
    return "; ".join(cells)


def _next(report: Report, typed: Sequence[str]) -> str:
    """Return the command to run next, or what to do where there is none."""
    kept = [each for each in report.variants if _worth_it(each)]
    counts = [each.counts for each in report.variants if each.counts is not None]
    unused = any(each.unavailable == UNUSED for each in counts)
    if report.versions is not None:
        if not kept:
            return "take the change back, or measure longer: nothing is shown to be better"
        gpu = report.machine.device == "cuda"
        return "keep the change" + "; measure it on a GPU before you claim a speed-up" * (not gpu)
    if report.mode == "rules":
        return "read why; such examples say nothing of a program"
    if report.proof is not None and report.proof.written:
        if report.machine.device != "cuda":
            return "run the project's tests, then torchlint check again"
        words = ["torchlint", "profile", "--output-format", "agent", ".", "--", *report.command]
        return shlex.join(words)
    if unused and not kept:
        return "run this again with a program that uses a GPU if torch.cuda.is_available()"
    if report.proof is not None:
        return "nothing was written: 'not proved' says what is missing"
    if not kept:
        return "apply none of these; read why, or take another finding of torchlint check"
    if report.mode != "script":
        return "apply by hand what is better with results as promised"
    note, plain = "", [word for word in typed[1:] if word != "virtual-cuda"]
    if len(plain) + 1 < len(typed):  # it takes no times, so it can prove nothing
        plain = [word for word in plain if word not in ("--device", "--device=virtual-cuda")]
        note = "  # the program must run without a GPU: torch.cuda.is_available()"
    return shlex.join(["torchlint", "verify", "--apply", *plain]) + note


def _worth_it(variant: VariantResult) -> bool:
    """Say whether a fix is faster or waits or copies less, and keeps its promise."""
    kept = variant.equality is not None and variant.equality.ok
    counts = phrases.counted(variant)
    faster = variant.speed.verdict is Verdict.FASTER
    fewer = counts is not None and sentences.lowers(counts)
    return kept and variant.speed.verdict is not Verdict.SLOWER and (faster or fewer)
