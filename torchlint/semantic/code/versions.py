"""Versions of a library: code that runs only with some (version tests, feature tests, fallbacks of
failed imports), and those that the project does not promise."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.guards import conditions_around
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_ORDER = r"(ge|gt|le|lt|gte|lte|greater|less|equal|least|newer|older|before|above|below|since)"
_VERSION = re.compile(
    rf"version|hasattr|(torch|_{_ORDER})_?\d|torch\w*_\d|torch_(\w+_)?{_ORDER}(_\w+)?\(",
    re.IGNORECASE,
)
"""Words of a test: ``TORCH_2_4``, ``_TORCH_GREATER_EQUAL_2_4``, ``torch_at_least("2.4")``."""
_FALLBACK = re.compile(r"\b(ImportError|ModuleNotFoundError|AttributeError|TypeError|Exception)\b")

_NEEDS = "It needs torch {}.{} or newer, and nothing in the project says which torch it has."


@question(
    yes="nothing in the project says which torch it has",
    no="the project says which torch it has",
    ground=True,
    remember=False,
)
def torch_unsaid(module: Module, since: tuple[int, int]) -> str:
    """Return what the note of a fix says that needs this torch, where nothing in the project says
    which torch it has; elsewhere nothing."""
    return "" if module.torch_declared else _NEEDS.format(*since)


@question(
    yes="it is one branch of code for several versions of a library",
    no="it is not code for one version of a library",
    ground=True,
)
def version_guarded(module: Module, node: cst.CSTNode) -> bool:
    """Say whether `node` is one branch of code for several versions of a library.

    That is behind a test of a version (``TORCH_2_4``, ``version.parse(...)``, ``hasattr``), also
    through a name assigned once, or in a handler that catches what a missing feature raises.
    """
    code = module.root.code_for_node
    for test, _ in conditions_around(module, node, module.root):
        names = list(module.within(test, cst.Name))
        meanings = [d for n in names if (d := sole_definition(module, n)) is not None]
        if any(_VERSION.search(code(part)) for part in (test, *meanings)):
            return True
    for above in module.ancestors(node):
        if isinstance(above, cst.ExceptHandler) and (
            above.type is None or _FALLBACK.search(code(above.type))
        ):
            return True
    return False
