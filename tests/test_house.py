"""The house stands as designed: imports point down; torch is for what runs inside of programs."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import torchlint
from torchlint import rule
from torchlint.run.cache import PARTS
from torchlint.semantic.question import QUESTIONS
from torchlint.semantic.torch import dtypes, ops
from torchlint.settings.keys import KEYS

ROOT = Path(torchlint.__file__).parent
FLOORS = {
    "": 0,  # torchlint/__init__.py: the version
    "base": 1,
    "source": 2,
    "report": 2,
    "trace": 2,
    "semantic": 3,
    "program": 3,
    "fixes": 4,
    "rule": 5,
    "catalog": 6,
    "edits": 6,
    "engine": 7,
    "settings": 7,
    "run": 8,
    "manual": 8,
    "api": 9,
    "explain": 9,
    "lsp": 9,
    "verify": 10,
    "profile": 10,
    "rules": 11,  # found by the walk of the catalogue: nothing imports one
    "testing": 11,
    "cli": 11,
    "__main__": 12,
}
NEIGHBOURS = ("verify", "profile")
"""They meet the linter at one door."""
DOORS = (
    "torchlint.api.",
    "torchlint.base.",
    "torchlint.report.kit.",
    "torchlint.program.",  # runs programs; it knows nothing of the linter
    "torchlint.trace.",  # what a program did; nor does this
    "torchlint.__version__.",
)
INSIDE = tuple(ROOT / name / "inside" for name in ("program", "verify"))
NO_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "types"}
FILES = sorted(ROOT.rglob("*.py"))
RULE_FILES = [
    path for path in FILES if ROOT / "rules" in path.parents and path.name != "__init__.py"
]
BESIDE = {path for path in RULE_FILES if path.parent.name.startswith("_")}
"""What one rule needs and no other, in a folder with the name of the rule's file."""


@cache
def parsed(text: str) -> ast.Module:
    """Return the tree of a text: many laws look at every file."""
    return ast.parse(text)


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Keep the trees of all files for these laws alone: they are 200 MiB."""
    yield
    parsed.cache_clear()


def dotted(path: Path) -> str:
    """Return a file's module name."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported(text: str, package: str) -> tuple[tuple[int, str], ...]:
    """Return (line, module) for each import wherever it stands; ``from a import b`` gives ``a.b``.

    Most laws ask it of every file, so it is worked out once.
    """
    return tuple(_imported(parsed(text), package))


