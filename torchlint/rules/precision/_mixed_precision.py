"""Who would notice that ``torch.cuda.amp`` became ``torch.amp``: the old classes, their defaults
and their warnings.

Given the same arguments, ``torch.cuda.amp.autocast`` and ``torch.amp.autocast("cuda")`` do the same
(torch 2.13: ``torch/cuda/amp/autocast_mode.py``). They differ in the defaults: the old class has
``dtype=torch.float16`` and ``cache_enabled=True``, the new one takes over what an outer autocast or
``torch.set_autocast_dtype`` has set.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import binds_globally, starred_over
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.imports import import_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import reached_elsewhere
from torchlint.semantic.question import question
from torchlint.semantic.uses.observers import sees_itself

_BOUND = regex(r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+[\w., \t]+$", re.MULTILINE)
_RENAMED = regex(r"\bas\b")
_WORD = r"[\w.]+"
_DEVICE = r"(?:[\"']\w+[\"']|device_type[ ]?=[ ]?[\w.\"']+)"
_ENABLED = rf"enabled[ ]?=[ ]?{_WORD}"
_CACHED = rf"cache_enabled[ ]?=[ ]?{_WORD}"
_PLAIN = regex(
    rf"\bautocast\(\s*(?:{_DEVICE}|{_ENABLED}|{_CACHED}|{_WORD})?\s*(?:,\s*(?:{_ENABLED}|{_CACHED})\s*)*,?\s*\)"
    r"|\b(?:get_autocast_(?:cpu_|gpu_)?dtype|is_autocast_(?:cache_)?enabled|[sg]et_autocast_cache_enabled)\b"
)
"""Uses of autocast that set no dtype."""
_TYPED = regex(
    rf"\bautocast\(\s*(?:{_DEVICE}|(?:enabled|dtype)[ ]?=[ ]?{_WORD}|{_WORD})?\s*"
    rf"(?:,\s*{_WORD}\s*)?(?:,\s*(?:enabled|dtype)[ ]?=[ ]?{_WORD}\s*)*,?\s*\)"
    r"|\b(?:[sg]et_autocast_(?:cpu_|gpu_)?dtype|is_autocast_(?:cache_)?enabled)\b"
)
"""Uses of autocast that say nothing of the cache."""
_PARTS_ONLY = (
    r"(?!monai\.(?:networks|losses|metrics|transforms|data|utils)\b"
    r"|transformers(?:\.models[\w.]*)?\s+import\s+(?![^\n]*Trainer)\w[\w., \t]*$)"
)
"""What of two libraries holds layers, losses and tokenizers alone."""
_CALLS_US = regex(
    rf"^[^\S\n]*(?:import|from)\s+{_PARTS_ONLY}(?:lightning|pytorch_lightning|accelerate|transformers|ignite|fastai|deepspeed|composer"
    r"|catalyst|apex|mmengine|mmcv|fairseq|detectron2|diffusers|peft|trl|torchtnt|monai"
    r"|ultralytics)\b",
    re.MULTILINE,
)
_SETS_DTYPE = regex(r"set_autocast_\w*dtype")
_BY_NAME = Wording(
    regex(
        r"\bgetattr\(\s*torch|\battrgetter\b|\bimport_module\b|__import__|\bexec\("
        r"|(?<![.\w])eval\("
    ),
    ("getattr(", "attrgetter", "import_module", "__import__", "exec(", "eval("),
)
"""Ways to call what the text does not name."""
_KNOWN = sys.stdlib_module_names | frozenset(
    (
        "torch torchvision torchaudio torchmetrics torchinfo torchsummary torchlint numpy scipy "
        "pandas sklearn "
        "matplotlib seaborn tqdm PIL cv2 skimage imageio yaml omegaconf hydra wandb tensorboard "
        "tensorboardX einops "
        "nltk h5py nibabel psutil requests rich click fire typer termcolor tabulate "
        "torch_scatter albumentations"
    ).split()
)
"""Packages that call no function of a training program inside an autocast of their own."""
_NAMES = "autocast|GradScaler|custom_fwd|custom_bwd"
_REPLACED = Wording(
    regex(
        rf"[\"'.](?:{_NAMES})[\"']|\b(?:torch|cuda|cpu)\.amp[\"']|\bamp\.(?:{_NAMES})\s*=(?!=)"
        r"|\b(?:torch|cuda|cpu)\.amp\s*=(?!=)"
    ),
    (*_NAMES.split("|"), ".amp"),
)
_ASKED = regex(r"\b(?:has|get)attr\([^()]*\)")
_TAKES_SCALER = Wording(
    regex(r"_step_supports_amp_scaling|\bdef\s+step\([^)]*\b(?:grad_scaler|kwargs)\b"),
    ("_step_supports_amp_scaling", "step("),
)


def sets_dtype(text: str) -> bool:
    """Say whether a file sets the dtype that autocast has by default."""
    return _SETS_DTYPE.search(text) is not None


def names_cache(text: str) -> bool:
    """Say whether a file switches the cache of casts on or off, or asks for it.

    A library does so for a program that says `cache_enabled` only (`accelerate.AutocastKwargs`);
    the values are the same with and without.
    """
    return "cache_enabled" in text


def has_other_dtypes(text: str) -> bool:
    """Say whether a file may give an autocast another dtype than the old default; only plain uses
    do not."""
    return "autocast" in text and "autocast" in _PLAIN.sub("", _without_imports(text))


def has_other_caches(text: str) -> bool:
    """Say whether a file may give an autocast another cache than the old default."""
    return "autocast" in text and "autocast" in _TYPED.sub("", _without_imports(text))


def is_run_by_library(text: str) -> bool:
    """Say whether a file imports a library that may run the project's code in an autocast of its
    own."""
    return _CALLS_US.search(text) is not None


def calls_by_name(text: str) -> bool:
    """Say whether a file calls what its text does not name."""
    return _BY_NAME.search(text) is not None


def replaces_names(text: str) -> bool:
    """Say whether a file may put something else in the place of an old name; asking for one
    replaces nothing."""
    if _REPLACED.search(text) is None:
        return False  # as for nearly all texts, which is told much sooner so
    return _REPLACED.search(_ASKED.sub("", text)) is not None


def takes_scaler(text: str) -> bool:
    """Say whether an optimizer of a file is handed the scaler by `GradScaler.step`."""
    return _TAKES_SCALER.search(text) is not None


def _without_imports(text: str) -> str:
    return _BOUND.sub(lambda found: found[0] if _RENAMED.search(found[0]) else "", text)


@question(ground=True)
def only_known_callers(module: Module) -> bool:
    """Say whether all that the file imports is its own project's, or known to call no code of ours
    inside an autocast."""
    for node in module.nodes(cst.Import, cst.ImportFrom):
        if isinstance(node, cst.ImportFrom):
            names = ["." * len(node.relative) + (dotted_text(node.module) or "")]
        else:
            assert isinstance(node, cst.Import)
            names = [dotted_text(item.name) or "" for item in node.names]
        for name in names:
            if name.partition(".")[0] not in _KNOWN and not module.outside.is_ours(name):
                return False
    return True


def only_entered(module: Module, use: cst.BaseExpression) -> bool:
    """Say whether nothing sees a new context but who enters it: ``with`` without ``as``, a
    decorator, an ExitStack."""
    node: cst.CSTNode = use
    above = module.parent(node)
    while isinstance(above, cst.IfExp) and above.test is not node:
        node, above = above, module.parent(above)
    if isinstance(above, cst.WithItem):
        return above.asname is None
    if isinstance(above, cst.Arg):
        call = module.parent(above)
        entered = isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
        return (
            entered
            and isinstance(call, cst.Call)
            and isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "enter_context"
            and isinstance(module.parent(call), cst.Expr)
        )
    return isinstance(above, cst.Decorator)


def private(module: Module, home: cst.CSTNode, names: Iterable[str]) -> bool:
    """Say whether no other file can see or bind names that a statement binds, and this one reads
    them by name only."""
    names = list(names)
    if sees_itself(module) or starred_over(module, home, names):
        return False
    for above in module.ancestors(home):
        if isinstance(above, cst.ClassDef):
            return False
        if isinstance(above, cst.FunctionDef):
            return not any(binds_globally(module, above, name) for name in names)
    return all(reached_elsewhere(module, name) is False for name in names)


def annotates(module: Module, home: cst.Import | cst.ImportFrom) -> bool:
    """Say whether an annotation names what an import binds: it may be read when the program
    runs."""
    names = () if isinstance(home.names, cst.ImportStar) else home.names
    for item in names:
        name = dotted_text(item.asname.name if item.asname is not None else item.name) or ""
        for read in reads_of(module, module.root, name.partition(".")[0]):
            if import_of(module, read) is home and any(
                isinstance(a, cst.Annotation) for a in module.ancestors(read)
            ):
                return True
    return False
