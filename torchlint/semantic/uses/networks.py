"""What running a network of the project does, by its class: whether it trains itself, records its
graph, keeps what it computes, or has nothing that could be trained."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.reaching import assigned_to
from torchlint.semantic.code.scopes import base_names, method_of, scopes
from torchlint.semantic.code.tree import attr_of, is_name, targets_of
from torchlint.semantic.code.updates import is_step, updates
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.gradients import switches_off
from torchlint.semantic.uses.observers import is_stored
from torchlint.semantic.values.classes import is_network
from torchlint.semantic.values.definitions_behind import classes, method
from torchlint.semantic.values.inferred import inferred, is_model_call
from torchlint.semantic.values.value import CLASSES, Value

_REGISTERS = ("register_parameter", "add_module", "register_module", "setattr", "Parameter")
_LEARNS = ("module", "tensor")
"""Kinds of attributes that may be trained."""
_PLAIN = ("number", "str", "bool", "none", "ndarray", "device")
_PLAIN_BASES = frozenset(("torch.nn.Module", "abc.ABC"))
_STATELESS = ops.dotted("layer", "stateless")
TRANSFORMS = ("torchaudio.transforms.", "torchvision.transforms.")
"""Packages of layers without parameters."""
GROWS = frozenset(("append", "extend", "insert", "appendleft", "setdefault"))
_NOT_RUNS = ("forward", "__init__", "__call__")


@question(yes="`{0}` runs a model", no="`{0}` is not known to run a model")
def runs_module_method(module: Module, call: cst.Call) -> bool:
    """Say whether a call is a method, other than `forward`, of a network of this project that runs
    its layers with autograd as the caller has it."""
    func = call.func
    if not isinstance(func, cst.Attribute):
        return False
    found = list(methods_of(module, func))
    return bool(found) and all(_runs(where, method) for where, method in found)


def methods_of(module: Module, func: cst.Attribute) -> Iterator[tuple[Module, cst.FunctionDef]]:
    """Yield the method of a network that an attribute stands for: of its class, or of the one class
    of this file that has a method of that name."""
    name, own = func.attr.value, module.class_of(func) if is_name(func.value, "self") else None
    inherits = own is not None and method_of(module, own, name) is None and is_network(module, own)
    for receiver in [Value("module", node=own)] if inherits else _instances(module, func.value):
        found = method(module, receiver, name)
        if found is not None:
            yield found
    if inferred(module, func.value).kind == "?" and module.name(func) is None:
        yield from _alone(module, dotted_text(func.value), name)


def _instances(module: Module, node: cst.BaseExpression) -> list[Value]:
    """Return the networks that an expression may be: of ``self.x``, all that the class assigns to
    it."""
    found = inferred(module, node)
    if found.kind != "module":
        return []
    cls = module.class_of(node)
    one = found.name is not None and CLASSES not in found.name
    known = isinstance(found.node, cst.ClassDef) or one
    if known or cls is None or dotted_text(node) is None:
        return [found]
    assigned = [inferred(module, value) for value in assigned_to(module, node)]
    return [value for value in assigned if value.kind == "module"] or [found]


def _alone(
    module: Module, receiver: str | None, name: str
) -> Iterator[tuple[Module, cst.FunctionDef]]:
    """Yield the method of that name, where one class of this file alone has it, is a network, and
    the file elsewhere gives an instance of it the receiver's name."""
    methods = [f for f in scopes(module).functions_named(name) if module.class_of(f) is not None]
    method = methods[0] if len(methods) == 1 else None
    cls = module.class_of(method) if method is not None else None
    if method is None or cls is None or receiver is None or not is_network(module, cls):
        return
    named = [
        assign.value
        for assign in module.nodes(cst.Assign)
        if dotted_text(assign.targets[0].target) == receiver
    ]
    if any(inferred(module, value).node is cls for value in named):
        yield module, method


