"""What one file knows of the others of its project."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
import pytest

from tests.checking import job
from torchlint.cli.main import run
from torchlint.engine import syntax
from torchlint.run.projects import forget, outside_of
from torchlint.run.worker import analyse_job
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.options import counts_by_default
from torchlint.semantic.code.scopes import base_names
from torchlint.semantic.data.loader_settings import restarts_workers
from torchlint.semantic.data.loaders import feeds_device
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import reached_elsewhere, said_somewhere
from torchlint.semantic.project.exports import exported, plain
from torchlint.semantic.project.index import index
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.project.project import Project
from torchlint.semantic.project.search import Search
from torchlint.semantic.time import autograd
from torchlint.semantic.time.grades import Grade, Link
from torchlint.semantic.time.heat import heat_of, may_be_hot
from torchlint.semantic.uses.networks import runs_module_method
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.value import ACCEL, Value
from torchlint.source.python import parsed

LOADER = "torch.utils.data.DataLoader"
LOOP = """
import torch

class Engine:
    def fit(self, loader):
        for batch in loader:
            self.forward_backward(batch)
            self.log_losses(batch)

    def validate(self, loader):
        self.report()
        with torch.no_grad():
            for batch in loader:
                self.look(batch)
"""


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def analysed(folder: Path, files: Mapping[str, str], name: str) -> Module:
    """Write a project and return the analysis of one of its files."""
    write(folder, files)
    forget()
    text = (folder / name).read_text()
    outside = outside_of(job(text, name=name, root=str(folder)))
    return Module(cst.parse_module(text), text, name, outside=outside)


def probe(module: Module) -> cst.Call:
    for call in module.nodes(cst.Call):
        if (
            isinstance(call, cst.Call)
            and isinstance(call.func, cst.Name)
            and call.func.value == "probe"
        ):
            return call
    raise AssertionError("no probe")


def probed(folder: Path, files: Mapping[str, str], name: str = "train.py") -> Value:
    module = analysed(folder, files, name)
    return inferred(module, probe(module).args[0].value)


# -- names -----------------------------------------------------------------------------------------


def test_index_of_names() -> None:
    found = index(
        parsed(
            textwrap.dedent(
                """
                import torch.nn as nn, os.path
                from .a import b as c, d
                from .. import e
                from x import *
                try:
                    import fast
                except ImportError:
                    fast = None
                if flag:
                    class Twice: pass
                else:
                    class Twice(nn.Module): pass
                class Net(nn.Module, Generic[T], make()): pass
                def f(): hidden = 1
                Alias = Net
                left, right = f()
                async def g(): pass
                """
            )
        )
    )
    assert {name: (o.kind, o.dotted) if o else None for name, o in found.names.items()} == {
        "nn": ("import", "torch.nn"),
        "os": ("import", "os"),
        "c": ("import", ".a.b"),
        "d": ("import", ".a.d"),
        "e": ("import", "..e"),
        "fast": ("import", "fast"),
        "Twice": None,
        "Net": ("class", ""),
        "f": ("function", ""),
        "g": ("function", ""),
        "Alias": ("alias", "Net"),
        "left": ("other", ""),
        "right": ("other", ""),
    }
    net = found.names["Net"]
    assert net is not None
    assert net.bases == ("nn.Module", "Generic", "")
    assert found.stars == ("x",)


@pytest.mark.parametrize("text", ["class (:", "x = '\0'", "(" * 500 + ")" * 500])
def test_index_of_what_is_not_python_is_empty(text: str) -> None:
    assert index(parsed(text)).names == {}


@pytest.mark.parametrize(
    ("importer", "dotted", "found"),
    [
        ("pkg/sub/a.py", ".b", "pkg/sub/b.py"),
        ("pkg/sub/a.py", "..core", "pkg/core.py"),
        ("pkg/sub/a.py", ".", "pkg/sub/__init__.py"),
        ("pkg/sub/__init__.py", ".b", "pkg/sub/b.py"),
        ("pkg/sub/a.py", "pkg.core", "pkg/core.py"),
        ("tests/t.py", "pkg.core", "pkg/core.py"),
        ("tests/t.py", "inner.deep", "src/inner/deep.py"),
        ("tools/t.py", "lower.deep", "lib/lower/deep.py"),
        ("scripts/run.py", "helper", "scripts/helper.py"),
        ("pkg/sub/a.py", "helper", None),
        ("pkg/sub/a.py", "..missing", None),
        ("pkg/sub/a.py", "torch", None),
        ("scripts/run.py", "same", "scripts/same.py"),
        ("pkg/core.py", "same", "same.py"),
        ("work/models/inner/a.py", "models.parts", "work/models/parts.py"),
        ("work/models/inner/a.py", "other.parts", None),
        ("work/models/inner/a.py", "same", "same.py"),
    ],
)
def test_search(tmp_path: Path, importer: str, dotted: str, found: str | None) -> None:
    names = (
        "pkg/__init__.py pkg/core.py pkg/sub/__init__.py pkg/sub/a.py pkg/sub/b.py tests/t.py "
        "src/inner/deep.py lib/lower/deep.py "
        "scripts/run.py scripts/helper.py torch.py same.py scripts/same.py "
        "work/models/inner/a.py work/models/parts.py play/other/parts.py"
    )
    write(tmp_path, dict.fromkeys(names.split(), ""))
    path = Search(str(tmp_path)).module(str(tmp_path / importer), dotted)
    assert path == (None if found is None else str(tmp_path / found))


@pytest.mark.parametrize(
    ("importer", "dotted", "found"),
    [
        ("work/main.py", "agent", "work/agent.py"),
        ("work/agent.py", "memory", "work/memory.py"),
        ("work/main.py", "work", "work/work.py"),
        ("work/main.py", "top", "top.py"),
        ("main.py", "work", "work/__init__.py"),
        # nobody starts a program there
        ("conf/a.py", "hydra", None),
        ("conf/a.py", "conf", "conf/__init__.py"),
    ],
)
def test_a_script_in_a_package_finds_what_lies_beside_it(
    tmp_path: Path, importer: str, dotted: str, found: str | None
) -> None:
    names = (
        "work/__init__.py work/agent.py work/memory.py work/work.py work/top.py top.py main.py "
        "conf/__init__.py conf/a.py conf/hydra.py conf/conf.py"
    )
    main = {"work/main.py": "if __name__ == '__main__':\n    pass\n"}
    write(tmp_path, {**dict.fromkeys(names.split(), ""), **main})
    for folder in ("work", "conf"):
        os.mkfifo(tmp_path / folder / "pipe.py")  # which nobody waits for
    path = Search(str(tmp_path)).module(str(tmp_path / importer), dotted)
    assert path == (None if found is None else str(tmp_path / found))


# -- classes ---------------------------------------------------------------------------------------

NETS = {
    "nets/__init__.py": "from .base import Base\nfrom .heads import *\n",
    "nets/base.py": "import torch.nn as nn\nclass Base(nn.Module):\n    pass\n",
    "nets/heads.py": (
        "from . import base\nclass Head(base.Base):\n    def forward(self, x):\n        return x\n"
    ),
}


@pytest.mark.parametrize(
    "source",
    [
        "from nets import Base\nclass Net(Base): pass",
        "from nets import Head\nclass Net(Head): pass",
        "import nets\nclass Net(nets.Head): pass",
        "from nets.heads import Head as H\nclass Net(H): pass",
        "from nets import *\nclass Net(Head): pass",
    ],
)
def test_a_module_class_by_a_base_in_another_file(tmp_path: Path, source: str) -> None:
    module = analysed(tmp_path, {**NETS, "train.py": source}, "train.py")
    (cls,) = module.nodes(cst.ClassDef)
    assert isinstance(cls, cst.ClassDef)
    assert "torch.nn.Module" in base_names(module, cls)


def test_a_base_that_only_sounds_like_a_module(tmp_path: Path) -> None:
    files = {
        "base.py": "class BaseModel:\n    pass\n",
        "train.py": "import torch\nfrom base import BaseModel\n"
        "class Cfg(BaseModel):\n    def forward(self, x):\n        probe(x)\n",
    }
    found = analysed(tmp_path, files, "train.py")
    assert heat_of(found, probe(found)).grade is Grade.COLD


CUDA = "import torch\n\ndef place(net):\n    return net.cuda()\n"


@pytest.mark.parametrize(
    ("files", "accelerated"),
    [
        ({"run.py": "import gae\nimport place\n", "place.py": CUDA}, True),
        ({"gae.py": "import place\n", "place.py": CUDA}, True),
        ({"run.py": "from lib import gae, place\n", "lib/place.py": CUDA}, True),
        # A name that is taken from a module is no module, and a script's neighbour is nearer.
        ({"ppo/run.py": "from tools import gae\n" + CUDA, "ppo/tools.py": ""}, False),
        ({"ppo/run.py": "import model\n" + CUDA, "ppo/model.py": "", "model.py": ""}, False),
        # What does not parse says what it imports all the same.
        (
            {"ppo/run.py": "from tools import gae\nx = (async=1)\n" + CUDA, "ppo/tools.py": ""},
            False,
        ),
        # Where imports find nothing, names decide.
        ({"ppo/run.py": "import sys\nfrom gae import train\n" + CUDA}, True),
        ({"ppo/run.py": "from up.gae import train\n" + CUDA}, True),
        ({"ppo/run.py": "import importlib\nimportlib.import_module(name)\n" + CUDA}, True),
    ],
)
def test_an_accelerator_is_that_of_a_file_which_imports_find(
    tmp_path: Path, files: dict[str, str], accelerated: bool
) -> None:
    name = "lib/gae.py" if "lib/place.py" in files else "gae.py"
    own = {name: "import torch\nimport model\n" + files.pop(name, "")}
    assert on_accelerator(analysed(tmp_path, {"model.py": "", **files, **own}, name)) is accelerated


NET = """
import torch
class Net(torch.nn.Module): ...
def update(net, x, sgd):
    net(x).sum().backward()
    sgd.step()
