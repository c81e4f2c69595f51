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
OURS = {
    "lib/__init__.py": "", "lib/nets.py": "class Net: 1", "lib/ops/__init__.py": "",
    "lib/ops/convs.py": "def conv(): 1",
    "lib/fit.py": "from lib.nets import Net\nfrom lib.ops.convs import conv",
}  # fmt: skip


def why(root: Path, files: dict[str, str], path: str = "run.py") -> str | None:
    project = project_of(root, files)
    file = str(root.resolve() / path)
    found = (project.broken(file, *each) for each in project.index(file).needs)
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
        ({**OURS, "run.py": "try:\n    from lib.plots import plot\nexcept ImportError: 1"}, None),
        ({**OURS, "run.py": "import lib\nfrom lib.plots import plot\n"}, None),
        ({**OURS, "run.py": "from lib import nets, __file__, __path__"}, None),
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
        ("from steps import train, gone\ntrain()\n",
         ", as `run.py` fails at import: `steps.py` defines no `gone`"),
        ("from steps import train, Twin\n# train()\n", ""),
    ],
)  # fmt: skip
def test_who_would_use_a_definition_is_named(run: str, why: str, tmp_path: Path) -> None:
    text = f"{STEPS}\nclass Twin:\n    pass\n"
    project_of(tmp_path, {"steps.py": text, "run.py": run, "main.py": "import steps\nprint(steps)"})
    forget()
    found = analyse_job(job(text, name="steps.py", root=str(tmp_path))).findings
    assert f"nothing in this program uses `train`{why}" in {each.why_hot[0].text for each in found}


@pytest.mark.parametrize(
    ("above", "row"),
    [
        ("import os\nfrom lib.nets import Net, plot\n", 2),
        ("import os; from lib.nets import Net, plot\n", 1),
        ("from lib.nets import Net\n", None),
    ],
)
def test_a_finding_in_what_cannot_be_imported_says_so(
    above: str, row: int | None, tmp_path: Path
) -> None:
    text = f"{above}{STEPS}\nif __name__ == '__main__':\n    train(Net(), [], attend)\n"
    project_of(tmp_path, {**OURS, "run.py": text})
    forget()
    found = analyse_job(job(text, name="run.py", root=str(tmp_path))).findings
    words = "this file fails at import: `lib/nets.py` defines no `plot`"
    said = {(each.why_hot[0].text, each.why_hot[0].line) for each in found if each.why_hot}
    assert ((words, row) in said) is (row is not None)
    assert not said or row is None or said == {(words, row)}
    assert ({each.severity for each in found} == {Severity.INFO}) is (row is not None)
