"""Tensors that a factory makes on the CPU are made on the device instead, with all that is made of
them: programs run before and after, in surroundings that make it hard, and must agree.

On the CPU stand-in values, dtypes and random states are compared. On ``meta`` a tensor has a device
of its own, and two devices in one operation raise: so a tensor that was left behind would show.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.checking import fixed

torch = pytest.importorskip("torch")

from tests.executed import differences, execute  # noqa: E402 - it imports torch

HEAD = """\
import torch
from torch import nn

device = torch.device("cuda")
outs = []
"""
NET = """

class Net{0}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.columns_idx = [0, 2, 3]

    def forward(self, x):
        q = self.layer(x)
        y = None
{1}
        return q.sum() * 0 + y.sum()


net{0} = Net{0}().to(device)
for step in range(2):
    x = torch.arange(12.0, device=device).view(3, 4)
    loss = net{0}(x)
    loss.backward()
    outs.append(loss.detach())
outs.extend(p.grad for p in net{0}.parameters())
"""

SHAPES = {
    "index": ("y = q[torch.arange(q.size(0))[:, None], q.argmax(1)]", "safe"),
    "named index": ("i = torch.arange(len(q))\ny = q[i.unsqueeze(1), i]", "safe"),
    "index of what is computed": ("p = q * 2\ny = p.t()[torch.arange(q.size(0)), 0]", "safe"),
    "range": ("y = q[range(len(q)), q.argmax(1)]", "safe"),
    "range as a list": ("y = q[list(range(len(q))), q.argmax(1)]", "safe"),
    "bound in both branches": (
        "if len(q) > 2:\n    p = q + 1\nelse:\n    p = q\nrows = torch.arange(3)[:, None]\n"
        "y = p[rows, 0]",
        "safe",
    ),
    "scaled by the larger of two": (
        "at = torch.arange(3)[:, None] * max(3 / 4, 1.0)\ny = q[at.long(), 0]",
        "unsafe",
    ),
    "range written to": ("y = q * 1\ny[range(len(q)), range(len(q))] = 0", "safe"),
    "range of a variable": ("n = int('2')\ny = q[range(n), 0]", "unsafe"),
    "range of a batch size": ("bs = int('3')\ny = q[range(bs), q.argmax(1)]", "safe"),
    "range of a batch size of the module": (
        "self.batch_size = int('3')\ny = q[range(self.batch_size), 0]",
        "safe",
    ),
    "range of a batch size that is computed": (
        "bs = min(3, len(q) // 1)\ny = q[range(bs), 0]",
        "safe",
    ),
    "range of what is left of a batch": ("bs = len(q) // 1 - 1\ny = q[range(bs), 0]", "unsafe"),
    "range of a negative batch size": ("bs = -1 * -2\ny = q[range(bs), 0]", "unsafe"),
    "range of a number of samples": ("n_samples = int('3')\ny = q[range(n_samples), 0]", "unsafe"),
    "ranges of two batch sizes": (
        "bsz = int('3')\ny = q * 1\ny[range(bsz), range(bsz)] = 0.0",
        "safe",
    ),
    "the last of the largest": (
        "v, _ = torch.topk(q, 2)\ny = q * 1\ny[y < v[:, [-1]]] = -float('Inf')\ny = y.exp()",
        "safe",
    ),
    "the last of the largest on the left": (
        "v = q.topk(2)[0]\ny = q.masked_fill(v[..., [-1]] > q, 0.0)",
        "safe",
    ),
    "the first of the largest": (
        "v = q.detach().sort(1)[0]\ny = (q * 1).masked_fill_(v[:, [0]] == q, 1.0)",
        "safe",
    ),
    "the last that is kept": ("last = q[:, [-1]]\ny = q * (q < last)", "unsafe"),
    "the last that is a mask": ("v, _ = torch.topk(q, 2)\ny = (q < v[:, [-1]]) * q", "unsafe"),
    "the last against a number": ("y = q * 1\ny[(y[:, [-1]] > 0)[:, 0]] = 0", "unsafe"),
    "several against others": (
        "v = q * 2\ny = q * 1\ny[:, :2][q[:, :2] < v[:, [1, 2]]] = 0",
        "unsafe",
    ),
    "slice": ("y = q[:, [1]] + q[..., [2, 3]]", "unsafe"),
    "not": ("y = (~torch.eye(3, dtype=torch.bool)).to(q.device)", "safe"),
    "the causal mask of tutorials": (
        "mask = (torch.triu(torch.ones(4, 4)) == 1).transpose(0, 1)\n"
        "mask = mask.float().masked_fill(mask == 0, float('-inf'))"
        ".masked_fill(mask == 1, float(0.0))\n"
        "mask = mask.to(q.device)\ny = (q + mask[:3]).exp()",
        "safe",
    ),
    "filled by a function": (
        "low = torch.tril(torch.ones(4, 4), diagonal=-1)\n"
        "low = torch.masked_fill(low, low.bool(), -1e9).to(q.device)\ny = (q + low[:3]).exp()",
        "safe",
    ),
    "filled where another mask of the host says": (
        "low = torch.zeros(3, 4)\nodd = torch.arange(12).view(3, 4) == 5\n"
        "low = low.masked_fill(odd, 2.5).to(q.device)\ny = q + low",
        "safe",
    ),
    "one minus": (
        "mask = 1.0 - torch.eye(3)\nmask = mask.to(q.device)\ny = q * mask[:, :1]",
        "safe",
    ),
    "moved where it is on CUDA": (
        "eye = torch.eye(4)[None, :, :]\nif q.is_cuda:\n    eye = eye.cuda()\ny = q @ eye[0].to(q)",
        "safe",
    ),
    "joined": (
        "rows = torch.cat([torch.arange(3) for _ in range(2)], dim=0)\n"
        "rows = (rows.unsqueeze(0) == rows.unsqueeze(1)).float()\n"
        "rows = rows.to(q.device)\ny = rows * 2",
        "safe",
    ),
    "computed": (
        "e = torch.exp(torch.arange(4, dtype=torch.float32) * -0.5)\n"
        "e = e.to(device=q.device)\ny = q * e",
        "unsafe",
    ),
    "cast to a dtype": ("y = torch.ones(3, 4).to(x.dtype).view(4, 3).to(q.device)", "safe"),
    "of a dtype": ("y = torch.eye(3).type(torch.float64).to(q.device)", "safe"),
    "a number that is cast": ("y = torch.full((3,), 0.3).to(torch.float16).to(q.device)", "unsafe"),
    "sizes": ("y = torch.LongTensor(3, 4).fill_(7).to(q.device)", "safe"),
    "sizes, and nothing in them": ("y = torch.BoolTensor(q.size()).fill_(0).to(q.device)", "safe"),
    "sizes, and ones": ("y = torch.Tensor(3, 4).fill_(1.0).view(4, 3).to(q.device)", "safe"),
    "sizes that are zeroed": (
        "y = torch.LongTensor(3).zero_()\nif q.is_cuda:\n    y = y.cuda()",
        "safe",
    ),
    "sizes of a float": ("y = torch.Tensor(3, 4).fill_(2).type_as(q)", "safe"),
    "two moves": ("y = torch.ones(3, 4).type_as(q).to(q.device)", "safe"),
    "a row that is spread and compared": (
        "m = torch.arange(4).expand(3, -1).to(q.device)\ny = (m < q.argmax(1, True)).float()",
        "safe",
    ),
    "a spread row of a name that is compared": (
        "m = torch.arange(4)[None].expand_as(q)\nif q.is_cuda:\n    m = m.cuda()\n"
        "y = (q.argmax(1, True) >= m) * 1.0",
        "safe",
    ),
    "a spread row in an expression": (
        "y = (torch.arange(4).expand(3, 4).to(q.device) == q.argmin(1, True)).float()",
        "safe",
    ),
    "a spread row that is added": (
        "m = torch.ones(4).expand(3, 4).to(q.device)\ny = m + q",
        "unsafe",
    ),
    "a spread row that is compared and added": (
        "m = torch.ones(4).expand(3, 4).to(q.device)\ny = (m < q) + m",
        "unsafe",
    ),
    "a spread row that is kept": (
        "m = torch.ones(4).expand(3, 4).to(q.device)\ny = torch.where(m < q, m, q)",
        "unsafe",
    ),
    "a part that is moved": ("m = torch.zeros(6)[::2]\ny = m.to(q.device)", "unsafe"),
    "steps of a schedule": (
        "def at(steps):\n    for i in reversed(steps):\n"
        "        t = (torch.ones(3) * i).to(q.device)\n    return t\n\n"
        "y = at(self.columns_idx) + at(torch.tensor([2.5]))",
        "unsafe",
    ),
    "random": ("keep = torch.randperm(3)[:2]\ny = q[keep]", "unsafe"),
}
"""Lines of a forward that bind `y`, and how safe the fix is."""

SURROUNDINGS = {
    "plain": "{0}",
    "a loop that is left": (
        "for k in range(3):\n{1}\n    if k == 1:\n        break\nelse:\n    y = q"
    ),
    "a loop that goes on": "for k in range(3):\n    if k == 1:\n        continue\n{1}",
    "try and finally": "try:\n{1}\nfinally:\n    done = True",
    "with": "with torch.no_grad():\n{1}",
    "an inner function": "def inner(q):\n    y = None\n{1}\n    return y\n\ny = inner(q)",
    "a branch": "if q.dim() == 2:\n{1}\nelse:\n    y = q * 3",
    "a comment": "# before\n{0}\n# behind",
}


def program(*bodies: str) -> str:
    """Return a program that runs a network for each of these bodies of a forward."""
    nets = [
        NET.replace("{0}", str(number)).replace("{1}", textwrap.indent(body, " " * 8))
        for number, body in enumerate(bodies)
    ]
    return HEAD + "".join(nets)


def repaired(before: str, safety: str = "unsafe") -> str:
    return fixed(before, safety, codes=frozenset({"TL102"})).after or before


def compared(before: str, after: str, target: str = "cpu") -> list[str]:
    """Return in words how the results of two programs differ."""
    (bad, bad_rng), (good, good_rng) = execute(before, target), execute(after, target)
    found = differences("outs", bad["outs"], good["outs"])
    return found if torch.equal(bad_rng, good_rng) else [*found, "another random state"]


def nets(source: str) -> list[str]:
    return source.split("class Net")[1:]


@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("safety", ["safe", "unsafe"])
def test_the_program_computes_the_same(around: str, safety: str) -> None:
    shapes = [lines for lines, how in SHAPES.values() if how == safety and "randperm" not in lines]
    placed = [SURROUNDINGS[around].format(s, textwrap.indent(s, "    ")) for s in shapes]
    before = program(*placed)
    after = repaired(before, safety)
    same = [s for s, a, b in zip(shapes, nets(before), nets(after), strict=True) if a == b]
    if around != "an inner function":  # Of what that is given less is known.
        assert not same, "no fix was offered"
    assert repaired(after, safety) == after
    assert before.count("#") == after.count("#")
    assert not compared(before, after)


def test_nothing_is_left_behind_on_another_device() -> None:
    """On ``meta`` an operation of two devices raises."""
    after = repaired(program(*(lines for lines, _ in SHAPES.values())))
    names, _ = execute(after.replace("q.is_cuda", "True"), "meta")
    assert all(out.device.type == "meta" for out in names["outs"])


GPU = """
import torch
from types import SimpleNamespace