"""
NEVER_MOVED = {
    "at the top level": NET + "for x in data: update(net, x, sgd)\n",
    "by the step itself": NET + "net(x).backward()\n",
    "through another function": NET + "def main():\n    update(net, x, sgd)\nmain()\n",
    "behind a guard": NET + "if __name__ == '__main__':\n    main()\n",
}


@pytest.mark.parametrize("text", NEVER_MOVED.values(), ids=NEVER_MOVED)
def test_a_program_without_a_word_of_an_accelerator_runs_on_the_host(
    tmp_path: Path, text: str
) -> None:
    assert on_accelerator(analysed(tmp_path, {"fit.py": text}, "fit.py")) is False


BASE = """
class Base:
    def {name}(self, device):
        self.device = device
        return self
"""
OWN = """
import torch
from base import Base
class Own(Base):
    def __init__(self, device="cpu"):
        self.device = device
    def work(self, x: torch.Tensor):
        probe(x.to(self.device))
own = Own()
"""


@pytest.mark.parametrize(("name", "device"), [("to", None), ("tell", "cpu")])
def test_an_object_whose_base_moves_it_is_not_where_it_was_made(
    tmp_path: Path, name: str, device: str | None
) -> None:
    files = {"base.py": BASE.format(name=name), "own.py": OWN}
    assert probed(tmp_path, files, "own.py").device == device


@pytest.mark.parametrize(
    ("moves", "accelerated"),
    [
        ("x.to(y.device)", False),
        ("x.to(y.dtype)", False),
        ("x.to(args.device)", True),
        ("x.to(device)", True),
    ],
)
def test_what_goes_to_where_another_tensor_is_moves_no_program(
    tmp_path: Path, moves: str, accelerated: bool
) -> None:
    files = {
        "fit.py": NET + "import noise\nupdate(net, noise.noised(x), sgd)\n",
        "noise.py": f"def noised(x, y=None, args=None, device=None):\n    return {moves}\n",
    }
    assert on_accelerator(analysed(tmp_path, files, "fit.py")) is accelerated


@pytest.mark.parametrize(
    "files",
    [
        {"fit.py": NET},
        {"fit.py": NET + "net = Net()\nshow(net)\n"},
        {"fit.py": NET + "update(net.cuda(), x, sgd)\n"},
        {"fit.py": NET + "import place\nupdate(net, x, sgd)\n", "place.py": CUDA},
        {"fit.py": NET + "update(net, x, sgd)\n", "run.py": "from fit import Net\n"},
    ],
    ids=["a library", "no training", "moved here", "moved by another file", "used elsewhere"],
)
def test_what_may_be_moved_counts_as_on_the_accelerator(
    tmp_path: Path, files: dict[str, str]
) -> None:
    assert on_accelerator(analysed(tmp_path, files, "fit.py")) is True


@pytest.mark.parametrize(
    ("words", "accelerated"),
    [("", False), ("net.cuda()", True), ("net.to('mps')", True), ("import place", True)],
)
def test_a_notebook_is_a_program_with_or_without_a_training(
    tmp_path: Path, words: str, accelerated: bool
) -> None:
    files = {
        "a.ipynb": f"import torch\nclass Net(torch.nn.Module): ...\n{words}\n",
        "place.py": CUDA,
    }
    assert on_accelerator(analysed(tmp_path, files, "a.ipynb")) is accelerated


def test_heat_comes_from_the_loop_of_a_base_class(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/engine.py": LOOP,
        "pkg/middle.py": "from .engine import Engine\nclass Middle(Engine): pass\n",
        "pkg/train.py": """
            import torch
            from pkg.middle import Middle
            class Sub(Middle):
                def log_losses(self, batch):
                    probe(batch)
            """,
    }
    found = analysed(tmp_path, files, "pkg/train.py")
    heat = heat_of(found, probe(found))
    assert heat.grade is Grade.TRAIN
    assert [why.text for why in heat.why] == [
        "log_losses() is called by a base class",
        "every training step of the loop",
    ]
    assert [why.elsewhere[0].filename for why in heat.why if isinstance(why.elsewhere, tuple)] == [
        "pkg/engine.py"
    ] * 2


@pytest.mark.parametrize(("method", "no_grad"), [("look", True), ("report", False)])
def test_no_grad_comes_from_the_base_class(tmp_path: Path, method: str, no_grad: bool) -> None:
    source = (
        "import torch\nfrom engine import Engine\nclass Sub(Engine):\n    def "
        f"{method}(self):\n        probe(1)\n"
    )
    found = analysed(tmp_path, {"engine.py": LOOP, "train.py": source}, "train.py")
    assert autograd.no_grad(found, probe(found)) is no_grad


# -- values ----------------------------------------------------------------------------------------

HELPERS = """
import torch
from torch.utils.data import DataLoader

def host(x):
    return x.sum().item()

