"""What a loop over parameters does to each of them, tensor by tensor."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Module, inferred
from torchlint.semantic.code.tree import LOOPS, is_name, keyword_of, method_called, root_of
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import LoopSource, iteration_count, loop_sources
from torchlint.semantic.time.step_overhead import parameter_names
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.names import SPARSE_OR_SHARDED
from torchlint.semantic.values.value import CPU

_ARITHMETIC = ops.having("in-place", "arithmetic") | {"clamp_"}
_SAME = ops.having("same")
_READS = ops.having("reads") | ops.having("move")
_NUMBERS = frozenset(f"builtins.{name}" for name in ("float", "int", "bool"))
_ALIASES = _SAME | ops.having("cast") | {"to", "cpu", "cuda"} | {"data", "grad"}
_PURE = frozenset(("isinstance", "len", "str", "float", "int", "hasattr", "getattr", "id", "repr"))
_OTHER_WAYS = ops.having("collective") | SPARSE_OR_SHARDED
_OPTIMIZERS = ops.dotted("optimizer", "built")
_HOST_NAME = regex(r"off_?load|(^|_)(cpu|host)(_|$)", re.IGNORECASE)
_FEW = 4
"""Tensors for which a loop costs no more than a list of them."""


class Work(enum.Enum):
    """What is computed for each parameter, by the sentence that says it."""

    AVERAGE = (
        "averages parameters one after the other, a kernel or two for each; torch._foreach_lerp_ "
        "or swa_utils.get_ema_multi_avg_fn takes all at once."
    )
    GRADIENTS = (
        "scales gradients one after the other, a kernel for each; torch._foreach_mul_, or "
        "clip_grad_norm_ to bound their norm, takes all at once."
    )
    BY_VALUE = (
        "clips gradients by value one after the other, a kernel for each; "
        "torch.nn.utils.clip_grad_value_ or torch._foreach_clamp_max_ takes all at once."
    )
    OWN_NORM = (
        "clips each gradient by its own norm, kernels for each; torch._foreach_norm and "
        "torch._foreach_mul_ take all at once."
    )
    MORE = (
        "computes on gradients one after the other, a kernel for each; torch._foreach_* takes all "
        "at once."
    )
    UPDATE = (
        "updates parameters one after the other, a kernel or two for each; torch.optim or "
        "torch._foreach_add_ takes all at once."
    )
    WEIGHTS = (
        "scales or clips parameters one after the other, a kernel for each; torch._foreach_* takes "
        "all at once."
    )
    COPY = (
        "copies parameters one after the other, a kernel for each; torch._foreach_copy_ takes all "
        "at once."
    )
    SUM = (
        "adds up a norm or sum of each parameter, several kernels for each, and again in "
        "backward; torch._foreach_norm takes all at once, and an L2 penalty alone can be the "
        "optimizer's weight_decay."
    )


@dataclass(slots=True)
class _Names:
    """The names that stand for a parameter in a loop's body, for a gradient, and for a key."""

    tensors: set[str]
    keys: set[str]
    gradients: set[str] = field(default_factory=set)


@question(yes="it does to each parameter: {answer}", no="it does nothing to each parameter")
def work_on_parameters(module: Module, loop: cst.For) -> Work | None:
    """Return what a loop over parameters computes for each of them, where lists of them could be
    given to one kernel."""
    found = parameter_names(module, loop)
    count = iteration_count(module, loop)
    if not (found.tensors or found.keys) or (count is not None and count <= _FEW):
        return None
    if module.contains(loop.body, *LOOPS) or _another_way(module, loop):
        return None
    if any(_on_host(module, each) for each in module.within(loop.body, cst.Subscript, cst.Name)):
        return None  # On the host there is no launch to spare.
    names = _Names({*found.tensors, *found.beside}, {*found.keys})
    _derived(module, loop, names)
    if _own_logic(module, loop, names):
        return None
    done = set(_work_done(module, loop, names))
    if {"average"} <= done or {"scale", "add"} <= done:
        return Work.AVERAGE
    if "update" in done:
        return Work.UPDATE
    gradients = [work for work in ON_GRADIENTS if work in done]
    if gradients:
        return Work.MORE if len(gradients) > 1 else gradients[0]
    if {"scale", "clamp"} & done:
        return Work.WEIGHTS
    return Work.COPY if "copy" in done else None


