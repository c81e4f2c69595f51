"""Abstract values: what the analysis knows about what an expression evaluates to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import libcst as cst

CUDA = "cuda"
"""On a CUDA device by evidence: ``.cuda()``, ``"cuda:0"``, ``"cuda" if available else "cpu"``."""
ACCEL = "accel"
"""On the program's device: ``.to(device)``, ``x.device``, with the model; CUDA in a file that uses
CUDA."""
CPU = "cpu"
META = "meta"
OF_NETWORKS = frozenset(("model", "loss", "forward"))
"""Origins of what a network gave, which lies on the device where nothing says otherwise."""


Keyed = tuple[tuple[str, "Value"], ...]
"""What is under each literal key, in the order of the keys."""


class Value(NamedTuple):
    """One abstract value. Every field but `kind` may be None for unknown.

    Args:
        kind: tensor, module, loader, batch, optimizer, scaler, scheduler, ndarray, number, bool,
            str, none, shape, list, tuple, dict, device, dtype, type (an old tensor type), function,
            class, object, plain (a number, a text, an array or a thing of a library: no tensor,
            and nothing more is known), or ``?`` for unknown.
        device: where a tensor, batch or module lives, or what a type makes: `CUDA`, `ACCEL`, `CPU`,
            `META` or None.
        dtype: float, double, half, int, bool or None.
        rank: number of dimensions, where certain.
        origin: batch, model, loss, param, forward, factory, buffer or None: where a tensor came
            from.
        grad: whether a tensor carries an autograd graph.
        loose: a model's output or a batch, whose attributes and items are tensors too.
        item: what iterating over or indexing a container gives.
        items: the elements of a tuple or list literal.
        keyed: what a dict holds under literal keys, as far as all its keys are literals; of a
            batch and of what is not known, what the code at hand has put under them.
        node: the expression or definition that made it.
        name: dotted name of the class of an instance, or of a function or class; of an instance of
            one of several classes of the project, their names with `CLASSES` between.
    """

    kind: str = "?"
    device: str | None = None
    dtype: str | None = None
    rank: int | None = None
    origin: str | None = None
    grad: bool | None = None
    loose: bool = False
    item: Value | None = None
    items: tuple[Value, ...] | None = None
    keyed: Keyed | None = None
    node: cst.CSTNode | None = None
    name: str | None = None

    @property
    def tensor(self) -> bool:
        """Is certainly a tensor."""
        return self.kind == "tensor"

    @property
    def host(self) -> bool:
        """Is certainly a plain host value: reading it waits for nothing."""
        return self.kind in _HOST or (self.kind in ("tensor", "batch") and self.device == CPU)

    @property
    def of_a_loader(self) -> bool:
        """Comes out of a loader, and nothing is seen to move it."""
        return self.origin == "batch" and self.device is None

    @property
    def holds_host(self) -> bool:
        """Holds nothing but what lies on the host, whatever it is."""
        return self.kind == "?" and self.item is not None and self.item.device == CPU

    def under(self, key: str | None) -> Value | None:
        """Return what a dict holds under a literal key (as it is written), where that is known."""
        return dict(self.keyed or ()).get(key) if key is not None else None

    def but(self, **changes: Any) -> Value:
        """Return a copy with some fields changed."""
        found: Value = tuple.__new__(Value, map(changes.pop, Value._fields, self))
        assert not changes, "all are fields"
        return found

    def inside(self, change: Callable[[Value], Value]) -> Value:
        """Return a copy whose parts, which values hold in three fields, are changed."""
        return self._replace(
            item=change(self.item) if self.item is not None else None,
            items=tuple(map(change, self.items)) if self.items is not None else None,
            keyed=tuple((key, change(part)) for key, part in self.keyed)
            if self.keyed is not None
            else None,
        )


def placed(value: Value, device: str) -> Value:
    """Return what a network gives, whose tensors lie where it does unless more is known of them
    than that they lie where networks do; an object of those on the host remembers it."""
    here = value.tensor and value.device in (None, ACCEL)
    if here or (value.kind == "object" and device == CPU):
        value = value.but(device=device)
    return value.inside(lambda part: placed(part, device))


CLASSES = "|"
_MOST_CLASSES = 4
_CUDA_OR_CPU, _APPLE_OR_CPU = "CUDA, or else the CPU", "Apple's, or else the CPU"
_OR_CPU: Mapping[str | None, frozenset[str]] = {
    _CUDA_OR_CPU: frozenset((CUDA, CPU)),
    _APPLE_OR_CPU: frozenset((ACCEL, CPU)),
}
_DEVICES = frozenset((CUDA, CPU, ACCEL, "mps", "xpu"))
_NUMBER_OR_TENSOR = (
    {"number", "tensor"},
    {"number", "accumulated"},
    {"tensor", "accumulated"},
    {"bool", "tensor"},
    {"bool", "accumulated"},
)
COUNTED = ("number", "bool")
"""What a tensor may be added to later: ``total = 0.0``."""
_HOST = frozenset(("number", "bool", "str", "none", "shape", "ndarray", "device", "dtype", "plain"))
_PLAIN = frozenset(("number", "bool", "str", "ndarray", "plain"))
ITERATED = ("loader", "iterator", "list")
"""What an object may hand out the elements of."""
_MOVED = frozenset(("tensor", "batch", "accumulated", "module", "?"))
UNKNOWN = Value()
NONE = Value("none")
NUMBER = Value("number")
INT = Value("number", dtype="int")
FLOAT = Value("number", dtype="float")
BOOL = Value("bool")
TRUTHS = {word: Value("bool", name=word) for word in ("True", "False")}
"""What a flag holds that a call gives as it is written out, or leaves to such a default."""
STR = Value("str")
SHAPE = Value("shape", item=INT)
NDARRAY = Value("ndarray")
PLAIN = Value("plain")
OPTIONS = Value("plain", name="options")
"""What a program's options hold: what is kept under a name, of which a method is not known."""


