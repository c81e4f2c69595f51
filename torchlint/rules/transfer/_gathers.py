"""Loops that repeat a read whose size the device decides, and what is used of it."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import inner_loop
from torchlint.semantic.time.iterations import is_structural, iteration_count

_LENGTHS = frozenset(("size", "numel"))
_FEW = 3


@question(
    yes="a loop within the step repeats it for each element",
    no="no loop over data repeats it within the step",
)
def repeated_within_step(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a loop over data, not over a few things or the parts of a network, repeats a
    place within one step."""
    loop = inner_loop(module, node)
    if isinstance(loop, cst.While):
        return False
    parts = [loop] if isinstance(loop, cst.For) else []
    if isinstance(loop, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
        parts = [loop.for_in]  # type: ignore[list-item]
    for part in parts:
        count = iteration_count(module, part)
        if (count is not None and count <= _FEW) or is_structural(module, part):
            return False
    return bool(parts)


@question(yes="only the number of elements is used", no="the elements are used")
def only_counted(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether of what a read gives only the length is used: ``len(x[mask])``,
    ``x[mask].size(0)``."""
    above = module.parent(node)
    match above:
        case cst.Attribute(attr=cst.Name(value=name), value=inner) if inner is node:
            return name == "shape" or name in _LENGTHS
        case cst.Arg():
            call = module.parent(above)
            return module.called(call) == "builtins.len"
    return False


__all__ = ["only_counted", "repeated_within_step"]
