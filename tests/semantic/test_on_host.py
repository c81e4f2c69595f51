"""Tensors that a caller moved to the CPU: what a function that gets them knows of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import job
from tests.semantic.test_values import value_of
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job
from torchlint.semantic.values.value import CPU

LOADED = "p = torch.load('a.pt', map_location='cpu')\n"
COPY = "def f(b):\n    c = {k: KEPT for k, v in b.items()}\n    probe(c['x'])"
LOOP = "for k, v in b.items():\n        "


@pytest.mark.parametrize(
    ("source", "device"),
    [
        (f"{LOADED}probe(p['x'])", CPU),
        (f"{LOADED}probe(p['x'].float() / 255)", CPU),
        (f"{LOADED}def f(x):\n    probe(x['y'].long())\nf(p)", CPU),
        ("p = torch.load('a.pt', 'cpu')\nprobe(torch.stack([p['x'], p['y']]))", CPU),
        (f"{LOADED}probe(p)", None),
        (f"{LOADED}probe(p['x'].cuda())", "cuda"),
        ("p = torch.load('a.pt')\nprobe(p['x'])", None),
        ("p = torch.load('a.pt', map_location=device)\nprobe(p['x'])", None),
        (f"def g(b):\n    probe(b.x - b.y)\ndef f(b):\n    {LOOP}b[k] = v.cpu()\n    g(b)", CPU),
        (f"def f(b):\n    {LOOP}b[k] = v if k == n else v.cpu()\n    probe(b['x'])", None),
        (f"def f(b):\n    {LOOP}b[k] = v.cpu() if k == 's' else v\n    probe(b['x'])", None),
        (f"def f(b):\n    {LOOP}c[k] = v.cpu()\n    probe(b['x'])", None),
        (f"def f(b):\n    {LOOP}if n:\n            b[k] = v.cpu()\n    probe(b['x'])", None),
        (
            f"def f(b):\n    {LOOP}if hasattr(v, n):\n            b[k] = v.cpu()\n    probe(b.y)",
            CPU,
        ),
        (f"def f(b):\n    b.x = x.cuda()\n    {LOOP}b[k] = v.cpu()\n    probe(b.x)", CPU),
        (
            COPY.replace("KEPT", "v if n else v.cpu()"),
            None,
        ),
        (
            COPY.replace("KEPT", "v.cpu() if torch.is_tensor(v) else v"),
            CPU,
        ),
    ],
)
def test_what_is_brought_to_the_host(source: str, device: str | None) -> None:
    assert value_of(source).device == device


FIT = """
import torch
from torch import nn


def score(logits, labels):
    return (logits.argmax(-1) == labels).float().mean().item()


def fit(x: torch.Tensor, y: torch.Tensor):
    net = nn.Linear(3, 4, device=x.device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(200):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(score(net(x), y))
"""
CALL = "import torch\nfrom fit import fit\nx = torch.nn.Linear(2, 2).cuda()\n"


@pytest.mark.parametrize(
    ("callers", "waits"),
    [
        ([f"{CALL}{LOADED}fit(p['x'].float(), p['y'])\n"], False),
        ([f"{CALL}{LOADED}fit(p['x'], p['y'].long())\n"], False),
        ([f"{CALL}fit(torch.randn(8, 3), torch.ones(8))\n"], False),
        (
            [
                f"{CALL}{LOADED}fit(p['x'], p['y'])\n",
                f"{CALL}fit(torch.ones(8, 3), torch.ones(8))\n",
            ],
            False,
        ),
        ([f"{CALL}{LOADED}fit(p['x'].cuda(), p['y'].cuda())\n"], True),
        ([f"{CALL}{LOADED}fit(p['x'], p['y'])\n", f"{CALL}fit(x.cuda(), x.cuda())\n"], True),
        ([f"{CALL}p = torch.load('a.pt')\nfit(p['x'], p['y'])\n"], True),
        ([], True),
    ],
)
def test_what_callers_in_other_files_pass(callers: list[str], waits: bool, tmp_path: Path) -> None:
    files = {f"run{at}.py": text for at, text in enumerate(callers)} | {"fit.py": FIT}
    files["other.py"] = "import fit\nprint(fit.fit)\n"
    for each, text in files.items():
        (tmp_path / each).write_text(text, encoding="utf-8")
    forget()
    found = analyse_job(job(FIT, name="fit.py", root=str(tmp_path))).findings
    assert any(each.code == "TL101" for each in found) is waits
