"""Let the tokenizer take a batch of rows: map(..., batched=True)

## Why
A fast tokenizer is written in Rust and works on many texts at once, in parallel. `map` without
`batched=True` calls it for each row alone, and pays the way from Python and back each time; the
course of Hugging Face shows the difference in a table (chapter 6, "Fast tokenizers' special
powers"). A slow tokenizer (`use_fast=False`) gains next to nothing.

Flagged: `map` on a dataset of the datasets library, without `batched=`, with a lambda or a function
of this file that calls a tokenizer on the row.

The examples need datasets and transformers and are not executed by the tests.

## Setup
```python
import torch
```

## Bad
```python
def tokenised():
    from datasets import load_dataset
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
    dataset = load_dataset("imdb")
    return dataset.map(lambda row: tokenizer(row["text"], truncation=True))
```

## Good
```python
def tokenised():
    from datasets import load_dataset
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
    dataset = load_dataset("imdb")
    return dataset.map(
        lambda row: tokenizer(row["text"], truncation=True), batched=True
    )
```

## Leave alone
A slow tokenizer takes one text at a time anyway.
```python
from datasets import load_dataset
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("bert-base-cased", use_fast=False)
dataset = load_dataset("imdb").map(lambda row: tokenizer(row["text"]))
```

`batched=` has been decided on.
```python
from datasets import load_dataset


def tokenise(tokenizer, args):
    dataset = load_dataset("imdb")
    dataset = dataset.map(lambda row: tokenizer(row["text"]), batched=args.batched)
    return dataset.map(lambda row: tokenizer(row["text"]), batched=False)
```

## Fix safety
No fix is offered: the rows and the features are the same, but the function gets a dict of lists
then, and `padding=` and `return_tensors=` shape whole batches.

## Measure
Not timed: the example needs datasets, transformers and their files. A gain is expected on any
machine, and it grows with the number of cores: a fast tokenizer works on many texts at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule, keyword_argument
from torchlint.rules.frameworks._unbatched_tokenizer_map.token_maps import token_map_of

# With these, a batch has other values, other columns or another number of rows than its rows have
# one by one.

rule = Rule(
    __name__,
    __doc__,
    code="TL909",
    message=(
        "`{tokenizer}(…)` gets one row at a time; with map(…, batched=True) a fast tokenizer "
        "works on many at once."
    ),
    severity="warning",
    default=True,
    effect="host",
    triggers=(b".map",),
    equivalence="bitwise",
)


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    found = token_map_of(module, node)
    if found is None or keyword_argument(module, node, "batched") is not None:
        return
    yield Hit(node, {"tokenizer": module.shown(found.func)})
