"""Every usual way to choose a device makes a program one for CUDA under the ledger; else it says
that it is none."""

from __future__ import annotations

import json
import os
import runpy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.verify.ledgers import Ledger, virtual_cuda  # noqa: E402

WAYS = {
    "at module level": 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    "as a string": 'device = "cuda" if torch.cuda.is_available() else "cpu"',
    "is_available imported": (
        'from torch.cuda import is_available\ndevice = "cuda" if is_available() else "cpu"'
    ),
    "torch.cuda under another name": (
        'import torch.cuda as tc\ndevice = "cuda" if tc.is_available() else "cpu"'
    ),
    "cuda imported from torch": (
        'from torch import cuda\ndevice = "cuda:0" if cuda.is_available() else "cpu"'
    ),
    "by the number of devices": 'device = "cuda" if torch.cuda.device_count() > 0 else "cpu"',
    "by --no-cuda": (
        "import argparse\n"
        'p=argparse.ArgumentParser();p.add_argument("--no-cuda",action="store_true");a=p.parse_args([])\n'
        "a.cuda = not a.no_cuda and torch.cuda.is_available()\n"
        'device=torch.device("cuda" if a.cuda else "cpu")'
    ),
    "as the default of an argument": (
        "import argparse\n"
        "p=argparse.ArgumentParser()\n"
        'p.add_argument("--device",default="cuda" if torch.cuda.is_available() else "cpu")\n'
        "device=p.parse_args([]).device"
    ),
    "in a dictionary": (
        'cfg={"device": "cuda" if torch.cuda.is_available() else "cpu"}\ndevice=cfg["device"]'
    ),
    "by torch.accelerator": (
        "device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() "
        'else torch.device("cpu")'
    ),
    "by the accelerator that is checked": (
        'device = torch.accelerator.current_accelerator(check_available=True) or "cpu"'
    ),
    "in a function": (
        "def get():\n"
        "    if torch.cuda.is_available():\n"
        '        return torch.device("cuda", torch.cuda.current_device())\n'
        '    return torch.device("cpu")\n'
        "device = get()"
    ),
    "by trying": (
        'try:\n    torch.zeros(1).cuda(); device="cuda"\nexcept Exception:\n    device="cpu"'
    ),
    "by trying to initialise": (
        "try:\n"
        '    torch.cuda.current_device(); torch.cuda.init(); device="cuda"\n'
        "except (AssertionError, RuntimeError):\n"
        '    device="cpu"'
    ),
    "by the version of CUDA": 'device = "cuda" if torch.version.cuda is not None else "cpu"',
    "by what torch is built with": 'device = "cuda" if torch.backends.cuda.is_built() else "cpu"',
    "by has_cuda": 'device = "cuda" if getattr(torch, "has_cuda", False) else "cpu"',
    "as a number": 'device = 0 if torch.cuda.is_available() else "cpu"',
    "by torch's own count": 'device = "cuda" if torch._C._cuda_getDeviceCount() > 0 else "cpu"',
    "as torch's default": (
        "if torch.cuda.is_available(): "
        'torch.set_default_device("cuda")\ndevice=torch.get_default_device()'
    ),
    "after CUDA_VISIBLE_DEVICES": (
        'import os\nos.environ["CUDA_VISIBLE_DEVICES"]="3"\ndevice = "cuda" if '
        'torch.cuda.is_available() else "cpu"'
    ),
    "the second of several": (
        'device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")'
    ),
    "a number that is given": (
        "import argparse\n"
        'p=argparse.ArgumentParser();p.add_argument("--gpu",type=int,default=1);a=p.parse_args([])\n'
        "torch.cuda.set_device(a.gpu)\n"
        'device=torch.device(f"cuda:{a.gpu}")'
    ),
    "after Apple's": (
        'device = "mps" if torch.backends.mps.is_available() else "cuda" if '
        'torch.cuda.is_available() else "cpu"'
    ),
    "by its capability": (
        'device = "cuda" if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] '
        '>= 7 else "cpu"'
    ),
    "by its name": (
        'device = "cuda" if "cpu" not in torch.cuda.get_device_name(0).lower() else "cpu"'
    ),
    "by its memory": (
        'device = "cuda" if torch.cuda.get_device_properties(0).total_memory > 1e9 else "cpu"'
    ),
    "by its free memory": 'device = "cuda" if torch.cuda.mem_get_info()[0] > 1e9 else "cpu"',
    "as the default type of tensors": (
        'device="cpu"\n'
        "if torch.cuda.is_available():\n"
        '    torch.set_default_tensor_type("torch.cuda.FloatTensor"); device="cuda"'
    ),
    "as a type of tensors": (
        "use_cuda = torch.cuda.is_available()\n"
        "FloatTensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor\n"
        "device = FloatTensor(1).device"
    ),
    "by what is compiled": 'device = "cuda" if torch.cuda._is_compiled() else "cpu"',
    "by the module of the device": (
        'mod = torch.get_device_module(); device = "cuda" if mod.is_available() else "cpu"'
    ),
    "as a field": (
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class C:\n"
        '    device: str = "cuda" if torch.cuda.is_available() else "cpu"\n'
        "device=C().device"
    ),
    "by a partial function": (
        'import functools\nf=functools.partial(torch.cuda.is_available)\ndevice="cuda" if f() '
        'else "cpu"'
    ),
    "of several, in parallel": (
        'device="cuda" if torch.cuda.is_available() else "cpu"\n'
        "m=torch.nn.DataParallel(torch.nn.Linear(2,2), device_ids=[0,1]).to(device)\n"
        "m(torch.ones(2,2,device=device)).sum().item()"
    ),
    "in a block": (
        'device="cuda" if torch.cuda.is_available() else "cpu"\n'
        "with torch.cuda.device(-1): pass\n"
        "with torch.cuda.device(0): x=torch.ones(1).cuda()"
    ),
    "by what is initialised": 'device="cuda" if torch.cuda.is_initialized() else "cpu"',
    "everything of torch.cuda imported": (
        'from torch.cuda import *\ndevice="cuda" if is_available() else "cpu"'
    ),
    "in a thread": (
        "import threading\n"
        "r=[]\n"
        't=threading.Thread(target=lambda: r.append("cuda" if torch.cuda.is_available() else '
        '"cpu"))\n'
        "t.start()\n"
        "t.join()\n"
        "device=r[0]"
    ),
    "by importlib": (
        'import importlib\ndevice="cuda" if importlib.import_module("torch.cuda").is_available() '
        'else "cpu"'
    ),
    "by the version of NCCL": (
        'import torch.distributed as d\nd.is_available()\ndevice="cuda" if '
        'torch.cuda.nccl.version() else "cpu"'
    ),
    "as the default of a parameter": (
        'def f(x, device="cuda" if torch.cuda.is_available() else "cpu"):\n'
        "    return x.to(device)\n"
        "device=f(torch.ones(1)).device"
    ),
    "with the old names of AMP": (
        'device="cuda" if torch.cuda.is_available() else "cpu"\n'
        "from torch.cuda.amp import autocast, GradScaler\n"
        "s=GradScaler()\n"
        "w=torch.ones(2,device=device,requires_grad=True); o=torch.optim.SGD([w],lr=.1)\n"
        "with autocast():\n"
        "    l=(w*2).sum()\n"
        "s.scale(l).backward(); s.step(o); s.update()"
    ),
    "with a fused optimizer": (
        'device="cuda" if torch.cuda.is_available() else "cpu"\n'
        "w=torch.ones(2,device=device,requires_grad=True)\n"
        "o=torch.optim.AdamW([w],lr=.1,fused=True)\n"
        "(w*2).sum().backward()\n"
        "o.step()"
    ),
}
"""By the way that a device is chosen: code that binds it to ``device``."""
ELSEWHERE = {
    "a default of its own": "device = torch.device('cpu')",
    "another process": (
        "import subprocess\n"
        "import sys\n"
        "asked = subprocess.run([sys.executable, '-c', 'raise SystemExit(1)'])\n"
        "device = 'cpu' if asked.returncode else 'cuda'\n"
    ),
    "a setting": "import os\ndevice = os.environ.get('MY_DEVICE', 'cpu')",
}
"""Choices that no stub of torch turns."""


