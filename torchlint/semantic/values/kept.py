"""Attributes that only the constructor sets: the same in each step."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.tree import attr_of, is_name
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.classes import family_of

MUTATORS = frozenset(
    "append appendleft extend insert pop remove clear update sort reverse setdefault add".split()
)
"""Methods that change what an object holds."""


@question(
    yes="the constructor alone sets the attribute",
    no="more than the constructor sets the attribute",
)
def made_once(module: Module, cls: cst.ClassDef, name: str) -> cst.Assign | cst.AnnAssign | None:
    """Return the statement in ``__init__`` that alone assigns ``self.name`` in a class and its
    relatives."""
    found = _assignments(module, cls, name)
    function = module.function(found[0]) if len(found) == 1 else None
    return found[0] if function is not None and function.name.value == "__init__" else None


def _assignments(module: Module, cls: cst.ClassDef, name: str) -> list[cst.Assign | cst.AnnAssign]:
    """Return the statements that assign ``self.name`` in a class and its relatives; none where it
    is bound by more than assignments."""
    found: list[cst.Assign | cst.AnnAssign] = []
    for member in family_of(module, cls):
        for node in module.within(
            member.body, cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.Del, nested=True
        ):
            for each in module.within(getattr(node, "target", node), cst.Attribute):
                if _is_self(each, name) and not _is_inside(module, each):
                    statement = node if isinstance(node, cst.AnnAssign) else module.parent(node)
                    if not isinstance(statement, (cst.Assign, cst.AnnAssign)):
                        return []
                    found.append(statement)
    return found


@question(yes="the class writes into what it keeps there", no="the class leaves it as it is")
def refilled(module: Module, cls: cst.ClassDef, name: str) -> bool:
    """Say whether a class writes into what ``self.name`` holds, or into a part of it."""
    for node in module.within(cls.body, cst.Attribute, nested=True):
        if _is_self(node, name):
            part: cst.CSTNode = node
            while isinstance(above := module.parent(part), cst.Subscript) and above.value is part:
                part = above
            written = part is not node and isinstance(above, (cst.AssignTarget, cst.AugAssign))
            if written or attr_of(above) in MUTATORS:
                return True
    return False


def _is_self(node: cst.Attribute, name: str) -> bool:
    return node.attr.value == name and is_name(node.value, "self")


def _is_inside(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a target writes into what ``self.name`` holds, or only reads it: ``self.name[i] =
    …``, ``self.name.x = …``, ``x[self.name] = …``."""
    return isinstance(module.parent(node), (cst.Subscript, cst.Attribute, cst.Index, cst.Slice))
