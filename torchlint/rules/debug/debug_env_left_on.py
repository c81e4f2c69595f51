"""Remove environment switches that serialise or slow the run

## Why
These variables are meant for finding a fault, and slow every run in which they stay (PyTorch docs,
CUDA environment variables, torch.distributed debugging and torch.compile troubleshooting; NCCL's
environment variables): `CUDA_LAUNCH_BLOCKING=1` makes the host wait for every kernel,
`PYTORCH_NO_CUDA_MEMORY_CACHING` calls `cudaMalloc` for every tensor,
`TORCH_DISTRIBUTED_DEBUG=DETAIL` checks every collective for consistency, `TORCHDYNAMO_DISABLE=1`
and `TORCH_COMPILE_DISABLE=1` turn `torch.compile` off, `PYTORCH_JIT=0` turns TorchScript off,
`TORCH_COMPILE_DEBUG=1` writes the generated code of every graph, `NCCL_P2P_DISABLE=1`,
`NCCL_SHM_DISABLE=1` and `NCCL_IB_DISABLE=1` send all traffic between GPUs over slower ways, and
`NCCL_BLOCKING_WAIT=1` makes the host wait for every collective. Set in the code, they hold for
everybody who runs it.

Flagged: one of these variables of `os.environ` set to a literal that switches it on,
unconditionally. A comment beside it explains why it is there: then it is only an info.

## Setup
```python
import torch
```

## Bad
```python
import os

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
model = torch.nn.Linear(8, 4)
```

## Good
```python
model = torch.nn.Linear(8, 4)
```

## Leave alone
A flag decides.
```python
import os


def main(args):
    if args.debug:
        os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
    os.environ["TORCHDYNAMO_DISABLE"] = "1" if args.eager else "0"
    os.environ["NCCL_P2P_DISABLE"] = str(args.no_p2p)
```

A value that switches it off, or that costs nothing.
```python
import os

os.environ["CUDA_LAUNCH_BLOCKING"] = "0"
os.environ["PYTORCH_JIT"] = "1"
os.environ["TORCH_DISTRIBUTED_DEBUG"] = "INFO"
```

## Fix safety
Unsafe: errors of kernels are reported later and at another line, and a machine that needs the
work-around fails again; code that was not compiled is compiled again. No fix where the file names
the variable elsewhere: it may look at it. An import of `os` that nothing uses any more goes too.

## Measure
Not timed: the variables are read when CUDA or a library starts, not once more in a running process.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, Remove, Rule, Safety, Severity
from torchlint.semantic.code.calls import string
from torchlint.semantic.time.step_overhead import on_demand

_ON = frozenset(("1", "true", "on", "yes"))
_OFF = frozenset(("0", "false", "off", "no"))
_SWITCHES = {
    "CUDA_LAUNCH_BLOCKING": _ON,
    "HIP_LAUNCH_BLOCKING": _ON,
    "PYTORCH_NO_CUDA_MEMORY_CACHING": _ON,
    "PYTORCH_NO_HIP_MEMORY_CACHING": _ON,
    "TORCH_DISTRIBUTED_DEBUG": frozenset(("detail",)),
    "TORCHDYNAMO_DISABLE": _ON,
    "TORCH_COMPILE_DISABLE": _ON,
    "TORCH_COMPILE_DEBUG": _ON,
    "PYTORCH_JIT": _OFF,
    "NCCL_P2P_DISABLE": _ON,
    "NCCL_SHM_DISABLE": _ON,
    "NCCL_IB_DISABLE": _ON,
    "NCCL_BLOCKING_WAIT": _ON,
    "TORCH_NCCL_BLOCKING_WAIT": _ON,
}
_NOTE = (
    "Errors of kernels are reported later, and a machine that needs the work-around fails again."
)
_COMPILED = "Code that was run as it is written is compiled again."

rule = Rule(
    __name__,
    __doc__,
    code="TL803",
    message=(
        'os.environ["{var}"]="{val}" serialises or slows execution; remove it outside debugging.'
    ),
    severity="warning",
    default=True,
    effect="none",
    triggers=(
        b"LAUNCH_BLOCKING",
        b"_MEMORY_CACHING",
        b"TORCH_DISTRIBUTED_DEBUG",
        b"TORCHDYNAMO_DISABLE",
        b"TORCH_COMPILE_DISABLE",
        b"TORCH_COMPILE_DEBUG",
        b"PYTORCH_JIT",
        b"NCCL_",
    ),
)


@rule.on(cst.Assign)
def check_assignment(node: cst.Assign, module: Module) -> Iterator[Hit]:
    for target in node.targets:
        place = target.target
        if isinstance(place, cst.Subscript) and module.name(place.value) == "os.environ":
            index = place.slice[0].slice
            if isinstance(index, cst.Index):
                alone = len(node.targets) == 1
                yield from _switched(
                    module, place, index.value, node.value, node if alone else None
                )


def _switched(
    module: Module,
    node: cst.CSTNode,
    key: cst.BaseExpression,
    value: cst.BaseExpression,
    home: cst.CSTNode | None = None,
) -> Iterator[Hit]:
    """Yield a hit where `key` and `value` spell a switch that is on; `home` is a statement that
    does nothing else."""
    var, val = string(key) or "", string(value) or ""
    if (
        val.lower() not in _SWITCHES.get(var, ())
        or on_demand(module, node)
        or _is_restored(module, node, var)
    ):
        return
    note = _COMPILED if "COMPILE" in var or "DYNAMO" in var or "JIT" in var else _NOTE
    fix = (
        Fix((Remove(home),), Safety.UNSAFE, "Delete the assignment", note)
        if home is not None and module.text.count(var) == 1
        else None
    )
    severity = Severity.INFO if _is_explained(module, node) else None
    yield Hit(node, {"var": var, "val": val}, fix=fix, severity=severity)


def _is_restored(module: Module, node: cst.CSTNode, var: str) -> bool:
    """Say whether the function that sets the variable also takes it back: it removes it, or gives
    it another value."""
    home = module.function(node)
    for other in module.within(home, cst.Call, cst.Subscript) if home is not None else ():
        if isinstance(other, cst.Call):
            taken = module.name(other.func) in ("os.environ.pop", "os.unsetenv") and bool(
                other.args
            )
            if taken and string(other.args[0].value) == var:
                return True
        elif isinstance(other, cst.Subscript) and module.name(other.value) == "os.environ":
            index = other.slice[0].slice
            statement = module.small_statement(other)
            again = isinstance(statement, cst.Del) or _given_back(statement, other)
            if again and isinstance(index, cst.Index) and string(index.value) == var:
                return True
    return False


def _given_back(statement: cst.CSTNode | None, place: cst.Subscript) -> bool:
    """Say whether a statement gives the variable a value that was kept under a name: the one it
    had."""
    if not isinstance(statement, cst.Assign) or not isinstance(
        statement.value, (cst.Name, cst.Attribute)
    ):
        return False
    return any(target.target is place for target in statement.targets)


def _is_explained(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a comment stands beside the statement, or right above it."""
    line = module.statement(node)
    if not isinstance(line, cst.SimpleStatementLine):
        return False
    above = line.leading_lines[-1:]
    return line.trailing_whitespace.comment is not None or any(
        empty.comment is not None for empty in above
    )
