"""What becomes of a value that is read: only looked at, handed on, or differentiated."""

from __future__ import annotations

import enum

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.flow import callees_of, reads_of
from torchlint.semantic.code.tree import method_called
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops

_HOST = ops.HOST_ATTRIBUTES - {"grad_fn"} | ops.having("cuts") | {"item", "tolist", "clear"}
_HOST_BUILTINS = frozenset(("float", "int", "len", "bool"))
_PASSING_BUILTINS = frozenset(
    ("sum", "max", "min", "abs", "list", "tuple", "sorted", "zip", "enumerate", "reversed")
)
_SHOWING_BUILTINS = frozenset(("print", "str", "format", "repr", "round", "isinstance", "type"))
_SHOW = regex(
    r"^(log\w*|debug|info|warning|error|add_scalars?|set_postfix(_str)?|set_description(_str)?|write|report\w*|print\w*|"
    r"track|record_scalar|scalar|display|format)$"
)
_PLOT = regex(r"^(plt|ax|axes|axs|fig|pyplot|sns|px)\b")
_DEPTH = 3

# ``accelerator.backward(loss)``, Lightning's ``self.manual_backward(loss)``,
# ``scaler.scale(loss)``.
_BACKWARD = frozenset(("backward", "manual_backward", "scale"))


class Use(enum.IntEnum):
    """The furthest that a value gets; higher is further."""

    READ = 0
    """Only read on the host: ``.item()``, ``float()``, ``len()``, plotted."""
    SHOWN = 1
    """Printed, formatted or logged."""
    ESCAPES = 2
    """Returned, stored, or passed to code that is not known."""
    GRAD = 3
    """Back-propagated."""


@question(yes="the value goes on: {answer}", no="the value goes no further")
def furthest_use(module: Module, read: cst.CSTNode, depth: int = _DEPTH) -> tuple[Use, cst.CSTNode]:
    """Return how far the value of an expression gets, and where; assigned names are followed."""
    node = read
    while True:
        above = module.parent(node)
        if above is None:
            return Use.ESCAPES, node
        found = _step(module, node, above, depth)
        if isinstance(found, Use):
            return found, node
        if isinstance(found, tuple):
            return found
        node = found


def _step(
    module: Module, node: cst.CSTNode, above: cst.CSTNode, depth: int
) -> Use | cst.CSTNode | tuple[Use, cst.CSTNode]:
    match above:
        case cst.Attribute(value=value, attr=cst.Name(value=attr)) if value is node:
            return _attribute(module, above, attr)
        case cst.Arg():
            call = module.parent(above)
            return _argument(module, call) if isinstance(call, cst.Call) else Use.ESCAPES
        case (
            cst.FormattedStringExpression()
            | cst.BinaryOperation(
                operator=cst.Modulo(), left=cst.SimpleString() | cst.ConcatenatedString()
            )
            | cst.Comparison()
            | cst.ComparisonTarget()
        ):
            return Use.SHOWN
        case cst.If() | cst.While() | cst.Assert() | cst.Expr():
            return Use.READ
        case cst.CompFor(target=cst.Name(value=name), iter=iterated) if iterated is node:
            return _named(module, name, module.parent(above) or above, depth)
        case cst.For(target=cst.Name(value=name), iter=iterated) if iterated is node:
            return _named(module, name, above.body, depth)
        case (
            cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))])
            | cst.AugAssign(target=cst.Name(value=name))
        ):
            return _named(module, name, module.scope(above), depth)
        case cst.Subscript(value=value):
            return above if value is node else Use.READ
        case (
            cst.BaseSmallStatement() | cst.BaseCompoundStatement() | cst.NamedExpr() | cst.CompFor()
        ):
            return Use.ESCAPES
    return above


def _named(module: Module, name: str, scope: cst.CSTNode, depth: int) -> tuple[Use, cst.CSTNode]:
    if depth == 0:
        return Use.ESCAPES, scope
    found = [furthest_use(module, read, depth - 1) for read in reads_of(module, scope, name)]
    return max(found, key=lambda f: f[0], default=(Use.READ, scope))


def _attribute(module: Module, node: cst.Attribute, attr: str) -> Use | cst.CSTNode:
    above = module.parent(node)
    if attr == "backward":
        return Use.GRAD
    if attr in _HOST:
        return Use.READ
    if isinstance(above, cst.Call) and above.func is node:
        return above if attr not in ("append", "extend", "add", "update") else Use.READ
    return node


def _argument(module: Module, call: cst.Call) -> Use | cst.CSTNode:
    name = module.called(call)
    package, _, last = name.partition(".")
    if name.startswith(("torch.autograd", "torch.func")):
        return Use.GRAD
    if package == "builtins":
        if last in _HOST_BUILTINS:
            return Use.READ
        if last in _PASSING_BUILTINS:
            return call
        return Use.SHOWN if last in _SHOWING_BUILTINS else Use.ESCAPES
    if package in ("matplotlib", "seaborn") or _PLOT.match(cst.Module([]).code_for_node(call.func)):
        return Use.READ
    if package == "torch":
        return call
    if package in ("numpy", "math", "logging"):
        return Use.SHOWN
    attr = method_called(call)
    if attr in _BACKWARD:
        return Use.GRAD
    return Use.SHOWN if _SHOW.match(attr) and not callees_of(module, call) else Use.ESCAPES
