"""Loops over data though they go over no loader: decoding, sampling, acting in an environment,
evaluation by slices of one long tensor, pairs that are compared on the device."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.tree import (
    LOOPS,
    Function,
    Loop,
    attr_of,
    is_name,
    keyword_of,
    last_name,
    method_called,
)
from torchlint.semantic.code.updates import updates
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import iterations
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.names import MOVES
from torchlint.semantic.torch.spelling import LOADER, MODEL, called
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.value import ACCEL, CUDA

_HANDFUL = 10
"""Passes, written out, that make no loop over data: members of an ensemble, a warm-up, a demo."""
_NO_DATA = regex(
    r"(^|_)(epochs?|folds?|laps?|seeds?|ckpts?|checkpoints?|weights?(_?files?)?|state_dicts?"
    r"|experiments?|configs?|models?|nets?|networks?)(_|\d|$)",
    re.IGNORECASE,
)
"""What a loop over whole trainings, epochs or models says of itself."""
_WHOLE = regex(
    r"^(train|fit|evaluate|validate|test|run_training)(_|$)|(^|_)epoch(_|$)", re.IGNORECASE
)
"""Functions elsewhere that go over all data by themselves: the loop around them is over epochs."""
_JUDGES = regex(r"^(evaluate|validate|test)(_|$)", re.IGNORECASE)
_GOES_FAR = regex(
    r"(^|_)(args?|opts?|cfg|conf|configs?|hparams|datasets?|data|epochs?|env|agent|trainer|split"
    r"|(train|val|valid|test|eval)(ing)?_?(set|ds|data)?)(_|\d|$)",
    re.IGNORECASE,
)
"""What such a function is given that goes over data; ``validate_answer(text)`` judges one."""
_RUNS = regex(
    r"^_*(p_)?(sample|denoise|decode|encode|predict|infer(ence)?|translate|act|get_action|score"
    r"|step)(_\w+)?$"
)
"""Methods by which a module is run, beside calling it."""
_LOOKS = regex(
    r"(^|_)(loss|criterion|trac(e|ing)|export|summary|profile|flops|macs|save|load|plot|log|show"
    r"|print|watch|add_graph|register|make|build|create|init)(_|$)",
    re.IGNORECASE,
)
"""What is called so looks at a network, keeps it or makes another one."""
_LOADING = frozenset(("load_state_dict", "load_weights", "load_checkpoint", "restore"))
_BY_NAME = regex(r"^(items|keys|(named_)?(parameters|buffers|modules)|state_dict)$")
_BACK = ops.having("reads") | {"cpu"}
"""Methods that bring a tensor of a device to the host."""
_DRAWS = ops.having("random")
_FED = frozenset(("tensor", "batch"))
_TRAINED = regex(r"\b(load\w*|from_pretrained|optim\w*|pretrained|restore\w*|train\w*)\b")
_DEPTH = 2
_FEW = 6
"""Bindings of a name that are looked at; one with more is anything."""


class Runs:
    """Says of the loops of one file whether each pass runs a model."""

    def __init__(self, module: Module) -> None:
        self.tree = module.tree
        self.names = module.names
        self.scopes = scopes(module)
        self.flow = flow(module)
        self.updates = updates(module)
        self.values = values(module)
        self.iterations = iterations(module)
        self.trained = _TRAINED.search(module.text) is not None
        self._loops: dict[cst.CSTNode, bool] = {}
        self._trips: dict[cst.CSTNode, bool] = {}
        self._functions: dict[tuple[cst.CSTNode, int, bool, bool], bool] = {}

    def runs(self, loop: cst.CSTNode) -> bool:
        """Say whether each pass of a loop runs a model that was there before, on tensors."""
        if loop not in self._loops:
            assert isinstance(loop, LOOPS)
            self._loops[loop] = False
            self._loops[loop] = self._runs(loop)
        return self._loops[loop]

    def _runs(self, loop: Loop) -> bool:
        whole = self._by_slices(loop)
        calls = list(self.tree.within(loop.body, cst.Call) if whole else self._calls_in(loop))
        tests = self.tree.within(loop.test, cst.Call) if isinstance(loop, cst.While) else ()
        if not calls or self._over_no_data(loop) or any(map(self._begins_anew, (*calls, *tests))):
            return False
        return any(self._runs_model(call, loop, whole=whole) for call in calls) or any(
            map(self._runs_elsewhere, calls)
        )

    def _runs_elsewhere(self, call: cst.Call) -> bool:
        """Say whether a call runs a function of another file, or a method of an object whose class
        is there, that runs a model."""
        func, outside = call.func, self.names.outside
        name = self.names.name(func) if call.args else "torch."
        if name is not None and name.startswith(("torch.", "builtins.", "numpy.")):
            return False
        if self.flow.callees(call) or _LOOKS.search(last_name(func)):
            return False
        if found := outside.find(name):
            return outside.runs_model((found,), "")
        held = self.values.value(func.value) if isinstance(func, cst.Attribute) else None
        if held is None or held.kind not in ("object", "module"):
            return False
        families = self.values.families(held)
        return any(outside.runs_model(family, last_name(func)) for family in families)

    def function_runs(self, function: cst.FunctionDef) -> bool:
        """Say whether one call of a function runs a model, and goes over no data by itself."""
        return self._function(function, _DEPTH - 1, once=True, whole=False)

    def _calls_in(self, loop: Loop) -> Iterator[cst.Call]:
        """Yield the calls of one pass of a loop, those of the handful of passes of a loop in it
        too."""
        yield from self.updates.calls_in(loop)
        for inner in self.tree.within(loop.body, cst.For):
            around = next(each for each in self.tree.ancestors(inner) if isinstance(each, LOOPS))
            if around is loop and (self.iterations.count(inner) or _HANDFUL + 1) <= _HANDFUL:
                yield from self.updates.calls_in(inner)

    def round_trips(self, loop: cst.For) -> bool:
        """Say whether each pass of a loop brings something of its own to a device and reads back
        what is computed there: it is a loop over data, and over no weights."""
        if loop not in self._trips:
            self._trips[loop] = False
            self._trips[loop] = self._there_and_back(loop)
        return self._trips[loop]

    def _there_and_back(self, loop: cst.For) -> bool:
        calls = list(self.updates.calls_in(loop))
        reads = [call for call in calls if method_called(call) in _BACK]
        moves = [call for call in calls if call.args and self._moves(call)] if reads else []
        if not moves or self._over_no_data(loop) or self._over_weights(loop):
            return False
        if any(self.values.loader_of(each.iterated) for each in self.iterations.over(loop)):
            return False  # What is done with its batches says more.
        if any(last_name(call.func) == "load" for call in calls):
            return False  # Each pass waits for the file that it reads: weights, or results.
        own = self.tree.names_in(loop.target) | {
            name.value for name in self.tree.within(loop.body, cst.Name) if self.flow.is_write(name)
        }
        return (
            any(self._brings(call, own) for call in moves)
            and any(map(self._reads_back, reads))
            and not any(map(self._begins_anew, calls))
        )

    def _over_weights(self, loop: cst.For) -> bool:
        """Say whether a loop goes over what is stored by name, as weights and states are."""
        return self.iterations.structural(loop) or any(
            _BY_NAME.search(last_name(call.func)) for call in self.tree.within(loop.iter, cst.Call)
        )

    def _brings(self, call: cst.Call, own: frozenset[str]) -> bool:
        """Say whether a call brings a tensor that belongs to the pass to a device, and that is not
        drawn at random, as where sizes are tried."""
        return (
            self.values.value(call).device in (ACCEL, CUDA)
            and self.values.value(call).kind not in ("module", "object")
            and any(name.value in own for name in self.tree.within(call, cst.Name))
            and not any(last_name(c.func) in _DRAWS for c in self.tree.within(call, cst.Call))
        )

    def _moves(self, call: cst.Call) -> bool:
        """Say whether a call, or a function of this file that it calls, moves something."""
        return method_called(call) in MOVES or any(
            method_called(inner) in MOVES
            for callee in self.flow.callees(call)
            for inner in self.tree.within(callee.body, cst.Call)
        )

    def _reads_back(self, call: cst.Call) -> bool:
        read = self.values.value(call.func.value) if isinstance(call.func, cst.Attribute) else None
        return read is not None and read.tensor and read.device in (ACCEL, CUDA)

    def _by_slices(self, loop: Loop) -> bool:
        """Say whether a loop goes over data in slices, ``range(0, len(data), size)``: each pass is
        a batch, also where a loop in it runs the model for each word."""
        if not isinstance(loop, cst.For) or not isinstance(loop.iter, cst.Call):
            return False
        args = loop.iter.args
        if self.names.name(loop.iter.func) != "builtins.range" or len(args) != 3:
            return False
        return any(
            is_name(call.func, "len") for call in self.tree.within(args[1], cst.Call)
        ) and not isinstance(args[2].value, (cst.Integer, cst.UnaryOperation))

    def _over_no_data(self, loop: Loop) -> bool:
        """Say whether a loop says that its passes are epochs, models or a handful of examples."""
        if self.updates.is_collection(loop):
            return True
        if isinstance(loop, cst.While):
            return False
        parts = (*self.tree.within(loop.target, cst.Name), *self._spelled(loop.iter))
        count = self.iterations.most(loop)
        return (count is not None and count <= _HANDFUL) or any(
            _NO_DATA.search(part.value) for part in parts
        )

    def _spelled(self, node: cst.CSTNode) -> Iterator[cst.Name]:
        """Yield the last names of what is iterated: ``epochs`` of ``range(args.epochs)``, but not
        ``model`` of ``model.batches()`` and ``config`` of ``config["steps"]``."""
        for name in self.tree.within(node, cst.Name):
            above = self.tree.parents.get(name)
            holder = isinstance(above, cst.Attribute) and above.value is name
            if not holder and not self._looked_into(above, name):
                yield name

    def _looked_into(self, above: cst.CSTNode | None, name: cst.Name) -> bool:
        """Say whether a name is the table of what is meant: ``config["steps"]``."""
        return (
            isinstance(above, cst.Subscript)
            and above.value is name
            and isinstance(index := above.slice[0].slice, cst.Index)
            and isinstance(index.value, cst.SimpleString)
        )

    def _begins_anew(self, call: cst.Call) -> bool:
        """Say whether a call loads another model, is a whole training or evaluation, or waits for
        what a person types."""
        func = call.func
        last = attr_of(func)
        if isinstance(func, cst.Name):
            last = func.value
        if last in _LOADING or self.names.name(func) == "builtins.input":
            return True
        if not call.args or not _WHOLE.search(last) or self.flow.callees(call):
            return False
        return not _JUDGES.search(last) or any(self._goes_far(arg) for arg in call.args)

    def _goes_far(self, arg: cst.Arg) -> bool:
        """Say whether an argument is a model, a loader, or what it may be made from: a dataset, the
        options of the program."""
        value = self.values.value(arg.value)
        if value.kind in ("module", "loader") or arg.star:
            return True
        name = last_name(arg.value) or keyword_of(arg)
        return (
            called(name, MODEL) or called(name, LOADER) or _GOES_FAR.search(name) is not None
        ) and not value.tensor

    def _runs_model(
        self, call: cst.Call, loop: Loop | None, depth: int = _DEPTH, *, whole: bool = False
    ) -> bool:
        callees = self.flow.callees(call)
        if callees:
            once = isinstance(loop, cst.While)
            return depth > 0 and any(
                self._function(each, depth - 1, once=once, whole=whole) for each in callees
            )
        if not call.args:
            return False
        model = self._handed(call)
        if model is None and self._plausible(call.func) and self._model(call):
            model = call.func if self._on_tensors(call) else None
        return (
            model is not None and not self._made_in(model, loop) and not self._is_untrained(model)
        )

    def _handed(self, call: cst.Call) -> cst.BaseExpression | None:
        """Return the network that a call hands on together with a tensor of the device, to code
        that runs it: ``sampler.sample(model, noise)``."""
        name = self.names.name(call.func) or ""
        if _LOOKS.search(last_name(call.func)) or name.startswith(("builtins.", "torch.")):
            return None
        given = [arg.value for arg in call.args if not arg.star]
        if len(given) < 2:  # A network and what it is to be run on.
            return None
        kinds = [self.values.value(each) for each in given]
        fed = any(each.tensor and each.device in (ACCEL, CUDA) for each in kinds)
        networks = (node for node, each in zip(given, kinds, strict=True) if each.kind == "module")
        return next(networks, None) if fed else None

    def _function(self, function: Function, depth: int, *, once: bool, whole: bool) -> bool:
        """Say whether one call of a function runs a model.

        `once` asks for one run a call: a ``while`` around a function that goes over data by itself
        repeats whole rollouts, epochs, or evaluations; `whole` counts runs in its loops as well.
        """
        if isinstance(function, cst.Lambda) or self.updates.is_step_function(function):
            return False
        key = (function, depth, once, whole)
        if key not in self._functions:
            self._functions[key] = False
            calls = (
                self.tree.within(function.body, cst.Call)
                if whole
                else self.updates.calls_in(function)
            )
            self._functions[key] = any(
                self._runs_model(call, None, depth, whole=whole) for call in calls
            ) and not (once and any(map(self.runs, self.tree.within(function.body, *LOOPS))))
        return self._functions[key]

    def _plausible(self, func: cst.BaseExpression) -> bool:
        """Say whether a callee may be a model at all; asked first, as it needs no values."""
        if isinstance(func, cst.Attribute):
            if is_name(func.value, "self"):
                return True
            last = func.attr.value
            return (
                called(last, MODEL)
                or bool(_RUNS.match(last))
                or last.startswith("forward")
                or last == "generate"
            )
        if isinstance(func, cst.Name):
            _, bindings = self.names.bindings(func.value, func)
            return any(binding.kind in ("assign", "param", "with") for binding in bindings)
        return isinstance(func, cst.Subscript)

    def _model(self, call: cst.Call) -> bool:
        if self.values.is_model_call(call):
            return True
        func = call.func
        if not isinstance(func, cst.Attribute) or not _RUNS.match(func.attr.value):
            return False
        value = self.values.value(func.value)
        return value.kind == "module" and value.name != "loss"

    def _on_tensors(self, call: cst.Call) -> bool:
        """Say whether a call is given a tensor; what is not known may be one where the model is
        certainly a model, autograd is off, or somebody moves it to a device."""
        found = [(arg.value, self.values.value(arg.value)) for arg in call.args]
        if any(v.kind in _FED or (v.item is not None and v.item.kind in _FED) for _, v in found):
            return True
        unknown = [node for node, value in found if value.kind in ("?", "dict", "list", "tuple")]
        if not unknown:
            return False
        return (
            self.values.value(call.func).origin != "name"
            or self.scopes.lexical_no_grad(call) is True
            or any(self._is_moved(node) for node in unknown)
        )

    def _is_moved(self, node: cst.BaseExpression, depth: int = _DEPTH) -> bool:
        """Say whether code moves what an argument is: ``net(x.cuda())``, ``x = y.to(dev)``."""
        for call in self.tree.within(node, cst.Call):
            if method_called(call) in MOVES:
                return True
        for name in self.tree.within(node, cst.Name) if depth else ():
            _, bindings = self.names.bindings(name.value, name)
            for binding in bindings if len(bindings) <= _FEW else ():
                value = binding.value
                if binding.kind == "unpack" and value is None:
                    statement = self.tree.small_statement(binding.node)
                    value = statement.value if isinstance(statement, cst.Assign) else None
                if value is not None and self._is_moved(value, depth - 1):
                    return True
        return False

    def _made_in(self, func: cst.BaseExpression, loop: Loop | None) -> bool:
        """Say whether the loop, or the function that it calls, makes or picks the model that it
        runs: one of an ensemble."""
        if not isinstance(loop, LOOPS):
            return self._is_local(func)
        targets = self.tree.names_in(loop.target) if isinstance(loop, cst.For) else set()
        used = self.tree.names_in(func)
        if used & targets:
            return True
        text = dotted_text(func)
        root = (text or "").partition(".")[0]
        if not root or root == "self":
            return False
        return any(not self._keeps_model(write) for write in self.flow.writes(loop.body, root))

    def _keeps_model(self, write: cst.Name) -> bool:
        """Say whether an assignment leaves a model what it is: ``model = model.cuda()``."""
        statement = self.tree.small_statement(write)
        return isinstance(statement, cst.Assign) and write.value in self.tree.names_in(
            statement.value
        )

    def _is_untrained(self, func: cst.BaseExpression) -> bool:
        """Say whether a model is made in this very place and never gets weights: a usage example, a
        self-test."""
        return not self.trained and self._is_local(func)

    def _is_local(self, func: cst.BaseExpression) -> bool:
        """Say whether a callee is a name that this very function, or the file's top level, gives
        the result of a call."""
        if not isinstance(func, cst.Name):
            return False
        scope, bindings = self.names.bindings(func.value, func)
        home: cst.CSTNode = self.tree.function(func) or self.tree.root
        return scope is home and any(
            binding.kind == "assign"
            and isinstance(binding.value, cst.Call)
            and func.value not in self.tree.names_in(binding.value)
            for binding in bindings
        )


@question(ground=True)
def runs(module: Module) -> Runs:
    """Return which loops and functions of a file run a model."""
    return Runs(module)


@question(
    yes="each pass of the loop runs a model", no="no pass of the loop runs a model", ground=True
)
def runs_model(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether each pass of a loop runs a model on tensors, one that was there before it: it is
    a loop over data, whatever it goes over."""
    return runs(module).runs(loop)


@question(
    yes="each pass of the loop {answer}",
    no="no pass of the loop runs a model, or reads what it has computed on the device",
    ground=True,
)
def work_of_loop(module: Module, loop: cst.CSTNode) -> str | None:
    """Return what each pass of a loop does with data, whatever the loop goes over: it runs a model,
    or it brings something of its own to the device and reads what is computed there."""
    if runs_model(module, loop):
        return "runs a model"
    trips = isinstance(loop, cst.For) and runs(module).round_trips(loop)
    return "computes on the device and reads the result" if trips else None
