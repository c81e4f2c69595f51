"""Use torch.amp, which takes the device as an argument

## Why
Since PyTorch 2.4 `torch.cuda.amp.*` and `torch.cpu.amp.*` warn with a FutureWarning; the AMP page
of the docs names `torch.amp.autocast("cuda", ...)`, `torch.amp.GradScaler("cuda", ...)` and the
decorators with `device_type=` as their successors. Nothing gets faster: this is a modernisation.
The old `autocast` takes `(enabled, dtype, cache_enabled)`, the new one `(device_type, dtype,
enabled, cache_enabled)`, so positional arguments have to become keywords.

Flagged: a call, or a use as a decorator, of `autocast`, `GradScaler`, `custom_fwd` or `custom_bwd`
of `torch.cuda.amp` or `torch.cpu.amp`, through any form of import, outside of code for several
versions of torch. Silent where the dependencies hold torch below 2.4 (`torch==2.0.1`), and where
they allow one that lacks the new name.

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

## Good
```python
with torch.amp.autocast("cuda", enabled=True, dtype=torch.bfloat16):
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

## Fix safety
Safe from torch 2.4 on: same arguments, same values. The new `autocast` takes its defaults from an
outer one or from `torch.set_autocast_dtype`; where a file of the project sets them, or the code
around it gives an outer one others, the fix is unsafe. Where nothing in the project says which
torch it needs, the fix is unsafe, for `torch.amp.autocast` came with torch 1.12, `GradScaler` with
2.3 and the decorators with 2.4. It is unsafe also where other code may notice that the class is
another one: a scaler or context that is handed on, an import that another file uses or binds anew,
code that collects warnings. The old classes are subclasses of the new ones. An import is only
changed together with all places that use it.

## Measure
Not timed: nothing gets faster, as the new names do the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Fix,
    Hit,
    Module,
    NeedImport,
    NodeEdit,
    Replace,
    Rule,
    Safety,
    one_sentence,
)
from torchlint.rules.precision._deprecated_cuda_amp import forms as amp
from torchlint.semantic.code.imports import (
    import_of,
    import_reads,
    is_exported,
    torch_name,
    use_of,
)
from torchlint.semantic.code.tree import callee, has_star, root_of
from torchlint.semantic.code.versions import too_early, torch_unsaid, version_guarded
from torchlint.semantic.uses.assumptions import AUTOCASTS, FRAMES
from torchlint.semantic.uses.observers import stays_here

_OLD = regex(r"torch\.(cuda|cpu)\.amp\.(autocast|GradScaler|custom_fwd|custom_bwd)$")
_PARAMETERS = {
    "autocast": ("enabled", "dtype", "cache_enabled"),
    "GradScaler": ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"),
    "custom_fwd": ("fwd", "cast_inputs"),
    "custom_bwd": ("bwd",),
}
_POSITIONAL = {"autocast": 3, "GradScaler": 5, "custom_fwd": 1, "custom_bwd": 1}
_SCALER = (
    "The scaler is no longer an instance of the old class, should code elsewhere test for that."
)
_CONTEXT = (
    "The context is no longer an instance of the old class, should code elsewhere test for that."
)
_IMPORT = (
    "Other code may use this file's import or bind its names anew; what is imported takes "
    "other arguments now."
)
_ANNOTATION = (
    "An annotation names another class afterwards, should code read it when the program runs."
)
_NEW = {
    "autocast": 'autocast("{device}", ...)',
    "GradScaler": 'GradScaler("{device}", ...)',
    "custom_fwd": 'custom_fwd(device_type="{device}")',
    "custom_bwd": 'custom_bwd(device_type="{device}")',
}
_TAKES_OVER = (
    "The new autocast takes over the dtype and the cache that the program, or an autocast around "
    "it, has set; the old one did not."
)
_CALLS = [f"torch.{device}.amp.{name}" for device in ("cuda", "cpu") for name in _NEW]
_SINCE = {"autocast": (1, 12), "GradScaler": (2, 3), "custom_fwd": (2, 4), "custom_bwd": (2, 4)}
"""The versions of torch that brought the new names (docs and release notes of PyTorch)."""
_DEPRECATED = (2, 4)
_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))

rule = Rule(
    __name__,
    __doc__,
    code="TL408",
    message="torch.{device}.amp.{name} is deprecated; use torch.amp.{new}.",
    severity="info",
    default=True,
    effect="none",
    triggers=(b"amp",),
    equivalence="bitwise",
)


@rule.on(cst.Decorator, benchmarks=True)
@rule.on(cst.Call, calls=_CALLS, benchmarks=True)
def check(node: cst.Call | cst.Decorator, module: Module) -> Iterator[Hit]:
    use = node.decorator if isinstance(node, cst.Decorator) else node
    found = _old_name(module, use)
    if (
        found is None
        or (use is not node and isinstance(use, cst.Call))
        or version_guarded(module, node)
        or too_early(module, _SINCE[found[2]], _DEPRECATED)
    ):
        return
    device, name = found.groups()
    yield Hit(
        use,
        {"device": device, "name": name, "new": _NEW[name].format(device=device)},
        fix=_fix(module, use),
    )


def _old_name(module: Module, use: cst.BaseExpression) -> re.Match[str] | None:
    return _OLD.match(module.name(callee(use)) or "")


def _fix(module: Module, use: cst.BaseExpression) -> Fix | None:
    """Return the fix of one use, or of all uses of the import that it goes through."""
    root = root_of(callee(use), cst.Attribute)
    start, home, uses, new = module.name(root) or "", import_of(module, root), [use], "torch.amp"
    edits: list[NodeEdit] = []
    doubts: list[str] = []
    if start == "torch" and isinstance(root, cst.Name):
        new = f"{root.value}.amp"
    elif start in ("torch.cuda", "torch.cpu"):
        torch = torch_name(module)
        edits, new = [NeedImport("torch", torch)], f"{torch}.amp"
    elif home is not None and not version_guarded(module, home):
        changed = _import(home, start)
        found = [use_of(module, read) for read in import_reads(module, home)]
        uses, new = [u for u in found if u is not None], ""
        if changed is None or len(uses) < len(found) or is_exported(module, home):
            return None
        edits = [changed]
        doubts += _doubts_of_import(module, home)
    else:
        return None
    if module.target_torch < _DEPRECATED or not all(_has_successor(module, each) for each in uses):
        return None
    doubts += [words for each in uses for words in _doubts(module, each)]
    doubts.append(torch_unsaid(module, max(_SINCE[_name(module, each)] for each in uses)))
    doubt = one_sentence(doubts)
    safety = Safety.SUGGESTION if _is_tested(module) else Safety.UNSAFE if doubt else Safety.SAFE
    edits += [_change(module, each, new) for each in uses]
    casts = any(_name(module, each) == "autocast" for each in uses)
    assumes = {FRAMES: _IMPORT} | ({AUTOCASTS: _TAKES_OVER} if casts else {})
    return Fix(tuple(dict.fromkeys(edits)), safety, "Use torch.amp", doubt, assumes=assumes)


def _import(home: cst.Import | cst.ImportFrom, start: str) -> NodeEdit | None:
    """Return the change of an import, where it binds the old modules' names only."""
    whole = start.endswith(".amp")
    if isinstance(home.names, cst.ImportStar) or (
        isinstance(home, cst.Import) and len(home.names) > 1
    ):
        return None
    new = cst.parse_expression(
        "torch" if whole and isinstance(home, cst.ImportFrom) else "torch.amp"
    )
    if isinstance(home, cst.Import):
        return Replace(home.names[0].name, new)
    names = {alias.evaluated_name for alias in home.names}
    return (
        Replace(home.module, new)
        if home.module and names <= ({"amp"} if whole else set(_NEW))
        else None
    )


