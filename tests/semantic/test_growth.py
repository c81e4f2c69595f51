"""What a question costs that goes from file to file: it looks at each file a bounded number of
times, and not along each way through the project."""

from __future__ import annotations

import ast
import gc
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import libcst as cst
import pytest

from tests.checking import job
from tests.semantic.test_project import analysed, probe, write
from torchlint.engine import syntax
from torchlint.run import projects
from torchlint.run.projects import forget, outside_of
from torchlint.semantic.code import intervals
from torchlint.semantic.code.flags import Flag
from torchlint.semantic.project import programs
from torchlint.semantic.project.analyses import Analyses
from torchlint.semantic.project.caller_files import CallerFiles
from torchlint.semantic.project.calls_elsewhere import CallsElsewhere
from torchlint.semantic.project.definitions import Definitions
from torchlint.semantic.project.files import Files
from torchlint.semantic.project.said import Said
from torchlint.semantic.time.grades import Grade
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.params import Parameters
from torchlint.source import python

FILES = 12


def library(odd: str = "log") -> dict[str, str]:
    """Return files in which each function calls all the others and hands them its flag; `odd` is
    what one of the calls gives."""
    names = [f"step{one}" for one in range(FILES)]
    files = {}
    for name in names:
        calls = "\n".join(
            f"    {other}(x, log={odd if (name, other) == ('step1', 'step0') else 'log'})"
            for other in names
            if other != name
        )
        imports = "\n".join(f"from mod_{other} import {other}" for other in names if other != name)
        files[f"mod_{name}.py"] = (
            f"import torch\n{imports}\n\ndef {name}(x, log=False):\n{calls}\n"
            f"    if log:\n        probe()\n"
        )
    files["train.py"] = (
        "import torch\nfrom mod_step0 import step0\n\n"
        "def train(model, loader, optimizer):\n"
        "    for x in loader:\n        loss = model(x.cuda())\n        loss.backward()\n"
        "        optimizer.step()\n        step0(loss)\n"
    )
    return files


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> Counter[Any]:
    """Count the calls of a method by its first argument."""
    calls: Counter[Any] = Counter()
    original: Callable[..., Any] = getattr(owner, name)

    def counting(self: Any, first: Any, *rest: Any) -> Any:
        calls[first] += 1
        assert calls.total() < 50 * FILES**2, f"{name} is called along each way"
        return original(self, first, *rest)

    monkeypatch.setattr(owner, name, counting)
    return calls


