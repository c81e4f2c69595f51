"""Who needs gradients, and who cannot have any: differentiating code, proofs of no autograd."""

from __future__ import annotations

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import top_level
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import uses_of
from torchlint.semantic.code.tree import attr_of, is_name
from torchlint.semantic.code.updates import is_step
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.torch import ops
from torchlint.semantic.values.definitions_behind import classes, functions
from torchlint.semantic.values.inferred import inferred, is_model_call

_NEEDS = ops.having("wants-graph")
_CUTS = ops.having("cuts")
_OFF = regex(r"requires_grad_?\s*(=|\()\s*(requires_grad\s*=\s*)?False")
_HOST = ops.having("method", "reads") | ops.having("method", "fact")
_CUTTING = regex(r"detach|no_grad|inference_mode|\.data\b|requires_grad")
_DEFINITIONS = 40
"""Classes and functions behind a call in which a ``detach()`` is looked for."""


@question(yes="the code asks for gradients", no="the code asks for no gradients")
def differentiates(module: Module, place: cst.CSTNode) -> bool:
    """Say whether code inside `place`, or a function that it calls, asks autograd for something: a
    backward pass, a gradient, a hook."""
    return _asks(module, place) or any(
        isinstance(callee, cst.FunctionDef) and differentiates(where, callee.body)
        for call in module.within(place, cst.Call)
        for where, callee in functions(module, call)
    )


def _asks(module: Module, place: cst.CSTNode) -> bool:
    for node in module.within(place, cst.Attribute, nested=True):
        attr, above = node.attr.value, module.parent(node)
        if attr in _NEEDS or (attr == "grad" and not isinstance(above, cst.AssignTarget)):
            return True
        if (
            attr == "requires_grad"
            and isinstance(above, cst.AssignTarget)
            and not _assigned_false(module, above)
        ):
            return True
        if attr == "requires_grad_" and not (isinstance(above, cst.Call) and _is_false(above.args)):
            return True
    return any(is_step(module, c) for c in module.within(place, cst.Call))


@question(
    yes="every model that the loop runs is under no_grad",
    no="a model of the loop may record a graph",
)
def runs_without_graph(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether a loop asks for no gradients, runs models, and each of them with autograd off: a
    loss of what they give has no graph either."""
    runs = [call for call in module.within(loop, cst.Call) if is_model_call(module, call)]
    return (
        any(no_grad(module, call) is True for call in runs)
        and all(no_grad(module, call) is not False for call in runs)
        and not differentiates(module, loop)
    )


def switches_off(text: str) -> bool:
    """Say whether a text switches the gradients of something off."""
    return _OFF.search(text) is not None


def only_detached(module: Module, call: cst.Call) -> bool:
    """Say whether nothing but ``.detach()`` or ``.data`` is asked of a call's result, where it is
    read at all."""
    found = False
    for use in uses_of(module, call):
        above = module.parent(use)
        if not isinstance(above, cst.Attribute) or above.value is not use:
            return False
        if above.attr.value in _CUTS:
            found = True
        elif above.attr.value not in ops.HOST_ATTRIBUTES:
            return False
    return found


def trained_elsewhere(module: Module, call: cst.Call) -> bool:
    """Say whether another call of the same model, by its name in this file, records a graph that is
    put to use."""
    name = dotted_text(call.func)
    calls = (other for other in module.nodes(cst.Call) if other is not call)
    same = [other for other in calls if name is not None and dotted_text(other.func) == name]
    return any(
        no_grad(module, other) is False
        and uses_of(module, other)
        and not only_detached(module, other)
        for other in same
    )


@question(
    yes="the function would raise if a graph were recorded", no="the function may record a graph"
)
def proves_no_grad(module: Module, function: cst.CSTNode) -> bool:
    """Say whether a function would raise if a graph were recorded: ``numpy()`` of a tensor that
    then requires grad."""
    for call in module.within(function, cst.Call):
        if (
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "numpy"
            and not call.args
        ):
            read: cst.BaseExpression | None = call.func.value
        else:
            array = module.name(call.func) in ("numpy.array", "numpy.asarray") and call.args
            read = call.args[0].value if array else None
        value = inferred(module, read) if read is not None else None
        if value is not None and value.tensor and value.grad is True:
            return True
    return False


def _assigned_false(module: Module, target: cst.CSTNode) -> bool:
    home = module.small_statement(target)
    return isinstance(home, cst.Assign) and is_name(home.value, "False")


def _is_false(args: object) -> bool:
    first = args[0].value if isinstance(args, (list, tuple)) and args else None
    return is_name(first, "False")


# -- values in text -------------------------------------------------------------------------------

_AS_TEXT = regex(r"%[-#0 +]*[\d*]*[sra]")


def written_out(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a part of an f-string, or ``text % value``, makes text of a value, and perhaps
    not as a number."""
    match node:
        case cst.FormattedStringExpression(format_spec=None, conversion=None, equal=None):
            return inferred(module, node.expression).rank != 0
        case cst.FormattedStringExpression(format_spec=spec, conversion=conversion):
            return spec is None or conversion is not None
        case cst.BinaryOperation(operator=cst.Modulo(), left=cst.SimpleString() as text):
            return _AS_TEXT.search(text.value) is not None
    return isinstance(node, cst.BinaryOperation) and isinstance(node.left, cst.ConcatenatedString)


@question(
    yes="only the detached result is used",
    no="a gradient may flow through its result, or the model is not trained in this file",
)
def detached_for_nothing(module: Module, call: cst.Call) -> bool:
    """Say whether a model that is trained elsewhere in the file runs here for nothing but a
    detached result."""
    return only_detached(module, call) and trained_elsewhere(module, call)


@question(
    yes="`{0}` hands the graph of its arguments on", no="`{0}` may cut the graph of its arguments"
)
def hands_graph_on(module: Module, call: cst.Call) -> bool:
    """Say whether what a call is given surely keeps its graph in what it returns: torch's own
    operations and layers, and code of the project that cuts no graph."""
    func, name = call.func, module.called(call)
    if attr_of(func) in _CUTS | _HOST:
        return False
    if name.startswith("torch.") or name == "builtins.sum":
        return name.rpartition(".")[2] not in _CUTS
    callee = inferred(module, func)
    if callee.kind == "module" and (callee.name or "").startswith("torch.nn."):
        return True
    known: list[tuple[Module, cst.CSTNode]] = (
        [*classes(module, callee)] if callee.kind == "module" else [*functions(module, call)]
    )
    if known:
        return not any(may_cut_graph(where, definition) for where, definition in known)
    return isinstance(func, cst.Attribute) and inferred(module, func.value).tensor


@question(yes="`{0}` may cut a graph", no="`{0}` cuts no graph")
def may_cut_graph(module: Module, definition: cst.CSTNode) -> bool:
    """Say whether a class or function, or one that it names, speaks of what cuts a graph."""
    todo, seen = [(module, definition)], set[cst.CSTNode]()
    while todo:
        where, node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) > _DEFINITIONS or _CUTTING.search(where.source(node)):
            return True
        for name in where.within(node, cst.Name, nested=True):
            there = top_level(where, name.value)
            if isinstance(there, (cst.ClassDef, cst.FunctionDef)):
                todo.append((where, there))
                continue
            elsewhere = where.outside.find(where.name(name))
            other = where.outside.module_of(elsewhere) if elsewhere is not None else None
            if elsewhere is not None and other is not None:
                found = top_level(other, elsewhere.name)
                todo += [(other, found)] if found is not None else []
    return False
