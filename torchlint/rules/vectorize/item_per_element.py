"""Bring all elements to the host with one tolist()

## Why
Every `.item()`, `float(v)` or `int(v)` on a device tensor is a blocking copy of one number: the
host waits for all queued kernels, then for the copy. Iterating over the tensor makes one small view
per element on top. `t.tolist()` copies the whole tensor once and gives the same Python numbers (the
Performance Tuning Guide of the PyTorch docs, under "Avoid unnecessary CPU-GPU synchronization",
tells to avoid such reads; the source of `Tensor.tolist` makes one copy).

Flagged: a loop, comprehension or `map` over a tensor on the device (or over a list of such tensors)
that does nothing with an element, or with its parts, but read it on the host. In code that does not
run every step it is an `info`, and only if one tensor is gone over.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 1).to(device)
names = ["left", "right"]
loader = [torch.randn(4, 8) for _ in range(3)]
```

## Bad
```python
ranking = []
with torch.no_grad():
    for x in loader:
        scores = model(x.to(device)).flatten()
        ranking += [v.item() for v in scores]
        ranking += list(map(float, scores))
```

## Good
```python
ranking = []
with torch.no_grad():
    for x in loader:
        scores = model(x.to(device)).flatten()
        ranking += scores.tolist()
        ranking += list(map(float, scores.tolist()))
```

## Leave alone
A tensor on the CPU is read without waiting; the lengths of a schedule in a constructor are the
usual case.
```python
class Blocks(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.rates = [r.item() for r in torch.linspace(0, 0.1, depth)]
```

What is reduced for each part first is not a plain read of elements.
```python
for x in loader:
    sums = [part.sum().item() for part in model(x.to(device)).split(2)]
```

## Fix safety
Unsafe: all elements are read before the first iteration, so that a generator that is read later, or
a function that is called between the reads, may see the tensor changed, and after a `for` statement
its variable holds a number. Where the dimensions are not known it is `flatten().tolist()`, for each
row is read as one number. In programs that TorchScript compiles the loop iterates over a copy on
the host instead, whose elements are tensors as before.

## Measure
Timed is one pass over three batches of 500 samples. A gain is expected on a CPU, where one small
view and one call per element are saved, and more of it on a GPU, where each of those calls waits
for the device.
```python
loader = [torch.randn(500, 8) for _ in range(3)]
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.fixes.before_loop import elements_on_host
from torchlint.rule import (
    Append,
    Fix,
    Hit,
    Module,
    Remove,
    Replace,
    Rule,
    Safety,
    Severity,
    heat_of,
    inferred,
    one_sentence,
    wait_for,
)
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.text import mentions
from torchlint.semantic.uses.elements import (
    ElementReads,
    element_reads,
    one_dimensional,
)
from torchlint.semantic.uses.host_elements import HostElements, stays_as_it_is
from torchlint.semantic.uses.observers import scripted

rule = Rule(
    __name__,
    __doc__,
    code="TL604",
    message=(
        "`{expr}` reads the device once per element; go over `{tensor}.tolist()`, which "
        "reads it once."
    ),
    severity="warning",
    default=True,
    effect="launch",
    triggers=(b".item", b"float(", b"int(", b"bool(", b"map"),
    yields_to=("TL606",),
    equivalence="bitwise",
    runs="once",
)
_PERHAPS_LIST = (
    "`{expr}` reads the device once per element of `{tensor}`; read all at once "
    "(stack a list first) by `.tolist()`."
)
_LAYOUTS = regex(r"sparse|quantize|mkldnn")  # Such tensors have elements, but no ``tolist()``.
_EARLY = (
    "All elements are read before the first iteration, so that a change of the tensor between, or "
    "an error in it, comes too late or too early."
)
_NUMBER = "The loop's variable is a number, also after the loop."
_NO_DIMENSION = "A tensor without dimensions gives one element, where it raised."
_NO_LIST = "A sparse or quantized tensor has no tolist()."
_SIMPLE = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
_OWN_KIND = {"float": "float", "double": "float", "half": "float", "int": "int", "bool": "bool"}


@rule.on(cst.Call, calls=("builtins.map",))
@rule.on(cst.For, cst.CompFor)
def check(node: cst.For | cst.CompFor | cst.Call, module: Module) -> Iterator[Hit]:
    for found in element_reads(module, node):
        fix = _fix(module, node, found)
        for read in found.reads:
            hot = heat_of(module, read.node).hot
            if not hot and (found.single is not True or throttled(module, read.node)):
                continue
            tensor = (
                module.shown(found.tensor)
                if isinstance(found.tensor, _SIMPLE)
                else f"({module.shown(found.tensor)})"
            )
            words = {"expr": module.shown(read.node), "tensor": tensor}
            message = None if found.single else _PERHAPS_LIST
            severity = None if hot else Severity.INFO
            mine = fix if read is found.reads[0] else None
            wait = wait_for(module, read.node)
            yield Hit(read.node, words, mine, severity, message, cause=wait)


def _fix(module: Module, node: cst.CSTNode, found: ElementReads) -> Fix | None:
    """Return the rewrite to ``tolist()``."""
    if found.single is not True:
        return None
    if scripted(module) and isinstance(node, (cst.For, cst.CompFor)):
        # The fix that goes over a copy on the host: its elements are tensors as before, which
        # TorchScript has one type for.
        kept = stays_as_it_is(module, found.tensor, node)
        return elements_on_host(module, HostElements(node, (), (), (), found.tensor, kept))
    title = "Read all elements with one tolist()"
    flat = "" if one_dimensional(module, found.tensor) else ".flatten()"
    notes = (
        _EARLY,
        _NUMBER if isinstance(node, cst.For) else "",
        _NO_DIMENSION if flat else "",
        _NO_LIST if mentions(module, _LAYOUTS) else "",
    )
    safety, note = Safety.UNSAFE, one_sentence(notes)
    if scripted(module):
        safety, note, flat = Safety.SUGGESTION, "", ""
    if isinstance(node, cst.Call):
        if found.reads[0].how == "item":
            return None
        return Fix((Append(found.tensor, f"{flat}.tolist()"),), safety, title, note)
    if any(read.direct is None for read in found.reads):
        return None
    whole = _as_list(module, found, bool(flat))
    if whole is not None:
        return Fix((whole,), safety, title, note)
    plain = [
        _read_directly(module, r.node, r.direct)
        for r in found.reads
        if r.how == "item" and r.direct is not None
    ]
    return Fix((Append(found.tensor, f"{flat}.tolist()"), *plain), safety, title, note)


def _read_directly(
    module: Module, read: cst.BaseExpression, direct: cst.CSTNode
) -> Replace | Remove:
    """Return the edit for one read; ``v = v.item()`` alone on its line has nothing left to do."""
    line = module.statement(read)
    match line:
        case cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(target)], value)]) if (
            value is read and target.deep_equals(direct)
        ):
            return Remove(line)
    return Replace(read, direct)


def _as_list(module: Module, found: ElementReads, flat: bool) -> Replace | None:
    """Return the replacement of ``[v.item() for v in t]`` by ``t.tolist()``: the list has Python's
    own types."""
    how = found.reads[0].how
    own = how == "item" or how == _OWN_KIND.get(inferred(module, found.tensor).dtype or "")
    simple = isinstance(found.tensor, _SIMPLE)
    if not own or not simple or not isinstance(found.whole, cst.ListComp):
        return None
    tensor = found.tensor
    if flat:
        tensor = cst.Call(cst.Attribute(tensor, cst.Name("flatten")))
    return Replace(found.whole, cst.Call(cst.Attribute(tensor, cst.Name("tolist"))))