def _imported(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = (
                package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            )
            base = ".".join((*above, *filter(None, [node.module])))
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def part(module: str) -> str:
    """Return the part of the house that a module of ours lies in; ``""`` for what the top package
    itself holds."""
    name = module.split(".")[1] if "." in module else ""
    return name if name in FLOORS else ""


def climbing(text: str, module: str, package: str) -> list[str]:
    """Return the imports that do not point down: to a floor above, or to another part on the same
    floor."""
    own = part(module)
    return [
        f"{module}:{line} imports {target}"
        for line, target in imported(text, package)
        if target.split(".")[0] == "torchlint"
        and part(target) != own
        and FLOORS[part(target)] >= FLOORS[own]
    ]


def past_the_rules_door(text: str, module: str, package: str) -> list[str]:
    """Return the imports of a rule file that are neither the door, nor the model, nor facts beside
    it, nor tools of the language."""
    let_in = ("rule.", "fixes.", "semantic.", "source.", "base.records.", "base.regex.")
    own = f"{package}." if "._" in package else f"{package}._{module.rpartition('.')[2]}."
    return [
        f"{module}:{line} imports {target}"
        for line, target in imported(text, package)
        if f"{target}.".startswith("torchlint.")
        and not f"{target}.".startswith((*(f"torchlint.{each}" for each in let_in), own))
    ]


@cache
def behind_the_door() -> dict[str, str]:
    """Return by dotted name what the door hands on, and how it is called there."""
    text = (ROOT / "rule.py").read_text(encoding="utf-8")
    handed = {name.rpartition(".")[2]: name for _, name in imported(text, "torchlint")}
    return {handed[name]: f"torchlint.rule.{name}" for name in rule.__all__ if name in handed}


def by_another_way(text: str, module: str, package: str) -> list[str]:
    """Return the imports of what has one place for this file: rules take what the door hands on
    from the door, all others from where it is at home."""
    homes = behind_the_door()
    inside = module.startswith("torchlint.rules.")
    theirs = (
        homes if inside else {} if module == "torchlint.rule" else dict.fromkeys(homes.values())
    )
    return [
        f"{module}:{line} imports {target}"
        for line, target in imported(text, package)
        if target in theirs
    ]


def past_the_door(text: str, module: str, package: str) -> list[str]:
    """Return the imports of a neighbour that reach deeper into the linter than `DOORS`."""
    own = f"torchlint.{part(module)}."
    return [
        f"{module}:{line} imports {target}"
        for line, target in imported(text, package)
        if f"{target}.".startswith("torchlint.")
        and not f"{target}.".startswith((own, *DOORS))
        and target != "torchlint"
    ]


def torch_imports(text: str, package: str = "x") -> list[int]:
    """Return the lines that import torch."""
    return [line for line, target in imported(text, package) if target.split(".")[0] == "torch"]


def broken(law: Callable[[str, str, str], list[str]], files: Iterable[Path] = FILES) -> list[str]:
    """Return what breaks a law in these files, in words that name the file."""
    found = []
    for path in files:
        module = dotted(path)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        found += law(path.read_text(encoding="utf-8"), module, package)
    return found


def test_imports_point_down() -> None:
    assert broken(climbing) == []


def of_the_linter(text: str, module: str, package: str) -> list[str]:
    """Return the imports of what runs programs that are neither errors nor words."""
    allowed = ("torchlint.program.", "torchlint.base.errors.", "torchlint.report.kit.")
    return [
        f"{module}:{line} imports {target}"
        for line, target in imported(text, package)
        if target.split(".")[0] == "torchlint" and not f"{target}.".startswith(allowed)
    ]


def test_what_runs_programs_knows_nothing_of_the_linter() -> None:
    assert broken(of_the_linter, (ROOT / "program").rglob("*.py")) == []
    finding = "from torchlint.base.finding import Finding"
    assert of_the_linter(finding, "torchlint.program.command", "torchlint.program")


def test_neighbours_come_in_by_the_door() -> None:
    assert (
        broken(
            past_the_door, (path for path in FILES if path.relative_to(ROOT).parts[0] in NEIGHBOURS)
        )
        == []
    )


def test_every_file_lies_on_a_floor() -> None:
    tops = {path.relative_to(ROOT).with_suffix("").parts[0] for path in FILES}
    assert tops - FLOORS.keys() == {"__init__"}


def test_the_map_for_contributors_is_true() -> None:
    words = (ROOT.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| .+ \| `(.+)` \|$", words, re.MULTILINE)
    floors = {name: floor for name, floor in FLOORS.items() if name not in ("", "__main__")}
    assert {name: int(floor) for name, floor, _ in rows} == floors
    assert [path for _, _, path in rows if not (ROOT / path).is_file()] == []
    (order,) = re.findall(r"^In `semantic` each folder .+?\n\n", words, re.MULTILINE | re.DOTALL)
    assert tuple(re.findall(r"`(\w+)`\s\(", order)) == SUBJECTS


def test_names_say_something() -> None:
    assert [
        path
        for path in FILES
        if not NO_NAMES.isdisjoint(path.relative_to(ROOT).with_suffix("").parts)
    ] == []


def is_inside(path: Path) -> bool:
    """Say whether a file runs in the user's interpreter."""
    return any(path.is_relative_to(folder) for folder in INSIDE)


def test_torch_is_for_the_inside_of_programs_alone() -> None:
    def law(text: str, module: str, package: str) -> list[str]:
        return [f"{module}:{line} imports torch" for line in torch_imports(text, package)]

    assert broken(law, (path for path in FILES if not is_inside(path))) == []


def test_the_inside_of_programs_needs_no_torchlint() -> None:
    """It runs in the user's interpreter, under another name, so it reaches itself by relative
    imports alone."""
    insides = [dotted(folder / "__init__.py") for folder in INSIDE]

    def law(text: str, module: str, package: str) -> list[str]:
        reached = [
            target for _, target in imported(text, package) if f"{target}.".startswith("torchlint.")
        ]
        outside = [
            f"{module} imports {name}"
            for name in reached
            if not any(name.startswith(f"{inside}.") for inside in insides)
        ]
        absolute = [
            line for line in text.split("\n") if re.match(r"\s*(from|import) torchlint\.", line)
        ]
        return [*outside, *(f"{module}: {line}" for line in absolute)]

    assert broken(law, filter(is_inside, FILES)) == []


def of_reports(text: str, module: str, package: str) -> list[str]:
    """Return the imports of a file of the kit that know what is reported."""
    kit = ("torchlint.report.kit.", "torchlint.base.errors.")
    return [
        f"{module}:{line} imports {target}"
        for line, target in imported(text, package)
        if target.split(".")[0] == "torchlint" and not f"{target}.".startswith(kit)
    ]


def test_the_kit_of_reports_knows_nothing_of_what_is_reported() -> None:
    assert broken(of_reports, (ROOT / "report" / "kit").glob("*.py")) == []
    finding = "from torchlint.base.finding import Finding"
    assert of_reports(finding, "torchlint.report.kit.words", "torchlint.report.kit")


def test_a_rule_imports_the_door_the_model_and_what_stands_beside_it() -> None:
    assert broken(past_the_rules_door, RULE_FILES) == []


def test_what_the_door_hands_on_is_imported_in_one_way() -> None:
    assert broken(by_another_way) == []
    at_home = "from torchlint.semantic.values.inferred import inferred"
    at_the_door = "from torchlint.rule import inferred"
    assert by_another_way(at_home, "torchlint.rules.a.b", "torchlint.rules.a")
    assert by_another_way(at_the_door, "torchlint.explain.line", "torchlint.explain")
    assert not by_another_way(at_the_door, "torchlint.rules.a.b", "torchlint.rules.a")
    assert not by_another_way(at_home, "torchlint.explain.line", "torchlint.explain")


def test_what_stands_beside_a_rule_is_its_own() -> None:
    """When a second rule asks, it is a fact about code, and moves to `semantic` or `fixes`."""
    assert BESIDE
    rules = {path.with_suffix("") for path in RULE_FILES}
    homes = {path.parent.with_name(path.parent.name[1:]) for path in BESIDE}
    assert homes <= rules
    needed = set().union(*map(needed_by, RULE_FILES))
    assert {path for path in BESIDE if dotted(path) not in needed} == set()


def test_what_one_rule_alone_asks_of_code_lies_in_its_folder() -> None:
    users: dict[str, set[Path]] = {}
    for path in FILES:
        home = (
            path.parent.with_name(path.parent.name[1:]) if path in BESIDE else path.with_suffix("")
        )
        for name in needed_by(path):
            users.setdefault(name, set()).add(home)
    rules = {path.with_suffix("") for path in RULE_FILES}
    model = {name: found for name, found in users.items() if ".semantic." in name}
    assert {name for name, found in model.items() if len(found) == 1 and found <= rules} == set()


# Keys of the configuration

TABLE = ROOT / "settings" / "keys.py"
OF_SETTINGS = ("settings", "lsp", "cli")
"""The parts where a plain word that is a key, such as ``select``, can hardly be anything else."""
OTHERWISE = {
    "base/places.py": {"cache-dir", "output-format"},  # their variables, before the table
    "cli/agents.py": {"--output-format"},  # reads the bare command, for the next one
    "cli/mcp.py": {"--output-format", "--unsafe-fixes"},  # of the commands that it runs
    "report/agent.py": {
        "--output-format",
        "--select",
        "--unsafe-fixes",
    },  # of the command that proves a fix
    "verify/output/agent.py": {"--output-format"},  # of the command to run next
    "cli/check_options.py": {
        "baseline"
    },  # the options of check that contradict each other, by their names for click
    "cli/explain.py": {"ignore", "select"},  # said in sentences on rules that are off
    "cli/cached_run.py": {
        "--cache-dir",
        "cache-dir",
        "exclude",
    },  # reads the bare command, before the table; the other is git's file
    "cli/rule.py": {"--output-format", "severity"},  # an option of its own; a key of its JSON
    "settings/line_length.py": {"line-length"},  # a key of ruff and black
    "cli/config.py": {"--output-format"},  # an option of its own
    "cli/rules.py": {"--output-format"},  # an option of its own
    "cli/version.py": {"--output-format"},  # an option of its own
    "cli/history.py": {"--output-format"},  # an option of its own
    "cli/profile.py": {"--output-format"},  # an option of its own
    "cli/profile_live.py": {
        "--timeout",
        "output_format",
    },  # an option of its own; of the options of verify, one that a proof does not keep
    "profile/output/run.py": {"--select", "--unsafe-fixes"},  # of the command that proves a fix
    "base/contract.py": {"no_waits"},  # the name of a decorator
    "cli/verify_options.py": {
        "--fail-on",
        "--no-waits",
        "--output-format",
        "--timeout",
    },  # options of its own
    "cli/session.py": {"safe"},  # the level of fixes that a run applies
    "lsp/hover.py": {"safe"},  # how safe a fix is
    "lsp/server.py": {"safe"},  # the level of fixes that a client asks for
}
"""Words that are spelled like a key, and stand for something else or before the table can be
had."""


def spelled(text: str, *, words: bool) -> set[str]:
    """Return the keys that code spells as data: neither in prose nor where a command reads its own
    parameters."""
    tree = parsed(text)
    read = {
        id(n.slice)
        for n in ast.walk(tree)
        if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name) and n.value.id == "given"
    }
    found = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in read}
    names = {
        form
        for key in KEYS
        for form in (key, key.replace("-", "_"), f"--{key}", f"--{key}/--no-{key}")
    }
    return {name for name in names if name in found and (words or not name.isalpha())}


