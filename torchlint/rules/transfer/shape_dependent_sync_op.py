"""Tell operations the size of their result

## Why
Some operations have to know values that are on the device before they can allocate their result, so
the host waits for every kernel queued so far. `one_hot(y)` without `num_classes` reads
`y.max().item()` (aten/src/ATen/native/Onehot.cpp), `repeat_interleave(x, repeats)` without
`output_size` the sum of the repeats; PyTorch's own test of synchronising operations
(test_cuda_sync_debug_mode in test/test_cuda.py) lists them. Where the host knows the size, it can
say so.

Flagged: in a step or a forward, on tensors that live on the device by evidence: `one_hot` without
`num_classes`, and `repeat_interleave` by a tensor without `output_size`. Reads through a boolean
mask, `nonzero` and `masked_select` synchronise as well; they are flagged where a loop within the
step repeats them, for each image, row or class: the host then waits once per iteration. Where the
iteration waits for another value as well, that is an `info`, and so is one whose number of elements
is a part of the result, where all rows could be chosen from at once. Outside of such a loop the
values are mostly needed; an `info` says where they are not: where all that becomes of what a mask
selects is a sum, a mean or a loss, of what is computed of each element.

## Setup
```python
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
```

## Bad
```python
class Labelled(nn.Module):
    def forward(self, x, y):
        y = y.to(x.device)
        return x + F.one_hot(y).float()


labelled = Labelled()
out = labelled(torch.ones(4, 3, device=device), torch.tensor([0, 1, 2, 0]))
```

## Good
```python
class Labelled(nn.Module):
    def forward(self, x, y):
        y = y.to(x.device)
        return x + F.one_hot(y, num_classes=x.size(1)).float()


labelled = Labelled()
out = labelled(torch.ones(4, 3, device=device), torch.tensor([0, 1, 2, 0]))
```

## Leave alone
With the size known on the host nothing waits.
```python
class Labelled(nn.Module):
    def forward(self, x, y):
        x = x.repeat_interleave(2, dim=0)
        return F.one_hot(y.to(x.device), 3) + F.one_hot(y.to(x.device), num_classes=3) + x
```

Code that needs the positions themselves.
```python
class Sparse(nn.Module):
    def forward(self, x: torch.Tensor):
        x = x.to(device)
        return x.nonzero(), x[x > 0], x.unique()
```

Once, outside of a step.
```python
labels = F.one_hot(torch.tensor([0, 1]).to(device))
```

## Fix safety
Which size is right, only the program's author knows, and a wrong one raises an error: that is not
rewritten. In a loop, `x[mask] = y[mask]` becomes `torch.where`, where the mask is a comparison of
these tensors: safe where both are compared, so that all have one shape, and unsafe where only one
is. A loop that does nothing but compare, select and count, and reads the counts on the host, gets
copies of its tensors on the host, once before it: safe.

## Measure
One call of the module on 4096 labels. On a CPU no gain is expected: what is saved is the wait for
the device.
```python
x = torch.ones(4096, 100, device=device)
y = torch.arange(4096, device=device) % 100
```

```python
out = labelled(x, y)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.fixes.before_loop import brought_to_host
from torchlint.rule import Fix, Grade, Hit, Module, Rule, Severity, heat_of, inferred, on_device
from torchlint.rules.transfer._shape_dependent_sync_op.folded_masks import folded_into
from torchlint.rules.transfer._shape_dependent_sync_op.masked_fixes import masked_fix
from torchlint.semantic.code.destinations import destinations
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.tree import is_name, last_name, method_called, root_of
from torchlint.semantic.data.samples import is_fixed
from torchlint.semantic.device.host_reads import copies_around
from torchlint.semantic.device.value_sized import (
    SIZED_BY_ARGUMENT,
    SIZED_BY_VALUES,
    gathers,
    unsized,
)
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import inner_loop
from torchlint.semantic.time.iterations import is_structural, iteration_count
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.host_loops import host_loop
from torchlint.semantic.uses.lasting_waits import wait_that_stays
from torchlint.semantic.uses.unavoidable_syncs import iteration_waits, stays_beside

_COPY_FIRST = (
    "the result goes to the host in any case: copy the whole before the loop, or take what the "
    "host already has"
)
_GATHER = (
    "`{gather}` waits for the device to learn how many elements it gives, once per iteration of the"
    " loop; {alternative}."
)
_STAYS = (
    "`{gather}` waits for the device to learn how many elements it gives; {alternative}. `{other}` "
    "waits in each iteration of the loop as well; while it does, the step does not run on."
)
_BOTH = (
    "{op} must know values on the host to size its result; {alternative}. `{other}` waits for the"
    " device as well; while it does, the step does not run on."
)
_FOLDED = (
    "`{gather}` waits for the device to learn how many elements it gives, and all that becomes of "
    "them is {end}; {alternative}."
)
_WEIGH = {
    "a sum": "add up the product with the mask, or torch.where with zeros",
    "a mean": "add up the product with the mask, and divide by the sum of the mask",
    "a loss": "take the loss of all elements, without its mean, and average it with the mask",
}
_ONCE = (
    "the mask is the same in each iteration of the loop: take its positions once, before the loop "
    "(mask.nonzero())"
)
_ROWS = (
    "`{gather}` waits for the device to learn how many elements it gives, once per iteration of the"
    " loop; choose for all iterations at once before the loop, and split that by the counts: one "
    "wait."
)
_JOINS = ops.dotted("join")
_LOOKED_AT = _JOINS | {"builtins.len"}
_VIEWS = ops.having("view")
_NAMES = 3
"""Names of names that are looked behind."""

rule = Rule(
    __name__,
    __doc__,
    code="TL107",
    message=(
        "{op} must know values on the host to size its result, so it synchronises; {alternative}."
    ),
    severity="info",
    default=True,
    effect="wait",
    triggers=(b"one_hot", b"repeat_interleave", b"[", b"nonzero", b"masked_select", b"where("),
    yields_to=("TL102", "TL104", "TL607"),
    equivalence="bitwise",
    runs="hot",
)


@rule.on(cst.Call, about=unsized, calls=SIZED_BY_ARGUMENT)
def check_unsized(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find a call that is not told the size of its result, which depends on values on the
    device."""
    found = unsized(module, node)
    if found is None or on_device(module, found.values) is not True:
        return
    forward = heat_of(module, node).grade is Grade.FORWARD
    other = wait_that_stays(module, node) if forward else None
    words = {"op": module.shown(node.func), "alternative": f"pass {found.keyword}="}
    if other is None:
        yield Hit(node, words, severity=Severity.WARNING if forward else None)
    else:
        words["other"] = module.shown(other)
        yield Hit(node, words, severity=Severity.INFO, message=_BOTH)


