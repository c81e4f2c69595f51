"""Load batches in worker processes

## Why
With `num_workers=0`, the default, `next()` on the loader reads, decodes and collates the batch in
the training process, while the GPU has nothing to do. PyTorch's performance tuning guide ("Enable
asynchronous data loading and augmentation") and the profiler's pattern
`SynchronizedDataLoaderPattern` name it. Without `pin_memory` the copy to the GPU cannot be
asynchronous either, whatever `non_blocking` says.

Flagged: a loader without workers whose samples are read, decoded, tokenised, augmented or masked by
a draw for each token, as a warning where it feeds a training loop or is shuffled, as a hint
elsewhere and for held-out data; samples of unknown cost are a hint where a training or evaluation
loop moves the batches or Lightning does. Loaders of torch_geometric, which join graphs to batches
in Python, count as costly. A single worker for such samples, and a literal number of workers per
GPU, are hints as well.
What `**settings` gives counts where that is a dict which is written out and only handed to calls.
Silent in a program that trains on the CPU alone, where a comment at the loader says what speaks
against workers, for an evaluation also one at another loader of the project, and where a loader for
evaluation is made by scripts without a `__main__` guard, in a project with paths of Windows:
workers raise there.

## Setup
```python
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
root = Path(tempfile.mkdtemp())
for index in range(16):
    np.save(root / f"{index}.npy", np.ones(8, dtype=np.float32))


class Files(Dataset):
    def __init__(self, root):
        self.paths = sorted(root.glob("*.npy"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.from_numpy(np.load(self.paths[index]))


def train(loader):
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        x = x.to(device)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
```

## Bad
```python
if __name__ == "__main__":
    train(DataLoader(Files(root), batch_size=4, shuffle=True))
```

## Good
```python
if __name__ == "__main__":
    train(
        DataLoader(
            Files(root),
            batch_size=4,
            shuffle=True,
            num_workers=4,
            pin_memory=torch.cuda.is_available(),
        )
    )
```

## Leave alone
Data already in memory: workers only add a copy between processes.
```python
train(DataLoader(TensorDataset(torch.ones(16, 8)), batch_size=4, shuffle=True))
```

The number of workers is the caller's choice.
```python
def make(args, **options):
    first = DataLoader(Files(root), batch_size=4, num_workers=args.workers)
    return first, DataLoader(Files(root), batch_size=4, **options)
```

A loop without a model, such as one that computes statistics once.
```python
total = 0.0
for x in DataLoader(Files(root), batch_size=4, shuffle=True):
    total += float(x.mean())
```

## Fix safety
Unsafe: random transforms draw from the workers' seeds, so samples differ. Memory grows with each
worker, what the dataset stores in itself stays in the worker, and where processes are spawned or
come from a fork server (Windows, macOS, Python 3.14) the script needs a `__main__` guard. The same
fix pins the memory of a loader that feeds an accelerator, and keeps the workers of one that is
iterated in each epoch: such a loader seeds its workers once, and from the second epoch on the order
of its shuffle and the main generator differ, which stay the same otherwise. The number of workers
is that of another loader, or the file's own option or constant; else four, a start from which to
measure. The fix is a suggestion where a loop makes the loader, whose workers start anew in
each iteration, where a script of Windows has no guard, where another file asks a configuration for
the number, where the dataset keeps a file open or draws from a generator that it keeps (masks of
tokens would repeat in each epoch), and where a lambda or a local function is among what workers
get, or a caller that is not in view may give one, as those of a package's function that no file of
the project calls: spawned processes and those of a fork server (Linux from Python 3.14 on) need
what can be pickled. There is none where the file reads what the dataset stored in itself.

## Measure
Not timed: the gain depends on the cost of a sample and of a step, on the storage, and on the number
of cores. In an example that ends quickly, the start of the workers outweighs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Fix,
    Hit,
    Module,
    NeedImport,
    Replace,
    Rule,
    Safety,
    Severity,
    arguments_of,
    conditions_around,
    inferred,
    one_sentence,
    with_keyword,
)
from torchlint.semantic.code.debug_flags import is_debug
from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.code.text import explained, has_main_guard
from torchlint.semantic.code.tree import components, is_name, is_zero, targets_of
from torchlint.semantic.data.datasets import (
    cuda_samples,
    keeps_generator,
    sample_cost,
    streams_samples,
)
from torchlint.semantic.data.expanded import expanded_in_batch
from torchlint.semantic.data.loader_calls import held_out, makes_loader, never_read, pins_memory
from torchlint.semantic.data.loader_flow import gives_one_batch, loader_loops
from torchlint.semantic.data.loader_settings import (
    is_zero_unless_given,
    lacks_pinning,
    pin_word,
    restarts_workers,
    spawned_unguarded,
    workers_word,
)
from torchlint.semantic.data.loaders import loader_feeds, moves_batches
from torchlint.semantic.data.pickling import pickled
from torchlint.semantic.time.entry_points import called_out_of_view
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.accelerator import stays_on_host, trains_on_cpu
from torchlint.semantic.values.apple import only_apple
from torchlint.semantic.values.classes import in_lightning
from torchlint.semantic.values.kept import MUTATORS

_LOADER = "torch.utils.data.DataLoader"
_TRYOUT = regex(r"overfit|debug|sanity|smoke|TYPE_CHECKING", re.IGNORECASE)
_PIN = " It does not pin memory either: with workers, set pin_memory=True too."
_PIN_COPIED = (
    " It does not pin memory either: with workers, copy what is expanded in its batches "
    "(.contiguous()), and set pin_memory=True too."
)
_SPOKEN = regex(
    r"\b(single|one|main|same)[- ]?process\b|multi-?process|dead-?lock|\bhangs?\b|pickl|\bfork"
    r"|thread-?safe|\b(on|for|under) (windows|mac ?os)\b"
    r"|^(?!.*\b(todo|fixme)\b)(?=.*\bworkers?\b|.*\bnum_workers\b)(?=.*\b(must|needs?|needed|because"
    r"|cannot|can't|won't|doesn't|not work|breaks?|fails?|crash\w*|errors?|bugs?|windows|otherwise"
    r"|avoids?|leaks?)\b)",
    re.IGNORECASE,
)
"""What a comment says that gives a reason for no workers."""
_REFUSED = regex(r"\bnum_workers\s*=\s*0\b[^#\n]*#(.*)")
_READ = (
    " The dataset keeps what the main process reads later: with workers it has to come with the "
    "batches."
)
_ALONE = (
    "one worker makes all batches: where reading and decoding take longer than a step, the GPU "
    "waits for it; try several."
)
_PER_GPU = (
    "workers per GPU is folklore: what helps depends on CPU cores and the cost of a "
    "sample, so measure."
)
_NOTE = "Random transforms draw from the workers' seeds, and each worker takes memory."
_SPAWNED = (
    "Where processes are spawned or come from a fork server (Windows, macOS, Python 3.14) the "
    "script needs a __main__ guard."
)
_PICKLED = (
    "Where processes are spawned or come from a fork server (Windows, macOS, Python 3.14) a lambda "
    "or a local function that the loader is given cannot be sent."
)
_CHOSEN = (
    "A caller may give a lambda or a local function, which cannot be sent where processes are "
    "spawned or come from a fork server (Windows, macOS, Python 3.14)."
)
_CALLERS = 3
_STORED = "What the dataset stores in itself while it is read stays in the worker."
_ANEW = (
    "A loop makes the loader, so that the workers start anew in each iteration, which takes a "
    "while."
)
_IDLE = "`{word}` is 0 unless it is given, as now: give it, or change its default."
_START = "4 is only a start to tune from."
_SETTING = "The project has a setting for the number of workers: take that."
_SETS = regex(r"[\"']num_workers[\"']|\.num_workers\b")
_PINNED = "Each batch takes memory that cannot be swapped out."
_KEPT = (
    "The workers stay between the epochs, with the memory that they take, and the loader seeds them"
    " once: from the second epoch on the shuffled order and what the main process draws on the CPU"
    " differ."
)
_DRAWN = (
    "Workers must not draw from copies of the generator that the dataset keeps, which start alike"
    " in each, and again in each epoch: seed it in worker_init_fn."
)
_OPEN = "Workers must not share the open file that the dataset keeps."
_HANDLES = regex(
    r"builtins\.open$|h5py\.File$|lmdb\.open$|zipfile\.ZipFile$|tarfile\.open$|sqlite3\.connect$"
    r"|tables\.open_file$|io\.open$"
)
"""What gives a handle with a place of its own in a file, which forked processes share."""

rule = Rule(
    __name__,
    __doc__,
    code="TL201",
    message=(
        "{role} loads in the main process (num_workers=0); batches are prepared while the "
        "GPU waits.{pin}"
    ),
    severity="warning",
    default=True,
    effect="loader",
    triggers=(b"DataLoader", b"utils.data", b"torch_geometric"),
    equivalence="rng",
)


@rule.on(cst.Call, about=makes_loader)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if never_read(module, node):
        return
    bound = arguments_of(module, node, _LOADER)
    workers, dataset = bound.value("num_workers"), bound.value("dataset")
    if _per_gpu(module, workers):
        if not gives_one_batch(module, node):
            yield Hit(node, message=_PER_GPU, severity=Severity.INFO)
        return
    if isinstance(workers, cst.Integer) and int(workers.value, 0) == 1:
        if _severity(module, node) is not None and sample_cost(module, node):
            yield Hit(node, message=_ALONE, severity=Severity.INFO)
        return
    if (
        bound.open
        or not (workers is None or is_zero(workers))
        or _is_chosen(module, node, workers)
        or gives_one_batch(module, node)
        or explained(module, node, _SPOKEN)
    ):
        return
    on_host = stays_on_host(module) or trains_on_cpu(module)
    severity = _severity(module, node) if not on_host else None
    if (
        severity is None
        or (dataset is not None and streams_samples(module, dataset))
        or cuda_samples(module, node)
    ):
        return
    train = loader_feeds(module, node) == "train" and not held_out(module, node)
    shuffled = severity is Severity.WARNING
    if not (train or shuffled) and (
        spawned_unguarded(module, node) or (workers is not None and _kept_at_none(module))
    ):
        return
    role = "training DataLoader" if train else "DataLoader"
    if _is_read_later(module, dataset):
        yield Hit(node, {"role": role, "pin": _READ}, severity=Severity.INFO)
        return
    words = {"role": role, "pin": _pin(module, node)}
    yield Hit(node, words, _fix(module, node, dataset), severity)


def _pin(module: Module, node: cst.Call) -> str:
    if pins_memory(module, node) is not False or only_apple(module):
        return ""
    return _PIN if expanded_in_batch(module, node) is None else _PIN_COPIED


def _fix(module: Module, node: cst.Call, dataset: cst.BaseExpression | None) -> Fix:
    """Return the fix, with all that workers change for this dataset, and what they need."""
    notes = [_NOTE, "" if has_main_guard(module) else _SPAWNED]
    safety = Safety.UNSAFE
    sent = pickled(module, node)
    if sent is not True:
        safety = Safety.SUGGESTION
        notes.append(_PICKLED if sent is False else _CHOSEN)
    elif called_out_of_view(module, node, callers=_CALLERS):
        safety = Safety.SUGGESTION
        notes.append(_CHOSEN)
    elif spawned_unguarded(module, node):
        safety = Safety.SUGGESTION
    if dataset is not None and _stored(module, dataset):
        notes.append(_STORED)
    if dataset is not None and keeps_generator(module, dataset):
        safety = Safety.SUGGESTION
        notes.append(_DRAWN)
    if dataset is not None and _keeps_open(module, dataset):
        safety = Safety.SUGGESTION
        notes.append(_OPEN)
    if _made_anew(module, node):
        safety = Safety.SUGGESTION
        notes.append(_ANEW)
    changes = _changes(module, node, notes)
    if _START in notes and (
        _sets_workers(module.text)
        or module.outside.others_say(_sets_workers, by_place=True) is True
    ):
        safety = Safety.SUGGESTION
        notes.append(_SETTING)
    bound = arguments_of(module, node, _LOADER)
    given = {id(bound.value(name)): value for name, value in changes.items()}
    args = [arg.with_changes(value=given.get(id(arg.value), arg.value)) for arg in node.args]
    new = node.with_changes(args=args)
    elsewhere = []  # ``**settings``
    for name, value in changes.items():
        written = bound.value(name)
        if written is None:
            new = with_keyword(new, name, value)
        elif not module.is_within(written, node):
            elsewhere.append(Replace(written, value))
    torch = torch_name(module)
    asks = isinstance(changes.get("pin_memory"), cst.Call)
    edits = (Replace(node, new), *elsewhere, *((NeedImport("torch", torch),) if asks else ()))
    return Fix(edits, safety, "Load with worker processes", one_sentence(notes))


def _changes(module: Module, node: cst.Call, notes: list[str]) -> dict[str, cst.BaseExpression]:
    """Return the settings that go with workers, in the file's own words where it has some; what
    they change is added to the notes."""
    word = workers_word(module, node)
    workers = word or cst.Integer("4")
    if word is None:
        notes.append(_START)
    elif is_zero_unless_given(module, word):
        notes.append(_IDLE.format(word=module.root.code_for_node(word)))
    changes: dict[str, cst.BaseExpression] = {"num_workers": workers}
    if lacks_pinning(module, node) and expanded_in_batch(module, node) is None:
        changes["pin_memory"] = pin_word(module, node)
        notes.append(_PINNED)
    if restarts_workers(module, node):
        some = isinstance(workers, cst.Integer)
        code = "True" if some else f"{module.root.code_for_node(workers)} > 0"
        changes["persistent_workers"] = cst.parse_expression(code)
        notes.append(_KEPT)
    return changes


def _sets_workers(text: str) -> bool:
    """Say whether a file asks something for the number of workers, as a configuration."""
    return "num_workers" in text and _SETS.search(text) is not None


def _made_anew(module: Module, node: cst.Call) -> bool:
    """Say whether a loop makes the loader, or calls in each epoch the function that makes it."""
    function = module.function(node)
    sites = call_sites(module, function) if function is not None else []
    return bool(module.loops(node)) or any(
        loop_kind(module, loop) is LoopKind.EPOCH for site in sites for loop in module.loops(site)
    )


def _method(
    module: Module, dataset: cst.BaseExpression, name: str
) -> tuple[Module, cst.FunctionDef] | None:
    return definitions_behind.method(module, inferred(module, dataset), name)


def _kept_at_none(module: Module) -> bool:
    """Say whether a comment at a loader of the project gives a reason for no workers."""
    return _refuses_workers(module.text) or (
        module.outside.others_say(_refuses_workers, anywhere=True) is True
    )


def _refuses_workers(text: str) -> bool:
    return any(_SPOKEN.search(said) for said in _REFUSED.findall(text))


def _is_read_later(module: Module, dataset: cst.BaseExpression | None) -> bool:
    """Say whether what the dataset keeps as it is read is read by the code around the loader."""
    stored = _stored(module, dataset) if dataset is not None else frozenset()
    asked = module.nodes(cst.Attribute)
    return any(each.attr.value in stored and _of_dataset(module, each.value) for each in asked)


def _of_dataset(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression outside of a class is a dataset: that of a loader, or one with
    samples of its own."""
    if isinstance(node, cst.Attribute):
        return node.attr.value == "dataset"
    return module.source_of(node) != "self" and _method(module, node, "__getitem__") is not None


