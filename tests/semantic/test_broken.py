"""Which files cannot be imported, and what is used by these alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import job
from tests.semantic.test_unused import NET, STEPS, project_of, uses
from torchlint.base.finding import Severity
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

OLD = "def step(x):\n    print x\n"
MERGED = f"<<<<<<< HEAD\nx = 1\n=======\nx = 2\n{'>' * 7} other\n"
TUPLE = "def f[T](x: T) -> T:\n    return x\n"
PACKAGE = {"lib/__init__.py": "", "lib/ops/__init__.py": "", "lib/ops/convs.py": "def conv(): 1"}
LACKS = (
    "from lib.nets.base import Base\nfrom lib.norms import norm\nfrom lib.hints import hint_once\n"
)
MOVED = "from lib.convs import conv\n"
OURS = {
    "lib/__init__.py": "", "lib/nets.py": "class Net: 1", "lib/ops/__init__.py": "",
    "lib/ops/convs.py": "def conv(): 1",
    "lib/fit.py": "from lib.nets import Net\nfrom lib.ops.convs import conv",
}  # fmt: skip
PLOTS = "from lib.nets import Net\nfrom lib.plots import plot\nNet(), plot()\n"
NEAR = "from .nets import Net\nfrom .plots import plot\n"
IN_OPS = {
    **OURS, "run.py": "from lib.ops import convs\nprint(convs)",
    "lib/ops/__init__.py": "from .old import f", "lib/ops/norms.py": "from .convs import conv",
}  # fmt: skip
BUILT = "from setuptools import Extension\nExtension('lib.plots', ['lib/a.pyx'])\n"
WRITES = "from pathlib import Path\nPath('lib/plots.py').write_text('')\n"
TAKES = "from nets import Net, A"
KEEPS = "class Model:\n    def __init__(self): self.Net = 1\n"
SCRIPT = "from nets import Net\nif __name__ == '__main__':\n    Net()\n"


def why(root: Path, files: dict[str, str], path: str = "run.py") -> str | None:
    project = project_of(root, files)
    file = str(root.resolve() / path)
    found = (project.broken(file, *each) for each in project.files.index(file).needs)
    said = next((each for each in found if each is not None), None)
    return said.split("`")[-2] if said is not None else None


@pytest.mark.parametrize(
    ("files", "answer"),
    [
        ({"run.py": "from nets import Net, A", "nets.py": "class A: 1"}, "Net"),
        ({"run.py": "from nets import Net", "nets.py": "class Other: 1"}, None),
        ({"run.py": "from nets import *", "nets.py": "class Other: 1"}, None),
        ({"run.py": "import nets", "nets.py": OLD}, "nets.py"),
        ({"run.py": "try:\n    import nets\nexcept SyntaxError: 1", "nets.py": OLD}, None),
        ({"run.py": "def f():\n    import nets", "nets.py": OLD}, None),
        ({"run.py": "import nets", "nets.py": "import parts", "parts.py": OLD}, "parts.py"),
        ({"run.py": "import a", "a.py": "import b", "b.py": "import a, c", "c.py": OLD}, "c.py"),
        ({"run.py": "import a", "a.py": "import b", "b.py": "import a"}, None),
        ({"run.py": "import a", "a.py": "from b import X, Y", "b.py": "Y = 1"}, "X"),
        ({"run.py": "import lib.a", "lib/__init__.py": OLD, "lib/a.py": ""}, "lib/__init__.py"),
        ({"run.py": "from lib import a", "lib/__init__.py": "", "lib/a.py": OLD}, "lib/a.py"),
        ({"run.py": "from lib import a", "lib/__init__.py": "a = 1", "lib/a.py": OLD}, None),
        ({"run.py": "from . import a", "__init__.py": "", "a.py": OLD}, "a.py"),
        ({"run.py": "import nets", "nets.py": MERGED}, None),
        ({"run.py": "import nets", "nets.py": TUPLE}, None),
        ({"run.py": MOVED, **PACKAGE}, "lib.convs"),
        ({"run.py": MOVED, **PACKAGE, "old/lib/convs.py": "def conv(): 1"}, None),
        ({"run.py": MOVED, **PACKAGE, "lib/__init__.py": "__path__.append('x')"}, None),
        ({"run.py": MOVED, "lib/__init__.py": ""}, None),
        ({"run.py": "from src.convs import conv", "src/ops/convs.py": ""}, "src.convs"),
        ({"run.py": "from lib.convs import conv", "lib/ops/convs.py": ""}, None),
        ({"run.py": "from datasets.a import b", "datasets/__init__.py": "", "x/a.py": ""}, None),
        ({"run.py": LACKS, "lib/__init__.py": ""}, "lib.nets.base"),
        ({"lib/run.py": LACKS, "lib/__init__.py": "", "run.py": "import lib.run"}, "lib.nets.base"),
        ({"run.py": f"import lib\n{LACKS}", **PACKAGE}, "lib.nets.base"),
        ({"run.py": LACKS, "lib/__init__.py": "", "lib/hints.py": "hint_once = 1"}, None),
        ({"run.py": LACKS.replace("hints", "hints_pb2"), "lib/__init__.py": ""}, None),
        ({"run.py": LACKS.replace("lib.hints", "hints"), "lib/__init__.py": ""}, None),
        ({"run.py": LACKS, "lib/nets.pyx": ""}, None),
        ({**OURS, "run.py": PLOTS}, "lib.plots"),
        ({**OURS, "run.py": "import lib.eval", "lib/eval.py": NEAR}, ".plots"),
        ({**OURS, "run.py": "from lib.ops import a", "lib/ops/a.py": "from .. import nets\n"
          "from ..convs import conv"}, "..convs"),
        ({**OURS, "run.py": PLOTS, "lib/plots.py": ""}, "plot"),
        ({**OURS, "run.py": PLOTS, "lib/plots.py": "plot = 1"}, None),
        ({**OURS, "run.py": PLOTS, "lib/plots.pyx": ""}, None),
        ({**OURS, "run.py": PLOTS, "lib/plots.py.example": ""}, None),
        ({**OURS, "run.py": PLOTS, "lib/plots/notes.txt": ""}, None),
        ({**OURS, "run.py": PLOTS, ".gitignore": "*.pyc\n/lib/plots.py\n"}, None),
        ({**OURS, "run.py": PLOTS, ".gitignore": "plots/\n"}, None),
        ({**OURS, "run.py": PLOTS, ".gitignore": "*.pyc\nlogs/\n"}, "lib.plots"),
        ({**OURS, "run.py": PLOTS, ".gitignore": "plots/\n", "PKG-INFO": ""}, "lib.plots"),
        ({**OURS, "run.py": PLOTS, ".gitmodules": "path = lib/plots"}, None),
        ({**OURS, "run.py": PLOTS, "README.md": "Write `plots.py` with your plots."}, None),
        ({**OURS, "run.py": PLOTS, "README.md": "It makes plots."}, "lib.plots"),
        ({**OURS, "run.py": PLOTS, "setup.py": BUILT}, None),
        ({**OURS, "run.py": PLOTS, "make.py": WRITES}, None),
        ({**OURS, "run.py": PLOTS, "make.py": WRITES.replace("plots", "subplots")}, "lib.plots"),
        ({**OURS, "run.py": PLOTS, "lib/__init__.py": "import sys\nsys.modules['lib.plots'] = sys"},
         None),
        ({**OURS, "run.py": "try:\n    from lib.plots import plot\nexcept ImportError: 1"}, None),
        ({**OURS, "run.py": "import lib\nfrom lib.plots import plot\n"}, None),
        ({"run.py": PLOTS, "lib/__init__.py": "", "lib/nets.py": "class Net: 1",
          "x.py": "from lib.a import b\n"}, None),
        ({"run.py": "import gym\nfrom gym.spaces import Box\n", "gym/__init__.py": "",
          "gym/x.py": "def x(): 1"}, None),
        ({"src/__init__.py": "", "src/a.py": "X = 1", "src/b.py": "from src.a import X",
          "src/gym/__init__.py": "", "run.py": "from src.a import X\nfrom gym.utils import seed\n"},
         None),
        ({**OURS, "lib/a/__init__.py": "from .conf import C", "run.py": "import lib.a"}, ".conf"),
        ({"timm/bert.py": "from .conf import C", "run.py": "import timm.bert"}, None),
        ({**IN_OPS, "run.py": "from lib.ops.norms import conv"}, ".old"),
        ({"run.py": SCRIPT, "nets.py": "class Other: 1"}, "Net"),
        ({"run.py": SCRIPT, "nets.py": "from x import *\nclass Other: 1"}, None),
        ({"run.py": SCRIPT, "nets.py": "class Other: 1", "old/nets.py": "class Net: 1"}, None),
        ({**OURS, "run.py": "import lib.a", "lib/a.py": "from .nets import Other"}, "Other"),
        ({**OURS, "run.py": "import lib.a", "lib/a.py": "from . import _C"}, None),
        ({**OURS, "run.py": "from lib import nets, __file__, __path__"}, None),
        ({**OURS, "run.py": PLOTS, "lib-1.0.dist-info/METADATA": ""}, None),
        ({**OURS, "run.py": "from lib.nets import Net\nfrom lib.six.moves import range\n",
          "lib/six.py": "import sys\nsys.meta_path.append(1)\n"}, None),
        ({**OURS, "run.py": "from lib.nets import Net\nfrom lib.six.moves import range\n",
          "lib/six.py": "X = 1\n"}, "lib.six.moves"),
        ({**OURS, "lib/run.py": PLOTS, "run.py": "from lib.run import plot"}, "lib.plots"),
        ({"run.py": TAKES, "nets.py": "from parts import *\nA = 1", "parts.py": "B = 1"}, "Net"),
        ({"run.py": TAKES, "nets.py": f"A = 1\n{KEEPS}"}, "Net"),
        ({"run.py": TAKES, "nets.py": f"from a import *\n{KEEPS}", "a.py": "from b import *\nA = 1",
          "b.py": "from a import *"}, "Net"),
        ({"run.py": "import lib.a", "lib/__init__.py": "", "lib/a.py": "from .nets import Net, A",
          "lib/nets.py": "from .parts import *\nA = 1", "lib/parts.py": KEEPS}, "Net"),
        ({"run.py": TAKES, "nets.py": "from parts import *\nA = 1", "parts.py": "Net = 1"}, None),
        ({"run.py": TAKES, "nets.py": "from torch.nn import *\nA = 1"}, None),
        ({"run.py": TAKES, "nets.py": "from a import *\nA = 1", "a.py": "", "old/a.py": ""}, None),
        ({"run.py": TAKES, "nets.py": "from a import *\nA = 1", "a.py": "from x import *"}, None),
        ({"run.py": TAKES, "nets.py": "from a import *\nA = 1",
          "a.py": "def __getattr__(name): return name"}, None),
        ({"run.py": TAKES, "nets.py": "if A:\n    from timm import *\nA = 1"}, None),
        ({"run.py": TAKES, "nets.py": "from a import *\nA = 1", "a.py": "globals()[A] = 1"}, None),
        ({"run.py": TAKES, "nets.py": f"A = 1\nfrom .Net import *\n{KEEPS}"}, None),
        ({"run.py": f"try:\n    {TAKES}\nexcept OSError: 1", "nets.py": f"A = 1\n{KEEPS}"}, None),
    ],
)  # fmt: skip
def test_what_cannot_be_imported(files: dict[str, str], answer: str | None, tmp_path: Path) -> None:
    assert why(tmp_path, files) == answer


@pytest.mark.parametrize(
    ("run", "used"),
    [
        ("import old\nfrom nets import Net\nprint(Net())\n", False),
        ("import new\nfrom nets import Net\nprint(Net())\n", True),
        ("import mid\nfrom nets import Net\nprint(Net())\n", False),
        ("from new import X, gone\nfrom nets import Net\nprint(Net())\n", False),
    ],
)
def test_what_only_such_files_use_is_not_used(run: str, used: bool, tmp_path: Path) -> None:
    files = {"old.py": OLD, "mid.py": "import old\n", "new.py": "X = 1\n", "nets.py": NET}
    assert uses(tmp_path, {**files, "run.py": run}) is used


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ("from steps import train\nfrom steps import gone\ntrain()\n",
         ", as `run.py` fails at import: `steps.py` defines no `gone`"),
        ("from steps import train, Twin\n# train()\n", ""),
    ],
)  # fmt: skip
def test_who_would_use_a_definition_is_named(run: str, why: str, tmp_path: Path) -> None:
    text = f"{STEPS}\nclass Twin:\n    pass\n"
    project_of(tmp_path, {"steps.py": text, "run.py": run, "main.py": "import steps\nprint(steps)"})
    forget()
    found = analyse_job(job(text, name="steps.py", root=str(tmp_path))).findings
    assert f"nothing that runs in this program uses `train`{why}" in {
        each.why_hot[0].text for each in found
    }


FAILING = ", as `run.py` fails at import: `steps.py` defines no `gone`"
METER = """\
class Meter:
    def update(self, net, loader, opt):
        for x in loader:
            loss = net(x.cuda()).mean()
            loss.backward()
            opt.step()
            print(loss.item())
