"""What operators have to do, beside torch's own counter of products and by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("msgspec")

import torch
from torch import nn
from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

from torchlint.profile.arithmetic import Work, has_formula, work
from torchlint.profile.limits import operators
from torchlint.profile.peaks import DOUBLE, FLOAT, HALF, peak
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.profile.sites import Sources
from torchlint.trace.stream import read


def counted(tmp_path: Path, program: Callable[[], Any]) -> Counter[str]:
    """Return the operations of a program's operators, as they are told of its trace."""
    with profile(record_shapes=True) as recorded:
        program()
    recorded.export_chrome_trace(str(tmp_path / "t.json"))
    trace = read(str(tmp_path / "t.json"))
    found = operators(Places(trace, Sources(())), Replay(trace), "")
    assert found is not None
    told: Counter[str] = Counter()
    for each in found.each:
        assert (each.flops is not None) == has_formula(each.name), each
        told[each.name] += each.flops or 0
    return told


def trained(module: nn.Module, *shape: int) -> Callable[[], Any]:
    x = torch.randn(*shape, requires_grad=True)
    return lambda: module(x).sum().backward()


def products() -> None:
    x, y = torch.randn(3, 5, 7, requires_grad=True), torch.randn(3, 7, 2, requires_grad=True)
    (x @ y).sum().backward()
    torch.baddbmm(torch.ones(5, 2), x, y)
    torch.ones(6, 4) @ torch.ones(4)


@pytest.mark.parametrize(
    "program",
    [
        trained(nn.Linear(16, 24), 4, 6, 16),
        products,
        trained(nn.Conv2d(4, 6, 3, stride=2, padding=1), 2, 4, 9, 11),
        trained(nn.Conv1d(4, 6, 5, dilation=2), 2, 4, 30),
        trained(nn.Conv3d(2, 3, 3, padding=1), 1, 2, 5, 6, 7),
        trained(nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), 2, 4, 7, 8),
    ],
    ids=["linear", "products", "conv2d", "conv1d", "conv3d", "transposed"],
)
def test_products_are_those_of_the_flop_counter(tmp_path: Path, program: Callable[[], Any]) -> None:
    program()
    with FlopCounterMode(display=False) as counter:
        program()
    of = {str(name): flops for name, flops in counter.get_flop_counts()["Global"].items()}
    told = counted(tmp_path, program)
    known = {"aten.mv": 2 * 6 * 4} if program is products else {}  # which it does not count
    for name, flops in {**of, **known}.items():
        assert told[name.replace(".", "::")] == flops > 0


def test_convolutions_in_groups_multiply_within_them_alone(tmp_path: Path) -> None:
    told = counted(tmp_path, trained(nn.Conv2d(6, 4, 3, groups=2), 2, 6, 8, 8))
    once = 2 * 2 * 36 * (4 * 3 * 9)
    assert told["aten::convolution"] == once
    assert told["aten::convolution_backward"] == 2 * once


def test_attention_counts_the_half_that_a_causal_one_computes(tmp_path: Path) -> None:
    attention, x = nn.functional.scaled_dot_product_attention, torch.randn(2, 4, 16, 8)
    name, whole = "aten::_scaled_dot_product_flash_attention_for_cpu", 4 * 2 * 4 * 16 * 16 * 8
    assert counted(tmp_path, lambda: attention(x, x, x))[name] == whole
    causal = counted(tmp_path, lambda: attention(x, x, x, is_causal=True))
    assert causal[name] == whole * 17 // 32
    x.requires_grad_()
    told = counted(tmp_path, lambda: attention(x, x, x).sum().backward())
    assert told[f"{name}_backward"] == whole * 5 // 2


def given(
    *tensors: Any, types: str = "float", strides: Any = None, values: Any = None
) -> list[str]:
    """Return what an operator is given, as the trace has it."""
    dims = [list(each) for each in tensors]
    kinds = types.split(",") if "," in types else [types if each else "Scalar" for each in dims]
    return [
        json.dumps(dims),
        json.dumps(kinds),
        json.dumps(strides) if strides else "",
        json.dumps(values) if values else "",
    ]


