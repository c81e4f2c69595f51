"""The dtypes of torch, one row each, and what is asked of them. Data only; torch 2.13."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torchlint.semantic.torch.ops import values


class Dtype(NamedTuple):
    """A dtype: its number's kind in the words of `Value.dtype`, its size, its other name and its
    old tensor type.

    For those that have an old tensor type each operation exists, on each device.
    """

    name: str
    kind: str
    nbytes: int
    other: str | None = None
    legacy: str | None = None


DTYPES = (
    Dtype("bool", "bool", 1, None, "BoolTensor"),
    Dtype("uint8", "int", 1, None, "ByteTensor"),
    Dtype("int8", "int", 1, None, "CharTensor"),
    Dtype("int16", "int", 2, "short", "ShortTensor"),
    Dtype("int32", "int", 4, "int", "IntTensor"),
    Dtype("int64", "int", 8, "long", "LongTensor"),
    Dtype("float16", "half", 2, "half", "HalfTensor"),
    Dtype("bfloat16", "half", 2, None, "BFloat16Tensor"),
    Dtype("float32", "float", 4, "float", "FloatTensor"),
    Dtype("float64", "double", 8, "double", "DoubleTensor"),
    Dtype("complex64", "complex", 8, "cfloat"),
    Dtype("complex128", "complex", 16, "cdouble"),
    Dtype("uint16", "int", 2),
    Dtype("uint32", "int", 4),
    Dtype("uint64", "int", 8),
    Dtype("float8_e4m3fn", "float8", 1),
    Dtype("float8_e5m2", "float8", 1),
)
FULL = tuple(dtype for dtype in DTYPES if dtype.legacy)
"""Those for which each operation exists, on each device."""
CASTS = values("dtype", "method", "cast")
"""Methods that cast, by name, and to what."""
OTHER_NAMES = {dtype.other: dtype.name for dtype in DTYPES if dtype.other}
"""``float`` and the like, and what they stand for."""
LEGACY = {dtype.legacy: dtype.name for dtype in DTYPES if dtype.legacy}
"""The old tensor types, and their dtypes."""


def spelled(dtypes: Iterable[Dtype]) -> frozenset[str]:
    """Return the names under which torch has these dtypes: ``float32`` and ``float``."""
    return frozenset(name for dtype in dtypes for name in (dtype.name, dtype.other) if name)


def dotted(dtypes: Iterable[Dtype]) -> frozenset[str]:
    """Return their dotted names: ``torch.float32`` and ``torch.float``."""
    return frozenset(f"torch.{name}" for name in spelled(dtypes))


def of_kind(*kinds: str) -> tuple[Dtype, ...]:
    """Return the dtypes of these kinds of numbers."""
    return tuple(dtype for dtype in DTYPES if dtype.kind in kinds)


KINDS = {
    name: dtype.kind for dtype in DTYPES for name in dotted((dtype,)) if dtype.kind != "float8"
}
"""The kind of number that a dtype holds, by its dotted name; an 8-bit float is of no kind that has
a word."""
