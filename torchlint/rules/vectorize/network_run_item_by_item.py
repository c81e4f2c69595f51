"""Run a network on a batch, not on one item after the other

## Why
A network reads all its weights and launches all its kernels for one item as for fifty. Batches of
one leave most of the GPU idle, and Python's time for the launches decides: a loop that runs
`model(x[i].unsqueeze(0))` for each of ten thousand rows takes many times as long as a loader over
them does.

Flagged: the call of a network in a loop over many items where each call gets a batch of one that is
made of the loop's item (`unsqueeze(0)`, `[None]`, `torch.tensor([item])`), or one sample of a
dataset (`dataset[i]`), and nothing of an earlier iteration goes into it; also in a function that
such a loop calls. The finding is at the loop, and says so where the loop trains with an optimizer
step for each item. In a forward pass, a part of the network that gets one slice of a tensor after
the other, `self.encoder(clip[:, t])`: folded into the batch, all run at once. It is an `info` where
the items are not known to be of one size, as rows of a tensor or samples of a dataset are.

Silent: a loss, a network that is changed, chosen or trained otherwise in each iteration, scales of
one picture, and pictures and recordings in a file in which nothing brings them to one size.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device).eval()
rows = torch.ones(64, 4)
```

## Bad
```python
found = []
with torch.no_grad():
    for i in range(len(rows)):
        found.append(model(rows[i].unsqueeze(0).to(device)))
scores = torch.cat(found).cpu()
```

## Good
```python
found = []
with torch.no_grad():
    for batch in rows.split(32):
        found.append(model(batch.to(device)))
scores = torch.cat(found).cpu()
```

## Leave alone
What is given to the network depends on what it gave before.
```python
state = rows[0]
with torch.no_grad():
    for i in range(len(rows)):
        moves = model(state.unsqueeze(0).to(device))
        state = state + moves.mean().cpu()
```

A handful, to look at.
```python
with torch.no_grad():
    for i in range(5):
        print(model(rows[i].unsqueeze(0).to(device)))
```

The network is another one for each item.
```python
with torch.no_grad():
    for row, weight in zip(rows, torch.ones(64, 2, 4, device=device)):
        model.weight.copy_(weight)
        print(model(row[None].to(device)))
```

## Fix safety
No fix is offered: what the loop does with each result has to be done with rows of a batch, the last
batch is smaller, and sums over a batch may be rounded otherwise. In training, steps on batches are
other steps: the learning rate may have to grow.

## Measure
The loop over 64 rows, with a larger network. A gain can be expected on a CPU, too.
```python
model = nn.Sequential(nn.Linear(4, 512), nn.ReLU(), nn.Linear(512, 2)).to(device).eval()
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, Severity, inferred
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import assigned_value
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import attr_of, last_name
from torchlint.semantic.data.datasets import holds_samples
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources, number_of
from torchlint.semantic.time.loops import steps_of
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.changed_models import changes_for_each, keeps_state
from torchlint.semantic.uses.each_item import each_item, of_earlier
from torchlint.semantic.values.classes import is_network
from torchlint.semantic.values.inferred import is_model_call

_ACCELERATOR = regex(r"cuda|device")
_KEPT = ops.having("move") | ops.having("same") | ops.having("cast") | {"squeeze"}
_OPENS = regex(
    r"imread\b|\bImage\.open\b|(open|load|read)_(image|img|audio|wav|video)|torchaudio\.load\b|"
    r"librosa\.load\b|\b(sf|soundfile|wavfile)\.read\b|\bread_image\b"
)
_SIZED = regex(r"(?i)resiz|crop|img_?size|image_?size|chunk|segment|video")
"""What gives pictures and recordings, which are of many sizes, one size; frames of a video have."""
_SIZES = regex(r"scale|ratio|resolution")
"""What people call what they make pictures of other sizes by."""
_FROM_DATA = ops.dotted("from-data") | {"numpy.array", "numpy.asarray"}
_FOLDED = (
    "`{call}(…)` runs for one slice after the other, though none depends on another; fold the "
    "dimension into the batch (flatten(0, 1)), run it once, and unflatten what it gives."
)
_TRAINED = (
    "`{call}(…)` trains on one item a step: the GPU reads all weights and launches all kernels for "
    "each; load batches of them (DataLoader)."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL609",
    message=(
        "`{call}(…)` gets one item at a time, though none depends on another: the GPU reads all "
        "weights and launches all kernels for each; stack them and run batches."
    ),
    severity="warning",
    default=True,
    effect="none",
    triggers=(
        b"unsqueeze",
        b"[None",
        b"newaxis",
        b"expand_dims",
        b"ensor([",
        b"array([",
        b"set[",
        b"ds[",
        b"forward",
    ),
    equivalence="close",
)


def _runs_network(module: Module, node: cst.Call) -> bool:
    """Say whether a call gives something to a network, and does not generate text by it."""
    given = bool(node.args) and attr_of(node.func) != "generate"
    return given and is_model_call(module, node)


@rule.on(cst.Call, about=_runs_network, file=lambda module: mentions(module, _ACCELERATOR))
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    given = [arg.value for arg in node.args]
    items = (item for each in given for item in _items(module, each))
    for item in items:
        if (loop := each_item(module, item)) is not None:
            if not any(of_earlier(module, each) for each in given):
                yield from _at(module, node, item, loop)
            return


def _at(
    module: Module, node: cst.Call, item: cst.BaseExpression, loop: cst.For | cst.CompFor
) -> Iterator[Hit]:
    bound = module.names_in(loop.target)
    sizes = any(_SIZES.search(name) for name in (*bound, last_name(loop.iter)))
    if sizes or module.names_in(node.func) & bound:
        return
    home = module.scope(node)
    here = isinstance(loop, cst.For) and module.scope(loop) is home
    place: cst.CSTNode = loop if here else node
    alike = here and _alike(module, item, loop)
    opens = any(_OPENS.search(module.source(each)) for each in (home, module.scope(loop)))
    if (not alike and opens and not mentions(module, _SIZED)) or keeps_state(
        module, node.func, loop
    ):
        return
    words, severity = {"call": module.shown(node.func)}, None if alike else Severity.INFO
    if isinstance(item, cst.Subscript) and _is_slice(module, item) and _in_forward(module, node):
        if all(_items(module, arg.value) for arg in node.args):
            yield Hit(node, words, severity=severity, message=_FOLDED)
    elif module.loop(node) is loop and steps_of(module, loop):
        yield Hit(place, words, severity=severity, message=_TRAINED)
    elif not changes_for_each(module, node.func, item):
        yield Hit(place, words, severity=severity)


def _in_forward(module: Module, node: cst.Call) -> bool:
    """Say whether a network runs in the forward pass of another."""
    cls, func = module.class_of(node), dotted_text(node.func) or ""
    return cls is not None and is_network(module, cls) and func.startswith("self.")


@question(
    yes="each item is as large as the others", no="whether the items are of one size is not known"
)
def _alike(module: Module, node: cst.BaseExpression, loop: cst.For | cst.CompFor) -> bool:
    """Say whether an expression is made of rows of a tensor or an array, or samples of a dataset,
    by a loop that goes over them or over their positions."""
    rows = [
        part.value
        for part in module.within(node, cst.Subscript)
        if module.names_in(loop.target) & module.names_in(*part.slice)
    ]
    rows += [goes.iterated for goes in loop_sources(module, loop)]
    values = [assigned_value(module, name) for name in module.within(node, cst.Name)]
    return any(
        inferred(module, each).kind in ("tensor", "ndarray") or holds_samples(module, each)
        for each in rows
    ) or any(_alike(module, value, loop) for value in values if value is not None)


def _is_slice(module: Module, node: cst.Subscript) -> bool:
    """Say whether an expression is one position of a dimension of a tensor: ``x[:, i]``."""
    at = [
        part.lower if isinstance(part, cst.Slice) else part.value
        for part in (each.slice for each in node.slice)
        if isinstance(part, cst.Slice | cst.Index)
    ]
    return inferred(module, node.value).tensor and any(
        isinstance(each, cst.Name) and inferred(module, each).kind == "number" for each in at
    )


@question(circular=())
def _items(module: Module, given: cst.BaseExpression) -> Sequence[cst.BaseExpression]:
    """Return the items of which batches of one are made, and samples of datasets."""
    inner: list[cst.BaseExpression] = []
    match given:
        case cst.Name():
            inner = [value] if (value := assigned_value(module, given)) is not None else []
        case cst.Tuple(elements):
            inner = [each.value for each in elements]
        case cst.Subscript() if _is_slice(module, given):
            return [given]
        case cst.Subscript(held, [cst.SubscriptElement(cst.Index(first)), *_]):
            if last_name(first) in ("None", "newaxis") or holds_samples(module, held):
                return [given]
            inner = [held]
        case cst.Call(cst.Attribute(held, cst.Name(name))) if name in _KEPT:
            inner = [held]
        case cst.Call(func, [cst.Arg(first), *rest]):
            at = rest[0].value if rest else first
            if module.called(given) == "numpy.expand_dims" or (
                last_name(func) == "unsqueeze" and number_of(module, at) == 0
            ):
                return [given]
            if module.called(given) in _FROM_DATA:
                if isinstance(first, cst.List) and len(first.elements) == 1:
                    return [given]
                inner = [first]
    return [item for each in inner for item in _items(module, each)]
