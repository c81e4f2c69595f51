"""Batches that are graphs of dgl: a DataLoader that pins hands these on as they are."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.tree import attr_of
from torchlint.semantic.device.transfers import moved_names
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_OF_GRAPHS = frozenset(
    """ndata edata srcdata dstdata batch_num_nodes batch_num_edges update_all apply_edges
    apply_nodes local_scope local_var num_src_nodes num_dst_nodes canonical_etypes""".split()
)
"""What of all that is moved to a device only a `DGLGraph` has (dgl 2.4, heterograph.py)."""
_LOADERS = "dgl.dataloading."


@question(
    yes="`{0}` is a graph of dgl, which a DataLoader does not pin",
    no="`{0}` is not known to be a graph of dgl",
    circular=False,
)
def is_dgl_graph(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a graph of dgl, by what is read of it or of what its move is
    assigned to.

    ``DGLGraph`` has ``pin_memory_``, in place, and no ``pin_memory``: torch's pinning leaves it as
    it is (torch 2.13, utils/data/_utils/pin_memory.py).
    """
    names = {node.value} if isinstance(node, cst.Name) else set[str]()
    names.update(moved_names(module, node))
    reads = (read for name in names for read in reads_of(module, module.scope(node), name))
    return any(attr_of(module.parent(read)) in _OF_GRAPHS for read in reads)


@question(
    yes="each batch of the loader is a graph of dgl, which it does not pin",
    no="the batches of the loader are not known to be graphs of dgl",
)
def loads_graphs(module: Module, loader: cst.Call) -> bool:
    """Say whether each batch of a loader is, or begins with, a graph of dgl: a loader of dgl's."""
    collate = keyword_argument(module, loader, "collate_fn")
    return collate is None and module.called(loader).startswith(_LOADERS)
