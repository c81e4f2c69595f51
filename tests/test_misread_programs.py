"""Programs of which something false was said, and near misses of which it is true: a line that ends
in ``# TL101`` has that finding with the default rules, any other line has none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.checking import check
from tests.semantic.test_unused import project_of
from tests.semantic.test_values import value_of
from torchlint.catalog.rules import load_catalog
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job
from torchlint.testing.source import job

_MARK = re.compile(r"#((?: TL\d{3})+)$")
DEFAULT = frozenset(info.code for info in load_catalog().rules if info.default)


def marked(text: str) -> list[tuple[int, str]]:
    """Return the rows and codes that a program's comments announce."""
    return [
        (row, code)
        for row, line in enumerate(text.splitlines(), 1)
        if (found := _MARK.search(line)) is not None
        for code in found[1].split()
    ]


def found_in(root: Path, files: dict[str, str], name: str) -> list[tuple[int, str]]:
    """Return the rows and codes of the findings in one file of a project."""
    project_of(root, files)
    forget()
    asked = job(files[name], name=name, codes=DEFAULT, root=str(root.resolve()))
    found = ((each.start.row, each.code) for each in analyse_job(asked).findings)
    return sorted(set(found))


HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda")
model = nn.Linear(8, 8).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


"""
STEP = """
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

