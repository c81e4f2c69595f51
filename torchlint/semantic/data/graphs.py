"""Batches that are graphs of dgl: a DataLoader that pins hands these on as they are."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.calls import bind, keyword_argument
from torchlint.semantic.code.flow import call_sites, reads_of
from torchlint.semantic.code.reaching import assigned_to, definitions_of
from torchlint.semantic.code.tree import attr_of, method_called, parameters_of
from torchlint.semantic.data.expanded import functions_behind, given_by
from torchlint.semantic.device.transfers import moved_names
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.torch.names import MOVES
from torchlint.semantic.uses.object_uses import Key, literal_key
from torchlint.semantic.values.inferred import inferred

_Path = tuple[Key, ...]
"""The indices and keys by which a part is taken from what is given."""
_OF_GRAPHS = frozenset(
    """ndata edata srcdata dstdata batch_num_nodes batch_num_edges update_all apply_edges
    apply_nodes local_scope local_var num_src_nodes num_dst_nodes canonical_etypes""".split()
)
"""What of all that is moved to a device only a `DGLGraph` has (dgl 2.4, heterograph.py)."""
_MAKERS = frozenset(
    f"dgl.{name}"
    for name in """batch graph heterograph block_to_graph to_block add_self_loop remove_self_loop
    add_reverse_edges to_bidirected to_simple to_homogeneous to_heterogeneous from_networkx
    from_scipy node_subgraph edge_subgraph in_subgraph out_subgraph knn_graph radius_graph
    line_graph reverse slice_batch rand_graph DGLGraph""".split()
)
_LOADERS = "dgl.dataloading."
_WHOLE = f"{_LOADERS}GraphDataLoader"
"""The loader whose batches are what a dataset gives, its graphs joined; the others draw a part of a
graph for each."""
_SAME = ("builtins.enumerate", "builtins.iter", "builtins.next", "itertools.cycle")


@question(
    yes="`{0}` is a graph of dgl, which a DataLoader does not pin",
    no="`{0}` is not known to be a graph of dgl",
    circular=False,
)
def is_dgl_graph(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a graph of dgl, by what is read of it or of what its move is
    assigned to, or by what makes it.

    ``DGLGraph`` has ``pin_memory_``, in place, and no ``pin_memory``: torch's pinning leaves it as
    it is (torch 2.13, utils/data/_utils/pin_memory.py).
    """
    names = {node.value} if isinstance(node, cst.Name) else set[str]()
    names.update(moved_names(module, node))
    reads = (read for name in names for read in reads_of(module, module.scope(node), name))
    return any(attr_of(module.parent(read)) in _OF_GRAPHS for read in reads) or _is_graph(
        module, node, ()
    )


@question(circular=False)
def _is_graph(module: Module, node: cst.CSTNode, path: _Path) -> bool:
    """Say whether a part of what an expression gives is made as a graph on each way in view."""
    match node:
        case cst.Tuple(parts) | cst.List(parts) if path:
            at = path[0] if isinstance(path[0], int) else len(parts)
            return at < len(parts) and _is_graph(module, parts[at].value, path[1:])
        case cst.Subscript(whole) if (key := literal_key(node)) is not None:
            return _is_graph(module, whole, (key, *path))
        case cst.Call() if not path and module.called(node) in _MAKERS:
            return True
        case cst.Call(cst.Attribute(moved)) if method_called(node) in MOVES:
            return _is_graph(module, moved, path)
        case cst.Call(args=[cst.Arg(iterated), *_]) if module.called(node) == "builtins.next":
            return _gives_graphs(module, iterated, path)
        case cst.Name(name):
            made = definitions_of(module, node)
            return bool(made) and all(_bound_to_graph(module, each, name, path) for each in made)
    return False


def _bound_to_graph(module: Module, made: cst.CSTNode, name: str, path: _Path) -> bool:
    match made:
        case cst.Assign([cst.AssignTarget(target)], value):
            at = _position(target, name)
            return at is not None and _is_graph(module, value, (*at, *path))
        case cst.For() | cst.CompFor():
            for goes in loop_sources(module, made):
                at = _position(goes.target, name)
                if at is not None:
                    return _gives_graphs(module, goes.iterated, (*at, *path))
        case cst.FunctionDef():
            params = parameters_of(made)
            said = next((each.annotation for each in params if each.name.value == name), None)
            if said is not None and module.name(said.annotation) in _MAKERS and not path:
                return True
            return _all_given(module, made, name, path)
    return False


def _all_given(module: Module, function: cst.FunctionDef, name: str, path: _Path) -> bool:
    """Say whether each call of a function in the file gives a graph for a parameter."""
    method = module.class_of(function) is not None
    given = [bind(function, site, method).get(name) for site in call_sites(module, function)]
    return bool(given) and all(each is not None and _is_graph(module, each, path) for each in given)


def _gives_graphs(module: Module, iterated: cst.BaseExpression, path: _Path) -> bool:
    """Say whether a part of each batch of a loader is a graph."""
    loaders = list(_loaders(module, iterated))
    return bool(loaders) and all(loads_graphs(module, each, path) for each in loaders)


@question(circular=())
def _loaders(module: Module, node: cst.BaseExpression) -> Iterator[cst.Call]:
    """Yield the calls that may have made a loader, of torch or of dgl."""
    value = inferred(module, node)
    if value.kind == "loader" and isinstance(value.node, cst.Call):
        yield value.node
        return
    match node:
        case cst.Call(args=[cst.Arg(first), *_]):
            name = module.called(node)
            if name.startswith(_LOADERS):
                yield node
            elif name in _SAME or name.startswith("tqdm."):
                yield from _loaders(module, first)
        case cst.Name(name):
            for each in assigned_to(module, node):
                yield from _loaders(module, each)
            for made in definitions_of(module, node):
                if isinstance(made, cst.FunctionDef):
                    method = module.class_of(made) is not None
                    for site in call_sites(module, made):
                        given = bind(made, site, method).get(name)
                        if given is not None:
                            yield from _loaders(module, given)


@question(
    yes="each batch of the loader is a graph of dgl, which it does not pin",
    no="the batches of the loader are not known to be graphs of dgl",
)
def loads_graphs(module: Module, loader: cst.Call, path: _Path = ()) -> bool:
    """Say whether each batch of a loader, or a part of it, is a graph of dgl, by the function that
    joins the samples; without one the graph comes first in what `GraphDataLoader` gives, as in
    dgl's own datasets."""
    collate = keyword_argument(module, loader, "collate_fn")
    name = module.called(loader)
    if collate is None:
        return name.startswith(_LOADERS) and (name != _WHOLE or not any(path))
    given = [
        (where, each)
        for where, function in functions_behind(module, collate)
        for each in given_by(where, function)
    ]
    return bool(given) and all(_is_graph(where, each, path) for where, each in given)


def _position(target: cst.CSTNode, name: str) -> _Path | None:
    """Return where in a target a name stands; None for nowhere, or behind a star."""
    match target:
        case cst.Name(own) if own == name:
            return ()
        case cst.Tuple(parts) | cst.List(parts):
            for index, each in enumerate(parts):
                if isinstance(each, cst.StarredElement):
                    return None
                at = _position(each.value, name)
                if at is not None:
                    return (index, *at)
    return None
