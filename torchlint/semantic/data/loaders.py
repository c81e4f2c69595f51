"""Data loaders: who iterates them, whether their batches go to the device, and with which settings
they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import binds_globally, sole_definition
from torchlint.semantic.code.calls import arguments_of
from torchlint.semantic.code.flow import call_sites, callees_of, reads_of
from torchlint.semantic.code.off_the_gpu import on_gpu
from torchlint.semantic.code.reaching import assigned_to
from torchlint.semantic.code.scopes import base_names, method_of
from torchlint.semantic.code.text import in_main_guard
from torchlint.semantic.code.tree import attr_of, is_name, is_zero, parameters_of, root_of
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.data.loader_flow import consumers_of, only_begun
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources, number_of
from torchlint.semantic.time.loops import has_model_call, loop_kind
from torchlint.semantic.torch.names import DATALOADER, GRAPH_LOADERS, SAMPLING_LOADERS
from torchlint.semantic.torch.spelling import HELD_OUT, called
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.definitions_behind import method, named
from torchlint.semantic.values.inferred import inferred, is_loader
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import ACCEL

if TYPE_CHECKING:
    from torchlint.semantic.code.calls import Arguments

_BRINGS = Wording(
    regex(
        r"ccelerator\.prepare(?:_data_loader)?\((?:[^()]|\([^()]*\))*?(?:oader|_dl\b|\*\w)"
        r"|\.setup_dataloaders\(|\bprepare_data_loader\("
    ),
    ("ccelerator.prepare", "setup_dataloaders(", "prepare_data_loader("),
)
"""What makes of a loader one that brings its batches to the device: Accelerate, Fabric, Ray."""


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


@question(ground=True)
def consumers(module: Module) -> dict[cst.Call, list[cst.For | cst.CompFor]]:
    """Return for each call that makes a loader the loops and comprehensions that go over it."""
    out: dict[cst.Call, list[cst.For | cst.CompFor]] = {}
    for loop in module.nodes(cst.For, cst.CompFor):
        assert isinstance(loop, (cst.For, cst.CompFor))
        for goes in loop_sources(module, loop):
            for call in built(module, goes.iterated):
                out.setdefault(call, []).append(loop)
    return out


def _fed_here(module: Module, loader: cst.Call, loops: list[cst.For | cst.CompFor]) -> str:
    """Return what a loader feeds: ``train``, ``eval``, ``other`` (a loop without a model), or
    ``unseen``."""
    kinds = {_use_of_loop(module, loop) for loop in loops}
    for kind in ("train", "eval", "unseen", "other"):
        if kind in kinds:
            return kind
    begun = only_begun(module, loader)
    if begun and not any(map(module.loops, begun)):
        return "other"
    function = module.function(loader)
    if (
        function is not None
        and function.name.value == "train_dataloader"
        and module.class_of(function) is not None
    ):
        return "train"
    return "unseen"


def _use_of_loop(module: Module, loop: cst.For | cst.CompFor) -> str:
    function = module.function(loop)
    if function is not None and module.contains(function, cst.Yield):
        return "unseen"  # ``def cycle(loader)`` hands the batches on.
    if isinstance(loop, cst.CompFor):
        holder = module.parent(loop)
        return "eval" if holder is not None and has_model_call(module, holder) else "other"
    kind = loop_kind(module, loop).name
    return {"TRAIN": "train", "EVAL": "eval"}.get(kind, "other")


@question(
    yes="the batch comes from `{answer}`",
    no="it is not known which loader makes the batch",
    circular=(),
)
def feeding_loaders(module: Module, node: cst.CSTNode) -> list[cst.Call]:
    """Return the calls that may have made the loader whose batches are at hand at `node`."""
    for loop in module.loops(node):
        if isinstance(loop, cst.For):
            for goes in loop_sources(module, loop):
                found = built(module, goes.iterated)
                if found or is_loader(module, goes.iterated):
                    return found
    function = module.function(node)
    if function is None:
        return []
    return [call for site in call_sites(module, function) for call in feeding_loaders(module, site)]


@question(
    yes="the batches go to {answer}", no="the batches of the loader are not moved to a device there"
)
def moves_batches(module: Module, node: cst.CSTNode) -> str | None:
    """Return the device to which code inside `node`, or a local function it calls, brings batches;
    None for none."""
    own = _batch_names(module, node)
    for call in module.within(node, cst.Call, nested=True):
        transfer = transfer_of(module, call)
        if transfer is not None and _may_be_batch(module, transfer.source, own):
            return transfer.device
        if _fills_device(module, call, own):
            return ACCEL
        if call.args and not any(_may_be_batch(module, arg.value, own) for arg in call.args):
            continue
        for callee in callees_of(module, call):
            found = moves_batches(module, callee)
            if found is not None:
                return found
    return None


def _may_be_batch(module: Module, node: cst.BaseExpression, names: set[str]) -> bool:
    """Say whether an expression is the batch or starts from it, or is nothing known."""
    value = inferred(module, node)
    return value.origin == "batch" or value.kind in ("?", "batch") or _root_name(node) in names


def _batch_names(module: Module, node: cst.CSTNode) -> set[str]:
    """Return the names in which a loop or a function gets a batch: its targets, what ``next``
    gives, its parameters."""
    if isinstance(node, cst.FunctionDef):
        params = parameters_of(node)
        return {param.name.value for param in params if param.name.value not in ("self", "cls")}
    found = set(module.names_in(node.target)) if isinstance(node, cst.For) else set()
    for each in module.within(node, cst.Assign):
        if module.called(each.value) == "builtins.next":
            found.update(name for target in each.targets for name in module.names_in(target.target))
    return found


def _root_name(node: cst.BaseExpression) -> str | None:
    """Return the name that an expression starts from: of ``batch["x"].float()``, batch."""
    root = root_of(node)
    return root.value if isinstance(root, cst.Name) else None


def _fills_device(module: Module, call: cst.Call, own: set[str]) -> bool:
    """Say whether a call copies a batch into a tensor that is on the accelerator:
    ``images.copy_(batch[0])``."""
    match call:
        case cst.Call(cst.Attribute(into, cst.Name("copy_")), [first, *_]):
            return _root_name(first.value) in own and on_device(module, into) is True
    return False


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


def _loads(text: str) -> bool:
    return "DataLoader(" in text


def _speaks_of_pinning(text: str) -> bool:
    return "pin_memory" in text


@question(
    yes="the project makes loaders",
    no="the project makes no loader",
    ground=True,
    remember=False,
)
def has_loaders(module: Module) -> bool:
    """Say whether any file of the project makes a loader."""
    return said_somewhere(module, _loads)


@question(
    yes="no loader of the project pins its batches",
    no="a loader that pins its batches may be what feeds this",
    ground=True,
    remember=False,
)
def nobody_pins(module: Module) -> bool:
    """Say whether the project has loaders, and no file of it speaks of pinned memory."""
    return has_loaders(module) and not said_somewhere(module, _speaks_of_pinning)


@question(
    yes="no loader of the project has workers",
    no="a loader that has workers may be what feeds this",
    ground=True,
    remember=False,
)
def nobody_works(module: Module) -> bool:
    """Say whether the project has loaders, and no file of it speaks of workers."""
    return has_loaders(module) and not said_somewhere(module, _speaks_of_workers)


def _speaks_of_workers(text: str) -> bool:
    return "workers" in text


def _brings_batches(text: str) -> bool:
    return _BRINGS.search(text) is not None and "device_placement=False" not in text


@question(
    yes="the project hands loaders to a framework that brings their batches to the device",
    no="no framework brings the batch to the device, or the loop takes a loader as it was made",
)
def brought_by_framework(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a framework may have brought the batch at hand to the device, as it does of the
    loaders that it prepares (accelerate.Accelerator: "device_placement (bool, defaults to True)")
    in any file of the project; not where a loop goes over what made the loader itself, or over what
    a function gives that prepares nothing."""
    others = module.outside.others_say(_brings_batches)
    if others is not True and not _brings_batches(module.text):
        return False
    return not any(
        isinstance(goes.iterated, cst.Name)
        and isinstance(made := sole_definition(module, goes.iterated), cst.Call)
        and (makes_loader(module, made) or _makes_unprepared(module, made))
        for loop in module.loops(node)
        if isinstance(loop, cst.For)
        for goes in loop_sources(module, loop)
    )


