"""Take the logarithm inside of the softmax or the sigmoid

## Why
`log(softmax(z))` runs two kernels and keeps both results for the backward pass, and where a
probability underflows to zero its logarithm is -inf. `log_softmax` and `logsigmoid` do both in one
pass and stay finite. The same holds for a sigmoid in front of `BCELoss`: the page of
`BCEWithLogitsLoss` in the PyTorch docs calls the combination "more numerically stable", and the
automatic mixed precision page says that `binary_cross_entropy` and `BCELoss` raise an error in
autocast regions. `cross_entropy` takes logits, and a softmax in front of it is a mistake: it is
applied twice.

Flagged: a logarithm of a softmax or sigmoid whose result nothing else reads, directly or by one
name, behind a view, a slice, `gather` or `topk`, or returned by a function or model of this file;
with a small number added in between as info. Further `binary_cross_entropy` or `BCELoss` on a
sigmoid, and `cross_entropy` or `CrossEntropyLoss` on a softmax (an error), also where the sigmoid
or softmax is the last layer of a `Sequential` in the same file.

## Setup
```python
import torch
import torch.nn.functional as F
from torch import nn

z = torch.randn(8, 10, requires_grad=True)
y = torch.randint(10, (8,))
```

## Bad
```python
logp = torch.log(torch.softmax(z, dim=-1))
loss = F.nll_loss(logp, y)
```

```python
loss = F.cross_entropy(F.softmax(z, dim=-1), y)
```

## Good
```python
logp = torch.log_softmax(z, dim=-1)
loss = F.nll_loss(logp, y)
```

```python
loss = F.cross_entropy(z, y)
```

## Leave alone
The probabilities are needed as well.
```python
p = torch.softmax(z, dim=-1)
entropy = -(p * torch.log(p)).sum(dim=-1)
```

Already fused.
```python
loss = F.nll_loss(F.log_softmax(z, dim=-1), y) - F.logsigmoid(z).mean()
```

Where an infinity or -1e9 was written into the logits, the loss of their probabilities stays finite,
as `binary_cross_entropy` cuts logarithms off at -100.
```python
hidden = z.masked_fill(z > 1, -1e9)
loss = F.binary_cross_entropy(torch.sigmoid(hidden), torch.ones_like(z))
```

## Fix safety
Unsafe: results differ by rounding, and are finite where they were infinite; gradients there differ,
too. A softmax in front of `cross_entropy` is applied once instead of twice, so the loss has other
values. No edit is offered where a small number is added (its effect goes away), where a layer would
have to leave the model, or in front of a binary cross entropy.

## Measure
The forward pass on 256 rows of 1000 classes. A gain can be expected on a CPU, too; the backward
pass is not timed.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
z = torch.randn(256, 1000, device=device, requires_grad=True)
y = torch.randint(1000, (256,), device=device)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, Replace, Rule, Safety, Severity, inferred
from torchlint.rules.precision._unfused_log_softmax.fills import filled
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.names import one_by_one
from torchlint.semantic.code.reaching import assigned_value, definitions_of, readers_of, sole_use
from torchlint.semantic.code.scopes import own_method
from torchlint.semantic.question import question
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.torch import ops
from torchlint.semantic.values.operations import operation_of

_LAYERS = ops.values("is", "layer")
_FUSED = ops.values("log")
_BINARY = ("binary_cross_entropy", "BCELoss")
_SAME_ELEMENTS = (
    ops.having("view", "method") - ops.having("several")
    | ops.having("same")
    | ops.having("pick", "own", "keeps-whole")
)
_RANKS = (
    ops.having("pick", "several", "hint")
    | ops.having("along", "several")
    | ops.having("reduce", "several-with-more")
)
_SMALL = 0.01
_CROSS = ("cross_entropy", "CrossEntropyLoss")
_NAMES = ("log", *_BINARY, *_CROSS)
_NOTE = "Results differ by rounding, and are finite where a probability underflows to zero."
_EPSILON = "log({kind} + number) → {fused}: one kernel, and stable without the added number."
_TWICE = "cross_entropy takes logits; with a softmax in front it is applied twice."
_LAYER = (
    "{loss} behind a model that ends in Sigmoid → BCEWithLogitsLoss on its logits: one "
    "kernel, no -inf."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL404",
    message="{form} → {remedy}: one kernel, no -inf.",
    severity="warning",
    default=True,
    effect="gpu",
    triggers=(b"log", b"BCELoss", b"cross_entropy", b"CrossEntropyLoss"),
    equivalence="opt-in",
)


def _is_meant(name: str) -> bool:
    return name.rpartition(".")[2].rstrip("_") in _NAMES


@rule.on(cst.Call, file=lambda module: module.names.calls_of(_is_meant))
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    found = operation_of(module, node)
    if found is None or not found.operands or found.name not in _NAMES:
        return
    if no_grad(module, node):
        return
    source = _origin(module, found.operands[0])
    behind = _without_views(module, found.operands[0])
    if found.name == "log":
        yield from _logarithm(module, node, source, behind)
        return
    kind, inner = _probabilities(module, source)
    if found.name in _CROSS:
        ends = _probabilities(module, behind)[0] or _last_layer(module, behind)
        if "softmax" in (kind, ends):
            yield Hit(
                node, message=_TWICE, severity=Severity.ERROR, fix=_direct(module, node, inner)
            )
    elif kind == "sigmoid":
        logits = _logits(module, inner) if inner is not None else None
        if logits is not None and filled(module, logits):
            return
        remedy = (
            "BCEWithLogitsLoss" if found.name == "BCELoss" else "binary_cross_entropy_with_logits"
        )
        yield Hit(node, {"form": f"{found.name}(sigmoid)", "remedy": remedy})
    elif _last_layer(module, source) == "sigmoid":
        yield Hit(node, {"loss": found.name}, message=_LAYER)


def _logarithm(
    module: Module, node: cst.Call, source: cst.BaseExpression, behind: cst.BaseExpression
) -> Iterator[Hit]:
    kind, inner = _probabilities(module, source)
    fix = _fuse(module, node, inner, kind) if kind and inner is not None else None
    # What stands between the two, or in another function, has to be written anew.
    kind = kind or _probabilities(module, behind)[0] or _last_layer(module, behind)
    if kind:
        fused = _FUSED[kind]
        yield Hit(node, {"form": f"log({kind})", "remedy": fused}, fix=fix)
        return
    found = operation_of(module, source)
    if found is None or found.name != "add" or len(found.operands) != 2:
        return
    for part, number in (found.operands, found.operands[::-1]):
        kind, _ = _probabilities(module, _origin(module, part))
        if kind and _small(module, number):
            yield Hit(
                node,
                {"kind": kind, "fused": _FUSED[kind]},
                message=_EPSILON,
                severity=Severity.INFO,
            )


def _small(module: Module, node: cst.BaseExpression) -> bool:
    if isinstance(node, (cst.Float, cst.Integer)):
        return float(node.value.replace("_", "")) < _SMALL
    return inferred(module, node).kind == "number"


def _origin(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression that made a name's value, where this is the value's only read."""
    made = assigned_value(module, node)
    return made if made is not None and sole_use(module, made) is node else node


