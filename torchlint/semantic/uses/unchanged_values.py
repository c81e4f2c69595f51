"""Whether a tensor that a loop makes stays what it is: it is made anew in each iteration, has no
second name, and nothing changes it in place later."""

from __future__ import annotations

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.flow import callees_of, reads_of, writes_of
from torchlint.semantic.code.named_tests import Holds
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.scopes import is_compiled
from torchlint.semantic.code.tree import LOOPS, Function, attr_of, is_name, method_called
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.object_uses import ObjectUse, Way, binding_uses
from torchlint.semantic.uses.plain_numbers import is_python_number
from torchlint.semantic.values.definitions_behind import reached
from torchlint.semantic.values.inferred import inferred

_REDUCES = regex(r"reduce|broadcast")
_WRITES = regex(r"reduce|broadcast|[a-z]_\Z|__i[a-z]+__\Z")
_IN_PLACE = ops.having("in-place")
_NUMBERS = (cst.Integer, cst.Float)


def grown_name(statement: cst.CSTNode | None) -> str | None:
    """Return the name that ``name += …`` or ``name = name + …`` adds to."""
    match statement:
        case cst.AugAssign(cst.Name(name), cst.AddAssign()):
            return name
        case cst.Assign(
            [cst.AssignTarget(cst.Name(name))],
            cst.BinaryOperation(cst.Name(left), cst.Add()),
        ) if name == left:
            return name
    return None


