"""What a loop goes over: training steps, evaluation batches, epochs, or something else."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.flow import Flow, flow
from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.scopes import Scopes, scopes
from torchlint.semantic.code.tree import FUNCTIONS, LOOPS, Tree
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.facts import values

if TYPE_CHECKING:
    from torchlint.semantic.values.facts import Values

_OPTIMIZER = re.compile(
    r"(^|[._])(\w*optim\w*|opt|opts|opt_\w+|\w+_opt|solver|sgd|adam\w*)(\[.*)?$", re.IGNORECASE
)
_SCALER = re.compile(r"(^|[._])(grad_?|loss_?|amp_?)?scaler$", re.IGNORECASE)
_STEP_NAME = re.compile(
    r"^(train(ing)?_step|train_(one_)?batch|train_on_batch|optimize_parameters|optimizer_step|manual_backward|"
    r"forward_backward|forward_and_backward|fit_batch)$"
)
_COLLECTION = re.compile(
    r"(optim\w*|opts|losses|loss_?dict|\w*param(eter)?s|schedulers|models|modules|layers|heads|scalers|grads)$",
    re.IGNORECASE,
)


class LoopKind(enum.Enum):
    """What one iteration of a loop is."""

    TRAIN = "training step"
    EVAL = "evaluation batch"
    EPOCH = "epoch"
    OTHER = "other"


class Loops:
    """Classifies the loops of one file, and finds the functions that are one training step."""

    def __init__(
        self, tree: Tree, names: Names, scopes: Scopes, flow: Flow, values: Values
    ) -> None:
        self.tree = tree
        self.names = names
        self.scopes = scopes
        self.flow = flow
        self.values = values
        self._kinds: dict[cst.CSTNode, LoopKind] = {}
        self._collections: dict[cst.CSTNode, bool] = {}
        self._holders: dict[cst.CSTNode, cst.CSTNode] = {}
        self._step_functions: dict[tuple[cst.CSTNode, int], bool] = {}
        self._trainers: dict[tuple[cst.CSTNode, int], bool] = {}
        self._steps: dict[cst.CSTNode, list[cst.Call]] | None = None

    # -- steps -------------------------------------------------------------------------------------

    def is_step(self, call: cst.Call) -> bool:
        """Say whether a call is a backward pass or an optimizer (or gradient scaler) step."""
        func = call.func
        if isinstance(func, cst.Name):
            return (
                bool(_SCALER.search(func.value))
                and not self.flow.callees(call)
                and len(call.args) > 1
            )
        if not isinstance(func, cst.Attribute):
            return False
        method = func.attr.value
        receiver = dotted_text(func.value) or self._subscripted(func.value)
        if method == "backward":
            return not isinstance(func.value, cst.Call) or self._is_scale(func.value)
        if method == "step":
            return (
                bool(_OPTIMIZER.search(receiver) or _SCALER.search(receiver))
                and "sched" not in receiver.lower()
            )
        return bool(_STEP_NAME.match(method)) and not self.flow.callees(call)

    def _subscripted(self, node: cst.CSTNode) -> str:
        return (dotted_text(node.value) or "") if isinstance(node, cst.Subscript) else ""

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
        child, above = node, parents.get(node)
        found: cst.CSTNode = self.tree.root
        while above is not None:
            kind = type(above)
            if kind in FUNCTIONS or kind is cst.Module:
                found = above
                break
            if isinstance(above, LOOPS):
                if child is above.body and not self._is_collection(above):
                    found = above
                    break
            elif above in known:
                found = known[above]
                break
            else:
                passed.append(
                    above
                )  # what lies in it has the same holder: a chain of 3,000 calls is climbed once
            child, above = above, parents.get(above)
        known.update(dict.fromkeys(passed, found))
        return found

    def _is_collection(self, loop: cst.CSTNode) -> bool:
        if loop not in self._collections:
            self._collections[loop] = isinstance(loop, cst.For) and self._over_parts(loop)
        return self._collections[loop]

    def _over_parts(self, loop: cst.For) -> bool:
        for node in self.tree.within(loop.iter, cst.Name, cst.Attribute):
            if _COLLECTION.search((dotted_text(node) or "").rpartition(".")[2]):
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
        loop."""
        key = (function, depth)
        if key not in self._step_functions:
            self._step_functions[key] = False
            found = bool(self.steps(function))
            if not found and depth:
                found = any(
                    self.is_step_function(callee, depth - 1)
                    for call in self.calls_in(function)
                    for callee in self.flow.callees(call)
                    if callee is not function
                )
            self._step_functions[key] = found
        return self._step_functions[key]

    def trains(self, function: cst.CSTNode, depth: int = 3) -> bool:
        """Say whether a call of the function runs a whole training loop."""
        key = (function, depth)
        if key not in self._trainers:
            self._trainers[key] = False
            loops = list(self.tree.within(function, cst.For, cst.While))
            found = any(self.kind(loop) in (LoopKind.TRAIN, LoopKind.EPOCH) for loop in loops)
            if not found and depth:
                found = any(
                    self.trains(callee, depth - 1)
                    for call in self.tree.within(function, cst.Call)
                    for callee in self.flow.callees(call)
                    if callee is not function
                )
            self._trainers[key] = found
        return self._trainers[key]

    # -- loops -------------------------------------------------------------------------------------

    def kind(self, loop: cst.CSTNode) -> LoopKind:
        """Classify a For or While loop."""
        if loop not in self._kinds:
            self._kinds[loop] = LoopKind.OTHER
            self._kinds[loop] = self._kind(loop)
        return self._kinds[loop]

    def _kind(self, loop: cst.CSTNode) -> LoopKind:
        if self._is_collection(loop):
            return LoopKind.OTHER
        if self.steps(loop):
            return LoopKind.TRAIN
        assert isinstance(loop, (cst.For, cst.While))
        inner = [n for n in self.tree.within(loop.body, cst.For, cst.While) if n is not loop]
        calls = list(self.calls_in(loop))
        callees = [callee for call in calls for callee in self.flow.callees(call)]
        nested = any(self.kind(n) in (LoopKind.TRAIN, LoopKind.EPOCH) for n in inner)
        if not nested and any(self.is_step_function(callee) for callee in callees):
            return LoopKind.TRAIN
        if nested or any(self.trains(callee) for callee in callees):
            return LoopKind.EPOCH
        if isinstance(loop, cst.For) and (
            self._feeds_model(loop) or (self._over_batches(loop) and self.has_model_call(loop))
        ):
            return LoopKind.EVAL
        return LoopKind.OTHER

    def _over_batches(self, loop: cst.For) -> bool:
        """Say whether a loop goes over a loader's batches; ``for loader in loaders`` goes over
        loaders."""
        if isinstance(loop.iter, cst.Call) and self.names.name(loop.iter.func) == "builtins.range":
            return False
        targets = list(self.tree.within(loop.target, cst.Name))
        return self.values.loader_of(loop.iter) and not any(
            self.values.value(n).kind == "loader" for n in targets
        )

    def _feeds_model(self, loop: cst.For) -> bool:
        """Say whether a loop unpacks pairs and gives them to a model, as only a loop over batches
        does."""
        if not isinstance(loop.target, cst.Tuple):
            return False
        targets = {n.value for n in self.tree.within(loop.target, cst.Name)}
        for call in self.tree.within(loop.body, cst.Call):
            fed = {n.value for arg in call.args for n in self.tree.within(arg, cst.Name)}
            if (
                fed & targets
                and dotted_text(call.func) not in targets
                and self.values.is_model_call(call)
            ):
                return self.values.value(loop.iter).kind in ("?", "loader")
        return False

    def has_model_call(self, node: cst.CSTNode, depth: int = 2) -> bool:
        """Say whether a model is called inside `node`, or in a local function called from there."""
        for call in self.tree.within(node, cst.Call):
            if self.values.is_model_call(call):
                return True
            if depth and any(
                self.has_model_call(callee, depth - 1) for callee in self.flow.callees(call)
            ):
                return True
        return False


