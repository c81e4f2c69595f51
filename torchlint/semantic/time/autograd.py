"""Is autograd off at a node: by the text around it, or because every caller that is known holds it
off."""

from __future__ import annotations

import libcst as cst

from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.scopes import name_outside, scopes
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import callers_outside
from torchlint.semantic.torch import names as torch_names

_METRIC = regex(r"torchmetrics\.(\w+\.)*\w*Metric$")
"""The classes whose ``update`` runs without gradients (torchmetrics 1.8, metric.py)."""


class Autograd:
    """Answers `no_grad(node)` for one file; results are remembered by function."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._scopes = scopes(module)
        self._flow = flow(module)
        # A plain ``torch.set_grad_enabled(...)`` statement holds until the next one, wherever that
        # is.
        self._switched = any(
            isinstance(module.tree.parents.get(call), cst.Expr)
            for call in module.names.calls_of(("torch.set_grad_enabled",))
        )

    def no_grad(self, node: cst.CSTNode) -> bool | None:
        """Return True, False, or None where callers disagree or a flag decides at run time."""
        held = self._scopes.lexical_no_grad(node)
        if held is not None:
            return held
        if self._scopes.conditional_grad(node):
            return None
        if self._switched:
            return None
        function = self._scopes.tree.function(node)
        return self._function(function) if function is not None else False

    @remembered
    def _function(self, function: cst.FunctionDef) -> bool | None:
        return self._judged(function)

    def _judged(self, function: cst.FunctionDef) -> bool | None:
        """Return what all callers say, and theirs in turn; each function is asked once, so that a
        circle says nothing new."""
        verdicts: set[bool | None] = set()
        seen, todo, escapes = {function}, [function], False
        while todo and len(verdicts) <= 1:
            at = todo.pop()
            escapes = escapes or self._flow.escapes(at)
            verdicts |= self._callers(at, seen, todo)
        if len(verdicts) > 1:
            return None
        found = verdicts.pop() if verdicts else False
        # A function that is passed on may be called under ``no_grad`` by whoever gets it.
        return None if found is False and escapes else found

    def _callers(
        self, function: cst.FunctionDef, seen: set[cst.FunctionDef], todo: list[cst.FunctionDef]
    ) -> set[bool | None]:
        """Return what the calls of a function say of their own; functions around them that have to
        be asked go to `todo`."""
        step = (
            function.name.value in torch_names.STEP_METHODS
            and function.name.value != "training_step"
        )
        if step and self._scopes.is_lightning(self._scopes.tree.class_of(function)):
            return {True}
        cls = self._scopes.tree.class_of(function) if function.name.value == "update" else None
        if cls is not None and any(_METRIC.match(n) for n in self._scopes.base_names(cls)):
            return {True}
        verdicts: set[bool | None] = set()
        sites = [*self._flow.sites(function), *self._named_alike(function)]
        for site in sites:
            above = self._scopes.tree.function(site)
            held = self._scopes.lexical_no_grad(site)
            if held is not None:
                verdicts.add(held)
            elif self._scopes.conditional_grad(site):
                verdicts.add(None)
            elif above is None:
                verdicts.add(False)
            elif above not in seen:
                seen.add(above)
                todo.append(above)
        outside = {caller.no_grad for caller in callers_outside(self.module, function)}
        if len(verdicts | outside) <= 1:
            outside |= self.module.outside.graphless_calls(name_outside(self.module, function))
        return verdicts | outside if sites or outside else {False}

    def _named_alike(self, function: cst.FunctionDef) -> list[cst.Call]:
        """Return calls of a method of the same name on objects that are not known: one of them may
        be of this class."""
        if not self._scopes.tree.is_method(function):
            return []
        tree = self._scopes.tree
        return [
            call
            for name in tree.named(function.name.value)
            if (call := tree.call_of(name)) is not None
            and isinstance(call.func, cst.Attribute)
            and not self._flow.callees(call)
            and tree.function(call) is not function
        ]


@question(ground=True)
def autograd(module: Module) -> Autograd:
    """Return where autograd is off."""
    return Autograd(module)


@question(
    yes="autograd is off here",
    no="autograd is on here, or a caller decides",
    ground=True,
    remember=False,
)
def no_grad(module: Module, node: cst.CSTNode) -> bool | None:
    """Say whether autograd is off at `node`: by the text around it, or as every caller in the file
    has it off."""
    return autograd(module).no_grad(node)
