"""Detach what is only kept for a report

## Why
A tensor keeps the autograd graph that made it alive. "Don't accumulate history across your training
loop", says the PyTorch FAQ: a sum or a list of losses refers to the graphs of all steps. After
`backward()` the saved activations are already freed and only graph nodes stay; without a backward
pass (a validation loop without `no_grad`) all activations of all batches stay in memory. `detach()`
drops the graph without waiting for the device; `item()` would drop it as well, but stalls on every
step.

Flagged: in a training or evaluation loop with autograd on, a sum, a list or a dictionary older than
the step, or a part of one, that grows by a tensor with a graph, also in a tuple or a dictionary,
where neither the tensor nor the whole is back-propagated later as far as this file shows. Silent:
a sum of what each iteration back-propagates that starts anew where the optimizer steps; it keeps a
few nodes only.

## Setup
```python
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(2, 4), torch.randn(2, 1)) for _ in range(8)]
loss_fn = nn.MSELoss()
```

## Bad
```python
def train():
    total = 0.0
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss
        losses.append(loss)
    mean = (total / len(losses)).item()
    return mean, [value.item() for value in losses]


mean, curve = train()
```

## Good
```python
def train():
    total = 0.0
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        losses.append(loss.detach())
    mean = (total / len(losses)).item()
    return mean, [value.item() for value in losses]


mean, curve = train()
```

## Leave alone
The sum is what is back-propagated.
```python
for step in range(3):
    total = 0.0
    for x, y in loader:
        total = total + loss_fn(model(x), y)
    total.backward()
    optimizer.step()
```

No graph is recorded here.
```python
total = 0.0
with torch.no_grad():
    for x, y in loader:
        total += loss_fn(model(x), y)
print(total.item())
```

## Fix safety
Safe where a function's own list, or a sum that starts with a number, collects losses or what torch
has certainly computed, and all its readers are known and end in `item()`, `float()`, `len()`, a
format for numbers and the like: they see the same values. Unsafe everywhere else, for the collected
values no longer require gradients: code that saves, plots, yields or returns them would see the
difference, and a backward pass would fail.

## Measure
Timed is one call of `train()` over 16 batches. No gain in time is expected on a CPU or a GPU: what
is saved is the memory of the graphs.
```python
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = [(torch.randn(16, 64), torch.randn(16, 1)) for _ in range(16)]
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.rule import Append, Fix, Hit, Module, Rule, Safety, heat_of, inferred
from torchlint.semantic.code.flow import call_sites, reads_of, writes_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import (
    DISPLAYS,
    LOOPS,
    attr_of,
    components,
    method_called,
    root_of,
)
from torchlint.semantic.question import question
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.time.grades import Heat
from torchlint.semantic.time.iterations import is_reset, spelled_alike
from torchlint.semantic.time.loops import steps_of
from torchlint.semantic.uses.assumptions import FRAMES, LOSSES, TORCH
from torchlint.semantic.uses.gradients import runs_without_graph
from torchlint.semantic.uses.graph_use import GraphOutcome, graph_end
from torchlint.semantic.values.value import Value

_NOTE = (
    "The collected values no longer require gradients, which code that back-propagates them "
    "would miss."
)
_LITERALS = (cst.Tuple, cst.List, cst.Dict)

rule = Rule(
    __name__,
    __doc__,
    code="TL502",
    message="{acc} keeps every step's autograd graph alive; detach the value.",
    severity="warning",
    default=True,
    effect="memory",
    triggers=(b"+=", b"append", b"extend", b" + ", b"] ="),
    yields_to=("TL501",),
    equivalence="bitwise",
    runs="batch",
)


@frozen
class _Growth:
    """One statement that adds values to an accumulator: a sum, a list or a dictionary."""

    place: cst.BaseExpression
    values: tuple[cst.BaseExpression, ...]
    node: cst.AugAssign | cst.Assign | cst.Call


@rule.on(cst.Call, calls=(".append", ".extend"))
@rule.on(cst.AugAssign, cst.Assign)
def check(node: cst.AugAssign | cst.Assign | cst.Call, module: Module) -> Iterator[Hit]:
    growth = _growth(module, node)
    if growth is None:
        return
    heat = heat_of(module, node)
    values = tuple(value for value in growth.values if _has_graph(module, value))
    if not values or no_grad(module, node) is not False:
        return
    growth = _Growth(growth.place, values, node)
    if not _outlives(module, growth.place, node, heat):
        return
    if heat.loop is not None and runs_without_graph(module, heat.loop):
        return
    use = _use(module, growth.place, node, heat)
    if use is not None:
        text = cst.Module([]).code_for_node(growth.place)
        fix = _fix(module, growth, use) if _always_tensor(module, growth) else None
        yield Hit(values[0], {"acc": text}, fix=fix, cause=heat.loop)


def _growth(module: Module, node: cst.AugAssign | cst.Assign | cst.Call) -> _Growth | None:
    match node:
        case cst.AugAssign(place, cst.AddAssign(), value):
            added = isinstance(value, DISPLAYS)
            return _Growth(place, tuple(components(value, *_LITERALS)) if added else (value,), node)
        case cst.Assign(
            [cst.AssignTarget(place)],
            cst.BinaryOperation(operator=cst.Add()) as both,
        ):
            if both.left.deep_equals(place):
                return _Growth(place, (both.right,), node)
            return _Growth(place, (both.left,), node) if both.right.deep_equals(place) else None
        case cst.Assign(
            [cst.AssignTarget(cst.Subscript(place, [index]))],
            value,
        ):
            key = index.slice.value if isinstance(index.slice, cst.Index) else None
            varies = key is not None and not isinstance(key, (cst.BaseString, cst.BaseNumber))
            return (
                _Growth(place, tuple(components(value, *_LITERALS)), node)
                if varies and inferred(module, place).kind == "dict"
                else None
            )
        case cst.Call(
            cst.Attribute(place, cst.Name("append" | "extend")),
            [cst.Arg(star="", value=value)],
        ):
            return _Growth(place, tuple(components(value, *_LITERALS)), node)
    return None


def _has_graph(module: Module, value: cst.BaseExpression) -> bool:
    """Say whether a value has a graph: of what a loop over a dict's values binds, in some
    iteration."""
    known = inferred(module, value)
    if not known.tensor or known.grad is not None:
        return known.grad is True
    return any(
        _in_some_iteration(module, name)
        for name in module.within(value, cst.Name)
        if inferred(module, name).tensor
    )


@question()
def _in_some_iteration(module: Module, read: cst.Name) -> bool:
    """Say whether a name holds one of a dict's values after the other, some of which have a graph,
    also through a parameter."""
    for made in definitions_of(module, read):
        match made:
            case cst.For(iter=cst.Call(cst.Attribute(table, cst.Name("items" | "values")), [])):
                if _holds_graph(module, inferred(module, table)):
                    return True
            case cst.FunctionDef():
                for given in _arguments_for(module, made, read.value):
                    if isinstance(given, cst.Name) and _in_some_iteration(module, given):
                        return True
    return False


def _holds_graph(module: Module, table: Value) -> bool:
    """Say whether one of a dict's values is known to have a graph, or is back-propagated."""
    if any(part.grad is True for _, part in table.keyed or ()):
        return True
    backwards = (c.func for c in module.nodes(cst.Call) if method_called(c) == "backward")
    return table.node is not None and any(
        isinstance(held, cst.Subscript) and inferred(module, held.value).node is table.node
        for func in backwards
        if isinstance(func, cst.Attribute)
        for held in [func.value]
    )