def _makes_unprepared(module: Module, made: cst.Call) -> bool:
    behind = definitions_behind.functions(module, made)
    return bool(behind) and not any("prepare" in where.source(each) for where, each in behind)


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


@question(
    yes="the loops bring their batches to {answer}",
    no="no loop of the file brings batches to a device",
)
def batches_go_to(module: Module) -> str | None:
    """Return the device to which a training or evaluation loop of this file brings its batches;
    None for none."""
    for loop in module.nodes(cst.For):
        if loop_kind(module, loop).name in ("TRAIN", "EVAL") and any(
            is_loader(module, goes.iterated) for goes in loop_sources(module, loop)
        ):
            found = moves_batches(module, loop)
            if found is not None:
                return found
    return None


@question(
    yes="a loop of this file goes over the loader", no="no loop of this file goes over the loader"
)
def loader_loops(module: Module, loader: cst.Call) -> list[cst.For | cst.CompFor]:
    """Return the loops and comprehensions of this file that go over the loader that a call
    makes."""
    return consumers(module).get(loader, [])


@question(
    yes="loops bring the batches of the loader to {answer}",
    no="no loop is known to bring the batches of the loader to a device",
)
def feeds_device(module: Module, loader: cst.Call) -> str | None:
    """Return the device to which a model's loop, of this file or another one of the project, brings
    the batches of the loader that a call makes."""
    for where, loop in consumers_of(module, loader):
        if loop_kind(where, loop).name in ("TRAIN", "EVAL"):
            found = moves_batches(where, loop) or _moved_elsewhere(module, where, loop, set())
            if found is not None:
                return found
    return None