def on_device(x, device):
    return x.to(device)

def build(dataset):
    return DataLoader(dataset, batch_size=4)

def pair():
    return torch.zeros(3, device="cuda"), 3

class Holder:
    def __init__(self):
        self.scale = torch.ones(3, device="cuda")
        self.count = 3

    def values(self):
        return self.scale

class Net(torch.nn.Module):
    def forward(self, x):
        return {"loss": x.sum()}
"""


@pytest.mark.parametrize(
    ("expression", "kind", "device"),
    [
        ("helpers.host(y)", "number", None),
        ("helpers.on_device(torch.zeros(2), d)", "tensor", ACCEL),
        ("helpers.build(y)", "loader", "cpu"),
        ("helpers.pair()[0]", "tensor", "cuda"),
        ("helpers.pair()[1]", "number", None),
        ("helpers.Holder().scale", "tensor", "cuda"),
        ("helpers.Holder().count", "number", None),
        ("helpers.Holder().values()", "tensor", "cuda"),
        ("helpers.Net()", "module", None),
        ("helpers.Net()(y)['loss']", "tensor", ACCEL),
        ("helpers.missing()", "?", None),
        ("helpers.Holder().missing", "?", None),
    ],
)
def test_values_from_another_file(
    tmp_path: Path, expression: str, kind: str, device: str | None
) -> None:
    found = probed(
        tmp_path,
        {"helpers.py": HELPERS, "train.py": f"import torch, helpers\nprobe({expression})\n"},
    )
    assert (found.kind, found.device) == (kind, device)


@pytest.mark.parametrize(
    ("expression", "kind"), [("self.scale", "tensor"), ("self.values()", "tensor")]
)
def test_values_from_a_base_class(tmp_path: Path, expression: str, kind: str) -> None:
    source = f"""
        import torch
        from helpers import Holder
        class Mine(Holder):
            def use(self):
                probe({expression})
        """
    assert probed(tmp_path, {"helpers.py": HELPERS, "train.py": source}).kind == kind


def test_annotations_name_classes_of_other_files(tmp_path: Path) -> None:
    source = "import torch\nfrom helpers import Net\ndef f(x: Net):\n    probe(x)\n"
    assert probed(tmp_path, {"helpers.py": HELPERS, "train.py": source}).kind == "module"


STEP = """
import torch
from helpers import {name}

