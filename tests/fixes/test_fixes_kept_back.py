"""Fixes that would break a program, or undo what its author meant, are not applied; each stands
beside near misses of which the fix goes on to be applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check, fixed, job
from torchlint.base.finding import Safety
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

LOADER = """\
import functools

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
{top}

class Files(Dataset):
    def __init__(self, paths, transform=None):
        self.paths, self.transform = paths, transform
{init}

    def __getitem__(self, index):
        return self.transform(np.load(self.paths[index]))


def train({params}, device="cuda"):
{before}
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader({data}, shuffle=True{more}):
        optimizer.zero_grad()
        model(x.to(device)).square().mean().backward()
        optimizer.step()
{bottom}

if __name__ == "__main__":
    pass
"""
STEP = """\
import torch
from torch import nn
from torch.nn import functional as F
{top}

def train(model, loader, optimizer, device):
    model.cuda()
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
{step}
        optimizer.step()
"""
FORWARD = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, share: float = 0.5):
        super().__init__()
        self.share = share

    def forward(self, x: torch.Tensor):
{body}


def run(net, loader):
    for x in loader:
        x = x.cuda(non_blocking=True)
        net(x).sum().backward()
"""


def indented(text: str) -> str:
    return "\n".join(f"        {line}".rstrip() for line in text.split("\n"))


def of(frame: str, **parts: str) -> str:
    empty = dict.fromkeys(("top", "init", "before", "more", "bottom", "step", "body"), "")
    usual = {"params": "paths", "data": "Files(paths)"}
    for name in ("step", "body"):
        if name in parts:
            parts[name] = indented(parts[name])
    return frame.format(**{**empty, **usual, **parts})


def loader(**parts: str) -> tuple[str, str]:
    return "TL201", of(LOADER, **parts)


def step(code: str, text: str, top: str = "") -> tuple[str, str]:
    return code, of(STEP, step=text, top=top)


def forward(code: str, text: str) -> tuple[str, str]:
    return code, of(FORWARD, body=text)


MOVER = """\
import torch


def move(batch, target):
    {doc}
    return {{key: value.to(target) for key, value in batch.items()}}


def embed(model, loader, device):
    model.eval().to(device)
    with torch.no_grad():
        for batch in loader:
            batch = move(batch, device)
            yield model(batch["ids"])


def main(model, samples):
    loader = torch.utils.data.DataLoader(samples, num_workers=4, pin_memory=True)
    return list(embed(model, loader, "cuda"))
"""


def mover(doc: str) -> tuple[str, str]:
    return "TL103", MOVER.format(doc=doc)


SUMMED = """\
class Run:
    def step(self, model, loader, optimizer, device, start):
        model.to(device)
        {first} = {begin}
        for i, x in enumerate(loader):
            loss = model(x.to(device)).mean()
            loss.backward()
            optimizer.step()
            {add}
        return total
"""


def summed(begin: str, add: str = "total += loss.cpu()", start: str = "total") -> tuple[str, str]:
    body = SUMMED.format(first=start, begin=begin, add=add)
    return "TL113", f"import torch\n\n\n{body}"


SWAP = """\
order = torch.randperm(x.shape[1])
for i in range(3):
    {use}
return x"""

TRAINER = """\
from PIL import Image
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments


class Images(Dataset):
    def __init__(self, paths, transform):
        self.paths, self.transform = paths, transform

    def __getitem__(self, index):
        return {{"pixel_values": self.transform(Image.open(self.paths[index]))}}


def resize(image):
    return image.resize((8, 8))


def train(model, paths):
    args = TrainingArguments("out")
    Trainer(model, args, train_dataset={data}{more}).train()
"""


def trainer(data: str, more: str = "") -> tuple[str, str]:
    return "TL907", TRAINER.format(data=data, more=more)


