"""Questions about time and autograd: how often code runs, in which loops, and whether a graph is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.consumers import Use, furthest
from torchlint.semantic.code.tree import Loop
from torchlint.semantic.part import Part
from torchlint.semantic.time import bodies, gradients
from torchlint.semantic.time.autograd import Autograd
from torchlint.semantic.time.heat import Heat, HeatMap
from torchlint.semantic.time.iterations import Goes, Iterations
from torchlint.semantic.time.loops import LoopKind, Loops

if TYPE_CHECKING:
    pass


class Pace(Part):
    """The part of `Module` that knows heat, loops and autograd."""

    _heat: HeatMap
    _loops: Loops
    _iterations: Iterations
    _autograd: Autograd

    # -- time ---------------------------------------------------------------------------------------------------

    def heat(self, node: cst.CSTNode) -> Heat:
        """Return how often `node` runs; throttled places are cold."""
        return self._heat.heat(node)

    def may_be_hot(self, node: cst.CSTNode) -> bool:
        """Say whether anything in the function around `node` may be hot: False is certain, and cheaper than `heat`."""
        return self._heat.may_be_hot(node)

    def function_heat(self, function: cst.FunctionDef) -> Heat:
        """Return how often a function's body runs."""
        return self._heat.function_heat(function)

    def loop_kind(self, loop: cst.CSTNode) -> LoopKind:
        """Say what one iteration of a For or While loop is."""
        return self._loops.kind(loop)

    def over(self, loop: cst.For | cst.CompFor) -> list[Goes]:
        """Return what a loop goes over, seen through ``enumerate``, ``zip`` and the like."""
        return self._iterations.over(loop)

    def count(self, loop: Loop | cst.CompFor) -> int | None:
        """Return how often a loop runs where the source says it in literals."""
        return self._iterations.count(loop)

    def structural(self, loop: Loop | cst.CompFor) -> bool:
        """Say whether a loop goes over parts of a network (layers, heads, parameters), not over data."""
        return self._iterations.structural(loop)

    def reset(self, loop: Loop, place: cst.CSTNode, at: cst.CSTNode) -> bool:
        """Say whether every iteration binds a place (``x``, ``self.x``, ``d[k]``) anew before it comes to `at`."""
        return self._iterations.reset(loop, place, at)

    def carried(self, loop: Loop) -> list[cst.Name]:
        """Return the reads in a loop's body that may find what an earlier iteration has bound."""
        return self._iterations.carried(loop)

    def sized(self, node: cst.CSTNode) -> bool:
        """Say whether a number is a size of a tensor (``x.shape[0]``, ``len(x)``), or computed from one."""
        return bodies.sized(self._module, node)

    def independent(self, loop: cst.For) -> bool:
        """Say whether no iteration of a loop needs what an earlier one has made, and none ends the loop."""
        return bodies.independent(self._module, loop)

    def only_tensor_work(self, body: cst.CSTNode) -> bool:
        """Say whether every call inside `body` is a torch operation or a list's ``append``."""
        return bodies.only_tensor_work(self._module, body)

    def same(self, scope: cst.CSTNode, place: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the expressions inside `scope` that are spelled like a name, attribute or subscript."""
        return self._iterations.same(scope, place)

    def inner_loop(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the loop or comprehension that repeats `node` within one hot step, or None."""
        return self._heat.inner_loop(node, self.heat(node))

    def is_step(self, call: cst.Call) -> bool:
        """Say whether a call is a backward pass, an optimizer step or a gradient scaler's step."""
        return self._loops.is_step(call)

    def steps(self, loop: cst.CSTNode) -> list[cst.Call]:
        """Return the backward and optimizer step calls of one loop."""
        return self._loops.steps(loop)

    def has_model_call(self, node: cst.CSTNode) -> bool:
        """Say whether a model runs inside `node`, or in a local function called from there."""
        return self._loops.has_model_call(node)

    # -- autograd -----------------------------------------------------------------------------------------------

    def no_grad(self, node: cst.CSTNode) -> bool | None:
        """Say whether autograd is off at `node`: by the text around it, or as every caller in the file has it off."""
        return self._autograd.no_grad(node)

    def furthest(self, read: cst.CSTNode) -> tuple[Use, cst.CSTNode]:
        """Return how far the value of an expression gets, and where; assigned names are followed."""
        return furthest(self._module, read)

    def differentiates(self, place: cst.CSTNode) -> bool:
        """Say whether code inside `place` asks autograd for something: a backward pass, a gradient, a hook."""
        return gradients.differentiates(self._module, place)

    def frozen(self, model: cst.CSTNode) -> bool:
        """Say whether the file switches off the gradients of a model's parameters, under its name at `model`."""
        return gradients.frozen(self._module, model)

    def detached_for_nothing(self, call: cst.Call) -> bool:
        """Say whether a model that is trained elsewhere in the file runs here for nothing but a detached result."""
        return gradients.only_detached(self._module, call) and gradients.trained_elsewhere(self._module, call)

    def proves_no_grad(self, function: cst.CSTNode) -> bool:
        """Say whether a function would raise if a graph were recorded (``model(x).numpy()``)."""
        return gradients.proves_no_grad(self._module, function)
