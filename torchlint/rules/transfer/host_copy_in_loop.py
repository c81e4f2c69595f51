"""Collect results on the device and copy them to the host once

## Why
`.cpu()`, `.to("cpu")` and `.tolist()` on a CUDA tensor wait for every kernel queued so far and then
copy through pageable memory; the host can queue no further work meanwhile. One copy of the
concatenated results after the loop moves the same bytes with one wait. The PyTorch Performance
Tuning Guide lists `.cpu()` and `.tolist()` among the calls to avoid under "Avoid unnecessary
CPU-GPU synchronization". `.cpu()` does not drop the autograd graph either: `.detach()` does, and
copies nothing.

Flagged: copies that run in every training step or forward pass, and those of a single number or of
single samples in an evaluation loop; where a loop over the samples copies each part of one tensor,
one copy before that loop is enough. What the function itself has copied to the device out of a
loader's batch, and left as it was, counts wherever it goes: the host has it. So does a tensor of the device
that is written into one of the host, `outputs[i] = model(x)`, which is a copy as well. Where the step
computes with the copy (a loss, a metric, a word drawn for the next step), the remedy is to do that
on the GPU; where a progress bar or a log shows it at once, to show it less often.

An `info`, as less is gained:

- nothing is known of the tensor's place; a batch straight from a loader does not count;
- one copy of the predictions for each evaluation batch: they have to reach the host at some time,
  and keeping them takes GPU memory;
- an array or a list that the step goes on with outside of torch, in NumPy or in Python, where it is
  known what becomes of it: only other code would spare it;
- one list of all numbers of a tensor of one dimension, or a copy that a loop takes apart: that
  waits once where each element could;
- a copy of which NumPy makes what the step then computes with on the device (a weight of the loss);
- a copy beside another of the same tensor in the same step, for code outside of torch, or right
  behind another copy, or a read, that waits for the same work.

Silent:

- an action on its way to an environment, and the priorities that the next sample of a replay memory
  is drawn by;
- an offload: kept for the backward pass, fetched again later, put into a replay memory, or said by
  a comment or a docstring to spare the device's memory;
- what the host computes with in float64;
- what is saved, sent away, handed to a queue, made a text or decomposed on the CPU in the same
  step, also by another function of the project;
- what code takes in the same step of which nothing is known, or for which torch has no function:
  matching, tracking, drawing, a callback; and the metrics of scikit-learn outside of training;
- one copy for each batch of an evaluation of which a loop takes part after part;
- what is copied for each batch of an evaluation that waits for all work in any case, as it reads a
  clock;
- an array that leaves torch once for each run of a model in a loop that is neither training nor
  over a loader: a picture to save, tags to score.

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
def epoch():
    losses = []
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return torch.stack(losses).mean()


mean = epoch()
```

## Good
```python
def epoch():
    losses = []
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu().mean()


mean = epoch()
```

## Leave alone
One copy after the loop, or one in a hundred steps, is what we recommend.
```python
for step, (x, y) in enumerate(loader):
    out = model(x.to(device))
    loss = criterion(out, y.to(device))
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(out.detach().cpu())
print(out.detach().cpu())
```

What the loader gives is on the host already, and so is the result of an earlier copy.
```python
for x, y in loader:
    labels = y.cpu().tolist()
    kept = x.to("cpu")
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
```

## Fix safety
Safe where the truth values that a copy brings over are only counted and the count is read as a
number: it is taken on the device, and whole numbers add up alike. Safe where a list of its own
collects detached losses that each iteration makes anew, and is only stacked or concatenated after the
loop: the stack is copied instead of its parts. What else a list of its own collects
(`names.extend(x.argmax(1).cpu().tolist())`) it keeps on the device until the loop has ended, and then
gets as before (`names = [row for value in names for row in value.cpu().tolist()]`). That is safe for
one detached number a step, unsafe for more, as the device's memory fills with the loop, and a
suggestion for images. Unsafe where the result is only added up: what reads the sum later then gets a
tensor of the device. The graph goes with the copy: by `.detach()` where autograd is not certainly
off, and a copy (`.clone()`) is kept where something may change a tensor in place. Unsafe where a loop copies part after part of one tensor, and does nothing
else with it: the copy before the loop holds all parts, also those that the loop does not come to,
and they share its memory; where a branch copies parts now and then, that is a suggestion.
Otherwise there is no fix; nor is there one for what is also used as a mapping, and has no
`detach()`, or for a sum that may start as a tensor on the host, to which none on the device can be
added.

## Measure
An epoch of 16 small steps, on batches that are on the device beforehand. Each step leaves a GPU work
for another millisecond (`torch.cuda._sleep`, 2 million cycles), as a larger model does: what is
saved is that the host waits for it at each copy, and queues nothing meanwhile. On a CPU no gain is
expected. Predicted for a GPU: 1.3 to 1.9 times as fast, as a step of a millisecond on each side
takes both in turn where the host waits, and the longer of both where it does not. With that work no
GPU has been measured yet; without it an NVIDIA H100 (torch 2.11.0, 2026-11-26) was done before the
host asked, and read 0.88x [0.80, 0.95], beside null controls of 0.65x to 1.33x in the same run.
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

from torchlint.base.records import frozen
from torchlint.fixes.expressions import detached
from torchlint.fixes.reads_together import alone
from torchlint.rule import (
    Append,
    Fix,
    Grade,
    Hit,
    Module,
    Replace,
    Rule,
    Safety,
    Severity,
    heat_of,
    inferred,
    on_device,
    one_sentence,
    wait_for,
)
from torchlint.rules.transfer._host_copy_in_loop.copy_uses import (
    JOINERS,
    computes_in_double,
    computing_user,
    gives_elements,
    has_known_use,
    has_no_counterpart,
    host_partner,
    is_collected,
    is_iterated,
    is_scalar,
    is_scalar_read,
    leaves_torch,
    moved_for_good,
    once_per_run,
    only_moves,
    takes_from_device,
    used_as_mapping,
)
from torchlint.rules.transfer._host_copy_in_loop.fixes import (
    NO_GRAPH,
    after_loop_fix,
    count_fix,
    parts_fix,
    parts_of,
    taken_apart,
)
from torchlint.rules.transfer._host_copy_in_loop.own_uploads import uploaded_by
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.tree import COMPREHENSIONS, attr_of, keyword_of
from torchlint.semantic.data.per_step_use import redraws_bar, used_rarely
from torchlint.semantic.data.taken_per_iteration import kept_until, taken_per_iteration
from torchlint.semantic.device.host_reads import HostRead, host_copy
from torchlint.semantic.device.possible_waits import told_not_to_wait
from torchlint.semantic.time.heat import inner_loop, loop_in_sight
from torchlint.semantic.uses.accumulators import gathered_reads, keeps_its_values
from torchlint.semantic.uses.assumptions import FRAMES, LOSSES, MEMORY, TORCH
from torchlint.semantic.uses.environment import for_environment, once_per_episode
from torchlint.semantic.uses.host_needs import (
    computed_with,
    decides_to_go_on,
    needed_at_once,
    sizes,
    worked_on_by_arrays,
    worked_on_by_host,
    yielded_out,
)
from torchlint.semantic.uses.observers import timed_by
from torchlint.semantic.uses.offloads import offloads
from torchlint.semantic.uses.packed_lengths import becomes_lengths
from torchlint.semantic.uses.unavoidable_syncs import (
    copied_as_well,
    stays_beside,
    waits_for_the_same,
)
from torchlint.semantic.values.value import CPU

rule = Rule(
    __name__,
    __doc__,
    code="TL113",
    message=(
        "`{expr}` copies a GPU tensor to the host every step; collect on the device and copy "
        "once after the loop."
    ),
    severity="warning",
    default=True,
    effect="copy",
    triggers=(b".cpu", b".to", b".tolist"),
    yields_to=("TL101", "TL104", "TL105", "TL109", "TL505", "TL604", "TL607", "TL901"),
    runs="hot",
)
ONLY_THE_GRAPH = (
    "`{expr}` waits for the GPU and keeps the graph; `.detach()` drops the graph without a copy."
)
BY_PARTS = (
    "`{expr}` copies one part of a GPU tensor at a time, each with a wait; copy the tensor once "
    "before the loop."
)
WORKED_ON = (
    "`{expr}` waits for the GPU every step because code outside torch uses the copy; do what torch "
    "can do on the device, or copy the values of many steps at once."
)
WORKED_ON_AT_ONCE = (
    "`{expr}` waits for the GPU every step because code outside torch uses the copy in that step; "
    "to avoid the wait, do that work with torch on the device, or use values that the host already "
    "has."
)
COMPUTED = (
    "`{expr}` waits for the GPU every step because the step computes on the device with what "
    "becomes of the copy; do that work with torch on the device, or use values that the host "
    "already has."
)
SIZED = (
    "`{expr}` waits for the GPU every step because it sets the size of a tensor or a loop; work on "
    "all elements with a mask, or use values that the host already has."
)
TWICE = (
    "`{expr}` copies a GPU tensor to the host every step, and `{twice}` copies it in the same "
    "step; copy it once for both."
)
UNUSED = (
    "`{expr}` copies a GPU tensor to the host every step, and nothing uses the copy: the tensor "
    "stays where it is; leave it out."
)
SENT = (
    "`{expr}` waits for the GPU to copy back what `{sent}` has copied there; use the tensor that "
    "the host had before."
)
COUNTED = (
    "`{expr}` copies a GPU tensor to the host every step to count in it; count on the device, and "
    "read the number alone."
)
USED = (
    "`{expr}` copies a GPU tensor to the host every step for `{user}`; compute that with torch on "
    "the GPU, and copy no more than its result."
)
LOGGED = (
    "`{expr}` copies a GPU tensor to the host every step because `{log}` uses it right away; "
    "collect on the device, and do that every N steps."
)
PARTNER = (
    "`{expr}` copies a GPU tensor to the host every step to compute there with `{partner}`; make "
    "`{partner}` on the GPU, and compute there."
)
RARELY = (
    "`{expr}` copies a GPU tensor to the host every step but is used only where `{test}`; copy it "
    "there."
)
KEPT = (
    "`{expr}` copies a GPU tensor to the host every step, and the list that keeps it is read only "
    "where `{test}`; collect on the device, and copy all at once there."
)
STORED = (
    "`{expr}` is copied from the GPU into a tensor of the host every step, and the host waits for "
    "it; fill a tensor on the device, and copy that once after the loop."
)
NO_LOOP = (
    "`{expr}` copies a GPU tensor to the host every step; keep it on the device and copy the "
    "values of many steps at once."
)
TIMED = " `{wait}` waits for the clock of each batch all the same: what is spared is the copy."
_NEEDS = (becomes_lengths, needed_at_once, decides_to_go_on, offloads)
"""For what a copy has to be made in the step."""
NOTE = (
    "The values stay on the device: GPU memory grows with the loop, and what reads them later "
    "sees device tensors."
)


@frozen
class _Seen:
    """A copy with what decides about it.

    Args:
        node: the copy.
        copy: what it reads.
        whole: the expression around it that goes on with the same value.
        number: whether it is one number alone.
        by_parts: whether a loop copies one part of a tensor at a time.
        evaluates: whether it is of more than a number, for each batch of an evaluation.
        batchwise: whether that is so once for all of the batch.
        leaves: whether the copy goes to code outside of torch.
        apart: whether it is taken apart there.
    """

    node: cst.Call
    copy: HostRead
    whole: cst.CSTNode
    number: bool
    by_parts: bool
    evaluates: bool
    batchwise: bool
    leaves: bool
    apart: bool


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Yield a hit for a copy to the host that runs every step."""
    copy = host_copy(module, node)
    if copy is None or told_not_to_wait(module, node):
        return
    whole = module.chain_around(node)
    if isinstance(module.parent(whole), cst.Expr):
        yield _hit(module, copy, UNUSED, {}, spared=True)
        return
    sent = uploaded_by(module, copy.tensor)
    if sent is not None and not is_scalar_read(module, whole):
        little = heat_of(module, node).grade is Grade.EVAL or leaves_torch(module, whole)
        words, timed = {"sent": module.shown(sent)}, timed_by(module, node)
        if timed is not None:
            words["wait"] = module.shown(timed)
        fix = after_loop_fix(module, copy)
        yield _hit(module, copy, SENT + (TIMED if timed else ""), words, spared=little, fix=fix)
        return
    if _is_needed(module, node, copy, whole):
        return
    seen = _described(module, node, copy, whole)
    hit = None if _is_left_alone(module, seen) else _hit_for(module, seen)
    if hit is not None:
        yield hit


