"""Whether a program uses a function or class of one of its files: what counts as a use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import job
from torchlint.base.finding import Frequency, Severity
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job
from torchlint.semantic.project.project import Project
from torchlint.semantic.project.used import Used

NET = "class Net:\n    pass\n"
RUN = "import nets\nprint(nets)\n"
IMPORTING = "import lib\nprint(lib)\n"
USING = "import lib\nprint(lib.It)\n"
ANY = "import lib, sys\nprint(getattr(lib, sys.argv[1]))\n"
SUBCLASSES = "import lib\nprint(lib.Base.__subclasses__())\n"
BASE = "class Base:\n    pass\nclass Net(Base):\n    pass\n"
HEIRS = "class Base:\n    def __init_subclass__(cls):\n        pass\n"
MAIN = "if __name__ == '__main__':\n    print(2)\n"
LOADED = "import sys\nfrom importlib import import_module\n"
ALIASED = "import sys\nfrom importlib import import_module as load\n"
BY_PATH = "import sys\nspec = spec_from_file_location"
NO_WORDS = "'Add your description here'"
BUILT = "[build-system]\n[project]\ndescription = "
INDEX = "[build-system]\n[project]\nname = 'lib'\n[[tool.uv.index]]\nurl = "
TEXT = "def f():\n    'Makes a Net.'\n    return 2\n"
REGISTRY = "from .nets import Net\nALL = {\n    'net': Net,\n}\n"
MAKER = "def script(x):\n    return x()\n"
SETUP = "from setuptools import setup\nsetup"


def project_of(root: Path, files: dict[str, str]) -> Project:
    """Write a project of these files."""
    for each, text in files.items():
        (root / each).parent.mkdir(parents=True, exist_ok=True)
        (root / each).write_text(text, encoding="utf-8")

    def read(file: str) -> str | None:
        return Path(file).read_text(encoding="utf-8") if Path(file).is_file() else None

    return Project(str(root), read, lambda *_: None)


def uses(
    root: Path, files: dict[str, str], path: str = "nets.py", name: str = "Net"
) -> bool | None:
    """Return the answer for a project of these files."""
    return project_of(root, files).uses(str(root.resolve() / path), name)


@pytest.mark.parametrize(
    "run",
    [
        "from nets import Net\nprint(Net())\n",
        "from nets import Net as It\nprint(It)\n",
        "import nets as n\nprint(n.Net)\n",
        "from nets import *\nprint(Net())\n",
        "import nets\nprint(getattr(nets, 'Net'))\n",
        "import nets, sys\nprint(getattr(nets, sys.argv[1]))\n",
        "import nets, sys\nprint(nets.__dict__[sys.argv[1]], vars(nets))\n",
        "import nets\nprint(nets.__dict__['Net'])\n",
        "from nets import *\nprint(eval('Ne' + 't'))\n",
        "from nets import *\nprint(globals())\n",
        "from hydra.utils import instantiate\nimport nets\nprint(instantiate)\n",
        "import importlib, sys\nprint(importlib.import_module(sys.argv[1]).Net)\n",
        "import sys, importlib as i\nm = i.import_module('nets')\nprint(getattr(m, sys.argv[1]))\n",
        "def f():\n    return nets.Net\nimport nets\nprint(f())\n",
        "import nets\nprint('nets:Net')\n",
        "import sys\nsys.path.append('x')\nfrom elsewhere.nets import Net\nprint(Net)\n",
        "import nets\nprint nets.Net\n",
        "import nets\nprint(lambda model: model.Net)\n",
        "import nets, other\nloop = nets if other else other\nprint(loop.Net())\n",
        "import nets\nALL = {'a': nets}\nprint(ALL['a'].Net())\n",
        "import nets\ndef go(mod):\n    return mod.Net()\nprint(go(nets))\n",
        f"{LOADED}m = import_module('ne' + sys.argv[1])\nprint(getattr(m, sys.argv[1]))\n",
        f"{LOADED}m = import_module(f'n{{sys.argv[1]}}s')\nprint(m.__dict__[sys.argv[1]])\n",
        f"{LOADED}m = import_module('%sts' % sys.argv[1])\nprint(vars(m))\n",
        f"{LOADED}m = import_module('{{}}ets'.format(sys.argv[1]))\nprint(vars(m))\n",
        f"{LOADED}n = 'nets'\nm = import_module(n)\nprint(getattr(m, sys.argv[1]))\n",
        f"{LOADED}def go(n='other'):\n    return getattr(import_module(n), n)\nprint(go())\n",
        f"{LOADED}m = import_module('{{}}.{{}}'.format(*sys.argv))\nprint(vars(m))\n",
        f"{BY_PATH}('x', '/in/nets.py')\nprint(getattr(spec, spec.name))\n",
        f"{BY_PATH}('x', spec.path)\nprint(getattr(spec, spec.name))\n",
        "from hydra.utils import instantiate as make\nimport nets\nprint(make)\n",
        "import hydra\nimport nets\nprint(hydra.utils.instantiate({}))\n",
        "import hydra\nimport nets\nprint(hydra.utils.get_class('ne' + 'ts'))\n",
        "from hydra.utils import get_method as find\nimport nets\nprint(find(nets.PATH))\n",
        "import nets, sys\nprint(getattr(sys.modules['nets'], sys.argv[1]))\n",
        "import nets, sys\nprint(getattr(sys.modules.get('nets'), sys.argv[1]))\n",
        "import nets, sys\nprint(getattr(sys.modules[nets.PATH], sys.argv[1]))\n",
        "import imp, sys\nm = imp.load_source('x', 'nets.py')\nprint(getattr(m, sys.argv[1]))\n",
        f"{ALIASED}m = load('nets')\nprint(getattr(m, sys.argv[1]))\n",
        f"{LOADED}n = 'ne'\nn += 'ts'\nprint(vars(import_module(n)))\n",
        f"{LOADED}n = 'x'\nn, m = sys.argv\nprint(vars(import_module(n)))\n",
        f"{LOADED}n = 'x'\nfor n in sys.argv:\n    print(vars(import_module(n)))\n",
        f"{LOADED}n = 'x'\nprint((n := sys.argv[1]), vars(import_module(n)))\n",
        f"{LOADED}n = 'x'\nwith sys.x() as n:\n    print(vars(import_module(n)))\n",
        f"{LOADED}n = 'x'\ndef f():\n    global n\n    n = 2\nprint(vars(import_module(n)))\n",
        "import nets, sys\nnets.Net()\nsys.exit()\nprint()\n",
        "import nets, sys\nif len(sys.argv) > 2:\n    sys.exit()\nprint(nets.Net())\n",
        "import nets, other\nother.exit()\nprint(nets.Net())\n",
    ],
)
def test_a_use(run: str, tmp_path: Path) -> None:
    assert uses(tmp_path, {"nets.py": NET, "run.py": run})


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        "from nets import Net\nprint()\n",
        "import nets\n# print(nets.Net)\nprint()\n",
        '"""Runs nets.Net."""\nimport nets\nprint(nets)\n',
        "import nets\nNet = 2\nprint(2)\n",
        "import nets, other\nprint(other.Net, nets)\n",
        "import nets\nprint(lambda self: self.Net)\n",
        "from other import Net\nprint(Net)\n",
        "import nets\ndef f():\n    return g(nets.Net)\ndef g(x):\n    return f()\nprint()\n",
        "import nets\nargs = nets.options()\nprint(getattr(args, nets.KEY))\n",
        "import nets, torch\nprint(getattr(torch.optim, nets.KEY))\n",
        "from nets import Net\n__all__ = ['Net']\nprint()\n",
        f"{LOADED}m = import_module('models.' + sys.argv[1])\nprint(getattr(m, sys.argv[1]))\n",
        f"{LOADED}n = 'other'\nm = import_module(n)\nprint(vars(m))\n",
        f"{BY_PATH}('x', '/in/other.py')\nprint(getattr(spec, spec.name))\n",
        "import nets, sys\nprint(getattr(sys.modules['other'], sys.argv[1]))\n",
        "import nets, sys\nprint(getattr(sys.modules[__name__], sys.argv[1]))\n",
        "from other import get_class\nimport nets\nprint(get_class(nets.PATH))\n",
        f"{ALIASED}m = load('other')\nprint(getattr(m, sys.argv[1]))\n",
        "import nets\ndef go(instantiate, run_path):\n    return run_path\nprint(go(nets, 2))\n",
        "import nets, sys\nprint(2)\nsys.exit()\nprint(nets.Net())\n",
        "import nets\nprint(2)\nexit(0)\nfor i in range(2):\n    nets.Net()\n",
        "import nets\nif __name__ == '__main__':\n    raise SystemExit\n    nets.Net()\nprint()\n",
    ],
)
def test_no_use(run: str, tmp_path: Path) -> None:
    other = "class Net:\n    pass\n"
    assert uses(tmp_path, {"nets.py": NET, "other.py": other, "run.py": run}) is False


@pytest.mark.parametrize(
    ("nets", "files", "used"),
    [
        (NET, {}, True),
        (NET, {"examples/run.py": IMPORTING}, True),
        (NET, {"run.py": IMPORTING}, False),
        (NET, {"run.py": IMPORTING, "pyproject.toml": "[tool.ruff]\n"}, False),
        (NET, {"run.py": IMPORTING, "pyproject.toml": "[build-system]\n"}, False),
        (NET, {"run.py": IMPORTING, "pyproject.toml": f"{BUILT}'Nets for all'\n"}, True),
        (NET, {"run.py": IMPORTING, "pyproject.toml": f"{BUILT}''\n"}, False),
        (NET, {"run.py": IMPORTING, "pyproject.toml": f"{BUILT}{NO_WORDS}"}, False),
        (NET, {"run.py": IMPORTING, "pyproject.toml": "[project.scripts]\nx = 'lib:y'\n"}, True),
        (NET, {"run.py": IMPORTING, "setup.py": f"{SETUP}(name='lib', url='')\n"}, False),
        (NET, {"run.py": IMPORTING, "setup.py": f"{SETUP}(name='lib', url=URL)\n"}, True),
        (NET, {"run.py": IMPORTING, "setup.py": f"{SETUP}(\n  scripts=['bin/x'])\n"}, True),
        (NET, {"run.py": IMPORTING, "setup.py": f"{SETUP}(scripts=[])\n"}, False),
        (NET, {"run.py": IMPORTING, "setup.py": f"url = 'a.b'\n{SETUP}(name='lib')\n"}, False),
        (NET, {"run.py": IMPORTING, "pyproject.toml": "[tool.poetry.scripts]\nx = 'a:b'\n"}, True),
        (NET, {"run.py": IMPORTING, "pyproject.toml": f"{INDEX}'a.b'\n"}, False),
        (NET, {"run.py": IMPORTING, "setup.cfg": "[metadata]\nurl = a.b\n[options]\n"}, True),
        (NET, {"run.py": IMPORTING, "lib/__init__.py": "from .nets import Net"}, False),
        (NET, {"run.py": USING, "lib/__init__.py": "from .nets import Net as It"}, True),
        (NET, {"run.py": USING, "lib/__init__.py": "from .nets import Net as Other"}, False),
        (NET, {"run.py": ANY, "lib/__init__.py": "from .nets import Net"}, True),
        (f"__all__ = ['Net']\n{NET}", {"run.py": IMPORTING}, False),
        (f"@add\n{NET}", {"run.py": IMPORTING}, True),
        (f"@torch.jit.script\n{NET}", {"run.py": IMPORTING}, False),
        (f"from torch.jit import script\n@script\n{NET}", {"run.py": IMPORTING}, False),
        (f"def script(x):\n    x()\n@script\n{NET}", {"run.py": IMPORTING}, True),
        (f"script = Names()\n@script\n{NET}", {"run.py": IMPORTING}, True),
        (f"from .a import script\n@script\n{NET}", {"run.py": IMPORTING, "lib/a.py": MAKER}, True),
        (f"import lib.a\n@lib.a.script\n{NET}", {"run.py": IMPORTING, "lib/a.py": MAKER}, True),
        (f"from .a import *\n@script\n{NET}", {"run.py": IMPORTING, "lib/a.py": MAKER}, True),
        ("class Net(metaclass=Registry):\n    pass\n", {"run.py": IMPORTING}, True),
        (f"{HEIRS}class Net(Base):\n    pass\n", {"run.py": IMPORTING}, True),
        (f"{HEIRS}{NET}", {"run.py": IMPORTING}, False),
        (BASE, {"run.py": SUBCLASSES, "lib/__init__.py": "from .nets import Base"}, True),
        (BASE, {"run.py": IMPORTING, "lib/__init__.py": "from .nets import Base"}, False),
        ("from pytorch_lightning import X\nclass Net(X): pass\n", {"run.py": IMPORTING}, False),
        (NET, {"tools/__init__.py": "", "tools/run.py": f"{IMPORTING}{MAIN}"}, False),
        (NET, {"lib/run.py": f"{IMPORTING}{MAIN}"}, True),
        (NET, {"run.py": IMPORTING, "__init__.py": ""}, False),
        (NET, {"run.py": IMPORTING, "1) intro/__init__.py": ""}, False),
        ("from x import B\nclass Net(B):\n    pass\n", {"run.py": IMPORTING}, True),
        ("from torch import nn\nclass Net(nn.Module):\n    pass\n", {"run.py": IMPORTING}, False),
        (NET, {"run.py": IMPORTING, "look.ipynb": "import lib.nets\nlib.nets.Net()\n"}, True),
        (NET, {"run.py": IMPORTING, "look.ipynb": f"%matplotlib inline\n{TEXT}"}, False),
        (NET, {"run.py": IMPORTING, "look.ipynb": f"%timeit go(2)\n{TEXT}"}, True),
        (NET, {"run.py": IMPORTING, "look.ipynb": "%run lib/nets.py\nNet()\n"}, True),
        (NET, {"run.py": IMPORTING, "lib/old.py": REGISTRY}, False),
        (NET, {"run.py": IMPORTING, "lib/old.py": f"{REGISTRY}net = Net()\n"}, True),
        (NET, {"run.py": "from lib import old\nprint(old)\n", "lib/old.py": REGISTRY}, True),
    ],
)
def test_packages(nets: str, files: dict[str, str], used: bool, tmp_path: Path) -> None:
    package = {"lib/__init__.py": "", "lib/nets.py": nets}
    assert uses(tmp_path, {**package, **files}, "lib/nets.py") is used


SOLD = {"run.py": IMPORTING, "pyproject.toml": f"{BUILT}'Nets for all'\n", "lib/a.py": "A = 2\n"}
SHOWN = "# Nets\n\n```python\nfrom lib.a import A\n```\n"
LAZY = "def __getattr__(name):\n    return import_module(f'.nets').__dict__[name]"
COMMAND = "[build-system]\n[project]\n[project.scripts]\nnet = 'lib.nets:main'\n"


@pytest.mark.parametrize(
    ("files", "used"),
    [
        ({"README.md": SHOWN}, False),
        ({"README.rst": "    >>> x\n\n    import lib.a\n"}, False),
        (
            {"README.md": "```\nfrom lib import A\n```\n", "lib/__init__.py": "from .a import A"},
            False,
        ),
        ({}, True),
        ({"README.md": "Nets, which `train.py` trains.\n```\nimport torch\n```\n"}, True),
        ({"README.md": "```\nfrom lib.nets import Net\n```\n"}, True),
        ({"README.md": SHOWN, "lib/__init__.py": "from .nets import Other"}, True),
        ({"README.md": SHOWN, "lib/__init__.py": "from . import nets"}, True),
        ({"README.md": SHOWN, "docs/conf.py": ""}, True),
        ({"README.md": SHOWN, "docs/index.md": "`from lib.nets import Net`"}, True),
        ({"README.md": f"{SHOWN}Networks are in `lib.nets.Net`.\n"}, True),
        ({"README.md": f"{SHOWN}Start it: `python -m lib.nets`.\n"}, True),
        ({"README.md": f"{SHOWN}Networks are in `lib/nets.py` (`nets.py`).\n"}, False),
        ({"README.md": SHOWN, "lib/__init__.py": LAZY}, True),
        ({"README.md": SHOWN, "pyproject.toml": COMMAND}, True),
        ({"README.md": SHOWN, "pyproject.toml": COMMAND.replace("nets", "a")}, False),
        ({"README.md": SHOWN, "run.py": "from lib.nets import Net\nprint(Net)\n"}, True),
        ({"README.md": SHOWN, "lib/a.py": "from lib.nets import Net\n"}, True),
        ({"README.md": SHOWN, "lib/a.py": "from lib.nets import Net\nclass A:\n    pass\n"}, False),
        ({"README.md": SHOWN, "examples/one.py": "from lib.nets import Other\n"}, True),
        ({"README.md": SHOWN, "examples/one.py": "from lib.a import A\n"}, False),
    ],
)
def test_what_an_installed_package_offers(
    files: dict[str, str], used: bool, tmp_path: Path
) -> None:
    """A README that says what to import from a package shows what others use of it."""
    given = {"lib/__init__.py": "", "lib/nets.py": NET, **SOLD, **files}
    assert uses(tmp_path, given, "lib/nets.py") is used


TWO = "from lib.nets import Net\ndef old():\n    return Net()\ndef new():\n    pass\n"


@pytest.mark.parametrize(
    ("run", "used"),
    [
        (f"{TWO}# old()\nnew()\n", False),
        (f"{TWO}if __name__ == '__main__':\n    # x = old(2)\n    new()\n", False),
        (f"{TWO}if __name__ == '__main__':\n    x = old()\n", True),
        (f"{TWO}# old()\nstart = new if TWO else old\nprint(start())\n", True),
        ("from lib.nets import Net\n# Net()\nprint()\n", False),
    ],
)
def test_what_stands_in_comments(run: str, used: bool, tmp_path: Path) -> None:
    files = {"lib/__init__.py": "", "lib/nets.py": NET, "run.py": run}
    assert uses(tmp_path, files, "lib/nets.py") is used


VENDORED = {
    "losses/kit/__init__.py": "from .nets import Net\n",
    "losses/kit/nets.py": NET,
    "losses/kit/losses/__init__.py": "",
    "losses/kit/losses/deep.py": NET,
    "losses/mine.py": "from .kit import nets\nclass Mine(nets.Other):\n    pass\n",
}
"""A library that was copied into a program's folder."""
STARTS = "import losses.mine as m\nprint(m.Mine())\n"
EMPTY = {"losses/kit/__init__.py": ""}
BY_NAME = f"{LOADED}def make(name):\n    m = import_module('losses.' + name)\n    return"
MADE = "print(make('mine'))\n"


