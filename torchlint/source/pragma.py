"""The words of suppression comments: ``# torchlint: ignore[TL101] reason``, ``# noqa: TL101`` and
their kin."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.base.span import Span
from torchlint.source.comments import Comment

IGNORE, DISABLE, ENABLE, FILE_IGNORE, NOQA = "ignore", "disable", "enable", "file-ignore", "noqa"
ALLOW_WAIT = "allow-wait"
"""Lists a wait of code under a contract of no waits; it names who answers for it, and why."""
_VERBS = (IGNORE, DISABLE, ENABLE, FILE_IGNORE, ALLOW_WAIT)
_ELSEWHERE = {
    "file": FILE_IGNORE,
    "off": DISABLE,
    "on": ENABLE,
    **dict.fromkeys(("noqa", "nolint", "skip", "line", "next"), IGNORE),
    **{verb: verb for verb in (IGNORE, DISABLE, ENABLE)},
}
"""Words in what other tools write, and what it is here."""

_PRAGMA = regex(
    r"#\s*(?:torchlint\s*:\s*(?P<verb>[a-z][\w-]*)[ \t]*(?P<list>\[(?P<own>[^\]#]*)(?P<close>\])?)?"
    r"|noqa(?:(?P<colon>\s*:)\s*(?P<codes>[a-z]+\d+(?:[,\s]+[a-z]+\d+)*)?)?(?![\w-]))",
    re.IGNORECASE,
)
_NEXT_REMARK = regex(r"(?<=\s)#(?!\d)")
"""Another remark in the same comment; ``#12`` is an issue's number."""
_WORD = regex(r"[^,\s]+")


@frozen
class Entry:
    """One code, prefix, rule name or owner in a pragma, with its offsets in the file."""

    text: str
    span: Span


@frozen
class Pragma:
    """One suppression.

    Args:
        verb: one of the constants of this module.
        entries: what it names, of `ALLOW_WAIT` the owners; none for a blanket ``# noqa`` and for a
            malformed one.
        span: the whole remark with its reason, without other remarks of the same comment.
        comment: the comment that holds it.
        problem: what is wrong with its form; it is not honoured then.
        reason: what it says behind the codes.
    """

    verb: str
    entries: tuple[Entry, ...]
    span: Span
    comment: Comment
    problem: str = ""
    reason: str = ""

    @property
    def owner(self) -> str:
        """Who answers for a wait that is listed."""
        named = self.entries if self.verb == ALLOW_WAIT else ()
        return ", ".join(entry.text for entry in named)

    @property
    def blanket(self) -> bool:
        """Whether this is a ``# noqa`` for everything."""
        return self.verb == NOQA and not self.entries

    @property
    def whole_comment(self) -> bool:
        """Whether nothing else stands in its comment."""
        return self.span == Span(self.comment.start, self.comment.start + len(self.comment.text))


def pragmas(comment: Comment) -> Iterator[Pragma]:
    """Yield the suppressions in one comment."""
    text = comment.text.rstrip()
    for found in _PRAGMA.finditer(text):
        after = _NEXT_REMARK.search(text, found.end())
        end = len(text[: after.start()].rstrip()) if after else len(comment.text)
        span = Span(comment.start + found.start(), comment.start + end)
        reason = text[found.end() : end].strip(" \t-:,")
        verb = found["verb"]
        if verb is None:
            if found["codes"] or not found["colon"]:
                yield Pragma(
                    NOQA, _entries(found, "codes", comment.start), span, comment, reason=reason
                )
            continue
        entries = _entries(found, "own", comment.start)
        prose = bool(reason) and found["list"] is None and not reason[-1].isdigit()
        closed = found["close"] is not None and bool(entries)
        problem = _problem(verb.lower(), closed, reason, prose)
        if problem is not None:
            yield Pragma(verb.lower(), () if problem else entries, span, comment, problem, reason)


def _entries(found: re.Match[str], group: str, start: int) -> tuple[Entry, ...]:
    if found[group] is None:
        return ()
    words = _WORD.finditer(found.string, *found.span(group))
    return tuple(Entry(word[0], Span(start + word.start(), start + word.end())) for word in words)


def _problem(verb: str, has_codes: bool, reason: str, prose: bool) -> str | None:
    """Return what is wrong with a torchlint pragma, "" if nothing, None if it is mere prose."""
    if verb == ALLOW_WAIT:
        lacking = "a reason" if has_codes else "an owner"
        if has_codes and reason:
            return ""
        return f"a wait without {lacking} is not listed; write '{_written(verb)}'"
    if verb in _VERBS:
        if has_codes:
            return ""
        return f"suppression without codes is not honoured; write '{_written(verb)}'"
    words = verb.split("-")
    close = [own for word, own in _ELSEWHERE.items() if word in words]
    if not close or (prose and verb != NOQA and not {*_VERBS}.intersection(words)):
        import difflib

        close = difflib.get_close_matches(verb[:40], _VERBS, 1, 0.7)
    return f"unknown suppression '{verb}'; did you mean '{_written(close[0])}'?" if close else None


def _written(verb: str) -> str:
    """Return an example of a suppression."""
    return f"# torchlint: {verb}{'[owner] reason' if verb == ALLOW_WAIT else '[TL101]'}"