def _stored(module: Module, dataset: cst.BaseExpression) -> frozenset[str]:
    """Return the attributes of the dataset to which reading a sample writes: a cache, a counter."""
    found = _method(module, dataset, "__getitem__")
    if found is None:
        return frozenset()
    where, method = found
    changes = where.within(method, cst.Assign, cst.AugAssign)
    targets = [target for each in changes for target in targets_of(each)]
    targets += [
        call.func.value
        for call in where.within(method, cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in MUTATORS
    ]
    return frozenset(
        text.split(".")[1].partition("[")[0]
        for text in map(where.source_of, targets)
        if text.startswith("self.")
    )


def _keeps_open(module: Module, dataset: cst.BaseExpression) -> bool:
    """Say whether a dataset opens a file when it is made, and keeps it: all workers would move in
    it."""
    found = _method(module, dataset, "__init__")
    if found is None:
        return False
    where, method = found
    for assign in where.within(method, cst.Assign):
        kept = where.source_of(assign.targets[0].target)
        if isinstance(assign.value, cst.Call) and kept.startswith("self."):
            name = where.called(assign.value)
            # An archive of NumPy's stays open, and knows its files; an array does neither.
            if _HANDLES.match(name) or (name == "numpy.load" and f"{kept}.files" in where.text):
                return True
    return False


def _per_gpu(module: Module, workers: cst.BaseExpression | None) -> bool:
    """Say whether the number of workers is a literal times the number of GPUs."""
    match workers:
        case cst.BinaryOperation(left, cst.Multiply(), right):
            sides = (left, right)
            counts = [s for s in sides if module.called(s) == "torch.cuda.device_count"]
            return bool(counts) and any(isinstance(s, cst.Integer) for s in sides)
    return False


def _severity(module: Module, node: cst.Call) -> Severity | None:
    """Return how sure it is that workers help: costly samples in training, elsewhere, or samples of
    unknown cost."""
    cost, feeds = sample_cost(module, node), loader_feeds(module, node)
    if cost is False or feeds == "other":
        return None
    shuffled = arguments_of(module, node, _LOADER).value("shuffle")
    trains = (feeds == "train" and not held_out(module, node)) or (
        feeds == "unseen" and is_name(shuffled, "True")
    )
    if cost:
        return Severity.WARNING if trains else Severity.INFO
    moved = any(moves_batches(module, loop) for loop in loader_loops(module, node))
    fed = feeds in ("train", "eval") and moved
    return Severity.INFO if fed or in_lightning(module, node) else None


def _is_chosen(module: Module, node: cst.Call, workers: cst.BaseExpression | None) -> bool:
    """Say whether the main process is chosen on purpose: for a try-out, or as one branch of a
    condition; that there is something to load is none."""
    tests = [test for test, _ in conditions_around(module, node)]
    if any(is_debug(module, test) or _TRYOUT.search(module.source_of(test)) for test in tests):
        return True
    function = module.function(node)
    if function is not None and _TRYOUT.search(function.name.value):
        return True
    branches = any(not _is_given(test) for test in tests)
    return workers is not None and branches and function is not None


def _is_given(test: cst.BaseExpression) -> bool:
    """Say whether a test only asks whether something is there: ``val_images is not None``."""
    return all(
        isinstance(each, cst.Comparison)
        and len(each.comparisons) == 1
        and is_name(each.comparisons[0].comparator, "None")
        for each in components(test, cst.BooleanOperation)
    )