@question()
def fresh_per_iteration(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether a tensor is made anew in each iteration of the loop, as `bound_per_iteration`
    says, by torch's own functions or losses: what else gives one may give the same again, a
    buffer."""
    if not bound_per_iteration(module, tensor):
        return False
    if not isinstance(tensor, cst.Name) or not module.loops(tensor):
        return True
    made, seen = definitions_of(module, tensor), set[cst.CSTNode]()
    while made:
        each = made.pop()
        if isinstance(each, cst.AugAssign) and isinstance(each.target, cst.Name):
            # Made anew before it is changed: ``loss *= 2``.
            if each not in seen:
                seen.add(each)
                made += definitions_of(module, each.target)
        elif not _is_fresh(module, each, tensor.value):
            return False
    return True


@question()
def bound_per_iteration(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether a tensor is made anew in each iteration of the loop: by a name that nothing
    changes in place there, or as an expression that torch computes; without a loop, in each call:
    by torch."""
    iterations = module.loops(tensor)
    match tensor:
        case cst.Name() if not iterations:
            return _fresh_and_unchanged(module, tensor)
        case cst.Name(name):
            made = definitions_of(module, tensor)
            return (
                bool(made)
                and all(module.is_within(each, iterations[0]) for each in made)
                and not _grows_or_changes(module, iterations[0], name)
                and not _changed_behind(module, iterations[0], name, made)
                and not _has_second_name(module, tensor)
            )
        case cst.Call(cst.Attribute(inner, cst.Name("detach"))) | cst.Attribute(
            inner, cst.Name("data")
        ):
            if isinstance(inner, cst.Name):
                return _fresh_and_unchanged(module, inner)
            return bound_per_iteration(module, inner)
        case cst.Call(cst.Attribute(attr=cst.Name(method))) if method in ops.REDUCTIONS:
            return True
        case cst.BinaryOperation() | cst.Call():
            return not is_compiled(module, tensor) and _is_computed(module, tensor)
    return False


@question(circular=False)
def _grows_or_changes(module: Module, iteration: cst.CSTNode, name: str) -> bool:
    """Say whether an iteration of a loop adds to what a name holds, or may change it in place by
    one of its uses."""
    uses = [module.parent(each) for each in reads_of(module, iteration, name)]
    return (
        any(growth_at(module, each) for each in writes_of(module, iteration, name))
        or any(isinstance(u, cst.Attribute) and u.attr.value[-1] == "_" for u in uses)
        or any(_may_reduce(module, use) or may_change_in_place(module, use) for use in uses)
    )


_CHANGES = regex(r"[a-z]_\Z")


def may_change_in_place(module: Module, use: cst.CSTNode | None) -> bool:
    """Say whether a tensor gets a second name by which it may be changed in place, ``loss.data``,
    or goes to a function of the file that changes something in place."""
    node: cst.CSTNode | None = use
    aliased = False
    while isinstance(node, (cst.Attribute, cst.Call)):
        if isinstance(node, cst.Attribute):
            if node.attr.value.endswith("_"):
                return True
            if node.attr.value not in ops.ALIASING_ATTRIBUTES | ops.ALIASING_METHODS:
                return False
            aliased = True
        node = module.parent(node)
    if aliased and isinstance(node, (cst.Assign, cst.AssignTarget, cst.AugAssign)):
        return True
    call = module.parent(node) if isinstance(node, cst.Arg) else None
    return isinstance(call, cst.Call) and any(
        isinstance(each, cst.AugAssign)
        or (isinstance(each.func, cst.Attribute) and _CHANGES.search(each.func.attr.value))
        for callee in callees_of(module, call)
        for each in module.within(callee, cst.Call, cst.AugAssign, nested=True)
        if isinstance(each, (cst.AugAssign, cst.Call))
    )


_CAPTURES = regex(
    r"reduce-overhead|max-autotune|cudagraphs|CUDAGraph|graphed_callables|cuda\.graph\b"
)
_NAMING = (cst.Assign, cst.AnnAssign, cst.NamedExpr, cst.BaseElement, cst.BaseDictElement)
_COMPUTED = (cst.Integer, cst.Float, cst.BinaryOperation)
_KEEPS_VALUES = regex(r"^(clip_grad|unscale_|requires_grad_)|^torch\.nn\.(init|utils)\.")


def _has_second_name(module: Module, tensor: cst.Name) -> bool:
    """Say whether what a name holds gets a second one in its function (``total = loss``,
    ``{"loss": loss}``), where something is changed in place that may be it."""
    owner, made = module.tree.owners[tensor], set(definitions_of(module, tensor))
    return any(
        not made.isdisjoint(definitions_of(module, read))
        for read in _named_reads(module, owner, tensor.value)
    ) and _may_change_others(module, owner)


@question(ground=True)
def _named_reads(module: Module, owner: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return the reads of a name by which what it holds gets another one."""
    return [read for read in reads_of(module, owner, name) if _is_named(module, read)]


@question(circular=False)
def _may_change_others(module: Module, owner: cst.CSTNode) -> bool:
    """Say whether code may change in place what has another name too."""
    changes = module.within(owner, cst.AugAssign, cst.Call)
    return any(_may_change_another(module, each) for each in changes)


def _is_named(module: Module, read: cst.CSTNode) -> bool:
    """Say whether an expression is given a name, or a place in a row or table, as it is."""
    above = module.parent(read)
    while isinstance(above, cst.IfExp) and read is not above.test:
        read, above = above, module.parent(above)
    return isinstance(above, _NAMING) and getattr(above, "value", None) is read


def _may_change_another(module: Module, change: cst.CSTNode) -> bool:
    """Say whether ``total += …`` or ``total.mul_(…)`` may change what has another name too: not
    where the name holds a number, or what was computed for it."""
    match change:
        case cst.AugAssign(cst.Name() as target):
            made = definitions_of(module, target)
            return not made or any(
                not isinstance(each, cst.AugAssign)
                and not isinstance(getattr(each, "value", None), _COMPUTED)
                and not is_python_number(module, getattr(each, "value", None) or each)
                and not _is_fresh(module, each, target.value)
                for each in made
            )
        case cst.AugAssign(target):
            return not is_python_number(module, target)
        case cst.Call(cst.Attribute(attr=cst.Name(method)) as func):
            name = module.name(func) or method
            kept = _KEEPS_VALUES.search(method) or _KEEPS_VALUES.search(name)
            return bool(_CHANGES.search(method)) and not kept
    return False


@question(
    yes="`{answer}` changes the tensor in place, in the same iteration",
    no="nothing is known that changes the tensor in place in the same iteration",
)
def changed_below(module: Module, tensor: cst.BaseExpression) -> cst.CSTNode | None:
    """Return what changes a tensor in place behind a read of it, in the same iteration of the loop
    or call of the function: ``loss += …``, ``loss.add_(…)``."""
    if not isinstance(tensor, cst.Name):
        return None
    iteration = module.loop(tensor) or module.function(tensor) or module.root
    made = set(definitions_of(module, tensor))
    for each in module.within(iteration, cst.AugAssign, cst.Call):
        match each:
            case cst.AugAssign(cst.Name() as name):
                pass
            case cst.Call(cst.Attribute(cst.Name() as name, cst.Name(method))) if (
                method in _IN_PLACE
            ):
                pass
            case _:
                continue
        same = name.value == tensor.value and made == set(definitions_of(module, name))
        if same and module.before(tensor, each):
            return each
    return None


def _may_reduce(module: Module, use: cst.CSTNode | None) -> bool:
    """Say whether a tensor is handed to what may put into it what all processes have together."""
    call = module.parent(use) if isinstance(use, cst.Arg) else None
    name = dotted_text(call.func) if isinstance(call, cst.Call) else None
    return _REDUCES.search(name or "") is not None


def _changed_behind(module: Module, loop: cst.CSTNode, name: str, made: list[cst.CSTNode]) -> bool:
    """Say whether a loop has a ``name *= …`` that changes in place what these have bound."""
    return any(
        is_name(step.target, name) and not set(made).isdisjoint(definitions_of(module, step.target))
        for step in module.within(loop, cst.AugAssign)
    )


def _fresh_and_unchanged(module: Module, read: cst.Name) -> bool:
    """Say whether torch makes a tensor of its own before each read of a name, in the iteration or
    the call, and nothing that is known changes it in place."""
    made, iterations = definitions_of(module, read), module.loops(read)
    home = iterations[0] if iterations else module.function(read)
    if home is None or is_compiled(module, read) or _has_second_name(module, read):
        return False
    return bool(made) and all(
        module.is_within(each, home)
        and _is_fresh(module, each, read.value)
        and not any(
            use.way is Way.WRITTEN or _is_written(use)
            for use in binding_uses(module, each, read.value, "device")
        )
        for each in made
    )


def _is_written(use: ObjectUse) -> bool:
    """Say whether a call that is not known may put what all processes have together in a tensor's
    place, or says by its name that it writes in place: ``torch._foreach_add_([loss], 1)``."""
    func = use.node.func if isinstance(use.node, cst.Call) else None
    name = dotted_text(func) or attr_of(func)
    return use.way is Way.ESCAPES and _WRITES.search(name or "") is not None


def _is_fresh(module: Module, made: cst.CSTNode, name: str) -> bool:
    """Say whether an assignment binds a name to what torch has just computed: a loss, a reduction,
    a sum, or what code that is not in view gives and the same iteration back-propagates."""
    match made:
        case cst.Assign([cst.AssignTarget(cst.Name())], value):
            return _is_computed(module, value) or _is_back_propagated(module, made, name)
        case cst.Assign([cst.AssignTarget(cst.Tuple(parts))], cst.Call() as call):
            places = [i for i, part in enumerate(parts) if is_name(part.value, name)]
            behind = reached(module, call) if len(places) == 1 else []
            return len(behind) == 1 and _computes_all(*behind[0], part=places[0], of=len(parts))
    return False


def _is_back_propagated(module: Module, made: cst.Assign, name: str) -> bool:
    """Say whether each iteration of a loop back-propagates what an unknown call gives it, and lets
    its graph go: no other iteration can get the same tensor. One that a graph of CUDA computes lies
    where the next iteration's will."""
    loop = module.loop(made)
    if not isinstance(loop, LOOPS) or not isinstance(made.value, cst.Call):
        return False
    if reached(module, made.value):
        return False
    for call in module.within(loop.body, cst.Call):
        match call:
            case cst.Call(cst.Attribute(loss, cst.Name("backward")), []) | cst.Call(
                cst.Attribute(attr=cst.Name("backward")), [cst.Arg(loss)]
            ):
                if method_called(loss) == "scale" and isinstance(loss, cst.Call) and loss.args:
                    loss = loss.args[0].value
                if is_name(loss, name) and definitions_of(module, loss) == [made]:
                    return not said_somewhere(module, Holds(_CAPTURES))
    return False


def _is_computed(module: Module, value: cst.BaseExpression) -> bool:
    """Say whether an expression gives what torch has just computed, itself or in a function of the
    project that returns nothing else."""
    match value:
        case cst.BinaryOperation():
            return inferred(module, value).kind == "tensor"
        case cst.Call(func):
            name, callee = module.name(func) or "", inferred(module, func)
            layer = callee.kind == "module" and (callee.name or "").startswith("torch.nn.")
            if name in ops.COMPUTING_FUNCTIONS or (layer and (callee.name or "").endswith("Loss")):
                return True
            method = func.attr.value if isinstance(func, cst.Attribute) and not name else ""
            if inferred(module, value).kind == "tensor" and method in ops.COMPUTING_METHODS:
                return True
            behind = reached(module, value)
            return len(behind) == 1 and _computes_all(*behind[0])
    return False


@question(circular=False)
def _computes_all(module: Module, function: Function, *, part: int = 0, of: int = 1) -> bool:
    """Say whether all that a function returns, or a part of it `of` several, are tensors that its
    run has computed."""
    if not isinstance(function, cst.FunctionDef) or function.decorators:
        return False
    given = [each.value for each in module.within(function.body, cst.Return)]
    if of > 1:
        given = [
            each.elements[part].value
            if isinstance(each, cst.Tuple) and len(each.elements) == of
            else None
            for each in given
        ]
    return bool(given) and all(
        each is not None and _is_computed_there(module, each) for each in given
    )


def _is_computed_there(module: Module, value: cst.BaseExpression) -> bool:
    """Say whether a function has computed what an expression gives, wherever in it, and keeps it
    under no other name: a name that began as a number too, to which it has added."""
    if not isinstance(value, cst.Name):
        return _is_computed(module, value)
    owner = module.tree.owners[value]
    if not all(_computes_with(module, each) for each in reads_of(module, owner, value.value)):
        return False
    seen: set[cst.CSTNode] = set()
    made = definitions_of(module, value)
    while new := [each for each in made if each not in seen]:
        seen.update(new)
        made = [
            earlier
            for each in new
            if isinstance(each, cst.AugAssign) and isinstance(each.target, cst.Name)
            for earlier in definitions_of(module, each.target)
        ]
    return any(not isinstance(_number(each), _NUMBERS) for each in seen) and all(
        isinstance(each, cst.AugAssign)
        or isinstance(_number(each), _NUMBERS)
        or _is_fresh(module, each, value.value)
        for each in seen
    )


def _computes_with(module: Module, read: cst.CSTNode) -> bool:
    """Say whether a use of a tensor leaves no second name of it behind."""
    match module.parent(read):
        case cst.Return() | cst.BinaryOperation() | cst.AugAssign():
            return True
        case cst.Element() as part if isinstance(row := module.parent(part), cst.Tuple):
            return isinstance(module.parent(row), cst.Return)
        case cst.Attribute(attr=cst.Name(method)):
            return method in ops.COMPUTING_METHODS | ops.REDUCTIONS
    return False


def _number(made: cst.CSTNode) -> cst.CSTNode | None:
    return made.value if isinstance(made, cst.Assign) else None


def growth_at(module: Module, write: cst.CSTNode) -> cst.AugAssign | cst.Assign | None:
    """Return the ``name += …`` or ``name = name + …`` of which a node is the target."""
    above = module.parent(write)
    above = module.parent(above) if isinstance(above, cst.AssignTarget) else above
    if isinstance(above, (cst.AugAssign, cst.Assign)) and grown_name(above) is not None:
        return above
    return None
