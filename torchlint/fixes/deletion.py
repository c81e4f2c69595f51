"""The fix that deletes a call whose value nobody uses."""

from __future__ import annotations

import libcst as cst

from torchlint.base.finding import Safety
from torchlint.fixes.fix import Fix, Remove
from torchlint.semantic.code.calls import spare_statement
from torchlint.semantic.module import Module


def deletion(module: Module, node: cst.Call, safety: Safety, note: str) -> Fix | None:
    """Return the fix that deletes a call; None where its value is used, or where it is all that a
    block holds.

    A call that is all its ``if cuda:`` holds would leave an empty branch; that is better done by
    hand.
    """
    statement = spare_statement(module, node)
    return (
        Fix((Remove(statement, comments=True),), safety, "Delete the call", note)
        if statement is not None
        else None
    )
