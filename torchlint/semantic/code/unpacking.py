"""Which loops over a loader end at their first batch: its samples have more or fewer parts than the
loop has names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import libcst as cst

from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.parsed_arguments import given_by_calls
from torchlint.semantic.code.tree import DISPLAYS, argument_for
from torchlint.semantic.module import Module
from torchlint.source.python import DEFS, walk

_LOADER = "torch.utils.data.DataLoader"
_PLAIN = frozenset(
    "dataset batch_size shuffle sampler num_workers pin_memory drop_last timeout worker_init_fn "
    "generator prefetch_factor persistent_workers pin_memory_device".split()
)
"""Arguments of a loader that leave the parts of a sample as they are."""
_BASES = frozenset(("Dataset", "data.Dataset", "torch.utils.data.Dataset", "object"))
_THROUGH = 4
"""Names through which a loader comes to its loop."""

Defined = Callable[[Module, cst.BaseExpression], ast.AST | None]


def misfit(module: Module, loop: cst.For, defined: Defined) -> str | None:
    """Return how the names of a loop do not fit the samples of the loader that it goes over; None
    where they may fit. `defined` gives the definition of what a call makes."""
    target: cst.BaseExpression = loop.target
    iterated = loop.iter
    match target, iterated:
        case (
            cst.Tuple([_, cst.Element(inner)]),
            cst.Call(cst.Name("enumerate"), [first, *_]),
        ):
            target, iterated = inner, first.value
    if not isinstance(target, DISPLAYS):
        return None
    if any(isinstance(each, cst.StarredElement) for each in target.elements):
        return None
    made = {_samples(module, each, defined) for each in _calls(module, iterated, _THROUGH)}
    sample = made.pop() if len(made) == 1 else None
    if sample is None or sample[1] == len(target.elements):
        return None
    name, width = sample
    return f"a ValueError, as samples of `{name}` have {width} parts, not {len(target.elements)}"


def _calls(module: Module, node: cst.BaseExpression, through: int) -> Iterator[cst.Call | None]:
    """Yield the calls of which one makes what an expression stands for, None for anything else."""
    value = sole_definition(module, node)
    bindings = module.names.bindings(node.value, node)[1] if isinstance(node, cst.Name) else []
    match [binding.node for binding in bindings]:
        case _ if isinstance(node, cst.Call):
            yield node
        case _ if not through:
            yield None
        case _ if value is not None:
            yield from _calls(module, value, through - 1)
        case [cst.Param() as param]:
            for each in given_by_calls(module, param) or [None]:
                yield from _calls(module, each, through - 1) if each is not None else [None]
        case _:
            yield None


def _samples(module: Module, loader: cst.Call | None, defined: Defined) -> tuple[str, int] | None:
    """Return the dataset of a loader and of how many parts each sample of it is; None for
    unknown."""
    if loader is None or module.called(loader) != _LOADER:
        return None
    words = {arg.keyword.value if arg.keyword else arg.star for arg in loader.args} - {""}
    dataset = argument_for(loader, 0, "dataset")
    sampler = loader.args[2:] and loader.args[2].keyword is None
    if not words <= _PLAIN or sampler or dataset is None:
        return None
    made = list(_calls(module, dataset, _THROUGH))
    cls = defined(module, made[0].func) if len(made) == 1 and made[0] is not None else None
    width = _width(cls) if isinstance(cls, ast.ClassDef) else None
    return (cls.name, width) if isinstance(cls, ast.ClassDef) and width is not None else None


def _width(cls: ast.ClassDef) -> int | None:
    methods = [each for each in cls.body if isinstance(each, DEFS)]
    gets = [each for each in methods if each.name == "__getitem__"]
    plain = not cls.decorator_list and all(ast.unparse(base) in _BASES for base in cls.bases)
    others = any(each.name in ("__getitems__", "__iter__") for each in methods)
    if len(gets) != 1 or gets[0].decorator_list or not plain or others:
        return None
    inner = walk(gets[0])
    if any(isinstance(each, (*DEFS, ast.Lambda, ast.Yield)) for each in inner[1:]):
        return None
    widths = {_count_of_parts(each.value) for each in inner if isinstance(each, ast.Return)}
    return widths.pop() if len(widths) == 1 else None


def _count_of_parts(node: ast.expr | None) -> int | None:
    if not isinstance(node, ast.Tuple) or any(isinstance(e, ast.Starred) for e in node.elts):
        return None
    return len(node.elts)
