"""Questions about layers and single values on their way through them. A part of `Module`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.reaching import Reaching
from torchlint.semantic.part import Part
from torchlint.semantic.values import attention, layers, operations
from torchlint.semantic.values.operations import Operation

if TYPE_CHECKING:
    pass


class Kernels(Part):
    """The part of `Module` that follows one value from the call that makes it to the calls that read it."""

    _reaching: Reaching | None = None

    @property
    def _definitions(self) -> Reaching:
        if self._reaching is None:
            module = self._module
            self._reaching = Reaching(module.tree, module._names, module._flow)
        return self._reaching

    # -- one value ----------------------------------------------------------------------------------------------

    def definitions(self, read: cst.Name) -> list[cst.CSTNode]:
        """Return the nodes that may have bound what a read of a name finds: assignments, a parameter's function, …"""
        return self._definitions.definitions(read)

    def readers(self, definition: cst.CSTNode, name: str) -> list[cst.Name]:
        """Return the reads that may find what an assignment binds to `name`; the target of ``x += …`` is one."""
        return self._definitions.reads(definition, name)

    def escaping(self, function: cst.FunctionDef) -> bool:
        """Say whether a function's name is used other than to call it, so that the file does not show all calls."""
        return self._module._flow.escapes(function)

    def uses(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the places where the value of an expression is read: itself, or all reads of its name."""
        above = self._module.parent(node)
        match above:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
                return list(self.readers(above, name))
            case cst.AnnAssign(target=cst.Name(value=name)):
                return list(self.readers(above, name))
            case cst.Expr():
                return []
        return [node]

    def sole_use(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the one place where the value of an expression is read; None where there are more, or none."""
        found = self.uses(node)
        return found[0] if len(found) == 1 else None

    # -- operations ---------------------------------------------------------------------------------------------

    def operation(self, node: cst.CSTNode | None) -> Operation | None:
        """Return the tensor operation that an expression stands for, however it is spelled, or None."""
        return operations.operation(self._module, node)

    def written_attention(self, softmax: cst.Call) -> cst.BaseExpression | None:
        """Return the product of queries and keys, where a softmax is the middle of attention that is written out."""
        return attention.written_out(self._module, softmax)

    # -- layers -------------------------------------------------------------------------------------------------

    def next_layer(self, layer: cst.Call) -> cst.Call | None:
        """Return the call that makes the layer which alone gets the output of the layer that `layer` makes."""
        return layers.next_layer(self._module, layer)

    def is_network(self, cls: cst.ClassDef) -> bool:
        """Say whether a class is an nn.Module."""
        return self._module._scopes.is_module(cls)

    def family(self, cls: cst.ClassDef) -> list[cst.ClassDef]:
        """Return a class, its bases and its subclasses, as far as this file has them."""
        scopes = self._module._scopes
        return [*scopes.lineage(cls), *scopes.subclasses(cls)]