@pytest.mark.parametrize(
    ("files", "used"),
    [
        ({"run.py": STARTS}, False),
        ({"run.py": STARTS, "losses/other.py": "from .kit.nets import Net\n"}, False),
        ({"run.py": STARTS, "tests/test_kit.py": "from losses.kit import Net\nNet()\n"}, True),
        ({"run.py": STARTS, "losses/other.py": "from .kit import nets\nx = nets.Net()\n"}, True),
        ({"run.py": STARTS, "setup.py": f"{SETUP}(name='a', description='b')"}, True),
        ({"run.py": f"{STARTS}from losses.kit import Net\nNet()\n"}, True),
        ({"later.py": "import losses.mine\n"}, True),
        ({**EMPTY, "run.py": f"{BY_NAME} getattr(m, name)\n{MADE}"}, False),
        ({**EMPTY, "run.py": f"{BY_NAME} m.__getattribute__(f'{{name}}')\n{MADE}"}, False),
        ({"run.py": f"{BY_NAME} getattr(m, name)\n{MADE}"}, True),
        ({"run.py": f"{BY_NAME} getattr(m, 'Net')\n{MADE}"}, True),
        ({**EMPTY, "run.py": f"{BY_NAME} m.__getattribute__(sys.argv[1])\n{MADE}"}, True),
        ({**EMPTY, "run.py": f"{BY_NAME} getattr(m, name.upper())\n{MADE}"}, True),
    ],
)
def test_a_library_that_lies_in_a_program(
    files: dict[str, str], used: bool, tmp_path: Path
) -> None:
    assert uses(tmp_path, {**VENDORED, **files}, "losses/kit/nets.py") is used