def test_a_key_is_spelled_in_the_table_alone() -> None:
    files = {
        path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in FILES if path != TABLE
    }
    found = {
        path.as_posix(): spelled(text, words=path.parts[0] in OF_SETTINGS)
        for path, text in files.items()
    }
    assert {path: names for path, names in found.items() if names} == OTHERWISE


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
    assert bool(climbing(line, "torchlint.engine.analyse", "torchlint.engine")) is climbs


def test_neighbours_on_a_floor_do_not_meet() -> None:
    assert climbing("import torchlint.report.sarif", "torchlint.source.globs", "torchlint.source")


@pytest.mark.parametrize(
    ("line", "passes"),
    [
        ("from torchlint.api import Catalog", False),
        ("from torchlint.base.finding import Finding", False),
        ("from torchlint.report.kit.words import visible", False),
        ("from torchlint.report.sarif import render", True),
        ("from torchlint import __version__", False),
        ("import torchlint", False),
        ("from torchlint.verify.model import Report", False),
        ("from .model import Report", False),
        ("from torchlint.catalog.rules import Catalog", True),
        ("from torchlint import engine", True),
        ("from torchlint.source.document import Document", True),
        ("from ..semantic import heat", True),
        ("def f():\n    import torchlint.run.run", True),
        ("from torchlint.apiary import bees", True),
    ],
)
def test_the_door_is_the_only_way_in(line: str, passes: bool) -> None:
    assert bool(past_the_door(line, "torchlint.verify.fixes", "torchlint.verify")) is passes


