"""Small programs, one for each construct that moves data or makes the host wait, with what the
ledger must say.

``benchmarks/ledger_vs_cuda.py`` runs the same programs on a real GPU.
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


def _case(name: str, text: str, *rows: Row) -> Case:
    return Case(name, "import torch\n" + textwrap.dedent(text).lstrip("\n"), rows)


def _read(line: int, nbytes: int, what: str, count: int = 1) -> tuple[Row, Row]:
    return ("d2h", line, count, nbytes, what), ("sync", line, count, 0, what)


def _sent(line: int, nbytes: int, what: str = "copy to device", count: int = 1) -> tuple[Row, Row]:
    return ("h2d", line, count, nbytes, what), ("sync", line, count, 0, what)


_X = 'x = torch.ones(4, 3, device="cuda")\n'

CASES: tuple[Case, ...] = (
    _case("item", _X + "v = x.sum().item()", *_read(3, 4, "item()")),
    _case(
        "float64 item",
        'v = float(torch.ones((), device="cuda", dtype=torch.float64))',
        *_read(2, 8, "item()"),
    ),
    _case("bool of a tensor", _X + "if x.any():\n    pass", *_read(3, 1, "item()")),
    _case("branch in an expression", _X + "v = 1 if x.sum() > 0 else 2", *_read(3, 1, "item()")),
    _case("integer of a tensor", _X + "v = int(x[0, 0])", *_read(3, 4, "item()")),
    _case("tolist", _X + "v = x.tolist()", *_read(3, 48, "tolist()")),
    _case("cpu", _X + "v = x.cpu()", *_read(3, 48, "copy to host")),
    _case("cpu of a part", _X + "v = x[:, 1].cpu()", *_read(3, 16, "copy to host")),
    _case("numpy", _X + "v = x.detach().cpu().numpy()", *_read(3, 48, "copy to host")),
    _case("to host by name", _X + 'v = x.to("cpu")', *_read(3, 48, "copy to host")),
    _case(
        "to host and another dtype",
        _X + 'v = x.to("cpu", torch.float64)',
        *_read(3, 48, "copy to host"),
    ),
    _case(
        "to host without waiting",
        _X + 'v = x.to("cpu", non_blocking=True)',
        ("d2h", 3, 1, 48, "copy to host"),
    ),
    _case(
        "into pageable memory without waiting",
        _X + "v = torch.empty(4, 3)\nv.copy_(x, non_blocking=True)",
        ("d2h", 4, 1, 48, "copy to host"),
        ("sync", 4, 1, 0, "copy to pageable memory"),
    ),
    _case(
        "into pinned memory without waiting",
        _X + "v = torch.empty(4, 3, pin_memory=True)\nv.copy_(x, non_blocking=True)",
        ("d2h", 4, 1, 48, "copy to host"),
    ),
    _case("made on the host", 'x = torch.randn(4, 3).to("cuda")', *_sent(2, 48)),
    _case("made on the device", 'x = torch.randn(4, 3, device="cuda")'),
    _case("cuda()", "x = torch.ones(4, 3).cuda()", *_sent(2, 48)),
    _case("to another tensor", _X + "y = torch.ones(2).to(x)", *_sent(3, 8)),
    _case("to the same device", _X + "y = x.to('cuda').cuda().to(x.device)"),
    _case(
        "to the device and another dtype",
        'x = torch.ones(4).to("cuda", torch.float16)',
        *_sent(2, 8),
    ),
    _case(
        "without waiting, pageable",
        'x = torch.ones(4).to("cuda", non_blocking=True)',
        ("h2d", 2, 1, 16, "copy to device"),
        ("staged", 2, 1, 16, "copy to device"),
    ),
    _case(
        "without waiting, pinned",
        'x = torch.ones(4).pin_memory().to("cuda", non_blocking=True)',
        ("h2d", 2, 1, 16, "copy to device"),
    ),
    _case("pinned, waiting", 'x = torch.ones(4).pin_memory().to("cuda")', *_sent(2, 16)),
    _case(
        "pinned, every second column",
        'h = torch.ones(4, 4).pin_memory()\nx = h[:, ::2].to("cuda", non_blocking=True)',
        ("h2d", 3, 1, 32, "copy to device"),
        ("staged", 3, 1, 32, "copy to device"),
    ),
    _case("from a list", 'x = torch.tensor([1.0, 2.0], device="cuda")', *_sent(2, 8)),
    _case("from a list, as_tensor", 'x = torch.as_tensor([1, 2], device="cuda")', *_sent(2, 16)),
    _case("new_tensor", _X + "y = x.new_tensor([1.0, 2.0, 3.0])", *_sent(3, 12)),
    _case(
        "list of device numbers",
        _X + "y = torch.tensor([x[0, 0], x[0, 1]])",
        *_read(3, 8, "item()", 2),
    ),
    _case("nonzero", _X + "y = x.nonzero()", *_read(3, 4, "nonzero")),
    _case("where with one argument", _X + "y = torch.where(x > 0)", *_read(3, 4, "nonzero")),
    _case("where with three arguments", _X + "y = torch.where(x > 0, x, 0.0)"),
    _case("mask", _X + "y = x[x > 0]", *_read(3, 4, "boolean index")),
    _case(
        "mask from the host",
        _X + "y = x[torch.ones(4, dtype=torch.bool)]",
        *_sent(3, 32, "index from host"),
    ),
    _case("masked_select", _X + "y = x.masked_select(x > 0)", *_read(3, 4, "masked_select")),
    _case("number into a mask", _X + "x[x > 0] = 0.0"),
    _case("device number into a mask", _X + "x[x > 0] = x.sum()", *_read(3, 4, "boolean index")),
    _case("index on the device", _X + 'y = x[torch.zeros(2, dtype=torch.long, device="cuda")]'),
    _case("index from a list", _X + "y = x[[0, 1]]", *_sent(3, 16, "index from host")),
    _case(
        "index from the host", _X + "y = x[torch.tensor([0, 1])]", *_sent(3, 16, "index from host")
    ),
    _case(
        "device number as an index",
        _X + 'i = torch.zeros((), dtype=torch.long, device="cuda")\ny = x[i]',
        *_read(4, 8, "item()"),
    ),
    _case("deviations on the device", _X + "y = torch.normal(0.0, x)", *_read(3, 1, "normal")),
    _case("deviation given as a number", _X + "y = torch.normal(x, 1.0)"),
    _case("drawn indices", _X + "y = torch.multinomial(x, 1)"),
    _case(
        "number to an index",
        _X + 'i = torch.zeros(2, dtype=torch.long, device="cuda")\nx[i] = 1.0',
        *_sent(4, 4, "value from host"),
    ),
    _case("nothing to copy", "x = torch.ones(0).cuda().cpu()"),
    _case(
        "bincount of bytes",
        'r = torch.ones(3, dtype=torch.uint8, device="cuda")\ny = r.bincount()',
        *_read(3, 1, "bincount"),
    ),
    _case("histogram", _X + "y = x.histc(4)", *_read(3, 8, "histc", 2)),
    _case("histogram, range known", _X + "y = x.histc(4, 0, 1)"),
    _case("unique truth values", _X + "y = (x > 0).unique()", *_read(3, 4, "unique")),
    _case("unique of nothing", _X + "y = x[:0].unique()"),
    _case("nanmedian", _X + "y = x.nanmedian()", *_read(3, 8, "nanmedian")),
    _case(
        "number into a mask from the host",
        _X + "x[torch.ones(4, dtype=torch.bool)] = 0.0",
        ("h2d", 3, 1, 32, "index from host"),
        ("h2d", 3, 1, 4, "value from host"),
        ("sync", 3, 1, 0, "index from host"),
        ("sync", 3, 1, 0, "value from host"),
    ),
    _case(
        "pinned, without waiting, another dtype",
        'x = torch.ones(4).pin_memory().to("cuda", torch.float16, non_blocking=True)',
        ("h2d", 2, 1, 16, "copy to device"),
    ),
    _case(
        "to host without waiting, another dtype",
        _X + 'v = x.to("cpu", torch.float16, non_blocking=True)',
        ("d2h", 3, 1, 24, "copy to host"),
    ),
    _case(
        "into pinned memory, waiting",
        _X + "v = torch.empty(4, 3, pin_memory=True)\nv.copy_(x)",
        *_read(4, 48, "copy to host"),
    ),
    _case(
        "repeat_interleave of nothing",
        'r = torch.ones(0, dtype=torch.long, device="cuda")\ny = torch.repeat_interleave(r)',
    ),
    _case("mask of columns", _X + "y = x[:, x[0] > 0]", *_read(3, 4, "boolean index")),
    _case("one host value into a mask", _X + "x[x > 0] = torch.ones(1)"),
    _case(
        "adding at masked places",
        _X + "x.index_put_((x > 0,), torch.tensor(1.0), accumulate=True)",
        ("d2h", 3, 1, 4, "boolean index"),
        ("h2d", 3, 1, 4, "value from host"),
        ("sync", 3, 1, 0, "boolean index"),
        ("sync", 3, 1, 0, "value from host"),
    ),
    _case(
        "number into two masks",
        'x = torch.ones(3, 3, device="cuda")\nm = x[0] > 0\nx[m, m] = 0.0',
        ("d2h", 4, 2, 8, "boolean index"),
        ("h2d", 4, 1, 4, "value from host"),
        ("sync", 4, 2, 0, "boolean index"),
        ("sync", 4, 1, 0, "value from host"),
    ),
    _case("bincount of nothing", 'y = torch.ones(0, dtype=torch.long, device="cuda").bincount()'),
    _case(
        "bincount with a length",
        'y = torch.ones(3, dtype=torch.long, device="cuda").bincount(minlength=5)',
        *_read(2, 16, "bincount", 2),
    ),
    _case("slices", _X + "y = x[1:3, 0]"),
    _case("number into one place", 'x = torch.ones(4, device="cuda")\nx[1] = 3.0', *_sent(3, 4)),
    _case("number into a row", _X + "x[1] = 3.0"),
    _case("unique", _X + "y = x.unique()", *_read(3, 8, "unique")),
    _case("equal", _X + "y = torch.equal(x, x)", *_read(3, 1, "equal")),
    _case("allclose", _X + "y = torch.allclose(x, x)", *_read(3, 1, "allclose")),
    _case(
        "repeat_interleave",
        'r = torch.ones(3, dtype=torch.long, device="cuda")\ny = torch.repeat_interleave(r)',
        *_read(3, 9, "repeat_interleave", 2),
    ),
    _case(
        "repeat_interleave, size known",
        (
            'r = torch.ones(3, dtype=torch.long, device="cuda")\ny = torch.repeat_interleave(r, '
            "output_size=3)"
        ),
    ),
    _case(
        "bincount",
        'r = torch.ones(3, dtype=torch.long, device="cuda")\ny = r.bincount()',
        *_read(3, 16, "bincount", 2),
    ),
    _case(
        "one_hot",
        'r = torch.ones(3, dtype=torch.long, device="cuda")\ny = torch.nn.functional.one_hot(r)',
        *_read(3, 8, "one_hot"),
    ),
    _case(
        "one_hot, classes known",
        'r = torch.ones(3, dtype=torch.long, device="cuda")\ny = torch.nn.functional.one_hot(r, 2)',
    ),
    _case(
        "linear algebra",
        'y = torch.linalg.inv(torch.eye(2, device="cuda"))',
        *_read(2, 1, "linalg error check"),
    ),
    _case("synchronize", "torch.cuda.synchronize()", ("sync", 2, 1, 0, "torch.cuda.synchronize")),
    _case(
        "event",
        "e = torch.cuda.Event()\ne.record()\ne.synchronize()",
        ("sync", 4, 1, 0, "Event.synchronize"),
    ),
    _case(
        "stream",
        "s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    pass\ns.synchronize()",
        ("sync", 5, 1, 0, "Stream.synchronize"),
    ),
    _case("host number as an operand", _X + "y = x * 2.0 + torch.tensor(1.0)"),
    _case("module", 'm = torch.nn.Linear(4, 3).to("cuda")', *_sent(2, 60, count=2)),
    _case("module made there", 'm = torch.nn.Linear(4, 3, device="cuda")'),
    _case(
        "default device",
        'with torch.device("cuda"):\n    x = torch.ones(3)\n    y = torch.tensor([1.0])',
        *_sent(4, 4),
    ),
    _case("like", _X + "y = torch.zeros_like(x) + x.new_ones(3) + torch.randn_like(x)"),
    _case(
        "batched loop",
        _X + "t = 0.0\nfor i in range(4):\n    t += x[i].sum().item()",
        *_read(5, 16, "item()", 4),
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
