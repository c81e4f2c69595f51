"""Whether an exception may end a loop without ending what comes after it."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.tree import FUNCTIONS, callee
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops

_PASS_ON = ops.dotted("context") | frozenset(
    (
        "contextlib.nullcontext contextlib.closing contextlib.redirect_stdout "
        "contextlib.redirect_stderr builtins.open "
        "tqdm.tqdm tqdm.auto.tqdm tqdm.trange warnings.catch_warnings tempfile.TemporaryDirectory"
    ).split()
)
"""Context managers whose ``__exit__`` lets every exception through, by their sources."""


def may_be_swallowed(module: Module, node: cst.CSTNode) -> bool:
    """Say whether an exception raised in `node` may be caught by its own function, which would then
    go on behind it.

    A ``try`` with a ``finally`` counts as well: its code still runs. Of the callers nothing is
    asked: the function's own variables are gone when they catch it.
    """
    for above in module.ancestors(node):
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, (cst.Try, cst.TryStar)):
            return True
        if isinstance(above, cst.With) and not all(
            reraises(module, item.item) for item in above.items
        ):
            return True
    return False


@question()
def reraises(module: Module, context: cst.BaseExpression) -> bool:
    """Say whether a context manager is certainly one that lets exceptions through."""
    if module.name(callee(context)) in _PASS_ON:
        return isinstance(context, cst.Call)
    match context:
        case cst.IfExp(body=body, orelse=orelse):
            return reraises(module, body) and reraises(module, orelse)
        case cst.Name():
            made = sole_definition(module, context)
            return made is not None and reraises(module, made)
    return False