def train(model, loader, optimizer, loss_fn):
    for x, y in loader:
        loss = loss_fn(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        {call}
"""


@pytest.mark.parametrize(
    ("helper", "call", "found"),
    [
        ("def scalar(x):\n    return x.item()", "scalar(loss)", True),
        ("def scalar(x):\n    return float(x.detach())", "scalar(x=loss)", True),
        (
            "def scalar(a, x):\n    if torch.is_tensor(x):\n        x = x.item()\n    return x",
            "scalar(1, loss)",
            True,
        ),
        ("def scalar(x):\n    return x.item()", "scalar(3.0)", False),
        ("def scalar(x):\n    return x * 2", "scalar(loss)", False),
        (
            "def scalar(x, n):\n    if n % 10 == 0:\n        print(x.item())",
            "scalar(loss, 3)",
            False,
        ),
        ("def scalar(x):\n    x = 3\n    return float(x)", "scalar(loss)", False),
        ("def scalar(a, x):\n    return float(a)", "scalar(1, loss)", False),
        ("def scalar(a, x):\n    return float(x)", "scalar(*both, loss)", False),
        ("class scalar:\n    def item(x):\n        return x.item()", "scalar(loss)", False),
    ],
)
def test_a_helper_that_reads_its_argument_is_seen_from_the_loop(
    tmp_path: Path, helper: str, call: str, found: bool
) -> None:
    write(
        tmp_path,
        {
            "helpers.py": f"import torch\n{helper}\n",
            "train.py": STEP.format(name="scalar", call=call),
        },
    )
    forget()
    text = (tmp_path / "train.py").read_text()
    findings = analyse_job(job(text, codes=frozenset(["TL101"]), root=str(tmp_path))).findings
    assert [f.code for f in findings] == ["TL101"] * found
    if found:
        first, *rest = findings[0].why_hot
        assert first.filename.endswith("helpers.py")
        assert first.line >= 3
        assert rest[0].filename == "train.py"


PADDED = """\
import defaults
import torch
from torch import nn


class Padded(nn.Module):
    def forward(self, x):
        return torch.cat([x, torch.zeros(x.size(0), 8).to(x.device)], dim=1)


print(Padded())
"""


@pytest.mark.parametrize(
    ("watching", "safety"),
    [
        ("class Log(torch.overrides.TorchFunctionMode): pass", "unsafe"),
        ("from torch.utils._python_dispatch import TorchDispatchMode as Mode", "unsafe"),
        ("class Own(torch.Tensor):\n    pass", "unsafe"),
        ("torch.cat = print", "unsafe"),
        ("def of(net):\n    return torch.fx.symbolic_trace(net)", "safe"),
        ("def of(net, x):\n    return torch.jit.trace(net, x)", "safe"),
        ("torch.nn.modules.module.register_module_forward_hook(print)", "safe"),
    ],
)
def test_who_in_another_file_sees_what_is_only_made_and_moved(
    tmp_path: Path, watching: str, safety: str
) -> None:
    write(tmp_path, {"defaults.py": f"import torch\n{watching}\n", "train.py": PADDED})
    forget()
    (found,) = analyse_job(job(PADDED, codes=frozenset(["TL102"]), root=str(tmp_path))).findings
    assert found.fix is not None
    assert found.fix.safety.value == safety


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ("x = 1\n", "number"),
        ("def lens(x):\n    return []\n", "number"),
        ("from a import *\n", "number"),
        ("def len(x):\n    return []\n", "list"),
        ("len = other\n", "?"),
        ("from elsewhere import *\n", "number"),
    ],
)
def test_a_builtin_behind_star_imports_of_star_imports(
    tmp_path: Path, last: str, kind: str
) -> None:
    files = {
        "a.py": "from b import *\nimport torch\nprobe(len([1]))\n",
        "b.py": "from c import *\n",
        "c.py": last,
    }
    assert probed(tmp_path, files, "a.py").kind == kind


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("package", "name", "meant"),
    [
        ("elsewhere", "len", "builtins.len"),
        ("our.missing.part", "range", "builtins.range"),
        ("torch", "enumerate", "builtins.enumerate"),
        ("torch", "range", None),
        ("six.moves", "zip", None),
        ("elsewhere", "max", None),
        ("numpy", "sum", None),
    ],
)
def test_what_libraries_that_nobody_read_leave_of_the_builtins(
    tmp_path: Path, package: str, name: str, meant: str | None, alone: bool
) -> None:
    text = f"import torch\nfrom {package} import *\n{name}([1])\n"
    found = analysed(tmp_path, {"a.py": text}, "a.py")
    if alone:
        found = Module(cst.parse_module(text), text, "a.py", outside=Outside())
    [call] = found.nodes(cst.Call)
    assert found.name(call.func) == meant


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "files",
    [
        {
            "a.py": "from b import f\nimport torch\ndef g(): return f()\n",
            "b.py": "import torch\nfrom a import g as f\n",
        },
        {"a.py": "from a import f\n"},
        {"a.py": "from b import *\n", "b.py": "from a import *\n"},
        {"a.py": "from b import f\n", "b.py": "f = f\n"},
        {"a.py": "from b import f\n", "b.py": "import torch\nclass f(f): pass\n"},
        {"a.py": "from b import f\n", "b.py": "this is not python"},
        {
            "a.py": "from b import f\n",
            "b.py": "import torch\nx = " + "not " * 5000 + "y\ndef f(): return 1\n",
        },
        {"a.py": "from b import f\n", "b.py": "import torch\n(x): int = 3\n"},
        {"a.py": "from b import f\n"},
        {"a.py": "from ....... import f\n"},
    ],
    ids="circle self stars alias base broken deep unsupported missing above".split(),
)
def test_what_cannot_be_followed_is_unknown(tmp_path: Path, files: dict[str, str]) -> None:
    text = files["a.py"] + "import torch\nclass Net(f): pass\nprobe(f())\n"
    assert probed(tmp_path, {**files, "a.py": text}, "a.py").kind in ("?", "object")


def test_a_file_that_libcst_cannot_nest_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether CPython gives up before us depends on its own stack and on ours."""

    def gives_up(*_: object) -> None:
        raise RecursionError

    files = {"a.py": "from b import f\nimport torch\nprobe(f())\n", "b.py": "def f(): return 1\n"}
    assert probed(tmp_path, files, "a.py").kind == "number"
    forget()
    parse = syntax.parse
    monkeypatch.setattr(
        syntax, "parse", lambda text, *rest: gives_up() if "def f" in text else parse(text, *rest)
    )
    assert probed(tmp_path, files, "a.py").kind == "?"


Concise = Callable[..., list[str]]


@pytest.fixture
def concise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Concise:
    """Return a function that runs the command line in the test's folder and returns its lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def lines(*args: str) -> list[str]:
        run([*args, "--output-format", "concise"])
        return capsys.readouterr().out.splitlines()

    return lines


def test_a_folder_of_one_file_says_the_same_as_the_file_alone(
    tmp_path: Path, concise: Concise
) -> None:
    write(
        tmp_path,
        {
            "pyproject.toml": "[tool.torchlint]\n",
            "helpers.py": "import torch\ndef scalar(x):\n    return x.item()\n",
            "train.py": STEP.format(name="scalar", call="scalar(loss)"),
        },
    )
    alone = concise("check", "train.py")
    whole = concise("check", ".")
    excluded = concise("check", ".", "--config", "exclude=['helpers.py']")
    lines = [line for line in alone if line.startswith("train.py")]
    assert any("TL101" in line and "scalar(loss)" in line for line in lines)
    assert lines == [line for line in whole if line.startswith("train.py")]
    assert lines == [line for line in excluded if line.startswith("train.py")]


# -- submodules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "kind"),
    [
        ("from .psnr import psnr", "tensor"),
        ("from .psnr import *", "tensor"),
        ("from . import psnr", "?"),
        ("", "?"),
    ],
)
def test_a_name_of_the_package_hides_its_submodule(tmp_path: Path, package: str, kind: str) -> None:
    files = {
        "metrics/__init__.py": package,
        "metrics/psnr.py": "import torch\ndef psnr(x):\n    return torch.log10(x)\n",
        "train.py": "import torch\nfrom metrics import psnr\nprobe(psnr(torch.ones(3)))\n",
    }
    assert probed(tmp_path, files).kind == kind


def test_a_star_import_of_a_hidden_submodule_reads_the_submodule(tmp_path: Path) -> None:
    files = {
        "metrics/__init__.py": "from .psnr import psnr",
        "metrics/psnr.py": (
            "import torch\ndef psnr(x):\n    return x\ndef other(x):\n    return torch.log10(x)\n"
        ),
        "train.py": "import torch\nfrom metrics.psnr import *\nprobe(other(torch.ones(3)))\n",
    }
    assert probed(tmp_path, files).kind == "tensor"


# -- loaders ---------------------------------------------------------------------------------------

DATA = """
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torchvision.datasets import ImageFolder

class Files(Dataset):
    def __getitem__(self, index):
        return self.load(self.paths[index])

    def load(self, path):
        return torch.from_numpy(np.load(path))

class Held(Dataset):
    def __getitem__(self, index):
        return self.data[index].float()

class OnDevice(Files):
    def __getitem__(self, index):
        return self.load(self.paths[index]).to("cuda")

class Images(ImageFolder):
    pass

class Stream(IterableDataset):
    def __iter__(self):
        yield torch.load("x.pt")

class Plain(DataLoader):
    pass

class HandsOn(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)

class Sets(DataLoader):
    def __init__(self, data):
        super().__init__(data, num_workers=4, pin_memory=True)

def read(path):
    return np.load(path)

def choose(args):
    return Files() if args.files else Held()

def collate(samples):
    return torch.stack([decode(sample) for sample in samples])

def pinned(data):
    return DataLoader(data, pin_memory=True)

def pageable(data):
    return DataLoader(data)
"""

LOADING = """
import torch
from torch.utils.data import DataLoader
import data

class Derived(data.Files):
    pass

class Reads(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return data.read(self.paths[index])

class Own(DataLoader):
    def __init__(self, samples):
        super().__init__(samples, pin_memory=True)

def train(args, model, optimizer):
    held = data.Stream()
    loader = {made}
    for x in loader:
        x = x.to("cuda")
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        ("DataLoader(data.Files())", "warning"),
        ("DataLoader(data.Images())", "warning"),
        ("DataLoader(Derived())", "warning"),
        ("DataLoader(Reads())", "warning"),
        ("DataLoader(data.choose(args))", "warning"),
        ("DataLoader(args.data, collate_fn=data.collate)", "warning"),
        ("data.Plain(data.Files())", "warning"),
        ("data.HandsOn(data.Files())", "warning"),
        ("DataLoader(args.data)", "info"),
        ("DataLoader(data.Held())", None),
        ("DataLoader(data.Stream())", None),
        ("DataLoader(held)", None),
        ("DataLoader(data.OnDevice())", None),
        ("data.Plain(data.Files(), num_workers=4)", None),
        ("data.Sets(data.Files())", None),
        ("Own(data.Files())", None),
    ],
)
def test_datasets_and_loaders_of_other_files(
    tmp_path: Path, made: str, severity: str | None
) -> None:
    write(tmp_path, {"data.py": DATA, "train.py": LOADING.format(made=made)})
    forget()
    text = (tmp_path / "train.py").read_text()
    found = analyse_job(job(text, codes=frozenset(["TL201"]), root=str(tmp_path))).findings
    assert [finding.severity.value for finding in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("data.pinned(args.data)", "warning"),
        ("data.pageable(args.data)", "workers first"),
        ("data.Sets(args.data)", "warning"),
        ("data.Plain(args.data)", "workers first"),
        ("data.Plain(args.data, num_workers=2)", "info"),
        ("data.Plain(args.data, pin_memory=True)", "warning"),
        ("Own(args.data)", "warning"),
        ("DataLoader(args.data)", "workers first"),
        ("DataLoader(args.data, num_workers=2)", "info"),
    ],
)
def test_pinning_in_loaders_of_other_files(tmp_path: Path, made: str, said: str) -> None:
    """A blocking copy costs less where the batch is not pinned in the first place; without workers
    these come first."""
    write(tmp_path, {"data.py": DATA, "train.py": LOADING.format(made=made)})
    forget()
    text = (tmp_path / "train.py").read_text()
    (found,) = analyse_job(job(text, codes=frozenset(["TL103"]), root=str(tmp_path))).findings
    first = "give the DataLoader workers" in found.message
    assert found.severity.value == ("info" if first else said)
    assert first is (said == "workers first")


