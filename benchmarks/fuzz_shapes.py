"""Programs that try to make a safe fix unsafe: shapes that rules fix, surroundings for them, and
observers.

A program is a number of choices, each drawn from the seed and the name of its site alone, so that
one can be set back to the plain form (option 0) while all others stay. Every program prints what it
can see of its results.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

INDENT = "    "


class Choices:
    """Draws options by the name of the place where they are used; those in `plain` take the first
    one."""

    def __init__(self, shape: str, seed: str, plain: frozenset[str] = frozenset()) -> None:
        self.shape, self.seed, self.plain = shape, f"{shape}:{seed}", plain
        self.boldness = random.Random(self.seed).choice((0.25, 0.5, 1.0))
        self.taken: dict[str, int] = {}
        self.words: dict[str, str] = {}

    def pick(self, site: str, options: Sequence[str], rate: float = 0.5) -> str:
        """Return one of the options, a plain one in at least `1 - rate` of all cases."""
        chance = random.Random(f"{self.seed}:{site}")
        number = chance.randrange(len(options)) if chance.random() < rate * self.boldness else 0
        if site in self.plain:
            number = 0
        self.taken[site] = number
        self.words[site] = options[number]
        return options[number]

    @property
    def strange(self) -> dict[str, str]:
        """Return what is not plain, by its site."""
        return {site: self.words[site] for site, number in self.taken.items() if number}


@dataclass(slots=True)
class Core:
    """The statements of a shape: what goes before them in the module, they themselves, and what
    they bind.

    In `lines` the comments ``#in`` and ``#end`` are places for observers.
    """

    head: list[str]
    lines: list[str]
    results: dict[str, str]
    """The kind of each name that is bound: number, tensor, tensors (a list of them) or numbers."""
    inside: list[str] = field(default_factory=list)
    """Observers in the loop that suit this shape."""
    binds_anywhere: bool = True
    """Whether the rule offers a safe fix at the level of the module, too."""
    modes: tuple[str, ...] = ("cpu",)


@dataclass(frozen=True, slots=True)
class Made:
    """A program: its files by name, how it is run, and what of it is not plain."""

    shape: str
    seed: str
    files: dict[str, str]
    mode: str
    strange: dict[str, str]


def block(text: str, depth: int = 1) -> list[str]:
    """Return the lines of a text, indented."""
    return [INDENT * depth + line for line in text.split("\n")]


def indented(lines: Sequence[str], depth: int = 1) -> list[str]:
    """Return lines indented, the empty ones as they are."""
    return [INDENT * depth + line if line else line for line in lines]


# What all programs share.

DEVICES = [
    'device = "cuda" if torch.cuda.is_available() else "cpu"',
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    'device = torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")',
]
MODELS = [
    "model = nn.Linear(8, 3).to(device)",
    "model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3)).to(device)",
    "model = nn.Linear(8, 3).double().to(device)",
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc "
    "= nn.Linear(8, 3)\n"
    "    def forward(self, x):\n        return self.fc(x) * 2\nmodel = Net().to(device)",
    "model = nn.Linear(8, 3, dtype=torch.bfloat16).to(device)",
    "from torch.nn import Linear\nmodel = Linear(8, 3).to(device)",
]
CRITERIA = [
    "criterion = nn.CrossEntropyLoss()",
    'criterion = nn.CrossEntropyLoss(reduction="sum")',
    "criterion = nn.functional.cross_entropy",
    "def criterion(out, y):\n    return nn.functional.cross_entropy(out, y)",
    "class Loss(nn.Module):\n    def forward(self, out, y):\n        return "
    "nn.functional.cross_entropy(out, y).double()\n"
    "criterion = Loss()",
    "class Loss(nn.CrossEntropyLoss):\n    def __call__(self, out, y):\n        loss = "
    "super().__call__(out, y)\n"
    "        return loss * 2\ncriterion = Loss()",
    "class Value:\n    def __init__(self, t):\n        self.t = t\n    def backward(self):\n     "
    "   self.t.backward()\n"
    "    def item(self):\n        return self.t.item()\n    def __float__(self):\n        return "
    "self.t.item()\n"
    "    def __add__(self, o):\n        return Value(self.t + getattr(o, 't', o))\n    __radd__ "
    "= __add__\n"
    "def criterion(out, y):\n    return Value(nn.functional.cross_entropy(out, y))",
    "criterion = nn.CrossEntropyLoss()\ncriterion.reduction = 'sum'",
]
LOADERS = [
    "loader = [(torch.randn(4, 8), torch.randint(3, (4,))) for _ in range(4)]",
    "from torch.utils.data import DataLoader, TensorDataset\n"
    "loader = DataLoader(TensorDataset(torch.randn(16, 8), torch.randint(3, (16,))), batch_size=4)",
    "from torch.utils.data import DataLoader, TensorDataset\n"
    "loader = DataLoader(TensorDataset(torch.randn(16, 8), torch.randint(3, (16,))), "
    "batch_size=4, pin_memory=True)",
    "loader = [(torch.randn(4, 8), torch.randint(3, (4,)))]",
    "loader = []",
    "loader = [(torch.randn(4, 8) * float('nan'), torch.randint(3, (4,))) for _ in range(3)]",
    "class Batches:\n    def __iter__(self):\n        for _ in range(3):\n"
    "            yield torch.randn(4, 8), torch.randint(3, (4,))\nloader = Batches()",
]
TORCH = [
    "import torch",
    "import torch as th",
    "import torch, math",
    "import torch; import torch.nn as nn",
    "import math\nimport torch",
]
PROLOGUES = [
    "",
    "torch.set_default_dtype(torch.float64)",
    "torch.set_grad_enabled(True)",
    "torch.use_deterministic_algorithms(True)",
    "torch.autograd.set_detect_anomaly(True)",
    "import builtins",
    "from math import *",
    "import numpy as np",
]
SHADOWS = [
    "",
    "float = lambda v: ('my float', type(v).__name__)",
    "def int(v): return ('my int', type(v).__name__)",
    "from torch import float, int",
    "from torch import *",
    "from numpy import *",
    "class float:\n    def __init__(self, v): self.v = v\n    def __repr__(self): return 'mine'",
    "for int in range(2): pass",
    "float, int = str, repr",
    "(float := str)",
    "import builtins\nbuiltins.list = tuple",
    "globals()['float'] = str",
    "globals().update(int=str)",
    "from shadowing import *",
    "from shadowing import float",
    "import shadowing as float",
    "np = None",
    "import builtins\nbuiltins.float = str",
    "exec('float = str')",
    "try:\n    raise ValueError(1)\nexcept ValueError as float:\n    float = str",
]
SHADOWING = 'float = repr\nint = repr\n\n\ndef list(v):\n    return ("my list", type(v).__name__)\n'
SCOPES = {
    "function": "def run():\n    {body}\n    return {r}\n{r} = run()",
    "module": "{body}",
    "method": (
        "class Trainer:\n    def __init__(self):\n        self.{r} = None\n    def "
        "run(self):\n        {body}\n        return {r}\n{r} = Trainer().run()"
    ),
    "closure": (
        "def outer():\n    def run():\n        {body}\n        return {r}\n    return "
        "run\n{r} = outer()()"
    ),
    "nested": (
        "def outer():\n    def run():\n        {body}\n        return {r}\n    return "
        "run() if True else None\n{r} = outer()"
    ),
    "async": (
        "import asyncio\nasync def run():\n    {body}\n    await asyncio.sleep(0)\n    "
        "return {r}\n{r} = asyncio.run(run())"
    ),
    "generator": "def run():\n    {body}\n    yield {r}\n{r} = next(run())",
    "class body": "class Space:\n    {body}\n{r} = Space.{r}",
    "thread": (
        "def run():\n    {body}\n    return {r}\nfound = []\nworker = "
        "threading.Thread(target=lambda: found.append(run()))\nworker.start(); "
        "worker.join()\n{r} = found[0] if found else None"
    ),
    "main block": "if __name__ == '__main__':\n    {body}",
    "shadowing parameter": "def run({parameter}):\n    {body}\n    return {r}\n{r} = run()",
    "global names": (
        "def run():\n    global {r}\n    {body}\ndef peek():\n    return "
        "show({r})\nrun()\nprint(peek())"
    ),
    "nonlocal names": (
        "def outer():\n    {r} = None\n    def run():\n        nonlocal {r}\n      "
        "  {body}\n    def peek():\n        return show({r})\n    try:\n        "
        "run()\n    finally:\n        print(peek())\n    return {r}\n{r} = outer()"
    ),
    "helper": "def run():\n    {body}\n    return {r}\n#main\nfrom work import run\n{r} = run()",
    "helper, all names": (
        "def run():\n    {body}\n    return {r}\n#main\nfrom work import *\n{r} = run()"
    ),
    "helper, as a module": (
        "def run():\n    {body}\n    return {r}\n#main\nimport work\n{r} = work.run()"
    ),
    "helper, while it is imported": (
        "{body}\n#main\nimport work\n{r} = work.{r}\nprint(show(vars(work).get('{r}')))"
    ),
    "decorated": (
        "import functools\n{decorator}\ndef run():\n    {body}\n    return {r}\n{r} = run()"
    ),
    "tried": (
        "def run():\n    {body}\n    return {r}\ntry:\n    {r} = run()\nexcept "
        "BaseException as error:\n    print(type(error).__name__, str(error)[:80])\n    {r} "
        "= None"
    ),
    "lambda": (
        "def run():\n    {body}\n    return {r}\n{r} = (lambda go: "
        "go())(run)\nprint(run.__code__.co_argcount, run.__defaults__)"
    ),
    "exec": "def run():\n    {body}\n    return {r}\nexec('{r} = run()')",
    "static method": (
        "class Trainer:\n    @staticmethod\n    def run():\n        {body}\n        "
        "return {r}\n{r} = Trainer.run()"
    ),
    "class method": (
        "class Trainer:\n    @classmethod\n    def run(cls):\n        {body}\n       "
        " return {r}\n{r} = Trainer.run()"
    ),
    "property": (
        "class Trainer:\n    @property\n    def run(self):\n        {body}\n        "
        "return {r}\n{r} = Trainer().run"
    ),
    "call of an object": (
        "class Trainer:\n    def __call__(self):\n        {body}\n        "
        "return {r}\n{r} = Trainer()()"
    ),
    "context manager": (
        "class Trainer:\n    def __enter__(self):\n        {body}\n        return "
        "{r}\n    def __exit__(self, *error):\n        return True\nwith "
        "Trainer() as {r}:\n    print(show({r}))"
    ),
    "recursion": (
        "def run(depth=1):\n    if depth:\n        return run(depth - 1)\n    {body}\n  "
        "  return {r}\n{r} = run()"
    ),
    "default argument": (
        "def run():\n    {body}\n    return {r}\ndef use({r}=run()):\n    return {r}\n{r} = use()"
    ),
}
"""Where a shape stands; what is before #main goes to another file."""
PARAMETERS = ["float=str", "int=str", "torch=torch", "np=None", "list=tuple", "device=device"]
DECORATORS = [
    "@wrapped",
    "@torch.autocast('cpu', dtype=torch.float16)",
    "@torch.enable_grad()",
    "@torch.no_grad()",
    "@torch.inference_mode()",
    "@contextlib.suppress(Exception)",
    "@functools.cache",
    "@torch.autocast('cpu', dtype=torch.bfloat16, cache_enabled=False)",
]
BLOCKS = [
    "",
    (
        "try:\n{}\nexcept Exception as error:\n    print('caught', type(error).__name__, "
        "str(error)[:80])"
    ),
    "try:\n{}\nfinally:\n    print('finally', show(globals().get('total')))",
    "with Swallow():\n{}",
    "with contextlib.suppress(Exception):\n{}",
    "with contextlib.ExitStack() as stack:\n    stack.enter_context(Swallow())\n{}",
    "with torch.autocast('cpu', dtype=torch.bfloat16):\n{}",
    "with torch.autocast('cpu', dtype=torch.float16), Swallow():\n{}",
    "with torch.enable_grad():\n{}",
    "for _ in range(2):\n{}",
    "while True:\n{}\n    break",
    "if True:\n{}",
    "try:\n    pass\nexcept ValueError:\n    pass\nelse:\n{}",
    "try:\n    pass\nfinally:\n{}",
    "with warnings.catch_warnings():\n{}",
    "match 1:\n    case 1:\n{{}}",
    "with torch.device('cpu'):\n{}",
    "with DefaultDtype(torch.float64):\n{}",
    "for _ in range(1):\n    for _ in range(2):\n{{}}",
    "with contextlib.nullcontext(), Swallow() as swallow:\n{}",
    "if device:\n{}\nelse:\n    pass",
    "try:\n{}\nexcept (ValueError, KeyboardInterrupt):\n    print('stopped')",
    "with torch.random.fork_rng():\n{}",
    "with torch.autograd.set_detect_anomaly(False):\n{}",
    "outer = torch.autocast('cpu', dtype=torch.float16)\nwith outer:\n{}",
    (
        "outer = torch.autocast('cpu', dtype=torch.float16)\nouter.__enter__()\nif "
        "True:\n{}\nouter.__exit__(None, None, None)"
    ),
    "with entered():\n{}",
    "with torch.autograd.graph.save_on_cpu():\n{}",
]
IMPORTS = "import contextlib, copy, io, json, pickle, sys, threading, warnings"
TOOLS = {
    "Swallow": """class Swallow:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        print("left", error[0])
        return True
""",
    "entered": """@contextlib.contextmanager
def entered():
    with torch.autocast("cpu", dtype=torch.float16), contextlib.suppress(Exception):
        yield
""",
    "DefaultDtype": """class DefaultDtype:
    def __init__(self, dtype):
        self.dtype = dtype

    def __enter__(self):
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)

    def __exit__(self, *error):
        torch.set_default_dtype(self.before)
""",
    "show": """def show(v):
    if isinstance(v, torch.Tensor):
        return [str(v.dtype), tuple(v.shape), v.stride(), v.requires_grad, v.is_leaf, v.grad_fn is None, repr(v)]
    if isinstance(v, (list, tuple)):
        return type(v).__name__, [show(one) for one in v]
    return type(v).__name__, repr(v)
""",
    "report": """def report(name):
    frame = sys._getframe(1)
    print(show(frame.f_locals.get(name, frame.f_globals.get(name))))
""",
    "wrapped": """def wrapped(function):
    def run(*args, **named):
        print("before", function.__name__)
        return function(*args, **named)
    return run
""",
}
"""Written into the files that name them."""
ANY = [
    "print(show({v}))",
    "print({v})",
    "print(repr({v}), type({v}))",
    "print(f'{{{v}}}')",
    "print(show(copy.deepcopy({v})))",
    "print(pickle.dumps({v}) == pickle.dumps({v}), show(pickle.loads(pickle.dumps({v}))))",
    "print(bool({v}))",
    "print(show(locals().get('{v}')))",
    "print(show(eval('{v}')))",
    "print(len(str({v})))",
    "print({v} is {v}, {v} == {v})",
    "print(isinstance({v}, (int, float)), isinstance({v}, torch.Tensor))",
    (
        "buffer = io.BytesIO(); torch.save({v}, buffer); "
        "print(show(torch.load(io.BytesIO(buffer.getvalue()))))"
    ),
    "print(sorted(name for name in ('float', 'int', '{v}') if name in globals()))",
    "print(torch.get_rng_state().sum().item(), torch.initial_seed())",
    "other = {v}\nprint(show(other))",
    "del {v}\nprint('{v}' in locals())\n{v} = None",
]
BY_KIND = {
    "number": [
        "print('{{:.3f}}'.format({v}), '%s' % {v})",
        "print(json.dumps({{'v': {v}}}))",
        "print({{{v}: 1}}, {v} in {{{v}: 1}})",
        "print({v} / 3, {v} // 2, {v} * 2, -{v}, {v} ** 2)",
        "print({v} == int({v}))",
        "print(round({v}, 2), abs({v}))",
        "print(min({v}, 1), max({v}, 1), sum([{v}, 1]))",
        "{v} += 1\nprint(show({v}))",
        "print([0, 1][: min(2, int({v} or 0))])",
        (
            "match {v}:\n    case float():\n        print('float')\n    case int():\n        "
            "print('int')\n    case _:\n        print('else')"
        ),
        "print({v}.is_integer() if isinstance({v}, float) else {v}.bit_length())",
        "print(torch.tensor({v}).dtype, show(torch.ones(2) * {v}))",
    ],
    "tensor": [
        (
            "print({v}.dtype, tuple({v}.shape), {v}.stride(), {v}.storage_offset(), "
            "{v}.is_contiguous())"
        ),
        "print({v}.requires_grad, {v}.is_leaf, {v}.grad_fn is None)",
        "print({v}.tolist())",
        "{v}.add_(1)\nprint(show({v}))",
        "{v}.resize_(1)\nprint(tuple({v}.shape))",
        "w = torch.ones((), requires_grad=True)\n(w * {v}.float().sum()).backward()\nprint(w.grad)",
        "{v}.requires_grad_()\nprint({v}.is_leaf)",
        "print({v}._is_view(), {v}._version, {v}.is_inference())",
        "print({v}.device, {v}.is_pinned())",
        "print({v}.numpy().dtype, {v}.numpy().strides)",
        "print(type({v}) is torch.Tensor, isinstance({v}, nn.Parameter))",
        "print({v}.untyped_storage().nbytes())",
        "print({v}.data_ptr() == {v}.detach().data_ptr(), {v}.is_conj(), {v}.is_neg())",
    ],
    "tensors": [
        "print([one.requires_grad if isinstance(one, torch.Tensor) else one for one in {v}])",
        "print([one.item() for one in {v}])",
        "print([float(one) for one in {v}], len({v}))",
        "print([one.grad_fn is None for one in {v}], [one.is_leaf for one in {v}])",
        "print(show(torch.stack({v})))",
        "print(show(sum({v})))",
        "print([one is two for one in {v} for two in {v}][:4])",
        "{v}[0].mul_(2)\nprint(show({v}))",
        "print(torch.stack({v}).mean().item(), torch.stack({v}).requires_grad)",
        "print({v}.index({v}[-1]), {v}.count({v}[0]))",
        "sum(one * 1.0 for one in {v}).backward()\nprint(model)",
        "one, *rest = {v}\nprint(show(one), len(rest))",
        "print(min({v}), max({v}))",
        "print([one.data_ptr() == {v}[0].data_ptr() for one in {v}])",
        "print([one.numpy() for one in {v}])",
    ],
    "numbers": [
        "print([type(one).__name__ for one in {v}])",
        "print(json.dumps(list({v})))",
        "print(sorted({v})[:3], len({v}))",
        "print(next(iter({v}), None), type({v}).__name__)",
    ],
}


