"""What the host does with a tensor while, or after, it is copied to the accelerator."""

from __future__ import annotations

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Module, Transfer
from torchlint.rules.transfer._blocking_batch_copy.tensor_origins import host_roots
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import components, root_of
from torchlint.semantic.device.transfers import moved_names
from torchlint.semantic.question import question
from torchlint.semantic.uses.object_uses import (
    ObjectUse,
    Way,
    binding_uses,
    may_follow,
    object_uses,
)
from torchlint.semantic.uses.observers import reads_by_string


@question(yes="`{0}` is written in place after the move", no="`{0}` is not written after the move")
def changed_later(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether the host's copy is written in place after the move, while the name still means
    that copy."""
    if not isinstance(source, cst.Name) or source.value in moved_names(module, source):
        return False
    for read in reads_of(module, module.scope(source), source.value):
        if not module.before(source, read):
            continue
        above = module.parent(read)
        if isinstance(above, cst.Subscript) and isinstance(
            module.parent(above), (cst.AssignTarget, cst.AugAssign)
        ):
            return True
        if isinstance(above, cst.Attribute) and above.attr.value.endswith("_"):
            return True
    return False


# Work on another stream does not wait for a copy on this one.
_STREAMS = regex(r"\bStream\b|\bset_stream\b|\bstream\(|CUDAGraph|cuda\.graph")


@question(remember=False)
def may_overlap(module: Module, transfer: Transfer) -> bool | None:
    """Say whether a copy may overlap with what the host does next, as nothing writes its source
    before it has ended.

    None where it is not known where the source comes from. A batch is a new tensor of torch's own,
    and no code reads the variables of another function.
    """
    roots = host_roots(module, transfer.source)
    if roots is None:
        return None
    if mentions(module, _STREAMS) or reads_by_string(module):
        return False
    for root in roots:
        uses = (
            binding_uses(module, root.node, root.name, "host", root.part, transfer.call)
            if root.name
            else object_uses(module, root.node, "host", transfer.call)
        )
        if any(_endangers(module, use, transfer.call, root.node) for use in uses):
            return False
    return True


def _endangers(module: Module, use: ObjectUse, copy: cst.Call, origin: cst.CSTNode) -> bool:
    """Say whether a use of the source may write it while the copy is on its way."""
    if (
        use.read is not None
        and _rebinds(module, copy, use.read.value)
        and use.reached in _sources(module, copy)
    ):
        return False  # The name still means what was to be copied: so it has not been copied.
    if use.reached is not None and use.reached is _choice(module, copy):
        return False  # What is not a copy came out of the other branch.
    return use.way is Way.ESCAPES or may_follow(module, use, copy, origin)


def _choice(module: Module, copy: cst.Call) -> cst.CSTNode | None:
    """Return the assignment of ``y = y.cuda() if on_gpu else y``, where the copy is one branch."""
    above = module.parent(copy)
    assign = (
        module.parent(above) if isinstance(above, cst.IfExp) and above.test is not copy else None
    )
    return assign if isinstance(assign, cst.Assign) else None


def _rebinds(module: Module, copy: cst.Call, name: str) -> bool:
    statement = module.small_statement(copy)
    return isinstance(statement, cst.Assign) and any(
        name in module.names_in(target.target)
        for target in statement.targets
        if all(isinstance(part, cst.Name) for part in components(target.target, cst.Tuple))
    )


def _sources(module: Module, copy: cst.Call) -> list[cst.CSTNode]:
    """Return the bindings of the name to which the call chain that copies belongs: `y` of
    ``y.long().cuda()``."""
    at = root_of(copy)
    return definitions_of(module, at) if isinstance(at, cst.Name) else []
