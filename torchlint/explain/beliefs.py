"""What an expression is held to be, where that comes from, and what is not known, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import libcst as cst

from torchlint.base.explanation import Belief
from torchlint.explain.line import Spots
from torchlint.explain.origins import Origins, is_bound
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.module import Module
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import ACCEL, CLASSES, CPU, CUDA, META, Value

_PLACES = {
    CUDA: "on the GPU",
    ACCEL: "on the program's device",
    CPU: "on the CPU",
    META: "on the meta device",
}
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "a 16-bit float",
    "int": "integer",
    "bool": "bool",
}
_PLURAL = {"tensor": "tensors", "batch": "batches", "number": "numbers"}
_KINDS = {
    "ndarray": "NumPy array, on the host",
    "none": "None",
    "plain": "Python value, on the host",
    "number": "Python number, on the host",
    "bool": "Python bool, on the host",
    "str": "text",
    "shape": "shape, on the host",
    "scaler": "gradient scaler",
    "scheduler": "learning-rate scheduler",
    "loader": "loader: it gives batches",
    "accumulated": "sum that starts as a Python number and becomes a tensor",
    "dtype": "dtype",
}
_SKIPPED = (
    cst.BaseNumber,
    cst.BaseString,
    cst.Ellipsis,
    cst.Lambda,
    cst.Tuple,
    cst.List,
    cst.Dict,
    cst.Set,
    cst.StarredElement,
)
_TOLD = frozenset(("tensor", "batch", "accumulated", "module"))
"""Kinds of which the origin matters."""
_FREE = frozenset(("number", "bool", "shape"))
"""Kinds that a rule about waiting is silent about."""
_RANK = {"tensor": 0, "accumulated": 0, "batch": 1, "loader": 1, "module": 2, "?": 3}
"""Order in which beliefs are told: tensors matter most."""


class Beliefs:
    """Says what the expressions of a file are held to be."""

    def __init__(self, module: Module, spots: Spots, filename: str) -> None:
        self.module = module
        self.spots = spots
        self.origins = Origins(module, spots, filename)

    def of(self, nodes: Iterable[cst.CSTNode]) -> tuple[Belief, ...]:
        """Return what is held of the expressions among some nodes; what says the same twice is told
        once."""
        told: dict[tuple[str, str], Belief] = {}
        given: dict[str, Belief] = {}
        for node in nodes:
            if self.worth(node):
                belief = self.belief(node)
                if isinstance(node, cst.Name) and is_bound(self.module, node):
                    given.setdefault(belief.expression, belief)
                else:
                    told.setdefault((belief.expression, belief.words), belief)
        read = {expression for expression, _ in told}
        for expression, belief in given.items():
            if (expression, belief.words) not in told:
                later = ", from here on" if expression in read else ""
                told[expression, belief.words] = replace(belief, words=belief.words + later)
        return tuple(
            sorted(told.values(), key=lambda each: (_RANK.get(each.kind, 4), each.row, each.column))
        )

    def worth(self, node: cst.CSTNode) -> bool:
        """Say whether an expression is one that people ask about: no literal, import, keyword or
        function's name."""
        if not isinstance(node, cst.BaseExpression) or isinstance(node, _SKIPPED):
            return False
        above = self.module.parent(node)
        if self._is_label(node, above):
            return False
        if isinstance(node, cst.Subscript) and is_bound(self.module, node):
            return False  # it is written, not read
        if self.module.name(node) is not None and not isinstance(node, cst.Call):
            return False
        value = inferred(self.module, node)
        if (
            value.kind == "?"
            and isinstance(node, cst.Call)
            and _library(self.module.name(node.func))
        ):
            return False
        if isinstance(node, cst.UnaryOperation) and isinstance(node.expression, cst.BaseNumber):
            return False
        if value.kind == "bool" and not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        if isinstance(above, cst.Expr) and value.kind == "?":
            return False  # a call that is made for what it does
        if (
            isinstance(above, cst.Assign)
            and len(above.targets) == 1
            and isinstance(above.targets[0].target, cst.Name)
        ):
            return False  # the name that it is given to says the same
        called = isinstance(above, cst.Call) and above.func is node
        return not (called and value.kind != "module") and value.kind not in (
            "function",
            "class",
            "none",
            "str",
        )

    def _is_label(self, node: cst.BaseExpression, above: cst.CSTNode | None) -> bool:
        """Say whether an expression is the name of something that is declared, imported or passed
        by keyword."""
        if is_name(node, "self", "cls"):
            return True
        if isinstance(above, cst.Attribute) and above.attr is node:
            return True
        if (
            isinstance(above, (cst.Arg, cst.Param))
            and getattr(above, "keyword", getattr(above, "name", None)) is node
        ):
            return True
        if isinstance(
            above, (cst.FunctionDef, cst.ClassDef, cst.ImportAlias, cst.Import, cst.ImportFrom)
        ):
            return True
        declaring = (cst.Import, cst.ImportFrom, cst.Annotation)
        return any(isinstance(each, declaring) for each in self.module.ancestors(node))

    def belief(self, node: cst.CSTNode) -> Belief:
        """Return what is held of one expression."""
        value = inferred(self.module, node)
        span = self.spots.span(node)
        at = self.spots.index.position(span.start) if span is not None else None
        device = on_device(self.module, node)
        unsure = value.kind == "?" or (
            value.kind in ("tensor", "batch") and value.device is None and device is not True
        )
        return Belief(
            self.module.shown(node),
            at.row if at else 0,
            at.column if at else 0,
            value.kind,
            value.device,
            value.dtype,
            device if value.tensor else None,
            value.grad,
            self.words(node),
            self.origins.chain(node) if value.kind in _TOLD else (),
            self.origins.unknown(node, value) if unsure else "",
        )

    def sentence(self, node: cst.CSTNode) -> str:
        """Return what an expression is held to be, as a sentence with the reason where that is not
        known."""
        belief = self.belief(node)
        reason = f": {belief.unknown}" if belief.unknown else ""
        if belief.unknown.startswith("what "):
            return belief.unknown
        if belief.kind == "?":
            return f"it is not known what `{belief.expression}` is{reason}"
        if belief.kind in _FREE:
            reason = ": reading it waits for nothing"
        article = (
            "" if belief.kind in ("str", "none") else "an " if belief.words[0] in "aeiou" else "a "
        )
        words = belief.words.removesuffix(", on the host") if belief.kind in _FREE else belief.words
        return f"`{belief.expression}` is {article}{words}{reason}"

    def words(self, node: cst.CSTNode) -> str:
        """Return what an expression is held to be, as a noun with its particulars."""
        value = inferred(self.module, node)
        return ", ".join([self._noun(value), *self._particulars(value)])

    def _noun(self, value: Value) -> str:
        if value.tensor:
            return f"tensor {self._where_it_lives(value)}"
        if value.kind == "batch":
            unknown = "of a loader, not known to be on the accelerator"
            return f"batch {_PLACES.get(value.device or '', unknown)}"
        if value.kind == "?":
            return "not known"
        if value.kind == "module":
            named = "" if value.name == "loss" else _classes(value)
            return f"{'loss ' * (value.name == 'loss')}module{named}" + (
                f" {_PLACES[value.device]}" if value.device else ""
            )
        if value.kind == "device":
            return (
                "device: "
                f"{_PLACES.get(value.device or '', 'which one is not known').removeprefix('on ')}"
            )
        if value.kind in ("list", "tuple", "dict", "iterator"):
            item = value.item
            if item is None and value.items:
                return f"{value.kind} of {len(value.items)}"
            if item is None or item.kind not in _PLURAL or not item.device:
                return value.kind
            items = self._noun(item).replace(item.kind, _PLURAL[item.kind], 1)
            return f"{value.kind} of {items}"
        if value.kind in ("object", "optimizer"):
            return value.kind + _classes(value)
        return _KINDS.get(value.kind, value.kind)

    def _where_it_lives(self, value: Value) -> str:
        if value.device is not None:
            return _PLACES[value.device]
        if value.origin in ("model", "loss", "forward"):
            return (
                "where the model lives"
                if on_accelerator(self.module)
                else "(no accelerator is in sight in this file)"
            )
        if value.origin == "batch":
            return "of a batch, not known to be on the accelerator"
        return "whose device is not known"

    def _particulars(self, value: Value) -> Iterator[str]:
        if value.tensor or value.kind == "accumulated":
            if value.dtype is not None:
                yield _DTYPES.get(value.dtype, value.dtype)
            if value.rank is not None:
                yield "a single value" if value.rank == 0 else f"{value.rank}-dimensional"
            if value.grad is True:
                yield "with a gradient graph"


def _classes(value: Value) -> str:
    """Return the class of an instance, or those of which it may be one of; that of another file is
    held with its path."""
    names = [each.rpartition(":")[2] for each in (value.name or "").split(CLASSES)]
    return f" `{'` or `'.join(names)}`" if value.name else ""


def _library(name: str | None) -> bool:
    """Say whether a name is one of torch's or of Python's: what such a call makes for us has no
    kind worth telling."""
    return name is not None and name.startswith(("torch.", "builtins."))