def pick(args, p, model, loader):
    outs = []
    for x in loader:
        x = x.cuda({0})
        y = torch.zeros(3, 4).cuda({0}, non_blocking=True)
        outs.append(model(x) + y)
    return outs


loader = [torch.arange(12.0).reshape(3, 4)]
model = torch.nn.Identity()
outs = []
for gpu in (None, 0, "cuda:0", torch.device("cuda")):
    args = SimpleNamespace(gpu=gpu, gpus=[gpu])
    outs += pick(args, {{"gpu": gpu, 0: gpu}}, model, loader)
"""


@pytest.mark.parametrize("gpu", ["args.gpu", "p['gpu']", "p[0]"])
def test_the_current_gpu_that_none_names_stays_the_one(gpu: str) -> None:
    before = GPU.format(gpu).replace("{{", "{").replace("}}", "}")
    after = repaired(before, "safe")
    assert f'device="cuda" if {gpu} is None else {gpu}' in after
    for target in ("cpu", "meta"):
        names, _ = execute(after, target)
        assert {out.device.type for out in names["outs"]} == {target}
    assert not compared(before, after)


@pytest.mark.parametrize("gpu", ["args.gpus.pop()", "p[len(p) - 2]"])
def test_what_names_a_gpu_only_once_is_evaluated_once(gpu: str) -> None:
    before = GPU.format(gpu).replace("{{", "{").replace("}}", "}")
    assert repaired(before, "safe") == before


def test_what_may_change_is_not_called_safe() -> None:
    before = program(*(lines for lines, safety in SHAPES.values() if safety == "unsafe"))
    assert repaired(before, "safe") == before


NEAR = {
    "items that may be anything": (
        "def at(steps):\n    for i in steps:\n        t = (torch.ones(3) * i).to(q.device)\n"
        "    return t\n\ny = at(index)"
    ),
    "goes to the host as well": "m = torch.arange(3)\nrows = m.tolist()\ny = q[m]",
    "is returned": "m = torch.arange(3)\nself.kept = m\ny = q[m]",
    "meets a tensor of the host": "m = torch.arange(3) + torch.tensor([0, 0, 0])\ny = q[m]",
    "is bound by a walrus": "y = q[(m := torch.arange(3))]",
    "is read by a closure": "m = torch.arange(3)\nshow = lambda: m.tolist()\ny = q[m]",
    "is grown in place": "m = torch.arange(3)\nm += torch.tensor([0, 0, 0])\ny = q[m]",
    "the device is not known yet": (
        "m = torch.arange(3)\nz = net.layer(x) if step else x\ny = z[m] if step else q"
    ),
    "the original is used again": (
        "m = torch.zeros(3)\nd = m.to(q.device)\nd.add_(1)\ny = d + m.to(q.device)"
    ),
    "a view's original is used again": (
        "m = torch.zeros(3)\nv = m.view(3, 1)\nd = v.to(q.device)\nd.add_(1)\ny = m.to(q.device)"
    ),
    "made once and moved in the loop": (
        "m = torch.zeros(3)\nfor k in range(2):\n    d = m.to(q.device)\n    d.add_(1)\n    y = d"
    ),
    "moved on a condition": (
        "m = ~torch.eye(3, dtype=torch.bool)\nif flag:\n    m = m.to(q.device)\ny = q * m[:, :1]"
    ),
    "may be another branch's": (
        "m = torch.arange(3)\nif step:\n    m = torch.tensor([0, 1])\ny = q[m]"
    ),
    "unknown index": "y = q[:, [index]]",
    "counts down": "for i in range(2, -1, -1):\n    y = q[:, [i]]",
    "with another index": "y = q[[0, 1], q.argmax(1)[:2]]",
    "neighbours of a bound": "y = q[:, [2, index]]",
    "bound in branches of two": (
        "if flag:\n    p = q + 1\nif step:\n    p = q\nrows = torch.arange(3)\ny = p[rows]"
    ),
    "bound in two of three branches": (
        "if flag:\n    p = q + 1\nelif step:\n    pass\nelse:\n    p = q\n"
        "rows = torch.arange(3)\ny = p[rows]"
    ),
    "a list of a range with steps": "y = q[list(range(0, 3, 2))]",
    "a list of more than a range": "y = q[list(map(int, range(3)))]",
    "range beside a list": "at = [0, 2, 1]\ny = q[range(3), at]",
    "range as a list beside a list that grows": (
        "at = []\nfor k in range(3):\n    at.append(x.size(0) - 1)\ny = q[list(range(len(at))), at]"
    ),
    "range beside an array": ("import numpy as np\nat = np.arange(3)\ny = q[range(3), at]"),
    "factory beside a list": "at = [0, 2, 1]\ny = q[torch.arange(3), at]",
    "range beside a tensor of the host": "y = q[range(3), torch.tensor([0, 2, 1])]",
    "a range with steps": "y = q[range(0, 3, 2)]",
}


DOWN = (
    "y = q[range(step, len(q)), 0]",
    "n = len(q) - 2\ny = q[range(n), 0]",
    "n = max(step, int('2'))\ny = q[range(n), 0]",
    "n = min(len(q), int('2'))\ny = q[range(n), 0]",
    "n = int('1')\ny = q[range(n, 2 * n), 0]",
    "n = len(q) // 3\ny = q[range(n, n * 1 + int('1')), 0]",
    "bs = int('2')\ny = q[range(1, bs), 0]",
    "bs = int('2')\ny = q[range(bs - 1), 0]",
    "steps = int('2')\ny = q[range(steps), 0]",
    "n = len(q) // 3\ny = q[range(n, n - 0), 0]",
)
"""Ranges of which nothing says that they do not end below their start."""


def test_a_range_that_may_count_down_is_not_called_safe() -> None:
    before = program(*DOWN)
    assert repaired(before, "safe") == before
    pairs = zip(DOWN, nets(before), nets(repaired(before)), strict=True)
    assert not [line for line, old, new in pairs if old == new]


def test_no_fix_where_a_use_is_not_known_to_go_on() -> None:
    before = program(*NEAR.values())
    pairs = zip(NEAR, nets(before), nets(repaired(before)), strict=True)
    assert not [name for name, old, new in pairs if old != new]


def test_what_a_mask_of_somebody_else_fills_stays() -> None:
    for mask in ("self.mask", "given", "x.cpu() > 1", "torch.tensor(self.columns_idx) > 1"):
        line = f"low = torch.zeros(3, 4).masked_fill({mask}, 2.5).to(q.device)\ny = q + low"
        source = program(line)
        assert repaired(source) == source


def test_a_shared_name_stays() -> None:
    before = program("global kept\nkept = torch.arange(3)\ny = q[kept]")
    assert repaired(before) == before


def test_a_keyword_gets_a_line_where_arguments_have_lines() -> None:
    lines = "y = torch.zeros(\n    3,\n    4,\n).to(q.device)\nz = torch.zeros(\n    3, 4\n)"
    after = repaired(program(lines))
    assert "            3,\n            4,\n            device=q.device,\n        )\n" in after


SUBCLASS = """
import torch
from torch import nn