def summary_of(code: str, folder: Path) -> dict[str, Any]:
    """Run a program under the ledger in a forked process, and return the summary with what it
    raised."""
    program = folder / "program.py"
    program.write_text(
        f"import torch\n{code}\nx = torch.ones(8).to(device)\nx.sum().item()\n", encoding="utf-8"
    )
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        ledger, raised = Ledger(str(folder)), ""
        ledger.start()
        warnings.simplefilter("ignore")
        try:
            runpy.run_path(str(program))
        except BaseException as error:
            raised = repr(error)
            ledger.failed(error)
        ledger.stop()
        os.write(writer, json.dumps({**ledger.summary(0), "raised": raised}).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("way", WAYS)
def test_device_that_is_chosen_so_is_the_virtual_one(way: str, tmp_path: Path) -> None:
    found = summary_of(WAYS[way], tmp_path)
    assert (found["raised"], found["unavailable"], found["used"]) == ("", "", True)
    assert found["syncs"] >= 1, "the read; the copy too, unless the device is the default one"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("way", ELSEWHERE)
def test_program_that_stays_on_the_host_says_so(way: str, tmp_path: Path) -> None:
    found = summary_of(ELSEWHERE[way], tmp_path)
    assert (found["raised"], found["used"]) == ("", False)


@pytest.mark.parametrize(
    "made",
    [
        lambda: torch.nn.Linear(2, 2).to(0).weight,
        lambda: torch.nn.Linear(2, 2).to(device=0, dtype=torch.float64).weight,
        lambda: torch.nn.Linear(2, 2, device=0).weight,
        lambda: torch.empty(1).to(device=0),
        lambda: torch.arange(3, device=torch.ones(1, device="cuda").get_device()),
    ],
)
def test_device_that_is_a_rank_is_the_virtual_one(made: Callable[[], Any], tmp_path: Path) -> None:
    with virtual_cuda(str(tmp_path)):
        assert made().device == torch.device("cuda", 0)


def test_program_that_only_asks_for_the_device_before_its_steps_does_not_use_it(
    tmp_path: Path,
) -> None:
    """Steps on the host after a probe of the device: waits of 0 would be no prediction."""
    for device, used in (("cpu", False), ("cuda", True)):
        with virtual_cuda(str(tmp_path)) as ledger:
            torch.zeros(1).cuda()
            weight = torch.ones(3, device=device, requires_grad=True)
            for _ in range(3):
                (weight * 2).sum().backward()
                ledger.mark_step()
        assert ledger.summary(1)["used"] is used


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_training_in_a_forked_process_has_no_counts(tmp_path: Path) -> None:
    """Its waits are not counted: to report them as 0 would be wrong."""
    reader, writer = os.pipe()
    with virtual_cuda(str(tmp_path)) as ledger:
        child = os.fork()
        if child == 0:
            for _ in range(3):
                torch.ones(2).to("cuda").sum().item()
                ledger.mark_step()
            os.write(writer, json.dumps(ledger.summary(1)).encode())
            os._exit(0)
        os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        found = json.loads(answer.read())
    assert (
        found["unavailable"]
        == "the training ran in a forked process, which the ledger does not follow"
    )
    assert found["syncs"] is None
