"""Is autograd off at a node: by the text around it, or because every caller that is known holds it
off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from torchlint.semantic.code.flow import Flow, flow
from torchlint.semantic.code.scopes import Scopes, name_outside, scopes
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import Caller, callers_outside
from torchlint.semantic.torch import names as torch_names


class Autograd:
    """Answers `no_grad(node)` for one file; results are remembered by function."""

    def __init__(
        self,
        scopes: Scopes,
        flow: Flow,
        callers_outside: Callable[[cst.FunctionDef], Sequence[Caller]],
        graphless_calls: Callable[[cst.FunctionDef], set[bool | None]],
    ) -> None:
        self._scopes = scopes
        self._flow = flow
        self._callers_outside = callers_outside
        self._graphless_calls = graphless_calls
        self._functions: dict[cst.CSTNode, bool | None] = {}
        self._asked: list[cst.CSTNode] = []
        self._circles = 0
        # A plain ``torch.set_grad_enabled(...)`` statement holds until the next one, wherever that
        # is.
        self._switched = any(self._is_switch(call) for call in scopes.tree.nodes(cst.Call))

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

    def _is_switch(self, call: cst.CSTNode) -> bool:
        plain = isinstance(call, cst.Call) and isinstance(
            self._scopes.tree.parents.get(call), cst.Expr
        )
        return (
            plain
            and self._scopes.names.name(getattr(call, "func", None)) == "torch.set_grad_enabled"
        )

    def _function(self, function: cst.FunctionDef) -> bool | None:
        if function in self._functions:
            return self._functions[function]
        circles = self._circles
        self._asked.append(function)
        found = self._callers(function)
        self._asked.pop()
        if not self._asked or circles == self._circles:
            self._functions[function] = found
        return found

    def _is_asked(self, site: cst.CSTNode) -> bool:
        """Say whether a call lies in a function that is being judged: it says nothing new."""
        held = self._scopes.lexical_no_grad(site)
        asked = held is None and self._scopes.tree.function(site) in self._asked
        self._circles += asked
        return asked

    def _callers(self, function: cst.FunctionDef) -> bool | None:
        step = (
            function.name.value in torch_names.STEP_METHODS
            and function.name.value != "training_step"
        )
        if step and self._scopes.is_lightning(self._scopes.tree.class_of(function)):
            return True
        sites = [*self._flow.sites(function), *self._named_alike(function)]
        verdicts = {self.no_grad(site) for site in sites if not self._is_asked(site)}
        verdicts.update(caller.no_grad for caller in self._callers_outside(function))
        if len(verdicts) <= 1:
            verdicts.update(self._graphless_calls(function))
        if len(verdicts) > 1:
            return None
        found = verdicts.pop() if verdicts else False
        # A function that is passed on may be called under ``no_grad`` by whoever gets it.
        return None if found is False and self._flow.escapes(function) else found

    def _named_alike(self, function: cst.FunctionDef) -> list[cst.Call]:
        """Return calls of a method of the same name on objects that are not known: one of them may
        be of this class."""
        if not self._scopes.is_method(function):
            return []
        tree, calls = self._scopes.tree, []
        for name in tree.named(function.name.value):
            above = tree.parents.get(name)
            call = (
                tree.parents.get(above)
                if isinstance(above, cst.Attribute) and above.attr is name
                else None
            )
            if isinstance(call, cst.Call) and call.func is above:
                calls.append(call)
        return [
            c
            for c in calls
            if not self._flow.callees(c) and self._scopes.tree.function(c) is not function
        ]


@question(ground=True)
def autograd(module: Module) -> Autograd:
    """Return where autograd is off."""
    return Autograd(
        scopes(module),
        flow(module),
        lambda function: callers_outside(module, function),
        lambda function: module.outside.graphless_calls(name_outside(module, function)),
    )


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