def _doubts_of_import(module: Module, home: cst.Import | cst.ImportFrom) -> Iterator[str]:
    """Yield why the change of an import may be seen by code that does not change with it."""
    names = (
        []
        if isinstance(home.names, cst.ImportStar)
        else [a.evaluated_alias or a.evaluated_name for a in home.names]
    )
    if not amp.private(module, home, names):
        yield _IMPORT
    if amp.annotates(module, home):
        yield _ANNOTATION


def _doubts(module: Module, use: cst.BaseExpression) -> Iterator[str]:
    """Yield why one use may not do the same under its new name."""
    name = _name(module, use)
    if name == "GradScaler" and not stays_here(module, use):
        yield _SCALER
    if name == "autocast" and not amp.only_entered(module, use):
        yield _CONTEXT
    if name == "autocast" and amp.inside_other_settings(module, use):
        yield _TAKES_OVER


def _name(module: Module, use: cst.BaseExpression) -> str:
    return (module.name(callee(use)) or "").rpartition(".")[2]


def _change(module: Module, use: cst.BaseExpression, new: str) -> NodeEdit:
    """Return the edit of one call or decorator that has a successor."""
    found = _old_name(module, use)
    assert found is not None
    device, name = found.groups()
    given = list(use.args) if isinstance(use, cst.Call) else []
    plain = [arg for arg in given if arg.keyword is None]
    if name == "autocast":
        names = zip(plain, _PARAMETERS[name], strict=False)
        given = [a.with_changes(keyword=cst.Name(n), equal=_EQUAL) for a, n in names] + given[
            len(plain) :
        ]
    place = len(plain) if name.startswith("custom") else 0
    given.insert(
        place, _argument("device_type" if name.startswith("custom") else "", f'"{device}"')
    )
    func = cst.parse_expression(f"{new}.{name}") if new else callee(use)
    call = use if isinstance(use, cst.Call) else cst.Call(func)
    return Replace(use, call.with_changes(func=func, args=given))


def _has_successor(module: Module, use: cst.BaseExpression) -> bool:
    """Say whether a use is an old call or decorator whose arguments are understood; of those for
    the CPU, the decorators have no old form."""
    found = _old_name(module, use)
    if found is None or not _understood(use, found[2]):
        return False
    return not (found[1] == "cpu" and found[2].startswith("custom"))


def _understood(use: cst.BaseExpression, name: str) -> bool:
    """Say whether the old callable accepts the arguments, and each is one that the new one
    knows."""
    if not isinstance(use, cst.Call):
        return name.startswith(
            "custom"
        )  # A bare ``@autocast`` takes the function for its argument `enabled`.
    plain = [arg for arg in use.args if arg.keyword is None]
    words = [arg.keyword.value for arg in use.args if arg.keyword is not None]
    taken = _PARAMETERS[name][: len(plain)]
    if has_star(use) or len(plain) > _POSITIONAL[name] or (name == "custom_bwd" and not use.args):
        return False
    return len({*taken, *words}) == len(use.args) and set(words) <= set(_PARAMETERS[name])


def _argument(key: str, value: str) -> cst.Arg:
    expression = cst.parse_expression(value)
    return cst.Arg(expression, cst.Name(key), _EQUAL) if key else cst.Arg(expression)


def _is_tested(module: Module) -> bool:
    """Say whether the file names an old class other than to call it: in ``isinstance``, as a base
    class, an alias."""
    for node in module.nodes(cst.Attribute):
        if _OLD.match(module.name(node) or "") and use_of(module, node) is None:
            return not any(isinstance(above, cst.Annotation) for above in module.ancestors(node))
    return False
