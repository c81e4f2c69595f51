"""What the code of a class assigns to attributes of `self`, as it is written."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.names import stored
from torchlint.semantic.code.tree import Tree, attr_of, is_name

Assignments = dict[str, list[cst.CSTNode]]
"""By attribute name, the expressions assigned to ``self.name``; an unpacked target stands for
itself."""


def self_assignments(tree: Tree, cls: cst.ClassDef) -> Assignments:
    """Return what a class's code assigns to attributes of ``self``; what a method changes at once,
    ``self.x = self.x.cuda()``, nobody else sees as it was before."""
    out: Assignments = {}
    for node in tree.within(cls.body, cst.Assign, cst.AnnAssign, nested=True):
        if isinstance(node, cst.Assign):
            for each in node.targets:
                name = _changed_at_once(tree, each.target, node.value)
                if name is not None:
                    home = tree.owners[node]
                    out[name] = [e for e in out.get(name, []) if tree.owners[e] is not home]
                _add(out, each.target, node.value)
        elif isinstance(node, cst.AnnAssign) and node.value is not None:
            _add(out, node.target, node.value)
    return out


def _changed_at_once(tree: Tree, target: cst.CSTNode, value: cst.CSTNode) -> str | None:
    """Return the attribute of ``self`` that each call of a method gives a value made of itself by
    a method of its own."""
    own = isinstance(target, cst.Attribute) and is_name(target.value, "self")
    match value:
        case cst.Call(cst.Attribute(given)) if own and given.deep_equals(target):
            straight = (cst.With, cst.IndentedBlock, cst.SimpleStatementLine, cst.Assign)
            above = next(each for each in tree.ancestors(value) if not isinstance(each, straight))
            return attr_of(target) if isinstance(above, cst.FunctionDef) else None
    return None


def _add(out: Assignments, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
    for place, given in stored(target, value):
        if isinstance(place, cst.Attribute) and is_name(place.value, "self"):
            out.setdefault(place.attr.value, []).append(given or place)


def registered_buffers(tree: Tree, cls: cst.ClassDef) -> frozenset[str]:
    """Return the names given to ``self.register_buffer`` and ``register_parameter`` in a class."""
    out = set()
    for call in tree.within(cls.body, cst.Call, nested=True):
        func = call.func
        if attr_of(func) in ("register_buffer", "register_parameter") and call.args:
            first = call.args[0].value
            if isinstance(first, cst.SimpleString):
                out.add(str(first.raw_value))
    return frozenset(out)
