"""Function mode: one function in two versions of a project, compared and timed; planted wrong fixes
are caught."""

from __future__ import annotations

import math
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
if sys.platform == "win32":
    pytest.skip("zygotes fork", allow_module_level=True)

from torchlint.base.errors import UsageError
from torchlint.source.document import read
from torchlint.verify.errors import OriginalFailedError
from torchlint.verify.fixes import FixUnit, Replacement, Rows
from torchlint.verify.model import Equality, Expected, Level, Status, VariantResult, Verdict
from torchlint.verify.options import Options
from torchlint.verify.paired import function_mode
from torchlint.verify.paired.function_mode import (
    Fixed,
    FunctionCalls,
    Target,
    parse_target,
)
from torchlint.verify.paired.sessions import Session
from torchlint.verify.variants import Variant

HEAD = "import torch\nfrom pkg.part import TWO\n"


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_mode, "BLOCK_MS", 0.1)


def project(root: Path, source: str) -> Path:
    (root / "pkg").mkdir(parents=True)
    (root / "pkg" / "__init__.py").touch()
    (root / "pkg" / "part.py").write_text("TWO = 2\n")
    (root / "pkg" / "mod.py").write_text(HEAD + source)
    return root


@dataclass(frozen=True)
class Measured:
    """What was found of the versions, by name, and what was timed and noted."""

    calls: FunctionCalls
    outcomes: dict[str, VariantResult]

    def blocks(self, name: str) -> int:
        """The number of pairs."""
        return len(self.calls.times.pairs(name))


def counting(live: Session) -> Session:
    """Return a session that takes no times, as most tests are about results."""
    options = replace(live.options, device="virtual-cuda")
    return replace(live, site=replace(live.site, options=options))


def fixed_version(name: str, folder: Path, expected: Expected, safe: bool) -> Fixed:
    unit = FixUnit(name, (), "", "", expected, "", (), (), safe)
    return Fixed(Variant(name, "single", unit), unit, folder)


class Measure:
    """Measures a function of one project against others."""

    def __init__(self, live: Session, tmp_path: Path) -> None:
        self.live = live
        self.tmp_path = tmp_path

    def __call__(
        self,
        name: str,
        inputs: str | None,
        original: str,
        *fixed: str,
        expected: Expected = Expected.CLOSE,
        safe: bool = False,
        grad: bool = False,
        seeds: int = 1,
        timed: bool = False,
        end: float = math.inf,
    ) -> Measured:
        before = project(self.tmp_path / "original", original)
        versions = [
            fixed_version(
                f"v{number}", project(self.tmp_path / f"v{number}", source), expected, safe
            )
            for number, source in enumerate(fixed)
        ]
        target = Target("pkg.mod", name, "", "pkg/mod.py")
        live = self.live if timed else counting(self.live)
        calls = FunctionCalls(live, target, inputs, before, grad, seeds, lambda line: None, end=end)
        return Measured(calls, calls.compare(versions))

    def one(
        self, name: str, inputs: str | None, original: str, fixed: str, **more: object
    ) -> VariantResult:
        return self(name, inputs, original, fixed, **more).outcomes["v0"]  # type: ignore[arg-type]


@pytest.fixture
def inside(live: Session) -> Path:
    """A folder in the workspace: elsewhere Landlock lets nothing be written."""
    return Path(tempfile.mkdtemp(dir=live.site.folder))


@pytest.fixture
def measure(live: Session, inside: Path) -> Measure:
    return Measure(live, inside)


GROW = """
def grow(xs):
    out = torch.empty(0)
    for x in xs:
        out = torch.cat([out, x])
    return out
"""
JOIN = "def grow(xs):\n    return torch.cat(list(xs))\n"


def test_a_right_fix_is_compared_and_timed(measure: Measure) -> None:
    found = measure("grow", "[randn(4) for _ in range(30)]", GROW, JOIN, seeds=3, timed=True)
    outcome = found.outcomes["v0"]
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.ok, outcome.status) == (
        Level.BITWISE,
        True,
        Status.OK,
    )
    assert outcome.speed.ratio is not None
    assert (outcome.speed.ratio.n, found.blocks("v0")) == (8, 8)
    assert found.calls.times.null_control() is not None
    assert measure.live.machine(found.calls.times).device in ("cpu", "cuda")
    assert measure.live.plan().pairs == 8


