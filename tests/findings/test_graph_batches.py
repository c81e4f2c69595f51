"""A DataLoader that pins leaves graphs of dgl as they are: no advice to pin; what pins is named."""

from __future__ import annotations

import pytest

from tests.checking import check

CODES = frozenset(("TL103", "TL202"))
HEAD = """\
import dgl
import torch
from dgl.dataloading import GraphDataLoader, NeighborSampler
from torch import nn
from torch.utils.data import DataLoader
from torch_geometric.loader import DataLoader as Batches
from nets import Net, graphs, samples

device = torch.device("cuda")
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """
loss = model({out}).sum()
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""
JOINS = "DataLoader(graphs, 8, num_workers=4, collate_fn=collate)"
COLLATE = """
def collate(batch):
    graphs, labels = map(list, zip(*batch))
    joined = dgl.batch(graphs)
    return {gives}
"""


def found(loader: str, loop: str, moves: str, out: str, above: str = "") -> set[str]:
    """Return the codes of a program that trains on batches of a loader."""
    lines = [*moves.split("; "), *STEP.format(out=out).split("\n")]
    body = "\n        ".join(lines)
    text = (
        f"{HEAD}{above}\nloader = {loader}\nfor _ in range(3):\n    for {loop}:\n        {body}\n"
    )
    return {each.code for each in check(text, codes=CODES).findings}


@pytest.mark.parametrize(
    ("loader", "loop", "moves", "out", "gives"),
    [
        ("samples()", "g in loader", "g = g.to(device)", "g, g.ndata['x']", ""),
        ("samples()", "batch in loader", "g = batch[0].to(device)", "g, g.edata['x']", ""),
        ("samples()", "g in loader", "h = g.ndata.pop('h'); g = g.to(device)", "g", ""),
    ],
)  # fmt: skip
def test_a_graph_is_not_pinned(loader: str, loop: str, moves: str, out: str, gives: str) -> None:
    codes = found(loader, loop, moves, out, COLLATE.format(gives=gives) if gives else "")
    assert "TL103" not in codes


@pytest.mark.parametrize(
    ("loader", "loop", "moves", "out", "gives"),
    [
        ("Batches(graphs, 8, num_workers=4)", "g in loader", "g = g.to(device)", "g.x", ""),
        ("samples()", "g in loader", "g = g.to(device)", "g.x, g.edge_index", ""),
        (JOINS, "g, y in loader",
         "y = y.to(device)", "g, y", "joined, torch.tensor(labels)"),
        (JOINS, "g in loader",
         "g = g.to(device)", "g", "torch.stack(graphs)"),
        ("DataLoader(graphs, 8, num_workers=4)", "x, y in loader", "x = x.to(device)", "x", ""),
        ("samples()", "g, y in loader", "y = y.to(device)", "g.ndata['x'], y", ""),
    ],
)  # fmt: skip
def test_what_stands_beside_a_graph_is_pinned(
    loader: str, loop: str, moves: str, out: str, gives: str
) -> None:
    codes = found(loader, loop, moves, out, COLLATE.format(gives=gives) if gives else "")
    assert "TL103" in codes
