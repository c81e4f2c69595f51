"""Whether a program computes on Apple's device (MPS), which has no float64, no kernels for lists of
tensors (``torch._foreach_*``), and takes no pinned memory."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.named_tests import Holds
from torchlint.semantic.code.text import mentions
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question

_MPS = Wording(regex(r"\bmps\b"), ("mps",))
_CUDA = regex(r"cuda|nccl|\brank\b")
_DEVICE = regex(r"\bdevice\b")
_FOR_APPLE = Wording(
    regex(r"(\bdevice\s*(:[^=\n]+)?=\s*|\bdevice\(\s*|\.to\(\s*)[\"']mps\b"), ("'mps", '"mps')
)
"""What chooses Apple's device: ``device = "mps" if available else "cpu"``, ``x.to("mps")``."""
_FOR_NVIDIA = regex(r"cuda|\bgpus?\b|\bxpu\b|accelerat", re.IGNORECASE)


@question(
    yes="the program names Apple's device (MPS) alone, which takes no pinned memory",
    no="the program names no accelerator, or another one than Apple's",
    ground=True,
)
def only_apple(module: Module) -> bool:
    """Say whether the file chooses Apple's device and names no other accelerator, or names none and
    one of the files that it runs with does so, and all others name none."""
    if module.accelerator != "auto":
        return module.accelerator == "mps"
    if _names_another(module.text):
        return False
    say = module.outside.others_say
    return _for_apple(module.text) or (say(_for_apple) is True and say(_names_another) is False)


@question(ground=True)
def names_mps(module: Module) -> bool:
    """Say whether a file of the project names Apple's device."""
    return module.accelerator == "mps" or said_somewhere(module, Holds(_MPS))


@question(
    yes="the accelerator may be MPS, which has no float64",
    no="no file of the project speaks of MPS, and one of CUDA",
)
def may_be_mps(module: Module) -> bool:
    """Say whether a file of the project names the accelerator without float64, or a device is given
    by a caller and no file says that it is a CUDA device."""
    return names_mps(module) or (
        mentions(module, _DEVICE) and not said_somewhere(module, Holds(_CUDA))
    )


@question(ground=True)
def names_apple(module: Module, target: cst.BaseExpression | None) -> bool:
    """Say whether the device is Apple's and no other: there float64 is an error, so it cannot pass
    unseen."""
    text = module.source_of(sole_definition(module, target) or target) if target is not None else ""
    return "mps" in text and "cuda" not in text


def _for_apple(text: str) -> bool:
    return _FOR_APPLE.search(text) is not None


def _names_another(text: str) -> bool:
    return _FOR_NVIDIA.search(text) is not None
