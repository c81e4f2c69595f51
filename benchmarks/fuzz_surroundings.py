"""Puts what rules fix into other surroundings, and runs it before and after the fix.

`fuzz.py --target surroundings` calls this. The material are the examples of the rules' pages and
corner cases; each is moved into functions, generators, closures, classes, threads, and into `try`,
`with`, `match` and one-line suites; its loops are left early, its names are bound twice, deleted,
looked at inside the loop and by closures. A program is fixed twice, with safe fixes alone and with
all of them, and both are executed beside the original. Behind a safe fix nothing may differ. Behind
an unsafe one only that may which its note says: see `ALLOWED`.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.fuzz_fixes import Executors
from tests.checking import rules
from tests.corner_cases import corners_of
from tests.fixes import (
    test_deferred_sums_run,
    test_elements_run,
    test_host_elements_run,
    test_host_loops_run,
    test_masked_fixes_run,
    test_no_grad_blocks_run,
    test_reads_together_run,
    test_vector_forms_run,
)
from torchlint.base.finding import FileReport, NoteKind, Safety
from torchlint.catalog.manual import code_blocks
from torchlint.catalog.rules import load_catalog, load_rules
from torchlint.engine.job import Job
from torchlint.run.run import RunOptions, run
from torchlint.run.worker import analyse_job
from torchlint.source.document import decode

LEVELS = ("safe", "unsafe")
_BATCH = 120
_MOST_CHANGES = 3
_FOR_ITSELF = frozenset(("TL409",))
"""What removes parameters, and so changes what examples of other rules count."""
_HEAD = """\
import torch
from torch import nn
from watch import observe, observed
"""
WATCH = '''\
"""Prints what can be seen of values, exactly."""
import json
import torch
import random
import numpy

random.seed(0)
shown = []


def memory(v):
    """The number of the first tensor seen that shares the memory."""
    at = v.untyped_storage().data_ptr()
    shown.append(v)
    return next(n for n, one in enumerate(shown) if one.untyped_storage().data_ptr() == at)


def seen(v, depth=3):
    if isinstance(v, torch.Tensor):
        flat = v.detach().to(torch.float64).reshape(-1) if not v.is_complex() else torch.zeros(0)
        return {
            "tensor": str(v.dtype), "shape": list(v.shape), "grad": v.requires_grad,
            "leaf": v.is_leaf, "memory": memory(v), "values": [float(x) for x in flat[:64]],
        }
    if isinstance(v, numpy.ndarray):
        flat = v.reshape(-1).tolist()
        return {"array": str(v.dtype), "shape": list(v.shape), "values": flat[:64]}
    if isinstance(v, torch.nn.Module):
        own = {name: seen(each) for name, each in v.state_dict().items()}
        grads = {name: seen(each.grad) for name, each in v.named_parameters()}
        return {"state": own, "grads": grads}
    if isinstance(v, (list, tuple)) and depth:
        return {type(v).__name__: [seen(each, depth - 1) for each in v[:40]]}
    if isinstance(v, dict) and depth:
        return {"dict": {str(k): seen(each, depth - 1) for k, each in list(v.items())[:40]}}
    if isinstance(v, (bool, int, float, str, type(None))):
        return {type(v).__name__: v if not isinstance(v, str) else v[:80]}
    if isinstance(v, numpy.generic):
        return {"scalar": str(v.dtype), "values": [v.item()]}
    return type(v).__name__


def observe(name, v):
    print("#", json.dumps([name, seen(v)]))


def observed(**named):
    for name, v in named.items():
        observe(name, v)
    drawn = torch.get_rng_state().sum().item(), sum(random.getstate()[1]), numpy.random.rand()
    print("#", json.dumps(["rng", {"rng": drawn}]))
'''


@dataclass(frozen=True, slots=True)
class Example:
    """A program that a rule fixes: its set-up, and the statements of which some are fixed."""

    code: str
    sentence: str
    setup: str
    body: str


@dataclass(frozen=True, slots=True)
class Program:
    """A program with the example and the changes that it was made of."""

    example: Example
    seed: str
    changes: tuple[str, ...]
    text: str


# -- material --------------------------------------------------------------------------------------


@cache
def examples() -> tuple[Example, ...]:
    """Return the examples of all rules with a fix that somebody applies."""
    out: list[Example] = []
    for info in rules():
        if "not executed by the tests" in info.manual:
            continue
        setup = "".join(code_blocks(info.sections.get("Setup", "")))
        pages = code_blocks(info.sections.get("Bad", ""))
        out += [Example(info.code, f"page {n + 1}", setup, each) for n, each in enumerate(pages)]
        out += [
            Example(info.code, each.sentence, setup, each.code)
            for each in corners_of(info)
            if each.rows
        ]
    out += _tested()
    return tuple(each for each in out if _parses(each.setup + "\n" + each.body))


def _tested() -> Iterator[Example]:
    """Yield the programs of the tests that run fixes."""
    sums, blocks = test_deferred_sums_run, test_no_grad_blocks_run
    for name, body in {**sums.PROGRAMS, **sums.SHOWN, **sums.LEFT}.items():
        yield Example("TL101", name, sums.HEAD, body)
    for name, body in {**blocks.PROGRAMS, **blocks.LEFT}.items():
        yield Example("TL501", name, blocks.HEAD, body)
    masked = test_masked_fixes_run
    for name, (body, *_) in {**masked.SAFE, **masked.UNSAFE, **masked.LEFT}.items():
        yield Example("TL107", name, "", masked.HEAD + body)
    for code, place, programs in (
        ("TL601", test_vector_forms_run, test_vector_forms_run.NEW),
        ("TL601", test_host_loops_run, test_host_loops_run.COPIED),
        ("TL101", test_host_elements_run, test_host_elements_run.COPIED),
        ("TL101", test_reads_together_run, test_reads_together_run.TOGETHER),
        ("TL604", test_elements_run, test_elements_run.GONE),
    ):
        for name, found in programs.items():
            body = found if isinstance(found, str) else found[0]
            yield Example(code, name, "", place.program(body))


def _parses(text: str) -> bool:
    try:
        compile(text, "program", "exec", ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError):
        return False
    return True


# -- changes of what stands there ------------------------------------------------------------------

Change = Callable[[list[ast.stmt], random.Random], bool]
"""Changes statements in place; says whether it found anything to change."""


def _loops(body: Sequence[ast.stmt]) -> list[ast.For | ast.While]:
    return [n for each in body for n in ast.walk(each) if isinstance(n, (ast.For, ast.While))]


def _blocks(body: list[ast.stmt]) -> list[list[ast.stmt]]:
    """Return the lists of statements in some statements, their own first."""
    out = [body]
    for each in body:
        for node in ast.walk(each):
            inner = getattr(node, "body", None)
            if isinstance(inner, list) and not isinstance(node, ast.ClassDef):
                out.append(inner)
    return out


def _statements(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def _bound(body: Sequence[ast.stmt]) -> list[str]:
    """Return the plain names that statements bind outside of functions and classes."""
    out: dict[str, None] = {}
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            out[node.id] = None
        stack.extend(reversed(list(ast.iter_child_nodes(node))))
    return list(out)


def _leaving(words: str) -> Change:
    """Return the change that leaves a loop in its second turn, by these words."""

    def change(body: list[ast.stmt], chance: random.Random) -> bool:
        loops = _loops(body)
        if not loops:
            return False
        loop = chance.choice(loops)
        at = chance.randrange(len(loop.body) + 1)
        loop.body[at:at] = _statements(f"turns.append(1)\nif len(turns) == 2:\n    {words}")
        return True

    return change


def _loop_else(body: list[ast.stmt], chance: random.Random) -> bool:
    loops = [each for each in _loops(body) if not each.orelse]
    if not loops:
        return False
    chance.choice(loops).orelse = _statements("print('else')")
    return True


def _around_body(text: str) -> Change:
    """Return the change that puts what a loop does into a block."""

    def change(body: list[ast.stmt], chance: random.Random) -> bool:
        loops = _loops(body)
        if not loops:
            return False
        loop = chance.choice(loops)
        loop.body = _block(text, loop.body)
        return True

    return change


def _around_one(text: str) -> Change:
    """Return the change that puts one statement into a block."""

    def change(body: list[ast.stmt], chance: random.Random) -> bool:
        block = chance.choice(_blocks(body))
        at = chance.randrange(len(block))
        if isinstance(block[at], (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
            return False
        block[at : at + 1] = _block(text, [block[at]])
        return True

    return change


def _block(text: str, inside: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a text, with others in the place of ``HERE``."""
    outer = _statements(text)
    lists = [each for node in outer for n in ast.walk(node) for _, each in ast.iter_fields(n)]
    for holder in (each for each in lists if isinstance(each, list)):
        for at, each in enumerate(holder):
            if isinstance(each, ast.Expr) and ast.unparse(each) == "HERE":
                holder[at : at + 1] = inside
                return outer
    raise ValueError(f"nothing goes into {text}")


