"""Keep running values on the device and read them once after the loop

## Why
`.item()`, `float(t)`, `int(t)`, `bool(t)`, `math.f(t)`, `range(t)`, `x[:t]` and the formatting of a
tensor all reach the operator `aten._local_scalar_dense`: a blocking copy from the device that first
waits for every kernel queued so far. The CPU can then no longer run ahead of the GPU, and short
steps become bound by launches. The PyTorch Performance Tuning Guide says so under "Avoid
unnecessary CPU-GPU synchronization"; Lightning's speed guide says "Don't call .item() anywhere in
your code".

Flagged: such a read in a line that runs in every training step, forward pass or evaluation batch,
of a tensor that comes from a model, a loss or a move to the device. Formatting is reported in
training steps and forward passes only. Where the step computes on the device with the number, the
message says so.

An `info`, as less or nothing is gained:

- Python chooses by the value what runs next, here, in a function of the project or in the caller;
  or it is the size of a tensor (`topk`, a slice, `arange(n)`) or of a loop (`range(n)`);
- each iteration of the loop writes the number into a record or plots it, by itself or in the list
  that it is appended to: no read after the loop will do; one for each line that is written;
- the read stands right beside another that the host needs in the same iteration, beside
  `empty_cache()` (TL701), or behind a step of a GradScaler;
- several reads wait for the same work, with no run of a model, backward pass or step between them:
  the first is the warning.

Silent:

- it ends a loop that goes over no batches (decoding, a solver);
- the same expression copies what it cuts (`x[:n].tolist()`);
- code outside of torch needs the one number: an action for an environment
  (`env.step(move.item())`), what an iteration draws, saves or sends, or keeps in an object that
  other steps ask (a node of a search tree).

## Setup
```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 3).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(4, 8), torch.randint(3, (4,))) for _ in range(5)]
```

## Bad
```python
total, hits = 0.0, 0
for x, y in loader:
    x, y = x.to(device), y.to(device)
    out = model(x)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
    hits += (out.argmax(1) == y).sum().item()
print(total / len(loader), hits)
```

## Good
```python
total, hits = 0.0, 0
for x, y in loader:
    x, y = x.to(device), y.to(device)
    out = model(x)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach().double()
    hits += (out.argmax(1) == y).sum()
total = float(total)
hits = int(hits)
print(total / len(loader), hits)
```

## Leave alone
Once after the loop, or every fifty steps, a read costs little.
```python
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(loss.item())
print(float(loss))
```

Python numbers, shapes and tensors that live on the CPU wait for nothing.
```python
seen = 0
for x, y in loader:
    seen += int(x.shape[0]) + x.numel() + y.max().item()
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
```

Formatting belongs to training steps; what an evaluation prints has to reach the host.
```python
with torch.no_grad():
    for x, y in loader:
        print(f"{model(x.to(device)).argmax(1)}")
```

## Fix safety
A tensor that is older than a loop, and of which the loop reads elements (`x[: lengths[i]]`,
`for n in lengths: names[:n]`), is copied to the host once, before it. That is safe where torch made
the tensor in memory of its own and all that is done with it is known; else it is unsafe.

Safe in an ordinary program (`torchlint fix` says what it takes for granted, and where the project
shows anything else the fix is unsafe): sums that start as a number literal in the same function,
added up on the device as doubles in the same order, also where they are read now and then inside
the loop (`float(acc)` is written there) or multiplied by sizes and literals; lists that only the
lines after the loop, or between two runs of it, read (`acc = torch.stack(acc).tolist()` is put
after the loop where the mean of it is taken, else `acc = [...]`); neighbours, in a tuple, in one
statement or in lines below each other, that become one read of a stacked tensor, where each
certainly has no dimension; numbers that a step puts into a dictionary one by one, where nothing
looks at that before the last of them, which become one read behind it; and names that are read now
and then.

Where the device would round a sum in another way, as a term that is divided, where there may be no
float64 (MPS), or what is added may not be whole, the tensors are kept instead, and their numbers
added after the loop in the same order, and before a line that looks at the sum now and then. That
is safe too.

Unsafe elsewhere: what a function of a package, or one whose annotation says a number, returns, and a
loop that may be left on another way than to the line after it. There is no fix where more than a log looks at the sum or list in each step, where a closure, a global or an
exception handler may see it, or where it is not known whether numbers are whole. Lines that only
log the sum or number in each step (`bar.set_postfix(loss=total / seen)`) are made to do so every 50
steps, with the loop's own counter or one that `enumerate` adds, and in the last step where the loop tells
which that is; the note then says so. A number that a name holds, or that a function returns to callers which
are all in the file, is followed to what uses it, and becomes a number there. A line that feeds a meter of
the project (`losses.update(loss.item(), n)`) or a fresh array or dictionary (`seen[i] =
loss.item()`) runs after the loop, on tensors kept until then, and before what looks at it now and
then: that is safe where the meter's class only computes its own attributes. An index past the end,
a key that lacks or a division by zero raises after the loop.
The progress bar of an evaluation is redrawn every 50 steps; what an evaluation prints stays.

No fix is safer than that of another read right beside it, with no run of a model between them: the
step waits for that anyway. Where that has no fix, as where a function or an object of the project
reads what it is given (`score(out, y)`; of several such calls, anywhere in the step), the fix is
only shown, and the read is an `info` where the other is a warning. The same where each step prints or logs a tensor right beside
the read (`wandb.log({"loss": loss})`, a progress bar): log that every N steps first (TL105); the
read is an `info` until then, as is what an evaluation reads beside what it prints in each batch,
or beside a list that it copies to the device, and any read under anomaly detection (TL801). Where
another library takes an array in each batch of an evaluation, a read beside that copy is left
alone. A `while` that asks the device in each iteration whether to go on gets no copies on the host.

## Measure
An epoch of 16 small steps, on batches that are on the device beforehand. Each step leaves a GPU work
for another millisecond (`torch.cuda._sleep`, 2 million cycles), as a larger model does: what is
saved is that the host waits for it at each read, and queues nothing meanwhile. On a CPU no gain is
expected. Predicted for a GPU: 1.3 to 1.9 times as fast, as a step of a millisecond on each side
takes both in turn where the host waits, and the longer of both where it does not. With that work no
GPU has been measured yet; without it an NVIDIA H100 (torch 2.11.0, 2026-11-26) was done before the
host asked, and read 0.97x [0.89, 1.003], inconclusive.
```python
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if device.type == "cuda":
    optimizer.register_step_post_hook(lambda *_: torch.cuda._sleep(2_000_000))
loader = [(torch.randn(64, 256, device=device), torch.randint(3, (64,), device=device)) for _ in range(16)]
```
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.fixes.after_loop import done_after_loop
from torchlint.fixes.before_loop import elements_on_host
from torchlint.fixes.log_every_n import logged_every
from torchlint.fixes.reads_together import (
    LOGGED,
    alone,
    in_vain,
    read_at_once,
    read_together,
    shown_if_in_vain,
)
from torchlint.rule import (
    Fix,
    Grade,
    Hit,
    Module,
    Rule,
    Safety,
    Severity,
    Wait,
    heat_of,
    inferred,
    one_sentence,
    wait_for,
)
from torchlint.rules.transfer._sync_scalar_read_in_loop.deferred_reads import (
    LOGGED_EVERY_N,
    kept_on_device,
    rarely_shown,
    read_after_loop,
    read_where_used,
)
from torchlint.rules.transfer._sync_scalar_read_in_loop.dict_reads import read_when_filled
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.data.evaluated_batches import shown_beside, waits_anyway, worked_on_beside
from torchlint.semantic.data.per_step_use import (
    LOG_EVERY,
    log_lines,
    logged_in,
    read_before,
    redraws_bar,
    used_rarely,
)
from torchlint.semantic.data.taken_per_iteration import (
    Taker,
    host_takes_per_iteration,
    taken_per_iteration,
)
from torchlint.semantic.device.host_reads import HostRead, host_copy, scalar_reads, selected_by
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import loop_in_sight
from torchlint.semantic.time.loops import endless
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.assumptions import ACCELERATOR, other_accelerator
from torchlint.semantic.uses.environment import for_environment, once_per_episode
from torchlint.semantic.uses.host_elements import host_elements, one_of_older
from torchlint.semantic.uses.host_needs import (
    computed_with,
    decides,
    decides_to_go_on,
    kept_in_object,
    only_looks,
    sizes,
    taken_by_another_package,
)
from torchlint.semantic.uses.unavoidable_syncs import waited_before, waits_for_the_same
from torchlint.semantic.uses.unchanged_values import changed_below

rule = Rule(
    __name__,
    __doc__,
    code="TL101",
    message=(
        "`{expr}` reads a GPU value on the host every step; keep it on the device and read "
        "it once after the loop."
    ),
    severity="warning",
    default=True,
    effect="wait",
    triggers=(b"torch", b"lightning", b"accelerate"),
    yields_to=("TL104", "TL105", "TL505", "TL604", "TL607", "TL901"),
    runs="hot",
)
DECIDED = (
    "`{expr}` waits for the GPU every step because a Python branch depends on it; use torch.where "
    "or a mask, or check only every N steps."
)
ASSERTED = (
    "`{expr}` waits for the GPU every step because an assert tests it; check once, where the data "
    "are made, or in tests."
)
SIZED = (
    "`{expr}` waits for the GPU every step because it sets the size of a tensor or a loop; work on "
    "all elements with a mask, or use a size that the host already knows."
)
ELEMENT = (
    "`{expr}` waits for the GPU in every iteration, though the tensor was made before the loop; "
    "copy all of it to the host before the loop, with one .tolist()."
)
LOOKED = (
    "`{expr}` waits for the GPU once per iteration of a loop that only looks for one element; test "
    "all of them on the device (torch.stack, torch._foreach_norm) and read that once."
)
ENDLESS = (
    "`{expr}` reads a GPU value on the host every step; keep it on the device and read it every N "
    "steps."
)
NO_LOOP = (
    "`{expr}` reads a GPU value on the host every step; keep it on the device and read the values "
    "of many steps at once."
)
COMPUTED = (
    "`{expr}` reads a GPU value on the host every step, and the step computes on the device with "
    "what becomes of it; do all of that with torch, on the detached tensor."
)
MATH = (
    "`{expr}` reads a GPU value on the host every step; {same} computes it on the device, without "
    "a wait."
)
CHANGED = (
    "`{expr}` reads a GPU value on the host every step; `{change}` changes it in place, so keep a "
    "clone on the device and read that once after the loop."
)
BY_HOST = (
    "`{expr}` waits for the GPU every step because code outside torch uses the number in that "
    "step; bring all numbers that it uses to the host with one copy."
)
TAKEN = (
    "`{expr}` reads a GPU value on the host every step because `{taker}` uses it right away; do "
    "that every N steps."
)
RARELY = (
    "`{expr}` reads a GPU value on the host every step but is used only where `{test}`; read it "
    "there."
)
RECORDED = (
    "`{expr}` reads a GPU value on the host every step; keep it, detached from its graph, on the "
    "device and read it once after the loop."
)
SHOWN = (
    "`{expr}` reads a GPU value on the host every step for {sink}; show it every N steps, or once "
    "after the loop."
)
SUMMED = (
    "`{expr}` reads a GPU value on the host every step; keep the sum on the device, and read that "
    "only where it is used."
)
AGAIN = (
    "`{expr}` reads a GPU value on the host that the same step has read before; keep the number "
    "under a name, and read it once."
)
SELECTED = (
    "`{index}` is read on the host every step to index with it; index_select, gather or scatter "
    "use it on the device."
)
_OF_TORCH = ops.dotted("torch")


@rule.on(cst.Call, cst.Subscript, cst.FormattedString, cst.BinaryOperation)
def check(node: cst.CSTNode, module: Module) -> Iterator[Hit]:
    """Yield a hit for a scalar read that runs every step."""
    for read in scalar_reads(module, node):
        if not _costs_nothing(module, read):
            yield from _found(module, read, heat_of(module, node).step)


def _found(module: Module, read: HostRead, step: bool) -> Iterator[Hit]:
    """Yield the finding of a read: the fix that puts it off or makes it with others, or what the
    host needs the number for; none where the host has to have it for the sake of code beside."""
    later = _put_off(module, read)
    needed = _needed(module, read) if later is None else None
    if needed is None and worked_on_beside(module, read.node) is not None:
        return
    element = read.how == "index" and one_of_older(module, read.tensor)
    unexplained = later is None and needed is None and not element
    logged = later.logs_every_n if later is not None else unexplained
    rarely = used_rarely(module, read.node) if needed is None else None
    taker = taken_per_iteration(module, read.node) if logged and rarely is None else None
    if taker is not None and taker.kept and not (step and unexplained):
        taker = None
    by_host = unexplained and taker is None and _by_host(module, read)
    if by_host and _sole_read(module, read.node):
        return
    fix = later or _at_once(module, read)
    spared = needed is not None or _is_spared(module, read, taker)
    sinks = logged_in(module, read.node)
    shows = any(sink.kind != "meter" for sink in sinks)
    other = waits_for_the_same(module, read.node) if not (spared or shows) else None
    if taker is not None:
        message: str | None = TAKEN
    elif fix is None and by_host:
        message, spared = BY_HOST, True
    else:
        message = needed or (SHOWN if sinks else _instead(module, read, fix, later))
        message = RARELY if rarely is not None else message
    if other is not None:
        spared, message = True, (message or rule.message) + alone(module, read.node, other)
        if fix is None and _reads_the_same(module, read.node, other):
            message = AGAIN
    yield Hit(
        read.node,
        _words(module, read, taker, other, sinks[0].call.func if sinks else None, rarely),
        fix=_unless_in_vain(module, read, fix),
        severity=Severity.INFO if spared else None,
        message=message,
        why_hot=read.inside,
        cause=Wait(*[taker.node] * 3) if taker and taker.kept else wait_for(module, read.tensor),
    )


def _by_host(module: Module, read: HostRead) -> bool:
    """Say whether code outside of torch uses a number in the very step."""
    return (
        host_takes_per_iteration(module, read.node)
        or (kept_in_object(module, read.node) and not one_of_older(module, read.tensor))
        or (computed_with(module, read.node) and taken_by_another_package(module, read.node))
    )


def _words(
    module: Module,
    read: HostRead,
    taker: Taker | None,
    other: cst.CSTNode | None,
    sink: cst.BaseExpression | None,
    test: cst.BaseExpression | None,
) -> dict[str, str]:
    """Return what the sentences say of a read."""
    named = {
        "expr": read.tensor if read.how == "slice" else read.node,
        "taker": taker.node if taker is not None else None,
        "change": changed_below(module, read.tensor),
        "other": other,
        "sink": sink,
        "test": test,
    }
    words = {word: module.shown(each) for word, each in named.items() if each is not None}
    return {**words, "same": _same_of_torch(module, read) or ""}


def _costs_nothing(module: Module, read: HostRead) -> bool:
    """Say whether a read has been made before, is text that rarely runs, or serves what needs
    numbers: an environment, an episode's end, a loop that goes on for as long as they say."""
    shown = read.how in ("format", "print")
    return (
        (shown and not heat_of(module, read.node).step)
        or read_before(module, read)
        or for_environment(module, read.node)
        or once_per_episode(module, read.node)
        or decides_to_go_on(module, read.node)
        or (read.how in ("slice", "index") and copied_at_once(module, read.node))
    )


