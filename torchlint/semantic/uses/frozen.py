"""Networks that are frozen, surely or by all that the file says: no parameter of theirs asks for a
gradient."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import assigned_to
from torchlint.semantic.code.scopes import base_names, method_of, scopes
from torchlint.semantic.code.tree import (
    DISPLAYS,
    is_name,
    keyword_of,
    parameters_of,
    positional_parameters,
    receiver,
    root_of,
    targets_of,
)
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.networks import model_classes
from torchlint.semantic.values.definitions_behind import functions, returned
from torchlint.semantic.values.inferred import inferred

_THAWS = regex(r"requires_grad_?\s*(=|\()\s*(True|\))")
_LATER = regex(r"requires_grad_?\s*(=(?!=)|\()(?!\s*False)")
"""What may give gradients back to a part of what was frozen."""
_GIVES = frozenset(("parameters", "named_parameters"))
_WITHOUT_PARAMETERS = ops.dotted("layer", "stateless")
_REGISTERS = regex(r"\bself\.(add_module|register_module|register_parameter)\(|\bsetattr\(self\b")
_FREEZING = regex(r"freez|frozen|set_requires_grad|no_?grad", re.IGNORECASE)
_FUNCTION = regex(r"(^|_)(func|fn|function|callback|transform)s?$")
"""What people call a function that a class keeps, and no network."""


@question(
    yes="all parameters of `{0}` are made without gradients",
    no="`{0}` may have parameters that are trained",
)
def made_frozen(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether the code that makes a model switches off the gradients of all its parameters: the
    constructor of its class, also by an argument that is False by default, or the function that
    returns it, and the code that gets it changes nothing about that."""
    text = dotted_text(model)
    home: cst.CSTNode = module.scope(model)
    if text is not None and text.startswith("self."):
        home = module.class_of(model) or home
    if text is not None and _is_changed(module, home, text):
        return False
    classes = list(model_classes(module, model))
    if classes and all(_made_frozen(where, cls, module) for where, cls in classes):
        return True
    made = list(_made_by(module, model))
    return bool(made) and all(_returns_frozen(module, call) for call in made)


@question(ground=True)
def frozen_names(module: Module, function: cst.CSTNode) -> dict[str, cst.CSTNode]:
    """Return the networks that code freezes as a whole whenever it runs, ``net`` or ``self.net``,
    each with the statement that does it."""
    body = function.body if isinstance(function, cst.FunctionDef) else function
    found: dict[str, cst.CSTNode] = {}
    for loop in module.within(body, cst.For):
        network = _whose_parameters(loop.iter)
        if network is not None and any(_switches(module, line, loop) for line in loop.body.body):
            found[network] = loop
    for call in module.within(body, cst.Call):
        match call:
            case cst.Call(cst.Attribute(attr=cst.Name("requires_grad_")), [cst.Arg(given)]) if (
                _is_off(module, call, given)
            ):
                texts = map(dotted_text, _named(module, call))
                found |= dict.fromkeys((text for text in texts if text is not None), call)
    return {
        name: node
        for name, node in found.items()
        if _runs_by_default(module, node, function)
        and not _is_changed(module, body, name, node)
        and all(
            _keeps_defaults(module, [node], function, call) for call in call_sites(module, function)
        )
    }


def _is_changed(
    module: Module, home: cst.CSTNode, name: str, frozen: cst.CSTNode | None = None
) -> bool:
    """Say whether code gives a network new parts, or gradients back to some of its parameters,
    after the statement that freezes it."""
    if any(
        frozen is None or (line is not frozen and module.before(frozen, line))
        for line in _giving_back(module, home).get(name, ())
    ):
        return True
    if isinstance(frozen, cst.For) and any(
        not _switches(module, each, frozen) and _LATER.search(module.source(each))
        for each in frozen.body.body
    ):
        return True
    return any(
        (frozen is None or module.before(frozen, value)) and _may_learn(module, value)
        for value in _parts_given(module, home).get(name, ())
    )


@question(ground=True)
def _giving_back(module: Module, home: cst.CSTNode) -> dict[str, list[cst.CSTNode]]:
    """Return by name, with dots or without, the lines and loops of some code that hold it and may
    give gradients back."""
    found: dict[str, list[cst.CSTNode]] = {}
    if not _LATER.search(module.text):
        return found
    nested = isinstance(home, cst.ClassDef)
    for line in module.within(home, cst.For, cst.SimpleStatementLine, nested=nested):
        if _LATER.search(module.source(line)):
            where = line.iter if isinstance(line, cst.For) else line
            for each in module.within(where, cst.Name, cst.Attribute):
                found.setdefault(dotted_text(each) or "", []).append(line)
    return found