def _assigns(body: list[ast.stmt]) -> list[tuple[list[ast.stmt], int]]:
    """Return the places of assignments to one plain name."""
    return [
        (block, at)
        for block in _blocks(body)
        for at, each in enumerate(block)
        if isinstance(each, ast.Assign)
        and len(each.targets) == 1
        and isinstance(each.targets[0], ast.Name)
    ]


def _of_assignment(rewrite: Callable[[ast.Assign], ast.stmt]) -> Change:
    def change(body: list[ast.stmt], chance: random.Random) -> bool:
        places = _assigns(body)
        if not places:
            return False
        block, at = chance.choice(places)
        found = block[at]
        assert isinstance(found, ast.Assign)
        block[at] = rewrite(found)
        return True

    return change


def _target(found: ast.Assign) -> str:
    assert isinstance(found.targets[0], ast.Name)
    return found.targets[0].id


def _twice(found: ast.Assign) -> ast.stmt:
    more = ast.Name(f"also_{_target(found)}", ast.Store())
    return ast.Assign([more, *found.targets], found.value)


def _walrus(found: ast.Assign) -> ast.stmt:
    return ast.Expr(ast.NamedExpr(ast.Name(_target(found), ast.Store()), found.value))


def _annotated(found: ast.Assign) -> ast.stmt:
    return ast.AnnAssign(found.targets[0], ast.Name("object", ast.Load()), found.value, 1)


