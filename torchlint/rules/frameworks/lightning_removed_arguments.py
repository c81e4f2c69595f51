"""Pass the Trainer what Lightning 2 understands

## Why
The `Trainer` of Lightning 2 has lost arguments that 1.x had deprecated (its migration guide): with
`gpus=`, `distributed_backend=`, `replace_sampler_ddp=` and the like, or `profile=` for `profiler=`,
the call raises a `TypeError` ("unexpected keyword argument"), and with `strategy="dp"` or
`accelerator="ddp"` a `ValueError`. The features moved: devices are counted by `devices=`, the way
of parallel training is the `strategy=`, a profiler is named, and checkpoints, early stopping and
progress bars are callbacks. `enable_checkpointing=` takes a truth value and passes over a callback
in silence. `precision=16` is still accepted with a warning.

Flagged: a literal keyword of that kind in a call of Lightning's `Trainer`. It is an error where the
file imports `lightning`, and a warning where it imports `pytorch_lightning`, which may be installed
in version 1; a project whose dependencies keep it below version 2 (`pytorch-lightning<2`) is left
alone. Where the value asks for what Lightning 2 does anyway, `auto_lr_find=False`, the argument is
left out.

The examples need Lightning and are not executed by the tests.

## Setup
```python
import torch
```

## Bad
```python
def trainer():
    import lightning.pytorch as pl

    return pl.Trainer(gpus=8, distributed_backend="ddp")
```

## Good
```python
def trainer():
    import lightning.pytorch as pl

    return pl.Trainer(accelerator="gpu", devices=8, strategy="ddp")
```

## Leave alone
Code for Lightning 1 shows by what it imports.
```python
import pytorch_lightning as pl
from pytorch_lightning.metrics import Accuracy

trainer = pl.Trainer(gpus=1)
```

A test of the version says which call is for which.
```python
import pytorch_lightning as pl

if pl.__version__ < "2":
    trainer = pl.Trainer(gpus=1)
```

Fabric has arguments of its own.
```python
from lightning.fabric import Fabric

fabric = Fabric(accelerator="gpu", devices=2, precision="16-mixed")
```

## Fix safety
No fix is offered: no version takes a call with old and new arguments, so that all of them change at
once. With `ddp` in the place of `dp` every process loads batches of its own, so the effective batch
size is that of one process times the number of devices; `gpus=` of a variable may be 0 or None, the
CPU, which `devices=` does not take; and early versions of Lightning 1 do not know the new
arguments. A checkpoint to go on from is given to `fit`.

## Measure
Not timed: with Lightning 2 the call raises, so there is nothing to compare with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Hit,
    Module,
    Rule,
    Severity,
    conditions_around,
    keyword_argument,
)
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import keyword_of
from torchlint.semantic.code.versions import before_lightning_2, version_guarded
from torchlint.semantic.values.accelerator import TRAINERS, makes_lightning_trainer

# Argument → what to write instead: the migration guides of Lightning 1.4 to 2.0. The signature of
# Trainer in 2.6 has none of the first and all of the second.
_REMOVED = {
    "gpus": 'accelerator="gpu", devices=',
    "tpu_cores": 'accelerator="tpu", devices=',
    "ipus": "another accelerator",
    "num_processes": 'accelerator="cpu", devices=',
    "auto_select_gpus": 'devices="auto" or find_usable_cuda_devices()',
    "distributed_backend": "strategy=",
    "replace_sampler_ddp": "use_distributed_sampler=",
    "amp_backend": "precision=",
    "amp_level": "precision=",
    "track_grad_norm": "grad_norm() in on_before_optimizer_step",
    "profile": "profiler=",
    "process_position": "callbacks=[TQDMProgressBar(process_position=...)]",
    "progress_bar_refresh_rate": "callbacks=[TQDMProgressBar(refresh_rate=...)]",
    "weights_summary": "callbacks=[ModelSummary(max_depth=...)]",
    "weights_save_path": "dirpath= of ModelCheckpoint",
    "checkpoint_callback": "callbacks=[...] for a callback, enable_checkpointing= for a bool",
    "early_stop_callback": "callbacks=[...]",
    "flush_logs_every_n_steps": "the logger's own setting",
    "log_gpu_memory": "callbacks=[DeviceStatsMonitor()]",
    "stochastic_weight_avg": "callbacks=[StochasticWeightAveraging(...)]",
    "terminate_on_nan": "detect_anomaly= (while debugging)",
    "truncated_bptt_steps": "manual optimization",
    "move_metrics_to_cpu": "compute_on_cpu= of the metric",
    "resume_from_checkpoint": "trainer.fit(ckpt_path=)",
    "auto_lr_find": "Tuner(trainer).lr_find()",
    "auto_scale_batch_size": "Tuner(trainer).scale_batch_size()",
    "multiple_trainloader_mode": "CombinedLoader",
    "prepare_data_per_node": "the attribute of the module or datamodule",
    "reload_dataloaders_every_epoch": "reload_dataloaders_every_n_epochs=1",
}
_CPU = 'accelerator="cpu"'
# The same for values of which more can be said.
_BY_VALUE = {
    ("gpus", "None"): _CPU,
    ("gpus", "0"): _CPU,
    ("gpus", "[]"): _CPU,
    ("checkpoint_callback", "True"): "enable_checkpointing=",
    ("checkpoint_callback", "False"): "enable_checkpointing=",
    ("early_stop_callback", "True"): "callbacks=[EarlyStopping(monitor=...)]",
    ("progress_bar_refresh_rate", "0"): "enable_progress_bar=False",
    ("weights_summary", "None"): "enable_model_summary=False",
    ("profile", "True"): 'profiler="simple"',
}
# Argument → the values that ask for what Lightning 2 does without it.
_NOTHING = {
    "tpu_cores": ("None",),
    "ipus": ("None",),
    "num_processes": ("1",),
    "auto_select_gpus": ("False",),
    "distributed_backend": ("None",),
    "amp_backend": ('"native"',),
    "amp_level": ("None",),
    "track_grad_norm": ("-1",),
    "profile": ("False", "None"),
    "process_position": ("0",),
    "progress_bar_refresh_rate": ("None", "1"),
    "weights_summary": ('"top"',),
    "weights_save_path": ("None",),
    "checkpoint_callback": ("None",),
    "early_stop_callback": ("False", "None"),
    "flush_logs_every_n_steps": ("None",),
    "log_gpu_memory": ("None", "False"),
    "stochastic_weight_avg": ("False",),
    "terminate_on_nan": ("False", "None"),
    "truncated_bptt_steps": ("None",),
    "move_metrics_to_cpu": ("False",),
    "resume_from_checkpoint": ("None",),
    "auto_lr_find": ("False",),
    "auto_scale_batch_size": ("False", "None"),
    "multiple_trainloader_mode": ('"max_size_cycle"',),
    "prepare_data_per_node": ("True",),
    "reload_dataloaders_every_epoch": ("False",),
}
_VERSION_1 = regex(
    r"pytorch_lightning[.](metrics|overrides|lite|utilities[.](cloud_io|cli|distributed))\b|"
    r"pytorch_lightning[^\n]*\b(DDPPlugin|LightningLite|GPUStatsMonitor|TestTubeLogger|LightningLoggerBase)\b"
)
_VERSION = regex(r"version|(lightning|(^|_)pl)_\w*[12]", re.IGNORECASE)
_PRECISION = "Trainer(precision={arg}) is the old spelling; use {new}."
_LEAVE_OUT = (
    "Lightning 2 has no Trainer({arg}); leave it out: without it Lightning 2 does the same."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL903",
    message="Lightning 2 has no Trainer({arg}); use {new}.",
    severity="error",
    default=True,
    effect="none",
    triggers=(b"Trainer",),
    equivalence="opt-in",
)


@rule.on(cst.Call, about=makes_lightning_trainer, calls=TRAINERS, benchmarks=True)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if mentions(module, _VERSION_1) or _for_a_version(module, node) or before_lightning_2(module):
        return
    yield from _hits(module, node)


def _hits(module: Module, node: cst.Call) -> Iterator[Hit]:
    for arg in node.args:
        name = keyword_of(arg)
        dp = name in ("strategy", "distributed_backend", "accelerator") and _text(arg.value) in (
            "dp",
            "ddp",
            "ddp2",
        )
        severity = Severity.WARNING if "pytorch_lightning" in module.text else None
        if _asks_for_nothing(module, node, arg, name):
            yield Hit(arg.value, {"arg": f"{name}="}, severity=severity, message=_LEAVE_OUT)
        elif name in _REMOVED:
            words = {"arg": f"{name}=", "new": _instead(module, arg.value, name)}
            yield Hit(arg.value, words, severity=severity)
        elif dp and (name, _text(arg.value)) != ("strategy", "ddp"):
            new = {"arg": f"{name}={module.shown(arg.value)}", "new": 'strategy="ddp"'}
            yield Hit(arg.value, new, severity=severity)
        elif name == "precision" and isinstance(arg.value, cst.Integer) and arg.value.value == "16":
            yield Hit(
                arg.value, {"arg": "16", "new": '"16-mixed"'}, None, Severity.INFO, _PRECISION
            )


def _for_a_version(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a condition on Lightning's version, chooses this call."""
    around = (
        _VERSION.search(module.source_of(test)) for test, _ in conditions_around(module, node)
    )
    return any(around) or version_guarded(module, node)