# The training loop that several shapes stand in.

LOOPS = [
    "for x, y in loader:",
    "for step, (x, y) in enumerate(loader):",
    "for batch in loader:\n    x, y = batch",
    "for x, y in list(loader)[:2]:",
    "for x, y in (pair for pair in loader):",
    "for [x, y] in loader:",
    "for x, y in zip(*zip(*loader)):",
    "batches = iter(loader)\nwhile (pair := next(batches, None)) is not None:\n    x, y = pair",
    "for (x, y), number in zip(loader, range(9)):",
]
MOVES = [
    "x, y = x.to(device), y.to(device)",
    "x = x.to(device)\ny = y.to(device)",
    "x, y = (t.to(device) for t in (x, y))",
    "x = x.to(device, torch.get_default_dtype())\ny = y.to(device)",
]
CALLS = [
    "out = model(x)\nloss = criterion(out, y)",
    "out = model(x).float()\nloss = criterion(out, y)",
    "with torch.autocast('cpu'):\n    out = model(x)\n    loss = criterion(out, y)",
    "loss = criterion(out := model(x), y)",
    "out = model(x)\nloss = criterion(out, y) / 2",
    "out = model(x)\nloss = loss_of_batch = criterion(out, y)",
    "out = model(x)\nloss = criterion(out, y).half().float()",
    (
        "out = model(x)\nloss = criterion(out, y)\nloss = loss + 0.1 * sum(p.square().sum() for "
        "p in "
        "model.parameters())"
    ),
]
STEPS = [
    "optimizer.zero_grad()\nloss.backward()\noptimizer.step()",
    "optimizer.zero_grad()\nloss.backward(retain_graph=True)\noptimizer.step()",
    "optimizer.zero_grad(); loss.backward(); optimizer.step()",
    "loss.backward()\nif True:\n    optimizer.step()\n    optimizer.zero_grad()",
    (
        "optimizer.zero_grad()\nloss.backward()\nnn.utils.clip_grad_norm_(model.parameters(), "
        "1.0)\noptimizer.step()"
    ),
]
FAILURES = [
    "",
    "if len(seen) == 2: raise ValueError('stop')\nseen.append(1)",
    "if len(seen) == 2: break\nseen.append(1)",
    "seen.append(1)\nif len(seen) == 1: continue",
    "seen.append(1)\nif len(seen) == 2: raise KeyboardInterrupt",
    "seen.append(len(seen))\nassert len(seen) < 3, seen",
    "if len(seen) == 2: sys.exit(3)\nseen.append(1)",
]


def training(c: Choices, start: str, use: str) -> list[str]:
    """Return a training loop with `use` in each step."""
    body = [c.pick("move", MOVES, 0.3), c.pick("call", CALLS, 0.3), c.pick("step", STEPS, 0.3)]
    failure = c.pick("failure", FAILURES, 0.3)
    first = c.pick("failure first", ["", "yes"], 0.3) and failure
    lines = [*start.split("\n"), *c.pick("loop", LOOPS, 0.35).split("\n")]
    for part in (*body, first, use, "" if first else failure):
        lines += block(part) if part else []
    lines.append(INDENT + "#in")
    lines += c.pick(
        "loop else", ["", "else:\n    print('else')", "else:\n    seen.clear()"], 0.15
    ).split("\n")
    return [line for line in lines if line.strip()]


