"""Imports that a fix leaves without a use go with it."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace
from functools import cache

import libcst as cst

from torchlint.base.regex import regex
from torchlint.fixes.fix import (
    Append,
    Fix,
    InsertAfter,
    InsertBefore,
    NeedImport,
    NodeEdit,
    Prepend,
    Remove,
    Replace,
)
from torchlint.semantic.module import Module
from torchlint.semantic.uses.spare_imports import SpareImport, spare_imports

_WORD = regex(r"\w+")


def without_imports(module: Module, fix: Fix, *, partly: bool) -> tuple[Fix, list[SpareImport]]:
    """Return a fix that takes along the imports that it leaves without a use, and where `partly` is
    set other imports of which it takes some uses away."""
    gone = [edit.node for edit in fix.edits if isinstance(edit, (Remove, Replace))]
    if not gone:
        return fix, []

    @cache
    def kept() -> Set[str]:
        return {word for code in _new_code(module, fix) for word in _WORD.findall(code)}

    found = spare_imports(module, gone, kept, partly=partly)
    spare = [each for each in found if each.is_spare]
    whole = replace(fix, edits=(*fix.edits, *removals(spare))) if spare else fix
    return whole, [each for each in found if not each.is_spare]


def _new_code(module: Module, fix: Fix) -> Iterator[str]:
    """Yield the code that a fix writes."""
    for edit in fix.edits:
        match edit:
            case Replace(new=new):
                yield module.root.code_for_node(new)
            case InsertBefore(code=code) | InsertAfter(code=code):
                yield code
            case Append(code=code) | Prepend(code=code):
                yield code
            case NeedImport():
                yield edit.alias or edit.module


def removals(spare: list[SpareImport]) -> Iterator[NodeEdit]:
    """Yield the edits that take imports away, of a statement some or all that it imports."""
    for home in dict.fromkeys(each.home for each in spare):
        assert not isinstance(home.names, cst.ImportStar)
        left = [
            alias
            for alias in home.names
            if not any(each.alias is alias and each.home is home for each in spare)
        ]
        if not left:
            yield Remove(home)
            continue
        left[-1] = left[-1].with_changes(comma=home.names[-1].comma)
        yield Replace(home, home.with_changes(names=left))
