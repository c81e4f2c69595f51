"""Every rule's manual is its test: Bad is found, fixes give Good to the byte, Good and Leave alone are silent."""

from __future__ import annotations

import ast
import io
import tokenize

import pytest

from tests.checking import check, fixed, for_rule, ids, rules
from torchlint.engine.manual_sections import code_blocks
from torchlint.engine.rule_file import RuleInfo

RULES = rules()


def blocks(info: RuleInfo, heading: str) -> list[str]:
    """Return the code blocks of a section, each behind the rule's Setup."""
    setup = "".join(code_blocks(info.sections.get("Setup", "")))
    return [setup + "\n" + block if setup else block for block in code_blocks(info.sections.get(heading, ""))]


def bads() -> list[tuple[RuleInfo, int]]:
    return [(info, index) for info in RULES for index in range(len(blocks(info, "Bad")))]


def comments(text: str) -> list[str]:
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in found if token.type == tokenize.COMMENT]


@pytest.mark.parametrize(("info", "index"), bads(), ids=[f"{info.code}-{index}" for info, index in bads()])
def test_bad_is_found_with_all_rules_on(info: RuleInfo, index: int) -> None:
    bad = blocks(info, "Bad")[index]
    report = check(bad)
    assert for_rule(report, info), f"{info.code} does not find its own Bad example:\n{bad}"
    assert not report.notes


@pytest.mark.parametrize(("info", "index"), bads(), ids=[f"{info.code}-{index}" for info, index in bads()])
def test_fix_of_bad_is_good_to_the_byte(info: RuleInfo, index: int) -> None:
    bad = blocks(info, "Bad")[index]
    offered = {f.fix.safety.value for f in for_rule(check(bad), info) if f.fix is not None and not f.fix.withheld}
    applied = "safe" if "safe" in offered else "unsafe" if "unsafe" in offered else ""
    if not applied:
        goods = blocks(info, "Good")
        assert goods, "a rule without an applied fix still shows the remedy"
        return
    report = fixed(bad, applied, codes=frozenset({info.code}))
    assert report.after == blocks(info, "Good")[index]
    ast.parse(report.after)
    assert comments(report.after) == comments(bad)
    again = fixed(report.after, applied, codes=frozenset({info.code}))
    assert again.after == ""


@pytest.mark.parametrize("info", RULES, ids=ids(RULES))
@pytest.mark.parametrize("heading", ["Good", "Leave alone"])
def test_good_and_leave_alone_are_silent(info: RuleInfo, heading: str) -> None:
    examples = blocks(info, heading)
    assert examples, f"{info.code} has no code under {heading}"
    for example in examples:
        ast.parse(example)
        assert not for_rule(check(example), info), f"{info.code} speaks on its own {heading} example:\n{example}"


@pytest.mark.parametrize("info", RULES, ids=ids(RULES))
def test_manual_says_whether_the_fix_is_safe(info: RuleInfo) -> None:
    offered = [
        f.fix
        for index in range(len(blocks(info, "Bad")))
        for f in for_rule(check(blocks(info, "Bad")[index]), info)
        if f.fix
    ]
    for fix in offered:
        assert fix.title
        if fix.safety.value == "unsafe":
            assert fix.note.endswith(".")
    if offered:
        assert info.sections["Fix safety"].strip()


@pytest.mark.parametrize("info", RULES, ids=ids(RULES))
def test_triggers_do_not_decide(info: RuleInfo) -> None:
    """The prefilter must never lose a finding: each Bad holds one of the rule's trigger bytes."""
    for example in blocks(info, "Bad"):
        assert any(trigger in example.encode() for trigger in info.triggers)
