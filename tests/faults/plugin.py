"""A plugin of rules that misbehave on purpose, installed in a folder that the import path of one run names."""

from __future__ import annotations

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
torch.{name}(1)
```

## Good
```python
torch.fine(1)
```

## Leave alone
Anything else.
```python
torch.fine(1)
```

## Measure
Not at all.
"""

import libcst as cst

from torchlint.rule import Fix, Hit, Replace, Rule, Safety

rule = Rule(
    __name__,
    __doc__,
    code="{code}",
    message="Found {name}.",
    severity="warning",
    default=True,
    triggers=(b"torch.{name}",),
)


@rule.on(cst.Call)
def check(node, module):
    if module.name(node.func) == "torch.{name}":
        yield Hit(node, fix=Fix((Replace(node, {new}),), Safety.SAFE, "Change it"))
'''

RULES = {
    "outer": ("FT101", 'node.with_changes(func=cst.parse_expression("torch.fine"))'),
    "inner": ("FT102", 'node.with_changes(func=cst.parse_expression("torch.fine"))'),
    "broken": ("FT103", 'cst.Name("class")'),
    "unordered": ("FT104", "node.with_changes(args=[cst.Arg(cst.Name('a'), keyword=cst.Name('a')), *node.args])"),
    "restless": ("FT105", "node.with_changes(args=[*node.args, *node.args])"),
    "slow_to_rest": ("FT106", "node.with_changes(args=node.args[1:]) if len(node.args) > 1 else cst.Name('None')"),
}
"""Name of the function in torch that a rule finds: its code, and the node that its fix puts there."""


def install(folder: Path) -> dict[str, str]:
    """Write the plugin into `folder`, and return the environment in which torchlint finds it."""
    rules = folder / "torchlint_faults" / "rules"
    rules.mkdir(parents=True)
    (rules.parent / "__init__.py").touch()
    (rules / "__init__.py").touch()
    for name, (code, new) in RULES.items():
        (rules / f"{name}.py").write_text(_RULE.format(name=name, code=code, new=new), "utf-8")
    info = folder / "torchlint_faults-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torchlint-faults\nVersion: 1\n", "utf-8")
    (info / "entry_points.txt").write_text("[torchlint.rules]\nfaults = torchlint_faults.rules\n", "utf-8")
    return {"PYTHONPATH": str(folder)}
