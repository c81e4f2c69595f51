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
in version 1. Where the value asks for what Lightning 2 does anyway, `auto_lr_find=False`, the
argument is left out.

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
Only where each old argument of the call can be replaced, as no version takes a call with old and
new ones. Unsafe: with `ddp` in the place of `dp` every process loads batches of its own, so the
effective batch size is that of one process times the number of devices; `gpus=` of a variable may
be 0 or None, the CPU, which `devices=` does not take; and early versions of Lightning 1 do not know
the new arguments. A callback joins the list that `callbacks=` is given, and a checkpoint to go on
from is given to the one `fit` that follows.

## Measure
Not timed: with Lightning 2 the call raises, so there is nothing to compare with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

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
    with_keyword,
    without_argument,
)
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.guards import conditions_around
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import readers_of
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import attr_of, keyword_of
from torchlint.semantic.code.versions import version_guarded
from torchlint.semantic.values.accelerator import TRAINERS, makes_lightning_trainer
from torchlint.semantic.values.inferred import inferred

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
_RENAMED = {
    "distributed_backend": "strategy",
    "replace_sampler_ddp": "use_distributed_sampler",
    "checkpoint_callback": "enable_checkpointing",
}
_CALLBACKS = ("checkpoint_callback", "early_stop_callback")
_BAR = "progress_bar_refresh_rate"
_IN_A_LIST = (*_CALLBACKS, _BAR)
_VERSION_1 = regex(
    r"pytorch_lightning[.](metrics|overrides|lite|utilities[.](cloud_io|cli|distributed))\b|"
    r"pytorch_lightning[^\n]*\b(DDPPlugin|LightningLite|GPUStatsMonitor|TestTubeLogger|LightningLoggerBase)\b"
)
_VERSION = regex(r"version|(lightning|(^|_)pl)_\w*[12]", re.IGNORECASE)
_PRECISION = "Trainer(precision={arg}) is the old spelling; use {new}."
_LEAVE_OUT = (
    "Lightning 2 has no Trainer({arg}); leave it out: without it Lightning 2 does the same."
)
_NOTE = "With ddp each process loads batches of its own: the batch size is then per process."
_CPU_BEFORE = "None and 0, by which gpus= meant the CPU, raise as a number of devices."
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


@rule.on(cst.Call, about=makes_lightning_trainer, calls=TRAINERS, benchmarks=True)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if mentions(module, _VERSION_1) or _for_a_version(module, node):
        return
    hits = list(_hits(module, node))
    # With one old argument left no version would take the new ones.
    given = {each: keyword_argument(module, node, each) for each in _IN_A_LIST}
    lists = [
        name
        for name, value in given.items()
        if value is not None and (_is_callback(module, value) or _shows_bar(value, name))
    ]
    whole = len(lists) < 2 and all(hit.fix is not None for hit in hits)
    yield from (hit if whole else replace(hit, fix=None) for hit in hits)


def _hits(module: Module, node: cst.Call) -> Iterator[Hit]:
    for arg in node.args:
        name = keyword_of(arg)
        dp = name in ("strategy", "distributed_backend", "accelerator") and _text(arg.value) in (
            "dp",
            "ddp",
            "ddp2",
        )
        severity = Severity.WARNING if "pytorch_lightning" in module.text else None
        fix = _fix(module, node, arg, name)
        if _asks_for_nothing(module, node, arg, name):
            yield Hit(arg.value, {"arg": f"{name}="}, fix, severity, _LEAVE_OUT)
        elif name in _REMOVED:
            words = {"arg": f"{name}=", "new": _instead(module, arg.value, name)}
            yield Hit(arg.value, words, fix, severity)
        elif dp and (name, _text(arg.value)) != ("strategy", "ddp"):
            new = {"arg": f"{name}={module.shown(arg.value)}", "new": 'strategy="ddp"'}
            yield Hit(arg.value, new, fix, severity)
        elif name == "precision" and isinstance(arg.value, cst.Integer) and arg.value.value == "16":
            yield Hit(arg.value, {"arg": "16", "new": '"16-mixed"'}, fix, Severity.INFO, _PRECISION)