def _unpacked(found: ast.Assign) -> ast.stmt:
    pair = ast.Tuple([found.targets[0], ast.Name("beside", ast.Store())], ast.Store())
    return ast.Assign([pair], ast.Tuple([found.value, ast.Constant(1)], ast.Load()))


def _written_out(body: list[ast.stmt], chance: random.Random) -> bool:
    places = [
        (block, at, each)
        for block in _blocks(body)
        for at, each in enumerate(block)
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
    ]
    if not places:
        return False
    block, at, found = chance.choice(places)
    assert isinstance(found.target, ast.Name)
    left = ast.Name(found.target.id, ast.Load())
    block[at] = ast.Assign([found.target], ast.BinOp(left, found.op, found.value))
    return True


def _looked_at(*looks: str) -> Change:
    """Return the change that looks at a name somewhere behind the statement that binds it."""

    def change(body: list[ast.stmt], chance: random.Random) -> bool:
        places = [
            (block, at, name)
            for block in _blocks(body)
            for at, each in enumerate(block)
            if isinstance(each, (ast.Assign, ast.AugAssign, ast.For))
            for name in _bound([each])
        ]
        if not places:
            return False
        block, at, name = chance.choice(places)
        later = chance.randrange(at + 1, len(block) + 1)
        block[later:later] = _statements(chance.choice(looks).replace("NAME", name))
        return True

    return change


def _closed_over(body: list[ast.stmt], chance: random.Random) -> bool:
    """Let a closure see a name, and ask it in a loop or behind it."""
    names, loops = _bound(body), _loops(body)
    if not names:
        return False
    name = chance.choice(names)
    asked = (
        f"try:\n    turns.append(repr(type(peek())))\nexcept NameError:\n    turns.append('{name}')"
    )
    block = chance.choice([body, *(each.body for each in loops)])
    block.extend(_statements(asked))
    body[0:0] = _statements(f"def peek():\n    return {name}")
    return True


