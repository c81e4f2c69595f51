"""What safe fixes take for granted: each assumption that a project can break is broken by three
projects, and kept by near misses; `strict` takes nothing for granted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check
from tests.docs.generated import assumptions_page
from torchlint.base.finding import Safety, TextFix
from torchlint.cli.commands import main
from torchlint.semantic.uses import assumptions
from torchlint.semantic.uses.assumptions import ASSUMPTIONS

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def train(model, loader, optimizer, device):
    criterion = nn.CrossEntropyLoss()
    total, losses = 0, []
    for x, y in loader:
        x = x.to(device)
        y = y.to(device)
        loss = criterion(model(x), y)
        reg = loss.detach().abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() + reg.item()
        losses.append(loss.item())
    return total / len(loader), losses


def evaluate(model, points):
    model.eval()
    return [model(x).argmax(1).tolist() for x in points]


def predict(model, points, names):
    model.eval()
    scores = [model(x).argmax(1).tolist() for x in points]
    return names.spelled(scores)


def main(dataset):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 3).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(dataset, 32, num_workers=4, pin_memory=True, persistent_workers=True)
    print(train(model, loader, optimizer, device))
"""
RAISING = PROGRAM.replace("losses.append(loss.item())", "losses.append(1 / loss.item())")
PROGRAMS = {assumptions.ERRORS: RAISING}
CODES = frozenset({"TL101", "TL103", "TL501"})


def fixes(source: str, *, strict: bool = False) -> list[TextFix]:
    found = check(source, codes=CODES, strict=strict).findings
    assert len(found) >= 4
    return [each.fix for each in found if each.fix is not None]


def test_an_ordinary_program_gets_safe_fixes_that_say_what_they_take_for_granted() -> None:
    found = fixes(PROGRAM)
    assert {each.safety for each in found} == {Safety.SAFE}
    assert {each.note for each in found} == {""}
    used = {name for each in found for name in each.assumes}
    assert used == set(ASSUMPTIONS) - {
        assumptions.AUTOCASTS,
        assumptions.BATCHES,
        assumptions.BUFFERS,
        assumptions.ERRORS,
        assumptions.PINNED,
        assumptions.SIZES,
    }


def test_strict_takes_nothing_for_granted() -> None:
    found = fixes(PROGRAM, strict=True)
    assert Safety.UNSAFE in {each.safety for each in found}
    assert {name for each in found for name in each.assumes} == set()
    assert all("does not keep" not in each.note for each in found)