def test_an_interrupt_leaves_what_was_compared_by_then(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    equality, left = FunctionCalls._equality, [1]

    def interrupted(*arguments: Any) -> Equality:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return equality(*arguments)

    monkeypatch.setattr(FunctionCalls, "_equality", interrupted)
    found = measure("grow", "[randn(4)]", GROW, JOIN, JOIN, timed=True)
    first, second = found.outcomes.values()
    assert first.equality is not None
    assert (second.equality, second.speed.why) == (None, "interrupted before that")
    assert found.calls.times.ended == "interrupted"


def test_an_interrupt_before_anything_is_known_is_one(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(FunctionCalls, "saved", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure("grow", "[randn(4)]", GROW, JOIN)


def test_no_version_is_begun_when_the_time_is_over(measure: Measure) -> None:
    """The first is compared, and timed in one round, all the same."""
    found = measure("grow", "[randn(4)]", GROW, JOIN, JOIN, timed=True, end=0.0)
    first, second = found.outcomes.values()
    assert first.equality is not None
    assert (first.speed.ratio is not None, first.speed.verdict) == (True, Verdict.INCONCLUSIVE)
    assert (second.equality, second.speed.why) == (None, "no time was left for it (--budget)")
    assert (found.blocks("v0"), found.blocks("v1"), found.calls.times.cut) == (1, 0, True)


WRONG = {
    "dtype": (
        GROW,
        GROW.replace("return out", "return out.double()"),
        "grow",
        "[ones(2)]",
        "result: torch.float32",
    ),
    "in-place update dropped": (
        "def f(x):\n    x += 1\n    return x * TWO\n",
        "def f(x):\n    x = x + 1\n    return x * TWO\n",
        "f",
        "zeros(3)",
        "inputs[0]: 3 of 3 numbers differ, by up to 1",
    ),
    "random numbers shifted": (
        "def f(n):\n    return torch.ones(n)\n",
        "def f(n):\n    torch.rand(1)\n    return torch.ones(n)\n",
        "f",
        "3",
        "random numbers: the torch generator ends in another state",
    ),
    "state of the object": (
        (
            "class A:\n    def __init__(self):\n        self.n = 0\n    def f(self):\n        "
            "self.n "
            "+= 1\n"
        ),
        "class A:\n    def __init__(self):\n        self.n = 0\n    def f(self):\n        pass\n",
        "A.f",
        None,
        "self.n: 1 and 0",
    ),
    "generator": (
        "def f():\n    yield 1\n    yield 2\n",
        "def f():\n    yield 1\n    yield 3\n",
        "f",
        None,
        "result[1]: 2 and 3",
    ),
}


OBSERVED = {
    "a print": (
        "def f():\n    print('a')\n    return 1\n",
        "def f():\n    return 1\n",
        "printed: line 1: 'a' and ''",
    ),
    "a line of a child process": (
        "import os\ndef f():\n    os.system('echo a')\n",
        "import os\ndef f():\n    os.system('true')\n",
        "printed: line 1: 'a' and ''",
    ),
    "a line of the log": (
        "import logging\ndef f():\n    logging.warning('slow')\n",
        "def f():\n    pass\n",
        "printed to stderr: line 1: 'WARNING:root:slow' and ''",
    ),
    "a warning": (
        "import warnings\ndef f():\n    warnings.warn('old')\n",
        "import warnings\ndef f():\n    pass\n",
        "warnings: 1 items and 0 items",
    ),
    "a file": (
        "def f():\n    open('out.txt', 'w').write('x')\n",
        "def f():\n    pass\n",
        "files: 'out.txt' and",
    ),
    "what a file holds": (
        "def f():\n    torch.save(torch.ones(2), 'out.pt')\n",
        "def f():\n    torch.save(torch.ones(3), 'out.pt')\n",
        "files['out.pt']: line 1",
    ),
    "who may read a file": (
        "import os\ndef f():\n    os.chmod('pkg/part.py', 0o600)\n",
        "def f():\n    pass\n",
        "files: 'pkg/part.py' and",
    ),
    "a link to a folder": (
        "import os\ndef f():\n    os.symlink('pkg', 'link')\n",
        "def f():\n    pass\n",
        "files: 'link' and",
    ),
    "an empty folder that goes": (
        "import os\nos.makedirs('empty', exist_ok=True)\ndef f():\n    os.rmdir('empty')\n",
        "import os\nos.makedirs('empty', exist_ok=True)\ndef f():\n    pass\n",
        "files: 'empty' and",
    ),
    "who may enter a folder": (
        "import os\ndef f():\n    os.mkdir('new', 0o700)\n",
        "import os\ndef f():\n    os.mkdir('new', 0o750)\n",
        "files['new']: line 1: 'a folder, mode 700' and 'a folder, mode 750'",
    ),
    "a variable of the environment": (
        "import os\ndef f():\n    os.environ['A_NAME'] = 'x'\n",
        "def f():\n    pass\n",
        "environment: 'A_NAME' and",
    ),
    "the working folder": (
        "import os\ndef f():\n    os.chdir('pkg')\n",
        "def f():\n    pass\n",
        "working folder: line 1: '<project>/pkg' and ''",
    ),
    "the default device": (
        "def f():\n    torch.set_default_device('meta')\n",
        "def f():\n    pass\n",
        "settings of torch['default device']: line 1: 'meta' and 'cpu'",
    ),
    "how floats are multiplied": (
        "def f():\n    torch.set_float32_matmul_precision('medium')\n",
        "def f():\n    pass\n",
        "settings of torch['float32 matmul precision']: line 1: 'medium' and 'highest'",
    ),
    "a list that a module keeps": (
        "class M(torch.nn.Module):\n    seen = ()\nM = M()\ndef f():\n    M.seen = [1]\n",
        "class M(torch.nn.Module):\n    seen = ()\nM = M()\ndef f():\n    M.seen = []\n",
        "module:M.seen: 1 items and 0 items",
    ),
    "the mode of an inner module": (
        (
            "def f():\n    m = torch.nn.Sequential(torch.nn.Dropout())\n    m[0].eval()\n    "
            "return "
            "m\n"
        ),
        "def f():\n    return torch.nn.Sequential(torch.nn.Dropout())\n",
        "result.0: training=False and training=True",
    ),
    "the rate of a dropout": (
        "def f():\n    return torch.nn.Dropout(0.1)\n",
        "def f():\n    return torch.nn.Dropout(0.5)\n",
        "result.p: 0.1 and 0.5",
    ),
    "a buffer that is not saved": (
        "def f():\n    m = torch.nn.Module()\n"
        "    m.register_buffer('b', torch.ones(1), persistent=False)\n    return m\n",
        "def f():\n    m = torch.nn.Module()\n"
        "    m.register_buffer('b', torch.zeros(1), persistent=False)\n    return m\n",
        "result.b: 1.0 and 0.0",
    ),
    "a queue": (
        "import collections\ndef f():\n    return collections.deque([1, 2])\n",
        "import collections\ndef f():\n    return collections.deque([1, 3])\n",
        "result.<items>[1]: 2 and 3",
    ),
    "a path": (
        "import pathlib\ndef f():\n    return pathlib.Path('a')\n",
        "import pathlib\ndef f():\n    return pathlib.Path('b')\n",
        "result.<args>[0]: a and b",
    ),
    "bytes in memory": (
        "import io\ndef f():\n    return io.BytesIO(b'a')\n",
        "import io\ndef f():\n    return io.BytesIO(b'b')\n",
        "result.<state>[0]: 1 bytes",
    ),
    "a schedule": (
        "def f():\n    s = torch.optim.SGD([torch.ones(1)], lr=0.1)\n"
        "    return torch.optim.lr_scheduler.StepLR(s, 3)\n",
        "def f():\n    s = torch.optim.SGD([torch.ones(1)], lr=0.1)\n"
        "    return torch.optim.lr_scheduler.StepLR(s, 4)\n",
        "step_size']: 3 and 4",
    ),
    "a generator of Python's": (
        "import random\nG = random.Random(0)\ndef f():\n    G.random()\n",
        "import random\nG = random.Random(0)\ndef f():\n    pass\n",
        "module:G.<state>",
    ),
    "the message of a returned exception": (
        "def f():\n    return ValueError('a')\n",
        "def f():\n    return ValueError('b')\n",
        "result.args[0]: a and b",
    ),
    "what a generator returns": (
        "def f():\n    yield 1\n    return 5\n",
        "def f():\n    yield 1\n    return 6\n",
        "result.returned: 5 and 6",
    ),
    "an await": (
        "async def f():\n    return 1\n",
        "def f():\n    return 1\n",
        "printed: line 1: '[awaited]' and ''",
    ),
    "a count on the function": (
        "def g():\n    pass\ng.n = 0\ndef f():\n    g.n += 1\n",
        "def g():\n    pass\ng.n = 0\ndef f():\n    pass\n",
        "module:g.n: 1 and 0",
    ),
    "a count on a class": (
        "class A:\n    n = 0\ndef f():\n    A.n += 1\n",
        "class A:\n    n = 0\ndef f():\n    pass\n",
        "module:A.n: 1 and 0",
    ),
    "a slot": (
        "class A:\n    __slots__ = ('n',)\ndef f():\n    a = A()\n    a.n = 1\n    return a\n",
        "class A:\n    __slots__ = ('n',)\ndef f():\n    a = A()\n    a.n = 2\n    return a\n",
        "result.n: 1 and 2",
    ),
    "an attribute of a tensor": (
        "def f():\n    t = torch.ones(1)\n    t.name_of_mine = 1\n    return t\n",
        "def f():\n    t = torch.ones(1)\n    t.name_of_mine = 2\n    return t\n",
        "result.name_of_mine: 1 and 2",
    ),
    "a tensor of a class of the user's": (
        "class T(torch.Tensor):\n    pass\ndef f():\n    return torch.ones(1).as_subclass(T)\n",
        "class T(torch.Tensor):\n    pass\ndef f():\n    return torch.zeros(1).as_subclass(T)\n",
        "result: 1.0 and 0.0",
    ),
    "a hook": (
        (
            "def f():\n    x = torch.ones(2, requires_grad=True) * TWO\n    "
            "x.register_hook(print)\n "
            "   return x\n"
        ),
        "def f():\n    return torch.ones(2, requires_grad=True) * TWO\n",
        "result: hooks 1 and 0",
    ),
    "a hook of a module": (
        (
            "def f():\n    x = torch.nn.Linear(1, 1)\n    x.register_forward_hook(print)\n    "
            "return "
            "x\n"
        ),
        "def f():\n    return torch.nn.Linear(1, 1)\n",
        "result: hooks 1 and 0",
    ),
    "retain_grad": (
        (
            "def f():\n    x = torch.ones(2, requires_grad=True) * TWO\n    x.retain_grad()\n    "
            "return x\n"
        ),
        "def f():\n    return torch.ones(2, requires_grad=True) * TWO\n",
        "result: retains_grad True and False",
    ),
    "the order of a dict": (
        "def f():\n    return {'a': 1, 'b': 2}\n",
        "def f():\n    return {'b': 2, 'a': 1}\n",
        "result: order ['a', 'b'] and ['b', 'a']",
    ),
    "a generator that became a list": (
        "def f():\n    yield 1\n",
        "def f():\n    return [1]\n",
        "result: generator and list",
    ),
    "work that is no longer lazy": (
        "def f():\n    return map(print, 'ab')\n",
        "def f():\n    xs = [print(x) for x in 'ab']\n    return map(lambda x: x, xs)\n",
        "printed: line 1: '[returned]' and 'a'",
    ),
    "an item that changes later": (
        (
            "def f():\n    x = torch.zeros(1)\n    for _ in range(3):\n        yield x\n        "
            "x += "
            "1\n"
        ),
        "def f():\n    x = torch.zeros(1)\n    x += 3\n    yield from [x, x, x]\n",
        "result[0]: 0.0 and 3.0",
    ),
    "a closure": (
        "def f():\n    x = torch.zeros(1)\n    def g():\n        return x\n    return g\n",
        "def f():\n    x = torch.ones(1)\n    def g():\n        return x\n    return g\n",
        "result.x: 0.0 and 1.0",
    ),
    "a coroutine": (
        "async def f():\n    return 1\n",
        "async def f():\n    return 2\n",
        "result: 1 and 2",
    ),
    "an asynchronous generator": (
        "async def f():\n    yield 1\n",
        "async def f():\n    yield 2\n",
        "result[0]: 1 and 2",
    ),
    "a variable of the module": (
        "N = 0\ndef f():\n    global N\n    N += 1\n",
        "N = 0\ndef f():\n    pass\n",
        "module:N: 1 and 0",
    ),
    "a setting of torch": (
        "def f():\n    torch.set_grad_enabled(False)\n",
        "def f():\n    pass\n",
        "settings of torch['grad mode']: line 1: 'False' and 'True'",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", OBSERVED.values(), ids=OBSERVED)
def test_what_a_call_does_besides_returning_is_compared(
    measure: Measure, case: tuple[str, str, str]
) -> None:
    original, fixed, note = case
    found = measure("f", None, original, fixed, original)
    lost, kept = found.outcomes["v0"].equality, found.outcomes["v1"].equality
    assert lost is not None
    assert (lost.level, lost.ok) == (Level.DIFFERENT, False)
    assert any(note in line for line in lost.notes), lost.notes
    assert kept is not None
    assert (kept.level, kept.ok, kept.notes) == (Level.BITWISE, True, ())


def test_an_exception_that_only_some_inputs_raise_is_compared(measure: Measure) -> None:
    """Of the seeds 0, 1 and 2 the second alone draws a number below zero at first."""
    source = (
        "import random\ndef f():\n    x = random.Random(torch.initial_seed()).random()\n    "
        "{0}\n    return 1\n"
    )
    original = source.format("if x < 0.5:\n        raise ValueError('small')")
    found = measure("f", None, original, source.format(""), original, seeds=3)
    lost, kept = found.outcomes["v0"].equality, found.outcomes["v1"].equality
    assert lost is not None
    assert (lost.level, lost.ok) == (Level.DIFFERENT, False)
    assert "seed 1: raised: line 1: 'ValueError: small' and ''" in lost.notes
    assert "seed 1: f raises ValueError: small" in found.calls.notes
    assert kept is not None
    assert kept.ok


@pytest.mark.parametrize(
    ("raised", "note"),
    [
        ("ValueError('small')", "raised: line 2: 'from KeyError: 1' and ''"),
        (
            "type('ValueError', (OSError,), {})('small') from KeyError(1)",
            "raised: line 2: 'from KeyError: 1' and 'is a OSError, Exception'",
        ),
        (
            "ValueError(Text('small')) from KeyError(1)",
            "raised: line 2: 'from KeyError: 1' and 'argument of type Text'",
        ),
    ],
)
def test_what_an_exception_carries_is_compared(measure: Measure, raised: str, note: str) -> None:
    source = (
        "class Text(str):\n    pass\ndef f():\n    if torch.initial_seed():\n        raise "
        "{0}\n    return 1\n"
    )
    before, after = source.format("ValueError('small') from KeyError(1)"), source.format(raised)
    outcome = measure.one("f", None, before, after, seeds=2)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.ok) == (Level.DIFFERENT, False)
    assert f"seed 1: {note}" in outcome.equality.notes


def test_output_that_never_repeats_is_told_and_left_out(measure: Measure) -> None:
    source = (
        "import sys, time\ndef f():\n    print(time.perf_counter_ns(), file=sys.stderr)\n   "
        " return 1\n"
    )
    outcome = measure.one("f", None, source, source, expected=Expected.BITWISE)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.ok) == (Level.BITWISE, True)
    assert outcome.equality.notes == (
        "seed 0: printed to stderr: differs between two runs of the original, not compared",
    )


@pytest.mark.parametrize(
    ("shown", "level"),
    [("0.1235", Level.CLOSE), ("0.1245", Level.DIFFERENT), ("0.1234 s", Level.DIFFERENT)],
)
def test_printed_numbers_are_compared_as_numbers(
    measure: Measure, shown: str, level: Level
) -> None:
    before, after = (f"def f():\n    print('loss {text}')\n" for text in ("0.1234", shown))
    outcome = measure.one("f", None, before, after)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.ok) == (level, level is Level.CLOSE)


def test_every_call_meets_the_files_as_they_were(measure: Measure) -> None:
    """A second `os.mkdir` would raise, as it does where calls are timed."""
    source = "import os\ndef f():\n    os.mkdir('out')\n    open('out/log', 'a').write('x')\n"
    found = measure("f", None, source, source, seeds=3, timed=True)
    equality = found.outcomes["v0"].equality
    assert equality is not None
    assert (equality.level, equality.ok, equality.notes) == (Level.BITWISE, True, ())
    assert "not timed: f cannot be called again and again: FileExistsError" in found.calls.notes[-1]
    assert found.outcomes["v0"].speed.verdict is Verdict.NOT_MEASURED


def test_a_changed_file_of_the_project_is_put_back_or_named(live: Session, inside: Path) -> None:
    source = "def f():\n    return open('pkg/part.py', 'a').write('# x')\n"
    pristine, copy = project(inside / "p", source), project(inside / "c", source)
    target = Target("pkg.mod", "f", "", "pkg/mod.py")
    for given, notes in (
        (pristine, ()),
        (None, ("pkg/part.py: changed by the call and not put back",)),
    ):
        calls = FunctionCalls(live, target, None, copy, False, 1, lambda line: None, given)
        calls.saved()
        assert ((copy / "pkg/part.py").read_text() == "TWO = 2\n") is (given is pristine)
        assert [note.partition(",")[0] for note in calls.notes] == list(notes)


def test_an_endless_generator_is_compared_as_far_as_it_is_taken(measure: Measure) -> None:
    source = "import itertools\ndef f():\n    return itertools.count()\n"
    outcome = measure.one("f", None, source, source)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.status) == (Level.BITWISE, Status.OK)


SHARED = {
    "a list that came in": ("def f(x):\n    return x\n", "def f(x):\n    return list(x)\n", "[1]"),
    "one list twice": (
        "def f(x):\n    a = [1]\n    return a, a\n",
        "def f(x):\n    return [1], [1]\n",
        "1",
    ),
    "an array of a tensor": (
        "def f(x):\n    return x.numpy()\n",
        "def f(x):\n    return x.numpy().copy()\n",
        "ones(2)",
    ),
    "one tensor given out again and again": (
        "def f(x):\n    for _ in range(2):\n        x += 1\n        yield x\n",
        "def f(x):\n    for _ in range(2):\n        x += 1\n        yield x.clone()\n",
        "zeros(1)",
    ),
    "an array that is read only": (
        "def f(x):\n    a = x.numpy()\n    a.flags.writeable = False\n    return a\n",
        "def f(x):\n    return x.numpy()\n",
        "ones(2)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SHARED.values(), ids=SHARED)
def test_a_safe_fix_keeps_what_is_one_object_or_may_be_written(
    measure: Measure, case: tuple[str, str, str]
) -> None:
    before, after, inputs = case
    found = measure("f", inputs, before, after, before, expected=Expected.BITWISE, safe=True)
    lost, kept = found.outcomes["v0"].equality, found.outcomes["v1"].equality
    assert lost is not None
    assert (lost.level, lost.ok) == (Level.BITWISE, False)
    assert kept is not None
    assert (kept.level, kept.ok, kept.notes) == (Level.BITWISE, True, ())


UNSEEN = {
    "a generator in a tuple": (
        "def f():\n    return 1, (i for i in [{0}])\n",
        "result[1]: what a generator holds",
    ),
    "a lock": (
        "import threading\ndef f():\n    {0}\n    return threading.Lock()\n",
        "result: what a lock holds",
    ),
}


@pytest.mark.parametrize("case", UNSEEN.values(), ids=UNSEEN)
def test_what_cannot_be_looked_into_is_told(measure: Measure, case: tuple[str, str]) -> None:
    source, note = case
    outcome = measure.one(
        "f", None, source.format(1), source.format(2), expected=Expected.BITWISE, safe=True
    )
    assert outcome.equality is not None
    assert outcome.equality.notes == (f"seed 0: {note} is not compared",)


def test_the_place_of_the_copy_in_a_text_is_no_difference(measure: Measure) -> None:
    """Original and fixed version lie in folders of their own: that is not the fix's doing."""
    source = (
        "import os, warnings\ndef f():\n    print(__file__)\n    "
        "warnings.warn(os.getcwd())\n    return __file__\n"
    )
    outcome = measure.one("f", None, source, source, expected=Expected.BITWISE, safe=True)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.ok, outcome.equality.notes) == (
        Level.BITWISE,
        True,
        (),
    )


def test_a_call_that_leaves_its_folder_does_not_lead_the_next_one_astray(measure: Measure) -> None:
    source = "import os\ndef f():\n    os.chdir('pkg')\n    os.environ['A_NAME'] = 'x'\n"
    outcome = measure.one("f", None, source, source, seeds=3)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.notes) == (Level.BITWISE, ())


def test_a_safe_fix_keeps_which_tensors_share_memory(measure: Measure) -> None:
    before, after = (
        "def f(x):\n    return x.view(-1)\n",
        "def f(x):\n    return x.view(-1).clone()\n",
    )
    outcome = measure.one("f", "ones(2, 2)", before, after, expected=Expected.BITWISE, safe=True)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.ok) == (Level.BITWISE, False)
    assert "seed 0: inputs[0]: memory shared with result and " in outcome.equality.notes


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_wrong_fix_is_caught(
    measure: Measure, case: tuple[str, str, str, str | None, str]
) -> None:
    original, fixed, name, inputs, note = case
    outcome = measure.one(name, inputs, original, fixed)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.ok) == (Level.DIFFERENT, False)
    assert any(note in line for line in outcome.equality.notes)


