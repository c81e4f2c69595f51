"""The values of one file: asked for by expression, computed once, with a bounded depth across
functions.

An analysis of a function has a *budget*: with none left, parameters are known by annotation and use
alone and calls of local functions give nothing. With more, parameters take the join of their call
sites and calls take the callee's summary, each analysed with one unit less. So results do not
depend on the order of questions.

What never wanted more budget than it had is the same with any more: such an analysis is done once
and not again for each amount (see `budget`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.code.flow import flow
from torchlint.semantic.code.names import Binding, dotted_text
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.self_attributes import (
    Assignments,
    registered_buffers,
    self_assignments,
)
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.spelling import MODEL, called
from torchlint.semantic.values import backprop, evidence, params, records
from torchlint.semantic.values.budget import Budgeted
from torchlint.semantic.values.interpreter import Interpreter
from torchlint.semantic.values.parameter_uses import converted
from torchlint.semantic.values.recognition import Recognition
from torchlint.semantic.values.refilled import brought
from torchlint.semantic.values.steps import Step
from torchlint.semantic.values.value import (
    ACCEL,
    CLASSES,
    COUNTED,
    NONE,
    UNKNOWN,
    Value,
    join,
    join_all,
)

if TYPE_CHECKING:
    from torchlint.semantic.elsewhere import Definition

BUDGET = 3
_FRAMEWORK = Wording(
    regex(
        r"^[^\S\n]*(?:import|from) "
        r"(?:accelerate|(?:pytorch_)?lightning(?:_fabric)?|ignite|fastai|deepspeed)\b",
        re.MULTILINE,
    ),
    ("accelerate", "lightning", "ignite", "fastai", "deepspeed"),
)
_PARTS = frozenset(("items", "keys", "values"))
_OF_MAPPINGS = _PARTS | {"get", "pop", "update", "copy", "setdefault"}
"""What is asked of a mapping; outputs of transformers are asked for their parts as well."""
_OBJECTS = frozenset(("module", "optimizer", "loader", "scaler"))
"""What a name alone may stand for."""
_DEFAULT_DEVICE = Wording(
    regex(r"set_default_device|set_default_tensor_type|with torch\.device\("),
    ("set_default_device", "set_default_tensor_type", "with torch.device("),
)


class Values(Budgeted, Recognition):
    """Abstract values of the expressions of one file."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.tree = module.tree
        self.names = module.names
        self.scopes = scopes(module)
        self.flow = flow(module)
        self.text = text = module.text
        self.framework = bool(_FRAMEWORK.search(text))
        self.scatters = "DataParallel" in text
        self.trains = "backward" in text
        """Whether a model may be wrapped in what brings its inputs to it."""
        self.default_device = bool(_DEFAULT_DEVICE.search(text))
        """Whether a default device other than the CPU may hold somewhere in the file."""
        self.freezes = "requires_grad" in text
        self._given: dict[
            tuple[cst.FunctionDef, int, tuple[tuple[str, Value], ...]], Interpreter
        ] = {}
        self._runs: dict[tuple[cst.CSTNode, int], Interpreter] = {}
        self._attributes: dict[tuple[cst.ClassDef, str, int], Value] = {}
        self._full_runs: dict[cst.CSTNode, Interpreter] = {}
        self._final: dict[cst.CSTNode, Value] = {}
        """What was asked from outside, when no analysis was under way."""
        self._full_attributes: dict[tuple[cst.ClassDef, str], tuple[int, Value]] = {}
        self._written: dict[str, list[tuple[cst.Attribute, cst.Assign | cst.AugAssign]]] | None = (
            None
        )
        self._made: dict[cst.ClassDef, list[cst.Call]] | None = None
        self.steps: dict[cst.CSTNode, Step] = {}
        self.graphless: dict[cst.CSTNode, bool] = {}
        """Of statements whether the text around them says ``no_grad``, as far as asked."""
        self._free: dict[cst.Name, Value | cst.FunctionDef | cst.Module] = {}
        self.strings: dict[str, Value] = {}
        """What texts are, as they are written."""

    # -- asking ------------------------------------------------------------------------------------

    def value(self, node: cst.CSTNode, budget: int = BUDGET) -> Value:
        """Return what is known of an expression (or of the target an assignment binds)."""
        final = budget == BUDGET and not self._open
        if final and node in self._final:
            return self._final[node]
        found = self.run(self.tree.function(node) or self.tree.root, budget).value_of(node)
        if final:
            self._final[node] = found
        return found

    def run_with(
        self, function: cst.FunctionDef, budget: int, given: Mapping[str, Value]
    ) -> Interpreter:
        """Return the analysis of a function for these arguments; an unknown one is left to its
        other evidence."""
        known = tuple(
            sorted(
                (name, value) for name, value in given.items() if value.kind not in ("?", "none")
            )
        )
        key = (function, budget, known)
        found = self._given.get(key)
        if found is None:
            before = self._begin(key)
            env = self._environment(function, budget)
            found = self._given[key] = Interpreter(self, function, budget)
            found.run({**env, **{name: value for name, value in known if name in env}})
            self._end(key, before)
        else:
            self._used(key)
        return found

    def run(self, owner: cst.CSTNode, budget: int) -> Interpreter:
        """Return the finished analysis of a function or of the module's top level."""
        if owner in self._full_runs and (full := self._full_runs[owner]).budget <= budget:
            return full
        key = (owner, budget)
        if key in self._runs:
            self._used(key)
            return self._runs[key]
        before = self._begin(key)
        found = self._runs[key] = Interpreter(self, owner, budget)
        found.run(self._environment(owner, budget) if isinstance(owner, cst.FunctionDef) else {})
        self._end(key, before)
        if key not in self._short:
            self._full_runs[owner] = found
        return found

    def _environment(self, function: cst.FunctionDef, budget: int) -> dict[str, Value]:
        return self.parameters(function).environment(budget)

    @remembered
    def parameters(self, function: cst.FunctionDef) -> params.Parameters:
        """Return what is known of the parameters of a function."""
        return params.Parameters(self, function)

    def given(self, function: cst.FunctionDef, name: str, *, far: bool) -> Iterator[Value]:
        """Yield what the calls of a function pass as a parameter; `far`: in other files too."""
        return self.parameters(function).given(name, far=far)

    def summary(
        self, function: cst.CSTNode, budget: int, given: Mapping[str, Value] | None = None
    ) -> Value:
        """Return what a call of a local function gives, for these arguments if any are; unknown
        without budget."""
        self.asked += 1
        if budget < 0:
            self.starve()
            return UNKNOWN
        if isinstance(function, cst.Lambda):
            return self.value(function.body, budget)
        if not isinstance(function, cst.FunctionDef):
            return UNKNOWN
        declared = (
            self.annotation(function.returns.annotation)
            if function.returns is not None
            else UNKNOWN
        )
        if self._gives_nothing(function):
            found = NONE
        elif given:
            found = self.run_with(function, budget, given).result()
        else:
            found = self.run(function, budget).result()
        if function.asynchronous is not None:
            return UNKNOWN
        unsure = found.kind in ("?", "tensor", "batch") and found.device is None
        if unsure and given and (moved := brought(self.tree, function, given)):
            return moved
        if found.kind == "none" and self.is_abstract(function):
            return declared
        return declared if found.kind in ("?", "none") and declared.kind != "?" else found

    @remembered
    def _gives_nothing(self, function: cst.FunctionDef) -> bool:
        """Say whether a function has nothing to give back, so that it need not be analysed for
        it."""
        gives = self.tree.within(function, cst.Return, cst.Yield)
        return all(isinstance(each, cst.Return) and each.value is None for each in gives)

    def annotation(self, node: cst.CSTNode | None) -> Value:
        """Return what a type annotation says; ``Optional[X]`` and ``X | None`` say X."""
        if isinstance(node, cst.Subscript):
            name = (self.names.name(node.value) or dotted_text(node.value) or "").rpartition(".")[2]
            inner = [s.slice.value for s in node.slice if isinstance(s.slice, cst.Index)]
            if name == "Optional" and inner:
                return self.annotation(inner[0])
            if name in ("List", "list", "Sequence", "Iterable", "Iterator") and inner:
                return Value("list", item=self.annotation(inner[0]))
            if name in ("Tuple", "tuple") and inner:
                return Value("tuple", items=tuple(self.annotation(i) for i in inner))
            if name in ("Dict", "dict", "Mapping") and len(inner) == 2:
                return Value("dict", item=self.annotation(inner[1]))
            return self.annotation(node.value)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
            sides = [
                self.annotation(s) for s in (node.left, node.right) if dotted_text(s) != "None"
            ]
            return join_all(sides)
        if isinstance(node, cst.SimpleString):
            return evidence.by_annotation(
                {"torch.Tensor": "torch.Tensor", "Tensor": "torch.Tensor"}.get(str(node.raw_value))
            )
        cls = self.scopes.local_class(node)
        if cls is not None:
            return Value(
                "module" if self.scopes.is_module(cls) else "object", node=cls, name=cls.name.value
            )
        dotted = self.names.name(node) or dotted_text(node)
        elsewhere = self.names.outside.instance(dotted) if dotted is not None else UNKNOWN
        return elsewhere if elsewhere.kind != "?" else evidence.by_annotation(dotted)

    # -- names -------------------------------------------------------------------------------------

    def free_name(self, node: cst.Name, budget: int) -> Value:
        """Return the value of a name that the function itself has not bound so far."""
        if node not in self._free:
            self._free[node] = self._free_name(node)
        scope = self._free[node]
        if isinstance(scope, Value):
            return scope
        self.asked += 1
        if budget <= 0:
            self.starve()
            return UNKNOWN
        key = (scope, budget - 1)
        if key in self._runs and not self._runs[key].begun:
            self._used(key)
            self.starve()
            return UNKNOWN
        found = self.run(scope, budget - 1).env.get(node.value, UNKNOWN)
        if found.kind not in COUNTED or not isinstance(scope, cst.Module):
            return found
        return self._counted_by_functions(node.value, found, budget)

    def _counted_by_functions(self, name: str, found: Value, budget: int) -> Value:
        """Return what a global holds that starts as a number, by what functions give it
        (``global total``)."""
        for binding in self.names.tables[self.tree.root].get(name, ()):
            if self.tree.owners[binding.node] is not self.tree.root:
                value = binding.value
                more = self.value(value, budget - 1) if value is not None else UNKNOWN
                found = join(found, more)
        return found

    def _free_name(self, node: cst.Name) -> Value | cst.FunctionDef | cst.Module:
        """Return the value of such a name where no code needs to run for it, else the scope that
        binds it."""
        scope, bindings = self.names.bindings(node.value, node)
        if len(bindings) == 1 and bindings[0].kind in ("def", "class"):
            return Value(
                "function" if bindings[0].kind == "def" else "class", node=bindings[0].node
            )
        if not isinstance(scope, (cst.FunctionDef, cst.Module)) or self._never_bound(
            node, scope, bindings
        ):
            return UNKNOWN
        return scope

    def _never_bound(self, node: cst.Name, scope: cst.CSTNode, bindings: Sequence[Binding]) -> bool:
        """Say whether no statement gives a name its value: an import does, or it is ``self`` of its
        own function."""
        kinds = {binding.kind for binding in bindings}
        return kinds == {"import"} or (
            kinds == {"param"} and self.scopes.tree.function(node) is scope
        )

    def name_evidence(self, owner: cst.CSTNode, name: str, found: Value) -> Value:
        """Return what the uses of a name in its function, or else its spelling, say."""
        uses = self.uses(owner)
        if name in uses:
            value = uses[name]
            return value.but(device=found.device or value.device)
        named = evidence.by_name(name)
        if named.kind == "?" or (named.kind in _OBJECTS and name in self.texts(owner)):
            return found
        return named if found.device is None else named.but(device=found.device)

    @remembered
    def uses(self, owner: cst.CSTNode) -> dict[str, Value]:
        """Return the names of a function that its own code treats as tensors; none of a parameter
        that it makes a tensor of."""
        calls = list(self.tree.within(owner, cst.Call))
        attributes = list(self.tree.within(owner, cst.Attribute))
        trained = backprop.trained_names(self.tree, self.names, owner)
        table = self.names.tables.get(owner, {})
        beside = [
            name
            for name in backprop.holders(self.tree, owner, trained)
            if len(table.get(name, ())) <= 1
        ]
        found = evidence.tensor_names(calls, attributes, trained, beside)
        for name in converted(self, owner) if found else ():
            found.pop(name, None)
        return found

    @remembered
    def mappings(self, owner: cst.CSTNode) -> frozenset[str]:
        """Return the names of which a function asks only what a mapping has, its items, keys or
        values among that."""
        asked: dict[str, set[str]] = {}
        for node in self.tree.within(owner, cst.Attribute):
            if isinstance(node.value, cst.Name):
                asked.setdefault(node.value.value, set()).add(node.attr.value)
        return frozenset(
            name
            for name, attributes in asked.items()
            if attributes & _PARTS and attributes <= _OF_MAPPINGS
        )

    @remembered
    def networks(self, owner: cst.CSTNode) -> frozenset[str]:
        """Return the texts of what a function, or for ``self.x`` a class, both calls and asks for
        its parameters or sets to training or evaluation: networks, whatever makes them."""
        calls = list(self.tree.within(owner, cst.Call, nested=isinstance(owner, cst.ClassDef)))
        asked = {
            dotted_text(call.func.value)
            for call in calls
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in evidence.OF_NETWORKS
        }
        run = {dotted_text(call.func) for call in calls if call.args} if asked else set()
        return frozenset(text for text in asked & run if text is not None)

    @remembered
    def texts(self, owner: cst.CSTNode) -> frozenset[str]:
        """Return the names that a function compares with texts and binds once, ``model == "gcn"``:
        they say which model is meant, and are none; nor is what has a ``__name__``, a class."""
        table = self.names.tables.get(owner, {})
        named = (
            node.value.value
            for node in self.tree.within(owner, cst.Attribute)
            if isinstance(node.value, cst.Name) and node.attr.value == "__name__"
        )
        return frozenset(named) | frozenset(
            node.left.value
            for node in self.tree.within(owner, cst.Comparison)
            if isinstance(node.left, cst.Name)
            and len(table.get(node.left.value, ())) <= 1
            and evidence.is_text(node.comparisons[0].comparator)
        )

    def trained(self, owner: cst.CSTNode, name: str, found: Value) -> Value:
        """Return a tensor of unknown place as one that lives with the model, where it flows into
        the loss."""
        use = self.uses(owner).get(name)
        if (
            use is None
            or use.origin is None
            or found.device is not None
            or found.origin not in (None, "factory")
        ):
            return found
        return found.but(origin=use.origin)

    def named(self, attr: str, text: str | None) -> Value:
        """Return what the spelling of an attribute says (``self.model``, ``args.device``)."""
        return UNKNOWN if text == "torch.optim" else evidence.by_name(attr)

    def network_kept(self, node: cst.Attribute, text: str | None) -> bool:
        """Say whether the class around ``self.x`` uses that as a network."""
        cls = self.scopes.tree.class_of(node) if is_name(node.value, "self") else None
        return cls is not None and text in self.networks(cls)

    # -- attributes --------------------------------------------------------------------------------

    def attribute(self, node: cst.Attribute, holder: Value, attr: str, budget: int) -> Value:
        """Return ``self.attr`` gathered over the whole class, or an attribute of an instance of a
        local class."""
        if attr == "module" and holder.kind == "module" and self.scatters:
            own = self._value_held(node, holder, attr, budget)
            return own if own.kind != "?" else holder  # what DistributedDataParallel wraps
        return self._value_held(node, holder, attr, budget)

    def _value_held(self, node: cst.Attribute, holder: Value, attr: str, budget: int) -> Value:
        cls: cst.ClassDef | None = None
        if is_name(node.value, "self"):
            cls = self.scopes.tree.class_of(node)
        elif isinstance(holder.node, cst.ClassDef) and holder.kind in ("module", "object"):
            cls = holder.node
        if cls is None:
            names = (holder.name or "").split(CLASSES)
            elsewhere = join_all([self._held_by(holder.but(name=n), attr, budget) for n in names])
            if elsewhere.kind != "?":
                return elsewhere
            return Value("module") if holder.kind == "module" and called(attr, MODEL) else UNKNOWN
        return self.class_attribute(cls, attr, budget)

    def _held_by(self, holder: Value, attr: str, budget: int) -> Value:
        """Return an attribute of an instance of a class of another file, or one that a union of
        classes names."""
        instance = holder.kind in ("module", "object") and holder.node is None
        here = self.scopes.class_called(holder.name or "") if instance else None
        if here is not None:
            return self.class_attribute(here, attr, budget)
        return self.names.outside.attribute(self.family(holder), attr)

    def class_attribute(self, cls: cst.ClassDef, attr: str, budget: int) -> Value:
        """Return the join of everything that the class and its relatives in this file assign to
        ``self.attr``."""
        self.asked += 1
        least, full = self._full_attributes.get((cls, attr), (BUDGET + 1, UNKNOWN))
        if least <= budget:
            return full
        key = (cls, attr, budget)
        found = self._attributes.get(key)
        if found is None:
            self._attributes[key] = UNKNOWN
            before = self._begin(key)
            found = self._attributes[key] = self._class_attribute(cls, attr, budget)
            self._end(key, before)
            if key not in self._short:
                self._full_attributes[cls, attr] = budget, found
        else:
            self._used(key)
        return found

    def _class_attribute(self, cls: cst.ClassDef, attr: str, budget: int) -> Value:
        family = [*self.scopes.lineage(cls), *self.scopes.subclasses(cls)]
        method = self.scopes.method(cls, attr)
        if method is not None:
            if any(name.endswith("property") for _, name in self.scopes.decorators(method)):
                return self.summary(method, budget - 1)
            return Value("function", node=method)
        found: list[Value] = []
        for member in family:
            for expression in self._assignments(member).get(attr, []):
                if budget <= 0:
                    self.starve()
                found.append(self.value(expression, budget - 1) if budget > 0 else UNKNOWN)
            if attr in self._registered(member):
                found.append(Value("tensor", device=ACCEL, origin="buffer", grad=False))
        known = [v for v in found if v.kind != "none"] or found
        if not known or known[0].kind == "none":
            elsewhere = self.names.outside.attribute(self.scopes.family_outside(cls), attr)
            known = [elsewhere] if elsewhere.kind != "?" else known
        if not known and self.scopes.is_optimizer(cls) and attr == "state":
            return records.STATE
        held = join_all(known) if known else records.field(self, cls, attr, budget)
        if known and held.kind == "module" and held.node is None and held.name is None:
            held = records.network(self, family, attr) or held
        if held.kind == "none":
            return UNKNOWN  # whoever fills it stands outside of the class
        if held.kind in COUNTED:
            return records.counted(self, family, attr, held, budget)
        return records.filled(self, cls, attr, held, budget) if known else held

    def constructions(self, cls: cst.ClassDef) -> list[cst.Call]:
        """Return the calls in the file that make an instance of a class."""
        if self._made is None:
            self._made = {}
            for call in self.tree.nodes(cst.Call):
                made = self.scopes.local_class(call.func)
                if made is not None:
                    self._made.setdefault(made, []).append(call)
        return self._made.get(cls, [])

    @remembered
    def _assignments(self, cls: cst.ClassDef) -> Assignments:
        return self_assignments(self.tree, cls)

    def attributes_written(
        self, attr: str
    ) -> Sequence[tuple[cst.Attribute, cst.Assign | cst.AugAssign]]:
        """Return the attributes of this name that the file's statements set or add to, one by
        one."""
        if self._written is None:
            self._written = {}
            for node in self.tree.nodes(cst.Assign, cst.AugAssign):
                match node:
                    case cst.Assign(targets):
                        places = [each.target for each in targets]
                    case cst.AugAssign(target):
                        places = [target]
                    case _:
                        continue
                for place in places:
                    if isinstance(place, cst.Attribute):
                        self._written.setdefault(place.attr.value, []).append((place, node))
        return self._written.get(attr, ())

    @remembered
    def _registered(self, cls: cst.ClassDef) -> frozenset[str]:
        return registered_buffers(self.tree, cls)

    def family(self, instance: Value) -> Sequence[Definition]:
        """Return the classes in other files of the project from which an instance's class inherits,
        or is itself."""
        if isinstance(instance.node, cst.ClassDef):
            return self.scopes.family_outside(instance.node)
        return self.names.outside.family(instance)

    def families(self, instance: Value) -> Sequence[Sequence[Definition]]:
        """Return `family` for each of the classes of which a value may be an instance."""
        if isinstance(instance.node, cst.ClassDef):
            return [self.scopes.family_outside(instance.node)]
        return self.names.outside.families(instance)


@question(ground=True)
def values(module: Module) -> Values:
    """Return the abstract values of a file."""
    return Values(module)


__all__ = ("ACCEL CPU CUDA FUEL STR Binding Values join").split()