@rule.on(cst.Subscript)
@rule.method(*SIZED_BY_VALUES)
def check_gather(node: cst.Subscript | cst.Call, module: Module) -> Iterator[Hit]:
    """Find a read whose size the device decides, once per iteration of a loop within the step."""
    if not gathers(module, node) or method_called(module.method_call(node)) == "item":
        return  # The read of what it finds is the finding.
    repeated = repeated_within_step(module, node)
    ends = () if repeated else folded_into(module, node)
    if not repeated and (not ends or stays_beside(module, node) is not None):
        return
    statement = module.small_statement(node) or module.statement(node)
    earlier = (
        other
        for other in module.within(statement, cst.Subscript, cst.Call)
        if other is not node and module.before(other, node)
    )
    if any(gathers(module, other) for other in earlier):
        return
    if ends:
        mask, loop = _mask(module, node), module.loop(node)
        same = mask is not None and loop is not None and is_fixed(module, mask, loop)
        words = {"end": " and ".join(ends), "alternative": _ONCE if same else _WEIGH[ends[0]]}
        words["gather"] = module.shown(node)
        yield Hit(node, words, severity=Severity.INFO, message=_FOLDED)
        return
    if not any(copies_around(module, node)) and _told_apart(module, node):
        if _of_row(module, node):
            yield Hit(node, {"gather": module.shown(node)}, message=_ROWS)
        return
    words = {"gather": module.shown(node), "alternative": _instead(module, node)}
    fix = masked_fix(module, node) or _host_fix(module, node)
    others = iteration_waits(module, node)
    if not others or fix is not None:
        yield Hit(node, words, fix, severity=Severity.WARNING, message=_GATHER)
    else:
        words["other"] = module.shown(others[0])
        yield Hit(node, words, severity=Severity.INFO, message=_STAYS)


def _host_fix(module: Module, node: cst.CSTNode) -> Fix | None:
    """Return the fix that copies to the host what a loop only reads there: counts of classes."""
    loop = module.loop(node)
    found = host_loop(module, loop) if isinstance(loop, cst.For) else None
    return brought_to_host(module, found) if found is not None and node in found.passed else None


