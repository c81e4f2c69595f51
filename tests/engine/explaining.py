"""Explains lines of small training programs in this process; what the tests of explanations
share."""

from __future__ import annotations

from collections.abc import Mapping

from tests.checking import every_code, job
from torchlint.base.explanation import Asked, ExplainedReport, Explanation, Place
from torchlint.explain.file import explain

_TRAIN = """import gc
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
device = torch.device("cuda")
model = nn.Linear(8, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def {name}(loader, log, writer, rank):
    total = 0.0
    outs = []
    acc = torch.zeros(1, device=device)
    for epoch in range(3):
        for step, (x, y) in enumerate(loader):
            host = x.cpu()
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            {hot}
        {epoch}
    {once}
"""


def program(statement: str, where: str) -> tuple[str, int]:
    """Return a training program with a statement in one place, and the row of that statement.

    Args:
        statement: one line.
        where: ``hot``, ``rare`` (every 50 steps), ``epoch``, ``once``, ``error`` (before a raise),
            or ``bench``.
    """
    parts = dict.fromkeys(("hot", "epoch", "once"), "pass")
    inner = "\n                "
    parts |= {
        "hot": {"hot": statement},
        "rare": {"hot": f"if step % 50 == 0:{inner}{statement}"},
        "epoch": {"epoch": statement},
        "once": {"once": statement},
        "error": {"hot": f"if x.shape[0] > 512:{inner}{statement}{inner}raise ValueError"},
        "bench": {"hot": statement},
    }[where]
    source = _TRAIN.format(name="benchmark_train" if where == "bench" else "train", **parts)
    return source, next(
        row for row, line in enumerate(source.split("\n"), 1) if line.strip() == statement
    )


def report(
    source: str,
    *rows: int,
    column: int | None = None,
    codes: frozenset[str] | None = None,
    off: Mapping[str, str] | None = None,
    named: tuple[str, ...] = (),
) -> ExplainedReport:
    """Explain rows of a source."""
    places = tuple(Place(row, column) for row in rows)
    on = every_code() if codes is None else codes
    return explain(job(source, codes=on, name="src/train.py"), Asked(places, off or {}, named))


def explained(source: str, row: int, **settings: object) -> Explanation:
    """Explain one row of a source."""
    (found,) = report(source, row, **settings).explanations  # type: ignore[arg-type]
    return found
