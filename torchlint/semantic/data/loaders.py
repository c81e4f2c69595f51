"""Data loaders: what they feed, and whether their batches go to the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.tree import parameters_of, root_of
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.data.loader_calls import makes_loader
from torchlint.semantic.data.loader_flow import consumers_of, loader_loops, only_begun
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.time.loops import has_model_call, loop_kind
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.definitions_behind import method, named
from torchlint.semantic.values.inferred import inferred, is_loader
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import ACCEL

if TYPE_CHECKING:
    pass

_BRINGS = Wording(
    regex(
        r"ccelerator\.prepare(?:_data_loader)?\((?:[^()]|\([^()]*\))*?(?:oader|_dl\b|\*\w)"
        r"|\.setup_dataloaders\(|\bprepare_data_loader\("
    ),
    ("ccelerator.prepare", "setup_dataloaders(", "prepare_data_loader("),
)
"""What makes of a loader one that brings its batches to the device: Accelerate, Fabric, Ray."""


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
