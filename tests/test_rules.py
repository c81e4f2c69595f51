"""Every rule's manual is its test: Bad is found, fixes give Good to the byte, Good and Leave alone
are silent.

That Bad and Good compute the same is for `test_fixes_run` and ``torchlint verify rules``.
"""

from __future__ import annotations

import pytest

from tests.checking import rules
from torchlint.testing import check_rule


@pytest.mark.parametrize("code", [info.code for info in rules()])
def test_manual(code: str) -> None:
    check_rule(code, execute=False)