def join(a: Value, b: Value) -> Value:
    """Return what is known when a value is one of two; an optional tensor (``x = None`` first)
    stays a tensor."""
    if a is b or a == b:
        return a
    if a.kind == "none":
        return b
    if b.kind == "none":
        return a
    if a.kind != b.kind:
        if {a.kind, b.kind} == {"number", "bool"}:
            return NUMBER
        if {a.kind, b.kind} in _NUMBER_OR_TENSOR:
            return _accumulated(a, b)
        if {a.kind, b.kind} == {"tensor", "batch"} and a.loose and b.loose:
            return join(a.but(kind="batch"), b.but(kind="batch"))
        if a.device == b.device == CPU:
            return Value("?", device=CPU)
        if {a.kind, b.kind} == {"tensor", "iterator"} and (item := a.item or b.item) is not None:
            same = item.tensor and item.device == (a if a.tensor else b).device
            return Value("?", item=item) if same else UNKNOWN  # ``steps`` or ``tqdm(steps)``
        return PLAIN if "plain" in (a.kind, b.kind) and {a.kind, b.kind} <= _PLAIN else UNKNOWN
    if a.kind == "device":
        return _chosen_device(a, b)
    return Value(
        a.kind,
        device=ACCEL
        if (a.kind == "type" and {a.device, b.device} == {CUDA, CPU}) or _either_device(a, b)
        else _device(a.device, b.device),
        dtype=a.dtype if a.dtype == b.dtype else None,
        rank=a.rank if a.rank == b.rank else None,
        origin=a.origin if a.origin == b.origin else None,
        grad=a.grad if a.grad == b.grad else None,
        loose=a.loose and b.loose,
        item=_item(a, b),
        items=_items(a.items, b.items),
        keyed=_keyed(a.keyed, b.keyed),
        node=a.node if a.node is b.node else None,
        name=a.name if a.name == b.name else _either_class(a, b),
    )


