"""Build and move modules once, before the loop over batches

## Why
`model.to(device)` visits every parameter and buffer, also when all of them are there already;
`train()` and `eval()` visit every module (`_apply` and `train` in the source of `torch.nn.Module`).
A module with parameters that is built in a `forward` has new random weights in each call, which no
optimizer ever sees; an optimizer or a gradient scaler built per batch loses its state.
`torch.compile()` per step wraps the function anew: the compiled code is found again in a cache, but
the look-up is not free.

Flagged, where it runs for every batch and needs nothing that the step computes: a move of a module,
`torch.compile()` (warnings); a module with parameters that is built and called on the spot, an
optimizer or a `GradScaler` (errors); `train()` or `eval()` in the loop itself (info). Silent: an
optimizer of one task of meta-learning (`inner_optimizer`, in `adapt()`), which begins anew.

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(2, 4), torch.randint(2, (2,))) for _ in range(3)]
loss_fn = nn.CrossEntropyLoss()
```

## Bad
```python
for x, y in loader:
    model.to(device)
    optimizer.zero_grad()
    loss_fn(model(x.to(device)), y.to(device)).backward()
    optimizer.step()
```

## Good
```python
model.to(device)
for x, y in loader:
    optimizer.zero_grad()
    loss_fn(model(x.to(device)), y.to(device)).backward()
    optimizer.step()
```

## Leave alone
Once per epoch.
```python
for epoch in range(2):
    model.train()
    model.to(device)
    for x, y in loader:
        loss_fn(model(x.to(device)), y.to(device)).backward()
        optimizer.step()
```

A step function sets the mode that it needs.
```python
def train_step(x, y):
    model.train()
    loss_fn(model(x), y).backward()
    optimizer.step()
```

## Fix safety
Safe for a module that the loop only runs and trains, and that it moves before anything else is done
with it; unsafe where something else in the loop may move it. All else is a suggestion: the same
work before the loop, where the loop's body holds it as a statement of its own. An optimizer that is
built once keeps its state, so training changes, which is the purpose.

## Measure
Timed is one pass over the batches, with a model of many modules that is on its device already. A
gain is expected on a CPU and on a GPU: what is saved is the walk over all modules, which is work of
the host.
```python
layers = [layer for _ in range(25) for layer in (nn.Linear(32, 32), nn.LayerNorm(32))]
model = nn.Sequential(*layers, nn.Linear(32, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = [(torch.randn(8, 32), torch.randint(2, (8,))) for _ in range(4)]
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Fix,
    Hit,
    InsertBefore,
    Module,
    Remove,
    Rule,
    Safety,
    Severity,
    conditions_around,
    heat_of,
    inferred,
    keyword_argument,
)
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import attr_of, is_name, last_name, method_called
from torchlint.semantic.device.transfers import is_cached
from torchlint.semantic.question import question
from torchlint.semantic.time.grades import Heat
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.assumptions import STEPS, TORCH
from torchlint.semantic.uses.networks import has_no_parameters
from torchlint.semantic.values.place import named_device
from torchlint.semantic.values.value import CPU

_PARAMETERISED = ops.dotted("layer", "parameters")
_SWITCHES = regex(r"eval|valid|test|sample|generat|infer|predict|freez|mode$", re.IGNORECASE)
_DEVICE = regex(r"device|is_cuda|cuda", re.IGNORECASE)
_TASK = regex(r"(^|[_.])(inner|fast|task|meta|adapt\w*)(_|$)", re.IGNORECASE)
_SCALERS = ("torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.amp.grad_scaler.GradScaler")
_NEVER = (
    "{construct} is built anew for every batch: new random weights each time, which are "
    "never trained."
)
_ELSEWHERE = "What the loop moves elsewhere stays there in the steps behind that."
_NO_STEP = "A loop without steps leaves the module where it was."
_LOST = (
    "{construct} is built anew for every batch and loses its state; build it once, before the loop."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL504",
    message="{construct} is loop-invariant set-up; hoist it out of the step loop.",
    severity="warning",
    default=True,
    effect="host",
    triggers=(b"torch",),
    equivalence="opt-in",
    runs="hot",
)


def _construct(module: Module, node: cst.Call) -> tuple[Severity, str | None, bool] | None:
    """Return what a call sets up: its severity, its message, and whether only a loop around it
    counts; or None."""
    name = module.called(node)
    if name == "torch.compile":
        return Severity.WARNING, None, False
    if name in _SCALERS or (
        name.startswith("torch.optim.") and inferred(module, node).kind == "optimizer"
    ):
        kept = _adapts(module, node) or _is_kept(module, node)
        return None if kept else (Severity.ERROR, _LOST, True)
    if name in _PARAMETERISED and called_at_once(module, node) and not _is_plain(module, node):
        return Severity.ERROR, _NEVER, False  # One without parameters costs next to nothing.
    match node.func:
        case cst.Attribute(place, cst.Name("to" | "cuda")) if _is_module(module, place):
            little = has_no_parameters(module, place) or _offloads(module, node, place)
            little = little or _is_refilled(module, node, place)
            return None if little else (Severity.WARNING, None, False)
        case cst.Attribute(place, cst.Name("train" | "eval")) if _is_module(module, place):
            return None if _is_switched(module, node) else (Severity.INFO, None, True)
    return None


def _adapts(module: Module, node: cst.Call) -> bool:
    """Say whether an optimizer is one for a task of meta-learning, by its name or its function's:
    each task begins anew."""
    function, made = module.function(node), module.small_statement(node)
    names = [function.name.value] if function is not None else []
    if isinstance(made, cst.Assign):
        names += [dotted_text(target.target) or "" for target in made.targets]
    return any(_TASK.search(name) for name in names)


def _is_kept(module: Module, node: cst.Call) -> bool:
    """Say whether the state of what a call makes is for others to keep: a function gives it to its
    caller, or a constructor to its object; or there is none, as it is switched off."""
    function = module.function(node)
    made = function is not None and function.name.value == "__init__"
    off = is_name(keyword_argument(module, node, "enabled"), "False")
    return off or made or isinstance(module.parent(node), cst.Return)


def _may_construct(name: str) -> bool:
    """Say whether `_construct` may have something to say of calls of a name."""
    named = name in _PARAMETERISED or name in _SCALERS or name.startswith("torch.optim.")
    return named or name in ("torch.compile", ".to", ".cuda", ".train", ".eval")


@rule.on(cst.Call, about=_construct, calls=_may_construct)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    found, heat = _construct(module, node), heat_of(module, node)
    if found is None or not _invariant(module, node, heat):
        return
    severity, message, in_loop = found
    if (in_loop and heat.loop is not module.loop(node)) or is_cached(module, node):
        return
    shown = {"construct": f"{module.shown(node.func, 40)}()"}
    yield Hit(node, shown, fix=_fix(module, node), severity=severity, message=message)


def _is_module(module: Module, place: cst.BaseExpression) -> bool:
    return isinstance(place, (cst.Name, cst.Attribute)) and inferred(module, place).kind == "module"


def _invariant(module: Module, node: cst.Call, heat: Heat) -> bool:
    """Say whether a call needs nothing that the step binds: the loop's names, or a hot function's
    own."""
    receiver = node.func.value if isinstance(node.func, cst.Attribute) else node
    used = module.names_in(receiver if _is_module(module, receiver) else node)
    scope = heat.loop or module.scope(node)
    used -= {"self", "cls"} if heat.loop is None else set()
    writes = [write for name in used for write in writes_of(module, scope, name)]
    return all(_renames(write, module.small_statement(write)) for write in writes)


def _renames(write: cst.Name, statement: cst.CSTNode | None) -> bool:
    """Say whether a name is bound to what it holds already: ``model = model.to(device)``."""
    match statement:
        case cst.Assign(value=cst.Call(cst.Attribute(cst.Name(name)))):
            return name == write.value
    return False


def _is_plain(module: Module, node: cst.Call) -> bool:
    """Say whether a normalisation is asked to have no parameters."""
    given = (keyword_argument(module, node, word) for word in ("affine", "elementwise_affine"))
    return any(is_name(value, "False") for value in given)


def _offloads(module: Module, node: cst.Call, place: cst.BaseExpression) -> bool:
    """Say whether a module is moved only sometimes, or goes back to the CPU elsewhere, or to
    another of the devices that its object knows."""
    if any(
        _DEVICE.search(name)
        for test, _ in conditions_around(module, node)
        for name in module.names_in(test)
    ):
        return True
    return any(
        other.deep_equals(place) and (back or _is_another(module, node, call))
        for call, other, back in _moved(module)
    )


def _is_refilled(module: Module, node: cst.Call, place: cst.BaseExpression) -> bool:
    """Say whether the function, or the loop, that moves a module gives it a part, or copies numbers
    into one: ``self.local.weight = fresh``."""
    scope, start = module.loop(node) or module.scope(node), f"{dotted_text(place)}."
    filled: list[cst.CSTNode] = [each.target for each in module.within(scope, cst.AssignTarget)]
    calls = module.within(scope, cst.Call)
    filled += [each.func for each in calls if last_name(each.func) == "copy_"]
    return any((dotted_text(each) or "").startswith(start) for each in filled)


def _moved(module: Module) -> Iterator[tuple[cst.Call, cst.BaseExpression, bool]]:
    """Yield what a file moves, with the calls that do, and whether that goes to the host."""
    for call in module.nodes(cst.Call):
        match call:
            case cst.Call(
                cst.Attribute(moved, cst.Name("cpu" | "to" as attr)),
                args,
            ):
                given = bool(args) and named_device(module, args[0].value) == CPU
                yield call, moved, attr == "cpu" or given


def _is_another(module: Module, one: cst.Call, other: cst.Call) -> bool:
    """Say whether methods of one class move to devices that ``self`` has under two names."""
    if module.class_of(one) is not module.class_of(other):
        return False
    given = (call.args[0].value if call.args else None for call in (one, other))
    names = {text for value in given if (text := dotted_text(value))}
    return len(names) == 2 and all(name.startswith("self.") for name in names)


def _is_switched(module: Module, node: cst.Call) -> bool:
    """Say whether the mode may be another one by the time the loop comes back to `node`."""
    loop, statement = module.loop(node), module.small_statement(node)
    if loop is None or not isinstance(statement, cst.Expr) or statement.value is not node:
        return True
    own = method_called(node)
    for call in module.within(loop, cst.Call):
        word = last_name(call.func)
        if word != own and (word == "train" or _SWITCHES.search(word)):
            return True
    return False


def _fix(module: Module, node: cst.Call) -> Fix | None:
    """Return the fix that does a line of the loop's own before the loop."""
    statement, loop = module.small_statement(node), module.loop(node)
    match statement:
        case cst.Expr(value) | cst.Assign(value=value) if value is node:
            pass
        case _:
            return None
    line = module.statement(node)
    if loop is None or module.parent(line) is not loop.body:
        return None
    moves = method_called(node) in ("to", "cuda")
    if isinstance(statement, cst.Assign) and not moves:
        return None
    given = frozenset[str]().union(*(module.names_in(arg.value) for arg in node.args))
    if any(True for name in given for _ in writes_of(module, loop, name)):
        return None
    comment = (
        line.trailing_whitespace.comment if isinstance(line, cst.SimpleStatementLine) else None
    )
    code = module.source_of(statement) + (f"  {comment.value}" if comment is not None else "")
    edits = (InsertBefore(loop, code), Remove(statement, comments=True))
    title = "Do it once, before the loop"
    if not moves or not _comes_first(module, node, loop):
        return Fix(edits, Safety.SUGGESTION, title)
    outer = module.loop(loop) if heat_of(module, loop).hot else None
    half = outer is not None and not _stays(module, node, outer)
    if half or not _stays(module, node, loop):
        return Fix(edits, Safety.UNSAFE, title, _ELSEWHERE)
    return Fix(edits, Safety.SAFE, title, assumes={STEPS: _NO_STEP, TORCH: _ELSEWHERE})