seen = []


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        seen.append((function.__name__, len(args), sorted(kwargs or {})))
        return super().__torch_function__(function, types, args, kwargs or {})


class Padded(nn.Module):
    def forward(self, x):
        n = x.size(0)
        pad = torch.ones(x.size(0), 2).float().to(x.device)
        more = (1.0 - torch.eye(3)).unsqueeze(0)
        more = more.to(x.device)
        last = torch.zeros(3, 2, dtype=x.dtype).to(x.device)
        return torch.cat([x, pad], dim=1)[:n].sum() + more.sum() + last.sum()


device = torch.device("cuda")
padded = Padded().to(device)
out = padded(torch.ones(3, 2).to(device).as_subclass(Logged))
"""


@pytest.mark.parametrize(
    "made",
    [
        "torch.ones(x.size(0), 2).float().to(x.device)",
        "x[torch.arange(3)]",  # The index is handed to the tensor's class.
        "torch.zeros_like(x.cpu()).to(x.device)",
        "torch.zeros(3, 2).to(x)",
        "torch.zeros(3, 2).view_as(x).to(x.device)",
        "torch.zeros(x.sum(), 2).to(x.device)",
    ],
)
def test_what_a_class_of_tensors_may_see_is_not_called_safe(made: str) -> None:
    before = SUBCLASS.replace("torch.ones(x.size(0), 2).float().to(x.device)", made)
    assert made in repaired(before, "safe")


TRACED = """
import torch
from torch import nn


