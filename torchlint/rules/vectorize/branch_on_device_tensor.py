"""Keep the decision on the device

## Why
`bool(tensor)` copies one value to the host and waits until the GPU has finished everything queued
so far (the tuning guide of the PyTorch documentation lists it among the synchronisations to avoid).
Python's `if`, `while`, `assert`, `and`, `or` and `not` all call it. Under `torch.compile` the
branch also breaks the graph.

Flagged, in a `forward`, a loss, a training step or for each evaluation batch: a test of `if`,
`while`, `assert`, `and`, `or`, `not` or a comprehension that asks a tensor on the device for its
truth, and Python's `max(a, b)` and `min(a, b)`, which compare. As info: a test that raises, that
only warns, or that stops the run or skips the step at NaN or infinity; one that decides whether the
step trains or the loop goes on, and one beside such an early stop; and one that leaves out the rest
of an iteration that runs a model.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(32, 4).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(torch.randn(16, 32, device=device), torch.randint(4, (16,), device=device)) for _ in range(10)]
```

## Bad
```python
def train():
    for x, y in batches:
        loss = criterion(model(x), y)
        if loss > 10:
            loss = loss * 0.1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()
```

## Good
```python
def train():
    for x, y in batches:
        loss = criterion(model(x), y)
        loss = torch.where(loss > 10, loss * 0.1, loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()
```

## Leave alone
Shapes, sizes, flags, `None` and Python numbers are known on the host.
```python
class Net(nn.Module):
    def forward(self, x, mask=None):
        if mask is not None and x.dim() == 2 and x.shape[0] > 1:
            x = x * mask
        if self.training and x.requires_grad and x.numel() > 0:
            x = x * 2
        return x
```

Outside of steps, forward passes, losses and evaluation batches nothing is gained.
```python
weight = model.weight.detach()
if weight.abs().max() > 10:
    print("large weights")
```

## Fix safety
Unsafe: `torch.where` computes both sides, and a NaN or infinity in the side not taken can reach the
gradients. Safe: elements that a loop does nothing with but test and read come from a copy on the
host, made once before the loop; so does an element of a tensor that is older than the loop, unless
the loop may change that tensor.

## Measure
Timed is one call of `train()`. On a CPU no gain is expected but a small loss, for `torch.where`
computes both sides: what is saved on a GPU is one wait for the device per step.
```python
model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = [(torch.randn(128, 32, device=device), torch.randint(4, (128,), device=device)) for _ in range(10)]
```
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.fixes.before_loop import brought_to_host, elements_on_host
from torchlint.rule import (
    Fix,
    Grade,
    Hit,
    Module,
    NeedImport,
    Replace,
    Rule,
    Safety,
    Severity,
    heat_of,
    inferred,
    on_device,
    wait_for,
)
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import components, is_name, method_called
from torchlint.semantic.code.truth import ASKING, TESTS, asked_for_truth
from torchlint.semantic.code.updates import is_step
from torchlint.semantic.code.warned import is_warning, only_warns
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import LOSS, called
from torchlint.semantic.uses.dominance import in_each_iteration
from torchlint.semantic.uses.host_elements import host_elements
from torchlint.semantic.uses.host_loops import host_loop
from torchlint.semantic.uses.host_needs import ends_a_loop, sizes
from torchlint.semantic.uses.lasting_waits import wait_that_stays
from torchlint.semantic.values.inferred import is_model_call
from torchlint.semantic.values.place import perhaps_on_device

_FINITE = tuple(ops.having("finite"))
_COMPARES = ("torch.equal", "torch.allclose", "torch.is_nonzero")
_ELEMENTS = ("number", "bool", "tensor")
_Tested = cst.If | cst.While | cst.IfExp | cst.Assert | cst.CompIf
_Asking = _Tested | cst.BooleanOperation | cst.UnaryOperation
_STOPS = (cst.Raise, cst.Break, cst.Return, cst.Continue)
_CHECK = (
    "This check waits for the GPU at every step; check once, where the data are made, or in tests."
)
_GUARD = (
    "This check waits for the GPU at every step; run it every few hundred steps, or let a "
    "gradient scaler skip the step."
)

_LARGER = ("builtins.max", "builtins.min")
_COMPARED = (
    "Python's {word}() compares `{other}` with another value, and waits for the GPU; "
    "torch.{word}imum, or clamp for a number, compares on the device."
)
_NUMBER = (
    "Python's {word}() compares `{other}` with another value and waits for the GPU, and what gets "
    "the result needs a number of the host; use a bound that the host knows, or scale on the "
    "device what is drawn or masked there."
)
_TAKES_NUMBERS = ops.dotted("torch", "whole")
_TURNS = (
    "This loop waits for the GPU in each iteration to know whether it goes on; ask every few "
    "iterations, or run a fixed number of them."
)
_BOTH = (
    "Python's {word} on a tensor value waits for the GPU, and so does `{other}`; while either "
    "does, the step does not run on."
)
_TRAINS = (
    "Python's {word} on a tensor value waits for the GPU to know whether this step trains; decide "
    "by a value of an earlier step, or scale the loss by the truth value on the device."
)
_SKIPS = (
    "Python's {word} on a tensor value waits for the GPU to know whether `{work}` runs; decide by "
    "what the host has before the copy, or for many at once."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL602",
    message=(
        "Python's {word} on a tensor value waits for the GPU (and breaks torch.compile graphs)."
    ),
    severity="warning",
    default=True,
    effect="wait",
    yields_to=("TL505", "TL605", "TL607"),
    triggers=(b"torch", b"lightning"),
    equivalence="bitwise",
    runs="hot",
)


@rule.on(*ASKING)
def check(node: _Asking, module: Module) -> Iterator[Hit]:
    yield from _judge(module, asked_for_truth(module, node), _word(node))


@rule.call(*_LARGER)
def check_larger(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find ``max(a, b)`` of which one is a tensor: Python asks for the truth of ``b > a``."""
    values = [arg.value for arg in node.args]
    if len(values) < 2 or any(arg.star or arg.keyword is not None for arg in node.args):
        return
    around = module.parent(module.parent(node))
    if module.called(around) in _LARGER:
        return  # The outer one waits for the same, and is the one to replace.
    tensors = [each for each in values if inferred(module, each).tensor and on_device(module, each)]
    if tensors:
        name = module.called(node).rpartition(".")[2]
        words = {"word": name, "other": module.shown(tensors[0])}
        severity = Severity.INFO if _waits_as_well(module, node) is not None else None
        cause = wait_for(module, tensors[0])
        needed = module.called(module.taker(node)) in _TAKES_NUMBERS or sizes(module, node)
        message = _NUMBER if needed else _COMPARED
        yield Hit(node, words, severity=severity, message=message, cause=cause)