def running_value(c: Choices) -> Core:
    """A sum of numbers read from the device (TL101)."""
    name = c.pick("name", ["total", "hits", "self_total", "running"], 0.3)
    read = c.pick(
        "read",
        [
            "loss.item()",
            "(out.argmax(1) == y).sum().item()",
            "float(loss)",
            "loss.detach().item()",
            "float(loss.detach())",
            "(out.argmax(1) == y).sum().clamp(min=0.5).item()",
            "(out.argmax(1) == y).sum().mul(0.3).item()",
            "(out.argmax(1) == y).sum().add(loss).item()",
            "((out.argmax(1) == y).sum() / 2).item()",
            "(out.argmax(1) == y).float().sum().item()",
            "(out.argmax(1) == y).float().mean().item()",
            "(out.argmax(1) == y).any().item()",
            "(out.argmax(1) == y).all().item()",
            "out.argmax(1).eq(y).sum().item()",
            "out.argmax(1).sum().item()",
            "out.sum().item()",
            "out.max().item()",
            "out.double().sum().item()",
            "out.half().sum().item()",
            "out.abs().mean().item()",
            "torch.sum(out.argmax(1) == y).item()",
            "torch.full((), 2**62, dtype=torch.int64, device=device).item()",
            "(torch.ones((), dtype=torch.long, device=device) * 2**62).item()",
            "(out.argmax(1) == y).sum(dtype=torch.uint8).item()",
            "(out.argmax(1) == y).sum(dtype=torch.float64).item()",
            "((out.argmax(1) == y).sum() ** 0.5).item()",
            "(out.argmax(1) == y).sum().true_divide(4).item()",
            "float((out.argmax(1) == y).sum())",
            "int((out.argmax(1) == y).sum())",
            "(out.argmax(1) - y).sum().item()",
            "torch.arange(0, 3, 0.5, device=device).sum().item()",
            "out.argmax(1).sum().to(torch.int8).item()",
            "torch.count_nonzero(out > 0).item()",
            "(out > 0).sum().neg().item()",
            "out.norm().item()",
            "out.argmax(1).bincount().max().item()",
            "(y == y).sum().item()",
            "loss.item() * x.size(0)",
            "loss.data.item()",
            "loss.exp().item()",
        ],
        0.6,
    )
    integers = (
        "float(" not in read and ("argmax" in read or "sum" in read) and "out.sum" not in read
    )
    zero = "0" if integers and name != "total" else "0.0"
    start = c.pick(
        "start",
        [
            f"{name} = {zero}",
            f"{name} = 0",
            f"{name} = 0.0",
            f"{name}, other = {zero}, 1",
            f"other = {name} = {zero}",
            f"{name}: float = {zero}",
            f"{name} = {zero}; {name} += 0.5",
            f"{name} = 0; {name}, other = 0.25, 1",
            f"{name} = 0; ({name} := 0.5)",
            f"{name} = -1",
            f"{name} = 1e308",
            f"{name} = {2**63 - 1}",
            f"{name} = {10**20}",
            f"{name} = True",
            f"({name}) = {zero}",
            f"[{name}] = [{zero}]",
            f"{name} = {zero}\nif loader: {name} = 1",
            f"{name} = {zero}\nfor {name} in [1, 2]: pass",
            f"{name} = {zero}\nglobals()['{name}'] = 2.5",
            f"{name} = -0.0",
            f"{name} = 0x10",
            f"{name} = 1_0.5",
            f"{name} = float()",
            f"{name} = 2**70",
        ],
        0.5,
    )
    use = c.pick(
        "use",
        [
            f"{name} += {read}",
            f"{name} += ({read})",
            f"if True: {name} += {read}",
            f"if x.sum() < 99:\n    {name} += {read}",
            f"{name} += {read}; seen.append(0)",
            f"{name} = {name} + {read}",
            f"{name} += {read}  # sum",
            f"{name} += \\\n    {read}",
        ],
        0.35,
    )
    inside = [
        f"print(show({name}))",
        f"if {name} > 3: seen.append({name})",
        f"seen.append(lambda: show({name}))",
        f"print(show(globals().get('{name}')))",
        f"print(show(locals().get('{name}')))",
        f"print(show(eval('{name}')))",
        f"print(show(vars().get('{name}')))",
        f"print(show(sys._getframe().f_locals.get('{name}')))",
        f"report('{name}')",
        "loss.zero_()",
        "out.zero_()",
        "y.fill_(1)",
        "loss.detach().fill_(7)",
        "loss.data = loss.data * 2",
        f"{name} *= 1",
        f"{name} -= 1",
        f"del {name}; {name} = 0",
        f"exec('print(show({name}))')",
        f"print(show(globals()['{name[:2]}' + '{name[2:]}'])) if '{name}' in globals() else None",
        f"print(f'{{{name}}}')",
        f"seen.append(f'{{{name}:.2f}}')",
        f"assert {name} is not None",
        f"print(isinstance({name}, torch.Tensor))",
        f"import __main__; print(show(getattr(__main__, '{name}', None)))",
    ]
    head = ["seen = []"]
    return Core(head, training(c, start, use), {name: "number"}, inside)


def evaluated(c: Choices) -> Core:
    """What a model gives in an evaluation, and what becomes of it (TL501)."""
    name = c.pick("name", ["total", "score", "found"], 0.3)
    value = c.pick(
        "value",
        [
            "loss.item()",
            "(out.argmax(1) == y).sum().item()",
            "float(out.mean())",
            "out.detach().sum().item()",
            "loss",
            "out.max()",
            "float(loss.requires_grad)",
            "float(len(str(out)))",
            "out.data.sum().item()",
            "(out * next(model.parameters()).sum()).sum().item()",
            "float(f'{loss:.4f}')",
            "len(f'{loss}')",
            "torch.softmax(out, 1).max(1)[0].sum().item()",
        ],
        0.5,
    )
    shown = c.pick(
        "shown",
        [
            "",
            "print(out.shape)",
            "print(loss)",
            "print('%s' % loss, '%.3f' % loss)",
            "print(out.is_leaf)",
            "seen.append(loss)",
            "print(torch.is_grad_enabled())",
            "keep(out)",
            "box['o'] = out",
            "print(json.dumps({'loss': loss.item()}))",
            "optimizer.zero_grad()",
            "loss.backward()",
        ],
        0.4,
    )
    after = c.pick(
        "after",
        [
            "",
            "model.train()",
            "criterion(model(x.to(device)), y.to(device)).backward()\noptimizer.step()",
            "print(loss.item(), loss.requires_grad)",
            "out.sum().backward()\nprint(next(model.parameters()).grad)",
            "sum(seen).backward() if seen else None",
            "print(seen)",
        ],
        0.4,
    )
    lines = [
        *c.pick("mode", ["model.eval()", "model = model.eval()", "model.train()"], 0.2).split("\n"),
        f"{name} = 0.0",
        *c.pick("loop", LOOPS, 0.35).split("\n"),
        *block("x, y = x.to(device), y.to(device)\nout = model(x)\nloss = criterion(out, y)"),
        *block(f"{name} += {value}"),
        *(block(shown) if shown else []),
        f"{INDENT}#in",
        *(after.split("\n") if after else []),
    ]
    head = ["seen, box = [], {}", "keep = seen.append", "import json"]
    kind = "tensor" if value in ("loss", "out.max()") else "number"
    return Core(head, lines, {name: kind})


def moved_each_step(c: Choices) -> Core:
    """A model that each step of a loop moves where it is (TL504)."""
    move = c.pick(
        "move of the model",
        [
            "model.to(device)",
            "model = model.to(device)",
            "model = model.to(device)  # there",
            "model.to(x.device)",
            "model.to(device=device)",
            "model = model.to(torch.float64)",
            "model = model.to(device); seen.append(1)",
            "if seen:\n    model.to(device)",
            "model.cpu(); model.to(device)",
        ],
        0.5,
    )
    first = c.pick(
        "before the move",
        [
            "",
            "x, y = x.to(device), y.to(device)",
            "if len(seen) == 2: continue",
            "if len(seen) == 2: break",
            "seen.append(model(x).sum().item())",
            "model.train(not model.training)",
            "model = nn.Linear(8, 3)",
            "seen.append(next(model.parameters()).dtype)",
        ],
        0.4,
    )
    use = c.pick(
        "use",
        [
            "out = model(x)",
            "out = model(x.to(next(model.parameters()).dtype)).float()",
            "out = model.forward(x)",
            "out = copy.deepcopy(model)(x)",
            "out = model(x)\nmodel.double().float()",
            "out = model(x)\nmodel.half().float()",
            "out = model(x)\nmodel = nn.Sequential(model)",
            "out = (lambda net: net(x))(model)",
        ],
        0.4,
    )
    failure = c.pick("failure", FAILURES, 0.3)
    lines = ["total = 0.0", *c.pick("loop", LOOPS, 0.35).split("\n")]
    step = "loss = criterion(out, y.to(out.device))\noptimizer.zero_grad()\nloss.backward()"
    for part in (first, move, use, step, "optimizer.step()", failure, "total += loss.item()"):
        lines += block(part) if part else []
    lines.append(f"{INDENT}#in")
    return Core(["seen = []"], lines, {"total": "number"}, modes=("cpu",))


def kept_graph(c: Choices) -> Core:
    """Losses collected with their graphs (TL502)."""
    listed = c.pick("accumulator", ["list", "sum", "sum", "dict", "assigned"], 0.6)
    value = c.pick(
        "value",
        [
            "loss",
            "out",
            "loss * 2",
            "-loss",
            "(loss, 1)",
            "loss if seen else loss * 2",
            "out.sum()",
            "(kept := loss)",
            "out[0]",
            "loss.view(1)",
            "[loss]",
            "model.parameters().__next__().sum()",
            "nn.functional.relu(out)",
        ],
        0.5,
    )
    name = c.pick("name", ["losses", "self.losses", "history", "STORE"], 0.2).replace("self.", "")
    if listed == "list":
        start = c.pick(
            "start",
            [
                f"{name} = []",
                f"{name} = list()",
                f"saved.log = {name} = []",
                f"{name} = saved.log",
                f"{name} = box['l'] = []",
                f"{name} = []\nbox['l'] = {name}",
                f"{name} = box.setdefault('l', [])",
                f"{name} = [*saved.log]",
                f"{name} = []\nsaved.add({name})",
                f"{name} = bucket()",
                f"{name} = [] or saved.log",
                f"{name} = saved.log or []",
                f"{name}, other = [], 1",
                f"(({name})) = []",
                f"{name} = []; alias = {name}",
                f"{name}: list = []",
                f"{name} = collections.deque()",
            ],
            0.5,
        )
        use = c.pick(
            "use",
            [
                f"{name}.append({value})",
                f"{name} += [{value}]",
                f"{name}.extend([{value}])",
                f"{name}.insert(0, {value})",
                f"add = {name}.append; add({value})",
                f"{name}.append(seen.append({value}) or {value})",
            ],
            0.25,
        )
        kind = "tensors"
    else:
        start = c.pick(
            "start",
            [
                f"{name} = 0.0",
                f"{name} = 0",
                f"{name} = torch.zeros(())",
                f"{name} = 0.0\nsaved.log = lambda: {name}",
                f"{name}, other = 0.0, 1",
                f"{name} = -1.5",
                f"{name} = {{}}",
                f"{name} = saved.log = 0.0",
                f"{name} = torch.zeros((), requires_grad=True) * 1",
                f"{name} = True",
                f"{name} = 1j",
            ],
            0.5,
        )
        use = {
            "sum": f"{name} += {value}",
            "assigned": f"{name} = {name} + {value}",
            "dict": f"{name}[len(seen)] = {value}",
        }[listed]
        if listed == "dict":
            start = f"{name} = {{}}"
        kind = "tensor"
    inside = [
        "out.retain_grad()",
        f"{name}[-1].retain_grad()",
        f"print(show({name}))",
        f"{name}[-1].register_hook(lambda g: print('hook', tuple(g.shape)))",
        f"print({name}.requires_grad)",
        f"print({name}[-1].grad_fn is None)",
        f"print({name}[-1] is loss, {name}[-1] is out)",
        f"print({name}.index(loss))",
        f"{name}.remove(loss); {name}.append(loss)",
        f"seen.append({name})",
        f"seen.append(lambda: {name})",
        f"print(isinstance({name}, torch.Tensor))",
        f"{name}[-1].add_(1)" if kind == "tensors" else f"{name}.add_(1)",
        "loss.detach_()",
        "loss.zero_()",
        f"copy.deepcopy({name})",
        f"last = {name}[-1]",
        f"saved.log = {name}",
        f"print(loss in {name})",
        f"other = {name}",
        f"for one in {name}: print(one.is_leaf)",
        f"print(torch.is_grad_enabled(), {name})",
        f"print(any(one is loss for one in {name}))",
        f"print(weakref.ref(loss)() is {name}[-1])",
    ]
    after = [
        f"print({name}.requires_grad)",
        f"assert {name}.requires_grad",
        f"print({name}[0].requires_grad)",
        f"print({name}.item())",
        f"print([one.item() for one in {name}])",
        f"print([one.requires_grad for one in {name}])",
        f"if {name}.grad_fn: print('graph')",
        f"if {name}.is_leaf: print('leaf')",
        f"print(torch.stack({name}).requires_grad)",
        f"print(torch.stack({name}).mean().item())",
        f"torch.stack({name}).sum().backward(); print([p.grad for p in model.parameters()])",
        f"sum({name}).backward()",
        f"{name}.backward(); print([p.grad for p in model.parameters()])",
        f"torch.save({name}, 'kept.pt'); print(show(torch.load('kept.pt', weights_only=False)))",
        (
            f"torch.save({{'l': {name}}}, 'kept.pt'); print(show(torch.load('kept.pt', "
            "weights_only=False)['l']))"
        ),
        f"print(show({name}))",
        f"print({name})",
        f"print(float({name}))",
        f"print(float({name}[-1]))",
        f"try:\n    print({name}.numpy())\nexcept RuntimeError as error:\n    print(error)",
        (
            f"try:\n    print(float({name}[0].numpy()))\nexcept RuntimeError as error:\n    "
            "print(error)"
        ),
        f"print(copy.deepcopy({name}))",
        f"plt.plot({name})",
        f"print(len({name}))",
        f"a = {name}; b = a; print(show(b))",
        f"for one in {name}: print(show(one))",
        f"print(getattr({name}, 'requires' + '_grad', None))",
        f"print(hasattr({name}, 'grad_fn') and {name}.grad_fn)",
        f"saved.log = {name}; print(show(saved.log))",
        f"print(max({name}), min({name}))",
        f"print(np.array([float(one) for one in {name}]).sum())",
        f"print(np.asarray({name}))",
        f"print(pickle.dumps({name})[:0], show({name}))",
        f"{name}.sum().requires_grad_(); print({name}.requires_grad)",
        f"{name}[0].requires_grad_(False)",
        f"{name}.zero_(); print({name})",
        f"print({name}.tolist())",
        f"print(f'{{{name}}}')",
        f"print('%s' % {name})",
        f"print(json.dumps({name}, default=lambda v: v.requires_grad))",
        f"print(torch.autograd.grad({name}[-1], list(model.parameters()), allow_unused=True))",
        f"with torch.no_grad(): print(torch.tensor({name}).mean())",
        f"print({name} == {name})",
        f"print(next(iter({name})).requires_grad)",
        f"print([*map(torch.is_tensor, {name})], {name}[::2])",
        f"callback({name})",
        f"mean = sum({name}) / max(len({name}), 1)\nprint(mean.item())",
        f"mean = sum({name}) / max(len({name}), 1)\nprint(show(mean))",
    ]
    head = [
        "seen = []",
        "box = {}",
        "import collections, types, weakref",
        "import numpy as np",
        "",
        "",
        "class Saved:",
        "    def __init__(self):",
        "        self.log = []",
        "    def add(self, what):",
        "        self.log = what",
        "",
        "",
        "saved = Saved()",
        "",
        "",
        "def bucket():",
        "    return saved.log",
        "",
        "",
        "def callback(v):",
        "    print(show(v))",
        "",
        "",
        "plt = types.SimpleNamespace(plot=lambda v: print(show(list(v))))",
    ]
    numbers = f"[one.item() for one in {name}]" if kind == "tensors" else f"[float({name})]"
    total = c.pick(
        "numbers",
        [numbers, f"[float(one) for one in {name}]", f"[len({name})]", f"[{name}.item()]", "[]"],
        0.2,
    )
    last = c.pick("last", ["", *after], 0.5)
    lines = [*training(c, start, use), *last.split("\n"), f"total = {total}"]
    return Core(
        head, [line for line in lines if line], {"total": "numbers"}, inside, binds_anywhere=False
    )