@question(
    yes="it adds up a norm or sum of each parameter", no="it adds up nothing of each parameter"
)
def adds_up_parameters(module: Module, loop: cst.For | cst.CompFor) -> bool:
    """Say whether a loop, or a comprehension that ``sum`` takes, reduces one parameter after the
    other and adds that up on the device: ``l2 += p.norm()``, ``sum(p.pow(2).sum() for p in …)``."""
    found = parameter_names(module, loop)
    if not found.tensors or any(map(_of_part, loop_sources(module, loop))):
        return False
    names = _Names({*found.tensors, *found.beside}, {*found.keys})
    if isinstance(loop, cst.For):
        if module.contains(loop.body, *LOOPS) or _another_way(module, loop):
            return False
        _derived(module, loop, names)
    return any(_is_reduced(module, term, names) for term in _terms(module, loop))


def _of_part(goes: LoopSource) -> bool:
    """Say whether a loop goes over the parameters of one layer of a network, which may be one."""
    match goes.iterated:
        case cst.Call(cst.Attribute(cst.Attribute(network))):
            return not is_name(network, "self")
        case cst.Call(cst.Attribute(cst.Subscript())):
            return True
    return False


def _terms(module: Module, loop: cst.For | cst.CompFor) -> Iterator[cst.BaseExpression]:
    """Yield what a loop adds to a running sum, or what the comprehension of a ``sum`` yields."""
    if isinstance(loop, cst.CompFor):
        holder = module.parent(loop)
        match holder, module.taker(holder):
            case cst.GeneratorExp(elt) | cst.ListComp(elt), cst.Call(func) if (
                module.name(func) == "builtins.sum"
            ):
                yield elt
        return
    for node in module.within(loop.body, cst.AugAssign, cst.Assign):
        match node:
            case cst.AugAssign(cst.Name(), cst.AddAssign(), value):
                yield value
            case cst.Assign(
                [cst.AssignTarget(cst.Name(name))],
                cst.BinaryOperation(cst.Name(left), cst.Add(), value),
            ) if name == left:
                yield value


def _is_reduced(module: Module, term: cst.BaseExpression, names: _Names) -> bool:
    """Say whether a term is reduced from a parameter, and stays on the device."""
    calls = list(module.within(term, cst.Call))
    if any(method_called(call) in _READS or module.name(call.func) in _NUMBERS for call in calls):
        return False
    return any(
        (method_called(call) or module.called(call).rpartition(".")[2]) in ops.REDUCTIONS
        and _mentions(module, call, names)
        for call in calls
    )


ON_GRADIENTS = frozenset((Work.GRADIENTS, Work.BY_VALUE, Work.OWN_NORM, Work.MORE))
_CLIPS = {
    "torch.nn.utils.clip_grad_norm_": Work.OWN_NORM,
    "torch.nn.utils.clip_grad_value_": Work.BY_VALUE,
}
_SCALES = (cst.MultiplyAssign, cst.DivideAssign)


def _on_host(module: Module, part: cst.BaseExpression) -> bool:
    """Say whether an expression is a parameter that lives on the host; a number may do so."""
    value = inferred(module, part)
    return value.device == CPU and value.origin == "param"


def _another_way(module: Module, loop: cst.For) -> bool:
    """Say whether the function knows of foreach, of sparse gradients, or of shards of a model."""
    place = module.function(loop) or loop
    words = module.names_in(place)
    return bool(words & _OTHER_WAYS) or any("foreach" in word for word in words)


def _derived(module: Module, loop: cst.For, names: _Names) -> None:
    """Add the names that the body binds to what is computed from a parameter."""
    for assign in module.within(loop.body, cst.Assign):
        target = assign.targets[0].target
        pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(target, assign.value)]
        if isinstance(target, cst.Tuple) and isinstance(assign.value, cst.Tuple):
            pairs = [
                (left.value, right.value)
                for left, right in zip(target.elements, assign.value.elements, strict=False)
            ]
        for left, right in pairs:
            if isinstance(left, cst.Name) and _mentions(module, right, names):
                names.tensors.add(left.value)
                if _of_gradient(module, right, names):
                    names.gradients.add(left.value)


def _own_logic(module: Module, loop: cst.For, names: _Names) -> bool:
    """Say whether the body treats each parameter by other code, by its own state, or by its
    values."""
    for call in module.within(loop.body, cst.Call):
        name = module.called(call)
        tensor_method = isinstance(call.func, cst.Attribute) and (
            _mentions(module, call.func.value, names) or name.startswith("torch.")
        )
        package, _, last = name.partition(".")
        pure = package == "torch" or (package == "builtins" and last in _PURE)
        if not (tensor_method or pure) and any(
            _is_tensor(module, arg.value, names) for arg in call.args
        ):
            return True
    for part in module.within(loop.body, cst.Subscript):
        index = part.slice[0].slice
        if isinstance(index, cst.Index) and _is_tensor(module, index.value, names):
            return True
    return any(_by_values(module, test.test, names) for test in module.within(loop.body, cst.If))


