"""What training frameworks do by themselves: Lightning, and the Trainer of transformers.

Sources: the documentation of Lightning 2 (`Trainer`) and of transformers (`TrainingArguments`).
"""

from __future__ import annotations

from functools import partial

import libcst as cst

from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.values import library
from torchlint.semantic.values.classes import in_lightning

_ARGUMENTS = "transformers.TrainingArguments"
ARGUMENTS = partial(library.gives, _ARGUMENTS)
"""What makes them has one of these names."""


@question(
    yes="Lightning runs it for every batch, in {answer}()",
    no="Lightning does not run it for each batch",
)
def lightning_step(module: Module, node: cst.CSTNode) -> str | None:
    """Return the name of the LightningModule's method that runs `node` for every batch, or None."""
    heat = heat_of(module, node)
    if not heat.hot or not in_lightning(module, node):
        return None
    function = heat.why[-1].node if heat.why else None
    function = function if isinstance(function, cst.FunctionDef) else module.function(node)
    return function.name.value if function is not None else None


@question(yes="`{0}` makes TrainingArguments", no="`{0}` makes no TrainingArguments")
def makes_training_arguments(module: Module, call: cst.Call) -> bool:
    """Say whether a call makes the ``TrainingArguments`` of a transformers ``Trainer``."""
    return library.makes(module, module.name(call.func), _ARGUMENTS)
