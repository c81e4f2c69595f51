"""Keep counters of compiled modules in tensors

## Why
`torch.compile` guards the code that it makes: it is used again as long as all Python values that it
has read are the same. A whole number that is an attribute of a module is such a value;
floating-point numbers, arguments and attributes of plain objects become symbols after the second
value. Where it changes from call to call, each call compiles anew; after eight of these
(`torch._dynamo.config.recompile_limit`) the function runs uncompiled for good. A list attribute
that grows is guarded by its length. Counted with torch 2.13 over 20 calls: eight compilations for
`self.calls += 1` in `forward`, whether or not anything uses the number, for a number that the
training loop sets, for `self.seen.append(…)`, and with `dynamic=True`; one with a buffer; two with
`calls = 0.0`. `TORCH_LOGS=recompiles` prints the guard that failed.

Flagged: in code of this file that `torch.compile` compiles, `self.count += 1` of an attribute of a
module that starts as a whole number, also under `if self.training`, and `self.list.append(…)`; and
a training loop that counts or sets such an attribute from outside, where the compiled code reads
it. Silent: a counter that wraps around (`% n`), stops or starts anew, and files that set
`allow_unspec_int_on_nn_module`.

## Setup
```python
import torch
from torch import nn

x = torch.randn(2, 8)
```

## Bad
```python
class Warm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        nn.init.eye_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * min(1.0, self.calls / 100)


fast = torch.compile(Warm(), backend="eager")
y = [fast(x) for _ in range(3)]
```

## Good
```python
class Warm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        nn.init.eye_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.layer(x) * (self.calls / 100).clamp(max=1.0)


fast = torch.compile(Warm(), backend="eager")
y = [fast(x) for _ in range(3)]
```

## Leave alone
Nothing compiles this module.
```python
class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls
```

A few values come again and again.
```python
class Turns(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = 0

    def forward(self, x):
        self.turn = (self.turn + 1) % 2
        return x * self.turn


turns = torch.compile(Turns(), backend="eager")
y = turns(x)
```

## Fix safety
No fix is offered: what reads the number has to take a tensor.

## Measure
Timed are four calls of a module just compiled; the backend is `eager`, so that no kernel is made. A
gain is expected on a CPU and on a GPU: what is saved are compilations, of which each takes seconds
with the default backend.
```python
x = torch.randn(64, 8)
```

```python
torch.compiler.reset()
for _ in range(4):
    y = fast(x)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule, conditions_around, heat_of, inferred
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.scopes import method_of, scopes
from torchlint.semantic.code.tree import attr_of
from torchlint.semantic.question import question
from torchlint.semantic.time.step_overhead import compiled_by, regions

_CONFIG = "allow_unspec_int_on_nn_module"

rule = Rule(
    __name__,
    __doc__,
    code="TL608",
    message="{value} changes from call to call and guards compiled code: torch.compile compiles "
    "eight times, then gives up; keep it in a tensor, or out of compiled code.",
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"compile",),
)


@rule.on(cst.AugAssign)
def check_count(node: cst.AugAssign, module: Module) -> Iterator[Hit]:
    if isinstance(node.operator, cst.AddAssign) and isinstance(node.value, cst.Integer):
        yield from _changed(module, node, node.target)


@rule.on(cst.Assign)
def check_set(node: cst.Assign, module: Module) -> Iterator[Hit]:
    match node:
        case cst.Assign(
            [cst.AssignTarget(cst.Attribute() as place)],
            cst.BinaryOperation(),
        ) if grows_by_whole_numbers(module, node):
            yield from _changed(module, node, place)
        case cst.Assign([cst.AssignTarget(cst.Attribute() as place)], cst.Name() as value) if (
            _counts_iterations(module, value)
        ):
            yield from _set_outside(module, node, place)


@rule.method("append")
def check_list(node: cst.Call, module: Module) -> Iterator[Hit]:
    place = node.func.value if isinstance(node.func, cst.Attribute) else None
    statement = module.parent(node)
    match place:
        case cst.Attribute(cst.Name("self"), cst.Name(name)) if (
            isinstance(statement, cst.Expr)
            and _is_guarded(module, node)
            and _is_first_bound(module, node, name, cst.List)
            and not any(
                each.attr.value in ("clear", "pop", "popleft") and attr_of(each.value) == name
                for each in module.nodes(cst.Attribute)
            )
        ):
            yield Hit(node, {"value": f"the length of `{module.shown(place)}`"})


@question(
    yes="`{0}` counts up by whole numbers",
    no="`{0}` does not count up by whole numbers, or starts again",
)
def grows_by_whole_numbers(module: Module, node: cst.Assign) -> bool:
    """Say whether an assignment adds a whole number to what it binds, and nothing else:
    ``self.calls = self.calls + 1``."""
    match node:
        case cst.Assign(
            [cst.AssignTarget(place)],
            cst.BinaryOperation(left, cst.Add(), cst.Integer()),
        ):
            return left.deep_equals(place)
    return False


def _changed(module: Module, node: cst.AugAssign | cst.Assign, place: cst.CSTNode) -> Iterator[Hit]:
    match place:
        case cst.Attribute(cst.Name("self"), cst.Name(name)) if _is_guarded(module, node):
            if _is_first_bound(module, node, name, cst.Integer):
                yield Hit(node, {"value": f"`{module.shown(place)}`"})
        case cst.Attribute():
            yield from _set_outside(module, node, place)


def _is_guarded(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a statement of a module's method runs in each call of compiled code."""
    cls, function = module.class_of(node), module.function(node)
    return (
        cls is not None
        and function is not None
        and not module.loops(node)
        and compiled_by(module, node) is not None
        and _CONFIG not in module.text
        and scopes(module).is_module(cls)
        and all(
            needed and dotted_text(test) == "self.training"
            for test, needed in conditions_around(module, node, function)
        )
    )


