"""Programs that try to tell a safe fix from what stood there: run before and after it, they print
the same.

Each is written to make the rewrite of one rule visible: somebody looks while the sum is a tensor, a
name means something else, a number does not fit. Most get no safe fix any more; `SURVIVING` are
ordinary ones that still get theirs.
"""

from __future__ import annotations

import contextlib
import io
import sys
import textwrap
import warnings

import numpy as np
import pytest

from tests.checking import check, fixed

torch = pytest.importorskip("torch")

START = """\
import torch
import torch.nn.functional as F
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 3).to(device)
criterion = nn.CrossEntropyLoss()
loader = [(torch.randn(4, 8), torch.randint(3, (4,))) for _ in range(3)]
"""
STEP = """\
x, y = x.to(device), y.to(device)
out = model(x)
loss = criterion(out, y)
loss.backward()
"""


def program(body: str) -> str:
    """Return a program; a line ``STEP`` stands for one step of training, indented like it."""
    lines = []
    for line in textwrap.dedent(body).splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += textwrap.indent(STEP, indent).splitlines() if line.strip() == "STEP" else [line]
    return START + "\n".join(lines) + "\n"


def printed(source: str) -> str:
    """Return what a program prints, and the exception that ends it."""
    torch.manual_seed(0)
    np.random.seed(0)
    out = io.StringIO()
    main, threads = sys.modules["__main__"], torch.get_num_threads()
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else what a program before this one was warned of is not said
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(source, "program.py", "exec"), module.__dict__)  # noqa: S102 - our own programs, run to compare
    except Exception as error:  # it is part of what is compared
        out.write(f"{type(error).__name__}: {error}")
    finally:
        sys.modules["__main__"] = main
        torch.set_num_threads(threads)
        torch.set_warn_always(always)
    return out.getvalue()


def rewritten(source: str) -> str:
    """Return a program with all its safe fixes."""
    report = fixed(source, "safe")
    assert not [note for note in report.notes if note.kind.value == "failed"]
    return report.after if report.before != report.after else source


