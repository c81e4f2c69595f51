"""Versions of a library: code that runs only with some (version tests, feature tests, fallbacks of
failed imports), and those that the project does not promise."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_ORDER = r"(ge|gt|le|lt|gte|lte|greater|less|equal|least|newer|older|before|above|below|since)"
_VERSION = regex(
    rf"version|hasattr|(torch|_{_ORDER})_?\d|torch\w*_\d|torch_(\w+_)?{_ORDER}(_\w+)?\(",
    re.IGNORECASE,
)
"""Words of a test: ``TORCH_2_4``, ``_TORCH_GREATER_EQUAL_2_4``, ``torch_at_least("2.4")``."""
_RAISED = "ImportError|ModuleNotFoundError|AttributeError|TypeError"
"""What a missing feature raises."""
_MISSING = regex(rf"\b({_RAISED})\b")
_FALLBACK = regex(rf"\b({_RAISED}|Exception)\b")
_LIGHTNING_1 = regex(
    r"""^[^\n#]*(?<![\w.])(pytorch[-_.])?lightning(\[[\w,\s]*\])?["']?\s*
    ((=\s*(\{[^\n}]*\bversion\s*=\s*)?["']|\()\s*)?
    ([<>=!~]=?\s*v?[\d.*]+\s*,\s*)*
    ((\^|~?={1,3}|~|<=?)\s*v?[01](?!\d)|<\s*v?2(\.0)*(?!\.?\d))""",
    re.MULTILINE | re.VERBOSE,
)
"""A line of a list of dependencies that allows Lightning 1 alone: ``pytorch-lightning==1.2.3``,
``lightning<2``, ``pytorch-lightning = "^1.5"``."""
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
    yes="in a torch of the project the old name is not deprecated, or the new one is not there yet",
    no="a torch of the project may have deprecated the old name, and each has the new one",
    ground=True,
    remember=False,
)
def too_early(module: Module, since: tuple[int, int], deprecated: tuple[int, int]) -> bool:
    """Say whether the torch of the project is too old for a new name, which came with `since`, or
    not new enough for the old one to be `deprecated`."""
    return module.target_torch < since or before_torch(module, deprecated)


@question(
    yes="the project allows older versions of torch alone",
    no="the project may have such a torch",
    ground=True,
    remember=False,
)
def before_torch(module: Module, version: tuple[int, int]) -> bool:
    """Say whether all that the project allows is older than a version of torch."""
    return module.newest_torch is not None and module.newest_torch < version


@question(
    yes="the project asks for a Lightning before version 2",
    no="the project may have Lightning 2",
    ground=True,
)
def before_lightning_2(module: Module) -> bool:
    """Say whether a list of dependencies of the project keeps Lightning below version 2."""
    return any(_LIGHTNING_1.search(text) for text in module.outside.dependencies())


@question(
    yes="it is one branch of code for several versions of a library",
    no="it is not code for one version of a library",
    ground=True,
)
def version_guarded(module: Module, node: cst.CSTNode) -> bool:
    """Say whether `node` is one branch of code for several versions of a library.

    That is behind a test of a version (``TORCH_2_4``, ``version.parse(...)``, ``hasattr``), also
    through a name assigned once, in a handler that catches what a missing feature raises, or where
    one comes to after such a branch has not returned.
    """
    tests = (test for test, _ in conditions_around(module, node, module.root))
    return (
        any(_asks_version(module, test) for test in tests)
        or any(
            isinstance(above, cst.ExceptHandler) and _catches_missing(module, above)
            for above in module.ancestors(node)
        )
        or any(_returns_newer(module, each) for each in _earlier(module, node))
    )


def _asks_version(module: Module, test: cst.BaseExpression) -> bool:
    names = list(module.within(test, cst.Name))
    meanings = [d for n in names if (d := sole_definition(module, n)) is not None]
    return any(_VERSION.search(module.source_of(part)) for part in (test, *meanings))


def _catches_missing(module: Module, handler: cst.ExceptHandler) -> bool:
    caught = handler.type
    return caught is None or _FALLBACK.search(module.root.code_for_node(caught)) is not None


def _earlier(module: Module, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the statements in front of a node's own, in its block."""
    line = module.statement(node)
    block = module.parent(line)
    for each in block.body if isinstance(block, cst.IndentedBlock) else ():
        if each is line:
            return
        yield each


def _returns_newer(module: Module, line: cst.CSTNode) -> bool:
    """Say whether a statement returns what a newer version of a library has."""
    match line:
        case cst.If(test, body):
            asks = _asks_version(module, test)
        case cst.Try(body=body, handlers=handlers):
            caught = (each.type for each in handlers if each.type is not None)
            asks = any(_MISSING.search(module.root.code_for_node(each)) for each in caught)
        case _:
            return False
    return asks and module.contains(body, cst.Return)
