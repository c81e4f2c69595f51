"""Data loaders: who iterates them, whether their batches go to the device, and what one sample costs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.values.params import bind

if TYPE_CHECKING:
    from torchlint.semantic.module import Module

DATALOADER = "torch.utils.data.DataLoader"
_DEPTH = 3
_COSTLY_PACKAGES = ("torchvision.datasets.", "torchaudio.datasets.")
_SPLIT = "torch.utils.data.random_split"
_WRAPPERS = frozenset(
    "torch.utils.data." + name for name in ("Subset", "ConcatDataset", "random_split", "dataset.Subset")
)
_ITERABLE = "torch.utils.data.IterableDataset"
_IO = re.compile(
    r"^(PIL\.Image\.open|cv2\.\w+|imageio\.\w+(\.\w+)?|skimage\.io\.\w+|torchvision\.io\.\w+|torchaudio\.load|librosa\.\w+|"
    r"soundfile\.\w+|builtins\.open|numpy\.(load|loadtxt|genfromtxt|fromfile)|torch\.load|pickle\.load|json\.load|"
    r"h5py\.\w+|nibabel\.\w+|pydicom\.\w+|decord\.\w+|zarr\.\w+|pandas\.read_\w+|SimpleITK\.\w+|tifffile\.\w+)$"
)
_WORK = re.compile(r"transform|augment|tokeni[sz]er?|encode_plus|read_image|load_image|imread|decode", re.IGNORECASE)
_CHEAP_METHODS = frozenset(
    "long float int bool half to clone detach astype copy item size unsqueeze squeeze view".split()
)


def built(module: Module, node: cst.BaseExpression, depth: int = _DEPTH) -> list[cst.Call]:
    """Return the calls that may have made the loader that an expression holds, also through parameters."""
    value = module.value(node)
    if value.kind == "loader" and isinstance(value.node, cst.Call):
        return [value.node]
    function = module.function(node)
    if isinstance(node, cst.Call) and node.args and (module.name(node.func) or "").startswith("tqdm."):
        return built(module, node.args[0].value, depth)
    if not isinstance(node, cst.Name) or function is None or depth == 0:
        return []
    params = {p.name.value for p in (*function.params.params, *function.params.kwonly_params)}
    out: list[cst.Call] = []
    if node.value not in params:
        # Bound in several places, of which one makes a loader: ``loader = dataset if whole else DataLoader(dataset)``.
        for each in assigned(module, node):
            out.extend(call for call in built(module, each, depth - 1) if call not in out)
        return out
    for site in module.call_sites(function):
        passed = bind(function, site, module.class_of(function) is not None).get(node.value)
        if passed is not None:
            out.extend(built(module, passed, depth - 1))
    return out


def consumers(module: Module) -> dict[cst.Call, list[cst.For | cst.CompFor]]:
    """Return for each call that makes a loader the loops and comprehensions that go over it."""
    out: dict[cst.Call, list[cst.For | cst.CompFor]] = {}
    for loop in module.nodes(cst.For, cst.CompFor):
        assert isinstance(loop, (cst.For, cst.CompFor))
        for goes in module.over(loop):
            for call in built(module, goes.iterated):
                out.setdefault(call, []).append(loop)
    return out


def role(module: Module, loader: cst.Call, loops: list[cst.For | cst.CompFor]) -> str:
    """Return what a loader feeds: ``train``, ``eval``, ``other`` (a loop without a model), or ``unseen``."""
    kinds = {_kind(module, loop) for loop in loops}
    for kind in ("train", "eval", "unseen", "other"):
        if kind in kinds:
            return kind
    function = module.function(loader)
    if function is not None and function.name.value == "train_dataloader" and module.class_of(function) is not None:
        return "train"
    return "unseen"


def _kind(module: Module, loop: cst.For | cst.CompFor) -> str:
    function = module.function(loop)
    if function is not None and any(True for _ in module.within(function, cst.Yield)):
        return "unseen"  # ``def cycle(loader)`` hands the batches on.
    if isinstance(loop, cst.CompFor):
        holder = module.parent(loop)
        return "eval" if holder is not None and module.has_model_call(holder) else "other"
    kind = module.loop_kind(loop).name
    return {"TRAIN": "train", "EVAL": "eval"}.get(kind, "other")


def feeding(module: Module, node: cst.CSTNode, depth: int = _DEPTH) -> list[cst.Call]:
    """Return the calls that may have made the loader whose batches are at hand at `node`."""
    for loop in module.loops(node):
        if isinstance(loop, cst.For):
            for goes in module.over(loop):
                found = built(module, goes.iterated)
                if found or module.is_loader(goes.iterated):
                    return found
    function = module.function(node)
    if function is None or depth == 0:
        return []
    return [call for site in module.call_sites(function) for call in feeding(module, site, depth - 1)]


def moves(module: Module, node: cst.CSTNode, depth: int = 2) -> str | None:
    """Return the device to which code inside `node`, or a local function it calls, brings batches; None for none."""
    for call in module.within(node, cst.Call, nested=True):
        assert isinstance(call, cst.Call)
        transfer = module.transfer(call)
        if transfer is not None and (
            module.value(transfer.source).origin == "batch" or module.value(transfer.source).kind in ("?", "batch")
        ):
            return transfer.device
        for callee in module.callees(call) if depth else ():
            found = moves(module, callee, depth - 1)
            if found is not None:
                return found
    return None


def pins(module: Module, loader: cst.Call) -> bool | None:
    """Say whether a loader pins its batches: False if absent or literally False, None if decided elsewhere."""
    bound = module.arguments(loader, DATALOADER)
    pin = bound.value("pin_memory")
    if pin is None:
        return None if bound.open else False
    return {"True": True, "False": False}.get(pin.value) if isinstance(pin, cst.Name) else None


def batches_go_to(module: Module) -> str | None:
    """Return the device to which a training or evaluation loop of this file brings its batches; None for none."""
    for loop in module.nodes(cst.For):
        assert isinstance(loop, cst.For)
        if module.loop_kind(loop).name in ("TRAIN", "EVAL") and any(
            module.is_loader(goes.iterated) for goes in module.over(loop)
        ):
            found = moves(module, loop)
            if found is not None:
                return found
    return None


# -- samples --------------------------------------------------------------------------------------------------------


def sample_cost(module: Module, loader: cst.Call) -> bool | None:
    """Say whether fetching a sample reads files, decodes or augments (True), or only indexes memory (False)."""
    bound = module.arguments(loader, DATALOADER)
    dataset, collate = bound.value("dataset"), bound.value("collate_fn")
    cost = _dataset_cost(module, dataset, _DEPTH) if dataset is not None else None
    if collate is None or cost is True:
        return cost
    target = module.value(collate).node
    work = _work(module, target, _DEPTH) if isinstance(target, (cst.FunctionDef, cst.Lambda)) else None
    return work if work or cost is False else None


def dataset_cost(module: Module, dataset: cst.BaseExpression) -> bool | None:
    """Say whether fetching a sample of a dataset does more than index memory; None for unknown."""
    return _dataset_cost(module, dataset, _DEPTH)


def streams(module: Module, dataset: cst.BaseExpression) -> bool:
    """Say whether a dataset is made by a class derived from ``IterableDataset``, of this file or of the project."""
    cls = module.value(dataset).node
    if isinstance(cls, cst.ClassDef):
        return _ITERABLE in module.base_names(cls)
    made = [dataset, *assigned(module, dataset)]
    names = [module.name(call.func) or "" for call in made if isinstance(call, cst.Call)]
    return any(_ITERABLE in module.bases_behind(name) for name in names)


def work(module: Module, function: cst.CSTNode) -> bool | None:
    """Say whether a function reads, decodes, tokenises or augments; None where it calls something unknown."""
    return _work(module, function, _DEPTH)


def _dataset_cost(module: Module, dataset: cst.BaseExpression, depth: int) -> bool | None:
    value = module.value(dataset)
    if value.kind in ("list", "tuple", "tensor", "ndarray", "dict"):
        return False
    if isinstance(value.node, cst.ClassDef):
        return _class_cost(module, value.node, depth)
    if isinstance(dataset, cst.Call):
        return _made(module, dataset, depth)
    if isinstance(dataset, cst.IfExp):
        found = {_dataset_cost(module, part, depth) for part in (dataset.body, dataset.orelse)}
    else:
        found = {_dataset_cost(module, each, depth - 1) for each in assigned(module, dataset)} if depth else set()
    return True if True in found else False if found == {False} else None


def _made(module: Module, call: cst.Call, depth: int) -> bool | None:
    name = module.name(call.func) or ""
    if name.endswith(".TensorDataset") and name.startswith("torch."):
        return False
    if name.startswith(_COSTLY_PACKAGES):
        return not name.endswith("FakeData")
    if name in _WRAPPERS and call.args and depth:
        return _dataset_cost(module, call.args[0].value, depth - 1)
    cls = module.local_class(call.func)
    return _class_cost(module, cls, depth) if cls is not None else None


def _class_cost(module: Module, cls: cst.ClassDef, depth: int) -> bool | None:
    if any(name.startswith(_COSTLY_PACKAGES) for name in module.base_names(cls)):
        return True
    getitem = module.method(cls, "__getitem__")
    return _work(module, getitem, depth) if getitem is not None else None


def assigned(module: Module, place: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return what a function assigns to a plain name, or a class to an attribute of ``self``."""
    scope: cst.CSTNode = module.function(place) or module.root
    if isinstance(place, cst.Attribute):
        scope = module.class_of(place) or scope
    elif not isinstance(place, cst.Name):
        return []
    out = []
    for assign in module.within(scope, cst.Assign, nested=True):
        assert isinstance(assign, cst.Assign)
        if any(target.target.deep_equals(place) for target in assign.targets):
            out.append(assign.value)
        elif isinstance(assign.value, cst.Call) and module.name(assign.value.func) == _SPLIT:
            # ``train, rest = random_split(whole, sizes)``: each part is like the whole.
            parts = [e.value for t in assign.targets if isinstance(t.target, cst.Tuple) for e in t.target.elements]
            whole = assign.value.args[0].value if assign.value.args else place
            out.extend(assign.value for part in parts if part.deep_equals(place) and not whole.deep_equals(place))
    return out


