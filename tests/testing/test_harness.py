"""The public harness: it finds fault with every kind of broken promise, and with none that is
kept."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import SkipTest

import pytest

from tests.small_plugin import install
from torchlint.base.errors import CatalogError, UsageError
from torchlint.base.finding import FileReport, Severity
from torchlint.catalog import rules as catalog
from torchlint.engine.analyse import analyse
from torchlint.engine.job import Job
from torchlint.manual.new_rule import TEMPLATE
from torchlint.testing import cases, check_rule, execution, findings, fixed

GOOD = (
    (TEMPLATE / "rule.py.txt").read_text("utf-8").replace("$code", "HAR101").replace("$since", "")
)
"""The rule of the template, which keeps all that it promises."""
UNSAFE = ('Safety.SAFE, "Detach once")', 'Safety.UNSAFE, "Detach once", "It may round.")')
SOURCE = """import torch


def train(model, loader, optimizer):
    for x in loader:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        print(loss.detach().detach())
"""
Installed = Callable[..., Path]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """Install a plugin with one rule file for this process, and return the file."""
    package = f"harness_{abs(hash(str(tmp_path)))}"
    monkeypatch.syspath_prepend(tmp_path)

    def put(*changes: tuple[str, str]) -> Path:
        text = GOOD
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        install(tmp_path, package, {"rules/twice_detached.py": text}, entry=f"{package}.rules")
        importlib.invalidate_caches()
        catalog._installed_catalog.cache_clear()
        return tmp_path / package / "rules" / "twice_detached.py"

    yield put
    catalog._installed_catalog.cache_clear()
    for name in [name for name in sys.modules if name.startswith(package)]:
        del sys.modules[name]


def test_every_promise_of_a_page_is_a_case(installed: Installed) -> None:
    installed()
    found = cases("HAR")
    assert [str(case) for case in found] == [
        "HAR101-bad-is-found-1",
        "HAR101-fix-of-bad-is-good-1",
        "HAR101-fix-is-explained-1",
        "HAR101-trigger-is-in-bad-1",
        "HAR101-good-is-silent-1",
        "HAR101-leave-alone-is-silent-1",
        "HAR101-leave-alone-is-silent-2",
        "HAR101-good-computes-the-same-1",
    ]
    assert cases("HAR101", execute=False) == found[:-1]


def test_a_rule_is_checked_by_code_name_or_file(installed: Installed) -> None:
    path = installed()
    for rule in ("HAR101", "twice-detached", str(path)):
        check_rule(rule, execute=False)


BROKEN = {
    "not found": (
        ('@rule.method("detach")', '@rule.method("attach")'),
        "this Bad example is not found with all rules on",
    ),
    "other good": (
        ("Replace(node, inner)", "Replace(node, tensor)"),
        "the safe fix of this Bad example does not give Good:\n--- fixed\n+++ Good\n",
    ),
    "a lost good": (("## Good\n", "## Good\n```python\nx = 1\n```\n\n"), "does not give Good"),
    "no end": (
        (
            "Replace(node, inner)",
            "Replace(node, node.with_changes(func=cst.Attribute(node, cst.Name('detach'))))",
        ),
        "its fixes do not come to rest",
    ),
    "speaks on cold code": (('runs="hot"', 'runs="anywhere"'), "it speaks of row"),
    "speaks on what is no tensor": (
        (" or not inferred(module, tensor).tensor", ""),
        "of this Leave alone example",
    ),
    "good is no python": (
        ("    total += loss.detach()\n```", "    total +=\n```"),
        "invalid syntax",
    ),
    "trigger": (('triggers=(b"detach",)', 'triggers=(b"attach",)'), "holds none of (b'attach',)"),
    "fix without safety": (
        (
            (
                "## Fix safety\nSafe: both give a tensor without history that shares the data and "
                "requires no gradient.\n"
            ),
            "",
        ),
        "'## Fix safety' says nothing",
    ),
    "fix without title": (('"Detach once"', '""'), "a fix has no title"),
    "note": ((UNSAFE[0], UNSAFE[1].replace("round.", "round")), "with a full stop: 'It may round'"),
    "crash": (("    inner = _detached(node)\n", "    1 / 0\n"), "ZeroDivisionError"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_promise_is_told(installed: Installed, case: str) -> None:
    change, words = BROKEN[case]
    path = installed(change)
    with pytest.raises(AssertionError) as caught:
        check_rule("HAR101", execute=False)
    assert str(caught.value).startswith(f"{path}: HAR101: ")
    assert words in str(caught.value)


def test_a_fix_that_needs_a_second_good_wants_one(installed: Installed) -> None:
    installed(
        (
            "## Good\n",
            "```python\nfor x in loader:\n    model(x).sum().backward()\n    optimizer.step()\n"
            "    total += model(x).detach().detach().sum()\n```\n\n## Good\n",
        )
    )
    with pytest.raises(
        AssertionError, match="Bad example 2 is fixed, and there is no Good example 2"
    ):
        check_rule("HAR101", execute=False)


def test_a_comment_that_is_lost_is_told(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine drops such a fix by itself, so here it is an engine that forgets to."""

    def forgetful(job: Job) -> FileReport:
        report = analyse(job)
        return dataclasses.replace(report, after=report.after.replace("  # kept", ""))

    installed(
        ("    total += loss.detach().detach()\n", "    total += loss.detach().detach()  # kept\n")
    )
    monkeypatch.setattr("torchlint.testing.promises.analyse", forgetful)
    with pytest.raises(AssertionError, match="the fix loses or adds a comment"):
        check_rule("HAR101", execute=False)


