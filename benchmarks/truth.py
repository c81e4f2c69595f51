"""What torchlint believes of a program, held against what the program does when it runs.

    python benchmarks/truth.py [--limit SECONDS] [--json FILE] PROJECT SCRIPT [ARGUMENT ...]
    python benchmarks/truth.py --fixed PROJECT SCRIPT [ARGUMENT ...]

Runs SCRIPT on the virtual CUDA device (`Ledger`), in a process of its own and in the folder
PROJECT, with each expression of the project's files watched. SCRIPT is a path in PROJECT, or a
driver elsewhere (``programs/truth_*.py``), which is not watched. Tells:

    beliefs   expressions that ran whose kind (tensor, number, module …), device, dtype, rank or
              graph is not what the analysis inferred. Each is a bug, whatever rule it serves.
              One host value taken for another, a path for a text, is "inexact", and so is a graph
              that what trains has and what evaluates with the same code has not.
    waits     lines on which the host waits for the device in most steps and that no finding names
              or edits, with what ``--explain`` says of them.
    refuted   findings about waits at lines that ran and on which nothing waited or was copied.

A step ends with ``optimizer.step()``, and where several optimizers take turns, with the one that
comes round first; a program without one is one step. Exit code: 1 where a
belief is false or a finding is refuted, 3 where the program failed.

With --fixed it is run twice from a copy of the project, as it is and behind ``fix --apply``, with
the same seeds and a clock that only counts: what it prints and each file that it writes, weights
too, must be the same to the byte. Tells what differs; exit code 1 where something does.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import datetime
import hashlib
import itertools
import json
import multiprocessing
import os
import random
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.oracle import says  # noqa: E402

Place = tuple[int, int]
"""Where an expression starts and ends, in characters of the file."""
Belief = dict[str, Any]

WATCH = "__torchlint_watch__"
MOST = 100
"""How often each expression is looked at."""
NAMING = """TL101 TL102 TL103 TL104 TL105 TL106 TL107 TL110 TL111 TL112 TL113 TL114 TL505 TL602
TL116 TL508 TL604 TL605 TL606 TL805 TL901 TL902""".split()
"""Rules whose findings say why a line waits."""
WAITING = "TL101 TL107 TL112 TL113 TL602 TL606".split()
"""Those that say that it waits or copies whatever else the program does."""
_FACTS = ("device", "dtype", "rank", "grad")
_EXPRESSIONS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.BinOp, ast.Compare)
_DTYPES = {
    "float": ("float32",),
    "double": ("float64",),
    "half": ("float16", "bfloat16"),
    "int": ("int8", "int16", "int32", "int64", "uint8"),
    "bool": ("bool",),
}


# -- what is believed ------------------------------------------------------------------------------


def beliefs(project: Path, path: Path) -> dict[Place, Belief]:
    """Return what the analysis infers of the expressions of a file, by place."""
    import libcst as cst

    from torchlint.edits.positions import Layout
    from torchlint.engine import syntax
    from torchlint.engine.hits import module_of
    from torchlint.engine.job import Job
    from torchlint.run.projects import outside_of
    from torchlint.semantic.values.inferred import inferred
    from torchlint.semantic.values.place import on_device
    from torchlint.source.document import decode

    document = decode(path.read_bytes(), "", str(path))
    text = document.text
    python = syntax.python_tree(text)
    if not isinstance(python, ast.Module):
        return {}
    tree = syntax.parse(text, python)
    if isinstance(tree, str):
        return {}
    job = Job(document, str(path.relative_to(project)), frozenset(), root=str(project))
    module = module_of(job, tree, text, python, outside_of(job))
    layout = Layout(module.root, text)
    kinds = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BinaryOperation, cst.Comparison)
    found: dict[Place, Belief] = {}
    for node in module.nodes(*kinds):
        value = inferred(module, node)
        span = layout.span(node) if value.kind != "?" else None
        if span is not None:
            belief = {"kind": value.kind, "loose": value.loose}
            belief |= {fact: getattr(value, fact) for fact in _FACTS}
            if value.tensor:
                belief["cuda"] = on_device(module, node)
            found[span.start, span.end] = belief
    module.close()
    return found


# -- what is so ------------------------------------------------------------------------------------


@dataclass
class Watch:
    """Looks at the values of watched expressions.

    Args:
        seen: by file and place what was seen, as sets of what differs.
    """

    seen: dict[tuple[str, Place], list[dict[str, Any]]] = field(default_factory=dict)
    counts: Counter[tuple[str, Place]] = field(default_factory=Counter)
    busy: bool = False

    def __call__(self, key: tuple[str, Place], value: Any) -> Any:
        if self.busy or self.counts[key] >= MOST:
            return value
        self.counts[key] += 1
        self.busy = True
        try:
            found = observed(value)
        finally:
            self.busy = False
        of = self.seen.setdefault(key, [])
        if found not in of:
            of.append(found)
        return value


def observed(value: Any) -> dict[str, Any]:
    """Return what a value is, as plain data: the kinds that hold for it, and of a tensor more."""
    import torch

    from torchlint.program.inside.ledger.tags import is_cuda

    found: dict[str, Any] = {"kinds": sorted(_kinds(value)), "type": type(value).__name__}
    if isinstance(value, torch.Tensor):
        found["made"] = _constructing()
        with torch._C.DisableTorchFunction():
            found |= {
                "cuda": is_cuda(value),
                "dtype": str(value.dtype).removeprefix("torch."),
                "rank": value.dim(),
                "graph": value.grad_fn is not None,
                "grad": value.requires_grad,
                "enabled": torch.is_grad_enabled(),
            }
    return found


def _constructing() -> bool:
    """Say whether the constructor of a module runs: what it makes moves later, with the module."""
    import torch

    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        name, local = frame.f_code.co_name, frame.f_locals
        if name == "__init__" and isinstance(local.get("self"), torch.nn.Module):
            return True
        frame = frame.f_back
    return False


def _kinds(value: Any) -> Iterator[str]:
    import numpy as np
    import torch

    rows: tuple[tuple[str, Any], ...] = (
        ("tensor", torch.Tensor),
        ("module", torch.nn.Module),
        ("optimizer", torch.optim.Optimizer),
        ("number", (int, float, complex, np.number)),
        ("bool", (bool, np.bool_)),
        ("str", str),
        ("none", type(None)),
        ("shape", (tuple, list)),
        ("list", Iterable),
        ("tuple", (tuple, list)),
        ("dict", dict),
        ("device", (torch.device, str, int)),
        ("dtype", (torch.dtype, np.dtype, type)),
    )
    for kind, types in rows:
        if isinstance(value, types):
            yield kind
    if not isinstance(value, (torch.Tensor, torch.nn.Module)):
        yield from ("plain", "ndarray")  # what NumPy gives, tuples and dtypes too


class _Watched(ast.NodeTransformer):
    """Wraps the expressions of a file in calls of the watch."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        lines = text.splitlines(keepends=True)
        self.lines = [line.encode() for line in lines]
        self.starts = [0]
        for line in lines:
            self.starts.append(self.starts[-1] + len(line))

    def _offset(self, row: int, column: int) -> int:
        return self.starts[row - 1] + len(self.lines[row - 1][:column].decode(errors="replace"))

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.JoinedStr):
            return node  # places inside are not the file's before Python 3.12
        if isinstance(node, ast.arg):
            return node
        if isinstance(node, ast.AnnAssign):
            node.value = self.visit(node.value) if node.value is not None else None
            return node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [self.visit(each) for each in node.body]
            node.args = self.visit(node.args)
            return node
        if isinstance(node, ast.match_case):
            node.body = [self.visit(each) for each in node.body]
            return node
        kept: Any = self.generic_visit(node)
        if not isinstance(node, _EXPRESSIONS):
            return kept
        if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return kept
        start = self._offset(node.lineno, node.col_offset)
        end = self._offset(node.end_lineno or 0, node.end_col_offset or 0)
        key: Any = (self.path, (start, end))
        call = ast.Call(ast.Name(WATCH, ast.Load()), [ast.Constant(key), kept], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


def compiled(path: str, data: bytes) -> Any:
    """Return the code of a file with its expressions watched."""
    text = data.decode()
    return compile(_Watched(path, text).visit(ast.parse(data)), path, "exec", dont_inherit=True)


class _Loader(SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, **_: Any) -> Any:  # type: ignore[override]
        return compiled(str(path), bytes(data))

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _Finder(MetaPathFinder):
    """Has the project's own modules watched."""

    def __init__(self, root: str) -> None:
        self.root = root + os.sep

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        spec = PathFinder.find_spec(name, path, target)
        origin = spec.origin if spec is not None else None
        if spec is not None and origin and origin.startswith(self.root) and origin[-3:] == ".py":
            spec.loader = _Loader(name, origin)
        return spec


class _Still(datetime.datetime):
    """Dates of which now is always the same, so that two runs log the same lines."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> _Still:
        """Return the first day of 2000."""
        return cls(2000, 1, 1, tzinfo=tz)


def run(project: Path, script: str, words: list[str], out: str) -> None:
    """Run a script under the ledger, with its project watched and what was seen written as JSON
    where a file is given for that."""
    import numpy as np
    import torch._dynamo  # an optimizer imports it: before the ledger, not in it
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from torchlint.api import ledger_rows
    from torchlint.program.inside.ledger import Ledger

    multiprocessing.set_start_method(None, force=True)  # this process was spawned, its own fork
    watch = Watch()
    setattr(builtins, WATCH, watch)
    os.chdir(project)
    own = Path(script).is_relative_to(project)
    sys.argv = [script, *words]
    sys.path.insert(0, str(Path(script).parent if own else project))
    if not own:
        sys.path.append(str(Path(script).parent))
    if out:
        sys.meta_path.insert(0, _Finder(str(project)))
    else:
        time.time = time.perf_counter = itertools.count().__next__
        datetime.datetime = _Still  # type: ignore[misc]
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    ledger = Ledger(str(project), ledger_rows())
    ledger.start()
    register_optimizer_step_post_hook(_Steps(ledger))
    failure = ""
    try:
        data = Path(script).read_bytes()
        code = compiled(script, data) if own and out else compile(data, script, "exec")
        main = runpy._TempModule("__main__")
        with main:
            main.module.__dict__.update(__file__=script, __name__="__main__")
            exec(code, main.module.__dict__)  # noqa: S102
    except SystemExit as error:
        failure = f"exit {error.code}" if error.code else ""
    except BaseException as error:
        import traceback

        failure = "".join(traceback.format_exception(error)[-3:])
    watch.busy = True
    ledger.stop()
    if not out:
        sys.exit(failure or 0)
    seen = [[path, place, what] for (path, place), what in watch.seen.items()]
    told = {"failure": failure, "seen": seen, "ledger": ledger.summary(0)["unavailable"]}
    Path(out).write_text(json.dumps(told | _events(ledger)))


def parted(project: Path, script: str, words: list[str]) -> tuple[list[str], list[str]]:
    """Return the files that ``fix --apply`` changes, and what then differs of what a program prints
    and writes."""
    told: list[dict[str, bytes]] = []
    fixed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / project.name
        for applied in (False, True):
            shutil.copytree(project, copy, ignore=shutil.ignore_patterns("__pycache__"))
            before = _digests(copy)
            if applied:
                says(copy, "fix", "--apply", "--isolated", "--no-cache", ".")
                after = _digests(copy)
                fixed = sorted(path for path in after if before.get(path) != after[path])
                before = after
            within = copy / script
            start = str(within if within.exists() else Path(script).resolve())
            code = (
                "from pathlib import Path; from benchmarks.truth import run; "
                f"run(Path({str(copy)!r}), {start!r}, {words!r}, '')"
            )
            done = subprocess.run(
                [sys.executable, "-B", "-c", code], capture_output=True, cwd=ROOT, check=False
            )
            failed = done.stderr[-300:] if done.returncode else b""
            written = {
                path: each for path, each in _digests(copy).items() if before.get(path) != each
            }
            told.append({"what is printed": done.stdout, "how it ends": failed} | written)
            shutil.rmtree(copy)
    first, second = told
    names = first.keys() | second.keys()
    return fixed, sorted(name for name in names if first.get(name) != second.get(name))


def _digests(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).digest()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


class _Steps:
    """Ends a step where an optimizer steps for the second time since the last one ended: those of
    a GAN's two networks are one step."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self.stepped: set[int] = set()

    def __call__(self, optimizer: Any, *_: Any) -> None:
        if id(optimizer) in self.stepped:
            self.ledger.mark_step()
            self.stepped.clear()
        self.stepped.add(id(optimizer))


def _events(ledger: Any) -> dict[str, Any]:
    """Return of each line in how many steps something waited there, and the lines with any event.

    The first two steps hold what is set up and the last one what comes after the training: they
    count in no program that has others.
    """
    counts, steps = ledger._events._counts, ledger._events._step
    first, last = (1, steps) if steps > 1 else (0, max(steps, 1))
    waited: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    touched = set()
    for step, kind, file, line, _ in counts:
        touched.add((file, line))
        if kind == "sync" and first <= step < last:
            waited[file, line].add(step)
    return {
        "steps": last - first,
        "waited": [[*at, len(steps)] for at, steps in waited.items()],
        "touched": sorted(touched),
    }


# -- what differs ----------------------------------------------------------------------------------


def false_of(belief: Belief, found: dict[str, Any]) -> str:
    """Say what of a belief does not hold for a value; empty where all does."""
    kind, kinds = belief["kind"], found["kinds"]
    loose = belief["loose"] and not _NUMBERS.intersection(kinds)  # what a model gives, or holds
    if kind in _CHECKED and kind not in kinds and "none" not in kinds and not loose:
        return f"{kind}, but {found['type']}"
    if "tensor" not in kinds or kind != "tensor":
        return ""
    moves = belief["cuda"] and found["made"]
    if belief["cuda"] is not None and belief["cuda"] != found["cuda"] and not moves:
        return f"{'on the GPU' if belief['cuda'] else 'on the host'}, but not"
    if belief["device"] == "cpu" and found["cuda"]:
        return "on the host, but not"
    if belief["dtype"] is not None and found["dtype"] not in _DTYPES.get(belief["dtype"], ()):
        return f"{belief['dtype']}, but {found['dtype']}"
    if belief["rank"] is not None and belief["rank"] != found["rank"]:
        return f"rank {belief['rank']}, but {found['rank']}"
    if belief["grad"] is False and found["graph"]:
        return "without a graph, but with one"
    if belief["grad"] and not found["grad"] and found["enabled"]:
        return _NO_GRAPH
    return ""


_NO_GRAPH = "with a graph, but without one"
_NUMBERS = frozenset(("number", "bool", "str", "module"))
_CHECKED = frozenset(
    "tensor module optimizer number bool str none shape ndarray list tuple dict dtype plain".split()
)


_HOST = _CHECKED - {"tensor", "module", "optimizer"}


def findings_of(project: Path) -> list[dict[str, Any]]:
    """Return what ``check`` finds in a project by default."""
    words = ("check", "--isolated", "--no-cache", "--exit-zero", "--output-format", "json", ".")
    found: list[dict[str, Any]] = json.loads(says(project, *words))
    for each in found:
        each["filename"] = os.path.relpath(project / each["filename"], project)
    return found


def reasons(project: Path, places: list[str]) -> list[dict[str, Any]]:
    """Return what ``--explain`` says of lines: the source, how often it runs, what the host waits
    for there, and by code why the rules about waits are silent."""
    words = ("check", "--isolated", "--output-format", "json", "--explain", *places)
    told: list[dict[str, Any]] = json.loads(says(project, *words)) if places else []
    by_place = {
        f"{line['filename']}:{line['row']}": {
            "source": line["source"],
            "pace": line["pace"]["words"] if line["pace"] else None,
            "waits": line["waits"],
            "reasons": {
                each["code"]: f"{each['state']}: {each['because']}"
                for each in line["rules"]
                if each["code"] in NAMING
            },
        }
        for line in told
    }
    return [by_place.get(place, {}) for place in places]


def report(project: Path, told: dict[str, Any]) -> dict[str, Any]:
    """Hold the analysis against what was seen."""
    by_file: defaultdict[str, list[Any]] = defaultdict(list)
    for path, (start, end), what in told["seen"]:
        by_file[path].append(((start, end), what))
    held = 0
    false: list[dict[str, str]] = []
    inexact: list[dict[str, str]] = []
    ran: defaultdict[str, set[int]] = defaultdict(set)
    for path, rows in by_file.items():
        believed = beliefs(project, Path(path))
        text = Path(path).read_bytes().decode()
        name = os.path.relpath(path, project)
        for place, what in rows:
            row = text.count("\n", 0, place[0]) + 1
            ran[name].add(row)
            belief = believed.get(place)
            if belief is None or belief["kind"] not in _CHECKED:
                continue
            held += 1
            wrong = next(filter(None, (false_of(belief, each) for each in what)), "")
            if wrong:
                shown = " ".join(text[place[0] : place[1]].split())[:70]
                one = {"place": f"{name}:{row}", "expression": shown, "believed": wrong}
                host = belief["kind"] in _HOST and all("plain" in each["kinds"] for each in what)
                evaluated = wrong == _NO_GRAPH and any(each.get("grad") for each in what)
                (inexact if host or evaluated else false).append(one)
    touched = {(file, line) for file, line in told["touched"]}
    steps = told["steps"]
    waiting = {
        (file, line): count / steps
        for file, line, count in told["waited"]
        if count >= steps / 2 and file != "<library>"
    }
    findings = findings_of(project)
    extents = {name: statements(project / name) for name in {at[0] for at in waiting}}
    named = set()
    for each in findings:
        if each["code"] in NAMING:
            edits = each["fix"]["edits"] if each["fix"] is not None else []
            for part in (each, *edits):  # What a finding takes away, it names.
                named |= {(each["filename"], row) for row in rows_of(part)}
    unnamed = [
        {"place": f"{at[0]}:{at[1]}", "steps": round(per, 2)}
        for at, per in sorted(waiting.items())
        if not any((at[0], row) in named for row in extents[at[0]].get(at[1], [at[1]]))
    ]
    refuted = [
        {"place": f"{each['filename']}:{each['location']['row']}", "finding": each["code"]}
        for each in findings
        if each["code"] in WAITING
        and ran[each["filename"]].intersection(rows_of(each))
        and not any((each["filename"], row) in touched for row in rows_of(each))
    ]
    told_of = reasons(project, [str(each["place"]) for each in unnamed])
    unnamed = [one | why for one, why in zip(unnamed, told_of, strict=True)]
    return {
        "failure": told["failure"],
        "ledger": told["ledger"],
        "steps": steps,
        "beliefs": held,
        "false": false,
        "inexact": inexact,
        "waiting lines": len(waiting),
        "waiting, not named": unnamed,
        "findings": len(findings),
        "refuted": refuted,
    }


def rows_of(part: dict[str, Any]) -> range:
    """Return the rows that a finding covers, or an edit, which may end where a row begins."""
    first, end = part["location"]["row"], part["end_location"]
    return range(first, max(first, end["row"] - (end["column"] == 1)) + 1)


def statements(path: Path) -> dict[int, range]:
    """Return by row the rows of the simple statement that it belongs to."""
    found: dict[int, range] = {}
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            rows = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            found |= dict.fromkeys(rows, rows)
    return found


def main() -> int:
    """Run, compare and tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=float, default=120, metavar="SECONDS")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("project", type=Path)
    parser.add_argument("script")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    args = parser.parse_args()
    project = args.project.resolve()
    if args.fixed:
        changed, differing = parted(project, args.script, args.words)
        print(f"files changed by the safe fixes: {', '.join(changed) or 'none'}")
        print(f"what differs: {', '.join(differing) or 'nothing'}")
        return int(bool(differing))
    within = project / args.script
    script = str(within if within.exists() else Path(args.script).resolve())
    out = project.parent / f".truth-{os.getpid()}.json"
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=run, args=(project, script, args.words, str(out)))
    child.start()
    child.join(args.limit)
    if child.is_alive():
        child.kill()
        print(f"no answer within {args.limit:g} s", file=sys.stderr)
        return 3
    if not out.exists():
        print(f"the program ended the process (exit code {child.exitcode})", file=sys.stderr)
        return 3
    told = json.loads(out.read_text())
    out.unlink()
    found = report(project, told)
    print(json.dumps(found, indent=1))
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    if found["failure"]:
        return 3
    return int(bool(found["false"] or found["refuted"]))


if __name__ == "__main__":
    sys.exit(main())