RUNNING_SUMS = {
    "a context manager of the program's own ends the loop": """
        class Guard:
            def __enter__(self): return self
            def __exit__(self, *error): return True
        def run():
            total = 0.0
            with torch.enable_grad(), Guard():
                for x, y in loader:
                    STEP
                    total += loss.item()
                    1 / 0
            return total
        print(run())
        """,
    "suppress under another name ends the loop": """
        from contextlib import suppress as quiet
        total = 0.0
        with quiet(KeyError):
            for x, y in loader:
                STEP
                total += loss.item()
                {}[1]
        print(total)
        """,
    "a callback of an ExitStack ends the loop": """
        import contextlib
        def run():
            total = 0.0
            with contextlib.ExitStack() as stack:
                stack.push(lambda *error: True)
                for x, y in loader:
                    STEP
                    total += loss.item()
                    raise RuntimeError
            return total
        print(run())
        """,
    "the else of the loop goes on with the loop around it": """
        for epoch in range(2):
            total = 0.0
            for x, y in loader:
                STEP
                total += loss.item()
            else:
                continue
            print("never")
        print(total)
        """,
    "a generator waits in the middle of the loop": """
        def run():
            total = 0.0
            for x, y in loader:
                STEP
                total += loss.item()
                yield
        steps = run()
        next(steps)
        print(steps.gi_frame.f_locals["total"])
        """,
    "a function looks into the frame that called it": """
        import sys
        def show(): print(sys._getframe(1).f_locals["total"])
        def run():
            total = 0.0
            for x, y in loader:
                STEP
                total += loss.item()
                show()
        run()
        """,
    "globals has another name": """
        look = globals
        total = 0.0
        def show(): print("{total}".format(**look()))
        for x, y in loader:
            STEP
            total += loss.item()
            show()
        """,
    "float is a parameter": """
        def run(float=None):
            total = 0.0
            for x, y in loader:
                STEP
                total += loss.item()
            return total
        print(run())
        """,
    "float is bound further down": """
        def run():
            total = 0.0
            for x, y in loader:
                STEP
                total += loss.item()
            float = 3
            return total, float
        print(run())
        """,
    "float is captured by a pattern": """
        def run(value):
            total = 0.0
            match value:
                case [float, _]:
                    pass
            for x, y in loader:
                STEP
                total += loss.item()
            return total
        print(run([str, 2]))
        """,
    "int is a class": """
        class int:
            def __init__(self, value): pass
            def __repr__(self): return "mine"
        hits = 0
        for x, y in loader:
            STEP
            hits += (out.argmax(1) == y).sum().item()
        print(hits)
        """,
    "a function rebinds the global float": """
        def rebind():
            global float
            float = str
        rebind()
        total = 0.0
        for x, y in loader:
            STEP
            total += loss.item()
        print(repr(total))
        """,
    "the start value is changed on its own line": """
        hits = 0; hits += 0.5
        for x, y in loader:
            STEP
            hits += (out.argmax(1) == y).sum().item()
        print(hits)
        """,
    "a walrus changes the start value": """
        hits = 0; (hits := 0.5)
        for x, y in loader:
            STEP
            hits += (out.argmax(1) == y).sum().item()
        print(hits)
        """,
    "a pattern changes the start value": """
        hits = 0
        match [0.5]:
            case [hits]:
                pass
        for x, y in loader:
            STEP
            hits += (out.argmax(1) == y).sum().item()
        print(hits)
        """,
    "the start value is a starred list": """
        first, *hits = 0, 0
        for x, y in loader:
            STEP
            hits += (out.argmax(1) == y).sum().item()
        """,
    "the start value does not fit 64 bits": """
        hits = 99999999999999999999
        for x, y in loader:
            STEP
            hits += (out.argmax(1) == y).sum().item()
        print(hits)
        """,
    "the sum does not fit 64 bits": """
        hits = 0
        for x, y in loader:
            STEP
            hits += (y + 2**62).sum().item()
        print(hits)
        """,
    "the count is changed in place by another name": """
        hits = 0
        for x, y in loader:
            STEP
            count = (out.argmax(1) == y).sum()
            alias = count
            alias += 2**62
            hits += count.item()
        print(hits)
        """,
    "clamping makes floats of integers": """
        hits = 0
        for x, y in loader:
            STEP
            hits += (out.argmax(1) == y).sum().clamp(min=0.5).item()
        print(hits)
        """,
    "the criterion is given by the caller": """
        class Result:
            def item(self): return 1.25
            def backward(self): pass
        def run(criterion):
            total = 0.0
            for x, y in loader:
                STEP
                total += loss.item()
            return total
        print(run(nn.CrossEntropyLoss()), run(lambda a, b: Result()))
        """,
    "the criterion's forward is replaced": """
        class Result:
            def item(self): return 1.5
            def backward(self): pass
        criterion.forward = lambda a, b: Result()
        total = 0.0
        for x, y in loader:
            STEP
            total += loss.item()
        print(total)
        """,
    "a mode watches the operations": """
        from torch.overrides import TorchFunctionMode
        class Log(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                print(getattr(function, "__name__", "?"))
                return function(*args, **(kwargs or {}))
        def run():
            total = 0.0
            for x, y in loader:
                STEP
                total += loss.item()
        with Log():
            run()
        """,
    "only the first sum is an inference tensor": """
        def run():
            total = 0.0
            for step, (x, y) in enumerate(loader):
                with torch.inference_mode(not step):
                    loss = F.cross_entropy(model(x.to(device)), y.to(device))
                    total += loss.item()
            return total
        print(run())
        """,
}
_PAD = """
        class Pad(nn.Module):
            def forward(self, x, dtype=None):
                return {made}
        pad = Pad()
        for x, y in loader:
            for dtype in (None, torch.int8):
                made = pad(x.to(device), dtype)
                print(made.dtype, made.tolist())
        """
FACTORIES = {
    f"the factory {made}": _PAD.format(made=made)
    for made in (
        "torch.ones(4, dtype=torch.int16).to(x.device, dtype)",
        "torch.ones(4, dtype=torch.int16).to(x.device, dtype=dtype)",
        "torch.eye(2, dtype=torch.bool).to(dtype=dtype, device=x.device)",
        "torch.eye(2).to(x.device, torch.uint16)",
        "torch.full((2,), 1e30).long().to(x.device)",
        "torch.zeros(4).to(place := x.device)",
    )
} | {
    "functions that are wrapped in a loop": """
        def count(holder, names):
            for name in names:
                real = getattr(holder, name)
                setattr(holder, name, lambda *a, _real=real, _name=name, **k: print(_name, len(k)) or _real(*a, **k))

        kept = torch.ones
        count(torch, ["ones"])
        try:
            for x, y in loader:
                STEP
                print(torch.ones(4).to(x.device))
        finally:
            torch.ones = kept
        """,  # noqa: E501
    "a star import gives the device another meaning": """
        def run():
            for x, y in loader:
                print(torch.zeros(4).to(device))

        from torch import *
        for x, y in [(torch.zeros(4, 8), torch.zeros(4).long())]:
            out = model(x)
        run()
        """,
    "an import gives the device another meaning": """
        from math import pi as device

        def run():
            for x, y in loader:
                criterion(model(x), y).backward()
                print(torch.zeros(4).to(device))
                print(torch.tensor(0.5, device=device))
        run()
        """,
    "a default device without data": """
        def pad(x):
            return torch.zeros(4).to(x.device)

        for x, y in loader:
            STEP
            with torch.device("meta"):
                try:
                    print(pad(x))
                except NotImplementedError as error:
                    print(error)
        """,
}
_NUMBER = """
        class Margin(nn.Module):
            def forward(self, x, dtype=None):
                return {made}
        margin = Margin()
        for x, y in loader:
            for dtype in (None, torch.float32, torch.uint8, torch.int64, torch.uint64):
                try:
                    print(repr(margin(x.to(device), dtype)))
                except Exception as error:
                    print(type(error).__name__, error)
        """
