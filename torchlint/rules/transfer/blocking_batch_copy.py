"""Copy batches to the GPU without waiting

## Why
`.to(device)` and `.cuda()` always start an asynchronous copy, and without `non_blocking=True` they
then wait until the stream has finished: one wait for each tensor of each batch (PyTorch's tutorial
on `pin_memory` and `non_blocking`). With `non_blocking=True` the host goes on, and from pinned
memory the copy overlaps with kernels. From pageable memory little is gained, so the loader must pin
as well (TL202).

Flagged: `.to` and `.cuda` without `non_blocking` in a loop over batches, of what a loader gives or
a caller hands to the step, and of parts of it; in a `forward`, of what those who call the network
hand on as a loader gave it.

An `info`, as less is gained:

- the loader does not pin, or none of the project does (without workers the training process would
  pin, so they come first: TL201 says where they are worth it); a loader whose batches hold what is
  expanded cannot pin them (TL202), and gets no fix that does;
- an evaluation, where most batches end in a read, and a step that ends in one of a GradScaler,
  which reads from the device whether a gradient is infinite;
- what a tokenizer makes in the step (`return_tensors=`): the message says where it should be made;
- what is only copied back to the host, and what nothing reads on the device: it should stay there;
- what a training step cuts out of an array, `torch.from_numpy(data[i : i + n])`, or a generator of
  the project out of what it is given: pin that first;
- a tensor that the step makes of what only the host has, a list, an array, or what a function of
  the project makes of them, `torch.tensor(labels, device=device)`: the host waits for all that the
  step has launched before; in a forward pass of lists that it makes itself.

Silent:

- an evaluation whose loader neither pins nor has workers, or of which each batch ends in what is
  printed or in what another library works on: nothing is left that the copy could overlap with;
- what is cast first, `x.float().to(device)`, unless it is known to have that dtype;
- what the step computes or joins on the host itself, as `x / 255` or `torch.stack` do, here, in a
  function of the project or in each caller of this one, parts of that, and what it may make of an
  array;
- what was made for that very device or moved there before, here or by each caller in view, and
  batches of a loader that moves them itself (timm's);
- what goes to the device of a parameter for which a call gives the CPU, as it then goes back, too;
- samples that a loop takes from a dataset without a loader, what all callers in view have from
  before their loop over batches (the weights of classes), and all of a project that speaks of no
  loader: nothing pins that memory;
- elements that do not lie in a row, `x[:, 1:]`, which are put in other memory first;
- what is made of tensors that are on the device, rows of a table that an object keeps, what another
  package makes of a batch and of what the step has computed;
- networks, and graphs of dgl, which no loader pins;
- a program whose device is Apple's alone, which takes no pinned memory;
- what the host reads in the same expression, `x.to(device).tolist()`: it then waits all the same.

## Setup
```python
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pin = torch.cuda.is_available()
model = nn.Linear(8, 2).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataset = TensorDataset(torch.ones(16, 8), torch.zeros(16, dtype=torch.long))
loader = DataLoader(dataset, batch_size=4, pin_memory=pin)
```

## Bad
```python
for x, y in loader:
    x = x.to(device)
    y = y.to(device)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
```

## Good
```python
for x, y in loader:
    x = x.to(device, non_blocking=True)
    y = y.to(device, non_blocking=True)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
```

## Leave alone
Copies back to the host must be waited for.
```python
outputs = []
with torch.no_grad():
    for x, y in loader:
        x = x.to(device, non_blocking=True)
        outputs.append(model(x).to("cpu"))
```

A host buffer that is written again right after the copy must not change under it.
```python
for x, y in loader:
    x_device = x.to(device)
    x.zero_()
    loss = criterion(model(x_device), y.to(device, non_blocking=True))
    loss.backward()
    optimizer.step()
```

A single batch outside of any loop.
```python
x, y = next(iter(loader))
x = x.to(device)
```

## Fix safety
What nothing reads on the device is no longer copied: the fix deletes that, safe for parts of a
batch; there is none where a `del` names it.
Safe without more where the target is CUDA by evidence, and the batch's element is certainly a
tensor that nothing writes afterwards: the file shows that it comes from a `DataLoader` which stacks
samples by itself, or that torch has just made it, and every use of it is known. The stream then
orders the copy before its use. Safe in an ordinary program where the device is whatever the program
chooses, and what a loader or a caller hands out is taken for tensors; `torchlint fix` says so. It
is unsafe where the project has objects whose `.to` takes no `non_blocking` (encodings, a class of
its own); where the call casts as well, as the cast then runs
on the device; where the host's tensor may be written again, or goes to code that could; for a whole
batch, and for what a function has made of one, unless it is used as a tensor. It is only a
suggestion for a whole batch of such a project, and where the project makes loaders, of which none
that may pin its memory is known to make the batch, as the copy would wait all the same. Moves that
stand side by side are one fix, as safe as the least safe of them, and only shown where one of the
same statement may be no tensor; they are unsafe where a clock is read before the model runs, as it
then no longer includes the copy. Where their loader, wherever in the project it is made, has
workers and does not pin, the fix pins its memory too. A fix that changes several files is written
as a whole or not at all. Where the project names an accelerator other than CUDA, as MPS, whose
copies may not have ended when the host goes on, or leaves the choice to Lightning, the fix writes
`non_blocking=torch.cuda.is_available()`. It is unsafe where a caller chooses the device and nothing
in the project speaks of CUDA.

## Measure
An epoch of 8 steps, on batches that are pinned beforehand where there is a GPU. Each step leaves a
GPU work for another millisecond (`torch.cuda._sleep`, 2 million cycles), as a larger model does:
what is saved is that the next copy waits for it, and the host queues nothing meanwhile. On a CPU no
gain is expected. Predicted for a GPU: 1.3 to 1.9 times as fast, as a step of a millisecond on each
side takes both in turn where the host waits, and the longer of both where it does not. With that
work no GPU has been measured yet. Without it the copy had nothing to wait for: an NVIDIA H100
(torch 2.11.0, 2026-11-26) read 0.85x [0.76, 0.96], which decides nothing, as examples held against
themselves read 0.76x to 1.33x there.
```python
torch.manual_seed(0)
model = nn.Linear(1024, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if device.type == "cuda":
    optimizer.register_step_post_hook(lambda *_: torch.cuda._sleep(2_000_000))
dataset = TensorDataset(torch.randn(2048, 1024), torch.randint(2, (2048,)))
loader = list(DataLoader(dataset, batch_size=256, pin_memory=pin))
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.rule import (
    Fix,
    Grade,
    Hit,
    InFile,
    Module,
    NeedImport,
    NodeEdit,
    Remove,
    Replace,
    Rule,
    Safety,
    Severity,
    Transfer,
    arguments_of,
    heat_of,
    inferred,
    one_sentence,
    with_keyword,
)
from torchlint.rules.transfer._blocking_batch_copy.batches import (
    blocking_move,
    cut_by_generator,
    is_part_of_batch,
    only_copied_back,
    unread_copy,
    waited_for,
)
from torchlint.rules.transfer._blocking_batch_copy.made_in_step import made_in_step
from torchlint.rules.transfer._blocking_batch_copy.overlaps import changed_later, may_overlap
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.code.named_tests import Holds
from torchlint.semantic.code.reaching import assignments_of
from torchlint.semantic.code.tree import has_star, is_name, is_zero, method_called, root_of
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.data.datasets import cuda_samples, sample_cost
from torchlint.semantic.data.evaluated_batches import ends_in_wait, worked_on_in_batch
from torchlint.semantic.data.expanded import expanded_in_batch
from torchlint.semantic.data.loader_calls import makes_loader, pins_memory, works_alone
from torchlint.semantic.data.loader_flow import feeding_loaders, loaders_of_batch
from torchlint.semantic.data.loader_settings import pin_word
from torchlint.semantic.data.loaders import (
    brought_by_framework,
    has_loaders,
    nobody_pins,
    nobody_works,
)
from torchlint.semantic.device.transfers import TRANSFERS, certainly_tensor, is_cached, transfer_of
from torchlint.semantic.device.uploads import upload_of
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.time.step_overhead import backward_reads
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.assumptions import (
    ACCELERATOR,
    BATCHES,
    FRAMES,
    PINNED,
    TORCH,
    changed_torch,
    names_other_accelerator,
    own_batches,
)
from torchlint.semantic.uses.network_waits import network_wait
from torchlint.semantic.uses.observers import clock_after
from torchlint.semantic.uses.packed_lengths import becomes_lengths
from torchlint.semantic.values.apple import only_apple
from torchlint.semantic.values.classes import in_lightning
from torchlint.semantic.values.inferred import is_model_call
from torchlint.semantic.values.value import CPU, CUDA

_COPIES = frozenset(("copy", "memory_format"))
_Pins = dict[Module, list[NodeEdit]]
"""The edits that pin the memory of loaders, by the file that they are in."""
_TITLE = "Copy without waiting"
_DELETED = "Leave it on the host"
_MOVED = "An object other than a tensor may be moved itself, under its other names too."
_WORKERS = (
    "blocking host-to-device copy of a batch; give the DataLoader workers and pin_memory=True, then"
    " pass non_blocking=True."
)
_PINNED = "blocking host-to-device copy of a batch; pass non_blocking=True."
_EXPANDED = (
    "blocking host-to-device copy of a batch; copy `{expanded}` (.contiguous()), whose elements "
    "share memory, so that the DataLoader can pin its batches, and pass non_blocking=True."
)
_ENDS = " Each batch waits for the GPU in `{wait}` as well: little is gained while it does."
_INSIDE = (
    " Each batch waits for the GPU in `{wait}` as well ({place}): little is gained while it does."
)
_BACK = "what is copied to the device here is only copied back to the host; leave it there."
_UNREAD = "what is copied to the device here is never used there; leave it on the host."
_TOKENIZED = (
    "what is made here of texts or pictures is in memory that no loader pins, and the copy waits; "
    "make it in the collate_fn of the DataLoader, with pin_memory=True, and pass non_blocking=True."
)
_SLICED = (
    "a batch is cut out of an array and copied while the host waits; pin it first (.pin_memory()) "
    "and pass non_blocking=True, or keep the array on the device where it fits."
)
_MADE = (
    "what Python or NumPy makes in this step is copied while the host waits: no loader has pinned "
    "it; make it before the training or in the DataLoader's workers, or pin it (.pin_memory()) and "
    "pass non_blocking=True."
)
_ALONE = "Copy without waiting, once the loader pins its memory"
_STREAMS = Wording(
    regex(r"\bcuda\.(?:Stream|ExternalStream)\("), ("cuda.Stream(", "cuda.ExternalStream(")
)
"""Words without which all that a program launches on a device is in one order."""
_NOTES = {
    "streams": "Code on a stream of its own that reads the batch has to wait for the copy.",
    "cast": "The cast then runs on the device instead of on the host.",
    "object": "An object other than a tensor may have a .to() that takes no non_blocking.",
    "device": "On a device other than CUDA the copy may not have ended when the host goes on.",
    "host": "To the host the copy is not awaited, and its memory may be read unfinished.",
    "written": "The host's tensor may be written again before the copy has ended.",
    "timed": "A clock read right after it no longer includes the copy.",
    "pinned": "Each batch takes memory that cannot be swapped out.",
}

_CUT_DEPTH = 3
_HOST = regex(r"\bcpu\b", re.IGNORECASE)

rule = Rule(
    __name__,
    __doc__,
    code="TL103",
    message=(
        "blocking host-to-device copy of a batch; pass non_blocking=True (and "
        "pin_memory=True in the DataLoader)."
    ),
    severity="warning",
    default=True,
    effect="copy",
    triggers=(b".to", b".cuda", b"device="),
    yields_to=("TL102", "TL104", "TL106", "TL110", "TL112", "TL114", "TL207", "TL606", "TL902"),
    equivalence="bitwise",
    runs="hot",
)


@frozen
class _Memory:
    """The memory that a copy takes its batch from.

    Args:
        loaders: the loaders that give the batch, each with its file; none where they are not known.
        unpinned: whether none of them pins it.
        pinned: whether each of them does.
        alone: whether none of them has workers.
    """

    loaders: list[tuple[Module, cst.Call]]
    unpinned: bool
    pinned: bool
    alone: bool


@rule.on(cst.Call, calls=TRANSFERS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Yield a hit for a copy of a batch for which the host waits every step."""
    transfer = blocking_move(module, node)
    if transfer is None or not _is_batch_copy(module, node, transfer):
        return
    if only_copied_back(module, node):
        yield Hit(node, severity=Severity.INFO, message=_BACK, named=False)
        return
    if unread_copy(module, node):
        yield Hit(node, fix=_never_copied(module, transfer), message=_UNREAD, named=False)
        return
    memory = _memory(module, node, transfer)
    if worked_on_in_batch(module, node) is not None:
        return
    if _is_tokenized(module, transfer.source):
        # Decoding takes a thousand times as long as that copy.
        calls = module.within(module.scope(node), cst.Call)
        if all(method_called(call) != "generate" for call in calls):
            yield Hit(node, severity=Severity.INFO, message=_TOKENIZED, named=False)
        return
    evaluates = heat_of(module, node).grade is Grade.EVAL
    stays = ends_in_wait(module, node)
    if stays is not None and not heat_of(module, node).train:
        return
    if cut_by_generator(module, transfer.source):
        yield Hit(node, severity=Severity.INFO, message=_SLICED, named=False)
        return
    wait = stays or ends_in_wait(module, node, put_off=True)
    little = memory.unpinned or evaluates or wait is not None
    severity = Severity.INFO if little else None
    if memory.unpinned and memory.alone:
        # Without workers the training process would pin.
        costs = [sample_cost(*each) is not False for each in memory.loaders]
        if (any(costs) or not costs) and not evaluates:
            yield Hit(node, severity=severity, message=_WORKERS, named=False)
        return
    message, words = _message(module, memory, wait)
    yield Hit(node, words, _pinning(module, transfer, memory), severity, message, named=False)


