"""Which statements end in an error: names that nothing binds, calls that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import job
from tests.semantic.test_unused import project_of
from torchlint.base.finding import Severity
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

LOOP = """import torch
{above}
def train(model, loader, optimizer):
    {before}
    for x in loader:
        optimizer.zero_grad()
        loss = model(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        {within}
        print(loss.item())
{below}
"""
NETS = """class Net:
    def __init__(self, width, *, depth=1):
        self.width = width
class Known(Base):
    def __init__(self): 1
def build(width, depth=2, /, *, name): 1
def any_of(*args, **kwargs): 1
@cached
def wrapped(a): 1
"""
BOUND = "def f():\n    global epochs\n    epochs = 1"
STARRED = {"lib/__init__.py": "from .nets import *", "lib/nets.py": f"{NETS}epochs = 1"}
BY_TEXT = {"lib/__init__.py": "from .nets import *", "lib/nets.py": "globals().update(a=1)"}
FROM = "from lib.nets import Net, Known, build, any_of, wrapped"


def told(root: Path, files: dict[str, str], **parts: str) -> bool:
    """Say whether a finding stands behind statements of a program."""
    text = LOOP.format(**{"above": "", "before": "1", "within": "1", "below": "", **parts})
    project_of(root, {"lib/__init__.py": "", "lib/nets.py": NETS, **files, "run.py": text})
    forget()
    found = analyse_job(
        job(text, name="run.py", codes=frozenset({"TL105"}), root=str(root.resolve()))
    )
    return bool(found.findings)


@pytest.mark.parametrize(
    ("parts", "files", "expected"),
    [
        ({}, {}, True),
        ({"before": "print(epochs)"}, {}, False),
        ({"within": "total += loss * factor"}, {}, False),
        ({"above": "print(epochs)"}, {}, False),
        ({"before": "if epochs: print(1)"}, {}, False),
        ({"before": "print(1 if model else epochs)"}, {}, True),
        ({"before": "print(epochs if torch.cuda.is_available() else 1)"}, {}, False),
        ({"before": "print(model and epochs)"}, {}, True),
        ({"before": "print([epochs for _ in model])"}, {}, True),
        ({"before": "print(lambda: epochs)"}, {}, True),
        ({"before": "if model: print(epochs)"}, {}, True),
        ({"before": "assert model, epochs"}, {}, True),
        ({"before": "print(model.epochs, epochs=1)"}, {}, True),
        ({"before": "x: epochs = 1"}, {}, True),
        ({"before": "print(__file__, xrange)"}, {}, True),
        ({"before": "print(epochs)", "below": "epochs = 1"}, {}, True),
        ({"before": "print(epochs)", "below": BOUND}, {}, True),
        ({"before": "print(epochs)", "below": "def f():\n    epochs = 1"}, {}, False),
        ({"before": "print(epochs)", "below": "global epochs\nepochs = 1"}, {}, True),
        ({"before": "print(epochs)", "below": "kernel.src.replace(' epochs ', '3')"}, {}, True),
        ({"before": "print(epochs)", "above": "from lib import *"}, {}, False),
        ({"before": "print(epochs)", "above": "from lib import *"}, STARRED, True),
        ({"before": "print(epochs)", "above": "from lib import *"}, BY_TEXT, True),
        ({"before": "print(epochs)", "below": "exec(open('a').read())"}, {}, True),
        ({"before": "print(epochs)", "below": "globals().update(a=1)"}, {}, True),
        ({"before": "print(epochs)"}, {"a.py": "import run\nrun.epochs = 3"}, True),
        ({"before": "print(epochs)"}, {"a.py": "import run as r\nr.epochs = 3"}, True),
        ({"before": "print(epochs)"}, {"a.py": "import builtins, run\nbuiltins.epochs = 3"}, True),
        ({"before": "print(epochs)"}, {"a.py": "import run\nexec(open('run.py').read())"}, True),
        ({"before": "print(epochs)"}, {"a.py": "import run\nargs.epochs = 3"}, False),
    ],
)  # fmt: skip
def test_nothing_is_told_behind_a_name_that_nothing_binds(
    parts: dict[str, str], files: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    assert told(tmp_path, files, **parts) is expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("Net(1, depth=2)", True),
        ("Net(1, deep=2)", False),
        ("Net()", False),
        ("Net(1, 2)", False),
        ("Net(*sizes, deep=2)", False),
        ("Net(*sizes)", True),
        ("Net(**sizes)", True),
        ("Known(1)", True),
        ("build(1, name=2)", True),
        ("build(1)", False),
        ("build(width=1, name=2)", False),
        ("build(1, 2, 3, name=4)", False),
        ("any_of(1, a=2)", True),
        ("wrapped()", True),
    ],
)
def test_nothing_is_told_behind_a_call_that_does_not_fit(
    call: str, expected: bool, tmp_path: Path
) -> None:
    above = f"sizes = [1]\n{FROM}"
    assert told(tmp_path, {}, above=above, before=call) is expected


@pytest.mark.parametrize(
    ("parts", "files"),
    [
        ({"above": "from nets import build"}, {"nets.py": NETS}),
        ({"above": FROM}, {"a.py": "import lib.nets, run\nlib.nets.build = print"}),
        ({"above": FROM}, {"a.py": "import run\nsetattr(nets, 'build', print)"}),
        ({"above": FROM, "below": "build = print"}, {}),
        ({"above": FROM, "before": "try: build()\n    except TypeError: 1"}, {}),
        ({"above": FROM}, {"lib/nets.py": f"{NETS}def build(): 1\n"}),
        ({"above": FROM}, {"lib/nets.py": f"{NETS}build = cached(build)\n"}),
    ],
)
def test_what_may_be_another_function_fits(
    parts: dict[str, str], files: dict[str, str], tmp_path: Path
) -> None:
    assert told(tmp_path, files, **{"before": "build()", **parts})


@pytest.mark.parametrize("text", ["def f(a): 1", "class f:\n    def __init__(self, a): 1"])
def test_a_call_of_the_same_file_that_does_not_fit(text: str, tmp_path: Path) -> None:
    assert not told(tmp_path, {}, above=text, before="f()")
    assert told(tmp_path, {}, above=text, before="f(1)")
    assert told(tmp_path, {}, above=f"@wrapped\n{text}\nwrapped = print", before="f()")


STEP = """import torch
class Net{bases}:
    def parse(self, batch, train): 1
    def step(self, loader, net):
        {before}
        for x in loader:
            loss = net(x.cuda()).mean()
            loss.backward()
            self.optimizer.step()
            print(loss.item())
    {more}
"""


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"before": "self.parse(loader)"}, False),
        ({"before": "self.parse(loader, old=True)"}, False),
        ({"before": "self.parse(loader, 1, 2)", "bases": "(torch.nn.Module)"}, False),
        ({"before": "self.parse(loader, True)"}, True),
        ({"before": "self.parse(loader, train=True)"}, True),
        ({"before": "self.parse(*loader)"}, True),
        ({"before": "if net: self.parse(loader)"}, True),
        ({"before": "net.parse(loader)"}, True),
        ({"before": "self.parse(loader)", "more": "def parse(self, batch): 2"}, True),
        ({"before": "self.parse(loader)", "more": "def f(self): self.parse = print"}, True),
        ({"before": "self.other(loader)", "more": "def f(self):\n        def other(): 1"}, True),
        ({"before": "self.own(loader)", "more": "@staticmethod\n    def own(x): 1"}, True),
        ({"before": "self.parse(loader)", "more": "1\nclass Other(Net):\n    parse = print"}, True),
    ],
)
def test_a_call_of_an_own_method_that_does_not_fit(
    parts: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    text = STEP.format(**{"bases": "", "more": "", **parts})
    project_of(tmp_path, {"run.py": text})
    forget()
    asked = job(text, name="run.py", codes=frozenset({"TL105"}), root=str(tmp_path.resolve()))
    assert bool(analyse_job(asked).findings) is expected


FAILING = """import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(8, width, 1), nn.BatchNorm1d(width))
        {made}
    def forward(self, x):
        {early}
        scale = torch.zeros(3).to(x.device)
        {run}
    {more}
