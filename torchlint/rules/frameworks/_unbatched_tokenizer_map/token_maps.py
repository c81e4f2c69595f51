"""Calls of ``map`` on a dataset of the datasets library, and the tokenizer calls in the functions
they are given."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Module, inferred, keyword_argument
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import callees_of, writes_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import attr_of, has_star, is_name, root_of
from torchlint.semantic.question import question
from torchlint.semantic.values import library

_DATASET = "datasets.Dataset"
_ONLY_THERE = frozenset(
    ("remove_columns", "load_from_cache_file", "writer_batch_size", "keep_in_memory")
)
_TOKENIZER = regex(r"(^|_)(tok|tokeni[sz]er|tokenizer_\w+)$", re.IGNORECASE)


@question()
def hf_dataset(module: Module, node: cst.CSTNode | None) -> bool:
    """Say whether an expression is a dataset, or a dict of datasets, of the datasets library."""
    match node:
        case cst.Call(func) if library.makes(module, module.name(func), _DATASET):
            streams = keyword_argument(module, node, "streaming")
            return streams is None or dotted_text(streams) == "False"
        case cst.Call(cst.Attribute(receiver, cst.Name(method))) if library.makes(
            module, f"{_DATASET}.{method}", _DATASET
        ):
            return hf_dataset(module, receiver)
        case cst.Subscript(holder):
            return hf_dataset(module, holder)
        case cst.Name():
            if _is_named(module, node):
                return True
    return node is not None and inferred(module, node).name == _DATASET


def _is_named(module: Module, node: cst.Name) -> bool:
    scope = module.function(node)
    for param in scope.params.params if scope is not None else ():
        if param.name.value == node.value and param.annotation is not None:
            return library.makes(module, module.name(param.annotation.annotation), _DATASET)
    found = []
    for home in (scope, module.root):
        for write in writes_of(module, home, node.value) if home is not None else ():
            bound = module.small_statement(write)
            own = isinstance(bound, cst.Assign) and not module.is_within(node, bound)
            if isinstance(bound, cst.Assign) and own and bound.targets[0].target is write:
                found.append(bound.value)
        if found:
            break
    # ``ds = ds.map(f)`` binds anew what it was.
    return (
        bool(found)
        and all(hf_dataset(module, value) or _rebinds(value, node) for value in found)
        and any(not _rebinds(value, node) for value in found)
    )


def _rebinds(value: cst.BaseExpression, name: cst.Name) -> bool:
    at: cst.CSTNode = value
    at = root_of(at)
    return is_name(at, name.value)


@question(
    yes="the map hands rows to a tokenizer", no="`{0}` is no map that hands rows to a tokenizer"
)
def token_map_of(module: Module, call: cst.Call) -> cst.Call | None:
    """Return the call of a tokenizer to which a call of ``map`` hands rows of a dataset, or
    None."""
    func, given = (
        call.func,
        {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None},
    )
    if not isinstance(func, cst.Attribute) or func.attr.value != "map" or has_star(call):
        return None
    first = given.get("function") or (
        call.args[0].value if call.args and call.args[0].keyword is None else None
    )
    if first is None or not (
        hf_dataset(module, func.value) or (_imports_datasets(module) and _ONLY_THERE & given.keys())
    ):
        return None
    function: cst.CSTNode | None = (
        first if isinstance(first, cst.Lambda) else inferred(module, first).node
    )
    if not isinstance(function, (cst.FunctionDef, cst.Lambda)) or not function.params.params:
        return None
    row = function.params.params[0].name.value
    for each in module.within(function.body, cst.Call):
        given_row = any(not arg.star and row in module.names_in(arg.value) for arg in each.args)
        if given_row and _tokenizes(module, each):
            return each
    return None


def _imports_datasets(module: Module) -> bool:
    return re.search(r"^[^\S\n]*(import|from) datasets\b", module.text, re.MULTILINE) is not None


def _tokenizes(module: Module, call: cst.Call) -> bool:
    """Say whether a call runs a tokenizer that is not known to be a slow one."""
    func = call.func
    if attr_of(func) in (
        "encode",
        "encode_plus",
        "batch_encode_plus",
        "tokenize",
    ):
        return False
    name = dotted_text(func)
    if name is None or not _TOKENIZER.search(name.rpartition(".")[2]):
        return False
    made = sole_definition(module, func) if isinstance(func, cst.Name) else None
    if not isinstance(made, cst.Call):
        return not callees_of(module, call)
    fast = keyword_argument(module, made, "use_fast")
    slow = is_name(fast, "False")
    maker = dotted_text(made.func) or ""
    return not slow and (maker.endswith(".from_pretrained") and "Tokenizer" in maker)