SCRIPT = """\
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROOT = {root}


class Faces(Dataset):
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return torch.tensor(list(Image.open(ROOT + self.names[index]).getdata()))


def train(names):
    model = nn.Linear(64, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(Faces(names), batch_size=4, shuffle=True):
        model(x.cuda()).mean().backward()
        optimizer.step()


{call}
"""
WINDOWS = 'r"E:\\people/"'
CALL = 'train(["a.png", "b.png"])'
GUARDED = f'if __name__ == "__main__":\n    {CALL}'


def script(root: str, call: str) -> tuple[str, str]:
    return "TL201", SCRIPT.format(root=root, call=call)


LOADED = """{top}
model = nn.Linear(64, 2).cuda().train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Faces(["a.png", "b.png"]), batch_size=4, shuffle=True):
    model(x.cuda()).mean().backward()
    optimizer.step()
"""
AT_THE_TOP = LOADED.format(top=SCRIPT.partition("def train")[0])
ONLY_SHOWN = {
    "a script of Windows without a guard": script(WINDOWS, CALL),
    "a loader at the top of a script of Windows": ("TL201", AT_THE_TOP.format(root=WINDOWS)),
    "a Trainer's lambda": trainer("Images(paths, lambda image: image)"),
    "a Trainer's collator": trainer(
        "Images(paths, resize)", ", data_collator=lambda rows: {'x': rows}"
    ),
    "a lambda collates": loader(more=", collate_fn=lambda batch: torch.stack(batch)"),
    "a local function collates": loader(
        before="    def join(batch):\n        return torch.stack(batch)\n",
        more=", collate_fn=join",
    ),
    "a part of a lambda": loader(more=", collate_fn=functools.partial(lambda b, n: b, n=1)"),
    "a name bound to a lambda": loader(
        before="    seed = lambda worker: np.random.seed(worker)", more=", worker_init_fn=seed"
    ),
    "a dataset that keeps a lambda": loader(init="        self.key = lambda path: path"),
    "the transform of a caller": loader(params="paths, transform", data="Files(paths, transform)"),
    "a call in view gives a lambda": loader(
        params="paths, collate",
        more=", collate_fn=collate",
        bottom="\n\ndef main(paths):\n    train(paths, lambda batch: torch.stack(batch))\n",
    ),
    "moved to what a docstring says may be the host": mover('"""Move to "cpu" or "cuda"."""'),
    "moved to what a docstring calls a CPU": mover('"""Move a batch, to a GPU or a CPU."""'),
    "moved to what an argument may be": mover(
        '"""Move.\n\n    Args:\n        target: cpu, cuda or mps\n    """'
    ),
    "why it waits": step(
        "TL111", "# must come before the other process reads\ntorch.cuda.synchronize()"
    ),
    "a workaround": step("TL111", "torch.cuda.synchronize()  # workaround for a driver"),
    "named in a comment of the function": step(
        "TL701",
        "# empty_cache is what the tests watch\nx = x * 1\ny = y * 1\ntorch.cuda.empty_cache()",
    ),
    "memory is short": step(
        "TL701", "# release memory of the large volume\nx = None\ntorch.cuda.empty_cache()"
    ),
    "memory is short behind the line": step(
        "TL701", "torch.cuda.empty_cache()  # else out of memory"
    ),
    "collects to free memory": step(
        "TL702", "# GPU memory is fragmented here\ngc.collect()", "import gc"
    ),
    "may be a parameter": forward("TL106", "return x / torch.as_tensor(self.share).to(x.device)"),
    "may be a parameter in arithmetic": forward(
        "TL106", "return x / torch.as_tensor(self.share * 2).to(x.device)"
    ),
    "may be a parameter, named first": forward(
        "TL106", "t = torch.as_tensor(self.share).to(x.device)\nreturn x / t"
    ),
    "clamps a copy": forward("TL102", "y = x * 2\ny[:, [0, 2]].clamp_(min=0)\nreturn y"),
    "scales a copy": forward("TL102", "y = x * 2\ny[:, [0, 1]].mul_(3)\nreturn y"),
    "writes into a copy": forward(
        "TL102", "y = x * 2\ntorch.clamp(x[:, :2], min=0, out=y[:, [0, 2]])\nreturn y"
    ),
    "a sum that starts on the host": summed('torch.zeros((), device="cpu")'),
    "a sum that starts where nothing is said": summed("torch.tensor(0.0)"),
    "a sum by position on the host": summed(
        'torch.zeros(9, device=torch.device("cpu"))', "total[i] += loss.cpu()"
    ),
    "a sum in a field that is on the host": summed(
        'self.sums = torch.zeros((), device="cpu")', "self.sums += loss.cpu()"
    ),
    "a sum that the caller gives": summed("None", "start += loss.cpu()"),
    "read one by one on the host": forward(
        "TL102",
        "order = torch.randperm(x.shape[1])\ny = x[:, order]\nfor i in range(3):\n"
        "    y = y + x[:, order[i]]\nreturn y",
    ),
}
"""Found, and nothing is applied."""