def _by_values(module: Module, test: cst.BaseExpression, names: _Names) -> bool:
    """Say whether a condition asks for the values of a parameter, and not for its shape, its dtype
    or whether it is there."""
    asked = any(
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value not in ops.HOST_METHODS
        and _mentions(module, call.func.value, names)
        for call in module.within(test, cst.Call)
    )
    return asked or any(
        isinstance(comparison.left, cst.Name)
        and comparison.left.value in names.tensors
        and not isinstance(comparison.comparisons[0].operator, (cst.Is, cst.IsNot, cst.In))
        for comparison in module.within(test, cst.Comparison)
    )


def _work_done(module: Module, loop: cst.For, names: _Names) -> Iterator[str | Work]:
    for node in module.within(loop.body, cst.Expr, cst.AugAssign, cst.Assign):
        match node:
            case cst.Expr(cst.Call() as call):
                yield from _chain(module, call, names)
            case cst.AugAssign(target, operator, value) if _is_tensor(module, target, names):
                if _of_gradient(module, target, names):
                    yield Work.GRADIENTS if isinstance(operator, _SCALES) else Work.MORE
                elif isinstance(operator, _SCALES):
                    yield "scale"
                elif isinstance(operator, (cst.AddAssign, cst.SubtractAssign)):
                    yield from _added(module, target, value, names)
            case cst.Assign(
                [cst.AssignTarget(cst.Subscript(target, [part]))],
                value,
            ) if _takes_all(part) and _is_tensor(module, target, names):
                yield from _stored(module, target, value, names, bound=False)
            case cst.Assign([cst.AssignTarget(target)], value) if isinstance(
                target, (cst.Attribute, cst.Subscript)
            ) and _is_tensor(module, target, names):
                yield from _stored(module, target, value, names, bound=True)


def _takes_all(part: cst.SubscriptElement) -> bool:
    """Say whether a subscript takes a whole tensor: ``p[:] = …`` and ``p[...] = …`` copy into
    it."""
    match part.slice:
        case cst.Slice(lower=None, upper=None, step=None) | cst.Index(cst.Ellipsis()):
            return True
    return False


def _chain(module: Module, call: cst.Call, names: _Names) -> Iterator[str | Work]:
    """Yield what ``p.data.mul_(d).add_(q, alpha=1 - d)`` does to `p`."""
    clips = _CLIPS.get(module.called(call))
    if clips is not None and call.args:
        if _is_tensor(module, call.args[0].value, names):
            yield clips
        return
    steps: list[cst.Call] = []
    node: cst.BaseExpression = call
    while (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in _ARITHMETIC
    ):
        steps.append(node)
        node = node.func.value
    if not steps or not _is_tensor(module, node, names):
        return
    gradient = _of_gradient(module, node, names)
    for step in steps:
        yield from _step(module, step, node, gradient, names)


def _step(
    module: Module, step: cst.Call, target: cst.BaseExpression, gradient: bool, names: _Names
) -> Iterator[str | Work]:
    method, given = method_called(step), [arg.value for arg in step.args]
    if gradient:
        if method in ("mul_", "div_"):
            yield Work.GRADIENTS
        elif method != "copy_":
            yield Work.BY_VALUE if method == "clamp_" else Work.MORE
    elif method == "lerp_":
        yield "average" if any(_mentions(module, value, names) for value in given) else "scale"
    elif method == "copy_" and given:
        if _between_devices(module, step):
            return  # There is no kernel for lists of which one is on the host.
        yield from _stored(module, target, given[0], names, bound=False)
    elif method in ("mul_", "div_"):
        yield "scale"
    elif method == "clamp_":
        yield "clamp"
    else:
        for value in given:
            yield from _added(module, target, value, names)


def _between_devices(module: Module, copy: cst.Call) -> bool:
    """Say whether ``.copy_()`` goes from the host to a device or back, by what it is given or by
    the names: ``p.copy_(q, non_blocking=True)``, ``p.copy_(q.cpu())``, ``p.copy_(offloaded)``."""
    names = module.names_in(copy)
    return (
        "cpu" in names
        or any(map(_HOST_NAME.search, names))
        or any(
            keyword_of(arg) == "non_blocking" and module.source_of(arg.value) != "False"
            for arg in copy.args
        )
    )


def _added(
    module: Module, target: cst.BaseExpression, value: cst.BaseExpression, names: _Names
) -> Iterator[str]:
    if _of_gradient(module, value, names):
        yield "update"
    elif _mentions(module, value, names):
        # ``t.sub_((1 - d) * (t - p))`` and ``t += r * (p - t)`` are averages of one step.
        both = _mentioned(module, value, names)
        yield (
            "average" if len(both) > 1 and bool(both & _mentioned(module, target, names)) else "add"
        )