@rule.on(cst.Assign, about=lambda _, node: isinstance(node.targets[0].target, cst.Subscript))
def check_stored(node: cst.Assign, module: Module) -> Iterator[Hit]:
    """Find tensors on the device that are written into one of the host, ``outputs[at] = out``; one
    that each step makes is to be made on the device (TL102)."""
    match node.targets:
        case [cst.AssignTarget(cst.Subscript(holder))] if (
            on_device(module, node.value) is True
            and (held := inferred(module, holder)).tensor
            and held.device == CPU
            and held.origin == "factory"
            and not (isinstance(holder, cst.Name) and _made_in_step(module, holder))
        ):
            severity = Severity.INFO if heat_of(module, node).grade is Grade.EVAL else None
            words = {"expr": module.shown(node.value)}
            yield Hit(node.value, words, severity=severity, message=STORED)


def _made_in_step(module: Module, name: cst.Name) -> bool:
    return any(heat_of(module, made).hot for made in definitions_of(module, name))


def _is_needed(module: Module, node: cst.Call, copy: HostRead, whole: cst.CSTNode) -> bool:
    """Say whether a step has to make a copy, which gives lengths or a decision, or hands it out, or
    whether it is a scalar, which another rule is about."""
    return (
        is_scalar_read(module, whole)
        or any(needs(module, node) for needs in _NEEDS)
        or (not is_scalar(module, copy) and yielded_out(module, node))
    )