class Analyses:
    """Notes which files are analysed, and whose analyses are freed."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.closed: list[str] = []
        self.project = Project("", lambda path: "x" * 8, self.analysis)  # type: ignore[arg-type]

    def analysis(self, project: Project, path: str, text: str) -> Analysis:
        self.made.append(path)
        return Analysis(path, self.closed)


@dataclass
class Analysis:
    path: str
    closed: list[str]

    def close(self) -> None:
        self.closed.append(self.path)


def test_an_analysis_of_another_file_is_made_once_per_file_that_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that no longer fits is freed when the next file comes, not while answers from it are in
    use."""
    monkeypatch.setattr("torchlint.semantic.project.analyses._KEPT", 10)
    seen = Analyses()
    for path in ("a", "b", "a"):
        seen.project.analyses.module(path)
    assert (seen.made, seen.closed) == (["a", "b"], [])
    seen.project.settle()
    assert seen.closed == ["b"]
    seen.project.analyses.module("a")
    seen.project.analyses.module("b")
    assert seen.made == ["a", "b", "b"]
    seen.project.close()
    assert seen.closed == ["b", "a", "b"]


def test_an_analysis_that_the_file_at_hand_has_not_asked_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torchlint.semantic.project.analyses._KEPT", 20)
    seen = Analyses()
    for path in ("a", "b"):
        seen.project.analyses.module(path)
    seen.project.settle()
    assert seen.closed == [], "both fit"
    for path in ("b", "c", "d", "b", "c"):
        seen.project.analyses.module(path)
    assert (seen.made, seen.closed) == (["a", "b", "c", "d"], ["a"])


def test_a_file_is_read_once_and_not_analysed_for_a_name_that_it_does_not_hold(
    tmp_path: Path,
) -> None:
    texts = {"helper.py": "class A:\n    def known(self):\n        return 1\n"}
    read: list[str] = []
    analysed: list[str] = []

    def text(path: str) -> str:
        read.append(path)
        return texts["helper.py"]

    def analysis(project: Project, path: str, text: str) -> None:
        analysed.append(path)

    (tmp_path / "helper.py").touch()
    project = Project(str(tmp_path), text, analysis)
    outside = Outside(project, str(tmp_path / "train.py"), deep=True)
    cls = outside.find("helper.A")
    assert cls is not None
    outside.method([cls], "unknown")
    outside.attribute([cls], "unknown")
    assert list(outside.callers([cls], "unknown")) == []
    assert analysed == []
    outside.method([cls], "known")
    assert analysed == [cls.path]
    assert read == [cls.path]


def test_texts_that_are_kept_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlint.semantic.project.files.TEXTS", 2)
    read: list[str] = []

    def text(path: str) -> str:
        read.append(path)
        return ""

    project = Project(str(tmp_path), text, lambda project, path, text: None)
    for path in ("a", "b", "a"):
        project.files.says(path, "x")
    project.settle()
    assert project.files.says("c", "")
    assert read == ["a", "b", "c"]
    project.settle()
    assert project.files.says("a", "")
    assert read == ["a", "b", "c", "a"]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("from lib import scaler", True),
        ("from lib import *", True),
        ("import lib\nlib.scaler", True),
        ("import lib as other\nother.scaler", True),
        ("import lib\nsetattr(lib, 'scaler', 1)", True),
        ("import lib\ngetattr(lib, 'sca' + 'ler')", True),
        ("import lib\nvars(lib)", True),
        ("patch('lib.scaler')", True),
        ("import importlib\nimportlib.import_module('lib').scaler", True),
        ("def f(:\n    scaler", True),
        ("import lib\nlib.other", False),
        ("from lib import other\nscaler = 1", False),
        ("class A:\n    def f(self):\n        self.scaler = 'scaler'", False),
        ("import torch\ntorch.scaler", False),
        ("from deep.lib import scaler", False),
        ("from lib import Net\nvars(Net)\nx.__dict__['scaler']", False),
    ],
)
def test_who_may_read_or_replace_a_name(tmp_path: Path, text: str, seen: bool) -> None:
    files = {"lib.py": "import torch\nscaler = 1\n", "deep/lib.py": "scaler = 2\n", "user.py": text}
    assert reached_elsewhere(analysed(tmp_path, files, "lib.py"), "scaler") is seen


def test_a_project_of_too_many_files_is_not_read_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchlint.semantic.project.search._MOST_FILES", 2)
    files = {f"{name}.py": "import torch\n" for name in "abc"}
    module = analysed(tmp_path, files, "a.py")
    assert reached_elsewhere(module, "torch") is None
    assert said_somewhere(module, lambda text: False)


def test_folders_without_code_of_the_project_are_passed_over(tmp_path: Path) -> None:
    taker = "from lib import scaler\n"
    files = {
        "lib.py": "scaler = 1\n",
        ".venv/a.py": taker,
        "env/pyvenv.cfg": "",
        "env/lib/a.py": taker,
    }
    assert reached_elsewhere(analysed(tmp_path, files, "lib.py"), "scaler") is False


def test_a_default_and_an_annotation_are_read_around_the_function() -> None:
    text = (
        "import torch\nmake = torch.ones\ndef f(make: make = make, *, other=make):\n    "
        "return make(other)\n"
    )
    module = Module(cst.parse_module(text), text, "main.py", Outside())
    reads = reads_of(module, module.root, "make")
    assert [module.name(read) for read in reads] == ["torch.ones", "torch.ones", "torch.ones", None]
    assert len(writes_of(module, module.root, "make")) == 2


LOOKS = "import sys\nframe = sys._getframe\n"
APART = {
    "a file that nobody imports": ({"tool.py": LOOKS}, False),
    "a file that it imports": ({"train.py": "import tool\n", "tool.py": LOOKS}, True),
    "a file that imports it": ({"tool.py": f"from train import run\n{LOOKS}"}, True),
    "a file that another imports beside it": (
        {"main.py": "from train import run\nfrom lib import tool\n", "lib/tool.py": LOOKS},
        True,
    ),
    "a file further on": (
        {
            "main.py": "import train, a\n",
            "a.py": "from b import (\n    tool,\n)\n",
            "b/tool.py": LOOKS,
        },
        True,
    ),
    "a package whose part it imports": (
        {"train.py": "import lib.part\n", "lib/__init__.py": LOOKS, "lib/part.py": ""},
        True,
    ),
    "another program that shares a helper": (
        {"train.py": "import shared\n", "shared.py": "", "other.py": f"import shared\n{LOOKS}"},
        False,
    ),
    "a file that may import anything": (
        {"plug.py": f"import importlib\nimportlib.import_module(name)\n{LOOKS}"},
        True,
    ),
    "a file that something imports by a computed name": (
        {"plug.py": "__import__(name)\n", "tool.py": LOOKS},
        True,
    ),
    "a test of it": ({"tests/test_train.py": "import train\n", "tests/conftest.py": LOOKS}, True),
    "a test of something else": (
        {"tests/test_tool.py": "import tool\n", "tests/conftest.py": LOOKS},
        False,
    ),
    "what Python imports first": ({"sitecustomize.py": LOOKS}, True),
    "a notebook that imports it": (
        {
            "look.ipynb": (
                '{"cells": [{"cell_type": "code", "source": ["from train import '
                'run\\n", "sys._getframe()"]}]}'
            )
        },
        True,
    ),
}


