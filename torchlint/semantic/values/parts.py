"""Attributes and items of tensors, batches, arrays and containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.calls import literal_key
from torchlint.semantic.code.tree import attr_of
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import META, TEXT_KEY, called
from torchlint.semantic.values import plain, records
from torchlint.semantic.values.backprop import part_text, place_text
from torchlint.semantic.values.calls import Calls
from torchlint.semantic.values.value import (
    ACCEL,
    BOOL,
    COUNTED,
    CPU,
    CUDA,
    INT,
    NDARRAY,
    PLAIN,
    SHAPE,
    UNKNOWN,
    Value,
)

if TYPE_CHECKING:
    pass


TENSORLIKE = ("tensor", "accumulated")
PARAM_GROUP = "param group"
_OF_GROUPS = frozenset(
    """alpha amsgrad betas capturable centered dampening differentiable eps foreach fused initial_lr
    lr maximize momentum nesterov rho weight_decay""".split()
)
"""Keys under which the optimizers of torch keep what they are constructed with."""
PARAMETERS = Value("list", item=Value("tensor", device=ACCEL, origin="param", grad=True))
"""What ``group["params"]`` holds; parameters live where the model does."""


def _is_text(node: cst.Subscript) -> bool:
    """Say whether a mapping is asked for what its key calls a text, or what describes a sample."""
    key = node.slice[0].slice
    return (
        isinstance(key, cst.Index)
        and isinstance(key.value, cst.SimpleString)
        and any(called(key.value.raw_value, each) for each in (TEXT_KEY, META))
    )


class Parts(Calls):
    """The part of the evaluator that knows what ``x.attr`` and ``x[i]`` are."""

    def part(self, holder: Value, attr: str) -> Value | None:
        """Return an attribute of a tensor, batch or array, or None where the holder does not
        decide."""
        if holder.kind in TENSORLIKE or holder.kind == "batch":
            return self._of_tensor(holder, attr)
        if holder.kind == "ndarray":
            return {"shape": SHAPE, "size": INT, "ndim": INT, "T": NDARRAY}.get(attr, NDARRAY)
        if holder.kind == "packed":
            return Value(
                "tensor",
                device=CPU if attr == "batch_sizes" else holder.device,
                dtype="int" if attr == "batch_sizes" else None,
            )
        if (
            holder.kind == "tuple"
            and attr in ("values", "indices")
            and holder.item is not None
            and holder.item.tensor
        ):
            # ``x.max(dim=1).values``
            return holder.items[1] if holder.items and attr == "indices" else holder.item
        if holder.holds_host:
            return holder.under(attr) or holder.item
        if holder.kind == "?" and attr in ("shape", "ndim"):
            # Arrays of all libraries keep them on the host.
            return SHAPE if attr == "shape" else INT
        if attr == "param_groups":
            return Value("list", item=Value("dict", name=PARAM_GROUP))
        if attr == "state" and holder.kind == "optimizer":
            return records.STATE
        if attr == "grad" and holder.kind == "?":
            # Only parameters have one; they live where the model does.
            return Value("tensor", device=holder.device or ACCEL, origin="param", grad=False)
        return None

    def _of_tensor(self, holder: Value, attr: str) -> Value:
        if attr == "shape":
            return SHAPE
        if attr == "device":
            return Value(
                "device", device=holder.device if holder.device in (CUDA, ACCEL, CPU) else ACCEL
            )
        if attr == "dtype":
            return Value("dtype")
        if attr in ("ndim", "nbytes", "itemsize", "batch_size", "num_graphs"):
            return INT
        if attr in ops.HOST_ATTRIBUTES:
            return BOOL
        if attr in ops.ALIASING_ATTRIBUTES or attr == "grad":
            grad = False if attr in ("data", "grad") else holder.grad
            # Parameters have one, and what is called a batch; they live where the model does.
            model = attr == "grad" and holder.origin in (None, "param")
            device = holder.device or (ACCEL if model else None)
            return holder.but(device=device, grad=grad, rank=None, loose=False)
        if (holder.kind == "batch" or holder.loose) and not called(attr, META):
            return Value(
                "tensor", device=holder.device, origin=holder.origin, grad=holder.grad, loose=True
            )
        return UNKNOWN

    def subscript(self, node: cst.Subscript) -> Value:
        found = self._item(node)
        above = self.values.tree.parents[node]
        if found.kind in COUNTED and attr_of(above) in ops.METHODS:
            return UNKNOWN  # Something else is added to it where this is not seen.
        if found.tensor and _is_text(node):  # ``batch["file_name"]``
            computed = found.grad and self.eval(node.value).kind == "dict"
            # No text has a graph: ``losses["path"]``.
            return found if computed else Value("?", device=CPU if found.device == CPU else None)
        return self.used(node, found)

    def used(self, node: cst.Attribute | cst.Subscript, found: Value) -> Value:
        """Return what the uses of a place in its function say, where nothing else is known:
        ``losses["total"].backward()``."""
        unplaced = found.tensor and found.device is None and found.origin is None
        if found.kind != "?" and not unplaced:
            return found
        text = part_text(node) if self.values.trains else place_text(node)
        use = self.values.uses(self.owner).get(text) if text is not None else None
        if use is None:
            return found
        if not unplaced:
            return use.but(device=found.device or use.device)
        root = node.value.value if isinstance(node.value, cst.Name) else ""
        bindings = self.values.names.tables.get(self.owner, {}).get(root, ())
        return found.but(origin=use.origin) if len(bindings) == 1 else found

    def _item(self, node: cst.Subscript) -> Value:
        holder = self.eval(node.value)
        indices = [self.eval(item.slice) for item in node.slice]
        single = node.slice[0].slice if len(node.slice) == 1 else None
        index = single.value if isinstance(single, cst.Index) else None
        if holder.kind in ("batch", "?") and (kept := holder.under(literal_key(node))) is not None:
            return kept
        if holder.kind in TENSORLIKE:
            return self._tensor_item(holder, node, index, indices)
        if holder.kind == "batch":
            return Value("tensor", device=holder.device, origin="batch", loose=True)
        if holder.kind == "loader":
            return holder  # No loader has items: ``loaders["val"]`` is one of several.
        if holder.kind == "shape":
            return INT if index is not None else SHAPE
        if holder.kind == "ndarray":
            return NDARRAY
        return self._part_of(holder, node, index)

    def _part_of(
        self, holder: Value, node: cst.Subscript, index: cst.BaseExpression | None
    ) -> Value:
        """Return what a mapping, a list or options hold under an index."""
        key = literal_key(node)
        if holder.name == PARAM_GROUP:
            return PARAMETERS if key == "params" else PLAIN if key in _OF_GROUPS else UNKNOWN
        kept = plain.option(holder, node, key) if key is not None else None
        if kept is not None or holder.kind == "plain":
            return kept or PLAIN
        if holder.items is not None and isinstance(index, cst.Integer):
            position = index.evaluated_value
            return holder.items[position] if position < len(holder.items) else UNKNOWN
        if holder.kind == "dict" and key is not None:
            kept = holder.under(key) or records.stored(self.values, node, key, self.budget)
            if kept is not None:
                return kept
        if holder.kind == "?" and holder.item is not None:
            known = isinstance(index, (cst.Integer, cst.Name)) or holder.holds_host
            return holder.item if known else UNKNOWN
        if holder.kind in ("list", "tuple", "dict", "iterator"):
            if index is None and len(node.slice) == 1:
                return holder.but(items=None)
            return holder.item if holder.item is not None else UNKNOWN
        # What a mapping of tensors holds goes where the mapping is moved.
        return Value("?", device=holder.device) if holder.kind == "?" else UNKNOWN

    def _tensor_item(
        self,
        holder: Value,
        node: cst.Subscript,
        index: cst.BaseExpression | None,
        indices: list[Value],
    ) -> Value:
        if holder.loose and isinstance(index, cst.SimpleString):
            return Value(
                "tensor", device=holder.device, origin=holder.origin, grad=holder.grad, loose=True
            )
        rank = None
        if (
            holder.rank is not None
            and not holder.loose
            and all(
                isinstance(item.slice, cst.Index) and value.kind == "number"
                for item, value in zip(node.slice, indices, strict=True)
            )
        ):
            rank = max(holder.rank - len(indices), 0)
        # No list, and no mapping of tensors, takes a slice beside another index, or two numbers.
        several = len(node.slice) > 1 and (
            any(isinstance(item.slice, cst.Slice) for item in node.slice)
            or all(value.kind == "number" for value in indices)
        )
        return holder.but(rank=rank, node=None, item=None, loose=holder.loose and not several)