@pytest.mark.parametrize(
    ("line", "passes"),
    [
        ("from torchlint.rule import Hit", False),
        ("from torchlint.semantic.code.calls import arguments_of", False),
        ("from torchlint.rules.transfer._a.facts import fact", False),
        ("from torchlint.rules.transfer._a import facts", False),
        ("from ._a.facts import fact", False),
        ("from ._b.facts import fact", True),
        ("import libcst as cst", False),
        ("from . import other", True),
        ("from torchlint.rules.memory._a.facts import fact", True),
        ("from ..memory.other import x", True),
        ("import torchlint.rules", True),
        ("from torchlint.base.finding import Severity", True),
        ("def f():\n    from torchlint.engine import hits", True),
    ],
)
def test_the_door_of_rules_is_their_only_way_in(line: str, passes: bool) -> None:
    assert (
        bool(past_the_rules_door(line, "torchlint.rules.transfer.a", "torchlint.rules.transfer"))
        is passes
    )


def test_torch_imports_sees_every_form_of_import() -> None:
    text = (
        "import torch.nn as nn\nfrom torch import nn\ndef f():\n    import torch\nimport "
        "torchlint\n"
    )
    assert torch_imports(text) == [1, 2, 4]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('asked = given["cache_dir"]', set()),
        ('"""See ``cache-dir`` and --cache-dir."""', set()),
        ('merged["cache-dir"] = 1', {"cache-dir"}),
        ('_UNSET = ("fail_on", "jobs")', {"fail_on", "jobs"}),
        ('click.option("-j", "--jobs")', {"--jobs"}),
        ('click.option("--unsafe-fixes/--no-unsafe-fixes")', {"--unsafe-fixes/--no-unsafe-fixes"}),
        ("settings.fail_on", set()),
    ],
)
def test_spelled_sees_data_alone(line: str, found: set[str]) -> None:
    assert spelled(line, words=True) == found
    assert spelled(line, words=False) == found - {"jobs"}


# The semantic model

SUBJECTS = ("torch", "code", "values", "time", "device", "uses", "data", "project")
"""The folders of `semantic`, each of which imports only those before it; what is imported for types
alone is free.

Other files are asked through `project.asked`, from everywhere.
"""


def above_itself(text: str, module: str) -> list[str]:
    """Return the imports at run time by which a file of `semantic` asks a subject that comes after
    its own."""
    tree = parsed(text)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        ):
            node.body = [ast.Pass()]
    own = SUBJECTS.index(module.split(".")[2])
    found = [target.split(".") for _, target in _imported(tree, module.rpartition(".")[0])]
    found = [path for path in found if path[2:4] != ["project", "asked"]]
    asked = [
        path for path in found if path[:2] == ["torchlint", "semantic"] and path[2] in SUBJECTS
    ]
    return [".".join(path[1:4]) for path in asked if SUBJECTS.index(path[2]) > own]


def test_the_semantic_model_asks_downwards() -> None:
    files = [path for path in FILES if path.parent.parent == ROOT / "semantic"]
    assert {path.parent.name for path in files} == set(SUBJECTS)
    found = {
        dotted(path): above_itself(path.read_text(encoding="utf-8"), dotted(path)) for path in files
    }
    order = " < ".join(SUBJECTS)
    assert {module: asked for module, asked in found.items() if asked} == {}, (
        f"each may ask those before it: {order}"
    )


def test_what_rules_ask_of_the_model_is_a_question() -> None:
    """A function of `semantic` whose first parameter is the module, and which a rule imports, is
    marked `@question`."""
    unmarked = set()
    handed = {there: home for home, there in behind_the_door().items()}
    for path in RULE_FILES:
        package = dotted(path).rpartition(".")[0]
        for _, target in imported(path.read_text(encoding="utf-8"), package):
            home, _, name = handed.get(target, target).rpartition(".")
            if home.startswith("torchlint.semantic."):
                asked = getattr(importlib.import_module(home), name, None)  # None: a module
                takes = (
                    list(inspect.signature(asked).parameters) if inspect.isfunction(asked) else []
                )
                if takes[:1] == ["module"] and name not in QUESTIONS:
                    unmarked.add(target)
    assert unmarked == set()