def train(net, loader, opt):
    for x in loader:
        loss = net(x.cuda()).mean() * scale_of(net)
        loss.backward()
        opt.step()
        print(loss.item())
        {step}
    {after}
def scale_of(net): return 1
"""


def severities(root: Path, **parts: str) -> dict[str, tuple[Severity, bool]]:
    """Return the severity of each finding of a program, and whether it is said to end in an error,
    by code."""
    empty = dict.fromkeys(("made", "early", "run", "step", "more", "after"), "1")
    text = FAILING.format(**{**empty, "run": "return self.body(x) * scale", **parts})
    project_of(root, {"run.py": text})
    forget()
    codes = frozenset({"TL102", "TL105", "TL409"})
    found = analyse_job(job(text, name="run.py", codes=codes, root=str(root.resolve())))
    return {
        each.code: (each.severity, any("ends in an error" in why.text for why in each.why_hot))
        for each in found.findings
    }


@pytest.mark.parametrize(
    ("parts", "failing"),
    [
        ({"made": "self.gamma = nn.Parameter(torch.zeros(x_hat.shape))"}, {"TL409"}),
        ({"run": "return self.body(x) + self.weight * loss2"}, {"TL102"}),
        ({"run": "if x: y = 1\n        x = costh - 1\n        return x"}, {"TL102"}),
        ({"step": "total += loss2"}, {"TL105"}),
        ({"step": "with torch.no_grad(): 1\n        print(loss2)"}, {"TL105"}),
        ({"step": "if net: print(1, loss2)"}, set()),
        ({"step": "if net: continue\n        print(loss2)"}, set()),
        ({"step": "print([each for each in net if loss2])"}, set()),
        ({"after": "print(loss2)"}, set()),
        ({"early": "if x is None: return 1", "run": "return self.body(x) * loss2"}, set()),
        ({"early": "loss2 = 1", "run": "return self.body(x) * loss2"}, set()),
        ({"run": "try: print(loss2)\n        except Exception: 1\n        return x"}, set()),
        ({"made": "def late(): return x_hat"}, set()),
        ({"more": "def other(self): print(loss2)"}, set()),
    ],
)
def test_what_runs_once_at_most_is_a_hint_that_says_so(
    parts: dict[str, str], failing: set[str], tmp_path: Path
) -> None:
    found = severities(tmp_path, **parts)
    if "made" not in parts or not failing:
        assert found.keys() == {"TL102", "TL105", "TL409"}
    assert {code for code, (_, said) in found.items() if said} == failing
    assert all(found[code][0] is Severity.INFO for code in failing)


PARSER = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument("-e", "--max-epochs", type=int)
parser.add_argument("--lr", dest="rate", default=0.1)
parser.add_argument("--fast", action="store_true")
parser.set_defaults(seed=1)
{more}
args = parser.parse_args()
"""
BUILDS = """import argparse
def get_args():
    parser = argparse.ArgumentParser()
    group = parser.add_argument_group("files")
    group.add_argument("folder")
    return parser.parse_args()
"""
GETS = """import argparse
def get_parser():
    parser = argparse.ArgumentParser()
    return parser
"""