LOOKS = (
    "print(type(NAME).__name__)",
    "turns.append(repr(NAME)[:9])",
    "observe('NAME', NAME)",
    "kept = [NAME for _ in range(2)]",
    "saved = NAME",
    "kept = {'NAME': NAME}",
    "if isinstance(NAME, float) and NAME > 1e30:\n    print('large')",
)
CHANGES: dict[str, Change] = {
    "break": _leaving("break"),
    "continue": _leaving("continue"),
    "raise": _leaving("raise ValueError('stop')"),
    "else": _loop_else,
    "body in try/finally": _around_body("try:\n    HERE\nfinally:\n    turns.append(0)"),
    "body in try/except": _around_body(
        "try:\n    HERE\nexcept ZeroDivisionError as error:\n    print(error)"
    ),
    "body in with": _around_body("with contextlib.nullcontext() as held:\n    HERE"),
    "body in match": _around_body("match len(turns):\n    case _:\n        HERE"),
    "body in if": _around_body("if device is not None:\n    HERE"),
    "one in if": _around_one("if turns is not None:\n    HERE"),
    "one in if/else": _around_one("if turns is None:\n    print('none')\nelse:\n    HERE"),
    "one in try": _around_one("try:\n    HERE\nexcept KeyError:\n    pass"),
    "one in finally": _around_one("try:\n    pass\nfinally:\n    HERE"),
    "one in with": _around_one("with contextlib.nullcontext():\n    HERE"),
    "one in suppress": _around_one("with contextlib.suppress(KeyError):\n    HERE"),
    "one in match": _around_one("match 1:\n    case 1:\n        HERE"),
    "one in for": _around_one("for _ in range(1):\n    HERE"),
    "one in while": _around_one("while True:\n    HERE\n    break"),
    "bound twice": _of_assignment(_twice),
    "walrus": _of_assignment(_walrus),
    "annotated": _of_assignment(_annotated),
    "unpacked": _of_assignment(_unpacked),
    "written out": _written_out,
    "looked at": _looked_at(*LOOKS),
    "deleted": _looked_at("del NAME"),
    "bound anew": _looked_at("NAME = None", "NAME = 2.5"),
    "closure": _closed_over,
}

# -- surroundings ----------------------------------------------------------------------------------

PLACES = {
    "module": "BODY\nENDS",
    "function": "def run():\n    BODY\n    ENDS\nrun()",
    "returned": "def run():\n    BODY\n    return NAMES\nobserve('run', run())",
    "method": (
        "class Trainer:\n    def run(self):\n        BODY\n        return NAMES\n"
        "observe('run', Trainer().run())"
    ),
    "static method": (
        "class Trainer:\n    @staticmethod\n    def run():\n        BODY\n        ENDS\n"
        "Trainer.run()"
    ),
    "class body": "class Space:\n    BODY\nobserve('space', [n for n in vars(Space)])",
    "closure": "def outer():\n    def run():\n        BODY\n        return NAMES\n    return run\n"
    "observe('run', outer()())",
    "nonlocal": "def outer():\n    NONES\n    def run():\n        nonlocal LIST\n        BODY\n"
    "    run()\n    ENDS\nouter()",
    "global": "def run():\n    global LIST\n    BODY\nrun()\nENDS",
    "generator": "def run():\n    BODY\n    yield NAMES\nobserve('run', next(run()))",
    "generator of turns": "def run():\n    for turn in range(2):\n        BODY\n"
    "        yield turn\n"
    "    ENDS\nlist(run())",
    "async": "import asyncio\nasync def run():\n    BODY\n    await asyncio.sleep(0)\n"
    "    return NAMES\nobserve('run', asyncio.run(run()))",
    "thread": "import threading\nfound = []\ndef run():\n    BODY\n    found.append(NAMES)\n"
    "worker = threading.Thread(target=run)\nworker.start()\nworker.join()\nobserve('run', found)",
    "twice": "def run():\n    for epoch in range(2):\n        BODY\n    ENDS\nrun()",
    "while": "def run():\n    while True:\n        BODY\n        break\n    ENDS\nrun()",
    "tried": "def run():\n    try:\n        BODY\n    except ValueError as error:\n"
    "        print(error)\n    finally:\n        print('finally')\n    ENDS\nrun()",
    "with": "def run():\n    with torch.enable_grad():\n        BODY\n    ENDS\nrun()",
    "suppressed": "def run():\n    with contextlib.suppress(ValueError):\n        BODY\n"
    "    ENDS\nrun()",
    "match": "def run(kind=1):\n    match kind:\n        case 1:\n            BODY\n"
    "    ENDS\nrun()",
    "main": "if __name__ == '__main__':\n    BODY\n    ENDS",
    "lambda": "def run():\n    BODY\n    return NAMES\nobserve('run', (lambda: run())())",
    "property": "class Trainer:\n    @property\n    def run(self):\n        BODY\n"
    "        return NAMES\nobserve('run', Trainer().run)",
    "no_grad": "@torch.no_grad()\ndef run():\n    BODY\n    ENDS\nrun()",
}
"""Where the statements of an example stand."""


