"""What a loop goes over: training steps, evaluation batches, epochs, or something else."""

from __future__ import annotations

import enum
import functools
import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.tree import LOOPS, is_name, last_name, method_called
from torchlint.semantic.code.updates import updates
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.names import MOVES
from torchlint.semantic.torch.spelling import HELD_OUT, called
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.value import ACCEL, CUDA

if TYPE_CHECKING:
    pass


_RUNS = regex(
    r"^_*((compute|get|calc(ulate)?)_)?(loss|losses)$|^_*(nll|elbo|neg_log_likelihood|log_prob)$"
    r"|^_*(sample|denoise|decode|encode|predict|infer(ence)?|translate|reconstruct)(_batch)?$"
)
"""Methods by which a module is run on a batch, beside calling it."""


_TAKES_BATCHES = regex(r"(^|_)(model|net|network|trainer|learner|agent|solver)$", re.IGNORECASE)
STEPS = (".backward(", ".step(")
"""What a file says that holds a training step."""
_SEVERAL = regex(r"(loaders|dls)$", re.IGNORECASE)


class LoopKind(enum.Enum):
    """What one iteration of a loop is."""

    TRAIN = "training step"
    EVAL = "evaluation batch"
    EPOCH = "epoch"
    OTHER = "other"


class Loops:
    """Classifies the loops of one file, and finds the functions that run a whole training."""

    def __init__(self, module: Module) -> None:
        self.tree = module.tree
        self.names = module.names
        self.scopes = scopes(module)
        self.flow = flow(module)
        self.updates = updates(module)
        self.values = values(module)
        self._text = module.text
        self._kinds: dict[cst.CSTNode, LoopKind] = {}
        self._trainers: dict[tuple[cst.CSTNode, int, bool], bool] = {}

    def trains(self, code: cst.CSTNode, depth: int = 3, *, on_data: bool = False) -> bool:
        """Say whether a function, or other code, runs a whole training loop; `on_data` asks for one
        that goes over the batches of a loader."""
        key = (code, depth, on_data)
        if key not in self._trainers:
            self._trainers[key] = False
            found = any(
                self.kind(loop) in (LoopKind.TRAIN, LoopKind.EPOCH)
                and not (on_data and not self.over_batches(loop))
                for loop in self.tree.within(code, cst.For, cst.While)
            )
            if not found and depth:
                found = any(
                    self.trains(callee, depth - 1, on_data=on_data)
                    for call in self.tree.within(code, cst.Call)
                    for callee in self.flow.callees(call)
                    if callee is not code
                )
            self._trainers[key] = found
        return self._trainers[key]

    def is_step_function(self, function: cst.CSTNode) -> bool:
        """Say whether one call of the function is one training step: it holds a step outside of any
        loop, and no pass over a loader's batches, beside which a step is one for each epoch."""
        return self.updates.is_step_function(function) and not self.trains(function, on_data=True)

    # -- loops -------------------------------------------------------------------------------------

    def kind(self, loop: cst.CSTNode) -> LoopKind:
        """Classify a For or While loop."""
        if loop not in self._kinds:
            self._kinds[loop] = LoopKind.OTHER
            self._kinds[loop] = self._kind_of_batches(loop)
        return self._kinds[loop]

    def _kind_of_batches(self, loop: cst.CSTNode) -> LoopKind:
        if self.updates.is_collection(loop):
            return LoopKind.OTHER
        assert isinstance(loop, LOOPS)
        if self.updates.steps(loop):
            passes = self.trains(loop.body, on_data=True) and not self.over_batches(loop)
            return LoopKind.EPOCH if passes or self._steps_once_more(loop) else LoopKind.TRAIN
        inner = [n for n in self.tree.within(loop.body, cst.For, cst.While) if n is not loop]
        calls = list(self.updates.calls_in(loop))
        callees = [callee for call in calls for callee in self.flow.callees(call)]
        nested = any(self.kind(n) in (LoopKind.TRAIN, LoopKind.EPOCH) for n in inner)
        if not nested and any(self.is_step_function(callee) for callee in callees):
            return LoopKind.TRAIN
        if nested or any(self.trains(callee) for callee in callees):
            # Each batch of a loader may get several steps, one for each of its parts.
            one = not self._over_loaders(loop) and self.over_batches(loop)
            return LoopKind.TRAIN if one or self._acts(loop) else LoopKind.EPOCH
        if isinstance(loop, cst.For) and (
            self._feeds_model(loop)
            or (self.over_batches(loop) and (self._moves(loop) or self.has_model_call(loop)))
        ):
            return LoopKind.EVAL
        if any(map(self._steps_elsewhere, calls)):
            return LoopKind.TRAIN
        if not isinstance(loop, cst.For) or not self._hands_batches_on(loop):
            return LoopKind.OTHER
        return LoopKind.TRAIN if self._repeated_in_epochs(loop) else LoopKind.EVAL

    def _acts(self, loop: cst.For | cst.While) -> bool:
        """Say whether each iteration itself takes a step in an environment, ``obs, reward, end, _ =
        env.step(action)``, beside which updates may take a loop of their own."""
        for line in self.tree.within(loop.body, cst.Assign):
            match line:
                case cst.Assign([cst.AssignTarget(cst.Tuple([_, _, _, *_]))], cst.Call() as call):
                    around = (each for each in self.tree.ancestors(line) if isinstance(each, LOOPS))
                    if method_called(call) == "step" and call.args and next(around) is loop:
                        return True
        return False

    def _steps_elsewhere(self, call: cst.Call) -> bool:
        """Say whether a call runs a function of another file that is one training step:
        ``train_step(model, batch)``, ``agent.learn(memory)``."""
        outside = self.names.outside
        if found := outside.find(self.names.name(call.func)):
            return outside.takes_step((found,), "")
        if not isinstance(call.func, cst.Attribute) or self.flow.callees(call):
            return False
        return self._steps_somewhere(call.func.attr.value) and any(
            outside.takes_step(family, call.func.attr.value)
            for family in self.values.families(self.values.value(call.func.value))
        )

    @remembered
    def _steps_somewhere(self, method: str) -> bool:
        """Say whether a file of the project may define a method of a name that takes a step: no
        value is asked for what has another one."""
        may_step = functools.partial(_may_step, method)
        return may_step(self._text) or self.names.outside.others_say(may_step) is not False

    def _steps_once_more(self, loop: cst.For | cst.While) -> bool:
        """Say whether a loop over epochs makes an optimizer step for what was left over behind the
        loop that makes backward passes and steps of its own; each batch of a loader may get such
        steps of two optimizers."""
        if any(method_called(step) == "backward" for step in self.updates.steps(loop)):
            return False
        inner = (self.updates.steps(n) for n in self.tree.within(loop.body, cst.For, cst.While))
        left_over = any(
            {method_called(step) == "backward" for step in steps} == {True, False}
            for steps in inner
        )
        return left_over and not self.over_batches(loop)

    def _moves(self, loop: cst.For) -> bool:
        """Say whether a loop without autograd, or behind ``model.eval()``, brings what it goes over
        to a device: whatever runs there then, it is an evaluation, where a table that is filled may
        need no model."""
        if not self.evaluates(loop):
            return False
        targets = self.tree.names_in(loop.target)
        for part in self.tree.within(loop.body, cst.CompFor):
            if targets.intersection(self.tree.names_in(part.iter)):
                targets |= self.tree.names_in(part.target)
        return any(
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value in MOVES
            and (dotted_text(call.func.value) or "").partition(".")[0] in targets
            for call in self.tree.within(loop.body, cst.Call)
        )

    def _behind_eval(self, loop: cst.For) -> bool:
        """Say whether the function of a loop calls ``model.eval()`` before it."""
        home = self.tree.function(loop)
        return home is not None and any(
            method_called(call) == "eval"
            and not call.args
            and self.tree.order[call] < self.tree.order[loop]
            for call in self.tree.within(home, cst.Call)
        )

    def over_batches(self, loop: cst.CSTNode) -> bool:
        """Say whether a loop goes over a loader's batches; ``for loader in loaders`` goes over
        loaders."""
        if not isinstance(loop, cst.For):
            return False
        if self._shows_none(loop.iter):
            return False
        targets = list(self.tree.within(loop.target, cst.Name))
        return self.values.loader_of(loop.iter) and not any(
            self.values.value(n).kind == "loader" for n in targets
        )

    def _shows_none(self, iterated: cst.BaseExpression) -> bool:
        """Say whether an expression is no loader by how it is written, whatever its parts are."""
        if not isinstance(iterated, cst.Call):
            return isinstance(iterated, (cst.List, cst.Tuple, cst.Set, cst.Dict, cst.ListComp))
        if method_called(iterated) in ("items", "keys"):
            return not iterated.args and not self.flow.callees(iterated)
        return self.names.name(iterated.func) == "builtins.range"

    def _over_loaders(self, loop: cst.For | cst.While) -> bool:
        """Say whether what a loop goes over is called like several loaders."""
        words = self.tree.within(loop.iter, cst.Name) if isinstance(loop, cst.For) else ()
        return any(_SEVERAL.search(word.value) for word in words)

    def _feeds_model(self, loop: cst.For) -> bool:
        """Say whether a loop unpacks pairs and gives them to a model, as only a loop over batches
        does."""
        if not isinstance(loop.target, cst.Tuple):
            return False
        targets = self.tree.names_in(loop.target)
        for call in self.tree.within(loop.body, cst.Call):
            fed = self.tree.names_in(*call.args)
            if (
                fed & targets
                and dotted_text(call.func) not in targets
                and self.values.is_model_call(call)
            ):
                return self.values.value(loop.iter).kind in ("?", "loader")
        return False

    def evaluates(self, loop: cst.CSTNode) -> bool:
        """Say whether a loop over batches shows that it evaluates: autograd is off, or the model
        was told."""
        return isinstance(loop, cst.For) and (
            self.scopes.lexical_no_grad(loop) is True or self._behind_eval(loop)
        )

    def _repeated_in_epochs(self, loop: cst.For) -> bool:
        """Say whether a loop over data that is not held out stands in a loop over epochs."""
        data = self.tree.within(loop.iter, cst.Name)
        return not any(called(word.value, HELD_OUT) for word in data) and any(
            "epoch" in word.value.lower()
            for above in self.tree.ancestors(loop)
            if isinstance(above, cst.For)
            for word in self.tree.within(above.target, cst.Name)
        )

    def _hands_batches_on(self, loop: cst.For) -> bool:
        """Say whether a loop gives a loader's batches to a method of what is called a model or a
        trainer: ``model.set_input(batch)``."""
        targets = self.tree.names_in(loop.target)
        return self.over_batches(loop) and any(
            _TAKES_BATCHES.search(last_name(call.func.value)) is not None
            and any(is_name(arg.value, *targets) for arg in call.args)
            and self.values.value(call.func.value).kind in ("?", "module", "object")
            for call in self.tree.within(loop.body, cst.Call)
            if isinstance(call.func, cst.Attribute)
        )

    def has_model_call(self, node: cst.CSTNode, depth: int = 2) -> bool:
        """Say whether a model is called inside `node`, or in a local function called from there."""
        for call in self.tree.within(node, cst.Call):
            if self.values.is_model_call(call) or self._runs_by_method(call):
                return True
            if depth and any(
                self.has_model_call(callee, depth - 1) for callee in self.flow.callees(call)
            ):
                return True
        return False

    def _runs_by_method(self, call: cst.Call) -> bool:
        """Say whether a call runs a module by a method of its own that is called as such methods
        are, ``model.loss(batch)``, or that gets a tensor of the device."""
        func = call.func
        return (
            isinstance(func, cst.Attribute)
            and bool(call.args)
            and self.names.name(func) is None
            and (value := self.values.value(func.value)).kind == "module"
            and value.name != "loss"
            and (bool(_RUNS.match(func.attr.value)) or any(map(self._is_on_gpu, call.args)))
        )

    def _is_on_gpu(self, arg: cst.Arg) -> bool:
        value = self.values.value(arg.value)
        return value.kind in ("tensor", "batch") and value.device in (ACCEL, CUDA)