def truth(value: Value) -> bool | None:
    """Return the truth of a flag that is known, None for another value."""
    return value.name == "True" if value.kind == "bool" and value.name is not None else None


def ungraphed(value: Value, graph: bool | None) -> Value:
    """Return a value whose parts with a graph have it as said: not, or it is not known."""
    changed = value.but(grad=graph) if value.grad else value
    return changed.inside(lambda part: ungraphed(part, graph))


def _either_class(a: Value, b: Value) -> str | None:
    """Return the names of the classes of the project of which an object is an instance of one."""
    if a.kind not in ("object", "module"):
        return None
    names = {*_class_names(a), *_class_names(b)}
    return CLASSES.join(sorted(names)) if "" not in names and len(names) <= _MOST_CLASSES else None


def _class_names(value: Value) -> list[str]:
    """Return the names of the classes of which an object is an instance of one; an empty one for a
    class that is not the project's."""
    if isinstance(value.node, cst.ClassDef):
        return [value.node.name.value]
    name = value.name or ""
    return name.split(CLASSES) if CLASSES in name or ".py:" in name else [""]


def _chosen_device(a: Value, b: Value) -> Value:
    """Return what one of two devices is: CUDA or else the CPU is the program's device, whether or
    not it may be Apple's as well; Apple's or else the CPU is unknown, as is a tensor's own device
    or else the CPU, unless a flag decides (`moved_or_not`)."""
    either = Value("device", origin=a.origin if a.origin == b.origin else None)
    choices = [_choices(each) for each in (a, b)]
    if not all(choices):
        return either.but(device=_device(a.device, b.device))
    named = choices[0] | choices[1]
    if CUDA in named:
        return (
            either.but(device=ACCEL, name=_CUDA_OR_CPU) if CPU in named else either.but(device=CUDA)
        )
    return either.but(name=_APPLE_OR_CPU) if CPU in named else either.but(device=ACCEL)


def _choices(device: Value) -> frozenset[str]:
    """Return the devices of which one is meant, empty where they are not known."""
    if device.name in _OR_CPU:
        return _OR_CPU[device.name]
    known = device.device in (CUDA, CPU) or device.name is not None
    return frozenset((device.device or "",)) if known else frozenset()


def _either_device(a: Value, b: Value) -> bool:
    """Say whether two strings name devices of which one is not the CPU: ``"cuda:0"``, ``"cpu"``."""
    if a.kind != "str" or b.kind != "str":
        return False
    named = {(each.name or each.device or "").partition(":")[0] for each in (a, b)}
    return named <= _DEVICES and named != {CPU}


def moved_or_not(there: Value, here: Value) -> Value:
    """Return what is known of a value that a flag of the program moves to the device, or leaves: it
    is on the program's device; on the host, where what a GPU holds (`there`) is copied to it, and
    what is not on a GPU is left as it is (`here`)."""
    found = join(there, here)
    devices = {there.device, here.device}
    moved = devices & {CUDA, ACCEL} and found.device is None and found.kind in _MOVED
    return found.but(device=CPU if there.device == CPU else ACCEL) if moved else found


def _accumulated(a: Value, b: Value) -> Value:
    # ``total = 0`` before the loop and ``total + loss`` in it: a number or a tensor, so certain of
    # neither.
    tensor, other = (a, b) if a.kind not in ("number", "bool") else (b, a)
    return Value(
        "accumulated",
        device=tensor.device,
        origin=tensor.origin,
        grad=tensor.grad,
        loose=tensor.loose and other.kind == "bool",
    )


def perhaps(a: Value, b: Value) -> Value:
    """Return what ``a and b`` or ``a or b`` is: a tensor on one path says that Python may meet
    one."""
    found = join(a, b)
    if found.kind == "?" and {a.kind, b.kind} in ({"?", "tensor"}, {"plain", "tensor"}):
        return _accumulated(*((a, b) if a.tensor else (b, a)))
    return found