def _word(node: _Asking) -> str:
    if isinstance(node, cst.BooleanOperation):
        return "and" if isinstance(node.operator, cst.And) else "or"
    words = {cst.While: "while", cst.Assert: "assert", cst.UnaryOperation: "not"}
    return words.get(type(node), "if")


def _judge(module: Module, leaves: list[cst.BaseExpression], word: str) -> Iterator[Hit]:
    """Speak of the first operand that waits: one finding for one test."""
    test = next((leaf for leaf in leaves if _reads_device(module, leaf)), None)
    if test is None:
        return
    holder = next(
        (a for a in module.ancestors(test) if isinstance(a, (*TESTS, cst.BaseSmallStatement))),
        None,
    )
    if _early_exit(module, holder):
        return
    stop = _stop(module, test, holder)
    fix = None
    if stop is None and isinstance(holder, cst.If) and holder.test is test:
        fix = _fix(module, holder, test)
    loop = module.loop(test)
    if fix is None and stop is None and isinstance(loop, cst.For):
        together = host_loop(module, loop)
        if together is not None and test in together.passed:
            fix = brought_to_host(module, together)
    if fix is None and stop is None and (read := host_elements(module, test)) is not None:
        fix = elements_on_host(module, read)
    stays = fix is None and stop is None
    other = _waits_as_well(module, test) if stays else None
    trains = stays and _decides_to_train(module, holder)
    left_out = _left_out(module, holder) if stays else ()
    skipped = next((call for call in left_out if is_model_call(module, call)), None)
    named = {"other": other, "work": skipped and skipped.func}
    words = {"word": word, **{key: module.shown(each) for key, each in named.items() if each}}
    message = (
        stop
        or (_TURNS if _ends_its_loop(module, holder) else None)
        or (_BOTH if other is not None else None)
    )
    message = message or (_TRAINS if trains else _SKIPS if skipped else None)
    severity = Severity.INFO if message is not None else None
    cause = wait_for(module, test)
    yield Hit(test, words, fix=fix, severity=severity, message=message, cause=cause)