NUMBERS = {
    f"the number {made}": _NUMBER.format(made=made)
    for made in (
        "torch.tensor(300, device=x.device, dtype=torch.uint8)",
        "torch.tensor(-0.5, device=x.device, dtype=torch.uint8)",
        "torch.tensor(255.5, device=x.device, dtype=torch.uint8)",
        "torch.tensor(float('1e39'), device=x.device)",
        "torch.tensor(float('inf'), device=x.device, dtype=torch.int32)",
        "torch.tensor(torch.nan, device=x.device, dtype=torch.long)",
        "torch.tensor(float('-inf'), device=x.device, dtype=dtype)",
        "torch.tensor(0.5, device=x.device, dtype=dtype)",
        "torch.tensor(-1, device=x.device, dtype=dtype)",
        "torch.tensor(200, device=x.device, dtype=dtype)",
        "torch.tensor(2**63, device=x.device)",
    )
}
_ARRAYS = """
        import numpy as np
        empty, two, three = (), (2,), (3,)
        def stacked():
            return torch.tensor({given})
        made = stacked()
        print(made.dtype, made.shape, made.stride(), made.tolist())
        """
ARRAYS = {
    f"the arrays {given}": _ARRAYS.format(given=given)
    for given in (
        "[np.full(two, np.nan), np.ones(two)], dtype=torch.int64",
        "[np.full(two, 300, dtype=np.int64), np.ones(two, np.int64)], dtype=torch.uint8",
        "[np.full(two, 2**53 + 1, dtype=np.int64), np.zeros(two, np.int64)], dtype=torch.float32",
        "[np.identity(2, np.int64), np.eye(2, None, 0, np.float32)]",
        (
            "[np.linspace(0, 1, 2, True, False, np.float32), np.linspace(0, 5, 2, True, False, "
            "np.int64)]"
        ),
        "[np.zeros(empty), np.ones(empty)]",
        "[np.zeros(two), np.ones(three)]",
        "[np.zeros((2, 3), np.float64, 'F'), np.ones((2, 3), np.float64, 'F')]",
        "[np.eye(3, 2), np.eye(3)]",
        "[np.linspace(0, 1, 3, True, True), np.linspace(0, 1, 3, True, True)]",
        "[np.zeros((0, 2)), np.ones((0, 2))]",
        "[np.zeros(0), np.ones(0)]",
    )
} | {
    "np.stack is replaced": """
        import numpy as np
        np.vstack, np.stack, kept = None, None, (np.vstack, np.stack)
        try:
            print(torch.tensor([np.zeros(3), np.ones(3)]))
        finally:
            np.vstack, np.stack = kept
        """,
    "the array is reinterpreted": """
        import numpy as np
        def run():
            row = np.ones(2)
            row.dtype = np.int64
            return torch.tensor([row, np.ones(2)])
        print(run())
        """,
    "the arrays are replaced": """
        import numpy as np
        kept = np.zeros, np.float32
        np.zeros, np.float32 = (lambda *a, **k: [1.0, 2.0, 3.0]), np.float64
        try:
            print(torch.tensor([np.zeros(3), np.zeros(3)]))
            print(torch.tensor([np.ones(3, dtype=np.float32), np.ones(3, dtype=np.float32)], dtype=torch.float32))
        finally:
            np.zeros, np.float32 = kept
        """,  # noqa: E501
    "a maker is patched": """
        import numpy as np
        from unittest import mock
        with mock.patch("numpy.ones", lambda *a: [1, 2]):
            print(torch.tensor([np.ones(2), np.ones(2)]))
        """,
    "np is a parameter": """
        from numpy import ones, zeros
        def run(np):
            return torch.tensor([zeros(3), ones(3)])
        print(run(None))
        """,
    "the warning is an error": """
        import warnings
        import numpy as np
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            print(torch.tensor([np.zeros(3), np.ones(3)]))
        """,
    "the tensor is resized": """
        import numpy as np
        made = torch.as_tensor([np.zeros(3), np.ones(3)])
        made.resize_(4, 4).zero_()
        print(made)
        """,
}
HOSTILE = RUNNING_SUMS | FACTORIES | NUMBERS | ARRAYS


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_safe_fixes_change_nothing_that_is_printed(body: str) -> None:
    if "match value" in body and sys.version_info < (3, 10):
        pytest.skip("a match statement needs Python 3.10")
    source = program(body)
    assert printed(rewritten(source)) == printed(source)


