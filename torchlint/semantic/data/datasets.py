"""What fetching one sample of a dataset costs, also where dataset, transform or collate function is
in another file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.calls import arguments_of, keyword_argument
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import assigned_to, definitions_of
from torchlint.semantic.code.scopes import base_names
from torchlint.semantic.code.tree import has_star, is_name, last_name, method_called, parameters_of
from torchlint.semantic.data.samples import uses_gpu
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import outside_bases
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.torch import arrays, ops
from torchlint.semantic.torch.names import DATALOADER, GRAPH_LOADERS, SAMPLING_LOADERS
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.inferred import classes_of_instance, inferred

if TYPE_CHECKING:
    from torchlint.semantic.code.tree import Function
    from torchlint.semantic.values.value import Value

_COSTLY_PACKAGES = ("torchvision.datasets.", "torchaudio.datasets.")
_WRAPPERS = frozenset(
    "torch.utils.data." + name
    for name in ("Subset", "ConcatDataset", "random_split", "dataset.Subset")
)
_ITERABLE = "torch.utils.data.IterableDataset"
_DATASET = regex(r"(^|_)(ds|data_?set)$")
_PERHAPS = ("?", "object")
_DATASETS = frozenset(
    "torch.utils.data." + name for name in ("Dataset", "dataset.Dataset", "TensorDataset")
)
_IO = regex(
    r"^(PIL\.Image\.open|cv2\.\w+|imageio\.\w+(\.\w+)?|skimage\.io\.\w+|torchvision\.io\.\w+|torchaudio\.load|librosa\.\w+|"
    r"soundfile\.\w+|builtins\.open|numpy\.(load|loadtxt|genfromtxt|fromfile)|torch\.load"
    r"|pickle\.load|json\.load|"
    r"h5py\.\w+|nibabel\.\w+|pydicom\.\w+|decord\.\w+|zarr\.\w+|pandas\.read_\w+|SimpleITK\.\w+"
    r"|tifffile\.\w+)$"
)
_WORK = regex(
    r"transform|augment|tokeni[sz]er?|encode_plus|read_image|load_image|imread|decode",
    re.IGNORECASE,
)
_DRAWS = {name.rpartition(".")[2] for name in arrays.RANDOM_NUMBERS | arrays.RANDOM.keys()}
"""Methods of the generators of Python and of NumPy, however the object is called."""
_OF_GENERATORS = _DRAWS | {"shuffle", "choice", "choices", "permutation", "permuted"}
"""Those, and what gives another order or a choice."""
_CHEAP_METHODS = ops.SAME_VALUES | ops.having("cast") | {"to", "astype", "copy", "item", "size"}


@question(
    yes="fetching a sample reads, decodes or augments",
    no="fetching a sample only indexes memory, or what it does is not known",
)
def sample_cost(module: Module, loader: cst.Call) -> bool | None:
    """Say whether fetching a sample reads files, decodes or augments (True), or only indexes memory
    (False)."""
    if module.name(loader.func) in GRAPH_LOADERS | SAMPLING_LOADERS:
        return True
    bound = arguments_of(module, loader, DATALOADER)
    dataset, collate = bound.value("dataset"), bound.value("collate_fn")
    cost = dataset_cost(module, dataset) if dataset is not None else None
    if collate is None or is_name(collate, "None") or cost is True:
        return cost
    target = inferred(module, collate).node
    work = does_work(module, target) if isinstance(target, (cst.FunctionDef, cst.Lambda)) else None
    if target is None:
        # What `does_work` says of a function elsewhere, or of an instance that is called.
        found = definitions_behind.method(
            module, inferred(module, collate), "__call__"
        ) or definitions_behind.named(module, collate)
        work = does_work(*found) if found is not None else None
    return work if work or cost is False else None


@question(
    yes="`{0}` is iterable: each worker would repeat the stream", no="`{0}` is a map-style dataset"
)
def streams_samples(module: Module, dataset: cst.BaseExpression) -> bool:
    """Say whether a dataset is made by a class derived from ``IterableDataset``, of this file or of
    the project."""
    value = inferred(module, dataset)
    if isinstance(value.node, cst.ClassDef):
        return _ITERABLE in base_names(module, value.node)
    if _ITERABLE in module.outside.bases(value):
        return True
    made = [dataset, *assigned_to(module, dataset)]
    names = [module.called(call) for call in made if isinstance(call, cst.Call)]
    return any(_ITERABLE in outside_bases(module, name) for name in names)


@question(
    yes="the loop takes the samples of a dataset one by one, without a loader",
    no="the loop iterates over no dataset itself, by what is known",
)
def takes_samples(module: Module, loop: cst.For) -> bool:
    """Say whether a loop goes over a dataset itself: its samples lie in memory that no loader
    pins."""
    return any(is_dataset_object(module, goes.iterated) for goes in loop_sources(module, loop))


@question(yes="`{0}` gives samples of a dataset", no="`{0}` is not known to be a dataset")
def holds_samples(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a dataset, or is called one and not known to be anything
    else."""
    named = _DATASET.search(last_name(node).lower()) and inferred(module, node).kind in _PERHAPS
    return bool(named) or is_dataset_object(module, node)


