"""What classes hold that are records: the fields of dataclasses and named tuples, lists and sums
kept on ``self``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.calls import literal_key
from torchlint.semantic.code.tree import is_name, keyword_of
from torchlint.semantic.torch.spelling import DEVICE, called
from torchlint.semantic.values.value import ACCEL, CPU, FLOAT, UNKNOWN, Value, join, join_all

if TYPE_CHECKING:
    from torchlint.semantic.values.facts import Values

_MAX_SITES = 12
STATE = Value("dict", item=Value("dict", keyed=()))
"""What an optimizer keeps for each parameter."""


def field(values: Values, cls: cst.ClassDef, attr: str, budget: int) -> Value:
    """Return what a field of a record holds: by what the file's calls of the class pass, else by
    its annotation."""
    fields = _fields(values, cls)
    if attr not in fields:
        return UNKNOWN
    given: list[Value] = []
    if budget <= 0:
        values.starve()
    sites = values.constructions(cls)
    for call in sites if budget > 0 and len(sites) <= _MAX_SITES else ():
        expression = _argument(call, attr, list(fields).index(attr))
        given.append(values.value(expression, budget - 1) if expression is not None else UNKNOWN)
    found = join_all(given) if given else UNKNOWN
    if found.kind not in ("?", "none"):
        return found
    declared = values.annotation(fields[attr].annotation.annotation)
    default = fields[attr].value
    host = isinstance(default, cst.SimpleString) and default.raw_value == CPU
    # The text is that of the device that the program chooses.
    chosen = declared.kind == "str" and called(attr, DEVICE) and not host
    return Value("device", device=ACCEL) if chosen else declared


def network(values: Values, family: Sequence[cst.ClassDef], attr: str) -> Value | None:
    """Return the network of a class of the project that classes say they keep under a name,
    ``model: Net`` in their body."""
    for cls in family:
        said = _annotated(cls).get(attr)
        declared = values.annotation(said.annotation.annotation) if said is not None else UNKNOWN
        if declared.kind == "module" and declared.name is not None:
            return declared
    return None


def _fields(values: Values, cls: cst.ClassDef) -> dict[str, cst.AnnAssign]:
    decorated = any(name.endswith("dataclass") for _, name in values.scopes.decorators(cls))
    if not decorated and not any(
        name.endswith("NamedTuple") for name in values.scopes.base_names(cls)
    ):
        return {}
    return _annotated(cls)


def _annotated(cls: cst.ClassDef) -> dict[str, cst.AnnAssign]:
    """Return the annotations in the body of a class, by the name for which they speak."""
    out = {}
    for line in cls.body.body:
        part = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
        if isinstance(part, cst.AnnAssign) and isinstance(part.target, cst.Name):
            out[part.target.value] = part
    return out


def _argument(call: cst.Call, name: str, position: int) -> cst.BaseExpression | None:
    for arg in call.args:
        if keyword_of(arg) == name:
            return arg.value
    plain = [arg for arg in call.args if arg.keyword is None]
    if any(arg.star for arg in plain[: position + 1]) or position >= len(plain):
        return None
    return plain[position].value


def filled(values: Values, cls: cst.ClassDef, attr: str, held: Value, budget: int) -> Value:
    """Return a list kept on ``self`` with what the class's methods append to it."""
    if held.kind != "list" or held.item is not None:
        return held
    if budget <= 0:
        values.starve()
        return held
    items: list[Value] = []
    for call in values.tree.within(cls.body, cst.Call, nested=True):
        match call:
            case cst.Call(
                cst.Attribute(
                    cst.Attribute(cst.Name("self"), cst.Name(name)),
                    cst.Name("append"),
                ),
                [cst.Arg(appended, star="")],
            ) if name == attr:
                items.append(values.value(appended, budget - 1))
    return held.but(item=join_all(items), items=None) if items else held


def stored(values: Values, read: cst.Subscript, key: str, budget: int) -> Value | None:
    """Return the tensor of the host that a class keeps under a key of a mapping of its own,
    ``self.drawn["length"]``; None where it stores none there, or another one."""
    cls = values.scopes.tree.class_of(read)
    if cls is None or budget <= 0 or not is_name(getattr(read.value, "value", None), "self"):
        return None
    found = []
    for node in values.tree.within(cls.body, cst.Assign, nested=True):
        for target in (each.target for each in node.targets):
            match target:
                case cst.Subscript(held) if literal_key(target) == key and held.deep_equals(
                    read.value
                ):
                    found.append(values.value(node.value, budget - 1))
    return join_all(found) if found and all(f.tensor and f.device == CPU for f in found) else None


def counted(
    values: Values, family: Sequence[cst.ClassDef], attr: str, held: Value, budget: int
) -> Value:
    """Return an attribute that starts as a number with what is added to it: ``self.sum += loss`` in
    a method of the class or its relatives, or what code outside gives an instance of them."""
    for node, receiver in _writes(values, family, attr):
        if budget <= 0:
            values.starve()
            return UNKNOWN
        if receiver is None or values.value(receiver, budget - 1).node in family:
            given = values.value(node.value, budget - 1)
            divides = isinstance(getattr(node, "operator", None), cst.DivideAssign)
            held = join(held, FLOAT if divides and given.kind == "number" else given)
    return held


def _writes(
    values: Values, family: Sequence[cst.ClassDef], attr: str
) -> Iterator[tuple[cst.Assign | cst.AugAssign, cst.BaseExpression | None]]:
    """Yield the statements that add to an attribute of ``self``, and those that give one of this
    name to another receiver, with that receiver."""
    for target, node in values.attributes_written(attr):
        own = is_name(target.value, "self")
        if not own:
            yield node, target.value
        elif isinstance(node, cst.AugAssign) and values.scopes.tree.class_of(node) in family:
            yield node, None