def _work(module: Module, function: cst.CSTNode, depth: int) -> bool | None:
    """Say whether a function does more than index; None where it calls something unknown."""
    unknown = False
    for call in _calls(module, function):
        name = module.name(call.func) or ""
        last = name.rpartition(".")[2] or (call.func.attr.value if isinstance(call.func, cst.Attribute) else "")
        if isinstance(call.func, cst.Name):
            last = call.func.value
        if _IO.match(name) or (_WORK.search(last) and not name.startswith("builtins.")):
            return True
        callees = module.callees(call)
        if callees and depth:
            found = [_work(module, callee, depth - 1) for callee in callees]
            if True in found:
                return True
            unknown = unknown or None in found
        elif not name.startswith(("torch.", "numpy.", "builtins.")) and last not in _CHEAP_METHODS:
            unknown = True
    return None if unknown else False


def _calls(module: Module, function: cst.CSTNode) -> Iterator[cst.Call]:
    body = function.body if isinstance(function, (cst.FunctionDef, cst.Lambda)) else function
    for call in module.within(body, cst.Call):
        assert isinstance(call, cst.Call)
        yield call


def cuda_samples(module: Module, loader: cst.Call) -> bool:
    """Say whether a loader's dataset or collate function puts samples on the device itself."""
    bound = module.arguments(loader, DATALOADER)
    dataset, collate = bound.value("dataset"), bound.value("collate_fn")
    holders: list[cst.CSTNode] = []
    if dataset is not None and isinstance(module.value(dataset).node, cst.ClassDef):
        cls = module.value(dataset).node
        assert isinstance(cls, cst.ClassDef)
        holders += [m for m in (module.method(cls, n) for n in ("__getitem__", "__init__")) if m is not None]
    if collate is not None:
        target = module.value(collate).node
        holders += [target] if isinstance(target, (cst.FunctionDef, cst.Lambda)) else []
    for holder in holders:
        for call in module.within(holder, cst.Call, nested=True):
            if isinstance(call, cst.Call) and module.transfer(call) is not None:
                return True
    return False
