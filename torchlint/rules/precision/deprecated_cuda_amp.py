"""Use torch.amp, which takes the device as an argument

## Why
Since PyTorch 2.4 `torch.cuda.amp.*` and `torch.cpu.amp.*` warn with a FutureWarning; the AMP page of the docs names
`torch.amp.autocast("cuda", ...)`, `torch.amp.GradScaler("cuda", ...)` and the decorators with `device_type=` as their
successors. Nothing gets faster: this is a modernisation. The old `autocast` takes `(enabled, dtype, cache_enabled)`,
the new one `(device_type, dtype, enabled, cache_enabled)`, so positional arguments have to become keywords.

Flagged: a call, or a use as a decorator, of `autocast`, `GradScaler`, `custom_fwd` or `custom_bwd` of `torch.cuda.amp`
or `torch.cpu.amp`, through any form of import, outside of code for several versions of torch.

## Setup
```python
import torch
from torch import nn

model = nn.Linear(4, 2)
x = torch.randn(3, 4)
```

## Bad
```python
with torch.cuda.amp.autocast(True, torch.bfloat16):
    loss = model(x).sum()
```

```python
from torch.cuda.amp import GradScaler, autocast


def train():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler(enabled=False)
    with autocast(cache_enabled=False):
        with autocast(True):
            loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.item()


total = train()
```

```python
class Square(torch.autograd.Function):
    @staticmethod
    @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t

    @staticmethod
    @torch.cuda.amp.custom_bwd
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


square = Square.apply(x)
```

```python
torch.set_autocast_dtype("cuda", torch.bfloat16)
with torch.cuda.amp.autocast(enabled=False):
    loss = model(x).sum()
```

## Good
```python
with torch.amp.autocast("cuda", enabled=True, dtype=torch.bfloat16):
    loss = model(x).sum()
```

```python
from torch.amp import GradScaler, autocast


def train():
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cuda", enabled=False)
    with autocast("cuda", cache_enabled=False):
        with autocast("cuda", enabled=True, cache_enabled=True):
            loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.item()


total = train()
```

```python
class Square(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad


square = Square.apply(x)
```

```python
torch.set_autocast_dtype("cuda", torch.bfloat16)
with torch.amp.autocast("cuda", enabled=False, dtype=torch.float16):
    loss = model(x).sum()
```

## Leave alone
The current names.
```python
with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
    loss = model(x).sum()
```

Fallbacks for older versions, however they are written.
```python
try:
    from torch.amp import GradScaler
except ImportError:
    from torch.cuda.amp import GradScaler
scaler = GradScaler(enabled=False)
```

A flag that was computed from the version guards the old name too.
```python
TORCH_2_4 = torch.__version__ >= "2.4"
scaler = torch.amp.GradScaler("cuda") if TORCH_2_4 else torch.cuda.amp.GradScaler()
```

A test for the class warns of nothing.
```python
def is_scaler(thing):
    return isinstance(thing, torch.cuda.amp.GradScaler)
```

Other packages' amp.
```python
def apex_step(apex, loss, optimizer):
    from apex import amp

    with amp.scale_loss(loss, optimizer) as scaled, amp.autocast(True):
        scaled.backward()
```

## Fix safety
Safe from torch 2.4 on: same arguments, same values. Where an outer `autocast` may be active, the defaults that the
new class would take over from it are written out (`dtype=`, `cache_enabled=`). A `GradScaler` that leaves its
function makes the fix unsafe, for other code may test for the old class, which is a subclass of the new one. An
import is only changed together with all places that use it.

## Measure
Not timed: nothing gets faster, as the new names do the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Fix, Hit, Module, NeedImport, NodeEdit, Replace, Rule, Safety

_OLD = re.compile(r"torch\.(cuda|cpu)\.amp\.(autocast|GradScaler|custom_fwd|custom_bwd)$")
_AUTOCASTS = ("torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast", "torch.cpu.amp.autocast")
_PARAMETERS = ("enabled", "dtype", "cache_enabled")
_DTYPES = {"cuda": "torch.float16", "cpu": "torch.bfloat16"}
_NOTE = "The scaler is no longer an instance of the old class, should code elsewhere test for that."
_NEW = {
    "autocast": 'autocast("{device}", ...)',
    "GradScaler": 'GradScaler("{device}", ...)',
    "custom_fwd": 'custom_fwd(device_type="{device}")',
    "custom_bwd": 'custom_bwd(device_type="{device}")',
}
_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))

rule = Rule(
    __name__,
    __doc__,
    code="TL408",
    message="torch.{device}.amp.{name} is deprecated; use torch.amp.{new}.",
    severity="info",
    default=True,
    triggers=(b"amp",),
    equivalence="bitwise",
)


@rule.on(cst.Call, cst.Decorator)
def check(node: cst.Call | cst.Decorator, module: Module) -> Iterator[Hit]:
    use = node.decorator if isinstance(node, cst.Decorator) else node
    found = _old(use, module)
    if found is None or (use is not node and isinstance(use, cst.Call)) or module.version_guarded(node):
        return
    device, name = found.groups()
    yield Hit(use, {"device": device, "name": name, "new": _NEW[name].format(device=device)}, fix=_fix(use, module))


def _callee(use: cst.BaseExpression) -> cst.BaseExpression:
    return use.func if isinstance(use, cst.Call) else use


def _old(use: cst.BaseExpression, module: Module) -> re.Match[str] | None:
    return _OLD.match(module.name(_callee(use)) or "")


def _fix(use: cst.BaseExpression, module: Module) -> Fix | None:
    """Return the fix of one use, or of all uses of the import that it goes through."""
    root: cst.BaseExpression = _callee(use)
    while isinstance(root, cst.Attribute):
        root = root.value
    start, home, uses, new = module.name(root) or "", module.import_of(root), [use], "torch.amp"
    edits: list[NodeEdit] = []
    if start == "torch" and isinstance(root, cst.Name):
        new = f"{root.value}.amp"
    elif start in ("torch.cuda", "torch.cpu"):
        edits = [NeedImport("torch")]
    elif home is not None and not module.version_guarded(home):
        changed, found = _import(home, start), [module.use(read) for read in module.import_reads(home)]
        uses, new = [u for u in found if u is not None], ""
        if changed is None or len(uses) < len(found) or module.is_exported(home):
            return None
        edits = [changed]
    else:
        return None
    changes = [_change(each, new, module) for each in uses]
    if module.target_torch < (2, 4) or not all(changes):
        return None
    scalers = [u for u in uses if (module.name(_callee(u)) or "").endswith("GradScaler")]
    unsafe = not all(module.stays(each) for each in scalers)
    safety = Safety.SUGGESTION if _tested(module) else Safety.UNSAFE if unsafe else Safety.SAFE
    edits += [edit for change in changes for edit in change]
    return Fix(tuple(dict.fromkeys(edits)), safety, "Use torch.amp", _NOTE if unsafe else "")


def _import(home: cst.Import | cst.ImportFrom, start: str) -> NodeEdit | None:
    """Return the change of an import, where it binds the old modules' names only."""
    whole = start.endswith(".amp")
    if isinstance(home.names, cst.ImportStar) or (isinstance(home, cst.Import) and len(home.names) > 1):
        return None
    new = cst.parse_expression("torch" if whole and isinstance(home, cst.ImportFrom) else "torch.amp")
    if isinstance(home, cst.Import):
        return Replace(home.names[0].name, new)
    names = {alias.evaluated_name for alias in home.names}
    return Replace(home.module, new) if home.module and names <= ({"amp"} if whole else set(_NEW)) else None


