"""Reduce logits batch by batch where the Trainer's metrics read classes

## Why
With `compute_metrics=` the transformers Trainer keeps the logits of the whole evaluation, examples
× positions × vocabulary, to hand them over at once, and on the device: "If left unset, the whole
predictions are accumulated on the device accelerator before being moved to the CPU (faster but
requires more memory)" (`TrainingArguments`, of `eval_accumulation_steps`). A metric that takes the
largest logit of each position needs one number in place of a vocabulary.
`preprocess_logits_for_metrics=` is called with the logits of each batch, so that only the numbers
are kept.

Flagged: a Trainer for language models (a head as wide as the vocabulary) whose `compute_metrics`
reads nothing of the logits but their `argmax`, in a file that evaluates and names none of
`preprocess_logits_for_metrics`, `eval_accumulation_steps`, `batch_eval_metrics` and
`predict_with_generate`.

The examples need transformers and are not executed by the tests.

## Setup
```python
import numpy as np
```

## Bad
```python
def score(output):
    logits, labels = output
    return {"accuracy": np.mean(np.argmax(logits, axis=-1) == labels)}


def train(rows, held_out):
    from transformers import AutoModelForMaskedLM, Trainer

    model = AutoModelForMaskedLM.from_pretrained("bert-base-cased")
    trainer = Trainer(model, train_dataset=rows, eval_dataset=held_out, compute_metrics=score)
    trainer.train()
    return trainer.evaluate()
```

## Good
```python
def score(output):
    logits, labels = output
    return {"accuracy": np.mean(logits == labels)}


def train(rows, held_out):
    from transformers import AutoModelForMaskedLM, Trainer

    model = AutoModelForMaskedLM.from_pretrained("bert-base-cased")
    trainer = Trainer(
        model,
        train_dataset=rows,
        eval_dataset=held_out,
        compute_metrics=score,
        preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1),
    )
    trainer.train()
    return trainer.evaluate()
```

## Leave alone
The metric reads probabilities, too.
```python
def score(output):
    logits, labels = output
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return {"accuracy": (logits.argmax(-1) == labels).mean(), "sure": chances.max(-1).mean()}


def train(rows, held_out):
    from transformers import AutoModelForMaskedLM, Trainer

    model = AutoModelForMaskedLM.from_pretrained("bert-base-cased")
    Trainer(model, train_dataset=rows, eval_dataset=held_out, compute_metrics=score).evaluate()
```

Two logits for each text are no burden.
```python
def score(output):
    logits, labels = output
    return {"accuracy": (logits.argmax(-1) == labels).mean()}


def train(rows, held_out):
    from transformers import AutoModelForSequenceClassification, Trainer

    model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
    Trainer(model, train_dataset=rows, eval_dataset=held_out, compute_metrics=score).evaluate()
```

## Fix safety
No fix is offered: what else reads the predictions, such as `trainer.predict()`, gets classes in
place of logits. A model that returns more than logits hands over a tuple, of which the first is
meant; then `logits[0].argmax(-1)` is right.

## Measure
Not timed: the example needs transformers and a model. What is kept shrinks by the number of words
in the vocabulary: 1,000 texts of 256 positions and 32,000 words in float32 take 33 GB, their
classes 2 MB.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Hit,
    Module,
    Rule,
    inferred,
    keyword_argument,
)
from torchlint.semantic.code.reaching import readers_of, uses_of
from torchlint.semantic.code.scopes import local_class, scopes
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import has_star, is_name, positional, positional_parameters
from torchlint.semantic.question import question
from torchlint.semantic.values import library

_TRAINER = "transformers.Trainer"
_VOCABULARY = regex(
    r"For(CausalLM|MaskedLM|Seq2SeqLM|ConditionalGeneration|PreTraining)\b|LMHead(Model)?\b"
)
"""Heads of transformers that give a logit for each word of the vocabulary."""
_NARROW = regex(
    r"For(\w*Classification|\w*Detection|QuestionAnswering|MultipleChoice|NextSentence\w*|CTC)\b"
)
"""Other heads; where a file has both, it is not known which one is trained."""
_SAID = regex(
    r"preprocess_logits_for_metrics|eval_accumulation_steps|batch_eval_metrics"
    r"|predict_with_generate|prediction_loss_only|eval_do_concat_batches|HfArgumentParser"
)
"""What keeps the logits elsewhere, or may come from a command line."""
_EVALUATES = regex(r"\.evaluate\(|\.predict\(|eval(uation)?_strategy\s*=\s*(?![\"']no[\"'])")
_OVERRIDES = ("prediction_step", "evaluation_loop", "evaluate")
_FUNCTIONS = ("numpy.argmax", "torch.argmax")

rule = Rule(
    __name__,
    __doc__,
    code="TL910",
    message=(
        "{metrics} reads only the argmax, but the Trainer keeps all logits of the evaluation on the"
        " GPU until it ends."
    ),
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"compute_metrics",),
    equivalence="opt-in",
)


@rule.on(cst.Call, about=lambda module, node: keyword_argument(module, node, "compute_metrics"))
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if has_star(node) or not _is_trainer(module, node):
        return
    if mentions(module, _SAID) or mentions(module, _NARROW):
        return
    if not mentions(module, _VOCABULARY) or not mentions(module, _EVALUATES):
        return
    given = keyword_argument(module, node, "compute_metrics")
    metrics = inferred(module, given).node if given is not None else None
    if given is None or not isinstance(metrics, cst.FunctionDef):
        return
    if _reads_classes(module, metrics):
        yield Hit(given, {"metrics": metrics.name.value})


def _is_trainer(module: Module, node: cst.Call) -> bool:
    """Say whether a call makes a Trainer of transformers, or of a class of this file that evaluates
    as it does."""
    cls = local_class(module, node.func)
    if cls is None:
        return library.makes(module, module.name(node.func), _TRAINER)
    family = [cls, *scopes(module).lineage(cls)]
    own = any(scopes(module).own_method(each, name) for each in family for name in _OVERRIDES)
    bases = {name for each in family for name in scopes(module).base_names(each)}
    return not own and any(library.makes(module, name, _TRAINER) for name in bases)


def _reads_classes(module: Module, metrics: cst.FunctionDef) -> bool:
    """Say whether a function of metrics reads the ``argmax`` of all logits, and nothing else of
    them."""
    params = positional_parameters(metrics)
    count = 0
    for use in readers_of(module, metrics, params[0].name.value) if params else ():
        above = module.parent(use)
        match above:
            case cst.Assign([cst.AssignTarget(cst.Tuple([first, _]))]) if isinstance(
                first.value, cst.Name
            ):
                reads: list[cst.CSTNode] = list(readers_of(module, above, first.value.value))
            case cst.Attribute(attr=cst.Name("predictions")) | cst.Subscript() if _is_first(above):
                reads = list(uses_of(module, above))
            case cst.Attribute(attr=cst.Name("label_ids" | "inputs")) | cst.Subscript():
                continue
            case _:
                return False
        for read in reads:
            calls = _argmax(module, read)
            if calls is None:
                return False
            count += calls
    return count > 0


def _is_first(node: cst.BaseExpression) -> bool:
    """Say whether an expression is ``output.predictions`` or ``output[0]``."""
    match node:
        case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(cst.Integer("0")))]):
            return True
    return isinstance(node, cst.Attribute)


@question()
def _argmax(module: Module, read: cst.CSTNode) -> int | None:
    """Return how many calls take the largest logit over the last axis; None where anything else
    reads the logits or a part of them."""
    above = module.parent(read)
    whole: cst.CSTNode | None = None
    match above:
        case cst.Attribute(attr=cst.Name("shape")):
            return 0
        case cst.Subscript() | cst.IfExp():
            whole = above
        case cst.Attribute(attr=cst.Name("argmax")):
            call = module.parent(above)
            return 1 if isinstance(call, cst.Call) and _is_last(module, call, 0) else None
        case cst.Arg():
            call = module.parent(above)
            name = module.name(call.func) if isinstance(call, cst.Call) else None
            if not isinstance(call, cst.Call) or call.args[0] is not above:
                return None
            if name in _FUNCTIONS:
                return 1 if _is_last(module, call, 1) else None
            if is_name(call.func, "isinstance"):
                return 0
            whole = call if name in ("torch.tensor", "torch.from_numpy") else None
    uses = uses_of(module, whole) if whole is not None else []
    found = [_argmax(module, use) for use in uses]
    known = [each for each in found if each is not None]
    return sum(known) if known and len(known) == len(found) else None


def _is_last(module: Module, call: cst.Call, at: int) -> bool:
    """Say whether an ``argmax`` is told the last axis."""
    plain = positional(call)
    given = [keyword_argument(module, call, name) for name in ("axis", "dim")]
    axes = [*plain[at : at + 1], *(each for each in given if each is not None)]
    return len(axes) == 1 and module.source_of(axes[0]) in ("-1", "2")