def _runs(
    module: Module, method: cst.FunctionDef, seen: frozenset[cst.FunctionDef] = frozenset()
) -> bool:
    """Say whether a method of a network runs a part of it, itself or by another one of its methods,
    and leaves autograd as it is."""
    if method.name.value in _NOT_RUNS or module.contains(method, cst.Yield):
        return False
    calls = list(module.within(method, cst.Call))
    if _trains(module, method):
        return False
    runs = [
        call
        for call in calls
        if (is_model_call(module, call) and not _generates(module, call.func))
        or any(_runs(module, each, seen | {method}) for each in _own_methods(module, call) - seen)
    ]
    inside = scopes(module)
    return bool(runs) and not any(
        inside.lexical_no_grad(call) is True or inside.conditional_grad(call) for call in runs
    )


def _own_methods(module: Module, call: cst.Call) -> set[cst.FunctionDef]:
    """Return the methods of this file that ``self.m()`` may run."""
    match call.func:
        case cst.Attribute(cst.Name("self")):
            found = callees_of(module, call)
            return {each for each in found if isinstance(each, cst.FunctionDef)}
    return set()


@question(yes="`{0}` may be a training step of its own", no="`{0}` does not train the model itself")
def may_train_itself(module: Module, call: cst.Call) -> bool:
    """Say whether a call is a method of a network that back-propagates or makes optimizer steps
    itself, and needs its graph for that; ``forward_step()`` of an unknown class may be one."""
    func = call.func
    if not isinstance(func, cst.Attribute):
        return False
    found = list(methods_of(module, func))
    found = found or list(_alone(module, dotted_text(func.value), func.attr.value))
    if not found:
        return func.attr.value.startswith("forward_")
    return any(_trains(where, method) for where, method in found)


def _trains(module: Module, method: cst.FunctionDef) -> bool:
    steps = any(is_step(module, call) for call in module.within(method, cst.Call))
    return steps or updates(module).is_step_function(method)


