"""Create tensors on the device that uses them

## Why
A factory without `device=` allocates and fills host memory; the `.to(device)` or `.cuda()` behind
it then copies from pageable memory, for which the host waits. With `device=` one kernel fills the
memory in place. PyTorch's performance tuning guide ("Create tensors directly on the target device")
and the profiler's own pattern `ExtraCUDACopyPattern` name the same waste.

Flagged: a move to the device of what a factory that takes `device=` has made on the CPU, in the
same expression or under a name, also through a helper that makes it, where its result is moved, or
one that moves it (`to_var(torch.randn(n))`); and a CPU tensor of a factory that indexes a tensor on
the device, is copied into it or exchanges values with it. In steps and forwards also a list of
numbers, a range, an array or a CPU tensor as index of a tensor on the device: it is made into a
tensor and copied, and the host waits for that.

An `info`, as less is gained:

- outside of steps and forwards, where only the direct form is reported;
- a tensor of a few numbers that is written into one on the device: assign the numbers themselves;
- a mask by which the next line takes elements, as that waits anyway;
- what is made once before a loop that launches kernels one by one, as decoding and recurrent steps
  do, and what is copied with `non_blocking`;
- what an evaluation makes for each batch where a result is read on the host for each;
- a constant right behind the copy of a batch, or a second index behind a first one, which have just
  waited;
- a tensor with which the host computes first: the message says what else has to move.

Silent: what is known to run once, once in an epoch or behind an interval: at the top level, in a
constructor, or in a function that is only called from such places.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
```

## Bad
```python
class Padded(nn.Module):
    def forward(self, x):
        pad = torch.zeros(x.size(0), 8).to(x.device)
        return torch.cat([x, pad], dim=1)


padded = Padded()
out = padded(torch.ones(4, 8, device=device))
```

## Good
```python
class Padded(nn.Module):
    def forward(self, x):
        pad = torch.zeros(x.size(0), 8, device=x.device)
        return torch.cat([x, pad], dim=1)


padded = Padded()
out = padded(torch.ones(4, 8, device=device))
```

## Leave alone
`torch.tensor(list)` builds on the CPU with `device=` as well, so nothing is gained.
```python
class Weighted(nn.Module):
    def forward(self, x):
        return x * torch.tensor([0.5, 2.0]).to(x.device)
```

Elements that Python writes are cheaper to write on the CPU.
```python
class Ragged(nn.Module):
    def forward(self, x, lengths):
        mask = torch.zeros(len(lengths), x.size(1))
        for row, length in enumerate(lengths):
            mask[row, :length] = 1
        return x * mask.to(x.device)
```

## Fix safety
Safe for zeros, ones, empty, eye, a full of a literal and ranges by whole steps: the same bits,
dtype and strides. Unsafe for random numbers, as the CPU's generator is no longer advanced: the
values change, and so do later draws on the CPU, the next shuffle of a DataLoader among them. Unsafe
for inexact ranges, for `requires_grad=True`, for `.cuda(gpus[n])`, which may be None, where
`.to(other)` evaluates more than a name or is given what may be no tensor, and where `.to` casts to
a dtype that is not spelled out: None keeps the factory's. Unsafe where code replaces functions of
torch or has classes of tensors, and where an old tensor type is given what only its name calls the
size of a batch.

A function of the project that does no more than make such a tensor of numbers is given a
`device=None`, and each call whose result is moved tells it the device.

A factory whose result is computed with, or bound to a name, is given the device where each use of
it is known to meet the device; the move behind it goes. That is unsafe where arithmetic on floats
may round differently, where several tensors, which could lie on several devices, are indexed with
it, or where a view takes the place of its copy. One or two elements that are written before the
move are written on the device. A range as index becomes `torch.arange`, which raises where its end
is below its start: not for a size, or what is called a batch size. A list of neighbours becomes a
slice, which is a view; that is safe for one position that is compared with a tensor for a mask by
which something is written, `logits[logits < top[:, [-1]]] = 0`.

## Measure
One call of the module. On a CPU no gain is expected, as `.to` returns the same tensor: what is
saved is the filling of host memory, a copy over the bus, and the wait for it.
```python
x = torch.ones(65536, 8, device=device)
```

```python
out = padded(x)
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from torchlint.rule import (
    Grade,
    Hit,
    Module,
    Rule,
    Severity,
    Transfer,
    heat_of,
    inferred,
    on_device,
    wait_for,
)
from torchlint.rules.transfer._cpu_create_then_move.fixes import (
    are_numbers,
    maker_in_place_of,
    moved_fix,
    placed_fix,
    shown_choice_of_device,
    shown_device,
)
from torchlint.rules.transfer._cpu_create_then_move.helper_fixes import helper_fix
from torchlint.rules.transfer._cpu_create_then_move.host_indices import host_index
from torchlint.rules.transfer._cpu_create_then_move.index_fixes import index_fix, indexed_besides
from torchlint.rules.transfer._cpu_create_then_move.placement import placement_of
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.tree import is_name, method_called
from torchlint.semantic.device.factories import (
    device_effect,
    factories_of,
    factory_elsewhere,
    is_sized_type,
    takes_device,
)
from torchlint.semantic.device.host_reads import host_copy
from torchlint.semantic.device.transfers import TRANSFERS, is_cached, transfer_of
from torchlint.semantic.device.uploads import tensor_data
from torchlint.semantic.time.once import runs_once
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.lasting_waits import waits_to_copy_up
from torchlint.semantic.uses.many_runs import before_many_runs
from torchlint.semantic.uses.unavoidable_syncs import waits_before, waits_besides
from torchlint.semantic.values.definitions_behind import functions, returned
from torchlint.semantic.values.inferred import is_model_call
from torchlint.semantic.values.value import CPU

_LIKE = ops.dotted("factory", "like")
_MOVES = ops.having("move")
_COPIES = "`{expr}` was built on the CPU by {factory} and is copied; build it with device={dev}."
_HELPER = "{factory} builds on the CPU, and `{helper}` copies it; pass device= instead."
_OLD = (
    "{factory} of sizes builds on the CPU and is then copied; use torch.{maker}(…, device={dev}) "
    "instead."
)
_HOIST = "`{expr}` is the same in every step and copied in each; move it to the device once."
_MIXED = (
    "{factory} builds on the CPU, and a tensor on the device is indexed with it or "
    "exchanges values with it."
)
_NUMBERS = (
    "`{expr}` makes a tensor on the CPU of numbers that Python has, and copying it into `{target}` "
    "waits for the GPU; assign the numbers themselves, one by one."
)
_BEFORE = (
    " That is once, before a `{beside}` that launches kernels one by one: little is gained by this "
    "alone."
)
_UNAWAITED = " With non_blocking nothing waits for a small copy: little is gained."
_WAITING = " `{beside}` waits for the device as well: little is gained by this alone."
_AMONG = (
    "{factory} builds on the CPU, and the host computes with it and `{other}` before it is copied; "
    "copy what they are computed with first, and do all of that on the device."
)
_BESIDE = (
    "{factory} builds on the CPU and is then copied, and `{copy}` waits for the GPU to be used "
    "with it; pass device={dev}, and use that on the device too."
)
_INDEX = (
    "the index `{index}` is on the host and is copied to the device, which synchronises; "
    "{alternative}."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL102",
    message="{factory} builds on the CPU and is then copied; pass device={dev} instead.",
    severity="warning",
    default=True,
    effect="upload",
    triggers=(b"torch",),
    yields_to=("TL104", "TL206", "TL902"),
    equivalence="rng",
    runs="once",
)


@rule.on(cst.Call, calls=TRANSFERS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    transfer = transfer_of(module, node)
    if transfer is None or is_cached(module, node):
        return
    value = inferred(module, transfer.source)
    made = factories_of(module, transfer.source) if value.device == CPU else []
    made = [f for f in made if inferred(module, f).device == CPU and takes_device(module, f)]
    heat, device = heat_of(module, node), _device(module, transfer)
    if not made:
        elsewhere = factory_elsewhere(module, transfer.source) if heat.hot else None
        if elsewhere is not None and value.device == CPU:
            words = {"expr": module.shown(transfer.source), "factory": elsewhere, "dev": device}
            yield Hit(node, words, helper_fix(module, transfer), message=_COPIES)
        return
    words = {
        "expr": module.shown(transfer.source),
        "factory": module.shown(made[0].func),
        "dev": device,
        "maker": maker_in_place_of(module, made[0])[0],
    }
    if module.is_within(made[0], transfer.source):
        if heat.hot or not runs_once(module, node):
            little = _gains_little(module, node, made[0])
            spared = little is not None or "non_blocking" in transfer.given
            severity = None if heat.hot and not spared else Severity.INFO
            message = _message(module, made[0], words)
            if little is not None:
                message, words["beside"] = (message or rule.message) + little[0], little[1]
            elif heat.hot and spared:
                message = (message or rule.message) + _UNAWAITED
            fix = moved_fix(module, transfer, made[0])
            if fix is None:
                fix = placed_fix(module, made[0])
                words["dev"] = shown_device(module, made[0], device)
            yield Hit(node, words, fix, severity, message=message)
        return
    if heat.hot:
        device = shown_choice_of_device(module, transfer, made[0]) or device
        yield from _made_apart(module, node, made, {**words, "dev": device})


def _made_apart(
    module: Module, node: cst.Call, made: list[cst.Call], words: dict[str, str]
) -> Iterator[Hit]:
    """Yield the hits of factories that stand apart from the move of what they make."""
    hot = [factory for factory in made if heat_of(module, factory).hot]
    here = [each for each in hot if module.function(each) is module.function(node)]
    if not hot:
        yield Hit(node, words, message=_HOIST)
    elif not here:
        # Each call of the helper is copied where it is moved.
        words["factory"] = module.shown(hot[0].func)
        transfer = transfer_of(module, node)
        told = helper_fix(module, transfer) if transfer is not None else None
        yield Hit(node, words, told or placed_fix(module, hot[0]), message=_COPIES)
    for factory in here:
        yield _made_before(module, factory, hot, words["dev"])


@rule.on(cst.Call, runs="hot")
def check_helper(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find CPU tensors that a function of the project brings to the device,
    ``to_var(torch.randn(n))``."""
    given = [arg.value for arg in node.args if not arg.star]
    if module.name(node.func) in ops.FACTORIES or not any(
        inferred(module, each).device == CPU for each in given
    ):
        return
    brought = _brought(module, node) if on_device(module, node) is True else None
    made = factories_of(module, brought) if brought is not None else []
    made = [f for f in made if inferred(module, f).device == CPU and takes_device(module, f)]
    if brought is None or not made or not heat_of(module, made[0]).hot:
        return
    words = {"helper": module.shown(node.func), "factory": module.shown(made[0].func)}
    little = _gains_little(module, node, made[0])
    if little is None:
        yield Hit(node, words, message=_HELPER)
    else:
        words["beside"] = little[1]
        yield Hit(node, words, severity=Severity.INFO, message=_HELPER + little[0])