def test_the_modes_of_verify_share_what_lies_below_them() -> None:
    """`session` is the one engine of script, function and rule mode, which know nothing of each
    other."""
    below: dict[str, tuple[str, ...]] = {
        "session": ("script", "paired", "output"),
        "script": ("paired", "output"),
        "paired": ("script", "output"),
        "output": ("session", "script", "paired"),
    }

    def law(text: str, module: str, package: str) -> list[str]:
        refused = below.get(module.split(".")[2], ())
        return [
            f"{module}:{line} imports {target}"
            for line, target in imported(text, package)
            if target.split(".")[:2] == ["torchlint", "verify"] and target.split(".")[2] in refused
        ]

    files = [
        path
        for path in FILES
        if path.relative_to(ROOT).parts[0] == "verify" and len(path.relative_to(ROOT).parts) > 2
    ]
    assert broken(law, files) == []
    assert law(
        "from torchlint.verify.script import runs",
        "torchlint.verify.session.x",
        "torchlint.verify.session",
    )


def test_the_ground_knows_no_torch() -> None:
    tree = parsed((ROOT / "semantic" / "module.py").read_text(encoding="utf-8"))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    targets = [target for _, target in _imported(tree, "torchlint.semantic")]
    assert not [target for target in targets if target.startswith("torchlint.semantic.torch")]
    assert names.isdisjoint({"cuda", "device", "item", "cpu"})


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("from torchlint.semantic.time.heat import heat_of", ["semantic.time.heat"]),
        ("from torchlint.semantic.code.names import dotted_text", []),
        ("from torchlint.semantic.values.value import Value", []),
        ("if TYPE_CHECKING:\n    from torchlint.semantic.data import loaders", []),
        ("def f():\n    import torchlint.semantic.project.project", ["semantic.project.project"]),
    ],
)
def test_asking_upwards_is_seen_in_every_form(line: str, asked: list[str]) -> None:
    assert above_itself(line, "torchlint.semantic.values.place") == asked


# What torch does

OPERATIONS = ROOT / "semantic" / "torch"
NO_OPERATIONS = {"fact", "apart", "internal", "owner", "collective"}
"""Kinds of rows whose names are words of many other things: ``size``, ``device``, ``load``, ``to``
of a module."""
NAMESAKES = {
    "rules/loading/_slow_numpy_to_tensor/arrays.py": {  # NumPy's functions of the same names
        *(
            "_ALWAYS",
            "_SHAPED",
            "_ELEMENTWISE",
            "_METHODS",
        ),
    },
    "source/ipython.py": {"_AUTOMAGIC"},  # commands of a shell: `less`
}
"""Tables of names that are spelled like an operation of torch, and stand for something else."""


@cache
def operations() -> frozenset[str]:
    """Return the names of torch's operations and dtypes that no builtin and no device has."""
    kinds = [rows for word, rows in ops.WORDS.items() if word in ops.KINDS.keys() - NO_OPERATIONS]
    names = {ops.NAMES[row].rpartition(".")[2] for row in set().union(*kinds)} | dtypes.spelled(
        dtypes.DTYPES
    )
    return frozenset(names - set(dir(builtins)) - {"cpu", "cuda"})


