"""Code that makes samples and batches inside of a loader, and what stays the same from one run of it to the next."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.data import arrays, datasets
from torchlint.semantic.data.datasets import DATALOADER
from torchlint.semantic.part import Part

if TYPE_CHECKING:
    from torchlint.semantic.module import Module

_COLLATE = re.compile(r"(^|_)collat(e|or)(_|$|fn)|Collat(e|or)\w*$", re.IGNORECASE)
_DEPTH = 3
# Calls that give the same for the same arguments, and read nothing that may change.
_PURE = re.compile(
    r"^(os\.path\.\w+|pathlib\.\w*Path|os\.fspath|builtins\.(str|int|float|len|list|tuple|dict|range|min|max|bool)|torch\.device|"
    r"os\.getcwd|torch\.utils\.data\.(TensorDataset|ConcatDataset|RandomSampler|SequentialSampler))$"
)
_PURE_METHODS = frozenset("joinpath format replace strip lower upper removesuffix with_suffix absolute resolve".split())


def sample_role(module: Module, node: cst.CSTNode, depth: int = _DEPTH) -> str | None:
    """Return what the code around `node` makes inside of a loader: ``sample``, ``stream``, ``batch``, or None.

    A helper has the role of its callers, where all of them have the same.
    """
    function = module.function(node)
    if function is None:
        return None
    own = _own_role(module, function)
    if own is not None or depth == 0:
        return own
    found = {
        sample_role(module, site, depth - 1)
        for site in module.call_sites(function)
        if module.function(site) is not function
    }
    return found.pop() if len(found) == 1 else None


def _own_role(module: Module, function: cst.FunctionDef) -> str | None:
    name, cls = function.name.value, module.class_of(function)
    if cls is not None and module.is_dataset(cls):
        if name in ("__getitem__", "__getitems__"):
            return "sample"
        return "stream" if name == "__iter__" else None
    if _COLLATE.search(name) or (cls is not None and name == "__call__" and _COLLATE.search(cls.name.value)):
        return "batch"
    return "batch" if name in module.collate_functions else None


def collate_functions(module: Module) -> set[str]:
    """Return the last names of what the file passes or assigns as a loader's ``collate_fn``."""
    given: list[cst.CSTNode | None] = []
    for call in module.nodes(cst.Call):
        assert isinstance(call, cst.Call)
        by_name = module.keyword(call, "collate_fn")
        positional = module.name(call.func) == DATALOADER
        given.append(module.arguments(call, DATALOADER).value("collate_fn") if positional else by_name)
    for assign in module.nodes(cst.Assign):
        assert isinstance(assign, cst.Assign)
        for target in assign.targets:
            if isinstance(target.target, cst.Attribute) and target.target.attr.value == "collate_fn":
                given.append(assign.value)
    out = {(dotted_text(each) or "").rpartition(".")[2] for each in given}
    return out - {""}


# -- what does not change -------------------------------------------------------------------------------------------


def fixed(module: Module, node: cst.CSTNode, scope: cst.CSTNode, depth: int = _DEPTH) -> bool:
    """Say whether an expression gives the same in every run of `scope`, a function or the body of a loop.

    It is made of literals, of names and attributes that `scope` does not bind, and of calls that only compute. Of a
    method, what the class assigns to ``self`` outside of ``__init__`` counts as changing.
    """
    for call in module.within(node, cst.Call, nested=True):
        assert isinstance(call, cst.Call)
        name = module.name(call.func) or ""
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if not _PURE.match(name) and method not in _PURE_METHODS:
            return False
    if any(True for _ in module.within(node, cst.Await, cst.Yield, cst.NamedExpr, cst.Lambda, cst.ListComp)):
        return False
    for attribute in module.within(node, cst.Attribute):
        if _changes(module, attribute, scope):
            return False
    return all(
        _fixed_name(module, name, scope, depth)
        for name in module.within(node, cst.Name)
        if isinstance(name, cst.Name) and not _is_label(module, name)
    )


def _is_label(module: Module, name: cst.Name) -> bool:
    above = module.parent(name)
    return (isinstance(above, cst.Attribute) and above.attr is name) or (
        isinstance(above, cst.Arg) and above.keyword is name
    )


def _changes(module: Module, attribute: cst.CSTNode, scope: cst.CSTNode) -> bool:
    """Say whether an attribute is assigned in `scope`, or, of a function's ``self``, by any method but ``__init__``."""
    text = dotted_text(attribute)
    if text is None:
        return False
    cls = module.class_of(scope) if text.startswith("self.") and isinstance(scope, cst.FunctionDef) else None
    for target in module.within(cls or scope, cst.AssignTarget, cst.AugAssign, cst.AnnAssign, nested=True):
        assert isinstance(target, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign))
        for each in module.within(target.target, cst.Attribute):
            if dotted_text(each) == text:
                function = module.function(target)
                if module.is_within(target, scope) or function is None or function.name.value != "__init__":
                    return True
    return False