@question(
    yes="the class switches off the gradients of its own parameters",
    no="the class leaves its parameters trainable",
)
def freezes_itself(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether the class of a model switches off gradients: of its parameters, or for its
    `forward`; or the network whose part it is does."""
    home = module.class_of(model)
    classes = list(model_classes(module, model))
    if home is not None and is_network(module, home):
        classes.append((module, home))
    return any(_freezes(where, cls) for where, cls in classes)


@question(remember=False)
def model_classes(
    module: Module, model: cst.BaseExpression
) -> Iterator[tuple[Module, cst.ClassDef]]:
    """Yield the classes of the project that a model may be of, with their files."""
    for value in _instances(module, model):
        yield from classes(module, value)


@question(
    yes="running the model keeps something in it", no="running the model is not seen to keep more"
)
def keeps_what_it_computes(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether the `forward` of a model's class stores or collects something on `self`, whose
    graph may be asked for later."""
    for where, cls in model_classes(module, model):
        forward = method_of(where, cls, "forward")
        for node in where.within(forward, cst.Attribute) if forward is not None else ():
            above = where.parent(node)
            grown = attr_of(above) in GROWS
            kept = grown or (is_stored(where, node) and not isinstance(above, cst.AugAssign))
            if dotted_text(node.value) == "self" and kept:
                return True
    return False


@question(
    yes="the `forward` of `{0}` runs under no_grad", no="the `forward` of `{0}` records its graph"
)
def records_nothing(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether the `forward` of a model's class, of this file or another one, runs all that it
    runs with autograd off, or the class has nothing that could be trained."""
    classes = list(model_classes(module, model))
    silent = bool(classes) and all(_is_silent(where, cls) for where, cls in classes)
    return silent or has_no_parameters(module, model)


@question(yes="`{0}` has no parameters", no="`{0}` may have parameters")
def has_no_parameters(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether a network, or what makes one, is of layers and classes of which none has
    parameters."""
    if isinstance(model, cst.Call) and _is_stateless(module.called(model)):
        return True
    known = inferred(module, model)
    if known.kind == "module" and known.name in _STATELESS:
        return True
    classes = list(model_classes(module, model))
    return bool(classes) and all(_learns_nothing(where, cls) for where, cls in classes)


def _is_stateless(name: str) -> bool:
    return name in _STATELESS or name.startswith(TRANSFORMS)


def is_transform(module: Module, func: cst.BaseExpression) -> bool:
    """Say whether a callee is an object of these packages: ``Resize(128)(x)``."""
    if "transforms" not in module.text:
        return False
    made = [func] if isinstance(func, cst.Call) else assigned_to(module, func)
    alone = sole_definition(module, func) if isinstance(func, cst.Name) else None
    made = [alone] if alone is not None else made
    return bool(made) and all(
        isinstance(each, cst.Call) and module.called(each).startswith(TRANSFORMS) for each in made
    )


def _learns_nothing(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether a class that derives from Module alone keeps numbers, buffers and parts without
    parameters, and no parameter."""
    if set(base_names(module, cls)) - _PLAIN_BASES:
        return False
    bodies = [each.body for each in scopes(module).lineage(cls)]
    calls = [each for body in bodies for each in module.within(body, cst.Call, nested=True)]
    if any(last_part(c.func) in _REGISTERS for c in calls):
        return False
    bound: list[cst.Assign | cst.AnnAssign] = [
        assign
        for body in bodies
        for assign in module.within(body, cst.Assign, cst.AnnAssign, nested=True)
        if isinstance(assign, (cst.Assign, cst.AnnAssign))
    ]
    return all(
        _is_plain(inferred(module, assign.value)) or has_no_parameters(module, assign.value)
        for assign in bound
        if assign.value is not None
        and any(
            dotted_text(kept.value) == "self"
            for target in targets_of(assign)
            for kept in module.within(target, cst.Attribute)
        )
    )


def _is_plain(value: Value) -> bool:
    """Say whether what a network keeps is a number or the like, or a tensor that is known to be no
    parameter."""
    made = value.tensor and value.grad is False and value.origin in ("factory", "buffer")
    return made or value.kind in _PLAIN


def _is_silent(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether the `forward` of a class is under ``no_grad``: as a whole, or all layers that it
    calls, of parameters of its own nothing being read."""
    forward = method_of(module, cls, "forward")
    if forward is None:
        return False
    if scopes(module).lexical_no_grad(forward.body.body[0]) is True:
        return True
    used = [
        node
        for node in module.within(forward.body, cst.Attribute)
        if dotted_text(node.value) == "self" and inferred(module, node).kind in ("?", *_LEARNS)
    ]
    run = [node for node in used if _is_run(module, node)]
    alone = any(
        _generates(module, module.parent(node)) or _chooses(module, node, forward) for node in run
    )
    return bool(run) and all(
        scopes(module).lexical_no_grad(node) is True
        or _generates(module, module.parent(node))
        or _chooses(module, node, forward)
        for node in (run if alone else used)
    )


def _chooses(module: Module, part: cst.CSTNode, forward: cst.FunctionDef) -> bool:
    """Say whether an attribute of the network decides whether it runs a part, or does so under
    ``no_grad``."""
    tests = {
        (test, not needed)
        for test, needed in conditions_around(module, part, forward)
        if any(dotted_text(node.value) == "self" for node in module.within(test, cst.Attribute))
    }
    return bool(tests) and any(
        scopes(module).lexical_no_grad(block.body.body[0]) is True
        and not tests.isdisjoint(conditions_around(module, block, forward))
        for block in module.within(forward.body, cst.With)
    )


def _is_run(module: Module, part: cst.Attribute) -> bool:
    """Say whether a network calls a part of its own, or has it generate."""
    above = module.parent(part)
    return isinstance(above, cst.Call) or _generates(module, above)


def _generates(module: Module, func: cst.CSTNode | None) -> bool:
    """Say whether `func` is called to generate, which networks of other libraries do with autograd
    off, and those of the project where they say so."""
    call = module.parent(func)
    if not isinstance(func, cst.Attribute) or func.attr.value != "generate":
        return False
    return (
        isinstance(call, cst.Call)
        and call.func is func
        and all(
            scopes(where).lexical_no_grad(method.body.body[0]) is True
            for where, method in methods_of(module, func)
        )
    )


def _freezes(module: Module, cls: cst.ClassDef) -> bool:
    silent = _is_silent(module, cls)
    return silent or switches_off(module.source(cls))
