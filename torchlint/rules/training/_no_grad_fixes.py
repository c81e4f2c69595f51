"""The block that takes a graph away which nobody uses: around a statement, and around its
neighbours that record in vain as well."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from torchlint.rule import Fix, Module, NeedImport, NodeEdit, Remove, Replace, Safety
from torchlint.semantic.code.imports import name_for_module
from torchlint.semantic.code.text import remarked
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.graph_use import GraphOutcome, graph_fate
from torchlint.semantic.values.inferred import inferred

NOTE = "The outputs lose their grad_fn, so code that back-propagates them would fail."
_PLAIN = frozenset(
    f"builtins.{name}" for name in "print len int float bool str list tuple round".split()
)
_KEEPS = ("append", "extend")
_ARRAYS = frozenset(("astype", "copy", "tobytes"))
_LEAVES = (cst.Await, cst.Yield, cst.NamedExpr, cst.Lambda)
_KINDS = ("pointwise", "reduce", "compare", "view", "join", "cast", "same")
_METHODS = frozenset().union(*(ops.having("method", kind) for kind in _KINDS))
_METHODS -= ops.having("in-place") | ops.having("move")
_FUNCTIONS = frozenset().union(*(ops.dotted(kind) for kind in _KINDS)) - ops.dotted("in-place")
_Test = Callable[[cst.Call], bool]


def around(module: Module, node: cst.Call, in_vain: _Test) -> Fix | None:
    """Put the statement that uses the output into a block of its own, with those right behind it
    that hold a call of which `in_vain` says the same."""
    line = module.statement(node)
    if not isinstance(line, cst.SimpleStatementLine) or not _goes_into_block(module, node, line):
        return None
    lines = [line, *_followers(module, line, in_vain)]
    torch = name_for_module(module, "torch", "torch")
    item = cst.WithItem(cst.parse_expression(f"{torch}.no_grad()"))
    rest = [each.with_changes(leading_lines=_blank(each)) for each in lines[1:]]
    block = cst.With([item], cst.IndentedBlock([line.with_changes(leading_lines=[]), *rest]))
    edits: list[NodeEdit] = [Replace(line, block), *map(Remove, lines[1:])]
    return Fix(
        (*edits, NeedImport("torch", torch)), Safety.UNSAFE, "Run it under torch.no_grad()", NOTE
    )


def _blank(line: cst.SimpleStatementLine) -> list[cst.EmptyLine]:
    """Return the blank lines above a line, without white space in them."""
    return [each.with_changes(indent=False) for each in line.leading_lines]


def _followers(
    module: Module, line: cst.SimpleStatementLine, in_vain: _Test
) -> list[cst.SimpleStatementLine]:
    """Return the lines behind a line that can go into its block for the same reason, with those
    between them whose graph nobody uses either."""
    block = module.parent(line)
    found: list[cst.SimpleStatementLine] = []
    if not isinstance(block, (cst.IndentedBlock, cst.Module)):
        return found
    at = next(number for number, each in enumerate(block.body) if each is line)
    between: list[cst.SimpleStatementLine] = []
    for each in block.body[at + 1 :]:
        if not isinstance(each, cst.SimpleStatementLine):
            break
        if remarked(module, each, behind=False):
            break
        calls = [call for call in module.within(each, cst.Call) if in_vain(call)]
        if calls and all(_goes_into_block(module, call, each) for call in calls):
            found += [*between, each]
            between = []
        elif not calls and _wants_no_graph(module, each):
            between.append(each)
        else:
            break
    return found


def _wants_no_graph(module: Module, line: cst.SimpleStatementLine) -> bool:
    """Say whether a statement does no more than compute what it binds, of which nobody uses a
    graph."""
    match line.body:
        case [cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=value)]:
            pass
        case _:
            return False
    if any(True for _ in module.within(value, *_LEAVES)):
        return False
    if not all(_computes(module, call) for call in module.within(value, cst.Call)):
        return False
    return graph_fate(module, value) <= GraphOutcome.DROPPED


def _computes(module: Module, call: cst.Call) -> bool:
    """Say whether a call is one of torch's that gives a new tensor, or a part of one, and does no
    more."""
    name = module.name(call.func)
    if name is not None:
        return name in _FUNCTIONS
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS


def _goes_into_block(module: Module, node: cst.Call, line: cst.SimpleStatementLine) -> bool:
    """Say whether a statement does nothing that the block would change but run the model."""
    home = line.body[0]
    if len(line.body) != 1 or any(True for _ in module.within(home, *_LEAVES)):
        return False
    if _cached_casts(module, line):
        return False
    match home:
        case cst.Assign(targets=targets, value=value):
            places = [target.target for target in targets]
        case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
            places = [target]
        case cst.Expr(value=value) | cst.Return(value=cst.BaseExpression() as value):
            places = []
        case _:
            return False
    if value is node and isinstance(home, (cst.Assign, cst.AnnAssign)):
        return True
    return all(_takes(module, place) for place in places) and all(
        _known(module, call)
        for call in module.within(home, cst.Call)
        if call is not node and not module.is_within(call, node)
    )


def _takes(module: Module, place: cst.BaseExpression) -> bool:
    """Say whether a place is bound anew, or is part of a tensor that carries no graph."""
    match place:
        case cst.Name() | cst.Attribute():
            return True
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            return all(_takes(module, element.value) for element in elements)
        case cst.Subscript(value=held):
            value = inferred(module, held)
            return value.kind in ("list", "dict", "ndarray") or (
                value.tensor and value.origin == "factory" and value.grad is False
            )
    return False


def _known(module: Module, call: cst.Call) -> bool:
    """Say whether a call computes something of its arguments, shows it or keeps it, and no more."""
    name = module.name(call.func)
    if name is not None:
        return name.startswith(("torch.", "numpy.")) or name in _PLAIN
    if not isinstance(call.func, cst.Attribute):
        return False
    method = call.func.attr.value
    return method in ops.METHODS | ops.TENSOR_ONLY_METHODS | _ARRAYS or method in _KEEPS


def _cached_casts(module: Module, line: cst.CSTNode) -> bool:
    """Say whether the text around runs under autocast, whose casts of the weights may be kept
    without their graph until the block of autocast ends."""
    for above in module.ancestors(line):
        if isinstance(above, cst.With) and any(
            "autocast" in module.source_of(item.item) for item in above.items
        ):
            return True
        if isinstance(above, cst.FunctionDef):
            return any("autocast" in module.source_of(each) for each in above.decorators)
    return False


__all__ = ["NOTE", "around"]
