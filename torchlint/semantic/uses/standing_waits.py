"""Waits for the device that stay in a step whatever becomes of one of its reads: then to put that
one off saves next to nothing."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.tree import FUNCTIONS
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device

_BRANCHES = (cst.If, cst.IfExp, cst.Try, cst.Match)
_KINDS = (cst.Name, cst.Attribute, cst.Subscript, cst.Comparison, cst.Call)


@question(
    yes="each turn of the loop waits for the device in `{answer}` as well",
    no="nothing else in the turn is known to wait for the device",
)
def waits_beside(module: Module, node: cst.CSTNode) -> tuple[cst.Call, ...]:
    """Return the calls in the same turn of the loop that certainly read tensors of the device: a
    function of the project makes a fraction, a plain number, of them."""
    loops = module.loops(node)
    if not loops or not isinstance(loops[0], (cst.For, cst.While)):
        return ()
    calls = module.within(loops[0].body, cst.Call)
    return tuple(
        call
        for call in calls
        if not module.is_within(node, call)
        and module.loops(call)[0] is loops[0]
        and _makes_a_number(module, call)
        and _in_each_turn(module, call, loops[0])
    )


def _makes_a_number(module: Module, call: cst.Call) -> bool:
    value = inferred(module, call)
    if value.kind != "number" or value.dtype != "float" or isinstance(call.func, cst.Attribute):
        return False
    name = module.name(call.func) or ""
    own = bool(callees_of(module, call)) or module.outside.find(name) is not None
    return own and any(on_device(module, arg.value) for arg in call.args)


def _in_each_turn(module: Module, call: cst.Call, loop: cst.CSTNode) -> bool:
    for above in module.ancestors(call):
        if above is loop:
            return True
        if isinstance(above, (*_BRANCHES, *FUNCTIONS)):
            return False
    return False


@question(yes="the condition of the loop waits in each turn", no="no condition waits in each turn")
def condition_waits(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether a ``while`` asks a tensor on the device, in each turn, whether to go on."""
    if not isinstance(loop, cst.While):
        return False
    parts = [loop.test, *module.within(loop.test, *_KINDS)]
    return any(on_device(module, part) is True for part in parts)