@question(
    yes="how many elements there are is a part of the result",
    no="nothing tells how many elements there are",
)
def _told_apart(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether the number of elements is a part of what comes out: what is chosen is put into a
    list that is not joined, or Python asks whether there is any."""
    above = inner_loop(module, node)
    if isinstance(above, cst.ListComp):
        line = module.small_statement(above)
        match line:
            case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
                reads = readers_of(module, line, name) if value is above else []
            case _:
                reads = []
        takers = [module.called(module.taker(read)) for read in reads]
        apart = isinstance(line, cst.Return) and line.value is above
        return _several(module, above.elt) and (apart or any(t not in _JOINS for t in takers))
    for place in destinations(module, node):
        match place:
            case cst.If(cst.Comparison(number)):
                if method_called(number) == "numel":
                    return True
            case cst.Call(
                cst.Attribute(cst.Name(name) as held, cst.Name("append")),
                [cst.Arg(chosen)],
            ) if _several(module, chosen):
                made = set(definitions_of(module, held))
                reads = [
                    read
                    for read in reads_of(module, module.scope(node), name)
                    if not module.method_call(read)
                    and not made.isdisjoint(definitions_of(module, read))
                ]
                if any(module.called(module.taker(read)) not in _LOOKED_AT for read in reads):
                    return True
    return False


def _several(module: Module, chosen: cst.BaseExpression) -> bool:
    """Say whether an expression is a tensor of several elements, as torch makes it of others."""
    value = inferred(module, chosen)
    others = (module.name(call.func) for call in module.within(chosen, cst.Call))
    plain = all((name or "torch.").startswith("torch.") for name in others)
    return value.tensor and value.rank != 0 and plain


def _mask(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the mask, or the condition, by which a read chooses."""
    match node:
        case cst.Subscript(slice=parts):
            found = [each.slice.value for each in parts if isinstance(each.slice, cst.Index)]
            masks = [each for each in found if inferred(module, each).dtype == "bool"]
            return next(reversed(masks or found), None)
        case cst.Call(func, [*_, cst.Arg(given)]) if last_name(func) == "masked_select":
            return given
        case cst.Call(func, [cst.Arg(given), *_]) if module.name(func):
            return given
        case cst.Call(cst.Attribute(receiver)):
            return receiver
    return None


def _of_row(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether the mask is computed of what the loop goes over, and of nothing that an iteration
    makes itself."""
    loop, mask = inner_loop(module, node), _mask(module, node)
    match loop:
        case cst.For(target, body=body) if mask is not None:
            names = set(_names_behind(module, mask, body, _NAMES))
            changed = (
                root_of(each, cst.Subscript)
                for each in module.within(body, cst.Subscript)
                if isinstance(module.parent(each), (cst.AssignTarget, cst.AugAssign))
            )
            own = None in names or any(is_name(each, *filter(None, names)) for each in changed)
            return not own and not names.isdisjoint(module.names_in(target))
        case cst.ListComp(for_in=cst.CompFor(target)) if mask is not None:
            return not module.names_in(mask).isdisjoint(module.names_in(target))
    return False


def _names_behind(
    module: Module, node: cst.CSTNode, body: cst.CSTNode, depth: int
) -> Iterator[str | None]:
    """Yield the names that an expression is computed of, of what an iteration takes of others
    those; None for what it makes itself."""
    for name in module.within(node, cst.Name):
        found = definitions_of(module, name)
        match found if any(module.is_within(each, body) for each in found) else None:
            case None:
                yield name.value
            case [cst.Assign([cst.AssignTarget(cst.Name())], value)] if depth and all(
                method_called(each) in _VIEWS for each in module.within(value, cst.Call)
            ):
                yield from _names_behind(module, value, body, depth - 1)
            case _:
                yield None


def _instead(module: Module, node: cst.Subscript | cst.Call) -> str:
    """Return what does without the number of elements."""
    if only_counted(module, node):
        return "only their number is used: sum the mask"
    if any(copies_around(module, node)):
        return _COPY_FIRST
    if isinstance(node, cst.Subscript):
        return "keep all elements with the mask beside them (torch.where, a product with the mask)"
    return "keep the mask and use torch.where, or take a fixed number with topk"


_LENGTHS = frozenset(("size", "numel"))
_FEW = 3


@question(
    yes="a loop within the step repeats it for each element",
    no="no loop over data repeats it within the step",
)
def repeated_within_step(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a loop over data, not over a few things or the parts of a network, repeats a
    place within one step."""
    loop = inner_loop(module, node)
    if isinstance(loop, cst.While):
        return False
    parts = [loop] if isinstance(loop, cst.For) else []
    if isinstance(loop, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
        parts = [loop.for_in]  # type: ignore[list-item]
    for part in parts:
        count = iteration_count(module, part)
        if (count is not None and count <= _FEW) or is_structural(module, part):
            return False
    return bool(parts)


@question(yes="only the number of elements is used", no="the elements are used")
def only_counted(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether of what a read gives only the length is used: ``len(x[mask])``,
    ``x[mask].size(0)``."""
    above = module.parent(node)
    match above:
        case cst.Attribute(attr=cst.Name(name), value=inner) if inner is node:
            return name == "shape" or name in _LENGTHS
        case cst.Arg():
            call = module.parent(above)
            return module.called(call) == "builtins.len"
    return False