def made(example: Example, seed: str) -> Program:
    """Return a program of an example: some changes, and a place."""
    chance = random.Random(f"{example.code}:{example.sentence}:{seed}")
    body = ast.parse(example.body).body
    names = [name for name in _bound(body) if name not in ("_",)]
    changes: list[str] = []
    for name in chance.sample(list(CHANGES), chance.randrange(_MOST_CHANGES + 1)):
        if CHANGES[name](body, chance):
            changes.append(name)
    place = chance.choice(list(PLACES))
    inner = ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))
    if chance.random() < 0.3:
        inner, changes = _one_line(inner, chance), [*changes, "one line"]
    text = _placed(PLACES[place], inner, names)
    head = f"{_HEAD}import contextlib\n{example.setup}\nturns = []\n"
    if "device" not in example.setup:
        head += "device = 'cuda'\n"
    return Program(example, seed, (place, *changes), head + text + "\nobserved(turns=turns)\n")


def _placed(pattern: str, inner: str, names: Sequence[str]) -> str:
    out: list[str] = []
    ends = [
        f"try:\n    observe('{n}', {n})\nexcept NameError:\n    print('{n} is gone')" for n in names
    ]
    parts = {
        "BODY": inner,
        "ENDS": "\n".join(ends) or "pass",
        "NONES": "\n".join(f"{n} = None" for n in names) or "pass",
    }
    for line in pattern.split("\n"):
        word = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        if word in parts:
            out += [indent + each if each else each for each in parts[word].split("\n")]
        elif "LIST" in word and not names:
            continue
        else:
            given = f"({', '.join(names)},)" if names else "None"
            out.append(line.replace("NAMES", given).replace("LIST", ", ".join(names)))
    return "\n".join(out)


_SIMPLE = re.compile(
    r"\s*(?!(if|for|while|with|try|def|class|else|elif|except|finally|match|case|async|@|return|"
    r"from|import|global|nonlocal|del)\b)[\w(\[].*[^:\\,({\[]$"
)
_OPENS = re.compile(r"\s*(if|else|for|while|with)\b.*:$")


def _one_line(text: str, chance: random.Random) -> str:
    """Put suites of one statement behind their colon, and neighbours into one line."""
    lines = text.split("\n")
    out: list[str] = []
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        before = out[-1] if out else ""
        at = len(before) - len(before.lstrip())
        after = lines[number + 1] if number + 1 < len(lines) else ""
        alone = not after.strip() or len(after) - len(after.lstrip()) < depth
        if "'''" in text or not _SIMPLE.fullmatch(line):
            out.append(line)
        elif _OPENS.fullmatch(before) and depth > at and alone and chance.random() < 0.7:
            out[-1] = f"{before} {line.strip()}"
        elif _SIMPLE.fullmatch(before) and depth == at and chance.random() < 0.3:
            out[-1] = f"{before}; {line.strip()}"
        else:
            out.append(line)
    joined = "\n".join(out)
    return joined if _parses(joined) else text


