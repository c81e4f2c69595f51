"""Which calls are a training step by how they are spelled, which loop or function they belong to,
and which functions are one step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.tree import FUNCTIONS, LOOPS, attr_of, method_called
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops

_OPTIMIZER = regex(
    r"(^|[._])(\w*optim\w*|opt|opts|opt_\w+|\w+_opt|solver|sgd|adam\w*)(\[.*)?$", re.IGNORECASE
)
_SCALER = regex(r"(^|[._])(grad_?|loss_?|amp_?)?scaler$", re.IGNORECASE)
_SCALING = regex(r"^((\w+_)?(grad|loss|amp)_?)?scaler$", re.IGNORECASE)
"""A call of a name that scales and steps: `prepare_scaler(model, data)` makes one of any kind."""
_STEP_NAME = regex(
    r"^(train(ing)?_step|train_(one_)?batch|train_on_batch|optimize_parameters|optimizer_step|manual_backward|"
    r"fit_batch)$"
)
_BOTH_PASSES = regex(
    r"^(self(\.\w+)?|(\w+\.)*\w*(trainer|engine|learner))\.forward_(and_)?backward$"
)
"""A step of who trains; a diffusion has a forward and a backward process, without gradients."""
_LOSS = regex(r"loss|criteri|entropy", re.IGNORECASE)
_NUMBERS = regex(r"(^|\.)t?range$")
_COLLECTION = regex(
    r"(optim(?!\w*(step|iter|iteration|epoch|round|update)s?$)\w*|opts|losses|loss_?dict"
    r"|\w*param(eter)?s|schedulers|models|modules|layers|heads|scalers|grads)$",
    re.IGNORECASE,
)


_LEARNS = regex(r"step|update|learn|minimi|optimi")
_LOOKS = ops.having("reduce") | {"abs", "norm"}
"""What a report asks of a gradient."""


class Updates:
    """The backward passes and optimizer steps of one file."""

    def __init__(self, module: Module) -> None:
        self.tree = module.tree
        self.flow = flow(module)
        self._holders: dict[cst.CSTNode, cst.CSTNode] = {}
        self._step_functions: dict[tuple[cst.CSTNode, int], bool] = {}
        self._steps: dict[cst.CSTNode, list[cst.Call]] | None = None

    def is_step(self, call: cst.Call) -> bool:
        """Say whether a call is a backward pass or an optimizer (or gradient scaler) step."""
        func = call.func
        if type(func) is cst.Name:
            # ``loss_scaler(loss, optimizer)`` of timm is a step, ``GradScaler("cuda", …)`` none.
            return (
                bool(_SCALING.search(func.value))
                and not func.value[0].isupper()
                and not self.flow.callees(call)
                and len(call.args) > 1
            )
        if type(func) is not cst.Attribute:
            return False
        method = func.attr.value
        receiver = dotted_text(func.value) or (
            (dotted_text(func.value.value) or "") if isinstance(func.value, cst.Subscript) else ""
        )
        if method == "backward":
            return not isinstance(func.value, cst.Call) or self._is_scale(func.value)
        if method == "step":
            return (
                bool(_OPTIMIZER.search(receiver) or _SCALER.search(receiver))
                and "sched" not in receiver.lower()
            )
        named = _STEP_NAME.match(method) or _BOTH_PASSES.match(f"{receiver}.{method}")
        return bool(named) and not self.flow.callees(call)

    def _is_scale(self, node: cst.Call) -> bool:
        # ``scaler.scale(loss).backward()`` and ``loss.mean().backward()``, but not
        # ``super().backward()``.
        return isinstance(node.func, cst.Attribute) or (
            isinstance(node.func, cst.Name) and node.func.value != "super"
        )

    def _loop_of(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the loop that a step belongs to, or the function when it is in none."""
        parents, known = self.tree.parents, self._holders
        passed: list[cst.CSTNode] = []
        child = node
        found: cst.CSTNode = self.tree.root
        while child in parents:
            above = parents[child]
            kind = type(above)
            if kind in FUNCTIONS or kind is cst.Module:
                found = above
                break
            if kind in LOOPS:
                assert isinstance(above, LOOPS)
                if child is above.body and not self.is_collection(above):
                    found = above
                    break
            elif above in known:
                found = known[above]
                break
            else:
                # What lies in it has the same holder: a chain of 3,000 calls is climbed once.
                passed.append(above)
            child = above
        known.update(dict.fromkeys(passed, found))
        return found

    @remembered
    def is_collection(self, loop: cst.CSTNode) -> bool:
        """Say whether a loop goes over parts of one step: optimizers, losses, layers."""
        return isinstance(loop, cst.For) and self._over_parts(loop)

    def _over_parts(self, loop: cst.For) -> bool:
        calls = (dotted_text(call.func) or "" for call in self.tree.within(loop.iter, cst.Call))
        counts = any(_NUMBERS.search(name) for name in calls)
        for node in self.tree.within(loop.iter, cst.Name, cst.Attribute):
            part = self.tree.parents[node]
            if isinstance(part, cst.Attribute) and part.attr is node:
                node, part = part, self.tree.parents[part]
            if counts and isinstance(part, (cst.Attribute, cst.Subscript)) and part.value is node:
                continue  # ``range(cfg.optim.steps)`` counts what its last name says.
            if _COLLECTION.search(last_part(node)):
                return True
        return False

    def steps(self, holder: cst.CSTNode) -> list[cst.Call]:
        """Return the step calls whose nearest step-like loop (or function) is `holder`."""
        if self._steps is None:
            self._steps = {}
            for call in self.tree.nodes(cst.Call):
                if self.is_step(call):
                    self._steps.setdefault(self._loop_of(call), []).append(call)
        return self._steps.get(holder, [])

    def calls_in(self, holder: cst.CSTNode) -> Iterator[cst.Call]:
        """Yield the calls whose nearest step-like loop (or function) is `holder`."""
        body = holder.body if isinstance(holder, (cst.For, cst.While, cst.FunctionDef)) else holder
        for call in self.tree.within(body, cst.Call):
            if self._loop_of(call) is holder:
                yield call

    def is_step_function(self, function: cst.CSTNode, depth: int = 3) -> bool:
        """Say whether one call of the function is one training step: it holds a step outside of any
        loop, and is no whole fit."""
        key = (function, depth)
        if key not in self._step_functions:
            self._step_functions[key] = False
            # Whether a function makes an optimizer that goes on until it converges: one step of
            # that, outside of any loop, is a whole fit.
            fits = any(
                last_part(call.func) == "LBFGS" for call in self.tree.within(function, cst.Call)
            )
            steps = self.steps(function)
            found = bool(steps) and not fits and not self._drops_gradients(function, steps)
            if not found and depth and not fits:
                found = any(
                    self.is_step_function(callee, depth - 1)
                    for call in self.calls_in(function)
                    for callee in self.flow.callees(call)
                    if callee is not function
                )
            self._step_functions[key] = found
        return self._step_functions[key]

    def _drops_gradients(self, function: cst.CSTNode, steps: list[cst.Call]) -> bool:
        """Say whether a function empties the gradients that its backward pass makes before anything
        learns from them: it only looks at them."""
        order, calls = self.tree.order, list(self.tree.within(function, cst.Call))
        emptied = any(
            method_called(each) == "zero_grad" and order[each] > order[steps[-1]] for each in calls
        )
        return (
            emptied
            and not any(_LEARNS.search(last_part(each.func)) for each in calls)
            and all(
                isinstance(above := self.tree.parents[each], (cst.Comparison, cst.ComparisonTarget))
                or attr_of(above) in _LOOKS
                for each in self.tree.within(function, cst.Attribute)
                if each.attr.value == "grad"
            )
        )

    def is_whole(self, function: cst.CSTNode) -> bool:
        """Say whether steps of a function, outside of any loop, are all that there are, where
        nobody calls it more often than once: it makes their optimizer, or, where nothing learns
        from its backward pass, the network."""
        made = {
            name.value
            for node in self.tree.within(function, cst.Assign)
            if (kind := _class_of(node.value)) and not _LOSS.search(kind)
            for target in node.targets
            if isinstance(name := target.target, cst.Name)
        }
        steps = [dotted_text(step.func) or "?" for step in self.steps(function)]
        learns = [each for each in steps if not each.endswith("backward")]
        if steps and not learns:
            calls = self.tree.within(function, cst.Call)
            learns = [dotted_text(call.func) or "?" for call in calls]
        return any(each.removesuffix(".step") in made for each in learns)

    def updates(self, statements: Sequence[cst.CSTNode]) -> bool:
        """Say whether statements of one block are themselves a training step: one is among them, or
        a function that is one is called there, not in a loop of its own."""
        for statement in statements:
            home = self._loop_of(statement)
            for call in self.tree.within(statement, cst.Call):
                if self._loop_of(call) is home and (
                    self.is_step(call)
                    or any(self.is_step_function(each) for each in self.flow.callees(call))
                ):
                    return True
        return False


@question(ground=True)
def updates(module: Module) -> Updates:
    """Return the backward passes and optimizer steps of a file."""
    return Updates(module)


@question(
    yes="`{0}` is a backward or optimizer step",
    no="`{0}` is no backward or optimizer step",
    ground=True,
)
def is_step(module: Module, call: cst.Call) -> bool:
    """Say whether a call is a backward pass, an optimizer step or a gradient scaler's step."""
    return updates(module).is_step(call)


def _class_of(value: cst.BaseExpression) -> str:
    """Return the name of the class whose object an expression makes: ``Net().to(device)``; empty
    for others."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        if not isinstance(value.func.value, cst.Call):
            break
        value = value.func.value
    name = dotted_text(value.func) or "" if isinstance(value, cst.Call) else ""
    last = name.rpartition(".")[2]
    return last if last[:1].isupper() else ""
