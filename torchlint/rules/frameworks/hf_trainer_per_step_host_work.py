"""Let the transformers Trainer log and gather less often than every step

## Why
With `logging_steps=1` the Trainer gathers the loss over all processes, reads it with `.item()` and
calls every logging callback on each step, where the default is every 500 (`TrainingArguments`,
source of `_maybe_log_save_evaluate`). The read waits until the GPU has done all that is queued.
`eval_accumulation_steps=1` copies the logits of every evaluation batch to the host.
`logging_nan_inf_filter`, on by default, costs a look at the loss on every step as well; with False
the logs show a NaN as a NaN, and nothing else changes.

Flagged: `logging_steps=1` or `eval_accumulation_steps=1` as a literal in `TrainingArguments(...)`.
`torch_empty_cache_steps=1` is a finding of `empty-cache-in-loop`.

The examples need transformers and are not executed by the tests.

## Setup
```python
import torch
```

## Bad
```python
def arguments():
    from transformers import TrainingArguments

    return TrainingArguments("out", logging_steps=1)
```

## Good
```python
def arguments():
    from transformers import TrainingArguments

    return TrainingArguments("out", logging_steps=50)
```

## Leave alone
At an interval, or as the command line has it.
```python
from transformers import TrainingArguments


def arguments(args):
    return TrainingArguments("out", logging_steps=args.logging_steps, eval_accumulation_steps=10)
```

Once per epoch, or never: then the number of steps is not read.
```python
from transformers import TrainingArguments

arguments = TrainingArguments("out", logging_strategy="epoch", logging_steps=1)
```

A smoke run of a few steps wants to see each.
```python
from transformers import TrainingArguments

arguments = TrainingArguments("out", max_steps=20, logging_steps=1)
```

## Fix safety
Unsafe: there are fewer lines in the log, and what a dashboard or an early stop reads comes later.
Gathering evaluation logits on the GPU for more batches needs more of its memory.

## Measure
Not timed: the example needs transformers and a Trainer that runs it. A gain is expected on a CPU
from the calls of logging callbacks, and more on a GPU, where each log waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, Replace, Rule, Safety, keyword_argument
from torchlint.semantic.data.frameworks import ARGUMENTS, makes_training_arguments

_BETTER = {"logging_steps": "50", "eval_accumulation_steps": "20"}
_SMOKE = 100
_NOTES = {
    "logging_steps": "There are fewer lines in the log, and what reads it sees a value later.",
    "eval_accumulation_steps": "The logits of more batches stay on the GPU, which needs memory.",
}

rule = Rule(
    __name__,
    __doc__,
    code="TL908",
    message="{field}=1 makes the Trainer wait for the GPU and work on the host on every step.",
    severity="info",
    default=True,
    effect="none",
    triggers=(b"logging_steps", b"eval_accumulation_steps"),
    equivalence="opt-in",
)


@rule.on(cst.Call, about=makes_training_arguments, calls=ARGUMENTS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    steps = keyword_argument(module, node, "max_steps")
    strategy = keyword_argument(module, node, "logging_strategy")
    if isinstance(steps, cst.Integer) and steps.evaluated_value <= _SMOKE:
        return
    for field, better in _BETTER.items():
        value = keyword_argument(module, node, field)
        if not isinstance(value, cst.Integer) or value.evaluated_value != 1:
            continue
        if (
            field == "logging_steps"
            and isinstance(strategy, cst.SimpleString)
            and strategy.raw_value != "steps"
        ):
            continue
        edits = (Replace(value, cst.Integer(better)),)
        yield Hit(
            value,
            {"field": field},
            Fix(edits, Safety.UNSAFE, "Take a larger interval", _NOTES[field]),
        )
