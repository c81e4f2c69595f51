"""TL408's safe fixes are executed in small projects whose other code would notice a new class or
other defaults."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import sys
import textwrap
import warnings
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.checking import job
from torchlint.base.finding import FileReport
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

torch = pytest.importorskip("torch")

CODES = frozenset(("TL408",))
HEAD = """
import torch
layer = torch.nn.Linear(4, 2)
x = torch.ones(1, 4)
"""
RUN = """
def run():
    with torch.cpu.amp.autocast():
        print(layer(x).dtype, torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled())
"""
IMPORT = """
import torch
from torch.cpu.amp import autocast

def run():
    with autocast(False):
        print(torch.ones(1, 2).mm(torch.ones(2, 1)).dtype)
"""

# Each is what `main.py` holds, and what the other files do.
NOT_SAFE: dict[str, Mapping[str, str]] = {
    "a default set in another file": {
        "main.py": "import torch, steps\ntorch.set_autocast_dtype('cpu', torch.half)\n"
        "torch.set_autocast_cache_enabled(False)\nsteps.run()",
        "steps.py": HEAD + RUN,
    },
    "a name that another file imports": {
        "main.py": "from steps import run, autocast\nrun()\nwith autocast(False):\n    print('ok')",
        "steps.py": IMPORT,
    },
    "a name that a star import takes": {
        "main.py": "from steps import *\nrun()\nwith autocast(False):\n    print('ok')",
        "steps.py": IMPORT,
    },
    "a star import that binds the old name anew": {
        "main.py": f"{IMPORT}\nrun()\nfrom other import *\nwith autocast(False):\n    print('ok')",
        "other.py": "from torch.cpu.amp import autocast\n",
    },
    "a text that is evaluated": {
        "main.py": "import steps\nsteps.run()\nprint(steps.again())",
        "steps.py": f"{IMPORT}\ndef again():\n    return eval('autocast(enabled=False)').device\n",
    },
    "a module's attribute": {
        "main.py": "import steps\nsteps.run()\nwith steps.autocast(False):\n    print('ok')",
        "steps.py": IMPORT,
    },
    "a module of modules": {
        "main.py": "import steps\nsteps.run()\nwith steps.amp.autocast(False):\n    print('ok')",
        "steps.py": (
            "import torch.cpu.amp as amp\ndef run():\n    with amp.autocast():\n        "
            "print('run')"
        ),
    },
    "a re-export of a package": {
        "main.py": "from pack import autocast\nwith autocast(False):\n    print('ok')",
        "pack/__init__.py": "from .steps import *\n",
        "pack/steps.py": IMPORT,
    },
    "a module imported at run time": {
        "main.py": (
            "import importlib\nsteps = "
            "importlib.import_module('steps')\nprint(steps.autocast.__module__)"
        ),
        "steps.py": IMPORT,
    },
    "a computed attribute": {
        "main.py": "import steps\nprint(getattr(steps, 'auto' + 'cast').__module__)",
        "steps.py": IMPORT,
    },
    "a name that is put into the module": {
        "main.py": "import contextlib, steps\nsteps.autocast = lambda on: print(on) or "
        "contextlib.nullcontext()\n"
        "steps.run()",
        "steps.py": IMPORT,
    },
    "a name read from globals": {
        "main.py": f"{IMPORT}\nrun()\nprint(globals()['autocast'].__module__)"
    },
    "a name of a class": {
        "main.py": f"{HEAD}\nclass Steps:\n    from torch.cpu.amp import autocast\n    with "
        "autocast():\n"
        "        y = layer(x).dtype\nwith Steps.autocast(False):\n    print(Steps.y)"
    },
    "an annotation that is read": {
        "main.py": f"{IMPORT}\nimport typing\ndef f(c: autocast):\n    pass\nrun()\n"
        "print(typing.get_type_hints(f)['c'].__module__)"
    },
    "the type of a scaler": {
        "main.py": "import torch\nscaler = torch.cuda.amp.GradScaler(enabled=False)\n"
        "print(scaler.is_enabled(), scaler.__class__.__module__)"
    },
    "a scaler that another file imports": {
        "main.py": "import steps\nprint(type(steps.scaler).__module__)",
        "steps.py": (
            "import torch\nscaler = "
            "torch.cuda.amp.GradScaler(enabled=False)\nprint(scaler.is_enabled())"
        ),
    },
    "a scaler that its method gives back": {
        "main.py": "import torch\ndef f():\n    scaler = torch.cuda.amp.GradScaler(enabled=False)\n"
        "    update = scaler.update\n    print(type(update.__self__).__module__)\nf()"
    },
    "a context under a name": {
        "main.py": (
            f"{HEAD}\nwith torch.cpu.amp.autocast() as context:\n    "
            "print(type(context).__module__)"
        )
    },
    "a decorator without a call": {
        "main.py": (
            "import torch\n@torch.cpu.amp.autocast\ndef f():\n    pass\nprint(type(f).__name__)"
        )
    },
    "a default argument": {
        "main.py": (
            f"{IMPORT}\ndef f(context=autocast):\n    with context(False):\n        "
            "print('ok')\nrun()\nf()"
        )
    },
    "a default argument of the same name": {
        "main.py": (
            f"{IMPORT}\ndef f(autocast=autocast):\n    with autocast(False):\n        "
            "print('ok')\nrun()\nf()"
        )
    },
}
OUTER = {
    "in its function": "def main():\n    outer = torch.autocast('cpu', dtype=torch.half)\n"
    "    with outer:\n        with torch.cpu.amp.autocast():\n            print(layer(x).dtype)\n"
    "main()",
    "in the file": "outer = torch.amp.autocast('cpu', torch.half)\n@outer\ndef main():\n"
    "    with torch.cpu.amp.autocast():\n        print(layer(x).dtype)\nmain()",
    "beside another": "import contextlib\nouter = torch.cpu.amp.autocast(True, torch.half)\n"
    "with contextlib.nullcontext(), outer, torch.cpu.amp.autocast(True):\n"
    "    print(layer(x).dtype)",
    "of a generator that enters it": "import contextlib\n@contextlib.contextmanager\n"
    "def half():\n    with torch.autocast('cpu', dtype=torch.half):\n        yield\n"
    "with half():\n    with torch.cpu.amp.autocast():\n        print(layer(x).dtype)",
    "of a function that returns it": "def half():\n"
    "    return torch.autocast('cpu', torch.half)\n"
    "with half(), torch.cpu.amp.autocast():\n    print(layer(x).dtype)",
}
NOT_SAFE |= {
    f"an autocast around it that has a name {where}": {"main.py": f"{HEAD}\n{text}"}
    for where, text in OUTER.items()
}
PLAIN: dict[str, Mapping[str, str]] = {
    "a script": {"main.py": f"{HEAD}{RUN}\nrun()"},
    "a script with an import": {"main.py": f"{IMPORT}\nrun()"},
    "a context around it that has a name and sets nothing": {
        "main.py": f"{HEAD}\nouter = torch.no_grad()\nwith outer, torch.cpu.amp.autocast():\n"
        "    print(layer(x).dtype)"
    },
    "a generator around it that sets nothing": {
        "main.py": f"{HEAD}\nimport contextlib\n@contextlib.contextmanager\n"
        "def quiet():\n    with torch.no_grad():\n        yield\n"
        "with quiet(), torch.cpu.amp.autocast():\n    print(layer(x).dtype)"
    },
    "an import that no other file uses": {
        "main.py": "import steps\nsteps.run()",
        "steps.py": IMPORT,
    },
    "a name that another file has from torch": {
        "main.py": (
            "import steps\nfrom torch.cpu.amp import autocast\nsteps.run()\nwith "
            "autocast(False):\n    pass"
        ),
        "steps.py": IMPORT,
    },
}


def fixes(folder: Path, files: Mapping[str, str]) -> dict[str, FileReport]:
    """Write a project and return the report of each file with its safe fixes applied."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    forget()
    return {
        name: analyse_job(
            job((folder / name).read_text(), name=name, root=str(folder), fix="safe", codes=CODES)
        )
        for name in files
    }


def printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run `main.py` of a folder and return what it prints; no module and no setting of torch
    stays."""
    modules = dict(sys.modules)
    before = (
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
        torch.is_autocast_enabled("cpu"),
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            runpy.run_path(str(folder / "main.py"), run_name="__main__")
    finally:
        for name in sys.modules.keys() - modules.keys():
            if os.fspath(folder) in (getattr(sys.modules[name], "__file__", None) or ""):
                del sys.modules[name]
        torch.set_autocast_dtype("cpu", before[0])
        torch.set_autocast_cache_enabled(before[1])
        torch.set_autocast_enabled("cpu", before[2])
    return out.getvalue()


def runs_alike(tmp_path: Path, files: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Say whether anything was fixed; the program prints the same before and after."""
    reports = fixes(tmp_path / "before", files)
    changed = False
    for name, text in files.items():
        path = tmp_path / "after" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        report = reports[name]
        changed = changed or report.before != report.after
        path.write_text(report.after if report.before != report.after else textwrap.dedent(text))
    assert printed(tmp_path / "before", monkeypatch) == printed(tmp_path / "after", monkeypatch)
    return changed


@pytest.mark.parametrize("name", NOT_SAFE)
def test_a_change_that_other_code_would_notice_is_not_safe(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not runs_alike(tmp_path, NOT_SAFE[name], monkeypatch)


@pytest.mark.parametrize("name", PLAIN)
def test_ordinary_code_is_fixed_and_stays_short(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs_alike(tmp_path, PLAIN[name], monkeypatch)
    texts = [path.read_text() for path in (tmp_path / "after").rglob("*.py")]
    assert not any("dtype=" in text for text in texts)


def test_a_new_file_that_imports_the_name_is_seen(tmp_path: Path) -> None:
    alone = fixes(tmp_path, {"steps.py": IMPORT})["steps.py"]
    assert alone.before != alone.after
    beside = fixes(tmp_path, {"steps.py": IMPORT, "deep/main.py": "from steps import autocast\n"})[
        "steps.py"
    ]
    assert beside.before == beside.after