@pytest.mark.parametrize(("files", "meets"), APART.values(), ids=APART)
def test_only_files_that_may_run_with_it_say_something_of_a_file(
    tmp_path: Path, files: dict[str, str], meets: bool
) -> None:
    module = analysed(tmp_path, {"train.py": "import torch\n", **files}, "train.py")
    assert said_somewhere(module, lambda text: "_getframe" in text) is meets


# -- callers ---------------------------------------------------------------------------------------

LOSSES = """
import torch
def worst(scores):
    probe(scores)
    return scores.max()
"""
TRAIN = """
import torch
from {module} import {name}
def train(net, loader, optimizer):
    for x, y in loader:
        loss = {call}
        loss.backward()
        optimizer.step()
"""


def test_heat_comes_from_a_loop_in_another_file(tmp_path: Path) -> None:
    loop = TRAIN.format(module="losses", name="worst", call="worst(net(x.cuda()))")
    found = analysed(tmp_path, {"train.py": loop, "losses.py": LOSSES}, "losses.py")
    heat = heat_of(found, probe(found))
    assert heat.grade is Grade.TRAIN
    assert [
        (why.text, why.elsewhere.row) for why in heat.why if isinstance(why.elsewhere, Link)
    ] == [
        ("worst() is called", 6),
        ("every training step of the loop", 5),
    ]
    value = inferred(found, probe(found).args[0].value)
    assert (value.kind, value.device) == ("tensor", "cuda")


ENGINE = """
import torch
from losses import Criterion
class Engine:
    def __init__(self, net, optimizer):
        self.net, self.criterion, self.optimizer = net, Criterion(), optimizer
    def run_one(self, x):
        loss = self.criterion.compute(self.net(x))
        {extra}
"""
CRITERION = """
import torch
class Criterion:
    def compute(self, scores):
        probe(scores)
        return scores.max()
"""
MAIN = """
import torch
from engine import Engine
def main(net, optimizer, loader):
    engine = Engine(net, optimizer)
    for x in loader:
        loss = engine.run_one(x)
        {step}
"""


@pytest.mark.parametrize(
    ("step", "grade"), [("loss.backward()", Grade.TRAIN), ("print(loss.shape)", Grade.COLD)]
)
def test_heat_comes_through_the_methods_of_classes_in_several_files(
    tmp_path: Path, step: str, grade: Grade
) -> None:
    files = {
        "losses.py": CRITERION,
        "engine.py": ENGINE.format(extra="return loss"),
        "main.py": MAIN.format(step=step),
    }
    found = analysed(tmp_path, files, "losses.py")
    assert heat_of(found, probe(found)).grade is grade


@pytest.mark.parametrize(
    ("files", "grade"),
    [
        ({"main.py": "from losses import worst\nprint(worst(1))\n"}, Grade.COLD),
        (
            {"tests/test_losses.py": TRAIN.format(module="losses", name="worst", call="worst(x)")},
            Grade.COLD,
        ),
        (
            {"examples/run.py": TRAIN.format(module="losses", name="worst", call="worst(x)")},
            Grade.COLD,
        ),
        (  # another function of this name
            {
                "train.py": TRAIN.format(module="other", name="worst", call="worst(x)"),
                "other.py": "def worst(x): return x\n",
            },
            Grade.COLD,
        ),
        (
            {"train.py": TRAIN.format(module="losses", name="worst as bad", call="bad(x)")},
            Grade.TRAIN,
        ),
        ({"train.py": TRAIN.format(module="losses", name="*", call="worst(x)")}, Grade.TRAIN),
        (
            {
                "pkg/__init__.py": "from losses import worst\n",
                "train.py": TRAIN.format(module="pkg", name="worst", call="worst(x)"),
            },
            Grade.TRAIN,
        ),
        (  # a circle of callers, none of them hot
            {
                "a.py": (
                    "import torch\nfrom losses import worst\nfrom b import back\n"
                    "def forth():\n    worst(1)\n    back()\n"
                ),
                "b.py": "import torch\nfrom a import forth\ndef back():\n    forth()\n",
            },
            Grade.COLD,
        ),
        (  # an extra that is off by default
            {
                "train.py": TRAIN.format(
                    module="losses", name="worst", call="net(x)\n        show(x)"
                )
                + "def show(x, pictures=False):\n    if pictures:\n        worst(x)\n"
            },
            Grade.COLD,
        ),
        (
            {
                "train.py": TRAIN.format(
                    module="losses", name="worst", call="net(x)\n        show(x, y)"
                )
                + "def show(x, display):\n    if display:\n        worst(x)\n"
            },
            Grade.COLD,
        ),
        (
            {
                "train.py": TRAIN.format(
                    module="losses", name="worst", call="net(x)\n        show(x)"
                )
                + "def show(x, pictures=False):\n    worst(x)\n"
            },
            Grade.TRAIN,
        ),
    ],
)
def test_who_makes_a_function_of_another_file_hot(
    tmp_path: Path, files: dict[str, str], grade: Grade
) -> None:
    found = analysed(tmp_path, {"losses.py": LOSSES, **files}, "losses.py")
    assert heat_of(found, probe(found)).grade is grade
    if grade is Grade.TRAIN:
        assert may_be_hot(found, probe(found))


PROGRAM = """
import torch
import losses
def training(net, loader, optimizer):
    for x in loader:
        loss = losses.worst(net(x.cuda()))
        loss.backward()
        optimizer.step()
def evaluation(net, test_loader):
    with torch.no_grad():
        for x in test_loader:
            print(losses.worst(net(x.cuda())).shape)
def once(net, x):
    return losses.worst(net(x.cuda()))
if __name__ == "__main__":
    {}
"""


@pytest.mark.parametrize(
    ("runs", "grade", "optional"),
    [
        ("once(make(), first())", Grade.TRAIN, True),
        ("evaluation(make(), load())", Grade.EVAL, False),
        ("training(make(), load(), sgd())", Grade.TRAIN, False),
        ("once(training(make(), load(), sgd()), evaluation(make(), load()))", Grade.TRAIN, False),
    ],
)
def test_a_loop_that_nothing_runs_tells_of_others_what_it_is(
    tmp_path: Path, runs: str, grade: Grade, *, optional: bool
) -> None:
    """A loop of a dead function is no every-step use; one that runs is what counts beside it."""
    files = {"losses.py": LOSSES, "train.py": PROGRAM.format(runs)}
    found = analysed(tmp_path, files, "losses.py")
    heat = heat_of(found, probe(found))
    assert (heat.grade, heat.optional) == (grade, optional)


HEIR = "from miner import Miner\nclass Soft(Miner):\n    def mine_hard(self, x): return x\n"


@pytest.mark.parametrize(
    ("method", "others", "grade"),
    [
        ("mine_hard", "", Grade.TRAIN),
        # heirs of one class have it, wherever they stand
        ("mine_hard", HEIR, Grade.TRAIN),
        ("mine_hard", HEIR + HEIR.replace("Soft(Miner)", "Softer(Soft)"), Grade.TRAIN),
        # another class or function has it, or anything may
        ("mine_hard", "class Other:\n    def mine_hard(self, x): return x\n", Grade.COLD),
        ("mine_hard", HEIR + "class Other:\n    def mine_hard(self, x): return x\n", Grade.COLD),
        ("mine_hard", HEIR + "def mine_hard(x): return x\n", Grade.COLD),
        ("update", "", Grade.COLD),
    ],
)
def test_a_name_that_one_family_of_classes_has_tells_the_class(
    tmp_path: Path, method: str, others: str, grade: Grade
) -> None:
    files = {
        "miner.py": f"import torch\nclass Miner:\n    def {method}(self, x):\n        probe(x)\n",
        "others.py": others,
        "train.py": TRAIN.format(module="miner", name="Miner as _", call=f"net.miner.{method}(x)"),
    }
    found = analysed(tmp_path, files, "miner.py")
    assert heat_of(found, probe(found)).grade is grade