ODD = {
    "a dict with attributes": (
        "class A(dict):\n    __getattr__ = dict.__getitem__\ndef f():\n    return A(a=1)\n"
    ),
    "a tuple that has every attribute": (
        "class A(tuple):\n    def __getattr__(self, name):\n        raise KeyError(name)\n"
        "def f():\n    return A((1,))\n"
    ),
    "an exception that causes itself": (
        "def f():\n    e = ValueError('a')\n    e.__cause__ = e\n    return e\n"
    ),
    "a module that holds itself": (
        "class A(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        object.__setattr__(self, 'me', self)\ndef f():\n    return A()\n"
    ),
    "a layer without weights yet": "def f():\n    return torch.nn.LazyLinear(2)\n",
    "a pattern": "import re\ndef f():\n    return re.compile('a+')\n",
    "variables that nobody can look into": (
        "import logging, threading, itertools\nlog = logging.getLogger(__name__)\nlock = "
        "threading.Lock()\n"
        "rest = (i for i in range(3))\ndef f():\n    return 1\n"
    ),
}


@pytest.mark.parametrize("source", ODD.values(), ids=ODD)
def test_odd_values_are_compared_without_a_word(measure: Measure, source: str) -> None:
    equality = measure.one("f", None, source, source, expected=Expected.BITWISE, safe=True).equality
    assert equality is not None
    assert (equality.level, equality.ok, equality.notes) == (Level.BITWISE, True, ())