def test_an_unsafe_fix_is_held_to_good_too(installed: Installed) -> None:
    installed(UNSAFE)
    check_rule("HAR101", execute=False)


@pytest.mark.slow
def test_bad_and_good_are_executed_and_compared(installed: Installed) -> None:
    pytest.importorskip("torch")
    installed()
    check_rule("HAR101")
    installed(("    total += loss.detach()\n", "    total += 2 * loss.detach()\n"))
    with pytest.raises(AssertionError, match="Good computes something else than Bad"):
        check_rule("HAR101")
    installed(("    total += loss.detach()\n", "    total += loss.no_such_method()\n"))
    with pytest.raises(AssertionError, match="an example does not run"):
        check_rule("HAR101")


def test_without_torch_examples_are_skipped(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed()
    monkeypatch.setattr(execution, "find_spec", lambda name: None)
    with pytest.raises(SkipTest, match="torch is not installed"):
        cases("HAR101")[-1].check()
    check_rule("HAR101")


def test_sources_are_checked_and_fixed(installed: Installed) -> None:
    installed()
    (found,) = findings(SOURCE, select=["HAR101"])
    assert (found.start.row, found.start.column, found.severity) == (9, 15, Severity.WARNING)
    assert found.code in {each.code for each in findings(SOURCE)}
    assert fixed(SOURCE, select=["HAR101"]) == SOURCE.replace("detach().detach()", "detach()")
    assert fixed("x = 1\n") == "x = 1\n"


def test_an_unsafe_fix_is_applied_on_demand(installed: Installed) -> None:
    installed(UNSAFE)
    assert fixed(SOURCE, select=["HAR101"]) == SOURCE
    assert fixed(SOURCE, select=["HAR101"], unsafe=True) != SOURCE


def test_a_crash_is_no_silence(installed: Installed) -> None:
    installed(("    inner = _detached(node)\n", "    1 / 0\n"))
    for run in (findings, fixed):
        with pytest.raises(AssertionError, match="HAR101 failed on line"):
            run(SOURCE, select=["HAR101"])


def test_a_broken_plugin_is_no_silence(installed: Installed) -> None:
    installed(("## Why", "## Reason"))
    for run in (
        lambda: cases("TL"),
        lambda: findings(SOURCE),
        lambda: check_rule("TL102", execute=False),
    ):
        with pytest.raises(
            CatalogError, match=r"twice_detached.py: rules of the plugin .* unknown heading"
        ):
            run()


def test_rules_that_are_not_there_are_an_error() -> None:
    for run in (
        lambda: cases("HAR"),
        lambda: findings("", select=["HAR101"]),
        lambda: check_rule("HAR101"),
        cases,
    ):
        with pytest.raises(UsageError):
            run()


def test_pytest_is_not_needed() -> None:
    import subprocess

    program = (
        "import sys, torchlint.testing; print({'pytest', 'libcst', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
