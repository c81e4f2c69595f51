"""Loops that are no loops over elements, but do one after another what one operation does: modules
of one kind on the same input, and the steps of a recurrent layer."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import Module
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import assigned_to, definitions_of, uses_of
from torchlint.semantic.code.tree import is_name, root_of
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import iteration_count
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.torch import ops
from torchlint.semantic.values.operations import operation_of

_JOINS = ops.dotted("torch", "join")
_LISTS = ("torch.nn.ModuleList", "builtins.list")
_FEW = 2
_LAYERS = ops.values("steps")


@question(
    yes="modules of one kind run one after another on the same input, and their results are joined",
    no="the modules differ, or get each other's results",
)
def same_modules_one_by_one(
    module: Module, node: cst.For | cst.ListComp | cst.GeneratorExp
) -> bool:
    """Say whether a loop gives the same input to modules that are built alike, and joins what they
    return: attention heads kept in a list."""
    loop = node if isinstance(node, cst.For) else node.for_in
    if isinstance(loop, cst.CompFor) and (loop.ifs or loop.inner_for_in is not None):
        return False
    call = _only_call(node)
    if call is None or not isinstance(loop.target, cst.Name):
        return False
    name = loop.target.value
    alike = is_name(call.func, name)
    same_input = bool(call.args) and not any(name in module.names_in(arg) for arg in call.args)
    return alike and same_input and _joined(module, node) and _built_alike(module, loop.iter)


def _only_call(node: cst.CSTNode) -> cst.Call | None:
    """Return the call whose result is all that a loop keeps."""
    match node:
        case cst.ListComp(cst.Call() as call) | cst.GeneratorExp(cst.Call() as call):
            return call
        case cst.For(
            body=cst.IndentedBlock(
                [
                    cst.SimpleStatementLine(
                        [
                            cst.Expr(
                                cst.Call(
                                    cst.Attribute(attr=cst.Name("append")),
                                    [cst.Arg(cst.Call() as call)],
                                )
                            )
                        ]
                    )
                ]
            )
        ):
            return call
    return None


def _joined(module: Module, node: cst.CSTNode) -> bool:
    """Say whether what a loop collects goes into ``torch.cat`` or ``torch.stack``."""
    made: cst.CSTNode | None = node
    if isinstance(node, cst.For):
        made = sole_definition(module, next(module.within(node.body, cst.Attribute)).value)
    return made is not None and any(
        module.called(module.taker(read)) in _JOINS for read in uses_of(module, made)
    )


def _built_alike(module: Module, held: cst.BaseExpression) -> bool:
    """Say whether ``self.heads`` is a list of modules that one expression builds, whatever their
    number in the list."""
    own = (dotted_text(held) or "").startswith("self.")
    made = assigned_to(module, held) if own else []
    return len(made) == 1 and _repeats_one(module, made[0])


def _repeats_one(module: Module, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func, [cst.Arg(inner)]) if module.name(func) in _LISTS:
            return _repeats_one(module, inner)
        case cst.ListComp(cst.Call() as made, loop) | cst.GeneratorExp(cst.Call() as made, loop):
            count = iteration_count(module, loop)
            few = count is not None and count <= _FEW
            ranged = isinstance(loop.iter, cst.Call) and (
                module.name(loop.iter.func) == "builtins.range"
            )
            bound = module.names_in(loop.target)
            return ranged and not few and not bound & module.names_in(made)
    return False


# -- recurrent layers ------------------------------------------------------------------------------


@question(
    yes="`torch.nn.{answer}` runs all steps of the loop in one call",
    no="no recurrent layer is known to be stepped through inputs that are there before the loop",
)
def recurrent_layer(module: Module, loop: cst.For) -> str:
    """Return the layer of torch.nn that does in one call what a loop does step by step: each
    iteration hands a cell, or a recurrent layer, the next part of what is there before the loop,
    with the state of the iteration before; else nothing."""
    if loop_kind(module, loop) is not LoopKind.OTHER or any(module.within(loop.body, cst.Break)):
        return ""
    for line in module.within(loop.body, cst.Assign):
        target, call = line.targets[0].target, line.value
        layer = operation_of(module, call) if isinstance(call, cst.Call) else None
        name = _LAYERS.get(layer.name, "") if layer is not None and layer.made else ""
        if layer is None or not name or module.loop(line) is not loop:
            continue
        given, *state = layer.operands
        carried = module.names_in(target).intersection(*map(module.names_in, state))
        kept = all(len(list(writes_of(module, loop.body, each))) == 1 for each in carried)
        if state and carried and kept and _goes_through(module, loop, given) is True:
            return name
    return ""


@question(
    yes="`{0}` is there before the loop, part by part",
    no="`{0}` is not known to be there before the loop",
)
def _goes_through(module: Module, loop: cst.For, given: cst.BaseExpression) -> bool | None:
    """Say whether an input is a part of a tensor that the loop goes through, or is computed of that
    part alone; None where an iteration changes what it is computed of."""
    bound = module.names_in(loop.target)
    through = False
    if any(
        _stores_into(module, each, given) for each in module.within(loop.body, cst.AssignTarget)
    ):
        return None
    for name in module.within(given, cst.Name):
        if name.value in bound:
            through = True
            continue
        for made in definitions_of(module, name):
            if not module.is_within(made, loop.body):
                continue
            match made:
                case cst.Assign([cst.AssignTarget(cst.Name())], value):
                    inner = _goes_through(module, loop, value)
                case _:
                    inner = None
            if inner is None:
                return None
            through = through or inner
    return through


def _stores_into(module: Module, target: cst.AssignTarget, given: cst.BaseExpression) -> bool:
    """Say whether an assignment changes a tensor or an attribute that an input is computed of:
    ``words[t + 1] = state``."""
    held = root_of(target.target, cst.Subscript)
    plain = held is target.target and isinstance(held, cst.Name)
    return not plain and any(held.deep_equals(each) for each in module.within(given, type(held)))