def test_a_safe_fix_keeps_requires_grad(measure: Measure) -> None:
    before = "def f():\n    return torch.ones(2, requires_grad=True) * TWO\n"
    fixed = "def f():\n    return torch.ones(2) * TWO\n"
    outcome = measure.one("f", None, before, fixed, expected=Expected.BITWISE, safe=True)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.ok) == (Level.BITWISE, False)


def test_the_same_change_may_be_no_promise_of_an_unsafe_fix(measure: Measure) -> None:
    before = "def f():\n    return torch.ones(2, requires_grad=True) * TWO\n"
    outcome = measure.one("f", None, before, "def f():\n    return torch.ones(2) * TWO\n")
    assert outcome.equality is not None
    assert outcome.equality.ok
    assert "result: requires_grad True and False" in outcome.equality.notes[0]


def test_other_random_numbers_are_kept_only_where_they_are_promised(measure: Measure) -> None:
    before = "def f():\n    return torch.randn(500)\n"
    fixed = "def f():\n    torch.rand(1)\n    return torch.randn(500)\n"
    outcome = measure.one("f", None, before, fixed, expected=Expected.RNG)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.ok, outcome.equality.rng_changed) == (
        Level.DISTRIBUTION,
        True,
        True,
    )


def test_a_function_that_does_not_reproduce_itself_is_not_blamed_on_the_fix(
    measure: Measure,
) -> None:
    source = "import time\ndef f():\n    return str(time.perf_counter_ns())\n"
    outcome = measure.one("f", None, source, source)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.ok) == (Level.UNKNOWN, True)
    assert "seed 0: the original does not reproduce itself" in outcome.equality.notes