@question(yes="`{0}` is a dataset", no="`{0}` is not known to be a dataset")
def is_dataset_object(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a dataset: an object of such a class, or a part of one."""
    match node:
        case cst.Call(cst.Attribute(attr=cst.Name("iter"))):
            # ``table.iter(batch_size=32)`` of Hugging Face's datasets, whose memory nobody pins.
            return keyword_argument(module, node, "batch_size") is not None
    value = inferred(module, node)
    own = base_names(module, value.node) if isinstance(value.node, cst.ClassDef) else []
    if _DATASETS & {*own, *module.outside.bases(value)}:
        return True
    made = [node, *assigned_to(module, node)]
    names = [module.called(call) for call in made if isinstance(call, cst.Call)]
    return any(
        name in _WRAPPERS
        or name.startswith(_COSTLY_PACKAGES)
        or _DATASETS & {name, *outside_bases(module, name)}
        for name in names
    )


@question()
def dataset_cost(module: Module, dataset: cst.BaseExpression) -> bool | None:
    """Say whether fetching a sample of a dataset does more than index memory; None for unknown."""
    value = inferred(module, dataset)
    if value.kind in ("list", "tuple", "tensor", "ndarray", "dict"):
        return False
    if isinstance(value.node, cst.ClassDef) or classes_of_instance(module, value):
        return _class_cost(module, value, dataset)
    if isinstance(dataset, cst.Call):
        return _costs_to_make(module, dataset)
    if isinstance(dataset, cst.IfExp):
        found = {dataset_cost(module, part) for part in (dataset.body, dataset.orelse)}
    else:
        found = {dataset_cost(module, each) for each in assigned_to(module, dataset)}
        found |= {dataset_cost(where, each) for where, each in _stored_and_given(module, dataset)}
    return True if True in found else False if found == {False} else None


def _stored_and_given(
    module: Module, dataset: cst.BaseExpression
) -> Iterator[tuple[Module, cst.BaseExpression]]:
    """Yield what a function stores in a table under keys of which it takes one, or gives back as
    the part of a tuple that a name is bound to."""
    match dataset:
        case cst.Subscript(cst.Name(table)):
            for line in module.within(module.scope(dataset), cst.Assign):
                match line.targets[0].target:
                    case cst.Subscript(cst.Name(filled)) if filled == table:
                        yield module, line.value
        case cst.Name(name):
            for made in definitions_of(module, dataset):
                match made:
                    case cst.Assign(
                        [cst.AssignTarget(cst.Tuple(names))],
                        cst.Call() as call,
                    ):
                        at = next(i for i, n in enumerate(names) if is_name(n.value, name))
                        for where, function in definitions_behind.functions(module, call):
                            for out in definitions_behind.returned(where, function):
                                if isinstance(out, cst.Tuple) and at < len(out.elements):
                                    yield where, out.elements[at].value


def _costs_to_make(module: Module, call: cst.Call) -> bool | None:
    name = module.called(call)
    if name.endswith(".TensorDataset") and name.startswith("torch."):
        return False
    if name.startswith(_COSTLY_PACKAGES):
        return not name.endswith("FakeData")
    if name in _WRAPPERS and call.args:
        return dataset_cost(module, call.args[0].value)
    outs = [
        (where, out)
        for where, function in definitions_behind.functions(module, call)
        for out in definitions_behind.returned(where, function)
    ]
    found = {dataset_cost(where, out) for where, out in outs}
    return True if True in found else False if found == {False} else None


def _class_cost(module: Module, instance: Value, dataset: cst.BaseExpression) -> bool | None:
    own = base_names(module, instance.node) if isinstance(instance.node, cst.ClassDef) else []
    if any(name.startswith(_COSTLY_PACKAGES) for name in (*own, *module.outside.bases(instance))):
        return True
    found = definitions_behind.method(module, instance, "__getitem__")
    return does_work(*found, _made_without(module, instance, dataset)) if found else None


def _made_without(module: Module, instance: Value, dataset: cst.BaseExpression) -> frozenset[str]:
    """Return the attributes in which a dataset keeps None, as it is made without what they are
    for: ``self.transform``."""
    calls = [c for c in (dataset, *assigned_to(module, dataset)) if isinstance(c, cst.Call)]
    found = definitions_behind.method(module, instance, "__init__")
    if len(calls) != 1 or has_star(calls[0]) or found is None:
        return frozenset()
    where, init = found
    given = where.bind(init, calls[0])
    absent = {
        name
        for each in parameters_of(init)
        for name in [each.name.value]
        if (
            is_name(given[name], "None") or is_name(sole_definition(module, given[name]), "None")
            if name in given
            else is_name(each.default, "None")
        )
    }
    kept = (
        line for line in where.within(init.body, cst.Assign) if dotted_text(line.value) in absent
    )
    return frozenset(dotted_text(each.targets[0].target) or "" for each in kept)


@question(
    yes="the function reads files, decodes, transforms or draws for each element",
    no="the function does no such work, or it is not known",
)
def does_work(
    module: Module, function: cst.CSTNode, absent: frozenset[str] = frozenset()
) -> bool | None:
    """Say whether a function reads, decodes, tokenises or augments, where what is `absent` is None;
    None where it calls something unknown."""
    if _draws_per_element(module, function):
        return True
    unknown = False
    for call in _calls(module, function):
        if absent and any(
            needed is not module.source_of(test).endswith(" is None")
            and not absent.isdisjoint(map(dotted_text, module.within(test, cst.Attribute)))
            for test, needed in conditions_around(module, call, function)
        ):
            continue
        name = module.called(call)
        last = name.rpartition(".")[2] or (method_called(call))
        if isinstance(call.func, cst.Name):
            last = call.func.value
        if _IO.match(name) or (_WORK.search(last) and not name.startswith("builtins.")):
            return True
        callees = definitions_behind.functions(module, call)
        if callees:
            found = [does_work(where, callee) for where, callee in callees]
            if True in found:
                return True
            unknown = unknown or None in found
        elif not name.startswith(("torch.", "numpy.", "builtins.")) and last not in _CHEAP_METHODS:
            unknown = True
    return None if unknown else False


def _draws_per_element(module: Module, function: cst.CSTNode) -> bool:
    """Say whether Python grows lists in a loop that draws a random number for each element: the
    masking of tokens."""
    for loop in module.within(function, cst.For):
        calls = [*module.within(loop.body, cst.Call)]
        draws = any((method_called(call) or module.called(call)) in _DRAWS for call in calls)
        if draws and any(method_called(call) == "append" for call in calls):
            return True
    return False


@question(
    yes="a sample draws from a generator that the dataset keeps",
    no="no sample is known to draw from a generator that the dataset keeps",
)
def keeps_generator(module: Module, dataset: cst.BaseExpression) -> bool:
    """Say whether the class of a dataset draws from a generator of Python's or NumPy's that it
    keeps, ``self.rng.random()``: each worker has a copy of its own, which starts alike."""
    found = definitions_behind.method(module, inferred(module, dataset), "__getitem__")
    cls = found[0].class_of(found[1]) if found is not None else None
    if found is None or cls is None:
        return False
    for call in found[0].within(cls.body, cst.Call, nested=True):
        match call:
            case cst.Call(cst.Attribute(cst.Attribute(cst.Name("self")), method)) if (
                method.value in _OF_GENERATORS
            ):
                made = found[0].function(call)
                if made is not None and made.name.value != "__init__":
                    return True
    return False


def _calls(module: Module, function: cst.CSTNode) -> Iterator[cst.Call]:
    body = function.body if isinstance(function, (cst.FunctionDef, cst.Lambda)) else function
    yield from module.within(body, cst.Call)


@question(
    yes="the dataset or collate function puts samples on the device itself",
    no="the samples are made on the CPU",
)
def cuda_samples(module: Module, loader: cst.Call) -> bool:
    """Say whether a loader's dataset or collate function puts samples on the device itself,
    or makes them there."""
    bound = arguments_of(module, loader, DATALOADER)
    dataset, collate = bound.value("dataset"), bound.value("collate_fn")
    holders: list[tuple[Module, Function]] = []
    if dataset is not None:
        found = [
            definitions_behind.method(module, inferred(module, each), name)
            for each in _chosen_from(module, dataset)
            for name in ("__getitem__", "__iter__", "__init__")
        ]
        holders += [each for each in found if each is not None]
    if collate is not None:
        target = inferred(module, collate).node
        other = definitions_behind.named(module, collate)
        if isinstance(target, (cst.FunctionDef, cst.Lambda)):
            holders.append((module, target))
        elif other is not None:
            holders.append(other)
    for where, holder in holders:
        for call in where.within(holder, cst.Call, nested=True):
            if transfer_of(where, call) is not None or uses_gpu(where, call):
                return True
    return False


def _chosen_from(module: Module, dataset: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return a dataset, or those that the branches of a condition bind to its name."""
    made = definitions_of(module, dataset) if isinstance(dataset, cst.Name) else []
    return [each.value for each in made if isinstance(each, cst.Assign)] or [dataset]