@question(ground=True)
def loops(module: Module) -> Loops:
    """Return what the loops of a file do."""
    return Loops(module.tree, module.names, scopes(module), flow(module), values(module))


@question(
    yes="one iteration of the loop is: {answer}",
    no="one iteration of the loop is: {answer}",
    ground=True,
    remember=False,
)
def loop_kind(module: Module, loop: cst.CSTNode) -> LoopKind:
    """Say what one iteration of a For or While loop is."""
    return loops(module).kind(loop)


@question(
    yes="`{0}` is a backward or optimizer step",
    no="`{0}` is no backward or optimizer step",
    ground=True,
)
def is_step(module: Module, call: cst.Call) -> bool:
    """Say whether a call is a backward pass, an optimizer step or a gradient scaler's step."""
    return loops(module).is_step(call)


@question(
    yes="the loop holds a backward pass or an optimizer step",
    no="the loop holds no backward or optimizer step",
    ground=True,
)
def steps_of(module: Module, loop: cst.CSTNode) -> list[cst.Call]:
    """Return the backward and optimizer step calls of one loop."""
    return loops(module).steps(loop)


@question(yes="a model runs in there", no="no model runs in there", ground=True)
def has_model_call(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a model runs inside `node`, or in a local function called from there."""
    return loops(module).has_model_call(node)