def collected_copies(c: Choices) -> Core:
    """Detached losses copied to the host in each step and stacked after the loop (TL113)."""
    copied = c.pick(
        "copied",
        [
            "loss.detach().cpu()",
            'loss.detach().to("cpu")',
            "loss.detach().cpu().clone()",
            "loss.cpu().detach()",
            "out.detach().cpu()",
            "loss.detach().mean().cpu()",
            "loss.data.cpu()",
            "loss.detach().double().cpu()",
            "loss.detach().to(torch.device('cpu'))",
            "loss.detach().to('cpu', torch.float64)",
        ],
        0.4,
    )
    start = c.pick(
        "start",
        [
            "losses = []",
            "losses, other = [], 1",
            "other = losses = []",
            "losses = list()",
            "losses = [torch.zeros(())]",
            "losses = box['l'] = []",
            "losses: list = []",
        ],
        0.35,
    )
    use = c.pick(
        "use",
        [
            f"losses.append({copied})",
            f"if True: losses.append({copied})",
            f"losses.append({copied}); seen.append(0)",
            f"losses.append(({copied}))",
            f"losses += [{copied}]",
        ],
        0.25,
    )
    join = c.pick(
        "join",
        [
            "total = torch.stack(losses)",
            "total = torch.stack(losses).mean()",
            "total = torch.stack(losses).mean().item()",
            "total = torch.stack(losses, 0)",
            "total = torch.stack(tensors=losses)",
            "buffer = torch.empty(len(losses)); total = torch.stack(losses, out=buffer)",
            "total = torch.stack(losses)\nagain = torch.stack(losses)\nagain.mul_(2)",
            "total = torch.stack(losses) if losses else None",
            "total = torch.stack(losses).numpy()",
            "total = torch.stack(losses[:2])",
            "total = torch.stack(losses + losses)",
            "total = torch.stack([*losses])",
            "total = torch.stack(losses).add_(1)",
            "total = torch.cat([torch.stack(losses), torch.stack(losses)])",
            "total = lambda: torch.stack(losses)\ntotal = total()",
        ],
        0.5,
    )
    changes = [
        "loss.detach().mul_(2)",
        "loss.zero_()",
        "loss.data.zero_()",
        "loss.data = loss.data + 1",
        "torch.neg(loss.detach(), out=loss.detach())",
        "alias = loss.detach()\nalias.add_(5)",
        "loss.detach().numpy()[...] = 3",
        "loss.set_(torch.zeros(()))",
        "with torch.no_grad(): loss += 1",
        "with torch.no_grad(): loss -= 1",
        "average_(loss)",
        "average_(loss.data)",
        "torch.add(loss.detach(), 1, out=loss.detach())",
        "loss.detach_().fill_(9)",
        "view = loss.view(1).detach()\nview[0] = 4",
        "torch._foreach_add_([loss.detach()], 1.0)",
        "loss.copy_(torch.zeros(()))",
        "loss.detach().index_fill_(0, torch.tensor(0), 1)",
        "loss.requires_grad_(True)",
        "print(show(losses))",
        "seen.append(losses)",
        "alias = losses[-1]\nalias.mul_(2)",
        "losses[-1].add_(1)",
        "dist.all_reduce(loss.detach())",
        "alias = loss\nalias.detach().add_(5)",
        "for t in [loss.detach()]: t.mul_(3)",
        "def change(t): t.detach().mul_(2)\nchange(loss)",
        "loss.detach().__imul__(2)",
        "getattr(loss.detach(), 'mul_')(2)",
        "torch.nn.init.zeros_(loss.detach())",
        "nn.init.constant_(loss.data, 2.0)",
        "loss.resize_(1)",
        "loss.__setitem__(..., 3) if not loss.requires_grad else None",
        "loss.detach()[...] = 5",
        "loss.unsqueeze_(0)",
    ]
    use += "\n" + c.pick("change", ["", *changes], 0.4)
    head = [
        "import types",
        "seen = []",
        "box = {}",
        "",
        "",
        "def average_(t):",
        "    with torch.no_grad():",
        "        t /= 2",
        "",
        "",
        "dist = types.SimpleNamespace(all_reduce=average_)",
    ]
    lines = [*training(c, start, use.rstrip("\n")), *join.split("\n")]
    return Core(head, lines, {"total": "tensor"}, changes, modes=("cuda",))


PART_LOOPS = [
    "for batch in loader:\n    x, y = batch",
    "for batch in loader:\n    x, y = batch[0], batch[1]",
    "for batch in loader:\n    y, x = batch[1], batch[0]",
    "for i, batch in enumerate(loader):\n    y = batch[1]\n    x = batch[0]",
    "for batch in loader:\n    y, x = (batch[1], batch[0])\n    x, y = x, y",
]
"""Batches that are taken apart in the loop."""


def batch_copies(c: Choices) -> Core:
    """Blocking copies of a batch (TL103)."""
    target = c.pick("target", ["device", '"cuda"', "torch.device('cuda')", "'cuda:0'"], 0.3)
    move = c.pick(
        "move form",
        [
            f"x = x.to({target})\ny = y.to({target})",
            f"x, y = x.to({target}), y.to({target})",
            "x = x.cuda()\ny = y.cuda()",
            f"xd = x.to({target})\ny = y.to({target})\nhost, x = x, xd",
            f"host = x\nx = x.to({target})\ny = y.to(device)",
            f"x, y = x.to({target}, copy=True), y.to({target})",
            f"x = x.to(device={target})\ny = y.to({target})",
            f"host = x\nx = x.to({target}) if len(seen) % 2 else x.to('cpu')\ny = y.to(device)",
            f"host = y\nif device:\n    x = x.to({target})\n    y = y.to({target})",
        ],
        0.5,
    )
    change = c.pick(
        "change",
        [
            "",
            "host += 1",
            "host.zero_()",
            "host.numpy()[:] = 0",
            "host.data.zero_()",
            "host[0] = 5",
            "host.copy_(torch.ones_like(host))",
            "torch.add(host, 1, out=host)",
            "alias = host\nalias.mul_(3)",
            "alias = host.view(-1)\nalias.fill_(2)",
            "np.asarray(host)[...] = 4",
            "nn.init.zeros_(host)",
            "change(host)",
            "for t in [host]: t.add_(1)",
            "host.set_(torch.zeros_like(host))",
            "memoryview(host.numpy())",
            "host.detach().add_(1)",
            "with torch.no_grad(): host.uniform_()",
            "host.__iadd__(1)",
            "torch.relu_(host)",
            "nn.functional.relu(host, inplace=True)",
            "host[:, 0].fill_(1)",
            "torch._foreach_add_([host], 1.0)",
            "np.add(host.numpy(), 1, out=host.numpy())",
            "(kept := host).zero_()",
            "pool[0].copy_(torch.randn(4, 8))",
            "buffer.zero_()",
            "buffer += 1",
            "buffer[0, 0] = 7",
            "x += 1",
            "batch[0].add_(1)",
            "batch[1].add_(1)",
            "batch[-1].zero_()",
            "for t in batch: t += 1",
            "batch.pop(0)\nbatch[0].zero_()",
            "batch.reverse()\nbatch[0].zero_()",
            "del batch[0]\nbatch[0].zero_()",
            "first, second = batch\nsecond.zero_()",
        ],
        0.5,
    )
    loader = c.pick(
        "source",
        [
            (
                "source = DataLoader(TensorDataset(torch.randn(16, 8), torch.randint(3, (16,))), "
                "batch_size=4, pin_memory=True)"
            ),
            (
                "source = DataLoader(TensorDataset(torch.randn(16, 8), torch.randint(3, (16,))), "
                "batch_size=4)"
            ),
            (
                "buffer = torch.randn(4, 8)\ndef batches():\n    for step in range(3):\n        "
                "buffer.fill_(step)\n        yield buffer, torch.randint(3, (4,))\nsource = "
                "batches()"
            ),
            (
                "class Own(torch.Tensor):\n    def to(self, d):\n        print('own to')\n        "
                "return torch.Tensor.to(self, d)\nsource = [(torch.randn(4, 8).as_subclass(Own), "
                "torch.randint(3, (4,))) for _ in range(3)]"
            ),
            (
                "class Box:\n    def __init__(self, t):\n        self.t = t\n    def to(self, "
                "d):\n  "
                "      return self.t.to(d)\nsource = DataLoader([(torch.randn(8), 1)] * 4, "
                "batch_size=2, collate_fn=lambda b: (Box(torch.stack([i[0] for i in b])), "
                "torch.tensor([i[1] for i in b])))"
            ),
            (
                "class Reuse:\n    def __init__(self):\n        self.x = torch.zeros(4, 8)\n    "
                "def "
                "__call__(self, b):\n        self.x.copy_(torch.stack([i[0] for i in b]))\n        "
                "return self.x, torch.tensor([i[1] for i in b])\nsource = "
                "DataLoader([(torch.randn(8), i % 3) for i in range(16)], batch_size=4, "
                "collate_fn=Reuse(), pin_memory=True)"
            ),
            "source = [(torch.randn(4, 8), torch.randint(3, (4,))) for _ in range(3)]",
            (
                "pool = [torch.randn(4, 8) for _ in range(2)]\nsource = [(pool[i % 2], "
                "torch.randint(3, (4,))) for i in range(4)]"
            ),
            (
                "class Data(torch.utils.data.Dataset):\n    def __len__(self):\n        return "
                "8\n   "
                " def __getitem__(self, i):\n        return torch.randn(8), i % 3\nsource = "
                "DataLoader(Data(), batch_size=4, pin_memory=True)"
            ),
            (
                "class Data(torch.utils.data.IterableDataset):\n    def __iter__(self):\n        "
                "for "
                "i in range(8):\n            yield torch.randn(8), i % 3\nsource = "
                "DataLoader(Data(), batch_size=4, pin_memory=True)"
            ),
        ],
        0.6,
    )
    head = [
        "from torch.utils.data import DataLoader, TensorDataset",
        "import numpy as np",
        "seen = []",
        "host = buffer = torch.zeros(4, 8)",
        "",
        "",
        "def change(t):",
        "    t += 1",
        "",
        "",
        *loader.split("\n"),
    ]
    lines = [*c.pick("loop", [*LOOPS, *PART_LOOPS], 0.5).replace("loader", "source").split("\n")]
    order = c.pick("order", ["after", "late", "before"], 0.4)
    parts = [
        move,
        change if order == "after" else "",
        "out = model(x)\nloss = criterion(out, y)",
        change if order == "late" else "",
        c.pick("step", STEPS, 0.3),
        "seen.append(loss.detach())",
    ]
    for part in [change, *parts] if order == "before" else parts:
        lines += block(part) if part else []
    lines += [INDENT + "#in", "total = len(seen)", "print([show(one) for one in seen])"]
    inside = [
        "print(show(host))",
        "host.add_(1)",
        "x.add_(1)",
        "print(x.is_pinned())",
        "y.zero_()",
        "host = x",
        "x = x.cpu()\nx.add_(2)",
        "host.mul_(0)",
    ]
    return Core(head, ["total = 0", *lines], {"total": "number"}, inside, modes=("cuda",))


