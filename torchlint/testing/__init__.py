"""The harness for tests of rules: a rule's manual is its test, and source text can be checked and
fixed in one line.

With pytest, every promise of every rule's page is a test of its own::

    import pytest
    from torchlint.testing import Case, cases

    @pytest.mark.parametrize("case", cases("ACME"), ids=str)
    def test_manual(case: Case) -> None:
        case.check()

and edge cases that no reader of the page needs are a line each::

    assert [found.start.row for found in findings(SOURCE, select=["ACME101"])] == [7]
    assert fixed(SOURCE, select=["ACME101"]) == FIXED

Rules are found as everywhere: torchlint's own, and those of installed plugins (``pip install -e
.``).
"""

from torchlint.testing.promises import Case, cases, check_rule
from torchlint.testing.source import findings, fixed

__all__ = ["Case", "cases", "check_rule", "findings", "fixed"]