@pytest.mark.parametrize(
    ("home", "path", "used"),
    [
        ("", "losses/mine.py", True),
        ("", "losses/kit/losses/deep.py", False),
        ("app/", "losses/mine.py", True),
        ("app/", "losses/kit/losses/deep.py", True),
    ],
)
def test_a_module_that_is_found_by_its_name(
    home: str, path: str, used: bool, tmp_path: Path
) -> None:
    run = f"{BY_NAME} getattr(m, name)\n{MADE}import losses.mine\n"
    assert (
        uses(
            tmp_path, {**VENDORED, f"{home}run.py": run}, path, "Mine" if "mine" in path else "Net"
        )
        is used
    )


WORKER = """class Worker:
    def evaluate(self):
        pass
    def fit(self):
        pass
"""
OTHER = """class Judge:
    def evaluate(self):
        pass
    def fit(self):
        self.evaluate()
"""
START = "from nets import Worker\nWorker().fit()\n"


INFO = "def info(object):\n    print([getattr(object, each) for each in dir(object)])\n"
HEIR = "class Mine(Worker):\n    def go(self, x):\n        "
BASE_CALLS = "class B:\n    def evaluate(self): pass\n    def go(self): self.evaluate()\n"
TWO_HEIRS = "class A(Worker): pass\nclass C(A, Trainer): pass\n"
GOES = "def go(w):\n    w.evaluate()\n"
NESTED = "def make():\n    class A(Worker, Trainer): pass\n"


