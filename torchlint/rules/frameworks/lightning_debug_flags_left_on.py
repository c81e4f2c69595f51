"""Switch the Trainer's debugging aids on for one run, from outside

## Why
These flags of Lightning's `Trainer` are for finding faults. `detect_anomaly=True` checks every
gradient for NaN and keeps a traceback for every forward operation (autograd docs: "should be
enabled only for debugging"). `profiler="advanced"` runs cProfile and `profiler="pytorch"` records
every operator. `fast_dev_run`, `overfit_batches` and a small `limit_train_batches` train on next to
nothing, and `num_sanity_val_steps=-1` runs the whole validation set before training starts.
`deterministic=True` takes slower kernels: worth it where the result must be repeatable.

Flagged: the flag as a literal in the call, `deterministic=True` as a hint. Read it from the command
line, and it is on only where someone asks. Silent: `deterministic=True` beside a call that always
seeds the random numbers, as Lightning's page on reproducibility has both, and what only training
heeds (`deterministic`, `detect_anomaly`, `overfit_batches`, `limit_train_batches`,
`num_sanity_val_steps`) of a Trainer that never fits a model.

The examples need Lightning and are not executed by the tests.

## Setup
```python
import torch
```

## Bad
```python
def trainer():
    from lightning.pytorch import Trainer
    from lightning.pytorch.profilers import AdvancedProfiler

    return Trainer(max_epochs=10, profiler=AdvancedProfiler(), detect_anomaly=True)
```

## Good
```python
def trainer():
    from lightning.pytorch import Trainer
    from lightning.pytorch.profilers import AdvancedProfiler

    return Trainer(max_epochs=10)
```

## Leave alone
A value from the command line or a configuration is switched on for one run.
```python
import lightning.pytorch as pl


def trainer(args):
    return pl.Trainer(profiler=args.profiler, detect_anomaly=args.debug, fast_dev_run=args.fast_dev_run)
```

What is off is off.
```python
import lightning.pytorch as pl

trainer = pl.Trainer(detect_anomaly=False, fast_dev_run=False, overfit_batches=0.0, profiler=None, deterministic=False)
```

The simple profiler only takes the time of the Trainer's own hooks.
```python
import lightning.pytorch as pl

trainer = pl.Trainer(profiler="simple")
```

## Fix safety
Unsafe: what the flag checked or reported is gone, and with the limits gone a run takes all batches.

## Measure
Not timed: the example needs Lightning and a Trainer that runs it. A gain is expected on a CPU and
on a GPU from anomaly detection and from profilers; the other flags change what is run.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Fix,
    Hit,
    Module,
    Replace,
    Rule,
    Safety,
    Severity,
    conditions_around,
    without_argument,
)
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import call_sites, reads_of
from torchlint.semantic.code.tree import attr_of, keyword_of, last_name
from torchlint.semantic.values.accelerator import TRAINERS, makes_lightning_trainer

_FLAGS = frozenset(("detect_anomaly", "fast_dev_run"))
_PROFILERS = frozenset(("advanced", "pytorch", "AdvancedProfiler", "PyTorchProfiler"))
_FEW = 10
_SMALL_SHARE = 0.1
_DEBUG = regex(
    r"(^|[_/\W])(debug\w*|smoke\w*|sanity\w*|dry_?run|quick\w*|overfit\w*|profil\w*)", re.IGNORECASE
)
_SEEDS = regex(r"^(seed_(everything|all)|manual_seed|(set|fix)(_\w+)?_seeds?)$")
_MAIN = regex(r"__name__ *== *[\"']__main__")
_OF_TRAINING = frozenset(
    """deterministic detect_anomaly overfit_batches limit_train_batches
    num_sanity_val_steps""".split()
)
_EVALUATES = frozenset(("validate", "test", "predict"))
_SLOWER = "Trainer({flag}) takes slower kernels; keep it only where the result must be repeatable."
_NOTE = "What the flag checked or reported is gone; without a limit, the run takes all batches."

rule = Rule(
    __name__,
    __doc__,
    code="TL904",
    message="Trainer({flag}) is a debugging aid that slows or truncates training.",
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"Trainer",),
    equivalence="opt-in",
)


@rule.on(cst.Call, about=makes_lightning_trainer, calls=TRAINERS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if _for_debugging(module, node):
        return
    if any(keyword_of(arg) == "barebones" for arg in node.args):
        return
    for arg in node.args:
        name = keyword_of(arg)
        if name in _OF_TRAINING and _only_evaluates(module, node):
            continue
        words = {"flag": f"{name}={module.shown(arg.value)}"}
        if name == "deterministic" and _number(arg.value) is True:
            if _is_seeded(module, node):
                continue
            yield Hit(arg.value, words, severity=Severity.INFO, message=_SLOWER)
        elif _left_on(module, name, arg.value):
            edit = Replace(node, without_argument(node, arg))
            fix = Fix((edit,), Safety.UNSAFE, "Take the flag away", _NOTE)
            yield Hit(arg.value, words, fix)


def _for_debugging(module: Module, node: cst.Call) -> bool:
    """Say whether the call stands in a file, function or branch that is there for debugging or
    profiling."""
    functions = [
        above.name.value for above in module.ancestors(node) if isinstance(above, cst.FunctionDef)
    ]
    tests = [module.source_of(test) for test, needed in conditions_around(module, node) if needed]
    return any(_DEBUG.search(text) for text in (module.filename, *functions, *tests))


def _is_seeded(module: Module, node: cst.Call) -> bool:
    """Say whether the function of a call, or the file's own level, always seeds the random numbers:
    then determinism is on for a purpose. Where two branches seed, one of them always does."""
    homes = (module.function(node), None)
    tests: set[tuple[str, bool]] = set()
    for call in module.nodes(cst.Call):
        if _SEEDS.match(last_name(call.func)) and module.function(call) in homes:
            around = [
                (module.source_of(test), needed)
                for test, needed in conditions_around(module, call)
                if not _MAIN.search(module.source_of(test))
            ]
            opposite = {(test, not needed) for test, needed in around}
            if not around or (len(around) == 1 and tests & opposite):
                return True
            tests.update(around if len(around) == 1 else ())
    return False


def _only_evaluates(module: Module, node: cst.Call) -> bool:
    """Say whether a Trainer is there to validate, test or predict, and never fits a model: also
    one that a function makes, by the callers of this file."""
    function = module.function(node)
    if not isinstance(module.parent(node), cst.Return) or function is None:
        return _evaluates(module, node)
    calls = call_sites(module, function)
    return bool(calls) and all(_evaluates(module, call) for call in calls)


def _evaluates(module: Module, node: cst.Call) -> bool:
    above = module.parent(node)
    target = above.targets[0].target if isinstance(above, cst.Assign) else None
    if not isinstance(target, cst.Name) or sole_definition(module, target) is not node:
        return attr_of(above) in _EVALUATES
    scope = module.scope(node)
    holders = [module.parent(read) for read in reads_of(module, scope, target.value)]
    used = {attr_of(each) for each in holders}
    return not _EVALUATES.isdisjoint(used) and used.isdisjoint(("", "fit", "tune"))


def _left_on(module: Module, name: str, value: cst.BaseExpression) -> bool:
    number = _number(value)
    if name in _FLAGS:
        return bool(number)
    if name == "profiler":
        text = str(value.raw_value) if isinstance(value, cst.SimpleString) else ""
        made = module.called(value)
        return text in _PROFILERS or (
            made.startswith("lightning.") and made.rpartition(".")[2] in _PROFILERS
        )
    if name == "overfit_batches":
        return number is not None and number > 0
    if name == "limit_train_batches":
        return number is not None and 0 < number <= (
            _SMALL_SHARE if isinstance(number, float) else _FEW
        )
    return name == "num_sanity_val_steps" and number == -1


def _number(value: cst.BaseExpression) -> bool | int | float | None:
    """Return a literal number or truth value."""
    match value:
        case cst.Integer() | cst.Float():
            return value.evaluated_value
        case cst.Name("True" | "False"):
            return value.value == "True"
        case cst.UnaryOperation(cst.Minus(), cst.Integer() as inner):
            return -inner.evaluated_value
    return None