def _described(module: Module, node: cst.Call, copy: HostRead, whole: cst.CSTNode) -> _Seen:
    apart = taken_apart(module, whole)
    number = is_scalar(module, copy)
    evaluates = heat_of(module, node).grade is Grade.EVAL and not number
    by_parts = parts_of(module, copy.tensor, node) is not None
    inner = inner_loop(module, node)
    results = isinstance(inner, COMPREHENSIONS) and not inferred(module, inner.for_in.iter).tensor
    batchwise = evaluates and (inner is None or (results and not by_parts))
    leaves = not number and leaves_torch(module, whole)
    return _Seen(node, copy, whole, number, by_parts, evaluates, batchwise, leaves, apart)


def _is_left_alone(module: Module, seen: _Seen) -> bool:
    """Say whether a copy costs next to nothing, or is what an evaluation is for."""
    node, copy, whole = seen.node, seen.copy, seen.whole
    return (
        for_environment(module, whole)
        or once_per_episode(module, node)
        or not (seen.by_parts or _is_trained(module, seen) or not has_no_counterpart(module, node))
        or moved_for_good(module, whole, copy.tensor)
        or (seen.leaves and once_per_run(module, node, copy))
        or (seen.evaluates and (worked_on_by_host(module, node) or (seen.batchwise and seen.apart)))
        or (seen.batchwise and stays_beside(module, node) is not None)
        or (not seen.number and computes_in_double(module, node))
        or timed_by(module, node) is not None
    )