def test_gradients_are_compared_with_grad(measure: Measure) -> None:
    before = "def f(x):\n    return x * TWO\n"
    fixed = "def f(x):\n    return x.detach() * TWO + x * 0\n"
    outcome = measure.one("f", "ones(3)", before, fixed, grad=True)
    assert outcome.equality is not None
    assert (outcome.equality.level, outcome.equality.ok) == (Level.DIFFERENT, False)
    assert "seed 0: inputs[0].grad: 3 of 3 numbers differ, by up to 2" in outcome.equality.notes


@pytest.mark.slow
def test_inputs_that_change_are_fresh_in_every_timed_call(measure: Measure) -> None:
    """Without a copy the second timed call would raise."""
    source = (
        "def f(xs, *, k):\n    assert len(xs) == 1 and k['n'].item() == 0\n    "
        "xs.append(1)\n    k['n'] += 1\n"
    )
    outcome = measure.one("f", "[0], k={'n': zeros(1)}", source, source, timed=True)
    assert (outcome.status, outcome.error) == (Status.OK, "")
    assert outcome.speed.ratio is not None


def test_a_method_is_called_on_a_new_object(measure: Measure) -> None:
    source = (
        "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = torch.nn.Linear(4, 2)\n    def forward(self, x):\n        return "
        "self.layer(x)\n"
        "    @staticmethod\n    def twice(x):\n        return x * TWO\n"
    )
    outcome = measure.one("Net.forward", "ones(3, 4)", source, source, grad=True)
    assert outcome.equality is not None
    assert outcome.equality.level is Level.BITWISE


