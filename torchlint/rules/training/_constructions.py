"""What becomes of a new object: whether it is only called where it was made."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops

# Methods of a module that return the module itself.
_CHAIN = ops.having("module", "chains")


@question(yes="the new module is called at once", no="the new module is kept, or goes elsewhere")
def called_at_once(module: Module, made: cst.Call) -> bool:
    """Say whether a new module is called on the spot, or under the name it is given, and goes
    nowhere else."""
    node: cst.CSTNode = made
    above = module.parent(node)
    while isinstance(above, cst.Attribute) and above.attr.value in _CHAIN:
        outer = module.parent(above)
        if not isinstance(outer, cst.Call) or outer.func is not above:
            return False
        node, above = outer, module.parent(outer)
    if isinstance(above, cst.Call):
        return above.func is node
    match above:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            users = [
                (read, module.parent(read)) for read in reads_of(module, module.scope(made), name)
            ]
            return bool(users) and all(
                isinstance(user, cst.Call) and user.func is read for read, user in users
            )
    return False