def _moved_elsewhere(
    module: Module,
    where: Module,
    place: cst.For | cst.While | cst.FunctionDef,
    seen: set[cst.CSTNode],
) -> str | None:
    """Return the device to which a function of another file, or a method of an object, brings what
    a loop gives it, or a function that the loop calls."""
    seen.add(place)
    batch = _batch_names(where, place)
    for call in where.within(place.body, cst.Call):
        reached = named(where, call.func, module) if call.args else None
        given = where.names_in(*(arg.value for arg in call.args))
        if reached is None and isinstance(call.func, cst.Attribute) and given & batch:
            owner = inferred(where, call.func.value)
            reached = method(where, owner, call.func.attr.value, module)
        found = moves_batches(*reached) if reached is not None else None
        for callee in callees_of(where, call) if given & batch and found is None else ():
            if isinstance(callee, cst.FunctionDef) and callee not in seen:
                found = found or _moved_elsewhere(module, where, callee, seen)
        if found is not None:
            return found
    return None


@question(
    yes="no training loop that is known goes over the loader (its role: {answer})",
    no="its role is not known",
)
def loader_feeds(module: Module, loader: cst.Call) -> str:
    """Return what a loader feeds: ``train``, ``eval``, ``other`` (no model there), or ``unseen`` as
    far as the project shows."""
    fed = _fed_here(module, loader, loader_loops(module, loader))
    if fed != "unseen":
        return fed
    kinds = {loop_kind(where, loop).name for where, loop in consumers_of(module, loader)}
    return "train" if "TRAIN" in kinds else "eval" if "EVAL" in kinds else fed