@pytest.mark.parametrize(
    ("said", "used"),
    [
        ("", False),
        (OTHER, False),
        (f"{OTHER}Judge().fit()\n", False),
        ("# Worker().evaluate()\n", False),
        ("help = 'how to evaluate, and when'\n", False),
        ("print(evaluate(3))\n", False),
        ("class Own:\n    evaluate = 2\n    x = evaluate\n", False),
        ("MODE = 'evaluate'\n", True),
        ("MODE = 'worker.evaluate(3) now'\n", True),
        ("Worker().evaluate()\n", True),
        ("def f(it):\n    return it.evaluate()\n", False),
        ("def f(it):\n    return it.evaluate()\nf(2)\n", True),
        (f"{HEIR}self.evaluate()\nMine().go(2)\n", True),
        (f"{HEIR}self.evaluate()\nMine().fit()\n", False),
        ("from x import T\nclass Mine(T, Worker):\n    pass\n", True),
        (TWO_HEIRS, True),
        (NESTED, True),
        ("import sys\nprint(getattr(Worker(), sys.argv[1]))\n", True),
        (f"{HEIR}getattr(self, x)\nMine().go(2)\n", True),
        (f"{HEIR}getattr(self, x)\n", False),
        (f"{INFO}print(2)\n", False),
        (f"{INFO}info(Worker())\n", True),
        (f"{INFO}logger.info('start')\nself.log.info(2)\n", False),
        ("class Log:\n    def go(self, x):\n        getattr(self, x)\n", False),
        ("flags = object()\nprint(vars(flags), flags.__dict__, dir(flags))\n", False),
        ("for name in vars(Worker):\n    print(name)\n", True),
        ("print(Worker.__dict__[MODE])\n", True),
        ("import fire\nfire.Fire(Worker)\n", True),
        ("from jsonargparse import CLI\nCLI(Worker)\n", True),
    ],
)
def test_what_uses_a_method(said: str, used: bool, tmp_path: Path) -> None:
    files = {"nets.py": WORKER, "run.py": f"{START}{said}"}
    assert uses(tmp_path, files, name="Worker.evaluate") is used


