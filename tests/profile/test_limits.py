"""What limits operators: arithmetic, memory or launches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec")

from tests.profile.test_lines import Run
from tests.trace.program import written
from torchlint.profile.limits import Operator, Operators, operators
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.profile.sites import Sources
from torchlint.trace.stream import read

H100 = "NVIDIA H100 80GB HBM3"
BIG = [[8192, 8192], [8192, 8192]]
"""A product that takes an H100 1.11 ms in bfloat16, and its bytes 0.12 ms."""
WIDE = [[16384, 8192], []]
"""Bytes for 0.32 ms in float32."""


def told(tmp_path: Path, run: Run, device: str = H100) -> Operators:
    trace = read(written(tmp_path / "t.json", run.events))
    found = operators(Places(trace, Sources(())), Replay(trace), device)
    assert found is not None
    return found


def one(tmp_path: Path, run: Run, device: str = H100) -> Operator:
    (only,) = told(tmp_path, run, device).each
    return only


def call(run: Run, name: str, dims: Any, dtype: str, work: int, kernel: str = "gemm") -> None:
    types = [dtype if size else "Scalar" for size in dims]
    with run.inside("cpu_op", name, **{"Input Dims": dims, "Input type": types}):
        run.launch(work, name=kernel)


def product(run: Run, work: int, dtype: str = "c10::BFloat16", kernel: str = "gemm") -> None:
    call(run, "aten::mm", BIG, dtype, work, kernel)


def test_arithmetic_limits_a_large_product(tmp_path: Path) -> None:
    run = Run()
    for _ in range(3):
        product(run, 1_500_000)
    found = one(tmp_path, run)
    assert (found.name, found.calls, found.kernels, found.ns) == ("aten::mm", 3, 3, 4_500_000)
    assert (found.shapes, found.dtypes) == ("8192x8192, 8192x8192", "bfloat16")
    assert found.flops == 3 * 2 * 8192**3
    assert found.limit == "arithmetic"
    assert found.share == pytest.approx(2 * 8192**3 / 989.4e12 / 1.5e-3)


def test_memory_limits_what_computes_little(tmp_path: Path) -> None:
    run = Run()
    for _ in range(3):
        call(run, "aten::relu", WIDE, "float", 400_000)
    found = one(tmp_path, run)
    assert found.limit == "memory"
    assert found.share == pytest.approx(2 * 4 * 16384 * 8192 / 3352e9 / 4e-4)


def small(run: Run, *, behind: int) -> None:
    """Run small operators, behind so much work."""
    if behind:
        run.launch(behind, name="other")
    for _ in range(5):
        call(run, "aten::relu", [[64, 64], []], "float", 2_000)


def test_launches_limit_small_operators_on_an_idle_device(tmp_path: Path) -> None:
    run = Run()
    run.launch(1_000)
    small(run, behind=0)
    assert one(tmp_path, run).limit == "launches"


def test_they_do_not_where_the_device_has_other_work(tmp_path: Path) -> None:
    run = Run()
    small(run, behind=1_000_000)
    assert one(tmp_path, run).limit == "memory"


def test_nor_where_the_device_works_longer_than_the_host(tmp_path: Path) -> None:
    run = Run()
    run.launch(1_000)
    for _ in range(3):
        product(run, 1_500_000)
        run.sync()
    assert one(tmp_path, run).limit == "arithmetic"


@pytest.mark.parametrize(
    ("dtype", "kernel", "rate"),
    [
        ("float", "sgemm_128x64", 66.9),
        ("float", "cutlass_80_tensorop_s1688gemm_128x128", 494.7),
        ("float", "ampere_sgemm_tf32_128x128", 494.7),
        ("double", "dgemm", 66.9),
    ],
)
def test_the_peak_is_that_of_the_dtype_and_its_kernel(
    tmp_path: Path, dtype: str, kernel: str, rate: float
) -> None:
    run = Run()
    product(run, 20_000_000, dtype, kernel)
    found = one(tmp_path, run)
    assert found.share == pytest.approx(2 * 8192**3 / rate / 1e12 / 20e-3)


def test_float32_that_is_too_quick_without_matrix_units_used_them(tmp_path: Path) -> None:
    run = Run()
    product(run, 4_000_000, "float", "nvjet")
    assert one(tmp_path, run).share == pytest.approx(2 * 8192**3 / 494.7e12 / 4e-3)


def test_no_share_is_above_the_peak(tmp_path: Path) -> None:
    run = Run()
    call(run, "aten::relu", WIDE, "float", 200_000)
    found = one(tmp_path, run)
    assert (found.limit, found.share, found.why) == (None, None, "from a cache")
    run = Run()
    product(run, 900_000)
    found = one(tmp_path, run)
    assert (found.limit, found.share, found.why) == (None, None, "computes less")


def test_an_unknown_gpu_has_figures_and_no_share(tmp_path: Path) -> None:
    run = Run()
    product(run, 1_500_000)
    found = told(tmp_path, run, "NVIDIA H100 NVL")
    assert found.why == "peak rates of NVIDIA H100 NVL are not known"
    (only,) = found.each
    assert (only.flops, only.limit, only.share) == (2 * 8192**3, None, None)
    run = Run()
    product(run, 1_500_000, "c10::Float8_e4m3fn")
    (only,) = told(tmp_path, run, "Tesla V100-SXM2-16GB").each
    assert (only.limit, only.why) == (None, "no peak of eight is known")


def test_kernels_belong_to_the_innermost_operator_that_is_known(tmp_path: Path) -> None:
    run = Run()
    args = {"Input Dims": BIG, "Input type": ["c10::BFloat16"] * 2}
    with (
        run.inside("cpu_op", "aten::linear", **args),
        run.inside("cpu_op", "aten::mm", **args),
        run.inside("cpu_op", "cublas::gemm"),
    ):
        run.launch(1_500_000)
    with run.inside("cpu_op", "mine::op"):
        run.launch(70_000)
    run.launch(50_000, name="ncclKernel_AllReduce")
    first, second = told(tmp_path, run).each
    assert (first.name, first.kernels) == ("aten::mm", 1)
    assert (second.name, second.flops, second.why) == ("mine::op", None, "not known")


def test_without_shapes_nothing_is_told(tmp_path: Path) -> None:
    run = Run()
    with run.inside("cpu_op", "aten::mm"):
        run.launch(1_500_000)
    trace = read(written(tmp_path / "t.json", run.events))
    assert operators(Places(trace, Sources(())), Replay(trace), H100) is None


def test_without_a_device_time_is_that_of_the_host(tmp_path: Path) -> None:
    run = Run()
    args = {"Input Dims": [[64, 64], []], "Input type": ["float", "Scalar"]}
    with run.inside("cpu_op", "aten::mean", **args), run.inside("cpu_op", "aten::sum", **args):
        run.host(5_000)
    found = told(tmp_path, run, "")
    assert found.why == "peak rates of a CPU are not known"
    (only,) = found.each  # aten::sum lies in aten::mean
    assert (only.name, only.kernels, only.ns, only.limit) == ("aten::mean", None, 9_000, None)


def test_on_a_cpu_operators_without_a_formula_are_listed_without_those_in_them(
    tmp_path: Path,
) -> None:
    run = Run()
    args = {"Input Dims": [[8, 8, 8, 8]], "Input type": ["float"]}
    with run.inside("cpu_op", "aten::max_pool2d", **args):
        run.host(1_000)
        with run.inside("cpu_op", "aten::max_pool2d_with_indices", **args):
            run.host(20_000)
            with run.inside("cpu_op", "aten::relu", **args), run.inside("cpu_op", "aten::empty"):
                run.host(3_000)
    found = told(tmp_path, run, "").each
    by_name = {of.name.removeprefix("aten::"): (of.flops, of.limit, of.why) for of in found}
    known, unknown = (512 * 8, None, "peak rates of a CPU are not known"), (None, None, "not known")
    assert by_name == {"max_pool2d_with_indices": unknown, "relu": known, "max_pool2d": unknown}
    assert sum(of.ns for of in found) == 1000 * max(event["dur"] for event in run.events)