SILENT = {
    "a dict's values": forward(
        "TL605",
        "parts = self.inner(x)\nif isinstance(parts, dict):\n"
        "    shown = {key: value.detach().item() for key, value in parts.items()}\n"
        "    return sum(parts.values())\nreturn parts.detach()",
    ),
    "the largest of a dict's values": forward(
        "TL605",
        "parts = self.inner(x)\nif isinstance(parts, dict):\n    return max(parts.values())\n"
        "return parts.detach()",
    ),
    "values behind a conditional expression": forward(
        "TL605",
        "parts = self.inner(x)\nshown = parts.detach() if torch.is_tensor(parts) else parts\n"
        "return sum(parts.values())",
    ),
    "adds elements of the host": forward(
        "TL102", SWAP.format(use="x = x.relu() + x[:, order[i]].relu()")
    ),
    "reads by elements of the host": forward("TL102", SWAP.format(use="x = x + x[:, order[i]]")),
    "counts by elements of the host": forward(
        "TL102", "at = torch.arange(4)\nreturn x[at[0]] + x[at[-1]]"
    ),
    "waits for CuPy": step(
        "TL111", "cupy.asarray(x).sort()\ntorch.cuda.synchronize()", "import cupy"
    ),
    "waits for a kernel of Numba": step(
        "TL111", "numba.cuda.as_cuda_array(x)\ntorch.cuda.synchronize()", "import numba.cuda"
    ),
    "waits for TensorRT": step(
        "TL111", "tensorrt.Runtime(None)\ntorch.cuda.synchronize()", "import tensorrt"
    ),
    "a norm that is back-propagated": (
        "TL505",
        "import torch\n\n\ndef train(model, loader, optimizer):\n    for x in loader:\n"
        "        loss = model(x.cuda()).mean()\n        loss.backward(create_graph=True)\n"
        "        penalty = 0.0\n        for p in model.parameters():\n"
        "            penalty += p.grad.norm() ** 2\n"
        "        (loss + penalty).backward()\n        optimizer.step()\n",
    ),
    "a sum of squares that is back-propagated": (
        "TL505",
        "import torch\n\n\ndef train(model, loader, optimizer):\n    for x in loader:\n"
        "        loss = model(x.cuda()).mean()\n        loss.backward(create_graph=True)\n"
        "        penalty = sum(p.grad.pow(2).sum() for p in model.parameters())\n"
        "        penalty.backward()\n        optimizer.step()\n",
    ),
    "a norm that is handed back": (
        "TL505",
        "import torch\n\n\ndef penalty(model):\n"
        "    return sum(p.grad.norm() ** 2 for p in model.parameters())\n\n\n"
        "def train(model, loader, optimizer):\n    for x in loader:\n"
        "        loss = model(x.cuda()).mean()\n        loss.backward(create_graph=True)\n"
        "        penalty(model).backward()\n        optimizer.step()\n",
    ),
    "a method that clears memory": (
        "TL701",
        "import torch\n\n\ndef clear_memory():\n    torch.cuda.empty_cache()\n\n\n"
        + of(STEP, step="clear_memory()"),
    ),
    "a method that frees": (
        "TL701",
        "import torch\n\n\ndef free_gpu_memory():\n    torch.cuda.empty_cache()\n\n\n"
        + of(STEP, step="free_gpu_memory()"),
    ),
    "a clean-up": (
        "TL702",
        "import gc\n\n\ndef cleanup():\n    gc.collect()\n\n\n" + of(STEP, step="cleanup()"),
    ),
}
"""Nothing is found."""

