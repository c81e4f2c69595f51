"""Every rule's manual is its test: Bad is found, fixes give Good to the byte, Good and Leave alone
are silent.

That Bad and Good compute the same is for `test_fixes_run` and ``torchlint verify rules``.
"""

from __future__ import annotations

import pytest

from torchlint.testing import Case, cases


@pytest.mark.parametrize("case", cases("TL", execute=False), ids=str)
def test_manual(case: Case) -> None:
    case.check()
