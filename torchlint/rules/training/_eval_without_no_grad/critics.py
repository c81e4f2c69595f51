"""A critic's step whose backward pass runs through the generator, of which no gradient is kept: the
generator's are cleared before its optimizer steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Module, inferred
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import assigned_value
from torchlint.semantic.code.tree import DISPLAYS, LOOPS, attr_of, components, method_called
from torchlint.semantic.question import question
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.gradients import switches_off
from torchlint.semantic.values.inferred import is_model_call

_CUT = ops.having("cuts") | ops.having("reads") | {"shape", "size"}
_BACK = ("backward", "manual_backward")
_TRAINS = frozenset((*_BACK, "step"))
_PARAMETERS = ("parameters", "named_parameters")
_SWITCHED = regex(r"requires_grad_?\(|freez|toggle_(grad|optim)")
_SCHEDULES = regex(r"sched|warmup")


@question(
    yes="the backward pass runs through it, and its gradients are cleared before a step uses them",
    no="its gradients may be used",
)
def vain_backward(module: Module, node: cst.Call) -> cst.BaseExpression | None:
    """Return the argument of a model's call that another model made, where the loss goes back
    through that one as well, and only the called one's optimizer steps before its gradients are
    cleared."""
    function = module.function(node)
    if function is None or not is_model_call(module, node):
        return None
    critic = dotted_text(node.func)
    for arg in node.args:
        made = _made_by(module, arg.value)
        maker = dotted_text(made.func) if made is not None else None
        if made is None or maker is None or critic is None or maker == critic:
            continue
        owners = _owners(module)
        both = [o for o, models in owners.items() if {maker, critic} <= models]
        mine = {o for o, models in owners.items() if maker in models}
        apart = not both and mine and any(critic in models for models in owners.values())
        if not apart or no_grad(module, made) is not False:
            continue
        text = module.source(function)
        if switches_off(text) or _SWITCHED.search(text):
            continue
        if _Gradients(module, maker, mine, owners).thrown_away(node, function):
            return arg.value
    return None


def _made_by(module: Module, value: cst.BaseExpression) -> cst.Call | None:
    """Return the call of a model that gave a value, or the first of several."""
    value = assigned_value(module, value) or value
    return value if isinstance(value, cst.Call) and is_model_call(module, value) else None


@question()
def _owners(module: Module) -> dict[str, frozenset[str]]:
    """Return the models of which each optimizer of a file updates the parameters, by their names
    in it."""
    found: dict[str, frozenset[str]] = {}
    for assign in module.nodes(cst.Assign):
        if inferred(module, assign.value).kind != "optimizer":
            continue
        calls = module.within(assign.value, cst.Call)
        taken = [
            dotted_text(call.func.value)
            for call in calls
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _PARAMETERS
        ]
        models = frozenset((name or "?").removesuffix(".module") for name in taken)
        for target in assign.targets:
            name = dotted_text(target.target)
            if name is not None:
                found[name] = found.get(name, frozenset()) | (models or {"?"})
    return {} if any("?" in models for models in found.values()) else found


class _Gradients:
    """What becomes of the gradients that one backward pass leaves in a model, statement by
    statement.

    Args:
        graphs: names of what has the graph of the critic's output.
        pending: whether gradients of that graph may lie in the model.
        through: whether it has been back-propagated.
        used: whether a step may have used them, or what is done is not known.
        trained: whether the model's optimizer steps somewhere in the function.
    """

    def __init__(
        self, module: Module, maker: str, mine: set[str], owners: dict[str, frozenset[str]]
    ) -> None:
        self.module, self.mine, self.owners = module, mine, owners
        self.cleared = {maker, *mine}
        self.graphs: set[str] = set()
        self.pending = self.through = self.used = self.trained = False

    def thrown_away(self, critic: cst.Call, function: cst.FunctionDef) -> bool:
        """Say whether the gradients of the critic's call are thrown away in each case."""
        at: cst.CSTNode | None = self.module.statement(critic)
        self._small(self.module.small_statement(critic), critic)
        while at is not None and at is not function:
            block = self.module.parent(at)
            if isinstance(block, cst.IndentedBlock):
                behind = block.body.index(at) + 1
                self._block(block.body[behind:])
                at = self.module.parent(block)
                if isinstance(at, LOOPS):
                    self._maybe(block.body[:behind])
            else:
                at = block
        return at is function and self.through and self.trained and not self.used

    def _block(self, body: Sequence[cst.CSTNode]) -> None:
        for part in body:
            if isinstance(part, cst.SimpleStatementLine):
                for small in part.body:
                    self._small(small, None)
            elif isinstance(part, cst.With):
                self._block(part.body.body)
            elif not isinstance(part, (cst.FunctionDef, cst.ClassDef)):
                for suite in _suites(part):
                    self._maybe(suite.body)

    def _maybe(self, body: Sequence[cst.CSTNode]) -> None:
        """Take statements that run or do not."""
        graphs, pending = set(self.graphs), self.pending
        self._block(body)
        self.graphs |= graphs
        self.pending |= pending

    def _small(self, small: cst.CSTNode | None, critic: cst.Call | None) -> None:
        if small is None:
            return
        for call in self.module.within(small, cst.Call):
            self._call(call, critic)
        match small:
            case cst.Assign(targets, value):
                names = {name for target in targets for name in _names(target.target)}
                if self._carries(value, critic):
                    self.graphs |= names
                else:
                    self.graphs -= names
            case cst.AugAssign(target, value=value) if self._carries(value, critic):
                self.graphs |= set(_names(target))
            case cst.Return(value) if value is not None and self._carries(value, critic):
                self.used = True

    def _call(self, call: cst.Call, critic: cst.Call | None) -> None:
        name = method_called(call)
        if name in _BACK:
            if self._carries(call, critic):
                self.pending = self.through = True
        elif name == "zero_grad":
            self._clear(call)
        elif name == "step":
            self._step(call)
        elif callees := callees_of(self.module, call):
            inner = [c for each in callees for c in self.module.within(each, cst.Call)]
            self.used |= any(method_called(c) in _TRAINS for c in inner)
            for each in inner:
                if method_called(each) == "zero_grad":
                    self._clear(each)

    def _clear(self, call: cst.Call) -> None:
        if isinstance(call.func, cst.Attribute) and dotted_text(call.func.value) in self.cleared:
            self.pending = False

    def _step(self, call: cst.Call) -> None:
        """Take a step: of an optimizer, of a scaler that is given one, of a schedule."""
        assert isinstance(call.func, cst.Attribute)
        places = [call.func.value, *(arg.value for arg in call.args)]
        names = [name for place in places if (name := dotted_text(place)) in self.owners]
        if not names:
            kind = inferred(self.module, call.func.value).kind
            schedule = _SCHEDULES.search(dotted_text(call.func.value) or "")
            self.used |= self.through and kind != "scheduler" and schedule is None
        elif names[0] in self.mine:
            self.trained = True
            self.used |= self.pending

    def _carries(self, node: cst.CSTNode, critic: cst.Call | None) -> bool:
        """Say whether code reads what has the graph, and does not cut it at once."""
        return any(
            attr_of(self.module.parent(read)) not in _CUT
            for read in self.module.within(node, cst.Name, cst.Attribute, cst.Call)
            if read is critic or dotted_text(read) in self.graphs
        )


def _suites(node: cst.CSTNode) -> Iterator[cst.BaseSuite]:
    """Yield the blocks of a compound statement."""
    for child in node.children:
        if isinstance(child, cst.BaseSuite):
            yield child
        elif isinstance(child, (cst.If, cst.Else, cst.ExceptHandler, cst.Finally)):
            yield from _suites(child)


def _names(target: cst.BaseExpression) -> Iterator[str]:
    """Yield the names and attributes that an assignment binds."""
    return filter(None, map(dotted_text, components(target, *DISPLAYS)))