@pytest.mark.parametrize(
    ("first", "second", "no_grad"),
    [
        ("with torch.no_grad():", "with torch.no_grad():", True),
        ("if True:", "if True:", False),
        ("if True:", "with torch.no_grad():", None),
    ],
)
def test_no_grad_comes_from_callers_in_other_files(
    tmp_path: Path, first: str, second: str, no_grad: bool | None
) -> None:
    call = "import torch\nfrom look import look\ndef f():\n    {}\n        look(1)\n"
    files = {
        "look.py": "import torch\ndef look(x):\n    probe(x)\n",
        "a.py": call.format(first),
        "b.py": call.format(second),
    }
    found = analysed(tmp_path, files, "look.py")
    assert autograd.no_grad(found, probe(found)) is no_grad


@pytest.mark.parametrize(
    ("scores", "runs"),
    [
        ("return self.layer(x)", True),
        ("return self.inner(x)", True),
        ("with torch.no_grad():\n            return self.layer(x)", False),
        ("return self.scores(x)", False),
        ("return x", False),
    ],
)
def test_a_method_of_a_network_runs_its_layers_by_another_one(
    tmp_path: Path, scores: str, *, runs: bool
) -> None:
    files = {
        "nets.py": "import torch\nfrom torch import nn\nclass Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Linear(4, 3)\n"
        "    def inner(self, x): return self.layer(x)\n"
        f"    def scores(self, x):\n        {scores}\n"
        "    def decode(self, x): return self.scores(x).argmax(-1)\n",
        "label.py": "from nets import Net\nnet = Net()\nprobe(net.decode(x))\n",
    }
    found = analysed(tmp_path, files, "label.py")
    call = probe(found).args[0].value
    assert isinstance(call, cst.Call)
    assert runs_module_method(found, call) is runs


@pytest.mark.parametrize(
    ("calls", "kind", "device"),
    [
        (("look(torch.ones(2).cuda())",), "tensor", "cuda"),
        (("look(torch.ones(2).cuda())", "look(x=torch.ones(2).cuda())"), "tensor", "cuda"),
        (("look(torch.ones(2).cuda())", "look(unknown())"), "?", None),
        (("look(3)", "look(5)"), "number", None),
        (("look(torch.ones(2).cuda())", "look('a')"), "?", None),
    ],
)
def test_arguments_come_from_calls_in_other_files(
    tmp_path: Path, calls: tuple[str, ...], kind: str, device: str | None
) -> None:
    files = {"look.py": "import torch\ndef look(x):\n    probe(x)\n"}
    for place, call in enumerate(calls):
        files[f"f{place}.py"] = (
            f"import torch\nfrom look import look\ndef f(ns):\n    for n in ns:\n        {call}\n"
        )
    value = probed(tmp_path, files, "look.py")
    assert (value.kind, value.device) == (kind, device)


@pytest.mark.parametrize(
    ("made", "kind", "name"),
    [
        (("Trainer(Net())",), "module", "Net"),
        (("Trainer(q=Net().cuda())",), "module", "Net"),
        (("Trainer(Net())", "Trainer(Net().eval())"), "module", "Net"),
        (("Trainer(Net())", "Trainer(Wide())"), "module", "Net|Wide"),
        (("Trainer(Net())", "Trainer(unknown())"), "?", ""),
        (("Trainer()",), "?", ""),
        (
            (
                "Trainer(Net())",
                "class Own(Trainer):\n    def __init__(self): super().__init__(Wide())\nOwn()",
            ),
            "?",
            "",
        ),
        (("Trainer(Net())", "make(Trainer, Wide())"), "?", ""),
        (("Trainer(Net())", "make('trainer', Trainer)"), "?", ""),
        (("Trainer(Net())", "KINDS = {'a': Trainer}\nKINDS['a'](Wide())"), "?", ""),
        (
            ("Trainer(Net())", "from fit import Trainer as T\nclass Own(T): pass"),
            "?",
            "",
        ),
        (("Trainer(Net())", "make = Trainer\nmake(Wide())"), "?", ""),
        (("Trainer(Net())", "def f(a: Trainer): isinstance(a, Trainer)"), "module", "Net"),
    ],
)
def test_what_an_object_is_given_comes_from_who_makes_it_in_other_files(
    tmp_path: Path, made: tuple[str, ...], kind: str, name: str
) -> None:
    net = "    def forward(self, x): return x\n"
    files = {
        "nets.py": f"from torch import nn\nclass Net(nn.Module):\n{net}"
        f"class Wide(nn.Module):\n{net}",
        "fit.py": "class Trainer:\n    def __init__(self, q): self.q = q\n"
        "    def fit(self):\n        probe(self.q)\n",
    }
    for place, each in enumerate(made):
        files[f"f{place}.py"] = f"from nets import Net, Wide\nfrom fit import Trainer\n{each}\n"
    value = probed(tmp_path, files, "fit.py")
    names = [each.rpartition(":")[2] for each in (value.name or "").split("|")]
    assert (value.kind, "|".join(names)) == (kind, name)


@pytest.mark.parametrize(
    ("made", "grade"),
    [
        ("if kind:\n    net = Soft()\nelse:\n    net = Hard()", Grade.TRAIN),
        ("net = Soft() if kind else None\nif not kind:\n    net = Hard()", Grade.TRAIN),
        ("if kind:\n    net = Soft()\nelse:\n    net = Other()", Grade.COLD),
        ("for net in (Soft(), Hard()): pass", Grade.TRAIN),
    ],
)
def test_an_object_of_one_of_several_classes_makes_the_methods_of_each_hot(
    tmp_path: Path, made: str, grade: Grade
) -> None:
    cls = "class {}:\n    def draw(self, x):\n        {}(x)\n"
    files = {
        "nets.py": "".join(
            cls.format(*each) for each in (("Soft", "use"), ("Hard", "probe"), ("Other", "use"))
        ),
        "train.py": f"from nets import Hard, Other, Soft\n{made}\n"
        + textwrap.dedent(
            """
            def train(model, loader, optimizer):
                for x in loader:
                    net.draw(x)
                    model(x).sum().backward()
                    optimizer.step()
            """
        ),
    }
    found = analysed(tmp_path, files, "nets.py")
    assert heat_of(found, probe(found)).grade is grade


def test_a_caller_counts_whatever_is_checked(tmp_path: Path, concise: Concise) -> None:
    files = {
        "pyproject.toml": "[tool.torchlint]\n",
        "losses.py": "import torch\ndef worst(scores):\n    return scores.max().item()\n",
        "train.py": TRAIN.format(
            module="losses", name="worst", call="net(x.cuda()).mean()"
        ).replace("loss.backward()", "worst(loss); loss.backward()"),
    }
    write(tmp_path, files)
    alone = concise("check", "losses.py")
    whole = concise("check", ".")
    lines = [line for line in alone if line.startswith("losses.py")]
    assert any("TL101" in line for line in lines)
    assert lines == [line for line in whole if line.startswith("losses.py")]


