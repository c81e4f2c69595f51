"""What GPUs can do at most, as their vendor says: dense rates, at boost clocks.

Beside a row stands the vendor's document that gives its figures. They were taken down as others
quote them, with no document open: hold a row against its document before you rest a claim on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torchlint.base.records import frozen

HALF, TF32, FLOAT, DOUBLE, EIGHT = "half", "tf32", "float", "double", "eight"
"""Kinds of arithmetic: matrices of float16 and bfloat16, of float32 in TF32, anything in float32
without matrix units, matrices of float64, of 8 bits."""


@frozen
class Peak:
    """A GPU's memory in GB/s and its arithmetic in TFLOP/s, by kind: what it does not have is not
    in it."""

    memory: float
    rates: Mapping[str, float]


def _peak(
    memory: float, half: float, tf32: float, single: float, double: float, eight: float
) -> Peak:
    rates = {HALF: half, TF32: tf32, FLOAT: single, DOUBLE: double, EIGHT: eight}
    return Peak(memory, {kind: rate for kind, rate in rates.items() if rate})


_PEAKS: tuple[tuple[str, Peak], ...] = (
    # NVIDIA Blackwell datasheet, a GPU of HGX B200: it says the rates with sparsity, twice these.
    (r"NVIDIA B200", _peak(7700, 2250, 1100, 75, 37, 4500)),
    # NVIDIA H200 Tensor Core GPU datasheet, SXM.
    (r"NVIDIA H200", _peak(4800, 989.4, 494.7, 66.9, 66.9, 1978.9)),
    # NVIDIA H100 Tensor Core GPU architecture (whitepaper), table 1: SXM5 and PCIe.
    (r"NVIDIA H100 80GB HBM3", _peak(3352, 989.4, 494.7, 66.9, 66.9, 1978.9)),
    (r"NVIDIA H100 PCIe", _peak(2039, 756, 378, 51.2, 51.2, 1513)),
    # NVIDIA A100 Tensor Core GPU datasheet, 80 GB; A100 architecture (whitepaper), table 1, 40 GB.
    (r"(?:NVIDIA )?A100-SXM4-80GB", _peak(2039, 312, 156, 19.5, 19.5, 624)),
    (r"NVIDIA A100 80GB PCIe", _peak(1935, 312, 156, 19.5, 19.5, 624)),
    (r"(?:NVIDIA )?A100-(?:SXM4-40GB|PCI[Ee]-40GB)", _peak(1555, 312, 156, 19.5, 19.5, 624)),
    # NVIDIA A10 Tensor Core GPU datasheet.
    (r"NVIDIA A10", _peak(600, 125, 62.5, 31.2, 0, 250)),
    # NVIDIA L4 Tensor Core GPU datasheet, which says the rates with sparsity: twice these.
    (r"NVIDIA L4", _peak(300, 121, 60, 30.3, 0, 242.5)),
    # NVIDIA L40S datasheet.
    (r"NVIDIA L40S", _peak(864, 362.05, 183, 91.6, 0, 733)),
    # NVIDIA T4 Tensor Core GPU datasheet: neither bfloat16 nor TF32 in its matrix units.
    (r"(?:Tesla|NVIDIA) T4", _peak(320, 65, 0, 8.1, 0, 130)),
    # NVIDIA V100 Tensor Core GPU datasheet: SXM2 and PCIe.
    (r"(?:NVIDIA )?(?:Tesla )?V100-SXM2-(?:16|32)GB", _peak(900, 125, 0, 15.7, 7.8, 0)),
    (r"(?:NVIDIA )?(?:Tesla )?V100-PCIE-(?:16|32)GB", _peak(900, 112, 0, 14, 7, 0)),
    # NVIDIA Ampere GA102 GPU architecture (whitepaper), table 2: sums in float32.
    (r"NVIDIA GeForce RTX 3090", _peak(936, 71, 35.6, 35.6, 0, 284)),
    # NVIDIA Ada GPU architecture (whitepaper), appendix A: sums in float32.
    (r"NVIDIA GeForce RTX 4090", _peak(1008, 165.2, 82.6, 82.6, 0, 660.6)),
)


def peak(device: str) -> Peak | None:
    """Return what a GPU can do at most, by the name that it gives itself; None for others."""
    return next((of for name, of in _PEAKS if re.fullmatch(name, device)), None)