def _brought(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    """Return what a call gives one function of the project, which only moves it and gives it
    back."""
    found = functions(module, call)
    where, function = found[0] if len(found) == 1 else (module, None)
    if not isinstance(function, cst.FunctionDef):
        return None
    for name, given in where.bind(function, call).items():
        moves = (
            each
            for each in where.within(function, cst.Call)
            if method_called(each) in _MOVES and _begins_with(where, each, name)
        )
        results = returned(where, function)
        if any(moves) and results and all(_begins_with(where, each, name) for each in results):
            return given
    return None


def _begins_with(module: Module, node: cst.BaseExpression, name: str) -> bool:
    """Say whether an expression is a name, or what methods and ``Variable`` make of it."""
    while isinstance(node, cst.Call):
        if module.name(node.func) == "torch.autograd.Variable" and node.args:
            node = node.args[0].value
        elif isinstance(node.func, cst.Attribute) and module.name(node.func) is None:
            node = node.func.value
        else:
            return False
    return is_name(node, name)


def _made_before(
    module: Module, factory: cst.Call, moved: Collection[cst.Call], device: str
) -> Hit:
    """Return the hit of a factory that stands before the move of what it makes."""
    words = {"factory": module.shown(factory.func)}
    among = _computed_with(module, factory, moved)
    if among is not None:
        words["other"] = module.shown(among)
        return Hit(factory, words, None, Severity.INFO, _AMONG)
    words["dev"] = shown_device(module, factory, device)
    words["maker"] = maker_in_place_of(module, factory)[0]
    message, severity = _message(module, factory, words), None
    little = _gains_little(module, factory, factory)
    if little is not None:
        message, severity = (message or rule.message) + little[0], Severity.INFO
        words["beside"] = little[1]
    return Hit(factory, words, placed_fix(module, factory), severity, message)


def _computed_with(
    module: Module, factory: cst.Call, moved: Collection[cst.Call]
) -> cst.BaseExpression | None:
    """Return the tensor with which the host computes something of what a factory makes, and which
    none of those that are `moved` has made: to make the one on the device is an error as long as
    the other stays."""
    home = module.small_statement(factory)
    if not isinstance(home, cst.Assign) or home.value is not factory:
        return None
    target = home.targets[0].target
    for name in readers_of(module, home, target.value) if isinstance(target, cst.Name) else ():
        match module.parent(name):
            case cst.BinaryOperation(left, right=right):
                other = right if left is name else left
                value = inferred(module, other)
                tensor = value.tensor and value.rank != 0 and on_device(module, other) is not True
                known = tensor and not any(e in moved for e in factories_of(module, other))
                # What is not known may be a tensor of the host, too.
                unknown = value.kind == "?" and definitions_of(module, name) == [home]
                if known or (unknown and placement_of(module, factory) is None):
                    return other
            case cst.Arg() as given if isinstance(call := module.parent(given), cst.Call):
                beside = (arg.value for arg in call.args if arg is not given)
                of_torch = (module.name(call.func) or "").startswith("torch.")
                copy = next((each for each in beside if _copied_down(module, each)), None)
                if of_torch and copy is not None:
                    return copy
    return None


def _copied_down(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a tensor that was copied from the device to the host, or is made
    of one."""
    names = (node, *module.within(node, cst.Name))
    return any(
        isinstance(made, cst.Assign)
        and isinstance(made.value, cst.Call)
        and host_copy(module, made.value) is not None
        for name in names
        if isinstance(name, cst.Name)
        for made in definitions_of(module, name)
    )


def _message(module: Module, factory: cst.Call, words: dict[str, str]) -> str | None:
    """Return what else to say of a factory, whose words are added to `words`: that its call is old,
    or that what a method of the tensor is given is copied to the host for it, and has to stay on
    the device as well."""
    if is_sized_type(module, factory):
        return _OLD
    tensors: list[cst.BaseExpression] = [factory]
    home = module.small_statement(factory)
    match home:
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value) if value is factory:
            tensors += readers_of(module, home, name)
    for tensor in tensors:
        call = module.method_call(tensor)
        for arg in call.args if call is not None else ():
            for copy in module.within(arg, cst.Call):
                if host_copy(module, copy) is not None:
                    words["copy"] = module.shown(copy)
                    return _BESIDE
    return None


@rule.on(cst.Subscript, runs="hot")
def check_mixed(node: cst.Subscript, module: Module) -> Iterator[Hit]:
    """Find CPU tensors that index a tensor on the device, are filled from one, or are written into
    one."""
    above = module.small_statement(node)
    if isinstance(module.parent(node), cst.AssignTarget) and isinstance(above, cst.Assign):
        pairs = [(node.value, above.value), (above.value, node.value)]
    else:
        # An index of booleans is turned into positions on the CPU, and makes nothing wait.
        plain = [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]
        indices = [
            index for index in plain if not isinstance(index, (cst.BaseNumber, cst.BaseString))
        ]
        pairs = [
            (index, node.value) for index in indices if inferred(module, index).dtype != "bool"
        ]
    for host, there in pairs:
        value = inferred(module, host)
        if value.device != CPU or value.rank == 0 or on_device(module, there) is not True:
            continue
        if host is node.value and (_indexed_there(module, node) or _fed_to_network(module, host)):
            continue  # It raises where there is a device.
        for factory in factories_of(module, host, filled=True):
            if takes_device(module, factory):
                words = {"factory": module.shown(factory.func)}
                alone = there is not node.value or not indexed_besides(module, node, host)
                fix = placed_fix(module, factory) if alone else None
                yield Hit(factory, words, fix, message=_MIXED)
        data = tensor_data(module, host) if there is node.value else None
        if data is not None and isinstance(above, cst.Assign) and are_numbers(module, data):
            words = {"expr": module.shown(host), "target": module.shown(node)}
            yield Hit(host, words, severity=Severity.INFO, message=_NUMBERS)


def _fed_to_network(module: Module, host: cst.BaseExpression) -> bool:
    """Say whether a network is given the same tensor as it is, as none on a device takes it."""
    if not isinstance(host, cst.Name):
        return False
    made = set(definitions_of(module, host))
    return any(
        isinstance(given := arg.value, cst.Name)
        and given.value == host.value
        and is_model_call(module, call)
        and not made.isdisjoint(definitions_of(module, given))
        for call in module.within(module.scope(host), cst.Call)
        for arg in call.args
    )


def _indexed_there(module: Module, node: cst.Subscript) -> bool:
    """Say whether a part of an index certainly lies on the device, as none into a tensor of the
    host may."""
    indices = (each.slice.value for each in node.slice if isinstance(each.slice, cst.Index))
    return any(on_device(module, index) is True for index in indices)


@rule.method("copy_", runs="hot")
def check_filled(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find CPU tensors that are copied into one on the device, ``self.noise.copy_(drawn)``."""
    match node:
        case cst.Call(cst.Attribute(there), [cst.Arg(host), *_]):
            if inferred(module, host).device == CPU and on_device(module, there) is True:
                for factory in factories_of(module, host, filled=True):
                    if takes_device(module, factory):
                        words = {"factory": module.shown(factory.func)}
                        yield Hit(factory, words, placed_fix(module, factory), message=_MIXED)


@rule.on(cst.Subscript, runs="hot")
def check_index(node: cst.Subscript, module: Module) -> Iterator[Hit]:
    """Find a tensor on the device that is indexed by what lies on the host."""
    found = _host_part(module, node)
    if found is None:
        return
    index, alternative = found
    words = {"index": module.shown(index), "alternative": alternative}
    little, message, severity = _gains_little(module, node), _INDEX, None
    if little is None and (other := _indexed_before(module, node)) is not None:
        little = _WAITING, module.shown(other)
    if little is not None:
        message, severity, words["beside"] = _INDEX + little[0], Severity.INFO, little[1]
    fix = index_fix(module, node, index)
    yield Hit(node, words, fix, severity, message, cause=wait_for(module, index))


def _indexed_before(module: Module, node: cst.Subscript) -> cst.CSTNode | None:
    """Return another tensor of the device that the same iteration indexes with what lies on the
    host, with no run of a model between the two."""
    iteration = module.loop(node) or module.function(node)
    if iteration is None:
        return None
    others = (
        e for e in module.within(iteration, cst.Subscript) if _host_part(module, e) is not None
    )
    return waits_before(module, node, tuple(others))


def _host_part(module: Module, node: cst.Subscript) -> tuple[cst.BaseExpression, str] | None:
    """Return what lies on the host of that by which a tensor on the device is indexed, and what to
    use instead."""
    for part in node.slice:
        index = part.slice.value if isinstance(part.slice, cst.Index) else None
        if index is None or isinstance(index, (cst.BaseNumber, cst.BaseString)):
            continue
        alternative = host_index(module, index)
        if alternative is not None and on_device(module, node.value) is True:
            return index, alternative
    return None


def _gains_little(
    module: Module, node: cst.CSTNode, factory: cst.Call | None = None
) -> tuple[str, str] | None:
    """Return what to say of a copy that stands beside so many other waits, or before so many
    launches, that little is gained without it, with the code that this speaks of. What a `factory`
    draws takes the host time all the same."""
    loop = before_many_runs(module, node)
    if loop is not None:
        if isinstance(loop, cst.Call):
            return _BEFORE, module.shown(loop.func)
        return _BEFORE, "for" if isinstance(loop, cst.For) else "while"
    waits: list[cst.CSTNode | None] = []
    if heat_of(module, node).grade is Grade.EVAL:
        waits += waits_besides(module, node, None)
    if factory is not None and "random" not in device_effect(module, factory):
        waits.append(waits_to_copy_up(module, node))
    wait = next((each for each in waits if each is not None), None)
    return (_WAITING, module.shown(wait)) if wait is not None else None


def _device(module: Module, transfer: Transfer) -> str:
    if transfer.target is None or method_called(transfer.call) == "type":
        return '"cuda"'
    return module.shown(transfer.target) + (".device" if transfer.like else "")