SURVIVING = {
    "sums in a function": (
        "TL101",
        """
        def run():
            total, hits = 0.0, 0
            with torch.autocast(device, enabled=False):
                for x, y in loader:
                    y = y.to(device)
                    out = model(x.to(device))
                    loss = F.cross_entropy(out, y)
                    loss.backward()
                    total += loss.item()
                    hits += (out.argmax(1) == y).sum().item()
            return total, hits
        print(run())
        """,
    ),
    "sums at the top of a script, per epoch": (
        "TL101",
        """
        for epoch in range(2):
            total = 0.0
            for x, y in loader:
                STEP
                total += float(loss)
            print(total / len(loader))
        """,
    ),
    "a function of the file's own that is called eval": (
        "TL101",
        """
        def eval(net):
            net.eval()

        def run():
            total = 0.0
            for x, y in loader:
                STEP
                total += loss.item()
            eval(model)
            return total
        print(run())
        """,
    ),
    "half of a loss": (
        "TL101",
        """
        def run():
            total = 0.0
            for x, y in loader:
                STEP
                total += (loss / 2).item()
            return total
        print(run())
        """,
    ),
    "a factory that takes the dtype of a tensor": (
        "TL102",
        """
        class Pad(nn.Module):
            def forward(self, x):
                return torch.zeros(x.size(0), 2).to(x.device, dtype=x.dtype) + torch.ones(4, 2).to(x.device)
        print(Pad()(loader[0][0].to(device)))
        """,  # noqa: E501
    ),
    "a number of a dtype that holds it": (
        "TL112",
        """
        class Margin(nn.Module):
            def forward(self, x):
                floor = torch.tensor(float("-inf"), device=x.device, dtype=torch.float16)
                most = torch.tensor(255, device=x.device, dtype=torch.uint8)
                return x * torch.tensor(0.5, device=x.device), floor, most
        print(Margin()(loader[0][0].to(device)))
        """,
    ),
}


@pytest.mark.parametrize(("code", "body"), SURVIVING.values(), ids=SURVIVING.keys())
def test_ordinary_code_keeps_its_safe_fixes(code: str, body: str) -> None:
    source = program(body)
    found = [finding for finding in check(source).findings if finding.code == code]
    assert found
    assert all(finding.fix is not None and finding.fix.safety.value == "safe" for finding in found)
    after = rewritten(source)
    assert after != source
    assert printed(after) == printed(source)


def test_a_walrus_that_gives_the_device_gets_parentheses() -> None:
    source = program(_PAD.format(made="torch.zeros(4).to(place := x.device)"))
    report = fixed(source, "unsafe", codes=frozenset({"TL102"}))
    assert "device=(place := x.device)" in report.after
    assert not report.notes


@pytest.mark.parametrize("name", ["train.ipynb", "cells.py"])
def test_a_sum_in_a_cell_outlives_an_interrupted_loop(name: str) -> None:
    body = program("total = 0.0\nfor x, y in loader:\n    STEP\n    total += loss.item()\n")
    source = body if name.endswith("ipynb") else body.replace("total = 0.0", "# %%\ntotal = 0.0")
    sums = [finding for finding in check(source, name=name).findings if finding.code == "TL101"]
    assert sums
    assert all(finding.fix is None or finding.fix.safety.value != "safe" for finding in sums)


def test_self_log_is_never_rewritten_without_a_word() -> None:
    source = textwrap.dedent(
        """
        import lightning.pytorch as pl
        import torch.nn.functional as F


        class Classifier(pl.LightningModule):
            def training_step(self, batch, index):
                loss = F.cross_entropy(self.net(batch[0]), batch[1])
                self.log("loss", loss.item())
                return loss
        """
    )
    (found,) = [finding for finding in check(source).findings if finding.code == "TL901"]
    assert found.fix is not None
    assert found.fix.safety.value == "unsafe"
    assert "double" in found.fix.note
