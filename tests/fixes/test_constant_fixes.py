"""Constants that a network builds in each forward are filled on the device or kept as buffers:
programs run before and after, and must agree."""

from __future__ import annotations

import textwrap

import pytest

from tests.checking import check, fixed

torch = pytest.importorskip("torch")

from tests.executed import differences, execute  # noqa: E402 - it imports torch

HEAD = """\
import numpy as np
import torch
from torch import nn
from torch.autograd import Variable

device = torch.device("cuda")
outs = []
"""
NET = """

class Net{0}(nn.Module):
    def __init__(self, width=3, weight=0.5):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.width = width
        self.weight = weight

    def forward(self, x):
        q = self.layer(x)
        y = None
{1}
        return q.sum() * 0 + y.sum(), y


net{0} = Net{0}().to(device)
for step in range(2):
    loss, y = net{0}(torch.ones(3, 3, device=device))
    loss.backward()
    outs.extend((loss.detach(), y.detach()))
outs.append(sorted(net{0}.state_dict()))
"""

SHAPES = {
    "one number": ("y = q + torch.FloatTensor([1e-8]).to(q.device)", "safe"),
    "nothing": ("y = q + torch.Tensor([0]).to(q.device)", "safe"),
    "ones": ("y = q * torch.LongTensor([1, 1, 1]).to(q.device)", "safe"),
    "whole numbers": ("y = q * torch.tensor([7]).to(q.device)", "safe"),
    "below nothing": ("y = q * torch.tensor([-0.25, -0.25, -0.25]).to(q.device)", "safe"),
    "a range": ("y = torch.tensor(range(len(q)), dtype=torch.long, device=q.device)", "safe"),
    "a range of an attribute": ("y = torch.tensor(range(self.width)).to(q.device)", "unsafe"),
    "a range of floats": ("y = torch.Tensor(list(range(3))).unsqueeze(1).cuda() * q", "unsafe"),
    "an array of a range": (
        "y = q * torch.from_numpy(np.asarray(range(0, len(q)))).long().cuda()",
        "safe",
    ),
    "an array of a range, moved to a device that has a name": (
        "where = torch.device('cuda')\n"
        "y = q * torch.from_numpy(np.array(list(range(q.size()[0])))).long().to(where)",
        "safe",
    ),
    "an array of a range that is not cast": (
        "y = q * torch.from_numpy(np.asarray(range(0, len(q)))).cuda()",
        "unsafe",
    ),
    "an array of a range of an attribute": (
        "y = q * torch.from_numpy(np.array(range(self.width))).long().cuda()",
        "unsafe",
    ),
    "an attribute": ("y = torch.tensor(self.weight).to(q.device) * q", "unsafe"),
    "several numbers": ("row = torch.tensor([1.0, 0.0, 2.0]).to(q.device)\ny = q * row", "safe"),
    "views": (
        "row = torch.tensor([1.0, 0.0, 2.0]).unsqueeze(-1)[None][0].to(x.device)\ny = q * row",
        "safe",
    ),
    "views in lines": (
        "row = torch.tensor([1, 0, 2])\\\n    .view(1, -1)[None, 0].float()\\\n"
        "    .cuda()\ny = q * row",
        "safe",
    ),
    "a view of what differs": (
        "row = torch.tensor([1.0, 0.0, 2.0]).view(-1, 1).view(len(q), 1).to(q.device)\ny = q * row",
        "safe",
    ),
    "the device under a name": (
        "device = x.device\nrow = torch.tensor([1.0, 0.0, 2.0]).view(1, 3).to(device)\ny = q * row",
        "safe",
    ),
    "an array": (
        "eye = Variable(torch.from_numpy(np.eye(self.width).flatten().astype(np.float32)))"
        ".view(1, 9).repeat(3, 1)\n"
        "if q.is_cuda:\n    eye = eye.cuda()\ny = q.repeat(1, 3) + eye",
        "safe",
    ),
}