# -- what may differ -------------------------------------------------------------------------------

ALLOWED = {
    "fewer lines": re.compile(
        r"\bth step|redrawn|is logged|is shown|are logged|printed|bar is|counts fewer"
    ),
    "close": re.compile(
        r"round|last (place|digit)|order|differ slightly|precision|float(32|64)|accura|sum(s|med)"
        r"|on the (device|accelerator)|nan|inf\b|numerical|exact|same up to",
        re.IGNORECASE,
    ),
    "redrawn": re.compile(r"random|draw|noise|seed|shuffl", re.IGNORECASE),
    "graph": re.compile(r"grad_fn|graph|requires_grad|back-propagat|autograd|leaf", re.IGNORECASE),
    "keys": re.compile(r"state_dict|checkpoint|keys|parameter|buffer|bias", re.IGNORECASE),
    "kind": re.compile(r"0\.0 instead of 0|tensor instead|number instead|dtype|uint8", re.I),
    "errors": re.compile(r"raise|error|exception", re.IGNORECASE),
    "values": re.compile(r"has other values|training changes", re.IGNORECASE),
    "held": re.compile(r"holds? (a )?(tensors?|the tensor)|debugger|between the", re.IGNORECASE),
    "memory": re.compile(r"memory|lives|alive|kept", re.IGNORECASE),
}
"""What the notes of unsafe fixes say, in the words of what a comparison finds."""


def allowed(notes: Sequence[str]) -> frozenset[str]:
    """Return what may differ by the notes of the fixes of a program."""
    return frozenset(
        kind for kind, words in ALLOWED.items() if any(words.search(note) for note in notes)
    )


_FACTS = {"leaf", "grad"}
_OTHER = frozenset(("redrawn", "values"))
"""Where any numbers may come out."""
_GRAPH = re.compile(r", (grad_fn=<>|requires_grad=True)")
_NUMBER = re.compile(r"[-+]?\d+\.\d+(?:[eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+")


def difference(before: tuple[int, str], after: tuple[int, str], may: frozenset[str]) -> str:
    """Say how what two programs printed differs, beyond what may; empty where it does not."""
    if before == after:
        return ""
    if not may:
        return _first(before[1].splitlines(), after[1].splitlines()) or "exit status"
    lines = [text.splitlines() for text in (before[1], after[1])]
    told = [[line for line in each if not line.startswith("# ")] for each in lines]
    noted = [[json.loads(line[2:]) for line in each if line.startswith("# ")] for each in lines]
    if before[0] != after[0]:
        return f"exit status: {_first(*told)}"
    if not _alike_lines(told[0], told[1], may):
        return f"printed: {_first(*told)}"
    if len(noted[0]) != len(noted[1]):
        return "other observations"
    for (name, left), (_, right) in zip(*noted, strict=True):
        words = _differ(left, right, may)
        if words:
            return f"{name}: {words}"
    return ""


def _first(left: Sequence[str], right: Sequence[str]) -> str:
    for a, b in zip(left, right, strict=False):
        if a != b:
            return f"{a[:160]!r} became {b[:160]!r}"
    more = [*left[len(right) :], *right[len(left) :]]
    return f"only on one side: {more[0][:200]!r}" if more else ""


def _alike_lines(left: Sequence[str], right: Sequence[str], may: frozenset[str]) -> bool:
    """Say whether lines agree: all of them, or those that are left, in their order."""
    if "fewer lines" not in may:
        return len(left) == len(right) and all(
            _alike_text(a, b, may) for a, b in zip(left, right, strict=True)
        )
    rest = iter(left)
    return all(any(_alike_text(a, b, may) for a in rest) for b in right)


def _alike_text(left: str, right: str, may: frozenset[str]) -> bool:
    if "graph" in may:
        left, right = _GRAPH.sub("", left), _GRAPH.sub("", right)
    if left == right:
        return True
    if _NUMBER.sub("N", left) != _NUMBER.sub("N", right):
        return False
    if _OTHER & may:
        return True
    pairs = zip(_NUMBER.findall(left), _NUMBER.findall(right), strict=True)
    return "close" in may and all(_near(float(a), float(b)) for a, b in pairs)


