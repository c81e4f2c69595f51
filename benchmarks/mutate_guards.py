"""Switches off the guards of rule files one by one, and says which of them no example would miss.

    python benchmarks/mutate_guards.py [CODE ...] [--keep NAME]

A guard is a part of an ``and`` or ``or``, the condition of an ``if`` that returns, continues or
raises, a ``not``, or a filter of a comprehension. Each is replaced by what lets everything through
(True beside ``and``, False beside ``or``, False as such a condition), alone, and the rule's checks
run over its own manual, its fixture, its corner cases and the seeds. The guard has a witness if a
finding appears, disappears or moves, if a fix changes its edits or safety, or if a check crashes:
each of these fails ``tests/test_rules.py``, ``tests/test_fixtures.py``,
``tests/test_corner_cases.py`` or ``tests/test_fixes_run.py``. Needs torchlint's source tree. Prints
the guards without a witness; with --keep, writes ``benchmarks/results/NAME.json``.
"""

from __future__ import annotations

import argparse
import ast
import copy
import datetime
import importlib
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import libcst as cst

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
sys.setrecursionlimit(20_000)

from tests.corner_cases import corners_of  # noqa: E402
from torchlint.catalog.manual import WITH_CODE  # noqa: E402
from torchlint.catalog.rule_file import RuleInfo  # noqa: E402
from torchlint.catalog.rules import load_catalog  # noqa: E402
from torchlint.rule import Module, Rule  # noqa: E402
from torchlint.semantic.project.outside import Outside  # noqa: E402
from torchlint.testing.promises import programs  # noqa: E402

LEAVING = (ast.Return, ast.Continue, ast.Raise, ast.Break)


class Disable(ast.NodeTransformer):
    """Replaces the guard with the number `wanted`, counted in the order of the walk; counts the
    rest."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.count = 0
        self.described: tuple[int, str] | None = None

    def _guard(self, node: ast.expr, value: bool) -> ast.expr:
        self.count += 1
        if self.count - 1 != self.wanted:
            return node
        self.described = (node.lineno, ast.unparse(node))
        return ast.copy_location(ast.Constant(value), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Let each part of an ``and`` be true, of an ``or`` false."""
        self.generic_visit(node)
        node.values = [self._guard(value, isinstance(node.op, ast.And)) for value in node.values]
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        """Never leave early."""
        self.generic_visit(node)
        if isinstance(node.body[-1], LEAVING) and not isinstance(node.test, ast.BoolOp):
            node.test = self._guard(node.test, False)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """Filter nothing out."""
        self.generic_visit(node)
        node.ifs = [
            self._guard(test, True) if not isinstance(test, ast.BoolOp) else test
            for test in node.ifs
        ]
        return node


def load(tree: ast.Module, info: RuleInfo) -> Rule:
    """Return the rule of a (changed) rule file."""
    importlib.import_module(info.module)  # What makes a record looks its module up.
    space: dict[str, object] = {
        "__name__": info.module,
        "__doc__": ast.get_docstring(tree, clean=False),
    }
    exec(compile(ast.fix_missing_locations(tree), info.path, "exec"), space)  # noqa: S102
    rule = space["rule"]
    assert isinstance(rule, Rule)
    return rule


def examples(info: RuleInfo) -> Iterator[tuple[str, str]]:
    """Yield name and text of everything that a test runs this rule over."""
    for section in WITH_CODE:
        for number, text in enumerate(programs(info, section)):
            yield f"{section} {number + 1}", text
    for corner in corners_of(info):
        yield from ((corner.sentence, text) for text in corner.programs)
    own = list(ROOT.glob(f"fixtures/rules/*/{info.name.replace('-', '_')}.py"))
    for path in (*own, *sorted(ROOT.glob("fixtures/seeds/*.py"))):
        text = path.read_text(encoding="utf-8")
        if path in own or info.code in text:
            yield path.name, text


def outcome(rule: Rule, module: Module) -> list[tuple[object, ...]] | str:
    """Return what the checks of a rule yield on a module, in comparable form; the error of one that
    crashes."""
    found: list[tuple[object, ...]] = []
    try:
        for node_type, check in rule.checks:
            for node in check.nodes(module, node_type):
                for hit in check(node, module):
                    fix = hit.fix
                    edits = (
                        [
                            (type(e).__name__, id(getattr(e, "node", None)), _code(e))
                            for e in fix.edits
                        ]
                        if fix
                        else []
                    )
                    safety = fix.safety.value if fix else ""
                    found.append(
                        (id(hit.node), hit.severity and hit.severity.value, safety, tuple(edits))
                    )
    except Exception as error:  # a guard that keeps a check from crashing has a witness
        return type(error).__name__
    return found


def _code(edit: object) -> str:
    new = getattr(edit, "new", None)
    return (
        cst.Module([]).code_for_node(new)
        if isinstance(new, cst.CSTNode)
        else str(getattr(edit, "code", ""))
    )


def survivors(info: RuleInfo) -> tuple[int, list[dict[str, object]]]:
    """Return how many guards a rule file has, and those that no example would miss."""
    source = Path(info.path).read_text(encoding="utf-8")
    tree = ast.parse(source)
    modules = [
        Module(cst.parse_module(text), text, "src/train.py", Outside())
        for _, text in examples(info)
    ]
    original = load(copy.deepcopy(tree), info)
    expected = [outcome(original, module) for module in modules]
    total = 0
    out: list[dict[str, object]] = []
    while True:
        mutant = copy.deepcopy(tree)
        change = Disable(total)
        mutant = change.visit(mutant)
        if change.described is None:
            return total, out
        total += 1
        rule = load(mutant, info)
        if all(
            outcome(rule, module) == want for module, want in zip(modules, expected, strict=True)
        ):
            line, code = change.described
            out.append({"code": info.code, "line": line, "guard": code})


def main() -> None:
    """Mutate, print, keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("codes", nargs="*")
    parser.add_argument("--keep", metavar="NAME")
    args = parser.parse_args()
    guards, left = 0, []
    for info in load_catalog().rules:
        if args.codes and info.code not in args.codes:
            continue
        count, missed = survivors(info)
        guards += count
        left.extend(missed)
        print(
            f"{info.code} {info.name}: {count} guards, {len(missed)} without a witness", flush=True
        )
        for each in missed:
            print(f"    line {each['line']}: {each['guard']}")
    print(f"{guards} guards, {len(left)} without a witness")
    if args.keep:
        kept = {
            "date": datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat(),
            "python": platform.python_version(),
            "guards": guards,
            "without_witness": left,
        }
        target = ROOT / "benchmarks" / "results" / f"{args.keep}.json"
        target.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
