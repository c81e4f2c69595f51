"""Contexts, decorators and switches around code that turn autograd off or on. A part of
`Scopes`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.tree import Tree, is_name
from torchlint.semantic.torch import names as torch_names

if TYPE_CHECKING:
    from torchlint.semantic.code.scopes import Scopes

_NO_GRAD_WORDS = regex(r"no_?grad|inference_?mode|disable_?grad", re.IGNORECASE)
_GRAD_WORDS = regex(
    r"no_?grad|grad_?(enabled|mode|ctx|context)|enable_?grad|inference|eval", re.IGNORECASE
)
_NO_GRAD_CODE = regex(r"no_grad|inference_mode|set_grad_enabled")


class GradContexts:
    """The part of `Scopes` that reads from the text around code whether autograd is on."""

    tree: Tree
    names: Names

    @property
    def _scopes(self) -> Scopes:
        return cast("Scopes", self)

    def lexical_no_grad(self, node: cst.CSTNode) -> bool | None:
        """Say whether ``no_grad`` holds at `node` by the text around it: True, False
        (``enable_grad``), or None."""
        for above in self.tree.ancestors(node):
            if isinstance(above, cst.With):
                for item in above.items:
                    if item is node or self.tree.is_within(node, item):
                        continue
                    verdict = self._context(item.item)
                    if verdict is not None:
                        return verdict
            elif isinstance(above, cst.FunctionDef):
                if self._scopes.tree.function(node) is not above and not self.tree.is_within(
                    node, above.body
                ):
                    continue
                for expr, name in self._scopes.decorators(above):
                    verdict = self._is_named(name, expr)
                    if verdict is not None:
                        return verdict
                if self._switched_off(above, node):
                    return True
        return None

    def _context(self, expr: cst.BaseExpression) -> bool | None:
        callee = expr.func if isinstance(expr, cst.Call) else expr
        name = self.names.name(callee) or dotted_text(callee) or ""
        return self._is_named(name, expr)

    def _is_named(self, name: str, expr: cst.BaseExpression) -> bool | None:
        if name in torch_names.NO_GRAD:
            return True
        if name == "torch.enable_grad":
            return False
        if name == "torch.set_grad_enabled" and isinstance(expr, cst.Call) and expr.args:
            value = expr.args[0].value
            if is_name(value, "True", "False"):
                return value.value == "False"
            return None
        if _NO_GRAD_WORDS.search(name.rpartition(".")[2]):
            return True
        return None

    def conditional_grad(self, node: cst.CSTNode) -> bool:
        """Say whether a context or decorator around `node` may decide about autograd in a way that
        is not known.

        That is ``set_grad_enabled(<expression>)``, ``no_grad() if test else nullcontext()``, and
        contexts whose name or definition in this file speaks of evaluation or ``no_grad``.
        """
        for above in self.tree.ancestors(node):
            if isinstance(above, cst.With):
                around = [item.item for item in above.items if not self.tree.is_within(node, item)]
            elif isinstance(above, cst.FunctionDef) and self.tree.is_within(node, above.body):
                around = [expr for expr, _ in self._scopes.decorators(above)]
            else:
                continue
            if any(self._is_unclear(expr) for expr in around):
                return True
        return False

    def _is_unclear(self, expr: cst.BaseExpression) -> bool:
        if self._context(expr) is not None:
            return False
        if any(map(_GRAD_WORDS.search, self.tree.names_in(expr))):
            return True
        callee = expr.func if isinstance(expr, cst.Call) else expr
        return any(
            _NO_GRAD_CODE.search(self.tree.root.code_for_node(n)) for n in self._made_by(callee)
        )

    def _made_by(self, callee: cst.BaseExpression) -> list[cst.CSTNode]:
        """Return the definitions or assignments in this file that a name, or a method of ``self``,
        may stand for."""
        if isinstance(callee, cst.Name):
            _, bindings = self.names.bindings(callee.value, callee)
            return [b.node for b in bindings if b.kind in ("def", "class", "assign")]
        cls = self._scopes.tree.class_of(callee)
        if (
            isinstance(callee, cst.Attribute)
            and dotted_text(callee.value) == "self"
            and cls is not None
        ):
            found = self._scopes.method(cls, callee.attr.value)
            return [found] if found is not None else []
        return []

    def _switched_off(self, function: cst.CSTNode, node: cst.CSTNode) -> bool:
        if not self.tree.named("set_grad_enabled"):
            return False
        for call in self.tree.within(function, cst.Call):
            if self.tree.order[call] > self.tree.order[node] or not call.args:
                continue
            value = call.args[0].value
            if is_name(value, "False"):
                statement = self.tree.parents.get(call)
                if (
                    isinstance(statement, cst.Expr)
                    and self.names.name(call.func) == "torch.set_grad_enabled"
                ):
                    return True
        return False