def test_a_static_method_needs_no_object(measure: Measure) -> None:
    source = (
        "class A:\n    def __init__(self, needed):\n        pass\n    @staticmethod\n    "
        "def f(x):\n        return x\n"
    )
    assert measure.one("A.f", "1", source, source).status is Status.OK


def test_a_factory_makes_inputs(measure: Measure, tmp_path: Path) -> None:
    factory = tmp_path / "make.py"
    factory.write_text(
        "import torch\ndef both():\n    return (torch.ones(2),), {'k': 3}\ndef plain():\n    "
        "return 1, 2\n"
        "def single():\n    return torch.ones(2)\n"
    )
    source = "def f(x, y=0, *, k=0):\n    return x, y, k\n"
    for number, name in enumerate(("both", "plain", "single")):
        apart = Measure(measure.live, tmp_path / str(number))
        outcome = apart.one("f", f"{factory}:{name}", source, source)
        assert outcome.status is Status.OK
    with pytest.raises(UsageError, match=r"make\.py has no function nothing"):
        Measure(measure.live, tmp_path / "n")("f", f"{factory}:nothing", source)


def test_a_version_that_raises_is_broken(measure: Measure) -> None:
    source = "def f():\n    return 1\n"
    found = measure(
        "f",
        None,
        source,
        "def f():\n    raise KeyError('x')\n",
        "def f():\n    return 1\n",
        timed=True,
    )
    broken, fine = found.outcomes["v0"], found.outcomes["v1"]
    assert (broken.status, broken.error) == (Status.BROKEN, "KeyError: 'x' (pkg/mod.py:4)")
    assert (broken.speed.verdict, broken.equality and broken.equality.ok) == (
        Verdict.NOT_MEASURED,
        False,
    )
    assert (fine.status, found.blocks("v1")) == (Status.OK, 8)