@pytest.mark.parametrize(
    ("nets", "files", "used"),
    [
        (f"{WORKER}    def old(self):\n        self.evaluate()\n", {}, False),
        (WORKER.replace("pass", "self.evaluate()", 1), {}, False),
        (WORKER.replace("pass", "self.fit()", 1), {}, False),
        (f"{WORKER[:-5]}self.evaluate()\n", {}, True),
        (f"{WORKER}    run = evaluate\n", {}, True),
        (f"{BASE_CALLS}{WORKER.replace(':', '(B):', 1)}b = B().go()\n", {}, True),
        (f"{BASE_CALLS}{WORKER}b = B().go()\n", {}, False),
        (WORKER.replace(":", "(Trainer):", 1), {}, True),
        (f"@add\n{WORKER}", {}, True),
        (WORKER.replace("    def eval", "    @add\n    def eval"), {}, True),
        (WORKER.replace("    def eval", "    @torch.no_grad()\n    def eval"), {}, False),
        (WORKER, {"look.ipynb": '{"x": "w.evaluate()"}'}, False),
        (WORKER, {"look.ipynb": '{"x": "import nets\\n", "y": "w.evaluate()"}'}, True),
        (WORKER, {"old.py": "print w.evaluate()\n"}, False),
        (WORKER, {"old.py": "import nets\nprint w.evaluate()\n"}, True),
        (WORKER, {"other-run.py": "w = Worker()\nw.evaluate()\n"}, False),
        (WORKER, {"other.py": GOES}, False),
        (WORKER, {"other.py": "import run\nrun.w.evaluate()\n"}, True),
        (WORKER, {"other.py": GOES, "a.py": "import nets, other\nother.go(2)\n"}, True),
        (WORKER, {"judge.py": f"{OTHER}Judge().fit()\n"}, False),
    ],
)
def test_what_calls_a_method(nets: str, files: dict[str, str], used: bool, tmp_path: Path) -> None:
    files = {"nets.py": f"import torch\n{nets}", "run.py": START, **files}
    assert uses(tmp_path, files, name="Worker.evaluate") is used