@question()
def _without_views(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression behind views and choices of its elements, which a logarithm may come
    before as well, and behind a function of this file that returns it.

    The order of probabilities is that of their logarithms: of ``topk`` and ``max``, too.
    """
    inner = _step(module, _origin(module, node))
    behind = _without_views(module, inner) if inner is not None else None
    return behind or _origin(module, node)


def _step(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the expression one step behind; None where there is none."""
    match node:
        case cst.Name():
            return _ranked(module, node) or _returned_part(module, node)
        case cst.Subscript(inner):
            taken = _first_of(module, node)
            return taken if taken is not None else inner
        case cst.Attribute(cst.Call() as call, cst.Name("values")):
            return _chosen(module, call)
    found = operation_of(module, node)
    if found is not None and found.operands and found.name in _SAME_ELEMENTS:
        return found.operands[0]
    return _returned(module, node) if isinstance(node, cst.Call) else None


def _chosen(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the tensor of which ``topk``, ``max`` or ``sort`` along a dimension takes the
    largest."""
    found = operation_of(module, node)
    if found is not None and found.name in _RANKS and found.operands:
        return found.operands[0]
    return None


def _first_of(module: Module, node: cst.Subscript) -> cst.BaseExpression | None:
    """Return what ``x.max(1)[0]`` takes the largest of."""
    match node.slice[0].slice:
        case cst.Index(cst.Integer("0")):
            return _chosen(module, node.value)
    return None


def _ranked(module: Module, node: cst.Name) -> cst.BaseExpression | None:
    """Return what ``p`` is taken of in ``p, where = x.topk(k)``, where this is its only read."""
    made = definitions_of(module, node)
    match made:
        case [
            cst.Assign(
                [cst.AssignTarget(cst.Tuple([cst.Element(cst.Name(name)), _]))],
                value,
            ) as statement
        ] if name == node.value and readers_of(module, statement, name) == [node]:
            return _chosen(module, value)
    return None


def _returned_part(module: Module, node: cst.Name) -> cst.BaseExpression | None:
    """Return what a function of this file gives for `p` in ``value, p = heads(x)``, where this is
    its only read."""
    match definitions_of(module, node):
        case [
            cst.Assign([cst.AssignTarget(cst.Tuple() as target)], cst.Call() as call) as statement
        ] if readers_of(module, statement, node.value) == [node]:
            pairs = zip(target.elements, one_by_one(target, _returned(module, call)), strict=True)
            return next((given for each, given in pairs if each.value.deep_equals(node)), None)
    return None


def _returned(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    """Return the expression that a function of this file, or the ``forward`` of a class, always
    returns."""
    functions, made = callees_of(module, call), inferred(module, call.func)
    sole = functions[0] if len(functions) == 1 else None
    if not functions and made.kind == "module" and isinstance(made.node, cst.ClassDef):
        sole = own_method(module, made.node, "forward")
    if not isinstance(sole, cst.FunctionDef):
        return None
    results = list(module.within(sole.body, cst.Return))
    return results[0].value if len(results) == 1 else None


def _probabilities(module: Module, node: cst.BaseExpression) -> tuple[str, cst.Call | None]:
    """Return whether an expression is a softmax or a sigmoid, and its call."""
    found = operation_of(module, node)
    kind = _LAYERS.get(found.name, found.name) if found is not None and found.operands else ""
    return (kind, node) if kind in _FUSED and isinstance(node, cst.Call) else ("", None)


def _last_layer(module: Module, node: cst.BaseExpression) -> str:
    """Return ``softmax`` or ``sigmoid``, where a Sequential of this file that ends in it gives the
    value."""
    made = inferred(module, node.func).node if isinstance(node, cst.Call) else None
    if (
        not isinstance(made, cst.Call)
        or module.name(made.func) != "torch.nn.Sequential"
        or not made.args
    ):
        return ""
    return _LAYERS.get(module.called(made.args[-1].value).removeprefix("torch.nn."), "")


def _renamed(call: cst.Call, name: str) -> cst.Call | None:
    """Return the call with the last part of its function's name replaced."""
    func = call.func
    return (
        call.with_changes(func=func.with_changes(attr=cst.Name(name)))
        if isinstance(func, cst.Attribute)
        else None
    )


def _fuse(module: Module, node: cst.Call, inner: cst.Call, kind: str) -> Fix | None:
    func = inner.func
    functional = (module.name(func) or "").startswith("torch.nn.functional.")
    found = operation_of(module, inner)
    layer = found is not None and found.made is not None
    new = _renamed(inner, _FUSED[kind]) if (functional or kind == "softmax") and not layer else None
    if module.source_of(func) == "torch.sigmoid":
        new = inner.with_changes(func=cst.parse_expression("torch.nn.functional.logsigmoid"))
    if new is None or not module.is_within(inner, node):
        return None
    return Fix((Replace(node, new),), Safety.UNSAFE, f"Call {_FUSED[kind]}", _NOTE)


def _logits(module: Module, inner: cst.Call) -> cst.BaseExpression | None:
    found = operation_of(module, inner)
    return found.operands[0] if found is not None else None


def _direct(module: Module, node: cst.Call, inner: cst.Call | None) -> Fix | None:
    logits = _logits(module, inner) if inner is not None and module.is_within(inner, node) else None
    if inner is None or logits is None:
        return None
    note = "The loss has other values: the softmax is applied once instead of twice."
    return Fix((Replace(inner, logits),), Safety.UNSAFE, "Pass the logits", note)