def words(value: ast.expr) -> Iterator[str]:
    """Yield the words of a table: its strings, what they are split into, and what a pattern is
    written of."""
    strings = [
        node.value
        for node in ast.walk(value)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    if strings:
        code = ast.unparse(value)
        for text in strings:
            if "re.compile(" in code or "regex(" in code:
                yield from re.findall(r"[A-Za-z_][\w.]*", re.sub(r"\\[a-zA-Z]|\?P<\w+>", " ", text))
            elif ".split(" in code or " " not in text:
                yield from text.split()


def tables_of_operations(text: str) -> dict[str, set[str]]:
    """Return the tables that hold three names of torch's operations or more, and these names.

    A table is what a module-level line assigns, or a tuple, list or set in a function, by the
    function's name.
    """
    tables: list[tuple[str, ast.expr]] = []
    for line in parsed(text).body:
        if isinstance(line, (ast.Assign, ast.AnnAssign)) and line.value is not None:
            target = line.targets[0] if isinstance(line, ast.Assign) else line.target
            tables.append((ast.unparse(target), line.value))
        for function in ast.walk(line):
            if isinstance(function, (ast.FunctionDef, ast.Lambda)):
                inner = (
                    n for n in ast.walk(function) if isinstance(n, (ast.Tuple, ast.List, ast.Set))
                )
                tables += [(getattr(function, "name", "lambda"), node) for node in inner]
    known = operations()
    return {name: found for name, table in tables if len(found := named(table) & known) > 2}


def named(value: ast.expr) -> set[str]:
    """Return the last parts of the names in a table, where these can be torch's."""
    if isinstance(value, ast.Dict):  # what it says of the names is no list of names
        value = ast.Tuple([key for key in value.keys if key is not None], ast.Load())
    spelled = list(words(value))
    if any(
        word.endswith(".") and not word.startswith("torch") for word in spelled
    ):  # "numpy." + name
        return set()
    return {
        word.removeprefix("aten::").rpartition(".")[2] for word in spelled if not_of_others(word)
    }


def not_of_others(word: str) -> bool:
    """Say whether a name is a bare one, or stands behind ``torch``."""
    return "." not in word.lstrip(".") or word.startswith("torch.")


def test_what_torch_does_is_said_in_its_tables_alone() -> None:
    files = [path for path in FILES if not path.is_relative_to(OPERATIONS)]
    found = {
        path.relative_to(ROOT).as_posix(): tables_of_operations(path.read_text(encoding="utf-8"))
        for path in files
    }
    assert {file: set(tables) for file, tables in found.items() if tables} == NAMESAKES, found


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ('X = frozenset(("view", "reshape", "flatten"))', {"view", "reshape", "flatten"}),
        ('X: Names = frozenset("detach clone float64".split())', {"detach", "clone", "float64"}),
        ('X = tuple("torch." + n for n in ("zeros", "ones", "empty"))', {"zeros", "ones", "empty"}),
        (
            'X = {"torch.zeros": 0, "torch.ones": 0, "torch.nn.functional.softmax": 1}',
            {"zeros", "ones", "softmax"},
        ),
        ('X = re.compile(r"\\.(argmax|argmin|topk)\\(")', {"argmax", "argmin", "topk"}),
        ('X = regex(r"\\.(argmax|argmin|topk)\\(")', {"argmax", "argmin", "topk"}),
        (
            'def X(name):\n    return name in ("view", "reshape", "flatten")',
            {"view", "reshape", "flatten"},
        ),
        (
            'def X(name):\n    return name in ("view", "reshape") or name in ("flatten", "ravel")',
            None,
        ),
        ('X = frozenset(("view", "reshape"))', None),
        ('X = tuple("numpy." + n for n in ("zeros", "ones", "empty"))', None),
        ('X = ("numpy.zeros", "numpy.ones", "numpy.empty")', None),
        ('X = ("float", "int", "sum", "cpu", "cuda", "size", "device")', None),
        ('X = "the view, the clone and the softmax of a tensor"', None),
        ('X = {"a": "view", "b": "reshape", "c": "flatten"}', None),
    ],
)
def test_a_table_of_operations_is_seen_in_every_form(line: str, names: set[str] | None) -> None:
    assert tables_of_operations(line) == ({"X": names} if names else {})


# Circles