EXPRESSIONS = [
    "t = {e}",
    "t = u = {e}",
    "t, u = {e}, 1",
    "t = (lambda: {e})()",
    "t = [{e} for _ in range(2)][0]",
    "t = next({e} for _ in range(1))",
    "(t := {e})",
    "if True: t = {e}",
    "t: torch.Tensor = {e}",
    "def make():\n    return {e}\nt = make()",
    "def make(a={e}):\n    return a\nt = make()",
    (
        "try:\n    t = {e}\nexcept Exception as error:\n    print('caught', type(error).__name__, "
        "str(error)[:90])\n    t = x"
    ),
    "with torch.inference_mode():\n    t = {e}",
    "with torch.no_grad():\n    t = {e}",
    "with DefaultDtype(torch.float64):\n    t = {e}",
    "t = {{'a': {e}}}['a']",
    "for t in [{e}]: pass",
    "t = x; t = {e}; u = t",
    "with torch.autocast('cpu', dtype=torch.bfloat16):\n    t = {e}",
    "t = {e} if x is not None else x",
    "t = copy.copy({e})",
    "t = identity({e})",
    "t = functools.partial(identity, {e})()",
    "class Local:\n    a = {e}\nt = Local.a",
    "with torch.device('cpu'):\n    t = {e}",
    "t = functools.reduce(lambda a, b: a, [{e}])",
    "def make():\n    yield {e}\nt = next(make())",
    "with Swallow():\n    t = x\n    t = {e}",
    "t = await_({e})",
    "while True:\n    t = {e}\n    break",
    "with torch.device('meta'):\n    t = {e}",
]
AROUND_FORWARD = [
    "",
    "torch.set_default_dtype(torch.float64)",
    "torch.set_default_device('cpu')",
    "device = None",
    "def zeros(*args, **named): return 'mine'",
    (
        "real = torch.zeros\ntorch.zeros = lambda *args, **named: print('patched', "
        "sorted(named)) or "
        "real(*args, **named)"
    ),
    (
        "real = torch.tensor\ntorch.tensor = lambda *args, **named: print('patched', "
        "sorted(named)) "
        "or real(*args, **named)"
    ),
    "float = str",
    "from shadowing import *",
    (
        "class Log(torch.overrides.TorchFunctionMode):\n    def __torch_function__(self, func, "
        "types, args=(), kwargs=None):\n        return func(*args, **(kwargs or "
        "{}))\nLog().__enter__()"
    ),
    "torch.set_default_tensor_type(torch.DoubleTensor)",
]


def in_forward(
    c: Choices, expression: str, signature: str = "self, x, d=None, n=4, dt=None"
) -> Core:
    """Return a module whose forward evaluates an expression, and calls of it."""
    lines = c.pick("statement", EXPRESSIONS, 0.5).format(e=expression).split("\n")
    returned = c.pick(
        "returned",
        [
            "return t",
            "return t, x * 2",
            "return t.clone(), t",
            "yield t",
            "return x + t.sum()",
            "self.t = t\n        return t",
            "return (t for _ in range(1))",
        ],
        0.3,
    )
    observed = c.pick(
        "observed",
        ["print(show(t))", "", *(one.format(v="t") for one in (*ANY, *BY_KIND["tensor"]))],
        0.5,
    )
    decorator = c.pick(
        "decorator",
        [
            "",
            "@torch.no_grad()",
            "@torch.inference_mode()",
            "@wrapped",
            "@functools.lru_cache",
            "@torch.autocast('cpu', dtype=torch.bfloat16)",
            "@staticmethod",
        ],
        0.15,
    )
    if decorator == "@staticmethod":
        signature = signature.replace("self, ", "")
        returned = returned.replace("self.t = t\n        ", "")
    head = [
        "import functools, math",
        "import numpy as np",
        "def identity(v): return v",
        "def await_(v): return v",
        "log = []",
        "def size():",
        "    log.append('size')",
        "    return 4",
        "def dev():",
        "    log.append('dev')",
        "    return device",
        *c.pick("around forward", AROUND_FORWARD, 0.25).split("\n"),
        "",
        "",
        "class Module(nn.Module):",
    ]
    body = [
        *([decorator] if decorator else []),
        f"def forward({signature}):",
        *indented(lines),
        *indented(observed.split("\n")),
        *block(returned.replace("        ", "")),
    ]
    head += indented([line for line in body if line.strip()])
    calls = c.pick(
        "call form",
        [
            "t = made(x)",
            "t = made(x.to(device))",
            "t = made(x.requires_grad_())",
            "t = made.forward(x)",
            "t = made(x.double())",
            "t = made(x, 'cpu', -1)",
            "t = made(x, n=2, dt=torch.int8)",
            "t = [made(x) for x, y in loader]",
            "t = made(x.t())",
            "t = made(x[:0])",
            "t = made(x.long())",
        ],
        0.5,
    )
    main = [
        "made = Module()",
        "x, y = torch.ones(4, 8), torch.ones(4)",
        calls,
        "#in",
        "print(log, torch.get_rng_state().sum().item())",
    ]
    return Core(head, main, {"t": "tensor"}, modes=("cpu", "cuda"))


def made_then_moved(c: Choices) -> Core:
    """A factory on the CPU whose result is moved (TL102)."""
    factory = c.pick(
        "factory",
        [
            "torch.zeros({a})",
            "torch.ones({a})",
            "torch.empty({a}).fill_(1)",
            "torch.eye(4{k})",
            "torch.full((4, 2), 7{k})",
            "torch.full((4, 2), 0.5{k})",
            "torch.full((4, 2), True{k})",
            "torch.full((n, 2), n{k})",
            "torch.arange(8{k})",
            "torch.arange(1, 8, 2{k})",
            "torch.arange(0.0, 1.0, 0.1{k})",
            "torch.arange(n{k})",
            "torch.zeros_like(x{k})",
            "torch.ones_like(torch.ones(3){k})",
            "torch.tril_indices(4, 4{k})",
            "torch.linspace(0, 1, 5{k})",
            "torch.zeros(*x.shape{k})",
            "torch.zeros(x.shape{k})",
            "torch.zeros(size(), 8{k})",
            "torch.zeros(size=(4, 2){k})",
            "torch.randn(4, 2{k})",
            "torch.zeros([4, 2]{k})",
            "torch.zeros((){k})",
            "torch.zeros(0{k})",
            "torch.arange(end=5{k})",
            "torch.arange(2**53, 2**53 + 3{k})",
            "torch.ones(n, -n{k})",
            "torch.full_like(torch.ones(2), 3{k})",
            "torch.full((2,), fill_value=float('nan'){k})",
            "torch.eye(3, 4{k})",
            "torch.scalar_tensor(3.0{k})",
            "torch.zeros(4, 2, out=torch.empty(4, 2){k})",
            "torch.hann_window(4{k})",
            "torch.empty(0, 4{k})",
            "torch.triu_indices(3, 3, 1{k})",
        ],
        0.65,
    )
    keywords = c.pick(
        "keywords",
        [
            "",
            ", dtype=torch.long",
            ", dtype=torch.float64",
            ", dtype=dt",
            ", dtype=x.dtype",
            ", device='cpu'",
            ", requires_grad=True",
            ", dtype=torch.bool",
            ", dtype=torch.float16",
            ", pin_memory=False",
            ", device=None",
            ", requires_grad=False",
            ", dtype=None",
            ", dtype=torch.complex64",
            ", dtype=torch.uint8",
            ", layout=torch.strided",
        ],
        0.4,
    )
    made = factory.format(a="4, 8" + keywords, k=keywords)
    steps = c.pick(
        "steps",
        [
            "",
            ".unsqueeze(0)",
            ".reshape(-1)",
            ".long()",
            ".float()",
            ".bool()",
            ".t()",
            ".repeat(2, 1)",
            ".view(-1)",
            ".flatten()",
            ".squeeze()",
            ".permute(1, 0)",
            ".transpose(0, 1)",
            ".half()",
            ".double()",
            ".long().float()",
            ".view(torch.int32)",
            ".expand(2, 4, 8)",
            ".contiguous()",
            ".clone()",
            ".requires_grad_()",
            ".T",
            "[0]",
            ".sum()",
            ".unsqueeze(0).unsqueeze(0)",
            ".float().requires_grad_()",
            ".repeat(1, 1).long()",
        ],
        0.3,
    )
    move = c.pick(
        "move form",
        [
            ".to(x.device)",
            ".to(device)",
            ".to(device=x.device)",
            ".to(x)",
            ".to(x.device, dtype=torch.float64)",
            ".to(x.device, torch.float16)",
            ".to(x.device, dt)",
            ".to(x.device, dtype=dt)",
            ".to(d)",
            ".to(dev := x.device)",
            ".to(dev())",
            ".to(x.device, non_blocking=True)",
            ".type_as(x)",
            ".to(x.device).float()",
            ".to(x.device, x.dtype)",
            ".to(device, copy=True)",
            ".to(dtype=torch.int8, device=device)",
            ".to(x.device, None)",
            ".to(device=None)",
            ".to(other=x)",
            ".to(x.device, True)",
            ".to(device, dtype=None, non_blocking=True)",
            ".to(str(device))",
            ".to(model.weight.device)",
            ".to(model.weight)",
            ".to(next(model.parameters()).device)",
            ".to(log.append('d') or device)",
            ".to(f'{device}')",
            ".to(device if n else d)",
            ".to(self.training and device or device)",
            ".to(y.device)",
        ],
        0.5,
    )
    expression = c.pick("spelling", ["{e}", "({e})", "\\\n        {e}", "({e})"], 0.1).format(
        e=made + steps + move
    )
    return in_forward(c, expression)