def _text(node: cst.CSTNode | None) -> str:
    return str(node.raw_value) if isinstance(node, cst.SimpleString) else ""


def _shown_literal(module: Module, value: cst.BaseExpression) -> str:
    """Return the literal that an argument is given; nothing for any other value."""
    if isinstance(value, cst.SimpleString):
        return f'"{value.raw_value}"'
    known = isinstance(value, (cst.Name, cst.Integer, cst.UnaryOperation, cst.List))
    return module.source_of(value) if known else ""


def _asks_for_nothing(module: Module, node: cst.Call, arg: cst.Arg, name: str) -> bool:
    """Say whether an argument asks for what Lightning 2 does without it."""
    written = _shown_literal(module, arg.value)
    if (name, written) in _BY_VALUE and _BY_VALUE[name, written] == _CPU:
        return keyword_argument(module, node, "accelerator") is not None
    return written in _NOTHING.get(name, ())


def _instead(module: Module, value: cst.BaseExpression, name: str) -> str:
    """Return what to write for an argument, as far as its value decides that."""
    if name == "checkpoint_callback" and _is_callback(module, value):
        return "callbacks=[...]"
    return _BY_VALUE.get((name, _shown_literal(module, value)), _REMOVED[name])


def _is_callback(module: Module, value: cst.BaseExpression) -> bool:
    """Say whether a value is certainly an object that a class makes: ``ModelCheckpoint(...)``."""
    name = module.called(sole_definition(module, value) or value)
    return name.rpartition(".")[2][:1].isupper()