def _shows_bar(value: cst.BaseExpression, name: str) -> bool:
    return name == _BAR and isinstance(value, cst.Integer) and value.value not in ("0", "1")


def _for_a_version(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a condition on Lightning's version, chooses this call."""
    around = (
        _VERSION.search(module.source_of(test)) for test, _ in conditions_around(module, node)
    )
    return any(around) or version_guarded(module, node)


def _text(node: cst.CSTNode | None) -> str:
    return str(node.raw_value) if isinstance(node, cst.SimpleString) else ""


def _written(module: Module, value: cst.BaseExpression) -> str:
    """Return the literal that an argument is given; nothing for any other value."""
    if isinstance(value, cst.SimpleString):
        return f'"{value.raw_value}"'
    known = isinstance(value, (cst.Name, cst.Integer, cst.UnaryOperation, cst.List))
    return module.source_of(value) if known else ""


def _asks_for_nothing(module: Module, node: cst.Call, arg: cst.Arg, name: str) -> bool:
    """Say whether an argument asks for what Lightning 2 does without it."""
    written = _written(module, arg.value)
    if (name, written) in _BY_VALUE and _BY_VALUE[name, written] == _CPU:
        return keyword_argument(module, node, "accelerator") is not None
    return written in _NOTHING.get(name, ())


def _instead(module: Module, value: cst.BaseExpression, name: str) -> str:
    """Return what to write for an argument, as far as its value decides that."""
    if name == "checkpoint_callback" and _is_callback(module, value):
        return "callbacks=[...]"
    return _BY_VALUE.get((name, _written(module, value)), _REMOVED[name])


def _is_callback(module: Module, value: cst.BaseExpression) -> bool:
    """Say whether a value is certainly an object that a class makes: ``ModelCheckpoint(...)``."""
    made = sole_definition(module, value) or value
    name = module.name(made.func) if isinstance(made, cst.Call) else None
    return name is not None and name.rpartition(".")[2][:1].isupper()


def _fix(module: Module, node: cst.Call, arg: cst.Arg, name: str) -> Fix | None:
    if _asks_for_nothing(module, node, arg, name):
        changed = without_argument(node, arg)
        return Fix((Replace(node, changed),), Safety.UNSAFE, "Leave the argument out", _NEWER)
    if name == "resume_from_checkpoint":
        return _resumed_by_fit(module, node, arg)
    new = _new_arguments(module, node, arg.value, name)
    in_list = bool(new) and new[0][0] == "callbacks"
    given = keyword_argument(module, node, "callbacks") if in_list else None
    if given is not None and (joined := _joined(module, given, new[0][1])) is not None:
        changed = with_keyword(without_argument(node, arg), "callbacks", joined)
        return Fix(
            (Replace(node, changed),), Safety.UNSAFE, "Use the argument of Lightning 2", _NEWER
        )
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
    if name == "gpus" and not isinstance(arg.value, (cst.Integer, cst.List)):
        note = _CPU_BEFORE
    return Fix(
        (Replace(node, node.with_changes(args=args)),),
        Safety.UNSAFE,
        "Use the argument of Lightning 2",
        note,
    )


def _progress_bar(module: Module, node: cst.Call, rate: str) -> cst.BaseExpression | None:
    """Return the call that makes a progress bar, where the Trainer's package has a name here."""
    if not isinstance(node.func, cst.Attribute):
        return None
    package = module.source_of(node.func.value)
    package += ".pytorch" if module.name(node.func) == "lightning.Trainer" else ""
    return cst.parse_expression(f"{package}.callbacks.TQDMProgressBar(refresh_rate={rate})")


def _joined(
    module: Module, given: cst.BaseExpression, callback: cst.BaseExpression
) -> cst.List | None:
    """Return the list of the callbacks that a call is given and the one that an old argument asked
    for, which came last; None where it is not known to be given a list."""
    made = callback.elements[0] if isinstance(callback, cst.List) else cst.Element(callback)
    if isinstance(given, cst.List):
        return given.with_changes(elements=[*given.elements, made])
    if isinstance(given, cst.Name) and inferred(module, given).kind == "list":
        return cst.List([cst.StarredElement(given), made])
    return None


def _resumed_by_fit(module: Module, node: cst.Call, arg: cst.Arg) -> Fix | None:
    """Return the fix that hands the checkpoint to the `fit` of the trainer, where the function
    calls that once, and behind it."""
    made = module.small_statement(node)
    match made:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value) if (
            value is node and dotted_text(arg.value) is not None
        ):
            above = [module.parent(read) for read in readers_of(module, made, name)]
        case _:
            return None
    calls = [module.parent(each) for each in above if attr_of(each) == "fit"]
    if len(calls) != 1 or not isinstance(calls[0], cst.Call) or module.loops(calls[0]):
        return None
    if keyword_argument(module, calls[0], "ckpt_path") is not None or len(calls[0].args) > 4:
        return None
    if any(each.star for each in calls[0].args) or _is_bound_between(module, arg.value, calls[0]):
        return None
    edits = (
        Replace(node, without_argument(node, arg)),
        Replace(calls[0], with_keyword(calls[0], "ckpt_path", arg.value)),
    )
    return Fix(edits, Safety.UNSAFE, "Use the argument of Lightning 2", _NEWER)