def _change(use: cst.BaseExpression, new: str, module: Module) -> list[NodeEdit]:
    """Return the edits of one call or decorator; none where its arguments are not understood."""
    found = _old(use, module)
    given = list(use.args) if isinstance(use, cst.Call) else []
    plain = [arg for arg in given if arg.keyword is None]
    if found is None or any(arg.star for arg in plain):
        return []
    device, name = found.groups()
    more: dict[str, str] = {}
    if name == "autocast":
        more = _inherited(use, device, module)
        names = zip(plain, _PARAMETERS, strict=False)
        given = [a.with_changes(keyword=cst.Name(n), equal=_EQUAL) for a, n in names] + given[len(plain) :]
    place = len(plain) if name.startswith("custom") else 0
    given.insert(place, _argument("device_type" if name.startswith("custom") else "", f'"{device}"'))
    given += [_argument(key, value) for key, value in more.items()]
    func = cst.parse_expression(f"{new}.{name}") if new else _callee(use)
    call = use if isinstance(use, cst.Call) else cst.Call(func)
    needs: list[NodeEdit] = [NeedImport("torch")] if "dtype" in more else []
    return [Replace(use, call.with_changes(func=func, args=given)), *needs]


def _argument(key: str, value: str) -> cst.Arg:
    expression = cst.parse_expression(value)
    return cst.Arg(expression, cst.Name(key), _EQUAL) if key else cst.Arg(expression)


def _inherited(use: cst.BaseExpression, device: str, module: Module) -> dict[str, str]:
    """Return the old defaults that the new class would take over from an outer autocast instead.

    Also where it is switched off: an autocast inside of it would take them over in turn.
    """
    if not isinstance(use, cst.Call):
        return {}
    given = module.arguments(use, "torch.cuda.amp.autocast")
    outer = [c for c in module.contexts(use) if module.name(c.func) in _AUTOCASTS]
    nested = not _outermost(use, module) or any(_sets_dtype(c) for c in outer) or "set_autocast" in module.text
    out = {}
    if nested and given.value("dtype") is None:
        out["dtype"] = _DTYPES[device]
    if given.value("cache_enabled") is None and any(module.keyword(c, "cache_enabled") is not None for c in outer):
        out["cache_enabled"] = "True"
    return out


def _outermost(use: cst.CSTNode, module: Module) -> bool:
    """Say whether no caller can hold an autocast: in a script, in a loop over batches, or in a function that trains."""
    function, heat = module.function(use), module.heat(use)
    calls = module.within(function, cst.Call) if function is not None else ()
    trains = any(isinstance(call, cst.Call) and module.is_step(call) for call in calls)
    alone = function is None or heat.loop is not None or trains
    return alone and not isinstance(module.parent(use), cst.Decorator)


def _sets_dtype(call: cst.Call) -> bool:
    plain = [arg for arg in call.args if arg.keyword is None]
    return len(plain) > 1 or any(arg.star or (arg.keyword and arg.keyword.value == "dtype") for arg in call.args)


def _tested(module: Module) -> bool:
    """Say whether the file names an old class other than to call it: in ``isinstance``, as a base class, an alias."""
    for node in module.nodes(cst.Attribute):
        if _OLD.match(module.name(node) or "") and module.use(node) is None:
            return not any(isinstance(above, cst.Annotation) for above in module.ancestors(node))
    return False