BROKEN = {
    assumptions.ERRORS: (
        "try:\n    train(model, loader)\nexcept Exception as error:\n    print(error)\n",
        "for seed in range(3):\n    try:\n        print(seed)\n        run.fit(seed)\n"
        "    except (OSError, IndexError):\n        continue\n",
        "try:\n    score = self.train_epoch(1)\n    print(score)\nexcept:\n    pass\n",
    ),
    assumptions.EVALUATIONS: (
        "import learn2learn as l2l\n",
        "class MAML:\n    pass\n",
        "def saliency(model, x):\n    return x.grad\n",
    ),
    assumptions.ACCELERATOR: (
        "device_type = 'npu'\n",
        "import torch_xla.core.xla_model as xm\n",
        "from accelerate import Accelerator\naccelerator = Accelerator()\n",
    ),
    assumptions.FRAMES: (
        "import inspect\n\n\ndef seen():\n    return inspect.currentframe().f_back.f_locals\n",
        "import sys\n\nsys.settrace(print)\n",
        "def report():\n    print(globals()['total'])\n",
        "def report():\n    print(eval('total'))\n",
        "def report():\n    return getattr(sys.modules['__main__'], 'total')\n",
        'def report():\n    return eval("total", NAMES)\n',
        "from rich.traceback import install\n\ninstall(show_locals=True)\n",
    ),
    assumptions.GRAPH: (
        "class Net(nn.Module):\n    def forward(self, x):\n"
        "        out, self.state = self.cell(x, self.state)\n        return out\n",
        *(
            "class Net(Base):\n    def __init__(self):\n        self.cell = nn.Linear(4, 4)\n\n"
            f"    def forward(self, x):\n        {lines}\n        return self.cell(x)\n\n"
            "    def more(self, x):\n        return x + self.state\n"
            for lines in (
                "if x.is_cuda:\n            self.state = x",
                "if not self.training:\n            self.state = x",
                "if self.training or x.is_cuda:\n            self.state = x",
                "if self.training:\n            pass\n        else:\n            self.state = x",
                "y = self.state\n        self.state = x",
                "self.state = x + self.state",
                "y = self.more(x)\n        self.state = x",
                "y = self.of_base(x)\n        self.state = x",
                "self.state[0] = x",
                "self.state.append(x)",
                "self.state += 1",
                "self.more = x",
                "for y in x:\n            self.state = y",
                "if x is None:\n            return x\n        self.state = x",
                "with self.more(x):\n            self.state = x",
                "self.state: int = x",
            )
        ),
        "class Net(nn.Module):\n    @torch.autocast('cuda')\n    def forward(self, x):\n"
        "        self.state = self.state + x\n        return x\n",
        "def build():\n    return nn.TransformerEncoder(layer, 2)\n",
        "from timm import create_model\n",
        "def watch(x):\n    return x.register_hook(print)\n",
    ),
    assumptions.LOSSES: (
        "class Loss:\n    def item(self):\n        return 1.0\n",
        "class Scaled(float):\n    def item(self) -> float:\n        return 2.0\n",
        "class Lazy:\n    value = 0\n\n    def item(self, *args):\n        return self.value\n",
    ),
    assumptions.ONE_DEVICE: (
        'BIG = torch.device("cuda:1")\n',
        "def split(model):\n    return model.cuda(1)\n",
        'MAP = {"device_map": "auto"}\n',
    ),
    assumptions.TORCH: (
        "torch.stack = print\n",
        "torch.loads = torch.Tensor.detach = print\n",
        "setattr(torch, 'stack', print)\n",
        "import builtins\n\nbuiltins.float = str\n",
        "import builtins\n\nbuiltins.print = builtins.print\nbuiltins.int = float\n",
        "globals()['float'] = str\n",
        "nn.initial = nn.Linear = print\n",
        "exec('float = str')\n",
        "class Named(torch.Tensor):\n    pass\n",
        "class Watch(torch.overrides.TorchFunctionMode):\n    pass\n",
    ),
}
KEPT = {
    assumptions.ERRORS: (
        "try:\n    train(model, loader)\nexcept KeyboardInterrupt:\n    print()\n",
        "try:\n    state = torch.load('x')\nexcept Exception:\n    state = None\n",
        "try:\n    train(model, loader)\nfinally:\n    print()\n",
    ),
    assumptions.EVALUATIONS: (
        "higher = 3\n",
        "class Metadata:\n    pass\n",
        "def penalty(x, y):\n    return torch.autograd.grad(y, x, create_graph=True)\n",
    ),
    assumptions.ACCELERATOR: (
        'NAMES = ["mpsa", "xlab"]\n',
        "class Model(nn.Module):\n    accelerator = None\n",
        'TRAINER = {"accelerator": "gpu"}\n',
    ),
    assumptions.FRAMES: (
        "frames = 16\n",
        "import inspect\n\n\ndef line():\n"
        "    return inspect.getframeinfo(inspect.currentframe().f_back).lineno\n",
        "f_backs = []\n",
        "def stop():\n    breakpoint()\n",
        "def settraces(net):\n    return net\n",
        "def make(frame):\n    return frame.eval('total', engine='numexpr')\n",
        "def make(kind):\n    return getattr(sys.modules[__name__], kind)\n",
        "model.eval('total')\n",
    ),
    assumptions.GRAPH: (
        "class Net(nn.Module):\n    def forward(self, x):\n        return self.cell(x, bias=1)\n\n"
        "    def reset(self):\n        self.state = None\n",
        *(
            "class Net(Base):\n    def __init__(self):\n        self.cell = nn.Linear(4, 4)\n\n"
            f"    def forward(self, x):\n        {lines}\n        return self.cell(x)\n"
            for lines in (
                "# self.state = self.state + x",
                "if self.training:\n            self.state = self.state + x",
                "if self.training and x.is_cuda:\n            self.state.append(x)",
                "y = self.state\n        if self.training:\n            self.state[0] = x",
                "self.state = self.cell(x)",
                "y, self.state = self.cell(x), x",
                "self.state = []\n        self.state.append(x)",
                "self.state = {}\n        for i in range(2):\n            self.state[i] = x",
                "with torch.no_grad():\n            self.state = self.cell(x)",
            )
        ),
        "class Twice(torch.autograd.Function):\n    @staticmethod\n    def forward(self, x):\n"
        "        self.x += x\n        return x\n",
        "class Scale(nn.Module):\n   def forward(self, x):\n       return x\n\n\n"
        "class Plain:\n    def __init__(self, x):\n        self.x = self.x + x\n",
        "class Transformer(nn.Module):\n    pass\n",
        "timm = 3\n",
        "def summary(model):\n    def register_hook(layer):\n"
        "        print(layer)\n\n    model.apply(register_hook)\n",
    ),
    assumptions.LOSSES: (
        "class Data:\n    def items(self):\n        return []\n",
        "def item(x):\n    return x\n",
        "value = torch.ones(1).item()\n",
    ),
    assumptions.ONE_DEVICE: (
        'BIG = torch.device("cuda:0")\n',
        "def move(model):\n    return model.cuda()\n",
        "devices = 1\n",
    ),
    assumptions.TORCH: (
        "torch.backends.cudnn.benchmark = True\n",
        "import builtins\n\nbuiltins.input = lambda prompt='': 'y'\n",
        "torch._dynamo.config.suppress_errors = True\n",
        "def skip(*args, **kwargs):\n    pass\n\n\ntorch.nn.init.kaiming_uniform_ = skip\n",
        "nn.init.normal_ = print\n",
        "def no_init(names):\n    for name in names:\n"
        "        setattr(torch.nn.init, name, print)\n",
        "import functools\n\ntorch.load = functools.partial(torch.load, weights_only=False)\n",
        "def test(monkeypatch):\n    monkeypatch.setattr(torch.cuda, 'is_available', bool)\n",
        "import builtins\n\n\ndef pass_over(*args):\n    pass\n\n\nbuiltins.print = pass_over\n",
        "def setup(rank):\n    import builtins\n\n    if rank:\n"
        "        builtins.print = lambda *args, **kwargs: None\n",
        "import builtins as __builtin__\n\n\ndef print(*args, force=False):\n    pass\n\n\n"
        "__builtin__.print = print\n",
        "stack = torch.stack\n",
        "def named(x: torch.Tensor) -> torch.Tensor:\n    return x\n",
    ),
}