def _fixed_name(module: Module, name: cst.Name, scope: cst.CSTNode, depth: int) -> bool:
    if name.value in ("self", "cls", "True", "False", "None"):
        return True
    writes = module.writes(scope, name.value)
    if not writes:
        return True
    if len(writes) > 1 or depth == 0:
        return False
    statement = module.small_statement(writes[0])
    value = statement.value if isinstance(statement, (cst.Assign, cst.AnnAssign)) else None
    plain = isinstance(module.parent(writes[0]), (cst.AssignTarget, cst.AnnAssign))
    return value is not None and plain and fixed(module, value, scope, depth - 1)


# -- loaders --------------------------------------------------------------------------------------------------------


def loaders_of(module: Module, cls: cst.ClassDef) -> list[cst.Call]:
    """Return the calls of this file that make a loader over a dataset of a class."""
    out = []
    for call in module.nodes(cst.Call):
        assert isinstance(call, cst.Call)
        if module.name(call.func) == DATALOADER:
            dataset = module.arguments(call, DATALOADER).value("dataset")
            if dataset is not None and module.value(dataset).node is cls:
                out.append(call)
    return out


def workers(module: Module, loader: cst.Call) -> int | None:
    """Return how many worker processes a loader starts where the source says it in literals, else None."""
    bound = module.arguments(loader, DATALOADER)
    given = bound.value("num_workers")
    if given is None:
        return None if bound.open else 0
    return module.number(given)


def loaders_running(module: Module, node: cst.CSTNode) -> list[cst.Call]:
    """Return the loaders of this file whose workers run the sample or batch code around `node`."""
    function = module.function(node)
    cls = module.class_of(node)
    out = loaders_of(module, cls) if cls is not None else []
    for call in module.nodes(cst.Call) if function is not None else ():
        assert isinstance(call, cst.Call)
        if module.name(call.func) == DATALOADER and function is not None:
            collate = dotted_text(module.arguments(call, DATALOADER).value("collate_fn")) or ""
            if collate.rpartition(".")[2] == function.name.value:
                out.append(call)
    return out


class Samples(Part):
    """The part of `Module` that knows the code that makes samples and batches, and the arrays they come from."""

    _collates: set[str] | None = None

    @property
    def collate_functions(self) -> set[str]:
        """The last names of what this file passes or assigns as a loader's ``collate_fn``."""
        if self._collates is None:
            self._collates = collate_functions(self._module)
        return self._collates

    def sample_role(self, node: cst.CSTNode) -> str | None:
        """Return what the code around `node` makes inside of a loader: ``sample``, ``stream``, ``batch``, or None."""
        return sample_role(self._module, node)

    def is_dataset(self, cls: cst.ClassDef) -> bool:
        """Say whether a class is a dataset."""
        return self._module._scopes.is_dataset(cls)

    def number(self, node: cst.CSTNode | None) -> int | None:
        """Return the whole number that an expression spells, also through one assignment."""
        return self._module._iterations.number(node)

    def fixed(self, node: cst.CSTNode, scope: cst.CSTNode) -> bool:
        """Say whether an expression gives the same in every run of `scope`, a function or a loop."""
        return fixed(self._module, node, scope)

    def loaders_of(self, cls: cst.ClassDef) -> list[cst.Call]:
        """Return the calls of this file that make a loader over a dataset of a class."""
        return loaders_of(self._module, cls)

    def loaders_running(self, node: cst.CSTNode) -> list[cst.Call]:
        """Return the loaders of this file whose workers run the sample or batch code around `node`."""
        return loaders_running(self._module, node)

    def workers(self, loader: cst.Call) -> int | None:
        """Return how many worker processes a loader starts where the source says it in literals, else None."""
        return workers(self._module, loader)

    def works(self, function: cst.FunctionDef) -> bool | None:
        """Say whether a function reads files, decodes or transforms; None where it calls something unknown."""
        return datasets.work(self._module, function)

    def is_array(self, node: cst.CSTNode) -> bool:
        """Say whether an expression is an ndarray of one or more dimensions."""
        return arrays.is_array(self._module, node)

    def arrays(self, node: cst.CSTNode) -> list[cst.BaseExpression]:
        """Return the expressions that give the elements of a list, where all are arrays; else nothing."""
        return arrays.arrays(self._module, node)

    def array_dtype(self, node: cst.BaseExpression) -> str | None:
        """Return the dtype of a new array where its call names it, or NumPy's default of float64 holds."""
        return arrays.array_dtype(self._module, node)

    def joined_afresh(self, node: cst.BaseExpression) -> bool:
        """Say whether an expression is an array just joined from others, which nothing else holds."""
        return arrays.joined_afresh(self._module, node)