@pytest.mark.parametrize(
    ("files", "path", "used"),
    [
        ({"run.py": "import nets\n# nets.start()\nprint()\n"}, "nets.py", False),
        ({"run.py": "import nets\nprint(nets.start)\n"}, "nets.py", True),
        ({"run.py": "import lib\nprint(lib)\n", "lib/__init__.py": ""}, "lib/a/nets.py", False),
        ({"run.py": "from lib.a.nets import start\nstart()\n"}, "lib/a/nets.py", True),
        ({"run.py": "from lib.tools.kit import x\nprint(x)\n"}, "lib/nets.py", False),
        ({"run.py": "from other import x\nprint(x)\n"}, "lib/nets.py", True),
        # A folder with a package in it, that is none itself.
        ({"run.py": "from models.nets import x\nprint(x)\n"}, "models/kit/nets.py", False),
        ({"run.py": "from models.kit.nets import start\nstart()\n"}, "models/kit/nets.py", True),
        ({"run.py": "from other.nets import x\nprint(x)\n"}, "models/kit/nets.py", True),
    ],
)
def test_functions_of_other_files(
    files: dict[str, str], path: str, used: bool, tmp_path: Path
) -> None:
    kit = {"lib/tools/__init__.py": "", "lib/tools/kit.py": ""} if "lib" in path else {}
    if "kit" in path:
        kit = {"models/kit/__init__.py": "", "models/nets.py": ""}
    files = {path: "def start():\n    pass\n", **kit, **files}
    assert uses(tmp_path, files, path, "start") is used


def test_what_assume_hot_names_is_used(tmp_path: Path) -> None:
    text = """
import torch
from torch import nn

def hook_of_a_framework(model, x):
    return model(x.cuda()).mean().item()

net = nn.Linear(8, 3).cuda()
for x in [torch.ones(4, 8)]:
    print(net(x.cuda()))
"""
    (tmp_path / "run.py").write_text(text, encoding="utf-8")
    for assumed, wanted in ((("hook_*",), "warning"), ((), None)):
        forget()
        found = analyse_job(job(text, name="run.py", root=str(tmp_path), assume_hot=assumed))
        graded = {each.severity.value for each in found.findings if each.code == "TL101"}
        assert graded == ({wanted} if wanted else set())


STEPS = """
import torch
from torch import nn

def train(net, loader, opt):
    for x in loader:
        loss = net(x.cuda()).mean()
        loss.backward()
        opt.step()
        print(loss.item())

def attend(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1) @ v
"""


@pytest.mark.parametrize(
    ("run", "dead"),
    [
        ("import steps\n# steps.train()\n# steps.attend()\nprint(steps)\n", {"train", "attend"}),
        ("from steps import attend\nprint(attend)\n", {"train"}),
        ("import steps\ndef old():\n    steps.train()\nprint(steps.attend)\n", {"train"}),
        ("import steps\nprint(steps.train, steps.attend)\n", set()),
    ],
)
def test_a_finding_in_what_nothing_uses_says_so(run: str, dead: set[str], tmp_path: Path) -> None:
    for each, text in {"run.py": run, "steps.py": STEPS}.items():
        (tmp_path / each).write_text(text, encoding="utf-8")
    forget()
    found = analyse_job(job(STEPS, name="steps.py", root=str(tmp_path))).findings
    said = {each.why_hot[0].text for each in found if each.frequency is Frequency.UNUSED}
    assert said == {f"nothing that runs in this program uses `{name}`" for name in dead}
    graded = {each.severity for each in found if each.frequency is Frequency.UNUSED}
    assert graded == ({Severity.INFO} if dead else set())
    assert all(len(each.why_hot) == 1 for each in found if each.frequency is Frequency.UNUSED)
    assert all(
        ("Nothing that runs" in one.said) is (one.frequency is Frequency.UNUSED) for one in found
    )
    others = {each.code for each in found if each.frequency is not Frequency.UNUSED}
    assert ("TL405" in others, "TL105" in others) == ("attend" not in dead, "train" not in dead)


TRY = "import torch\nfrom torch import nn\nclass Net(nn.Module):\n    pass\n"
GUARD = "if __name__ == '__main__':\n    "
SELF_TEST = f"{TRY}{GUARD}print(Net()(torch.randn(2, 3)))\n"


