"""Calls that make loaders: which they are, which of them an expression of the same file holds, and
what they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.bindings import binds_globally, sole_definition
from torchlint.semantic.code.calls import arguments_of
from torchlint.semantic.code.flow import call_sites, reads_of
from torchlint.semantic.code.off_the_gpu import on_gpu
from torchlint.semantic.code.reaching import assigned_to
from torchlint.semantic.code.scopes import base_names, method_of
from torchlint.semantic.code.text import in_main_guard
from torchlint.semantic.code.tree import attr_of, is_name, is_zero, parameters_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import number_of
from torchlint.semantic.torch.names import DATALOADER, GRAPH_LOADERS, SAMPLING_LOADERS
from torchlint.semantic.torch.spelling import HELD_OUT, called
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.inferred import inferred

if TYPE_CHECKING:
    from torchlint.semantic.code.calls import Arguments


@question(yes="`{0}` makes a DataLoader", no="`{0}` makes no DataLoader")
def makes_loader(module: Module, call: cst.Call) -> bool:
    """Say whether a call makes a `DataLoader`, or an instance of a derived class that takes the
    same arguments."""
    if _is_torchs(module, call) or makes_itself(module, call):
        return True
    made = definitions_behind.made(module, call)
    bases = (
        base_names(module, made.node)
        if isinstance(made.node, cst.ClassDef)
        else module.outside.bases(made)
    )
    if DATALOADER not in bases:
        return False
    bound = settings(module, call)
    return bound is not None and set(bound.named.values()) <= set(call.args)


def _is_torchs(module: Module, call: cst.Call) -> bool:
    name = module.name(call.func)
    return name == DATALOADER or name in GRAPH_LOADERS or name in SAMPLING_LOADERS


def makes_itself(module: Module, call: cst.Call) -> bool:
    """Say whether a call makes what a class is that derives from `DataLoader`:
    ``super().__init__(…)``."""
    cls, name = module.class_of(call), attr_of(call.func)
    return name == "__init__" and cls is not None and _is_super(call) and derives(module, cls)


def derives(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether a class of this file derives from `DataLoader` itself."""
    return any(module.name(base.value) == DATALOADER for base in cls.bases)


def _is_super(call: cst.Call) -> bool:
    match call.func:
        case cst.Attribute(cst.Call(cst.Name("super")), cst.Name("__init__")):
            return True
    return False


@question()
def settings(module: Module, loader: cst.Call) -> Arguments | None:
    """Return what `DataLoader` is given in a call that makes a loader; None where that is not
    known.

    A class derived from it may set some of this in its own ``__init__``, and a factory in its body.
    """
    if _is_torchs(module, loader) or makes_itself(module, loader):
        return arguments_of(module, loader, DATALOADER)
    family = list(definitions_behind.classes(module, definitions_behind.made(module, loader)))
    for where, cls in family:
        init = method_of(where, cls, "__init__")
        if init is not None:
            inner = _super_init(where, init)
            if inner is not None and _hands_on(init, inner):
                kept = _leaves_settings(where, init)
                return arguments_of(module, loader, DATALOADER) if kept else None
            return arguments_of(where, inner, DATALOADER) if inner is not None else None
    if family:
        return arguments_of(module, loader, DATALOADER)
    found = [
        settings(where, call)
        for where, function in definitions_behind.functions(module, loader)
        for out in definitions_behind.returned(where, function)
        for call in built(where, out)
    ]
    return found[0] if len(found) == 1 else None


def _super_init(module: Module, init: cst.FunctionDef) -> cst.Call | None:
    return next(filter(_is_super, module.within(init.body, cst.Call)), None)


def _hands_on(init: cst.FunctionDef, inner: cst.Call) -> bool:
    """Say whether ``__init__`` takes ``*args, **kwargs`` and gives just these to its base."""
    return [arg.star for arg in inner.args] == ["*", "**"] and len(init.params.params) == 1


def _leaves_settings(module: Module, init: cst.FunctionDef) -> bool:
    """Say whether ``__init__`` does no more with its ``**kwargs`` than to give them to its base."""
    rest = init.params.star_kwarg
    names = () if rest is None else reads_of(module, init.body, rest.name.value)
    return len(names) <= 1