class Padded(nn.Module):
    def forward(self, x):
        pad = torch.ones(x.size(0), 2).to(x.dtype).to(x.device)
        eye = (1.0 - torch.eye(2)).to(x.device)
        return torch.cat([x, pad * 3], dim=1), x @ eye


device = torch.device("cuda")
x = torch.arange(6.0, device=device).view(3, 2)
padded = Padded().to(device)
traced = torch.jit.trace(padded, x)
out = [traced(x), traced(torch.ones(5, 2)), padded(x)]
"""


def test_what_is_traced_computes_the_same() -> None:
    """A trace records the device that a factory or a move was given as a constant, either way."""
    after = repaired(TRACED, "safe")
    assert after.count("device=x.device") == 2, after
    (bad, _), (good, _) = execute(TRACED), execute(after)
    assert not differences("out", bad["out"], good["out"])


MAYBE_NONE = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x: torch.Tensor, label: {0} = None):
        rows = torch.arange(4)
        {1}:
            x = x + label[rows].sum()
        return x


net = Net().cuda()
for step in range(100):
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    net(x, torch.randn(4, device="cuda")).sum().backward()
"""


@pytest.mark.parametrize("test", ["if label is not None", "if x.dim() == 2 and label is not None"])
def test_what_may_be_none_gives_no_device_outside_of_the_test(test: str) -> None:
    text = MAYBE_NONE.format("torch.Tensor | None", test)
    assert fixed(text, "unsafe", codes=frozenset({"TL102"})).after == ""