def _stored(
    module: Module,
    target: cst.BaseExpression,
    value: cst.BaseExpression,
    names: _Names,
    bound: bool,
) -> Iterator[str | Work]:
    """Yield what it is to store a value in a parameter, or beside it under its name.

    Where the value is `bound`, ``p.data = other``, and not copied into memory that is there, no
    kernel runs unless one makes the value. A gradient may not be there to be copied into.
    """
    value = _stored_value(module, value, target)
    while (
        isinstance(value, cst.Call)
        and isinstance(value.func, cst.Attribute)
        and value.func.attr.value in (*_ALIASES, "clone")
    ):
        bound = bound and value.func.attr.value in _SAME
        value = value.func.value
    if isinstance(value, cst.BinaryOperation):
        if _of_gradient(module, target, names):
            scales = isinstance(value.operator, (cst.Multiply, cst.Divide))
            yield Work.GRADIENTS if scales else Work.MORE
        elif _of_gradient(module, value, names):
            yield "update"
        elif len(_mentioned(module, value, names)) > 1 and any(
            isinstance(b.operator, cst.Multiply) for b in module.within(value, cst.BinaryOperation)
        ):
            yield "average"
    elif _is_tensor(module, value, names) and not (
        bound or isinstance(target, cst.Subscript) or _of_gradient(module, target, names)
    ):
        yield "copy"


def _stored_value(
    module: Module, value: cst.BaseExpression, target: cst.BaseExpression
) -> cst.BaseExpression:
    """Return what the statement before bound to the name that is stored, behind ``.clone()``."""
    root = root_of(value, cst.Attribute, cst.Call)
    loop = module.loop(target)
    if not isinstance(root, cst.Name) or loop is None:
        return value
    for assign in module.within(loop, cst.Assign):
        left = assign.targets[0].target
        if is_name(left, root.value):
            return assign.value if isinstance(assign.value, cst.BinaryOperation) else value
    return value


def _is_tensor(module: Module, node: cst.BaseExpression, names: _Names) -> bool:
    """Say whether an expression is a parameter, its data, its gradient, or what lies under its
    name."""
    while True:
        match node:
            case cst.Attribute(value, cst.Name(attr)) | cst.Call(
                cst.Attribute(value, cst.Name(attr))
            ) if attr in _ALIASES:
                node = value
            case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(index))]):
                return bool(module.names_in(index) & names.keys)
            case cst.Name(name):
                return name in names.tensors
            case _:
                return False


def _mentions(module: Module, node: cst.BaseExpression, names: _Names) -> bool:
    return bool(_mentioned(module, node, names))


def _mentioned(module: Module, node: cst.BaseExpression, names: _Names) -> set[str]:
    """Return the parameters in an expression: by their names, or by what their keys are put
    into."""
    found = set(module.names_in(node) & names.tensors)
    for part in module.within(node, cst.Subscript):
        if _is_tensor(module, part, names):
            found.add(module.source_of(part))
    return found


def _of_gradient(module: Module, node: cst.BaseExpression, names: _Names) -> bool:
    """Say whether an expression is about a parameter's gradient."""
    if any(name.value in names.gradients for name in module.within(node, cst.Name)):
        return True
    return any(
        part.attr.value == "grad" and _is_tensor(module, part, names)
        for part in module.within(node, cst.Attribute)
    )


@question(
    yes="it makes a parameter group of each tensor", no="it makes no parameter group of each tensor"
)
def one_group_each(module: Module, loop: cst.For) -> bool:
    """Say whether a loop over parameters makes a group of each, in a function that also makes an
    optimizer of torch.optim."""
    found = parameter_names(module, loop)
    count = iteration_count(module, loop)
    if not found.tensors or (count is not None and count <= _FEW):
        return False
    groups = any(_is_group(made, found.tensors) for made in module.within(loop.body, cst.Dict))
    place = module.scope(loop)
    return groups and any(
        module.name(call.func) in _OPTIMIZERS for call in module.within(place, cst.Call)
    )


def _is_group(made: cst.Dict, names: Collection[str]) -> bool:
    """Say whether a dictionary is a parameter group of one tensor: ``{"params": [p], "lr": …}``."""
    for element in made.elements:
        match element:
            case cst.DictElement(
                cst.SimpleString(raw_value="params"),
                cst.List([cst.Element(value)]) | value,
            ):
                return is_name(value, *names)
    return False
