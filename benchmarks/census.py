"""Counts where torchlint is silent, and why: a measure that needs no labels.

    python benchmarks/census.py TREE... [--unknown N] [--seed N] [--kind KIND] [--keep NAME]

Each TREE is a folder; every folder directly in it that holds Python files is one project, as when
``torchlint check`` runs there. Candidates are found by syntax alone: reads of scalars, copies to
the host, copies to a device, factories without ``device=``, tests on values, loops that index by
their own variable, loaders, and calls of models. Each gets one verdict:

=========  =======================================================================================
flagged    a rule that is on by default speaks on these lines
guarded    behind an interval or a debug flag, on the way to an exception, or benchmark code
cold       known to run seldom: once, once per epoch, for each object, or called from such places
host       known to be a Python number, text, shape, NumPy array or CPU tensor, a dataset's sample,
           or in a project that never speaks of a GPU
harmless   all that decides is known, and the rules have nothing to say
unknown    the value, its place, or how often the line runs is not known
=========  =======================================================================================

The verdicts rest on the facts that ``check --explain`` tells: `heat_of`, `inferred`, `on_device`,
`throttle`. The share of unknown among those that may matter (flagged, harmless and unknown) is what
to drive down on a fixed tree. Functions that a compiler of kernels takes (triton, numba) are no
Python and are not counted. It is no recall: a wrong belief counts as known, and the level says
nothing from one tree to the next. ``--unknown N`` prints N of the unknown ones by a random draw.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import libcst as cst

from torchlint import __version__
from torchlint.base.span import LineIndex
from torchlint.catalog.rules import load_catalog
from torchlint.edits.positions import Layout
from torchlint.engine.analyse import analyse, concerns_us
from torchlint.engine.hits import module_of
from torchlint.engine.job import Job
from torchlint.rule import Module
from torchlint.run.projects import forget, outside_of
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.scopes import name_outside, scopes
from torchlint.semantic.code.unreached import unreached
from torchlint.semantic.data.loaders import makes_loader
from torchlint.semantic.elsewhere import Definition, Elsewhere
from torchlint.semantic.project.callers import MEMBER
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.time.grades import Grade
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.time.iterations import is_structural, iteration_count
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred, is_model_call
from torchlint.semantic.values.place import on_device
from torchlint.source.document import decode
from torchlint.source.python import MisreadError

RESULTS = Path(__file__).parent / "results"
LARGEST = 400_000
FLAGGED, GUARDED, COLD, HOST, HARMLESS = "flagged", "guarded", "cold", "host", "harmless"
VALUE, PLACE, HEAT = "unknown value", "unknown place", "unknown heat"
VERDICTS = (FLAGGED, GUARDED, COLD, HOST, HARMLESS, VALUE, PLACE, HEAT)
UNKNOWN = (VALUE, PLACE, HEAT)

GPU = re.compile(rb"cuda|gpu|accelerat|\bmps\b|lightning", re.IGNORECASE)
"""What speaks of a GPU in a file of the project."""
_FACTORIES = ops.dotted("factory")
_LIKE = ops.dotted("like")
_COPIES = frozenset(("cpu", "numpy"))
_UPLOADS = frozenset(("cuda", "to"))
_READS = frozenset(("item", "tolist"))
_CASTS = frozenset(("float", "int", "bool"))
_ORDER = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
_TRUTHS = frozenset(("any", "all", "sum", "max", "min", "mean", "equal", "allclose", "isnan"))
_METADATA = frozenset(("None", "True", "False"))
_COMPILERS = ("triton.", "numba.", "cupyx.", "taichi.")
"""Packages whose decorators turn a function into a kernel: it is no code that Python runs."""
_HANDFUL = 10
"""Passes, written out, of a loop that runs about as often as what is around it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place that may matter.

    Args:
        kind: what kind of place.
        node: what a rule would point at.
        subjects: the expressions whose values decide.
    """

    kind: str
    node: cst.CSTNode
    subjects: tuple[cst.BaseExpression, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """A candidate with its verdict and its place, for people to read."""

    kind: str
    verdict: str
    path: str
    row: int
    code: str


# -- candidates ------------------------------------------------------------------------------------


def candidates(module: Module) -> Iterator[Candidate]:
    """Yield the places of a file that may matter, by syntax."""
    for call in module.nodes(cst.Call):
        yield from _of_call(module, call)
    for test in _tests(module):
        subjects = _tested(module, test)
        if subjects:
            yield Candidate("test", test, subjects)
    for loop in module.nodes(cst.For):
        subjects = _indexed(module, loop)
        if subjects:
            yield Candidate("element loop", loop, subjects)


def _of_call(module: Module, call: cst.Call) -> Iterator[Candidate]:
    func = call.func
    name = module.name(func)
    if name in _FACTORIES and keyword_argument(module, call, "device") is None:
        yield Candidate("constructor", call, (call,))
    elif makes_loader(module, call):
        yield Candidate("loader", call, ())
    elif is_model_call(module, call):
        yield Candidate("model call", call, ())
    elif isinstance(func, cst.Attribute) and name is None:
        method = func.attr.value
        if method in _READS and not call.args:
            yield Candidate("read", call, (func.value,))
        elif method in _COPIES and not call.args and not _copied_already(func.value):
            yield Candidate("host copy", call, (func.value,))
        elif method in _UPLOADS and not _only_casts(module, call):
            yield Candidate("upload", call, (func.value,))
    elif isinstance(func, cst.Name) and func.value in _CASTS and len(call.args) == 1:
        given = call.args[0].value
        if not isinstance(given, (cst.BaseNumber, cst.BaseString)) and call.args[0].star == "":
            yield Candidate("read", call, (given,))


def _only_casts(module: Module, call: cst.Call) -> bool:
    """Say whether ``.to(x.dtype)`` or ``.to(torch.half)`` is written: nothing moves."""
    if not call.args or call.args[0].keyword is not None:
        return False
    given = call.args[0].value
    named = isinstance(given, cst.Attribute) and given.attr.value == "dtype"
    return named or inferred(module, given).kind == "dtype"


def _copied_already(receiver: cst.BaseExpression) -> bool:
    """Say whether ``.cpu()`` is written right before ``.numpy()``: one copy, counted once."""
    return (
        isinstance(receiver, cst.Call)
        and isinstance(receiver.func, cst.Attribute)
        and receiver.func.attr.value == "cpu"
    )


def _tests(module: Module) -> Iterator[cst.BaseExpression]:
    for node in module.nodes(cst.If, cst.While, cst.Assert, cst.IfExp):
        if isinstance(node, (cst.If, cst.While, cst.Assert, cst.IfExp)):
            yield node.test


def _tested(module: Module, test: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
    """Return the parts of a test whose truth may have to come from a device; of a comparison that
    is known to be the host's itself, whatever its sides are."""
    if isinstance(test, cst.BooleanOperation):
        return (*_tested(module, test.left), *_tested(module, test.right))
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _tested(module, test.expression)
    if isinstance(test, cst.Comparison):
        sides = (test.left, *(each.comparator for each in test.comparisons))
        texts = any(isinstance(side, (cst.BaseString, cst.FormattedString)) for side in sides)
        named = any(isinstance(side, cst.Name) and side.value in _METADATA for side in sides)
        operators = [each.operator for each in test.comparisons]
        ordered = all(isinstance(each, (*_ORDER, cst.Equal, cst.NotEqual)) for each in operators)
        if not ordered or texts or named:
            return ()
        return (test,) if inferred(module, test).host else sides
    if isinstance(test, cst.Call) and isinstance(test.func, cst.Attribute):
        return (test,) if test.func.attr.value in _TRUTHS else ()
    return ()