BATCH = (8, 4)


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("aten::relu", given(BATCH), Work(32, 256, FLOAT)),
        ("aten::relu", given(BATCH, types="c10::Half"), Work(32, 128, FLOAT)),
        ("aten::add", given(BATCH, (4,), ()), Work(32, 128 + 16 + 128, FLOAT)),
        ("aten::add", given((8, 1), (1, 4), ()), Work(32, 32 + 16 + 128, FLOAT)),
        ("aten::add", given(BATCH, BATCH, (), strides=[[4, 1], [0, 1], []]), Work(32, 272, FLOAT)),
        ("aten::mul", given(BATCH, (), BATCH), Work(32, 256, FLOAT)),  # the third is the result
        ("aten::mul", given(BATCH, BATCH, types="double"), Work(32, 768, DOUBLE)),
        ("aten::add_", given((), (), (), types="long,Scalar,Scalar"), Work(1, 16, FLOAT)),
        ("aten::eq", given(BATCH, BATCH), Work(32, 288, FLOAT)),
        ("aten::native_layer_norm", given(BATCH, (), (4,), (4,), ()), Work(32, 288, FLOAT)),
        ("aten::cudnn_batch_norm", given((2, 3, 5), (3,), (3,)), Work(30, 264, FLOAT)),
        ("aten::sum", given(BATCH, ()), Work(32, 128, FLOAT)),
        ("aten::copy_", given(BATCH, BATCH, types="c10::Half,float"), Work(0, 192, FLOAT)),
        ("aten::zero_", given(BATCH), Work(0, 128, FLOAT)),
        ("aten::native_dropout", given(BATCH, (), ()), Work(32, 288, FLOAT)),
        (
            "aten::_softmax",
            given(BATCH, (), (), types="c10::Half", values=["", "-1", "True"]),
            Work(32, 64 + 128, FLOAT),
        ),
        (
            "aten::index_select",
            given((9, 4), (), (5,), types="float,Scalar,long", values=["", "0", ""]),
            Work(0, 2 * 80 + 40, FLOAT),
        ),
        (
            "aten::mm",
            given((2, 3), (3, 5), types="c10::BFloat16"),
            Work(60, 2 * (6 + 15 + 10), HALF, matrices=True),
        ),
        (
            "flash_attn::_flash_attn_forward",
            given(*[(1, 16, 2, 8)] * 3, types="c10::Half", values=[*"     ", "False"]),
            Work(4 * 2 * 16 * 16 * 8, 4 * 512, HALF, matrices=True),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_operations_and_bytes_by_hand(name: str, shape: list[str], expected: Work) -> None:
    assert work(name, shape) == expected


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("aten::unheard_of", given(BATCH)),
        ("aten::add", ["[[[8, 4], [4]], []]", '["TensorList", "Scalar"]', "", ""]),
        ("aten::mm", given((2, 3))),
        ("aten::mm", given((2, 3), (3, 5), types="QInt8")),
        ("aten::mm", given((2, 3), (3, 5), types="long")),
        ("aten::relu", ["[[8, 4]", '["float"]', "", ""]),
        ("aten::convolution", given((2, 3, 8, 8), (4, 3, 3, 3))),  # old traces: without the stride
        ("aten::_softmax", given(BATCH, (), ())),
    ],
)
def test_what_is_not_known_is_not_guessed(name: str, shape: list[str]) -> None:
    assert work(name, shape) is None


def test_gpus_are_known_by_their_whole_names() -> None:
    for name in ("NVIDIA H100 80GB HBM3", "NVIDIA A10", "Tesla V100-SXM2-16GB", "NVIDIA L40S"):
        assert peak(name) is not None
    for name in ("NVIDIA H100 NVL", "NVIDIA A10G", "NVIDIA L40", "NVIDIA H200 NVL", "", "CPU"):
        assert peak(name) is None
