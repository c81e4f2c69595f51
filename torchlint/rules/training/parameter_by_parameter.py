"""Give all parameters to one kernel

## Why
A loop over `model.parameters()` that computes on each runs a kernel or two for each of them:
hundreds of launches in every step, for little arithmetic each, while the GPU waits for Python.
`torch._foreach_mul_`, `torch._foreach_lerp_`, `torch._foreach_clamp_min_` and their kin take lists
of tensors and run a few kernels for all of them on CUDA. The optimizers of torch.optim,
`torch.nn.utils.clip_grad_norm_` and `clip_grad_value_`, and the averages of
`torch.optim.swa_utils` (`get_ema_multi_avg_fn`) do so by themselves. What a new group of
parameters is to an optimizer is a new list: one group for each tensor takes this away again.

Flagged, in code that runs every training step: a loop over parameters, a `state_dict` or a group
whose body averages them (EMA, Polyak averaging), scales or clips gradients or weights, writes an
update out, or adds up a norm or sum of each on the device, as penalties do, also in a comprehension
that `sum` takes. An average or a clipping in a function that this file does not call counts too,
for nothing but a step needs it, unless all calls in other files run once. Also, wherever it stands,
a loop that makes a parameter group of each tensor for an optimizer of torch.optim, or registers a
hook on each parameter that clips its gradient. It is an `info` where nothing says that the network
has many parameters: that another package makes it, that its constructor adds layers in a loop, or
that more than thirty kernels are launched. Silent: `p.data = other`, which binds another tensor and
launches nothing, a copy between the host and a device, which no list makes faster, a network of one
parameter, an attribute that holds the parameters of one layer, perhaps a single tensor, a penalty
on one part of a network, copies for a torch before 2.1, which has no `torch._foreach_copy_`, where
what lies on CUDA has left the function, and a program for Apple's device alone, which has no such
kernels: there a list is taken apart again.

## Setup
```python
import copy

import torch
from torch import nn

fast = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
slow = copy.deepcopy(fast)
optimizer = torch.optim.SGD(fast.parameters(), lr=0.1)
loader = [torch.ones(2, 4) for _ in range(3)]
```

## Bad
```python
for x in loader:
    optimizer.zero_grad()
    fast(x).mean().backward()
    optimizer.step()
    for a, b in zip(slow.parameters(), fast.parameters()):
        a.data.mul_(0.9).add_(b.data, alpha=0.1)
```

## Good
```python
for x in loader:
    optimizer.zero_grad()
    fast(x).mean().backward()
    optimizer.step()
    a_list = [a.data for a in slow.parameters()]
    b_list = [b.data for b in fast.parameters()]
    if a_list:
        torch._foreach_mul_(a_list, 0.9)
        torch._foreach_add_(a_list, b_list, alpha=0.1)
```

## Leave alone
Once, before the training.
```python
for a, b in zip(slow.parameters(), fast.parameters()):
    a.data.copy_(b.data)
for x in loader:
    fast(x).mean().backward()
    optimizer.step()
```

What the host knows of each parameter launches nothing.
```python
for x in loader:
    fast(x).mean().backward()
    optimizer.step()
    trained = 0
    for p in fast.parameters():
        if p.requires_grad:
            trained += p.numel()
```

## Fix safety
No fix is offered: `torch._foreach_*` is not public. Each step is done for all tensors before the
next one, a product and its sum may be rounded differently, an empty list raises, and a list of
gradients keeps them in memory until it is made anew or its function ends. The lists can also be
made once, before the training, where nothing replaces the tensors.

## Measure
Timed are three steps of a model with many small parameters. On a CPU no gain is expected: foreach
takes one tensor after the other there. What is saved on a GPU is the launches. This page has no
measurement on a GPU.
```python
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
layers = [layer for _ in range(40) for layer in (nn.Linear(16, 16), nn.LayerNorm(16))]
fast = nn.Sequential(*layers, nn.Sigmoid()).to(device)
slow = copy.deepcopy(fast)
optimizer = torch.optim.SGD(fast.parameters(), lr=0.01)
loader = [torch.ones(2, 16, device=device) for _ in range(3)]
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, Severity, heat_of
from torchlint.rules.training._parameter_by_parameter.loops import (
    ON_GRADIENTS,
    Work,
    adds_up_parameters,
    one_group_each,
    work_on_parameters,
)
from torchlint.rules.training._parameter_by_parameter.network_size import parameter_tensors
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.scopes import base_names
from torchlint.semantic.code.tree import is_name, method_called
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import callers_outside
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.time.once import runs_once
from torchlint.semantic.time.step_overhead import compiled_by
from torchlint.semantic.values.apple import only_apple

_BY_NATURE = ON_GRADIENTS | {Work.AVERAGE}
"""What only a training step needs, whoever calls it."""
_COPIES = (2, 1)
"""The torch that brought ``torch._foreach_copy_``."""
_FEW = 30
"""A list of tensors costs Python and the kernel that takes it about as much as a few launches; a
loop of this many is a few hundredths of a step of the same network, which launches some ten kernels
for each layer."""
_SMALL = "{work} Here that is {count} launches at most, so that little is gained."
_UNKNOWN = "{work} What that saves grows with the number of parameters: in a small network, little."
_CLIPS = regex(r"^(clamp|clip)_?$")
_HOOKED = (
    "each backward pass calls this in Python, and a kernel, for each parameter; before the "
    "optimizer's step, torch.nn.utils.clip_grad_value_ clips all gradients at once."
)
_GROUPS = (
    "one parameter group for each tensor: the optimizer runs its kernels group by group; put "
    "parameters with the same settings into one group."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL510",
    message="{work}",
    severity="warning",
    default=True,
    effect="launch",
    triggers=(b"param", b"state_dict"),
)


@rule.on(cst.For)
def check(node: cst.For, module: Module) -> Iterator[Hit]:
    work = work_on_parameters(module, node)
    if (
        work is None
        or compiled_by(module, node) is not None
        or only_apple(module)
        or _in_optimizer(module, node)
    ):
        return
    # Whether a function is the one for single tensors beside one that works on all of them at
    # once, as torch.optim calls and chooses them: ``_single_tensor_adam``, ``_multi_tensor_adam``.
    function = module.function(node)
    name = function.name.value if function is not None else ""
    if ("single_tensor" in name and name.replace("single", "multi", 1) in module.text) or (
        work is Work.COPY and module.target_torch < _COPIES
    ):
        return
    heat = heat_of(module, node)
    if _tensors(module, node) == 1:
        return
    if heat.step or (work in _BY_NATURE and _only_defined(module, node)):
        count = _launches(module, node)
        words = {"work": work.value, "count": str(count)}
        message = _UNKNOWN if count is None else _SMALL if count <= _FEW else None
        severity = Severity.INFO if message is not None else None
        yield Hit(node, words, None, severity, message, heat.why)


@question(
    yes="it launches {answer} kernels at most", no="how many kernels it launches is not known"
)
def _launches(module: Module, loop: cst.For | cst.CompFor) -> int | None:
    """Return how many kernels a loop over the parameters of a network launches at most: each call
    and each operator in it one for each parameter."""
    tensors = _tensors(module, loop)
    body = loop.body if isinstance(loop, cst.For) else module.parent(loop) or loop
    work = sum(1 for _ in module.within(body, cst.Call, cst.BinaryOperation, cst.AugAssign))
    return tensors * work if tensors else None  # A class without any stands for one with some.


def _tensors(module: Module, loop: cst.For | cst.CompFor) -> int | None:
    sizes = (parameter_tensors(module, each) for each in _networks(module, loop))
    return next((size for size in sizes if size is not None), None)


def _networks(module: Module, loop: cst.For | cst.CompFor) -> Iterator[cst.BaseExpression]:
    """Yield the networks over whose parameters a loop goes."""
    for goes in loop_sources(module, loop):
        match goes.iterated:
            case cst.Call(cst.Attribute(owner, cst.Name("parameters" | "named_parameters"))):
                yield owner


def _is_summed(module: Module, node: cst.CompFor) -> bool:
    """Say whether ``sum`` takes a comprehension."""
    call = module.taker(module.parent(node) or node)
    return isinstance(call, cst.Call) and is_name(call.func, "sum")


@rule.on(cst.For, cst.CompFor)
def check_sums(node: cst.For | cst.CompFor, module: Module) -> Iterator[Hit]:
    """Find penalties and norms that are added up parameter by parameter."""
    if isinstance(node, cst.CompFor) and not _is_summed(module, node):
        return
    compiled = compiled_by(module, node) is not None
    if compiled or not adds_up_parameters(module, node) or only_apple(module):
        return
    count, heat = _launches(module, node), heat_of(module, node)
    if not heat.step or (count is not None and count <= _FEW):
        return
    message, severity = (_UNKNOWN, Severity.INFO) if count is None else (None, None)
    place = node if isinstance(node, cst.For) else module.parent(node) or node
    yield Hit(place, {"work": Work.SUM.value}, None, severity, message, heat.why)


@rule.method("register_hook")
def check_hooks(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find hooks that clip the gradient of each parameter: ``p.register_hook(lambda g:
    torch.clamp(g, -c, c))``."""
    loop = module.loop(node)
    match node.args:
        case [cst.Arg(cst.Lambda(body=cst.Call() as work))] if isinstance(loop, cst.For):
            count = _launches(module, loop) or _FEW + 1
            name = method_called(work) or module.called(work).rpartition(".")[2]
            if _CLIPS.match(name) and any(_networks(module, loop)) and count > _FEW:
                yield Hit(node, message=_HOOKED)


@rule.on(cst.For)
def check_groups(node: cst.For, module: Module) -> Iterator[Hit]:
    """Find a loop that makes a group of its own of each parameter."""
    if one_group_each(module, node) and _tensors(module, node) != 1 and not only_apple(module):
        yield Hit(node, message=_GROUPS)


def _only_defined(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a place lies in a function of which nobody knows how often it runs."""
    function = module.function(node)
    if function is None or throttled(module, node) or runs_once(module, node):
        return False
    if call_sites(module, function) or callers_outside(module, function):
        return False
    return not module.class_of(function) or not _rare_alone(module, function.name.value)


def _rare_alone(module: Module, method: str) -> bool:
    """Say whether this file calls a method of that name, on objects that it may not know, and never
    in a step."""
    called = [
        call
        for call in module.nodes(cst.Call)
        if method_called(call) == method and not callees_of(module, call)
    ]
    return bool(called) and not any(heat_of(module, call).step for call in called)


def _in_optimizer(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a place is in an optimizer's class, which keeps a state for each parameter."""
    cls = module.class_of(node)
    names = base_names(module, cls) if cls is not None else ()
    return any(name.rpartition(".")[2].endswith("Optimizer") for name in names)