def _may_step(method: str, text: str) -> bool:
    """Say whether a text may define a method that takes a training step."""
    return f"def {method}" in text and any(step in text for step in STEPS)


@question(ground=True)
def loops(module: Module) -> Loops:
    """Return what the loops of a file do."""
    return Loops(module)


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
    yes="the loop holds a backward pass or an optimizer step",
    no="the loop holds no backward or optimizer step",
    ground=True,
)
def steps_of(module: Module, loop: cst.CSTNode) -> list[cst.Call]:
    """Return the backward and optimizer step calls of one loop."""
    return updates(module).steps(loop)


@question(
    yes="the program does not come to a line after the loop with what an iteration gave",
    no="the program may come to the line after the loop",
    ground=True,
)
def endless(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether what an iteration of a loop gives is not there for a line behind it: the
    iterations are handed out by ``yield``, or a ``while True`` has no way out but an exception."""
    if module.contains(loop, cst.Yield):
        return True
    forever = isinstance(loop, cst.While) and module.source_of(loop.test) in ("True", "1")
    return forever and not module.contains(loop, cst.Break, cst.Return)


@question(yes="a model runs in there", no="no model runs in there", ground=True)
def has_model_call(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a model runs inside `node`, or in a local function called from there."""
    return loops(module).has_model_call(node)