def _is_bound_between(module: Module, value: cst.BaseExpression, fit: cst.Call) -> bool:
    """Say whether a name, or an attribute of one, may be something else when `fit` is called."""
    path, owner = dotted_text(value) or "", module.tree.owners[value]
    bound: list[cst.CSTNode] = [*writes_of(module, owner, path.partition(".")[0])]
    bound += [
        each
        for each in module.within(owner, cst.Attribute)
        if isinstance(module.parent(each), (cst.AssignTarget, cst.AugAssign, cst.Del))
        and f"{path}.".startswith(f"{dotted_text(each)}.")
    ]
    between = any(module.before(value, each) and module.before(each, fit) for each in bound)
    return between or module.tree.owners[fit] is not owner


def _new_arguments(
    module: Module, node: cst.Call, value: cst.BaseExpression, name: str
) -> list[tuple[str, cst.BaseExpression]]:
    """Return the keywords and values that take the place of one argument; none where that is for a
    person to say."""
    written = _written(module, value)
    if name == "gpus" and isinstance(value, (cst.Integer, cst.List, cst.Attribute, cst.Name)):
        return _devices(module, node, value)
    if (off := _BY_VALUE.get((name, written), "")).endswith("=False"):
        return [(off.removesuffix("=False"), cst.Name("False"))]
    if name == _BAR and isinstance(value, cst.Integer):
        bar = _progress_bar(module, node, written)
        return [("callbacks", cst.List([cst.Element(bar)]))] if bar is not None else []
    if name in ("strategy", "distributed_backend") and _text(value) in ("dp", "ddp"):
        return [("strategy", cst.SimpleString('"ddp"'))]
    if name in ("replace_sampler_ddp", "checkpoint_callback") and written in ("True", "False"):
        return [(_RENAMED[name], value)]
    if name in _CALLBACKS and _is_callback(module, value):
        return [("callbacks", cst.List([cst.Element(value)]))]
    if name == "profile" and written == "True":
        return [("profiler", cst.SimpleString('"simple"'))]
    return [("precision", cst.SimpleString('"16-mixed"'))] if name == "precision" else []


def _devices(
    module: Module, node: cst.Call, value: cst.BaseExpression
) -> list[tuple[str, cst.BaseExpression]]:
    """Return what takes the place of ``gpus=``."""
    had = keyword_argument(module, node, "accelerator")
    if had is not None and _text(had) not in ("gpu", "cuda"):
        return []
    if module.source_of(value) in ("0", "[]"):
        return [("accelerator", cst.SimpleString('"cpu"'))]
    gpu: list[tuple[str, cst.BaseExpression]] = [("accelerator", cst.SimpleString('"gpu"'))]
    return [*(gpu if had is None else []), ("devices", value)]