def test_a_version_that_crashes_later_keeps_its_rounds(measure: Measure) -> None:
    fixed = (
        "import os\nn = 0\ndef f():\n    global n\n    n += 1\n    if n > 1:\n        "
        "os._exit(7)\n    return 1\n"
    )
    outcome = measure.one("f", None, "def f():\n    return 1\n", fixed, timed=True)
    assert (outcome.status, outcome.error) == (Status.BROKEN, "its process ended with exit code 7")


REFUSED = {
    "unknown": (
        "def grow():\n    pass\n",
        "grwo",
        None,
        r"pkg\.mod has no function grwo; did you mean grow\?",
    ),
    "unknown method": (
        "class A:\n    def go(self):\n        pass\n",
        "A.og",
        None,
        r"has no function A\.og; did you mean A\.go\?",
    ),
    "no inputs": (
        "def f(x: torch.Tensor, n: int):\n    pass\n",
        "f",
        None,
        r'f needs inputs for x, n: --inputs "x=randn\(64, 512\), n=10", or --inputs FILE.py:FUNC',
    ),
    "too many inputs": (
        "def f(x):\n    pass\n",
        "f",
        "1, 2",
        r"--inputs do not fit f\(x\): too many positional",
    ),
    "bad name in inputs": (
        "def f(x):\n    pass\n",
        "f",
        "nosuch(1)",
        "--inputs 'nosuch\\(1\\)': NameError",
    ),
    "bad syntax in inputs": (
        "def f(x):\n    pass\n",
        "f",
        "randn(",
        "--inputs 'randn\\(': SyntaxError",
    ),
    "class": (
        "class A:\n    pass\n",
        "A",
        None,
        r"A is a class; name one of its methods: A\.forward",
    ),
    "no function": ("", "TWO", None, r"TWO is no function \(its class is int\)"),
    "class with arguments": (
        "class A:\n    def __init__(self, n):\n        pass\n    def f(self):\n        pass\n",
        "A.f",
        None,
        "A cannot be built without arguments",
    ),
    "no file of factory": (
        "def f(x):\n    pass\n",
        "f",
        "nosuch.py:make",
        r"--inputs: nosuch\.py: no such file",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_a_usage_error(
    measure: Measure, case: tuple[str, str, str | None, str]
) -> None:
    source, name, inputs, message = case
    with pytest.raises(UsageError, match=message) as caught:
        measure(name, inputs, source)
    assert "\n" not in str(caught.value)


def test_grad_needs_a_gradient(measure: Measure) -> None:
    with pytest.raises(UsageError, match="f returns no tensor that has a gradient"):
        measure("f", None, "def f():\n    return 1\n", grad=True)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "def f():\n    raise ValueError('a\\nb')\n",
            r"f fails without any fix: ValueError: a \(pkg/mod\.py:4\)",
        ),
        (
            "import os\ndef f():\n    os.kill(os.getpid(), 11)\n",
            r"f fails without any fix: crashed \(SIGSEGV\)",
        ),
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'"),
    ],
)
def test_an_original_that_fails_is_an_error_of_its_own(
    measure: Measure, source: str, message: str
) -> None:
    with pytest.raises(OriginalFailedError, match=message) as caught:
        measure("f", None, source)
    assert caught.value.exit_code == 3