def _indexed(module: Module, loop: cst.For) -> tuple[cst.BaseExpression, ...]:
    """Return what the body of a loop indexes by the loop's own variable."""
    target: cst.BaseExpression = loop.target
    if isinstance(target, cst.Tuple) and target.elements:
        target = target.elements[0].value
    if not isinstance(target, cst.Name):
        return ()
    found: dict[str, cst.BaseExpression] = {}
    for part in module.within(loop.body, cst.Subscript):
        first = part.slice[0].slice if part.slice else None
        if isinstance(first, cst.Index) and _same(first.value, target):
            found.setdefault(module.source_of(part.value), part.value)
    return tuple(found.values())


def _same(node: cst.BaseExpression, name: cst.Name) -> bool:
    return isinstance(node, cst.Name) and node.value == name.value


# -- verdicts --------------------------------------------------------------------------------------


def verdict(module: Module, candidate: Candidate) -> str:
    """Return why torchlint is silent about a candidate that it does not flag."""
    node = candidate.node
    at = node.iter if isinstance(node, cst.For) else node
    if unreached(module, at) or is_benchmark(module, at):
        return GUARDED
    often = frequency(module, at, module.outside)
    if often in (GUARDED, COLD, HOST):
        return often
    known = SPECIAL.get(candidate.kind, of_values)(module, candidate)
    return HEAT if often == HEAT and known != HOST else known