def _near(left: float, right: float) -> bool:
    both_nan = math.isnan(left) and math.isnan(right)
    return both_nan or math.isclose(left, right, rel_tol=2e-3, abs_tol=1e-4)


def _differ(left: Any, right: Any, may: frozenset[str]) -> str:
    """Say how two observations differ beyond what may."""
    if left == right:
        return ""
    if isinstance(left, float) and isinstance(right, float):
        same = (math.isnan(left) and math.isnan(right)) or ("close" in may and _near(left, right))
        same = same or bool(_OTHER & may)
        return "" if same else f"{left} became {right}"
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return f"{len(left)} items became {len(right)}"
        found = (_differ(a, b, may) for a, b in zip(left, right, strict=True))
        return next((each for each in found if each), "")
    if isinstance(left, dict) and isinstance(right, dict):
        return _differ_by_key(left, right, may)
    return f"{str(left)[:90]} became {str(right)[:90]}"


def _differ_by_key(left: dict[str, Any], right: dict[str, Any], may: frozenset[str]) -> str:
    if left.keys() != right.keys():
        if "keys" in may and not ({"tensor", "float", "int"} & {*left, *right}):
            both = left.keys() & right.keys()
            return _differ({k: left[k] for k in both}, {k: right[k] for k in both}, may)
        if {*left, *right} <= {"int", "float"} and "kind" in may:
            return ""
        return f"{str(left)[:90]} became {str(right)[:90]}"
    passed = {"rng"} if "redrawn" in may else set[str]()
    passed |= {*(_FACTS if "graph" in may else ()), *(("tensor",) if "kind" in may else ())}
    passed |= {"memory"} if {"memory", "graph", "held", "keys"} & may else set[str]()
    for key in left.keys() - passed:
        words = _differ(left[key], right[key], may)
        if words:
            return f"{key}: {words}"
    return ""


# -- running ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """A program whose fix at one level shows: how, and its text before and after."""

    program: Program
    level: str
    codes: tuple[str, ...]
    words: str
    after: str


@dataclass(slots=True)
class Tally:
    """What was seen, by level."""

    programs: int = 0
    invalid: int = 0
    fixed: Counter[str] = field(default_factory=Counter)
    by_code: Counter[str] = field(default_factory=Counter)
    """Fixes that ran, by level and the code of the rule."""
    found: list[Found] = field(default_factory=list)


def drawn(seed: int, count: int, only: str = "") -> Iterator[Program]:
    """Yield programs of all examples, in a random order that the seed decides."""
    material = [each for each in examples() if only in ("", each.code)]
    chance = random.Random(seed)
    for number in range(count):
        yield made(chance.choice(material), f"{seed}:{number}")


def checked_and_fixed(job: Job) -> FileReport:
    """Return the report of a file with the fixes of a level, with the findings from before; for a
    worker."""
    checked = analyse_job(dataclasses.replace(job, fix=""))
    fixed = analyse_job(job)
    return dataclasses.replace(fixed, findings=checked.findings, before=job.document.text)


def _notes(report: FileReport, level: str) -> list[str]:
    wanted = {Safety.SAFE} if level == "safe" else {Safety.SAFE, Safety.UNSAFE}
    return [
        each.fix.note
        for each in report.findings
        if each.fix is not None and each.fix.safety in wanted
    ]


def _codes(report: FileReport, level: str) -> tuple[str, ...]:
    wanted = {Safety.SAFE} if level == "safe" else {Safety.SAFE, Safety.UNSAFE}
    return tuple(
        sorted({e.code for e in report.findings if e.fix is not None and e.fix.safety in wanted})
    )