def _is_batch_copy(module: Module, node: cst.Call, transfer: Transfer) -> bool:
    """Say whether a copy is known to be one of a batch that a loader gives, and no framework's."""
    if not said_somewhere(module, _speaks_of_a_loader):
        return False
    forward = heat_of(module, node).grade is Grade.FORWARD
    batch = not forward or inferred(module, transfer.source).origin == "batch"
    return batch and not brought_by_framework(module, node)


def _memory(module: Module, node: cst.Call, transfer: Transfer) -> _Memory:
    near = [(module, loader) for loader in feeding_loaders(module, node)]
    loaders = list(dict.fromkeys(near or loaders_of_batch(module, transfer.source)))
    if not loaders:
        return _Memory([], nobody_pins(module), False, nobody_works(module))
    pins = [pins_memory(*each) for each in loaders]
    unpinned = all(each is False for each in pins)
    alone = unpinned and all(works_alone(*each) for each in loaders)
    return _Memory(loaders, unpinned, all(each is True for each in pins), alone)


def _message(
    module: Module, memory: _Memory, wait: cst.BaseExpression | None
) -> tuple[str, dict[str, str]]:
    """Return the sentence about a copy, with what it says of its step and its loader."""
    place = ""
    if isinstance(wait, cst.Call):
        inside, switch = network_wait(module, wait), backward_reads(module)
        if inside is not None:
            place = inside.shown_from(module)
        elif method_called(wait) == "backward" and switch is not None:
            place = f"`{module.shown(switch)}`"
    expanded = [expanded_in_batch(*each) for each in memory.loaders] if memory.unpinned else []
    words = {
        "wait": module.shown(wait) if wait is not None else "",
        "place": place,
        "expanded": next(filter(None, expanded), ""),
    }
    said = _PINNED if memory.pinned else _EXPANDED if words["expanded"] else rule.message
    ends = _INSIDE if place else _ENDS if wait is not None else ""
    return f"{said}{ends}", words