APPLIED = {
    "a Trainer's function": (
        trainer("Images(paths, resize)"),
        "dataloader_num_workers=4",
    ),
    "a function of the file collates": (
        loader(
            top="\n\ndef join(batch):\n    return torch.stack(batch)\n", more=", collate_fn=join"
        ),
        "num_workers=4",
    ),
    "a lambda beside the loader": (loader(before="    unused = lambda x: x"), "num_workers=4"),
    "a call in view gives a function of torch": (
        loader(
            params="paths, collate",
            more=", collate_fn=collate",
            bottom="\n\ndef main(paths):\n    train(paths, torch.stack)\n",
        ),
        "num_workers=4",
    ),
    "moved to the device of a training": (mover('"""Move a batch."""'), "non_blocking=True"),
    "a comment that says what is done": (
        step("TL111", "# wait for the device\ntorch.cuda.synchronize()\nx = x * 1"),
        "# wait for the device\n        x = x * 1",
    ),
    "a comment that is a label": (
        step("TL701", "# empty_cache of the device\nx = x * 1\ntorch.cuda.empty_cache()"),
        "x = x * 1\n        optimizer",
    ),
    "a comment that says what is done by": (
        step("TL701", "# done by empty_cache\nx = x * 1\ntorch.cuda.empty_cache()"),
        "x = x * 1\n        optimizer",
    ),
    "a comment about something else": (
        step("TL701", "# clip the gradients\nx = x * 1\ntorch.cuda.empty_cache()"),
        "x = x * 1\n        optimizer",
    ),
    "a tensor of a number is a new one": (
        forward("TL106", "return x / torch.tensor(self.share).to(x.device)"),
        "torch.full((), self.share, device=x.device)",
    ),
    "a whole order of the host": (
        forward("TL102", "order = torch.randperm(x.shape[1])\nreturn x[:, order]"),
        "device=x.device",
    ),
    "a sum that starts as a number": (summed("0.0"), "total += loss.detach()"),
    "a sum that starts on the device": (
        summed("torch.zeros((), device=device)"),
        "total += loss.detach()",
    ),
    "a script of Windows with a guard": (script(WINDOWS, GUARDED), "num_workers=4"),
    "a loader at the top of a script": (
        ("TL201", AT_THE_TOP.format(root='"faces/"')),
        "num_workers=4",
    ),
    "a script without a guard": (script('"faces/"', CALL), "num_workers=4"),
    "a sum beside a count": (summed("0.0, 0", start="total, count"), "total += loss.detach()"),
    "a sum by a key": (
        summed('{"loss": 0.0}', 'total["loss"] += loss.cpu()'),
        'total["loss"] += loss.detach()',
    ),
    "a sum in a field": (
        summed("self.sums = 0.0", "self.sums += loss.cpu()"),
        "self.sums += loss.detach()",
    ),
    "a sum of squares": (
        forward("TL605", "y = x.square()\nself.last = y.detach()\nreturn sum(y)"),
        "y.sum(0)",
    ),
}
"""Near misses: what is applied holds these words."""


def after(code: str, text: str) -> str:
    return fixed(text, "unsafe", codes=frozenset((code,)), name="src/train.py").after or text


@pytest.mark.parametrize("case", ONLY_SHOWN)
def test_what_may_break_the_program_is_only_shown(case: str) -> None:
    code, text = ONLY_SHOWN[case]
    assert check(text, codes=frozenset((code,)), name="src/train.py").findings
    assert after(code, text) == text