def try_all(
    programs: Iterator[Program],
    executors: Executors,
    jobs: int = 1,
    say: bool = False,
    folder: Path | None = None,
) -> Tally:
    """Fix and run programs, and keep those in which more differs than may, also in a folder."""
    tally, start = Tally(), time.monotonic()
    while batch := list(islice(programs, _BATCH)):
        valid = [each for each in batch if _parses(each.text)]
        tally.programs += len(valid)
        tally.invalid += len(batch) - len(valid)
        known = len(tally.found)
        _try(valid, executors, jobs, tally)
        for number, each in enumerate(tally.found[known:], known):
            if say:
                print(_told(each))
            if folder is not None:
                _kept(each, folder / f"{number:03}-{'-'.join(each.codes)}-{each.level}")
        if say:
            counts = f"{tally.programs} programs, {dict(tally.fixed)} fixed"
            print(
                f"{counts}, {len(tally.found)} differ ({time.monotonic() - start:.0f} s)",
                flush=True,
            )
    return tally


def _try(programs: Sequence[Program], executors: Executors, jobs: int, tally: Tally) -> None:
    codes = frozenset(info.code for info in load_catalog().rules)
    load_rules(sorted(codes))
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        asked: list[tuple[Program, str, Job]] = []
        for number, program in enumerate(programs):
            folder = root / f"{number}-before"
            _write(folder, program.text)
            document = decode(program.text.encode(), str(folder / "main.py"), "main.py")
            for level in LEVELS:
                own = codes - (_FOR_ITSELF - {program.example.code})
                job = Job(document, "main.py", own, root=str(folder), fix=level)
                asked.append((program, level, job))
        limits = RunOptions(jobs, timeout=300.0, quarantine_timeout=300.0)
        reports = list(run([job for *_, job in asked], limits, checked_and_fixed))
        tasks: dict[str, tuple[str, str]] = {}
        rows: list[tuple[Program, str, FileReport, str, str]] = []
        for index, ((program, level, _), report) in enumerate(zip(asked, reports, strict=True)):
            failed = [note.message for note in report.notes if note.kind is NoteKind.FAILED]
            if failed:
                tally.found.append(Found(program, level, (), failed[0], ""))
            if failed or not report.applied:
                continue
            before, after = str(root / f"{index // 2}-before"), root / f"{index // 2}-{level}"
            _write(after, report.after)
            # A device is played in one thread alone.
            mode = "cpu" if "threading" in program.text else "cuda"
            tasks[before], tasks[str(after)] = (before, mode), (str(after), mode)
            rows.append((program, level, report, before, str(after)))
        outputs = (
            dict(zip(tasks, executors.run(list(tasks.values())), strict=True)) if tasks else {}
        )
    for program, level, report, before, after_folder in rows:
        tally.fixed[level] += 1
        tally.by_code.update(f"{level} {code}" for code in _codes(report, level))
        may = allowed(_notes(report, level)) if level == "unsafe" else frozenset[str]()
        words = difference(outputs[before], outputs[after_folder], may)
        if words:
            tally.found.append(Found(program, level, _codes(report, level), words, report.after))


def _write(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "main.py").write_text(text, encoding="utf-8")
    (folder / "watch.py").write_text(WATCH, encoding="utf-8")


def _told(found: Found) -> str:
    program = found.program
    where = f"{program.example.sentence}: {', '.join(program.changes)}"
    return f"{'+'.join(found.codes)} {found.level} ({where}): {found.words}"


def _kept(found: Found, place: Path) -> None:
    """Write a program that differs to a folder, before and after, with what differs."""
    _write(place, found.program.text)
    (place / "after.py").write_text(found.after, encoding="utf-8")
    (place / "difference.txt").write_text(_told(found) + "\n", encoding="utf-8")


def fuzz(
    seed: int, count: int, jobs: int, only: str = "", folder: Path | None = None
) -> Mapping[str, Any]:
    """Make, fix and run programs; print what differs, keep it in a folder, return the counts."""
    start = time.monotonic()
    with Executors(jobs) as executors:
        tally = try_all(drawn(seed, count, only), executors, jobs, say=True, folder=folder)
    return {
        "seed": seed,
        "seconds": round(time.monotonic() - start),
        "programs": tally.programs,
        "invalid": tally.invalid,
        "fixed": dict(tally.fixed),
        "fixes": dict(sorted(tally.by_code.items())),
        "differing": len(tally.found),
    }
