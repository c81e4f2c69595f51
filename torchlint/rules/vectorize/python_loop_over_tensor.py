"""Let one tensor operation do what the Python loop does

## Why
Every operation in the loop costs Python time and at least one kernel launch (5 to 20 µs each on the
CPU side), while the kernel itself handles a single element. The GPU idles, and with autograd on
each tiny result adds nodes to the graph. The profiler of PyTorch knows the pattern as
`ForLoopIndexingPattern`.

Flagged, in a `forward`, a loss, a step or an evaluation batch: a loop over the rows of a tensor,
over `range()` of one of its sizes or of the batch's with an index into it, or of any count with an
index into another dimension than the first (`pred[:, i]` for each class), or over classes with a
comparison of a tensor with each, where torch operations (and numbers of the host) are all that the
body does and no iteration needs another one; sums, lists that grow and branches are no needs.
Further a loop that counts elements or writes them into a tensor one by one, a recurrent cell or
layer that gets one step after another though all its inputs are there before the loop, and, as
info, modules of one kind that get the same input one after another. For every sample, too: nested
loops over the sizes of an array that write it element by element, and use nothing but Python's and
NumPy's functions; as info, loops over labels that write to all places of each, and loops that fill
an array row by row out of the rows of another one.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.randn(64, 32, device=device, requires_grad=True)
target = torch.randn(64, 32, device=device)
```

## Bad
```python
class ColumnLoss(nn.Module):
    def forward(self, pred, target):
        loss = 0.0
        for i in range(pred.shape[1]):
            loss += (pred[:, i] - target[:, i]).pow(2).mean(dim=0)
        return loss


loss = ColumnLoss()(x, target)
```

## Good
```python
class ColumnLoss(nn.Module):
    def forward(self, pred, target):
        loss = (pred - target).pow(2).mean(dim=0).sum(dim=0)
        return loss


loss = ColumnLoss()(x, target)
```

## Leave alone
A recurrence needs the step before.
```python
class Decay(nn.Module):
    def forward(self, x):
        state = torch.zeros_like(x[0])
        out = []
        for t in range(x.shape[0]):
            state = 0.9 * state + x[t]
            out.append(state)
        return torch.stack(out)
```

A loop that only takes a tensor apart does no work per element.
```python
class Split(nn.Module):
    def forward(self, x):
        return [row for row in x]
```

## Fix safety
Unsafe: a loop that adds up or writes what elementwise operations and reductions make of
each part becomes the same operations on the whole tensors, with the dimensions moved on by one:
sums are made in another order, and all iterations are in memory at once; what a test of each part
chooses to add or to bind, `torch.where` chooses from both. Safe: tensors of which a loop only
compares, selects and counts elements, to read the results on the host, are copied there once before
it. Other loops get no fix: which operation does the work depends on the loop.

## Measure
Timed are one forward and one backward pass of the loss. A gain is expected on a CPU and on a GPU:
what is saved is Python and one operation after the other for every row.
```python
x = torch.randn(128, 32, device=device, requires_grad=True)
target = torch.randn(128, 32, device=device)
```

```python
x.grad = None
loss = ColumnLoss()(x, target)
loss.backward()
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.fixes.before_loop import brought_to_host
from torchlint.rule import Hit, Module, Rule, Severity, inferred, on_device
from torchlint.rules.vectorize._python_loop_over_tensor.bodies import (
    counts_elements,
    fills_rows,
    independent_rounds,
    is_size,
    only_tensor_work,
    rows_differ,
    sizes_differ,
    writes_elements,
)
from torchlint.rules.vectorize._python_loop_over_tensor.iterations import (
    recurrent_layer,
    same_modules_one_by_one,
)
from torchlint.rules.vectorize._python_loop_over_tensor.pixels import (
    maps_labels,
    works_through_rows,
    writes_pixels,
)
from torchlint.rules.vectorize._python_loop_over_tensor.vector_forms import vector_form
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.names import last_part
from torchlint.semantic.code.scopes import is_compiled
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import (
    is_structural,
    iteration_count,
    loop_sources,
    spelled_alike,
)
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import BATCH_SIZE, called
from torchlint.semantic.uses.elements import asked_for_type, one_tensor
from torchlint.semantic.uses.host_loops import host_loop
from torchlint.semantic.uses.offloads import spares_memory
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.definitions_behind import functions
from torchlint.semantic.values.operations import operation_of

_REDUCTIONS = frozenset(f"builtins.{name}" for name in ("sum", "max", "min", "any", "all"))
_FEW = 8
_WITH_STEP = 3
"""How many arguments a ``range`` with a step has."""
_NESTED = (
    "Nested Python loops over tensor elements launch kernels for every pair; broadcast, or "
    "use torch.cdist or bmm."
)
_MASKS = (
    "A Python loop that compares a tensor with each index scans it once per iteration; compare "
    "with all at once (x[..., None] == index), or add up with bincount, scatter_add_ or one_hot."
)
_ROWS = (
    "Python loop over the rows of a tensor: one or more kernel launches per row; apply the "
    "operations to all rows at once."
)
_COUNTS = (
    "A Python loop counts elements one by one; compare and sum all at once, or count with "
    "torch.bincount or scatter_add_."
)
_ELEMENTS = (
    "A Python loop computes and writes single elements of a tensor, while the GPU waits: several "
    "small operations for each; compute all of them at once, and write them by tensors of indices "
    "(x[rows, columns] = values)."
)
_PARTS = (
    "A Python loop fills a part of each row of a tensor, one kernel launch per row; compare all "
    "positions with all bounds at once (torch.arange(n) < lengths[:, None]) and fill by that mask."
)
_HEADS = (
    "Modules of one kind run one after another on the same input; stack their weights and run all "
    "in one product (a wider Linear, bmm, einsum)."
)
_PIXELS = (
    "Nested Python loops write an array element by element, again and again; let NumPy write all "
    "elements at once, by slices (out[:h, :w] = image) or by masks (out[image == 0] = 1)."
)
_LABELS = (
    "A Python loop scans all of an array once for each label, for every sample; one look-up gives "
    "all labels at once (table[mask], with the table made before)."
)
_ARRAY_ROWS = (
    "A Python loop works through the rows of an array for every sample; let NumPy compute all rows "
    "at once, or store what comes of them."
)
_STEPS = (
    "A Python loop hands {layer} one step after another, though all its inputs are there before; "
    "torch.nn.{layer} runs the whole sequence in one call."
)
_HOST = (
    ops.having("reads")
    | ops.having("move")
    | ops.HOST_METHODS
    | ops.having("graph")
    | {"detach", "clone", "append"}
)
_Loop = cst.For | cst.CompFor
_RECURRENT = regex(rf"\b({'|'.join(ops.values('steps'))})\(")

rule = Rule(
    __name__,
    __doc__,
    code="TL601",
    message=(
        "Python loop over tensor elements: one or more kernel launches per element; do the work on "
        "the whole tensor, with torch.where or a mask for what differs."
    ),
    severity="warning",
    default=True,
    effect="launch",
    triggers=(b"for ",),
    yields_to=("TL604",),
    runs="hot",
)


@rule.on(cst.For, cst.CompFor)
def check(node: _Loop, module: Module) -> Iterator[Hit]:
    found = _found(module, node)
    if not found or any(_says_it(module, outer, node) for outer in _outer(module, node)):
        return
    if spares_memory(module, node):
        return
    few = found is _MASKS and _listed(module, node)
    severity = Severity.INFO if few or is_compiled(module, node) else None
    place = node if isinstance(node, cst.For) else _holder(module, node)
    fix = None
    if isinstance(node, cst.For):
        counts = _ranged(module, node.iter)
        fix = vector_form(module, node, bool(counts) and is_size(module, counts[-1]))
        together = host_loop(module, node) if fix is None else None
        if together is not None and together.alone:
            fix = brought_to_host(module, together)
    yield Hit(place, message=found, severity=severity, fix=fix)


@rule.on(cst.For, runs="sample")
def check_pixels(node: cst.For, module: Module) -> Iterator[Hit]:
    """Find arrays of the host that nested loops write element by element."""
    outer = next((a for a in module.ancestors(node) if isinstance(a, cst.For)), None)
    if writes_pixels(module, node) and not (outer and writes_pixels(module, outer)):
        yield Hit(node, message=_PIXELS)
    elif maps_labels(module, node):
        yield Hit(node, message=_LABELS, severity=Severity.INFO)
    elif works_through_rows(module, node):
        yield Hit(node, message=_ARRAY_ROWS, severity=Severity.INFO)


def _listed(module: Module, node: _Loop) -> bool:
    """Say whether a loop goes over a list that somebody has handed on, which may be as short as
    that of the special tokens: no range, no tensor's values."""
    return any(
        isinstance(goes.iterated, (cst.Name, cst.Attribute))
        and inferred(module, goes.iterated).kind in ("?", "list", "tuple")
        and sole_definition(module, goes.iterated) is None
        for goes in loop_sources(module, node)
    )


