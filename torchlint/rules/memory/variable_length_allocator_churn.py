"""Keep the shapes of padded batches few, so that cached memory fits again

## Why
The caching allocator hands out blocks that were freed before, if one of a fitting size is there.
Batches padded to their own longest sample have another size every time, so blocks that are a little
too small pile up; when memory runs out the allocator frees them all and asks the driver again,
which waits for the device. The performance tuning guide of PyTorch has a section on it,
"Preallocate memory in case of variable input length"; the notes on CUDA semantics describe
`expandable_segments:True` (experimental) for changing sizes, set by `PYTORCH_ALLOC_CONF`
(`PYTORCH_CUDA_ALLOC_CONF` is the older name for it). Lengths rounded up to a multiple, batches of
similar lengths, or one step with the longest possible batch at the start help too.

Flagged: `pad_sequence()`, or `padding=True` and `padding="longest"` without `pad_to_multiple_of=`,
in a collate function of a file that trains on CUDA and mentions neither the allocator's settings
nor buckets of lengths.

## Setup
```python
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Embedding(100, 1, padding_idx=0).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
texts = [torch.arange(1, 1 + length) for length in (3, 9, 5, 7)]


def train(loader, place):
    for tokens in loader:
        optimizer.zero_grad()
        model(tokens.to(place)).sum().backward()
        optimizer.step()
```

## Bad
```python
def collate(samples):
    return pad_sequence(samples, batch_first=True)


train(DataLoader(texts, batch_size=2, collate_fn=collate), device)
```

## Good
```python
def collate(samples):
    longest = max(len(sample) for sample in samples)
    batch = samples[0].new_zeros(len(samples), -(-longest // 64) * 64)
    for row, sample in zip(batch, samples):
        row[: len(sample)] = sample
    return batch


train(DataLoader(texts, batch_size=2, collate_fn=collate), device)
```

## Leave alone
Lengths rounded up to a multiple.
```python
def rounded(tokenizer):
    def collate(samples):
        return tokenizer(samples, padding=True, pad_to_multiple_of=64, return_tensors="pt")

    train(DataLoader(texts, batch_size=2, collate_fn=collate), device)
```

Batches of similar lengths.
```python
def bucketed(bucket_sampler):
    def collate(samples):
        return pad_sequence(samples, batch_first=True)

    train(DataLoader(texts, batch_sampler=bucket_sampler, collate_fn=collate), device)
```

## Fix safety
No fix: more padding costs compute, and the setting of the allocator belongs to the environment.

## Measure
Not timed: blocks that fit nothing cost time only where a GPU's memory runs short, and the wider
padding costs some.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, inferred, keyword_argument
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.data.loaders import batches_go_to, loader_feeds
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.values.value import ACCEL, CUDA

_PAD = "torch.nn.utils.rnn.pad_sequence"
_COLLATE = regex(r"collat", re.IGNORECASE)
_HANDLED = regex(
    r"PYTORCH_(CUDA_)?ALLOC_CONF|bucket|group_by_length|length_group|grouped_by|pack_padded"
    r"|pack_sequence|varlen|cu_seqlens|"
    r"flash_attn|pad_to_multiple|dynamic\s*=\s*False",
    re.IGNORECASE,
)

rule = Rule(
    __name__,
    __doc__,
    code="TL703",
    message=(
        "batches are padded to a varying length; bucket lengths, pad to a multiple, or set "
        "expandable_segments:True."
    ),
    severity="info",
    default=False,
    effect="memory",
    triggers=(b"pad_sequence", b"padding"),
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if not (module.name(node.func) == _PAD or _longest(module, node)) or mentions(module, _HANDLED):
        return
    if not _collates(module, node) or _only_evaluates(module, node):
        return
    loops = module.nodes(cst.For, cst.While)
    if batches_go_to(module) in (CUDA, ACCEL) and any(
        loop_kind(module, loop) is LoopKind.TRAIN for loop in loops
    ):
        yield Hit(node)


def _longest(module: Module, node: cst.Call) -> bool:
    """Say whether a call asks a tokenizer to pad to the longest sample of its batch."""
    padding = keyword_argument(module, node, "padding")
    if isinstance(padding, cst.SimpleString):
        return padding.raw_value == "longest"
    return is_name(padding, "True")


def _collates(module: Module, node: cst.Call) -> bool:
    """Say whether a call stands in a collate function: by its name, its class's, or because a
    loader is given it."""
    function, cls = module.function(node), module.class_of(node)
    if function is None:
        return False
    if _COLLATE.search(function.name.value) or (
        cls is not None and _COLLATE.search(cls.name.value)
    ):
        return True
    return bool(_loaders_with(module, function))


def _loaders_with(module: Module, function: cst.FunctionDef) -> list[cst.Call]:
    """Return the calls, of loaders as a rule, that take a function as ``collate_fn=``."""
    calls = [
        (call, keyword_argument(module, call, "collate_fn")) for call in module.nodes(cst.Call)
    ]
    return [
        call
        for call, given in calls
        if given is not None and inferred(module, given).node is function
    ]


def _only_evaluates(module: Module, node: cst.Call) -> bool:
    """Say whether all loaders that pad their batches here feed an evaluation."""
    function = module.function(node)
    fed = {
        loader_feeds(module, loader)
        for loader in (_loaders_with(module, function) if function is not None else ())
    }
    return fed == {"eval"}
