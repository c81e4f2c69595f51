"""What a cold analysis costs, counted in calls of functions and not in seconds: for each line of
some programs, and for a library of twice as many files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import libcst as cst
import pytest

from benchmarks.library import library
from tests.checking import job
from tests.semantic.test_project import write
from torchlint.engine.job import Job
from torchlint.run import projects
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job
from torchlint.semantic.code import quick_nodes
from torchlint.semantic.project import callers
from torchlint.semantic.values.facts import Values

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
MOST = {
    "loops_over_elements/train.py": 2_460,
    "what_an_interval_guards/train.py": 1_890,
    "attention_by_hand/model.py": 1_000,
    "loops_that_run_a_model/train.py": 1_625,
}
"""By program at most a thirtieth more than the calls for each line of it on 2026-11-30, CPython
3.11."""


def cost(jobs: Iterable[Job]) -> int:
    """Return how many functions are called to analyse files of one project that nobody has read
    yet."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event.endswith("call")

    forget()
    for each in jobs:
        sys.setprofile(note)
        try:
            analyse_job(each)
        finally:
            sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", MOST)
def test_a_line_costs_so_many_calls(name: str) -> None:
    text = (CASES / name).read_text()
    cost([job(text)])  # what is imported and remembered once
    assert cost([job(f"# As a new text.\n{text}")]) / text.count("\n") < MOST[name]


BRANCHES = """\
        if args.mode == {n}:
            for k in range({n}):
                x = x + k
                if x.sum() > {n}:
                    x = x * 2
                    break
        else:
            x = model(x, flag=args.flag{n})
"""
READS = """\
        hidden{n} = model(x) + {n}
        loss = F.mse_loss(hidden{n}, y)
        if loss.item() > {n}:
            print(loss)
        total{n} = loss.item()
"""
LOOPS = """\
    for x, y in loader:
        loss = F.mse_loss(model(x.to(device)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + loss.item() if {n} else loss.item()
"""
HEAD = (
    "import torch\nimport torch.nn.functional as F\n\n\n"
    "def train(model, loader, optimizer, args):\n"
)
STEP = "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
LONG = {
    "branches that bind one name": ("    for x, y in loader:\n", BRANCHES, "", 3.5),
    "reads of one iteration": ("    for x, y in loader:\n", READS, STEP, 2.6),
    "loops": ("    total = 0\n", LOOPS, "", 2.7),
}
"""Functions by what their lines repeat: how they begin, what is repeated, how they end, and how
much more twice of it may cost."""


@pytest.mark.parametrize("name", LONG)
def test_a_function_of_twice_the_length_is_not_four_times_the_work(name: str) -> None:
    begin, unit, end, most = LONG[name]

    def costs(units: int) -> int:
        body = "".join(unit.format(n=n) for n in range(units))
        return cost([job(f"{HEAD}{begin}{body}{end}")])

    costs(2)  # what is imported and remembered once
    assert costs(60) / costs(30) < most


def cost_of(folder: Path, files: Mapping[str, str]) -> int:
    """Return what it costs to analyse all files of a project."""
    write(folder, files)
    return cost(job(text, name=name, root=str(folder)) for name, text in files.items())


def test_twice_the_files_are_about_twice_the_work(tmp_path: Path) -> None:
    cost_of(tmp_path / "before", library(5))  # what is imported and remembered once
    some = cost_of(tmp_path / "some", library(10))
    twice = cost_of(tmp_path / "twice", library(20))
    assert twice / some < 2.05


def copies(files: int) -> dict[str, str]:
    """Return files whose classes are copies of each other and speak of each other, as pipelines of
    one library do: each calls its own methods, and none another's."""
    found = {"lib/__init__.py": ""}
    for one in range(files):
        others = ", ".join(f"Pipe{each}" for each in range(files) if each != one)
        found[f"lib/pipe{one}.py"] = (
            f'import torch\n\n\nclass Pipe{one}:\n    """Like {others}."""\n\n'
            "    def prepare_latents(self, latents, scale):\n"
            "        noise = torch.zeros(3).to(latents.device)\n"
            "        print(latents.sum().item())\n        return latents * scale + noise\n\n"
            "    def __call__(self, images):\n        for image in images:\n"
            "            x = self.prepare_latents(image, 2)\n            print(x.sum().item())\n"
        )
    return found


def called_by(files: int, call: str) -> dict[str, str]:
    """Return a function and files that call it, each in the same way."""
    found = {
        "lib/__init__.py": "",
        "lib/shared.py": (
            "import torch\n\n\ndef scale_all(latents):\n"
            "    noise = torch.zeros(3).to(latents.device)\n"
            "    print(latents.sum().item())\n    return latents + noise\n"
        ),
    }
    for one in range(files):
        found[f"lib/user{one}.py"] = f"from lib.shared import scale_all\n\n\n{call}"
    return found


def analysed_for(
    folder: Path, files: Mapping[str, str], patch: pytest.MonkeyPatch, checked: Iterable[str]
) -> list[str]:
    """Return the files that are analysed to answer what the checked ones ask about them."""
    write(folder, files)
    analysed: list[str] = []
    analyse = projects._Analyst.module

    def noted(analyst: Any, project: Any, path: str, text: str) -> Any:
        analysed.append(Path(path).name)
        return analyse(analyst, project, path, text)

    patch.setattr(projects._Analyst, "module", noted)
    forget()
    for name in checked:
        analyse_job(job(files[name], name=name, root=str(folder)))
    return analysed


def test_who_calls_its_own_method_is_not_analysed_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = copies(12)
    assert analysed_for(tmp_path, files, monkeypatch, files) == []