def needed_by(path: Path) -> set[str]:
    """Return the modules of ours that a file imports, at run time or for types alone."""
    module = dotted(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    targets = {target for _, target in imported(path.read_text(encoding="utf-8"), package)}
    return {name if name in MODULES else name.rpartition(".")[0] for name in targets} & MODULES


MODULES = {dotted(path) for path in FILES if path.name != "__init__.py"}


def test_what_rules_reach_decides_what_is_found() -> None:
    """A part that the cache does not know of would leave old findings behind when it changes."""
    files = {dotted(path): path for path in FILES if path.name != "__init__.py"}
    reached = set(map(dotted, RULE_FILES))
    new = reached
    while new:
        new = set().union(*(needed_by(files[name]) for name in new)) - reached
        reached = reached | new
    parts = {files[name].relative_to(ROOT).parts[0] for name in reached}
    assert parts <= set(PARTS)


def circles(needs: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules of which each needs all the others, on whatever way."""
    reached = {name: {name} for name in needs}
    changed = True
    while changed:
        changed = False
        for name, targets in needs.items():
            before = len(reached[name])
            reached[name] = reached[name].union(*(reached[target] for target in targets))
            changed = changed or len(reached[name]) > before
    rings = {
        frozenset(other for other in reached[name] if name in reached[other]) for name in needs
    }
    return [set(ring) for ring in rings if len(ring) > 1]


def test_no_circle_of_imports_is_larger_than_the_interpreter_of_values() -> None:
    """Types count: who reads one of these files has to read all of them."""
    found = circles({dotted(path): needed_by(path) for path in FILES if path.name != "__init__.py"})
    assert max(map(len, found)) <= 10
    assert all(
        name.startswith("torchlint.semantic.values.")
        for ring in found
        for name in ring
        if len(ring) > 2
    ), found


def test_a_circle_is_seen_over_several_files() -> None:
    needs = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str](), "e": {"a"}}
    assert circles(needs) == [{"a", "b", "c"}]


# Classes

MANY_BASES = {
    f"torchlint.semantic.values.{name}"
    for name in ("expressions.Expressions", "interpreter.Interpreter")
}
"""The interpreter of values, a chain of five files, is the one class that is written in parts."""


def bases_in(tree: ast.Module, module: str, package: str) -> dict[str, set[str]]:
    """Return the classes of a file with those of their bases that are ours, by full name."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    known = {target.rpartition(".")[2]: target for _, target in _imported(tree, package)}
    known |= {node.name: f"{module}.{node.name}" for node in classes}
    named = {
        node.name: {ast.unparse(base).partition("[")[0] for base in node.bases} for node in classes
    }
    return {
        f"{module}.{name}": {
            known[base] for base in bases if known.get(base, "").startswith("torchlint.")
        }
        for name, bases in named.items()
    }


def too_many(bases: dict[str, set[str]]) -> set[str]:
    """Return the classes with more than two bases of ours, those of their bases included."""

    def above(name: str) -> set[str]:
        return bases.get(name, set()).union(*(above(base) for base in bases.get(name, set())))

    return {name for name in bases if len(above(name)) > 2}


def test_a_class_has_no_more_than_two_bases_of_ours() -> None:
    bases: dict[str, set[str]] = {}
    for path in FILES:
        module = dotted(path)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        bases |= bases_in(parsed(path.read_text(encoding="utf-8")), module, package)
    assert too_many(bases) - MANY_BASES == set()


def test_bases_are_counted_over_all_generations() -> None:
    text = (
        "from torchlint.a import A\nclass B(A): pass\nclass C(B, dict[str, int]): pass\nclass "
        "D(Generic[T], C): pass\n"
    )
    found = bases_in(parsed(text), "torchlint.b", "torchlint")
    assert found["torchlint.b.D"] == {"torchlint.b.C"}
    assert too_many(found) == {"torchlint.b.D"}


# -- words are not code ----------------------------------------------------------------------------

SPEAKS = ("semantic", "fixes", "rule", "rules", "edits", "engine", "explain")
"""The parts that show code in words, or build it."""
MAKES_CODE = frozenset(
    "Append InsertAfter InsertBefore Integer Name Prepend Replace SimpleString compile "
    "literal_eval parse parse_expression parse_module parse_statement parse_template_expression "
    "parse_template_module parse_template_statement".split()
)
LOOKS = frozenset(
    "Counter add count discard endswith find findall finditer frozenset fromkeys fullmatch get "
    "index isalnum isdigit isidentifier lstrip match partition pop remove removeprefix "
    "removesuffix replace rpartition rsplit rstrip search set setdefault split splitlines "
    "startswith strip sub".split()
)

SAID_ONCE = "torchlint.explain.verdicts._on_silence,"
"""Leaves out a sentence that would be said twice: that is a comparison of words."""


class Shown:
    """Follows the text that `Module.shown` gives through one file: by assignments, into parameters
    of the file's own functions and out of them; a class that holds it is for words.

    Args:
        tree: the file.
        tellers: functions of other files that return such a text.
    """

    def __init__(self, tree: ast.Module, tellers: frozenset[str] = frozenset()) -> None:
        self.tellers = {*tellers}
        self.held: set[tuple[str, str]] = set()
        self.functions = {
            node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
        }
        self.home = ""
        self.nodes = list(self.walk(tree, ""))
        known = -1
        while known != len(self.tellers) + len(self.held):
            known = len(self.tellers) + len(self.held)
            self.answers: dict[tuple[ast.AST, str], bool] = {}
            for node, home in self.nodes:
                self.home = home
                self.follow(node)

    def walk(self, node: ast.AST, home: str) -> Iterator[tuple[ast.AST, str]]:
        """Yield all nodes with the function that they stand in."""
        for child in ast.iter_child_nodes(node):
            yield child, home
            inner = child.name if isinstance(child, ast.FunctionDef) else home
            yield from self.walk(child, inner)

    def follow(self, node: ast.AST) -> None:
        """Note whom a node hands such a text to."""
        match node:
            case ast.Assign(targets=targets, value=value) if self.is_shown(value):
                self.hold(*targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value) if self.is_shown(value):
                self.hold(target)
            case ast.AugAssign(target=target, value=value) if self.is_shown(value):
                self.hold(target)
            case ast.NamedExpr(target=target, value=value) if self.is_shown(value):
                self.hold(target)
            case ast.For(target=target, iter=value) if self.is_shown(value):
                self.hold(target)
            case ast.comprehension(target=target, iter=value) if self.is_shown(value):
                self.hold(target)
            case ast.Return(value=ast.expr() as value) if self.is_shown(value):
                home = self.functions.get(self.home)
                self.tellers.update({self.home} if home and is_text(home.returns) else ())
            case ast.Call():
                self.hand_on(node)

    def hold(self, *targets: ast.expr) -> None:
        names = (n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
        self.held.update((self.home, name.id) for name in names)

    def hand_on(self, call: ast.Call) -> None:
        function = self.functions.get(called(call))
        if function is None:
            return
        takes = {arg.arg: is_text(arg.annotation) for arg in function.args.args}
        names = [name for name in takes if name != "self"]
        pairs = list(zip(names, call.args, strict=False))
        pairs += [(each.arg, each.value) for each in call.keywords if each.arg is not None]
        self.held.update(
            (function.name, name)
            for name, value in pairs
            if takes.get(name) and self.is_shown(value)
        )

    def is_shown(self, node: ast.AST) -> bool:
        """Say whether an expression is such a text, or holds one."""
        if (node, self.home) not in self.answers:
            self.answers[node, self.home] = self.found_shown(node)
        return self.answers[node, self.home]

    def found_shown(self, node: ast.AST) -> bool:
        match node:
            case ast.Name(id=name):
                return (self.home, name) in self.held
            case ast.Call():
                name = called(node)
                if name == "shown" or name in self.tellers:
                    return True
                given = [*node.args, *(each.value for each in node.keywords)]
                given += [node.func.value] if isinstance(node.func, ast.Attribute) else []
                return not name[:1].isupper() and any(map(self.is_shown, given))
            case ast.Compare() | ast.Lambda() | ast.Attribute():
                return False
            case ast.comprehension():
                return False
        return any(map(self.is_shown, ast.iter_child_nodes(node)))

    def misused(self) -> Iterator[str]:
        """Yield the functions and lines in which such a text is parsed, compared or searched."""
        for node, home in self.nodes:
            self.home = home
            if any(map(self.is_shown, taken_literally(node))):
                yield f"{self.home}, line {getattr(node, 'lineno', 0)}"


def is_text(annotation: ast.expr | None) -> bool:
    """Say whether what is annotated may be a text, and no node of a tree."""
    words = "str" if annotation is None else ast.unparse(annotation)
    return "str" in words and "cst." not in words


def called(call: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def taken_literally(node: ast.AST) -> list[ast.expr]:
    """Return the parts of a node that it compares, looks up, looks into or makes code of."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            identity = all(isinstance(op, ast.Is | ast.IsNot) for op in ops)
            return [] if identity else [left, *others]
        case ast.Dict(keys=keys):
            return [key for key in keys if key is not None]
        case ast.Set(elts=elements):
            return elements
        case ast.DictComp(key=key) | ast.SetComp(elt=key) | ast.Match(subject=key):
            return [key]
        case ast.Subscript(slice=key):
            return [key]
        case ast.Call(func=func, args=args) if called(node) in MAKES_CODE | LOOKS:
            return [*args, *([func.value] if isinstance(func, ast.Attribute) else [])]
    return []


def speaking() -> list[Path]:
    return [path for path in FILES if part(dotted(path)) in SPEAKS]


def misused_words() -> list[str]:
    """Return the places where a text for words is taken for code."""
    texts = {path: path.read_text(encoding="utf-8") for path in speaking()}
    files = {path: Shown(parsed(text)) for path, text in texts.items() if "shown(" in text}
    told = {name for found in files.values() for name in found.tellers if name[0] != "_"}
    for path, text in texts.items():
        asks = told & {name.rpartition(".")[2] for _, name in imported(text, "x")}
        if asks:
            files[path] = Shown(parsed(text), frozenset(asks))
    found = [f"{dotted(path)}.{line}" for path, file in files.items() for line in file.misused()]
    return [each for each in found if not each.startswith(SAID_ONCE)]


def test_no_text_that_is_cut_for_words_is_parsed_or_compared() -> None:
    assert misused_words() == []


@pytest.mark.parametrize(
    "lines",
    [
        "return module.shown(a) == module.shown(b)",
        "return module.shown(a) in _ONE",
        "return _SCALE.search(module.shown(a)) is not None",
        "return {module.shown(each) for each in b}",
        "found[module.shown(a)] = b",
        "found.setdefault(module.shown(a), b)",
        "return cst.parse_expression(f'{module.shown(a)}.item()')",
        "text = module.shown(a)\nreturn cst.parse_statement(text + '()')",
        "code = ', '.join([module.shown(a)])\nreturn InsertBefore(b, code)",
        "for text in [module.shown(each) for each in b]:\n    known.add(text)",
        "return _put(module.shown(a))\ndef _put(text):\n    return Replace(a, cst.Name(text))",
        "return _told(module) == '1'\ndef _told(module):\n    return module.shown(a).lower()",
        "match module.shown(a):\n    case 'x':\n        return a",
        "return elsewhere(module) == '1'",
    ],
)
def test_words_that_are_taken_for_code_are_seen(lines: str) -> None:
    assert list(Shown(parsed(lines), frozenset({"elsewhere"})).misused())


@pytest.mark.parametrize(
    "lines",
    [
        "yield Hit(a, {'expr': module.shown(a)})",
        "text = f'`{module.shown(a)}`' if a is not None else ''\nyield Hit(a, {'expr': text})",
        "return module.source_of(a) == module.source_of(b)",
        "words = module.shown(a)\ndef other(words):\n    return words == 'x'",
    ],
)
def test_words_are_for_messages(lines: str) -> None:
    assert not list(Shown(parsed(lines)).misused())
