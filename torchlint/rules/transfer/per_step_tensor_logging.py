"""Log every N steps instead of every step

## Why
To show a tensor that lives on the GPU, Python has to know its value: `print(loss)` heads the list
of hidden waits in the PyTorch Performance Tuning Guide ("Avoid unnecessary CPU-GPU
synchronization"), an f-string calls `.item()`, `SummaryWriter.add_scalar(tag, loss)` copies to
NumPy (torch/utils/tensorboard/_convert_np.py), tqdm's `set_postfix(loss=loss)` makes a string of
it, and so do `logging.info("%s", loss)` and `wandb.log({"loss": loss})`. Each of them waits for
every kernel queued so far. A progress bar redraws at most ten times a second, but its arguments are
computed at each call.

Flagged: a read of a GPU scalar in a training step that only serves a logging call (print, a logger,
a progress bar, a tracker, a meter), directly or by a name that nothing else reads; and a GPU tensor
handed to a logging call that is known to convert it. Not what a debug message is handed: it formats
its arguments only where it is shown. Of several reads that wait for the same work, and behind a
step of a GradScaler, which waits as well, it is an `info`.

## Setup
```python
import logging

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 3).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(4, 8), torch.randint(3, (4,))) for _ in range(5)]
logger = logging.getLogger(__name__)
```

## Bad
```python
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    logger.info("loss %.3f", loss.item())
```

## Good
```python
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0 or step == len(loader) - 1:
        logger.info("loss %.3f", loss.item())
```

## Leave alone
Every fifty steps, and once after the loop, a read costs little.
```python
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(loss, f"{loss:.3f}")
print(loss.item())
```

What an evaluation shows has to reach the host.
```python
with torch.no_grad():
    for x, y in loader:
        print(model(x.to(device)).argmax(1))
```

## Fix safety
Unsafe where fewer lines are logged. A guard is put around the call and the log lines next to it,
which reuses the loop's own counter or adds `enumerate`; where what the loop iterates over has a
length, its last step is logged as well. Reads without a log of their own that are made at once are
safe. A meter of the project whose class only computes its own attributes is fed after the loop, and
before what looks at it now and then: safe too, also where an object of the project that only writes
its meters out (`ProgressMeter(n, [losses])`) holds it. For any other meter the tensor is only a
suggestion, and so is all of it where several functions that hand back numbers read the device in
the same step. The note says where a clock is read behind it, and of a progress bar which other read
the step still waits for. In a loop of at most fifty iterations nothing is logged more seldom.

## Measure
Fifty small steps, on batches that are on the device beforehand; the logger is at its default level
and writes nothing. On a CPU no gain is expected: what is saved is the wait for the device at each
read.
```python
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 3)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = [(torch.randn(16, 256, device=device), torch.randint(3, (16,), device=device)) for _ in range(50)]
```
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.fixes.after_loop import done_after_loop
from torchlint.fixes.expressions import detached
from torchlint.fixes.log_every_n import logged_every
from torchlint.fixes.reads_together import alone, read_at_once, shown_if_in_vain
from torchlint.rule import (
    Fix,
    Hit,
    Module,
    Replace,
    Rule,
    Safety,
    Severity,
    heat_of,
    one_sentence,
    wait_for,
)
from torchlint.semantic.code.intervals import interval_of_one
from torchlint.semantic.data.evaluated_batches import waits_anyway
from torchlint.semantic.data.per_step_use import (
    LOG_EVERY,
    Sink,
    log_lines,
    logged_in,
    logging_call,
    read_before,
    redraws_bar,
    shown_tensors,
)
from torchlint.semantic.device.host_reads import HostRead, scalar_reads
from torchlint.semantic.uses.meters import meter_in_numpy, meter_on_host
from torchlint.semantic.uses.unavoidable_syncs import (
    waited_before,
    waits_besides,
    waits_for_the_same,
)
from torchlint.semantic.uses.unchanged_values import changed_below
from torchlint.semantic.values.detachable import detachable

_READ = "`{expr}` reads a GPU value every step for {sink}; log every N steps."
_ONE = (
    "`{expr}` reads a GPU value for {sink} every step, as the interval `{interval}` is 1; log "
    "every N steps."
)
_METER = (
    "`{expr}` reads a GPU value every step for {sink}; {given} the detached tensor, and {shown} "
    "every N steps."
)
_PASS = "pass"
_NUMPY = (
    "`{expr}` reads a GPU value every step for {sink}, which computes with NumPy and takes no GPU "
    "tensor; collect the detached tensors, and pass their values every N steps."
)
_LATER = (
    "`{expr}` reads a GPU value every step but is logged only now and then; read it where it is "
    "logged."
)
_CLONE = (
    "`{expr}` reads a GPU value every step but is logged only now and then; `{change}` changes it "
    "in place, so keep a clone and read that where it is logged."
)
_LOGGED_EVERY_N = (
    f"Only every {LOG_EVERY}th step is logged, and the last where the loop tells which it is; what "
    "counts the calls as steps counts fewer."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL105",
    message="{sink} formats a GPU tensor every step; log every N steps.",
    severity="warning",
    default=True,
    effect="host",
    triggers=(
        b"print",
        b"log",
        b"set_",
        b"add",
        b"update",
        b"warn",
        b"track",
        b"write",
        b"record",
        b"pu",
        b"report",
        b"display",
    ),
    yields_to=("TL901",),
    equivalence="opt-in",
    runs="train",
)


@rule.on(cst.Call, cst.FormattedString, cst.BinaryOperation)
def check(node: cst.CSTNode, module: Module) -> Iterator[Hit]:
    """Yield a hit for a scalar read that only serves a logging call, at the place where TL101 would
    see it."""
    for read in scalar_reads(module, node):
        sinks = logged_in(module, read.node)
        if sinks and not read_before(module, read):
            yield _hit(module, read, sinks)


@rule.on(cst.Call)
def check_tensors(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Yield a hit for each tensor that a logging call is handed and reads by itself; print is a
    read already."""
    sink = logging_call(module, node)
    if sink is None or sink.kind == "debug" or module.name(node.func) == "builtins.print":
        return
    for tensor in shown_tensors(module, sink):
        read = HostRead(tensor, tensor, "format")
        if not read_before(module, read):
            little = redraws_bar(module, node) or waited_before(module, tensor) is not None
            fix = shown_if_in_vain(module, tensor, tensor, _throttled(module, node))
            words = {"sink": module.shown(node.func), "expr": module.shown(tensor)}
            message = _by_interval(module, node, words)
            cause = wait_for(module, tensor)
            severity = Severity.INFO if little else None
            yield Hit(tensor, words, fix, severity, message=message, cause=cause)


