"""The block that takes a graph away which nobody uses: around a statement, and around its
neighbours that record in vain as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Fix, Module, NeedImport, NodeEdit, Remove, Replace, Safety, inferred
from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.code.names import last_part
from torchlint.semantic.code.reaching import readers_of
from torchlint.semantic.code.text import remarked
from torchlint.semantic.code.tree import DISPLAYS, components, method_called
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import callers_outside
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.assumptions import EVALUATIONS, GRAPH, TORCH
from torchlint.semantic.uses.graph_use import GraphOutcome, graph_fate
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.inferred import is_model_call

if TYPE_CHECKING:
    from torchlint.semantic.code.tree import Function

NOTE = "The outputs lose their grad_fn, so code that back-propagates them would fail."
_PLAIN = frozenset(
    f"builtins.{name}" for name in "print len int float bool str list tuple round".split()
)
_KEEPS = ("append", "extend")
_ARRAYS = frozenset(("astype", "copy", "tobytes"))
_GRAPHLESS = frozenset(
    "number bool str none shape ndarray device dtype plain loader optimizer module".split()
)
_NO_RESULT = frozenset(
    "append extend update format join split replace strip eval train zero_grad close".split()
)
_TRAINS = regex(r"backward|optimi[sz]e|fit|learn|train_|_train|adapt|attack|perturb|grad")
"""Words of methods out of view that may train, or ask for gradients."""
_OTHERWISE = "A layer may compute otherwise where no graph is recorded."
_LEAVES = (cst.Await, cst.Yield, cst.NamedExpr, cst.Lambda)
_KINDS = ("pointwise", "reduce", "compare", "view", "join", "cast", "same")
_METHODS = frozenset().union(*(ops.having("method", kind) for kind in _KINDS))
_METHODS -= ops.having("in-place") | ops.having("move")
_FUNCTIONS = frozenset().union(*(ops.dotted(kind) for kind in _KINDS)) - ops.dotted("in-place")
_Test = Callable[[cst.Call], bool]


def around(module: Module, node: cst.Call, in_vain: _Test) -> Fix | None:
    """Put the statement that uses the output into a block of its own, with those right behind it
    that hold a call of which `in_vain` says the same, and those before it that run a model for
    them alone."""
    line = module.statement(node)
    if not isinstance(line, cst.SimpleStatementLine) or not _goes_into_block(module, node, line):
        return None
    lines = [line, *_followers(module, line, in_vain)]
    while (above := _run_for(module, lines)) is not None:
        lines.insert(0, above)
    torch = torch_name(module)
    item = cst.WithItem(cst.parse_expression(f"{torch}.no_grad()"))
    rest = [
        each.with_changes(
            leading_lines=[blank.with_changes(indent=False) for blank in each.leading_lines]
        )
        for each in lines[1:]
    ]
    first = lines[0].with_changes(leading_lines=[])
    block = cst.With([item], cst.IndentedBlock([first, *rest]))
    edits: list[NodeEdit] = [Replace(lines[0], block), *map(Remove, lines[1:])]
    edits.append(NeedImport("torch", torch))
    return without_graph(module, "Run it under torch.no_grad()", edits, lines)


def without_graph(
    module: Module,
    title: str,
    edits: Iterable[NodeEdit],
    places: Sequence[cst.CSTNode],
    *,
    evaluates: bool = False,
) -> Fix:
    """Return the fix that runs some places under ``no_grad``: safe where no graph that they may
    record is asked for or written out; in an evaluation, where none is known to be."""
    assumes = {GRAPH: _OTHERWISE, TORCH: _OTHERWISE}
    if all(_graph_is_unseen(module, place) for place in places):
        return Fix(tuple(edits), Safety.SAFE, title, assumes=assumes)
    if evaluates and all(_graph_is_unseen(module, place, leaves=True) for place in places):
        return Fix(tuple(edits), Safety.SAFE, title, assumes={**assumes, EVALUATIONS: NOTE})
    return Fix(tuple(edits), Safety.UNSAFE, title, NOTE)


@question(
    yes="no graph that it may record is asked for or written out",
    no="a graph that it may record may be asked for, or written out",
)
def _graph_is_unseen(module: Module, place: cst.CSTNode, *, leaves: bool = False) -> bool:
    """Say whether what a place may record a graph of ends in numbers, positions and the like, and
    nothing there may train; with `leaves`, what an object that may be no network gives may leave
    what is known."""
    if module.contains(place, cst.Yield) or _casts_kept(module, place):
        return False
    if any(
        inferred(module, each).origin == "param" for each in module.within(place, cst.Attribute)
    ):
        return False
    return all(
        not _TRAINS.search(last_part(call.func))
        and (
            (fate := graph_fate(module, call)) <= GraphOutcome.DROPPED
            or (leaves and fate is GraphOutcome.UNKNOWN and not _is_network(module, call))
        )
        for call in module.within(place, cst.Call)
        if _may_record(module, call)
    )


def _is_network(module: Module, call: cst.Call) -> bool:
    """Say whether a call runs a network, or a function in view that may."""
    return (
        inferred(module, call.func).kind == "module"
        or is_model_call(module, call)
        or bool(definitions_behind.functions(module, call))
    )


def _casts_kept(module: Module, place: cst.CSTNode) -> bool:
    """Say whether a place, or a call of its function, runs under autocast."""
    home = place if isinstance(place, cst.FunctionDef) else module.function(place)
    sites = [(module, site) for site in call_sites(module, home)] if home is not None else []
    if isinstance(home, cst.FunctionDef):
        sites += [(caller.module, caller.call) for caller in callers_outside(module, home)]
    return _cached_casts(module, place) or any(_cached_casts(*site) for site in sites)


def _may_record(module: Module, call: cst.Call) -> bool:
    """Say whether the result of a call may carry a graph that none of its arguments carries."""
    value = inferred(module, call)
    if value.grad is False or value.kind in _GRAPHLESS:
        return False
    if inferred(module, call.func).kind == "module":
        return True
    name, func = module.name(call.func), call.func
    if name is not None:
        if not (name.startswith(".") or "." not in name or module.outside.is_ours(name)):
            return False
    elif isinstance(func, cst.Attribute):
        method = func.attr.value
        if method in ops.METHODS | ops.TENSOR_ONLY_METHODS | _ARRAYS or method in _NO_RESULT:
            return False
    behind = definitions_behind.functions(module, call)
    return not behind or any(_records(where, function) for where, function in behind)


@question(
    yes="something in `{0}` may record a graph",
    no="nothing in `{0}` records a graph of itself",
    circular=False,
)
def _records(module: Module, function: Function) -> bool:
    """Say whether a function may give a graph that none of its arguments carries: it runs a layer,
    or has a parameter."""
    return any(
        _may_record(module, call) for call in module.within(function.body, cst.Call, nested=True)
    ) or any(
        inferred(module, each).origin == "param"
        for each in module.within(function.body, cst.Attribute, nested=True)
    )


def _followers(
    module: Module, line: cst.SimpleStatementLine, in_vain: _Test
) -> list[cst.SimpleStatementLine]:
    """Return the lines behind a line that can go into its block for the same reason, with those
    between them whose graph nobody uses either."""
    found: list[cst.SimpleStatementLine] = []
    between: list[cst.SimpleStatementLine] = []
    for each in module.tree.beside(line)[1]:
        if not isinstance(each, cst.SimpleStatementLine) or remarked(module, each, behind=False):
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


def _run_for(
    module: Module, lines: Sequence[cst.SimpleStatementLine]
) -> cst.SimpleStatementLine | None:
    """Return the line right above some that runs a model whose output they alone read."""
    match module.tree.beside(lines[0])[0][-1:]:
        case [
            cst.SimpleStatementLine(
                [cst.Assign([cst.AssignTarget(cst.Name(name))], cst.Call() as call) as bound]
            ) as above
        ] if is_model_call(module, call) and not remarked(module, lines[0], behind=False):
            reads = readers_of(module, bound, name)
            inside = all(any(module.is_within(r, each) for each in lines) for r in reads)
            if reads and inside and _goes_into_block(module, call, above):
                return above
    return None


def _wants_no_graph(module: Module, line: cst.SimpleStatementLine) -> bool:
    """Say whether a statement does no more than compute what it binds, of which nobody uses a
    graph."""
    match line.body:
        case [cst.Assign([cst.AssignTarget(cst.Name())], value)]:
            pass
        case _:
            return False
    if module.contains(value, *_LEAVES):
        return False
    if not all(_computes(module, call) for call in module.within(value, cst.Call)):
        return False
    return graph_fate(module, value) <= GraphOutcome.SHOWN


def _computes(module: Module, call: cst.Call) -> bool:
    """Say whether a call is one of torch's that gives a new tensor, or a part of one, and does no
    more."""
    name = module.name(call.func)
    if name is not None:
        return name in _FUNCTIONS
    return method_called(call) in _METHODS


def _goes_into_block(module: Module, node: cst.Call, line: cst.SimpleStatementLine) -> bool:
    """Say whether a statement does nothing that the block would change but run the model."""
    home = line.body[0]
    if len(line.body) != 1 or module.contains(home, *_LEAVES):
        return False
    if _cached_casts(module, line):
        return False
    match home:
        case cst.Assign(targets, value):
            places = [target.target for target in targets]
        case cst.AnnAssign(target, value=cst.BaseExpression() as value):
            places = [target]
        case cst.Expr(value) | cst.Return(cst.BaseExpression() as value):
            places = []
        case _:
            return False
    if value is node and isinstance(home, (cst.Assign, cst.AnnAssign)):
        return True
    parts = (part for place in places for part in components(place, *DISPLAYS))
    return all(_is_rebound(module, part) for part in parts) and all(
        _is_understood(module, call)
        for call in module.within(home, cst.Call)
        if call is not node and not module.is_within(call, node)
    )


def _is_rebound(module: Module, place: cst.BaseExpression) -> bool:
    """Say whether a place is bound anew, or is part of a tensor that carries no graph."""
    match place:
        case cst.Name() | cst.Attribute():
            return True
        case cst.Subscript(held):
            value = inferred(module, held)
            return value.kind in ("list", "dict", "ndarray") or (
                value.tensor and value.origin == "factory" and value.grad is False
            )
    return False


def _is_understood(module: Module, call: cst.Call) -> bool:
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
