"""The arithmetic of operators of torch and the bytes that they read and write at least, from the
shapes and dtypes of what they were given.

A product and a sum are two operations. Whatever is no product counts one for each element of its
result: its bytes tell how long it takes. Each tensor is read once and each result written once, so
that an operator whose operands lie in a cache may be faster than its bytes say.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from torchlint.base.records import frozen
from torchlint.profile.peaks import DOUBLE, EIGHT, FLOAT, HALF

_SIZES = {
    **dict.fromkeys(("bool", "signed char", "unsigned char"), 1),
    **dict.fromkeys(("c10::Float8_e4m3fn", "c10::Float8_e5m2"), 1),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short", "short int"), 2),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("double", "long", "long int", "c10::complex<float>"), 8),
    "c10::complex<double>": 16,
}
"""Bytes of an element, by what the profiler calls its dtype."""
_KINDS = {"float": FLOAT, "c10::Half": HALF, "c10::BFloat16": HALF, "double": DOUBLE}
_FLOATS = frozenset({*_KINDS, "c10::Float8_e4m3fn", "c10::Float8_e5m2"})


@frozen
class Work:
    """What an operator has to do at least: operations, of matrices or not, of a kind that `peaks`
    knows, and bytes of memory."""

    flops: int
    nbytes: int
    kind: str
    matrices: bool = False


@frozen
class Tensor:
    """What an operator was given: its shape, its dtype, and how many of its elements differ in
    their place in memory."""

    shape: tuple[int, ...]
    dtype: str
    stored: int

    @property
    def nbytes(self) -> int:
        return self.stored * _SIZES[self.dtype]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


class Given:
    """The arguments of an operator: tensors by their place, and values as they were written."""

    def __init__(self, shape: Sequence[str]) -> None:
        dims, types, strides, values = (_loaded(text) for text in shape)
        self.values = values
        self.at: dict[int, Tensor] = {}
        for at, (of, dtype) in enumerate(zip(dims, types, strict=True)):
            stride = strides[at] if at < len(strides) else []
            if dtype in _SIZES and all(isinstance(size, int) for size in of):
                kept = [1 if not step else size for size, step in zip(of, stride, strict=False)]
                self.at[at] = Tensor(
                    tuple(of), dtype, math.prod(kept if len(kept) == len(of) else of)
                )
        self.known = "TensorList" not in types
        """Whether all dtypes are: those of lists are not recorded."""

    def __getitem__(self, at: int) -> Tensor:
        return self.at[at]

    def value(self, at: int) -> Any:
        """Return a value: a number, a truth or a list of these."""
        return json.loads(self.values[at].lower())

    def read(self, tensors: Iterable[Tensor] | None = None) -> int:
        """Return the bytes of tensors, of all where none are named."""
        return sum(each.nbytes for each in (self.at.values() if tensors is None else tensors))


def _loaded(text: str) -> list[Any]:
    return json.loads(text) if text else []


def work(name: str, shape: Sequence[str]) -> Work | None:
    """Return what an operator has to do; None where it is not known.

    Args:
        name: of the operator, as the profiler writes it.
        shape: what it was given, see `torchlint.trace.columns.Trace.shapes`.
    """
    formula = _FORMULAS.get(name)
    if formula is None:
        return None
    with suppress(LookupError, ValueError, TypeError, AttributeError):
        given = Given(shape)
        return formula(given) if given.known and given.at else None
    return None


def has_formula(name: str) -> bool:
    """Say whether it is known what an operator of this name does."""
    return name in _FORMULAS


def _kind_of_numbers(of: Tensor) -> str:
    return EIGHT if _SIZES[of.dtype] == 1 else _KINDS[of.dtype]


def _mm(first: int) -> Callable[[Given], Work]:
    """Return the formula of a product of two matrices, or of as many as a first dimension has."""

    def formula(given: Given) -> Work:
        left, right = given[first], given[first + 1]
        *batch, rows, inner = left.shape
        columns = right.shape[-1] if len(right.shape) > 1 else 1
        # What a product of matrices has to do, `times` over.
        times = math.prod(batch)
        written = times * rows * columns * _SIZES[left.dtype]
        flops = 2 * times * rows * inner * columns
        return Work(flops, given.read() + written, _kind_of_numbers(left), matrices=True)

    return formula


def _convolution(given: Given) -> Work:
    image, weight = given[0], given[1]
    stride, padding, dilation = (given.value(at) for at in (3, 4, 5))
    batch, _, *sizes = image.shape
    kernel = weight.shape[2:]
    if given.value(6):
        more = given.value(7)
        out = [
            (size - 1) * _value_at(stride, at) - 2 * _value_at(padding, at)
            + _value_at(dilation, at) * (kernel[at] - 1) + _value_at(more, at) + 1
            for at, size in enumerate(sizes)
        ]  # fmt: skip
        channels_out, seen = weight.shape[1] * given.value(8), sizes
    else:
        out = [
            (size + 2 * _value_at(padding, at) - _value_at(dilation, at) * (kernel[at] - 1) - 1)
            // _value_at(stride, at) + 1
            for at, size in enumerate(sizes)
        ]  # fmt: skip
        channels_out, seen = weight.shape[0], out
    flops = 2 * batch * math.prod(seen) * math.prod(weight.shape)
    written = batch * channels_out * math.prod(out) * _SIZES[image.dtype]
    return Work(flops, given.read() + written, _kind_of_numbers(image), matrices=True)


def _value_at(values: Sequence[int], at: int) -> int:
    return values[at] if len(values) > 1 else values[0]


def _convolution_backward(given: Given) -> Work:
    gradient, image, weight = given[0], given[1], given[2]
    seen = image if given.value(7) else gradient
    once = 2 * seen.shape[0] * math.prod(seen.shape[2:]) * math.prod(weight.shape)
    of_image, of_weight = given.value(10)[:2]
    nbytes = of_image * (gradient.nbytes + weight.nbytes + image.nbytes)
    nbytes += of_weight * (gradient.nbytes + image.nbytes + weight.nbytes)
    return Work(once * (of_image + of_weight), nbytes, _kind_of_numbers(image), matrices=True)


def _attention(causal: int, *, first: int = 0, heads: int = 1) -> Callable[[Given], Work]:
    """Return the formula of an attention.

    Args:
        causal: the place of what says whether the upper half is left out.
        first: that of the queries; keys, values, and in backward what was found, stand behind.
        heads: the dimension of heads; that of lengths is the other of the inner two.
    """

    def formula(given: Given) -> Work:
        q, k, v = (given[first + at] for at in range(3))
        length, others = q.shape[3 - heads], k.shape[3 - heads]
        flops = 2 * q.shape[0] * q.shape[heads] * length * others * (q.shape[-1] + v.shape[-1])
        if given.value(causal) and length == others:
            flops = flops * (length + 1) // (2 * length)
        size = q.shape[0] * q.shape[heads] * length * v.shape[-1] * _SIZES[q.dtype]
        read = given.read((q, k, v))
        if first:  # five products in the place of two; gradients as large as what they are of
            return Work(5 * flops // 2, 2 * read + 2 * size, _kind_of_numbers(q), matrices=True)
        return Work(flops, read + size, _kind_of_numbers(q), matrices=True)

    return formula


def _mapped(read: int) -> Callable[[Given], Work]:
    """Return the formula of an operator whose result has a value for each place of what it is
    given: its first arguments, of which `read` may be tensors; a later one is where it writes."""

    def formula(given: Given) -> Work:
        tensors = [each for at, each in given.at.items() if at < read]
        out = _broadcast_size(tensors)
        wide = [each for each in tensors if each.shape] or tensors
        wide = [each for each in wide if each.dtype in _FLOATS] or wide
        size = max(_SIZES[each.dtype] for each in wide)
        return Work(out, given.read(tensors) + out * size, _vector(given))

    return formula


def _softmax(given: Given) -> Work:
    image, wide = given[0], given.value(2)
    size = 4 if wide else _SIZES[image.dtype]
    return Work(image.elements, image.nbytes + image.elements * size, _vector(given))


def _compared(given: Given) -> Work:
    out = _broadcast_size(list(given.at.values()))
    return Work(out, given.read() + out, _vector(given))


def _dropped(given: Given) -> Work:
    image = given[0]
    return Work(image.elements, 2 * given.read() + image.elements, _vector(given))


def _broadcast_size(tensors: Sequence[Tensor]) -> int:
    """Return how many elements tensors have that are broadcast, or the largest of them."""
    most = max(len(each.shape) for each in tensors)
    shapes = [(1,) * (most - len(each.shape)) + each.shape for each in tensors]
    sizes = [set(column) - {1} for column in zip(*shapes, strict=True)]
    if all(len(each) <= 1 for each in sizes):
        return math.prod(next(iter(each), 1) for each in sizes)
    return max(each.elements for each in tensors)


def _vector(given: Given) -> str:
    double = any(each.dtype == "double" and each.shape for each in given.at.values())
    return DOUBLE if double else FLOAT


def _reduced(given: Given) -> Work:
    return Work(max(each.elements for each in given.at.values()), given.read(), _vector(given))


def _written(given: Given) -> Work:
    """Return what an operator does that writes its first argument from the others."""
    target = given[0]
    return Work(0, target.elements * _SIZES[target.dtype] + given.read() - target.nbytes, FLOAT)


def _selected(given: Given) -> Work:
    rows, index = given[0], given[2]
    elements = index.elements * math.prod(rows.shape) // rows.shape[given.value(1)]
    return Work(0, 2 * elements * _SIZES[rows.dtype] + index.nbytes, FLOAT)


def _embedded_backward(given: Given) -> Work:
    gradient = given[0]
    table = given.value(2) * gradient.shape[-1] * _SIZES[gradient.dtype]
    return Work(gradient.elements, given.read() + table, FLOAT)


def _with_in_place(names: str) -> list[str]:
    """Return operators with those that change their first argument."""
    return [f"aten::{name}{end}" for name in names.split() for end in ("", "_")]


def _named(names: str) -> list[str]:
    return [f"aten::{name}" for name in names.split()]


_UNARY = (
    "neg abs exp log sqrt rsqrt reciprocal square sin cos tanh erf sigmoid relu gelu silu "
    "leaky_relu elu hardtanh hardswish softplus round floor cumsum tril triu clamp_min clamp_max"
)
_BINARY = (
    "add sub mul div pow maximum minimum masked_fill threshold_backward gelu_backward "
    "silu_backward tanh_backward sigmoid_backward hardswish_backward leaky_relu_backward "
    "native_dropout_backward _softmax_backward_data _log_softmax_backward_data"
)
_TERNARY = "where addcmul addcdiv lerp clamp"
_WHOLE = (
    "native_layer_norm native_layer_norm_backward _fused_rms_norm native_group_norm "
    "native_group_norm_backward native_batch_norm native_batch_norm_backward cudnn_batch_norm "
    "cudnn_batch_norm_backward"
)
"""Operators by how many of their first arguments they read, and write a value for each place."""
_REDUCING = (
    "sum mean prod amax amin argmax argmin any all norm linalg_vector_norm var var_mean std "
    "logsumexp count_nonzero"
)
_FILLING = "copy_ fill_ zero_ normal_ uniform_ bernoulli_ random_ exponential_"
_FORMULAS: Mapping[str, Callable[[Given], Work]] = {
    **dict.fromkeys(
        ("aten::mm", "aten::bmm", "aten::mv", "aten::_int_mm", "aten::_scaled_mm"), _mm(0)
    ),
    **dict.fromkeys(
        ("aten::addmm", "aten::baddbmm", "aten::addmv", "aten::_addmm_activation"), _mm(1)
    ),
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention": _attention(4),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention(4),
    "aten::_scaled_dot_product_efficient_attention": _attention(6),
    "aten::_scaled_dot_product_cudnn_attention": _attention(6),
    "aten::_scaled_dot_product_flash_attention_backward": _attention(11, first=1),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention(7, first=1),
    "aten::_scaled_dot_product_efficient_attention_backward": _attention(11, first=1),
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention(14, first=1),
    "flash_attn::_flash_attn_forward": _attention(5, heads=2),
    "flash_attn::_flash_attn_backward": _attention(11, first=1, heads=2),
    **dict.fromkeys(_with_in_place(_UNARY), _mapped(1)),
    **dict.fromkeys(_with_in_place(_BINARY), _mapped(2)),
    **dict.fromkeys(_with_in_place(_TERNARY), _mapped(3)),
    **dict.fromkeys(_named(_WHOLE), _mapped(99)),
    **dict.fromkeys(_named("_softmax _log_softmax"), _softmax),
    **dict.fromkeys(
        _with_in_place("eq ne lt le gt ge isnan isinf logical_not logical_and logical_or"),
        _compared,
    ),
    "aten::native_dropout": _dropped,
    **dict.fromkeys(_named(_REDUCING), _reduced),
    **dict.fromkeys(_named(_FILLING), _written),
    "aten::index_select": _selected,
    "aten::embedding_dense_backward": _embedded_backward,
}