def _pinning(module: Module, transfer: Transfer, memory: _Memory) -> Fix | None:
    """Return the fix of a copy, which also pins what unpinned loaders give; only shown where nobody
    is known to pin it, as the copy would wait all the same."""
    pins: _Pins = {}
    for where, loader in memory.loaders if memory.unpinned else ():
        pins.setdefault(where, []).extend(_pinned(where, loader))
    pins = {where: list(dict.fromkeys(edits)) for where, edits in pins.items() if edits}
    fix = _fix(module, transfer, pins)
    unknown = (
        not memory.loaders and has_loaders(module) and not _of_named_loader(module, transfer.call)
    )
    if fix is not None and (memory.unpinned or unknown) and not pins:
        return Fix(fix.edits, Safety.SUGGESTION, _ALONE, fix.note)
    return fix


@rule.on(cst.Call, calls=TRANSFERS, runs="train")
def check_cut(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find batches that a training step cuts out of an array of the host, and copies."""
    transfer = transfer_of(module, node)
    if transfer is None or "non_blocking" in transfer.given or only_apple(module):
        return
    if inferred(module, transfer.source).device != CPU:
        return
    if _is_cut(module, transfer.source, _CUT_DEPTH) and not _pins(module, node):
        yield Hit(node, message=_SLICED, severity=Severity.INFO, named=False)


def _pins(module: Module, node: cst.CSTNode) -> bool:
    """Say whether the function pins memory by itself."""
    calls = module.within(module.scope(node), cst.Call)
    return any(method_called(call) == "pin_memory" for call in calls)


@rule.on(cst.Call, calls=(*TRANSFERS, *ops.DATA_FACTORIES, ".new", ".new_tensor"), runs="step")
def check_made(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find tensors that a training step makes of data of Python or NumPy, and copies."""
    transfer = transfer_of(module, node)
    if (
        not made_in_step(module, node, transfer)
        or only_apple(module)
        or is_cached(module, node)
        or becomes_lengths(module, node)
        or in_lightning(module, node)
    ):
        return
    line = module.within(module.small_statement(node) or node, cst.Call)
    if _pins(module, node) or any(
        upload_of(module, each) is not None and module.before(each, node) for each in line
    ):
        return
    if transfer is not None and (
        "non_blocking" in transfer.given
        or waited_for(module, node)
        or blocking_move(module, node) is not None
        or _is_cut(module, transfer.source, _CUT_DEPTH)
    ):
        return
    yield Hit(node, message=_MADE, severity=Severity.INFO, named=False)


def _is_cut(module: Module, source: cst.BaseExpression, depth: int) -> bool:
    """Say whether a tensor is made of one slice of an array, ``from_numpy(data[at : at + n])``, or
    of several in a list."""
    while (
        isinstance(source, cst.Call)
        and isinstance(source.func, cst.Attribute)
        and module.name(source.func) is None
    ):
        source = source.func.value
    match source:
        case cst.Name() if depth:
            made = assignments_of(module, source)
            return bool(made) and all(
                isinstance(each.targets[0].target, cst.Name)
                and _is_cut(module, each.value, depth - 1)
                for each in made
            )
        case cst.Call(args=[cst.Arg(cst.ListComp(inner)), *_]) if module.called(
            source
        ) in ops.dotted("join"):
            return _is_cut(module, inner, depth)
        case cst.Call(args=[cst.Arg(array)]) if module.called(source) == "torch.from_numpy":
            return any(
                isinstance(part.slice, cst.Slice) and part.slice.lower and part.slice.upper
                for taken in module.within(array, cst.Subscript)
                for part in taken.slice[:1]
            )
    return False


def _is_tokenized(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether what is moved was made here by a tokenizer or a processor: what is told which
    tensors to give, ``return_tensors="pt"``."""
    made = assignments_of(module, root_of(source, cst.Subscript))
    return bool(made) and all(
        isinstance(each.value, cst.Call)
        and any(is_name(arg.keyword, "return_tensors") for arg in each.value.args)
        for each in made
    )


def _of_named_loader(module: Module, node: cst.Call) -> bool:
    """Say whether a loop around the copy goes over what its name, or its class, says is a loader,
    whoever makes that."""
    names = module.names_in(node.func)
    return any(
        isinstance(loop, cst.For)
        and isinstance(loop.iter, cst.Name)
        and inferred(module, loop.iter).kind == "loader"
        and not names.isdisjoint(module.names_in(loop.target))
        for loop in module.loops(node)
    )


def _refuses(text: str) -> bool:
    """Say whether a file uses a class of torch whose ``.to()`` takes no ``non_blocking``
    (``torch.nn.attention.flex_attention``, torch 2.13)."""
    return "BlockMask" in text


def _speaks_of_a_loader(text: str) -> bool:
    return "oader" in text


def _fix(module: Module, transfer: Transfer, pins: _Pins) -> Fix | None:
    """Return the fix for all moves of a batch that stand side by side, as safe as the least safe
    of them, and for its loaders."""
    if transfer.given & _COPIES:
        return None
    whys = _may_change(module, transfer)
    word: cst.BaseExpression = cst.Name("True")
    needed: list[NodeEdit] = []
    other = transfer.device != CUDA and names_other_accelerator(module)
    if other:
        torch = torch_name(module)
        word = cst.parse_expression(f"{torch}.cuda.is_available()")
        needed.append(NeedImport("torch", torch))
    edit = Replace(transfer.call, with_keyword(transfer.call, "non_blocking", word))
    # No loader makes a mask of blocks.
    refused = said_somewhere(module, _refuses) and not _of_named_loader(module, transfer.call)
    if whys is None or refused or _may_be_host(module, transfer):
        note = _NOTES["object" if whys is None or refused else "host"]
        return Fix((edit,), Safety.SUGGESTION, _TITLE, note)
    edits: list[NodeEdit] = [edit, *needed]
    alike = True
    for beside in _beside(module, transfer):
        its = _may_change(module, beside)
        if its is not None and not beside.given & _COPIES:
            new = with_keyword(beside.call, "non_blocking", word)
            edits.append(Replace(beside.call, new))
            whys |= its
        elif module.statement(beside.call) is module.statement(transfer.call):
            alike = False
    if other:
        whys.discard(("device", ACCELERATOR))
    elsewhere: tuple[InFile, ...] = ()
    if pins:
        edits.extend(pins.get(module, ()))
        elsewhere = tuple(
            InFile(where, tuple(its)) for where, its in pins.items() if where is not module
        )
        whys.add(("pinned", PINNED))
    if _is_timed(module, transfer.call):
        whys.add(("timed", ""))
    if said_somewhere(module, Holds(_STREAMS)):
        whys.add(("streams", ""))
    said = one_sentence(note for why, note in _NOTES.items() if (why, "") in whys)
    granted = {name: _NOTES[why] for why, name in sorted(whys) if name}
    # Of moves in one statement, all change or none.
    safety = (Safety.UNSAFE if said else Safety.SAFE) if alike else Safety.SUGGESTION
    return Fix(tuple(edits), safety, _TITLE, said, elsewhere, granted)


def _never_copied(module: Module, transfer: Transfer) -> Fix | None:
    """Return the fix that deletes a copy which nothing reads, of a line of several alone, and with
    the ``if`` that holds no more; None where more than names may be evaluated."""
    assigned, line = module.small_statement(transfer.call), module.statement(transfer.call)
    block = module.parent(line)
    plain = is_part_of_batch(module, transfer.source) and _calls_nothing(module, transfer.source)
    if (
        not isinstance(assigned, cst.Assign)
        or not isinstance(block, cst.IndentedBlock)
        or not plain
    ):
        return None
    deleted = module.within(module.scope(transfer.call), cst.Del)
    if module.names_in(assigned.targets[0].target) & module.names_in(*deleted):
        return None
    edit: NodeEdit = Remove(assigned, comments=True)
    match assigned.targets[0].target, assigned.value:
        case cst.Tuple(names), cst.Tuple(values) if not _is_unread(module, line):
            kept = [at for at, each in enumerate(values) if not _unread(module, each.value)]
            left, right = (_row([row[at].value for at in kept]) for row in (names, values))
            target = assigned.targets[0].with_changes(target=left)
            edit = Replace(assigned, assigned.with_changes(targets=[target], value=right))
        case _ if all(_is_unread(module, each) for each in block.body):
            above = module.parent(block)
            outer = module.parent(above) if above is not None else None
            if (
                not isinstance(above, cst.If)
                or above.orelse is not None
                or not isinstance(outer, cst.IndentedBlock)
                or len(outer.body) == 1
                or not _calls_nothing(module, above.test)
            ):
                return None
            edit = Remove(above, comments=True)
    assumes = dict.fromkeys((BATCHES, FRAMES, TORCH), _MOVED)
    return Fix((edit,), Safety.SAFE, _DELETED, assumes=assumes)


def _calls_nothing(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression runs no code of the program's own, and binds nothing."""
    calls = module.within(node, cst.Call, cst.NamedExpr, cst.Await)
    return all(module.called(each) == "torch.cuda.is_available" for each in calls)


def _unread(module: Module, value: cst.BaseExpression) -> bool:
    """Say whether a value is a copy of a batch that nothing reads."""
    move = blocking_move(module, value) if isinstance(value, cst.Call) else None
    return move is not None and unread_copy(module, move.call)


def _is_unread(module: Module, line: cst.CSTNode) -> bool:
    """Say whether a line makes nothing but copies of batches that nothing reads."""
    match line:
        case cst.SimpleStatementLine([cst.Assign(value=cst.Tuple(values))]):
            return all(_unread(module, each.value) for each in values)
        case cst.SimpleStatementLine([cst.Assign(value=value)]):
            return _unread(module, value)
    return False


def _row(parts: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    """Return a tuple without parentheses; one part alone by itself."""
    return (
        cst.Tuple([cst.Element(each) for each in parts], lpar=[], rpar=[])
        if parts[1:]
        else parts[0]
    )


def _is_timed(module: Module, node: cst.Call) -> bool:
    """Say whether the iteration reads a clock between a copy and the first run of a model."""
    clock = clock_after(module, node)
    loop = module.loop(node)
    return clock is not None and not any(
        module.before(node, call) and module.before(call, clock) and is_model_call(module, call)
        for call in (module.within(loop, cst.Call) if loop is not None else ())
    )


def _may_be_host(module: Module, transfer: Transfer) -> bool:
    """Say whether a function moves what it is given to the device it is given, and its docstring
    says that this may be the CPU: then it copies to the host as well."""
    function = module.function(transfer.call)
    if function is None or not isinstance(transfer.target, cst.Name):
        return False
    given = {param.name.value for param in function.params.params}
    loops = [each for each in module.loops(transfer.call) if isinstance(each, cst.For)]
    from_loader = any(inferred(module, each.iter).kind == "loader" for each in loops)
    said = _HOST.search(function.get_docstring() or "") is not None
    return said and transfer.target.value in given and not from_loader


def _may_change(module: Module, transfer: Transfer) -> set[tuple[str, str]] | None:
    """Return the keys of what a copy without waiting may change, each with what is to be taken for
    granted that it does not, empty for nothing; None where what is moved may well be no tensor."""
    tensor = inferred(module, transfer.source).kind == "tensor"
    whole = not tensor and not is_part_of_batch(module, transfer.source)
    if whole and own_batches(module):
        return None
    overlap = may_overlap(module, transfer)
    proven = certainly_tensor(module, transfer.source) and not changed_torch(module)
    whys = {
        ("object", "" if whole or overlap is None else TORCH if proven else BATCHES),
        ("written", FRAMES if overlap else ""),
    }
    if transfer.dtype is not None:
        whys.add(("cast", ""))
    if transfer.device != CUDA:
        whys.add(("device", ACCELERATOR))
    return whys


def _beside(module: Module, transfer: Transfer) -> list[Transfer]:
    """Return the other moves of batches in the same statement, and in those that stand next to it
    without others between."""
    line = module.statement(transfer.call)
    before, behind = module.tree.beside(line)
    found: list[Transfer] = []
    for lines in ([line, *behind], before[::-1]):
        for moves in takewhile(bool, (_moves(module, each) for each in lines)):
            found += moves
    return [each for each in found if each.call is not transfer.call]


def _moves(module: Module, line: cst.CSTNode) -> list[Transfer]:
    if not isinstance(line, cst.SimpleStatementLine):
        return []
    calls = list(module.within(line, cst.Call))
    moves = [(call, blocking_move(module, call)) for call in calls]
    moves = [each for each in moves if each[1] is None or not unread_copy(module, each[0])]
    if not any(move is not None for _, move in moves):
        return []
    found = [_second_move(module, call) if move is None else move for call, move in moves]
    return [each for each in found if each is not None]


def _second_move(module: Module, call: cst.Call) -> Transfer | None:
    """Return the move of another tensor of the host, which stands in one statement with those of a
    batch."""
    transfer = transfer_of(module, call)
    if transfer is None or "non_blocking" in transfer.given or transfer.like:
        return None
    value = inferred(module, transfer.source)
    if value.kind != "tensor" or value.device not in (None, "cpu") or in_lightning(module, call):
        return None
    return None if changed_later(module, transfer.source) else transfer


def _pinned(module: Module, loader: cst.Call) -> list[NodeEdit]:
    """Return the edits that pin a loader's memory, where it has workers that could. A factory of
    the project may take no such argument."""
    if not makes_loader(module, loader):
        return []
    bound = arguments_of(module, loader, "torch.utils.data.DataLoader")
    workers, pin = bound.value("num_workers"), bound.value("pin_memory")
    if workers is None or is_zero(workers):
        return []
    if has_star(loader) or cuda_samples(module, loader) or expanded_in_batch(module, loader):
        return []
    value = pin_word(module, loader)
    if pin is None:
        edit = Replace(loader, with_keyword(loader, "pin_memory", value))
    elif is_name(pin, "False"):
        edit = Replace(pin, value)
    else:
        return []
    asks = isinstance(value, cst.Call)
    torch = torch_name(module)
    return [edit, NeedImport("torch", torch)] if asks else [edit]