def _is_spared(module: Module, read: HostRead, taker: Taker | None) -> bool:
    """Say whether the step waits whatever becomes of a read, or Python needs it at once."""
    return (
        _decides(module, read.node)
        or (taker is not None and (taker.kept or redraws_bar(module, taker.node)))
        or waits_anyway(module, read.node, read.tensor) is not None
    )


def _put_off(module: Module, read: HostRead) -> Fix | None:
    """Return the fix by which a number is read after the loop: on the device, or where that may
    round, or needs an accelerator that has float64, from tensors that are kept."""
    later = (
        kept_on_device(module, read)
        or read_after_loop(module, read)
        or read_where_used(module, read)
        or rarely_shown(module, read)
    )
    if (
        later is not None
        and later.safety is Safety.SAFE
        and (ACCELERATOR not in later.assumes or not other_accelerator(module))
    ):
        return later
    kept = done_after_loop(module, LOG_EVERY, read, LOGGED_EVERY_N)
    return kept if kept is not None and kept.safety is Safety.SAFE else later or kept


@rule.on(cst.Subscript)
def check_selected(node: cst.Subscript, module: Module) -> Iterator[Hit]:
    """Yield a hit for an element of a tensor that is taken by a number on the device."""
    index = selected_by(module, node)
    if index is None or copied_at_once(module, node):
        return
    read = HostRead(node, index, "index")
    if read_before(module, read) or for_environment(module, node) or once_per_episode(module, node):
        return
    severity = Severity.INFO if waited_before(module, index) is not None else None
    words = {"index": module.shown(index)}
    yield Hit(node, words, severity=severity, message=SELECTED, cause=wait_for(module, index))