def test_what_is_always_given_gives_its_device_inside_of_any_test() -> None:
    text = MAYBE_NONE.format("torch.Tensor", "if x.dim() == 2").replace(" = None):", "):")
    after = fixed(text, "unsafe", codes=frozenset({"TL102"})).after
    assert "torch.arange(4, device=label.device)" in after


CAUSAL = """\
import torch
from torch import nn
{line}


class Decoder(nn.Module):
    def mask(self, size):
        mask = torch.triu(torch.ones(size, size)) == 1
        mask = mask.float().masked_fill(mask == 0, float("-inf"))
        return mask.to({device})

    def forward(self, x):
        return x + self.mask(x.shape[0])
"""


@pytest.mark.parametrize(
    ("line", "device", "made"),
    [
        ("from config import DEVICE", "DEVICE", True),
        ("import config", "config.DEVICE", True),
        ("from config import *", "DEVICE", False),
        ("def chosen():\n    from config import DEVICE", "DEVICE", False),
    ],
)
def test_a_device_that_an_import_binds_is_seen_in_each_function(
    tmp_path: Path, line: str, device: str, made: bool
) -> None:
    (tmp_path / "config.py").write_text("import torch\n\nDEVICE = torch.device('cuda')\n")
    source = CAUSAL.format(line=line, device=device)
    codes = frozenset({"TL102"})
    report = fixed(source, "unsafe", codes=codes, name="net.py", root=str(tmp_path))
    assert (f"torch.ones(size, size, device={device})" in report.after) is made
