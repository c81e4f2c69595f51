"""Explanations as text for people: what the rules say first, then how often the line runs, then
what its values are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchlint.base.explanation import Belief, ExplainedReport, Explanation, Pace, State, Verdict
from torchlint.base.finding import Reason
from torchlint.report.kit.terminal import BOLD, CYAN, GREEN, RED, paint, wrapped
from torchlint.report.kit.words import visible, visible_path

WIDTH = 100
_BELIEFS = 6
"""Values told in text; JSON has them all."""
_SILENT = 8
_STYLES = {State.FLAGGED: RED, State.SILENT: GREEN}
_WORDS = {
    State.FLAGGED: "flagged",
    State.SUPPRESSED: "found, but suppressed",
    State.YIELDED: "found, but left to a more specific rule",
    State.OFF: "found, but switched off",
    State.SILENT: "silent",
    State.LOOKED: "looked",
    State.ASKED: "asked",
    State.ABSENT: "not about this line",
}

_JOINED = {State.SILENT: "about", State.LOOKED: "at"}


def render(reports: Iterable[ExplainedReport], color: bool) -> str:
    """Return all explanations, a blank line between them."""
    parts = [
        _explanation(report, each, color) for report in reports for each in report.explanations
    ]
    return "\n".join(parts)


def _explanation(report: ExplainedReport, each: Explanation, color: bool) -> str:
    head = f"{visible_path(report.filename)}:{each.place.words}"
    lines = [f"{paint(head, BOLD, color)}: {visible(each.source)}".rstrip(": ")]
    if each.remark:
        lines += ["", *_wrapped(f"{each.remark[0].upper()}{each.remark[1:]}.", 2)]
    lines += ["", *_verdicts(each, color)] if each.verdicts or not each.remark else []
    if each.waits:
        lines += ["", f"  {paint('What the host waits for', BOLD, color)}"]
        lines += [line for words in each.waits for line in _wrapped(words, 6)]
    if each.pace is not None:
        lines += ["", *_pace(report.filename, each.pace, color)]
    if each.beliefs:
        lines += ["", *_beliefs(report.filename, each.beliefs, color)]
    return "".join(f"{line}\n" for line in lines)


def _verdicts(each: Explanation, color: bool) -> Iterator[str]:
    if not each.verdicts:
        yield from _wrapped(
            "No rule has anything to say here: nothing on the line is what a rule looks for.", 2
        )
    states = {verdict.state for verdict in each.verdicts}
    if State.LOOKED in states and not states - {State.LOOKED, State.ASKED}:
        yield "  No rule reports this line. These rules check such code:"
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in (one for one in each.verdicts if one.state is not State.ASKED):
        key = (
            verdict.state,
            verdict.row,
            verdict.column,
            verdict.expression,
            verdict.because,
            verdict.message,
            verdict.decided_by,
        )
        groups.setdefault(key, []).append(verdict)
    silent = [group for group in groups.values() if group[0].state in _JOINED]
    for group in groups.values():
        if group not in silent[_SILENT:]:
            yield from _group(each, group, color)
    codes = ", ".join(one.code for one in each.verdicts if one.state is State.ASKED)
    if codes:
        head = "Other rules" if groups else "No rule reports this line. Rules"
        yield from _wrapped(f"{head} that looked at it and found no match: {codes}.", 2)
    if len(silent) > _SILENT:
        more = sum(map(len, silent[_SILENT:]))
        yield f"  … and {more} more (--output-format json has them)"


def _group(each: Explanation, group: list[Verdict], color: bool) -> Iterator[str]:
    """Yield what one rule says, or several say with the same words."""
    verdict = group[0]
    state = paint(_WORDS[verdict.state], _STYLES.get(verdict.state, CYAN), color)
    about = ""
    if verdict.state in _JOINED:
        about = f" {_JOINED[verdict.state]} `{visible(verdict.expression)}`"
    row = f" ({_line(each.place.cell, verdict.row)})" if verdict.row != each.place.row else ""
    names = ", ".join(f"{paint(one.code, BOLD, color)} {one.name}" for one in group)
    yield f"  {names}: {state}{about}{row}"
    if verdict.because:
        link = "its last question: " if verdict.state is State.LOOKED else "because "
        yield from _wrapped(f"{link}{verdict.because}", 6)
    if verdict.message:
        yield from _wrapped(verdict.message, 6)
    if verdict.decided_by:
        yield f"      decided by {visible_path(verdict.decided_by)}"


def _pace(filename: str, pace: Pace, color: bool) -> Iterator[str]:
    yield f"  {paint('How often', BOLD, color)}"
    yield from _wrapped(pace.words, 6)
    for why in pace.why:
        yield from _wrapped(f"{why.text} ({_where_from(filename, why)})", 8)
    for guard in pace.guards:
        test = f"`{visible(guard.test)}`" if guard.needed else f"not `{visible(guard.test)}`"
        effect = (
            "seldom the case"
            if guard.throttles
            else "may be so every time, so the line does not count as rare"
        )
        yield from _wrapped(f"only if {test} ({_line(guard.cell, guard.row)}): {effect}", 8)
    for role in pace.roles:
        yield from _wrapped(role, 8)


def _beliefs(filename: str, beliefs: tuple[Belief, ...], color: bool) -> Iterator[str]:
    yield f"  {paint('What is known of its values', BOLD, color)}"
    told: set[tuple[Reason, ...]] = set()
    for belief in beliefs[:_BELIEFS]:
        yield from _wrapped(f"`{belief.expression}`: {belief.words}", 6)
        if belief.unknown:
            yield from _wrapped(f"not known because {belief.unknown}", 8)
        elif belief.origin not in told:
            for link in belief.origin:
                yield from _wrapped(f"{link.text} ({_where_from(filename, link)})", 8)
        told.add(belief.origin)
    if len(beliefs) > _BELIEFS:
        yield f"      … and {len(beliefs) - _BELIEFS} more (--output-format json has them)"


def _where_from(filename: str, reason: Reason) -> str:
    where = "" if reason.filename == filename else f"{visible_path(reason.filename)} "
    return where + _line(reason.cell, reason.line)


def _line(cell: int | None, row: int) -> str:
    return f"line {row}" if cell is None else f"cell {cell} line {row}"


def _wrapped(text: str, indent: int) -> list[str]:
    return wrapped(visible(text), WIDTH, " " * indent, "  ")