def _is_first_bound(
    module: Module, node: cst.CSTNode, name: str, kind: type[cst.BaseExpression]
) -> bool:
    """Say whether all that binds an attribute elsewhere gives it a literal of one kind, and nothing
    does that in each step."""
    cls = module.class_of(node)
    own = module.small_statement(node)
    bound = [
        statement
        for statement in (module.within(cls, cst.Assign, nested=True) if cls is not None else ())
        if statement is not own
        and any(dotted_text(each.target) == f"self.{name}" for each in statement.targets)
    ]
    return bool(bound) and all(
        isinstance(statement.value, kind) and not heat_of(module, statement).hot
        for statement in bound
    )


def _set_outside(
    module: Module, node: cst.AugAssign | cst.Assign, place: cst.Attribute
) -> Iterator[Hit]:
    """Yield a hit where each step sets a whole number that the forward pass of a compiled module
    reads."""
    cls, name = _class_of(module, place.value), place.attr.value
    if cls is None:
        return
    forward = method_of(module, cls, "forward")
    if forward is None or forward not in regions(module) or _CONFIG in module.text:
        return
    reads = any(
        dotted_text(each) == f"self.{name}" for each in module.within(forward.body, cst.Attribute)
    )
    if (
        reads
        and heat_of(module, node).hot
        and compiled_by(module, node) is None
        and _is_first_bound(module, forward, name, cst.Integer)
    ):
        yield Hit(node, {"value": f"`{module.shown(place)}`"})


def _class_of(module: Module, node: cst.BaseExpression) -> cst.ClassDef | None:
    """Return the class of this file that a module is of, also behind ``torch.compile``."""
    found = inferred(module, node)
    for made in definitions_of(module, node) if isinstance(node, cst.Name) else ():
        match made:
            case cst.Assign(value=cst.Call(func, [cst.Arg(inner), *_])) if (
                module.name(func) == "torch.compile"
            ):
                found = inferred(module, inner)
    cls = found.node
    return cls if found.kind == "module" and isinstance(cls, cst.ClassDef) else None


def _counts_iterations(module: Module, value: cst.Name) -> bool:
    """Say whether a name is the number of a loop's iteration, or is counted in it."""
    for made in definitions_of(module, value):
        match made:
            case cst.AugAssign(value=cst.Integer()) if module.loops(made):
                return True
            case cst.For(
                cst.Tuple([cst.Element(cst.Name(name)), *_]),
                cst.Call(cst.Name("enumerate")),
            ) if name == value.value:
                return True
            case cst.For(cst.Name(), cst.Call(cst.Name("range"))) if (
                made in module.loops(value)[:1]
            ):
                return True
    return False