@pytest.mark.parametrize(
    ("before", "more", "expected"),
    [
        ("print(args.epochs)", "", False),
        ("print(args.lr)", "", False),
        ("print(args.max_epochs, args.rate, args.fast, args.seed)", "", True),
        ("x = len(f'{args.epochs}')", "", False),
        ("print(model or args.epochs)", "", True),
        ("if args.fast: print(args.epochs)", "", True),
        ("print(getattr(args, 'epochs'))", "", True),
        ("if hasattr(args, 'epochs'): print(args.epochs)", "", True),
        ("args.epochs = 3; print(args.epochs)", "", True),
        ("args.a, args.epochs = 3, 4; print(args.epochs)", "", True),
        ("print(args.epochs)", "parser = _more(parser)", True),
        ("print(args.epochs)", "_more(parser)", True),
        ("print(args.epochs)", "parser = _get_parser()", True),
        ("print(args.epochs)", "from lib.options import get\nparser = get()", True),
        ("print(args.epochs)", "parser, rest = _both()", True),
        ("print(args.epochs)", "parser = argparse.ArgumentParser()", False),
        ("print(args.epochs)", "def build():\n    return parser\nparser = build()", False),
        ("print(args.epochs)", "parser.add_argument(*_names)", True),
        ("print(args.epochs)", "parser.add_argument('--' + _name)", True),
        ("print(args.epochs)", "parser.add_argument('--x', action=_Both)", True),
        ("print(args.epochs)", "parser.set_defaults(**_more)", True),
        ("print(args.epochs)", "parser.add_subparsers()", True),
        ("print(args.epochs)", "def more(self): self.epochs = 1", False),
        ("print(args.epochs)", "def more(self): self.args.epochs = 1", True),
        ("print(args.epochs)", "def more(self): self.__dict__.update(a=1)", False),
        ("print(args.epochs)", "def more(args): args.__dict__.update(a=1)", True),
        ("print(args.epochs)", "print(vars(parser))", True),
        ("print(args.epochs)", "def more(options): setattr(options, *x)", True),
        ("print(args.__dict__, args._x)", "", True),
        ("print(model.epochs)", "", True),
    ],
)
def test_options_that_no_parser_defines(
    before: str, more: str, expected: bool, tmp_path: Path
) -> None:
    parser = PARSER.format(more=more)
    assert told(tmp_path, {}, above=parser, before=before) is expected


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        (f"{BUILDS}args = get_args()\nprint(args.folder)", True),
        (f"{BUILDS}args = get_args()\nprint(args.width)", False),
        (f"{GETS}args = get_parser().parse_args()\nprint(args.width)", False),
        (f"{GETS}args, more = get_parser().parse_known_args()\nprint(args.width)", True),
        ("def get_args():\n    if _x:\n        return\nargs = get_args()\nprint(args.width)", True),
        (f"{BUILDS}def maybe():\n    return\nargs = maybe()\nprint(args.width)", True),
        (f"{GETS}def maybe():\n    return\nargs = maybe().parse_args()\nprint(args.width)", True),
    ],
)
def test_options_of_a_parser_that_a_function_makes(
    above: str, expected: bool, tmp_path: Path
) -> None:
    assert told(tmp_path, {}, above=above) is expected


@pytest.mark.parametrize(
    ("before", "below", "files", "expected"),
    [
        ("print(model.width)", "train(get_args(), 1, 2)", {}, False),
        ("print(model.folder)", "train(get_args(), 1, 2)", {}, True),
        ("print(model.width)", "train(get_args(), 1, 2)\ntrain(_x, 1, 2)", {}, True),
        ("print(model.width)", "train(*get_args())", {}, True),
        ("print(model.width)", "start = train\ntrain(get_args(), 1, 2)", {}, True),
        (
            "print(model.width)",
            "train(get_args(), 1, 2)",
            {"a.py": "import run\nrun.train(1, 2, 3)"},
            True,
        ),
    ],
)
def test_options_that_all_calls_give(
    before: str, below: str, files: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    assert told(tmp_path, files, above=BUILDS, before=before, below=below) is expected