@pytest.mark.parametrize(("odd", "hot"), [("log", False), ("True", True)])
def test_flags_are_asked_of_each_function_and_not_along_each_way(
    odd: str, hot: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = counted(monkeypatch, CallsElsewhere, "_flag_calls")
    module = analysed(tmp_path, library(odd), "mod_step0.py")
    assert (heat_of(module, probe(module)).grade >= Grade.TRAIN) is hot
    assert calls


def test_imports_of_a_project_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which files run together is asked about each file, and worked out once for all."""
    read: Counter[str] = Counter()
    original = programs.named_modules

    def reading(text: str) -> tuple[list[tuple[str, tuple[str, ...]]], set[str]]:
        read[text] += 1
        return original(text)

    monkeypatch.setattr("torchlint.semantic.project.together.named_modules", reading)
    files = library()
    write(tmp_path, files)
    forget()
    for name, text in files.items():
        outside = outside_of(job(text, name=name, root=str(tmp_path)))
        assert outside.others_say(lambda text: "optimizer" in text, near=False, by_place=True) is (
            name != "train.py"
        )
    assert read == Counter(files.values())


@pytest.mark.parametrize("bound", [True, False])
def test_star_imports_of_all_by_all_are_followed_once(
    bound: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file takes all names of all others, and has names that none of them binds."""
    names = [f"part{one}" for one in range(FILES)]
    files = {
        f"{name}.py": "".join(f"from {other} import *\n" for other in names if other != name)
        for name in names
    }
    files["part9.py"] += "import torch\n" if bound else ""
    files["main.py"] = (
        "from part0 import *\n\ndef train(model, loader):\n"
        "    for x in loader:\n        probe(torch.zeros(len(x)))\n"
    )
    calls = counted(monkeypatch, Definitions, "imported")
    module = analysed(tmp_path, files, "main.py")
    call = probe(module).args[0].value
    assert isinstance(call, cst.Call)
    assert module.name(call.func) == ("torch.zeros" if bound else None)
    assert calls


@pytest.mark.parametrize(
    ("callers", "given", "read"),
    [(3, "True", 1), (3, "False", 3), (17, "True", 0), (17, "False", 0)],
)
def test_a_flag_is_asked_of_callers_up_to_the_first_that_decides(
    callers: int, given: str, read: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is read where they are more than one question is worth."""
    files = {
        f"caller{one:02}.py": f"from step import step\n\ndef run(x):\n    step(x, log={given})\n"
        for one in range(callers)
    }
    files["step.py"] = "def step(x, log=False):\n    if log:\n        probe()\n"
    module = analysed(tmp_path, files, "step.py")
    calls = counted(monkeypatch, Analyses, "module")
    found = module.outside.flag("step", Flag("step", "log", 1, default=False, needed=True))
    assert found is not None
    assert all(found) is (given == "False" and callers < 17)
    assert calls.total() == read


def test_whether_classes_of_a_method_are_one_family_is_worked_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file calls a method of an object that it does not know, and each class has it."""
    files = {
        f"part{one}.py": f"from base import Base\n\nclass Part{one}(Base):\n"
        "    def run_step(self, part, x):\n        probe(x)\n        part.run_step(x)\n"
        for one in range(FILES)
    }
    files["base.py"] = "class Base:\n    def run_step(self, part, x):\n        pass\n"
    files["train.py"] = (
        f"import {', '.join(f'part{one}' for one in range(FILES))}\n\n"
        "def train(model, loader, optimizer, part):\n"
        "    for x in loader:\n        loss = model(x)\n        loss.backward()\n"
        "        optimizer.step()\n        part.run_step(part, x)\n"
    )
    calls = counted(monkeypatch, CallerFiles, "_of_one_family")
    module = analysed(tmp_path, files, "part0.py")
    assert heat_of(module, probe(module)).grade >= Grade.TRAIN
    assert calls == {"run_step": 1}


@pytest.mark.parametrize("traced", [True, False])
def test_what_a_file_rests_on_is_kept_only_for_the_cache(traced: bool, tmp_path: Path) -> None:
    forget()
    write(tmp_path, {"net.py": "x = 1\n"})
    outside = outside_of(job("", name="train.py", root=str(tmp_path), traced=traced))
    assert outside.is_ours("net")
    assert bool(projects._trails) is traced


def test_a_neighbour_is_held_without_the_tree_that_cpython_made_of_it(tmp_path: Path) -> None:
    """It takes as much memory as libcst's; where statements stand is told without it."""
    text = "import torch\n\n\ndef show(x):\n    print(x)\n    return x\n"
    module = analysed(
        tmp_path, {"main.py": "import shown\n\nprobe(1)\n", "shown.py": text}, "main.py"
    )
    project = module.outside.project  # type: ignore[attr-defined]
    neighbour = project.analyses.module(str(tmp_path / "shown.py"))
    rows = [neighbour.statements.row(each) for each in neighbour.nodes(cst.Expr, cst.Return)]
    assert rows == [5, 6]
    tree = weakref.ref(python.read(text))
    for recent in (python._trees, syntax._recent):
        recent.clear()
    gc.collect()
    assert tree() is None
    assert neighbour.statements.row(neighbour.nodes(cst.Return)[0]) == 6


@pytest.mark.parametrize(
    ("annotation", "asked"),
    [("float", 0), ("int", 0), ("bool", 0), ("torch.Tensor", 1), ("str", 1), ("", 1)],
)
def test_calls_in_other_files_are_asked_of_no_number(
    annotation: str, asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is annotated as a number is one whatever they pass, and lies on no device."""
    hint = f": {annotation}" if annotation else ""
    files = {
        "step.py": f"import torch\n\ndef step(x{hint}):\n    probe(x)\n",
        "train.py": (
            "import torch\nfrom step import step\n\ndef train(model, loader, optimizer):\n"
            "    for x in loader:\n        loss = model(x.cuda())\n        loss.backward()\n"
            "        optimizer.step()\n        step(loss)\n"
        ),
    }
    calls = counted(monkeypatch, CallsElsewhere, "passed")
    module = analysed(tmp_path, files, "step.py")
    inferred(module, probe(module).args[0].value)
    assert sum(each.name == "step" for each in calls) == asked


@pytest.mark.parametrize("files", [FILES, 2 * FILES])
def test_who_adds_an_option_is_asked_of_files_that_hold_a_part_of_its_name(
    files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {
        f"part{one}.py": f"from opts import args\n\ndef f{one}(x, default={one}): return x\n"
        for one in range(files)
    }
    many["opts.py"] = (
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--show-every', default=1)\nargs = p.parse_args()\n"
    )
    many["main.py"] = (
        f"import {', '.join(f'part{one}' for one in range(files))}\nfrom opts import args\n\n"
        "def train(model, loader, optimizer):\n    for step, x in enumerate(loader):\n"
        "        loss = model(x.cuda())\n        loss.backward()\n        optimizer.step()\n"
        "        if step % args.show_every == 0:\n            probe(loss)\n"
    )
    read: list[str] = []
    defaults = intervals._defaults
    monkeypatch.setattr(
        intervals, "_defaults", lambda name, text: read.append(text) or defaults(name, text)
    )
    module = analysed(tmp_path, many, "main.py")
    assert heat_of(module, probe(module)).grade is Grade.TRAIN
    assert len({*read}) == 2  # the file itself holds it as well


def test_what_a_file_uses_is_remembered_without_its_tree() -> None:
    """Of each file of a project that is; a call holds all its arguments."""
    text = (
        "import lib\nname = f'lib.{kind}'\n\n"
        "def main(args):\n    lib.run(args, lib.kinds[args.kind])\n"
        "    run(*args, key=getattr(lib, name)(1))\n    lib.__dict__[name] = vars(lib)\n\nmain(1)\n"
    )
    tree = ast.parse(text)
    held = [weakref.ref(each) for each in ast.walk(tree) if isinstance(each, ast.Call | ast.Name)]
    said = Said(tree)
    assert "lib" in said.names
    takes = ast.parse("def run(a): pass").body[0]
    assert isinstance(takes, ast.FunctionDef)
    assert said.misfit("run", "main", takes.args) == "gives `key`, which is no parameter"
    del tree
    gc.collect()
    assert [each() for each in held] == [None] * len(held)


@pytest.mark.parametrize(
    ("caller", "read"),
    [
        ("from step import step\n\nstep(1)\n", 1),
        ("import step as s\n\ns.step(1)\n", 1),
        ("import step as s\n\ns . \\\n  step(1)\n", 1),
        ("from step import *\n\nstep(1)\n", 1),
        ("from step import step as go\n\ngo(1)\n", 1),
        ("def step(x): pass\n\nstep(1)\n", 0),
        ("def run(step): step(1)\n", 0),
    ],
)
def test_a_file_that_calls_a_function_of_its_own_is_not_parsed_for_calls_of_another(
    caller: str, read: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripts define the same functions again and again."""
    step = "def step(x):\n    probe(x)\n"
    module = analysed(tmp_path, {"step.py": step, "caller.py": caller}, "step.py")
    surveyed = counted(monkeypatch, Files, "_survey")
    told = module.outside.calls("step")
    assert len(list(told)) == read
    assert len({*surveyed} - {str(tmp_path / "step.py")}) == read


@pytest.mark.parametrize(
    ("elsewhere", "asked"),
    [
        ("print(1)\n", 0),
        ("from net import Other\n\nOther(2)\n", 0),
        ("from net import Net\n\nNet(2)\n", 1),
        ("import net\n\nnet.Net(2)\n", 1),
    ],
)
def test_who_else_makes_objects_is_asked_of_a_class_that_other_files_call(
    elsewhere: str, asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "net.py": (
            "import torch\n\nclass Other: pass\n\nclass Net:\n    def __init__(self, size):\n"
            "        probe(size)\n"
        ),
        "main.py": elsewhere,
    }
    module = analysed(tmp_path, files, "net.py")
    derived = counted(monkeypatch, Parameters, "_derived")
    inferred(module, probe(module).args[0].value)
    assert min(len(derived), 1) == asked