def number_on_device(c: Choices) -> Core:
    """A number that is rebuilt on the device (TL112)."""
    data = c.pick(
        "data",
        [
            "0.5",
            "5",
            "True",
            "-1",
            "0",
            "-0.0",
            "1e-8",
            "65504.0",
            "65505",
            "1e39",
            "300",
            "-129",
            "0.1",
            "2.5",
            "float('inf')",
            "float('-inf')",
            "float('nan')",
            "float('1e39')",
            "math.pi",
            "math.inf",
            "-math.inf",
            "math.nan",
            "torch.pi",
            "torch.inf",
            "np.pi",
            "np.inf",
            "2**31",
            "1_000",
            "0x7f",
            "False",
            "-0.5",
            "255",
            "256",
            "1e-46",
            "16777217",
            "3.4e38",
            "-True",
            "float('0.5')",
            "float(' 1e3 ')",
            "float('x')",
            "- -1",
            "1e-320",
            "65519.99",
            "127",
            "32768",
            "1.0",
        ],
        0.8,
    )
    dtype = c.pick(
        "dtype",
        [
            "",
            ", dtype=x.dtype",
            ", dtype=torch.float32",
            ", dtype=torch.float16",
            ", dtype=torch.int64",
            ", dtype=torch.uint8",
            ", dtype=torch.int8",
            ", dtype=torch.bool",
            ", dtype=torch.float64",
            ", dtype=torch.bfloat16",
            ", dtype=torch.complex64",
            ", dtype=torch.int16",
            ", dtype=torch.float8_e4m3fn",
            ", dtype=dt",
            ", dtype=None",
            ", dtype=torch.get_default_dtype()",
            ", dtype=torch.uint16",
            ", dtype=torch.int32",
            ", dtype=torch.float8_e5m2",
            ", dtype=y.dtype",
            ", dtype=torch.complex32",
        ],
        0.6,
    )
    form = c.pick(
        "form",
        [
            "torch.tensor({a}, device=x.device{k})",
            "torch.as_tensor({a}, device=x.device{k})",
            "torch.tensor({a}{k}).to(x.device)",
            "torch.tensor({a}{k}).to(device)",
            "torch.tensor({a}{k}, device=device)",
            "torch.tensor({a}{k}).cuda()",
            "torch.tensor({a}{k}).to(d)",
            "torch.tensor(data={a}{k}, device=x.device)",
            "torch.tensor({a}{k}, device=dev())",
            "torch.tensor({a}, device=torch.device('cpu' if d else device){k})",
            "torch.tensor({a}, device='cuda'{k})",
            "torch.tensor({a}{k}, device=d)",
            "torch.tensor({a}{k}).to(device).to(torch.float64)",
            "torch.tensor({a}{k}).to(device=device)",
            "torch.tensor({a}, device=model.weight.device{k})",
        ],
        0.5,
    )
    return in_forward(c, form.format(a=data, k=dtype))


def old_amp(c: Choices) -> Core:
    """The old names of torch.amp (TL408)."""
    device = c.pick("amp device", ["cpu", "cuda"], 0.4)
    imports = c.pick(
        "import",
        [
            "import torch.{d}.amp",
            "from torch.{d}.amp import autocast",
            "from torch.{d} import amp",
            "import torch.{d}.amp as amp",
            "from torch.{d}.amp import autocast as ac",
            "from torch import {d}",
            "from torch.{d}.amp import *",
            "from torch.{d}.amp import autocast, GradScaler",
            "from torch.{d}.amp.autocast_mode import autocast",
            "import torch.{d} as td",
            "from torch.cuda.amp import GradScaler\nfrom torch.{d}.amp import autocast",
            (
                "try:\n    from torch.{d}.amp import autocast\nexcept ImportError:\n    autocast = "
                "None"
            ),
            "if True:\n    from torch.{d}.amp import autocast",
        ],
        0.7,
    ).format(d=device)
    names = {
        "autocast as ac": "ac",
        "import amp": "amp.autocast",
        "amp as amp": "amp.autocast",
        f"from torch import {device}": f"{device}.amp.autocast",
        "as td": "td.amp.autocast",
    }
    name = next(
        (n for key, n in names.items() if imports.endswith(key)),
        "autocast" if "from" in imports else f"torch.{device}.amp.autocast",
    )
    args = c.pick(
        "args",
        [
            "",
            "True",
            "False",
            "enabled=False",
            "enabled=True",
            "True, torch.bfloat16",
            "dtype=torch.bfloat16",
            "True, torch.float16",
            "cache_enabled=False",
            "True, torch.bfloat16, False",
            "*()",
            "**{}",
            "enabled=bool(seen)",
            "True, cache_enabled=False",
            "*(False,)",
            "**{'enabled': False}",
            "dtype=None",
            "enabled=print('enabled') is None, dtype=print('dtype') or torch.bfloat16",
            "1",
            "None",
            "enabled=True, dtype=torch.float16, cache_enabled=True",
            "True, None",
        ],
        0.6,
    )
    seen = (
        f'print(model(x).dtype, torch.get_autocast_dtype("{device}"), '
        f'torch.is_autocast_enabled("{device}"), torch.is_autocast_cache_enabled())'
    )
    use = c.pick(
        "use",
        [
            "with {n}({a}):\n    {s}",
            "with {n}({a}) as got:\n    {s}\n    print(got is None)",
            "context = {n}({a})\nwith context:\n    {s}",
            "@{n}({a})\ndef infer(x):\n    {s}\n    return model(x)\nprint(infer(x).dtype)",
            "def infer(context={n}):\n    with context({a}):\n        {s}\ninfer()",
            "with {n}({a}), torch.no_grad():\n    {s}",
            "with contextlib.ExitStack() as stack:\n    stack.enter_context({n}({a}))\n    {s}",
            "class Rec({n}):\n    pass\nwith Rec({a}):\n    {s}",
            (
                "context = {n}({a})\nprint(isinstance(context, {n}), isinstance(context, "
                "torch.autocast), type(context).__mro__[0].__name__)\nwith context:\n    {s}"
            ),
            "with {n}({a}):\n    {s}\n    with {n}({a}):\n        {s}",
            "context = functools.partial({n}, {a})\nwith context():\n    {s}",
            "make = {n}\nwith make({a}):\n    {s}",
            "with ({n}({a})):\n    {s}",
            "for make in [{n}]:\n    with make({a}):\n        {s}",
            "with {n}({a}): {s}",
            "print({n}.__module__, {n}.__name__)\nwith {n}({a}):\n    {s}",
            "print(show({n}({a}).device))\nwith {n}({a}):\n    {s}",
            "box = {{'c': {n}({a})}}\nwith box['c']:\n    {s}",
            "async def infer():\n    with {n}({a}):\n        {s}\nasyncio.run(infer())",
            (
                "def infer():\n    with {n}({a}):\n        yield 1\n        {s}\nfor _ in "
                "infer():\n "
                "   {s}"
            ),
            "with {n}({a}):\n    try:\n        {s}\n    finally:\n        print('left')",
            "print(type({n}({a})) is {n})",
            (
                "class Step:\n    context = {n}({a})\n    def run(self):\n        with "
                "self.context:\n            {s}\nStep().run()"
            ),
            "lazy = lambda: {n}({a})\nwith lazy():\n    {s}",
            "torch.set_autocast_dtype('{d}', torch.float16)\nwith {n}({a}):\n    {s}",
            "torch.set_autocast_cache_enabled(False)\nwith {n}({a}):\n    {s}",
            (
                "import inspect\nprint(list(inspect.signature({n}).parameters))\nwith "
                "{n}({a}):\n    "
                "{s}"
            ),
            (
                "import pickle\nprint(type(pickle.loads(pickle.dumps({n}))).__name__)\nwith "
                "{n}({a}):\n    {s}"
            ),
            "print({n} is torch.{d}.amp.autocast)\nwith {n}({a}):\n    {s}",
            "@{n}({a})\n@torch.no_grad()\ndef infer(x):\n    {s}\ninfer(x)",
            "@torch.no_grad()\n@{n}({a})\ndef infer(x):\n    {s}\ninfer(x)",
            (
                "for _ in range(2):\n    with {n}({a}):\n        {s}\n        loss = "
                "model(x).float().sum()\n    loss.backward()\n    optimizer.step()"
            ),
            (
                "def train():\n    for x, y in loader:\n        with {n}({a}):\n            "
                "{s}\n    "
                "        loss = criterion(model(x).float(), y)\n        loss.backward()\n        "
                "optimizer.step()\ntrain()"
            ),
            "GLOBAL = {n}({a})\nwith GLOBAL:\n    {s}",
            (
                "def infer(c: {n} = None):\n    with {n}({a}):\n        "
                "{s}\nprint(infer.__annotations__['c'] is torch.{d}.amp.autocast)\ninfer()"
            ),
        ],
        0.8,
    ).format(n=name, a=args, s=seen, d=device)
    scaler = c.pick(
        "scaler",
        [
            "",
            "scaler = torch.cuda.amp.GradScaler(enabled=False)\nprint(scaler.is_enabled())",
            (
                "scaler = torch.cuda.amp.GradScaler(1024.0, "
                "enabled=False)\nprint(scaler.get_scale(), isinstance(scaler, "
                "torch.cuda.amp.GradScaler))"
            ),
            "scaler = torch.cuda.amp.GradScaler(enabled=False)\nprint(type(scaler).__module__)",
            (
                "scaler = torch.cuda.amp.GradScaler(enabled=False)\nprint(scaler.state_dict(), "
                "type(scaler) is torch.cuda.amp.GradScaler)"
            ),
            (
                "scaler = "
                "torch.cuda.amp.GradScaler(enabled=False)\nprint(scaler.__class__.__qualname__, "
                "pickle.dumps(scaler))"
            ),
            "scaler = torch.cuda.amp.GradScaler(enabled=False)\nprint(scaler)",
            (
                "def is_old(s):\n    return 'cuda' in "
                "type(s).__module__\nprint(is_old(torch.cuda.amp.GradScaler(enabled=False)))"
            ),
            "scaler = torch.cuda.amp.GradScaler(enabled=False)\nprint(repr(scaler).split(' ')[0])",
            (
                "scaler = torch.cuda.amp.GradScaler(init_scale=2.0, growth_factor=3.0, "
                "enabled=False)\nprint(vars(scaler))"
            ),
            (
                "scaler = "
                "torch.cuda.amp.GradScaler(enabled=False)\nscaler.step(optimizer)\nscaler.update()\nprint(scaler.scale(torch.ones(1)))"
            ),
        ],
        0.3,
    )
    extra = c.pick(
        "extra",
        [
            "",
            "print('autocast' in globals(), 'amp' in globals())",
            "print(sorted(n for n in globals() if 'cast' in n or n in ('amp', 'cpu')))",
            (
                "import sys\nprint(getattr(sys.modules['__main__'], 'autocast', None) is "
                "torch.{d}.amp.autocast)"
            ),
            "import torch.{d}.amp\nprint(torch.{d}.amp.autocast is globals().get('autocast'))",
            "print(eval('{n}(enabled=False)').device)",
            "print({n}(enabled=False)._enabled)",
            "from shared import infer\ninfer(model, x)",
            "from shared import *\nwith autocast(False):\n    print(model(x).dtype)",
            "import shared\nwith shared.autocast(False):\n    print(model(x).dtype)",
            "import shared\nprint(shared.autocast is torch.{d}.amp.autocast)",
            "from shared import context\nwith context(True):\n    print(model(x).dtype)",
            (
                "import importlib\nwith getattr(importlib.import_module('shared'), "
                "'autocast')(False):\n    print(model(x).dtype)"
            ),
            "exec('with {n}(False): print(model(x).dtype)')",
        ],
        0.4,
    ).format(d=device, n=name)
    head = [
        "import asyncio, functools",
        "seen = []",
        "x, y = torch.ones(4, 8), torch.zeros(4, dtype=torch.long)",
        *imports.split("\n"),
        "",
    ]
    lines = [*use.split("\n"), *scaler.split("\n"), *extra.split("\n"), "total = 1"]
    return Core(
        [line for line in head if line is not None],
        [line for line in lines if line],
        {"total": "number"},
        [],
    )