"""


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ("from steps import Meter, gone\nMeter().update(1, 2, 3)\n", FAILING),
        ("import steps\nfrom steps import gone\nm = steps.Meter()\nm.update(1, 2, 3)\n", FAILING),
        ("from steps import Meter, gone\ndef fit(m):\n    m.update(1, 2)\nfit(Meter())", FAILING),
        ("from steps import Meter, gone\nm = Meter()\n# m.update(1)\n", ""),
        ("from steps import gone\nlog.update(1)\n", ""),
    ],
)  # fmt: skip
def test_who_would_use_a_method_is_named(run: str, why: str, tmp_path: Path) -> None:
    text = f"import torch\n{METER}"
    main = "from steps import Meter\nprint(Meter().name)"
    project_of(tmp_path, {"steps.py": text, "run.py": run, "main.py": main})
    forget()
    found = analyse_job(job(text, name="steps.py", root=str(tmp_path))).findings
    said = {each.why_hot[0].text.partition("`")[2] for each in found}
    assert said == {f"Meter.update`{why}"}


@pytest.mark.parametrize(
    ("above", "row"),
    [
        ("from lib.nets import Net\nfrom lib.plots import plot\n", 2),
        ("import os; from lib.nets import Net; from lib.plots import plot\n", 1),
        ("from lib.nets import Net\n", None),
        ("from lib.nets import Net\nfor i in range(3):\n    print(i)\nimport lib.plots\n", None),
        ("from lib.nets import Net\nwith open('a') as f:\n    f.read()\nimport lib.plots\n", None),
        ("from lib.nets import Net\nif Net:\n    print(Net)\nimport lib.plots\n", 4),
    ],
)
def test_a_finding_in_what_cannot_be_imported_says_so(
    above: str, row: int | None, tmp_path: Path
) -> None:
    text = f"{above}{STEPS}\nif __name__ == '__main__':\n    train(Net(), [], attend)\n"
    project_of(tmp_path, {**OURS, "run.py": text})
    forget()
    found = analyse_job(job(text, name="run.py", root=str(tmp_path))).findings
    words = "this file fails at import: `lib.plots` is not in the project"
    said = {(each.why_hot[0].text, each.why_hot[0].line) for each in found if each.why_hot}
    assert ((words, row) in said) is (row is not None)
    assert not said or row is None or said == {(words, row)}
    assert ({each.severity for each in found} == {Severity.INFO}) is (row is not None)


@pytest.mark.parametrize(
    ("line", "fails"),
    [
        ("shape = given.shape", True),
        ("net = Missing(8)", True),
        ("Net(8, 9)", True),
        ("for i in range(3):\n    print(i)\nshape = given.shape", False),
        ("from numpy import *\nshape = given.shape", False),
        ("shape = given.shape if Net else None\ngiven = torch.ones(2)", False),
        ("def shown():\n    return given.shape", False),
    ],
)
def test_a_file_that_ends_in_an_error_before_any_work_says_so(
    line: str, fails: bool, tmp_path: Path
) -> None:
    own = f"class Net:\n    def __init__(self, size):\n        self.size = size\n\n\n{line}\n"
    text = f"import torch\n{STEPS}\n{own}"
    project_of(tmp_path, {**OURS, "steps.py": text, "run.py": "from steps import train\ntrain()"})
    forget()
    found = analyse_job(job(text, name="steps.py", root=str(tmp_path))).findings
    said = any("this file fails at import" in why.text for each in found for why in each.why_hot)
    assert found
    assert said is fails