def frequency(module: Module, node: cst.CSTNode, outside: Elsewhere, depth: int = 4) -> str:
    """Return GUARDED, COLD, HOST (a dataset's sample), HEAT for unknown, or ``"hot"``; `outside` is
    the project as the file sees it that is counted."""
    heat = heat_of(module, node)
    if heat.hot:
        return "hot"
    if heat.grade is Grade.SAMPLE:
        return HOST
    function = module.function(node)
    if throttled(module, node, function):
        return GUARDED
    if heat.grade is Grade.EPOCH:
        return COLD
    if function is not None and function.name.value == "__init__":
        return COLD
    if any(map(partial(_repeats, module), module.loops(node))):
        return HEAT
    if function is None or function.name.value == "main" or depth == 0:
        return COLD
    sites = list(_sites(module, function, outside))
    if not sites:
        return HEAT
    found = {frequency(home, site, outside, depth - 1) for home, site in sites}
    return HEAT if HEAT in found else GUARDED if found == {GUARDED} else COLD


def _repeats(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether a loop may run its body much more often than it runs itself: it iterates over no
    epochs, no parts of a network, and not over a handful of things."""
    if loop_kind(module, loop) is LoopKind.EPOCH:
        return False
    if not isinstance(loop, cst.For):
        return True
    count = iteration_count(module, loop)
    return not is_structural(module, loop) and (count is None or count > _HANDFUL)


def _sites(
    module: Module, function: cst.FunctionDef, outside: Elsewhere
) -> Iterator[tuple[Module, cst.Call]]:
    """Yield the calls of a function in all files of the project."""
    for site in call_sites(module, function):
        if module.function(site) is not function:
            yield module, site
    name = name_outside(module, function)
    if name is not None:
        yield from outside.calling(Definition(module.path, name, MEMBER))


def of_values(module: Module, candidate: Candidate) -> str:
    """Return the verdict that the values of the subjects give."""
    kinds = {_of_value(module, subject) for subject in candidate.subjects}
    for each in (HARMLESS, PLACE, VALUE):
        if each in kinds:
            return each
    return HOST


def _of_value(module: Module, node: cst.BaseExpression) -> str:
    value = inferred(module, node)
    there = on_device(module, node)
    if there:
        return HARMLESS
    if value.host:
        return HOST
    if value.tensor or value.kind in ("batch", "accumulated"):
        return PLACE
    return VALUE if value.kind == "?" else HOST


def of_upload(module: Module, candidate: Candidate) -> str:
    """Return the verdict on a copy to a device: what is copied has to be known, not where it is."""
    value = inferred(module, candidate.subjects[0])
    return VALUE if value.kind == "?" else HARMLESS


def of_constructor(module: Module, candidate: Candidate) -> str:
    """Return the verdict on a factory: where what it makes goes to has to be known; what is made
    like a tensor lies where that does."""
    if isinstance(candidate.node, cst.Call) and module.name(candidate.node.func) in _LIKE:
        return HARMLESS
    place = _of_value(module, candidate.subjects[0])
    if place != HOST:
        return place
    statement = module.small_statement(candidate.node)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return PLACE
    target = statement.targets[0].target
    return HOST if isinstance(target, cst.Name) and _stays(module, statement, target) else PLACE


def _stays(module: Module, statement: cst.CSTNode, target: cst.Name) -> bool:
    """Say whether a name is only read for its items, its shape or by methods, in its function."""
    function = module.function(statement)
    owner = function.body if function is not None else module.root
    for name in module.within(owner, cst.Name):
        if name.value != target.value or name is target:
            continue
        above = module.parent(name)
        if not isinstance(above, (cst.Attribute, cst.Subscript)):
            return False
    return True


def of_loader(module: Module, candidate: Candidate) -> str:
    """Return the verdict on a loader: pinned, for the CPU, or nobody knows where its batches go."""
    assert isinstance(candidate.node, cst.Call)
    pinned = keyword_argument(module, candidate.node, "pin_memory")
    if isinstance(pinned, cst.Name) and pinned.value == "True":
        return HARMLESS
    return PLACE


def of_model_call(module: Module, candidate: Candidate) -> str:
    """Return the verdict on a model's call: whether autograd is on has to be known."""
    return VALUE if no_grad(module, candidate.node) is None else HARMLESS


SPECIAL: dict[str, Callable[[Module, Candidate], str]] = {
    "upload": of_upload,
    "constructor": of_constructor,
    "loader": of_loader,
    "model call": of_model_call,
}


def _is_kernel(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a node lies in a function that a compiler of kernels takes."""
    function = module.function(node)
    return function is not None and any(
        name.startswith(_COMPILERS) for _, name in scopes(module).decorators(function)
    )


# -- files -----------------------------------------------------------------------------------------


def census(path: Path, root: Path, codes: frozenset[str], *, on_gpu: bool) -> Iterator[Counted]:
    """Yield the candidates of one file with their verdicts; none of one that Python cannot read.

    Args:
        path: the file.
        root: its project.
        codes: of the rules that count as speaking.
        on_gpu: whether a file of the project speaks of a GPU.
    """
    data = path.read_bytes()
    if len(data) > LARGEST or not concerns_us(data):
        return
    relative = path.relative_to(root).as_posix()
    document = decode(data, str(path), str(path))
    job = Job(document, relative, codes, root=str(root))
    report = analyse(job, outside_of)
    try:
        tree = cst.parse_module(document.text)
    except (cst.ParserSyntaxError, RecursionError):
        return
    module = module_of(job, tree, document.text, outside=outside_of(job))
    layout, index = Layout(module.root, document.text), LineIndex(document.text)
    rows = {
        row
        for finding in report.findings
        for row in range(finding.start.row, max(finding.end.row, finding.start.row) + 1)
    }
    for candidate in candidates(module):
        if _is_kernel(module, candidate.node):
            continue
        span = layout.span(candidate.node)
        if span is None:
            continue
        first = index.position(span.start).row
        header = isinstance(candidate.node, cst.For)
        last = first if header else index.position(span.end).row
        spoken = rows & set(range(first, last + 1))
        found = FLAGGED if spoken else verdict(module, candidate) if on_gpu else HOST
        yield Counted(candidate.kind, found, str(path), first, index.line(first).strip())


def projects(trees: Iterable[Path]) -> Iterator[tuple[Path, list[Path]]]:
    """Yield each project with its Python files."""
    for tree in trees:
        inside = sorted(path for path in tree.iterdir() if path.is_dir())
        loose = any(path.suffix == ".py" for path in tree.iterdir())
        for root in [tree] if loose else inside:
            yield root, sorted(path for path in root.rglob("*.py") if path.is_file())


def share(counts: Counter[str]) -> float:
    """Return the share of unknown of those that may matter."""
    unknown = sum(counts[each] for each in UNKNOWN)
    matter = unknown + counts[FLAGGED] + counts[HARMLESS]
    return unknown / matter if matter else 0.0


def main() -> None:
    """Count, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs="+", metavar="TREE")
    parser.add_argument("--unknown", type=int, default=0, metavar="N", help="print N unknown ones")
    parser.add_argument("--seed", type=int, default=0, help="of the random draw")
    parser.add_argument("--kind", help="print unknown ones of this kind only")
    parser.add_argument("--keep", metavar="NAME", help="write benchmarks/results/NAME.json")
    args = parser.parse_args()
    codes = frozenset(info.code for info in load_catalog().rules if info.default)
    found: list[Counted] = []
    files = 0
    for root, paths in projects(args.trees):
        forget()
        on_gpu = any(GPU.search(path.read_bytes()) for path in paths)
        for path in paths:
            try:
                found += census(path.resolve(), root.resolve(), codes, on_gpu=on_gpu)
                files += 1
            except (MisreadError, UnicodeDecodeError) as error:
                print(f"{path}: left out: {error}", file=sys.stderr)
    kinds = sorted({each.kind for each in found})
    table = {kind: Counter(each.verdict for each in found if each.kind == kind) for kind in kinds}
    table["all"] = Counter(each.verdict for each in found)
    print(f"{'':14}" + "".join(f"{each:>15}" for each in VERDICTS) + f"{'share unknown':>15}")
    for kind, counts in table.items():
        row = "".join(f"{counts[each]:15}" for each in VERDICTS)
        print(f"{kind:14}{row}{share(counts):15.1%}")
    unknown = [
        each
        for each in found
        if each.verdict in UNKNOWN and (args.kind is None or each.kind == args.kind)
    ]
    draw = random.Random(args.seed).sample(unknown, min(args.unknown, len(unknown)))
    for each in draw:
        print(f"{each.path}:{each.row}: {each.kind}: {each.verdict}: {each.code[:100]}")
    if args.keep:
        kept = {
            "torchlint": __version__,
            "files": files,
            "candidates": len(found),
            "verdicts": {kind: dict(counts) for kind, counts in table.items()},
            "share_unknown": {kind: round(share(counts), 4) for kind, counts in table.items()},
        }
        target = RESULTS / f"{args.keep}.json"
        target.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
