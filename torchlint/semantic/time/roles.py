"""How often a function runs by what it is, whoever calls it: a training step, a hook, a loss, the
forward pass of a network, what a data set does for each sample."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.tree import attr_of, is_name, method_called, parameters_of, root_of
from torchlint.semantic.module import Module
from torchlint.semantic.time.grades import COLD, Grade, Heat, Why
from torchlint.semantic.time.loops import LoopKind, loops
from torchlint.semantic.torch.names import HOOKS_OF_A_STEP, MOVES
from torchlint.semantic.torch.spelling import LOADER, MODEL, SHOWING, called
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.parameter_uses import used_as_tensor
from torchlint.semantic.values.value import Value

_LOSS_NAME = regex(
    r"(^|_)(loss|losses|criterion|grad(ient)?_penalty)(_|$|fn|func)|[a-z]Loss$", re.IGNORECASE
)
_NOT_LOSS = regex(
    r"^(get|build|make|create|set|init|plot|log|print|show|save|load|parse|add|update|record)_",
    re.IGNORECASE,
)
_REPORT = regex(
    r"(^|_)(get|plot|log|print|show|save|check|test|debug|report|inspect|record|visuali[sz]e)(_|$)",
    re.IGNORECASE,
)
_CHECK = regex(r"(^|_)(verify|sanity|check|smoke|debug|diagnose)(_|$)")
_EMPTIES = frozenset(("zero_", "detach_"))
_BATCH_STEP = regex(
    r"^_*((eval(uat\w+)?|valid(at\w+)?|val|test|predict|inference)_(one_)?(step|batch|iteration)|predict_on_batch|"
    r"(step|batch)_(eval|predict|inference|validate)|update_metrics|process_batch)$"
)
_BATCH_HOOK = regex(r"^on_((?P<train>train)|validation|test|predict)_batch_(start|end)$")
_GRADIENT_HOOK = regex(r"^on_(before_zero_grad|(before|after)_backward|before_optimizer_step)$")
"""Hooks of Lightning's modules and callbacks that run in each training step, beside those of a
batch (its page "Hooks")."""
_BACKWARD_HOOKS = frozenset(
    ("register_full_backward_hook", "register_backward_hook", "register_hook", "retain_grad")
)
_CALLBACK_HOOK = regex(
    r"^on_((?P<train>step_begin|step_end|substep_end|pre_optimizer_step|optimizer_step)"
    r"|prediction_step)$"
)
"""What the Trainer of transformers calls on a ``TrainerCallback`` for each step or batch (its page
"Callbacks")."""
_MODULE_METHOD = regex(
    r"^_*(predict\w*|full_sort_predict|decode|encode|forward_\w+|\w+_forward|forward\w*)$"
)
_METRIC = regex(r"(Metric|Meter|Accuracy|Evaluator|Average|Averager|Tracker)s?$")
_MOVING_AVERAGE = regex(r"(^|[a-z_])(EMA|Ema)([A-Z_]|$)|MovingAverage|ModelEma|^(Model)?Ema")
_TENSOR_METHOD = regex(
    r"^_*(neg_log\w*|nll\w*|log_(prob|likelihood)\w*|viterbi\w*|p_sample|q_sample|denoise\w*"
    r"|reparam\w*|sample(_from)?_?(posterior|latent|z|noise|action)?|act|evaluate_actions"
    r"|get_action\w*|embed\w*|infer(ence)?|translate|reconstruct\w*)$"
)
"""What a module does with tensors for each batch, besides what `_MODULE_METHOD` says."""
_ALL_DATA = regex(r"Data(Loader|Set|Frame|Module)", re.IGNORECASE)
_COLLATE = regex(r"(^|_)collate", re.IGNORECASE)
_STEP_ROLE = regex(
    r"^_*(?P<train>train(ing)?|fit)?(val(id(ation)?)?|eval(uation)?|test|predict(ion)?)?_(one_)?(step|batch|minibatch)$"
)
_EPOCH = regex(r"^_*(train|fit|run)_(one_|an_)?epoch$")
_TRAINS = regex(r"^_*train_(one_|on_)?(step|batch|minibatch)$")
NAMES = (_LOSS_NAME, _BATCH_STEP, _MODULE_METHOD, _TENSOR_METHOD, _STEP_ROLE)
"""Names that say how often a function runs where its callers do not."""


class Roles:
    """Says how often the functions of one file run by their names and classes."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.tree = module.tree
        self.scopes = scopes(module)
        self.flow = flow(module)
        self.loops = loops(module)

    def role(self, function: cst.FunctionDef) -> Heat:
        """Return how often a function runs by its role alone, `COLD` where it has none."""
        name = function.name.value
        cls = self.scopes.tree.class_of(function) if self.scopes.tree.is_method(function) else None
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in self.module.assume_hot):
            return Heat(Grade.TRAIN, (Why(f"{name}() matches assume-hot", function),))
        if cls is not None:
            found = self._method_role(cls, function)
            if found is not None:
                return found
        if (
            self.loops.is_step_function(function)
            and (self.flow.sites(function) or not self.loops.updates.is_whole(function))
            and not self._checks(function)
            and not self._attributes(function)
            and not (name == "step" and self._is_trial(cls))
        ):
            return Heat(Grade.TRAIN, (Why(f"{name}() is one training step", function),))
        step = _STEP_ROLE.match(name)
        if (
            step is not None
            and name.lstrip("_") not in ("step", "batch", "one_step", "one_batch", "minibatch")
            and not self._fits(function)
        ):
            grade = Grade.TRAIN if step["train"] else Grade.EVAL
            return Heat(grade, (Why(f"{name}() runs for every batch", function),))
        if _COLLATE.search(name):
            return Heat(
                Grade.SAMPLE, (Why(f"{name}() runs for every batch in the loader", function),)
            )
        if self._is_loss(function):
            return Heat(Grade.FORWARD, (Why(f"{name}() is a loss function", function),))
        if self.reads_gradients(function):
            text = f"{name}() reads gradients, which the backward() of each step makes"
            return Heat(Grade.TRAIN, (Why(text, function),))
        return COLD

    def _is_trial(self, cls: cst.ClassDef | None) -> bool:
        """Say whether a class is a trial of Ray Tune, whose `step` trains for an epoch or so."""
        bases = self.scopes.base_names(cls) if cls is not None else ()
        return any(each.rpartition(".")[2] == "Trainable" for each in bases)

    def _checks(self, function: cst.FunctionDef) -> bool:
        """Say whether a function, or one around it, tries a step to see whether training works."""
        around = (function, *self.tree.ancestors(function))
        names = (each.name.value for each in around if isinstance(each, cst.FunctionDef))
        return any(map(_CHECK.search, names))

    def _attributes(self, function: cst.FunctionDef) -> bool:
        """Say whether nothing in the file learns, and the backward passes of a function only tell
        what a prediction is due to: they start at one class of what a model gives, or hooks keep
        their gradients."""
        updates, calls = self.loops.updates, self.tree.nodes(cst.Call)
        if any(method_called(call) == "step" and updates.is_step(call) for call in calls):
            return False
        steps = updates.steps(function)
        hooked = any(method_called(call) in _BACKWARD_HOOKS for call in calls)
        return bool(steps) and all(
            method_called(step) == "backward" and (hooked or self._of_one_class(step.func))
            for step in steps
        )

    def _of_one_class(self, node: cst.BaseExpression) -> bool:
        """Say whether a backward pass starts at elements of a tensor: ``scores[0, label]``,
        ``scores[:, label].sum()``."""
        node = root_of(node, cst.Attribute, cst.Call)
        if isinstance(node, cst.Name):
            made = [getattr(each, "value", None) for each in definitions_of(self.module, node)]
            return bool(made) and all(
                isinstance(each, (cst.Subscript, cst.Call)) and self._of_one_class(each)
                for each in made
            )
        return isinstance(node, cst.Subscript) and values(self.module).value(node.value).tensor

    def _fits(self, function: cst.FunctionDef) -> bool:
        """Say whether all steps of a function stand in loops of its own, or it goes over all
        batches, or calls what does by its name, whatever its own name says."""
        if self.loops.updates.is_step_function(function):
            return False
        called_by_name = self.tree.within(function, cst.Call)
        return any(_EPOCH.search(attr_of(call.func)) for call in called_by_name) or any(
            self.loops.over_batches(loop)
            or (
                self.loops.kind(loop) is LoopKind.TRAIN
                and any(attr_of(step.func) == "step" for step in self.loops.updates.steps(loop))
            )
            or any(_TRAINS.match(attr_of(call.func)) for call in self.tree.within(loop, cst.Call))
            for loop in self.tree.within(function, cst.For, cst.While)
        )

    def reads_gradients(self, function: cst.FunctionDef) -> bool:
        """Say whether a function goes over parameters and computes with their gradients, and has no
        backward pass of its own; a report of them is made when somebody wants it."""
        if _REPORT.search(function.name.value):
            return False
        reads = any(
            is_name(grad.value, *self.tree.names_in(loop.target))
            and grad.attr.value == "grad"
            and self._computes(grad)
            for loop in self.tree.within(function, cst.For)
            for grad in self.tree.within(loop.body, cst.Attribute)
        )
        calls = self.tree.within(function, cst.Call) if reads else ()
        return reads and not any(map(self.loops.updates.is_step, calls))

    def _computes(self, grad: cst.Attribute) -> bool:
        """Say whether a gradient enters a computation: it is not only emptied, asked for, or
        handed to a board."""
        at: cst.CSTNode = grad
        above = self.tree.parents[at]
        while isinstance(above, cst.Attribute) or (
            isinstance(above, cst.Call) and above.func is at
        ):
            if attr_of(above) in _EMPTIES:
                return False
            at, above = above, self.tree.parents[above]
        taker = self.tree.parents[above] if isinstance(above, cst.Arg) else None
        if isinstance(taker, cst.Call) and called(attr_of(taker.func) or "", SHOWING):
            return False
        asked = isinstance(above, cst.Comparison) and at is not grad
        return asked or isinstance(above, (cst.Arg, cst.BinaryOperation))

    def _is_loss(self, function: cst.FunctionDef) -> bool:
        """Say whether a function computes a loss, by its name; what trains by itself does not."""
        name = function.name.value
        if not _LOSS_NAME.search(name) or _NOT_LOSS.search(name):
            return False
        if self.scopes.lexical_no_grad(function.body) is True:
            return False  # Nothing trains on what has no graph.
        returns = [each.value for each in self.tree.within(function, cst.Return)]
        off = any(
            self.scopes.lexical_no_grad(each.body) is True
            for each in self.tree.within(function, cst.With)
        )
        if off and returns and all(map(_is_read, returns)):
            return False  # Nor on a number of the host.
        if returns and all(map(_is_detached, returns)):
            return False
        calls = self.tree.within(function, cst.Call)
        trains = any(self.loops.updates.is_step(call) for call in calls)
        return not trains and _takes_tensors(self.module, function)

    def _method_role(self, cls: cst.ClassDef, function: cst.FunctionDef) -> Heat | None:
        name = function.name.value
        if name == "training_step":
            return Heat(Grade.TRAIN, (Why("training_step() runs every step", function),))
        if name in ("validation_step", "test_step", "predict_step"):
            return Heat(Grade.EVAL, (Why(f"{name}() runs for every batch", function),))
        hook = self._hook_role(cls, function)
        if hook is not None:
            return hook
        if _BATCH_STEP.match(name) and not self._fits(function):
            return Heat(Grade.EVAL, (Why(f"{name}() runs for every batch", function),))
        if name in ("update", "__call__", "add_batch") and self._is_metric(cls, function):
            return Heat(Grade.EVAL, (Why(f"{name}() of a metric runs for every batch", function),))
        if name == "compute_loss" and any(
            base.endswith("Trainer") for base in self.scopes.base_names(cls)
        ):
            return Heat(
                Grade.TRAIN, (Why("the Trainer calls compute_loss() every step", function),)
            )
        found = self._class_role(cls, function)
        if found is not None:
            return found
        if name == "forward" and self.scopes.is_module(cls) and not _takes_all(function):
            return Heat(Grade.FORWARD, (Why("forward() runs every step", function),))
        # ``predict(inputs, batch_size)`` or ``predict(loader: DataLoader)``: its body runs once for
        # all batches.
        given = {param.name.value for param in parameters_of(function)}
        batched = name.startswith("predict") and ("batch_size" in given or _takes_all(function))
        if (
            _MODULE_METHOD.match(name)
            and not batched
            and self.scopes.is_module(cls)
            and _takes_tensors(self.module, function)
        ):
            return Heat(
                Grade.FORWARD, (Why(f"{name}() of a module runs for every batch", function),)
            )
        if name in ("forward", "backward") and any(
            base in ("torch.autograd.Function", "torch.autograd.function.Function")
            for base in self.scopes.base_names(cls)
        ):
            return Heat(
                Grade.FORWARD, (Why(f"{name}() of an autograd function runs every step", function),)
            )
        if name in ("__getitem__", "__getitems__", "__iter__") and self.scopes.is_dataset(cls):
            return Heat(Grade.SAMPLE, (Why(f"{name}() runs for every sample", function),))
        return None

    def _hook_role(self, cls: cst.ClassDef, function: cst.FunctionDef) -> Heat | None:
        """Return how often Lightning, the Trainer of transformers, or the loop of another framework
        calls a hook."""
        name = function.name.value
        hook = _BATCH_HOOK.match(name)
        if hook is not None:
            grade = Grade.TRAIN if hook["train"] else Grade.EVAL
            return Heat(grade, (Why(f"Lightning calls {name}() for every batch", function),))
        if _GRADIENT_HOOK.match(name):
            return Heat(Grade.TRAIN, (Why(f"Lightning calls {name}() every step", function),))
        called_back = _CALLBACK_HOOK.match(name)
        if called_back is not None and self._is_trainer_callback(cls):
            grade = Grade.TRAIN if called_back["train"] else Grade.EVAL
            return Heat(grade, (Why(f"the Trainer calls {name}() every step", function),))
        for base in self.scopes.base_names(cls):
            package = base.partition(".")[0]
            for grade, hooks in zip(
                (Grade.TRAIN, Grade.EVAL), HOOKS_OF_A_STEP.get(package, ()), strict=False
            ):
                if name in hooks.split():
                    why = Why(f"{package} calls {name}() for every batch", function)
                    return Heat(grade, (why,))
        return None

    def _is_trainer_callback(self, cls: cst.ClassDef) -> bool:
        """Say whether the Trainer of transformers calls the methods of a class."""
        return any(
            base.endswith("TrainerCallback")
            or (base.startswith("transformers.") and base.endswith("Callback"))
            for base in self.scopes.base_names(cls)
        )

    def _class_role(self, cls: cst.ClassDef, function: cst.FunctionDef) -> Heat | None:
        """Return how often a method runs because of what its class is: a loss, an optimizer, a
        moving average, an iterator over batches, a module."""
        name = function.name.value
        calls = name in ("__call__", "forward") and self.scopes.is_loss(cls)
        if calls and _takes_tensors(self.module, function):
            return Heat(Grade.FORWARD, (Why(f"{name}() of a loss runs every step", function),))
        if name == "step" and self.scopes.is_optimizer(cls):
            return Heat(Grade.TRAIN, (Why("step() of an optimizer runs every step", function),))
        if name in ("update", "update_parameters", "step") and any(
            _MOVING_AVERAGE.search(each) for each in self._class_names(cls)
        ):
            text = f"{name}() of a moving average runs every step"
            return Heat(Grade.TRAIN, (Why(text, function),))
        if (
            name == "__next__"
            and not self.scopes.is_dataset(cls)
            and any(moves(self.module, code) for code in self._with_helpers(cls, function))
        ):
            return Heat(Grade.FORWARD, (Why("__next__() runs for every batch", function),))
        if (
            _TENSOR_METHOD.match(name)
            and self.scopes.is_module(cls)
            and _given_tensors(self.module, function)
        ):
            text = f"{name}() of a module runs for every batch"
            return Heat(Grade.FORWARD, (Why(text, function),))
        return None

    def _with_helpers(
        self, cls: cst.ClassDef, function: cst.FunctionDef
    ) -> Iterator[cst.BaseSuite]:
        """Yield the body of a method, and of the methods of its class that it calls."""
        yield function.body
        for call in self.module.within(function.body, cst.Call):
            helper = self.scopes.method(cls, method_called(call) or "")
            if helper is not None and helper is not function:
                yield helper.body

    def _class_names(self, cls: cst.ClassDef) -> list[str]:
        """Return the names of a class and of what it derives from."""
        return [
            cls.name.value,
            *self.scopes.base_names(cls),
            *(c.name.value for c in self.scopes.lineage(cls)),
        ]

    def _is_metric(self, cls: cst.ClassDef, function: cst.FunctionDef) -> bool:
        """Say whether a method is what a metric does for each batch; one that gets a model goes
        over a data set."""
        params = [param.name.value for param in parameters_of(function)]
        if any(called(name, MODEL) for name in params) or not _takes_tensors(self.module, function):
            return False
        return any(_METRIC.search(name) for name in self._class_names(cls))


