"""What names and uses alone say about a value whose definition is not known."""

from __future__ import annotations

import re
from functools import cache

import libcst as cst

from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.values.value import ACCEL, UNKNOWN, Value

_LOADER = re.compile(
    r"(^|_)(data_?)?(loaders?|dl|dataloaders?|(data|train|test|val|valid|eval)_iter(ator)?)(_(train|val|valid|test|eval|trn|tst|tr|te))?\d*$|[a-z](Data)?Loader$",
    re.IGNORECASE,
)
_MODEL = re.compile(
    r"^(\w+_)?(model|net|network|generator|discriminator|critic|actor|policy|encoder|decoder|backbone|classifier|teacher|student|unet|vae|"
    r"netG|netD|net_g|net_d|model_ema)(_\w+)?$|^net_?[A-Z]\w*$|^net_\w+$"
)
_NOT_MODEL = re.compile(
    r"(name|path|dir|file|type|cfg|config|args?|kwargs|params?|id|ids|key|size|dim|dict|url|list|class|cls|version|fn|func|step|"
    r"input|inputs|output|outputs|out|loss|losses|target|device|state|score|scores|pred|preds|info|spec|s)$",
    re.IGNORECASE,
)
# ``is_peft_model(m)`` and ``unwrap_model(m)`` do something with a model, or make one: they are none.
_VERB = re.compile(
    r"^_*(is|has|can|should|use|get|set|build|create|make|init|setup|prepare|load|save|export|convert|wrap|unwrap|log|print|"
    r"plot|quantize|freeze|update|register)_"
)
_CRITERION = re.compile(
    r"^(\w+_)?(criterion|criteria|loss_fn|loss_func|loss_function|lossfn|loss_fct|crit|cri_\w+|criterion_\w+|\w+_loss_fn|loss_module|loss_layer)$",
    re.IGNORECASE,
)
_LOSS = re.compile(r"(^|_)loss(_\w+)?$|^[a-z]+_?loss$", re.IGNORECASE)
_OPTIMIZER = re.compile(r"^(\w+_)?(optim(izer)?\w*|opt|opts)$", re.IGNORECASE)
_DEVICE = re.compile(r"^(\w+_)?(device|dev)(_\w+)?$", re.IGNORECASE)
_NOT_DEVICE = re.compile(r"(count|id|ids|type|name|num|n|map|list|placement|memory|mesh|stats|index|s)$", re.IGNORECASE)
_SCALER = re.compile(r"^(\w+_)?(grad_?)?scaler$")


@cache
def is_loader_name(name: str) -> bool:
    """Say whether a name is one that people give to data loaders."""
    return bool(_LOADER.search(name))


@cache
def is_criterion_name(name: str) -> bool:
    """Say whether a name is one that people give to loss modules."""
    return bool(_CRITERION.match(name))


@cache
def is_device_name(name: str) -> bool:
    """Say whether a name is one that people give to a `torch.device`, not to an index or a count."""
    return bool(_DEVICE.match(name)) and not _NOT_DEVICE.search(name)


@cache
def is_model_name(name: str) -> bool:
    """Say whether a name is one that people give to a model."""
    return bool(_MODEL.match(name)) and not _NOT_MODEL.search(name) and not _VERB.match(name)


@cache
def by_name(name: str) -> Value:
    """Return what a bare name suggests: a loader, model, criterion, optimizer, scaler or device."""
    if is_loader_name(name):
        return Value("loader", origin="name")
    if is_criterion_name(name):
        return Value("module", origin="name", name="loss")
    if is_model_name(name):
        return Value("module", origin="name")
    if _OPTIMIZER.match(name):
        return Value("optimizer", origin="name")
    if _SCALER.match(name):
        return Value("scaler", origin="name")
    if is_device_name(name):
        return Value("device", device=ACCEL, origin="name")
    return UNKNOWN


_ANNOTATIONS = {
    "torch.Tensor": Value("tensor"),
    **{f"torch.{old}": Value("tensor", dtype=dtypes.KINDS[f"torch.{dtype}"]) for old, dtype in dtypes.LEGACY.items()},
    "torch.nn.Module": Value("module"),
    "torch.utils.data.DataLoader": Value("loader"),
    "torch.optim.Optimizer": Value("optimizer"),
    "torch.device": Value("device", device=ACCEL),
    "numpy.ndarray": Value("ndarray"),
    "builtins.int": Value("number", dtype="int"),
    "builtins.float": Value("number", dtype="float"),
    "builtins.bool": Value("bool"),
    "builtins.str": Value("str"),
}


def by_annotation(name: str | None) -> Value:
    """Return what a type annotation's dotted name says."""
    if name is None:
        return UNKNOWN
    if name.endswith((".Tensor", "jaxtyping.Float")) and (
        name.startswith(("torch", ".")) or name.endswith("kornia.core.Tensor")
    ):
        return Value("tensor")
    return _ANNOTATIONS.get(name, UNKNOWN)


def tensor_names(calls: list[cst.CSTNode], attributes: list[cst.CSTNode], trained: dict[str, bool]) -> dict[str, Value]:
    """Return the plain names on which methods or attributes are used that only tensors have.

    ``loss.backward()`` says more: a 0-dim tensor with a graph. Names in `trained` flow into such a loss: they live
    with the model, and are tensors where that is certain (True) or ``.item()`` is read from them.
    """
    out = {name: Value("tensor", origin="model") for name, certain in trained.items() if certain}
    for call in calls:
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            continue
        receiver = call.func.value
        if isinstance(receiver, cst.Name) and receiver.value != "self":
            method = call.func.attr.value
            if method == "backward" and receiver.value not in ("torch", "ctx"):
                out[receiver.value] = Value("tensor", origin="loss", grad=True)
            elif method == "item" and receiver.value in trained:
                out.setdefault(receiver.value, Value("tensor", origin="model"))
            elif method in ("item", "cpu") and _LOSS.search(receiver.value):
                out.setdefault(receiver.value, Value("tensor", origin="loss"))
            elif method in _OWN_METHODS:
                out.setdefault(receiver.value, Value("tensor"))
    for node in attributes:
        if (
            isinstance(node, cst.Attribute)
            and isinstance(node.value, cst.Name)
            and node.attr.value in ("grad_fn", "is_cuda")
        ):
            out.setdefault(node.value.value, Value("tensor"))
    return out


# Methods that arrays, strings, paths or modules have as well.
_OWN_METHODS = ops.having("own")
