"""What people write, each with what a GPU is predicted to do: indexing, factories, optimizers,
loaders, metrics, layers.

Predicted from PyTorch's sources; ``ledger_observed.json`` has what a GPU did.
"""

from __future__ import annotations

from tests.verify.ledger_cases import Case, X, program, read, sent

_I = 'i = torch.ones(1, dtype=torch.long, device="cuda")\n'
_Y = 'y = torch.zeros(4, 1, dtype=torch.long, device="cuda")\n'
_W = 'w = torch.ones(3, device="cuda", requires_grad=True)\nw.grad = torch.ones_like(w)\n'
_LOADED = """\
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.ones(4, 3))
for (x,) in DataLoader(data, batch_size=2{pinned}):
    x = x.to("cuda"{how})
"""
_SCALED = """\
scaler = torch.amp.GradScaler("cuda")
w = torch.ones(3, device="cuda", requires_grad=True)
optimizer = torch.optim.{optimizer}
scaler.scale((w * 2).sum()).backward()
scaler.step(optimizer)
scaler.update()
"""
_CHECK = "argument check of torch.distributions; validate_args=False leaves it out"
_PACKED = """\
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
x = torch.ones(2, 3, 4, device="cuda")
"""

WRITTEN: tuple[Case, ...] = (
    # indexing
    program(
        "two indices from the host",
        X + "y = x[torch.tensor([0, 1]), torch.tensor([1, 1])]",
        *sent(3, 32, "index from host", 2),
    ),
    program("columns from a list", X + "y = x[:, [0, 2]]", *sent(3, 16, "index from host")),
    program(
        "number to rows of a list",
        X + "x[[0, 2]] = 0.0",
        ("h2d", 3, 1, 16, "index from host"),
        ("h2d", 3, 1, 4, "value from host"),
        ("sync", 3, 1, 0, "index from host"),
        ("sync", 3, 1, 0, "value from host"),
    ),
    program(
        "mask from a list",
        X + "y = x[[True, False, True, False]]",
        ("d2h", 3, 1, 4, "boolean index"),
        ("h2d", 3, 1, 4, "index from host"),
        ("sync", 3, 1, 0, "boolean index"),
        ("sync", 3, 1, 0, "index from host"),
    ),
    program(
        "mask from an array",
        "import numpy as np\n" + X + "y = x[np.array([True, False, True, False])]",
        ("d2h", 4, 1, 4, "boolean index"),
        ("h2d", 4, 1, 4, "index from host"),
        ("sync", 4, 1, 0, "boolean index"),
        ("sync", 4, 1, 0, "index from host"),
    ),
    program(
        "index from an array",
        "import numpy as np\n" + X + "y = x[np.array([0, 3])]",
        *sent(4, 16, "index from host"),
    ),
    program(
        "mask of two dimensions from the host",
        X + "y = x[torch.ones(4, 3, dtype=torch.bool)]",
        ("h2d", 3, 1, 192, "index from host"),
    ),
    program(
        "masked on both sides",
        X + "x[x > 0] = x[x > 0] * 2",
        *read(3, 8, "boolean index", 2),
    ),
    program("mask and a number", X + "y = x[x[:, 0] > 0, 1]", *read(3, 4, "boolean index")),
    program(
        "pairs of the device",
        X + 'i = torch.arange(3, device="cuda")\ny = x[i, i]\nx[i, i] = y * 2',
    ),
    program("gather and scatter", X + _Y + "z = x.gather(1, y)\nx.scatter_(1, y, 1.0)"),
    program(
        "scatter_add_ and index_add_",
        X + _Y + _I + "x.scatter_add_(1, y, x.clone())\nx.index_add_(0, i, x[:1].clone())",
    ),
    program(
        "index_select and index_copy_",
        X + _I + "y = x.index_select(0, i)\nx.index_copy_(0, i, y)",
    ),
    program("index_fill_", X + _I + "x.index_fill_(0, i, 1.0)"),
    program(
        "index_fill_ with a device number",
        X + _I + "x.index_fill_(0, i, x.sum())",
        *read(4, 4, "item()"),
    ),
    program("masked_fill", X + 'y = x.masked_fill(x > 0, float("-inf"))'),
    program(
        "masked_fill with a device number",
        X + "y = x.masked_fill(x > 0, x.sum())",
        *read(3, 4, "item()"),
    ),
    program("masked_scatter", X + "y = x.masked_scatter(x > 0, torch.zeros_like(x))"),
    program("fill_ with a device number", X + "x.fill_(x.sum())"),
    program("where with a device number", X + "y = torch.where(x > 0, x, x.sum())"),
    program(
        "where with a host number",
        X + "y = torch.where(x > 0, x, torch.tensor(0.0))",
        *sent(3, 4, "value from host"),
    ),
    program("take_along_dim", X + _Y + "z = x.take_along_dim(y, 1)"),
    program("nonzero as a tuple", X + "y = (x > 0).nonzero(as_tuple=True)", *read(3, 4, "nonzero")),
    program("argwhere", X + "y = torch.argwhere(x > 0)", *read(3, 4, "nonzero")),
    program("number to one place of two", X + "x[0, 0] = 3.0", *sent(3, 4)),
    program("host row to a column", X + "x[:, 0] = torch.arange(4)", *sent(3, 16)),
    program(
        "slice up to a device number", X + "n = x[0].argmax() + 2\ny = x[:n]", *read(4, 8, "item()")
    ),
    # counting and sorting
    program("unique with counts", X + "y, n = x.unique(return_counts=True)", *read(3, 8, "unique")),
    program("unique_consecutive", X + "y = x.unique_consecutive()", *read(3, 8, "unique")),
    program(
        "bincount with weights",
        _Y + 'y = y.flatten().bincount(torch.ones(4, device="cuda"))',
        *read(3, 16, "bincount", 2),
    ),
    program(
        "rows repeated by device counts",
        X + 'n = torch.ones(4, dtype=torch.long, device="cuda")\ny = x.repeat_interleave(n, dim=0)',
        *read(4, 9, "repeat_interleave", 2),
    ),
    program("rows repeated by a number", X + "y = x.repeat_interleave(2, dim=0)"),
    program("sorting", X + "y = x.sort(), x.topk(2), x.argsort(), x.kthvalue(1), x.median()"),
    program("quantile", X + "y = x.quantile(0.5)"),
    program(
        "quantiles of the device",
        X + "q = x.new_tensor([0.1, 0.9])\ny = torch.quantile(x, q, dim=0)",
        *sent(3, 8),
    ),
    program("nanquantile", X + "y = x.nanquantile(0.5), torch.nanquantile(x, 0.5, dim=1)"),
    program("quantile of what is read", X + "y = x.quantile(0.5).item()", *read(3, 4, "item()")),
    program(
        "searching", X + 'b = torch.linspace(0, 1, 3, device="cuda")\ny = torch.bucketize(x, b)'
    ),
    program("equal of two", X + "y = torch.equal(x, x + 0)", *read(3, 1, "equal")),
    program("equal of two sizes", X + "y = torch.equal(x, x[:2])"),
    # numbers and branches
    program(
        "while of a tensor", X + "while x.sum() < 100:\n    x = x * 2", *read(3, 5, "item()", 5)
    ),
    program("the larger of two", X + "v = max(x[0, 0], x[0, 1])", *read(3, 1, "item()")),
    program("is_nonzero", X + "v = torch.is_nonzero(x.sum().isnan())", *read(3, 1, "item()")),
    program("and of two tensors", X + "v = x.any() and x.all()", *read(3, 1, "item()")),
    program("finite or an error", X + "assert torch.isfinite(x).all()", *read(3, 1, "item()")),
    program("asserted on the device", X + "torch._assert_async(x.sum() > 0)"),
    program("a number in a text", X + 'v = f"{x.sum():.3f}"', *read(3, 4, "item()")),
    program(
        "three numbers in a line",
        X + "v = x.sum().item(), x.mean().item(), x.std().item()",
        *read(3, 12, "item()", 3),
    ),
    program(
        "rows summed one by one",
        X + "v = sum(t.item() for t in x.sum(1))",
        *read(3, 16, "item()", 4),
    ),
    program(
        "what the host knows", X + "v = len(x), x.shape[0] > 2, x.numel(), list(x), x.sum() == 0"
    ),
    program(
        "hits of a batch",
        X + _Y + "v = (x.argmax(1) == y[:, 0]).sum().item()",
        *read(4, 8, "item()"),
    ),
    program(
        "losses kept and read once",
        X + "kept = [t.sum().detach() for t in x]\nv = torch.stack(kept).mean().item()",
        *read(4, 4, "item()"),
    ),
    # from the host and back
    program(
        "array to the device",
        'import numpy as np\nx = torch.as_tensor(np.ones(4, dtype=np.float32), device="cuda")',
        *sent(3, 16),
    ),
    program(
        "array to the device without waiting",
        "import numpy as np\n"
        + 'x = torch.from_numpy(np.ones(4)).to("cuda", non_blocking=True)\ny = x + 1',
        ("h2d", 3, 1, 32, "copy to device"),
        ("staged", 3, 1, 32, "copy to device"),
    ),
    program("number to the device", 'x = torch.tensor(0.0, device="cuda")', *sent(2, 4)),
    program("number made there", 'x = torch.full((), 3.0, device="cuda")'),
    program(
        "list of lists in half precision",
        'x = torch.tensor([[1, 2], [3, 4]], dtype=torch.float16, device="cuda")',
        *sent(2, 8),
    ),
    program(
        "list with a number read",
        X + 'y = torch.tensor([x.sum().item(), 1.0], device="cuda")',
        ("d2h", 3, 1, 4, "item()"),
        ("h2d", 3, 1, 8, "copy to device"),
        ("sync", 3, 1, 0, "copy to device"),
        ("sync", 3, 1, 0, "item()"),
    ),
    program(
        "list pinned first",
        'x = torch.tensor([1, 2]).pin_memory().to("cuda", non_blocking=True)',
        ("h2d", 2, 1, 16, "copy to device"),
    ),
    program("old type of a list", "x = torch.cuda.FloatTensor([1.0, 2.0])", *sent(2, 8)),
    program(
        "old type of the host", X + "y = x.type(torch.LongTensor)", *read(3, 48, "copy to host")
    ),
    program(
        "round trip by NumPy",
        X + 'y = torch.from_numpy(x.cpu().numpy() * 2).to("cuda")',
        ("d2h", 3, 1, 48, "copy to host"),
        ("h2d", 3, 1, 48, "copy to device"),
        ("sync", 3, 1, 0, "copy to device"),
        ("sync", 3, 1, 0, "copy to host"),
    ),
    program(
        "read after one synchronize",
        X + 'y = x.to("cpu", non_blocking=True)\ntorch.cuda.synchronize()\nv = y.sum().item()',
        ("d2h", 3, 1, 48, "copy to host"),
        ("sync", 4, 1, 0, "torch.cuda.synchronize"),
    ),
    program(
        "copy in a stream of its own",
        """\
        h = torch.ones(4).pin_memory()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x = h.to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(stream)
        y = x * 2
        """,
        ("h2d", 5, 1, 16, "copy to device"),
    ),
    program("loader", _LOADED.format(pinned="", how=""), *sent(5, 48, count=2)),
    program(
        "loader, without waiting",
        _LOADED.format(pinned="", how=", non_blocking=True") + "    y = x * 2\n",
        ("h2d", 5, 2, 48, "copy to device"),
        ("staged", 5, 2, 48, "copy to device"),
    ),
    program(
        "loader, pinned",
        _LOADED.format(pinned=", pin_memory=True", how=", non_blocking=True"),
        ("h2d", 5, 2, 48, "copy to device"),
    ),
    program(
        "loader, pinned and waiting",
        _LOADED.format(pinned=", pin_memory=True", how=""),
        *sent(5, 48, count=2),
    ),
    program(
        "weights from the host",
        'm = torch.nn.Linear(4, 3, device="cuda")\n'
        + "m.load_state_dict(torch.nn.Linear(4, 3).state_dict())",
        *sent(3, 60, count=2),
    ),
    program("saved", X + "import io\ntorch.save(x, io.BytesIO())", *read(4, 48, "copy to host")),
    # training
    program(
        "SGD and a schedule",
        _W
        + """\
optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
optimizer.step()
schedule.step()
""",
    ),
    program("Adam", _W + "torch.optim.Adam([w]).step()"),
    program("Adam, capturable", _W + "torch.optim.Adam([w], capturable=True).step()"),
    program("AdamW, fused", _W + "torch.optim.AdamW([w], fused=True).step()"),
    program(
        "clipping",
        _W + "torch.nn.utils.clip_grad_norm_([w], 1.0)\ntorch.nn.utils.clip_grad_value_([w], 1.0)",
    ),
    program(
        "clipping, errors asked for",
        _W + "torch.nn.utils.clip_grad_norm_([w], 1.0, error_if_nonfinite=True)",
        *read(4, 1, "item()"),
    ),
    program("GradScaler", _SCALED.format(optimizer="SGD([w], lr=0.1)"), *read(6, 4, "item()")),
    program("GradScaler, fused", _SCALED.format(optimizer="AdamW([w], fused=True)")),
    program(
        "scale read",
        'scaler = torch.amp.GradScaler("cuda")\nx = scaler.scale(torch.ones(2, device="cuda"))\n'
        "v = scaler.get_scale()",
        *read(4, 4, "item()"),
    ),
    program(
        "drawn from a normal distribution",
        X + "y = torch.distributions.Normal(x, 1.0, validate_args=True).sample()",
        ("d2h", 3, 2, 2, _CHECK),
        ("d2h", 3, 2, 2, "normal"),
        ("h2d", 3, 1, 4, "copy to device"),
        ("sync", 3, 2, 0, _CHECK),
        ("sync", 3, 1, 0, "copy to device"),
        ("sync", 3, 2, 0, "normal"),
    ),
    program(
        "a probability under a normal distribution",
        X + "y = torch.distributions.Normal(x, x.exp(), validate_args=True).log_prob(x)",
        ("d2h", 3, 3, 3, _CHECK),
        ("sync", 3, 3, 0, _CHECK),
    ),
    program(
        "a probability that nobody checks",
        X + "y = torch.distributions.Normal(x, x.exp(), validate_args=False).log_prob(x)",
    ),
    program(
        "packed by lengths",
        _PACKED + "p = pack_padded_sequence(x, [1, 3], batch_first=True, enforce_sorted=False)\n"
        "y, n = pad_packed_sequence(p, batch_first=True)",
        ("h2d", 4, 1, 16, "copy to device"),
        ("sync", 4, 1, 0, "copy to device"),
        ("d2h", 5, 1, 16, "copy to host"),
        ("sync", 5, 1, 0, "copy to host"),
    ),
    program(
        "padded", X + "y = torch.nn.utils.rnn.pad_sequence([x[0], x[1, :2]], batch_first=True)"
    ),
    program("BatchNorm", X + 'm = torch.nn.BatchNorm1d(3, device="cuda")\ny = m(x)', *sent(3, 8)),
    program(
        "BatchNorm of all batches",
        X + 'm = torch.nn.BatchNorm1d(3, momentum=None, device="cuda")\ny = m(x)',
        *sent(3, 8),
        *read(4, 8, "item()"),
    ),
    program(
        "embedding and its gradient",
        _I + 'torch.nn.Embedding(5, 2, device="cuda")(i).sum().backward()',
    ),
    program(
        "attention with a mask",
        X
        + "q, attend = x[None, None], torch.nn.functional.scaled_dot_product_attention\n"
        + "y = attend(q, q, q, (q @ q.mT) > 0)",
    ),
    program(
        "checkpointed",
        X
        + "x.requires_grad_()\n"
        + "torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False).sum().backward()",
    ),
    program(
        "autocast",
        X + 'm = torch.nn.Linear(3, 3, device="cuda")\nwith torch.autocast("cuda"):\n    y = m(x)',
    ),
    # compiled parts
    program(
        "compiled, read outside",
        X + 'f = torch.compile(lambda x: (x * 2).sum(), backend="eager")\nv = f(x).item()',
        *read(4, 4, "item()"),
    ),
    program(
        "compiled, branch inside",
        X
        + """\
def f(x):
    if x.sum() > 0:
        return x * 2
    return x
y = torch.compile(f, backend="eager")(x)
""",
        *read(4, 1, "item()"),
    ),
)
"""Programs without an error."""