def _takes_all(function: cst.FunctionDef) -> bool:
    """Say whether a parameter is annotated as a whole data set, not as a batch of it, or called a
    loader."""
    if any(called(param.name.value, LOADER) for param in function.params.params):
        return True
    hints = [
        param.annotation.annotation
        for param in function.params.params
        if param.annotation is not None
    ]
    return any(_ALL_DATA.search(cst.Module([]).code_for_node(hint)) for hint in hints)


def _given_tensors(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether the uses of a function's parameters, or their annotations, are a tensor's."""
    first = [p for p in function.params.params if p.name.value not in ("self", "cls")]
    used = used_as_tensor(values(module), function)
    return any(
        param.name.value in used
        or (
            param.annotation is not None
            and values(module).annotation(param.annotation.annotation).tensor
        )
        for param in first
    )


def _is_detached(node: cst.BaseExpression | None) -> bool:
    """Say whether an expression is a chain of methods, one of which leaves the graph behind."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value == "detach":
            return True
        node = node.func.value
    return False


def _is_read(node: cst.BaseExpression | None) -> bool:
    return method_called(node) == "item"


def _takes_tensors(module: Module, function: cst.FunctionDef) -> bool:
    first = [p.name.value for p in function.params.params if p.name.value not in ("self", "cls")]
    return any(
        values(module).name_evidence(function, name, Value()).tensor for name in first
    ) or any(
        name is not None and name.startswith("torch.")
        for call in module.within(function.body, cst.Call)
        for name in (module.name(call.func) or _forward_of(call),)
    )


def _forward_of(call: cst.Call) -> str | None:
    """Return a name of torch for ``self.part.forward(x)``."""
    func = call.func
    runs = attr_of(func) == "forward" and bool(call.args)
    return "torch.nn.Module.forward" if runs else None


def moves(module: Module, code: cst.CSTNode) -> bool:
    """Say whether code brings something to a device: batches, where it hands them on."""
    return any(method_called(call) in MOVES for call in module.within(code, cst.Call))
