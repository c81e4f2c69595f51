"""Code that makes samples and batches inside of a loader, and what stays the same from one run of
it to the next."""

from __future__ import annotations

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.calls import arguments_of, keyword_argument
from torchlint.semantic.code.flow import call_sites, writes_of
from torchlint.semantic.code.names import Binding, dotted_text, last_part
from torchlint.semantic.code.scopes import method_of
from torchlint.semantic.code.tree import attr_of, components, is_name, method_called
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import number_of
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.names import DATALOADER
from torchlint.semantic.torch.spelling import COLLATE, called
from torchlint.semantic.values.classes import is_dataset
from torchlint.semantic.values.inferred import inferred, is_model_call
from torchlint.semantic.values.place import named_device, on_device
from torchlint.semantic.values.value import ACCEL, CUDA

# Calls that give the same for the same arguments, and read nothing that may change.
_PURE = regex(
    r"^(os\.path\.\w+|pathlib\.\w*Path|os\.fspath|builtins\.(str|int|float|len|list|tuple|dict|range|min|max|bool)|torch\.device|"
    r"os\.getcwd"
    r"|torch\.utils\.data\.(TensorDataset|ConcatDataset|RandomSampler|SequentialSampler))$"
)
_PURE_METHODS = frozenset(
    "joinpath format replace strip lower upper removesuffix with_suffix absolute resolve".split()
)


def _own_unit(module: Module, function: cst.FunctionDef) -> str | None:
    name, cls = function.name.value, module.class_of(function)
    if cls is not None and is_dataset(module, cls):
        if name in ("__getitem__", "__getitems__"):
            return "sample"
        return "stream" if name == "__iter__" else None
    collates = called(name, COLLATE) or (
        cls is not None and name == "__call__" and called(cls.name.value, COLLATE)
    )
    if collates and (_takes_one(function) or name.endswith(("collate", "_fn", "__call__"))):
        return "batch"
    return "batch" if name in collate_functions(module) else None


def _takes_one(function: cst.FunctionDef) -> bool:
    """Say whether a function can be called with the samples of a batch alone, as a loader does; one
    that needs more is often wrapped, but then called ``collate_fn``, not ``collate_boxes``."""
    params = function.params
    needed = [each for each in params.params if each.default is None and each.name.value != "self"]
    return len(needed) <= 1 and all(each.default is not None for each in params.kwonly_params)


@question()
def collate_functions(module: Module) -> set[str]:
    """Return the last names of what the file passes or assigns as a loader's ``collate_fn``."""
    given: list[cst.CSTNode | None] = []
    for call in module.nodes(cst.Call):
        by_name = keyword_argument(module, call, "collate_fn")
        positional = module.name(call.func) == DATALOADER
        given.append(
            arguments_of(module, call, DATALOADER).value("collate_fn") if positional else by_name
        )
    for assign in module.nodes(cst.Assign):
        for target in assign.targets:
            if attr_of(target.target) == "collate_fn":
                given.append(assign.value)
    out = {last_part(each) for each in given}
    return out - {""}


# -- what does not change --------------------------------------------------------------------------


def _changes(module: Module, attribute: cst.CSTNode, scope: cst.CSTNode) -> bool:
    """Say whether an attribute is assigned in `scope`, or, of a function's ``self``, by any method
    but ``__init__``."""
    text = dotted_text(attribute)
    if text is None:
        return False
    cls = (
        module.class_of(scope)
        if text.startswith("self.") and isinstance(scope, cst.FunctionDef)
        else None
    )
    for target in module.within(
        cls or scope, cst.AssignTarget, cst.AugAssign, cst.AnnAssign, nested=True
    ):
        assert isinstance(target, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign))
        for each in module.within(target.target, cst.Attribute):
            if dotted_text(each) == text:
                function = module.function(target)
                if (
                    module.is_within(target, scope)
                    or function is None
                    or function.name.value != "__init__"
                ):
                    return True
    return False


def _fixed_name(module: Module, name: cst.Name, scope: cst.CSTNode) -> bool:
    if name.value in ("self", "cls", "True", "False", "None"):
        return True
    writes = writes_of(module, scope, name.value)
    if not writes:
        return True
    if len(writes) > 1:
        return False
    statement = module.small_statement(writes[0])
    value = statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None
    plain = isinstance(module.parent(writes[0]), (cst.AssignTarget, cst.AnnAssign))
    return value is not None and plain and is_fixed(module, value, scope)


# -- on the GPU ------------------------------------------------------------------------------------


@question(yes="`{0}` uses the GPU", no="`{0}` is not known to use the GPU")
def uses_gpu(module: Module, node: cst.Call) -> bool:
    """Say whether a call moves to, creates on or computes on a GPU."""
    moved, name = transfer_of(module, node), module.name(node.func)
    if moved is not None:
        return _cuda(module, moved.device, moved.target)
    if name in ops.FACTORIES or name in ops.DATA_FACTORIES:
        target = keyword_argument(module, node, "device")
        return _cuda(module, named_device(module, target), target)
    return is_model_call(module, node) and inferred(module, node).device == CUDA


