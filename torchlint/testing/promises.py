"""What a rule's page promises, each promise a case to check."""

from __future__ import annotations

import io
import os
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache

from torchlint.base.errors import UsageError
from torchlint.base.finding import FileReport, Finding, NoteKind
from torchlint.base.records import frozen
from torchlint.catalog.manual import code_blocks
from torchlint.catalog.rule_file import RuleInfo
from torchlint.catalog.rules import Catalog, load_catalog
from torchlint.engine.analyse import analyse
from torchlint.testing.source import every_code, job


@frozen
class Case:
    """One promise of a rule's page.

    Args:
        rule: the rule.
        promise: what is promised, one of `PROMISES`.
        index: of the code block that it is about.
    """

    rule: RuleInfo
    promise: str
    index: int = 0

    def __str__(self) -> str:
        """Return a name for the test: code, promise, and the block's number counted from 1."""
        return f"{self.rule.code}-{self.promise.replace(' ', '-')}-{self.index + 1}"

    def check(self) -> None:
        """Check it.

        Raises:
            AssertionError: it is not kept; the message says why.
            unittest.SkipTest: it cannot be checked here: there is no torch, say. pytest takes that
                for a skip.
        """
        why = PROMISES[self.promise](self.rule, self.index)
        if why:
            raise AssertionError(f"{self.rule.path}: {self.rule.code}: {why}")


def cases(*select: str, execute: bool = True) -> list[Case]:
    """Return all promises of the pages of rules.

    Args:
        select: codes, prefixes or names, as for ``--select``: the letters of a plugin's codes for
            all of its rules.
        execute: whether Bad and Good are executed and compared too, which takes a few seconds for a
            rule and needs torch.

    Raises:
        UsageError: `select` names no rule: the plugin is not installed, or the name is misspelt.
        CatalogError: something is wrong with a plugin, so that rules are left out.
    """
    every_code()
    catalog = load_catalog()
    if not select:
        raise UsageError("cases: name the rules by codes, prefixes or names")
    codes = catalog.resolve(select, "cases", UsageError)
    return [
        case for info in catalog.rules if info.code in codes for case in cases_of(info, execute)
    ]


def check_rule(rule: str, *, execute: bool = True) -> None:
    """Check all that a rule's page promises.

    Args:
        rule: its code, its name, or the path of its file; its package must be installed.
        execute: as for `cases`.

    Raises:
        UsageError: there is no such rule.
        AssertionError: promises are not kept; the message has a line for each.
    """
    every_code()
    catalog = load_catalog()
    paths = {os.path.realpath(info.path): info for info in catalog.rules}
    info = catalog.find(rule) or paths.get(os.path.realpath(rule))
    if info is None:
        raise UsageError(f"check_rule: no installed rule is called {rule!r} or lies in that file")
    from unittest import SkipTest

    broken = []
    for case in cases_of(info, execute):
        try:
            case.check()
        except SkipTest:
            continue
        except AssertionError as error:
            broken.append(str(error))
    if broken:
        raise AssertionError("\n".join(broken))


def programs(info: RuleInfo, heading: str) -> list[str]:
    """Return the code blocks of a section, each behind the rule's Setup."""
    setup = "".join(code_blocks(info.sections.get("Setup", "")))
    return [
        f"{setup}\n{block}" if setup else block
        for block in code_blocks(info.sections.get(heading, ""))
    ]


def cases_of(info: RuleInfo, execute: bool) -> Iterator[Case]:
    """Yield all promises of one rule's page."""
    bads = range(len(programs(info, "Bad")))
    for promise in ("bad is found", "fix of bad is good", "fix is explained", "trigger is in bad"):
        yield from (Case(info, promise, index) for index in bads)
    yield from (Case(info, "good is silent", index) for index in range(len(programs(info, "Good"))))
    yield from (
        Case(info, "leave alone is silent", index)
        for index in range(len(programs(info, "Leave alone")))
    )
    if execute:
        yield Case(info, "good computes the same")


