"""Evaluates expressions to abstract values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import children, parameters_of
from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.torch.spelling import MODEL, called
from torchlint.semantic.values import evidence, library, plain
from torchlint.semantic.values.narrowing import narrowed, told
from torchlint.semantic.values.parts import TENSORLIKE, Parts
from torchlint.semantic.values.refilled import on_host
from torchlint.semantic.values.tensor_types import chosen, tensor_type
from torchlint.semantic.values.value import (
    ACCEL,
    BOOL,
    CPU,
    CUDA,
    FLOAT,
    INT,
    NDARRAY,
    NONE,
    NUMBER,
    PLAIN,
    STR,
    TRUTHS,
    UNKNOWN,
    Value,
    computed_on,
    graph_of,
    join,
    join_all,
    mix,
    perhaps,
    placed,
    truth,
)

if TYPE_CHECKING:
    from torchlint.semantic.values.facts import Values


Narrowed = dict[str, tuple[Value | None, Value]]
"""By the text of an expression, what it was before a test of its type, and what it is after."""


def compared(operands: list[Value]) -> Value:
    """Return what a comparison gives of things that are not known: one truth value, or a tensor of
    them, which would live where they do."""
    places = {(v.device, v.origin) for v in operands if v.kind == "?" and (v.device or v.origin)}
    device, origin = places.pop() if len(places) == 1 else (None, None)
    moved = device is not None and origin is None and all(v.kind in _MET for v in operands)
    # What was moved to a device and meets a number is a tensor: a network is compared to nothing.
    return Value(
        "tensor" if moved else "?",
        device=device,
        origin=origin,
        dtype="bool",
        grad=False if moved else None,
    )


class Expressions(Parts):
    """Evaluation of every kind of expression; results are recorded by node."""

    def __init__(self, values: Values, owner: cst.CSTNode, budget: int) -> None:
        self.values = values
        self.owner = self.at = owner
        self.budget = budget
        self.env: dict[str, Value] = {}
        self.recorded: dict[cst.CSTNode, Value] = {}
        """The values of the expressions of the step at hand."""
        self.plain = True
        """Whether the step at hand has neither given anything to a caller nor read names that are
        not in it."""
        self.yields: list[Value] = []

    def eval(self, node: cst.CSTNode) -> Value:
        """Evaluate an expression and record its value."""
        kind = type(node)
        value = _EXPRESSIONS[kind](self, node) if kind in _EXPRESSIONS else self._unknown(node)
        self.recorded[node] = value
        return value

    def _unknown(self, node: cst.CSTNode) -> Value:
        for child in children(node):
            self.eval(child)
        return UNKNOWN

    def _name(self, node: cst.Name) -> Value:
        name = node.value
        if name in ("True", "False"):
            return BOOL
        if name == "None":
            return NONE
        env = self.env
        found = env[name] if name in env else self.values.free_name(node, self.budget)
        if found.kind == "tensor" and found.device is None:
            return self.values.trained(self.owner, name, found)
        if found.kind == "?" and (meant := _PYTHON_DTYPES.get(self.values.names.name(node) or "")):
            return Value("dtype", name=meant)
        if found.kind != "?":
            return found
        told = self.values.name_evidence(self.owner, name, found)
        if told.kind == "?":
            above = self.values.tree.parents.get(node)
            run = type(above) is cst.Call and above.func is node
            return evidence.NETWORK if run and name in self.values.networks(self.owner) else told
        if told.tensor and self.values.names.name(node) == "torch":
            return found  # ``torch.bmm(a, b)`` is asked of no tensor.
        return found if told.kind == "module" and self._function_of_a_model(node) else told

    def _function_of_a_model(self, node: cst.Name) -> bool:
        """Say whether a name that is called like a model is imported, and so rather the function
        that does something with one: ``from checkpoints import find_student_checkpoint``."""
        dotted = self.values.names.name(node)
        if dotted is None:
            return False
        there = self.values.names.outside.find(dotted)
        last = node.value.rpartition("_")[2]
        return not called(last, MODEL) if there is None else there.kind == "function"

    def _attribute(self, node: cst.Attribute) -> Value:
        return self.attribute_of(node, self.eval(node.value))

    def attribute_of(self, node: cst.Attribute, holder: Value) -> Value:
        """Return an attribute of a value that is evaluated already: a chain of calls is walked
        once, not 2^n times."""
        attr = node.attr.value
        text = dotted_text(node)
        if text is not None and text in self.env:
            return self.env[text]
        dotted = self.values.names.name(node)
        if dotted is not None and dotted.startswith("torch."):
            if dotted in _DTYPES:
                return Value("dtype", name=dotted)
            known = library.constant(dotted) or tensor_type(dotted)
            return known or Value("function", name=dotted)
        if attr in ops.HOST_METHODS and isinstance(self.values.tree.parents[node], cst.Subscript):
            return UNKNOWN  # ``edges.size[0]`` is asked of no tensor, whatever it is taken for.
        found = self.part(holder, attr)
        if attr == "device" and holder.tensor and holder.device is None:
            found = self._place_of(node.value)
        if found is None:
            found = self._plain_attribute(node, dotted, holder)
        if found is None:
            found = self.values.attribute(node, holder, attr, self.budget)
            if holder.kind == "object" and holder.device == CPU:
                found = placed(found, CPU)
        if found.tensor:
            return self.used(node, found)
        if found.kind != "?" or found.device == CPU:
            return found
        return self._by_use(node, text, found)

    def _by_use(self, node: cst.Attribute, text: str | None, found: Value) -> Value:
        """Return what the uses of an attribute of which no kind is known say, or its spelling."""
        attr, above = node.attr.value, self.values.tree.parents.get(node)
        if attr == "optim" and isinstance(above, cst.Attribute) and above.attr.value[:1].isupper():
            return UNKNOWN  # The module of a library, ``bnb.optim.AdamW``.
        named = self.values.named(attr, text)
        if named.kind == "?" and isinstance(above, cst.Call) and above.func is node:
            return evidence.NETWORK if self.values.network_kept(node, text) else found
        return self.used(node, named)

    def _place_of(self, node: cst.BaseExpression) -> Value:
        """Return the device of a tensor: the program's, but of a parameter for which a call of the
        file gives what lies on the host, or what a loader gave and nothing is seen to move."""
        where: str | None = ACCEL
        match node, self.owner:
            case cst.Name(name), cst.FunctionDef() as function:
                given = self.values.given(function, name, far=False)
                if any(each.device == CPU or each.of_a_loader for each in given):
                    where = None
        return Value("device", device=where)

    def _plain_attribute(
        self, node: cst.Attribute, dotted: str | None, holder: Value
    ) -> Value | None:
        """Return an attribute of a library, of options, or one that is a text of anything."""
        held = plain.held_by(dotted) if dotted is not None else None
        held = held or library.part_of(holder, node.attr.value)
        name = node.attr.value
        return held or plain.text_of(name) or plain.option(holder, node, name)

    def _slice(self, node: cst.Index | cst.Slice) -> Value:
        if isinstance(node, cst.Index):
            return self.eval(node.value)
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.eval(part)
        return UNKNOWN

    def _binary(self, node: cst.BinaryOperation) -> Value:
        left, right = self.eval(node.left), self.eval(node.right)
        if "str" not in (left.kind, right.kind) and (left.device, right.device) != (CPU, CPU):
            left, right = computed_on(left), computed_on(right)
        kinds = {left.kind, right.kind}
        if "str" in kinds and isinstance(node.operator, cst.Divide):
            return PLAIN  # ``root / "weights.pt"`` is a path
        if left.kind == "str":
            return _numbered_device(left.name)
        if kinds & set(TENSORLIKE):
            matrices = isinstance(node.operator, cst.MatrixMultiply)
            self.meet("matmul" if matrices else "add", (node.left, node.right))
            result = mix([left, right]).but(grad=graph_of((left, right)))
            return self._arithmetic(node, self.without_graph(result))
        if "ndarray" in kinds:
            # With a tensor of the host NumPy leaves it to torch.
            return UNKNOWN if "?" in kinds else NDARRAY
        if "str" in kinds:
            return STR
        if "plain" in kinds and kinds <= _PLAIN_WITH:
            return PLAIN
        if kinds <= {"number", "bool"}:
            if left.dtype == right.dtype == "int" and not isinstance(
                node.operator, (cst.Divide, cst.Power)
            ):
                return INT
            return (
                FLOAT
                if isinstance(node.operator, cst.Divide) or "float" in (left.dtype, right.dtype)
                else NUMBER
            )
        if isinstance(node.operator, cst.Multiply) and left.kind == "list":
            return left.but(items=None, node=None)  # ``[0.0] * n``: the same again
        if kinds == {"list"} or kinds == {"tuple"}:
            return join(left.but(items=None), right.but(items=None))
        met = [each for each in (left, right) if each.kind not in ("number", "bool")]
        host = bool(met) and all(each.device == CPU for each in met)
        return Value("?", device=CPU) if host else UNKNOWN

    def _arithmetic(self, node: cst.BinaryOperation, result: Value) -> Value:
        if isinstance(node.operator, cst.MatrixMultiply):
            return result.but(rank=None)
        if isinstance(node.operator, cst.Divide) and result.dtype in ("int", "bool"):
            return result.but(dtype="float")
        return result

    def _unary(self, node: cst.UnaryOperation) -> Value:
        value = self.eval(node.expression)
        if isinstance(node.operator, cst.Not):
            return BOOL if (known := truth(value)) is None else TRUTHS[str(not known)]
        return value.but(node=None)

    def _comparison(self, node: cst.Comparison) -> Value:
        operands = [self.eval(node.left), *(self.eval(c.comparator) for c in node.comparisons)]
        words = (cst.Is, cst.IsNot, cst.In, cst.NotIn)
        if any(isinstance(c.operator, words) for c in node.comparisons):
            return BOOL
        if any(v.kind in TENSORLIKE for v in operands) and len(operands) == 2:
            if any(v.kind in ("none", "str", "shape") for v in operands):
                return BOOL  # Torch compares a tensor with none of them: two objects differ.
            self.meet("eq", (node.left, node.comparisons[0].comparator))
            return mix(operands).but(dtype="bool", grad=False)
        if any(v.kind == "ndarray" for v in operands):
            return NDARRAY
        if any(v.kind in _NEVER_TENSORS for v in operands):
            return BOOL
        if any(v.kind == "?" for v in operands):
            return compared(operands)
        return BOOL

    def _boolean(self, node: cst.BooleanOperation) -> Value:
        left, right = self.eval(node.left), self.eval(node.right)
        known = truth(left)
        either = isinstance(node.operator, cst.Or)
        if known is not None:
            return left if known is either else right
        if either and left.kind == "?" and right.kind == "module":
            # ``net or Net()``: what is given is a network as well, or a loss.
            return Value("module", name="loss" if (right.name or "").endswith("Loss") else None)
        return perhaps(left, right)

    def _if_exp(self, node: cst.IfExp) -> Value:
        decided = truth(self.eval(node.test))
        if decided is not None:
            return self.eval(node.body if decided else node.orelse)
        known = self.narrow(node.test, True)
        body = self.eval(node.body)
        self.restore(known)
        known = self.narrow(node.test, False)
        orelse = self.eval(node.orelse)
        self.restore(known)
        if body.kind == orelse.kind == "str":
            for one, other in ((body, orelse), (orelse, body)):
                if one.name is not None and _is_device_or_else(one.name, other.name):
                    return one  # ``"cuda" if torch.cuda.is_available() else "cpu"``
        return chosen(node.test, body, orelse)

    def narrow(self, test: cst.BaseExpression, outcome: bool) -> Narrowed:
        """Take for what a test of types or of devices says what it speaks of; return what that was,
        and is now."""
        changed: Narrowed = {}
        recorded, self.recorded = self.recorded, {}  # The test was evaluated before.
        for node, what in told(self.values.names, test, outcome):
            text, value = dotted_text(node), self.eval(node)
            left = narrowed(value, self.element(value), what)
            if text is not None and left is not value:
                changed[text] = self.env.get(text), left
                self.env[text] = left
        self.recorded = recorded
        return changed

    def restore(self, narrowed: Narrowed) -> None:
        """Take what was narrowed, and not bound since, for what it was before."""
        for text, (before, left) in narrowed.items():
            if self.env.get(text) is not left:
                continue
            if before is None:
                del self.env[text]
            else:
                self.env[text] = before

    def _string(self, node: cst.SimpleString) -> Value:
        strings = self.values.strings
        if node.value not in strings:
            strings[node.value] = Value("str", name=node.raw_value)
        return strings[node.value]

    def _formatted(self, node: cst.CSTNode) -> Value:
        for child in children(node):
            self._embedded(child)
        match node:
            case cst.FormattedString([cst.FormattedStringText(text), *_]):
                return _numbered_device(text)
        return STR

    def _embedded(self, node: cst.CSTNode) -> None:
        if isinstance(node, cst.BaseExpression):
            self.eval(node)
        else:
            for child in children(node):
                self._embedded(child)

    def _sequence(self, node: cst.Tuple | cst.List | cst.Set) -> Value:
        values = []
        starred = False
        for element in node.elements:
            value = self.eval(element.value)
            starred = starred or isinstance(element, cst.StarredElement)
            values.append(self.element(value) if isinstance(element, cst.StarredElement) else value)
        kind = "tuple" if isinstance(node, cst.Tuple) else "list"
        items = tuple(values) if not starred and len(values) <= 16 else None
        return Value(kind, items=items, item=join_all(values) if values else None, node=node)

    def _dict(self, node: cst.Dict) -> Value:
        values = []
        keyed: dict[str, Value] | None = {}
        for element in node.elements:
            if isinstance(element, cst.DictElement):
                self.eval(element.key)
                values.append(self.eval(element.value))
                if keyed is not None and isinstance(element.key, cst.SimpleString):
                    keyed[element.key.raw_value] = values[-1]
                    continue
            else:
                values.append(self.element(self.eval(element.value)))
            keyed = None
        return Value(
            "dict",
            item=join_all(values) if values else None,
            keyed=tuple(sorted(keyed.items(), key=lambda p: p[0])) if keyed is not None else None,
            node=node,
        )

    def _comprehension(
        self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp
    ) -> Value:
        outer = dict(self.env)
        self._comp_for(node.for_in)
        if isinstance(node, cst.DictComp):
            self.eval(node.key)
            item = self.eval(node.value)
            lies = lambda each: self.recorded.get(each, UNKNOWN).device == CPU  # noqa: E731
            if isinstance(node.key, cst.Name) and item.kind == "?":
                host = on_host(node.value, lies)
                if host is not None:
                    self.env = outer
                    return host
        else:
            item = self.eval(node.elt)
        self.env = outer
        kind = {cst.DictComp: "dict", cst.GeneratorExp: "iterator"}.get(type(node), "list")
        return Value(kind, item=item, node=node)

    def _comp_for(self, node: cst.CompFor) -> None:
        self.bind(node.target, self.element(self.eval(node.iter)))
        for condition in node.ifs:
            self.eval(condition.test)
        if node.inner_for_in is not None:
            self._comp_for(node.inner_for_in)

    def _lambda(self, node: cst.Lambda) -> Value:
        outer = dict(self.env)
        for param in parameters_of(node):
            self.env[param.name.value] = UNKNOWN
        self.eval(node.body)
        self.env = outer
        return Value("function", node=node)

    def _walrus(self, node: cst.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.bind(node.target, value)
        return value

    def _yield(self, node: cst.Yield) -> Value:
        self.plain = False
        if isinstance(node.value, cst.From):
            self.yields.append(self.element(self.eval(node.value.item)))
        else:
            self.yields.append(self.eval(node.value) if node.value is not None else NONE)
        return UNKNOWN

    def _await(self, node: cst.Await) -> Value:
        return self.eval(node.expression)

    def bind(self, target: cst.CSTNode, value: Value) -> None:
        """Bind a target; the interpreter of statements knows how."""
        raise NotImplementedError


def _numbered_device(text: str | None) -> Value:
    """Return the text that begins so: ``f"cuda:{n}"`` names a device whatever the number is."""
    return Value("str", name=text) if text is not None and text.startswith("cuda:") else STR


def _is_device_or_else(one: str, other: str | None) -> bool:
    """Say whether two strings name CUDA, or a tensor type there, and what the CPU has instead."""
    if other == "cpu":
        return one.startswith("cuda")
    first, second = tensor_type(one), tensor_type(other or "")
    return (
        first is not None and second is not None and first.device == CUDA and second.device == CPU
    )


_NEVER_TENSORS = frozenset("str none dtype device shape list tuple dict class iterator".split())
_MET = frozenset(("?", "number", "bool", "plain"))
_PLAIN_WITH = frozenset(("number", "bool", "plain", "none"))
"""Operands of which a calculation with a plain value gives a plain one; a tensor may be unknown."""
_DTYPES = dtypes.dotted(dtypes.DTYPES)
_PYTHON_DTYPES = {
    "builtins.bool": "torch.bool",
    "builtins.int": "torch.int64",
    "builtins.float": "torch.float64",
}
"""Types of Python that torch takes for a dtype: ``mask.to(bool)``."""
_EXPRESSIONS: dict[type, Callable[[Any, Any], Value]] = {
    cst.Name: Expressions._name,
    cst.Attribute: Expressions._attribute,
    cst.Call: Expressions.call,
    cst.Subscript: Expressions.subscript,
    cst.Index: Expressions._slice,
    cst.Slice: Expressions._slice,
    cst.BinaryOperation: Expressions._binary,
    cst.UnaryOperation: Expressions._unary,
    cst.Comparison: Expressions._comparison,
    cst.BooleanOperation: Expressions._boolean,
    cst.IfExp: Expressions._if_exp,
    cst.Integer: lambda self, node: INT,
    cst.Float: lambda self, node: FLOAT,
    cst.Imaginary: lambda self, node: NUMBER,
    cst.SimpleString: Expressions._string,
    cst.ConcatenatedString: Expressions._formatted,
    cst.FormattedString: Expressions._formatted,
    cst.Tuple: Expressions._sequence,
    cst.List: Expressions._sequence,
    cst.Set: Expressions._sequence,
    cst.Dict: Expressions._dict,
    cst.ListComp: Expressions._comprehension,
    cst.SetComp: Expressions._comprehension,
    cst.GeneratorExp: Expressions._comprehension,
    cst.DictComp: Expressions._comprehension,
    cst.Lambda: Expressions._lambda,
    cst.NamedExpr: Expressions._walrus,
    cst.Yield: Expressions._yield,
    cst.Await: Expressions._await,
}
