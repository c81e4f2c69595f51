"""The message of a commit that holds one proved fix: what is done, what was measured, and how."""

from __future__ import annotations

import textwrap

from torchlint.report.kit.words import clipped, visible
from torchlint.verify.fixes import FixUnit
from torchlint.verify.model import Report, VariantResult, Verdict
from torchlint.verify.output import phrases, sentences

_SUBJECT = 72
_WIDTH = 76


def commit_message(unit: FixUnit, report: Report, command: str) -> str:
    """Return the message of the commit of a fix.

    Args:
        unit: the fix.
        report: of the run that proved it.
        command: the command line of that run.
    """
    result = next(each for each in report.variants if unit.id in each.fixes and each.kind != "all")
    assert report.proof is not None
    judged = next(each for each in report.proof.fixes if each.fix == unit.id)
    codes = "+".join(unit.codes)
    program = sentences.command(report)
    figures = [
        f"Results: {phrases.results(result, report.mode)}.",
        f"Speed: {_speed(result)}.",
        f"Better: {'; '.join(judged.gains)}.",
    ]
    whole = next((each for each in report.variants if each.kind == "all"), None)
    if whole is not None:
        count = len(report.proof.proven)
        said = phrases.results(whole, report.mode)
        figures.append(f"All {count} fixes proved in this run, together: {said}; {_speed(whole)}.")
    note = [f"The fix says: {visible(unit.note)}"] if unit.note else []
    measured = [
        sentences.device_line(report),
        sentences.method(report),
        f"torchlint {report.version}: {visible(command)}",
    ]
    parts = [
        clipped(f"{codes}: {visible(unit.title)}", _SUBJECT),
        f"{visible(unit.where)}, proved by torchlint verify on {program}:",
        "\n".join(_item(each) for each in figures),
        *map(_wrapped, note),
        "Measured:\n" + "\n".join(_item(each) for each in measured if each),
    ]
    return "\n\n".join(parts) + "\n"


def _speed(result: VariantResult) -> str:
    """Return the ratio and what it shows: a fix that is proved is not slower, at least."""
    verdict = "faster" if result.speed.verdict is Verdict.FASTER else "not slower"
    return f"{phrases.shown_speed(result.speed)}, {verdict}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _item(text: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