def _hit(module: Module, read: HostRead, sinks: list[Sink]) -> Hit:
    often = [sink for sink in sinks if heat_of(module, sink.call).train]
    sink = (often or sinks)[0]
    words = {"expr": module.shown(read.node), "sink": module.shown(sink.call.func)}
    message: str | None
    if not often:
        message, fix = _LATER, None
        change = changed_below(module, read.tensor)
        if change is not None:
            message, words["change"] = _CLONE, module.shown(change)
    elif sink.kind == "meter":
        message, given = _meter(module, sink.call)
        words["given"] = given
        shows = any(each.kind != "meter" for each in often)
        words["shown"] = "show the number" if shows else "read the average"
        fix = _kept(module, read) if given == _PASS else None
    else:
        message = _by_interval(module, sink.call, words)
        message = message or (None if read.how in ("format", "print") else _READ)
        inside = module.is_within(read.node, sink.call)
        fix = _throttled(module, sink.call) if inside else None
    fix = shown_if_in_vain(module, read.node, read.tensor, fix or read_at_once(module, read))
    spared = waits_anyway(module, read.node, read.tensor, logs=True) is not None
    other = waits_for_the_same(module, read.node) if not spared else None
    if other is not None:
        words["other"] = module.shown(other)
        message = (message or rule.message) + alone(module, read.node, other)
    little = spared or other is not None or redraws_bar(module, sink.call)
    return Hit(
        read.node,
        words,
        fix,
        Severity.INFO if little else None,
        message=message,
        why_hot=read.inside,
        cause=wait_for(module, read.tensor),
    )


def _by_interval(module: Module, call: cst.Call, words: dict[str, str]) -> str | None:
    """Return what to say of a call whose interval is 1, and name the interval in the words."""
    interval = interval_of_one(module, call)
    if interval is None:
        return None
    words["interval"] = module.shown(interval)
    return _ONE


def _meter(module: Module, update: cst.Call) -> tuple[str, str]:
    """Return what to say of a number that a meter is handed, and how the meter gets the tensor."""
    if meter_on_host(module, update):
        return _METER, "move the meter to the device, pass"
    return (_NUMPY, "") if meter_in_numpy(module, update) else (_METER, _PASS)


def _throttled(module: Module, call: cst.Call) -> Fix | None:
    """Log only every N steps, together with the lines beside it that only log too; the loop counts
    them, or is made to."""
    found = log_lines(module, call) if interval_of_one(module, call) is None else None
    if found is None:
        return None
    edits = logged_every(LOG_EVERY, found)
    others = waits_besides(module, call, None) if redraws_bar(module, call) else ()
    stays = [each for each in others if not any(module.is_within(each, n) for n in found.lines)]
    notes = [
        _LOGGED_EVERY_N,
        f"The step still waits for `{module.shown(stays[0])}`." if stays else "",
    ]
    title = f"Log every {LOG_EVERY} steps"
    return Fix(edits, Safety.UNSAFE, title, one_sentence(notes), logs_every_n=True)


def _kept(module: Module, read: HostRead) -> Fix | None:
    """Keep what a meter averages on the device, `Safety.SAFE`; where not all that looks at it is
    known, suggest the detached tensor for it."""
    later = done_after_loop(module, LOG_EVERY, read, _LOGGED_EVERY_N)
    if later is not None:
        return later
    if read.how not in ("item", "float") or not isinstance(module.parent(read.node), cst.Arg):
        return None
    if not detachable(module, read.tensor):
        return None
    new = detached(module, read.tensor)
    title = "Pass the tensor" if new is read.tensor else "Pass the detached tensor"
    return Fix((Replace(read.node, new),), Safety.SUGGESTION, title)
