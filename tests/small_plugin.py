"""A small rule for tests, and a plugin of such rules, installed in a folder for the import path of
a run."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

_RULE = '''"""Title of {name}

## Why
For tests.

## Setup
```python
import torch
```

## Bad
```python
torch.{name}()
```

## Good
```python
torch.fine()
```

## Leave alone
Anything else.
```python
torch.fine()
```

## Fix safety
It is a test.

## Measure
Not at all.
"""

import ctypes
import os
import signal
import time

import libcst as cst

from torchlint.rule import Fix, Hit, Replace, Rule, Safety

rule = Rule(
    __name__,
    __doc__,
    code="{code}",
    message="Found {name}.",
    severity="{severity}",
    default=True,
    triggers=(b"{name}",),
)


@rule.on(cst.Call)
def check(node, module):
    if module.name(node.func) == "torch.{name}":
        fine = node.with_changes(func=cst.parse_expression("torch.fine"))
{body}
    yield from ()
'''


def rule_text(name: str, code: str, body: str | None = None, *, severity: str = "warning") -> str:
    """Return a rule file that finds calls of ``torch.{name}``.

    Args:
        name: of the function, and of the file.
        code: the rule's.
        body: statements that yield `Hit` for the call `node`, in whose place `fine` could stand; by
            default a safe fix puts it there.
        severity: the rule's.
    """
    body = fix("fine") if body is None else body
    return _RULE.format(
        name=name, code=code, severity=severity, body=textwrap.indent(body, " " * 8)
    )


def fix(new: str, safety: str = "SAFE", note: str = "") -> str:
    """Return the body that yields a hit with a fix: put the node that `new` says there."""
    return (
        f'yield Hit(node, fix=Fix((Replace(node, {new}),), Safety.{safety}, "Change it", "{note}"))'
    )


def install(
    folder: Path, package: str, files: Mapping[str, str], *, entry: str | None = None
) -> dict[str, str]:
    """Write an installed plugin into `folder`, and return the environment in which torchlint finds
    it.

    Args:
        folder: becomes a part of the import path.
        package: its top-level package; the distribution has the same name with dashes.
        files: paths in that package with what they hold.
        entry: what the entry point names; by default the package.
    """
    for name, text in {"__init__.py": "", **files}.items():
        path = folder / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    info = folder / f"{package}-1.dist-info"
    info.mkdir(exist_ok=True)
    dashed = package.replace("_", "-")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dashed}\nVersion: 1\n", "utf-8")
    (info / "entry_points.txt").write_text(
        f"[torchlint.rules]\n{package} = {entry or package}\n", "utf-8"
    )
    return {"PYTHONPATH": str(folder)}