@question(ground=True)
def _parts_given(module: Module, home: cst.CSTNode) -> dict[str, list[cst.BaseExpression]]:
    """Return by network what some code gives its parts, ``net.fc``, ``net.classifier[6]``; of
    ``self`` those of a part, as who asks looks at the parts themselves."""
    found: dict[str, list[cst.BaseExpression]] = {}
    for assign in _assignments(module, home, nested=isinstance(home, cst.ClassDef)):
        for target, value in ((each, assign.value) for each in targets_of(assign)):
            target = root_of(target, cst.Subscript)
            parts = (dotted_text(target) or "").split(".")
            for count in range(1, len(parts)):
                if value is not None and (parts[:count] != ["self"] or len(parts) > 2):
                    found.setdefault(".".join(parts[:count]), []).append(value)
    return found


def _may_learn(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a value may be a network or a parameter that is trained."""
    parameter = _parameter(module, node)
    if parameter is not None:
        return not _without_gradient(module, parameter)
    value = inferred(module, node)
    return value.kind in ("module", "object", "?") and value.name not in _WITHOUT_PARAMETERS


def _keeps_defaults(
    module: Module, frozen: Iterable[cst.CSTNode], function: cst.CSTNode, call: cst.Call
) -> bool:
    """Say whether a call leaves those parameters of a function at their defaults on which it rests
    that something is frozen."""
    if not isinstance(function, cst.FunctionDef):
        return True
    needed = {
        name.value: default
        for node in frozen
        for part in (node, *(test for test, _ in conditions_around(module, node, function)))
        for name in (*module.within(part, cst.Name), part)
        if isinstance(name, cst.Name)
        if (default := _default(module, node, name.value)) is not None
    }
    params = [each.name.value for each in positional_parameters(function)]
    if params[:1] == ["self"]:
        del params[0]
    for place, arg in enumerate(call.args):
        if needed and arg.star:
            return False
        name = keyword_of(arg) or "".join(params[place : place + 1])
        if name in needed and dotted_text(arg.value) != needed[name]:
            return False
    return True


def _made_frozen(module: Module, cls: cst.ClassDef, used: Module) -> bool:
    init, family = method_of(module, cls, "__init__"), scopes(module).lineage(cls)
    if init is None or any(_THAWS.search(module.source(each)) for each in family):
        return False
    frozen = dict(frozen_names(module, init))
    for call in module.within(init.body, cst.Call):
        name = dotted_text(call.func) or ""
        helper = method_of(module, cls, name.removeprefix("self.")) if "self." in name else None
        if helper is not None and _runs_by_default(module, call, init):
            names = frozen_names(module, helper)
            frozen |= {
                each: call for each in names if not _is_changed(module, init.body, each, call)
            }
    # How what a call names is called here, and where it was imported from.
    if frozen and not all(
        _keeps_defaults(module, frozen.values(), init, call)
        for where in (module, used)
        for call in where.nodes(cst.Call)
        if cls.name.value
        in {
            (name or "").rpartition(".")[2]
            for name in (where.name(call.func), dotted_text(call.func))
        }
    ):
        return False
    if "self" not in frozen:
        ours = all(base == "torch.nn.Module" for base in base_names(module, cls))
        if not ours or any(_REGISTERS.search(module.source(each)) for each in family):
            return False
    if any(unpacks(module, each) for each in family):
        return False
    parts = [(each, assign) for each in family for assign in learning_parts(module, each)]
    return bool(frozen or parts) and all(
        _is_frozen_part(module, each, assign, frozen) for each, assign in parts
    )


@question(remember=False)
def unpacks(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether a class gives several attributes their values at once."""
    return any(
        isinstance(target, DISPLAYS)
        and any((dotted_text(part.value) or "").startswith("self.") for part in target.elements)
        for assign in module.within(cls.body, cst.Assign, nested=True)
        for target in targets_of(assign)
    )


@question(remember=False)
def learning_parts(module: Module, cls: cst.ClassDef) -> Iterator[cst.Assign | cst.AnnAssign]:
    """Yield the statements of a class that give an attribute what may have parameters."""
    run = {
        call.func.attr.value
        for call in module.within(cls.body, cst.Call, nested=True)
        if isinstance(call.func, cst.Attribute) and dotted_text(call.func.value) == "self"
    }
    for assign in _assignments(module, cls.body, nested=True):
        if assign.value is None:
            continue
        for name in _attributes(assign):
            value = inferred(module, assign.value)
            called = name in run and value.kind == "?" and _FUNCTION.search(name) is None
            learns = value.kind == "module" and value.name not in _WITHOUT_PARAMETERS
            if called or learns or _parameter(module, assign.value) is not None:
                yield assign


def _assignments(
    module: Module, home: cst.CSTNode, *, nested: bool
) -> Iterator[cst.Assign | cst.AnnAssign]:
    """Yield the plain and the annotated assignments of some code."""
    for each in module.within(home, cst.Assign, cst.AnnAssign, nested=nested):
        if isinstance(each, (cst.Assign, cst.AnnAssign)):
            yield each


def _attributes(assign: cst.Assign | cst.AnnAssign) -> Iterator[str]:
    """Yield the attributes of ``self`` to which a statement assigns."""
    for target in targets_of(assign):
        owner, _, name = (dotted_text(target) or "").partition(".")
        if owner == "self" and "." not in name:
            yield name


def _is_frozen_part(
    module: Module,
    cls: cst.ClassDef,
    assign: cst.Assign | cst.AnnAssign,
    frozen: dict[str, cst.CSTNode],
) -> bool:
    """Say whether what an attribute gets is among what is frozen, or a weight without gradients."""
    parameter = _parameter(module, assign.value)
    if parameter is not None and _without_gradient(module, parameter):
        return True
    if "self" in frozen and module.before(assign, frozen["self"]):
        return True
    root = root_of(assign.value)
    names = {f"self.{name}" for name in _attributes(assign)} | {dotted_text(root) or ""}
    return any(name in frozen and (name != "self") for name in names) or _weight_alone(
        module, cls, assign
    )


def _weight_alone(module: Module, cls: cst.ClassDef, assign: cst.Assign | cst.AnnAssign) -> bool:
    """Say whether a layer has a weight alone, for which the class puts one without gradients."""
    value = assign.value
    bias = keyword_argument(module, value, "bias") if isinstance(value, cst.Call) else None
    if not is_name(bias, "False"):
        return False
    weights = {f"self.{name}.weight" for name in _attributes(assign)}
    return any(
        (parameter := _parameter(module, other.value)) is not None
        and _without_gradient(module, parameter)
        and any(dotted_text(target.target) in weights for target in other.targets)
        for other in module.within(cls.body, cst.Assign, nested=True)
    )


def _parameter(module: Module, node: cst.BaseExpression | None) -> cst.Call | None:
    """Return an expression that makes a parameter."""
    made = module.called(node) == "torch.nn.Parameter"
    return node if made and isinstance(node, cst.Call) else None


def _without_gradient(module: Module, parameter: cst.Call) -> bool:
    given = keyword_argument(module, parameter, "requires_grad")
    return is_name(given, "False")


def _whose_parameters(node: cst.BaseExpression) -> str | None:
    """Return the network over whose parameters a loop goes."""
    match node:
        case cst.Call(cst.Attribute(owner, cst.Name(name))) if name in _GIVES:
            return dotted_text(owner)
    return None


def _switches(module: Module, line: cst.CSTNode, loop: cst.For) -> bool:
    """Say whether a line in a loop over parameters switches off the gradient of each."""
    names = [name.value for name in module.within(loop.target, cst.Name)]
    match line:
        case cst.SimpleStatementLine(
            [
                cst.Assign(
                    [cst.AssignTarget(cst.Attribute(cst.Name(each), cst.Name("requires_grad")))],
                    given,
                )
                | cst.Expr(
                    cst.Call(
                        cst.Attribute(cst.Name(each), cst.Name("requires_grad_")),
                        [cst.Arg(given)],
                    )
                )
            ]
        ):
            return each in names[-1:] and _is_off(module, loop, given)
    return False


def _is_off(module: Module, node: cst.CSTNode, given: cst.BaseExpression) -> bool:
    """Say whether a value is False, or an argument that is False by default."""
    return isinstance(given, cst.Name) and (
        given.value == "False" or _default(module, node, given.value) == "False"
    )


def _default(module: Module, node: cst.CSTNode, name: str) -> str | None:
    """Return the default of a parameter of the function around a node, where a name gives it."""
    function = module.function(node)
    for param in parameters_of(function) if function is not None else ():
        if param.name.value == name and isinstance(param.default, cst.Name):
            return param.default.value
    return None


def _runs_by_default(module: Module, node: cst.CSTNode, function: cst.CSTNode) -> bool:
    """Say whether code runs whenever a function does, as far as its callers keep the defaults."""
    for test, needed in conditions_around(module, node, function):
        flag = test
        if isinstance(flag, cst.UnaryOperation) and isinstance(flag.operator, cst.Not):
            flag, needed = flag.expression, not needed
        if not isinstance(flag, cst.Name) or _default(module, node, flag.value) != str(needed):
            return False
    return True


def _named(module: Module, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """Yield what a chain of methods around a call begins with, and what gets its result:
    ``self.net = net.to(device).requires_grad_(False).eval()``."""
    end = module.parent(module.chain_around(call))
    yield receiver(call)
    yield from (each.target for each in end.targets) if isinstance(end, cst.Assign) else ()


# -- functions that make networks ------------------------------------------------------------------


def _made_by(module: Module, model: cst.BaseExpression) -> Iterator[cst.Call]:
    """Yield the calls by which a name of a function, or an attribute of a class, is given its
    network."""
    for made in assigned_to(module, model):
        while (
            isinstance(made, cst.Call)
            and isinstance(made.func, cst.Attribute)
            and isinstance(made.func.value, cst.Call)
        ):
            made = made.func.value
        if isinstance(made, cst.Call):
            yield made


def _returns_frozen(module: Module, call: cst.Call) -> bool:
    """Say whether each function that a call may reach returns what it has frozen."""
    found = functions(module, call)
    return bool(found) and all(
        isinstance(function, cst.FunctionDef)
        and bool(given := returned(where, function))
        and (frozen := frozen_names(where, function)).keys() >= set(map(dotted_text, given))
        and _keeps_defaults(where, frozen.values(), function, call)
        for where, function in found
    )


# -- by all that the file says ---------------------------------------------------------------------


@question(
    yes="the file switches off the gradients of `{0}`", no="the parameters of `{0}` are trained"
)
def is_frozen(module: Module, model: cst.CSTNode) -> bool:
    """Say whether the file switches off the gradients of a model's parameters, under the name it
    has at `model`."""
    names = _names(model)
    return bool(names & _all_switched_off(module)) or any(
        names & module.names_in(module.small_statement(site) or site)
        for function in _freezing(module)
        for site in call_sites(module, function)
    )


@question(ground=True)
def _all_switched_off(module: Module) -> frozenset[str]:
    """Return the words of what the statements of a file may switch the gradients off for."""
    every = module.nodes(cst.Call, cst.Assign)
    return frozenset[str]().union(*(_switched_off(module, node) for node in every))


def _switched_off(module: Module, node: cst.CSTNode) -> frozenset[str]:
    """Return the words of what a statement may switch the gradients off for."""
    match node:
        case cst.Assign(
            [cst.AssignTarget(cst.Attribute(attr=cst.Name("requires_grad"))), *_],
            cst.Name("False"),
        ):
            return _looped(module, node)
        case cst.Call(func, args) as call:
            method = func.attr.value if isinstance(func, cst.Attribute) else dotted_text(func) or ""
            off = method == "requires_grad_" and [dotted_text(a.value) for a in args[:1]] == [
                "False"
            ]
            words = module.names_in(*_named(module, call)) if off else frozenset[str]()
            if _FREEZING.search(method):
                words |= module.names_in(node)
            # ``for p in net.parameters(): p.detach_()``, as mean teachers do
            return words | _looped(module, node) if off or method == "detach_" else words
    return frozenset()


def _looped(module: Module, node: cst.CSTNode) -> frozenset[str]:
    """Return the words in what the innermost loop around a node goes over."""
    loop = next((a for a in module.ancestors(node) if isinstance(a, cst.For)), None)
    return module.names_in(loop.iter) if loop is not None else frozenset()


@question()
def _freezing(module: Module) -> list[cst.FunctionDef]:
    """Return the functions of a file that switch the gradients off for what they get or make."""
    found = []
    for loop in module.nodes(cst.For):
        function, words = module.function(loop), module.names_in(loop.iter)
        if function is None or "self" in words or not words & _GIVES or function in found:
            continue
        if any(
            (dotted_text(call.func) or "").endswith((".detach_", ".requires_grad_"))
            for call in module.within(loop.body, cst.Call)
        ) or any(
            isinstance(target := assign.targets[0].target, cst.Attribute)
            and target.attr.value == "requires_grad"
            for assign in module.within(loop.body, cst.Assign)
        ):
            found.append(function)
    return found


def _names(model: cst.CSTNode) -> set[str]:
    """Return the words by which ``self.net_g.module(x)`` may be frozen elsewhere: net_g."""
    parts = (dotted_text(model) or "").split(".")
    return {p for p in parts if p not in ("self", "cls", "module", "forward", "")}