@pytest.mark.parametrize(
    ("nets", "used"),
    [
        (SELF_TEST, False),
        (f"{TRY}{GUARD}print(Net())\n", False),
        (
            f"{TRY}{GUARD}x = torch.ones(2)\n    for at in range(3):\n        print(Net()(x))\n",
            False,
        ),
        (f"{TRY}def main():\n    print(Net()(torch.rand(2)))\n{GUARD}main()\n", False),
        (
            f"{TRY}def f():\n    g(torch.zeros(2))\ndef g(x):\n    Net()(x)\n{GUARD}f()",
            False,
        ),
        (
            f"{TRY}    def f(self, x):\n        x.cuda()\n{GUARD}Net()(torch.ones(2))",
            False,
        ),
        (f"{TRY}def f(x):\n    return x.cuda() if x.is_cuda else x\n{GUARD}print(f(Net()))", False),
        # A guard that does more, and what it calls.
        (f"{TRY}{GUARD}print(Net().cuda()(torch.ones(2).cuda()))\n", True),
        (f"{TRY}{GUARD}print(Net()(torch.ones(2, device='cuda')))\n", True),
        (f"{TRY}{GUARD}print(Net().to(0)(torch.ones(2)))\n", True),
        (f"{TRY}def main():\n    print(Net().cuda()(torch.rand(2)))\n{GUARD}main()\n", True),
        (
            f"{TRY}class Run:\n    def go(self):\n        Net().cuda()\n{GUARD}Run(torch.ones(2))",
            True,
        ),
        (f"{TRY}{GUARD}Net()(torch.ones(2)).sum().backward()\n", True),
        (f"{TRY}def f(opt):\n    opt.step()\n{GUARD}print(Net()(torch.ones(2)))\n", True),
        (f"{TRY}{GUARD}Net().load_state_dict(torch.load('a.pt'))\n", True),
        (f"import sys\n{TRY}{GUARD}print(Net()(torch.ones(int(sys.argv[1]))))\n", True),
        (f"import argparse\n{TRY}{GUARD}print(Net()(torch.ones(2)), argparse)\n", True),
        (f"{TRY}{GUARD}while True:\n        print(Net()(torch.ones(2)))\n", True),
        (f"{TRY}{GUARD}torch.onnx.export(Net(), torch.ones(2), 'a.onnx')\n", True),
        (f"from work import train\n{TRY}{GUARD}train(Net(), torch.ones(2))\n", True),
        (f"import work\n{TRY}{GUARD}work.train(Net(), torch.ones(2))\n", True),
        (f"from work import *\n{TRY}{GUARD}train(Net(), torch.ones(2))\n", True),
        # No guard, the other branch of one, and nothing of a test in it.
        (f"{TRY}print(Net()(torch.ones(2)))\n", True),
        (f"{TRY}if __name__ != '__main__':\n    print(Net()(torch.ones(2)))\n", True),
        (f"{TRY}{GUARD}print(torch.ones(2))\nelse:\n    print(Net())\n", True),
        (
            "import torch\nclass Net:\n    pass\nif __name__ == '__main__':\n    print(Net())\n",
            True,
        ),
    ],
)
def test_a_self_test_is_no_use(nets: str, used: bool, tmp_path: Path) -> None:
    work = "def train(net, x):\n    net(x).sum().backward()\n"
    files = {"nets.py": nets, "work.py": work, "run.py": RUN}
    project = project_of(tmp_path, files)
    path = str(tmp_path.resolve() / "nets.py")
    assert project.uses(path, "Net") is used
    assert project.self_tested(path, "Net") is not used


@pytest.mark.parametrize(
    ("files", "used", "tested"),
    [
        ({"nets.py": SELF_TEST}, True, False),
        ({"nets.py": SELF_TEST, "run.py": "from nets import Net\nprint(Net())\n"}, True, False),
        ({"nets.py": TRY, "run.py": f"from nets import *\n{GUARD}print(Net())\n"}, True, False),
        ({"nets.py": TRY, "run.py": RUN}, False, False),
        ({"nets.py": SELF_TEST, "run.py": "from nets import Net\nprint()\n"}, False, True),
        ({"nets.py": SELF_TEST, "other.py": ""}, False, True),
        ({"nets.py": SELF_TEST, "lib/__init__.py": ""}, True, False),
    ],
)
def test_whose_self_test_it_is(
    files: dict[str, str], used: bool, tested: bool, tmp_path: Path
) -> None:
    project = project_of(tmp_path, files)
    path = str(tmp_path.resolve() / "nets.py")
    assert (project.uses(path, "Net"), project.self_tested(path, "Net")) == (used, tested)


@pytest.mark.parametrize(
    ("guarded", "used"),
    [
        ("print(Net().encode(torch.ones(2)))", False),
        ("print(Net().encode(torch.ones(2).cuda()))", True),
        ("print(Net()(torch.ones(2)))\nprint(Net().encode)", True),
    ],
)
def test_a_method_that_the_self_test_calls(guarded: str, used: bool, tmp_path: Path) -> None:
    nets = f"{TRY}    def encode(self, x):\n        return x\n{GUARD}{guarded}\n"
    run = "from nets import Net\nprint(Net())\n"
    project = project_of(tmp_path, {"nets.py": nets, "run.py": run})
    path = str(tmp_path.resolve() / "nets.py")
    assert project.uses(path, "Net.encode") is used
    assert project.self_tested(path, "Net.encode") is not used


def test_a_finding_in_what_a_self_test_uses_says_so(tmp_path: Path) -> None:
    guarded = f"{STEPS}\nif __name__ == '__main__':\n    print(attend(*torch.rand(3, 4, 4)))\n"
    text = guarded.replace("        loss.backward()\n        opt.step()\n", "")
    said = {}
    for run in ("import steps\nprint(steps)\n", "import steps\nprint(steps.attend)\n"):
        for each, content in {"run.py": run, "steps.py": text}.items():
            (tmp_path / each).write_text(content, encoding="utf-8")
        forget()
        found = analyse_job(job(text, name="steps.py", root=str(tmp_path))).findings
        said[run] = {
            (each.severity, each.why_hot[0].text)
            for each in found
            if each.code == "TL405" and each.frequency is Frequency.UNUSED
        }
    assert list(said.values()) == [
        {(Severity.INFO, "only the self-test of its file uses `attend`")},
        set(),
    ]