def test_callers_are_analysed_until_one_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = "loss = model(x).sum()\n        scale_all(rest)\n        loss.backward()\n"
    loop = f"    for x in loader:\n        {step}        optimizer.step()\n"
    files = called_by(12, f"def train_all(model, loader, optimizer, rest):\n{loop}")
    found = analysed_for(tmp_path, files, monkeypatch, ["lib/shared.py"])
    assert len(found) == 1


def test_callers_that_run_seldom_are_not_analysed_for_the_heat_of_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = called_by(12, "def save_all(x):\n    scale_all(x)\n")
    files["lib/user5.py"] += "\n\ndef train(loader):\n    for x in loader:\n        scale_all(x)\n"
    found = analysed_for(tmp_path, files, monkeypatch, ["lib/shared.py"])
    assert len(found) <= 2
    assert "user5.py" in found


def all_calling_all(files: int, body: str) -> dict[str, str]:
    """Return files whose functions each call those of all others."""
    every = [f"step{one}" for one in range(files)]
    calls = "".join(f"    {name}(x, log=log)\n" for name in every)
    found = {
        f"lib/{name}.py": "import torch\n"
        + "".join(f"from lib.{other} import {other}\n" for other in every if other != name)
        + f"\n\ndef {name}(x, log=False):\n    if log:\n        {body}\n{calls}"
        for name in every
    }
    return {"lib/__init__.py": "", **found}


@pytest.mark.slow
def test_of_200_functions_those_that_read_nothing_are_not_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = all_calling_all(200, "print(x.size())")
    assert analysed_for(tmp_path, files, monkeypatch, ["lib/step0.py"]) == []


def test_of_functions_those_that_may_read_are_analysed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = all_calling_all(12, "print(x.item())")
    found = analysed_for(tmp_path, files, monkeypatch, ["lib/step0.py", "lib/step1.py"])
    assert len(found) == len(set(found)) == 12


def test_calls_are_looked_at_until_one_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = "".join(f"        scale_all(batches[{each}])\n" for each in range(30))
    files = called_by(3, f"def run(batches):\n    for _ in range(9):\n{calls}")
    asked: list[object] = []
    value = callers._value
    monkeypatch.setattr(callers, "_value", lambda *of: asked.append(of) or value(*of))
    analysed_for(tmp_path, files, monkeypatch, ["lib/shared.py"])
    assert 1 <= len(asked) <= 4


def values_asked(
    folder: Path, files: Mapping[str, str], patch: pytest.MonkeyPatch, name: str
) -> list[Any]:
    """Return what a method of `Values` is asked about while the first of some files is checked."""
    write(folder, files)
    asked: list[Any] = []
    usual = getattr(Values, name)

    def noted(values: Values, first: Any, *more: Any) -> Any:
        asked.append(first)
        return usual(values, first, *more)

    patch.setattr(Values, name, noted)
    forget()
    first = next(iter(files))
    analyse_job(job(files[first], name=first, root=str(folder)))
    return asked


CALLS_HELPER = """\
import torch


def helper(x, flag):
    {line}


def train(loader, model, optimizer):
    for x in loader:
        y = helper(x.cuda(), True)
        model(x, y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "analysed"),
    [
        ("pass", False),
        ("return", False),
        ("return x * 2", True),
        ("yield x", True),
    ],
)
def test_what_returns_nothing_is_not_analysed_for_what_it_gives(
    line: str, analysed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"train.py": CALLS_HELPER.format(line=line)}
    run = values_asked(tmp_path, files, monkeypatch, "run")
    names = {each.name.value for each in run if isinstance(each, cst.FunctionDef)}
    assert "train" in names
    assert ("helper" in names) is analysed


COLLECTS = """\
import torch
from agent import make


def collect(frames, agent=make()):
    found = []
    for frame in frames:
        {call}
    return torch.stack(found)
"""
AGENT = "class Agent:\n    def learn(self, x):\n        self.loss(x).backward()\n"


@pytest.mark.parametrize(
    ("call", "asked"), [("found.append(frame)", False), ("agent.learn(frame)", True)]
)
def test_no_value_is_asked_for_what_no_file_defines_as_a_step(
    call: str, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = f"{AGENT}\n\ndef make():\n    return Agent()\n"
    files = {"collect.py": COLLECTS.format(call=call), "agent.py": agent}
    assert bool(values_asked(tmp_path, files, monkeypatch, "families")) is asked


CRITIC = """\
import torch
from torch import nn

generator, critic = nn.Linear(8, 8).cuda(), nn.Linear(8, 1).cuda()
optimizer_g = torch.optim.Adam(generator.parameters())
optimizer_d = torch.optim.Adam(critic.parameters())


def train(loader):
    for real in loader:
        optimizer_d.zero_grad()
        fake = generator(torch.randn(8, 8, device="cuda"))
        loss = critic(fake).mean() - critic(real.cuda()).mean()
        loss.backward()
        optimizer_d.step()
        optimizer_g.zero_grad()
        loss = -critic(generator(torch.randn(8, 8, device="cuda"))).mean()
        loss.backward()
        optimizer_g.step()
"""


def test_no_function_is_spelled_out_for_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a function says is cut out of the text: libcst's parser reads single statements."""
    read: list[str] = []
    parsed = quick_nodes.parsed

    def noted(parse: Callable[[str], Any], text: str) -> Any:
        read.append(text)
        return parsed(parse, text)

    monkeypatch.setattr(quick_nodes, "parsed", noted)
    forget()
    assert "TL501" in {each.code for each in analyse_job(job(CRITIC)).findings}
    assert max(map(len, read)) < 100