def _comes_first(module: Module, node: cst.Call, loop: cst.CSTNode) -> bool:
    """Say whether each iteration of a loop comes to a call, before it uses what the call moves,
    which is there before the loop: of a name that the loop alone binds the first iteration would
    raise."""
    moved, line = getattr(node.func, "value", node), module.statement(node) or node
    bound = definitions_of(module, moved) if isinstance(moved, cst.Name) else []
    if bound and all(module.is_within(each, loop) for each in bound):
        return False
    used = module.names_in(moved)
    iteration = [
        each
        for each in module.within(loop, cst.Name, cst.Break, cst.Continue, cst.Return)
        if module.before(each, line)
    ]
    return not any(not isinstance(each, cst.Name) or each.value in used for each in iteration)


def _stays(module: Module, node: cst.Call, loop: cst.CSTNode) -> bool:
    """Say whether a loop only runs and trains a module that a name holds, and the file moves none
    to the host under another name, so that it stays where it is."""
    match node.func:
        case cst.Attribute(cst.Name(name)):
            pass
        case _:
            return False
    users = [
        module.parent(each)
        for each in reads_of(module, loop, name)
        if not module.is_within(each, node)
    ]
    back = any(to and not inferred(module, moved).tensor for _, moved, to in _moved(module))
    return not back and all(isinstance(user, cst.Call) or attr_of(user) in _KEEPS for user in users)


_KEEPS = frozenset(
    "parameters named_parameters train eval zero_grad state_dict training modules".split()
)
"""What a module does without going elsewhere."""


@question(yes="the new module is called at once", no="the new module is kept, or goes elsewhere")
def called_at_once(module: Module, made: cst.Call) -> bool:
    """Say whether a new module is called on the spot, or under the name it is given, and goes
    nowhere else."""
    node: cst.CSTNode = made
    above = module.parent(node)
    while isinstance(above, cst.Attribute):
        outer = module.parent(above)
        if not isinstance(outer, cst.Call):
            return False
        node, above = outer, module.parent(outer)
    if isinstance(above, cst.Call):
        return above.func is node
    match above:
        case cst.Assign([cst.AssignTarget(cst.Name(name))]):
            users = [module.parent(read) for read in reads_of(module, module.scope(made), name)]
            return bool(users) and all(isinstance(user, cst.Call) for user in users)
    return False
