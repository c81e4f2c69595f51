"""What crosses to an environment, a simulator outside of torch: an action has to be a number or an
array there."""

from __future__ import annotations

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.destinations import destinations
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.names import last_part
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import LOOPS
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import ACTS, OPTIMIZER, SCALER, called
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import lives, on_device

_CALLS_UP = 3
_STEPS = regex(r"\.step\(\s*[^\s)]")
_READS = ops.having("host-memory")
_NO_WORLDS = ("optimizer", "scaler", "module", "tensor")


@question(
    yes="`{0}` is an action for an environment, which is no code of torch",
    no="`{0}` goes to no environment",
)
def for_environment(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a value goes to an environment: as an argument of ``env.step()``, or as the
    result of a function that chooses an action."""
    function = module.function(node)
    chooses = function is not None and called(function.name.value, ACTS)
    return any(
        chooses if isinstance(place, cst.Return) else _steps(module, place)
        for place in destinations(module, node)
        if isinstance(place, (cst.Call, cst.Return))
    )


def _steps(module: Module, call: cst.Call) -> bool:
    """Say whether a call is one step of an environment, not of an optimizer or a scheduler."""
    match call.func:
        case cst.Attribute(receiver, cst.Name("step")) if call.args:
            name = last_part(receiver)
            torchs = called(name, OPTIMIZER) or called(name, SCALER) or "sched" in name.lower()
            return not torchs and inferred(module, receiver).kind not in _NO_WORLDS
    return False


@question(
    yes="it runs once for each episode, whose steps wait for the device as well",
    no="no steps in an environment are known to come with each run of it",
)
def once_per_episode(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a place runs once beside a loop of steps in an environment, each of which waits
    for an action: the wait here is one more of hundreds. All calls that are in view are asked."""
    return mentions(module, _STEPS) and _beside_steps(module, node, _CALLS_UP)


def _beside_steps(module: Module, node: cst.CSTNode, calls_up: int) -> bool:
    function = module.function(node)
    around = set(module.loops(node))
    others = [
        each
        for each in module.within(function or module.root, *LOOPS, cst.Call)
        if module.function(each) is function and not module.is_within(node, each)
    ]
    if any(around == set(module.loops(each)) and _acts(module, each) for each in others):
        return True
    if function is None or around or not calls_up:
        return False
    sites = call_sites(module, function)
    return bool(sites) and all(_beside_steps(module, site, calls_up - 1) for site in sites)


def _acts(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a loop, or one in a function that is called, chooses actions on the device."""
    if isinstance(node, cst.Call):
        callees = callees_of(module, node)
        return any(
            _waits_for_action(module, loop)
            for callee in callees
            for loop in module.within(callee, *LOOPS)
        )
    return _waits_for_action(module, node)


def _waits_for_action(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether a value that an environment needs is read in a loop that computes on the device,
    by itself or in a function that it calls."""
    calls = list(module.within(loop, cst.Call))
    calls += [
        each
        for call in calls
        for callee in callees_of(module, call)
        for each in module.within(callee, cst.Call)
    ]
    return any(_reads_action(module, each) for each in calls) and any(
        on_device(module, each) is True for each in calls
    )


def _reads_action(module: Module, call: cst.Call) -> bool:
    """Say whether a method hands a value over to an environment that may be on the device: what a
    distribution draws is of no known place."""
    match call.func:
        case cst.Attribute(tensor, cst.Name(method)) if method in _READS:
            value = inferred(module, tensor)
            unknown = value.tensor or value.kind == "?"
            return unknown and lives(module, value) is not False and for_environment(module, call)
    return False