PROGRAMS = {
    # All steps of a function stand in its own loop, whatever its name says.
    "a step that holds a whole fit": """\
def _train_step(storage):
    total = torch.zeros(1, device=device)
    for batch in storage.sample(4, 5):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return {"loss": (total / 20).item()}


def update(storage):
    return _train_step(storage)
""",
    "a batch that is fitted in rounds": """\
class Agent:
    def train_batch(self, batch):
        for _ in range(40):
            loss = model(batch.to(device, non_blocking=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()
""",
    "steps that go over a whole loader": """\
class Trainer:
    def fit(self):
        for epoch in range(self.epochs):
            self._val_step()

    def _val_step(self):
        model.eval()
        total = torch.zeros((), device=device)
        with torch.no_grad():
            for x in self.val_loader:
                total += model(x.to(device, non_blocking=True)).sum()
        torch.cuda.empty_cache()
        return total.item()


def eval_batch(x):
    with torch.no_grad():
        total = model(x).sum()
    torch.cuda.empty_cache()  # TL701
    return total
""",
    "a step with rounds of a critic": """\
def train_step(batch, critic, critic_optimizer):
    for _ in range(5):
        loss = critic(model(batch)).mean()
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
    loss = -critic(model(batch)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()  # TL101


def fit(batches, critic, critic_optimizer):
    return [train_step(each, critic, critic_optimizer) for each in batches]
""",
    # One step, to see whether training works.
    "gradients that are verified": """\
def verify_gradients(loader, criterion):
    x, y = next(iter(loader))

    def run_once():
        model.zero_grad()
        loss = criterion(model(x.cuda()), y.cuda())
        loss.backward()
        return loss.item(), sum(p.grad.norm().item() for p in model.parameters())

    return run_once()
""",
    "a sanity check": """\
def sanity_check(x):
    loss = model(x.to(device)).mean()
    loss.backward()
    optimizer.step()
    return loss.item()
""",
    "a check that each step calls": """\
def check_step(x):
    loss = model(x).mean()
    loss.backward()
    return loss.item()  # TL101


def train(loader):
    for x in loader:
        optimizer.zero_grad()
        check_step(x.to(device, non_blocking=True))
        optimizer.step()
""",
    # What is asked of a mapping with a flag as the default is a flag.
    "flags of a batch": f"""\
def train(loader):
    for batch in loader:
        batch = {{k: v.to(device, non_blocking=True) for k, v in batch.items()}}
        x = batch["x"]
        if batch.get("double", False):
            x = x * 2
        if bool(batch.pop("shift", True)):
            x = x + 1
{STEP}
""",
    "a flag that a module is handed": """\
class Net(nn.Module):
    def forward(self, batch):
        x = batch["x"].float()
        return x * 2 if batch.get("double", False) else x
""",
    "a tensor of a batch": f"""\
def train(loader):
    for batch in loader:
        batch = {{k: v.to(device, non_blocking=True) for k, v in batch.items()}}
        x = batch["x"]
        if batch.get("double").sum() > 0:  # TL602
            x = x * 2
{STEP}
""",
    # Parts of one batch lie where its other parts do.
    "the place of another part": f"""\
def prepare(batch):
    token = batch["token"]
    place = token.device
    mask = batch["mask"].to(device=place, dtype=torch.float32)
    return token * mask / batch["size"].to(token.device)


def train(loader):
    for batch in loader:
        x = prepare(batch)
{STEP}
""",
    "one of a pair": f"""\
def train(loader):
    for x, y in loader:
        y = y.to(x.device)
        x = x.to(device, non_blocking=True)
{STEP}
""",
    "the place of a part that has been moved": f"""\
def prepare(batch):
    token = batch["token"].to(device, non_blocking=True)
    mask = batch["mask"].to(token.device)  # TL103
    return token * mask


def train(loader):
    for batch in loader:
        x = prepare(batch)
{STEP}
""",
    # A method of tensors that has parts is an attribute of something else.
    "edges that know their size": """\
def train(loader):
    for n, ids, edges in loader:
        edges = [edge.to(device, non_blocking=True) for edge in edges]
        out = model(ids.to(device, non_blocking=True))
        if edges[1].size[0][0] > 3:
            print(edges[1].size[0][0])
        if edges[0].sum() > 3:  # TL602
            print("many")
        optimizer.zero_grad()
        out.sum().backward()
        optimizer.step()
""",
    # What has no item() is no tensor.
    "a number or a tensor": """\
def totals(criterion, loader):
    errors = {"a": 0.0}
    with torch.no_grad():
        for x, y in loader:
            loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
            value = float(loss.item() if hasattr(loss, "item") else loss)  # TL101
            errors["a"] += value * x.size(0)
    return errors
""",
    # A module's own methods take no tensors.
    "weights that are loaded": """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def features(self, x, weights):
        if weights:
            self.load_state_dict(weights)
        return self.fc(x)

    def forward(self, x, weights=None):
        return self.features(x, weights)
""",
    "weights that a layer takes": """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x, weights):
        if weights.sum() > 0:  # TL602
            x = self.fc(weights)
        return self.fc(x)
""",
    # What a function of somebody else does on the host, torch has no word for.
    "a function that the caller gives": """\
class Physics(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, solve, jacobian):
        ctx.jacobian = jacobian
        ctx.save_for_backward(x)
        out = solve(x.detach().cpu().numpy())
        return torch.tensor(out, dtype=x.dtype).to("cuda")

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        jacobian = ctx.jacobian
        made = jacobian(x.detach().cpu().numpy())
        return grad * torch.tensor(made, dtype=x.dtype).to("cuda"), None, None
""",
    "a function that the object keeps": """\
class Symbolic(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        found = self.block(x.detach().cpu().numpy())
        return torch.tensor(found, dtype=x.dtype).to(x.device)
""",
    "what torch has words for": """\
class Own(nn.Module):
    def forward(self, x):
        found = np.sqrt(x.detach().cpu().numpy())  # TL104
        return torch.tensor(found, dtype=x.dtype).to(x.device)
""",
    # No network on a device takes a tensor of the host.
    "samples that the network is given": """\
class Made(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 16)

    def forward(self, x):
        return self.net(x)

    def sample(self, n, context):
        with torch.no_grad():
            samples = torch.zeros(n, 8)
            for feature in range(8):
                samples[:, feature] = self.forward(samples)[:, 0]
        return samples + context
""",
    "samples that are only kept": """\
class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)

    def sample(self, x):
        with torch.no_grad():
            samples = torch.zeros(len(x), 8)  # TL102
            for feature in range(8):
                x = self.net(x)
                samples[:, feature] = x[:, 0]
        return samples
""",
    # Several things at once need not have one size.
    "weights beside outputs of each scale": """\
class Scales(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.register_buffer("weights", torch.ones(4))

    def forward(self, image_list, noise_list):
        targets = [
            image * weight - noise
            for weight, image, noise in zip(self.weights, image_list, noise_list)
        ]
        total = 0.0
        for output, target, weight in zip(self.net(image_list), targets, self.weights):
            total += F.mse_loss(output, target) * weight
        return total
""",
    # What NumPy takes lies on the host, and all that is computed of it.
    "an image of the host": """\
class Image(nn.Module):
    def forward(self, x):
        high = x.amax(dim=(-2, -1))
        low = x.amin(dim=(-2, -1))
        x.sub_(low).div_(max(high - low, 1e-5))
        return x.mul(255).clamp_(0, 255).to(torch.uint8).numpy()
""",
    "an image that is brought to the host": """\
class Image(nn.Module):
    def forward(self, x):
        high = x.amax(dim=(-2, -1))
        low = x.amin(dim=(-2, -1))
        x.sub_(low).div_(max(high - low, 1e-5))  # TL602
        return x.mul(255).clamp_(0, 255)
""",
    # A network's state is put aside as a whole, and what a comment explains is on purpose.
    "the state of a network": f"""\
def put_aside(state_dict):
    return {{k: v.cpu() for k, v in state_dict.items()}}


def train(loader, kept):
    for x in loader:
        x = x.to(device, non_blocking=True)
{STEP}
        kept.append(put_aside(model.state_dict()))
        kept.append({{k: v.detach().cpu() for k, v in model.state_dict().items()}})
""",
    "rows that spare the device": f"""\
def train(loader, rows):
    for x in loader:
        x = x.to(device, non_blocking=True)
{STEP}
        # Keep on the CPU: the rows of an epoch do not fit into GPU memory.
        rows.append(loss.detach().cpu())
""",
    "rows of which nothing is said": f"""\
def train(loader, rows):
    for x in loader:
        x = x.to(device, non_blocking=True)
{STEP}
        rows.append(loss.detach().cpu())  # TL113
""",
    # What a call asks for by name decides which branches it takes.
    "results that are asked for by name": """\
class Trainer:
    def train(self, loader):
        for x in loader:
            if self.shows:
                loss, got = self.run(x, get=["gen"])
            else:
                loss, _ = self.run(x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def run(self, x, get=[], mode="plain"):
        out = model(x.cuda(non_blocking=True))
        got = {}
        for name in get:
            if name == "gen":
                got[name] = out.detach().cpu()  # TL113
            elif name == "style":
                got[name] = out.detach().cpu().mean()
        if "mask" in get:
            got["mask"] = out.max().item()
        if mode == "debug":
            got["debug"] = out.min().item()
        if mode == "plain":
            got["plain"] = out.sum().item()  # TL101
        return out.mean(), got
""",
    "results that are asked for by a variable": """\
def train(loader, wanted):
    for x in loader:
        loss = run(x, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def run(x, get=()):
    out = model(x.cuda(non_blocking=True))
    if "mask" in get:
        print(out.max().item())  # TL105
    return out.mean()
""",
    "results that are handed on by name": """\
def train(loader):
    for x in loader:
        loss = outer(x, "fast")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def outer(x, mode):
    return run(x, mode=mode)


def run(x, mode):
    out = model(x.cuda(non_blocking=True))
    if mode == "slow":
        print(out.max().item())
    if mode == "fast":
        print(out.min().item())  # TL105
    return out.mean()
""",
    # A network that a function makes and nothing moves stays on the host.
    "a network of the host": """\
def information(x, epochs, layers):
    net = nn.Sequential(nn.Linear(x.shape[1], 8), nn.ReLU(), nn.Linear(8, 1))
    opt = torch.optim.Adam(net.parameters())
    bound = 0.0
    for _ in range(epochs):
        mi = net(x).mean()
        opt.zero_grad()
        (-mi).backward()
        opt.step()
        bound = float(mi.detach())
    return bound
""",
    "a layer of the host": """\
def information(x, epochs, layers):
    net = nn.Linear(x.shape[1], 1)
    opt = torch.optim.Adam(net.parameters())
    bound = 0.0
    for _ in range(epochs):
        mi = net(x).mean()
        opt.zero_grad()
        (-mi).backward()
        opt.step()
        bound = float(mi.detach())
    return bound
""",
    "a network that is moved": """\
def information(x, epochs, layers):
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).to(x.device)
    opt = torch.optim.Adam(net.parameters())
    bound = 0.0
    for _ in range(epochs):
        mi = net(x).mean()
        opt.zero_grad()
        (-mi).backward()
        opt.step()
        bound = float(mi.detach())  # TL101
    return bound
""",
    "layers that somebody gives": """\
def information(x, epochs, layers):
    net = nn.Sequential(*layers)
    opt = torch.optim.Adam(net.parameters())
    bound = 0.0
    for _ in range(epochs):
        mi = net(x).mean()
        opt.zero_grad()
        (-mi).backward()
        opt.step()
        bound = float(mi.detach())  # TL101
    return bound
""",
    "a layer that is made on the device": """\
def information(x, epochs, layers):
    net = nn.Linear(8, 1, device=x.device)
    opt = torch.optim.Adam(net.parameters())
    bound = 0.0
    for _ in range(epochs):
        mi = net(x).mean()
        opt.zero_grad()
        (-mi).backward()
        opt.step()
        bound = float(mi.detach())  # TL101
    return bound
""",
    "a console": f"""\
def train(loader, accelerator):
    for x in loader:
        x = x.to(device, non_blocking=True)
{STEP}
        accelerator.print(f"loss {{loss.item():.3f}}")  # TL105
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_said_of_a_program(name: str, tmp_path: Path) -> None:
    source = HEAD + PROGRAMS[name]
    source = source if "np." not in source else f"import numpy as np\n{source}"
    assert found_in(tmp_path, {"lib.py": source, **USES}, "lib.py") == marked(source)


USES = {"use.py": "from lib import *\n"}

NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)  # .cuda()

    def forward(self, x):
        y = self.fc(x)
        return y if y.sum() > 0 else -y
"""
MAIN = """\
import torch

from net import Net


def main():
    net = Net()  # .cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(100):
        loss = net(torch.randn(4, 8)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""
_SETUP = "from setuptools import setup\nsetup(name='nets', packages=['.'], description='Nets.')\n"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, False),
        ({"main.py": MAIN.replace("Net()  # .cuda()", "Net().cuda()")}, True),
        ({"main.py": MAIN.replace("Net()", "to_best(Net())"), "on.py": "device = 'cuda'\n"}, False),
        ({"other.py": "from net import Net\n\nnet = Net().to('cuda')\n"}, True),
        ({"main.py": MAIN.replace("loss.backward()", "pass")}, True),
        ({"setup.py": _SETUP}, True),
        ({"net.py": NET.replace("(x)\n        return", "(x.to(place()))\n        return")}, False),
    ],
)
def test_a_program_of_which_no_file_speaks_of_an_accelerator(
    changed: dict[str, str], said: bool, tmp_path: Path
) -> None:
    """What is commented out moves nothing, also where the network stands in a file of its own."""
    files = {"net.py": NET, "main.py": MAIN, **changed}
    assert bool(found_in(tmp_path, files, "net.py")) is said


FLOW = """\
import torch
from torch import nn


class Flow(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = nn.Linear(8, 8)

    def forward(self, x):
        return self.net(x), self.net(x + 1)

    def inverse(self, z):
        x = torch.zeros_like(z)
        for _ in range(25):
            found, _ = self.forward(x)
            x = torch.where(found > z, x - 1, x + 1)
        return x
"""


@pytest.mark.parametrize("elsewhere", ["from flow import Flow\n\nprint(Flow(None)(1))\n", ""])
def test_what_one_caller_of_forward_drops_another_may_use(elsewhere: str, tmp_path: Path) -> None:
    files = {"flow.py": FLOW, "use.py": elsewhere}
    row = FLOW[: FLOW.index("return self.net(x), ")].count("\n") + 1
    rows = [row for row, code in found_in(tmp_path, files, "flow.py") if code == "TL501"]
    assert (row in rows) is not bool(elsewhere)


SAMPLES = """\
import torch
from torch.utils.data import Dataset


class Rows(Dataset):
    def __init__(self, rows, model):
        self.rows, self.model = rows, model.to("cuda")

    def __getitem__(self, index):
        row = self.rows[index].to("cuda")
        return {given}
"""


@pytest.mark.parametrize(
    ("given", "network"),
    [
        ("self.model(row)", True),
        ("self.model.encode_image(row)", True),
        ("self.model.to(row.device)(row)", True),
        ("row * self.scale", False),
        ("row.softmax(0)", False),
    ],
)
def test_a_network_that_runs_for_each_sample(given: str, network: bool) -> None:
    """To return samples of the CPU would be no cure."""
    found = check(SAMPLES.format(given=given), codes=frozenset({"TL206"})).findings
    assert {"a network runs" in each.message for each in found} == {network}


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("if n is not None:\n        n = int(n.sum())", "number"),
        ("if torch.is_tensor(n):\n        n = n.sum().item()", "?"),
        ("if n is None:\n        n = 0\n    else:\n        n = n.sum().item()", "number"),
        ("if n is None:\n        n = torch.zeros(3).cuda()", "tensor"),
        ("if n is not None:\n        m = int(n.sum())", "tensor"),
        ("if flag:\n        n = int(n.sum())", "accumulated"),
    ],
)
def test_what_a_branch_binds_anew_leaves_what_the_test_says_of_the_rest(
    lines: str, kind: str
) -> None:
    source = f"""
def f(net: nn.Module, x, flag):
    n = net(x.cuda()) if flag else None
    {lines}
    probe(n)
"""
    assert value_of(source).kind == kind