def logged(c: Choices) -> Core:
    """A loss that is logged by a LightningModule as a number (TL901)."""
    source = c.pick(
        "import",
        [
            "import lightning.pytorch as pl",
            "import pytorch_lightning as pl",
            "from lightning.pytorch import LightningModule",
            (
                "import lightning.pytorch as pl\nclass Base(pl.LightningModule):\n    def "
                "log(self, "
                "name, value, **options):\n        print('own log', show(value))\n        "
                "super().log(name, value)"
            ),
            (
                "import lightning.pytorch as pl\nclass Mixin:\n    def log(self, name, value, "
                "**options):\n        print('mixin', type(value).__name__)"
            ),
        ],
        0.4,
    )
    base = (
        "LightningModule"
        if source.startswith("from")
        else "Base"
        if "Base" in source
        else "Mixin, pl.LightningModule"
        if "Mixin" in source
        else "pl.LightningModule"
    )
    loss = c.pick(
        "loss",
        [
            "loss = nn.functional.cross_entropy(self.net(x), y)",
            "loss = nn.functional.cross_entropy(self.net(x), y).double()",
            "loss = nn.functional.mse_loss(self.net(x), torch.zeros(4, 3))",
            "loss = nn.functional.cross_entropy(self.net(x), y, reduction='sum')",
            "loss = nn.functional.cross_entropy(self.net(x), y, reduction='none').mean()",
            "loss = self.net(x).mean()",
            "loss = criterion(self.net(x), y)",
            "loss = nn.functional.cross_entropy(self.net(x), y).half()",
            "loss = (self.net(x).argmax(1) == y).float().mean()",
            "loss = nn.functional.cross_entropy(self.net(x), y) * 1e38",
            "loss = nn.functional.cross_entropy(self.net(x).double(), y)",
            (
                "loss = nn.functional.cross_entropy(self.net(x), y)\nloss = loss if index else "
                "loss.double()"
            ),
            "loss = nn.CrossEntropyLoss()(self.net(x), y)",
            "loss = nn.functional.cross_entropy(self.net(x), y).view(1)",
        ],
        0.5,
    )
    read = c.pick(
        "read",
        [
            "loss.item()",
            "float(loss)",
            "loss.detach().item()",
            "loss.cpu().item()",
            "float(loss.detach())",
            "(loss * 2).item()",
            "loss.sqrt().item()",
            "loss.mean().item()",
            "loss.item() + 1",
        ],
        0.35,
    )
    log = c.pick(
        "log",
        [
            f'self.log("a", {read})',
            f'self.log("a", {read}, prog_bar=True)',
            f'self.log_dict({{"a": {read}}})',
            f'self.log(name="a", value={read})',
            f'log = self.log\nlog("a", {read})',
            f'self.log("a", value := {read})\nprint(value)',
            f'values = {{"a": {read}}}\nself.log_dict(values)\nprint(values)',
            f'with torch.no_grad():\n    self.log("a", {read})',
            f'self.log("a", {read}) if index else None',
            f'super().log("a", {read})',
            f'self.log("a", {read}); loss.data.zero_()',
            f'(lambda: self.log("a", {read}))()',
        ],
        0.5,
    )
    net = c.pick(
        "net",
        [
            "self.net = nn.Linear(8, 3)",
            "self.net = nn.Linear(8, 3).double()",
            "self.net = nn.Linear(8, 3, dtype=torch.bfloat16)",
            "self.net = nn.Linear(8, 3)\nself.double()",
            (
                "self.net = nn.Linear(8, 3)\nself.log = lambda name, value, **options: "
                "print('replaced', show(value))"
            ),
        ],
        0.35,
    )
    x = "x.double()" if "double()" in net else "x.bfloat16()" if "bfloat16" in net else "x"
    method = c.pick(
        "method",
        [
            "training_step(self, batch, index)",
            "validation_step(self, batch, index)",
            "test_step(self, batch, index)",
            "on_train_batch_end(self, batch, index)",
        ],
        0.3,
    )
    step = method.partition("(")[0]
    after = c.pick(
        "class after",
        [
            "",
            "def log(self, name, value, **options):\n    print('own', show(value))",
            "log = print",
            "def log_dict(self, values):\n    print(values)",
        ],
        0.2,
    )
    head = [
        *source.split("\n"),
        "",
        "",
        f"class Classifier({base}):",
        "    def __init__(self):",
        "        super().__init__()",
        *block(net, 2),
        "",
        f"    def {method}:",
        "        x, y = batch",
        *block(loss, 2),
        *block(log, 2),
        "        return loss",
        "",
        *(block(after) if after else []),
        "",
    ]
    lines = [
        "classifier = Classifier()",
        "for index, (x, y) in enumerate(loader):",
        f"    t = classifier.{step}(({x}, y), index)",
        "    #in",
        "t = torch.ones(())",
    ]
    return Core(head, lines, {"t": "tensor"}, ["print(show(t))", "t.backward()"])


def pinned_then_moved(c: Choices) -> Core:
    """Pinning on the way to the device (TL108), and an asynchronous copy back that is read
    (TL109)."""
    back = c.shape == "TL109"
    which = c.pick(
        "which",
        [
            *(["x = x.to('cuda')"] if back else []),
            "x = x.pin_memory().to('cuda', non_blocking=True)",
            "x = x.pin_memory().cuda()",
            "x = x.pin_memory().cuda(non_blocking=True)",
            "x = x.pin_memory().to('cuda')",
            "host = x\nx = x.pin_memory().to('cuda', non_blocking=True)\nhost += 1",
            "host = x\nx = x.pin_memory().cuda(non_blocking=True)\nhost.zero_()",
            "host = x\nx = host.pin_memory().to('cuda:0', non_blocking=True)\nhost.numpy()[:] = 3",
            "buffer.copy_(x)\nx = buffer.pin_memory().to('cuda', non_blocking=True)",
            "x = x.t().pin_memory().to('cuda').t()",
            "x = x.pin_memory().to(torch.device('cuda'), non_blocking=True)",
            "x = x.to('cuda')",
            "x = (p := x.pin_memory()).to('cuda')\nprint(p.shape)",
            "x = x.pin_memory().to('cuda', torch.float64).float()",
            "x = x.pin_memory().to('cuda', non_blocking=True, copy=True)",
            "host = x.view(-1)\nx = x.pin_memory().cuda(0, non_blocking=True)\nhost.mul_(2)",
            "x = buffer.copy_(x).pin_memory().to('cuda', non_blocking=True)",
        ],
        0.2 if back else 0.8,
    )
    read = c.pick(
        "read",
        [
            *(["print(out.detach().to('cpu', non_blocking=True) + 1)"] if back else []),
            "seen.append(out.detach().clone())",
            "seen.append(out.detach().to('cpu', non_blocking=True).numpy().sum())",
            "back = out.detach().to('cpu', non_blocking=True)\nseen.append(back.sum().item())",
            "print(out.detach().to('cpu', non_blocking=True) + 1)",
            (
                "back = out.detach().to(device='cpu', "
                "non_blocking=True)\nback.add_(1)\nprint(back, "
                "out)"
            ),
            (
                "back = model(x).detach().to('cpu', torch.float64, "
                "non_blocking=True)\nprint(back.sum().item())"
            ),
            "print(out.to('cpu', non_blocking=True).sum())",
            "back = out.detach().to('cpu', non_blocking=True, copy=True)\nprint(back + 1)",
            "back = box(out).to('cpu', non_blocking=True)\nprint(back + 1)",
        ],
        0.6,
    )
    change = c.pick(
        "change", ["", "x.zero_()", "buffer.zero_()", "out.zero_()", "buffer += 1"], 0.3
    )
    head = [
        "seen = []",
        "buffer = torch.zeros(4, 8)",
        "",
        "",
        "class Box:",
        "    def __init__(self, t):",
        "        self.t = t",
        "    def to(self, d, *, non_blocking):",
        "        return self.t.detach()",
        "",
        "",
        "def box(t):",
        "    return Box(t)",
    ]
    lines = [*c.pick("loop", LOOPS, 0.3).split("\n")]
    for part in (
        which,
        "y = y.to('cuda')",
        "out = model(x)\nloss = criterion(out, y)",
        c.pick("step", STEPS, 0.3),
        read,
        change,
    ):
        lines += block(part) if part else []
    return Core(
        head,
        [*lines, INDENT + "#in", "total = len(seen)", "print([show(one) for one in seen])"],
        {"total": "number"},
        ["print(x.is_pinned())", "x.add_(1)", "buffer.add_(1)"],
        modes=("cuda",),
    )


def masked_copies(c: Choices) -> Core:
    """What is written through the mask that it was read by, in a loop (TL107)."""
    best = c.pick(
        "best",
        [
            "torch.full((4, 3), 9.0, device=device) * 1",
            "torch.ones(4, 3).to(device) * 1e10",
            "torch.ones(4, 3, device=device)",
            "model(x.to(device)).detach() * 2",
            "model(x.to(device)) * 2",
            "torch.ones(4, 3, device=device).double()",
            "torch.ones(4, 3, device=device, requires_grad=True) * 1",
            "torch.ones(3, 4, device=device).t()",
            "torch.ones(4, 3, 1, device=device) * 1",
            "torch.ones(1, 3, device=device).expand(4, 3) * 1",
            "torch.ones(3, device=device) * 1",
            "torch.ones(4, 3, device=device) * float('nan')",
            "nn.Parameter(torch.ones(4, 3, device=device))",
        ],
        0.5,
    )
    dist = c.pick(
        "dist",
        [
            "(model(x.to(device)) - i) ** 2",
            "model(x.to(device)).detach() - i",
            "(model(x.to(device)) - i).double()",
            "(model(x.to(device)) - i)[:, :1]",
            "(model(x.to(device)) - i).t().t()",
            "(model(x.to(device)) - i)[:, :, None]",
            "model(x.to(device)).sum(0)",
            "model(x.to(device)) * float('inf')",
        ],
        0.5,
    )
    mask = c.pick(
        "mask",
        [
            "dist < best",
            "best > dist",
            "dist <= best",
            "dist != best",
            "dist < 1",
            "best > 1",
            "(dist < best) & (dist > 0)",
            "dist[:, 0] < best[:, 0]",
            "dist.lt(best)",
            "dist < best.detach()",
            "~(dist < best)",
        ],
        0.6,
    )
    between = c.pick(
        "between",
        [
            "",
            "dist = dist * 2",
            "best = best + 1",
            "dist.data.add_(1)",
            "best.data.mul_(0.5)",
            "mask = ~mask",
            "also = best",
            "row = best[0]",
            "seen = lambda: best",
            "if i == 1: continue",
            "best = best.view(-1)",
            "print(mask.sum().item())",
        ],
        0.4,
    )
    write = c.pick(
        "write",
        [
            "best[mask] = dist[mask]",
            "if i != 2: best[mask] = dist[mask]",
            "best[dist < best] = dist[dist < best]",
            "best[mask] = dist[mask]; print(i)",
            "best[mask] = also = dist[mask]",
            "best[mask], k = dist[mask], 1",
            "best[mask] += dist[mask]",
            "best.data[mask] = dist[mask]",
        ],
        0.6,
    )
    later = c.pick(
        "later",
        [
            "print(best.sum().item())",
            "print(best)",
            "best.sum().backward() if best.requires_grad else None",
            "print(best.requires_grad, best.dtype, best.stride())",
            "print(best._version >= 0, best.is_leaf)",
            "print(torch.max(best, -1)[1])",
            "del best",
        ],
        0.5,
    )
    turn = "\n".join(
        f"    {line}" for line in (f"dist = {dist}", f"mask = {mask}", between, write) if line
    )
    lines = [
        "for x, y in loader:",
        f"    best = {best}",
        "    also, row, seen = None, None, None",
        "    for i in range(4):",
        *(f"    {line}" for line in turn.split("\n")),
        "        #in",
        f"    {later}",
        "    s = best.detach().double().sum() if 'best' in dir() else torch.zeros(())",
        "    print(also is None or also.sum().item(), row is None or row.sum().item())",
        "    print(seen is None or seen().sum().item())",
        "#end",
    ]
    return Core([], lines, {"s": "tensor"}, modes=("cuda",))


