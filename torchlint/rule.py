"""The door: all that a rule file needs.

A rule file is one module under ``torchlint/rules/<family>/``. Its docstring is its manual, it binds one
`Rule` to the name ``rule``, and its checks are plain functions marked with ``@rule.on(node_type)`` that take
``(node, module)`` and yield `Hit`. Checks keep no state; what they know of the code are answers to questions, functions
``(module, …)`` of `torchlint.semantic`. Those that most rules ask are here, the others are imported from the file that
decides them; the documentation lists them all.

The parent process reads a rule file with `ast` and never imports it, so every argument of ``Rule(...)`` is a
literal (design §4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import libcst as cst

from torchlint.base.declaration import Declaration
from torchlint.base.errors import CatalogError
from torchlint.base.finding import Safety, Severity
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.code.calls import arguments_of, keyword_argument, spare_statement
from torchlint.semantic.code.guards import conditions_around, on_error_path
from torchlint.semantic.device.transfers import Transfer
from torchlint.semantic.module import Module
from torchlint.semantic.time.heat import Grade, Why, heat_of
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device

__all__ = [
    "Append",
    "Fix",
    "Grade",
    "Hit",
    "InsertAfter",
    "InsertBefore",
    "Module",
    "NeedImport",
    "Prepend",
    "Remove",
    "Replace",
    "Rule",
    "Safety",
    "Severity",
    "Transfer",
    "Why",
    "arguments_of",
    "conditions_around",
    "deletion",
    "heat_of",
    "inferred",
    "is_benchmark",
    "keyword_argument",
    "on_device",
    "on_error_path",
    "one_sentence",
    "with_keyword",
]


@dataclass(frozen=True, slots=True)
class Replace:
    """Put the code of `new` in the place of `node` (an expression, or a statement by a statement)."""

    node: cst.CSTNode
    new: cst.CSTNode


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a whole simple statement line, or one small statement of a ``a; b`` line.

    Where the statement is the only one of its block, the engine writes ``pass``.
    """

    node: cst.CSTNode


@dataclass(frozen=True, slots=True)
class InsertBefore:
    """Put statement source `code` on lines of its own before `statement`, indented like it."""

    statement: cst.CSTNode
    code: str


@dataclass(frozen=True, slots=True)
class InsertAfter:
    """Put statement source `code` on lines of its own after `statement`, indented like it.

    Of a compound statement (a loop), that is after its whole body.
    """

    statement: cst.CSTNode
    code: str


@dataclass(frozen=True, slots=True)
class Append:
    """Put the text `code` straight behind the expression `node`: ``x`` becomes ``x.detach()``."""

    node: cst.CSTNode
    code: str


@dataclass(frozen=True, slots=True)
class Prepend:
    """Put the text `code` straight in front of the expression or decorator `node`."""

    node: cst.CSTNode
    code: str


@dataclass(frozen=True, slots=True)
class NeedImport:
    """Make sure that ``import {module}`` (or ``import {module} as {alias}``) is in effect at module level."""

    module: str
    alias: str | None = None


NodeEdit = Replace | Remove | InsertBefore | InsertAfter | Append | Prepend | NeedImport


@dataclass(frozen=True, slots=True)
class Fix:
    """Node edits that belong together, and how safe they are.

    `title` says in the imperative what is done ("Pass device= to the factory"). `note` is demanded for unsafe
    fixes: one sentence on what may change.
    """

    edits: tuple[NodeEdit, ...]
    safety: Safety
    title: str
    note: str = ""

    def __post_init__(self) -> None:
        if self.safety is Safety.UNSAFE and not self.note:
            raise CatalogError("an unsafe fix must say in one sentence what may change")


@dataclass(frozen=True, slots=True)
class Hit:
    """A place that a rule objects to.

    Args:
        node: the expression or statement; its first character is where the finding points.
        args: values for the placeholders of the rule's message.
        fix: what could be done, if anything.
        severity: overrides the rule's own, where the catalogue grades by context.
        message: replaces the rule's message, where the catalogue gives another sentence for a row.
        why_hot: the chain that makes this place hot (``heat_of(module, node).why``).
    """

    node: cst.CSTNode
    args: Mapping[str, str] = field(default_factory=dict)
    fix: Fix | None = None
    severity: Severity | None = None
    message: str | None = None
    why_hot: tuple[Why, ...] = ()


Check = Callable[[Any, Module], Iterator[Hit]]
C = TypeVar("C", bound=Check)


@dataclass(frozen=True, eq=False)
class Rule(Declaration):
    """What a rule declares, and its checks.

    Args:
        module_name: ``__name__`` of the rule file.
        manual: ``__doc__`` of the rule file.
    """

    module_name: str
    manual: str | None
    checks: list[tuple[type[cst.CSTNode], Check]] = field(default_factory=list, init=False)

    @property
    def name(self) -> str:
        """The file's stem with dashes."""
        return self.module_name.rpartition(".")[2].replace("_", "-")

    def on(self, *node_types: type[cst.CSTNode]) -> Callable[[C], C]:
        """Mark a function as a check of these node types (exact types, no subclasses)."""

        def mark(check: C) -> C:
            self.checks.extend((node_type, check) for node_type in node_types)
            return check

        return mark


def deletion(module: Module, node: cst.Call, safety: Safety, note: str) -> Fix | None:
    """Return the fix that deletes a call; None where its value is used, or where it is all that a block holds.

    A call that is all its ``if cuda:`` holds would leave an empty branch; that is better done by hand.
    """
    statement = spare_statement(module, node)
    return Fix((Remove(statement),), safety, "Delete the call", note) if statement is not None else None


def one_sentence(notes: Iterable[str]) -> str:
    """Return one sentence that says what all notes say: the note of a fix that several things make unsafe."""
    parts = [note.removesuffix(".") for note in dict.fromkeys(notes) if note]
    return "; ".join([*parts[:1], *map(_inside, parts[1:])]) + "." if parts else ""


def _inside(sentence: str) -> str:
    """Return a sentence as it goes on behind a semicolon: names keep their capitals."""
    first = sentence.partition(" ")[0]
    plain = first[1:].islower() or len(first) == 1
    return sentence[0].lower() + sentence[1:] if plain and first.isalpha() else sentence


def with_keyword(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    """Return a call that passes ``name=value``: in the place of that keyword if it is there, else behind the rest."""
    args = list(call.args)
    if isinstance(value, cst.NamedExpr) and not value.lpar:
        value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])  # As in ``.to(dev := x.device)``.
    for index, arg in enumerate(args):
        if arg.keyword is not None and arg.keyword.value == name:
            args[index] = arg.with_changes(value=value)
            return call.with_changes(args=args)
    new = cst.Arg(value, cst.Name(name), cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")))
    if args:
        # A trailing comma and the line break behind it stay at the end.
        last = args[-1]
        args[-1] = last.with_changes(
            comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")), whitespace_after_arg=cst.SimpleWhitespace("")
        )
        new = new.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return call.with_changes(args=[*args, new])
