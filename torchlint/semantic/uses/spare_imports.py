"""Imports that nothing uses any more once some code has gone."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence, Set

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.imports import Import, import_of, is_exported
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.text import remarked
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import reached_elsewhere
from torchlint.semantic.question import question
from torchlint.semantic.uses.observers import reads_by_string

_PLAIN = sys.stdlib_module_names | {"numpy"}
"""What can be imported, or not, and nobody can tell."""


@frozen
class SpareImport:
    """An import of which code that goes takes uses away.

    Args:
        home: the statement.
        alias: the part of it that imports.
        name: what it binds.
        gone: the places of the uses that go, among all uses in the file.
        uses: how many uses there are.
    """

    home: Import
    alias: cst.ImportAlias
    name: str
    gone: frozenset[int]
    uses: int

    @property
    def is_spare(self) -> bool:
        """Whether no use is left."""
        return len(self.gone) == self.uses


def spare_imports(
    module: Module, gone: Sequence[cst.CSTNode], kept: Callable[[], Set[str]], *, partly: bool
) -> list[SpareImport]:
    """Return the imports of which some uses stand in code that goes, where nobody but this file's
    code looks for the name: those of Python's own modules, of NumPy and of parts of torch, in lines
    of their own without comments.

    Args:
        module: the file.
        gone: what goes.
        kept: gives the names that are used on; asked where no other use is in the way.
        partly: whether those count of which other uses are left.
    """
    names = {each.value: each for node in gone for each in module.within(node, cst.Name)}
    found = []
    for name, read in names.items():
        home = import_of(module, read)
        if home is None or any(module.is_within(home, node) for node in gone):
            continue
        reads = reads_of(module, module.root, name)
        homes = [import_of(module, each) for each in reads]
        # Where it is not known what a use means, it may be this import.
        if any(each is None for each in homes):
            continue
        own = [each for each, its in zip(reads, homes, strict=True) if its is home]
        taken = frozenset(
            at for at, each in enumerate(own) if any(module.is_within(each, node) for node in gone)
        )
        if not taken or (not partly and len(taken) < len(own)) or name in kept():
            continue
        # Who else looks for the name is asked last: that reads other files.
        alias = _plain_import(module, home, name)
        if alias is not None:
            found.append(SpareImport(home, alias, name, taken, len(own)))
    return found


def _plain_import(module: Module, home: Import, name: str) -> cst.ImportAlias | None:
    """Return the part of an import that binds a name, where it can go without a trace."""
    if isinstance(home.names, cst.ImportStar) or not _may_go(module, home):
        return None
    for alias in home.names:
        bound = alias.asname.name if alias.asname is not None else alias.name
        if is_name(bound, name) and _is_known(module, home, alias):
            return None if _is_named(module, home, name) else alias
    return None


@question(yes="the import can go", no="the import stays", ground=True)
def _may_go(module: Module, home: Import) -> bool:
    """Say whether an import stands alone in its line, without comments, at the top of the file or
    of a function."""
    line = module.parent(home)
    block = module.parent(line)
    at_top = isinstance(block, cst.Module) or (
        isinstance(block, cst.IndentedBlock) and isinstance(module.parent(block), cst.FunctionDef)
    )
    if not at_top or not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
        return False
    return (
        not module.filename.endswith(("__init__.py", ".ipynb"))
        and not remarked(module, line)
        and "#" not in module.source(home)
    )


def _is_known(module: Module, home: Import, alias: cst.ImportAlias) -> bool:
    """Say whether what is imported is of a library of which is known that importing it does no
    more; of torch that is a part alone, as what is torch's own goes with ``import torch``."""
    dotted = dotted_text(home.module if isinstance(home, cst.ImportFrom) else alias.name) or ""
    relative = isinstance(home, cst.ImportFrom) and bool(home.relative)
    root = dotted.partition(".")[0]
    known = root in _PLAIN or (root == "torch" and isinstance(home, cst.ImportFrom))
    return known and not relative and not module.outside.is_ours(dotted)


def _is_named(module: Module, home: Import, name: str) -> bool:
    """Say whether the name may be looked for other than by reading it."""
    if reads_by_string(module) or is_exported(module, home):
        return True
    if module.function(home) is None and reached_elsewhere(module, name) is not False:
        return True
    if re.search(rf"#\s*type:[^\n]*\b{name}\b", module.text):
        return True
    quoted = re.compile(rf"\b{name}\.")
    return any(
        quoted.search(each.raw_value)
        and (not isinstance(module.parent(each), cst.Expr) or ">>>" in each.raw_value)
        for each in module.nodes(cst.SimpleString)
    )