@pytest.mark.parametrize(("name", "line"), [(n, e) for n, each in BROKEN.items() for e in each])
def test_a_project_that_breaks_an_assumption_gets_unsafe_fixes_that_name_it(
    name: str, line: str
) -> None:
    found = fixes(PROGRAMS.get(name, PROGRAM) + "\n\n" + line)
    hit = [each for each in found if f"does not keep to `{name}`" in each.note]
    if name == assumptions.ACCELERATOR:
        # The numbers of the sum are added after the loop instead, which needs no float64.
        assert {each.safety for each in found} == {Safety.SAFE}
        assert all(name not in each.assumes for each in found)
        return
    assert hit
    assert {each.safety for each in hit} == {Safety.UNSAFE}
    assert all(name not in each.assumes for each in found)
    # A copy of a batch then takes for granted that batches are tensors.
    ordinary = [
        each
        for each in fixes(PROGRAMS.get(name, PROGRAM))
        if name in each.assumes and each.title != "Copy without waiting"
    ]
    assert len(hit) >= len(ordinary)


@pytest.mark.parametrize(("name", "line"), [(n, e) for n, each in KEPT.items() for e in each])
def test_what_only_looks_like_it_leaves_the_fixes_safe(name: str, line: str) -> None:
    found = fixes(PROGRAMS.get(name, PROGRAM) + "\n\n" + line)
    assert {each.safety for each in found} == {Safety.SAFE}
    assert any(name in each.assumes for each in found)


CAST = """\
import torch


def run(model, x):
    with torch.cuda.amp.autocast():
        return model(x)
"""


@pytest.mark.parametrize(
    ("line", "safe"),
    [
        ("", True),
        ("torch.set_autocast_dtype('cuda', torch.bfloat16)\n", False),
        ("torch.set_autocast_cache_enabled(False)\n", False),
        ("torch.set_autocast_gpu_dtype(torch.bfloat16)\n", False),
        ("outer = torch.autocast('cuda', dtype=torch.half)\nouter.__enter__()\n", False),
        ("kept = torch.autocast('cuda', cache_enabled=False)\n", True),
        ("print(torch.is_autocast_cache_enabled())\n", True),
        ("print(torch.get_autocast_dtype('cuda'))\n", True),
        ("cast = torch.autocast('cuda', dtype=torch.bfloat16)\n", True),
    ],
)
def test_defaults_of_autocast_that_a_file_sets(line: str, safe: bool) -> None:
    (found,) = check(CAST + line, codes=frozenset({"TL408"})).findings
    assert found.fix is not None
    assert (found.fix.safety is Safety.SAFE) is safe
    assert (assumptions.AUTOCASTS in found.fix.assumes) is safe
    assert ("takes over the dtype and the cache" in found.fix.note) is not safe