def _arguments_for(
    module: Module, function: cst.FunctionDef, name: str
) -> list[cst.BaseExpression]:
    """Return what the calls in this file pass for a parameter."""
    bound = (module.bind(function, site) for site in call_sites(module, function))
    return [given[name] for given in bound if name in given]


def _root_name(place: cst.CSTNode) -> str:
    place = root_of(place, cst.Attribute, cst.Subscript)
    return place.value if isinstance(place, cst.Name) else ""


def _outlives(module: Module, place: cst.BaseExpression, node: cst.CSTNode, heat: Heat) -> bool:
    """Say whether the accumulator is older than one step, and nothing empties it on the way."""
    loop, name, scope = heat.loop, _root_name(place), module.scope(node)
    if isinstance(place, cst.Subscript) and not _part_of_a_container(module, place):
        return False
    if isinstance(loop, LOOPS):
        known = any(not module.is_within(write, loop) for write in writes_of(module, scope, name))
        return (
            known
            and not any(
                is_reset(module, loop, each, node) or _is_emptied(module, each, loop)
                for each in _with_holder(place)
            )
            and not _lasts_one_step(module, place, node, loop)
        )
    written = any(
        isinstance(module.parent(same), cst.AssignTarget) and not module.is_within(same, node)
        for same in spelled_alike(module, scope, place)
    )
    return name == "self" and not written and not _set_anew(module, place, node)