@pytest.mark.parametrize("case", SILENT)
def test_what_is_right_is_not_found(case: str) -> None:
    code, text = SILENT[case]
    assert not check(text, codes=frozenset((code,)), name="src/train.py").findings


@pytest.mark.parametrize("case", APPLIED)
def test_near_misses_are_mended(case: str) -> None:
    (code, text), words = APPLIED[case]
    assert words in after(code, text)


GRADIENT = (
    "import torch\n\n\ndef train(model, loader, optimizer):\n    for x in loader:\n"
    "        model(x.cuda()).mean().backward()\n"
    "        norm = sum(p.grad.norm() ** 2 for p in model.parameters())\n"
    "        optimizer.step()\n"
)


LOGGED = """\
import torch
from torch import nn

model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


{head}
    for x in torch.randn(200, 4, 8, device="cuda"):
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


NESTED = """\
import torch
from torch import nn

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader):
    for x in loader:
        for _ in range(10):
            model.to("cuda")
        {line}
        model(x.cuda()).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("line", "safe"), [("pass", True), ("print(model.weight.cpu())", False)])
def test_a_move_leaves_both_loops_or_neither(line: str, safe: bool) -> None:
    source = NESTED.format(line=line)
    report = fixed(source, "safe", codes=frozenset(("TL504",)), name="src/train.py")
    whole = '\n    model.to("cuda")\n    for x in loader:'
    assert (whole in (report.after or source)) is safe
    assert (report.after or source) == source or safe
    assert whole in after("TL504", source)


def test_a_step_is_counted_where_a_new_name_is_no_attribute() -> None:
    assert "enumerate(" in after("TL105", LOGGED.format(head="if True:"))
    assert "enumerate(" in after("TL105", LOGGED.format(head="def run():"))
    body = LOGGED.format(head="class Run:")
    assert check(body, codes=frozenset(("TL105",))).findings
    assert after("TL105", body) == body
    counted = body.replace("for x in", "for i, x in enumerate(").replace("):\n", ")):\n", 1)
    assert "if i % 50 == 0" in after("TL105", counted)


def test_a_norm_of_plain_gradients_is_found() -> None:
    assert check(GRADIENT, codes=frozenset(("TL505",)), name="src/train.py").findings


SUM = """\
def step(model, optimizer, batches, device):
    total = 0.0
    for x in batches:
        loss = model(x.to(device)).mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        ("import torch\n\n\n", "pending_total.append(loss.detach())\n"),
        (
            "import torch\n\nDEVICES = ('mps', 'cuda')\n\n\n",
            "pending_total.append(loss.detach())\n",
        ),
        (
            "import torch\n\ndevice = torch.device('cuda')\n\n\n",
            "total += loss.detach().double()\n",
        ),
    ],
)
def test_a_sum_has_64_bits_only_where_the_device_has_them(head: str, kept: str) -> None:
    assert kept in after("TL101", head + SUM)


TRAIN = """\
import torch
from torch.utils.data import DataLoader

{imports}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def main(model, data, optimizer):
    loader = {call}
    for x, y in loader:
        x = x.to(device)
        y = y.to(device)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from data import get_loader", "get_loader(data, 4, num_workers=2)"),
        ("from data import build_dataloader", "build_dataloader(data, num_workers=2)"),
        ("import data as d", "d.make_loader(data, 4, num_workers=2)"),
    ],
)
def test_a_factory_of_another_file_gets_no_argument(
    tmp_path: Path, imports: str, call: str
) -> None:
    text = TRAIN.format(imports=imports, call=call)
    assert call in _fixed_beside(tmp_path, text)


def test_a_loader_is_pinned(tmp_path: Path) -> None:
    text = TRAIN.format(imports="", call="DataLoader(data, 4, num_workers=2)")
    assert "num_workers=2, pin_memory=torch.cuda.is_available())" in _fixed_beside(tmp_path, text)