def _keyed(a: Keyed | None, b: Keyed | None) -> Keyed | None:
    # What one path alone puts in: a use that runs at all sees it.
    if a is None or b is None or a == b:
        return a if a == b else None
    both = dict(a)
    for key, value in b:
        both[key] = join(both[key], value) if key in both else value
    return tuple(sorted(both.items(), key=lambda pair: pair[0]))


def _device(a: str | None, b: str | None) -> str | None:
    if a == b:
        return a
    return ACCEL if {a, b} == {CUDA, ACCEL} else None


def _item(a: Value, b: Value) -> Value | None:
    # An empty list or dict says nothing of what is put into it later.
    if _empty(a) or _empty(b):
        return b.item if _empty(a) else a.item
    return None if a.item is None or b.item is None else join(a.item, b.item)


def _empty(value: Value) -> bool:
    return value.items == () or (value.keyed == () and value.item is None)


def _items(a: tuple[Value, ...] | None, b: tuple[Value, ...] | None) -> tuple[Value, ...] | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(join(x, y) for x, y in zip(a, b, strict=True))


def join_all(values: list[Value]) -> Value:
    """Return what is known of one of several values; unknown for none."""
    return reduce(join, values) if values else UNKNOWN


def computed_on(value: Value) -> Value:
    """Return a value as what torch or arithmetic takes it for: what was moved to a device, whatever
    it is, is a tensor then."""
    moved = value.kind == "?" and value.device is not None and value.item is None
    return value.but(kind="tensor") if moved else value


def mix(operands: list[Value]) -> Value:
    """Return the tensor that an elementwise operation over these operands gives."""
    tensors = [v for v in operands if v.kind in ("tensor", "accumulated")]
    devices = {v.device for v in tensors}
    if CUDA in devices:
        device: str | None = CUDA
    elif ACCEL in devices:
        device = ACCEL
    else:
        # A CPU operand decides only where all are on the CPU: 0-dim CPU tensors mix with any
        # device.
        device = CPU if devices == {CPU} else None
    # What a network of the host gives says of no other place that networks compute there.
    origins = [v.origin for v in tensors if v.origin and (v.device != CPU or device == CPU)]
    order = ("loss", "model", "forward", "batch", "param", "buffer", "factory")
    origin = next((o for o in order if o in origins), None)
    grad = graph_of(tensors)
    ranks = {v.rank for v in tensors}
    certain = all(v.kind in ("tensor", "number", "bool") for v in operands) and None not in ranks
    rank = max((r for r in ranks if r is not None), default=0) if certain else None
    return Value(
        "tensor", device=device, dtype=_promoted(operands), rank=rank, origin=origin, grad=grad
    )


def graph_of(operands: Sequence[Value]) -> bool | None:
    """Say whether what is computed of some values carries a graph: that of any of them. Of what is
    not known that is not known either."""
    grads = {v.grad for v in operands if v.kind in ("tensor", "accumulated", "?")}
    return True if True in grads else (False if grads == {False} else None)


def joined(operands: Sequence[Value]) -> Value:
    """Return what the tensors of a list share that one operation takes: all must be on the same
    device."""
    shared = join_all(list(operands))
    return (
        mix(list(operands)).but(origin=shared.origin, grad=graph_of(operands))
        if any(each.tensor for each in operands)
        else shared
    )


def _promoted(operands: list[Value]) -> str | None:
    # Python numbers change a tensor's dtype only where their kind is higher: bool < int < float.
    tensors = {v.dtype for v in operands if v.kind == "tensor"}
    numbers = {"bool" if v.kind == "bool" else v.dtype for v in operands if v.kind != "tensor"}
    if not all(v.kind in ("tensor", "number", "bool") for v in operands) or not tensors:
        return None
    if tensors <= {"float", "double", "half"}:
        return tensors.pop() if len(tensors) == 1 else None
    if None in tensors | numbers:
        return None
    return (
        "float"
        if "float" in tensors | numbers
        else "int"
        if "int" in tensors | numbers
        else tensors.pop()
    )