@question(circular=())
def built(module: Module, node: cst.BaseExpression) -> list[cst.Call]:
    """Return the calls that may have made the loader that an expression holds, also through
    parameters."""
    value = inferred(module, node)
    if value.kind == "loader" and isinstance(value.node, cst.Call):
        return [value.node]
    function = module.function(node)
    if isinstance(node, cst.Call) and node.args and module.called(node).startswith("tqdm."):
        return built(module, node.args[0].value)
    if not isinstance(node, cst.Name) or function is None:
        return []
    params = {p.name.value for p in parameters_of(function)}
    out: list[cst.Call] = []
    if node.value not in params:
        # Bound in several places, of which one makes a loader: ``loader = dataset if whole else
        # DataLoader(dataset)``.
        for each in assigned_to(module, node):
            out.extend(call for call in built(module, each) if call not in out)
        return out
    for site in call_sites(module, function):
        passed = module.bind(function, site).get(node.value)
        if passed is not None:
            out.extend(built(module, passed))
    return out


@question(yes="nothing reads the loader", no="something may read the loader")
def never_read(module: Module, loader: cst.Call) -> bool:
    """Say whether a loader is only given a name, in a function, a notebook or under the main guard,
    that nothing there reads."""
    home = module.parent(loader)
    function = module.function(loader)
    alone = function or in_main_guard(module, loader) or module.path.endswith(".ipynb")
    if not isinstance(home, cst.Assign) or not alone:
        return False
    names = [t.target.value for t in home.targets if isinstance(t.target, cst.Name)]
    scope = function or module.root
    return len(names) == len(home.targets) and not any(
        reads_of(module, scope, name) or binds_globally(module, scope, name) for name in names
    )


@question(
    yes="the loader pins its batches", no="whether the loader pins its batches is decided elsewhere"
)
def pins_memory(module: Module, loader: cst.Call) -> bool | None:
    """Say whether a loader pins its batches, True also if it does so wherever there is a GPU: False
    if absent or literally False, None if decided elsewhere."""
    bound = settings(module, loader)
    pin = bound.value("pin_memory") if bound is not None else None
    if bound is None:
        return None
    if pin is None:
        return None if bound.open else False
    if is_name(pin, "True") or is_name(pin, "False"):
        return is_name(pin, "True")
    return True if on_gpu(module, sole_definition(module, pin) or pin) else None


@question(
    yes="the loader has no workers",
    no="the loader has workers, or how many it has is decided elsewhere",
)
def works_alone(module: Module, loader: cst.Call) -> bool:
    """Say whether a loader makes its batches in the process that asks for them: its number of
    workers is 0, the default, as far as it is given or by all calls of its function."""
    bound = settings(module, loader)
    workers = bound.value("num_workers") if bound is not None else None
    if bound is None or workers is None:
        return bound is not None and not bound.open
    # What a factory gives stands in another file, maybe.
    own = any(arg.value is workers for arg in loader.args)
    return _is_zero(module, workers) if own else is_zero(workers)


@question()
def _is_zero(module: Module, node: cst.BaseExpression) -> bool:
    if number_of(module, node) == 0:
        return True
    function = module.function(node)
    if not isinstance(node, cst.Name) or function is None:
        return False
    _, bindings = module.names.bindings(node.value, node)
    param = bindings[0].node if len(bindings) == 1 else None
    if not isinstance(param, cst.Param) or module.function(param) is not function:
        return False
    sites = call_sites(module, function)
    given = [module.bind(function, site).get(node.value, param.default) for site in sites]
    starred = any(arg.star for site in sites for arg in site.args)
    return (
        bool(given)
        and not starred
        and all(each is not None and _is_zero(module, each) for each in given)
    )


@question(
    yes="the loader's dataset is called one for evaluation",
    no="the loader's dataset is not called one for evaluation",
)
def held_out(module: Module, loader: cst.Call) -> bool:
    """Say whether a loader gives unshuffled data that its code calls data for validation or
    tests."""
    bound = settings(module, loader)
    dataset = bound.value("dataset") if bound is not None else None
    if bound is None or dataset is None:
        return False
    shuffle = bound.value("shuffle")
    mixed = shuffle is not None and not is_name(shuffle, "False")
    words = module.names_in(dataset)
    return not mixed and any(called(word, HELD_OUT) for word in words)