SURROUNDINGS = {
    "plain": "{0}",
    "a loop that is left": (
        "for k in range(3):\n{1}\n    if k == 1:\n        break\nelse:\n    y = q"
    ),
    "try and finally": "try:\n{1}\nfinally:\n    done = True",
    "with": "with torch.no_grad():\n{1}",
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
    return fixed(before, safety, codes=frozenset({"TL106"})).after or before


def nets(source: str) -> list[str]:
    return source.split("class Net")[1:]


@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("safety", ["safe", "unsafe"])
def test_the_program_computes_the_same(around: str, safety: str) -> None:
    shapes = [lines for lines, how in SHAPES.values() if how == safety]
    before = program(*(SURROUNDINGS[around].format(s, textwrap.indent(s, "    ")) for s in shapes))
    after = repaired(before, safety)
    pairs = zip(shapes, nets(before), nets(after), strict=True)
    assert not [s for s, old, new in pairs if old == new], "no fix was offered"
    assert repaired(after, safety) == after
    assert before.count("#") == after.count("#")
    (bad, bad_rng), (good, good_rng) = execute(before), execute(after)
    assert not differences("outs", bad["outs"], good["outs"])
    assert torch.equal(bad_rng, good_rng)


def test_what_may_change_is_not_called_safe() -> None:
    before = program(*(lines for lines, safety in SHAPES.values() if safety == "unsafe"))
    assert repaired(before, "safe") == before


KEPT = program(SHAPES["several numbers"][0])
CONVERTED = (
    "net0.half()\n",
    "net0.to(dtype=torch.bfloat16)\n",
    "net0.type(torch.float64)\n",
    "torch.set_default_dtype(torch.float64)\n",
    "import deepspeed\n",
    "print(len(list(net0.buffers())))\n",
    "torch.save(net0, 'net.pt')\n",
    "import pickle\npickle.dump(self.best_model, file)\n",
    "net = torch.jit.script(net0)\n",
    "state = {'net': net, 'acc': 1}\ntorch.save(state, 'net.pt')\n",
    "torch.save({'model': self.best_model.module if parallel else None}, 'net.pt')\n",
    "torch.save({\n    'G': netG,\n    'D': netD\n}, 'net.pt')\n",
    "big = net0.cuda(1)\n",
    "torch.Tensor.to = print\n",
)
NOT_CONVERTED = (
    "torch.save(net0.state_dict(), 'net.pt')\n",
    "torch.save({'model': net0.state_dict(), 'step': 3}, 'net.pt')\n",
    "import pickle\npickle.dump(rows, file)\n",
    "net0.to(device, non_blocking=True)\n",
    "labels = outs[0].type(torch.LongTensor)\n",
    "rows = np.ones(3).astype(np.float64)\n",
    "halfway = 3\n",
    "config = {'net': args.net, 'model': model_name, 'network': 'small'}\n",
    "kept = {'model': model(x), 'net': net.layer}\n",
    "train(model=model, net=net)\n",
)


@pytest.mark.parametrize("line", CONVERTED)
def test_a_buffer_is_unsafe_where_the_network_may_change_with_it(line: str) -> None:
    assert repaired(KEPT + line, "safe") == KEPT + line
    assert "persistent=False" in repaired(KEPT + line)


@pytest.mark.parametrize("line", NOT_CONVERTED)
def test_a_buffer_is_safe_where_the_network_stays_as_it_is(line: str) -> None:
    assert "persistent=False" in repaired(KEPT + line, "safe")


@pytest.mark.parametrize("device", ["q.device", "x.device"])
def test_a_buffer_goes_to_where_the_constant_went(device: str) -> None:
    before = KEPT.replace("q.device", device)
    assert f"row = self._row.to({device})\n" in repaired(before, "safe")


NEAR = {
    "written in place": "row = torch.tensor([1.0, 2.0, 3.0]).to(q.device)\nrow += 1\ny = q * row",
    "a cast of it written in place": (
        "row = torch.tensor([1, 2, 3]).float().view(1, 3).to(q.device)\nrow += 1\ny = q * row"
    ),
    "a repetition written in place": (
        "row = torch.tensor([1.0, 2.0]).repeat(3).to(q.device)\nrow[0] = 1\ny = q * row[:3]"
    ),
    "kept elsewhere": (
        "row = torch.tensor([1.0, 2.0, 3.0]).to(q.device)\nself.row = row\ny = q * row"
    ),
    "handed on": "row = torch.tensor([1.0, 2.0, 3.0]).to(q.device)\nshow(row)\ny = q * row",
    "the name is taken": (
        "row = torch.tensor([1.0, 2.0, 3.0]).to(q.device)\ny = q * row * self._row"
    ),
    "two names": "row = other = torch.tensor([1.0, 2.0, 3.0]).to(q.device)\ny = q * row * other",
    "a leaf": "row = torch.tensor([0.5], requires_grad=True).to(q.device)\ny = q * row",
}


def test_nothing_is_offered_where_more_would_change() -> None:
    before = program(*NEAR.values())
    pairs = zip(NEAR, nets(before), nets(repaired(before)), strict=True)
    assert not [name for name, old, new in pairs if old != new]
    assert check(before, codes=frozenset({"TL106"})).findings


@pytest.mark.parametrize(
    ("line", "buffer", "use"),
    {
        "views": (
            "row = torch.tensor([1, 2, 3]).view(1, 3)[None].float().to(x.device)",
            "torch.tensor([1, 2, 3]).view(1, 3)[None].float()",
            "row = self._row.to(x.device)\n",
        ),
        "what a layer gives": (
            "row = torch.tensor([1, 2, 3]).to(q.device)",
            "torch.tensor([1, 2, 3])",
            "row = self._row.to(q.device)\n",
        ),
        "another device": (
            "row = torch.tensor([1, 2, 3]).view(1, 3).to(device)",
            "torch.tensor([1, 2, 3]).view(1, 3)",
            "row = self._row.to(device)\n",
        ),
        "a dtype besides": (
            "row = torch.tensor([1, 2, 3]).view(1, 3).to(x.device, torch.float64)",
            "torch.tensor([1, 2, 3]).view(1, 3)",
            "row = self._row.to(x.device, torch.float64)\n",
        ),
        "an input that is bound anew": (
            "x = x * 2\nrow = torch.tensor([1, 2, 3]).to(x.device)",
            "torch.tensor([1, 2, 3])",
            "row = self._row.to(x.device)\n",
        ),
    }.values(),
)
def test_what_becomes_of_views_and_moves(line: str, buffer: str, use: str) -> None:
    after = repaired(program(f"{line}\ny = q * row"))
    assert f'"_row", {buffer}, persistent=False' in after
    assert use in after


def test_the_line_of_a_buffer_is_broken_where_it_is_too_long_for_the_file() -> None:
    before = program("row = torch.tensor([1, 2, 3]).view(1, 3).to(x.device)\ny = q * row")
    line = 'self.register_buffer("_row", torch.tensor([1, 2, 3]).view(1, 3), persistent=False)'
    assert f"\n        {line}\n" not in repaired(before)
    wide = before + f"x = {[0] * 30}\n"
    assert f"\n        {line}\n" in repaired(wide)


def test_the_move_stays_in_a_class_without_layers() -> None:
    before = program("row = torch.tensor([1, 2, 3]).view(1, 3).to(x.device)\ny = q * row")
    before = before.replace("self.layer(x)", "x + 1").replace("self.layer = nn.Linear(3, 3)", "")
    assert "row = self._row.to(x.device)\n" in repaired(before)


def test_a_buffer_needs_a_constructor_of_its_own() -> None:
    before = program(SHAPES["several numbers"][0]).replace("super().__init__()", "pass")
    assert repaired(before) == before


def test_what_moves_a_buffer_goes_with_it() -> None:
    before = program(SHAPES["an array"][0])
    (net,) = nets(repaired(before))
    assert "is_cuda" not in net
    assert "Variable(" not in net
    for kept in ("if q.is_cuda:  # old", "if q.is_cuda and self.width:"):
        (net,) = nets(repaired(before.replace("if q.is_cuda:", kept)))
        assert kept in net
