"""Collect the parts in a list and concatenate once

## Why
`torch.cat` allocates a new tensor and copies both operands. In a loop that puts everything
collected so far first, n parts of equal size cost n(n+1)/2 copies instead of n, and n allocations
of growing size, of which the caching allocator can reuse none (CUDA semantics page of the PyTorch
docs, "Memory management"). With autograd on, every intermediate result also stays in the graph. The
same holds for `np.append`, `np.concatenate` and `np.vstack`.

Flagged: `v = torch.cat([v, part])` and its kin (`hstack`, `vstack`) in a loop of more than a few
iterations that reads `v` for nothing else. As info: the same where each iteration of a `while`, or
of a `for` over a `range`, runs a model; the same in code that is not known to run at every step or
batch, unless it may run once only and the loop has at most 16 iterations there, and with NumPy
arrays that collect a model's results; and, in a step or a forward, `out[t] = part` in such a loop,
where the part has a gradient: each write is a node of the graph whose backward pass copies the
gradient of all of `out` (torch/csrc/autograd/functions/tensor.cpp, `CopySlices`).

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(64, 64).to(device).eval()
batches = [torch.randn(16, 64, device=device) for _ in range(20)]
```

## Bad
```python
@torch.no_grad()
def predict(batches):
    out = torch.empty(0, 64, device=device)
    for x in batches:
        out = torch.cat([out, model(x)])
    return out


preds = predict(batches)
```

## Good
```python
@torch.no_grad()
def predict(batches):
    out_parts = [torch.empty(0, 64, device=device)]
    for x in batches:
        out_parts.append(model(x))
    out = torch.cat(out_parts)
    return out


preds = predict(batches)
```

## Leave alone
A tensor that the loop reads back (autoregressive input, a cache, a sliding window) cannot wait for
the end.
```python
def decode(tokens):
    for _ in range(20):
        tokens = torch.cat([tokens, model(tokens)[-1:]])
    return tokens
```

A few parts are no growth.
```python
out = model(batches[0])
for i in range(3):
    out = torch.cat([out, batches[i]])
```

## Fix safety
Unsafe: the parts stay alive until the loop has ended, so the memory peak can rise where they are
views of larger tensors, and a part that is changed in place afterwards changes the result. The seed
stays in the list, so dtype, shape and the result of a loop without iterations are the same.

## Measure
Timed is one call of `predict` on 200 batches. A gain is expected on a CPU and on a GPU: what is
saved is copying again what was collected before, so the gain grows with the number of batches.
```python
batches = [torch.randn(16, 64, device=device) for _ in range(200)]
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Fix,
    Grade,
    Hit,
    InsertAfter,
    Module,
    Replace,
    Rule,
    Safety,
    Severity,
    heat_of,
    inferred,
)
from torchlint.semantic.code.bindings import binds_globally
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.intervals import most_iterations
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import DISPLAYS, attr_of, is_name, keyword_of
from torchlint.semantic.time.iterations import (
    is_reset,
    is_structural,
    iteration_count,
    spelled_alike,
)
from torchlint.semantic.time.loops import LoopKind, has_model_call, loop_kind
from torchlint.semantic.time.runs import runs_model
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import is_loader
from torchlint.semantic.values.value import CPU

_TORCH = ops.dotted("join") - {"torch.stack"}
_NUMPY = tuple(
    "numpy." + n for n in "append concatenate vstack hstack dstack row_stack column_stack".split()
)
_TO_HOST = ops.having("to-host") - {"to", "type"} | {"numpy"}
_FACTS = ops.having("fact")
_KEPT = regex(r"(^|_)(cache|caches|queue|past|kv|memory|bank|buffer)(_|$)")
_FEW = 4
_FEW_ONCE = 16
"""Iterations of a loop in code that runs once: what they copy again is nothing."""
_NOTE = (
    "The parts stay alive until the loop ends; one that is changed in place later changes "
    "the result."
)
_NUMPY_MESSAGE = (
    "{call} in a loop copies all of {name} each time (quadratic); append to a list "
    "and join once after it."
)
_RUNS = "Each iteration runs a model: that counts where iterations are many."
_WRITTEN = (
    "each `{part} = …` makes backward() copy the gradient of all of {name} (quadratic); collect "
    "the parts in a list and join them once, with torch.stack or pad_sequence."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL603",
    message=(
        "{call} in a loop copies all of {name} each time (quadratic); collect the parts in a "
        "list and join once."
    ),
    severity="warning",
    default=True,
    effect="gpu",
    triggers=(b"cat", b"stack", b"append", b"zeros", b"empty"),
    equivalence="bitwise",
    runs="once",
)


@rule.on(cst.Assign)
def check(node: cst.Assign, module: Module) -> Iterator[Hit]:
    place = node.targets[0].target
    if len(node.targets) != 1:
        return
    call = node.value.orelse if isinstance(node.value, cst.IfExp) else node.value
    if not isinstance(call, cst.Call):
        return
    name = module.name(call.func)
    if name not in _TORCH and name not in _NUMPY:
        return
    parts = _joined_parts(call, name)
    grown = [p for p in (parts[:1] + parts[1:][-1:]) if p.deep_equals(place)]
    loop = _loop(module, node, place) if len(grown) == 1 else None
    if loop is None or (name in _NUMPY and not _collects_results(module, loop, parts)):
        return
    args = {"call": module.shown(call.func), "name": module.shown(place)}
    if name in _NUMPY:
        yield Hit(call, args, severity=Severity.INFO, message=_NUMPY_MESSAGE)
    else:
        heat, host = heat_of(module, node), inferred(module, place).device == CPU
        little = not heat.hot or (host and heat.grade is Grade.EVAL)
        range_or_while = isinstance(loop, cst.While) or (
            isinstance(loop.iter, cst.Call) and module.name(loop.iter.func) == "builtins.range"
        )
        runs = range_or_while and loop_kind(module, loop) is LoopKind.OTHER
        runs = runs and runs_model(module, loop)
        severity = Severity.INFO if little or runs else None
        message = f"{rule.message} {_RUNS}" if runs else None
        yield Hit(call, args, _fix(module, node, call, loop), severity, message)


def _writes_part(_: Module, node: cst.Assign) -> bool:
    """Say whether an assignment writes a part of what a name holds."""
    match node.targets:
        case [cst.AssignTarget(cst.Subscript(cst.Name()))]:
            return True
    return False


@rule.on(cst.Assign, about=_writes_part, runs="step")
def check_written(node: cst.Assign, module: Module) -> Iterator[Hit]:
    """Find tensors that a loop fills part by part, with what has a gradient."""
    part, loop = node.targets[0].target, module.loop(node)
    if not isinstance(part, cst.Subscript) or not isinstance(loop, cst.For):
        return
    whole = part.value
    if not isinstance(whole, cst.Name) or not inferred(module, node.value).grad:
        return
    count = iteration_count(module, loop)
    if is_structural(module, loop) or (count is not None and count <= _FEW):
        return
    places = frozenset(name for each in part.slice for name in module.names_in(each))
    made = definitions_of(module, whole)
    if (
        places & module.names_in(loop.target)
        and made
        and all(_starts_without_graph(module, each, loop) for each in made)
        and not any(_used_beside(module, read, part) for read in spelled_alike(module, loop, whole))
    ):
        words = {"part": module.shown(part), "name": module.shown(whole)}
        yield Hit(node, words, severity=Severity.INFO, message=_WRITTEN)


def _starts_without_graph(module: Module, made: cst.CSTNode, loop: cst.For) -> bool:
    """Say whether a definition makes a tensor without a graph before the loop."""
    if not isinstance(made, cst.Assign) or module.is_within(made, loop):
        return False
    return inferred(module, made.value).grad is False


def _used_beside(module: Module, read: cst.CSTNode, part: cst.Subscript) -> bool:
    """Say whether a loop does more with a tensor than to fill a part of it and ask for its size."""
    above = module.parent(read)
    return above is not part and attr_of(above) not in _FACTS


def _joined_parts(call: cst.Call, name: str) -> list[cst.BaseExpression]:
    if name == "numpy.append":
        return [arg.value for arg in call.args[:2]]
    first = next(
        (a.value for a in call.args if keyword_of(a) in ("", "tensors", "arrays")),
        None,
    )
    return [e.value for e in first.elements] if isinstance(first, DISPLAYS) else []


def _loop(
    module: Module, node: cst.Assign, place: cst.BaseExpression
) -> cst.For | cst.While | None:
    """Return the innermost loop that carries the grown value from one iteration to the next and
    never reads it."""
    if _KEPT.search(module.source_of(place)):
        return None
    for loop in module.loops(node):
        bound = module.names_in(loop.target) if isinstance(loop, cst.For) else frozenset()
        if module.names_in(place) & bound:
            continue
        if is_reset(module, loop, place, node) or any(
            _is_used(module, read) for read in spelled_alike(module, loop, place)
        ):
            return None
        if _holder_used(module, loop, place):
            return None
        count = iteration_count(module, loop) or most_iterations(module, loop)
        few = _FEW if count is None or heat_of(module, node).grade > Grade.COLD else _FEW_ONCE
        if (count is None or count > few) and not is_structural(module, loop):
            return loop
    return None


def _holder_used(module: Module, loop: cst.CSTNode, place: cst.BaseExpression) -> bool:
    """Say whether a loop hands on, or calls, the object whose attribute grows, or one that has it:
    these may read the attribute. What `self` does is not followed."""
    while isinstance(place, cst.Attribute) and not is_name(place.value, "self"):
        place = place.value
        for read in spelled_alike(module, loop, place):
            above = module.parent(read)
            if not isinstance(above, cst.Attribute) or isinstance(module.parent(above), cst.Call):
                return True
    return False


def _is_used(module: Module, read: cst.CSTNode) -> bool:
    """Say whether the loop does more with the grown value than to grow it, bind it or ask for its
    size."""
    above = module.parent(read)
    match above:
        case cst.AssignTarget():
            return False
        case cst.Comparison(left, [cst.ComparisonTarget(cst.Is() | cst.IsNot())]):
            return left is not read
        case cst.Attribute(attr=cst.Name(attr)):
            return attr not in _FACTS
        case cst.Arg() | cst.Element():
            call = next((a for a in module.ancestors(read) if isinstance(a, cst.Call)), None)
            name = module.name(call.func) if call is not None else None
            if name == "builtins.len":
                return isinstance(above, cst.Element)
            home = module.small_statement(read)
            grows = isinstance(home, cst.Assign) and home.targets[0].target.deep_equals(read)
            return not (grows and (name in _TORCH or name in _NUMPY))
    return True


def _collects_results(
    module: Module, loop: cst.For | cst.While, parts: list[cst.BaseExpression]
) -> bool:
    if has_model_call(module, loop) or (isinstance(loop, cst.For) and is_loader(module, loop.iter)):
        return True
    reads = (c.func for p in parts for c in module.within(p, cst.Call))
    return any(attr_of(f) in _TO_HOST for f in reads)


def _fix(module: Module, node: cst.Assign, call: cst.Call, loop: cst.For | cst.While) -> Fix | None:
    place, function = node.targets[0].target, module.function(node)
    if not isinstance(place, cst.Name) or node.value is not call or loop.orelse is not None:
        return None
    name, scope = place.value, function or module.root
    new = f"{name}_parts"
    start, parts = _seed(module, place, loop, scope), call.args[0].value
    if (
        start is None
        or spelled_alike(module, scope, cst.Name(new))
        or not isinstance(parts, DISPLAYS)
    ):
        return None
    first = parts.elements[0].value.deep_equals(place)
    if module.name(call.func) != "torch.cat" or len(parts.elements) != 2 or not first:
        return None
    part = parts.elements[1]
    dims = [a.value for a in call.args[1:]]
    if isinstance(part, cst.StarredElement) or not all(
        isinstance(d, (cst.Integer, cst.UnaryOperation)) for d in dims
    ):
        return None
    joined = call.with_changes(
        args=(call.args[0].with_changes(value=cst.Name(new)), *call.args[1:])
    )
    edits = (
        Replace(start.targets[0].target, cst.Name(new)),
        Replace(start.value, cst.List([cst.Element(start.value)])),
        Replace(
            node,
            cst.Expr(
                cst.Call(cst.Attribute(cst.Name(new), cst.Name("append")), [cst.Arg(part.value)])
            ),
        ),
        InsertAfter(loop, f"{name} = {cst.Module([]).code_for_node(joined)}"),
    )
    return Fix(
        edits,
        Safety.UNSAFE,
        "Collect the parts in a list and concatenate once after the loop",
        _NOTE,
    )


def _seed(
    module: Module, place: cst.Name, loop: cst.For | cst.While, scope: cst.CSTNode
) -> cst.Assign | None:
    """Return the assignment before the loop, in its block, where nothing but the growth touches the
    name until its end."""
    writes = writes_of(module, scope, place.value)
    first = module.small_statement(writes[0]) if len(writes) == 2 else None
    if (
        not isinstance(first, cst.Assign)
        or len(first.targets) != 1
        or first.targets[0].target is not writes[0]
    ):
        return None
    if (
        module.parent(module.statement(first)) is not module.parent(loop)
        or not inferred(module, first.value).tensor
    ):
        return None
    early = [
        r
        for r in reads_of(module, scope, place.value)
        if module.before(r, loop) or module.is_within(r, loop)
    ]
    return first if len(early) == 1 and not binds_globally(module, scope, place.value) else None