def test_a_module_from_elsewhere_is_refused(live: Session, tmp_path: Path) -> None:
    """The copy holds no such package, so the import finds another one: the fix would not have
    run."""
    target = Target("json.decoder", "JSONDecoder", "", "json/decoder.py")
    with pytest.raises(
        UsageError, match=r"json\.decoder was imported from .*, not from the copy of the project"
    ):
        FunctionCalls(live, target, None, tmp_path, False, 1, lambda line: None).compare([])


@pytest.mark.slow
def test_run_starts_its_own_workers(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "def f():\n    return TWO\n")
    document = read(str(folder / "pkg/mod.py"), "pkg/mod.py", 0)
    at = document.text.index("TWO", document.text.index("return"))
    unit = FixUnit(
        id="TL102@pkg/mod.py:4",
        codes=("TL102",),
        title="Write 2",
        where="pkg/mod.py:4",
        expected=Expected.BITWISE,
        note="",
        replacements=(Replacement("pkg/mod.py", at, at + 3, "2"),),
        places=(Rows("pkg/mod.py", 4, 4),),
        safe=True,
    )
    target = parse_target(f"{folder}/pkg/mod.py::f", folder)
    request = function_mode.FunctionRequest(
        "f",
        folder,
        target,
        None,
        (unit,),
        {"pkg/mod.py": document},
        (),
        Options(launches=1, pairs=8),
        False,
    )
    report = function_mode.run(request, lambda line: None, lambda line: None)
    (found,) = report.variants
    assert (found.status, found.where, len(found.blocks_ns)) == (Status.OK, "pkg/mod.py:4", 8)
    assert found.equality is not None
    assert (found.equality.level, found.equality.ok) == (Level.BITWISE, True)
    assert (report.tree_unchanged, report.plan.pairs, report.machine.device) == (True, 8, "cpu")
    assert "+    return 2" in found.diff


def test_targets(tmp_path: Path) -> None:
    for name in ("pkg/mod.py", "src/lib/deep.py", "pkg/__init__.py", "pkg/no-name.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def parse(text: str) -> Target:
        return parse_target(f"{tmp_path}/{text}", tmp_path)

    assert parse("pkg/mod.py::f") == Target("pkg.mod", "f", "", "pkg/mod.py")
    assert parse("src/lib/deep.py::A.f") == Target("lib.deep", "A.f", "src", "src/lib/deep.py")
    assert parse("pkg/__init__.py::f") == Target("pkg", "f", "", "pkg/__init__.py")
    for text, message in (
        ("pkg/mod.py", "is no function"),
        ("pkg/mod.py::f()", "is no function"),
        ("pkg/none.py::f", "no such file"),
        ("pkg/no-name.py::f", "no module name"),
    ):
        with pytest.raises(UsageError, match=message):
            parse(text)
    with pytest.raises(UsageError, match="lies outside the project"):
        parse_target(f"{tmp_path}/src/lib/deep.py::f", tmp_path / "pkg")
