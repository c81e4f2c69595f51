"""A plugin of rules that misbehave on purpose, installed in a folder that the import path of one
run names."""

from __future__ import annotations

from pathlib import Path

from tests import small_plugin
from tests.small_plugin import fix, rule_text

RULES = {
    "outer": ("FT101", "fine"),
    "inner": ("FT102", "fine"),
    "broken": ("FT103", 'cst.Name("class")'),
    "unordered": (
        "FT104",
        "node.with_changes(args=[cst.Arg(cst.Name('a'), keyword=cst.Name('a')), *node.args])",
    ),
    "restless": ("FT105", "node.with_changes(args=[*node.args, *node.args])"),
    "slow_to_rest": (
        "FT106",
        "node.with_changes(args=node.args[1:]) if len(node.args) > 1 else cst.Name('None')",
    ),
}
"""Name of the function in torch that a rule finds: its code, and the node that its fix puts
there."""


def install(folder: Path) -> dict[str, str]:
    """Write the plugin into `folder`, and return the environment in which torchlint finds it."""
    files = {
        f"rules/{name}.py": rule_text(name, code, fix(new)) for name, (code, new) in RULES.items()
    }
    return small_plugin.install(folder, "torchlint_faults", files, entry="torchlint_faults.rules")
