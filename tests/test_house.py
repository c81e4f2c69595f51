"""The house stands as designed: imports point down, parts stay small, and nothing but verify meets torch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import torchlint

ROOT = Path(torchlint.__file__).parent
FLOORS = {
    "": 0,  # torchlint/__init__.py: the version
    "base": 1,
    "source": 2,
    "report": 2,
    "semantic": 3,
    "rule": 4,
    "rules": 5,
    "engine": 5,
    "manual": 6,
    "verify": 6,
    "profile": 6,
    "testing": 7,
    "lsp": 6,
    "cli": 7,
    "__main__": 8,
}
INSIDE = ROOT / "verify" / "inside"
MODULE_LINES = 300
RULE_LINES = 120
FUNCTION_LINES = 40
NO_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "types"}
FILES = sorted(ROOT.rglob("*.py"))
RULE_FILES = [path for path in FILES if path.parent.parent.name == "rules" and path.name != "__init__.py"]


def dotted(path: Path) -> str:
    """Return a file's module name."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Yield (line, module) for each import wherever it stands; ``from a import b`` gives ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join((*above, *filter(None, [node.module])))
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def part(module: str) -> str:
    """Return the part of the house that a module of ours lies in; ``""`` for what the top package itself holds."""
    name = module.split(".")[1] if "." in module else ""
    return name if name in FLOORS else ""


def climbing(text: str, module: str, package: str) -> list[str]:
    """Return the imports that do not point down: to a floor above, or to another part on the same floor."""
    own = part(module)
    return [
        f"{module}:{line} imports {target}"
        for line, target in imported(ast.parse(text), package)
        if target.split(".")[0] == "torchlint" and part(target) != own and FLOORS[part(target)] >= FLOORS[own]
    ]


def between_rules(text: str, module: str, package: str) -> list[str]:
    """Return the imports of a rule file that reach into the folder of rules."""
    return [
        f"{module}:{line} imports {target}"
        for line, target in imported(ast.parse(text), package)
        if f"{target}.".startswith("torchlint.rules.")
    ]


def torch_imports(text: str) -> list[int]:
    """Return the lines that import torch."""
    return [line for line, target in imported(ast.parse(text), "x") if target.split(".")[0] == "torch"]


def length(node: ast.AST) -> int:
    """Return how many lines a function takes, its docstring not counted."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    assert node.end_lineno
    first = node.body[0]
    documented = ast.get_docstring(node) is not None
    docstring = first.end_lineno - first.lineno + 1 if documented and first.end_lineno else 0
    return node.end_lineno - node.lineno + 1 - docstring


def long_functions(text: str) -> list[str]:
    """Return the functions over the budget."""
    return [
        f"{node.name}: {length(node)} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length(node) > FUNCTION_LINES
    ]


def is_table(node: ast.stmt) -> bool:
    """Say whether a module-level statement is a data table: a name bound to a literal."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    value = node.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "frozenset":
        value = value.args[0] if value.args else value
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True


def rule_lines(text: str) -> int:
    """Return a rule file's lines of code: no docstring, data tables, comments or blank lines."""
    body = ast.parse(text).body
    skipped: set[int] = set()
    for index, node in enumerate(body):
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or is_table(node):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in skipped
        for number, line in enumerate(text.split("\n"), 1)
    )


def parametrize_files(files: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", files, ids=[str(path.relative_to(ROOT)) for path in files])


@parametrize_files(FILES)
def test_imports_point_down(path: Path) -> None:
    module = dotted(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    assert climbing(path.read_text(encoding="utf-8"), module, package) == []


@parametrize_files(FILES)
def test_every_file_lies_on_a_floor(path: Path) -> None:
    parts = path.relative_to(ROOT).with_suffix("").parts
    assert parts[0] in FLOORS or parts == ("__init__",)


@parametrize_files(FILES)
def test_names_say_something(path: Path) -> None:
    assert NO_NAMES.isdisjoint(path.relative_to(ROOT).with_suffix("").parts)


@parametrize_files(FILES)
def test_modules_and_functions_are_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert path in RULE_FILES or text.count("\n") <= MODULE_LINES
    assert long_functions(text) == []


@parametrize_files(FILES)
def test_torch_is_for_the_inside_of_verify_alone(path: Path) -> None:
    assert path.is_relative_to(INSIDE) or torch_imports(path.read_text(encoding="utf-8")) == []


@parametrize_files([path for path in FILES if path.is_relative_to(INSIDE)])
def test_the_inside_of_verify_needs_no_torchlint(path: Path) -> None:
    """It runs in the user's interpreter, under another name, so it reaches itself by relative imports alone."""
    module = dotted(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = [target for _, target in imported(ast.parse(path.read_text(encoding="utf-8")), package)]
    inside = dotted(INSIDE / "__init__.py")
    assert [name for name in found if f"{name}.".startswith("torchlint.") and not name.startswith(f"{inside}.")] == []
    absolute = [line for line in path.read_text(encoding="utf-8").split("\n") if "import" in line and inside in line]
    assert absolute == []


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_rules_are_short_and_stand_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    module = dotted(path)
    assert rule_lines(text) <= RULE_LINES
    assert between_rules(text, module, module.rpartition(".")[0]) == []


# The inspectors themselves


@pytest.mark.parametrize(
    ("line", "climbs"),
    [
        ("from torchlint.base.span import Span", False),
        ("from torchlint.engine.job import Job", False),
        ("from torchlint import __version__", False),
        ("from .job import Job", False),
        ("import torch", False),
        ("import torchlint.cli.main", True),
        ("from torchlint import cli", True),
        ("from torchlint.rules import memory", True),
        ("from ..cli import main", True),
        ("from .. import manual", True),
        ("if TYPE_CHECKING:\n    from torchlint.manual.pages import page", True),
        ("def f():\n    import torchlint.cli", True),
    ],
)
def test_climbing_sees_every_form_of_import(line: str, climbs: bool) -> None:
    assert bool(climbing(line, "torchlint.engine.check", "torchlint.engine")) is climbs


def test_neighbours_on_a_floor_do_not_meet() -> None:
    assert climbing("import torchlint.report.sarif", "torchlint.source.globs", "torchlint.source")


@pytest.mark.parametrize("line", ["from . import other", "from ..memory.other import x", "import torchlint.rules"])
def test_between_rules_sees_every_form_of_import(line: str) -> None:
    assert between_rules(line, "torchlint.rules.transfer.a", "torchlint.rules.transfer")


def test_torch_imports_sees_every_form_of_import() -> None:
    text = "import torch.nn as nn\nfrom torch import nn\ndef f():\n    import torch\nimport torchlint\n"
    assert torch_imports(text) == [1, 2, 4]


def test_long_functions_counts_all_but_the_docstring() -> None:
    head = 'def f():\n    """One.\n\n    Two."""\n'
    assert long_functions(head + "    x = 1\n" * (FUNCTION_LINES - 1)) == []
    assert long_functions(head + "    x = 1\n" * FUNCTION_LINES) == [f"f: {FUNCTION_LINES + 1} lines"]
    assert long_functions("class A:\n    async def f():\n" + "        x = 1\n" * FUNCTION_LINES) != []


def test_rule_lines_counts_code_alone() -> None:
    doc = '"""Doc.\n\nMore.\n"""\n\n'
    tables = 'NAMES = frozenset(\n    {"a"}\n)\nTABLE: dict = {\n    1: 2,\n}\n'
    text = f"{doc}import a\n\n# why\n{tables}rule = Rule(\n    1\n)\n"
    assert rule_lines(text) == 4
