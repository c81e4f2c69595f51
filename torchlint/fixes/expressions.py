"""Expressions made of others: a call with an argument more or less, ``x.detach()``, ``float(x)``,
and rewrites of several that lie in each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeGuard

import libcst as cst

from torchlint.fixes.fix import Replace
from torchlint.semantic.module import Module
from torchlint.semantic.uses.graphless import graphless


def detached(module: Module, tensor: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``tensor.detach()``; behind ``.detach()`` or ``.data``, and of what was computed with
    autograd off, it is left out."""
    if graphless(module, tensor):
        return tensor
    match tensor:
        case cst.Call(cst.Attribute(attr=cst.Name("detach"))):
            return tensor
        case cst.Attribute(attr=cst.Name("data")):
            return tensor
        case cst.Call(cst.Attribute(cst.Call() | cst.Attribute() as inner, cst.Name(method)), []):
            if not method.endswith("_") and detached(module, inner) is inner:
                return tensor
    return method_call(tensor, "detach")


def as_receiver(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression with the parentheses that an attribute of it needs."""
    if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def method_call(receiver: cst.BaseExpression, name: str) -> cst.Call:
    """Return ``receiver.name()``, with parentheses around what needs them."""
    return cst.Call(cst.Attribute(as_receiver(receiver), cst.Name(name)))


def number_of(module: Module, tensor: cst.BaseExpression, kind: str) -> cst.BaseExpression:
    """Return ``float(tensor)`` or ``int(tensor)``, by `kind`; the tensor where it stands in such a
    call already."""
    call = module.taker(tensor)
    if module.called(call) in ("builtins.float", "builtins.int"):
        return tensor
    return cst.Call(cst.Name(kind), [cst.Arg(tensor)])


Rewrite = Callable[[Any], cst.CSTNode]
"""From a node, in which what it holds has been replaced, to what comes in its place."""


def nested(module: Module, rewrites: Mapping[cst.BaseExpression, Rewrite]) -> list[Replace]:
    """Return one edit for each expression that is rewritten and lies in no other one."""
    out: list[Replace] = []
    for node in rewrites:
        if not any(other is not node and module.is_within(node, other) for other in rewrites):
            new = node.visit(Rewriter(rewrites))
            assert isinstance(new, cst.BaseExpression)
            out.append(Replace(node, new))
    return out


class Rewriter(cst.CSTTransformer):
    """Rewrites several nodes at once: a first rewrite makes every node anew, so that a second one
    would find none of its own."""

    def __init__(self, rewrites: Mapping[Any, Rewrite]) -> None:
        super().__init__()
        self._rewrites = rewrites

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        """Rewrite a node that is to be rewritten, what it holds first."""
        rewrite = self._rewrites.get(original_node)
        return updated_node if rewrite is None else rewrite(updated_node)


def instead(new: cst.CSTNode, _: cst.CSTNode) -> cst.CSTNode:
    """Return what comes in the place of a node, whatever that holds."""
    return new


def swapped(
    line: cst.SimpleStatementLine, replaced: Mapping[cst.CSTNode, cst.CSTNode]
) -> cst.SimpleStatementLine:
    """Return a statement in which other nodes stand in the place of some."""
    changed = line.visit(Rewriter({old: partial(instead, new) for old, new in replaced.items()}))
    assert isinstance(changed, cst.SimpleStatementLine)
    return changed


def _space_before_last(call: cst.Call) -> cst.BaseParenthesizableWhitespace:
    """Return the white space between the last arguments of a call, without a comment there."""
    comma = call.args[-2].comma if len(call.args) > 1 else None
    space = comma.whitespace_after if isinstance(comma, cst.Comma) else None
    if isinstance(space, cst.ParenthesizedWhitespace):
        return space.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])
    return cst.SimpleWhitespace(" ")


def _commented(
    space: cst.BaseParenthesizableWhitespace,
) -> TypeGuard[cst.ParenthesizedWhitespace]:
    return isinstance(space, cst.ParenthesizedWhitespace) and space.first_line.comment is not None


def with_keyword(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    """Return a call that passes ``name=value``: in the place of that keyword if it is there, else
    behind the rest."""
    args = list(call.args)
    if isinstance(value, cst.NamedExpr) and not value.lpar:
        value = value.with_changes(
            lpar=[cst.LeftParen()], rpar=[cst.RightParen()]
        )  # As in ``.to(dev := x.device)``.
    for index, arg in enumerate(args):
        if arg.keyword is not None and arg.keyword.value == name:
            args[index] = arg.with_changes(value=value)
            return call.with_changes(args=args)
    # Spaced as the last keyword of the call.
    equal = args[-1].equal if args else None
    spaced = isinstance(equal, cst.AssignEqual) and equal.deep_equals(cst.AssignEqual())
    blank = cst.SimpleWhitespace(" " if spaced else "")
    new = cst.Arg(value, cst.Name(name), cst.AssignEqual(blank, blank))
    if args:
        # A trailing comma and the line break behind it stay at the end; arguments on lines of their
        # own get one more line, and a comment behind the last one stays with it.
        last, between = args[-1], _space_before_last(call)
        comma, space = last.comma, last.whitespace_after_arg
        end = comma.whitespace_after if isinstance(comma, cst.Comma) else space
        if _commented(end) and isinstance(between, cst.ParenthesizedWhitespace):
            between = between.with_changes(first_line=end.first_line)
            bare = end.with_changes(first_line=cst.TrailingWhitespace())
            if isinstance(comma, cst.Comma):
                comma = comma.with_changes(whitespace_after=bare)
            else:
                space = bare
        args[-1] = last.with_changes(
            comma=cst.Comma(whitespace_after=between),
            whitespace_after_arg=cst.SimpleWhitespace(""),
        )
        new = new.with_changes(comma=comma, whitespace_after_arg=space)
    return call.with_changes(args=[*args, new])


def without_argument(call: cst.Call, arg: cst.Arg) -> cst.Call:
    """Return a call without one of its arguments."""
    args = [each for each in call.args if each is not arg]
    if args and call.args[-1] is arg:
        # What stands behind the last argument, a trailing comma or a line break, stays there.
        args[-1] = args[-1].with_changes(
            comma=arg.comma, whitespace_after_arg=arg.whitespace_after_arg
        )
    return call.with_changes(args=args)
