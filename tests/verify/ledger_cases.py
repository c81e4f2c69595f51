"""Small programs, one for each construct that moves data or makes the host wait, with what the
ledger must say.

``benchmarks/ledger_vs_cuda.py`` runs the same programs on a real GPU; ``ledger_observed.json`` has
what one did. The rows are those of torch 2.9 to 2.13; ``test_verify_ledger.py`` has the others.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

Row = tuple[str, int, int, int, str]
"""(kind, line, count, bytes, what)."""


@dataclass(frozen=True, slots=True)
class Case:
    """A program, and its rows in order of line, kind and cause."""

    name: str
    text: str
    rows: tuple[Row, ...]


def program(name: str, text: str, *rows: Row) -> Case:
    """A case; torch is imported in its first line."""
    return Case(name, "import torch\n" + textwrap.dedent(text).lstrip("\n"), rows)


def read(line: int, nbytes: int, what: str, count: int = 1) -> tuple[Row, Row]:
    """Copies from the device that the host waits for; `nbytes` are those of all of them."""
    return ("d2h", line, count, nbytes, what), ("sync", line, count, 0, what)


def sent(line: int, nbytes: int, what: str = "copy to device", count: int = 1) -> tuple[Row, Row]:
    """Copies to the device that the host waits for; `nbytes` are those of all of them."""
    return ("h2d", line, count, nbytes, what), ("sync", line, count, 0, what)


X = 'x = torch.ones(4, 3, device="cuda")\n'
"""The first line of most programs: a tensor of 4 x 3 on the device."""

CASES: tuple[Case, ...] = (
    program("item", X + "v = x.sum().item()", *read(3, 4, "item()")),
    program(
        "float64 item",
        'v = float(torch.ones((), device="cuda", dtype=torch.float64))',
        *read(2, 8, "item()"),
    ),
    program("bool of a tensor", X + "if x.any():\n    pass", *read(3, 1, "item()")),
    program("branch in an expression", X + "v = 1 if x.sum() > 0 else 2", *read(3, 1, "item()")),
    program("integer of a tensor", X + "v = int(x[0, 0])", *read(3, 4, "item()")),
    program("tolist", X + "v = x.tolist()", *read(3, 48, "tolist()")),
    program("cpu", X + "v = x.cpu()", *read(3, 48, "copy to host")),
    program("cpu of a part", X + "v = x[:, 1].cpu()", *read(3, 16, "copy to host")),
    program("numpy", X + "v = x.detach().cpu().numpy()", *read(3, 48, "copy to host")),
    program("to host by name", X + 'v = x.to("cpu")', *read(3, 48, "copy to host")),
    program(
        "to host and another dtype",
        X + 'v = x.to("cpu", torch.float64)',
        *read(3, 48, "copy to host"),
    ),
    program(
        "to host without waiting",
        X + 'v = x.to("cpu", non_blocking=True)',
        ("d2h", 3, 1, 48, "copy to host"),
    ),
    program(
        "into pageable memory without waiting",
        X + "v = torch.empty(4, 3)\nv.copy_(x, non_blocking=True)",
        ("d2h", 4, 1, 48, "copy to host"),
        ("sync", 4, 1, 0, "copy to pageable memory"),
    ),
    program(
        "into pinned memory without waiting",
        X + "v = torch.empty(4, 3, pin_memory=True)\nv.copy_(x, non_blocking=True)",
        ("d2h", 4, 1, 48, "copy to host"),
    ),
    program("made on the host", 'x = torch.randn(4, 3).to("cuda")', *sent(2, 48)),
    program("made on the device", 'x = torch.randn(4, 3, device="cuda")'),
    program("cuda()", "x = torch.ones(4, 3).cuda()", *sent(2, 48)),
    program("to another tensor", X + "y = torch.ones(2).to(x)", *sent(3, 8)),
    program("to the same device", X + "y = x.to('cuda').cuda().to(x.device)"),
    program(
        "to the device and another dtype",
        'x = torch.ones(4).to("cuda", torch.float16)',
        *sent(2, 8),
    ),
    program(
        "without waiting, pageable",
        'x = torch.ones(4).to("cuda", non_blocking=True)',
        ("h2d", 2, 1, 16, "copy to device"),
        ("staged", 2, 1, 16, "copy to device"),
    ),
    program(
        "without waiting, pinned",
        'x = torch.ones(4).pin_memory().to("cuda", non_blocking=True)',
        ("h2d", 2, 1, 16, "copy to device"),
    ),
    program("pinned, waiting", 'x = torch.ones(4).pin_memory().to("cuda")', *sent(2, 16)),
    program(
        "pinned, every second column",
        'h = torch.ones(4, 4).pin_memory()\nx = h[:, ::2].to("cuda", non_blocking=True)',
        ("h2d", 3, 1, 32, "copy to device"),
        ("staged", 3, 1, 32, "copy to device"),
    ),
    program("from a list", 'x = torch.tensor([1.0, 2.0], device="cuda")', *sent(2, 8)),
    program("from a list, as_tensor", 'x = torch.as_tensor([1, 2], device="cuda")', *sent(2, 16)),
    program("new_tensor", X + "y = x.new_tensor([1.0, 2.0, 3.0])", *sent(3, 12)),
    program(
        "list of device numbers",
        X + "y = torch.tensor([x[0, 0], x[0, 1]])",
        *read(3, 8, "item()", 2),
    ),
    program("nonzero", X + "y = x.nonzero()", *read(3, 4, "nonzero")),
    program("where with one argument", X + "y = torch.where(x > 0)", *read(3, 4, "nonzero")),
    program("where with three arguments", X + "y = torch.where(x > 0, x, 0.0)"),
    program("mask", X + "y = x[x > 0]", *read(3, 4, "boolean index")),
    program(
        "mask from the host",
        X + "y = x[torch.ones(4, dtype=torch.bool)]",
        ("h2d", 3, 1, 32, "index from host"),
    ),
    program("masked_select", X + "y = x.masked_select(x > 0)", *read(3, 4, "masked_select")),
    program("number into a mask", X + "x[x > 0] = 0.0"),
    program("device number into a mask", X + "x[x > 0] = x.sum()", *read(3, 4, "boolean index")),
    program("index on the device", X + 'y = x[torch.zeros(2, dtype=torch.long, device="cuda")]'),
    program("index from a list", X + "y = x[[0, 1]]", *sent(3, 16, "index from host")),
    program(
        "index from the host", X + "y = x[torch.tensor([0, 1])]", *sent(3, 16, "index from host")
    ),
    program(
        "device number as an index",
        X + 'i = torch.zeros((), dtype=torch.long, device="cuda")\ny = x[i]',
        *read(4, 8, "item()"),
    ),
    program("deviations on the device", X + "y = torch.normal(0.0, x)", *read(3, 2, "normal", 2)),
    program("deviation given as a number", X + "y = torch.normal(x, 1.0)"),
    program("drawn indices", X + "y = torch.multinomial(x, 1)"),
    program(
        "number to an index",
        X + 'i = torch.zeros(2, dtype=torch.long, device="cuda")\nx[i] = 1.0',
        *sent(4, 4, "value from host"),
    ),
    program("nothing to copy", "x = torch.ones(0).cuda().cpu()"),
    program(
        "bincount of bytes",
        'r = torch.ones(3, dtype=torch.uint8, device="cuda")\ny = r.bincount()',
        *read(3, 1, "bincount"),
    ),
    program("histogram", X + "y = x.histc(4)", *read(3, 8, "histc", 2)),
    program("histogram, range known", X + "y = x.histc(4, 0, 1)"),
    program("unique truth values", X + "y = (x > 0).unique()", *read(3, 4, "unique")),
    program("unique of nothing", X + "y = x[:0].unique()"),
    program("nanmedian", X + "y = x.nanmedian()"),
    program(
        "number into a mask from the host",
        X + "x[torch.ones(4, dtype=torch.bool)] = 0.0",
        ("h2d", 3, 1, 32, "index from host"),
        ("h2d", 3, 1, 4, "value from host"),
        ("sync", 3, 1, 0, "value from host"),
    ),
    program(
        "pinned, without waiting, another dtype",
        'x = torch.ones(4).pin_memory().to("cuda", torch.float16, non_blocking=True)',
        ("h2d", 2, 1, 16, "copy to device"),
    ),
    program(
        "to host without waiting, another dtype",
        X + 'v = x.to("cpu", torch.float16, non_blocking=True)',
        ("d2h", 3, 1, 24, "copy to host"),
    ),
    program(
        "into pinned memory, waiting",
        X + "v = torch.empty(4, 3, pin_memory=True)\nv.copy_(x)",
        *read(4, 48, "copy to host"),
    ),
    program(
        "repeat_interleave of nothing",
        'r = torch.ones(0, dtype=torch.long, device="cuda")\ny = torch.repeat_interleave(r)',
    ),
    program("mask of columns", X + "y = x[:, x[0] > 0]", *read(3, 4, "boolean index")),
    program("one host value into a mask", X + "x[x > 0] = torch.ones(1)"),
    program(
        "adding at masked places",
        X + "x.index_put_((x > 0,), torch.tensor(1.0), accumulate=True)",
        ("d2h", 3, 1, 4, "boolean index"),
        ("h2d", 3, 1, 4, "value from host"),
        ("sync", 3, 1, 0, "boolean index"),
        ("sync", 3, 1, 0, "value from host"),
    ),
    program(
        "number into two masks",
        'x = torch.ones(3, 3, device="cuda")\nm = x[0] > 0\nx[m, m] = 0.0',
        ("d2h", 4, 2, 8, "boolean index"),
        ("h2d", 4, 1, 4, "value from host"),
        ("sync", 4, 2, 0, "boolean index"),
        ("sync", 4, 1, 0, "value from host"),
    ),
    program("bincount of nothing", 'y = torch.ones(0, dtype=torch.long, device="cuda").bincount()'),
    program(
        "bincount with a length",
        'y = torch.ones(3, dtype=torch.long, device="cuda").bincount(minlength=5)',
        *read(2, 16, "bincount", 2),
    ),
    program("slices", X + "y = x[1:3, 0]"),
    program("number into one place", 'x = torch.ones(4, device="cuda")\nx[1] = 3.0', *sent(3, 4)),
    program("number into a row", X + "x[1] = 3.0"),
    program("unique", X + "y = x.unique()", *read(3, 8, "unique")),
    program("equal", X + "y = torch.equal(x, x)"),
    program("allclose", X + "y = torch.allclose(x, x)", *read(3, 1, "allclose")),
    program(
        "repeat_interleave",
        'r = torch.ones(3, dtype=torch.long, device="cuda")\ny = torch.repeat_interleave(r)',
        *read(3, 9, "repeat_interleave", 2),
    ),
    program(
        "repeat_interleave, size known",
        (
            'r = torch.ones(3, dtype=torch.long, device="cuda")\ny = torch.repeat_interleave(r, '
            "output_size=3)"
        ),
    ),
    program(
        "bincount",
        'r = torch.ones(3, dtype=torch.long, device="cuda")\ny = r.bincount()',
        *read(3, 16, "bincount", 2),
    ),
    program(
        "one_hot",
        'r = torch.ones(3, dtype=torch.long, device="cuda")\ny = torch.nn.functional.one_hot(r)',
        *read(3, 8, "one_hot"),
    ),
    program(
        "one_hot, classes known",
        'r = torch.ones(3, dtype=torch.long, device="cuda")\ny = torch.nn.functional.one_hot(r, 2)',
    ),
    program(
        "linear algebra",
        'y = torch.linalg.inv(torch.eye(2, device="cuda"))',
        *read(2, 1, "linalg error check"),
    ),
    program("synchronize", "torch.cuda.synchronize()", ("sync", 2, 1, 0, "torch.cuda.synchronize")),
    program(
        "event",
        "e = torch.cuda.Event()\ne.record()\ne.synchronize()",
        ("sync", 4, 1, 0, "Event.synchronize"),
    ),
    program(
        "stream",
        "s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    pass\ns.synchronize()",
        ("sync", 5, 1, 0, "Stream.synchronize"),
    ),
    program("host number as an operand", X + "y = x * 2.0 + torch.tensor(1.0)"),
    program("module", 'm = torch.nn.Linear(4, 3).to("cuda")', *sent(2, 60, count=2)),
    program("module made there", 'm = torch.nn.Linear(4, 3, device="cuda")'),
    program(
        "default device",
        'with torch.device("cuda"):\n    x = torch.ones(3)\n    y = torch.tensor([1.0])',
        *sent(4, 4),
    ),
    program("like", X + "y = torch.zeros_like(x) + x.new_ones(3) + torch.randn_like(x)"),
    program(
        "batched loop",
        X + "t = 0.0\nfor i in range(4):\n    t += x[i].sum().item()",
        *read(5, 16, "item()", 4),
    ),
)
"""Programs without an error."""

TRAINING = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 32)
        self.last = nn.Linear(32, 10)

    def forward(self, x):
        x = self.first(x + torch.randn(x.shape[0], 64).to(x.device))
        if (x > 100).any():
            x = x * 0
        return self.last(x.relu())


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Model().to(device)
optimizer = torch.optim.Adam(model.parameters())
inputs, labels = torch.randn(64, 64), torch.randint(0, 10, (64,))
losses = []
for x, y in zip(inputs.split(8), labels.split(8)):
    x, y = PREPARE
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
    kept = x[x > 0]
"""
"""A training script of 33 lines with every usual sync; PREPARE moves a batch."""

PLAIN = "x.to(device), y.to(device)"
PINNED = "(t.pin_memory().to(device, non_blocking=True) for t in (x, y))"