def _part_of_a_container(module: Module, place: cst.Subscript) -> bool:
    """Say whether ``sums["loss"]`` is a part of a dictionary or list that a name holds."""
    held = place.value
    return isinstance(held, cst.Name) and inferred(module, held).kind in ("dict", "list")


def _with_holder(place: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
    """Return an accumulator, and the container of which it is a part."""
    return (place, place.value) if isinstance(place, cst.Subscript) else (place,)


def _set_anew(module: Module, place: cst.BaseExpression, node: cst.CSTNode) -> bool:
    """Say whether a step calls a method of the same class that binds the attribute anew."""
    cls = module.class_of(node)
    places = module.within(cls, type(place), nested=True) if cls is not None else ()
    resets = {
        function.name.value
        for same in places
        if isinstance(module.parent(same), cst.AssignTarget)
        and same.deep_equals(place)
        and (function := module.function(same)) is not None
        and function is not module.function(node)
    } - {"__init__"}
    return any(
        heat_of(module, call).hot
        for name in resets
        for call in _reads_of_attribute(module, name)
        if isinstance(call, cst.Call)
    )


def _lasts_one_step(
    module: Module, place: cst.BaseExpression, node: cst.CSTNode, loop: cst.For | cst.While
) -> bool:
    """Say whether what a sum takes is back-propagated in the same iteration, and the sum starts
    anew where the optimizer steps: it keeps a few nodes, whose saved tensors are freed."""
    taken = module.names_in(node) - {_root_name(place)}
    steps = [each for each in steps_of(module, loop) if isinstance(each.func, cst.Attribute)]
    freed = any(
        name.value in taken
        for each in steps
        if method_called(each) == "backward"
        for name in module.within(each, cst.Name)
    )
    blocks = (
        module.parent(module.statement(same))
        for same in spelled_alike(module, loop, place)
        if isinstance(above := module.parent(same), cst.AssignTarget)
        and isinstance(assign := module.parent(above), cst.Assign)
        and assign is not node
        and not spelled_alike(module, assign.value, place)
    )
    return freed and any(
        block is not loop.body and method_called(each) == "step" and module.is_within(each, block)
        for block in blocks
        if block is not None
        for each in steps
    )


def _always_tensor(module: Module, growth: _Growth) -> bool:
    """Say whether no call in this file passes a number for a parameter of which a value is made."""
    function = module.function(growth.node)
    if function is None or isinstance(growth.place, cst.Name):
        return True
    kinds = ("tensor", "accumulated")
    every = (n for value in growth.values for n in module.within(value, cst.Name))
    names = {each.value for each in every if inferred(module, each).kind in kinds}
    return not any(
        inferred(module, given).kind in ("number", "bool")
        for name in names
        for given in _arguments_for(module, function, name)
    )


def _is_emptied(module: Module, place: cst.BaseExpression, loop: cst.CSTNode) -> bool:
    for same in spelled_alike(module, loop, place):
        above = module.parent(same)
        if attr_of(above) in ("clear", "pop", "popleft"):
            return True
        if isinstance(above, cst.Subscript) and isinstance(module.parent(above), cst.Del):
            return True
    return False


def _use(
    module: Module, place: cst.BaseExpression, node: cst.CSTNode, heat: Heat
) -> GraphOutcome | None:
    """Return how far the accumulated value gets, or None where it is or may be back-propagated."""
    function = module.scope(node)
    place = _with_holder(place)[-1]
    if isinstance(place, cst.Name):
        return _fate(module, reads_of(module, function, place.value), node, heat, local=True)
    around = module.class_of(node) or function
    places = [n for n in module.within(around, type(place), nested=True) if n.deep_equals(place)]
    reads: Iterable[cst.CSTNode]
    reads = [each for each in places if not isinstance(module.parent(each), cst.AssignTarget)]
    attribute = _attribute_of_self(place)
    if attribute is not None and all(module.is_within(each, node) for each in reads):
        reads = _reads_of_attribute(module, attribute)
    return _fate(module, reads, node, heat)


def _fate(
    module: Module,
    reads: Iterable[cst.CSTNode],
    home: cst.CSTNode,
    heat: Heat,
    seen: tuple[str, ...] = (),
    *,
    local: bool = False,
) -> GraphOutcome | None:
    """Return how far the value of some reads gets, also what methods of its class make of it; None
    where that is or may be a backward pass, or nothing outside of `home` reads it."""
    worst = GraphOutcome.UNREAD if local else None
    for read in reads:
        if module.is_within(read, home) or isinstance(module.parent(read), cst.AssignTarget):
            continue
        use: GraphOutcome | None
        use, where = graph_end(module, read)
        apart = local or module.class_of(where) is not module.class_of(home)
        if use is GraphOutcome.UNKNOWN and not (apart and _is_report(module, where, heat)):
            use = _use_of_result(module, where, heat, seen)
        if use is None or use is GraphOutcome.WANTED:
            return None
        worst = max(worst or GraphOutcome.UNREAD, use)
    return worst


def _use_of_result(
    module: Module, where: cst.CSTNode, heat: Heat, seen: tuple[str, ...]
) -> GraphOutcome | None:
    """Return how far what a method returns, or keeps in another attribute, gets in this file; None
    where it is or may be back-propagated, or nothing here reads it."""
    cls, above = module.class_of(where), module.parent(where)
    while isinstance(above, cst.BaseExpression):
        above = module.parent(above)
    method = module.function(where)
    name = None
    if cls is not None and isinstance(above, cst.Return) and method is not None:
        name = method.name.value
    elif isinstance(above, cst.Assign) and len(above.targets) == 1:
        name = _attribute_of_self(above.targets[0].target)
    if cls is None or name is None or name in seen:
        return None
    return _fate(module, _reads_of_attribute(module, name), where, heat, (*seen, name))


def _attribute_of_self(node: cst.CSTNode) -> str | None:
    match node:
        case cst.Attribute(cst.Name("self"), cst.Name(name)):
            return name
    return None


def _reads_of_attribute(module: Module, name: str) -> Iterator[cst.BaseExpression]:
    """Yield each ``x.name``, or ``x.name()``, that the file reads."""
    for node in module.tree.named(name):
        above = module.parent(node)
        if isinstance(above, cst.Attribute) and above.attr is node:
            call = module.parent(above)
            if inferred(module, above.value).kind not in ("object", "?"):
                continue
            if isinstance(call, cst.Call) and call.func is above:
                yield call
            elif not isinstance(call, (cst.AssignTarget, cst.AugAssign)):
                yield above


def _is_report(module: Module, where: cst.CSTNode, heat: Heat) -> bool:
    """Say whether something comes after the loop whose every step the optimizer has finished."""
    loop = next((why.node for why in reversed(heat.why) if isinstance(why.node, LOOPS)), heat.loop)
    return (
        loop is not None
        and not module.is_within(where, loop)
        and any(method_called(each) == "step" for each in steps_of(module, loop))
    )


def _fix(module: Module, growth: _Growth, use: GraphOutcome) -> Fix:
    """Return the fix; safe where a local sum or list has started empty, takes a loss or what torch
    has computed, and only the host reads it."""
    edits = tuple(Append(value, ".detach()") for value in growth.values)
    if use > GraphOutcome.DROPPED or len(edits) > 1 or not _starts_empty(module, growth):
        return Fix(edits, Safety.UNSAFE, "Detach the value", _NOTE)
    assumes = dict.fromkeys((FRAMES, LOSSES, TORCH), _NOTE)
    return Fix(edits, Safety.SAFE, "Detach the value", assumes=assumes)


def _starts_empty(module: Module, growth: _Growth) -> bool:
    """Say whether a function's own sum or list starts as a number or as an empty one, and takes a
    loss or what torch has computed."""
    value, place = growth.values[0], growth.place
    if not isinstance(place, cst.Name):
        return False
    home, bound = module.names.bindings(place.value, place)
    own = module.small_statement(growth.node)
    starts = [e for e in bound if e.node is not own and not isinstance(e.node, cst.AugAssign)]
    kind = cst.List if isinstance(growth.node, cst.Call) else cst.BaseNumber
    return (
        isinstance(home, cst.FunctionDef)
        and inferred(module, value).tensor
        and bool(starts)
        and all(
            isinstance(each.node, cst.Assign)
            and len(each.node.targets) == 1
            and isinstance(each.value, kind)
            for each in starts
        )
    )
