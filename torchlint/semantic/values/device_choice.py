"""Functions that choose a device by what a call passes: ``select_device("cpu")``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import libcst as cst

from torchlint.semantic.code.names import Names
from torchlint.semantic.values.value import CPU, Value

Known = dict[str, object]
_UNKNOWN = object()
_WORDS = {"True": True, "False": False, "None": None}
_CASES: Mapping[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "strip": str.strip,
}


def chooses_host(names: Names, function: cst.FunctionDef, given: Mapping[str, object]) -> bool:
    """Say whether a function returns the CPU each time, for these constants and the defaults of its
    other parameters."""
    params = [*function.params.posonly_params, *function.params.params]
    known = {
        each.name.value: _literal(each.default)
        for each in (*params, *function.params.kwonly_params)
    }
    choice = _Choice(names)
    ended = choice.run(function.body.body, {**known, **given})
    return ended and bool(choice.returned) and all(each == CPU for each in choice.returned)


def constant(value: Value) -> object:
    """Return the text that a value is, or what stands for one that is not known."""
    return value.name if value.kind == "str" and value.name is not None else _UNKNOWN


def passed_constant(node: cst.BaseExpression, value: Value) -> object:
    """Return the constant that an argument is, as it is written or as its value is known."""
    found = _literal(node)
    return constant(value) if found is _UNKNOWN else found


def _literal(node: cst.BaseExpression | None) -> object:
    match node:
        case cst.SimpleString() | cst.Integer():
            return node.evaluated_value
        case cst.Name("True" | "False" | "None" as word):
            return _WORDS[word]
    return _UNKNOWN


class _Choice:
    """The way through one function, with what is known of its names."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.returned: list[object] = []

    def run(self, block: Sequence[cst.CSTNode], known: Known) -> bool:
        """Go through a block; say whether it always ends the function."""
        for line in block:
            if isinstance(line, cst.SimpleStatementLine):
                if any([self._small(small, known) for small in line.body]):
                    return True
            elif isinstance(line, cst.If):
                if self._if(line, known):
                    return True
            elif isinstance(line, cst.With):
                if self.run(line.body.body, known):
                    return True
            elif not isinstance(line, (cst.FunctionDef, cst.ClassDef)):
                self.returned.append(_UNKNOWN)  # A loop, or what may fail.
                return True
        return False

    def _small(self, small: cst.CSTNode, known: Known) -> bool:
        match small:
            case cst.Return(value):
                self.returned.append(self._value(value, known))
                return True
            case cst.Raise():
                return True
            case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
                known[name] = self._value(value, known)
            case cst.AugAssign(cst.Name(name)):
                known[name] = _UNKNOWN
            case cst.Assign(targets):
                known.update(
                    (element.value.value, _UNKNOWN)
                    for target in targets
                    for element in getattr(target.target, "elements", ())
                    if isinstance(element.value, cst.Name)
                )
        return False

    def _if(self, node: cst.If, known: Known) -> bool:
        truth = self._value(node.test, known)
        other: Sequence[cst.CSTNode] = ()
        if node.orelse is not None:
            inner = node.orelse
            other = [inner] if isinstance(inner, cst.If) else inner.body.body
        if truth is not _UNKNOWN:
            return self.run(node.body.body if truth else other, known)
        there, here = dict(known), dict(known)
        left, ended = self.run(node.body.body, there), self.run(other, here)
        ways = [way for way, ends in ((there, left), (here, ended)) if not ends]
        for name in {name for way in ways for name in way}:
            found = {way.get(name, _UNKNOWN) for way in ways}
            known[name] = found.pop() if len(found) == 1 else _UNKNOWN
        return left and ended

    def _value(self, node: cst.BaseExpression | None, known: Known) -> object:
        match node:
            case cst.Name(name) if name not in _WORDS:
                return known.get(name, _UNKNOWN)
            case cst.IfExp(test=test, body=body, orelse=orelse):
                truth = self._value(test, known)
                sides = [self._value(side, known) for side in (body, orelse)]
                if truth is _UNKNOWN:
                    return sides[0] if sides[0] == sides[1] else _UNKNOWN
                return sides[not truth]
            case cst.UnaryOperation(cst.Not(), inner):
                truth = self._value(inner, known)
                return _UNKNOWN if truth is _UNKNOWN else not truth
            case cst.BooleanOperation(left, operator, right):
                first, last = self._value(left, known), self._value(right, known)
                ends = isinstance(operator, cst.Or)
                if first is not _UNKNOWN:
                    return first if bool(first) is ends else last
                certain = last is not _UNKNOWN and bool(last) is ends
                return ends if certain else _UNKNOWN
            case cst.Comparison(left, [cst.ComparisonTarget(operator, right)]):
                pair = self._value(left, known), self._value(right, known)
                if _UNKNOWN in pair or not isinstance(
                    operator, (cst.Equal, cst.NotEqual, cst.Is, cst.IsNot)
                ):
                    return _UNKNOWN
                return (pair[0] == pair[1]) is isinstance(operator, (cst.Equal, cst.Is))
            case cst.Call(cst.Attribute(inner, cst.Name(method)), []) if method in _CASES:
                text = self._value(inner, known)
                return _CASES[method](text) if isinstance(text, str) else _UNKNOWN
            case cst.Call(func, [cst.Arg(inner)]) if self.names.name(func) in (
                "torch.device",
                "builtins.str",
            ):
                return self._value(inner, known)
        return _literal(node)