def _holder(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    return next(a for a in module.ancestors(node) if not isinstance(a, cst.CompFor))


def _outer(module: Module, node: _Loop) -> Iterator[_Loop]:
    """Yield the loops around a loop."""
    for above in module.ancestors(node):
        if isinstance(above, cst.For):
            yield above
        elif (
            isinstance(above, (cst.ListComp, cst.SetComp, cst.GeneratorExp))
            and above.for_in is not node
        ):
            yield above.for_in


@rule.on(cst.For, cst.ListComp, cst.GeneratorExp)
def check_heads(node: cst.For | cst.ListComp | cst.GeneratorExp, module: Module) -> Iterator[Hit]:
    """Find modules of one kind that get the same input one after another."""
    if same_modules_one_by_one(module, node):
        yield Hit(node, message=_HEADS, severity=Severity.INFO)


@rule.on(cst.For, file=lambda module: _RECURRENT.search(module.text))
def check_steps(node: cst.For, module: Module) -> Iterator[Hit]:
    """Find recurrent layers that a loop runs step by step."""
    count = iteration_count(module, node)
    layer = recurrent_layer(module, node) if count is None or count > _FEW else ""
    if layer and not is_structural(module, node):
        yield Hit(node, {"layer": layer}, message=_STEPS)


def _says_it(module: Module, outer: _Loop, inner: _Loop) -> bool:
    """Say whether a finding at the outer loop is one for the inner loop, too.

    It is not where a tensor that the outer loop makes says how often the inner one runs: the
    elements of one row can be handled at once, whatever becomes of the rows.
    """
    makes = {
        name.value
        for name in module.within(_body(module, outer), cst.Name)
        if isinstance(module.parent(name), cst.AssignTarget)
    }
    own = any(name in makes for name in module.names_in(inner.iter))
    return not own and bool(_found(module, outer))


def _body(module: Module, node: _Loop) -> cst.CSTNode:
    """Return what a loop repeats: its block, or the element of its comprehension."""
    if isinstance(node, cst.For):
        return node.body
    holder = _holder(module, node)
    return getattr(holder, "elt", holder)


def _found(module: Module, node: _Loop) -> str:
    """Return the message for a loop that torch could do at once, or an empty string."""
    body = _body(module, node)
    if isinstance(node, cst.CompFor) and (
        node.ifs or isinstance(_holder(module, node), cst.DictComp)
    ):
        return ""
    if is_structural(module, node) or _only_asked(module, node):
        return ""
    count = iteration_count(module, node)
    if count is not None and count <= _FEW:
        return ""
    message = _row(module, node, body)
    if not message or not only_tensor_work(module, body) or sizes_differ(module, node, body):
        return ""
    if rows_differ(module, node, body):
        return ""
    return message if isinstance(node, cst.CompFor) or independent_rounds(module, node) else ""


def _only_asked(module: Module, node: _Loop) -> bool:
    """Say whether a comprehension does nothing with an element but choose by it, as ``[1 if v > 0.5
    else 0 for v in t]`` does: that is said of the test."""
    chosen = _body(module, node)
    if not isinstance(node, cst.CompFor) or not isinstance(chosen, cst.IfExp):
        return False
    return not module.names_in(node.target) & module.names_in(chosen.body, chosen.orelse)


def _row(module: Module, node: _Loop, body: cst.CSTNode) -> str:
    """Return what a loop over elements does one by one."""
    batches = any(
        inferred(module, each.iterated).kind == "loader" for each in loop_sources(module, node)
    )
    if not batches and any(
        _masked(module, name, body) for name in module.within(node.target, cst.Name)
    ):
        return _MASKS
    for index in _counted(module, node):
        found = _indexed(module, index, body)
        if found:
            return found
    for goes in loop_sources(module, node):
        if not isinstance(goes.target, cst.Name) or _ranged(module, goes.iterated):
            continue
        if asked_for_type(module, goes.iterated):
            return ""
        value = inferred(module, goes.iterated)
        if (
            not value.loose
            and on_device(module, goes.iterated)
            and _works(module, body, goes.target)
        ):
            return "" if _weighs_others(module, node, body, goes.iterated) else _ROWS
    if not isinstance(node, cst.For) or not on_accelerator(module):
        return ""
    if counts_elements(module, node):
        return _COUNTS
    if writes_elements(module, node):
        return _ELEMENTS
    return _PARTS if fills_rows(module, node) else ""


def _weighs_others(
    module: Module, node: _Loop, body: cst.CSTNode, rows: cst.BaseExpression
) -> bool:
    """Say whether a loop takes from a tensor of the object itself one number for each of several
    other things, which may be tensors of different sizes: ``zip(self.weights, images)``."""
    if not (isinstance(rows, cst.Attribute) and is_name(rows.value, "self")):
        return False
    others = (goes for goes in loop_sources(module, node) if goes.iterated is not rows)
    return any(
        isinstance(other.target, cst.Name)
        and inferred(module, other.iterated).kind in ("?", "list", "tuple", "object")
        and not _ranged(module, other.iterated)
        and not on_device(module, other.iterated)
        and _works(module, body, other.target)
        for other in others
    )


def _ranged(module: Module, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the arguments of ``range(…)``."""
    if not isinstance(node, cst.Call) or module.name(node.func) != "builtins.range":
        return []
    return [arg.value for arg in node.args]


def _counted(module: Module, node: _Loop) -> Iterator[cst.Name]:
    """Yield the index of ``for i in range(n)`` or ``for i, x in enumerate(xs)``, where a tensor's
    size or the batch's is the count."""
    for goes in loop_sources(module, node):
        counts = _ranged(module, goes.iterated)
        sized = any(
            is_size(module, count) or called(last_part(count), BATCH_SIZE) for count in counts
        )
        sized = sized or _by_column(module, node)
        if isinstance(goes.target, cst.Name) and sized and not _in_parts(module, node, counts):
            yield goes.target
    match node.target, node.iter:
        case cst.Tuple([cst.Element(cst.Name() as index), _]), cst.Call(
            cst.Name() as func, [cst.Arg(things), *_]
        ) if module.name(func) == "builtins.enumerate":
            # A model may give a list of tensors, one for each layer.
            value = inferred(module, things)
            if value.tensor and not value.loose:
                yield index


def _by_column(module: Module, node: _Loop) -> bool:
    """Say whether a loop takes a tensor apart along another dimension than the first, one element
    after the other: ``pred[:, i]`` for each class ``i``."""
    return isinstance(node.target, cst.Name) and any(
        len(part.slice) > 1
        and isinstance(part.slice[0].slice, cst.Slice)
        and any(
            isinstance(each.slice, cst.Index) and is_name(each.slice.value, node.target.value)
            for each in part.slice[1:]
        )
        for part in module.within(_body(module, node), cst.Subscript)
    )


def _in_parts(module: Module, node: _Loop, counts: list[cst.BaseExpression]) -> bool:
    """Say whether slices begin at a loop's number, or a multiple of it, and there is a step between
    the numbers, or their count is a size by that of parts: these are of many elements,
    ``x[start:end]``, ``x[i * size : (i + 1) * size]`` for ``(n - 1) // size + 1`` of them."""
    if not counts:
        return False
    made = sole_definition(module, counts[-1]) or counts[-1]
    if len(counts) != _WITH_STEP and not any(
        isinstance(each.operator, (cst.FloorDivide, cst.Divide))
        for each in module.within(made, cst.BinaryOperation)
    ):
        return False
    bound = module.names_in(node.target)
    for part in module.within(_body(module, node), cst.Slice):
        match part.lower:
            case cst.BinaryOperation(left, cst.Multiply(), right):
                if is_name(left, *bound) or is_name(right, *bound):
                    return True
            case lower if is_name(lower, *bound):
                return True
    return False


def _indexed(module: Module, index: cst.Name, body: cst.CSTNode) -> str:
    """Judge ``for i in range(n)``: elements of a tensor taken by ``i``."""
    taken = list(module.within(body, cst.Subscript))
    read = [s for s in taken if _picks(module, s, index) and on_device(module, s.value)]
    if not any(_works(module, body, s) for s in read):
        return ""
    loops = list(module.within(body, cst.For))
    inner = module.names_in(*(loop.target for loop in loops))
    both = [s for s in taken if _picks(module, s, index) and inner & module.names_in(s)]
    if any(s in both for s in read) and any(writes_elements(module, loop) for loop in loops):
        return _ELEMENTS
    return _NESTED if both else rule.message


def _masked(module: Module, index: cst.Name, body: cst.CSTNode) -> bool:
    """Say whether a loop compares a tensor with what it is at, which it does not bind anew."""
    if writes_of(module, body, index.value):
        return False
    for test in module.within(body, cst.Comparison):
        match test:
            case cst.Comparison(
                left,
                [cst.ComparisonTarget(cst.Equal(), right)],
            ):
                if (
                    right.deep_equals(index)
                    and on_device(module, left)
                    and (isinstance(left, cst.Name) or not inferred(module, left).loose)
                    and inferred(module, left).rank != 0
                    and not any(
                        _picks(module, part, index) for part in module.within(left, cst.Subscript)
                    )
                ):
                    return not isinstance(
                        module.parent(test), (cst.If, cst.IfExp, cst.BooleanOperation)
                    )
    return False


def _picks(module: Module, node: cst.Subscript, index: cst.Name) -> bool:
    """Say whether a subscript takes part of a tensor by the loop's index."""
    return any(bool(spelled_alike(module, item, index)) for item in node.slice)


@question(circular=False)
def _works(module: Module, body: cst.CSTNode, part: cst.CSTNode) -> bool:
    """Say whether a tensor operation is done on a part: arithmetic, a torch function, a layer, one
    of its methods, a function of this file, or a copy into another tensor."""
    return any(_operates(module, use, body) for use in spelled_alike(module, body, part))


def _operates(module: Module, use: cst.CSTNode, body: cst.CSTNode) -> bool:
    node, above = use, module.parent(use)
    while isinstance(
        above, (cst.Subscript, cst.Index, cst.SubscriptElement, cst.Element, cst.Tuple, cst.List)
    ):
        node, above = above, module.parent(above)
    match above:
        case cst.BinaryOperation() | cst.Comparison():
            return True
        case cst.Arg():
            call = module.parent(above)
            return isinstance(call, cst.Call) and _computes(module, call)
        case cst.Attribute(attr=cst.Name(method)):
            return isinstance(module.parent(above), cst.Call) and method not in _HOST
        case cst.Assign([cst.AssignTarget(cst.Name() as name)]):
            return _works(module, body, name)
        case cst.Assign([cst.AssignTarget(cst.Subscript(into))], value):
            return value is node and bool(on_device(module, into))
    return False


def _computes(module: Module, call: cst.Call) -> bool:
    name = module.called(call)
    if name in _REDUCTIONS and len(call.args) == 1:
        return one_tensor(module, call.args[0].value)
    if name.startswith("torch."):
        return True
    found = operation_of(module, call)
    return (found is not None and found.made is not None) or bool(functions(module, call))