def checked(source: str) -> FileReport:
    """Check with all rules on, as one of them may take the place of this one."""
    return _report(source, load_catalog())


@lru_cache(maxsize=4096)
def _report(source: str, catalog: Catalog) -> FileReport:
    """Check a program once for all promises about it, as long as the rules stay those of
    `catalog`."""
    return analyse(job(source))


def _findings_of_rule(info: RuleInfo, report: FileReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.code == info.code]


def _found(info: RuleInfo, index: int) -> str:
    bad = programs(info, "Bad")[index]
    report = checked(bad)
    if report.notes:
        return "; ".join(note.message for note in report.notes)
    return (
        ""
        if _findings_of_rule(info, report)
        else f"this Bad example is not found with all rules on:\n{bad}"
    )


def _fixed(info: RuleInfo, index: int) -> str:
    bad, goods = programs(info, "Bad")[index], programs(info, "Good")
    found = _findings_of_rule(info, checked(bad))
    offered = {
        each.fix.safety.value for each in found if each.fix is not None and not each.fix.withheld
    }
    applied = next((kind for kind in ("safe", "unsafe") if kind in offered), "")
    if not applied:
        return (
            ""  # a rule whose fix nobody applies still shows the remedy, which the contract demands
        )
    if index >= len(goods):
        return f"Bad example {index + 1} is fixed, and there is no Good example {index + 1}"
    report = analyse(job(bad, codes=frozenset({info.code}), fix=applied))
    failed = [note.message for note in report.notes if note.kind is NoteKind.FAILED]
    if failed:
        return "; ".join(failed)
    if report.after != goods[index]:
        return (
            f"the {applied} fix of this Bad example does not give "
            f"Good:\n{_difference(report.after, goods[index])}"
        )
    return "" if _comments(report.after) == _comments(bad) else "the fix loses or adds a comment"


def _explained(info: RuleInfo, index: int) -> str:
    for found in _findings_of_rule(info, checked(programs(info, "Bad")[index])):
        if found.fix is None:
            continue
        if not found.fix.title:
            return "a fix has no title"
        if found.fix.safety.value == "unsafe" and not found.fix.note.endswith("."):
            return f"the note of an unsafe fix is a sentence, with a full stop: {found.fix.note!r}"
        if not info.sections.get("Fix safety", "").strip():
            return "there is a fix, and '## Fix safety' says nothing"
    return ""


def _triggered(info: RuleInfo, index: int) -> str:
    """The prefilter must never lose a finding."""
    bad = programs(info, "Bad")[index].encode()
    return (
        ""
        if any(trigger in bad for trigger in info.triggers)
        else f"this example holds none of {info.triggers}"
    )


def _silent(heading: str) -> Callable[[RuleInfo, int], str]:
    def silent(info: RuleInfo, index: int) -> str:
        example = programs(info, heading)[index]
        report = checked(example)
        broken = [found.message for found in report.findings if found.code == "invalid-syntax"]
        if broken or report.notes:
            return "; ".join([*broken, *(note.message for note in report.notes)])
        rows = [found.start.row for found in _findings_of_rule(info, report)]
        return f"it speaks of row {rows[0]} of this {heading} example:\n{example}" if rows else ""

    return silent


def _executed(info: RuleInfo, index: int) -> str:
    from torchlint.testing.execution import difference

    return difference(info)


def _comments(text: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def _difference(found: str, expected: str) -> str:
    import difflib

    rows = difflib.unified_diff(
        found.splitlines(), expected.splitlines(), "fixed", "Good", lineterm=""
    )
    return "\n".join(rows)


PROMISES: dict[str, Callable[[RuleInfo, int], str]] = {
    "bad is found": _found,
    "fix of bad is good": _fixed,
    "fix is explained": _explained,
    "trigger is in bad": _triggered,
    "good is silent": _silent("Good"),
    "leave alone is silent": _silent("Leave alone"),
    "good computes the same": _executed,
}
"""What is promised → the function that returns why it is not kept, or an empty string."""
