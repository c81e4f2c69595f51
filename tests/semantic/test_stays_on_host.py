"""Code of which nothing is ever moved to a GPU: what its values are, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.semantic.test_project import analysed
from tests.semantic.test_values import value_of
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.value import ACCEL, CPU, CUDA

HEAD = "import torch\nfrom torch import nn\n"
NOTEBOOK = f"""{HEAD}from flows import Flow
class Net(nn.Module): ...
model = Flow(Net())
"""
FLOW = f"""{HEAD}
class Flow(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def loss(self, x):
        MOVE
        return (self.net(x) + t).square().mean()
"""
ELSEWHERE = (
    "import importlib\nimport torch\nfrom flows import flow\n"
    "nets = importlib.import_module('nets')\nnet = nets.Net().cuda()\n"
)


@pytest.mark.parametrize(
    ("move", "accelerated"),
    [
        ("t = torch.rand(len(x)).to(x)", False),
        ("device = x.device\n        t = torch.rand(len(x)).to(device, torch.float32)", False),
        (
            "dtype, device = x.dtype, x.device\n        t = torch.rand(1).to(device).to(dtype)",
            False,
        ),
        ("t = torch.rand(len(x)).to('cuda')", True),
        ("t = torch.rand(len(x)).to(self.device)", True),
        ("device = pick()\n        t = torch.rand(len(x)).to(device)", True),
        ("place = torch.device(0)\n        t = torch.rand(len(x)).to(place)", True),
    ],
)
def test_a_notebook_stays_on_the_host_with_files_that_move_nothing(
    tmp_path: Path, move: str, accelerated: bool
) -> None:
    """A notebook that is called like a module of the library is still imported by nobody."""
    files = {
        "flow.ipynb": NOTEBOOK,
        "flows.py": FLOW.replace("MOVE", move),
        "train_big.py": ELSEWHERE,
    }
    assert on_accelerator(analysed(tmp_path, files, "flow.ipynb")) is accelerated


@pytest.mark.parametrize(
    ("source", "device"),
    [
        ("w = nn.Parameter(torch.zeros(3))\nopt = torch.optim.SGD([w], 0.1)\nprobe(w * 2)", CPU),
        ("def f():\n    w = nn.Parameter(5 * torch.zeros(3))\n    probe((w**2).mean())", CPU),
        ("w = nn.Parameter(torch.zeros(3, device='cuda'))\nprobe(w * 2)", CUDA),
        ("w = nn.Parameter(torch.zeros(3))\nv = torch.relu(w)\nv = v + w.grad\nprobe(v)", CPU),
        ("w = nn.Parameter(torch.zeros(3))\nnet.weight = w\nprobe(w * 2)", ACCEL),
        ("w = nn.Parameter(torch.zeros(3))\nw.data = w.data.cuda()\nprobe(w * 2)", ACCEL),
        (
            "def f(net):\n    w = nn.Parameter(torch.zeros(3))\n    add(net, w)\n    probe(w * 2)",
            ACCEL,
        ),
    ],
)
def test_a_parameter_of_no_module(source: str, device: str) -> None:
    assert value_of(source).device == device


DRAWN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.drawn = {"mask": torch.zeros(3).to(device)}

    def draw(self, x):
        self.drawn["length"] = torch.randint(3, (len(x),)PLACE)

    def forward(self, x):
        probe(self.drawn["KEY"])
"""


@pytest.mark.parametrize(
    ("place", "key", "device"),
    [
        ("", "length", CPU),
        (", device='cpu'", "length", CPU),
        (") + torch.zeros(len(x)", "length", CPU),
        (", device=x.device", "length", ACCEL),
        (").to(x.device", "length", ACCEL),
        ("", "mask", ACCEL),
    ],
)
def test_what_a_class_keeps_under_another_key(place: str, key: str, device: str) -> None:
    assert value_of(DRAWN.replace("PLACE", place).replace("KEY", key)).device == device


SHIFT = """
def shift_gpu(x: torch.Tensor, n):
    return x

def NAME(x: torch.Tensor, n):
    BODY
    probe(x)

class Net(nn.Module):
    def forward(self, x, n):
        shift = shift_gpu if TEST else NAME
        return shift(x, n)
"""


@pytest.mark.parametrize(
    ("name", "body", "test", "device"),
    [
        ("shift_cpu", "n = n + 1", "self.fast", CPU),
        ("shift_rows", "n = n + 1", "x.is_cuda", CPU),
        ("shift_rows", "n = n + 1", "x.device.type == 'cuda'", CPU),
        ("shift_to_cpu", "n = n + 1", "self.fast", ACCEL),
        ("shift_cpu", "n = n.cuda()", "self.fast", ACCEL),
        ("shift_rows", "n = n + 1", "not x.is_cuda", ACCEL),
        ("shift_rows", "n = n + 1", "self.fast", ACCEL),
    ],
)
def test_a_function_for_the_host(name: str, body: str, test: str, device: str | None) -> None:
    source = SHIFT.replace("NAME", name).replace("BODY", body).replace("TEST", test)
    assert value_of(source).device == device


LOOP = """
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
"""
RUN = f"from nets import Net, loader, opt\nmodel = Net().to(device)\nfor _ in range(9):{LOOP}"
GPU = "'gpu' if torch.cuda.is_available() else 'cpu'"
CPU_TEST = "def cast(x, device):\n    if device == 'cpu':\n        return x\n    else:\n"
LONG = "def cast(x, device):\n    if device == 'cpu':\n" + 40 * "        x = x + 1\n"


@pytest.mark.parametrize(
    ("device", "accelerated"),
    [
        (f"device = {GPU}\n", False),
        ("device = torch.device('gpu:0' if torch.cuda.is_available() else 'cpu')\n", False),
        ("use = torch.cuda.device_count()\ndevice = 'GPU' if use else 'cpu'\n", False),
        ("device = 'gpu'  # cuda\n", False),
        (f"device = {GPU}\n{CPU_TEST}        return torch.cuda.FloatTensor(x)\n", False),
        (f"device = {GPU}\n{LONG}", False),  # read in steps that grow with its length alone
        (f"device = {GPU}\n{LONG}    else:\n        x = x.cuda()\n", False),
        (f"device = {GPU}\n{LONG}    x = x.cuda()\n", True),
        ("device = 'cuda' if torch.cuda.is_available() else 'cpu'\n", True),
        (f"device = {GPU}\nif device == 'gpu':\n    device = 'cuda'\n", True),
        (f"device = {GPU}\ndevice = torch.device(DEVICES[device])\n", True),
        (f"kind = {GPU}\ndevice = pick(kind)\n", True),
        (f"import lightning\ndevice = {GPU}\nlightning.Trainer(accelerator=device)\n", True),
        ("import sys\ndevice = sys.argv[1] or 'gpu'\n", True),
        (f"device = {GPU}\nNet().cuda()\n", True),
        ("model = LGBMClassifier(device='gpu')\ndevice = torch.device(0)\n", True),
        ("class Config:\n    device: str = 'gpu'\ndevice = parse(Config).device\n", True),
    ],
)  # fmt: skip
def test_a_device_that_torch_rejects_is_no_accelerator(
    tmp_path: Path, device: str, accelerated: bool
) -> None:
    files = {"run.py": f"{HEAD}{device}{RUN}"}
    assert on_accelerator(analysed(tmp_path, files, "run.py")) is accelerated


@pytest.mark.parametrize(
    ("device", "accelerated"),
    [
        (f"device = {GPU}\n", False),
        ("device = 'gpu' if torch.cuda.device_count() else 'cpu'\n", False),
        ("trees = LGBMClassifier(\n    device='gpu',\n)\nfrom conf import device\n", True),
        ("device = torch.device('cuda')\n", True),
        ("device = 'gpu'\nif device == 'gpu':\n    device = 0\n", True),
    ],
)
def test_a_device_from_another_file_may_be_rejected(
    tmp_path: Path, device: str, accelerated: bool
) -> None:
    files = {
        "steps.py": f"{HEAD}def train(model, loader, opt, device):{LOOP}",
        "run.py": f"{HEAD}from steps import train\n{device}train(Net(), loader, opt, device)\n",
    }
    assert on_accelerator(analysed(tmp_path, files, "steps.py")) is accelerated


TRAINS = f"""{HEAD}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 3)

    def forward(self, x):
        return self.net(x)


def train(model, x, y):
    opt = torch.optim.Adam(model.parameters())
    for i in range(0, len(x), 8):
        loss = nn.functional.cross_entropy(model(x[i : i + 8]), y[i : i + 8])
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    train(Net(), torch.ones(99, 8), torch.zeros(99).long())
"""
SCORES = (
    "import torch\nfrom train import Net\nmodel = Net()\nmodel.load_state_dict(torch.load('w'))\n"
)
OFFERED = (
    "[build-system]\nrequires = ['setuptools']\n[project]\nname = 'nets'\n"
    "description = 'Nets for games'\n"
)
FROM_ARRAYS = TRAINS.replace("model(x[i : i + 8])", "model(torch.from_numpy(x[i : i + 8]))")
PACKAGE = {
    "nets/__init__.py": "from .train import Net",
    "nets/train.py": FROM_ARRAYS,
    "pyproject.toml": OFFERED,
}


@pytest.mark.parametrize(
    ("files", "accelerated"),
    [
        ({"score.py": f"{SCORES}print(model(torch.ones(1, 8)).argmax().item())\n"}, False),
        ({"score.py": SCORES, "play.py": "import score\n"}, False),
        (
            {
                "search.py": "from train import Net, train\n",
                "pyproject.toml": "[project]\nname='x'",
            },
            False,
        ),
        ({"score.py": f"{SCORES}model.cuda()\n"}, True),
        ({"score.py": f"{SCORES}for device in DEVICES:\n    model.to(device)\n"}, True),
        ({"score.py": SCORES, "conf.py": "import train\naccelerator = 'gpu'\n"}, True),
        (
            {
                "nets/__init__.py": "from .train import Net",
                "nets/train.py": TRAINS,
                "pyproject.toml": OFFERED,
            },
            True,
        ),
        (PACKAGE, False),
        ({**PACKAGE, "nets/steps.py": "from .train import train\ndevice = 0\n"}, True),
        ({**PACKAGE, "nets/arrays.py": "import torch\nmake = torch.from_numpy(x)\n"}, False),
        (
            {
                "nets/__init__.py": "from .train import Net\nfrom .arrays import make",
                "nets/train.py": TRAINS,
                "nets/arrays.py": "import torch\nmake = torch.from_numpy(x)\n",
                "pyproject.toml": OFFERED,
            },
            True,
        ),
        (
            {
                "nets/__init__.py": "from .train import Net",
                "nets/train.py": f"{HEAD}from . import steps\nclass Net(nn.Module): ...\n",
                "nets/steps.py": FROM_ARRAYS,
                "pyproject.toml": OFFERED,
            },
            False,
        ),
    ],
)
def test_a_program_that_others_use_stays_on_the_host(
    tmp_path: Path, files: dict[str, str], accelerated: bool
) -> None:
    """But not where it is offered to others, whose device nobody knows, unless it makes its batches
    of arrays."""
    (tmp_path / "nets").mkdir()
    files = {"train.py": TRAINS, **files}
    asked = "nets/train.py" if "nets/train.py" in files else "train.py"
    assert on_accelerator(analysed(tmp_path, files, asked)) is accelerated
