"""Executes the examples of a rule's page with torch, as ``torchlint verify rules`` does, and
compares them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING
from unittest import SkipTest

from torchlint.base.errors import UsageError
from torchlint.catalog.rule_file import RuleInfo

if TYPE_CHECKING:
    from torchlint.verify.paired.sessions import Session


def difference(info: RuleInfo) -> str:
    """Run Bad and Good in processes of their own and return in words what the fix breaks; empty
    where it keeps all.

    A safe fix keeps every bit; an unsafe one what ``equivalence=`` says. Without a GPU, code that
    names CUDA runs on a CPU stand-in.

    Raises:
        SkipTest: torch, or another package that the example imports, is not installed, or the
            system cannot fork.
    """
    if find_spec("torch") is None:
        raise SkipTest("torch is not installed, so the examples are not executed")
    from torchlint.program.machine.workspace import Workspace
    from torchlint.verify.options import Options
    from torchlint.verify.paired.rule_mode import PRELOAD, TIMEOUT
    from torchlint.verify.paired.sessions import session

    try:
        with (
            Workspace() as workspace,
            session(Options(launches=1, timeout=TIMEOUT), workspace, preload=PRELOAD) as live,
        ):
            return difference_in(live, info)
    except UsageError as error:
        raise SkipTest(str(error)) from error


def difference_in(live: Session, info: RuleInfo) -> str:
    """Do what `difference` does in a session that is there already, so that torch is imported once
    for many rules.

    Raises:
        SkipTest: a package that the example imports is not installed.
        UsageError: no process can be started.
    """
    from torchlint.verify.paired.rule_check import ExampleRunner
    from torchlint.verify.paired.rule_page import applied_fixes, page
    from torchlint.verify.session.wire import ProgramError

    example = page(info)
    try:
        fixes = applied_fixes([example])
        runner = ExampleRunner(live, example)
        absent = runner.absent()
        if absent:
            raise SkipTest(f"{info.code}: its examples need {absent}")
        equality = runner.equality(
            [fixes.get((info.code, at), "") for at in range(len(example.pairs))]
        )
    except ProgramError as error:
        return f"an example does not run: {error}"
    if equality.ok:
        return ""
    kept = equality.expected.value
    return (
        f"Good computes something else than Bad ({kept} is promised): {'; '.join(equality.notes)}"
    )
