"""Flags that are off unless somebody debugs, measures or checks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.calls import string
from torchlint.semantic.code.flags import truth
from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.tree import Tree
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_DEBUG_NAME = regex(
    r"(^|[._])(debug\w*|__debug__|dry_run|sanity\w*|profil\w*|benchmark\w*|timings?|timeit"
    r"|(measure|log|print|record|track|enable|show)_(time|times|speed|latency)|time_(it|steps?))"
    r"(_?(enabled|on|mode|active)|\.(enabled?|on|active))?$",
    re.IGNORECASE,
)
_CHECK_NAME = regex(r"[._](validat(e|ion|ing)|check|verify|assert)(_\w+)?$", re.IGNORECASE)


def reads_debug_flag(test: cst.CSTNode) -> bool:
    """Say whether a test reads a debug or profiling flag: ``self.debug``, ``cfg["debug"]``,
    ``getattr(self, "debug", False)``, ``os.environ.get("DEBUG")``."""
    match test:
        case cst.BooleanOperation(left, right=right):
            return reads_debug_flag(left) or reads_debug_flag(right)
        case (
            cst.Call(cst.Name("getattr"), [_, cst.Arg(key), *_])
            | cst.Call(
                cst.Attribute(attr=cst.Name("get" | "getenv")),
                [cst.Arg(key), *_],
            )
            | cst.Subscript(slice=[cst.SubscriptElement(cst.Index(key))])
        ):
            return bool(_DEBUG_NAME.search(string(key) or ""))
    return bool(_DEBUG_NAME.search(dotted_text(test) or ""))


def check_left_off(tree: Tree, names: Names, test: cst.BaseExpression) -> bool:
    """Say whether a test asks an object for a check of values that is off by default:
    ``self.validate``, of a constructor with ``validate=False``."""
    text, cls = dotted_text(test) or "", tree.class_of(test)
    if cls is None or not text.startswith("self.") or not _CHECK_NAME.search(text):
        return False
    given = list(given_to(tree, cls, text[len("self.") :]))
    return bool(given) and all(_is_off(names, each) for each in given)


def given_to(tree: Tree, cls: cst.ClassDef, name: str) -> Iterator[cst.BaseExpression]:
    """Yield what a class assigns to an attribute of ``self``, or to a field."""
    for each in tree.within(cls, cst.Assign, nested=True):
        if any(dotted_text(target.target) == f"self.{name}" for target in each.targets):
            yield each.value
    for field in tree.within(cls, cst.AnnAssign, nested=True):
        if field.value is not None and dotted_text(field.target) in (f"self.{name}", name):
            yield field.value


def _is_off(names: Names, node: cst.BaseExpression) -> bool:
    """Say whether a value is False, or a parameter that is False by default."""
    if truth(node) is not None or not isinstance(node, cst.Name):
        return truth(node) is False
    _, bindings = names.bindings(node.value, node)
    param = bindings[0].node if len(bindings) == 1 else None
    return isinstance(param, cst.Param) and truth(param.default) is False


@question(yes="`{0}` reads a debug flag", no="`{0}` reads no debug flag", ground=True)
def is_debug(module: Module, test: cst.CSTNode) -> bool:
    """Say whether a test reads a debug flag."""
    return reads_debug_flag(test)