@pytest.mark.parametrize(
    ("around", "inner", "safe"),
    [
        ("with torch.autocast('cpu', cache_enabled=False):", "", False),
        ("with open('log'), torch.amp.autocast('cuda', torch.bfloat16):", "", False),
        ("with torch.cuda.amp.autocast(True, torch.bfloat16):", "enabled=False", False),
        ("with torch.autocast('cuda', dtype=torch.bfloat16):", "dtype=torch.float16", True),
        ("with torch.cuda.amp.autocast(True, torch.bfloat16):", "True, torch.float16", True),
        ("with torch.autocast('cuda'):", "", True),
        ("with torch.profiler.profile(dtype=1):", "", True),
    ],
)
def test_an_autocast_inside_one_with_other_settings(around: str, inner: str, safe: bool) -> None:
    program = (
        f"import torch\n\n\ndef run(model, x):\n    {around}\n"
        f"        with torch.cuda.amp.autocast({inner}):\n            return model(x)\n"
    )
    nested = check(program, codes=frozenset({"TL408"})).findings[-1]
    assert nested.fix is not None
    assert (nested.fix.safety is Safety.SAFE) is safe, program
    assert ("takes over the dtype and the cache" in nested.fix.note) is not safe


DECORATED = """\
import torch


@torch.autocast("cpu", cache_enabled=False)
def run(model, x):
    @torch.cpu.amp.autocast()
    def infer(x):
        return model(x)

    return infer(x)


@torch.autocast("cpu", cache_enabled=False)
def other(model, x):
    return model(x)


@torch.cpu.amp.autocast(cache_enabled=False)
def alone(model, x):
    return model(x)
"""


def test_an_autocast_in_a_function_that_another_decorates() -> None:
    inner, alone = check(DECORATED, codes=frozenset({"TL408"})).findings
    assert inner.fix is not None
    assert alone.fix is not None
    assert [inner.fix.safety, alone.fix.safety] == [Safety.UNSAFE, Safety.SAFE]


UNKNOWN = PROGRAM.replace("persistent_workers=True", "collate_fn=dataset.join")


@pytest.mark.parametrize(
    ("line", "safe"),
    [
        ("", True),
        ("class Graph:\n    def to(self, device):\n        return self\n", False),
        ("import dgl\n", True),
        ("def join(texts):\n    return tokenizer(texts, return_tensors='pt')\n", False),
        (
            "class Box:\n    def to(self, device, non_blocking=False):\n        return self\n",
            True,
        ),
        ("class Pack:\n    def to(self, *args, **kwargs):\n        return self\n", True),
        ("def to(x, device):\n    return x\n", True),
    ],
)
def test_what_a_loader_with_its_own_collate_function_gives(line: str, safe: bool) -> None:
    source = UNKNOWN.replace("criterion(model(x), y)", "criterion(model(x, y))") + "\n\n" + line
    source = source.replace("nn.Linear(4, 3)", "build(dataset)")
    found = check(source, codes=frozenset({"TL103"})).findings
    moves = [each.fix for each in found if each.fix is not None]
    assert moves
    assert {each.safety is Safety.SAFE for each in moves} == {safe}
    if not safe:
        assert all("`batches-are-tensors`" in each.note for each in moves)


@pytest.mark.parametrize(
    ("line", "safe"),
    [
        ("print(x_device.mean())", True),
        ("x.zero_()", False),
        ("x[0] = 0", False),
        ("remember(x)", False),
    ],
)
def test_a_batch_that_the_code_writes_again_is_no_safe_copy(line: str, safe: bool) -> None:
    source = UNKNOWN.replace("x = x.to(device)", f"x_device = x.to(device)\n        {line}")
    source = source.replace("model(x)", "model(x_device)")
    found = [
        each.fix
        for each in check(source, codes=frozenset({"TL103"})).findings
        if each.start.row == 10 and each.fix is not None
    ]
    assert (bool(found) and all(each.safety is Safety.SAFE for each in found) is safe) or (
        not safe and not found
    )


def test_a_run_tells_once_what_its_fixes_took_for_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    main(["fix", "--no-cache", "-j", "1", "."], standalone_mode=False)
    told = capsys.readouterr().err
    assert (
        told.count("The fixes take for granted (why: docs/fixes.md of torchlint's repository):")
        == 1
    )
    assert all(told.count(f"\n  {each}: ") == 1 for each in (assumptions.STEPS, assumptions.FRAMES))
    assert ASSUMPTIONS[assumptions.STEPS].sentence in told
    (tmp_path / "torchlint.toml").write_text('safe = "strict"\n', encoding="utf-8")
    main(["fix", "--no-cache", "-j", "1", "--unsafe-fixes", "."], standalone_mode=False)
    assert "take for granted" not in capsys.readouterr().err


def test_the_contract_lists_every_assumption() -> None:
    page = (ROOT / "docs" / "fixes.md").read_text(encoding="utf-8")
    assert assumptions_page() in page
    for name, each in ASSUMPTIONS.items():
        assert name == name.lower()
        assert each.sentence.endswith(".")