def _is_trained(module: Module, seen: _Seen) -> bool:
    """Say whether a loss that is trained is made of a copy with its graph: torch computes that,
    whatever else takes the copy."""
    user = computing_user(module, seen.whole) if inferred(module, seen.node).grad else None
    match module.parent(user) if user is not None else None:
        case cst.Assign([cst.AssignTarget(cst.Name(name))]) as made:
            reads = readers_of(module, made, name)
            return any(attr_of(module.parent(read)) == "backward" for read in reads)
    return False


def _hit_for(module: Module, seen: _Seen) -> Hit | None:
    """Return the finding of a copy: its fix, or what can be done in its place, and in how far the
    step is spared the wait; None where other code takes it and nothing is known of that."""
    node, copy, whole, by_parts = seen.node, seen.copy, seen.whole, seen.by_parts
    iterated = is_iterated(module, whole)
    worked_on = seen.leaves and not is_collected(module, whole)
    forced = worked_on or seen.apart or iterated
    if forced and not by_parts and not has_known_use(module, node):
        return None
    # Only the author's own ``.cpu()`` says where it lives.
    guessed = on_device(module, copy.tensor) is not True
    counts = None if by_parts else count_fix(module, copy)
    log = None if forced or by_parts or counts else _log(module, node)
    fix = counts or (parts_fix(module, copy) if by_parts else None)
    fix = fix or (_fix(module, copy, whole) if log is None else None)
    kept = fix is not None and not by_parts and only_moves(copy)  # Numbers have no graph.
    graph = kept and inferred(module, copy.tensor).grad is True
    sized = fix is None and sizes(module, node)
    free = fix is None and not forced
    twice = None if forced else copied_as_well(module, copy.tensor)
    computed = fix is None and computed_with(module, node)
    user, partner = (
        (computing_user(module, whole), host_partner(module, whole)) if free else (None, None)
    )
    spared = (
        forced
        or seen.leaves
        or redraws_bar(module, log)
        or (computed and worked_on_by_arrays(module, node))
        or seen.batchwise
        or guessed
        or sized
        or gives_elements(module, copy)
        or twice is not None
    )
    rarely, kept_for = used_rarely(module, whole), kept_until(module, node)
    instead = (
        (counts, COUNTED),
        (rarely, RARELY),
        (sized, SIZED),
        (twice if free else None, TWICE),
        (computed, COMPUTED),
        (user, USED),
        (partner, PARTNER),
        (log, LOGGED),
        (kept_for, KEPT),
        (not loop_in_sight(module, node), NO_LOOP),
    )
    at_once = sized or iterated or computed
    message = _message(module, node, graph, by_parts, forced, at_once) or next(
        (text for holds, text in instead if holds), None
    )
    named = {"partner": partner, "twice": twice, "user": user and user.func, "log": log}
    named["test"] = rarely or kept_for
    words = {word: module.shown(each) if each else "" for word, each in named.items()}
    return _hit(module, copy, message, words, spared=spared, by_parts=by_parts, fix=fix)


