"""Names that are never None: by what gives them their value, and by a use that None would have
stopped with an error."""

from __future__ import annotations

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.reaching import Reaching
from torchlint.semantic.code.tree import COMPREHENSIONS, last_small
from torchlint.semantic.torch import ops

_COMPUTE = regex(
    r"(torch|numpy)\.(?!(cuda|distributed|jit|random|load|save\w*|seed|manual_seed)\b)[\w.]+"
    r"|builtins\.(abs|all|any|bool|dict|float|int|len|list|max|min|range|round|set|str|sum|tuple)"
)
"""Functions that give something."""
_CONVERTING = ops.SAME_VALUES | ops.REDUCTIONS | ops.having("reads")
_CONVERTING |= ops.having("move") | ops.having("cast")
"""Methods of tensors and arrays that give one, which nothing else has to give None."""
_SOMETHING = (
    *(cst.BaseNumber, cst.BaseString, cst.Tuple, cst.List, cst.Dict, cst.Set, *COMPREHENSIONS),
    *(cst.Comparison, cst.BinaryOperation, cst.UnaryOperation, cst.Lambda),
)
_DEEPEST = 4
"""Names and functions through which is looked for what a name holds."""
_MAYBE = (cst.IfExp, cst.BooleanOperation, cst.Lambda, *COMPREHENSIONS)
"""The expressions whose parts need not be evaluated."""


class NeverNone:
    """Says of the names and functions of one file whether they are, or give, never None."""

    def __init__(self, reaching: Reaching) -> None:
        self.tree = reaching.tree
        self.names = reaching.names
        self.reaching = reaching
        self._asked = set[cst.CSTNode]()

    def name(self, read: cst.Name) -> bool:
        """Say whether a name is never None where it is read."""
        scope, _ = self.names.bindings(read.value, read)
        if not isinstance(scope, cst.FunctionDef) or scope is not self.tree.function(read):
            return False
        if any(read.value in outer for outer in self.names.outer.values()):
            return False
        found = self.reaching.definitions(read)
        return bool(found) and (
            all(self._binds_something(each) for each in found) or self._is_used(read, found)
        )

    def returned(self, function: cst.FunctionDef) -> bool:
        """Say whether a function returns something else than None on every way."""
        if function in self._asked or function.decorators or function.asynchronous:
            return False
        if len(self._asked) >= _DEEPEST or self.tree.contains(function, cst.Yield):
            return False
        self._asked.add(function)
        try:
            values = [each.value for each in self.tree.within(function, cst.Return)]
            return (
                bool(values)
                and self._leaves(function.body)
                and all(each is not None and self._gives(each) for each in values)
            )
        finally:
            self._asked.discard(function)

    def _leaves(self, suite: cst.CSTNode | None) -> bool:
        """Say whether a block ends in a return or raise, whichever branch it takes."""
        last = last_small(suite)
        match last:
            case cst.If():
                return self._leaves(last.body) and self._leaves(last.orelse)
            case cst.Else() | cst.With():
                return self._leaves(last.body)
        return isinstance(last, (cst.Return, cst.Raise))

    def _binds_something(self, definition: cst.CSTNode) -> bool:
        match definition:
            case cst.Assign([cst.AssignTarget(cst.Name())]):
                return self._gives(definition.value)
        return False

    def _gives(self, value: cst.BaseExpression) -> bool:
        """Say whether an expression is never None."""
        match value:
            case cst.Call():
                return self._call_gives(value)
            case cst.IfExp(body=body, orelse=orelse):
                return self._gives(body) and self._gives(orelse)
            case cst.Name() if value not in self._asked and len(self._asked) < _DEEPEST:
                self._asked.add(value)
                try:
                    return self.name(value)
                finally:
                    self._asked.discard(value)
        return isinstance(value, _SOMETHING)

    def _call_gives(self, call: cst.Call) -> bool:
        name = self.names.name(call.func)
        if name is not None and _COMPUTE.fullmatch(name):
            return True
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _CONVERTING:
            return True
        callees = self.reaching.flow.callees(call)
        if callees:
            return all(isinstance(f, cst.FunctionDef) and self.returned(f) for f in callees)
        found = self.names.outside.find(name) if name is not None else None
        return found is not None and self.names.outside.never_returns_none((found,))

    def _is_used(self, read: cst.Name, found: list[cst.CSTNode]) -> bool:
        """Say whether an earlier statement, which runs whenever the one of `read` does and finds
        the same value, would have failed with None: ``1 - score``."""
        order, function = self.tree.order, self.tree.function(read)
        for use in self.tree.named(read.value):
            if order[use] >= order[read] or self.tree.function(use) is not function:
                continue
            line = self.tree.statement(use)
            if (
                isinstance(line, cst.SimpleStatementLine)
                and self.tree.is_within(read, self.tree.parents[line])
                and self._fails_with_none(use)
                and not any(order[use] < order[each] < order[read] for each in found)
                and self.reaching.definitions(use) == found
                and not self._may_be_left_out(use, line)
            ):
                return True
        return False

    def _fails_with_none(self, use: cst.Name) -> bool:
        match self.tree.parents[use]:
            case cst.BinaryOperation():
                return True
            case cst.Attribute(value) | cst.Subscript(value):
                return value is use
        return False

    def _may_be_left_out(self, use: cst.Name, line: cst.CSTNode) -> bool:
        for above in self.tree.ancestors(use):
            if above is line:
                return False
            if isinstance(above, _MAYBE):
                return True
        return False