@question(
    yes="the same expression copies to the host what `{0}` takes, and waits for that in any case",
    no="nothing in the same expression copies to the host what `{0}` takes",
)
def copied_at_once(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether the same expression copies to the host what a slice or an index takes,
    ``x[:n].tolist()``: by then the slice waits for nothing more."""
    call = module.method_call(node)
    return call is not None and host_copy(module, call) is not None


def _reads_the_same(module: Module, node: cst.BaseExpression, other: cst.CSTNode) -> bool:
    """Say whether another read is of the same value: ``loss.item()`` twice in a step."""
    pairs = zip(module.within(node, cst.Name), module.within(other, cst.Name), strict=False)
    return (
        node.deep_equals(other)
        and all(
            definitions_of(module, name) == definitions_of(module, same) for name, same in pairs
        )
        and not _held_anew(module, other, node)
    )


def _held_anew(module: Module, first: cst.CSTNode, last: cst.BaseExpression) -> bool:
    """Say whether between two reads something is stored in what holds the value, or a method of
    that is called: ``losses.append(x); losses[-1].item()``."""
    parts: list[cst.BaseExpression] = [*module.within(last, cst.Attribute, cst.Subscript)]
    parts += [each.value for each in parts if isinstance(each, cst.Subscript)]
    for each in module.within(module.scope(last), cst.Call, cst.AssignTarget, cst.AugAssign):
        match each:
            case (
                cst.Call(cst.Attribute(changed))
                | cst.AssignTarget(changed)
                | cst.AugAssign(changed)
            ) if module.before(first, each) and module.before(each, last):
                if any(changed.deep_equals(part) for part in parts):
                    return True
    return False


def _sole_read(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether nothing else is brought to the host in the iteration of a read, with which it
    could be copied."""
    loops = module.loops(node)
    iteration = next(iter(loops), module.function(node)) or module.root
    return not any(
        call is not node
        and module.loops(call) == loops
        and (scalar_reads(module, call) or host_copy(module, call) is not None)
        for call in module.within(iteration, cst.Call)
    )


def _unless_in_vain(module: Module, read: HostRead, fix: Fix | None) -> Fix | None:
    """Return a fix that is only shown where the step waits all the same; where it waits for what it
    logs right beside the read, the fix makes that rare as well, if it can."""
    fix = shown_if_in_vain(module, read.node, read.tensor, fix)
    if fix is None or fix.logs_every_n or fix.safety is Safety.SUGGESTION:
        return fix
    log = shown_beside(module, read.node, training=True)
    if log is None:
        return fix
    match module.small_statement(log):
        case cst.Expr(cst.Call() as call) if (lines := log_lines(module, call)) is not None:
            edits = (*fix.edits, *logged_every(LOG_EVERY, lines))
            title = f"{fix.title}, log every {LOG_EVERY} steps"
            note = one_sentence([LOGGED_EVERY_N, fix.note])
            assumes = fix.assumes
            return Fix(edits, Safety.UNSAFE, title, note, assumes=assumes, logs_every_n=True)
    return in_vain(fix, LOGGED)


def _needed(module: Module, read: HostRead) -> str | None:
    """Return what to say of a number that Python needs in this very step, None for another."""
    decided = decides(module, read.node)
    if decided or read.how in ("slice", "size", "range") or sizes(module, read.node):
        if any(only_looks(module, loop) for loop in module.loops(read.node)[:1]):
            return LOOKED
        return ELEMENT if one_of_older(module, read.tensor) else DECIDED if decided else SIZED
    return ASSERTED if _asserted(module, read.node) else None


def _asserted(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a read stands in the test of an ``assert``."""
    line = module.small_statement(node)
    return isinstance(line, cst.Assert) and module.is_within(node, line.test)


def _instead(module: Module, read: HostRead, fix: Fix | None, later: Fix | None) -> str | None:
    """Return what to do instead of a read, other than what its fix says or, without one, than to
    keep the tensor and read it behind the loop."""
    loop, line = module.loop(read.node), module.small_statement(read.node)
    added = isinstance(line, cst.AugAssign)
    if isinstance(line, cst.AugAssign) and loop is not None and _used_in(module, loop, line):
        return SUMMED
    if later is None and one_of_older(module, read.tensor):
        return ELEMENT
    if later is not None or fix is not None:
        recorded = inferred(module, read.tensor).grad is True
        if loop is None:
            return NO_LOOP
        return RECORDED if recorded and heat_of(module, read.node).grade is Grade.EVAL else None
    key = isinstance(module.parent(read.node), cst.Index)
    if not key and read.how != "index" and computed_with(module, read.node):
        return COMPUTED
    if _same_of_torch(module, read) is not None:
        return MATH
    if loop is None or not loop_in_sight(module, read.node):
        return NO_LOOP
    if endless(module, loop):
        return ENDLESS
    return CHANGED if not added and changed_below(module, read.tensor) is not None else None


def _used_in(module: Module, loop: cst.CSTNode, line: cst.AugAssign) -> bool:
    """Say whether a loop reads the sum of numbers to which one of its lines adds."""
    return not inferred(module, line.target).tensor and any(
        name.deep_equals(line.target)
        and not module.is_within(name, line)
        and not isinstance(module.parent(name), cst.AssignTarget)
        for name in module.within(loop, cst.Name)
    )


def _same_of_torch(module: Module, read: HostRead) -> str | None:
    """Return the function of torch that does to a tensor what one of `math` does to a number."""
    call = read.node
    name = module.name(call.func) if read.how == "math" and isinstance(call, cst.Call) else None
    same = f"torch{name.removeprefix('math')}" if name is not None else None
    return same if same in _OF_TORCH else None


def _decides(module: Module, node: cst.CSTNode) -> bool:
    """Say whether the read stands in a condition: the value chooses the next step on the host."""
    child = node
    for above in module.ancestors(node):
        if isinstance(above, (cst.If, cst.While, cst.IfExp)):
            return child is above.test
        child = above
    return False


def _at_once(module: Module, read: HostRead) -> Fix | None:
    """Return the fix by which a read that stays in its step is made with others."""
    return (
        read_together(module, read)
        or read_when_filled(module, read)
        or _element_fix(module, read)
        or read_at_once(module, read)
    )


def _element_fix(module: Module, read: HostRead) -> Fix | None:
    elements = host_elements(module, read.tensor)
    return elements_on_host(module, elements) if elements is not None else None
