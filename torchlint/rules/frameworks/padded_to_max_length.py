"""Pad texts to the longest of their batch, not all to one length

## Why
`padding="max_length"` makes each text as long as the longest that may come, and the model computes
on the padding: a batch of texts of 40 tokens costs what one of 512 does, in attention more than
proportionally so. A collate function that pads to the longest of the batch
(`DataCollatorWithPadding`, or `tokenizer.pad(rows)`) leaves that out; where texts are long all the
same, nothing is gained. The course of Hugging Face calls it dynamic padding (chapter 3).

Flagged, as a hint: a tokenizer that pads to `max_length` in the `__getitem__` of a dataset, in a
collate function or in what `map` applies to a dataset, in a project that loads a model of
transformers.

The examples need transformers and are not executed by the tests.

## Setup
```python
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


def network():
    return AutoModelForSequenceClassification.from_pretrained("x").to("cuda")
```

## Bad
```python
class Texts(torch.utils.data.Dataset):
    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer

    def __getitem__(self, i):
        text = self.texts[i]
        return self.tokenizer(text, padding="max_length", max_length=512)
```

## Good
```python
class Texts(torch.utils.data.Dataset):
    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer

    def __getitem__(self, i):
        text = self.texts[i]
        return self.tokenizer(text, truncation=True, max_length=512)

    def collate(self, rows):
        return self.tokenizer.pad(rows, return_tensors="pt")
```

## Leave alone
A compiled model is compiled again for each new length.
```python
class Texts(torch.utils.data.Dataset):
    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer
        self.model = torch.compile(network())

    def __getitem__(self, i):
        text = self.texts[i]
        return self.tokenizer(text, padding="max_length", max_length=64)
```

One text, before the training.
```python
def prompt(tokenizer, text):
    return tokenizer(text, padding="max_length", max_length=64, return_tensors="pt")
```

## Fix safety
No fix is offered: where rows are joined changes, and sums over rows of another length may round
otherwise.

## Measure
Not timed: the example needs transformers and a model. What is gained is the share of padding in the
tokens, which the texts decide: print `attention_mask.float().mean()` of some batches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Hit, Module, Rule, keyword_argument
from torchlint.semantic.code.calls import string
from torchlint.semantic.code.named_tests import Holds
from torchlint.semantic.code.tree import last_name
from torchlint.semantic.project.asked import said_somewhere

_TOKENIZER = regex(r"(^|_)tokeni[sz]er$")
_ENCODES = ("encode", "encode_plus", "batch_encode_plus")
_MODEL = regex(r"(Model|For[A-Z])\w*\.from_pretrained\(")
_ONE_LENGTH = regex(r"diffusers|CLIP|torch\.compile|torch_xla|Conv1d|Flatten|onnx")
"""What wants texts of one length: prompts of images, compiled and exported models, heads that are
not a transformer's."""

rule = Rule(
    __name__,
    __doc__,
    code="TL912",
    message=(
        "texts of fewer than {length} tokens are padded to it, and the model computes on the "
        "padding; pad to the longest of each batch in the collate function."
    ),
    severity="info",
    default=True,
    effect="none",
    triggers=(b"max_length",),
    equivalence="opt-in",
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    func = node.func
    if isinstance(func, cst.Attribute) and func.attr.value in _ENCODES:
        func = func.value
    if not _TOKENIZER.search(last_name(func)):
        return
    padding = keyword_argument(module, node, "padding")
    length = keyword_argument(module, node, "max_length")
    if length is None or string(padding) != "max_length" or not _makes_rows(module, node):
        return
    fixed = said_somewhere(module, Holds(_ONE_LENGTH))
    if not fixed and said_somewhere(module, Holds(_MODEL)):
        yield Hit(node, {"length": module.shown(length)})


def _makes_rows(module: Module, call: cst.Call) -> bool:
    """Say whether a call stands in what gives the rows or batches of a dataset."""
    function = module.function(call)
    if not isinstance(function, cst.FunctionDef):
        return False
    name = function.name.value
    given = rf"\b(collate_fn\s*=\s*|map\(\s*(function\s*=\s*)?)(self\.)?{name}\b"
    return name == "__getitem__" or re.search(given, module.text) is not None
