"""Run one process per GPU with DistributedDataParallel

## Why
`nn.DataParallel` is one process: in every forward pass it copies the module to each GPU, runs the
copies in Python threads that share the GIL, and gathers all outputs on one GPU (the class docstring
of torch.nn.DataParallel). The CUDA notes of the PyTorch docs advise DistributedDataParallel
instead, even on a single machine: one process per GPU, no copying of the module, and gradients
reduced while the backward pass still runs. If DataParallel has to stay, compute the loss inside
`forward`, so that only one number per GPU is gathered.

Flagged: a call of `nn.DataParallel` or a subclass of it, of `data_parallel()`, and a Lightning
trainer with `strategy="dp"`. As info only: in a function or script that by its name evaluates or
predicts and trains nothing, where it splits single batches, with one literal device, or in a script
that sets `CUDA_VISIBLE_DEVICES` to one, where the wrapper does nothing, and behind a constant or an
option that is off, and that nothing turns on. Where the file trains nothing and the wrapped model
is put into `eval()`, the message only asks to drop the wrapper, and of a network that is frozen or
a teacher, which DistributedDataParallel refuses or has no use for, to give each process a copy.
Silent where a caller asks for DataParallel by its name, `"dp"`, and for DistributedDataParallel by
another (`use_ddp`), in a folder of tests, on a TPU, where a package wraps the model that it is
given in one or the other, as its user has started one process or several, where a wrapper that was
taken off is put on again and not used there, and where only what it wraps is run
(`model.module(x)`).

## Setup
```python
import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.randn(8, 4) for _ in range(3)]
```

## Bad
```python
parallel = nn.DataParallel(model)
for x in batches:
    optimizer.zero_grad()
    parallel(x).sum().backward()
    optimizer.step()
```

## Good
```python
import os


def main():
    local_rank = int(os.environ["LOCAL_RANK"])  # set by torchrun, which starts one process per GPU
    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(local_rank)
    parallel = nn.parallel.DistributedDataParallel(model.cuda(), device_ids=[local_rank])
    for x in batches:
        optimizer.zero_grad()
        parallel(x.cuda()).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
```

## Leave alone
`isinstance` with the class of the wrapper wraps nothing.
```python
if isinstance(model, nn.DataParallel):
    model = model.module
```

Wrapping only to load a checkpoint whose keys start with `module.`, and unwrapping at once, runs
nothing in parallel.
```python
wrapped = nn.DataParallel(model)
wrapped.load_state_dict({"module." + key: value for key, value in model.state_dict().items()})
wrapped = wrapped.module
```

Other strategies of a Lightning trainer.
```python
def build(lightning):
    return lightning.Trainer(strategy="ddp")
```

## Fix safety
Suggestion: the program must be started with torchrun, needs a process group and a
`DistributedSampler`, and reduces gradients in another order.

## Measure
Not timed: the remedy is another way to start the program, with one process for each GPU.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from pathlib import PurePosixPath

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
    keyword_argument,
)
from torchlint.semantic.code.destinations import destinations
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.options import switch_left_off
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.scopes import base_names, local_class
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.tree import is_name, targets_of
from torchlint.semantic.code.updates import is_step
from torchlint.semantic.torch.spelling import KEPT_STILL, called
from torchlint.semantic.uses.frozen import frozen_names, made_frozen
from torchlint.semantic.uses.networks import has_no_parameters
from torchlint.semantic.values.accelerator import TRAINERS, makes_lightning_trainer, on_tpu
from torchlint.semantic.values.inferred import is_model_call

_DDP = "torch.nn.parallel.DistributedDataParallel"
_FUNCTIONS = ("torch.nn.parallel.data_parallel", "torch.nn.parallel.data_parallel.data_parallel")
_INFERENCE = regex(
    r"(^|_)(eval\w*|valid\w*|val|tests?|testing|predict\w*|infer\w*|embed\w*|encode|generate|score|interact|sample)(_|$)"
)
_BY_NAME = regex(r"(?i:(^|_)(dp|data_?parallel)(_|$)|^data_?parallel)|^DP[A-Z]")
"""What DataParallel is called where people choose it; DDP and its like are none of it."""
_DDP_NAME = regex(r"(^|_)(ddp|distributed_?data_?parallel)(_|$)", re.IGNORECASE)
_TEST_FOLDERS = frozenset(("test", "tests", "testing"))
_EVALUATES = (
    "with several GPUs {name} re-replicates the model every forward, and only evaluates here; drop "
    "the wrapper, or run one process per GPU."
)
_LOADED = (
    "with several GPUs {name} re-replicates the model every forward, and only evaluates here; load "
    "into the model itself, without the `module.` of the checkpoint's keys, or run one process per "
    "GPU."
)
_FALLBACK = (
    "with several GPUs {name} re-replicates the model every forward and gathers on one of them; "
    "take the branch with DistributedDataParallel there."
)
_ONE_VISIBLE = regex(
    r"^os\.environ\[[\"']CUDA_VISIBLE_DEVICES[\"']\]\s*=\s*[\"']\d+[\"']\s*(#.*)?$", re.MULTILINE
)
"""A script that lets itself see one GPU, whatever the machine has."""
_SUCCESSOR = "torch.nn.parallel.DistributedDataParallel"
_STILL = (
    "with several GPUs {name} re-replicates the model every forward, and DistributedDataParallel "
    "is for networks that are trained: give each process its own copy of this one, unwrapped."
)
_OFF = "It needs `{switch}`, which is off, and which nothing in the project turns on."
_ONE_DEVICE = (
    "nn.DataParallel on one device adds a wrapper and parallelises nothing; call the model itself."
)
_STRATEGY = (
    'with several GPUs strategy="dp" re-replicates the model every forward and gathers on one of '
    'them; use strategy="ddp".'
)

rule = Rule(
    __name__,
    __doc__,
    code="TL301",
    message=(
        "with several GPUs {name} re-replicates the model every forward and gathers on one of "
        "them; use DistributedDataParallel."
    ),
    severity="warning",
    default=True,
    effect="none",
    triggers=(b"DataParallel", b"data_parallel", b"dp"),
)


@rule.on(cst.Call, about=makes_lightning_trainer, calls=TRAINERS)
def check_strategy(node: cst.Call, module: Module) -> Iterator[Hit]:
    strategy = keyword_argument(module, node, "strategy")
    if isinstance(strategy, cst.SimpleString) and strategy.raw_value == "dp":
        edit = Replace(strategy, cst.SimpleString('"ddp"'))
        yield Hit(
            strategy, message=_STRATEGY, fix=Fix((edit,), Safety.SUGGESTION, "Train with DDP")
        )


@rule.on(cst.Call)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    name = module.name(node.func)
    wraps = name == "torch.nn.DataParallel" or _subclass(module, node)
    if not (wraps or name in _FUNCTIONS) or _in_tests(module) or on_tpu(module):
        return
    if (
        _is_unwrapped(module, node)
        or _only_loads(module, node)
        or _put_back(module, node)
        or _passed_by(module, node)
        or _asked_for(module, node)
        or (node.args and has_no_parameters(module, node.args[0].value))
    ):
        return
    if wraps and _one_device(module, node):
        yield Hit(node, severity=Severity.INFO, message=_ONE_DEVICE)
        return
    words = {"name": "nn.DataParallel" if wraps else "data_parallel()"}
    if wraps and node.args and _stays_still(module, node, node.args[0].value):
        yield Hit(node, words, message=_STILL, severity=Severity.INFO)
        return
    if _only_evaluates(module, node) or _inference(module, node):
        # The keys of the weights that are loaded into a wrapper begin with ``module.``.
        loads = _method_calls(module, node, "load_state_dict")
        loaded = any(module.before(node, call) for call in loads)
        message = _LOADED if loaded else _EVALUATES
        yield Hit(node, words, message=message, severity=Severity.INFO)
        return
    if _has_successor(module, node):
        if _of_a_library(module, node):
            return  # It takes what its user has started: one process, or several.
        yield Hit(node, words, message=_FALLBACK, severity=Severity.INFO)
        return
    fix = _fix(node) if wraps else None
    switch = switch_left_off(module, node)
    if switch is not None:
        words["switch"] = module.shown(switch)
        yield Hit(node, words, fix, message=f"{rule.message} {_OFF}", severity=Severity.INFO)
        return
    yield Hit(node, words, fix)


def _has_successor(module: Module, node: cst.Call) -> bool:
    """Say whether another branch of the same function wraps in DistributedDataParallel."""
    calls = module.within(module.scope(node), cst.Call)
    return any(module.name(call.func) == _SUCCESSOR for call in calls if call is not node)


def _of_a_library(module: Module, node: cst.Call) -> bool:
    """Say whether a function of a package wraps the model that it is given."""
    match node.args:
        case [cst.Arg(cst.Name() as model), *_] if module.outside.in_package():
            return any(isinstance(each, cst.FunctionDef) for each in definitions_of(module, model))
    return False


def _subclass(module: Module, node: cst.Call) -> bool:
    cls = local_class(module, node.func)
    return cls is not None and "torch.nn.DataParallel" in base_names(module, cls)


def _one_device(module: Module, node: cst.Call) -> bool:
    devices = arguments_of(module, node, "torch.nn.DataParallel").value("device_ids")
    named = isinstance(devices, (cst.List, cst.Tuple)) and len(devices.elements) == 1
    return named or mentions(module, _ONE_VISIBLE)


def _is_unwrapped(module: Module, node: cst.Call) -> bool:
    """Say whether the wrapper is taken off again (``model = model.module``) in a scope that trains
    nothing."""
    home = module.small_statement(node)
    if not isinstance(home, cst.Assign):
        return False
    place, scope = home.targets[0].target, module.scope(node)
    for later in module.within(scope, cst.Assign):
        match later:
            case cst.Assign(value=cst.Attribute(value, cst.Name("module")), targets=[target]):
                if (
                    value.deep_equals(place)
                    and target.target.deep_equals(place)
                    and module.before(node, later)
                ):
                    return not _trains(module, scope)
    return False


def _only_loads(module: Module, node: cst.Call) -> bool:
    """Say whether a wrapper is there for a checkpoint whose keys begin with ``module.``: its
    function loads into it, and takes the model out of it."""
    match module.small_statement(node):
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value) as home:
            if value is not node:
                return False
            uses = [(read, module.parent(read)) for read in readers_of(module, home, name)]
            taken = {
                use.attr.value if isinstance(use, cst.Attribute) and use.value is read else ""
                for read, use in uses
            }
            return {"load_state_dict"} < taken <= {"load_state_dict", "module", "state_dict"}
    return False


def _put_back(module: Module, node: cst.Call) -> bool:
    """Say whether a wrapper that the function has taken off is put on again, and nothing there uses
    it, or where a flag says that the model came in wrapped: the caller wrapped the model."""
    tests = conditions_around(module, node, module.root)
    if any(needed and _notes_wrapper(module, test) for test, needed in tests):
        return True
    function, home = module.function(node), module.small_statement(node)
    match home:
        case cst.Assign([cst.AssignTarget(cst.Name() as name)], value):
            if function is None or value is not node or readers_of(module, home, name.value):
                return False
            return any(
                isinstance(line.value, cst.Attribute)
                and line.value.attr.value == "module"
                and line.value.value.deep_equals(name)
                and module.before(line, node)
                for line in module.within(function, cst.Assign)
            )
    return False


def _notes_wrapper(module: Module, flag: cst.BaseExpression) -> bool:
    """Say whether a name is true only where a model that came in is a DataParallel."""
    made = definitions_of(module, flag) if isinstance(flag, cst.Name) else []
    true = [each for each in made if not is_name(getattr(each, "value", None), "False")]
    return bool(true) and all(
        isinstance(each, cst.Assign)
        and is_name(each.value, "True")
        and any(
            needed
            and isinstance(test, cst.Call)
            and module.name(test.func) == "builtins.isinstance"
            and module.name(test.args[-1].value) == "torch.nn.DataParallel"
            for test, needed in conditions_around(module, each)
        )
        for each in true
    )


def _passed_by(module: Module, node: cst.Call) -> bool:
    """Say whether all calls of a wrapper in the file run what it wraps: ``self.net.module(x)``."""
    for place in _targets(module, node):
        runs = [call.func for call in module.nodes(cst.Call)]
        inner = [f for f in runs if isinstance(f, cst.Attribute) and f.attr.value == "module"]
        if any(f.value.deep_equals(place) for f in inner):
            return not any(f.deep_equals(place) for f in runs)
    return False


def _in_tests(module: Module) -> bool:
    """Say whether the file of a package stands in a folder of tests, or of helpers of tests."""
    folders = PurePosixPath(module.filename.replace("\\", "/")).parent.parts
    return not _TEST_FOLDERS.isdisjoint(folders[-2:])


def _or_distributed(module: Module, node: cst.Call) -> bool:
    """Say whether the branches around a call leave DistributedDataParallel to who asks for it by
    name: ``if use_ddp: ... else: nn.DataParallel(model)``."""
    return any(
        isinstance(test, (cst.Name, cst.Attribute))
        and not needed
        and _DDP_NAME.search(last_part(test))
        for test, needed in conditions_around(module, node, module.root)
    )


def _asked_for(module: Module, node: cst.Call) -> bool:
    """Say whether who wants DataParallel asks for it by its name, and gets
    DistributedDataParallel by another: a class that is called after it, ``if strategy == "dp"``."""
    if _or_distributed(module, node) or _offered_by_name(module, node):
        return True
    if not any(module.name(call.func) == _DDP for call in module.nodes(cst.Call)):
        return False
    around = [a for a in module.ancestors(node) if isinstance(a, (cst.FunctionDef, cst.ClassDef))]
    said = [each.name.value for each in around]
    for test, needed in conditions_around(module, node, module.root):
        said += [str(text.raw_value) for text in module.within(test, cst.SimpleString) if needed]
    said += [
        str(text.raw_value)
        for above in module.ancestors(node)
        if isinstance(above, cst.MatchCase)
        for text in module.within(above.pattern, cst.SimpleString)
    ]
    return any(_BY_NAME.search(each) for each in said)


def _offered_by_name(module: Module, node: cst.Call) -> bool:
    """Say whether the function is there to wrap models in DataParallel, as its name says: it gives
    the wrapped model back, and runs it nowhere."""
    function = module.function(node)
    if function is None or not _BY_NAME.search(function.name.value):
        return False
    return any(isinstance(each, cst.Return) for each in destinations(module, node)) and not any(
        is_model_call(module, call) for call in module.within(function, cst.Call)
    )


def _trains(module: Module, scope: cst.CSTNode) -> bool:
    return any(is_step(module, call) for call in module.within(scope, cst.Call))


def _stays_still(module: Module, node: cst.Call, model: cst.BaseExpression) -> bool:
    """Say whether nothing trains a wrapped model: it is frozen where it is made or wrapped, or is
    called a teacher or the like, and no optimizer of the file gets its parameters."""
    scope = module.scope(node)
    frozen = frozen_names(module, scope)
    names = {dotted_text(each) for each in (model, *_targets(module, node))}
    if any(name in frozen for name in names) or made_frozen(module, model):
        return True
    still = any(called((name or "").rpartition(".")[2], KEPT_STILL) for name in names)
    return (
        still
        and not any(_asks(call, names) for call in module.nodes(cst.Call))
        and not _handed_to_trainer(module, names, scope)
    )


def _asks(call: cst.Call, names: Container[str | None]) -> bool:
    """Say whether a call asks a network of that name for its parameters."""
    match call.func:
        case cst.Attribute(owner, cst.Name("parameters")):
            return dotted_text(owner) in names
    return False


def _handed_to_trainer(
    module: Module, names: Container[str | None], scope: cst.CSTNode, depth: int = 3
) -> bool:
    """Say whether a function of the file that makes optimizer steps is handed a network, and asks
    it for its parameters: one that distils is handed its teacher too."""
    for call in module.within(scope, cst.Call):
        for function in callees_of(module, call):
            if not isinstance(function, cst.FunctionDef):
                continue
            given = module.bind(function, call)
            inside = {name for name, value in given.items() if dotted_text(value) in names}
            if not inside:
                continue
            asked = any(_asks(each, inside) for each in module.within(function, cst.Call))
            if (asked and _trains(module, function)) or (
                depth and _handed_to_trainer(module, inside, function, depth - 1)
            ):
                return True
    return False


def _targets(module: Module, node: cst.Call) -> list[cst.BaseExpression]:
    """Return what a wrapper is assigned to."""
    home = module.small_statement(node)
    return targets_of(home) if isinstance(home, cst.Assign) else []


def _method_calls(module: Module, node: cst.Call, method: str) -> Iterator[cst.Call]:
    """Yield the calls of a method of a wrapper in the scope that makes it."""
    targets = _targets(module, node)
    for call in module.within(module.scope(node), cst.Call):
        match call.func:
            case cst.Attribute(owner, cst.Name(name)) if name == method:
                if owner is node or any(map(owner.deep_equals, targets)):
                    yield call


def _only_evaluates(module: Module, node: cst.Call) -> bool:
    """Say whether a wrapped model is put into ``eval()``, in a file without any step: where it is
    wrapped, or in another method of the class that keeps it."""
    cls = module.class_of(node)
    kept = module.within(cls, cst.Call, nested=True) if cls is not None else ()
    evaluates = any(_method_calls(module, node, "eval")) or any(
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "eval"
        and inferred(module, call.func.value).kind == "module"
        for call in kept
    )
    return evaluates and not _steps_anywhere(module)


def _steps_anywhere(module: Module) -> bool:
    return any(is_step(module, call) for call in module.within(module.root, cst.Call, nested=True))


def _inference(module: Module, node: cst.Call) -> bool:
    """Say whether the wrapped model only splits batches for inference: by the name of the function
    or of the script, without any step."""
    function = module.function(node)
    if function is not None and _INFERENCE.search(function.name.value):
        return not _trains(module, function)
    script = PurePosixPath(module.filename.replace("\\", "/")).stem
    return bool(_INFERENCE.search(script)) and not _steps_anywhere(module)


def _fix(node: cst.Call) -> Fix | None:
    first = node.args[0] if node.args else None
    if first is None or first.star or first.keyword is not None:
        return None
    ranks = cst.parse_expression('[int(os.environ["LOCAL_RANK"])]')
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    args = (first.with_changes(comma=comma), cst.Arg(ranks, cst.Name("device_ids"), equal))
    new = cst.Call(cst.parse_expression(_DDP), args)
    edits = (Replace(node, new), NeedImport("torch"), NeedImport("os"))
    return Fix(
        edits,
        Safety.SUGGESTION,
        "Wrap with DistributedDataParallel, one process per GPU (torchrun)",
    )