def _cuda(module: Module, device: str | None, target: cst.BaseExpression | None) -> bool:
    """Say whether a device is CUDA: by itself, or as the class or else the file that chooses it
    names CUDA."""
    if device != ACCEL:
        return device == CUDA
    chooser: cst.CSTNode | None = None
    match target:
        case cst.Attribute(cst.Name("self"), cst.Name(name)):
            chooser = module.class_of(target)
            given = method_of(module, chooser, name) if isinstance(chooser, cst.ClassDef) else None
            lines = module.within(given.body, cst.Return) if given is not None else ()
            if any(line.value is not None and _of_tensor(line.value) for line in lines):
                return False
        case cst.Attribute():  # A tensor's own device, or one that the caller chooses.
            return False
        case cst.Name():
            _, bindings = module.names.bindings(target.value, target)
            if any(map(_of_samples, bindings)):
                return False
    return "cuda" in module.source(chooser or module.root)


def _of_samples(bound: Binding) -> bool:
    """Say whether a device is that of a tensor, or is left to the caller, who may give none."""
    match bound:
        case Binding(node=cst.Param(default=cst.Name("None"))):
            return True
    return isinstance(bound.value, cst.BaseExpression) and _of_tensor(bound.value)


def _of_tensor(device: cst.BaseExpression) -> bool:
    """Say whether an expression is the device of data, on whichever they lie, in one case at
    least."""
    return any(
        isinstance(each, cst.Attribute)
        and each.attr.value == "device"
        and not is_name(each.value, "self")
        for each in components(device, cst.IfExp)
    )


@question(
    yes="the samples are made on the GPU, out of nothing that lies on the host",
    no="the samples are not known to be made on the GPU alone",
)
def made_on_gpu(module: Module, node: cst.CSTNode) -> bool:
    """Say whether the dataset around `node` makes tensors on the GPU, and neither moves anything
    there nor takes anything out of what it keeps."""
    cls = module.class_of(node)
    if cls is None:
        return False
    calls = [call for call in module.within(cls, cst.Call, nested=True) if uses_gpu(module, call)]
    names = [module.name(call.func) for call in calls]
    kept = (
        part.value
        for part in module.within(cls, cst.Subscript, nested=True)
        if isinstance(part.value, cst.Attribute)
    )
    return (
        any(name in ops.FACTORIES for name in names)
        and not any(name in ops.DATA_FACTORIES for name in names)
        and not any(transfer_of(module, call) for call in calls)
        and all(on_device(module, holder) for holder in kept)
    )


# -- loaders ---------------------------------------------------------------------------------------


@question(
    yes="a loader iterates over the dataset", no="no loader of this file iterates over the dataset"
)
def loaders_of(module: Module, cls: cst.ClassDef) -> list[cst.Call]:
    """Return the calls of this file that make a loader over a dataset of a class."""
    out = []
    for call in module.nodes(cst.Call):
        if module.name(call.func) == DATALOADER:
            dataset = arguments_of(module, call, DATALOADER).value("dataset")
            if dataset is not None and inferred(module, dataset).node is cls:
                out.append(call)
    return out


@question(yes="the loader has {answer} workers", no="the number of workers is not a literal")
def worker_count(module: Module, loader: cst.Call) -> int | None:
    """Return how many worker processes a loader starts where the source says it in literals, else
    None."""
    bound = arguments_of(module, loader, DATALOADER)
    given = bound.value("num_workers")
    if given is None:
        return None if bound.open else 0
    return number_of(module, given)


@question(
    yes="the loader `{answer}` runs this code",
    no="no loader of this file runs this code in workers",
)
def loaders_running(module: Module, node: cst.CSTNode) -> list[cst.Call]:
    """Return the loaders of this file whose workers run the sample or batch code around `node`."""
    function = module.function(node)
    cls = module.class_of(node)
    out = loaders_of(module, cls) if cls is not None else []
    for call in module.nodes(cst.Call) if function is not None else ():
        if module.name(call.func) == DATALOADER and function is not None:
            collate = arguments_of(module, call, DATALOADER).value("collate_fn")
            if last_part(collate) == function.name.value:
                out.append(call)
    return out


@question(
    yes="the code makes a {answer} inside of a loader",
    no="the code does not run inside of a loader",
)
def loader_unit(module: Module, node: cst.CSTNode) -> str | None:
    """Return what the code around `node` makes inside of a loader: ``sample``, ``stream``,
    ``batch``, or None.

    A helper makes what its callers do, where all of them make the same.
    """
    function = module.function(node)
    if function is None:
        return None
    own = _own_unit(module, function)
    if own is not None:
        return own
    found = {
        loader_unit(module, site)
        for site in call_sites(module, function)
        if module.function(site) is not function
    }
    return found.pop() if len(found) == 1 else None


@question(yes="`{0}` is the same every time", no="`{0}` may differ from one time to the next")
def is_fixed(module: Module, node: cst.CSTNode, scope: cst.CSTNode) -> bool:
    """Say whether an expression gives the same in every run of `scope`, a function or the body of a
    loop.

    It is made of literals, of names and attributes that `scope` does not bind, and of calls that
    only compute. Of a method, what the class assigns to ``self`` outside of ``__init__`` counts as
    changing.
    """
    for call in module.within(node, cst.Call, nested=True):
        name = module.called(call)
        method = method_called(call)
        if not _PURE.match(name) and method not in _PURE_METHODS:
            return False
    if module.contains(node, cst.Await, cst.Yield, cst.NamedExpr, cst.Lambda, cst.ListComp):
        return False
    for attribute in module.within(node, cst.Attribute):
        if _changes(module, attribute, scope):
            return False
    return all(
        _fixed_name(module, name, scope)
        for name in module.within(node, cst.Name)
        if not module.is_label(name)
    )