def _log(module: Module, node: cst.Call) -> cst.BaseExpression | None:
    """Return what shows or logs the copy in the iteration that makes it."""
    taker = taken_per_iteration(module, node)
    return taker.node if taker is not None and not taker.kept else None


def _hit(
    module: Module,
    copy: HostRead,
    message: str | None,
    words: dict[str, str],
    *,
    spared: bool,
    by_parts: bool = False,
    fix: Fix | None = None,
) -> Hit:
    """Return the finding of a copy, a hint where another wait for the same work stands beside."""
    asks = by_parts or not spared
    other = waits_for_the_same(module, copy.node, copies=True) if asks else None
    if other is not None:
        words["other"], message = (
            module.shown(other),
            (message or rule.message) + alone(module, copy.node, other),
        )
    return Hit(
        copy.node,
        {"expr": module.shown(copy.node), **words},
        fix=fix,
        severity=Severity.INFO if spared or other is not None else None,
        message=message,
        cause=wait_for(module, copy.tensor),
    )


def _message(
    module: Module, node: cst.Call, graph: bool, by_parts: bool, forced: bool, at_once: bool
) -> str | None:
    """Return what to do instead, where it is not to collect and copy after the loop."""
    if graph:
        return ONLY_THE_GRAPH
    if by_parts:
        return BY_PARTS
    if not forced:
        return None
    return WORKED_ON if loop_in_sight(module, node) and not at_once else WORKED_ON_AT_ONCE


def _fix(module: Module, copy: HostRead, whole: cst.CSTNode) -> Fix | None:
    above = module.parent(whole)
    outer = module.taker(whole)
    if used_as_mapping(module, copy.tensor):
        return None
    if whole is not copy.node or not only_moves(copy):
        return after_loop_fix(module, copy)
    kept: cst.BaseExpression = detached(module, copy.tensor)
    graph = kept is not copy.tensor and inferred(module, copy.tensor).grad is not False
    note = one_sentence([NOTE, NO_GRAPH if graph else ""])
    if isinstance(above, cst.AugAssign):
        if not takes_from_device(module, above.target):
            return None
        return Fix((Replace(copy.node, kept),), Safety.UNSAFE, "Add up on the device", note)
    joins = (
        _joins(module, outer)
        if isinstance(outer, cst.Call) and keeps_its_values(module, copy.tensor, outer)
        else []
    )
    if not joins:
        return after_loop_fix(module, copy)
    whole_stack = [Append(join, ".cpu()") for join in joins]
    return Fix(
        (Replace(copy.node, kept), *whole_stack),
        Safety.SAFE,
        "Collect on the device, copy the stack",
        assumes=dict.fromkeys((FRAMES, LOSSES, MEMORY, TORCH), NOTE),
    )


def _joins(module: Module, append: cst.Call) -> list[cst.Call]:
    """Return the calls of stack and cat that are the list's only readers, or nothing."""
    found = []
    for read in gathered_reads(module, append) or ():
        call = module.taker(read)
        if (
            not isinstance(call, cst.Call)
            or module.name(call.func) not in JOINERS
            or not all(
                not arg.star and keyword_of(arg) in ("", "tensors", "dim") for arg in call.args
            )
        ):
            return []
        found.append(call)
    return found