def _ends_its_loop(module: Module, holder: cst.CSTNode | None) -> bool:
    """Say whether a test decides whether a loop goes on, one over batches, too."""
    if isinstance(holder, cst.If):
        return module.loop(holder) is not None and _ends_in(module, holder.body, (cst.Break,))
    return isinstance(holder, cst.While) and ends_a_loop(module, holder)


def _decides_to_train(module: Module, holder: cst.CSTNode | None) -> bool:
    """Say whether a test decides about the backward pass or the optimizer's step, which are worth a
    wait: it stands around them, or leaves them out."""
    calls = module.within(holder.body, cst.Call) if isinstance(holder, cst.If) else ()
    return any(
        method_called(each) == "backward" or is_step(module, each)
        for each in (*calls, *_left_out(module, holder))
    )


def _left_out(module: Module, holder: cst.CSTNode | None) -> Iterator[cst.Call]:
    """Yield the calls in the rest of an iteration that a test leaves out."""
    ends = isinstance(holder, cst.If) and holder.orelse is None
    if isinstance(holder, cst.If) and ends and _ends_in(module, holder.body, (cst.Continue,)):
        for line in module.tree.beside(holder)[1]:
            yield from module.within(line, cst.Call)


def _waits_as_well(module: Module, test: cst.BaseExpression) -> cst.CSTNode | None:
    """Return what the step waits for as well, whatever becomes of a test: in a forward pass, or to
    know whether the loop goes on."""
    if heat_of(module, test).grade is Grade.FORWARD:
        return wait_that_stays(module, test)
    loop = module.loop(test)
    if loop is None:
        return None
    return next(
        (
            leaf
            for each in module.within(loop.body, cst.If)
            if module.loop(each) is loop
            and not module.is_within(test, each)
            and _ends_its_loop(module, each)
            for leaf in asked_for_truth(module, each)
            if in_each_iteration(module, leaf, loop) and _reads_device(module, leaf)
        ),
        None,
    )


def _early_exit(module: Module, holder: cst.CSTNode | None) -> bool:
    """Say whether a test only ends a loop inside the step: decoding until all have ended, a solver
    that converges."""
    return isinstance(holder, cst.If) and (
        _all_ended(module, holder) or (holder.orelse is None and ends_a_loop(module, holder))
    )


def _all_ended(module: Module, node: cst.If) -> bool:
    """Say whether ``if finished.all(): break`` ends a loop that counts tokens or runs until then,
    which is no loop over batches."""
    match node:
        case cst.If(
            cst.Call(cst.Attribute(attr=cst.Name("all")), []),
            orelse=None,
            body=cst.IndentedBlock([cst.SimpleStatementLine([cst.Break()])]),
        ):
            pass
        case _:
            return False
    loop = module.loop(node)
    match loop:
        case cst.While():
            return True
        case cst.For(iter=cst.Call(func)):
            return module.name(func) == "builtins.range"
    return False


def _reads_device(module: Module, test: cst.BaseExpression) -> bool:
    """Say whether Python must ask a tensor on the device for its truth."""
    match test:
        case cst.Call() if module.name(test.func) in _COMPARES:
            return any(on_device(module, arg.value) for arg in test.args)
        case cst.Comparison(
            item,
            [cst.ComparisonTarget(cst.In() | cst.NotIn(), holder)],
        ):
            # A tensor holds numbers: what is asked for a string is a dict or a named tuple.
            return inferred(module, item).kind in _ELEMENTS and bool(on_device(module, holder))
        case cst.Comparison(left, [cst.ComparisonTarget(asked, right)]):
            # An item of a batch or of a model's output may as well be a number or a string, and two
            # arguments that are equal as a whole are no tensors of several elements.
            sides = [inferred(module, side) for side in (left, right)]
            equal = isinstance(asked, (cst.Equal, cst.NotEqual))
            if all(value.loose for value in sides if value.tensor) or (
                equal and _given_whole(module, left) and _given_whole(module, right)
            ):
                return False
        case cst.Name() | cst.Attribute() | cst.Subscript() if inferred(module, test).loose:
            return False
    return bool(on_device(module, test)) or perhaps_on_device(module, test)


