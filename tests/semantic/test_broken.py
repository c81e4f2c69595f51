"""Which files cannot be imported, and what is used by these alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.semantic.test_unused import NET, project_of, uses

OLD = "def step(x):\n    print x\n"
MERGED = f"<<<<<<< HEAD\nx = 1\n=======\nx = 2\n{'>' * 7} other\n"
TUPLE = "def f[T](x: T) -> T:\n    return x\n"
PACKAGE = {"lib/__init__.py": "", "lib/ops/__init__.py": "", "lib/ops/convs.py": "def conv(): 1"}
LACKS = (
    "from lib.nets.base import Base\nfrom lib.norms import norm\nfrom lib.hints import hint_once\n"
)
MOVED = "from lib.convs import conv\n"


def why(root: Path, files: dict[str, str], path: str = "run.py") -> str | None:
    project = project_of(root, files)
    file = str(root.resolve() / path)
    found = (project.broken(file, *each) for each in project.index(file).needs)
    return next((each for each in found if each is not None), None)


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