def test_an_edit_of_a_caller_counts_at_once(tmp_path: Path, concise: Concise) -> None:
    hot = TRAIN.format(module="losses", name="worst", call="net(x.cuda()).mean()").replace(
        "loss.backward()", "worst(loss); loss.backward()"
    )
    files = {
        "pyproject.toml": "[tool.torchlint]\n",
        "losses.py": "import torch\ndef worst(scores):\n    return scores.max().item()\n",
        "train.py": hot.replace("worst(loss); ", ""),
    }
    write(tmp_path, files)
    found = []
    for text in (None, hot, files["train.py"]):
        if text is not None:
            (tmp_path / "train.py").write_text(text)
        lines = concise("check", ".")
        found.append(any("losses.py" in line and "TL101" in line for line in lines))
    assert found == [False, True, False]


# -- loaders ---------------------------------------------------------------------------------------

WORKERS = """
import argparse
from torch.utils.data import DataLoader
from steps import drill, epochs
class Rows:
    def __getitem__(self, n): return n
parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default={default})
args = parser.parse_args()
feed = DataLoader(Rows(), num_workers=args.workers)
{run}
"""
DRILLS = """
def drill(net, feed, sgd):
    for x in feed:
        net(x.cuda()).sum().backward()
        sgd.step()
def epochs(net, feed, sgd):
    for epoch in range(9):
        for x in feed:
            net(x.cuda()).sum().backward()
            sgd.step()
"""


@pytest.mark.parametrize(
    ("default", "run", "again", "some"),
    [
        ("4", "epochs(net, feed, sgd)", True, True),
        ("4", "for epoch in range(9):\n    drill(net, feed, sgd)", True, True),
        (
            "4",
            "def main():\n    for n in range(9):\n        drill(net, feed, sgd)\nmain()",
            True,
            True,
        ),
        ("0", "epochs(net, feed, sgd)", True, False),
        ("None", "epochs(net, feed, sgd)", True, False),
        ("4", "drill(net, feed, sgd)", False, True),
        ("4", "for other in others:\n    drill(net, other, sgd)", False, True),
    ],
)
def test_workers_that_loops_of_other_files_start_again(
    tmp_path: Path, default: str, run: str, *, again: bool, some: bool
) -> None:
    files = {"main.py": WORKERS.format(default=default, run=run), "steps.py": DRILLS}
    found = analysed(tmp_path, files, "main.py")
    (loader,) = (c for c in found.nodes(cst.Call) if found.name(c.func) == LOADER)
    assert isinstance(loader, cst.Call)
    assert restarts_workers(found, loader) is again
    assert counts_by_default(found, loader.args[1].value) is some


FEEDS = """
import torch
from torch.utils.data import DataLoader
{made}
"""
STEPS = """
import torch
from feeds import {name}
{around}
def drill(net, feed, sgd):
    for x, y in {over}:
        loss = net(x{moved}).sum()
        loss.backward()
        sgd.step()
"""
PLAIN_CALL = "def main(net, sgd):\n    drill(net, {given}, sgd)\n"


@pytest.mark.parametrize(
    ("made", "name", "given", "device"),
    [
        ("def feed(d):\n    return DataLoader(d)", "feed", "feed(1)", "cuda"),
        ("def feed(d):\n    out = DataLoader(d)\n    return d, out", "feed", "feed(1)[1]", "cuda"),
        ("def feed(d):\n    return d, DataLoader(d)", "feed", "feed(1)[0]", None),
        (
            "def feed(d):\n    return {'train': DataLoader(d), 'test': d}",
            "feed",
            "feed(1)['train']",
            "cuda",
        ),
        (
            "def feed(d):\n    return {'train': DataLoader(d), 'test': d}",
            "feed",
            "feed(1)['test']",
            None,
        ),
        (
            "def feed(d):\n    return {k: DataLoader(d) for k in 'ab'}",
            "feed",
            "feed(1)['a']",
            "cuda",
        ),
        ("def feed(d):\n    return [DataLoader(e) for e in d]", "feed", "feed(1)[0]", "cuda"),
        (
            "class Feed:\n    def __init__(self, d):\n        self.it = DataLoader(d)\n"
            "    def give(self):\n        return self.it",
            "Feed",
            "Feed(1).give()",
            "cuda",
        ),
        (
            "class Feed:\n    def __init__(self, d):\n        self.it = DataLoader(d)",
            "Feed",
            "Feed(1).it",
            "cuda",
        ),
        (
            "class Feed:\n    def __init__(self, d):\n        self.it = DataLoader(d)",
            "Feed",
            "Other(Feed(1)).it",
            None,
        ),
    ],
)
def test_a_loader_is_followed_to_the_loops_of_other_files(
    tmp_path: Path, made: str, name: str, given: str, device: str | None
) -> None:
    call = PLAIN_CALL.format(given=given)
    files = {
        "feeds.py": FEEDS.format(made=made),
        "train.py": STEPS.format(name=name, around=call, over="feed", moved=".cuda()"),
    }
    found = analysed(tmp_path, files, "feeds.py")
    (loader,) = (c for c in found.nodes(cst.Call) if found.name(c.func) == LOADER)
    assert feeds_device(found, loader) == device


@pytest.mark.parametrize(
    ("over", "moved", "device"),
    [
        ("feed", ".cuda()", "cuda"),
        ("enumerate(feed)", ".cuda()", "cuda"),
        ("tqdm(iter(feed))", ".cuda()", "cuda"),
        ("bar", ".cuda()", "cuda"),
        ("feed", "", None),
        ("[next(iter(feed))]", ".cuda()", None),
    ],
)
def test_a_loader_that_is_handed_to_an_object_feeds_its_loops(
    tmp_path: Path, over: str, moved: str, device: str | None
) -> None:
    trainer = f"""
        import torch
        from tqdm import tqdm
        class Trainer:
            def __init__(self, net, feed, sgd):
                self.net, self.feed, self.sgd = net, feed, sgd
            def fit(self):
                feed = self.feed
                with tqdm(feed) as bar:
                    pass
                for x, y in {over}:
                    loss = self.net(x{moved}).sum()
                    loss.backward()
                    self.sgd.step()
        """
    files = {
        "feeds.py": FEEDS.format(made="def feed(d):\n    return DataLoader(d)"),
        "trainer.py": trainer,
        "main.py": """
            import torch
            from feeds import feed
            from trainer import Trainer
            def main(net, sgd):
                Trainer(net, feed(1), sgd).fit()
            """,
    }
    found = analysed(tmp_path, files, "feeds.py")
    (loader,) = (c for c in found.nodes(cst.Call) if found.name(c.func) == LOADER)
    assert feeds_device(found, loader) == device


@pytest.mark.parametrize(
    "field",
    [name for name, said in Value.__annotations__.items() if re.search("Value|Keyed", str(said))],
)
def test_no_part_of_what_another_file_is_told_holds_a_node(tmp_path: Path, field: str) -> None:
    module = analysed(tmp_path, {"train.py": "probe(torch)"}, "train.py")
    inner = Value("loader", node=probe(module))
    held = {"item": inner, "items": (inner,), "keyed": (("'train'", inner),)}[field]
    value = Value("dict", node=probe(module)).but(**{field: held})
    for told in (exported(module, value), plain(value)):
        assert "Call(" not in repr(told)
        assert "loader" in repr(told)