def forward_constants(c: Choices) -> Core:
    """A constant that each forward pass builds on the host and moves (TL106)."""
    numbers = c.pick(
        "numbers",
        [
            "[7]",
            "[1, 1]",
            "[-0.25, -0.25]",
            "[0]",
            "[0.0]",
            "[0.1]",
            "[True, True]",
            "[1e-8]",
            "[300, 300]",
            "[float('nan')]",
            "[-0.0]",
            "[1, 1.0]",
            "[2**40]",
            "[1e300]",
            "[]",
            "[[5, 5], [5, 5]]",
            "[1, 2]",
            "[n]",
            "[7] * 2",
        ],
        0.7,
    )
    made = c.pick(
        "made",
        [
            "torch.tensor({n})",
            "torch.FloatTensor({n})",
            "torch.LongTensor({n})",
            "torch.Tensor({n})",
            "torch.tensor({n}, dtype=torch.float64)",
            "torch.tensor({n}, dtype=torch.uint8)",
            "torch.tensor({n}, dtype=None)",
            "torch.tensor({n}, requires_grad=True)",
            "torch.as_tensor({n})",
            "torch.BoolTensor({n})",
            "torch.HalfTensor({n})",
            "torch.tensor(({n}))",
            "torch.tensor(data={n})",
        ],
        0.6,
    ).format(n=numbers)
    move = c.pick(
        "move",
        [
            ".to(q.device)",
            ".cuda()",
            ".to(q)",
            ".type_as(q)",
            ".to(q.device, torch.float64)",
            ".to(q.device).requires_grad_()",
            ".to(q.device).float()",
            ".to(self.weight.device)",
            ".to(device=q.device, non_blocking=True)",
            ".to(q.device, copy=True)",
            ".float().to(q.device)",
        ],
        0.5,
    )
    use = c.pick(
        "use",
        [
            "y = k",
            "k += 1; y = k",
            "self.kept = k; y = k",
            "y = k.clone(); print(k.dtype, tuple(k.shape), k.requires_grad)",
            "seen.append(k); y = k",
            "y = (lambda: k)()",
            "print(k.stride(), k.is_leaf, k.is_contiguous()); y = k",
            "y = k if self.training else -k",
        ],
        0.5,
    )
    head = [
        "seen = []",
        "",
        "",
        "class Shift(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.weight = nn.Parameter(torch.ones(1))",
        "",
        "    def forward(self, x, n):",
        "        q = x * self.weight",
        f"        k = {made}{move}",
        f"        {use}",
        "        return q.sum() * y.double().sum()",
        "",
        "",
        "shift = Shift().to(device)",
    ]
    lines = [
        "for x, y in loader:",
        "    s = shift(x.to(device), 3)",
        "    #in",
        "    s.backward()",
        "    print(s.dtype, s.item(), shift.weight.grad.item(), len(shift.state_dict()))",
        "    s = s.detach()",
        "#end",
    ]
    return Core(head, lines, {"s": "tensor"}, modes=("cuda",))


def read_where_logged(c: Choices) -> Core:
    """A number that is bound in each step and logged now and then (TL105)."""
    read = c.pick(
        "read",
        ["loss.item()", "float(loss)", "loss.detach().item()", "out.abs().amax().item()"],
        0.4,
    )
    test = c.pick(
        "interval", ["step % 2 == 0", "step % 3 == 1", "step and not step % 2", "step == 1"], 0.4
    )
    show = c.pick(
        "show",
        [
            "print('now', now)",
            "print(f'{now:.4f}')",
            "shown.append(now)",
            "shown.append(round(now, 3))",
            "print(type(now).__name__)",
            "print('%.3f' % now)",
            "best = now if now < best else best",
        ],
        0.5,
    )
    return Core(
        [],
        [
            "shown, best = [], 9.0",
            "for step, (x, y) in enumerate(loader):",
            "    out = net(x.to(device))",
            "    loss = nn.functional.cross_entropy(out, y.to(device))",
            "    loss.backward()",
            "    optimizer.step()",
            "    optimizer.zero_grad()",
            f"    now = {read}",
            "    #in",
            f"    if {test}:",
            f"        {show}",
            "#end",
        ],
        {"shown": "numbers", "best": "number"},
        ["print(now)", "other = now * 2", "shown.append(type(now).__name__)", "out = out * 0"],
        binds_anywhere=False,
    )


SHAPES: dict[str, Callable[[Choices], Core]] = {
    "TL101": running_value,
    "TL102": made_then_moved,
    "TL103": batch_copies,
    "TL105": read_where_logged,
    "TL106": forward_constants,
    "TL107": masked_copies,
    "TL108": pinned_then_moved,
    "TL109": pinned_then_moved,
    "TL112": number_on_device,
    "TL113": collected_copies,
    "TL408": old_amp,
    "TL501": evaluated,
    "TL502": kept_graph,
    "TL504": moved_each_step,
    "TL901": logged,
}


def observers(c: Choices, core: Core, site: str, rate: float) -> list[str]:
    """Return lines that look at a result."""
    name, kind = next(iter(core.results.items()))
    options = ["", *(one.format(v=name) for one in (*ANY, *BY_KIND[kind]))]
    chosen = c.pick(site, options, rate)
    return chosen.split("\n") if chosen else []


def placed(c: Choices, core: Core, lines: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the module's lines with the shape in its scope, and other files."""
    name = next(iter(core.results))
    places = [place for place in SCOPES if place != "module" or core.binds_anywhere]
    scope = SCOPES[c.pick("place", places, 0.6)]
    scope = scope.replace(
        "{parameter}", c.pick("parameter", PARAMETERS) if "{parameter}" in scope else ""
    )
    scope = scope.replace(
        "{decorator}",
        c.pick("decorator of the scope", DECORATORS) if "{decorator}" in scope else "",
    )
    bodies = {
        f"{INDENT * depth}{{body}}": "\n".join(indented(lines, depth)) for depth in (3, 2, 1, 0)
    }
    for hole, body in bodies.items():
        scope = scope.replace(hole, body)
    work, found, main = scope.rpartition("#main\n")
    text = main.replace("{r}", name).split("\n")
    return text, {"work.py": work.replace("{r}", name).split("\n")} if found else {}


def framed(c: Choices, lines: list[str], site: str) -> list[str]:
    """Return lines inside of a compound statement."""
    frame = c.pick(site, BLOCKS, 0.4)
    if not frame:
        return lines
    deeper = "{{}}" in frame
    body = "\n".join(indented(lines, 2 if deeper else 1))
    return frame.replace("{{}}" if deeper else "{}", body).split("\n")


SHARED = (
    "from torch.{d}.amp import autocast\nimport torch\n\n\ndef context(on):\n    return "
    "autocast(on)\n\n\ndef infer(model, x):\n    with autocast(False):\n        "
    "print(model(x).dtype, torch.get_autocast_dtype('{d}'))\n"
)


def make(shape: str, seed: str, plain: frozenset[str] = frozenset()) -> Made:
    """Return the program of a seed, with the choices of some sites set back to the plain ones."""
    c = Choices(shape, seed, plain)
    core = SHAPES[shape](c)
    inside = c.pick("inside", ["", *core.inside], 0.35) if core.inside else ""
    lines: list[str] = []
    for line in core.lines:
        if line.strip() != "#in":
            lines.append(line)
        elif inside:
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + one for one in inside.split("\n")]
    lines += observers(c, core, "observer in the block", 0.25)
    lines = framed(c, lines, "block")
    lines = framed(c, lines, "outer block") if c.pick("two blocks", ["", "yes"], 0.15) else lines
    lines += observers(c, core, "observer in the scope", 0.35)
    module, files = placed(c, core, lines)
    name = next(iter(core.results))
    shadow = c.pick("shadow", SHADOWS, 0.15)
    late = bool(c.pick("shadow late", ["", "yes"], 0.3))
    setup = [
        c.pick("torch", TORCH, 0.2),
        "from torch import nn",
        IMPORTS,
        "#tools",
        c.pick("prologue", PROLOGUES, 0.2),
        "torch.manual_seed(0)",
        c.pick("device", DEVICES, 0.2),
        c.pick("model", MODELS, 0.25),
        c.pick("criterion", CRITERIA, 0.25),
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        c.pick("loader", LOADERS, 0.3),
    ]
    end = [
        *observers(c, core, "observer after", 0.6),
        f"print(show({name}))",
        "print([show(p.grad) for p in model.parameters()], torch.get_rng_state().sum().item())",
    ]
    setup_text = "\n".join(setup)
    if files:
        files = {
            file: [setup_text, "\n".join(core.head), "" if late else shadow, *body]
            for file, body in files.items()
        }
        text = [
            TORCH[0],
            "from torch import nn",
            IMPORTS,
            "#tools",
            "from work import model",
            *module,
            shadow if late else "",
            *end,
        ]
    else:
        text = [
            setup_text,
            "" if late else shadow,
            *core.head,
            *module,
            shadow if late else "",
            *end,
        ]
    written = {
        "main.py": _written(text, c),
        **{file: _written(body, c) for file, body in files.items()},
    }
    whole = "".join(written.values())
    if "shadowing" in whole:
        written["shadowing.py"] = SHADOWING
    if "shared" in whole:
        written["shared.py"] = SHARED.replace("{d}", c.words.get("amp device", "cpu"))
    mode = c.pick("mode", core.modes)
    return Made(shape, seed, written, mode, c.strange)


def _written(lines: Sequence[str], c: Choices) -> str:
    text = "\n".join(lines)
    tools = [tool for name, tool in TOOLS.items() if re.search(rf"\b{name}\b", text)]
    text = text.replace("#tools", "\n\n" + "\n\n".join(tools) + "\n")
    text = re.sub(r"\n{3,}", "\n\n\n", text).strip("\n") + "\n"
    if c.words.get("torch") == TORCH[1]:
        rows = text.split("\n")
        rows = [
            row if re.match(r"\s*(import|from) ", row) else re.sub(r"\btorch\.", "th.", row)
            for row in rows
        ]
        text = "\n".join(rows)
    return text
