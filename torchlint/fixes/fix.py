"""A fix, and the edits of nodes that it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import libcst as cst

from torchlint.base.errors import CatalogError
from torchlint.base.finding import Safety
from torchlint.base.records import frozen
from torchlint.semantic.module import Module


@frozen
class Replace:
    """Put the code of `new` in the place of `node` (an expression, or a statement by a
    statement)."""

    node: cst.CSTNode
    new: cst.CSTNode


@frozen
class Remove:
    """Delete a whole simple statement line, one small statement of a ``a; b`` line, or an ``if``
    that stands in a block with other statements.

    Where the statement is the only one of its block, the engine writes ``pass``. With `comments`,
    those right above it go too, where a blank line, another comment or the end of the block comes
    behind it, so that they would stand above nothing. With `remark`, a comment behind it stays as a
    line of its own.
    """

    node: cst.CSTNode
    comments: bool = False
    remark: bool = False


@frozen
class InsertBefore:
    """Put statement source `code` on lines of its own before `statement`, indented like it."""

    statement: cst.CSTNode
    code: str


@frozen
class InsertAfter:
    """Put statement source `code` on lines of its own after `statement`, indented like it.

    Of a compound statement (a loop), that is after its whole body.
    """

    statement: cst.CSTNode
    code: str


@frozen
class Append:
    """Put the text `code` straight behind the expression `node`: ``x`` becomes ``x.detach()``."""

    node: cst.CSTNode
    code: str


@frozen
class Prepend:
    """Put the text `code` straight in front of the expression or decorator `node`."""

    node: cst.CSTNode
    code: str


@frozen
class NeedImport:
    """Make sure that ``import {module}`` (or ``import {module} as {alias}``) is in effect at module
    level."""

    module: str
    alias: str | None = None


NodeEdit = Replace | Remove | InsertBefore | InsertAfter | Append | Prepend | NeedImport


@frozen
class InFile:
    """The node edits of a fix in another file of the project, whose nodes they name."""

    module: Module
    edits: tuple[NodeEdit, ...]


@frozen
class Fix:
    """Node edits that belong together, and how safe they are.

    `title` says in the imperative what is done ("Pass device= to the factory"). `note` is demanded
    for unsafe fixes: one sentence on what may change. `elsewhere` are edits in other files: all are
    written, or none. `assumes` says what the fix takes for granted, by its name in
    `torchlint.semantic.uses.assumptions`, and what may change where that does not hold: the engine
    asks the project, and makes the fix unsafe there. `in_vain` is one that is only shown because
    of another wait, `logs_every_n` one that makes what logs in each step do so every N steps.
    """

    edits: tuple[NodeEdit, ...]
    safety: Safety
    title: str
    note: str = ""
    elsewhere: tuple[InFile, ...] = ()
    assumes: Mapping[str, str] = field(default_factory=dict)
    in_vain: bool = False
    logs_every_n: bool = False

    def __post_init__(self) -> None:
        if self.safety is Safety.UNSAFE and not self.note:
            raise CatalogError("an unsafe fix must say in one sentence what may change")