def _fixed_beside(folder: Path, text: str) -> str:
    body = "import torch\nfrom torch.utils.data import DataLoader\n"
    for name in ("get_loader", "build_dataloader", "make_loader"):
        body += f"\n\ndef {name}(data, size=4, num_workers=0):\n"
        body += "    return DataLoader(data, size, True, num_workers=num_workers)\n"
    (folder / "data.py").write_text(body, encoding="utf-8")
    (folder / "train.py").write_text(text, encoding="utf-8")
    forget()
    done = job(text, name="train.py", root=str(folder), codes=frozenset(("TL103",)), fix="unsafe")
    return analyse_job(done).after or text


LAID_OUT = [
    (
        forward(
            "TL102",
            "best = x.argmax(1)\nreturn x.reshape(x.shape[0], x.shape[1], -1)["
            "torch.arange(x.shape[0]), best]",
        ),
        "        return x.reshape(x.shape[0], x.shape[1], -1)[\n"
        "            torch.arange(x.shape[0], device=x.device), best\n        ]\n",
    ),
    (
        loader(more=", drop_last=True, sampler=sorted(range(10), key=lambda i, step=1: i % 3)"),
        "        sampler=sorted(range(10), key=lambda i, step=1: i % 3),\n        num_workers=4,\n",
    ),
]


@pytest.mark.parametrize(("case", "words"), LAID_OUT, ids=["index", "lambda"])
def test_what_fixes_write_is_laid_out_as_a_formatter_would(
    case: tuple[str, str], words: str
) -> None:
    code, text = case
    done = fixed(text, "unsafe", codes=frozenset((code,)), name="src/train.py", line_length=88)
    assert words in (done.after or text)


ADAPTS = """\
import torch


def adapt(decoder, z, rows, steps):
    z = torch.nn.Parameter(z.detach().clone())
    optimizer = torch.optim.Adam([z], lr=0.01)
    for _ in range(steps):
        loss = (decoder(z) - rows).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return z.detach()


def shift(decoder, z, rows, steps):
    return z + rows.mean() * steps
"""
EVALUATES = """\
import torch

from adapting import {name}


def evaluate(decoder, loader, z, steps):
    decoder.eval()
    total = 0.0
    for x, y in loader:
        z = {name}(decoder, z, x.cuda(), steps)
        total += (decoder(z) - y.cuda()).abs().mean().item()
    return total / len(loader)


if __name__ == "__main__":
    net = torch.nn.Linear(4, 4).cuda()
    print(evaluate(net, [], torch.zeros(1, 4), 3))
"""


@pytest.mark.parametrize("name", ["adapt", "shift"])
def test_an_evaluation_that_back_propagates_in_another_file_keeps_autograd(
    tmp_path: Path, name: str
) -> None:
    text = EVALUATES.format(name=name)
    (tmp_path / "adapting.py").write_text(ADAPTS, encoding="utf-8")
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    forget()
    done = job(text, name="train.py", root=str(tmp_path), codes=frozenset(("TL501",)), fix="unsafe")
    after = analyse_job(done).after or text
    assert ("@torch.no_grad()\ndef evaluate" in after) is (name == "shift")


@pytest.mark.parametrize(
    ("name", "beside", "kept"),
    [
        ("log/part_seg/net.py", (), True),
        ("records/2024-10-14/train.py", (), True),
        ("wandb/run-1/files/code/main.py", (), True),
        ("src/net.py", (), False),
        ("results/net.py", ("results/__init__.py",), False),
        ("catalog/net.py", (), False),
    ],
)
def test_a_copy_that_says_how_a_run_was_made_is_left_as_it_was(
    tmp_path: Path, name: str, beside: tuple[str, ...], kept: bool
) -> None:
    text = STEP.format(
        top="", step="        noise = torch.zeros(3).cuda(); loss = loss + noise.sum()"
    )
    for each in (name, *beside):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_text(text if each == name else "")
    forget()
    report = analyse_job(job(text, name=name, root=str(tmp_path)))
    (fix,) = (each.fix for each in report.findings if each.code == "TL102")
    assert fix is not None
    assert (fix.safety is Safety.SUGGESTION) is kept
    assert ("may be a copy" in fix.note) is kept