def test_what_uses_a_definition_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = "".join(f"def f{at}():\n    return f{at + 1}()\n\n\n" for at in range(6))
    files = {"nets.py": f"{chain}def f6():\n    pass\n", "run.py": RUN}
    looked: list[str] = []
    users = Used._users

    def looking(self: Used, path: str, name: str, taken: frozenset[str]) -> object:
        looked.append(name)
        return users(self, path, name, taken)

    monkeypatch.setattr(Used, "_users", looking)
    for each, text in files.items():
        (tmp_path / each).write_text(text, encoding="utf-8")

    def read(file: str) -> str | None:
        return Path(file).read_text(encoding="utf-8") if Path(file).is_file() else None

    project = Project(str(tmp_path), read, lambda *_: None)
    names = [f"f{at}" for at in range(7)]
    answers = [project.uses(str(tmp_path.resolve() / "nets.py"), name) for name in names]
    assert answers == [False] * 7
    assert sorted(looked) == names


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ("f'{a}{b}{c}{d}{e}_x'", False),
        ("f'{a}_{b}_{c}_{d}_{e}_x'", False),
        ("a + b + c + d + '_x'", False),
        ("f'{a}{b}{c}ts'", True),
        ("n + n + n + n + n + n + n", False),
    ],
)
def test_many_gaps_take_no_time(asked: str, used: bool, tmp_path: Path) -> None:
    names = "".join(f"n = 'nets{at}'\n" for at in range(12))
    run = f"{LOADED}{names}m = import_module({asked})\nprint(vars(m))\n"
    deep = "/".join(["a_a_a_a_a_a_a_a_a_a"] * 5)
    assert uses(tmp_path, {"nets.py": NET, "run.py": run, f"{deep}/b.py": ""}) is used


TAKES = "def f(a, b, *, c=1):\n    pass\n"
CALLS = "from nets import f\n"


@pytest.mark.parametrize(
    ("files", "used"),
    [
        ({"run.py": f"{CALLS}f(1)\n"}, False),
        ({"run.py": f"{CALLS}def main():\n    f(1, b=2, d=3)\nmain()\n"}, False),
        ({"run.py": "from nets import f as g\ng(1, 2, 3)\n", "more.py": f"{CALLS}f()\n"}, False),
        ({"run.py": f"{CALLS}f(1, 2, c=3)\n"}, True),
        ({"run.py": f"{CALLS}f(1)\n", "more.py": f"{CALLS}f(1, 2)\n"}, True),
        ({"run.py": f"{CALLS}f(1)\nf(1, 2)\n"}, True),
        ({"run.py": f"{CALLS}f(*CALLS)\n"}, True),
        ({"run.py": f"{CALLS}f(1, **CALLS)\n"}, True),
        ({"run.py": f"{CALLS}f(1)\nprint(f)\n"}, True),
        ({"run.py": f"{CALLS}f = print\nf(1)\n"}, True),
        ({"run.py": f"{CALLS}import nets\nnets.f = print\nf(1)\n"}, True),
        ({"run.py": f"{CALLS}f(1)\n", "nets.py": f"{TAKES}f = lru_cache(f)\n"}, True),
        ({"run.py": f"{CALLS}f(1)\n", "nets.py": f"@wrapped\n{TAKES}wrapped = print\n"}, True),
        ({"run.py": f"{CALLS}f(1)\n", "nets.py": f"{TAKES}def f(a):\n    pass\n"}, True),
        ({"run.py": f"{CALLS}f(1)\n", "nets.py": f"{TAKES}if f:\n    from x import f\n"}, True),
    ],
)
def test_a_function_that_no_call_fits(files: dict[str, str], used: bool, tmp_path: Path) -> None:
    assert uses(tmp_path, {"nets.py": TAKES, **files}, "nets.py", "f") is used


def test_how_the_call_does_not_fit_is_said(tmp_path: Path) -> None:
    project = project_of(tmp_path, {"nets.py": TAKES, "run.py": f"{CALLS}f(1)\n"})
    said = project.failing_user(str(tmp_path.resolve() / "nets.py"), "f")
    assert said == "the call in `run.py` leaves out `b`"


@pytest.mark.parametrize(
    ("call", "told"),
    [("run(x)", False), ("print(x)", True), ("# run(x)", True), ("print(run)", False)],
)
def test_a_finding_says_that_nothing_uses_its_function(
    tmp_path: Path, call: str, told: bool
) -> None:
    text = (
        "import torch\n\nnet = torch.nn.Linear(4, 4).cuda()\n\n\ndef run(loader):\n"
        "    for x in loader:\n        noise = torch.zeros(4).cuda()\n"
        "        net(x.cuda(non_blocking=True) + noise).sum().backward()\n\n\n"
        f"if __name__ == '__main__':\n    x = torch.load('x')\n    {call}\n    print(x)\n"
    )
    (tmp_path / "train.py").write_text(text)
    forget()
    report = analyse_job(job(text, name="train.py", root=str(tmp_path)))
    (finding,) = (each for each in report.findings if each.code == "TL102")
    assert finding.message.endswith("Nothing that runs in this program uses `run`.") is told
    assert (finding.severity is Severity.INFO) is told
