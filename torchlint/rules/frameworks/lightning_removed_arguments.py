"""Pass the Trainer what Lightning 2 understands

## Why
The `Trainer` of Lightning 2 has lost arguments that 1.x had deprecated (its migration guide): with
`gpus=`, `distributed_backend=`, `replace_sampler_ddp=` and the like, or `profile=` for `profiler=`,
the call raises a `TypeError` ("unexpected keyword argument"), and with `strategy="dp"` or
`accelerator="ddp"` a `ValueError`. The features moved: devices are counted by `devices=`, the way
of parallel training is the `strategy=`, and a profiler is named. `precision=16` is still accepted
with a warning.

Flagged: a literal keyword of that kind in a call of Lightning's `Trainer`. It is an error where the
file imports `lightning`, and a warning where it imports `pytorch_lightning`, which may be installed
in version 1.

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
Unsafe: with `ddp` in the place of `dp` every process loads batches of its own, so the effective
batch size is that of one process times the number of devices; and early versions of Lightning 1 do
not know the new arguments.

## Measure
Not timed: with Lightning 2 the call raises, so there is nothing to compare with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, Replace, Rule, Safety, Severity
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.guards import conditions_around
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.versions import version_guarded
from torchlint.semantic.values.accelerator import makes_lightning_trainer

# Argument → what to write instead; the migration guide of Lightning 2.0.
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
    "profile": 'profiler="simple"',
    "process_position": "TQDMProgressBar(process_position=)",
    "progress_bar_refresh_rate": "TQDMProgressBar(refresh_rate=)",
    "weights_summary": "enable_model_summary=",
    "weights_save_path": "default_root_dir=",
    "checkpoint_callback": "enable_checkpointing=",
    "flush_logs_every_n_steps": "the logger's own setting",
    "log_gpu_memory": "the DeviceStatsMonitor callback",
    "stochastic_weight_avg": "the StochasticWeightAveraging callback",
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
_RENAMED = {
    "distributed_backend": "strategy",
    "replace_sampler_ddp": "use_distributed_sampler",
    "checkpoint_callback": "enable_checkpointing",
}
_VERSION_1 = re.compile(
    r"pytorch_lightning[.](metrics|overrides|lite|utilities[.](cloud_io|cli|distributed))\b|"
    r"pytorch_lightning[^\n]*\b(DDPPlugin|LightningLite|GPUStatsMonitor|TestTubeLogger|LightningLoggerBase)\b"
)
_VERSION = re.compile(r"version|(lightning|(^|_)pl)_\w*[12]", re.IGNORECASE)
_PRECISION = "Trainer(precision={arg}) is the old spelling; use {new}."
_NOTE = "With ddp each process loads batches of its own: the batch size is then per process."
_NEWER = "Early versions of Lightning 1 do not know the new argument."

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


@rule.on(cst.Call, about=makes_lightning_trainer, benchmarks=True)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if mentions(module, _VERSION_1) or _for_a_version(module, node):
        return
    for arg in node.args:
        name = arg.keyword.value if arg.keyword is not None else ""
        dp = name in ("strategy", "distributed_backend", "accelerator") and _text(arg.value) in (
            "dp",
            "ddp",
            "ddp2",
        )
        severity = Severity.WARNING if "pytorch_lightning" in module.text else None
        fix, words = (
            _fix(module, node, arg, name),
            {"arg": f"{name}=", "new": _REMOVED.get(name, "")},
        )
        if name in _REMOVED:
            yield Hit(arg.value, words, fix, severity)
        elif dp and (name, _text(arg.value)) != ("strategy", "ddp"):
            new = {"arg": f"{name}={module.shown(arg.value)}", "new": 'strategy="ddp"'}
            yield Hit(arg.value, new, fix, severity)
        elif name == "precision" and isinstance(arg.value, cst.Integer) and arg.value.value == "16":
            yield Hit(arg.value, {"arg": "16", "new": '"16-mixed"'}, fix, Severity.INFO, _PRECISION)


def _for_a_version(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a condition on Lightning's version, chooses this call."""
    around = (
        _VERSION.search(module.source_of(test)) for test, _ in conditions_around(module, node)
    )
    return any(around) or version_guarded(module, node)


def _text(node: cst.CSTNode | None) -> str:
    return str(node.raw_value) if isinstance(node, cst.SimpleString) else ""


def _fix(module: Module, node: cst.Call, arg: cst.Arg, name: str) -> Fix | None:
    value, had = arg.value, keyword_argument(module, node, "accelerator")
    new: list[tuple[str, cst.BaseExpression]] = []
    if (
        name == "gpus"
        and isinstance(value, (cst.Integer, cst.List))
        and module.source_of(value) not in ("0", "[]")
    ):
        if had is not None and _text(had) not in ("gpu", "cuda"):
            return None
        new = [("accelerator", cst.SimpleString('"gpu"'))] if had is None else []
        new.append(("devices", value))
    elif name in ("strategy", "distributed_backend") and _text(value) in ("dp", "ddp"):
        new = [("strategy", cst.SimpleString('"ddp"'))]
    elif name in ("replace_sampler_ddp", "checkpoint_callback") and module.source_of(value) in (
        "True",
        "False",
    ):
        new = [(_RENAMED[name], value)]
    elif name == "profile" and isinstance(value, cst.Name) and value.value == "True":
        new = [("profiler", cst.SimpleString('"simple"'))]
    elif name == "precision":
        new = [("precision", cst.SimpleString('"16-mixed"'))]
    if not new or (
        name not in ("strategy", "precision")
        and any(keyword_argument(module, node, n) for n, _ in new)
    ):
        return None
    first = arg.with_changes(keyword=cst.Name(new[0][0]), value=new[0][1])
    between = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    made = (
        [first]
        if len(new) == 1
        else [
            first.with_changes(comma=between, whitespace_after_arg=cst.SimpleWhitespace("")),
            arg.with_changes(keyword=cst.Name(new[1][0]), value=new[1][1]),
        ]
    )
    args = [each for old in node.args for each in (made if old is arg else [old])]
    note = _NOTE if new[0][0] == "strategy" else _NEWER
    return Fix(
        (Replace(node, node.with_changes(args=args)),),
        Safety.UNSAFE,
        "Use the argument of Lightning 2",
        note,
    )
