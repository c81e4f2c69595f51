"""What may run although no code shows it: whatever a package offers to others. A private function
is none of it."""

from __future__ import annotations

import functools

import libcst as cst

from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.module import Module
from torchlint.semantic.question import question


@question(
    yes="it stands in `{answer}`, a private function of which nobody in the project speaks",
    no="somebody may call the function",
    ground=True,
)
def uncalled(module: Module, node: cst.CSTNode) -> str | None:
    """Return the private function around a node, or that it is, whose name stands nowhere in the
    project but at its definition; None where there is none.

    What has a decorator is handed to it, and a method may be called by a base class of a library
    other than torch. Where the project is too large to tell, somebody may call anything.
    """
    around = [node, *module.ancestors(node)]
    for each in around:
        if isinstance(each, cst.FunctionDef) and _private(module, each):
            name = each.name.value
            said = functools.partial(_says, name)
            if module.text.count(name) == 1 and (
                module.outside.others_say(said, near=False) is False
            ):
                return name
    return None


def _private(module: Module, function: cst.FunctionDef) -> bool:
    name, cls = function.name.value, module.class_of(function)
    if not name.startswith("_") or name.endswith("__") or len(name) < len("_ab"):
        return False
    bases = scopes(module).base_names(cls) if cls is not None else []
    return not function.decorators and all(
        base.startswith(("torch.", "builtins.")) for base in bases
    )


def _says(name: str, text: str) -> bool:
    return name in text