def _given_whole(module: Module, side: cst.BaseExpression) -> bool:
    """Say whether a side of a comparison is an argument as the function was given it, of which
    nothing says that it has one element."""
    return (
        isinstance(side, cst.Name)
        and inferred(module, side).rank is None
        and all(isinstance(each, cst.FunctionDef) for each in definitions_of(module, side))
    )


def _stop(module: Module, test: cst.BaseExpression, holder: cst.CSTNode | None) -> str | None:
    """Return the message for a test that is asserted or guards a raise; for NaN or infinity also a
    break or return."""
    calls = (module.source_of(c.func) for c in module.within(test, cst.Call))
    finite = any(name.endswith(_FINITE) for name in calls)
    if isinstance(holder, cst.If) and not (
        _ends_in(module, holder.body, _STOPS if finite else _STOPS[:1])
        or _only_warns(module, holder)
    ):
        return None
    if not isinstance(holder, (cst.If, cst.Assert)):
        return None
    trains = heat_of(module, test).train or any(called(n, LOSS) for n in module.names_in(test))
    return _GUARD if finite and trains else _CHECK


def _ends_in(module: Module, block: cst.BaseSuite, stops: tuple[type[cst.CSTNode], ...]) -> bool:
    """Say whether a block comes to a stop, perhaps only where a flag asks for it and with a message
    after it; not where the block goes on to work, or one of several ways to do that is missing:
    ``else: raise ValueError(mode)``."""
    lines = [
        small
        for line in block.body
        for small in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])
        if not (isinstance(small, cst.Expr) and _tells(module, small.value))
    ]
    match lines[-1] if lines else None:
        case cst.If() | cst.For() | cst.While() | cst.With() | cst.Try() as last:
            return _ends_in(module, last.body, stops)
        case last:
            return isinstance(last, stops)


def _only_warns(module: Module, holder: cst.If) -> bool:
    """Say whether all that a test decides about is a message."""
    return holder.orelse is None and (
        only_warns(module.names, holder.body.body)
        or all(
            isinstance(line, cst.SimpleStatementLine)
            and all(
                isinstance(small, cst.Expr) and _tells(module, small.value) for small in line.body
            )
            for line in holder.body.body
        )
    )


def _tells(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a statement is a message, or a text that nobody reads."""
    if isinstance(node, cst.Call):
        return is_warning(module.names, node) or module.called(node) == "builtins.print"
    return isinstance(node, cst.BaseString)


def _fix(module: Module, node: cst.If, test: cst.BaseExpression) -> Fix | None:
    """Return the two-way select for ``if c: a = f(a)`` (``else: a = g(a)``) over tensors of the
    same shape."""
    taken = _select(node.body)
    other = _select(node.orelse.body) if isinstance(node.orelse, cst.Else) else None
    if (
        taken is None
        or (node.orelse is not None and other is None)
        or inferred(module, test).rank != 0
    ):
        return None
    name = taken.targets[0].target
    assert isinstance(name, cst.Name)
    otherwise = other.value if other is not None else name
    if other is not None and not other.targets[0].target.deep_equals(name):
        return None
    sides = [taken.value] if other is None else [taken.value, otherwise]
    if not all(
        inferred(module, side).tensor and _scaled(module, side, name.value) for side in sides
    ):
        return None
    torch = torch_name(module)
    select = cst.Call(
        cst.parse_expression(f"{torch}.where"), [*map(cst.Arg, (test, taken.value, otherwise))]
    )
    new = cst.SimpleStatementLine([taken.with_changes(value=select)])
    note = (
        "Both sides are computed; a NaN or infinity in the side not taken can reach the gradients."
    )
    edits, title = (
        (Replace(node, new), NeedImport("torch", torch)),
        "Select with torch.where on the device",
    )
    return Fix(edits, Safety.UNSAFE, title, note)


def _select(suite: cst.BaseSuite) -> cst.Assign | None:
    match suite:
        case cst.IndentedBlock([cst.SimpleStatementLine([cst.Assign([target]) as only])]):
            return only if isinstance(target.target, cst.Name) else None
    return None


def _scaled(module: Module, node: cst.BaseExpression, name: str) -> bool:
    """Say whether an expression is plain arithmetic on one tensor and numbers: of its shape, and
    without effects."""
    return all(
        isinstance(each, (cst.Integer, cst.Float))
        or is_name(each, name)
        or (isinstance(each, cst.Name) and inferred(module, each).kind == "number")
        for each in components(node, cst.BinaryOperation, cst.Minus, cst.Plus)
    )
