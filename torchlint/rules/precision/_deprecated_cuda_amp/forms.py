"""Who would notice that ``torch.cuda.amp`` became ``torch.amp``: the old classes and names.

Given the same arguments, ``torch.cuda.amp.autocast`` and ``torch.amp.autocast("cuda")`` do the same
(torch 2.13: ``torch/cuda/amp/autocast_mode.py``). They differ in the defaults: the old class has
``dtype=torch.float16`` and ``cache_enabled=True``, the new one takes over what an outer autocast or
``torch.set_autocast_dtype`` has set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Module
from torchlint.semantic.code.bindings import binds_globally, starred_over
from torchlint.semantic.code.flow import callees_of, reads_of
from torchlint.semantic.code.imports import import_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import assigned_value
from torchlint.semantic.code.tree import keyword_of, method_called, positional
from torchlint.semantic.project.asked import reached_elsewhere


def only_entered(module: Module, use: cst.BaseExpression) -> bool:
    """Say whether nothing sees a new context but who enters it: ``with`` without ``as``, a
    decorator, an ExitStack."""
    node: cst.CSTNode = use
    above = module.parent(node)
    while isinstance(above, cst.IfExp) and above.test is not node:
        node, above = above, module.parent(above)
    if isinstance(above, cst.WithItem):
        return above.asname is None
    if isinstance(above, cst.Arg):
        call = module.parent(above)
        entered = method_called(call) == "enter_context"
        return entered and isinstance(module.parent(call), cst.Expr)
    return isinstance(above, cst.Decorator)


_CASTS = regex(r"torch\.(?:amp\.|(?:cuda|cpu)\.amp\.)?autocast$")
_OLD = ("enabled", "dtype", "cache_enabled")
"""Parameters of the old class, in order."""


def inside_other_settings(module: Module, use: cst.BaseExpression) -> bool:
    """Say whether a context is entered inside another autocast, a block's or a decorator's, which
    may set what this one leaves to a default."""
    own = (
        {*_OLD[: len(positional(use))], *map(keyword_of, use.args)}
        if isinstance(use, cst.Call)
        else ()
    )
    return any(
        isinstance(other, cst.Call)
        and _CASTS.match(module.name(other.func) or "")
        and (set(map(keyword_of, other.args)) | set(_OLD[1 : len(positional(other))]))
        & (set(_OLD[1:]) - set(own))
        for above in module.ancestors(use)
        for entered in _contexts(above)
        if entered is not use
        for other in [
            (isinstance(entered, cst.Name) and assigned_value(module, entered)) or entered,
            *(
                call
                for maker in (callees_of(module, entered) if isinstance(entered, cst.Call) else ())
                for call in module.within(maker.body, cst.Call)
            ),
        ]
    )


def _contexts(node: cst.CSTNode) -> Sequence[cst.BaseExpression]:
    """Return the contexts that a block enters, or the decorators of a function."""
    if isinstance(node, cst.With):
        return [each.item for each in node.items]
    return [each.decorator for each in node.decorators] if isinstance(node, cst.FunctionDef) else ()


def private(module: Module, home: cst.CSTNode, names: Iterable[str]) -> bool:
    """Say whether no other file can see or bind names that a statement binds, and this one reads
    them by name only."""
    names = list(names)
    if starred_over(module, home, names):
        return False
    for above in module.ancestors(home):
        if isinstance(above, cst.ClassDef):
            return False
        if isinstance(above, cst.FunctionDef):
            return not any(binds_globally(module, above, name) for name in names)
    return all(reached_elsewhere(module, name) is False for name in names)


def annotates(module: Module, home: cst.Import | cst.ImportFrom) -> bool:
    """Say whether an annotation names what an import binds: it may be read when the program
    runs."""
    names = () if isinstance(home.names, cst.ImportStar) else home.names
    for item in names:
        name = dotted_text(item.asname.name if item.asname is not None else item.name) or ""
        for read in reads_of(module, module.root, name.partition(".")[0]):
            if import_of(module, read) is home and any(
                isinstance(a, cst.Annotation) for a in module.ancestors(read)
            ):
                return True
    return False
