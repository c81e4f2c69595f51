"""Wait for the device before you read the clock

## Why
CUDA calls return before the work is done, so a host timer around them measures how long the
launches took: "time measurements without synchronizations are not accurate" (CUDA semantics of the
PyTorch docs). Call `torch.cuda.synchronize()` before both readings, use
`torch.cuda.Event(enable_timing=True)`, or let `torch.utils.benchmark.Timer` do it; and warm up
first. A wrong timer is also why slow code looks fast.

Flagged: a difference of two clock readings in one block, with a model call or a backward pass on
the device between them, and nothing there that waits or that is not known to leave the device
alone.

## Setup
```python
import time

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
x = torch.randn(8, 8, device=device)
```

## Bad
```python
start = time.time()
y = model(x)
print(time.time() - start)
```

## Good
```python
def finish():
    if device.type == "cuda":
        torch.cuda.synchronize()


finish()
start = time.time()
y = model(x)
finish()
print(time.time() - start)
```

## Leave alone
A copy to the host waits, and so does a read of a number.
```python
start = time.time()
y = model(x).cpu()
elapsed = time.time() - start
```

Unknown functions may wait.
```python
def unknown(postprocess):
    start = time.time()
    y = postprocess(model(x))
    return y, time.time() - start
```

Data loading, and other work of the host.
```python
def load(loader):
    start = time.time()
    batch = next(loader)
    return batch, time.time() - start
```

## Fix safety
No fix is offered: warming up and the choice of the clock belong to it.

## Measure
Not timed: it is about a clock that is read too early; waiting first makes the reading right, not
the code faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, inferred, on_device
from torchlint.semantic.code.flow import callees_of, writes_of
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import LOOPS, is_name, keyword_of, last_small, method_called
from torchlint.semantic.code.updates import is_step
from torchlint.semantic.device.host_reads import scalar_reads
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.observers import CLOCKS
from torchlint.semantic.values.inferred import is_model_call

_HARMLESS = (
    ops.SAME_VALUES
    | ops.having("cast")
    | ops.having("move")
    | ops.HOST_METHODS
    | ops.having("module")
) | {
    "sum",
    "mean",
    "append",
}
_WAITING = ops.having("waits") | {"numpy", "synchronize"}
_BUILTINS = frozenset(
    "builtins." + name for name in ("range", "len", "enumerate", "zip", "list", "tuple", "dict")
)
_OF_TRANSFORMERS = frozenset(
    "attention_mask do_sample eos_token_id input_ids max_length max_new_tokens num_beams".split()
)
"""Arguments of the `generate` of transformers, whose stopping criteria are read on the host for
each token (its ``GenerationMixin``)."""
_DEVICE = regex(r"cuda|\.to\([^)\n]*device|accelerat", re.IGNORECASE)

rule = Rule(
    __name__,
    __doc__,
    code="TL805",
    message=(
        "host timer around asynchronous GPU work measures launch time only; synchronise or use "
        "cuda.Event / "
        "torch.utils.benchmark."
    ),
    severity="info",
    default=True,
    effect="none",
    triggers=(b"time", b"default_timer"),
    equivalence="opt-in",
)


@rule.on(cst.BinaryOperation, benchmarks=True)
def check(node: cst.BinaryOperation, module: Module) -> Iterator[Hit]:
    if not isinstance(node.operator, cst.Subtract) or not isinstance(node.right, cst.Name):
        return
    if not mentions(module, _DEVICE) or method_called(module.taker(node)) == "update":
        return
    end = node if module.called(node.left) in CLOCKS else _last_reading(module, node.left, node)
    between = _statements_since(module, node.right.value, end) if end is not None else []
    if not _runs_device(module, between) or any(_may_wait(module, part) for part in between):
        return
    home = module.scope(node)
    calls = module.within(home, cst.Call)
    if not any(module.name(call.func) == "torch.cuda.Event" for call in calls):
        yield Hit(node)


def _is_assigned(module: Module, statement: cst.CSTNode, name: str) -> bool:
    """Say whether a statement line reads a clock into a name."""
    small = last_small(statement)
    if not isinstance(small, cst.Assign) or module.called(small.value) not in CLOCKS:
        return False
    return any(is_name(t.target, name) for t in small.targets)


def _earlier(module: Module, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the statements before the one of `node` in its block, the last one first."""
    return module.tree.beside(node)[0][::-1]


def _last_reading(
    module: Module, left: cst.BaseExpression, node: cst.CSTNode
) -> cst.CSTNode | None:
    """Return the statement of the same block in which the end of a difference was read from a
    clock."""
    if not isinstance(left, cst.Name):
        return None
    for statement in _earlier(module, node):
        if writes_of(module, statement, left.value):
            return statement if _is_assigned(module, statement, left.value) else None
    return None


def _statements_since(module: Module, start: str, end: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the statements since the clock was read into `start`; none where that was not in this
    block."""
    out: list[cst.CSTNode] = []
    for statement in _earlier(module, end):
        if writes_of(module, statement, start):
            return out if _is_assigned(module, statement, start) else []
        out.append(statement)
    return []


def _runs_device(module: Module, between: list[cst.CSTNode]) -> bool:
    calls = [c for part in between for c in module.within(part, cst.Call)]
    # A copy from pageable memory waits by itself.
    return any(
        (on_device(module, c) and transfer_of(module, c) is None) or is_step(module, c)
        for c in calls
    )


def _may_wait(module: Module, statement: cst.CSTNode) -> bool:
    """Say whether code may wait for the device: it reads from there, or calls something that is not
    known."""
    for node in module.within(
        statement, cst.Call, cst.If, cst.While, cst.For, cst.Subscript, cst.FormattedString
    ):
        if isinstance(node, LOOPS) and loop_kind(module, node) is not LoopKind.OTHER:
            return True
        if isinstance(node, (cst.If, cst.While)):
            # What is compared may be a tensor.
            return True
        if isinstance(node, cst.Call) and not _is_understood(module, node):
            return True
        if scalar_reads(module, node):
            return True
    return False


def _is_understood(module: Module, call: cst.Call) -> bool:
    """Say whether a call is known to leave the device alone, or only to give it work."""
    name = module.called(call)
    method = method_called(call)
    if name.rpartition(".")[2] in _WAITING or inferred(module, call).device == "cpu":
        return False
    if method == "generate" and any(
        arg.star == "**" or keyword_of(arg) in _OF_TRANSFORMERS for arg in call.args
    ):
        return False  # It asks on the host after each token whether all have ended.
    if name.startswith("torch.") or name in _BUILTINS or name in CLOCKS:
        return True
    if callees_of(module, call) or module.outside.find(name or None) is not None:
        return False
    if is_model_call(module, call):
        # What takes arrays is a predictor of another kind, which gives results back.
        return all(inferred(module, arg.value).kind != "ndarray" for arg in call.args)
    return is_step(module, call) or method in _HARMLESS or inferred(module, call).origin == "loss"
