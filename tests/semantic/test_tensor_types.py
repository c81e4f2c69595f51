"""Old tensor types are values, and flags that stand for a device decide no place."""

from __future__ import annotations

import pytest

from tests.semantic.test_values import value_of
from torchlint.semantic.values.value import ACCEL, CPU, CUDA

PICKED = "T = torch.cuda.FloatTensor if gpu else torch.FloatTensor\n"
SET = "T = torch.FloatTensor\nif gpu:\n    T = torch.cuda.FloatTensor\n"
SPELLED = "T = 'torch.cuda.FloatTensor' if gpu else 'torch.FloatTensor'\n"


@pytest.mark.parametrize("types", [PICKED, SET])
def test_calling_a_type_makes_a_tensor_there(types: str) -> None:
    made = value_of(types + "probe(T(3, 4))")
    assert (made.kind, made.device, made.dtype) == ("tensor", ACCEL, "float")


@pytest.mark.parametrize(
    ("source", "device"),
    [
        (PICKED + "probe(torch.zeros(3).type(T))", ACCEL),
        (SET + "probe(torch.zeros(3).type(T))", ACCEL),
        (SPELLED + "probe(torch.zeros(3).type(T))", CUDA),
        ("probe(torch.zeros(3).type(torch.cuda.LongTensor))", CUDA),
        ("probe(torch.zeros(3).cuda().type(torch.FloatTensor))", CPU),
        ("probe(torch.zeros(3).cuda().type('torch.FloatTensor'))", CPU),
        ("probe(torch.zeros(3).cuda().type(torch.float16))", CUDA),
        ("probe(torch.zeros(3).type_as(torch.zeros(1).cuda()))", CUDA),
        ("probe(torch.zeros(3).cuda().type_as(torch.zeros(1)))", CPU),
        ("def f(x):\n    probe(torch.zeros(3).type_as(x))", None),
        ("def f(x):\n    probe(x.type(torch.cuda.FloatTensor))", CUDA),
        ("probe(torch.LongTensor(3, 4))", CPU),
        ("def f(n, m):\n    probe(torch.LongTensor(n, m))", CPU),
        ("def f(x):\n    probe(torch.Tensor(x))", CPU),
        ("def f(x):\n    probe(torch.as_tensor(x))", None),
        ("def f(x):\n    probe(torch.Tensor(x.size()))", CPU),
    ],
)
def test_a_type_says_where(source: str, device: str | None) -> None:
    assert value_of(source).device == device


@pytest.mark.parametrize(
    "flag",
    [
        "use_cuda",
        "args.cuda",
        "not no_cuda",
        "torch.cuda.is_available()",
        "y.is_cuda",
        "gpu >= 0",
        "use_cuda and torch.cuda.is_available()",
        "device.type == 'cuda'",
    ],
)
def test_a_move_behind_a_device_flag_is_one(flag: str) -> None:
    head = "def f(x, y, gpu, device, use_cuda, no_cuda, args):\n    x = torch.ones(3)\n    "
    assert value_of(f"{head}if {flag}:\n        x = x.cuda()\n    probe(x)").device == ACCEL
    assert value_of(f"{head}x = x.cuda() if {flag} else x\n    probe(x)").device == ACCEL


@pytest.mark.parametrize(
    ("flag", "device"),
    [
        ("use_cuda", CPU),
        ("not args.no_cuda", CPU),
        ("y.is_cuda and use_cuda", CPU),
        ("device.type != 'cpu'", CPU),
        ("device.type == 'cuda'", CPU),
        ("gpu is not None", CPU),
        ("gpu >= 0", CPU),
        ("not use_cuda", CUDA),
        ("args.cpu", CUDA),
        ("device.type == 'cpu'", CUDA),
        ("gpu is None", CUDA),
        ("gpu < 0", CUDA),
    ],
)
def test_a_copy_to_the_host_behind_a_device_flag(flag: str, device: str) -> None:
    head = "def f(y, gpu, device, use_cuda, args):\n    x = torch.ones(3).cuda()\n    "
    after = [
        value_of(f"{head}if {flag}:\n        x = x.cpu()\n    probe(x)").device,
        value_of(f"{head}x = x.cpu() if {flag} else x\n    probe(x)").device,
    ]
    assert [CUDA if each == ACCEL else each for each in after] == [device] * 2


@pytest.mark.parametrize("test", ["i > 5", "use_cuda and i > 5", "x.dim() == 2", "debug"])
def test_any_other_test_leaves_it_open(test: str) -> None:
    head = "def f(x, i, use_cuda, debug):\n    x = torch.ones(3)\n    "
    assert value_of(f"{head}if {test}:\n        x = x.cuda()\n    probe(x)").device is None
